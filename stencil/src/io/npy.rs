//! NumPy's `.npy` format, for one-dimensional arrays of floats.
//!
//! The parts of a file, as in `numpy.lib.format`:
//!
//! 1. the bytes `\x93NUMPY`;
//! 2. a version (major, minor);
//! 3. the length of the header, little-endian: 16 bits in version 1, 32 bits in later versions;
//! 4. the header: a Python dictionary with the keys `descr`, `fortran_order` and `shape`, padded with blanks;
//! 5. the data.

use super::error::{Fault, shown};
use super::finite;
use std::io::{self, Write};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// NumPy aligns the data to this.
const ALIGNMENT: usize = 64;

/// Reads an array.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<f64>, Fault> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let start = shown(&bytes[..bytes.len().min(MAGIC.len())]);
        return malformed("a .npy file, which starts with \\x93NUMPY", format!("`{start}`"));
    };
    let (header, data) = match *rest {
        [1, 0, a, b, ref rest @ ..] => split(rest, u16::from_le_bytes([a, b]).into())?,
        [2 | 3, 0, a, b, c, d, ref rest @ ..] => split(rest, u32::from_le_bytes([a, b, c, d]))?,
        [1..=3, 0, ..] | [] | [_] => {
            return malformed("the length of the header", "the end of the file (it is truncated)");
        }
        [major, minor, ..] => return malformed("version 1.0, 2.0 or 3.0 of the format", format!("{major}.{minor}")),
    };
    let Header { float, len } = Header::parse(header)?;
    let size = float.size();
    if len.checked_mul(size as u64) != Some(data.len() as u64) {
        let short = len.checked_mul(size as u64).is_none_or(|want| want > data.len() as u64);
        let why = if short { "the file is truncated" } else { "there is something after the array" };
        return malformed(format!("{len} numbers of {size} bytes"), format!("{} bytes of data ({why})", data.len()));
    }
    if len == 0 {
        return malformed("at least one number", "an array of shape (0,)");
    }
    match float {
        Float::Little8 => finite(data.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b))),
        Float::Big8 => finite(data.as_chunks().0.iter().map(|b| f64::from_be_bytes(*b))),
        Float::Little4 => finite(data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into())),
        Float::Big4 => finite(data.as_chunks().0.iter().map(|b| f32::from_be_bytes(*b).into())),
    }
}

fn malformed<T>(expected: impl Into<String>, found: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Malformed { expected: expected.into(), found: found.into() })
}

fn split(rest: &[u8], len: u32) -> Result<(&[u8], &[u8]), Fault> {
    let split = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    split.map_or_else(
        || malformed(format!("a header of {len} bytes"), format!("{} bytes (the file is truncated)", rest.len())),
        Ok,
    )
}

/// The element types that can be read.
enum Float {
    Little8,
    Big8,
    Little4,
    Big4,
}

impl Float {
    fn size(&self) -> usize {
        match self {
            Self::Little8 | Self::Big8 => 8,
            Self::Little4 | Self::Big4 => 4,
        }
    }
}

struct Header {
    float: Float,
    len: u64,
}

impl Header {
    fn parse(header: &[u8]) -> Result<Self, Fault> {
        let broken = || malformed("a header with descr, fortran_order and shape", format!("`{}`", shown(header)));
        let Some(entries) = std::str::from_utf8(header).ok().and_then(dictionary) else { return broken() };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        for (key, value) in entries {
            let slot = match key {
                "descr" => &mut descr,
                "fortran_order" => &mut fortran_order,
                "shape" => &mut shape,
                _ => return broken(),
            };
            if slot.replace(value).is_some() {
                return broken();
            }
        }
        let (Some(descr), Some(Value::Bool), Some(Value::Tuple(shape))) = (descr, fortran_order, shape) else {
            return broken();
        };
        let float = match descr {
            Value::Text("<f8") => Float::Little8,
            Value::Text(">f8") => Float::Big8,
            Value::Text("<f4") => Float::Little4,
            Value::Text(">f4") => Float::Big4,
            Value::Text(other) => return wrong_type(&format!("'{}'", shown(other.as_bytes()))),
            Value::List => return wrong_type("a structured type"),
            _ => return broken(),
        };
        match shape[..] {
            [len] => Ok(Self { float, len }),
            _ => {
                let dimensions: Vec<String> = shape.iter().map(u64::to_string).collect();
                malformed("a 1-D array", format!("a {}-D array of shape ({})", shape.len(), dimensions.join(", ")))
            }
        }
    }
}

fn wrong_type<T>(found: &str) -> Result<T, Fault> {
    malformed("the type '<f8', '>f8', '<f4' or '>f4'", found)
}

/// The Python values that occur in a header.
enum Value<'a> {
    Text(&'a str),
    /// True or false: in one dimension, the order of the array does not matter.
    Bool,
    Tuple(Vec<u64>),
    /// A structured type. Its contents do not matter.
    List,
}

/// A Python dictionary with text keys and nothing but blanks after it.
fn dictionary(text: &str) -> Option<Vec<(&str, Value<'_>)>> {
    let mut rest = text.trim_start().strip_prefix('{')?.trim_start();
    let mut entries = Vec::new();
    loop {
        if let Some(end) = rest.strip_prefix('}') {
            return end.trim().is_empty().then_some(entries);
        }
        let (key, after) = quoted(rest)?;
        let (value, after) = value(after.trim_start().strip_prefix(':')?.trim_start())?;
        entries.push((key, value));
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.starts_with('}') => {}
            None => return None,
        }
    }
}

fn value(text: &str) -> Option<(Value<'_>, &str)> {
    match text.chars().next()? {
        '\'' | '"' => quoted(text).map(|(text, rest)| (Value::Text(text), rest)),
        '(' => {
            let (inside, rest) = text[1..].split_once(')')?;
            Some((Value::Tuple(numbers(inside)?), rest))
        }
        '[' => list_end(text).map(|rest| (Value::List, rest)),
        _ => {
            let rest = text.strip_prefix("True").or_else(|| text.strip_prefix("False"))?;
            Some((Value::Bool, rest))
        }
    }
}

/// A text in either kind of quotes. Texts in a header of floats have no escapes.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|&c| c == '\'' || c == '"')?;
    text[1..].split_once(quote)
}

/// The numbers inside a tuple. A single number must have a comma after it. Python 2 wrote an `L` after large numbers.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Vec::new());
    }
    let (text, comma) = text.strip_suffix(',').map_or((text, false), |text| (text, true));
    let numbers: Option<Vec<u64>> = text
        .split(',')
        .map(str::trim)
        .map(|n| n.strip_suffix('L').unwrap_or(n))
        .map(|n| if n.bytes().all(|b| b.is_ascii_digit()) { n.parse().ok() } else { None })
        .collect();
    numbers.filter(|numbers| comma || numbers.len() > 1)
}

/// The rest of `text` after the list that it begins with.
fn list_end(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[at + 1..]);
        }
    }
    None
}

/// Writes all that comes before the data of a one-dimensional array of 64-bit little-endian floats, version 1.0.
pub(super) fn write_header(out: &mut impl Write, numbers: usize) -> io::Result<()> {
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({numbers},), }}");
    let before = MAGIC.len() + 4;
    let padded = (before + header.len() + 1).next_multiple_of(ALIGNMENT) - before;
    header.push_str(&" ".repeat(padded - header.len() - 1));
    header.push('\n');
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    // At most 20 digits, so one or two alignments: far below 2¹⁶.
    out.write_all(&(padded as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())
}
