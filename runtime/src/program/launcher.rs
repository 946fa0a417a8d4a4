//! The launchers of gangs: the replicated top-level task, and inner tasks.

use crate::Error;
use crate::data::RectTree;
use crate::diagnose::Event;
use crate::diagnose::deadlock::Node;
use crate::diagnose::digest::digest;
use crate::diagnose::races::Past;
use crate::error::{Failure, FailureNumber};
use crate::failures::Failures;
use crate::future::{FutureMap, Poison, TaskFuture};
use crate::gang::{Dispatch, LaunchPlan, LaunchState, PlanInput, Planner, Settle, Uses};
use crate::ids::{Ancestors, ColumnKey, LaunchKey, ObjectId, ProcessorId, TaskId};
use crate::maps::{self, HashMap, HashSet};
use crate::message::{Given, HeldRegion, ShardStart};
use crate::object::GangTable;
use crate::parcel::{Parcel, Portable};
use crate::processor::Core;
use crate::program::flow::Named;
use crate::program::gang::{Argument, Gang, ShardLaunch, ShardTask};
use maniple_regions::{Coherence, FieldId, TreeId};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;

/// A hash of a shard's argument, for the comparison of top-level tasks. An argument that is made later has none.
fn argument_hash<A: Portable>(argument: Option<&Argument<A>>) -> u64 {
    match argument {
        Some(Argument::Made(made)) => digest(made),
        Some(Argument::Later(_)) | None => 0,
    }
}

/// A launch of inner tasks whose results the program has not awaited. Until it has, nobody knows where their gangs have left data.
struct Unawaited {
    task: String,
    /// The result of each shard.
    results: Vec<Past>,
    /// What the shards write.
    written: HashMap<(TreeId, FieldId), RectTree<(usize, Coherence)>>,
}

/// A launcher of gangs: the replicated top-level task, or an inner task.
pub(crate) struct Launcher {
    pub core: Rc<Core>,
    /// Number of this inner task; 0 for the top-level task.
    pub number: u32,
    /// The launch that this inner task itself came from.
    pub within: Ancestors,
    pub launches: Cell<u32>,
    /// The nodes that have a copy of the top-level task.
    pub nodes: u32,
    /// Whether it has launched leaf tasks on any node.
    pub has_flow: Cell<bool>,
    /// For an inner task: the regions that it shares whose data it has taken back to the home, and when it is there.
    pub taken_home: RefCell<HashMap<ColumnKey, TaskFuture<()>>>,
    /// Leaf tasks of the inner task that are planned and come after launches, if races are checked.
    pub followers: RefCell<HashSet<TaskId>>,
    /// The future of the last task of a flow that runs on another node. The next one takes its memory if nobody holds it any more.
    pub relay: Cell<Option<Rc<dyn Any>>>,
    unawaited: RefCell<Vec<Unawaited>>,
    /// Memory for the next leaf task's arguments.
    pub names: Cell<Option<Box<Named>>>,
    pub planner: Planner,
    /// Its node in reports, if it is a shard.
    pub node: Option<Node>,
    /// Shards that failed. An inner task has one list for its gangs and its leaf tasks.
    pub failures: Failures,
    /// Launches under way, and perhaps some that have ended.
    pub pending: RefCell<Vec<TaskFuture<()>>>,
}

impl Launcher {
    pub fn new(core: &Rc<Core>, name: &str, number: u32, replicated: bool) -> Self {
        Self {
            core: core.clone(),
            number,
            within: Ancestors::default(),
            launches: Cell::new(0),
            nodes: core.effects().copies().nodes(),
            has_flow: Cell::new(false),
            taken_home: RefCell::default(),
            followers: RefCell::default(),
            relay: Cell::default(),
            unawaited: RefCell::default(),
            names: Cell::default(),
            planner: Planner::new(core.effects(), name, replicated),
            node: None,
            failures: Failures::default(),
            pending: RefCell::default(),
        }
    }

