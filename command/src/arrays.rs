//! Files with vectors and matrices.
//!
//! | extension | content |
//! |---|---|
//! | `.npy` | NumPy's format (versions 1 to 3) with arrays of 32- or 64-bit floats, or of complex numbers of two, of either byte order |
//! | `.csv`, `.txt` | a vector as text, one number a line |
//!
//! Extensions are recognised in upper case, too. Files are written with little-endian floats, or as text with enough digits to
//! read the same bits back. All numbers read must be finite; of a square matrix, those of its lower triangle.

use crate::host::available_memory;
use crate::output::bytes;
use crate::{Failure, files::unwritten};
use maniple::output::npy::{self, Header, quoted, shown};
use maniple_mapper::files::{self, Filling, Whole};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The format of a file, given by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Npy,
    Text,
}

/// A fault of a file, without its path.
type Fault = String;

impl Format {
    fn of(path: &Path, is_array: bool) -> Result<Self, Fault> {
        let extension = path.extension().map(|e| e.to_string_lossy().into_owned());
        match extension.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("npy") => Ok(Self::Npy),
            Some("csv" | "txt") if !is_array => Ok(Self::Text),
            _ => {
                let expected = if is_array { ".npy for an array" } else { ".npy, .csv or .txt" };
                let found = extension.map_or("none".into(), |extension| format!(".{extension}"));
                Err(format!("expected the extension {expected}, found {found}"))
            }
        }
    }

    /// Bytes of memory that are needed at most to read one byte of a file: for the byte itself, and for numbers of so many bytes.
    fn memory_factor(self, number: usize) -> u64 {
        match self {
            Self::Npy => 1 + number as u64 / 4,
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
pub fn read_vector(path: &Path) -> Result<Vec<f64>, Failure> {
    let read = |content: &[u8], format| match format {
        _ if content.is_empty() => Err("expected at least one number, found an empty file".into()),
        Format::Npy => Ok(((), npy_vector(content)?)),
        Format::Text => Ok(((), text(content)?)),
    };
    Ok(read_with(path, false, read)?.1)
}

/// Reads the lower triangle of a square matrix: its rows, with zeros above the diagonal.
///
/// # Errors
///
/// Those of [`read_vector`], but for numbers above the diagonal; a file that is not `.npy`; a matrix that is not square.
pub fn read_matrix(path: &Path) -> Result<(usize, Vec<f64>), Failure> {
    read_with(path, true, |content, _| npy_matrix(content))
}

/// Reads an array of real or complex numbers with at least one number: its shape, and the real and imaginary parts of its numbers
/// in row-major order.
///
/// # Errors
///
/// Those of [`read_vector`]; a file that is not `.npy`.
pub fn read_complex(path: &Path) -> Result<(Vec<usize>, Vec<[f64; 2]>), Failure> {
    read_with(path, true, |content, _| npy_complex(content))
}

fn read_with<T, N>(
    path: &Path,
    is_array: bool,
    read: impl Fn(&[u8], Format) -> Result<(T, Vec<N>), Fault>,
) -> Result<(T, Vec<N>), Failure> {
    let read = |format: Format| read(&content(path, format.memory_factor(size_of::<N>()))?, format);
    Format::of(path, is_array).and_then(read).map_err(|fault| Failure::Usage(format!("{}: {fault}", path.display())))
}

/// The content of a regular file, if this many bytes of memory for each of its bytes are available.
pub(crate) fn content(path: &Path, memory_factor: u64) -> Result<Vec<u8>, Fault> {
    let unread = |e: io::Error| format!("can't be read: {e}");
    let file = files::open(path).map_err(unread)?;
    let len = file.metadata().map_err(unread)?.len();
    let (needed, available) = (len.saturating_mul(memory_factor), available_memory());
    if needed > available {
        let [needed, available] = [needed, available].map(|n| bytes(n.into()));
        return Err(format!("reading it takes up to {needed} of memory, and {available} are available"));
    }
    files::read_from(file, len).map_err(unread)
}

fn finite(x: f64, at: impl Fn() -> String, text: impl Fn() -> String) -> Result<f64, Fault> {
    if x.is_finite() { Ok(x) } else { Err(format!("{}: expected a finite number, found {}", at(), text())) }
}

/// Reads one number a line. Ignores blanks around numbers, `\r` before `\n`, blank lines at the end, and the byte-order mark that
/// some programs put before UTF-8 text.
fn text(content: &[u8]) -> Result<Vec<f64>, Fault> {
    let text = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content).trim_ascii_end();
    if text.is_empty() {
        return Err("expected at least one number, found only blanks".into());
    }
    let number = |(index, line): (usize, &[u8])| {
        let (number, line) = (index + 1, line.trim_ascii());
        if line.is_empty() {
            return Err(format!("line {number}: expected one number a line, found a blank line"));
        }
        match std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()) {
            Some(x) => finite(x, || format!("line {number}, index {index}"), || format!("`{}`", shown(line))),
            None => Err(format!("line {number}: expected one number a line, found `{}`", shown(line))),
        }
    };
    text.split(|&b| b == b'\n').enumerate().map(number).collect()
}

