//! `maniple calibrate`: what single operations take on this machine, as a machine of virtual time.

mod exchange;
mod file;
mod prices;
mod programs;

use crate::micro::at_least_one;
use crate::micro::exchange::{BUSY_NS, beside_ns, yardstick_ns};
use crate::output::Document;
use crate::workers::OnWire;
use crate::{Failure, parts};
use clap::ArgAction;
use maniple::prelude::*;
use maniple::runtime::VirtualMachine;
use prices::{Price, Times};
use programs::{Program, What};
use std::collections::HashMap;
use std::path::PathBuf;

/// Measures what single operations take on this machine and writes it as a machine for --wire virtual
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each operation is measured alone, by programs that do one more of it, or more often, than another: launches of empty leaf \
tasks, region requirements, arrivals, polls, subtasks of replayed rounds between two shards, messages, the stencil's leaf \
task without a stencil. No allreduce and no stencil is run.

All programs take turns, so that what disturbs one of them disturbs all. Values are lower deciles: others can only make a \
host slower, and where they leave it alone for half of the time, most values are without them. Before and after each turn the \
exchange of a cache line between two threads is measured. Where it differs from its median by more than a factor of 2.5, the \
host had its processors elsewhere, and the turn is left out.

With --wire virtual it measures a machine in virtual time, two processors of one node, and should find what its file says.

Exit codes: 0, the file is written; 1, a run failed, or it could not be written; 2, the arguments are at fault.")]
pub struct Args {
    /// The file, which must be new or empty [default: stdout]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Name of the machine
    #[arg(long, value_name = "NAME", default_value = "local")]
    name: String,

    /// Worker threads, the machine's processors [default: the processors this process may use]
    #[arg(long, value_name = "W", value_parser = crate::count, allow_negative_numbers = true)]
    workers: Option<usize>,

    /// Shards of a processor to measure with, ascending: an even number each
    #[arg(long, value_name = "N,…", default_values_t = LEVELS, value_delimiter = ',', value_parser = level)]
    #[arg(action = ArgAction::Set)]
    shards: Vec<u32>,

    /// Runs of each program
    #[arg(long, value_name = "R", default_value_t = REPEAT, value_parser = crate::count, allow_negative_numbers = true)]
    repeat: usize,

    /// Operations of a run on each processor
    #[arg(long, value_name = "N", default_value_t = OPERATIONS, value_parser = crate::count)]
    #[arg(allow_negative_numbers = true)]
    operations: usize,

    #[command(flatten)]
    wire: OnWire,
}

/// Numbers of shards for which all data are in a near cache, and for which they are not.
const LEVELS: [u32; 4] = [2, 16, 64, 256];
/// Turns, for a lower decile that no single one makes.
pub const REPEAT: usize = 21;
const OPERATIONS: usize = 10_000;

/// The processors this process may use.
fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn level(text: &str) -> Result<u32, String> {
    match crate::count(text).map(u32::try_from)? {
        Ok(shards @ 2..=65_536) if shards % 2 == 0 => Ok(shards),
        _ => Err(format!("expected an even number from 2 to 65536, found `{text}`")),
    }
}

/// By how many times an exchange may differ.
pub const NEAR: f64 = 2.5;

/// Whether an exchange took about as long as `own`; without one, any does.
///
/// A host may have its processors near each other at one time and far apart at another, or lend them to others.
pub fn is_near(exchange_ns: f64, own: Option<f64>) -> bool {
    own.is_none_or(|own| exchange_ns <= own * NEAR && exchange_ns * NEAR >= own)
}

/// Warns where others keep this host busy.
pub fn warn_if_busy(exchange_ns: f64) {
    if exchange_ns > BUSY_NS {
        let us = crate::stats::microseconds(exchange_ns / 1000.0);
        crate::warn(format!(
            "a cache line took {us} µs from one processor to another: other programs are running, and what is measured is \
             what they left"
        ));
    }
}

/// What is measured, and how often.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Processors.
    pub processors: u32,
    /// Shards of each, ascending.
    pub levels: Vec<u32>,
    /// Operations of a run on each processor.
    pub operations: u32,
}

impl Plan {
    /// So many processors, and what was asked.
    fn new(args: &Args, processors: u32) -> Result<Self, Failure> {
        let levels = args.shards.clone();
        if !levels.is_sorted_by(|a, b| a < b) {
            return Err(Failure::Usage(format!("expected shards in ascending order, found {levels:?}")));
        }
        let operations = at_least_one("operations", args.operations)?;
        let operations = u32::try_from(operations).unwrap_or(u32::MAX);
        Ok(Self { processors, levels, operations })
    }

