//! The runs on the paper's two clusters, and the shapes of the paper's figures in them.

use super::call::{Job, Operation, Took};
use crate::figures::changes::{Band, Change, numbers, share};
use crate::figures::runs::{Runs, machine_of};
use crate::figures::verdicts::Verdict;
use maniple::collectives::{Algorithm, Goal};
use maniple_command::Failure;
use maniple_command::machines::file::{MachineFile, under_mpi};
use serde::Serialize;

/// The most messages a round, as in the paper.
pub const WAYS: usize = 7;

/// A cluster of the paper, and what ran there.
pub struct Cluster {
    /// The machine, by its name.
    pub machine: &'static str,
    /// The paper's numbers of nodes, read off the axes of its figures.
    counts: &'static [usize],
    /// The operations that the paper has figures for, with their titles.
    pub figures: &'static [(Operation, &'static str)],
}

/// The places of the clusters in lists.
pub const FDR: usize = 0;
/// The second one.
pub const QDR: usize = 1;

/// Both clusters.
pub const CLUSTERS: [Cluster; 2] = [
    Cluster {
        machine: "gpi-fdr",
        counts: &[2, 4, 8, 12, 16, 24, 32, 48, 64, 72, 80, 96],
        figures: &[
            (Operation::Barrier, "Figure 3: a barrier on FDR"),
            (Operation::Sum(1), "Figure 5: an allreduce of 1 element on FDR"),
        ],
    },
    Cluster {
        machine: "gpi-qdr",
        counts: &[2, 4, 8, 12, 16, 20, 24, 28, 32, 36],
        figures: &[
            (Operation::Barrier, "Figure 2: a barrier on QDR"),
            (Operation::Sum(1), "Figure 4: an allreduce of 1 element on QDR"),
            (Operation::Sum(255), "Figure 4: an allreduce of 255 elements on QDR"),
        ],
    },
];

impl Cluster {
    /// The numbers of nodes up to `to`.
    fn counts(&self, to: usize) -> Vec<usize> {
        self.counts.iter().copied().filter(|&nodes| nodes <= to).collect()
    }
}

/// The n-way dissemination of the paper for so many nodes: its five cases, or Bruck and Ho's where these do not exist.
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

    /// Dissemination, MPI, and the gain.
    pub fn values(&self) -> [f64; 3] {
        [self.us(), self.mpi_us, self.gain()]
    }
}

/// The geometric mean.
fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    (values.clone().map(f64::ln).sum::<f64>() / values.count() as f64).exp()
}

/// All times: for each cluster and each of its figures, those of each number of nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Times(pub Vec<Vec<Vec<Point>>>);

impl Times {
    /// The points of an operation on a cluster.
    pub fn of(&self, cluster: usize, operation: Operation) -> &[Point] {
        let at = CLUSTERS[cluster].figures.iter().position(|(other, _)| *other == operation);
        at.map_or(&[], |at| &self.0[cluster][at])
    }

    /// The mean gain over the numbers of nodes.
    fn gain(&self, cluster: usize, operation: Operation) -> f64 {
        mean(self.of(cluster, operation).iter().map(Point::gain))
    }

    /// The mean gain of more messages a round in a barrier.
    fn gain_of_ways(&self, cluster: usize) -> f64 {
        mean(self.of(cluster, Operation::Barrier).iter().map(Point::gain_of_ways))
    }

    /// The points of a barrier on FDR and on QDR, with equally many nodes.
    pub fn on_both(&self) -> impl Iterator<Item = [&Point; 2]> + Clone {
        let [fdr, qdr] = [FDR, QDR].map(|cluster| self.of(cluster, Operation::Barrier));
        fdr.iter().filter_map(move |p| Some([p, qdr.iter().find(|q| q.nodes == p.nodes)?]))
    }

