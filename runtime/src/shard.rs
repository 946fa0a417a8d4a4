//! A shard's view of itself: its place in the gang, its regions, its launches and waits.

use crate::core::{ArrivalAt, WaitAt};
use crate::core::{Asker, Core, Owner, Refused, Waited, Waiting};
use crate::current::{self, Poller};
use crate::deadline::UnderWay;
use crate::future::{FutureMap, TaskFuture};
use crate::gang::{Right, Versions};
use crate::launch::{Arrivable, Launch, Leaf, Waitable};
use crate::message::{Ancestors, ColumnKey, Held, LaunchKey, ObjectId, Valid};
use crate::object::{GangTable, Object};
use crate::phase::PhaseAddress;
use crate::races;
use crate::region::{Column, Local, Store};
use crate::replay::{Replay, ReplayCx};
use crate::{Error, Place};
use maniple_barriers::{Arriver, Phase, Waiter};
use maniple_mapper::{SliceInput, validate};
use maniple_regions::{Coherence, FieldId, FieldInfo, Privilege, Region};
use smallvec::SmallVec;
use std::cell::{OnceCell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

struct LocalRegion {
    which: Which,
    /// Mostly one or two.
    columns: SmallVec<[Used; 2]>,
}

/// A region that a shard looks at: mostly what one of its requirements names, and then it is not kept twice.
enum Which {
    Held(u32),
    Part(Box<Region>),
}

impl LocalRegion {
    fn region<'a>(&'a self, held: &'a [Held]) -> &'a Region {
        match &self.which {
            Which::Held(number) => &held[*number as usize].region,
            Which::Part(region) => region,
        }
    }
}

/// A field of a region that a launch has named, and which of the shard's requirements it comes from.
struct Used {
    held: usize,
    column: Rc<Column>,
}

/// What a launch's shards on one processor have in common.
pub(crate) struct Origin {
    pub task: Arc<str>,
    pub launch: LaunchKey,
    /// The launch, the one its parent is part of, and so on.
    pub within: Ancestors,
}

pub(crate) struct ShardInner {
    core: Rc<Core>,
    gang: Arc<GangTable>,
    pub(crate) origin: Rc<Origin>,
    index: u32,
    held: Arc<[Held]>,
    regions: RefCell<Vec<LocalRegion>>,
    pub(crate) owner: Rc<Owner>,
    /// Of a parent, what it knows to be valid where, and what the gangs that it launched leave to it.
    parent: OnceCell<Rc<RefCell<Versions>>>,
}

/// A running shard task's view of itself: its place in the gang, its regions, and the launching of subtasks.
///
/// It belongs to one processor and is not `Send`. Clones are the same shard.
#[derive(Clone)]
pub struct Shard {
    pub(crate) inner: Rc<ShardInner>,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shard({} of {}, task `{}`)", self.index(), self.shards(), self.inner.origin.task)
    }
}

