//! What a program must give: an interpreter that runs it one step after the other on plain arrays.

use crate::program::{
    Act, BOARD, Loose, Number, Op, Part, Program, Stage, Step, TIMED_OUT, arrival, composed, contribution,
    fold_arrivals, folded, fresh, joined, updated,
};
use std::collections::{BTreeMap, BTreeSet};

/// Why a value may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// What went off with this number.
    Bomb(u32),
    /// A processor was lost.
    Lost(u32),
    /// The fault of a mapper.
    Mapper,
}

/// What is known of a value: the number, unless it can't be there, and why it may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub value: Option<i64>,
    pub causes: BTreeSet<Cause>,
}

impl Known {
    fn sure(value: i64) -> Self {
        Self { value: Some(value), causes: BTreeSet::new() }
    }

    /// It can't be there.
    fn never(causes: &BTreeSet<Cause>) -> Self {
        Self { value: None, causes: causes.clone() }
    }

    fn may(mut self, causes: &BTreeSet<Cause>) -> Self {
        self.causes.extend(causes);
        self
    }

    fn map(self, f: impl FnOnce(i64) -> i64) -> Self {
        Self { value: self.value.map(f), causes: self.causes }
    }

    /// What is made of both.
    fn with(self, other: &Known, f: impl FnOnce(i64, i64) -> i64) -> Self {
        let value = self.value.zip(other.value).map(|(a, b)| f(a, b));
        Self { value, causes: self.causes }.may(&other.causes)
    }

    /// The same, made by a task that panics.
    fn blown(self, bomb: Option<u32>) -> Self {
        match bomb {
            None => self,
            // Whoever finds its inputs failed does not come to panic.
            Some(b) if self.value.is_some() => Self { value: None, causes: self.causes }.may(&[Cause::Bomb(b)].into()),
            Some(_) => self,
        }
    }
}

/// What must come.
pub struct Expected {
    /// What each shard of each launch must see, in its order, no more than that if it crashes; and, after the shards, a
    /// parent.
    pub seen: Vec<Vec<Vec<Known>>>,
    /// What each shard of each loose launch of a stage gives back. These are in programs without failures only.
    pub loose: Vec<Vec<Vec<i64>>>,
}

type Line = (i64, i64);

fn overlap(a: Line, b: Line) -> bool {
    a.0 < b.1 && b.0 < a.1
}

fn within(a: Line, b: Line) -> bool {
    b.0 <= a.0 && a.1 <= b.1
}

/// A part of a field as the shard's tasks have named it. A failed task spoils those that overlap what it was to write, and
/// they spoil those that overlap them and are named later.
#[derive(Default)]
struct Column {
    spoilt: BTreeSet<Cause>,
    /// Causes that were there once, and the part whose new values cleared them: that it was cleared others may not have seen.
    cleared: Vec<(BTreeSet<Cause>, Line)>,
}

/// One field of a shard's block.
struct Block {
    cells: BTreeMap<i64, Known>,
    columns: BTreeMap<Line, Column>,
}

impl Block {
    /// A task names a part.
    fn name(&mut self, at: Line) {
        if self.columns.contains_key(&at) {
            return;
        }
        let mut spoilt = BTreeSet::new();
        for (_, other) in self.columns.iter().filter(|(o, _)| overlap(**o, at)) {
            spoilt.extend(&other.spoilt);
            other.cleared.iter().filter(|(_, by)| !within(at, *by)).for_each(|(causes, _)| spoilt.extend(causes));
        }
        self.columns.insert(at, Column { spoilt, cleared: Vec::new() });
    }

    fn digest(&mut self, at: Line, start: i64) -> Known {
        self.name(at);
        let start = Known::sure(start).may(&self.columns[&at].spoilt);
        (at.0..at.1).fold(start, |sum, p| sum.with(&self.cells[&p], joined))
    }

