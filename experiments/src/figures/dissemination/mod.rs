//! The figures of "Adaption of the n-way dissemination algorithm for GASPI split-phase allreduce": barriers and allreduces by
//! dissemination and by MPI's algorithms.

mod call;
mod page;
mod targets;

use super::FiguresOptions;
use super::changes::{Band, Change, numbers_as};
use super::curves::{self, Curve, ORANGE, PURPLE, Plot};
use super::report::{self, Figure, Row, fields, points_csv};
use super::runs::{Runs, machine_of};
use super::study::{self, Figures, Share, Study};
use super::verdicts::Verdict;
use call::{Job, Operation};
use maniple::collectives::{Algorithm, Goal};
use maniple_command::Failure;
use maniple_command::files::Files;
use maniple_command::machines::file::{MachineFile, under_mpi};
use maniple_command::measure::directory::{Directory, pretty};
use maniple_command::measure::plot::{BLUE, GREEN, VERMILION};
use maniple_command::measure::stats::microseconds;
use maniple_command::output::{Stdout, quoted};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use targets::Targets;

/// The most messages a round, as in the paper.
pub const WAYS: usize = 7;

/// The largest number of nodes.
const MOST: usize = 512;

/// A cluster of the paper.
struct Cluster {
    /// The machine, by its name.
    machine: &'static str,
    /// The paper's numbers of nodes, read off the axes of its figures.
    counts: &'static [usize],
}

/// The places of the clusters in lists.
pub const FDR: usize = 0;
/// The second one.
pub const QDR: usize = 1;

/// Both clusters.
const CLUSTERS: [Cluster; 2] = [
    Cluster { machine: "gpi-fdr", counts: &[2, 4, 8, 12, 16, 24, 32, 48, 64, 72, 80, 96] },
    Cluster { machine: "gpi-qdr", counts: &[2, 4, 8, 12, 16, 20, 24, 28, 32, 36] },
];

/// The paper's figures: a cluster, the operation, and the title. The figures of a cluster are together.
const FIGURES: [(usize, Operation, &str); 5] = [
    (FDR, Operation::Barrier, "Figure 3: a barrier on FDR"),
    (FDR, Operation::Sum(1), "Figure 5: an allreduce of 1 element on FDR"),
    (QDR, Operation::Barrier, "Figure 2: a barrier on QDR"),
    (QDR, Operation::Sum(1), "Figure 4: an allreduce of 1 element on QDR"),
    (QDR, Operation::Sum(255), "Figure 4: an allreduce of 255 elements on QDR"),
];

/// The names of results, in the order of columns.
const NAMES: [&str; 3] = ["dissemination", "MPI", "MPI ÷ dissemination"];

/// The numbers of nodes of a cluster, up to `to`.
fn counts(cluster: usize, to: usize) -> impl Iterator<Item = usize> {
    CLUSTERS[cluster].counts.iter().copied().filter(move |&nodes| nodes <= to)
}

/// What belongs to each figure, in a list for each cluster.
fn by_cluster<T>(mut of_figures: Vec<T>) -> [Vec<T>; 2] {
    let second = of_figures.split_off(FIGURES.iter().filter(|(cluster, ..)| *cluster == FDR).count());
    [of_figures, second]
}

/// The n-way dissemination of the paper for `nodes` nodes: its five cases, or Bruck and Ho's where these do not exist.
pub fn ways(nodes: usize, n: usize) -> Algorithm {
    Algorithm::FiveCases(n as u8).taken_for(&Goal::allreduce(nodes as u32, 1))
}

/// The algorithm that stands for MPI: recursive doubling for an allreduce of up to 2 KiB, as in MPICH, MVAPICH and Open MPI, and
/// dissemination for a barrier, as in MPICH and, for numbers that are no power of two, in Open MPI.
fn of_mpi(operation: Operation) -> Algorithm {
    match operation {
        Operation::Barrier => Algorithm::Dissemination(1),
        Operation::Sum(_) | Operation::FloatSum => Algorithm::RecursiveDoubling,
    }
}

