//! The runs: programs on small data that stand for those of the paper, on processes of several cores.

use super::EVEN;
use super::mapreduce::{Program, count_words, multiply};
use crate::figures::runs::Job;
use maniple::mapper::{AnyMapper, CollectiveMapper};
use maniple::runtime::{Error, Runtime, TraceFile, VirtualMachine};
use maniple_apps::Mode;
use maniple_apps::cg::{self, Preconditioner, System};
use maniple_apps::fft::{self, Array};
use maniple_command::Failure;
use maniple_stencil::plural;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How a process learns that something has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A processor looks between its tasks: EV-PO in the paper.
    Polling,
    /// A communication thread on one of the cores: CT-DE.
    Thread,
    /// A function that is called on whichever thread is in the library: CB-SW.
    Callback,
    /// A function that the network card calls: CB-HW.
    Hardware,
}

impl Delivery {
    /// The machine with this delivery, whose processes have workers on all cores.
    pub fn of(self, mut machine: VirtualMachine) -> VirtualMachine {
        match self {
            Delivery::Polling => {}
            Delivery::Thread => machine.utility = 1,
            Delivery::Callback | Delivery::Hardware => {
                // Callbacks for several shards of a process run at once, as their threads are in the library at once.
                (machine.per_node, machine.utility) = (2 * machine.per_node, machine.per_node);
                machine.utility_shares = self == Delivery::Callback;
            }
        }
        machine
    }
}

/// A program, with the paper's size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// The transform of an array with these axes, the first of which is 1 for 2 dimensions.
    Transform([usize; 3]),
    /// Words of a text are counted, so many millions.
    Words(usize),
    /// A square matrix with so many rows times a vector.
    Product(usize),
    /// Iterations of conjugate gradients.
    Gradients {
        /// The points of each shard.
        points: [usize; 3],
        /// The shards of a process.
        shards: u32,
        /// With HPCG's preconditioner, or with none, as MiniFE.
        multigrid: bool,
        /// The number of iterations.
        iterations: usize,
    },
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The machine, with a node for each process.
    pub machine: VirtualMachine,
    /// How processes learn what has come.
    pub delivery: Delivery,
    /// When tasks start.
    pub mode: Mode,
    /// The program.
    pub work: Work,
}

/// What a run took.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// Of an iteration, if there are several.
    pub seconds: f64,
    /// Leaf tasks of all shards.
    pub tasks: u64,
}

/// Iterations of conjugate gradients, of which the times are means.
pub const ITERATIONS: usize = 2;

/// Different words in the texts.
pub const WORDS: usize = 1 << 17;

/// Bytes of a word with its count.
pub const WORD: usize = 16;

/// The points of a shard's small grid along an axis, which HPCG's four grids halve three times.
const SMALL: usize = 8;

/// A number of the machine's file by which the study multiplies.
pub fn rate(machine: &VirtualMachine, name: &str) -> f64 {
    machine.tasks.get(name).map_or(0.0, |cost| cost.task_ns)
}

impl Run {
    /// The machine with its delivery, its processes and their workers.
    fn parts(&self) -> (VirtualMachine, u32, u32) {
        let machine = self.delivery.of(self.machine.clone());
        let (processes, workers) = (machine.nodes, machine.per_node - machine.utility);
        (machine, processes, workers)
    }

    /// The shape of the array that stands for another one: before and after each exchange a process has at least a line for each
    /// worker.
    fn small(&self, lengths: [usize; 3]) -> Vec<usize> {
        let (_, processes, workers) = self.parts();
        let [first, second] = fft::sides(lengths, processes as usize);
        let long = second * workers as usize;
        if lengths[0] == 1 { vec![long; 2] } else { vec![first, long, long] }
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::Run(format!("{}, {:?}, {:?}: {what}", self.size(), self.delivery, self.mode))
    }

