//! What arrivals hand to those who wait for generations of one barrier.

use super::clock::Clock;
use std::collections::{HashMap, VecDeque};

/// Generations kept apart, at most. Who waits for one that is further behind than this is taken to come after more than it
/// waits for.
const MOST: usize = 1024;

/// One barrier: half of a pair, or a phase barrier.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// What came before the arrivals for generations before `first`.
    before: Clock,
    first: u64,
    /// What came before the arrivals for each of those from `first` on.
    kept: VecDeque<Generation>,
    /// For each shard that waits, the generation after the last that it has waited for.
    passed: HashMap<u32, u64>,
}

#[derive(Debug, Default)]
struct Generation {
    clock: Clock,
    /// Tasks that are to wait for it and have not begun.
    pending: u32,
}

impl Generations {
    fn at(&mut self, generation: u64) -> Option<&mut Generation> {
        let at = generation.checked_sub(self.first)? as usize;
        if at >= self.kept.len() {
            self.kept.resize_with(at + 1, Generation::default);
        }
        Some(&mut self.kept[at])
    }

    pub fn arrive(&mut self, generation: u64, clock: &Clock) {
        match self.at(generation) {
            Some(g) => g.clock.join(clock),
            None => self.before.join(clock),
        }
        self.forget(0);
    }

    /// A task is launched that waits for a generation.
    pub fn ask(&mut self, generation: u64) {
        if let Some(g) = self.at(generation) {
            g.pending += 1;
        }
    }

    /// The task has begun, or never will.
    pub fn answer(&mut self, generation: u64) {
        if let Some(g) = self.at(generation) {
            g.pending = g.pending.saturating_sub(1);
        }
    }

    /// What comes before the end of a generation: all arrivals for it and for those before it.
    pub fn past(&self, generation: u64) -> Clock {
        let mut clock = self.before.clone();
        let kept = (generation + 1).saturating_sub(self.first) as usize;
        self.kept.iter().take(kept).for_each(|g| clock.join(&g.clock));
        clock
    }

    /// A shard, one of so many `waiters`, has waited for a generation: when all have, nobody asks for it again.
    pub fn pass(&mut self, shard: u32, generation: u64, waiters: usize) {
        let passed = self.passed.entry(shard).or_default();
        *passed = (generation + 1).max(*passed);
        let all = if self.passed.len() < waiters { None } else { self.passed.values().min() };
        self.forget(all.copied().unwrap_or(0));
    }

    /// Keeps generations from this one on apart, and those that tasks are to wait for, but not too many.
    fn forget(&mut self, from: u64) {
        while (self.first < from || self.kept.len() > MOST)
            && self.kept.front().is_some_and(|g| g.pending == 0)
            && let Some(g) = self.kept.pop_front()
        {
            self.before.join(&g.clock);
            self.first += 1;
        }
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }
}
