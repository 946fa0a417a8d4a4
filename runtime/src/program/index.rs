//! The launch of a task for many points at once.

use super::flow::InFlow;
use super::launch::{Arrivable, InShard, Launch, Leaf, MappedLeaf, Waitable};
use super::param::{Declaring, Done, Many};
use super::shard::Shard;
use crate::effects::Asker;
use crate::future::{FutureMap, TaskFuture};
use crate::gang::{Claim, Claimants, conflict};
use crate::ids::WaitAt;
use crate::names::{TaskName, short_name};
use crate::parcel::Portable;
use crate::task::Body;
use crate::{Error, Place};
use maniple_mapper::{NodeId, Priority, ProcessorId, SliceInput, validate};
use maniple_regions::{Coherence, Interference};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::time::Duration;

/// A launch of a leaf task for many points, which is being put together. [`go`](Self::go) launches the tasks.
///
/// [`Shard::index_launch`] and [`Top::index_launch`](crate::Top::index_launch) begin one. It takes no generation of a barrier before
/// `go`.
#[must_use = "nothing is launched before `go`"]
pub struct IndexLaunch<'s, F: Leaf<M>, M, W = InShard> {
    shard: &'s Shard,
    function: F,
    args: Vec<F::Args>,
    name: TaskName,
    priority: Option<Priority>,
    takes: Option<Duration>,
    first: usize,
    waits: SmallVec<[&'s dyn Waitable; 2]>,
    arrivals: SmallVec<[&'s dyn Arrivable; 2]>,
    kind: PhantomData<fn() -> W>,
}

impl<'s, F: Leaf<M> + Clone, M: 'static, W> IndexLaunch<'s, F, M, W> {
    #[track_caller]
    pub(crate) fn new(shard: &'s Shard, function: F, args: Vec<F::Args>) -> Self {
        let name = TaskName::new(std::any::type_name::<F>());
        let (waits, arrivals) = (SmallVec::new(), SmallVec::new());
        Self { shard, function, args, name, priority: None, takes: None, first: 0, waits, arrivals, kind: PhantomData }
    }

    /// Names the tasks in reports, errors and traces. Without this they have the name of their function.
    pub fn named(mut self, name: &'static str) -> Self {
        self.name.of_type = name;
        self
    }

    /// Sets the priority of all points, in place of the mapper's answers.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets the time that each point takes in virtual time, as [`Launch::takes`] does for one task.
    pub fn takes(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.takes = time.into();
        self
    }
}

impl<F: Leaf<M> + Clone, M: 'static> IndexLaunch<'_, F, M, InFlow>
where
    F::Output: Portable + Clone,
{
    /// Launches all points, each on the node that its data or the mapper says, and points without regions on the nodes in turn.
    /// Collective; returns at once.
    ///
    /// # Errors
    /// - [`Error::Interference`] when two points interfere.
    /// - The errors of [`Launch::go`](super::launch::Launch::go) of a task of a flow. Points before that one are launched.
    ///
    /// No point is launched if two interfere.
    pub fn go(self) -> Result<FutureMap<F::Output>, Error> {
        let Self { shard, function, args, name, priority, takes, .. } = self;
        check::<F, M>(shard, &args, name)?;
        let nodes = shard.core().effects().copies().nodes();
        let point = |(number, args): (u32, F::Args)| {
            let names_no_region = F::regions(&args).iter().sum::<usize>() == 0;
            let launch = as_asked(shard.launch(function.clone(), args).called(name), priority, takes).of_flow();
            match names_no_region {
                true => launch.on(NodeId(number % nodes)).go(),
                false => launch.go(),
            }
        };
        (0u32..).zip(args).map(point).collect::<Result<_, _>>().map(FutureMap::new)
    }
}

