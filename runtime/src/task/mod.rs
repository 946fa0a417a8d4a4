//! Leaf tasks: from launch through dependences, waits and staging to completion.
//!
//! `launch`: what a launch decides and what its task waits for. `run`: leases, the call, other processors. `end`: what
//! others are told. `slab`: the tasks that are not over, each in its stage. `owner`: what a shard shares with its tasks.
//! `report`: what a report says of them.

mod end;
mod launch;
mod owner;
mod report;
mod run;
mod slab;

pub(crate) use owner::Owner;

use crate::barrier::Barriers;
use crate::data::{Data, UseAt};
use crate::diagnose::races::Past;
use crate::effects::{Effects, Item, Tell, Waiting};
use crate::future::{Failures, Sink};
use crate::ids::{ArrivalAt, ProcessorId, TaskId, ValueAt};
use crate::message::{SendTask, Work};
use crate::payload::Payload;
use crate::{Error, Place};

use maniple_mapper::Priority;
use maniple_regions::Lease;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// A leaf task together with the future of its result.
pub(crate) trait LeafTask: Sink + Any {
    /// Binds the accessors and calls the function; the result is held back.
    fn run(&self, leases: &mut [Lease], values: &mut [Payload]) -> Result<(), Box<Error>>;
    /// Takes values out of input futures, so that the task can run on another thread.
    fn detach(&self) -> Result<Box<dyn SendTask>, Error>;
    /// Takes over the result of what was detached.
    fn take_back(&self, ran: &mut dyn SendTask);
    /// Settles the future with the result.
    fn succeed(&self, tasks: &Tasks);
    fn fail(&self, tasks: &Tasks, error: Error);
    /// Drops what is left of function, arguments and result.
    fn discard(&self);
    /// Drops the result, in the future or still held back: nobody else has the future.
    fn clear(&self);
}

pub(super) fn task_place(name: &str, shard: u32) -> Place {
    Place { task: crate::names::short_name(name), shard: (shard != u32::MAX).then_some(shard) }
}

/// What a launch asks for, beside the task itself, its uses of regions and its barriers.
pub(crate) struct LeafLaunch {
    pub id: TaskId,
    /// The processor it is meant for.
    pub target: ProcessorId,
    pub priority: Option<Priority>,
    /// Input futures and barriers that it waits for.
    pub unmet: u32,
    /// Why one of the barriers will never complete.
    pub poison: Option<Box<Error>>,
}

/// What the mapper decides about a leaf task, beside how it reaches its regions.
pub(crate) struct Mapped {
    processor: ProcessorId,
    priority: Priority,
}

/// What a task is made of. Its lists stay with the entry from task to task, so that they are allocated once.
pub(crate) struct Body {
    pub name: &'static str,
    pub shard: u32,
    /// What its launch says that it takes in virtual time, in nanoseconds, or [`UNSAID`](crate::message::UNSAID).
    pub takes: u64,
    /// It fails only if others have, so that nobody need hear of it.
    pub follows: bool,
    /// Between two tasks the last one, unless somebody has its future: the next of its type takes its place in memory.
    pub task: Option<Rc<dyn LeafTask>>,
    owner: Option<Rc<Owner>>,
    pub uses: Vec<UseAt>,
    /// All input futures, from its declaration to its launch, if races are looked for.
    pub inputs: Vec<Past>,
    pub arrivals: SmallVec<[ArrivalAt; 4]>,
    /// What it gets from edges and puts on them.
    pub values_at: SmallVec<[ValueAt; 4]>,
    /// The values, if the task is over and what it wrote is on its way.
    values: Vec<Payload>,
    /// Bytes of all values, from when it runs.
    value_bytes: usize,
    /// When it was launched, if the mapper is to be told how it went.
    launched: Cell<Option<u64>>,
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
        self.uses.iter().map(|u| u.column.bytes()).sum::<usize>() + self.value_bytes
    }
}

impl Body {
    fn place(&self) -> Place {
        task_place(self.name, self.shard)
    }
}

/// What a leaf task has while it is called.
#[derive(Default)]
struct Holding {
    leases: Vec<Lease>,
    values: Vec<Payload>,
}

/// The leaf tasks of a processor, with the rooms that they use.
pub(crate) struct Tasks {
    pub effects: Effects,
    pub barriers: Barriers,
    pub data: Data,
    leaves: RefCell<slab::Leaves>,
    /// Of the leaf task that is called now.
    held: RefCell<Holding>,
    /// Those of launchers some of whose shards failed, for reports.
    failures: RefCell<Vec<Weak<Failures>>>,
}

impl Tasks {
    pub fn new(effects: Effects) -> Self {
        Self {
            effects,
            barriers: Barriers::default(),
            data: Data::default(),
            leaves: RefCell::default(),
            held: RefCell::default(),
            failures: RefCell::default(),
        }
    }

    /// Tells a waiter that what it waits for is there.
    #[inline]
    pub fn notify(&self, waiting: Waiting) {
        match waiting {
            Waiting::Chain { object, chain, priority } => {
                self.effects.queue.push(priority, Item::Chain { object, chain });
            }
            Waiting::Task(id) => self.leaf_has_one_less(id),
            #[cfg(feature = "plant")]
            Waiting::Shard(_) if self.effects.config.strikes(crate::plant::Bug::DroppedWakeUp) => {}
            Waiting::Shard(slot) => self.effects.wake_shard(slot),
            Waiting::Waker(waker) => self.effects.wake(*waker),
        }
    }

    /// Who tells waiters, for rooms below.
    #[inline(always)]
    pub fn teller(&self) -> impl Tell + '_ {
        |waiting, poison: Option<&Error>| self.tell(waiting, poison)
    }

    /// Tells a waiter that what it waits for is there, or why it never will be. Shards and chains look for the reason
    /// themselves.
    #[inline(always)]
    pub fn tell(&self, waiting: Waiting, poison: Option<&Error>) {
        match poison {
            None => self.notify(waiting),
            Some(error) => self.tell_poison(waiting, error),
        }
    }

    #[cold]
    fn tell_poison(&self, waiting: Waiting, error: &Error) {
        match waiting {
            Waiting::Task(id) => self.poison_leaf(id, error.clone()),
            waiting => self.notify(waiting),
        }
    }

    /// Remembers who has failures that perhaps nobody sees.
    #[cold]
    pub fn note_failures(&self, failures: &Rc<Failures>) {
        let mut all = self.failures.borrow_mut();
        all.retain(|other| other.strong_count() > 0);
        if !all.iter().any(|other| other.as_ptr() == Rc::as_ptr(failures)) {
            all.push(Rc::downgrade(failures));
        }
    }

    /// Failures of shards that nobody has seen.
    pub fn unseen_failures(&self) -> Vec<Error> {
        self.failures.borrow().iter().filter_map(|failures| failures.upgrade()?.unseen()).collect()
    }

    /// How many entries there are, of any kind.
    pub fn entries(&self) -> usize {
        self.leaves.borrow().entries()
            + self.held.borrow().leases.len()
            + self.data.entries()
            + self.effects.timers_set()
    }
}
