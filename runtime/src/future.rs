use crate::Error;
use crate::core::{Core, Waiting};
use crate::current;
use maniple_barriers::{Promise, PromiseState};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

pub(crate) struct FutureCell<T> {
    promise: RefCell<Promise<T, Waiting, Box<Error>>>,
    /// Somebody has seen the error, or will be told of it.
    seen: Cell<bool>,
}

/// The value a subtask will return. It does not leave the shard that launched the subtask (it is not `Send`); give it to
/// later launches as an input, or `.await` it.
///
/// Awaiting gives a clone of the value, or the error of the task that was to make it; it may wait. Local, not
/// collective.
#[must_use = "a future that nobody awaits or passes on hides its task's failure"]
pub struct TaskFuture<T> {
    cell: Rc<FutureCell<T>>,
}

/// The other end of a [`TaskFuture`].
pub struct Resolver<T> {
    cell: Rc<FutureCell<T>>,
}

impl<T> Clone for TaskFuture<T> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone() }
    }
}

impl<T> fmt::Debug for TaskFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cell.promise.borrow().state() {
            PromiseState::Pending => "TaskFuture(pending)",
            PromiseState::Ready(_) => "TaskFuture(ready)",
            PromiseState::Poisoned(_) => "TaskFuture(poisoned)",
        })
    }
}

impl<T: 'static> TaskFuture<T> {
    /// An unsettled future and its other end.
    pub fn pending() -> (Resolver<T>, Self) {
        let cell = Rc::new(FutureCell { promise: RefCell::new(Promise::default()), seen: Cell::new(false) });
        (Resolver { cell: cell.clone() }, Self { cell })
    }

    /// A future that holds `value` already.
    pub fn ready(value: T) -> Self {
        let mut promise = Promise::default();
        let _ = promise.settle(Ok(value));
        Self { cell: Rc::new(FutureCell { promise: RefCell::new(promise), seen: Cell::new(false) }) }
    }

    /// Lets the task go its way without its value. If it fails and nobody else is told, its shard fails.
    pub fn detach(self) {}

    /// Whether the value or an error is there. Never waits.
    pub fn is_settled(&self) -> bool {
        self.cell.promise.borrow().is_settled()
    }

    /// Looks at the outcome, if it is there. Never waits.
    pub fn peek<R>(&self, look: impl FnOnce(Result<&T, &Error>) -> R) -> Option<R> {
        match self.cell.promise.borrow().state() {
            PromiseState::Pending => None,
            PromiseState::Ready(v) => Some(look(Ok(v))),
            PromiseState::Poisoned(e) => {
                self.cell.seen.set(true);
                Some(look(Err(e)))
            }
        }
    }

    /// Registers a waiter; false when the future is settled already.
    pub(crate) fn wait(&self, waiting: Waiting) -> bool {
        self.cell.promise.borrow_mut().wait(waiting)
    }
}

impl<T: Clone + 'static> Future for TaskFuture<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.peek(|outcome| outcome.cloned().map_err(Clone::clone));
        match outcome {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                let registered = self.wait(current::waiting(cx.waker()));
                debug_assert!(registered);
                Poll::Pending
            }
        }
    }
}

impl<T: 'static> Resolver<T> {
    /// Settles the future. A second outcome is ignored: the first stays.
    #[inline]
    pub(crate) fn settle(self, core: &Rc<Core>, outcome: Result<T, Error>) {
        settle(&self.cell, core, outcome.map_err(Box::new));
    }

    /// The same, with `failures` told of an error that nobody may be awaiting.
    pub(crate) fn settle_watched(self, core: &Rc<Core>, outcome: Result<T, Error>, failures: &Failures) {
        match outcome {
            Ok(value) => settle(&self.cell, core, Ok(value)),
            Err(error) => {
                settle(&self.cell, core, Err(Box::new(error.clone())));
                failures.add(error, self.cell);
            }
        }
    }
}

