//! Runs a program on the framework, and compares what each shard saw with what it must have seen.

use super::oracle::{Cause, Expected, Known, interpret};
use super::program::{
    BOARD, Chosen, Failing, Number, On, Op, Part, Program, Stage, Step, TOP_BOMB, arrival, composed, contribution,
    fold_arrivals, fresh, joined, updated,
};
use super::wild::{self, Wild};
use maniple::barriers::{Phase, Waiter};
use maniple::mapper::{Mapper, MapperSlot, stock};
use maniple::prelude::*;
use maniple::runtime::{Check, Costs, Link, PhaseAddress, TaskCost, VirtualMachine};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Steps after which a run counts as one that does not end.
const MOST_STEPS: u64 = 300_000;

const A: Field<i64> = Field::new(0, "a");
const B: Field<i64> = Field::new(1, "b");
const FIELDS: [Field<i64>; 2] = [A, B];
const SLOT: Field<i64> = Field::new(0, "slot");

/// How a run went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A value is not what it must be.
    Value,
    /// An error where there must be none, or one that names another cause than it must.
    Cause,
    /// No error where there must be one.
    Unnoticed,
    /// Nothing could go on.
    Deadlock,
    /// It did not end.
    Endless,
    /// Something is left that nobody needs.
    Leak,
    /// The driver panicked.
    Crash,
}

/// A run that went wrong, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Wrong {
    pub kind: Kind,
    pub what: String,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            Kind::Value => "a wrong value",
            Kind::Cause => "an error that should not be",
            Kind::Unnoticed => "a failure that was not noticed",
            Kind::Deadlock => "a deadlock",
            Kind::Endless => "no end",
            Kind::Leak => "a leak",
            Kind::Crash => "a crash of the driver",
        };
        write!(f, "{kind}: {}", self.what)
    }
}

/// What a run did that was right.
#[derive(Debug, Default, Clone)]
pub struct Right {
    pub stats: Option<Stats>,
    /// The processor that was lost.
    pub lost: bool,
    /// A mapper was at fault.
    pub mapper: bool,
    /// The top-level task failed as it should.
    pub top_failed: bool,
    /// Values that failed as they should.
    pub failed: u64,
    pub values: u64,
    /// Deadlines that were over before what they were for.
    pub time_outs: u64,
}

type Outcome = Result<i64, Error>;

/// What the shards of a launch saw, by shard, and then the parent, if there is one.
type Records = Vec<Vec<Option<Vec<Outcome>>>>;

/// What a node heard of a shard's end: the launch, the shard, and what it saw.
type End = (usize, usize, Result<Vec<Outcome>, Error>);

/// What a run's shards share.
struct Shared {
    program: Program,
    slot: MapperSlot,
    /// Each leaf task holds one: those that are not dropped are counted.
    probe: Arc<()>,
    records: Mutex<Records>,
    /// Of every node.
    ends: Mutex<Vec<End>>,
    time_outs: Mutex<u64>,
}

impl Shared {
    fn record(&self, launch: usize, shard: u32, seen: &[Outcome]) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records[launch][shard as usize] = Some(seen.to_vec());
    }
}

/// The argument of a stage's shards: plain data.
#[derive(Clone, Serialize, Deserialize)]
struct Args {
    stage: usize,
    launch: usize,
    block: Region,
    far: Region,
    slots: Region,
    board: Region,
    pairs: Pairs,
    sum: PhaseBarrier,
    barrier: PhaseBarrier,
    /// Of the board: all have written, all have read.
    turns: [PhaseBarrier; 2],
    totals: Vec<Allreduce<i64>>,
}

fn mapper(chosen: Chosen) -> Arc<dyn Mapper> {
    let spec = match chosen {
        Chosen::Wild(seed) => return Arc::new(Wild::new(seed)),
        Chosen::Default => "default".to_string(),
        Chosen::Collective => "collective".to_string(),
        Chosen::RoundRobin => "round-robin".to_string(),
        Chosen::First => "first".to_string(),
        Chosen::Random(seed) => format!("random,seed={seed}"),
    };
    stock(&spec).unwrap_or_else(|e| panic!("a stock mapper: {e}"))
}

fn machine(nodes: u32, per_node: u32, seed: u64) -> VirtualMachine {
    let mut r = fastrand::Rng::with_seed(seed);
    // On some nothing takes any time, so that much happens at once.
    let most = [0, 1000, 1000][r.usize(0..3)];
    let mut cost = || r.u32(0..=most) as f64;
    let costs = Costs {
        launch_ns: cost(),
        requirement_ns: cost(),
        map_ns: cost(),
        start_ns: cost(),
        complete_ns: cost(),
        call_ns: cost(),
        replayed_ns: cost(),
        arrival_ns: cost(),
        poll_ns: cost(),
        message_ns: cost(),
        shard_ns: cost(),
    };
    let mut link = || Link { latency_ns: cost(), send_ns: cost(), receive_ns: cost(), gap_ns: cost(), byte_ns: 0.5 };
    let (network, memory) = (link(), link());
    let other_tasks = TaskCost { task_ns: cost(), byte_ns: 0.5 };
    VirtualMachine {
        nodes,
        per_node,
        network,
        memory,
        costs,
        utility: r.u32(0..per_node),
        one_copy: r.bool(),
        other_tasks,
        noise: [0.0, 0.5][r.usize(0..2)],
        seed,
        ..VirtualMachine::default()
    }
}