/// The times of an operation on a number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The number of nodes.
    pub nodes: usize,
    /// Microseconds with 1 to 7 messages a round.
    pub ways_us: [f64; WAYS],
    /// Microseconds under MPI.
    pub mpi_us: f64,
}

impl Point {
    /// The best number of messages a round.
    pub fn best(&self) -> usize {
        (1..=WAYS).min_by(|a, b| self.ways_us[a - 1].total_cmp(&self.ways_us[b - 1])).unwrap_or(1)
    }

    /// Microseconds with the best number.
    pub fn us(&self) -> f64 {
        self.ways_us[self.best() - 1]
    }

    /// How many times longer MPI takes.
    pub fn gain(&self) -> f64 {
        self.mpi_us / self.us()
    }

    /// How many times longer it takes with one message a round.
    pub fn gain_of_ways(&self) -> f64 {
        self.ways_us[0] / self.us()
    }
}

impl study::Point for Point {
    fn at(&self) -> usize {
        self.nodes
    }

    /// Dissemination, MPI, and the gain.
    fn values(&self) -> Vec<f64> {
        vec![self.us(), self.mpi_us, self.gain()]
    }
}

/// The geometric mean.
fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    (values.clone().map(f64::ln).sum::<f64>() / values.count() as f64).exp()
}

/// All times: for each figure, the times of each number of nodes.
pub type Times = Figures<Point>;

/// The points of an operation on a cluster.
pub fn of(times: &Times, cluster: usize, operation: Operation) -> &[Point] {
    let at = FIGURES.iter().position(|(on, called, _)| (*on, *called) == (cluster, operation));
    at.map_or(&[], |at| &times[at])
}

/// The mean gain over the numbers of nodes.
fn gain(times: &Times, cluster: usize, operation: Operation) -> f64 {
    mean(of(times, cluster, operation).iter().map(Point::gain))
}

/// The mean gain of more messages a round in a barrier.
fn gain_of_ways(times: &Times, cluster: usize) -> f64 {
    mean(of(times, cluster, Operation::Barrier).iter().map(Point::gain_of_ways))
}

/// The points of a barrier on FDR and on QDR, with equally many nodes.
pub fn on_both(times: &Times) -> impl Iterator<Item = [&Point; 2]> + Clone {
    let [fdr, qdr] = [FDR, QDR].map(|cluster| of(times, cluster, Operation::Barrier));
    fdr.iter().filter_map(move |p| Some([p, qdr.iter().find(|q| q.nodes == p.nodes)?]))
}

/// The mean of a value of a barrier on FDR by that on QDR, with equally many nodes.
fn fdr_by_qdr(times: &Times, value: fn(&Point) -> f64) -> f64 {
    mean(on_both(times).map(|[fdr, qdr]| value(fdr) / value(qdr)))
}

/// What the page says about a shape that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The two clusters.
    Clusters,
    /// Barriers and allreduces.
    Operations,
    /// Allreduces of 1 and of 255 elements.
    Elements,
}

/// A shape of the paper's figures: a ratio that is more than a bound, or near to 1.
pub struct Shape {
    paper: &'static str,
    ratio: &'static str,
    /// The machines whose times are in it.
    machines: &'static [&'static str],
    of: fn(&Times) -> f64,
    holds: fn(f64) -> bool,
    /// What is to say if it is not there.
    pub difference: Option<Difference>,
}

impl Shape {
    fn in_study(&self) -> study::Shape<Point> {
        let Self { paper, ratio, machines, of, holds, .. } = *self;
        study::Shape { paper: paper.into(), ratio: ratio.into(), numbers: machines, of: Box::new(of), holds }
    }
}

/// Whether one side takes longer than the other.
fn more(ratio: f64) -> bool {
    ratio > 1.0
}

/// Whether both sides are within a tenth.
fn equal(ratio: f64) -> bool {
    (1.0 / 1.1..1.1).contains(&ratio)
}

