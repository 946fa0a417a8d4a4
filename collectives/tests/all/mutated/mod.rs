//! Schedules of the built-in algorithms, changed at random. Whatever `check` accepts is made and called, with operators of
//! different laws. An interpreter on terms says which laws the schedules ask for, and plain loops over the contributions
//! say what each shard must get.

mod laws;
mod operators;

use self::laws::laws_of;
use self::operators::operators;
use crate::common::{mix, watched};
use fastrand::Rng;
use maniple_collectives::{
    Algorithm, Collective, CollectiveBuilder, Combine, Goal, Groups, Laws, Order, Part, Ranks, Schedule, Schedules,
    Step, check,
};
use maniple_runtime::{Error, Gang, Runtime, Shard, ShardLaunch, TaskFuture, Top};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reduce,
    Scan,
    Exscan,
    Broadcast,
    Gather,
    Scatter,
    ReduceScatter,
    AllToAll,
}

/// Kinds that combine come more often.
const KINDS: [Kind; 12] = [
    Kind::Reduce,
    Kind::Reduce,
    Kind::Reduce,
    Kind::Reduce,
    Kind::Scan,
    Kind::Exscan,
    Kind::ReduceScatter,
    Kind::ReduceScatter,
    Kind::Broadcast,
    Kind::Gather,
    Kind::Scatter,
    Kind::AllToAll,
];

/// Who takes part in what.
#[derive(Debug, Clone)]
struct Task {
    kind: Kind,
    shards: u32,
    from: Vec<u32>,
    to: Vec<u32>,
    /// The blocks of a vector, or of a contribution or a result.
    blocks: u32,
}

/// A block of a result: a block of one contribution, or that block of the first contributions combined.
enum Wanted {
    Copy { of: usize, block: u32 },
    Fold { first: usize, block: u32 },
}

impl Task {
    fn draw(r: &mut Rng, shards: u32) -> Self {
        let kind = KINDS[r.usize(..KINDS.len())];
        let mut some = |one: bool| match r.u32(..3) {
            _ if one => vec![r.u32(..shards)],
            0 => {
                let chosen: Vec<u32> = (0..shards).filter(|_| r.bool()).collect();
                if chosen.is_empty() { vec![r.u32(..shards)] } else { chosen }
            }
            _ => (0..shards).collect(),
        };
        let from = some(matches!(kind, Kind::Broadcast | Kind::Scatter));
        let mut to = some(false);
        if kind == Kind::Scan {
            to.retain(|&rank| rank >= from[0]);
        }
        if to.is_empty() {
            to = from.clone();
        }
        let blocks = match kind {
            Kind::Gather => from.len(),
            Kind::Scatter | Kind::ReduceScatter => to.len(),
            Kind::AllToAll => from.len().max(to.len()),
            _ => 1,
        };
        Self { kind, shards, from, to, blocks: blocks as u32 }
    }

    fn is_one_vector(&self) -> bool {
        matches!(self.kind, Kind::Reduce | Kind::Scan | Kind::Exscan | Kind::Broadcast)
    }

    fn goal(&self) -> Goal {
        let (from, to) = (Ranks::of(self.from.iter().copied()), Ranks::of(self.to.iter().copied()));
        match self.kind {
            Kind::Reduce => Goal::reduce(self.shards, from, to, self.blocks),
            Kind::Scan => Goal::scan(self.shards, from, to, self.blocks),
            Kind::Exscan => Goal::exscan(self.shards, from, to, self.blocks),
            Kind::Broadcast => Goal::broadcast_to(self.shards, self.from[0], to, self.blocks),
            Kind::Gather => Goal::gather(self.shards, from, to),
            Kind::Scatter => Goal::scatter(self.shards, self.from[0], to),
            Kind::ReduceScatter => Goal::reduce_scatter(self.shards, from, to),
            Kind::AllToAll => Goal::all_to_all(self.shards, from, to),
        }
    }

    fn gives(&self, rank: u32) -> Option<usize> {
        self.from.iter().position(|&r| r == rank)
    }

    fn gets(&self, rank: u32) -> Option<usize> {
        self.to.iter().position(|&r| r == rank)
    }

    /// The blocks that a contributor has.
    fn given(&self, rank: u32) -> Range<u32> {
        match (self.gives(rank), self.kind) {
            (None, _) => 0..0,
            (Some(at), Kind::Gather) => at as u32..at as u32 + 1,
            (Some(_), Kind::AllToAll) => 0..self.to.len() as u32,
            (Some(_), _) => 0..self.blocks,
        }
    }

