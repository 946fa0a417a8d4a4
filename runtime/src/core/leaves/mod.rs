//! Leaf tasks: from launch through dependences, waits and staging to completion.
//!
//! `launch`: what a launch decides and what its task waits for. `run`: leases, the call, other processors. `end`: what
//! others are told. `stuck`: what a report says of them.

mod end;
mod launch;
mod run;
mod stuck;

use super::cells::Waited;
use super::queue::{Item, TaskId};
use super::{Asker, Core, Waiting};
use crate::current::Poller;
use crate::error::panic_message;
use crate::future::{Failures, Sink};
use crate::launch::{Arrivable, UNSAID, Waitable};
use crate::message::{Message, ObjectId, ProcessorId};
use crate::object::CellAddress;
use crate::races::Event;
use crate::region::{Column, Store, Users};
use crate::wire::Work;
use crate::{Error, Place};
use maniple_mapper::{Access, LeafInput, LeafOutput, MemoryKind, Priority, ProfileInput, Requirements, validate};
use maniple_regions::{Buffer, Coherence, Lease, Privilege, RegionError, SharedInstance, Use};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// A leaf task together with the future of its result.
pub(crate) trait LeafTask: Sink + Any {
    /// Binds the accessors and calls the function; the result is held back.
    fn run(&self, leases: &mut [Lease]) -> Result<(), Box<Error>>;
    /// Takes values out of input futures, so that the task can run on another thread.
    fn detach(&self) -> Result<Box<dyn SendTask>, Error>;
    /// Takes over the result of what was detached.
    fn take_back(&self, ran: &mut dyn SendTask);
    /// Settles the future with the result.
    fn succeed(&self, core: &Rc<Core>);
    fn fail(&self, core: &Rc<Core>, error: Error);
    /// Drops what is left of function, arguments and result.
    fn discard(&self);
    /// Drops the result, in the future or still held back: nobody else has the future.
    fn clear(&self);
}

/// A leaf task without inputs from this processor's futures.
pub(crate) trait SendTask: Send {
    fn run(&mut self, leases: &mut [Lease]) -> Result<(), Box<Error>>;
    /// The `Option` that holds the result.
    fn output(&mut self) -> &mut dyn Any;
}

fn task_place(name: &str, shard: u32) -> Place {
    Place { task: crate::names::short_name(name), shard: (shard != u32::MAX).then_some(shard) }
}

/// A leaf task on its way to another processor of the node and back.
pub(crate) struct Offloaded {
    home: TaskId,
    work: Away,
    shard: u32,
    task: Box<dyn SendTask>,
    leases: Vec<Lease>,
    outcome: Result<(), Box<Error>>,
    /// When the run began and ended, if the mapper is to be told.
    ran: Option<(u64, u64)>,
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
    /// The kind of memory it is copied into, if it is.
    pub access: Option<MemoryKind>,
    pub staged: Option<Box<Staged>>,
}

impl UseAt {
    pub fn as_use(&self) -> Use {
        let Self { column, privilege, coherence, .. } = self;
        Use { region: column.region, field: column.field.id, privilege: *privilege, coherence: *coherence }
    }
}

/// A copy taken for one task alone.
pub(crate) struct Staged {
    pub copy: SharedInstance,
    /// What it held at first, if only changes may go back: others change other values of the same region meanwhile.
    pub before: Option<Buffer>,
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

impl WaitAt {
    pub fn generation(self) -> u64 {
        let (Self::Cell { generation, .. } | Self::Phase { generation, .. }) = self;
        generation
    }
}

/// What a shard shares with its leaf tasks and its calls of collectives: the shard is over when they are.
#[derive(Default)]
#[allow(clippy::box_collection)] // There is one for each shard: it is small.
pub(crate) struct Owner {
    running: Cell<u32>,
    /// Failures, with the future that may have told somebody.
    pub failures: Failures,
    /// Who waits until all are over: hardly anybody.
    waiting: RefCell<Option<Box<Vec<Waiting>>>>,
}

impl Owner {
    pub fn is_over(&self) -> bool {
        self.running.get() == 0
    }

    /// Whether all are over; if not, `waiting` is told when they are.
    pub fn poll(&self, waiting: Waiting) -> bool {
        let over = self.running.get() == 0;
        if !over {
            let mut list = self.waiting.borrow_mut();
            let list = list.get_or_insert_default();
            // Whoever gives up and comes again is told once.
            let waiter = Poller::of(&waiting);
            if list.iter().all(|w| Poller::of(w) != waiter) {
                list.push(waiting);
            }
        }
        over
    }

