//! The figures of "Scalable collectives for distributed asynchronous many-task runtimes": the stencil in both versions.

mod page;
mod stencil;

use super::FiguresOptions;
use super::changes::{Band, Change, numbers};
use super::curves::{self, Curve, ORANGE, PURPLE, Plot, Values, exactly, model};
use super::report::{self, Figure, Row, fields, points_csv};
use super::runs::{Runs, machine_of};
use super::study::{self, Figures, Share, Study};
use crate::calibrate::RUNS;
use crate::calibrate::prediction::{self, Program};
use crate::calibrate::rows;
use indicatif::ProgressBar;
use maniple::runtime::VirtualMachine;
use maniple_command::Failure;
use maniple_command::files::Files;
use maniple_command::machines::file::MachineFile;
use maniple_command::machines::reduced::is_without_costs;
use maniple_command::measure::directory::{Directory, pretty};
use maniple_command::measure::noise::Spread;
use maniple_command::measure::plot::{BLUE, GREEN, Marker, Series, VERMILION};
use maniple_command::options::CELLS;
use maniple_command::options::numbers::check_memory;
use maniple_command::output::{Line, Stdout, quoted};
use maniple_command::stencil::session::Config;
use maniple_stencil::{Collective, plural};
use serde::{Serialize, Serializer};
use serde_json::json;
use std::fmt::Write;
use stencil::{Job, Took, WHOLE};

/// The largest number of shards, more than would fit into any host.
const MOST: usize = 1 << 24;

/// Networks of today. The nodes on them have the framework's own costs.
const NETWORKS: [&str; 3] = ["infiniband", "slingshot", "ethernet"];

/// The names of results, in the order of columns.
const NAMES: [&str; 4] = ["collective", "iteration", "baseline", "ratio"];

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
}

impl study::Point for Point {
    fn at(&self) -> usize {
        self.shards
    }

    /// Collective, iteration, baseline and ratio.
    fn values(&self) -> Vec<f64> {
        vec![self.collective_us, self.iteration_us, self.baseline_us, self.ratio()]
    }
}

/// A curve of another algorithm.
#[derive(Serialize)]
struct Variant {
    name: String,
    /// Numbers of shards, with their times.
    points: Vec<(usize, Took)>,
}

/// All results.
#[derive(Serialize)]
struct Results {
    machine: String,
    about: String,
    /// The times of both versions.
    points: Vec<Point>,
    /// For the paper's numbers of shards, the bands of collective, iteration, baseline and ratio: any one number of the machine is
    /// halved or doubled.
    bands: Vec<Vec<Band>>,
    /// The bands when all numbers change at once: at random, and so that the ratio grows most and least.
    wide_bands: Vec<Vec<Band>>,
    draws: usize,
    /// Growth of the ratio from the paper's smallest to its largest number of shards.
    growth: f64,
    growth_band: Band,
    growth_wide_band: Band,
    /// Slope of log(baseline) over log(P), from 64 shards to the paper's largest number, and to the largest of all.
    slopes: [f64; 2],
    /// The share of each number at the smallest number of shards and at the largest of the paper, and the growth with half and
    /// with twice the number.
    #[serde(serialize_with = "with_growth")]
    shares: Vec<(Share, [f64; 2])>,
    /// The times with replay of rounds that were mapped before.
    replayed: Vec<Point>,
    /// An optimised MPI allreduce on the same network (Figure 5).
    mpi: Values,
    /// Other algorithms on the same machine.
    variants: Vec<Variant>,
    /// The times with the framework's own costs, on networks of today.
    networks: Vec<(String, Vec<Point>)>,
    /// Predicted times beside times on threads of this host.
    predictions: Vec<rows::Row>,
}

fn with_growth<S: Serializer>(shares: &[(Share, [f64; 2])], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(shares.iter().map(|(Share { number, value, of }, growth)| {
        json!({"number": number, "value": value, "smallest": of[0], "largest": of[1], "growth": growth})
    }))
}

