//! Figures 9 to 13 of "Optimizing Computation-Communication Overlap in Asynchronous Task-Based Programs": tasks that start on a part
//! of a collective, and how processes learn that it has come.

mod mapreduce;
mod page;
mod runs;

use super::FiguresOptions;
use super::changes::{Band, numbers_as};
use super::curves::draw;
use super::report::{self, Figure, Row, points_csv};
use super::runs::Runs;
use super::study::{self, Figures, Ratio, Shape, Study};
use super::verdicts::Verdict;
use maniple::runtime::VirtualMachine;
use maniple_apps::Mode;
use maniple_command::Failure;
use maniple_command::files::Files;
use maniple_command::machines::file::MachineFile;
use maniple_command::measure::directory::{Directory, pretty};
use maniple_command::output::{Stdout, quoted};
use runs::{Delivery, Run, Work, rate};
use serde::Serialize;

/// The machine. A node of it is a process.
const MACHINE: &str = "marenostrum4";

/// The processes of a computer of the paper.
const ON_A_COMPUTER: u32 = 4;

/// The cores of a process.
const CORES: u32 = 8;

/// The most processes, on 128 computers.
const MOST: u32 = 512;

/// The processes of runs with bands, and of the iterations with many shards: 16 computers.
const FEW: u32 = 64;

/// Ways to run a program: its mode, and how a process learns that something has come.
struct Way {
    name: &'static str,
    delivery: Delivery,
    mode: Mode,
}

/// In the order of results.
const WAYS: [Way; 5] = [
    Way { name: "whole, EV-PO", delivery: Delivery::Polling, mode: Mode::Whole },
    Way { name: "EV-PO", delivery: Delivery::Polling, mode: Mode::Partial },
    Way { name: "CB-SW", delivery: Delivery::Callback, mode: Mode::Partial },
    Way { name: "CB-HW", delivery: Delivery::Hardware, mode: Mode::Partial },
    // Communication threads are older than results in parts. Halos need none, so there it is partial.
    Way { name: "CT-DE", delivery: Delivery::Thread, mode: Mode::Whole },
];

/// The places of some.
const WHOLE: usize = 0;
const POLLING: usize = 1;
const CALLBACK: usize = 2;
const HARDWARE: usize = 3;
const THREAD: usize = 4;

/// Names of a point's values in files.
const CURVES: [&str; 9] = [
    "whole_ms",
    "ev_po_ms",
    "cb_sw_ms",
    "cb_hw_ms",
    "ct_de_ms",
    "ev_po_gain",
    "cb_sw_gain",
    "cb_hw_gain",
    "ct_de_gain",
];

/// A benchmark of the paper with collectives.
struct Benchmark {
    name: &'static str,
    figure: &'static str,
    /// What its sizes are.
    axis: &'static str,
    sizes: &'static [usize],
    /// Those with bands.
    banded: &'static [usize],
    /// The program of a size on the most processes, or so much of it on fewer that each has as much work.
    work: fn(usize, u32) -> Work,
}

/// A part of a size, for so many processes.
fn part(size: usize, processes: u32) -> usize {
    (size * processes as usize).div_ceil(MOST as usize)
}

const BENCHMARKS: [Benchmark; 4] = [
    Benchmark {
        name: "2D FFT",
        figure: "Figure 10a",
        axis: "length of an axis",
        sizes: &[16384, 32768, 65536, 131072, 262144],
        banded: &[16384, 65536, 262144],
        work: |n, processes| Work::Transform([1, n, part(n, processes)]),
    },
    Benchmark {
        name: "3D FFT",
        figure: "Figure 10b",
        axis: "length of an axis",
        sizes: &[1024, 2048, 4096],
        banded: &[1024, 4096],
        work: |n, processes| Work::Transform([n, n, part(n, processes)]),
    },
    Benchmark {
        name: "word count",
        figure: "Figure 12, left",
        axis: "million words",
        sizes: &[262, 524, 1048],
        banded: &[262, 1048],
        work: |millions, processes| Work::Words(part(millions, processes)),
    },
    Benchmark {
        name: "matrix–vector product",
        figure: "Figure 12, right",
        axis: "rows",
        sizes: &[1024, 2048, 4096],
        banded: &[1024, 4096],
        work: |rows, processes| {
            Work::Product((rows as f64 * (f64::from(processes) / f64::from(MOST)).sqrt()).round() as usize)
        },
    },
];

