//! The report of the stencil's runs: a table for people, JSON lines or CSV for programs.

use crate::Failure;
use crate::measure::stats::{median, microseconds};
use crate::measure::turns::warm;
use crate::output::{Line, quoted, styled};
use maniple_stencil::{HostRun, RunReport, Times, bytes, plural};
use tabled::builder::Builder;

/// The statistics of a set of times, in the order of the columns.
const STATISTICS: [&str; 5] = ["min", "mean", "median", "p99", "max"];

fn statistics(times: &Times) -> [f64; 5] {
    [times.min, times.mean, times.median, times.p99, times.max]
}

impl Line for RunReport {
    fn json(&self) -> Result<String, Failure> {
        serde_json::to_string(self).map_err(|e| Failure::Run(format!("can't write the report as JSON: {e}")))
    }

    /// There are more columns for options that are not the defaults, and in virtual time for time and memory used.
    fn csv_header(&self) -> String {
        let mut header = String::from(
            "program,wire,shards,workers,cells,iterations,repeat,collective,mapper,verified,result,expected,error",
        );
        for times in ["iteration_us", "collective_us"] {
            for statistic in STATISTICS {
                header += &format!(",{times}_{statistic}");
            }
        }
        header += ",total_cells,input";
        self.settings.given().iter().for_each(|(name, _)| header += &format!(",{name}"));
        if self.host.is_some() {
            header += ",events,digest,host_s,shard_rounds_per_s,peak_bytes";
        }
        header + "\n"
    }

    /// A value that was not measured is empty, and so is the input if there is none.
    fn csv(&self) -> String {
        let r = self;
        let number = |x: f64| if x.is_nan() { String::new() } else { format!("{x:?}") };
        let mut fields = vec![
            r.program.to_owned(),
            r.wire.to_owned(),
            r.shards.to_string(),
            r.workers.to_string(),
            r.cells.to_string(),
            r.iterations.to_string(),
            r.repeat.to_string(),
            r.collective.to_string(),
            quoted(r.mapper.name()),
            r.verified.to_string(),
            number(r.result),
            number(r.expected),
            number(r.error),
        ];
        fields.extend(statistics(&r.iteration_us).map(number));
        fields.extend(statistics(&r.collective_us).map(number));
        fields.push(r.total_cells.to_string());
        fields.push(r.input.as_deref().map_or(String::new(), quoted));
        fields.extend(r.settings.given().iter().map(|(_, value)| quoted(value)));
        if let Some(HostRun { events, digest, host_s, shard_rounds_per_s, peak_bytes }) = &r.host {
            fields.extend([events.to_string(), digest.clone(), number(*host_s), number(*shard_rounds_per_s)]);
            fields.push(peak_bytes.map_or(String::new(), |bytes| bytes.to_string()));
        }
        fields.join(",") + "\n"
    }

    fn table(reports: &[Self]) -> String {
        table(reports, None)
    }
}

/// The options that are not the defaults, in a line; nothing if there are none.
fn options(report: &RunReport) -> String {
    let given: Vec<String> =
        report.settings.given().iter().map(|(name, value)| format!("{} {value}", name.replace('_', " "))).collect();
    if given.is_empty() { String::new() } else { format!("with {}\n", given.join(", ")) }
}

/// The table: a heading with the values that all runs share, a row for each run, and the medians over the runs. If there are
/// several runs, the medians leave out run 0, which allocates. Notes, the warning and the number of verified runs follow.
pub fn table(reports: &[RunReport], warning: Option<String>) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let heading = format!(
        "{} on {}: {} x {}, {}, {}, {}, mapper {}; times in µs\n{}",
        first.program,
        first.wire,
        plural(first.shards, "shard"),
        plural(first.cells, "cell"),
        plural(first.iterations, "iteration"),
        plural(first.workers, "worker"),
        first.collective,
        first.mapper,
        options(first)
    );
    let mut rows = Builder::default();
    // The name of a group stands above its first column only: ten columns are wide enough.
    let columns = |what: &str| STATISTICS.map(|s| if s == "min" { format!("{what}\n{s}") } else { format!("\n{s}") });
    let mut header: Vec<String> = ["run", "verified", "√S", "error"].map(String::from).into();
    header.extend(columns("iteration"));
    header.extend(columns("collective"));
    rows.push_record(header);
    for r in reports {
        let verified = if r.verified { "yes" } else { "NO" };
        let mut row =
            vec![r.repeat.to_string(), verified.into(), format!("{:.12e}", r.result), format!("{:.1e}", r.error)];
        row.extend(statistics(&r.iteration_us).map(microseconds));
        row.extend(statistics(&r.collective_us).map(microseconds));
        rows.push_record(row);
    }
    let measured = warm(reports);
    let over_runs = |times: fn(&RunReport) -> &Times| {
        std::array::from_fn::<_, 5, _>(|k| microseconds(median(measured.iter().map(|r| statistics(times(r))[k]))))
    };
    let mut last: Vec<String> = ["median", "", "", ""].map(String::from).into();
    last.extend(over_runs(|r| &r.iteration_us));
    last.extend(over_runs(|r| &r.collective_us));
    rows.push_record(last);
    let table = styled(rows, 2);
    let (verified, runs) = (reports.iter().filter(|r| r.verified).count(), reports.len());
    let left_out = if runs > 1 { "; the medians leave out run 0, which allocates" } else { "" };
    let hosts: String = reports.iter().filter_map(|r| r.host.as_ref()).map(host).collect();
    let few = if first.summarised() < 100 { "p99 is the maximum: a run has fewer than 100 samples\n" } else { "" };
    let runs = plural(runs, "run");
    let warning = warning.map_or(String::new(), |warning| format!("Warning: {warning}.\n"));
    format!("{heading}{table}\n{hosts}{few}{warning}{verified} of {runs} verified{left_out}\n")
}

/// The events of a run in virtual time, and the time and memory used.
fn host(run: &HostRun) -> String {
    let HostRun { events, digest, host_s, shard_rounds_per_s, peak_bytes } = run;
    let rounds = match shard_rounds_per_s {
        0.0 => String::new(),
        rounds => format!(" ({rounds:.0} rounds of shards per second)"),
    };
    let peak = peak_bytes.map_or(String::new(), |peak| format!(", memory at most {}", bytes(u128::from(peak))));
    let events = plural(*events as usize, "event");
    format!("{events}, digest {digest}; time used {host_s:.2} s{rounds}{peak}\n")
}
