//! The interpreter's part for one launch of a stage, step after step.

use crate::area::place;
use crate::block::{BlockField, leaf, point};
use crate::oracle::{Cause, Expected, Known, Stuck, Tree};
use crate::phases::Phase;
use crate::program::{BOARD, Number, Program, Stage, Step, TIMED_OUT, parts_of_parent};
use crate::results::Calls;
use crate::values::{arrival, fresh, gathered, joined, updated};
use std::collections::{BTreeMap, BTreeSet};

/// A way from shard to shard: a barrier, a collective, or one direction between two shards. Failures spoil its later
/// uses.
#[derive(Default, Clone)]
struct Way {
    /// The causes for which no use is complete any more.
    never: Option<BTreeSet<Cause>>,
    may: BTreeSet<Cause>,
}

impl Way {
    fn through(&self, value: Known) -> Known {
        let value = value.may(&self.may);
        match &self.never {
            Some(causes) => Known { value: None, causes: value.causes }.may(causes),
            None => value,
        }
    }

    fn spoil(&mut self, by: &Known) {
        match by.value {
            Some(_) => self.may.extend(&by.causes),
            None => self.never.get_or_insert_default().extend(&by.causes),
        }
    }
}

/// A phase barrier, whose arrivals for later generations may come before arrivals for earlier ones.
struct Marks<'a> {
    phase: &'a Phase,
    /// The next generation of each arriver and, by shard, of each waiter.
    arrived: Vec<u64>,
    waited: Vec<u64>,
    /// The values written and carried for each generation and arriver.
    written: BTreeMap<(u64, usize), (i64, u64)>,
    /// The failures that spoil generations, each with its first one.
    spoils: Vec<(u64, Known)>,
}

impl Marks<'_> {
    fn arrive(&mut self, row: usize, put: &Known, carried: u64) {
        let generation = self.arrived[row];
        self.arrived[row] += 1;
        self.spoils.push((generation, put.clone()));
        if let Some(value) = put.value {
            self.written.insert((generation, row), (value, carried));
        }
    }

    /// The value that a waiter reads, and the folded one.
    fn wait(&mut self, shard: u32) -> (Known, Known) {
        let generation = self.waited[shard as usize];
        self.waited[shard as usize] += 1;
        let mut way = Way::default();
        self.spoils.iter().filter(|(from, _)| *from <= generation).for_each(|(_, by)| way.spoil(by));
        let read = self.written.range(..(generation + 1, 0)).fold(23, |sum, (_, (value, _))| joined(sum, *value));
        let carried = self.written.range((generation, 0)..(generation + 1, 0)).map(|(_, (_, carried))| *carried);
        let folded = carried.reduce(|a, b| gathered(self.phase.fold.unwrap_or(0), a, b)).unwrap_or(0);
        (way.through(Known::sure(read)), way.through(Known::sure(folded as i64)))
    }

    /// The shards that do not arrive for a generation or for an earlier one.
    fn missing(&self, generation: u64) -> Vec<u32> {
        let arrives = |row: usize| (0..=generation).all(|g| self.written.contains_key(&(g, row)));
        let mut missing: Vec<u32> =
            (0..).zip(&self.phase.arrivers).filter(|(row, _)| !arrives(*row)).map(|(_, &s)| s).collect();
        missing.sort();
        missing
    }
}

pub struct Shard {
    pub block: [BlockField; 3],
    pub values: Vec<Known>,
    pub seen: Vec<Known>,
    /// The values of tasks that nobody awaits.
    detached: Vec<Known>,
    /// The causes of errors that awaits may have returned, other than awaits of values.
    told: BTreeSet<Cause>,
    /// It has failed, or waits for ever.
    over: bool,
}

impl Shard {
    /// Its end: it fails if a detached task has failed for a cause of which it has not learned.
    fn end(&self) -> Known {
        let mut told: BTreeSet<Cause> = self.seen.iter().flat_map(|seen| &seen.causes).copied().collect();
        told.extend(&self.told);
        let untold = |value: &&Known| value.value.is_none() && value.causes.is_disjoint(&told);
        let mut end = self.detached.iter().fold(Known::sure(0), |end, value| end.may(&value.causes));
        if self.detached.iter().any(|value| untold(&value)) {
            end.value = None;
        }
        end
    }

    pub fn number(&self, n: Number) -> Known {
        match n {
            Number::Given(k) => Known::sure(k),
            Number::Of(i) if self.values.is_empty() => Known::sure(i as i64),
            Number::Of(i) => self.values[i % self.values.len()].clone(),
        }
    }
}