/// Runs a program. `set` makes the last changes to the runtime.
pub fn run(program: &Program, set: &dyn Fn(Runtime) -> Runtime) -> Result<Right, Wrong> {
    let expected = interpret(program);
    let probe = Arc::new(());
    let first = mapper(program.mapper);
    let slot = MapperSlot::from(first.clone());
    let shared = Arc::new(Shared {
        program: program.clone(),
        slot: slot.clone(),
        probe: probe.clone(),
        records: Mutex::new(expected.iter().map(|shards| vec![None; shards.len()]).collect()),
        ends: Mutex::default(),
        time_outs: Mutex::default(),
    });
    let runtime = match program.on {
        On::Seeded { processors, seed } => Runtime::seeded(processors, seed).faults(program.faults.clone()),
        On::Virtual { nodes, per_node, seed } => Runtime::virtual_time(machine(nodes, per_node, seed)),
    };
    let mut runtime = runtime.mapper(slot.clone()).most_steps(MOST_STEPS).check(Check::Replicas);
    if program.checks_races {
        runtime = runtime.check(Check::Races);
    }
    let runtime = set(runtime);
    let top = shared.clone();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let outcome = runtime.run(move |t| top_level(t, top.clone()));
        drop(runtime);
        outcome
    }));
    let outcome = outcome.map_err(|panic| Wrong { kind: Kind::Crash, what: panic_text(&*panic) })?;
    let judge = Judge { program, expected: &expected };
    let mut right = judge.outcome(outcome, &shared)?;
    right.time_outs = *shared.time_outs.lock().unwrap_or_else(PoisonError::into_inner);
    drop((shared, slot));
    let left = (Arc::strong_count(&probe) - 1, Arc::strong_count(&first) - 1);
    if left != (0, 0) {
        let what = format!("{} tasks' closures and {} uses of the mapper outlive the run", left.0, left.1);
        return Err(Wrong { kind: Kind::Leak, what });
    }
    Ok(right)
}

thread_local! {
    /// The last panic that said something, and where it was.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps what a panic says.
pub fn note_panic(text: String) {
    LAST_PANIC.set(text);
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    format!("the run panicked: {} ({})", text.unwrap_or_default(), LAST_PANIC.take())
}

struct Judge<'a> {
    program: &'a Program,
    expected: &'a Expected,
}

