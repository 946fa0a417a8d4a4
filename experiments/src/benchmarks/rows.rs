//! The rows of the document: measurements and their targets.

use super::others::{self, starpu_task_ns};
use super::platform::{Platform, WORKERS};
use maniple::collectives::Algorithm;
use maniple::runtime::{Runtime, Top};
use maniple_apps::cholesky::{self, Matrix, Problem, Real, unordered};
use maniple_command::Failure;
use maniple_command::collective::chain::allreduce_us;
use maniple_command::measure::noise::Beside;
use maniple_command::micro::flow::{self, Flow};
use maniple_command::micro::{gang, memory, tasks};
use maniple_command::stencil::session::{Config, Session};
use maniple_stencil::Collective;

/// One row of the document.
pub struct Row {
    /// The name of the row.
    pub what: String,
    /// The unit of the figures.
    pub unit: &'static str,
    /// The target in words. Without one, the ratio to the other program is for information.
    pub target: Option<String>,
    /// Measures the row once.
    pub measure: Measure,
}

/// A measurement with its target.
pub struct WithTarget {
    /// The measurement in the row's unit.
    pub measured: f64,
    /// The target in the row's unit, or the reason why there is none.
    pub target: Result<f64, String>,
}

/// One measurement. It has the yardstick right after it if the target depends on that, or on another program's time.
pub type Sample = Beside<WithTarget>;

fn sample(measured: f64, target: Result<f64, String>, cache_line_ns: Option<f64>) -> Sample {
    Sample { found: WithTarget { measured, target }, cache_line_ns }
}

fn against(measured: f64, target: f64) -> Sample {
    sample(measured, Ok(target), None)
}

/// A sample with a target in yardsticks. The measurement of `measured_ns` and the target are kept in microseconds.
fn in_yardsticks(on: &Platform, measured_ns: f64, target: f64) -> Sample {
    let cache_line_ns = on.cache_line_ns();
    let target = match cache_line_ns {
        Some(0.0) => Err("a yardstick takes no time on this machine".into()),
        Some(e) => Ok(target * e / 1000.0),
        None => Err("the yardstick needs two processors".into()),
    };
    sample(measured_ns / 1000.0, target, cache_line_ns)
}

type Measure = Box<dyn FnMut(&Platform) -> Result<Sample, Failure>>;

