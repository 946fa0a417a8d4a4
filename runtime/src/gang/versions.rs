//! A launcher's knowledge of the regions that it launches gangs and leaf tasks on: which instances hold valid values.

use super::pieces::{Piece, Pieces};
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
enum Holders {
    /// One instance, exactly over the piece. This is the usual case, and there may be many pieces.
    Own(ProcessorId),
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
struct Several {
    list: SmallVec<[Holder; 2]>,
    /// The position of the first holder of each processor in the list, if that is long. It may be very long.
    first: HashMap<ProcessorId, usize>,
}

impl Several {
    /// Lists up to this length are searched.
    const SHORT: usize = if cfg!(test) { 2 } else { 8 };

    fn of(list: impl IntoIterator<Item = Holder>) -> Self {
        let mut several = Self::default();
        list.into_iter().for_each(|holder| several.add(holder));
        several
    }

    /// The position of the first holder of a processor.
    fn first(&self, processor: ProcessorId) -> Option<usize> {
        match self.list.len() > Self::SHORT {
            true => self.first.get(&processor).copied(),
            false => self.list.iter().position(|holder| holder.1 == processor),
        }
    }

    fn at(&self, processor: ProcessorId) -> Option<Holder> {
        self.first(processor).map(|first| self.list[first])
    }

    fn contains(&self, holder: Holder) -> bool {
        self.first(holder.1).is_some_and(|first| self.list[first..].contains(&holder))
    }

    fn add(&mut self, holder: Holder) {
        if self.contains(holder) {
            return;
        }
        self.list.push(holder);
        let new = match self.list.len() {
            0..=Self::SHORT => return,
            long if self.first.is_empty() => 0..long,
            long => long - 1..long,
        };
        for position in new {
            self.first.entry(self.list[position].1).or_insert(position);
        }
    }

    fn remove(&mut self, holder: Holder) {
        *self = Self::of(std::mem::take(&mut self.list).into_iter().filter(|other| *other != holder));
    }

    fn processors(&self) -> Vec<ProcessorId> {
        let is_first = |(at, holder): &(usize, &Holder)| self.first(holder.1) == Some(*at);
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
            Self::Slot(slot) => slot.holders().first().map(|at| (*piece, *at)),
        }
    }

    /// The processors with holders, if there are several holders.
    fn several(&self) -> Vec<ProcessorId> {
        match self {
            Self::Several(several) if several.list.len() > 1 => several.processors(),
            Self::Slot(slot) => slot.holders().to_vec(),
            Self::Own(_) | Self::Several(_) => Vec::new(),
        }
    }

    /// The first holder on a processor.
    fn at(&self, piece: &Rect, processor: ProcessorId) -> Option<Holder> {
        match self {
            Self::Own(own) => (*own == processor).then_some((*piece, processor)),
            Self::Several(several) => several.at(processor),
            Self::Slot(slot) => slot.holders().contains(&processor).then_some((*piece, processor)),
        }
    }

    fn contains(&self, piece: &Rect, holder: Holder) -> bool {
        match self {
            Self::Own(own) => holder == (*piece, *own),
            Self::Several(several) => several.contains(holder),
            Self::Slot(slot) => holder.0 == *piece && slot.holders().contains(&holder.1),
        }
    }

    /// Whether this is the only holder.
    fn is_only(&self, piece: &Rect, holder: Holder) -> bool {
        match self {
            Self::Own(own) => holder == (*piece, *own),
            Self::Several(several) => several.list[..] == [holder],
            Self::Slot(slot) => holder.0 == *piece && *slot.holders() == [holder.1],
        }
    }

    /// Removes one of several holders.
    fn remove(&mut self, piece: &Rect, holder: Holder) {
        match self {
            Self::Own(_) => {}
            Self::Slot(slot) => slot.at.borrow_mut().retain(|at| holder != (*piece, *at)),
            Self::Several(several) => {
                several.remove(holder);
                if let [last] = several.list[..] {
                    *self = Self::of(*piece, last);
                }
            }
        }
    }

    fn add(&mut self, piece: &Rect, holder: Holder) {
        match self {
            Self::Own(own) if holder == (*piece, *own) => {}
            Self::Own(own) => *self = Self::Several(Box::new(Several::of([(*piece, *own), holder]))),
            Self::Several(several) => several.add(holder),
            Self::Slot(slot) if slot.holders().is_empty() || slot.holders().contains(&holder.1) => {}
            Self::Slot(slot) if holder.0 == *piece => slot.hold(holder.1),
            Self::Slot(slot) => {
                if let Some(mut plain) = slot.dissolve() {
                    plain.add(piece, holder);
                    *self = plain;
                }
            }
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
            (Self::Several(a), Self::Several(b)) => a == b,
            _ => false,
        }
    }
}

impl Piece for Holders {
    fn of_part(&self, piece: &Rect) -> Self {
        match self {
            Self::Own(own) => Self::Several(Box::new(Several::of([(*piece, *own)]))),
            Self::Several(_) => self.clone(),
            Self::Slot(slot) => match slot.dissolve() {
                Some(Self::Own(own)) => Self::Several(Box::new(Several::of([(*piece, own)]))),
                Some(plain) => plain,
                None => Self::Several(Box::default()),
            },
        }
    }
}

impl Pieces<Holders> {
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
        let range = self.range(rect);
        for (piece, holders) in self.map.range_mut(range).filter(|(p, _)| rect.contains_rect(p)) {
            holders.add(piece, into);
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
    holders: Rc<Pieces<Holders>>,
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
    fn holders(&mut self, key: &ColumnKey) -> &mut Pieces<Holders> {
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
    use proptest::prelude::*;

    fn key(lo: i64, hi: i64) -> ColumnKey {
        ColumnKey { tree: TreeId(0), field: FieldId(0), rect: Rect::line(lo, hi) }
    }

    proptest! {
        /// Compared with a model that really moves values: instances as maps from point to version number.
        #[test]
        fn transfers_bring_exactly_the_last_written_values(
            steps in prop::collection::vec((any::<bool>(), 0i64..20, 1i64..20, 0u32..3), 1..40)
        ) {
            let mut versions = Versions::default();
            let mut truth: HashMap<i64, usize> = HashMap::default();
            let mut instances: HashMap<(Rect, ProcessorId), HashMap<i64, usize>> = HashMap::default();
            for (number, (write, lo, len, at)) in steps.into_iter().enumerate() {
                let (key, at) = (key(lo, lo + len), ProcessorId(at));
                if !write {
                    let mut moves = Vec::new();
                    // Any of them is right.
                    let mut selected = HashMap::default();
                    let select = |part: Rect, holders: &[ProcessorId]| {
                        assert!(!holders.contains(&at), "{part} has an instance on {at}");
                        let one = holders[number % holders.len()];
                        selected.insert(part, one);
                        one
                    };
                    versions.read(&key, key.rect, at, select, |source, t| moves.push((source, t)));
                    for (source, t) in &moves {
                        prop_assert_eq!(source, selected.get(&t.rect).unwrap_or(source));
                    }
                    if number % 2 == 0 {
                        versions.cut(&key);
                    }
                    versions.hold(&key, key.rect, at);
                    if number % 2 == 0 {
                        let again = |_: Rect, _: &[ProcessorId]| unreachable!("it is there");
                        versions.read(&key, key.rect, at, again, |source, t| panic!("{t:?} again, from {source}"));
                    }
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
