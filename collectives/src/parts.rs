//! The registers of a call, their parts, and the vectors that they use in turn.

use crate::sizes::{Sizes, Starts, ends};
use crate::value::Running;
use crate::{Combine, Goal, Operator, Schedule, Step};
use maniple_regions::Element;
use maniple_runtime::Lent;
use std::ops::Range;
use std::sync::Arc;

/// Where the parts of one rank's steps are, and its contribution and its result.
pub struct Parts {
    /// The register of each part, and its elements there.
    parts: Vec<(u8, Range<usize>)>,
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
        let mut used = vec![false; schedule.parts().len()];
        for step in schedule.steps() {
            match *step {
                Step::Update { part, .. } | Step::Read { part, .. } => used[usize::from(part)] = true,
                Step::Local { from, part, .. } => [from, part].into_iter().for_each(|p| used[usize::from(p)] = true),
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
        let registers: Vec<(Starts, usize, usize)> = (0u8..)
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

    /// The elements of the value, if it is one vector that all steps use as a whole.
    pub fn whole(&self) -> Option<usize> {
        let [elements] = self.registers[..] else { return None };
        let is_whole = |range: &Range<usize>| *range == (0..elements);
        let all = self.parts.iter().map(|(_, range)| range);
        let ends = self.contribution.iter().chain(self.result.iter().map(|(_, range)| range));
        (self.parts.len() == 1 && all.chain(ends).all(is_whole)).then_some(elements)
    }
}

/// The registers of a call. One that is not in use has an empty vector.
pub struct Registers<T>(pub Vec<Arc<Vec<T>>>);

impl<T: Element> Registers<T> {
    /// Begins a call with this contribution, if there is one.
    pub fn begin(&mut self, parts: &Parts, spare: &mut Spare<T>, contribution: Running<T>) {
        self.0.resize_with(parts.registers.len(), Arc::default);
        let to_copy = match contribution {
            Running::Many(vector) if vector.len() == parts.registers[0] => {
                spare.put(std::mem::replace(&mut self.0[0], vector));
                None
            }
            // It is a part of the register, or one element.
            other => Some(other),
        };
        for (register, &elements) in self.0.iter_mut().zip(&parts.registers) {
            if register.len() != elements {
                *register = spare.take(elements);
            }
        }
        if let (Some(contribution), Some(range)) = (to_copy, &parts.contribution) {
            let incoming = contribution.as_slice();
            let elsewhere = |next: &mut [T], _: &[T]| next[range.clone()].copy_from_slice(incoming);
            spare.change(&mut self.0[0], |own| own[range.clone()].copy_from_slice(incoming), elsewhere);
        }
    }

    /// Takes the result: its register's vector, or a copy of a part of it.
    pub fn take_vector(&mut self, (register, range): &(u8, Range<usize>)) -> Arc<Vec<T>> {
        let vector = &mut self.0[usize::from(*register)];
        if range.len() == vector.len() { std::mem::take(vector) } else { Arc::new(vector[range.clone()].to_vec()) }
    }

    /// Changes a part: where it is if nobody else holds the register's vector, or else in another one.
    pub fn combine(
        &mut self,
        operator: &Operator<T>,
        spare: &mut Spare<T>,
        (register, range): (usize, Range<usize>),
        how: u8,
        incoming: &[T],
    ) {
        let elsewhere = |out: &mut [T], running: &[T]| {
            out[..range.start].copy_from_slice(&running[..range.start]);
            out[range.end..].copy_from_slice(&running[range.end..]);
            combine_into(operator, how, &mut out[range.clone()], &running[range.clone()], incoming);
        };
        let in_place = |own: &mut [T]| combine_in_place(operator, how, &mut own[range.clone()], incoming);
        spare.change(&mut self.0[register], in_place, elsewhere);
    }
}

/// A part on loan.
pub struct LentPart<T> {
    pub vector: Arc<Vec<T>>,
    pub range: Range<usize>,
}

impl<T: Element> Lent for LentPart<T> {
    fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.vector[self.range.clone()])
    }
    fn as_bytes_mut(&mut self) -> &mut [u8] {
        // Its owner changes it, and only where nobody holds it.
        Arc::get_mut(&mut self.vector).map_or(&mut [], |own| bytemuck::cast_slice_mut(&mut own[self.range.clone()]))
    }
}

/// Vectors that have been lent to readers. When the readers are done, later values go into them.
pub struct Spare<T>(pub Vec<Arc<Vec<T>>>);

impl<T: Element> Spare<T> {
    /// The most vectors that are kept. No more are on loan at a time, for large values.
    const MOST: usize = 2;

    /// A vector that nobody else holds, with arbitrary values.
    pub fn take(&mut self, elements: usize) -> Arc<Vec<T>> {
        let free = self.0.iter_mut().position(|v| Arc::get_mut(v).is_some_and(|v| v.len() == elements));
        free.map_or_else(|| Arc::new(vec![T::zeroed(); elements]), |at| self.0.swap_remove(at))
    }

    pub fn put(&mut self, vector: Arc<Vec<T>>) {
        if self.0.len() < Self::MOST {
            self.0.push(vector);
        }
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
        let mut next = self.take(running.len());
        elsewhere(Arc::get_mut(&mut next).expect("nobody else holds it"), running);
        self.put(std::mem::replace(running, next));
    }
}

#[inline]
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
