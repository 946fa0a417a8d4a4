//! Lines to stderr from processes that share it.

use std::io::Write;

/// Writes a line at once, so that lines of several processes do not mix.
pub fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("stderr is there");
}
