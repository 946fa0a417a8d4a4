//! The mistakes that the checker finds.

use crate::schedule::Link;
use std::fmt;

/// The number of messages that may be under way at once.
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckError {
    /// There are no ranks.
    NoRanks,
    /// Nobody contributes.
    NoContributors,
    /// A contributor or receiver is no rank.
    NoSuchRank {
        /// The number of ranks.
        ranks: u32,
        /// The rank that the goal names.
        came: u32,
    },
    /// A register has too many blocks.
    Blocks {
        /// The most blocks: 65,536, or the number of ranks if that is larger.
        most: u32,
        /// The number of blocks.
        came: u32,
    },
    /// A rank that neither contributes nor receives has steps.
    Idle {
        /// The rank.
        rank: u32,
        /// The number of its steps.
        came: usize,
    },
    /// The function returned a schedule for another rank, another number of ranks, or other blocks.
    Foreign {
        /// The rank asked for, the number of ranks and the number of blocks.
        expected: (u32, u32, u32),
        /// The same three of the schedule that was returned.
        came: (u32, u32, u32),
    },
    /// A step names its own rank, or no rank, as its peer.
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
    /// A rank is not in the group that it names, does not name the same group as the others, follows but has steps, or
    /// combines something else than whole vectors.
    Group {
        /// The rank.
        rank: u32,
        /// The group or steps that it should have.
        expected: String,
        /// The group or steps that it has.
        came: String,
    },
    /// The step at the other end of a message is missing, or belongs to another message.
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
    Deadlock {
        /// The lowest rank that can't go on.
        rank: u32,
        /// The number of the step that it can't run.
        step: usize,
        /// The message that it waits for.
        expected: Link,
        /// The number of ranks that can't go on.
        stuck: u32,
        /// The limit on messages under way in the execution.
        channels: Channels,
    },
    /// A step stores or combines a block that holds nothing yet.
    Nothing {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The block.
        part: String,
    },
    /// A step takes out what is not in the value, or all that is in it. An inverse is for neither.
    Undo {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// What should be in the value.
        expected: String,
        /// The value.
        came: String,
    },
    /// A step combines blocks that have different numbers in the contributions.
    Mixed {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
    },
    /// A receiver ends with something else than the goal wants.
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

impl CheckError {
    /// Where the mistake is, what was expected there, and what came.
    pub fn in_parts(&self) -> (String, String, String) {
        let at = |rank: &u32, step: &usize| format!("rank {rank} step {step}");
        match self {
            Self::NoRanks => (String::new(), "at least one rank".into(), "0".into()),
            Self::NoContributors => (String::new(), "at least one contributor".into(), "none".into()),
            Self::NoSuchRank { ranks, came } => {
                (String::new(), format!("contributors and receivers below {ranks}"), came.to_string())
            }
            Self::Blocks { most, came } => (String::new(), format!("at most {most} blocks"), came.to_string()),
            Self::Idle { rank, came } => (
                format!("rank {rank}"),
                "no steps, as it neither contributes nor receives".into(),
                format!("{came} steps"),
            ),
            Self::Foreign { expected: (rank, ranks, blocks), came } => (
                format!("rank {rank}"),
                format!("its schedule among {ranks} ranks with {blocks} blocks"),
                format!("the schedule of rank {} among {} with {}", came.0, came.1, came.2),
            ),
            Self::Peer { rank, step, ranks, came } => {
                (at(rank, step), format!("another rank below {ranks} as the peer"), came.to_string())
            }
            Self::Part { rank, step, blocks, came } => {
                (at(rank, step), format!("a part with some of the {blocks} blocks"), came.clone())
            }
            Self::Size { rank, step, expected, came } => {
                (at(rank, step), format!("{expected} blocks, as its part has"), format!("{came} from the other part"))
            }
            Self::Group { rank, expected, came } => (format!("rank {rank}"), expected.clone(), came.clone()),
            Self::Unmatched { rank, step, expected, came } => {
                let came = came.map_or("nothing".into(), |link| format!("({link})"));
                (at(rank, step), format!("both ends of ({expected})"), format!("{came} at the other end"))
            }
            Self::Deadlock { rank, step, expected, stuck, channels } => (
                at(rank, step),
                format!("({expected}) to complete"),
                format!("a deadlock of {stuck} ranks with {channels}"),
            ),
            Self::Nothing { rank, step, part } => (at(rank, step), format!("a value in {part}"), "nothing".into()),
            Self::Undo { rank, step, expected, came } => (at(rank, step), expected.clone(), came.clone()),
            Self::Mixed { rank, step } => (at(rank, step), "blocks of one number to combine".into(), "several".into()),
            Self::Result { rank, block, expected, came } => {
                (format!("rank {rank} after its last step"), format!("in block {block} {expected}"), came.clone())
            }
        }
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, expected, came) = self.in_parts();
        let colon = if at.is_empty() { "" } else { ": " };
        write!(f, "{at}{colon}expected {expected}, got {came}")
    }
}

impl std::error::Error for CheckError {}
