//! Exchanges in groups of several ranks, with the brackets of recursive doubling.

use super::places::Places;
use crate::schedule::{Combine, Part, Schedule};
use std::ops::Range;

/// The steps of `rank` in an allreduce by exchanges in groups of `radix` ranks.
///
/// In each round a rank sends its value to all others of its group, and combines theirs in the order and with the
/// brackets of [`recursive_doubling`](super::recursive_doubling). So it has fewer rounds and more messages than that,
/// and the same bits for any operator. With a radix of 2 it is recursive doubling, and with a radix of at least P,
/// rounded down to a power of two, everybody sends to everybody.
///
/// Let 2^m be the largest power of two up to P, and s = P − 2^m. The first s pairs of ranks fold onto their even ranks
/// first, and get the result from these at the end. Between, there are ⌈m / log₂ radix⌉ rounds. A round of groups of g
/// ranks has g − 1 messages for each of the 2^m ranks; the last round may have smaller groups.
///
/// ```
/// # use maniple_collectives::{Goal, check, radix};
/// let report = check(&Goal::allreduce(16, 1), |rank| radix(rank, 16, 4)).unwrap();
/// assert_eq!((report.rounds, report.messages), (2, 16 * 2 * 3));
/// assert!(report.by_doubling);
/// ```
///
/// # Panics
///
/// If `rank >= ranks`, or `radix` is not a power of two from 2.
pub fn radix(rank: u32, ranks: u32, radix: u32) -> Schedule {
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    assert!(radix >= 2 && radix.is_power_of_two(), "a radix of {radix} is not a power of two from 2");
    let places = Places::of(ranks);
    let place = places.place(rank);
    let mut schedule = Schedule::new(rank, ranks, 1);
    let value = || Part::block(0, 0);
    let rounds = || Rounds { bits: places.bits, step: radix.ilog2(), done: 0 };
    // Updates and reads before the present round, without those of the fold.
    let mut before = 0;
    if rank != places.first(place) {
        let messages: u32 = rounds().map(|round| round.members() - 1).sum();
        schedule.update(rank - 1, 0, value());
        schedule.read(rank - 1, messages, value(), Combine::Replace);
        return schedule;
    }
    if places.is_pair(place) {
        schedule.read(rank + 1, 0, value(), Combine::IncomingIsHigher);
    }
    for round in rounds() {
        let me = round.member(place);
        let others = || (0..round.members()).filter(|&member| member != me);
        for other in others() {
            let peer = round.place(place, other);
            // The fold is the first read of a pair.
            let at = before + place_in(round.order(other), me) + u32::from(places.is_pair(peer));
            schedule.update(places.first(peer), at, value());
        }
        let mut reads = Reads { schedule: &mut schedule, places, round, place, before };
        for level in 0..round.width {
            let sibling = (me >> level) ^ 1;
            let how = if sibling & 1 == 1 { Combine::IncomingIsHigher } else { Combine::IncomingIsLower };
            reads.combine(sibling << level..(sibling + 1) << level, 0, how);
        }
        before += round.members() - 1;
    }
    if places.is_pair(place) {
        schedule.update(rank + 1, 0, value());
    }
    schedule
}

/// The rounds: each takes some more bits of the places.
struct Rounds {
    bits: u32,
    step: u32,
    done: u32,
}

/// A round in which the places of a group differ in `width` bits from `lowest` on. A member's number is these bits.
#[derive(Clone, Copy)]
struct Round {
    lowest: u32,
    width: u32,
}

impl Iterator for Rounds {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        let width = self.step.min(self.bits - self.done);
        let round = Round { lowest: self.done, width };
        self.done += width;
        (width > 0).then_some(round)
    }
}

impl Round {
    fn members(self) -> u32 {
        1 << self.width
    }

    fn member(self, place: u32) -> u32 {
        (place >> self.lowest) & (self.members() - 1)
    }

    /// The place of another member of the group of `place`.
    fn place(self, place: u32, member: u32) -> u32 {
        place ^ ((self.member(place) ^ member) << self.lowest)
    }

    /// The members whose values a member reads, in the order of its reads: its sibling, that of the pair, and so on.
    fn order(self, me: u32) -> impl Iterator<Item = u32> {
        (0..self.width).flat_map(move |level| {
            let sibling = (me >> level) ^ 1;
            sibling << level..(sibling + 1) << level
        })
    }
}

fn place_in(mut order: impl Iterator<Item = u32>, member: u32) -> u32 {
    order.position(|other| other == member).expect("members of a group read each other's values") as u32
}

/// Adds the reads of one round.
struct Reads<'a> {
    schedule: &'a mut Schedule,
    places: Places,
    round: Round,
    place: u32,
    before: u32,
}

impl Reads<'_> {
    /// Combines the values of some members, as their node in the tree has them, with a register.
    fn combine(&mut self, members: Range<u32>, register: u8, how: Combine) {
        if members.len() == 1 {
            let peer = self.round.place(self.place, members.start);
            let me = self.round.member(self.place);
            let at = self.before + me - u32::from(me > members.start);
            return self.schedule.read(self.places.first(peer), at, Part::block(register, 0), how);
        }
        let middle = members.start.midpoint(members.end);
        // A value that only replaces needs no register of its own.
        let own = if how == Combine::Replace { register } else { register + 1 };
        self.combine(members.start..middle, own, Combine::Replace);
        self.combine(middle..members.end, own, Combine::IncomingIsHigher);
        if own != register {
            self.schedule.local(Part::block(own, 0), Part::block(register, 0), how);
        }
    }
}
