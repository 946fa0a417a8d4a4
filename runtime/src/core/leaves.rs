//! Leaf tasks: from launch through dependences, waits and staging to completion.

use super::cells::Waited;
use super::queue::{Item, TaskId};
use super::{Core, Waiting};
use crate::error::panic_message;
use crate::future::{Failures, Sink};
use crate::message::{Message, ObjectId, ProcessorId};
use crate::object::CellAddress;
use crate::payload::Payload;
use crate::region::{Column, Store};
use crate::{Error, Place};
use maniple_mapper::{Access, LeafInput, Priority, RequirementInput, validate};
use maniple_regions::{Coherence, Lease, Privilege, SharedInstance};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What a leaf task runs: its function and arguments.
pub(crate) trait Body {
    /// Binds the accessors and calls the function; the result stays inside.
    fn run(&mut self, leases: &mut [Lease]) -> Result<(), Error>;
    /// The `Option` that holds the result.
    fn output(&mut self) -> &mut dyn Any;
    /// Takes values out of input futures, so that what is left can run on another thread.
    fn detach(self: Box<Self>) -> Result<Box<dyn SendBody>, Error>;
}

/// A body without inputs from this processor's futures.
pub(crate) trait SendBody: Send {
    fn run(&mut self, leases: &mut [Lease]) -> Result<(), Error>;
    fn output(&mut self) -> &mut dyn Any;
}

/// A body that has run, here or on another processor.
enum Ran {
    Here(Box<dyn Body>),
    There(Box<dyn SendBody>),
}

impl Ran {
    fn output(&mut self) -> &mut dyn Any {
        match self {
            Ran::Here(body) => body.output(),
            Ran::There(body) => body.output(),
        }
    }
}

fn task_place(name: &str, shard: u32) -> Place {
    Place { task: crate::launch::short_name(name), shard: (shard != u32::MAX).then_some(shard) }
}

/// A leaf task on its way to another processor of the node and back.
pub(crate) struct Offloaded {
    home: TaskId,
    body: Box<dyn SendBody>,
    leases: SmallVec<[Lease; 4]>,
    outcome: Result<(), Error>,
}

impl std::fmt::Debug for Offloaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Offloaded({:?})", self.home)
    }
}

/// One region use of a leaf task.
pub(crate) struct UseAt {
    pub column: Rc<Column>,
    pub privilege: Privilege,
    pub coherence: Coherence,
    pub access: Access,
    /// A copy taken for this task alone.
    pub staged: Option<SharedInstance>,
}

/// A barrier generation a task arrives at when it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArrivalAt {
    Cell(CellAddress, u64),
    Phase { object: ObjectId, arriver: u32, generation: u64, value: u64 },
}

/// A barrier generation a task waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WaitAt {
    Cell { object: ObjectId, cell: u32, generation: u64 },
    Phase { object: ObjectId, generation: u64 },
}

/// What a shard and its leaf tasks share: the shard is over when they are.
#[derive(Default)]
pub(crate) struct Owner {
    running: Cell<u32>,
    /// Failures, with the future that may have told somebody.
    pub failures: Failures,
    waiting: RefCell<Option<Waiting>>,
}

impl Owner {
    /// Whether all tasks are over; if not, `waiting` is told when they are.
    pub fn poll(&self, waiting: Waiting) -> bool {
        let over = self.running.get() == 0;
        *self.waiting.borrow_mut() = (!over).then_some(waiting);
        over
    }

    fn one_over(&self, core: &Rc<Core>) {
        self.running.set(self.running.get() - 1);
        if self.running.get() == 0
            && let Some(waiting) = self.waiting.borrow_mut().take()
        {
            core.notify(waiting);
        }
    }
}

/// Everything a launch says.
pub(crate) struct Start {
    pub name: &'static str,
    pub shard: u32,
    pub priority: Option<Priority>,
    pub waits: SmallVec<[WaitAt; 2]>,
    pub arrivals: SmallVec<[ArrivalAt; 2]>,
    pub sink: Rc<dyn Sink>,
    pub owner: Rc<Owner>,
}

/// Finds the column of a shard's region and checks that the shard may ask for it.
type Lookup<'a> = dyn Fn(u32, Privilege, Coherence, &maniple_regions::FieldInfo) -> Result<Rc<Column>, Error> + 'a;

/// What a launch's arguments declare.
pub(crate) struct Declared<'a> {
    pub task: TaskId,
    pub regions: &'a Lookup<'a>,
    pub uses: SmallVec<[UseAt; 4]>,
    pub unmet: u32,
}

