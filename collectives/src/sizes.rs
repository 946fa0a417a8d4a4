//! The number of elements in each block of a collective's vectors.

use crate::Goal;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The elements of the vectors of all ranks.
#[derive(Clone)]
pub enum Sizes {
    /// All vectors have this many elements. They are cut into the schedule's blocks, which differ by one element at most.
    Whole(usize),
    /// Each block has this many elements.
    Each(usize),
    /// Where each block begins, and the end.
    Blocks(Arc<[usize]>),
    /// In an all-to-all: the number of elements from the contributor at the first position to the receiver at the second.
    Between(Arc<dyn Fn(u32, u32) -> usize + Send + Sync>),
    /// Only who sends a block knows, and in each call it may be another number.
    Any,
}

impl Sizes {
    /// Blocks with these sizes.
    pub fn blocks(sizes: &[usize]) -> Self {
        let ends = sizes.iter().scan(0_usize, |end, size| {
            *end = end.saturating_add(*size);
            Some(*end)
        });
        Sizes::Blocks(std::iter::once(0).chain(ends).collect())
    }

    /// Where the blocks of a register begin at a rank. A schedule has `blocks` blocks.
    pub fn of(&self, goal: &Goal, rank: u32, blocks: u32, register: u8) -> Starts {
        match self {
            Sizes::Whole(elements) => Starts::Cut { elements: *elements, blocks: blocks.max(1) as usize },
            Sizes::Each(size) => Starts::Each(*size),
            Sizes::Blocks(starts) => Starts::At(starts.clone()),
            Sizes::Any => Starts::Each(0),
            Sizes::Between(size) => {
                // Register 0 holds a contribution, by receivers. Another one holds a result, by contributors.
                let (from, to) = (goal.contributors(), goal.receivers());
                let (own, others) = match register {
                    0 => (from.position(rank), to.len()),
                    _ => (to.position(rank), from.len()),
                };
                let size = |block| match own {
                    Some(own) if block < others && register == 0 => size(own, block),
                    Some(own) if block < others => size(block, own),
                    _ => 0,
                };
                let starts = (0..blocks).scan(0_usize, |end, block| {
                    *end = end.saturating_add(size(block));
                    Some(*end)
                });
                Starts::At(std::iter::once(0).chain(starts).collect())
            }
        }
    }

    /// The elements of all blocks together, at the rank that has most.
    pub fn most(&self, goal: &Goal) -> usize {
        match self {
            Sizes::Whole(elements) => *elements,
            Sizes::Any => 0,
            Sizes::Each(size) => size.saturating_mul(goal.blocks() as usize),
            Sizes::Blocks(starts) => starts.last().copied().unwrap_or(0),
            Sizes::Between(_) => {
                let end = |rank, register| self.of(goal, rank, goal.blocks(), register).at(goal.blocks());
                let contributions = goal.contributors().iter().map(|rank| end(rank, 0));
                contributions.chain(goal.receivers().iter().map(|rank| end(rank, 1))).max().unwrap_or(0)
            }
        }
    }

    /// Whether all blocks have the same size.
    pub fn are_equal(&self) -> bool {
        match self {
            Sizes::Whole(_) | Sizes::Each(_) => true,
            Sizes::Blocks(starts) => starts.windows(2).all(|b| b[1] - b[0] == starts[1]),
            Sizes::Between(_) | Sizes::Any => false,
        }
    }
}

/// For example `4`, `4 a block` or `blocks of 3, 0, 8`.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Whole(elements) => write!(f, "{elements}"),
            Sizes::Each(size) => write!(f, "{size} a block"),
            Sizes::Blocks(starts) => {
                let sizes: Vec<String> = starts.windows(2).map(|b| (b[1] - b[0]).to_string()).collect();
                write!(f, "blocks of {}", sizes.join(", "))
            }
            Sizes::Between(_) => f.write_str("blocks of sizes of their own"),
            Sizes::Any => f.write_str("blocks of any sizes"),
        }
    }
}

/// Where the blocks of one register begin.
pub enum Starts {
    Cut { elements: usize, blocks: usize },
    Each(usize),
    At(Arc<[usize]>),
}

impl Starts {
    /// The first element of a block, or the end if there is no such block.
    #[inline]
    pub fn at(&self, block: u32) -> usize {
        let block = block as usize;
        match self {
            Starts::Cut { elements, blocks } => block * (elements / blocks) + (elements % blocks).min(block),
            Starts::Each(size) => block * size,
            Starts::At(starts) => starts[block.min(starts.len() - 1)],
        }
    }

    /// How many elements some blocks have.
    #[inline]
    pub fn count(&self, blocks: &Range<u32>) -> usize {
        match self {
            Starts::Each(size) => blocks.len() * size,
            _ => self.range(blocks.clone()).len(),
        }
    }

    /// The elements of a block in a vector that begins with the block `first`.
    #[inline]
    pub fn place(&self, first: u32, block: u32) -> Range<usize> {
        if let Starts::Each(size) = self {
            let start = (block - first) as usize * size;
            return start..start + size;
        }
        let first = self.at(first);
        self.at(block) - first..self.at(block + 1) - first
    }

    /// The elements of some blocks.
    #[inline]
    pub fn range(&self, blocks: Range<u32>) -> Range<usize> {
        self.at(blocks.start)..self.at(blocks.end)
    }
}

/// The blocks of a rank's contribution and of its result, if it has them, for a schedule with `blocks` blocks.
pub fn ends(goal: &Goal, rank: u32, blocks: u32) -> [Option<Range<u32>>; 2] {
    // The others are cut as the schedule likes.
    let by_block = goal.kind().has_blocks();
    let or_all = |of: Range<u32>| if by_block { of } else { 0..blocks };
    let contributes = goal.contributors().contains(rank).then(|| or_all(goal.contribution(rank)));
    let receives = goal.receivers().contains(rank).then(|| or_all(goal.result(rank)));
    [contributes, receives]
}
