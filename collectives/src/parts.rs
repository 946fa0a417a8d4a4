//! The registers of a call, their parts, and the vectors that they use in turn.

use crate::sizes::{Sizes, Starts, ends};
use crate::value::Running;
use crate::{Combine, Goal, Operator, Schedule, Step};
use maniple_regions::{Element, Lendable, Vector};
use std::ops::Range;
use std::sync::Arc;

/// Where the parts of one rank's steps are, and its contribution and its result.
pub struct Parts {
    /// The register of each part, and its elements there.
    parts: Vec<(u8, Range<usize>)>,
    /// Whether steps combine parts with each other.
    has_locals: bool,
    /// The elements of each register. Blocks that the rank does not use are left out.
    registers: Vec<usize>,
    /// The contribution in register 0, and the result with its register, if the rank has them.
    pub contribution: Option<Range<usize>>,
    pub result: Option<(u8, Range<usize>)>,
}

impl Parts {
    pub fn of(schedule: &Schedule, goal: &Goal, sizes: &Sizes) -> Self {
        let (rank, blocks) = (schedule.rank(), schedule.blocks());
        let [contributes, receives] = ends(goal, rank, blocks);
        let (mut used, mut has_locals) = (vec![false; schedule.parts().len()], false);
        for step in schedule.steps() {
            match *step {
                Step::Update { part, .. } | Step::Read { part, .. } => used[usize::from(part)] = true,
                Step::Local { from, part, .. } => {
                    has_locals = true;
                    [from, part].into_iter().for_each(|p| used[usize::from(p)] = true);
                }
            }
        }
        // Of each register the smallest range with all that is used.
        let mut hulls: Vec<Option<Range<u32>>> = vec![None; schedule.registers().into()];
        let mut use_blocks = |register: u8, blocks: &Range<u32>| {
            let hull = hulls[usize::from(register)].get_or_insert_with(|| blocks.clone());
            *hull = hull.start.min(blocks.start)..hull.end.max(blocks.end);
        };
        schedule
            .parts()
            .iter()
            .zip(used)
            .filter(|(_, used)| *used)
            .for_each(|(p, _)| use_blocks(p.register, &p.blocks));
        contributes.iter().for_each(|blocks| use_blocks(0, blocks));
        receives.iter().for_each(|blocks| use_blocks(schedule.result(), blocks));
        let registers: Vec<(Starts, usize, usize)> = (0..=u8::MAX)
            .zip(hulls)
            .map(|(register, hull)| {
                let starts = sizes.of(goal, rank, blocks, register);
                let Range { start, end } = starts.range(hull.unwrap_or(0..0));
                (starts, start, end - start)
            })
            .collect();
        let place = |register: u8, blocks: &Range<u32>| {
            let (starts, first, _) = &registers[usize::from(register)];
            let Range { start, end } = starts.range(blocks.clone());
            // A part that no step uses may lie outside.
            start.saturating_sub(*first)..end.saturating_sub(*first)
        };
        Self {
            parts: schedule.parts().iter().map(|p| (p.register, place(p.register, &p.blocks))).collect(),
            has_locals,
            contribution: contributes.map(|blocks| place(0, &blocks)),
            result: receives.map(|blocks| (schedule.result(), place(schedule.result(), &blocks))),
            registers: registers.into_iter().map(|(_, _, elements)| elements).collect(),
        }
    }

    /// The register of a part, and its elements.
    #[inline]
    pub fn at(&self, part: u16) -> (usize, Range<usize>) {
        let (register, range) = &self.parts[usize::from(part)];
        (usize::from(*register), range.clone())
    }

    /// The elements of the value, if it is one vector that all steps use as a whole, and combine with those of others only.
    pub fn whole(&self) -> Option<usize> {
        let [elements] = self.registers[..] else { return None };
        let is_whole = |range: &Range<usize>| *range == (0..elements);
        let all = self.parts.iter().map(|(_, range)| range);
        let ends = self.contribution.iter().chain(self.result.iter().map(|(_, range)| range));
        (self.parts.len() == 1 && !self.has_locals && all.chain(ends).all(is_whole)).then_some(elements)
    }
}

