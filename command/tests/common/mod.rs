//! What tests of the commands have in common. `crate::MANIPLE` is the program.
#![allow(dead_code)]

pub mod csv;
pub mod decisions;
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

/// Runs a command whose output nobody reads.
pub fn without_reader(command: &mut Command) -> Output {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // Before there is anything to read.
    drop(reader);
    command.stdout(writer).stderr(Stdio::piped()).output().expect("ends")
}