    /// All programs.
    fn programs(&self) -> Vec<Program> {
        let at = |what, shards: u32| {
            // A gang's launch starts all shards, and a burst is of many operations.
            let many = match what {
                What::Launch(burst) | What::Send { burst, .. } => burst,
                What::Gang => 4,
                What::Large(_) => 64,
                _ => 1,
            };
            let iterations = (self.operations / shards / many).max(8);
            Program { what, shards, processors: self.processors, iterations }
        };
        let mut all = Vec::new();
        for &shards in &self.levels {
            all.extend(prices::PROGRAMS.map(|what| at(what, shards)));
            if self.processors > 1 {
                all.extend(prices::BETWEEN.map(|what| at(what, shards)));
            }
        }
        if self.processors > 1 {
            all.push(at(What::Remote, 1));
        }
        all
    }
}

/// The times of all programs.
#[derive(Debug, Default)]
pub struct Measured(HashMap<(What, u32), Vec<f64>>);

impl Times for Measured {
    fn of(&self, what: What, shards: u32) -> Option<&[f64]> {
        self.0.get(&(what, shards)).map(Vec::as_slice)
    }
}

/// What a machine was found to be like.
#[derive(Debug)]
pub struct Calibration {
    /// What operations take.
    pub prices: Vec<Price>,
    /// Shards of a processor that they are for.
    pub levels: Vec<u32>,
    /// Processors.
    pub processors: u32,
    /// Median of the exchange of a cache line between two processors, one way; none with one.
    pub exchange_ns: Option<f64>,
}

/// A calibration under way.
pub struct Turns {
    plan: Plan,
    /// As many processors as the plan has.
    runtime: Runtime,
    programs: Vec<Program>,
    /// For each turn the exchange of a cache line and the times of the programs.
    rounds: Vec<(f64, Vec<f64>)>,
}

impl Turns {
    /// One without any turn yet.
    fn new(plan: Plan, runtime: Runtime) -> Self {
        Self { programs: plan.programs(), plan, runtime, rounds: Vec::new() }
    }

    /// One of this host with all its processors.
    pub fn of_this_host() -> Self {
        let processors = available() as u32;
        let plan = Plan { processors, levels: LEVELS.into(), operations: OPERATIONS as u32 };
        Self::new(plan, Runtime::threads(processors))
    }

    /// How many processors are measured.
    pub fn processors(&self) -> u32 {
        self.plan.processors
    }

    /// Runs all programs once, between two exchanges of a cache line.
    pub fn take(&mut self, exchange: impl Fn() -> f64) -> Result<(), Failure> {
        let before = exchange();
        let run = |program: &Program| program.run(&self.runtime);
        let times = self.programs.iter().map(run).collect::<Result<Vec<f64>, _>>()?;
        self.rounds.push((before.max(exchange()), times));
        Ok(())
    }

    /// Median of the exchanges, of an even number the lower one: an exchange that there was. None with one processor.
    pub fn exchange_ns(&self) -> Option<f64> {
        let mut exchanges: Vec<f64> = self.rounds.iter().map(|(e, _)| *e).filter(|e| !e.is_nan()).collect();
        exchanges.sort_by(f64::total_cmp);
        exchanges.get(exchanges.len().saturating_sub(1) / 2).copied()
    }

    /// What the turns come to that count.
    pub fn calibration(&self) -> Calibration {
        let exchange_ns = self.exchange_ns();
        let mut measured = Measured::default();
        for (_, times) in self.rounds.iter().filter(|(e, _)| is_near(*e, exchange_ns)) {
            for (program, ns) in self.programs.iter().zip(times) {
                measured.0.entry((program.what, program.shards)).or_default().push(*ns);
            }
        }
        let prices = prices::solve(&measured, &self.plan.levels);
        let (levels, processors) = (self.plan.levels.clone(), self.plan.processors);
        Calibration { prices, levels, processors, exchange_ns }
    }
}

/// Takes so many turns.
fn calibrate(plan: Plan, repeat: usize, runtime: Runtime, exchange: impl Fn() -> f64) -> Result<Calibration, Failure> {
    let mut turns = Turns::new(plan, runtime);
    for _ in 0..repeat {
        turns.take(&exchange)?;
    }
    Ok(turns.calibration())
}

/// What is measured.
struct Measures {
    processors: u32,
    /// In virtual time.
    machine: Option<VirtualMachine>,
}

