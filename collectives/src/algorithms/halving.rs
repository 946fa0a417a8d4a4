//! Allreduces of large vectors: each rank combines a part of the vector, and then all collect the parts. Reduce-scatters,
//! which omit the second step.

use super::order::{self, Fold, Order};
use super::places::Places;
use crate::schedule::{Combine, Part, Schedule};
use std::ops::Range;

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
/// # use maniple_collectives::{Goal, check, halving_doubling};
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
fn halves(place: u32, rounds: u32, round: u32) -> (Range<u32>, Range<u32>) {
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
/// # use maniple_collectives::{Goal, Ranks, check, halving_reduce_scatter};
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

/// The steps of `rank` in an allreduce in two rounds: each rank combines its block of all contributions, and then sends
/// that to all others.
///
/// The vector is cut into P blocks. Each rank sends and receives 2·(P − 1) blocks in as many messages. With few ranks no
/// algorithm moves less, and none needs fewer rounds for that. Combinations have the brackets of `order`.
///
/// ```
/// # use maniple_collectives::{Goal, Order, check, sliced};
/// let report = check(&Goal::allreduce(5, 5), |rank| sliced(rank, 5, Order::Left)).unwrap();
/// assert_eq!((report.rounds, report.messages, report.blocks), (2, 5 * 8, 5 * 8));
/// assert!(report.by_loop);
/// ```
///
/// # Panics
///
/// If `rank >= ranks`.
pub fn sliced(rank: u32, ranks: u32, order: Order) -> Schedule {
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    // The contribution stays as it is while others read it. The result has a register of its own.
    let mut schedule = Schedule::new(rank, ranks, ranks).with_result(1);
    // In turn, so that not all begin with the same rank.
    let others = || (1..ranks).map(move |turn| (rank + turn) % ranks);
    // A rank's block for others is its update number `turn` from 0.
    let turn = |from: u32, to: u32| (to + ranks - from) % ranks - 1;
    for to in others() {
        schedule.update(to, order::number_of_read(order, ranks, Some(to), rank), Part::block(0, to));
    }
    schedule.local(Part::block(0, rank), Part::block(1, rank), Combine::Replace);
    let read = |schedule: &mut Schedule, from: u32, part: Part, how: Combine| {
        schedule.read(from, turn(from, rank), part, how);
    };
    Fold { schedule: &mut schedule, order, all: ranks, blocks: rank..rank + 1, read }.add(1, Some(rank));
    for to in others() {
        // It reads them from the rank before it on, downwards.
        schedule.update(to, ranks - 1 + turn(rank, to), Part::block(1, rank));
    }
    for before in 1..ranks {
        let from = (rank + ranks - before) % ranks;
        schedule.read(from, ranks - 1 + turn(from, rank), Part::block(1, from), Combine::Replace);
    }
    schedule
}
