//! The seeded driver: one thread runs all processors in an order drawn from a seed. Each processor is a node of its
//! own, and every message is encoded and decoded. So a test finds anything that could not cross hosts.

use super::faults::Faults;
use super::park::{Parker, Wake};
use crate::Error;
use crate::config::Config;
use crate::counters::Stats;
use crate::ids::ProcessorId;
use crate::message::{Message, Wire};
use crate::plant::Bug;
use crate::processor::Core;
use crate::time::{Clock, Ticks};
use crate::wire::{AnyResult, Begin, OUTSIDE, crashed, deadlock, one_thread, too_many_steps};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nanoseconds of a step on the run's clock: about as long as a turn or a message takes on threads.
const STEP: u64 = 1000;

struct Net {
    random: fastrand::Rng,
    /// Encoded messages of each ordered pair, each with the earliest step at which it may be delivered.
    queues: Vec<VecDeque<(u64, Vec<u8>)>>,
    processors: usize,
    /// Calls of top-level tasks, with sender and receiver, who compares them.
    replicated: VecDeque<(ProcessorId, ProcessorId, Vec<u8>)>,
    step: u64,
    faults: Faults,
    /// Which processors are lost, and below the error of the first one.
    dead: Vec<bool>,
    config: Arc<Config>,
    loss: Option<Error>,
    error: Option<Error>,
}

impl Net {
    fn now(&self) -> u64 {
        self.step.saturating_mul(STEP)
    }

    fn put(&mut self, from: ProcessorId, to: ProcessorId, delay: u64, bytes: Vec<u8>) {
        let due = self.step.saturating_add(delay).saturating_add(self.faults.delay(from, to));
        let queue = &mut self.queues[from.index() * self.processors + to.index()];
        if !queue.is_empty() && self.config.strikes(Bug::Overtaking) {
            return queue.insert(queue.len() - 1, (due, bytes));
        }
        queue.push_back((due, bytes));
    }

    /// Loses a processor. Messages that it sent before still arrive, and after them each survivor is told.
    fn bury(&mut self, processor: ProcessorId) {
        let why = format!("it stopped for ever at step {}", self.step);
        let error = Error::Lost { processor, why };
        self.dead[processor.index()] = true;
        for to in (0..self.processors as u32).map(ProcessorId).filter(|&to| to != processor) {
            match postcard::to_extend(&Message::Lost(Box::new(error.clone())), Vec::new()) {
                Ok(bytes) => {
                    let delay = self.random.u64(0..200);
                    self.put(processor, to, delay, bytes);
                }
                Err(e) => drop(self.error.get_or_insert(uncoded(processor, to, &e))),
            }
        }
        self.loss.get_or_insert(error);
    }

    /// Whether a processor takes part in the present step.
    fn acts(&self, processor: usize) -> bool {
        !self.dead[processor] && !self.faults.pauses(ProcessorId(processor as u32), self.step)
    }
}

impl Ticks for RefCell<Net> {
    fn ns(&self) -> u64 {
        self.borrow().now()
    }
}

struct SeededWire {
    net: Rc<RefCell<Net>>,
    from: ProcessorId,
}

impl Wire for SeededWire {
    fn send(&self, to: ProcessorId, message: Message) {
        let mut net = self.net.borrow_mut();
        match postcard::to_stdvec(&message) {
            // No random number is drawn: a seed gives the same run whether or not nodes compare their calls.
            Ok(bytes) if matches!(message, Message::Replicated(_)) => net.replicated.push_back((self.from, to, bytes)),
            Ok(bytes) => {
                // Most messages are quick, some are very slow.
                let slow = net.random.u32(0..8) == 0;
                let delay = net.random.u64(0..if slow { 200 } else { 4 });
                net.put(self.from, to, delay, bytes);
            }
            Err(e) => _ = net.error.get_or_insert(uncoded(self.from, to, &e)),
        }
    }

    fn abort(&self, error: Error) {
        self.net.borrow_mut().error.get_or_insert(error);
    }

    fn now(&self) -> u64 {
        self.net.borrow().now()
    }

    fn step(&self) -> u64 {
        STEP
    }

