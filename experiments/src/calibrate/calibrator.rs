//! A calibration: its programs, which take turns, and the prices that follow from the rounds that count.

use super::prices::{self, Price, Times};
use super::programs::{Program, What};
use super::{LEVELS, OPERATIONS, available};
use maniple::prelude::*;
use maniple_command::Failure;
use maniple_command::measure::noise::{Beside, Noise, usual_ns};
use maniple_command::measure::turns::{Order, Rounds, When};
use maniple_command::measure::yardstick::Yardstick;
use std::collections::HashMap;

/// The plan of a calibration.
#[derive(Debug, Clone)]
pub struct CalibrationPlan {
    /// The number of processors.
    pub processors: u32,
    /// Numbers of shards per processor, ascending.
    pub levels: Vec<u32>,
    /// Operations of a run on each processor.
    pub operations: u32,
}

impl CalibrationPlan {
    /// The plan for this host with all its processors.
    fn of_this_host() -> Self {
        Self { processors: available() as u32, levels: LEVELS.into(), operations: OPERATIONS as u32 }
    }

    /// All programs.
    fn programs(&self) -> Vec<Program> {
        let at = |what, shards: u32| {
            // The launch of a gang starts all shards, and a burst has many operations.
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

/// The result of a calibration.
#[derive(Debug)]
pub struct Calibration {
    /// The prices of operations.
    pub prices: Vec<Price>,
    /// The numbers of shards per processor that the prices are for.
    pub levels: Vec<u32>,
    /// The number of processors.
    pub processors: u32,
    /// Median of the time of a cache line between two processors, one way; `None` with one processor.
    pub cache_line_ns: Option<f64>,
}

/// The rule for rounds. Few prices depend on the yardstick itself, which tells near processors from distant ones.
pub const NOISE: Noise = Noise { within: Some(2.5), busy_counts: true, drops_outliers: false };

/// A calibration under way.
pub struct Calibrator {
    plan: CalibrationPlan,
    /// A runtime with as many processors as the plan.
    runtime: Runtime,
    programs: Vec<Program>,
    rounds: Rounds,
    /// The times of the programs in each round.
    times: Vec<Beside<Vec<f64>>>,
}

impl Calibrator {
    /// A calibrator without rounds.
    fn new(plan: CalibrationPlan, runtime: Runtime, yardstick: Yardstick) -> Self {
        let rounds = Rounds::new(Order::Same).beside(When::AroundRound, yardstick);
        Self { programs: plan.programs(), plan, runtime, rounds, times: Vec::new() }
    }

    /// A calibrator of this host with all its processors.
    pub fn of_this_host() -> Self {
        let plan = CalibrationPlan::of_this_host();
        let runtime = Runtime::threads(plan.processors);
        Self::new(plan, runtime, Yardstick::Host)
    }

    /// The number of processors that are measured.
    pub fn processors(&self) -> u32 {
        self.plan.processors
    }

    /// Runs all programs once, between two measurements of the yardstick.
    pub fn take(&mut self) -> Result<(), Failure> {
        let mut round = Beside { found: Vec::new(), cache_line_ns: None };
        let run = |program: &mut Program| program.run(&self.runtime);
        self.rounds.take(&mut self.programs, run, |turn| {
            round.found.push(turn.found);
            round.cache_line_ns = Some(turn.cache_line_ns);
            Ok(())
        })?;
        self.times.push(round);
        Ok(())
    }

    /// The usual yardstick; `None` with one processor.
    pub fn cache_line_ns(&self) -> Option<f64> {
        usual_ns(self.times.iter().filter_map(|round| round.cache_line_ns))
    }

    /// The calibration from the rounds that count.
    pub fn calibration(&self) -> Calibration {
        let cache_line_ns = self.cache_line_ns();
        let mut measured = Measured::default();
        for times in NOISE.quiet(&self.times, cache_line_ns) {
            for (program, ns) in self.programs.iter().zip(times) {
                measured.0.entry((program.what, program.shards)).or_default().push(*ns);
            }
        }
        let prices = prices::solve(&measured, &self.plan.levels);
        let (levels, processors) = (self.plan.levels.clone(), self.plan.processors);
        Calibration { prices, levels, processors, cache_line_ns }
    }
}

/// Calibrates with `repeat` rounds.
pub fn calibrate(
    plan: CalibrationPlan,
    repeat: usize,
    runtime: Runtime,
    yardstick: Yardstick,
) -> Result<Calibration, Failure> {
    let mut calibrator = Calibrator::new(plan, runtime, yardstick);
    for _ in 0..repeat {
        calibrator.take()?;
    }
    Ok(calibrator.calibration())
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple::runtime::{CostLevel, Costs, Link, TaskCost, VirtualMachine};
    use maniple_command::machines::file::MachineFile;
    use std::collections::BTreeMap;
    use std::sync::LazyLock;

    fn plan() -> CalibrationPlan {
        CalibrationPlan { processors: 2, levels: vec![2, 16], operations: 4000 }
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
        let crowded = CostLevel {
            shards: 16,
            costs: Costs { launch_ns: 45.0, poll_ns: 25.0, replayed_ns: 12.0, requirement_ns: 50.0, ..costs },
            tasks: [("advance".to_owned(), task(42.0, 0.0625))].into(),
            other_tasks: task(0.0, 0.002),
        };
        let tasks = BTreeMap::from([("advance".to_owned(), task(37.0, 0.05))]);
        let as_few = CostLevel { shards: 8, costs, tasks: tasks.clone(), other_tasks: task(0.0, 0.001) };
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

    /// A calibrator of that machine without rounds.
    fn calibrator() -> Calibrator {
        Calibrator::new(plan(), Runtime::virtual_time(machine()), Yardstick::Fixed(30.0))
    }

    /// The times of a round. In virtual time every round has the same ones.
    static ROUND: LazyLock<Vec<f64>> = LazyLock::new(|| {
        let mut calibrator = calibrator();
        calibrator.take().expect("measured");
        let Beside { found, cache_line_ns } = calibrator.times.remove(0);
        assert_eq!(cache_line_ns, Some(30.0), "the yardstick that was given");
        found
    });

    /// A round in which each time is that of [`ROUND`] times `by` its number.
    fn round(by: impl Fn(usize) -> f64, cache_line_ns: f64) -> Beside<Vec<f64>> {
        let found = ROUND.iter().enumerate().map(|(i, ns)| ns * by(i)).collect();
        Beside { found, cache_line_ns: Some(cache_line_ns) }
    }

    /// In virtual time the programs take the times of the machine's file: its prices must be found again.
    #[test]
    fn the_prices_of_a_machine_in_virtual_time_are_found() {
        let machine = machine();
        let found =
            calibrate(plan(), 1, Runtime::virtual_time(machine.clone()), Yardstick::Fixed(f64::NAN)).expect("measured");
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
        let mut calibrator = calibrator();
        // The fast rounds of programs are not the same ones.
        let at = |n: usize, slow: usize| round(|i| if (i + n) % 21 < slow { 1.45 } else { 1.0 }, 30.0);
        let mut found = |slow| {
            calibrator.times = (0..21).map(|n| at(n, slow)).collect();
            calibrator.calibration().prices.into_iter().map(|p| (p.key, p.values)).collect::<Vec<_>>()
        };
        let alone = found(0);
        assert_eq!(found(18), alone);
        assert_ne!(found(19), alone);
    }

    #[test]
    fn a_round_with_processors_far_apart_does_not_count() {
        let calibrated = |yardsticks: &[f64]| {
            let mut calibrator = calibrator();
            calibrator.times = yardsticks.iter().map(|e| round(|_| *e, *e)).collect();
            let Calibration { prices, cache_line_ns, .. } = calibrator.calibration();
            (prices.into_iter().map(|p| (p.key, p.values)).collect::<Vec<_>>(), cache_line_ns)
        };
        let alone = calibrated(&[30.0]);
        assert_eq!(alone.1, Some(30.0));
        assert_eq!(calibrated(&[76.0, 30.0]), alone);
        assert_ne!(calibrated(&[74.0, 30.0]).0, alone.0);
        assert_eq!(calibrated(&[11.0, 30.0, 30.0, 300.0]), alone);
        assert_eq!(calibrated(&[f64::NAN]).1, None);
    }

    #[test]
    fn the_file_is_a_machine_with_a_reason_for_each_value() {
        let mut calibrator = calibrator();
        calibrator.times.push(round(|_| 1.0, 42.0));
        let found = calibrator.calibration();
        let text = found.text("mine \"and\" yours", None);
        let file = MachineFile::parse("found", &text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let machine = file.machine(None, 512);
        machine.check().expect("a machine");
        assert_eq!((machine.name.as_str(), machine.nodes, machine.per_node), ("mine \"and\" yours", 1, 2));
        assert_eq!(machine.crowded.iter().map(|c| c.shards).collect::<Vec<_>>(), [2, 16]);
        assert_eq!(file.cache_line_ns, Some(42.0));
        for line in text.lines().filter(|line| line.contains("value =")) {
            let (_, why) = line.split_once("why = \"").unwrap_or_else(|| panic!("{line}"));
            assert!(why.len() > 10, "{line}");
        }
    }
}
