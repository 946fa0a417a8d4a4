//! Sends the messages of a launch: to each processor what it does for it.

use super::Gangs;
use super::gather::Gather;
use super::plan::{BatchPlan, LaunchPlan, PartPlan, Planner};
use super::results::{LaunchState, Settle, Uses};
use crate::Error;
use crate::diagnose::Event;
use crate::diagnose::deadlock::Node;
use crate::effects::Effects;
use crate::future::TaskFuture;
use crate::ids::{Ancestors, LaunchKey, ObjectId, ProcessorId};
use crate::message::{Batch, LaunchPart, Message, Reply, ShardStart};
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
    /// Sends the messages of a plan. `shards` gives the shards of a processor, and `settle` takes their results. The future
    /// is settled when all shards have ended.
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
        let own = || plan.parts.iter().filter(|part| planner.starts(part.at));
        let batches = || own().filter_map(|part| Some((part.at, part.batch.as_ref()?)));
        let homes = batches().filter(|(_, batch)| batch.hold).map(|(at, _)| at).collect();
        let (by, versions) = (planner.place(), planner.versions.clone());
        let copies = effects.copies();
        let uses = Uses { gang: table.id, task, inner, trees: plan.trees.clone() };
        let mut state = LaunchState::new(
            (launch, uses),
            (by, node),
            (plan.parts.iter().filter(|part| part.batch.is_some()).count(), table.shards()),
            homes,
            settle,
            versions,
            over,
        );
        if planner.replicated && copies.nodes() > 1 {
            state.gathers(Gather::new((copies.node_of(effects.id).0, copies.nodes()), batches().count()));
        }
        self.register(tasks, Rc::new(state));
        let part = |at: ProcessorId| planner.part(effects, (launch, within), at);
        let reply = if planner.replicated { Reply::EveryNode } else { Reply::Processor(effects.id) };
        // Each is sent before the next is put together, which takes time. This processor can't begin before the end of all.
        let others = own().filter(|part| part.at != effects.id);
        for PartPlan { at, moves, batch } in others.chain(own().filter(|part| part.at == effects.id)) {
            let moves = moves.iter().map(|&number| (number, plan.moves[number as usize].clone())).collect();
            let (batch, uses) = batch.as_ref().map_or((None, None), |BatchPlan { uses, hold }| {
                let batch = Batch { task, gang: table.id, shards: shards(*at), hold: *hold, reply };
                (Some(batch), Some(uses.clone()))
            });
            self.send_part(tasks, *at, LaunchPart { moves, batch, uses, ..part(*at) });
        }
        for (at, gone) in planner.kept.borrow_mut().take_due() {
            if planner.starts(at) {
                self.send_part(tasks, at, LaunchPart { gone, ..part(at) });
            }
        }
        Ok(done)
    }

    /// Sends a processor what it does for a launch. This one begins at once, in the order of the program, which may launch
    /// leaf tasks here next.
    pub fn send_part(&self, tasks: &Tasks, at: ProcessorId, part: LaunchPart) {
        match at == tasks.effects.id {
            true => self.take_part(tasks, part),
            false => tasks.effects.send(at, Message::Launch(Box::new(part))),
        }
    }
}

impl Planner {
    /// The part of a processor in a launch by a task within others, with nothing to do.
    pub fn part(&self, effects: &Effects, (launch, within): (LaunchKey, &Ancestors), at: ProcessorId) -> LaunchPart {
        LaunchPart {
            launch,
            by: self.name.clone(),
            within: within.clone(),
            after_within: self.is_home(effects, at),
            known: effects.objects.changes(),
            moves: Vec::new(),
            batch: None,
            uses: None,
            gone: Vec::new(),
        }
    }
}
