//! The `maniple` command.
fn main() {}