impl Measures {
    fn new(args: &Args) -> Result<Self, Failure> {
        let Some(machine) = args.wire.machine(1)? else {
            let available = available();
            let processors = at_least_one("workers", args.workers.unwrap_or(available))?;
            if processors > available {
                let found = format!("expected at most the {available} processors of this process, found {processors}");
                return Err(Failure::Usage(format!("{found} workers: more would take turns")));
            }
            return Ok(Self { processors: processors as u32, machine: None });
        };
        if args.workers.is_some() {
            return Err(Failure::Usage(
                "--workers is for --wire threads: of a machine two processors are measured".into(),
            ));
        }
        let two = parts::expect_two_processors(&machine)?;
        if two.nodes > 1 || two.utility > 0 {
            let VirtualMachine { name, nodes, per_node, utility, .. } = machine;
            return Err(Failure::Usage(format!(
                "expected a machine with two processors on a node and no utility processors, found `{name}` with {per_node} on \
                 each of {nodes} nodes, {utility} of them utility processors"
            )));
        }
        Ok(Self { processors: 2, machine: Some(two) })
    }

    /// The text of the file; warns where others keep this host busy.
    fn text(&self, plan: Plan, repeat: usize, name: &str) -> Result<String, Failure> {
        let calibration = match &self.machine {
            None => calibrate(plan, repeat, Runtime::threads(self.processors), yardstick_ns)?,
            Some(machine) => {
                let exchange_ns = beside_ns(machine)?;
                calibrate(plan, repeat, Runtime::virtual_time(machine.clone()), || exchange_ns)?
            }
        };
        if self.machine.is_none() {
            calibration.exchange_ns.into_iter().for_each(warn_if_busy);
        }
        let of = self.machine.as_ref().map(|machine| format!("`{}` in virtual time", machine.name));
        Ok(calibration.text(name, of.as_deref()))
    }
}

