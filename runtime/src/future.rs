//! Futures: the value of a task or a call, and its waiters.

use crate::Error;
use crate::diagnose::races;
use crate::diagnose::races::{Past, VectorClock};
use crate::effects::polling::Poller;
use crate::effects::{Arrivals, Tell, Waiting, polling};
use crate::error::Failure;
use crate::failures::Failures;
use crate::ids::{ProcessorId, TaskId};
use maniple_barriers::{Promise, PromiseState, Waiters};
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// The reason why there is no value.
pub(crate) struct Poison {
    failure: Failure,
    /// The failures of its launcher, if that has to learn of it.
    among: Option<Failures>,
}

impl Poison {
    /// A failure of which the launcher with these failures has to learn.
    pub fn new(failure: Failure, among: &Failures) -> Rc<Self> {
        among.add(&failure);
        Rc::new(Self { failure, among: Some(among.clone()) })
    }

    /// An error of the whole run.
    pub fn of_the_run(error: &Error) -> Rc<Self> {
        Rc::new(Self { failure: Failure::of_the_run(error), among: None })
    }

    /// The error, which an await returns to the program now.
    fn tell(&self) -> Error {
        if let Some(failures) = &self.among {
            failures.tell(self.failure.poison());
        }
        self.failure.error().clone()
    }
}

/// What makes the value of a future.
pub(crate) trait Maker<T>: 'static {
    /// The leaf task, if it is one. It may be over.
    fn leaf(&self) -> Option<TaskId>;
    /// The value is awaited, by the first waiter of each clone of a future that is made [on demand](TaskFuture::on_demand).
    fn is_awaited(&self, _: &TaskFuture<T>) {}
    /// A task of a flow takes the value, on a node with this home.
    fn is_needed_at(&self, _: &TaskFuture<T>, _: ProcessorId) {}
}

impl<T> Maker<T> for () {
    fn leaf(&self) -> Option<TaskId> {
        None
    }
}

/// A value to come. In the same allocation is the leaf task that makes it, if one does.
pub(crate) struct FutureCell<T, B: ?Sized = dyn Maker<T>> {
    /// (Code that drops a promise is short with an `Rc`, as what drops the poison itself is no part of it.)
    promise: RefCell<Promise<T, Waiting, Rc<Poison>>>,
    /// The events before the value, for the check for races, and whether the program has awaited it. Only where somebody asks.
    past: OnceCell<Past>,
    task: B,
}

/// The future value of a task or of a call of a collective. Await it, or give it to later launches and calls as an
/// input.
///
/// `.await` gives a clone of the value, or the error of the task that should have made it. Local, not collective; may
/// wait. A future is not `Send`: it stays with the shard that made the launch or the call.
///
/// If a task fails, the shard or the task that launched it has to learn of it: from an await of this future, or of something
/// that depended on the task. If it has not when it ends, it fails with the same error. What another shard learns does not
/// count.
#[must_use = "`.await` it for the value, pass it on, or `detach()` it: a failure that no await returns fails whoever launched it"]
pub struct TaskFuture<T> {
    cell: Rc<FutureCell<T>>,
    /// The place among the promise's waiters of the one that awaits this clone, or `NOBODY`. (An `Option` would be
    /// moved byte by byte.)
    registered: Cell<u32>,
}

const NOBODY: u32 = u32::MAX;

/// In the place of a waiter: there is none yet, and the first one has to ask for the value.
const UNASKED: u32 = u32::MAX - 1;

/// The other end of a [`TaskFuture`], which settles it. If it is dropped before that, the future stays unsettled for
/// ever. The report of the deadlock that follows names those who await it.
pub struct Resolver<T> {
    cell: Rc<FutureCell<T, ()>>,
}

impl<T> Clone for TaskFuture<T> {
    fn clone(&self) -> Self {
        let registered = if self.registered.get() == UNASKED { UNASKED } else { NOBODY };
        Self { cell: self.cell.clone(), registered: Cell::new(registered) }
    }
}

/// The time at which a future is settled, by the run's clock ([`now`](crate::now)). [`TaskFuture::stamp`] makes one.
#[derive(Debug)]
pub struct Stamp(Arc<Noted>);

/// Nanoseconds by the run's clock. It is woken like a waker, so the code that wakes need not know about it.
#[derive(Debug)]
struct Noted(AtomicU64);

