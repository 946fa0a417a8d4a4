//! The driver of virtual time: one thread for all processors, and a queue of events in order of time.
//!
//! Each processor has a clock of its own, which advances by the costs of its operations ([`VirtualMachine`]). It takes
//! one step at a time and handles messages before ready items. Nothing is encoded.
//!
//! Messages between nodes follow LogGP. The sender spends `send_ns`. Then the message waits for the node's way out and
//! keeps it busy for its bytes. It is under way for the latency, waits for the other node's way in, and costs the
//! receiver `receive_ns`. On a machine with `sharing`, large values do not wait for ways but share them. On a machine with
//! `rendezvous_bytes`, a long message leaves only when both processors have looked at it.
//!
//! Shards run on utility processors if the machine has some, unless a mapper puts them elsewhere. A shard does the
//! runtime's work: it launches, handles messages and runs collectives. Leaf tasks run on the node's other processors. Where
//! utility processors have no cores, the others lose the time that they use.
//!
//! Events at the same time happen in the order in which they were queued. So a program gives the same run, event for
//! event, on every host and in every build.

mod machine;
mod mail;
mod meter;
mod net;
mod order;
mod queue;
mod shared;

use super::park::{Parker, Wake};
use crate::Error;
use crate::config::Config;
use crate::counters::Stats;
use crate::effects::Signal;
use crate::ids::{NodeId, ObjectId, ProcessorId, TopLaunch};
use crate::message::{Message, UNSAID, Wire, Work};
use crate::names::short_name;
use crate::payload::Length;
use crate::processor::Core;
use crate::time::{Clock, Ticks};
use crate::wire::{AnyResult, Begin, OUTSIDE, crashed, deadlock, one_thread, too_many_steps};
use machine::Ps;
pub use machine::{CostLevel, Costs, Link, TaskCost, VirtualMachine};
use meter::Meter;
use net::{Net, What};
use std::cell::{Cell, RefCell, RefMut};
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Subtasks of a turn, as on threads.
const BUDGET: u32 = super::threads::BUDGET;

/// Turns that a processor may take without its clock moving. Each further one takes a nanosecond.
const STANDS: u32 = 1000;

/// No time.
const NEVER: Ps = Ps::MAX;

/// The last time, after 26 days. Sums of a few times up to it do not overflow.
const END: Ps = Ps::MAX / 8;

#[cold]
fn after_the_end() -> Error {
    let days = Duration::from_nanos(END / 1000).as_secs() / 86_400;
    Error::misuse(
        "virtual time",
        format!("a run of at most {days} days"),
        "more: are the machine's times in nanoseconds?",
    )
}

/// The state that all processors share.
struct Shared {
    net: RefCell<Net>,
    machine: Arc<VirtualMachine>,
    meters: Vec<Meter>,
    /// The processor that takes a step.
    turn: Cell<ProcessorId>,
}

impl Shared {
    fn meter(&self, id: ProcessorId) -> &Meter {
        &self.meters[id.index()]
    }
}

impl Ticks for Shared {
    fn ns(&self) -> u64 {
        self.meter(self.turn.get()).now() / 1000
    }
}

struct VirtualWire {
    shared: Rc<Shared>,
    id: ProcessorId,
}

impl Wire for VirtualWire {
    fn send(&self, to: ProcessorId, message: Message) {
        let Shared { net, meters, .. } = &*self.shared;
        let (mut net, meter) = (net.borrow_mut(), &meters[self.id.index()]);
        if matches!(message, Message::Replicated(_)) {
            net.replicated.push_back((self.id, message));
            return;
        }
        if !net.is_free(&message) {
            meter.spend(net.link(self.id, to).send);
        }
        net.carry(meter.now(), self.id, to, message);
    }

    fn tells_when_left(&self, to: ProcessorId) -> bool {
        let net = self.shared.net.borrow();
        net.links[1].has_ways() && !net.machine.same_node(self.id, to)
    }

    fn abort(&self, error: Error) {
        self.shared.net.borrow_mut().error.get_or_insert(error);
    }

    fn now(&self) -> u64 {
        self.shared.meter(self.id).now() / 1000
    }

    fn made(&self, object: ObjectId, length: Length) {
        if length != Length::OWN {
            self.shared.net.borrow_mut().lengths.insert(object, length);
        }
    }

    fn launches(&self, gang: ObjectId, by: TopLaunch, shards: &mut dyn Iterator<Item = u32>) {
        self.shared.meter(self.id).launches(gang, by, shards);
    }

