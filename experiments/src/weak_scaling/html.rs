//! The page of a report, with the plots in it.

use super::figures;
use super::fit::{Fit, METHOD, Model};
use super::measure::{Point, exchange_ns};
use super::plan::Plan;
use crate::measure::environment::Environment;
use crate::measure::page::{escaped, head};
use crate::measure::stats::microseconds;
use maniple_stencil::Collective;

/// The page for what has been measured so far.
pub fn page(plan: &Plan, environment: &Environment, points: &[Point], fits: &[Fit], pictures: &[String]) -> String {
    let title = format!("Weak scaling of the stencil, {} against aggregation", plan.config.collective);
    let definitions = plan.definitions().map(|(name, what)| format!("<li><b>{name}</b>: {}</li>\n", escaped(&what)));
    [
        head(&title),
        status(plan, points, fits),
        format!("<h2>Results</h2>\n{}<ul>\n{}</ul>\n", results(points), definitions.concat()),
        format!("<h2>Plots</h2>\n{}\n", pictures.join("\n")),
        format!("<h2>Cost model</h2>\n{}", models(plan, points, fits)),
        format!("<h2>Parameters</h2>\n{}", pairs(&plan.described())),
        format!("<h2>Machine and toolchain</h2>\n{}", pairs(&provenance(environment, points))),
        "<h2>Files</h2>\n<p>Every sample: <a href=\"samples.csv\">samples.csv</a>, \
         <a href=\"samples.jsonl\">samples.jsonl</a> (one object a run, with the exchange measured before its pair). The \
         table above: <a href=\"summary.csv\">summary.csv</a>, <a href=\"summary.json\">summary.json</a> (with the fits). \
         <a href=\"parameters.json\">parameters.json</a>, <a href=\"machine.json\">machine.json</a>, \
         <a href=\"collective.svg\">collective.svg</a>, <a href=\"metrics.svg\">metrics.svg</a>, \
         <a href=\"ratio.svg\">ratio.svg</a>.</p>\n</body></html>\n"
            .into(),
    ]
    .concat()
}

fn status(plan: &Plan, points: &[Point], fits: &[Fit]) -> String {
    let bad = |caveat: String| format!("<p class=\"bad\">Beware: {}.</p>\n", escaped(&caveat));
    let mut status: String = plan.caveats(points, fits).into_iter().map(bad).collect();
    let (done, all) = (points.len(), plan.counts.len());
    if done < all {
        status += &format!("<p class=\"bad\">Not complete: {done} of {all} numbers of shards were measured.</p>\n");
    }
    let failures: Vec<_> = points.iter().filter_map(|p| p.failure.as_deref()).collect();
    let runs: usize = points.iter().map(|p| p.runs).sum();
    match failures.is_empty() {
        true => status + &format!("<p>All of {runs} runs were verified.</p>\n"),
        false => {
            let each = failures.iter().map(|f| format!("<li>{}</li>\n", escaped(f))).collect::<String>();
            let left_out = "Runs were not verified, and their times are left out; the first at each number of shards:";
            status + &format!("<p class=\"bad\">{left_out}</p>\n<ul>{each}</ul>\n")
        }
    }
}

fn results(points: &[Point]) -> String {
    let heads = ["one collective, µs", "one iteration, µs", "iteration of the baseline, µs", "baseline ÷ iteration"];
    let heads = heads.map(|head| format!("<th colspan=\"3\">{head}</th>")).concat();
    let row = |p: &Point| {
        let cells = p
            .metrics()
            .map(|(_, s)| [s.min, s.median, s.max].map(|v| format!("<td>{}</td>", microseconds(v))).concat());
        let dropped: usize = p.metrics().iter().map(|(_, s)| s.dropped).sum();
        let verified = if p.failure.is_none() { "yes" } else { "<span class=\"bad\">NO</span>" };
        format!(
            "<tr><td>{}</td><td>{verified}</td>{}<td>{dropped}</td><td>{}</td></tr>\n",
            p.shards,
            cells.concat(),
            microseconds(p.exchange_ns)
        )
    };
    format!(
        "<table class=\"figures\"><tr><th>P</th><th>verified</th>{heads}<th>dropped</th>\
         <th>e, ns</th></tr>\n<tr><th></th><th></th>{}<th></th><th></th></tr>\n{}</table>\n",
        "<th>min</th><th>median</th><th>max</th>".repeat(4),
        points.iter().map(row).collect::<String>()
    )
}

fn models(plan: &Plan, points: &[Point], fits: &[Fit]) -> String {
    let e = exchange_ns(points);
    let shared = match Model::of(plan.config.collective)[1] {
        Model::SharedTwoLevel => {
            "With more shards than the W workers, the P/W shards of a worker combine one after the other, κ each, and \
             then the workers in log₂W rounds; and shard 0 waits while others on its worker do what comes before, which \
             is in κ as well."
        }
        _ => {
            "With more shards than the W workers, a worker does the rounds of P/W shards one after the other, so that \
             time grows with P and not with its logarithm; and shard 0 waits while others on its worker do what comes \
             before their first round, which is in κ."
        }
    };
    let spread = match plan.config.collective {
        Collective::TwoLevel => "Two levels, of which the first has but one shard, are recursive doubling, and that",
        _ => "Recursive doubling",
    };
    let row = |fit: &Fit| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            fit.model.formula(),
            escaped(&figures::scope(fit)),
            figures::coefficients(fit),
            in_exchanges(fit.alpha_us * 1000.0 / e),
            fit.points,
            if fit.points == 1 { "-".into() } else { format!("{:.2}", fit.off_by) }
        )
    };
    format!(
        "<p>{spread} takes T = log₂P (α + nβ + nγ) where each shard has a processor: α is the latency of a \
         message, β and γ the time to move and to combine a byte, and n = 8 bytes for the one element here. As n is \
         always the same, only α′ = α + nβ + nγ can be told. Its line says what P processors would take at the latency \
         measured between the W here.</p>\n<p>{shared} How many these are depends on its \
         place in the order of that iteration, hence the long bars. This line is for W workers; it says nothing about \
         a machine with more processors.</p>\n<p>Fitted by {METHOD}. The last column is the \
         exponential of the root mean square of what is left.</p>\n<table><tr><th>model</th><th>fitted for</th><th>coefficients</th>\
         <th>α′ in exchanges</th><th>points</th><th>off by a factor</th></tr>\n{}</table>\n{}",
        fits.iter().map(row).collect::<String>(),
        if fits.is_empty() { "<p>There are too few points for a fit.</p>\n" } else { "" }
    )
}

fn in_exchanges(alpha: f64) -> String {
    if alpha.is_nan() { "-".into() } else { format!("{alpha:.2} e") }
}

/// Where the figures come from.
fn provenance(environment: &Environment, points: &[Point]) -> Vec<(&'static str, String)> {
    let exchange = match exchange_ns(points) {
        e if e.is_nan() => "not measured".into(),
        e => format!("{e:.1} ns: a cache line from one processor to another, the fastest of batches, median"),
    };
    let mut all = vec![("began", environment.began.clone()), ("exchange e", exchange)];
    all.extend(environment.facts());
    all
}

fn pairs(pairs: &[(&'static str, String)]) -> String {
    let row = |(name, value): &(&str, String)| format!("<tr><th>{name}</th><td>{}</td></tr>\n", escaped(value));
    format!("<table>{}</table>\n", pairs.iter().map(row).collect::<String>())
}
