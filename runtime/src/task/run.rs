//! Leases, the call itself, and tasks that run for or on other processors.

use super::*;
use crate::message::Away;
use crate::message::Offloaded;
use crate::message::SendTask;

impl Core {
    /// Runs a queued task here, or sends it where the mapper wants it.
    pub(crate) fn run_leaf(self: &Rc<Self>, id: TaskId) {
        let mut leaves = self.leaves.borrow_mut();
        let Some(leaf) = leaves.get(id) else { return };
        if leaf.poison.is_some() || leaf.uses().iter().any(|u| u.column.is_poisoned_for(u.privilege)) {
            drop(leaves);
            return self.refuse_leaf(id);
        }
        let processor = leaf.processor;
        let Some(mut body) = leaf.body.take() else { return };
        drop(leaves);
        if let Some(races) = &self.config.races
            && let Err(error) = races.leaf_begins(self, id, body.name, &body.uses)
        {
            return self.refuse_racing(id, body, &error);
        }
        let mut leases = self.leases.borrow_mut();
        let outcome = match (self.lease_all(&mut body.uses, processor, &mut leases), &body.task) {
            (Ok(()), Some(task)) if processor == self.id => {
                let began = body.launched.get().map(|_| self.wire.now());
                let outcome = self.call(&*body, body.shard, Some(id), || task.run(&mut leases));
                if let (Some(began), Ok(())) = (began, &outcome) {
                    self.profile(&body, processor, (began, self.wire.now()));
                }
                outcome
            }
            (Ok(()), Some(task)) => match self.detach(&body, &**task) {
                Ok(detached) => return self.offload_leaf(id, body, std::mem::take(&mut leases), detached, processor),
                Err(error) => Err(Box::new(error)),
            },
            (Err(source), _) => Err(Box::new(Error::region(body.place(), source))),
            (Ok(()), None) => unreachable!("a task that is launched is there"),
        };
        self.end_leaf(id, body, &mut leases, outcome);
    }

    /// Ends a task that was poisoned before it ran.
    #[cold]
    fn refuse_leaf(self: &Rc<Self>, id: TaskId) {
        self.note_dispatch(id);
        let poison = self.leaves.borrow_mut().get(id).and_then(|leaf| {
            let own = leaf.poison.take().map(|e| *e);
            let poisoned = || leaf.uses().iter().find(|u| u.column.is_poisoned_for(u.privilege));
            own.or_else(|| poisoned().and_then(|u| u.column.poison()))
        });
        if let Some(error) = poison {
            self.fail_leaf(id, &self.poisons(id, &error));
        }
    }

    /// Ends a task that races with an earlier one. The run fails, whoever may be content with that.
    #[cold]
    fn refuse_racing(self: &Rc<Self>, id: TaskId, body: Box<Body>, error: &Error) {
        self.note_failure(error);
        self.leaves.borrow_mut().put_back(id, body);
        self.fail_leaf(id, error);
    }

    #[cold]
    fn detach(&self, body: &Body, task: &dyn LeafTask) -> Result<Box<dyn SendTask>, Error> {
        catch_unwind(AssertUnwindSafe(|| task.detach()))
            .unwrap_or_else(|panic| Err(Error::Panicked { place: body.place(), message: panic_message(panic) }))
    }

    #[cold]
    fn offload_leaf(
        self: &Rc<Self>,
        id: TaskId,
        body: Box<Body>,
        leases: Vec<Lease>,
        task: Box<dyn SendTask>,
        to: ProcessorId,
    ) {
        // Replaced by when it did, on that processor.
        let ran = body.launched.get().map(|launched| (launched, launched));
        let work = Away { name: body.name, takes: body.takes, bytes: body.bytes() };
        let leaf = Offloaded { home: id, work, shard: body.shard, task, leases, outcome: Ok(()), ran };
        self.leaves.borrow_mut().put_back(id, body);
        self.note_dispatch(id);
        self.send(to, Message::Leaf(Box::new(leaf)));
    }

    #[inline]
    fn call(
        &self,
        work: &dyn Work,
        shard: u32,
        id: Option<TaskId>,
        run: impl FnOnce() -> Result<(), Box<Error>>,
    ) -> Result<(), Box<Error>> {
        if let Some(trace) = &self.trace {
            self.note_call(trace, work.name(), shard, id);
        }
        self.wire.works(work);
        let ran = catch_unwind(AssertUnwindSafe(run));
        // Afterwards: in virtual time it is this that takes time.
        self.counters.leaf_tasks.add(1);
        ran.unwrap_or_else(|panic| {
            Err(Box::new(Error::Panicked { place: task_place(work.name(), shard), message: panic_message(panic) }))
        })
    }

    /// Tells the mapper how a task went that ran on `processor` between two times.
    #[cold]
    fn profile(&self, body: &Body, processor: ProcessorId, (began, ended): (u64, u64)) {
        let launched = body.launched.take().unwrap_or(began);
        let (waited_ns, ran_ns) = (began.saturating_sub(launched), ended.saturating_sub(began));
        let input = ProfileInput { task: body.name, shard: body.shard, processor, waited_ns, ran_ns };
        let told = self.ask(Asker::Processor, ("profile", &body.place()), |m| m.profile(&input), |_, ()| Ok(()));
        // Nobody awaits that call.
        if let Err(e) = told {
            self.note_failure(&e);
        }
    }

    /// Runs a task of another processor of the node.
    pub(crate) fn run_for_other(self: &Rc<Self>, from: ProcessorId, mut leaf: Box<Offloaded>) {
        let began = leaf.ran.map(|_| self.wire.now());
        let (work, shard) = (leaf.work, leaf.shard);
        leaf.outcome = self.call(&work, shard, None, || leaf.task.run(&mut leaf.leases));
        leaf.ran = began.map(|began| (began, self.wire.now()));
        self.send(from, Message::LeafDone(leaf));
    }

    /// Takes back a task that ran on another processor.
    pub(crate) fn take_back(self: &Rc<Self>, from: ProcessorId, leaf: Offloaded) {
        let Offloaded { home, work, shard, task: mut ran, mut leases, outcome, ran: when } = leaf;
        let body = self.leaves.borrow_mut().take_body(home);
        if let Some(body) = body {
            if let Some(task) = &body.task {
                task.take_back(&mut *ran);
            }
            if let (Some(when), Ok(())) = (when, &outcome) {
                self.profile(&body, from, when);
            }
            self.end_leaf(home, body, &mut leases, outcome);
        }
        self.drop_guarded(|| task_place(work.name, shard), ran);
    }

    /// Leases every use, or those before the first that fails.
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
                    let memory = self.machine().memory(runs, kind);
                    let copy = instance.copy(column.rect(), memory)?;
                    self.counters.region_copies.add(1);
                    self.counters.region_copy_bytes.add((column.rect().volume() * column.field.size) as u64);
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
