//! The two sides of a comparison with MPI: their platforms, and how they are measured.

use super::kinds;
use super::launcher::Launcher;
use super::mpi::{CompareMpiOptions, Program};
use crate::Failure;
use crate::collective::chosen::Chosen;
use crate::collective::kind::Parties;
use crate::collective::run::Spec as KindSpec;
use crate::collective::values::Type;
use crate::collective::{check_algorithm, check_run, wrong};
use crate::micro::allreduce::Spec;
use crate::micro::remote;
use crate::options::Traced;
use crate::options::numbers::check_memory;
use crate::options::wire::Wire;
use crate::stencil::failure;
use maniple::collectives::{Algorithm, Kind};
use maniple::runtime::Runtime;
use maniple::runtime::VirtualMachine;
use maniple_stencil::{Collective, Config, Session};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The mark before the answer of rank 0 on its line, wherever the launcher puts that line.
pub const MARK: &str = "maniple-mpi-answer ";

/// The answer of rank 0. A figure that is NaN is lost on the way.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The MPI library, with its version.
    pub mpi: String,
    /// The first thing that verification found wrong.
    pub failure: Option<String>,
    /// The last result.
    pub result: Option<f64>,
    /// The median time of an iteration of the stencil.
    pub iteration_us: Option<f64>,
    /// The time of a collective.
    pub collective_us: Option<f64>,
    /// The time of a kind of collective, as the mean over all ranks.
    pub mean_us: Option<f64>,
}

/// One side of a pair.
#[derive(Default)]
pub struct Side {
    /// The result of the last call or iteration. A kind of collective has none.
    pub result: Option<f64>,
    /// The first thing that verification found wrong.
    pub failure: Option<String>,
    /// The median time of an iteration of the stencil.
    pub iteration_us: Option<f64>,
    /// The time of the collective.
    pub collective_us: f64,
    /// The time of a kind of collective, as the mean over all shards or ranks.
    pub mean_us: Option<f64>,
    /// The algorithm of a kind of collective.
    pub algorithm: Option<String>,
    /// Bytes that the runtime has copied for each sum of a remote vector.
    pub copied_bytes: Option<f64>,
    /// The workers of all processes, as a program of its own has reported them.
    pub workers: Option<usize>,
}

/// The report of `maniple allreduce`, `stencil`, `remote` or `collective` on several processes.
#[derive(Debug, Deserialize)]
struct Report {
    workers: usize,
    verified: bool,
    result: Option<f64>,
    iteration_us: Option<Median>,
    #[serde(alias = "task_us", alias = "max_latency_us")]
    collective_us: Time,
    #[serde(alias = "avg_latency_us")]
    mean_us: Option<f64>,
    algorithm: Option<String>,
    copied_bytes: Option<f64>,
}

/// A mean, or the summary of a run.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Time {
    Mean(f64),
    Summary(Median),
}

#[derive(Debug, Deserialize)]
struct Median {
    median: f64,
}

