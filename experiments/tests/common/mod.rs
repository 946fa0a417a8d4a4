//! What tests of the command have in common.

use std::process::{Command, Output, Stdio};

/// Runs a command whose output nobody reads.
pub fn without_reader(command: &mut Command) -> Output {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // Before there is anything to read.
    drop(reader);
    command.stdout(writer).stderr(Stdio::piped()).output().expect("ends")
}
