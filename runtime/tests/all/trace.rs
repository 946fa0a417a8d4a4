//! Traces: the file is read back, checked against the format, and compared with what the run counted.

use crate::common;
use crate::common::{Scatter, virtual_nodes, watched};
use maniple_mapper::{LeafInput, LeafOutput, Mapper};
use maniple_regions::{Field, Partition, ReadWrite, Rect, Region};
use maniple_runtime::{
    Driver, Edges, Error, Gang, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch, Stats, Top, TraceFile,
};
use serde_json::Value;
use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const X: Field<u64> = Field::new(0, "x");

/// A path of its own for each test that asks with a name of its own.
fn path(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

/// What a trace holds, as far as it was checked.
struct Trace {
    events: Vec<Event>,
    about: Value,
    bytes: String,
}

/// An event with what its phase must have. Times are in nanoseconds.
#[derive(Debug, Clone)]
struct Event {
    phase: String,
    name: String,
    category: String,
    row: (u64, u64),
    start: u64,
    end: u64,
    id: String,
    args: Value,
}

impl Trace {
    fn of<'a>(&'a self, phase: &'a str, category: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |e| e.phase == phase && e.category == category)
    }

    fn count(&self, phase: &str, category: &str) -> u64 {
        self.of(phase, category).count() as u64
    }

    /// How often each name occurs among the slices of a category.
    fn names<'a>(&'a self, category: &'a str) -> HashMap<&'a str, usize> {
        let mut names = HashMap::new();
        self.of("X", category).for_each(|e| *names.entry(e.name.as_str()).or_default() += 1);
        names
    }

    /// The innermost slices that a point is in, the ends included.
    fn around<'a>(&'a self, point: &Event) -> Vec<&'a Event> {
        let slices = self.events.iter().filter(|e| e.phase == "X" && e.row == point.row);
        slices.filter(|e| e.start <= point.start && point.start <= e.end).collect()
    }
}

fn ns(value: &Value) -> u64 {
    let us = value.as_f64().unwrap_or_else(|| panic!("expected microseconds, found {value}"));
    assert!(us >= 0.0, "{us}");
    (us * 1000.0).round() as u64
}

/// Reads a file and checks it against the Trace Event Format.
fn read(path: &PathBuf) -> Trace {
    let bytes = std::fs::read_to_string(path).expect("a trace");
    let mut file: Value = serde_json::from_str(&bytes).expect("JSON");
    assert_eq!(file["displayTimeUnit"], "ns");
    let events: Vec<Event> = file["traceEvents"].as_array().expect("a list").iter().map(event).collect();
    let trace = Trace { events, about: file["otherData"].take(), bytes };
    check_nesting(&trace);
    check_arrows(&trace);
    check_waits(&trace);
    trace
}

fn event(value: &Value) -> Event {
    let text = |field: &str| value[field].as_str().unwrap_or_else(|| panic!("expected {field} in {value}")).to_owned();
    let number = |field: &str| value[field].as_u64().unwrap_or_else(|| panic!("expected {field} in {value}"));
    let phase = text("ph");
    let start = ns(&value["ts"]);
    let (mut end, mut id, mut category) = (start, String::new(), String::new());
    match phase.as_str() {
        "M" => assert!(["process_name", "thread_name", "thread_sort_index"].contains(&text("name").as_str())),
        _ => category = text("cat"),
    }
    match phase.as_str() {
        "X" => end = start + ns(&value["dur"]),
        "s" | "b" | "e" => id = text("id"),
        "f" => {
            assert_eq!(text("bp"), "e");
            id = text("id");
        }
        "i" => assert!(["g", "p", "t"].contains(&text("s").as_str())),
        "M" => {}
        other => panic!("unknown phase {other}"),
    }
    let row = (number("pid"), number("tid"));
    Event { phase, name: text("name"), category, row, start, end, id, args: value["args"].clone() }
}

/// Slices of one row lie within each other or beside each other.
fn check_nesting(trace: &Trace) {
    let mut rows: HashMap<(u64, u64), Vec<&Event>> = HashMap::new();
    trace.events.iter().filter(|e| e.phase == "X").for_each(|e| rows.entry(e.row).or_default().push(e));
    for slices in rows.values_mut() {
        slices.sort_by_key(|e| (e.start, std::cmp::Reverse(e.end)));
        let mut open: Vec<&Event> = Vec::new();
        for slice in slices {
            while open.last().is_some_and(|o| o.end <= slice.start) {
                open.pop();
            }
            if let Some(outer) = open.last() {
                assert!(slice.end <= outer.end, "{slice:?} is not within {outer:?}");
            }
            open.push(slice);
        }
    }
}

