//! `maniple collective`.

pub mod chain;
pub mod chosen;
pub mod kind;
pub mod oracle;
mod report;
pub mod run;
pub mod values;

use crate::Failure;
use crate::files::check_trace;
use crate::host::HostRun;
use crate::micro::Bench;
use crate::options::counts::Counts;
use crate::options::help::{cache_line_column, exit_codes, machine_columns};
use crate::options::numbers::{at_least_one, check_memory, count};
use crate::options::wire::Wire;
use crate::options::workers::OnWorkers;
use crate::options::{Reported, Shards, Traced};
use crate::output::{Format, field};
use chain::Chained;
use chosen::Chosen;
use kind::{KindOptions, Parties};
use maniple::runtime::{Error, Runtime, Stats};
use maniple_collectives::{Algorithm, Kind, Laws, Order};
use maniple_stencil::plural;
use report::Measured;
use run::{Found, Workload, early};
use std::time::Instant;
use values::{Brackets, Op, Type};

/// Measure a collective of any kind, for several sizes: latency and bandwidth, in the columns of the OSU micro-benchmarks
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Each call begins after a barrier of all shards that take part. Its time is taken on each of them. After another \
barrier its result is compared with the result of a sequential loop over the contributions. The contributions differ from call to call, \
and are chosen so that the order of combination changes no bit.

With --chained each call of an allreduce depends on the result of the one before, and there is no barrier between them: the way \
in which solvers use it. Each shard contributes its number plus the remainder of the last result by 97; the last result is 1 \
at first. For product it contributes -1 if its number plus the last result is a multiple of 3, and else 1. Only one element of a vector differs from 0. The time of a \
call includes the time to fill and check that one.

Columns of the report:
  Size              bytes of a block: of --elements
  Avg, Min, Max Latency(us)
                    mean, minimum and maximum over the shards; each shard's value is its mean time of a call. In virtual \
time these are microseconds of the machine
  Iterations        the calls that are measured
  Bandwidth(MB/s)   megabytes (10^6 bytes) of a shard's contribution or of its result, whichever is larger, per second of the \
mean latency
  Algorithm         the algorithm that ran: without --algorithm, the one that the mapper has chosen
  Verified          whether every shard had the right result in every call. Of a barrier: whether in the last 100 calls no \
receiver left before all participants had entered. With several processes, only shards of one host are compared. With \
--chained: whether every shard has the expected result of the last call

JSON and CSV have these as size, avg_latency_us, min_latency_us, max_latency_us, iterations, bandwidth_mb_s, algorithm and \
verified, and have the options and
",
    machine_columns!(),
    "  events, digest, host_s, shard_rounds_per_s, peak_bytes
                  in virtual time: see `maniple stencil --help`

With --chained they also have
  result, expected  the result of the last call, and the same, computed without an allreduce
",
    cache_line_column!(),
    "
The kinds, and what their shards contribute and receive, for P participants and --elements N:
  allreduce, reduce  N each; the combination of N
  broadcast          N, at one participant; the same N
  barrier            nothing
  gather, allgather  N each; P·N
  scatter            N for each receiver, at one participant; N
  reduce-scatter     N for each receiver; the combination of N
  all-to-all         N for each receiver; N of each participant
  scan, exscan       N each; the combination of N up to this shard, or before it

", exit_codes!("the arguments are at fault, or an algorithm is not for the kind, the shards or the operator's laws")
))]
pub struct CollectiveOptions {
    #[command(flatten)]
    kind: KindOptions,

    /// Let each call of an allreduce of 64-bit floats depend on the result of the one before, with no barrier between them
    #[arg(long)]
    chained: bool,

    #[command(flatten)]
    shards: Shards,

    /// Elements of a block, from 1, increasing, with commas between them. A..B stands for A, 2A, 4A and so on, up to B
    /// [default: 1..4096]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    elements: Option<Counts>,

