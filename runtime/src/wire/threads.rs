//! One thread a processor, joined by rings in memory. Values move; nothing is encoded.

use super::bind::Places;
use super::clock::Counter;
use super::park::{Parker, Wake, fence};
use super::ring::{Receiver, Sender, ring, slot_bytes};
use super::{AnyResult, AnyTop, OUTSIDE, Wire, Work, crashed, deadlock, start_top};
use crate::Error;
use crate::config::Config;
use crate::core::Core;
use crate::counters::Stats;
use crate::deadlock::Part;
use crate::message::{Message, ProcessorId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most slots of a ring: fewer cost speed at hundreds of shards.
const RING: usize = 256;
/// Bytes that the slots of all rings take at most, should every processor talk to every other.
const RINGS: usize = 256 << 20;
/// Turns without work before a processor that has a core of its own sleeps: with two processors about a millisecond (longer
/// with more, as a turn looks at the ring of each), several times what waking one takes on a virtual machine. With less, two
/// that wait for each other fall asleep in turn, each while the other wakes.
const SPINS: u32 = 20_000;
/// Turns without work before it pauses between them.
const BRISK: u32 = 50;
/// Turns without work before one that shares its core sleeps: then spinning takes the core from whoever has work.
const YIELDS: u32 = 3;
/// Subtasks between two looks at the rings.
pub(super) const BUDGET: u32 = 64;
/// Turns between two looks at the clock while a timer is set, if none of them runs a leaf task.
const UNTIMED: u32 = 16;
/// Turns that a message may wait for the fence that makes sure of its reader.
const UNFENCED: u32 = 16;

/// What a processor tells the others before it sleeps. Cache lines apart, because neighbours write theirs.
#[repr(align(128))]
struct Public {
    parker: Parker,
    /// Set while the processor has nothing to do; the counts below then hold still.
    idle: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
    /// Something outside holds a waker of one of its shards, or a timer of its own is set.
    awaits_outside: AtomicBool,
    /// It has left its loop and reads no more.
    gone: AtomicBool,
    /// Rings that have been opened to this processor so far; those that it has yet to take are in `hall`.
    opened: AtomicUsize,
    hall: Mutex<Vec<(ProcessorId, Receiver<Message>)>>,
}

struct Shared {
    processors: Vec<Public>,
    /// When the run began.
    start: Instant,
    /// What traces take times from.
    counter: Option<Counter>,
    /// Slots of each ring.
    slots: usize,
    /// Where workers are bound.
    places: Places,
    /// There are more processors than cores for them.
    crowded: bool,
    /// Everybody was idle with nothing in flight: the run cannot go on.
    stuck: AtomicBool,
    report: Mutex<Vec<Part>>,
}

struct ThreadsWire {
    id: ProcessorId,
    to: Vec<RefCell<Link>>,
    shared: Arc<Shared>,
    sent: Cell<u64>,
    /// Turns since the first message after the last fence; 0 when there was none.
    unfenced: Cell<u32>,
    /// Something waits for room in a ring.
    backlog: Cell<bool>,
}

#[derive(Default)]
struct Link {
    /// Opened with the first message: most pairs of many processors have nothing to say to each other.
    ring: Option<Sender<Message>>,
    /// What did not fit into the ring.
    waiting: VecDeque<Message>,
}

impl Wire for Rc<ThreadsWire> {
    #[inline(always)]
    fn send(&self, to: ProcessorId, message: Message) {
        let mut link = self.to[to as usize].borrow_mut();
        let Link { ring, waiting } = &mut *link;
        let ring = ring.get_or_insert_with(|| self.open(to));
        let refused = if waiting.is_empty() { ring.push(message).err() } else { Some(message) };
        if let Some(message) = refused {
            waiting.push_back(message);
            self.backlog.set(true);
        }
        self.sent.set(self.sent.get() + 1);
        self.unfenced.set(self.unfenced.get().max(1));
        self.shared.processors[to as usize].parker.nudge();
    }

    fn now(&self) -> u64 {
        self.shared.start.elapsed().as_nanos() as u64
    }

    fn counter(&self) -> Option<Counter> {
        self.shared.counter
    }

    fn moment(&self) -> (u64, u64) {
        match self.shared.counter {
            Some(counter) => counter.beside(|| self.now()),
            None => (self.now(), self.now()),
        }
    }

    fn works(&self, _: &dyn Work) {
        self.flush();
    }
}

impl ThreadsWire {
    /// Makes sure that everything sent will be seen.
    #[inline]
    fn flush(&self) {
        if self.backlog.get() {
            self.push_backlog();
        }
        if self.unfenced.replace(0) > 0 {
            fence();
            for p in &self.shared.processors {
                p.parker.nudge();
            }
        }
    }

    /// At the end of a turn: flushes if something waits for room, or for its fence long enough. A fence waits until what
    /// was pushed has reached memory, and whoever polls does not need it.
    #[inline]
    fn tend(self: &Rc<Self>) {
        let turns = self.unfenced.get();
        if self.backlog.get() || turns > UNFENCED {
            self.flush();
        } else if turns > 0 {
            self.unfenced.set(turns + 1);
        }
    }

    /// Makes the ring to another processor and hands that its end.
    #[cold]
    fn open(&self, to: ProcessorId) -> Sender<Message> {
        let (sender, receiver) = ring(self.shared.slots);
        let public = &self.shared.processors[to as usize];
        public.hall.lock().unwrap_or_else(PoisonError::into_inner).push((self.id, receiver));
        // Like a push: what follows in the README for values holds for the ring itself.
        public.opened.fetch_add(1, Ordering::Release);
        sender
    }

    fn push_backlog(&self) {
        let mut left = false;
        for (link, public) in self.to.iter().zip(&self.shared.processors) {
            let mut link = link.borrow_mut();
            let Link { ring: Some(ring), waiting } = &mut *link else {
                continue;
            };
            // What waits for a processor that is gone stays: it goes with the wire.
            while !public.gone.load(Ordering::Relaxed)
                && let Some(message) = waiting.pop_front()
            {
                if let Err(message) = ring.push(message) {
                    waiting.push_front(message);
                    left = true;
                    break;
                }
            }
            public.parker.nudge();
        }
        self.backlog.set(left);
        // What was pushed needs a fence before this processor sleeps.
        self.unfenced.set(self.unfenced.get().max(1));
    }
}

/// Slots of a ring between two of `n` processors.
fn slots_between(n: usize) -> usize {
    let room = RINGS / slot_bytes::<Message>() / (n * n);
    // A ring's slots are a power of two; with less than four it hardly ever takes what it is given.
    1 << room.clamp(4, RING).ilog2()
}

pub(super) fn run(config: Arc<Config>, places: Places, top: &AnyTop) -> Result<(AnyResult, Stats), Error> {
    let n = config.machine.processors() as usize;
    // Asked here, since one who is bound is told of one core.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let shared = Arc::new(Shared {
        processors: (0..n).map(|_| Public::new()).collect(),
        start: Instant::now(),
        counter: config.trace.as_ref().and_then(|_| Counter::find()),
        slots: slots_between(n),
        crowded: n > cores || places.shared(),
        places,
        stuck: AtomicBool::new(false),
        report: Mutex::default(),
    });
    let (ends, end) = crossbeam_channel::unbounded();
    std::thread::scope(|scope| {
        for id in 0..n {
            let (config, mine, ends) = (config.clone(), shared.clone(), ends.clone());
            let body = move || processor(id as u32, config, mine, top, &ends);
            let spawned = std::thread::Builder::new().name(format!("maniple {id}")).spawn_scoped(scope, body);
            if let Err(e) = spawned {
                // The processors that did start see a processor that is never idle; end them.
                shared.stuck.store(true, Ordering::SeqCst);
                shared.processors.iter().for_each(|p| p.parker.wake());
                return Err(Error::misuse("a run", format!("{n} threads"), e));
            }
        }
        Ok(())
    })?;
    drop(ends);
    let mut stats = Stats::default();
    let (mut result, mut failure) = (None, None);
    for (outcome, error, part) in end {
        result = result.or(outcome);
        failure = failure.or(error);
        stats.add(&part);
    }
    for (id, public) in (0..).zip(&shared.processors) {
        let untaken = std::mem::take(&mut *public.hall.lock().unwrap_or_else(PoisonError::into_inner));
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(untaken)));
        failure = failure.or(dropped.err().map(|panic| crashed(id, panic)));
    }
    if shared.stuck.load(Ordering::SeqCst) {
        let reports = std::mem::take(&mut *shared.report.lock().unwrap_or_else(PoisonError::into_inner));
        failure = match result {
            Some(Err(e)) => return Err(e),
            _ => failure.or(Some(deadlock(reports))),
        };
    }
    match (result, failure) {
        (Some(Err(e)), _) | (_, Some(e)) => Err(e),
        (Some(Ok(value)), None) => Ok((value, stats)),
        (None, None) => Err(Error::Stopped { what: "the top-level task's result".into() }),
    }
}

