//! The document: the machine, the table of figures, and the method.

use super::platform::{Platform, WORKERS};
use super::rows::{Row, Sample};
use maniple_command::measure::environment::{Environment, Machine};
use maniple_command::measure::noise::{IN_YARDSTICKS, Noise, Sifted, Spread, usual_ns};
use maniple_command::measure::stats::{median, microseconds as figure};
use maniple_stencil::plural;
use std::fmt::Write;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

const METHOD: &str = "\
Figures are medians over the rounds, with the smallest and the largest in parentheses. A round measures each row once, right
before the figures that its target depends on. `ratio` is the median of measured ÷ target, so it is at most 1 if the target is
met. Every run verifies its results. e is the time of a cache line between two spinning threads, one way. P is the number of
shards, W the number of workers.

Targets in yardsticks, or in the time of another program, need a quiet machine. So a yardstick is measured right after each
measurement. Where it took more than 1.5 times the median of all, or less than that median ÷ 1.5, other programs were running or
the processors were moved. The measurement beside it is then left out. If this leaves fewer than half of a row's rounds, or if the
median of all yardsticks is above 1 µs, the row is `disturbed` and shows all rounds.

- *allreduce*: 64-bit floats. Each call depends on the last result. The time is the slowest shard's.
- *beside MPI*: `MPI_Allreduce` with one rank for each shard, by `maniple compare mpi`. With more ranks than processors MPI
  mostly waits for the kernel's scheduler, so these ratios are for information.
- *stencil kernel*: derivative, square sum and scaling of one vector by sequential code.
- *stencil, added to the kernel*: (T · W − sequential) ÷ P. T is the median time of an iteration with 1000 cells for each shard
  and recursive doubling, sequential the kernel's time for all cells as one vector.
- *leaf task*: from launch to end. StarPU's time is the line `Per task` of `STARPU_NCPU=1 tasks_overhead -i 200000 -b 1`.
- *task of a flow*: a leaf task of the top-level task, in the same way. With the larger window, which is the default of programs, the tasks
  under way do not fit into a near cache.
- *Cholesky*: from the first kernel's launch until all have ended, without the matrix's values and the verification. The rows of a pair
  alternate. *Its kernels in no order* are as many kernels of each kind on as many threads, none of which waits for another.
  `dpotrf` runs on two threads of OpenBLAS, `pdpotrf` on two ranks with OpenBLAS on one thread each, both in their second call, with
  blocks of 256. `cholesky_implicit` has 32-bit floats and runs on two workers, with as many tiles.
- *relaunch of a shard*: the time added to the kernel in the aggregation version, which launches its shards again in each
  iteration.
- *gang launch*: from the launch to the first instruction of the last shard, divided by the number of shards.
- *memory of a waiting shard*: the growth of the resident set of a new process until 4096 shards wait in an allreduce of 8 bytes,
  divided by the number of shards. It is all memory of a shard and of its part of the allreduce. The first calls have ended by
  then, so memory that is allocated late is included.
";

/// The method of rows in virtual time.
const METHOD_IN_VIRTUAL_TIME: &str = "\
Times are for two processors of the machine, on one node or on two, in virtual time. They follow from the machine's file and
are the same in each round. Every program really runs, and its results are verified. In parentheses are the smallest and the
largest of the rounds. `ratio` is measured ÷ target, so it is at most 1 if the target is met. e is the yardstick between the two
processors, one way, as `maniple cache-line --wire virtual` measures it. P is the number of shards, W the number of workers.

- *allreduce*: 64-bit floats. Each call depends on the last result. The time is the slowest shard's.
- *beside MPI*: the same program by recursive doubling, on two processors of the machine that stands for MPI (`--mpi-machine`),
  as in `maniple compare mpi --wire virtual`.
- *stencil kernel*: the time of the stencil's leaf task in the machine's file.
- *stencil, added to the kernel*: (T · W − sequential) ÷ P. T is the median time of an iteration with 1000 cells for each shard
  and recursive doubling, sequential the kernel's time for all cells as one vector.
- *leaf task*: from launch to end, on one processor.
- *relaunch of a shard*: the time added to the kernel in the aggregation version, which launches its shards again in each
  iteration.
- *gang launch*: from the launch to the first instruction of the last shard, divided by the number of shards.
- *memory of a waiting shard*: the growth of the resident set of a process of this host until 4096 shards wait in an allreduce of
  8 bytes, divided by the number of shards. It is measured with all processors of the node, or of the two nodes, not with two.
";