    /// Those who wait until all are over.
    pub fn each_waiter(&self, each: &mut dyn FnMut(&Waiting)) {
        self.waiting.borrow().iter().flat_map(|waiting| waiting.iter()).for_each(each);
    }

    #[inline]
    pub fn one_more(&self) {
        self.running.set(self.running.get() + 1);
    }

    #[inline]
    pub fn one_over(&self, core: &Rc<Core>) {
        self.running.set(self.running.get() - 1);
        if self.running.get() == 0 && self.waiting.borrow().is_some() {
            self.all_over(core);
        }
    }

    #[cold]
    fn all_over(&self, core: &Rc<Core>) {
        self.waiting.take().into_iter().flat_map(|waiting| *waiting).for_each(|w| core.notify(w));
    }
}

/// What a launch says, beside the task itself and its uses of regions.
pub(crate) struct Start<'a> {
    pub id: TaskId,
    /// The processor it is meant for.
    pub target: ProcessorId,
    pub priority: Option<Priority>,
    /// Input futures that are not settled.
    pub unmet: u32,
    pub waits: &'a [&'a dyn Waitable],
    pub arrivals: &'a [&'a dyn Arrivable],
}

/// What the mapper decides about a leaf task, beside how it reaches its regions.
pub(crate) struct Mapped {
    processor: ProcessorId,
    priority: Priority,
}

/// An entry of the slab: where a task is in the order of things.
struct Leaf {
    turn: u32,
    /// Things this task still waits for.
    unmet: u32,
    stage: Stage,
    priority: Priority,
    processor: ProcessorId,
    successors: Vec<TaskId>,
    poison: Option<Box<Error>>,
    /// `None` while it is launched or called, which the slab need not be borrowed for.
    body: Option<Box<Body>>,
}

/// What a task is made of. Its lists stay with the entry from task to task, so that they are allocated once.
pub(crate) struct Body {
    pub name: &'static str,
    pub shard: u32,
    /// What its launch says that it takes in virtual time, in nanoseconds, or [`UNSAID`](crate::launch::UNSAID).
    pub takes: u64,
    /// Between two tasks the last one, unless somebody has its future: the next of its type takes its place in memory.
    pub task: Option<Rc<dyn LeafTask>>,
    owner: Option<Rc<Owner>>,
    pub uses: Vec<UseAt>,
    /// All input futures, from its declaration to its launch, if races are looked for.
    pub inputs: Vec<Event>,
    arrivals: Vec<ArrivalAt>,
    /// When it was launched, if the mapper is to be told how it went.
    launched: Cell<Option<u64>>,
}

impl Leaf {
    /// An entry for its first task.
    fn new() -> Self {
        let body = Body {
            name: "",
            shard: u32::MAX,
            takes: UNSAID,
            task: None,
            owner: None,
            uses: Vec::new(),
            inputs: Vec::new(),
            arrivals: Vec::new(),
            launched: Cell::default(),
        };
        Self {
            turn: 0,
            unmet: 0,
            stage: Stage::Free,
            priority: Priority::NORMAL,
            processor: 0,
            successors: Vec::new(),
            poison: None,
            body: Some(Box::new(body)),
        }
    }

    fn uses(&self) -> &[UseAt] {
        self.body.as_ref().map_or(&[], |body| &body.uses)
    }

    /// Whether a column has to be fetched before the task can run.
    #[inline]
    fn needs_staging(&self) -> bool {
        self.poison.is_none() && self.uses().iter().any(|u| u.column.is_elsewhere())
    }
}

impl std::fmt::Display for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.place().fmt(f)
    }
}

impl Work for Body {
    fn name(&self) -> &'static str {
        self.name
    }
    fn takes(&self) -> u64 {
        self.takes
    }
    fn bytes(&self) -> usize {
        self.uses.iter().map(|u| u.column.bytes()).sum()
    }
}

/// The work of a leaf task that is on its way.
#[derive(Clone, Copy)]
struct Away {
    name: &'static str,
    takes: u64,
    bytes: usize,
}

impl Work for Away {
    fn name(&self) -> &'static str {
        self.name
    }
    fn takes(&self) -> u64 {
        self.takes
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Body {
    fn place(&self) -> Place {
        task_place(self.name, self.shard)
    }
}

/// Where a leaf task is. Each stage ends when nothing is unmet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The slab entry is not in use.
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

/// What is to be done with a task that has one thing less to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    /// Fetch what it needs.
    Stage,
    /// Run it when it is its turn; on another processor, have it sent there.
    Queue(Priority, ProcessorId),
    /// Complete it.
    Finish,
}