    /// Type of the elements [default: f64]
    #[arg(long = "type", value_name = "TYPE")]
    of: Option<Type>,

    /// Operator of kinds that combine contributions [default: sum]
    #[arg(long, value_name = "NAME")]
    operator: Option<Op>,

    /// How combinations are grouped. An algorithm that groups otherwise is refused, unless the result has the same bits
    /// [default: doubling]
    #[arg(long, value_name = "ORDER")]
    order: Option<Brackets>,

    /// Calls that are measured for each size. A tenth as many come before them to warm up [default: 1000 for sizes up to 8192
    /// bytes, 100 for larger ones, in virtual time 20]
    #[arg(long, value_name = "I", value_parser = count, allow_negative_numbers = true)]
    iterations: Option<usize>,

    /// Number of runs of each size
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = count, allow_negative_numbers = true)]
    repeat: usize,

    #[command(flatten)]
    on: OnWorkers,

    #[command(flatten)]
    traced: Traced,

    #[command(flatten)]
    reported: Reported,
}

impl CollectiveOptions {
    /// The sizes, the type and the operator; none of them for a barrier.
    fn elements(&self, parties: &Parties) -> Result<(Vec<usize>, Type, Op), Failure> {
        let name = parties.kind.name();
        let given = [
            ("elements", self.elements.is_some()),
            ("type", self.of.is_some()),
            ("operator", self.operator.is_some() && !parties.combines()),
        ];
        for (option, given) in given {
            if given && (parties.kind == Kind::Barrier || option == "operator") {
                let why = if option == "operator" { "it combines nothing" } else { "it has no elements" };
                return Err(Failure::Usage(format!("--{option} is not for {name}: {why}")));
            }
        }
        if self.chained && (parties.kind != Kind::Allreduce || self.of.is_some_and(|of| of != Type::F64)) {
            let of = self.of.unwrap_or(Type::F64).name();
            return Err(Failure::Usage(format!("--chained: expected --kind allreduce of f64, found {name} of {of}")));
        }
        let sizes = match (&self.elements, parties.kind) {
            (_, Kind::Barrier) => vec![0],
            (Some(counts), _) => counts.0.clone(),
            (None, _) => (0..=12).map(|power| 1 << power).collect(),
        };
        Ok((sizes, self.of.unwrap_or(Type::F64), self.operator.unwrap_or(Op::Sum)))
    }

    /// The brackets, for a kind that has some.
    fn order(&self, parties: &Parties) -> Result<Order, Failure> {
        match self.order {
            Some(_) if !parties.combines() => {
                Err(Failure::Usage(format!("--order is not for {}: it combines nothing", parties.kind.name())))
            }
            order => Ok(order.map_or(Order::Doubling, Brackets::order)),
        }
    }

    /// The calls that are measured, for a block of `bytes` bytes.
    fn iterations(&self, bytes: usize, in_virtual_time: bool) -> Result<usize, Failure> {
        const SMALL: usize = 8192;
        let usual = match bytes {
            _ if in_virtual_time => 20,
            ..=SMALL => 1000,
            _ => 100,
        };
        at_least_one("iterations", self.iterations.unwrap_or(usual))
    }
}

/// Refuses an algorithm that does not reach the goal, or that an operator with these laws forbids. Without an algorithm,
/// refuses a goal that none reaches.
pub fn check_algorithm(
    parties: &Parties,
    algorithm: Option<Algorithm>,
    (op, order): (Op, Order),
    of: Type,
) -> Result<(), Failure> {
    let goal = parties.goal(1);
    let laws = match of {
        _ if !parties.combines() => Laws::ALL,
        Type::I32 => op.operator::<i32>().laws(),
        Type::I64 => op.operator::<i64>().laws(),
        Type::U64 => op.operator::<u64>().laws(),
        Type::F32 => op.operator::<f32>().laws(),
        Type::F64 => op.operator::<f64>().laws(),
    };
    let missing = |algorithm: Algorithm| algorithm.laws(&goal).without(laws);
    let Some(algorithm) = algorithm else {
        return parties.check_any();
    };
    parties.check(algorithm)?;
    match missing(algorithm) {
        Laws::NONE => Ok(()),
        // That needs no law, and has algorithms of its own.
        _ if order == Order::Left => Ok(()),
        missing => Err(Failure::Usage(format!(
            "--algorithm {algorithm}: expected an operator that is {missing} bit for bit, found {} of {}, which is not",
            op.name(),
            of.name()
        ))),
    }
}

