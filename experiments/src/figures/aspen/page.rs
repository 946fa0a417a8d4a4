//! The page of the report, with its plots.

use super::study::{NODES, PROGRAMS, Study, VALUES, WORKS};
use crate::figures::changes::share_text;
use crate::figures::verdicts::{self, range};
use crate::measure::page::{Page, Table, escaped};
use crate::measure::stats::microseconds;

/// The page.
pub fn page(studies: &[Study], pictures: &[(String, String)]) -> String {
    let mut page = Page::new("Overlapping reductions in virtual time");
    page.paragraph(&format!(
        "“Advanced Collective Communication in Aspen” (Ali, Pai and Midkiff, 2008) lets reductions overlap that have different \
         contributors and receivers. Its Figure 12 has the times of one program, that of Figure 5, on {NODES} nodes. Here the \
         collectives of this framework run in virtual time, with one shard on each node. Every shard compares each of its sums with \
         a closed form. Nothing was fitted: times follow from the programs and from the machine's file, which gives a reason for \
         each number. The text of the paper has no times, only two ratios."
    ));
    page.list(studies.iter().map(|study| format!("<b>{}</b>: {}", escaped(&study.machine), escaped(&study.about))));
    page.paragraph("Three workloads, with sums of vectors of 64-bit floats:");
    page.list(WORKS.iter().map(|work| format!("<b>{}</b>: {}", work.title, work.about)));
    page.section("Comparison with the paper");
    for study in studies {
        page.paragraph(&escaped(&study.machine));
        page.table(&verdicts::table(&study.verdicts));
    }
    page.section("Plots");
    page.plots(pictures.iter().map(|(_, picture)| picture.as_str()));
    page.section("Times in microseconds");
    for study in studies {
        for w in 0..WORKS.len() {
            page.paragraph(&format!("{} on {}", WORKS[w].title, escaped(&study.machine)));
            page.table(&times(study, w));
        }
    }
    page.section("Shares of each number");
    for study in studies {
        for w in 0..WORKS.len() {
            page.paragraph(&format!("{} on {}", WORKS[w].title, escaped(&study.machine)));
            page.table(&shares(study, w));
        }
    }
    page.section("Files");
    let files = pictures.iter().map(|(name, _)| name.as_str()).chain(["points.csv", "shares.csv", "figures.json"]);
    let files: Vec<String> = files.map(|name| format!("<a href=\"{name}\">{name}</a>")).collect();
    page.paragraph(&files.join(", "));
    page.end()
}

fn times(study: &Study, w: usize) -> Table {
    let mut table = Table::of_figures();
    let next = ["concurrent ÷ one by one, in a row", "balanced ÷ concurrent, in a row"];
    table.head(["bytes"].into_iter().chain(VALUES).chain(next));
    for (point, bands) in study.times[w].iter().zip(&study.bands[w]) {
        let banded = |(value, band)| format!("{} ({})", microseconds(value), range(band));
        let [one_by_one, concurrent, balanced] = point.next_us;
        let row = std::iter::once(point.bytes.to_string()).chain(point.values().into_iter().zip(bands[0]).map(banded));
        table.row(row.chain([concurrent / one_by_one, balanced / concurrent].map(microseconds)));
    }
    table
}

fn shares(study: &Study, w: usize) -> Table {
    let mut table = Table::of_figures();
    let ends = [study.times[w].first(), study.times[w].last()];
    let names = ends.iter().flatten().flat_map(|point| PROGRAMS.map(|name| format!("{name}, {} bytes", point.bytes)));
    table.head(["number".to_owned(), "value".into()].into_iter().chain(names));
    for share in &study.shares {
        let values: Vec<String> = share.of[w].iter().flatten().map(|value| share_text(*value)).collect();
        if values.iter().any(|value| value != "-") {
            table.row([share.number.clone(), share.value.to_string()].into_iter().chain(values));
        }
    }
    table
}
