//! Links Task Bench's library, whose directory is in the variable `TASK_BENCH`.

fn main() {
    println!("cargo::rerun-if-env-changed=TASK_BENCH");
    let Some(task_bench) = std::env::var_os("TASK_BENCH") else {
        // Enough for `cargo check`; linking needs the library.
        println!("cargo::warning=TASK_BENCH is not set: set it to Task Bench's directory, after `make -C core` there");
        return;
    };
    let core = std::path::Path::new(&task_bench).join("core");
    let library = core.join("libcore_s.a");
    assert!(library.exists(), "{} is missing: run `make -C {}`", library.display(), core.display());
    println!("cargo::rustc-link-search=native={}", core.display());
    println!("cargo::rustc-link-lib=static=core_s");
    println!("cargo::rustc-link-lib=dylib=stdc++");
}
