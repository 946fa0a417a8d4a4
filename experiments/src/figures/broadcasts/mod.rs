//! Figures 2, 4 and 5 of "Using Dynamic Broadcasts to improve Task-Based Runtime Performances": broadcasts that are found in a flow
//! of tasks.

mod page;
mod runs;

use super::FiguresOptions;
use super::changes::{Band, numbers_as};
use super::curves::draw;
use super::report::{self, Figure, Row, points_csv};
use super::runs::Runs;
use super::study::{self, Figures, Ratio, Shape, Study};
use super::verdicts::Verdict;
use maniple::runtime::{UnderWay, VirtualMachine};
use maniple_command::Failure;
use maniple_command::files::Files;
use maniple_command::machines::file::MachineFile;
use maniple_command::measure::directory::{Directory, pretty};
use maniple_command::output::{Stdout, quoted};
use runs::{Run, TILE, Took, Way, Work, needed};
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures 4 and 5: a machine, its nodes, and the largest gain in the paper.
struct Cluster {
    machine: &'static str,
    nodes: u32,
    gain: f64,
    /// The figure in the paper.
    figure: &'static str,
}

/// In the order of their nodes.
const CLUSTERS: [Cluster; 3] = [
    Cluster { machine: "plafrim", nodes: 16, gain: 1.25, figure: "Figure 4" },
    Cluster { machine: "inti", nodes: 64, gain: 1.20, figure: "Figure 5, left" },
    Cluster { machine: "inti", nodes: 100, gain: 1.30, figure: "Figure 5, right" },
];

/// The machine of Figure 2.
const FIGURE_2: &str = "inti";

/// Rows of tiles of the matrices.
const TILES: [usize; 12] = [10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 140, 200];

/// The largest matrices with bands.
const BANDED: usize = 60;

/// The nodes that get a tile in Figure 2.
const RECIPIENTS: [usize; 13] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 99];