    fn pick(&self, n: usize) -> usize {
        if n > 1 { self.net.borrow_mut().random.usize(0..n) } else { 0 }
    }
}

/// Runs a program; `how` is the seed, the faults, and the largest number of steps.
pub(crate) fn run(
    config: Arc<Config>,
    how: (u64, &Faults, u64),
    begin: &Begin<'_>,
) -> Result<(AnyResult, Stats), Error> {
    let processors = config.machine.processors() as usize;
    let (seed, faults, most_steps) = how;
    let net = Rc::new(RefCell::new(Net {
        random: fastrand::Rng::with_seed(seed),
        queues: (0..processors * processors).map(|_| VecDeque::new()).collect(),
        processors,
        replicated: VecDeque::new(),
        step: 0,
        faults: faults.clone(),
        dead: vec![false; processors],
        config: config.clone(),
        loss: None,
        error: None,
    }));
    let _clock = Clock::of(net.clone());
    let parker = Arc::new(Parker::new());
    let cores: Vec<Rc<Core>> = (0..processors as u32)
        .map(ProcessorId)
        .map(|id| {
            let wire = SeededWire { net: net.clone(), from: id };
            let parker = parker.clone();
            Core::new(id, config.clone(), Box::new(wire), Arc::new(move || parker.wake()))
        })
        .collect();
    let outcomes: Vec<_> = cores.iter().map(begin).collect();
    let driven = catch_unwind(AssertUnwindSafe(|| drive(&cores, &net, &parker, most_steps)));
    let failure = driven.unwrap_or_else(|panic| Some(crashed(ProcessorId(0), panic)));
    let compared = compare(&cores, &net);
    one_thread::conclude(cores, outcomes, failure, compared)
}

/// Makes the nodes compare the calls of their top-level tasks. Returns an error if the run must end.
fn compare(cores: &[Rc<Core>], net: &RefCell<Net>) -> Option<Error> {
    loop {
        let next = net.borrow_mut().replicated.pop_front();
        let Some((from, to, bytes)) = next else { return net.borrow_mut().error.take() };
        match postcard::from_bytes(&bytes) {
            Ok(message) => cores[to.index()].deliver(from, message),
            Err(e) => return Some(uncoded(from, to, &e)),
        }
    }
}

fn uncoded(from: ProcessorId, to: ProcessorId, e: &postcard::Error) -> Error {
    Error::Encoding { what: format!("a message from processor {from} to {to}"), message: e.to_string() }
}