impl Judge<'_> {
    /// The cause that an error names, if it is one of those there are.
    fn cause(&self, e: &Error) -> Option<Cause> {
        match e.origin() {
            Error::Panicked { place, message } => {
                if place.shard.is_none() && place.task == "top level" && message == &bomb(TOP_BOMB) {
                    return Some(Cause::Bomb(TOP_BOMB));
                }
                let number = message.strip_prefix("bomb ")?.parse().ok()?;
                self.is_place(number, place.shard?, &place.task).then_some(Cause::Bomb(number))
            }
            Error::User(message) => {
                let Some(Error::Failed { place, .. }) = failed(e) else {
                    return (message == &bomb(TOP_BOMB)).then_some(Cause::Bomb(TOP_BOMB));
                };
                let number = message.strip_prefix("bomb ")?.parse().ok()?;
                self.is_place(number, place.shard?, &place.task).then_some(Cause::Bomb(number))
            }
            Error::Lost { processor, .. } => {
                let dies = self.program.faults.deaths.iter().any(|d| d.processor == *processor);
                dies.then_some(Cause::Lost(*processor))
            }
            Error::Mapper(e) => (e.0.mapper == "wild").then_some(Cause::Mapper),
            Error::MapperFailed { message, .. } => (message == wild::BOMB).then_some(Cause::Mapper),
            _ => None,
        }
    }

    /// Whether a bomb went off in this task of this shard.
    fn is_place(&self, bomb: u32, shard: u32, task: &str) -> bool {
        self.program.steps().any(|step| match *step {
            Step::Leaf { shard: s, op, bomb: Some(b), .. } => b == bomb && s == shard && task == name(op),
            Step::Index { shard: s, bomb: Some((b, _)), .. } => b == bomb && s == shard && task.contains("closure"),
            Step::Exchange { bomb: Some((b, s)), .. } => b == bomb && s == shard && task == "put",
            Step::Barrier { bomb: Some((b, s)), .. } => b == bomb && s == shard && task == "arrive",
            Step::Board { bomb: Some((b, s)), .. } => b == bomb && s == shard && task == "board",
            Step::Crash { shard: s, bomb: b, .. } => b == bomb && s == shard && task == "stage",
            _ => false,
        })
    }

    /// Whether this may befall anything in the program.
    fn is_anywhere(&self, cause: Cause) -> bool {
        match cause {
            Cause::Lost(_) => true,
            Cause::Mapper => self.program.is_wild(),
            Cause::Bomb(b) => b == TOP_BOMB && self.program.top_fails.is_some(),
        }
    }

    fn outcome(&self, outcome: Result<((), Stats), Error>, shared: &Shared) -> Result<Right, Wrong> {
        let mut right = Right::default();
        let stats = match outcome {
            Ok(((), stats)) => Some(stats),
            Err(e) => {
                let kind = match e.origin() {
                    Error::Deadlock { .. } => Kind::Deadlock,
                    Error::Stopped { what } if what.contains("steps") => Kind::Endless,
                    _ => Kind::Cause,
                };
                match self.cause(&e).filter(|&c| self.is_anywhere(c)) {
                    Some(Cause::Lost(_)) => right.lost = true,
                    Some(Cause::Mapper) => right.mapper = true,
                    Some(Cause::Bomb(_)) => right.top_failed = true,
                    _ => return Err(Wrong { kind, what: format!("the run: {e}") }),
                }
                None
            }
        };
        let ended = stats.is_some();
        if ended && self.program.top_fails.is_some() {
            return Err(Wrong { kind: Kind::Unnoticed, what: "the top-level task failed, but not the run".into() });
        }
        let records = shared.records.lock().unwrap_or_else(PoisonError::into_inner);
        for (i, stage) in records.iter().enumerate() {
            for (s, seen) in stage.iter().enumerate() {
                match seen {
                    Some(seen) => self.compare(i, s, seen, &mut right)?,
                    None if !ended || self.program.is_wild() => {}
                    None => {
                        let what = format!("shard {s} of launch {i} has not come to its end");
                        return Err(Wrong { kind: Kind::Unnoticed, what });
                    }
                }
            }
        }
        let ends = shared.ends.lock().unwrap_or_else(PoisonError::into_inner);
        for (i, s, end) in &*ends {
            let stage = self.program.launches().nth(*i).unwrap_or(0);
            let crash = self.program.stages[stage].steps.iter().find_map(|step| match *step {
                Step::Crash { shard, bomb, .. } if shard as usize == *s => Some(Cause::Bomb(bomb)),
                _ => None,
            });
            let told = |what: String| format!("the end of shard {s} of launch {i}: {what}");
            match end {
                Ok(_) if crash.is_some() => {
                    return Err(Wrong { kind: Kind::Unnoticed, what: told("no error".into()) });
                }
                Ok(seen) => self.compare(*i, *s, seen, &mut Right::default())?,
                Err(e) => {
                    let cause = self.cause(e);
                    if cause.is_none() || cause != crash && !cause.is_some_and(|c| self.is_anywhere(c)) {
                        return Err(Wrong { kind: Kind::Cause, what: told(e.to_string()) });
                    }
                    if ended && matches!(cause, Some(Cause::Lost(_))) {
                        return Err(Wrong { kind: Kind::Unnoticed, what: told(format!("the run is well, but {e}")) });
                    }
                }
            }
        }
        if let Some(left) = stats.as_ref().map(|s| s.left_over).filter(|&n| n > 0) {
            let what = format!("{left} things of the runtime outlive what needed them");
            return Err(Wrong { kind: Kind::Leak, what });
        }
        right.stats = stats;
        Ok(right)
    }

    /// Compares what a shard saw.
    fn compare(&self, launch: usize, shard: usize, seen: &[Outcome], right: &mut Right) -> Result<(), Wrong> {
        let expected = &self.expected[launch][shard];
        let at = |i: usize| format!("value {i} of shard {shard} of launch {launch}");
        if seen.len() != expected.len() {
            let what =
                format!("{} values came to shard {shard} of launch {launch}, not {}", seen.len(), expected.len());
            return Err(Wrong { kind: Kind::Value, what });
        }
        for (i, (seen, Known { value, causes })) in seen.iter().zip(expected).enumerate() {
            right.values += 1;
            match seen {
                Ok(v) if *value == Some(*v) => {}
                Ok(v) => {
                    let expected = value.map_or_else(|| format!("an error from {causes:?}"), |v| v.to_string());
                    let kind = if value.is_some() { Kind::Value } else { Kind::Unnoticed };
                    return Err(Wrong { kind, what: format!("{}: {v}, expected {expected}", at(i)) });
                }
                Err(e) => {
                    right.failed += 1;
                    let cause = self.cause(e);
                    if !cause.is_some_and(|c| causes.contains(&c) || self.is_anywhere(c)) {
                        let expected = value.map_or_else(String::new, |v| format!("{v} or "));
                        let expected = format!("expected {expected}an error from {}", show(causes));
                        return Err(Wrong { kind: Kind::Cause, what: format!("{}: {e}; {expected}", at(i)) });
                    }
                }
            }
        }
        Ok(())
    }
}

fn show(causes: &BTreeSet<Cause>) -> String {
    if causes.is_empty() { "nowhere".into() } else { format!("{causes:?}") }
}