/// Each end of an arrow has one beginning, of the same kind, no later, and both lie on slices.
fn check_arrows(trace: &Trace) {
    let mut begun: HashMap<(&str, &str, &str), &Event> = HashMap::new();
    for e in trace.events.iter().filter(|e| e.phase == "s") {
        assert!(!trace.around(e).is_empty(), "no slice around {e:?}");
        assert!(begun.insert((&e.category, &e.name, &e.id), e).is_none(), "two of {e:?}");
    }
    for e in trace.events.iter().filter(|e| e.phase == "f") {
        let s = begun.remove(&(e.category.as_str(), e.name.as_str(), e.id.as_str()));
        let s = s.unwrap_or_else(|| panic!("no beginning, or two ends: {e:?}"));
        assert!(s.start <= e.start, "{s:?} is later than {e:?}");
        assert!(!trace.around(e).is_empty(), "no slice around {e:?}");
    }
}

/// Waits of one shard begin and end in turns.
fn check_waits(trace: &Trace) {
    let mut open: HashMap<&str, &Event> = HashMap::new();
    for e in trace.events.iter().filter(|e| e.category == "wait") {
        match e.phase.as_str() {
            "b" => assert!(open.insert(&e.id, e).is_none(), "{e:?} within another"),
            "e" => {
                let b = open.remove(e.id.as_str()).unwrap_or_else(|| panic!("no beginning of {e:?}"));
                assert!(b.start <= e.start && b.name == e.name, "{b:?} {e:?}");
            }
            _ => panic!("{e:?}"),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// The trace that a run has written. A copy of this process writes none.
fn written(path: &PathBuf) -> Option<Trace> {
    if Runtime::process_number() > 0 {
        assert!(!path.exists(), "{path:?}");
        return None;
    }
    Some(read(path))
}

/// Runs a program with a trace; what came of it, and the trace if this process has written it.
fn traced<F, Fut, R>(name: &str, runtime: &Runtime, top: F) -> (Result<(R, Stats), Error>, Option<Trace>)
where
    F: Fn(Top) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Error>> + 'static,
    R: Send + 'static,
{
    let path = path(name);
    let runtime = runtime.clone().trace(TraceFile::create(&path).expect("a file"));
    let result = watched(name, || runtime.run(top));
    (result, written(&path))
}

/// The node of a processor, and whether the run is on several processes.
fn node_of(runtime: &Runtime, processor: u64) -> (u64, bool) {
    match runtime.driver() {
        Driver::Threads { .. } => (0, false),
        Driver::Processes { workers, .. } => (processor / u64::from(*workers), true),
        _ => (processor, false),
    }
}

fn drivers() -> Vec<(String, Runtime)> {
    if let Some(all) = common::processes::runtimes() {
        return all;
    }
    let seeded = (0..20).map(|seed| (format!("seed-{seed}"), Runtime::seeded(1 + seed as u32 % 4, seed)));
    let threads = (1..=3).map(|n| (format!("threads-{n}"), Runtime::threads(n)));
    let machines = (0..6).map(|seed| (format!("virtual-{seed}"), virtual_nodes(1 + seed as u32 % 4, seed).1));
    seeded.chain(machines).chain(threads).collect()
}

/// Processes are named after their node and, if there are several, their host.
fn check_hosts(trace: &Trace, of_processes: bool) {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let names: Vec<_> = trace.events.iter().filter(|e| e.name == "process_name").collect();
    for name in &names {
        let node = format!("node {}", name.row.0 - 1);
        let expected = if of_processes { format!("{node} on {}", host.trim()) } else { node };
        assert_eq!(name.args["name"], expected);
    }
    let nodes = names.iter().map(|e| e.row.0).max().unwrap_or(0) as usize;
    let hosts = of_processes.then(|| vec![host.trim(); nodes]);
    assert_eq!(trace.about.get("hosts"), hosts.map(Value::from).as_ref());
    // All is on one host.
    assert!(trace.about["clock_error_us"].is_null() && trace.about["missing"].is_null());
}

fn add(mut x: ReadWrite<u64>) {
    x.as_mut_slice()[0] += 1;
}

fn fails(_: ReadWrite<u64>) {
    panic!("by intention");
}

const ROUNDS: u64 = 5;

/// In each round: two leaf tasks, a pair's arrival to the next shard in a ring, and a barrier of all.
async fn rounds(shard: Shard, (block, ring, all): (Region, Edges, PhaseBarrier)) -> Result<(), Error> {
    let x = shard.region(block)?;
    let (me, n) = (shard.index(), shard.shards());
    let (fill, usage) =
        (ring.producer(&shard, (shard.index() + 1) % shard.shards())?, ring.consumer(&shard, (me + n - 1) % n)?);
    let (arrive, wait) = (all.arriver(&shard)?, all.waiter(&shard)?);
    for _ in 0..ROUNDS {
        shard.launch(add, (x.read_write(X),)).wait(fill.empty()).arrive(fill.ready()).go()?.detach();
        shard.launch(add, (x.read_write(X),)).wait(usage.ready()).arrive(usage.empty()).go()?.await?;
        shard.arrive(&arrive);
        shard.wait(&wait).await?;
    }
    Ok(())
}

async fn ring(top: Top, shards: u32) -> Result<(), Error> {
    let line = top.region_tree("line", Rect::line(0, shards.into()), &[X.info()])?;
    let blocks: Vec<Region> = Partition::equal(line, shards as usize)?.iter().collect();
    let gang: Gang = top.gang("all", shards)?;
    let pairs = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?;
    let all = top.phase_barrier("round", &gang, PhaseOptions::all(&gang))?;
    let task = top.register("rounds", rounds);
    let done = top.launch_gang(&gang, &task, |s| {
        let block = blocks[s as usize];
        ShardLaunch::new((block, pairs, all)).writes(block, [X])
    })?;
    done.all().await.map(drop)
}

#[test]
fn a_trace_holds_what_the_run_counted() {
    const SHARDS: u32 = 5;
    for (name, runtime) in drivers() {
        let (result, trace) = traced(&name, &runtime, |top| ring(top, SHARDS));
        let (_, stats) = result.expect(&name);
        let Some(trace) = trace else { continue };
        assert_eq!(trace.count("X", "leaf"), stats.leaf_tasks, "{name}");
        assert_eq!(stats.leaf_tasks, u64::from(SHARDS) * ROUNDS * 2);
        assert_eq!(trace.names("leaf"), HashMap::from([("add", stats.leaf_tasks as usize)]), "{name}");
        assert_eq!(trace.count("s", "message"), stats.messages, "{name}");
        // All but the last ones, of which a processor that has stopped takes in no more.
        assert!(trace.count("f", "message") + 16 >= stats.messages, "{name}");
        assert_eq!(trace.count("X", "mapper") + trace.count("i", "mapper"), stats.mapper_calls, "{name}");
        let polls = trace.names("shard");
        assert!(polls["rounds"] >= SHARDS as usize && polls["top level"] >= 1, "{name}: {polls:?}");
        assert!(trace.of("X", "leaf").all(|e| e.args["shard"].as_u64().is_some_and(|s| s < SHARDS.into())));
        // One row a processor, one process a node.
        let rows: Vec<_> = trace.events.iter().filter(|e| e.name == "thread_name").map(|e| e.row).collect();
        for (i, row) in (0..).zip(&rows) {
            assert_eq!(*row, (node_of(&runtime, i).0 + 1, i + 1), "{name}");
        }
        if let Driver::Processes { processes, workers } = runtime.driver() {
            assert_eq!(rows.len(), (processes * workers) as usize, "{name}");
        }
        check_hosts(&trace, node_of(&runtime, 0).1);
        assert!(trace.about["error"].is_null() && trace.bytes.len() > 1000, "{name}");
    }
}

#[test]
fn arrows_lead_from_arrivals_to_whom_they_release() {
    const SHARDS: u32 = 4;
    for (name, runtime) in drivers() {
        let name = format!("arrows-{name}");
        let (result, trace) = traced(&name, &runtime, |top| ring(top, SHARDS));
        result.expect(&name);
        let Some(trace) = trace else { continue };
        let starts: HashMap<&str, &Event> = trace.of("s", "arrival").map(|e| (e.id.as_str(), e)).collect();
        let mut of_ring = 0;
        for e in trace.of("f", "arrival") {
            let s = starts[e.id.as_str()];
            // The slice that begins there is the slice of the one released.
            let is_released = |slice: &&&Event| slice.start == e.start && slice.category == "leaf";
            if e.name.contains("ring") {
                of_ring += 1;
                let around = trace.around(e);
                let to = around.iter().find(is_released).unwrap_or_else(|| panic!("{name}: no task at {e:?}"));
                // Whoever arrives at a ready half is the shard before; at an empty half, the shard after.
                let near: Vec<u64> = trace
                    .around(s)
                    .iter()
                    .filter(|slice| slice.category == "leaf")
                    .filter_map(|slice| slice.args["shard"].as_u64())
                    .collect();
                let to = to.args["shard"].as_u64().expect("a shard");
                let n = u64::from(SHARDS);
                assert!(near.iter().any(|from| [(from + 1) % n, (from + n - 1) % n].contains(&to)), "{name}: {s:?}");
            }
        }
        assert!(of_ring > 0, "{name}");
        assert!(trace.of("f", "arrival").any(|e| e.name.contains("round")), "{name}");
    }
}

#[test]
fn a_seed_gives_the_same_bytes() {
    for seed in 0..10 {
        let once = |name: &str| traced(name, &Runtime::seeded(3, seed), |top| ring(top, 4)).1.map(|trace| trace.bytes);
        assert_eq!(once("once"), once("again"), "seed {seed}");
    }
}

async fn one_fails(shard: Shard, block: Region) -> Result<(), Error> {
    let x = shard.region(block)?;
    shard.launch(add, (x.read_write(X),)).go()?.await?;
    if shard.index() == 1 {
        shard.launch(fails, (x.read_write(X),)).go()?.await?;
    }
    Ok(())
}

#[test]
fn a_run_that_failed_has_a_trace_that_says_why() {
    for (name, runtime) in drivers() {
        let name = format!("failed-{name}");
        let (result, trace) = traced(&name, &runtime, |top| async move {
            let line = top.region_tree("line", Rect::line(0, 3), &[X.info()])?;
            let blocks: Vec<Region> = Partition::equal(line, 3)?.iter().collect();
            let (gang, task) = (top.gang("all", 3)?, top.register("one fails", one_fails));
            let start = |s: u32| ShardLaunch::new(blocks[s as usize]).writes(blocks[s as usize], [X]);
            top.launch_gang(&gang, &task, start)?.all().await
        });
        let error = result.expect_err(&name).to_string();
        assert!(error.contains("by intention"), "{error}");
        let Some(trace) = trace else { continue };
        assert_eq!(trace.about["error"], error.as_str(), "{name}");
        let failed = trace.of("i", "run").find(|e| e.name == "run failed").expect("an instant");
        assert_eq!(failed.args["error"], error.as_str(), "{name}");
        // The task that panicked is there too.
        assert_eq!(trace.names("leaf"), HashMap::from([("add", 3), ("fails", 1)]), "{name}");
    }
}

async fn waits_for_ever(shard: Shard, all: PhaseBarrier) -> Result<(), Error> {
    if shard.index() > 0 {
        shard.arrive(&all.arriver(&shard)?);
    }
    shard.wait(&all.waiter(&shard)?).await
}

#[test]
fn of_a_deadlock_the_trace_shows_who_waits() {
    for (name, runtime) in drivers() {
        let name = format!("stuck-{name}");
        let (result, trace) = traced(&name, &runtime, |top| async move {
            let gang = top.gang("all", 3)?;
            let all = top.phase_barrier("all", &gang, PhaseOptions::all(&gang))?;
            let task = top.register("waits", waits_for_ever);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(all))?.all().await
        });
        let error = result.expect_err(&name);
        assert!(matches!(error, Error::Deadlock { .. }), "{error}");
        let Some(trace) = trace else { continue };
        assert_eq!(trace.about["error"], error.to_string().as_str());
        let mut left: Vec<u64> = trace
            .of("b", "wait")
            .filter(|e| e.name == "waits" && e.args["unfinished"] == true)
            .filter_map(|e| e.args["shard"].as_u64())
            .collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2], "{name}");
    }
}

