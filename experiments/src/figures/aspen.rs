//! Figure 12 of "Advanced collective communication in Aspen": reductions that overlap, one after the other, at the same time and
//! balanced.

use super::FiguresOptions;
use super::changes::{Band, numbers_as, plain, share_text};
use super::curves::{self, Plot};
use super::report::{self, Figure, Row, fields, points_csv};
use super::runs::{self, Runs, machine_of};
use super::study::{self, Figures, Shape, Share, Study};
use super::verdicts::{self, Verdict};
use crate::overlap::{self, Workload};
use maniple::runtime::VirtualMachine;
use maniple_command::Failure;
use maniple_command::files::Files;
use maniple_command::machines::file::MachineFile;
use maniple_command::measure::directory::{Directory, pretty};
use maniple_command::measure::page::{Page, escaped};
use maniple_command::measure::plot::{BLUE, GREEN, VERMILION};
use maniple_command::measure::stats::microseconds;
use maniple_command::output::{Stdout, quoted};
use maniple_stencil::plural;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::fmt::Write;
use std::iter::once;
use std::path::Path;

/// The machines: the paper's cluster, and a network of today.
const MACHINES: [&str; 2] = ["aspen-gigabit", "ethernet"];

/// The default for the largest number of elements.
const USUAL: usize = 1 << 16;

/// The most elements. So large vectors take much longer.
const MOST: usize = 1 << 20;

/// The number of nodes, as in the paper.
const NODES: u32 = 4;

/// Calls that count, of each program. They all take equally long.
const CALLS: u64 = 2;

/// The largest vectors that are small, in bytes.
const SMALL: usize = 1024;

/// A workload, in words.
struct Work {
    /// The workload.
    workload: Workload,
    /// Its name in tables and plots.
    title: &'static str,
    /// Its reductions.
    about: &'static str,
}

/// The workloads.
const WORKS: [Work; 3] = [
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
const PROGRAMS: [&str; 3] = ["one by one", "concurrent", "balanced"];

/// The results of a point, in the order of its values.
const VALUES: [&str; 5] = ["one by one", "concurrent", "balanced", "concurrent ÷ one by one", "balanced ÷ concurrent"];

/// Their names in files.
const CURVES: [&str; 5] =
    ["one_by_one_us", "concurrent_us", "balanced_us", "concurrent_by_one_by_one", "balanced_by_concurrent"];

/// The places of the ratios in [`VALUES`].
const CONCURRENT: usize = 3;
/// The second one.
const BALANCED: usize = 4;

/// The elements of vectors, up to `to`.
fn sizes(to: usize) -> impl Iterator<Item = usize> {
    (0..).map(|i| 1 << (2 * i)).take_while(move |&elements| elements <= to)
}

/// A run of all three programs.
#[derive(Debug, Clone, PartialEq)]
struct Job {
    /// The place of the workload in [`WORKS`].
    work: usize,
    /// The elements of a vector.
    elements: usize,
    machine: VirtualMachine,
}

/// The times of the three programs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Point {
    /// Bytes of a vector.
    bytes: usize,
    /// Microseconds from the moment when all begin until the last is through.
    us: [f64; 3],
    /// Microseconds for each call if every node goes on to the next call at once.
    next_us: [f64; 3],
    /// The most messages that a node sends or receives: concurrent, and balanced.
    messages: [u64; 2],
}

impl Point {
    /// The values, as [`VALUES`] names them.
    fn values(&self) -> [f64; 5] {
        let [one_by_one, concurrent, balanced] = self.us;
        [one_by_one, concurrent, balanced, concurrent / one_by_one, balanced / concurrent]
    }
}

impl study::Point for Point {
    fn at(&self) -> usize {
        self.bytes
    }

    fn values(&self) -> Vec<f64> {
        self.values().into()
    }
}

impl runs::Job for Job {
    type Took = Point;

    fn size(&self) -> String {
        plural(self.elements, "element")
    }

    // Each node has a contribution to up to four reductions, a copy in a message, and one that comes.
    fn most_bytes(&self) -> u128 {
        self.elements as u128 * 8 * 64 + 1_000_000
    }