type End = (Option<Result<AnyResult, Error>>, Option<Error>, Stats);

/// One processor from start to end.
fn processor(
    id: ProcessorId,
    config: Arc<Config>,
    shared: Arc<Shared>,
    top: &AnyTop,
    ends: &crossbeam_channel::Sender<End>,
) {
    // First, so that what a worker allocates is near it.
    shared.places.bind(id);
    let _clock = crate::time::Clock::host(shared.start);
    let wire = Rc::new(ThreadsWire {
        id,
        to: (0..shared.processors.len()).map(|_| RefCell::default()).collect(),
        shared: shared.clone(),
        sent: Cell::new(0),
        unfenced: Cell::new(0),
        backlog: Cell::new(false),
    });
    let signal = {
        let shared = shared.clone();
        Arc::new(move || shared.processors[id as usize].parker.wake())
    };
    let core = Core::new(id, config, Box::new(wire.clone()), signal);
    let mut from = Vec::new();
    let outcome = (id == 0).then(|| start_top(&core, top));
    let driven = catch_unwind(AssertUnwindSafe(|| drive(&core, &wire, &shared, &mut from)));
    if let Err(panic) = driven {
        core.note_failure(&crashed(id, panic));
        // The others would wait for this processor.
        shared.stuck.store(true, Ordering::SeqCst);
        shared.processors.iter().for_each(|p| p.parker.wake());
    }
    if shared.stuck.load(Ordering::SeqCst) {
        shared.report.lock().unwrap_or_else(PoisonError::into_inner).push(core.report());
    }
    core.drop_futures();
    let mut stats = Stats::default();
    core.counters.add_to(&mut stats);
    core.hand_over_trace();
    let result = outcome.and_then(|o| o.borrow_mut().take());
    let failure = core.failure();
    // Messages that nobody took hold values of the program.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop((core, wire, from))));
    let failure = failure.or(dropped.err().map(|panic| crashed(id, panic)));
    // Received for as long as the caller lives.
    let _ = ends.send((result, failure, stats));
}