/// No time.
const UNSETTLED: u64 = u64::MAX;

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(crate::time::now().as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Stamp {
    /// The time at which the future was settled, or the time of the call of [`TaskFuture::stamp`] if that came later.
    /// `None` if it is not settled yet. Never waits.
    pub fn at(&self) -> Option<Duration> {
        Some(self.0.0.load(Ordering::Relaxed)).filter(|at| *at != UNSETTLED).map(Duration::from_nanos)
    }
}

/// Removes the waiter of this clone: nothing is left of an await that was given up.
impl<T> Drop for TaskFuture<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // A waiter that has got the outcome is not registered any more.
        if self.registered.get() != NOBODY {
            self.withdraw();
        }
    }
}

impl<T> TaskFuture<T> {
    pub(crate) fn of(cell: Rc<FutureCell<T>>) -> Self {
        Self { cell, registered: Cell::new(NOBODY) }
    }

    /// A future whose maker learns [when it is awaited](Maker::is_awaited).
    pub(crate) fn on_demand(cell: Rc<FutureCell<T>>) -> Self {
        Self { cell, registered: Cell::new(UNASKED) }
    }

    #[cold]
    #[inline(never)]
    fn withdraw(&self) {
        let place = match self.registered.replace(NOBODY) {
            UNASKED => return,
            place => place as usize,
        };
        let waiting = self.cell.promise.borrow_mut().waiters_mut().and_then(|w| w.remove(place));
        // Whether a map of futures is awaited is another question.
        if waiting.as_ref().is_some_and(|waiting| !matches!(waiting, Waiting::OneOf { .. })) {
            polling::note_awaited();
        }
        // Its waker's destructor is not ours: nothing is borrowed any more.
        drop(waiting);
    }
}

impl<T> fmt::Debug for TaskFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cell.promise.borrow().state() {
            PromiseState::Pending(_) => "TaskFuture(pending)",
            PromiseState::Ready(_) => "TaskFuture(ready)",
            PromiseState::Poisoned(_) => "TaskFuture(poisoned)",
        })
    }
}