    /// Transforms an array of this shape, which stands for one with these axes.
    fn transform(&self, lengths: [usize; 3], shape: &[usize], trace: Option<TraceFile>) -> Result<Took, Failure> {
        let (machine, processes, workers) = self.parts();
        let charges =
            fft::Charges { lengths, operation_ns: rate(&machine, "operation"), byte_ns: rate(&machine, "packed-byte") };
        let array = Array::generated(shape).map_err(|e| self.wrong(&e.to_string()))?;
        let problem = fft::Problem {
            mode: self.mode,
            groups: workers as usize,
            charges: Some(charges),
            ..fft::Problem::new(array, processes)
        };
        let mut runtime = any(machine);
        if let Some(trace) = trace {
            runtime = runtime.trace(trace);
        }
        let found = fft::run(&runtime, &problem).map_err(|e| self.wrong(&e.to_string()))?;
        match found.failure {
            Some(failure) => Err(self.wrong(&failure)),
            None => Ok(Took { seconds: found.times[0].as_secs_f64(), tasks: found.stats.leaf_tasks }),
        }
    }

    /// Runs a transform and writes its trace.
    ///
    /// # Errors
    /// A file that can't be written, and a run that failed.
    pub fn traced(&self, file: &Path) -> Result<(), Failure> {
        let Work::Transform(lengths) = self.work else { return Ok(()) };
        let wrong = |e: maniple::runtime::Error| self.wrong(&e.to_string());
        let trace = TraceFile::create(file).map_err(wrong)?;
        self.transform(lengths, &self.small(lengths), Some(trace.clone()))?;
        trace.written().map_err(wrong)
    }

    /// A program that maps for so long in all, and makes and joins a part in so much time.
    fn reduce(
        &self,
        run: impl Fn(&Runtime, u32, Program) -> Result<Duration, Error>,
        map_ns: f64,
        [block_ns, join_ns]: [f64; 2],
        bytes: usize,
    ) -> Result<Took, Failure> {
        let (mut machine, processes, _) = self.parts();
        machine.other_tasks.task_ns = join_ns;
        // As many for each worker with 7 as with 8, and small enough for all to end at about the same time.
        let tasks = EVEN as usize;
        let map_ns = map_ns / f64::from(processes) / tasks as f64;
        let program = Program { mode: self.mode, tasks, map_ns, block_ns, bytes };
        let time = run(&any(machine), processes, program).map_err(|e| self.wrong(&e.to_string()))?;
        Ok(Took { seconds: time.as_secs_f64(), tasks: 0 })
    }

    fn gradients(&self, problem: cg::Problem) -> Result<Took, Failure> {
        let (machine, iterations) = (self.delivery.of(self.machine.clone()), problem.iterations);
        let runtime = Runtime::virtual_time(machine).mapper(Arc::new(CollectiveMapper));
        let found = cg::run(&runtime, &problem).map_err(|e| self.wrong(&e.to_string()))?;
        match found.failure {
            Some(failure) => Err(self.wrong(&failure)),
            None => Ok(Took { seconds: found.time.as_secs_f64() / iterations as f64, tasks: found.stats.leaf_tasks }),
        }
    }
}

/// The problem that stands for conjugate gradients with so many points and shards for each of some processes.
pub fn problem(machine: &VirtualMachine, mode: Mode, points: [usize; 3], shards: u32) -> cg::Problem {
    let finer = points.into_iter().min().unwrap_or(SMALL) / SMALL;
    let charges = cg::Charges { finer, row_ns: rate(machine, "row"), value_ns: rate(machine, "value") };
    let system = System::Stencil { points: points.map(|n| n / finer) };
    let problem = cg::Problem::new(system, machine.nodes * shards);
    // A process has a block of the grid, as in the paper.
    cg::Problem { mode, together: shards, charges: Some(charges), ..problem }
}

/// A run whose leaf tasks go to whoever is idle.
fn any(machine: VirtualMachine) -> Runtime {
    Runtime::virtual_time(machine).mapper(Arc::new(AnyMapper::new(Arc::new(CollectiveMapper))))
}

impl Job for Run {
    type Took = Took;

    fn size(&self) -> String {
        let what = match self.work {
            Work::Transform(lengths) => {
                let lengths: Vec<String> = lengths.iter().filter(|n| **n > 1).map(usize::to_string).collect();
                lengths.join("×")
            }
            Work::Words(millions) => format!("{millions} million words"),
            Work::Product(rows) => format!("a matrix of {rows} rows"),
            Work::Gradients { shards, .. } => format!("{shards} shards each"),
        };
        format!("{what} on {}", plural(self.machine.nodes as usize, "process"))
    }

