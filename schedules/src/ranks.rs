//! Sets of ranks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A set of ranks in ascending order. The *position* of a rank is its place in the set, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks(Set);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Set {
    Range(Range<u32>),
    List(Arc<[u32]>),
}

impl Ranks {
    /// The ranks below `ranks`.
    pub fn all(ranks: u32) -> Self {
        Self(Set::Range(0..ranks))
    }

    /// One rank.
    pub fn one(rank: u32) -> Self {
        Self::of([rank])
    }

    /// These ranks, in any order.
    pub fn of(ranks: impl IntoIterator<Item = u32>) -> Self {
        let mut list: Vec<u32> = ranks.into_iter().collect();
        list.sort_unstable();
        list.dedup();
        Self(match (list.first(), list.last()) {
            (None, _) => Set::Range(0..0),
            // No range ends after the last number there is.
            (Some(&first), Some(&last)) if last < u32::MAX && (last - first) as usize + 1 == list.len() => {
                Set::Range(first..last + 1)
            }
            _ => Set::List(list.into()),
        })
    }

    /// The number of ranks.
    pub fn len(&self) -> u32 {
        match &self.0 {
            Set::Range(range) => range.len() as u32,
            Set::List(list) => list.len() as u32,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position of a rank, if it is in the set.
    pub fn position(&self, rank: u32) -> Option<u32> {
        match &self.0 {
            Set::Range(range) => range.contains(&rank).then(|| rank - range.start),
            Set::List(list) => list.binary_search(&rank).ok().map(|at| at as u32),
        }
    }

    /// The number of ranks in the set that are below this one.
    pub fn below(&self, rank: u32) -> u32 {
        match &self.0 {
            Set::Range(range) => rank.clamp(range.start, range.end) - range.start,
            Set::List(list) => list.partition_point(|&other| other < rank) as u32,
        }
    }

    /// Whether a rank is in the set.
    pub fn contains(&self, rank: u32) -> bool {
        self.position(rank).is_some()
    }

    /// The rank at a position.
    ///
    /// # Panics
    ///
    /// If the set does not have this many ranks.
    pub fn at(&self, position: u32) -> u32 {
        match &self.0 {
            Set::Range(range) => {
                assert!(position < self.len(), "position {position} of {} ranks", self.len());
                range.start + position
            }
            Set::List(list) => list[position as usize],
        }
    }

    /// All of them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).map(|position| self.at(position))
    }
}

/// For example `0..4` or `1, 3, 8`.
impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Set::Range(range) if range.len() != 1 => write!(f, "{range:?}"),
            _ => f.write_str(&self.iter().map(|rank| rank.to_string()).collect::<Vec<_>>().join(", ")),
        }
    }
}