impl<T: 'static> TaskFuture<T> {
    /// An unsettled future and its other end, for the crate that defines a collective.
    pub fn pending() -> (Resolver<T>, Self) {
        let cell = Rc::new(FutureCell::new(()));
        (Resolver { cell: cell.clone() }, Self::of(cell))
    }

    /// A future that holds `value` already.
    pub fn ready(value: T) -> Self {
        let cell = FutureCell::new(());
        let _ = cell.promise.borrow_mut().settle(Ok(value));
        Self::of(Rc::new(cell))
    }

    /// Notes the time at which the future is settled, with a value or with an error. Never waits. It launches no task
    /// and polls nobody, so it takes no time in virtual time. The result of a task of a flow is settled on another node when it
    /// has come there.
    pub fn stamp(&self) -> Stamp {
        self.ask();
        let noted = Arc::new(Noted(AtomicU64::new(UNSETTLED)));
        if !self.wait(Waiting::Waker(Box::new(Waker::from(noted.clone())))) {
            noted.wake_by_ref();
        }
        Stamp(noted)
    }

    /// Gives the value up, as dropping the future does. The task still runs. If it fails and the shard, the inner task or
    /// the top-level task that launched it does not learn of that from another await, it fails, too.
    pub fn detach(self) {}

    /// Awaits the value and moves it out. It is cloned only if somebody else, such as the runtime, still holds the
    /// future. Local; may wait.
    ///
    /// # Errors
    /// The error of the task that should have made the value.
    pub async fn take(mut self) -> Result<T, Error>
    where
        T: Clone,
    {
        self.settled().await;
        match Rc::get_mut(&mut self.cell).and_then(|own| own.promise.get_mut().take()) {
            Some(outcome) => outcome.map_err(|poison| poison.tell()),
            None => self.await,
        }
    }

    /// Waits until the value or an error is there. The program has not learned of the error yet.
    async fn settled(&self) {
        poll_fn(|cx| {
            if !self.is_over() {
                self.register(&self.cell, cx.waker());
                return Poll::Pending;
            }
            self.cell.is_awaited();
            self.is_got();
            Poll::Ready(())
        })
        .await;
    }

    /// Whether the value or an error is there. Never waits.
    ///
    /// The result of a task of a flow on several nodes is sent to all when they await it or ask here, and comes to each in its own
    /// time. So nothing that the program launches may depend on the answer.
    pub fn is_settled(&self) -> bool {
        self.ask();
        let settled = self.is_over();
        if settled {
            self.cell.is_seen();
        }
        settled
    }

    /// The same for the runtime itself: nobody counts as having seen the outcome.
    #[doc(hidden)]
    pub fn is_over(&self) -> bool {
        self.cell.promise.borrow().is_settled()
    }

    /// Calls `look` with the value or the error, if one is there. The program has then learned of the error. Never waits. For the
    /// result of a task of a flow, see [`is_settled`](Self::is_settled).
    #[inline(always)]
    pub fn peek<R>(&self, look: impl FnOnce(Result<&T, &Error>) -> R) -> Option<R> {
        self.ask();
        match self.cell.promise.borrow().state() {
            PromiseState::Pending(_) => None,
            PromiseState::Ready(v) => {
                self.cell.is_seen();
                Some(look(Ok(v)))
            }
            PromiseState::Poisoned(poison) => {
                self.cell.is_seen();
                Some(look(Err(&poison.tell())))
            }
        }
    }

    /// The value or the error for a task or a call that takes it, if one is there: nobody is told of the error yet.
    #[doc(hidden)]
    #[inline(always)]
    pub fn input(&self) -> Option<Result<T, Error>>
    where
        T: Clone,
    {
        let outcome = match self.cell.promise.borrow().state() {
            PromiseState::Pending(_) => return None,
            PromiseState::Ready(value) => Ok(value.clone()),
            PromiseState::Poisoned(poison) => Err(poison.failure.poison().clone()),
        };
        self.cell.is_seen();
        Some(outcome)
    }

    /// The same for the one that holds the last reference to the future, mostly: then the value moves.
    #[doc(hidden)]
    #[inline]
    pub fn take_input(&mut self) -> Option<Result<T, Error>>
    where
        T: Clone,
    {
        let Some(own) = Rc::get_mut(&mut self.cell) else { return self.input() };
        let outcome = own.promise.get_mut().take()?;
        own.is_seen();
        Some(outcome.map_err(|poison| poison.failure.poison().clone()))
    }

    /// The events before the value, for the check for races.
    pub(crate) fn event(&self) -> Past {
        self.cell.past.get_or_init(Past::default).clone()
    }

    /// Takes the events before the value of `other` as the events before this future's.
    pub(crate) fn follows<U: 'static>(&self, other: &TaskFuture<U>) {
        let _ = self.cell.past.set(other.event());
    }

    /// The leaf task that makes the value, if one does. It may be over.
    pub(crate) fn maker(&self) -> Option<TaskId> {
        self.cell.task.leaf()
    }

    /// The value is passed on to a task of a flow, on a node with this home.
    pub(crate) fn is_needed_at(&self, at: ProcessorId) {
        self.cell.task.is_needed_at(self, at);
    }

    /// Waits for the value or the failure. The program does not learn of it.
    pub(crate) async fn outcome(self) -> Result<T, Failure>
    where
        T: Clone,
    {
        self.settled().await;
        match self.cell.promise.borrow().state() {
            PromiseState::Ready(value) => Ok(value.clone()),
            PromiseState::Poisoned(poison) => Err(poison.failure.clone()),
            PromiseState::Pending(_) => unreachable!("settled"),
        }
    }

    /// Settles the future.
    pub(crate) fn settle(&self, outcome: Result<T, Rc<Poison>>, tell: impl Tell) {
        self.cell.settle(outcome, tell);
    }

    /// Registers a waiter; false when the future is settled already.
    pub(crate) fn wait(&self, waiting: Waiting) -> bool {
        self.cell.promise.borrow_mut().wait(waiting)
    }

    /// Registers the waiter of this clone, which goes with it; false when the future is settled already.
    fn wait_here(&self, waiting: Waiting) -> bool {
        if self.registered.get() != NOBODY {
            self.withdraw();
        }
        let place = self.cell.promise.borrow_mut().waiters_mut().map(|waiters| waiters.push(waiting));
        place.is_some_and(|place| {
            self.registered.set(place as u32);
            true
        })
    }

    /// Registers the poller of this clone of the unsettled future, in place of its earlier poller.
    #[inline(always)]
    fn register(&self, cell: &FutureCell<T>, waker: &Waker) {
        // As long as the promise is unsettled each waiter keeps its place.
        if self.registered.get() != NOBODY {
            return self.register_again(waker);
        }
        // Wakers are cloned while nothing is borrowed: their code is not ours.
        let waiting = polling::waiting(waker);
        match cell.promise.borrow_mut().waiters_mut() {
            Some(waiters) => self.registered.set(waiters.push(waiting) as u32),
            // The value had come, and was waiting for this.
            None => waker.wake_by_ref(),
        }
    }

    /// An await is about to return. A value that was here for another reason may not be on other nodes, which await it, too.
    #[inline(always)]
    fn is_got(&self) {
        self.ask();
        self.registered.set(NOBODY);
    }

    /// Asks for the value, if nobody has done so by this clone. Whether it did.
    #[inline(always)]
    fn ask(&self) -> bool {
        let asks = self.registered.get() == UNASKED;
        if asks {
            self.ask_first();
        }
        asks
    }

    #[cold]
    fn ask_first(&self) {
        self.registered.set(NOBODY);
        self.cell.task.is_awaited(self);
    }

    /// The error, which an await returns now.
    #[cold]
    #[inline(never)]
    fn see(&self) -> Error {
        self.cell.is_awaited();
        let promise = self.cell.promise.borrow();
        let PromiseState::Poisoned(poison) = promise.state() else { unreachable!("poisoned") };
        let error = poison.tell();
        drop(promise);
        self.is_got();
        error
    }

    #[cold]
    fn register_again(&self, waker: &Waker) {
        if self.ask() {
            return self.register(&self.cell, waker);
        }
        let place = self.registered.get() as usize;
        let is_same = |w: &mut Waiting| Poller::of(w).is_some_and(|p| p.polls_with(waker));
        if self.cell.promise.borrow_mut().waiters_mut().and_then(|w| w.get_mut(place)).is_none_or(is_same) {
            return;
        }
        // They are dropped while nothing is borrowed, too.
        let waiting = polling::waiting(waker);
        let mut promise = self.cell.promise.borrow_mut();
        let waiter = promise.waiters_mut().and_then(|w| w.get_mut(place));
        let earlier = waiter.map(|w| std::mem::replace(w, waiting));
        drop(promise);
        drop(earlier);
    }
}

