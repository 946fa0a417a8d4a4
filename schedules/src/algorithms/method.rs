//! What each algorithm says of itself.

use super::places::Places;
use super::{Groups, Order, Survivors};
use crate::{Algorithm, Goal, Kind, Laws, Schedule};
use std::ops::Range;
use std::sync::Arc;

/// An algorithm. All that the rest of the crate knows about it is said here, in the algorithm's file.
pub(crate) trait Method: Sync {
    /// The name without its number, as on command lines.
    fn name(&self) -> &'static str;

    /// The numbers that it can have, if it has one.
    fn numbers(&self) -> Option<Numbers> {
        None
    }

    /// What it needs of the contributors and receivers of goals of a kind. `None` if it is not for that kind.
    fn needs(&self, kind: Kind) -> Option<Needs>;

    /// The most contributors or receivers for which it reaches a goal of a kind, if there is a limit.
    fn most(&self, _: Kind) -> Option<u32> {
        None
    }

    /// The most contributors or receivers for which a mapper is offered it for a kind, if there are other algorithms.
    fn most_offered(&self, _: Kind) -> u32 {
        u32::MAX
    }

    /// Whether it exists with a number for that many ranks, apart from a limit.
    fn exists(&self, _ranks: u32, _number: u8) -> bool {
        true
    }

    /// What is run instead where it does not exist.
    fn instead(&self, _number: u8) -> Option<Algorithm> {
        None
    }

    /// Whether a rank reaches all others in one round with this number, so that a larger one changes nothing.
    fn is_in_one_round(&self, _number: u8, _ranks: u32) -> bool {
        false
    }

    /// The laws that an operator must obey bit for bit.
    fn laws(&self, _: Kind) -> Laws {
        Laws::NONE
    }

    /// Whether contributions are grouped as in recursive doubling, if it needs no laws.
    fn groups_by_doubling(&self, _: &Groups) -> bool {
        true
    }

    /// Whether it can combine in the order of a sequential loop.
    fn has_order(&self) -> bool {
        false
    }

    /// Whether it moves blocks through others' places, so that all must have the same size.
    fn needs_equal_blocks(&self, _: Kind) -> bool {
        false
    }

    /// Whether a message can have several blocks, if nothing is combined.
    fn joins_blocks(&self, _: Kind) -> bool {
        false
    }

    /// Whether nearly every rank that sends a value also reads one of the same partner.
    fn sends_both_ways(&self, _: Kind) -> bool {
        false
    }

    /// The survivors of a reduction, if there are several choices of them with the same bits.
    fn survivors(&self, _: &Goal) -> Option<Survivors> {
        None
    }

    /// What knows the schedules of all ranks of a goal, if preparing it once takes less time than planning each rank alone.
    fn prepared(&self, _: &Goal) -> Option<Arc<dyn Ranked>> {
        None
    }

    /// The steps of a rank.
    fn schedule(&self, case: &Case, rank: u32) -> Schedule;

    /// The number of updates of a rank that takes part, or of its reads if they are more. Every node asks for all ranks.
    fn cells(&self, _: &Case, _rank: u32) -> Cells {
        Cells::Made
    }

    /// The [group](Schedule::group) of a rank.
    fn group(&self, _: &Case, rank: u32) -> Range<u32> {
        rank..rank + 1
    }
}

/// The collective that an algorithm is asked for.
pub(crate) struct Case<'a> {
    pub goal: &'a Goal,
    /// The number after the name, or 0.
    pub number: u8,
    pub order: Order,
    pub groups: &'a Groups,
}

