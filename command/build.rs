//! Keeps what only the build knows, for reports: the compiler, the target, the profile and the features.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let from_cargo = |name: &str| env::var(name).unwrap_or_default();
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().ok().filter(|output| output.status.success());
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let mut features: Vec<String> = env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-")))
        .collect();
    features.sort();
    println!("cargo::rustc-env=MANIPLE_RUSTC={}", version.trim());
    println!("cargo::rustc-env=MANIPLE_TARGET={}", from_cargo("TARGET"));
    println!("cargo::rustc-env=MANIPLE_PROFILE={}", from_cargo("PROFILE"));
    println!("cargo::rustc-env=MANIPLE_OPT_LEVEL={}", from_cargo("OPT_LEVEL"));
    println!("cargo::rustc-env=MANIPLE_FEATURES={}", features.join(","));
}
