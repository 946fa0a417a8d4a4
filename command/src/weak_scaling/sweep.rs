//! A sweep of runs over numbers of shards, and its description in reports.

use super::WeakScalingOptions;
use super::fit::Fit;
use super::point::Point;
use crate::Failure;
use crate::measure::environment::Machine;
use crate::measure::noise::{OUTLIER_RULE, busy};
use crate::options::CELLS;
use crate::options::workers::{Bind, Place};
use crate::stencil::session::Config;
use maniple::mapper::MapperSpec;
use maniple::runtime::VirtualMachine;
use maniple_stencil::{Collective, plural};
use serde::Serialize;
use std::sync::Arc;

/// The factor by which points may be off a model that fits.
const BAD_FIT: f64 = 1.5;

/// A sweep of runs over numbers of shards, from checked arguments.
pub struct Sweep {
    /// Numbers of shards, increasing.
    pub counts: Vec<usize>,
    /// In virtual time, the machine for each number of shards.
    pub machines: Vec<Option<Arc<VirtualMachine>>>,
    /// The configuration of all runs, but for the number of shards and the machine.
    pub config: Config,
    /// Iterations at the start of each run that do not count.
    pub warmup: usize,
}

impl Sweep {
    /// Checks the arguments.
    pub fn new(args: &WeakScalingOptions) -> Result<Self, Failure> {
        let counts = args.shards.shards.0.clone();
        let (workers, cells, iterations) = (&args.on.workers, args.cells.cells, args.iterations.iterations);
        let (mut machines, mut processes, mut count) = (Vec::new(), None, 0);
        for &shards in &counts {
            let (place, of_each) = workers.place(shards)?;
            count = of_each;
            machines.push(match place {
                Place::Machine(machine) => Some(machine),
                Place::Threads => None,
                Place::Processes(all) => {
                    processes = Some(all);
                    None
                }
            });
        }
        let processors = machines.iter().flatten().map(|machine| machine.leaf_processors()).max();
        let config = Config {
            shards: 1,
            cells: Some(cells),
            iterations,
            repeat: args.repeat.repeat,
            collective: args.collective,
            workers: processors.unwrap_or(count),
            processes,
            mapper: args.on.mapper.clone(),
            bind: workers.bind,
            utility: workers.utility,
            ..Config::default()
        };
        // All runs are checked before the first.
        for (&shards, machine) in counts.iter().zip(&machines) {
            let config = Config { shards, machine: machine.clone(), ..config.clone() };
            config.check_run(cells)?;
        }
        let warmup = args.warmup.unwrap_or(iterations / 4);
        if warmup >= iterations {
            return Err(Failure::Usage(format!(
                "--warmup: expected fewer than {}, found {warmup}",
                plural(iterations, "iteration")
            )));
        }
        Ok(Self { counts, machines, config, warmup })
    }

    /// In virtual time, the machine; if machines differ, the one for the most shards.
    pub fn machine(&self) -> Option<&VirtualMachine> {
        self.machines.last()?.as_deref()
    }