/// The most spare vectors that are kept for the steps of a call. No more are on loan at a time, for large values.
const MOST: usize = 2;

/// Spare vectors of registers. A user may hold some of one for as long as it likes.
struct Returning<T> {
    vectors: Vec<Lendable<T>>,
    /// How often all were on loan when one was needed.
    missed: u32,
}

impl<T: Element> Returning<T> {
    /// A vector that nobody else holds, with arbitrary values.
    fn take(&mut self, elements: usize) -> Lendable<T> {
        let free = self.vectors.iter_mut().position(|v| v.len() == elements && v.is_free());
        if let Some(at) = free {
            return self.vectors.remove(at);
        }
        self.vectors.reserve_exact(MOST - self.vectors.len());
        if self.vectors.len() == MOST {
            let other = self.vectors.iter().position(|v| v.len() != elements);
            self.missed += u32::from(other.is_none());
            // The oldest may be the next to come back, or it never does: then it goes after a while.
            if let Some(at) = other.or(self.missed.is_multiple_of(4).then_some(0)) {
                self.vectors.remove(at);
            }
        }
        vec![T::zeroed(); elements].into()
    }

    /// Keeps a vector if there are not enough, but not before one has been needed, which makes room.
    fn put(&mut self, vector: Lendable<T>) {
        // A shared one can never change.
        if self.vectors.len() < MOST.min(self.vectors.capacity()) && !vector.is_empty() && !vector.is_shared() {
            self.vectors.push(vector);
        }
    }
}

/// The registers of a call. One that is not in use has an empty vector.
pub struct Registers<T> {
    pub all: Vec<Lendable<T>>,
    /// Vectors with blocks that were on loan when they had to change, and those of earlier calls.
    spare: Returning<T>,
    /// Whether the contribution's memory was left to the call, so that its result may have memory of the call.
    given: bool,
}

impl<T> Registers<T> {
    pub const fn new() -> Self {
        Self { all: Vec::new(), spare: Returning { vectors: Vec::new(), missed: 0 }, given: false }
    }
}

impl<T: Element> Registers<T> {
    /// Begins a call with this contribution, if there is one.
    pub fn begin(&mut self, parts: &Parts, contribution: Running<T>) {
        self.all.resize_with(parts.registers.len(), Lendable::default);
        self.given = false;
        let contribution = match contribution {
            Running::Held(vector) => vector.into_shared().map_or_else(Running::Held, Running::Many),
            other => other,
        };
        let to_copy = match contribution {
            Running::Many(vector) if vector.len() == parts.registers[0] => {
                let own = Arc::try_unwrap(vector).map_or_else(Lendable::from, Lendable::from);
                self.given = !own.is_shared();
                self.spare.put(std::mem::replace(&mut self.all[0], own));
                None
            }
            // It is a part of the register, or one element.
            other => Some(other),
        };
        let placed = usize::from(to_copy.is_none());
        for (register, &elements) in self.all.iter_mut().zip(&parts.registers).skip(placed) {
            // What the last call left there is of no use, so another vector will do while somebody holds it.
            if register.len() != elements || !register.is_free() {
                let free = self.spare.take(elements);
                self.spare.put(std::mem::replace(register, free));
            }
        }
        if let (Some(contribution), Some(range)) = (to_copy, &parts.contribution) {
            let own = self.all[0].change(range.clone()).expect("nobody else holds it");
            own.copy_from_slice(contribution.as_slice());
        }
    }

    /// The result. It is handed over where it has the place of a contribution whose memory was given. Otherwise it is lent:
    /// when nobody holds it any more, later calls use its memory again.
    pub fn take_result(&mut self, (register, range): &(u8, Range<usize>)) -> Vector<T> {
        let of = &mut self.all[usize::from(*register)];
        if self.given && *register == 0 && range.len() == of.len() {
            match std::mem::take(of).into_vec() {
                Ok(vector) => return vector.into(),
                // A last reader still holds some of it.
                Err(lent) => *of = lent,
            }
        }
        of.lend(range.clone()).into()
    }