/// The places of the benchmarks.
const PLANE: usize = 0;
const CUBE: usize = 1;
const WORDS: usize = 2;
const PRODUCT: usize = 3;

/// The points of a process in the paper's iterations: 1024 × 512 × 512 on 64 processes.
const POINTS: [usize; 3] = [256, 128, 128];

/// The most shards of a core, on few and on the most processes. More would take too long here.
const DECOMPOSED: [(u32, u32); 2] = [(FEW, 4), (MOST, 1)];

/// The shards of a process that are as many for each worker with 7 as with 8.
const EVEN: u32 = 56;

/// The processes of the runs by the length of tasks, and of the traces.
const SOME: u32 = 8;

/// Factors on the times of their tasks.
const LENGTHS: [f64; 6] = [0.015625, 0.0625, 0.25, 1.0, 4.0, 16.0];

/// The times of a program.
#[derive(Debug, Clone, Serialize)]
struct Timed {
    size: usize,
    /// Milliseconds, by the ways of [`WAYS`].
    ms: [f64; 5],
}

impl Timed {
    /// The whole version's time by polling divided by that of a way.
    fn gain(&self, way: usize) -> f64 {
        self.ms[WHOLE] / self.ms[way]
    }
}

impl study::Point for Timed {
    fn at(&self) -> usize {
        self.size
    }

    fn values(&self) -> Vec<f64> {
        self.ms.into_iter().chain((1..WAYS.len()).map(|way| self.gain(way))).collect()
    }
}

/// The times of an iteration of conjugate gradients.
#[derive(Debug, Clone, Serialize)]
struct Iteration {
    /// With HPCG's preconditioner, or with none, as MiniFE.
    multigrid: bool,
    processes: u32,
    /// Shards of a core.
    shards: u32,
    /// Milliseconds, by the ways of [`WAYS`], but a communication thread with parts.
    ms: [f64; 5],
    /// By [`Library`](Self::tests): milliseconds of the version that tests requests between tasks.
    tested_ms: f64,
}

/// The times of an iteration where messages move once both processors have looked, or at once.
#[derive(Debug, Clone, Serialize)]
struct Late {
    /// The factor on the times of tasks.
    factor: f64,
    /// Milliseconds of an iteration by polling, by hardware, and with a communication thread: with rendezvous, and without.
    ms: [[f64; 3]; 2],
}

/// A time, and what it is predicted to be.
#[derive(Debug, Clone, Serialize)]
struct Predicted {
    benchmark: &'static str,
    size: usize,
    ms: f64,
    predicted_ms: f64,
}

/// The gains of a benchmark's sizes on some processes.
#[derive(Debug, Clone, Serialize)]
struct Gains {
    benchmark: &'static str,
    processes: u32,
    /// By callbacks in software, in percent.
    percent: Vec<f64>,
}