    /// The mean of a value of a barrier on FDR by that on QDR, with equally many nodes.
    fn fdr_by_qdr(&self, value: fn(&Point) -> f64) -> f64 {
        mean(self.on_both().map(|[fdr, qdr]| value(fdr) / value(qdr)))
    }
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
    /// What the paper says.
    pub paper: &'static str,
    /// The ratio.
    pub ratio: &'static str,
    /// The clusters whose times are in it, as places in [`CLUSTERS`].
    pub clusters: &'static [usize],
    /// Its value.
    pub of: fn(&Times) -> f64,
    /// Whether a value has the shape.
    pub holds: fn(f64) -> bool,
    /// What is to say if it does not.
    pub difference: Option<Difference>,
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
        clusters: &[FDR],
        of: |t| t.gain_of_ways(FDR),
        holds: more,
        difference: None,
    },
    Shape {
        paper: "a higher n can be chosen on FDR than on QDR",
        ratio: "barrier, n = 1 ÷ best n, FDR ÷ QDR",
        clusters: &[FDR, QDR],
        of: |t| t.fdr_by_qdr(Point::gain_of_ways),
        holds: more,
        difference: Some(Difference::Clusters),
    },
    Shape {
        paper: "the barrier takes less time on FDR, about 5 µs instead of 8",
        ratio: "barrier, best n, FDR ÷ QDR",
        clusters: &[FDR, QDR],
        of: |t| t.fdr_by_qdr(Point::us),
        holds: |ratio| ratio < 1.0,
        difference: None,
    },
    Shape {
        paper: "a barrier is much faster than MPI's on FDR (Figure 3)",
        ratio: "barrier on FDR, MPI ÷ best n",
        clusters: &[FDR],
        of: |t| t.gain(FDR, Operation::Barrier),
        holds: more,
        difference: None,
    },
    Shape {
        paper: "on QDR it is not much faster, so it gains more on FDR (Figures 2, 3)",
        ratio: "barrier, MPI ÷ best n, FDR ÷ QDR",
        clusters: &[FDR, QDR],
        of: |t| t.fdr_by_qdr(Point::gain),
        holds: more,
        difference: Some(Difference::Clusters),
    },
    Shape {
        paper: "the barrier gains more than the allreduce on FDR (Figures 3, 5)",
        ratio: "MPI ÷ best n on FDR, barrier ÷ allreduce",
        clusters: &[FDR],
        of: |t| t.gain(FDR, Operation::Barrier) / t.gain(FDR, Operation::Sum(1)),
        holds: more,
        difference: Some(Difference::Operations),
    },
    Shape {
        paper: "the barrier gains more than the allreduce on QDR (Figures 2, 4)",
        ratio: "MPI ÷ best n on QDR, barrier ÷ allreduce",
        clusters: &[QDR],
        of: |t| t.gain(QDR, Operation::Barrier) / t.gain(QDR, Operation::Sum(1)),
        holds: more,
        difference: Some(Difference::Operations),
    },
    Shape {
        paper: "no improvement for 1 element on QDR (Figure 4)",
        ratio: "allreduce of 1 on QDR, MPI ÷ best n",
        clusters: &[QDR],
        of: |t| t.gain(QDR, Operation::Sum(1)),
        holds: equal,
        difference: Some(Difference::Elements),
    },
    Shape {
        paper: "255 elements are much faster than MPI's on QDR (Figure 4)",
        ratio: "allreduce of 255 on QDR, MPI ÷ best n",
        clusters: &[QDR],
        of: |t| t.gain(QDR, Operation::Sum(255)),
        holds: more,
        difference: None,
    },
    Shape {
        paper: "255 elements gain more than 1 on QDR (Figure 4)",
        ratio: "MPI ÷ best n on QDR, 255 elements ÷ 1",
        clusters: &[QDR],
        of: |t| t.gain(QDR, Operation::Sum(255)) / t.gain(QDR, Operation::Sum(1)),
        holds: more,
        difference: Some(Difference::Elements),
    },
];

/// The shares of a number of the machines in the results at the largest number of nodes of a cluster.
#[derive(Debug, Clone, Serialize)]
pub struct Share {
    /// The place of the cluster in [`CLUSTERS`].
    pub cluster: usize,
    /// The name of the number.
    pub number: String,
    /// Its value in the file.
    pub value: f64,
    /// For each figure of the cluster: its shares in dissemination, MPI and gain.
    pub of: Vec<[f64; 3]>,
}

/// The results on the paper's clusters.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// All times.
    pub times: Times,
    /// For each point, the bands of dissemination, MPI and gain when one number changes, and when all change.
    pub bands: Vec<Vec<Vec<[[Band; 3]; 2]>>>,
    /// How many times all numbers were changed at random.
    pub draws: usize,
    /// The shapes.
    pub verdicts: Vec<Verdict>,
    /// The share of each number.
    pub shares: Vec<Share>,
    /// The times by Bruck and Ho's dissemination with the best n on all numbers of nodes.
    pub bruck_us: Vec<Vec<Vec<f64>>>,
}

/// The machines of both clusters, each with its twin under MPI.
pub struct Machines(Vec<[MachineFile; 2]>);

