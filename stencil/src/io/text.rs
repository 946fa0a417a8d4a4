//! Text: one number a line.

use super::error::{Fault, shown};
use std::io::{self, Write};

/// A mark that some programs put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads one number a line. Ignores blanks around numbers, `\r` before `\n`, blank lines at the end, and a byte-order mark
/// at the beginning.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<f64>, Fault> {
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes).trim_ascii_end();
    if text.is_empty() {
        return Err(Fault::Malformed { expected: "at least one number".into(), found: "only blanks".into() });
    }
    text.split(|&b| b == b'\n').enumerate().map(|(index, line)| number(index, line.trim_ascii())).collect()
}

fn number(index: usize, text: &[u8]) -> Result<f64, Fault> {
    let line = index + 1;
    if text.is_empty() {
        return Err(Fault::Blank { line });
    }
    match std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()) {
        Some(x) if x.is_finite() => Ok(x),
        Some(_) => Err(Fault::NotFinite { index, line: Some(line), text: format!("`{}`", shown(text)) }),
        None => Err(Fault::NotANumber { line, text: shown(text) }),
    }
}

/// Writes one number a line, with the fewest digits from which the same bits can be read back.
pub(super) fn write(out: &mut impl Write, numbers: &[f64]) -> io::Result<()> {
    numbers.iter().try_for_each(|x| writeln!(out, "{x:?}"))
}
