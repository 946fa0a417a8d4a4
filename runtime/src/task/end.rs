//! The end of a task: what is given back, and who is told.

use super::Tasks;
use crate::data::{Column, Request, Served, Staged};
use crate::diagnose::Event;
use crate::future::Poison;
use crate::ids::{ArrivalAt, CellAddress, ColumnKey, LaunchKey, ObjectId, ProcessorId, TaskId, ValueAt};
use crate::names::TaskName;
use crate::payload::Payload;
use crate::plant::Bug;
use crate::task::slab::{Entry, Next, Stage};
use crate::task::{Body, Holding, Owner, task_place};
use crate::{Error, Place};
use maniple_regions::{Coherence, Privilege};
use std::rc::Rc;

impl Tasks {
    /// Called after the function returned, or when it could not be called. Gives the leases back, writes remote data
    /// back, and completes the task.
    pub(super) fn end_leaf(
        &self,
        id: TaskId,
        mut body: Box<Body>,
        held: &mut Holding,
        outcome: Result<(), Box<Error>>,
    ) {
        let mut staged = false;
        while let Some(lease) = held.leases.pop() {
            let u = &body.uses[held.leases.len()];
            match u.staged {
                None => u.column.give_back(lease),
                Some(_) => staged = true,
            }
        }
        if outcome.is_ok() && !staged {
            return self.finish_leaf(id, body, &mut held.values);
        }
        body.values.append(&mut held.values);
        self.leaves.borrow_mut().put_back(id, body);
        match outcome {
            Ok(()) => self.write_all_back(id),
            Err(error) => self.fail_leaf(id, &error),
        }
    }

