//! Where a run tells the check what happens.

use super::clock::{Past, VectorClock};
use super::state::{Actor, BarrierKey, State, common};
use crate::error::{Access, Error};
use crate::ids::{Ancestors, LaunchKey, ObjectId, ProcessorId, TaskId};
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

    /// The outcome of a run: the race, if there is one, as other errors may follow from it and hide it.
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
    /// Who is polled on this thread: it sees the futures that it finds settled.
    static OBSERVER: RefCell<Option<(Arc<Races>, Actor)>> = const { RefCell::new(None) };
    /// The runtime looks at futures, not who is polled.
    static PAUSED: Cell<bool> = const { Cell::new(false) };
}

/// Who sees futures for as long as this lives.
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

/// Whoever is polled sees futures again, which the runtime has looked at since [`Races::calls`].
#[cold]
pub(crate) fn resume() {
    PAUSED.set(false);
}

/// Whoever is polled has found a future settled.
#[cold]
pub(crate) fn seen(event: &Past) {
    let observer = if PAUSED.get() { None } else { OBSERVER.with_borrow(Clone::clone) };
    if let (Some((races, actor)), Some(past)) = (observer, event.past()) {
        races.state().sees(actor, past);
    }
}

/// A leaf task of a processor.
type LeafId = (ProcessorId, TaskId);
/// A generation of a barrier.
type Generation = (BarrierKey, u64);

impl Races {
    /// A shard or the top-level task is polled.
    #[cold]
    pub fn observe(self: &Arc<Self>, actor: Actor) -> Observing {
        Observing::by(Some((self.clone(), actor)))
    }

    /// A leaf task is launched; what is exclusive of what it uses.
    #[cold]
    pub fn leaf_launched(
        &self,
        task: LeafId,
        by: Actor,
        inputs: Vec<Past>,
        exclusive: impl Iterator<Item = Use>,
    ) -> Past {
        self.state().launch_leaf(task, by, inputs, exclusive)
    }

    /// A leaf task waits for a generation, as so many do.
    #[cold]
    pub fn leaf_waits(&self, task: LeafId, (barrier, generation, waiters): (BarrierKey, u64, usize)) {
        self.state().leaf_waits(task, barrier, generation, waiters);
    }

    /// The error of a task that races with an earlier one; `describe` says what a region tree and a field are called.
    #[cold]
    pub fn leaf_begins(
        &self,
        task: LeafId,
        name: &'static str,
        shared: &[Use],
        describe: impl FnOnce(TreeId, FieldId) -> (String, String),
    ) -> Result<(), Error> {
        let Some((first, second)) = self.state().leaf_begins(task, name, shared) else { return Ok(()) };
        let (region, field) = describe(second.at.region.tree, second.at.field);
        let access = |a: &super::accesses::Accessed| {
            let Use { region, privilege, .. } = a.at;
            Box::new(Access { place: a.user.place(), privilege, rect: region.rect })
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

    #[cold]
    pub fn leaf_ends(&self, task: LeafId, arrivals: impl Iterator<Item = Generation>) {
        self.state().leaf_ends(task, arrivals);
    }

    #[cold]
    pub fn leaf_fails(&self, task: LeafId, arrivals: impl Iterator<Item = Generation>) {
        self.state().leaf_fails(task, arrivals.map(|(barrier, _)| barrier));
    }

    /// A leaf task that waits is not waited for any more, as its shard has failed.
    #[cold]
    pub fn leaf_dropped(&self, task: LeafId) {
        self.state().leaf_dropped(task);
    }

    /// A shard has waited for its leaf tasks.
    #[cold]
    pub fn leaves_over(&self, shard: Actor) {
        self.state().leaves_over(shard);
    }

    #[cold]
    pub fn arrives(&self, shard: Actor, (barrier, generation): Generation) {
        self.state().arrive(shard, barrier, generation);
    }

    /// A shard has taken a generation that it waits for.
    #[cold]
    pub fn waits(&self, (barrier, generation, _): (BarrierKey, u64, usize)) {
        self.state().waits(barrier, generation);
    }

    #[cold]
    pub fn gives_up(&self, (barrier, generation, _): (BarrierKey, u64, usize)) {
        self.state().gives_up(barrier, generation);
    }

    #[cold]
    pub fn waited_in_vain(&self, shard: Actor, (barrier, generation, _): (BarrierKey, u64, usize)) {
        self.state().waited_in_vain(shard, barrier, generation);
    }

    #[cold]
    pub fn waited(&self, shard: Actor, (barrier, generation, waiters): (BarrierKey, u64, usize)) {
        self.state().waited(shard, barrier, generation, waiters);
    }

    #[cold]
    pub fn abandons(&self, shard: Actor) {
        self.state().abandons(shard);
    }

    /// A shard makes a call of a collective. It does not see what the runtime looks at before [`resume`].
    #[cold]
    pub fn calls(&self, shard: Actor, object: ObjectId, call: u64) {
        PAUSED.set(true);
        self.state().calls(shard, object, call);
    }

    #[cold]
    pub fn call_takes(&self, object: ObjectId, call: u64, input: Past) {
        self.state().call_takes(object, call, input);
    }

    #[cold]
    pub fn call_over(&self, call: (ObjectId, u64), shard: u32, shards_and_slots: (u32, u32)) -> VectorClock {
        self.state().call_over(call, shard, shards_and_slots)
    }

    /// Whoever is polled launches shards; if nobody is, `top` does.
    #[cold]
    pub fn launches(&self, top: Actor, launch: LaunchKey) {
        let actor = OBSERVER.with_borrow(|o| o.as_ref().map(|o| o.1));
        self.state().launches(actor.unwrap_or(top), launch);
    }

    #[cold]
    pub fn shard_starts(&self, shard: Actor, within: &Ancestors) {
        self.state().shard_starts(shard, within.clone());
    }

    #[cold]
    pub fn shard_ends(&self, shard: Actor) {
        self.state().shard_ends(shard);
    }

    #[cold]
    pub fn end_of(&self, launch: LaunchKey, shard: u32) -> VectorClock {
        self.state().end_of((launch, shard))
    }

    /// A launch is over, on a run of so many copies of the top-level task.
    #[cold]
    pub fn launch_over(&self, launch: LaunchKey, copies: u32) -> VectorClock {
        // The top-level task's launches are known on every node.
        let nodes = if launch >> 32 == 0 { copies } else { 1 };
        self.state().launch_over(launch, nodes)
    }

    /// Whoever is polled has mapped a region, and launches as number `launcher`.
    #[cold]
    pub fn mapped(&self, launcher: u32) {
        if let Some((_, actor)) = OBSERVER.with_borrow(Clone::clone) {
            self.state().mapped(actor, launcher);
        }
    }

    /// A parent is over.
    #[cold]
    pub fn launcher_over(&self, launcher: u32) {
        self.state().launcher_over(launcher);
    }
}
