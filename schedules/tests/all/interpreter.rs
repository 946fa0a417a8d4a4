//! Runs calls of a schedule in a seeded random order, on counters that stand for the barriers.

use maniple_regions::Operator;
use maniple_schedules::{Combine, Part, Schedule, Step};

/// A wait the protocol needs, left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    SkipEmptyWait,
    SkipReadyWait,
    EarlySlotReuse,
}

#[derive(Debug, PartialEq)]
pub enum Stopped {
    /// Nothing can run and something has not ended.
    Stuck,
    /// A step addresses a cell that does not exist.
    NoSuchCell,
    /// A read found a cell nobody had written.
    NothingThere,
}

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % limit as u64) as usize
    }
}

/// What one rank keeps for one slot.
struct Slot<T> {
    /// By register and block.
    memory: Vec<Vec<Option<T>>>,
    exchange: Vec<Option<Vec<T>>>,
    empty: Vec<u64>,
    ready: Vec<u64>,
}

struct Call<T> {
    number: usize,
    rank: usize,
    next: usize,
    updates: usize,
    reads: usize,
    contribution: T,
}

pub struct Run<'a, T> {
    pub schedules: &'a [Schedule],
    pub operator: Operator<T>,
    /// `undo(a ⊕ b, b)` is `a`.
    pub undo: fn(T, T) -> T,
    pub slots: usize,
    pub calls: usize,
    pub seed: u64,
    pub fault: Fault,
}

impl<T: bytemuck::Pod + Send + Sync> Run<'_, T> {
    /// The results by call and rank.
    pub fn go(&self, contribution: impl Fn(usize, usize) -> T) -> Result<Vec<Vec<T>>, Stopped> {
        let ranks = self.schedules.len();
        let mut random = Random(self.seed);
        let mut slots: Vec<Vec<Slot<T>>> =
            (0..self.slots).map(|_| self.schedules.iter().map(Slot::new).collect()).collect();
        let mut results = vec![vec![None; ranks]; self.calls];
        let mut waiting: Vec<Call<T>> = (0..self.calls * ranks)
            .map(|i| Call {
                number: i / ranks,
                rank: i % ranks,
                next: 0,
                updates: 0,
                reads: 0,
                contribution: contribution(i / ranks, i % ranks),
            })
            .collect();
        while !waiting.is_empty() {
            let start = random.below(waiting.len());
            let mut moved = false;
            for i in 0..waiting.len() {
                let at = (start + i) % waiting.len();
                let call = &mut waiting[at];
                let admitted = self.fault == Fault::EarlySlotReuse
                    || call.number < self.slots
                    || results[call.number - self.slots][call.rank].is_some();
                if admitted && self.step(call, &mut slots[call.number % self.slots])? {
                    moved = true;
                    if call.next == self.schedules[call.rank].steps().len() {
                        let result = usize::from(self.schedules[call.rank].result());
                        results[call.number][call.rank] = slots[call.number % self.slots][call.rank].memory[result][0];
                        waiting.swap_remove(at);
                    }
                    break;
                }
            }
            if !moved {
                return Err(Stopped::Stuck);
            }
        }
        let finished = |row: Vec<Option<T>>| row.into_iter().map(Option::unwrap).collect();
        Ok(results.into_iter().map(finished).collect())
    }

    /// Runs the next step of `call` if it need not wait.
    fn step(&self, call: &mut Call<T>, slots: &mut [Slot<T>]) -> Result<bool, Stopped> {
        let generation = (call.number / self.slots) as u64;
        if call.next == 0 {
            slots[call.rank].memory.iter_mut().flatten().for_each(|block| *block = None);
            slots[call.rank].memory[0][0] = Some(call.contribution);
        }
        let schedule = &self.schedules[call.rank];
        let Some(&step) = schedule.steps().get(call.next) else {
            return Ok(true);
        };
        let part = |number: u16| schedule.parts().get(usize::from(number)).ok_or(Stopped::NoSuchCell);
        match step {
            Step::Update { peer, at, part: stored } => {
                let mine = &mut slots[call.rank];
                if mine.empty[call.updates] < generation && self.fault != Fault::SkipEmptyWait {
                    return Ok(false);
                }
                mine.exchange[call.updates] = mine.values(part(stored)?);
                call.updates += 1;
                let theirs = slots.get_mut(peer as usize).ok_or(Stopped::NoSuchCell)?;
                *theirs.ready.get_mut(at as usize).ok_or(Stopped::NoSuchCell)? += 1;
            }
            Step::Read { peer, at, part: changed, combine } => {
                if slots[call.rank].ready[call.reads] <= generation && self.fault != Fault::SkipReadyWait {
                    return Ok(false);
                }
                call.reads += 1;
                let (theirs, at) = (slots.get_mut(peer as usize), at as usize);
                let theirs = theirs.ok_or(Stopped::NoSuchCell)?;
                let incoming = theirs.exchange.get(at).ok_or(Stopped::NoSuchCell)?;
                let incoming = incoming.clone().ok_or(Stopped::NothingThere)?;
                theirs.empty[at] += 1;
                self.combine(&mut slots[call.rank], part(changed)?, combine, &incoming)?;
            }
            Step::Local { from, part: changed, combine } => {
                let incoming = slots[call.rank].values(part(from)?).ok_or(Stopped::NothingThere)?;
                self.combine(&mut slots[call.rank], part(changed)?, combine, &incoming)?;
            }
        }
        call.next += 1;
        Ok(true)
    }
}

impl<T: bytemuck::Pod + Send + Sync> Run<'_, T> {
    fn combine(&self, mine: &mut Slot<T>, part: &Part, how: Combine, incoming: &[T]) -> Result<(), Stopped> {
        for (block, &incoming) in part.blocks.clone().zip(incoming) {
            let held = &mut mine.memory[usize::from(part.register)][block as usize];
            if how == Combine::Replace {
                *held = Some(incoming);
                continue;
            }
            let held = std::slice::from_mut(held.as_mut().ok_or(Stopped::NothingThere)?);
            match how {
                Combine::IncomingIsHigher => self.operator.fold_higher(held, &[incoming]),
                Combine::IncomingIsLower => self.operator.fold_lower(held, &[incoming]),
                _ => held[0] = (self.undo)(held[0], incoming),
            }
        }
        Ok(())
    }
}

impl<T: Copy> Slot<T> {
    fn values(&self, part: &Part) -> Option<Vec<T>> {
        self.memory[usize::from(part.register)][part.blocks.start as usize..part.blocks.end as usize]
            .iter()
            .copied()
            .collect()
    }

    fn new(schedule: &Schedule) -> Self {
        Slot {
            memory: vec![vec![None; schedule.blocks() as usize]; usize::from(schedule.registers())],
            exchange: vec![None; schedule.updates()],
            empty: vec![0; schedule.updates()],
            ready: vec![0; schedule.reads()],
        }
    }
}
