//! Two-level allreduce: first the ranks of each processor, then the processors.

use crate::recursive_doubling::recursive_doubling;
use crate::schedule::{Schedule, Step};
use std::ops::Range;

/// The participants as blocks of consecutive ranks. The ranks of a block share a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The first rank of each block, and the end of the last block.
    bounds: Vec<u32>,
}

impl Blocks {
    /// Makes blocks of the longest runs of ranks with the same place. `place` has the place of each rank.
    pub fn runs(place: &[u32]) -> Self {
        let starts = (0..place.len()).filter(|&r| r == 0 || place[r] != place[r - 1]);
        let mut bounds: Vec<u32> = starts.map(|r| r as u32).collect();
        bounds.push(place.len() as u32);
        Self { bounds }
    }

    /// Makes blocks of `size` ranks. The last one may be shorter.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn of(participants: u32, size: u32) -> Self {
        let mut bounds: Vec<u32> = (0..participants).step_by(size as usize).collect();
        bounds.push(participants);
        Self { bounds }
    }

    /// The number of ranks.
    pub fn participants(&self) -> u32 {
        self.bounds.last().copied().unwrap_or(0)
    }

    /// The number of blocks.
    pub fn len(&self) -> u32 {
        self.bounds.len() as u32 - 1
    }

    /// Whether there are no ranks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all blocks have the same power of two of ranks.
    pub fn are_alike(&self) -> bool {
        let size = |b: &[u32]| b[1] - b[0];
        self.bounds.windows(2).all(|b| size(b).is_power_of_two() && size(b) == size(&self.bounds))
    }

    fn block(&self, number: u32) -> Range<u32> {
        self.bounds[number as usize]..self.bounds[number as usize + 1]
    }

    pub(crate) fn of_rank(&self, rank: u32) -> Range<u32> {
        self.block(self.number_of(rank))
    }

    fn number_of(&self, rank: u32) -> u32 {
        self.bounds.partition_point(|&start| start <= rank) as u32 - 1
    }
}

/// The steps of `rank` in a two-level allreduce.
///
/// The ranks of a [block](Schedule::block) combine in place. Then the first ranks of the blocks combine by
/// [`recursive_doubling`]. At the end all ranks of a block take the result of its first one.
///
/// So the messages between processors are those of recursive doubling over the blocks, not over all ranks. Blocks are
/// runs of ranks and combine in rank order, so the operator need not commute. If all blocks have the same power of two
/// of ranks, the grouping and the bits are those of recursive doubling over all ranks.
///
/// Local: no rank talks to another.
///
/// ```
/// # use maniple_collectives::{Blocks, check, two_level};
/// let blocks = Blocks::of(8, 4);
/// let report = check(8, |rank| two_level(rank, &blocks)).unwrap();
/// assert_eq!((report.rounds, report.messages), (3, 14));
/// ```
///
/// # Panics
///
/// If `rank` is not below the number of participants.
pub fn two_level(rank: u32, blocks: &Blocks) -> Schedule {
    let participants = blocks.participants();
    assert!(rank < participants, "rank {rank} is not below the {participants} participants");
    let number = blocks.number_of(rank);
    let block = blocks.block(number);
    let leader = |block: u32| blocks.block(block).start;
    let mut steps = Vec::new();
    if rank == block.start {
        steps.extend(recursive_doubling(number, blocks.len()).steps().iter().map(|step| match *step {
            Step::Update { peer, at } => Step::Update { peer: leader(peer), at },
            Step::Read { peer, at, combine } => Step::Read { peer: leader(peer), at, combine },
        }));
    }
    Schedule::in_block(rank, participants, block, steps)
}