    /// The task's result is known, but its values must reach their home before anybody learns of it. So the task waits
    /// for the answers.
    #[cold]
    fn write_all_back(&self, id: TaskId) {
        let (written, mut arrivals): (Vec<(Rc<Column>, Box<Staged>)>, _) = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { return };
            let Some(body) = &mut leaf.body else { return };
            let staged = body.uses.iter_mut().filter(|u| u.privilege != Privilege::Read);
            let written: Vec<_> =
                staged.filter_map(|u| u.staged.take().map(|staged| (u.column.clone(), staged))).collect();
            leaf.stage = Stage::Finishing;
            leaf.unmet = written.len() as u32 + 1;
            // An arrival says that all changes are at home. Only the arrival of a single home can know it.
            let arrivals = if written.len() == 1 { std::mem::take(&mut body.arrivals) } else { Vec::new() };
            (written, arrivals)
        };
        for (column, staged) in written {
            match self.data.write_back(&self.effects, id, &column, &staged, &mut arrivals) {
                Ok(true) => {}
                Ok(false) => self.leaf_has_one_less(id),
                Err(error) => self.poison_leaf(id, error),
            }
        }
        if let Some(body) = self.leaves.borrow_mut().get(id).and_then(|leaf| leaf.body.as_mut()) {
            body.arrivals.append(&mut arrivals);
        }
        self.leaf_has_one_less(id);
    }

    /// Answers another processor's request for a region that is at home here. The launch has started.
    pub fn serve(&self, from: ProcessorId, (launch, key): (LaunchKey, ColumnKey), request: Request) {
        let Served { arrivals, outcome } = self.data.serve(&self.effects, from, (launch, key), request);
        match &outcome {
            Ok(()) => arrivals.iter().for_each(|at| self.arrive(at)),
            Err(error) => self.poison_arrivals(&arrivals, error),
        }
    }

    /// Completes a task that has succeeded.
    #[inline]
    fn finish_leaf(&self, id: TaskId, mut body: Box<Body>, values: &mut Vec<Payload>) {
        while let Some(u) = body.uses.pop() {
            if self.effects.strikes(Bug::LeakedInstance) {
                u.column.leak_instance();
            }
            if u.privilege == Privilege::WriteDiscard
                && let Some(poisons) = body.owner.as_ref().and_then(|owner| owner.some_poison())
            {
                poisons.rewritten(&u.column.key(), u.column.rect());
            }
        }
        self.effects.event(|| Event::TaskEnded { task: id, arrivals: &body.arrivals });
        if !values.is_empty() {
            self.shorten_values(&body, values);
        }
        for arrival in &body.arrivals {
            self.leaf_arrives(arrival, values);
        }
        body.arrivals.clear();
        if !values.is_empty() {
            self.give_values_back(&mut body, values);
        }
        if let Some(task) = &body.task {
            if Rc::strong_count(task) > 1 {
                task.succeed(self);
            }
            // Nobody holds the future any more, or another holder will drop the result.
            if Rc::strong_count(task) == 1 {
                self.effects.guarded(|| body.place(), || task.clear());
            } else if !task.may_stay() {
                body.task = None;
            }
        }
        let owner = body.owner.take();
        let mut leaves = self.leaves.borrow_mut();
        let successors = leaves.slab[id.index as usize].successors.len();
        for at in 0..successors {
            let next = leaves.slab[id.index as usize].successors[at];
            match leaves.one_less(next) {
                Next::Nothing => {}
                Next::Queue(priority, to) => self.queue_leaf(next, priority, to),
                other => {
                    drop(leaves);
                    self.go_on(next, other);
                    leaves = self.leaves.borrow_mut();
                }
            }
        }
        leaves.free(id, body);
        drop(leaves);
        if let Some(owner) = owner {
            owner.one_over(|waiting| self.notify(waiting));
        }
    }

    /// Short values that the task has filled travel within their arrivals.
    #[inline(never)]
    fn shorten_values(&self, body: &Body, values: &mut [Payload]) {
        for (value, at) in values.iter_mut().zip(&body.values_at) {
            if let ValueAt::Fill { inline: true, .. } = at
                && value.bytes().len() <= Payload::INLINE
            {
                let short = Payload::copy_of(value.bytes());
                if let Payload::Lent(vec) = std::mem::replace(value, short) {
                    self.barriers.keep_buffer(at, vec);
                }
            }
        }
    }

    /// The task has ended, so it no longer uses its input values. The values that it put are kept until their readers
    /// drop them.
    #[inline(never)]
    fn give_values_back(&self, body: &mut Body, values: &mut Vec<Payload>) {
        for (value, at) in values.iter_mut().zip(&body.values_at) {
            if matches!((&*value, at), (Payload::Lent(_), ValueAt::Put { .. } | ValueAt::Fill { .. }))
                && let Payload::Lent(buffer) = std::mem::take(value)
            {
                self.barriers.keep_buffer(at, buffer);
            }
        }
        values.clear();
        body.values_at.clear();
    }

    /// Ends a task with an error: poisons its future, its regions and its arrivals.
    #[cold]
    pub(super) fn fail_leaf(&self, id: TaskId, error: &Error) {
        let mut leaves = self.leaves.borrow_mut();
        let Some(leaf) = leaves.get(id) else { return };
        let Some(mut body) = leaf.body.take() else { return };
        let owner = body.owner.take();
        let failure = self.effects.failed(error.clone(), || body.place());
        let error = failure.poison();
        for u in body.uses.drain(..) {
            // Under simultaneous coherence, tasks that were launched earlier may still have to run. Later tasks learn
            // of the failure from the barriers or futures that order them.
            let ordered = u.coherence != Coherence::Simultaneous;
            if u.privilege != Privilege::Read
                && ordered
                && !self.effects.has(Bug::MissingPoison)
                && let Some(owner) = &owner
            {
                owner.poisons().add(u.column.key(), u.column.rect(), error);
            }
        }
        body.launched.set(None);
        body.values.clear();
        body.values_at.clear();
        let (task, name, shard) = (body.task.take(), body.name, body.shard);
        let (arrivals, successors) = (std::mem::take(&mut body.arrivals), std::mem::take(&mut leaf.successors));
        leaves.free(id, body);
        drop(leaves);
        self.effects.event(|| Event::TaskFailed { task: id, arrivals: &arrivals });
        self.poison_arrivals(&arrivals, error);
        if let Some(task) = task.clone() {
            let Some(owner) = &owner else { unreachable!("a task that is launched has an owner") };
            task.fail(self, Poison::new(failure.clone(), owner.failures()));
        }
        for next in successors {
            self.leaf_has_one_less(next);
        }
        if let Some(task) = task {
            self.effects.guarded(|| task_place(name, shard), || task.discard());
            self.effects.drop_guarded(|| task_place(name, shard), task);
        }
        if let Some(owner) = owner {
            owner.one_over(|waiting| self.notify(waiting));
        }
    }

    /// Drops every task that is still there.
    pub fn drop_leaves(&self) {
        let leaves = std::mem::take(&mut *self.leaves.borrow_mut());
        for leaf in leaves.slab {
            let (name, shard) =
                leaf.body.as_ref().map_or((TaskName::new(""), u32::MAX), |body| (body.name, body.shard));
            self.effects.drop_guarded(|| task_place(name, shard), leaf);
        }
    }

    /// A shard has failed: fails its tasks that wait, because what they wait for may never come. What follows them still comes
    /// after what they follow, such as a gang of an inner task.
    pub fn fail_waiting(&self, owner: &Rc<Owner>, error: &Error) {
        let waiting: Vec<TaskId> = {
            let leaves = self.leaves.borrow();
            let owner_of = |l: &Entry| l.body.as_ref()?.owner.clone();
            let of_owner = |l: &Entry| l.stage == Stage::Waiting && owner_of(l).is_some_and(|o| Rc::ptr_eq(&o, owner));
            let all = (0u32..).zip(&leaves.slab).filter(|(_, l)| of_owner(l));
            all.map(|(index, l)| TaskId { index, turn: l.turn }).collect()
        };
        for id in waiting {
            self.effects.event(|| Event::TaskDropped { task: id });
            self.leaves.borrow_mut().stand_in(id);
            self.fail_leaf(id, &self.poisons(id, error));
        }
    }

    /// Arrives at a barrier for a shard.
    pub fn arrive(&self, at: &ArrivalAt) {
        self.leaf_arrives(at, &[]);
    }

    /// Arrives at a barrier for a leaf task with these values.
    #[inline(always)]
    fn leaf_arrives(&self, at: &ArrivalAt, values: &[Payload]) {
        let tell = &mut self.teller();
        match *at {
            ArrivalAt::Cell(at, generation) => self.barriers.arrive(&self.effects, at, generation, None, tell),
            ArrivalAt::Value(at, generation, value) => {
                self.barriers.arrive(&self.effects, at, generation, Some(&values[value as usize]), tell);
            }
            ArrivalAt::Phase { object, arriver, generation, value } => {
                self.barriers.phases.arrive(&self.effects, (object, arriver), generation, value, tell);
            }
        }
    }

    /// Poisons the cell of an edge from `generation` on.
    pub fn poison_cell(&self, at: CellAddress, generation: u64, error: &Error) {
        self.barriers.poison(&self.effects, at, generation, error, &mut self.teller());
    }

    /// Poisons a phase barrier from `generation` on.
    pub fn poison_phase(&self, object: ObjectId, generation: u64, error: &Error) {
        self.barriers.phases.poison_everywhere(&self.effects, object, generation, error, &mut self.teller());
    }

    /// Poisons the barriers at which a failed task should have arrived.
    fn poison_arrivals(&self, arrivals: &[ArrivalAt], error: &Error) {
        for arrival in arrivals {
            match *arrival {
                ArrivalAt::Cell(at, generation) | ArrivalAt::Value(at, generation, _) => {
                    self.poison_cell(at, generation, error);
                }
                ArrivalAt::Phase { object, generation, .. } => self.poison_phase(object, generation, error),
            }
        }
    }

    fn place_of(&self, id: TaskId) -> Place {
        let mut leaves = self.leaves.borrow_mut();
        let body = leaves.get(id).and_then(|leaf| leaf.body.as_ref());
        body.map_or_else(|| task_place("?", u32::MAX), |body| body.place())
    }

    pub(super) fn poisons(&self, id: TaskId, cause: &Error) -> Error {
        self.effects.poisons(cause, self.place_of(id))
    }
}
