//! Phases: barriers of a stage at which some shards arrive and some wait, as often as its steps say.

use crate::program::{Stage, Step};
use serde::{Deserialize, Serialize};

/// A phase barrier of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The shards that arrive, in the order in which their values are folded.
    pub arrivers: Vec<u32>,
    pub waiters: Vec<u32>,
    /// The number of generations by which an arriver may be ahead.
    pub window: u64,
    /// The number of children of a member of the combining tree.
    pub arity: usize,
    /// The function that folds values, if arrivals carry any.
    pub fold: Option<u8>,
}

impl Phase {
    /// A shard's place among the arrivers.
    pub fn row(&self, shard: u32) -> Option<usize> {
        self.arrivers.iter().position(|&s| s == shard)
    }
}

/// The progress of a stage's shards with a phase after some of the steps.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The number of arrivals of each shard, including forgotten ones.
    pub arrived: Vec<u64>,
    pub waited: Vec<u64>,
    /// The number of generations that each shard knows to be over, because it has waited itself.
    pub known: Vec<u64>,
    /// Arrivals, as shards and generations, that come too early unless others have waited in time.
    pub dared: Vec<(u32, u64)>,
    daring: bool,
}

impl Progress {
    /// The progress at the beginning, for each phase.
    pub fn of(stage: &Stage) -> Vec<Self> {
        let none = vec![0; stage.shards as usize];
        let one = |_| Progress {
            arrived: none.clone(),
            waited: none.clone(),
            known: none.clone(),
            dared: Vec::new(),
            daring: stage.daring,
        };
        stage.phases.iter().map(one).collect()
    }

    /// The progress at the end, for each phase. `None` if no order of steps gets to the end; then none of them does.
    pub fn through(stage: &Stage) -> Option<Vec<Self>> {
        let mut all = Self::of(stage);
        for (i, step) in stage.steps.iter().enumerate() {
            if let Step::Overrun { shard, phase } = *step {
                let arrivers = &stage.phases.get(phase)?.arrivers;
                (i + 1 == stage.steps.len() && arrivers.len() > 1 && arrivers.contains(&shard)).then_some(())?;
            }
            if let Step::Arrive { phase, .. } | Step::Wait { phase, .. } | Step::Forget { phase, .. } = *step {
                all.get_mut(phase)?.take(&stage.phases[phase], step).then_some(())?;
            }
        }
        stage.phases.iter().all(|p| !p.arrivers.is_empty() && !p.waiters.is_empty()).then_some(all)
    }

    /// The number of generations that have ended.
    pub fn over(&self, phase: &Phase) -> u64 {
        phase.arrivers.iter().map(|&s| self.arrived[s as usize]).min().unwrap_or(0)
    }

    /// Takes a step on this phase, and returns whether it can be taken now.
    pub fn take(&mut self, phase: &Phase, step: &Step) -> bool {
        match *step {
            Step::Arrive { shard, .. } | Step::Forget { shard, .. } => {
                let s = shard as usize;
                let generation = self.arrived[s];
                let sure = generation <= self.known[s] + phase.window;
                let can = sure || self.daring && generation <= self.over(phase) + phase.window;
                let can = can && phase.arrivers.contains(&shard);
                if can {
                    self.arrived[s] += 1;
                    self.dared.extend((!sure).then_some((shard, generation)));
                }
                can
            }
            Step::Wait { shard, own, .. } => {
                let s = shard as usize;
                let can = phase.waiters.contains(&shard) && self.waited[s] < self.over(phase);
                self.waited[s] += u64::from(can);
                if can && own {
                    self.known[s] = self.waited[s];
                }
                can
            }
            _ => true,
        }
    }

    /// The generations for which a shard's arrival may be refused if it goes on arriving. Those that the shard has waited for
    /// have ended. A member of the combining tree refuses the arrival, and knows some of the other arrivers only.
    pub fn refused(&self, phase: &Phase, shard: u32) -> std::ops::RangeInclusive<u64> {
        let others = phase.arrivers.iter().filter(|&&s| s != shard).map(|&s| self.arrived[s as usize]);
        self.known[shard as usize] + phase.window + 1..=others.max().unwrap_or(0) + phase.window + 1
    }
}

impl Stage {
    /// The number of generations of a phase for which there may be something to read.
    pub fn columns(&self, phase: usize) -> i64 {
        let arrives = |s: u32| move |step: &&Step| matches!(**step, Step::Arrive { shard, phase: p, .. } | Step::Forget { shard, phase: p } if (shard, p) == (s, phase));
        let most = self.phases[phase].arrivers.iter().map(|&s| self.steps.iter().filter(arrives(s)).count()).max();
        most.unwrap_or(0) as i64 + 1
    }

    /// The points that the arrivers of a phase write: one cell each, generation after generation.
    pub fn marks(&self, phase: usize) -> (i64, i64) {
        let size = |p: usize| self.columns(p) * self.phases[p].arrivers.len() as i64;
        let first = (0..phase).map(size).sum();
        (first, first + size(phase))
    }

    /// The shards whose slots this shard reads.
    pub fn producers(&self, shard: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.shards).filter(move |&s| self.to[s as usize] == shard)
    }
}