fn drive(core: &Rc<Core>, wire: &Rc<ThreadsWire>, shared: &Shared, from: &mut Vec<(ProcessorId, Receiver<Message>)>) {
    let me = &shared.processors[core.id as usize];
    let crowded = shared.crowded;
    let patience = if crowded { YIELDS } else { SPINS };
    let mut received = 0u64;
    let mut idle = 0u32;
    let mut clock = Clock::default();
    while !core.stopped() && !shared.stuck.load(Ordering::Relaxed) {
        let before = received;
        if me.opened.load(Ordering::Relaxed) != from.len() {
            from.append(&mut me.hall.lock().unwrap_or_else(PoisonError::into_inner));
        }
        for (source, ring) in from.iter_mut() {
            for _ in 0..RING {
                let Some(message) = ring.pop() else { break };
                received += 1;
                core.receive(*source, message);
            }
        }
        if core.next_deadline().is_some() {
            clock.look(core);
        }
        let ran = core.turn(BUDGET);
        if ran || received != before {
            idle = 0;
            wire.tend();
            continue;
        }
        wire.tend();
        idle += 1;
        if wire.backlog.get() || crowded && idle < patience {
            std::thread::yield_now();
        } else if idle < patience {
            // A pause takes as long as a message.
            if idle > BRISK {
                std::hint::spin_loop();
            }
        } else {
            wire.flush();
            let timed_out = sleep(core, wire, shared, me, from, received);
            // Nobody called: unless its own time has come for something, it sleeps again at once.
            idle = if timed_out { patience - 1 } else { 0 };
            clock.untimed = UNTIMED;
        }
    }
    me.gone.store(true, Ordering::Relaxed);
    wire.flush();
    // `Stop` may be in the backlog, and until it comes the others read.
    while wire.backlog.get() && !shared.stuck.load(Ordering::Relaxed) {
        std::thread::yield_now();
        wire.flush();
    }
}

