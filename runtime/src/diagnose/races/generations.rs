//! The clocks that arrivals pass to the waiters for generations of one barrier.

use crate::diagnose::races::clock::VectorClock;
use std::collections::{HashMap, VecDeque};

/// How many generations are kept apart, at most. A waiter for an older one is taken to come after more arrivals than it
/// waits for.
pub(super) const MOST: usize = 1024;

/// One barrier: half of an edge, or a phase barrier.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// Everything before the arrivals for generations before `first`.
    before: VectorClock,
    first: u64,
    kept: VecDeque<Generation>,
    /// For each shard that waits, the generation after the last one it has waited for.
    passed: HashMap<u32, u64>,
    /// Everything before the failed tasks that should have arrived.
    poison: VectorClock,
}

#[derive(Debug, Default)]
struct Generation {
    /// Everything before the arrivals for it and for earlier generations.
    clock: VectorClock,
    /// How many tasks and shards are yet to wait for it.
    pending: u32,
}

impl Generations {
    fn at(&mut self, generation: u64) -> Option<usize> {
        let at = generation.checked_sub(self.first)? as usize;
        if at >= self.kept.len() {
            let clock = self.kept.back().map_or(&self.before, |g| &g.clock).clone();
            self.kept.resize_with(at + 1, || Generation { clock: clock.clone(), pending: 0 });
        }
        Some(at)
    }

    pub fn arrive(&mut self, generation: u64, clock: &VectorClock) {
        let at = self.at(generation).unwrap_or_else(|| {
            self.before.join(clock);
            0
        });
        self.kept.range_mut(at..).for_each(|g| g.clock.join(clock));
        self.forget(0);
    }

    /// A task that should arrive has failed.
    pub fn poison(&mut self, clock: &VectorClock) {
        self.poison.join(clock);
    }

    /// Everything before a waiter that learns of the failure.
    pub fn poisoned(&self) -> &VectorClock {
        &self.poison
    }

    /// A task that waits for a generation is launched, or a shard begins to wait.
    pub fn ask(&mut self, generation: u64) {
        if let Some(at) = self.at(generation) {
            self.kept[at].pending += 1;
        }
    }

    /// The task has begun, or the shard has waited, or they never will.
    pub fn answer(&mut self, generation: u64) {
        if let Some(at) = self.at(generation) {
            self.kept[at].pending = self.kept[at].pending.saturating_sub(1);
        }
    }

    /// Everything before the end of a generation: all arrivals for it and for earlier ones.
    pub fn past(&self, generation: u64) -> &VectorClock {
        let at = generation.checked_sub(self.first).map(|at| at as usize);
        let kept = at.and_then(|at| self.kept.get(at).or(self.kept.back()));
        kept.map_or(&self.before, |g| &g.clock)
    }

    /// A shard, one of `waiters`, has waited for a generation. Once all have, nobody asks for it again.
    pub fn pass(&mut self, shard: u32, generation: u64, waiters: usize) {
        let passed = self.passed.entry(shard).or_default();
        *passed = (generation + 1).max(*passed);
        let all = if self.passed.len() < waiters { None } else { self.passed.values().min() };
        self.forget(all.copied().unwrap_or(0));
    }

    /// Merges generations before `from`, and the oldest if there are too many. Those with pending waiters stay.
    fn forget(&mut self, from: u64) {
        while (self.first < from || self.kept.len() > MOST)
            && self.kept.front().is_some_and(|g| g.pending == 0)
            && let Some(g) = self.kept.pop_front()
        {
            self.before = g.clock;
            self.first += 1;
        }
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::{AccessNumber, Lanes, VectorClock};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Arrivals and waits, in any order that a barrier allows, compared with a list of all arrivals.
        #[test]
        fn a_generation_comes_after_its_arrivals_and_earlier_ones(
            steps in prop::collection::vec((0..3u32, 0..3u32, 0..5u64), 1..60),
        ) {
            let mut generations = Generations::default();
            let (mut lanes, mut arrivals) = (Lanes::default(), Vec::<(u64, AccessNumber)>::new());
            let (mut arrived, mut waited, mut asked) = ([0; 3], [0u64; 2], Vec::new());
            for (what, who, at) in steps {
                let over = *arrived.iter().min().unwrap_or(&0);
                let check = |generations: &mut Generations, shard: usize, generation: u64| {
                    for (g, stamp) in &arrivals {
                        prop_assert_eq!(generations.past(generation).has(*stamp), *g <= generation);
                    }
                    generations.pass(shard as u32, generation, 2);
                    Ok(())
                };
                let shard = who as usize % 2;
                match what {
                    0 => {
                        let mut clock = VectorClock::default();
                        let stamp = lanes.extend(&mut clock, 0);
                        lanes.keep(stamp);
                        generations.arrive(arrived[who as usize], &clock);
                        arrivals.push((arrived[who as usize], stamp));
                        arrived[who as usize] += 1;
                    }
                    1 if waited[shard] < over => {
                        waited[shard] += 1;
                        check(&mut generations, shard, waited[shard] - 1)?;
                    }
                    1 => {
                        generations.ask(waited[shard]);
                        asked.push((shard, waited[shard]));
                        waited[shard] += 1;
                    }
                    _ => {
                        let ready: Vec<usize> = (0..asked.len()).filter(|&i| asked[i].1 < over).collect();
                        if let Some(&i) = ready.get(at as usize % ready.len().max(1)) {
                            let (shard, generation) = asked.swap_remove(i);
                            check(&mut generations, shard, generation)?;
                            generations.answer(generation);
                        }
                    }
                }
            }
        }
    }
}
