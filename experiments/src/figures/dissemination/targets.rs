//! The same algorithms on a network of today, beside targets, and where their time goes.

use super::WAYS;
use super::call::{Job, Operation, Took};
use crate::figures::changes::{Change, numbers, plain, share};
use crate::figures::runs::{Runs, machine_of};
use maniple::runtime::VirtualMachine;
use maniple_collectives::{Algorithm, Goal, Schedules, check};
use maniple_command::Failure;
use maniple_command::machines::file::MachineFile;
use maniple_command::measure::stats::microseconds;
use serde::Serialize;

/// The machine.
pub const MACHINE: &str = "infiniband";

/// A time, and how it came about.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Best {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Microseconds.
    pub us: f64,
}

/// A comparison with a target.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What the nodes call.
    pub operation: Operation,
    /// The number of nodes.
    pub nodes: usize,
    /// The algorithm that is judged.
    pub judged: Best,
    /// The one that it is compared with.
    pub beside: Best,
    /// The largest ratio of both times that meets the target.
    pub target: f64,
    /// The ratio if empty arrivals took no time. It is the same where neither side sends any.
    pub unacknowledged: f64,
}

impl Row {
    /// The ratio of both times.
    pub fn ratio(&self) -> f64 {
        self.judged.us / self.beside.us
    }

    /// Whether the target is met.
    pub fn is_met(&self) -> bool {
        self.ratio() <= self.target
    }

    /// The ratio beside its target.
    pub fn met(&self) -> String {
        let met = if self.is_met() { "met" } else { "missed" };
        format!("{:.3}, target {}: {met}", self.ratio(), self.target)
    }

    /// A line for the terminal.
    pub fn line(&self) -> String {
        let Self { operation, nodes, judged, beside, .. } = self;
        let [ours, theirs] = [judged, beside].map(|best| format!("{} {}", best.algorithm, microseconds(best.us)));
        format!("{operation}, {nodes} nodes on {MACHINE}: {ours} ÷ {theirs} = {}", self.met())
    }
}

/// Where the time of a call goes.
#[derive(Debug, Clone, Serialize)]
pub struct Breakdown {
    /// What the nodes call.
    pub operation: Operation,
    /// The number of nodes.
    pub nodes: usize,
    /// How.
    pub algorithm: Algorithm,
    /// Microseconds of a call.
    pub us: f64,
    /// The longest chain of dependent messages.
    pub rounds: u32,
    /// Messages of a node and call.
    pub messages: f64,
    /// The empty arrivals among them. The others are the messages of the schedule.
    pub empty: f64,
    /// Numbers of the machine, each with its part of the time in microseconds: its share times the time.
    pub parts: Vec<(String, f64)>,
    /// Microseconds if empty arrivals took no time.
    pub unacknowledged_us: f64,
}

impl Breakdown {
    /// The sum of the parts by the time.
    pub fn sum_of_parts(&self) -> f64 {
        self.parts.iter().map(|(_, part)| part).sum::<f64>() / self.us
    }
}

/// All comparisons.
#[derive(Debug, Clone, Serialize)]
pub struct Targets {
    /// The comparisons.
    pub rows: Vec<Row>,
    /// Where the time goes.
    pub breakdowns: Vec<Breakdown>,
}

fn best(jobs: &[Job], took: &[Took]) -> Best {
    let all = jobs.iter().zip(took).map(|(job, took)| Best { algorithm: job.algorithm, us: took.us });
    let none = Best { algorithm: Algorithm::default(), us: f64::INFINITY };
    all.fold(none, |best, one| if one.us < best.us { one } else { best })
}

/// The most messages a round of dissemination beside radix exchanges, which send more than [`WAYS`], too.
pub const WAYS_BESIDE_RADIX: usize = 16;

/// Dissemination with up to `ways` messages a round.
fn disseminations(ways: usize) -> Vec<Algorithm> {
    (1..=ways as u8).map(Algorithm::Dissemination).collect()
}

/// Radix exchanges.
fn radixes() -> Vec<Algorithm> {
    [2, 4, 8, 16, 32, 64].map(Algorithm::Radix).into()
}

/// What is compared: operations with algorithms, of which the best counts, on a number of nodes, and the target.
type Wanted = [(Operation, Vec<Algorithm>); 2];

fn wanted(to: usize) -> Vec<(usize, Wanted, f64)> {
    let doubling = || vec![Algorithm::RecursiveDoubling];
    let mut all = Vec::new();
    for operation in [Operation::Sum(1), Operation::Barrier] {
        for (nodes, target) in [(36, 0.7), (96, 0.7), (512, 0.85)] {
            all.push((nodes, [(operation, disseminations(WAYS)), (operation, doubling())], target));
        }
    }
    for nodes in [64, 96] {
        all.push((
            nodes,
            [(Operation::FloatSum, radixes()), (Operation::Sum(1), disseminations(WAYS_BESIDE_RADIX))],
            1.1,
        ));
    }
    all.retain(|(nodes, ..)| *nodes <= to);
    all
}