/// The machines of the runs.
struct Machines {
    own: MachineFile,
    /// It stands for MPI on the same network.
    mpi: MachineFile,
    /// Machines on networks of today.
    networks: Vec<MachineFile>,
}

/// The points of both versions on a machine that depends on the number of shards.
fn measure(
    counts: &[usize],
    runs: &mut Runs<Job>,
    machine: impl Fn(usize) -> VirtualMachine,
) -> Result<Vec<Point>, Failure> {
    Ok(points(counts, &runs.all(&both(counts, machine))?))
}

impl Machines {
    fn mpi(&self, counts: &[usize], runs: &mut Runs<Job>) -> Result<Values, Failure> {
        let job = |&p: &usize| Job::new(machine_of(&self.mpi, p), p, Collective::RecursiveDoubling);
        let took = runs.all(&counts.iter().map(job).collect::<Vec<_>>())?;
        Ok(counts.iter().copied().zip(took.iter().map(|took| took.collective_us)).collect())
    }

    /// The results of the paper's numbers of shards up to `to`, without predictions.
    fn measure(&self, to: usize, draws: usize, runs: &mut Runs<Job>) -> Result<Results, Failure> {
        let counts = counts(to.min(WHOLE));
        let here = |p: usize| machine_of(&self.own, p);
        let of = |figures: &Figures<Point>| growth(&figures[0]);
        let study = Study::make(numbers(here(counts[0])), draws, [&of as _].into_iter(), |changes| {
            let changed = |change| both(&counts, |p| Change::of(change, here(p), str::to_owned));
            let took = runs.all(&changes.iter().flat_map(changed).collect::<Vec<_>>())?;
            Ok(took.chunks_exact(2 * counts.len()).map(|took| vec![points(&counts, took)]).collect())
        })?;
        let points = study.figures()[0].clone();
        let [growth_band, growth_wide_band] = study.band(of);
        let (bands, wide_bands) = study.bands().remove(0).into_iter().map(|[one, all]| (one, all)).unzip();
        let shares = study.shares(&[(0, 0), (0, counts.len() - 1)], NAMES.len());
        let as_elsewhere = Variant {
            name: format!("iterations launched {} ahead, as in the other figures", Config::default().ahead),
            points: points.iter().map(Point::took).collect(),
        };
        let mut all = vec![as_elsewhere];
        for (name, job) in variants(&self.own) {
            let took = runs.all(&counts.iter().map(|&p| job(p)).collect::<Vec<_>>())?;
            all.push(Variant { name, points: counts.iter().copied().zip(took).collect() });
        }
        let network = |file: &MachineFile| Ok((file.name.clone(), measure(&counts, runs, |p| machine_of(file, p))?));
        let networks = self.networks.iter().map(network).collect::<Result<_, Failure>>()?;
        let mut results = Results {
            machine: self.own.name.clone(),
            about: self.own.about.clone(),
            points,
            bands,
            wide_bands,
            draws,
            growth: of(study.figures()),
            growth_band,
            growth_wide_band,
            slopes: [0.0; 2],
            shares: shares.into_iter().zip(study.with_each(of)).collect(),
            replayed: measure(&counts, runs, |p| VirtualMachine { replay: true, ..here(p) })?,
            mpi: self.mpi(&counts, runs)?,
            variants: all,
            networks,
            predictions: Vec::new(),
        };
        results.find_slopes();
        Ok(results)
    }

    /// Adds the points of more shards.
    fn extend(&self, results: &mut Results, shards: usize, runs: &mut Runs<Job>) -> Result<(), Failure> {
        results.points.extend(measure(&[shards], runs, |p| machine_of(&self.own, p))?);
        results.mpi.extend(self.mpi(&[shards], runs)?);
        results.find_slopes();
        Ok(())
    }
}

impl Results {
    fn find_slopes(&mut self) {
        let points = &self.points;
        self.slopes = [WHOLE, MOST].map(|to| slope(points.iter().filter(move |p| (64..=to).contains(&p.shards))));
    }

    /// The first point, and the last one of the paper's.
    fn ends(&self) -> [&Point; 2] {
        [&self.points[0], &self.points[self.bands.len() - 1]]
    }