    /// What a receiver gets, block by block, with their numbers.
    fn wanted(&self, rank: u32) -> Vec<(u32, Wanted)> {
        let Some(at) = self.gets(rank) else { return Vec::new() };
        let before = self.from.iter().filter(|&&r| r < rank).count();
        let all = |first: usize| (0..self.blocks).map(move |block| (block, Wanted::Fold { first, block })).collect();
        match self.kind {
            Kind::Reduce => all(self.from.len()),
            Kind::Scan => all(before + usize::from(self.gives(rank).is_some())),
            Kind::Exscan if before == 0 => Vec::new(),
            Kind::Exscan => all(before),
            Kind::Broadcast => (0..self.blocks).map(|block| (block, Wanted::Copy { of: 0, block })).collect(),
            Kind::Gather => (0..self.blocks).map(|b| (b, Wanted::Copy { of: b as usize, block: b })).collect(),
            Kind::Scatter => vec![(at as u32, Wanted::Copy { of: 0, block: at as u32 })],
            Kind::ReduceScatter => vec![(at as u32, Wanted::Fold { first: self.from.len(), block: at as u32 })],
            Kind::AllToAll => {
                let of = 0..self.from.len();
                of.map(|of| (of as u32, Wanted::Copy { of, block: at as u32 })).collect()
            }
        }
    }
}

/// A step. Both ends of a message have its number.
#[derive(Debug, Clone)]
enum St {
    Send { id: u32, to: u32, part: Part },
    Receive { id: u32, from: u32, part: Part, how: Combine },
    Local { from: Part, part: Part, how: Combine },
}

impl St {
    fn id(&self) -> Option<u32> {
        match self {
            St::Send { id, .. } | St::Receive { id, .. } => Some(*id),
            St::Local { .. } => None,
        }
    }
    fn part(&mut self) -> &mut Part {
        match self {
            St::Send { part, .. } | St::Receive { part, .. } | St::Local { part, .. } => part,
        }
    }
}

#[derive(Debug, Clone)]
struct Program {
    task: Task,
    groups: Vec<Range<u32>>,
    results: Vec<u8>,
    steps: Vec<Vec<St>>,
    ids: u32,
}

const HOWS: [Combine; 4] = [Combine::IncomingIsHigher, Combine::IncomingIsLower, Combine::Replace, Combine::Undo];

impl Program {
    /// The schedules of an algorithm.
    fn draw(r: &mut Rng, shards: u32, in_groups: bool) -> Self {
        let mut task = Task::draw(r, shards);
        let goal = task.goal();
        let algorithms: Vec<Algorithm> = Algorithm::all_for(&goal).collect();
        let algorithm = algorithms[r.usize(..algorithms.len())];
        let groups = Groups::of(shards, if in_groups { r.u32(1..4) } else { 1 });
        let order = if r.bool() { Order::Doubling } else { Order::Left };
        let schedules = Schedules::with(&goal, algorithm, order, groups);
        let all: Vec<Schedule> = (0..shards).map(|rank| schedules.of(rank)).collect();
        task.blocks = all[0].blocks();
        let mut numbers = HashMap::new();
        let steps = all.iter().map(|schedule| {
            let part = |number: u16| schedule.parts()[usize::from(number)].clone();
            let step = |(step, link): (&Step, Option<maniple_collectives::Link>)| {
                let next = numbers.len() as u32;
                let mut id = || *numbers.entry(link.map(|l| (l.from, l.update))).or_insert(next);
                match *step {
                    Step::Update { peer, part: p, .. } => St::Send { id: id(), to: peer, part: part(p) },
                    Step::Read { peer, part: p, combine, .. } => {
                        St::Receive { id: id(), from: peer, part: part(p), how: combine }
                    }
                    Step::Local { from, part: p, combine } => {
                        St::Local { from: part(from), part: part(p), how: combine }
                    }
                }
            };
            schedule.steps().iter().zip(schedule.links()).map(step).collect()
        });
        let steps = steps.collect();
        let (groups, results) = all.iter().map(|s| (s.group(), s.result())).unzip();
        Self { task, groups, results, steps, ids: numbers.len() as u32 }
    }

