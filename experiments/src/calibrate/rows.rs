//! The results of `maniple-experiments predict`: measured and predicted times, and the errors.

use super::calibrator::NOISE;
use super::prediction::Program;
use maniple_command::measure::noise::{Beside, Sifted};
use maniple_command::measure::stats::{median, microseconds, quantile_of, undisturbed};
use maniple_command::output::{Record, field, styled};
use serde::Serialize;
use std::fmt;
use tabled::builder::Builder;

/// One program with one number of shards, measured and predicted. Times are in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// The program.
    pub program: &'static str,
    /// The number of shards.
    pub shards: usize,
    /// The time on threads: the lower decile of the runs, or their median if disturbed.
    pub measured_us: f64,
    /// First quartile, median and third quartile of the runs.
    pub quartiles_us: [f64; 3],
    /// The number of runs that count.
    pub runs: usize,
    /// Whether the host was as the machine describes it in fewer than half of the runs asked for. Then all runs count.
    pub disturbed: bool,
    /// The time in virtual time.
    pub predicted_us: f64,
}

impl Row {
    /// Makes a row of its runs. Runs count if their yardstick is near `own`, the yardstick of the calibration.
    pub fn new(
        (program, shards): (Program, usize),
        runs: &[Beside<f64>],
        own: Option<f64>,
        repeat: usize,
        predicted_us: f64,
    ) -> Self {
        let Sifted { kept, disturbed } = NOISE.sift(runs, own, repeat);
        let kept: Vec<f64> = kept.into_iter().copied().collect();
        let quartiles_us = [0.25, 0.5, 0.75].map(|q| quantile_of(&kept, q));
        Self {
            program: program.name(),
            shards,
            // If the host was in another state, the fastest runs say the least about the state that was calibrated.
            measured_us: if disturbed { quartiles_us[1] } else { undisturbed(&kept) },
            quartiles_us,
            runs: kept.len(),
            disturbed,
            predicted_us,
        }
    }

    /// The relative error of the prediction; above 0 if it is too long.
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }

    /// The relative error against the median of the runs: the usual time of the host, disturbed or not.
    pub fn error_of_median(&self) -> f64 {
        self.predicted_us / self.quartiles_us[1] - 1.0
    }
}

/// The median and the largest error of some rows, without signs, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// The median.
    pub middle: f64,
    /// The largest.
    pub worst: f64,
}

impl Errors {
    /// The errors of these rows.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>, error: fn(&Row) -> f64) -> Self {
        let errors: Vec<f64> = rows.into_iter().map(|row| 100.0 * error(row).abs()).collect();
        let worst = errors.iter().copied().fold(f64::NAN, f64::max);
        Self { middle: median(errors), worst }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { middle, worst } = self;
        write!(f, "median error {middle:.1} %, worst {worst:.1} %")
    }
}

impl Row {
    /// The fields of the report, without the machine.
    pub fn fields(&self) -> Record {
        vec![
            field("program", self.program),
            field("shards", self.shards),
            field("runs", self.runs),
            field("disturbed", self.disturbed),
            field("measured_us", self.measured_us),
            field("first_us", self.quartiles_us[0]),
            field("median_us", self.quartiles_us[1]),
            field("third_us", self.quartiles_us[2]),
            field("predicted_us", self.predicted_us),
            field("error", self.error()),
        ]
    }

    /// The fields of the report, with the machine.
    pub fn record(&self, machine: &str) -> Record {
        let mut record = self.fields();
        record.insert(1, field("machine", machine));
        record
    }
}