impl<T: Clone + 'static> Future for TaskFuture<T> {
    type Output = Result<T, Error>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The cell is looked up once: where it begins depends on the alignment of what is behind it.
        let cell = &*self.cell;
        let promise = cell.promise.borrow();
        let value = match promise.state() {
            PromiseState::Ready(value) => value.clone(),
            PromiseState::Pending(_) => {
                drop(promise);
                self.register(cell, cx.waker());
                return Poll::Pending;
            }
            PromiseState::Poisoned(_) => {
                drop(promise);
                return Poll::Ready(Err(self.see()));
            }
        };
        drop(promise);
        cell.is_awaited();
        self.is_got();
        Poll::Ready(Ok(value))
    }
}

impl<T: 'static> Resolver<T> {
    /// Makes this the other end of a new, unsettled future, and returns that. It uses the memory of the earlier,
    /// settled future if nobody holds that any more.
    #[inline]
    pub fn renew(&mut self) -> TaskFuture<T> {
        match Rc::get_mut(&mut self.cell) {
            Some(cell) => {
                cell.promise.get_mut().renew();
                cell.forget_past();
            }
            None => self.cell = Rc::new(FutureCell::new(())),
        }
        TaskFuture::of(self.cell.clone())
    }

    /// Whether it has settled its future.
    pub fn is_settled(&self) -> bool {
        self.cell.promise.borrow().is_settled()
    }

    /// A clone of the value, if it is there.
    pub fn value(&self) -> Option<T>
    where
        T: Clone,
    {
        match self.cell.promise.borrow().state() {
            PromiseState::Ready(value) => Some(value.clone()),
            _ => None,
        }
    }

    pub(crate) fn each_waiter(&self, each: &mut dyn FnMut(&Waiting)) {
        Sink::each_waiter(&*self.cell, each);
    }

    /// Notes the events before the value, which is about to be there, for the check for races.
    pub(crate) fn happens(&self, past: &VectorClock) {
        self.cell.past.get_or_init(Past::default).happens(past);
    }

    /// Settles the future.
    #[inline(always)]
    pub(crate) fn settle(&self, outcome: Result<T, Rc<Poison>>, tell: impl Tell) {
        self.cell.settle(outcome, tell);
    }
}