    /// Starts every shard of a gang.
    pub fn launch<A: Portable, R: Portable>(
        &self,
        gang: &Gang,
        task: &ShardTask<A, R>,
        start: impl Fn(u32) -> ShardLaunch<A>,
    ) -> Result<FutureMap<R>, Error> {
        let table = gang.table(&self.core, self.planner.part_of, "a gang launch")?;
        let inner = task.is_inner(&self.core, self.planner.part_of)?;
        let count = gang.shards as usize;
        let (mut args, mut held) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut resolvers, mut futures) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for shard in 0..gang.shards {
            let start = start(shard);
            args.push(Some(start.argument));
            held.push(start.held);
            let (resolver, future) = TaskFuture::<R>::pending();
            resolvers.push(Some(resolver));
            futures.push(future);
        }
        // Before they are made into parcels, which have no types.
        let compares = self.planner.replicated && self.core.compares_copies();
        let arguments =
            if compares { args.iter().map(Option::as_ref).map(argument_hash).collect() } else { Vec::new() };
        let (failures, by, launch) = (self.failures.clone(), self.planner.place(), self.next_launch());
        let replicated = self.planner.replicated;
        let settle: Settle = Box::new(move |tasks, shard, result, past| {
            if let Some(resolver) = resolvers.get_mut(shard as usize).and_then(Option::take) {
                if let Some(past) = past {
                    resolver.happens(past);
                }
                let number = || match replicated {
                    true => FailureNumber::of_result(launch, shard),
                    false => tasks.effects.next_failure(),
                };
                let opened = |parcel: Parcel| parcel.open().map_err(|e| Failure::new(e, || by.clone(), number));
                let outcome = result.and_then(opened).map_err(|failure| {
                    tasks.note_failures(&failures);
                    Poison::new(failure, &failures)
                });
                resolver.settle(outcome, tasks.teller());
            }
        });
        let mut args = |shard: u32| Some(Parcel::new(args.get_mut(shard as usize)?.take()?.make()));
        let plan = self.launch_any(&table, (task.id, inner), (&mut args, held), &arguments, settle)?;
        if inner {
            self.note_unawaited(task.id, &plan, futures.iter().map(TaskFuture::event).collect());
        }
        Ok(FutureMap::new(futures))
    }

    /// The same for arguments and results of any types, so that it is compiled once and not for each launch of a
    /// program.
    fn launch_any(
        &self,
        table: &GangTable,
        (task, inner): (ObjectId, bool),
        (args, held): (&mut dyn FnMut(u32) -> Option<Parcel>, Vec<Vec<HeldRegion>>),
        hashes: &[u64],
        settle: Settle,
    ) -> Result<Rc<LaunchPlan>, Error> {
        let uses = held.iter().flatten().flat_map(|h| h.columns().map(|column| (column, h.coherence)));
        self.check_awaited(|| self.core.effects().objects.name(task), uses)?;
        let plan = self.planner.plan_or_recall(self.core.effects(), PlanInput { table, held })?;
        if inner {
            self.planner.leaves_in_doubt(&plan, table);
        }
        if self.planner.replicated {
            let name = || format!("launch of {} on gang `{}`", self.core.effects().objects.name(task), table.name);
            let parts = || (task, table.id, plan.hashes().1);
            let given = || Given::new(plan.hashes().0.iter().zip(hashes).map(|both| maps::Hash.hash_one(both)));
            self.core.replicated_launch(|| self.described(task, table, &plan), name, parts, given);
        }
        let effects = self.core.effects();
        let parts = || plan.parts.iter().filter(|p| p.batch.is_some() && self.planner.starts(p.at));
        let started = || parts().flat_map(|b| &table.members[b.at.index()]).copied();
        // Before anything is sent: in virtual time this takes time.
        for shard in started() {
            effects.counters.launches.add(1);
            effects.counters.requirements.add(plan.held[shard as usize].len() as u64);
        }
        effects.wire.launches(table.id, self.planner.part_of, &mut started());
        let shards = |at: ProcessorId| {
            let members = table.members[at.index()].iter();
            let starts = members.filter_map(|&shard| {
                let held = plan.held[shard as usize].clone();
                Some(ShardStart { shard, args: args(shard)?, held })
            });
            starts.collect()
        };
        let (planner, within, node) = (&self.planner, &self.within, self.node);
        let launch = self.number_launch();
        let dispatch = Dispatch { planner, plan: &plan, launch, within, node, task: (task, inner), table };
        self.add_pending(self.core.gangs.dispatch(&self.core.tasks, &dispatch, shards, settle)?);
        Ok(plan)
    }

    /// Inner tasks have been launched, each with its result.
    fn note_unawaited(&self, task: ObjectId, plan: &LaunchPlan, results: Vec<Past>) {
        let task = self.core.effects().objects.name(task);
        let mut unawaited = Unawaited { task, results, written: HashMap::default() };
        for (shard, h) in plan.held.iter().enumerate().flat_map(|(shard, held)| held.iter().map(move |h| (shard, h))) {
            for column in h.columns().filter(|_| h.privilege.writes()) {
                let written = unawaited.written.entry((column.tree, column.field)).or_default();
                written.insert(column.rect, (shard, h.coherence));
            }
        }
        self.unawaited.borrow_mut().push(unawaited);
    }

    /// Checks that no inner task that has not been awaited may have data elsewhere that a launch of `task` uses.
    ///
    /// # Errors
    /// [`Error::Misuse`] if one may.
    #[inline]
    pub(super) fn check_awaited<N: Display>(
        &self,
        task: impl Fn() -> N,
        uses: impl Iterator<Item = (ColumnKey, Coherence)>,
    ) -> Result<(), Error> {
        let mut all = self.unawaited.borrow_mut();
        if all.is_empty() {
            return Ok(());
        }
        all.retain(|unawaited| !unawaited.results.iter().all(Past::is_awaited));
        for (used, coherence) in uses {
            let column = (used.tree, used.field);
            for (unawaited, written) in all.iter().filter_map(|u| Some((u, u.written.get(&column)?))) {
                let mut conflict = None;
                written.overlapping(used.rect, &mut |rect, (shard, other)| {
                    let both_share = [coherence, *other] == [Coherence::Simultaneous; 2];
                    if !both_share && !unawaited.results[*shard].is_awaited() {
                        conflict = Some((*rect, *shard));
                    }
                });
                let objects = &self.core.effects().objects;
                // What was destroyed is refused elsewhere.
                let part_of = self.planner.part_of;
                let is_there = |_: &_| objects.in_tree(used.region(used.rect), part_of, String::new).is_ok();
                if let Some((rect, shard)) = conflict.filter(is_there) {
                    let [used, written] = [used.rect, rect].map(|rect| objects.shown(used.region(rect)));
                    let by = format!("shard {shard} of the inner {}", unawaited.task);
                    return Err(Error::misuse(
                        format!("the launch of {}", task()),
                        "data of inner tasks whose results have been awaited",
                        format!("{used}, while {by} may change {written}; await its result first"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The parts of a launch that must be the same on every node, in words, but for the arguments of shards.
    fn described(&self, task: ObjectId, table: &GangTable, plan: &LaunchPlan) -> String {
        let task = self.core.effects().objects.name(task);
        let hold = |(shard, h): (usize, &HeldRegion)| {
            let home = h.shared_home().map_or(String::new(), |p| format!(" at home on processor {p}"));
            format!("shard {shard}: {} {} on {} of {:?}{home}", h.coherence, h.privilege, h.region, h.fields)
        };
        let held = || (0..).zip(&plan.held).flat_map(|(s, list)| list.iter().map(move |h| (s, h)));
        let requirements = match held().count() {
            0..=4 => format!("[{}]", held().map(hold).collect::<Vec<_>>().join(", ")),
            n => format!("{n} requirements"),
        };
        let copies = match plan.moves.len() {
            0 => String::new(),
            n => format!(" and {n} moves of data, hash {:016x}", plan.hashes().1),
        };
        format!("launch of {task} on gang `{}` with {requirements}{copies}", table.name)
    }

    /// The number of the next launch.
    pub(super) fn next_launch(&self) -> LaunchKey {
        u64::from(self.number) << 32 | u64::from(self.launches.get())
    }

    /// Takes the number of the next launch.
    pub(super) fn number_launch(&self) -> LaunchKey {
        let launch = self.next_launch();
        self.launches.set(self.launches.get() + 1);
        launch
    }

    /// A launch is under way until `done`.
    pub(super) fn add_pending(&self, done: TaskFuture<()>) {
        let mut pending = self.pending.borrow_mut();
        if pending.len() == pending.capacity() {
            pending.retain(|p| !p.is_over());
        }
        pending.push(done);
    }

    /// Lets a launch that starts no gang be under way until so many batches, with so many shards, have sent their results.
    pub(super) fn await_results(&self, launch: LaunchKey, counts: (usize, u32), settle: Settle) -> TaskFuture<()> {
        let (over, done) = TaskFuture::pending();
        let uses = Uses { gang: ObjectId::MAX, task: ObjectId::MAX, inner: false, trees: Arc::new([]) };
        let (by, versions) = ((self.planner.place(), self.node), self.planner.versions.clone());
        let state = LaunchState::new((launch, uses), by, counts, Vec::new(), settle, versions, over);
        self.core.gangs.register(&self.core.tasks, Rc::new(state));
        self.add_pending(done.clone());
        done
    }

    /// The result of the launcher's code, unless it has not learned of a shard's failure. Called after [`Self::settle`].
    pub fn outcome<R>(&self, result: Result<R, Error>) -> Result<R, Error> {
        match (result, self.failures.first_untold()) {
            (Ok(_), Some(failure)) => Err(failure.error().clone()),
            (result, _) => result,
        }
    }

    /// Notes that nothing is launched any more.
    pub fn ended(&self) {
        self.core.effects().event(|| Event::LauncherEnded { launcher: self.number });
    }

    /// Waits for every launch under way.
    pub async fn settle(&self) {
        loop {
            let next = self.pending.borrow_mut().pop();
            match next {
                // Its shards' own errors are in their futures.
                Some(pending) => drop(pending.await),
                None => return,
            }
        }
    }
}
