use crate::message::{ColumnKey, ProcessorId, Transfer, Valid};
use maniple_regions::{FieldId, Rect, TreeId};
use std::collections::HashMap;

/// Instances that hold valid values: the instance's rectangle and its processor.
type Holders = Vec<(Rect, ProcessorId)>;

/// What is known to be valid where, as one parent sees it. Every copy of a replicated parent computes the same.
#[derive(Default)]
pub(crate) struct Versions {
    columns: HashMap<(TreeId, FieldId), Pieces>,
}

/// Disjoint rectangles that were written, each with its holders.
#[derive(Default)]
struct Pieces {
    map: HashMap<Rect, Holders>,
    /// Order of first writing, so that scans are the same everywhere.
    order: Vec<Rect>,
    bounds: Option<Rect>,
}

impl Pieces {
    fn outside(&self, rect: &Rect) -> bool {
        self.bounds.is_none_or(|b| !b.overlaps(rect))
    }

    fn insert(&mut self, rect: Rect, holders: Holders) {
        if self.map.insert(rect, holders).is_none() {
            self.order.push(rect);
        }
        self.bounds = Some(self.bounds.map_or(rect, |b| hull(&b, &rect)));
    }

    fn write(&mut self, rect: Rect, holder: (Rect, ProcessorId)) {
        if rect.is_empty() {
            return;
        }
        if let Some(holders) = self.map.get_mut(&rect) {
            holders.clear();
            holders.push(holder);
            return;
        }
        if !self.outside(&rect) {
            let cut: Vec<Rect> = self.order.iter().filter(|r| r.overlaps(&rect)).copied().collect();
            if !cut.is_empty() {
                self.order.retain(|r| !r.overlaps(&rect));
            }
            for old in cut {
                let holders = self.map.remove(&old).unwrap_or_default();
                for rest in old.subtract(&rect) {
                    self.insert(rest, holders.clone());
                }
            }
        }
        self.insert(rect, vec![holder]);
    }

    /// Calls `copy(part, holder)` for each part of `rect` that is not valid in the instance `into`.
    fn read(&self, rect: Rect, into: (Rect, ProcessorId), mut copy: impl FnMut(Rect, (Rect, ProcessorId))) {
        let mut one = |piece: Rect, holders: &Holders| {
            if holders.contains(&into) {
                return;
            }
            let from = holders.iter().find(|h| h.1 == into.1).or(holders.first()).copied();
            if let Some(from) = from {
                copy(piece.intersect(&rect), from);
            }
        };
        if let Some(holders) = self.map.get(&rect) {
            return one(rect, holders);
        }
        if self.outside(&rect) {
            return;
        }
        for piece in self.order.iter().filter(|p| p.overlaps(&rect)) {
            if let Some(holders) = self.map.get(piece) {
                one(*piece, holders);
            }
        }
    }

    /// All of `rect` has become valid in the instance `into`.
    fn hold(&mut self, rect: Rect, into: (Rect, ProcessorId)) {
        let one = |holders: &mut Holders| {
            if !holders.contains(&into) {
                holders.push(into);
            }
        };
        if let Some(holders) = self.map.get_mut(&rect) {
            return one(holders);
        }
        if self.outside(&rect) {
            return;
        }
        for piece in self.order.iter().filter(|p| rect.contains_rect(p)) {
            if let Some(holders) = self.map.get_mut(piece) {
                one(holders);
            }
        }
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

/// The smallest rectangle that contains both, which have the same dimension.
pub(crate) fn hull_of(a: Option<Rect>, b: Rect) -> Rect {
    a.map_or(b, |a| hull(&a, &b))
}

impl Versions {
    /// `key` was, or will be, written through the instance over `from` on `at`.
    pub fn write(&mut self, key: &ColumnKey, from: Rect, at: ProcessorId) {
        self.columns.entry((key.tree, key.field)).or_default().write(key.rect, (from, at));
    }

    /// The transfers that make `key` valid in its own instance on `at`; `emit(source, transfer)` gets each. Where they are
    /// made, [`Self::hold`] says so.
    pub fn read(&self, key: &ColumnKey, at: ProcessorId, mut emit: impl FnMut(ProcessorId, Transfer)) {
        let Some(pieces) = self.columns.get(&(key.tree, key.field)) else {
            return;
        };
        pieces.read(key.rect, (key.rect, at), |rect, (from, source)| {
            emit(source, Transfer { tree: key.tree, field: key.field, rect, from, into: key.rect });
        });
    }

    /// `key` is, or will be, valid in its own instance on `at`, beside where it was before.
    pub fn hold(&mut self, key: &ColumnKey, at: ProcessorId) {
        if let Some(pieces) = self.columns.get_mut(&(key.tree, key.field)) {
            pieces.hold(key.rect, (key.rect, at));
        }
    }

    /// Everything known to be valid within `key`.
    pub fn within(&self, key: &ColumnKey) -> Vec<Valid> {
        let Some(pieces) = self.columns.get(&(key.tree, key.field)) else {
            return Vec::new();
        };
        let inside = pieces.order.iter().filter(|p| p.overlaps(&key.rect));
        inside
            .filter_map(|p| {
                let (from, at) = *pieces.map.get(p)?.first()?;
                Some(Valid { column: ColumnKey { rect: p.intersect(&key.rect), ..*key }, from, at })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(lo: i64, hi: i64) -> ColumnKey {
        ColumnKey { tree: TreeId(0), field: FieldId(0), rect: Rect::line(lo, hi) }
    }

    proptest! {
        /// Against a model that really moves values: instances as maps from point to version number.
        #[test]
        fn transfers_bring_exactly_the_last_written_values(
            steps in prop::collection::vec((any::<bool>(), 0i64..20, 1i64..20, 0u32..3), 1..40)
        ) {
            let mut versions = Versions::default();
            let mut truth: HashMap<i64, usize> = HashMap::new();
            let mut instances: HashMap<(Rect, u32), HashMap<i64, usize>> = HashMap::new();
            for (number, (write, lo, len, at)) in steps.into_iter().enumerate() {
                let key = key(lo, lo + len);
                if !write {
                    let mut moves = Vec::new();
                    versions.read(&key, at, |source, t| moves.push((source, t)));
                    versions.hold(&key, at);
                    for (source, t) in moves {
                        for x in t.rect.lo(0)..t.rect.hi(0) {
                            let value = instances[&(t.from, source)].get(&x).copied();
                            if let Some(v) = value {
                                instances.entry((t.into, at)).or_default().insert(x, v);
                            }
                        }
                    }
                    let here = instances.entry((key.rect, at)).or_default();
                    for x in lo..lo + len {
                        if let Some(v) = truth.get(&x) {
                            prop_assert_eq!(here.get(&x), Some(v), "point {} of {}", x, key.rect);
                        }
                    }
                } else {
                    versions.write(&key, key.rect, at);
                    for x in lo..lo + len {
                        truth.insert(x, number);
                        instances.entry((key.rect, at)).or_default().insert(x, number);
                    }
                }
            }
        }
    }
}
