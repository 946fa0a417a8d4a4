//! Recursive halving: the first half of an allreduce by [halving and doubling](super::halving_doubling).

use super::halving_doubling::halves;
use super::method::{self, Case, Cells, Method, Needs};
use super::places::Places;
use crate::Kind;
use crate::schedule::{Combine, Part, Schedule};
use std::ops::Range;

/// See [`halving_reduce_scatter`].
pub(crate) struct Halving;

impl Method for Halving {
    fn name(&self) -> &'static str {
        "halving"
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        (kind == Kind::ReduceScatter).then_some(Needs::Together)
    }
    fn most(&self, _: Kind) -> Option<u32> {
        Some(method::MOST)
    }
    fn needs_equal_blocks(&self, _: Kind) -> bool {
        true
    }
    fn sends_both_ways(&self, _: Kind) -> bool {
        true
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        case.among(rank, case.contributors(), halving_reduce_scatter)
    }
    fn cells(&self, case: &Case, rank: u32) -> Cells {
        case.cells_by_place(rank)
    }
}

const HIGHER: Combine = Combine::IncomingIsHigher;
const LOWER: Combine = Combine::IncomingIsLower;

/// The steps of `rank` in a reduce-scatter by recursive halving, with the brackets of
/// [`recursive_doubling`](super::recursive_doubling): log₂ P messages from each rank if P is a power of two.
///
/// In round k a rank sends half of its remaining blocks to the rank at distance 2^k, and combines the other half with what
/// that rank sends. Each half is a contiguous run, because each rank first puts its blocks in bit-reversed order. All blocks
/// must have the same size.
///
/// If P is no power of two, the surplus ranks first hand their contributions to their neighbours, and get their blocks at the
/// end.
///
/// ```
/// # use maniple_schedules::{Goal, Ranks, check, halving_reduce_scatter};
/// let goal = Goal::reduce_scatter(8, Ranks::all(8), Ranks::all(8));
/// let report = check(&goal, |rank| halving_reduce_scatter(rank, 8)).unwrap();
/// assert_eq!((report.rounds, report.messages, report.blocks), (3, 8 * 3, 8 * 7));
/// assert!(report.by_doubling);
/// ```
///
/// # Panics
///
/// If `rank >= ranks`, or for 32,768 ranks and more, which would have too many parts.
pub fn halving_reduce_scatter(rank: u32, ranks: u32) -> Schedule {
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    let [mine, halved, result]: [u8; 3] = [0, 1, 2];
    let places = Places::of(ranks);
    let (place, rounds) = (places.place(rank), places.bits);
    let mut schedule = Schedule::new(rank, ranks, ranks).with_result(result);
    let own = Part::block(result, rank);
    if rank != places.first(place) {
        schedule.update(rank - 1, 0, Part::new(mine, 0..ranks));
        schedule.read(rank - 1, rounds, own, Combine::Replace);
        return schedule;
    }
    if places.is_pair(place) {
        schedule.read(rank + 1, 0, Part::new(mine, 0..ranks), HIGHER);
    }
    // Where the blocks of each place begin in the new order, and the end.
    let mut starts = vec![0];
    for at in 0..1_u32 << rounds {
        let of = places.ranks(reversed(at, rounds));
        let start = starts[at as usize];
        starts.push(start + of.len() as u32);
        schedule.local(Part::new(mine, of), Part::new(halved, start..starts[at as usize + 1]), Combine::Replace);
    }
    let part = |places: Range<u32>| Part::new(halved, starts[places.start as usize]..starts[places.end as usize]);
    let folds = |place: u32| u32::from(places.is_pair(place));
    for round in 0..rounds {
        let (keeps, gives) = halves(place, rounds, round);
        let other = place ^ (1 << round);
        schedule.update(places.first(other), round + folds(other), part(gives));
        schedule.read(places.first(other), round, part(keeps), if other > place { HIGHER } else { LOWER });
    }
    let start = starts[reversed(place, rounds) as usize];
    if places.is_pair(place) {
        schedule.update(rank + 1, 0, Part::block(halved, start + 1));
    }
    schedule.local(Part::block(halved, start), own, Combine::Replace);
    schedule
}

/// The lowest `bits` bits of a number, in reverse order.
fn reversed(number: u32, bits: u32) -> u32 {
    if bits == 0 { 0 } else { number.reverse_bits() >> (u32::BITS - bits) }
}
