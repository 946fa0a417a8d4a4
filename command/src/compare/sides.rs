//! The two sides of a comparison with MPI: their platforms, and how they are measured.

use super::launcher::Launcher;
use super::mpi::{CompareMpiOptions, Program};
use crate::Failure;
use crate::collective::chain::Chained;
use crate::collective::chosen::Chosen;
use crate::collective::kind::Parties;
use crate::collective::run::Workload;
use crate::collective::values::Type;
use crate::collective::{check_algorithm, check_run, wrong};
use crate::micro::{remote, run_error};
use crate::options::Traced;
use crate::options::numbers::check_memory;
use crate::options::wire::Wire;
use crate::stencil::session::{Config, Session};
use maniple::collectives::{Algorithm, Kind};
use maniple::runtime::Runtime;
use maniple::runtime::VirtualMachine;
use maniple_stencil::Collective;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The mark before the answer of rank 0 on its line, wherever the launcher puts that line.
pub const MARK: &str = "maniple-mpi-answer ";

/// One side of a pair: also the answer of rank 0 and, with some of its fields, the report of a command on several processes. A
/// figure that is NaN is lost on the way.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Side {
    /// The MPI library with its version, or in virtual time the machine.
    pub mpi: String,
    /// Whether a command on several processes has verified its result.
    pub verified: Option<bool>,
    /// The first thing that verification found wrong.
    pub failure: Option<String>,
    /// The result of the last call or iteration. A kind of collective has none.
    pub result: Option<f64>,
    /// The median time of an iteration of the stencil.
    #[serde(deserialize_with = "figure")]
    pub iteration_us: Option<f64>,
    /// The time of the collective.
    #[serde(deserialize_with = "figure", alias = "task_us", alias = "max_latency_us")]
    pub collective_us: Option<f64>,
    /// The time of a kind of collective, as the mean over all shards or ranks.
    #[serde(alias = "avg_latency_us")]
    pub mean_us: Option<f64>,
    /// The algorithm of a kind of collective.
    pub algorithm: Option<String>,
    /// Bytes that the runtime has copied for each sum of a remote vector.
    pub copied_bytes: Option<f64>,
    /// The workers of all processes, as a command on several has reported them.
    pub workers: Option<usize>,
}

/// A figure, or the median of a summary.
fn figure<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Figure {
        Number(Option<f64>),
        Summary { median: Option<f64> },
    }
    Ok(match Figure::deserialize(json)? {
        Figure::Number(figure) | Figure::Summary { median: figure } => figure,
    })
}

/// Measures a side once in each call.
pub type Measure<'a> = Box<dyn FnMut() -> Result<Side, Failure> + 'a>;

/// One program with one number of shards, and its platform.
pub struct Case<'a> {
    /// The options.
    pub args: &'a CompareMpiOptions,
    /// The program.
    pub program: Program,
    /// The number of shards, and of ranks.
    pub shards: u32,
    /// The number of processors that run leaf tasks here, where they are in this process or in virtual time.
    pub workers: usize,
    /// The processes of this side, if it is a program of its own.
    pub processes: Option<usize>,
    runtime: Option<Runtime>,
    /// What the mapper of this side chooses.
    chosen: Chosen,
    /// The machines of both sides in virtual time: here, and MPI's.
    machines: Option<[Arc<VirtualMachine>; 2]>,
}

impl<'a> Case<'a> {
    /// A case, which both sides can run.
    pub fn new(args: &'a CompareMpiOptions, program: Program, shards: u32) -> Result<Self, Failure> {
        let (on, count) = (&args.on, shards as usize);
        let processes = on.workers.wire.to_start(count)?;
        let chosen = Chosen::default();
        let (workers, runtime, machines) = match processes {
            Some(_) => (on.workers.count(), None, None),
            None => {
                let (workers, runtime, _) = match program {
                    Program::Collective(_) => on.runtime_with(count, &Traced::default(), |slot| chosen.listen(slot))?,
                    _ => on.runtime(count, &Traced::default())?,
                };
                let machines = on.workers.machine(count)?.zip(args.mpi.load(&on.workers.wire, count)?);
                (workers, Some(runtime), machines.map(|(ours, mpi)| [ours, mpi].map(Arc::new)))
            }
        };
        let case = Self { args, program, shards, workers, processes, runtime, chosen, machines };
        case.check()?;
        Ok(case)
    }

