//! The report: the findings, tables for programs, and a summary for the terminal.

use super::study::{Point, Study};
use crate::calibrate::rows::{Errors, Row};
use crate::figures::changes::{Band, share_text};
use maniple_command::measure::stats::microseconds;
use maniple_command::output::{Line, quoted, styled};
use std::fmt::Write;
use std::path::Path;
use tabled::builder::Builder;

/// The findings: what is compared, the paper's value, and the value here.
pub fn findings(study: &Study) -> Vec<(&'static str, String, String)> {
    let at_last = study.bands.len() - 1;
    let (first, last) = (study.points[0], study.points[at_last]);
    let range = |b: Band| format!("{} to {}", microseconds(b.low), microseconds(b.high));
    let at = |i: usize| {
        let (point, narrow, wide) = (study.points[i], study.bands[i][3], study.wide_bands[i][3]);
        format!(
            "{} at {} (one number halved or doubled: {}; all numbers at once: {})",
            microseconds(point.ratio()),
            point.shards,
            range(narrow),
            range(wide)
        )
    };
    let part = |p: Point| microseconds(p.iteration_us / p.collective_us);
    let grows = |of: fn(&Point) -> f64| microseconds(of(&last) / of(&first));
    let logs = microseconds((last.shards as f64).log2() / (first.shards as f64).log2());
    let slopes = match study.points.len() > study.bands.len() {
        true => format!(", {:.3} up to the largest number", study.slopes[1]),
        false => String::new(),
    };
    let shards = |p: Point| p.shards;
    let mpi = |i: usize| study.mpi[i].1;
    vec![
        (
            "collective (Figure 4)",
            "about as log₂P".into(),
            format!("from {} to {} shards ×{}; log₂P ×{logs}", first.shards, last.shards, grows(|p| p.collective_us)),
        ),
        (
            "an optimised MPI allreduce (Figure 5)",
            "in general less than the collective".into(),
            format!(
                "on titan-mpi, the collective takes {} times as long at {} and {} times at {}; MPI's allreduce grows ×{} between",
                microseconds(first.collective_us / mpi(0)),
                shards(first),
                microseconds(last.collective_us / mpi(at_last)),
                shards(last),
                microseconds(mpi(at_last) / mpi(0))
            ),
        ),
        (
            "iteration (Figure 6)",
            "about twice the collective".into(),
            format!(
                "{} times the collective at {}, {} times at {}",
                part(first),
                shards(first),
                part(last),
                shards(last)
            ),
        ),
        (
            "baseline (Figure 8)",
            "about linear".into(),
            format!("slope of log(time) over log(P) from 64 shards on: {:.3}{slopes}", study.slopes[0]),
        ),
        ("baseline ÷ iteration, smallest number of shards", "about 5 at 16".into(), at(0)),
        ("baseline ÷ iteration, largest number in the paper", "about 75 at 512".into(), at(at_last)),
        (
            "cost of a relaunch that would give the paper's ratios",
            "-".into(),
            match shards(last) {
                512 => format!(
                    "{} times the cost here at 16, {} times at 512",
                    microseconds(5.0 / first.ratio()),
                    microseconds(75.0 / last.ratio())
                ),
                fewer => format!("not known, since runs ended at {fewer}"),
            },
        ),
        (
            "growth of that ratio",
            "about 15, from 16 to 512".into(),
            format!(
                "{} from {} to {} (one number halved or doubled: {}; all numbers at once: {})",
                microseconds(study.growth),
                first.shards,
                last.shards,
                range(study.growth_band),
                range(study.growth_wide_band)
            ),
        ),
    ]
}

/// The names of results, in the order of columns.
pub const NAMES: [&str; 4] = ["collective", "iteration", "baseline", "ratio"];

