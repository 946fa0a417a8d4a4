//! Where the steps of one rank find blocks, for calls in parts.

use crate::parts::{PartBlocks, Parts, part_blocks, parts_of, used_blocks};
use crate::sizes::{Sizes, Starts, ends};
use crate::{Goal, Ranks, Schedule, Step};
use maniple_regions::Vector;
use maniple_runtime::Error;
use std::ops::Range;

/// The blocks of a rank's steps, of its contribution and of its result. Blocks that it does not use are left out.
pub struct Layout {
    parts: PartBlocks,
    /// The collective and the shard, for errors.
    pub name: String,
    /// The part of each read, and whether no earlier step uses the same blocks.
    reads: Vec<(u16, bool)>,
    /// The peers of the reads, for errors.
    pub peers: Vec<u32>,
    /// The steps that move blocks of the contribution to where no earlier step does anything.
    free_locals: Vec<(u16, u16)>,
    /// The blocks of each register that are used, and where each begins.
    registers: Vec<(Range<u32>, Starts)>,
    /// In register 0.
    pub contribution: Range<u32>,
    result: (u8, Range<u32>),
    /// How many steps change each block of the result, and whether more than one change some.
    changes: Vec<u16>,
    change_again: bool,
    /// Which blocks of each register some step uses.
    used: Vec<Vec<bool>>,
    /// The contributors of the blocks of the result; if it is one, of all. And which of its blocks each has for this rank.
    from: Ranks,
    block: u32,
    /// Whether only who sends a block knows its size.
    is_any: bool,
    /// Whether a contribution has a block for each receiver.
    has_block_for_each: bool,
}

#[cold]
#[inline(never)]
fn wrong_length(what: String, expected: usize, came: usize) -> Box<Error> {
    Box::new(Error::Misuse { what, expected: format!("{expected} elements"), came: came.to_string() })
}

impl Layout {
    /// The layout of a schedule's rank. `parts` has its parts, if its [role](crate::role::Role) has them.
    pub fn of(name: &str, schedule: &Schedule, goal: &Goal, sizes: &Sizes, parts: Option<&Parts>) -> Self {
        let (rank, blocks) = (schedule.rank(), schedule.blocks());
        let [contributes, receives] = ends(goal, rank, blocks);
        let used = used_blocks(schedule, [&contributes, &receives]);
        let registers =
            (0..).zip(used).map(|(register, hull)| (hull, sizes.of(goal, rank, blocks, register))).collect();
        let (contribution, result) = (contributes.unwrap_or_default(), receives.unwrap_or_default());
        let has_block_for_each = goal.kind().has_block_for_each_receiver();
        let mut made = Self {
            name: format!("`{name}` in shard {rank}"),
            parts: parts.map_or_else(|| part_blocks(schedule), |parts| parts.parts.clone()),
            reads: Vec::new(),
            peers: Vec::new(),
            free_locals: Vec::new(),
            contribution,
            changes: vec![0; result.len()],
            change_again: false,
            used: Vec::new(),
            result: (schedule.result(), result),
            registers,
            is_any: matches!(sizes, Sizes::Any),
            from: goal.contributors().clone(),
            has_block_for_each,
            block: match has_block_for_each {
                true => goal.receivers().position(rank).unwrap_or(0),
                false => 0,
            },
        };
        made.add_steps(schedule);
        made.change_again = made.changes.iter().any(|changes| *changes > 1);
        made
    }

    fn add_steps(&mut self, schedule: &Schedule) {
        // What earlier steps use, and what they change.
        let mut used: Vec<Vec<[bool; 2]>> = self.registers().map(|hull| vec![[false; 2]; hull.len()]).collect();
        self.used = self.registers().map(|hull| vec![false; hull.len()]).collect();
        for step in schedule.steps() {
            let is = |layout: &Self, used: &[Vec<[bool; 2]>], part: u16, changed: usize| {
                let (register, mut blocks) = layout.at(part);
                blocks.any(|block| used[usize::from(register)][layout.position(register, block)][changed])
            };
            match *step {
                Step::Read { part, peer, .. } => {
                    self.reads.push((part, !is(self, &used, part, 0)));
                    self.peers.push(peer);
                }
                Step::Local { from, part, .. } => {
                    let (register, blocks) = self.at(from);
                    let own = |block| self.contribution.contains(&block);
                    if register == 0
                        && blocks.clone().all(own)
                        && !is(self, &used, from, 1)
                        && !is(self, &used, part, 0)
                    {
                        self.free_locals.push((from, part));
                    }
                }
                Step::Update { .. } => {}
            }
            let [read, changed] = parts_of(step);
            for (part, changes) in [(read, false), (changed, true)] {
                let Some(part) = part else { continue };
                let (register, blocks) = self.at(part);
                for block in blocks {
                    let at = self.position(register, block);
                    used[usize::from(register)][at][0] = true;
                    used[usize::from(register)][at][1] |= changes;
                    self.used[usize::from(register)][at] |= !changes;
                    if let Some(result) = self.in_result(register, block).filter(|_| changes) {
                        self.changes[result as usize] += 1;
                    }
                }
            }
        }
    }

