//! The threads wire: one thread for each processor, joined by rings in memory. Values move, and nothing is encoded.
//!
//! The post office is in files that know neither [`Core`] nor [`Message`], so that models can run them. `post.rs` has
//! the shared state, `outbox.rs` sending, `slow.rs` links that are slow on purpose, `inbox.rs` receiving, `idle.rs` going to sleep, and `drive.rs` the loop that
//! does all of this in turn. This file has the threads, their cores, and the result of a run.

mod drive;
mod idle;
mod inbox;
mod outbox;
pub(super) mod post;
mod slow;

use super::bind::{Places, Team};
use crate::Error;
use crate::config::Config;
use crate::counters::Stats;
use crate::diagnose::deadlock::ReportPart;
use crate::ids::ProcessorId;
use crate::message::{CycleCounter, Message, SharedMemory, Wire, Work};
use crate::processor::Core;
use crate::wire::{AnyResult, Begin, Faults, crashed, deadlock};
use drive::{Driven, drive};
use idle::Patience;
#[cfg(target_os = "linux")]
pub(super) use idle::counts;
use inbox::Inbox;
use outbox::Outbox;
use post::Post;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// Subtasks between two looks at the rings.
pub(super) const BUDGET: u32 = 64;
/// Turns between two looks at the clock while a timer is set, if none of them runs a leaf task.
const UNTIMED: u32 = 16;

struct Shared {
    post: Arc<Post<Message>>,
    memory: Option<Arc<dyn SharedMemory>>,
    /// The source of times in traces.
    counter: Option<CycleCounter>,
    /// The cores that workers are bound to.
    places: Places,
    team: Arc<Team>,
    /// There are more processors than cores for them.
    crowded: bool,
    report: Mutex<Vec<ReportPart>>,
}

struct ThreadsWire {
    outbox: Outbox<Message>,
    shared: Arc<Shared>,
}

impl Shared {
    fn new(post: Arc<Post<Message>>, places: Places, workers: usize) -> Self {
        let team = Arc::new(places.team(workers));
        Self { post, memory: None, counter: None, places, team, crowded: false, report: Mutex::default() }
    }
}

impl ThreadsWire {
    fn new(id: ProcessorId, shared: Arc<Shared>) -> Self {
        Self { outbox: Outbox::new(id, shared.post.clone()), shared }
    }
}

impl Wire for Rc<ThreadsWire> {
    #[inline(always)]
    fn send(&self, to: ProcessorId, message: Message) {
        self.outbox.send(to, message);
    }

    fn now(&self) -> u64 {
        self.shared.post.start.elapsed().as_nanos() as u64
    }

    fn counter(&self) -> Option<CycleCounter> {
        self.shared.counter
    }

    fn moment(&self) -> (u64, u64) {
        match self.shared.counter {
            Some(counter) => counter.beside(|| self.now()),
            None => (self.now(), self.now()),
        }
    }

    fn shared_memory(&self) -> Option<&dyn SharedMemory> {
        self.shared.memory.as_deref()
    }

    fn abort(&self, _: Error) {
        // The processor has noted the error.
        self.shared.post.give_up();
    }

    fn works(&self, _: &dyn Work) {
        self.outbox.flush();
    }

    fn tells_when_left(&self, to: ProcessorId) -> bool {
        self.shared.post.abroad.as_ref().is_some_and(|abroad| abroad.tells_when_left(self.outbox.id(), to))
    }

    fn will_tell(&self) {
        self.outbox.count_one_more();
    }
}

pub(crate) fn run(
    config: Arc<Config>,
    places: Places,
    faults: &Faults,
    begin: &Begin<'_>,
) -> Result<(AnyResult, Stats), Error> {
    let processors = config.machine.processors();
    let mut post = Post::new(processors as usize);
    post.slow.clone_from(&faults.slow);
    let post = Arc::new(post);
    // Asked before binding, because a bound thread is told of one core.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let crowded = processors as usize > cores;
    run_on(config, RunOn { post, memory: None, places, processors: 0..processors, crowded }, begin).conclude()
}

/// The part of a run that is in this process.
pub(crate) struct RunOn {
    pub post: Arc<Post<Message>>,
    /// The memory that this process shares with others.
    pub memory: Option<Arc<dyn SharedMemory>>,
    pub places: Places,
    /// The processors of this process.
    pub processors: Range<u32>,
    /// This host has more of them than cores, including the processors of other processes.
    pub crowded: bool,
}

/// The end of the part of a run that is in this process.
#[derive(Default)]
pub(crate) struct Ended {
    pub result: Option<Result<AnyResult, Error>>,
    /// An error that nobody awaited.
    pub failure: Option<Error>,
    pub stats: Stats,
    /// The calls of this process's top-level task, if they are compared.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub calls: Option<(u64, u64)>,
    /// Who waits for whom, if the run was given up.
    pub reports: Option<Vec<ReportPart>>,
}

