//! Hash tables of the runtime. The keys are numbers and rectangles of the program itself, and nobody chooses them to
//! collide. So a quick hash is enough. It has no random key: a table has the same order in every process.

use std::collections;

pub(crate) use rustc_hash::FxBuildHasher as Hash;

pub(crate) type HashMap<K, V> = collections::HashMap<K, V, Hash>;
pub(crate) type HashSet<K> = collections::HashSet<K, Hash>;