/// When a processor that has a timer last looked at the clock.
#[derive(Default)]
struct Clock {
    /// Turns since then.
    untimed: u32,
    /// Leaf tasks run by then.
    leaves: u64,
}

impl Clock {
    /// Before each turn while a timer is set. A leaf task may take long, other turns do not.
    #[cold]
    fn look(&mut self, core: &Rc<Core>) {
        let leaves = core.counters.leaf_tasks.get();
        self.untimed += 1;
        if self.untimed >= UNTIMED || self.leaves != leaves {
            *self = Self { untimed: 0, leaves };
            core.time_is(core.wire.now());
        }
    }
}

/// Announces that there is nothing to do, looks whether that holds for everybody, and sleeps. True if it slept until
/// its time was over.
fn sleep(
    core: &Core,
    wire: &ThreadsWire,
    shared: &Shared,
    me: &Public,
    from: &[(ProcessorId, Receiver<Message>)],
    received: u64,
) -> bool {
    let Some(awaits_outside) = me.announce(core, wire.sent.get(), received) else {
        return false;
    };
    let nothing_came =
        || me.opened.load(Ordering::Acquire) == from.len() && from.iter().all(|(_, ring)| ring.is_empty());
    let still_idle = || nothing_came() && !core.has_work();
    let mut woken = Wake::NotIdle;
    if still_idle() && quiescent(shared) {
        shared.stuck.store(true, Ordering::SeqCst);
        shared.processors.iter().for_each(|p| p.parker.wake());
    } else {
        // Nobody tells when a waker is dropped.
        let look = awaits_outside.then(|| Instant::now() + OUTSIDE);
        let alarm = core.next_deadline().and_then(|at| shared.start.checked_add(Duration::from_nanos(at)));
        core.parked(|| {
            woken = me.parker.park(still_idle, look.into_iter().chain(alarm).min());
        });
    }
    me.idle.store(false, Ordering::SeqCst);
    woken == Wake::TimedOut
}

/// Whether every processor is idle and every message sent has been received: looked at twice, because the first look
/// may straddle a wake-up.
fn quiescent(shared: &Shared) -> bool {
    let look = || -> Option<(u64, u64)> {
        let (mut sent, mut received) = (0u64, 0u64);
        for p in &shared.processors {
            if !p.idle.load(Ordering::SeqCst) || p.awaits_outside.load(Ordering::SeqCst) {
                return None;
            }
            sent = sent.wrapping_add(p.sent.load(Ordering::SeqCst));
            received = received.wrapping_add(p.received.load(Ordering::SeqCst));
        }
        (sent == received).then_some((sent, received))
    };
    matches!((look(), look()), (Some(a), Some(b)) if a == b)
}

impl Public {
    /// Publishes that `core` has nothing to do, and returns whether it awaits somebody outside. `None`, with nothing
    /// published, if somebody outside has woken it meanwhile.
    fn announce(&self, core: &Core, sent: u64, received: u64) -> Option<bool> {
        let awaits_outside = core.has_foreign_waker();
        // Who was outside no more may have left a wake: only now is it sure to be seen.
        if core.has_work() {
            return None;
        }
        self.sent.store(sent, Ordering::Relaxed);
        self.received.store(received, Ordering::Relaxed);
        // Release: whoever sees nobody outside sees the counts that go with it.
        self.awaits_outside.store(awaits_outside || core.next_deadline().is_some(), Ordering::Release);
        self.idle.store(true, Ordering::SeqCst);
        Some(awaits_outside)
    }

