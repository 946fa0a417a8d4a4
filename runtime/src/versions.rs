use crate::message::{ColumnKey, ProcessorId, Transfer, Valid};
use maniple_regions::{FieldId, Rect, TreeId};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// An instance that holds valid values: its rectangle and its processor.
type Holder = (Rect, ProcessorId);

/// The instances that hold valid values of a piece.
#[derive(Clone)]
enum Holders {
    /// One over just the piece: so it is nearly always, and pieces may be many.
    Own(ProcessorId),
    Several(Box<Several>),
}

/// Holders in the order in which they came.
#[derive(Clone, Default)]
struct Several {
    list: Vec<Holder>,
    /// Where the first holder of each processor is in the list, of which there may be very many.
    first: HashMap<ProcessorId, usize>,
}

impl Several {
    fn of(list: impl IntoIterator<Item = Holder>) -> Self {
        let mut several = Self::default();
        list.into_iter().for_each(|holder| several.add(holder));
        several
    }

    fn at(&self, processor: ProcessorId) -> Option<Holder> {
        self.first.get(&processor).map(|&first| self.list[first])
    }

    fn contains(&self, holder: Holder) -> bool {
        let of_it = |&first: &usize| self.list[first] == holder || self.list[first..].contains(&holder);
        self.first.get(&holder.1).is_some_and(of_it)
    }

    fn add(&mut self, holder: Holder) {
        if !self.contains(holder) {
            self.first.entry(holder.1).or_insert(self.list.len());
            self.list.push(holder);
        }
    }

    fn processors(&self) -> Vec<ProcessorId> {
        let is_first = |(at, holder): &(usize, &Holder)| self.first.get(&holder.1) == Some(at);
        self.list.iter().enumerate().filter(is_first).map(|(_, holder)| holder.1).collect()
    }
}

impl Holders {
    fn of(piece: Rect, holder: Holder) -> Self {
        if piece == holder.0 { Self::Own(holder.1) } else { Self::Several(Box::new(Several::of([holder]))) }
    }

    fn first(&self, piece: &Rect) -> Option<Holder> {
        match self {
            Self::Own(processor) => Some((*piece, *processor)),
            Self::Several(several) => several.list.first().copied(),
        }
    }

    /// The first one on a processor.
    fn at(&self, piece: &Rect, processor: ProcessorId) -> Option<Holder> {
        match self {
            Self::Own(own) => (*own == processor).then_some((*piece, processor)),
            Self::Several(several) => several.at(processor),
        }
    }

    fn contains(&self, piece: &Rect, holder: Holder) -> bool {
        match self {
            Self::Own(own) => holder == (*piece, *own),
            Self::Several(several) => several.contains(holder),
        }
    }

    fn add(&mut self, piece: &Rect, holder: Holder) {
        match self {
            Self::Own(own) if holder == (*piece, *own) => {}
            Self::Own(own) => *self = Self::Several(Box::new(Several::of([(*piece, *own), holder]))),
            Self::Several(several) => several.add(holder),
        }
    }
}

/// What may be known of a piece.
trait Known: Clone {
    /// Of a part of it.
    fn of_part(&self, _piece: &Rect) -> Self {
        self.clone()
    }
}

impl Known for Holders {
    fn of_part(&self, piece: &Rect) -> Self {
        match self {
            Self::Own(own) => Self::Several(Box::new(Several::of([(*piece, *own)]))),
            Self::Several(_) => self.clone(),
        }
    }
}

/// What is known to be valid where, as one parent sees it. Every copy of a replicated parent computes the same.
#[derive(Default)]
pub(crate) struct Versions {
    columns: HashMap<(TreeId, FieldId), Pieces<Holders>>,
}

/// Disjoint rectangles, each with what is known of it: holders, of one that was written. Ordered by their first points, so
/// that scans are the same everywhere and look only where an overlap can be.
struct Pieces<T> {
    map: BTreeMap<Rect, T>,
    /// The longest piece in the first dimension.
    longest: i64,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self { map: BTreeMap::new(), longest: 0 }
    }
}

impl<T: Known> Pieces<T> {
    /// Where pieces that overlap `rect` are.
    fn range(&self, rect: Rect) -> Range<Rect> {
        let from = starting_at(rect, rect.lo(0));
        let first = if rect.dim() == 1 {
            // On a line only the last of those that start before it can reach into it.
            self.map.range(..from).next_back().map_or(from, |(before, _)| *before)
        } else {
            starting_at(rect, rect.lo(0).saturating_sub(self.longest))
        };
        first..starting_at(rect, rect.hi(0)).max(first)
    }