#[test]
fn tasks_that_run_elsewhere_are_on_the_row_where_they_run() {
    for workers in 1..=3 {
        let runtime = Runtime::threads(workers).mapper(Arc::new(Scatter::default()));
        let (result, trace) = traced(&format!("scatter-{workers}"), &runtime, |top| ring(top, 4));
        let (_, stats) = result.expect("runs");
        let Some(trace) = trace else { continue };
        assert_eq!(trace.names("leaf"), HashMap::from([("add", stats.leaf_tasks as usize)]));
        assert_eq!(trace.count("s", "message"), stats.messages);
        // Of another mapper than those that come with the runtime each call is a slice.
        assert_eq!(trace.count("X", "mapper"), stats.mapper_calls);
    }
}

/// Takes its time.
struct Slow;

const SLOW: Duration = Duration::from_millis(2);

impl Mapper for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        std::thread::sleep(SLOW);
        LeafOutput::local(input)
    }
}

#[test]
fn times_are_those_of_the_clock() {
    let before = Instant::now();
    let runtime = Runtime::threads(2).mapper(Arc::new(Slow));
    let (result, trace) = traced("slow", &runtime, |top| ring(top, 2));
    result.expect("runs");
    let trace = trace.expect("of this process");
    let most = before.elapsed().as_nanos() as u64;
    let calls: Vec<u64> = trace.of("X", "mapper").filter(|e| e.name == "map_leaf").map(|e| e.end - e.start).collect();
    assert_eq!(calls.len() as u64, 2 * 2 * ROUNDS);
    // Of the cycle counter's rate a short run knows less than the clock does.
    let least = SLOW.as_nanos() as u64 * 9 / 10;
    assert!(calls.iter().all(|ns| *ns >= least), "{calls:?}");
    assert!(trace.events.iter().all(|e| e.end <= most));
}

