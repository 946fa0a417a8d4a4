//! The run of a leaf task: its leases, the call, and tasks that run for or on other processors.

use super::Tasks;
use crate::data::{Staged, Store, UseAt};
use crate::diagnose::Event;
use crate::diagnose::races::Races;
use crate::effects::Asker;
use crate::error::panic_message;
use crate::ids::{ProcessorId, TaskId};
use crate::message::{Away, Message, Offloaded, SendTask, Work};
use crate::object::Object;
use crate::payload::Payload;
use crate::task::slab::Stage;
use crate::task::{Body, Called, Holding, LeafTask, task_place};
use crate::{Error, Place};
use maniple_mapper::ProfileInput;
use maniple_regions::{Coherence, Lease, Privilege, RegionError, Use};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Tasks {
    /// Runs a queued task here, or sends it to the processor that the mapper chose.
    pub fn run_leaf(&self, id: TaskId) {
        let mut leaves = self.leaves.borrow_mut();
        let Some(leaf) = leaves.get(id).filter(|leaf| leaf.stage == Stage::Ready) else { return };
        if leaf.poison.is_some() || leaf.poison_of_data().is_some() {
            drop(leaves);
            return self.refuse_leaf(id);
        }
        let processor = leaf.processor;
        let Some(mut body) = leaf.body.take() else { return };
        drop(leaves);
        if let Some(races) = self.effects.races()
            && let Err(error) = self.checked_for_races(races, id, &body)
        {
            return self.refuse_racing(id, body, &error);
        }
        let held = &mut *self.held.borrow_mut();
        let Holding { leases, values } = held;
        let values_taken = self.take_values(&body, values);
        let held_all = values_taken.and_then(|()| {
            let leased = self.lease_all(&mut body.uses, processor, leases);
            leased.map_err(|source| Box::new(Error::region(body.place(), source)))
        });
        let outcome = match (held_all, &body.task) {
            (Ok(()), Some(task)) if processor == self.effects.id => {
                let began = body.launched.get().map(|_| self.effects.wire.now());
                self.announce(&Called(&body, values, &self.effects.objects), body.shard, Some(id));
                let outcome = self.call(|| body.place(), || task.run(leases, values));
                if let (Some(began), Ok(())) = (began, &outcome) {
                    self.profile(&body, processor, (began, self.effects.wire.now()));
                }
                outcome
            }
            (Ok(()), Some(task)) => match self.detach(id, &body, &**task) {
                Ok(detached) => return self.offload_leaf(id, body, std::mem::take(held), detached, processor),
                Err(error) => Err(Box::new(error)),
            },
            (Err(error), _) => Err(error),
            (Ok(()), None) => unreachable!("a task that is launched is there"),
        };
        self.end_leaf(id, body, held, outcome);
    }

    /// Takes the values of a task's edges, and memory for the values that it puts.
    #[inline]
    fn take_values(&self, body: &Body, values: &mut Vec<Payload>) -> Result<(), Box<Error>> {
        body.values_at.iter().try_for_each(|at| self.barriers.add_value(&self.effects, *at, values))
    }

    /// Fails if the task races with an earlier one.
    #[cold]
    fn checked_for_races(&self, races: &Races, id: TaskId, body: &Body) -> Result<(), Error> {
        let shared = body.uses.iter().filter(|u| u.coherence == Coherence::Simultaneous);
        let shared: Vec<Use> = shared.map(UseAt::as_use).collect();
        let objects = &self.effects.objects;
        races.leaf_begins((self.effects.id, id), body.name, &shared, |tree, field| {
            let region = objects.with(tree.0, |object| object.map_or_else(|| tree.to_string(), Object::describe));
            (region, objects.field(tree, field).map_or_else(|_| field.to_string(), |f| f.name.into()))
        })
    }

    /// Ends a task that was poisoned before it ran.
    #[cold]
    fn refuse_leaf(&self, id: TaskId) {
        self.effects.event(|| Event::TaskDispatched { task: id });
        let poison = self.leaves.borrow_mut().get(id).and_then(|leaf| {
            let own = leaf.poison.take().map(|e| *e);
            own.or_else(|| leaf.poison_of_data())
        });
        if let Some(error) = poison {
            self.fail_leaf(id, &self.poisons(id, &error));
        }
    }

    /// Ends a task that races with an earlier one. The whole run fails, even if the program ignores the error.
    #[cold]
    fn refuse_racing(&self, id: TaskId, body: Box<Body>, error: &Error) {
        self.effects.note_failure(error);
        self.leaves.borrow_mut().put_back(id, body);
        self.fail_leaf(id, error);
    }

    #[cold]
    fn detach(&self, id: TaskId, body: &Body, task: &dyn LeafTask) -> Result<Box<dyn SendTask>, Error> {
        let twice = self.doubles(id);
        catch_unwind(AssertUnwindSafe(|| task.detach(twice)))
            .unwrap_or_else(|panic| Err(Error::Panicked { place: body.place(), message: panic_message(panic) }))
    }

    #[cold]
    fn offload_leaf(&self, id: TaskId, body: Box<Body>, held: Holding, task: Box<dyn SendTask>, to: ProcessorId) {
        let Holding { leases, values } = held;
        // Replaced by the times of the call on the other processor.
        let is_measured = body.launched.get().is_some() || self.pool.get().is_some();
        let ran = is_measured.then_some((0, 0));
        let work =
            Away { name: body.name, takes: body.takes, bytes: Called(&body, &values, &self.effects.objects).bytes() };
        let leaf = Offloaded { home: id, work, shard: body.shard, task, leases, values, outcome: Ok(()), ran };
        self.leaves.borrow_mut().put_back(id, body);
        self.effects.event(|| Event::TaskDispatched { task: id });
        self.effects.send(to, Message::Leaf(Box::new(leaf)));
    }

    /// A task is about to be called.
    #[inline]
    fn announce(&self, work: &dyn Work, shard: u32, id: Option<TaskId>) {
        self.effects.event(|| Event::TaskCalled { name: work.name(), shard, task: id });
        self.effects.wire.works(work);
    }

    #[inline]
    fn call(&self, place: impl Fn() -> Place, run: impl FnOnce() -> Result<(), Box<Error>>) -> Result<(), Box<Error>> {
        let ran = catch_unwind(AssertUnwindSafe(run));
        // Counted afterwards, because in virtual time this count takes the task's time.
        self.effects.counters.leaf_tasks.add(1);
        match ran {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.of_task(place)),
            Err(panic) => Err(Box::new(Error::Panicked { place: place(), message: panic_message(panic) })),
        }
    }

    /// Tells the mapper how a task went that ran on `processor` between two times.
    #[cold]
    fn profile(&self, body: &Body, processor: ProcessorId, (began, ended): (u64, u64)) {
        let launched = body.launched.take().unwrap_or(began);
        let (waited_ns, ran_ns) = (began.saturating_sub(launched), ended.saturating_sub(began));
        let input = ProfileInput { task: body.name.of_type, shard: body.shard, processor, waited_ns, ran_ns };
        let profiled =
            self.effects.ask(Asker::Processor, ("profile", &body.place()), |m| m.profile(&input), |_, ()| Ok(()));
        // Nobody awaits the `profile` call, so its error is one of the run.
        if let Err(e) = profiled {
            self.effects.note_failure(&e);
        }
    }

    /// Runs a task of another processor of the node.
    pub fn run_for_other(&self, from: ProcessorId, mut leaf: Box<Offloaded>) {
        let began = leaf.ran.map(|_| self.effects.wire.now());
        let (work, shard) = (leaf.work, leaf.shard);
        self.announce(&work, shard, None);
        let place = || task_place(work.name, shard);
        leaf.outcome = self.call(place, || leaf.task.run(&mut leaf.leases, &mut leaf.values));
        leaf.ran = began.map(|began| (began, self.effects.wire.now()));
        self.effects.send(from, Message::LeafDone(leaf));
    }

    /// Takes back a task that ran on another processor.
    pub fn take_back(&self, from: ProcessorId, leaf: Offloaded) {
        let Offloaded { home, work, shard, task: mut ran, leases, values, outcome, ran: when } = leaf;
        let body = self.leaves.borrow_mut().take_body(home);
        if let Some(body) = body {
            if let Some(task) = &body.task {
                task.take_back(&mut *ran);
            }
            if let (Some(when), Ok(())) = (when, &outcome) {
                self.pool.get().into_iter().for_each(|pool| pool.took(when.1.saturating_sub(when.0)));
                if body.launched.get().is_some() {
                    self.profile(&body, from, when);
                }
            }
            self.end_leaf(home, body, &mut Holding { leases, values }, outcome);
        }
        self.effects.drop_guarded(|| task_place(work.name, shard), ran);
    }

    /// Leases every use, up to the first that fails.
    #[inline]
    fn lease_all(&self, uses: &mut [UseAt], runs: ProcessorId, leases: &mut Vec<Lease>) -> Result<(), RegionError> {
        for u in uses {
            leases.push(self.lease(u, runs)?);
        }
        Ok(())
    }

    #[inline]
    fn lease(&self, u: &mut UseAt, runs: ProcessorId) -> Result<Lease, RegionError> {
        let column = &u.column;
        if let Some(staged) = &u.staged {
            return staged.copy.lease(column.rect(), u.privilege);
        }
        match &mut *column.store.borrow_mut() {
            Store::Owned(instance) => instance.lease(column.rect(), u.privilege, u.coherence),
            Store::Shared { home, instance: Some(instance), idle } => {
                if let Some(kind) = u.access
                    && *home != runs
                    && u.privilege == Privilege::Read
                {
                    let memory = self.effects.machine().memory(runs, kind);
                    let copy = instance.copy(column.rect(), memory)?;
                    self.effects.counters.region_copies.add(1);
                    self.effects.counters.region_copy_bytes.add((column.rect().volume() * column.field.size) as u64);
                    let lease = copy.lease(column.rect(), u.privilege);
                    u.staged = Some(Box::new(Staged { copy, before: None }));
                    return lease;
                }
                match idle.take().filter(|lease| lease.privilege() == u.privilege) {
                    Some(lease) => Ok(lease),
                    None => instance.lease(column.rect(), u.privilege),
                }
            }
            Store::Shared { instance: None, .. } => unreachable!("staged before it runs"),
        }
    }
}