    fn overlapping(&self, rect: Rect) -> impl Iterator<Item = (&Rect, &T)> {
        self.map.range(self.range(rect)).filter(move |(r, _)| r.overlaps(&rect))
    }

    fn insert(&mut self, rect: Rect, known: T) {
        self.longest = self.longest.max(rect.hi(0).saturating_sub(rect.lo(0)));
        self.map.insert(rect, known);
    }

    fn write(&mut self, rect: Rect, known: T) {
        if rect.is_empty() {
            return;
        }
        if let Some(of_piece) = self.map.get_mut(&rect) {
            *of_piece = known;
            return;
        }
        let cut: Vec<Rect> = self.overlapping(rect).map(|(r, _)| *r).collect();
        for old in cut {
            let Some(of_piece) = self.map.remove(&old) else { continue };
            for rest in old.subtract(&rect) {
                self.insert(rest, of_piece.of_part(&old));
            }
        }
        self.insert(rect, known);
    }
}

impl Pieces<Holders> {
    /// Calls `copy(part, holder)` for each part of `rect` that is not valid in the instance `into`, from the same processor
    /// if that has it, else from the one that `select` says, which is given the part and the processors that have it.
    fn read(
        &self,
        rect: Rect,
        into: (Rect, ProcessorId),
        mut select: impl FnMut(Rect, &[ProcessorId]) -> ProcessorId,
        mut copy: impl FnMut(Rect, (Rect, ProcessorId)),
    ) {
        for (piece, holders) in self.overlapping(rect) {
            if holders.contains(piece, into) {
                continue;
            }
            let part = piece.intersect(&rect);
            let from = holders.at(piece, into.1).or_else(|| match holders {
                Holders::Several(several) if several.list.len() > 1 => match &several.processors()[..] {
                    [_] => holders.first(piece),
                    processors => holders.at(piece, select(part, processors)),
                },
                _ => holders.first(piece),
            });
            if let Some(from) = from {
                copy(part, from);
            }
        }
    }

    /// All of `rect` has become valid in the instance `into`.
    fn hold(&mut self, rect: Rect, into: (Rect, ProcessorId)) {
        let range = self.range(rect);
        for (piece, holders) in self.map.range_mut(range).filter(|(p, _)| rect.contains_rect(p)) {
            holders.add(piece, into);
        }
    }
}