/// An array of floats in a `.npy` file.
struct Array<'a> {
    dimensions: Vec<u64>,
    /// The first index of an element counts fastest.
    fortran_order: bool,
    /// The bytes of each float.
    data: std::slice::ChunksExact<'a, u8>,
    read: fn(&[u8]) -> f64,
    /// The floats of each number: two of a complex one.
    floats: usize,
}

fn npy_vector(content: &[u8]) -> Result<Vec<f64>, Fault> {
    let array = npy_array(content, Some(1))?;
    if array.dimensions == [0] {
        return Err("expected at least one number, found an array of shape (0,)".into());
    }
    let numbers = array.data.map(array.read).enumerate();
    numbers.map(|(index, x)| finite(x, || format!("index {index}"), || x.to_string())).collect()
}

fn npy_matrix(content: &[u8]) -> Result<(usize, Vec<f64>), Fault> {
    let array = npy_array(content, Some(2))?;
    let rows = array.dimensions[0];
    if array.dimensions != [rows; 2] || rows == 0 {
        return Err(format!("expected a square matrix, found shape {:?}", array.dimensions));
    }
    let (size, mut values) = (rows as usize, vec![0.0; array.data.len()]);
    for (at, bytes) in array.data.enumerate() {
        let (slow, fast) = (at / size, at % size);
        let (row, column) = if array.fortran_order { (fast, slow) } else { (slow, fast) };
        if column <= row {
            let x = (array.read)(bytes);
            values[row * size + column] = finite(x, || format!("row {row}, column {column}"), || x.to_string())?;
        }
    }
    Ok((size, values))
}

fn npy_complex(content: &[u8]) -> Result<(Vec<usize>, Vec<[f64; 2]>), Fault> {
    let array = npy_array(content, None)?;
    let shape: Vec<usize> = array.dimensions.iter().map(|n| *n as usize).collect();
    if array.data.len() == 0 {
        return Err(format!("expected at least one number, found an array of shape {shape:?}"));
    }
    let mut values = vec![[0.0; 2]; array.data.len() / array.floats];
    for (at, bytes) in array.data.enumerate() {
        let (at, part, x) = (at / array.floats, at % array.floats, (array.read)(bytes));
        let place = if array.fortran_order { row_major(&shape, at) } else { at };
        values[place][part] = finite(x, || format!("number {at} of the file"), || x.to_string())?;
    }
    Ok((shape, values))
}

/// The place in row-major order of a number of an array in Fortran's order.
fn row_major(shape: &[usize], mut at: usize) -> usize {
    let (mut place, mut stride) = (0, shape.iter().product::<usize>());
    for length in shape {
        stride /= length;
        (place, at) = (place + at % length * stride, at / length);
    }
    place
}

/// An array of real numbers with so many dimensions, or one of any kind.
fn npy_array(content: &[u8], real: Option<usize>) -> Result<Array<'_>, Fault> {
    let Header { descr, fortran_order, shape: dimensions, data } = npy::parse(content)?;
    let expected = match real {
        None => "floats, complex numbers or integers, such as '<f8', '>c16' or '|u1'",
        Some(_) => "the type '<f8', '>f8', '<f4' or '>f4'",
    };
    let wrong_type = |found: &str| Err(format!("expected {expected}, found {found}"));
    let floats = if quoted(descr).is_some_and(|descr| descr.contains('c')) { 2 } else { 1 };
    let (size, read): (usize, fn(&[u8]) -> f64) = match quoted(descr) {
        Some(other) if floats == 2 && real.is_some() => return wrong_type(&format!("'{}'", shown(other.as_bytes()))),
        Some("<f8" | "<c16") => (8, |b| f64::from_le_bytes(b.try_into().expect("eight bytes"))),
        Some(">f8" | ">c16") => (8, |b| f64::from_be_bytes(b.try_into().expect("eight bytes"))),
        Some("<f4" | "<c8") => (4, |b| f32::from_le_bytes(b.try_into().expect("four bytes")).into()),
        Some(">f4" | ">c8") => (4, |b| f32::from_be_bytes(b.try_into().expect("four bytes")).into()),
        Some("|u1") if real.is_none() => (1, |b| b[0].into()),
        Some("<u2") if real.is_none() => (2, |b| u16::from_le_bytes(b.try_into().expect("two bytes")).into()),
        Some("<i2") if real.is_none() => (2, |b| i16::from_le_bytes(b.try_into().expect("two bytes")).into()),
        Some("<i4") if real.is_none() => (4, |b| i32::from_le_bytes(b.try_into().expect("four bytes")).into()),
        // Those beyond 2⁵³ are rounded.
        Some("<i8") if real.is_none() => (8, |b| i64::from_le_bytes(b.try_into().expect("eight bytes")) as f64),
        Some(other) => return wrong_type(&format!("'{}'", shown(other.as_bytes()))),
        None if descr.starts_with('[') => return wrong_type("a structured type"),
        None => return Err(npy::unknown(descr)),
    };
    if let Some(expected) = real.filter(|expected| dimensions.len() != *expected) {
        let shape: Vec<String> = dimensions.iter().map(u64::to_string).collect();
        let found = shape.len();
        return Err(format!("expected a {expected}-D array, found a {found}-D array of shape ({})", shape.join(", ")));
    }
    let length = dimensions.iter().try_fold(1, |length: u64, n| length.checked_mul(*n));
    let wanted = length.and_then(|length| length.checked_mul((size * floats) as u64));
    if wanted != Some(data.len() as u64) {
        let short = wanted.is_none_or(|wanted| wanted > data.len() as u64);
        let why = if short { "the file is truncated" } else { "there is something after the array" };
        let (found, length) = (data.len(), length.map_or("too many".into(), |length| length.to_string()));
        return Err(format!(
            "expected {length} numbers of {} bytes, found {found} bytes of data ({why})",
            size * floats
        ));
    }
    Ok(Array { dimensions, fortran_order, data: data.chunks_exact(size), read, floats })
}

