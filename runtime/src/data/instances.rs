//! The instances of a processor, by column.

use crate::ids::{ColumnKey, LaunchKey};
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

/// Instances by column. The key is not stored again where the instance has it. Beside each is whether a gang of an inner
/// task has used it.
#[derive(Default)]
pub(super) struct Instances(HashTable<(TreeId, bool, KeptInstance)>);

impl Instances {
    fn hash(tree: TreeId, (field, rect): (FieldId, Rect)) -> u64 {
        // Few rectangles begin and end alike in the first dimension, so this is hash enough.
        Hash.hash_one((tree, field, rect.lo(0), rect.hi(0), rect.lo(1)))
    }

    /// The hash of a column, and a test whether an instance is the column's.
    fn seek(key: &ColumnKey) -> (u64, impl Fn(&(TreeId, bool, KeptInstance)) -> bool) {
        let (tree, covers) = (key.tree, (key.field, key.rect));
        (Self::hash(tree, covers), move |(of, _, held)| *of == tree && held.covers() == covers)
    }

    pub fn get(&self, key: &ColumnKey) -> Option<&KeptInstance> {
        let (hash, is) = Self::seek(key);
        self.0.find(hash, is).map(|(.., held)| held)
    }

    pub fn get_mut(&mut self, key: &ColumnKey) -> Option<&mut KeptInstance> {
        let (hash, is) = Self::seek(key);
        self.0.find_mut(hash, is).map(|(.., held)| held)
    }

    pub fn insert(&mut self, key: &ColumnKey, held: KeptInstance) {
        let (hash, is) = Self::seek(key);
        match self.0.find_mut(hash, is) {
            Some((.., there)) => *there = held,
            None => {
                let again = |(tree, _, held): &(TreeId, bool, KeptInstance)| Self::hash(*tree, held.covers());
                self.0.insert_unique(hash, (key.tree, false, held), again);
            }
        }
    }

    /// A launch uses an instance.
    pub fn used_by(&mut self, key: &ColumnKey, launch: LaunchKey) {
        let (hash, is) = Self::seek(key);
        if let Some((_, by_inner, _)) = self.0.find_mut(hash, is).filter(|_| launch >> 32 != 0) {
            *by_inner = true;
        }
    }

    /// Removes an instance that the top-level task gives up. One that a gang of an inner task has used stays: the inner
    /// task may count on it.
    pub fn give_up(&mut self, key: &ColumnKey) {
        let (hash, is) = Self::seek(key);
        if let Ok(entry) = self.0.find_entry(hash, |entry| is(entry) && !entry.1) {
            entry.remove();
        }
    }

    /// How many uses the instances have that this processor alone uses.
    pub fn uses(&self) -> usize {
        let used = |kept: &KeptInstance| match kept {
            KeptInstance::Owned(instance, _) => Rc::strong_count(instance) - 1,
            KeptInstance::Shared(_) => 0,
        };
        self.0.iter().map(|(.., kept)| used(kept)).sum()
    }
}
