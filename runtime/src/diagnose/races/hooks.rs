//! The functions by which a run tells the check for races what happens.

use super::clock::{Past, VectorClock};
use super::state::{Actor, BarrierKey, State, common};
use crate::diagnose::Event;
use crate::error::{Error, RacingAccess};
use crate::ids::{ArrivalAt, LaunchKey, NOBODY, ObjectId, ProcessorId, TaskId, WaitAt, launcher};
use crate::names::TaskName;
use maniple_regions::{FieldId, TreeId, Use};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The check of one run, shared by its processors.
#[derive(Default)]
pub(crate) struct Races {
    state: Mutex<State>,
    found: OnceLock<Error>,
}

impl fmt::Debug for Races {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Races{:?}", self.size())
    }
}

impl Races {
    /// How much is kept: lanes, shards and tasks, generations, calls, launches, uses.
    pub fn size(&self) -> [usize; 6] {
        self.state().size()
    }

    /// The outcome of a run. A race comes first, because other errors may follow from it and hide it.
    pub fn outcome<R>(&self, outcome: Result<R, Error>) -> Result<R, Error> {
        match (self.found.get(), outcome) {
            (Some(race), Ok(_)) => Err(race.clone()),
            (Some(race), Err(e)) if !matches!(e.origin(), Error::Race { .. }) => Err(race.clone()),
            (_, outcome) => outcome,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// The shard or task that is polled on this thread. It sees each future that it finds settled.
    static OBSERVER: RefCell<Option<(Arc<Races>, Actor)>> = const { RefCell::new(None) };
    /// The runtime itself is looking at futures.
    static PAUSED: Cell<bool> = const { Cell::new(false) };
}

/// The guard of a poll. While it lives, the actor sees futures.
pub(crate) struct Observing(Option<(Arc<Races>, Actor)>);

impl Observing {
    fn by(observer: Option<(Arc<Races>, Actor)>) -> Self {
        PAUSED.set(false);
        Self(OBSERVER.replace(observer))
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        OBSERVER.set(self.0.take());
    }
}

/// The actor that is being polled has found a future settled.
#[cold]
pub(crate) fn seen(event: &Past) {
    let observer = if PAUSED.get() { None } else { OBSERVER.with_borrow(Clone::clone) };
    if let (Some((races, actor)), Some(past)) = (observer, event.past()) {
        races.state().sees(actor, past);
    }
}

/// The same, and the program has awaited it.
#[cold]
pub(crate) fn awaited(event: &Past) {
    event.note_awaited();
    seen(event);
}

/// A leaf task of a processor.
type LeafId = (ProcessorId, TaskId);

impl Races {
    /// A shard or the top-level task is polled.
    #[cold]
    pub fn observe(self: &Arc<Self>, actor: Actor) -> Observing {
        Observing::by(Some((self.clone(), actor)))
    }

    /// A leaf task is launched that waits for `inputs`, and perhaps for launches by the inner task with the number `after`.
    /// `exclusive` are its uses that are not under simultaneous coherence.
    #[cold]
    pub fn leaf_launched(
        &self,
        task: LeafId,
        by: Actor,
        (inputs, after): (Vec<Past>, Option<u32>),
        exclusive: impl Iterator<Item = Use>,
    ) -> Past {
        self.state().launch_leaf(task, by, (inputs, after), exclusive)
    }

    /// An actor's private tree is gone, and no task is launched on it any more.
    #[cold]
    pub fn tree_dropped(&self, of: Actor, tree: TreeId, fields: &[FieldId]) {
        self.state().tree_dropped(of, tree, fields);
    }

    /// A leaf task begins. Returns an error if it races with an earlier one; `describe` names a region tree and a
    /// field.
    #[cold]
    pub fn leaf_begins(
        &self,
        task: LeafId,
        name: TaskName,
        shared: &[Use],
        describe: impl FnOnce(TreeId, FieldId) -> (String, String),
    ) -> Result<(), Error> {
        let Some((first, second)) = self.state().leaf_begins(task, name, shared) else { return Ok(()) };
        let (region, field) = describe(second.at.region.tree, second.at.field);
        let access = |a: &super::accesses::Accessed| {
            let Use { region, privilege, .. } = a.at;
            Box::new(RacingAccess { place: a.user.place(), privilege, rect: region.rect })
        };
        let race = Error::Race {
            region,
            field,
            rect: Box::new(common(&first.at, &second.at)),
            first: access(&first),
            second: access(&second),
        };
        Err(self.found.get_or_init(|| race).clone())
    }

    /// Handles an event on a processor, if it orders leaf tasks.
    #[cold]
    #[inline(never)]
    pub fn take(&self, processor: ProcessorId, event: Event<'_>) {
        let leaf = |task: TaskId| (processor, task);
        let awaited = |at: WaitAt| match at {
            WaitAt::Cell { object, cell, generation } => ((object, processor, cell), generation),
            WaitAt::Phase { object, generation } => ((object, ProcessorId(0), 0), generation),
        };
        match event {
            Event::TaskWaits { task, at, waiters } => {
                let (barrier, generation) = awaited(at);
                self.state().leaf_waits(leaf(task), barrier, generation, waiters);
            }
            Event::TaskArrives { task, arrivals } => {
                self.state().leaf_arrives(leaf(task), arrivals.iter().map(|at| arrival_key(*at)));
            }
            Event::TaskEnded { task, arrivals } => {
                self.state().leaf_ends(leaf(task), arrivals.iter().map(|at| arrival_key(*at)));
            }
            Event::TaskFailed { task, arrivals } => {
                self.state().leaf_fails(leaf(task), arrivals.iter().map(|at| arrival_key(*at).0));
            }
            Event::TaskDropped { task } => self.state().leaf_dropped(leaf(task)),
            Event::ShardStarted { shard, within } => self.state().shard_starts(shard, within.clone()),
            Event::ShardEnded { shard } => self.state().shard_ends(shard),
            Event::ShardFailed { shard } => self.state().abandons(shard),
            Event::TasksAwaited { shard } => self.state().leaves_over(shard),
            Event::Arrived { shard, at } => {
                let (barrier, generation) = arrival_key(at);
                self.state().arrive(shard, barrier, generation);
            }
            Event::Waits { at } => {
                let (barrier, generation) = awaited(at);
                self.state().waits(barrier, generation);
            }
            Event::Waited { shard, at, waiters } => {
                let (barrier, generation) = awaited(at);
                self.state().waited(shard, barrier, generation, waiters);
            }
            Event::WaitedInVain { shard, at } => {
                let (barrier, generation) = awaited(at);
                self.state().waited_in_vain(shard, barrier, generation);
            }
            Event::WaitGivenUp { at } => {
                let (barrier, generation) = awaited(at);
                self.state().gives_up(barrier, generation);
            }
            Event::Calls { shard, object, call } => {
                PAUSED.set(true);
                self.state().calls(shard, object, call);
            }
            Event::CallMade => PAUSED.set(false),
            Event::CallTakes { object, call, shard, input } => self.state().call_takes((object, call), shard, input),
            Event::Launched { launch } => {
                let actor = OBSERVER.with_borrow(|o| o.as_ref().map(|o| o.1));
                self.state().launches(actor.unwrap_or((NOBODY, processor.0)), launch);
            }
            Event::Freed { object } => self.state().forget(object),
            Event::LauncherEnded { launcher } => self.state().launcher_over(launcher),
            _ => {}
        }
    }

    /// See [`State::call_over`].
    #[cold]
    pub fn call_over(
        &self,
        call: (ObjectId, u64),
        shard: u32,
        parties_and_slots: (usize, u32),
        depends_on: impl Fn(u32) -> bool,
    ) -> VectorClock {
        self.state().call_over(call, shard, parties_and_slots, depends_on)
    }

    /// See [`State::part_came`].
    #[cold]
    pub fn part_came(&self, call: (ObjectId, u64), shard: u32, of: (u32, u32)) -> VectorClock {
        self.state().part_came(call, shard, of)
    }

    /// The shard's next call in a slot of an object ends without a result, as do all later ones.
    #[cold]
    pub fn call_lost(&self, object: ObjectId, shard: u32, (slot, slots): (u32, u32)) {
        self.state().call_lost(object, shard, (slot, slots));
    }

    #[cold]
    pub fn end_of(&self, launch: LaunchKey, shard: u32) -> VectorClock {
        self.state().end_of((launch, shard))
    }

    /// A launch has ended, in a run with `copies` copies of the top-level task.
    #[cold]
    pub fn launch_over(&self, launch: LaunchKey, copies: u32) -> VectorClock {
        // Every node knows the top-level task's launches.
        let nodes = if launcher(launch) == 0 { copies } else { 1 };
        self.state().launch_over(launch, nodes)
    }
}

/// The barrier and the generation of an arrival.
fn arrival_key(at: ArrivalAt) -> (BarrierKey, u64) {
    match at {
        ArrivalAt::Cell(at, generation) | ArrivalAt::Value(at, generation, _) => {
            ((at.object, at.processor, at.cell), generation)
        }
        ArrivalAt::Phase { object, generation, .. } => ((object, ProcessorId(0), 0), generation),
    }
}
