//! What others are told when a task is over.

use super::*;

impl Core {
    /// After the function returned: write remote data back, then complete.
    pub(super) fn after_run(self: &Rc<Self>, id: TaskId, outcome: Result<(), Error>, ran: Ran) {
        if let Err(error) = outcome {
            self.fail_leaf(id, &error);
            return self.drop_guarded(|| task_place("", u32::MAX), ran);
        }
        let written: SmallVec<[(Rc<Column>, Box<Staged>); 2]> = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { return };
            let staged = leaf.uses.iter_mut().filter(|u| u.privilege != Privilege::Read);
            staged.filter_map(|u| u.staged.take().map(|staged| (u.column.clone(), staged))).collect()
        };
        if written.is_empty() {
            return self.finish_leaf(id, Some(ran));
        }
        // The result is known, but whoever learns of it must see what was written: it waits for the puts.
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.stage = Stage::Finishing;
            leaf.unmet = written.len() as u32;
            leaf.ran = Some(ran);
        }
        for (column, staged) in written {
            self.write_back(id, &column, &staged);
        }
    }

    /// Completes a task that has succeeded.
    pub(super) fn finish_leaf(self: &Rc<Self>, id: TaskId, ran: Option<Ran>) {
        let Some((arrivals, successors, sink, owner, ran, name, shard)) = ({
            let mut leaves = self.leaves.borrow_mut();
            let parts = leaves.get(id).map(|leaf| {
                for u in leaf.uses.drain(..) {
                    if u.privilege == Privilege::WriteDiscard {
                        u.column.clear_poison();
                    }
                }
                (
                    std::mem::take(&mut leaf.arrivals),
                    std::mem::take(&mut leaf.successors),
                    leaf.sink.take(),
                    leaf.owner.take(),
                    ran.or(leaf.ran.take()),
                    leaf.name,
                    leaf.shard,
                )
            });
            if parts.is_some() {
                leaves.free(id);
            }
            parts
        }) else {
            return;
        };
        for arrival in arrivals {
            match arrival {
                ArrivalAt::Cell(at, generation) => self.arrive(at, generation),
                ArrivalAt::Phase { object, arriver, generation, value } => {
                    self.arrive_phase(object, arriver, generation, value);
                }
            }
        }
        for next in successors {
            self.leaf_has_one_less(next);
        }
        if let (Some(sink), Some(mut ran)) = (sink, ran) {
            sink.settle_from(self, ran.output());
            // The last to let go of the result, if nobody wants it.
            self.drop_guarded(|| task_place(name, shard), (sink, ran));
        }
        if let Some(owner) = owner {
            owner.one_over(self);
        }
    }

    /// Ends a task with an error: its future, its regions and its arrivals are poisoned.
    pub(super) fn fail_leaf(self: &Rc<Self>, id: TaskId, error: &Error) {
        let Some(mut leaf) = ({
            let mut leaves = self.leaves.borrow_mut();
            let taken = leaves.get(id).map(|leaf| {
                let (turn, stage) = (leaf.turn, leaf.stage);
                std::mem::replace(leaf, Leaf { turn, stage, ..Leaf::default() })
            });
            if taken.is_some() {
                leaves.free(id);
            }
            taken
        }) else {
            return;
        };
        #[cfg(feature = "plant")]
        let silent = self.config.has(crate::plant::Bug::MissingPoison);
        #[cfg(not(feature = "plant"))]
        let silent = false;
        for u in leaf.uses.drain(..) {
            if u.privilege != Privilege::Read && !silent {
                u.column.set_poison(error);
            }
        }
        self.poison_arrivals(&leaf.arrivals, error);
        if let Some(sink) = leaf.sink.take() {
            sink.settle_error(self, error.clone());
            if let Some(owner) = &leaf.owner {
                owner.failures.add(error.clone(), sink);
            }
        }
        for next in std::mem::take(&mut leaf.successors) {
            self.leaf_has_one_less(next);
        }
        let (name, shard, owner) = (leaf.name, leaf.shard, leaf.owner.take());
        self.drop_guarded(|| task_place(name, shard), leaf);
        if let Some(owner) = owner {
            owner.one_over(self);
        }
    }

    /// Drops every task that is still there.
    pub(in crate::core) fn drop_leaves(&self) {
        for leaf in std::mem::take(&mut self.leaves.borrow_mut().slab) {
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