/// The table: a row for each program and number of shards, and the errors of each program.
pub fn table(rows: &[Row], machine: &str) -> String {
    let mut builder = Builder::default();
    builder.push_record(["program", "shards", "lower decile", "quartiles", "predicted", "error", "runs"]);
    for row in rows {
        let [first, middle, third] = row.quartiles_us.map(microseconds);
        let disturbed = if row.disturbed { " disturbed" } else { "" };
        builder.push_record([
            row.program.to_owned(),
            row.shards.to_string(),
            microseconds(row.measured_us),
            format!("{first} {middle} {third}"),
            microseconds(row.predicted_us),
            format!("{:+.1} %", 100.0 * row.error()),
            format!("{}{disturbed}", row.runs),
        ]);
    }
    let mut text = format!("on threads and on `{machine}` in virtual time; times in µs\n{}\n", styled(builder, 1));
    let mut programs: Vec<&str> = rows.iter().map(|row| row.program).collect();
    programs.dedup();
    for name in programs {
        text += &format!("{name}: {}\n", Errors::of(rows.iter().filter(|row| row.program == name), Row::error));
    }
    if let Some(near) = NOISE.within.filter(|_| rows.iter().any(|row| row.disturbed)) {
        text += &format!(
            "disturbed: the time of a cache line differs from the time in the calibration by more than a factor of {near}; \
             calibrate again, or leave --machine out\n"
        );
    }
    for (what, error) in [("against the runs' medians", Row::error_of_median as fn(&Row) -> f64), ("all", Row::error)] {
        text += &format!("{what}: {}\n", Errors::of(rows, error));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measured_us: f64, predicted_us: f64) -> Row {
        let quartiles_us = [measured_us; 3];
        Row { program: "stencil", shards: 4, measured_us, quartiles_us, runs: 3, disturbed: false, predicted_us }
    }

    #[test]
    fn a_row_has_the_runs_that_were_in_the_state_of_the_calibration() {
        // 1 to 21 in any order, and twice as many in another state.
        let near = (0..21).map(|i| (f64::from(1 + (i * 8) % 21), 30.0));
        let far = (0..42).map(|i| (0.1 + f64::from(i), 300.0));
        let beside = |(found, ns): (f64, f64)| Beside { found, cache_line_ns: Some(ns) };
        let runs: Vec<_> = far.clone().chain(near).map(beside).collect();
        let row = Row::new((Program::Stencil, 4), &runs, Some(31.0), 21, 3.3);
        let expected = Row {
            program: "stencil",
            shards: 4,
            measured_us: 3.0,
            quartiles_us: [6.0, 11.0, 16.0],
            runs: 21,
            disturbed: false,
            predicted_us: 3.3,
        };
        assert_eq!(row, expected);
        assert_eq!([row.error(), row.error_of_median()].map(|e| (e * 1000.0).round()), [100.0, -700.0]);
        let names = ["measured_us", "first_us", "median_us", "third_us"];
        let record = row.record("mine");
        let values = names.map(|name| record.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()));
        assert_eq!(values, [3.0, 6.0, 11.0, 16.0].map(|us| Some(us.into())));
        assert!(table(&[row], "mine").contains(" 6.000 11.00 16.00 "));

        // Ten of 21 are too few.
        let few: Vec<_> = far.take(11).chain((0..10).map(|_| (50.0, 30.0))).map(beside).collect();
        let row = Row::new((Program::Stencil, 4), &few, Some(31.0), 21, 3.3);
        assert_eq!((row.runs, row.disturbed, row.measured_us), (21, true, 10.1));
        assert!(!Row::new((Program::Stencil, 4), &few, Some(31.0), 20, 3.3).disturbed);
    }

    #[test]
    fn errors_are_parts_of_what_was_measured() {
        let rows = [row(10.0, 12.0), row(10.0, 9.0), row(10.0, 10.5)];
        assert_eq!(rows.each_ref().map(|r| (r.error() * 1000.0).round()), [200.0, -100.0, 50.0]);
        let Errors { middle, worst } = Errors::of(&rows, Row::error);
        assert_eq!([middle, worst].map(|e| (e * 10.0).round()), [100.0, 200.0]);
        let text = table(&rows, "mine");
        assert!(text.contains("+20.0 %") && text.contains("-10.0 %"), "{text}");
        assert!(text.ends_with("all: median error 10.0 %, worst 20.0 %\n") && !text.contains("disturbed"), "{text}");
        let text = table(&[Row { disturbed: true, ..row(10.0, 12.0) }], "mine");
        assert!(text.contains("3 disturbed") && text.contains("\ndisturbed: the time of a cache line"), "{text}");
    }
}
