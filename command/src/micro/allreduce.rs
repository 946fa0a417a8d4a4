//! `maniple allreduce`.

use super::{OnWorkersTraced, SHARD_BYTES, now, run_error};
use crate::Failure;
use crate::options::help::{exchange_column, exit_codes, machine_columns};
use crate::options::numbers::{check_memory, count, zero};
use crate::options::{AllreduceAlgorithm, Iterations, Shards};
use crate::output::{Field, field};
use maniple::collectives::{Algorithm, Goal, Laws, Order};
use maniple::prelude::*;
use maniple::runtime::Stats;
use maniple_stencil::{HostRun, plural};
use std::str::FromStr;
use std::time::Instant;

/// Measure an allreduce of 64-bit floats, in which each call depends on the last result
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Columns of the report:\n",
    machine_columns!(),
    "  collective_us   time of a call, on the shard that took longest: the mean of all calls but those to warm up
  result          result of the last call. Each shard contributes its number plus the last result modulo 97; before the \
first call that is 1. For product it contributes -1 if this sum is a multiple of 3, and else 1
  expected        the same result, computed without an allreduce
  verified        whether every shard has the expected result
  events, digest, host_s, shard_rounds_per_s, peak_bytes
                  in virtual time: see `maniple stencil --help`
",
    exchange_column!(),
    "\n",
    exit_codes!()
))]
#[command(mut_arg("iterations", |arg| {
    arg.default_value("1000").help("Calls of each run. A tenth as many come before them to warm up")
}))]
pub struct AllreduceOptions {
    #[command(flatten)]
    shards: Shards,

    #[command(flatten)]
    elements: Elements,

    #[command(flatten)]
    iterations: Iterations,

    #[command(flatten)]
    op: CombinedBy,

    #[command(flatten)]
    collective: AllreduceAlgorithm,

    #[command(flatten)]
    bench: OnWorkersTraced,
}

/// The length of contributions.
#[derive(Debug, clap::Args)]
pub struct Elements {
    /// Elements of each contribution, at least 1 [default: 1]
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub elements: Option<usize>,
}

impl Elements {
    /// The number that was given, or else 1.
    pub fn count(&self) -> usize {
        self.elements.unwrap_or(1)
    }

    /// The number, at least one: of nothing, no result can be verified.
    pub fn number(&self) -> Result<usize, Failure> {
        match self.count() {
            0 => Err(Failure::Usage(zero("elements"))),
            elements => Ok(elements),
        }
    }
}

/// The operator that combines contributions.
#[derive(Debug, clap::Args)]
pub struct CombinedBy {
    /// Operator: sum, product, min or max
    #[arg(long, value_name = "NAME", default_value = "sum")]
    pub op: Op,
}

/// The operators that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Sum,
    Product,
    Min,
    Max,
}

impl FromStr for Op {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Op::Sum, Op::Product, Op::Min, Op::Max];
        let unknown = || format!("unknown operator `{name}`; expected one of {}", all.map(Op::name).join(", "));
        all.into_iter().find(|op| op.name() == name).ok_or_else(unknown)
    }
}

