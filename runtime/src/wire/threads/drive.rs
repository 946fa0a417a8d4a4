//! The loop of a processor: handles messages, runs ready items, sends, and sleeps when there is nothing to do. The work
//! itself is up to [`Driven`].

use super::super::park::fence;
use super::super::sync::atomic::Ordering;
use super::super::sync::{spin_loop, yield_now};
use super::idle::{Patience, Rest, publish, quiescent, rest, sleep};
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::post::Post;
use crate::Progress;
use crate::ids::ProcessorId;
use std::time::{Duration, Instant};

/// Turns with work between two looks for messages of other hosts, unless they take longer than this.
const BETWEEN: u32 = 16;
const LONG: Duration = Duration::from_micros(50);
/// The part of the time of long turns that is given to messages of other hosts that are under way.
const PART: u32 = 16;

/// The work that messages are about: a processor's core, or a few numbers in a model.
pub trait Driven<M> {
    /// Handles a message.
    fn receive(&self, source: ProcessorId, message: M);
    /// Runs ready items for a while. False if there were none.
    fn turn(&self) -> bool;
    /// Whether there is something to run.
    fn has_work(&self) -> bool;
    /// Whether somebody outside may bring work. If not, any work brought from outside before is now visible to
    /// [`Self::has_work`].
    fn has_foreign_waker(&self) -> bool;
    /// When the first timer ends, in nanoseconds since the run began.
    fn next_deadline(&self) -> Option<u64>;
    /// Calls `sleep`, which returns when the processor is woken.
    fn park(&self, sleep: impl FnOnce());
    /// Whether nothing more is to be done.
    fn stopped(&self) -> bool;
}

/// Runs the processor `id` until its work is stopped or the run is given up.
pub fn drive<M: Send + 'static>(
    id: ProcessorId,
    driven: &impl Driven<M>,
    post: &Post<M>,
    outbox: &Outbox<M>,
    inbox: &mut Inbox<M>,
    mut patience: Patience,
) {
    let me = &post.processors[id.index()];
    let polls = post.other_hosts == Some(Progress::Poll);
    let (mut turns, mut looked) = (0u32, Instant::now());
    while !driven.stopped() && !post.is_given_up() {
        let before = inbox.received();
        inbox.take_in(post, id, |source, message| driven.receive(source, message));
        let ran = driven.turn();
        outbox.tend();
        if ran || inbox.received() != before {
            patience.works();
            if polls {
                turns = (turns + 1) % BETWEEN;
                let took = looked.elapsed();
                if turns == 0 || took > LONG {
                    let until = looked + took + took / PART;
                    while post.progress() && Instant::now() < until {}
                    looked = Instant::now();
                }
            }
            continue;
        }
        let rest = patience.idles();
        if polls {
            post.progress();
            looked = Instant::now();
            if !inbox.is_empty(post, id) {
                continue;
            }
        }
        match rest {
            _ if outbox.has_backlog() => yield_now(),
            Rest::LooksAgain => {}
            // A pause is about as long as a message takes.
            Rest::Pauses => spin_loop(),
            Rest::Yields => yield_now(),
            Rest::Sleeps => {
                let woken = sleep(driven, post, id, outbox, inbox);
                patience.has_slept(woken, || me.parker.lateness());
                looked = Instant::now();
            }
        }
    }
    linger(id, driven, post, outbox, inbox);
    me.gone.store(true, Ordering::Relaxed);
    outbox.flush();
    // `Stop` may be in the backlog, and until it comes the others read.
    while outbox.has_backlog() && !post.is_given_up() {
        yield_now();
        post.progress();
        outbox.flush();
    }
}

/// Where there are other processes: goes on to receive until the processors of all processes are done, so that it can be
/// seen when those that are not can't go on.
fn linger<M: Send + 'static>(
    id: ProcessorId,
    driven: &impl Driven<M>,
    post: &Post<M>,
    outbox: &Outbox<M>,
    inbox: &mut Inbox<M>,
) {
    if post.abroad.is_none() {
        return;
    }
    let me = &post.processors[id.index()];
    me.done.store(true, Ordering::Release);
    fence();
    post.processors.iter().for_each(|p| p.parker.wake());
    let all_done = || post.processors.iter().all(|p| p.done.load(Ordering::Acquire));
    while !all_done() && !post.is_given_up() {
        let before = inbox.received();
        inbox.take_in(post, id, |source, message| driven.receive(source, message));
        outbox.flush();
        if inbox.received() != before {
            continue;
        }
        if outbox.has_backlog() {
            yield_now();
            post.progress();
            continue;
        }
        publish(me, (outbox.sent(), inbox.received()), false);
        let still_idle = || inbox.is_empty(post, id) && !all_done() && !post.is_given_up();
        // Whoever is idle there is done, or can't go on.
        if still_idle() && quiescent(post) && !all_done() {
            post.give_up();
        } else {
            let _ = rest(post, me, still_idle, None);
        }
        me.idle.store(false, Ordering::Release);
    }
}
