//! What a launch decides, and what its task waits for.

use super::*;

impl Core {
    /// Reserves a task, so that its arguments can name it as a waiter.
    pub fn reserve_leaf(&self) -> (TaskId, Box<Body>) {
        self.leaves.borrow_mut().reserve()
    }

    /// Gives a reservation back when its launch is refused.
    #[cold]
    pub fn cancel_leaf(&self, id: TaskId, mut body: Box<Body>) {
        body.uses.clear();
        body.inputs.clear();
        body.launched.set(None);
        self.leaves.borrow_mut().free(id, body);
    }

    /// Launches a reserved and mapped task.
    pub fn launch_leaf(self: &Rc<Self>, start: &Start<'_>, mapped: Mapped, mut body: Box<Body>, owner: &Rc<Owner>) {
        let id = start.id;
        let mut unmet = start.unmet;
        let mut poison = None;
        // Nothing is refused any more: what takes generations from here on is a task that waits and arrives.
        for wait in start.waits {
            let at = wait.next_wait().0;
            #[cfg(feature = "plant")]
            let at = self.planted_wait(at);
            if let Some(races) = &self.config.races {
                races.leaf_waits(self, id, at);
            }
            let waited = match at {
                WaitAt::Cell { object, cell, generation } => match self.local(object) {
                    Some(local) => self.wait_cell(&local, cell, generation, Waiting::Task(id)),
                    None => continue,
                },
                WaitAt::Phase { object, generation } => self.wait_phase(object, generation, Waiting::Task(id)),
            };
            match waited {
                Waited::Complete => {}
                Waited::Registered => unmet += 1,
                Waited::Poisoned(e) => poison = Some(e),
            }
        }
        self.counters.launches.add(1);
        self.counters.requirements.add(body.uses.len() as u64);
        owner.one_more();
        body.owner = Some(owner.clone());
        if body.arrivals.capacity() < start.arrivals.len() {
            body.arrivals.reserve_exact(start.arrivals.len());
        }
        for arrival in start.arrivals {
            body.arrivals.push(arrival.next_arrival().0);
        }
        let mut leaves = self.leaves.borrow_mut();
        for u in &body.uses {
            #[cfg(feature = "plant")]
            if self.config.strikes(crate::plant::Bug::MissedDependence) {
                continue;
            }
            unmet += leaves.depend(id, u);
        }
        let leaf = &mut leaves.slab[id.index as usize];
        leaf.unmet += unmet;
        (leaf.processor, leaf.priority, leaf.poison) = (mapped.processor, mapped.priority, poison);
        leaf.body = Some(body);
        let next = leaves.one_less(id);
        drop(leaves);
        self.go_on(id, next);
    }

    #[cfg(feature = "plant")]
    fn planted_wait(&self, at: WaitAt) -> WaitAt {
        match at {
            WaitAt::Cell { object, cell, generation: later @ 1.. }
                if self.config.strikes(crate::plant::Bug::EarlierGeneration) =>
            {
                WaitAt::Cell { object, cell, generation: later - 1 }
            }
            other => other,
        }
    }

    /// Asks the mapper, and notes how to reach the regions.
    pub fn map_leaf(&self, start: &Start<'_>, body: &mut Body) -> Result<Mapped, Error> {
        let (machine, uses) = (self.machine(), &body.uses);
        let requirement = |i: usize| uses[i].column.requirement(&uses[i], machine);
        let input = LeafInput {
            task: body.name,
            shard: body.shard,
            processor: start.target,
            requirements: Requirements::worked_out(uses.len(), &requirement),
            machine,
        };
        let mut more = None;
        let check = |name: &str, out: LeafOutput| {
            if !out.is_plain(&input) {
                more = Some(validate::leaf(name, &input, out)?);
            }
            Ok((out.processor, out.priority))
        };
        let (processor, priority) =
            self.ask(Asker::Processor, ("map_leaf", &*body), |mapper| mapper.map_leaf(&input), check)?;
        if let Some(out) = more {
            self.map_further(&out, body);
        }
        Ok(Mapped { processor, priority: start.priority.unwrap_or(priority) })
    }

