//! The findings, the page of the report with its plots, and the summary for the terminal.

use super::{NAMES, Point, Results};
use crate::calibrate::rows::{Errors, Row};
use crate::figures::changes::share_text;
use crate::figures::report::{self, Figure};
use crate::figures::verdicts::range;
use maniple_command::measure::page::{Page, Table, escaped};
use maniple_command::measure::stats::microseconds;
use std::fmt::Write;
use std::path::Path;

/// The differences from the paper, for the machine that stands for the paper's platform.
const WHERE_THEY_DIFFER: &str = "\
    The results differ from the paper in two points. First, the <b>level</b> of the ratio. It depends on the cost of launching a \
    shard again, compared with the cost of a subtask of a round. One factor on the first cost would give both of the paper's \
    ratios, but the paper does not give this cost. The <b>growth</b> of the ratio does not depend on it: the work of one version \
    grows with the shards, the work of the other with the rounds. Second, an iteration takes less than twice its collective. \
    Here the derivative is one task for each shard and iteration. The paper launched several tasks, and fetched ghost cells by \
    separate tasks.";

/// The page.
pub fn page(study: &Results, figure: &Figure, pictures: &[(String, String)]) -> Page {
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
    page.table(&figure.table(["P", "one collective", "one iteration", "baseline", "ratio"]));
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
    page
}

fn beside_the_paper(study: &Results) -> Table {
    let mut table = Table::of_figures();
    table.head(["", "the paper reports", "here"]);
    findings(study).into_iter().for_each(|(what, paper, here)| table.row([what.to_owned(), paper, here]));
    table
}

fn shares(study: &Results) -> Table {
    let mut head = vec!["number of the machine".to_owned(), "value".into()];
    head.extend(study.ends().iter().flat_map(|p| NAMES.map(|name| format!("{name}, P = {}", p.shards))));
    head.extend(["growth, halved", "growth, doubled"].map(String::from));
    let rows = study.shares.iter().map(|(share, growth)| (share, share.of.concat(), growth.map(microseconds).into()));
    report::shares(head, rows)
}

/// Adds the predictions beside measurements.
fn predictions(page: &mut Page, study: &Results) {
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

/// The findings: what is compared, the paper's value, and the value here.
fn findings(study: &Results) -> Vec<(&'static str, String, String)> {
    let at_last = study.bands.len() - 1;
    let [&first, &last] = study.ends();
    let at = |i: usize| {
        let (point, narrow, wide) = (study.points[i], study.bands[i][3], study.wide_bands[i][3]);
        format!(
            "{} at {} (one number halved or doubled: {}; all numbers at once: {})",
            microseconds(point.ratio()),
            point.shards,
            range(narrow),
            range(wide)
        )
    };
    let part = |p: Point| microseconds(p.iteration_us / p.collective_us);
    let grows = |of: fn(&Point) -> f64| microseconds(of(&last) / of(&first));
    let logs = microseconds((last.shards as f64).log2() / (first.shards as f64).log2());
    let slopes = match study.points.len() > study.bands.len() {
        true => format!(", {:.3} up to the largest number", study.slopes[1]),
        false => String::new(),
    };
    let shards = |p: Point| p.shards;
    let mpi = |i: usize| study.mpi[i].1;
    vec![
        (
            "collective (Figure 4)",
            "about as log₂P".into(),
            format!("from {} to {} shards ×{}; log₂P ×{logs}", first.shards, last.shards, grows(|p| p.collective_us)),
        ),
        (
            "an optimised MPI allreduce (Figure 5)",
            "in general less than the collective".into(),
            format!(
                "on titan-mpi, the collective takes {} times as long at {} and {} times at {}; MPI's allreduce grows ×{} between",
                microseconds(first.collective_us / mpi(0)),
                shards(first),
                microseconds(last.collective_us / mpi(at_last)),
                shards(last),
                microseconds(mpi(at_last) / mpi(0))
            ),
        ),
        (
            "iteration (Figure 6)",
            "about twice the collective".into(),
            format!(
                "{} times the collective at {}, {} times at {}",
                part(first),
                shards(first),
                part(last),
                shards(last)
            ),
        ),
        (
            "baseline (Figure 8)",
            "about linear".into(),
            format!("slope of log(time) over log(P) from 64 shards on: {:.3}{slopes}", study.slopes[0]),
        ),
        ("baseline ÷ iteration, smallest number of shards", "about 5 at 16".into(), at(0)),
        ("baseline ÷ iteration, largest number in the paper", "about 75 at 512".into(), at(at_last)),
        (
            "cost of a relaunch that would give the paper's ratios",
            "-".into(),
            match shards(last) {
                512 => format!(
                    "{} times the cost here at 16, {} times at 512",
                    microseconds(5.0 / first.ratio()),
                    microseconds(75.0 / last.ratio())
                ),
                fewer => format!("not known, since runs ended at {fewer}"),
            },
        ),
        (
            "growth of that ratio",
            "about 15, from 16 to 512".into(),
            format!(
                "{} from {} to {} (one number halved or doubled: {}; all numbers at once: {})",
                microseconds(study.growth),
                first.shards,
                last.shards,
                range(study.growth_band),
                range(study.growth_wide_band)
            ),
        ),
    ]
}

/// The summary for the terminal.
pub fn summary(study: &Results, output: &Path) -> String {
    let head = ["shards"].into_iter().chain(NAMES).chain(["ratio's band"]);
    let mut text = study.figure().summary(head);
    for (what, paper, here) in findings(study) {
        let _ = writeln!(text, "{what}: {here}; the paper: {paper}");
    }
    let mut shares: Vec<(&str, f64)> = study.shares.iter().map(|(s, _)| (s.number.as_str(), s.of[1][3])).collect();
    shares.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let most = shares.iter().take(5).map(|(number, share)| format!("{number} {}", share_text(*share)));
    let _ = writeln!(
        text,
        "largest shares in the ratio, at the paper's largest number of shards: {}",
        most.collect::<Vec<_>>().join(", ")
    );
    if !study.predictions.is_empty() {
        let errors = Errors::of(&study.predictions, Row::error);
        let Errors { middle, worst } = Errors::of(&study.predictions, Row::error_of_median);
        let _ = writeln!(
            text,
            "predictions for 2 to 512 shards on threads, lower deciles: {errors}; against the runs' medians: median error \
             {middle:.1} %, worst {worst:.1} %"
        );
    }
    text + &format!("report: {}\n", output.join("index.html").display())
}