/// The name under which a number of the machine is changed. Some are changed together.
fn named(number: &str) -> String {
    let table = number.split('.').next().unwrap_or_default();
    match table {
        "network" if number.ends_with("byte_ns") => "bytes on the network",
        "network" => "latency and messages on the network",
        "tasks" | "other_tasks" => "tasks",
        _ => "the runtime",
    }
    .into()
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

/// The mean of gains, as a ratio.
fn mean(points: &[Timed], way: usize) -> f64 {
    points.iter().map(|point| point.gain(way)).sum::<f64>() / points.len() as f64
}

/// The shapes of Figures 10 and 12.
fn shapes() -> Vec<Shape<Timed>> {
    let mut shapes: Vec<Shape<Timed>> = Vec::new();
    let mut shape = |paper: &str, ratio: &str, of: Box<Ratio<Timed>>, holds| {
        let (paper, ratio) = (paper.into(), ratio.into());
        shapes.push(Shape { paper, ratio, numbers: &[""], of, holds });
    };
    let gains = |all: &Figures<Timed>, of: usize, way: usize| -> Vec<f64> {
        all[of].iter().map(|point| point.gain(way)).collect()
    };
    shape(
        "2D FFT: callbacks gain at all sizes",
        "time of the whole version ÷ by CB-SW, the least, to be at least 1.15",
        Box::new(move |all| least(gains(all, PLANE, CALLBACK).into_iter())),
        |gain| gain >= 1.15,
    );
    shape(
        "… 21.9 % in the mean",
        "the mean, to be half to twice that",
        Box::new(|all| mean(&all[PLANE], CALLBACK)),
        |gain| (1.1095..=1.438).contains(&gain),
    );
    shape(
        "… a communication thread is behind",
        "time with it ÷ of the whole version by polling, the least, to be above 1",
        Box::new(move |all| 1.0 / most(gains(all, PLANE, THREAD).into_iter())),
        |ratio| ratio > 1.0,
    );
    shape(
        "… by 4 %",
        "the same, the largest, to be at most 9/8",
        Box::new(move |all| 1.0 / least(gains(all, PLANE, THREAD).into_iter())),
        |ratio| ratio <= 1.125,
    );
    shape(
        "collectives: polling, callbacks in software and by hardware are equal",
        "time of the slowest of the three ÷ of the fastest, over both FFTs the largest, to be at most 1.05",
        Box::new(|all| {
            let apart = |p: &Timed| {
                let three = || p.ms[POLLING..=HARDWARE].iter().copied();
                most(three()) / least(three())
            };
            most(all[..=CUBE].iter().flatten().map(apart))
        }),
        |ratio| ratio <= 1.05,
    );
    shape(
        "3D FFT: 21.2 % in the mean",
        "time of the whole version ÷ by CB-SW, the mean, to be half to twice that",
        Box::new(|all| mean(&all[CUBE], CALLBACK)),
        |gain| (1.106..=1.424).contains(&gain),
    );
    shape(
        "… its best gain is above that of 2D FFT, 34.5 against 26.8 %",
        "best gain of 3D ÷ of 2D, to be above 1",
        Box::new(move |all| {
            most(gains(all, CUBE, CALLBACK).into_iter()) / most(gains(all, PLANE, CALLBACK).into_iter())
        }),
        |ratio| ratio > 1.0,
    );
    shape(
        "… a communication thread is 9.8 % behind in the mean",
        "time with it ÷ of the whole version by polling, the mean, to be half to twice that",
        Box::new(|all| 1.0 / mean(&all[CUBE], THREAD)),
        |ratio| (1.049..=1.196).contains(&ratio),
    );
    shape(
        "word count: the gain falls with the size",
        "gain with the fewest words ÷ with the most, to be above 1",
        Box::new(move |all| {
            let gains = gains(all, WORDS, CALLBACK);
            gains[0] / gains[gains.len() - 1]
        }),
        |ratio| ratio > 1.0,
    );
    shape(
        "matrix–vector product: gains more than word count",
        "its least gain ÷ the most of word count, to be above 1",
        Box::new(move |all| {
            least(gains(all, PRODUCT, CALLBACK).into_iter()) / most(gains(all, WORDS, CALLBACK).into_iter())
        }),
        |ratio| ratio > 1.0,
    );
    shapes
}

/// The times of some works, on each of some machines.
fn times(
    machines: &[VirtualMachine],
    works: &[(usize, Work)],
    runs: &mut Runs<Run>,
) -> Result<Vec<Vec<Timed>>, Failure> {
    let job = |machine: &VirtualMachine, work: Work, Way { delivery, mode, .. }: &Way| Run {
        machine: machine.clone(),
        delivery: *delivery,
        mode: *mode,
        work,
    };
    let all =
        machines.iter().flat_map(|m| works.iter().flat_map(move |(_, w)| WAYS.iter().map(move |way| job(m, *w, way))));
    let took = runs.all(&all.collect::<Vec<_>>())?;
    let ms = |took: &[runs::Took]| std::array::from_fn(|way| took[way].seconds * 1e3);
    let of_machine = |took: &[runs::Took]| {
        works.iter().zip(took.chunks(WAYS.len())).map(|((size, _), took)| Timed { size: *size, ms: ms(took) }).collect()
    };
    Ok(took.chunks(WAYS.len() * works.len()).map(of_machine).collect())
}

/// The points of all benchmarks on each of some machines: those with bands, or all.
fn points(machines: &[VirtualMachine], banded: bool, runs: &mut Runs<Run>) -> Result<Vec<Figures<Timed>>, Failure> {
    let sizes = |b: &Benchmark| if banded { b.banded } else { b.sizes };
    let processes = machines.first().map_or(MOST, |machine| machine.nodes);
    let works: Vec<(usize, Work)> =
        BENCHMARKS.iter().flat_map(|b| sizes(b).iter().map(|size| (*size, (b.work)(*size, processes)))).collect();
    let cut = |mut all: Vec<Timed>| {
        let cut = |b: &Benchmark| all.drain(..sizes(b).len()).collect();
        BENCHMARKS.iter().map(cut).collect()
    };
    Ok(times(machines, &works, runs)?.into_iter().map(cut).collect())
}

/// The gains by callbacks on fewer processes, with as much work for each.
fn gains(machine: &VirtualMachine, runs: &mut Runs<Run>) -> Result<Vec<Gains>, Failure> {
    let mut jobs = Vec::new();
    for b in &BENCHMARKS {
        for size in b.sizes {
            jobs.extend([WHOLE, CALLBACK].map(|way| {
                let Way { delivery, mode, .. } = WAYS[way];
                Run { machine: machine.clone(), delivery, mode, work: (b.work)(*size, machine.nodes) }
            }));
        }
    }
    let took = runs.all(&jobs)?;
    let mut gains = took.chunks(2).map(|took| (took[0].seconds / took[1].seconds - 1.0) * 100.0);
    let of = |b: &Benchmark| Gains {
        benchmark: b.name,
        processes: machine.nodes,
        percent: gains.by_ref().take(b.sizes.len()).collect(),
    };
    Ok(BENCHMARKS.iter().map(of).collect())
}

/// The points of a shard, where a process has so many. The longest axis is halved first.
fn points_of_shard(shards: u32) -> [usize; 3] {
    let mut points = POINTS;
    for _ in 0..shards.ilog2() {
        let longest = (0..3).rev().max_by_key(|axis| points[*axis]).unwrap_or(0);
        points[longest] /= 2;
    }
    points
}

/// The iterations of Figure 9 on machines of up to `to` processes.
fn iterations(file: &MachineFile, to: u32, runs: &mut Runs<Run>) -> Result<Vec<Iteration>, Failure> {
    let mut cases = Vec::new();
    for (processes, most) in DECOMPOSED {
        for multigrid in [true, false] {
            let shards = (0..).map(|k| 1 << k).take_while(|shards| *shards <= most);
            cases.extend(shards.filter(|_| processes <= to).map(|shards| (processes, multigrid, shards)));
        }
    }
    let run = |(processes, multigrid, shards): (u32, bool, u32), way: &Way| {
        let points = points_of_shard(CORES * shards);
        let work = Work::Gradients { points, shards: CORES * shards, multigrid };
        let mode = if way.delivery == Delivery::Thread { Mode::Partial } else { way.mode };
        let machine = file.machine(Some(processes), processes * CORES * shards);
        Run { machine, delivery: way.delivery, mode, work }
    };
    let jobs: Vec<Run> = cases.iter().flat_map(|case| WAYS.iter().map(|way| run(*case, way))).collect();
    let took = runs.all(&jobs)?;
    let iteration = |((processes, multigrid, shards), took): (&(u32, bool, u32), &[runs::Took])| {
        let machine = file.machine(Some(1), 1);
        // Between two of its tasks a worker tests the requests of its shards: half of those of an exchange, on average.
        let tasks = took[POLLING].tasks as f64 / runs::ITERATIONS as f64 / f64::from(processes * CORES);
        let tests = tasks * 26.0 * f64::from(*shards) / 2.0;
        let ms = std::array::from_fn(|way| took[way].seconds * 1e3);
        let tested_ms = took[POLLING].seconds * 1e3 + tests * machine.costs.poll_ns * 1e-6;
        Iteration { multigrid: *multigrid, processes: *processes, shards: *shards, ms, tested_ms }
    };
    Ok(cases.iter().zip(took.chunks(WAYS.len())).map(iteration).collect())
}

/// The times of iterations by the length of their tasks, with and without rendezvous.
fn late(machine: &VirtualMachine, runs: &mut Runs<Run>) -> Result<Vec<Late>, Failure> {
    let run = |factor: f64, rendezvous: Option<u64>, delivery| {
        let mut machine = VirtualMachine { rendezvous_bytes: rendezvous, ..machine.clone() };
        machine.tasks.values_mut().for_each(|cost| cost.task_ns *= factor);
        let work = Work::Gradients { points: [32; 3], shards: EVEN, multigrid: true };
        Run { machine, delivery, mode: Mode::Partial, work }
    };
    let deliveries = [Delivery::Polling, Delivery::Hardware, Delivery::Thread];
    let of = |factor| [Some(0), None].map(|bytes| deliveries.map(|delivery| run(factor, bytes, delivery)));
    let took = runs.all(&LENGTHS.iter().flat_map(|factor| of(*factor)).flatten().collect::<Vec<_>>())?;
    let late = |(factor, took): (&f64, &[runs::Took])| {
        let ms = [0, 3].map(|from| [0, 1, 2].map(|k| took[from + k].seconds * 1e3));
        Late { factor: *factor, ms }
    };
    Ok(LENGTHS.iter().zip(took.chunks(6)).map(late).collect())
}

/// The part of the time that late polls cost where polling and a communication thread are equally fast, if they are.
fn crossing(late: &[Late]) -> Option<f64> {
    let behind = |late: &Late| (late.ms[0][0] / late.ms[0][2]).ln();
    let cost = |late: &Late| late.ms[0][0] / late.ms[0][1] - 1.0;
    late.windows(2).find_map(|two| {
        let (a, b) = (behind(&two[0]), behind(&two[1]));
        (a * b <= 0.0).then(|| cost(&two[0]) + (cost(&two[1]) - cost(&two[0])) * a / (a - b))
    })
}

/// The time of a transform by what nothing can hide: the first lines, the first blocks, the exchange, and then the last part and
/// its path.
fn predicted(machine: &VirtualMachine, lengths: [usize; 3]) -> f64 {
    let (processes, workers) = (machine.nodes as usize, f64::from(machine.per_node));
    let (operation, byte) = (rate(machine, "operation"), rate(machine, "packed-byte"));
    let values = lengths.iter().map(|n| *n as f64).product::<f64>() / processes as f64;
    let log = |n: usize| (n as f64).log2();
    let first = (1..=processes.isqrt()).rev().find(|n| processes.is_multiple_of(*n)).unwrap_or(1);
    let exchanges: &[(usize, usize)] = match lengths[0] {
        1 => &[(processes, lengths[1])],
        _ => &[(processes / first, lengths[1]), (first, lengths[0])],
    };
    let mut ns = values * 5.0 * log(lengths[2]) * operation / workers;
    for (members, length) in exchanges {
        let bytes = values * 16.0;
        let pieces = (16.0 * workers / *members as f64).ceil().min(workers);
        let groups = (4..=8).rev().find(|g| g * g <= *members && members.is_multiple_of(*g)).unwrap_or(1);
        ns += bytes / *members as f64 * byte;
        ns += (bytes * (*members - 1) as f64 / *members as f64 * machine.network.byte_ns).max(bytes * byte / workers);
        ns += values / (*members as f64 * pieces) * 5.0 * log(length / members) * operation;
        for (count, of) in [(members / groups, groups), (groups, 1)] {
            if count > 1 {
                ns += values / (of as f64 * workers) * (6.0 + 5.0 * log(count)) * operation;
            }
        }
    }
    ns * 1e-6
}

/// All results.
#[derive(Serialize)]
struct Results {
    processes: u32,
    /// For each benchmark.
    all: Figures<Timed>,
    banded: Figures<Timed>,
    bands: Figures<[Vec<Band>; 2]>,
    gains: Vec<Gains>,
    predicted: Vec<Predicted>,
    iterations: Vec<Iteration>,
    late: Vec<Late>,
    draws: usize,
    verdicts: Vec<Verdict>,
}

impl Results {
    /// Does all runs, on up to `to` processes.
    fn make(to: u32, draws: usize, runs: &mut Runs<Run>) -> Result<Self, Failure> {
        let file = MachineFile::load(MACHINE)?;
        let machine = |processes: u32| file.machine(Some(processes), 1);
        let shapes = shapes();
        let few = machine(to.min(FEW));
        let numbers = numbers_as([machine(1)], |_, number| named(number));
        let gain = shapes.iter().take(1).map(|shape| &*shape.of);
        let study = Study::make(numbers, draws, gain, |changes| {
            let changed: Vec<_> = changes.iter().map(|change| change.of(few.clone(), named)).collect();
            points(&changed, true, runs)
        })?;
        let all = points(&[machine(to)], false, runs)?.remove(0);
        let fewer = (4..).map(|k| 1 << k).take_while(|processes| *processes < to).filter(|p| *p >= FEW);
        let mut known = Vec::new();
        for processes in fewer {
            known.extend(gains(&machine(processes), runs)?);
        }
        let percent = |points: &Vec<Timed>| points.iter().map(|p| (p.gain(CALLBACK) - 1.0) * 100.0).collect();
        known.extend(BENCHMARKS.iter().zip(&all).map(|(b, points)| Gains {
            benchmark: b.name,
            processes: to,
            percent: percent(points),
        }));
        let mut predictions = Vec::new();
        for (b, points) in BENCHMARKS.iter().zip(&all).take(CUBE + 1) {
            for point in points {
                let Work::Transform(lengths) = (b.work)(point.size, to) else { continue };
                let predicted_ms = predicted(&machine(to), lengths);
                predictions.push(Predicted {
                    benchmark: b.name,
                    size: point.size,
                    ms: point.ms[HARDWARE],
                    predicted_ms,
                });
            }
        }
        let late = late(&machine(to.min(SOME)), runs)?;
        let iterations = iterations(&file, to, runs)?;
        let mut verdicts: Vec<Verdict> = shapes.iter().map(|shape| study.verdict_on(shape, &all)).collect();
        verdicts.extend(once_each(&known, &predictions, &iterations, &late));
        Ok(Self {
            processes: to,
            banded: study.figures().clone(),
            bands: study.bands(),
            gains: known,
            predicted: predictions,
            iterations,
            late,
            draws,
            verdicts,
            all,
        })
    }

    /// The figures on the most processes, and those with bands.
    fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (at, b) in BENCHMARKS.iter().enumerate() {
            let few = self.processes.min(FEW);
            let title = |processes: u32| format!("{}: {} on {processes} processes, in milliseconds", b.figure, b.name);
            let key = |processes: u32| format!("{},{processes},", quoted(b.name));
            let rows = self.all[at].iter().map(|point| Row::new(point, None)).collect();
            figures.push(Figure { title: title(self.processes), key: key(self.processes), rows });
            let rows = self.banded[at].iter().zip(&self.bands[at]).map(|(point, bands)| Row::new(point, Some(bands)));
            let title = format!("{}, as much for each process as above", title(few));
            figures.push(Figure { title, key: key(few), rows: rows.collect() });
        }
        figures
    }
}