/// The shapes that the paper describes.
pub const SHAPES: [Shape; 10] = [
    Shape {
        paper: "larger n pays on FDR (§V, Figure 3)",
        ratio: "barrier on FDR, n = 1 ÷ best n",
        machines: &["gpi-fdr"],
        of: |t| gain_of_ways(t, FDR),
        holds: more,
        difference: None,
    },
    Shape {
        paper: "a higher n can be chosen on FDR than on QDR",
        ratio: "barrier, n = 1 ÷ best n, FDR ÷ QDR",
        machines: &["gpi-fdr", "gpi-qdr"],
        of: |t| fdr_by_qdr(t, Point::gain_of_ways),
        holds: more,
        difference: Some(Difference::Clusters),
    },
    Shape {
        paper: "the barrier takes less time on FDR, about 5 µs instead of 8",
        ratio: "barrier, best n, FDR ÷ QDR",
        machines: &["gpi-fdr", "gpi-qdr"],
        of: |t| fdr_by_qdr(t, Point::us),
        holds: |ratio| ratio < 1.0,
        difference: None,
    },
    Shape {
        paper: "a barrier is much faster than MPI's on FDR (Figure 3)",
        ratio: "barrier on FDR, MPI ÷ best n",
        machines: &["gpi-fdr"],
        of: |t| gain(t, FDR, Operation::Barrier),
        holds: more,
        difference: None,
    },
    Shape {
        paper: "on QDR it is not much faster, so it gains more on FDR (Figures 2, 3)",
        ratio: "barrier, MPI ÷ best n, FDR ÷ QDR",
        machines: &["gpi-fdr", "gpi-qdr"],
        of: |t| fdr_by_qdr(t, Point::gain),
        holds: more,
        difference: Some(Difference::Clusters),
    },
    Shape {
        paper: "the barrier gains more than the allreduce on FDR (Figures 3, 5)",
        ratio: "MPI ÷ best n on FDR, barrier ÷ allreduce",
        machines: &["gpi-fdr"],
        of: |t| gain(t, FDR, Operation::Barrier) / gain(t, FDR, Operation::Sum(1)),
        holds: more,
        difference: Some(Difference::Operations),
    },
    Shape {
        paper: "the barrier gains more than the allreduce on QDR (Figures 2, 4)",
        ratio: "MPI ÷ best n on QDR, barrier ÷ allreduce",
        machines: &["gpi-qdr"],
        of: |t| gain(t, QDR, Operation::Barrier) / gain(t, QDR, Operation::Sum(1)),
        holds: more,
        difference: Some(Difference::Operations),
    },
    Shape {
        paper: "no improvement for 1 element on QDR (Figure 4)",
        ratio: "allreduce of 1 on QDR, MPI ÷ best n",
        machines: &["gpi-qdr"],
        of: |t| gain(t, QDR, Operation::Sum(1)),
        holds: equal,
        difference: Some(Difference::Elements),
    },
    Shape {
        paper: "255 elements are much faster than MPI's on QDR (Figure 4)",
        ratio: "allreduce of 255 on QDR, MPI ÷ best n",
        machines: &["gpi-qdr"],
        of: |t| gain(t, QDR, Operation::Sum(255)),
        holds: more,
        difference: None,
    },
    Shape {
        paper: "255 elements gain more than 1 on QDR (Figure 4)",
        ratio: "MPI ÷ best n on QDR, 255 elements ÷ 1",
        machines: &["gpi-qdr"],
        of: |t| gain(t, QDR, Operation::Sum(255)) / gain(t, QDR, Operation::Sum(1)),
        holds: more,
        difference: Some(Difference::Elements),
    },
];

/// The machines of both clusters, each with its twin under MPI.
pub struct Machines(Vec<[MachineFile; 2]>);

impl Machines {
    fn load() -> Result<Self, Failure> {
        let pair = |cluster: &Cluster| {
            let mpi = under_mpi(cluster.machine).unwrap_or(cluster.machine);
            Ok([MachineFile::load(cluster.machine)?, MachineFile::load(mpi)?])
        };
        CLUSTERS.iter().map(pair).collect::<Result<_, _>>().map(Self)
    }

