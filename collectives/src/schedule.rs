//! Schedules: the steps of each rank of a collective, as plain data.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::recursive_doubling::recursive_doubling;
use crate::two_level::{Blocks, two_level};

/// How a read subtask combines the partner's value with the running value.
///
/// A running value always stands for a block of neighbouring ranks. The block of lower ranks is the left operand,
/// because ⊕ need not commute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// `running = running ⊕ incoming`: the partner's block has higher ranks.
    IncomingIsHigher,
    /// `running = incoming ⊕ running`: the partner's block has lower ranks.
    IncomingIsLower,
    /// `running = incoming`: the partner already holds the result.
    Replace,
}

/// One step of one rank in a collective. Each step is one subtask.
///
/// `at` is the number of the matching step among the peer's steps of the other kind. So each end finds the other's
/// barrier cells by arithmetic alone. In §II-A of "Scalable collectives for distributed asynchronous many-task
/// runtimes", a round has one step of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Stores the running value in this rank's exchange region. Then arrives at the ready barrier of `peer`'s read
    /// number `at`.
    Update {
        /// The rank that will read the value.
        peer: u32,
        /// The number of the peer's read that takes it, from 0 in its schedule.
        at: u16,
    },
    /// Waits for the ready barrier of this read, and combines the value that `peer` stored in its update number `at`.
    /// Then arrives at the empty barrier of that update.
    Read {
        /// The rank whose exchange region is read.
        peer: u32,
        /// The number of the peer's update that is read, from 0 in its schedule.
        at: u16,
        /// How the running value changes.
        combine: Combine,
    },
}

const _: () = assert!(size_of::<Step>() <= 12);

impl Step {
    /// The rank at the other end.
    #[inline]
    pub fn peer(self) -> u32 {
        match self {
            Step::Update { peer, .. } | Step::Read { peer, .. } => peer,
        }
    }
}

/// For example `update to 5, its read 2` or `read from 5, its update 2, incoming is higher`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Update { peer, at } => write!(f, "update to {peer}, its read {at}"),
            Step::Read { peer, at, combine } => {
                let how = match combine {
                    Combine::IncomingIsHigher => "incoming is higher",
                    Combine::IncomingIsLower => "incoming is lower",
                    Combine::Replace => "replace",
                };
                write!(f, "read from {peer}, its update {at}, {how}")
            }
        }
    }
}

/// One message of a collective: an update at one rank and a read at another.
///
/// A schedule is well matched when both ends of every message name the same link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// The rank that updates.
    pub from: u32,
    /// The number of its update, from 0.
    pub update: u32,
    /// The rank that reads.
    pub to: u32,
    /// The number of its read, from 0.
    pub read: u32,
}

/// For example `update 1 of rank 2 → read 0 of rank 5`.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "update {} of rank {} → read {} of rank {}", self.update, self.from, self.read, self.to)
    }
}

/// The steps of one rank, in program order.
///
/// A schedule by itself proves nothing. [`check`](crate::check) proves the schedules of all ranks together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    rank: u32,
    participants: u32,
    block: Range<u32>,
    updates: u32,
    steps: Vec<Step>,
}

impl Schedule {
    /// Makes the schedule of `rank` among `participants`. Checks nothing.
    pub fn new(rank: u32, participants: u32, steps: Vec<Step>) -> Self {
        Self::in_block(rank, participants, rank..rank + 1, steps)
    }

    /// Makes the schedule of `rank`, whose [`block`](Self::block) combines in place. Checks nothing.
    pub fn in_block(rank: u32, participants: u32, block: Range<u32>, steps: Vec<Step>) -> Self {
        let updates = steps.iter().filter(|s| matches!(s, Step::Update { .. }));
        Schedule { rank, participants, block, updates: updates.count() as u32, steps }
    }

    /// The rank that runs these steps.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks that take part in the collective.
    #[inline]
    pub fn participants(&self) -> u32 {
        self.participants
    }

    /// The ranks on one processor that combine in place with this one; usually the rank alone.
    ///
    /// Their contributions are combined [pairwise](maniple_runtime::replay::pairwise) before the first of them takes
    /// its steps. The others have no steps and get its result.
    #[inline]
    pub fn block(&self) -> Range<u32> {
        self.block.clone()
    }

    /// The steps in program order. A step may start when the one before it has ended.
    #[inline]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The number of updates. A slot needs as many exchange cells and empty barriers at this rank.
    #[inline]
    pub fn updates(&self) -> usize {
        self.updates as usize
    }

    /// The number of reads. A slot needs as many ready barriers at this rank.
    #[inline]
    pub fn reads(&self) -> usize {
        self.steps.len() - self.updates()
    }

