//! The command `maniple`: runs the framework's programs and reports their results. The studies of `maniple-experiments` are
//! made of the same parts. This library is for these two programs: it promises nothing to others.
//!
//! Exit codes:
//!
//! - 0: all is well.
//! - 1: a run failed or was not verified, or its results could not be written.
//! - 2: the arguments or the given files are at fault. This is found before the first run where possible.
//! - 130: interrupted by Ctrl-C.

#![deny(unsafe_code)]
#![allow(missing_docs)]

pub mod arrays;
pub mod cg;
pub mod cholesky;
// It has one line with `unsafe`, for a function that runs before `main`.
#[allow(unsafe_code)]
mod closed;
pub mod collective;
pub mod compare;
pub mod explore;
pub mod fft;
pub mod files;
pub mod host;
pub mod interrupt;
pub mod machines;
pub mod market;
pub mod measure;
pub mod micro;
pub mod options;
pub mod output;
pub mod runs;
pub mod schedule;
pub mod stencil;
pub mod swap;
pub mod tune;
pub mod weak_scaling;

use clap::{Parser, Subcommand};
use maniple::runtime::Runtime;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// Shard tasks, logical regions, phase barriers and collectives that scale.
#[derive(Debug, Parser)]
#[command(name = "maniple", version, propagate_version = true)]
#[command(after_help = "\
`maniple COMMAND --help` explains a command's options and its report.

Whole numbers may be written with an exponent: --shards 1e3 stands for 1000.

Exit codes:
  0    all is well
  1    a run failed or was not verified, or its results could not be written (a full disk, a closed stdout)
  2    the arguments or the given files are at fault; this is found before the first run where possible
  130  interrupted by Ctrl-C")]
pub struct Maniple {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Stencil(stencil::StencilOptions),
    Cholesky(cholesky::CholeskyOptions),
    Fft(fft::FftOptions),
    Cg(cg::CgOptions),
    Collective(collective::CollectiveOptions),
    Schedule(schedule::ScheduleOptions),
    Tune(tune::TuneOptions),
    Tasks(micro::tasks::TasksOptions),
    Flow(micro::flow::FlowOptions),
    Broadcast(micro::broadcast::BroadcastOptions),
    Barrier(micro::barrier::BarrierOptions),
    CacheLine(micro::cache_line::CacheLineOptions),
    Remote(micro::remote::RemoteOptions),
    Gang(micro::gang::GangOptions),
    Kernel(micro::kernel::KernelOptions),
    Memory(micro::memory::MemoryOptions),
    Machine(machines::show::MachineOptions),
    Compare(compare::CompareOptions),
    /// One rank of the MPI reference
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    MpiRank(compare::rank::RankOptions),
    WeakScaling(weak_scaling::WeakScalingOptions),
    Explore(explore::ExploreOptions),
}

/// The mistakes that `--check` looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Check {
    /// Two tasks use the same values, one of them writes, and nothing orders them
    Races,
}

/// The ways in which a command fails.
#[derive(Debug)]
pub enum Failure {
    /// The arguments or the given files are at fault.
    Usage(String),
    /// A run failed, or was not verified.
    Run(String),
}

impl Failure {
    /// The same failure, with a name before its message.
    pub fn of(self, what: &str) -> Self {
        match self {
            Failure::Usage(message) => Failure::Usage(format!("{what}: {message}")),
            Failure::Run(message) => Failure::Run(format!("{what}: {message}")),
        }
    }
}

/// The command line of a program with subcommands.
pub trait Program: Parser {
    /// Runs the command.
    fn execute(&self) -> Result<(), Failure>;

    /// Whether a launcher may start several processes of the command.
    fn runs_on_several_processes(&self) -> bool {
        false
    }

    /// Whether another process of this program runs it as a part of its own run. Then that one tells the user.
    fn is_part_of_another(&self) -> bool {
        false
    }
}

impl Program for Maniple {
    fn execute(&self) -> Result<(), Failure> {
        self.command.execute()
    }

    fn runs_on_several_processes(&self) -> bool {
        self.command.runs_on_several_processes()
    }

    fn is_part_of_another(&self) -> bool {
        self.command.is_part_of_another()
    }
}

impl Command {
    /// Runs the command.
    pub fn execute(&self) -> Result<(), Failure> {
        match self {
            Command::Stencil(args) => stencil::execute(args),
            Command::Cholesky(args) => cholesky::execute(args),
            Command::Fft(args) => fft::execute(args),
            Command::Cg(args) => cg::execute(args),
            Command::Collective(args) => collective::execute(args),
            Command::Schedule(args) => schedule::execute(args),
            Command::Tune(args) => tune::execute(args),
            Command::Tasks(args) => micro::tasks::execute(args),
            Command::Flow(args) => micro::flow::execute(args),
            Command::Broadcast(args) => micro::broadcast::execute(args),
            Command::Barrier(args) => micro::barrier::execute(args),
            Command::CacheLine(args) => micro::cache_line::execute(args),
            Command::Remote(args) => micro::remote::execute(args),
            Command::Gang(args) => micro::gang::execute(args),
            Command::Kernel(args) => micro::kernel::execute(args),
            Command::Memory(args) => micro::memory::execute(args),
            Command::Machine(args) => machines::show::execute(args),
            Command::Compare(args) => compare::execute(args),
            #[cfg(target_os = "linux")]
            Command::MpiRank(args) => compare::rank::execute(args),
            Command::WeakScaling(args) => weak_scaling::execute(args),
            Command::Explore(args) => explore::execute(args),
        }
    }

