//! Logical regions: handles that are plain data and hold no values.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Rect;

/// The number of a region tree: an index space with fields, and all its regions. Regions of different trees never share
/// values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TreeId(pub u32);

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tree {}", self.0)
    }
}

/// A logical region: the points of `rect` in region tree `tree`.
///
/// It is plain data, the same on every node. The values live in instances.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Region {
    /// The region tree.
    pub tree: TreeId,
    /// The points, in the coordinates of the tree.
    pub rect: Rect,
}

impl Region {
    /// The region of `rect` in `tree`.
    pub const fn new(tree: TreeId, rect: Rect) -> Self {
        Region { tree, rect }
    }

    /// Whether some point is in both regions. Regions of different trees never overlap.
    #[inline]
    pub fn overlaps(&self, other: &Region) -> bool {
        self.tree == other.tree && self.rect.overlaps(&other.rect)
    }

    /// Whether every point of `other` is a point of this region.
    #[inline]
    pub fn contains(&self, other: &Region) -> bool {
        self.tree == other.tree && self.rect.contains_rect(&other.rect)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tree, self.rect)
    }
}
