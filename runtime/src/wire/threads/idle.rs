//! How a processor without work announces it, finds out whether all are idle, and sleeps (README, rules 9 and 13 to
//! 16).

use super::super::OUTSIDE;
use super::super::park::{Wake, fence};
use super::super::sync::atomic::Ordering;
use super::drive::Driven;
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::post::{Post, Public};
use crate::Progress;
use crate::ids::ProcessorId;
use std::time::{Duration, Instant};

/// How long a processor sleeps before it looks for messages from other hosts.
const SHORTEST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// Announces that there is nothing to do, checks whether that is so for everybody, and sleeps. True if it slept until
/// its deadline.
pub fn sleep<M: Send + 'static>(
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
            woken = rest(post, me, still_idle, look.into_iter().chain(alarm).min());
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
/// deadlock. Several hosts find it out together, when they get on with their messages.
pub fn quiescent<M>(post: &Post<M>) -> bool {
    let look = || counts(post.processors.iter());
    post.other_hosts.is_none() && matches!((look(), look()), (Some(a), Some(b)) if a == b && a.0 == a.1)
}

/// How many messages these processors have sent and received, if each is idle and nobody outside can wake it.
pub fn counts<'a>(publics: impl Iterator<Item = &'a Public>) -> Option<(u64, u64)> {
    let (mut sent, mut received) = (0u64, 0u64);
    for p in publics {
        if !p.idle.load(Ordering::Acquire) || p.awaits_outside.load(Ordering::Acquire) {
            return None;
        }
        sent = sent.wrapping_add(p.sent.load(Ordering::Acquire));
        received = received.wrapping_add(p.received.load(Ordering::Acquire));
    }
    Some((sent, received))
}

/// Sleeps until woken, or until `deadline`. Where the processors see to messages from other hosts, it gets up now and then
/// to do so, less and less often as long as there is no news.
pub fn rest<M>(post: &Post<M>, me: &Public, mut still_idle: impl FnMut() -> bool, deadline: Option<Instant>) -> Wake {
    if post.other_hosts != Some(Progress::Poll) {
        return me.parker.park(still_idle, deadline);
    }
    let mut nap = SHORTEST_NAP;
    loop {
        let up = Instant::now() + nap;
        let woken = me.parker.park(&mut still_idle, deadline.into_iter().chain([up]).min());
        if woken != Wake::TimedOut || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return woken;
        }
        // Its counts stay as they are: it counts as idle meanwhile.
        nap = if post.progress() { SHORTEST_NAP } else { (nap * 2).min(LONGEST_NAP) };
    }
}
