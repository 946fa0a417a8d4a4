//! Hash tables of a processor. There may be many processors, so the tables have no keys of their own; and so they are in the
//! same order in every process.

use std::collections;
use std::hash::{BuildHasherDefault, DefaultHasher};

type Fixed = BuildHasherDefault<DefaultHasher>;

pub(super) type HashMap<K, V> = collections::HashMap<K, V, Fixed>;
pub(super) type HashSet<K> = collections::HashSet<K, Fixed>;
