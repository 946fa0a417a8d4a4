//! The table on stdout.

use super::fit::Fit;
use super::plots;
use super::point::Point;
use super::sweep::Sweep;
use crate::measure::noise::OUTLIER_RULE;
use crate::measure::stats::microseconds;
use crate::output::styled;
use std::path::Path;
use tabled::builder::Builder;

/// The table: a heading with the parameters, a row for each number of shards, the fits, the rule for outliers, and warnings.
pub fn table(sweep: &Sweep, points: &[Point], fits: &[Fit], report: Option<&Path>) -> String {
    if points.is_empty() {
        return String::new();
    }
    let mut rows = Builder::default();
    let mut header: Vec<String> = ["shards", "verified"].map(String::from).into();
    // The name of a group stands above its first column only: twelve columns are wide enough.
    for group in ["collective", "iteration", "baseline", "ratio"] {
        header.extend([format!("{group}\nmin"), "\nmedian".into(), "\nmax".into()]);
    }
    header.push("dropped".into());
    rows.push_record(header);
    for point in points {
        let verified = if point.failure.is_none() { "yes" } else { "NO" };
        let mut row = vec![point.shards.to_string(), verified.into()];
        let metrics = point.metrics();
        row.extend(metrics.iter().flat_map(|(_, s)| [s.min, s.median, s.max]).map(microseconds));
        row.push(metrics.iter().map(|(_, s)| s.dropped).sum::<usize>().to_string());
        rows.push_record(row);
    }
    let mut text = format!(
        "stencil on {}: {} against aggregation; {}; times in µs\n{}\n",
        sweep.wire(),
        sweep.config.collective,
        sweep.subtitle(),
        styled(rows, 2)
    );
    for fit in fits {
        let (formula, coefficients, scope) = (fit.model.formula(), plots::coefficients(fit), plots::scope(fit));
        text += &format!("collective, {scope}: {formula}, {coefficients}; {}\n", plots::quality(fit));
    }
    text += &format!("{OUTLIER_RULE}\n");
    for caveat in sweep.caveats(points, fits) {
        text += &format!("Warning: {caveat}.\n");
    }
    if let Some(report) = report {
        text += &format!("report: {}\n", report.join("index.html").display());
    }
    text
}
