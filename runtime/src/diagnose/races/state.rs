//! The check's state: the clocks of shards, tasks, barriers and calls, and how each event changes them.

use crate::diagnose::races::accesses::{Accessed, ColumnUses, FieldUses, User};
use crate::diagnose::races::clock::{Lanes, Past, VectorClock};
use crate::diagnose::races::generations::Generations;
use crate::ids::{Ancestors, LaunchKey, ObjectId, ProcessorId, TaskId, launcher};
use crate::names::TaskName;
use maniple_regions::{FieldId, Rect, TreeId, Use};
use std::collections::{BTreeMap, HashMap};

/// An actor runs code of the program. It is a shard of a launch or, with [`NOBODY`] as the launch, the top-level task of
/// a processor's node.
///
/// [`NOBODY`]: crate::ids::NOBODY
pub(crate) type Actor = (LaunchKey, u32);
/// A barrier: object, processor and cell. A phase barrier has only the object.
pub(crate) type BarrierKey = (ObjectId, ProcessorId, u32);
type TaskKey = (ProcessorId, u32, u32);

#[derive(Debug, Default)]
struct Acting {
    /// Everything that it has awaited.
    clock: VectorClock,
    /// Everything before its leaf tasks that have ended.
    leaves: VectorClock,
    columns: HashMap<(TreeId, FieldId), ColumnUses>,
    /// Its launch, the launch that the launcher is part of, and so on.
    within: Ancestors,
    /// The lane of its last use.
    lane: u32,
}

/// A leaf task that has not ended.
#[derive(Debug)]
struct LeafPast {
    actor: Actor,
    past: VectorClock,
    sources: Vec<Past>,
    /// The launcher whose ended launches it follows.
    after: Option<u32>,
    barriers: Vec<(BarrierKey, u64, usize)>,
    event: Past,
}

/// A call of a collective.
#[derive(Debug, Default)]
struct CallPast {
    parts: BTreeMap<u32, PartPast>,
    /// Some shards, and everything before their inputs: many results depend on the same ones.
    joined: (Vec<u32>, VectorClock),
    /// How many shards' parts have ended.
    over: usize,
}

/// A shard's part of a call.
#[derive(Debug, Default)]
struct PartPast {
    /// Everything before the call by the shard, and before the end of its part of the previous call in the slot.
    begin: VectorClock,
    /// The futures that it contributes, with the number of each one's block. That of a whole contribution is block 0.
    inputs: Vec<(u32, Past)>,
    /// The shard's launch, once it has called.
    launch: Option<LaunchKey>,
    over: bool,
}

impl PartPast {
    /// Adds everything before the input.
    fn add_to(&self, past: &mut VectorClock) {
        self.add_blocks(past, |_| true);
    }

    /// Adds everything before some blocks of the input.
    fn add_blocks(&self, past: &mut VectorClock, which: impl Fn(u32) -> bool) {
        past.join(&self.begin);
        let inputs = self.inputs.iter().filter(|(block, _)| which(*block));
        inputs.filter_map(|(_, input)| input.past()).for_each(|input| past.join(input));
    }
}

#[derive(Debug, Default)]
struct LaunchPast {
    start: VectorClock,
    ends: HashMap<u32, VectorClock>,
    /// How many nodes have all results.
    over: u32,
}

#[derive(Debug, Default)]
pub(super) struct State {
    lanes: Lanes,
    actors: HashMap<Actor, Acting>,
    tasks: HashMap<TaskKey, LeafPast>,
    barriers: HashMap<BarrierKey, Generations>,
    /// The calls that have not ended on all shards, and of each slot the next one.
    calls: HashMap<(ObjectId, u64), CallPast>,
    launches: HashMap<LaunchKey, LaunchPast>,
    /// Everything before the ends of launches that have ended, by the launcher's number.
    launched: HashMap<u32, VectorClock>,
    fields: HashMap<(TreeId, FieldId), FieldUses>,
    /// Everything that failed shards had awaited. An observer of a poisoned barrier is taken to come after it.
    failed: VectorClock,
    /// A race was found. Later ones may follow from it, so they are not reported.
    found: bool,
}

fn key(processor: ProcessorId, id: TaskId) -> TaskKey {
    (processor, id.index, id.turn)
}

impl State {
    /// An actor sees something that comes before everything it does from now on.
    pub fn sees(&mut self, actor: Actor, past: &VectorClock) {
        self.actors.entry(actor).or_default().clock.join(past);
    }

    pub fn clock_of(&self, actor: Actor) -> VectorClock {
        self.actors.get(&actor).map(|a| a.clock.clone()).unwrap_or_default()
    }

    /// An actor has waited for all its leaf tasks.
    pub fn leaves_over(&mut self, actor: Actor) {
        let acting = self.actors.entry(actor).or_default();
        acting.clock.join(&acting.leaves);
    }

