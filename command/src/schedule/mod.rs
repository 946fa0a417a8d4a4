//! `maniple schedule`.

mod draw;
mod json;
mod rounds;
mod text;

use crate::Failure;
use crate::collective::kind::{KindOptions, Parties};
use crate::files::Files;
use crate::options::help::exit_codes;
use crate::options::numbers::{at_least_one, check_memory, count};
use crate::options::{OutputFile, Shards};
use crate::output::Document;
use clap::ValueEnum;
use maniple_collectives::{Algorithm, Kind, Laws};
use maniple_stencil::plural;
use rounds::ProvedSchedules;

/// Show the schedule of a collective: the messages of each rank, round by round, as text or as a drawing
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Each schedule is proved before it is shown. A rank is the number of a shard. A message is in the round \
after the last message that its sender has waited for.

In the text, a line is a round of a rank:
  → 3          a value goes to rank 3
  ← 3 higher   the value of rank 3 comes, and is combined with this rank's value, as the right operand
  ← 3 lower    likewise, as the left operand
  ← 3 replace  it takes the place of the rank's own
  ← 3 undo     it is taken out of the rank's own
  local        the rank combines two parts of its memory
Where a rank has several parts, they are named: r1[2..4] are the blocks 2 and 3 of register 1. Register 0 begins with the \
contribution.

In the drawing, ranks are horizontal lines and messages are arrows. A pointer that rests on an arrow shows the message.

", exit_codes!("the schedule was shown", "it could not be written", "the arguments are at fault")))]
pub struct ScheduleOptions {
    #[command(flatten)]
    kind: KindOptions,

    #[command(flatten)]
    shards: Shards,

    /// Show the steps of this rank only; a drawing shows the others faintly
    #[arg(long, value_name = "R", value_parser = count, allow_negative_numbers = true)]
    rank: Option<usize>,

    /// Ranks on each processor, for two-level, which combines these in place [default: 4]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    per_processor: Option<usize>,

    /// Format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    #[command(flatten)]
    output: OutputFile,
}

/// The format of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for each rank
    Text,
    /// A drawing
    Svg,
    /// A JSON object
    Json,
}

/// The most shards. All of their schedules are in memory.
const MOST: u32 = 1 << 16;

/// What is shown.
struct Shown {
    proved: ProvedSchedules,
    /// Why another algorithm was taken than the one that was named, if so.
    instead: Option<String>,
    /// Only this rank, if one is named.
    rank: Option<u32>,
    /// Whether an operator combines contributions, and the laws that it must obey bit for bit.
    combines: bool,
    laws: Laws,
}

impl Shown {
    /// The ranks that are shown.
    fn ranks(&self) -> impl Iterator<Item = usize> + '_ {
        let all = 0..self.proved.schedules.len();
        all.filter(|rank| self.rank.is_none_or(|only| only as usize == *rank))
    }

    /// The collective and the algorithm.
    fn title(&self, kind: &str) -> String {
        let ProvedSchedules { goal, algorithm, .. } = &self.proved;
        format!("{kind} of {} by {algorithm}", plural(goal.ranks() as usize, "rank"))
    }

    /// The numbers that the check found.
    fn numbers(&self) -> String {
        let report = &self.proved.report;
        let local = match report.locals {
            0 => String::new(),
            locals => format!(", {}", plural(locals as usize, "local step")),
        };
        let (rounds, messages) = (report.rounds as usize, report.messages as usize);
        let subtasks = plural(report.subtasks as usize, "subtask");
        format!("{}, {}, {subtasks}{local}", plural(rounds, "round"), plural(messages, "message"))
    }

    /// What the operator must be, and the brackets of combinations.
    fn needs(&self) -> String {
        let report = &self.proved.report;
        if !self.combines {
            return "nothing is combined".into();
        }
        let laws = match self.laws {
            Laws::NONE => "any operator".into(),
            laws => format!("for operators that are {laws} bit for bit"),
        };
        let brackets = match (report.by_doubling, report.by_loop) {
            (true, true) => ", brackets of recursive doubling and of a loop",
            (true, false) => ", brackets of recursive doubling",
            (false, true) => ", brackets of a loop",
            (false, false) => "",
        };
        laws + brackets
    }
}