impl Targets {
    /// Does all runs that are not done.
    ///
    /// # Errors
    /// A run that failed or was not verified.
    pub fn make(to: usize, runs: &mut Runs<Job>) -> Result<Self, Failure> {
        let file = MachineFile::load(MACHINE)?;
        let rows = rows(&file, wanted(to), runs)?;
        let mut breakdowns: Vec<Breakdown> = Vec::new();
        for row in &rows {
            let float = row.operation == Operation::FloatSum;
            let sides =
                [(row.operation, row.judged), (if float { Operation::Sum(1) } else { row.operation }, row.beside)];
            for (operation, side) in sides {
                let known =
                    |b: &Breakdown| (b.operation, b.nodes, b.algorithm) == (operation, row.nodes, side.algorithm);
                if breakdowns.iter().any(known) {
                    continue;
                }
                let job = Job::new(machine_of(&file, row.nodes), row.nodes, operation, side.algorithm);
                breakdowns.push(breakdown(&job, runs)?);
            }
        }
        Ok(Self { rows, breakdowns })
    }
}

/// The comparisons.
fn rows(file: &MachineFile, wanted: Vec<(usize, Wanted, f64)>, runs: &mut Runs<Job>) -> Result<Vec<Row>, Failure> {
    let machine = |nodes: usize, acknowledge| VirtualMachine { acknowledge, ..machine_of(file, nodes) };
    let mut fastest = |nodes, acknowledge, (operation, algorithms): &(Operation, Vec<Algorithm>)| {
        let job = |&algorithm: &Algorithm| Job::new(machine(nodes, acknowledge), nodes, *operation, algorithm);
        let jobs: Vec<Job> = algorithms.iter().map(job).collect();
        runs.all(&jobs).map(|took| best(&jobs, &took))
    };
    let mut rows = Vec::new();
    for (nodes, sides, target) in wanted {
        let [judged, beside] = [fastest(nodes, true, &sides[0])?, fastest(nodes, true, &sides[1])?];
        let [less, than] = [fastest(nodes, false, &sides[0])?, fastest(nodes, false, &sides[1])?];
        let unacknowledged = less.us / than.us;
        rows.push(Row { operation: sides[0].0, nodes, judged, beside, target, unacknowledged });
    }
    Ok(rows)
}

fn breakdown(job: &Job, runs: &mut Runs<Job>) -> Result<Breakdown, Failure> {
    let Job { nodes, operation, algorithm, .. } = *job;
    let numbers = numbers(job.machine.clone());
    let on = |machine| Job { machine, ..job.clone() };
    let mut jobs = vec![job.clone(), job.longer(), on(VirtualMachine { acknowledge: false, ..job.machine.clone() })];
    let mut names: Vec<String> = numbers.iter().map(|(number, _)| plain(number)).collect();
    names.sort();
    names.dedup();
    for name in &names {
        jobs.extend(Change::one(name).map(|change| on(change.of(job.machine.clone(), plain))));
    }
    let took = runs.all(&jobs)?;
    let us = took[0].us;
    let parts = names.into_iter().zip(took[3..].chunks_exact(2));
    let parts = parts.map(|(name, two)| (name, us * share(two[0].us, two[1].us)));
    let mut parts: Vec<(String, f64)> = parts.filter(|(_, part)| part.abs() > 0.0005).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let messages = (took[1].messages - took[0].messages) as f64 / f64::from(job.calls) / nodes as f64;
    let goal = Goal::allreduce(nodes as u32, 1);
    let schedules = Schedules::new(&goal, algorithm);
    let report = check(&goal, |rank| schedules.of(rank)).map_err(|e| Failure::Run(format!("{algorithm}: {e}")))?;
    let empty = messages - report.messages as f64 / nodes as f64;
    let (rounds, unacknowledged_us) = (report.rounds, took[2].us);
    Ok(Breakdown { operation, nodes, algorithm, us, rounds, messages, empty, parts, unacknowledged_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_96_nodes_all_targets_are_met() {
        let file = MachineFile::load(MACHINE).unwrap_or_else(|e| panic!("{e:?}"));
        let rows = rows(&file, wanted(96), &mut Runs::default()).unwrap_or_else(|e| panic!("{e:?}"));
        let nodes: Vec<(usize, f64)> = rows.iter().map(|row| (row.nodes, row.target)).collect();
        assert_eq!(nodes, [(36, 0.7), (96, 0.7), (36, 0.7), (96, 0.7), (64, 1.1), (96, 1.1)]);
        for row in rows {
            assert!(row.is_met(), "{row:?}");
        }
    }
}