    fn most_bytes(&self) -> u128 {
        let processes = u128::from(self.machine.nodes);
        match self.work {
            // Values of the small array, four times, and the state of each pair.
            Work::Transform(_) => processes * processes * (64 * 16 * 4 + 1500),
            Work::Words(_) | Work::Product(_) => processes * processes * 3000,
            // A small grid with its matrix, and the shard's tasks and edges.
            Work::Gradients { shards, .. } => processes * u128::from(shards) * 3_000_000,
        }
    }

    fn run(&self) -> Result<Took, Failure> {
        let (rate, processes) = (|name| rate(&self.machine, name), self.machine.nodes as usize);
        match self.work {
            Work::Transform(lengths) => self.transform(lengths, &self.small(lengths), None),
            Work::Words(millions) => {
                let words = WORDS as f64 / processes as f64;
                let bytes = WORDS.div_ceil(processes) * WORD;
                let times = [bytes as f64 * rate("packed-byte"), words * rate("word")];
                self.reduce(count_words, millions as f64 * 1e6 * rate("word"), times, bytes)
            }
            Work::Product(rows) => {
                let own = rows as f64 / processes as f64;
                let times = [own * own * rate("value"), own * rate("value")];
                self.reduce(multiply, 0.0, times, rows.div_ceil(processes) * size_of::<f64>())
            }
            Work::Gradients { points, shards, multigrid, iterations } => {
                let preconditioner = if multigrid { Preconditioner::Multigrid } else { Preconditioner::None };
                let problem = problem(&self.machine, self.mode, points, shards);
                self.gradients(cg::Problem { preconditioner, iterations, ..problem })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_command::machines::file::MachineFile;

    /// A transform of the array itself takes as long as that of a small one which stands for it.
    #[test]
    fn a_small_array_that_stands_for_another_takes_as_long() {
        let file = MachineFile::load("marenostrum4").unwrap_or_else(|e| panic!("{e:?}"));
        for (lengths, processes) in [([1, 256, 256], 4), ([1, 512, 128], 4), ([64, 64, 64], 4), ([1, 128, 512], 16)] {
            for (delivery, mode) in [
                (Delivery::Polling, Mode::Whole),
                (Delivery::Callback, Mode::Partial),
                (Delivery::Thread, Mode::Partial),
            ] {
                let machine = file.machine(Some(processes), 1);
                let run = Run { machine, delivery, mode, work: Work::Transform(lengths) };
                let shape: Vec<usize> = lengths.into_iter().filter(|n| *n > 1).collect();
                let seconds = |took: Result<Took, Failure>| took.unwrap_or_else(|e| panic!("{e:?}")).seconds;
                let [standing, full] = [run.run(), run.transform(lengths, &shape, None)].map(seconds);
                assert!(
                    (standing / full - 1.0).abs() < 0.01,
                    "{lengths:?} {delivery:?}: {standing} s, {full} s in full"
                );
            }
        }
    }

    /// A wrong result fails a run: see the programs. Here: all programs run at small sizes.
    #[test]
    fn all_programs_run_and_are_verified() {
        let file = MachineFile::load("marenostrum4").unwrap_or_else(|e| panic!("{e:?}"));
        let works = [
            Work::Words(1),
            Work::Product(64),
            Work::Gradients { points: [16, 8, 8], shards: 8, multigrid: true, iterations: 2 },
            Work::Gradients { points: [16, 16, 8], shards: 9, multigrid: false, iterations: 2 },
        ];
        for work in works {
            for delivery in [Delivery::Polling, Delivery::Thread, Delivery::Callback, Delivery::Hardware] {
                for mode in [Mode::Whole, Mode::Partial] {
                    let run = Run { machine: file.machine(Some(3), 1), delivery, mode, work };
                    let took = run.run().unwrap_or_else(|e| panic!("{e:?}"));
                    assert!(took.seconds > 0.0, "{work:?}");
                }
            }
        }
    }
}