/// What the tasks are called.
fn name(op: Op) -> &'static str {
    match op {
        Op::Digest(..) => "digest",
        Op::Set(..) => "set",
        Op::Update(..) => "update",
        Op::Fold(..) => "fold",
        Op::Mix(..) => "mix",
        Op::Far(..) => "far",
        Op::Atomic(..) => "atomic",
        Op::Fill(..) => "fill",
        Op::Copy(..) => "copy",
        Op::Join(..) => "join",
    }
}

/// Where an error of the program came from.
fn failed(e: &Error) -> Option<&Error> {
    let mut chain = std::iter::successors(Some(e), |e| e.cause());
    chain.find(|e| matches!(e, Error::Failed { .. }))
}

/// What a bomb says.
fn bomb(number: u32) -> String {
    format!("bomb {number}")
}

async fn top_level(top: Top, shared: Arc<Shared>) -> Result<(), Error> {
    let program = &shared.program;
    let line = Rect::line(0, program.cells);
    let info = [A.info(), B.info()];
    let trees = [top.tree("x", line, &info)?, top.tree("y", line, &info)?];
    let mut pending: Vec<(usize, FutureMap<Vec<Outcome>>)> = Vec::new();
    for (i, stage) in program.stages.iter().enumerate() {
        let n = stage.shards;
        let gang = top.gang(&format!("gang {i}"), n)?;
        let pairs = top.pairs("ring", &gang, |s| (s + stage.distance) % n)?;
        let slots = top.tree("slots", Rect::line(0, stage.width * i64::from(n)), &[SLOT.info()])?;
        let board = top.tree("board", Rect::line(0, BOARD * i64::from(n)), &[SLOT.info()])?;
        let all = || PhaseOptions::all(&gang).window(1 << 20).arity(stage.arity);
        let sum = top.phase_barrier("sum", &gang, all().reduce(fold_arrivals))?;
        let barrier = top.phase_barrier("barrier", &gang, all())?;
        let turns = [top.phase_barrier("written", &gang, all())?, top.phase_barrier("read", &gang, all())?];
        let mut totals = Vec::new();
        for t in &stage.totals {
            let operator = Operator::user("compose", |a: &i64, b: &i64| composed(*a, *b));
            let algorithm = t.algorithm.map(|a| Algorithm::ALL[a]);
            let options = Options { elements: t.elements, slots: t.slots, algorithm };
            totals.push(Allreduce::with(&top, &gang, "total", operator, options)?);
        }
        let (block, far) = (trees[stage.tree], trees[1 - stage.tree]);
        let launch = program.first_launch(i);
        let args = Args { stage: i, launch, block, far, slots, board, pairs, sum, barrier, turns, totals };
        let of_shard = shared.clone();
        let task = top.task("stage", move |shard, args: Args| body(shard, args, of_shard.clone()));
        if stage.by_parent {
            // What it holds must not be in use by launches of the top-level task.
            for (earlier, done) in std::mem::take(&mut pending) {
                ends(&shared, earlier, &done).await;
            }
            let of_parent = shared.clone();
            let parent =
                top.parent("parent", move |p: Parent, args: Args| by_parent(p, gang, task, args, of_parent.clone()));
            let held = || {
                let start = Start::new(args.clone()).writes(block, FIELDS).reads(far, FIELDS);
                let start = start.shares(board, [SLOT], Privilege::ReadWrite);
                (0..n).fold(start, |start, s| start.shares(slot(slots, stage, s), [SLOT], Privilege::ReadWrite))
            };
            top.single(&parent, held).await?;
        } else {
            for round in 0..stage.launches as usize {
                let args = Args { launch: launch + round, ..args.clone() };
                pending.push((launch + round, top.launch(&gang, &task, |s| start(program, &args, s))?));
                // Barriers and collectives belong to one launch at a time.
                if stage.awaited || round + 1 < stage.launches as usize {
                    for (launch, done) in std::mem::take(&mut pending) {
                        ends(&shared, launch, &done).await;
                    }
                }
            }
        }
        match program.top_fails {
            Some((at, Failing::Panics)) if at == i => explode(TOP_BOMB),
            Some((at, Failing::Returns)) if at == i => return Err(Error::user(bomb(TOP_BOMB))),
            _ => {}
        }
        if stage.adopts {
            top.adopt_mapper().await?;
        }
    }
    for (launch, done) in pending {
        ends(&shared, launch, &done).await;
    }
    Ok(())
}

