//! Reading and writing vectors: round trips, real NumPy bytes, and every bad input with its message.

use maniple_command::Failure;
use maniple_command::arrays::{self, Target};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory of its own for each use.
fn directory() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{}-{count}", std::process::id()));
    fs::create_dir_all(&path).expect("a directory");
    path
}

fn file(name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = directory().join(name);
    fs::write(&path, bytes).expect("a file");
    path
}

/// The vector in a file, or the message.
fn read(path: &Path) -> Result<Vec<f64>, String> {
    arrays::read_vector(path).map_err(said)
}

/// Checks that a vector can be written.
fn prepare(path: &Path) -> Result<Target, String> {
    Target::prepare(path).map_err(said)
}

fn write(target: &Target, numbers: &[f64]) -> Result<(), String> {
    let mut writing = target.begin(numbers.len());
    // In two pieces, of which the first comes twice.
    let (first, rest) = numbers.split_at(numbers.len() / 2);
    writing.add(0, first);
    writing.add(0, if first.is_empty() { rest } else { first });
    writing.add(first.len(), rest);
    writing.finish().map_err(said)
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Usage(message) | Failure::Run(message) => message,
    }
}

/// The message about a file of these bytes, without its path.
fn fault(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = file(name, bytes);
    let message = read(&path).expect_err("a bad file");
    let message = message.strip_prefix(&format!("{}: ", path.display())).expect("the path first").to_owned();
    assert!(!message.contains('\n'), "{message}");
    message
}

/// A `.npy` file of version 1 with this header, unpadded.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// The bytes that `numpy.save` wrote for `np.array([1.5, -2.0, 1e-300])`.
const NUMPY_F8: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\
    \x20                                                           \n\
    \x00\x00\x00\x00\x00\x00\xf8\x3f\x00\x00\x00\x00\x00\x00\x00\xc0\x59\xf3\xf8\xc2\x1f\x6e\xa5\x01";

/// And for the same as `'>f4'` with a Fortran-order header in version 2 and in version 3: `[0.5, -3.25]`.
fn numpy_big_f4(version: u8) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0, 116, 0, 0, 0]);
    bytes.extend(format!("{:<115}\n", "{'descr': '>f4', 'fortran_order': True, 'shape': (2,), }").as_bytes());
    bytes.extend(b"\x3f\x00\x00\x00\xc0\x50\x00\x00");
    bytes
}

#[test]
fn files_that_numpy_wrote() {
    assert_eq!(NUMPY_F8.len(), 128 + 24, "the data of a NumPy file is aligned");
    assert_eq!(read(&file("a.npy", NUMPY_F8)).expect("fine"), [1.5, -2.0, 1e-300]);
    for version in [2, 3] {
        assert_eq!(read(&file("a.npy", numpy_big_f4(version))).expect("fine"), [0.5, -3.25]);
    }
    let little = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", &0.1_f32.to_le_bytes());
    assert_eq!(read(&file("a.npy", little)).expect("fine"), [f64::from(0.1_f32)]);
    let big = npy("{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }\n", &0.1_f64.to_be_bytes());
    assert_eq!(read(&file("a.NPY", big)).expect("fine"), [0.1]);
    // Python 2 wrote long numbers with an L, other programs other orders, quotes and blanks.
    let odd = npy("{\"shape\":(1L,),\"fortran_order\":False,\"descr\":\"<f8\"}", &7.0_f64.to_le_bytes());
    assert_eq!(read(&file("a.npy", odd)).expect("fine"), [7.0]);
}

#[test]
fn what_is_written_is_what_numpy_writes() {
    let path = directory().join("a.npy");
    write(&prepare(&path).expect("fine"), &[1.5, -2.0, 1e-300]).expect("fine");
    assert_eq!(fs::read(&path).expect("written"), NUMPY_F8);
}

