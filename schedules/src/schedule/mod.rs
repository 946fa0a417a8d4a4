//! Schedules: the steps of each rank of a collective, as plain data.

mod linked;
mod loans;

use std::fmt;
use std::ops::Range;

/// How a step changes the part that it writes.
///
/// ⊕ need not commute, so a step says on which side of it the other value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// `part = part ⊕ incoming`: what comes has higher ranks.
    IncomingIsHigher,
    /// `part = incoming ⊕ part`: what comes has lower ranks.
    IncomingIsLower,
    /// `part = incoming`.
    Replace,
    /// `part = part ⊖ incoming`: takes out again what is in the part, where something must be left. Needs an operator that
    /// is associative and commutative and has an inverse.
    Undo,
}

impl fmt::Display for Combine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Combine::IncomingIsHigher => "incoming is higher",
            Combine::IncomingIsLower => "incoming is lower",
            Combine::Replace => "replace",
            Combine::Undo => "undo",
        })
    }
}

/// A part of a rank's memory for one call: consecutive blocks of a register.
///
/// A *register* holds a vector that is cut into [`Schedule::blocks`] blocks. Register 0 begins with the rank's
/// contribution, if it has one. The others begin empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The number of the register.
    pub register: u8,
    /// The blocks.
    pub blocks: Range<u32>,
}

impl Part {
    /// Some blocks of a register.
    pub fn new(register: u8, blocks: Range<u32>) -> Self {
        Self { register, blocks }
    }

    /// One block of a register.
    pub fn block(register: u8, block: u32) -> Self {
        // The last number does not name a block, so this part is empty.
        Self { register, blocks: block..block.saturating_add(1) }
    }
}

/// For example `r0[2..4]`, or `r0[2]` for one block.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { register, blocks: Range { start, end } } = self;
        if end.wrapping_sub(*start) == 1 {
            write!(f, "r{register}[{start}]")
        } else {
            write!(f, "r{register}[{start}..{end}]")
        }
    }
}

/// One step of one rank in a collective. Each step is one subtask.
///
/// `at` is the number of the matching step among the peer's steps of the other kind. So each end finds the other's
/// barrier cells by arithmetic alone. In §II-A of "Scalable collectives for distributed asynchronous many-task
/// runtimes", a round has one step of each kind.
///
/// A part is named by its number in [`Schedule::parts`]. Part 0 is all of register 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Stores a part in this rank's exchange region. Then arrives at the ready barrier of `peer`'s read number `at`.
    Update {
        /// The rank that will read the value.
        peer: u32,
        /// The number of the peer's read that takes it, from 0 in its schedule.
        at: u16,
        /// The part that is stored.
        part: u16,
    },
    /// Waits for the ready barrier of this read, and combines the value that `peer` stored in its update number `at`.
    /// Then arrives at the empty barrier of that update.
    Read {
        /// The rank whose exchange region is read.
        peer: u32,
        /// The number of the peer's update that is read, from 0 in its schedule.
        at: u16,
        /// The part that changes. It has as many blocks as the part that the peer stored.
        part: u16,
        /// How the part changes.
        combine: Combine,
    },
    /// Combines one part of this rank's memory with another one. Waits for no message; above 4 KiB it may wait until readers
    /// give a vector back.
    Local {
        /// The part whose value comes.
        from: u16,
        /// The part that changes, with as many blocks.
        part: u16,
        /// How the part changes.
        combine: Combine,
    },
}

const _: () = assert!(size_of::<Step>() <= 12);

impl Step {
    /// The rank at the other end, if there is one.
    #[inline]
    pub fn peer(self) -> Option<u32> {
        match self {
            Step::Update { peer, .. } | Step::Read { peer, .. } => Some(peer),
            Step::Local { .. } => None,
        }
    }
}

/// One message of a collective: an update at one rank and a read at another.
///
/// A schedule is well matched when both ends of every message name the same link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// The rank that updates.
    pub from: u32,
    /// The number of its update, from 0.
    pub update: u32,
    /// The rank that reads.
    pub to: u32,
    /// The number of its read, from 0.
    pub read: u32,
}

/// For example `update 1 of rank 2 → read 0 of rank 5`.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "update {} of rank {} → read {} of rank {}", self.update, self.from, self.read, self.to)
    }
}