/// Measures a side once in each call.
pub type Measure<'a, T = Side> = Box<dyn FnMut() -> Result<T, Failure> + 'a>;

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
        if self.program == Program::Allreduce {
            let by_doubling = Spec { algorithm: Algorithm::RecursiveDoubling, ..self.spec() };
            return [self.spec()].into_iter().chain(mpi.map(|_| by_doubling)).try_for_each(|spec| spec.check_memory());
        }
        if let Program::Collective(kind) = self.program {
            let KindSpec { parties, elements, op, order, algorithm, .. } = self.kind_spec(kind);
            check_algorithm(&parties, algorithm, (op, order), Type::F64)?;
            return check_run(&parties, elements, Type::F64);
        }
        if self.program == Program::Remote {
            // The vector and its copy, on both sides.
            return check_memory("a vector and its copies", self.args.elements.count(), 32);
        }
        let total = self.args.cells.cells.saturating_mul(self.shards as usize);
        let check = |config: Config| config.check().and_then(|()| config.check_memory(total)).map_err(failure);
        check(self.our_config()?)?;
        mpi.map_or(Ok(()), |machine| check(self.mpi_config(machine)))
    }

    /// In virtual time, the machine of this side.
    pub fn machine(&self) -> Option<&VirtualMachine> {
        self.machines.as_ref().map(|[here, _]| &**here)
    }

    /// The measurement of this side.
    pub fn ours(&self) -> Result<Measure<'_>, Failure> {
        match (&self.runtime, self.program) {
            (Some(runtime), Program::Allreduce) => {
                self.allreduce("here", runtime.clone(), self.args.collective.collective)
            }
            (Some(_), Program::Stencil) => self.stencil("here", &self.our_config()?),
            (Some(runtime), Program::Remote) => Ok(self.remote("here", runtime.clone())),
            (Some(runtime), Program::Collective(kind)) => {
                Ok(self.collective("here", runtime.clone(), self.kind_spec(kind)))
            }
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
        let mut words: Vec<String> = [self.program.name(), "--format", "json"].map(String::from).into();
        let mut add = |name: &str, value: &dyn std::fmt::Display| words.extend([name.to_owned(), value.to_string()]);
        match self.program {
            Program::Allreduce => {
                add("--elements", &elements.count());
                add("--op", &op.op.name());
                add("--repeat", &1);
            }
            Program::Stencil => {
                add("--cells", &cells.cells);
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
                    add("--operator", &op.op.name());
                }
                algorithm.iter().for_each(|algorithm| add("--algorithm", algorithm));
            }
        }
        if self.program != Program::Remote {
            add("--shards", &self.shards);
        }
        if matches!(self.program, Program::Allreduce | Program::Stencil) {
            add("--collective", &collective.collective.name());
        }
        add("--iterations", &iterations.iterations);
        add("--mapper", &on.mapper);
        add("--bind", &workers.bind);
        add("--utility", &workers.utility);
        workers.given().iter().for_each(|count| add("--workers", count));
        words.extend(workers.wire.to_start_arguments(processes));
        let Report { workers, verified, result, iteration_us, collective_us, mean_us, algorithm, copied_bytes } =
            launcher.run(processes as u32, &words, "")?;
        let result = self.result(result);
        let failure = match self.program {
            Program::Allreduce => differs("here", result.unwrap_or(f64::NAN), self.spec().expected()),
            Program::Stencil | Program::Remote | Program::Collective(_) => {
                (!verified).then(|| "here: not verified".into())
            }
        };
        let collective_us = match collective_us {
            Time::Mean(us) | Time::Summary(Median { median: us }) => us,
        };
        Ok(Side {
            result,
            failure,
            iteration_us: iteration_us.map(|of| of.median),
            collective_us,
            mean_us,
            algorithm,
            workers: Some(workers),
            copied_bytes,
        })
    }

    /// The measurement of the other side, which also returns the name of its MPI or, in virtual time, of its machine.
    pub fn theirs(&self) -> Result<Measure<'_, (String, Side)>, Failure> {
        let Some([_, machine]) = &self.machines else {
            let launcher = self.args.launcher()?;
            return Ok(Box::new(move || self.launched(&launcher)));
        };
        let mut side = match self.program {
            Program::Allreduce => {
                let runtime = Runtime::virtual_time((**machine).clone());
                self.allreduce("MPI", runtime, Algorithm::RecursiveDoubling)?
            }
            Program::Stencil => self.stencil("MPI", &self.mpi_config(machine))?,
            Program::Remote => self.remote("MPI", Runtime::virtual_time((**machine).clone())),
            Program::Collective(kind) => {
                let spec = KindSpec { algorithm: None, ..self.kind_spec(kind) };
                self.collective("MPI", Runtime::virtual_time((**machine).clone()), spec)
            }
        };
        Ok(Box::new(move || Ok((machine.name.clone(), side()?))))
    }

    fn allreduce(&self, who: &'static str, runtime: Runtime, algorithm: Algorithm) -> Result<Measure<'_>, Failure> {
        let spec = Spec { algorithm, ..self.spec() };
        let expected = spec.expected();
        Ok(Box::new(move || {
            let (results, collective_us) = spec.run(&runtime)?;
            let result = results.iter().copied().find(|r| *r != expected).unwrap_or(expected);
            let failure = differs(who, result, expected);
            Ok(Side { result: Some(result), failure, collective_us, ..Side::default() })
        }))
    }

    fn remote(&self, who: &'static str, runtime: Runtime) -> Measure<'_> {
        let (elements, iterations) = (self.args.elements.count(), self.args.iterations.iterations);
        Box::new(move || {
            let (result, verified, us, stats) = remote::measure(&runtime, elements, iterations)?;
            Ok(Side {
                result: Some(result),
                failure: (!verified).then(|| format!("{who}: a wrong sum")),
                collective_us: us,
                copied_bytes: Some(remote::copied_bytes(&stats, iterations)),
                ..Side::default()
            })
        })
    }

    fn collective(&self, who: &'static str, runtime: Runtime, spec: KindSpec) -> Measure<'_> {
        Box::new(move || {
            let found = spec.run::<f64>(&runtime).map_err(|e| Failure::Run(e.to_string()))?;
            let shards = spec.parties.taking_part();
            let times = shards.iter().map(|shard| found[shard as usize].us(spec.iterations));
            let (mean, collective_us) = kinds::mean_and_most(times);
            let chosen = self.chosen.take().and_then(|asked| asked.algorithm);
            let algorithm = spec.algorithm.or(chosen).map(|algorithm| algorithm.to_string());
            Ok(Side {
                failure: wrong(&spec.parties, &found).map(|wrong| format!("{who}: {wrong}")),
                collective_us,
                mean_us: Some(mean),
                algorithm,
                ..Side::default()
            })
        })
    }

    fn stencil(&self, who: &'static str, config: &Config) -> Result<Measure<'_>, Failure> {
        let mut session = Session::prepare(config).map_err(failure)?;
        // The first run allocates.
        session.run_once().map_err(failure)?;
        Ok(Box::new(move || {
            let report = session.run_once().map_err(failure)?;
            Ok(Side {
                result: Some(report.result),
                failure: report.failure.map(|f| format!("{who}: {f}")),
                iteration_us: Some(report.iteration_us.median),
                collective_us: report.collective_us.median,
                ..Side::default()
            })
        }))
    }

    /// Runs the reference under its launcher. Returns the name of the MPI library, and the measurement.
    fn launched(&self, launcher: &Launcher) -> Result<(String, Side), Failure> {
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
        let words = [&["mpi-rank"], &what[..], &["--op", args.op.op.name()]].concat();
        let mut words: Vec<String> = words.into_iter().map(String::from).collect();
        words.extend(numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number.to_string()]));
        let answer: Answer = launcher.run(self.shards, &words, MARK)?;
        let result = self.result(answer.result);
        let failure = match self.program {
            Program::Allreduce => differs("MPI", result.unwrap_or(f64::NAN), self.spec().expected()),
            Program::Stencil | Program::Remote | Program::Collective(_) => answer.failure.map(|f| format!("MPI: {f}")),
        };
        let collective_us = answer.collective_us.unwrap_or(f64::NAN);
        Ok((
            answer.mpi,
            Side {
                result,
                failure,
                iteration_us: answer.iteration_us,
                collective_us,
                mean_us: answer.mean_us,
                ..Side::default()
            },
        ))
    }

    /// The result in a report. One that is missing where there should be one is NaN.
    fn result(&self, reported: Option<f64>) -> Option<f64> {
        match self.program {
            Program::Collective(_) => None,
            _ => Some(reported.unwrap_or(f64::NAN)),
        }
    }

    /// What both sides run of a kind, with this side's algorithm.
    fn kind_spec(&self, kind: Kind) -> KindSpec {
        let CompareMpiOptions { elements, iterations, op, algorithm, .. } = self.args;
        let spec = kinds::spec(kind, self.shards, elements.count(), op.op, iterations.iterations);
        KindSpec { algorithm: *algorithm, ..spec }
    }

    fn spec(&self) -> Spec {
        let CompareMpiOptions { elements, iterations, op, collective, .. } = self.args;
        let (elements, iterations) = (elements.count(), iterations.iterations);
        Spec { shards: self.shards, elements, iterations, op: op.op, algorithm: collective.collective }
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

fn differs(side: &str, result: f64, expected: f64) -> Option<String> {
    (result != expected).then(|| format!("{side}: expected {expected:?}, found {result:?}"))
}
