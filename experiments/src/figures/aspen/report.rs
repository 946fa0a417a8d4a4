//! The report: tables for programs, and a summary for the terminal.

use super::study::{Study, VALUES, WORKS};
use crate::figures::verdicts::range;
use maniple_command::measure::stats::microseconds;
use maniple_command::output::{quoted, styled};
use std::fmt::Write;
use std::path::Path;
use tabled::builder::Builder;

/// The CSV of all curves: a line for each machine, workload, curve and size.
pub fn points_csv(studies: &[Study]) -> String {
    const CURVES: [&str; 5] =
        ["one_by_one_us", "concurrent_us", "balanced_us", "concurrent_by_one_by_one", "balanced_by_concurrent"];
    const NEXT: [&str; 3] = ["one_by_one_next_us", "concurrent_next_us", "balanced_next_us"];
    let mut text = String::from("machine,workload,curve,bytes,value,low,high,wide_low,wide_high\n");
    for study in studies {
        for (w, work) in WORKS.iter().enumerate() {
            let start = format!("{},{}", quoted(&study.machine), work.workload.name());
            for (point, [one, all]) in study.times[w].iter().zip(&study.bands[w]) {
                for (k, curve) in CURVES.into_iter().enumerate() {
                    let (value, b, wide) = (point.values()[k], one[k], all[k]);
                    let _ = writeln!(
                        text,
                        "{start},{curve},{},{value:?},{:?},{:?},{:?},{:?}",
                        point.bytes, b.low, b.high, wide.low, wide.high
                    );
                }
                for (curve, value) in NEXT.into_iter().zip(point.next_us) {
                    let _ = writeln!(text, "{start},{curve},{},{value:?},,,,", point.bytes);
                }
            }
        }
    }
    text
}

/// The CSV of shares: a line for each number of a machine, workload and size.
pub fn shares_csv(studies: &[Study]) -> String {
    let mut text = String::from("machine,number,value,workload,bytes,one_by_one,concurrent,balanced\n");
    for study in studies {
        for share in &study.shares {
            for (w, work) in WORKS.iter().enumerate() {
                let ends = [study.times[w].first(), study.times[w].last()];
                for (point, [one_by_one, concurrent, balanced]) in ends.iter().flatten().zip(share.of[w]) {
                    let (machine, number, value) = (quoted(&study.machine), quoted(&share.number), share.value);
                    let _ = writeln!(
                        text,
                        "{machine},{number},{value:?},{},{},{one_by_one:?},{concurrent:?},{balanced:?}",
                        work.workload.name(),
                        point.bytes
                    );
                }
            }
        }
    }
    text
}

/// The summary for the terminal.
pub fn summary(studies: &[Study], output: &Path) -> String {
    let mut text = String::from("Reductions that overlap in virtual time; times in µs\n");
    for study in studies {
        for (w, work) in WORKS.iter().enumerate() {
            let mut rows = Builder::default();
            let head = ["bytes"].into_iter().chain(VALUES).chain(["its band"]);
            rows.push_record(head);
            for (point, bands) in study.times[w].iter().zip(&study.bands[w]) {
                let values = std::iter::once(point.bytes.to_string()).chain(point.values().map(microseconds));
                rows.push_record(values.chain([range(bands[0][4])]));
            }
            let _ = writeln!(text, "{} on {}\n{}", work.title, study.machine, styled(rows, 0));
        }
        for verdict in &study.verdicts {
            let _ = writeln!(text, "{}: {}", study.machine, verdict.line());
        }
    }
    text + &format!("report: {}\n", output.join("index.html").display())
}
