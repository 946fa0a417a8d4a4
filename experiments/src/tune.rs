//! `maniple tune`.

use crate::Failure;
use crate::collective::kind::{Kind, Parties};
use crate::collective::timed;
use crate::measure::environment::Environment;
use crate::options::counts::Counts;
use crate::options::help::exit_codes;
use crate::options::numbers::{at_least_one, count, shards};
use crate::options::workers::OnWorkers;
use crate::options::{OutputFile, Traced};
use crate::output::Document;
use maniple::mapper::{Choice, ChoiceTable, Layout};
use maniple_collectives::Algorithm;

/// Measure which algorithm suits which collective, and write a table for --mapper collective,table=FILE
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Each algorithm for a kind, a number of shards and a size is measured in each round, one after the other, and the medians of \
the rounds count. Among them are dissemination with 1 to 7 messages a round, and radix exchanges in groups of 2 to 16. Elements \
are 64-bit integers, whose sum obeys all laws that an algorithm may need. A row of the table names all algorithms, the fastest \
first, and a program takes the first one that gives its operator the right bits.

A row is for as many shards and bytes as were measured, and for more up to the next row. It is for shards that share processors \
if there are more shards than processors.

The table goes to --output or to stdout, and what was found to stderr: the fastest algorithm, its time, and how much longer the \
next one takes.

", exit_codes!("every run was verified", "a run failed or was not verified, or the table could not be written", "the arguments are \
at fault")
))]
pub struct TuneOptions {
    /// Kinds of collectives, with commas between them
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', default_values_t = KINDS)]
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

const KINDS: [Kind; 7] =
    [Kind::Allreduce, Kind::Reduce, Kind::Broadcast, Kind::Allgather, Kind::ReduceScatter, Kind::AllToAll, Kind::Scan];

/// The algorithms for a goal, with several numbers of those that have one.
fn candidates(parties: &Parties) -> Vec<Algorithm> {
    let goal = parties.goal(1);
    Algorithm::all_for(&goal).flat_map(Algorithm::variants).filter(|algorithm| algorithm.is_for(&goal)).collect()
}

/// Measures, and writes the table.
pub fn execute(args: &TuneOptions) -> Result<(), Failure> {
    let in_virtual_time = args.on.workers.wire.in_virtual_time()?;
    let rounds = at_least_one("rounds", args.rounds.unwrap_or(if in_virtual_time || args.quick { 1 } else { 5 }))?;
    let output = args.output.output.as_deref();
    args.on.files()?.writes("--output", output).check()?;
    let document = Document::prepare(output)?;
    let (mut rows, mut machine) = (Vec::new(), None);
    for &kind in &args.kind {
        for &p in &args.shards.0 {
            let parties = Parties::usual(kind, shards(p)?);
            let algorithms = candidates(&parties);
            if algorithms.is_empty() {
                eprintln!("{} of {p} shards: no algorithm", kind.name());
                continue;
            }
            let (workers, runtime, _) = args.on.runtime(p, &Traced::default())?;
            machine = args.on.workers.machine(p)?.map(|m| m.name.to_string()).or(machine);
            let layout = if p > workers { Layout::Neighbours } else { Layout::Apart };
            // A barrier has no elements. Mappers take it for an allreduce of none.
            let sizes = if kind == Kind::Barrier { &[0][..] } else { &args.elements.0 };
            for &elements in sizes {
                let bytes = elements * size_of::<i64>();
                let calls = match bytes {
                    _ if in_virtual_time => 5,
                    _ if args.quick => 10,
                    ..=8192 => 300,
                    _ => 30,
                };
                let mut times = vec![Vec::new(); algorithms.len()];
                for _ in 0..rounds {
                    for (algorithm, times) in algorithms.iter().zip(&mut times) {
                        times.push(timed(&parties, elements, *algorithm, calls, &runtime)?);
                    }
                }
                let ranked = ranked(&algorithms, times);
                eprintln!("{}", line(kind, p, bytes, &ranked));
                let algorithms = ranked.into_iter().map(|(algorithm, _)| algorithm.to_string()).collect();
                // Mappers are told the size of the largest vector of any shard.
                let blocks = parties.blocks_in().max(parties.blocks_out()) as usize;
                rows.push(Choice {
                    kind: parties.goal(1).to_string(),
                    layout,
                    shards: p as u32,
                    bytes: bytes * blocks,
                    algorithms,
                });
            }
        }
    }
    let host = || Environment::now().machine.cpu.unwrap_or_else(|| "unknown".into());
    let machine = machine.unwrap_or_else(host);
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let table = ChoiceTable::new(&machine, &format!("maniple {command}"), rows);
    let text = toml::to_string(&table).map_err(|e| Failure::Run(format!("the table can't be written as TOML: {e}")))?;
    document.write(&text)
}

/// The algorithms and their median times, the fastest first.
fn ranked(algorithms: &[Algorithm], times: Vec<Vec<f64>>) -> Vec<(Algorithm, f64)> {
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let mut all: Vec<_> = algorithms.iter().copied().zip(times.into_iter().map(median)).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

/// What was found for one size.
fn line(kind: Kind, shards: usize, bytes: usize, ranked: &[(Algorithm, f64)]) -> String {
    let what = format!("{} of {shards} shards, {bytes} bytes a block", kind.name());
    match ranked {
        [(best, us), (next, more), ..] => {
            format!("{what}: {best}, {us:.2} µs; {next} takes {:.2} times as long", more / us)
        }
        [(best, us)] => format!("{what}: {best}, {us:.2} µs"),
        [] => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_ranked() {
        let algorithms = [Algorithm::RecursiveDoubling, Algorithm::Direct, Algorithm::Radix(4)];
        let times = vec![vec![3.0, 9.0, 2.0], vec![1.0, 50.0, 1.5], vec![7.0, 0.5, 8.0]];
        let ranked = ranked(&algorithms, times);
        assert_eq!(ranked, [(Algorithm::Direct, 1.5), (Algorithm::RecursiveDoubling, 3.0), (Algorithm::Radix(4), 7.0)]);
        assert_eq!(
            line(Kind::Allreduce, 3, 8, &ranked),
            "allreduce of 3 shards, 8 bytes a block: direct, 1.50 µs; recursive-doubling takes 2.00 times as long"
        );
    }

    #[test]
    fn numbers_of_algorithms_are_among_the_candidates() {
        let all = candidates(&Parties::usual(Kind::Allreduce, 12));
        for algorithm in [Algorithm::Dissemination(1), Algorithm::Dissemination(7), Algorithm::Radix(16)] {
            assert!(all.contains(&algorithm), "{algorithm}");
        }
    }
}
