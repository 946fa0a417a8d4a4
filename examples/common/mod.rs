//! What every example does beside its subject: read its arguments, compare with an answer found in another way, and
//! end with a code that says whether all is well.

use maniple::prelude::Error;
use maniple::runtime::FutureMap;
use std::fmt::Debug;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// What a figure sets in an example that it runs.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "few examples map")]
pub struct How {
    /// Whether nothing is done with a part until all have come.
    pub whole: bool,
    /// How many tasks map.
    pub tasks: usize,
    /// The times in virtual time of a task that maps, and of one that makes a part.
    pub takes: [Option<Duration>; 2],
}

impl How {
    /// Waits for all parts if nothing is to be done with one before.
    #[allow(dead_code, reason = "few examples are in figures")]
    pub async fn wait<T: Clone + 'static>(self, parts: &FutureMap<T>) -> Result<(), Error> {
        if self.whole {
            parts.all().await?;
        }
        Ok(())
    }
}

/// What an example does by itself.
#[allow(dead_code, reason = "few examples are in figures")]
pub const USUAL: How = How { whole: false, tasks: 1, takes: [None; 2] };

const USAGE: &str = "4 shards and one worker a core, unless told otherwise";

/// Runs an example with the arguments `[SHARDS [WORKERS]]` and prints what it returns.
#[allow(dead_code, reason = "some examples read files")]
pub fn main(example: fn(u32, u32) -> Result<String, Error>) -> ExitCode {
    run(false, |shards, workers, _| example(shards, workers))
}

/// The same for an example that reads a text: `[SHARDS [WORKERS [FILE...]]]`. Without files it is `text`.
#[allow(dead_code, reason = "most examples read none")]
pub fn main_with_text(text: &str, example: fn(u32, u32, Arc<str>) -> Result<String, Error>) -> ExitCode {
    let read = |file: &PathBuf| std::fs::read_to_string(file).map_err(|e| Error::user(format!("{file:?}: {e}")));
    run(true, |shards, workers, files| {
        let all = files.iter().map(read).collect::<Result<Vec<_>, _>>()?.join(" ");
        example(shards, workers, if files.is_empty() { text.into() } else { all.into() })
    })
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

/// One of several pieces of a text. They begin at the first blanks behind equal shares of it, but the first one at 0.
#[allow(dead_code, reason = "few examples read text")]
pub fn piece(text: &str, number: usize, pieces: usize) -> &str {
    let start = |number: usize| {
        let at = text.len() * number / pieces;
        let blank = text.bytes().skip(at).position(|b| b.is_ascii_whitespace());
        if number == 0 { 0 } else { blank.map_or(text.len(), |next| at + next) }
    };
    &text[start(number)..start(number + 1)]
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
