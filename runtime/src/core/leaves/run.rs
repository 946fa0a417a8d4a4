//! Leases, the call itself, and tasks that run for or on other processors.

use super::*;

impl Core {
    /// Runs a queued task here, or sends it where the mapper wants it.
    pub(in crate::core) fn run_leaf(self: &Rc<Self>, id: TaskId) {
        let (mut body, mut uses, processor, poison) = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { return };
            let Some(body) = leaf.body.take() else { return };
            (body, std::mem::take(&mut leaf.uses), leaf.processor, leaf.poison.take())
        };
        let poison = poison.or_else(|| uses.iter().find_map(|u| u.column.poison_for(u.privilege)));
        if let Some(e) = poison {
            self.put_uses(id, uses);
            self.fail_leaf(id, &self.poisons(id, &e));
            return self.drop_guarded(|| task_place("", u32::MAX), body);
        }
        let mut leases = match self.lease_all(&mut uses) {
            Ok(leases) => leases,
            Err(source) => {
                self.put_uses(id, uses);
                let place = self.place_of(id);
                return self.fail_leaf(id, &Error::region(place, source));
            }
        };
        self.put_uses(id, uses);
        if processor != self.id {
            let detached = catch_unwind(AssertUnwindSafe(|| body.detach())).unwrap_or_else(|panic| {
                Err(Error::Panicked { place: self.place_of(id), message: panic_message(panic) })
            });
            return match detached {
                Ok(body) => {
                    let leaf = Offloaded { home: id, body, leases, outcome: Ok(()) };
                    self.send(processor, Message::Leaf(Box::new(leaf)));
                }
                Err(e) => {
                    self.release_all(id, leases);
                    self.fail_leaf(id, &e);
                }
            };
        }
        let outcome = self.call(|| body.run(&mut leases), || self.place_of(id));
        self.release_all(id, leases);
        self.after_run(id, outcome, Ran::Here(body));
    }

    pub(super) fn call(
        &self,
        run: impl FnOnce() -> Result<(), Error>,
        place: impl FnOnce() -> Place,
    ) -> Result<(), Error> {
        self.counters.leaf_tasks.add(1);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(outcome) => outcome,
            Err(panic) => Err(Error::Panicked { place: place(), message: panic_message(panic) }),
        }
    }

    /// Runs a task of another processor of the node.
    pub(in crate::core) fn run_for_other(self: &Rc<Self>, from: ProcessorId, mut leaf: Box<Offloaded>) {
        let unknown = || Place { task: String::new(), shard: None };
        leaf.outcome = self.call(|| leaf.body.run(&mut leaf.leases), unknown);
        self.send(from, Message::LeafDone(leaf));
    }

    /// Takes back a task that ran on another processor.
    pub(in crate::core) fn take_back(self: &Rc<Self>, leaf: Offloaded) {
        let Offloaded { home, body, leases, outcome } = leaf;
        self.release_all(home, leases);
        let outcome = outcome.map_err(|e| match e {
            Error::Panicked { message, .. } => Error::Panicked { place: self.place_of(home), message },
            e => e,
        });
        self.after_run(home, outcome, Ran::There(body));
    }

    pub(super) fn put_uses(&self, id: TaskId, uses: SmallVec<[UseAt; 4]>) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.uses = uses;
        }
    }

    pub(super) fn lease_all(&self, uses: &mut [UseAt]) -> Result<SmallVec<[Lease; 4]>, maniple_regions::RegionError> {
        let mut leases = SmallVec::new();
        for u in uses.iter_mut() {
            let lease = self.lease(u);
            match lease {
                Ok(lease) => leases.push(lease),
                Err(e) => {
                    for (u, lease) in uses.iter().zip(leases) {
                        u.column.give_back(lease);
                    }
                    return Err(e);
                }
            }
        }
        Ok(leases)
    }

    pub(super) fn lease(&self, u: &mut UseAt) -> Result<Lease, maniple_regions::RegionError> {
        let column = &u.column;
        if let Some(staged) = &u.staged {
            return staged.copy.lease(column.rect, u.privilege);
        }
        match &*column.store.borrow() {
            Store::Owned(instance) => instance.lease(column.rect, u.privilege, u.coherence),
            Store::Shared { home, instance: Some(instance) } => {
                if u.access == Access::Copy && *home != self.id && u.privilege == Privilege::Read {
                    let memory = self.machine().memory(self.id, maniple_mapper::MemoryKind::Ordinary);
                    let copy = instance.copy(column.rect, memory)?;
                    self.counters.region_copies.add(1);
                    self.counters.region_copy_bytes.add((column.rect.volume() * column.field.size) as u64);
                    let lease = copy.lease(column.rect, u.privilege);
                    u.staged = Some(Box::new(Staged { copy, before: None }));
                    return lease;
                }
                instance.lease(column.rect, u.privilege)
            }
            Store::Shared { instance: None, .. } => unreachable!("staged before it runs"),
        }
    }

    pub(super) fn release_all(&self, id: TaskId, leases: SmallVec<[Lease; 4]>) {
        let mut leaves = self.leaves.borrow_mut();
        let Some(leaf) = leaves.get(id) else { return };
        for (u, lease) in leaf.uses.iter().zip(leases) {
            u.column.give_back(lease);
        }
    }
}