/// Verdicts on results that have no bands.
fn once_each(gains: &[Gains], predicted: &[Predicted], iterations: &[Iteration], late: &[Late]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut verdict = |paper: &str, ratio: &str, value: f64, holds: fn(f64) -> bool| {
        verdicts.push(Verdict::of(paper, ratio, &[value], 0, holds));
    };
    let last = |benchmark: &str| gains.iter().rfind(|g| g.benchmark == benchmark);
    let apart = |g: &Gains| {
        let last = last(g.benchmark).map_or(&[][..], |last| &last.percent);
        most(g.percent.iter().zip(last).map(|(a, b)| (a - b).abs()))
    };
    verdict(
        "trends over 16 to 128 nodes: gains differ by at most 4 points",
        "percentage points between the gain on fewer nodes and on the most, the largest, to be at most 4",
        most(gains.iter().map(apart)),
        |points| points <= 4.0,
    );
    let off = |benchmark: &str| {
        most(predicted.iter().filter(|p| p.benchmark == benchmark).map(|p| (p.ms / p.predicted_ms - 1.0).abs()))
    };
    for (at, holds) in [(PLANE, (|off| off <= 0.08) as fn(f64) -> bool), (CUBE, |off| off <= 0.1)] {
        verdict(
            &format!("not in the paper: the time of the {} follows from the exchange", BENCHMARKS[at].name),
            "time by CB-HW ÷ that of first lines, first block, exchange, last part and its path, farthest from 1",
            off(BENCHMARKS[at].name),
            holds,
        );
    }
    if !iterations.is_empty() {
        let order = |i: &Iteration| (i.ms[HARDWARE] / i.ms[CALLBACK]).max(i.ms[CALLBACK] / i.ms[POLLING]);
        verdict(
            "Figure 9: CB-HW is at least as fast as CB-SW, and that as EV-PO",
            "time of a better way ÷ of the next one, the largest, to be at most 1.01",
            most(iterations.iter().map(order)),
            |ratio| ratio <= 1.01,
        );
    }
    verdict(
        "not in the paper: a communication thread is better where late polls cost more than a core of eight",
        "time by polling ÷ by hardware − 1 where polling and the thread are equal, to be 1/8 within a quarter",
        crossing(late).unwrap_or(f64::NAN),
        |cost| (0.75..=1.25).contains(&(cost * 8.0)),
    );
    verdicts
}

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    let to = args.to.unwrap_or(MOST as usize);
    if !(4..=MOST as usize).contains(&to) || !to.is_power_of_two() {
        let expected = format!("a power of two from 4 to {MOST} processes for this paper");
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    Files::new().fills("--output", Some(&args.output)).check()?;
    let directory = Directory::prepare(&args.output)?;
    let mut runs = Runs::default();
    let results = Results::make(to as u32, args.draws, &mut runs)?;
    let figures = results.figures();
    let pictures = draw(page::plots(&results, &figures))?;
    let written = [
        ("points.csv", points_csv("benchmark,processes,", "size", &CURVES, &figures)),
        ("iterations.csv", page::iterations_csv(&results)),
        ("figures.json", pretty(&results)?),
    ];
    for (name, mode) in [("whole.json", Mode::Whole), ("parts.json", Mode::Partial)] {
        let machine = MachineFile::load(MACHINE)?.machine(Some(SOME), SOME);
        let work = (BENCHMARKS[PLANE].work)(65536, SOME);
        Run { machine, delivery: Delivery::Callback, mode, work }.traced(&args.output.join(name))?;
    }
    report::write(&directory, page::page(&results, &figures, &pictures), &pictures, &written)?;
    runs.progress.finish_and_clear();
    Stdout::lock().write(&page::summary(&results, &figures, &args.output))
}
