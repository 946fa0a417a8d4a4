#![cfg(unix)]
//! Tests of files that commands read and write, for any list of commands.

use super::maniple;
use crate::MANIPLE;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the program with something before it that the shell does, and something after it.
pub fn shell(before: &str, args: &str, after: &str) -> Output {
    let line = format!("{before} exec {MANIPLE} {args} {after}");
    Command::new("sh").args(["-c", &line]).output().expect("starts")
}

pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// A new directory for a test.
pub fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory");
    path
}

/// Each command has an option for a file, where `@` is. What is no regular file is refused before a run begins.
pub fn only_regular_files_are_read_and_written(commands: &[&str]) {
    let here = directory("odd");
    assert!(Command::new("mkfifo").arg(here.join("fifo")).status().expect("there").success());
    for (name, to) in [("zero", "/dev/zero"), ("full", "/dev/full")] {
        symlink(to, here.join(name)).expect("a link");
    }
    fs::create_dir(here.join("directory")).expect("a directory");
    for name in ["fifo", "zero", "full", "directory"] {
        for extension in [".csv", ".toml"] {
            symlink(name, here.join(format!("{name}{extension}"))).expect("a link");
        }
        for command in commands {
            let path = here.join(name);
            let command = command.replacen("@@", "@@@", 1);
            let (before, after) = command.rsplit_once('@').expect("a file");
            let command = format!("{}{}{after}", before.replace("@@", "@"), path.display());
            let output = maniple(&command);
            assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{command}: {}", stderr(&output));
            let expected = if name == "directory" { "a directory" } else { "a device, a pipe or a socket" };
            let expected = format!("expected a regular file, found {expected}");
            assert!(stderr(&output).contains(&expected), "{command}: {}", stderr(&output));
        }
    }
    assert!(!Path::new("never").exists());
}

/// Each command uses the file A, of this name, once more as B, and is refused, under all names that the file has.
pub fn one_file_has_one_use(cases: &[(&str, &str)]) {
    for (name, command) in cases {
        let here = directory("one");
        fs::create_dir(here.join("d")).expect("a directory");
        let (file, spec) = (here.join(*name), here.join("mapper"));
        fs::write(&spec, format!("logging,file={}", file.display())).expect("written");
        let text = match *name {
            "v.csv" => (0..40).map(|i| format!("{:?}\n", f64::from(i * i).sin())).collect(),
            "m.toml" => include_str!("../../machines/ideal.toml").to_owned(),
            "log" => String::new(),
            _ => "default".into(),
        };
        fs::write(&file, &text).expect("written");
        symlink(*name, here.join(format!("link-{name}"))).expect("a link");
        fs::hard_link(&file, here.join(format!("hard-{name}"))).expect("a link");
        let names = [(*name).into(), format!("d/../{name}"), format!("link-{name}"), format!("hard-{name}")];
        for other in names.map(|other| here.join(other)) {
            let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
            let line = command.replace("SPEC", &path(&spec)).replace('A', &path(&file)).replace('B', &path(&other));
            let output = shell("", &line, "");
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{line}: {said}");
            assert!(said.contains("both are the same file, and it is written"), "{line}: {said}");
            assert_eq!(fs::read_to_string(&file).expect("there"), text, "{line}");
        }
    }
}

/// No file may grow beyond a few kilobytes, as on a disk that fills up while a run goes on.
///
/// Each command writes a file beside F, and says whether the old file stays, and what it still prints.
pub fn a_disk_that_fills_up_fails_the_run_and_leaves_the_old_file(cases: &[(&str, bool, &str)]) {
    let here = directory("small");
    for (args, kept, printed) in cases {
        let file = here.join("F");
        let (old, new) = (here.join("F.npy"), here.join("F.new"));
        fs::write(&old, [0; 16]).expect("written");
        let line = args.replace('F', file.to_str().expect("UTF-8"));
        let output = shell("ulimit -f 4;", &line, "");
        assert_eq!(output.status.code(), Some(1), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains("File too large"), "{line}: {}", stderr(&output));
        assert!(!*kept || fs::read(&old).expect("there") == [0; 16], "{line}");
        assert!(!new.exists(), "{line}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(*printed), "{line}");
        let left =
            fs::read_dir(&here).expect("there").map(|e| e.expect("there").file_name().into_string().expect("UTF-8"));
        let left: Vec<String> = left.filter(|name| name.starts_with('.')).collect();
        assert!(left.is_empty(), "{line}: {left:?}");
    }
}

/// Every option of each command that takes a value, as its help has them, is refused if it is given twice. Returns how many
/// there are.
pub fn an_option_given_twice_is_refused(commands: &[&str]) -> usize {
    let help = |args: &str| String::from_utf8(maniple(&format!("{args} --help")).stdout).expect("UTF-8");
    let mut options = 0;
    for command in commands {
        for line in help(command).lines() {
            let Some((option, _)) = line.trim_start().split_once(" <").filter(|(o, _)| o.starts_with("--")) else {
                continue;
            };
            let option = option.split(',').next().expect("a name");
            // What one of them may be, as far as the value is looked at before.
            let values = [
                "2",
                "recursive-doubling",
                "default",
                "table",
                "threads",
                "none",
                "allreduce",
                "races",
                "sum",
                "tree",
                "poll",
                "founding",
                "reverse",
                "lost-arrival",
                "virtual",
                "memory=8",
                "f64",
                "any",
                "svg",
            ];
            let mut said = Vec::new();
            let refused = values.into_iter().any(|value| {
                let output = maniple(&format!("{command} {option} {value} {option} {value}"));
                said.push(stderr(&output).to_owned());
                assert_eq!(output.status.code(), Some(2), "{command} {option}: {said:?}");
                // The latter of what may be given for several values.
                let message = stderr(&output);
                message.contains("cannot be used multiple times") || message.contains("found allreduce twice")
            });
            options += 1;
            assert!(refused, "{command} {option}: {said:?}");
        }
    }
    options
}
