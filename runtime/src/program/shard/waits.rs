//! The waits and arrivals of a shard, and the wait for its leaf tasks.

use super::Shard;
use crate::Error;
use crate::barrier::Waited;
use crate::diagnose::Event;
use crate::effects::polling::Poller;
use crate::effects::{Waiting, polling};
use crate::error::Failure;
use crate::ids::ArrivalAt;
use crate::program::deadline::UnderWay;
use crate::program::launch::{Arrivable, Waitable};
use crate::program::phase::{PhaseArriver, PhaseWaiter};
use std::future::{Future, poll_fn};
use std::task::Poll;

impl Shard {
    /// A number of leaf tasks for [`window`](Self::window) that suits most loops.
    pub const WINDOW: u32 = 8;

    /// Waits for the next generation of a barrier. Local; may wait. [`timeout`](Self::timeout) sets a limit.
    ///
    /// The wait takes its generation when it is first polled. If it is dropped before it ends, it gives the generation back,
    /// and the next wait is for the same one. That happens after a time-out, or when another branch of a `select!` wins. Of
    /// several waits under way on one end of a barrier, only the one that began last can give its generation back. The
    /// generation of another one is skipped. So drop them in reverse order, or keep them and await them again.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the generation will never complete; its cause says why.
    ///
    /// A wait that is not awaited does not begin. The compiler warns of it:
    ///
    /// ```compile_fail
    /// # #![deny(unused_must_use)]
    /// # use maniple_runtime::{Consumer, Error, Shard};
    /// async fn shard(shard: Shard, other: Consumer) -> Result<(), Error> {
    ///     shard.wait(other.ready());
    ///     Ok(())
    /// }
    /// ```
    #[must_use = "a wait begins when it is awaited: `shard.wait(..).await?`"]
    pub fn wait(&self, barrier: &impl Waitable) -> impl Future<Output = Result<(), Error>> {
        self.waited(barrier)
    }

    async fn waited(&self, barrier: &impl Waitable) -> Result<(), Error> {
        let (core, barriers) = (self.core(), &self.core().tasks.barriers);
        let mut wait = UnderWay::next(core, barrier);
        let point = wait.point();
        poll_fn(|cx| {
            let outcome = match wait.registered {
                Some(poller) if poller.polls_with(cx.waker()) => barriers.state(core.effects(), point),
                earlier => {
                    let waiting = polling::waiting(cx.waker());
                    wait.registered = Poller::of(&waiting);
                    match earlier {
                        None => barriers.wait(core.effects(), point, waiting),
                        Some(earlier) => barriers.wait_instead(core.effects(), point, earlier, waiting),
                    }
                }
            };
            let over = match outcome {
                Waited::Registered => return Poll::Pending,
                Waited::Complete => {
                    let effects = core.effects();
                    effects.event(|| Event::Waited { shard: self.actor(), at: point, waiters: effects.waiters(point) });
                    Ok(())
                }
                Waited::Poisoned(e) => {
                    core.effects().event(|| Event::WaitedInVain { shard: self.actor(), at: point });
                    // The shard's program learns of it now.
                    self.inner.owner.failures().tell(&e);
                    Err(e.poisons(self.place()))
                }
            };
            wait.registered = None;
            Poll::Ready(over)
        })
        .await
    }

    /// Arrives at a barrier now, for the next generation that no launch has taken. Local; never waits.
    ///
    /// If the barrier refuses the arrival, as one beyond its window, the barrier is poisoned and the run fails with
    /// [`Error::Barrier`].
    pub fn arrive(&self, barrier: &impl Arrivable) {
        let at = barrier.next_arrival().0;
        self.core().effects().event(|| Event::Arrived { shard: self.actor(), at });
        self.core().tasks.arrive(&at);
        // The shard's own code may now take its time.
        self.core().effects().send_what_is_late();
    }

    /// Arrives at a phase barrier with a value that is combined with the others of its generation; see
    /// [`PhaseOptions::reduce`](crate::PhaseOptions::reduce). Local; never waits.
    pub fn arrive_with(&self, barrier: &PhaseArriver, value: u64) {
        let (object, (arriver, generation)) = (barrier.0.arriver.address().object, barrier.0.take());
        let at = ArrivalAt::Phase { object, arriver, generation, value };
        self.core().effects().event(|| Event::Arrived { shard: self.actor(), at });
        self.core().tasks.arrive(&at);
    }