impl<T, B> FutureCell<T, B> {
    pub fn new(task: B) -> Self {
        Self { promise: RefCell::default(), past: OnceCell::new(), task }
    }

    /// Notes the events before the value of a task that is launched.
    pub fn begins(&self, event: Past) {
        let _ = self.past.set(event);
    }

    pub fn task(&self) -> &B {
        &self.task
    }

    pub fn task_mut(&mut self) -> &mut B {
        &mut self.task
    }

    /// A cell for `task`. It reuses `spare` if that is of the same type and nobody else has it.
    #[inline(always)]
    pub fn renewed(spare: Option<Rc<dyn Any>>, task: B) -> Rc<Self>
    where
        Self: 'static,
    {
        if let Some(Ok(mut cell)) = spare.map(Rc::downcast::<Self>)
            && let Some(fresh) = Rc::get_mut(&mut cell)
        {
            let promise = fresh.promise.get_mut();
            if promise.is_settled() {
                promise.renew();
            }
            fresh.task = task;
            fresh.forget_past();
            return cell;
        }
        Rc::new(Self::new(task))
    }

    /// Forgets a value that nobody wants, and its former waiters.
    #[inline]
    pub fn clear(&self) {
        if self.promise.borrow_mut().waiters_mut().is_none_or(|w| !w.is_empty()) {
            drop(self.promise.take());
        }
    }
}

/// It is compiled once, and not for each type of value.
fn tell_each(waiters: Waiters<Waiting>, tell: &mut dyn FnMut(Waiting)) {
    waiters.for_each(tell);
}

impl<T, B: ?Sized> FutureCell<T, B> {
    /// Settles the promise and tells its waiters. A second outcome is ignored: the first stays.
    #[inline(always)]
    pub fn settle(&self, outcome: Result<T, Rc<Poison>>, mut tell: impl Tell) {
        let outcome = match outcome {
            Ok(value) => {
                let settled = self.promise.borrow_mut().settle_for_one(value);
                match settled {
                    Ok(None) => return,
                    Ok(Some(waiting)) => return tell(waiting, None),
                    Err(value) => Ok(value),
                }
            }
            error => error,
        };
        self.settle_for_all(outcome, tell);
    }

    #[inline(never)]
    fn settle_for_all(&self, outcome: Result<T, Rc<Poison>>, mut tell: impl Tell) {
        let poison = outcome.is_err();
        let Ok(waiters) = self.promise.borrow_mut().settle(outcome) else { return };
        tell_each(waiters, &mut |waiting| match poison {
            true => self.tell_poison(waiting, &mut tell),
            false => tell(waiting, None),
        });
    }

    #[cold]
    fn tell_poison(&self, waiting: Waiting, tell: &mut impl Tell) {
        if let PromiseState::Poisoned(poison) = self.promise.borrow().state() {
            tell(waiting, Some(poison.failure.poison()));
        }
    }

    #[inline]
    fn forget_past(&mut self) {
        if self.past.get().is_some() {
            self.past = OnceCell::new();
        }
    }

    /// Notes that the program has got the value or the error. (This is looked up for few futures.)
    #[inline(always)]
    fn is_awaited(&self) {
        if let Some(event) = self.past.get() {
            races::awaited(event);
        }
    }

    /// Notes, for the check for races, that somebody sees the value or the error.
    #[inline(always)]
    fn is_seen(&self) {
        if let Some(event) = self.past.get() {
            races::seen(event);
        }
    }
}

/// A future whose type need not be known.
pub(crate) trait Sink {
    /// Those who await it.
    fn each_waiter(&self, each: &mut dyn FnMut(&Waiting));
}

