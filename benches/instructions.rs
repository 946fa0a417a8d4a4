//! Instructions of one allreduce of 8 bytes, and of a part of 8 bytes with its leaf task, counted by callgrind and compared with
//! `instructions.toml` beside this file.
//!
//! ```text
//! cargo bench -p maniple-benches --bench instructions                # compare; differences beyond 3% fail
//! cargo bench -p maniple-benches --bench instructions -- --update    # write the file anew
//! ```
//!
//! The count of an allreduce is for all shards together on one worker, where nobody spins: the difference between a run of many
//! calls and one of few, divided by the calls that it has more. So start and end drop out. The count of a part is the same,
//! divided by the parts that all shards together have in a call.

use maniple_collectives::{Algorithm, Collective, Operator};
use maniple_regions::Vector;
use maniple_runtime::{Arg, Error, Input, Runtime, Shard, ShardLaunch, TaskFuture};
use std::fmt::{self, Write};
use std::process::{Command, ExitCode};
use std::str::FromStr;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.toml");
/// What is counted, and the number of shards.
type Row = (What, u32);
const ROWS: [Row; 4] = [
    (What::Allreduce(Algorithm::RecursiveDoubling), 2),
    (What::Allreduce(Algorithm::RecursiveDoubling), 8),
    (What::Allreduce(Algorithm::TwoLevel), 64),
    (What::Part, 8),
];

#[derive(Clone, Copy)]
enum What {
    /// An allreduce by an algorithm.
    Allreduce(Algorithm),
    /// A part of an all-to-all, and a leaf task that takes it.
    Part,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Allreduce(algorithm) => algorithm.fmt(f),
            What::Part => f.write_str("part"),
        }
    }
}

impl FromStr for What {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "part" => Ok(What::Part),
            _ => {
                text.parse().map(What::Allreduce).map_err(|_| format!("expected an algorithm or `part`, found {text}"))
            }
        }
    }
}

/// Calls of all shards in the shorter run. Start and end of two runs differ by some 10^4 instructions, as threads happen to
/// free what they share; this many calls make 0.03% of that.
const CALLS: u32 = 16_000;
/// How far a count may be from the recorded one.
const TOLERANCE: f64 = 0.03;
/// How far two counts of the same program may be apart.
const REPEATABLE: f64 = 0.001;
const UPDATE: &str = "cargo bench -p maniple-benches --bench instructions -- --update";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let unknown = args.iter().find(|arg| !["--bench", "--update"].contains(&arg.as_str()));
    let done = match (&args[..], unknown) {
        ([calls, what, shards, n], _) if calls == "calls" => match (what.parse(), shards.parse(), n.parse()) {
            (Ok(what), Ok(shards), Ok(n)) if shards > 0 => run((what, shards), n),
            _ => Err(format!(
                "expected an algorithm or `part`, and the numbers of shards and of calls, found {what}, {shards}, {n}"
            )),
        },
        // `cargo test`, or `cargo bench -- --test`.
        _ if maniple_benches::is_test() => ROWS.into_iter().try_for_each(|row| run(row, 10)),
        (_, Some(option)) if option.starts_with('-') => Err(format!("expected --update or --test, found {option}")),
        // The name of another bench.
        (_, Some(_)) => Ok(()),
        _ if has("--update") => update(),
        _ => compare(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("instructions: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn calls(shard: Shard, (mean, calls): (Collective<f64>, u32)) -> Result<f64, Error> {
    let mut x = f64::from(shard.index());
    for _ in 0..calls {
        x = mean.call(&shard, x)?.await? / f64::from(shard.shards());
    }
    Ok(x)
}

/// In each call shard s gets a block from each other one, and a task for each part says what is in it: s again.
async fn parts(shard: Shard, (all, calls): (Collective<[f64]>, u32)) -> Result<f64, Error> {
    let mut last = 0.0;
    for _ in 0..calls {
        let own: Vec<f64> = (0..shard.shards()).map(f64::from).collect();
        let parts = all.call_parts(&shard, own)?;
        let mut tasks: Vec<TaskFuture<f64>> = Vec::with_capacity(parts.len());
        for part in parts.iter() {
            tasks.push(shard.launch(|part: Arg<Vector<f64>>| part[0], (Input::from(part),)).go()?);
        }
        last = 0.0;
        for task in tasks {
            last += task.await? / f64::from(shard.shards());
        }
    }
    Ok(last)
}

fn run((what, shards): Row, n: u32) -> Result<(), String> {
    match what {
        What::Allreduce(algorithm) => run_allreduces(algorithm, shards, n),
        What::Part => run_parts(shards, n),
    }
}

fn run_parts(shards: u32, n: u32) -> Result<(), String> {
    let run = Runtime::threads(1).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let all = Collective::<f64>::all_to_all().algorithm(Algorithm::Direct).make(&top, &gang, "all")?;
        let task = top.register("parts", parts);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((all, n)))?.all().await
    });
    let (found, _) = run.map_err(|e| e.to_string())?;
    let expected: Vec<f64> = (0..shards).map(f64::from).collect();
    if found == expected { Ok(()) } else { Err(format!("expected {expected:?}, found {found:?}")) }
}

