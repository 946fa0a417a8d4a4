//! The report of the stencil's runs: a record of each, and a table for people.

use super::session::{Config, RunReport, Session};
use super::times::Times;
use crate::host::HostRun;
use crate::measure::stats::{median, microseconds};
use crate::measure::turns::warm;
use crate::options::workers::Bind;
use crate::output::{Field, Record, bytes, field, styled};
use maniple_stencil::{AHEAD, Collective, alternating, plural};
use tabled::builder::Builder;

/// The fields of a run. There are more for options that are not the defaults, and in virtual time for time and memory used.
pub fn record(session: &Session, report: &RunReport) -> Record {
    let (config, blocks) = (&session.config, &session.blocks);
    let mut record = vec![
        field("program", "stencil"),
        field("wire", config.wire()),
        field("shards", config.shards),
        field("workers", config.processors()),
        field("cells", blocks.largest()),
        field("iterations", config.iterations),
        field("repeat", report.repeat),
        field("collective", config.collective.name()),
        field("mapper", config.mapper.name()),
        field("verified", report.verified),
        field("result", report.result),
        field("expected", report.expected),
        field("error", report.error),
        field("iteration_us", report.iteration_us),
        field("collective_us", report.collective_us),
        field("total_cells", blocks.total()),
        field("input", config.input.as_ref().map(|path| path.display().to_string())),
    ];
    record.extend(settings(config));
    record.extend(report.host.iter().flat_map(HostRun::fields));
    record
}

/// The options that are not the defaults.
fn settings(config: &Config) -> Record {
    let machine = config.machine.as_deref();
    let noisy = machine.filter(|machine| machine.noise > 0.0);
    let ahead = config.ahead != AHEAD && config.collective != Collective::Aggregation;
    let all = [
        field("machine", machine.map(|machine| &*machine.name)),
        field("nodes", machine.map(|machine| machine.nodes)),
        field("noise", noisy.map(|machine| machine.noise)),
        field("noise_seed", noisy.map(|machine| machine.seed)),
        field("ahead", ahead.then_some(config.ahead)),
        field("bind", (config.bind != Bind::None).then(|| config.bind.to_string())),
        field("utility", (config.utility > 0).then_some(config.utility)),
        field("processes", config.processes.map(|processes| processes.number)),
        field("check", config.races.then_some("races")),
    ];
    all.into_iter().filter(|(_, field)| *field != Field::Absent).collect()
}

/// The table: a heading with the values that all runs share, a row for each run, and the medians over the runs. If there are
/// several runs, the medians leave out run 0, which allocates. Notes, the warning and the number of verified runs follow.
pub fn table(session: &Session, reports: &[RunReport], warning: Option<String>) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let config = &session.config;
    let given = settings(config);
    let given: Vec<String> =
        given.iter().map(|(name, field)| format!("{} {}", name.replace('_', " "), field.csv())).collect();
    let options = if given.is_empty() { String::new() } else { format!("with {}\n", given.join(", ")) };
    let heading = format!(
        "stencil on {}: {} x {}, {}, {}, {}, mapper {}; times in µs\n{options}",
        config.wire(),
        plural(config.shards, "shard"),
        plural(session.blocks.largest(), "cell"),
        plural(config.iterations, "iteration"),
        plural(config.processors(), "worker"),
        config.collective,
        config.mapper,
    );
    let mut rows = Builder::default();
    // The name of a group stands above its first column only: ten columns are wide enough.
    let columns = |what: &str| Times::NAMES.map(|s| if s == "min" { format!("{what}\n{s}") } else { format!("\n{s}") });
    let mut header: Vec<String> = ["run", "verified", "√S", "error"].map(String::from).into();
    header.extend(columns("iteration"));
    header.extend(columns("collective"));
    rows.push_record(header);
    for r in reports {
        let verified = if r.verified { "yes" } else { "NO" };
        let mut row =
            vec![r.repeat.to_string(), verified.into(), format!("{:.12e}", r.result), format!("{:.1e}", r.error)];
        row.extend(r.iteration_us.all().map(microseconds));
        row.extend(r.collective_us.all().map(microseconds));
        rows.push_record(row);
    }
    let measured = warm(reports);
    let over_runs = |times: fn(&RunReport) -> &Times| {
        std::array::from_fn::<_, 5, _>(|k| microseconds(median(measured.iter().map(|r| times(r).all()[k]))))
    };
    let mut last: Vec<String> = ["median", "", "", ""].map(String::from).into();
    last.extend(over_runs(|r| &r.iteration_us));
    last.extend(over_runs(|r| &r.collective_us));
    rows.push_record(last);
    let table = styled(rows, 2);
    let (verified, runs) = (reports.iter().filter(|r| r.verified).count(), reports.len());
    let left_out = if runs > 1 { "; the medians leave out run 0, which allocates" } else { "" };
    let hosts: String = reports.iter().filter_map(|r| r.host.as_ref()).map(host).collect();
    let summarised = alternating(&first.samples.iteration_us, config.shards, config.processors()).len();
    let few = if summarised < 100 { "p99 is the maximum: a run has fewer than 100 samples\n" } else { "" };
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

#[cfg(test)]
mod tests {
    use super::*;
    use maniple::runtime::VirtualMachine;
    use std::sync::Arc;

    #[test]
    fn reports_name_the_settings_that_are_not_the_defaults() {
        let given = |config: Config| -> Vec<String> {
            settings(&config).into_iter().map(|(name, value)| format!("{name} {}", value.csv())).collect()
        };
        assert_eq!(given(Config::default()), [""; 0]);
        let set = Config { ahead: 0, bind: Bind::Cores, utility: 1, races: true, ..Config::default() };
        assert_eq!(given(set.clone()), ["ahead 0", "bind cores", "utility 1", "check races"]);
        let aggregation = Config { bind: Bind::None, utility: 0, races: false, ..set };
        assert_eq!(given(Config { collective: Collective::Aggregation, ..aggregation }), [""; 0]);
        let machine =
            VirtualMachine { name: "mine".into(), nodes: 3, noise: 0.25, seed: 7, ..VirtualMachine::default() };
        let there = Config { machine: Some(Arc::new(machine)), ..Config::default() };
        assert_eq!(given(there), ["machine mine", "nodes 3", "noise 0.25", "noise_seed 7"]);
    }
}
