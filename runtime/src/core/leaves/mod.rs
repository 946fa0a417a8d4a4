//! Leaf tasks: from launch through dependences, waits and staging to completion.
//!
//! `launch`: what a launch decides and what its task waits for. `run`: leases, the call, other processors. `end`: what
//! others are told.

mod end;
mod launch;
mod run;

use super::cells::Waited;
use super::queue::{Item, TaskId};
use super::{Core, Waiting};
use crate::error::panic_message;
use crate::future::{Failures, Sink};
use crate::launch::{Arrivable, Waitable};
use crate::message::{Message, ObjectId, ProcessorId};
use crate::object::CellAddress;
use crate::region::{Column, Store};
use crate::{Error, Place};
use maniple_mapper::{Access, LeafInput, Priority, RequirementInput, validate};
use maniple_regions::{Buffer, Coherence, Lease, Privilege, SharedInstance};
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
    pub staged: Option<Box<Staged>>,
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

/// What a shard shares with its leaf tasks and its calls of collectives: the shard is over when they are.
#[derive(Default)]
pub(crate) struct Owner {
    running: Cell<u32>,
    /// Failures, with the future that may have told somebody.
    pub failures: Failures,
    waiting: RefCell<Vec<Waiting>>,
}

impl Owner {
    /// Whether all are over; if not, `waiting` is told when they are.
    pub fn poll(&self, waiting: Waiting) -> bool {
        let over = self.running.get() == 0;
        if !over {
            self.waiting.borrow_mut().push(waiting);
        }
        over
    }

    pub fn one_more(&self) {
        self.running.set(self.running.get() + 1);
    }

    pub fn one_over(&self, core: &Rc<Core>) {
        self.running.set(self.running.get() - 1);
        if self.running.get() == 0 {
            let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
            waiting.into_iter().for_each(|w| core.notify(w));
        }
    }
}

/// Everything a launch says.
pub(crate) struct Start<'a> {
    pub name: &'static str,
    pub shard: u32,
    pub priority: Option<Priority>,
    pub waits: &'a [&'a dyn Waitable],
    pub arrivals: &'a [&'a dyn Arrivable],
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