    fn any_part(&self, r: &mut Rng, length: u32) -> Part {
        let start = r.u32(..=self.task.blocks - length);
        // Mostly one that is in use.
        let register = if r.u32(..3) == 0 { r.u8(..4) } else { r.u8(..2) };
        Part::new(register, start..start + length)
    }

    fn length(&self, r: &mut Rng) -> u32 {
        if r.bool() { self.task.blocks } else { r.u32(1..=self.task.blocks) }
    }

    fn mutate(&mut self, r: &mut Rng, in_groups: bool) {
        let rank = r.usize(..self.steps.len());
        let here = self.steps[rank].len();
        let at = if here == 0 { 0 } else { r.usize(..here) };
        let how = HOWS[r.usize(..4)];
        match r.u32(..16) {
            0 if here > 1 => {
                let other = (at + 1) % here;
                self.steps[rank].swap(at, other);
            }
            1 if here > 0 => {
                if let St::Receive { how: of, .. } | St::Local { how: of, .. } = &mut self.steps[rank][at] {
                    *of = how;
                }
            }
            2 | 3 => {
                let length = self.length(r);
                let (from, part) = (self.any_part(r, length), self.any_part(r, length));
                let from = if r.u32(..4) == 0 { part.clone() } else { from };
                self.steps[rank].insert(r.usize(..=here), St::Local { from, part, how });
            }
            4 | 5 if self.steps.len() > 1 => {
                let peer = (rank + r.usize(1..self.steps.len())) % self.steps.len();
                let length = self.length(r);
                let (from, part) = (self.any_part(r, length), self.any_part(r, length));
                let id = self.ids;
                self.ids += 1;
                let there = self.steps[peer].len();
                self.steps[rank].insert(r.usize(..=here), St::Send { id, to: peer as u32, part: from });
                let receive = St::Receive { id, from: rank as u32, part, how };
                self.steps[peer].insert(r.usize(..=there), receive);
            }
            6 if here > 0 => {
                let id = self.steps[rank][at].id();
                self.steps[rank].remove(at);
                // Mostly with its other end.
                if id.is_some() && r.u32(..8) > 0 {
                    self.steps.iter_mut().for_each(|steps| steps.retain(|step| step.id() != id));
                }
            }
            7 if here > 0 => {
                let register = r.u8(..4);
                self.steps[rank][at].part().register = register;
            }
            8 if here > 0 => {
                let length = self.length(r);
                *self.steps[rank][at].part() = self.any_part(r, length);
            }
            9 => self.results[rank] = r.u8(..3),
            // What is sent goes through another register.
            10 if here > 0 => {
                let (length, register) = (self.steps[rank][at].part().blocks.clone(), r.u8(1..6));
                if let St::Send { part, .. } = &mut self.steps[rank][at] {
                    let through = Part::new(register, length);
                    let from = std::mem::replace(part, through.clone());
                    let copy = St::Local { from, part: through, how: Combine::Replace };
                    self.steps[rank].insert(at, copy);
                }
            }
            // A step is done twice, or taken back.
            11 if here > 0 => {
                if let St::Local { .. } = &self.steps[rank][at] {
                    let mut again = self.steps[rank][at].clone();
                    if let St::Local { how, .. } = &mut again
                        && r.bool()
                    {
                        *how = Combine::Undo;
                    }
                    self.steps[rank].insert(at + 1, again);
                }
            }
            // What is received is put aside first, then combined once or twice, and perhaps taken out.
            12 if here > 0 => {
                let register = r.u8(2..7);
                if let St::Receive { part, how, .. } = &mut self.steps[rank][at] {
                    let aside = Part::new(register, part.blocks.clone());
                    let (into, how) =
                        (std::mem::replace(part, aside.clone()), std::mem::replace(how, Combine::Replace));
                    let also = match r.u32(..3) {
                        0 => vec![],
                        1 => vec![how],
                        _ => vec![how, Combine::Undo],
                    };
                    for how in also.into_iter().chain([how]) {
                        let local = St::Local { from: aside.clone(), part: into.clone(), how };
                        self.steps[rank].insert(at + 1, local);
                    }
                }
            }
            13 if self.task.is_one_vector() && self.task.blocks <= 4 => {
                self.task.blocks *= 2;
                let twice = |part: &mut Part| part.blocks = 2 * part.blocks.start..2 * part.blocks.end;
                for step in self.steps.iter_mut().flatten() {
                    twice(step.part());
                    if let St::Local { from, .. } = step {
                        twice(from);
                    }
                }
            }
            // Something is put together and taken apart again where nobody looks.
            14 => {
                let length = self.length(r);
                let (from, into) = (self.any_part(r, length), Part::new(7, 0..length));
                let at = r.usize(..=here);
                for how in [Combine::Undo, how, Combine::Replace] {
                    self.steps[rank].insert(at, St::Local { from: from.clone(), part: into.clone(), how });
                }
            }
            15 if in_groups => {
                let end = r.usize(rank + 1..=self.steps.len());
                for (at, group) in self.groups[rank..end].iter_mut().enumerate() {
                    *group = rank as u32..end as u32;
                    if at > 0 {
                        self.steps[rank + at].clear();
                    }
                }
            }
            _ => {}
        }
    }