    /// The name of the wire.
    pub fn wire(&self) -> &'static str {
        match (self.machine(), self.config.processes) {
            (Some(_), _) => "virtual",
            (None, Some(processes)) => processes.wire(),
            (None, None) => "threads",
        }
    }

    /// The cells of each shard.
    pub fn cells(&self) -> usize {
        self.config.cells.unwrap_or(CELLS)
    }

    /// The parameters for programs.
    pub fn parameters(&self) -> Parameters<'_> {
        Parameters {
            wire: self.wire(),
            machine: self.machine().map(|machine| machine.name.as_str()),
            shards: &self.counts,
            cells: self.cells(),
            iterations: self.config.iterations,
            warmup: self.warmup,
            repeat: self.config.repeat,
            collective: self.config.collective,
            baseline: Collective::Aggregation,
            processes: self.config.processes.map(|p| p.number),
            workers: self.config.processors(),
            mapper: &self.config.mapper,
            bind: self.config.bind,
            utility: self.config.utility,
            outliers: OUTLIER_RULE,
        }
    }

    /// The parameters for people.
    pub fn described(&self) -> Vec<(&'static str, String)> {
        let p = self.parameters();
        let mut rows = vec![
            ("shards", p.shards.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
            ("cells of each shard", p.cells.to_string()),
            ("iterations of each run", format!("{}; the first {} do not count", p.iterations, p.warmup)),
            ("runs of each version", p.repeat.to_string()),
            ("wire", p.wire.into()),
            ("machine in virtual time", p.machine.unwrap_or("none").into()),
            ("collective", p.collective.to_string()),
            ("baseline", p.baseline.to_string()),
            ("workers", p.workers.to_string()),
            ("mapper", p.mapper.to_string()),
            ("binding of workers", p.bind.to_string()),
            ("utility processors", p.utility.to_string()),
            ("outliers", p.outliers.into()),
        ];
        rows.extend(p.processes.map(|processes| ("processes", processes.to_string())));
        rows
    }

    /// The parameters in one line.
    pub fn subtitle(&self) -> String {
        let Config { processes, iterations, repeat, mapper, .. } = &self.config;
        let counted = iterations - self.warmup;
        let workers = plural(self.config.processors(), "worker");
        let on = match (self.machine(), processes) {
            (Some(machine), _) => format!("machine {} in virtual time", machine.name),
            (None, Some(p)) => format!("{workers} in {}", crate::options::wire::processes(p.number)),
            (None, None) => workers,
        };
        let [cells, runs] = [plural(self.cells(), "cell"), plural(*repeat, "run")];
        format!("{on}, {cells} per shard, {runs} of {}, mapper {mapper}", plural(counted, "iteration"))
    }

    /// Warnings about the times: reasons why they may mislead.
    pub fn caveats(&self, points: &[Point], fits: &[Fit]) -> Vec<String> {
        let workers = self.on_host();
        let processors = plural(self.processors(), "processor");
        let turns = format!("{workers} workers take turns on {processors}, so the times are the scheduler's");
        let yardstick = super::point::cache_line_ns(points);
        let caveats = self.takes_turns().then_some(turns).into_iter().chain(busy(yardstick));
        let bad = fits.iter().filter(|fit| fit.off_by > BAD_FIT).map(|fit| {
            let (formula, off_by) = (fit.model.formula(), fit.off_by);
            format!(
                "{formula} does not fit: points are off by a factor of {off_by:.2}, and values beyond them may be worse"
            )
        });
        caveats.chain(bad).collect()
    }

    /// Whether there are more workers than processors for them.
    pub fn takes_turns(&self) -> bool {
        self.machine().is_none() && self.on_host() > self.processors()
    }

    /// The processors for the workers of a host. A launcher may bind a process to some of them.
    fn processors(&self) -> usize {
        let host = || Machine::now().processors;
        let of_this = || std::thread::available_parallelism().ok().map(usize::from);
        self.config.processes.map_or_else(of_this, |_| host()).unwrap_or(usize::MAX)
    }

    /// The workers of a host.
    fn on_host(&self) -> usize {
        self.config.workers.saturating_mul(self.config.processes.map_or(1, |p| p.on_host))
    }

    /// The definitions of the results.
    pub fn definitions(&self) -> [(&'static str, String); 6] {
        let collective = self.config.collective;
        [
            ("one collective", "inside the application, on shard 0, from its local sum to the total".into()),
            ("one iteration", format!("of the application with {collective}, on shard 0, from one total to the next")),
            ("iteration of the baseline", "of the version with an aggregation region, on shard 0".into()),
            ("baseline ÷ iteration", "for each pair of runs, the ratio of their median iterations".into()),
            (
                "more shards than workers",
                "shard 0 is early in every other iteration and late in those between. So a sample is the mean of two \
                 iterations, one after the other. samples.csv has both"
                    .into(),
            ),
            (
                "dropped",
                format!(
                    "the number of outliers among all four kinds of samples; summary.csv has it for each kind. Here {OUTLIER_RULE}. \
                     The first {} of each run do not count",
                    plural(self.warmup, "iteration")
                ),
            ),
        ]
    }
}

/// The parameters that are kept with the samples.
#[derive(Debug, Serialize)]
pub struct Parameters<'a> {
    wire: &'static str,
    machine: Option<&'a str>,
    shards: &'a [usize],
    cells: usize,
    iterations: usize,
    warmup: usize,
    repeat: usize,
    collective: Collective,
    baseline: Collective,
    /// Processes, in a run on several.
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<usize>,
    workers: usize,
    mapper: &'a MapperSpec,
    bind: Bind,
    utility: usize,
    outliers: &'static str,
}
