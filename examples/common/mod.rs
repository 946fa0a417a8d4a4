//! What every example does beside its subject: read its arguments, compare with an answer found in another way, and
//! end with a code that says whether all is well.

use maniple::prelude::Error;
use std::fmt::Debug;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

const USAGE: &str = "4 shards and one worker a core, unless told otherwise";

/// Runs an example with the arguments `[SHARDS [WORKERS]]` and prints what it returns.
#[allow(dead_code, reason = "some examples read files")]
pub fn main(example: fn(u32, u32) -> Result<String, Error>) -> ExitCode {
    run(false, |shards, workers, _| example(shards, workers))
}

/// The same for an example that reads files: `[SHARDS [WORKERS [FILE...]]]`.
#[allow(dead_code, reason = "most examples read none")]
pub fn main_with_files(example: fn(u32, u32, &[PathBuf]) -> Result<String, Error>) -> ExitCode {
    run(true, example)
}

fn run(has_files: bool, example: impl Fn(u32, u32, &[PathBuf]) -> Result<String, Error>) -> ExitCode {
    let usage = format!("usage: [SHARDS [WORKERS{}]]    {USAGE}", if has_files { " [FILE...]" } else { "" });
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match arguments.as_slice() {
        [help] if help == "-h" || help == "--help" => return print(&usage),
        [] => Ok((4, cores)),
        [shards] => positive("SHARDS", shards).map(|s| (s, cores)),
        [shards, workers, files @ ..] if files.is_empty() || has_files => {
            match files.iter().find(|file| !is_file(file)) {
                Some(file) => Err(format!("FILE must be a file that can be read, got `{file}`")),
                None => positive("SHARDS", shards).and_then(|s| Ok((s, positive("WORKERS", workers)?))),
            }
        }
        _ => Err("too many arguments".to_string()),
    };
    let (shards, workers) = match parsed {
        Ok(parsed) => parsed,
        Err(message) => {
            eprintln!("error: {message}\n{usage}");
            return ExitCode::from(2);
        }
    };
    let files: Vec<PathBuf> = arguments.iter().skip(2).map(PathBuf::from).collect();
    match example(shards, workers, &files) {
        Ok(result) => print(&result),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: the result cannot be written: {e}");
            ExitCode::FAILURE
        }
    }
}

fn is_file(name: &str) -> bool {
    std::fs::File::open(name).and_then(|file| file.metadata()).is_ok_and(|data| data.is_file())
}

fn positive(name: &str, text: &str) -> Result<u32, String> {
    match u32::from_str(text) {
        Ok(n @ 1..=4096) => Ok(n),
        _ => Err(format!("{name} must be a number from 1 to 4096, got `{text}`")),
    }
}

/// An error unless `came` is the `expected` answer.
pub fn verify<T: PartialEq + Debug>(what: &str, came: T, expected: T) -> Result<(), Error> {
    if came == expected {
        return Ok(());
    }
    Err(Error::user(format!("{what}: expected {expected:?}, got {came:?}")))
}