    /// Whether a launcher may start several processes of the command.
    pub fn runs_on_several_processes(&self) -> bool {
        match self {
            Command::Stencil(_) | Command::WeakScaling(_) | Command::Tasks(_) | Command::Flow(_) => true,
            Command::Collective(_)
            | Command::Cholesky(_)
            | Command::Fft(_)
            | Command::Cg(_)
            | Command::Broadcast(_) => true,
            Command::Barrier(_) | Command::Gang(_) | Command::Remote(_) | Command::Machine(_) => true,
            #[cfg(target_os = "linux")]
            Command::MpiRank(_) => true,
            _ => false,
        }
    }

    /// Whether another process of this program runs it as a part of its own run.
    pub fn is_part_of_another(&self) -> bool {
        match self {
            Command::Memory(args) => args.is_part_of_another(),
            #[cfg(target_os = "linux")]
            Command::MpiRank(_) => true,
            _ => false,
        }
    }
}

/// Parses the arguments, runs the command that they name, and reports its failure if it fails.
pub fn run<P: Program>() -> ExitCode {
    static WARNINGS: Warnings = Warnings(Mutex::new(BTreeSet::new()));
    // No other logger is set.
    if log::set_logger(&WARNINGS).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
    #[cfg(target_os = "linux")]
    meet();
    let program = match P::try_parse() {
        Ok(program) => program,
        Err(e) => return refuse(&e),
    };
    // So that a file that may not grow any more (`ulimit -f`) is an error like a full disk, and does not end the process.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
    if !program.is_part_of_another() {
        interrupt::listen();
    }
    // Without a stdout, nobody could see the report. In a run on several processes, only the first one reports.
    let mut done = if Runtime::process_number() == 0 { output::expect_stdout() } else { output::silence() };
    if done.is_ok() {
        done = check_launcher(&program).and_then(|()| program.execute());
    }
    swap::stop();
    end(done)
}

/// Refuses a launcher of several processes for a command that would do the same in each of them.
fn check_launcher(program: &impl Program) -> Result<(), Failure> {
    match options::wire::launcher() {
        Some((started, once)) if !program.runs_on_several_processes() => {
            Err(Failure::Usage(format!("this command runs in one process, and {started}; {once}")))
        }
        _ => Ok(()),
    }
}

/// Meets the other processes of a launcher, before anything that may end this one alone: they would wait for it. A rank of
/// the reference initialises MPI in its own way.
#[cfg(target_os = "linux")]
fn meet() {
    if Runtime::launched().is_some() && std::env::args_os().nth(1).is_none_or(|command| command != "mpi-rank") {
        // If they can't meet, the run says why.
        drop(Runtime::mpi());
    }
}

/// Reports the failure, if there is one, and returns the exit code.
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

/// Prints clap's messages: help and version on stdout, errors in the form of all others.
fn refuse(e: &clap::Error) -> ExitCode {
    let text = e.render().to_string();
    let is_first = Runtime::process_number() == 0;
    match text.strip_prefix("error: ") {
        _ if !e.use_stderr() && is_first => return end(output::Stdout::lock().write(&text)),
        _ if !e.use_stderr() => return ExitCode::SUCCESS,
        Some(text) => complain(text.trim_end()),
        // The help, which clap gives where there is no subcommand.
        None if is_first => drop(write!(io::stderr(), "{text}")),
        None => Runtime::last_words("it has no subcommand"),
    }
    ExitCode::from(2)
}

/// Whether an error has been written. Held while one is, and for good by the thread that ends an interrupted command: so
/// the interruption is not told beside its consequences.
static COMPLAINED: Mutex<bool> = Mutex::new(false);

/// Writes an error to stderr. If even that fails, the exit code is all the user gets.
pub fn complain(message: impl Display) {
    let mut complained = COMPLAINED.lock().unwrap_or_else(PoisonError::into_inner);
    *complained = true;
    // Mostly all processes of a run have the same message.
    match Runtime::reports_errors() {
        true => say(format_args!("error: {message}")),
        false => Runtime::last_words(&message.to_string()),
    }
}

/// Writes a warning to stderr: the command goes on. Of several processes, each writes its own.
pub fn warn(message: impl Display) {
    let whose = match (Runtime::process_number(), Runtime::process_count()) {
        (0, 1) => String::new(),
        (number, _) => format!("process {number}: "),
    };
    say(format_args!("warning: {whose}{message}"));
}

/// The framework's warnings. Each is written once, however many runs a command does.
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

/// Writes to stderr what the user has asked for and would not see otherwise.
pub fn note(message: impl Display) {
    say(message);
}

/// In one write: several processes may share a stderr, which has no buffer, and their lines stay whole.
fn say(message: impl Display) {
    let _ = io::stderr().write_all(format!("maniple: {message}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_commands_fit_together() {
        Maniple::command().debug_assert();
    }
}
