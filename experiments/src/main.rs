//! The studies: figures of papers redone in virtual time, the costs of a host as a machine in virtual time, and the document
//! with all figures beside their targets.

#![deny(unsafe_code)]

mod benchmarks;
mod calibrate;
mod figures;
mod overlap;

use clap::{Parser, Subcommand};
use maniple_command::{Failure, Program};
use std::process::ExitCode;

/// Studies of maniple: figures of papers, machines, and benchmarks beside their targets.
#[derive(Debug, Parser)]
#[command(name = "maniple-experiments", version, propagate_version = true)]
#[command(after_help = "`maniple-experiments COMMAND --help` explains a command's options and its report.")]
struct Experiments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Figures(figures::FiguresOptions),
    Overlap(overlap::OverlapOptions),
    Calibrate(calibrate::CalibrateOptions),
    Predict(calibrate::prediction::PredictOptions),
    Benchmarks(Box<benchmarks::BenchmarksOptions>),
    /// The commands of `maniple`, which studies start, too.
    #[command(flatten)]
    Other(maniple_command::Command),
}

impl Program for Experiments {
    fn execute(&self) -> Result<(), Failure> {
        match &self.command {
            Command::Figures(args) => figures::execute(args),
            Command::Overlap(args) => overlap::execute(args),
            Command::Calibrate(args) => calibrate::execute(args),
            Command::Predict(args) => calibrate::prediction::execute(args),
            Command::Benchmarks(args) => benchmarks::execute(args),
            Command::Other(command) => command.execute(),
        }
    }

    fn runs_on_several_processes(&self) -> bool {
        matches!(&self.command, Command::Other(command) if command.runs_on_several_processes())
    }

    fn is_part_of_another(&self) -> bool {
        matches!(&self.command, Command::Other(command) if command.is_part_of_another())
    }
}

fn main() -> ExitCode {
    maniple_command::run::<Experiments>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_commands_fit_together_and_their_help_has_the_rule_for_noise() {
        let mut cli = Experiments::command();
        cli.build();
        cli.clone().debug_assert();
        let near = calibrate::calibrator::NOISE.within.expect("a factor");
        for name in ["calibrate", "predict"] {
            let help = cli.find_subcommand_mut(name).expect(name).render_long_help().to_string();
            assert!(help.contains(&format!("factor of {near}")), "{name}: {help}");
        }
    }
}