impl Case<'_> {
    /// The schedule of a rank by an algorithm for all ranks, which runs among the positions of the contributors. `blocks` is the
    /// number of blocks of its vectors.
    pub fn among(&self, rank: u32, blocks: u32, make: impl Fn(u32, u32) -> Schedule) -> Schedule {
        let (ranks, from) = (self.goal.ranks(), self.goal.contributors());
        match from.position(rank) {
            None => Schedule::new(rank, ranks, blocks),
            Some(position) => make(position, from.len()).among(rank, ranks, |position| from.at(position)),
        }
    }

    /// The number of contributors.
    pub fn contributors(&self) -> u32 {
        self.goal.contributors().len()
    }

    /// The number of cells depends only on a rank's place: the first of a pair which combines before the others, the second of
    /// one, or neither.
    pub fn cells_by_place(&self, rank: u32) -> Cells {
        let Some(position) = self.goal.contributors().position(rank) else { return Cells::Made };
        let places = Places::of(self.contributors());
        let place = places.place(position);
        Cells::OfClass(if places.is_pair(place) { (position - places.first(place)) as usize } else { 2 })
    }
}

/// What is known of a rank's cells without its schedule.
pub(crate) enum Cells {
    /// Nothing, so its schedule is made.
    Made,
    /// Their number.
    Number(u32),
    /// The same number for all ranks of this class, 0 to 2.
    OfClass(usize),
}

/// The schedules of all ranks of a goal, as data that they share.
pub(crate) trait Ranked: Send + Sync {
    /// The steps of a rank.
    fn of(&self, rank: u32) -> Schedule;

    /// The number of updates of a rank, or of its reads if they are more.
    fn cells(&self, rank: u32) -> u32;

    /// The survivors, if it is a reduction by them.
    fn survivors(&self) -> Option<&Survivors> {
        None
    }
}

/// The numbers that an algorithm can have.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    /// Those worth trying.
    pub usual: &'static [u8],
    /// Whether it must be a power of two, from 2 on.
    pub powers_of_two: bool,
}

impl Numbers {
    const MOST: u8 = 64;

    pub fn allow(self, number: u8) -> bool {
        let fits = if self.powers_of_two { number.is_power_of_two() && number > 1 } else { number > 0 };
        fits && number <= Self::MOST
    }

    /// What is expected after the name of the algorithm.
    pub fn after(self, name: &str) -> String {
        let number = if self.powers_of_two { "a power of two from 2 to 64" } else { "a number from 1 to 64" };
        format!("{number} after `{name}`")
    }

    pub fn others_in_words(self) -> &'static str {
        if self.powers_of_two { "another power of two up to 64" } else { "another number up to 64" }
    }
}

/// What an algorithm needs of the contributors and receivers.
#[derive(Clone, Copy)]
pub(crate) enum Needs {
    Nothing,
    /// That the contributors are the receivers.
    Together,
    /// That all ranks are both.
    All,
    OneReceiver,
}

impl Needs {
    pub fn are_met(self, goal: &Goal) -> bool {
        let together = || goal.contributors() == goal.receivers();
        match self {
            Needs::Nothing => true,
            Needs::Together => together(),
            Needs::All => together() && goal.contributors().len() == goal.ranks(),
            Needs::OneReceiver => goal.receivers().len() == 1,
        }
    }

    /// Whether some goal of a kind meets them.
    pub fn can_be_met(self, kind: Kind) -> bool {
        match self {
            Needs::Nothing | Needs::OneReceiver => true,
            // The receivers of these are not the same set as the contributors.
            Needs::Together | Needs::All => !matches!(kind, Kind::Reduce | Kind::Gather),
        }
    }

    pub fn in_words(self) -> &'static str {
        match self {
            Needs::Nothing => "nothing",
            Needs::Together => "the shards that contribute to be those that receive",
            Needs::All => "all shards to take part, and all that contribute to receive",
            Needs::OneReceiver => "one receiver",
        }
    }
}

/// The most ranks where a rank has several steps or parts for each of the others: their numbers have 16 bits.
pub(crate) const MOST: u32 = 8192;
/// The most ranks for which a mapper is offered an algorithm in which a rank combines a value of each of the others.
pub(crate) const MOST_OFFERED_COMBINING: u32 = 64;
/// The same where a rank only sends to each of the others, or waits for as many one after another: its time grows with
/// their number, and the memory of all ranks with its square.
pub(crate) const MOST_OFFERED: u32 = 1024;

/// The number of updates, or of reads if they are more.
pub(crate) fn cells(schedule: &Schedule) -> u32 {
    schedule.updates().max(schedule.reads()) as u32
}
