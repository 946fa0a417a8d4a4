//! The parts that the reports of all papers have: tables of points and shares, for people and for programs, and the directory.

use super::changes::{Band, share_text};
use super::curves::Curve;
use super::study::{Point, Share};
use super::verdicts::range;
use maniple_command::Failure;
use maniple_command::measure::directory::Directory;
use maniple_command::measure::page::{Page, Table};
use maniple_command::measure::stats::microseconds;
use maniple_command::output::styled;
use plotters::style::RGBColor;
use std::fmt::Write;
use tabled::builder::Builder;

/// A point in a report.
pub struct Row {
    /// Its place on the horizontal axis.
    pub at: usize,
    /// Texts before its results.
    pub before: Vec<String>,
    /// Its results.
    pub values: Vec<f64>,
    /// Their bands when one number changes, and when all change, if they are known.
    pub bands: Option<[Vec<Band>; 2]>,
    /// Texts behind its results, on the page.
    pub after: Vec<String>,
    /// Curves without bands that go through the point, in the file of points.
    pub others: Vec<(String, f64)>,
}

impl Row {
    /// A point without other texts and curves.
    pub fn new(point: &impl Point, bands: Option<&[Vec<Band>; 2]>) -> Self {
        let (at, values, bands) = (point.at(), point.values(), bands.cloned());
        Self { at, before: Vec::new(), values, bands, after: Vec::new(), others: Vec::new() }
    }
}

/// A figure in a report.
pub struct Figure {
    /// Title.
    pub title: String,
    /// The fields before the curve in the file of points, with a comma after each.
    pub key: String,
    /// The points.
    pub rows: Vec<Row>,
}

impl Figure {
    /// The curve of a result, with its band when one number changes.
    pub fn curve(&self, name: impl Into<String>, colour: RGBColor, k: usize) -> Curve {
        let bands = self.rows.iter().filter_map(|row| Some((row.at, row.bands.as_ref()?[0][k])));
        let band = bands.map(|(at, Band { low, high })| (at, low, high)).collect();
        Curve { band, ..Curve::new(name, colour, self.rows.iter().map(|row| (row.at, row.values[k])).collect()) }
    }

    /// The table of times on a page.
    pub fn table<C: Into<String>>(&self, head: impl IntoIterator<Item = C>) -> Table {
        let mut table = Table::of_figures();
        table.head(head.into_iter().map(C::into));
        for Row { at, before, values, bands, after, .. } in &self.rows {
            let banded = |(k, value): (usize, &f64)| match bands {
                None => microseconds(*value),
                Some([one, _]) => format!("{} ({})", microseconds(*value), range(one[k])),
            };
            let row = std::iter::once(at.to_string()).chain(before.iter().cloned());
            table.row(row.chain(values.iter().enumerate().map(banded)).chain(after.iter().cloned()));
        }
        table
    }

    /// The table of times for the terminal. In its last column is the band of the last result.
    pub fn summary<'a>(&self, head: impl IntoIterator<Item = &'a str>) -> String {
        let mut rows = Builder::default();
        rows.push_record(head);
        for Row { at, before, values, bands, .. } in &self.rows {
            let band = bands.as_ref().and_then(|[one, _]| one.last()).map_or(String::new(), |band| range(*band));
            let row = std::iter::once(at.to_string()).chain(before.iter().cloned());
            rows.push_record(row.chain(values.iter().copied().map(microseconds)).chain([band]));
        }
        format!("{}\n{}\n", self.title, styled(rows, 0))
    }
}

/// The file of points: a line for each figure, curve and place. `keys` are the names of the fields before the curve.
pub fn points_csv(keys: &str, axis: &str, curves: &[&str], figures: &[Figure]) -> String {
    let mut text = format!("{keys}curve,{axis},value,low,high,wide_low,wide_high\n");
    for Figure { key, rows, .. } in figures {
        for Row { at, values, bands, others, .. } in rows {
            for (k, (curve, value)) in curves.iter().zip(values).enumerate() {
                let bands = bands.as_ref().map_or(",,,".into(), |[one, all]| {
                    format!("{:?},{:?},{:?},{:?}", one[k].low, one[k].high, all[k].low, all[k].high)
                });
                let _ = writeln!(text, "{key}{curve},{at},{value:?},{bands}");
            }
            for (curve, value) in others {
                let _ = writeln!(text, "{key}{curve},{at},{value:?},,,,");
            }
        }
    }
    text
}

/// Numbers as fields of CSV.
pub fn fields<'a>(values: impl IntoIterator<Item = &'a f64>) -> String {
    values.into_iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(",")
}

/// The table of shares on a page: a row for each number, with its shares in some results and other texts.
pub fn shares<'a>(
    head: impl IntoIterator<Item = String>,
    rows: impl IntoIterator<Item = (&'a Share, Vec<f64>, Vec<String>)>,
) -> Table {
    let mut table = Table::of_figures();
    table.head(head);
    for (Share { number, value, .. }, shares, others) in rows {
        let start = [number.clone(), value.to_string()];
        table.row(start.into_iter().chain(shares.into_iter().map(share_text)).chain(others));
    }
    table
}

/// Writes plots, files, and the page, which ends with links to them.
///
/// # Errors
/// A file that can't be written.
pub fn write(
    directory: &Directory,
    mut page: Page,
    pictures: &[(String, String)],
    files: &[(&str, String)],
) -> Result<(), Failure> {
    let mut links = Vec::new();
    let pictures = pictures.iter().map(|(name, text)| (name.as_str(), text));
    for (name, text) in pictures.chain(files.iter().map(|(name, text)| (*name, text))) {
        directory.write(name, text)?;
        links.push(format!("<a href=\"{name}\">{name}</a>"));
    }
    page.section("Files");
    page.paragraph(&links.join(", "));
    directory.write("index.html", page.end())
}
