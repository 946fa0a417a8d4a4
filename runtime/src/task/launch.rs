//! The launch of a leaf task: the mapper's decisions, and the things it waits for.

use super::Tasks;
use crate::Error;
use crate::barrier::Waited;
use crate::data::{Came, Column, Fetch, Staged};
use crate::diagnose::Event;
use crate::effects::{Asker, Item, Waiting};
use crate::ids::{ColumnKey, LaunchKey, ProcessorId, TaskId, WaitAt};
use crate::plant::Bug;
use crate::task::slab::{Next, Stage};
use crate::task::{Body, Holding, Mapped, Owner, Unmet};
use maniple_mapper::{LeafInput, LeafOutput, Mapper, Priority, Requirements, validate};
use maniple_regions::{Privilege, SharedInstance};
use std::cell::OnceCell;
use std::rc::Rc;

impl Tasks {
    /// Reserves a task, so that its arguments can register it as a waiter.
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

    /// Waits for a generation of a barrier on behalf of a task that is being launched.
    #[inline]
    pub fn wait_for(&self, id: TaskId, at: WaitAt) -> Waited {
        let at = self.planted_wait(at);
        self.effects.event(|| Event::TaskWaits { task: id, at, waiters: self.effects.waiters(at) });
        self.barriers.wait(&self.effects, at, Waiting::Task(id))
    }

    /// Launches a reserved and mapped task that has taken its generations of barriers. Nothing is refused any more.
    #[inline]
    pub fn launch_leaf(&self, id: TaskId, unmet: Unmet, mapped: Mapped, mut body: Box<Body>, owner: &Rc<Owner>) {
        let mut count = unmet.count;
        self.effects.counters.launches.add(1);
        self.effects.counters.requirements.add(body.uses.len() as u64);
        owner.one_more();
        body.owner = Some(owner.clone());
        let mut leaves = self.leaves.borrow_mut();
        let Body { uses, after, .. } = &mut *body;
        for u in &*uses {
            if self.effects.strikes(Bug::MissedDependence) {
                continue;
            }
            count += leaves.depend(id, u, after);
        }
        let lends = leaves.prioritise(id, mapped.priority);
        let leaf = &mut leaves.slab[id.index as usize];
        leaf.unmet += count;
        (leaf.processor, leaf.poison) = (mapped.processor, unmet.poison);
        // The old value is `None`, so there is nothing to drop.
        std::mem::forget(leaf.body.replace(body));
        if lends {
            for id in leaves.lend(id, self.effects.id) {
                // The queue has it twice now. The second item finds a task that has ended or runs.
                self.effects.queue.push(mapped.priority, Item::Leaf(id));
            }
        }
        let next = leaves.one_less(id);
        drop(leaves);
        self.go_on(id, next);
    }

    #[inline(always)]
    fn planted_wait(&self, at: WaitAt) -> WaitAt {
        match at {
            WaitAt::Cell { object, cell, generation: later @ 1.. } if self.effects.strikes(Bug::EarlierGeneration) => {
                WaitAt::Cell { object, cell, generation: later - 1 }
            }
            other => other,
        }
    }

    /// Asks the mapper about a task that is meant for `target`, and notes how to reach the regions. A requirement is worked
    /// out only when the mapper looks at it. Most mappers look at none, and writing down five for each task took as long as
    /// the rest of the question.
    pub fn map_leaf(&self, target: ProcessorId, said: Option<Priority>, body: &mut Body) -> Result<Mapped, Error> {
        let (machine, uses) = (self.effects.machine(), &body.uses);
        let requirement = |i: usize| uses[i].column.requirement(&uses[i], machine);
        let input = LeafInput {
            task: body.name.of_type,
            shard: body.shard,
            processor: target,
            requirements: Requirements::worked_out(uses.len(), &requirement),
            machine,
        };
        // Holds an answer that decides more than a priority, and which is checked in full. Any other is looked at in
        // place. Moving an answer makes the processor wait for its own latest stores, and a leaf task then takes 7 to
        // 16% longer.
        let more = OnceCell::new();
        let question = |mapper: &dyn Mapper| {
            let out = mapper.map_leaf(&input);
            let decided = (out.processor, out.priority);
            if !out.is_plain(&input) {
                more.get_or_init(|| out);
            }
            decided
        };
        let check = |name: &str, decided| match more.get() {
            Some(out) => validate::leaf(name, &input, out).map(|()| decided).map_err(|e| e.about(&*body)),
            None => Ok(decided),
        };
        let (processor, priority) = self.effects.ask(Asker::Processor, ("map_leaf", &*body), question, check)?;
        if let Some(out) = more.get() {
            self.map_further(out, body);
        }
        Ok(Mapped { processor, priority: said.unwrap_or(priority) })
    }

    #[cold]
    #[inline(never)]
    fn map_further(&self, out: &LeafOutput, body: &mut Body) {
        for &i in &out.copied {
            body.uses[i as usize].access = Some(out.copies_in);
        }
        body.launched.set(out.profile.then(|| self.effects.wire.now()));
    }