    fn new() -> Self {
        Self {
            parker: Parker::new(),
            idle: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            awaits_outside: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            opened: AtomicUsize::new(0),
            hall: Mutex::default(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Place;
    use maniple_mapper::{CollectiveMapper, Machine};
    use std::future::poll_fn;
    use std::task::{Poll, Waker};

    struct Nowhere;

    impl Wire for Nowhere {
        fn send(&self, _: ProcessorId, _: Message) {}
        fn now(&self) -> u64 {
            0
        }
    }

    fn alone_config() -> Config {
        Config {
            races: None,
            compares: false,
            machine: Machine::new(1, 1),
            copies: Machine::new(1, 1),
            mapper: Arc::new(CollectiveMapper).into(),
            trace: None,
            #[cfg(feature = "plant")]
            plant: None,
        }
    }

    /// A processor with a shard that waits for ever, and a clone of the shard's waker.
    fn waiting() -> (Rc<Core>, Waker) {
        let core = Core::new(0, Arc::new(alone_config()), Box::new(Nowhere), Arc::new(|| {}));
        let handed: Rc<RefCell<Option<Waker>>> = Rc::default();
        let hand = handed.clone();
        let body = poll_fn(move |cx| {
            hand.borrow_mut().get_or_insert_with(|| cx.waker().clone());
            Poll::<()>::Pending
        });
        core.spawn(Place { task: "waits".into(), shard: None }, body, Box::new(|_, _| {}));
        while core.turn(1) {}
        let waker = handed.borrow_mut().take().expect("it was polled");
        (core, waker)
    }

    #[test]
    fn all_rings_together_keep_within_bounds() {
        let slots = |n: usize| slots_between(n);
        assert!((1..=16).all(|n| slots(n) == RING));
        for n in 1..=1024 {
            assert!(slots(n).is_power_of_two() && slots(n) >= 4);
            assert!(n * n * slots(n) * slot_bytes::<Message>() <= RINGS, "{n} processors, {} slots", slots(n));
        }
        assert_eq!(slots(100_000), 4);
    }

    #[test]
    fn a_processor_says_whether_it_awaits_somebody_outside() {
        let (core, waker) = waiting();
        let me = Public::new();
        assert_eq!(me.announce(&core, 3, 4), Some(true));
        assert!(me.idle.load(Ordering::SeqCst) && me.awaits_outside.load(Ordering::SeqCst));
        drop(waker);
        assert_eq!(me.announce(&core, 3, 4), Some(false));
        assert!(!me.awaits_outside.load(Ordering::SeqCst));
    }

    /// The only processor of a run, and its wire.
    fn alone() -> (Arc<Shared>, Rc<ThreadsWire>, Rc<Core>) {
        let shared = Arc::new(Shared {
            processors: vec![Public::new()],
            start: Instant::now(),
            counter: None,
            slots: 4,
            places: Places::default(),
            crowded: false,
            stuck: AtomicBool::new(false),
            report: Mutex::default(),
        });
        let wire = Rc::new(ThreadsWire {
            id: 0,
            to: vec![RefCell::default()],
            shared: shared.clone(),
            sent: Cell::new(0),
            unfenced: Cell::new(0),
            backlog: Cell::new(false),
        });
        let core = Core::new(0, Arc::new(alone_config()), Box::new(wire.clone()), Arc::new(|| {}));
        (shared, wire, core)
    }

    #[test]
    fn a_processor_sleeps_until_its_first_timer_and_only_then_is_stuck() {
        let (shared, wire, core) = alone();
        let me = &shared.processors[0];
        let limits = [80, 30].map(Duration::from_millis);
        let timers = limits.map(|limit| core.timer(limit, Waker::noop()).expect("the clock goes on"));
        let first = core.next_deadline().expect("two are set");
        assert!(first >= limits[1].as_nanos() as u64 && first < limits[0].as_nanos() as u64);
        // One sleep to its end: nothing is looked at meanwhile.
        assert!(sleep(&core, &wire, &shared, me, &[], 0));
        assert!(wire.now() >= first && !shared.stuck.load(Ordering::SeqCst));
        core.time_is(wire.now());
        let [last, over] = timers;
        assert!(core.next_deadline() > Some(first));
        drop(over);
        // What is cancelled is not slept for.
        drop(last);
        assert_eq!(core.next_deadline(), None);
        assert!(!sleep(&core, &wire, &shared, me, &[], 0));
        assert!(shared.stuck.load(Ordering::SeqCst));
    }

    #[test]
    fn a_processor_that_has_just_been_woken_is_not_idle() {
        let (core, waker) = waiting();
        let me = Public::new();
        // Woken after its last turn, by somebody who then held a waker no more.
        waker.wake();
        assert!(!core.has_foreign_waker());
        assert_eq!(me.announce(&core, 0, 0), None);
        assert!(!me.idle.load(Ordering::SeqCst));
    }
}
