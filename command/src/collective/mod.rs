//! `maniple collective`.

pub mod chosen;
pub mod kind;
pub mod oracle;
mod report;
pub mod run;
pub mod values;

use crate::Failure;
use crate::machines::reduced::warn_without_costs;
use crate::measure::noise::busy;
use crate::measure::yardstick::Yardstick;
use crate::options::counts::Counts;
use crate::options::help::{exit_codes, machine_columns};
use crate::options::numbers::{at_least_one, check_memory, count};
use crate::options::wire::Wire;
use crate::options::workers::{OnWorkers, Place};
use crate::options::{Reported, Shards, Traced};
use crate::output::Output;
use chosen::Chosen;
use kind::{KindOptions, Parties};
use maniple::runtime::{Error, Runtime, TraceFile};
use maniple_collectives::{Algorithm, Kind, Laws, Order};
use maniple_stencil::{StencilError, plural};
use report::{Common, Measured};
use run::{Found, Spec, early};
use values::{Brackets, Op, Type};

/// Measure a collective of any kind, for several sizes: latency and bandwidth, in the columns of the OSU micro-benchmarks
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Each call begins after a barrier of all shards that take part. Its time is taken on each of them. After another \
barrier its result is compared with that of a sequential loop over the contributions. The contributions differ from call to call, \
and are chosen so that the order of combination changes no bit.

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
receiver left before all participants had entered. With several processes, only shards of one host are compared

JSON and CSV have these as size, avg_latency_us, min_latency_us, max_latency_us, iterations, bandwidth_mb_s, algorithm and \
verified, and have the options and
",
    machine_columns!(),
    "
The kinds, and what their shards contribute and receive, for P participants and --elements N:
  allreduce, reduce  N each; the combination of N
  broadcast          N, at one participant; the same N
  barrier            nothing
  gather, allgather  N each; P·N
  scatter            N for each receiver, at one participant; N
  reduce-scatter     N for each receiver; the combination of N
  all-to-all         N for each receiver; N of each participant
  scan, exscan       N each; the combination of N up to this shard, or of those before it

", exit_codes!("the arguments are at fault, or an algorithm is not for the kind, the shards or the operator's laws")
))]
pub struct CollectiveOptions {
    #[command(flatten)]
    kind: KindOptions,

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

    /// Brackets of the combination, of kinds that combine contributions. An algorithm with others is refused, unless no bit can
    /// depend on them [default: doubling]
    #[arg(long, value_name = "ORDER")]
    order: Option<Brackets>,

    /// Calls that are measured for each size. A tenth as many come before them to warm up [default: 1000 for sizes up to 8192
    /// bytes, 100 for larger ones, in virtual time 20]
    #[arg(long, value_name = "I", value_parser = count, allow_negative_numbers = true)]
    iterations: Option<usize>,

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