    /// The task waits for one thing less.
    #[inline(never)]
    pub(super) fn leaf_has_one_less(&self, id: TaskId) {
        let next = self.leaves.borrow_mut().one_less(id);
        self.go_on(id, next);
    }

    #[inline(always)]
    pub(super) fn go_on(&self, id: TaskId, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Queue(priority, to) => self.queue_leaf(id, priority, to),
            Next::Stage => self.stage_leaf(id),
            Next::Finish => self.finish_late(id),
            Next::Start => {
                self.due.borrow_mut().push_back(id);
                self.has_chores.set(true);
            }
        }
    }

    /// Queues a task that is ready. One for another processor is sent before the tasks that run here.
    #[inline(always)]
    pub(super) fn queue_leaf(&self, id: TaskId, priority: Priority, to: ProcessorId) {
        match to == self.effects.id {
            true => self.effects.queue.push(priority, Item::Leaf(id)),
            false if to == ProcessorId::ANYWHERE => self.pool_leaf(id, priority),
            false => self.effects.queue.push_away(id),
        }
    }

    /// Completes a task whose data has reached its home.
    #[cold]
    fn finish_late(&self, id: TaskId) {
        let mut leaves = self.leaves.borrow_mut();
        let poison = leaves.get(id).and_then(|leaf| leaf.poison.take());
        let Some(mut body) = leaves.take_body(id) else { return };
        drop(leaves);
        let values = std::mem::take(&mut body.values);
        self.end_leaf(id, body, &mut Holding { leases: Vec::new(), values }, poison.map_or(Ok(()), Err));
    }

    /// Marks a task that is fetching data: it will not run.
    pub(super) fn poison_soon(&self, id: TaskId, error: Error) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.poison.get_or_insert_with(|| Box::new(error));
        }
    }

    /// Starts to fetch remote data.
    #[cold]
    pub(super) fn stage_leaf(&self, id: TaskId) {
        let wanted: Vec<(usize, Rc<Column>, Privilege)> = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { return };
            leaf.stage = Stage::Staging;
            leaf.unmet = 1;
            let elsewhere = leaf.uses().iter().enumerate().filter(|(_, u)| u.column.is_elsewhere());
            elsewhere.map(|(i, u)| (i, u.column.clone(), u.privilege)).collect()
        };
        for (index, column, privilege) in wanted {
            self.fetch((id, index), &column, privilege);
        }
        self.leaf_has_one_less(id);
    }

    /// Starts to fetch a column for a use of a task.
    fn fetch(&self, (id, index): (TaskId, usize), column: &Rc<Column>, privilege: Privilege) {
        match self.data.fetch(&self.effects, (id, index), column, privilege) {
            Fetch::Here => {}
            Fetch::UnderWay => self.leaves.borrow_mut().slab[id.index as usize].unmet += 1,
            Fetch::Fresh(copy) => {
                if let Some(u) = self.leaves.borrow_mut().use_at(id, index) {
                    u.staged = Some(Box::new(Staged { copy, before: None }));
                }
            }
            Fetch::Refused(error) => self.poison_soon(id, error),
        }
    }

    /// The home of a column has said where its instance is. Where it can't be used in place, the values have to be fetched.
    pub fn take_instance(&self, launch: LaunchKey, key: ColumnKey, instance: Result<Option<SharedInstance>, Error>) {
        let instance = match instance {
            Ok(instance) => instance,
            Err(error) => {
                for id in self.data.refused(launch, key, None) {
                    self.take_data(id, Came::Refused(error.clone()));
                }
                return;
            }
        };
        let in_place = instance.is_some();
        for (id, index) in self.data.take_attached(launch, key, instance) {
            if !in_place {
                let found = self.leaves.borrow_mut().use_at(id, index).map(|u| (u.column.clone(), u.privilege));
                if let Some((column, privilege)) = found {
                    self.fetch((id, index), &column, privilege);
                }
            }
            self.leaf_has_one_less(id);
        }
    }

    /// An answer to a request for data has come.
    pub fn take_data(&self, id: TaskId, came: Came) {
        match came {
            Came::Written => {}
            Came::Copy(index, mut staged) => {
                if let Some(u) = self.leaves.borrow_mut().use_at(id, index) {
                    // Without a write nothing goes back, so the fetched values are not kept.
                    staged.before = staged.before.filter(|_| u.privilege.writes());
                    u.staged = Some(Box::new(staged));
                }
            }
            Came::Refused(error) => return self.poison_leaf(id, error),
        }
        self.leaf_has_one_less(id);
    }

    /// Marks a task that waits: it will not run.
    pub fn poison_leaf(&self, id: TaskId, error: Error) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.poison.get_or_insert_with(|| Box::new(error));
        }
        self.leaf_has_one_less(id);
    }
}
