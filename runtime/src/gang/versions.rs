//! A launcher's knowledge of the regions that it launches gangs and leaf tasks on: which instances hold valid values.

use super::pieces::Pieces;
use crate::ids::{ColumnKey, ProcessorId};
use crate::maps::{self, HashMap};
use crate::message::{Transfer, Valid};
use maniple_regions::{FieldId, FieldInfo, Rect, Region, TreeId};
use smallvec::SmallVec;
use std::cell::{Cell, Ref, RefCell};
use std::hash::BuildHasher;
use std::rc::Rc;

/// An instance that holds valid values: its rectangle and its processor.
type Holder = (Rect, ProcessorId);

/// The instances that hold valid values of a piece.
#[derive(Clone)]
pub(super) enum Holders {
    /// One instance, exactly over the piece. This is the usual case, and there may be many pieces.
    Own(ProcessorId),
    /// The same, and one more instance. Many pieces may be copied into the same.
    Copied(ProcessorId, Rc<Holder>),
    Several(Box<Several>),
    /// Instances exactly over the piece. Tasks of a flow that use it find them without a search.
    Slot(Rc<Slot>),
}

/// A piece that tasks of a flow use, as long as it stays a piece of its own.
#[repr(C)]
pub(crate) struct Slot {
    /// False once the piece was cut, or is no longer known by its slot: look it up again.
    live: Cell<bool>,
    /// The processors that have a valid instance exactly over the piece, in the order in which they came. Without one, nobody
    /// has written the piece.
    at: RefCell<SmallVec<[ProcessorId; 4]>>,
    field: &'static FieldInfo,
    /// A hash of the key.
    pub hash: u64,
    pub region: Region,
}

impl Slot {
    fn new(key: ColumnKey, field: &'static FieldInfo, at: Option<Vec<ProcessorId>>) -> Rc<Self> {
        let (live, at) = (Cell::new(at.is_some()), RefCell::new(at.into_iter().flatten().collect()));
        Rc::new(Self { live, at, field, hash: maps::Hash.hash_one(key), region: key.region(key.rect) })
    }

    pub fn key(&self) -> ColumnKey {
        ColumnKey { tree: self.region.tree, field: self.field.id, rect: self.region.rect }
    }

    /// The bytes of the values.
    pub fn bytes(&self) -> usize {
        self.region.rect.volume() * self.field.length()
    }

    /// Whether it is live and of this field.
    #[inline]
    pub fn is_of(&self, field: &FieldInfo) -> bool {
        self.live.get() && self.field.is_of_same_field(field)
    }

    #[inline]
    pub fn is_live(&self) -> bool {
        self.live.get()
    }

    /// The processors with a valid instance.
    #[inline]
    pub fn holders(&self) -> Ref<'_, [ProcessorId]> {
        Ref::map(self.at.borrow(), |at| &**at)
    }

    /// Whether a processor has a valid instance, or nobody has written the piece.
    #[inline]
    pub fn is_valid_at(&self, at: ProcessorId) -> bool {
        match &**self.at.borrow() {
            [] => true,
            [only] => *only == at,
            several => several.contains(&at),
        }
    }

    /// One more processor has a valid instance, or will have one.
    #[inline]
    pub fn hold(&self, at: ProcessorId) {
        self.at.borrow_mut().push(at);
    }

    /// The piece was, or will be, written on a processor.
    #[inline]
    pub fn write(&self, on: ProcessorId) {
        let mut at = self.at.borrow_mut();
        if **at != [on] {
            at.clear();
            at.push(on);
        }
    }

    /// The same facts without the slot, which is not live any more.
    fn dissolve(&self) -> Option<Holders> {
        self.live.set(false);
        match &**self.at.borrow() {
            [] => None,
            [own] => Some(Holders::Own(*own)),
            several => Some(Holders::Several(Box::new(Several::of(several.iter().map(|at| (self.region.rect, *at)))))),
        }
    }
}

