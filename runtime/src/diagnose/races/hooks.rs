//! Where a run tells the check what happens.

use crate::diagnose::races::clock::{Clock, Event};
use crate::diagnose::races::state::{Actor, BarrierKey, State, common};
use crate::error::{Access, Error};
use crate::ids::TaskId;
use crate::ids::{Ancestors, LaunchKey, NOBODY, ObjectId};
use crate::ids::{ArrivalAt, WaitAt};
use crate::object::Object;
use crate::processor::{Core, Local};
use crate::program::shard::Shard;
use crate::task::{Body, UseAt};
use maniple_regions::{Coherence, Use};
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
pub(crate) fn seen(event: &Event) {
    let observer = if PAUSED.get() { None } else { OBSERVER.with_borrow(Clone::clone) };
    if let (Some((races, actor)), Some(past)) = (observer, event.past()) {
        races.state().sees(actor, past);
    }
}

impl Shard {
    fn actor(&self) -> Actor {
        (self.launch_key(), self.index())
    }
}

#[cold]
fn actor_of(core: &Core, shard: Option<&Shard>) -> Actor {
    shard.map_or((NOBODY, core.id), Shard::actor)
}

impl Core {
    fn wait_key(&self, at: WaitAt) -> (BarrierKey, u64, usize) {
        match at {
            WaitAt::Cell { object, cell, generation } => ((object, self.id, cell), generation, 1),
            WaitAt::Phase { object, generation } => {
                let waiters = match self.local(object).as_ref().map(|l| &*l.object) {
                    Some(Object::Phase(spec)) => spec.waiters.len(),
                    _ => 1,
                };
                ((object, 0, 0), generation, waiters)
            }
        }
    }
}

fn arrival_key(at: ArrivalAt) -> (BarrierKey, u64) {
    match at {
        ArrivalAt::Cell(at, generation) => ((at.object, at.processor, at.cell), generation),
        ArrivalAt::Phase { object, generation, .. } => ((object, 0, 0), generation),
    }
}

impl Races {
    /// A shard, or with none the top-level task, is polled.
    #[cold]
    pub fn observe(self: &Arc<Self>, core: &Core, shard: Option<&Shard>) -> Observing {
        Observing::by(Some((self.clone(), actor_of(core, shard))))
    }

    #[cold]
    pub fn leaf_launched(&self, shard: &Shard, id: TaskId, body: &mut Body) -> Event {
        let inputs = std::mem::take(&mut body.inputs);
        let exclusive = body.uses.iter().filter(|u| u.coherence != Coherence::Simultaneous).map(UseAt::as_use);
        self.state().launch_leaf((shard.processor(), id), shard.actor(), inputs, exclusive)
    }

    #[cold]
    pub fn leaf_waits(&self, core: &Core, id: TaskId, at: WaitAt) {
        let (barrier, generation, waiters) = core.wait_key(at);
        self.state().leaf_waits((core.id, id), barrier, generation, waiters);
    }

    /// The error of a task that races with an earlier one.
    #[cold]
    pub fn leaf_begins(&self, core: &Core, id: TaskId, name: &'static str, uses: &[UseAt]) -> Result<(), Error> {
        let shared = uses.iter().filter(|u| u.coherence == Coherence::Simultaneous);
        let shared: Vec<Use> = shared.map(UseAt::as_use).collect();
        let Some((first, second)) = self.state().leaf_begins((core.id, id), name, &shared) else { return Ok(()) };
        let tree = second.at.region.tree;
        let access = |a: &super::accesses::Access| {
            let Use { region, privilege, .. } = a.at;
            Box::new(Access { place: a.user.place(), privilege, rect: region.rect })
        };
        let race = Error::Race {
            region: core.local(tree.0).map_or_else(|| tree.to_string(), |l| l.object.describe()),
            field: core.field(tree, second.at.field).map_or_else(|_| second.at.field.to_string(), |f| f.name.into()),
            rect: Box::new(common(&first.at, &second.at)),
            first: access(&first),
            second: access(&second),
        };
        Err(self.found.get_or_init(|| race).clone())
    }

