//! `maniple exchange`: the yardstick.

use super::{Bench, WithoutWorkers};
use crate::Failure;
use crate::machines::reduced;
use crate::measure::yardstick::{ENOUGH, between_shards_ns, exchange_ns, on_one_processor};
use crate::options::help::exit_codes;
use crate::output::field;

/// The bare exchange of a cache line between two threads, one way: the yardstick of this machine, or of one in virtual time
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
The reports say:
  machine, nodes  in virtual time: the machine's name, and how many of its nodes take part
  exchange_ns     nanoseconds from a store on one thread until another one sees it: half of a round trip, mean of all after \
a tenth as many to warm up. With one processor it is the scheduler's time. In virtual time: from a shard's arrival at a \
barrier until a shard on another processor has waited for it, where only what lies between the two takes time, and nothing \
that the runtime does. Both are on the same node of the machine if it has two processors for shards, or else on two nodes. On \
a node with two it is thus the link within the node, whatever --nodes says

", exit_codes!()))]
#[command(mut_arg("iterations", |arg| {
    arg.value_name("N").help("Exchanges a run [default: 1000000, in virtual time 1000]")
}))]
pub struct ExchangeOptions {
    #[command(flatten)]
    bench: WithoutWorkers,
}

/// Measures and reports.
pub fn execute(args: &ExchangeOptions) -> Result<(), Failure> {
    let machine = args.bench.wire.machine(2)?.as_ref().map(reduced::expect_two_processors).transpose()?;
    let iterations = args.bench.iterations.or(if machine.is_some() { ENOUGH as usize } else { 1_000_000 })?;
    if machine.is_none() && on_one_processor() {
        crate::warn("this process may use one processor only: what is measured is the scheduler");
    }
    let bench = Bench::new("exchange", &args.bench.wire, machine, &args.bench.runs);
    let measure = || match &bench.machine {
        None => Ok(exchange_ns(iterations as u64)),
        Some(machine) => between_shards_ns(machine.clone(), iterations as u64),
    };
    bench.report(measure, |ns, _| (vec![field("iterations", iterations), field("exchange_ns", ns)], true))
}