    fn works(&self, task: &dyn Work) {
        let (shared, meter) = (&self.shared, self.shared.meter(self.id));
        let time = match task.takes() {
            UNSAID => meter.work(&shared.machine, &short_name(task.name().of_type), || task.bytes()),
            ns => ns.saturating_mul(1000).min(END),
        };
        let time = shared.net.borrow_mut().noisy(time);
        meter.works(time);
    }
}

/// A processor, as the driver sees it.
struct Processor {
    core: Rc<Core>,
    /// When its last step ends.
    free: Cell<Ps>,
    /// When its next step is; [`NEVER`] if there is none in the queue.
    next: Cell<Ps>,
    /// The timer for which an alarm is in the queue, in nanoseconds.
    alarm: Cell<u64>,
    /// How many turns it has taken without its clock moving.
    stood: Cell<u32>,
    /// Its last step only handled a message.
    drains: Cell<bool>,
    /// When its next turn was due that a utility processor has put off; [`NEVER`] if none is. Later messages come behind it.
    put_off: Cell<Ps>,
    inbox: mail::Inbox,
}

impl Processor {
    fn is_idle(&self, now: Ps) -> bool {
        self.next.get() == NEVER && self.free.get() <= now
    }
}

/// Runs a program in at most `most_steps` events.
pub(crate) fn run(
    config: Arc<Config>,
    machine: Arc<VirtualMachine>,
    most_steps: u64,
    begin: &Begin<'_>,
) -> Result<(AnyResult, Stats), Error> {
    let costs = Rc::new(machine.costs_ps(1));
    let shared = Rc::new(Shared {
        net: RefCell::new(Net::new(config.machine, &machine)),
        machine,
        meters: (0..config.machine.processors()).map(|_| Meter::new(costs.clone())).collect(),
        turn: Cell::new(ProcessorId(0)),
    });
    let parker = Arc::new(Parker::new());
    let of_parker = parker.clone();
    let signal: Signal = Arc::new(move || of_parker.wake());
    let processors: Vec<Processor> = (0..config.machine.processors())
        .map(ProcessorId)
        .map(|id| {
            let wire = VirtualWire { shared: shared.clone(), id };
            let core = Core::new(id, config.clone(), Box::new(wire), signal.clone());
            shared.meter(id).belongs_to(&core);
            Processor {
                core,
                free: Cell::new(0),
                next: Cell::new(NEVER),
                alarm: Cell::new(NEVER),
                stood: Cell::new(0),
                drains: Cell::new(false),
                put_off: Cell::new(NEVER),
                inbox: mail::Inbox::default(),
            }
        })
        .collect();
    let clock = Clock::of(shared.clone());
    let outcomes = (0..config.copies.nodes())
        .map(|copy| {
            let id = config.homes[copy as usize];
            let home = &processors[id.index()];
            shared.turn.set(id);
            let outcome = begin(&home.core);
            home.free.set(shared.meter(id).now());
            outcome
        })
        .collect();
    let drive = Drive { processors: &processors, shared: &shared };
    let mut seen = Seen::default();
    let driven = catch_unwind(AssertUnwindSafe(|| drive.all(&parker, &mut seen, most_steps)));
    let failure = driven.unwrap_or_else(|panic| Some(crashed(ProcessorId(0), panic)));
    let compared = drive.compare();
    drop(clock);
    let cores = processors.into_iter().map(|p| p.core).collect();
    let (result, stats) = one_thread::conclude(cores, outcomes, failure, compared)?;
    Ok((result, Stats { events: seen.events, digest: seen.digest, ..stats }))
}

/// The events so far.
#[derive(Default)]
struct Seen {
    events: u64,
    digest: u64,
}

impl Seen {
    #[inline]
    fn add(&mut self, at: Ps, kind: u64, from: ProcessorId, to: ProcessorId) {
        self.events += 1;
        for word in [at << 2 | kind, u64::from(from.0) << 32 | u64::from(to.0)] {
            // The hash function of FxHash.
            self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }
}

struct Drive<'a> {
    processors: &'a [Processor],
    shared: &'a Shared,
}