    /// The calls that are measured, for a block of so many bytes.
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
fn run(spec: &Spec, of: Type, runtime: &Runtime) -> Result<Vec<Found>, Failure> {
    let found = match of {
        Type::I32 => spec.run::<i32>(runtime),
        Type::I64 => spec.run::<i64>(runtime),
        Type::U64 => spec.run::<u64>(runtime),
        Type::F32 => spec.run::<f32>(runtime),
        Type::F64 => spec.run::<f64>(runtime),
    };
    found.map_err(|e| match e {
        // The collective could not be made.
        Error::Misuse { .. } => Failure::Usage(e.to_string()),
        _ => Failure::Run(e.to_string()),
    })
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
    let spec = Spec {
        parties: parties.clone(),
        elements,
        op: Op::Sum,
        order: Order::Doubling,
        algorithm,
        warm_up,
        iterations,
        processes: false,
    };
    let found = run(&spec, Type::I64, runtime)?;
    match wrong(parties, &found) {
        None => Ok(found.iter().map(|f| f.us(iterations)).fold(0.0, f64::max)),
        Some(wrong) => Err(Failure::Run(format!("{} not verified: {wrong}", parties.kind.name()))),
    }
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
    let algorithm = args.kind.algorithm()?.map(|algorithm| algorithm.taken_for(&parties.goal(1)));
    let (sizes, of, op) = args.elements(&parties)?;
    let order = args.order(&parties)?;
    check_algorithm(&parties, algorithm, (op, order), of)?;
    args.iterations(0, false)?;
    let largest = sizes.iter().copied().max().unwrap_or(0);
    check_run(&parties, largest, of)?;
    let machine = match args.on.workers.place(args.shards.shards)?.0 {
        Place::Machine(machine) => Some(machine),
        Place::Threads | Place::Processes(_) => None,
    };
    let chosen = Chosen::default();
    let listen = |slot: &_| chosen.listen(slot);
    let (workers, runtime, trace) = args.on.runtime_with(args.shards.shards, &args.traced, listen)?;
    machine.as_deref().into_iter().for_each(warn_without_costs);
    let wire = &args.on.workers.wire;
    let processes = matches!(wire.wire(), Wire::Processes | Wire::Mpi);
    let common =
        Common { wire, machine: machine.as_deref(), parties: &parties, workers, of, op, mapper: &args.on.mapper };
    let mut output = Output::new(args.reported.format);
    // Only a table has room for a warning. Several processes would measure at the same time.
    let watched = output.is_table() && machine.is_none() && !processes;
    let exchange_ns = || if watched { Yardstick::Host.ns() } else { f64::NAN };
    let before = exchange_ns();
    let mut unverified = Vec::new();
    let mut measure = |elements: usize| {
        let bytes = elements * of.bytes();
        let iterations = args.iterations(bytes, machine.is_some())?;
        let warm_up = iterations.div_ceil(10);
        let parties = parties.clone();
        let spec = Spec { parties, elements, op, order, algorithm, warm_up, iterations, processes };
        let found = run(&spec, of, &runtime)?;
        let wrong = wrong(&spec.parties, &found);
        let ran = algorithm.or_else(|| chosen.take()?.algorithm).map(|algorithm| algorithm.to_string());
        let verified = wrong.is_none();
        unverified.extend(wrong.map(|wrong| format!("{}: {wrong}", plural(bytes, "byte"))));
        let times: Vec<f64> = spec.parties.taking_part().iter().map(|s| found[s as usize].us(iterations)).collect();
        output.add(Measured { bytes, elements, times, iterations, algorithm: ran, verified }.record(&common))
    };
    let done = sizes.iter().try_for_each(|&elements| measure(elements));
    let warning = busy(before.max(exchange_ns())).filter(|_| done.is_ok());
    let finished = output.finish_with(|records| report::table(records, warning));
    done?;
    finished?;
    trace.as_ref().map_or(Ok(()), TraceFile::written).map_err(|e| Failure::Run(StencilError::Trace(e).to_string()))?;
    conclude(sizes.len(), &unverified)
}

/// Fails if a size was not verified.
fn conclude(sizes: usize, unverified: &[String]) -> Result<(), Failure> {
    let Some(first) = unverified.first() else { return Ok(()) };
    Err(Failure::Run(format!("{} of {} not verified; {first}", unverified.len(), plural(sizes, "size"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_collectives::Ranks;

    #[test]
    fn a_size_that_is_not_verified_is_a_failure_that_names_it() {
        assert!(conclude(2, &[]).is_ok());
        let all = Ranks::all(2);
        let parties = Parties { kind: Kind::Scan, shards: 2, participants: all.clone(), receivers: all };
        let mut found = vec![Found::default(); 2];
        assert_eq!(wrong(&parties, &found), None);
        found[1].wrong = Some((7, 30));
        let said = wrong(&parties, &found).expect("wrong");
        let Err(Failure::Run(message)) = conclude(2, &[format!("8 bytes: {said}")]) else { panic!("exit code 1") };
        assert_eq!(message, "1 of 2 sizes not verified; 8 bytes: shard 1 has a wrong element 30 in call 7");
    }
}
