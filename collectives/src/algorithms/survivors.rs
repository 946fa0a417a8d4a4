//! Reductions with any contributors and any receivers.

use super::places::Places;
use crate::goal::Ranks;
use crate::schedule::{Combine, Part, Schedule};

/// A reduction by survivors, with the brackets of [`recursive_doubling`](super::recursive_doubling) for any receivers.
///
/// It follows §3.2 of "Advanced collective communication in Aspen", but keeps the contributors in rank order. So who
/// receives changes no bit.
///
/// 1. Neighbouring values are combined in pairs, and so on, as long as there are at least twice as many values left as
///    somebody must have at the end. A pair's *survivor* goes on with its value: the first of its ranks that receives, or
///    else the first.
/// 2. The survivors that are left exchange values as in recursive doubling. Of these exchanges only what somebody needs
///    in the end is sent.
/// 3. Those who have the result hand it to the other receivers.
///
/// With one receiver it is a binomial tree, and with all contributors as receivers it is recursive doubling. For c
/// contributors and receivers that are not more than these, there are at most ⌈log₂ c⌉ + 2 rounds. Ranks that neither
/// contribute nor receive have no steps.
///
/// ```
/// # use maniple_collectives::{Goal, Ranks, Survivors, check};
/// // Ranks 0 to 7 contribute; ranks 0, 1, 8, 9 and 10 receive.
/// let (contributors, receivers) = (Ranks::all(8), Ranks::of([0, 1, 8, 9, 10]));
/// let survivors = Survivors::new(11, contributors.clone(), receivers.clone());
/// let goal = Goal::reduce(11, contributors, receivers, 1);
/// let report = check(&goal, |rank| survivors.schedule(rank)).unwrap();
/// assert!(report.by_doubling);
/// assert_eq!(report.rounds, 4);
/// ```
#[derive(Clone, Debug)]
pub struct Survivors {
    ranks: u32,
    contributors: Ranks,
    receivers: Ranks,
    places: Places,
    /// The rounds in which half of the values are left.
    halvings: u32,
    /// For each number of exchanges that are over, which survivors need what they then have.
    needed: Vec<Vec<bool>>,
    /// Those who have the result after the exchanges, and then the other receivers.
    order: Vec<u32>,
    holders: u32,
}

impl Survivors {
    /// Plans a reduction.
    ///
    /// # Panics
    ///
    /// If there is no contributor.
    pub fn new(ranks: u32, contributors: Ranks, receivers: Ranks) -> Self {
        let places = Places::of(contributors.len());
        let inside = receivers.iter().filter(|&rank| contributors.contains(rank)).count() as u32;
        // As many values are kept as receivers of one kind.
        let kept = inside.max(receivers.len() - inside).max(1).next_power_of_two().ilog2().min(places.bits);
        let mut all = Self {
            ranks,
            contributors,
            receivers,
            places,
            halvings: places.bits - kept,
            needed: Vec::new(),
            order: Vec::new(),
            holders: 0,
        };
        all.choose_holders(1 << kept);
        all.find_needs(kept);
        all
    }

    /// The survivors that receive have the result, and as many others as can help to hand it out.
    fn choose_holders(&mut self, survivors: u32) {
        let all: Vec<u32> = (0..survivors).map(|block| self.survivor(block, self.halvings)).collect();
        let receives = |rank: &u32| self.receivers.contains(*rank);
        let (mut holders, others): (Vec<u32>, Vec<u32>) = all.into_iter().partition(receives);
        let is_held = |holders: &[u32], rank: u32| holders.binary_search(&rank).is_ok();
        let rest: Vec<u32> = self.receivers.iter().filter(|&rank| !is_held(&holders, rank)).collect();
        let wanted = rest.len().max(usize::from(!self.receivers.is_empty()));
        let more = wanted.saturating_sub(holders.len());
        holders.extend(others.into_iter().take(more));
        self.holders = holders.len() as u32;
        holders.extend(rest);
        self.order = holders;
    }