fn settle<T>(cell: &FutureCell<T>, core: &Rc<Core>, outcome: Result<T, Box<Error>>) {
    let Ok(waiters) = cell.promise.borrow_mut().settle(outcome) else { return };
    waiters.for_each(|waiting| match cell.promise.borrow().state() {
        PromiseState::Poisoned(e) => {
            cell.seen.set(true);
            core.notify_poison(waiting, || (**e).clone());
        }
        _ => core.notify(waiting),
    });
}

/// A future whose type the leaf slab need not know.
pub(crate) trait Sink {
    /// Settles from `output`, an `Option<T>` that holds the value.
    fn settle_from(&self, core: &Rc<Core>, output: &mut dyn std::any::Any);
    fn settle_error(&self, core: &Rc<Core>, error: Error);
    /// Whether somebody has seen the error, or has been told of it.
    fn seen(&self) -> bool;
}

/// Failures of tasks that one parent launched, with their futures.
#[derive(Default)]
pub(crate) struct Failures(RefCell<Vec<(Error, Rc<dyn Sink>)>>);

impl Failures {
    pub fn add(&self, error: Error, future: Rc<dyn Sink>) {
        self.0.borrow_mut().push((error, future));
    }

    /// The first failure that nobody saw, neither itself nor what it caused.
    pub fn unseen(&self) -> Option<Error> {
        let all = self.0.borrow();
        let seen: Vec<&Error> = all.iter().filter(|(_, f)| f.seen()).map(|(e, _)| e.origin()).collect();
        all.iter().map(|(e, _)| e).find(|e| !seen.contains(&e.origin())).cloned()
    }
}

impl<T: 'static> Sink for FutureCell<T> {
    fn settle_from(&self, core: &Rc<Core>, output: &mut dyn std::any::Any) {
        let value = output.downcast_mut::<Option<T>>().and_then(Option::take);
        let missing = || Error::Stopped { what: "a task's result".into() };
        settle(self, core, value.ok_or_else(|| Box::new(missing())));
    }

    fn settle_error(&self, core: &Rc<Core>, error: Error) {
        settle(self, core, Err(Box::new(error)));
    }

    fn seen(&self) -> bool {
        self.seen.get()
    }
}

impl<T: 'static> TaskFuture<T> {
    pub(crate) fn sink(&self) -> Rc<dyn Sink> {
        self.cell.clone()
    }
}

/// The futures of an index launch or of a gang, one for each point or shard.
#[must_use = "a future map that nobody awaits hides the failures of its tasks"]
pub struct FutureMap<T> {
    futures: Vec<TaskFuture<T>>,
}

impl<T: 'static> FutureMap<T> {
    pub(crate) fn new(futures: Vec<TaskFuture<T>>) -> Self {
        Self { futures }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.futures.len()
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.futures.is_empty()
    }

    /// The future of one point.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is no such point.
    pub fn get(&self, point: usize) -> Result<&TaskFuture<T>, Error> {
        let legal = self.futures.len();
        self.futures.get(point).ok_or_else(|| Error::misuse("FutureMap::get", format!("a point in 0..{legal}"), point))
    }

    /// The futures in the order of the points.
    pub fn iter(&self) -> std::slice::Iter<'_, TaskFuture<T>> {
        self.futures.iter()
    }
}

impl<T: Clone + 'static> FutureMap<T> {
    /// All values in the order of the points. May wait.
    ///
    /// # Errors
    /// The error that is the origin of the others, if several failed: a panic before what it poisoned.
    pub async fn all(&self) -> Result<Vec<T>, Error> {
        let mut values = Vec::with_capacity(self.futures.len());
        let mut failed: Option<Error> = None;
        for future in &self.futures {
            match future.clone().await {
                Ok(v) => values.push(v),
                Err(e) => match &failed {
                    Some(f) if f.cause().is_none() || e.cause().is_some() => {}
                    _ => failed = Some(e),
                },
            }
        }
        failed.map_or(Ok(values), Err)
    }
}

impl<T> fmt::Debug for FutureMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.futures).finish()
    }
}
