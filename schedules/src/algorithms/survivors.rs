//! Reductions with any contributors and any receivers.

use super::method::{Ranked, cells};
use super::places::Places;
use crate::Ranks;
use crate::schedule::{Combine, Part, Schedule};

/// A reduction by survivors, with the brackets of [`recursive_doubling`](super::recursive_doubling) for any receivers.
///
/// It follows §3.2 of "Advanced collective communication in Aspen", but keeps the contributors in rank order. So who
/// receives changes no bit.
///
/// 1. Neighbouring values are combined in pairs, and so on, as long as there are at least twice as many values left as
///    somebody must have at the end. One rank of a pair, its *survivor*, goes on with its value: the one that receives if
///    that is one of them, or else the first. A plan of several collectives may choose the other one.
/// 2. The survivors that are left exchange values as in recursive doubling. Of these exchanges only what somebody needs
///    in the end is sent.
/// 3. Those who have the result hand it to the other receivers.
///
/// With one receiver it is a binomial tree, and with all contributors as receivers it is recursive doubling. For c
/// contributors and receivers that are not more than these, there are at most ⌈log₂ c⌉ + 2 rounds. Ranks that neither
/// contribute nor receive have no steps.
///
/// ```
/// # use maniple_schedules::{Goal, Ranks, Survivors, check};
/// // Ranks 0 to 7 contribute; ranks 0, 1, 8, 9 and 10 receive.
/// let (contributors, receivers) = (Ranks::all(8), Ranks::of([0, 1, 8, 9, 10]));
/// let survivors = Survivors::new(11, contributors.clone(), receivers.clone());
/// let goal = Goal::reduce(11, contributors, receivers, 1);
/// let report = check(&goal, |rank| survivors.schedule(rank)).unwrap();
/// assert!(report.by_doubling);
/// assert_eq!(report.rounds, 4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    ranks: u32,
    contributors: Ranks,
    receivers: Ranks,
    places: Places,
    /// For each number of rounds of the first step, the survivors of all blocks. A block after k rounds is 2^k places.
    survivors: Vec<Vec<u32>>,
    /// For each number of finished exchanges, which of the last survivors need what they then have.
    needed: Vec<Vec<bool>>,
    /// Who gets the result from whom in the third step, and the same as who hands it to whom. Each is sorted by the first of
    /// the two ranks, and then by time.
    fed: Vec<(u32, u32)>,
    feeds: Vec<(u32, u32)>,
}

/// Takes the decisions that a reduction by survivors leaves open. None of them changes a bit of the result.
pub trait Choose {
    /// Which of two survivors goes on with the value of both. Either both or none of them receive the result, and both have
    /// their values after as many rounds.
    fn survivor(&mut self, lower: u32, higher: u32) -> u32;

    /// A number of ranks that could hand the result on in a round, or that could get it then. In the latter case some
    /// are left for a later round, in which the chosen ones help to hand it out.
    fn turn(&mut self, of: &[u32], count: usize) -> Vec<u32>;

    /// Hears of a message, in the order of decisions.
    fn sends(&mut self, from: u32, to: u32);
}

/// The first in the order of ranks.
struct First;

impl Choose for First {
    fn survivor(&mut self, lower: u32, _: u32) -> u32 {
        lower
    }
    fn turn(&mut self, of: &[u32], count: usize) -> Vec<u32> {
        of[..count].to_vec()
    }
    fn sends(&mut self, _: u32, _: u32) {}
}

impl Survivors {
    /// Plans a reduction. The first of several ranks always takes the work.
    ///
    /// # Panics
    ///
    /// If there is no contributor.
    pub fn new(ranks: u32, contributors: Ranks, receivers: Ranks) -> Self {
        Self::chosen(ranks, contributors, receivers, &mut First)
    }

    /// Plans a reduction with somebody else's choices.
    fn chosen(ranks: u32, contributors: Ranks, receivers: Ranks, choose: &mut dyn Choose) -> Self {
        let places = Places::of(contributors.len());
        let inside = receivers.iter().filter(|&rank| contributors.contains(rank)).count() as u32;
        // As many values are kept as receivers of one kind.
        let kept = inside.max(receivers.len() - inside).max(1).next_power_of_two().ilog2().min(places.bits);
        let (survivors, needed, fed, feeds) = Default::default();
        let mut all = Self { ranks, contributors, receivers, places, survivors, needed, fed, feeds };
        let rounds = all.choose_survivors(places.bits - kept, choose);
        let (holders, others) = all.choose_holders();
        all.find_needs(kept, &holders);
        let rounds = all.exchange(rounds, choose);
        all.choose_feeders(
            holders.into_iter().map(|block| (all.last()[block], rounds[block])).collect(),
            others,
            choose,
        );
        all
    }