/// Runs until every processor has stopped. Returns the error if the run can't go on.
fn drive(cores: &[Rc<Core>], net: &RefCell<Net>, parker: &Parker, most_steps: u64) -> Option<Error> {
    let n = cores.len();
    let mut choices: Vec<usize> = Vec::new();
    let mut left = most_steps;
    loop {
        if let Some(e) = compare(cores, net) {
            return Some(e);
        }
        let step = net.borrow().step;
        let due = net.borrow_mut().faults.take_losses(step);
        for processor in due {
            let alive = !cores[processor.index()].effects().stopped() && !net.borrow().dead[processor.index()];
            if alive {
                net.borrow_mut().bury(processor);
            }
        }
        // A processor that has stopped or is lost does no more, as its thread would not.
        let goes_on = |i: &usize| !cores[*i].effects().stopped() && !net.borrow().dead[*i];
        // After a panic of the top-level task some shards may be left. They do not go on.
        if !(0..n).any(|i| goes_on(&i)) {
            let loss = net.borrow().loss.clone();
            return loss.or_else(|| deliver_the_rest(cores, net));
        }
        if left == 0 {
            return Some(too_many_steps(most_steps, cores.iter()));
        }
        let end_of_pause = |i: usize| net.borrow().faults.end_of_pause(ProcessorId(i as u32), step);
        let acts = |i: &usize| goes_on(i) && net.borrow().acts(*i);
        choices.clear();
        let mut later: Option<u64> = None;
        for (i, queue) in net.borrow().queues.iter().enumerate() {
            let mut wait = |due: u64| later = Some(later.map_or(due, |l| l.min(due)));
            match queue.front() {
                // A lost processor handles no messages.
                Some(_) if net.borrow().dead[i % n] => {}
                Some((due, _)) if *due > step => wait(*due),
                Some(_) if !net.borrow().acts(i % n) => wait(end_of_pause(i % n)),
                Some(_) => choices.push(n + i),
                None => {}
            }
        }
        let busy = || (0..n).filter(goes_on).filter(|&i| cores[i].effects().has_work());
        choices.extend(busy().filter(acts));
        let now = net.borrow().now();
        let alarms = || (0..n).filter(goes_on).filter_map(|i| Some((i, cores[i].effects().next_deadline()?)));
        let due_alarms = || alarms().filter(|&(_, at)| at <= now).map(|(i, _)| i);
        choices.extend(due_alarms().filter(acts).map(|i| n + n * n + i));
        if choices.is_empty() {
            // Processors that only a pause holds up.
            let pauses = || busy().chain(due_alarms()).filter(|i| !acts(i));
            let awake = pauses().map(end_of_pause).min();
            let alarm = alarms().map(|(_, at)| at).filter(|&at| at > now).min();
            // Near the end of the clock the next step may be past it.
            let alarm_step = alarm.map(|at| at.div_ceil(STEP));
            match [later, awake].into_iter().flatten().min() {
                Some(due) => net.borrow_mut().step = due.min(alarm_step.unwrap_or(u64::MAX)),
                None => {
                    let awaits_outside = (0..n).filter(goes_on).any(|i| cores[i].effects().has_foreign_waker());
                    let still_idle = || busy().next().is_none();
                    if awaits_outside {
                        let limit = alarm.map_or(OUTSIDE, |at| OUTSIDE.min(Duration::from_nanos(at - now)));
                        // Nobody reports that a waker was dropped, so the sleep is limited.
                        let slept = Instant::now();
                        let _: Wake = parker.park(still_idle, Some(slept + limit));
                        // While the run waits for somebody outside, its clock follows the time outside.
                        let steps = slept.elapsed().as_nanos() as u64 / STEP;
                        net.borrow_mut().step += steps;
                        left = left.saturating_sub(steps);
                    } else if still_idle() {
                        let Some(alarm_step) = alarm_step else {
                            let dead = net.borrow().dead.clone();
                            let living = cores.iter().zip(dead).filter(|(_, dead)| !dead);
                            return Some(deadlock(living.map(|(c, _)| c.report())));
                        };
                        net.borrow_mut().step = alarm_step;
                    }
                }
            }
            continue;
        }
        left -= 1;
        let choice = {
            let mut net = net.borrow_mut();
            net.step = net.step.saturating_add(1);
            choices[net.random.usize(0..choices.len())]
        };
        if choice < n {
            cores[choice].turn(1);
            continue;
        }
        if choice >= n + n * n {
            let now = net.borrow().now();
            cores[choice - n - n * n].time_is(now);
            continue;
        }
        if let Err(e) = deliver_next(cores, net, choice - n) {
            return Some(e);
        }
    }
}

/// Delivers the next message of a pair of processors. False if there is none.
fn deliver_next(cores: &[Rc<Core>], net: &RefCell<Net>, pair: usize) -> Result<bool, Error> {
    let Some((_, bytes)) = net.borrow_mut().queues[pair].pop_front() else { return Ok(false) };
    let n = cores.len();
    let (from, to) = (ProcessorId((pair / n) as u32), ProcessorId((pair % n) as u32));
    let message = postcard::from_bytes(&bytes).map_err(|e| uncoded(from, to, &e))?;
    cores[to.index()].receive(from, message);
    Ok(true)
}

/// Delivers what is under way when all processors have stopped, so that only what the runtime forgets is left over.
fn deliver_the_rest(cores: &[Rc<Core>], net: &RefCell<Net>) -> Option<Error> {
    let mut more = true;
    while std::mem::take(&mut more) {
        for pair in 0..cores.len() * cores.len() {
            match deliver_next(cores, net, pair) {
                Ok(delivered) => more |= delivered,
                Err(e) => return Some(e),
            }
        }
    }
    None
}