/// All rows, in the order of the document; with `of_host` also those that exist only on this host.
pub fn all(of_host: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |what: &str, unit, target: Option<&str>, measure| {
        rows.push(Row { what: what.into(), unit, target: target.map(String::from), measure });
    };
    let (us, ns, kib) = ("µs", "ns", "KiB");
    row("allreduce of 8 bytes, 2 shards", us, Some("0.8 × MPI"), beside_mpi(2, 1, 0.8));
    for (shards, factor) in [(8, 1.2), (32, 0.9), (128, 0.9), (512, 0.9)] {
        let what = format!("allreduce of 8 bytes, recursive doubling, {shards} shards");
        let yardsticks = factor * f64::from(shards) * f64::from(shards).log2() / f64::from(WORKERS);
        let measure = allreduce(shards, Algorithm::RecursiveDoubling, yardsticks);
        row(&what, us, Some(&format!("{factor} · e · P · log₂P ÷ W")), measure);
    }
    for shards in [8, 64, 512, MANY] {
        let what = format!("allreduce of 8 bytes, two-level, {shards} shards");
        let measure = allreduce(shards, Algorithm::TwoLevel, 3.0 + 0.35 * f64::from(shards));
        row(&what, us, Some("(3 + 0.35 · P) · e"), measure);
    }
    row("allreduce of 1 MiB, recursive doubling, 2 shards", us, Some("0.45 × MPI"), beside_mpi(2, 131_072, 0.45));
    for shards in [8, 16, 32] {
        row(&format!("allreduce of 8 bytes, {shards} shards, beside MPI"), us, None, beside_mpi(shards, 1, 1.0));
    }
    row("stencil kernel, 1000 cells", ns, Some("650 ns"), stencil_kernel());
    for (shards, yardsticks) in [(16, 12.0), (512, 14.0)] {
        let what = format!("stencil, added to the kernel a shard, {shards} shards");
        row(&what, us, Some(&format!("{yardsticks} · e")), stencil_added(shards, yardsticks));
    }
    for shards in [16, 64, 256] {
        row(&format!("relaunch of a shard, {shards} shards"), us, Some("4 µs"), relaunch(shards));
    }
    row("leaf task, 1 region of 1024, 1 worker", ns, Some("StarPU's ÷ 20"), leaf_task());
    row("gang launch, 4096 shards, a shard", us, Some("2 µs"), gang_launch());
    let doubling = waiting(Algorithm::RecursiveDoubling, 2.5);
    row("memory of a waiting shard, recursive doubling", kib, Some("2.5 KiB"), doubling);
    row("memory of a waiting shard, two-level", kib, Some("1 KiB"), waiting(Algorithm::TwoLevel, 1.0));
    if !of_host {
        return rows;
    }
    for window in [1024, Top::WINDOW] {
        let what = format!("task of a flow, window of {window}, 1 region of 1024, 1 worker");
        row(&what, ns, Some("1.25 × a leaf task"), flow_task(window, |on| Ok(Ok(leaf_ns(on)? * 1.25))));
    }
    let starpu = |_: &Platform| Ok(starpu_task_ns().map(|ns| ns / 15.0));
    row("task of a flow, window of 1024, beside StarPU", ns, Some("StarPU's ÷ 15"), flow_task(1024, starpu));
    let f64_on_2 = |on: &Platform| factored_s::<f64>(&on.runtime());
    let f32_on_2 = |on: &Platform| factored_s::<f32>(&on.runtime());
    let on_processes = |_: &Platform| others::factored_on_processes_s(SIZE, TILE);
    let name = |more: &str| format!("Cholesky of {SIZE}², tile {TILE}, {more}");
    let mut factor = |more: &str, target: &str, measured, peer| {
        row(&name(more), "ms", Some(target), factorisation(measured, peer));
    };
    let in_no_order = |_: &Platform| Ok(Ok(unordered::<f64>(SIZE, TILE, WORKERS as usize).as_secs_f64() / 0.97));
    factor("f64, 2 workers", "its kernels in no order ÷ 0.97", Box::new(f64_on_2), Box::new(in_no_order));
    factor("f64, beside OpenBLAS", "its dpotrf", Box::new(f64_on_2), Box::new(|_| Ok(others::dpotrf_s(SIZE, TILE))));
    factor(
        "f32, beside StarPU",
        "its cholesky_implicit",
        Box::new(f32_on_2),
        Box::new(|_| Ok(others::starpu_factor_s(SIZE, TILE))),
    );
    let two_workers = move |on: &Platform| Ok(Ok(1.15 * f64_on_2(on)?));
    factor("f64, 2 processes", "1.15 × 2 workers", Box::new(on_processes), Box::new(two_workers));
    let scalapack = |_: &Platform| Ok(others::pdpotrf_s(SIZE, TILE).map(|s| 0.9 * s));
    factor("f64, 2 processes, beside ScaLAPACK", "0.9 × its pdpotrf", Box::new(on_processes), Box::new(scalapack));
    rows
}

/// The rows of the matrices that are factored, and of a tile.
const SIZE: usize = 4096;
const TILE: usize = 256;

type OwnSeconds = Box<dyn Fn(&Platform) -> Result<f64, Failure>>;
type PeerSeconds = Box<dyn Fn(&Platform) -> Result<Result<f64, String>, Failure>>;

/// A factorisation beside another one. In the first round it comes first, in the second one the other, and so on.
fn factorisation(measured: OwnSeconds, peer: PeerSeconds) -> Measure {
    let mut is_first = false;
    Box::new(move |on| {
        is_first = !is_first;
        let (own, target) = match is_first {
            true => (measured(on)?, peer(on)?),
            false => {
                let target = peer(on)?;
                (measured(on)?, target)
            }
        };
        Ok(sample(own * 1e3, target.map(|s| s * 1e3), on.cache_line_ns()))
    })
}

fn factored_s<T: Real>(runtime: &Runtime) -> Result<f64, Failure> {
    let problem = Problem::new(Matrix::<T>::generated(SIZE), TILE);
    let found = cholesky::run(runtime, &problem).map_err(|e| Failure::Run(e.to_string()))?;
    match found.failure {
        None => Ok(found.time.as_secs_f64()),
        Some(failure) => Err(Failure::Run(failure)),
    }
}

fn flow_task(window: u32, target: impl Fn(&Platform) -> Result<Result<f64, String>, Failure> + 'static) -> Measure {
    Box::new(move |on| {
        let target = target(on)?;
        let (ns, _, is_right) = flow::measure(&on.one_worker(), Flow::of_one_region(200_000, 1024, window))?;
        Ok(sample(verified((ns, is_right))?, target, on.cache_line_ns()))
    })
}

