//! What an operation does to the points of a region, so that a processor can order its operations.

use crate::ids::ColumnKey;
use maniple_regions::{FieldId, Rect, TreeId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What an operation does to points of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Does {
    Reads,
    /// New values: whoever uses the points, in any instance, comes before or after.
    Writes,
    /// Old values that come from another instance: only users of this very instance come before or after.
    Brings {
        /// The parent that asks holds the points to read, so that nobody writes them as long as it runs.
        lasting: bool,
    },
}

/// What an operation does to the points of a rectangle in one field of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Touch {
    pub tree: TreeId,
    pub field: FieldId,
    pub does: Does,
    pub rect: Rect,
    /// The rectangle of the instance, where it is not just that one. There are many: they are small.
    other: Option<Box<Rect>>,
}

impl Touch {
    pub fn new(column: &ColumnKey, does: Does, instance: Rect) -> Self {
        let other = (does != Does::Writes && instance != column.rect).then(|| Box::new(instance));
        Self { tree: column.tree, field: column.field, does, rect: column.rect, other }
    }

    /// The rectangle of the instance; none to write, because it does not matter which.
    pub fn instance(&self) -> Option<Rect> {
        (self.does != Does::Writes).then(|| self.other.as_ref().map_or(self.rect, |other| **other))
    }

    /// Whether both are of one instance or one of them writes, and they have a point in common.
    pub fn meets(&self, other: &Self) -> bool {
        let one = self.does == Does::Writes || other.does == Does::Writes || self.instance() == other.instance();
        one && (self.tree, self.field) == (other.tree, other.field) && self.rect.overlaps(&other.rect)
    }

    /// What tells it apart but for the rectangle.
    fn kind(&self) -> (TreeId, FieldId, Does, Option<Rect>) {
        (self.tree, self.field, self.does, self.instance())
    }

    /// The same points with fewer rectangles, where neighbours are one: a row of blocks.
    pub fn joined(mut all: Vec<Self>) -> Arc<[Self]> {
        all.sort_unstable_by_key(|t| (t.kind(), t.rect));
        let mut joined: Vec<Self> = Vec::with_capacity(all.len());
        for mut last in all {
            while let Some(before) = joined.last().filter(|before| before.kind() == last.kind())
                && let Some(rect) = union_of(before.rect, last.rect)
            {
                let Self { tree, field, does, .. } = last;
                last = Self::new(&ColumnKey { tree, field, rect }, does, last.instance().unwrap_or(rect));
                joined.pop();
            }
            joined.push(last);
        }
        joined.into()
    }
}

/// The union of two rectangles of the same dimension, when it is one.
pub(crate) fn union_of(a: Rect, b: Rect) -> Option<Rect> {
    if a.contains_rect(&b) || b.contains_rect(&a) {
        return Some(hull(&a, &b));
    }
    let mut differ = (0..a.dim()).filter(|&d| (a.lo(d), a.hi(d)) != (b.lo(d), b.hi(d)));
    match (differ.next(), differ.next()) {
        (Some(d), None) if a.lo(d) <= b.hi(d) && b.lo(d) <= a.hi(d) => Some(hull(&a, &b)),
        _ => None,
    }
}

fn hull(a: &Rect, b: &Rect) -> Rect {
    let lo = |d| a.lo(d).min(b.lo(d));
    let hi = |d| a.hi(d).max(b.hi(d));
    match a.dim() {
        1 => Rect::new([lo(0)], [hi(0)]),
        2 => Rect::new([lo(0), lo(1)], [hi(0), hi(1)]),
        _ => Rect::new([lo(0), lo(1), lo(2)], [hi(0), hi(1), hi(2)]),
    }
}
