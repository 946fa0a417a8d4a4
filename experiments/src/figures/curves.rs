//! Plots of curves with bands, as the figures have them.

use maniple_command::Failure;
use maniple_command::measure::noise::Spread;
use maniple_command::measure::plot::{Chart, Line, SHARDS, Series, svg};
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

/// A plot of curves and of measurements.
pub struct Plot {
    /// The name of its file.
    pub file: String,
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: String,
    /// Label of the horizontal axis.
    pub horizontal: &'static str,
    /// Label of the vertical axis, with the unit.
    pub vertical: &'static str,
    /// The largest number of shards up to which curves are not dashed.
    pub solid: usize,
    /// Curves.
    pub curves: Vec<Curve>,
    /// Measurements.
    pub series: Vec<Series>,
}

impl Plot {
    /// A plot of times over numbers of shards.
    pub fn new(file: &str, title: impl Into<String>, subtitle: &str, curves: Vec<Curve>) -> Self {
        Self {
            file: file.into(),
            title: title.into(),
            subtitle: subtitle.into(),
            horizontal: SHARDS,
            vertical: "time (µs)",
            solid: usize::MAX,
            curves,
            series: Vec::new(),
        }
    }

    /// A plot of ratios.
    pub fn ratios(self) -> Self {
        Self { vertical: "ratio", ..self }
    }

    fn draw(self) -> Result<(String, String), String> {
        let Self { file, title, subtitle, horizontal, vertical, solid, curves, series } = self;
        let at: Vec<_> = curves.iter().map(|c| |shards: f64| between(&c.points, shards)).collect();
        let lines = curves.iter().zip(&at).map(|(c, at)| {
            let last = c.points.last().map_or(1, |p| p.0);
            let shards = [c.points[0].0, last.min(solid), last];
            Line { name: c.name.clone(), colour: c.colour, shards, at, band: c.band.clone() }
        });
        let lines = lines.collect();
        let chart = Chart { title: &title, subtitle: &subtitle, horizontal, vertical, series, lines };
        Ok((file, svg(&chart)?))
    }
}

/// Draws plots. Returns the names of files with their contents.
///
/// # Errors
/// A plot that can't be drawn.
pub fn draw(plots: Vec<Plot>) -> Result<Vec<(String, String)>, Failure> {
    plots.into_iter().map(Plot::draw).collect::<Result<_, _>>().map_err(Failure::Run)
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