/// The whole document.
pub fn write(rows: &[Row], measured: &[Vec<Sample>], on: &Platform, rounds: usize, only: Option<&str>) -> String {
    // After all rounds.
    let Environment { began: now, machine, toolchain } = Environment::now();
    let mut text = "# Benchmarks\n\nWritten by `maniple-experiments benchmarks`. Do not edit.\n\n".to_owned();
    let mut facts = Builder::default();
    facts.push_record(["", ""]);
    let mut fact = |name: &str, value: String| facts.push_record([name, &value]);
    fact("date", now);
    // A bar would end the cell.
    let cell = |text: &str| text.replace('|', "\\|");
    fact("machine", on.about().map_or_else(|| describe(&machine), cell));
    if let Some(about) = on.mpi_about() {
        fact("MPI's machine", cell(about));
    }
    fact(
        "toolchain",
        format!("{}, {}, {}, opt-level {}", toolchain.rustc, toolchain.target, toolchain.profile, toolchain.opt_level),
    );
    let features = toolchain.features().unwrap_or_else(|| "no features".into());
    fact("maniple", format!("{}, {features}", toolchain.maniple));
    let only = only.map_or(String::new(), |only| format!(" --only '{only}'"));
    let options: String = on.options().iter().map(|option| format!(" {}", word(option))).collect();
    fact("command", cell(&format!("`maniple-experiments benchmarks{options} --repeat {rounds}{only}`")));
    fact("rounds", rounds.to_string());
    fact("W", WORKERS.to_string());
    let yardsticks: Vec<f64> = measured.iter().flatten().filter_map(|sample| sample.cache_line_ns).collect();
    if !yardsticks.is_empty() {
        fact("e", format!("{} ns", spread(yardsticks)));
    }
    let in_virtual_time = on.about().is_some();
    let method = if in_virtual_time { METHOD_IN_VIRTUAL_TIME } else { METHOD };
    let table = table(rows, measured, !in_virtual_time);
    let _ = writeln!(text, "{}\n\n{table}\n\n{method}", facts.build().with(Style::markdown()));
    let missing = missing(rows, measured);
    if !missing.is_empty() {
        let _ = writeln!(text, "Not compared:\n\n{missing}");
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// A word for a shell, in quotes if it needs them.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./,:=@+".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn describe(machine: &Machine) -> String {
    let mut parts = vec![machine.system.clone()];
    parts.extend(machine.kernel.clone());
    parts.extend(machine.cpu.clone());
    let of = |(may, all)| format!("{may} of {}", plural(all, "processor"));
    parts.extend(machine.available.zip(machine.processors).map(of));
    parts.extend(machine.memory());
    parts.extend(machine.governor.as_ref().map(|governor| format!("governor {governor}")));
    parts.extend(machine.load_average.map(|[minute, ..]| format!("load {minute} at the end")));
    parts.join(", ")
}

/// The median, with the smallest and the largest.
fn spread(values: impl IntoIterator<Item = f64>) -> String {
    let Spread { min, median, max, .. } = NOISE.spread(values);
    format!("{} ({}–{})", figure(median), figure(min), figure(max))
}

/// The rule for rounds.
const NOISE: Noise = IN_YARDSTICKS;

/// The table of rows. On this host, other programs may have disturbed rounds.
fn table(rows: &[Row], measured: &[Vec<Sample>], of_host: bool) -> String {
    let usual_ns = usual_ns(measured.iter().flatten().filter_map(|sample| sample.cache_line_ns)).filter(|_| of_host);
    let mut cells = Builder::default();
    cells.push_record(["", "target at most", "that is", "measured", "", "ratio", "met"]);
    for (row, all) in rows.iter().zip(measured) {
        let Sifted { kept, disturbed } = NOISE.sift(all, usual_ns, all.len());
        let target = median(kept.iter().filter_map(|held| held.target.clone().ok()));
        let ratio = median(kept.iter().filter_map(|held| Some(held.measured / held.target.clone().ok()?)));
        cells.push_record([
            &row.what,
            row.target.as_deref().unwrap_or("-"),
            &if row.target.is_some() { figure(target) } else { format!("MPI: {}", figure(target)) },
            &spread(kept.iter().map(|held| held.measured)),
            row.unit,
            &if ratio.is_nan() { "-".into() } else { format!("{ratio:.2}") },
            met(row, ratio, disturbed),
        ]);
    }
    let mut table = cells.build();
    table.with(Style::markdown());
    for column in [2, 3, 5] {
        table.with(Modify::new(Columns::one(column)).with(Alignment::right()));
    }
    table.to_string()
}

fn met(row: &Row, ratio: f64, disturbed: bool) -> &'static str {
    match &row.target {
        _ if ratio.is_nan() => "not compared",
        None => "-",
        Some(_) if disturbed => "disturbed",
        Some(_) if ratio <= 1.0 => "yes",
        Some(_) => "NO",
    }
}

