//! The runs and their results: curves, their bands, and the share of each number of the machine.

use super::stencil::{Job, Took, WHOLE};
use crate::calibrate::rows::Row;
use crate::figures::changes::{Band, Change, numbers, share};
use crate::figures::runs::{Runs, machine_of};
use maniple::runtime::VirtualMachine;
use maniple_command::Failure;
use maniple_command::machines::file::MachineFile;
use maniple_command::stencil::session::Config;
use maniple_stencil::Collective;
use serde::Serialize;

/// The numbers of shards in the paper.
const PAPER: [usize; 6] = [16, 32, 64, 128, 256, 512];

/// Shards of a node, in variants with more than one.
const SHARED: usize = 16;

/// The times of both versions at a number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The number of shards, P.
    pub shards: usize,
    /// One collective within the iteration, microseconds (Figure 4).
    pub collective_us: f64,
    /// One iteration with the collective (Figure 6).
    pub iteration_us: f64,
    /// One iteration of the baseline, with the aggregation region (Figure 8).
    pub baseline_us: f64,
}

impl Point {
    fn new(shards: usize, ours: Took, baseline: Took) -> Self {
        let Took { collective_us, iteration_us } = ours;
        Self { shards, collective_us, iteration_us, baseline_us: baseline.iteration_us }
    }

    /// The times of the version with a collective.
    fn took(&self) -> (usize, Took) {
        let Self { shards, collective_us, iteration_us, .. } = *self;
        (shards, Took { iteration_us, collective_us })
    }

    /// The ratio: how many times longer the baseline takes.
    pub fn ratio(&self) -> f64 {
        self.baseline_us / self.iteration_us
    }

    /// Collective, iteration, baseline and ratio.
    pub fn values(&self) -> [f64; 4] {
        [self.collective_us, self.iteration_us, self.baseline_us, self.ratio()]
    }
}

/// The share of a number of the machine in the results: d ln(result) / d ln(number), between half and twice the number. If all
/// numbers are times, their shares in a time add up to 1.
#[derive(Debug, Clone, Serialize)]
pub struct Share {
    /// The name of the number in the file.
    pub number: String,
    /// Its value in the file.
    pub value: f64,
    /// Its shares in collective, iteration, baseline and ratio at the smallest number of shards.
    pub smallest: [f64; 4],
    /// Its shares at the largest number in the paper.
    pub largest: [f64; 4],
    /// The ratio at the largest number of shards ÷ the ratio at the smallest, with half and with twice the number.
    pub growth: [f64; 2],
}

/// A curve of another algorithm.
#[derive(Debug, Clone, Serialize)]
pub struct Variant {
    /// Name.
    pub name: String,
    /// Numbers of shards, with their times.
    pub points: Vec<(usize, Took)>,
}

/// All results.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// The name of the machine.
    pub machine: String,
    /// The description of the machine.
    pub about: String,
    /// The times of both versions.
    pub points: Vec<Point>,
    /// For the paper's numbers of shards, the bands of collective, iteration, baseline and ratio: any one number of the machine is
    /// halved or doubled.
    pub bands: Vec<[Band; 4]>,
    /// The bands when all numbers change at once: at random, and so that the ratio grows most and least.
    pub wide_bands: Vec<[Band; 4]>,
    /// How many times all numbers were changed at random.
    pub draws: usize,
    /// Growth of the ratio from the paper's smallest to its largest number of shards.
    pub growth: f64,
    /// The band of the growth when one number changes.
    pub growth_band: Band,
    /// The band of the growth when all numbers change.
    pub growth_wide_band: Band,
    /// Slope of log(baseline) over log(P), from 64 shards to the paper's largest number, and to the largest of all.
    pub slopes: [f64; 2],
    /// The share of each number.
    pub shares: Vec<Share>,
    /// The times with replay of rounds that were mapped before.
    pub replayed: Vec<Point>,
    /// An optimised MPI allreduce on the same network (Figure 5).
    pub mpi: Vec<(usize, f64)>,
    /// Other algorithms on the same machine.
    pub variants: Vec<Variant>,
    /// The times with the framework's own costs, on networks of today.
    pub networks: Vec<(String, Vec<Point>)>,
    /// Predicted times beside times on threads of this host.
    pub predictions: Vec<Row>,
}

