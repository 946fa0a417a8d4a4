//! One run of all schedules, in some order, on symbolic values.

use super::trees::{Place, Trees, Value};
use super::{Channels, CheckError, Rank, groups};
use crate::Goal;
use crate::fold_in_pairs;
use crate::schedule::{Combine, Link, Part, Step};

/// A message cell, one for each read.
#[derive(Clone)]
enum Cell {
    Empty,
    Full { values: Box<[Value]>, depth: u32 },
    Taken,
}

pub struct Execution<'a> {
    ranks: &'a [Rank<'a>],
    goal: &'a Goal,
    channels: Channels,
    pub trees: Trees,
    /// The value of each block of each register of each rank, up to the last block that has held one.
    pub registers: Vec<Vec<Vec<Option<Value>>>>,
    /// How many messages in a row led to the present state of each rank.
    pub depth: Vec<u32>,
    next: Vec<usize>,
    cells: Vec<Vec<Cell>>,
    /// For each step of each rank the updates that must have been read before.
    awaits: Vec<Vec<Vec<u16>>>,
}

impl<'a> Execution<'a> {
    pub fn new(ranks: &'a [Rank<'a>], goal: &'a Goal, channels: Channels) -> Self {
        let mut trees = Trees::default();
        let begin = |rank: &Rank<'_>| {
            let schedule = rank.schedule;
            let mut registers = vec![Vec::new(); usize::from(schedule.registers())];
            if let Some(of) = goal.contributors().position(schedule.rank()) {
                let blocks = goal.contribution(schedule.rank());
                registers[0].resize(blocks.start as usize, None);
                registers[0].extend(blocks.map(|block| Some(trees.leaf(of, block))));
            }
            registers
        };
        let registers = ranks.iter().map(begin).collect();
        let awaits = match channels {
            Channels::Unbounded => Vec::new(),
            Channels::TwoVectors => ranks.iter().map(|r| r.schedule.awaits()).collect(),
        };
        let mut execution = Execution {
            ranks,
            goal,
            channels,
            trees,
            registers,
            depth: vec![0; ranks.len()],
            next: vec![0; ranks.len()],
            cells: ranks.iter().map(|r| vec![Cell::Empty; r.reads.len()]).collect(),
            awaits,
        };
        execution.gather();
        execution
    }

    /// Combines the contributions of each group in place.
    fn gather(&mut self) {
        for group in groups(self.ranks) {
            let first = group.start as usize;
            fold_in_pairs(group.len() as u32, |i, j| {
                let (i, j) = (first + i as usize, first + j as usize);
                for block in 0..self.registers[j][0].len() {
                    let Some(higher) = self.registers[j][0][block] else { continue };
                    let register = &mut self.registers[i][0];
                    register.resize(register.len().max(block + 1), None);
                    // A block that is gathered has no other there.
                    register[block] = Some(match register[block] {
                        Some(lower) => self.trees.pair(lower, higher, (first as u32, 0)),
                        None => higher,
                    });
                }
            });
            self.depth[first] = 1;
        }
    }

    pub fn run(&mut self) -> Result<(), CheckError> {
        let mut ready: Vec<u32> = (0..self.ranks.len() as u32).rev().collect();
        while let Some(rank) = ready.pop() {
            // A rank that moved may free the peer of that step; running one that is not free does nothing.
            while let Some(peer) = self.advance(rank as usize)? {
                ready.extend(peer);
            }
        }
        let left = |&rank: &usize| self.next[rank] < self.ranks[rank].links.len();
        let stuck = (0..self.ranks.len()).filter(left);
        if let Some(rank) = stuck.clone().next() {
            let step = self.next[rank];
            return Err(CheckError::Deadlock {
                rank: rank as u32,
                step,
                expected: self.blocked_on(rank, step).expect("a stuck rank waits for a message"),
                stuck: stuck.count() as u32,
                channels: self.channels,
            });
        }
        for group in groups(self.ranks) {
            let first = group.start as usize;
            for follower in first + 1..group.end as usize {
                self.registers[follower] = self.registers[first].clone();
                self.depth[follower] = self.depth[first] + 1;
            }
        }
        Ok(())
    }

    /// The message that `step` waits for, if it can't run.
    fn blocked_on(&self, rank: usize, step: usize) -> Option<Link> {
        let of = &self.ranks[rank];
        if let Step::Read { .. } = of.schedule.steps()[step] {
            let link = of.links[step]?;
            if !matches!(self.cells[rank][link.read as usize], Cell::Full { .. }) {
                return Some(link);
            }
        }
        let awaited = self.awaits.get(rank).into_iter().flat_map(|of| &of[step]);
        awaited
            .filter_map(|&update| of.links[of.updates[usize::from(update)]])
            .find(|link| !matches!(self.cells[link.to as usize][link.read as usize], Cell::Taken))
    }

    /// Runs the next step of `rank` if it can; the peer of that step, if it has one.
    fn advance(&mut self, rank: usize) -> Result<Option<Option<u32>>, CheckError> {
        let of = &self.ranks[rank];
        let step = self.next[rank];
        let Some(&now) = of.schedule.steps().get(step) else { return Ok(None) };
        if self.blocked_on(rank, step).is_some() {
            return Ok(None);
        }
        let part = |number: u16| &of.schedule.parts()[usize::from(number)];
        match now {
            Step::Update { part: stored, .. } => {
                let values = self.values(rank, step, part(stored))?;
                let depth = self.depth[rank] + 1;
                let link = of.links[step].expect("an update has a link");
                self.cells[link.to as usize][link.read as usize] = Cell::Full { values, depth };
            }
            Step::Read { part: changed, combine, .. } => {
                let link = of.links[step].expect("a read has a link");
                let cell = &mut self.cells[rank][link.read as usize];
                let Cell::Full { values, depth } = std::mem::replace(cell, Cell::Taken) else {
                    unreachable!("blocked_on found the cell full")
                };
                self.combine(rank, step, part(changed), combine, &values)?;
                self.depth[rank] = self.depth[rank].max(depth);
            }
            Step::Local { from, part: changed, combine } => {
                let values = self.values(rank, step, part(from))?;
                self.combine(rank, step, part(changed), combine, &values)?;
            }
        }
        self.next[rank] += 1;
        Ok(Some(now.peer()))
    }

    /// The values in a part.
    fn values(&self, rank: usize, step: usize, part: &Part) -> Result<Box<[Value]>, CheckError> {
        let register = &self.registers[rank][usize::from(part.register)];
        let value = |block: u32| {
            let value = register.get(block as usize).copied().flatten();
            value.ok_or_else(|| nothing(rank, step, part.register, block))
        };
        part.blocks.clone().map(value).collect()
    }

    fn combine(
        &mut self,
        rank: usize,
        step: usize,
        part: &Part,
        how: Combine,
        incoming: &[Value],
    ) -> Result<(), CheckError> {
        let (register, place) = (usize::from(part.register), (rank as u32, step));
        for (block, &incoming) in part.blocks.clone().zip(incoming) {
            let held = self.registers[rank][register].get(block as usize).copied().flatten();
            let mine = || held.ok_or_else(|| nothing(rank, step, part.register, block));
            let value = match how {
                Combine::Replace => incoming,
                Combine::IncomingIsHigher => self.trees.pair(mine()?, incoming, place),
                Combine::IncomingIsLower => self.trees.pair(incoming, mine()?, place),
                Combine::Undo => {
                    let from = mine()?;
                    let without = self.trees.without(from, incoming, place);
                    without.map_err(|lacks| self.undo(from, lacks, place, Part::block(part.register, block)))?
                }
            };
            let register = &mut self.registers[rank][register];
            register.resize(register.len().max(block as usize + 1), None);
            register[block as usize] = Some(value);
        }
        Ok(())
    }

    /// The error of a step that takes out of a value what it lacks, or all.
    fn undo(&self, from: Value, lacks: Option<u32>, (rank, step): Place, part: Part) -> CheckError {
        let expected = match lacks.map(|position| self.goal.contributors().at(position)) {
            Some(of) => format!("the contribution of rank {of} in {part} as often as it is taken out"),
            None => format!("a contribution in {part} that is not taken out"),
        };
        CheckError::Undo { rank, step, expected, came: self.trees.show(from, self.goal) }
    }
}

fn nothing(rank: usize, step: usize, register: u8, block: u32) -> CheckError {
    CheckError::Nothing { rank: rank as u32, step, part: Part::block(register, block).to_string() }
}
