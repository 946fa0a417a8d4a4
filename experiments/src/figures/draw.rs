//! The plots of the figures.

use super::runs::WHOLE;
use super::study::{Band, Point, Study};
use crate::calibrate::rows::Row;
use crate::measure::noise::Spread;
use crate::measure::plot::{BLUE, Chart, GREEN, Line, Marker, Series, VERMILION, svg};
use plotters::style::RGBColor;

/// The colours of a fourth and a fifth line.
const PURPLE: RGBColor = RGBColor(204, 121, 167);
const ORANGE: RGBColor = RGBColor(230, 159, 0);

/// Numbers of shards, with their values.
type Values = Vec<(usize, f64)>;

/// The value between two points, on a straight line in logarithmic axes.
fn between(points: &Values, at: f64) -> f64 {
    let after = points.iter().position(|p| p.0 as f64 >= at).unwrap_or(points.len() - 1).max(1);
    let [(p, v), (q, w)] = [points[after - 1], points[after]];
    let part = (at / p as f64).ln() / (q as f64 / p as f64).ln();
    v * (w / v).powf(part)
}

/// A curve.
struct Curve {
    name: String,
    colour: RGBColor,
    points: Values,
    band: Vec<(usize, f64, f64)>,
}

impl Curve {
    fn new(name: impl Into<String>, colour: RGBColor, points: Values) -> Self {
        Self { name: name.into(), colour, points, band: Vec::new() }
    }
}

/// The values of a model that goes through the first point.
fn model(points: &Values, growth: impl Fn(f64) -> f64) -> Values {
    let (first, value) = points[0];
    points.iter().map(|&(p, _)| (p, value * growth(p as f64) / growth(first as f64))).collect()
}

fn exactly(value: f64) -> Spread {
    Spread::of([value])
}

fn chart(title: &str, subtitle: &str, vertical: &str, curves: &[Curve], series: Vec<Series>) -> Result<String, String> {
    let at: Vec<_> = curves.iter().map(|c| |shards: f64| between(&c.points, shards)).collect();
    let lines = curves.iter().zip(&at).map(|(c, at)| {
        let last = c.points.last().map_or(1, |p| p.0);
        let shards = [c.points[0].0, last.min(WHOLE), last];
        Line { name: c.name.clone(), colour: c.colour, shards, at, band: c.band.clone() }
    });
    svg(&Chart { title, subtitle, vertical, series, lines: lines.collect() })
}

