//! What the command prints as CSV.

use super::maniple;

/// What it prints as CSV, where it succeeds.
pub fn csv(args: &str) -> String {
    let output = maniple(&format!("{args} --format csv"));
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A column of the last line.
pub fn column(text: &str, name: &str) -> String {
    let mut lines = text.lines();
    let at = lines.next().expect("a head").split(',').position(|c| c == name).expect(name);
    lines.next_back().expect("a line").split(',').nth(at).expect("a value").into()
}
