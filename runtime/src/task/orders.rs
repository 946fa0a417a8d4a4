//! Orders of the runtime itself in the order of tasks. What an order does is known to the modules above; here it is an entry
//! that waits for its predecessors and for other events.

use super::Tasks;
use crate::data::Column;
use crate::ids::TaskId;
use crate::message::Does;
use crate::task::slab::Next;
use smallvec::SmallVec;

impl Tasks {
    /// Reserves an entry for an order. It starts at the earliest after a [`order_one_less`](Self::order_one_less).
    pub fn reserve_order(&self) -> TaskId {
        self.leaves.borrow_mut().reserve_order()
    }

    /// Whether there are leaf tasks beside this many orders.
    pub fn has_leaves(&self, orders: usize) -> bool {
        self.leaves.borrow().entries() > orders
    }

    /// The order follows the users of a column, but for launches that its launcher is part of.
    pub fn order_follows(
        &self,
        id: TaskId,
        column: &Column,
        (does, launcher): (Does, u32),
        is_around: impl Fn(TaskId) -> bool,
    ) {
        let mut leaves = self.leaves.borrow_mut();
        let mut found = 0;
        let mut follow = |earlier| {
            // Most are over.
            if leaves.is_there(earlier) && earlier != id && !is_around(earlier) {
                found += u32::from(leaves.add_successor(earlier, id));
            }
        };
        column.users.borrow().before(does, launcher, &mut follow);
        // Leaf tasks of the inner task that holds it.
        column.each_overlap(|part| part.users.borrow().earlier(does == Does::Writes, &mut follow));
        leaves.slab[id.index as usize].unmet += found;
    }

    /// The order uses a column: later users follow it.
    pub fn order_uses(&self, id: TaskId, column: &Column, of: (Does, u32), is_around: impl Fn(TaskId) -> bool) {
        let leaves = self.leaves.borrow();
        column.users.borrow_mut().add_order(id, of, is_around, |other| leaves.is_there(other));
    }

    /// The order waits for one event more.
    pub fn order_waits(&self, id: TaskId) {
        self.leaves.borrow_mut().slab[id.index as usize].unmet += 1;
    }

    /// The order waits for one thing less.
    pub fn order_one_less(&self, id: TaskId) {
        self.leaf_has_one_less(id);
    }

    /// The order is over: what follows it may go on.
    pub fn end_order(&self, id: TaskId) {
        let mut others: SmallVec<[(TaskId, Next); 4]> = SmallVec::new();
        self.leaves.borrow_mut().end_order(id, |id, next| match next {
            Next::Nothing => {}
            other => others.push((id, other)),
        });
        others.into_iter().for_each(|(id, next)| self.go_on(id, next));
    }

    /// Takes an order that is to be carried out.
    pub fn next_order(&self) -> Option<TaskId> {
        self.due.borrow_mut().pop_front()
    }

    /// Whether nobody uses a column any more.
    pub fn is_unused(&self, column: &Column) -> bool {
        let leaves = self.leaves.borrow();
        column.users.borrow().are_over(|id| leaves.is_there(id))
    }

    /// The entries that an entry waits for, by their places in the slab.
    pub fn before(&self, id: TaskId) -> Vec<u32> {
        self.leaves.borrow().before(id)
    }
}