impl Shard {
    pub(crate) fn new(
        core: &Rc<Core>,
        origin: &Rc<Origin>,
        gang: &Arc<GangTable>,
        index: u32,
        held: Arc<[Held]>,
    ) -> Self {
        let inner = ShardInner {
            core: core.clone(),
            gang: gang.clone(),
            origin: origin.clone(),
            index,
            held,
            regions: RefCell::default(),
            owner: Rc::default(),
            parent: OnceCell::new(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// The shard may launch gangs; `versions` says what it knows to be valid where.
    pub(crate) fn becomes_parent(&self, versions: Rc<RefCell<Versions>>) {
        self.inner.parent.get_or_init(|| versions);
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.inner.core
    }

    pub(crate) fn launch_key(&self) -> LaunchKey {
        self.inner.origin.launch
    }

    pub(crate) fn in_gang(&self, gang: &Arc<GangTable>) -> bool {
        Arc::ptr_eq(&self.inner.gang, gang)
    }

    pub(crate) fn gang_name(&self) -> String {
        format!("gang `{}`", self.inner.gang.name)
    }

    pub(crate) fn held(&self) -> &Arc<[Held]> {
        &self.inner.held
    }

    /// Number of this shard in its gang, from 0.
    pub fn index(&self) -> u32 {
        self.inner.index
    }

    /// Number of shards of the gang.
    pub fn shards(&self) -> u32 {
        self.inner.gang.shards()
    }

    /// The processor this shard runs on.
    pub fn processor(&self) -> u32 {
        self.inner.core.id
    }

    /// Name of the shard task.
    pub fn task(&self) -> &str {
        &self.inner.origin.task
    }

    pub(crate) fn node(&self) -> crate::deadlock::Node {
        let (gang, shard) = (self.inner.gang.id, self.inner.index);
        crate::deadlock::Node::Shard { gang, shard, launch: Some(self.launch_key()) }
    }

    pub(crate) fn place(&self) -> Place {
        Place { task: self.inner.origin.task.to_string(), shard: Some(self.inner.index) }
    }

    /// The shard's view of a region it holds, or of a part of one. Local; never waits.
    ///
    /// # Errors
    /// When no requirement of the launch contains the region, or its tree does not.
    pub fn region(&self, region: Region) -> Result<Local, Error> {
        let mut regions = self.inner.regions.borrow_mut();
        if regions.is_empty() {
            regions.reserve_exact(self.inner.held.len());
        }
        let held = self.inner.held.iter().position(|h| h.region == region);
        let is_it = |r: &LocalRegion| match (&r.which, held) {
            (Which::Held(number), Some(held)) => *number as usize == held,
            (Which::Part(part), None) => **part == region,
            _ => false,
        };
        if let Some(index) = regions.iter().position(is_it) {
            return Ok(Local { index: index as u32, region });
        }
        let index = regions.len() as u32;
        let which = match held {
            // The launch has checked that it is in its tree.
            Some(number) => Which::Held(number as u32),
            None => {
                self.check_part(region)?;
                Which::Part(Box::new(region))
            }
        };
        regions.push(LocalRegion { which, columns: SmallVec::new() });
        Ok(Local { index, region })
    }

    /// Refuses a region that is no part of what the shard holds.
    #[cold]
    fn check_part(&self, region: Region) -> Result<(), Error> {
        let what = || format!("Shard::region in {}", self.place());
        self.core().in_tree(region, what)?;
        if self.inner.held.iter().any(|h| h.region.contains(&region)) {
            return Ok(());
        }
        let held: Vec<_> = self.inner.held.iter().map(|h| h.region.to_string()).collect();
        let expected = format!("a part of what the shard was launched with: {}", held.join(", "));
        Err(Error::misuse(what(), expected, region))
    }

    /// The column behind a requirement, after checking that the shard may ask for it.
    #[inline]
    pub(crate) fn column(
        &self,
        index: u32,
        privilege: Privilege,
        coherence: Coherence,
        field: &FieldInfo,
    ) -> Result<Rc<Column>, Error> {
        let regions = self.inner.regions.borrow();
        let Some(local) = regions.get(index as usize) else {
            return Err(Error::misuse("a launch's region", "a region of this shard", "one of another shard"));
        };
        let region = local.region(&self.inner.held);
        self.check_right(region, field, privilege)?;
        let enough = |c: &&Used| *c.column.field == *field && self.inner.held[c.held].serves(privilege, coherence);
        if let Some(Used { column, .. }) = local.columns.iter().find(enough) {
            return Ok(column.clone());
        }
        let region = *region;
        drop(regions);
        self.make_column(index, region, privilege, coherence, field)
    }

    #[cold]
    fn make_column(
        &self,
        index: u32,
        region: Region,
        privilege: Privilege,
        coherence: Coherence,
        field: &FieldInfo,
    ) -> Result<Rc<Column>, Error> {
        let requirement = self.requirement(region, field.id, privilege, coherence)?;
        let held = &self.inner.held[requirement];
        let known = self.core().field(region.tree, field.id)?;
        if known != field {
            return Err(self.wrong_field(region, field));
        }
        let key = ColumnKey { tree: region.tree, field: field.id, rect: held.region.rect };
        let column = self.core().column(region, key, known, self.inner.origin.launch, held.shared_home())?;
        let mut regions = self.inner.regions.borrow_mut();
        for other in regions.iter().flat_map(|r| &r.columns).map(|u| &u.column) {
            if other.field.id == field.id && other.region.overlaps(&column.region) {
                column.overlaps_with(other);
            }
        }
        regions[index as usize].columns.push(Used { held: requirement, column: column.clone() });
        Ok(column)
    }

    /// Position of the requirement of the launch that allows a leaf task this use of a field of a region.
    fn requirement(
        &self,
        region: Region,
        field: FieldId,
        privilege: Privilege,
        coherence: Coherence,
    ) -> Result<usize, Error> {
        let held = &self.inner.held;
        let gives = |h: &Held| h.fields.contains(&field) && h.region.contains(&region);
        if let Some(found) = held.iter().position(|h| h.serves(privilege, coherence) && gives(h)) {
            return Ok(found);
        }
        if let Some(h) = held.iter().find(|h| gives(h) && h.allows(privilege, coherence)) {
            let (methods, all) = ("`read`, `write`, `read_write` or `reduce`", "a requirement made with");
            let expected = format!("{all} {methods}, as {} is held under {} coherence", h.region, h.coherence);
            let came = format!("{privilege} under {coherence} coherence, for which `Start::shares` holds a region");
            return Err(Error::misuse(format!("a launch in {}", self.place()), expected, came));
        }
        Err(self.not_held(region, field, privilege, Some(coherence)))
    }

    /// The requirements of the launch that give a parent this use of a field of a region.
    pub(crate) fn givers(&self, region: Region, field: FieldId, privilege: Privilege) -> Result<Vec<&Held>, Error> {
        let gives = |h: &&Held| h.region.contains(&region) && h.fields.contains(&field);
        let found: Vec<&Held> = self.inner.held.iter().filter(|h| gives(h) && h.privilege.covers(privilege)).collect();
        if found.is_empty() { Err(self.not_held(region, field, privilege, None)) } else { Ok(found) }
    }

    fn not_held(&self, region: Region, field: FieldId, privilege: Privilege, coherence: Option<Coherence>) -> Error {
        let call = if coherence.is_some() { "a launch" } else { "Parent::map" };
        let what = format!("{call} in {}", self.place());
        let held = self.inner.held.iter().filter(|h| h.region.contains(&region));
        if let Some(h) = held.clone().find(|h| h.fields.contains(&field)) {
            let expected = format!("at most {} under {} coherence on {}", h.privilege, h.coherence, h.region);
            let coherence = coherence.map_or(String::new(), |c| format!(" under {c} coherence"));
            return Error::misuse(what, expected, format!("{privilege}{coherence}"));
        }
        let fields: Vec<_> = held.flat_map(|h| &h.fields).collect();
        match self.core().field(region.tree, field) {
            Ok(f) => Error::misuse(what, format!("one of the fields the shard holds on {region}: {fields:?}"), f.name),
            Err(e) => e,
        }
    }

    /// A parent does not use what a gang of its own may be using, or has left elsewhere.
    #[inline]
    fn check_right(&self, region: &Region, field: &FieldInfo, privilege: Privilege) -> Result<(), Error> {
        match self.inner.parent.get().map(|p| p.borrow()) {
            Some(known) if known.are_restricted() => self.check_right_of_parent(&known, region, field, privilege),
            _ => Ok(()),
        }
    }

    #[cold]
    fn check_right_of_parent(
        &self,
        known: &Versions,
        region: &Region,
        field: &FieldInfo,
        privilege: Privilege,
    ) -> Result<(), Error> {
        let right = known.right(region.tree, field.id, region.rect);
        let (needed, does) = if privilege.writes() { (Right::All, "uses") } else { (Right::Read, "writes") };
        if right >= needed {
            return Ok(());
        }
        let what = format!("a launch in {}", self.place());
        let expected =
            format!("{region} mapped again (`Parent::map`) since a gang was launched that {does} part of it");
        Err(Error::misuse(what, expected, format!("{privilege} of field `{}` without that", field.name)))
    }

    /// A gang is launched whose shards hold this: what they write anew is as it should be.
    pub(crate) fn pass_on(&self, held: &[Arc<[Held]>]) {
        let poisoned: Vec<Rc<Column>> = {
            let regions = self.inner.regions.borrow();
            let columns = regions.iter().flat_map(|r| &r.columns).map(|u| &u.column);
            columns.filter(|c| c.is_poisoned_for(Privilege::Read)).cloned().collect()
        };
        for column in poisoned {
            let discards = |h: &&Held| h.privilege == Privilege::WriteDiscard && h.fields.contains(&column.field.id);
            let all = held.iter().flat_map(|held| held.iter()).filter(discards);
            all.filter(|h| h.region.overlaps(&column.region)).for_each(|h| column.clear_poison_within(h.region.rect));
        }
    }

    /// A region was mapped and no leaf task runs: the parent finds the instances that are there now.
    pub(crate) fn take_back(&self, region: Region, field: FieldId, privilege: Privilege) -> Result<(), Error> {
        let key = ColumnKey { tree: region.tree, field, rect: region.rect };
        let right = if privilege.writes() { Right::All } else { Right::Read };
        for column in self.columns_of(region, &[field]) {
            let home = match &*column.store.borrow() {
                Store::Owned(_) => None,
                Store::Shared { home, .. } => Some(*home),
            };
            let store = self.core().store(column.key(), column.field, column.launch, home)?;
            *column.store.borrow_mut() = store;
        }
        if let Some(parent) = self.inner.parent.get() {
            parent.borrow_mut().raise(&key, right);
        }
        Ok(())
    }

    /// The columns of the fields that have a point of the region.
    fn columns_of(&self, region: Region, fields: &[FieldId]) -> Vec<Rc<Column>> {
        let regions = self.inner.regions.borrow();
        let columns = regions.iter().filter(|r| r.region(&self.inner.held).overlaps(&region)).flat_map(|r| &r.columns);
        columns.map(|u| u.column.clone()).filter(|c| fields.contains(&c.field.id)).collect()
    }

    fn wrong_field(&self, region: Region, field: &FieldInfo) -> Error {
        let known = self.core().field(region.tree, field.id);
        let expected = known.map_or_else(|e| e.to_string(), |f| format!("field `{}` of {}", f.name, f.type_name));
        let came = format!("field `{}` of {}", field.name, field.type_name);
        Error::misuse(format!("a launch on {region} in {}", self.place()), expected, came)
    }

    /// Begins the launch of a leaf task: `function` with `args`, a tuple with one entry a parameter. See [`Leaf`].
    #[inline]
    pub fn launch<F: Leaf<M, O>, M: 'static, O: Send + 'static>(
        &self,
        function: F,
        args: F::Args,
    ) -> Launch<'_, F, M, O> {
        Launch::new(self, function, args)
    }

    /// Launches `function` once for each point in `0..points`, with the arguments `args` gives for it, which is asked once
    /// a point. The points run in any order and in parallel, where the mapper's slices say; local, not collective; returns
    /// at once.
    ///
    /// # Errors
    /// [`Error::Interference`] when two points interfere, and a region, field or privilege that [`Launch::go`] refuses:
    /// nothing is launched then. After an illegal decision of the mapper the points before the one in question run.
    pub fn index_launch<F: Leaf<M, O> + Clone, M: 'static, O: Send + 'static>(
        &self,
        points: usize,
        function: F,
        args: impl Fn(usize) -> F::Args,
    ) -> Result<FutureMap<O>, Error> {
        #[cfg(feature = "plant")]
        let points = points - usize::from(points > 1 && self.planted(crate::plant::Bug::ForgottenPoint));
        let args: Vec<F::Args> = (0..points).map(args).collect();
        crate::index::check::<F, M, O>(self, &args)?;
        if points == 0 {
            return Ok(FutureMap::new(Vec::new()));
        }
        let task = crate::names::short_name(std::any::type_name::<F>());
        let (shard, processor, machine) = (self.index(), self.processor(), self.core().machine());
        let input = SliceInput { task: &task, shard, processor, points, machine };
        let slices = self.core().ask(
            Asker::Processor,
            ("slice_index", &format_args!("task `{task}` of shard {shard}")),
            |m| m.slice_index(&input),
            |name, answer| validate::slices(name, &input, answer),
        )?;
        let targets = slices.into_iter().flat_map(|(run, processor)| run.map(move |_| processor));
        let launch = |(a, target)| self.launch(function.clone(), a).meant_for(target).go();
        Ok(FutureMap::new(args.into_iter().zip(targets).map(launch).collect::<Result<_, _>>()?))
    }

    /// Sets every value of a region's field: a leaf task like any other, which can wait and arrive.
    pub fn fill<T: maniple_regions::Element>(
        &self,
        into: crate::Requirement<maniple_regions::Write<'static, T>>,
        value: T,
    ) -> Launch<'_, impl Leaf<FillMarker<T>, (), Args = FillArgs<T>>, FillMarker<T>, ()> {
        fn fill<T: maniple_regions::Element>(mut into: maniple_regions::Write<T>, value: crate::Val<T>) {
            into.fill(*value);
        }
        Launch::new(self, fill::<T>, (into, value.into())).named("fill")
    }

    /// Copies a region's field to another of the same length: a leaf task like any other, which can wait and arrive.
    pub fn copy<T: maniple_regions::Element>(
        &self,
        from: crate::Requirement<maniple_regions::Read<'static, T>>,
        into: crate::Requirement<maniple_regions::Write<'static, T>>,
    ) -> Launch<'_, impl Leaf<CopyMarker<T>, (), Args = CopyArgs<T>>, CopyMarker<T>, ()> {
        fn copy<T: maniple_regions::Element>(from: maniple_regions::Read<T>, mut into: maniple_regions::Write<T>) {
            into.copy_from_slice(from.as_slice());
        }
        Launch::new(self, copy::<T>, (from, into)).named("copy")
    }

