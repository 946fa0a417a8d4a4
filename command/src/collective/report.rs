//! The report: a line for each size.

use super::kind::Parties;
use super::values::{Op, Type};
use crate::measure::stats::microseconds;
use crate::options::ranks::listed;
use crate::options::wire::OnWire;
use crate::output::{Field, Record, field, styled};
use maniple::mapper::MapperSpec;
use maniple::runtime::VirtualMachine;
use maniple_collectives::Kind;
use tabled::builder::Builder;

/// What all lines have in common.
pub struct Common<'a> {
    pub wire: &'a OnWire,
    pub machine: Option<&'a VirtualMachine>,
    pub parties: &'a Parties,
    pub workers: usize,
    pub of: Type,
    pub op: Op,
    pub mapper: &'a MapperSpec,
}

/// What was measured for one size.
pub struct Measured {
    /// Bytes of a block.
    pub bytes: usize,
    pub elements: usize,
    /// The mean time of a call on each shard that takes part, in microseconds.
    pub times: Vec<f64>,
    pub iterations: usize,
    pub algorithm: Option<String>,
    pub verified: bool,
}

impl Measured {
    /// The line.
    pub fn record(&self, common: &Common<'_>) -> Record {
        let Common { wire, machine, parties, workers, of, op, mapper } = *common;
        let has_elements = parties.kind != Kind::Barrier;
        let mean = self.times.iter().sum::<f64>() / self.times.len() as f64;
        let (min, max) = self.times.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), &t| (min.min(t), max.max(t)));
        let moved = self.bytes as f64 * f64::from(parties.blocks_in().max(parties.blocks_out()));
        // Bytes per microsecond are megabytes per second.
        let bandwidth = if mean > 0.0 { moved / mean } else { f64::NAN };
        vec![
            field("program", "collective"),
            field("wire", wire.name()),
            field("machine", machine.map(|m| &*m.name)),
            field("nodes", machine.map(|m| m.nodes)),
            field("kind", parties.kind.name()),
            field("shards", parties.shards),
            field("participants", &*listed(&parties.participants)),
            field("receivers", &*listed(&parties.receivers)),
            field("workers", workers),
            field("mapper", mapper.name()),
            field("type", has_elements.then(|| of.name())),
            field("operator", parties.combines().then(|| op.name())),
            field("elements", has_elements.then_some(self.elements)),
            field("size", self.bytes),
            field("avg_latency_us", mean),
            field("min_latency_us", min),
            field("max_latency_us", max),
            field("iterations", self.iterations),
            field("bandwidth_mb_s", if has_elements { Field::Measured(bandwidth) } else { Field::Absent }),
            field("algorithm", self.algorithm.as_deref()),
            field("verified", self.verified),
        ]
    }
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
pub fn table(records: &[Record], warning: Option<String>) -> String {
    let Some(first) = records.first() else { return String::new() };
    let of =
        |record: &Record, name: &str| record.iter().find(|(n, _)| *n == name).map_or(Field::Absent, |f| f.1.clone());
    let columns: Vec<_> = COLUMNS.iter().filter(|(name, _)| of(first, name) != Field::Absent).collect();
    let in_columns = |name: &str| COLUMNS.iter().any(|(column, _)| *column == name);
    // Participants that are all shards go without saying.
    let all = match of(first, "shards") {
        Field::Count(1) => "0".into(),
        Field::Count(shards) => format!("0-{}", shards - 1),
        _ => String::new(),
    };
    let heading = first.iter().filter(|(name, field)| {
        let by_itself = *name == "elements" || (name.ends_with("s") && *field == all.as_str().into());
        !in_columns(name) && !by_itself && *field != Field::Absent
    });
    let heading: Vec<String> = heading.map(|(name, field)| format!("{name} {}", cell(field))).collect();
    let mut rows = Builder::default();
    rows.push_record(columns.iter().map(|(_, title)| *title));
    for record in records {
        rows.push_record(columns.iter().map(|(name, _)| cell(&of(record, name))));
    }
    let warning = warning.map_or(String::new(), |warning| format!("Warning: {warning}.\n"));
    format!("{}\n{}\n{warning}", heading.join(", "), styled(rows, 0))
}

fn cell(field: &Field) -> String {
    match field {
        Field::Text(text) => text.clone(),
        Field::Count(count) => count.to_string(),
        Field::Flag(flag) => if *flag { "yes" } else { "NO" }.into(),
        Field::Measured(measured) => microseconds(*measured),
        Field::Absent => String::new(),
    }
}