    // Leaf tasks.

    /// A leaf task is launched; `uses` are its exclusive uses. It may come after launches by the launcher `after`. Returns the
    /// event of its beginning.
    pub fn launch_leaf(
        &mut self,
        (processor, id): (ProcessorId, TaskId),
        actor: Actor,
        (inputs, after): (Vec<Past>, Option<u32>),
        uses: impl Iterator<Item = Use>,
    ) -> Past {
        let acting = self.actors.entry(actor).or_default();
        let event = Past::default();
        let (mut past, mut sources) = (acting.clock.clone(), inputs);
        for Use { region, field, privilege, .. } in uses {
            let column = acting.columns.entry((region.tree, field)).or_default();
            column.add(region.rect, privilege, &event, &mut past, &mut sources);
        }
        let task = LeafPast { actor, past, sources, after, barriers: Vec::new(), event: event.clone() };
        self.tasks.insert(key(processor, id), task);
        event
    }

    /// No task is launched on a tree of an actor any more.
    pub fn tree_dropped(&mut self, of: Actor, tree: TreeId, fields: &[FieldId]) {
        if let Some(acting) = self.actors.get_mut(&of) {
            fields.iter().for_each(|field| drop(acting.columns.remove(&(tree, *field))));
        }
    }

    /// A launched leaf task waits for a generation of a barrier; `waiters` shards wait for it.
    pub fn leaf_waits(
        &mut self,
        (processor, id): (ProcessorId, TaskId),
        barrier: BarrierKey,
        generation: u64,
        waiters: usize,
    ) {
        if let Some(task) = self.tasks.get_mut(&key(processor, id)) {
            task.barriers.push((barrier, generation, waiters));
            self.barriers.entry(barrier).or_default().ask(generation);
        }
    }

    /// A leaf task begins, with these uses under simultaneous coherence. Returns the run's first race, if this is one:
    /// an earlier use, and the new one.
    pub fn leaf_begins(
        &mut self,
        (processor, id): (ProcessorId, TaskId),
        name: TaskName,
        uses: &[Use],
    ) -> Option<(Accessed, Accessed)> {
        let task = self.tasks.get_mut(&key(processor, id))?;
        let mut past = std::mem::take(&mut task.past);
        task.sources.drain(..).filter_map(|s| s.past().cloned()).for_each(|source| past.join(&source));
        task.after.and_then(|number| self.launched.get(&number)).into_iter().for_each(|ended| past.join(ended));
        let (launch, shard) = task.actor;
        for (barrier, generation, waiters) in task.barriers.drain(..) {
            let generations = self.barriers.entry(barrier).or_default();
            past.join(generations.past(generation));
            generations.answer(generation);
            generations.pass(shard, generation, waiters);
        }
        let mut race = None;
        if !uses.is_empty() {
            let acting = self.actors.entry(task.actor).or_default();
            let stamp = self.lanes.extend(&mut past, acting.lane);
            acting.lane = stamp.lane;
            let user = User { name, shard, launch, within: acting.within.clone() };
            for at in uses {
                let access = Accessed { user: user.clone(), at: *at, stamp };
                let field = self.fields.entry((at.region.tree, at.field)).or_default();
                if let Some(other) = field.add(access.clone(), &past, &mut self.lanes)
                    && !self.found
                {
                    self.found = true;
                    race = Some((other, access));
                }
            }
        }
        task.event.happens(&past);
        race
    }

    /// A leaf task has ended, and arrives at these barriers.
    pub fn leaf_ends(
        &mut self,
        (processor, id): (ProcessorId, TaskId),
        arrivals: impl Iterator<Item = (BarrierKey, u64)>,
    ) {
        self.leaf_arrives((processor, id), arrivals);
        let Some(task) = self.tasks.remove(&key(processor, id)) else { return };
        let Some(past) = task.event.past() else { return };
        self.actors.entry(task.actor).or_default().leaves.join(past);
    }

    /// A leaf task has run, and arrives at these barriers.
    pub fn leaf_arrives(
        &mut self,
        (processor, id): (ProcessorId, TaskId),
        arrivals: impl Iterator<Item = (BarrierKey, u64)>,
    ) {
        let Some(past) = self.tasks.get(&key(processor, id)).and_then(|task| task.event.past()) else { return };
        for (barrier, generation) in arrivals {
            self.barriers.entry(barrier).or_default().arrive(generation, past);
        }
    }