    /// The descriptions of the clusters.
    pub fn about(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|[ours, _]| ours.about.as_str())
    }

    /// The name of a number in changes. What the wire does is one number for both machines of a cluster.
    fn named(&self, cluster: usize, mpi: bool, number: &str) -> String {
        let wire = ["network.latency_ns", "network.gap_ns", "network.byte_ns"].contains(&number);
        let [ours, under] = &self.0[cluster];
        format!("{} {number}", if mpi && !wire { &under.name } else { &ours.name })
    }

    /// All numbers that can be changed, of a cluster.
    fn numbers(&self, cluster: usize) -> Vec<(String, f64)> {
        let machines = self.0[cluster].each_ref().map(|file| machine_of(file, 2));
        numbers_as(machines, |at, number| self.named(cluster, at == 1, number))
    }

    /// A number of a cluster's machine, by its name.
    pub fn number(&self, cluster: usize, name: &str) -> f64 {
        let (all, name) = (self.numbers(cluster), self.named(cluster, false, name));
        all.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, value)| *value)
    }

    /// All times under each change. Of each point there are runs with 1 to 7 messages a round, and one of MPI.
    fn measure(&self, to: usize, changes: &[Change], runs: &mut Runs<Job>) -> Result<Vec<Times>, Failure> {
        let mut jobs = Vec::new();
        for change in changes {
            for (cluster, operation, _) in FIGURES {
                for nodes in counts(cluster, to) {
                    let [ours, mpi] = [false, true].map(|mpi| {
                        let machine = machine_of(&self.0[cluster][usize::from(mpi)], nodes);
                        change.of(machine, |number| self.named(cluster, mpi, number))
                    });
                    jobs.extend((1..=WAYS).map(|n| Job::new(ours.clone(), nodes, operation, ways(nodes, n))));
                    jobs.push(Job::new(mpi, nodes, operation, of_mpi(operation)));
                }
            }
        }
        let took = runs.all(&jobs)?;
        let mut took = took.iter().map(|took| took.us);
        let mut next = || took.next().unwrap_or(f64::NAN);
        let mut point = |nodes| Point { nodes, ways_us: std::array::from_fn(|_| next()), mpi_us: next() };
        let mut times = |_: &Change| FIGURES.map(|(cluster, ..)| counts(cluster, to).map(&mut point).collect()).into();
        Ok(changes.iter().map(&mut times).collect())
    }

    /// The times by Bruck and Ho's dissemination with the best n on all numbers of nodes, for each figure.
    fn bruck(&self, to: usize, runs: &mut Runs<Job>) -> Result<Figures<f64>, Failure> {
        let jobs = FIGURES.iter().flat_map(|&(cluster, operation, _)| {
            counts(cluster, to).flat_map(move |nodes| {
                let machine = machine_of(&self.0[cluster][0], nodes);
                let job = move |n| Job::new(machine.clone(), nodes, operation, Algorithm::Dissemination(n as u8));
                (1..=WAYS).map(job)
            })
        });
        let took = runs.all(&jobs.collect::<Vec<_>>())?;
        let mut best =
            took.chunks_exact(WAYS).map(|of_n| of_n.iter().map(|took| took.us).fold(f64::INFINITY, f64::min));
        Ok(FIGURES.iter().map(|(cluster, ..)| best.by_ref().take(counts(*cluster, to).count()).collect()).collect())
    }
}

/// The results on the paper's clusters.
pub struct Results {
    pub times: Times,
    /// For each point, the bands of dissemination, MPI and gain when one number changes, and when all change.
    pub bands: Figures<[Vec<Band>; 2]>,
    draws: usize,
    pub verdicts: Vec<Verdict>,
    /// The shares of the numbers of each cluster, at the largest number of nodes of each of its figures.
    pub shares: [Vec<Share>; 2],
    /// The times by Bruck and Ho's dissemination with the best n on all numbers of nodes.
    pub bruck_us: Figures<f64>,
}

