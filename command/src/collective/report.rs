//! The report: a line for each size.

use super::run::Workload;
use super::values::Type;
use crate::host::HostRun;
use crate::options::ranks::listed;
use crate::output::{Field, Record, field, styled};
use maniple_collectives::Kind;
use tabled::builder::Builder;

/// What was measured for one size.
pub struct Measured {
    /// The mean time of a call on each shard that takes part, in microseconds.
    pub times: Vec<f64>,
    /// The last result of a chain of calls, and the expected one.
    pub chain: Option<(f64, f64)>,
    /// The first thing that verification found wrong.
    pub wrong: Option<String>,
    /// In virtual time, the events, and the time and memory used.
    pub host: Option<HostRun>,
}

/// The line of a run by an algorithm. All lines have `common`.
pub fn record(
    workload: &Workload,
    of: Type,
    common: [(&'static str, Field); 2],
    algorithm: Option<String>,
    measured: Measured,
    cache_line_ns: f64,
) -> Record {
    let Measured { times, chain, wrong, host } = measured;
    let (parties, bytes, has_elements) =
        (&workload.parties, workload.elements * of.bytes(), workload.parties.kind != Kind::Barrier);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let (min, max) = times.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), &t| (min.min(t), max.max(t)));
    let moved = bytes as f64 * f64::from(parties.blocks_in().max(parties.blocks_out()));
    // Bytes per microsecond are megabytes per second.
    let bandwidth = if mean > 0.0 { moved / mean } else { f64::NAN };
    let mut record = vec![
        field("kind", parties.kind.name()),
        field("shards", parties.shards),
        field("participants", listed(&parties.participants)),
        field("receivers", listed(&parties.receivers)),
    ];
    record.extend(common);
    record.extend([
        field("type", has_elements.then(|| of.name())),
        field("operator", parties.combines().then(|| workload.op.name())),
        field("elements", has_elements.then_some(workload.elements)),
        field("size", bytes),
        field("avg_latency_us", mean),
        field("min_latency_us", min),
        field("max_latency_us", max),
        field("iterations", workload.iterations),
        field("bandwidth_mb_s", has_elements.then_some(bandwidth)),
        field("algorithm", algorithm),
        field("verified", wrong.is_none()),
    ]);
    if let Some((result, expected)) = chain {
        record.extend([field("result", result), field("expected", expected), field("cache_line_ns", cache_line_ns)]);
    }
    record.extend(host.iter().flat_map(HostRun::fields));
    record
}

/// The columns of the table, with the names that users of the OSU micro-benchmarks know.
const COLUMNS: [(&str, &str); 8] = [
    ("size", "Size"),
    ("avg_latency_us", "Avg Latency(us)"),
    ("min_latency_us", "Min Latency(us)"),
    ("max_latency_us", "Max Latency(us)"),
    ("iterations", "Iterations"),
    ("bandwidth_mb_s", "Bandwidth(MB/s)"),
    ("algorithm", "Algorithm"),
    ("verified", "Verified"),
];

/// The table: a heading with what all lines have in common, and a line for each size.
pub fn table(records: &[Record]) -> String {
    let Some(first) = records.first() else { return String::new() };
    let of =
        |record: &Record, name: &str| record.iter().find(|(n, _)| *n == name).map_or(Field::Absent, |f| f.1.clone());
    let columns: Vec<_> = COLUMNS.iter().filter(|(name, _)| of(first, name) != Field::Absent).collect();
    // Participants that are all shards go without saying.
    let all = match of(first, "shards") {
        Field::Count(1) => "0".into(),
        Field::Count(shards) => format!("0-{}", shards - 1),
        _ => String::new(),
    };
    let heading = first.iter().take_while(|(name, _)| *name != "size").filter(|(name, field)| {
        let by_itself = *name == "elements" || (name.ends_with("s") && *field == all.as_str().into());
        !by_itself && *field != Field::Absent
    });
    let heading: Vec<String> = heading.map(|(name, field)| format!("{name} {}", field.people())).collect();
    let mut rows = Builder::default();
    rows.push_record(columns.iter().map(|(_, title)| *title));
    for record in records {
        rows.push_record(columns.iter().map(|(name, _)| of(record, name).people()));
    }
    format!("{}\n{}\n", heading.join(", "), styled(rows, 0))
}
