//! What a launch decides, and what its task waits for.

use super::*;

impl Core {
    /// Reserves a task, so that its arguments can name it as a waiter.
    pub fn reserve_leaf(&self) -> TaskId {
        self.leaves.borrow_mut().reserve()
    }

    /// Gives a reservation back when its launch is refused.
    pub fn cancel_leaf(&self, id: TaskId) {
        self.leaves.borrow_mut().free(id);
    }

    /// Launches a reserved task.
    pub fn launch_leaf(
        self: &Rc<Self>,
        id: TaskId,
        start: Start<'_>,
        mut uses: SmallVec<[UseAt; 4]>,
        unmet: u32,
        body: Box<dyn Body>,
    ) -> Result<(), Error> {
        let (processor, priority) = self.map_leaf(&start, &mut uses)?;
        let mut unmet = unmet;
        let mut poison = None;
        for u in &uses {
            unmet += self.depend(id, u);
        }
        // Nothing is refused any more: what takes generations from here on is a task that waits and arrives.
        for wait in start.waits {
            let waited = match wait.next_wait().0 {
                WaitAt::Cell { object, cell, generation } => match self.local(object) {
                    Some(local) => self.wait_cell(&local, cell, generation, Waiting::Task(id)),
                    None => continue,
                },
                WaitAt::Phase { object, generation } => self.wait_phase(object, generation, Waiting::Task(id)),
            };
            match waited {
                Waited::Complete => {}
                Waited::Registered => unmet += 1,
                Waited::Poisoned(e) => poison = Some(*e),
            }
        }
        {
            let mut leaves = self.leaves.borrow_mut();
            let leaf = &mut leaves.slab[id.index as usize];
            leaf.unmet += unmet;
            (leaf.name, leaf.shard, leaf.processor, leaf.priority) = (start.name, start.shard, processor, priority.0);
            (leaf.body, leaf.sink, leaf.uses) = (Some(body), Some(start.sink), uses);
            leaf.arrivals.extend(start.arrivals.iter().map(|a| a.next_arrival().0));
            start.owner.one_more();
            leaf.owner = Some(start.owner);
            leaf.poison = poison;
        }
        self.leaf_has_one_less(id);
        Ok(())
    }

    pub(super) fn map_leaf(&self, start: &Start<'_>, uses: &mut [UseAt]) -> Result<(ProcessorId, Priority), Error> {
        let machine = self.machine();
        let requirements: SmallVec<[RequirementInput; 4]> =
            uses.iter().map(|u| u.column.requirement(u, machine, self.id)).collect();
        let input = LeafInput {
            task: start.name,
            shard: start.shard,
            processor: self.id,
            requirements: &requirements,
            machine,
        };
        self.counters.mapper_calls.add(1);
        let mapper = self.mapper();
        // A panic must not get past the launch, which gives its reservation back.
        let out = catch_unwind(AssertUnwindSafe(|| mapper.map_leaf(&input))).map_err(|panic| {
            let task = format!("mapper `{}`, call map_leaf for {}", mapper.name(), task_place(start.name, start.shard));
            Error::Panicked { place: Place { task, shard: None }, message: panic_message(panic) }
        })?;
        let out = validate::leaf(mapper.name(), &input, out)?;
        for (u, access) in uses.iter_mut().zip(out.access) {
            u.access = access;
        }
        Ok((out.processor, start.priority.unwrap_or(out.priority)))
    }

    /// Finds the tasks that `u` must follow, in program order; returns how many there are.
    pub(super) fn depend(&self, id: TaskId, u: &UseAt) -> u32 {
        if u.coherence == Coherence::Simultaneous {
            return 0;
        }
        let writes = u.privilege != Privilege::Read;
        let mut leaves = self.leaves.borrow_mut();
        let mut found = 0;
        let mut follow = |earlier: TaskId| {
            if earlier != id
                && let Some(leaf) = leaves.get(earlier)
                && !leaf.successors.contains(&id)
            {
                leaf.successors.push(id);
                found += 1;
            }
        };
        let own = &u.column;
        own.users.borrow().earlier(writes, &mut follow);
        for other in own.overlaps.borrow().iter().filter_map(std::rc::Weak::upgrade) {
            other.users.borrow().earlier(writes, &mut follow);
        }
        own.users.borrow_mut().add(id, writes, |t| leaves.get(t).is_some());
        found
    }

    /// One thing less to wait for.
    pub(in crate::core) fn leaf_has_one_less(self: &Rc<Self>, id: TaskId) {
        let stage = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { return };
            leaf.unmet -= 1;
            if leaf.unmet > 0 {
                return;
            }
            leaf.stage
        };
        match stage {
            Stage::Waiting if self.stage_leaf(id) => {}
            Stage::Waiting | Stage::Staging => {
                let mut leaves = self.leaves.borrow_mut();
                let Some(leaf) = leaves.get(id) else { return };
                leaf.stage = Stage::Ready;
                let priority = Priority(leaf.priority);
                drop(leaves);
                self.queue.push(priority, Item::Leaf(id));
            }
            Stage::Finishing => self.finish_leaf(id, None),
            Stage::Ready | Stage::Free => {}
        }
    }

    /// Gives a task that is not staged yet a fresh copy to write into.
    pub(in crate::core) fn set_staged(&self, id: TaskId, index: usize, copy: SharedInstance) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.uses[index].staged = Some(Box::new(Staged { copy, before: None }));
        }
    }

    /// Marks a task that is being staged: it will not run.
    pub(in crate::core) fn poison_soon(&self, id: TaskId, error: Error) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.poison.get_or_insert(error);
        }
    }

    /// Starts to fetch remote data; false when there is nothing to fetch.
    pub(super) fn stage_leaf(self: &Rc<Self>, id: TaskId) -> bool {
        let wanted: SmallVec<[(usize, Rc<Column>, Privilege); 2]> = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else {
                return false;
            };
            if leaf.poison.is_some() {
                return false;
            }
            let uses = leaf.uses.iter().enumerate();
            let remote =
                uses.filter(|(_, u)| matches!(&*u.column.store.borrow(), Store::Shared { instance: None, .. }));
            let wanted: SmallVec<_> = remote.map(|(i, u)| (i, u.column.clone(), u.privilege)).collect();
            if wanted.is_empty() {
                return false;
            }
            leaf.stage = Stage::Staging;
            leaf.unmet = 1;
            wanted
        };
        for (index, column, privilege) in wanted {
            if self.fetch(id, index, &column, privilege) {
                let mut leaves = self.leaves.borrow_mut();
                leaves.slab[id.index as usize].unmet += 1;
            }
        }
        self.leaf_has_one_less(id);
        true
    }

    /// Gives a task the copy that was taken for it, made from `bytes`.
    pub(in crate::core) fn staged(self: &Rc<Self>, id: TaskId, index: usize, copy: SharedInstance, bytes: Buffer) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            let u = &mut leaf.uses[index];
            let before = u.privilege.writes().then_some(bytes);
            u.staged = Some(Box::new(Staged { copy, before }));
        }
        self.leaf_has_one_less(id);
    }

    /// Marks a task that waits: it will not run.
    pub(in crate::core) fn poison_leaf(self: &Rc<Self>, id: TaskId, error: Error) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.poison.get_or_insert(error);
        }
        self.leaf_has_one_less(id);
    }
}
