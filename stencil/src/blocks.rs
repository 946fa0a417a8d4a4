//! The distribution of cells over shards.

use crate::error::{MIN_CELLS, StencilError};
use std::ops::Range;

/// Contiguous blocks of cells, one for each shard, in the order of shards. Sizes differ by at most one, and the larger
/// blocks come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    shards: usize,
    base: usize,
    /// The number of blocks with `base + 1` cells.
    larger: usize,
}

impl Blocks {
    /// Blocks of `cells` cells for each of `shards` shards.
    ///
    /// # Errors
    ///
    /// No shard, too many of them, fewer than [`MIN_CELLS`] cells in a shard, or more cells than can be addressed.
    pub fn uniform(shards: usize, cells: usize) -> Result<Self, StencilError> {
        if shards.checked_mul(cells).is_none_or(|n| n > isize::MAX as usize / size_of::<f64>()) {
            return Err(StencilError::TooManyCells { shards, cells });
        }
        Self::checked(Self { shards, base: cells, larger: 0 })
    }

    /// Blocks of `total` cells over `shards` shards, as evenly as possible.
    ///
    /// # Errors
    ///
    /// No shard, too many of them, or fewer than [`MIN_CELLS`] cells in a shard.
    pub fn balanced(shards: usize, total: usize) -> Result<Self, StencilError> {
        if shards == 0 {
            return Err(StencilError::Zero { what: "shards" });
        }
        Self::checked(Self { shards, base: total / shards, larger: total % shards })
    }

    fn checked(self) -> Result<Self, StencilError> {
        if self.shards == 0 {
            return Err(StencilError::Zero { what: "shards" });
        }
        if u32::try_from(self.shards).is_err() {
            return Err(StencilError::TooManyShards { shards: self.shards });
        }
        if self.base < MIN_CELLS {
            return Err(StencilError::TooFewCells { total: self.total(), shards: self.shards, smallest: self.base });
        }
        Ok(self)
    }

    /// The number of blocks.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Cells in all blocks together.
    pub fn total(&self) -> usize {
        self.shards * self.base + self.larger
    }

    /// The cells of the largest block.
    pub fn largest(&self) -> usize {
        self.base + usize::from(self.larger > 0)
    }

    /// The cells of block `shard`.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    pub fn range(&self, shard: usize) -> Range<usize> {
        assert!(shard < self.shards, "block {shard} of {}", self.shards);
        let first = shard * self.base + shard.min(self.larger);
        first..first + self.base + usize::from(shard < self.larger)
    }

    /// The cells of all blocks, in the order of shards.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> {
        let blocks = *self;
        (0..self.shards).map(move |shard| blocks.range(shard))
    }
}