impl<T, B> Sink for FutureCell<T, B> {
    fn each_waiter(&self, each: &mut dyn FnMut(&Waiting)) {
        if let PromiseState::Pending(waiters) = self.promise.borrow().state() {
            waiters.iter().for_each(|waiting| match waiting {
                Waiting::OneOf { arrivals, .. } => arrivals.look(each),
                waiting => each(waiting),
            });
        }
    }
}

/// The futures of an index launch or of the launch of a gang: one for each point or shard.
#[must_use = "await it with `all()`, or `detach()` it: a failure that no await returns fails whoever launched it"]
pub struct FutureMap<T> {
    futures: Vec<TaskFuture<T>>,
    /// Made when the first value is asked for in the order in which they come, with what stands in the places of those that
    /// have been given; and how many have.
    arrivals: Option<(Rc<Arrivals>, TaskFuture<T>)>,
    given: usize,
}

impl<T: 'static> FutureMap<T> {
    pub(crate) fn new(futures: Vec<TaskFuture<T>>) -> Self {
        Self { futures, arrivals: None, given: 0 }
    }

    /// Number of points or shards.
    pub fn len(&self) -> usize {
        self.futures.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.futures.is_empty()
    }

    /// The future of one point or shard. Never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is no such point.
    pub fn get(&self, point: usize) -> Result<&TaskFuture<T>, Error> {
        let legal = self.futures.len();
        self.futures.get(point).ok_or_else(|| Error::misuse("FutureMap::get", format!("a point in 0..{legal}"), point))
    }

    /// For a call that takes the values.
    #[doc(hidden)]
    pub fn get_mut(&mut self, point: usize) -> Option<&mut TaskFuture<T>> {
        self.futures.get_mut(point)
    }

    /// Gives the values up, as dropping the map does. The tasks still run. If one fails and the shard, the inner task or
    /// the top-level task that launched them does not learn of that from another await, it fails, too.
    pub fn detach(self) {}

    /// The futures, in the order of the points or shards.
    pub fn iter(&self) -> std::slice::Iter<'_, TaskFuture<T>> {
        self.futures.iter()
    }
}

/// Somebody awaits the next of several futures, until this is dropped.
struct Awaits<'a>(&'a Arrivals);

impl Drop for Awaits<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl<T: Clone + 'static> FutureMap<T> {
    /// The next value or error in the order in which they come, with the number of its point, shard or part. `None` if each has
    /// been given. Local; may wait. With a deadline, call it again afterwards: nothing is lost.
    ///
    /// ```
    /// # use maniple_runtime::*;
    /// # async fn some(shard: &Shard, parts: &mut FutureMap<u64>) -> Result<(), Error> {
    /// let limit = std::time::Duration::from_millis(5);
    /// match shard.timeout(limit, async { Ok(parts.next().await) }).await {
    ///     Ok(Some((from, value))) => println!("{from}: {}", value?),
    ///     Ok(None) => println!("that was all"),
    ///     Err(error) => println!("not yet: {error}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A value is moved out of the map, unless somebody else has a clone of its future. So memory on loan goes when the program
    /// drops the value, and whoever awaits the map's own future afterwards gets [`Error::Misuse`].
    ///
    /// The order differs from run to run, and in the top-level task from node to node. So this is for what commutes.
    pub async fn next(&mut self) -> Option<(usize, Result<T, Error>)> {
        if self.given == self.futures.len() {
            return None;
        }
        let (arrivals, gone) = self.arrivals.get_or_insert_with(|| {
            let arrivals = Rc::new(Arrivals::default());
            let (resolver, gone) = TaskFuture::pending();
            let expected = "one that `FutureMap::next` has not given";
            let error = Error::misuse("a value of a map of futures", expected, "one that it has given");
            resolver.settle(Err(Poison::of_the_run(&error)), |_, _: Option<&Error>| {});
            for (number, future) in (0..).zip(&self.futures) {
                future.ask();
                if !future.wait_here(Waiting::OneOf { number, arrivals: arrivals.clone() }) {
                    arrivals.arrive(number);
                }
            }
            (arrivals, gone)
        });
        let waits = Awaits(arrivals);
        let number = poll_fn(|cx| waits.0.next(cx.waker()).map_or(Poll::Pending, Poll::Ready)).await as usize;
        drop(waits);
        self.given += 1;
        let future = std::mem::replace(&mut self.futures[number], gone.clone());
        Some((number, future.take().await))
    }

    /// Awaits all values, in the order of the points or shards. Local; may wait.
    ///
    /// It waits for all of them, even if one fails. The error that it returns stands for all failures of the map: the
    /// program has then learned of each.
    ///
    /// # Errors
    /// If several failed, an error that follows from no other comes before one that does. So a panic comes before the
    /// tasks that it poisoned.
    pub async fn all(&self) -> Result<Vec<T>, Error> {
        let mut values = Vec::new();
        let mut failed: Option<Error> = None;
        for future in &self.futures {
            future.clone().settled().await;
        }
        // Nothing is told before it returns: a wait may be given up.
        for outcome in
            self.futures.iter().filter_map(|future| future.peek(|outcome| outcome.cloned().map_err(Error::clone)))
        {
            match outcome {
                Ok(v) => {
                    // Not before there is one: until then it may be long.
                    values.reserve_exact(self.futures.len() - values.len());
                    values.push(v);
                }
                Err(e) => failed = failed.into_iter().chain([e]).reduce(Error::or_cause),
            }
        }
        failed.map_or(Ok(values), Err)
    }
}

