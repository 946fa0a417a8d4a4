//! The registers of a call and their parts.

use crate::sizes::{Sizes, Starts, ends};
use crate::{Goal, Schedule, Step};
use std::ops::Range;

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

/// Where the parts of one rank's steps are, and its contribution and its result.
pub struct Parts {
    /// The register of each part, and its elements there.
    parts: Vec<(u8, Range<usize>)>,
    /// Whether steps combine parts with each other.
    has_locals: bool,
    /// The elements of each register. Blocks that the rank does not use are left out.
    pub registers: Vec<usize>,
    /// The contribution in register 0, and the result with its register, if the rank has them.
    pub contribution: Option<Range<usize>>,
    pub result: Option<(u8, Range<usize>)>,
}

impl Parts {
    pub fn of(schedule: &Schedule, goal: &Goal, sizes: &Sizes) -> Self {
        let (rank, blocks) = (schedule.rank(), schedule.blocks());
        let [contributes, receives] = ends(goal, rank, blocks);
        let has_locals = schedule.steps().iter().any(|step| matches!(step, Step::Local { .. }));
        let hulls = used_blocks(schedule, [&contributes, &receives]);
        let registers: Vec<(Starts, usize, usize)> = (0..=u8::MAX)
            .zip(hulls)
            .map(|(register, hull)| {
                let starts = sizes.of(goal, rank, blocks, register);
                let Range { start, end } = starts.range(hull);
                (starts, start, end - start)
            })
            .collect();
        let place = |register: u8, blocks: &Range<u32>| {
            let (starts, first, _) = &registers[usize::from(register)];
            let Range { start, end } = starts.range(blocks.clone());
            // A part that no step uses may lie outside.
            start.saturating_sub(*first)..end.saturating_sub(*first)
        };
        Self {
            parts: schedule.parts().iter().map(|p| (p.register, place(p.register, &p.blocks))).collect(),
            has_locals,
            contribution: contributes.map(|blocks| place(0, &blocks)),
            result: receives.map(|blocks| (schedule.result(), place(schedule.result(), &blocks))),
            registers: registers.into_iter().map(|(_, _, elements)| elements).collect(),
        }
    }

    /// The register of a part, and its elements.
    #[inline]
    pub fn at(&self, part: u16) -> (usize, Range<usize>) {
        let (register, range) = &self.parts[usize::from(part)];
        (usize::from(*register), range.clone())
    }

    /// The elements of the value, if it is one vector that all steps use as a whole, and combine with other shards'
    /// vectors only.
    pub fn whole(&self) -> Option<usize> {
        let [elements] = self.registers[..] else { return None };
        let is_whole = |range: &Range<usize>| *range == (0..elements);
        let all = self.parts.iter().map(|(_, range)| range);
        let ends = self.contribution.iter().chain(self.result.iter().map(|(_, range)| range));
        (self.parts.len() == 1 && !self.has_locals && all.chain(ends).all(is_whole)).then_some(elements)
    }
}