impl<'s, F: Leaf<M> + Clone, M: 'static> IndexLaunch<'s, F, M> {
    /// Lets all points start only after the next generation of `barrier`. All points wait for the same generation.
    pub fn wait(mut self, barrier: &'s impl Waitable) -> Self {
        self.waits.push(barrier);
        self
    }

    /// Arrives at `barrier` once, when all points are done. If one fails, that generation and all later ones are
    /// poisoned.
    pub fn arrive(mut self, barrier: &'s impl Arrivable) -> Self {
        self.arrivals.push(barrier);
        self
    }

    /// Launches this point first, then those behind it, and then those from 0 on. `point` is taken modulo the number of
    /// points. The futures stay in the order of the points. The blocks of an all-to-all by `direct` leave in the order that begins
    /// with `first(shard.index() as usize + 1)`.
    pub fn first(mut self, point: usize) -> Self {
        self.first = point;
        self
    }

    /// Launches all points. Local, not collective; returns at once.
    ///
    /// # Errors
    /// - [`Error::Interference`] when two points interfere.
    /// - The errors of [`Launch::go`](super::launch::Launch::go), such as an illegal decision of the mapper about one
    ///   of the points.
    ///
    /// After an error no point is launched, and no generation has been taken. The same launch can be made again.
    pub fn go(self) -> Result<FutureMap<F::Output>, Error> {
        let Self { shard, function, mut args, name, priority, takes, first, waits, arrivals, .. } = self;
        check::<F, M>(shard, &args, name)?;
        let (task, points) = (short_name(name.of_type), args.len());
        let slices = match points {
            0 => Vec::new(),
            _ => {
                let (index, processor, machine) = (shard.index(), shard.processor(), shard.core().effects().machine());
                let input = SliceInput { task: &task, shard: index, processor, points, machine };
                let place = Place { task: name.to_string(), shard: Some(index) };
                shard.core().effects().ask(
                    Asker::Processor,
                    ("slice_index", &place),
                    |m| m.slice_index(&input),
                    |mapper, answer| validate::slices(mapper, &input, answer).map_err(|e| e.about(&place)),
                )?
            }
        };
        // The mapper decides about all tasks before a generation is taken. So a refusal leaves nothing behind.
        let tasks = &shard.core().tasks;
        let mut mapped: Vec<(Launch<'s, F, M>, MappedLeaf)> = Vec::with_capacity(points);
        let refused = |mapped: Vec<(Launch<'s, F, M>, MappedLeaf)>, error: Box<Error>| {
            mapped.into_iter().for_each(|(_, leaf)| leaf.cancel(tasks));
            Err(*error)
        };
        let targets = slices.iter().flat_map(|(run, processor)| run.clone().map(move |_| *processor));
        let first = first % points.max(1);
        args.rotate_left(first);
        let here = shard.core().effects().machine().near(shard.processor(), shard.index());
        for (args, target) in args.into_iter().zip(targets.clone().skip(first).chain(targets)) {
            let anywhere = target == ProcessorId::ANYWHERE;
            let target = if anywhere { here } else { target };
            let launch = shard.launch(function.clone(), args).called(name).meant_for(target);
            let launch = as_asked(launch, priority, takes);
            match launch.map() {
                Ok(mut leaf) => {
                    if anywhere {
                        leaf.leave_to_pool(target);
                    }
                    mapped.push((launch, leaf));
                }
                Err(error) => return refused(mapped, error),
            }
        }
        if let Some(inner) = shard.inner_launcher() {
            let checked = mapped.iter().try_for_each(|(_, leaf)| inner.check_leaf(&leaf.body));
            let planned = checked.and_then(|()| {
                mapped.iter_mut().try_for_each(|(_, leaf)| {
                    leaf.unmet += inner.plan_leaf(shard, &leaf.body, (leaf.id, leaf.mapped.priority))?;
                    Ok(())
                })
            });
            if let Err(error) = planned {
                return refused(mapped, Box::new(error));
            }
        }
        // A task that follows all points arrives for them. Without points it still waits.
        let last = shard.launch(|_: Many<Done<F::Output>>| (), (Many::from_iter([]),));
        let last = as_asked(last.named("end of points"), priority, None);
        let last = arrivals.iter().fold(last, |last, barrier| last.arrive_at(*barrier));
        let end = match (!arrivals.is_empty()).then(|| last.map()).transpose() {
            Ok(end) => end,
            Err(error) => return refused(mapped, error),
        };
        let waits: Vec<WaitAt> = waits.iter().map(|barrier| barrier.next_wait().0).collect();
        let mut futures: Vec<TaskFuture<F::Output>> =
            mapped.into_iter().map(|(launch, leaf)| launch.go_mapped(leaf, &waits)).collect();
        futures.rotate_right(first);
        if let Some(mut end) = end {
            // Futures are never refused.
            let last = last.with_args((futures.iter().cloned().collect(),), &mut end)?;
            last.go_mapped(end, &waits).detach();
        }
        Ok(FutureMap::new(futures))
    }
}

fn as_asked<'s, F: Leaf<M>, M: 'static>(
    launch: Launch<'s, F, M>,
    priority: Option<Priority>,
    takes: Option<Duration>,
) -> Launch<'s, F, M> {
    let launch = launch.takes(takes);
    match priority {
        Some(priority) => launch.priority(priority),
        None => launch,
    }
}

/// Refuses an index launch if two of its points interfere.
fn check<F: Leaf<M>, M>(shard: &Shard, args: &[F::Args], name: TaskName) -> Result<(), Error> {
    let (mut claims, mut uses, mut body) = (Vec::new(), Vec::new(), Body::new());
    for (user, args) in (0u32..).zip(args) {
        let declared = F::declare(args, &mut Declaring::of_uses(shard, &mut body, &mut uses));
        declared.map_err(|e| e.of_launch(name))?;
        claims.extend(uses.drain(..).map(|at| Claim { user, at }));
    }
    // Within a shard, the program itself orders simultaneous uses.
    claims.retain(|c| c.at.coherence != Coherence::Simultaneous);
    match conflict(&mut claims, Claimants::Points) {
        None => Ok(()),
        // The order of launches keeps points apart that must only not run at the same time.
        Some((_, _, Interference::Serializes)) => Ok(()),
        Some((a, b, _)) => Err(Error::Interference {
            place: Place { task: name.to_string(), shard: Some(shard.index()) },
            between: format!("point {} ({}) and point {} ({})", a.user, a.at, b.user, b.at),
            hint: "give each point a region of its own, or launch the points one after the other".into(),
        }),
    }
}
