//! The page of the report, with the plots in it.

use super::report::{NAMES, findings, share};
use super::study::{Point, Study};
use crate::calibrate::rows::{Errors, Row};
use crate::measure::page::{Page, Table, escaped};
use crate::measure::stats::microseconds;

/// Of the machine that stands for the paper's.
const WHERE_THEY_DIFFER: &str = "\
    Where the two differ: the <b>levels</b> of the ratio are decided by what it costs the parent to launch a shard again, beside \
    what a subtask of a round costs; one factor on the first would bring both to the paper's, and the paper does not say what it \
    was. The <b>growth</b> of the ratio does not depend on it: it comes from one version's work being by shards and the other's \
    by rounds. An iteration is less than twice the collective because here the derivative is one task a shard and iteration; the \
    paper launched several, and fetched ghost cells by tasks of their own.";

/// The page.
pub fn page(study: &Study, pictures: &[(&'static str, String)]) -> String {
    let mut page = Page::new(&format!("The paper's figures in virtual time, on {}", study.machine));
    page.paragraph(&format!(
        "{}. The program's own code ran, on a machine that exists in virtual time only; every run was verified. \
         Nothing here was fitted: times come from how often the program does what, and in which order, and from the \
         numbers of the machine's file, each with its reason there. The paper's own times are not known, only ratios \
         and shapes.",
        escaped(&study.about)
    ));
    page.section("Beside the paper");
    page.table(&beside_the_paper(study));
    if study.machine == "titan-legion" {
        page.paragraph(WHERE_THEY_DIFFER);
    }
    page.section("Plots");
    page.paragraph("Dashed: more than the paper's 512 shards.");
    page.plots(pictures.iter().map(|(_, picture)| picture.as_str()));
    page.section("Times in microseconds");
    page.paragraph("With the band when any one number of the machine is halved or doubled.");
    page.table(&times(study));
    page.section("What decides it");
    page.paragraph(
        "By which part of it a result changes where a number changes by a small part: \
         d ln(result) / d ln(number). For a time, the shares of all numbers in ns add up to about 1, for a ratio to 0. The \
         last two columns: ratio at the larger number of shards ÷ ratio at the smaller.",
    );
    page.table(&shares(study));
    if !study.predictions.is_empty() {
        predictions(&mut page, study);
    }
    page.section("Files");
    let files =
        pictures.iter().map(|(name, _)| *name).chain(["points.csv", "shares.csv", "predictions.csv", "figures.json"]);
    let files: Vec<String> = files.map(|name| format!("<a href=\"{name}\">{name}</a>")).collect();
    page.paragraph(&files.join(", "));
    page.end()
}

fn beside_the_paper(study: &Study) -> Table {
    let mut table = Table::of_figures();
    table.head(["", "the paper reports", "here"]);
    findings(study).into_iter().for_each(|(what, paper, here)| table.row([what.to_owned(), paper, here]));
    table
}

fn times(study: &Study) -> Table {
    let ranged = |p: &Point, i: usize, k: usize| {
        let value = microseconds(p.values()[k]);
        match study.bands.get(i) {
            None => value,
            Some(b) => format!("{value} ({} to {})", microseconds(b[k].low), microseconds(b[k].high)),
        }
    };
    let mut table = Table::of_figures();
    table.head(["P", "one collective", "one iteration", "baseline", "ratio"]);
    for (i, p) in study.points.iter().enumerate() {
        table.row(std::iter::once(p.shards.to_string()).chain((0..4).map(|k| ranged(p, i, k))));
    }
    table
}

fn shares(study: &Study) -> Table {
    let ends = [study.points[0].shards, study.points[study.bands.len() - 1].shards];
    let mut table = Table::of_figures();
    let mut head = vec!["number of the machine".to_owned(), "value".into()];
    head.extend(ends.iter().flat_map(|p| NAMES.map(|name| format!("{name}, P = {p}"))));
    head.extend(["growth, halved", "growth, doubled"].map(String::from));
    table.head(head);
    for s in &study.shares {
        let mut row = vec![s.number.clone(), format!("{}", s.value)];
        row.extend(s.smallest.iter().chain(&s.largest).map(|v| share(*v)));
        row.extend(s.growth.map(microseconds));
        table.row(row);
    }
    table
}

/// Predictions beside measurements.
fn predictions(page: &mut Page, study: &Study) {
    let errors = Errors::of(&study.predictions, Row::error);
    let Errors { middle, worst } = Errors::of(&study.predictions, Row::error_of_median);
    page.section("Prediction held to measurement");
    page.paragraph(&format!(
        "On threads of this host, and in virtual time on the machine that describes it, whose numbers come from single \
         operations only. Of the runs it is the lower decile that is predicted, what they take where others leave the host \
         alone: {errors}. Against the runs' medians: {middle:.1} %, {worst:.1} %. Disturbed: the host was not \
         as the machine describes it, so that too few runs were left, and it is the median of all."
    ));
    let mut table = Table::of_figures();
    table.head(["program", "P", "on threads, µs", "quartiles, µs", "predicted, µs", "error"]);
    for r in &study.predictions {
        let disturbed = if r.disturbed { ", disturbed" } else { "" };
        table.row([
            r.program.to_owned(),
            r.shards.to_string(),
            microseconds(r.measured_us),
            r.quartiles_us.map(microseconds).join(", "),
            microseconds(r.predicted_us),
            format!("{:+.1} %{disturbed}", 100.0 * r.error()),
        ]);
    }
    page.table(&table);
}