/// Holders in the order in which they came.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Several {
    list: Vec<Holder>,
    /// The position of the first holder of each processor in the list, which may be very long.
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

    fn remove(&mut self, holder: Holder) {
        *self = Self::of(std::mem::take(&mut self.list).into_iter().filter(|other| *other != holder));
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
            Self::Own(own) | Self::Copied(own, _) => Some((*piece, *own)),
            Self::Several(several) => several.list.first().copied(),
            Self::Slot(slot) => slot.holders().first().map(|at| (*piece, *at)),
        }
    }

    /// The processors with holders, if there are several holders.
    fn several(&self) -> Vec<ProcessorId> {
        match self {
            Self::Several(several) if several.list.len() > 1 => several.processors(),
            Self::Slot(slot) => slot.holders().to_vec(),
            Self::Copied(own, copy) if *own != copy.1 => vec![*own, copy.1],
            Self::Own(_) | Self::Copied(..) | Self::Several(_) => Vec::new(),
        }
    }

    /// The first holder on a processor.
    fn at(&self, piece: &Rect, processor: ProcessorId) -> Option<Holder> {
        match self {
            Self::Own(own) => (*own == processor).then_some((*piece, processor)),
            Self::Copied(own, copy) if *own != processor => (copy.1 == processor).then_some(**copy),
            Self::Copied(..) => Some((*piece, processor)),
            Self::Several(several) => several.at(processor),
            Self::Slot(slot) => slot.holders().contains(&processor).then_some((*piece, processor)),
        }
    }

    fn contains(&self, piece: &Rect, holder: Holder) -> bool {
        match self {
            Self::Own(own) => holder == (*piece, *own),
            Self::Copied(own, copy) => holder == **copy || holder == (*piece, *own),
            Self::Several(several) => several.contains(holder),
            Self::Slot(slot) => holder.0 == *piece && slot.holders().contains(&holder.1),
        }
    }

    /// Whether this is the only holder.
    fn is_only(&self, piece: &Rect, holder: Holder) -> bool {
        match self {
            Self::Own(own) => holder == (*piece, *own),
            Self::Copied(..) => false,
            Self::Several(several) => several.list[..] == [holder],
            Self::Slot(slot) => holder.0 == *piece && *slot.holders() == [holder.1],
        }
    }

    /// Removes one of several holders.
    fn remove(&mut self, piece: &Rect, holder: Holder) {
        match self {
            Self::Own(_) => {}
            Self::Copied(own, copy) if holder == (*piece, *own) => *self = Self::of(*piece, **copy),
            Self::Copied(own, copy) if holder == **copy => *self = Self::Own(*own),
            Self::Copied(..) => {}
            Self::Slot(slot) => slot.at.borrow_mut().retain(|at| holder != (*piece, *at)),
            Self::Several(several) => {
                several.remove(holder);
                if let [last] = several.list[..] {
                    *self = Self::of(*piece, last);
                }
            }
        }
    }

    fn add(&mut self, piece: &Rect, new: &Rc<Holder>) {
        let holder = **new;
        let is_written = self.first(piece).is_some();
        if !is_written || self.contains(piece, holder) {
            return;
        }
        match self {
            Self::Own(own) => *self = Self::Copied(*own, new.clone()),
            Self::Copied(own, copy) => {
                *self = Self::Several(Box::new(Several::of([(*piece, *own), **copy, holder])));
            }
            Self::Several(several) => several.add(holder),
            Self::Slot(slot) if holder.0 == *piece => slot.hold(holder.1),
            Self::Slot(slot) => {
                if let Some(mut plain) = slot.dissolve() {
                    plain.add(piece, new);
                    *self = plain;
                }
            }
        }
    }

    /// The same for a part of the piece.
    pub fn of_part(&self, piece: &Rect) -> Self {
        match self {
            Self::Own(own) => Self::Several(Box::new(Several::of([(*piece, *own)]))),
            Self::Copied(own, copy) => Self::Several(Box::new(Several::of([(*piece, *own), **copy]))),
            Self::Several(_) => self.clone(),
            Self::Slot(slot) => match slot.dissolve() {
                Some(Self::Own(own)) => Self::Several(Box::new(Several::of([(*piece, own)]))),
                Some(plain) => plain,
                None => Self::Several(Box::default()),
            },
        }
    }

    /// The same without slots. `None` for a piece that nobody has written.
    fn plain(self) -> Option<Self> {
        match self {
            Self::Slot(slot) => slot.dissolve(),
            other => Some(other),
        }
    }
}

/// Compares what has no slots.
impl PartialEq for Holders {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own(a), Self::Own(b)) => a == b,
            (Self::Copied(a, with_a), Self::Copied(b, with_b)) => a == b && with_a == with_b,
            (Self::Several(a), Self::Several(b)) => a == b,
            _ => false,
        }
    }
}

