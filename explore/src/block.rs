//! The interpreter's part for leaf tasks on a shard's block: the values, and the parts that a failure spoils.

use crate::area::{Area, AreaPart, place};
use crate::oracle::{Cause, Known, Tree};
use crate::play::Shard;
use crate::program::{Number, Op};
use crate::values::{folded, fresh, joined, updated};
use std::collections::{BTreeMap, BTreeSet};

/// A part of a field that the shard's tasks have named. A failed task spoils the parts that overlap the one that it was
/// to write. A spoilt part spoils overlapping parts that are named later.
#[derive(Default)]
struct Column {
    spoilt: BTreeSet<Cause>,
    /// Earlier causes, and the part whose new values cleared them. Other parts may not have been cleared.
    cleared: Vec<(BTreeSet<Cause>, Area)>,
}

/// One field of a shard's block.
pub struct BlockField {
    pub cells: BTreeMap<[i64; 2], Known>,
    columns: BTreeMap<Area, Column>,
    /// The parts of tasks that never run, and whether these were to write.
    stuck: Vec<(Area, bool)>,
}

impl BlockField {
    /// Makes a block with these values.
    pub fn of(cells: impl Iterator<Item = ([i64; 2], i64)>) -> Self {
        BlockField {
            cells: cells.map(|(p, v)| (p, Known::sure(v))).collect(),
            columns: BTreeMap::new(),
            stuck: Vec::new(),
        }
    }

    /// Notes that a task names a part.
    fn name(&mut self, at: Area) {
        if self.columns.contains_key(&at) {
            return;
        }
        let mut spoilt = BTreeSet::new();
        for (_, other) in self.columns.iter().filter(|(o, _)| o.overlaps(&at)) {
            spoilt.extend(&other.spoilt);
            other.cleared.iter().filter(|(_, by)| !at.is_within(by)).for_each(|(causes, _)| spoilt.extend(causes));
        }
        self.columns.insert(at, Column { spoilt, cleared: Vec::new() });
    }

    pub fn digest(&mut self, at: Area, start: i64) -> Known {
        self.name(at);
        let start = Known::sure(start).may(&self.columns[&at].spoilt);
        at.points().fold(start, |sum, p| sum.with(&self.cells[&p], joined))
    }

    /// Lets a task write a part. `by` says whether it runs, `new` makes a new value from the old one, and `anew` says
    /// that all of the part gets values that do not depend on old ones.
    pub fn write(&mut self, at: Area, by: &Known, anew: bool, new: impl Fn([i64; 2], Option<i64>) -> Option<i64>) {
        self.name(at);
        for p in at.points() {
            let old = self.cells[&p].value;
            let value = by.value.and_then(|_| new(p, old));
            self.cells.insert(p, Known { value, causes: by.causes.clone() });
        }
        if !by.causes.is_empty() {
            self.columns.iter_mut().filter(|(o, _)| o.overlaps(&at)).for_each(|(_, c)| c.spoilt.extend(&by.causes));
        } else if anew {
            for (_, c) in self.columns.iter_mut().filter(|(o, c)| o.is_within(&at) && !c.spoilt.is_empty()) {
                let causes = std::mem::take(&mut c.spoilt);
                c.cleared.push((causes, at));
            }
        }
    }
}

pub fn update(block: &mut BlockField, at: Area, k: &Known, bomb: Option<u32>) -> Known {
    let before = block.digest(at, 2).with(k, |sum, _| sum).blown(bomb);
    block.write(at, &before, false, |p, old| Some(updated(old?, k.value?, place(p))));
    before
}

impl Shard {
    /// Whether a task ever runs, given the numbers and the parts of fields that it uses, and whether it writes these.
    fn runs(&mut self, numbers: &[&Known], uses: &[(usize, Area, bool)]) -> bool {
        let follows = |&(field, at, writes): &(usize, Area, bool)| {
            self.block[field].stuck.iter().any(|(stuck, written)| stuck.overlaps(&at) && (writes || *written))
        };
        let runs = !numbers.iter().any(|k| k.is_stuck()) && !uses.iter().any(follows);
        if !runs {
            uses.iter().for_each(|&(field, at, writes)| self.block[field].stuck.push((at, writes)));
        }
        runs
    }

    /// All values of a field.
    pub fn dump(&mut self, field: usize, block: Area) -> Known {
        match self.runs(&[], &[(field, block, false)]) {
            true => self.block[field].digest(block, 1),
            false => stuck(),
        }
    }
}

fn stuck() -> Known {
    Known::never(&[Cause::Stuck].into())
}

