//! Reports on stdout, or in a file: a table for people, JSON lines or CSV for programs.

use crate::Failure;
use crate::closed::stdout_was_closed;
use crate::files::unwritten;
use crate::measure::stats::{median, microseconds};
use crate::measure::turns::warm;
use crate::stencil::times::Times;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use maniple_mapper::files::Whole;
use maniple_stencil::plural;
use serde_json::Value;
use std::io::{self, StdoutLock, Write};
use std::path::{Path, PathBuf};
use tabled::Table;
use tabled::builder::Builder;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::{Alignment, Modify, Style};

/// The format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table after the last run
    Table,
    /// A JSON object on a line for each run, as soon as the run is done
    Json,
    /// A line of comma-separated values for each run, as soon as the run is done, under a header
    Csv,
}

/// One value of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// A parameter or a name.
    Text(String),
    /// A count.
    Count(u64),
    /// Yes or no.
    Flag(bool),
    /// A measurement; NaN where there is none.
    Measured(f64),
    /// The summary of times: an object in JSON, and a column for each statistic in CSV.
    Summary(Times),
    /// No value: other programs in the same report have one.
    Absent,
}

macro_rules! fields {
    ($($variant:ident from $($type:ty)*;)*) => {$($(
        impl From<$type> for Field {
            fn from(value: $type) -> Self {
                Field::$variant(value.into())
            }
        }
    )*)*};
}

fields! {
    Text from &str String;
    Count from u32 u64;
    Flag from bool;
    Measured from f64;
    Summary from Times;
}

impl From<usize> for Field {
    fn from(count: usize) -> Self {
        Field::Count(count as u64)
    }
}

/// `None` is absent.
impl<T: Into<Field>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Self {
        value.map_or(Field::Absent, Into::into)
    }
}

impl Field {
    fn json(&self) -> String {
        match self {
            Field::Text(text) => Value::from(text.as_str()).to_string(),
            Field::Count(count) => count.to_string(),
            Field::Flag(flag) => flag.to_string(),
            // NaN has no JSON: null.
            Field::Measured(measured) => Value::from(*measured).to_string(),
            Field::Summary(times) => times.json(),
            Field::Absent => Value::Null.to_string(),
        }
    }

    /// As CSV; a value that was not measured is empty.
    pub fn csv(&self) -> String {
        match self {
            Field::Text(text) => quoted(text),
            Field::Count(count) => count.to_string(),
            Field::Flag(flag) => flag.to_string(),
            Field::Measured(measured) if measured.is_nan() => String::new(),
            Field::Measured(measured) => format!("{measured:?}"),
            Field::Summary(times) => times.all().map(|us| Field::Measured(us).csv()).join(","),
            Field::Absent => String::new(),
        }
    }

    pub fn people(&self) -> String {
        match self {
            Field::Measured(measured) => microseconds(*measured),
            Field::Summary(times) => microseconds(times.median),
            Field::Flag(flag) => if *flag { "yes" } else { "NO" }.into(),
            Field::Text(text) => text.clone(),
            other => other.csv(),
        }
    }
}

/// A field with its name.
pub fn field(name: &'static str, value: impl Into<Field>) -> (&'static str, Field) {
    (name, value.into())
}

/// A text as a CSV field, in quotes if it needs them.
pub fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// The fields of one run's report, in order.
pub type Record = Vec<(&'static str, Field)>;

/// Stdout. A text that can't be written, because the disk is full or the reader has gone, is an error.
pub struct Stdout(StdoutLock<'static>);

impl Stdout {
    /// Takes stdout; writes nothing yet.
    pub fn lock() -> Self {
        Self(io::stdout().lock())
    }

    /// Writes text at once.
    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        expect_stdout()?;
        let written = self.0.write_all(text.as_bytes()).and_then(|()| self.0.flush());
        written.map_err(|e| Failure::Run(format!("can't write to stdout: {e}")))
    }
}

/// Checks that stdout was open at the start.
pub fn expect_stdout() -> Result<(), Failure> {
    match stdout_was_closed() {
        false => Ok(()),
        true => Err(Failure::Run("can't write to stdout: it is closed; send it to a file, or to /dev/null".into())),
    }
}

/// Lets all that this process writes to stdout go nowhere: another process of the run reports.
pub fn silence() -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    {
        let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null");
        let done = nowhere.and_then(|nowhere| Ok(rustix::stdio::dup2_stdout(nowhere)?));
        done.map_err(|e| Failure::Run(format!("can't send stdout to /dev/null: {e}")))
    }
    #[cfg(not(target_os = "linux"))]
    Ok(())
}

