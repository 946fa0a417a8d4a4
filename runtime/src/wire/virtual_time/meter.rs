//! A processor's clock in virtual time: it goes on by what the processor has counted.

use super::machine::{CostsPs, Ps, VirtualMachine};
use crate::processor::Core;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

pub(super) struct Meter {
    core: OnceCell<Weak<Core>>,
    costs: RefCell<Rc<CostsPs>>,
    /// The shards that these are for.
    shards: Cell<usize>,
    /// What the clock would say if nothing had ever been counted.
    zero: Cell<Ps>,
    /// The work of the leaf task that is called, and how many had been over by then.
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
            (&n.edge_regions, c.edge_regions),
            (&n.inputs, c.inputs),
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

    /// Sets the clock: a step begins.
    pub fn begin(&self, now: Ps, machine: &VirtualMachine) {
        if !machine.crowded.is_empty() {
            let shards = self.core.get().and_then(Weak::upgrade).map_or(1, |core| core.effects().most_there());
            if shards != self.shards.replace(shards) {
                self.costs.replace(Rc::new(machine.costs_ps(shards)));
            }
        }
        self.set(now);
    }

    /// What the taking in of a message costs.
    pub fn message(&self) -> Ps {
        self.costs.borrow().message
    }

    /// The work of a leaf task that names regions of so many bytes.
    pub fn work(&self, machine: &VirtualMachine, name: &str, bytes: usize) -> Ps {
        machine.work(name, bytes, self.shards.get())
    }

    fn set(&self, now: Ps) {
        self.work.set(0);
        self.zero.set(now.wrapping_sub(self.counted()));
    }

    /// A leaf task is called: its work is done when it is over.
    pub fn works(&self, work: Ps) {
        let Some(core) = self.core.get().and_then(Weak::upgrade) else { return };
        // With that of an earlier one.
        let now = self.now() + self.costs.borrow().start;
        self.over.set(core.effects().counters.leaf_tasks.get());
        self.set(now);
        self.work.set(work);
    }

    /// Something else takes this long.
    pub fn spend(&self, time: Ps) {
        self.zero.set(self.zero.get().wrapping_add(time));
    }
}
