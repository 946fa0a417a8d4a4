//! Files that a user may name. Odd ones are refused; others are replaced as a whole or stay.

#![cfg(unix)]

use maniple_mapper::files::{Identity, Whole, append, read};
use std::fs;
use std::io::{Error, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_has_no_end_is_neither_read_nor_written() {
    let here = directory("odd");
    let (fifo, link) = (here.join("fifo"), here.join("link"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    symlink("/dev/zero", &link).unwrap();
    for (path, found) in [
        (&*fifo, "a device, a pipe or a socket"),
        (&link, "a device, a pipe or a socket"),
        (Path::new("/dev/full"), "a device, a pipe or a socket"),
        (&here, "a directory"),
    ] {
        let expected = format!("expected a regular file, found {found}");
        assert_eq!(read(path, 10).unwrap_err().to_string(), expected);
        assert_eq!(append(path).unwrap_err().to_string(), expected);
        assert_eq!(Whole::prepare(path).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_file_is_read_up_to_a_bound() {
    let file = directory("bound").join("a");
    fs::write(&file, [7; 10]).unwrap();
    assert_eq!(read(&file, 10).unwrap(), [7; 10]);
    assert_eq!(read(&file, 9).unwrap_err().to_string(), "expected at most 9 bytes, found more");
    assert!(read(&file, u64::MAX).is_err(), "there is no memory for that");
}

#[test]
fn what_fails_leaves_what_was_there() {
    let here = directory("whole");
    let file = here.join("a");
    let write = |text: &'static str| Whole::prepare(&file).unwrap().write(|out| out.write_all(text.as_bytes()));
    let failed = Whole::prepare(&file).unwrap().write(|out| {
        out.write_all(b"half")?;
        Err(Error::other("no more"))
    });
    assert_eq!((failed.unwrap_err().to_string(), names(&here).len()), ("no more".into(), 0));
    write("old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
    let failed = Whole::prepare(&file).unwrap().write(|out| {
        out.write_all(&[b'x'; 1 << 20])?;
        out.flush()?;
        assert_eq!(fs::read(&file)?, b"old");
        Err(Error::other("no more"))
    });
    assert!(failed.is_err());
    assert_eq!((fs::read(&file).unwrap(), names(&here)), (b"old".into(), vec!["a".to_owned()]));
    write("new").unwrap();
    assert_eq!((fs::read(&file).unwrap(), names(&here)), (b"new".into(), vec!["a".to_owned()]));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o604);
    // A new file has the permissions of any other new file.
    let (new, other) = (here.join("new"), here.join("other"));
    Whole::prepare(&new).unwrap().write(|out| out.write_all(b"1")).unwrap();
    fs::write(&other, "1").unwrap();
    assert_eq!(fs::metadata(new).unwrap().permissions(), fs::metadata(other).unwrap().permissions());
}

#[test]
fn links_lead_to_the_file_that_is_replaced() {
    let here = directory("links");
    let (file, link, hard) = (here.join("a"), here.join("link"), here.join("hard"));
    fs::write(&file, "old").unwrap();
    symlink("a", &link).unwrap();
    fs::hard_link(&file, &hard).unwrap();
    Whole::prepare(&link).unwrap().write(|out| out.write_all(b"new")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((fs::read(&file).unwrap(), fs::read(&hard).unwrap()), (b"new".into(), b"old".into()));
    let nothing = here.join("nothing");
    symlink("none", &nothing).unwrap();
    let expected = "expected a file or nothing, found a symbolic link to nothing";
    assert_eq!(Whole::prepare(&nothing).unwrap_err().to_string(), expected);
    assert_eq!(append(&nothing).unwrap_err().to_string(), expected);
    assert!(!here.join("none").exists());
}

#[test]
fn one_file_is_the_same_by_all_its_names() {
    let here = directory("identity");
    let file = here.join("a");
    fs::write(&file, "").unwrap();
    symlink(&file, here.join("link")).unwrap();
    symlink(&here, here.join("up")).unwrap();
    fs::hard_link(&file, here.join("hard")).unwrap();
    let of = |name: &str| Identity::of(&here.join(name)).unwrap();
    for other in ["link", "hard", "./a", "up/a"] {
        assert_eq!(of(other), of("a"), "{other}");
    }
    // Also files that do not exist yet.
    assert_eq!(of("new"), of("up/./new"));
    assert_ne!(of("new"), of("other"));
    assert_ne!(of("new"), of("a"));
    fs::write(here.join("b"), "").unwrap();
    assert_ne!(of("a"), of("b"));
    assert!(Identity::of(&here.join("none/a")).is_err());
    assert_eq!(Identity::of_directory(&file).unwrap(), of("up"));
}