/// The number of calls with `shards` shards in a run of some 10 ms.
fn calls(shards: u32) -> usize {
    (400_000 / shards as usize).clamp(200, 50_000)
}

fn allreduce(shards: u32, algorithm: Algorithm, yardsticks: f64) -> Measure {
    Box::new(move |on| {
        let us = allreduce_us(&on.runtime(), shards, 1, calls(shards), algorithm)?;
        Ok(in_yardsticks(on, us * 1000.0, yardsticks))
    })
}

fn beside_mpi(shards: u32, elements: usize, factor: f64) -> Measure {
    // If there are more ranks of MPI than processors, they take turns.
    let iterations = if shards > WORKERS {
        500
    } else if elements > 1 {
        200
    } else {
        calls(shards)
    };
    let us = move |runtime: &Runtime| allreduce_us(runtime, shards, elements, iterations, Algorithm::RecursiveDoubling);
    Box::new(move |on| match on.beside_mpi((shards, elements, iterations), us)? {
        Ok(pair) => Ok(sample(pair.ours_us, Ok(factor * pair.mpi_us), pair.cache_line_ns)),
        Err(how) => Ok(sample(us(&on.runtime())?, Err(how), None)),
    })
}

fn verified<T>((value, verified): (T, bool)) -> Result<T, Failure> {
    if verified { Ok(value) } else { Err(Failure::Run("not verified".into())) }
}

fn stencil_kernel() -> Measure {
    Box::new(|on| Ok(against(verified(on.kernel(1000, 20_000)?)?, 650.0)))
}

fn stencil_added(shards: u32, yardsticks: f64) -> Measure {
    let mut added_ns = added_to_kernel(shards, Collective::RecursiveDoubling);
    Box::new(move |on| Ok(in_yardsticks(on, added_ns(on)?, yardsticks)))
}

fn relaunch(shards: u32) -> Measure {
    let mut added_ns = added_to_kernel(shards, Collective::Aggregation);
    Box::new(move |on| Ok(against(added_ns(on)? / 1000.0, 4.0)))
}

/// The time of an iteration of the stencil beside its kernel: nanoseconds of a worker for each shard.
fn added_to_kernel(shards: u32, collective: Collective) -> impl FnMut(&Platform) -> Result<f64, Failure> {
    const CELLS: usize = 1000;
    let iterations = 20_000 / shards as usize;
    let config = Config { shards: shards as usize, cells: Some(CELLS), iterations, collective, ..Config::default() };
    let mut session = None;
    move |on| {
        let config = on.config(config.clone());
        let session = match &mut session {
            Some(session) => session,
            None => {
                let mut new = Session::prepare(&config)?;
                // The first run allocates.
                new.run_once()?;
                session.insert(new)
            }
        };
        let report = session.run_once()?;
        if let Some(failure) = report.failure {
            return Err(Failure::Run(format!("not verified: {failure}")));
        }
        let sequential_ns = verified(on.kernel(shards as usize * CELLS, iterations)?)?;
        let on_all_workers_ns = report.iteration_us.median * 1000.0 * config.processors() as f64;
        Ok((on_all_workers_ns - sequential_ns) / f64::from(shards))
    }
}

fn leaf_ns(on: &Platform) -> Result<f64, Failure> {
    verified(tasks::measure(&on.one_worker(), 200_000, 1, 1024)?)
}

fn leaf_task() -> Measure {
    Box::new(|on| {
        let starpu = on.of_host("StarPU's task", starpu_task_ns);
        Ok(sample(leaf_ns(on)?, starpu.map(|ns| ns / 20.0), on.cache_line_ns()))
    })
}

/// The number of shards in rows with many of them.
const MANY: u32 = 4096;

fn gang_launch() -> Measure {
    Box::new(|on| {
        let ns = verified(gang::measure(&on.runtime(), MANY, 10)?)?;
        Ok(against(ns / 1000.0 / f64::from(MANY), 2.0))
    })
}

fn waiting(algorithm: Algorithm, kib: f64) -> Measure {
    Box::new(move |on| {
        let bytes = memory::measure(MANY, on.invocation(), algorithm)?;
        let target = on.of_host("memory", || Ok(kib));
        Ok(sample(bytes / 1024.0, target, None))
    })
}
