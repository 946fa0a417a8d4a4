//! Figures 9 to 13 of "Optimizing Computation-Communication Overlap in Asynchronous Task-Based Programs": tasks that start on a part
//! of a collective, and how processes learn that it has come.

mod mapreduce;
mod page;
mod runs;
mod shapes;

use super::FiguresOptions;
use super::changes::{Band, numbers_as};
use super::curves::draw;
use super::report::{self, Figure, Row, points_csv};
use super::runs::Runs;
use super::study::{self, Figures, Study};
use super::verdicts::Verdict;
use maniple::runtime::VirtualMachine;
use maniple_apps::Mode;
use maniple_command::Failure;
use maniple_command::files::Files;
use maniple_command::machines::file::MachineFile;
use maniple_command::measure::directory::{Directory, pretty};
use maniple_command::output::{Stdout, quoted};
use runs::{Delivery, ITERATIONS, Run, Work};
use serde::Serialize;
use shapes::{once_each, predicted, shapes};
use std::iter::once;

/// The machine. A node of it is a process.
const MACHINE: &str = "marenostrum4";

/// The processes of a computer of the paper.
const ON_A_COMPUTER: u32 = 4;

/// The cores of a process.
const CORES: u32 = 8;

/// The most processes, on 128 computers.
const MOST: u32 = 512;

/// The fewest processes of the paper, on 16 computers.
const FEW: u32 = 64;

/// The processes of runs with bands, of which there are thousands.
const BANDED: u32 = 32;

/// Ways to run a program: its mode, and how a process learns that something has come.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    delivery: Delivery,
    mode: Mode,
}

/// In the order of results.
const WAYS: [Way; 6] = [
    Way { name: "whole, EV-PO", delivery: Delivery::Polling, mode: Mode::Whole },
    Way { name: "EV-PO", delivery: Delivery::Polling, mode: Mode::Partial },
    Way { name: "CB-SW", delivery: Delivery::Callback, mode: Mode::Partial },
    Way { name: "CB-HW", delivery: Delivery::Hardware, mode: Mode::Partial },
    // Communication threads are older than results in parts. Halos need none, so there it is partial.
    Way { name: "CT-DE", delivery: Delivery::Thread, mode: Mode::Whole },
    // What of the gain of callbacks is due to delivery, and not to parts.
    Way { name: "whole, CB-HW", delivery: Delivery::Hardware, mode: Mode::Whole },
];

/// The places of some.
const WHOLE: usize = 0;
const POLLING: usize = 1;
const CALLBACK: usize = 2;
const HARDWARE: usize = 3;
const THREAD: usize = 4;
const WHOLE_HARDWARE: usize = 5;