#[test]
fn bad_npy() {
    let good = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n";
    let two = [0_u8; 16];
    let header = |header: &str| fault("a.npy", npy(header, &two));
    assert_eq!(read(&file("a.npy", npy(good, &two))).expect("fine"), [0.0, 0.0]);

    assert_eq!(fault("a.npy", ""), "expected at least one number, found an empty file");
    assert_eq!(fault("a.npy", "1.0\n2.0\n"), "expected a .npy file, which starts with \\x93NUMPY, found `1.0\\n2.`");
    assert_eq!(fault("a.npy", b"\x93NUMPY\x04\x00zz"), "expected version 1.0, 2.0 or 3.0 of the format, found 4.0");
    assert_eq!(fault("a.npy", b"\x93NUMPY\x01\x01zz"), "expected version 1.0, 2.0 or 3.0 of the format, found 1.1");
    let cut = "expected the length of the header, found the end of the file (it is truncated)";
    for bytes in
        [&b"\x93NUMPY"[..], b"\x93NUMPY\x01", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00v", b"\x93NUMPY\x02\x00v\0\0"]
    {
        assert_eq!(fault("a.npy", bytes), cut);
    }
    assert_eq!(
        fault("a.npy", b"\x93NUMPY\x03\x00\xff\xff\xff\xff{}"),
        "expected a header of 4294967295 bytes, found 2 bytes (the file is truncated)"
    );

    let type_message = |found: &str| format!("expected the type '<f8', '>f8', '<f4' or '>f4', found {found}");
    for descr in ["<i8", "|b1", "<f2", "<c16", "|O", "<U3", "float64", "f8", "=f8", "", "|S8", "<f16"] {
        let found = header(&good.replace("<f8", descr));
        assert_eq!(found, type_message(&format!("'{descr}'")));
    }
    assert_eq!(header(&good.replace("'<f8'", "[('a', '<f8'), ('b', ['x'])]")), type_message("a structured type"));

    let shape = |shape: &str| header(&good.replace("(2,)", shape));
    assert_eq!(shape("(2, 1)"), "expected a 1-D array, found a 2-D array of shape (2, 1)");
    assert_eq!(shape("(1, 2, 1,)"), "expected a 1-D array, found a 3-D array of shape (1, 2, 1)");
    assert_eq!(shape("()"), "expected a 1-D array, found a 0-D array of shape ()");
    let empty = npy(&good.replace("(2,)", "(0,)"), &[]);
    assert_eq!(fault("a.npy", empty), "expected at least one number, found an array of shape (0,)");
    assert_eq!(shape("(3,)"), "expected 3 numbers of 8 bytes, found 16 bytes of data (the file is truncated)");
    assert_eq!(
        shape("(1,)"),
        "expected 1 numbers of 8 bytes, found 16 bytes of data (there is something after the array)"
    );
    assert_eq!(
        shape("(2305843009213693954,)"),
        "expected 2305843009213693954 numbers of 8 bytes, found 16 bytes of data (the file is truncated)"
    );

    let broken = "expected a header with descr, fortran_order and shape, found `";
    for wrong in [
        "",
        "\n",
        "{",
        "{}",
        "{'descr'",
        "{'descr': ",
        "{'descr': '<f8",
        "{'descr': '<f8'}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), ",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), } x",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), 'more': True}",
        "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f8' 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f8', 'fortran_order': None, 'shape': (2,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (+2,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': 2}",
        "{'descr': ('<f8', (2,)), 'fortran_order': False, 'shape': (2,)}",
        "{'descr': [('a', '<f8'), 'fortran_order': False, 'shape': (2,)}",
        "{'descr': True, 'fortran_order': False, 'shape': (2,)}",
        "{descr: '<f8', 'fortran_order': False, 'shape': (2,)}",
    ] {
        let found = header(wrong);
        assert!(found.starts_with(broken), "{wrong}: {found}");
    }
    let mut bytes = npy(good, &two);
    bytes[12] = 0xff;
    assert!(fault("a.npy", bytes).starts_with(broken));
    let data: Vec<u8> = [1.0, f64::NAN].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(fault("a.npy", npy(good, &data)), "index 1: expected a finite number, found NaN");
    let data: Vec<u8> = [f64::NEG_INFINITY, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(fault("a.npy", npy(good, &data)), "index 0: expected a finite number, found -inf");
}