/// A document, for a file or for stdout.
pub struct Document(Option<(PathBuf, Whole)>);

impl Document {
    /// Checks that the file can be written, and changes nothing yet.
    pub fn prepare(path: Option<&Path>) -> Result<Self, Failure> {
        let prepare = |path: &Path| match Whole::prepare(path) {
            Ok(file) => Ok((path.to_owned(), file)),
            Err(e) => Err(Failure::Usage(unwritten(path, e))),
        };
        path.map(prepare).transpose().map(Self)
    }

    /// Writes the document. If the file can't be written after all, it goes to stdout.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        let Some((path, file)) = &self.0 else { return Stdout::lock().write(text) };
        file.write(|out| out.write_all(text.as_bytes())).or_else(|e| {
            Stdout::lock().write(text)?;
            Err(Failure::Run(unwritten(path, e)))
        })
    }
}

/// What is reported as a line.
pub trait Line {
    /// The JSON object.
    fn json(&self) -> Result<String, Failure>;
    /// The header of CSV.
    fn csv_header(&self) -> String;
    /// The line of CSV.
    fn csv(&self) -> String;
}

impl Line for Record {
    /// Written by hand, so that the fields keep their order.
    fn json(&self) -> Result<String, Failure> {
        let fields = self.iter().map(|(name, field)| format!("\"{name}\":{}", field.json()));
        Ok(format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
    }

    fn csv_header(&self) -> String {
        let columns = |(name, field): &(&str, Field)| match field {
            Field::Summary(_) => Times::NAMES.map(|statistic| format!("{name}_{statistic}")).join(","),
            _ => (*name).to_owned(),
        };
        self.iter().map(columns).collect::<Vec<_>>().join(",") + "\n"
    }

    fn csv(&self) -> String {
        self.iter().map(|(_, field)| field.csv()).collect::<Vec<_>>().join(",") + "\n"
    }
}

/// A report on stdout.
pub struct Output {
    format: Format,
    out: Stdout,
    lines: Vec<Record>,
}

impl Output {
    /// A report without lines.
    pub fn new(format: Format) -> Self {
        Self { format, out: Stdout::lock(), lines: Vec::new() }
    }

    /// Whether the report is a table.
    pub fn is_table(&self) -> bool {
        self.format == Format::Table
    }

    /// Adds a run. All runs have the same fields.
    pub fn add(&mut self, line: Record) -> Result<(), Failure> {
        let text = match self.format {
            Format::Table => String::new(),
            Format::Json => line.json()? + "\n",
            Format::Csv if self.lines.is_empty() => line.csv_header() + &line.csv(),
            Format::Csv => line.csv(),
        };
        self.lines.push(line);
        self.out.write(&text)
    }

    /// Whether no run has been added to the present group.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Ends a group of runs. Each group has its own table, with its own medians.
    pub fn end_group(&mut self) -> Result<(), Failure> {
        if self.format == Format::Table {
            let text = table(&std::mem::take(&mut self.lines));
            self.out.write(&(text + "\n"))?;
        }
        Ok(())
    }

    /// Writes the table, if the report is one.
    pub fn finish(self) -> Result<(), Failure> {
        self.finish_with(table)
    }

    /// Writes the caller's own table, if the report is a table.
    pub fn finish_with(mut self, table: impl FnOnce(&[Record]) -> String) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.out.write(&table(&self.lines)),
            Format::Json | Format::Csv => Ok(()),
        }
    }
}

/// Fails if some runs were not verified, and says what is wrong with the first.
pub fn expect_verified(runs: usize, noun: &str, wrong: &[String]) -> Result<(), Failure> {
    let Some(first) = wrong.first() else { return Ok(()) };
    let why = if first.is_empty() { String::new() } else { format!("; {first}") };
    Err(Failure::Run(format!("{} of {} not verified{why}", wrong.len(), plural(runs, noun))))
}

