//! The runs on a machine, and the shapes of the paper's figure in them.

use crate::figures::changes::{Band, Change, numbers, share};
use crate::figures::runs::{self, Runs, machine_of};
use crate::figures::verdicts::Verdict;
use crate::overlap::{Workload, measure_on};
use maniple::runtime::VirtualMachine;
use maniple_command::Failure;
use maniple_command::machines::file::MachineFile;
use serde::Serialize;

/// The number of nodes, as in the paper.
pub const NODES: u32 = 4;

/// Calls that count, of each program. They all take equally long.
const CALLS: u64 = 2;

/// The largest vectors that are small, in bytes.
pub const SMALL: usize = 1024;

/// A workload, in words.
pub struct Work {
    /// The workload.
    pub workload: Workload,
    /// Its name in tables and plots.
    pub title: &'static str,
    /// Its reductions.
    pub about: &'static str,
}

/// The workloads.
pub const WORKS: [Work; 3] = [
    Work {
        workload: Workload::Paper,
        title: "the paper's program",
        about: "all four nodes reduce to nodes 0 and 2, and nodes 1 and 2 reduce to node 3, which contributes nothing",
    },
    Work {
        workload: Workload::Reverse,
        title: "the program in reverse",
        about: "all four reduce to nodes 1 and 3, and nodes 1 and 2 to node 0",
    },
    Work {
        workload: Workload::Each,
        title: "a sum for each",
        about: "all four reduce to each of them: four reductions",
    },
];

/// The programs, in the order of results.
pub const PROGRAMS: [&str; 3] = ["one by one", "concurrent", "balanced"];

/// The results of a point, in the order of its values.
pub const VALUES: [&str; 5] =
    ["one by one", "concurrent", "balanced", "concurrent ÷ one by one", "balanced ÷ concurrent"];

/// The places of the ratios in [`VALUES`].
pub const CONCURRENT: usize = 3;
/// The second one.
pub const BALANCED: usize = 4;

/// The elements of vectors, up to `to`.
fn sizes(to: usize) -> impl Iterator<Item = usize> {
    (0..).map(|i| 1 << (2 * i)).take_while(move |&elements| elements <= to)
}

/// A run of all three programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The place of the workload in [`WORKS`].
    pub work: usize,
    /// The elements of a vector.
    pub elements: usize,
    /// The machine.
    pub machine: VirtualMachine,
}

/// The times of the three programs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Bytes of a vector.
    pub bytes: usize,
    /// Microseconds from the moment when all begin until the last is through.
    pub us: [f64; 3],
    /// Microseconds for each call if every node goes on to the next call at once.
    pub next_us: [f64; 3],
    /// The most messages that a node sends or receives: concurrent, and balanced.
    pub messages: [u64; 2],
}

impl Point {
    /// The values, as [`VALUES`] names them.
    pub fn values(&self) -> [f64; 5] {
        let [one_by_one, concurrent, balanced] = self.us;
        [one_by_one, concurrent, balanced, concurrent / one_by_one, balanced / concurrent]
    }
}

impl runs::Job for Job {
    type Took = Point;

    // Each node has a contribution to up to four reductions, a copy in a message, and one that comes.
    fn most_bytes(&self) -> u128 {
        self.elements as u128 * 8 * 64 + 1_000_000
    }

    fn run(&self) -> Result<Point, Failure> {
        let Work { workload, title, .. } = WORKS[self.work];
        let found = measure_on(&self.machine, (workload, NODES), self.elements, CALLS)?;
        if let Some(wrong) = found.iter().position(|found| !found.verified) {
            let (program, elements) = (PROGRAMS[wrong], self.elements);
            return Err(Failure::Run(format!(
                "{title}, {program}, {elements} elements on `{}`: a sum is wrong",
                self.machine.name
            )));
        }
        let [after, before] = found[2].messages.unwrap_or_default();
        Ok(Point {
            bytes: size_of::<f64>() * self.elements,
            us: found.map(|found| found.latency_us),
            next_us: found.map(|found| found.next_us),
            messages: [before, after],
        })
    }
}

/// All times: for each workload, those of each size.
pub type Times = Vec<Vec<Point>>;

/// What the paper reports, for one workload.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Concurrent reductions take at most half as long as one by one, with small vectors.
    Small,
    /// The same with vectors of all sizes.
    Every,
    /// Balanced ones take at most 0.8 times as long as concurrent ones, at the size where this gains most.
    Balance,
}

