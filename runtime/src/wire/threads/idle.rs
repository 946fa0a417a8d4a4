//! How a processor without work announces it, finds out whether all are idle, and sleeps (README, rules 9 and 13 to
//! 16).

use super::super::OUTSIDE;
use super::super::park::{Wake, fence};
use super::super::sync::atomic::Ordering;
use super::drive::Driven;
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::post::{Post, Public};
use crate::ids::ProcessorId;
use std::time::{Duration, Instant};

/// Announces that there is nothing to do, checks whether that is so for everybody, and sleeps. True if it slept until
/// its deadline.
pub fn sleep<M: Send>(
    driven: &impl Driven<M>,
    post: &Post<M>,
    id: ProcessorId,
    outbox: &Outbox<M>,
    inbox: &Inbox<M>,
) -> bool {
    let me = &post.processors[id.index()];
    outbox.flush();
    let Some(awaits_outside) = announce(driven, me, outbox.sent(), inbox.received()) else {
        return false;
    };
    let still_idle = || inbox.is_empty(post, id) && !driven.has_work();
    let mut woken = Wake::NotIdle;
    if still_idle() && quiescent(post) {
        post.give_up();
    } else {
        // Nobody reports that a waker was dropped, so the processor looks again after a while.
        let look = awaits_outside.then(|| Instant::now() + OUTSIDE);
        let alarm = driven.next_deadline().and_then(|at| post.start.checked_add(Duration::from_nanos(at)));
        driven.park(|| {
            woken = me.parker.park(still_idle, look.into_iter().chain(alarm).min());
        });
    }
    me.idle.store(false, Ordering::Release);
    woken == Wake::TimedOut
}

/// Publishes that there is nothing to do, and returns whether the processor waits for somebody outside. If somebody
/// outside has woken it meanwhile, publishes nothing and returns `None`.
pub fn announce<M>(driven: &impl Driven<M>, me: &Public, sent: u64, received: u64) -> Option<bool> {
    let awaits_outside = driven.has_foreign_waker();
    // The last holder of a waker may have left a wake, which is sure to be visible only now.
    if driven.has_work() {
        return None;
    }
    publish(me, (sent, received), awaits_outside || driven.next_deadline().is_some());
    Some(awaits_outside)
}

/// Publishes that a processor is idle, with its counts of sent and received messages.
pub fn publish(me: &Public, (sent, received): (u64, u64), awaits_outside: bool) {
    // All with Release: a processor that sees one of these sees that this one was not idle in between.
    me.sent.store(sent, Ordering::Release);
    me.received.store(received, Ordering::Release);
    me.awaits_outside.store(awaits_outside, Ordering::Release);
    me.idle.store(true, Ordering::Release);
    // If several go idle at once, the last one to fence sees the others idle: README, rule 15.
    fence();
}

/// Whether the run is stuck: every processor is idle, nobody outside can wake one, and every message sent has been
/// received. It looks twice, because a processor may wake during the first look. The run then ends with a report of the
/// deadlock.
pub fn quiescent<M>(post: &Post<M>) -> bool {
    let look = || -> Option<(u64, u64)> {
        let (mut sent, mut received) = (0u64, 0u64);
        for p in post.processors.iter() {
            if !p.idle.load(Ordering::Acquire) || p.awaits_outside.load(Ordering::Acquire) {
                return None;
            }
            sent = sent.wrapping_add(p.sent.load(Ordering::Acquire));
            received = received.wrapping_add(p.received.load(Ordering::Acquire));
        }
        (sent == received).then_some((sent, received))
    };
    matches!((look(), look()), (Some(a), Some(b)) if a == b)
}