/// The steps of one rank, in program order.
///
/// It is made by adding steps. A schedule by itself proves nothing. [`check`](crate::check) proves the schedules of all
/// ranks together.
///
/// ```
/// use maniple_schedules::{Combine, Goal, Part, Schedule, check};
///
/// // Rank 0 hands its value to all others.
/// let star = |rank: u32| {
///     let mut schedule = Schedule::new(rank, 4, 1);
///     if rank == 0 {
///         (1..4).for_each(|peer| schedule.update(peer, 0, Part::block(0, 0)));
///     } else {
///         schedule.read(0, rank - 1, Part::block(0, 0), Combine::Replace);
///     }
///     schedule
/// };
/// assert_eq!(check(&Goal::broadcast(4, 0, 1), star).unwrap().messages, 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    rank: u32,
    ranks: u32,
    blocks: u32,
    group: Range<u32>,
    result: u8,
    updates: u32,
    reads: u32,
    parts: Vec<Part>,
    steps: Vec<Step>,
}

impl Schedule {
    /// A schedule of `rank` among `ranks` without steps. Registers have `blocks` blocks.
    pub fn new(rank: u32, ranks: u32, blocks: u32) -> Self {
        let (whole, group) = (Part::new(0, 0..blocks), rank..rank + 1);
        Self { rank, ranks, blocks, group, result: 0, updates: 0, reads: 0, parts: vec![whole], steps: Vec::new() }
    }

    /// The same with a [group](Self::group) of ranks that combine in place.
    pub fn in_group(self, group: Range<u32>) -> Self {
        Self { group, ..self }
    }

    /// The same steps for a rank of more ranks, of which only some take part. `at` gives the ranks that do.
    #[must_use]
    pub fn among(mut self, rank: u32, ranks: u32, at: impl Fn(u32) -> u32) -> Self {
        for step in &mut self.steps {
            if let Step::Update { peer, .. } | Step::Read { peer, .. } = step {
                *peer = at(*peer);
            }
        }
        Self { rank, ranks, group: rank..rank + 1, ..self }
    }

    /// The same with the [result](Self::result) in another register than 0.
    pub fn with_result(self, register: u8) -> Self {
        Self { result: register, ..self }
    }

    /// Adds a [`Step::Update`].
    ///
    /// # Panics
    ///
    /// If `at` is larger than 65,535, or the schedule has 65,536 other parts. Likewise for the other kinds of steps.
    pub fn update(&mut self, peer: u32, at: u32, part: Part) {
        let part = self.part(part);
        self.push(Step::Update { peer, at: short(at), part });
    }

    /// Adds a [`Step::Read`].
    pub fn read(&mut self, peer: u32, at: u32, part: Part, combine: Combine) {
        let part = self.part(part);
        self.push(Step::Read { peer, at: short(at), part, combine });
    }

    /// Adds a [`Step::Local`].
    pub fn local(&mut self, from: Part, part: Part, combine: Combine) {
        let (from, part) = (self.part(from), self.part(part));
        self.push(Step::Local { from, part, combine });
    }

    /// Adds a [`Step::Update`] whose number [`Self::linked`] finds.
    pub fn send(&mut self, peer: u32, part: Part) {
        self.update(peer, 0, part);
    }

    /// Adds a [`Step::Read`] whose number [`Self::linked`] finds.
    pub fn receive(&mut self, peer: u32, part: Part, combine: Combine) {
        self.read(peer, 0, part, combine);
    }

    /// Adds a step whose parts are known.
    pub fn push(&mut self, step: Step) {
        match step {
            Step::Update { .. } => self.updates += 1,
            Step::Read { .. } => self.reads += 1,
            Step::Local { .. } => {}
        }
        self.steps.push(step);
    }

    /// The number of a part, which is added unless it is one of the last.
    pub fn part(&mut self, part: Part) -> u16 {
        const LAST: usize = 8;
        let skipped = self.parts.len().saturating_sub(LAST);
        let known = match self.parts[0] == part {
            true => Some(0),
            false => self.parts[skipped..].iter().position(|p| *p == part).map(|at| skipped + at),
        };
        let at = known.unwrap_or_else(|| {
            self.parts.push(part);
            self.parts.len() - 1
        });
        short(at as u32)
    }

    /// The rank that runs these steps.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks of the collective.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The number of blocks of each register.
    #[inline]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The ranks on one processor that combine in place with this one; usually the rank alone.
    ///
    /// Their contributions are combined [in pairs](fold_in_pairs) before the first of them takes
    /// its steps. The others have no steps and get its result.
    #[inline]
    pub fn group(&self) -> Range<u32> {
        self.group.clone()
    }

    /// The register that holds the result after the last step.
    #[inline]
    pub fn result(&self) -> u8 {
        self.result
    }

    /// The number of registers.
    pub fn registers(&self) -> u16 {
        let used = self.parts.iter().map(|part| part.register).max();
        u16::from(used.unwrap_or(0).max(self.result)) + 1
    }