/// Measures and writes.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let output = args.output.as_deref();
    args.wire.files().writes("--output", output).check()?;
    let measures = Measures::new(args)?;
    let plan = Plan::new(args, measures.processors)?;
    let repeat = at_least_one("repeat", args.repeat)?;
    // Before anything is measured.
    let document = Document::prepare(output)?;
    if let Some(path) = output
        && let Some(len) = path.metadata().ok().map(|there| there.len()).filter(|len| *len > 0)
    {
        let what = format!("expected a new or an empty file for --output, found {} with {len} bytes", path.display());
        return Err(Failure::Usage(format!("{what}; name another, or remove it")));
    }
    document.write(&measures.text(plan, repeat, &args.name)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::MachineFile;
    use maniple::runtime::{Costs, Crowded, Link, TaskCost};
    use std::collections::BTreeMap;

    fn plan() -> Plan {
        Plan { processors: 2, levels: vec![2, 16], operations: 4000 }
    }

    fn machine() -> VirtualMachine {
        let costs = Costs {
            launch_ns: 41.0,
            requirement_ns: 26.0,
            complete_ns: 57.0,
            replayed_ns: 9.0,
            combine_byte_ns: 0.125,
            call_ns: 47.0,
            input_ns: 33.0,
            arrival_ns: 31.0,
            poll_ns: 18.0,
            message_ns: 29.0,
            ..Costs::default()
        };
        let task = |task_ns, byte_ns| TaskCost { task_ns, byte_ns };
        let crowded = Crowded {
            shards: 16,
            costs: Costs { launch_ns: 45.0, poll_ns: 25.0, replayed_ns: 12.0, requirement_ns: 50.0, ..costs },
            tasks: [("advance".to_owned(), task(42.0, 0.0625))].into(),
            other_tasks: task(0.0, 0.002),
        };
        let tasks = BTreeMap::from([("advance".to_owned(), task(37.0, 0.05))]);
        let as_few = Crowded { shards: 8, costs, tasks: tasks.clone(), other_tasks: task(0.0, 0.001) };
        VirtualMachine {
            per_node: 2,
            memory: Link { latency_ns: 63.0, send_ns: 17.0, ..Link::default() },
            costs,
            tasks,
            other_tasks: task(0.0, 0.001),
            crowded: vec![as_few, crowded],
            ..VirtualMachine::default()
        }
    }

    /// In virtual time the programs take what the machine says: the prices must come out again.
    #[test]
    fn the_prices_of_a_machine_in_virtual_time_are_found() {
        let machine = machine();
        let found = calibrate(plan(), 1, Runtime::virtual_time(machine.clone()), || f64::NAN).expect("measured");
        let price = |table: &str, key: &str, level: usize| {
            let price = found.prices.iter().find(|p| p.key == (table, key)).unwrap_or_else(|| panic!("{table} {key}"));
            price.values.get(level).copied().unwrap_or(price.values[0])
        };
        let many = &machine.crowded[1];
        // There are 2 and 16 shards to a processor, and on the first of them the top-level task besides.
        for (level, costs, task) in
            [(0, machine.costs, machine.tasks["advance"]), (1, many.costs, many.tasks["advance"])]
        {
            let expected = [
                ("launch_ns", costs.launch_ns),
                ("requirement_ns", costs.requirement_ns),
                ("complete_ns", costs.complete_ns),
                ("replayed_ns", costs.replayed_ns),
                ("call_ns", costs.call_ns),
                ("input_ns", costs.input_ns),
                ("arrival_ns", costs.arrival_ns),
                ("poll_ns", costs.poll_ns),
            ];
            for (key, ns) in expected {
                let value = price("costs", key, level);
                assert!((value - ns).abs() <= 1.0, "{key}, level {level}: {value}, expected {ns}");
            }
            let byte = price("costs", "combine_byte_ns", level);
            assert!((byte - costs.combine_byte_ns).abs() < 1e-3, "level {level}: {byte} ns to combine a byte");
            let (value, byte) = (price("tasks.advance", "task_ns", level), price("tasks.advance", "byte_ns", level));
            assert!(
                (value - task.task_ns).abs() <= 2.0,
                "advance, level {level}: {value} and {byte}, expected {task:?}"
            );
            assert!((byte - task.byte_ns).abs() <= 0.001, "advance, level {level}: {byte}, expected {task:?}");
        }
        let send = price("memory", "send_ns", 0);
        assert!((send - 17.0).abs() <= 1.0, "send_ns: {send}");
        // Where all send and wait, they wait for each other a little; one message alone takes what it takes.
        let message = price("costs", "message_ns", 0);
        assert!((29.0..50.0).contains(&message.ceil()), "message_ns: {message}");
        let all = message + price("memory", "first_ns", 0) + price("memory", "latency_ns", 0);
        assert!((all - 29.0 - 63.0).abs() <= 2.0, "a message: {all}");
    }

    #[test]
    fn a_host_that_is_slow_most_of_the_time_is_as_when_it_is_left_alone() {
        let mut turns = Turns::new(plan(), Runtime::virtual_time(machine()));
        turns.take(|| 30.0).expect("measured");
        let (_, times) = turns.rounds.remove(0);
        // The fast turns of programs are not the same ones.
        let turn = |turn: usize, slow: usize| {
            let at = |i: usize| if (i + turn) % 21 < slow { 1.45 } else { 1.0 };
            (30.0, times.iter().enumerate().map(|(i, ns)| ns * at(i)).collect())
        };
        let mut found = |slow| {
            turns.rounds = (0..21).map(|n| turn(n, slow)).collect();
            turns.calibration().prices.into_iter().map(|p| (p.key, p.values)).collect::<Vec<_>>()
        };
        let alone = found(0);
        assert_eq!(found(18), alone);
        assert_ne!(found(19), alone);
    }

    #[test]
    fn a_turn_with_processors_far_apart_does_not_count() {
        let calibrated = |exchanges: &[f64]| {
            let mut turns = Turns::new(plan(), Runtime::virtual_time(machine()));
            turns.take(|| 30.0).expect("measured");
            let (_, times) = turns.rounds.remove(0);
            let scaled = |e: &f64| (*e, times.iter().map(|ns| ns * e).collect());
            turns.rounds = exchanges.iter().map(scaled).collect();
            let Calibration { prices, exchange_ns, .. } = turns.calibration();
            (prices.into_iter().map(|p| (p.key, p.values)).collect::<Vec<_>>(), exchange_ns)
        };
        let alone = calibrated(&[30.0]);
        assert_eq!(alone.1, Some(30.0));
        assert_eq!(calibrated(&[76.0, 30.0]), alone);
        assert_ne!(calibrated(&[74.0, 30.0]).0, alone.0);
        assert_eq!(calibrated(&[11.0, 30.0, 30.0, 300.0]), alone);
        assert_eq!(calibrated(&[f64::NAN]).1, None);
    }

    #[test]
    fn what_is_written_is_a_machine_with_a_reason_for_each_value() {
        let found = calibrate(plan(), 1, Runtime::virtual_time(machine()), || 42.0).expect("measured");
        let text = found.text("mine \"and\" yours", None);
        let file = MachineFile::parse("found", &text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let machine = file.machine(None, 512);
        machine.check().expect("a machine");
        assert_eq!((machine.name.as_str(), machine.nodes, machine.per_node), ("mine \"and\" yours", 1, 2));
        assert_eq!(machine.crowded.iter().map(|c| c.shards).collect::<Vec<_>>(), [2, 16]);
        assert_eq!(file.exchange_ns, Some(42.0));
        for line in text.lines().filter(|line| line.contains("value =")) {
            let (_, why) = line.split_once("why = \"").unwrap_or_else(|| panic!("{line}"));
            assert!(why.len() > 10, "{line}");
        }
    }
}