    /// The same reduction with somebody else's choices.
    pub fn again(&self, choose: &mut dyn Choose) -> Self {
        Self::chosen(self.ranks, self.contributors.clone(), self.receivers.clone(), choose)
    }

    /// The first and the last contributor of a place.
    fn pair(&self, place: u32) -> [u32; 2] {
        let positions = self.places.ranks(place);
        [positions.start, positions.end - 1].map(|position| self.contributors.at(position))
    }

    /// The rounds in which half of the values are left.
    fn halvings(&self) -> u32 {
        self.survivors.len() as u32 - 1
    }

    /// Those who have values after the first step.
    fn last(&self) -> &[u32] {
        &self.survivors[self.survivors.len() - 1]
    }

    /// Returns after how many rounds the last survivors have their values. That depends on their blocks only, and not on
    /// who is chosen.
    fn choose_survivors(&mut self, halvings: u32, choose: &mut dyn Choose) -> Vec<u32> {
        // Survivors with their rounds.
        let mut go_on = |lower: (u32, u32), higher: (u32, u32)| {
            let is_lower = match [lower, higher].map(|(rank, _)| self.receivers.contains(rank)) {
                [true, false] => true,
                [false, true] => false,
                // The earlier value need not wait for the later one.
                _ if lower.1 != higher.1 => lower.1 > higher.1,
                _ => choose.survivor(lower.0, higher.0) == lower.0,
            };
            let (survivor, other) = if is_lower { (lower, higher) } else { (higher, lower) };
            choose.sends(other.0, survivor.0);
            (survivor.0, survivor.1.max(other.1 + 1))
        };
        let of_place = |place| {
            let [first, last] = self.pair(place).map(|rank| (rank, 0));
            if first == last { first } else { go_on(first, last) }
        };
        let mut level: Vec<(u32, u32)> = (0..1 << self.places.bits).map(of_place).collect();
        let ranks = |level: &[(u32, u32)]| level.iter().map(|&(rank, _)| rank).collect();
        let mut survivors = vec![ranks(&level)];
        for _ in 0..halvings {
            level = level.chunks(2).map(|pair| go_on(pair[0], pair[1])).collect();
            survivors.push(ranks(&level));
        }
        self.survivors = survivors;
        level.into_iter().map(|(_, rounds)| rounds).collect()
    }

    /// The blocks of those who have the result after the exchanges, and the other receivers. The survivors that receive have
    /// it, and as many others as can help to hand it out.
    fn choose_holders(&self) -> (Vec<usize>, Vec<u32>) {
        let receives = |&block: &usize| self.receivers.contains(self.last()[block]);
        let (mut holders, others): (Vec<usize>, Vec<usize>) = (0..self.last().len()).partition(receives);
        let mut held: Vec<u32> = holders.iter().map(|&block| self.last()[block]).collect();
        held.sort_unstable();
        let rest: Vec<u32> = self.receivers.iter().filter(|rank| held.binary_search(rank).is_err()).collect();
        let wanted = rest.len().max(usize::from(!self.receivers.is_empty()));
        let more = wanted.saturating_sub(holders.len());
        holders.extend(others.into_iter().take(more));
        (holders, rest)
    }

    /// Who needs the value of a survivor after each exchange, from the last one on backwards.
    fn find_needs(&mut self, exchanges: u32, holders: &[usize]) {
        let mut needed = vec![false; 1 << exchanges];
        holders.iter().for_each(|&block| needed[block] = true);
        self.needed = vec![needed];
        for exchange in (0..exchanges).rev() {
            let after = &self.needed[0];
            let before = (0..after.len()).map(|block| after[block] || after[block ^ 1 << exchange]).collect();
            self.needed.insert(0, before);
        }
    }

    /// Takes the rounds before the exchanges, and returns those after.
    fn exchange(&self, mut rounds: Vec<u32>, choose: &mut dyn Choose) -> Vec<u32> {
        self.exchanges().for_each(|(from, to)| choose.sends(from, to));
        for (exchange, needed) in self.needed[1..].iter().enumerate() {
            let after = |block: usize| rounds[block].max(rounds[block ^ 1 << exchange] + 1);
            rounds = (0..rounds.len()).map(|block| if needed[block] { after(block) } else { rounds[block] }).collect();
        }
        rounds
    }