impl<T> IntoIterator for FutureMap<T> {
    type Item = TaskFuture<T>;
    type IntoIter = std::vec::IntoIter<TaskFuture<T>>;
    fn into_iter(self) -> Self::IntoIter {
        self.futures.into_iter()
    }
}

/// Futures of any launches and calls, to be awaited together.
impl<T: 'static> FromIterator<TaskFuture<T>> for FutureMap<T> {
    fn from_iter<I: IntoIterator<Item = TaskFuture<T>>>(futures: I) -> Self {
        Self::new(futures.into_iter().collect())
    }
}

impl<T> fmt::Debug for FutureMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.futures).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use crate::error::FailureNumber;
    use crate::ids::ProcessorId;
    use std::sync::Arc;
    use std::task::Wake;

    struct Silent;

    impl Wake for Silent {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_shard_that_polls_again_and_again_is_registered_once_and_its_waker_not_cloned() {
        let (_resolver, mut future) = TaskFuture::<u32>::pending();
        let own = Arc::new(Silent);
        let waker = Waker::from(own.clone());
        for _ in 0..10 {
            let polled = polling::polling(7, &waker, || Pin::new(&mut future).poll(&mut Context::from_waker(&waker)));
            assert!(polled.is_pending());
        }
        let mut promise = future.cell.promise.borrow_mut();
        let waiters = promise.waiters_mut().unwrap();
        assert!(matches!((waiters.len(), waiters.get_mut(0)), (1, Some(Waiting::Shard(7)))));
        assert_eq!(Arc::strong_count(&own), 2);
    }

    /// Whatever the order, the error is the first of those that follow from no other, if there is one.
    #[test]
    fn all_returns_the_error_that_follows_from_no_other() {
        let place = |shard| Place { task: "t".into(), shard: Some(shard) };
        let own = |shard| Error::Panicked { place: place(shard), message: "broken".into() };
        let follows = |shard| own(9).poisons(place(shard));
        let fails = |shard| Error::Failed { place: place(shard), cause: Box::new(Error::user("no luck")) };
        let cases = [
            (vec![Some(follows(0)), Some(own(1)), Some(own(2))], own(1)),
            (vec![None, Some(own(1)), Some(follows(2))], own(1)),
            (vec![Some(follows(0)), Some(fails(1)), Some(own(2))], fails(1)),
            (vec![Some(follows(0)), None, Some(follows(2))], follows(0)),
        ];
        for (errors, expected) in cases {
            let future = |error: Option<Error>| {
                let (resolver, future) = TaskFuture::pending();
                let number = FailureNumber::new(ProcessorId(0), 1);
                let failure = error.map(|error| Failure::new(error, || place(0), || number));
                let outcome = failure.map_or(Ok(1), |failure| Err(Rc::new(Poison { failure, among: None })));
                let _ = resolver.cell.promise.borrow_mut().settle(outcome);
                future
            };
            let map = FutureMap::new(errors.into_iter().map(future).collect());
            let mut all = std::pin::pin!(map.all());
            let polled = all.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Silent))));
            assert!(matches!(&polled, Poll::Ready(Err(e)) if *e == expected), "{polled:?}");
        }
    }

    #[test]
    fn nothing_is_left_of_a_map_that_was_dropped_or_of_a_next_that_was_given_up() {
        let waiters = |of: &Resolver<u32>| {
            let mut promise = of.cell.promise.borrow_mut();
            promise.waiters_mut().unwrap().len()
        };
        let waker = Waker::from(Arc::new(Silent));
        let (stop, stopped) = TaskFuture::<u32>::pending();
        for round in 0..100 {
            let (work, worked) = TaskFuture::<u32>::pending();
            let mut map: FutureMap<u32> = [stopped.clone(), worked].into_iter().collect();
            {
                let mut next = std::pin::pin!(map.next());
                assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                let mut awaited = 0;
                stop.each_waiter(&mut |_| awaited += 1);
                assert_eq!((awaited, waiters(&stop)), (1, 1));
            }
            // It awaits something else, or nothing.
            stop.each_waiter(&mut |_| panic!("nobody awaits it"));
            work.settle(Ok(round), |_, _: Option<&Error>| {});
        }
        assert_eq!(waiters(&stop), 0);
    }

    #[test]
    fn next_moves_values_out_of_the_map() {
        let held = Rc::new(());
        let (first, mut map) = (TaskFuture::ready(held.clone()), FutureMap::new(vec![TaskFuture::ready(held.clone())]));
        map.futures.push(first.clone());
        let waker = Waker::from(Arc::new(Silent));
        let mut cx = Context::from_waker(&waker);
        for at in [0, 1] {
            // Nobody else has the first one's future.
            let Poll::Ready(Some((number, Ok(value)))) = std::pin::pin!(map.next()).poll(&mut cx) else { panic!() };
            assert_eq!(number, at);
            drop(value);
            assert_eq!(Rc::strong_count(&held), 2);
            let again = std::pin::pin!(map.get(at).unwrap().clone()).poll(&mut cx);
            assert!(matches!(again, Poll::Ready(Err(Error::Misuse { .. }))), "{again:?}");
        }
        assert!(matches!(std::pin::pin!(map.next()).poll(&mut cx), Poll::Ready(None)));
        drop(first);
        assert_eq!(Rc::strong_count(&held), 1);
    }

    #[test]
    fn each_clone_has_a_waiter_of_its_own() {
        let (_resolver, mut one) = TaskFuture::<u32>::pending();
        let mut other = one.clone();
        let own = [Arc::new(Silent), Arc::new(Silent)];
        let wakers = own.clone().map(Waker::from);
        for _ in 0..10 {
            assert!(Pin::new(&mut one).poll(&mut Context::from_waker(&wakers[0])).is_pending());
            assert!(Pin::new(&mut other).poll(&mut Context::from_waker(&wakers[1])).is_pending());
        }
        assert_eq!(one.cell.promise.borrow_mut().waiters_mut().unwrap().len(), 2);
        // The one moves to the other's waker: both are then woken by that.
        assert!(Pin::new(&mut one).poll(&mut Context::from_waker(&wakers[1])).is_pending());
        assert_eq!(own.map(|o| Arc::strong_count(&o)), [2, 4]);
    }

    #[test]
    fn nothing_is_left_of_an_await_that_was_given_up() {
        let (resolver, mut kept) = TaskFuture::<u32>::pending();
        let own = Arc::new(Silent);
        let waker = Waker::from(own.clone());
        let mut poll = |future: &mut TaskFuture<u32>| {
            assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
        };
        poll(&mut kept);
        // Each is registered before the one before it goes.
        let mut others: std::collections::VecDeque<_> = (0..4).map(|_| kept.clone()).collect();
        others.iter_mut().for_each(&mut poll);
        for _ in 0..1000 {
            others.push_back(kept.clone());
            poll(&mut others[4]);
            others.pop_front();
            assert_eq!(kept.cell.promise.borrow_mut().waiters_mut().unwrap().len(), 5);
        }
        others.clear();
        assert_eq!(kept.cell.promise.borrow_mut().waiters_mut().unwrap().len(), 1);
        drop(kept);
        assert!(resolver.cell.promise.borrow_mut().waiters_mut().unwrap().is_empty());
        assert_eq!(Arc::strong_count(&own), 2);
    }
}
