//! `maniple tune`.

use crate::Failure;
use crate::collective::chosen::{Asked, Chosen};
use crate::collective::kind::{Parties, check_once, kinds};
use crate::collective::timed;
use crate::measure::environment::Environment;
use crate::measure::noise::warn_if_busy;
use crate::measure::stats::{median, microseconds};
use crate::measure::yardstick::Yardstick;
use crate::options::counts::Counts;
use crate::options::help::exit_codes;
use crate::options::numbers::{at_least_one, check_memory, count, shards};
use crate::options::workers::OnWorkers;
use crate::options::{OutputFile, Traced};
use crate::output::{Document, progress, styled};
use maniple::mapper::{Choice, ChoiceTable};
use maniple::runtime::Runtime;
use maniple_collectives::{Algorithm, Kind};
use tabled::builder::Builder;

/// Measure which algorithm suits which collective, and write a table for --mapper collective,table=FILE
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "The algorithms take turns: each is measured once in each repetition, and the median of the repetitions counts. Among them are \
dissemination with 1 to 7 messages a round, and radix exchanges in groups of 2, 4, 8 and 16. Elements are 64-bit integers, whose \
sum obeys all laws that an algorithm may need. A row of the table names all algorithms, the fastest first, and a program takes \
the first one that gives its operator the right bits.

A row is for the number of shards and the size that were measured, and for larger ones up to the next row. The least size is for \
smaller values too. A row holds for one layout, and for one node or several. To cover several cases, run the command for each, and \
put the rows into one file. The table goes to --output or to stdout.

Columns of the report, which goes to stderr:
  Kind, Shards      the collective
  Size              bytes of a block: of --elements. In the table, `bytes` is the largest value that a shard contributes or receives: \
in an allgather that is one block of each shard. A barrier is an allreduce of 0 bytes there
  Layout            together: all shards on one processor; neighbours: on several, and neighbouring shards share one; apart: none \
do
  Nodes             one or several, which share no address space
  Algorithm         the fastest one
  Time(us)          its time: the mean of a call on the slowest shard. In virtual time these are microseconds of the machine
  Next, Ratio       the second fastest, and how many times as long it takes
  Usual, Ratio      the choice of --mapper, and how many times as long it takes as the fastest one

", exit_codes!("every run was verified", "a run failed or was not verified, or the table could not be written", "the arguments are \
at fault")
))]
pub struct TuneOptions {
    /// Kinds of collectives, with commas between them
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', default_values_t = KINDS, value_parser = kinds())]
    kind: Vec<Kind>,

    /// Numbers of shards, increasing, with commas between them. A..B stands for A, 2A, 4A and so on, up to B
    #[arg(long, value_name = "LIST", default_value = "2,4,8,32", allow_hyphen_values = true)]
    shards: Counts,

    /// Elements of a block, in the same form
    #[arg(long, value_name = "LIST", default_value = "1,512,32768,131072", allow_hyphen_values = true)]
    elements: Counts,

    /// Times that each algorithm is measured [default: 5, in virtual time 1]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    rounds: Option<usize>,

    /// Measure fewer calls, for a first look
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    on: OnWorkers,

    #[command(flatten)]
    output: OutputFile,
}

const KINDS: [Kind; 8] = [
    Kind::Barrier,
    Kind::Allreduce,
    Kind::Reduce,
    Kind::Broadcast,
    Kind::Allgather,
    Kind::ReduceScatter,
    Kind::AllToAll,
    Kind::Scan,
];

/// What was found for a kind, a number of shards and a size.
struct Found {
    kind: Kind,
    shards: u32,
    /// Bytes of a block.
    bytes: usize,
    asked: Asked,
    /// The algorithms with their times in microseconds, the fastest first.
    ranked: Vec<(Algorithm, f64)>,
}

/// The numbers of measurements.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    quick: bool,
    in_virtual_time: bool,
}

impl Effort {
    /// Calls of each measurement, for a block of `bytes` bytes.
    fn calls(self, bytes: usize) -> usize {
        match bytes {
            _ if self.in_virtual_time => 5,
            _ if self.quick => 10,
            ..=8192 => 300,
            _ => 30,
        }
    }
}