/// A number of bytes for people: `1.5 KiB`.
pub fn bytes(n: u128) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return plural(n as usize, "byte");
    }
    let (mut value, mut unit) = (n as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A progress bar on stderr. It is not drawn if stderr is not a terminal.
pub fn progress(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
}

/// A table in the style of all tables. The first row is a header, and the columns from `figures` on are aligned right.
pub fn styled(rows: Builder, figures: usize) -> Table {
    let mut table = rows.build();
    table
        .with(Style::psql())
        .with(Modify::new(Columns::new(figures..)).with(Alignment::right()))
        .with(Modify::new(Rows::first()).with(Alignment::left()));
    table
}

/// The table of a benchmark: a heading with the values that all runs share, a row for each run with the others, and the
/// medians over the runs. If there are several runs, the medians leave out run 0, which warms up.
pub fn table(records: &[Record]) -> String {
    let (common, columns) = columns(records);
    let Some(first) = records.first() else { return String::new() };
    let mut rows = Builder::default();
    rows.push_record(["run"].into_iter().chain(columns.iter().map(|(_, name)| *name)));
    for (run, record) in records.iter().enumerate() {
        rows.push_record(std::iter::once(run.to_string()).chain(cells(record, &columns)));
    }
    let measured = warm(records);
    let over_runs = |i: usize| match first[i].1 {
        Field::Measured(_) => {
            let values = measured.iter().filter_map(|r| if let Field::Measured(m) = r[i].1 { Some(m) } else { None });
            microseconds(median(values))
        }
        _ => String::new(),
    };
    rows.push_record(std::iter::once("median".into()).chain(columns.iter().map(|&(i, _)| over_runs(i))));
    let left_out = if records.len() > 1 { "The medians leave out run 0, which warms up.\n" } else { "" };
    format!("{common}\n{}\n{left_out}", styled(rows, 1))
}

/// The same for runs of different sizes, which have no median.
pub fn table_of_sizes(records: &[Record]) -> String {
    if records.is_empty() {
        return String::new();
    }
    let (common, columns) = columns(records);
    let mut rows = Builder::default();
    rows.push_record(columns.iter().map(|(_, name)| *name));
    records.iter().for_each(|record| rows.push_record(cells(record, &columns)));
    format!("{common}\n{}\n", styled(rows, 0))
}

/// The heading of a table, and the columns, by their places in a record, with their names.
fn columns(records: &[Record]) -> (String, Vec<(usize, &'static str)>) {
    let (mut common, mut columns) = (Vec::new(), Vec::new());
    for (i, (name, field)) in records.iter().take(1).flatten().enumerate() {
        let measured = matches!(field, Field::Measured(_) | Field::Flag(_));
        if *field == Field::Absent {
            continue;
        }
        if !measured && records.iter().all(|r| r[i].1 == *field) {
            common.push(format!("{name} {}", field.people()));
        } else {
            columns.push((i, *name));
        }
    }
    (common.join(", "), columns)
}

fn cells(record: &Record, columns: &[(usize, &str)]) -> impl Iterator<Item = String> {
    columns.iter().map(|&(i, _)| record[i].1.people())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_are_not_verified_are_a_failure_that_names_the_first() {
        let said = |runs, wrong: &[&str]| {
            let wrong: Vec<String> = wrong.iter().map(|text| (*text).to_owned()).collect();
            match expect_verified(runs, "run", &wrong) {
                Err(Failure::Run(message)) => message,
                _ => panic!("exit code 1"),
            }
        };
        assert!(expect_verified(3, "run", &[]).is_ok());
        assert_eq!(said(1, &[""]), "1 of 1 run not verified");
        let cells = ["run 1: cell 7: wrong", "run 2: cell 7: wrong"];
        assert_eq!(said(3, &cells), "2 of 3 runs not verified; run 1: cell 7: wrong");
    }

    #[test]
    fn texts_are_quoted_if_they_need_it() {
        assert_eq!(quoted("a b.csv"), "a b.csv");
        assert_eq!(quoted("a,b.csv"), "\"a,b.csv\"");
        assert_eq!(quoted("a\"b.csv"), "\"a\"\"b.csv\"");
    }
}