/// Launches a stage as a parent, which then looks at the tree and changes it.
async fn by_parent(
    parent: Parent,
    gang: Gang,
    task: ShardTask<Args, Vec<Outcome>>,
    args: Args,
    shared: Arc<Shared>,
) -> Result<(), Error> {
    let program = &shared.program;
    let stage = &program.stages[args.stage];
    for launch in args.launch..args.launch + stage.launches as usize {
        let args = Args { launch, ..args.clone() };
        let done = parent.launch_gang(&gang, &task, |s| start(program, &args, s)).await?;
        if !stage.awaited && !stage.maps && !stage.changes && stage.launches == 1 {
            // It is over when its gangs are.
            shared.record(launch, stage.shards, &[]);
            return Ok(());
        }
        if stage.awaited || stage.launches > 1 {
            ends(&shared, launch, &done).await;
        }
        let mut seen = Vec::new();
        for field in FIELDS {
            let tag = || Tag { _probe: shared.probe.clone(), bomb: None };
            if stage.maps {
                let tag = tag();
                let digests = move |u: Read<i64>| {
                    tag.goes_off();
                    digest(&u, 1)
                };
                let tree = parent.map(args.block, [field], Privilege::Read).await?;
                seen.push(parent.launch(digests, (tree.read(field),)).go()?.await);
            }
            if stage.changes {
                let tag = tag();
                let changes = move |mut u: ReadWrite<i64>| {
                    tag.goes_off();
                    update(&mut u, 23)
                };
                let tree = parent.map(args.block, [field], Privilege::ReadWrite).await?;
                seen.push(parent.launch(changes, (tree.read_write(field),)).go()?.await);
            }
        }
        shared.record(launch, stage.shards, &seen);
    }
    Ok(())
}

/// Awaits a launch, and notes what comes.
async fn ends(shared: &Shared, launch: usize, done: &FutureMap<Vec<Outcome>>) {
    for (s, end) in done.iter().enumerate() {
        let end = end.clone().await;
        shared.ends.lock().unwrap_or_else(PoisonError::into_inner).push((launch, s, end));
    }
}

fn slot(slots: Region, stage: &Stage, s: u32) -> Region {
    let lo = stage.width * i64::from(s);
    Region::new(slots.tree, Rect::line(lo, lo + stage.width))
}

fn start(program: &Program, args: &Args, s: u32) -> Start<Args> {
    let stage = &program.stages[args.stage];
    let (lo, hi) = program.block(args.stage, s);
    let block = Region::new(args.block.tree, Rect::line(lo, hi));
    let from = (s + stage.shards - stage.distance % stage.shards) % stage.shards;
    let own = slot(args.slots, stage, s);
    let start = Start::new(Args { block, ..args.clone() }).writes(block, FIELDS).reads(args.far, FIELDS);
    let start = start.shares(own, [SLOT], Privilege::ReadWrite).shares(args.board, [SLOT], Privilege::ReadWrite);
    if from == s { start } else { start.shares(slot(args.slots, stage, from), [SLOT], Privilege::Read) }
}

/// What a leaf task holds.
#[derive(Clone)]
struct Tag {
    _probe: Arc<()>,
    bomb: Option<u32>,
}

impl Tag {
    /// A panic that says nothing on stderr.
    fn goes_off(&self) {
        if let Some(bomb) = self.bomb {
            explode(bomb);
        }
    }
}

fn explode(bomb: u32) -> ! {
    resume_unwind(Box::new(self::bomb(bomb)))
}

fn digest(u: &Read<i64>, start: i64) -> i64 {
    u.as_slice().iter().fold(start, |sum, &v| joined(sum, v))
}

fn update(u: &mut ReadWrite<i64>, k: i64) -> i64 {
    let lo = u.rect().lo(0);
    let mut sum = 2;
    for (p, v) in (lo..).zip(u.as_mut_slice()) {
        sum = joined(sum, *v);
        *v = updated(*v, k, p);
    }
    sum
}

/// A shard at work.
struct Worker {
    shard: Shard,
    args: Args,
    shared: Arc<Shared>,
    whole: Local,
    values: Vec<TaskFuture<i64>>,
    seen: Vec<Outcome>,
}

async fn body(shard: Shard, args: Args, shared: Arc<Shared>) -> Result<Vec<Outcome>, Error> {
    let whole = shard.region(args.block)?;
    let mut worker = Worker { shard, args, shared: shared.clone(), whole, values: Vec::new(), seen: Vec::new() };
    worker.run(&shared.program).await?;
    Ok(worker.seen)
}

impl Worker {
    fn tag(&self, bomb: Option<u32>) -> Tag {
        Tag { _probe: self.shared.probe.clone(), bomb }
    }

    fn number(&self, n: Number) -> Value<i64> {
        match n {
            Number::Given(k) => k.into(),
            Number::Of(i) if self.values.is_empty() => (i as i64).into(),
            Number::Of(i) => (&self.values[i % self.values.len()]).into(),
        }
    }

    fn line(&self) -> (i64, i64) {
        (self.args.block.rect.lo(0), self.args.block.rect.hi(0))
    }

    fn local(&self, (lo, hi): (i64, i64)) -> Result<Local, Error> {
        self.shard.region(Region::new(self.args.block.tree, Rect::line(lo, hi)))
    }

    fn part(&self, part: Part) -> Result<Local, Error> {
        self.local(part.of(self.line()))
    }

