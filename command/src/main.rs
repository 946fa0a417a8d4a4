//! The `maniple` command: runs the framework's programs and reports their results.

use std::process::ExitCode;

fn main() -> ExitCode {
    maniple_command::run::<maniple_command::Maniple>()
}