    /// A leaf task has failed, before or after it began, and poisons these barriers. An observer of the failure comes
    /// after the task and after the known events that the task comes after.
    pub fn leaf_fails(&mut self, (processor, id): (ProcessorId, TaskId), arrivals: impl Iterator<Item = BarrierKey>) {
        let Some(task) = self.tasks.remove(&key(processor, id)) else { return };
        let mut past = task.past;
        if let Some(begun) = task.event.past() {
            past = begun.clone();
        }
        task.sources.iter().filter_map(Past::past).for_each(|source| past.join(source));
        for (barrier, generation, _) in task.barriers {
            let generations = self.barriers.entry(barrier).or_default();
            past.join(generations.poisoned());
            generations.answer(generation);
        }
        past.join(&self.failed);
        arrivals.for_each(|barrier| self.barriers.entry(barrier).or_default().poison(&past));
        self.actors.entry(task.actor).or_default().leaves.join(&past);
        task.event.happens(&past);
    }

    /// A leaf task will not run, and nobody learns more from it.
    pub fn leaf_dropped(&mut self, (processor, id): (ProcessorId, TaskId)) {
        let Some(task) = self.tasks.remove(&key(processor, id)) else { return };
        for (barrier, generation, _) in task.barriers {
            self.barriers.entry(barrier).or_default().answer(generation);
        }
    }

    // Barriers.

    pub fn arrive(&mut self, actor: Actor, barrier: BarrierKey, generation: u64) {
        let clock = self.clock_of(actor);
        self.barriers.entry(barrier).or_default().arrive(generation, &clock);
    }

    /// A shard begins to wait for a generation.
    pub fn waits(&mut self, barrier: BarrierKey, generation: u64) {
        self.barriers.entry(barrier).or_default().ask(generation);
    }

    /// A shard gives up its wait.
    pub fn gives_up(&mut self, barrier: BarrierKey, generation: u64) {
        self.barriers.entry(barrier).or_default().answer(generation);
    }

    /// A shard has waited for the generation.
    pub fn waited(&mut self, actor: Actor, barrier: BarrierKey, generation: u64, waiters: usize) {
        let generations = self.barriers.entry(barrier).or_default();
        let past = generations.past(generation).clone();
        generations.answer(generation);
        generations.pass(actor.1, generation, waiters);
        self.sees(actor, &past);
    }

    /// A shard has learnt that the generation will never end.
    pub fn waited_in_vain(&mut self, actor: Actor, barrier: BarrierKey, generation: u64) {
        let generations = self.barriers.entry(barrier).or_default();
        let mut past = generations.poisoned().clone();
        generations.answer(generation);
        past.join(&self.failed);
        self.sees(actor, &past);
    }

    /// A shard has failed, and poisons the barriers at which it owes arrivals.
    pub fn abandons(&mut self, actor: Actor) {
        let clock = self.clock_of(actor);
        self.failed.join(&clock);
    }

    // Collectives.

    pub fn calls(&mut self, actor: Actor, object: ObjectId, call: u64) {
        let clock = self.clock_of(actor);
        let part = self.part((object, call), actor.1);
        part.begin.join(&clock);
        part.launch = Some(actor.0);
    }

    pub fn call_takes(&mut self, call: (ObjectId, u64), shard: u32, (block, input): (u32, Past)) {
        let inputs = &mut self.part(call, shard).inputs;
        match inputs.iter_mut().find(|(of, _)| *of == block) {
            Some((_, known)) => *known = input,
            None => inputs.push((block, input)),
        }
    }

    /// A part of the result has come to `shard`: block `block` of what shard `from` contributes. Returns everything before that.
    pub fn part_came(&mut self, call: (ObjectId, u64), shard: u32, (from, block): (u32, u32)) -> VectorClock {
        let mut past = self.part(call, shard).begin.clone();
        let contributor = self.part(call, from);
        // A whole contribution is block 0.
        let is_whole = contributor.inputs.len() == 1;
        contributor.add_blocks(&mut past, |of| is_whole || of == block);
        past
    }

    fn part(&mut self, call: (ObjectId, u64), shard: u32) -> &mut PartPast {
        self.calls.entry(call).or_default().parts.entry(shard).or_default()
    }

    /// The part of `shard`, one of `parties` shards, in a call has ended: it has the result, the error that was handed on
    /// instead, or nothing to get. `depends_on` says whose inputs come before that, beside its own. Returns everything
    /// before the end. The shard's next part in the slot comes after it, and so does the end of the shard, awaited or not.
    pub fn call_over(
        &mut self,
        (object, call): (ObjectId, u64),
        shard: u32,
        (parties, slots): (usize, u32),
        depends_on: impl Fn(u32) -> bool,
    ) -> VectorClock {
        let entry = self.calls.entry((object, call)).or_default();
        let needed: Vec<u32> = entry.parts.keys().copied().filter(|&other| depends_on(other)).collect();
        if entry.joined.0 != needed {
            let mut inputs = VectorClock::default();
            needed.iter().for_each(|other| entry.parts[other].add_to(&mut inputs));
            entry.joined = (needed, inputs);
        }
        let mut past = entry.joined.1.clone();
        let own = entry.parts.entry(shard).or_default();
        own.add_to(&mut past);
        own.over = true;
        let launch = own.launch;
        entry.over += 1;
        if entry.over == parties {
            self.calls.remove(&(object, call));
        }
        self.part((object, call + u64::from(slots)), shard).begin.join(&past);
        if let Some(acting) = launch.and_then(|launch| self.actors.get_mut(&(launch, shard))) {
            acting.leaves.join(&past);
        }
        past
    }

