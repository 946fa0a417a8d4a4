//! The instances of a processor, by column.

use crate::ids::{ColumnKey, LaunchKey, NOBODY};
use crate::maps::Hash;
use hashbrown::HashTable;
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

/// An instance with the last launch of the top-level task that used it, or [`NOBODY`] if one of an inner task has.
pub(super) struct Entry {
    tree: TreeId,
    last: LaunchKey,
    pub kept: KeptInstance,
}

impl Entry {
    /// A launch uses the instance.
    pub fn used_by(&mut self, launch: LaunchKey) {
        self.last = self.last.max(if launch >> 32 == 0 { launch } else { NOBODY });
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
        (Self::hash(tree, covers), move |entry| entry.tree == tree && entry.kept.covers() == covers)
    }

    pub fn get(&self, key: &ColumnKey) -> Option<&KeptInstance> {
        let (hash, is) = Self::seek(key);
        self.0.find(hash, is).map(|entry| &entry.kept)
    }

    pub fn get_mut(&mut self, key: &ColumnKey) -> Option<&mut Entry> {
        let (hash, is) = Self::seek(key);
        self.0.find_mut(hash, is)
    }

    /// Keeps an instance, which a launch uses.
    pub fn insert(&mut self, key: &ColumnKey, kept: KeptInstance, launch: LaunchKey) {
        let (hash, is) = Self::seek(key);
        let entry = match self.0.find_mut(hash, is) {
            Some(there) => {
                there.kept = kept;
                there
            }
            None => {
                let again = |entry: &Entry| Self::hash(entry.tree, entry.kept.covers());
                self.0.insert_unique(hash, Entry { tree: key.tree, last: 0, kept }, again).into_mut()
            }
        };
        entry.used_by(launch);
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
    /// a gang of an inner task, which may count on it.
    pub fn give_up(&mut self, key: &ColumnKey, after: LaunchKey) {
        let (hash, is) = Self::seek(key);
        if let Ok(found) = self.0.find_entry(hash, |entry| is(entry) && entry.last <= after) {
            found.remove();
        }
    }

    /// How many uses the instances have that this processor alone uses.
    pub fn uses(&self) -> usize {
        let used = |kept: &KeptInstance| match kept {
            KeptInstance::Owned(instance, _) => Rc::strong_count(instance) - 1,
            KeptInstance::Shared(_) => 0,
        };
        self.0.iter().map(|entry| used(&entry.kept)).sum()
    }
}
