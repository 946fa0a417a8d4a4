//! The plots of the figures.

use super::stencil::WHOLE;
use super::study::{Point, Study};
use crate::calibrate::rows::Row;
use crate::figures::changes::Band;
use crate::figures::curves::{self, Curve, ORANGE, PURPLE, Texts, Values, exactly, model};
use maniple_command::measure::noise::Spread;
use maniple_command::measure::plot::{BLUE, GREEN, Marker, SHARDS, Series, VERMILION};

fn chart(title: &str, subtitle: &str, vertical: &str, curves: &[Curve], series: Vec<Series>) -> Result<String, String> {
    curves::chart(Texts { title, subtitle, horizontal: SHARDS, vertical }, WHOLE, curves, series)
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
