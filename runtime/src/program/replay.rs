//! Replayed objects on a processor.

use crate::Error;
use crate::diagnose::deadlock::{CallsReport, ReportPart};
use crate::ids::{EMPTY, ObjectId, ProcessorId};
use crate::object::{Defined, GangTable, half};
use crate::payload::Length;
use crate::processor::Core;
use crate::replay::ReplayObject;
use std::sync::Arc;

impl Defined for ReplayObject {
    fn name(&self) -> &str {
        self.spec.name()
    }
    fn parameters(&self) -> String {
        format!("of gang `{}`: {}", self.gang.name, self.spec.parameters())
    }
    fn gang(&self) -> Option<&Arc<GangTable>> {
        Some(&self.gang)
    }
    fn length(&self) -> Length {
        self.spec.length()
    }
    fn cell_name(&self, processor: ProcessorId, cell: u32) -> String {
        let (half, cell) = (half(cell), cell & !EMPTY);
        let per_set = self.cells.per_set.max(1);
        let sets = if self.spec.gives_back() { 1 } else { 2 };
        let (slot, cell) = (cell / per_set / sets, cell % per_set);
        let shard = self.cells.shard_at(&self.gang.members[processor.index()], cell);
        let number = cell - self.cells.first.get(shard as usize).copied().unwrap_or(0);
        format!("`{}` {half} {number} of slot {slot} of shard {shard}", self.name())
    }
    fn define(&self, id: ObjectId, core: &Core) {
        core.replays.add(&core.tasks, id, self);
    }
    fn give_up(&self, id: ObjectId, core: &Core, error: &Error) {
        for position in 0..self.gang.members[core.effects().id.index()].len() as u32 {
            core.replays.fail(&core.tasks, id, position, error);
        }
    }
    fn give_up_calls(&self, id: ObjectId, core: &Core, shard: u32, error: &Error) {
        core.replays.give_up(&core.tasks, id, self.gang.at[shard as usize].1, error);
    }
    fn report(&self, id: ObjectId, core: &Core, part: &mut ReportPart) {
        core.replays.with(id, |chains| {
            let before = part.waits.len();
            chains.report(&|waiting| core.node_of(waiting), part);
            let (name, gang) = (self.name().into(), self.gang.id);
            let (waits, slots) = (part.waits.len() > before, chains.slots().into());
            part.replays.push((id, CallsReport { name, gang, waits, slots, made: chains.calls() }));
        });
    }
}
