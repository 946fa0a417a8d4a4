//! Sends the messages of a launch: orders for data, and a batch for each processor.

use super::Gangs;
use super::gather::Gather;
use super::plan::{LaunchPlan, Planner};
use super::results::{LaunchState, Settle, Uses};
use crate::Error;
use crate::diagnose::Event;
use crate::diagnose::deadlock::Node;
use crate::future::TaskFuture;
use crate::ids::{Ancestors, LaunchKey, ObjectId, ProcessorId};
use crate::message::{Batch, Message, Release, Reply, SendColumns, ShardStart};
use crate::object::GangTable;
use crate::task::Tasks;
use std::rc::Rc;

/// A launch that has been planned.
pub(crate) struct Dispatch<'a> {
    pub planner: &'a Planner,
    pub plan: &'a LaunchPlan,
    pub launch: LaunchKey,
    /// The launch that the launcher belongs to, the launch of its launcher, and so on.
    pub within: &'a Ancestors,
    /// The launcher's node in reports, if it is a shard.
    pub node: Option<Node>,
    /// The task, and whether it is an inner task.
    pub task: (ObjectId, bool),
    pub table: &'a GangTable,
}

impl Gangs {
    /// Sends the messages of a plan. Orders for data go first, so that old values are read before the new shards write.
    /// `shards` gives the shards of a processor, and `settle` takes their results. The future is settled when all
    /// shards have ended.
    ///
    /// # Errors
    /// A processor is lost.
    pub fn dispatch(
        &self,
        tasks: &Tasks,
        dispatch: &Dispatch<'_>,
        mut shards: impl FnMut(ProcessorId) -> Vec<ShardStart>,
        settle: Settle,
    ) -> Result<TaskFuture<()>, Error> {
        let &Dispatch { planner, plan, launch, within, node, task: (task, inner), table } = dispatch;
        let effects = &tasks.effects;
        if let Some(e) = effects.lost_processor() {
            return Err(e.poisons(planner.place()));
        }
        effects.event(|| Event::Launched { launch });
        let (over, done) = TaskFuture::pending();
        let own = || plan.batches.iter().filter(|b| planner.starts(effects, b.at));
        let homes = own().filter(|b| b.hold).map(|b| b.at).collect();
        let (by, versions) = (planner.place(), planner.versions.clone());
        let copies = effects.copies();
        let uses = Uses { gang: table.id, task, inner, trees: plan.trees.clone() };
        let mut state = LaunchState::new(
            (launch, uses),
            (by, node),
            (plan.batches.len(), table.shards()),
            homes,
            settle,
            versions,
            over,
        );
        if planner.replicated && copies.nodes() > 1 {
            state.gathers(Gather::new((copies.node_of(effects.id).0, copies.nodes()), own().count()));
        }
        self.register(tasks, Rc::new(state));
        let known = effects.objects.changes();
        for ((source, to), transfers) in &plan.orders {
            if planner.starts(effects, *source) {
                let (to, transfers, after_within) = (*to, transfers.clone(), planner.is_home(effects, *source));
                let order = SendColumns { launch, known, within: within.clone(), after_within, to, transfers };
                effects.send(*source, Message::SendColumns(Box::new(order)));
            }
        }
        let reply = if planner.replicated { Reply::EveryNode } else { Reply::Processor(effects.id) };
        for planned in own() {
            let batch = Batch {
                launch,
                by: planner.name.clone(),
                within: within.clone(),
                after_within: planner.is_home(effects, planned.at),
                known,
                task,
                gang: table.id,
                shards: shards(planned.at),
                columns: planned.columns,
                hold: planned.hold,
                reply,
                touches: planned.touches.clone(),
            };
            effects.send(planned.at, Message::Batch(Box::new(batch)));
        }
        // After the orders, which may read from these instances.
        for (at, instances) in planner.kept.borrow_mut().take_due() {
            if planner.starts(effects, at) {
                let release = Release { launch, known, within: within.clone(), instances };
                effects.send(at, Message::GiveUp(Box::new(release)));
            }
        }
        Ok(done)
    }
}