    /// Waits for the next generation of a phase barrier and gives its combined value. Local; may wait. A wait that is
    /// dropped gives its generation back, as with [`wait`](Self::wait).
    ///
    /// A processor keeps the values of the last 64 generations, or of one more than the barrier's window if that is
    /// larger, but of at most 65536. So a waiter that also arrives is never too late, unless the window is that wide.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the generation will never complete, and [`Error::Misuse`] when its value is no longer
    /// kept.
    #[must_use = "a wait begins when it is awaited: `shard.wait_value(..).await?`"]
    pub fn wait_value(&self, barrier: &PhaseWaiter) -> impl Future<Output = Result<u64, Error>> {
        self.waited_value(barrier)
    }

    async fn waited_value(&self, barrier: &PhaseWaiter) -> Result<u64, Error> {
        let (object, generation) = (barrier.address().object, barrier.generation());
        self.wait(barrier).await?;
        self.core().tasks.barriers.phases.value(object, generation).map_err(|(over, kept)| {
            let what = format!("the value of a reduction barrier in {}", self.place());
            let expected = format!("one of the last {kept} generations of {over}");
            Error::misuse(what, expected, format!("generation {generation}"))
        })
    }

    /// Lets other work of this processor that is ready run first. Local.
    #[must_use = "nothing else runs before it is awaited: `shard.yield_now().await`"]
    pub fn yield_now(&self) -> impl Future<Output = ()> {
        self.yielded()
    }

    async fn yielded(&self) {
        let mut yielded = false;
        poll_fn(|cx| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            match polling::waiting(cx.waker()) {
                Waiting::Shard(slot) => self.core().effects().yield_shard(slot),
                Waiting::Waker(w) => w.wake(),
                waiting => self.core().tasks.notify(waiting),
            }
            Poll::Pending
        })
        .await;
    }

    /// Limits how far a loop runs ahead of its tasks. Local; may wait.
    ///
    /// If more than `most` leaf tasks and calls of this shard are under way, it waits until at most `most / 2` are. Use
    /// it in a loop that launches tasks without waiting for their results.
    ///
    /// Without it, such a loop launches all its iterations before the first task runs. That takes memory for all of
    /// them, and the values of an iteration have left the cache when its tasks run. [`WINDOW`](Self::WINDOW) suits most
    /// loops. A window of more than the tasks of a few iterations gains nothing.
    ///
    /// ```
    /// # use maniple_runtime::{Error, Shard};
    /// async fn shard(shard: Shard, steps: u64) -> Result<(), Error> {
    ///     for _ in 0..steps {
    ///         shard.window(Shard::WINDOW).await;
    ///         shard.launch(|| (), ()).go()?.detach();
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use = "a window holds a loop back where it is awaited: `shard.window(..).await`"]
    pub fn window(&self, most: u32) -> impl Future<Output = ()> {
        self.windowed(most)
    }

    async fn windowed(&self, most: u32) {
        if self.inner.owner.running() > most {
            self.leaves_left(most / 2).await;
        }
    }

    async fn leaves_left(&self, left: u32) {
        poll_fn(|cx| match self.inner.owner.poll(left, polling::waiting(cx.waker())) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Waits for the leaf tasks of this shard.
    pub(crate) async fn no_leaves(&self) {
        self.leaves_left(0).await;
        self.core().effects().event(|| Event::TasksAwaited { shard: self.actor() });
    }

    /// Waits for the leaf tasks of this shard. Gives the first failure that no await of the shard has returned.
    pub(crate) async fn leaves_over(&self) -> Option<Failure> {
        self.no_leaves().await;
        self.inner.owner.first_untold()
    }

    /// Whether no leaf task runs, and awaits of the shard have returned every failure.
    pub(crate) fn is_over_well(&self) -> bool {
        self.inner.owner.is_over() && self.inner.owner.first_untold().is_none()
    }
}
