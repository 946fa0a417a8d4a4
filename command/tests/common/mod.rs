//! What tests of the commands have in common. `crate::MANIPLE` is the program.
#![allow(dead_code)]

pub mod arrays;
pub mod csv;
pub mod files;
pub mod guide;
pub mod kinds;
pub mod machines;

use crate::MANIPLE;
use std::process::{Command, Output, Stdio};

/// Runs the program with these arguments.
pub fn maniple(args: &str) -> Output {
    maniple_with(&args.split_whitespace().collect::<Vec<_>>())
}

/// The same with arguments that may have spaces.
pub fn maniple_with(args: &[&str]) -> Output {
    Command::new(MANIPLE).args(args).output().expect("the program starts")
}

/// The arguments are refused before anything is reported, with a message that has these words.
pub fn refuses(args: &str, words: &str) {
    let output = maniple(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains(words), "{args}: {said}");
    assert!(output.stdout.is_empty(), "{args}");
}

/// Runs a command whose output nobody reads.
pub fn without_reader(command: &mut Command) -> Output {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // Before there is anything to read.
    drop(reader);
    command.stdout(writer).stderr(Stdio::piped()).output().expect("ends")
}