    /// Lets go of a contribution that was not copied. Whoever else holds it is the only one then. One that was given and is
    /// the result stays, because later calls use its memory again.
    pub fn drop_contribution(&mut self, is_result: bool) {
        if let Some(first) = self.all.first_mut()
            && (first.is_shared() || self.given && !is_result)
        {
            self.given = false;
            self.spare.put(std::mem::take(first));
        }
    }

    /// `own = f(own)` for a range of a register: in its place if nothing of it is on loan, or else in another vector, to which
    /// the rest is copied.
    fn change(
        &mut self,
        register: usize,
        range: Range<usize>,
        in_place: impl FnOnce(&mut [T]),
        elsewhere: impl FnOnce(&mut [T], &[T]),
    ) {
        let Self { all, spare, .. } = self;
        let register = &mut all[register];
        if let Some(own) = register.change(range.clone()) {
            return in_place(own);
        }
        let mut next = spare.take(register.len());
        let (own, before) = (next.change(0..register.len()).expect("nobody else holds it"), register.as_slice());
        own[..range.start].copy_from_slice(&before[..range.start]);
        own[range.end..].copy_from_slice(&before[range.end..]);
        elsewhere(&mut own[range.clone()], &before[range]);
        spare.put(std::mem::replace(register, next));
    }

    /// Combines an incoming value with a part.
    pub fn combine(
        &mut self,
        operator: &Operator<T>,
        (register, range): (usize, Range<usize>),
        how: u8,
        incoming: &[T],
    ) {
        let in_place = |own: &mut [T]| combine_in_place(operator, how, own, incoming);
        self.change(register, range, in_place, |own, before| combine_into(operator, how, own, before, incoming));
    }
}

/// Vectors that were given, or have been lent to readers, or to the program as results. When nobody else holds them any more,
/// later values go into them.
pub struct Spare<T> {
    vectors: Vec<Arc<Vec<T>>>,
    /// Whether the running value came out of these, as the contribution was not given. Then it is lent as the result.
    pub lends: bool,
}

impl<T> Spare<T> {
    /// The program may still hold the last result while the steps of a call take others.
    const MOST: usize = MOST + 1;

    pub const fn new() -> Self {
        Self { vectors: Vec::new(), lends: false }
    }
}

impl<T: Element> Spare<T> {
    /// A vector that nobody else holds, with arbitrary values.
    pub fn take(&mut self, elements: usize) -> Arc<Vec<T>> {
        self.vectors.reserve_exact(Self::MOST.saturating_sub(self.vectors.len()));
        let free = self.vectors.iter_mut().position(|v| Arc::get_mut(v).is_some_and(|v| v.len() == elements));
        free.map_or_else(|| Arc::new(vec![T::zeroed(); elements]), |at| self.vectors.swap_remove(at))
    }

    /// Keeps a vector, but not before one has been taken, which makes room: some shards only contribute. If there are
    /// enough, it takes the place of one that somebody holds, who may never let go of it.
    pub fn put(&mut self, vector: Arc<Vec<T>>) {
        if vector.is_empty() {
            return;
        }
        if self.vectors.len() == Self::MOST {
            let elements = vector.len();
            let is_of_use = |v: &mut Arc<Vec<T>>| Arc::get_mut(v).is_some_and(|v| v.len() == elements);
            let Some(at) = self.vectors.iter_mut().map(is_of_use).position(|is_of_use| !is_of_use) else { return };
            self.vectors.remove(at);
        }
        if self.vectors.len() < self.vectors.capacity() {
            self.vectors.push(vector);
        }
    }

    /// `f(running)` in another vector.
    pub fn elsewhere(&mut self, running: &[T], f: impl FnOnce(&mut [T], &[T])) -> Arc<Vec<T>> {
        let mut next = self.take(running.len());
        f(Arc::get_mut(&mut next).expect("nobody else holds it"), running);
        next
    }