impl Ended {
    /// The error that the program, or the way in which it was run, has made.
    #[cfg(target_os = "linux")]
    pub fn error(&self) -> Option<&Error> {
        self.result.as_ref().and_then(|r| r.as_ref().err()).or(self.failure.as_ref())
    }

    /// The outcome of the run.
    pub fn conclude(self) -> Result<(AnyResult, Stats), Error> {
        match (self.result, self.failure, self.reports) {
            (Some(Err(e)), ..) | (_, Some(e), _) => Err(e),
            (_, None, Some(reports)) => Err(deadlock(reports)),
            (Some(Ok(value)), None, None) => Ok((value, self.stats)),
            (None, None, None) => Err(Error::Stopped { what: "the top-level task's result".into() }),
        }
    }
}

/// Runs the processors of this process.
pub(crate) fn run_on(config: Arc<Config>, on: RunOn, begin: &Begin<'_>) -> Ended {
    let RunOn { post, memory, places, processors, crowded } = on;
    let (n, stack) = (processors.len(), config.stack);
    let crowded = crowded || places.shared();
    let leaf = processors.clone().filter(|id| !config.machine.is_utility(ProcessorId(*id))).count();
    let counter = config.trace.as_ref().and_then(|_| CycleCounter::find());
    let shared = Arc::new(Shared { memory, counter, crowded, ..Shared::new(post, places, leaf) });
    let (ends, end) = crossbeam_channel::unbounded();
    let all_started = std::thread::scope(|scope| {
        for id in processors.clone().map(ProcessorId) {
            let (config, mine, ends) = (config.clone(), shared.clone(), ends.clone());
            let body = move || {
                let post = mine.post.clone();
                let ended = catch_unwind(AssertUnwindSafe(|| processor(id, config, mine, begin, &ends)));
                if let Err(panic) = ended {
                    // The others would wait for this processor.
                    post.give_up();
                    let _ = ends.send(ProcessorEnd { failure: Some(crashed(id, panic)), ..ProcessorEnd::default() });
                }
            };
            let thread = std::thread::Builder::new().name(format!("maniple {id}")).stack_size(stack);
            let spawned = thread.spawn_scoped(scope, body);
            if let Err(e) = spawned {
                // Not all threads could be started. The others would wait for a missing processor that is never idle,
                // so end them.
                shared.post.give_up();
                let expected = format!("a system that can start {n} threads with stacks of {} KiB", stack >> 10);
                let came = format!("the error `{e}`; use fewer workers or a smaller `Runtime::stack`");
                return Err(Error::misuse("the start of a run", expected, came));
            }
        }
        Ok(())
    });
    drop(ends);
    let mut ended = ProcessorEnd { failure: all_started.err(), ..ProcessorEnd::default() };
    for end in end {
        ended.result = ended.result.or(end.result);
        ended.failure = ended.failure.or(end.failure);
        ended.calls = ended.calls.or(end.calls);
        ended.stats.add(&end.stats);
    }
    let ProcessorEnd { result, mut failure, stats, calls } = ended;
    for id in processors.map(ProcessorId) {
        let untaken = shared.post.fetch(id);
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(untaken)));
        failure = failure.or(dropped.err().map(|panic| crashed(id, panic)));
    }
    let reports = || std::mem::take(&mut *shared.report.lock().unwrap_or_else(PoisonError::into_inner));
    let reports = shared.post.is_given_up().then(reports);
    Ended { result, failure, stats, calls, reports }
}

/// The end of one processor. The end of a node's first processor has a result and calls.
#[derive(Default)]
struct ProcessorEnd {
    result: Option<Result<AnyResult, Error>>,
    failure: Option<Error>,
    stats: Stats,
    calls: Option<(u64, u64)>,
}

