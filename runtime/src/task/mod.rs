//! Leaf tasks, from launch through dependences, waits and fetching of data to completion.
//!
//! `launch`: the mapper's decisions and the things a task waits for. `run`: leases, the call, tasks for other
//! processors. `end`: the end of a task. `slab`: the tasks that have not ended, each in its stage. `orders`: orders of the
//! runtime itself among them. `pool`: ready tasks that any processor of the node may run. `owner`: the state that a shard shares with its tasks. `report`: tasks in the report of a
//! deadlock.

mod end;
mod launch;
mod orders;
mod owner;
mod pool;
mod report;
mod run;
mod slab;

pub(crate) use owner::Owner;
use pool::Pool;

use crate::barrier::Barriers;
use crate::data::{Data, UseAt};
use crate::diagnose::races::Past;
use crate::effects::{Effects, Item, Objects, Tell, Waiting};
use crate::failures::{Failures, WeakFailures};
use crate::future::{Poison, Sink};
use crate::ids::{ArrivalAt, ObjectId, ProcessorId, TaskId, ValueAt};
use crate::message::{SendTask, Work};
use crate::names::TaskName;
use crate::payload::{Length, Payload};
use crate::plant::Bug;
use crate::{Error, Place};

use maniple_mapper::Priority;
use maniple_regions::Lease;
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A leaf task together with the future of its result.
pub(crate) trait LeafTask: Sink + Any {
    /// Binds the accessors and calls the function. The result is kept back.
    fn run(&self, leases: &mut [Lease], values: &mut [Payload]) -> Result<(), Box<Error>>;
    /// Takes values out of input futures, so that the task can run on another thread. It runs `twice` by a planted bug.
    fn detach(&self, twice: bool) -> Result<Box<dyn SendTask>, Error>;
    /// Takes over the result of the detached task.
    fn take_back(&self, ran: &mut dyn SendTask);
    /// Settles the future with the result.
    fn succeed(&self, tasks: &Tasks);
    fn fail(&self, tasks: &Tasks, poison: Rc<Poison>);
    /// Drops function, arguments and result.
    fn discard(&self);
    /// Drops the result, in the future or kept back. Nobody else holds the future.
    fn clear(&self);
    /// Whether the result has nothing to drop, so that it may stay in the future after its last holder has dropped that.
    fn may_stay(&self) -> bool;
}

pub(super) fn task_place(name: impl std::fmt::Display, shard: u32) -> Place {
    Place { task: name.to_string(), shard: (shard != u32::MAX).then_some(shard) }
}

/// What a task that is being launched waits for.
pub(crate) struct Unmet {
    /// How many input futures and barriers.
    pub count: u32,
    /// The error of a barrier that will never complete.
    pub poison: Option<Box<Error>>,
}

/// The mapper's decisions about a leaf task, except those about its regions.
pub(crate) struct Mapped {
    pub processor: ProcessorId,
    pub priority: Priority,
}

/// The parts of a task. The lists stay with the entry from task to task, so that they are allocated once.
pub(crate) struct Body {
    pub name: TaskName,
    pub shard: u32,
    /// The duration in virtual time given at the launch, in nanoseconds, or [`UNSAID`](crate::message::UNSAID).
    pub takes: u64,
    /// The task. Between two tasks it is the last one, unless somebody holds its future. The next task of the same type
    /// reuses its memory.
    pub task: Option<Rc<dyn LeafTask>>,
    owner: Option<Rc<Owner>>,
    pub uses: Vec<UseAt>,
    /// The leaf tasks that it waits for, because of futures and data. Some may be over.
    pub after: Vec<TaskId>,
    /// All input futures, between declaration and launch, if races are checked.
    pub inputs: Vec<Past>,
    pub arrivals: Vec<ArrivalAt>,
    /// The values it gets from edges and puts on them.
    pub values_at: Vec<ValueAt>,
    /// The values, when the task has ended and its changes are on their way home.
    values: Vec<Payload>,
    /// When it was launched, if the mapper wants a profile.
    launched: Cell<Option<u64>>,
}

impl std::fmt::Display for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.place().fmt(f)
    }
}

/// A task that is about to be called, with its values. They belong to objects.
struct Called<'a>(&'a Body, &'a [Payload], &'a Objects);

