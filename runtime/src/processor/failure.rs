//! What happens after a failure. A processor that is lost ends the run for all: whoever waits here is told why, as what it
//! waits for may never come, and whatever is begun later fails with the same cause. So every task that goes on comes to its
//! end, and no value is made of what has not come. A shard that has failed poisons the barriers and the calls at which it is
//! still missing (`abandon`).

use super::Core;
use crate::Error;
use crate::ids::ObjectId;
use crate::object::{GangTable, Object};
use std::rc::Rc;
use std::sync::Arc;

impl Core {
    /// Takes in that a processor is lost. The first one is the cause.
    #[cold]
    pub(super) fn lose(self: &Rc<Self>, error: &Error) {
        #[cfg(feature = "plant")]
        if self.effects().config.strikes(crate::plant::Bug::SilentDeath) {
            return;
        }
        if !self.effects().lose(error) {
            return;
        }
        self.effects().note_failure(error);
        for object in 0..self.effects().objects.len() {
            self.give_up_object(object, error);
        }
        for task in self.tasks.data.give_up() {
            self.tasks.poison_leaf(task, error.clone());
        }
        self.gangs.give_up(&self.tasks, error);
    }

    /// Generations that are not complete will not be, and calls that are not over fail.
    #[cold]
    pub(super) fn give_up_object(&self, object: ObjectId, error: &Error) {
        let Some(known) = self.effects().objects.get(object) else { return };
        if let Object::Replay(replay) = &*known.object {
            for position in 0..replay.gang().members[self.effects().id as usize].len() as u32 {
                self.replays.fail(&self.tasks, object, position, error);
            }
        }
        self.tasks.give_up_barrier(&known, error);
    }

    /// Poisons everything a shard that failed still owes.
    pub fn abandon(&self, gang: &Arc<GangTable>, shard: u32, error: &Error) {
        let tasks = &self.tasks;
        for object in 0..self.effects().objects.len() {
            let Some(known) = self.effects().objects.get(object) else { continue };
            match &*known.object {
                Object::Edges(edges) if Arc::ptr_eq(&edges.gang, gang) => {
                    let ends = tasks.barriers.ends(object, shard, edges);
                    for end in &ends.out {
                        tasks.poison_cell(end.ready.address(), end.ready.generation(), error);
                    }
                    for end in &ends.into {
                        tasks.poison_cell(end.empty.address(), end.empty.generation(), error);
                    }
                }
                Object::Phase(spec) if Arc::ptr_eq(&spec.gang, gang) && spec.arrivers.contains(&shard) => {
                    let end = tasks.barriers.phase_end(object, shard, spec);
                    tasks.poison_phase(object, end.generation(), error);
                }
                Object::Replay(replay) if Arc::ptr_eq(replay.gang(), gang) => {
                    self.replays.fail(tasks, object, gang.at[shard as usize].1, error);
                }
                _ => {}
            }
        }
    }
}
