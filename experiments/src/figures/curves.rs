//! Plots of curves with bands, as the figures have them.

use maniple_command::measure::noise::Spread;
use maniple_command::measure::plot::{Chart, Line, Series, svg};
use plotters::style::RGBColor;

/// The colours of a fourth and a fifth line.
pub const PURPLE: RGBColor = RGBColor(204, 121, 167);
/// The last of them.
pub const ORANGE: RGBColor = RGBColor(230, 159, 0);

/// Numbers of shards, with their values.
pub type Values = Vec<(usize, f64)>;

/// The value between two points, on a straight line in logarithmic axes.
pub fn between(points: &Values, at: f64) -> f64 {
    let after = points.iter().position(|p| p.0 as f64 >= at).unwrap_or(points.len() - 1).max(1);
    let [(p, v), (q, w)] = [points[after - 1], points[after]];
    let part = (at / p as f64).ln() / (q as f64 / p as f64).ln();
    v * (w / v).powf(part)
}

/// A curve.
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Colour of line and band.
    pub colour: RGBColor,
    /// The points that it goes through, at least two.
    pub points: Values,
    /// The band: numbers of shards, each with its lower and upper bound.
    pub band: Vec<(usize, f64, f64)>,
}

impl Curve {
    /// A curve without a band.
    pub fn new(name: impl Into<String>, colour: RGBColor, points: Values) -> Self {
        Self { name: name.into(), colour, points, band: Vec::new() }
    }
}

/// The values of a model that goes through the first point.
pub fn model(points: &Values, growth: impl Fn(f64) -> f64) -> Values {
    let (first, value) = points[0];
    points.iter().map(|&(p, _)| (p, value * growth(p as f64) / growth(first as f64))).collect()
}

/// A value without a spread.
pub fn exactly(value: f64) -> Spread {
    Spread::of([value])
}

/// Texts of a plot.
pub struct Texts<'a> {
    /// Title, in large letters.
    pub title: &'a str,
    /// Subtitle.
    pub subtitle: &'a str,
    /// Label of the horizontal axis.
    pub horizontal: &'a str,
    /// Label of the vertical axis, with the unit.
    pub vertical: &'a str,
}

/// A plot of curves, which are dashed beyond `paper` shards, and of measurements.
pub fn chart(texts: Texts<'_>, paper: usize, curves: &[Curve], series: Vec<Series>) -> Result<String, String> {
    let at: Vec<_> = curves.iter().map(|c| |shards: f64| between(&c.points, shards)).collect();
    let lines = curves.iter().zip(&at).map(|(c, at)| {
        let last = c.points.last().map_or(1, |p| p.0);
        let shards = [c.points[0].0, last.min(paper), last];
        Line { name: c.name.clone(), colour: c.colour, shards, at, band: c.band.clone() }
    });
    let Texts { title, subtitle, horizontal, vertical } = texts;
    svg(&Chart { title, subtitle, horizontal, vertical, series, lines: lines.collect() })
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