    #[cold]
    pub fn leaf_ends(&self, core: &Core, id: TaskId, arrivals: &[ArrivalAt]) {
        self.state().leaf_ends((core.id, id), arrivals.iter().map(|at| arrival_key(*at)));
    }

    #[cold]
    pub fn leaf_fails(&self, core: &Core, id: TaskId, arrivals: &[ArrivalAt]) {
        self.state().leaf_fails((core.id, id), arrivals.iter().map(|at| arrival_key(*at).0));
    }

    /// A leaf task that waits is not waited for any more, as its shard has failed.
    #[cold]
    pub fn leaf_dropped(&self, core: &Core, id: TaskId) {
        self.state().leaf_dropped((core.id, id));
    }

    /// A shard has waited for its leaf tasks.
    #[cold]
    pub fn leaves_over(&self, shard: &Shard) {
        self.state().leaves_over(shard.actor());
    }

    #[cold]
    pub fn arrives(&self, shard: &Shard, at: ArrivalAt) {
        let (barrier, generation) = arrival_key(at);
        self.state().arrive(shard.actor(), barrier, generation);
    }

    /// A shard has taken a generation that it waits for.
    #[cold]
    pub fn waits(&self, core: &Core, at: WaitAt) {
        let (barrier, generation, _) = core.wait_key(at);
        self.state().waits(barrier, generation);
    }

    #[cold]
    pub fn gives_up(&self, core: &Core, at: WaitAt) {
        let (barrier, generation, _) = core.wait_key(at);
        self.state().gives_up(barrier, generation);
    }

    #[cold]
    pub fn waited_in_vain(&self, shard: &Shard, at: WaitAt) {
        let (barrier, generation, _) = shard.core().wait_key(at);
        self.state().waited_in_vain(shard.actor(), barrier, generation);
    }

    #[cold]
    pub fn waited(&self, shard: &Shard, at: WaitAt) {
        let (barrier, generation, waiters) = shard.core().wait_key(at);
        self.state().waited(shard.actor(), barrier, generation, waiters);
    }

    #[cold]
    pub fn abandons(&self, shard: &Shard) {
        self.state().abandons(shard.actor());
    }

    /// A shard calls a collective. It does not see what the runtime looks at before [`resume`].
    #[cold]
    pub fn calls(&self, shard: &Shard, local: &Local, position: u32) {
        PAUSED.set(true);
        let call = local.chains.as_ref().map_or(0, |chains| chains.calls_of(position));
        self.state().calls(shard.actor(), local.id, call);
    }

    #[cold]
    pub fn call_takes(&self, object: ObjectId, call: u64, input: Event) {
        self.state().call_takes(object, call, input);
    }

    #[cold]
    pub fn call_over(&self, call: (ObjectId, u64), shard: u32, shards_and_slots: (u32, u32)) -> Clock {
        self.state().call_over(call, shard, shards_and_slots)
    }

    /// Whoever is polled launches shards.
    #[cold]
    pub fn launches(&self, core: &Core, launch: LaunchKey) {
        let actor = OBSERVER.with_borrow(|o| o.as_ref().map(|o| o.1));
        self.state().launches(actor.unwrap_or(actor_of(core, None)), launch);
    }

    #[cold]
    pub fn shard_starts(&self, shard: &Shard, within: &Ancestors) {
        self.state().shard_starts(shard.actor(), within.clone());
    }

    #[cold]
    pub fn shard_ends(&self, shard: &Shard) {
        self.state().shard_ends(shard.actor());
    }

    #[cold]
    pub fn end_of(&self, launch: LaunchKey, shard: u32) -> Clock {
        self.state().end_of((launch, shard))
    }

    #[cold]
    pub fn launch_over(&self, core: &Core, launch: LaunchKey) -> Clock {
        // The top-level task's launches are known on every node.
        let nodes = if launch >> 32 == 0 { core.copies().nodes() } else { 1 };
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