impl Pieces {
    /// Calls `copy(part, holder)` for each part of `rect` that is not valid in the instance `into`. A holder on the
    /// same processor is preferred. Otherwise `select` chooses a processor; it gets the part and the processors that
    /// have it.
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
            let from = holders.at(piece, into.1).or_else(|| match &holders.several()[..] {
                [] | [_] => holders.first(piece),
                processors => holders.at(piece, select(part, processors)),
            });
            if let Some(from) = from {
                copy(part, from);
            }
        }
    }

    /// Whether all pieces within `rect` are valid in the instance `into`.
    fn is_held(&self, rect: Rect, into: (Rect, ProcessorId)) -> bool {
        self.overlapping(rect).filter(|(p, _)| rect.contains_rect(p)).all(|(p, holders)| holders.contains(p, into))
    }

    /// All of `rect` has become valid in the instance `into`.
    fn hold(&mut self, rect: Rect, into: (Rect, ProcessorId)) {
        let (range, into) = (self.range(rect), Rc::new(into));
        for (piece, holders) in self.map.range_mut(range).filter(|(p, _)| rect.contains_rect(p)) {
            holders.add(piece, &into);
        }
    }
}

/// The valid instances of each region, as one launcher sees them. Every copy of the top-level task computes the same.
#[derive(Default)]
pub(crate) struct Versions {
    columns: HashMap<(TreeId, FieldId), FieldVersions>,
}

/// The knowledge about one field of a tree. It is shared with remembered launches until it changes.
#[derive(Clone, Default)]
pub(crate) struct FieldVersions {
    /// The holders of points that were written.
    holders: Rc<Pieces>,
    /// Some pieces may have slots. Knowledge that is shared has none.
    has_slots: bool,
}

impl FieldVersions {
    /// Whether both say the same.
    pub fn says(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.holders, &other.holders) || self.holders == other.holders
    }

    /// How many pieces it has.
    pub fn pieces(&self) -> usize {
        self.holders.map.len()
    }

    /// Gives up all slots, before the knowledge is shared or replaced.
    fn settle(&mut self) {
        if std::mem::take(&mut self.has_slots) {
            let holders = Rc::make_mut(&mut self.holders);
            let plain = std::mem::take(&mut holders.map).into_iter().filter_map(|(rect, h)| Some((rect, h.plain()?)));
            holders.map = plain.collect();
        }
    }
}

impl Versions {
    fn holders(&mut self, key: &ColumnKey) -> &mut Pieces {
        Rc::make_mut(&mut self.columns.entry((key.tree, key.field)).or_default().holders)
    }

    /// `key` was, or will be, written through the instance over `from` on `at`.
    pub fn write(&mut self, key: &ColumnKey, from: Rect, at: ProcessorId) {
        let holders = self.holders(key);
        match holders.map.get(&key.rect) {
            Some(Holders::Slot(slot)) if from == key.rect => return slot.write(at),
            Some(Holders::Slot(slot)) => drop(slot.dissolve()),
            _ => {}
        }
        holders.write(key.rect, Holders::of(key.rect, (from, at)));
    }

    /// The slot of a region, if no piece cuts it and all valid instances lie exactly over it. Otherwise one that is not live.
    #[cold]
    pub fn slot(&mut self, key: &ColumnKey, field: &'static FieldInfo) -> Rc<Slot> {
        let column = self.columns.entry((key.tree, key.field)).or_default();
        let mut pieces = column.holders.overlapping(key.rect);
        let is_over = |holder: &Holder| holder.0 == key.rect;
        let at = match (pieces.next(), pieces.next()) {
            (None, _) => (!key.rect.is_empty()).then(Vec::new),
            (Some((piece, holders)), None) if *piece == key.rect => match holders {
                Holders::Own(own) => Some(vec![*own]),
                Holders::Copied(own, copy) => is_over(copy).then(|| vec![*own, copy.1]),
                Holders::Several(several) => several.list.iter().all(is_over).then(|| several.processors()),
                Holders::Slot(slot) => return slot.clone(),
            },
            _ => None,
        };
        drop(pieces);
        let slot = Slot::new(*key, field, at);
        if slot.is_live() {
            Rc::make_mut(&mut column.holders).write(key.rect, Holders::Slot(slot.clone()));
            column.has_slots = true;
        }
        slot
    }

    /// The transfers that make `key` valid in the instance over `into` on `at`. `emit(source, transfer)` gets each.
    /// When they are made, call [`Self::hold`]. `select` picks one of several processors to take a part from.
    pub fn read(
        &self,
        key: &ColumnKey,
        into: Rect,
        at: ProcessorId,
        select: impl FnMut(Rect, &[ProcessorId]) -> ProcessorId,
        mut emit: impl FnMut(ProcessorId, Transfer),
    ) {
        let Some(column) = self.columns.get(&(key.tree, key.field)) else { return };
        column.holders.read(key.rect, (into, at), select, |rect, (from, source)| {
            emit(source, Transfer { tree: key.tree, field: key.field, rect, from, into, only_read: false });
        });
    }