    /// The figure with all curves of both versions.
    fn figure(&self) -> Figure {
        let row = |(i, point): (usize, &Point)| {
            let bands = self
                .bands
                .get(i)
                .zip(self.wide_bands.get(i))
                .map(|(one, all): (&Vec<_>, &Vec<_>)| [one.clone(), all.clone()]);
            Row::new(point, bands.as_ref())
        };
        let title = format!("stencil on {} in virtual time; times in µs", self.machine);
        Figure { title, key: String::new(), rows: self.points.iter().enumerate().map(row).collect() }
    }

    /// All other curves, by their names in the file of points.
    fn others(&self) -> Vec<(String, Values)> {
        let iteration = |p: &Point| (p.shards, p.iteration_us);
        let mut all = vec![
            ("replayed iteration_us".into(), self.replayed.iter().map(iteration).collect()),
            ("mpi allreduce_us".into(), self.mpi.clone()),
        ];
        for Variant { name, points } in &self.variants {
            all.push((
                format!("{name} iteration_us"),
                points.iter().map(|(p, took)| (*p, took.iteration_us)).collect(),
            ));
        }
        for (name, points) in &self.networks {
            all.push((format!("{name} iteration_us"), points.iter().map(iteration).collect()));
            all.push((format!("{name} ratio"), points.iter().map(|p| (p.shards, p.ratio())).collect()));
        }
        all
    }

    fn plots(&self) -> Vec<Plot> {
        let (figure, machine) = (self.figure(), &self.machine);
        let on = format!("on {machine}, one shard per node; bands: each number of the machine halved and doubled");
        let log = |curve: &Curve| Curve::new("log₂P, from the first point", GREEN, model(&curve.points, f64::log2));
        let single = |file: &str, title: &str, k: usize| {
            let own = figure.curve(title, BLUE, k);
            let ideal = match NAMES[k] {
                "baseline" => Curve::new("P, from the first point", GREEN, model(&own.points, |p| p)),
                _ => log(&own),
            };
            Plot::new(file, title, &on, vec![own, ideal])
        };
        let mpi = Curve::new("MPI allreduce", VERMILION, self.mpi.clone());
        let mut ours = figure.curve(format!("one collective on {machine}"), BLUE, 0);
        ours.band.clear();
        let mut mapped = figure.curve("rounds launched and mapped each time", BLUE, 1);
        mapped.band.clear();
        mapped.points.truncate(self.bands.len());
        let reported = Series {
            name: "reported: about 5 at 16 nodes, about 75 at 512".into(),
            colour: VERMILION,
            marker: Marker::Circle,
            points: vec![(16, exactly(5.0)), (512, exactly(75.0))],
        };
        let iterations = |points: &[Point]| points.iter().map(|p| (p.shards, p.iteration_us)).collect::<Values>();
        let colours = [BLUE, VERMILION, GREEN, PURPLE, ORANGE];
        let variants = self.variants.iter().zip(colours).map(|(Variant { name, points }, colour)| {
            Curve::new(name.clone(), colour, points.iter().map(|(p, took)| (*p, took.iteration_us)).collect())
        });
        let beside = format!("MPI on titan-mpi, the collective on {machine}, one shard per node");
        let ratio = figure.curve("baseline ÷ iteration", BLUE, 3);
        let mut plots = vec![
            single("figure4.svg", "Figure 4: one collective inside the stencil", 0),
            Plot::new("figure5.svg", "Figure 5: the allreduce by MPI", &beside, {
                let log = log(&mpi);
                vec![mpi, log, ours]
            }),
            single("figure6.svg", "Figure 6: one iteration of the stencil", 1),
            single("figure8.svg", "Figure 8: one iteration with the aggregation region", 2),
            Plot {
                series: vec![reported],
                ..Plot::new("ratio.svg", "How many times longer the baseline takes", &on, vec![ratio]).ratios()
            },
            Plot::new(
                "replay.svg",
                "One iteration, with and without replay of mapped rounds",
                &on,
                vec![mapped, Curve::new("rounds replayed", VERMILION, iterations(&self.replayed))],
            ),
            Plot::new(
                "variants.svg",
                "One iteration with other algorithms",
                &format!("on {machine}, with the numbers in its file"),
                variants.collect(),
            ),
        ];
        if !self.networks.is_empty() {
            let curves = |of: fn(&Point) -> f64| {
                let curve = |((name, points), colour): (&(String, Vec<Point>), _)| {
                    Curve::new(name.clone(), colour, points.iter().map(|p| (p.shards, of(p))).collect())
                };
                self.networks.iter().zip(colours).map(curve).collect()
            };
            let subtitle = "costs of this framework as measured on one host, one shard per node";
            let title = "One iteration on networks of today";
            plots.push(Plot::new("networks.svg", title, subtitle, curves(|p| p.iteration_us)));
            let title = "How many times longer the baseline takes on networks of today";
            plots.push(Plot::new("networks-ratio.svg", title, subtitle, curves(Point::ratio)).ratios());
        }
        for (name, title) in [("allreduce", "an allreduce of 8 bytes"), ("stencil", "an iteration of the stencil")] {
            let rows: Vec<&rows::Row> = self.predictions.iter().filter(|row| row.program == name).collect();
            if rows.is_empty() {
                continue;
            }
            let spread = |row: &&rows::Row| {
                let (min, [.., max]) = (row.measured_us, row.quartiles_us);
                (row.shards, Spread { min, median: min, max, kept: row.runs, dropped: 0 })
            };
            let measured = Series {
                name: "on threads: lower decile, bars up to the upper quartile of the runs".into(),
                colour: VERMILION,
                marker: Marker::Circle,
                points: rows.iter().map(spread).collect(),
            };
            let predicted = rows.iter().map(|row| (row.shards, row.predicted_us)).collect();
            let curves = vec![Curve::new("in virtual time, from single operations", BLUE, predicted)];
            let title = format!("Predicted and measured: {title} on threads");
            let on = "on threads of this host and on the machine that describes it";
            plots.push(Plot {
                series: vec![measured],
                ..Plot::new(&format!("predicted-{name}.svg"), title, on, curves)
            });
        }
        plots.into_iter().map(|plot| Plot { solid: WHOLE, ..plot }).collect()
    }

