//! Libraries that are not mappers, are of another version, or refuse their options. Each is one clear error, and nothing
//! else happens. They are built with the system's C compiler.
#![cfg(target_os = "linux")]

use maniple_mapper::*;
use maniple_plugin::load;
use maniple_regions::{Coherence, FieldId, Privilege, Rect, ReductionId, Region, TreeId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn directory() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libraries");
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Builds `tests/libraries/odd.c` with these macros.
fn built(name: &str, macros: &[&str]) -> PathBuf {
    compiled("odd.c", name, macros)
}

fn compiled(source: &str, name: &str, macros: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = directory().join(format!("lib{name}.so"));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu99", "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unused-const-variable"]);
    cc.args(["-shared", "-fPIC", "-o"]).arg(&path).arg("-I").arg(root.join("include"));
    cc.args(macros.iter().map(|m| format!("-D{m}"))).arg(root.join("tests/libraries").join(source));
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

fn loads(path: &Path) -> Arc<dyn Mapper> {
    load(path, "").unwrap_or_else(|e| panic!("{e}"))
}

/// The error without the path that it begins with.
fn refused(path: &Path) -> String {
    let error = load(path, "these options").map(|m| m.name().to_string()).expect_err("refused").to_string();
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
    // A file that is still being written. Loading it would crash.
    for length in [cut.len() - 1, cut.len() / 2, 100, 40, 20] {
        cut.truncate(length);
        assert_eq!(refused(&write("cut.so", &cut)), "not a shared library, but a file that is cut short", "{length}");
    }
    cut[16] = 1;
    assert_eq!(refused(&write("object.so", &cut)), "not a shared library, but an object file or a program");
    let whole = std::fs::read(built("whole", &[])).unwrap();
    // Another machine, 32 bits, and the other order of bytes.
    for (at, change) in [(18, &[243, 0][..]), (4, &[1]), (5, &[2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3])] {
        let mut other = whole.clone();
        other[at..at + change.len()].copy_from_slice(change);
        assert_eq!(refused(&write("other.so", &other)), "not a shared library, but one for another processor", "{at}");
    }
    assert_eq!(refused(Path::new("/dev/null")), "not a shared library, but no regular file");
    // A program that could be a library by its head: the loader tells them apart.
    assert!(refused(&std::env::current_exe().unwrap()).starts_with("can't be loaded: "));
    // A hole takes no space, but reading it would.
    let giant = write("giant.so", &std::fs::read(built("whole", &[])).unwrap());
    std::fs::File::options().write(true).open(&giant).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(refused(&giant), "not a shared library, but a file of 1099511627776 bytes; expected at most 1073741824");
    std::fs::remove_file(giant).unwrap();
}

/// Errors name the file that was given, not the copy that is loaded.
#[test]
fn a_library_that_needs_what_is_not_there() {
    let needs = built("needs", &["NEEDS_MORE"]);
    assert_eq!(refused(&needs), "can't be loaded: undefined symbol: maniple_needs");
    let (c, needed) = (directory().join("needed.c"), directory().join("libneeded.so"));
    std::fs::write(&c, "int maniple_needs(void) { return 1; }").unwrap();
    let shared = |arguments: &[&Path], output: &Path| {
        let mut cc = Command::new("cc");
        let name = output.file_name().unwrap().to_str().unwrap();
        cc.args(["-shared", "-fPIC", "-DNEEDS_MORE", &format!("-Wl,-rpath,$ORIGIN,-soname,{name}")]);
        let cc = cc.arg("-o").arg(output);
        let cc = cc.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
        assert!(cc.args(arguments).status().expect("a C compiler").success());
    };
    shared(&[&c], &needed);
    let odd = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libraries/odd.c");
    let beside = directory().join("libbeside.so");
    shared(&[&odd, &needed], &beside);
    let message = refused(&beside);
    assert!(message.starts_with("can't be loaded: libneeded.so: ") && message.contains("$ORIGIN"), "{message}");
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
    for version in [0, 1, 3, 1000] {
        let message = refused(&built(&format!("version{version}"), &[&format!("VERSION={version}")]));
        let expected = format!("built for version {version} of the mapper interface, and this program has version 2: ");
        assert!(message.starts_with(&expected) && message.contains("maniple_mapper.h"), "{message}");
    }
    let small = refused(&built("small", &["SIZE=64"]));
    assert!(
        small.starts_with("its table has 64 bytes, and version 2 of the mapper interface has at least 112"),
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
    assert_eq!(refused(&built("name-long", &["NAME_LONG"])), "its mapper's name is longer than 255 bytes");
    assert_eq!(refused(&built("name-no-text", &["NAME_IS_NO_TEXT"])), "its mapper's name is not UTF-8");
    let expected = "did not make a mapper with the options `these options`: expected nothing, found these options";
    assert_eq!(refused(&built("refuses", &["CREATE_REFUSES"])), expected);
    let expected = "did not make a mapper with the options `these options`: the library gave no message";
    assert_eq!(refused(&built("says-nothing", &["CREATE_SAYS_NOTHING"])), expected);
    let error = load(&built("fine", &[]), "a\0b").map(|_| ()).unwrap_err().to_string();
    assert!(error.ends_with("the options have a NUL byte in them"), "{error}");
}

#[test]
fn a_library_is_loaded_once_however_often_it_makes_a_mapper() {
    let path = built("once", &[]);
    let copies = || {
        let open =
            std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        open.filter(|target| target.to_string_lossy().contains("memfd:libonce.so")).count()
    };
    for _ in 0..5 {
        loads(&path);
        assert_eq!(copies(), 1);
    }
    // A library that the system's loader refuses leaves nothing behind.
    std::fs::copy(built("once-needs", &["NEEDS_MORE"]), &path).unwrap();
    for _ in 0..3 {
        refused(&path);
        assert_eq!(copies(), 1);
    }
    // A library that refuses the options stays loaded.
    std::fs::copy(built("once-refuses", &["CREATE_REFUSES"]), &path).unwrap();
    for _ in 0..3 {
        refused(&path);
        assert_eq!(copies(), 2);
    }
    std::fs::copy(built("once-more", &[]), &path).unwrap();
    loads(&path);
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

/// A priority in C has more bits than one in Rust. None of them is lost.
#[test]
fn a_priority_out_of_range_is_reported_as_it_came() {
    let machine = Machine::new(4, 4);
    for priority in ["8", "255", "256", "4000000000", "4294967295"] {
        let path = built(&format!("priority-{priority}"), &[&format!("ANSWER_PRIORITY={priority}u")]);
        let mapper = loads(&path);
        let leaf = LeafInput {
            task: "t",
            shard: 0,
            processor: ProcessorId(1),
            requirements: Requirements::listed(&[]),
            machine: &machine,
        };
        let exchange = CollectiveInput { collective: "total", shards: 2, bytes: 8, machine: &machine };
        let calls: [&dyn Fn(); 2] = [&|| _ = mapper.map_leaf(&leaf), &|| _ = mapper.map_collective(&exchange)];
        for call in calls {
            let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
            let expected = format!("{}: illegal priority {priority}; legal: 0..8", path.display());
            assert_eq!(*panic.downcast::<String>().unwrap(), expected);
        }
    }
}

/// A path without a directory is in the working directory, which a test must not change.
#[test]
fn specifications_of_libraries() {
    let path = built("spec", &[]);
    let spec: MapperSpec = format!("{},a=b,c", path.display()).parse().unwrap();
    assert_eq!(spec.load(&load).unwrap().name(), "odd");
    assert!(Arc::ptr_eq(&spec.load(&load).unwrap(), &spec.clone().load(&load).unwrap()), "made once");
    let missing = "libnowhere.so,x".parse::<MapperSpec>().unwrap().load(&load).map(|_| ()).unwrap_err().to_string();
    assert_eq!(missing, "mapper libnowhere.so: can't be read: No such file or directory (os error 2)");
    // A link, a name with spaces, and one with a version.
    let directory = directory().join("some where");
    std::fs::create_dir_all(&directory).unwrap();
    let link = directory.join("lib of mine.so.1");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let spec: MapperSpec = format!("{},a=b", link.display()).parse().unwrap();
    assert_eq!(spec.load(&load).unwrap().name(), "odd");
    assert!("libmine.so.1".parse::<MapperSpec>().is_ok() && "mine.sort".parse::<MapperSpec>().is_err());
}

/// Every call, to a library in C and back.
#[test]
fn every_call_reaches_a_library_in_c() {
    let path = compiled("every.c", "every", &[]);
    let (echoes, answers) = (load(&path, "echo").unwrap(), load(&path, "").unwrap());
    assert_eq!((echoes.name(), answers.name()), ("echoes", "answers"));
    let machine = &Machine::new(7, 3).with_utility(1);
    let field = FieldId(65_535);
    let region = Region::new(TreeId(9), Rect::new([-5, 6], [i64::MAX, 8]));
    let said = |call: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err().downcast::<String>().unwrap();
        panic.strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    };

    let input = PlaceShardsInput { gang: "gäng", shards: 3, machine };
    assert_eq!(said(&|| _ = echoes.place_shards(&input)), "1 3 gäng 0 machine(1 7 3 1)");
    assert_eq!(answers.place_shards(&input), Placement::Explicit([0, 10, 20].map(ProcessorId).into()));

    let reduce = Privilege::Reduce(ReductionId::new("sum"));
    let namers = [(6, Privilege::WriteDiscard), (5, Privilege::Read), (4, reduce), (3, Privilege::ReadWrite)];
    let namers = namers.map(|(processor, privilege)| (ProcessorId(processor), privilege));
    let input = PlaceSharedInput { region, field, namers: &namers, machine };
    let expected = "1 65535 5 region(9 -5..9223372036854775807 6..8) 6:2 5:0 4:3 3:1 machine(1 7 3 1)";
    assert_eq!(said(&|| _ = echoes.place_shared(&input)), expected);
    assert_eq!(answers.place_shared(&input), ProcessorId(11));

    let coherence = Coherence::Simultaneous;
    let found = Some(MemoryKind::Registered);
    let input = InstanceInput { region, field, bytes: 1 << 40, processor: ProcessorId(2), coherence, found, machine };
    let expected = "1 65535 region(9 -5..9223372036854775807 6..8) 1099511627776 2 2 2, 0 1 machine(1 7 3 1)";
    assert_eq!(said(&|| _ = echoes.map_instance(&input)), expected);
    assert_eq!(answers.map_instance(&input), InstanceChoice::Create(MemoryKind::Registered));

    let input = SourceInput { region, field, to: ProcessorId(4), holders: &[1, 5].map(ProcessorId), machine };
    let expected = "1 65535 region(9 -5..9223372036854775807 6..8) 1 5 to 4, 5 machine(1 7 3 1)";
    assert_eq!(said(&|| _ = echoes.select_source(&input)), expected);
    assert_eq!(answers.select_source(&input), ProcessorId(12));

    let input = KeepInput { region, field, bytes: 1 << 40, processor: ProcessorId(2), machine };
    let expected = "1 65535 region(9 -5..9223372036854775807 6..8) 1099511627776 2, 1 machine(1 7 3 1)";
    assert_eq!(said(&|| _ = echoes.keep_instance(&input)), expected);
    assert!(!answers.keep_instance(&input));

    let recipients = [(5, 7), (3, 3), (6, 3), (4, 0)].map(|(to, level)| (ProcessorId(to), Priority(level)));
    let (bytes, from) = (1 << 40, ProcessorId(2));
    let input = RouteInput { region, field, bytes, from, recipients: &recipients, machine };
    let expected =
        "1 65535 region(9 -5..9223372036854775807 6..8) 1099511627776 from 2 5:7 3:3 6:3 4:0 , 0 machine(1 7 3 1)";
    assert_eq!(said(&|| _ = echoes.route(&input)), expected);
    assert_eq!(answers.route(&input), Route::Tree(vec![0, 1, 2, 3]));
    let three = RouteInput { recipients: &recipients[..3], ..input };
    let expected = "illegal route 9; legal: 0 (binomial), 1 (linear), 2 (tree)";
    assert_eq!(said(&|| _ = answers.route(&three)), expected);

    let input = SliceInput { task: "t", shard: 8, processor: ProcessorId(4), points: 1 << 33, machine };
    assert_eq!(said(&|| _ = echoes.slice_index(&input)), "1 8 t 8589934592 4, 0 machine(1 7 3 1)");
    let slices = vec![(0..3, ProcessorId(4)), (3..usize::MAX, ProcessorId::ANYWHERE)];
    assert_eq!(answers.slice_index(&input), Slicing::Explicit(slices));

    let cube = Region::new(TreeId(1), Rect::new([1, 2, 3], [4, 5, 6]));
    let requirement = |region, privilege, coherence, memory| RequirementInput {
        region,
        field: FieldId(2),
        privilege,
        coherence,
        bytes: 77,
        memory,
    };
    let requirements = [
        requirement(&cube, reduce, Coherence::Atomic, machine.memory(ProcessorId(3), MemoryKind::Ordinary)),
        requirement(
            &region,
            Privilege::Read,
            Coherence::Simultaneous,
            machine.memory(ProcessorId(6), MemoryKind::Registered),
        ),
    ];
    let (requirements_of, node) = (Requirements::listed(&requirements), NodeId(2));
    let input = PlaceTaskInput { task: "täsk", requirements: requirements_of, node, nodes: 3, machine };
    let expected = "1 täsk 2 3 region(1 1..4 2..5 3..6) 2 3 1 1 3 77 1 \
         region(9 -5..9223372036854775807 6..8) 2 0 2 2 6 77 0 , 2 machine(1 7 3 1)";
    assert_eq!(said(&|| _ = echoes.place_task(&input)), expected);
    assert_eq!(answers.place_task(&input), NodeId(15));

    // Meant for a utility processor: the default answer is the nearest other one.
    let input = LeafInput {
        task: "leaf",
        shard: 1,
        processor: ProcessorId(5),
        requirements: Requirements::listed(&requirements),
        machine,
    };
    let expected = "1 1 leaf 5 region(1 1..4 2..5 3..6) 2 3 1 1 3 77 1 \
         region(9 -5..9223372036854775807 6..8) 2 0 2 2 6 77 0 , 4 3 1 0 0 0 machine(1 7 3 1)";
    assert_eq!(said(&|| _ = echoes.map_leaf(&input)), expected);
    let (priority, copies_in) = (Priority(7), MemoryKind::Registered);
    let copies = |copied| LeafOutput { processor: ProcessorId(13), priority, copied, copies_in, profile: true };
    assert_eq!(answers.map_leaf(&input), copies(vec![1]));
    assert_eq!(
        answers.map_leaf(&LeafInput { requirements: Requirements::listed(&[]), ..input.clone() }),
        copies(vec![])
    );
    let anywhere = answers.map_leaf(&LeafInput { shard: 77, ..input.clone() });
    assert_eq!(anywhere, LeafOutput { processor: ProcessorId::ANYWHERE, ..copies(vec![1]) });
    // Of many requirements, every third is shared.
    let coherence = |i| if i % 3 == 2 { Coherence::Simultaneous } else { Coherence::Exclusive };
    let memory = machine.memory(ProcessorId(5), MemoryKind::Ordinary);
    let many: Vec<_> = (0..30).map(|i| requirement(&cube, Privilege::Read, coherence(i), memory)).collect();
    let many = LeafInput { requirements: Requirements::listed(&many), ..input };
    assert_eq!(answers.map_leaf(&many), copies((2..30).step_by(3).collect()));

    let (placement, choices) = (&[3, 2].map(ProcessorId)[..], &[Algorithm::TwoLevel, Algorithm::Radix(4)][..]);
    let input = AlgorithmInput { collective: "total", kind: Kind::Allreduce, placement, bytes: 8, choices, machine };
    let expected = "1 total allreduce 8 3 2 two-level radix-4 , 0 machine(1 7 3 1)";
    assert_eq!(said(&|| _ = echoes.choose_algorithm(&input)), expected);
    assert_eq!(answers.choose_algorithm(&input), 14);

    let input = CollectiveInput { collective: "total", shards: 6, bytes: 64, machine };
    assert_eq!(said(&|| _ = echoes.map_collective(&input)), "1 6 total 64, 2 0 6 machine(1 7 3 1)");
    let memory = MemoryKind::Registered;
    let expected = CollectiveOutput { memory, access: Access::InPlace, priority: Priority(5) };
    assert_eq!(answers.map_collective(&input), expected);

    let input = ProfileInput { task: "leaf", shard: 1, processor: ProcessorId(2), waited_ns: 1 << 50, ran_ns: 3 };
    assert_eq!(said(&|| echoes.profile(&input)), "1 1 leaf 2 1125899906842624 3");
    answers.profile(&input);
}

/// A library whose table ends before a call leaves it to `collective`.
#[cfg(target_pointer_width = "64")]
#[test]
fn older_libraries_have_fewer_calls() {
    let machine = &Machine::new(4, 2);
    let (region, field) = (Region::new(TreeId(9), Rect::line(0, 8)), FieldId(0));
    let asked = |size: u32| {
        let path = compiled("every.c", &format!("every-{size}"), &[&format!("SIZE={size}")]);
        let mapper = load(&path, "").unwrap();
        let recipients = [1, 2].map(|p| (ProcessorId(p), Priority::NORMAL));
        let (bytes, from, processor) = (8, ProcessorId(0), ProcessorId(0));
        let requirements = Requirements::listed(&[]);
        let kept = mapper.keep_instance(&KeepInput { region, field, bytes, processor, machine });
        let task = PlaceTaskInput { task: "t", requirements, node: NodeId(1), nodes: 2, machine };
        let route = mapper.route(&RouteInput { region, field, bytes, from, recipients: &recipients, machine });
        (kept, mapper.place_task(&task).0, route)
    };
    assert_eq!(asked(112), (true, 1, Route::Binomial));
    assert_eq!(asked(120), (false, 1, Route::Binomial));
    assert_eq!(asked(128), (false, 15, Route::Binomial));
    assert_eq!(asked(136), (false, 15, Route::Tree(vec![0, 1])));
}