#[test]
fn a_full_list_keeps_the_newest_and_says_how_many_it_lost() {
    for (name, runtime) in drivers() {
        let path = path(&format!("full-{name}"));
        const MOST: usize = 30;
        let runtime = runtime.trace(TraceFile::create(&path).expect("a file").events(MOST));
        let (_, stats) = watched(&name, || runtime.run(|top| ring(top, 5))).expect("runs");
        let Some(trace) = written(&path) else { continue };
        let dropped = trace.about["dropped"].as_array().expect("a list");
        let said: Vec<u64> = trace
            .of("i", "run")
            .filter(|e| e.name == "events dropped")
            .filter_map(|e| e.args["dropped"].as_u64())
            .collect();
        let counted: Vec<u64> = dropped.iter().filter_map(Value::as_u64).filter(|&n| n > 0).collect();
        assert!(!said.is_empty() && said == counted, "{name}");
        assert!(trace.count("X", "leaf") < stats.leaf_tasks);
        let rows = dropped.len();
        assert!(trace.events.iter().filter(|e| e.phase == "X").count() <= MOST * rows, "{name}");
    }
}

#[test]
fn several_runs_write_the_file_anew() {
    let path = path("several");
    let runtime = Runtime::seeded(2, 7).trace(TraceFile::create(&path).expect("a file"));
    runtime.run(|top| ring(top, 6)).expect("runs");
    let long = read(&path).bytes;
    runtime.run(|top| ring(top, 2)).expect("runs");
    let short = read(&path).bytes;
    assert!(short.len() < long.len());
    runtime.run(|top| ring(top, 6)).expect("runs");
    assert_eq!(read(&path).bytes, long);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let missing = path("no such directory").join("trace.json");
    let error = TraceFile::create(&missing).expect_err("no directory").to_string();
    assert!(error.contains("no such directory") && error.contains("can't be written"), "{error}");
    if cfg!(target_os = "linux") {
        let error = TraceFile::create("/dev/full").expect_err("no file").to_string();
        assert!(error.contains("/dev/full") && error.contains("expected a regular file"), "{error}");
    }
    // It could be written, and can't any more.
    let gone = path("gone").with_extension("");
    std::fs::create_dir_all(&gone).expect("a directory");
    let file = TraceFile::create(gone.join("trace.json")).expect("can be written");
    std::fs::remove_dir(&gone).expect("nothing is in it yet");
    let runtime = Runtime::threads(1).trace(file.clone());
    assert_eq!(file.written(), Ok(()), "no run yet");
    runtime.run(|top| ring(top, 2)).expect("runs without its trace");
    let error = file.written().expect_err("no directory");
    assert!(matches!(error, Error::Trace { .. }), "{error}");
    assert_eq!(file.written(), Ok(()), "told once");
    let failing = runtime.run(|_| async move { Err::<(), _>(Error::user("no")) });
    assert_eq!(failing.expect_err("fails"), Error::user("no"));
    // The next run may succeed again, and then nothing is lost.
    std::fs::create_dir_all(&gone).expect("a directory");
    runtime.run(|top| ring(top, 2)).expect("runs");
    assert_eq!(file.written(), Ok(()), "the last trace is there");
    assert!(gone.join("trace.json").is_file());
}