/// Measures, and writes the table.
pub fn execute(args: &TuneOptions) -> Result<(), Failure> {
    let in_virtual_time = args.on.workers.wire.in_virtual_time()?;
    let rounds = at_least_one("rounds", args.rounds.unwrap_or(if in_virtual_time { 1 } else { 5 }))?;
    let effort = Effort { rounds, quick: args.quick, in_virtual_time };
    let output = args.output.output.as_deref();
    args.on.files()?.writes("--output", output).check()?;
    let mut machine = None;
    for &p in &args.shards.0 {
        shards(p)?;
        machine = args.on.workers.machine(p)?.map(|machine| machine.name.to_string());
    }
    check_once(&args.kind)?;
    for &kind in &args.kind {
        check(kind, args)?;
    }
    let document = Document::prepare(output)?;
    let environment = Environment::now();
    let sizes = |kind| if kind == Kind::Barrier { 1 } else { args.elements.0.len() };
    let all: usize = args.kind.iter().map(|&kind| sizes(kind) * args.shards.0.len()).sum();
    let bar = progress(all as u64, "{bar:40} {pos} of {len} rows, {msg}");
    let cache_line_ns = || if in_virtual_time { f64::NAN } else { Yardstick::Host.ns() };
    let before = cache_line_ns();
    let mut found = Vec::new();
    for &kind in &args.kind {
        for &p in &args.shards.0 {
            let parties = Parties::usual(kind, shards(p)?);
            let chosen = Chosen::default();
            let (_, runtime, _) = args.on.runtime_with(p, &Traced::default(), |slot| chosen.listen(slot))?;
            // A barrier has no elements.
            let sizes = if kind == Kind::Barrier { &[0][..] } else { &args.elements.0 };
            for &elements in sizes {
                bar.set_message(format!("{} of {p} shards", kind.name()));
                found.push(measured(&parties, elements, effort, &runtime, &chosen)?);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    warn_if_busy(before.max(cache_line_ns()));
    eprint!("{}", report(&found));
    let machine = machine.unwrap_or_else(|| {
        let cpu = environment.machine.cpu.clone().unwrap_or_else(|| "unknown".into());
        format!("{cpu}, {} workers", args.on.workers.count())
    });
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let date = environment.began.split('T').next().unwrap_or_default();
    let table = ChoiceTable::new(&machine, date, &format!("maniple {command}"), rows(&found));
    let text = toml::to_string(&table).map_err(|e| Failure::Run(format!("the table can't be written as TOML: {e}")))?;
    document.write(&text)
}

/// Refuses runs that don't fit into memory.
fn check(kind: Kind, args: &TuneOptions) -> Result<(), Failure> {
    let name = kind.name();
    let most = |counts: &Counts| counts.0.iter().copied().max().unwrap_or(0);
    let (p, elements) = (most(&args.shards), most(&args.elements));
    let parties = Parties::usual(kind, shards(p)?);
    // Four contributions of each shard and a result are there at once.
    let blocks = u128::from(4 * parties.blocks_in() + parties.blocks_out()) * p as u128;
    let bytes = blocks.saturating_mul(elements as u128).saturating_mul(size_of::<i64>() as u128);
    check_memory(&format!("{name} of {p} shards with {elements} elements a block"), 1, bytes)
}

/// Measures, in turns, all algorithms that the mapper may choose.
fn measured(
    parties: &Parties,
    elements: usize,
    effort: Effort,
    runtime: &Runtime,
    chosen: &Chosen,
) -> Result<Found, Failure> {
    // The mapper is asked once, to know what it is told. This warms up, too.
    timed(parties, elements, None, 1, runtime)?;
    let asked = chosen.take().ok_or_else(|| Failure::Run("the mapper was not asked for an algorithm".into()))?;
    let algorithms = asked.choices.clone();
    let bytes = elements * size_of::<i64>();
    let mut times = vec![Vec::new(); algorithms.len()];
    for _ in 0..effort.rounds {
        for (algorithm, times) in algorithms.iter().zip(&mut times) {
            times.push(timed(parties, elements, Some(*algorithm), effort.calls(bytes), runtime)?);
        }
    }
    let ranked = ranked(&algorithms, times);
    Ok(Found { kind: parties.kind, shards: parties.shards, bytes, asked, ranked })
}

/// The algorithms and their median times, the fastest first.
fn ranked(algorithms: &[Algorithm], times: Vec<Vec<f64>>) -> Vec<(Algorithm, f64)> {
    let mut all: Vec<_> = algorithms.iter().copied().zip(times.into_iter().map(median)).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

/// The rows of the table. The least size of a kind and a number of shards stands for all below it, too: down to no bytes, or
/// to one byte if a barrier was measured, which is an allreduce of none.
fn rows(found: &[Found]) -> Vec<Choice> {
    let barrier = found.iter().any(|found| found.kind == Kind::Barrier);
    let mut rows = Vec::new();
    let mut before = None;
    for Found { kind, shards, asked, ranked, .. } in found {
        let bytes = match before.replace((*kind, *shards)) == Some((*kind, *shards)) {
            true => asked.bytes,
            false => usize::from(barrier && *kind == Kind::Allreduce),
        };
        let row = Choice {
            kind: asked.kind,
            layout: Some(asked.layout),
            nodes: Some(asked.nodes),
            shards: *shards,
            bytes,
            algorithms: ranked.iter().map(|(algorithm, _)| *algorithm).collect(),
        };
        // Of one shard, a reduce is an allreduce.
        if !rows.iter().any(|other: &Choice| other.is_for_the_same(&row)) {
            rows.push(row);
        }
    }
    rows
}

/// The report: what was chosen, and by how much.
fn report(found: &[Found]) -> String {
    let mut rows = Builder::default();
    rows.push_record(COLUMNS);
    for Found { kind, shards, bytes, asked, ranked } in found {
        let [(best, us), others @ ..] = &ranked[..] else { continue };
        let ratio = |other: Option<&(Algorithm, f64)>| {
            other.map_or_else(Default::default, |(name, more)| [name.to_string(), format!("{:.2}", more / us)])
        };
        let usual = ranked.iter().find(|(name, _)| asked.algorithm == Some(*name));
        let [next, beaten] = ratio(others.first());
        let [usual, gained] = ratio(usual);
        let (kind, layout, nodes) = (kind.name().into(), asked.layout.name().into(), asked.nodes.name().into());
        let (shards, bytes, best, us) = (shards.to_string(), bytes.to_string(), best.to_string(), microseconds(*us));
        rows.push_record([kind, layout, nodes, shards, bytes, us, best, next, beaten, usual, gained]);
    }
    format!("{}\n", styled(rows, 3))
}

const COLUMNS: [&str; 11] =
    ["Kind", "Layout", "Nodes", "Shards", "Size", "Time(us)", "Algorithm", "Next", "Ratio", "Usual", "Ratio"];

#[cfg(test)]
mod tests {
    use super::*;
    use maniple::mapper::{Layout, Nodes};

    #[test]
    fn medians_are_ranked() {
        let algorithms = [Algorithm::RecursiveDoubling, Algorithm::Direct, Algorithm::Radix(4)];
        let times = vec![vec![3.0, 9.0, 2.0], vec![1.0, 50.0, 1.5], vec![7.0, 0.5, 8.0]];
        let ranked = ranked(&algorithms, times);
        assert_eq!(ranked, [(Algorithm::Direct, 1.5), (Algorithm::RecursiveDoubling, 3.0), (Algorithm::Radix(4), 7.0)]);
        let asked = |bytes| Asked {
            kind: Kind::Allreduce,
            layout: Layout::Apart,
            nodes: Nodes::One,
            bytes,
            choices: Vec::new(),
            algorithm: Some(Algorithm::Radix(4)),
        };
        let of = |kind, bytes| Found { kind, shards: 3, bytes, asked: asked(bytes), ranked: ranked.clone() };
        let found = [of(Kind::Barrier, 0), of(Kind::Allreduce, 8), of(Kind::Allreduce, 80)];
        let said = report(&found);
        let last = said.lines().last().unwrap().split('|').map(str::trim).collect::<Vec<_>>().join(" ");
        assert_eq!(last.trim(), "allreduce apart one 3 80 1.500 direct recursive-doubling 2.00 radix-4 4.67");
        let bytes = |found: &[Found]| rows(found).iter().map(|row| row.bytes).collect::<Vec<_>>();
        assert_eq!(bytes(&found), [0, 1, 80]);
        assert_eq!(bytes(&found[1..]), [0, 80]);
        assert_eq!(rows(&found)[2].algorithms, [Algorithm::Direct, Algorithm::RecursiveDoubling, Algorithm::Radix(4)]);
    }
}