/// The plan of a study.
pub struct Plan<'a> {
    /// The machine.
    pub machine: &'a MachineFile,
    /// The machine that stands for MPI on the same network.
    pub mpi: &'a MachineFile,
    /// Machines on networks of today.
    pub networks: &'a [MachineFile],
    /// The largest number of shards.
    pub to: usize,
    /// How many times all numbers are changed at random.
    pub draws: usize,
}

/// The paper's numbers of shards up to `to`, and beyond them 1024 times each power of four.
pub fn counts(to: usize) -> Vec<usize> {
    let beyond = std::iter::successors(Some(2 * WHOLE), |p| Some(4 * p));
    PAPER.into_iter().chain(beyond).take_while(|&p| p <= to).collect()
}

/// The jobs of points: each number of shards in both versions, one after the other.
fn both(counts: &[usize], machine: impl Fn(usize) -> VirtualMachine) -> Vec<Job> {
    let versions = [Collective::RecursiveDoubling, Collective::Aggregation];
    let jobs = |&p: &usize| versions.map(|version| Job::new(machine(p), p, version));
    counts.iter().flat_map(jobs).collect()
}

fn points(counts: &[usize], took: &[Took]) -> Vec<Point> {
    counts.iter().zip(took.chunks_exact(2)).map(|(&p, t)| Point::new(p, t[0], t[1])).collect()
}

/// Slope of ln(baseline) over ln(P) by least squares.
fn slope<'a>(points: impl Iterator<Item = &'a Point> + Clone) -> f64 {
    let logs = points.map(|p| ((p.shards as f64).ln(), p.baseline_us.ln()));
    let n = logs.clone().count() as f64;
    let (x, y) = logs.clone().fold((0.0, 0.0), |(x, y), l| (x + l.0 / n, y + l.1 / n));
    let (xy, xx) = logs.fold((0.0, 0.0), |(xy, xx), l| (xy + (l.0 - x) * (l.1 - y), xx + (l.0 - x).powi(2)));
    xy / xx
}

/// The growth: the ratio at the last point ÷ the ratio at the first.
fn growth(points: &[Point]) -> f64 {
    match points {
        [first, .., last] => last.ratio() / first.ratio(),
        _ => f64::NAN,
    }
}

fn bands<'a>(counts: usize, all: impl Iterator<Item = &'a Vec<Point>> + Clone) -> Vec<[Band; 4]> {
    (0..counts)
        .map(|i| std::array::from_fn(|k| Band::around(all.clone().map(|points| points[i].values()[k]))))
        .collect()
}

