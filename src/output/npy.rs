//! NumPy's format for one array in one file.

/// The first bytes of a file. A version (major, minor) follows, and the length of the header, little-endian: 16 bits in version 1,
/// 32 bits in later ones. The header is a Python dictionary with the keys `descr`, `fortran_order` and `shape`. The data is last.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// NumPy aligns the data to this.
const ALIGNMENT: usize = 64;

/// The content of a file.
#[derive(Debug)]
pub struct Header<'a> {
    /// The type of the elements, in Python.
    pub descr: &'a str,
    /// The first index of an element counts fastest.
    pub fortran_order: bool,
    /// The number of elements in each dimension.
    pub shape: Vec<u64>,
    /// All that follows the header.
    pub data: &'a [u8],
}

/// Reads the header of a file, of which `content` has at least that.
///
/// # Errors
/// What was expected, and what came.
pub fn parse(content: &[u8]) -> Result<Header<'_>, String> {
    let Some(rest) = content.strip_prefix(MAGIC) else {
        let start = shown(&content[..content.len().min(MAGIC.len())]);
        return Err(format!("expected a .npy file, which starts with \\x93NUMPY, found `{start}`"));
    };
    let (length, rest) = match *rest {
        [1, 0, a, b, ref rest @ ..] => (u32::from(u16::from_le_bytes([a, b])), rest),
        [2 | 3, 0, a, b, c, d, ref rest @ ..] => (u32::from_le_bytes([a, b, c, d]), rest),
        [1..=3, 0, ..] | [] | [_] => {
            return Err("expected the length of the header, found the end of the file (it is truncated)".into());
        }
        [major, minor, ..] => {
            return Err(format!("expected version 1.0, 2.0 or 3.0 of the format, found {major}.{minor}"));
        }
    };
    let Some((header, data)) = rest.split_at_checked(length as usize) else {
        let found = rest.len();
        return Err(format!("expected a header of {length} bytes, found {found} bytes (the file is truncated)"));
    };
    let read = |header| {
        let [descr, order, shape] = entries(std::str::from_utf8(header).ok()?)?;
        Some(Header { descr, fortran_order: order == "True", shape: numbers(shape)?, data })
    };
    read(header).ok_or_else(|| unknown(&String::from_utf8_lossy(header)))
}

/// The error of a header that is not one.
pub fn unknown(header: &str) -> String {
    format!("expected a header with descr, fortran_order and shape, found `{}`", shown(header.as_bytes()))
}

/// All that comes before the data of an array of numbers of this type, version 1.0.
pub fn head(shape: &[usize], descr: &str) -> Vec<u8> {
    let shape = match shape {
        [length] => format!("{length},"),
        lengths => lengths.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let before = MAGIC.len() + 4;
    let padded = (before + header.len() + 1).next_multiple_of(ALIGNMENT) - before;
    header = format!("{header:<width$}\n", width = padded - 1);
    // At most 20 digits for each dimension, so one or two alignments: far below 2¹⁶.
    [&MAGIC[..], &[1, 0], &(padded as u16).to_le_bytes(), header.as_bytes()].concat()
}

/// The values of `descr`, `fortran_order` and `shape` in a header.
fn entries(header: &str) -> Option<[&str; 3]> {
    let mut rest = header.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let [mut descr, mut order, mut shape] = [None; 3];
    while !rest.is_empty() {
        let (key, after) = rest.split_once(':')?;
        let (value, after) = after.split_at(value_end(after)?);
        let slot = match quoted(key.trim())? {
            "descr" => &mut descr,
            "fortran_order" => &mut order,
            "shape" => &mut shape,
            _ => return None,
        };
        if slot.replace(value.trim()).is_some() {
            return None;
        }
        rest = after.strip_prefix(',').unwrap_or(after).trim();
    }
    matches!(order, Some("True" | "False")).then_some([descr?, order?, shape?])
}

/// The text in quotes of either kind. Texts in a header of floats have no escapes.
pub fn quoted(text: &str) -> Option<&str> {
    let within = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    within('\'').or_else(|| within('"')).filter(|text| !text.contains(['\'', '"']))
}

/// The end of a value: the comma after it that is not within brackets, or the end of the text.
fn value_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    (depth == 0).then_some(text.len())
}

/// The numbers of a shape. A single one has a comma after it. Python 2 wrote an `L` after large ones.
fn numbers(shape: &str) -> Option<Vec<u64>> {
    let inside = shape.strip_prefix('(')?.strip_suffix(')')?.trim();
    if inside.is_empty() {
        return Some(Vec::new());
    }
    let number = |n: &str| {
        let n = n.trim();
        let n = n.strip_suffix('L').unwrap_or(n);
        if n.bytes().all(|b| b.is_ascii_digit()) { n.parse().ok() } else { None }
    };
    let list = inside.strip_suffix(',').unwrap_or(inside).split(',').map(number).collect();
    if inside.contains(',') { list } else { None }
}

/// Text from a file for a message: at most 40 characters. Invisible ones are escaped.
pub fn shown(bytes: &[u8]) -> String {
    const MAX: usize = 40;
    // Four bytes a character at most; a character cut in two is beyond those shown.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MAX + 4)]);
    let more = if text.chars().nth(MAX).is_some() { "…" } else { "" };
    let quotes = |c| matches!(c, '"' | '\'' | '\\');
    let mut shown = String::new();
    text.chars().take(MAX).for_each(|c| if quotes(c) { shown.push(c) } else { shown.extend(c.escape_debug()) });
    shown + more
}
