//! The registers of a call, their parts, and the vectors that they use in turn.

use crate::engine::Running;
use crate::{Combine, Operator, Schedule};
use maniple_regions::Element;
use maniple_runtime::Lent;
use std::ops::Range;
use std::sync::Arc;

/// Where the parts of one rank's steps are.
pub struct Parts {
    parts: Vec<(u8, Range<usize>)>,
    registers: u8,
    pub result: u8,
    elements: usize,
}

impl Parts {
    /// The parts of a schedule for vectors of so many elements. None if there is only one part: all of register 0.
    ///
    /// Blocks differ by one element at most.
    pub fn of(schedule: &Schedule, elements: usize) -> Option<Self> {
        let (registers, blocks) = (schedule.registers(), schedule.blocks() as usize);
        if registers == 1 && blocks == 1 {
            return None;
        }
        let (size, larger) = (elements / blocks, elements % blocks);
        let start = |block: u32| block as usize * size + larger.min(block as usize);
        let parts = schedule.parts().iter().map(|p| (p.register, start(p.blocks.start)..start(p.blocks.end)));
        Some(Self { parts: parts.collect(), registers, result: schedule.result(), elements })
    }

    /// The register of a part, and its elements.
    #[inline]
    pub fn at(&self, part: u16) -> (usize, Range<usize>) {
        let (register, range) = &self.parts[usize::from(part)];
        (usize::from(*register), range.clone())
    }
}

/// The registers of a call. One that is not in use has an empty vector.
pub struct Registers<T>(pub Vec<Arc<Vec<T>>>);

impl<T: Element> Registers<T> {
    /// Begins a call with this contribution.
    pub fn begin(&mut self, parts: &Parts, spare: &mut Spare<T>, contribution: Running<T>) {
        self.0.resize_with(parts.registers.into(), Arc::default);
        for register in &mut self.0 {
            if register.len() != parts.elements {
                *register = spare.take(parts.elements);
            }
        }
        match contribution {
            Running::One(value) => spare.change(&mut self.0[0], |own| own[0] = value, |next, _| next[0] = value),
            Running::Many(vector) => spare.put(std::mem::replace(&mut self.0[0], vector)),
            Running::Parts | Running::Later(_) | Running::ManyLater(_) => unreachable!("the contribution is there"),
        }
    }

    /// Takes the vector of the result.
    pub fn take(&mut self, register: u8) -> Arc<Vec<T>> {
        std::mem::take(&mut self.0[usize::from(register)])
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
    } else {
        running.copy_from_slice(incoming);
    }
}

/// `out = running ⊕ incoming`, in some order.
#[inline]
pub fn combine_into<T: Element>(operator: &Operator<T>, how: u8, out: &mut [T], running: &[T], incoming: &[T]) {
    if how == Combine::IncomingIsHigher as u8 {
        operator.fold_into(out, running, incoming);
    } else if how == Combine::IncomingIsLower as u8 {
        operator.fold_into(out, incoming, running);
    } else {
        out.copy_from_slice(incoming);
    }
}