impl Shape {
    fn paper(self) -> &'static str {
        match self {
            Shape::Small => "concurrent reductions are more than twice as fast, with small vectors",
            Shape::Every => "concurrent reductions are more than twice as fast, with vectors of all sizes",
            Shape::Balance => "balancing improves performance by up to 25 %",
        }
    }

    fn ratio(self) -> String {
        match self {
            Shape::Small => {
                format!(
                    "time of concurrent reductions ÷ one by one, the largest of vectors up to {SMALL} bytes, to be at most 0.5"
                )
            }
            Shape::Every => {
                "time of concurrent reductions ÷ one by one, the largest of all vectors, to be at most 0.5".into()
            }
            Shape::Balance => {
                "time of balanced ÷ not balanced concurrent reductions, the smallest of all vectors, to be at most 0.8"
                    .into()
            }
        }
    }

    fn of(self, points: &[Point]) -> f64 {
        let concurrent = |most| {
            points
                .iter()
                .filter(move |p| p.bytes <= most)
                .map(|p| p.values()[CONCURRENT])
                .fold(f64::NEG_INFINITY, f64::max)
        };
        match self {
            Shape::Small => concurrent(SMALL),
            Shape::Every => concurrent(usize::MAX),
            Shape::Balance => points.iter().map(|p| p.values()[BALANCED]).fold(f64::INFINITY, f64::min),
        }
    }

    fn holds(self, ratio: f64) -> bool {
        match self {
            Shape::Small | Shape::Every => ratio <= 0.5,
            Shape::Balance => ratio <= 0.8,
        }
    }
}

/// The shares of a number of the machine in the three times.
#[derive(Debug, Clone, Serialize)]
pub struct Share {
    /// The name of the number.
    pub number: String,
    /// Its value in the file.
    pub value: f64,
    /// For each workload: the shares with the smallest vectors, and with the largest.
    pub of: Vec<[[f64; 3]; 2]>,
}

/// The results on a machine.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// The name of the machine.
    pub machine: String,
    /// Its description.
    pub about: String,
    /// All times.
    pub times: Times,
    /// For each of them, the bands of its values when one number changes, and when all change.
    pub bands: Vec<Vec<[[Band; 5]; 2]>>,
    /// All times if empty arrivals took no time of a processor or of the wire.
    pub unacknowledged: Times,
    /// How many times all numbers were changed at random.
    pub draws: usize,
    /// The shapes.
    pub verdicts: Vec<Verdict>,
    /// The share of each number.
    pub shares: Vec<Share>,
}

/// The name of a number, which is the same one for all numbers of shards per processor.
fn plain(number: &str) -> String {
    number.split(" with ").next().unwrap_or_default().to_owned()
}

/// All numbers that can be changed.
fn changeable(file: &MachineFile) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = Vec::new();
    for (number, value) in numbers(machine_of(file, NODES as usize)) {
        let name = plain(&number);
        if name != "collectives.round_requirements" && all.iter().all(|(other, _)| *other != name) {
            all.push((name, value));
        }
    }
    all
}