/// As many events as go to the first process in several pieces.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_long_trace_is_whole() {
    const TASKS: u64 = 20_000;
    for (name, runtime) in drivers().into_iter().filter(|(name, _)| name == "threads-2" || name.ends_with(" of 2")) {
        let (result, trace) = traced(&format!("long-{name}"), &runtime, |top| async move {
            let line = top.region_tree("line", Rect::line(0, 3), &[X.info()])?;
            let blocks: Vec<Region> = Partition::equal(line, 3)?.iter().collect();
            let task = top.register("many", |shard: Shard, block: Region| async move {
                let x = shard.region(block)?;
                // Not as many as in the first one, so that pieces end at different times.
                for _ in 0..TASKS / u64::from(1 + shard.index()) {
                    shard.launch(add, (x.read_write(X),)).go()?.await?;
                }
                Ok(())
            });
            let start = |s: u32| ShardLaunch::new(blocks[s as usize]).writes(blocks[s as usize], [X]);
            top.launch_gang(&top.gang("all", 3)?, &task, start)?.all().await
        });
        result.expect(&name);
        let Some(trace) = trace else { continue };
        let of = |shard: u64| trace.of("X", "leaf").filter(|e| e.args["shard"] == shard).count() as u64;
        assert_eq!([of(0), of(1), of(2)], [TASKS, TASKS / 2, TASKS / 3], "{name}");
        let dropped = trace.about["dropped"].as_array().expect("a list");
        assert!(dropped.iter().all(|n| *n == 0), "{name}: {dropped:?}");
    }
}