#[derive(Default)]
struct Leaf {
    turn: u32,
    /// Things this task still waits for.
    unmet: u32,
    stage: Stage,
    name: &'static str,
    shard: u32,
    priority: u8,
    processor: ProcessorId,
    body: Option<Box<dyn Body>>,
    sink: Option<Rc<dyn Sink>>,
    owner: Option<Rc<Owner>>,
    /// The body, once it has run and while its result is held back.
    ran: Option<Ran>,
    uses: SmallVec<[UseAt; 4]>,
    arrivals: SmallVec<[ArrivalAt; 2]>,
    successors: SmallVec<[TaskId; 2]>,
    poison: Option<Error>,
}

/// Where a leaf task is. Each stage ends when nothing is unmet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The slab entry is not in use.
    #[default]
    Free,
    /// Waits for predecessors, barriers and input futures.
    Waiting,
    /// Waits for remote data.
    Staging,
    /// Queued, or running on another processor.
    Ready,
    /// Waits until what it wrote has reached its home.
    Finishing,
}

#[derive(Default)]
pub(crate) struct Leaves {
    slab: Vec<Leaf>,
    free: Vec<u32>,
}

impl Leaves {
    fn reserve(&mut self) -> TaskId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slab.push(Leaf::default());
            self.slab.len() as u32 - 1
        });
        let leaf = &mut self.slab[index as usize];
        leaf.stage = Stage::Waiting;
        // Held back until the launch is complete.
        leaf.unmet = 1;
        TaskId { index, turn: leaf.turn }
    }

    #[inline]
    fn get(&mut self, id: TaskId) -> Option<&mut Leaf> {
        self.slab.get_mut(id.index as usize).filter(|l| l.turn == id.turn && l.stage != Stage::Free)
    }

    fn free(&mut self, id: TaskId) {
        let leaf = &mut self.slab[id.index as usize];
        leaf.turn = leaf.turn.wrapping_add(1);
        leaf.stage = Stage::Free;
        self.free.push(id.index);
    }

    /// Tasks that wait, with what a report needs.
    pub fn waiting(&self) -> impl Iterator<Item = (TaskId, &'static str, u32, u32)> {
        (0u32..)
            .zip(&self.slab)
            .filter(|(_, l)| l.stage != Stage::Free)
            .map(|(index, l)| (TaskId { index, turn: l.turn }, l.name, l.shard, l.unmet))
    }
}

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
        start: Start,
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
        for wait in &start.waits {
            let waited = match *wait {
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
            (leaf.body, leaf.sink, leaf.uses, leaf.arrivals) = (Some(body), Some(start.sink), uses, start.arrivals);
            start.owner.running.set(start.owner.running.get() + 1);
            leaf.owner = Some(start.owner);
            leaf.poison = poison;
        }
        self.leaf_has_one_less(id);
        Ok(())
    }

    fn map_leaf(&self, start: &Start, uses: &mut [UseAt]) -> Result<(ProcessorId, Priority), Error> {
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
        // A panic must not get past the launch, which owes arrivals.
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
    fn depend(&self, id: TaskId, u: &UseAt) -> u32 {
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
    pub(super) fn leaf_has_one_less(self: &Rc<Self>, id: TaskId) {
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
                self.queue.borrow_mut().push(priority, Item::Leaf(id));
            }
            Stage::Finishing => self.finish_leaf(id, None),
            Stage::Ready | Stage::Free => {}
        }
    }

    /// Gives a task that is not staged yet a fresh copy to write into.
    pub(super) fn set_staged(&self, id: TaskId, index: usize, copy: SharedInstance) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.uses[index].staged = Some(copy);
        }
    }

    /// Marks a task that is being staged: it will not run.
    pub(super) fn poison_soon(&self, id: TaskId, error: Error) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.poison.get_or_insert(error);
        }
    }

    /// Starts to fetch remote data; false when there is nothing to fetch.
    fn stage_leaf(self: &Rc<Self>, id: TaskId) -> bool {
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

    /// Gives a task the copy that was taken for it.
    pub(super) fn staged(self: &Rc<Self>, id: TaskId, index: usize, copy: SharedInstance) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.uses[index].staged = Some(copy);
        }
        self.leaf_has_one_less(id);
    }

    /// Marks a task that waits: it will not run.
    pub(super) fn poison_leaf(self: &Rc<Self>, id: TaskId, error: Error) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.poison.get_or_insert(error);
        }
        self.leaf_has_one_less(id);
    }

    /// Runs a queued task here, or sends it where the mapper wants it.
    pub(super) fn run_leaf(self: &Rc<Self>, id: TaskId) {
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

    fn call(&self, run: impl FnOnce() -> Result<(), Error>, place: impl FnOnce() -> Place) -> Result<(), Error> {
        self.counters.leaf_tasks.add(1);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(outcome) => outcome,
            Err(panic) => Err(Error::Panicked { place: place(), message: panic_message(panic) }),
        }
    }

    /// Runs a task of another processor of the node.
    pub(super) fn run_for_other(self: &Rc<Self>, from: ProcessorId, mut leaf: Box<Offloaded>) {
        let unknown = || Place { task: String::new(), shard: None };
        leaf.outcome = self.call(|| leaf.body.run(&mut leaf.leases), unknown);
        self.send(from, Message::LeafDone(leaf));
    }

    /// Takes back a task that ran on another processor.
    pub(super) fn take_back(self: &Rc<Self>, leaf: Offloaded) {
        let Offloaded { home, body, leases, outcome } = leaf;
        self.release_all(home, leases);
        let outcome = outcome.map_err(|e| match e {
            Error::Panicked { message, .. } => Error::Panicked { place: self.place_of(home), message },
            e => e,
        });
        self.after_run(home, outcome, Ran::There(body));
    }

    fn put_uses(&self, id: TaskId, uses: SmallVec<[UseAt; 4]>) {
        if let Some(leaf) = self.leaves.borrow_mut().get(id) {
            leaf.uses = uses;
        }
    }

    fn lease_all(&self, uses: &mut [UseAt]) -> Result<SmallVec<[Lease; 4]>, maniple_regions::RegionError> {
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

    fn lease(&self, u: &mut UseAt) -> Result<Lease, maniple_regions::RegionError> {
        let column = &u.column;
        if let Some(copy) = &u.staged {
            return copy.lease(column.rect, u.privilege);
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
                    u.staged = Some(copy);
                    return lease;
                }
                instance.lease(column.rect, u.privilege)
            }
            Store::Shared { instance: None, .. } => unreachable!("staged before it runs"),
        }
    }

    fn release_all(&self, id: TaskId, leases: SmallVec<[Lease; 4]>) {
        let mut leaves = self.leaves.borrow_mut();
        let Some(leaf) = leaves.get(id) else { return };
        for (u, lease) in leaf.uses.iter().zip(leases) {
            u.column.give_back(lease);
        }
    }

    /// After the function returned: write remote data back, then complete.
    fn after_run(self: &Rc<Self>, id: TaskId, outcome: Result<(), Error>, ran: Ran) {
        if let Err(error) = outcome {
            self.fail_leaf(id, &error);
            return self.drop_guarded(|| task_place("", u32::MAX), ran);
        }
        let written: SmallVec<[(Rc<Column>, SharedInstance); 2]> = {
            let mut leaves = self.leaves.borrow_mut();
            let Some(leaf) = leaves.get(id) else { return };
            let staged = leaf.uses.iter_mut().filter(|u| u.privilege != Privilege::Read);
            staged.filter_map(|u| u.staged.take().map(|copy| (u.column.clone(), copy))).collect()
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
        for (column, copy) in written {
            self.write_back(id, &column, &copy);
        }
    }

    /// Completes a task that has succeeded.
    fn finish_leaf(self: &Rc<Self>, id: TaskId, ran: Option<Ran>) {
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
                ArrivalAt::Cell(at, generation) => self.arrive(at, generation, Payload::None),
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
    fn fail_leaf(self: &Rc<Self>, id: TaskId, error: &Error) {
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
    pub(super) fn drop_leaves(&self) {
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

    /// Poisons what a refused launch would have arrived at.
    pub fn poison_arrivals(self: &Rc<Self>, arrivals: &[ArrivalAt], error: &Error) {
        for arrival in arrivals {
            match *arrival {
                ArrivalAt::Cell(at, generation) => self.poison(at, generation, error),
                ArrivalAt::Phase { object, generation, .. } => self.poison_tree(object, generation, error),
            }
        }
    }

    fn place_of(&self, id: TaskId) -> Place {
        let mut leaves = self.leaves.borrow_mut();
        let (name, shard) = leaves.get(id).map_or(("?", u32::MAX), |l| (l.name, l.shard));
        task_place(name, shard)
    }

    fn poisons(&self, id: TaskId, cause: &Error) -> Error {
        cause.poisons(self.place_of(id))
    }

    pub(super) fn waiting_leaves(&self) -> Vec<(TaskId, String, u32, u32)> {
        let leaves = self.leaves.borrow();
        leaves.waiting().map(|(id, name, shard, unmet)| (id, crate::launch::short_name(name), shard, unmet)).collect()
    }
}
