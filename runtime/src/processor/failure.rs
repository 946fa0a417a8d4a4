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
use crate::ids::TopLaunch;
use crate::object::GangTable;
use crate::plant::Bug;
use std::rc::Rc;
use std::sync::Arc;

impl Core {
    /// Handles the loss of a processor. The first one is the cause.
    #[cold]
    pub(super) fn lose(self: &Rc<Self>, error: &Error) {
        if self.effects().strikes(Bug::SilentDeath) {
            return;
        }
        if !self.effects().lose(error) {
            return;
        }
        self.effects().note_failure(error);
        for known in self.effects().objects.all() {
            known.object.give_up(known.id, self, error);
        }
        for task in self.tasks.data.give_up() {
            self.tasks.poison_leaf(task, error.clone());
        }
        self.gangs.give_up(&self.tasks, error);
    }

    /// Poisons every arrival that a failed shard still owes. It owes none to an object that was destroyed before the launch
    /// `by` of the top-level task, which it is part of: earlier launches may still use that one.
    pub fn abandon(&self, gang: &Arc<GangTable>, shard: u32, by: TopLaunch, error: &Error) {
        for known in self.effects().objects.of_gang(gang.id, by) {
            known.object.abandon(known.id, self, shard, error);
        }
        self.give_up_calls(gang, shard, by, error);
    }

    /// Poisons what a failed shard owes in calls that it has not made. The calls that it has made go on. Once they have
    /// ended, no other shard in its place can make more.
    pub fn give_up_calls(&self, gang: &Arc<GangTable>, shard: u32, by: TopLaunch, error: &Error) {
        for known in self.effects().objects.of_gang(gang.id, by) {
            known.object.give_up_calls(known.id, self, shard, error);
        }
    }
}