    async fn run(&mut self, program: &Program) -> Result<(), Error> {
        let stage = &program.stages[self.args.stage];
        let (me, n) = (self.shard.index(), stage.shards);
        let from = (me + n - stage.distance % n) % n;
        let (to, from_pair) = (self.args.pairs.producer(&self.shard)?, self.args.pairs.consumer(&self.shard, from)?);
        let sum = (self.args.sum.arriver(&self.shard)?, self.args.sum.waiter(&self.shard)?);
        let barrier = (self.args.barrier.arriver(&self.shard)?, self.args.barrier.waiter(&self.shard)?);
        let [written, read] = self.args.turns;
        let written = (written.arriver(&self.shard)?, written.waiter(&self.shard)?);
        let read = (read.arriver(&self.shard)?, read.waiter(&self.shard)?);
        // Of another launch, those before are over.
        let mut boards = 0;
        let own = self.shard.region(slot(self.args.slots, stage, me))?;
        let board = self.shard.region(self.args.board)?;
        let other = self.shard.region(slot(self.args.slots, stage, from))?;
        if stage.loads {
            for (f, field) in (0i64..).zip(FIELDS) {
                let tag = self.tag(None);
                let set = move |mut u: Write<i64>| {
                    tag.goes_off();
                    let lo = u.rect().lo(0);
                    u.write_with(|i| fresh(f, lo + i as i64));
                    f
                };
                self.values.push(self.shard.launch(set, (self.whole.write(field),)).named("load").go()?);
            }
        }
        for (at, step) in stage.steps.iter().enumerate() {
            match *step {
                Step::Leaf { shard, op, priority, bomb, detached } if shard == me => {
                    let value = self.leaf(op, priority, bomb)?;
                    self.values.extend((!detached).then_some(value));
                }
                Step::Index { shard, field, points, number, bomb, all } if shard == me => {
                    let parts = Program::points(self.line(), points);
                    let locals: Vec<Local> = parts.iter().map(|&p| self.local(p)).collect::<Result<_, _>>()?;
                    let tag = self.tag(bomb.map(|b| b.0));
                    let hit = bomb.map_or(usize::MAX, |b| b.1 as usize % parts.len());
                    let point = move |mut u: ReadWrite<i64>, k: Val<i64>, i: Val<usize>| {
                        if *i == hit {
                            tag.goes_off();
                        }
                        update(&mut u, *k)
                    };
                    let args = |i: usize| (locals[i].read_write(FIELDS[field]), self.number(number), i.into());
                    let map = self.index(locals.len(), point, args)?;
                    self.values.extend(map.iter().cloned());
                    if let Some(limit) = all {
                        match self.patiently(limit, async |limit| self.shard.within(limit, map.all()).await).await {
                            Ok(values) => self.seen.extend(values.into_iter().map(Ok)),
                            Err(e) => self.seen.extend(map.iter().map(|_| Err(e.clone()))),
                        }
                    }
                }
                Step::Await { shard, value, limit } if shard == me && !self.values.is_empty() => {
                    let mut value = self.values[value % self.values.len()].clone();
                    let outcome = match limit {
                        None => value.await,
                        Some(limit) => {
                            self.patiently(limit, async |limit| self.shard.within(limit, &mut value).await).await
                        }
                    };
                    self.seen.push(outcome);
                }
                Step::Yield { shard } if shard == me => self.shard.yield_now().await,
                Step::Exchange { number, waits, limit, bomb } => {
                    let tag = self.tag(bomb.filter(|b| b.1 == me).map(|b| b.0));
                    let put = move |mut u: WriteShared<i64>, k: Val<i64>| {
                        tag.goes_off();
                        let values: Vec<i64> = (0..u.rect().hi(0) - u.rect().lo(0)).map(|p| fresh(*k, p)).collect();
                        u.copy_from(&values);
                        *k
                    };
                    let put = self.shard.launch(put, (own.write_shared(SLOT), self.number(number))).named("put");
                    let put = put.wait(&to.empty).arrive(&to.ready).go()?;
                    self.values.push(put);
                    let there = if waits { self.waits(limit, &from_pair.ready).await } else { false };
                    let tag = self.tag(None);
                    let take = move |u: ReadShared<i64>| {
                        tag.goes_off();
                        let mut values = vec![0; (u.rect().hi(0) - u.rect().lo(0)) as usize];
                        u.copy_to(&mut values);
                        values.into_iter().fold(7, joined)
                    };
                    let take = self.shard.launch(take, (other.read_shared(SLOT),)).named("take");
                    let take = if there { take } else { take.wait(&from_pair.ready) };
                    self.values.push(take.arrive(&from_pair.empty).go()?);
                }
                Step::Sum { limit } => {
                    self.shard.arrive_with(&sum.0, arrival(at, me));
                    let wait = async |limit| match limit {
                        Duration::MAX => self.shard.wait_value(&sum.1).await,
                        limit => self.shard.within(limit, self.shard.wait_value(&sum.1)).await,
                    };
                    let value = match limit {
                        None => wait(Duration::MAX).await,
                        Some(limit) => self.patiently(limit, wait).await,
                    };
                    let value = match value {
                        Ok(value) => TaskFuture::ready(value as i64),
                        // Whoever waits for a later one is told the same.
                        Err(_) => self.released(&sum.1)?,
                    };
                    self.values.push(value);
                }
                Step::Barrier { number, waits, limit, bomb } => {
                    let tag = self.tag(bomb.filter(|b| b.1 == me).map(|b| b.0));
                    let arrive = move |k: Val<i64>| {
                        tag.goes_off();
                        *k
                    };
                    let arrive = self.shard.launch(arrive, (self.number(number),)).named("arrive");
                    let arrive = arrive.arrive(&barrier.0).go()?;
                    self.values.push(arrive);
                    let over = waits && self.waits(limit, &barrier.1).await;
                    let value = if over { TaskFuture::ready(17) } else { self.released(&barrier.1)? };
                    self.values.push(value);
                }
                Step::Total { which, number } => {
                    let value = self.total(which, number, stage.totals[which].elements)?;
                    self.values.push(value);
                }
                Step::Swap { shard, mapper: chosen } if shard == me => self.shared.slot.replace(mapper(chosen)),
                Step::Board { number, bomb } => {
                    let tag = self.tag(bomb.filter(|b| b.1 == me).map(|b| b.0));
                    let lo = BOARD * i64::from(me);
                    let write = move |mut u: ReadWriteShared<i64>, k: Val<i64>| {
                        tag.goes_off();
                        for p in lo..lo + BOARD {
                            u.set([p], updated(u.get([p]), *k, p));
                        }
                        *k
                    };
                    let write = self.shard.launch(write, (board.read_write_shared(SLOT), self.number(number)));
                    let write = if boards > 0 { write.wait(&read.1) } else { write };
                    self.values.push(write.named("board").arrive(&written.0).go()?);
                    let tag = self.tag(None);
                    let look = move |u: ReadShared<i64>| {
                        tag.goes_off();
                        let mut values = vec![0; (u.rect().hi(0) - u.rect().lo(0)) as usize];
                        u.copy_to(&mut values);
                        values.into_iter().fold(13, joined)
                    };
                    let look = self.shard.launch(look, (board.read_shared(SLOT),)).named("look");
                    self.values.push(look.wait(&written.1).arrive(&read.0).go()?);
                    boards += 1;
                }
                Step::Crash { shard, bomb: number, how } if shard == me => {
                    self.look().await;
                    match how {
                        Failing::Panics => explode(number),
                        Failing::Returns => return Err(Error::user(bomb(number))),
                    }
                }
                _ => {}
            }
        }
        if boards > 0 {
            // So that a later launch begins with a generation of its own.
            self.waits(None, &read.1).await;
        }
        for field in FIELDS {
            let tag = self.tag(None);
            let dump = move |u: Read<i64>| {
                tag.goes_off();
                digest(&u, 1)
            };
            self.values.push(self.shard.launch(dump, (self.whole.read(field),)).named("dump").go()?);
        }
        self.look().await;
        Ok(())
    }