/// Calls that each depend on the one before. The mean of 0..P is (P - 1) / 2 and stays that.
fn run_allreduces(algorithm: Algorithm, shards: u32, n: u32) -> Result<(), String> {
    let run = Runtime::threads(1).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let mean = Collective::allreduce(Operator::sum()).algorithm(algorithm).make(&top, &gang, "mean")?;
        let task = top.register("calls", calls);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((mean, n)))?.all().await
    });
    let (means, _) = run.map_err(|e| e.to_string())?;
    let expected = f64::from(shards - 1) / 2.0;
    match means.iter().find(|mean| **mean != expected) {
        None => Ok(()),
        Some(mean) => Err(format!("expected {expected} of {shards} shards, found {mean}")),
    }
}

/// Instructions of a whole run of this program, under callgrind.
fn collected((what, shards): Row, calls: u32) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|e| format!("can't find this program: {e}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["calls", &what.to_string(), &shards.to_string(), &calls.to_string()])
        .output()
        .map_err(|e| format!("can't start valgrind: {e}. On Debian, as root:\n    apt-get install valgrind"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    let count = log.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    match count {
        Some(count) if output.status.success() => Ok(count),
        _ => Err(format!("expected a count of instructions from valgrind, found {}:\n{log}", output.status)),
    }
}

/// Instructions of one call, or of one part.
fn per_call(row: Row) -> Result<f64, String> {
    let (calls, parts) = match row {
        (What::Allreduce(_), shards) => (CALLS / shards.min(16), 1),
        (What::Part, shards) => (CALLS / shards.pow(2), shards.pow(2)),
    };
    Ok((collected(row, 3 * calls)? - collected(row, calls)?) / f64::from(2 * calls * parts))
}

/// The same for a count that is recorded.
fn per_call_twice(row: Row) -> Result<f64, String> {
    let (first, second) = (per_call(row)?, per_call(row)?);
    if (first - second).abs() > REPEATABLE * first {
        let most = REPEATABLE * 100.0;
        return Err(format!(
            "expected two counts of the same calls within {most}% of each other, found {first} and {second}: something \
             in them depends on timing"
        ));
    }
    Ok(first)
}

/// The compiler and the machine it compiles for: counts of others say nothing.
fn toolchain() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|e| format!("can't start rustc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let of = |key| text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("?").trim();
    Ok(format!("{} {}", of("release:"), of("host:")))
}

fn key((what, shards): Row) -> String {
    format!("{}_{shards}_shards", what.to_string().replace('-', "_"))
}

/// Refuses a build that is not the one whose counts are kept.
fn optimised() -> Result<(), String> {
    if cfg!(debug_assertions) { Err(format!("expected a release build, as by\n    {UPDATE}")) } else { Ok(()) }
}

fn update() -> Result<(), String> {
    optimised()?;
    let mut text = format!(
        "# Instructions of one allreduce of 8 bytes, all shards together, and of one part of 8 bytes of an all-to-all with its leaf\n\
         # task; one worker, release profile.\n\
         # Written by {UPDATE}\n\
         rustc = \"{}\"\n",
        toolchain()?
    );
    for row in ROWS {
        let line = format!("{} = {:.0}", key(row), per_call_twice(row)?);
        println!("{line}");
        let _ = writeln!(text, "{line}");
    }
    std::fs::write(FILE, text).map_err(|e| format!("can't write {FILE}: {e}"))
}

fn compare() -> Result<(), String> {
    optimised()?;
    let text =
        std::fs::read_to_string(FILE).map_err(|e| format!("can't read {FILE}: {e}. To write it:\n    {UPDATE}"))?;
    let recorded = |key: &str| -> Result<&str, String> {
        let mut entries = text.lines().filter_map(|line| line.split_once('='));
        let value = entries.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim());
        value.ok_or_else(|| format!("expected `{key}` in {FILE}. To write it anew:\n    {UPDATE}"))
    };
    let (here, there) = (toolchain()?, recorded("rustc")?.trim_matches('"'));
    let mut off = Vec::new();
    for row in ROWS {
        let key = key(row);
        let expected: f64 = recorded(&key)?.parse().map_err(|e| format!("`{key}` in {FILE}: {e}"))?;
        let count = per_call(row)?;
        let more = count / expected - 1.0;
        println!("{key} = {count:.0}, recorded {expected:.0}, {:+.1}%", more * 100.0);
        if more.abs() > TOLERANCE {
            off.push(format!("{key} takes {:.1}% {}", more.abs() * 100.0, if more > 0.0 { "more" } else { "less" }));
        }
    }
    if here != there {
        println!("not compared: recorded with rustc {there}, this is {here}");
        return Ok(());
    }
    if off.is_empty() {
        return Ok(());
    }
    let most = TOLERANCE * 100.0;
    Err(format!(
        "expected the recorded counts within {most}%, but {}. If that is meant, or an improvement, record it:\n    {UPDATE}",
        off.join(" and ")
    ))
}
