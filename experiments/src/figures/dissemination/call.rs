//! Runs of collectives in virtual time, one call after the other.

use crate::figures::runs;
use maniple::collectives::Algorithm;
use maniple::prelude::*;
use maniple::runtime::{VirtualMachine, now};
use maniple_command::Failure;
use maniple_stencil::plural;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Calls that don't count, because shards start one after the other.
const WARMUP: u32 = 5;

/// Calls that count.
const CALLS: u32 = 10;

/// What the shards call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Operation {
    /// A barrier.
    Barrier,
    /// An allreduce with the sum of this many 64-bit integers.
    Sum(usize),
    /// An allreduce with the sum of one 64-bit float.
    FloatSum,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Barrier => f.write_str("barrier"),
            Operation::Sum(elements) => write!(f, "allreduce of {}", plural(*elements, "element")),
            Operation::FloatSum => f.write_str("allreduce of a float"),
        }
    }
}

/// A run: one shard on each node calls a collective, and waits for its result before it calls again.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The number of nodes.
    pub nodes: usize,
    /// What they call.
    pub operation: Operation,
    /// How.
    pub algorithm: Algorithm,
    /// How many calls count.
    pub calls: u32,
    /// The machine.
    pub machine: VirtualMachine,
}

/// The measurements of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Took {
    /// Microseconds from a call to its result: the mean over shards and over the calls that count.
    pub us: f64,
    /// Messages of the whole run.
    pub messages: u64,
}

impl Job {
    /// A job with the usual number of calls.
    pub fn new(machine: VirtualMachine, nodes: usize, operation: Operation, algorithm: Algorithm) -> Self {
        Self { nodes, operation, algorithm, calls: CALLS, machine }
    }

    /// The same job with twice as many calls.
    pub fn longer(&self) -> Self {
        Self { calls: 2 * self.calls, ..self.clone() }
    }
}

/// The collective of a run.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Called {
    Barrier(Collective<()>),
    Sum(Collective<[i64]>),
    FloatSum(Collective<[f64]>),
}

/// A shard's number in a call. All are whole and small, so sums of floats are exact.
fn number(shard: usize, call: u32, element: usize) -> i64 {
    ((shard * 31 + call as usize * 7 + element * 13) % 1009) as i64 - 500
}

/// The sums of all calls, by a loop over the shards.
fn sums(shards: usize, calls: u32, elements: usize) -> Vec<Vec<i64>> {
    let sum = |call, element| (0..shards).map(|shard| number(shard, call, element)).sum();
    (0..calls).map(|call| (0..elements).map(|element| sum(call, element)).collect()).collect()
}

/// When each call of a shard began and ended.
type Times = Vec<(Duration, Duration)>;

/// What a shard does. It fails if a sum is wrong.
async fn calls(shard: Shard, called: Called, right: Arc<Vec<Vec<i64>>>) -> Result<Times, Error> {
    let mut times = Vec::with_capacity(right.len());
    for (call, right) in (0..).zip(right.iter()) {
        let own = (0..right.len()).map(|element| number(shard.index() as usize, call, element));
        let own: Vec<i64> = own.collect();
        let began = now();
        let (ended, got) = match called {
            Called::Barrier(all) => {
                all.call(&shard, ())?.await?;
                (now(), vec![])
            }
            Called::Sum(sum) => {
                let got = sum.call(&shard, own)?.await?;
                (now(), got.to_vec())
            }
            Called::FloatSum(sum) => {
                let own: Vec<f64> = own.iter().map(|&number| number as f64).collect();
                let got = sum.call(&shard, own)?.await?;
                (now(), got.iter().map(|&sum| sum as i64).collect())
            }
        };
        if got != *right {
            return Err(Error::Misuse {
                what: format!("call {call} of shard {}", shard.index()),
                expected: format!("{right:?}"),
                came: format!("{got:?}"),
            });
        }
        times.push((began, ended));
    }
    Ok(times)
}

/// Checks that no shard left a barrier before the last had come to it.
fn check_barrier(all: &[Times]) -> Result<(), String> {
    for call in 0..all.first().map_or(0, Vec::len) {
        let last = all.iter().map(|times| times[call].0).max().unwrap_or_default();
        let first = all.iter().map(|times| times[call].1).min().unwrap_or_default();
        if first < last {
            return Err(format!("call {call}: a shard left the barrier at {first:?}, before one came at {last:?}"));
        }
    }
    Ok(())
}

impl runs::Job for Job {
    type Took = Took;

    fn size(&self) -> String {
        plural(self.nodes, "node")
    }

    // Measured with 512 shards of 255 elements, and rounded up.
    fn most_bytes(&self) -> u128 {
        self.nodes as u128 * 400_000
    }