impl Results {
    /// Does all runs.
    fn make(machines: &Machines, to: usize, draws: usize, runs: &mut Runs<Job>) -> Result<Self, Failure> {
        let numbers = [FDR, QDR].map(|cluster| machines.numbers(cluster));
        let shapes = SHAPES.each_ref().map(Shape::in_study);
        let study = Study::make(numbers.concat(), draws, shapes.iter().map(|shape| &*shape.of), |changes| {
            machines.measure(to, changes, runs)
        })?;
        let last = |f: usize| (f, study.figures()[f].len() - 1);
        let [fdr, qdr] = by_cluster((0..FIGURES.len()).map(last).collect());
        let (mut of_fdr, mut of_qdr) = (study.shares(&fdr, NAMES.len()), study.shares(&qdr, NAMES.len()));
        of_fdr.truncate(numbers[FDR].len());
        of_qdr.drain(..numbers[FDR].len());
        Ok(Self {
            times: study.figures().clone(),
            bands: study.bands(),
            draws,
            verdicts: shapes.iter().map(|shape| study.verdict(shape)).collect(),
            shares: [of_fdr, of_qdr],
            bruck_us: machines.bruck(to, runs)?,
        })
    }

    fn json(&self, targets: &Targets) -> Value {
        let shares = self.shares.iter().enumerate().flat_map(|(cluster, shares)| {
            let of = move |s: &Share| json!({"cluster": cluster, "number": s.number, "value": s.value, "of": s.of});
            shares.iter().map(of)
        });
        let study = json!({
            "times": by_cluster(self.times.clone()),
            "bands": by_cluster(self.bands.clone()),
            "draws": self.draws,
            "verdicts": self.verdicts,
            "shares": shares.collect::<Vec<_>>(),
            "bruck_us": by_cluster(self.bruck_us.clone()),
        });
        json!({"study": study, "targets": targets})
    }

    /// The figures of the reports.
    fn figures(&self) -> Vec<Figure> {
        let figure = |(f, (cluster, operation, title)): (usize, &(usize, Operation, &str))| {
            let row = |(i, point): (usize, &Point)| {
                let bruck_us = self.bruck_us[f][i];
                let others = std::iter::once(("best_n".into(), point.best() as f64));
                let others = others.chain((1..).map(|n| format!("n{n}_us")).zip(point.ways_us));
                Row {
                    before: vec![point.best().to_string()],
                    after: vec![microseconds(bruck_us)],
                    others: others.chain([("bruck_ho_us".into(), bruck_us)]).collect(),
                    ..Row::new(point, Some(&self.bands[f][i]))
                }
            };
            let key = format!("{},{},", quoted(CLUSTERS[*cluster].machine), quoted(&operation.to_string()));
            Figure { title: (*title).into(), key, rows: self.times[f].iter().enumerate().map(row).collect() }
        };
        FIGURES.iter().enumerate().map(figure).collect()
    }

    /// The plots of both clusters.
    fn plots(&self, figures: Vec<Figure>) -> Vec<Plot> {
        let mut plots = Vec::new();
        for (Cluster { machine, .. }, figures) in CLUSTERS.iter().zip(by_cluster(figures)) {
            let on =
                format!("on {machine} and {machine}-mpi, one process per node; bands: each number halved and doubled");
            for (f, figure) in figures.iter().enumerate() {
                let curves = [("n-way dissemination, best n", BLUE), ("MPI", VERMILION)].into_iter().enumerate();
                let curves = curves.map(|(k, (name, colour))| figure.curve(name, colour, k)).collect();
                plots.push(Plot::new(&format!("{machine}-{f}.svg"), figure.title.clone(), &on, curves));
            }
            let of_n = [(1, BLUE), (2, VERMILION), (3, GREEN), (5, PURPLE), (WAYS, ORANGE)].map(|(n, colour)| {
                // Before the times of each n is the best n.
                let points = figures[0].rows.iter().map(|row| (row.at, row.others[n].1)).collect();
                Curve::new(format!("n = {n}"), colour, points)
            });
            let subtitle = "the paper's five cases, or Bruck and Ho's dissemination where these do not exist";
            let title = format!("A barrier with n messages a round on {machine}");
            plots.push(Plot::new(&format!("{machine}-n.svg"), title, subtitle, of_n.into()));
        }
        plots
    }

