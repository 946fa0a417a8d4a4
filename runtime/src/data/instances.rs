//! The instances of a processor and their standing columns.

use super::column::Column;
use crate::ids::{ColumnKey, LaunchKey, NOBODY, launcher};
use crate::maps::Hash;
use hashbrown::{HashTable, hash_table};
use maniple_regions::{FieldId, Instance, Rect, SharedInstance, TreeId};
use std::hash::BuildHasher;
use std::rc::Rc;

/// An instance that is kept for later use.
pub(super) enum KeptInstance {
    /// An instance for this processor alone, with the last launch that uses it.
    Owned(Rc<Instance>, LaunchKey),
    Shared(SharedInstance),
}

impl KeptInstance {
    fn covers(&self) -> (FieldId, Rect) {
        match self {
            KeptInstance::Owned(instance, _) => (instance.field().id, instance.rect()),
            KeptInstance::Shared(shared) => (shared.field().id, shared.rect()),
        }
    }
}

/// An instance, its standing column, or both.
pub(super) struct Entry {
    tree: TreeId,
    /// The last launch of the top-level task that used the instance, or [`NOBODY`] if one of an inner task has.
    last: LaunchKey,
    pub kept: Option<KeptInstance>,
    /// There is one if launches had to be ordered by it.
    pub column: Option<Rc<Column>>,
}

impl Entry {
    fn covers(&self) -> (FieldId, Rect) {
        match (&self.kept, &self.column) {
            (Some(kept), _) => kept.covers(),
            (None, Some(column)) => (column.field.id, column.rect()),
            (None, None) => unreachable!("an entry has one of them"),
        }
    }

    /// A launch uses the instance.
    pub fn used_by(&mut self, launch: LaunchKey) {
        self.last = self.last.max(if launcher(launch) == 0 { launch } else { NOBODY });
    }
}

/// Instances by column. The key is not stored again where the instance has it.
#[derive(Default)]
pub(super) struct Instances(HashTable<Entry>);

impl Instances {
    fn hash(tree: TreeId, (field, rect): (FieldId, Rect)) -> u64 {
        // Few rectangles have the same bounds in the first dimension, so this is hash enough.
        Hash.hash_one((tree, field, rect.lo(0), rect.hi(0), rect.lo(1)))
    }

    /// The hash of a column, and a test whether an instance is the column's.
    fn seek(key: &ColumnKey) -> (u64, impl Fn(&Entry) -> bool) {
        let (tree, covers) = (key.tree, (key.field, key.rect));
        (Self::hash(tree, covers), move |entry| entry.tree == tree && entry.covers() == covers)
    }

    pub fn get(&self, key: &ColumnKey) -> Option<&KeptInstance> {
        let (hash, is) = Self::seek(key);
        self.0.find(hash, is)?.kept.as_ref()
    }

    pub fn get_mut(&mut self, key: &ColumnKey) -> Option<&mut Entry> {
        let (hash, is) = Self::seek(key);
        self.0.find_mut(hash, is)
    }

    /// Keeps an instance, which a launch uses. Returns the standing column, if there is one.
    pub fn insert(&mut self, key: &ColumnKey, kept: KeptInstance, launch: LaunchKey) -> Option<&Rc<Column>> {
        let entry = self.entry(key, Some(kept), None);
        entry.used_by(launch);
        entry.column.as_ref()
    }

    /// Keeps the standing column of an instance, which may not be there yet.
    pub fn stand(&mut self, key: &ColumnKey, column: Rc<Column>) {
        self.entry(key, None, Some(column));
    }

    fn entry(&mut self, key: &ColumnKey, kept: Option<KeptInstance>, column: Option<Rc<Column>>) -> &mut Entry {
        let (hash, is) = Self::seek(key);
        let again = |entry: &Entry| Self::hash(entry.tree, entry.covers());
        match self.0.entry(hash, is, again) {
            hash_table::Entry::Vacant(vacant) => {
                vacant.insert(Entry { tree: key.tree, last: 0, kept, column }).into_mut()
            }
            hash_table::Entry::Occupied(there) => {
                let there = there.into_mut();
                there.kept = kept.or_else(|| there.kept.take());
                there.column = column.or_else(|| there.column.take());
                there
            }
        }
    }

    /// The standing columns of a tree.
    pub fn standing_of(&self, tree: TreeId) -> impl Iterator<Item = ColumnKey> {
        let columns = self.0.iter().filter(move |entry| entry.tree == tree).filter_map(|entry| entry.column.as_ref());
        columns.map(|column| column.key())
    }

    /// Removes the instances of a tree.
    pub fn forget(&mut self, tree: TreeId) {
        self.0.retain(|entry| entry.tree != tree);
    }

    /// A launch uses an instance.
    pub fn used_by(&mut self, key: &ColumnKey, launch: LaunchKey) {
        if let Some(entry) = self.get_mut(key) {
            entry.used_by(launch);
        }
    }

    /// Removes an instance that the top-level task does not need after a launch. It stays if a later launch has used it, or
    /// a gang of an inner task, which may count on it. `is_over` tells whether nobody uses its column any more.
    pub fn give_up(&mut self, key: &ColumnKey, after: LaunchKey, is_over: impl Fn(&Column) -> bool) {
        let (hash, is) = Self::seek(key);
        let Ok(mut found) = self.0.find_entry(hash, |entry| is(entry) && entry.last <= after) else { return };
        match found.get().column.as_ref().is_none_or(|column| is_over(column)) {
            true => drop(found.remove()),
            false => found.get_mut().kept = None,
        }
    }

    /// How many uses the instances have that this processor alone uses, but for their standing columns.
    pub fn uses(&self) -> usize {
        let used = |entry: &Entry| match &entry.kept {
            Some(KeptInstance::Owned(instance, _)) => {
                let stands = entry.column.as_ref().is_some_and(|column| column.has(instance));
                Rc::strong_count(instance) - 1 - usize::from(stands)
            }
            Some(KeptInstance::Shared(_)) | None => 0,
        };
        self.0.iter().map(used).sum()
    }
}
