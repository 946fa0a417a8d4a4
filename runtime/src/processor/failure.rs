//! Failures. A panic or an error becomes *poison*, which travels where a value or an arrival would have: through
//! futures, cells and columns. A shard that fails poisons the barriers and calls at which it is still missing
//! (`abandon`).
//!
//! A lost processor ends the run for all (`lose`). All waits on the survivors fail with that cause: for barriers,
//! calls, launches and remote data. Later ones fail too. So nobody waits for ever, and no value is computed from
//! missing data. The run ends as soon as the top-level task has failed. Shards that have not reached their end by then
//! are dropped. Today only the seeded driver loses processors.
//!
//! Everything fails, even what did not depend on the lost processor. Which barriers, data and launches depended on it
//! is known only with the knowledge that was lost. And a run without one of its processors has no result.

use super::Core;
use crate::Error;
use crate::ids::{ObjectId, TopLaunch};
use crate::object::{GangTable, Object};
use std::rc::Rc;
use std::sync::Arc;

impl Core {
    /// Handles the loss of a processor. The first one is the cause.
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
        for known in self.effects().objects.all() {
            self.give_up_object(known.id, error);
        }
        for task in self.tasks.data.give_up() {
            self.tasks.poison_leaf(task, error.clone());
        }
        self.gangs.give_up(&self.tasks, error);
    }

    /// Poisons the incomplete generations of an object, and fails its unfinished calls.
    #[cold]
    pub(super) fn give_up_object(&self, object: ObjectId, error: &Error) {
        let Some(known) = self.effects().objects.get(object) else { return };
        if let Object::Replay(replay) = &*known.object {
            for position in 0..replay.gang().members[self.effects().id.index()].len() as u32 {
                self.replays.fail(&self.tasks, object, position, error);
            }
        }
        self.tasks.give_up_barrier(&known, error);
    }

    /// Poisons every arrival that a failed shard still owes. It owes none to an object that was destroyed before the launch
    /// `by` of the top-level task, which it is part of: earlier launches may still use that one.
    pub fn abandon(&self, gang: &Arc<GangTable>, shard: u32, by: TopLaunch, error: &Error) {
        let tasks = &self.tasks;
        for known in self.effects().objects.all().into_iter().filter(|known| known.serves(by)) {
            let object = known.id;
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
                _ => {}
            }
        }
        self.give_up_calls(gang, shard, by, error);
    }

    /// Poisons what a failed shard owes in calls that it has not made. The calls that it has made go on. Once they have
    /// ended, no other shard in its place can make more.
    pub fn give_up_calls(&self, gang: &Arc<GangTable>, shard: u32, by: TopLaunch, error: &Error) {
        for known in self.effects().objects.all().into_iter().filter(|known| known.serves(by)) {
            if let Object::Replay(replay) = &*known.object
                && Arc::ptr_eq(replay.gang(), gang)
            {
                self.replays.give_up(&self.tasks, known.id, gang.at[shard as usize].1, error);
            }
        }
    }
}
