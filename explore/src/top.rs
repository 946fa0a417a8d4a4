//! The top-level task and the inner tasks of a program.

use crate::calls::{self, Made};
use crate::judge::{Outcome, Seen};
use crate::loose::{LooseArgs, Loosely, loose, loosely};
use crate::program::{BOARD, Failing, Program, Stage, TOP_BOMB, parts_of_parent};
use crate::run::mapper;
use crate::tasks::{Tag, bomb, digest, explode, update};
use crate::values::gathering;
use crate::worker::{FIELDS, SLOT, body};
use maniple::mapper::MapperSlot;
use maniple::prelude::*;
use maniple::regions::Privilege;
use maniple::runtime::{FutureMap, InnerTask, Portable};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The data that the shards of a run in one process share.
pub struct Shared {
    pub program: Program,
    pub slot: MapperSlot,
    /// Each leaf task holds a clone. The clones that are not dropped are counted.
    pub probe: Arc<()>,
    pub seen: Mutex<Seen>,
}

impl Shared {
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn record(&self, launch: usize, shard: u32, seen: &[Outcome]) {
        self.seen().records[launch][shard as usize] = Some(seen.to_vec());
    }
}

/// The argument of a stage's shards: plain data.
#[derive(Clone, Serialize, Deserialize)]
pub struct Args {
    pub stage: usize,
    pub launch: usize,
    pub block: Region,
    pub far: Region,
    pub slots: Region,
    pub board: Region,
    /// The region that arrivers of phases write.
    pub marks: Region,
    pub pairs: Edges<i64>,
    pub sum: PhaseBarrier,
    pub barrier: PhaseBarrier,
    /// The barriers of the board: all have written, all have read.
    pub turns: [PhaseBarrier; 2],
    /// A barrier at which nobody arrives.
    pub never: PhaseBarrier,
    pub phases: Vec<PhaseBarrier>,
    pub joints: Vec<Made>,
}