#[derive(Default)]
pub(crate) struct Leaves {
    slab: Vec<Leaf>,
    free: Vec<u32>,
}

impl Leaves {
    #[inline]
    fn reserve(&mut self) -> (TaskId, Box<Body>) {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let leaf = &mut self.slab[index as usize];
        let Some(body) = leaf.body.take() else { unreachable!("a free entry has a body") };
        leaf.stage = Stage::Waiting;
        // Held back until the launch is complete.
        leaf.unmet = 1;
        (TaskId { index, turn: leaf.turn }, body)
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slab.push(Leaf::new());
        self.slab.len() as u32 - 1
    }

    #[inline]
    fn get(&mut self, id: TaskId) -> Option<&mut Leaf> {
        self.slab.get_mut(id.index as usize).filter(|l| l.turn == id.turn && l.stage != Stage::Free)
    }

    /// Ends a task; its entry and `body` are free for the next.
    #[inline(always)]
    fn free(&mut self, id: TaskId, body: Box<Body>) {
        if let Some(leaf) = self.get(id) {
            leaf.turn = leaf.turn.wrapping_add(1);
            leaf.stage = Stage::Free;
            leaf.body = Some(body);
            leaf.successors.clear();
            self.free.push(id.index);
        }
    }

    /// Takes what a task is made of out of the slab.
    #[inline]
    fn take_body(&mut self, id: TaskId) -> Option<Box<Body>> {
        self.get(id)?.body.take()
    }

    fn put_back(&mut self, id: TaskId, body: Box<Body>) {
        if let Some(leaf) = self.get(id) {
            leaf.body = Some(body);
        }
    }

    /// One of a task's uses, while the task waits.
    fn use_at(&mut self, id: TaskId, index: usize) -> Option<&mut UseAt> {
        self.get(id)?.body.as_mut()?.uses.get_mut(index)
    }

    /// Has `id` follow the tasks that its use `u` must follow, in program order; returns how many there are.
    #[inline(always)]
    fn depend(&mut self, id: TaskId, u: &UseAt) -> u32 {
        if u.coherence == Coherence::Simultaneous {
            return 0;
        }
        let writes = u.privilege != Privilege::Read;
        let mut found = 0;
        u.column.each_overlap(|other| {
            found += self.follow(id, &other.users.borrow(), writes);
        });
        let mut users = u.column.users.borrow_mut();
        found += self.follow(id, &users, writes);
        users.add(id, writes, |t| self.get(t).is_some());
        found
    }

    #[inline]
    fn follow(&mut self, id: TaskId, users: &Users, writes: bool) -> u32 {
        let mut found = 0;
        users.earlier(writes, |earlier| {
            // If `id` follows that task already, for another use, it is the last to do so.
            if earlier != id
                && let Some(leaf) = self.get(earlier)
                && leaf.successors.last() != Some(&id)
            {
                leaf.successors.push(id);
                found += 1;
            }
        });
        found
    }

    /// One thing less that a task waits for.
    #[inline]
    fn one_less(&mut self, id: TaskId) -> Next {
        let Some(leaf) = self.get(id) else { return Next::Nothing };
        leaf.unmet -= 1;
        match leaf.stage {
            _ if leaf.unmet > 0 => Next::Nothing,
            Stage::Waiting if leaf.needs_staging() => Next::Stage,
            Stage::Waiting | Stage::Staging => {
                leaf.stage = Stage::Ready;
                Next::Queue(leaf.priority, leaf.processor)
            }
            Stage::Finishing => Next::Finish,
            Stage::Ready | Stage::Free => Next::Nothing,
        }
    }

    /// Tasks that are launched and not over.
    fn busy(&self) -> impl Iterator<Item = (TaskId, &Leaf, &Body)> {
        (0u32..).zip(&self.slab).filter(|(_, l)| l.stage != Stage::Free).filter_map(|(index, l)| {
            let body = l.body.as_ref()?;
            Some((TaskId { index, turn: l.turn }, l, &**body))
        })
    }

    /// How many tasks are not over, their bodies elsewhere or not.
    pub fn entries(&self) -> usize {
        self.slab.iter().filter(|l| l.stage != Stage::Free).count()
    }

    /// Whether a task is not over.
    fn is_there(&self, id: TaskId) -> bool {
        self.slab.get(id.index as usize).is_some_and(|l| l.turn == id.turn && l.stage != Stage::Free)
    }
}