#[test]
fn process_0_alone_knows_that_a_trace_could_not_be_written() {
    let gone = path("gone-on-processes");
    for (name, runtime) in drivers() {
        std::fs::create_dir_all(&gone).expect("a directory");
        let file = TraceFile::create(gone.join("trace.json")).expect("can be written");
        std::fs::remove_dir(&gone).expect("nothing is in it");
        runtime.trace(file.clone()).run(|top| ring(top, 2)).expect("runs without its trace");
        assert_eq!(file.written().is_err(), Runtime::process_number() == 0, "{name}");
    }
}

/// Those whose programs can be on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "trace::on_processes",
        &[
            ("a_trace_holds_what_the_run_counted", a_trace_holds_what_the_run_counted),
            ("arrows_lead_from_arrivals_to_whom_they_release", arrows_lead_from_arrivals_to_whom_they_release),
            ("a_run_that_failed_has_a_trace_that_says_why", a_run_that_failed_has_a_trace_that_says_why),
            ("of_a_deadlock_the_trace_shows_who_waits", of_a_deadlock_the_trace_shows_who_waits),
            (
                "a_full_list_keeps_the_newest_and_says_how_many_it_lost",
                a_full_list_keeps_the_newest_and_says_how_many_it_lost,
            ),
            ("a_long_trace_is_whole", a_long_trace_is_whole),
            (
                "process_0_alone_knows_that_a_trace_could_not_be_written",
                process_0_alone_knows_that_a_trace_could_not_be_written,
            ),
        ],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn of_a_run_that_loses_a_process_the_trace_has_the_first_one() {
    let test = "trace::of_a_run_that_loses_a_process_the_trace_has_the_first_one";
    common::processes::on_processes(test, &[(2, 1), (3, 2)], |runtime| {
        let (result, trace) = traced("lost", &runtime, |top| async move {
            let gang = top.gang("all", 6)?;
            let all = top.phase_barrier("all", &gang, PhaseOptions::all(&gang))?;
            let task = top.register("dies", |shard: Shard, all: PhaseBarrier| async move {
                let (arrive, wait) = (all.arriver(&shard)?, all.waiter(&shard)?);
                for round in 0..20 {
                    if round == 10 && shard.index() == 5 {
                        std::process::abort();
                    }
                    shard.arrive(&arrive);
                    shard.wait(&wait).await?;
                }
                Ok(())
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(all))?.all().await
        });
        let error = result.expect_err("a process is lost").to_string();
        let Some(trace) = trace else { return };
        assert_eq!(trace.about["error"], error.as_str());
        // The error goes on with its shards.
        let missing = trace.about["missing"].as_str().expect("a reason");
        assert!(missing.starts_with("process ") && error.starts_with(missing), "{missing}");
        assert!(trace.names("shard")["dies"] > 0);
        assert!(trace.events.iter().all(|e| e.row.0 == 1), "{error}");
    });
}
