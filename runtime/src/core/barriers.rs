//! Phase barriers: this processor's member of each combining tree.

use super::cells::Waited;
use super::{Core, Waiting};
use crate::current::Poller;
use crate::error::panic_message;
use crate::message::{Message, ObjectId, ProcessorId};
use crate::object::{Object, PhaseSpec};
use crate::{Error, Place};
use maniple_barriers::{Arrivals, BarrierError, PhaseCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// How many generations' reduction values a member keeps for late waiters, at least and, with a very wide window, at
/// most (a megabyte).
const KEPT_VALUES: (u64, u64) = (64, 1 << 16);

/// One member of a combining tree.
pub(crate) struct PhaseLocal {
    /// Contributors: the arrivers of this processor, then the children that contribute.
    cell: PhaseCell,
    /// Positions of this processor's arrivers in the barrier's list.
    arrivers: Vec<u32>,
    /// Whom this member reports to, and as which contributor.
    parent: Option<(ProcessorId, u32)>,
    children: Vec<ProcessorId>,
    /// Values of generations that are not passed on yet, by arriver: those of the first incomplete one first.
    values: VecDeque<Vec<(u32, u64)>>,
    first_value: u64,
    released: u64,
    /// The last generations that are over, ascending, and their values.
    results: VecDeque<(u64, u64)>,
    /// How many of them are kept: whoever arrives may be a window ahead of its own waits.
    kept: u64,
    pub waiters: Vec<(u64, Waiting)>,
    /// Generations from this one on will never be over, and why.
    poison: Option<(u64, Error)>,
}

impl PhaseLocal {
    pub fn new(spec: &PhaseSpec, processor: ProcessorId) -> Self {
        let arrivers = spec.local_arrivers(processor);
        let contributing = |p: ProcessorId| spec.tree.children(p).iter().copied().filter(|&c| spec.contributes(c));
        let parent = spec.tree.parent(processor).map(|p| {
            let before = contributing(p).take_while(|&c| c != processor).count();
            (p, (spec.local_arrivers(p).len() + before) as u32)
        });
        let contributors = arrivers.len() + contributing(processor).count();
        let (least, most) = KEPT_VALUES;
        Self {
            cell: PhaseCell::new(contributors as u32, spec.window),
            arrivers,
            parent,
            children: spec.tree.children(processor).to_vec(),
            values: VecDeque::new(),
            first_value: 0,
            released: 0,
            results: VecDeque::new(),
            kept: if spec.fold.is_some() { spec.window.saturating_add(1).clamp(least, most) } else { least },
            waiters: Vec::new(),
            poison: None,
        }
    }

    /// Generations over so far.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// This processor's arrivers, by position in the barrier's list, and what has come of each.
    pub fn arrived(&self) -> impl Iterator<Item = (u32, Arrivals)> {
        self.arrivers.iter().copied().zip(self.cell.arrivals().iter().copied())
    }

    /// Why a generation will never be over, if it is known not to.
    fn poisoned(&self, generation: u64) -> Option<&Error> {
        self.poison.as_ref().filter(|(from, _)| generation >= *from).map(|(_, e)| e)
    }

    fn add_values(&mut self, generation: u64, values: Vec<(u32, u64)>) {
        let at = (generation - self.first_value) as usize;
        while self.values.len() <= at {
            self.values.push_back(Vec::new());
        }
        self.values[at].extend(values);
    }
}

impl Core {
    /// Arrives at a phase barrier as arriver number `arriver` of its list, a shard of this processor.
    pub fn arrive_phase(self: &Rc<Self>, object: ObjectId, arriver: u32, generation: u64, value: u64) {
        self.counters.arrivals.add(1);
        let contributor = {
            let mut objects = self.objects.borrow_mut();
            objects.phase(object).and_then(|l| l.arrivers.iter().position(|&a| a == arriver))
        };
        match contributor {
            Some(c) => self.combine(object, c as u32, generation, vec![(arriver, value)]),
            None => {
                let source = BarrierError::NotAnArriver { arriver, arrivers: 0 };
                self.poison_tree(object, generation, &Error::Barrier { barrier: self.name_of(object), source });
            }
        }
    }

    pub(super) fn combine(
        self: &Rc<Self>,
        object: ObjectId,
        contributor: u32,
        generation: u64,
        values: Vec<(u32, u64)>,
    ) {
        let Some(spec) = self.local(object) else {
            return;
        };
        let Object::Phase(spec) = &*spec.object else { return };
        let outcome = {
            let mut objects = self.objects.borrow_mut();
            let Some(local) = objects.phase(object) else {
                return;
            };
            if local.poisoned(generation).is_some() {
                // Whoever waits is told of the failure; what still comes after it completes nothing.
                return;
            }
            #[cfg(feature = "plant")]
            if local.parent.is_none()
                && local.arrivers.len() > 1
                && generation == local.released
                && self.config.strikes(crate::plant::Bug::EarlyRelease)
            {
                local.released += 1;
            }
            local
                .cell
                .arrive(contributor, generation)
                .map(|complete| {
                    if spec.fold.is_some() {
                        local.add_values(generation, values);
                    }
                    let first = local.cell.completed() - complete;
                    let passed: Vec<_> = (0..complete)
                        .map(|i| {
                            local.first_value = first + i + 1;
                            (first + i, local.values.pop_front().unwrap_or_default())
                        })
                        .collect();
                    (passed, local.parent)
                })
                // What is complete here may be over elsewhere, and stays so.
                .map_err(|source| (source, generation.max(local.cell.completed())))
        };
        match outcome {
            Ok((passed, parent)) => {
                for (generation, values) in passed {
                    match parent {
                        Some((to, contributor)) => {
                            self.send(to, Message::Combine { object, contributor, generation, values });
                        }
                        None => match self.fold(spec, values) {
                            Ok(value) => self.release(object, generation, value),
                            Err(e) => {
                                // No task has failed, so nobody else tells of it if nobody waits. Generations that the
                                // same arrival completed after this one are refused by the poison.
                                self.note_failure(&e);
                                return self.poison_tree(object, generation, &e);
                            }
                        },
                    }
                }
            }
            Err((mut source, from)) => {
                // Contributors are numbered by member, arrivers by the barrier's list.
                if let BarrierError::OverArrival { arriver, .. } | BarrierError::ArrivedTwice { arriver, .. } =
                    &mut source
                {
                    *arriver = spec.arriver_behind(self.id, contributor);
                }
                let error = Error::Barrier { barrier: self.name_of(object), source };
                self.note_failure(&error);
                self.poison_tree(object, from, &error);
            }
        }
    }

    pub(super) fn release(self: &Rc<Self>, object: ObjectId, generation: u64, value: u64) {
        let (children, due) = {
            let mut objects = self.objects.borrow_mut();
            let Some(local) = objects.phase(object) else {
                return;
            };
            if local.poisoned(generation).is_some() {
                return;
            }
            debug_assert_eq!(generation, local.released, "the root and the wire keep the order of generations");
            local.released = generation + 1;
            local.results.push_back((generation, value));
            if local.results.len() as u64 > local.kept {
                local.results.pop_front();
            }
            let (due, later) = std::mem::take(&mut local.waiters).into_iter().partition(|(g, _)| *g <= generation);
            let due: Vec<(u64, Waiting)> = due;
            local.waiters = later;
            (local.children.clone(), due)
        };
        for child in children {
            self.send(child, Message::Release { object, generation, value });
        }
        for (generation, waiting) in due {
            self.release_one(object, generation, waiting);
        }
    }

    /// Asks for a generation of a phase barrier.
    pub fn wait_phase(&self, object: ObjectId, generation: u64, waiting: Waiting) -> Waited {
        let mut objects = self.objects.borrow_mut();
        let Some(local) = objects.phase(object) else {
            return Waited::Poisoned(Box::new(Error::misuse(
                "waiting for a phase barrier",
                "a phase barrier",
                "another object",
            )));
        };
        if generation < local.released {
            return Waited::Complete;
        }
        if let Some(e) = local.poisoned(generation) {
            return Waited::Poisoned(Box::new(e.clone()));
        }
        local.waiters.push((generation, waiting));
        Waited::Registered
    }

    /// Puts `waiting` in the place of a waiter for `generation`, which it returns; gives `waiting` back if there is none.
    pub fn replace_at_phase(
        &self,
        object: ObjectId,
        generation: u64,
        earlier: Poller,
        waiting: Waiting,
    ) -> Result<Waiting, Waiting> {
        let mut objects = self.objects.borrow_mut();
        let waiters = objects.phase(object).map(|local| &mut local.waiters);
        let is_earlier = |(g, w): &&mut (u64, Waiting)| *g == generation && Poller::of(w) == Some(earlier);
        match waiters.and_then(|list| list.iter_mut().find(is_earlier)) {
            Some((_, w)) => Ok(std::mem::replace(w, waiting)),
            None => Err(waiting),
        }
    }

    /// Takes away a waiter for `generation`, if there is one.
    pub fn withdraw_from_phase(&self, object: ObjectId, generation: u64, waiter: Poller) -> Option<Waiting> {
        let mut objects = self.objects.borrow_mut();
        let waiters = &mut objects.phase(object)?.waiters;
        let at = waiters.iter().position(|(g, w)| *g == generation && Poller::of(w) == Some(waiter))?;
        Some(waiters.remove(at).1)
    }

    /// Where a generation stands, without waiting for it.
    pub fn phase_state(&self, object: ObjectId, generation: u64) -> Waited {
        let mut objects = self.objects.borrow_mut();
        match objects.phase(object) {
            Some(local) if generation < local.released => Waited::Complete,
            Some(local) => {
                local.poisoned(generation).map_or(Waited::Registered, |e| Waited::Poisoned(Box::new(e.clone())))
            }
            None => Waited::Registered,
        }
    }

    /// The reduction value of a generation that is over, or how many are over and the values of how many are kept.
    pub fn phase_value(&self, object: ObjectId, generation: u64) -> Result<u64, (u64, u64)> {
        let mut objects = self.objects.borrow_mut();
        let Some(local) = objects.phase(object) else { return Err((0, 0)) };
        let at = local.results.binary_search_by_key(&generation, |r| r.0);
        at.map(|i| local.results[i].1).map_err(|_| (local.released, local.kept))
    }

    /// Poisons a phase barrier on every processor it concerns.
    pub fn poison_tree(self: &Rc<Self>, object: ObjectId, generation: u64, error: &Error) {
        #[cfg(feature = "plant")]
        if self.config.has(crate::plant::Bug::MissingPoison) {
            return;
        }
        let Some(spec) = self.local(object) else {
            return;
        };
        let Object::Phase(spec) = &*spec.object else { return };
        // Here at once: arrivals and releases that follow must not get there before it.
        self.poison_phase(object, generation, error.clone());
        for &to in spec.tree.members().iter().filter(|&&to| to != self.id) {
            self.send(to, Message::Poison { object, cell: 0, generation, error: Box::new(error.clone()) });
        }
    }

    pub(super) fn poison_phase(self: &Rc<Self>, object: ObjectId, generation: u64, error: Error) {
        let due = {
            let mut objects = self.objects.borrow_mut();
            let Some(local) = objects.phase(object) else {
                return;
            };
            let from = generation.max(local.released);
            // What follows from the first error is not to hide it.
            if local.poison.as_ref().is_some_and(|(g, _)| *g <= from) {
                return;
            }
            local.poison = Some((from, error.clone()));
            let (due, keep) = std::mem::take(&mut local.waiters).into_iter().partition(|(g, _)| *g >= from);
            let due: Vec<(u64, Waiting)> = due;
            local.waiters = keep;
            due
        };
        for (_, waiting) in due {
            self.notify_poison(waiting, || error.clone());
        }
    }

    fn fold(&self, spec: &PhaseSpec, #[allow(unused_mut)] mut values: Vec<(u32, u64)>) -> Result<u64, Error> {
        #[cfg(feature = "plant")]
        if self.config.strikes(crate::plant::Bug::FoldOrder) {
            let last = values.iter().map(|v| v.0).max().unwrap_or(0);
            values.iter_mut().for_each(|v| v.0 = last - v.0);
        }
        fold(spec, values)
    }

    pub(super) fn name_of(&self, object: ObjectId) -> String {
        self.local(object).map_or_else(|| format!("object {object}"), |o| o.object.describe())
    }
}

/// Folds in the order of the arriver list, whatever the shape of the tree.
fn fold(spec: &PhaseSpec, mut values: Vec<(u32, u64)>) -> Result<u64, Error> {
    let Some(fold) = &spec.fold else { return Ok(0) };
    values.sort_unstable_by_key(|v| v.0);
    let folded = AssertUnwindSafe(|| values.into_iter().map(|v| v.1).reduce(|a, b| fold(a, b)).unwrap_or(0));
    catch_unwind(folded).map_err(|panic| {
        let place = Place { task: format!("fold of phase barrier `{}`", spec.name), shard: None };
        Error::Panicked { place, message: panic_message(panic) }
    })
}
