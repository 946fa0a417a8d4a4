//! Plots with logarithmic axes: medians with bars from minimum to maximum, and lines with bands. They have the reader's colour
//! scheme, light or dark, as separate pictures and in a page.

use super::noise::Spread;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// One of Okabe and Ito's colours, which differ with any colour vision. The markers differ as well.
pub const BLUE: RGBColor = RGBColor(0, 114, 178);
/// The colour of the second series.
pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
/// The colour of the third series.
pub const GREEN: RGBColor = RGBColor(0, 158, 115);
/// The colour of text.
pub const INK: RGBColor = RGBColor(40, 40, 40);
/// The colour of lines behind everything.
pub const GRID: RGBColor = RGBColor(225, 225, 225);

/// The shape at a median.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle.
    Triangle,
}

/// Measurements: a spread for each number of shards.
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Colour of markers and bars.
    pub colour: RGBColor,
    /// Marker of the medians.
    pub marker: Marker,
    /// Numbers of shards, with their measurements.
    pub points: Vec<(usize, Spread)>,
}

/// The line of a model: solid from the first to the last number of shards it was fitted to, dashed beyond.
pub struct Line<'a> {
    /// Name in the legend.
    pub name: String,
    /// Colour of line and band.
    pub colour: RGBColor,
    /// The first and the last number of shards of the fit, and the last number of the extrapolation.
    pub shards: [usize; 3],
    /// Its value at a number of shards.
    pub at: &'a dyn Fn(f64) -> f64,
    /// The band: numbers of shards, each with its lower and upper bound.
    pub band: Vec<(usize, f64, f64)>,
}

/// One plot, over the number of shards or another number.
pub struct Chart<'a> {
    /// Title, in large letters.
    pub title: &'a str,
    /// Subtitle.
    pub subtitle: &'a str,
    /// Label of the horizontal axis.
    pub horizontal: &'a str,
    /// Label of the vertical axis, with the unit.
    pub vertical: &'a str,
    /// Measurements.
    pub series: Vec<Series>,
    /// Models.
    pub lines: Vec<Line<'a>>,
}

/// The label of the horizontal axis of most plots.
pub const SHARDS: &str = "shards P";

const WIDTH: u32 = 900;
const PLOT_HEIGHT: u32 = 480;
const TITLE_HEIGHT: u32 = 64;
const ENTRY_HEIGHT: u32 = 24;

/// Draws the plot, with the legend below it.
pub fn svg(chart: &Chart) -> Result<String, String> {
    let mut svg = String::new();
    let entries = (chart.series.len() + chart.lines.len()) as u32;
    let size = (WIDTH, TITLE_HEIGHT + PLOT_HEIGHT + ENTRY_HEIGHT * entries + 12);
    draw(chart, &SVGBackend::with_string(&mut svg, size).into_drawing_area()).map_err(|e| e.to_string())?;
    Ok(svg.replacen('>', &format!(">\n<style>{}</style>", dark()), 1))
}

/// The style for dark colour schemes. It replaces paper, ink and grid; the other colours are visible on both.
pub fn dark() -> String {
    let [paper, ink, grid] = [WHITE, INK, GRID].map(|RGBColor(r, g, b)| format!("#{r:02X}{g:02X}{b:02X}"));
    format!(
        "@media (prefers-color-scheme: dark){{[fill=\"{paper}\"]{{fill:#181818}}[fill=\"{ink}\"]{{fill:#E0E0E0}}\
         [stroke=\"{ink}\"]{{stroke:#E0E0E0}}[stroke=\"{grid}\"]{{stroke:#383838}}}}"
    )
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

fn draw<'a>(chart: &Chart, root: &Area<'a>) -> Drawn<'a> {
    root.fill(&WHITE)?;
    let centred = |size| font(size).pos(Pos::new(HPos::Center, VPos::Top));
    root.draw(&Text::new(chart.title, (WIDTH as i32 / 2, 14), centred(20)))?;
    root.draw(&Text::new(chart.subtitle, (WIDTH as i32 / 2, 40), centred(14)))?;
    draw_plot(chart, root)?;
    draw_legend(chart, root, TITLE_HEIGHT + PLOT_HEIGHT)?;
    root.present()
}