    /// Awaits every value, and notes it.
    async fn look(&mut self) {
        for value in &self.values {
            self.seen.push(value.clone().await);
        }
        self.shared.record(self.args.launch, self.shard.index(), &self.seen);
    }

    /// Tries again and again, for longer and longer, until something is there.
    async fn patiently<T>(
        &self,
        limit: u64,
        mut attempt: impl AsyncFnMut(Duration) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut limit = Duration::from_nanos(limit);
        loop {
            match attempt(limit).await {
                Err(Error::TimedOut { .. }) => {
                    *self.shared.time_outs.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    self.shard.yield_now().await;
                    limit = limit * 2 + Duration::from_nanos(500);
                }
                other => return other,
            }
        }
    }

    /// Whether the next generation of a barrier is over; false if it never is.
    async fn waits(&self, limit: Option<u64>, barrier: &impl maniple::runtime::Waitable) -> bool {
        match limit {
            None => self.shard.wait(barrier).await.is_ok(),
            Some(limit) => self
                .patiently(limit, async |limit| self.shard.within(limit, self.shard.wait(barrier)).await)
                .await
                .is_ok(),
        }
    }

    /// A number once the next generation of a barrier is over.
    fn released(&self, barrier: &Waiter<Phase, PhaseAddress>) -> Result<TaskFuture<i64>, Error> {
        let tag = self.tag(None);
        let waits = move || {
            tag.goes_off();
            17
        };
        self.shard.launch(waits, ()).named("released").wait(barrier).go()
    }