    /// The schedule of a rank.
    fn schedule(&self, rank: u32) -> Schedule {
        let mut schedule =
            Schedule::new(rank, self.task.shards, self.task.blocks).in_group(self.groups[rank as usize].clone());
        let number = |peer: u32, of: &St| {
            let same = |step: &&St| std::mem::discriminant(*step) != std::mem::discriminant(of);
            let others = self.steps[peer as usize].iter().filter(|step| step.id().is_some()).filter(same);
            others.map(St::id).position(|id| id == of.id()).unwrap_or(65_535) as u32
        };
        for step in &self.steps[rank as usize] {
            match step {
                St::Send { to, part, .. } => schedule.update(*to, number(*to, step), part.clone()),
                St::Receive { from, part, how, .. } => {
                    schedule.read(*from, number(*from, step), part.clone(), *how);
                }
                St::Local { from, part, how } => schedule.local(from.clone(), part.clone(), *how),
            }
        }
        schedule.with_result(self.results[rank as usize])
    }
}

/// One schedule that was accepted, with how it is called.
#[derive(Clone)]
struct Trial {
    program: Arc<Program>,
    op: usize,
    /// The elements of each block.
    each: usize,
    slots: u32,
    seed: u64,
    /// Whether it has the laws that the schedules ask for.
    suits: bool,
    needs: Laws,
}

const CALLS: u64 = 3;
const IDENTITY: u64 = 4711;

type Seen = Vec<Vec<Result<Vec<u64>, String>>>;

impl Trial {
    fn contribution(&self, call: u64, rank: u32) -> Vec<u64> {
        let elements = self.program.task.given(rank).len() * self.each;
        let value = |e: usize| mix(self.seed ^ call << 50 ^ u64::from(rank) << 30 ^ e as u64);
        (0..elements).map(|e| (operators()[self.op].make)(value(e))).collect()
    }

    fn make(&self, top: &Top, gang: &Gang, name: &str) -> Result<Collective<[u64]>, Error> {
        let (task, by) = (&self.program.task, operators()[self.op].operator());
        let (from, to) = (task.from.clone(), task.to.clone());
        let elements = if task.is_one_vector() { self.each * task.blocks as usize } else { self.each };
        let builder: CollectiveBuilder<[u64]> = match task.kind {
            Kind::Reduce => Collective::reduce(by, to).participants(from).elements(elements),
            Kind::Scan => Collective::scan(by).participants(from).receivers(to).elements(elements),
            Kind::Exscan => Collective::exscan(by, IDENTITY).participants(from).receivers(to).elements(elements),
            Kind::Broadcast => Collective::<u64>::broadcast(from[0]).receivers(to).elements(elements),
            Kind::Gather => Collective::<u64>::gather(to).participants(from).elements(elements),
            Kind::Scatter => Collective::<u64>::scatter(from[0]).receivers(to).elements(elements),
            Kind::ReduceScatter => {
                Collective::<u64>::reduce_scatter(by).participants(from).receivers(to).elements(elements)
            }
            Kind::AllToAll => Collective::<u64>::all_to_all().participants(from).receivers(to).elements(elements),
        };
        let program = self.program.clone();
        builder.slots(self.slots).schedules("mutated", move |_, rank| program.schedule(rank)).make(top, gang, name)
    }

