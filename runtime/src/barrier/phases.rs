//! Phase barriers: this processor's member of each combining tree.

use crate::barrier::cells::Waited;
use crate::effects::Waiting;
use crate::effects::polling::Poller;
use crate::error::panic_message;
use crate::ids::{ObjectId, ProcessorId};
use crate::message::Message;
use crate::object::{Object, PhaseSpec};
use crate::processor::Core;
use crate::{Error, Place};
use maniple_barriers::{Arrivals, BarrierCell, BarrierError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// How many generations' reduction values a member keeps for late waiters, at least and, with a very wide window, at
/// most (a megabyte).
const KEPT_VALUES: (u64, u64) = (64, 1 << 16);

/// Values, each with the position of its arriver in the barrier's list.
type Values = Vec<(u32, u64)>;

/// One member of a combining tree.
pub(crate) struct PhaseLocal {
    /// What comes from below: the arrivers of this processor, then the children that contribute. Each value with the position
    /// of its arriver in the barrier's list.
    gathered: BarrierCell<Waiting, (u32, u64), Error>,
    /// What comes from above: generations that are over, with their values. Whoever waits waits here.
    over: BarrierCell<Waiting, u64, Error>,
    /// Positions of this processor's arrivers in the barrier's list.
    arrivers: Vec<u32>,
    /// Whom this member reports to, and as which contributor.
    parent: Option<(ProcessorId, u32)>,
    children: Vec<ProcessorId>,
    /// For how many generations values are kept: whoever arrives may be a window ahead of its own waits.
    kept: u64,
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
            gathered: BarrierCell::of_several(contributors as u32, spec.window),
            over: BarrierCell::of_one(0),
            arrivers,
            parent,
            children: spec.tree.children(processor).to_vec(),
            kept: if spec.fold.is_some() { spec.window.saturating_add(1).clamp(least, most) } else { least },
        }
    }

    /// Generations over so far.
    pub fn released(&self) -> u64 {
        self.over.completed()
    }

    /// This processor's arrivers, by position in the barrier's list, and what has come of each.
    pub fn arrived(&self) -> impl Iterator<Item = (u32, Arrivals)> {
        self.arrivers.iter().copied().zip(self.gathered.arrivals().iter().copied())
    }

    /// Who waits, and for which generation.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, &Waiting)> {
        self.over.waiting()
    }

    /// Takes in the arrival of a contributor; the generations that are to be passed on, with their values.
    fn gather(
        &mut self,
        contributor: u32,
        generation: u64,
        values: Values,
    ) -> Result<Vec<(u64, Values)>, BarrierError> {
        let completed = self.gathered.arrive(contributor, generation, values)?.completed;
        let now = self.gathered.completed();
        Ok((now - completed..now).map(|g| (g, self.gathered.take_carried(g))).collect())
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

    pub(crate) fn combine(
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
        #[cfg(feature = "plant")]
        self.plant_early_release(object, generation);
        let outcome = {
            let mut objects = self.objects.borrow_mut();
            let Some(local) = objects.phase(object) else {
                return;
            };
            if local.over.poison(generation).is_some() {
                // Whoever waits is told of the failure; what still comes after it completes nothing.
                return;
            }
            let values = if spec.fold.is_some() { values } else { Vec::new() };
            let gathered = local.gather(contributor, generation, values);
            // What is complete here may be over elsewhere, and stays so.
            let from = generation.max(local.gathered.completed());
            gathered.map(|passed| (passed, local.parent)).map_err(|source| (source, from))
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

    #[cfg(feature = "plant")]
    fn plant_early_release(self: &Rc<Self>, object: ObjectId, generation: u64) {
        let is_next = |local: &mut PhaseLocal| {
            local.parent.is_none() && local.arrivers.len() > 1 && generation == local.released()
        };
        let next = self.objects.borrow_mut().phase(object).is_some_and(is_next);
        if next && self.config.strikes(crate::plant::Bug::EarlyRelease) {
            self.release(object, generation, 0);
        }
    }

    pub(crate) fn release(self: &Rc<Self>, object: ObjectId, generation: u64, value: u64) {
        let (children, first, others) = {
            let mut objects = self.objects.borrow_mut();
            let Some(local) = objects.phase(object) else {
                return;
            };
            let arrived = match local.over.arrive(0, generation, [value]) {
                Ok(arrived) => arrived,
                Err(source) => {
                    drop(objects);
                    return self.note_failure(&Error::Barrier { barrier: self.name_of(object), source });
                }
            };
            // The root and the wire keep the order of generations: one that completes none is poisoned.
            if arrived.completed == 0 {
                return;
            }
            local.over.forget_before(local.released().saturating_sub(local.kept));
            let others = if arrived.others { local.over.release_others() } else { Vec::new() };
            (local.children.clone(), arrived.first, others)
        };
        for child in children {
            self.send(child, Message::Release { object, generation, value });
        }
        for waiting in first.into_iter().chain(others) {
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
        local.over.wait(generation, waiting).map(|e| Box::new(e.clone()))
    }

    /// Puts `waiting` in the place of a waiter for `generation`, which it returns; gives `waiting` back if there is none.
    pub fn replace_at_phase(
        &self,
        object: ObjectId,
        generation: u64,
        earlier: Poller,
        waiting: Waiting,
    ) -> Result<Waiting, Waiting> {
        match self.objects.borrow_mut().phase(object) {
            Some(local) => local.over.replace(generation, |w| Poller::of(w) == Some(earlier), waiting),
            None => Err(waiting),
        }
    }

    /// Takes away a waiter for `generation`, if there is one.
    pub fn withdraw_from_phase(&self, object: ObjectId, generation: u64, waiter: Poller) -> Option<Waiting> {
        let mut objects = self.objects.borrow_mut();
        objects.phase(object)?.over.withdraw(generation, |w| Poller::of(w) == Some(waiter))
    }

    /// Where a generation stands, without waiting for it.
    pub fn phase_state(&self, object: ObjectId, generation: u64) -> Waited {
        let mut objects = self.objects.borrow_mut();
        let local = objects.phase(object);
        local.map_or(Waited::Registered, |local| local.over.state(generation).map(|e| Box::new(e.clone())))
    }

    /// The reduction value of a generation that is over, or how many are over and the values of how many are kept.
    pub fn phase_value(&self, object: ObjectId, generation: u64) -> Result<u64, (u64, u64)> {
        let mut objects = self.objects.borrow_mut();
        let Some(local) = objects.phase(object) else { return Err((0, 0)) };
        local.over.carried(generation).first().copied().ok_or((local.released(), local.kept))
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

    pub(crate) fn poison_phase(self: &Rc<Self>, object: ObjectId, generation: u64, error: Error) {
        let due = {
            let mut objects = self.objects.borrow_mut();
            let Some(local) = objects.phase(object) else {
                return;
            };
            local.over.set_poison(generation, error.clone())
        };
        for waiting in due {
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

    pub(crate) fn name_of(&self, object: ObjectId) -> String {
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
