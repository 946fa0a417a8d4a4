//! The registers of a call and their parts.

use crate::sizes::{Sizes, Starts, ends};
use crate::{Combine, Goal, Part, Schedule, Step};
use std::ops::Range;
use std::sync::Arc;

/// The part that a step reads, and the one that it changes.
pub fn parts_of(step: &Step) -> [Option<u16>; 2] {
    match *step {
        Step::Update { part, .. } => [Some(part), None],
        Step::Read { part, .. } => [None, Some(part)],
        Step::Local { from, part, .. } => [Some(from), Some(part)],
    }
}

/// Of each register the smallest range with all blocks that steps use, or the contribution or the result.
pub fn used_blocks(schedule: &Schedule, [contributes, receives]: [&Option<Range<u32>>; 2]) -> Vec<Range<u32>> {
    let mut used = vec![false; schedule.parts().len()];
    let parts = schedule.steps().iter().flat_map(parts_of).flatten();
    parts.for_each(|part| used[usize::from(part)] = true);
    let mut hulls: Vec<Option<Range<u32>>> = vec![None; schedule.registers().into()];
    let mut use_blocks = |register: u8, blocks: &Range<u32>| {
        let hull = hulls[usize::from(register)].get_or_insert_with(|| blocks.clone());
        *hull = hull.start.min(blocks.start)..hull.end.max(blocks.end);
    };
    let parts = schedule.parts().iter().zip(used).filter(|(_, used)| *used);
    parts.for_each(|(part, _)| use_blocks(part.register, &part.blocks));
    contributes.iter().for_each(|blocks| use_blocks(0, blocks));
    receives.iter().for_each(|blocks| use_blocks(schedule.result(), blocks));
    hulls.into_iter().map(Option::unwrap_or_default).collect()
}

/// The register of each part of a schedule, and its blocks there.
pub type PartBlocks = Arc<[(u8, Range<u32>)]>;

/// The parts of a schedule.
pub fn part_blocks(schedule: &Schedule) -> PartBlocks {
    schedule.parts().iter().map(|part| (part.register, part.blocks.clone())).collect()
}

/// The part that the last step brings and its register, if it is all of the result and nothing else is in that register.
fn brought(schedule: &Schedule, result: Option<&Range<u32>>) -> Option<(u16, usize)> {
    let (last, others) = schedule.steps().split_last()?;
    let &Step::Read { part: brought, combine: Combine::Replace, .. } = last else { return None };
    let (register, part) = (schedule.result(), |part: u16| &schedule.parts()[usize::from(part)]);
    let is_whole = result.is_some_and(|result| *part(brought) == Part::new(register, result.clone()));
    let uses = |step| parts_of(step).into_iter().flatten().any(|of| part(of).register == register);
    (is_whole && register != 0 && !others.iter().any(uses)).then_some((brought, register.into()))
}

/// Where the parts of one rank's steps are, and its contribution and its result.
pub struct Parts {
    pub parts: PartBlocks,
    /// Whether steps combine parts with each other.
    has_locals: bool,
    /// Where the blocks of each register begin in a vector of all blocks, and the first element there that the rank uses.
    starts: Vec<(Starts, usize)>,
    /// The elements of each register, from the first to the last that the rank uses.
    pub registers: Vec<usize>,
    /// The contribution in register 0, and the result with its register, if the rank has them.
    pub contribution: Option<Range<usize>>,
    pub result: Option<(u8, Range<usize>)>,
    /// The part that the last step brings and its register, if that is all of the result and no other step uses the register. That
    /// register may then have the vector of another rank.
    pub brought: Option<(u16, usize)>,
}

impl Parts {
    pub fn of(schedule: &Schedule, goal: &Goal, sizes: &Sizes) -> Self {
        let (rank, blocks) = (schedule.rank(), schedule.blocks());
        let [contributes, receives] = ends(goal, rank, blocks);
        let has_locals = schedule.steps().iter().any(|step| matches!(step, Step::Local { .. }));
        let hulls = used_blocks(schedule, [&contributes, &receives]);
        let mut made = Self {
            parts: part_blocks(schedule),
            has_locals,
            starts: Vec::new(),
            registers: Vec::new(),
            contribution: None,
            result: None,
            brought: brought(schedule, receives.as_ref()),
        };
        for (register, hull) in (0..=u8::MAX).zip(hulls) {
            let starts = sizes.of(goal, rank, blocks, register);
            let Range { start, end } = starts.range(hull);
            made.starts.push((starts, start));
            made.registers.push(end - start);
        }
        made.contribution = contributes.map(|blocks| made.place(0, &blocks));
        made.result = receives.map(|blocks| (schedule.result(), made.place(schedule.result(), &blocks)));
        made
    }

    /// The elements of some blocks of a register.
    #[inline]
    pub fn place(&self, register: u8, blocks: &Range<u32>) -> Range<usize> {
        let (starts, first) = &self.starts[usize::from(register)];
        let Range { start, end } = starts.range(blocks.clone());
        // A part that no step uses may lie outside.
        start.saturating_sub(*first)..end.saturating_sub(*first)
    }

    /// The register of a part, and its elements.
    #[inline]
    pub fn at(&self, part: u16) -> (usize, Range<usize>) {
        let (register, blocks) = &self.parts[usize::from(part)];
        (usize::from(*register), self.place(*register, blocks))
    }

    /// The elements of the value, if it is one vector that all steps use as a whole, and combine with other shards'
    /// vectors only.
    pub fn whole(&self) -> Option<usize> {
        let [elements] = self.registers[..] else { return None };
        let is_whole = |range: &Range<usize>| *range == (0..elements);
        let mut ends = self.contribution.iter().chain(self.result.iter().map(|(_, range)| range));
        let is_one = self.parts.len() == 1 && !self.has_locals && is_whole(&self.at(0).1);
        (is_one && ends.all(is_whole)).then_some(elements)
    }
}
