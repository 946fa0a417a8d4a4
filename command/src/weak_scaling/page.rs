//! The page of a report, with the plots in it.

use super::fit::{Fit, METHOD, Model};
use super::plots;
use super::point::{Point, cache_line_ns};
use super::sweep::Sweep;
use crate::measure::environment::Environment;
use crate::measure::page::{Cell, Page, Table, escaped};
use crate::measure::stats::microseconds;
use maniple_stencil::{Collective, plural};

/// The page with the results so far.
pub fn page(sweep: &Sweep, environment: &Environment, points: &[Point], fits: &[Fit], pictures: &[String]) -> String {
    let title = format!("Weak scaling of the stencil, {} against aggregation", sweep.config.collective);
    let mut page = Page::new(&title);
    status(&mut page, sweep, points, fits);
    page.section("Results");
    page.table(&results(points));
    page.list(sweep.definitions().map(|(name, what)| format!("<b>{name}</b>: {}", escaped(&what))));
    page.section("Plots");
    page.plots(pictures.iter().map(String::as_str));
    page.section("Cost model");
    models(&mut page, sweep, points, fits);
    page.section("Parameters");
    page.table(&Table::of_pairs(sweep.described()));
    page.section("Machine and toolchain");
    page.table(&Table::of_pairs(provenance(environment, points)));
    page.section("Files");
    page.paragraph(
        "Every sample: <a href=\"samples.csv\">samples.csv</a> and <a href=\"samples.jsonl\">samples.jsonl</a> (an object for each \
         run, with the yardstick before its pair). Results: <a href=\"summary.csv\">summary.csv</a> and \
         <a href=\"summary.json\">summary.json</a> (with the fits). Parameters: \
         <a href=\"parameters.json\">parameters.json</a>. Machine and toolchain: <a href=\"machine.json\">machine.json</a>. Plots: \
         <a href=\"collective.svg\">collective.svg</a>, <a href=\"metrics.svg\">metrics.svg</a>, \
         <a href=\"ratio.svg\">ratio.svg</a>.",
    );
    page.end()
}

fn status(page: &mut Page, sweep: &Sweep, points: &[Point], fits: &[Fit]) {
    sweep.caveats(points, fits).iter().for_each(|caveat| page.warning(&format!("Warning: {caveat}.")));
    let (done, all) = (points.len(), sweep.counts.len());
    if done < all {
        page.warning(&format!("Not complete: {done} of {} of shards were measured.", plural(all, "number")));
    }
    let failures: Vec<_> = points.iter().filter_map(|p| p.failure.as_deref()).collect();
    if failures.is_empty() {
        let runs: usize = points.iter().map(|p| p.runs).sum();
        page.paragraph(&match runs {
            1 => "The only run was verified.".to_owned(),
            runs => format!("All {runs} runs were verified."),
        });
    } else {
        page.warning(
            "Some runs were not verified. Their times are left out. The first of them at each number of shards:",
        );
        page.list(failures.into_iter().map(escaped));
    }
}

fn results(points: &[Point]) -> Table {
    let mut table = Table::of_figures();
    let groups = ["one collective, µs", "one iteration, µs", "iteration of the baseline, µs", "baseline ÷ iteration"];
    let groups = groups.map(|group| Cell::from(group).over(3));
    let around = |[first, second]: [&str; 2], groups: Vec<Cell>, [before, last]: [&str; 2]| {
        let first = [first, second].map(Cell::from).into_iter();
        first.chain(groups).chain([before, last].map(Cell::from)).collect::<Vec<_>>()
    };
    table.head(around(["P", "verified"], groups.into(), ["dropped", "e, ns"]));
    let three = ["min", "median", "max"];
    table.head(around(["", ""], three.into_iter().cycle().take(12).map(Cell::from).collect(), ["", ""]));
    for p in points {
        let verified = if p.failure.is_none() { Cell::from("yes") } else { Cell::from("NO").bad() };
        let metrics = p.metrics();
        let mut row = vec![Cell::from(p.shards.to_string()), verified];
        row.extend(metrics.iter().flat_map(|(_, s)| [s.min, s.median, s.max]).map(|us| Cell::from(microseconds(us))));
        row.push(metrics.iter().map(|(_, s)| s.dropped).sum::<usize>().to_string().into());
        row.push(microseconds(p.cache_line_ns).into());
        table.row(row);
    }
    table
}

fn models(page: &mut Page, sweep: &Sweep, points: &[Point], fits: &[Fit]) {
    let e = cache_line_ns(points);
    let shared = match Model::of(sweep.config.collective)[1] {
        Model::SharedTwoLevel => {
            "With more shards than the W workers, the P/W shards of a worker combine their values one after the other, in a \
             time κ each. Then the workers combine theirs in log₂W rounds. Shard 0 also waits while other shards of its \
             worker do the work before their part, which is included in κ."
        }
        _ => {
            "With more shards than the W workers, a worker does the rounds of P/W shards one after the other. So the time \
             grows with P, not with its logarithm. Shard 0 also waits while other shards of its worker do the work before \
             their first round, which is included in κ."
        }
    };
    let spread = match sweep.config.collective {
        Collective::TwoLevel => "With a single shard on the first level, two levels are recursive doubling. It takes",
        _ => "Recursive doubling takes",
    };
    page.paragraph(&format!(
        "{spread} T = log₂P (α + nβ + nγ) if each shard has a processor. Here α is the latency of a message, β and γ are the \
         times to move and to combine a byte, and n = 8 bytes is the size of the one element. As n is always the same, only \
         α′ = α + nβ + nγ can be fitted. Its line is the time of P processors with the latency measured between the W here."
    ));
    page.paragraph(&format!(
        "{shared} The number of these shards depends on the place of shard 0 in the order of that iteration, hence the long \
         bars. This line is for W workers. It says nothing about a machine with more processors."
    ));
    page.paragraph(&format!(
        "The fit is by {METHOD}. The last column is the exponential of the root mean square of the residuals."
    ));
    let mut table = Table::of_words();
    table.head(["model", "fitted for", "coefficients", "α′ in yardsticks", "points", "off by a factor"]);
    for fit in fits {
        table.row([
            fit.model.formula().to_owned(),
            plots::scope(fit),
            plots::coefficients(fit),
            in_yardsticks(fit.alpha_us * 1000.0 / e),
            fit.points.to_string(),
            if fit.points == 1 { "-".into() } else { format!("{:.2}", fit.off_by) },
        ]);
    }
    page.table(&table);
    if fits.is_empty() {
        page.paragraph("There are too few points for a fit.");
    }
}

fn in_yardsticks(alpha: f64) -> String {
    if alpha.is_nan() { "-".into() } else { format!("{alpha:.2} e") }
}

/// The origin of the figures.
fn provenance(environment: &Environment, points: &[Point]) -> Vec<(&'static str, String)> {
    let yardstick = match cache_line_ns(points) {
        e if e.is_nan() => "not measured".into(),
        e => format!("{e:.1} ns: a cache line from one processor to another, the fastest of batches, median"),
    };
    let mut all = vec![("began", environment.began.clone()), ("yardstick e", yardstick)];
    all.extend(environment.facts());
    all
}
