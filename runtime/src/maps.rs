//! Hash tables of the runtime. Their keys are numbers and rectangles of the program's own, which nobody chooses to collide,
//! so a quick hash does. It has no key: the tables are in the same order in every process.

use std::collections;

pub(crate) use rustc_hash::FxBuildHasher as Hash;

pub(crate) type HashMap<K, V> = collections::HashMap<K, V, Hash>;
pub(crate) type HashSet<K> = collections::HashSet<K, Hash>;
