//! What an operation does to the points of a region. A processor orders its operations by this.

use crate::ids::ColumnKey;
use maniple_regions::{FieldId, Rect, TreeId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An operation's effect on points of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Does {
    Reads,
    /// New values. All users of the points come before or after, in any instance.
    Writes,
    /// Old values from another instance. Only users of the same instance come before or after.
    Brings {
        /// The inner task that launches holds the points to read, so nobody writes them while it runs.
        lasting: bool,
    },
}

/// An operation's effect on a rectangle in one field of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Touch {
    pub tree: TreeId,
    pub field: FieldId,
    pub does: Does,
    pub rect: Rect,
    /// The rectangle of the instance, if it is a different one. There are many, so they are small.
    other: Option<Box<Rect>>,
}

impl Touch {
    pub fn new(column: &ColumnKey, does: Does, instance: Rect) -> Self {
        let other = (does != Does::Writes && instance != column.rect).then(|| Box::new(instance));
        Self { tree: column.tree, field: column.field, does, rect: column.rect, other }
    }

    /// The rectangle of the instance; `None` for writes, where the instance does not matter.
    pub fn instance(&self) -> Option<Rect> {
        (self.does != Does::Writes).then(|| self.other.as_ref().map_or(self.rect, |other| **other))
    }

    /// Whether both have a point in common, and use the same instance or one of them writes.
    pub fn meets(&self, other: &Self) -> bool {
        let one = self.does == Does::Writes || other.does == Does::Writes || self.instance() == other.instance();
        one && (self.tree, self.field) == (other.tree, other.field) && self.rect.overlaps(&other.rect)
    }

    /// Everything but the rectangle.
    fn kind(&self) -> (TreeId, FieldId, Does, Option<Rect>) {
        (self.tree, self.field, self.does, self.instance())
    }

    /// The same points with fewer rectangles: neighbours such as the blocks of a row are joined.
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

/// The union of two rectangles of the same dimension, if it is a rectangle.
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

/// The least rectangle around two of the same dimension.
pub(crate) fn hull(a: &Rect, b: &Rect) -> Rect {
    let lo = |d| a.lo(d).min(b.lo(d));
    let hi = |d| a.hi(d).max(b.hi(d));
    match a.dim() {
        1 => Rect::new([lo(0)], [hi(0)]),
        2 => Rect::new([lo(0), lo(1)], [hi(0), hi(1)]),
        _ => Rect::new([lo(0), lo(1), lo(2)], [hi(0), hi(1), hi(2)]),
    }
}