    /// The file of shares: a line for each number of the machines and each figure.
    fn shares_csv(&self) -> String {
        let mut text = String::from("number,value,operation,dissemination,mpi,gain\n");
        for (shares, figures) in self.shares.iter().zip(by_cluster(FIGURES.to_vec())) {
            for Share { number, value, of } in shares {
                for ((_, operation, _), of) in figures.iter().zip(of) {
                    let (number, operation) = (quoted(number), operation.to_string());
                    let _ = writeln!(text, "{number},{value:?},{},{}", quoted(&operation), fields(of));
                }
            }
        }
        text
    }

    /// The summary for the terminal.
    fn summary(&self, figures: &[Figure], targets: &Targets, output: &Path) -> String {
        let mut text = String::from("n-way dissemination and MPI in virtual time; times in µs\n");
        for figure in figures {
            text += &figure.summary(["nodes", "best n", NAMES[0], NAMES[1], NAMES[2], "its band"]);
        }
        for line in self.verdicts.iter().map(Verdict::line).chain(targets.rows.iter().map(targets::Row::line)) {
            let _ = writeln!(text, "{line}");
        }
        text + &format!("report: {}\n", output.join("index.html").display())
    }
}

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    let to = args.to.unwrap_or(MOST);
    if !(4..=MOST).contains(&to) {
        let expected = format!("4 to {MOST} nodes for this paper");
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    let machines = Machines::load()?;
    Files::new().fills("--output", Some(&args.output)).check()?;
    let directory = Directory::prepare(&args.output)?;
    let mut runs = Runs::default();
    let targets = Targets::make(to, &mut runs)?;
    let results = Results::make(&machines, to, args.draws, &mut runs)?;
    let figures = results.figures();
    let pictures = curves::draw(results.plots(results.figures()))?;
    let files = [
        ("points.csv", points_csv("machine,operation,", "nodes", &["dissemination_us", "mpi_us", "gain"], &figures)),
        ("shares.csv", results.shares_csv()),
        ("figures.json", pretty(&results.json(&targets))?),
    ];
    let page = page::page(&machines, &results, &figures, &targets, &pictures);
    report::write(&directory, page, &pictures, &files)?;
    runs.progress.finish_and_clear();
    Stdout::lock().write(&results.summary(&figures, &targets, &args.output))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::study::{Point as _, tests::bands_hold_the_values};

    #[test]
    fn bands_hold_the_values_and_shares_add_up() {
        let machines = Machines::load().unwrap_or_else(|e| panic!("{e:?}"));
        let results = Results::make(&machines, 4, 1, &mut Runs::default()).unwrap_or_else(|e| panic!("{e:?}"));
        for (points, bands) in results.times.iter().zip(&results.bands) {
            assert_eq!(points.iter().map(|p| p.nodes).collect::<Vec<_>>(), [2, 4]);
            bands_hold_the_values(points, bands);
            // Each result depends on some number.
            for (point, [one, _]) in points.iter().zip(bands) {
                assert!(one.iter().zip(point.values()).all(|(b, value)| b.low < value && value < b.high), "{one:?}");
            }
        }
        // A time is a sum of times, and a gain has no unit.
        for (all, figures) in results.shares.iter().zip([2, 3]) {
            for f in 0..figures {
                let sums: [f64; 3] = std::array::from_fn(|k| all.iter().map(|share| share.of[f][k]).sum());
                for (sum, expected) in sums.into_iter().zip([1.0, 1.0, 0.0]) {
                    assert!((sum - expected).abs() < 0.1, "{f}: {sums:?}");
                }
            }
        }
        // 13 numbers of each cluster, halved and doubled; one draw, and two for each shape.
        for (shape, verdict) in SHAPES.iter().zip(&results.verdicts) {
            let [one, all] = verdict.held;
            assert_eq!((one.1, all.1), (2 * 13 * shape.machines.len(), 1 + 2 * SHAPES.len()), "{verdict:?}");
        }
    }

    #[test]
    fn the_papers_cases_are_taken_where_they_exist() {
        assert_eq!(ways(8, 2), Algorithm::FiveCases(2));
        let exist = |n| (2..=130).filter(|&nodes| ways(nodes, n) == Algorithm::FiveCases(n as u8)).count();
        assert_eq!([1, 2, 3, 4, 7].map(exist), [65, 96, 117, 129, 129]);
    }
}