/// A point of an index launch.
pub fn point(s: &mut Shard, field: usize, at: Area, looks: bool, k: &Known, bomb: Option<u32>) -> Known {
    match looks {
        _ if !s.runs(&[k], &[(field, at, !looks)]) => stuck(),
        true => s.block[field].digest(at, 2).with(k, |sum, _| sum).blown(bomb),
        false => update(&mut s.block[field], at, k, bomb),
    }
}

/// The numbers that a leaf task uses, and the parts of fields, each with whether the task writes it.
fn uses(op: Op, block: Area) -> (Vec<Number>, Vec<(usize, Area, bool)>) {
    let next = |f: usize| (f + 1) % 3;
    match op {
        Op::Digest(f, at) => (vec![], vec![(f, at.of(block), false)]),
        Op::Set(f, at, k) | Op::Update(f, at, k) | Op::Atomic(f, at, k) | Op::Fold(f, at, _, k) => {
            (vec![k], vec![(f, at.of(block), true)])
        }
        Op::Fill(f, at, _) => (vec![], vec![(f, at.of(block), true)]),
        Op::Mix(f, from, into) => (vec![], vec![(f, from.of(block), false), (next(f), into.of(block), true)]),
        Op::Copy(f, at) => (vec![], vec![(f, at.of(block), false), (next(f), at.of(block), true)]),
        Op::Three(f, swap, at, k) => {
            let ((g, h), at) = (Op::others(f, swap), at.of(block));
            (vec![k], vec![(f, at, false), (g, at, true), (h, at, true)])
        }
        Op::Far(..) => (vec![], vec![]),
        Op::Join(a, b) => (vec![a, b], vec![]),
    }
}

/// A leaf task of a shard.
pub fn leaf(s: &mut Shard, block: Area, far: (&Tree, Area), op: Op, bomb: Option<u32>) -> Known {
    let (numbers, uses) = uses(op, block);
    let numbers: Vec<Known> = numbers.into_iter().map(|k| s.number(k)).collect();
    if !s.runs(&numbers.iter().collect::<Vec<_>>(), &uses) {
        return stuck();
    }
    let part = |p: AreaPart| p.of(block);
    match op {
        Op::Digest(f, at) => s.block[f].digest(part(at), 1).blown(bomb),
        Op::Set(f, at, k) => {
            let k = s.number(k).blown(bomb);
            s.block[f].write(part(at), &k, true, |p, _| Some(fresh(k.value?, place(p))));
            k
        }
        Op::Update(f, at, k) | Op::Atomic(f, at, k) => {
            let k = s.number(k);
            update(&mut s.block[f], part(at), &k, bomb)
        }
        Op::Fold(f, at, operator, k) => {
            let k = s.number(k);
            let ran = s.block[f].digest(part(at), 0).with(&k, |_, _| 3).blown(bomb);
            s.block[f].write(part(at), &ran, false, |p, old| Some(folded(old?, operator, fresh(k.value?, place(p)))));
            ran
        }
        Op::Mix(f, from, into) => {
            let read = s.block[f].digest(part(from), 4);
            let g = (f + 1) % 3;
            let k = s.block[g].digest(part(into), 0).with(&read, |_, k| k).blown(bomb);
            s.block[g].write(part(into), &k, false, |p, old| Some(updated(old?, k.value?, place(p))));
            k
        }
        Op::Three(f, swap, at, k) => {
            let (at, k) = (part(at), s.number(k));
            let (g, h) = Op::others(f, swap);
            let read = s.block[f].digest(at, 0);
            let ran = s.block[g].digest(at, 0).with(&read, |_, _| 5).with(&k, |five, _| five).blown(bomb);
            let cells: BTreeMap<[i64; 2], Option<i64>> = at.points().map(|p| (p, s.block[f].cells[&p].value)).collect();
            s.block[g].write(at, &ran, false, |p, old| Some(folded(old?, 0, cells[&p]?)));
            s.block[h].write(at, &ran, true, |p, _| Some(joined(cells[&p]?, k.value?)));
            ran
        }
        Op::Far(f, at) => {
            let sum = at.of(far.1).points().fold(5, |sum, p| joined(sum, far.0[f][&p]));
            Known::sure(sum).blown(bomb)
        }
        Op::Fill(f, at, v) => {
            s.block[f].write(part(at), &Known::sure(v), true, |_, _| Some(v));
            Known::sure(19)
        }
        Op::Copy(f, at) => {
            let from = s.block[f].digest(part(at), 0).map(|_| 19);
            let cells: BTreeMap<[i64; 2], Option<i64>> = s.block[f].cells.iter().map(|(&p, k)| (p, k.value)).collect();
            s.block[(f + 1) % 3].write(part(at), &from, true, |p, _| cells[&p]);
            from
        }
        Op::Join(a, b) => s.number(a).with(&s.number(b), joined).blown(bomb),
    }
}