/// The algorithm that is shown, and why it is not the one that was named, if so.
fn algorithm(args: &ScheduleOptions, shards: u32) -> Result<(Algorithm, Option<String>), Failure> {
    let parties = args.kind.parties(shards)?;
    let goal = parties.goal(1);
    let Some(algorithm) = args.kind.algorithm else {
        parties.check_any()?;
        let first = Algorithm::all_for(&goal).next().expect("there is one");
        return Ok((first, None));
    };
    let taken = algorithm.taken_for(&goal);
    parties.check(taken)?;
    let instead = (taken != algorithm).then(|| {
        let ranks = plural(parties.participants.len() as usize, "rank");
        match taken {
            Algorithm::FiveCases(_) => format!("{algorithm} leaves nothing out for {ranks}, so {taken} is taken"),
            _ => format!("{algorithm} does not exist for {ranks}, so {taken}, by Bruck and Ho, is taken"),
        }
    });
    Ok((taken, instead))
}

/// The bytes that it takes at least to make and prove the schedules of an algorithm in which everybody sends to everybody, or
/// has a block for everybody, as measured with 400 and 800 ranks, for each contributor and receiver.
fn pair_bytes(algorithm: Algorithm, parties: &Parties) -> u128 {
    match algorithm {
        Algorithm::Sliced => 1150,
        Algorithm::Direct if parties.combines() => 950,
        Algorithm::Direct => 550,
        Algorithm::Bruck if parties.kind == Kind::AllToAll => 650,
        Algorithm::Halving => 650,
        // For each contributor and block; the blocks are at least half as many.
        Algorithm::HalvingDoubling => 280,
        Algorithm::Ring => 230,
        _ => 0,
    }
}

/// Shows the schedule.
pub fn execute(args: &ScheduleOptions) -> Result<(), Failure> {
    let shards = args.shards.number()?;
    if shards > MOST {
        return Err(Failure::Usage(format!("expected at most {MOST} shards for a schedule, found {shards}")));
    }
    let rank = match args.rank {
        Some(rank) if rank >= shards as usize => {
            return Err(Failure::Usage(format!("--rank: expected a rank in 0..{shards}, found {rank}")));
        }
        rank => rank.map(|rank| rank as u32),
    };
    let parties = args.kind.parties(shards)?;
    let (algorithm, instead) = algorithm(args, shards)?;
    if args.per_processor.is_some() && algorithm != Algorithm::TwoLevel {
        return Err(Failure::Usage(format!("--per-processor is for --algorithm two-level, found {algorithm}")));
    }
    let pairs = parties.participants.len() as usize * parties.receivers.len() as usize;
    let what = format!("the schedules of {} by {algorithm}", plural(shards as usize, "shard"));
    check_memory(&what, pairs, pair_bytes(algorithm, &parties))?;
    let per_processor = at_least_one("per-processor", args.per_processor.unwrap_or(4))?.min(shards as usize) as u32;
    let path = args.output.output.as_deref();
    Files::new().writes("--output", path).check()?;
    let document = Document::prepare(path)?;
    let proved = ProvedSchedules::new(|blocks| parties.goal(blocks), algorithm, per_processor)
        .map_err(|e| Failure::Run(format!("the schedules of {algorithm} are wrong: {e}")))?;
    let combines = parties.combines();
    let laws = if combines { proved.report.laws.and(algorithm.laws(&proved.goal)) } else { Laws::NONE };
    let shown = Shown { proved, instead, rank, combines, laws };
    let name = parties.kind.name();
    document.write(&match args.format {
        Format::Text => text::text(&shown, name),
        Format::Json => json::json(&shown, name)?,
        Format::Svg => draw::svg(&shown, name)?,
    })
}