/// One processor from start to end.
fn processor(
    id: ProcessorId,
    config: Arc<Config>,
    shared: Arc<Shared>,
    begin: &Begin<'_>,
    ends: &crossbeam_channel::Sender<ProcessorEnd>,
) {
    // Bound first, so that the memory a worker allocates is near it.
    shared.places.bind(id.0);
    shared.team.join();
    let _clock = crate::time::Clock::host(shared.post.start);
    let wire = Rc::new(ThreadsWire::new(id, shared.clone()));
    let signal = {
        let post = shared.post.clone();
        Arc::new(move || post.processors[id.index()].parker.wake())
    };
    let core = Core::new(id, config, Box::new(wire.clone()), signal);
    let mut inbox = Inbox::new();
    let outcome = core.effects().config.homes.contains(&id).then(|| begin(&core));
    let driven = DrivenCore { core: &core, last_look: LastLook::default() };
    let patience = Patience::new(core.effects().config.idle, shared.crowded);
    let ended = catch_unwind(AssertUnwindSafe(|| drive(id, &driven, &shared.post, &wire.outbox, &mut inbox, patience)));
    if let Err(panic) = ended {
        core.effects().note_failure(&crashed(id, panic));
        // The others would wait for this processor.
        shared.post.give_up();
    }
    if shared.post.is_given_up() {
        // Made before taking the lock, because it may run destructors of the program.
        let report = core.report();
        shared.report.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }
    core.drop_futures();
    let mut stats = Stats::default();
    core.effects().counters.add_to(&mut stats);
    core.effects().hand_over_trace();
    let result = outcome.and_then(|o| o.borrow_mut().take());
    let calls = result.as_ref().and_then(|_| core.calls());
    let failure = core.effects().failure();
    // Messages that nobody received hold values of the program, whose destructors may panic.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop((core, wire, inbox))));
    let failure = failure.or(dropped.err().map(|panic| crashed(id, panic)));
    // Received for as long as the caller lives.
    let _ = ends.send(ProcessorEnd { result, failure, stats, calls });
}

/// A core as the post office sees it.
struct DrivenCore<'a> {
    core: &'a Rc<Core>,
    last_look: LastLook,
}

impl Driven<Message> for DrivenCore<'_> {
    #[inline]
    fn receive(&self, source: ProcessorId, message: Message) {
        self.core.receive(source, message);
    }

    #[inline]
    fn turn(&self) -> bool {
        if self.core.effects().next_deadline().is_some() {
            self.last_look.look(self.core);
        }
        self.core.turn(BUDGET)
    }

    fn has_work(&self) -> bool {
        self.core.effects().has_work()
    }

    fn has_foreign_waker(&self) -> bool {
        self.core.effects().has_foreign_waker()
    }

    fn next_deadline(&self) -> Option<u64> {
        self.core.effects().next_deadline()
    }

    fn park(&self, sleep: impl FnOnce()) {
        self.core.effects().parked(sleep);
        self.last_look.untimed.set(UNTIMED);
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.core.effects().stopped()
    }
}

/// The last look at the clock of a processor that has a timer.
#[derive(Default)]
struct LastLook {
    /// Turns since then.
    untimed: Cell<u32>,
    /// Leaf tasks run until then.
    leaves: Cell<u64>,
}

