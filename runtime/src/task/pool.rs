//! The pool of a node: ready leaf tasks that any processor of the node may run.
//!
//! They wait at the node's home, which has their data. Another processor has at most two of them, so that it has one to go on
//! with while the home learns that it has ended one, or runs a task of its own. Tasks are not taken back: those of a processor that
//! is in a long task of another origin wait for it. The home runs one itself once each of the others has one, and all of them
//! while they are so short that to give one away takes longer.

use super::Tasks;
use crate::effects::{Effects, Item, ReadyQueue};
use crate::ids::{ProcessorId, TaskId};
use crate::plant::Bug;
use maniple_mapper::Priority;
use smallvec::{SmallVec, smallvec};
use std::cell::{Cell, RefCell};

/// How many tasks of the pool another processor has at most.
const AHEAD: usize = 2;

/// To give a task away takes about as many nanoseconds of the home.
const SHORT: u64 = 1000;

/// The home gets so many short tasks at once.
const AT_ONCE: u32 = 8;

/// Of short tasks, one of so many is given away, to see how long it takes.
const SHOWN: u32 = 64;

pub(crate) struct Pool {
    ready: ReadyQueue,
    /// The processors that run its tasks, but for this one.
    others: Vec<ProcessorId>,
    /// Whether the home runs tasks.
    runs_some: bool,
    /// Tasks that were given to other processors, some of which may be over.
    given: RefCell<Vec<(TaskId, ProcessorId)>>,
    /// The last task that the home got, which may be over.
    own: Cell<TaskId>,
    /// When the home got short tasks, and how many, if no later look has found that they are over.
    batch: Cell<(u64, u32)>,
    /// Nanoseconds that tasks have taken of late.
    took: Cell<u64>,
    /// How many more tasks are run here before one is given away, while they are short.
    left: Cell<u32>,
}

impl Pool {
    /// A pool of a processor for the leaf processors of its node.
    fn of(effects: &Effects) -> Self {
        Self {
            ready: ReadyQueue::default(),
            others: Self::others(effects).collect(),
            runs_some: !effects.machine().is_utility(effects.id),
            given: RefCell::default(),
            own: Cell::new(TaskId::NONE),
            batch: Cell::default(),
            took: Cell::new(2 * SHORT),
            left: Cell::new(0),
        }
    }

    /// The other processors of its node that run leaf tasks.
    fn others(effects: &Effects) -> impl Iterator<Item = ProcessorId> + '_ {
        let machine = effects.machine();
        machine.leaf_processors_of(machine.node_of(effects.id)).filter(|at| *at != effects.id)
    }

    /// How many tasks the other processor has that has fewest.
    fn fewest(&self) -> Option<(usize, ProcessorId)> {
        let mut has: SmallVec<[usize; 16]> = smallvec![0; self.others.len()];
        for (_, to) in self.given.borrow().iter() {
            // In the order of their numbers.
            has[self.others.partition_point(|at| at < to)] += 1;
        }
        has.into_iter().zip(self.others.iter().copied()).min()
    }

    /// A task took this long.
    pub fn took(&self, nanoseconds: u64) {
        self.took.set((3 * self.took.get() + nanoseconds) / 4);
    }

    /// The home has run the short tasks that it got. They have taken at most this long, as it may have done something else, too.
    fn is_through(&self, now: u64) {
        let (since, count) = self.batch.take();
        if let Some(each) = now.saturating_sub(since).checked_div(u64::from(count)) {
            // More than a few times as long says nothing about the next ones.
            self.took(each.min(4 * SHORT));
        }
    }

    /// Whether tasks are so short that the home runs them itself.
    fn are_short(&self) -> bool {
        self.runs_some && self.took.get() < SHORT
    }

    /// Whether the next task is given away although it is probably short.
    fn shows_next(&self) -> bool {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.unwrap_or(SHOWN));
        left.is_none()
    }
}

impl Tasks {
    /// The pool, which is made when it is first needed.
    fn open_pool(&self) -> &Pool {
        self.pool.get_or_init(|| Box::new(Pool::of(&self.effects)))
    }

    /// Has the tasks of a flow use the pool, if other processors can run some of them.
    pub fn pool_flow(&self) {
        if Pool::others(&self.effects).next().is_some() {
            self.open_pool();
        }
    }

    /// Whether a planted bug runs a task twice that the pool has given to another processor.
    #[cold]
    pub(super) fn doubles(&self, id: TaskId) -> bool {
        let given = |pool: &Pool| pool.given.borrow().iter().any(|(given, _)| *given == id);
        self.effects.has(Bug::DoubledPoolTask)
            && self.pool.get().is_some_and(|pool| given(pool))
            && self.effects.strikes(Bug::DoubledPoolTask)
    }

    /// Adds a ready task to the pool. It is given to a processor with the next [`refill`](Self::refill).
    #[cold]
    pub(super) fn pool_leaf(&self, id: TaskId, priority: Priority) {
        let pool = self.open_pool();
        // The first of several comes as an item, of no task, after which tasks are given away. When processors end theirs, they
        // get the others.
        if pool.ready.is_empty() {
            self.effects.queue.push_away(TaskId::NONE);
        }
        pool.ready.push(priority, Item::Leaf(id));
        self.has_chores.set(true);
    }

    /// Gives tasks of the pool to processors that have few. Whether any are left.
    pub fn refill(&self) -> bool {
        let Some(pool) = self.pool.get() else { return false };
        self.refill_from(pool);
        !pool.ready.is_empty()
    }

    fn refill_from(&self, pool: &Pool) {
        if pool.ready.is_empty() {
            return;
        }
        let mut is_busy = !pool.runs_some || self.leaves.borrow().is_ready(pool.own.get());
        if !is_busy && pool.batch.get().1 > 0 {
            pool.is_through(self.effects.wire.now());
        }
        if pool.are_short() {
            let mut given = 0;
            while !is_busy && given < AT_ONCE && !pool.ready.is_empty() && !pool.shows_next() {
                given += u32::from(self.give(pool, self.effects.id));
            }
            if given > 0 {
                pool.batch.set((self.effects.wire.now(), given));
            }
            if is_busy || given == AT_ONCE || pool.ready.is_empty() {
                return;
            }
        }
        pool.given.borrow_mut().retain(|(id, _)| self.leaves.borrow().is_ready(*id));
        while !pool.ready.is_empty() {
            match pool.fewest() {
                Some((0, at)) => self.give(pool, at),
                _ if !is_busy => {
                    is_busy = true;
                    self.give(pool, self.effects.id)
                }
                Some((..AHEAD, at)) => self.give(pool, at),
                _ => return,
            };
            if pool.are_short() {
                return;
            }
        }
    }

    /// Gives the next task of the pool to a processor. False if it is over already.
    fn give(&self, pool: &Pool, to: ProcessorId) -> bool {
        let Some(Item::Leaf(id)) = pool.ready.pop_nth(|n| self.effects.wire.pick(n)) else { return false };
        let mut leaves = self.leaves.borrow_mut();
        let Some(leaf) = leaves.get(id).filter(|_| !self.effects.strikes(Bug::LostPoolTask)) else { return false };
        leaf.processor = to;
        let priority = leaf.priority;
        drop(leaves);
        match to == self.effects.id {
            true => {
                pool.own.set(id);
                self.effects.queue.push(priority, Item::Leaf(id));
            }
            false => {
                pool.given.borrow_mut().push((id, to));
                self.effects.queue.push_away(id);
            }
        }
        true
    }
}