impl Machines {
    /// Loads them.
    pub fn load() -> Result<Self, Failure> {
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

    /// A number of a cluster's machine, by its name.
    pub fn number(&self, cluster: usize, name: &str) -> f64 {
        let all = numbers(machine_of(&self.0[cluster][0], 2));
        all.iter().find(|(other, _)| other == name).map_or(0.0, |(_, value)| *value)
    }

    /// All numbers that can be changed, of a cluster.
    fn numbers(&self, cluster: usize) -> Vec<(String, f64)> {
        let mut all: Vec<(String, f64)> = Vec::new();
        for (mpi, file) in [false, true].into_iter().zip(&self.0[cluster]) {
            for (number, value) in numbers(machine_of(file, 2)) {
                let name = self.named(cluster, mpi, &number);
                if number != "collectives.round_requirements" && all.iter().all(|(other, _)| *other != name) {
                    all.push((name, value));
                }
            }
        }
        all
    }

    /// The jobs of all times: of each point, those of 1 to 7 messages a round, and that of MPI.
    fn jobs(&self, to: usize, change: &Change) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (at, cluster) in CLUSTERS.iter().enumerate() {
            for &(operation, _) in cluster.figures {
                for nodes in cluster.counts(to) {
                    let [ours, mpi] = [false, true].map(|mpi| {
                        let machine = machine_of(&self.0[at][usize::from(mpi)], nodes);
                        change.of(machine, |number| self.named(at, mpi, number))
                    });
                    jobs.extend((1..=WAYS).map(|n| Job::new(ours.clone(), nodes, operation, ways(nodes, n))));
                    jobs.push(Job::new(mpi, nodes, operation, of_mpi(operation)));
                }
            }
        }
        jobs
    }
}

/// The times of such jobs.
fn times(to: usize, took: &[Took]) -> Times {
    let mut points = took.chunks_exact(WAYS + 1);
    let mut point = |nodes| {
        let us: Vec<f64> = points.next().unwrap_or_default().iter().map(|took| took.us).collect();
        let ways_us = std::array::from_fn(|i| us[i]);
        Point { nodes, ways_us, mpi_us: us[WAYS] }
    };
    let figures = |cluster: &Cluster| {
        cluster.figures.iter().map(|_| cluster.counts(to).into_iter().map(&mut point).collect()).collect()
    };
    Times(CLUSTERS.iter().map(figures).collect())
}