impl Study {
    /// Does all runs that are not done.
    ///
    /// # Errors
    /// A run that failed or was not verified.
    pub fn make(
        plan: &Plan<'_>,
        runs: &mut Runs<Job>,
        starts: impl Fn(usize),
        done: impl Fn(&Job) + Sync,
    ) -> Result<Self, Failure> {
        let counts = counts(plan.to);
        let paper: Vec<usize> = counts.iter().copied().filter(|&p| p <= WHOLE).collect();
        let here = |p: usize| machine_of(plan.machine, p);

        let numbers = numbers(here(paper[0]));
        let changed = |p: usize, change: &Change| change.of(here(p), str::to_owned);

        let mut jobs = both(&counts, here);
        for (number, _) in &numbers {
            for change in Change::one(number) {
                jobs.extend(both(&paper, |p| changed(p, &change)));
            }
        }
        for draw in 0..plan.draws {
            // The same numbers at each number of shards.
            let change = Change::drawn(&numbers, draw);
            jobs.extend(both(&paper, |p| changed(p, &change)));
        }
        jobs.extend(both(&paper, |p| VirtualMachine { replay: true, ..here(p) }));
        jobs.extend(counts.iter().map(|&p| Job::new(machine_of(plan.mpi, p), p, Collective::RecursiveDoubling)));
        let variants = variants(plan.machine);
        for (_, job) in &variants {
            jobs.extend(paper.iter().map(|&p| job(p)));
        }
        for network in plan.networks {
            jobs.extend(both(&paper, |p| machine_of(network, p)));
        }

        let took = runs.all(&jobs, &starts, &done)?;
        let mut rest = &took[..];
        let mut take = |n: usize| {
            let (first, others) = rest.split_at(n);
            rest = others;
            first
        };
        let base = points(&counts, take(2 * counts.len()));
        let mut of_paper = || points(&paper, take(2 * paper.len()));
        let each: Vec<[Vec<Point>; 2]> = numbers.iter().map(|_| [of_paper(), of_paper()]).collect();
        let mut drawn: Vec<Vec<Point>> = (0..plan.draws).map(|_| of_paper()).collect();
        let replayed = of_paper();
        let mpi = counts.iter().copied().zip(take(counts.len()).iter().map(|t| t.collective_us)).collect();
        let as_elsewhere = Variant {
            name: format!("iterations launched {} ahead, as in the other figures", Config::default().ahead),
            points: base[..paper.len()].iter().map(Point::took).collect(),
        };
        let others = variants.into_iter().map(|(name, _)| Variant {
            name,
            points: paper.iter().copied().zip(take(paper.len()).iter().copied()).collect(),
        });
        let variants = std::iter::once(as_elsewhere).chain(others).collect();
        let networks = plan.networks.iter();
        let networks = networks.map(|n| (n.name.clone(), points(&paper, take(2 * paper.len())))).collect();

        // Two more with all numbers changed: each so that, by itself, it makes the ratio grow most, or least.
        for most in [true, false] {
            let change = Change::each(&numbers, |i, _| {
                let [half, twice] = &each[i];
                (growth(twice) > growth(half)) == most
            });
            drawn.push(points(&paper, &runs.all(&both(&paper, |p| changed(p, &change)), &starts, &done)?));
        }

        let unchanged = base[..paper.len()].to_vec();
        let one_changed = || std::iter::once(&unchanged).chain(each.iter().flatten());
        let all_changed = || one_changed().chain(&drawn);
        let shares = numbers.iter().zip(&each).map(|((number, value), [half, twice])| {
            let at = |i: usize| {
                let (half, twice) = (half[i].values(), twice[i].values());
                std::array::from_fn(|k| share(half[k], twice[k]))
            };
            let growth = [growth(half), growth(twice)];
            Share { number: number.clone(), value: *value, smallest: at(0), largest: at(paper.len() - 1), growth }
        });
        let linear = |to: usize| slope(base.iter().filter(move |p| (64..=to).contains(&p.shards)));
        Ok(Self {
            machine: plan.machine.name.clone(),
            about: plan.machine.about.clone(),
            bands: bands(paper.len(), one_changed()),
            wide_bands: bands(paper.len(), all_changed()),
            draws: plan.draws,
            growth: growth(&unchanged),
            growth_band: Band::around(one_changed().map(|points| growth(points))),
            growth_wide_band: Band::around(all_changed().map(|points| growth(points))),
            slopes: [linear(WHOLE), linear(plan.to)],
            shares: shares.collect(),
            points: base,
            replayed,
            mpi,
            variants,
            networks,
            predictions: Vec::new(),
        })
    }
}

type JobOf<'a> = Box<dyn Fn(usize) -> Job + 'a>;