/// A launch under way.
pub struct Play<'a> {
    program: &'a Program,
    number: usize,
    pub stage: &'a Stage,
    pub shards: Vec<Shard>,
    exchanges: u64,
    /// The way from each shard to the consumer of its slot.
    ways: Vec<Way>,
    /// For each shard, the failures that keep its slot from being free, each with the first exchange that it spoils.
    full: Vec<Vec<(u64, Known)>>,
    /// For each shard that has ended, the cause and the number of exchanges before it.
    pub since: Vec<Option<(Cause, u64)>>,
    sum: Way,
    barrier: Way,
    written: Way,
    read: Way,
    pub joints: Vec<Calls>,
    marks: Vec<Marks<'a>>,
    stuck: Vec<Stuck>,
    pub uncertain: bool,
}

/// The values that the shards of a launch must see, followed by the values of the inner task.
pub fn play(
    program: &Program,
    number: usize,
    trees: &mut [Tree; 2],
    board: &mut BTreeMap<i64, Known>,
    expected: &mut Expected,
) -> Vec<Vec<Known>> {
    let stage = &program.stages[number];
    let shard = |s| {
        let all = program.block(number, s);
        let cells = |f: usize| BlockField::of(all.points().map(|p| (p, trees[stage.tree][f][&p])));
        let block = [cells(0), cells(1), cells(2)];
        let mut shard = Shard {
            block,
            values: Vec::new(),
            seen: Vec::new(),
            detached: Vec::new(),
            told: BTreeSet::new(),
            over: false,
        };
        if stage.loads {
            for f in 0..3 {
                shard.block[f].write(all, &Known::sure(0), true, |p, _| Some(fresh(f as i64, place(p))));
                shard.values.push(Known::sure(f as i64));
            }
        }
        shard
    };
    let marks = |phase| Marks {
        phase,
        arrived: vec![0; phase.arrivers.len()],
        waited: vec![0; stage.shards as usize],
        written: BTreeMap::new(),
        spoils: Vec::new(),
    };
    let n = stage.shards as usize;
    let mut play = Play {
        program,
        number,
        stage,
        shards: (0..stage.shards).map(shard).collect(),
        exchanges: 0,
        ways: vec![Way::default(); n],
        full: vec![Vec::new(); n],
        since: vec![None; n],
        sum: Way::default(),
        barrier: Way::default(),
        written: Way::default(),
        read: Way::default(),
        joints: stage.joints.iter().map(Calls::of).collect(),
        uncertain: false,
        marks: stage.phases.iter().map(marks).collect(),
        stuck: Vec::new(),
    };
    let far = &trees[1 - stage.tree];
    for (at, step) in stage.steps.iter().enumerate() {
        match *step {
            Step::Board { number, bomb } => play.board(board, number, bomb),
            _ => play.step(at, step, far),
        }
    }
    play.finish(&mut trees[stage.tree], expected)
}

pub fn blown(put: Known, bomb: Option<(u32, u32)>, shard: u32) -> Known {
    put.blown(bomb.filter(|b| b.1 == shard).map(|b| b.0))
}

