//! Files with sparse symmetric matrices in the Matrix Market format: `coordinate`, with real numbers, whole numbers or a pattern.

use crate::Failure;
use crate::arrays::content;
use maniple::output::npy::shown;
use maniple_apps::cg::Sparse;
use std::path::Path;
use std::str::FromStr;

/// Bytes of memory that are needed at most to read one byte of a file. A line has at least 4 bytes, and becomes a value at two places:
/// 16 bytes each, which are sorted where they are, and 12 in the matrix. A row, which has a line of its own, has 8 more there.
const MEMORY_FACTOR: u64 = 1 + (2 * (16 + 12) + 8) / 4;

/// Reads a symmetric matrix. A file that says `symmetric` has one triangle; one that says `general` has both.
///
/// # Errors
/// The file can't be read, does not have the format, or its matrix is not symmetric or has a diagonal that is not positive.
pub fn read(path: &Path) -> Result<Sparse, Failure> {
    let read = || {
        let content = content(path, MEMORY_FACTOR)?;
        let text = std::str::from_utf8(&content).map_err(|_| "expected text, found other bytes".to_string())?;
        parse(text)
    };
    read().map_err(|fault: String| Failure::Usage(format!("{}: {fault}", path.display())))
}

fn parse(text: &str) -> Result<Sparse, String> {
    let mut lines = (1..).zip(text.lines());
    let (_, banner) = lines.next().unwrap_or((1, ""));
    let words: Vec<String> = banner.split_whitespace().map(str::to_ascii_lowercase).collect();
    let (is_pattern, is_symmetric) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["%%matrixmarket", "matrix", "coordinate", numbers, symmetry] => {
            let is_pattern = match numbers {
                "real" | "integer" => false,
                "pattern" => true,
                other => return Err(format!("line 1: expected real, integer or pattern, found `{other}`")),
            };
            match symmetry {
                "symmetric" => (is_pattern, true),
                "general" => (is_pattern, false),
                other => return Err(format!("line 1: expected symmetric or general, found `{other}`")),
            }
        }
        _ => {
            let found = shown(banner.as_bytes());
            return Err(format!("line 1: expected `%%MatrixMarket matrix coordinate …`, found `{found}`"));
        }
    };
    let mut lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('%'));
    let (at, head) = lines.next().ok_or("expected a line with rows, columns and number of values, found none")?;
    let mut head = head.split_whitespace();
    let mut next = |what| number::<usize>(at, what, head.next());
    let (rows, columns, values) = (next("number of rows")?, next("number of columns")?, next("number of values")?);
    no_more(at, head)?;
    if rows != columns || rows > u32::MAX as usize {
        return Err(format!(
            "line {at}: expected a square matrix of at most {} rows, found {rows} × {columns}",
            u32::MAX
        ));
    }
    if values < rows {
        return Err(format!(
            "line {at}: expected at least one value for each of {rows} rows, on the diagonal, found {values}"
        ));
    }
    // Not more than the file can have.
    let mut all = Vec::with_capacity(values.min(text.len() / 4) * 2);
    let mut found = 0;
    for (at, line) in lines {
        let mut words = line.split_whitespace();
        let mut place = |what| match number::<u32>(at, what, words.next())? {
            place if place >= 1 && place as usize <= rows => Ok(place - 1),
            other => Err(format!("line {at}: expected a {what} from 1 to {rows}, found {other}")),
        };
        let (row, column) = (place("row")?, place("column")?);
        if is_symmetric && row < column {
            let [row, column] = [row + 1, column + 1];
            return Err(format!(
                "line {at}: expected a value of the lower triangle, as line 1 says `symmetric`, found row {row}, column {column}"
            ));
        }
        let value = if is_pattern { 1.0 } else { number::<f64>(at, "value", words.next())? };
        if !value.is_finite() {
            return Err(format!("line {at}: expected a finite number, found {value}"));
        }
        no_more(at, words)?;
        all.push((row, column, value));
        if is_symmetric && row != column {
            all.push((column, row, value));
        }
        found += 1;
    }
    if found != values {
        return Err(format!("expected {values} values, as line {at} says, found {found}"));
    }
    Sparse::new(rows, all).map_err(|e| e.to_string())
}