/// Other algorithms on the same machine.
fn variants(file: &MachineFile) -> Vec<(String, JobOf<'_>)> {
    let own = |p: usize| Job::new(machine_of(file, p), p, Collective::RecursiveDoubling);
    let on_nodes = |collective| -> JobOf<'_> {
        let nodes = |p: usize| Some(p.div_ceil(SHARED) as u32);
        Box::new(move |p| Job::new(file.machine(nodes(p), p as u32), p, collective))
    };
    let nodes = format!("{SHARED} shards a node");
    vec![
        ("each iteration waited for before the next is launched".into(), Box::new(move |p| Job { ahead: 0, ..own(p) })),
        (format!("{nodes}, recursive doubling"), on_nodes(Collective::RecursiveDoubling)),
        (format!("{nodes}, two-level"), on_nodes(Collective::TwoLevel)),
        (format!("{nodes}, aggregation"), on_nodes(Collective::Aggregation)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_the_papers_and_fourfold_beyond() {
        assert_eq!(counts(64), [16, 32, 64]);
        assert_eq!(counts(1 << 20), [16, 32, 64, 128, 256, 512, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20]);
    }

    /// The table of titan-legion in command/machines/README.md, and the shapes of the curves.
    #[test]
    fn the_papers_shapes_are_there() {
        let file = MachineFile::load("titan-legion").unwrap_or_else(|e| panic!("{e:?}"));
        let counts = [16, 64, 512];
        let variants = variants(&file);
        let mut jobs = both(&counts, |p| machine_of(&file, p));
        jobs.extend(variants.iter().map(|(_, job)| job(512)));
        let took = Runs::default().all(&jobs, |_| {}, |_| {}).unwrap_or_else(|e| panic!("{e:?}"));
        let (own, others) = took.split_at(2 * counts.len());
        let points = points(&counts, own);
        let said = include_str!("../../../../command/machines/README.md").replace(',', "");
        for point in &points {
            let [collective, iteration, baseline, ratio] = point.values();
            let row = format!("| {} | {collective:.0} | {iteration:.0} | {baseline:.0} | {ratio:.1} (", point.shards);
            assert!(said.contains(&row), "{row}");
        }
        let slope = slope(points[1..].iter());
        assert!((0.9..1.05).contains(&slope), "{slope}");
        assert!((11.0..20.0).contains(&growth(&points)), "{points:?}");
        let [few, .., many] = points[..] else { unreachable!() };
        let collective = many.collective_us / few.collective_us / (512_f64.log2() / 16_f64.log2());
        assert!((0.9..1.1).contains(&collective), "{collective} times as log₂P");
        let beside = |took: &Took| took.iteration_us / many.iteration_us;
        let [waited, others @ ..] = others else { unreachable!() };
        // Leaf tasks are sent as soon as they are ready, whether launched ahead or not: there is little left to wait for.
        assert!((1.01..1.02).contains(&beside(waited)), "{waited:?}, {many:?}");
        for ((name, _), took) in variants[1..].iter().zip(others) {
            assert!((beside(took) - 1.0).abs() > 0.02, "{name}: {took:?}, {many:?}");
        }
    }

    #[test]
    fn all_numbers_at_once_go_further_than_any_one() {
        let load = |name| MachineFile::load(name).unwrap_or_else(|e| panic!("{e:?}"));
        let plan = Plan { machine: &load("titan-legion"), mpi: &load("titan-mpi"), networks: &[], to: 32, draws: 0 };
        let study = Study::make(&plan, &mut Runs::default(), |_| {}, |_| {}).unwrap_or_else(|e| panic!("{e:?}"));
        let (one, all) = (study.growth_band, study.growth_wide_band);
        assert!(all.low < one.low && one.low < study.growth, "{one:?} {all:?}");
        assert!(study.growth < one.high && one.high < all.high, "{one:?} {all:?}");
        let names: Vec<&str> = study.shares.iter().map(|s| s.number.as_str()).collect();
        assert!(
            names.contains(&"collectives.round_requirements") && names.contains(&"network.latency_ns"),
            "{names:?}"
        );
    }

    #[test]
    fn the_slope_of_a_power_is_its_exponent() {
        let power = |shards: usize| Point {
            shards,
            collective_us: 1.0,
            iteration_us: 1.0,
            baseline_us: 3.0 * (shards as f64).powf(0.7),
        };
        let points = [2, 8, 64, 100].map(power);
        assert!((slope(points.iter()) - 0.7).abs() < 1e-12);
        assert!((growth(&points) - 50_f64.powf(0.7)).abs() < 1e-12);
    }
}
