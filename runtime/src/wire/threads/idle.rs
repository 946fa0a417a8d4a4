//! How a processor without work announces it, finds out whether all are idle, and sleeps (README, rules 9 and 13 to
//! 16).

use super::super::OUTSIDE;
use super::super::park::{Wake, fence};
use super::super::sync::MODEL;
use super::super::sync::atomic::Ordering;
use super::drive::Driven;
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::post::{Post, Public};
use crate::ids::ProcessorId;
use crate::{Idle, Progress};
use std::time::{Duration, Instant};

/// How long a processor sleeps before it looks for messages from other hosts.
const SHORTEST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// Turns without work before a processor that shares its core sleeps. Spinning would take the core from one with work.
const YIELDS: u32 = if MODEL { 1 } else { 3 };
/// Turns without work before it pauses between turns, and looks at the clock every this many turns.
const BRISK: u32 = 64;
/// How long a processor with a core of its own looks for work before it sleeps: several times as long as waking one takes
/// on a virtual machine. If it were shorter, two processors that wait for each other would fall asleep in turn, each
/// while the other wakes.
const SHORTEST: Duration = Duration::from_millis(1);
/// The same where sleepers are woken late.
const LONGEST: Duration = Duration::from_millis(25);
/// How often as long as a sleeper is late.
const TIMES: u32 = 4;

/// How long an idle processor looks for work before it sleeps.
pub struct Patience {
    idle: Idle,
    crowded: bool,
    /// How late it was woken, lately.
    late: Duration,
    /// Turns without work.
    turns: u32,
    /// When it began to look for work, once there were a few such turns.
    since: Option<Instant>,
}

/// What a processor does after a turn without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    LooksAgain,
    Pauses,
    /// Lets others have the core.
    Yields,
    Sleeps,
}

impl Patience {
    pub fn new(idle: Idle, crowded: bool) -> Self {
        Self { idle, crowded, late: Duration::ZERO, turns: 0, since: None }
    }

    /// A turn has found work.
    #[inline]
    pub fn works(&mut self) {
        self.turns = 0;
    }

    /// A turn has found none.
    #[inline]
    pub fn idles(&mut self) -> Rest {
        self.turns += 1;
        if self.idle == Idle::Adapts && self.crowded {
            // After a sleep that timed out, its turns are more than that.
            return if self.turns < YIELDS { Rest::Yields } else { Rest::Sleeps };
        }
        if self.turns < BRISK {
            return Rest::LooksAgain;
        }
        if self.turns.is_multiple_of(BRISK) && self.is_over() { Rest::Sleeps } else { Rest::Pauses }
    }

    #[cold]
    fn is_over(&mut self) -> bool {
        if self.turns == BRISK {
            self.since = Some(Instant::now());
        } else {
            // However long it looks for work, the number stays small.
            self.turns = 2 * BRISK;
        }
        self.since.is_some_and(|since| since.elapsed() >= self.limit())
    }

    /// How long it looks for work before it sleeps.
    fn limit(&self) -> Duration {
        match self.idle {
            Idle::Adapts => (self.late * TIMES).clamp(SHORTEST, LONGEST),
            Idle::Looks(limit) => limit,
        }
    }

    /// It has slept. If nobody called, it sleeps again at once, unless a timer has ended.
    pub fn has_slept(&mut self, woken: Wake, lateness: impl FnOnce() -> Duration) {
        self.turns = match woken {
            // It has been idle since the same moment.
            Wake::TimedOut => 2 * BRISK - 1,
            _ => 0,
        };
        if woken == Wake::Notified {
            self.late = lateness().max(self.late - self.late / 8);
        }
    }
}

/// Announces that there is nothing to do, checks whether that is so for everybody, and sleeps.
pub fn sleep<M: Send + 'static>(
    driven: &impl Driven<M>,
    post: &Post<M>,
    id: ProcessorId,
    outbox: &Outbox<M>,
    inbox: &Inbox<M>,
) -> Wake {
    let me = &post.processors[id.index()];
    outbox.flush();
    let Some(awaits_outside) = announce(driven, me, outbox.sent(), inbox.received()) else {
        return Wake::NotIdle;
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
    woken
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
/// to do so, less and less often as long as there is no news and nothing is under way.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn late(patience: &mut Patience, by: Duration) {
        patience.has_slept(Wake::Notified, || by);
    }

    #[test]
    fn whoever_is_woken_late_looks_for_work_for_longer() {
        let mut patience = Patience::new(Idle::Adapts, false);
        assert_eq!(patience.limit(), Duration::from_millis(1));
        late(&mut patience, Duration::from_micros(50));
        assert_eq!(patience.limit(), Duration::from_millis(1));
        late(&mut patience, Duration::from_millis(4));
        assert_eq!(patience.limit(), Duration::from_millis(16));
        late(&mut patience, Duration::from_secs(1));
        assert_eq!(patience.limit(), Duration::from_millis(25));
        // It forgets that when it is in time again.
        (0..100).for_each(|_| late(&mut patience, Duration::from_micros(50)));
        assert_eq!(patience.limit(), Duration::from_millis(1));
        // Nobody has called it, so it learns nothing.
        patience.has_slept(Wake::TimedOut, || unreachable!("not called"));
        patience.has_slept(Wake::NotIdle, || unreachable!("not called"));
    }

    #[test]
    fn a_set_time_stays() {
        let mut patience = Patience::new(Idle::Looks(Duration::from_millis(7)), false);
        late(&mut patience, Duration::from_secs(1));
        assert_eq!(patience.limit(), Duration::from_millis(7));
    }

    #[test]
    fn where_cores_are_shared_it_yields_and_then_sleeps() {
        let mut patience = Patience::new(Idle::Adapts, true);
        let rests = |patience: &mut Patience| -> Vec<Rest> { (0..4).map(|_| patience.idles()).collect() };
        assert_eq!(rests(&mut patience), [Rest::Yields, Rest::Yields, Rest::Sleeps, Rest::Sleeps]);
        patience.has_slept(Wake::TimedOut, || unreachable!("not called"));
        assert_eq!(patience.idles(), Rest::Sleeps);
        patience.works();
        assert_eq!(patience.idles(), Rest::Yields);
    }

    #[test]
    fn without_a_time_to_look_it_sleeps_at_the_first_look_at_the_clock() {
        let mut patience = Patience::new(Idle::Looks(Duration::ZERO), false);
        let first = (0..1000).position(|_| patience.idles() == Rest::Sleeps);
        assert_eq!(first, Some(BRISK as usize - 1));
        patience.has_slept(Wake::TimedOut, || unreachable!("not called"));
        assert_eq!(patience.idles(), Rest::Sleeps);
    }

    #[test]
    fn any_number_of_turns_without_work_is_one_wait() {
        const WHILE: Duration = Duration::from_millis(50);
        let began = Instant::now();
        let mut patience = Patience::new(Idle::Looks(WHILE), false);
        (0..BRISK).for_each(|_| assert_ne!(patience.idles(), Rest::Sleeps));
        let since = patience.since;
        // As after this many turns.
        patience.turns = u32::MAX - BRISK;
        while patience.idles() == Rest::Pauses {}
        assert!(began.elapsed() >= WHILE);
        assert_eq!(patience.since, since);
    }
}
