//! Waits with a deadline, and waits for barriers that are given up.

use crate::diagnose::Event;
use crate::effects::Timer;
use crate::effects::polling::Poller;
use crate::ids::WaitAt;
use crate::plant::Bug;
use crate::processor::Core;
use crate::program::launch::{WaitPoint, Waitable};
use crate::program::shard::Shard;
use crate::{Error, Place};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

impl Shard {
    /// Waits for `wait`, but no longer than `limit`. Local, not collective; may wait.
    ///
    /// `wait` can be a future, all of a [`FutureMap`](crate::FutureMap), a call of a collective, a barrier, or any other
    /// future of a `Result`. The futures of [`window`](Self::window) and [`yield_now`](Self::yield_now) give `()`, so
    /// they are not accepted.
    ///
    /// The time counts from the first poll. With [`Duration::ZERO`] it never waits, and tests whether `wait` has ended. A
    /// loop of such tests must call [`yield_now`](Self::yield_now), or nothing else of this processor runs.
    ///
    /// A time-out does no harm: the operation goes on, and can be awaited again. A call of a collective can't be taken back:
    /// the shard ends only when the call does.
    ///
    /// - A [`TaskFuture`](crate::TaskFuture), also of a call of a collective: pass `&mut future`, or a clone.
    /// - A `FutureMap`: call [`all`](crate::FutureMap::all) again.
    /// - A barrier: call [`wait`](Self::wait) or [`wait_value`](Self::wait_value) again. The wait that timed out has
    ///   given its generation back, unless a later one has been taken meanwhile (see [`wait`](Self::wait)).
    /// - Anything else: pin it and pass `&mut`. A future that is passed by value is dropped.
    ///
    /// ```
    /// use maniple_runtime::{Error, Edges, Runtime, Shard, ShardLaunch};
    /// use std::time::Duration;
    ///
    /// /// Shard 0 does something else until shard 1 has arrived.
    /// async fn shard(shard: Shard, pairs: Edges) -> Result<u64, Error> {
    ///     if shard.index() == 1 {
    ///         shard.arrive(pairs.producer(&shard, 0)?.ready());
    ///         return Ok(0);
    ///     }
    ///     let other = pairs.consumer(&shard, 1)?;
    ///     let mut turns = 0;
    ///     loop {
    ///         match shard.timeout(Duration::from_millis(1), shard.wait(other.ready())).await {
    ///             Ok(()) => return Ok(turns),
    ///             Err(Error::TimedOut { .. }) => turns += 1,
    ///             Err(other) => return Err(other),
    ///         }
    ///     }
    /// }
    /// # Runtime::threads(2).run(|top| async move {
    /// #     let gang = top.gang("both", 2)?;
    /// #     let pairs = top.edges("there", &gang, [(0, 1), (1, 0)], 1)?;
    /// #     let task = top.register("waits", shard);
    /// #     top.launch_gang(&gang, &task, |_| ShardLaunch::new(pairs))?.all().await
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// A test of a future, and a wait for the same one:
    ///
    /// ```
    /// # use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
    /// # use std::time::Duration;
    /// async fn shard(shard: Shard, _: ()) -> Result<u64, Error> {
    ///     let mut answer = shard.launch(|| 42, ()).go()?;
    ///     // The task has not run: it runs when the shard waits.
    ///     let now = shard.timeout(Duration::ZERO, &mut answer).await;
    ///     assert!(matches!(now, Err(Error::TimedOut { .. })));
    ///     shard.timeout(Duration::from_secs(10), &mut answer).await
    /// }
    /// # Runtime::threads(1).run(|top| async move {
    /// #     let (gang, task) = (top.gang("one", 1)?, top.register("asks", shard));
    /// #     let answers = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?;
    /// #     assert_eq!(answers, [42]);
    /// #     Ok(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// The wait never ends before `limit`. It ends later if a leaf task or another shard of the processor runs at that
    /// moment. A run with a deadline ahead is not in a deadlock. A limit beyond the end of the clock (584 years) is no
    /// limit.
    ///
    /// On the seeded driver a step counts for a microsecond. If nothing but deadlines is left, its clock moves on to
    /// the next one. While somebody outside the run holds a waker, its clock follows the host's.
    ///
    /// The top-level task can't set a deadline, as the time may be over on one node and not on another.
    ///
    /// # Errors
    /// [`Error::TimedOut`] with this shard's place and `limit`. Otherwise the errors of `wait`. If `wait` has ended when
    /// the time has passed, its result or its error counts.
    #[must_use = "a wait begins when it is awaited: `shard.timeout(..).await?`"]
    pub fn timeout<T>(
        &self,
        limit: Duration,
        wait: impl Future<Output = Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> {
        self.waited_within(limit, wait)
    }

    async fn waited_within<T>(
        &self,
        limit: Duration,
        wait: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut wait = pin!(wait);
        let mut timer: Option<Timer<'_>> = None;
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = wait.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            let is_over = match &mut timer {
                _ if limit.is_zero() => true,
                Some(timer) => timer.is_over(cx.waker()),
                None => {
                    timer = self.core().effects().timer(limit, cx.waker());
                    false
                }
            };
            if is_over { Poll::Ready(Err(timed_out(self.place(), limit))) } else { Poll::Pending }
        })
        .await
    }
}

#[cold]
fn timed_out(place: Place, limit: Duration) -> Error {
    Error::TimedOut { place, limit }
}

/// A generation of a barrier that a shard waits for. If this is dropped before the wait ends, it gives the generation back.
pub(crate) struct UnderWay<'a, B: Waitable> {
    core: &'a Core,
    barrier: &'a B,
    point: WaitPoint,
    /// The poller that is registered at the barrier: none before the first look and after the wait.
    pub registered: Option<Poller>,
}

impl<'a, B: Waitable> UnderWay<'a, B> {
    /// Takes the next generation.
    pub fn next(core: &'a Core, barrier: &'a B) -> Self {
        let point = barrier.next_wait();
        core.effects().event(|| Event::Waits { at: point.0 });
        Self { core, barrier, point, registered: None }
    }

    pub fn point(&self) -> WaitAt {
        self.point.0
    }
}

impl<B: Waitable> Drop for UnderWay<'_, B> {
    fn drop(&mut self) {
        let Some(poller) = self.registered else { return };
        // Its waker's destructor is not ours: nothing is borrowed any more.
        drop(self.core.tasks.barriers.withdraw(self.point(), poller));
        self.core.effects().event(|| Event::WaitGivenUp { at: self.point() });
        if self.core.effects().strikes(Bug::LostTimeOut) {
            return;
        }
        self.barrier.give_back(&self.point);
    }
}