impl Study {
    /// Does all runs.
    ///
    /// # Errors
    /// A run that failed or was not verified.
    pub fn make(
        file: &MachineFile,
        to: usize,
        draws: usize,
        runs: &mut Runs<Job>,
        starts: impl Fn(usize),
        done: impl Fn(&Job) + Sync,
    ) -> Result<Self, Failure> {
        let numbers = changeable(file);
        let own = machine_of(file, NODES as usize);
        let jobs_on = |machine: VirtualMachine| {
            let job = |work| {
                let machine = machine.clone();
                move |elements| Job { work, elements, machine: machine.clone() }
            };
            (0..WORKS.len()).flat_map(|work| sizes(to).map(job(work))).collect::<Vec<Job>>()
        };
        let mut on = |machines: Vec<VirtualMachine>| -> Result<Vec<Times>, Failure> {
            let jobs: Vec<Job> = machines.into_iter().flat_map(jobs_on).collect();
            let took = runs.all(&jobs, &starts, &done)?;
            let (work, times) = (sizes(to).count(), sizes(to).count() * WORKS.len());
            Ok(took.chunks(times).map(|of| of.chunks(work).map(<[Point]>::to_vec).collect()).collect())
        };
        let unacknowledged = on(vec![VirtualMachine { acknowledge: false, ..own.clone() }])?.remove(0);
        let mut all =
            |changes: Vec<Change>| on(changes.iter().map(|change| change.of(own.clone(), plain)).collect::<Vec<_>>());
        let ones = 2 * numbers.len();
        let mut changed = all(Change::usual(&numbers, draws))?;
        let shapes = [(0, Shape::Small), (0, Shape::Every), (0, Shape::Balance)].into_iter();
        let shapes = shapes.chain([1, 2].into_iter().flat_map(|work| [(work, Shape::Small), (work, Shape::Balance)]));
        let shapes: Vec<(usize, Shape)> = shapes.collect();
        let extremes = shapes.iter().flat_map(|&(work, shape)| {
            let of = |times: &Times| shape.of(&times[work]);
            let each: Vec<[f64; 2]> = changed[1..=ones].chunks_exact(2).map(|two| [of(&two[0]), of(&two[1])]).collect();
            Change::extremes(&numbers, &each)
        });
        let extremes: Vec<Change> = extremes.collect();
        changed.extend(all(extremes)?);

        let verdict = |&(work, shape): &(usize, Shape)| {
            let values: Vec<f64> = changed.iter().map(|times| shape.of(&times[work])).collect();
            let paper = format!("{}: {}", WORKS[work].title, shape.paper());
            Verdict::of(&paper, &shape.ratio(), &values, ones, |ratio| shape.holds(ratio))
        };
        let sets = [&changed[..=ones], &changed[..]];
        let bands = |work: usize| {
            let at = |i: usize| {
                sets.map(|set| std::array::from_fn(|k| Band::around(set.iter().map(|t| t[work][i].values()[k]))))
            };
            (0..changed[0][work].len()).map(at).collect()
        };
        let shares = numbers.iter().enumerate().map(|(i, (number, value))| {
            let [half, twice] = [&changed[1 + 2 * i], &changed[2 + 2 * i]];
            let of = |work: usize| {
                let shares = |[half, twice]: [Option<&Point>; 2]| match (half, twice) {
                    (Some(half), Some(twice)) => std::array::from_fn(|k| share(half.us[k], twice.us[k])),
                    _ => [f64::NAN; 3],
                };
                let [half, twice] = [&half[work], &twice[work]];
                [shares([half.first(), twice.first()]), shares([half.last(), twice.last()])]
            };
            Share { number: number.clone(), value: *value, of: (0..WORKS.len()).map(of).collect() }
        });
        let (bands, shares) = ((0..WORKS.len()).map(bands).collect(), shares.collect());
        let verdicts = shapes.iter().map(verdict).collect();
        let (machine, about, times) = (file.name.clone(), file.about.clone(), changed[0].clone());
        Ok(Self { machine, about, times, bands, unacknowledged, draws, verdicts, shares })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::runs::Job as _;

    fn point(machine: &str, work: usize, elements: usize) -> Point {
        let file = MachineFile::load(machine).unwrap_or_else(|e| panic!("{e:?}"));
        let machine = machine_of(&file, NODES as usize);
        Job { work, elements, machine }.run().unwrap_or_else(|e| panic!("{e:?}"))
    }

    /// Times by hand, from the numbers in aspen-gigabit.toml, in microseconds.
    #[test]
    fn one_by_one_five_messages_follow_each_other_and_concurrent_two() {
        let poll = 1.8;
        for elements in [1, 64, 4096] {
            let bytes = 8.0 * elements as f64;
            // An update and a read, and then a sum or a copy of what has come.
            let message = 3.6 + 15.8 + 3.6 + 8.5e-3 * bytes + 2.0 * 0.36 + 1e-3 * bytes;
            // A vector of more than 4 KiB is on loan: in the end its owner hears that it has been read.
            let back = if bytes > 4096.0 { 15.8 } else { 0.0 };
            let [one_by_one, concurrent, balanced] = point("aspen-gigabit", 0, elements).us;
            for (time, messages) in [(one_by_one, 5.0), (concurrent, 2.0)] {
                let parts = messages * message + back..messages * (message + poll) + back + 0.5;
                assert!(parts.contains(&time), "{elements}: {time}, expected {parts:?}");
            }
            assert_eq!(balanced, concurrent);
        }
    }

    #[test]
    fn balance_takes_messages_from_the_busiest_node() {
        let messages = [0, 1, 2].map(|work| point("ethernet", work, 4).messages);
        assert_eq!(messages, [[2, 2], [3, 2], [4, 3]]);
        // With large vectors the wire takes the time: two vectors after each other instead of three.
        let large = point("aspen-gigabit", 1, 1 << 15);
        assert!((large.us[2] / large.us[1] - 2.0 / 3.0).abs() < 0.05, "{large:?}");
    }

    #[test]
    fn bands_hold_the_values_and_shares_add_up() {
        let file = MachineFile::load("aspen-gigabit").unwrap_or_else(|e| panic!("{e:?}"));
        let study = Study::make(&file, 4, 1, &mut Runs::default(), |_| {}, |_| {}).unwrap_or_else(|e| panic!("{e:?}"));
        // Nothing comes back on this machine.
        assert_eq!(study.unacknowledged, study.times);
        for (points, bands) in study.times.iter().zip(&study.bands) {
            assert_eq!(points.iter().map(|p| p.bytes).collect::<Vec<_>>(), [8, 32]);
            for (point, [one, all]) in points.iter().zip(bands) {
                for (k, value) in point.values().into_iter().enumerate() {
                    assert!(all[k].low <= one[k].low && one[k].low <= value, "{point:?}, {one:?}, {all:?}");
                    assert!(value <= one[k].high && one[k].high <= all[k].high, "{point:?}, {one:?}, {all:?}");
                }
                // The latency alone moves a time to both sides.
                assert!((0..3).all(|k| one[k].low < point.us[k] && point.us[k] < one[k].high), "{point:?}, {one:?}");
            }
        }
        for work in 0..WORKS.len() {
            for end in 0..2 {
                for k in 0..3 {
                    let sum: f64 = study.shares.iter().map(|share| share.of[work][end][k]).sum();
                    assert!((sum - 1.0).abs() < 0.1, "{work} {end} {k}: {sum}");
                }
            }
        }
        // Eight numbers, halved and doubled; one draw, and two for each shape.
        assert_eq!(study.verdicts.len(), 7);
        for verdict in &study.verdicts {
            let [one, all] = verdict.held;
            assert_eq!((one.1, all.1), (2 * 8, 1 + 2 * 7), "{verdict:?}");
        }
    }
}
