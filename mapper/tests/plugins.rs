//! Libraries that are no mappers, of another version, refuse or crash: each is one clear error, and nothing else happens.
//! They are built with the system's C compiler.
#![cfg(target_os = "linux")]

use maniple_mapper::{Machine, Mapper, MapperSpec, PlaceShardsInput, plugin, validate};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn directory() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libraries");
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Builds `tests/libraries/odd.c` with these macros.
fn built(name: &str, macros: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = directory().join(format!("lib{name}.so"));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu99", "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unused-const-variable"]);
    cc.args(["-shared", "-fPIC", "-o"]).arg(&path).arg("-I").arg(root.join("include"));
    cc.args(macros.iter().map(|m| format!("-D{m}"))).arg(root.join("tests/libraries/odd.c"));
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

fn loads(path: &Path) -> Arc<dyn Mapper> {
    plugin::load(path, "").unwrap_or_else(|e| panic!("{e}"))
}

/// The error without the path that it begins with.
fn refused(path: &Path) -> String {
    let error = plugin::load(path, "these options").map(|m| m.name().to_string()).expect_err("refused").to_string();
    let expected = format!("{}: ", path.display());
    error.strip_prefix(&expected).unwrap_or_else(|| panic!("{error}")).to_string()
}

#[test]
fn files_that_are_no_libraries() {
    let here = directory();
    assert_eq!(refused(&here.join("missing.so")), "can't be read: No such file or directory (os error 2)");
    assert_eq!(refused(&here), "not a shared library, but a directory");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(here.join(name), bytes).unwrap();
        here.join(name)
    };
    assert_eq!(
        refused(&write("text.so", b"just text, and more than a few bytes of it")),
        "not a shared library, but a file of another format"
    );
    assert_eq!(refused(&write("empty.so", b"")), "not a shared library, but a file of another format");
    let mut cut = std::fs::read(built("whole", &[])).unwrap();
    cut.truncate(100);
    assert!(refused(&write("cut.so", &cut)).starts_with("can't be loaded: "));
    cut[16] = 1;
    assert_eq!(refused(&write("object.so", &cut)), "not a shared library, but an object file or a program");
    assert_eq!(refused(Path::new("/dev/null")), "not a shared library, but no regular file");
}

#[test]
fn libraries_that_are_no_mappers() {
    let none = "not a mapper: it does not export `maniple_mapper_library` (see maniple_mapper.h)";
    assert_eq!(refused(&built("no-entry", &["NO_ENTRY"])), none);
    // One that others made.
    let of_the_system = Command::new("cc").arg("-print-file-name=libm.so.6").output().expect("a C compiler");
    assert_eq!(refused(Path::new(String::from_utf8_lossy(&of_the_system.stdout).trim())), none);
    assert_eq!(refused(&built("null", &["ENTRY_NULL"])), "not a mapper: `maniple_mapper_library` returns 0x0");
    let magic = refused(&built("magic", &["MAGIC=0xdeadbeefu"]));
    assert_eq!(
        magic,
        "not a mapper: `maniple_mapper_library` returns a table that begins with 0xdeadbeef, not 0x4d6e706c"
    );
}

#[test]
fn libraries_of_another_version() {
    for version in [0, 2, 1000] {
        let message = refused(&built(&format!("version{version}"), &[&format!("VERSION={version}")]));
        let expected = format!("built for version {version} of the mapper interface, and this program has version 1: ");
        assert!(message.starts_with(&expected) && message.contains("maniple_mapper.h"), "{message}");
    }
    let small = refused(&built("small", &["SIZE=64"]));
    assert!(
        small.starts_with("its table has 64 bytes, and version 1 of the mapper interface has at least 112"),
        "{small}"
    );
    // One that knows of calls to come is welcome.
    assert_eq!(loads(&built("large", &["SIZE=4096"])).name(), "odd");
}

