//! One thread drives all processors in an order drawn from a seed. Each processor is a node of its own, and every message
//! is encoded and decoded, so that nothing slips in that could not cross hosts.

use super::park::{Parker, Wake};
use super::{OUTSIDE, Wire, alone, crashed, deadlock, start_top};
use crate::Error;
use crate::config::Config;
use crate::core::Core;
use crate::counters::Stats;
use crate::message::{Message, ProcessorId};
use crate::time::{Clock, Ticks};
use crate::top::Top;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nanoseconds that a step counts for on the run's clock: about what a turn or a message takes on threads.
const STEP: u64 = 1000;

struct Net {
    random: fastrand::Rng,
    /// Encoded messages of each ordered pair, with the earliest step at which each may be delivered.
    queues: Vec<VecDeque<(u64, Vec<u8>)>>,
    processors: usize,
    /// Calls of top-level tasks, for processor 0 to compare.
    replicated: VecDeque<(ProcessorId, Vec<u8>)>,
    step: u64,
    error: Option<Error>,
}

impl Net {
    fn now(&self) -> u64 {
        self.step.saturating_mul(STEP)
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
            // No chance is drawn: a seed gives the same run whether or not nodes compare their calls.
            Ok(bytes) if matches!(message, Message::Replicated(_)) => net.replicated.push_back((self.from, bytes)),
            Ok(bytes) => {
                // Most messages are quick, some are very slow.
                let slow = net.random.u32(0..8) == 0;
                let delay = net.random.u64(0..if slow { 200 } else { 4 });
                let (at, due) = (self.from as usize * net.processors + to as usize, net.step + delay);
                net.queues[at].push_back((due, bytes));
            }
            Err(e) => {
                let what = format!("a message from processor {} to {to}: {message:?}", self.from);
                net.error.get_or_insert(Error::Encoding { what, message: e.to_string() });
            }
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

pub(super) fn run<F, Fut, R>(config: Arc<Config>, seed: u64, top: &F) -> Result<(R, Stats), Error>
where
    F: Fn(Top) -> Fut,
    Fut: Future<Output = Result<R, Error>> + 'static,
    R: Send + 'static,
{
    let processors = config.machine.processors() as usize;
    let net = Rc::new(RefCell::new(Net {
        random: fastrand::Rng::with_seed(seed),
        queues: (0..processors * processors).map(|_| VecDeque::new()).collect(),
        processors,
        replicated: VecDeque::new(),
        step: 0,
        error: None,
    }));
    let _clock = Clock::of(net.clone());
    let parker = Arc::new(Parker::new());
    let cores: Vec<Rc<Core>> = (0..processors as u32)
        .map(|id| {
            let wire = SeededWire { net: net.clone(), from: id };
            let parker = parker.clone();
            Core::new(id, config.clone(), Box::new(wire), Arc::new(move || parker.wake()))
        })
        .collect();
    let outcomes: Vec<_> = cores.iter().map(|core| start_top(core, top)).collect();
    let driven = catch_unwind(AssertUnwindSafe(|| drive(&cores, &net, &parker)));
    let failure = driven.unwrap_or_else(|panic| Some(crashed(0, panic)));
    let compared = compare(&cores[0], &net);
    alone::conclude(cores, outcomes, failure, compared)
}

/// Has the first processor compare the calls that the nodes have made; an error if the run is to end.
fn compare(first: &Rc<Core>, net: &RefCell<Net>) -> Option<Error> {
    loop {
        let next = net.borrow_mut().replicated.pop_front();
        let Some((from, bytes)) = next else { return net.borrow_mut().error.take() };
        match postcard::from_bytes(&bytes) {
            Ok(message) => first.deliver(from, message),
            Err(e) => return Some(undecoded(from, 0, &e)),
        }
    }
}

fn undecoded(from: ProcessorId, to: ProcessorId, e: &postcard::Error) -> Error {
    Error::Encoding { what: format!("a message from processor {from} to {to}"), message: e.to_string() }
}

/// Runs until every processor has stopped; the error if it cannot go on.
fn drive(cores: &[Rc<Core>], net: &RefCell<Net>, parker: &Parker) -> Option<Error> {
    let n = cores.len();
    let mut choices: Vec<usize> = Vec::new();
    loop {
        if let Some(e) = compare(&cores[0], net) {
            return Some(e);
        }
        // Shards that are left, after a panic of the top-level task, do not go on.
        if cores.iter().all(|c| c.stopped()) {
            return None;
        }
        choices.clear();
        let mut later: Option<u64> = None;
        {
            let net = net.borrow();
            for (i, queue) in net.queues.iter().enumerate() {
                match queue.front() {
                    Some((due, _)) if *due <= net.step => choices.push(n + i),
                    Some((due, _)) => later = Some(later.map_or(*due, |l| l.min(*due))),
                    None => {}
                }
            }
        }
        // One that has stopped does no more, as its thread would not.
        let goes_on = |i: &usize| !cores[*i].stopped();
        let busy = || (0..n).filter(goes_on).filter(|&i| cores[i].has_work());
        choices.extend(busy());
        let now = net.borrow().now();
        let alarms = || (0..n).filter(goes_on).filter_map(|i| Some((i, cores[i].next_deadline()?)));
        choices.extend(alarms().filter(|&(_, at)| at <= now).map(|(i, _)| n + n * n + i));
        if choices.is_empty() {
            let alarm = alarms().map(|(_, at)| at).min();
            // Near the end of the clock the next step is past it.
            let alarm_step = alarm.map_or(u64::MAX, |at| at.div_ceil(STEP));
            match later {
                Some(due) => net.borrow_mut().step = due.min(alarm_step),
                None => {
                    let awaits_outside = (0..n).filter(goes_on).any(|i| cores[i].has_foreign_waker());
                    let still_idle = || busy().next().is_none();
                    if awaits_outside {
                        let limit = alarm.map_or(OUTSIDE, |at| OUTSIDE.min(Duration::from_nanos(at - now)));
                        // Nobody tells when a waker is dropped.
                        let slept = Instant::now();
                        let _: Wake = parker.park(still_idle, Some(slept + limit));
                        // What comes from outside comes in outside's time.
                        net.borrow_mut().step += slept.elapsed().as_nanos() as u64 / STEP;
                    } else if still_idle() {
                        if alarm.is_none() {
                            return Some(deadlock(cores.iter().map(|c| c.report())));
                        }
                        net.borrow_mut().step = alarm_step;
                    }
                }
            }
            continue;
        }
        let choice = {
            let mut net = net.borrow_mut();
            net.step += 1;
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
        let pair = choice - n;
        let Some((_, bytes)) = net.borrow_mut().queues[pair].pop_front() else {
            continue;
        };
        match postcard::from_bytes(&bytes) {
            Ok(message) => cores[pair % n].receive((pair / n) as u32, message),
            Err(e) => return Some(undecoded((pair / n) as u32, (pair % n) as u32, &e)),
        }
    }
}