    #[cold]
    #[inline(never)]
    fn map_further(&self, out: &LeafOutput, body: &mut Body) {
        for (u, access) in body.uses.iter_mut().zip(&out.access) {
            u.access = (*access == Access::Copy).then_some(out.copies_in);
        }
        body.launched.set(out.profile.then(|| self.wire.now()));
    }

    /// One thing less to wait for.
    #[inline(never)]
    pub(crate) fn leaf_has_one_less(self: &Rc<Self>, id: TaskId) {
        let next = self.leaves.borrow_mut().one_less(id);
        self.go_on(id, next);
    }

    #[inline(always)]
    pub(crate) fn go_on(self: &Rc<Self>, id: TaskId, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Queue(priority, to) => self.queue_leaf(id, priority, to),
            Next::Stage => self.stage_leaf(id),
            Next::Finish => self.finish_late(id),
        }
    }

    /// A task for another processor does not wait until those that run here have had their turn.
    #[inline(always)]
    pub(crate) fn queue_leaf(&self, id: TaskId, priority: Priority, to: ProcessorId) {
        if to == self.id {
            self.queue.push(priority, Item::Leaf(id));
        } else {
            self.queue.push_away(id);
        }
    }

    /// Completes a task whose data has reached its home.
    #[cold]
    fn finish_late(self: &Rc<Self>, id: TaskId) {
        let mut leaves = self.leaves.borrow_mut();
        let poison = leaves.get(id).and_then(|leaf| leaf.poison.take());
        let Some(body) = leaves.take_body(id) else { return };
        drop(leaves);
        self.end_leaf(id, body, &mut Vec::new(), poison.map_or(Ok(()), Err));
    }

    /// Gives a task that is not staged yet a fresh copy to write into.
    pub(crate) fn set_staged(&self, id: TaskId, index: usize, copy: SharedInstance) {
        if let Some(u) = self.leaves.borrow_mut().use_at(id, index) {
            u.staged = Some(Box::new(Staged { copy, before: None }));
        }
    }

    /// Marks a task that is being staged: it will not run.
    pub(crate) fn poison_soon(&self, id: TaskId, error: Error) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.poison.get_or_insert_with(|| Box::new(error));
        }
    }

    /// Starts to fetch remote data.
    #[cold]
    pub(crate) fn stage_leaf(self: &Rc<Self>, id: TaskId) {
        let wanted: Vec<(usize, Rc<Column>, Privilege)> = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { return };
            leaf.stage = Stage::Staging;
            leaf.unmet = 1;
            let elsewhere = leaf.uses().iter().enumerate().filter(|(_, u)| u.column.is_elsewhere());
            elsewhere.map(|(i, u)| (i, u.column.clone(), u.privilege)).collect()
        };
        for (index, column, privilege) in wanted {
            if self.fetch(id, index, &column, privilege) {
                let mut leaves = self.leaves.borrow_mut();
                leaves.slab[id.index as usize].unmet += 1;
            }
        }
        self.leaf_has_one_less(id);
    }

    /// Gives a task the copy that was taken for it, made from `bytes`.
    pub(crate) fn staged(self: &Rc<Self>, id: TaskId, index: usize, copy: SharedInstance, bytes: Buffer) {
        if let Some(u) = self.leaves.borrow_mut().use_at(id, index) {
            let before = u.privilege.writes().then_some(bytes);
            u.staged = Some(Box::new(Staged { copy, before }));
        }
        self.leaf_has_one_less(id);
    }

    /// Marks a task that waits: it will not run.
    pub(crate) fn poison_leaf(self: &Rc<Self>, id: TaskId, error: Error) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.poison.get_or_insert_with(|| Box::new(error));
        }
        self.leaf_has_one_less(id);
    }
}
