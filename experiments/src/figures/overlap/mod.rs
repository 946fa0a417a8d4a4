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
use runs::{Delivery, Run, Work};
use serde::Serialize;
use shapes::{once_each, predicted, shapes};

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
    /// Milliseconds by polling, if requests are tested between tasks, as TAMPI does.
    tested_ms: f64,
}

impl Iteration {
    /// The paper's benchmark.
    fn name(&self) -> &'static str {
        if self.multigrid { "HPCG" } else { "MiniFE" }
    }
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
    let poll_ns = file.machine(Some(1), 1).costs.poll_ns;
    let iteration = |((processes, multigrid, shards), took): (&(u32, bool, u32), &[runs::Took])| {
        // Between two of its tasks a worker tests the requests of its shards: half of those of an exchange, on average.
        let tasks = took[POLLING].tasks as f64 / runs::ITERATIONS as f64 / f64::from(processes * CORES);
        let tests = tasks * 26.0 * f64::from(*shards) / 2.0;
        let ms = std::array::from_fn(|way| took[way].seconds * 1e3);
        let tested_ms = took[POLLING].seconds * 1e3 + tests * poll_ns * 1e-6;
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