/// Windows, and the rows of tiles and the nodes of `inti` with which they are compared.
const WINDOWS: [u32; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
const WITH_WINDOWS: (usize, u32) = (60, 64);

/// The window in all other runs.
const WINDOW: u32 = maniple::runtime::Top::WINDOW;

/// The ways to send, in the order of results.
const WAYS: [Way; 6] = [
    Way { name: "one to each peer, linear", tree: false, under_way: UnderWay::ToEachPeer, by_priority: true },
    Way { name: "one to each peer, binomial", tree: true, under_way: UnderWay::ToEachPeer, by_priority: true },
    Way { name: "one, linear", tree: false, under_way: UnderWay::InAll(1), by_priority: true },
    Way { name: "one, binomial", tree: true, under_way: UnderWay::InAll(1), by_priority: true },
    Way { name: "one, linear, no priorities", tree: false, under_way: UnderWay::InAll(1), by_priority: false },
    Way { name: "one, binomial, no priorities", tree: true, under_way: UnderWay::InAll(1), by_priority: false },
];

/// The places of the first four.
const LINEAR: usize = 0;
const BINOMIAL: usize = 1;
const PACED: usize = 2;
const PACED_BINOMIAL: usize = 3;

/// The ways of Figure 2, by their places in [`WAYS`].
const SENT: [usize; 4] = [PACED, PACED_BINOMIAL, LINEAR, BINOMIAL];

/// Names of its values in files.
const SENT_CURVES: [&str; 4] = ["linear_ms", "binomial_ms", "peer_linear_ms", "peer_binomial_ms"];

/// What a factorisation's time gains, in the order of results behind the times: the first way's time divided by another's.
const GAINS: [(&str, usize); 3] =
    [("gain of the tree", BINOMIAL), ("gain of pacing", PACED), ("gain of both", PACED_BINOMIAL)];

/// The place of the first of them among a point's values.
const GAIN: usize = WAYS.len();

/// Names of a factorisation's values in files.
const CURVES: [&str; 9] = [
    "linear_ms",
    "binomial_ms",
    "paced_linear_ms",
    "paced_binomial_ms",
    "paced_linear_without_priorities_ms",
    "paced_binomial_without_priorities_ms",
    "gain_of_the_tree",
    "gain_of_pacing",
    "gain_of_both",
];

/// The time of a tile on its way to several nodes.
#[derive(Debug, Clone, Serialize)]
struct Sent {
    recipients: usize,
    /// Milliseconds, by the ways of [`SENT`].
    ms: [f64; 4],
}

impl study::Point for Sent {
    fn at(&self) -> usize {
        self.recipients
    }

    fn values(&self) -> Vec<f64> {
        self.ms.into()
    }
}

/// The times of a factorisation.
#[derive(Debug, Clone, Serialize)]
struct Factored {
    tiles: usize,
    /// Milliseconds, by the ways of [`WAYS`].
    ms: [f64; 6],
    /// The most recipients of a message.
    most: usize,
}

impl study::Point for Factored {
    fn at(&self) -> usize {
        self.tiles
    }

    fn values(&self) -> Vec<f64> {
        let gains = GAINS.map(|(_, way)| self.ms[LINEAR] / self.ms[way]);
        self.ms.into_iter().chain(gains).collect()
    }
}

impl Factored {
    fn gain(&self) -> f64 {
        self.ms[LINEAR] / self.ms[BINOMIAL]
    }
}

/// The share of recipients that were found before a message left, so that they could join it.
#[derive(Debug, Clone, Serialize)]
struct Known {
    window: u32,
    in_time: f64,
    ms: f64,
}

/// The name under which a number of a machine is changed. Some are changed together.
fn named(number: &str) -> String {
    let table = number.split('.').next().unwrap_or_default();
    match table {
        "network" if number.ends_with("byte_ns") => "bytes on the network",
        "network" => "latency and messages on the network",
        "tasks" | "other_tasks" => "kernels",
        _ => "the runtime",
    }
    .into()
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

/// The shapes of Figure 2.
fn shapes_of_figure_2() -> Vec<Shape<Sent>> {
    let shape = |paper: &str, ratio: &str, of: Box<Ratio<Sent>>, holds| {
        let (paper, ratio) = (paper.into(), ratio.into());
        Shape { paper, ratio, numbers: &[""], of, holds }
    };
    let alone = |all: &Figures<Sent>, way: usize| all[0][0].ms[way];
    vec![
        shape(
            "linear broadcasts take n times as long as one message",
            "time of a linear broadcast to n nodes, one message at a time, ÷ n messages, farthest from 1, to be within 5 %",
            Box::new(move |all| {
                let off = |p: &Sent| p.ms[0] / (p.recipients as f64 * alone(all, 0)) - 1.0;
                1.0 + all[0].iter().map(off).fold(0.0, |far: f64, off| if off.abs() > far.abs() { off } else { far })
            }),
            |ratio| (ratio - 1.0).abs() <= 0.05,
        ),
        shape(
            "dynamic broadcasts are logarithmic",
            "time of a binomial broadcast to n nodes, one message at a time, ÷ ⌈log₂(n+1)⌉ messages, the largest, to be at most 1.05",
            Box::new(move |all| {
                let rounds = |n: usize| f64::from(usize::BITS - n.leading_zeros());
                most(all[0].iter().map(|p| p.ms[1] / (rounds(p.recipients) * alone(all, 1))))
            }),
            |ratio| ratio <= 1.05,
        ),
    ]
}

/// The shapes of Figures 4 and 5.
fn shapes() -> Vec<Shape<Factored>> {
    let mut shapes: Vec<Shape<Factored>> = Vec::new();
    let mut shape = |paper: String, ratio: &str, of: Box<Ratio<Factored>>, holds| {
        shapes.push(Shape { paper, ratio: ratio.into(), numbers: &[""], of, holds });
    };
    let gain = |all: &Figures<Factored>, cluster: usize| most(all[cluster].iter().map(Factored::gain));
    // Half the paper's percentage to twice that.
    let near: [fn(f64) -> bool; 3] =
        [|gain| (1.125..=1.5).contains(&gain), |gain| (1.1..=1.4).contains(&gain), |gain| (1.15..=1.6).contains(&gain)];
    for (at, (cluster, near)) in CLUSTERS.iter().zip(near).enumerate() {
        let Cluster { machine, nodes, gain: paper, .. } = cluster;
        shape(
            format!("{nodes} nodes of {machine}: dynamic broadcasts gain up to {:.0} %", (paper - 1.0) * 100.0),
            "time of linear ÷ binomial broadcasts, one to each peer under way, the largest, to be half to twice that",
            Box::new(move |all| gain(all, at)),
            near,
        );
    }
    shape(
        "on inti, more nodes gain more".into(),
        "largest gain on 100 nodes ÷ on 64, to be above 1",
        Box::new(move |all| gain(all, 2) / gain(all, 1)),
        |ratio| ratio > 1.0,
    );
    shape(
        "not in the paper, where 16 nodes of plafrim gain more: 64 nodes of inti gain more".into(),
        "largest gain on 64 nodes ÷ on 16, to be above 1",
        Box::new(move |all| gain(all, 1) / gain(all, 0)),
        |ratio| ratio > 1.0,
    );
    let each = |all: &Figures<Factored>, of: fn(&[f64; 6]) -> f64| most(all.iter().flatten().map(|p| of(&p.ms)));
    shape(
        "not in the paper: one message at a time, by priority, does without trees".into(),
        "time of linear broadcasts so ÷ the shortest of the first four, the largest, to be at most 1.05",
        Box::new(move |all| each(all, |s| s[PACED] / s[..4].iter().copied().fold(f64::INFINITY, f64::min))),
        |ratio| ratio <= 1.05,
    );
    shape(
        "not in the paper: trees then do no harm".into(),
        "time of binomial ÷ linear broadcasts, one message at a time, the largest, to be at most 1.02",
        Box::new(move |all| each(all, |s| s[PACED_BINOMIAL] / s[PACED])),
        |ratio| ratio <= 1.02,
    );
    shape(
        "not in the paper: priorities do no harm".into(),
        "time with ÷ without priorities, one message at a time, the largest, to be at most 1.01",
        Box::new(move |all| each(all, |s| (s[PACED] / s[4]).max(s[PACED_BINOMIAL] / s[5]))),
        |ratio| ratio <= 1.01,
    );
    shapes
}

/// The machines of the study.
struct Machines(BTreeMap<&'static str, MachineFile>);

impl Machines {
    fn load() -> Result<Self, Failure> {
        let load = |name: &'static str| Ok((name, MachineFile::load(name)?));
        CLUSTERS.iter().map(|cluster| load(cluster.machine)).collect::<Result<_, _>>().map(Self)
    }

    fn of(&self, name: &str, nodes: u32) -> VirtualMachine {
        self.0[name].machine(Some(nodes), 1)
    }

    fn numbers(&self, names: &[&str]) -> Vec<(String, f64)> {
        numbers_as(names.iter().map(|name| self.of(name, 1)), |_, number| named(number))
    }
}

/// The points of Figure 2 on each of some machines.
fn send(machines: &[VirtualMachine], runs: &mut Runs<Run>) -> Result<Vec<Figures<Sent>>, Failure> {
    let job = |machine: &VirtualMachine, n: usize, way: usize| Run {
        machine: VirtualMachine { nodes: n as u32 + 1, ..machine.clone() },
        work: Work::Tile(n),
        way: WAYS[way],
    };
    let of_machine = |machine| RECIPIENTS.iter().flat_map(move |&n| SENT.map(|way| job(machine, n, way)));
    let took = runs.all(&machines.iter().flat_map(of_machine).collect::<Vec<_>>())?;
    let point = |(recipients, took): (&usize, &[Took])| Sent {
        recipients: *recipients,
        ms: [0, 1, 2, 3].map(|way| took[way].seconds * 1e3),
    };
    let of_machine = |took: &[Took]| vec![RECIPIENTS.iter().zip(took.chunks(SENT.len())).map(point).collect()];
    Ok(took.chunks(SENT.len() * RECIPIENTS.len()).map(of_machine).collect())
}

/// The points of Figures 4 and 5, for matrices of these sizes, on each of some sets of machines.
fn factor(
    sets: &[Vec<VirtualMachine>],
    sizes: &[usize],
    runs: &mut Runs<Run>,
) -> Result<Vec<Figures<Factored>>, Failure> {
    let job = |machine: &VirtualMachine, tiles, way| Run {
        machine: machine.clone(),
        work: Work::Cholesky { tiles, window: WINDOW },
        way,
    };
    let of_size = |machine, tiles| WAYS.iter().map(move |way| job(machine, tiles, *way));
    let of_machine = |machine| sizes.iter().flat_map(move |&tiles| of_size(machine, tiles));
    let took = runs.all(&sets.iter().flatten().flat_map(of_machine).collect::<Vec<_>>())?;
    let mut took = took.chunks(WAYS.len());
    let mut point = |&tiles: &usize| {
        let took = took.next().unwrap_or_default();
        let mut ms = [f64::NAN; 6];
        ms.iter_mut().zip(took).for_each(|(ms, took)| *ms = took.seconds * 1e3);
        Factored { tiles, ms, most: took.iter().map(|took| took.most).max().unwrap_or(0) }
    };
    let figures = sets.iter().map(|set| set.iter().map(|_| sizes.iter().map(&mut point).collect()).collect());
    Ok(figures.collect())
}

/// The shares of recipients that are found in time, over windows.
fn windows(machine: &VirtualMachine, tiles: usize, runs: &mut Runs<Run>) -> Result<Vec<Known>, Failure> {
    let job = |window| Run { machine: machine.clone(), work: Work::Cholesky { tiles, window }, way: WAYS[BINOMIAL] };
    let took = runs.all(&WINDOWS.map(job))?;
    let known = |(&window, took): (&u32, Took)| {
        // Of those that are found late, each gets a message of its own, unless others join it.
        let in_time = 1.0 - took.late as f64 / needed(tiles, machine.nodes) as f64;
        Known { window, in_time, ms: took.seconds * 1e3 }
    };
    Ok(WINDOWS.iter().zip(took).map(known).collect())
}

/// All results.
#[derive(Serialize)]
struct Results {
    sent: Vec<Sent>,
    sent_bands: Vec<[Vec<Band>; 2]>,
    /// For each cluster.
    factored: Figures<Factored>,
    factored_bands: Figures<[Vec<Band>; 2]>,
    windows: Vec<Known>,
    with_windows: (usize, u32),
    draws: usize,
    verdicts: Vec<Verdict>,
}

impl Results {
    /// Does all runs, with matrices of up to `to` rows of tiles.
    fn make(to: usize, draws: usize, runs: &mut Runs<Run>) -> Result<Self, Failure> {
        let machines = Machines::load()?;
        let sizes: Vec<usize> = TILES.iter().copied().filter(|tiles| *tiles <= to).collect();
        let (banded, large) = sizes.split_at(sizes.partition_point(|tiles| *tiles <= BANDED));
        let (two, all) = (shapes_of_figure_2(), shapes());
        let own = machines.of(FIGURE_2, 1);
        let sent = Study::make(machines.numbers(&[FIGURE_2]), draws, two.iter().map(|s| &*s.of), |changes| {
            send(&changes.iter().map(|change| change.of(own.clone(), named)).collect::<Vec<_>>(), runs)
        })?;
        let set: Vec<VirtualMachine> = CLUSTERS.iter().map(|c| machines.of(c.machine, c.nodes)).collect();
        let names: Vec<&str> = machines.0.keys().copied().collect();
        let gains = all.iter().take(CLUSTERS.len()).map(|s| &*s.of);
        let study = Study::make(machines.numbers(&names), draws, gains, |changes| {
            let changed = changes.iter().map(|change| set.iter().map(|own| change.of(own.clone(), named)).collect());
            factor(&changed.collect::<Vec<_>>(), banded, runs)
        })?;
        let mut factored = study.figures().clone();
        let more = factor(std::slice::from_ref(&set), large, runs)?.remove(0);
        factored.iter_mut().zip(more).for_each(|(points, more)| points.extend(more));
        let (tiles, nodes) = (WITH_WINDOWS.0.min(to), WITH_WINDOWS.1);
        let verdicts = two.iter().map(|shape| sent.verdict(shape)).chain(all.iter().map(|shape| study.verdict(shape)));
        Ok(Self {
            sent: sent.figures()[0].clone(),
            sent_bands: sent.bands().remove(0),
            factored_bands: study.bands(),
            windows: windows(&machines.of(FIGURE_2, nodes), tiles, runs)?,
            with_windows: (tiles, nodes),
            draws,
            verdicts: verdicts.collect(),
            factored,
        })
    }

    fn figure_2(&self) -> Figure {
        let rows = self.sent.iter().zip(&self.sent_bands).map(|(point, bands)| Row::new(point, Some(bands)));
        let title = format!("Figure 2: {} bytes to n nodes of {FIGURE_2}, in milliseconds", runs::BYTES);
        Figure { title, key: format!("{},2,", quoted(FIGURE_2)), rows: rows.collect() }
    }

    /// The figure of each cluster.
    fn figures(&self) -> Vec<Figure> {
        let figure = |(at, cluster): (usize, &Cluster)| {
            let Cluster { machine, nodes, figure, .. } = cluster;
            let bands = self.factored_bands[at].iter().map(Some).chain(std::iter::repeat(None));
            let rows = self.factored[at].iter().zip(bands).map(|(point, bands)| Row::new(point, bands));
            let title = format!("{figure}: a Cholesky factorisation on {nodes} nodes of {machine}, in milliseconds");
            Figure { title, key: format!("{},{nodes},", quoted(machine)), rows: rows.collect() }
        };
        CLUSTERS.iter().enumerate().map(figure).collect()
    }
}

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    let most = TILES[TILES.len() - 1];
    let to = args.to.unwrap_or(most);
    if !(TILES[0]..=most).contains(&to) {
        let expected = format!("{} to {most} rows of tiles for this paper", TILES[0]);
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    Files::new().fills("--output", Some(&args.output)).check()?;
    let directory = Directory::prepare(&args.output)?;
    let mut runs = Runs::default();
    let results = Results::make(to, args.draws, &mut runs)?;
    let (two, figures) = (results.figure_2(), results.figures());
    let pictures = draw(page::plots(&results, &two, &figures))?;
    let windows = results.windows.iter().map(|w| format!("{},{:?},{:?}\n", w.window, w.in_time, w.ms));
    let written = [
        ("broadcasts.csv", points_csv("machine,figure,", "recipients", &SENT_CURVES, std::slice::from_ref(&two))),
        ("points.csv", points_csv("machine,nodes,", "tiles", &CURVES, &figures)),
        ("windows.csv", std::iter::once("window,in_time,ms\n".to_owned()).chain(windows).collect()),
        ("figures.json", pretty(&results)?),
    ];
    report::write(&directory, page::page(&results, &two, &figures, &pictures), &pictures, &written)?;
    runs.progress.finish_and_clear();
    Stdout::lock().write(&page::summary(&results, &two, &figures, &args.output))
}