fn no_more<'a>(line: usize, mut words: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let more = |word: &str| format!("line {line}: expected the end of the line, found `{}`", shown(word.as_bytes()));
    words.next().map_or(Ok(()), |word| Err(more(word)))
}

fn number<T: FromStr>(line: usize, what: &str, word: Option<&str>) -> Result<T, String> {
    let word = word.ok_or_else(|| format!("line {line}: expected a {what}, found the end of the line"))?;
    word.parse().map_err(|_| format!("line {line}: expected a {what}, found `{}`", shown(word.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_of_both_triangles_and_of_one_are_the_same() {
        let one = "%%MatrixMarket matrix coordinate real symmetric\n% text\n\n3 3 4\n1 1 4\n2 1 -1.5e0\n2 2 4\n3 3 1\n";
        let both = "%%matrixmarket MATRIX coordinate real general\n3 3 5\n1 1 4\n2 2 4.0\n1 2 -1.5\n3 3 1\n2 1 -1.5\n";
        let sparse = parse(one).expect("a matrix");
        assert_eq!(parse(both), Ok(sparse.clone()));
        assert_eq!(sparse.row(1).collect::<Vec<_>>(), [(0, -1.5), (1, 4.0)]);
        let pattern =
            parse("%%MatrixMarket matrix coordinate pattern symmetric\r\n2 2 2\r\n1 1\r\n2 2\r\n").expect("a matrix");
        assert_eq!(pattern.row(1).collect::<Vec<_>>(), [(1, 1.0)]);
    }

    #[test]
    fn what_is_no_matrix_is_refused_with_its_line() {
        let head = "%%MatrixMarket matrix coordinate real symmetric\n";
        for (text, words) in [
            ("", "line 1: expected `%%MatrixMarket matrix coordinate …`, found ``"),
            ("1 2 3", "found `1 2 3`"),
            ("%%MatrixMarket matrix array real general\n", "found `%%MatrixMarket matrix array real general`"),
            (
                "%%MatrixMarket matrix coordinate complex general\n",
                "expected real, integer or pattern, found `complex`",
            ),
            (
                "%%MatrixMarket matrix coordinate real skew-symmetric\n",
                "expected symmetric or general, found `skew-symmetric`",
            ),
            (head, "expected a line with rows, columns and number of values, found none"),
            (&format!("{head}2 3 1\n"), "line 2: expected a square matrix of at most 4294967295 rows, found 2 × 3"),
            (&format!("{head}2 2\n"), "line 2: expected a number of values, found the end of the line"),
            (&format!("{head}2 2 2\n1 3 1\n"), "line 3: expected a column from 1 to 2, found 3"),
            (&format!("{head}2 2 2\n0 1 1\n"), "line 3: expected a row from 1 to 2, found 0"),
            (&format!("{head}2 2 2\n1 1 one\n"), "line 3: expected a value, found `one`"),
            (&format!("{head}2 2 2\n1 1 inf\n"), "line 3: expected a finite number, found inf"),
            (
                &format!("{head}2 2 9000000000000000000\n1 1 1\n"),
                "expected 9000000000000000000 values, as line 2 says, found 1",
            ),
            (
                &format!("{head}2 2 2\n1 1 1\n2 1 1\n"),
                "row 1 (from 0): expected a positive number on the diagonal, found nothing",
            ),
            (
                &format!("{head}4000000000 4000000000 0\n"),
                "line 2: expected at least one value for each of 4000000000 rows, on the diagonal, found 0",
            ),
            (
                &format!("{head}2 2 4\n1 1 4\n2 1 -1\n1 2 -1\n2 2 4\n"),
                "line 5: expected a value of the lower triangle, as line 1 says `symmetric`, found row 1, column 2",
            ),
            (&format!("{head}2 2 2 2\n"), "line 2: expected the end of the line, found `2`"),
            (&format!("{head}1 1 1\n1 1 4 0.5\n"), "line 3: expected the end of the line, found `0.5`"),
            (
                &format!("{}1 1 1\n1 1 4\n", head.replace("real", "pattern")),
                "line 3: expected the end of the line, found `4`",
            ),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.contains(words), "{said}");
        }
    }
}