/// A file for a vector or an array. It is written [as a whole](Whole): if anything fails, an older file of that name stays.
#[derive(Debug)]
pub struct Target {
    /// As the user wrote it, for messages.
    path: PathBuf,
    file: Whole,
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
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        Self::prepare_with(path, false)
    }

    fn prepare_with(path: &Path, is_array: bool) -> Result<Self, Failure> {
        let format =
            Format::of(path, is_array).map_err(|fault| Failure::Usage(format!("{}: {fault}", path.display())))?;
        let file = Whole::prepare(path).map_err(|e| Failure::Usage(unwritten(path, e)))?;
        Ok(Self { path: path.to_owned(), file, format })
    }

    /// Begins to write a vector of this many numbers. An older file of that name stays until [`Writing::finish`].
    pub fn begin(&self, numbers: usize) -> Writing {
        let begin = || {
            let mut filling = self.file.begin()?;
            if self.format == Format::Npy {
                filling.write_all(&npy::head(&[numbers], "<f8"))?;
            }
            Ok(filling)
        };
        Writing { path: self.path.clone(), format: self.format, filling: begin(), written: 0, numbers }
    }

    /// Checks that the path can be written with an array, and changes nothing yet.
    ///
    /// # Errors
    ///
    /// Those of [`prepare`](Self::prepare); an extension that is not `.npy`.
    pub fn for_array(path: &Path) -> Result<Self, Failure> {
        Self::prepare_with(path, true)
    }

    /// Writes an array of numbers of the type `descr`, given by the bytes of its floats in row-major order.
    ///
    /// # Errors
    ///
    /// The file can't be written; an older one of that name stays.
    pub fn write_array<const B: usize>(
        &self,
        descr: &str,
        shape: &[usize],
        values: impl Iterator<Item = [u8; B]>,
    ) -> Result<(), Failure> {
        let write = || {
            let mut filling = self.file.begin()?;
            filling.write_all(&npy::head(shape, descr))?;
            for value in values {
                filling.write_all(&value)?;
            }
            filling.finish()
        };
        write().map_err(|e| Failure::Run(unwritten(&self.path, e)))
    }
}

/// A vector that is being written. Dropped before its end, it leaves no file.
#[derive(Debug)]
pub struct Writing {
    path: PathBuf,
    format: Format,
    /// The file, or the first error.
    filling: io::Result<Filling>,
    written: usize,
    numbers: usize,
}

impl Writing {
    /// Adds numbers, of which the first is the one at `first` of the vector. Numbers that were added before are left out.
    pub fn add(&mut self, first: usize, numbers: &[f64]) {
        let Ok(filling) = &mut self.filling else { return };
        if first != self.written {
            return;
        }
        self.written += numbers.len();
        let added = match self.format {
            Format::Text => numbers.iter().try_for_each(|x| writeln!(filling, "{x:?}")),
            Format::Npy => numbers.iter().try_for_each(|x| filling.write_all(&x.to_le_bytes())),
        };
        if let Err(e) = added {
            self.filling = Err(e);
        }
    }

    /// Gives the file its name, in place of an older one.
    ///
    /// # Errors
    ///
    /// Numbers are missing, or the file could not be written; the older file stays.
    pub fn finish(self) -> Result<(), Failure> {
        let Self { path, filling, written, numbers, .. } = self;
        let missing = || io::Error::other(format!("{} numbers of the vector did not come", numbers - written));
        let finished = filling.and_then(|filling| if written == numbers { filling.finish() } else { Err(missing()) });
        finished.map_err(|e| Failure::Run(unwritten(&path, e)))
    }
}