/// Checks that the memory available now can hold a run.
pub fn check_run(parties: &Parties, elements: usize, of: Type) -> Result<(), Failure> {
    /// The state of a shard with its part of two collectives.
    const SHARD: u128 = 2000;
    /// A contribution for each variant, and one under way.
    const OF_PARTICIPANT: u128 = 4;
    /// A result, and the right one of each variant if no other shard has the same.
    const OF_RECEIVER: u128 = 1;
    let vectors = OF_PARTICIPANT * u128::from(parties.participants.len()) * u128::from(parties.blocks_in())
        + OF_RECEIVER * u128::from(parties.receivers.len()) * u128::from(parties.blocks_out());
    let shards = parties.shards as usize;
    let all = SHARD * shards as u128 + vectors * elements as u128 * of.bytes() as u128;
    let (who, what) = (plural(shards, "shard"), plural(elements, "element"));
    check_memory(&format!("{} of {who} with {what} a block", parties.kind.name()), 1, all)
}

/// A run's results on a runtime, for elements of a type.
fn run(workload: &Workload, of: Type, runtime: &Runtime) -> Result<(Vec<Found>, Stats), Failure> {
    let found = match of {
        Type::I32 => workload.run::<i32>(runtime),
        Type::I64 => workload.run::<i64>(runtime),
        Type::U64 => workload.run::<u64>(runtime),
        Type::F32 => workload.run::<f32>(runtime),
        Type::F64 => workload.run::<f64>(runtime),
    };
    found.map_err(failed)
}

/// The failure of a run.
fn failed(e: Error) -> Failure {
    match e {
        // The collective could not be made.
        Error::Misuse { .. } => Failure::Usage(e.to_string()),
        _ => Failure::Run(e.to_string()),
    }
}

/// The mean time of a call by an algorithm on the slowest shard, in microseconds, for elements of type i64 and their sum.
/// Without an algorithm, the mapper chooses it.
pub fn timed(
    parties: &Parties,
    elements: usize,
    algorithm: Option<Algorithm>,
    iterations: usize,
    runtime: &Runtime,
) -> Result<f64, Failure> {
    let warm_up = iterations.div_ceil(10);
    let workload = Workload {
        parties: parties.clone(),
        elements,
        op: Op::Sum,
        order: Order::Doubling,
        algorithm,
        warm_up,
        iterations,
        processes: false,
    };
    let (found, _) = run(&workload, Type::I64, runtime)?;
    match wrong(parties, &found) {
        None => Ok(found.iter().map(|f| f.us(iterations)).fold(0.0, f64::max)),
        Some(wrong) => Err(Failure::Run(format!("{} not verified: {wrong}", parties.kind.name()))),
    }
}

/// Measures one size.
fn measured(workload: &Workload, of: Type, chained: bool, runtime: &Runtime) -> Result<Measured, Failure> {
    let began = Instant::now();
    if chained {
        let Chained { results, times, stats } = workload.chained(runtime).map_err(failed)?;
        let host = HostRun::of(&stats, began.elapsed());
        let expected = workload.chained_result();
        let result = results.into_iter().find(|result| *result != expected).unwrap_or(expected);
        let wrong = (result != expected).then(|| format!("expected {expected}, found {result}"));
        return Ok(Measured { times, chain: Some((result, expected)), wrong, host });
    }
    let (found, stats) = run(workload, of, runtime)?;
    let host = HostRun::of(&stats, began.elapsed());
    let times =
        workload.parties.taking_part().iter().map(|shard| found[shard as usize].us(workload.iterations)).collect();
    Ok(Measured { times, chain: None, wrong: wrong(&workload.parties, &found), host })
}

