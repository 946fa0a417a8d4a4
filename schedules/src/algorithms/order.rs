//! In which brackets contributions are combined.

use super::places::Places;
use crate::schedule::{Combine, Part, Schedule};
use std::ops::Range;

/// The brackets of a combination, which decide the bits of operators that are not associative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The brackets of [recursive doubling](super::recursive_doubling); in a scan the brackets of
    /// [`Scan`](super::Scan), which differ from rank to rank.
    #[default]
    Doubling,
    /// The brackets of a sequential loop: (((x₀ ⊕ x₁) ⊕ x₂) ⊕ …).
    Left,
    /// The algorithm's brackets. With [`two_level`](super::two_level) they depend on where the mapper places the ranks.
    Any,
}

impl Order {
    /// Cuts the positions of one node of the tree over `all` positions, which are several.
    fn halves(self, all: u32, node: Range<u32>) -> (Range<u32>, Range<u32>) {
        match self {
            Order::Doubling | Order::Any => Places::of(all).halves(node),
            Order::Left => (node.start..node.end - 1, node.end - 1..node.end),
        }
    }
}

/// Adds the reads of one rank that combines the contributions at positions 0 to `all`, in an order.
pub struct Fold<'a, R> {
    pub schedule: &'a mut Schedule,
    pub order: Order,
    pub all: u32,
    /// The blocks that are combined.
    pub blocks: Range<u32>,
    /// Adds the read of the contribution at a position.
    pub read: R,
}

impl<R: FnMut(&mut Schedule, u32, Part, Combine)> Fold<'_, R> {
    fn part(&self, register: u8) -> Part {
        Part::new(register, self.blocks.clone())
    }

    /// Combines all into a register. If this rank has a position of its own, the register holds that contribution already.
    pub fn add(mut self, register: u8, own: Option<u32>) {
        let Some(own) = own else { return self.node(0..self.all, register, Combine::Replace) };
        for (sibling, how) in siblings(self.order, self.all, own) {
            self.node(sibling, register, how);
        }
    }

    /// Combines the contributions of one node, and the result with a register.
    fn node(&mut self, node: Range<u32>, register: u8, how: Combine) {
        if node.len() == 1 {
            let part = self.part(register);
            return (self.read)(self.schedule, node.start, part, how);
        }
        let (lower, higher) = self.order.halves(self.all, node);
        // A value that only replaces needs no register of its own.
        let own = if how == Combine::Replace { register } else { register + 1 };
        self.node(lower, own, Combine::Replace);
        self.node(higher, own, Combine::IncomingIsHigher);
        if own != register {
            let (from, to) = (self.part(own), self.part(register));
            self.schedule.local(from, to, how);
        }
    }
}

/// The nodes beside the path from a position to the root, from the lowest on, and on which side they are.
fn siblings(order: Order, all: u32, own: u32) -> Vec<(Range<u32>, Combine)> {
    let (mut node, mut siblings) = (0..all, Vec::new());
    while node.len() > 1 {
        let (lower, higher) = order.halves(all, node);
        if lower.contains(&own) {
            siblings.push((higher, Combine::IncomingIsHigher));
            node = lower;
        } else {
            siblings.push((lower, Combine::IncomingIsLower));
            node = higher;
        }
    }
    siblings.reverse();
    siblings
}

/// The number of a position's contribution among those that a rank at position `own` reads.
pub fn number_of_read(order: Order, all: u32, own: Option<u32>, position: u32) -> u32 {
    let Some(own) = own else { return position };
    if order == Order::Left {
        return position - u32::from(position > own);
    }
    let mut before = 0;
    for (sibling, _) in siblings(order, all, own) {
        if sibling.contains(&position) {
            return before + position - sibling.start;
        }
        before += sibling.len() as u32;
    }
    unreachable!("position {position} of {all} is not beside {own}")
}
