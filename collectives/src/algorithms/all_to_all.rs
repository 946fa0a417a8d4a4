//! All-to-alls. For large blocks between few ranks [`direct`](super::direct) is good.

use super::gather::circle;
use crate::goal::Ranks;
use crate::schedule::{Combine, Part, Schedule};

/// The steps of `rank` in an all-to-all as Bruck does it: ⌈log₂ m⌉ messages from each of m ranks, with half of all blocks in
/// each. Good for small blocks.
///
/// A block whose way has the length d, in the circle of ranks, goes 2^k ranks on in round k if d has that bit. What a rank
/// sends in a round is packed together first.
///
/// The contributors are the receivers; other ranks have no steps.
///
/// ```
/// # use maniple_collectives::{Goal, Ranks, bruck_all_to_all, check};
/// let all = Ranks::all(6);
/// let goal = Goal::all_to_all(6, all.clone(), all.clone());
/// let report = check(&goal, |rank| bruck_all_to_all(rank, 6, &all)).unwrap();
/// assert_eq!((report.rounds, report.messages), (3, 18));
/// ```
pub fn bruck_all_to_all(rank: u32, ranks: u32, of: &Ranks) -> Schedule {
    // The contribution; by the length of a block's way; what is sent; what comes; the result.
    let [mine, ways_of, sent, came, result]: [u8; 5] = [0, 1, 2, 3, 4];
    let all = of.len();
    let mut schedule = Schedule::new(rank, ranks, all).with_result(result);
    let Some(position) = of.position(rank) else { return schedule };
    let around = |distance: u32| (position + distance) % all;
    let copy = |schedule: &mut Schedule, from: Part, to: Part| schedule.local(from, to, Combine::Replace);
    let mut done = 0;
    for run in circle(position, all, all) {
        let ways = done..done + run.len() as u32;
        done = ways.end;
        copy(&mut schedule, Part::new(mine, run), Part::new(ways_of, ways));
    }
    for round in (0..u32::BITS).take_while(|round| all > 1 && (all - 1) >> round > 0) {
        let distance = 1 << round;
        // The ways that have the bit come in runs; with them, where their blocks are when packed.
        let mut count = 0;
        let runs: Vec<_> = (distance..all)
            .step_by(2 * distance as usize)
            .map(|start| {
                let run = start..(start + distance).min(all);
                count += run.len() as u32;
                (count - run.len() as u32..count, run)
            })
            .collect();
        for (packed, run) in &runs {
            copy(&mut schedule, Part::new(ways_of, run.clone()), Part::new(sent, packed.clone()));
        }
        schedule.update(of.at(around(distance)), round, Part::new(sent, 0..count));
        schedule.read(of.at(around(all - distance)), round, Part::new(came, 0..count), Combine::Replace);
        for (packed, run) in runs {
            copy(&mut schedule, Part::new(came, packed), Part::new(ways_of, run));
        }
    }
    for way in 0..all {
        // It comes from as far before.
        copy(&mut schedule, Part::block(ways_of, way), Part::block(result, around(all - way)));
    }
    schedule
}

/// The steps of `rank` in an all-to-all by pairwise exchange: in each of m − 1 rounds, for m ranks, every rank sends a block to
/// one other and then reads one from another. Good for large blocks between many ranks, as no rank has more than one message
/// under way at a time.
///
/// In round k a rank sends to the one k + 1 places on in the circle of ranks, and reads from the one as far before.
///
/// The contributors are the receivers; other ranks have no steps.
///
/// ```
/// # use maniple_collectives::{Goal, Ranks, check, pairwise_all_to_all};
/// let all = Ranks::all(6);
/// let goal = Goal::all_to_all(6, all.clone(), all.clone());
/// let report = check(&goal, |rank| pairwise_all_to_all(rank, 6, &all)).unwrap();
/// assert_eq!((report.rounds, report.messages), (5, 30));
/// ```
pub fn pairwise_all_to_all(rank: u32, ranks: u32, of: &Ranks) -> Schedule {
    let [mine, result]: [u8; 2] = [0, 1];
    let all = of.len();
    let mut schedule = Schedule::new(rank, ranks, all).with_result(result);
    let Some(position) = of.position(rank) else { return schedule };
    schedule.local(Part::block(mine, position), Part::block(result, position), Combine::Replace);
    for round in 0..all - 1 {
        let distance = round + 1;
        let (to, from) = ((position + distance) % all, (position + all - distance) % all);
        schedule.update(of.at(to), round, Part::block(mine, to));
        schedule.read(of.at(from), round, Part::block(result, from), Combine::Replace);
    }
    schedule
}