impl Op {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Op::Sum => "sum",
            Op::Product => "product",
            Op::Min => "min",
            Op::Max => "max",
        }
    }

    fn operator(self) -> Operator<f64> {
        match self {
            Op::Sum => Operator::sum(),
            Op::Product => Operator::product(),
            Op::Min => Operator::min(),
            Op::Max => Operator::max(),
        }
    }

    /// A shard's contribution after a call with the result `last`. It is a whole number, so that every grouping gives the same
    /// bits.
    pub fn own(self, last: f64, shard: u32) -> f64 {
        match self {
            Op::Product => {
                if (last as i64 + i64::from(shard)) % 3 == 0 {
                    -1.0
                } else {
                    1.0
                }
            }
            _ => last.rem_euclid(97.0) + f64::from(shard),
        }
    }

    /// The result of a call after one with the result `last`, without an allreduce.
    fn next(self, last: f64, shards: u32) -> f64 {
        let all = (0..shards).map(|s| self.own(last, s));
        match self {
            Op::Sum => all.sum(),
            Op::Product => all.product(),
            Op::Min => all.fold(f64::INFINITY, f64::min),
            Op::Max => all.fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
enum Total {
    One(Collective<f64>),
    Many(Collective<[f64]>),
}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Calls {
    total: Total,
    elements: usize,
    warm_up: usize,
    iterations: usize,
    op: u8,
}

/// Makes the calls. Returns the last result, and the nanoseconds of the calls that are measured.
///
/// Only one element of a vector differs from 0, a different one in each call, and the result is the next contribution. So
/// nothing outside the call takes time proportional to its length.
///
/// One more call follows that does not count. It is over when all shards have measured, so no shard sends its result and
/// ends while another still measures.
async fn calls(shard: Shard, calls: Calls) -> Result<(f64, u64), Error> {
    let op = [Op::Sum, Op::Product, Op::Min, Op::Max][usize::from(calls.op)];
    let (mut last, mut start) = (1.0, 0);
    let mut all = vec![0.0; calls.elements];
    for call in 0..calls.warm_up + calls.iterations {
        if call == calls.warm_up {
            start = now();
        }
        let own = op.own(last, shard.index());
        let total = match &calls.total {
            Total::One(total) => {
                last = total.call(&shard, own)?.await?;
                continue;
            }
            Total::Many(total) => total,
        };
        let at = call % calls.elements.max(1);
        if let Some(element) = all.get_mut(at) {
            *element = own;
        }
        all = total.call(&shard, all)?.take().await?.into_vec();
        if let Some(element) = all.get_mut(at) {
            last = std::mem::take(element);
        }
    }
    let over = now();
    let wrong = all.iter().any(|v| *v != 0.0);
    match &calls.total {
        Total::One(total) => drop(total.call(&shard, last)?.await?),
        Total::Many(total) => drop(total.call(&shard, all)?.await?),
    }
    Ok((if wrong { f64::NAN } else { last }, over - start))
}

/// The bytes that a shard with its part of an allreduce takes up at least, beside the elements.
pub fn shard_bytes(algorithm: Algorithm, shards: u32) -> u128 {
    const ROUND: u128 = 128;
    const IN_PROCESSOR: u128 = 600;
    let part = if algorithm == Algorithm::TwoLevel { IN_PROCESSOR } else { ROUND * u128::from(shards.max(1).ilog2()) };
    SHARD_BYTES + part
}

/// A run.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Shards.
    pub shards: u32,
    /// Elements of each contribution.
    pub elements: usize,
    /// Calls that are measured.
    pub iterations: usize,
    /// The operator.
    pub op: Op,
    /// The algorithm.
    pub algorithm: Algorithm,
}

impl Spec {
    /// Calls before those that are measured.
    pub fn warm_up(&self) -> usize {
        self.iterations.div_ceil(10)
    }

    /// Checks that the memory available now can hold the run.
    pub fn check_memory(&self) -> Result<(), Failure> {
        // The contribution, the result and a vector under way between them.
        const VECTORS: u128 = 3;
        let (elements, shards) = (self.elements, self.shards as usize);
        let what = format!("{} with {} each", plural(shards, "shard"), plural(elements, "element"));
        check_memory(&what, shards, shard_bytes(self.algorithm, self.shards) + VECTORS * 8 * elements as u128)
    }

    /// Refuses an algorithm that is not for so many shards, or not for the operator.
    pub fn check_algorithm(&self) -> Result<(), Failure> {
        let (algorithm, goal) = (self.algorithm, Goal::allreduce(self.shards, 1));
        let refused = |(expected, came): (String, String)| {
            Failure::Usage(format!("--collective {algorithm}: expected {expected}, found {came}"))
        };
        algorithm.check(&goal, Laws::ALL).map_err(refused)?;
        match algorithm.laws(&goal).without(self.op.operator().laws()) {
            Laws::NONE => Ok(()),
            missing => Err(refused((
                format!("an operator that is {missing} bit for bit, as {algorithm} needs"),
                format!("{} of f64, which is not", self.op.name()),
            ))),
        }
    }

    /// The last result, without an allreduce.
    pub fn expected(&self) -> f64 {
        let calls = if self.elements == 0 { 0 } else { self.warm_up() + self.iterations };
        (0..calls).fold(1.0, |last, _| self.op.next(last, self.shards))
    }

    /// Does the run. Returns each shard's last result, and the microseconds of a call.
    pub fn run(self, runtime: &Runtime) -> Result<(Vec<f64>, f64), Failure> {
        self.run_counted(runtime).map(|(results, us, _)| (results, us))
    }

    fn run_counted(self, runtime: &Runtime) -> Result<(Vec<f64>, f64, Stats), Failure> {
        let Self { shards, elements, iterations, op, algorithm } = self;
        let warm_up = self.warm_up();
        let outcome = runtime.run(move |top| async move {
            let gang = top.gang("all", shards)?;
            let total = Collective::allreduce(op.operator()).algorithm(algorithm).order(Order::Any);
            let total = match elements {
                1 => Total::One(total.make(&top, &gang, "total")?),
                _ => Total::Many(total.elements(elements).make(&top, &gang, "total")?),
            };
            let task = top.register("calls", calls);
            let start = Calls { total, elements, warm_up, iterations, op: op as u8 };
            top.launch(&gang, &task, |_| ShardLaunch::new(start))?.all().await
        });
        let (results, stats) = outcome.map_err(run_error)?;
        // The last shard has waited for all others.
        let ns = results.iter().map(|(_, ns)| *ns).max().unwrap_or(0) as f64 / iterations as f64;
        Ok((results.iter().map(|(last, _)| *last).collect(), ns / 1000.0, stats))
    }
}

/// Measures and reports.
pub fn execute(args: &AllreduceOptions) -> Result<(), Failure> {
    let (shards, iterations) = (args.shards.number()?, args.iterations.number()?);
    let (elements, op, algorithm) = (args.elements.number()?, args.op.op, args.collective.collective);
    let spec = Spec { shards, elements, iterations, op, algorithm };
    spec.check_algorithm()?;
    spec.check_memory()?;
    let (bench, workers, runtime) = args.bench.bench("allreduce", args.shards.shards)?;
    let expected = spec.expected();
    let measure = |runtime: &Runtime| {
        let began = Instant::now();
        let (results, us, stats) = spec.run_counted(runtime)?;
        Ok((results, us, HostRun::of(&stats, began.elapsed())))
    };
    bench.with_exchange()?.report_on(&runtime, measure, |(results, us, host), exchange_ns| {
        let verified = results.iter().all(|last| *last == expected);
        let mut fields = vec![
            field("shards", shards),
            field("workers", workers),
            field("elements", elements),
            field("iterations", iterations),
            field("op", op.name()),
            field("collective", algorithm.to_string().as_str()),
            field("mapper", args.bench.on.mapper.name()),
            field("verified", verified),
            field("result", results[0]),
            field("expected", expected),
            field("collective_us", us),
            field("exchange_ns", exchange_ns),
        ];
        if let Some(HostRun { events, digest, host_s, shard_rounds_per_s, peak_bytes }) = host {
            let peak = peak_bytes.map_or(Field::Absent, Field::Count);
            fields.extend([("events", Field::Count(events)), ("digest", Field::Text(digest))]);
            fields.extend([("host_s", Field::Measured(host_s))]);
            fields.extend([("shard_rounds_per_s", Field::Measured(shard_rounds_per_s)), ("peak_bytes", peak)]);
        }
        (fields, verified)
    })
}