    /// The message that each step sends or receives, in order.
    ///
    /// An update's own number is the link's `update`, and a read's own number is the link's `read`.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        let (mut updates, mut reads) = (0, 0);
        self.steps.iter().map(move |step| match *step {
            Step::Update { peer, at } => {
                updates += 1;
                Link { from: self.rank, update: updates - 1, to: peer, read: u32::from(at) }
            }
            Step::Read { peer, at, .. } => {
                reads += 1;
                Link { from: peer, update: u32::from(at), to: self.rank, read: reads - 1 }
            }
        })
    }
}

/// One line for the rank and one for each step.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.participants)?;
        if self.block.len() > 1 {
            write!(f, ", in the block {:?}", self.block)?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            write!(f, "\n  step {number}: {step}")?;
        }
        Ok(())
    }
}

/// An algorithm for a collective. A mapper can choose it.
///
/// All algorithms combine in rank order and leave the same bits on every rank. The choice changes the speed and the
/// grouping. For operators that are not associative, another grouping may give other bits. The result never depends on
/// timing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Algorithm {
    /// Pairwise exchanges at doubling distance; see [`recursive_doubling`].
    #[default]
    RecursiveDoubling,
    /// The ranks of each processor first, then the processors; see [`two_level`]. The grouping depends on the mapper's
    /// placement. It is that of recursive doubling if each processor has the same power of two of ranks.
    TwoLevel,
}

impl Algorithm {
    /// All algorithms, in the order of help texts.
    pub const ALL: &'static [Algorithm] = &[Algorithm::RecursiveDoubling, Algorithm::TwoLevel];

    /// The name, as on command lines, in figures and in serialised form.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RecursiveDoubling => "recursive-doubling",
            Algorithm::TwoLevel => "two-level",
        }
    }

    /// The schedule of `rank` among participants in `blocks`. Local and pure: no rank talks to another.
    ///
    /// # Panics
    ///
    /// If `rank` is not below the number of participants.
    pub fn schedule(self, rank: u32, blocks: &Blocks) -> Schedule {
        match self {
            Algorithm::RecursiveDoubling => recursive_doubling(rank, blocks.participants()),
            Algorithm::TwoLevel => two_level(rank, blocks),
        }
    }

    /// Whether contributions are grouped as in recursive doubling, so that any operator gives the same bits.
    pub fn groups_by_doubling(self, blocks: &Blocks) -> bool {
        match self {
            Algorithm::RecursiveDoubling => true,
            Algorithm::TwoLevel => blocks.are_alike(),
        }
    }

    /// The [block](Schedule::block) of `rank` in that schedule.
    pub(crate) fn block(self, rank: u32, blocks: &Blocks) -> Range<u32> {
        match self {
            Algorithm::RecursiveDoubling => rank..rank + 1,
            Algorithm::TwoLevel => blocks.of_rank(rank),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that belongs to no [`Algorithm`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown collective algorithm `{came}`, expected one of: {}", known())]
pub struct UnknownAlgorithm {
    /// The name that was given.
    pub came: String,
}

fn known() -> String {
    let names: Vec<_> = Algorithm::ALL.iter().map(|a| a.name()).collect();
    names.join(", ")
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Algorithm::ALL.iter().copied().find(|a| a.name() == name).ok_or_else(|| UnknownAlgorithm { came: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_eight_bytes() {
        assert_eq!(size_of::<Step>(), 8);
    }

    #[test]
    fn links_number_each_kind_apart() {
        let steps = vec![
            Step::Read { peer: 4, at: 7, combine: Combine::Replace },
            Step::Update { peer: 5, at: 8 },
            Step::Update { peer: 6, at: 9 },
        ];
        let schedule = Schedule::new(3, 10, steps);
        assert_eq!((schedule.updates(), schedule.reads()), (2, 1));
        let shown: Vec<_> = schedule.links().map(|l| l.to_string()).collect();
        assert_eq!(
            shown,
            [
                "update 7 of rank 4 → read 0 of rank 3",
                "update 0 of rank 3 → read 8 of rank 5",
                "update 1 of rank 3 → read 9 of rank 6",
            ]
        );
        assert_eq!(
            schedule.to_string(),
            "rank 3 of 10\n  step 0: read from 4, its update 7, replace\n  step 1: update to 5, its read 8\n  \
             step 2: update to 6, its read 9"
        );
    }

    #[test]
    fn names_round_trip() {
        for &algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        let error = "ring".parse::<Algorithm>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown collective algorithm `ring`, expected one of: recursive-doubling, two-level"
        );
    }
}
