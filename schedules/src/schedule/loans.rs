//! The loans of large values. A large part is lent to its reader where it is, and does not change while it is on loan.

use super::{Part, Schedule, Step};
use std::ops::Range;

impl Schedule {
    /// For each step the updates, by their numbers, whose values must have been read before it may run.
    ///
    /// A register can hold two vectors. A step that changes blocks that have been lent writes into the other vector
    /// of the register, so that must not be on loan any more. Blocks that are not lent change where they are.
    ///
    /// One more entry is for the end of the call, when the result's vector is handed over. Of a value in several blocks the
    /// vector may be either one, because a loan that has ended before a step does not keep the step from changing it in place.
    pub fn awaits(&self) -> Vec<Vec<u16>> {
        #[derive(Clone, Default)]
        struct Register {
            /// The updates that lent some of the present vector.
            lent: Vec<u16>,
            /// How often the vectors have changed places, and for each block that number plus one when it was last lent,
            /// up to the last block that was lent at all.
            changes: u32,
            when: Vec<u32>,
            /// The updates that lent some of the other vector, unless somebody has waited for them.
            before: Vec<u16>,
        }
        let mut registers = vec![Register::default(); usize::from(self.registers())];
        let blocks = |part: &Part| part.blocks.start as usize..part.blocks.end as usize;
        let (mut updates, mut awaits) = (0u32, Vec::with_capacity(self.steps.len()));
        for step in &self.steps {
            let mut awaited = Vec::new();
            match *step {
                Step::Update { part, .. } => {
                    let lent = &self.parts[usize::from(part)];
                    let register = &mut registers[usize::from(lent.register)];
                    // The last one may be number 65,535.
                    register.lent.push(updates as u16);
                    register.when.resize(register.when.len().max(blocks(lent).end), 0);
                    register.when[blocks(lent)].fill(register.changes + 1);
                    updates += 1;
                }
                Step::Read { part, .. } | Step::Local { part, .. } => {
                    let changed = &self.parts[usize::from(part)];
                    let register = &mut registers[usize::from(changed.register)];
                    let Range { start, end } = blocks(changed);
                    if register.when.iter().take(end).skip(start).any(|&when| when > register.changes) {
                        register.changes += 1;
                        awaited = std::mem::replace(&mut register.before, std::mem::take(&mut register.lent));
                    }
                }
            }
            awaits.push(awaited);
        }
        let Register { lent, mut before, .. } = registers.swap_remove(usize::from(self.result()));
        if self.blocks() == 1 {
            before.clear();
        }
        before.extend(lent);
        awaits.push(before);
        awaits
    }
}
