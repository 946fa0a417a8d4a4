//! What can be wrong with a file.

use crate::config::bytes;
use std::io;
use std::path::{Path, PathBuf};

/// A file and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a file. Lines count from 1, indices from 0.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The extension stands for no format.
    #[error("expected the extension .npy, .csv, .txt or .f64, found {}", .0.as_ref().map_or("none".into(), |e| format!(".{e}")))]
    Extension(Option<String>),
    /// The system refuses to read it.
    #[error("can't be read: {0}")]
    Read(io::Error),
    /// The system refuses to write it.
    #[error("can't be written: {0}")]
    Write(io::Error),
    /// It would not fit into memory.
    #[error("reading it takes up to {} of memory, and {} are available", bytes(u128::from(*.needed)), bytes(u128::from(*.available)))]
    TooLarge {
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        available: u64,
    },
    /// It holds no number.
    #[error("expected at least one number, found an empty file")]
    Empty,
    /// A line is no number.
    #[error("line {line}: expected one number a line, found `{text}`")]
    NotANumber {
        /// The line.
        line: usize,
        /// What it says.
        text: String,
    },
    /// A line before the last number is blank.
    #[error("line {line}: expected one number a line, found a blank line")]
    Blank {
        /// The line.
        line: usize,
    },
    /// A number is NaN or infinite.
    #[error("{}index {index}: expected a finite number, found {text}", .line.map_or(String::new(), |line| format!("line {line}, ")))]
    NotFinite {
        /// Which number.
        index: usize,
        /// Its line, in a text.
        line: Option<usize>,
        /// What stands there.
        text: String,
    },
    /// The format is violated.
    #[error("expected {expected}, found {found}")]
    Malformed {
        /// What the format asks for.
        expected: String,
        /// What is there.
        found: String,
    },
}

impl Fault {
    /// Says in which file.
    pub(super) fn at(self, path: &Path) -> FileError {
        FileError { path: path.to_owned(), fault: self }
    }
}

/// Text from a file for a message: at most 40 characters, control characters escaped.
pub(super) fn shown(bytes: &[u8]) -> String {
    const MAX: usize = 40;
    // Four bytes a character at most; a character cut in two is beyond those shown.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MAX + 4)]);
    let more = if text.chars().nth(MAX).is_some() { "…" } else { "" };
    text.chars().take(MAX).flat_map(char::escape_debug).chain(more.chars()).collect()
}