/// The CSV of all curves: a line for each curve and number of shards.
pub fn points_csv(study: &Study) -> String {
    let mut text = String::from("curve,shards,value,low,high,wide_low,wide_high\n");
    let mut line = |curve: &str, shards: usize, value: f64, bands: Option<(Band, Band)>| {
        let bands = bands.map_or(",,,".into(), |(b, w)| format!("{:?},{:?},{:?},{:?}", b.low, b.high, w.low, w.high));
        let _ = writeln!(text, "{},{shards},{value:?},{bands}", quoted(curve));
    };
    for (i, point) in study.points.iter().enumerate() {
        for (k, name) in NAMES.into_iter().enumerate() {
            let unit = if k < 3 { format!("{name}_us") } else { name.into() };
            let bands = study.bands.get(i).zip(study.wide_bands.get(i)).map(|(b, w)| (b[k], w[k]));
            line(&unit, point.shards, point.values()[k], bands);
        }
    }
    study.replayed.iter().for_each(|p| line("replayed iteration_us", p.shards, p.iteration_us, None));
    study.mpi.iter().for_each(|&(p, us)| line("mpi allreduce_us", p, us, None));
    for variant in &study.variants {
        variant
            .points
            .iter()
            .for_each(|(p, t)| line(&format!("{} iteration_us", variant.name), *p, t.iteration_us, None));
    }
    for (name, points) in &study.networks {
        points.iter().for_each(|p| line(&format!("{name} iteration_us"), p.shards, p.iteration_us, None));
        points.iter().for_each(|p| line(&format!("{name} ratio"), p.shards, p.ratio(), None));
    }
    text
}

/// The CSV of shares: a line for each number of the machine.
pub fn shares_csv(study: &Study) -> String {
    let ends = [study.points[0].shards, study.points[study.bands.len() - 1].shards];
    let heads: Vec<String> = ends.iter().flat_map(|p| NAMES.map(|name| format!("{name}_{p}"))).collect();
    let mut text = format!("number,value,{},growth_half,growth_twice\n", heads.join(","));
    for s in &study.shares {
        let values = s.smallest.iter().chain(&s.largest).chain(&s.growth).map(|v| format!("{v:?}"));
        let _ = writeln!(text, "{},{:?},{}", quoted(&s.number), s.value, values.collect::<Vec<_>>().join(","));
    }
    text
}

/// The CSV of predictions: a line for each program and number of shards.
pub fn predictions_csv(study: &Study) -> String {
    let lines = study.predictions.iter().map(|row| row.fields().csv());
    Row::default().fields().csv_header() + &lines.collect::<String>()
}

/// The summary for the terminal.
pub fn summary(study: &Study, output: &Path) -> String {
    let mut rows = Builder::default();
    rows.push_record(["shards", "collective", "iteration", "baseline", "ratio", "ratio's band"]);
    for (i, p) in study.points.iter().enumerate() {
        let band = study
            .bands
            .get(i)
            .map_or(String::new(), |b| format!("{} to {}", microseconds(b[3].low), microseconds(b[3].high)));
        let mut row = vec![p.shards.to_string()];
        row.extend(p.values().map(microseconds));
        row.push(band);
        rows.push_record(row);
    }
    let mut text = format!("stencil on {} in virtual time; times in µs\n{}\n", study.machine, styled(rows, 0));
    for (what, paper, here) in findings(study) {
        let _ = writeln!(text, "{what}: {here}; the paper: {paper}");
    }
    let mut shares: Vec<_> = study.shares.iter().collect();
    shares.sort_by(|a, b| b.largest[3].abs().total_cmp(&a.largest[3].abs()));
    let most = shares.iter().take(5).map(|s| format!("{} {}", s.number, share_text(s.largest[3])));
    let _ = writeln!(
        text,
        "largest shares in the ratio, at the paper's largest number of shards: {}",
        most.collect::<Vec<_>>().join(", ")
    );
    if !study.predictions.is_empty() {
        let errors = Errors::of(&study.predictions, Row::error);
        let Errors { middle, worst } = Errors::of(&study.predictions, Row::error_of_median);
        let _ = writeln!(
            text,
            "predictions for 2 to 512 shards on threads, lower deciles: {errors}; against the runs' medians: median error \
             {middle:.1} %, worst {worst:.1} %"
        );
    }
    text + &format!("report: {}\n", output.join("index.html").display())
}
