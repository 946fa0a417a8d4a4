//! A processor's clock in virtual time. An operation takes its count times its cost.
//!
//! Processors count their operations on every wire. The meter puts a cost on each count and adds them up. So the
//! runtime reads no clock for this, and does the same work on every wire. The time of a leaf task is added when it
//! ends.
//!
//! Launching a shard again is charged to the launcher, as a launch with its requirements. The start of the shard is
//! charged to the processor that runs it.
//!
//! A machine may be without replay, as Legion was when the founding paper was written. Each subtask of a collective
//! then costs as much as launching, mapping, starting and completing a leaf task. All of that is charged when the
//! subtask runs, to the processor that runs it. Charging a part of it at the call would hardly change who waits for
//! whom, and would not change the sum.

use super::machine::{CostsPs, Ps, VirtualMachine};
use crate::ids::{ObjectId, TopLaunch};
use crate::processor::Core;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

pub(super) struct Meter {
    core: OnceCell<Weak<Core>>,
    costs: RefCell<Rc<CostsPs>>,
    /// The number of shards that these costs are for.
    shards: Cell<usize>,
    /// The time on the clock if nothing had ever been counted.
    zero: Cell<Ps>,
    /// The work of the leaf task that is being called, and how many had ended before.
    work: Cell<Ps>,
    over: Cell<u64>,
}

impl Meter {
    pub fn new(costs: Rc<CostsPs>) -> Self {
        let (core, costs, shards) = (OnceCell::new(), RefCell::new(costs), Cell::new(1));
        Self { core, costs, shards, zero: Cell::new(0), work: Cell::new(0), over: Cell::new(0) }
    }

    pub fn belongs_to(&self, core: &Rc<Core>) {
        let _ = self.core.set(Rc::downgrade(core));
    }

    fn counted(&self) -> Ps {
        let Some(core) = self.core.get().and_then(Weak::upgrade) else { return 0 };
        let (n, c) = (&core.effects().counters, self.costs.borrow());
        let each = [
            (&n.shards, c.shards),
            (&n.launches, c.launches),
            (&n.requirements, c.requirements),
            (&n.edge_values, c.edge_values),
            (&n.inputs, c.inputs),
            (&n.elsewhere, c.elsewhere),
            (&n.mapper_calls, c.mapper_calls),
            (&n.leaf_tasks, c.leaf_tasks),
            (&n.chain_subtasks, c.chain_subtasks),
            (&n.chain_calls, c.chain_calls),
            (&n.combined_bytes, c.combined_bytes),
            (&n.arrivals, c.arrivals),
            (&n.chain_arrivals, c.chain_arrivals),
            (&n.polls, c.polls),
        ];
        let work = if n.leaf_tasks.get() > self.over.get() { self.work.get() } else { 0 };
        each.into_iter().fold(work, |sum: Ps, (count, cost)| sum.wrapping_add(count.get().wrapping_mul(cost)))
    }

    pub fn now(&self) -> Ps {
        self.zero.get().wrapping_add(self.counted())
    }

    /// Sets the clock at the beginning of a step.
    pub fn begin(&self, now: Ps, machine: &VirtualMachine) {
        if !machine.crowded.is_empty() {
            let shards = self.core.get().and_then(Weak::upgrade).map_or(1, |core| core.effects().most_there());
            if shards != self.shards.replace(shards) {
                self.costs.replace(Rc::new(machine.costs_ps(shards)));
            }
        }
        self.set(now);
    }

    /// The cost of handling a message.
    pub fn message(&self) -> Ps {
        self.costs.borrow().message
    }

    /// The work of a leaf task whose regions and values have `bytes` bytes.
    pub fn work(&self, machine: &VirtualMachine, name: &str, bytes: impl FnOnce() -> usize) -> Ps {
        machine.work(name, bytes, self.shards.get())
    }

    fn set(&self, now: Ps) {
        self.work.set(0);
        self.zero.set(now.wrapping_sub(self.counted()));
    }

    /// Shards of a gang are launched. Without replay each launch names the ends of its shard's edges, and maps the cells of
    /// the edges that lead to it.
    pub fn launches(&self, gang: ObjectId, by: TopLaunch, shards: &mut dyn Iterator<Item = u32>) {
        let (value, region) = (self.costs.borrow().edge_values, self.costs.borrow().edge_regions);
        let Some(core) = self.core.get().and_then(Weak::upgrade).filter(|_| (value, region) != (0, 0)) else { return };
        let known = core.effects().objects.of_gang(gang, by);
        for shard in shards {
            for edges in known.iter().filter_map(|known| known.object.edges()) {
                let (out, into) = (edges.out.of(shard).len() as Ps, edges.into.of(shard).len() as Ps);
                self.spend((out + into).wrapping_mul(value).wrapping_add(into.wrapping_mul(region)));
            }
        }
    }

    /// A leaf task is called. Its work is added when it ends.
    pub fn works(&self, work: Ps) {
        let Some(core) = self.core.get().and_then(Weak::upgrade) else { return };
        // This includes the work of an earlier leaf task.
        let now = self.now() + self.costs.borrow().start;
        self.over.set(core.effects().counters.leaf_tasks.get());
        self.set(now);
        self.work.set(work);
    }

    /// Adds any other time.
    pub fn spend(&self, time: Ps) {
        self.zero.set(self.zero.get().wrapping_add(time));
    }
}
