//! The loans of large values. A large part is lent to its reader where it is, and does not change while it is on loan.

use super::{Schedule, Step};

impl Schedule {
    /// For each step the updates, by their numbers, whose values must have been read before it may run.
    ///
    /// A register has room for two vectors. A step that changes blocks that have been lent writes into the other vector
    /// of the register, so that must not be on loan any more. Blocks that are not lent change where they are.
    ///
    /// One more entry is for the end of the call, when the result's vector is handed over. Of a value in several blocks the
    /// vector may be either one, because a loan that is over before a step does not keep the step from changing it in place.
    pub(crate) fn awaits(&self) -> Vec<Vec<u16>> {
        #[derive(Clone, Default)]
        struct Register {
            /// The updates that lent some of the present vector, with their parts.
            lent: Vec<(u16, u16)>,
            /// The updates that lent some of the other one, unless somebody has waited for them.
            before: Vec<u16>,
        }
        let mut registers = vec![Register::default(); usize::from(self.registers())];
        let (mut updates, mut awaits) = (0, Vec::with_capacity(self.steps.len()));
        for step in &self.steps {
            let mut awaited = Vec::new();
            match *step {
                Step::Update { part, .. } => {
                    let lent = &self.parts[usize::from(part)];
                    registers[usize::from(lent.register)].lent.push((updates, part));
                    updates += 1;
                }
                Step::Read { part, .. } | Step::Local { part, .. } => {
                    let changed = &self.parts[usize::from(part)];
                    let register = &mut registers[usize::from(changed.register)];
                    let overlaps = |&(_, lent): &(u16, u16)| {
                        let lent = &self.parts[usize::from(lent)].blocks;
                        lent.start < changed.blocks.end && changed.blocks.start < lent.end
                    };
                    if register.lent.iter().any(overlaps) {
                        let lent = std::mem::take(&mut register.lent).into_iter().map(|(update, _)| update).collect();
                        awaited = std::mem::replace(&mut register.before, lent);
                    }
                }
            }
            awaits.push(awaited);
        }
        let Register { lent, mut before } = registers.swap_remove(usize::from(self.result()));
        if self.blocks() == 1 {
            before.clear();
        }
        before.extend(lent.into_iter().map(|(update, _)| update));
        awaits.push(before);
        awaits
    }
}
