//! The errors of files.

use crate::config::bytes;
use std::io;
use std::path::{Path, PathBuf};

/// A file with its fault.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub fault: Fault,
}

/// The fault of a file. Lines count from 1, indices from 0.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no format with this extension.
    #[error("expected the extension .npy, .csv, .txt or .f64, found {}", .0.as_ref().map_or("none".into(), |e| format!(".{e}")))]
    Extension(Option<String>),
    /// The file can't be read.
    #[error("can't be read: {0}")]
    Read(io::Error),
    /// The file can't be written.
    #[error("can't be written: {0}")]
    Write(io::Error),
    /// The file would not fit into memory.
    #[error("reading it takes up to {} of memory, and {} are available", bytes(u128::from(*.needed)), bytes(u128::from(*.available)))]
    TooLarge {
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        available: u64,
    },
    /// The file holds no number.
    #[error("expected at least one number, found an empty file")]
    Empty,
    /// A line is not a number.
    #[error("line {line}: expected one number a line, found `{text}`")]
    NotANumber {
        /// The line.
        line: usize,
        /// The text of the line.
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
        /// The index of the number.
        index: usize,
        /// Its line, in a text file.
        line: Option<usize>,
        /// The number as it is written.
        text: String,
    },
    /// The file does not have the format of its extension.
    #[error("expected {expected}, found {found}")]
    Malformed {
        /// The format's demand.
        expected: String,
        /// The content of the file.
        found: String,
    },
}

impl Fault {
    /// This fault in a file.
    pub(super) fn at(self, path: &Path) -> FileError {
        FileError { path: path.to_owned(), fault: self }
    }
}

/// Text from a file for a message: at most 40 characters. Those that can't be seen are escaped.
pub(super) fn shown(bytes: &[u8]) -> String {
    const MAX: usize = 40;
    // Four bytes a character at most; a character cut in two is beyond those shown.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MAX + 4)]);
    let more = if text.chars().nth(MAX).is_some() { "…" } else { "" };
    let quotes = |c| matches!(c, '"' | '\'' | '\\');
    let mut shown = String::new();
    text.chars().take(MAX).for_each(|c| if quotes(c) { shown.push(c) } else { shown.extend(c.escape_debug()) });
    shown + more
}
