//! Mappers as the user gives them: by name, with options, and as shared libraries, including the ones of examples/.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn directory() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("plugins-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

/// Builds a library in C.
fn compiled(source: &str, name: &str, arguments: &[&str]) -> String {
    let path = directory().join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", "-shared", "-fPIC", "-o"]);
    cc.arg(&path).arg("-I").arg(root().join("plugin/include")).args(arguments).arg(root().join(source));
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path.to_str().expect("UTF-8").into()
}

/// The example in C.
static DEALER: LazyLock<String> = LazyLock::new(|| compiled("examples/plugin-c/mapper.c", "libdealer.so", &[]));

/// The example in Rust, built like this test and beside it.
static MEASURING: LazyLock<String> = LazyLock::new(|| {
    let built = Path::new(crate::MANIPLE).parent().expect("a profile's directory");
    let profile = match built.file_name().and_then(|name| name.to_str()).expect("UTF-8") {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["build", "--quiet", "--offline", "-p", "plugin-rust", "--profile", profile]);
    cargo.arg("--target-dir").arg(built.parent().expect("the target directory"));
    let output = cargo.output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    built.join("libplugin_rust.so").to_str().expect("UTF-8").into()
});

/// A small run with these further arguments.
fn stencil(mapper: &str, arguments: &[&str]) -> Output {
    let mut maniple = Command::new(crate::MANIPLE);
    maniple.args([
        "stencil",
        "--shards",
        "5",
        "--iterations",
        "20",
        "--repeat",
        "2",
        "--workers",
        "2",
        "--cells",
        "50",
    ]);
    maniple.args(["--mapper", mapper]).args(arguments).output().expect("starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn refused(mapper: &str, code: i32) -> String {
    let output = stencil(mapper, &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(code), ""), "{}", text(&output.stderr));
    text(&output.stderr).strip_prefix("maniple: error: ").expect("the form of all errors").trim_end().into()
}