    /// Waits for the next generation of a barrier, which it takes when it is first polled. [`Self::within`] sets a limit.
    ///
    /// A wait that is dropped before it is over, after a time-out or as the loser of a `select!`, gives its generation
    /// back: the next wait is for the same one. Of several waits under way on one end of a barrier only the last can do so;
    /// what another was for is passed over, so drop them last to first, or keep them and await them again.
    ///
    /// # Errors
    /// Why the generation will never complete.
    pub async fn wait(&self, barrier: &impl Waitable) -> Result<(), Error> {
        let core = self.core();
        let mut wait = UnderWay::next(core, barrier);
        let point = wait.point();
        poll_fn(|cx| {
            let outcome = match wait.registered {
                Some(poller) if poller.polls_with(cx.waker()) => core.check_wait(point, None),
                earlier => {
                    let waiting = current::waiting(cx.waker());
                    wait.registered = Poller::of(&waiting);
                    match earlier {
                        None => core.check_wait(point, Some(waiting)),
                        Some(earlier) => core.wait_instead(point, earlier, waiting),
                    }
                }
            };
            let over = match outcome {
                Waited::Registered => return Poll::Pending,
                Waited::Complete => {
                    if let Some(races) = &core.config.races {
                        races.waited(self, point);
                    }
                    Ok(())
                }
                Waited::Poisoned(e) => {
                    if let Some(races) = &core.config.races {
                        races.waited_in_vain(self, point);
                    }
                    Err(e.poisons(self.place()))
                }
            };
            wait.registered = None;
            Poll::Ready(over)
        })
        .await
    }