#[test]
fn text_that_is_fine() {
    for (text, want) in [
        ("1\n2\n3\n", &[1.0, 2.0, 3.0][..]),
        ("1\n2", &[1.0, 2.0]),
        ("1\r\n-2.5e3\r\n", &[1.0, -2500.0]),
        ("  1 \n\t+.5\t\n", &[1.0, 0.5]),
        ("1\n2\n\n \r\n\n", &[1.0, 2.0]),
        ("\u{feff}7.\n", &[7.0]),
        ("-0\n", &[-0.0]),
    ] {
        for name in ["a.csv", "a.txt", "a.CSV"] {
            assert_eq!(read(&file(name, text)).expect(text), want, "{text:?}");
        }
    }
}

#[test]
fn bad_text() {
    let text = |text: &str| fault("a.csv", text);
    assert_eq!(text("1\n2\nabc\n4\n"), "line 3: expected one number a line, found `abc`");
    assert_eq!(text("x\n1\n"), "line 1: expected one number a line, found `x`");
    assert_eq!(text("1\n2,3\n"), "line 2: expected one number a line, found `2,3`");
    assert_eq!(text("1 2\n"), "line 1: expected one number a line, found `1 2`");
    assert_eq!(text("1\r2\r3"), "line 1: expected one number a line, found `1\\r2\\r3`");
    assert_eq!(text("1\n\n3\n"), "line 2: expected one number a line, found a blank line");
    assert_eq!(text("1\r\n \r\n3\r\n"), "line 2: expected one number a line, found a blank line");
    assert_eq!(text("\n1\n"), "line 1: expected one number a line, found a blank line");
    assert_eq!(text(""), "expected at least one number, found an empty file");
    for nothing in ["\n", "  \r\n\n", "\u{feff}"] {
        assert_eq!(text(nothing), "expected at least one number, found only blanks");
    }
    let quoted = r#"line 1: expected one number a line, found `"1.5" 'x' \n`"#;
    assert_eq!(text("\"1.5\" 'x' \\n\n2\n"), quoted);
    assert_eq!(text("1\nnan\n"), "line 2, index 1: expected a finite number, found `nan`");
    assert_eq!(text("-inf\n1\n"), "line 1, index 0: expected a finite number, found `-inf`");
    assert_eq!(text("1\n2\n1e999\n"), "line 3, index 2: expected a finite number, found `1e999`");
    let long = "z".repeat(1_000_000);
    assert_eq!(text(&long), format!("line 1: expected one number a line, found `{}…`", "z".repeat(40)));
    assert_eq!(fault("a.txt", b"1\n\xff\xfe\n"), "line 2: expected one number a line, found `\u{fffd}\u{fffd}`");
    assert_eq!(fault("a.txt", b"1\n\x002\n"), "line 2: expected one number a line, found `\\02`");
}

#[test]
fn paths_that_cannot_be_read() {
    let legal = "expected the extension .npy, .csv or .txt, found ";
    assert_eq!(fault("a.dat", "1\n"), format!("{legal}.dat"));
    assert_eq!(fault("data", "1\n"), format!("{legal}none"));
    let directory = directory();
    let message = |path: &Path| read(path).expect_err("unreadable");
    let missing = directory.join("none.csv");
    assert_eq!(
        message(&missing),
        format!("{}: can't be read: No such file or directory (os error 2)", missing.display())
    );
    let nested = directory.join("dir.csv");
    fs::create_dir(&nested).expect("a directory");
    let want = |can_not: &str| format!("{}: {can_not}: expected a regular file, found a directory", nested.display());
    assert_eq!(message(&nested), want("can't be read"));
    assert_eq!(prepare(&nested).expect_err("a directory"), want("can't be written"));
    // A file of 8 EiB without a byte on the disk.
    let sparse = directory.join("sparse.npy");
    let file = fs::File::create(&sparse).expect("a file");
    if file.set_len(1 << 42).is_ok() {
        assert!(message(&sparse).contains("reading it takes up to 12.0 TiB of memory, and "), "{}", message(&sparse));
    }
}

