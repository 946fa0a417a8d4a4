//! Phase barriers: this processor's member of each combining tree.

use crate::barrier::{Waited, owned};
use crate::effects::{Effects, Tell, Waiting};
use crate::error::panic_message;
use crate::ids::{CellAddress, ObjectId, ProcessorId};
use crate::message::Message;
use crate::object::PhaseSpec;
use crate::plant::Bug;
use crate::table::Table;
use crate::{Error, Place};
use maniple_barriers::{Arrivals, BarrierCell, BarrierError, Waits};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A member keeps the reduction values of this many generations for late waiters: at least the first number, at most the
/// second. The maximum is a megabyte and matters only for a very wide window.
const KEPT_VALUES: (u64, u64) = (64, 1 << 16);

/// Values, each with the position of its arriver in the barrier's list.
pub(crate) type Values = Vec<(u32, u64)>;

/// One member of a combining tree.
pub(crate) struct PhaseMember {
    /// Arrivals from below: this processor's arrivers, then the children that contribute. Each brings values with the
    /// positions of their arrivers in the barrier's list.
    gathered: BarrierCell<Waiting, (u32, u64), Error>,
    /// Releases from above: generations that have ended, with their values. Waiters are registered here.
    over: BarrierCell<Waiting, u64, Error>,
    /// Positions of this processor's arrivers in the barrier's list, in ascending order.
    arrivers: Vec<u32>,
    /// The processor this member reports to, and this member's number among its contributors.
    parent: Option<(ProcessorId, u32)>,
    children: Vec<ProcessorId>,
    /// For how many generations values are kept. An arriver may be a whole window ahead of its own waits.
    kept: u64,
}

impl PhaseMember {
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
            gathered: BarrierCell::new(contributors as u32, spec.window),
            over: BarrierCell::new(1, Arrivals::WINDOW),
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

    /// This processor's arrivers, by position in the barrier's list, with the arrivals of each.
    pub fn arrived(&self) -> impl Iterator<Item = (u32, Arrivals)> {
        self.arrivers.iter().copied().zip(self.gathered.arrivals().iter().copied())
    }

    /// The waiters, each with its generation.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, &Waiting)> {
        self.over.waits().iter()
    }

    /// Handles the arrival of a contributor. Returns the generations that are now passed on, with their values.
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

/// This processor's members, by object.
#[derive(Default)]
pub(crate) struct Phases(RefCell<Table<Box<PhaseMember>>>);

impl Phases {
    pub fn add(&self, object: ObjectId, member: PhaseMember) {
        self.0.borrow_mut().insert(object, Box::new(member));
    }

    pub fn remove(&self, object: ObjectId) -> Option<Box<PhaseMember>> {
        self.0.borrow_mut().remove(object)
    }

    pub fn has(&self, object: ObjectId) -> bool {
        self.0.borrow().get(object).is_some()
    }

    /// Shows `f` a member, if the object has one here.
    pub fn with<T>(&self, object: ObjectId, f: impl FnOnce(&mut PhaseMember) -> T) -> Option<T> {
        self.0.borrow_mut().get_mut(object).map(|member| f(member))
    }

    /// Arrives as arriver number `arriver` of the barrier's list, a shard of this processor.
    #[inline(never)]
    pub fn arrive(
        &self,
        effects: &Effects,
        (object, arriver): (ObjectId, u32),
        generation: u64,
        value: u64,
        tell: &mut impl Tell,
    ) {
        effects.counters.arrivals.add(1);
        let contributor = self.with(object, |m| m.arrivers.binary_search(&arriver).ok()).flatten();
        match contributor {
            Some(c) => self.combine(effects, (object, c as u32), generation, vec![(arriver, value)], tell),
            None => {
                let source = BarrierError::NotAnArriver { arriver, arrivers: 0 };
                let error = Error::Barrier { barrier: effects.objects.name(object), source };
                self.poison_everywhere(effects, object, generation, &error, tell);
            }
        }
    }

    /// Handles the arrival of a contributor: an arriver of this processor, or a child in the tree.
    pub fn combine(
        &self,
        effects: &Effects,
        (object, contributor): (ObjectId, u32),
        generation: u64,
        values: Values,
        tell: &mut impl Tell,
    ) {
        let Some(known) = effects.objects.get(object) else { return };
        let Some(spec) = known.object.phase() else { return };
        if effects.has(Bug::EarlyRelease) {
            self.release_early(effects, object, generation, tell);
        }
        let outcome = self.with(object, |member| {
            if member.over.poison(generation).is_some() {
                // The waiters learn of the failure. Later arrivals complete nothing.
                return None;
            }
            let values = if spec.fold.is_some() { values } else { Vec::new() };
            let gathered = member.gather(contributor, generation, values);
            // A generation that is complete here may already be over elsewhere. It stays complete.
            let from = generation.max(member.gathered.completed());
            Some(gathered.map(|passed| (passed, member.parent)).map_err(|source| (source, from)))
        });
        match outcome.flatten() {
            None => {}
            Some(Ok((passed, parent))) => {
                for (generation, values) in passed {
                    match parent {
                        Some((to, contributor)) => {
                            effects.send(to, Message::Combine { object, contributor, generation, values });
                        }
                        None => match folded(effects, spec, values) {
                            Ok(value) => self.release(effects, object, generation, value, tell),
                            Err(e) => {
                                // No task has failed, so nothing else reports the error if nobody waits. The poison
                                // refuses any further generations that the same arrival completed.
                                effects.note_failure(&e);
                                return self.poison_everywhere(effects, object, generation, &e, tell);
                            }
                        },
                    }
                }
            }
            Some(Err((mut source, from))) => {
                // Contributors are numbered by member, arrivers by the barrier's list.
                if let BarrierError::OverArrival { arriver, .. } | BarrierError::ArrivedTwice { arriver, .. } =
                    &mut source
                {
                    *arriver = spec.arriver_behind(effects.id, contributor);
                }
                let error = Error::Barrier { barrier: effects.objects.name(object), source };
                effects.note_failure(&error);
                self.poison_everywhere(effects, object, from, &error, tell);
            }
        }
    }