    /// Arrives at a barrier now, for the generation after those that launches have taken. Local; never waits.
    pub fn arrive(&self, barrier: &impl Arrivable) {
        let at = barrier.next_arrival().0;
        if let Some(races) = &self.core().config.races {
            races.arrives(self, at);
        }
        match at {
            ArrivalAt::Cell(at, generation) => self.core().arrive(at, generation),
            ArrivalAt::Phase { object, arriver, generation, value } => {
                self.core().arrive_phase(object, arriver, generation, value);
            }
        }
    }

    /// Arrives at a reduction barrier with a value.
    pub fn arrive_with(&self, barrier: &Arriver<Phase, PhaseAddress>, value: u64) {
        let PhaseAddress { object, arriver } = barrier.address();
        let generation = barrier.take();
        if let Some(races) = &self.core().config.races {
            races.arrives(self, ArrivalAt::Phase { object, arriver, generation, value });
        }
        self.core().arrive_phase(object, arriver, generation, value);
    }

    /// Waits for the next generation of a reduction barrier and gives its value. As with [`Self::wait`], a generation that
    /// was not waited for to the end is given back.
    ///
    /// # Errors
    /// Why the generation will never complete, or that the waiter is too late: the values of 64 generations are kept, or
    /// of one more than the barrier's window where that is more, so that who also arrives is never too late; but of no more
    /// than 65536, however wide the window.
    pub async fn wait_value(&self, barrier: &Waiter<Phase, PhaseAddress>) -> Result<u64, Error> {
        let (object, generation) = (barrier.address().object, barrier.generation());
        self.wait(barrier).await?;
        self.core().phase_value(object, generation).map_err(|(over, kept)| {
            let what = format!("the value of a reduction barrier in {}", self.place());
            let expected = format!("one of the last {kept} generations of {over}");
            Error::misuse(what, expected, format!("generation {generation}"))
        })
    }

