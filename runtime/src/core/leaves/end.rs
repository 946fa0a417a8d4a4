//! What others are told when a task is over.

use super::*;

impl Core {
    /// After the function returned, or could not be called: give the leases back, write remote data back, complete.
    pub(super) fn end_leaf(self: &Rc<Self>, id: TaskId, called: Called, outcome: Result<(), Box<Error>>) {
        let Called { task, mut leases } = called;
        let mut leaves = self.leaves.borrow_mut();
        let Some(leaf) = leaves.get(id) else { return };
        while let Some(lease) = leases.pop() {
            let u = &leaf.uses[leases.len()];
            if u.staged.is_none() {
                u.column.give_back(lease);
            }
        }
        (leaf.task, leaf.leases) = (Some(task), leases);
        if let Err(error) = outcome {
            drop(leaves);
            self.fail_leaf(id, &error);
        } else if leaf.uses.iter().any(|u| u.staged.is_some()) {
            drop(leaves);
            self.write_all_back(id);
        } else {
            self.finish_leaf(leaves, id);
        }
    }

    /// The result is known, but whoever learns of it must see what was written: it waits for the puts.
    #[cold]
    fn write_all_back(self: &Rc<Self>, id: TaskId) {
        let written: Vec<(Rc<Column>, Box<Staged>)> = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { return };
            let staged = leaf.uses.iter_mut().filter(|u| u.privilege != Privilege::Read);
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
    pub(super) fn finish_leaf<'a>(self: &'a Rc<Self>, mut leaves: RefMut<'a, Leaves>, id: TaskId) {
        if leaves.get(id).is_some_and(|leaf| !leaf.arrivals.is_empty()) {
            drop(leaves);
            self.arrive_all(id);
            leaves = self.leaves.borrow_mut();
        }
        let Some(leaf) = leaves.get(id) else { return };
        while let Some(u) = leaf.uses.pop() {
            if u.privilege == Privilege::WriteDiscard {
                u.column.clear_poison();
            }
        }
        let (task, owner, name, shard) = (leaf.task.take(), leaf.owner.take(), leaf.name, leaf.shard);
        let mut successors = std::mem::take(&mut leaf.successors);
        leaves.free(id);
        for &next in &successors {
            match leaves.one_less(next) {
                Next::Nothing => {}
                Next::Queue(priority) => self.queue.push(priority, Item::Leaf(next)),
                other => {
                    drop(leaves);
                    self.go_on(next, other);
                    leaves = self.leaves.borrow_mut();
                }
            }
        }
        successors.clear();
        leaves.slab[id.index as usize].successors = successors;
        drop(leaves);
        if let Some(task) = task {
            task.succeed(self);
            // The last to let go of the result, if nobody wants it.
            self.drop_guarded(|| task_place(name, shard), task);
        }
        if let Some(owner) = owner {
            owner.one_over(self);
        }
    }

    /// Arrives where a task that succeeded arrives.
    fn arrive_all(self: &Rc<Self>, id: TaskId) {
        let Some(mut arrivals) = self.leaves.borrow_mut().get(id).map(|leaf| std::mem::take(&mut leaf.arrivals)) else {
            return;
        };
        for arrival in arrivals.drain(..) {
            match arrival {
                ArrivalAt::Cell(at, generation) => self.arrive(at, generation),
                ArrivalAt::Phase { object, arriver, generation, value } => {
                    self.arrive_phase(object, arriver, generation, value);
                }
            }
        }
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.arrivals = arrivals;
        }
    }

    /// Ends a task with an error: its future, its regions and its arrivals are poisoned.
    #[cold]
    pub(super) fn fail_leaf(self: &Rc<Self>, id: TaskId, error: &Error) {
        let mut leaves = self.leaves.borrow_mut();
        let Some(leaf) = leaves.get(id) else { return };
        #[cfg(feature = "plant")]
        let silent = self.config.has(crate::plant::Bug::MissingPoison);
        #[cfg(not(feature = "plant"))]
        let silent = false;
        for u in leaf.uses.drain(..) {
            if u.privilege != Privilege::Read && !silent {
                u.column.set_poison(error);
            }
        }
        let (task, owner, name, shard) = (leaf.task.take(), leaf.owner.take(), leaf.name, leaf.shard);
        let (arrivals, successors) = (std::mem::take(&mut leaf.arrivals), std::mem::take(&mut leaf.successors));
        leaves.free(id);
        drop(leaves);
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
    pub(in crate::core) fn drop_leaves(&self) {
        let leaves = std::mem::take(&mut *self.leaves.borrow_mut());
        for leaf in leaves.slab {
            let (name, shard) = (leaf.name, leaf.shard);
            self.drop_guarded(|| task_place(name, shard), leaf);
        }
    }

    /// Fails the tasks of a shard that has failed, as far as they wait: what they wait for may never come.
    pub fn fail_waiting(self: &Rc<Self>, owner: &Rc<Owner>, error: &Error) {
        let waiting: Vec<TaskId> = {
            let leaves = self.leaves.borrow();
            let of_owner =
                |l: &Leaf| l.stage == Stage::Waiting && l.owner.as_ref().is_some_and(|c| Rc::ptr_eq(c, owner));
            let all = (0u32..).zip(&leaves.slab).filter(|(_, l)| of_owner(l));
            all.map(|(index, l)| TaskId { index, turn: l.turn }).collect()
        };
        for id in waiting {
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

    pub(super) fn place_of(&self, id: TaskId) -> Place {
        let mut leaves = self.leaves.borrow_mut();
        let (name, shard) = leaves.get(id).map_or(("?", u32::MAX), |l| (l.name, l.shard));
        task_place(name, shard)
    }

    pub(super) fn poisons(&self, id: TaskId, cause: &Error) -> Error {
        cause.poisons(self.place_of(id))
    }

    pub(in crate::core) fn waiting_leaves(&self) -> Vec<(TaskId, String, u32, u32)> {
        let leaves = self.leaves.borrow();
        leaves.waiting().map(|(id, name, shard, unmet)| (id, crate::launch::short_name(name), shard, unmet)).collect()
    }
}