    async fn calls(&self, shard: &Shard, it: Collective<[u64]>) -> Result<Vec<Result<Vec<u64>, String>>, Error> {
        let (task, me) = (&self.program.task, shard.index());
        let mut results: Vec<TaskFuture<_>> = Vec::new();
        for call in 0..CALLS {
            let own = self.contribution(call, me);
            match (task.gives(me), task.gets(me)) {
                (Some(_), Some(_)) => results.push(it.call(shard, own)?),
                // What others contribute may fail it, or not.
                (Some(_), None) => _ = it.contribute(shard, own)?.await,
                (None, Some(_)) => results.push(it.receive(shard)?),
                (None, None) => {}
            }
        }
        let mut seen = Vec::new();
        for result in results {
            seen.push(result.await.map(|v| v.to_vec()).map_err(|e| e.to_string()));
        }
        Ok(seen)
    }

    /// Compares what the shards saw with what the goal says.
    fn check(&self, seen: &[&Vec<Result<Vec<u64>, String>>]) -> Result<bool, String> {
        let (task, op) = (&self.program.task, &operators()[self.op]);
        let mut any_failed = false;
        for call in 0..CALLS {
            let given: Vec<Vec<u64>> = task.from.iter().map(|&rank| self.contribution(call, rank)).collect();
            let of = |contributor: usize, block: u32, e: usize| {
                let first = task.given(task.from[contributor]).start;
                given[contributor][(block - first) as usize * self.each + e]
            };
            // What a combination may be, and what its first receiver has.
            type Known = (BTreeSet<Option<u64>>, Option<u64>);
            let mut known: HashMap<(usize, u32, usize), Known> = HashMap::new();
            let mut failed = Vec::new();
            for (rank, seen) in (0..task.shards).zip(seen).filter(|(rank, _)| task.gets(*rank).is_some()) {
                let at = format!("rank {rank}, call {call}");
                let came = match &seen[call as usize] {
                    Ok(came) => Some(came),
                    Err(e) if e.contains("no more than the limit") => None,
                    Err(e) => return Err(format!("{at}: {e}")),
                };
                let wanted = task.wanted(rank);
                failed.push(came.is_none());
                if wanted.is_empty() {
                    if came.is_some_and(|came| came.iter().any(|x| *x != IDENTITY)) {
                        return Err(format!("{at}: {came:?} in place of the identity"));
                    }
                    continue;
                }
                if let Some(came) = came
                    && came.len() != wanted.len() * self.each
                {
                    return Err(format!("{at}: {} elements", came.len()));
                }
                let mut may_fail = false;
                for (at_block, (_, wanted)) in wanted.into_iter().enumerate() {
                    for e in 0..self.each {
                        let came = came.map(|came| came[at_block * self.each + e]);
                        match wanted {
                            Wanted::Copy { of: contributor, block } => {
                                let right = of(contributor, block, e);
                                if came.is_some_and(|came| came != right) {
                                    return Err(format!("{at}: {came:?} in place of {right}"));
                                }
                            }
                            Wanted::Fold { first, block } => {
                                let values = || (0..first).map(|c| of(c, block, e)).collect::<Vec<u64>>();
                                let entry = known.entry((first, block, e));
                                let (possible, same) = entry.or_insert_with(|| (op.possible(&values()), None));
                                may_fail |= possible.contains(&None);
                                if came.is_some() && !possible.contains(&came) {
                                    return Err(format!("{at}: {came:?} is none of {possible:?}"));
                                }
                                // All that receive it have the same bits.
                                *same = same.or(came);
                                if came.is_some() && came != *same {
                                    return Err(format!("{at}: {came:?}, others have other bits"));
                                }
                            }
                        }
                    }
                }
                // Elsewhere it may be another result of the call that fails.
                if came.is_none() && task.kind == Kind::Reduce && !may_fail {
                    return Err(format!("{at}: it fails, and nothing can"));
                }
            }
            if task.kind == Kind::Reduce && failed.iter().any(|f| *f != failed[0]) {
                return Err(format!("call {call} fails on some receivers: {failed:?}"));
            }
            any_failed |= failed.contains(&true);
        }
        Ok(any_failed)
    }
}

/// How often what happened.
#[derive(Debug, Default)]
struct Tally {
    tried: u64,
    accepted: u64,
    ran: u64,
    refused: u64,
    failed: u64,
}

