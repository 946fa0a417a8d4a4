//! Models of the messages between two hosts. Each has one process with one processor, and a thread may see to the messages.

use crate::rings::{arrival, check};
use crate::threads::read_and;
use crate::{OF_SEVERAL, model_bounded};
use loom::sync::Mutex;
use loom::sync::atomic::Ordering;
use loom::thread::{self, yield_now};
use maniple_mapper::ProcessorId;
use maniple_runtime_models::Progress;
use maniple_runtime_models::message::{Message, Values};
use maniple_runtime_models::wire::processes::link::{Carrier, Frame, Hosts, Link, News};
use maniple_runtime_models::wire::processes::rings::{Failure, Ways};
use maniple_runtime_models::wire::processes::segment::Segment;
use maniple_runtime_models::wire::processes::segments::{LARGEST, Layout, Segments};
use maniple_runtime_models::wire::threads::outbox::Outbox;
use maniple_runtime_models::wire::threads::post::{Post, Publics};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

const FIRST: ProcessorId = ProcessorId(0);
const SECOND: ProcessorId = ProcessorId(1);

/// What each of the two processes will be told.
type Net = Arc<[Mutex<VecDeque<News>>; 2]>;

struct Carried {
    net: Net,
    me: usize,
}

impl Carrier for Carried {
    fn send(&self, to: u32, frame: Frame) {
        let left = frame.tell.map(News::Left);
        self.net[to as usize].lock().unwrap().push_back(News::Came(self.me as u32, frame));
        self.net[self.me].lock().unwrap().extend(left);
    }

    fn progress(&self, tell: &mut dyn FnMut(News)) -> bool {
        let news = self.net[self.me].lock().unwrap().pop_front();
        news.map(tell).is_some()
    }

    fn is_idle(&self) -> bool {
        true
    }
}

/// One of the two hosts.
#[derive(Clone)]
struct Host {
    link: Arc<Link>,
    post: Arc<Post<Message>>,
}

/// The hosts. Loom's objects in what a host shares are made here.
fn hosts() -> [Host; 2] {
    let net: Net = Arc::new(std::array::from_fn(|_| Mutex::new(VecDeque::new())));
    std::array::from_fn(|me| {
        let layout = Layout { processes: 2, workers: 1 };
        let own = Segment::new("a model", 0, 0, true).expect("memory");
        Segments::prepare(layout, &own);
        let mapped = (0..2).map(|process| (process == me).then(|| Arc::new(own.clone()))).collect();
        let segments = Arc::new(Segments::new(layout, (me, LARGEST), mapped));
        // SAFETY: All have been made; the segments keep them.
        let publics = unsafe { Publics::in_memory(segments.publics(), segments.clone()) };
        let failed = Arc::new(Failure::default());
        let hosts = Hosts { layout, run: 1, rank: me as u32, first_of: vec![0, 1], utility: vec![[FIRST, SECOND][me]] };
        let link = Arc::new(Link::new(Arc::new(Carried { net: net.clone(), me }), hosts, failed.clone()));
        let ways = Ways::new(segments, 2, failed, Some(link.clone()));
        let mut post = Post::of(publics, Some(Box::new(ways)), Instant::now());
        post.other_hosts = Some(Progress::Dedicated);
        Host { link, post: Arc::new(post) }
    })
}

impl Host {
    fn progress(&self) {
        self.link.progress(&self.post.processors);
    }

    /// Nobody waits for the other host.
    fn other_is_done(&self, other: ProcessorId) {
        self.post.processors[other.index()].done.store(true, Ordering::Release);
    }
}

/// A thread sees to the messages, and the processor that they are for may sleep.
#[test]
fn what_is_handed_over_is_seen() {
    model_bounded(OF_SEVERAL, || {
        let [first, second] = hosts();
        let mut way = second.link.way(SECOND, FIRST);
        (1..=2).for_each(|value| way.push(arrival(value, 8)).expect("space"));
        first.other_is_done(SECOND);
        let there = first.clone();
        let sees = thread::spawn(move || (0..2).for_each(|_| there.progress()));
        let next = std::cell::Cell::new(1);
        let outbox = Outbox::new(FIRST, first.post.clone());
        read_and(&outbox, FIRST, &first.post, 2, |message| check(&message, next.replace(next.get() + 1), 8));
        sees.join().unwrap();
    });
}

/// A processor sends large values and may sleep. It is told that they have left.
#[test]
fn who_sends_large_values_is_told_that_they_have_left() {
    model_bounded(OF_SEVERAL, || {
        let [first, _second] = hosts();
        first.other_is_done(SECOND);
        let outbox = Outbox::new(FIRST, first.post.clone());
        outbox.count_one_more();
        outbox.send(SECOND, Message::Values(Box::new(Values { values: Vec::new() })));
        let there = first.clone();
        let sees = thread::spawn(move || there.progress());
        read_and(&outbox, FIRST, &first.post, 1, |message| assert!(matches!(message, Message::Left { to: SECOND })));
        sees.join().unwrap();
    });
}

/// Two messages fill the window. The third waits until its sender is told that they have been taken.
#[test]
fn a_sender_that_waits_is_told() {
    model_bounded(OF_SEVERAL, || {
        let [first, second] = hosts();
        let sender = thread::spawn(move || {
            let mut way = second.link.way(SECOND, FIRST);
            for value in 1..=3 {
                let mut message = arrival(value, 8);
                while let Err(back) = way.push(message) {
                    message = back;
                    second.progress();
                    yield_now();
                }
            }
        });
        let (mut ends, mut next) = (Vec::new(), 1);
        while next <= 3 {
            first.progress();
            ends.append(&mut first.link.fetch(FIRST));
            while let Some(message) = ends.first_mut().and_then(|(_, end)| end.pop()) {
                check(&message, next, 8);
                next += 1;
            }
            yield_now();
        }
        sender.join().unwrap();
    });
}

/// A processor leaves while another thread hands messages over to it. Their sender is told of all.
#[test]
fn what_comes_to_who_has_left_is_not_under_way() {
    model_bounded(OF_SEVERAL, || {
        let [first, second] = hosts();
        let mut way = second.link.way(SECOND, FIRST);
        way.push(arrival(1, 8)).expect("space");
        first.progress();
        let end = first.link.fetch(FIRST);
        way.push(arrival(2, 8)).expect("space");
        way.push(arrival(3, 8)).expect_err("two fill the window");
        let there = first.clone();
        let sees = thread::spawn(move || there.progress());
        drop(end);
        sees.join().unwrap();
        second.progress();
        way.push(arrival(3, 8)).expect("both have been taken");
    });
}

/// All are done, and messages wait for space on a host where nobody takes them any more.
#[test]
fn nobody_waits_for_space_on_a_host_that_is_done() {
    model_bounded(1, || {
        let [first, second] = hosts();
        first.post.processors[0].done.store(true, Ordering::Release);
        let sees = thread::spawn(move || {
            // Until it has told the other that all are done.
            while !first.post.processors[1].done.load(Ordering::Acquire) {
                first.progress();
                yield_now();
            }
        });
        let outbox = Outbox::new(SECOND, second.post.clone());
        (1..=3).for_each(|value| outbox.send(FIRST, arrival(value, 8)));
        read_and(&outbox, SECOND, &second.post, 0, drop);
        sees.join().unwrap();
    });
}
