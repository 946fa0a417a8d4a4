//! The page of the report, with its plots.

use super::report::{NAMES, findings};
use super::study::{Point, Study};
use crate::calibrate::rows::{Errors, Row};
use crate::figures::changes::share_text;
use maniple_command::measure::page::{Page, Table, escaped};
use maniple_command::measure::stats::microseconds;

/// The differences from the paper, for the machine that stands for the paper's platform.
const WHERE_THEY_DIFFER: &str = "\
    The results differ from the paper in two points. First, the <b>level</b> of the ratio. It depends on the cost of launching a \
    shard again, compared with the cost of a subtask of a round. One factor on the first cost would give both of the paper's \
    ratios, but the paper does not give this cost. The <b>growth</b> of the ratio does not depend on it: the work of one version \
    grows with the shards, the work of the other with the rounds. Second, an iteration takes less than twice its collective. \
    Here the derivative is one task for each shard and iteration. The paper launched several tasks, and fetched ghost cells by \
    separate tasks.";

/// The page.
pub fn page(study: &Study, pictures: &[(&'static str, String)]) -> String {
    let mut page = Page::new(&format!("The paper's figures in virtual time, on {}", study.machine));
    page.paragraph(&format!(
        "{}. The program's own code ran, on a machine in virtual time, and every run was verified. Nothing was fitted: times \
         follow from the operations of the program, from their order, and from the numbers in the machine's file, which gives a \
         reason for each. The paper reports no absolute times, only ratios and shapes.",
        escaped(&study.about)
    ));
    page.section("Comparison with the paper");
    page.table(&beside_the_paper(study));
    if study.machine == "titan-legion" {
        page.paragraph(WHERE_THEY_DIFFER);
    }
    page.section("Plots");
    page.paragraph("Dashed lines are beyond the paper's 512 shards.");
    page.plots(pictures.iter().map(|(_, picture)| picture.as_str()));
    page.section("Times in microseconds");
    page.paragraph("In parentheses is the band when any one number of the machine is halved or doubled.");
    page.table(&times(study));
    page.section("Shares of each number");
    page.paragraph(
        "The share of a number in a result is d ln(result) / d ln(number): the relative change of the result for a small \
         relative change of the number. The shares of all numbers in ns add up to about 1 for a time, and to 0 for a ratio. The \
         last two columns are the ratio at the larger number of shards ÷ the ratio at the smaller one.",
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
        row.extend(s.smallest.iter().chain(&s.largest).map(|v| share_text(*v)));
        row.extend(s.growth.map(microseconds));
        table.row(row);
    }
    table
}

/// Adds the predictions beside measurements.
fn predictions(page: &mut Page, study: &Study) {
    let errors = Errors::of(&study.predictions, Row::error);
    let Errors { middle, worst } = Errors::of(&study.predictions, Row::error_of_median);
    page.section("Predictions and measurements");
    page.paragraph(&format!(
        "Programs ran on threads of this host, and in virtual time on the machine that describes it. The numbers of that machine \
         come from single operations only. They predict the lower decile of the runs, which is the time on an undisturbed host: \
         {errors}. Against the medians of the runs: median error {middle:.1} %, worst {worst:.1} %. Rows are marked as disturbed \
         if too few runs were left, because the host was not as the machine describes it. They show the median of all runs."
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