/// The least rectangle, in the order of rectangles of `like`'s dimension, that starts at `x` in the first.
fn starting_at(like: Rect, x: i64) -> Rect {
    const LEAST: i64 = i64::MIN;
    match like.dim() {
        1 => Rect::new([x], [x]),
        2 => Rect::new([x, LEAST], [x, LEAST]),
        _ => Rect::new([x, LEAST, LEAST], [x, LEAST, LEAST]),
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

impl Versions {
    /// `key` was, or will be, written through the instance over `from` on `at`.
    pub fn write(&mut self, key: &ColumnKey, from: Rect, at: ProcessorId) {
        self.columns.entry((key.tree, key.field)).or_default().write(key.rect, Holders::of(key.rect, (from, at)));
    }

    /// The transfers that make `key` valid in the instance over `into` on `at`; `emit(source, transfer)` gets each. Where
    /// they are made, [`Self::hold`] says so. `select` picks one of several processors to take a part from.
    pub fn read(
        &self,
        key: &ColumnKey,
        into: Rect,
        at: ProcessorId,
        select: impl FnMut(Rect, &[ProcessorId]) -> ProcessorId,
        mut emit: impl FnMut(ProcessorId, Transfer),
    ) {
        let Some(pieces) = self.columns.get(&(key.tree, key.field)) else {
            return;
        };
        pieces.read(key.rect, (into, at), select, |rect, (from, source)| {
            emit(source, Transfer { tree: key.tree, field: key.field, rect, from, into });
        });
    }

    /// `key` is, or will be, valid in the instance over `into` on `at`, beside where it was before.
    pub fn hold(&mut self, key: &ColumnKey, into: Rect, at: ProcessorId) {
        if let Some(pieces) = self.columns.get_mut(&(key.tree, key.field)) {
            pieces.hold(key.rect, (into, at));
        }
    }

    /// Everything known to be valid within `key`.
    pub fn within(&self, key: &ColumnKey) -> Vec<Valid> {
        let Some(pieces) = self.columns.get(&(key.tree, key.field)) else {
            return Vec::new();
        };
        let inside = pieces.map.iter().filter(|(p, _)| p.overlaps(&key.rect));
        inside
            .filter_map(|(p, holders)| {
                let (from, at) = holders.first(p)?;
                Some(Valid { column: ColumnKey { rect: p.intersect(&key.rect), ..*key }, from, at })
            })
            .collect()
    }
}

/// What a parent may do itself to a rectangle it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// A gang may write it, or has written it elsewhere.
    Nothing,
    /// A gang may read it.
    Read,
    /// As much as it holds.
    All,
}

impl Known for Right {}

/// The rights of one task; everything where nothing else is said.
#[derive(Default)]
pub(crate) struct Rights {
    columns: HashMap<(TreeId, FieldId), Pieces<Right>>,
}

impl Rights {
    /// A gang was launched that leaves at most `to` of `key`.
    pub fn lower(&mut self, key: &ColumnKey, to: Right) {
        let pieces = self.columns.entry((key.tree, key.field)).or_default();
        let lower = |(r, right): (&Rect, &Right)| (*right < to).then(|| (r.intersect(&key.rect), *right));
        let keep: Vec<(Rect, Right)> = pieces.overlapping(key.rect).filter_map(lower).collect();
        pieces.write(key.rect, to);
        keep.into_iter().for_each(|(r, right)| pieces.write(r, right));
    }

    /// `key` was mapped with at least the right `to`.
    pub fn raise(&mut self, key: &ColumnKey, to: Right) {
        let Some(pieces) = self.columns.get_mut(&(key.tree, key.field)) else { return };
        if to == Right::All {
            return pieces.write(key.rect, to);
        }
        let lower = |(r, right): (&Rect, &Right)| (*right < to).then(|| r.intersect(&key.rect));
        let change: Vec<Rect> = pieces.overlapping(key.rect).filter_map(lower).collect();
        change.into_iter().for_each(|r| pieces.write(r, to));
    }

    /// Whether no gang was launched, so that nothing is restricted.
    #[inline]
    pub fn are_all(&self) -> bool {
        self.columns.is_empty()
    }

    /// The least right anywhere in a rectangle of a column.
    pub fn of(&self, tree: TreeId, field: FieldId, rect: Rect) -> Right {
        let pieces = self.columns.get(&(tree, field));
        let rights = pieces.into_iter().flat_map(|p| p.overlapping(rect)).map(|(_, right)| *right);
        rights.min().unwrap_or(Right::All)
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
                    // Any of them will do.
                    let mut selected = HashMap::new();
                    let select = |part: Rect, holders: &[u32]| {
                        let one = holders[number % holders.len()];
                        selected.insert(part, one);
                        one
                    };
                    versions.read(&key, key.rect, at, select, |source, t| moves.push((source, t)));
                    for (source, t) in &moves {
                        prop_assert_eq!(source, selected.get(&t.rect).unwrap_or(source));
                    }
                    versions.hold(&key, key.rect, at);
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

    proptest! {
        /// Against a right for each point.
        #[test]
        fn a_rectangle_gives_the_least_right_of_its_points(
            steps in prop::collection::vec((any::<bool>(), 0i64..20, 1i64..20, 0usize..3), 1..40)
        ) {
            const ALL: [Right; 3] = [Right::Nothing, Right::Read, Right::All];
            let mut rights = Rights::default();
            let mut truth = [Right::All; 40];
            for (lower, lo, len, to) in steps {
                let (key, to) = (key(lo, lo + len), ALL[to]);
                let part = &mut truth[lo as usize..(lo + len) as usize];
                if lower {
                    rights.lower(&key, to);
                    part.iter_mut().for_each(|r| *r = to.min(*r));
                } else {
                    rights.raise(&key, to);
                    part.iter_mut().for_each(|r| *r = to.max(*r));
                }
                for (i, r) in (0i64..).zip(&truth) {
                    prop_assert_eq!(rights.of(key.tree, key.field, Rect::line(i, i + 1)), *r, "point {}", i);
                }
                let all = truth.iter().copied().min();
                prop_assert_eq!(Some(rights.of(key.tree, key.field, Rect::line(0, 40))), all);
            }
        }
    }
}