    /// In each round everybody who has the result hands it to one more receiver, as long as there are receivers without
    /// it. Ranks that have it come with the rounds after which they do.
    fn choose_feeders(&mut self, mut have: Vec<(u32, u32)>, mut lack: Vec<u32>, choose: &mut dyn Choose) {
        let ranks = |of: &[(u32, u32)]| of.iter().map(|&(rank, _)| rank).collect::<Vec<u32>>();
        while !lack.is_empty() && !have.is_empty() {
            let count = have.len().min(lack.len());
            let feeders = if count < have.len() {
                // The last round. It must not end later than if the first ones do it.
                let end = have[..count].iter().map(|&(_, rounds)| rounds + 1).chain(have.iter().map(|&(_, r)| r)).max();
                let early: Vec<_> = have.iter().copied().filter(|&(_, rounds)| Some(rounds) < end).collect();
                choose.turn(&ranks(&early), count)
            } else {
                ranks(&have)
            };
            let fed = if count < lack.len() { choose.turn(&lack, count) } else { lack.clone() };
            for (&from, &to) in feeders.iter().zip(&fed) {
                choose.sends(from, to);
                self.feeds.push((from, to));
            }
            let mut sorted = fed.clone();
            sorted.sort_unstable();
            lack.retain(|rank| sorted.binary_search(rank).is_err());
            for (at, to) in fed.into_iter().enumerate() {
                have.push((to, have[at].1 + 1));
            }
        }
        self.fed = self.feeds.iter().map(|&(from, to)| (to, from)).collect();
        self.fed.sort_unstable();
        // A stable sort: it keeps the order of rounds.
        self.feeds.sort_by_key(|&(from, _)| from);
    }