impl LastLook {
    /// Called before each turn while a timer is set. A leaf task may take long, other turns do not.
    #[cold]
    fn look(&self, core: &Rc<Core>) {
        let (turns, leaves) = (self.untimed.get() + 1, core.effects().counters.leaf_tasks.get());
        self.untimed.set(turns);
        if turns >= UNTIMED || self.leaves.get() != leaves {
            self.untimed.set(0);
            self.leaves.set(leaves);
            core.time_is(core.effects().wire.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::idle::{announce, sleep};
    use super::post::Public;
    use super::*;
    use crate::Place;
    use crate::diagnose::deadlock::Node;
    use crate::diagnose::races::Actor;
    use crate::effects::Resident;
    use crate::wire::park::Wake;
    use maniple_mapper::{CollectiveMapper, Machine, MapperSlot};
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::sync::atomic::Ordering;
    use std::task::{Poll, Waker};
    use std::time::Duration;

    fn driven_core(core: &Rc<Core>) -> DrivenCore<'_> {
        DrivenCore { core, last_look: LastLook::default() }
    }

    struct Somebody;

    impl Resident for Somebody {
        fn place(&self) -> Place {
            Place { task: "waits".into(), shard: None }
        }
        fn node(&self) -> Option<Node> {
            None
        }
        fn actor(&self) -> Option<Actor> {
            None
        }
        fn over(self: Rc<Self>, _: Option<String>) {}
    }

    struct Nowhere;

    impl Wire for Nowhere {
        fn send(&self, _: ProcessorId, _: Message) {}
        fn now(&self) -> u64 {
            0
        }
    }

    fn alone_config() -> Config {
        let mapper = MapperSlot::from(Arc::new(CollectiveMapper));
        Config {
            run: crate::ids::Run::ANY,
            stack: crate::Runtime::STACK,
            races: None,
            spare: None,
            under_way: crate::config::UnderWay::InAll(1),
            laws: false,
            compares: crate::config::Compares::Nothing,
            idle: crate::Idle::Adapts,
            machine: Machine::new(1, 1),
            copies: Machine::new(1, 1),
            homes: vec![ProcessorId(0)],
            first_mapper: mapper.current(),
            mapper,
            trace: None,
            plant: None,
        }
    }

    /// A processor with a shard that waits for ever, and a clone of the shard's waker.
    fn waiting() -> (Rc<Core>, Waker) {
        let core = Core::new(ProcessorId(0), Arc::new(alone_config()), Box::new(Nowhere), Arc::new(|| {}));
        let handed: Rc<RefCell<Option<Waker>>> = Rc::default();
        let hand = handed.clone();
        let body = poll_fn(move |cx| {
            hand.borrow_mut().get_or_insert_with(|| cx.waker().clone());
            Poll::<()>::Pending
        });
        core.effects().spawn(Rc::new(Somebody), Box::pin(body));
        while core.turn(1) {}
        let waker = handed.borrow_mut().take().expect("it was polled");
        (core, waker)
    }

    #[test]
    fn a_panic_outside_all_guards_ends_the_run_for_the_other_processors() {
        let config = Config { machine: Machine::new(3, 3), copies: Machine::new(3, 3), ..alone_config() };
        let begin = |_: &Rc<Core>| -> crate::wire::Outcome { panic!("on purpose") };
        let error = run(Arc::new(config), Places::default(), &Faults::default(), &begin).expect_err("it panics");
        assert!(error.to_string().contains("processor 0") && error.to_string().contains("on purpose"), "{error}");
    }

    #[test]
    fn a_processor_says_whether_it_awaits_somebody_outside() {
        let (core, waker) = waiting();
        let (driven, me) = (driven_core(&core), Public::new());
        assert_eq!(announce(&driven, &me, 3, 4), Some(true));
        assert!(me.idle.load(Ordering::SeqCst) && me.awaits_outside.load(Ordering::SeqCst));
        drop(waker);
        assert_eq!(announce(&driven, &me, 3, 4), Some(false));
        assert!(!me.awaits_outside.load(Ordering::SeqCst));
    }

    /// The only processor of a run, and its wire.
    fn alone() -> (Arc<Shared>, Rc<ThreadsWire>, Rc<Core>) {
        let shared = Arc::new(Shared::new(Arc::new(Post::new(1)), Places::default(), 1));
        let wire = Rc::new(ThreadsWire::new(ProcessorId(0), shared.clone()));
        let core = Core::new(ProcessorId(0), Arc::new(alone_config()), Box::new(wire.clone()), Arc::new(|| {}));
        (shared, wire, core)
    }

    #[test]
    fn a_processor_sleeps_until_its_first_timer_and_only_then_is_stuck() {
        let (shared, wire, core) = alone();
        let (post, inbox) = (&shared.post, Inbox::new());
        let driven = driven_core(&core);
        let sleeps = || sleep(&driven, post, ProcessorId(0), &wire.outbox, &inbox) == Wake::TimedOut;
        let limits = [80, 30].map(Duration::from_millis);
        let timers = limits.map(|limit| core.effects().timer(limit, Waker::noop()).expect("the clock goes on"));
        let first = core.effects().next_deadline().expect("two are set");
        assert!(first >= limits[1].as_nanos() as u64 && first < limits[0].as_nanos() as u64);
        // One sleep to its end: nothing is looked at meanwhile.
        assert!(sleeps());
        assert!(wire.now() >= first && !post.is_given_up());
        core.time_is(wire.now());
        let [last, over] = timers;
        assert!(core.effects().next_deadline() > Some(first));
        drop(over);
        // A cancelled timer does not limit the sleep.
        drop(last);
        assert_eq!(core.effects().next_deadline(), None);
        assert!(!sleeps());
        assert!(post.is_given_up());
    }

    #[test]
    fn a_processor_that_has_just_been_woken_is_not_idle() {
        let (core, waker) = waiting();
        let me = Public::new();
        // Woken after its last turn, by a thread that then dropped its waker.
        waker.wake();
        assert!(!core.effects().has_foreign_waker());
        assert_eq!(announce(&driven_core(&core), &me, 0, 0), None);
        assert!(!me.idle.load(Ordering::SeqCst));
    }

    struct Long;

    impl Work for Long {
        fn name(&self) -> crate::names::TaskName {
            crate::names::TaskName::new("long")
        }
        fn takes(&self) -> u64 {
            crate::message::UNSAID
        }
        fn bytes(&self) -> usize {
            0
        }
    }

    /// A model shows that whatever has been flushed is seen.
    #[test]
    fn what_was_sent_before_a_leaf_task_is_flushed() {
        let mut post = Post::new(2);
        post.slots = 4;
        let shared = Arc::new(Shared::new(Arc::new(post), Places::default(), 1));
        let (wire, mut inbox) = (Rc::new(ThreadsWire::new(ProcessorId(1), shared.clone())), Inbox::new());
        let mut received = || {
            inbox.take_in(&shared.post, ProcessorId(0), |_, _| {});
            inbox.received()
        };
        // One more than the ring holds.
        (0..5).for_each(|_| wire.send(ProcessorId(0), Message::Stop));
        assert_eq!((received(), received()), (4, 4));
        wire.works(&Long);
        assert_eq!(received(), 5);
    }
}
