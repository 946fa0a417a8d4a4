//! Scans: each rank gets the combination of the contributions up to its own, or before it.

use super::binomial::binomial;
use super::method::{Ranked, cells};
use crate::Ranks;
use crate::schedule::{Combine, Part, Schedule};
use std::ops::Range;

/// Scans by doubling, for any contributors and receivers. With c contributors they take at most ⌈log₂ (c + 1)⌉ rounds. Where q
/// receivers that do not contribute follow the same contributor, they take up to ⌈log₂ (q + 1)⌉ more.
///
/// In round k each contributor sends what it has to the one 2^k positions after it, if some receiver needs that. An exclusive
/// scan also combines the incoming values in a second register, which leaves out the rank's own contribution. A receiver that
/// does not contribute gets what a contributor in its place would get. In an inclusive scan this is the result of the
/// contributor before it. In an exclusive scan it reads the values that the next contributor would read. Several such
/// receivers between the same two contributors pass the result on in a binomial tree.
///
/// Contributions stay in rank order. Their brackets differ from rank to rank, but the combination that each rank wants is
/// its own. So the operator needs no laws.
///
/// ```
/// # use maniple_schedules::{Goal, Ranks, Scan, check};
/// let all = Ranks::all(6);
/// let messages = |to: Ranks| {
///     let scan = Scan::new(6, all.clone(), to.clone(), false);
///     let goal = Goal::exscan(6, all.clone(), to, 1);
///     check(&goal, |rank| scan.schedule(rank)).unwrap().messages
/// };
/// assert_eq!(messages(all.clone()), 5 + 4 + 2);
/// assert_eq!(messages(Ranks::one(5)), 5);
/// ```
#[derive(Clone, Debug)]
pub struct Scan {
    ranks: u32,
    from: Ranks,
    to: Ranks,
    inclusive: bool,
    /// What is needed of each position, or `None` if everything is. Bit k says that a later position needs the value of this one
    /// after round k. [`RESULT`] says that a result is received at this position.
    needs: Option<Vec<u32>>,
}

/// Somebody receives a result at a position. The position after the last contributor may have one, too.
const RESULT: u32 = 1 << 31;

impl Scan {
    /// The schedules of an inclusive or an exclusive scan. Takes time O(c) at most if the receivers are the contributors, and
    /// O(c·(log c + log r)) for r other receivers.
    pub fn new(ranks: u32, contributors: Ranks, receivers: Ranks, inclusive: bool) -> Self {
        let all = contributors == receivers;
        let mut scan = Self { ranks, from: contributors, to: receivers, inclusive, needs: None };
        if !all {
            let mut needs = vec![0; scan.from.len() as usize + 1];
            for position in (0..needs.len()).rev() {
                // After round k a result combines only values from positions that are a multiple of 2^(k + 1) before it.
                let is_on_the_way = |round: &u32| {
                    let later: Option<&u32> = needs.get(position + (2 << round));
                    later.is_some_and(|later| later & (RESULT | 1 << round) != 0)
                };
                let on_the_way: u32 = scan.rounds().filter(is_on_the_way).map(|round| 1 << round).sum();
                needs[position] = on_the_way | if scan.has_result(position as u32) { RESULT } else { 0 };
            }
            scan.needs = Some(needs);
        }
        scan
    }

    fn rounds(&self) -> Range<u32> {
        0..u32::BITS - self.from.len().leading_zeros()
    }

    /// Whether somebody receives what is combined at a position.
    fn has_result(&self, position: u32) -> bool {
        let of = |contributor: u32| !self.between(contributor).is_empty();
        let own = position < self.from.len() && self.to.contains(self.from.at(position));
        own || if self.inclusive { position < self.from.len() && of(position + 1) } else { of(position) }
    }

    /// The steps of `rank`. Local and pure.
    pub fn schedule(&self, rank: u32) -> Schedule {
        Schedule::linked(rank, |rank| self.unlinked(rank))
    }

    /// The same without the numbers of steps.
    fn unlinked(&self, rank: u32) -> Schedule {
        let schedule = Schedule::new(rank, self.ranks, 1).with_result(if self.inclusive { MINE } else { BEFORE });
        match self.from.position(rank) {
            Some(position) => self.of_contributor(schedule, position),
            None if self.to.contains(rank) => self.of_other(schedule),
            None => schedule,
        }
    }