    fn run(&self) -> Result<Point, Failure> {
        let Work { workload, title, .. } = WORKS[self.work];
        let found = overlap::measure(&self.machine, (workload, NODES), self.elements, CALLS)?;
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

/// The shapes that the paper reports, for its own workload and for the others.
fn shapes() -> Vec<Shape<Point>> {
    let mut shapes = Vec::new();
    for (w, work) in WORKS.iter().enumerate() {
        let mut shape = |paper: &str, ratio: String, of: fn(&[Point]) -> f64, holds| {
            let (paper, of) = (format!("{}: {paper}", work.title), Box::new(move |all: &Figures<Point>| of(&all[w])));
            shapes.push(Shape { paper, ratio, numbers: &[""], of, holds });
        };
        let twice = "concurrent reductions are more than twice as fast, with";
        let ratio = "time of concurrent reductions ÷ one by one, the largest of";
        shape(
            &format!("{twice} small vectors"),
            format!("{ratio} vectors up to {SMALL} bytes, to be at most 0.5"),
            |points| slowest(points, SMALL),
            |ratio| ratio <= 0.5,
        );
        if work.workload == Workload::Paper {
            shape(
                &format!("{twice} vectors of all sizes"),
                format!("{ratio} all vectors, to be at most 0.5"),
                |points| slowest(points, usize::MAX),
                |ratio| ratio <= 0.5,
            );
        }
        shape(
            "balancing improves performance by up to 25 %",
            "time of balanced ÷ not balanced concurrent reductions, the smallest of all vectors, to be at most 0.8"
                .into(),
            |points| points.iter().map(|p| p.values()[BALANCED]).fold(f64::INFINITY, f64::min),
            |ratio| ratio <= 0.8,
        );
    }
    shapes
}

/// The largest ratio of concurrent reductions, with vectors of up to `bytes` bytes.
fn slowest(points: &[Point], bytes: usize) -> f64 {
    let small = points.iter().filter(|p| p.bytes <= bytes);
    small.map(|p| p.values()[CONCURRENT]).fold(f64::NEG_INFINITY, f64::max)
}

/// The points of all workloads on each of these machines.
fn measure(machines: Vec<VirtualMachine>, to: usize, runs: &mut Runs<Job>) -> Result<Vec<Figures<Point>>, Failure> {
    let jobs = machines.iter().flat_map(|machine| {
        let of_work = move |work| sizes(to).map(move |elements| Job { work, elements, machine: machine.clone() });
        (0..WORKS.len()).flat_map(of_work)
    });
    let took = runs.all(&jobs.collect::<Vec<_>>())?;
    let points = sizes(to).count();
    let figures = took.chunks(points * WORKS.len());
    Ok(figures.map(|of| of.chunks(points).map(<[Point]>::to_vec).collect()).collect())
}

/// The results on a machine.
#[derive(Serialize)]
struct Results {
    machine: String,
    about: String,
    /// For each workload, the times with each size.
    times: Figures<Point>,
    /// For each of them, the bands of its values when one number changes, and when all change.
    bands: Figures<[Vec<Band>; 2]>,
    /// All times if empty arrivals took no time of a processor or of the wire.
    unacknowledged: Figures<Point>,
    draws: usize,
    verdicts: Vec<Verdict>,
    /// In the three times, for each workload with the smallest vectors and with the largest.
    #[serde(serialize_with = "by_workload")]
    shares: Vec<Share>,
}

fn by_workload<S: Serializer>(shares: &[Share], serializer: S) -> Result<S::Ok, S::Error> {
    let of = |share: &Share| json!({"number": share.number, "value": share.value, "of": share.of.chunks(2).collect::<Vec<_>>()});
    serializer.collect_seq(shares.iter().map(of))
}

impl Results {
    /// Does all runs.
    fn make(file: &MachineFile, to: usize, draws: usize, runs: &mut Runs<Job>) -> Result<Self, Failure> {
        let own = machine_of(file, NODES as usize);
        let numbers = numbers_as([own.clone()], |_, number| plain(number));
        let unacknowledged = measure(vec![VirtualMachine { acknowledge: false, ..own.clone() }], to, runs)?.remove(0);
        let shapes = shapes();
        let study = Study::make(numbers, draws, shapes.iter().map(|shape| &*shape.of), |changes| {
            measure(changes.iter().map(|change| change.of(own.clone(), plain)).collect(), to, runs)
        })?;
        let last = sizes(to).count() - 1;
        let ends: Vec<(usize, usize)> = (0..WORKS.len()).flat_map(|work| [(work, 0), (work, last)]).collect();
        Ok(Self {
            machine: file.name.clone(),
            about: file.about.clone(),
            times: study.figures().clone(),
            bands: study.bands(),
            unacknowledged,
            draws,
            verdicts: shapes.iter().map(|shape| study.verdict(shape)).collect(),
            shares: study.shares(&ends, PROGRAMS.len()),
        })
    }

    /// The figure of each workload.
    fn figures(&self) -> impl Iterator<Item = Figure> {
        WORKS.iter().enumerate().map(|(w, work)| {
            let points = self.times[w].iter().zip(&self.unacknowledged[w]).zip(&self.bands[w]);
            let row = |((point, without), bands): ((&Point, &Point), _)| {
                let [one_by_one, concurrent, balanced] = point.next_us;
                let [.., first, second] = without.values();
                let ratios = [concurrent / one_by_one, balanced / concurrent, first, second];
                let next = ["one_by_one_next_us", "concurrent_next_us", "balanced_next_us"].map(str::to_owned);
                let others = next.into_iter().zip(point.next_us).collect();
                Row { after: ratios.map(microseconds).into(), others, ..Row::new(point, Some(bands)) }
            };
            Figure {
                title: format!("{} on {}", work.title, self.machine),
                key: format!("{},{},", quoted(&self.machine), work.workload.name()),
                rows: points.map(row).collect(),
            }
        })
    }
}

/// The plots of a machine.
fn plots(machine: &str, figures: &[Figure]) -> Vec<Plot> {
    let on = format!("{NODES} nodes of {machine}; bands: each number of the machine halved and doubled");
    let colours = [VERMILION, BLUE, GREEN];
    let times = WORKS.iter().zip(figures).map(|(work, figure)| {
        let curves = PROGRAMS.iter().zip(colours).enumerate().map(|(k, (name, colour))| figure.curve(*name, colour, k));
        let file = format!("{machine}-{}.svg", work.workload.name());
        Plot::new(&file, format!("Figure 12: {}", work.title), &on, curves.collect())
    });
    let ratios = [(CONCURRENT, "concurrent"), (BALANCED, "balanced")].map(|(k, name)| {
        let curves = WORKS.iter().zip(figures).zip(colours).map(|((work, of), colour)| of.curve(work.title, colour, k));
        Plot::new(&format!("{machine}-ratio-{name}.svg"), VALUES[k], &on, curves.collect()).ratios()
    });
    times.chain(ratios).map(|plot| Plot { horizontal: "bytes of a vector", ..plot }).collect()
}

/// The file of shares: a line for each number of a machine, workload and size.
fn shares_csv(studies: &[Results]) -> String {
    let mut text = String::from("machine,number,value,workload,bytes,one_by_one,concurrent,balanced\n");
    for study in studies {
        for Share { number, value, of } in &study.shares {
            let (machine, number) = (quoted(&study.machine), quoted(number));
            for ((work, points), of) in WORKS.iter().zip(&study.times).zip(of.chunks(2)) {
                for (point, shares) in [points.first(), points.last()].into_iter().flatten().zip(of) {
                    let (work, bytes, shares) = (work.workload.name(), point.bytes, fields(shares));
                    let _ = writeln!(text, "{machine},{number},{value:?},{work},{bytes},{shares}");
                }
            }
        }
    }
    text
}

/// The summary for the terminal.
fn summary(studies: &[Results], figures: &[Figure], output: &Path) -> String {
    let mut text = String::from("Reductions that overlap in virtual time; times in µs\n");
    for (study, figures) in studies.iter().zip(figures.chunks(WORKS.len())) {
        for figure in figures {
            text += &figure.summary(once("bytes").chain(VALUES).chain(once("its band")));
        }
        for verdict in &study.verdicts {
            let _ = writeln!(text, "{}: {}", study.machine, verdict.line());
        }
    }
    text + &format!("report: {}\n", output.join("index.html").display())
}

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    let to = args.to.unwrap_or(USUAL);
    if !(4..=MOST).contains(&to) {
        let expected = format!("4 to {MOST} elements for this paper");
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    let files: Vec<MachineFile> = MACHINES.iter().map(|name| MachineFile::load(name)).collect::<Result<_, _>>()?;
    Files::new().fills("--output", Some(&args.output)).check()?;
    let directory = Directory::prepare(&args.output)?;
    let mut runs = Runs::default();
    let make = |file: &MachineFile| Results::make(file, to, args.draws, &mut runs);
    let studies: Vec<Results> = files.iter().map(make).collect::<Result<_, _>>()?;
    let figures: Vec<Figure> = studies.iter().flat_map(Results::figures).collect();
    let of_each = studies.iter().zip(figures.chunks(WORKS.len()));
    let pictures = curves::draw(of_each.flat_map(|(study, figures)| plots(&study.machine, figures)).collect())?;
    let written = [
        ("points.csv", points_csv("machine,workload,", "bytes", &CURVES, &figures)),
        ("shares.csv", shares_csv(&studies)),
        ("figures.json", pretty(&studies)?),
    ];
    report::write(&directory, page(&studies, &figures, &pictures), &pictures, &written)?;
    runs.progress.finish_and_clear();
    Stdout::lock().write(&summary(&studies, &figures, &args.output))
}

/// The range of values, with two digits.
fn span(values: impl Iterator<Item = f64>) -> String {
    let Band { low, high } = Band::around(values);
    let [low, high] = [low, high].map(|value| format!("{value:.2}"));
    if low == high { low } else { format!("{low} to {high}") }
}

/// What came out, where the runs go up to the usual size. It is about `all` machines, of which the second sends empty arrivals.
fn what_came_out(all: &[Results]) -> Vec<String> {
    let [own, ethernet] = all else { return Vec::new() };
    let small = |points: &[Point], k: usize| span(points.iter().filter(|p| p.bytes <= SMALL).map(|p| p.values()[k]));
    let most = |work: usize, k: usize| all.iter().filter_map(move |study| Some(study.times[work].last()?.values()[k]));
    let (paper, reverse) = (0, 1);
    let (within, of) = ethernet.verdicts.first().map_or((0, 0), |verdict| verdict.held[1]);
    let gains = |point: &&Point| point.values()[BALANCED] < 0.995;
    let lost: Vec<usize> = ethernet.times[reverse].iter().filter(|p| !gains(p)).map(|p| p.bytes).collect();
    let mut texts = vec![
        format!(
            "<b>Concurrent reductions</b> come out as the paper reports them. One by one, five messages of its program follow each \
             other: two rounds of the first sum, its broadcast, the second sum, and the message that takes it to node 3. \
             Concurrently there are two after each other, so the ratio is near 2/5: {} on {} with vectors of all sizes. On {} it is {} \
             with small vectors, because empty arrivals cost there what small messages cost. Without them it is {}. \
             With them it is near its bound of 0.5: with all numbers changed, it is within the bound in {within} of {of} cases.",
            span(own.times[paper].iter().map(|p| p.values()[CONCURRENT])),
            escaped(&own.machine),
            escaped(&ethernet.machine),
            small(&ethernet.times[paper], CONCURRENT),
            small(&ethernet.unacknowledged[paper], CONCURRENT),
        ),
        format!(
            "The other two workloads have the ratio with small vectors only. With large ones the wire takes the time, and without \
             balance one node sends or receives more vectors than the others. With the largest vectors their ratio is {}.",
            span((1..WORKS.len()).flat_map(|work| most(work, CONCURRENT)))
        ),
        format!(
            "<b>Balance</b> differs: the paper's program gains nothing. Its gain comes from the sum of nodes 1 and 2, of which one \
             must send its vector to the other. The paper's heuristic chooses node 1 to receive, because node 2 is busy with the \
             first sum. Without the heuristic node 1 receives too: by the paper's §3.2, with nodes in their order, and here without a \
             plan. So the paper's text does not explain the gain of its program. In reverse the lower rank is the busy one. \
             There balance leaves two vectors at the busiest node instead of three, and with the largest vectors the ratio is {}. \
             In the model the line carries both directions at full speed, and the kernel's copies take no time of the processor. \
             With less than that, the gain would be smaller and nearer to the paper's 25 %.",
            span(most(reverse, BALANCED))
        ),
    ];
    if let [first, .., last] = lost[..] {
        let without = ethernet.unacknowledged[reverse].iter().filter(|p| lost.contains(&p.bytes));
        texts.push(format!(
            "On {}, balance gains nothing in reverse from {first} to {last} bytes. With it, empty arrivals delay a message that \
             they do not delay without. Without empty arrivals the ratio there is {}.",
            escaped(&ethernet.machine),
            span(without.map(|p| p.values()[BALANCED]))
        ));
    }
    texts
}

/// The page, with its plots. There are figures for each machine and workload.
fn page(studies: &[Results], figures: &[Figure], pictures: &[(String, String)]) -> Page {
    let mut page = Page::new("Overlapping reductions in virtual time");
    page.paragraph(&format!(
        "“Advanced Collective Communication in Aspen” (Ali, Pai and Midkiff, 2008) lets reductions overlap that have different \
         contributors and receivers. Its Figure 12 has the times of the program of its Figure 5, on {NODES} nodes. Here the \
         collectives of this framework run in virtual time, with one shard on each node. Every shard compares each of its sums with \
         a closed form. Nothing was fitted: times follow from the programs and from the machine's file, which gives a reason for \
         each number. The paper's text gives no times, only two ratios: concurrent reductions are more than twice as fast as MPI's, \
         and balance improves performance by up to 25 %."
    ));
    page.list(studies.iter().map(|study| format!("<b>{}</b>: {}", escaped(&study.machine), escaped(&study.about))));
    page.paragraph("Three workloads, with sums of vectors of 64-bit floats:");
    page.list(WORKS.iter().map(|work| format!("<b>{}</b>: {}", work.title, work.about)));
    page.paragraph(
        "Three programs compute the same. <b>One by one</b>: a reduction to the first receiver by a binomial tree, and a broadcast \
         to the others; then the next reduction. It stands for the paper's MPI and for its Aspen program in the style of MPI, since \
         the paper finds that both take the same time for a message. <b>Concurrent</b>: all reductions at the same time, each made \
         by itself. <b>Balanced</b>: all at the same time, made together by a plan, which chooses who sends to whom. The last \
         two reduce as in the paper's §3.2, but in the order of ranks. A time is the length of a call, from the moment when all begin until the last one has ended.",
    );
    page.section("Comparison with the paper");
    page.paragraph(
        "The first shape holds if concurrent reductions take at most 0.5 times as long as one by one. Balance holds if it takes at \
         most 0.8 times as long as without, at the size where it gains most. The paper has only its own program. The same limits apply to \
         the other two workloads here. The bands are the ratios when one number of \
         the machine is halved or doubled, and when all are.",
    );
    for study in studies {
        page.paragraph(&escaped(&study.machine));
        page.table(&verdicts::table(&study.verdicts));
    }
    if studies.iter().all(|study| study.times[0].last().is_some_and(|point| point.bytes == size_of::<f64>() * USUAL)) {
        what_came_out(studies).iter().for_each(|text| page.paragraph(text));
    }
    page.section("Plots");
    page.plots(pictures.iter().map(|(_, picture)| picture.as_str()));
    page.section("Times in microseconds");
    page.paragraph(
        "In parentheses is the band when any one number of the machine is halved or doubled. The columns “in a row” have the ratios \
         of the times per call if every node goes on to the next call at once. The last two have the ratios if empty arrivals took \
         no time. By them a reader says that a cell is free again. On aspen-gigabit there are none.",
    );
    let more = ["in a row", "without empty arrivals"]
        .map(|how| [CONCURRENT, BALANCED].map(|k| format!("{}, {how}", VALUES[k])));
    let more = more.concat();
    for figure in figures {
        page.paragraph(&escaped(&figure.title));
        page.table(&figure.table(["bytes"].into_iter().chain(VALUES).chain(more.iter().map(String::as_str))));
    }
    page.section("Shares of each number");
    page.paragraph(
        "The share of a number in a time is d ln(time) / d ln(number), between half and twice the number. Numbers without a share \
         are left out.",
    );
    for (study, figures) in studies.iter().zip(figures.chunks(WORKS.len())) {
        for (w, figure) in figures.iter().enumerate() {
            let ends = [figure.rows.first(), figure.rows.last()].into_iter().flatten();
            let names = ends.flat_map(|row| PROGRAMS.map(|name| format!("{name}, {} bytes", row.at)));
            let rows = study.shares.iter().map(|share| (share, share.of[2 * w..2 * w + 2].concat(), Vec::new()));
            let rows = rows.filter(|(_, shares, _)| shares.iter().any(|share| share_text(*share) != "-"));
            page.paragraph(&escaped(&figure.title));
            page.table(&report::shares(["number".into(), "value".into()].into_iter().chain(names), rows));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::runs::Job as _;
    use crate::figures::study::tests::bands_hold_the_values;

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
            // A vector of more than 4 KiB is on loan: in the end its owner is told that it has been read.
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
        let study = Results::make(&file, 4, 1, &mut Runs::default()).unwrap_or_else(|e| panic!("{e:?}"));
        // Nothing comes back on this machine.
        assert_eq!(study.unacknowledged, study.times);
        for (points, bands) in study.times.iter().zip(&study.bands) {
            assert_eq!(points.iter().map(|p| p.bytes).collect::<Vec<_>>(), [8, 32]);
            bands_hold_the_values(points, bands);
            for (point, [one, _]) in points.iter().zip(bands) {
                // The latency alone moves a time to both sides.
                assert!((0..3).all(|k| one[k].low < point.us[k] && point.us[k] < one[k].high), "{point:?}, {one:?}");
            }
        }
        for work in 0..WORKS.len() {
            for end in 0..2 {
                for k in 0..3 {
                    let sum: f64 = study.shares.iter().map(|share| share.of[2 * work + end][k]).sum();
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