    /// Checks that both sides can run it.
    fn check(&self) -> Result<(), Failure> {
        let mpi = self.machines.as_ref().map(|[_, machine]| machine);
        if let Program::Allreduce | Program::Collective(_) = self.program {
            let Workload { parties, elements, op, order, algorithm, .. } = self.workload();
            check_algorithm(&parties, algorithm, (op, order), Type::F64)?;
            return check_run(&parties, elements, Type::F64);
        }
        if self.program == Program::Remote {
            // The vector and its copy, on both sides.
            return check_memory("a vector and its copies", self.args.elements.count(), 32);
        }
        let cells = self.args.cells.cells;
        self.our_config()?.check_run(cells)?;
        mpi.map_or(Ok(()), |machine| self.mpi_config(machine).check_run(cells))
    }

    /// In virtual time, the machine of this side.
    pub fn machine(&self) -> Option<&VirtualMachine> {
        self.machines.as_ref().map(|[here, _]| &**here)
    }

    /// The measurement of this side.
    pub fn ours(&self) -> Result<Measure<'_>, Failure> {
        match (&self.runtime, self.program) {
            (Some(runtime), Program::Allreduce) => Ok(self.allreduce("here", runtime.clone(), self.workload())),
            (Some(_), Program::Stencil) => self.stencil("here", &self.our_config()?),
            (Some(runtime), Program::Remote) => Ok(self.remote("here", runtime.clone())),
            (Some(runtime), Program::Collective(_)) => Ok(self.collective("here", runtime.clone(), self.workload())),
            (None, _) => {
                let by_mpi = self.args.on.workers.wire.wire() == Wire::Mpi;
                let launcher = if by_mpi { self.args.launcher()? } else { Launcher::none(self.args.timeout()?) };
                Ok(Box::new(move || self.started(&launcher)))
            }
        }
    }

    /// Runs this side as a program of its own.
    fn started(&self, launcher: &Launcher) -> Result<Side, Failure> {
        let CompareMpiOptions { on, elements, cells, iterations, op, collective, algorithm, .. } = self.args;
        let processes = self.processes.unwrap_or(1);
        let workers = &on.workers;
        let command = if self.program == Program::Allreduce { "collective" } else { self.program.name() };
        let mut words: Vec<String> = [command, "--format", "json"].map(String::from).into();
        let mut add = |name: &str, value: &dyn std::fmt::Display| words.extend([name.to_owned(), value.to_string()]);
        match self.program {
            Program::Allreduce => {
                add("--kind", &Kind::Allreduce);
                add("--elements", &elements.count());
                add("--operator", &op.name());
                add("--algorithm", &collective.collective);
                add("--order", &"any");
            }
            Program::Stencil => {
                add("--cells", &cells.cells);
                add("--collective", &collective.collective.name());
                // The first run allocates.
                add("--repeat", &2);
            }
            Program::Remote => {
                add("--elements", &elements.count());
                add("--repeat", &1);
            }
            Program::Collective(kind) => {
                add("--kind", &kind.name());
                if kind != Kind::Barrier {
                    add("--elements", &elements.count());
                }
                if Parties::usual(kind, self.shards).combines() {
                    add("--operator", &op.name());
                }
                algorithm.iter().for_each(|algorithm| add("--algorithm", algorithm));
            }
        }
        if self.program != Program::Remote {
            add("--shards", &self.shards);
        }
        add("--iterations", &iterations.iterations);
        add("--mapper", &on.mapper);
        add("--bind", &workers.bind);
        add("--utility", &workers.utility);
        workers.given().iter().for_each(|count| add("--workers", count));
        words.extend((self.program == Program::Allreduce).then(|| "--chained".into()));
        words.extend(workers.wire.to_start_arguments(processes));
        let side: Side = launcher.run(processes as u32, &words, "")?;
        let failure = (side.verified != Some(true)).then(|| "not verified".into());
        Ok(self.judged("here", Side { failure, ..side }))
    }

    /// The measurement of the other side.
    pub fn theirs(&self) -> Result<Measure<'_>, Failure> {
        let Some([_, machine]) = &self.machines else {
            let launcher = self.args.launcher()?;
            return Ok(Box::new(move || self.launched(&launcher)));
        };
        let mut side = match self.program {
            Program::Allreduce => {
                let workload = Workload { algorithm: Some(Algorithm::RecursiveDoubling), ..self.workload() };
                self.allreduce("MPI", Runtime::virtual_time((**machine).clone()), workload)
            }
            Program::Stencil => self.stencil("MPI", &self.mpi_config(machine))?,
            Program::Remote => self.remote("MPI", Runtime::virtual_time((**machine).clone())),
            Program::Collective(_) => {
                let workload = Workload { algorithm: None, ..self.workload() };
                self.collective("MPI", Runtime::virtual_time((**machine).clone()), workload)
            }
        };
        Ok(Box::new(move || Ok(Side { mpi: machine.name.clone(), ..side()? })))
    }

    fn allreduce(&self, who: &'static str, runtime: Runtime, workload: Workload) -> Measure<'_> {
        let expected = workload.chained_result();
        Box::new(move || {
            let Chained { results, times, .. } = workload.chained(&runtime).map_err(run_error)?;
            let result = results.iter().copied().find(|r| *r != expected).unwrap_or(expected);
            let collective_us = Some(mean_and_most(times.into_iter()).1);
            Ok(Side { result: Some(result), failure: differs(who, result, expected), collective_us, ..Side::default() })
        })
    }

    fn remote(&self, who: &'static str, runtime: Runtime) -> Measure<'_> {
        let (elements, iterations) = (self.args.elements.count(), self.args.iterations.iterations);
        Box::new(move || {
            let (result, verified, us, stats) = remote::measure(&runtime, elements, iterations)?;
            Ok(Side {
                result: Some(result),
                failure: (!verified).then(|| format!("{who}: a wrong sum")),
                collective_us: Some(us),
                copied_bytes: Some(remote::copied_bytes(&stats, iterations)),
                ..Side::default()
            })
        })
    }

    fn collective(&self, who: &'static str, runtime: Runtime, workload: Workload) -> Measure<'_> {
        Box::new(move || {
            let (found, _) = workload.run::<f64>(&runtime).map_err(run_error)?;
            let shards = workload.parties.taking_part();
            let times = shards.iter().map(|shard| found[shard as usize].us(workload.iterations));
            let (mean, collective_us) = mean_and_most(times);
            let chosen = self.chosen.take().and_then(|asked| asked.algorithm);
            let algorithm = workload.algorithm.or(chosen).map(|algorithm| algorithm.to_string());
            Ok(Side {
                failure: wrong(&workload.parties, &found).map(|wrong| format!("{who}: {wrong}")),
                collective_us: Some(collective_us),
                mean_us: Some(mean),
                algorithm,
                ..Side::default()
            })
        })
    }

    fn stencil(&self, who: &'static str, config: &Config) -> Result<Measure<'_>, Failure> {
        let mut session = Session::prepare(config)?;
        // The first run allocates.
        session.run_once()?;
        Ok(Box::new(move || {
            let report = session.run_once()?;
            Ok(Side {
                result: Some(report.result),
                failure: report.failure.map(|f| format!("{who}: {f}")),
                iteration_us: Some(report.iteration_us.median),
                collective_us: Some(report.collective_us.median),
                ..Side::default()
            })
        }))
    }

    /// Runs the reference under its launcher.
    fn launched(&self, launcher: &Launcher) -> Result<Side, Failure> {
        let args = self.args;
        let numbers = [
            ("--ranks", self.shards as usize),
            ("--elements", args.elements.count()),
            ("--cells", args.cells.cells),
            ("--iterations", args.iterations.iterations),
        ];
        let what = match self.program {
            Program::Collective(kind) => ["--kind", kind.name()].to_vec(),
            program => [program.name()].to_vec(),
        };
        let words = [&["mpi-rank"], &what[..], &["--op", args.op.name()]].concat();
        let mut words: Vec<String> = words.into_iter().map(String::from).collect();
        words.extend(numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number.to_string()]));
        Ok(self.judged("MPI", launcher.run(self.shards, &words, MARK)?))
    }

    /// A side that ran as a program of its own. A result that is missing where there should be one is NaN.
    fn judged(&self, who: &str, side: Side) -> Side {
        let kind = self.program.kind().is_some();
        let result = (!kind).then(|| side.result.unwrap_or(f64::NAN));
        let failure = match (self.program, result) {
            (Program::Allreduce, Some(result)) => differs(who, result, self.workload().chained_result()),
            _ => side.failure.map(|failure| format!("{who}: {failure}")),
        };
        Side { result, failure, mean_us: side.mean_us.filter(|_| kind), ..side }
    }

    /// What both sides run of a collective, with this side's algorithm.
    fn workload(&self) -> Workload {
        let CompareMpiOptions { elements, iterations, op, collective, algorithm, .. } = self.args;
        let (elements, iterations) = (elements.count(), iterations.iterations);
        match self.program {
            Program::Collective(kind) => {
                Workload { algorithm: *algorithm, ..Workload::usual(kind, self.shards, elements, *op, iterations) }
            }
            _ => Workload::of_allreduce(self.shards, elements, iterations, collective.collective, *op),
        }
    }

    /// The configuration of the stencil on this side.
    fn our_config(&self) -> Result<Config, Failure> {
        let CompareMpiOptions { on, collective, .. } = self.args;
        // The stencil has every algorithm under the same name.
        let collective = collective.collective.name().parse().map_err(|e| Failure::Usage(format!("stencil: {e}")))?;
        let config = Config { collective, mapper: on.mapper.clone(), ..self.config() };
        Ok(match &self.machines {
            Some([machine, _]) => Config { machine: Some(machine.clone()), ..config },
            None => {
                let (workers, bind, utility) = (self.workers, on.workers.bind, on.workers.utility);
                Config { workers, bind, utility, ..config }
            }
        })
    }

    /// The configuration of the stencil that stands for MPI, on a machine in virtual time.
    fn mpi_config(&self, machine: &Arc<VirtualMachine>) -> Config {
        let (machine, collective) = (Some(machine.clone()), Collective::RecursiveDoubling);
        Config { machine, collective, ..self.config() }
    }

    /// The configuration that both sides of the stencil share.
    fn config(&self) -> Config {
        let (cells, iterations) = (Some(self.args.cells.cells), self.args.iterations.iterations);
        Config { shards: self.shards as usize, cells, iterations, ..Config::default() }
    }
}

/// The mean of the times of shards or ranks that take part, and the longest of them.
pub fn mean_and_most(times: impl Iterator<Item = f64>) -> (f64, f64) {
    let times: Vec<f64> = times.collect();
    (times.iter().sum::<f64>() / times.len() as f64, times.iter().copied().fold(0.0, f64::max))
}

fn differs(side: &str, result: f64, expected: f64) -> Option<String> {
    (result != expected).then(|| format!("{side}: expected {expected:?}, found {result:?}"))
}