    /// `key` is, or will be, valid in the instance over `into` on `at`, beside the instances where it is valid already.
    pub fn hold(&mut self, key: &ColumnKey, into: Rect, at: ProcessorId) {
        if let Some(column) = self.columns.get_mut(&(key.tree, key.field))
            && !column.holders.is_held(key.rect, (into, at))
        {
            Rc::make_mut(&mut column.holders).hold(key.rect, (into, at));
        }
    }

    /// Divides the pieces that are partly in `key`, so that a part can be held in one more instance.
    pub fn cut(&mut self, key: &ColumnKey) {
        if !key.rect.is_empty() {
            self.holders(key).cut(key.rect);
        }
    }

    /// Whether the instance over `key` on `at` is the only one with the newest values of some point.
    pub fn needs(&self, key: &ColumnKey, at: ProcessorId) -> bool {
        let column = self.columns.get(&(key.tree, key.field));
        let mut pieces = column.into_iter().flat_map(|c| c.holders.overlapping(key.rect));
        pieces.any(|(piece, holders)| holders.is_only(piece, (key.rect, at)))
    }

    /// The instance over `key` on `at`, which is not needed, goes.
    pub fn forget(&mut self, key: &ColumnKey, at: ProcessorId) {
        let Some(column) = self.columns.get_mut(&(key.tree, key.field)) else { return };
        let holder = (key.rect, at);
        if !column.holders.overlapping(key.rect).any(|(piece, holders)| holders.contains(piece, holder)) {
            return;
        }
        let holders = Rc::make_mut(&mut column.holders);
        let range = holders.range(key.rect);
        for (piece, of_piece) in holders.map.range_mut(range).filter(|(piece, _)| piece.overlaps(&key.rect)) {
            if of_piece.contains(piece, holder) {
                of_piece.remove(piece, holder);
            }
        }
    }

    /// The processor of the first valid instance of some point of `key`.
    pub fn holder(&self, key: &ColumnKey) -> Option<ProcessorId> {
        let mut pieces = self.columns.get(&(key.tree, key.field))?.holders.overlapping(key.rect);
        pieces.find_map(|(piece, holders)| Some(holders.first(piece)?.1))
    }

    /// The valid instances of everything within `key`.
    pub fn within(&self, key: &ColumnKey) -> Vec<Valid> {
        let Some(column) = self.columns.get(&(key.tree, key.field)) else { return Vec::new() };
        let inside = column.holders.map.iter().filter(|(p, _)| p.overlaps(&key.rect));
        inside
            .filter_map(|(p, holders)| {
                let (from, at) = holders.first(p)?;
                Some(Valid { column: ColumnKey { rect: p.intersect(&key.rect), ..*key }, from, at })
            })
            .collect()
    }

    /// How many pieces of `key` there are.
    pub fn pieces(&self, key: &ColumnKey) -> usize {
        self.columns.get(&(key.tree, key.field)).map_or(0, |c| c.holders.overlapping(key.rect).count())
    }

    /// How many pieces of some fields there are.
    pub fn all_pieces(&self, columns: impl Iterator<Item = (TreeId, FieldId)>) -> usize {
        columns.filter_map(|key| self.columns.get(&key)).map(FieldVersions::pieces).sum()
    }

    /// The present knowledge about some columns.
    pub fn look(&mut self, columns: impl Iterator<Item = (TreeId, FieldId)>) -> Vec<FieldVersions> {
        let look = |column: &mut FieldVersions| {
            column.settle();
            column.clone()
        };
        columns.map(|key| self.columns.get_mut(&key).map(look).unwrap_or_default()).collect()
    }

    fn settled(&mut self, key: (TreeId, FieldId)) -> Option<&FieldVersions> {
        let column = self.columns.get_mut(&key)?;
        column.settle();
        Some(column)
    }