    fn of_contributor(&self, mut schedule: Schedule, position: u32) -> Schedule {
        let [mine, came, before] = [MINE, CAME, BEFORE].map(|register| Part::block(register, 0));
        let receives = self.to.contains(schedule.rank());
        for round in self.rounds() {
            let later = position + (1 << round);
            if later < self.from.len() && self.reads(later, round) {
                schedule.send(self.from.at(later), mine.clone());
            }
            if !self.inclusive && later <= self.from.len() {
                // The first receiver before that contributor reads the same.
                let first = self.between(later).next();
                first.into_iter().for_each(|first| schedule.send(self.to.at(first), mine.clone()));
            }
            if !self.reads(position, round) {
                continue;
            }
            let peer = self.from.at(position - (1 << round));
            let goes_on = self.inclusive || self.is_on_the_way(position, round);
            match (goes_on, !self.inclusive && receives) {
                (true, false) => schedule.receive(peer, mine.clone(), Combine::IncomingIsLower),
                (false, _) => schedule.receive(peer, before.clone(), lower(round)),
                (true, true) => {
                    schedule.receive(peer, came.clone(), Combine::Replace);
                    schedule.local(came.clone(), mine.clone(), Combine::IncomingIsLower);
                    schedule.local(came.clone(), before.clone(), lower(round));
                }
            }
        }
        if self.inclusive {
            self.hand_out(&mut schedule, self.from.at(position), self.between(position + 1));
        }
        schedule
    }

    /// The steps of a receiver that does not contribute.
    fn of_other(&self, mut schedule: Schedule) -> Schedule {
        let position = self.from.below(schedule.rank());
        let mut all = self.between(position);
        if position == 0 {
            return schedule;
        }
        if self.inclusive {
            self.hand_out(&mut schedule, self.from.at(position - 1), all);
            return schedule;
        }
        let first = all.next().map_or(schedule.rank(), |first| self.to.at(first));
        if first == schedule.rank() {
            for round in self.rounds().take_while(|round| position >> round > 0) {
                schedule.receive(self.from.at(position - (1 << round)), Part::block(BEFORE, 0), lower(round));
            }
        }
        self.hand_out(&mut schedule, first, all);
        schedule
    }

    /// Whether a contributor combines what comes in a round.
    fn reads(&self, position: u32, round: u32) -> bool {
        let is_result = || match (&self.needs, self.inclusive) {
            (None, _) => true,
            (Some(needs), true) => needs[position as usize] & RESULT != 0,
            // A receiver that does not contribute reads for itself.
            (Some(_), false) => self.to.contains(self.from.at(position)),
        };
        position >> round > 0 && (is_result() || self.is_on_the_way(position, round))
    }

    /// Whether the result of a later position needs what this one has after a round.
    fn is_on_the_way(&self, position: u32, round: u32) -> bool {
        match &self.needs {
            None => u64::from(position) + (2 << round) < self.from.len().into(),
            Some(needs) => needs[position as usize] >> round & 1 != 0,
        }
    }

    /// The positions, in the set of receivers, of those between the contributor at `position` and the one before it. None for
    /// position 0, as a receiver before the first contributor has nothing to combine.
    fn between(&self, position: u32) -> Range<u32> {
        let Some(before) = position.checked_sub(1) else { return 0..0 };
        let end = if position < self.from.len() { self.from.at(position) } else { self.ranks };
        self.to.below(self.from.at(before).saturating_add(1))..self.to.below(end)
    }

    /// Adds what a rank does to bring the result of `root` to receivers.
    fn hand_out(&self, schedule: &mut Schedule, root: u32, receivers: Range<u32>) {
        // The root has place 0.
        let own = self.to.position(schedule.rank()).filter(|at| receivers.contains(at));
        let place = own.map_or(0, |at| at - receivers.start + 1);
        let rank = |place: u32| place.checked_sub(1).map_or(root, |at| self.to.at(receivers.start + at));
        let value = Part::block(schedule.result(), 0);
        let (parent, children) = binomial(place, receivers.len() as u32 + 1);
        if let Some(parent) = parent {
            schedule.receive(rank(parent), value.clone(), Combine::Replace);
        }
        children.for_each(|child| schedule.send(rank(child), value.clone()));
    }
}

/// The registers: what a rank has, what has come, and what came before its own contribution.
const MINE: u8 = 0;
const CAME: u8 = 1;
const BEFORE: u8 = 2;

/// In round 0 the register [`BEFORE`] is still empty, so the incoming value replaces it.
fn lower(round: u32) -> Combine {
    if round == 0 { Combine::Replace } else { Combine::IncomingIsLower }
}

impl Ranked for Scan {
    fn of(&self, rank: u32) -> Schedule {
        self.schedule(rank)
    }
    fn cells(&self, rank: u32) -> u32 {
        cells(&self.unlinked(rank))
    }
}
