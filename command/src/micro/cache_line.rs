//! `maniple cache-line`: the yardstick beside other measurements.

use super::{Bench, WithoutWorkers};
use crate::Failure;
use crate::machines::reduced;
use crate::measure::yardstick::{ENOUGH, between_shards_ns, cache_line_ns, on_one_processor};
use crate::options::help::exit_codes;
use crate::output::field;

/// Measure the time of a cache line between two threads: the yardstick of a host
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Columns of the report:
  machine, nodes  in virtual time: the name of the machine, and the number of its nodes that take part
  cache_line_ns   nanoseconds until one thread sees another thread's store: half of a round trip, the mean of all but those \
to warm up. With one processor it is the time of the scheduler

A warning under the table says when the yardstick shows that other programs disturbed the host.

In virtual time two shards exchange arrivals at barriers, and only the link between their processors takes time. Both are on \
one node if a node has two processors for shards, and else on two nodes. So on a node with two it is the link within the node, \
with any --nodes.

", exit_codes!()))]
#[command(mut_arg("iterations", |arg| {
    arg.value_name("N").help("Round trips of each run. A tenth as many come before them to warm up [default: 1000000, in virtual time 1000]")
}))]
pub struct CacheLineOptions {
    #[command(flatten)]
    bench: WithoutWorkers,
}

/// Measures and reports.
pub fn execute(args: &CacheLineOptions) -> Result<(), Failure> {
    let machine = args.bench.wire.machine(2)?.as_ref().map(reduced::expect_two_processors).transpose()?;
    let iterations = args.bench.iterations.or(if machine.is_some() { ENOUGH as usize } else { 1_000_000 })?;
    if machine.is_none() && on_one_processor() {
        crate::warn("this process may use only one processor, so the yardstick measures the scheduler");
    }
    let bench = Bench::new("cache-line", &args.bench.wire, machine, &args.bench.runs)?;
    let measure = || match &bench.machine {
        None => Ok(cache_line_ns(iterations as u64)),
        Some(machine) => between_shards_ns(machine.clone(), iterations as u64),
    };
    bench.report(measure, |ns, _| (vec![field("iterations", iterations), field("cache_line_ns", ns)], true))
}