/// Names of a point's values in files.
const CURVES: [&str; 11] = [
    "whole_ms",
    "ev_po_ms",
    "cb_sw_ms",
    "cb_hw_ms",
    "ct_de_ms",
    "whole_cb_hw_ms",
    "ev_po_gain",
    "cb_sw_gain",
    "cb_hw_gain",
    "ct_de_gain",
    "whole_cb_hw_gain",
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

/// Shards or tasks of a process that are as many for each worker with 7 as with 8.
const EVEN: u32 = 56;

/// The processes of the runs by the length of tasks, and of the traces.
const SOME: u32 = 8;

/// The points of a shard in runs by the length of tasks. Values at its faces are longer than the file's `rendezvous_bytes`.
const LATE: [usize; 3] = [96; 3];

/// Factors on the times of their tasks.
const LENGTHS: [f64; 6] = [0.015625, 0.0625, 0.25, 1.0, 4.0, 16.0];

/// The times of a program.
#[derive(Debug, Clone, Serialize)]
struct Timed {
    size: usize,
    /// Milliseconds, by the ways of [`WAYS`].
    ms: [f64; WAYS.len()],
}

impl Timed {
    /// The whole version's time by polling divided by that of a way.
    fn gain(&self, way: usize) -> f64 {
        self.ms[WHOLE] / self.ms[way]
    }

    /// What parts gain alone: the time of the whole version by hardware divided by that in parts.
    fn parts(&self) -> f64 {
        self.ms[WHOLE_HARDWARE] / self.ms[HARDWARE]
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
    ms: [f64; WAYS.len()],
    /// Milliseconds by polling, if requests are tested between tasks, as TAMPI does.
    tested_ms: f64,
}

impl Iteration {
    /// The paper's benchmark.
    fn name(&self) -> &'static str {
        if self.multigrid { "HPCG" } else { "MiniFE" }
    }

    /// The whole version's time by polling divided by that of a way.
    fn gain(&self, way: usize) -> f64 {
        self.ms[WHOLE] / self.ms[way]
    }

    /// The same, divided by that of TAMPI.
    fn tested_gain(&self) -> f64 {
        self.ms[WHOLE] / self.tested_ms
    }
}

/// Which messages of an iteration move once both processors have looked: those that are long by the file, all, or none.
const RENDEZVOUS: [&str; 3] = ["by the file", "all", "none"];

/// The places of the last two.
const ALL: usize = 1;
const NONE: usize = 2;

/// The times of an iteration by the messages that move once both processors have looked.
#[derive(Debug, Clone, Serialize)]
struct Late {
    /// The factor on the times of tasks.
    factor: f64,
    /// Milliseconds of an iteration by polling, by hardware, and with a communication thread, for each of [`RENDEZVOUS`].
    ms: [[f64; 3]; RENDEZVOUS.len()],
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

/// The milliseconds of some works by some ways, on each of some machines in turn.
fn times(machines: &[VirtualMachine], works: &[Work], ways: &[Way], runs: &mut Runs<Run>) -> Result<Vec<f64>, Failure> {
    let mut jobs = Vec::new();
    for machine in machines {
        for work in works {
            let run = |Way { delivery, mode, .. }: &Way| Run {
                machine: machine.clone(),
                delivery: *delivery,
                mode: *mode,
                work: *work,
            };
            jobs.extend(ways.iter().map(run));
        }
    }
    Ok(runs.all(&jobs)?.iter().map(|took| took.seconds * 1e3).collect())
}

/// The points of all benchmarks on each of some machines: those with bands, or all.
fn points(machines: &[VirtualMachine], banded: bool, runs: &mut Runs<Run>) -> Result<Vec<Figures<Timed>>, Failure> {
    let sizes = |b: &Benchmark| if banded { b.banded } else { b.sizes };
    let processes = machines.first().map_or(MOST, |machine| machine.nodes);
    let works: Vec<Work> =
        BENCHMARKS.iter().flat_map(|b| sizes(b).iter().map(|size| (b.work)(*size, processes))).collect();
    let ms = times(machines, &works, &WAYS, runs)?;
    let mut ms = ms.chunks(WAYS.len()).map(|ms| std::array::from_fn(|way| ms[way]));
    let mut of = |b: &Benchmark| sizes(b).iter().zip(&mut ms).map(|(size, ms)| Timed { size: *size, ms }).collect();
    Ok(machines.iter().map(|_| BENCHMARKS.iter().map(&mut of).collect()).collect())
}

/// The gains by callbacks on fewer processes, with as much work for each.
fn gains(machine: &VirtualMachine, runs: &mut Runs<Run>) -> Result<Vec<Gains>, Failure> {
    let processes = machine.nodes;
    let works = BENCHMARKS.iter().flat_map(|b| b.sizes.iter().map(|size| (b.work)(*size, processes)));
    let ms = times(
        std::slice::from_ref(machine),
        &works.collect::<Vec<_>>(),
        &[WHOLE, CALLBACK].map(|way| WAYS[way]),
        runs,
    )?;
    let mut gains = ms.chunks(2).map(|ms| (ms[0] / ms[1] - 1.0) * 100.0);
    let mut of = |b: &Benchmark| gains.by_ref().take(b.sizes.len()).collect();
    Ok(BENCHMARKS.iter().map(|b| Gains { benchmark: b.name, processes, percent: of(b) }).collect())
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
    let run = |(processes, multigrid, shards): (u32, bool, u32), way: &Way, iterations: usize| {
        let points = points_of_shard(CORES * shards);
        let work = Work::Gradients { points, shards: CORES * shards, multigrid, iterations };
        let mode = if way.delivery == Delivery::Thread { Mode::Partial } else { way.mode };
        let machine = file.machine(Some(processes), processes * CORES * shards);
        Run { machine, delivery: way.delivery, mode, work }
    };
    // The last run is for the tasks of an iteration.
    let runs_of = |case: &(u32, bool, u32)| {
        let one = run(*case, &WAYS[POLLING], ITERATIONS - 1);
        WAYS.map(|way| run(*case, &way, ITERATIONS)).into_iter().chain(once(one))
    };
    let took = runs.all(&cases.iter().flat_map(runs_of).collect::<Vec<_>>())?;
    let poll_ns = file.machine(Some(1), 1).costs.poll_ns;
    let iteration = |(case, took): (&(u32, bool, u32), &[runs::Took])| {
        let (processes, multigrid, shards) = *case;
        // Between two of its tasks a worker tests the requests of its shards: half of those of an exchange, on average.
        let workers = f64::from(processes * CORES);
        let tasks = (took[POLLING].tasks - took[WAYS.len()].tasks) as f64 / workers;
        let Run { machine, mode, .. } = run(*case, &WAYS[POLLING], ITERATIONS);
        let problem = runs::problem(&machine, mode, points_of_shard(CORES * shards), CORES * shards);
        let requests = problem.neighbours() as f64 / workers;
        let ms = std::array::from_fn(|way| took[way].seconds * 1e3);
        let tested_ms = ms[POLLING] + tasks * requests / 2.0 * poll_ns * 1e-6;
        Iteration { multigrid, processes, shards, ms, tested_ms }
    };
    Ok(cases.iter().zip(took.chunks(WAYS.len() + 1)).map(iteration).collect())
}

/// The times of iterations by the length of their tasks.
fn late(machine: &VirtualMachine, runs: &mut Runs<Run>) -> Result<Vec<Late>, Failure> {
    let machines = |factor: &f64| {
        let mut machine = machine.clone();
        machine.tasks.values_mut().for_each(|cost| cost.task_ns *= factor);
        [machine.rendezvous_bytes, Some(0), None]
            .map(|rendezvous_bytes| VirtualMachine { rendezvous_bytes, ..machine.clone() })
    };
    let work = Work::Gradients { points: LATE, shards: EVEN, multigrid: true, iterations: ITERATIONS };
    let ways = [POLLING, HARDWARE, THREAD].map(|way| Way { mode: Mode::Partial, ..WAYS[way] });
    let machines: Vec<_> = LENGTHS.iter().flat_map(machines).collect();
    let ms = times(&machines, &[work], &ways, runs)?;
    let late = |(factor, ms): (&f64, &[f64])| Late {
        factor: *factor,
        ms: [0, 3, 6].map(|from| [0, 1, 2].map(|way| ms[from + way])),
    };
    Ok(LENGTHS.iter().zip(ms.chunks(9)).map(late).collect())
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
    fn make(file: &MachineFile, to: u32, draws: usize, runs: &mut Runs<Run>) -> Result<Self, Failure> {
        let machine = |processes: u32| file.machine(Some(processes), 1);
        let shapes = shapes();
        let few = machine(to.min(BANDED));
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
        let iterations = iterations(file, to, runs)?;
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
            let few = self.processes.min(BANDED);
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
    let file = MachineFile::load(MACHINE)?;
    let results = Results::make(&file, to as u32, args.draws, &mut runs)?;
    let figures = results.figures();
    let pictures = draw(page::plots(&results, &figures))?;
    let written = [
        ("points.csv", points_csv("benchmark,processes,", "size", &CURVES, &figures)),
        ("iterations.csv", page::iterations_csv(&results)),
        ("figures.json", pretty(&results)?),
    ];
    for (name, mode) in [("whole.json", Mode::Whole), ("parts.json", Mode::Partial)] {
        let machine = file.machine(Some(SOME), SOME);
        let work = (BENCHMARKS[PLANE].work)(65536, SOME);
        Run { machine, delivery: Delivery::Callback, mode, work }.traced(&args.output.join(name))?;
    }
    report::write(&directory, page::page(&results, &figures, &pictures), &pictures, &written)?;
    runs.progress.finish_and_clear();
    Stdout::lock().write(&page::summary(&results, &figures, &args.output))
}