    /// Whether the knowledge about each column equals the one beside it. If so, both are made to share it.
    pub fn agree<'a>(&mut self, with: impl Iterator<Item = ((TreeId, FieldId), &'a mut FieldVersions)>) -> bool {
        for (key, other) in with {
            match self.settled(key) {
                Some(own) if own.says(other) => *other = own.clone(),
                None if other.pieces() == 0 => {}
                _ => return false,
            }
        }
        true
    }

    /// Forgets a tree.
    pub fn forget_tree(&mut self, tree: TreeId) {
        self.columns.iter_mut().filter(|((of, _), _)| *of == tree).for_each(|(_, column)| column.settle());
        self.columns.retain(|(of, _), _| *of != tree);
    }

    /// Replaces the knowledge about some columns.
    pub fn replace<'a>(&mut self, with: impl Iterator<Item = ((TreeId, FieldId), &'a FieldVersions)>) {
        for (key, column) in with {
            if let Some(mut old) = self.columns.insert(key, column.clone()) {
                old.settle();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_regions::Field;
    use proptest::prelude::*;

    const X: Field<i64> = Field::new(0, "x");

    fn key(lo: i64, hi: i64) -> ColumnKey {
        ColumnKey { tree: TreeId(0), field: FieldId(0), rect: Rect::line(lo, hi) }
    }

    proptest! {
        /// Compared with a model that really moves values: instances as maps from point to version number. If reads cut pieces,
        /// the model also knows of each point where it is valid.
        #[test]
        fn transfers_bring_exactly_the_last_written_values(
            cuts in any::<bool>(),
            steps in prop::collection::vec((0..4, 0i64..6, 1i64..6, 0u32..3), 1..60)
        ) {
            let field: &'static FieldInfo = Box::leak(Box::new(X.info()));
            let mut versions = Versions::default();
            let mut truth: HashMap<i64, usize> = HashMap::default();
            let mut valid: HashMap<i64, Vec<Holder>> = HashMap::default();
            let mut instances: HashMap<Holder, HashMap<i64, usize>> = HashMap::default();
            for (number, (kind, lo, len, at)) in steps.into_iter().enumerate() {
                let (key, at) = (key(lo, lo + len), ProcessorId(at));
                let into = (key.rect, at);
                let here = |valid: &HashMap<i64, Vec<Holder>>| -> Vec<Vec<Holder>> {
                    (lo..lo + len).filter_map(|x| valid.get(&x).cloned()).collect()
                };
                match kind {
                    0 | 1 => {
                        let mut moves = Vec::new();
                        // Any of them is right.
                        let mut selected = HashMap::default();
                        let select = |part: Rect, holders: &[ProcessorId]| {
                            assert!(!holders.contains(&at), "{part} has an instance on {at}");
                            let one = holders[number % holders.len()];
                            let mut all = holders.to_vec();
                            all.sort_unstable();
                            selected.insert(part, (all, one));
                            one
                        };
                        versions.read(&key, key.rect, at, select, |source, t| moves.push((source, t)));
                        for (source, t) in &moves {
                            prop_assert_eq!(source, selected.get(&t.rect).map_or(source, |(_, one)| one));
                        }
                        if cuts {
                            versions.cut(&key);
                            let missing = (lo..lo + len).filter(|x| valid.get(x).is_some_and(|at| !at.contains(&into)));
                            for (source, t) in &moves {
                                let mut from: Vec<ProcessorId> = valid[&t.rect.lo(0)].iter().map(|(_, at)| *at).collect();
                                from.sort_unstable();
                                from.dedup();
                                let chooses = from.len() > 1 && !from.contains(&at);
                                prop_assert_eq!(selected.get(&t.rect).map(|(all, _)| all), chooses.then_some(&from));
                                prop_assert!(chooses || *source == at || from == [*source]);
                            }
                            let moved = moves.iter().flat_map(|(_, t)| t.rect.lo(0)..t.rect.hi(0));
                            prop_assert_eq!(moved.collect::<Vec<i64>>(), missing.collect::<Vec<i64>>());
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
                        let values = instances.entry(into).or_default();
                        for x in lo..lo + len {
                            if let Some(v) = truth.get(&x) {
                                prop_assert_eq!(values.get(&x), Some(v), "point {} of {}", x, key.rect);
                            }
                            if let Some(at) = valid.get_mut(&x).filter(|at| !at.contains(&into)) {
                                at.push(into);
                            }
                        }
                    }
                    2 => {
                        versions.write(&key, key.rect, at);
                        for x in lo..lo + len {
                            truth.insert(x, number);
                            valid.insert(x, vec![into]);
                            instances.entry(into).or_default().insert(x, number);
                        }
                    }
                    _ => {
                        let slot = versions.slot(&key, field);
                        for holders in here(&valid).iter().filter(|_| cuts && slot.is_live()) {
                            let mut over: Vec<Holder> = slot.holders().iter().map(|at| (key.rect, *at)).collect();
                            let mut known = holders.clone();
                            over.sort_unstable();
                            known.sort_unstable();
                            prop_assert_eq!(over, known);
                        }
                    }
                }
                if cuts {
                    prop_assert_eq!(versions.needs(&key, at), here(&valid).contains(&vec![into]));
                }
            }
        }
    }
}