impl Play<'_> {
    pub fn live(&self) -> Vec<u32> {
        (0u32..).zip(&self.shards).filter(|(_, s)| !s.over).map(|(s, _)| s).collect()
    }

    /// Gives a value to each shard that has not ended.
    fn give(&mut self, value: &Known) {
        self.shards.iter_mut().filter(|s| !s.over).for_each(|s| s.values.push(value.clone()));
    }

    /// Ends a shard. Later uses of its barriers and collectives get the cause.
    fn ends(&mut self, shard: u32, cause: Cause) {
        self.shards[shard as usize].over = true;
        self.since[shard as usize] = Some((cause, self.exchanges));
        let never = Known::never(&[cause].into());
        for way in [&mut self.sum, &mut self.barrier, &mut self.written] {
            way.spoil(&never);
        }
        for marks in &mut self.marks {
            if let Some(row) = marks.phase.row(shard) {
                marks.spoils.push((marks.arrived[row], never.clone()));
            }
        }
    }

    /// Lets a shard await a value. Returns whether it goes on.
    pub fn awaits(&mut self, shard: u32, value: &Known) -> bool {
        self.shards[shard as usize].told.extend(&value.causes);
        if value.is_stuck() {
            self.ends(shard, Cause::Stuck);
        }
        !value.is_stuck()
    }

    /// Lets all shards await a value that is the same for all.
    fn all_await(&mut self, value: &Known) {
        for s in self.live() {
            self.awaits(s, value);
        }
    }

    fn step(&mut self, at: usize, step: &Step, far: &Tree) {
        let over = |shard: u32| self.shards[shard as usize].over;
        match *step {
            Step::Leaf { shard, op, bomb, detached, .. } if !over(shard) => {
                let block = self.program.block(self.number, shard);
                let s = &mut self.shards[shard as usize];
                let value = leaf(s, block, (far, self.program.all()), op, bomb);
                if detached { &mut s.detached } else { &mut s.values }.push(value);
            }
            Step::Index { shard, field, points, looks, number, bomb, all } if !over(shard) => {
                let s = &mut self.shards[shard as usize];
                let k = s.number(number);
                let parts = Program::points(self.program.block(self.number, shard), points, looks);
                for (i, &part) in parts.iter().enumerate() {
                    let bomb = bomb.filter(|b| b.1 as usize % parts.len() == i).map(|b| b.0);
                    let value = point(s, field, part, looks, &k, bomb);
                    s.values.push(value);
                }
                if all.is_some() {
                    let points = s.values[s.values.len() - parts.len()..].to_vec();
                    s.seen.extend(points);
                }
            }
            Step::Await { shard, value, .. } if !over(shard) => {
                let s = &mut self.shards[shard as usize];
                if !s.values.is_empty() {
                    let value = s.values[value % s.values.len()].clone();
                    s.seen.push(value.clone());
                    self.awaits(shard, &value);
                }
            }
            Step::Exchange { number, waits, bomb, .. } => self.exchange(number, waits, bomb),
            Step::Sum { .. } => {
                let all = (0..self.stage.shards).map(|s| arrival(at, s)).reduce(|a, b| gathered(0, a, b)).unwrap_or(0);
                let value = self.sum.through(Known::sure(all as i64));
                self.give(&value);
                self.all_await(&value);
            }
            Step::Barrier { number, waits, bomb, .. } => {
                for s in self.live() {
                    let arrives = blown(self.shards[s as usize].number(number), bomb, s);
                    self.barrier.spoil(&arrives);
                    self.shards[s as usize].values.push(arrives);
                }
                let value = self.barrier.through(Known::sure(17));
                self.give(&value);
                if waits {
                    self.all_await(&value);
                }
            }
            Step::Call { which, number, bomb, given, taken } => self.call(which, (number, bomb, given), &taken),
            Step::Contribute { which, number, bomb, given } => self.contribute(which, (number, bomb, given)),
            Step::Receive { which, taken } => self.receive(which, &taken),
            Step::Arrive { shard, phase, number, own, bomb } if !over(shard) => {
                let Some(row) = self.marks[phase].phase.row(shard) else { return };
                let s = &mut self.shards[shard as usize];
                let put = if own { Known::sure(number.known()) } else { s.number(number).blown(bomb) };
                s.values.push(put.clone());
                self.marks[phase].arrive(row, &put, if own { number.known() as u64 } else { 0 });
            }
            Step::Forget { shard, phase } if !over(shard) => {
                if let Some(row) = self.marks[phase].phase.row(shard) {
                    self.marks[phase].arrive(row, &Known::never(&[Cause::Stuck].into()), 0);
                }
            }
            Step::Wait { shard, phase, own, .. } if !over(shard) => {
                let generation = self.marks[phase].waited[shard as usize];
                let (read, folded) = self.marks[phase].wait(shard);
                if read.is_stuck() {
                    self.stuck.push(Stuck { shard, own, phase, generation, missing: Vec::new() });
                }
                let values = &mut self.shards[shard as usize].values;
                values.push(read.clone());
                if own {
                    values.extend(self.marks[phase].phase.fold.map(|_| folded));
                    self.awaits(shard, &read);
                }
            }
            Step::Crash { shard, bomb, .. } if !over(shard) => {
                let s = &mut self.shards[shard as usize];
                let values = s.values.clone();
                s.seen.extend(values);
                self.ends(shard, Cause::Bomb(bomb));
            }
            Step::InVain { shard, .. } if !over(shard) => {
                // A shard that crashes, or fails at its end, ends all waits at barriers of its gang.
                let detaches = self.stage.steps.iter().any(|s| matches!(s, Step::Leaf { detached: true, .. }));
                let crashes = self.stage.steps.iter().filter(|s| detaches || matches!(s, Step::Crash { .. }));
                let causes = crashes.filter_map(Step::bomb).map(Cause::Bomb).collect();
                self.shards[shard as usize].seen.push(Known::sure(TIMED_OUT).may(&causes));
            }
            // If a shard arrives too often, any value of the others may fail for that cause.
            _ => {}
        }
    }

    fn exchange(&mut self, number: Number, waits: bool, bomb: Option<(u32, u32)>) {
        let (n, now, buffers) = (self.stage.shards, self.exchanges, self.stage.buffers);
        let mut sent = Vec::new();
        for s in 0..n {
            let put = blown(self.shards[s as usize].number(number), bomb, s);
            let mut free = Way::default();
            self.full[s as usize].iter().filter(|(from, _)| *from <= now).for_each(|(_, by)| free.spoil(by));
            if let Some((cause, end)) = self.since[self.stage.to[s as usize] as usize] {
                // As many buffers as that were free when their reader ended.
                match cause {
                    _ if now >= end + buffers => free.spoil(&Known::never(&[cause].into())),
                    Cause::Stuck => {}
                    _ => free.spoil(&Known::sure(0).may(&[cause].into())),
                }
            }
            let put = free.through(put);
            let way = &mut self.ways[s as usize];
            way.spoil(&put);
            if let Some((cause, _)) = self.since[s as usize] {
                way.spoil(&Known::never(&[cause].into()));
            }
            let taken = put.clone().map(|k| (0..self.stage.width).fold(7, |sum, p| joined(sum, fresh(k, p))));
            let taken = way.through(taken);
            self.full[s as usize].push((now + buffers, taken.clone()));
            sent.push((put, taken));
        }
        for to in self.live() {
            let taken: Vec<Known> = self.stage.producers(to).map(|from| sent[from as usize].1.clone()).collect();
            let values = &mut self.shards[to as usize].values;
            values.push(sent[to as usize].0.clone());
            if waits && taken.iter().any(Known::is_stuck) {
                self.ends(to, Cause::Stuck);
            } else {
                values.extend(taken);
            }
        }
        self.exchanges += 1;
    }

    fn board(&mut self, board: &mut BTreeMap<i64, Known>, number: Number, bomb: Option<(u32, u32)>) {
        for s in self.live() {
            let put = self.read.through(blown(self.shards[s as usize].number(number), bomb, s));
            self.written.spoil(&put);
            for p in BOARD * i64::from(s)..BOARD * i64::from(s + 1) {
                let old = board.get(&p).and_then(|old| old.value).unwrap_or(0);
                let new = put.clone().map(|k| updated(old, k, p));
                board.insert(p, new);
            }
            self.shards[s as usize].values.push(put);
        }
        let all = (0..BOARD * i64::from(self.stage.shards)).map(|p| board.get(&p).and_then(|k| k.value).unwrap_or(0));
        let value = self.written.through(Known::sure(all.fold(13, joined)));
        self.read.spoil(&value);
        self.give(&value);
    }

    /// Each shard looks at its whole block and at all of its values. Then the inner task looks, if there is one.
    fn finish(mut self, tree: &mut Tree, expected: &mut Expected) -> Vec<Vec<Known>> {
        for s in 0..self.stage.shards {
            let block = self.program.block(self.number, s);
            let shard = &mut self.shards[s as usize];
            if !shard.over {
                let dumps = [0, 1, 2].map(|f| shard.dump(f, block));
                shard.values.extend(dumps);
                let values = shard.values.clone();
                shard.over = values.iter().any(Known::is_stuck);
                shard.seen.extend(values);
            }
            if shard.over && !matches!(self.since[s as usize], Some((Cause::Bomb(_), _))) {
                expected.stopped.insert(s);
            }
            for (own, field) in shard.block.iter().zip(&mut *tree) {
                // If a value is not known, the next stage sets it first.
                field.extend(own.cells.iter().map(|(&p, known)| (p, known.value.unwrap_or(0))));
            }
        }
        let missing = |stuck: Stuck| Stuck { missing: self.marks[stuck.phase].missing(stuck.generation), ..stuck };
        expected.uncertain |= self.uncertain;
        expected.stuck.extend(self.stuck.into_iter().map(missing));
        expected.ends.push(self.shards.iter().map(Shard::end).collect());
        let mut seen: Vec<Vec<Known>> = self.shards.into_iter().map(|s| s.seen).collect();
        if self.stage.by_parent {
            seen.push(look(self.stage, tree));
        }
        seen
    }
}

/// The values of a tree that an inner task sees, and its change to them.
fn look(stage: &Stage, tree: &mut Tree) -> Vec<Known> {
    let mut seen = Vec::new();
    for field in tree.iter_mut() {
        let all = field.keys().map(|p| p[0]);
        let (lo, hi) = (all.clone().min().unwrap_or(0), all.max().map_or(0, |last| last + 1));
        let [looked, changed] = parts_of_parent((lo, hi));
        let is_in = |p: &[i64; 2], part: (i64, i64)| (part.0..part.1).contains(&p[0]);
        if stage.looks {
            let values = field.iter().filter(|(p, _)| is_in(p, looked));
            seen.push(Known::sure(values.fold(1, |sum, (_, &v)| joined(sum, v))));
        }
        if stage.changes {
            let mut sum = 2;
            for (&p, v) in field.iter_mut().filter(|(p, _)| is_in(p, changed)) {
                sum = joined(sum, *v);
                *v = updated(*v, 23, place(p));
            }
            seen.push(Known::sure(sum));
        }
    }
    seen
}