/// The top-level task, which every node runs.
pub async fn top_level<const D: usize>(top: Top, shared: Arc<Shared>) -> Result<(), Error> {
    let program = &shared.program;
    let all = program.all().rect::<D>();
    let info = FIELDS.map(|f| f.info());
    let trees = [top.region_tree("x", all, &info)?, top.region_tree("y", all, &info)?];
    let mut pending: Vec<(usize, FutureMap<Vec<Outcome>>)> = Vec::new();
    let mut free: Vec<(Loosely, Vec<TaskFuture<i64>>)> = Vec::new();
    let mut late = Vec::new();
    let of_loose = shared.clone();
    let loose_task = top.register("loose", move |shard, args: LooseArgs| loosely::<D>(shard, args, of_loose.clone()));
    for (i, stage) in program.stages.iter().enumerate() {
        let n = stage.shards;
        let gang = top.gang(&format!("gang {i}"), n)?;
        let pairs = top.edges("ring", &gang, (0..n).map(|s| (s, stage.to[s as usize])), stage.buffers as u32)?;
        let slots = top.region_tree("slots", Rect::line(0, slot_size(stage) * i64::from(n)), &[SLOT.info()])?;
        let board = top.region_tree("board", Rect::line(0, BOARD * i64::from(n)), &[SLOT.info()])?;
        let marks = stage.phases.len().checked_sub(1).map_or(1, |last| stage.marks(last).1);
        let marks = top.region_tree("marks", Rect::line(0, marks), &[SLOT.info()])?;
        let all = || PhaseOptions::all(&gang).window(1 << 20).arity(stage.arity);
        let sum = top.phase_barrier("sum", &gang, all().reduce(gathering(0)))?;
        let barrier = top.phase_barrier("barrier", &gang, all())?;
        let turns = [top.phase_barrier("written", &gang, all())?, top.phase_barrier("read", &gang, all())?];
        let never = top.phase_barrier("never", &gang, all())?;
        let mut phases = Vec::new();
        for (p, phase) in stage.phases.iter().enumerate() {
            let options = PhaseOptions::between(phase.arrivers.clone(), phase.waiters.clone());
            let options = options.window(phase.window).arity(phase.arity);
            let options = match phase.fold {
                Some(how) => options.reduce(gathering(how)),
                None => options,
            };
            phases.push(top.phase_barrier(&format!("phase {p}"), &gang, options)?);
        }
        let joints = calls::make(&top, &gang, stage)?;
        let (block, far) = (trees[stage.tree], trees[1 - stage.tree]);
        let launch = program.first_launch(i);
        let made = Stale { gang, pairs, sum, trees: [slots, board, marks] };
        let args = Args {
            stage: i,
            launch,
            block,
            far,
            slots,
            board,
            marks,
            pairs,
            sum,
            barrier,
            turns,
            never,
            phases,
            joints,
        };
        let of_shard = shared.clone();
        let task = top.register("stage", move |shard, args: Args| body::<D>(shard, args, of_shard.clone()));
        let all = loose(&top, i, program, loose_task, trees)?;
        if stage.by_parent {
            // Launches of the top-level task must not use the regions that it holds.
            for (earlier, done) in std::mem::take(&mut pending) {
                ends(&shared, earlier, &done).await;
            }
            for (earlier, done) in std::mem::take(&mut free) {
                earlier.ends(&shared, done).await;
            }
            let of_parent = shared.clone();
            let parent = top.register_inner("parent", move |p: InnerTask, args: Args| {
                by_parent::<D>(p, gang, task, args, all.clone(), of_parent.clone())
            });
            let held = || {
                let start = ShardLaunch::new(args.clone()).writes(block, FIELDS).reads(far, FIELDS);
                let start = start.shares(board, [SLOT], Privilege::ReadWrite);
                let start =
                    (0..n).fold(start, |start, s| start.shares(slot(slots, stage, s), [SLOT], Privilege::ReadWrite));
                let marks = (0..stage.phases.len()).map(|p| marks_of(marks, stage, p));
                marks.fold(start, |start, marks| start.shares(marks, [SLOT], Privilege::ReadWrite))
            };
            top.run_inner(&parent, held).await?;
        } else {
            for loose in all {
                free.push((loose, loose.launch::<D>(&top, &shared).await?));
            }
            for round in 0..stage.launches as usize {
                let args = Args { launch: launch + round, ..args.clone() };
                pending.push((launch + round, top.launch_gang(&gang, &task, |s| start::<D>(program, &args, s))?));
                // Barriers and collectives belong to one launch at a time.
                if stage.awaited || round + 1 < stage.launches as usize {
                    for (launch, done) in std::mem::take(&mut pending) {
                        ends(&shared, launch, &done).await;
                    }
                }
            }
        }
        if stage.destroys {
            late.push(made.destroy(&top, i, task)?);
        }
        match program.top_fails {
            Some((at, Failing::Panics)) if at == i => explode(TOP_BOMB),
            Some((at, Failing::Returns)) if at == i => return Err(Error::user(bomb(TOP_BOMB))),
            _ => {}
        }
        if stage.adopts
            && let Some(chosen) = program.last_swap(i)
        {
            top.replace_mapper(mapper(chosen));
        }
    }
    for (launch, done) in pending {
        ends(&shared, launch, &done).await;
    }
    for (loose, done) in free {
        loose.ends(&shared, done).await;
    }
    for late in late {
        // Other failures are found elsewhere.
        if late.all().await.is_ok_and(|refused| refused.contains(&false)) {
            return Err(Error::user("a shard got an end of edges that were destroyed before its launch"));
        }
    }
    Ok(())
}

/// Objects of a stage that are destroyed while its shards may use them.
struct Stale {
    gang: Gang,
    pairs: Edges<i64>,
    sum: PhaseBarrier,
    trees: [Region; 3],
}

impl Stale {
    /// Destroys them, in one order or another, and uses them again. Returns whether a shard was refused.
    fn destroy<A: Portable, R: Portable>(
        self,
        top: &Top,
        stage: usize,
        task: ShardTask<A, R>,
    ) -> Result<FutureMap<bool>, Error> {
        let Self { gang, pairs, sum, trees } = self;
        match stage % 3 {
            // The gang takes along what was made for it.
            0 => top.destroy((gang, task, trees))?,
            1 => {
                top.destroy((trees, sum))?;
                top.destroy(pairs)?;
                top.destroy((task, gang))?;
            }
            _ => {
                top.destroy((pairs, gang))?;
                top.destroy((task, vec![trees]))?;
            }
        }
        match top.placement(&gang) {
            Err(Error::Destroyed { .. }) => {}
            other => return Err(Error::user(format!("the placement of a destroyed gang: {other:?}"))),
        }
        let refused = move |shard: Shard, pairs: Edges<i64>| async move {
            Ok(matches!(pairs.outgoing(&shard), Err(Error::Destroyed { .. })))
        };
        let (after, late) = (top.gang("after", 1)?, top.register("late", refused));
        let done = top.launch_gang(&after, &late, |_| ShardLaunch::new(pairs))?;
        top.destroy((after, late))?;
        Ok(done)
    }
}