#[test]
fn libraries_that_make_no_mapper() {
    assert_eq!(refused(&built("no-create", &["NO_CREATE"])), "its table has no `create`");
    assert_eq!(refused(&built("no-name", &["NO_NAME"])), "its table has no `name`");
    assert_eq!(refused(&built("name-null", &["NAME_NULL"])), "its mapper's name is null");
    let expected = "makes no mapper of the options `these options`: expected nothing, found these options";
    assert_eq!(refused(&built("refuses", &["CREATE_REFUSES"])), expected);
    let expected = "makes no mapper of the options `these options`: it says no more";
    assert_eq!(refused(&built("says-nothing", &["CREATE_SAYS_NOTHING"])), expected);
    let error = plugin::load(&built("fine", &[]), "a\0b").map(|_| ()).unwrap_err().to_string();
    assert!(error.ends_with("the options have a NUL byte in them"), "{error}");
}

#[test]
fn crashes_are_found_out_in_a_child_process() {
    for (macros, expected) in [
        ("CONSTRUCTOR_CRASHES", "crashed with signal 11 (SIGSEGV) while being loaded, when tried in a child process"),
        (
            "ENTRY_CRASHES",
            "crashed with signal 11 (SIGSEGV) in `maniple_mapper_library`, when tried in a child process",
        ),
        (
            "CREATE_ABORTS",
            "crashed with signal 6 (SIGABRT) in `create`, when tried in a child process; it wrote: out of luck",
        ),
        ("CREATE_EXITS", "ended the process with exit code 7 in `create`, when tried in a child process"),
    ] {
        assert_eq!(refused(&built(macros, &[macros])), expected);
    }
}

#[test]
fn a_library_that_hangs_is_given_up() {
    let began = Instant::now();
    let expected = "did not return within 10s in `create`, when tried in a child process";
    assert_eq!(refused(&built("hangs", &["CREATE_HANGS"])), expected);
    assert!(began.elapsed() >= Duration::from_secs(9));
}

#[test]
fn calls_that_fail_say_so() {
    let machine = Machine::new(4, 4);
    let input = PlaceShardsInput { gang: "all", shards: 3, machine: &machine };
    for (macros, expected) in [
        ("CALL_FAILS", "no place for 3 shards of all".to_string()),
        ("CALL_RETURNS_RUBBISH", "returned 42; legal: 0 (MANIPLE_OK), 1 (MANIPLE_FAILED)".into()),
        ("CALL_WRITES_NO_NUL", "x".repeat(256)),
        ("ANSWER_UNKNOWN", "illegal placement 9; legal: 0 (blocked), 1 (cyclic), 2 (explicit)".into()),
    ] {
        let path = built(macros, &[macros]);
        let mapper = loads(&path);
        let panic = catch_unwind(AssertUnwindSafe(|| mapper.place_shards(&input))).unwrap_err();
        assert_eq!(*panic.downcast::<String>().unwrap(), format!("{}: {expected}", path.display()));
    }
    let mapper = loads(&built("ANSWER_ILLEGAL", &["ANSWER_ILLEGAL"]));
    let error = validate::placement(mapper.name(), &input, mapper.place_shards(&input)).unwrap_err();
    let expected = "mapper `odd`, call place_shards for gang `all`: illegal processor of shard 0: 99; legal: 0..4";
    assert_eq!(error.to_string(), expected);
}

/// Without a directory in its path a library is one in the working directory, which a test must not change.
#[test]
fn specifications_of_libraries() {
    let path = built("spec", &[]);
    let spec: MapperSpec = format!("{},a=b,c", path.display()).parse().unwrap();
    assert_eq!(spec.load().unwrap().name(), "odd");
    assert!(Arc::ptr_eq(&spec.load().unwrap(), &spec.clone().load().unwrap()), "made once");
    let missing = "libnowhere.so,x".parse::<MapperSpec>().unwrap().load().map(|_| ()).unwrap_err().to_string();
    assert_eq!(missing, "mapper libnowhere.so: can't be read: No such file or directory (os error 2)");
}