    /// Lets other ready work of this processor run first.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        poll_fn(|cx| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            match current::waiting(cx.waker()) {
                Waiting::Shard(slot) => self.core().yield_shard(slot),
                Waiting::Waker(w) => w.wake(),
                waiting => self.core().notify(waiting),
            }
            Poll::Pending
        })
        .await;
    }

    /// Makes a call of a replayed object, for the crate that made it: `f` gets the object's state on this processor,
    /// this shard's position among the processor's shards and the number of the call, from 0. The shard is not over before [`ReplayCx::resolve`] says that
    /// the call is.
    ///
    /// # Errors
    /// When the object is of another kind or of another gang, or calls of another launch are under way.
    #[inline]
    pub fn replay<R: Replay, T>(
        &self,
        object: ObjectId,
        f: impl FnOnce(&mut R, (u32, u64), &mut ReplayCx<'_>) -> T,
    ) -> Result<T, Error> {
        let wrong = |came: String| {
            Error::misuse(format!("a call in {}", self.place()), "an object made for this shard's gang", came)
        };
        self.core().with_object(object, |local| match local.map(|l| (l, &*l.object)) {
            Some((local, Object::Replay(spec))) if self.in_gang(&spec.gang) => {
                let position = self.inner.gang.at[self.inner.index as usize].1;
                let refuse = |why| match why {
                    Refused::OtherKind => wrong(spec.spec.name().into()),
                    Refused::OtherLaunch => Error::misuse(
                        format!("a call of `{}` in {}", spec.spec.name(), self.place()),
                        "one launch at a time that uses it",
                        "a call while calls of another launch are under way",
                    ),
                };
                let races = &self.core().config.races;
                if let Some(races) = races {
                    races.calls(self, local, position);
                }
                let made = self.core().with_replay(local, position, &self.inner.owner, refuse, f);
                if races.is_some() {
                    races::resume();
                }
                // The shard's own code may now take its time.
                self.core().send_what_is_late();
                made
            }
            Some((_, o)) => Err(wrong(o.describe())),
            None => Err(wrong(format!("object {object}"))),
        })
    }

    /// Waits for the leaf tasks of this shard.
    pub(crate) async fn no_leaves(&self) {
        poll_fn(|cx| match self.inner.owner.poll(current::waiting(cx.waker())) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        if let Some(races) = &self.core().config.races {
            races.leaves_over(self);
        }
    }

    /// Waits for the leaf tasks of this shard; the first failure among them that nobody was told of.
    pub(crate) async fn leaves_over(&self) -> Option<Error> {
        self.no_leaves().await;
        self.inner.owner.failures.unseen()
    }

    /// Whether no leaf task runs and none has failed unnoticed.
    pub(crate) fn is_over_well(&self) -> bool {
        self.inner.owner.is_over() && self.inner.owner.failures.unseen().is_none()
    }

    /// Whether a bug is planted for a test and strikes now.
    #[cfg(feature = "plant")]
    pub fn planted(&self, bug: crate::plant::Bug) -> bool {
        self.core().config.strikes(bug)
    }

    /// After the shard has failed: whoever waits for it must learn of it.
    pub(crate) fn abandon(&self, error: &Error) {
        self.core().note_failed(self.launch_key(), error);
        let error = error.poisons(self.place());
        if let Some(races) = &self.core().config.races {
            races.abandons(self);
        }
        self.core().abandon(&self.inner.gang, self.inner.index, &error);
        self.core().fail_waiting(&self.inner.owner, &error);
    }

    /// The shard is over and uses its regions no more.
    pub(crate) fn give_up_columns(&self) {
        let regions = self.inner.regions.take();
        regions.into_iter().flat_map(|r| r.columns).for_each(|used| self.core().spare(used.column));
    }

    pub(crate) fn take_valid(&self) -> Vec<Valid> {
        let Some(parent) = self.inner.parent.get() else {
            return Vec::new();
        };
        let versions = parent.borrow();
        // Copies of what it only read are nobody's news, and may be old by now.
        let held = self.inner.held.iter().filter(|h| h.privilege.writes());
        let columns = held.flat_map(|h| h.fields.iter().map(move |&f| (h, f)));
        columns
            .flat_map(|(h, field)| versions.within(&ColumnKey { tree: h.region.tree, field, rect: h.region.rect }))
            .collect()
    }
}

type FillMarker<T> = fn(maniple_regions::Write<'static, T>, crate::Val<T>);
type FillArgs<T> = (crate::Requirement<maniple_regions::Write<'static, T>>, crate::Value<T>);
type CopyMarker<T> = fn(maniple_regions::Read<'static, T>, maniple_regions::Write<'static, T>);
type CopyArgs<T> =
    (crate::Requirement<maniple_regions::Read<'static, T>>, crate::Requirement<maniple_regions::Write<'static, T>>);

impl TaskFuture<()> {
    /// Whether the task is over, for callers that only order things.
    pub fn is_done(&self) -> bool {
        self.is_settled()
    }
}

impl Core {
    /// Looks at a barrier generation; with `waiting`, registers for it.
    pub(crate) fn check_wait(&self, point: WaitAt, waiting: Option<Waiting>) -> Waited {
        match (point, waiting) {
            (WaitAt::Phase { object, generation }, Some(w)) => self.wait_phase(object, generation, w),
            (WaitAt::Cell { object, cell, generation }, waiting) => match (self.local(object), waiting) {
                (Some(local), Some(w)) => self.wait_cell(&local, cell, generation, w),
                (Some(local), None) => self.cell_state(&local, cell, generation),
                (None, _) => Waited::Poisoned(Box::new(Error::misuse("a wait", "a barrier of this run", object))),
            },
            (WaitAt::Phase { object, generation }, None) => self.phase_state(object, generation),
        }
    }

    /// Looks at a barrier generation that `earlier` is registered for, and puts `waiting` in its place.
    #[cold]
    fn wait_instead(&self, point: WaitAt, earlier: Poller, waiting: Waiting) -> Waited {
        match self.check_wait(point, None) {
            Waited::Registered => {}
            over => return over,
        }
        let replaced = match point {
            WaitAt::Phase { object, generation } => self.replace_at_phase(object, generation, earlier, waiting),
            WaitAt::Cell { object, cell, generation } => match self.local(object) {
                Some(local) => local.bank.borrow_mut().replace(cell, generation, earlier, waiting),
                None => Err(waiting),
            },
        };
        match replaced {
            // Dropped only now: its waker's destructor is not ours, and nothing is borrowed any more.
            Ok(_earlier) => Waited::Registered,
            Err(waiting) => self.check_wait(point, Some(waiting)),
        }
    }

    /// Takes away a waiter for a barrier generation, if there is one.
    pub(crate) fn withdraw(&self, point: WaitAt, waiter: Poller) -> Option<Waiting> {
        match point {
            WaitAt::Phase { object, generation } => self.withdraw_from_phase(object, generation, waiter),
            WaitAt::Cell { object, cell, generation } => {
                let local = self.local(object)?;
                local.bank.borrow_mut().withdraw(cell, generation, waiter)
            }
        }
    }
}