    /// Who needs the value of a survivor after each exchange, from the last one on backwards.
    fn find_needs(&mut self, exchanges: u32) {
        let mut needed = vec![false; 1 << exchanges];
        for holder in &self.order[..self.holders as usize] {
            needed[self.block(*holder, self.halvings) as usize] = true;
        }
        self.needed = vec![needed];
        for exchange in (0..exchanges).rev() {
            let after = &self.needed[0];
            let before = (0..after.len()).map(|block| after[block] || after[block ^ 1 << exchange]).collect();
            self.needed.insert(0, before);
        }
    }

    /// The block of 2^level places that a contributor is in.
    fn block(&self, contributor: u32, level: u32) -> u32 {
        let position = self.contributors.position(contributor).expect("it contributes");
        self.places.place(position) >> level
    }

    /// The survivor of a block: the first contributor in it that receives, or else the first.
    fn survivor(&self, block: u32, level: u32) -> u32 {
        let (start, end) = (block << level, ((block + 1) << level) - 1);
        let first = self.contributors.at(self.places.first(start));
        let last = self.contributors.at(self.places.ranks(end).end - 1);
        let receivers = (self.receivers.below(first)..self.receivers.len()).map(|at| self.receivers.at(at));
        let receives = receivers.take_while(|&rank| rank <= last).find(|&rank| self.contributors.contains(rank));
        receives.unwrap_or(first)
    }

    /// The steps of `rank`.
    pub fn schedule(&self, rank: u32) -> Schedule {
        Schedule::linked(rank, |rank| self.unlinked(rank))
    }

    /// The steps without the numbers of their peers' steps.
    pub(crate) fn unlinked(&self, rank: u32) -> Schedule {
        let mut schedule = Schedule::new(rank, self.ranks, 1);
        if self.contributors.contains(rank) {
            self.combine(rank, &mut schedule);
        }
        self.hand_out(rank, &mut schedule);
        schedule
    }

    fn combine(&self, rank: u32, schedule: &mut Schedule) {
        let place = self.block(rank, 0);
        if self.places.is_pair(place) {
            let [first, second] = [0, 1].map(|i| self.contributors.at(self.places.first(place) + i));
            let survivor = self.survivor(place, 0);
            if !meet(schedule, rank, (first, second), survivor) {
                return;
            }
        }
        for level in 0..self.halvings {
            let block = self.block(rank, level + 1);
            let [first, second] = [0, 1].map(|half| self.survivor(2 * block + half, level));
            if !meet(schedule, rank, (first, second), self.survivor(block, level + 1)) {
                return;
            }
        }
        let mine = self.block(rank, self.halvings);
        for exchange in 0..self.needed.len() as u32 - 1 {
            let other = mine ^ 1 << exchange;
            let partner = self.survivor(other, self.halvings);
            let needed = &self.needed[exchange as usize + 1];
            if needed[other as usize] {
                schedule.send(partner, value());
            }
            if needed[mine as usize] {
                schedule.receive(partner, value(), side(other > mine));
            }
        }
    }

    /// In each round everybody who has the result hands it to one more receiver.
    fn hand_out(&self, rank: u32, schedule: &mut Schedule) {
        let Some(place) = self.order.iter().position(|&other| other == rank) else { return };
        let mut have = self.holders as usize;
        while have < self.order.len() {
            if (have..2 * have).contains(&place) {
                schedule.receive(self.order[place - have], value(), Combine::Replace);
            } else if place < have && place + have < self.order.len() {
                schedule.send(self.order[place + have], value());
            }
            have *= 2;
        }
    }
}

fn value() -> Part {
    Part::block(0, 0)
}

fn side(higher: bool) -> Combine {
    if higher { Combine::IncomingIsHigher } else { Combine::IncomingIsLower }
}

/// Combines the values of two survivors, of lower and higher ranks. Returns whether this rank is the one that goes on.
fn meet(schedule: &mut Schedule, rank: u32, (lower, higher): (u32, u32), survivor: u32) -> bool {
    if rank != survivor {
        schedule.send(survivor, value());
        return false;
    }
    let other = if rank == lower { higher } else { lower };
    schedule.receive(other, value(), side(other == higher));
    true
}