/// The tests of `Whole` have what else can't be written.
#[test]
fn paths_that_cannot_be_written() {
    let directory = directory();
    let message = |name: &str| {
        prepare(&directory.join(name)).expect_err("unwritable").replace(directory.to_str().expect("UTF-8"), "")
    };
    assert_eq!(message("none/a.csv"), "/none/a.csv: can't be written: No such file or directory (os error 2)");
    assert_eq!(message("a.f64"), "/a.f64: expected the extension .npy, .csv or .txt, found .f64");
    let locked = directory.join("locked.csv");
    fs::write(&locked, "1\n").expect("a file");
    let mut permissions = fs::metadata(&locked).expect("there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&locked, permissions).expect("set");
    assert_eq!(message("locked.csv"), "/locked.csv: can't be written: the file is read-only");
}

#[test]
fn preparing_changes_nothing_and_writing_replaces() {
    let directory = directory();
    let path = directory.join("a.txt");
    fs::write(&path, "old\n").expect("a file");
    let target = prepare(&path).expect("fine");
    assert_eq!(fs::read(&path).expect("there"), b"old\n");
    write(&target, &[1.0, 0.1, -1e-300, 1e300]).expect("fine");
    assert_eq!(fs::read_to_string(&path).expect("there"), "1.0\n0.1\n-1e-300\n1e300\n");
    let entries = fs::read_dir(&directory).expect("there").count();
    assert_eq!(entries, 1, "no temporary file stays");

    // The directory vanishes: the message comes, nothing panics.
    let gone = directory.join("gone");
    fs::create_dir(&gone).expect("a directory");
    let target = prepare(&gone.join("a.npy")).expect("fine");
    fs::remove_dir(&gone).expect("removed");
    assert!(write(&target, &[1.0]).expect_err("gone").contains("a.npy: can't be written: No such file"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn round_trips_keep_every_bit(bits in prop::collection::vec(any::<u64>(), 1..200)) {
        let numbers: Vec<f64> = bits.into_iter().map(f64::from_bits).filter(|x| x.is_finite()).collect();
        prop_assume!(!numbers.is_empty());
        let directory = directory();
        for name in ["a.npy", "a.csv", "a.txt"] {
            let path = directory.join(name);
            write(&prepare(&path).expect("fine"), &numbers).expect("fine");
            let back = read(&path).expect("fine");
            let same = back.iter().map(|x| x.to_bits()).eq(numbers.iter().map(|x| x.to_bits()));
            prop_assert!(same, "{name}");
        }
        fs::remove_dir_all(&directory).expect("removed");
    }

    /// Whatever is wrong with a file, the answer is a message.
    #[test]
    fn damaged_files_never_panic(at in 0_usize..152, to in any::<u8>(), len in 0_usize..160, name in 0_usize..2) {
        let mut bytes = NUMPY_F8.to_vec();
        bytes[at] = to;
        bytes.truncate(len);
        let path = file(["a.npy", "a.txt"][name], &bytes);
        let _ = read(&path);
        fs::remove_dir_all(path.parent().expect("a directory")).expect("removed");
    }

    #[test]
    fn headers_of_any_text_never_panic(header in "[{}()\\[\\]',:<f8 descrshapfotn_TFL0-9é]{0,60}") {
        let path = file("a.npy", npy(&header, &[0; 16]));
        prop_assert!(read(&path).is_err());
        fs::remove_dir_all(path.parent().expect("a directory")).expect("removed");
    }
}
