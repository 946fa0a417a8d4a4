//! Files with vectors: reading the first vector, writing the last.
//!
//! | extension | content |
//! |---|---|
//! | `.npy` | NumPy's format (versions 1 to 3), one-dimensional, 32- or 64-bit floats of either byte order |
//! | `.csv`, `.txt` | text, one number a line |
//! | `.f64` | 64-bit little-endian floats and nothing else |
//!
//! Extensions are recognised in upper case, too. Files are written with 64-bit little-endian floats, or as text with
//! enough digits to read the same bits back. All numbers read must be finite.

mod error;
mod npy;
mod text;

pub use error::{Fault, FileError};

use crate::host::available_memory;
use maniple_mapper::files;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The format of a file, given by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// NumPy's `.npy`.
    Npy,
    /// One number a line: `.csv` or `.txt`.
    Text,
    /// 64-bit little-endian floats: `.f64`.
    Raw,
}

impl Format {
    /// The format of a path.
    ///
    /// # Errors
    ///
    /// An unknown extension. The message lists the known ones.
    pub fn of(path: &Path) -> Result<Self, FileError> {
        let extension = path.extension().map(OsStr::to_string_lossy);
        match extension.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("npy") => Ok(Self::Npy),
            Some("csv" | "txt") => Ok(Self::Text),
            Some("f64") => Ok(Self::Raw),
            Some(_) => Err(Fault::Extension(extension.map(|e| e.into_owned())).at(path)),
            None => Err(Fault::Extension(None).at(path)),
        }
    }

    /// Bytes of memory that are needed at most to read one byte of a file: for the byte itself, and for the numbers.
    fn memory_factor(self) -> u64 {
        match self {
            Self::Raw => 2,
            Self::Npy => 3,
            Self::Text => 5,
        }
    }
}

/// Reads a vector of at least one number.
///
/// # Errors
///
/// The file can't be read, is not a regular file, does not have the format of its extension, is empty, or holds a NaN or an
/// infinity.
pub fn read(path: &Path) -> Result<Vec<f64>, FileError> {
    let format = Format::of(path)?;
    let unread = |e: io::Error| Fault::Read(e).at(path);
    let file = files::open(path).map_err(unread)?;
    let len = file.metadata().map_err(unread)?.len();
    let (needed, available) = (len.saturating_mul(format.memory_factor()), available_memory());
    if needed > available {
        return Err(Fault::TooLarge { needed, available }.at(path));
    }
    let bytes = files::read_from(file, len).map_err(unread)?;
    let numbers = match format {
        _ if bytes.is_empty() => Err(Fault::Empty),
        Format::Npy => npy::parse(&bytes),
        Format::Text => text::parse(&bytes),
        Format::Raw => raw(&bytes),
    };
    numbers.map_err(|fault| fault.at(path))
}

fn raw(bytes: &[u8]) -> Result<Vec<f64>, Fault> {
    let (numbers, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(Fault::Malformed {
            expected: "a multiple of 8 bytes".into(),
            found: format!("{} (the file is truncated)", bytes.len()),
        });
    }
    finite(numbers.iter().map(|b| f64::from_le_bytes(*b)))
}

/// Collects numbers, and checks that they are finite.
fn finite(numbers: impl ExactSizeIterator<Item = f64>) -> Result<Vec<f64>, Fault> {
    let check = |(index, x): (usize, f64)| {
        if x.is_finite() { Ok(x) } else { Err(Fault::NotFinite { index, line: None, text: format!("{x}") }) }
    };
    numbers.enumerate().map(check).collect()
}

/// A file for a vector. It is written [as a whole](files::Whole): if anything fails, an older file of that name stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As the user wrote it, for messages.
    path: PathBuf,
    file: files::Whole,
    format: Format,
}

impl Target {
    /// Checks that the path can be written, and changes nothing yet.
    ///
    /// # Errors
    ///
    /// - An unknown extension.
    /// - A path that is a directory, a device, a dangling link or read-only.
    /// - A directory that does not exist, or in which no file can be made.
    pub fn prepare(path: &Path) -> Result<Self, FileError> {
        let format = Format::of(path)?;
        let file = files::Whole::prepare(path).map_err(|e| Fault::Write(e).at(path))?;
        Ok(Self { path: path.to_owned(), file, format })
    }

    /// Writes the vector, in place of an older file of that name.
    ///
    /// # Errors
    ///
    /// The file can't be written; the older file stays.
    pub fn write(&self, numbers: &[f64]) -> Result<(), FileError> {
        let mut writing = self.begin(numbers.len())?;
        writing.add(numbers)?;
        writing.finish()
    }

    /// Begins to write a vector of so many numbers. An older file of that name stays until [`Writing::finish`].
    ///
    /// # Errors
    ///
    /// The file can't be written.
    pub fn begin(&self, numbers: usize) -> Result<Writing, FileError> {
        let begin = || {
            let mut filling = self.file.begin()?;
            if self.format == Format::Npy {
                npy::write_header(&mut filling, numbers)?;
            }
            Ok(filling)
        };
        let filling = begin().map_err(|e| Fault::Write(e).at(&self.path))?;
        Ok(Writing { target: self.clone(), filling, left: numbers })
    }
}

/// A vector that is being written. Dropped before its end, it leaves no file.
#[derive(Debug)]
pub struct Writing {
    target: Target,
    filling: files::Filling,
    /// Numbers that have not come yet.
    left: usize,
}

impl Writing {
    /// Adds the next numbers.
    ///
    /// # Errors
    ///
    /// The file can't be written.
    pub fn add(&mut self, numbers: &[f64]) -> Result<(), FileError> {
        let written = match self.target.format {
            Format::Text => text::write(&mut self.filling, numbers),
            Format::Npy | Format::Raw => write_raw(&mut self.filling, numbers),
        };
        self.left = self.left.saturating_sub(numbers.len());
        written.map_err(|e| Fault::Write(e).at(&self.target.path))
    }

    /// Gives the file its name, in place of an older one.
    ///
    /// # Errors
    ///
    /// Numbers are missing, or the file can't be written; the older file stays.
    pub fn finish(self) -> Result<(), FileError> {
        let written = match self.left {
            0 => self.filling.finish(),
            left => Err(io::Error::other(format!("{left} numbers of the vector did not come"))),
        };
        written.map_err(|e| Fault::Write(e).at(&self.target.path))
    }
}

fn write_raw(out: &mut impl Write, numbers: &[f64]) -> io::Result<()> {
    numbers.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))
}