/// What is wrong in a run, if something is.
pub fn wrong(parties: &Parties, found: &[Found]) -> Option<String> {
    let shard = (0_u32..).zip(found).find_map(|(shard, found)| Some((shard, found.wrong?)));
    if let Some((shard, (call, element))) = shard {
        return Some(format!("shard {shard} has a wrong element {element} in call {call}"));
    }
    let (pass, receiver, participant) = early(parties, found)?;
    Some(format!("shard {receiver} left call {pass} of those compared before shard {participant} had entered it"))
}

/// Measures and reports.
pub fn execute(args: &CollectiveOptions) -> Result<(), Failure> {
    let shards = args.shards.number()?;
    let parties = args.kind.parties(shards)?;
    let algorithm = args.kind.algorithm.map(|algorithm| algorithm.taken_for(&parties.goal(1)));
    let (sizes, of, op) = args.elements(&parties)?;
    let order = args.order(&parties)?;
    check_algorithm(&parties, algorithm, (op, order), of)?;
    args.iterations(0, false)?;
    at_least_one("repeat", args.repeat)?;
    let largest = sizes.iter().copied().max().unwrap_or(0);
    check_run(&parties, largest, of)?;
    let machine = args.on.workers.place(args.shards.shards)?.0.machine();
    let chosen = Chosen::default();
    let listen = |slot: &_| chosen.listen(slot);
    let (workers, runtime, trace) = args.on.runtime_with(args.shards.shards, &args.traced, listen)?;
    let wire = &args.on.workers.wire;
    let processes = matches!(wire.wire(), Wire::Processes | Wire::Mpi);
    let measure = |elements: usize| {
        let iterations = args.iterations(elements * of.bytes(), machine.is_some())?;
        let (parties, warm_up) = (parties.clone(), iterations.div_ceil(10));
        let workload = Workload { parties, elements, op, order, algorithm, warm_up, iterations, processes };
        Ok((measured(&workload, of, args.chained, &runtime)?, workload))
    };
    let record = |(measured, workload): (Measured, Workload), cache_line_ns| {
        let ran = algorithm.or_else(|| chosen.take()?.algorithm).map(|algorithm| algorithm.to_string());
        let common = [field("workers", workers), field("mapper", args.on.mapper.name())];
        let bytes = plural(workload.elements * of.bytes(), "byte");
        let wrong = measured.wrong.as_ref().map(|wrong| format!("{bytes}: {wrong}"));
        (report::record(&workload, of, common, ran, measured, cache_line_ns), wrong)
    };
    let sizes = sizes.into_iter().flat_map(|size| std::iter::repeat_n(size, args.repeat));
    let bench = Bench::once("collective", wire, machine.as_deref().cloned(), &args.reported);
    // On a busy host it takes half a second. Without a chain it is only for the warning under a table.
    let with_yardstick = args.chained || args.reported.format == Format::Table;
    let bench = if with_yardstick { bench.with_yardstick()? } else { bench };
    bench.report_each(sizes, measure, record, report::table)?;
    check_trace(trace.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_collectives::Ranks;

    #[test]
    fn the_first_wrong_result_is_named() {
        let all = Ranks::all(2);
        let parties = Parties { kind: Kind::Scan, shards: 2, participants: all.clone(), receivers: all };
        let mut found = vec![Found::default(); 2];
        assert_eq!(wrong(&parties, &found), None);
        found[1].wrong = Some((7, 30));
        assert_eq!(wrong(&parties, &found).as_deref(), Some("shard 1 has a wrong element 30 in call 7"));
    }
}