    fn release_early(&self, effects: &Effects, object: ObjectId, generation: u64, tell: &mut impl Tell) {
        let is_next = |member: &mut PhaseMember| {
            member.parent.is_none() && member.arrivers.len() > 1 && generation == member.released()
        };
        if self.with(object, is_next).unwrap_or(false) && effects.strikes(Bug::EarlyRelease) {
            self.release(effects, object, generation, 0, tell);
        }
    }

    /// A generation has ended: tells the waiters here and the children.
    pub fn release(&self, effects: &Effects, object: ObjectId, generation: u64, value: u64, tell: &mut impl Tell) {
        let released = self.with(object, |member| {
            let arrived = member.over.arrive(0, generation, [value])?;
            // The root and the wire keep generations in order. So a release that completes no generation was refused by
            // poison.
            if arrived.completed == 0 {
                return Ok(None);
            }
            member.over.forget_before(member.released().saturating_sub(member.kept));
            let others = if arrived.others { member.over.release_others() } else { Vec::new() };
            Ok(Some((member.children.clone(), arrived.first, others)))
        });
        let (children, first, others) = match released {
            Some(Ok(Some(released))) => released,
            Some(Err(source)) => {
                return effects.note_failure(&Error::Barrier { barrier: effects.objects.name(object), source });
            }
            Some(Ok(None)) | None => return,
        };
        for child in children {
            effects.send(child, Message::Release { object, generation, value });
        }
        for waiting in first.into_iter().chain(others) {
            effects.releases(object, generation, &waiting);
            tell(waiting, None);
        }
    }

    /// Waits for a generation.
    pub fn wait(&self, object: ObjectId, generation: u64, waiting: Waiting) -> Waited {
        self.with(object, |member| owned(member.over.wait(generation, waiting))).unwrap_or_else(|| {
            let error = Error::misuse("waiting for a phase barrier", "a phase barrier", "another object");
            Waited::Poisoned(Box::new(error))
        })
    }

    /// The state of a generation. Does not register a wait.
    pub fn state(&self, object: ObjectId, generation: u64) -> Waited {
        self.with(object, |member| owned(member.over.state(generation))).unwrap_or(Waited::Registered)
    }

    /// Shows `f` the waiters, if there is a member here.
    pub fn with_waits<T>(&self, object: ObjectId, f: impl FnOnce(&mut Waits<Waiting>) -> T) -> Option<T> {
        self.with(object, |member| f(member.over.waits_mut()))
    }

    /// The reduction value of a generation that has ended. The error has the number of ended generations and the number of
    /// values kept.
    pub fn value(&self, object: ObjectId, generation: u64) -> Result<u64, (u64, u64)> {
        let value = |member: &mut PhaseMember| {
            member.over.carried(generation).first().copied().ok_or((member.released(), member.kept))
        };
        self.with(object, value).unwrap_or(Err((0, 0)))
    }

    /// Poisons a barrier on every processor that has a member of it.
    pub fn poison_everywhere(
        &self,
        effects: &Effects,
        object: ObjectId,
        generation: u64,
        error: &Error,
        tell: &mut impl Tell,
    ) {
        if effects.has(Bug::MissingPoison) {
            return;
        }
        let Some(known) = effects.objects.get(object) else { return };
        let Some(spec) = known.object.phase() else { return };
        // Here at once: later arrivals and releases must not overtake the poison.
        self.poison(object, generation, error, tell);
        for &processor in spec.tree.members().iter().filter(|&&to| to != effects.id) {
            effects.send_poison(CellAddress { processor, object, cell: 0 }, generation, error);
        }
    }

    /// Poisons this processor's member.
    pub fn poison(&self, object: ObjectId, generation: u64, error: &Error, tell: &mut impl Tell) {
        let due = self.with(object, |member| member.over.set_poison(generation, error.clone()));
        due.into_iter().flatten().for_each(|waiting| tell(waiting, Some(error)));
    }
}

fn folded(effects: &Effects, spec: &PhaseSpec, mut values: Values) -> Result<u64, Error> {
    if effects.strikes(Bug::FoldOrder) {
        let last = values.iter().map(|v| v.0).max().unwrap_or(0);
        values.iter_mut().for_each(|v| v.0 = last - v.0);
    }
    fold(spec, values)
}

/// Folds in the order of the arriver list, whatever the shape of the tree.
fn fold(spec: &PhaseSpec, mut values: Vec<(u32, u64)>) -> Result<u64, Error> {
    let Some(fold) = &spec.fold else { return Ok(0) };
    values.sort_unstable_by_key(|v| v.0);
    let folded = AssertUnwindSafe(|| match values[..] {
        [(_, one)] => fold(one, None),
        _ => values.into_iter().map(|v| v.1).reduce(|a, b| fold(a, Some(b))).unwrap_or(0),
    });
    catch_unwind(folded).map_err(|panic| {
        let place = Place { task: format!("fold of phase barrier `{}`", spec.name), shard: None };
        Error::Panicked { place, message: panic_message(panic) }
    })
}
