//! The replayed objects of a processor: the calls of its shards, arrivals, and running chains.

use super::chains::{Chains, ReplayObject};
use super::{Chained, Handle, MadeChains, Replay, ReplayCx};
use crate::Error;
use crate::diagnose::Event;
use crate::ids::{Ancestors, LaunchKey, ObjectId, top_launch};
use crate::object::GangTable;
use crate::table::Table;
use crate::task::{Owner, Tasks};
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The reason why a call was not made.
pub(crate) enum Refused {
    /// The object has another type than the caller expects, belongs to another gang or another run, or was destroyed.
    OtherKind,
    /// Calls of another launch's shard at the same position are under way.
    OtherLaunch,
}

/// The shard that makes a call.
pub(crate) struct Caller<'a> {
    pub gang: &'a Arc<GangTable>,
    pub shard: u32,
    /// Among the gang's shards on this processor.
    pub position: u32,
    pub launch: LaunchKey,
    /// The launch itself, the launch that its launcher is part of, and so on.
    pub within: &'a Ancestors,
    /// Counts the shard's calls and leaf tasks.
    pub owner: &'a Rc<Owner>,
}

/// The replayed objects that shards of one processor call, by number.
#[derive(Default)]
pub(crate) struct Replays {
    all: RefCell<Table<Box<Chains>>>,
    /// The chains of the next object, if the top-level task has made them to check them.
    prepared: RefCell<Option<MadeChains>>,
}

impl Replays {
    /// Keeps the chains that the next object gets on this processor, if its shards call it.
    pub fn prepare(&self, made: Option<MadeChains>) {
        *self.prepared.borrow_mut() = made;
    }

    /// Makes this processor's chains of an object, if its shards call the object.
    pub fn add(&self, tasks: &Tasks, object: ObjectId, replay: &ReplayObject) {
        let (effects, prepared) = (&tasks.effects, self.prepared.take());
        let shards = &replay.gang.members[effects.id.index()];
        if !shards.is_empty() {
            // The object's own code runs while nothing is borrowed.
            let made = prepared.unwrap_or_else(|| replay.spec.chains(shards, effects.config.laws));
            let chains = Box::new(Chains::new(replay, object, effects, made));
            tasks.barriers.add_chains(object, chains.state.clone());
            self.all.borrow_mut().insert(object, chains);
        }
    }

    /// Gives the memory of an object's chains back: their values may have destructors of the program.
    pub fn remove(&self, object: ObjectId) -> Option<Box<Chains>> {
        self.all.borrow_mut().remove(object)
    }

    /// Shows `f` the chains of an object, if there are some.
    #[inline]
    pub fn with<T>(&self, object: ObjectId, f: impl FnOnce(&Chains) -> T) -> Option<T> {
        Some(f(self.all.borrow().get(object)?))
    }

    /// A chain's shard and the number of its present call, for traces.
    #[cold]
    pub fn call_now(&self, object: ObjectId, chain: u32) -> Option<(u32, u64)> {
        self.with(object, |chains| chains.now(chain)).flatten()
    }

    /// Gives `f` the state of an object of type `R`, for a call of a shard, unless `admit` needs no call or refuses it.
    #[inline]
    pub fn call<R: Replay, T>(
        &self,
        tasks: &Tasks,
        Handle { id: object, run }: Handle,
        by: Caller<'_>,
        refuse: impl Fn(Refused) -> Box<Error>,
        admit: impl FnOnce(&mut R, u32) -> Result<Option<T>, Error>,
        f: impl FnOnce(&mut R, (u32, u64), &mut ReplayCx<'_>) -> T,
    ) -> Result<T, Box<Error>> {
        let all = self.all.borrow();
        let Some(chains) = all.get(object).filter(|chains| run.may_be(chains.run)) else {
            return Err(refuse(Refused::OtherKind));
        };
        chains.keep_mapped(&tasks.effects)?;
        let position = by.position;
        let (state, progress) = &mut *chains.state.borrow_mut();
        let any: &mut dyn Any = &mut **state;
        let Some(state) = any.downcast_mut::<R>() else { return Err(refuse(Refused::OtherKind)) };
        let Some(caller) = progress.callers.get_mut(position as usize) else {
            return Err(refuse(Refused::OtherKind));
        };
        if !caller.owner.as_ref().is_some_and(|o| Rc::ptr_eq(o, by.owner)) {
            // Whoever has called it before belongs to its gang, and came before it was destroyed.
            if !Arc::ptr_eq(&chains.gang, by.gang) {
                return Err(refuse(Refused::OtherKind));
            }
            if tasks.effects.objects.get(object).is_some_and(|known| !known.serves(top_launch(by.within))) {
                return Err(refuse(Refused::OtherKind));
            }
            if caller.under_way > 0 {
                return Err(refuse(Refused::OtherLaunch));
            }
            caller.owner = Some(by.owner.clone());
            state.new_launch(position);
        }
        if let Some(made) = admit(state, position)? {
            return Ok(made);
        }
        by.owner.one_more();
        caller.under_way += 1;
        let number = caller.calls;
        caller.calls += 1;
        tasks.effects.event(|| Event::Calls { shard: (by.launch, by.shard), object, call: number });
        let mut cx = ReplayCx { tasks, chains, progress };
        let made = tasks.effects.in_chains(|| f(state, (position, number), &mut cx));
        tasks.effects.event(|| Event::CallMade);
        Ok(made)
    }

    /// Fails every chain of a shard.
    pub fn fail(&self, tasks: &Tasks, object: ObjectId, position: u32, error: &Error) {
        self.each_chain(tasks, object, position, |state, chain, cx| state.fail(chain, error.clone(), cx));
    }

    /// Fails the calls that a shard has not made.
    pub fn give_up(&self, tasks: &Tasks, object: ObjectId, position: u32, error: &Error) {
        self.each_chain(tasks, object, position, |state, chain, cx| {
            let slots = cx.chains.slots;
            let made = cx.progress.made(position, chain % slots, slots);
            state.give_up(chain, (made, error), cx);
        });
    }

    fn each_chain(
        &self,
        tasks: &Tasks,
        object: ObjectId,
        position: u32,
        f: impl Fn(&mut dyn Chained, u32, &mut ReplayCx<'_>),
    ) {
        self.with(object, |chains| {
            let (state, progress) = &mut *chains.state.borrow_mut();
            let mut cx = ReplayCx { tasks, chains, progress };
            for chain in position * chains.slots..(position + 1) * chains.slots {
                tasks.effects.in_chains(|| f(&mut **state, chain, &mut cx));
            }
        });
    }

    /// Runs the ready subtasks of a chain.
    #[inline]
    pub fn run(&self, tasks: &Tasks, object: ObjectId, chain: u32) {
        self.act(tasks, object, |state, cx| state.run(chain, cx));
    }

    /// A value came for a cell before its chain's turn to read it.
    pub fn offer(&self, tasks: &Tasks, object: ObjectId, cell: u32) {
        self.act(tasks, object, |state, cx| state.offer(cell, cx));
    }

    #[inline]
    fn act(&self, tasks: &Tasks, object: ObjectId, f: impl FnOnce(&mut dyn Chained, &mut ReplayCx<'_>)) {
        let all = self.all.borrow();
        let Some(chains) = all.get(object) else { return };
        let (state, progress) = &mut *chains.state.borrow_mut();
        let mut cx = ReplayCx { tasks, chains, progress };
        tasks.effects.in_chains(|| f(&mut **state, &mut cx));
    }
}