/// Schedules for one number of shards, all of which `check` accepts. They are made and called in one run.
fn batch(seed: u64, of: usize, tally: &mut Tally) {
    let mut r = Rng::with_seed(seed);
    let (shards, processors) = (r.u32(1..=5), r.u32(1..=3));
    let mut trials: Vec<Trial> = Vec::new();
    while trials.len() < of {
        let mut program = Program::draw(&mut r, shards, processors == 1);
        for _ in 0..r.u32(1..=4) {
            program.mutate(&mut r, processors == 1);
        }
        tally.tried += 1;
        let Ok(report) = check(&program.task.goal(), |rank| program.schedule(rank)) else { continue };
        let needs = laws_of(&program);
        assert_eq!(report.laws, needs, "seed {seed}: {program:?}");
        let op = r.usize(..operators().len());
        let combines = program.task.wanted(program.task.to[0]).iter().any(|(_, w)| matches!(w, Wanted::Fold { .. }))
            || matches!(program.task.kind, Kind::Reduce | Kind::Scan | Kind::Exscan | Kind::ReduceScatter);
        // The operator of the other kinds never fails, and has no inverse.
        let laws = if combines { operators()[op].laws } else { Laws { infallible: true, ..Laws::NONE } };
        let suits = needs.without(laws) == Laws::NONE;
        let each = [1, 1, 1, 2, 2, 3, 3, 600][r.usize(..8)];
        let (slots, seed) = (r.u32(1..=3), r.u64(..));
        trials.push(Trial { program: Arc::new(program), op, each, slots, seed, suits, needs });
    }
    tally.accepted += trials.len() as u64;
    let all = Arc::new(trials);
    let run = watched(&format!("mutated schedules, seed {seed}"), || {
        let all = all.clone();
        Runtime::seeded(processors, seed).run(move |top| {
            let all = all.clone();
            async move {
                let gang = top.gang("all", shards)?;
                let mut made = Vec::new();
                for (number, trial) in all.iter().enumerate() {
                    made.push(trial.make(&top, &gang, &format!("trial {number}")));
                }
                let can: Vec<(usize, Collective<[u64]>)> =
                    made.iter().enumerate().filter_map(|(at, made)| Some((at, *made.as_ref().ok()?))).collect();
                let own = all.clone();
                let task = top.register("shard", move |shard: Shard, (): ()| {
                    let (all, can) = (own.clone(), can.clone());
                    async move {
                        let mut seen: Seen = Vec::new();
                        for (at, it) in can {
                            seen.push(all[at].calls(&shard, it).await?);
                        }
                        Ok(seen)
                    }
                });
                let seen = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?;
                Ok((made.into_iter().map(|made| made.err().map(|e| e.to_string())).collect::<Vec<_>>(), seen))
            }
        })
    });
    let ((refused, seen), _) = run.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let mut ran = 0;
    for (trial, refused) in all.iter().zip(refused) {
        let at = || {
            let all: Vec<String> = (0..shards).map(|rank| trial.program.schedule(rank).to_string()).collect();
            let Trial { op, each, slots, needs, .. } = trial;
            let op = operators()[*op].name;
            let task = &trial.program.task;
            format!("seed {seed}, {op}, {each} each, {slots} slots, needs {needs}: {task:?}\n{}", all.join("\n"))
        };
        assert_eq!(refused.is_none(), trial.suits, "{refused:?}: {}", at());
        if let Some(refused) = refused {
            assert!(refused.contains("an operator that is ") && refused.contains(", as mutated needs"), "{refused}");
            tally.refused += 1;
            continue;
        }
        let seen: Vec<_> = seen.iter().map(|of_shard| &of_shard[ran]).collect();
        ran += 1;
        tally.ran += 1;
        match trial.check(&seen) {
            Ok(failed) => tally.failed += u64::from(failed),
            Err(wrong) => panic!("{wrong}: {}", at()),
        }
    }
}

fn mutated(seeds: Range<u64>, of: usize) -> Tally {
    // The operators of some trials panic on purpose, often.
    let mut tally = Tally::default();
    seeds.for_each(|seed| batch(seed, of, &mut tally));
    println!("{tally:?}");
    tally
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn what_check_accepts_runs() {
    let tally = mutated(0..120, 12);
    assert!(tally.ran > 500 && tally.refused > 100 && tally.failed > 20, "{tally:?}");
}

#[test]
#[ignore = "takes minutes; in release"]
fn nightly_a_hundred_thousand_schedules_that_check_accepts_run() {
    let tally = mutated(1000..6000, 20);
    assert!(tally.accepted == 100_000, "{tally:?}");
}
