//! What others are told when a task is over.

use super::*;

impl Core {
    /// After the function returned, or could not be called: give the leases back, write remote data back, complete.
    pub(crate) fn end_leaf(
        self: &Rc<Self>,
        id: TaskId,
        body: Box<Body>,
        leases: &mut Vec<Lease>,
        outcome: Result<(), Box<Error>>,
    ) {
        let mut staged = false;
        while let Some(lease) = leases.pop() {
            let u = &body.uses[leases.len()];
            match u.staged {
                None => u.column.give_back(lease),
                Some(_) => staged = true,
            }
        }
        if outcome.is_ok() && !staged {
            return self.finish_leaf(id, body);
        }
        self.leaves.borrow_mut().put_back(id, body);
        match outcome {
            Ok(()) => self.write_all_back(id),
            Err(error) => self.fail_leaf(id, &error),
        }
    }

    /// The result is known, but whoever learns of it must see what was written: it waits for the puts.
    #[cold]
    fn write_all_back(self: &Rc<Self>, id: TaskId) {
        let written: Vec<(Rc<Column>, Box<Staged>)> = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { return };
            let uses = leaf.body.iter_mut().flat_map(|body| &mut body.uses);
            let staged = uses.filter(|u| u.privilege != Privilege::Read);
            let written: Vec<_> =
                staged.filter_map(|u| u.staged.take().map(|staged| (u.column.clone(), staged))).collect();
            leaf.stage = Stage::Finishing;
            leaf.unmet = written.len() as u32 + 1;
            written
        };
        for (column, staged) in written {
            self.write_back(id, &column, &staged);
        }
        self.leaf_has_one_less(id);
    }

    /// Completes a task that has succeeded.
    #[inline]
    fn finish_leaf(self: &Rc<Self>, id: TaskId, mut body: Box<Body>) {
        while let Some(u) = body.uses.pop() {
            #[cfg(feature = "plant")]
            if self.config.strikes(crate::plant::Bug::LeakedInstance) {
                std::mem::forget(u.column.clone());
            }
            if u.privilege == Privilege::WriteDiscard {
                u.column.clear_poison();
            }
        }
        if let Some(races) = &self.config.races {
            races.leaf_ends(self, id, &body.arrivals);
        }
        for arrival in &body.arrivals {
            match *arrival {
                ArrivalAt::Cell(at, generation) => self.arrive(at, generation),
                ArrivalAt::Phase { object, arriver, generation, value } => {
                    self.arrive_phase(object, arriver, generation, value);
                }
            }
        }
        body.arrivals.clear();
        if let Some(task) = &body.task {
            if Rc::strong_count(task) > 1 {
                task.succeed(self);
            }
            // Nobody wants the result, or somebody else will let go of it.
            if Rc::strong_count(task) == 1 {
                self.guarded(|| body.place(), || task.clear());
            } else {
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
            owner.one_over(self);
        }
    }

    /// Ends a task with an error: its future, its regions and its arrivals are poisoned.
    #[cold]
    pub(crate) fn fail_leaf(self: &Rc<Self>, id: TaskId, error: &Error) {
        let mut leaves = self.leaves.borrow_mut();
        let Some(leaf) = leaves.get(id) else { return };
        let Some(mut body) = leaf.body.take() else { return };
        #[cfg(feature = "plant")]
        let silent = self.config.has(crate::plant::Bug::MissingPoison);
        #[cfg(not(feature = "plant"))]
        let silent = false;
        for u in body.uses.drain(..) {
            // Under simultaneous coherence tasks launched earlier may still have to run, and those that come later learn of it
            // from what orders them.
            let ordered = u.coherence != Coherence::Simultaneous;
            if u.privilege != Privilege::Read && ordered && !silent {
                u.column.set_poison(error);
            }
        }
        body.launched.set(None);
        let (task, owner, name, shard) = (body.task.take(), body.owner.take(), body.name, body.shard);
        let (arrivals, successors) = (std::mem::take(&mut body.arrivals), std::mem::take(&mut leaf.successors));
        leaves.free(id, body);
        drop(leaves);
        if let Some(races) = &self.config.races {
            races.leaf_fails(self, id, &arrivals);
        }
        self.poison_arrivals(&arrivals, error);
        if let Some(task) = task.clone() {
            task.fail(self, error.clone());
            if let Some(owner) = &owner {
                owner.failures.add(error.clone(), task);
            }
        }
        for next in successors {
            self.leaf_has_one_less(next);
        }
        if let Some(task) = task {
            self.guarded(|| task_place(name, shard), || task.discard());
            self.drop_guarded(|| task_place(name, shard), task);
        }
        if let Some(owner) = owner {
            owner.one_over(self);
        }
    }

    /// Drops every task that is still there.
    pub(crate) fn drop_leaves(&self) {
        let leaves = std::mem::take(&mut *self.leaves.borrow_mut());
        for leaf in leaves.slab {
            let (name, shard) = leaf.body.as_ref().map_or(("", u32::MAX), |body| (body.name, body.shard));
            self.drop_guarded(|| task_place(name, shard), leaf);
        }
    }

    /// Fails the tasks of a shard that has failed, as far as they wait: what they wait for may never come.
    pub fn fail_waiting(self: &Rc<Self>, owner: &Rc<Owner>, error: &Error) {
        let waiting: Vec<TaskId> = {
            let leaves = self.leaves.borrow();
            let owner_of = |l: &Leaf| l.body.as_ref()?.owner.clone();
            let of_owner = |l: &Leaf| l.stage == Stage::Waiting && owner_of(l).is_some_and(|o| Rc::ptr_eq(&o, owner));
            let all = (0u32..).zip(&leaves.slab).filter(|(_, l)| of_owner(l));
            all.map(|(index, l)| TaskId { index, turn: l.turn }).collect()
        };
        for id in waiting {
            if let Some(races) = &self.config.races {
                races.leaf_dropped(self, id);
            }
            self.fail_leaf(id, &self.poisons(id, error));
        }
    }

    /// Poisons what a task that failed would have arrived at.
    fn poison_arrivals(self: &Rc<Self>, arrivals: &[ArrivalAt], error: &Error) {
        for arrival in arrivals {
            match *arrival {
                ArrivalAt::Cell(at, generation) => self.poison(at, generation, error),
                ArrivalAt::Phase { object, generation, .. } => self.poison_tree(object, generation, error),
            }
        }
    }

    pub(crate) fn place_of(&self, id: TaskId) -> Place {
        let mut leaves = self.leaves.borrow_mut();
        let body = leaves.get(id).and_then(|leaf| leaf.body.as_ref());
        body.map_or_else(|| task_place("?", u32::MAX), |body| body.place())
    }

    pub(crate) fn poisons(&self, id: TaskId, cause: &Error) -> Error {
        cause.poisons(self.place_of(id))
    }
}