impl Drive<'_> {
    fn net(&self) -> RefMut<'_, Net> {
        self.shared.net.borrow_mut()
    }

    /// Makes the first node compare the calls of all. Returns an error if the run must end.
    fn compare(&self) -> Option<Error> {
        // The one on node 0 compares.
        let home = self.processors[0].core.effects().home_of(NodeId(0));
        loop {
            let next = self.net().replicated.pop_front();
            let Some((from, message)) = next else { return self.net().error.take() };
            self.processors[home.index()].core.deliver(from, message);
        }
    }

    /// Plans a processor's next step for `at`, or for when it is free. An earlier planned step stays.
    fn plan(&self, id: ProcessorId, at: Ps) {
        let p = &self.processors[id.index()];
        let at = at.max(p.free.get());
        if at < p.next.get() {
            p.next.set(at);
            self.net().events.push(at, What::Step(id));
        }
    }

    /// Plans the next step of a processor that has taken one.
    fn go_on(&self, id: ProcessorId) {
        let p = &self.processors[id.index()];
        if p.core.effects().stopped() {
            loop {
                let next = p.inbox.next(&mut self.net().mail);
                let Some(came) = next else { return };
                self.ignores(id, came, p.free.get());
            }
        }
        if !p.inbox.is_empty() || p.core.effects().has_work() {
            self.plan(id, p.free.get());
        }
        if let Some(at) = p.core.effects().next_deadline()
            && at != p.alarm.get()
        {
            p.alarm.set(at);
            let at = at.saturating_mul(1000);
            if at <= END {
                self.net().events.push(at.max(p.free.get()), What::Alarm(id));
            }
        }
    }

    /// Runs until every processor has stopped. Returns the error if the run can't go on.
    fn all(&self, parker: &Parker, seen: &mut Seen, most_steps: u64) -> Option<Error> {
        for p in self.processors {
            self.take_from_worker(p.core.effects().id, 0);
            self.go_on(p.core.effects().id);
        }
        let mut last = 0;
        loop {
            if let Some(e) = self.compare() {
                return Some(e);
            }
            let next = self.net().events.pop();
            let Some((at, what)) = next else {
                if self.processors.iter().all(|p| p.core.effects().stopped()) {
                    return None;
                }
                if self.awaits_outside() {
                    last += self.outside(parker, OUTSIDE);
                    self.woken(last);
                } else if !self.woken(last) {
                    return Some(deadlock(self.processors.iter().map(|p| p.core.report())));
                }
                continue;
            };
            if let What::Alarm(id) = what
                && self.processors[id.index()].core.effects().next_deadline().is_some()
                && at > last
                && self.awaits_outside()
            {
                // While the run waits for somebody outside, its clock follows the time outside.
                last += self.outside(parker, OUTSIDE.min(Duration::from_nanos((at - last) / 1000)));
                // A woken shard takes its step before the timer ends.
                self.net().events.go_back(last);
                self.net().events.push(at.max(last), What::Alarm(id));
                self.woken(last);
                continue;
            }
            if seen.events == most_steps {
                return Some(too_many_steps(most_steps, self.processors.iter().map(|p| &p.core)));
            }
            last = last.max(at);
            if at > END {
                return Some(after_the_end());
            }
            match what {
                What::Leaves(letter) => self.net().leaves(letter, at),
                What::Reaches(letter) => self.net().reaches(letter, at),
                What::Ends(letter, turn) => self.net().ends(letter, turn, at),
                What::Comes(letter) => {
                    let mut net = self.net();
                    let (from, to) = net.mail.address(letter);
                    let all = net.order.comes((from, to), letter);
                    drop(net);
                    for letter in all {
                        seen.add(at, 0, from, to);
                        self.comes(letter, to, at);
                    }
                }
                What::Step(id) => {
                    seen.add(at, 1, id, id);
                    // An earlier step may have been planned after this one. It has taken this one's place.
                    if self.processors[id.index()].next.get() == at {
                        self.step(id, at);
                    }
                }
                What::Alarm(id) => {
                    seen.add(at, 2, id, id);
                    self.alarm(id, at);
                }
            }
        }
    }

    fn comes(&self, letter: u32, to: ProcessorId, at: Ps) {
        let p = &self.processors[to.index()];
        if p.core.effects().stopped() {
            let came = self.net().mail.open(letter);
            came.into_iter().for_each(|(from, message)| self.ignores(to, (from, message), at));
            return;
        }
        let idle = p.is_idle(at);
        if at < p.put_off.get() {
            p.put_off.set(NEVER);
        }
        p.inbox.add(&mut self.net().mail, letter);
        if idle { self.step(to, at) } else { self.plan(to, at) }
    }

    /// A processor that has stopped handles no messages. But long ones that it has sent still leave, and those for it do not.
    fn ignores(&self, id: ProcessorId, (from, message): (ProcessorId, Message), now: Ps) {
        let Message::Rendezvous { letter, answers } = message else { return };
        let mut net = self.net();
        if answers {
            return net.goes(letter, now);
        }
        if net.mail.message(letter).is_some_and(Message::are_large_values) {
            net.tell_left(from, id, now);
        }
        net.events.push(now, What::Comes(letter));
    }

    /// An alarm is due. If the processor is busy, its timers are checked again after its step.
    fn alarm(&self, id: ProcessorId, at: Ps) {
        let p = &self.processors[id.index()];
        // The alarm was queued for a timer that has been replaced.
        if p.alarm.get() == NEVER || at < p.alarm.get().saturating_mul(1000) {
            return;
        }
        p.alarm.set(NEVER);
        if !p.core.effects().stopped() {
            if at >= p.free.get() {
                self.begin(id, at);
                p.core.time_is(at / 1000);
                // It goes on from this time.
                p.free.set(at);
            }
            self.go_on(id);
        }
    }

    /// Sets a processor's clock to `at`.
    fn begin(&self, id: ProcessorId, at: Ps) -> &Meter {
        let meter = self.shared.meter(id);
        meter.begin(at, &self.shared.machine);
        self.shared.turn.set(id);
        meter
    }

    fn step(&self, id: ProcessorId, at: Ps) {
        let p = &self.processors[id.index()];
        if p.core.effects().stopped() {
            return;
        }
        p.next.set(NEVER);
        let meter = self.begin(id, at);
        let came = match p.put_off.replace(NEVER) {
            NEVER => p.inbox.next(&mut self.net().mail),
            _ => None,
        };
        // A shard that polls in a loop without taking time would wait for a time that never comes.
        let mut stands = false;
        let took_in = came.is_some();
        if let Some((from, message)) = came {
            let net = self.net();
            let (free, link) = (net.is_free(&message), net.link(from, id));
            drop(net);
            if !free {
                let first = if p.drains.replace(true) { 0 } else { link.first };
                meter.spend(link.receive + first + meter.message());
            }
            match message {
                Message::Rendezvous { letter, answers } => {
                    let mut net = self.net();
                    meter.spend(link.send);
                    match answers {
                        true => net.goes(letter, meter.now()),
                        false => net.asks(meter.now(), id, from, (letter, true)),
                    }
                }
                message => p.core.receive(from, message),
            }
        }
        // If handling took no time, the turn follows at once, while everything it needs is in a near cache.
        if !took_in || (meter.now() == at && p.inbox.is_empty()) {
            p.drains.set(false);
            p.core.turn(BUDGET);
            stands = !took_in && p.free.get() == at && meter.now() == at;
        }
        p.stood.set(if stands { p.stood.get() + 1 } else { 0 });
        if p.stood.get() > STANDS {
            meter.spend(1000);
        }
        p.free.set(meter.now());
        self.take_from_worker(id, at);
        if meter.now() > END || meter.now() < at {
            self.net().error.get_or_insert_with(after_the_end);
        }
        self.go_on(id);
    }

    /// Takes the time that a utility processor without a core has used since `began` from another processor of its node.
    fn take_from_worker(&self, id: ProcessorId, began: Ps) {
        let Shared { net, machine, .. } = self.shared;
        let used = self.processors[id.index()].free.get().saturating_sub(began);
        let node = net.borrow().machine;
        if !machine.utility_shares || used == 0 || !node.is_utility(id) {
            return;
        }
        // Among idle ones the last, as mappers begin with the first.
        let workers = node.leaf_processors_of(node.node_of(id)).map(|id| (id, &self.processors[id.index()]));
        let first = workers.min_by_key(|(id, p)| (!p.is_idle(began), p.free.get().max(began), Reverse(id.0)));
        let Some((worker, p)) = first else { return };
        p.free.set(p.free.get().max(began) + used);
        if p.next.get() < p.free.get() {
            let due = p.next.replace(NEVER);
            if p.inbox.is_empty() {
                p.put_off.set(due.min(p.put_off.get()));
            }
            self.plan(worker, p.free.get());
        }
    }

    fn going(&self) -> impl Iterator<Item = &Processor> {
        self.processors.iter().filter(|p| !p.core.effects().stopped())
    }

    fn awaits_outside(&self) -> bool {
        self.going().any(|p| p.core.effects().has_foreign_waker())
    }

    /// Waits for somebody outside. Returns how long it took.
    fn outside(&self, parker: &Parker, limit: Duration) -> Ps {
        let still_idle = || !self.going().any(|p| p.core.effects().has_work());
        // Nobody reports that a waker was dropped, so the sleep is limited.
        let slept = Instant::now();
        let _: Wake = parker.park(still_idle, Some(slept + limit));
        slept.elapsed().as_nanos() as Ps * 1000
    }

    /// Plans a step at `now` for each processor with work. True if there is one.
    fn woken(&self, now: Ps) -> bool {
        let mut any = false;
        for p in self.going().filter(|p| p.core.effects().has_work()) {
            any = true;
            self.plan(p.core.effects().id, now);
        }
        any
    }
}