/// Draws all plots. Returns the names of files with their contents.
pub fn all(study: &Study) -> Result<Vec<(&'static str, String)>, String> {
    let on = format!("on {}, one shard per node; bands: each number of the machine halved and doubled", study.machine);
    let beside = format!("MPI on titan-mpi, the collective on {}, one shard per node", study.machine);
    let values =
        |points: &[Point], of: fn(&Point) -> f64| -> Values { points.iter().map(|p| (p.shards, of(p))).collect() };
    let banded = |mut curve: Curve, which: usize| {
        let band = |(point, bands): (&Point, &[Band; 4])| (point.shards, bands[which].low, bands[which].high);
        curve.band = study.points.iter().zip(&study.bands).map(band).collect();
        curve
    };
    let log = |curve: &Curve| Curve::new("log₂P, from the first point", GREEN, model(&curve.points, f64::log2));
    let single = |title: &str, of: fn(&Point) -> f64, which: usize, ideal: Option<Curve>| {
        let own = banded(Curve::new(title, BLUE, values(&study.points, of)), which);
        let ideal = ideal.unwrap_or_else(|| log(&own));
        chart(title, &on, "time (µs)", &[own, ideal], Vec::new())
    };
    let linear = model(&values(&study.points, |p| p.baseline_us), |p| p);
    let mpi = Curve::new("MPI allreduce", VERMILION, study.mpi.clone());
    let mpi_log = log(&mpi);
    let ours =
        Curve::new(format!("one collective on {}", study.machine), BLUE, values(&study.points, |p| p.collective_us));
    let ratio = banded(Curve::new("baseline ÷ iteration", BLUE, values(&study.points, Point::ratio)), 3);
    let reported = Series {
        name: "reported: about 5 at 16 nodes, about 75 at 512".into(),
        colour: VERMILION,
        marker: Marker::Circle,
        points: vec![(16, exactly(5.0)), (512, exactly(75.0))],
    };
    let replayed = |of| Curve::new("rounds replayed", VERMILION, values(&study.replayed, of));
    let paper = |of: fn(&Point) -> f64| values(&study.points[..study.bands.len()], of);
    let colours = [BLUE, VERMILION, GREEN, PURPLE, ORANGE];
    let variants = study.variants.iter().zip(colours).map(|(v, colour)| {
        Curve::new(v.name.clone(), colour, v.points.iter().map(|(p, took)| (*p, took.iteration_us)).collect())
    });
    let mut pictures = vec![
        ("figure4.svg", single("Figure 4: one collective inside the stencil", |p| p.collective_us, 0, None)?),
        (
            "figure5.svg",
            chart("Figure 5: the allreduce by MPI", &beside, "time (µs)", &[mpi, mpi_log, ours], Vec::new())?,
        ),
        ("figure6.svg", single("Figure 6: one iteration of the stencil", |p| p.iteration_us, 1, None)?),
        (
            "figure8.svg",
            single(
                "Figure 8: one iteration with the aggregation region",
                |p| p.baseline_us,
                2,
                Some(Curve::new("P, from the first point", GREEN, linear)),
            )?,
        ),
        ("ratio.svg", chart("How many times longer the baseline takes", &on, "ratio", &[ratio], vec![reported])?),
        (
            "replay.svg",
            chart(
                "One iteration, with and without replay of mapped rounds",
                &on,
                "time (µs)",
                &[
                    Curve::new("rounds launched and mapped each time", BLUE, paper(|p| p.iteration_us)),
                    replayed(|p| p.iteration_us),
                ],
                Vec::new(),
            )?,
        ),
        (
            "variants.svg",
            chart(
                "One iteration with other algorithms",
                &format!("on {}, with the numbers in its file", study.machine),
                "time (µs)",
                &variants.collect::<Vec<_>>(),
                Vec::new(),
            )?,
        ),
    ];
    if !study.networks.is_empty() {
        let curves = |of: fn(&Point) -> f64| -> Vec<Curve> {
            let curve = |((name, points), colour): (&(String, Vec<Point>), _)| {
                Curve::new(name.clone(), colour, values(points, of))
            };
            study.networks.iter().zip(colours).map(curve).collect()
        };
        let subtitle = "costs of this framework as measured on one host, one shard per node";
        let title = "One iteration on networks of today";
        pictures.push(("networks.svg", chart(title, subtitle, "time (µs)", &curves(|p| p.iteration_us), Vec::new())?));
        let title = "How many times longer the baseline takes on networks of today";
        pictures.push(("networks-ratio.svg", chart(title, subtitle, "ratio", &curves(Point::ratio), Vec::new())?));
    }
    for (name, file, title) in [
        ("allreduce", "predicted-allreduce.svg", "Predicted and measured: an allreduce of 8 bytes on threads"),
        ("stencil", "predicted-stencil.svg", "Predicted and measured: an iteration of the stencil on threads"),
    ] {
        let rows: Vec<&Row> = study.predictions.iter().filter(|row| row.program == name).collect();
        if rows.is_empty() {
            continue;
        }
        let predicted = rows.iter().map(|row| (row.shards, row.predicted_us)).collect();
        let spread = |row: &&Row| {
            let (min, [.., max]) = (row.measured_us, row.quartiles_us);
            (row.shards, Spread { min, median: min, max, kept: row.runs, dropped: 0 })
        };
        let measured = Series {
            name: "on threads: lower decile, bars up to the upper quartile of the runs".into(),
            colour: VERMILION,
            marker: Marker::Circle,
            points: rows.iter().map(spread).collect(),
        };
        let curves = [Curve::new("in virtual time, from single operations", BLUE, predicted)];
        pictures.push((
            file,
            chart(
                title,
                "on threads of this host and on the machine that describes it",
                "time (µs)",
                &curves,
                vec![measured],
            )?,
        ));
    }
    Ok(pictures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_go_through_their_points_and_straight_between() {
        let points = vec![(4, 1.0), (16, 4.0), (64, 100.0)];
        for &(p, value) in &points {
            assert!((between(&points, p as f64) / value - 1.0).abs() < 1e-12);
        }
        assert!((between(&points, 8.0) - 2.0).abs() < 1e-12);
        assert!((between(&points, 32.0) - 20.0).abs() < 1e-12);
        assert_eq!(model(&points, |p| p), [(4, 1.0), (16, 4.0), (64, 16.0)]);
    }
}
