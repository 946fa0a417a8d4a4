//! Faults of a run, as data.

use crate::Error;
use crate::ids::ProcessorId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A slow link: messages from one processor to another take longer. On threads and on processes they are held back for a
/// number of microseconds, and messages that are sent meanwhile come with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowLink {
    /// The sender.
    pub from: ProcessorId,
    /// The receiver.
    pub to: ProcessorId,
    /// How much longer, in steps.
    pub steps: u64,
}

/// A pause of a processor on the seeded driver: it runs nothing and takes no messages in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Which processor.
    pub processor: ProcessorId,
    /// From this step on.
    pub from: u64,
    /// The number of steps.
    pub steps: u64,
}

/// The loss of a processor on the seeded driver: it stops for ever, unless the run has ended for it before.
///
/// Messages that it has sent still come. Then the other processors hear of the loss, and all that wait fail with
/// [`Error::Lost`]. If nothing can go on before that, the run is in a deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorLoss {
    /// Which processor.
    pub processor: ProcessorId,
    /// At this step.
    pub step: u64,
}

/// The faults of a run, for [`Runtime::faults`](crate::Runtime::faults).
///
/// On the seeded driver times are in steps from the start of the run: a step is a message delivered, or a turn of a
/// processor. On threads and on processes only links can be slow, and a step is a microsecond.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// Slow pairs.
    pub slow: Vec<SlowLink>,
    /// Pauses.
    pub pauses: Vec<Pause>,
    /// Losses of processors.
    pub losses: Vec<ProcessorLoss>,
}

impl Faults {
    /// Number of faults.
    pub fn len(&self) -> usize {
        self.slow.len() + self.pauses.len() + self.losses.len()
    }

    /// Whether there are no faults.
    pub fn is_empty(&self) -> bool {
        self.slow.is_empty() && self.pauses.is_empty() && self.losses.is_empty()
    }

    /// All faults but number `which`, counted from 0 over slow pairs, pauses and losses in this order.
    pub fn without(&self, which: usize) -> Self {
        let mut rest = self.clone();
        let (slow, pauses) = (self.slow.len(), self.pauses.len());
        if which < slow {
            rest.slow.remove(which);
        } else if which < slow + pauses {
            rest.pauses.remove(which - slow);
        } else if which < self.len() {
            rest.losses.remove(which - slow - pauses);
        }
        rest
    }

    /// The faults that concern only the first `processors` processors.
    pub fn among(&self, processors: u32) -> Self {
        let mut rest = self.clone();
        rest.slow.retain(|s| s.from.0.max(s.to.0) < processors);
        rest.pauses.retain(|p| p.processor.0 < processors);
        rest.losses.retain(|d| d.processor.0 < processors);
        rest
    }

    /// Draws faults of a run of `processors` processors from a seed: mostly one or two, sometimes none or many. With
    /// `losses`, every other seed also loses a processor or two.
    pub fn drawn(seed: u64, processors: u32, losses: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x6661_756c_7473);
        let mut faults = Self::default();
        // Early as well as late in runs of any length.
        let step = |random: &mut fastrand::Rng| {
            let most = 1 << random.u32(2..12);
            random.u64(0..most)
        };
        if processors > 1 {
            for _ in 0..[0, 0, 1, 1, 2, processors][random.usize(0..6)] {
                let from = random.u32(0..processors);
                let to = ProcessorId((from + random.u32(1..processors)) % processors);
                let from = ProcessorId(from);
                faults.slow.push(SlowLink { from, to, steps: step(&mut random) });
            }
        }
        for _ in 0..[0, 0, 1, 2][random.usize(0..4)] {
            let (from, steps) = (step(&mut random), step(&mut random));
            faults.pauses.push(Pause { processor: ProcessorId(random.u32(0..processors)), from, steps });
        }
        if losses && random.bool() {
            for _ in 0..[1, 1, 1, 2][random.usize(0..4)] {
                faults
                    .losses
                    .push(ProcessorLoss { processor: ProcessorId(random.u32(0..processors)), step: step(&mut random) });
            }
        }
        faults
    }

    /// Refuses processors that do not exist.
    pub(crate) fn check(&self, processors: u32) -> Result<(), Error> {
        if self.among(processors) == *self {
            return Ok(());
        }
        Err(Error::misuse("faults of a run", format!("processors in 0..{processors}"), self))
    }

    /// The faults that also happen on threads and on processes.
    pub fn real(&self) -> Self {
        Self { slow: self.slow.clone(), ..Self::default() }
    }

    pub(super) fn delay(&self, from: ProcessorId, to: ProcessorId) -> u64 {
        let own = self.slow.iter().filter(|s| (s.from, s.to) == (from, to));
        own.fold(0, |sum, s| sum.saturating_add(s.steps))
    }

    fn pauses_at(&self, processor: ProcessorId, step: u64) -> impl Iterator<Item = u64> + '_ {
        let own = self.pauses.iter().filter(move |p| p.processor == processor);
        own.map(|p| (p.from, p.from.saturating_add(p.steps))).filter(move |p| (p.0..p.1).contains(&step)).map(|p| p.1)
    }

    /// Whether a processor does nothing in a step.
    pub(super) fn pauses(&self, processor: ProcessorId, step: u64) -> bool {
        self.pauses_at(processor, step).next().is_some()
    }

    /// The first step after the pause of a processor in `step`.
    pub(super) fn end_of_pause(&self, processor: ProcessorId, step: u64) -> u64 {
        self.pauses_at(processor, step).max().unwrap_or(step.saturating_add(1))
    }

    /// The processors that are to die by now; each once.
    pub(super) fn take_losses(&mut self, step: u64) -> Vec<ProcessorId> {
        if self.losses.is_empty() {
            return Vec::new();
        }
        let (due, rest) = self.losses.iter().partition::<Vec<_>, _>(|d| d.step <= step);
        self.losses = rest;
        due.into_iter().map(|d| d.processor).collect()
    }
}

/// Each fault in words, separated by semicolons, or `none`.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slow =
            self.slow.iter().map(|s| format!("messages from {} to {} take {} steps more", s.from, s.to, s.steps));
        let pauses = self
            .pauses
            .iter()
            .map(|p| format!("processor {} does nothing for {} steps from step {} on", p.processor, p.steps, p.from));
        let losses = self.losses.iter().map(|d| format!("processor {} stops for ever at step {}", d.processor, d.step));
        let all: Vec<String> = slow.chain(pauses).chain(losses).collect();
        if all.is_empty() { f.write_str("none") } else { f.write_str(&all.join("; ")) }
    }
}