    /// The messages of all exchanges, as pairs of ranks.
    fn exchanges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let last = self.last();
        self.needed[1..].iter().enumerate().flat_map(move |(exchange, needed)| {
            let to = (0..last.len()).filter(|&block| needed[block]);
            to.map(move |block| (last[block ^ 1 << exchange], last[block]))
        })
    }

    /// All messages of a call, as pairs of the rank that sends and the one that receives.
    pub fn messages(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let within = (0..self.places.surplus).map(|place| {
            let ([first, last], survivor) = (self.pair(place), self.survivors[0][place as usize]);
            (first ^ last ^ survivor, survivor)
        });
        let between = self.survivors.windows(2).flat_map(|level| {
            level[0].chunks(2).zip(&level[1]).map(|(pair, &survivor)| (pair[0] ^ pair[1] ^ survivor, survivor))
        });
        within.chain(between).chain(self.exchanges()).chain(self.feeds.iter().copied())
    }

    /// A number that is another one for other choices, but for a chance of 2^−32.
    pub fn digest(&self) -> u32 {
        let mixed = self.messages().fold(0, |digest: u64, (from, to)| {
            (digest ^ u64::from(from) << 32 ^ u64::from(to)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        (mixed >> 32) as u32 ^ mixed as u32
    }

    /// The steps of `rank`.
    pub fn schedule(&self, rank: u32) -> Schedule {
        Schedule::linked(rank, |rank| self.unlinked(rank))
    }

    /// The steps without the numbers of their peers' steps.
    fn unlinked(&self, rank: u32) -> Schedule {
        let mut schedule = Schedule::new(rank, self.ranks, 1);
        if let Some(position) = self.contributors.position(rank) {
            self.combine(rank, position, &mut schedule);
        }
        self.hand_out(rank, &mut schedule);
        schedule
    }

    fn combine(&self, rank: u32, position: u32, schedule: &mut Schedule) {
        let place = self.places.place(position);
        let survivor = |level: u32, block: u32| self.survivors[level as usize][block as usize];
        if self.places.is_pair(place) && !meet(schedule, rank, self.pair(place), survivor(0, place)) {
            return;
        }
        for level in 0..self.halvings() {
            let block = place >> (level + 1);
            let pair = [0, 1].map(|half| survivor(level, 2 * block + half));
            if !meet(schedule, rank, pair, survivor(level + 1, block)) {
                return;
            }
        }
        let mine = (place >> self.halvings()) as usize;
        for (exchange, needed) in self.needed[1..].iter().enumerate() {
            let other = mine ^ 1 << exchange;
            let partner = self.last()[other];
            if needed[other] {
                schedule.send(partner, value());
            }
            if needed[mine] {
                schedule.receive(partner, value(), side(other > mine));
            }
        }
    }

    fn hand_out(&self, rank: u32, schedule: &mut Schedule) {
        if let Ok(at) = self.fed.binary_search_by_key(&rank, |&(to, _)| to) {
            schedule.receive(self.fed[at].1, value(), Combine::Replace);
        }
        let start = self.feeds.partition_point(|&(from, _)| from < rank);
        let feeds = self.feeds[start..].iter().take_while(|&&(from, _)| from == rank);
        feeds.for_each(|&(_, to)| schedule.send(to, value()));
    }
}

fn value() -> Part {
    Part::block(0, 0)
}

fn side(higher: bool) -> Combine {
    if higher { Combine::IncomingIsHigher } else { Combine::IncomingIsLower }
}

/// Combines the values of two survivors, of lower and higher ranks. Returns whether this rank is the one that goes on.
fn meet(schedule: &mut Schedule, rank: u32, [lower, higher]: [u32; 2], survivor: u32) -> bool {
    if rank != survivor {
        schedule.send(survivor, value());
        return false;
    }
    let other = if rank == lower { higher } else { lower };
    schedule.receive(other, value(), side(other == higher));
    true
}

impl Ranked for Survivors {
    fn of(&self, rank: u32) -> Schedule {
        self.schedule(rank)
    }
    fn cells(&self, rank: u32) -> u32 {
        cells(&self.unlinked(rank))
    }
    fn survivors(&self) -> Option<&Survivors> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Goal, Laws, check};

    /// Chooses by a number, and counts.
    struct Any {
        number: u64,
        messages: Vec<(u32, u32)>,
    }

    impl Any {
        fn below(&mut self, limit: usize) -> usize {
            self.number = self.number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.number >> 33) as usize % limit
        }
    }

    impl Choose for Any {
        fn survivor(&mut self, lower: u32, higher: u32) -> u32 {
            if self.below(2) == 0 { lower } else { higher }
        }
        fn turn(&mut self, of: &[u32], count: usize) -> Vec<u32> {
            let mut all = of.to_vec();
            (0..count).map(|_| all.swap_remove(self.below(all.len()))).collect()
        }
        fn sends(&mut self, from: u32, to: u32) {
            self.messages.push((from, to));
        }
    }

    /// After how many turns the last receiver has the result, if everybody who has it sends it once in each turn.
    fn hand_out_turns(survivors: &Survivors) -> u32 {
        fn has_it(survivors: &Survivors, rank: u32) -> u32 {
            let Some(&(_, feeder)) = survivors.fed.iter().find(|&&(to, _)| to == rank) else { return 0 };
            let mut from_it = survivors.feeds.iter().filter(|&&(from, _)| from == feeder);
            has_it(survivors, feeder) + 1 + from_it.position(|&(_, to)| to == rank).unwrap() as u32
        }
        survivors.receivers.iter().map(|rank| has_it(survivors, rank)).max().unwrap()
    }

    /// As many as it takes if those who have the result double in each turn.
    fn hand_out_rounds(survivors: &Survivors) -> u32 {
        let holders = survivors.needed.last().unwrap().iter().filter(|needed| **needed).count();
        let all = holders + survivors.feeds.len();
        (0..).find(|&rounds| holders << rounds >= all).unwrap()
    }

    /// A choice changes neither a bracket nor the number of messages or rounds.
    #[test]
    fn any_choices_reach_the_goal() {
        for ranks in (1..=40).chain([64, 65, 96]) {
            for seed in 0..12 {
                let mut any = Any { number: seed << 32 | u64::from(ranks), messages: Vec::new() };
                let mut some = || {
                    let part = 1 + any.below(3);
                    let some: Vec<u32> = (0..ranks).filter(|_| any.below(part) == 0).collect();
                    if some.is_empty() { Ranks::one(ranks / 2) } else { Ranks::of(some) }
                };
                let (contributors, receivers) = (some(), some());
                let goal = Goal::reduce(ranks, contributors.clone(), receivers.clone(), 1);
                let first = Survivors::new(ranks, contributors, receivers);
                let chosen = first.again(&mut any);
                let prove = |survivors: &Survivors| check(&goal, |rank| survivors.schedule(rank)).unwrap();
                let (report, alone) = (prove(&chosen), prove(&first));
                assert_eq!(report, alone, "{ranks} ranks, seed {seed}: {chosen:?}");
                assert!(report.by_doubling && report.laws == Laws::NONE, "{ranks} ranks, seed {seed}");
                assert!(hand_out_turns(&chosen) <= hand_out_rounds(&chosen), "{ranks} ranks, seed {seed}: {chosen:?}");
                // Both ways to count the messages agree with the steps.
                let mut told: Vec<_> = chosen.messages().collect();
                let steps = (0..ranks).map(|rank| chosen.schedule(rank));
                let mut sent: Vec<_> = steps
                    .flat_map(|s| s.links().flatten().filter(|l| l.from == s.rank()).collect::<Vec<_>>())
                    .map(|l| (l.from, l.to))
                    .collect();
                told.sort_unstable();
                any.messages.sort_unstable();
                sent.sort_unstable();
                assert_eq!((&told, &any.messages), (&sent, &sent), "{ranks} ranks, seed {seed}");
            }
        }
    }
}