    /// The parts that steps name.
    #[inline]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The steps in program order. A step may start when the one before it has ended.
    #[inline]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The number of updates. A slot needs as many exchange cells and empty barriers at this rank.
    #[inline]
    pub fn updates(&self) -> usize {
        self.updates as usize
    }

    /// The number of reads. A slot needs as many ready barriers at this rank.
    #[inline]
    pub fn reads(&self) -> usize {
        self.reads as usize
    }

    /// The message that each step sends or receives, in order. Nothing for a local step.
    ///
    /// An update's own number is the link's `update`, and a read's own number is the link's `read`.
    pub fn links(&self) -> impl Iterator<Item = Option<Link>> + '_ {
        let (mut updates, mut reads) = (0, 0);
        self.steps.iter().map(move |step| match *step {
            Step::Update { peer, at, .. } => {
                updates += 1;
                Some(Link { from: self.rank, update: updates - 1, to: peer, read: u32::from(at) })
            }
            Step::Read { peer, at, .. } => {
                reads += 1;
                Some(Link { from: peer, update: u32::from(at), to: self.rank, read: reads - 1 })
            }
            Step::Local { .. } => None,
        })
    }

    fn show(&self, step: Step, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |number: u16| self.parts.get(usize::from(number));
        let shown = |f: &mut fmt::Formatter<'_>, before: &str, number: u16| match part(number) {
            // The usual part goes without saying.
            Some(_) if number == 0 && self.parts.len() == 1 => Ok(()),
            Some(part) => write!(f, "{before}{part}"),
            None => write!(f, "{before}part {number}"),
        };
        match step {
            Step::Update { peer, at, part } => {
                write!(f, "update to {peer}, its read {at}")?;
                shown(f, ", of ", part)
            }
            Step::Read { peer, at, part, combine } => {
                write!(f, "read from {peer}, its update {at}, {combine}")?;
                shown(f, ", into ", part)
            }
            Step::Local { from, part, combine } => {
                write!(f, "local, {combine}")?;
                shown(f, ", from ", from)?;
                shown(f, ", into ", part)
            }
        }
    }
}

/// Combines the `n` values of a group in pairs: the first with the second, the third with the fourth, and so on,
/// then these results in the same way. Calls `combine(i, j)` for each pair: value j, the higher one, goes into value i.
pub fn fold_in_pairs(n: u32, mut combine: impl FnMut(u32, u32)) {
    let mut distance = 1;
    while distance < n {
        let mut i = 0;
        while i + distance < n {
            combine(i, i + distance);
            i += 2 * distance;
        }
        distance *= 2;
    }
}

fn short(number: u32) -> u16 {
    u16::try_from(number).expect("a schedule has at most 65,536 steps and parts of each kind")
}

/// One line for the rank and one for each step.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.ranks)?;
        if self.group.len() > 1 {
            write!(f, ", in the group {:?}", self.group)?;
        }
        if self.blocks > 1 {
            write!(f, ", {} blocks", self.blocks)?;
        }
        if self.result > 0 {
            write!(f, ", result in r{}", self.result)?;
        }
        for (number, &step) in self.steps.iter().enumerate() {
            write!(f, "\n  step {number}: ")?;
            self.show(step, f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_small() {
        assert!(size_of::<Step>() <= 12);
    }

    #[test]
    fn links_number_each_kind_apart() {
        let mut schedule = Schedule::new(3, 10, 4);
        schedule.read(4, 7, Part::new(0, 0..4), Combine::Replace);
        schedule.update(5, 8, Part::new(1, 1..3));
        schedule.local(Part::block(1, 2), Part::block(0, 3), Combine::Undo);
        schedule.update(6, 9, Part::new(0, 0..4));
        assert_eq!((schedule.updates(), schedule.reads(), schedule.registers()), (2, 1, 2));
        let shown: Vec<_> = schedule.links().flatten().map(|l| l.to_string()).collect();
        assert_eq!(
            shown,
            [
                "update 7 of rank 4 → read 0 of rank 3",
                "update 0 of rank 3 → read 8 of rank 5",
                "update 1 of rank 3 → read 9 of rank 6",
            ]
        );
        assert_eq!(
            schedule.to_string(),
            "rank 3 of 10, 4 blocks\n  step 0: read from 4, its update 7, replace, into r0[0..4]\n  \
             step 1: update to 5, its read 8, of r1[1..3]\n  step 2: local, undo, from r1[2], into r0[3]\n  \
             step 3: update to 6, its read 9, of r0[0..4]"
        );
    }
}