impl Work for Called<'_> {
    fn name(&self) -> TaskName {
        self.0.name
    }
    fn takes(&self) -> u64 {
        self.0.takes
    }
    fn bytes(&self) -> usize {
        let Self(body, values, objects) = self;
        let regions = body.uses.iter().map(|u| u.column.bytes());
        let values = (0..).zip(*values).map(|(number, value)| {
            let length = body.edges_of(number).map_or(Length::OWN, |edges| objects.length(edges));
            length.of(value.bytes().len())
        });
        regions.chain(values).sum()
    }
}

impl Body {
    fn place(&self) -> Place {
        task_place(self.name, self.shard)
    }

    /// The edges along which a value travels, if there are any.
    fn edges_of(&self, value: u32) -> Option<ObjectId> {
        match self.values_at.get(value as usize)? {
            ValueAt::Get { object, .. } => Some(*object),
            _ => self.arrivals.iter().find_map(|arrival| match arrival {
                ArrivalAt::Value(at, _, number) if *number == value => Some(at.object),
                _ => None,
            }),
        }
    }
}

/// The leases and values of a leaf task while it is called.
#[derive(Default)]
struct Holding {
    leases: Vec<Lease>,
    values: Vec<Payload>,
}

/// The leaf tasks of a processor, with the modules that they use.
pub(crate) struct Tasks {
    pub effects: Effects,
    pub barriers: Barriers,
    pub data: Data,
    leaves: RefCell<slab::Leaves>,
    /// Belongs to the leaf task that is being called.
    held: RefCell<Holding>,
    /// There are orders to carry out, or ready tasks in the pool. Each turn looks at this, and at nothing else of them.
    pub has_chores: Cell<bool>,
    /// Orders that are to be carried out.
    due: RefCell<VecDeque<TaskId>>,
    /// Made for the flow of the top-level task if the node has other processors, and for the first task that a mapper leaves to
    /// any of them.
    pub pool: OnceCell<Box<Pool>>,
    /// The failures of launchers with failed shards, for reports.
    failures: RefCell<Vec<WeakFailures>>,
}

impl Tasks {
    pub fn new(effects: Effects) -> Self {
        Self {
            effects,
            barriers: Barriers::default(),
            data: Data::default(),
            leaves: RefCell::default(),
            held: RefCell::default(),
            has_chores: Cell::new(false),
            due: RefCell::default(),
            pool: OnceCell::new(),
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
            Waiting::Offer { object, cell, priority } => {
                self.effects.queue.push(priority, Item::Offer { object, cell });
            }
            Waiting::Task(id) => self.leaf_has_one_less(id),
            Waiting::Shard(_) if self.effects.strikes(Bug::DroppedWakeUp) => {}
            Waiting::Shard(slot) => self.effects.wake_shard(slot),
            Waiting::OneOf { number, arrivals } => {
                if let Some(waiting) = arrivals.arrive(number) {
                    self.notify(waiting);
                }
            }
            Waiting::Waker(waker) => self.effects.wake(*waker),
        }
    }

    /// The closure that modules below use to tell waiters.
    #[inline(always)]
    pub fn teller(&self) -> impl Tell + '_ {
        |waiting, poison: Option<&Error>| self.tell(waiting, poison)
    }

    /// Tells a waiter that its wait has ended; `poison` is the error if it failed. Shards and chains look for the error
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

    /// Remembers the failures of a launcher that may not learn of them.
    #[cold]
    pub fn note_failures(&self, failures: &Failures) {
        let mut all = self.failures.borrow_mut();
        all.retain(|other| !other.is_gone());
        if !all.iter().any(|other| other.is(failures)) {
            all.push(failures.downgrade());
        }
    }

    /// The errors of failed shards of which their launchers have not learned.
    pub fn untold_failures(&self) -> Vec<Error> {
        self.failures.borrow().iter().filter_map(|failures| Some(failures.first_untold()?.error().clone())).collect()
    }

    /// How many entries there are, of any kind.
    pub fn entries(&self) -> usize {
        self.leaves.borrow().entries()
            + self.held.borrow().leases.len()
            + self.data.entries()
            + self.effects.timers_set()
    }
}
