//! The three plots of a report and the fitted lines in them.

use super::fit::{Fit, Model};
use super::point::Point;
use super::sweep::Sweep;
use crate::measure::noise::Spread;
use crate::measure::plot::{BLUE, Chart, GREEN, Line, Marker, SHARDS, Series, VERMILION, svg};
use crate::measure::stats::microseconds;
use maniple_stencil::plural;

/// The number of shards to which models are extrapolated at least.
const HORIZON: usize = 4096;

/// The models fitted to the medians of the collective, as far as there are points for them.
pub fn fits(sweep: &Sweep, points: &[Point]) -> Vec<Fit> {
    let medians: Vec<_> = points.iter().map(|p| (p.shards, p.collective.median)).collect();
    let models = Model::of(sweep.config.collective);
    // If workers take turns on processors, no shard has one of its own.
    let models = models.into_iter().filter(|&model| model != Model::Spread || !sweep.takes_turns());
    models.filter_map(|model| Fit::of(model, &medians, sweep.config.processors())).collect()
}

/// A fit's coefficients for people.
pub fn coefficients(fit: &Fit) -> String {
    let alpha = format!("α′ = {} µs", microseconds(fit.alpha_us));
    if fit.model == Model::Spread { alpha } else { format!("{alpha}, κ = {} µs", microseconds(fit.kappa_us)) }
}

/// The number of points of a fit, and the factor by which they are off. A single point has no such factor.
pub fn quality(fit: &Fit) -> String {
    match fit.points {
        1 => "1 point".into(),
        points => format!("{points} points, off by ×{:.2}", fit.off_by),
    }
}

/// The numbers of shards that a fit is for.
pub fn scope(fit: &Fit) -> String {
    match (fit.model, fit.workers) {
        (Model::Spread, 2) => "P = W = 2 workers".into(),
        (Model::Spread, workers) => format!("2 ≤ P ≤ W = {workers} workers"),
        (_, workers) => format!("P > W = {}", plural(workers, "worker")),
    }
}

/// Draws the plots. Returns the names of files with their contents.
pub fn draw(sweep: &Sweep, points: &[Point], fits: &[Fit]) -> Result<[(&'static str, String); 3], String> {
    let subtitle = sweep.subtitle();
    let collective = sweep.config.collective;
    let bars = "median, bars from minimum to maximum";
    let series = |name: String, colour, marker, spread: fn(&Point) -> Spread| Series {
        name,
        colour,
        marker,
        points: points.iter().map(|p| (p.shards, spread(p))).collect(),
    };
    let one = series(format!("one collective: {bars}"), BLUE, Marker::Circle, |p| p.collective);
    let iteration = series(format!("one iteration with {collective}"), VERMILION, Marker::Square, |p| p.iteration);
    let baseline = series("one iteration of the baseline, aggregation".into(), GREEN, Marker::Triangle, |p| p.baseline);
    let ratio = series(format!("iteration of the baseline ÷ iteration: {bars}"), BLUE, Marker::Circle, |p| p.ratio);
    let values: Vec<_> = fits.iter().map(|fit| move |shards: f64| fit.at(shards)).collect();
    let lines = fits.iter().zip(&values).map(|(fit, at)| {
        let to = HORIZON.max(fit.largest);
        let first = points.iter().map(|p| p.shards).find(|&p| fit.model.covers(p, fit.workers)).unwrap_or(2);
        let beyond = if to > fit.largest { format!(", dashed: extrapolated to P = {to}") } else { String::new() };
        Line {
            name: format!("{}, {}; {}, {}{beyond}", fit.model.formula(), coefficients(fit), scope(fit), quality(fit)),
            colour: if fit.model == Model::Spread { GREEN } else { VERMILION },
            shards: [first, fit.largest, to],
            at,
            band: Vec::new(),
        }
    });
    let chart = |title: &str, vertical: &str, series, lines| {
        svg(&Chart { title, subtitle: &subtitle, horizontal: SHARDS, vertical, series, lines })
    };
    let title = format!("One collective inside the stencil, {collective}");
    let one = chart(&title, "time (µs)", vec![one], lines.collect())?;
    let inside = series(format!("one collective inside the iteration: {bars}"), BLUE, Marker::Circle, |p| p.collective);
    let title = format!("Weak scaling: {collective} and the aggregation baseline");
    let metrics = chart(&title, "time (µs)", vec![inside, iteration, baseline], vec![])?;
    let title = format!("How many times longer an iteration of the baseline takes than one with {collective}");
    let ratio = chart(&title, "ratio", vec![ratio], vec![])?;
    Ok([("collective.svg", one), ("metrics.svg", metrics), ("ratio.svg", ratio)])
}