    fn run(&self) -> Result<Took, Failure> {
        let Self { nodes, operation, algorithm, machine, calls: counted, .. } = self.clone();
        let what = format!("{operation} by {algorithm} on {} of `{}`", plural(nodes, "node"), machine.name);
        let failed = |e: String| Failure::Run(format!("{what}: {e}"));
        let elements = match operation {
            Operation::Barrier => 0,
            Operation::Sum(elements) => elements,
            Operation::FloatSum => 1,
        };
        let right = Arc::new(sums(nodes, WARMUP + counted, elements));
        let (all, stats) = Runtime::virtual_time(machine)
            .run(move |top| {
                let right = right.clone();
                async move {
                    let gang = top.gang("all", nodes as u32)?;
                    let name = "called";
                    let called = match operation {
                        Operation::Barrier => {
                            Called::Barrier(Collective::barrier().algorithm(algorithm).make(&top, &gang, name)?)
                        }
                        Operation::Sum(_) => {
                            let sum = Collective::<i64>::allreduce(Operator::sum()).elements(elements);
                            Called::Sum(sum.algorithm(algorithm).make(&top, &gang, name)?)
                        }
                        Operation::FloatSum => {
                            let sum = Collective::<f64>::allreduce(Operator::sum()).elements(elements);
                            Called::FloatSum(sum.algorithm(algorithm).make(&top, &gang, name)?)
                        }
                    };
                    let task = top.register("calls", move |shard, called| calls(shard, called, right.clone()));
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new(called))?.all().await
                }
            })
            .map_err(|e| failed(e.to_string()))?;
        if operation == Operation::Barrier {
            check_barrier(&all).map_err(failed)?;
        }
        let counts = all.iter().flat_map(|times| &times[WARMUP as usize..]).map(|(began, ended)| *ended - *began);
        let ns = counts.sum::<Duration>().as_nanos() as f64;
        Ok(Took { us: ns / 1000.0 / f64::from(counted) / nodes as f64, messages: stats.messages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::runs::{Job as _, machine_of};
    use maniple_command::machines::file::MachineFile;

    fn us(machine: &str, nodes: usize, operation: Operation, algorithm: Algorithm) -> f64 {
        let file = MachineFile::load(machine).unwrap_or_else(|e| panic!("{e:?}"));
        let job = Job::new(machine_of(&file, nodes), nodes, operation, algorithm);
        job.run().unwrap_or_else(|e| panic!("{e:?}")).us
    }

    /// Times by hand, from the numbers in gpi-fdr.toml and gpi-fdr-mpi.toml, in microseconds.
    #[test]
    fn a_barrier_takes_its_rounds_and_its_messages() {
        // A poll, a message of 32 bytes with its update and its read, and further messages that leave one after the other.
        let poll = 0.04;
        let message = |send: f64, receive: f64| 0.04 + send + 1.0 + 32.0 * 0.16e-3 + receive + 0.04;
        let [ours, mpi] = [message(0.12, 0.04), message(0.245, 0.165)];
        let further = 0.04 + 0.12;
        for (nodes, n) in [(2, 1), (3, 2), (4, 3), (8, 7)] {
            for algorithm in [Algorithm::FiveCases(n), Algorithm::Dissemination(n)] {
                let took = us("gpi-fdr", nodes, Operation::Barrier, algorithm);
                let expected = poll + ours + f64::from(n - 1) * further;
                assert!((took - expected).abs() < 2e-3, "{algorithm}: {took}, expected {expected}");
            }
        }
        for rounds in 1..5 {
            for algorithm in [Algorithm::Dissemination(1), Algorithm::RecursiveDoubling] {
                let took = us("gpi-fdr-mpi", 1 << rounds, Operation::Barrier, algorithm);
                let expected = poll + f64::from(rounds) * mpi;
                assert!((took - expected).abs() < 2e-3 * f64::from(rounds), "{algorithm}: {took}, {expected}");
            }
        }
    }

    #[test]
    fn only_recursive_doubling_sends_empty_arrivals() {
        let file = MachineFile::load("infiniband").unwrap_or_else(|e| panic!("{e:?}"));
        let took = |nodes: usize, algorithm, acknowledge| {
            let machine = VirtualMachine { acknowledge, ..machine_of(&file, nodes) };
            let job = Job::new(machine, nodes, Operation::Sum(1), algorithm);
            job.run().unwrap_or_else(|e| panic!("{e:?}"))
        };
        let algorithms =
            [(13, Algorithm::Dissemination(3)), (16, Algorithm::Radix(4)), (12, Algorithm::Dissemination(1))];
        for (nodes, algorithm) in algorithms {
            assert_eq!(took(nodes, algorithm, true), took(nodes, algorithm, false), "{algorithm}");
        }
        let [with, without] = [true, false].map(|acknowledge| took(12, Algorithm::RecursiveDoubling, acknowledge));
        assert!(with.us > without.us, "{with:?}, {without:?}");
        // Three rounds of 8 values, 4 to fold and 4 with the result, and as many empty arrivals; n values a round and node.
        let calls = |took: Took| took.messages / u64::from(WARMUP + CALLS);
        assert!((60..=64).contains(&calls(with)), "{with:?}");
        assert!((16 * 6..16 * 7).contains(&calls(took(16, Algorithm::Dissemination(3), true))));
    }

    #[test]
    fn sums_of_all_sizes_are_verified_on_any_number_of_nodes() {
        for nodes in [1, 2, 3, 5, 8, 13] {
            for n in 1..4 {
                let mut last = 0.0;
                for elements in [1, 3, 4, 255] {
                    let took = us("gpi-qdr", nodes, Operation::Sum(elements), Algorithm::Dissemination(n));
                    assert!(took >= last, "{nodes} nodes, n = {n}, {elements} elements: {took} after {last}");
                    last = took;
                }
            }
            us("infiniband", nodes, Operation::FloatSum, Algorithm::Radix(4));
        }
    }

    #[test]
    fn a_barrier_that_is_left_too_early_is_found() {
        let ms = Duration::from_millis;
        assert_eq!(check_barrier(&[vec![(ms(1), ms(4))], vec![(ms(4), ms(5))]]), Ok(()));
        let early = check_barrier(&[vec![(ms(1), ms(3))], vec![(ms(4), ms(5))]]);
        assert_eq!(early, Err("call 0: a shard left the barrier at 3ms, before one came at 4ms".into()));
    }
}