    /// Forgets the parts of a shard in calls of a slot that have not ended: they never will be.
    pub fn call_lost(&mut self, object: ObjectId, shard: u32, (slot, slots): (u32, u32)) {
        self.calls.retain(|&(of, call), entry| {
            if of == object && call % u64::from(slots) == u64::from(slot) {
                entry.parts.retain(|&other, part| other != shard || part.over);
            }
            !entry.parts.is_empty()
        });
    }

    // Launches.

    /// An actor launches shards, or its copy on another node does.
    pub fn launches(&mut self, actor: Actor, launch: LaunchKey) {
        let clock = self.clock_of(actor);
        self.launches.entry(launch).or_default().start.join(&clock);
    }

    pub fn shard_starts(&mut self, actor: Actor, within: Ancestors) {
        let clock = self.launches.get(&actor.0).map(|l| l.start.clone()).unwrap_or_default();
        self.actors.insert(actor, Acting { clock, within, ..Acting::default() });
    }

    /// A shard and its leaf tasks have ended.
    pub fn shard_ends(&mut self, actor: Actor) {
        let Some(Acting { mut clock, leaves, .. }) = self.actors.remove(&actor) else { return };
        clock.join(&leaves);
        self.launched.entry(launcher(actor.0)).or_default().join(&clock);
        if let Some(launch) = self.launches.get_mut(&actor.0) {
            launch.ends.insert(actor.1, clock);
        }
    }

    /// Everything before the result of a shard.
    pub fn end_of(&self, actor: Actor) -> VectorClock {
        self.launches.get(&actor.0).and_then(|l| l.ends.get(&actor.1)).cloned().unwrap_or_default()
    }

    /// One of `nodes` nodes has all results of a launch. Returns everything before them.
    pub fn launch_over(&mut self, launch: LaunchKey, nodes: u32) -> VectorClock {
        let mut clock = VectorClock::default();
        if let Some(l) = self.launches.get_mut(&launch) {
            l.ends.values().for_each(|end| clock.join(end));
            l.over += 1;
            if l.over >= nodes {
                self.launches.remove(&launch);
            }
        }
        clock
    }

    pub fn launcher_over(&mut self, number: u32) {
        self.launched.remove(&number);
    }

    /// An object was destroyed, and its last users have ended.
    pub fn forget(&mut self, object: ObjectId) {
        self.barriers.retain(|barrier, _| barrier.0 != object);
        self.calls.retain(|call, _| call.0 != object);
        let lanes = &mut self.lanes;
        self.fields.retain(|(tree, _), uses| {
            let stays = tree.0 != object;
            if !stays {
                uses.forget(lanes);
            }
            stays
        });
    }

    /// See [`Races::size`](super::Races::size).
    pub fn size(&self) -> [usize; 6] {
        let generations = self.barriers.values().map(Generations::len).sum();
        let accesses = self.fields.values().map(FieldUses::len).sum();
        let (shards, launches) = (self.actors.len() + self.tasks.len(), self.launches.len());
        [self.lanes.len(), shards, generations, self.calls.len(), launches, accesses]
    }
}

/// The points that both uses have in common.
pub(super) fn common(a: &Use, b: &Use) -> Rect {
    a.region.rect.intersect(&b.region.rect)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 3;

    /// Calls of two shards of a gang, of which the second one receives: what is kept does not depend on their number.
    #[test]
    fn calls_of_some_shards_are_forgotten() {
        let mut state = State::default();
        for call in 0..1000 {
            for shard in [5, 2] {
                state.calls((7, shard), 1, call);
                let _ = state.call_over((1, call), shard, (2, SLOTS), |other| shard == 2 && other == 5);
            }
            assert!(state.size()[3] <= SLOTS as usize, "call {call}: {:?}", state.calls);
        }
        // One ends no more call, and its later ones fail at once. The other is in the middle of those that it waits for.
        for call in 1000..2000 {
            state.calls((7, 5), 1, call);
            state.call_lost(1, 5, ((call % u64::from(SLOTS)) as u32, SLOTS));
            assert!(state.size()[3] <= 2 * SLOTS as usize, "call {call}: {:?}", state.calls);
        }
    }
}