    /// `running = f(running)`: in its place if nobody else holds it, or else in another.
    pub fn change(
        &mut self,
        running: &mut Arc<Vec<T>>,
        in_place: impl FnOnce(&mut [T]),
        elsewhere: impl FnOnce(&mut [T], &[T]),
    ) {
        if let Some(own) = Arc::get_mut(running) {
            return in_place(own);
        }
        let next = self.elsewhere(running, elsewhere);
        self.put(std::mem::replace(running, next));
    }
}

#[inline(always)]
pub fn combine_in_place<T: Element>(operator: &Operator<T>, how: u8, running: &mut [T], incoming: &[T]) {
    if how == Combine::IncomingIsHigher as u8 {
        operator.fold_higher(running, incoming);
    } else if how == Combine::IncomingIsLower as u8 {
        operator.fold_lower(running, incoming);
    } else if how == Combine::Undo as u8 {
        operator.undo(running, incoming);
    } else {
        running.copy_from_slice(incoming);
    }
}

/// `out = running ⊕ incoming`, in some order, or `running ⊖ incoming`.
#[inline]
pub fn combine_into<T: Element>(operator: &Operator<T>, how: u8, out: &mut [T], running: &[T], incoming: &[T]) {
    if how == Combine::IncomingIsHigher as u8 {
        operator.fold_into(out, running, incoming);
    } else if how == Combine::IncomingIsLower as u8 {
        operator.fold_into(out, incoming, running);
    } else if how == Combine::Undo as u8 {
        out.copy_from_slice(running);
        operator.undo(out, incoming);
    } else {
        out.copy_from_slice(incoming);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// How many of the last hundred calls make a new vector for their result, if the first so many results are held for ever,
    /// and the last so many for a while.
    fn made(forever: usize, last: usize) -> usize {
        let (mut spare, mut register) = (Returning { vectors: Vec::new(), missed: 0 }, Lendable::default());
        let (mut made, mut kept, mut held) = (0, Vec::new(), VecDeque::new());
        for call in 0..200 {
            // Of contributions.
            spare.put(vec![1; 7].into());
            if register.is_empty() || !register.is_free() {
                let free = spare.take(4);
                spare.put(std::mem::replace(&mut register, free));
            }
            let own: &mut [u64] = register.change(0..4).expect("nobody else holds it");
            made += usize::from(call >= 100 && own[0] == 0);
            own[0] = 1;
            let result = register.lend(1..3);
            if call < forever {
                kept.push(result)
            } else {
                held.push_back(result)
            }
            if held.len() > last {
                held.pop_front();
            }
        }
        made
    }

    #[test]
    fn results_that_are_held_for_ever_do_not_keep_others_from_being_used_again() {
        for forever in [0, 1, 2, 5] {
            for last in 0..=MOST {
                assert_eq!(made(forever, last), 0, "{forever} held for ever, {last} for a while");
            }
            let made = made(forever, MOST + 1);
            assert!(made < 60, "{forever} held for ever: {made}");
        }
    }

    /// Each call of two steps contributes the last result, which the shard holds until it has the next one.
    #[test]
    fn a_result_that_is_held_during_the_next_call_is_used_again() {
        let (mut spare, mut result, mut made) = (Spare::<u64>::new(), Arc::new(vec![1; 4]), 0);
        for _ in 0..100 {
            let mut changed = |spare: &mut Spare<u64>| {
                let mut vector = spare.take(4);
                let own = Arc::get_mut(&mut vector).expect("nobody else holds it");
                made += usize::from(own[0] == 0);
                own[0] = 1;
                vector
            };
            let first = changed(&mut spare);
            let lent = first.clone();
            let second = changed(&mut spare);
            spare.put(first);
            drop(lent);
            spare.put(second.clone());
            result = second;
        }
        assert_eq!((result[0], made), (1, 3));
    }

    #[test]
    fn spare_vectors_that_others_hold_make_way() {
        let (mut spare, shared) = (Spare::<u64>::new(), Arc::new(vec![1; 4]));
        let mut own = None;
        for _ in 0..5 {
            let mut running = shared.clone();
            spare.change(&mut running, |_| unreachable!("it is shared"), |out, _| out.fill(2));
            assert_eq!(running.as_ptr(), *own.get_or_insert(running.as_ptr()));
            spare.put(running);
        }
    }
}