fn draw_plot<'a>(chart: &Chart, root: &Area<'a>) -> Drawn<'a> {
    let (x, y) = ranges(chart);
    let floor = y.start;
    // Ticks are at powers of the base. Over less than two decades, powers of 10 would be too few.
    let base = if y.end / y.start < 100.0 { 2.0 } else { 10.0 };
    let (above, _) = root.split_vertically(TITLE_HEIGHT + PLOT_HEIGHT);
    let (_, area) = above.split_vertically(TITLE_HEIGHT);
    let mut axes = ChartBuilder::on(&area)
        .margin(8)
        .margin_right(24)
        .x_label_area_size(52)
        .y_label_area_size(84)
        .build_cartesian_2d(
            LogCoord::from(x.clone().log_scale().base(2.0)).with_key_points(ticks(&x)),
            y.log_scale().base(base),
        )?;
    axes.configure_mesh()
        .x_desc(chart.horizontal)
        .y_desc(chart.vertical)
        .x_labels(16)
        .y_labels(10)
        .x_label_formatter(&|shards| format!("{shards:.0}"))
        .y_label_formatter(&|value| format!("{}", (value * 1e9).round() / 1e9))
        .axis_desc_style(font(16))
        .label_style(font(14))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for Line { colour, band, .. } in &chart.lines {
        let along = |end: fn(&(usize, f64, f64)) -> f64| band.iter().map(move |at| (at.0 as f64, end(at)));
        let around: Vec<(f64, f64)> = along(|at| at.1).chain(along(|at| at.2).rev()).collect();
        if !around.is_empty() {
            axes.draw_series(std::iter::once(Polygon::new(around, colour.mix(0.2).filled())))?;
        }
    }
    for line in &chart.lines {
        let [first, last, to] = line.shards.map(|shards| shards as f64);
        let solid = along(first, last).map(|x| (x, (line.at)(x)));
        axes.draw_series(LineSeries::new(solid, line.colour.stroke_width(2)))?;
        let dashed = along(last, to).map(|x| (x, (line.at)(x)));
        axes.draw_series(DashedLineSeries::new(dashed, 7, 5, line.colour.stroke_width(2)))?;
    }
    let apart = {
        let mut counts: Vec<usize> = chart.series.iter().flat_map(|s| &s.points).map(|&(shards, _)| shards).collect();
        counts.sort_unstable();
        counts.dedup();
        let pixels: Vec<i32> = counts.iter().map(|&shards| axes.backend_coord(&(shards as f64, floor)).0).collect();
        pixels.windows(2).map(|two| two[1] - two[0]).min()
    };
    for (i, series) in chart.series.iter().enumerate() {
        let aside = aside(i as i32, chart.series.len() as i32, apart);
        let drawable = series.points.iter().filter(|(_, spread)| spread.median > 0.0);
        for &(shards, Spread { min, median, max, .. }) in drawable {
            let pixels = |value: f64| {
                let (x, y) = axes.backend_coord(&(shards as f64, value.max(floor)));
                (x + aside, y)
            };
            draw_bar(root, series, pixels(median), [pixels(min).1, pixels(max).1])?;
        }
    }
    Ok(())
}

/// The offset of a series to the side in pixels, so that no bar hides another. It is at most a quarter of the smallest distance
/// between numbers of shards, so that each bar is nearest to its own number.
fn aside(series: i32, all: i32, apart: Option<i32>) -> i32 {
    let widest = 6 * (all - 1);
    let most = apart.map_or(widest, |apart| widest.min(apart / 4));
    if all > 1 { most * (2 * series - (all - 1)) / (all - 1) } else { 0 }
}

/// Draws the marker of a series, and a bar between two heights in pixels.
fn draw_bar<'a>(root: &Area<'a>, series: &Series, (x, y): (i32, i32), [low, high]: [i32; 2]) -> Drawn<'a> {
    let line = series.colour.stroke_width(2);
    root.draw(&PathElement::new([(x, low), (x, high)], line))?;
    for end in [low, high] {
        root.draw(&PathElement::new([(x - 5, end), (x + 5, end)], line))?;
    }
    let full = series.colour.filled();
    match series.marker {
        Marker::Circle => root.draw(&Circle::new((x, y), 5, full)),
        Marker::Square => root.draw(&Rectangle::new([(x - 5, y - 5), (x + 5, y + 5)], full)),
        Marker::Triangle => root.draw(&TriangleMarker::new((x, y), 7, full)),
    }
}

