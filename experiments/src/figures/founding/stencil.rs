//! Runs of the stencil in virtual time.

use crate::figures::runs;
use maniple::runtime::{TaskCost, VirtualMachine};
use maniple_command::Failure;
use maniple_command::stencil::session::{Config, Session};
use maniple_stencil::{Collective, plural};
use serde::Serialize;
use std::sync::Arc;

/// The number of shards up to which runs are as in the paper: 1000 cells for each shard, 20 iterations.
pub const WHOLE: usize = 512;

const CELLS: usize = 1000;
const ITERATIONS: usize = 20;

/// The number of iterations at the start that don't count. The paper found that times are steady after them.
const WARMUP: usize = 5;

/// The cells and iterations of larger runs. Their kernels take as long as kernels of 1000 cells.
const FEW_CELLS: usize = 16;
const FEW_ITERATIONS: usize = 7;
const FEW_WARMUP: usize = 2;

/// A run of the stencil.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The machine.
    pub machine: VirtualMachine,
    /// The number of shards.
    pub shards: usize,
    /// The version.
    pub collective: Collective,
    /// Iterations that a shard launches ahead before it waits.
    pub ahead: usize,
}

/// The times of a run in microseconds of virtual time: means over its iterations, without those at the start and at the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Took {
    /// One iteration.
    pub iteration_us: f64,
    /// The collective within it.
    pub collective_us: f64,
}

impl Job {
    /// A job on this machine.
    pub fn new(machine: VirtualMachine, shards: usize, collective: Collective) -> Self {
        Self { machine, shards, collective, ahead: Config::default().ahead }
    }

    /// The memory that it needs at least.
    pub fn bytes(&self) -> u128 {
        let config = self.config();
        config.memory(self.shards.saturating_mul(config.cells.unwrap_or(CELLS)))
    }

    fn config(&self) -> Config {
        let mut machine = self.machine.clone();
        let whole = self.shards <= WHOLE;
        if !whole {
            // The time of the missing cells.
            let missing = (size_of::<f64>() * (CELLS - FEW_CELLS)) as f64;
            let levels = machine.crowded.iter_mut().map(|c| (&mut c.tasks, c.other_tasks));
            for (tasks, others) in std::iter::once((&mut machine.tasks, machine.other_tasks)).chain(levels) {
                for kernel in ["advance", "advance_from"] {
                    let TaskCost { task_ns, byte_ns } = *tasks.get(kernel).unwrap_or(&others);
                    tasks.insert(kernel.into(), TaskCost { task_ns: task_ns + byte_ns * missing, byte_ns });
                }
            }
        }
        Config {
            shards: self.shards,
            cells: Some(if whole { CELLS } else { FEW_CELLS }),
            iterations: if whole { ITERATIONS } else { FEW_ITERATIONS },
            repeat: 1,
            collective: self.collective,
            ahead: self.ahead,
            machine: Some(Arc::new(machine)),
            ..Config::default()
        }
    }
}

impl runs::Job for Job {
    type Took = Took;

    fn size(&self) -> String {
        plural(self.shards, "shard")
    }

    // Aggregation, with its messages under way, needs 6 % more than the least.
    fn most_bytes(&self) -> u128 {
        self.bytes() * 11 / 10
    }

    fn run(&self) -> Result<Took, Failure> {
        let what = format!("{} with {} on `{}`", self.collective, plural(self.shards, "shard"), self.machine.name);
        let failed = |e: String| Failure::Run(format!("{what}: {e}"));
        let report = Session::prepare(&self.config()).and_then(|mut session| session.run_once());
        let report = report.map_err(|e| e.of(&what))?;
        if !report.verified {
            return Err(failed(report.failure.unwrap_or_else(|| "not verified".into())));
        }
        let warmup = if self.shards <= WHOLE { WARMUP } else { FEW_WARMUP };
        let mean = |samples: &[f64]| {
            // The last iterations launch no others ahead, and shards that have ended send messages to the first node.
            let kept = &samples[warmup..samples.len() - (self.ahead + 1)];
            kept.iter().sum::<f64>() / kept.len() as f64
        };
        let samples = &report.samples;
        Ok(Took { iteration_us: mean(&samples.iteration_us), collective_us: mean(&samples.collective_us) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::runs::{Job as _, machine_of};
    use maniple_command::machines::file::MachineFile;

    #[test]
    fn with_few_cells_kernels_take_as_long_as_with_a_thousand() {
        let file = MachineFile::load("titan-legion").unwrap_or_else(|e| panic!("{e:?}"));
        let config = |shards| Job::new(machine_of(&file, shards), shards, Collective::RecursiveDoubling).config();
        let (whole, few) = (config(WHOLE), config(2 * WHOLE));
        let machine = |c: &Config| c.machine.as_deref().cloned().unwrap_or_else(|| panic!("no machine"));
        let (all, given) = (machine(&whole).other_tasks, machine(&few).tasks["advance"]);
        // A block and four cells of ghosts on either side.
        let took =
            |cost: TaskCost, cells: Option<usize>| cost.task_ns + cost.byte_ns * (8 * (cells.unwrap_or(0) + 8)) as f64;
        assert!((took(all, whole.cells) - took(given, few.cells)).abs() < 1e-6);
        assert!(few.cells < whole.cells && few.iterations < whole.iterations);
        // Where costs depend on the shards of a processor, with any number of them: the inner task counts as one.
        let file = MachineFile::load("infiniband").unwrap_or_else(|e| panic!("{e:?}"));
        let config =
            |shards| machine(&Job::new(machine_of(&file, shards), shards, Collective::RecursiveDoubling).config());
        let (all, given) = (config(WHOLE).crowded, config(2 * WHOLE).crowded);
        assert!(!all.is_empty());
        for (all, given) in all.iter().zip(&given) {
            let took = took(all.tasks["advance"], whole.cells) - took(given.tasks["advance"], few.cells);
            assert!(took.abs() < 1e-6, "with {} shards: {took} ns", all.shards);
        }
    }

    #[test]
    fn shards_that_are_over_do_not_show() {
        let file = MachineFile::load("titan-mpi").unwrap_or_else(|e| panic!("{e:?}"));
        // A message, an update, a read, and a poll for all of them.
        let round_us = 0.3 + 1.0 + 0.3 + 3.0 * 0.05;
        // Two neighbours' ghosts that come in between, and their own that go.
        let ghosts_us = 4.0 * (0.3 + 0.05);
        for shards in [16, 64, 512, 1024] {
            let job = Job::new(machine_of(&file, shards), shards, Collective::RecursiveDoubling);
            let took = job.run().unwrap_or_else(|e| panic!("{e:?}"));
            let us = f64::from(shards.ilog2()) * round_us;
            assert!((0.97 * us..1.02 * (us + ghosts_us)).contains(&took.collective_us), "{shards}: {took:?}");
        }
    }
}