    /// The blocks of each register that are used.
    pub fn registers(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.registers.iter().map(|(hull, _)| hull.clone())
    }

    /// How many blocks of a register are used.
    pub fn used(&self, register: u8) -> usize {
        self.registers[usize::from(register)].0.len()
    }

    #[inline]
    pub fn at(&self, part: u16) -> (u8, Range<u32>) {
        self.parts[usize::from(part)].clone()
    }

    /// The place of a block among those of its register that are used.
    #[inline]
    pub fn position(&self, register: u8, block: u32) -> usize {
        (block - self.registers[usize::from(register)].0.start) as usize
    }

    /// The elements of some blocks together, if they are known.
    #[inline]
    pub fn elements(&self, register: u8, blocks: &Range<u32>) -> Option<usize> {
        (!self.is_any).then(|| self.registers[usize::from(register)].1.count(blocks))
    }

    /// Where one of some blocks is in their vector, which has that many elements.
    #[inline]
    pub fn place(&self, register: u8, blocks: &Range<u32>, block: u32, elements: usize) -> Range<usize> {
        if self.is_any {
            // As even as can be.
            let starts = Starts::Cut { elements, blocks: blocks.len() };
            return starts.range(block - blocks.start..block - blocks.start + 1);
        }
        self.registers[usize::from(register)].1.place(blocks.start, block)
    }

    /// Whether a contribution has to come in blocks, as nobody knows where they would be in one vector.
    pub fn needs_blocks(&self) -> bool {
        self.is_any && self.has_block_for_each && self.contribution.len() > 1
    }

    /// Refuses a contribution in another number of blocks than one for each receiver, or one vector.
    pub fn check_number(&self, blocks: usize) -> Result<(), Error> {
        let expected = if self.has_block_for_each { self.contribution.len() } else { 1 };
        if blocks == expected {
            return Ok(());
        }
        Err(Error::Misuse {
            what: format!("input of {}", self.name),
            expected: format!("{expected} block{}", if expected == 1 { "" } else { "s" }),
            came: blocks.to_string(),
        })
    }

    /// Refuses another number of elements than expected.
    #[inline(always)]
    pub fn check_length(
        &self,
        what: impl FnOnce(&str) -> String,
        expected: Option<usize>,
        came: usize,
    ) -> Result<(), Box<Error>> {
        match expected {
            Some(expected) if expected != came => Err(wrong_length(what(&self.name), expected, came)),
            _ => Ok(()),
        }
    }

    /// Refuses a block of the contribution, by position, that has another number of elements than expected.
    pub fn check_block(&self, position: u32, elements: usize) -> Result<(), Box<Error>> {
        let block = self.contribution.start + position;
        let expected = self.elements(0, &(block..block + 1));
        self.check_length(|of| format!("block {position} of the input of {of}"), expected, elements)
    }

    /// Refuses a contribution in blocks that are not those of the collective.
    #[cold]
    pub fn check_blocks<T>(&self, blocks: &[Vector<T>]) -> Result<(), Error> {
        self.check_number(blocks.len())?;
        if self.has_block_for_each {
            let check = |(position, block): (u32, &Vector<T>)| self.check_block(position, block.len());
            return (0..).zip(blocks).try_for_each(check).map_err(|error| *error);
        }
        Ok(())
    }

    pub fn reads(&self) -> usize {
        self.reads.len()
    }

    /// The part of a read, and whether no earlier step uses the same blocks.
    #[inline]
    pub fn read(&self, read: u16) -> (u16, bool) {
        self.reads[usize::from(read)]
    }

    #[inline]
    pub fn free_locals(&self) -> &[(u16, u16)] {
        &self.free_locals
    }

    /// How many steps change each block of the result. Empty if one step does for each, or none.
    #[inline]
    pub fn changes(&self) -> &[u16] {
        if self.change_again { &self.changes } else { &[] }
    }

    /// Whether no step changes a block of the result, as the contribution has it there.
    pub fn is_given(&self, result: u32) -> bool {
        self.changes[result as usize] == 0
    }

    /// Whether some step sends a block, or moves it.
    #[inline]
    pub fn is_used(&self, register: u8, block: u32) -> bool {
        self.used[usize::from(register)][self.position(register, block)]
    }

    /// The register of the result, and its blocks.
    pub fn result(&self) -> (u8, Range<u32>) {
        self.result.clone()
    }

    /// The rank that contributes a block of the result, and the number of its block.
    pub fn origin(&self, part: usize) -> (u32, u32) {
        (self.from.at((part as u32).min(self.from.len() - 1)), self.block)
    }

    /// The position of a block in the result, if it is one of it.
    #[inline]
    pub fn in_result(&self, register: u8, block: u32) -> Option<u32> {
        (register == self.result.0 && self.result.1.contains(&block)).then(|| block - self.result.1.start)
    }
}