    /// Writes all files.
    fn write(&self, directory: &Directory) -> Result<(), Failure> {
        let figure = self.figure();
        let pictures = curves::draw(self.plots())?;
        let curves = ["collective_us", "iteration_us", "baseline_us", "ratio"];
        let mut points = points_csv("", "shards", &curves, std::slice::from_ref(&figure));
        for (curve, values) in self.others() {
            for (p, value) in values {
                let _ = writeln!(points, "{},{p},{value:?},,,,", quoted(&curve));
            }
        }
        let heads = self.ends().map(|p| NAMES.map(|name| format!("{name}_{}", p.shards)).join(",")).join(",");
        let mut shares = format!("number,value,{heads},growth_half,growth_twice\n");
        for (Share { number, value, of }, growth) in &self.shares {
            let values = fields(of.iter().flatten().chain(growth));
            let _ = writeln!(shares, "{},{value:?},{values}", quoted(number));
        }
        let predictions = self.predictions.iter().map(|row| row.fields().csv());
        let predictions = rows::Row::default().fields().csv_header() + &predictions.collect::<String>();
        let files = [
            ("points.csv", points),
            ("shares.csv", shares),
            ("predictions.csv", predictions),
            ("figures.json", pretty(self)?),
        ];
        report::write(directory, page::page(self, &figure, &pictures), &pictures, &files)
    }
}

