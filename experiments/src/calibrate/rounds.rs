//! Calls that differ only in the number of rounds, in each of which two shards exchange their values.

use maniple::collectives::{Combine, Goal, Part, Schedule};
use maniple::prelude::*;
use serde::{Deserialize, Serialize};

/// The most calls under way.
const SLOTS: u32 = 3;

/// The value of a call. It is the same in all shards, and so after each round.
pub const VALUE: i64 = 1;

/// A collective of the shards of one processor.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Rounds {
    /// Of one number.
    One(Collective<i64>),
    /// Of this many numbers.
    Many(Collective<[i64]>, usize),
}

impl Rounds {
    /// Makes a collective of `near` shards from `first` on, an even number, with this many rounds and elements.
    /// Collective (top level).
    ///
    /// The order of shards is drawn at random, but is always the same. So the data of partners are as far apart as with many
    /// partners.
    pub fn make(top: &Top, gang: &Gang, rounds: u16, elements: usize, first: u32, near: u32) -> Result<Self, Error> {
        let mut ring: Vec<u32> = (first..first + near).collect();
        fastrand::Rng::with_seed(0).shuffle(&mut ring);
        let mut places = vec![0; near as usize];
        ring.iter().enumerate().for_each(|(place, shard)| places[(shard - first) as usize] = place);
        let steps = move |goal: &Goal, rank: u32| {
            let place = rank.checked_sub(first).and_then(|at| places.get(at as usize));
            place.map_or_else(|| Schedule::new(rank, goal.ranks(), 1), |&at| steps(goal.ranks(), &ring, at, rounds))
        };
        let schedules = move |goal: &Goal, rank: u32| Schedule::linked(rank, |rank| steps(goal, rank));
        let builder = Collective::allreduce(Operator::or()).participants(first..first + near).slots(SLOTS);
        let builder = builder.schedules("rounds", schedules);
        let name = format!("rounds from {first}");
        match elements {
            1 => Ok(Rounds::One(builder.make(top, gang, &name)?)),
            _ => Ok(Rounds::Many(builder.elements(elements).make(top, gang, &name)?, elements)),
        }
    }

    /// Calls it and waits for the result.
    pub async fn call(self, shard: &Shard) -> Result<(), Error> {
        match self {
            Rounds::One(all) => all.call(shard, VALUE)?.await.map(drop),
            Rounds::Many(all, elements) => all.call(shard, vec![VALUE; elements])?.await.map(drop),
        }
    }
}

/// The updates and reads of a shard before its rounds, on average over the `near` shards.
pub fn steps_before(near: u32) -> f64 {
    4.0 * f64::from(near - 1) / f64::from(near)
}

/// The steps of a place in the ring. First the value goes round the ring twice, so that all have it: that makes the rounds part of an
/// allreduce. Rounds do not change it any more.
fn steps(ranks: u32, ring: &[u32], place: usize, rounds: u16) -> Schedule {
    let near = ring.len();
    let mut schedule = Schedule::new(ring[place], ranks, 1);
    let [before, after] = [place + near - 1, place + 1].map(|place| ring[place % near]);
    let value = || Part::block(0, 0);
    if place > 0 {
        schedule.receive(before, value(), Combine::IncomingIsLower);
    }
    schedule.send(after, value());
    if place + 1 < near {
        schedule.receive(before, value(), Combine::Replace);
    }
    if place + 2 < near {
        schedule.send(after, value());
    }
    let partner = ring[place ^ 1];
    for _ in 0..rounds {
        schedule.send(partner, value());
        schedule.receive(partner, value(), Combine::IncomingIsHigher);
    }
    schedule
}
