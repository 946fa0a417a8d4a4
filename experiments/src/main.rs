#![forbid(unsafe_code)]
//! The `maniple` command: runs the framework's programs and reports what they did.
//!
//! Exit codes: 0, all is well; 1, a run failed or was not verified; 2, the arguments or the files given are at fault.

mod report;
mod stats;
mod stencil;

use clap::{Parser, Subcommand};
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Shard tasks, logical regions, phase barriers and collectives that scale.
#[derive(Debug, Parser)]
#[command(name = "maniple", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Stencil(stencil::Args),
}

/// How the command ends, where it does not end well.
#[derive(Debug)]
enum Failure {
    /// The arguments or the files given are at fault.
    Usage(String),
    /// A run failed, or was not verified.
    Run(String),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return refuse(&e),
    };
    let done = match &cli.command {
        Command::Stencil(args) => stencil::execute(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Run(message)) => {
            complain(&message);
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            complain(&message);
            ExitCode::from(2)
        }
    }
}

/// What clap has to say: help and version on stdout, errors in the form of all others.
fn refuse(e: &clap::Error) -> ExitCode {
    if !e.use_stderr() {
        return match write!(io::stdout(), "{}", e.render()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                complain(format_args!("can't write to stdout: {e}"));
                ExitCode::from(1)
            }
            _ => ExitCode::SUCCESS,
        };
    }
    let text = e.render().to_string();
    match text.strip_prefix("error: ") {
        Some(text) => complain(text.trim_end()),
        // Without a subcommand: the help.
        None => drop(write!(io::stderr(), "{text}")),
    }
    ExitCode::from(2)
}

/// One message on stderr. Where even that fails, the exit code must do.
fn complain(message: impl Display) {
    let _ = writeln!(io::stderr(), "maniple: error: {message}");
}