/// The bits of the last vector of a run that succeeds.
fn bits(mapper: &str, name: &str, collective: &str) -> Vec<u8> {
    let file = directory().join(format!("{name}-{collective}.npy"));
    let path = file.to_str().expect("UTF-8");
    let output = stencil(mapper, &["--collective", collective, "--output", path, "--format", "csv"]);
    assert!(output.status.success(), "{mapper}: {}", text(&output.stderr));
    std::fs::read(file).expect("written")
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn every_mapper_gives_the_same_bits() {
    let mappers = [
        "collective",
        "first",
        "round-robin",
        "numa",
        "random",
        "random,seed=1",
        "random,seed=2",
        "random,seed=3",
        &DEALER,
        &format!("{},priority=7", *DEALER),
        &MEASURING,
        &format!("{},longer-than=0", *MEASURING),
        "logging,inner=random,seed=4",
    ];
    // Two levels group as shards are placed, and floats round accordingly.
    for collective in ["recursive-doubling", "aggregation"] {
        let expected = bits("default", "default", collective);
        assert_eq!(expected.len(), 128 + 5 * 50 * 8);
        for (i, mapper) in mappers.iter().enumerate() {
            assert!(bits(mapper, &i.to_string(), collective) == expected, "{mapper}, {collective}");
        }
    }
}

/// The decisions of a run.
fn decisions(mapper: &str, name: &str) -> Vec<Value> {
    let file = directory().join(format!("{name}.jsonl"));
    let output = stencil(&format!("logging,file={},inner={mapper}", file.display()), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = std::fs::read_to_string(file).expect("written");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn the_library_in_c_decides() {
    let all = decisions(&format!("{},priority=5", *DEALER), "dealer");
    let of = |call: &'static str| all.iter().filter(move |line| line["call"] == call);
    assert!(all.iter().all(|line| line["mapper"] == "dealer"));
    assert!(of("place_shards").count() > 0 && of("place_shards").all(|line| line["answer"] == "Cyclic"));
    assert!(of("map_collective").count() > 0 && of("map_collective").all(|line| line["answer"]["priority"] == 6));
    assert!(of("map_leaf").all(|line| line["answer"]["priority"] == 5));
    let on = |processor: u32| of("map_leaf").filter(|line| line["answer"]["processor"] == processor).count();
    assert!(on(0).abs_diff(on(1)) <= 2 && on(0) > 50, "in turn: {} and {}", on(0), on(1));
}

#[test]
fn the_library_in_rust_decides() {
    let all = decisions(&format!("{},longer-than=0", *MEASURING), "measuring");
    let of = |call: &'static str| all.iter().filter(move |line| line["call"] == call);
    assert!(all.iter().all(|line| line["mapper"] == "measuring"));
    let asked = of("map_leaf").filter(|line| line["answer"]["profile"] == true).count();
    assert!(asked >= 16 && of("profile").count() == asked, "{asked}, {}", of("profile").count());
    let sent = of("map_leaf").filter(|line| line["answer"]["processor"] != line["input"]["processor"]).count();
    assert!(sent > 50, "{sent}");
}

#[test]
fn reports_name_the_mapper_as_it_was_given() {
    let mapper = format!("{},priority=5", *DEALER);
    let json = stencil(&mapper, &["--format", "json"]);
    let first = text(&json.stdout).lines().next().expect("a line");
    let run: Value = serde_json::from_str(first).expect("JSON");
    assert_eq!((run["mapper"].as_str(), &run["verified"]), (Some(&mapper[..]), &true.into()));
    let csv = stencil("random,seed=7", &["--format", "csv"]);
    assert!(text(&csv.stdout).contains(",recursive-doubling,\"random,seed=7\",true,"), "{}", text(&csv.stdout));
    for program in ["collective --kind allreduce --chained --elements 1", "tasks", "barrier", "gang"] {
        let mut maniple = Command::new(crate::MANIPLE);
        maniple.args(program.split(' ')).args(["--repeat", "1", "--format", "csv", "--workers", "2"]);
        maniple.args(["--mapper", &mapper]);
        let output = maniple.output().expect("starts");
        assert!(output.status.success(), "{program}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(&format!("\"{mapper}\"")), "{program}: {}", text(&output.stdout));
    }
}

#[test]
fn what_is_wrong_with_a_mapper_is_one_message() {
    let missing = directory().join("libmissing.so");
    let expected = format!("mapper {}: can't be read: No such file or directory (os error 2)", missing.display());
    assert_eq!(refused(missing.to_str().expect("UTF-8"), 2), expected);
    for options in ["fast", "priority=8", "priority=-1", "priority=1,"] {
        let expected = format!(
            "mapper {}: did not make a mapper with the options `{options}`: expected priority=N, N below 8, found `{options}`",
            *DEALER
        );
        assert_eq!(refused(&format!("{},{options}", *DEALER), 2), expected);
    }
    let message = refused(&format!("{},longer-than=x", *MEASURING), 2);
    assert!(message.ends_with("`longer-than=x`: expected a number, found `x`"), "{message}");
    for (mapper, end) in [
        (
            "best",
            "unknown mapper `best`; expected one of default, collective, first, round-robin, numa, random, any, logging, the path of a shared library, or @FILE",
        ),
        ("default,x=1", "mapper default: unknown option `x=1`; it has none"),
        ("random,speed=1", "mapper random: unknown option `speed`; expected seed=N"),
        ("random,seed=x", "mapper random, option seed: expected a number, found `x`"),
        (
            "logging,inner=worst",
            "unknown mapper `worst`; expected one of default, collective, first, round-robin, numa, random, any, logging, the path of a shared library, or @FILE",
        ),
        (
            "logging,file=/nowhere/x",
            "mapper logging: /nowhere/x: can't be written: No such file or directory (os error 2)",
        ),
    ] {
        let message = refused(mapper, 2);
        assert!(message.contains(end), "{message}");
    }
    // One that fails later fails the run, not the program.
    let fails = compiled("plugin/tests/libraries/odd.c", "libfails.so", &["-DCALL_FAILS"]);
    let message = refused(&fails, 1);
    assert!(message.starts_with("the run failed: ") && message.contains("call place_shards"), "{message}");
    assert!(message.contains(&format!("{fails}: no place for 5 shards of ")), "{message}");
    let illegal = compiled("plugin/tests/libraries/odd.c", "libillegal.so", &["-DANSWER_ILLEGAL"]);
    let message = refused(&illegal, 1);
    assert!(message.contains("mapper `odd`, call place_shards for gang `"), "{message}");
    assert!(message.ends_with("illegal processor of shard 0: 99; legal: 0..2"), "{message}");
}

/// Nothing can catch an exception of another language: it is said whose it is.
#[test]
fn an_exception_that_leaves_a_library_names_it() {
    let unwinds = compiled("plugin/tests/libraries/odd.c", "libunwinds.so", &["-DCALL_UNWINDS", "-fexceptions"]);
    let output = stencil(&unwinds, &[]);
    let expected = format!("mapper {unwinds}: an exception left a call of this library, which none may: ");
    assert!(output.status.code().is_none() && text(&output.stdout).is_empty(), "{}", output.status);
    assert!(text(&output.stderr).starts_with(&expected), "{}", text(&output.stderr));
}