/// The paper's numbers of shards up to `to`, and beyond them 1024 times each power of four.
fn counts(to: usize) -> Vec<usize> {
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

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    let to = args.to.unwrap_or(1 << 20);
    let machine_name = args.machine.as_deref().unwrap_or("titan-legion");
    if to < 128 {
        let expected = "at least 128, for a slope from 64 shards on";
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    if to > MOST {
        return Err(Failure::Usage(format!("--to: expected at most {MOST}, found {to}")));
    }
    if counts(to).last() != Some(&to) {
        let expected = "128, 256, 512, 1024, or 1024 times a power of four";
        return Err(Failure::Usage(format!("--to: expected {expected}, found {to}")));
    }
    let machine = MachineFile::load(machine_name)?;
    if machine.machine(None, 32).nodes != 32 {
        let expected = "a machine with as many nodes as a run has shards";
        return Err(Failure::Usage(format!("--machine: expected {expected}, found nodes.count in `{}`", machine.name)));
    }
    let some = machine.machine(None, 16);
    some.check().map_err(|e| Failure::Usage(e.to_string()))?;
    if is_without_costs(&some) {
        let name = &machine.name;
        return Err(Failure::Usage(format!(
            "--machine: nothing takes any time on `{name}`, so there is nothing to draw"
        )));
    }
    let mpi = MachineFile::load("titan-mpi")?;
    let networks: Vec<MachineFile> = NETWORKS.iter().map(|name| MachineFile::load(name)).collect::<Result<_, _>>()?;
    let host = args.host.as_deref().map(MachineFile::load_host).transpose()?;
    let most = Job::new(machine_of(&machine, to), to, Collective::RecursiveDoubling);
    check_memory(&plural(to, "shard"), to, most.bytes() / to as u128)?;
    let named = |machine| MachineFile::path(machine);
    let files =
        Files::new().reads("--machine", named(machine_name)).reads("--host", args.host.as_deref().and_then(named));
    files.fills("--output", Some(&args.output)).check()?;
    let directory = Directory::prepare(&args.output)?;
    let mut runs = Runs::default();
    let machines = Machines { own: machine, mpi, networks };
    let mut results = machines.measure(to, args.draws, &mut runs)?;
    results.predictions = predict(args, host.as_ref(), &directory, &runs.progress)?;
    results.write(&directory)?;
    // Larger runs take much longer. The results so far are in the directory already.
    for larger in counts(to).into_iter().filter(|&p| p > WHOLE) {
        machines.extend(&mut results, larger, &mut runs)?;
        results.write(&directory)?;
    }
    runs.progress.finish_and_clear();
    Stdout::lock().write(&page::summary(&results, &args.output))
}

/// Measures programs on threads of this host, beside their times in virtual time.
fn predict(
    args: &FiguresOptions,
    host: Option<&MachineFile>,
    directory: &Directory,
    progress: &ProgressBar,
) -> Result<Vec<rows::Row>, Failure> {
    let repeat = args.repeat.unwrap_or(RUNS);
    if repeat == 0 {
        return Ok(Vec::new());
    }
    progress.set_message("predictions beside measurements");
    let found = prediction::predict(&prediction::ToPredict {
        machine: host,
        programs: vec![Program::Allreduce, Program::Stencil],
        shards: (1..10).map(|i| 1 << i).collect(),
        cells: CELLS,
        repeat,
    })?;
    if let Some(text) = &found.host {
        directory.write("host.toml", text)?;
    }
    Ok(found.rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::study::Point as _;

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
        let took = Runs::default().all(&jobs).unwrap_or_else(|e| panic!("{e:?}"));
        let (own, others) = took.split_at(2 * counts.len());
        let points = points(&counts, own);
        let said = include_str!("../../../../command/machines/README.md").replace(',', "");
        for point in &points {
            let [collective, iteration, baseline, ratio] = point.values()[..] else { unreachable!() };
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
        let machines = Machines { own: load("titan-legion"), mpi: load("titan-mpi"), networks: Vec::new() };
        let study = machines.measure(32, 0, &mut Runs::default()).unwrap_or_else(|e| panic!("{e:?}"));
        let (one, all) = (study.growth_band, study.growth_wide_band);
        assert!(all.low < one.low && one.low < study.growth, "{one:?} {all:?}");
        assert!(study.growth < one.high && one.high < all.high, "{one:?} {all:?}");
        let names: Vec<&str> = study.shares.iter().map(|(s, _)| s.number.as_str()).collect();
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
