//! Numbers of processors and nodes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// The number of a processor in its [`Machine`](crate::Machine), counted from 0 over all nodes.
///
/// It is shown and serialized as the bare number. Shards have plain numbers, which this type keeps apart from
/// processors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessorId(pub u32);

/// The number of a node in its [`Machine`](crate::Machine), counted from 0.
///
/// It is shown and serialized as the bare number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node of an item in a row and a column if the items are dealt to `nodes` nodes, at least one, block-cyclically in both
    /// directions. The nodes are a grid that is as square as can be, with no more rows than columns.
    ///
    /// ```
    /// # use maniple_mapper::NodeId;
    /// // Six nodes are two rows of three.
    /// assert_eq!([(0, 0), (0, 4), (3, 2), (-1, -1)].map(|item| NodeId::dealt(item, 6).0), [0, 1, 5, 5]);
    /// ```
    pub fn dealt((row, column): (i64, i64), nodes: u32) -> Self {
        let rows = (1..=nodes.isqrt()).rev().find(|rows| nodes.is_multiple_of(*rows)).unwrap_or(1);
        let (rows, columns) = (i64::from(rows), i64::from(nodes / rows));
        Self((row.rem_euclid(rows) * columns + column.rem_euclid(columns)) as u32)
    }
}

impl ProcessorId {
    /// Any processor of the task's node, whichever is free first. It is an answer of [`map_leaf`](crate::Mapper::map_leaf) and
    /// [`slice_index`](crate::Mapper::slice_index) only, and no processor of a machine has this number.
    pub const ANYWHERE: ProcessorId = ProcessorId(u32::MAX);

    /// The number as a position in a list with one entry for each processor.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// The number as a position in a list with one entry for each node.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Shows a number, with the formatter's width.
macro_rules! bare {
    ($($id:ident)+) => { $(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )+ };
}

bare!(ProcessorId NodeId);

/// Consecutive processors in ascending order, as [`Machine::processors_of`](crate::Machine::processors_of) gives them.
///
/// It is an iterator over [`ProcessorId`]s, and shown like a range of numbers, `3..6`.
#[derive(Clone, PartialEq, Eq)]
pub struct ProcessorRange(Range<u32>);

impl ProcessorRange {
    /// The processors from `start` up to the one before `end`.
    #[inline]
    pub(crate) fn new(start: u32, end: u32) -> Self {
        Self(start..end)
    }

    /// The processor `nth` places after the first one of the range. It may be past the end.
    #[inline]
    pub(crate) fn at(&self, nth: u32) -> ProcessorId {
        ProcessorId(self.0.start + nth)
    }

    /// Whether a processor is in the range. Processors that the iterator has given out are not.
    #[inline]
    pub fn contains(&self, processor: ProcessorId) -> bool {
        self.0.contains(&processor.0)
    }
}

impl Iterator for ProcessorRange {
    type Item = ProcessorId;

    #[inline]
    fn next(&mut self) -> Option<ProcessorId> {
        self.0.next().map(ProcessorId)
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<ProcessorId> {
        self.0.nth(n).map(ProcessorId)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl DoubleEndedIterator for ProcessorRange {
    fn next_back(&mut self) -> Option<ProcessorId> {
        self.0.next_back().map(ProcessorId)
    }
}

impl ExactSizeIterator for ProcessorRange {
    fn len(&self) -> usize {
        self.0.end.saturating_sub(self.0.start) as usize
    }
}

impl fmt::Debug for ProcessorRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_bare_numbers() {
        let (p, n) = (ProcessorId(7), NodeId(2));
        assert_eq!(format!("{p} {p:?} {p:>3} {n} {n:?}"), "7 7   7 2 2");
        assert_eq!(serde_json::to_string(&(p, n)).unwrap(), "[7,2]");
        assert_eq!(serde_json::from_str::<(ProcessorId, NodeId)>("[7,2]").unwrap(), (p, n));
    }

    #[test]
    fn ranges_are_those_of_numbers() {
        let range = ProcessorRange::new(3, 6);
        assert_eq!((format!("{range:?}"), range.len()), ("3..6".into(), 3));
        assert!(range.contains(ProcessorId(3)) && !range.contains(ProcessorId(6)));
        assert_eq!(range.clone().rev().collect::<Vec<_>>(), [5, 4, 3].map(ProcessorId));
        assert_eq!(range.clone().nth(1), Some(ProcessorId(4)));
        assert_eq!(ProcessorRange::new(6, 3).len(), 0);
    }
}