/// Launches a stage as an inner task, which may then look at the tree and change it.
async fn by_parent<const D: usize>(
    parent: InnerTask,
    gang: Gang,
    task: ShardTask<Args, Vec<Outcome>>,
    args: Args,
    loose: Vec<Loosely>,
    shared: Arc<Shared>,
) -> Result<(), Error> {
    let program = &shared.program;
    let stage = &program.stages[args.stage];
    let mut free = Vec::new();
    for loose in &loose {
        free.push(parent.launch_gang(&loose.gang, &loose.task, |s| loose.start::<D>(program, s)).await?);
    }
    // What is not awaited at once is awaited at the end: gangs and leaf tasks come in the order of the program.
    let mut later = Vec::new();
    for launch in args.launch..args.launch + stage.launches as usize {
        let args = Args { launch, ..args.clone() };
        let done = parent.launch_gang(&gang, &task, |s| start::<D>(program, &args, s)).await?;
        if free.is_empty() && !stage.awaited && !stage.looks && !stage.changes && stage.launches == 1 {
            // The inner task ends when its gangs do.
            shared.record(launch, stage.shards, &[]);
            return Ok(());
        }
        if stage.awaited {
            ends(&shared, launch, &done).await;
        }
        let mut seen = Vec::new();
        for field in FIELDS {
            let tag = || Tag { _probe: shared.probe.clone(), bomb: None };
            let part = |(lo, hi): (i64, i64)| {
                let all = args.block.rect;
                let bounds = |n: usize| if n == 0 { (lo, hi) } else { (all.lo(n), all.hi(n)) };
                let bounds: [(i64, i64); D] = std::array::from_fn(bounds);
                parent.region(Region::new(args.block.tree, Rect::new(bounds.map(|b| b.0), bounds.map(|b| b.1))))
            };
            let [looked, changed] = parts_of_parent((args.block.rect.lo(0), args.block.rect.hi(0)));
            if stage.looks {
                let tag = tag();
                let digests = move |u: Read<i64, D>| {
                    tag.goes_off();
                    digest(&u, 1)
                };
                seen.push(parent.launch(digests, (part(looked)?.read(field),)).go()?);
            }
            if stage.changes {
                let tag = tag();
                let changes = move |mut u: ReadWrite<i64, D>| {
                    tag.goes_off();
                    update(&mut u, 23)
                };
                seen.push(parent.launch(changes, (part(changed)?.read_write(field),)).go()?);
            }
        }
        later.push((launch, done, seen));
    }
    for (launch, done, seen) in later {
        if !stage.awaited {
            ends(&shared, launch, &done).await;
        }
        let mut values = Vec::new();
        for value in seen {
            values.push(value.await);
        }
        shared.record(launch, stage.shards, &values);
    }
    for (loose, done) in loose.iter().zip(&free) {
        loose.ends(&shared, done.iter().cloned()).await;
    }
    Ok(())
}

/// Awaits a launch and notes its values.
async fn ends(shared: &Shared, launch: usize, done: &FutureMap<Vec<Outcome>>) {
    for (s, end) in done.iter().enumerate() {
        let end = end.clone().await;
        shared.seen().ends.push((launch, s, end));
    }
}

fn slot_size(stage: &Stage) -> i64 {
    stage.width * stage.buffers as i64
}

pub fn slot(slots: Region, stage: &Stage, s: u32) -> Region {
    let lo = slot_size(stage) * i64::from(s);
    Region::new(slots.tree, Rect::line(lo, lo + slot_size(stage)))
}

fn marks_of(marks: Region, stage: &Stage, phase: usize) -> Region {
    let (lo, hi) = stage.marks(phase);
    Region::new(marks.tree, Rect::line(lo, hi))
}

fn start<const D: usize>(program: &Program, args: &Args, s: u32) -> ShardLaunch<Args> {
    let stage = &program.stages[args.stage];
    let block = Region::new(args.block.tree, program.block(args.stage, s).rect::<D>());
    let start = ShardLaunch::new(Args { block, ..args.clone() }).writes(block, FIELDS).reads(args.far, FIELDS);
    let start = start.shares(slot(args.slots, stage, s), [SLOT], Privilege::ReadWrite);
    let start = start.shares(args.board, [SLOT], Privilege::ReadWrite);
    let others = stage.producers(s).filter(|&from| from != s);
    let start = others.fold(start, |start, from| start.shares(slot(args.slots, stage, from), [SLOT], Privilege::Read));
    stage.phases.iter().enumerate().fold(start, |start, (p, phase)| {
        let privilege = match (phase.arrivers.contains(&s), phase.waiters.contains(&s)) {
            (false, false) => return start,
            (true, false) => Privilege::WriteDiscard,
            (false, true) => Privilege::Read,
            (true, true) => Privilege::ReadWrite,
        };
        start.shares(marks_of(args.marks, stage, p), [SLOT], privilege)
    })
}