/// The reasons why rows have nothing to compare with, each reason once.
fn missing(rows: &[Row], measured: &[Vec<Sample>]) -> String {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (row, samples) in rows.iter().zip(measured) {
        let Some(reason) = samples.iter().find_map(|sample| sample.found.target.as_ref().err()) else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, whose)) => whose.push(&row.what),
            None => reasons.push((reason.clone(), vec![&*row.what])),
        }
    }
    reasons.iter().map(|(reason, whose)| format!("- {}: {reason}\n", whose.join("; "))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rows::WithTarget;
    use super::*;

    fn row(what: &str, target: Option<&str>) -> Row {
        Row {
            what: what.into(),
            unit: "µs",
            target: target.map(String::from),
            measure: Box::new(|_| unreachable!("the samples are there")),
        }
    }

    fn sample(measured: f64, target: Result<f64, &str>) -> Sample {
        Sample { found: WithTarget { measured, target: target.map_err(String::from) }, cache_line_ns: None }
    }

    /// The cells of each line of a table.
    fn cells(table: &str) -> Vec<Vec<&str>> {
        table.lines().map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
    }

    #[test]
    fn words_are_quoted_if_they_need_it() {
        for (text, expected) in
            [("./mine-1.toml", "./mine-1.toml"), ("./my mine.toml", "'./my mine.toml'"), ("it's", "'it'\\''s'")]
        {
            assert_eq!(word(text), expected);
        }
    }

    #[test]
    fn rows_say_whether_their_target_is_met() {
        let rows = [row("a", Some("1 × b")), row("c", Some("2 µs")), row("d", None), row("e", Some("f"))];
        let measured = [
            // Ratios 0.5, 2 and 0.75: of the pairs, not of the medians, which would give 3 ÷ 2.
            vec![sample(1.0, Ok(2.0)), sample(4.0, Ok(2.0)), sample(3.0, Ok(4.0))],
            vec![sample(2.5, Ok(2.0))],
            vec![sample(3.0, Ok(6.0))],
            vec![sample(7.0, Err("get f"))],
        ];
        let table = table(&rows, &measured, true);
        let cells = cells(&table);
        assert_eq!(cells[2], ["a", "1 × b", "2.000", "3.000 (1.000–4.000)", "µs", "0.75", "yes"]);
        assert_eq!(cells[3], ["c", "2 µs", "2.000", "2.500 (2.500–2.500)", "µs", "1.25", "NO"]);
        assert_eq!(cells[4], ["d", "-", "MPI: 6.000", "3.000 (3.000–3.000)", "µs", "0.50", "-"]);
        assert_eq!(cells[5], ["e", "f", "-", "7.000 (7.000–7.000)", "µs", "-", "not compared"]);
        assert_eq!(missing(&rows, &measured), "- e: get f\n");
    }

    #[test]
    fn the_method_says_which_rounds_count() {
        let factor = NOISE.within.expect("a factor");
        assert!(
            METHOD
                .contains(&format!("more than {factor} times the median of all, or less than that median ÷ {factor}"))
        );
    }

    #[test]
    fn rounds_of_another_machine_do_not_count() {
        let with = |measured, cache_line_ns| Sample { cache_line_ns: Some(cache_line_ns), ..sample(measured, Ok(2.0)) };
        let rows = [row("a", Some("e")), row("b", Some("e")), row("c", Some("e")), row("d", Some("2 µs"))];
        let measured = [
            vec![with(1.0, 50.0), with(1.5, 75.0), with(9.0, 9000.0), with(9.0, 11.0)],
            vec![with(3.0, 50.0), with(1.0, 76.0), with(3.0, 33.4), with(3.0, 50.0)],
            vec![with(1.0, 50.0), with(1.0, 33.0), with(1.0, 76.0)],
            vec![sample(1.0, Ok(2.0))],
        ];
        let verdicts = |measured: &[Vec<Sample>]| -> Vec<[String; 2]> {
            let table = table(&rows, measured, true);
            cells(&table)[2..].iter().map(|cells| [cells[3].into(), cells[6].into()]).collect()
        };
        let expected = [
            ["1.250 (1.000–1.500)", "yes"],
            ["3.000 (3.000–3.000)", "NO"],
            ["1.000 (1.000–1.000)", "disturbed"],
            ["1.000 (1.000–1.000)", "yes"],
        ];
        assert_eq!(verdicts(&measured), expected);

        // Slow everywhere: a busy machine can't tell.
        let slow = [vec![with(1.0, 2100.0)], vec![with(1.0, 2200.0)]];
        assert_eq!(verdicts(&slow), [["1.000 (1.000–1.000)", "disturbed"]; 2]);
    }
}
