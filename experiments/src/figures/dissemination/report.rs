//! The report: tables for programs, and a summary for the terminal.

use super::Results;
use super::study::{CLUSTERS, Study, WAYS};
use super::targets::Row;
use crate::figures::changes::Band;
use crate::figures::verdicts::range;
use maniple_command::measure::stats::microseconds;
use maniple_command::output::{quoted, styled};
use std::fmt::Write;
use std::path::Path;
use tabled::builder::Builder;

/// The names of results, in the order of columns.
pub const NAMES: [&str; 3] = ["dissemination", "MPI", "MPI ÷ dissemination"];

/// A ratio beside its target.
pub fn met(row: &Row) -> String {
    format!("{:.3}, target {}: {}", row.ratio(), row.target, if row.is_met() { "met" } else { "missed" })
}

/// The CSV of all curves: a line for each figure, curve and number of nodes.
pub fn points_csv(study: &Study) -> String {
    let mut text = String::from("machine,operation,curve,nodes,value,low,high,wide_low,wide_high\n");
    for (c, cluster) in CLUSTERS.iter().enumerate() {
        for (f, (operation, _)) in cluster.figures.iter().enumerate() {
            for (i, point) in study.times.0[c][f].iter().enumerate() {
                let mut line = |curve: &str, value: f64, bands: Option<[Band; 2]>| {
                    let bands = bands
                        .map_or(",,,".into(), |[b, w]| format!("{:?},{:?},{:?},{:?}", b.low, b.high, w.low, w.high));
                    let (machine, operation) = (quoted(cluster.machine), operation.to_string());
                    let _ =
                        writeln!(text, "{machine},{},{curve},{},{value:?},{bands}", quoted(&operation), point.nodes);
                };
                for (k, name) in ["dissemination_us", "mpi_us", "gain"].into_iter().enumerate() {
                    line(name, point.values()[k], Some(study.bands[c][f][i].map(|bands| bands[k])));
                }
                line("best_n", point.best() as f64, None);
                (0..WAYS).for_each(|n| line(&format!("n{}_us", n + 1), point.ways_us[n], None));
                line("bruck_ho_us", study.bruck_us[c][f][i], None);
            }
        }
    }
    text
}

/// The CSV of shares: a line for each number of the machines and each figure.
pub fn shares_csv(study: &Study) -> String {
    let mut text = String::from("number,value,operation,dissemination,mpi,gain\n");
    for share in &study.shares {
        for ((operation, _), of) in CLUSTERS[share.cluster].figures.iter().zip(&share.of) {
            let operation = operation.to_string();
            let [ours, mpi, gain] = of;
            let (number, operation) = (quoted(&share.number), quoted(&operation));
            let _ = writeln!(text, "{number},{:?},{operation},{ours:?},{mpi:?},{gain:?}", share.value);
        }
    }
    text
}

/// The summary for the terminal.
pub fn summary(results: &Results, output: &Path) -> String {
    let Results { study, targets } = results;
    let mut text = String::from("n-way dissemination and MPI in virtual time; times in µs\n");
    for (c, cluster) in CLUSTERS.iter().enumerate() {
        for (f, (_, title)) in cluster.figures.iter().enumerate() {
            let mut rows = Builder::default();
            rows.push_record(["nodes", "best n", NAMES[0], NAMES[1], NAMES[2], "its band"]);
            for (i, point) in study.times.0[c][f].iter().enumerate() {
                let mut row = vec![point.nodes.to_string(), point.best().to_string()];
                row.extend(point.values().map(microseconds));
                row.push(range(study.bands[c][f][i][0][2]));
                rows.push_record(row);
            }
            let _ = writeln!(text, "{title}\n{}", styled(rows, 0));
        }
    }
    for v in &study.verdicts {
        let _ = writeln!(text, "{}", v.line());
    }
    for row in &targets.rows {
        let Row { operation, nodes, judged, beside, .. } = row;
        let _ = writeln!(
            text,
            "{operation}, {nodes} nodes on {}: {} {} ÷ {} {} = {}",
            super::targets::MACHINE,
            judged.algorithm,
            microseconds(judged.us),
            beside.algorithm,
            microseconds(beside.us),
            met(row)
        );
    }
    text + &format!("report: {}\n", output.join("index.html").display())
}