impl Study {
    /// Does all runs.
    ///
    /// # Errors
    /// A run that failed or was not verified.
    pub fn make(
        machines: &Machines,
        to: usize,
        draws: usize,
        runs: &mut Runs<Job>,
        starts: impl Fn(usize),
        done: impl Fn(&Job) + Sync,
    ) -> Result<Self, Failure> {
        let numbers: Vec<Vec<(String, f64)>> = (0..CLUSTERS.len()).map(|cluster| machines.numbers(cluster)).collect();
        let flat = numbers.concat();
        let mut all = |changes: &[Change]| -> Result<Vec<Times>, Failure> {
            let jobs: Vec<Vec<Job>> = changes.iter().map(|change| machines.jobs(to, change)).collect();
            let took = runs.all(&jobs.concat(), &starts, &done)?;
            Ok(took.chunks_exact(jobs[0].len()).map(|took| times(to, took)).collect())
        };
        let mut changed = all(&Change::usual(&flat, draws))?;
        let base = changed.remove(0);
        let each: Vec<[Times; 2]> =
            changed[..2 * flat.len()].chunks_exact(2).map(|two| [two[0].clone(), two[1].clone()]).collect();
        // For each shape, two more with all numbers changed: each so that, by itself, it makes the ratio larger, or smaller.
        let extreme = |shape: &Shape| {
            let of_each: Vec<[f64; 2]> = each.iter().map(|[half, twice]| [half, twice].map(shape.of)).collect();
            Change::extremes(&flat, &of_each)
        };
        changed.extend(all(&SHAPES.iter().flat_map(extreme).collect::<Vec<_>>())?);
        // The base, then one number changed, then all.
        changed.insert(0, base.clone());
        let sets = [&changed[..2 * flat.len() + 1], &changed[..]];

        // A change of one number counts for shapes of its cluster. Others can't be different with it.
        let of_one: Vec<usize> = numbers.iter().enumerate().flat_map(|(c, own)| vec![c; 2 * own.len()]).collect();
        let verdict = |shape: &Shape| {
            let (one, all) = changed[1..].split_at(of_one.len());
            let one = one.iter().zip(&of_one).filter(|(_, cluster)| shape.clusters.contains(cluster)).map(|(t, _)| t);
            let one: Vec<f64> = one.map(shape.of).collect();
            let values = [vec![(shape.of)(&base)], one.clone(), all.iter().map(shape.of).collect()].concat();
            Verdict::of(shape.paper, shape.ratio, &values, one.len(), shape.holds)
        };
        let bands = base.0.iter().enumerate().map(|(c, figures)| {
            let of_figure = |(f, points): (usize, &Vec<Point>)| {
                let at = |i: usize, k: usize, set: &[Times]| Band::around(set.iter().map(|t| t.0[c][f][i].values()[k]));
                (0..points.len()).map(|i| sets.map(|set| std::array::from_fn(|k| at(i, k, set)))).collect()
            };
            figures.iter().enumerate().map(of_figure).collect()
        });
        let shares = numbers.iter().enumerate().flat_map(|(c, own)| {
            let before: usize = numbers[..c].iter().map(Vec::len).sum();
            let each = &each;
            own.iter().enumerate().map(move |(i, (number, value))| {
                let [half, twice] = &each[before + i];
                let last = |times: &Times, f: usize| times.0[c][f].last().map_or([f64::NAN; 3], Point::values);
                let of = (0..CLUSTERS[c].figures.len()).map(|f| {
                    let (half, twice) = (last(half, f), last(twice, f));
                    std::array::from_fn(|k| share(half[k], twice[k]))
                });
                Share { cluster: c, number: number.clone(), value: *value, of: of.collect() }
            })
        });
        let (bands, verdicts) = (bands.collect(), SHAPES.iter().map(verdict).collect());
        let shares = shares.collect();

        let mut bruck = Vec::new();
        for (file, cluster) in machines.0.iter().zip(&CLUSTERS) {
            for &(operation, _) in cluster.figures {
                for nodes in cluster.counts(to) {
                    let job =
                        |n| Job::new(machine_of(&file[0], nodes), nodes, operation, Algorithm::Dissemination(n as u8));
                    bruck.extend((1..=WAYS).map(job));
                }
            }
        }
        let took = runs.all(&bruck, &starts, &done)?;
        let mut best = took.chunks_exact(WAYS).map(|of_n| of_n.iter().map(|t| t.us).fold(f64::INFINITY, f64::min));
        let bruck_us = base
            .0
            .iter()
            .map(|figures| figures.iter().map(|points| points.iter().filter_map(|_| best.next()).collect()).collect());
        let bruck_us = bruck_us.collect();
        Ok(Self { times: base, bands, draws, verdicts, shares, bruck_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_the_values_and_shares_add_up() {
        let machines = Machines::load().unwrap_or_else(|e| panic!("{e:?}"));
        let study =
            Study::make(&machines, 4, 1, &mut Runs::default(), |_| {}, |_| {}).unwrap_or_else(|e| panic!("{e:?}"));
        for (c, figures) in study.times.0.iter().enumerate() {
            assert_eq!(figures.len(), CLUSTERS[c].figures.len());
            for (points, bands) in figures.iter().zip(&study.bands[c]) {
                assert_eq!(points.iter().map(|p| p.nodes).collect::<Vec<_>>(), [2, 4]);
                for (point, [one, all]) in points.iter().zip(bands) {
                    for (k, value) in point.values().into_iter().enumerate() {
                        assert!(all[k].low <= one[k].low && one[k].low < value, "{point:?}, {one:?}, {all:?}");
                        assert!(value < one[k].high && one[k].high <= all[k].high, "{point:?}, {one:?}, {all:?}");
                    }
                }
            }
            // A time is a sum of times, and a gain has no unit.
            for f in 0..figures.len() {
                let all = study.shares.iter().filter(|share| share.cluster == c);
                let sums: [f64; 3] = std::array::from_fn(|k| all.clone().map(|share| share.of[f][k]).sum());
                for (sum, expected) in sums.into_iter().zip([1.0, 1.0, 0.0]) {
                    assert!((sum - expected).abs() < 0.1, "{c} {f}: {sums:?}");
                }
            }
        }
        // 13 numbers of each cluster, halved and doubled; one draw, and two for each shape.
        for (shape, verdict) in SHAPES.iter().zip(&study.verdicts) {
            let [one, all] = verdict.held;
            assert_eq!((one.1, all.1), (2 * 13 * shape.clusters.len(), 1 + 2 * SHAPES.len()), "{verdict:?}");
        }
    }

    #[test]
    fn the_papers_cases_are_taken_where_they_exist() {
        assert_eq!(ways(8, 2), Algorithm::FiveCases(2));
        let exist = |n| (2..=130).filter(|&nodes| ways(nodes, n) == Algorithm::FiveCases(n as u8)).count();
        assert_eq!([1, 2, 3, 4, 7].map(exist), [65, 96, 117, 129, 129]);
    }
}