    /// A task writes a part: `by` says whether it runs, `new` what of the old value. Whether it writes all of it anew?
    fn write(&mut self, at: Line, by: &Known, anew: bool, new: impl Fn(i64, Option<i64>) -> Option<i64>) {
        self.name(at);
        for p in at.0..at.1 {
            let old = self.cells[&p].value;
            let value = by.value.and_then(|_| new(p, old));
            self.cells.insert(p, Known { value, causes: by.causes.clone() });
        }
        if !by.causes.is_empty() {
            self.columns.iter_mut().filter(|(o, _)| overlap(**o, at)).for_each(|(_, c)| c.spoilt.extend(&by.causes));
        } else if anew {
            for (_, c) in self.columns.iter_mut().filter(|(o, c)| within(**o, at) && !c.spoilt.is_empty()) {
                let causes = std::mem::take(&mut c.spoilt);
                c.cleared.push((causes, at));
            }
        }
    }
}

/// One direction between two shards: whether later exchanges can go on.
#[derive(Default, Clone)]
struct Way {
    /// Why none is complete any more, if so.
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

struct Shard {
    block: [Block; 2],
    values: Vec<Known>,
    seen: Vec<Known>,
    over: bool,
}

impl Shard {
    fn number(&self, n: Number) -> Known {
        match n {
            Number::Given(k) => Known::sure(k),
            Number::Of(i) if self.values.is_empty() => Known::sure(i as i64),
            Number::Of(i) => self.values[i % self.values.len()].clone(),
        }
    }
}

/// Interprets a program.
pub fn interpret(program: &Program) -> Expected {
    // Both trees, by field and point.
    let mut trees: [[Vec<i64>; 2]; 2] = Default::default();
    trees.iter_mut().flatten().for_each(|f| *f = vec![0; program.cells as usize]);
    let mut boards: Vec<BTreeMap<i64, Known>> = program.stages.iter().map(|_| BTreeMap::new()).collect();
    let launches: Vec<usize> = program.launches().collect();
    let mut expected = Expected { seen: Vec::new(), loose: vec![Vec::new(); program.stages.len()] };
    for (launch, stage) in launches.into_iter().enumerate() {
        if launch == program.first_launch(stage) {
            let all = program.stages[stage].loose.iter();
            expected.loose[stage] = all.map(|loose| run_loose(program, stage, loose, &mut trees)).collect();
        }
        expected.seen.push(run_stage(program, stage, &mut trees, &mut boards[stage]));
    }
    expected
}

fn run_loose(program: &Program, stage: usize, loose: &Loose, trees: &mut [[Vec<i64>; 2]; 2]) -> Vec<i64> {
    let (tree, act) = program.loose(stage, loose);
    let k = loose.number;
    let shard = |s| {
        let (lo, hi) = program.loose_block(loose, s);
        let cells = &mut trees[tree][loose.field][lo as usize..hi as usize];
        let digest = |start| cells.iter().fold(start, |sum, &v| joined(sum, v));
        let value = match act {
            Act::Digest => digest(1),
            Act::Update => digest(2),
            Act::Set => k,
            Act::Fold(_) => 3,
        };
        for (p, v) in (lo..).zip(cells) {
            *v = match act {
                Act::Digest => *v,
                Act::Set => fresh(k, p),
                Act::Update => updated(*v, k, p),
                Act::Fold(operator) => folded(*v, operator, fresh(k, p)),
            };
        }
        value
    };
    (0..loose.shards).map(shard).collect()
}

fn run_stage(
    program: &Program,
    number: usize,
    trees: &mut [[Vec<i64>; 2]; 2],
    board: &mut BTreeMap<i64, Known>,
) -> Vec<Vec<Known>> {
    let stage = &program.stages[number];
    let n = stage.shards;
    let own = trees[stage.tree].clone();
    let mut shards: Vec<Shard> = (0..n)
        .map(|s| {
            let (lo, hi) = program.block(number, s);
            let block = |f: usize| Block {
                cells: (lo..hi).map(|p| (p, Known::sure(own[f][p as usize]))).collect(),
                columns: BTreeMap::new(),
            };
            let mut shard = Shard { block: [block(0), block(1)], values: Vec::new(), seen: Vec::new(), over: false };
            if stage.loads {
                for f in 0..2 {
                    shard.block[f].write((lo, hi), &Known::sure(0), true, |p, _| Some(fresh(f as i64, p)));
                    shard.values.push(Known::sure(f as i64));
                }
            }
            shard
        })
        .collect();
    let mut ways = vec![Way::default(); n as usize];
    // Of shards that have crashed, how many exchanges ago.
    let mut since: Vec<Option<(u32, u32)>> = vec![None; n as usize];
    let (mut sum, mut barrier) = (Way::default(), Way::default());
    let (mut written, mut read) = (Way::default(), Way::default());
    let mut totals = vec![Way::default(); stage.totals.len()];
    for (at, step) in stage.steps.iter().enumerate() {
        match *step {
            Step::Leaf { shard, op, bomb, detached, .. } if !shards[shard as usize].over => {
                let far = &trees[1 - stage.tree];
                let s = &mut shards[shard as usize];
                let value = leaf(s, program.block(number, shard), far, op, bomb);
                s.values.extend((!detached).then_some(value));
            }
            Step::Index { shard, field, points, number: k, bomb, all } if !shards[shard as usize].over => {
                let s = &mut shards[shard as usize];
                let k = s.number(k);
                let parts = Program::points(program.block(number, shard), points);
                for (i, &part) in parts.iter().enumerate() {
                    let bomb = bomb.filter(|b| b.1 as usize % parts.len() == i).map(|b| b.0);
                    let value = update(&mut s.block[field], part, &k, bomb);
                    s.values.push(value);
                }
                if all.is_some() {
                    let points = s.values[s.values.len() - parts.len()..].to_vec();
                    s.seen.extend(points);
                }
            }
            Step::Await { shard, value, .. } => {
                let s = &mut shards[shard as usize];
                if !s.over && !s.values.is_empty() {
                    s.seen.push(s.values[value % s.values.len()].clone());
                }
            }
            Step::Exchange { number: k, bomb, .. } => {
                let mut sent = Vec::new();
                for s in 0..n {
                    let to = ((s + stage.distance) % n) as usize;
                    let shard = &shards[s as usize];
                    let mut put = shard.number(k).blown(bomb.filter(|b| b.1 == s).map(|b| b.0));
                    let way = &mut ways[s as usize];
                    if let Some((b, exchanges)) = &mut since[to] {
                        // The slot was free when its reader crashed.
                        let cause = [Cause::Bomb(*b)].into();
                        way.spoil(&if *exchanges > 0 { Known::never(&cause) } else { Known::sure(0).may(&cause) });
                        *exchanges += 1;
                    }
                    if let Some((b, _)) = since[s as usize] {
                        way.spoil(&Known::never(&[Cause::Bomb(b)].into()));
                    }
                    put = way.through(put);
                    way.spoil(&put);
                    sent.push(put);
                }
                for to in 0..n {
                    let from = (to + n - stage.distance % n) % n;
                    let taken = sent[from as usize].clone();
                    let taken = taken.map(|k| (0..stage.width).fold(7, |sum, p| joined(sum, fresh(k, p))));
                    if !shards[to as usize].over {
                        shards[to as usize].values.extend([sent[to as usize].clone(), taken]);
                    }
                }
            }
            Step::Sum { .. } => {
                let all = (0..n).map(|s| arrival(at, s)).reduce(fold_arrivals).unwrap_or(0);
                let value = sum.through(Known::sure(all as i64));
                live(&mut shards).for_each(|s| s.values.push(value.clone()));
            }
            Step::Barrier { number: k, bomb, .. } => {
                for s in (0..n).filter(|&s| !shards[s as usize].over).collect::<Vec<_>>() {
                    let shard = &mut shards[s as usize];
                    let arrives = shard.number(k).blown(bomb.filter(|b| b.1 == s).map(|b| b.0));
                    barrier.spoil(&arrives);
                    shard.values.push(arrives);
                }
                let value = barrier.through(Known::sure(17));
                live(&mut shards).for_each(|s| s.values.push(value.clone()));
            }
            Step::Board { number: k, bomb } => {
                for s in (0..n).filter(|&s| !shards[s as usize].over).collect::<Vec<_>>() {
                    let shard = &mut shards[s as usize];
                    let put = read.through(shard.number(k).blown(bomb.filter(|b| b.1 == s).map(|b| b.0)));
                    written.spoil(&put);
                    for p in BOARD * i64::from(s)..BOARD * i64::from(s + 1) {
                        let old = board.get(&p).and_then(|old| old.value).unwrap_or(0);
                        let new = put.clone().map(|k| updated(old, k, p));
                        board.insert(p, new);
                    }
                    shard.values.push(put);
                }
                let all = (0..BOARD * i64::from(n)).map(|p| board.get(&p).and_then(|k| k.value).unwrap_or(0));
                let value = written.through(Known::sure(all.fold(13, joined)));
                read.spoil(&value);
                live(&mut shards).for_each(|s| s.values.push(value.clone()));
            }
            Step::Total { which, number: k } => {
                let elements = stage.totals[which].elements;
                let inputs: Vec<Known> = live(&mut shards).map(|s| s.number(k)).collect();
                let mut way = totals[which].clone();
                inputs.iter().for_each(|k| way.spoil(k));
                let value = match inputs.iter().map(|k| k.value).collect::<Option<Vec<i64>>>() {
                    Some(all) => {
                        let all = all.into_iter().map(|k| contribution(k, elements));
                        let fold = |a: Vec<i64>, b: Vec<i64>| a.iter().zip(b).map(|(a, b)| composed(*a, b)).collect();
                        let result: Vec<i64> = all.reduce(fold).unwrap_or_default();
                        Known::sure(result.into_iter().fold(11, joined))
                    }
                    None => Known::never(&BTreeSet::new()),
                };
                let value = way.through(value);
                live(&mut shards).for_each(|s| s.values.push(value.clone()));
            }
            Step::Crash { shard, bomb, .. } if !shards[shard as usize].over => {
                let s = &mut shards[shard as usize];
                s.over = true;
                let values = s.values.clone();
                s.seen.extend(values);
                since[shard as usize] = Some((bomb, 0));
                let cause = Known::never(&[Cause::Bomb(bomb)].into());
                sum.spoil(&cause);
                barrier.spoil(&cause);
                written.spoil(&cause);
                totals.iter_mut().for_each(|t| t.spoil(&cause));
            }
            Step::InVain { shard, .. } if !shards[shard as usize].over => {
                // A shard that has crashed, or is about to, ends all waiting at barriers of its gang.
                let crashes = stage.steps.iter().filter(|s| matches!(s, Step::Crash { .. }));
                let causes = crashes.filter_map(Step::bomb).map(Cause::Bomb).collect();
                shards[shard as usize].seen.push(Known::sure(TIMED_OUT).may(&causes));
            }
            Step::Leaf { .. } | Step::Index { .. } | Step::Crash { .. } | Step::InVain { .. } => {}
            Step::Yield { .. } | Step::Swap { .. } => {}
        }
    }
    finish(program, number, stage, shards, trees)
}

fn live(shards: &mut [Shard]) -> impl Iterator<Item = &mut Shard> {
    shards.iter_mut().filter(|s| !s.over)
}

/// Each shard looks at all of its block, and at all of its values.
fn finish(
    program: &Program,
    number: usize,
    stage: &Stage,
    mut shards: Vec<Shard>,
    trees: &mut [[Vec<i64>; 2]; 2],
) -> Vec<Vec<Known>> {
    for (s, shard) in (0u32..).zip(&mut shards) {
        let block = program.block(number, s);
        if !shard.over {
            let digests = shard.block.each_mut().map(|own| own.digest(block, 1));
            shard.values.extend(digests);
            let values = shard.values.clone();
            shard.seen.extend(values);
        }
        for (own, field) in shard.block.iter().zip(&mut trees[stage.tree]) {
            for (&p, known) in &own.cells {
                // Where it is not known, the next stage sets it first.
                field[p as usize] = known.value.unwrap_or(0);
            }
        }
    }
    let mut seen: Vec<Vec<Known>> = shards.into_iter().map(|s| s.seen).collect();
    if stage.by_parent {
        seen.push(look(stage, &mut trees[stage.tree]));
    }
    seen
}

/// What a parent sees of a tree, and does to it.
fn look(stage: &Stage, tree: &mut [Vec<i64>; 2]) -> Vec<Known> {
    let mut seen = Vec::new();
    for field in tree.iter_mut() {
        if stage.maps {
            seen.push(Known::sure(field.iter().fold(1, |sum, &v| joined(sum, v))));
        }
        if stage.changes {
            seen.push(Known::sure(field.iter().fold(2, |sum, &v| joined(sum, v))));
            (0..).zip(field.iter_mut()).for_each(|(p, v)| *v = updated(*v, 23, p));
        }
    }
    seen
}

fn update(block: &mut Block, at: Line, k: &Known, bomb: Option<u32>) -> Known {
    let before = block.digest(at, 2).with(k, |sum, _| sum).blown(bomb);
    block.write(at, &before, false, |p, old| Some(updated(old?, k.value?, p)));
    before
}

fn leaf(s: &mut Shard, block: Line, far: &[Vec<i64>; 2], op: Op, bomb: Option<u32>) -> Known {
    let part = |p: Part| p.of(block);
    match op {
        Op::Digest(f, at) => s.block[f].digest(part(at), 1).blown(bomb),
        Op::Set(f, at, k) => {
            let k = s.number(k).blown(bomb);
            s.block[f].write(part(at), &k, true, |p, _| Some(fresh(k.value?, p)));
            k
        }
        Op::Update(f, at, k) | Op::Atomic(f, at, k) => {
            let k = s.number(k);
            update(&mut s.block[f], part(at), &k, bomb)
        }
        Op::Fold(f, at, operator, k) => {
            let k = s.number(k);
            let ran = s.block[f].digest(part(at), 0).with(&k, |_, _| 3).blown(bomb);
            s.block[f].write(part(at), &ran, false, |p, old| Some(folded(old?, operator, fresh(k.value?, p))));
            ran
        }
        Op::Mix(f, from, into) => {
            let read = s.block[f].digest(part(from), 4);
            let g = 1 - f;
            let k = s.block[g].digest(part(into), 0).with(&read, |_, k| k).blown(bomb);
            s.block[g].write(part(into), &k, false, |p, old| Some(updated(old?, k.value?, p)));
            k
        }
        Op::Far(f, at) => {
            let (from, to) = at.of((0, far[f].len() as i64));
            let sum = far[f][from as usize..to as usize].iter().fold(5, |sum, &v| joined(sum, v));
            Known::sure(sum).blown(bomb)
        }
        Op::Fill(f, at, v) => {
            s.block[f].write(part(at), &Known::sure(v), true, |_, _| Some(v));
            Known::sure(19)
        }
        Op::Copy(f, at) => {
            let from = s.block[f].digest(part(at), 0).map(|_| 19);
            let cells: BTreeMap<i64, Option<i64>> = s.block[f].cells.iter().map(|(&p, k)| (p, k.value)).collect();
            s.block[1 - f].write(part(at), &from, true, |p, _| cells[&p]);
            from
        }
        Op::Join(a, b) => s.number(a).with(&s.number(b), joined).blown(bomb),
    }
}
