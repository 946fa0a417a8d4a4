//! The mistakes that the checker finds.

use crate::schedule::Link;
use std::fmt;

/// What an execution has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channels {
    /// A step waits for nothing but messages.
    Unbounded,
    /// Values are lent where they are, and each register has two vectors. A step that changes lent blocks waits until
    /// what was lent of the register's other vector has been read.
    TwoVectors,
}

impl fmt::Display for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Channels::Unbounded => "unbounded channels",
            Channels::TwoVectors => "two vectors a register",
        })
    }
}

/// The first mistake found in a set of schedules that does not reach its goal.
///
/// Steps are counted from 0 in the schedule of `rank`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// There are no ranks.
    #[error("expected at least one rank, got 0")]
    NoRanks,
    /// Nobody contributes.
    #[error("expected at least one contributor, got none")]
    NoContributors,
    /// A contributor or receiver is no rank.
    #[error("expected contributors and receivers below {ranks}, got {came}")]
    NoSuchRank {
        /// The number of ranks.
        ranks: u32,
        /// The rank that the goal names.
        came: u32,
    },
    /// The function returned a schedule for another rank, another number of ranks, or other blocks.
    #[error(
        "rank {}: expected its schedule among {} ranks with {} blocks, got that of rank {} among {} with {}",
        expected.0, expected.1, expected.2, came.0, came.1, came.2
    )]
    Foreign {
        /// The rank asked for, the number of ranks and that of blocks.
        expected: (u32, u32, u32),
        /// Those of the schedule that was returned.
        came: (u32, u32, u32),
    },
    /// A step names its own rank, or no rank, as its peer.
    #[error("rank {rank} step {step}: expected another rank below {ranks} as the peer, got {came}")]
    Peer {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The number of ranks.
        ranks: u32,
        /// The peer that the step names.
        came: u32,
    },
    /// A step names a part that is not there, is empty, or reaches beyond the last block.
    #[error("rank {rank} step {step}: expected a part with some of the {blocks} blocks, got {came}")]
    Part {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The number of blocks of a register.
        blocks: u32,
        /// The part.
        came: String,
    },
    /// The parts at the two ends of a step differ in their number of blocks.
    #[error("rank {rank} step {step}: expected {expected} blocks, as its part has, got {came} from the other part")]
    Size {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The blocks of the part that the step stores or changes.
        expected: usize,
        /// The blocks of the other part.
        came: usize,
    },
    /// A rank is not in the group that it names, does not name the same group as the others, or follows but has steps.
    #[error("rank {rank}: expected {expected}, got {came}")]
    Group {
        /// The rank.
        rank: u32,
        /// The group or steps that it should have.
        expected: String,
        /// The group or steps that it has.
        came: String,
    },
    /// The step at the other end of a message is missing, or belongs to another message.
    #[error(
        "rank {rank} step {step}: expected both ends of ({expected}), got {} at the other end",
        came.map_or("nothing".into(), |link| format!("({link})"))
    )]
    Unmatched {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The message that the step names.
        expected: Link,
        /// The message that its other end names.
        came: Option<Link>,
    },
    /// Ranks wait for each other for ever.
    #[error(
        "rank {rank} step {step}: expected ({expected}) to complete, got a deadlock of {stuck} ranks with {channels}"
    )]
    Deadlock {
        /// The lowest rank that can't go on.
        rank: u32,
        /// The number of the step that it can't run.
        step: usize,
        /// The message that it waits for.
        expected: Link,
        /// The number of ranks that can't go on.
        stuck: u32,
        /// What the execution had room for.
        channels: Channels,
    },
    /// A step stores or combines a block that holds nothing yet.
    #[error("rank {rank} step {step}: expected a value in {part}, got nothing")]
    Nothing {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The block.
        part: String,
    },
    /// A step combines blocks that have different numbers in the contributions.
    #[error("rank {rank} step {step}: expected blocks of one number to combine, got several")]
    Mixed {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
    },
    /// A receiver ends with something else than the goal wants.
    #[error("rank {rank} after its last step: expected in block {block} {expected}, got {came}")]
    Result {
        /// The receiver.
        rank: u32,
        /// The block of its result.
        block: u32,
        /// What the goal wants.
        expected: String,
        /// What the block holds.
        came: String,
    },
}
