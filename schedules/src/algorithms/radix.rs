//! Exchanges in groups of several ranks, with the brackets of recursive doubling.

use super::method::{Case, Cells, Method, Needs, Numbers, cells};
use super::places::Places;
use crate::Kind;
use crate::schedule::{Combine, Part, Schedule};
use std::ops::Range;

/// See [`radix`].
pub(crate) struct Radix;

impl Method for Radix {
    fn name(&self) -> &'static str {
        "radix"
    }
    fn numbers(&self) -> Option<Numbers> {
        Some(Numbers { usual: &[2, 4, 8, 16], powers_of_two: true })
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        matches!(kind, Kind::Allreduce | Kind::Reduce).then_some(Needs::Together)
    }
    fn is_in_one_round(&self, number: u8, ranks: u32) -> bool {
        u32::from(number) >= ranks
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        case.among(rank, 1, |rank, ranks| radix(rank, ranks, case.number.into()))
    }
    fn cells(&self, case: &Case, rank: u32) -> Cells {
        let Some(position) = case.goal.contributors().position(rank) else { return Cells::Made };
        Cells::Number(cells(&radix_unlinked(position, case.contributors(), case.number.into())))
    }
}

/// The steps of `rank` in an allreduce by exchanges in groups of `radix` places.
///
/// In each round a rank sends its value to the others of its group, and combines theirs in the order and with the brackets
/// of [`recursive_doubling`](super::recursive_doubling). So it has fewer rounds and more messages than that, and the same
/// bits for any operator. With the largest power of two up to P as the radix, everybody sends to everybody.
///
/// Let 2^m be the largest power of two up to P. The places are the leaves of recursive doubling's tree: there are 2^m,
/// and the first s = P − 2^m of them have two ranks each. In the first round all ranks of the places of a group
/// exchange values, so no round is lost to fold ranks first, or to hand them the result. From then on all ranks of a
/// place have the same value. A rank of another place reads it from one of them; the ranks of a pair read from one
/// each. There are ⌈m / log₂ radix⌉ rounds. The last one may have smaller groups.
///
/// ```
/// # use maniple_schedules::{Goal, check, radix};
/// let report = check(&Goal::allreduce(16, 1), |rank| radix(rank, 16, 4)).unwrap();
/// assert_eq!((report.rounds, report.messages), (2, 16 * 2 * 3));
/// assert!(report.by_doubling);
/// ```
///
/// # Panics
///
/// If `rank >= ranks`, or `radix` is not a power of two from 2.
pub fn radix(rank: u32, ranks: u32, radix: u32) -> Schedule {
    Schedule::linked(rank, |rank| radix_unlinked(rank, ranks, radix))
}

/// The steps without the numbers of their peers' steps.
fn radix_unlinked(rank: u32, ranks: u32, radix: u32) -> Schedule {
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    assert!(radix >= 2 && radix.is_power_of_two(), "a radix of {radix} is not a power of two from 2");
    let places = Places::of(ranks);
    let place = places.place(rank);
    let number = rank - places.first(place);
    let mut schedule = Schedule::new(rank, ranks, 1);
    for round in (Rounds { bits: places.bits, step: radix.ilog2(), done: 0 }) {
        let me = round.member(place);
        let is_first = round.lowest == 0;
        if is_first {
            places.ranks(place).filter(|&other| other != rank).for_each(|other| schedule.send(other, value(0)));
        }
        // The members after this one first, so that not all begin with the same one.
        for turn in 1..round.members() {
            let peer = places.ranks(round.place(place, (me + turn) % round.members()));
            let own = places.ranks(place).len() as u32;
            let reads = |other: u32| is_first || (other - places.first(places.place(other))) % own == number;
            peer.filter(|&other| reads(other)).for_each(|other| schedule.send(other, value(0)));
        }
        let mut reads = Reads { schedule: &mut schedule, places, round, place, number };
        if is_first {
            for other in places.ranks(place).filter(|&other| other != rank) {
                reads.schedule.receive(other, value(0), side(other > rank));
            }
        }
        for level in 0..round.width {
            let sibling = (me >> level) ^ 1;
            reads.combine(sibling << level..(sibling + 1) << level, 0, side(sibling & 1 == 1));
        }
    }
    schedule
}

fn value(register: u8) -> Part {
    Part::block(register, 0)
}

fn side(is_higher: bool) -> Combine {
    if is_higher { Combine::IncomingIsHigher } else { Combine::IncomingIsLower }
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
}

/// Adds the reads of one round.
struct Reads<'a> {
    schedule: &'a mut Schedule,
    places: Places,
    round: Round,
    place: u32,
    /// The number of this rank in its place.
    number: u32,
}

impl Reads<'_> {
    /// Combines the values of some members, as their node in the tree has them, with a register.
    fn combine(&mut self, members: Range<u32>, register: u8, how: Combine) {
        if members.len() == 1 {
            return self.read(members.start, register, how);
        }
        let middle = members.start.midpoint(members.end);
        self.node(register, how, |reads, own| {
            reads.combine(members.start..middle, own, Combine::Replace);
            reads.combine(middle..members.end, own, Combine::IncomingIsHigher);
        });
    }

    /// Reads the value of a member's place: in the first round of each of its ranks, and later of one of them.
    fn read(&mut self, member: u32, register: u8, how: Combine) {
        let ranks = self.places.ranks(self.round.place(self.place, member));
        let (first, count) = (ranks.start, ranks.len() as u32);
        if self.round.lowest > 0 || count == 1 {
            return self.schedule.receive(first + self.number % count, value(register), how);
        }
        self.node(register, how, |reads, own| {
            reads.schedule.receive(first, value(own), Combine::Replace);
            reads.schedule.receive(first + 1, value(own), Combine::IncomingIsHigher);
        });
    }

    /// Makes a value out of two, and combines it with a register. A value that only replaces needs no register of its own.
    fn node(&mut self, register: u8, how: Combine, make: impl FnOnce(&mut Self, u8)) {
        let own = if how == Combine::Replace { register } else { register + 1 };
        make(self, own);
        if own != register {
            self.schedule.local(value(own), value(register), how);
        }
    }
}