/// Draws the legend from this height on: an entry on each line, with its symbol and its name.
fn draw_legend<'a>(chart: &Chart, root: &Area<'a>, top: u32) -> Drawn<'a> {
    let text = font(14).pos(Pos::new(HPos::Left, VPos::Center));
    let entries = chart.series.iter().map(|s| &s.name).chain(chart.lines.iter().map(|l| &l.name));
    for (i, name) in entries.enumerate() {
        let y = (top + ENTRY_HEIGHT * i as u32 + 12) as i32;
        root.draw(&Text::new(name.as_str(), (126, y), text.clone()))?;
        if let Some(series) = chart.series.get(i) {
            draw_bar(root, series, (102, y), [y + 9, y - 9])?;
        } else {
            let style = chart.lines[i - chart.series.len()].colour.stroke_width(2);
            for (from, to) in [(84, 102), (106, 111), (115, 120)] {
                root.draw(&PathElement::new([(from, y), (to, y)], style))?;
            }
        }
    }
    Ok(())
}

/// Numbers of shards, dense enough for a curve on logarithmic axes.
fn along(from: f64, to: f64) -> impl Iterator<Item = f64> + Clone {
    const STEPS: i32 = 96;
    (0..=STEPS).map(move |i| from * (to / from).powf(f64::from(i) / f64::from(STEPS)))
}

/// The ticks of the axis of shards: powers of 2, or the middle of the axis if there are fewer than two.
fn ticks(x: &std::ops::Range<f64>) -> Vec<f64> {
    const MOST: usize = 16;
    let powers: Vec<f64> = (0..usize::BITS).map(|i| 2_f64.powi(i as i32)).filter(|power| x.contains(power)).collect();
    match powers.len() {
        0 | 1 => vec![(x.start * x.end).sqrt()],
        n => powers.into_iter().step_by(n.div_ceil(MOST)).collect(),
    }
}

/// The ranges of both axes: all values, with some space at the ends.
fn ranges(chart: &Chart) -> (std::ops::Range<f64>, std::ops::Range<f64>) {
    let points = || chart.series.iter().flat_map(|s| &s.points);
    let on_lines = || chart.lines.iter().flat_map(|l| l.shards.map(|shards| (shards as f64, (l.at)(shards as f64))));
    let xs = points().map(|&(shards, _)| shards as f64).chain(on_lines().map(|(x, _)| x));
    let ys = points().flat_map(|(_, s)| [s.min, s.median, s.max]).chain(on_lines().map(|(_, y)| y));
    let ys = ys.chain(chart.lines.iter().flat_map(|l| l.band.iter().flat_map(|&(_, low, high)| [low, high])));
    let (x, y) = (extent(xs), extent(ys));
    (x.start / 1.25..x.end * 1.25, y.start / 1.5..y.end * 1.5)
}

/// The range from the smallest to the largest of the positive numbers; 1 to 1 if there are none.
fn extent(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let positive = values.filter(|v| v.is_finite() && *v > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if low <= high { low..high } else { 1.0..1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_powers_of_two_or_the_only_number() {
        assert_eq!(ticks(&(0.8..5.0)), [1.0, 2.0, 4.0]);
        for only in [1.0, 3.0, 4.0, 100.0] {
            let found = ticks(&(only / 1.25..only * 1.25));
            assert!(found.len() == 1 && (found[0] / only - 1.0).abs() < 1e-12, "{only}: {found:?}");
        }
    }

    #[test]
    fn series_are_aside_but_nearest_to_their_own_shards() {
        assert_eq!([0, 1, 2].map(|series| aside(series, 3, Some(100))), [-12, 0, 12]);
        assert_eq!([0, 1].map(|series| aside(series, 2, None)), [-6, 6]);
        assert_eq!([0, 1, 2].map(|series| aside(series, 3, Some(20))), [-5, 0, 5]);
        assert_eq!([0, 1, 2].map(|series| aside(series, 3, Some(2))), [0, 0, 0]);
        assert_eq!(aside(0, 1, Some(100)), 0);
    }
}
