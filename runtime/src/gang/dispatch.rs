//! Sends the messages of a launch: to each processor what it does for it.

use super::Gangs;
use super::gather::Gather;
use super::plan::{BatchPlan, LaunchPlan, MovePlan, Planner};
use super::results::{LaunchState, Settle, Uses};
use crate::Error;
use crate::diagnose::Event;
use crate::diagnose::deadlock::Node;
use crate::future::TaskFuture;
use crate::ids::{Ancestors, LaunchKey, ObjectId, ProcessorId};
use crate::message::{Batch, LaunchPart, Message, Move, Reply, ShardStart};
use crate::object::GangTable;
use crate::task::Tasks;
use std::collections::BTreeMap;
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
    /// Sends the messages of a plan. `shards` gives the shards of a processor, and `settle` takes their results. The future is settled when all
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
        let mut parts: BTreeMap<ProcessorId, LaunchPart> = BTreeMap::new();
        let part = |at: ProcessorId| LaunchPart {
            launch,
            by: planner.name.clone(),
            within: within.clone(),
            after_within: planner.is_home(effects, at),
            known,
            moves: Vec::new(),
            batch: None,
            gone: Vec::new(),
        };
        for (number, &MovePlan { from, to, ref transfers, ref uses }) in (0u32..).zip(&plan.moves) {
            let ends = [Some(from), (from != to).then_some(to)].into_iter().flatten();
            for at in ends.filter(|at| planner.starts(effects, *at)) {
                let (transfers, uses) = (transfers.clone(), uses[usize::from(at != from)].clone());
                parts.entry(at).or_insert_with(|| part(at)).moves.push(Move { number, from, to, transfers, uses });
            }
        }
        let reply = if planner.replicated { Reply::EveryNode } else { Reply::Processor(effects.id) };
        for BatchPlan { at, uses, hold } in own() {
            let (shards, uses) = (shards(*at), uses.clone());
            let batch = Batch { task, gang: table.id, shards, hold: *hold, reply, uses };
            parts.entry(*at).or_insert_with(|| part(*at)).batch = Some(batch);
        }
        for (at, gone) in planner.kept.borrow_mut().take_due() {
            if planner.starts(effects, at) {
                parts.entry(at).or_insert_with(|| part(at)).gone = gone;
            }
        }
        for (at, part) in parts {
            effects.send(at, Message::Launch(Box::new(part)));
        }
        Ok(done)
    }
}
