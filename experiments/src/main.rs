//! The `maniple` command: runs the framework's programs and reports what they did.
//!
//! Exit codes: 0, all is well; 1, a run failed or was not verified, or what it found could not be written; 2, the arguments or
//! the files given are at fault, which is found before the first run.

#![deny(unsafe_code)]

mod benchmarks;
mod calibrate;
// One line with `unsafe`: what runs before `main`.
#[allow(unsafe_code)]
mod closed;
mod compare;
mod explore;
mod figures;
mod files;
mod machines;
mod measure;
mod micro;
mod options;
mod output;
mod stencil;
mod swap;
mod weak_scaling;

use clap::{Parser, Subcommand};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;

/// Shard tasks, logical regions, phase barriers and collectives that scale.
#[derive(Debug, Parser)]
#[command(name = "maniple", version, propagate_version = true)]
#[command(after_help = "\
Exit codes: 0, all is well; 1, a run failed or was not verified, or what it found could not be written: the disk is full, or \
stdout was closed; 2, the arguments or the files given are at fault. What is at fault is found before the first run where it \
can be.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Stencil(stencil::StencilOptions),
    Allreduce(micro::allreduce::AllreduceOptions),
    Tasks(micro::tasks::TasksOptions),
    Barrier(micro::barrier::BarrierOptions),
    Exchange(micro::exchange::ExchangeOptions),
    Gang(micro::gang::GangOptions),
    Kernel(micro::kernel::KernelOptions),
    Memory(micro::memory::MemoryOptions),
    Machine(machines::show::MachineOptions),
    Benchmarks(benchmarks::BenchmarksOptions),
    Calibrate(calibrate::CalibrateOptions),
    Predict(calibrate::prediction::PredictOptions),
    Compare(compare::CompareOptions),
    /// One rank of the MPI reference
    #[cfg(feature = "mpi")]
    #[command(hide = true)]
    MpiRank(compare::rank::RankOptions),
    WeakScaling(weak_scaling::WeakScalingOptions),
    Figures(figures::FiguresOptions),
    Explore(explore::ExploreOptions),
}

/// What `--check` can look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Check {
    /// Tasks that use the same values at the same time, of which one writes, while nothing orders them
    Races,
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
    static WARNINGS: Warnings = Warnings(Mutex::new(BTreeSet::new()));
    // Nobody has set another one.
    if log::set_logger(&WARNINGS).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
    // A file that may not grow any more (`ulimit -f`) is then an error like a full disk, and not the end of the process.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
    // What nobody can see need not be run.
    let mut done = output::expect_stdout();
    if done.is_ok() {
        done = execute(&cli.command);
    }
    swap::stop();
    end(done)
}

fn execute(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Stencil(args) => stencil::execute(args),
        Command::Allreduce(args) => micro::allreduce::execute(args),
        Command::Tasks(args) => micro::tasks::execute(args),
        Command::Barrier(args) => micro::barrier::execute(args),
        Command::Exchange(args) => micro::exchange::execute(args),
        Command::Gang(args) => micro::gang::execute(args),
        Command::Kernel(args) => micro::kernel::execute(args),
        Command::Memory(args) => micro::memory::execute(args),
        Command::Machine(args) => machines::show::execute(args),
        Command::Benchmarks(args) => benchmarks::execute(args),
        Command::Calibrate(args) => calibrate::execute(args),
        Command::Predict(args) => calibrate::prediction::execute(args),
        Command::Compare(args) => compare::execute(args),
        #[cfg(feature = "mpi")]
        Command::MpiRank(args) => compare::rank::execute(args),
        Command::WeakScaling(args) => weak_scaling::execute(args),
        Command::Figures(args) => figures::execute(args),
        Command::Explore(args) => explore::execute(args),
    }
}

/// Says what is wrong, if anything is.
fn end(done: Result<(), Failure>) -> ExitCode {
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
        return end(output::Stdout::new().write(&e.render().to_string()));
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

/// What the user should know though it is no failure.
fn warn(message: impl Display) {
    let _ = writeln!(io::stderr(), "maniple: warning: {message}");
}

/// What the framework warns of, once each, however many runs a command does.
struct Warnings(Mutex<BTreeSet<String>>);

impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("maniple")
    }

    fn log(&self, record: &log::Record<'_>) {
        let text = record.args().to_string();
        if self.enabled(record.metadata()) && self.0.lock().is_ok_and(|mut known| known.insert(text.clone())) {
            warn(text);
        }
    }

    fn flush(&self) {}
}

/// What the user has asked for, and would not see otherwise.
fn note(message: impl Display) {
    let _ = writeln!(io::stderr(), "maniple: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_commands_fit_together_and_their_help_has_the_rule_for_noise() {
        let mut cli = Cli::command();
        cli.build();
        cli.clone().debug_assert();
        let near = calibrate::calibrator::NOISE.within.expect("a factor");
        for name in ["calibrate", "predict"] {
            let help = cli.find_subcommand_mut(name).expect(name).render_long_help().to_string();
            assert!(help.contains(&format!("factor of {near}")), "{name}: {help}");
        }
    }
}