    fn index<F, M: 'static>(
        &self,
        points: usize,
        function: F,
        args: impl Fn(usize) -> F::Args,
    ) -> Result<FutureMap<i64>, Error>
    where
        F: maniple::runtime::Leaf<M, i64> + Clone,
    {
        self.shard.index_launch(points, function, args)
    }

    fn total(&self, which: usize, number: Number, elements: usize) -> Result<TaskFuture<i64>, Error> {
        let total = self.args.totals[which];
        let make = |tag: Tag| {
            move |k: Val<i64>| {
                tag.goes_off();
                contribution(*k, elements)
            }
        };
        let fold = |tag: Tag| {
            move |v: Val<Vec<i64>>| {
                tag.goes_off();
                v.iter().fold(11, |sum, &v| joined(sum, v))
            }
        };
        if elements == 1 {
            let make = make(self.tag(None));
            let own = self.shard.launch(move |k: Val<i64>| make(k)[0], (self.number(number),)).named("make").go()?;
            let result = total.call(&self.shard, &own)?;
            let fold = fold(self.tag(None));
            let fold = move |v: Val<i64>| fold(Val(vec![*v]));
            return self.shard.launch(fold, ((&result).into(),)).named("fold total").go();
        }
        let own = self.shard.launch(make(self.tag(None)), (self.number(number),)).named("make").go()?;
        let result = total.call_vec(&self.shard, &own)?;
        self.shard.launch(fold(self.tag(None)), ((&result).into(),)).named("fold total").go()
    }

    /// A number after a task that has none.
    fn nineteen(&self, after: &TaskFuture<()>) -> Result<TaskFuture<i64>, Error> {
        let tag = self.tag(None);
        let task = move |_: Val<()>| {
            tag.goes_off();
            19
        };
        self.shard.launch(task, (after.into(),)).named("after").go()
    }

    fn leaf(&self, op: Op, priority: Option<u8>, bomb: Option<u32>) -> Result<TaskFuture<i64>, Error> {
        let tag = self.tag(bomb);
        macro_rules! go {
            ($function:expr, $args:expr) => {{
                let launch = self.shard.launch($function, $args).named(name(op));
                match priority {
                    Some(p) => launch.priority(Priority(p)).go(),
                    None => launch.go(),
                }
            }};
        }
        match op {
            Op::Digest(f, at) => {
                let task = move |u: Read<i64>| {
                    tag.goes_off();
                    digest(&u, 1)
                };
                go!(task, (self.part(at)?.read(FIELDS[f]),))
            }
            Op::Set(f, at, k) => {
                let task = move |mut u: Write<i64>, k: Val<i64>| {
                    tag.goes_off();
                    let lo = u.rect().lo(0);
                    u.write_with(|i| fresh(*k, lo + i as i64));
                    *k
                };
                go!(task, (self.part(at)?.write(FIELDS[f]), self.number(k)))
            }
            Op::Update(f, at, k) => {
                let task = move |mut u: ReadWrite<i64>, k: Val<i64>| {
                    tag.goes_off();
                    update(&mut u, *k)
                };
                go!(task, (self.part(at)?.read_write(FIELDS[f]), self.number(k)))
            }
            Op::Fold(f, at, operator, k) => {
                macro_rules! fold {
                    ($reduction:ty) => {{
                        let task = move |mut u: Reduce<i64, $reduction>, k: Val<i64>| {
                            tag.goes_off();
                            for p in u.rect().points::<1>() {
                                u.fold(p, fresh(*k, p[0]));
                            }
                            3
                        };
                        go!(task, (self.part(at)?.reduce(FIELDS[f]), self.number(k)))
                    }};
                }
                match operator % 3 {
                    0 => fold!(Sum),
                    1 => fold!(Product),
                    _ => fold!(Max),
                }
            }
            Op::Mix(f, from, into) => {
                let task = move |from: Read<i64>, mut into: ReadWrite<i64>| {
                    tag.goes_off();
                    let k = digest(&from, 4);
                    update(&mut into, k);
                    k
                };
                let (from, into) = (self.part(from)?, self.part(into)?);
                go!(task, (from.read(FIELDS[f]), into.read_write(FIELDS[1 - f])))
            }
            Op::Far(f, at) => {
                let (lo, hi) = at.of((0, self.args.far.rect.hi(0)));
                let far = self.shard.region(Region::new(self.args.far.tree, Rect::line(lo, hi)))?;
                let task = move |u: Read<i64>| {
                    tag.goes_off();
                    digest(&u, 5)
                };
                go!(task, (far.read(FIELDS[f]),))
            }
            Op::Atomic(f, at, k) => {
                let task = move |mut u: ReadWrite<i64>, k: Val<i64>| {
                    tag.goes_off();
                    update(&mut u, *k)
                };
                go!(task, (self.part(at)?.read_write(FIELDS[f]).atomic(), self.number(k)))
            }
            Op::Fill(f, at, value) => {
                let fill = self.shard.fill(self.part(at)?.write(FIELDS[f]), value).go()?;
                self.nineteen(&fill)
            }
            Op::Copy(f, at) => {
                let at = self.part(at)?;
                let copy = self.shard.copy(at.read(FIELDS[f]), at.write(FIELDS[1 - f])).go()?;
                self.nineteen(&copy)
            }
            Op::Join(a, b) => {
                let task = move |a: Val<i64>, b: Val<i64>| {
                    tag.goes_off();
                    joined(*a, *b)
                };
                go!(task, (self.number(a), self.number(b)))
            }
        }
    }
}
