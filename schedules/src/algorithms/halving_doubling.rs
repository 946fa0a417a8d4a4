//! Recursive halving and doubling: allreduces of large vectors. Each rank combines a part of the vector, and then all collect
//! the parts.

use super::method::{Case, Cells, Method, Needs};
use super::places::Places;
use crate::schedule::{Combine, Part, Schedule};
use crate::Kind;
use std::ops::Range;

/// See [`halving_doubling`].
pub(crate) struct HalvingDoubling;

impl Method for HalvingDoubling {
    fn name(&self) -> &'static str {
        "halving-doubling"
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        matches!(kind, Kind::Allreduce | Kind::Reduce).then_some(Needs::Together)
    }
    fn sends_both_ways(&self, _: Kind) -> bool {
        true
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        case.among(rank, 1 << case.contributors().ilog2(), halving_doubling)
    }
    fn cells(&self, case: &Case, rank: u32) -> Cells {
        case.cells_by_place(rank)
    }
}

/// The steps of `rank` in an allreduce by recursive halving and doubling (Rabenseifner), with the brackets of
/// [`recursive_doubling`](super::recursive_doubling).
///
/// The vector is cut into 2^m blocks, where 2^m is the largest power of two up to P. In round k a rank exchanges half of
/// what it still has with the rank at distance 2^k, and combines the other half. At the end it has one block of the
/// result. Then the same exchanges in reverse order collect the blocks. So each of the 2^m ranks sends and receives
/// 2·(2^m − 1) blocks in 2·m messages: less than twice the vector, where recursive doubling sends it m times.
///
/// For any other P, the surplus ranks hand their whole vectors to their neighbours first, and get the result at the end.
///
/// ```
/// # use maniple_schedules::{Goal, check, halving_doubling};
/// let report = check(&Goal::allreduce(8, 8), |rank| halving_doubling(rank, 8)).unwrap();
/// assert_eq!((report.rounds, report.messages, report.blocks), (6, 8 * 6, 8 * 14));
/// assert!(report.by_doubling);
/// ```
///
/// # Panics
///
/// If `rank >= ranks`.
pub fn halving_doubling(rank: u32, ranks: u32) -> Schedule {
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    let places = Places::of(ranks);
    let (place, rounds) = (places.place(rank), places.bits);
    let mut schedule = Schedule::new(rank, ranks, 1 << rounds);
    let all = || Part::new(0, 0..1 << rounds);
    if rank != places.first(place) {
        schedule.update(rank - 1, 0, all());
        schedule.read(rank - 1, 2 * rounds, all(), Combine::Replace);
        return schedule;
    }
    if places.is_pair(place) {
        schedule.read(rank + 1, 0, all(), Combine::IncomingIsHigher);
    }
    let partner = |round: u32| place ^ (1 << round);
    let folds = |place: u32| u32::from(places.is_pair(place));
    let halves = |round: u32| {
        let (mine, theirs) = halves(place, rounds, round);
        (Part::new(0, mine), Part::new(0, theirs))
    };
    for round in 0..rounds {
        let (mine, theirs) = halves(round);
        let (other, how) = (partner(round), if partner(round) > place { HIGHER } else { LOWER });
        schedule.update(places.first(other), round + folds(other), theirs);
        schedule.read(places.first(other), round, mine, how);
    }
    for (number, round) in (rounds..).zip((0..rounds).rev()) {
        let ((mine, theirs), other) = (halves(round), partner(round));
        schedule.update(places.first(other), number + folds(other), mine);
        schedule.read(places.first(other), number, theirs, Combine::Replace);
    }
    if places.is_pair(place) {
        schedule.update(rank + 1, 0, all());
    }
    schedule
}

/// What a place keeps in a round of halving 2^rounds blocks, and what its partner keeps.
pub(super) fn halves(place: u32, rounds: u32, round: u32) -> (Range<u32>, Range<u32>) {
    let cut = |of: &Range<u32>| {
        let middle = u32::midpoint(of.start, of.end);
        (of.start..middle, middle..of.end)
    };
    let kept =
        (0..round).fold(0..1 << rounds, |of, round| if place >> round & 1 == 0 { cut(&of).0 } else { cut(&of).1 });
    let (lower, higher) = cut(&kept);
    if place >> round & 1 == 0 { (lower, higher) } else { (higher, lower) }
}

const HIGHER: Combine = Combine::IncomingIsHigher;
const LOWER: Combine = Combine::IncomingIsLower;
