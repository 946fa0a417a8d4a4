//! How the cells are dealt to the shards.

use crate::StencilError;
use std::ops::Range;

/// Cells a shard must have at least: two for the ghosts of either neighbour.
pub const MIN_CELLS: usize = 4;

/// Contiguous blocks of cells, one a shard, in shard order. Sizes differ by at most one; the larger blocks come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    shards: usize,
    base: usize,
    /// How many blocks hold `base + 1` cells.
    larger: usize,
}

impl Blocks {
    /// `cells` cells to each of `shards` shards.
    ///
    /// # Errors
    ///
    /// No shard, fewer than [`MIN_CELLS`] cells in a shard, or more cells than can be addressed.
    pub fn uniform(shards: usize, cells: usize) -> Result<Self, StencilError> {
        if shards.checked_mul(cells).is_none_or(|n| n > isize::MAX as usize / size_of::<f64>()) {
            return Err(StencilError::TooManyCells { shards, cells });
        }
        Self::checked(Self { shards, base: cells, larger: 0 })
    }

    /// `total` cells over `shards` shards, as evenly as possible.
    ///
    /// # Errors
    ///
    /// No shard, or fewer than [`MIN_CELLS`] cells in a shard.
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
        if self.base < MIN_CELLS {
            return Err(StencilError::TooFewCells { total: self.total(), shards: self.shards, smallest: self.base });
        }
        Ok(self)
    }

    /// Number of blocks.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Cells in all blocks together.
    pub fn total(&self) -> usize {
        self.shards * self.base + self.larger
    }

    /// Cells in the largest block.
    pub fn largest(&self) -> usize {
        self.base + usize::from(self.larger > 0)
    }

    /// The cells of block `shard`.
    ///
    /// # Panics
    ///
    /// If there is no such block.
    pub fn range(&self, shard: usize) -> Range<usize> {
        assert!(shard < self.shards, "block {shard} of {}", self.shards);
        let first = shard * self.base + shard.min(self.larger);
        first..first + self.base + usize::from(shard < self.larger)
    }

    /// All blocks' cells, in shard order.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> {
        let blocks = *self;
        (0..self.shards).map(move |shard| blocks.range(shard))
    }
}
