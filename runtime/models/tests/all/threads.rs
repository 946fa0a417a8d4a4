//! Models of the post office in loom: two or three processors, rings of two slots, and every execution up to a limit on
//! pre-emptions. A lost message or wake-up leaves a processor asleep, which loom reports as a deadlock.

use crate::{OF_SEVERAL, model_bounded};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::thread::{self, yield_now};
use maniple_mapper::ProcessorId;
use maniple_runtime_models::Idle;
use maniple_runtime_models::wire::threads::drive::{Driven, drive};
use maniple_runtime_models::wire::threads::idle::{Patience, announce, quiescent};
use maniple_runtime_models::wire::threads::inbox::Inbox;
use maniple_runtime_models::wire::threads::outbox::{Outbox, UNFENCED};
use maniple_runtime_models::wire::threads::post::{Abroad, Origin, Post, Publics, Way};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

const FIRST: ProcessorId = ProcessorId(0);
const SECOND: ProcessorId = ProcessorId(1);
const THIRD: ProcessorId = ProcessorId(2);

fn model(body: impl Fn() + Send + Sync + 'static) {
    model_bounded(OF_SEVERAL, body);
}

/// Receives a number of messages, does something with each, and then stops.
struct Reader<F> {
    left: Cell<u32>,
    then: F,
}

impl<M, F: Fn(M)> Driven<M> for Reader<F> {
    fn receive(&self, _: ProcessorId, message: M) {
        (self.then)(message);
        self.left.set(self.left.get().saturating_sub(1));
    }

    fn turn(&self) -> bool {
        false
    }

    fn has_work(&self) -> bool {
        false
    }

    fn has_foreign_waker(&self) -> bool {
        false
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }

    fn park(&self, sleep: impl FnOnce()) {
        sleep();
        // It may not have slept, for a ring that has been counted and not offered yet.
        yield_now();
    }

    fn stopped(&self) -> bool {
        self.left.get() == 0
    }
}

/// Drives a processor until it has received `messages`.
fn read<M: Send + 'static>(outbox: &Outbox<M>, id: ProcessorId, post: &Post<M>, messages: u32) {
    read_and(outbox, id, post, messages, drop);
}

/// The same, and does something with each message.
pub fn read_and<M: Send + 'static>(
    outbox: &Outbox<M>,
    id: ProcessorId,
    post: &Post<M>,
    messages: u32,
    then: impl Fn(M),
) {
    let driven = Reader { left: Cell::new(messages), then };
    drive(id, &driven, post, outbox, &mut Inbox::new(), Patience::new(Idle::Adapts, true));
    assert_eq!(driven.left.get(), 0, "a run that goes on was given up");
}

/// Processor 1 runs `send`, and processor 0 receives `messages`.
fn one_reads<M: Send + 'static>(messages: u32, send: impl Fn(&Arc<Post<M>>) + Send + Sync + 'static) {
    let send = Arc::new(send);
    model(move || {
        let post = Arc::new(Post::new(2));
        let (there, send) = (post.clone(), send.clone());
        let sender = thread::spawn(move || send(&there));
        read(&Outbox::new(FIRST, post.clone()), FIRST, &post, messages);
        sender.join().unwrap();
    });
}

/// The turns in which a busy sender makes sure that its messages are seen.
pub fn go_on<M: Send + 'static>(outbox: &Outbox<M>) {
    for _ in 0..=UNFENCED {
        outbox.tend();
    }
}

/// The sender neither sleeps nor flushes by itself. It opens its ring while the receiver may be about to sleep.
#[test]
fn a_message_is_seen_although_its_sender_goes_on() {
    one_reads(1, |post| {
        let outbox = Outbox::new(SECOND, post.clone());
        outbox.send(FIRST, 7);
        go_on(&outbox);
    });
}

/// The second message comes through a ring that the receiver may know.
#[test]
fn two_messages_are_seen_although_their_sender_goes_on() {
    one_reads(2, |post| {
        let outbox = Outbox::new(SECOND, post.clone());
        for value in [7, 8] {
            outbox.send(FIRST, value);
            go_on(&outbox);
        }
    });
}

/// The sender also goes on once everything is in the ring.
#[test]
fn what_waited_for_a_slot_is_seen() {
    one_reads(3, |post| {
        let outbox = Outbox::new(SECOND, post.clone());
        for value in 0..3 {
            outbox.send(FIRST, value);
        }
        while outbox.has_backlog() {
            yield_now();
            outbox.tend();
        }
        go_on(&outbox);
    });
}

/// The sender has nothing else to do until it gets an answer.
#[test]
fn nobody_sleeps_over_what_waits_for_a_slot() {
    model(|| {
        let post = Arc::new(Post::new(2));
        let there = post.clone();
        let sender = thread::spawn(move || {
            let outbox = Outbox::new(SECOND, there.clone());
            for value in 0..3 {
                outbox.send(FIRST, value);
            }
            read(&outbox, SECOND, &there, 1);
        });
        let outbox = Outbox::new(FIRST, post.clone());
        read(&outbox, FIRST, &post, 3);
        outbox.send(SECOND, 3);
        outbox.flush();
        sender.join().unwrap();
    });
}

/// `Stop` is among the messages.
#[test]
fn who_leaves_pushes_what_waited_for_a_slot() {
    one_reads(3, |post| {
        let outbox = Outbox::new(SECOND, post.clone());
        for value in 0..3 {
            outbox.send(FIRST, value);
        }
        read(&outbox, SECOND, post, 0);
    });
}

#[test]
fn nobody_waits_for_a_slot_at_who_has_left() {
    one_reads(0, |post| {
        let outbox = Outbox::new(SECOND, post.clone());
        for value in 0..3 {
            outbox.send(FIRST, value);
        }
        read(&outbox, SECOND, post, 0);
    });
}

/// The receiver may know the ring of one sender when the other opens its own.
#[test]
fn a_second_ring_is_seen() {
    model(|| {
        let post = Arc::new(Post::new(3));
        let senders = [SECOND, THIRD].map(|id| {
            let there = post.clone();
            thread::spawn(move || {
                let outbox = Outbox::new(id, there);
                outbox.send(FIRST, id);
                outbox.flush();
            })
        });
        read(&Outbox::new(FIRST, post.clone()), FIRST, &post, 2);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

enum Letter {
    /// To be answered this many times.
    Hop(u32),
    Stop,
}

/// Somebody outside the run who holds a waker.
struct Outside {
    wakers: AtomicUsize,
    woken: AtomicBool,
}

/// Answers letters. The last letter, or a wake from outside, stops everybody or nobody.
struct Clerk<'a> {
    outbox: &'a Outbox<Letter>,
    letters: RefCell<Vec<(ProcessorId, Letter)>>,
    outside: Option<Arc<Outside>>,
    /// How many processors are stopped in the end, counted from the first.
    stops: u32,
    stopped: Cell<bool>,
}

impl Clerk<'_> {
    fn is_woken(&self) -> bool {
        self.outside.as_ref().is_some_and(|o| o.woken.load(Ordering::Relaxed))
    }

    fn stop_all(&self) {
        (0..self.stops).map(ProcessorId).for_each(|p| self.outbox.send(p, Letter::Stop));
    }
}

impl Driven<Letter> for Clerk<'_> {
    fn receive(&self, source: ProcessorId, letter: Letter) {
        self.letters.borrow_mut().push((source, letter));
    }

    fn turn(&self) -> bool {
        let (letters, woken) = (self.letters.take(), self.is_woken());
        let ran = woken || !letters.is_empty();
        if woken && let Some(outside) = &self.outside {
            outside.woken.store(false, Ordering::Relaxed);
            self.stop_all();
        }
        for (source, letter) in letters {
            match letter {
                Letter::Hop(0) => self.stop_all(),
                Letter::Hop(n) => self.outbox.send(source, Letter::Hop(n - 1)),
                Letter::Stop => self.stopped.set(true),
            }
        }
        ran
    }

    fn has_work(&self) -> bool {
        !self.letters.borrow().is_empty() || self.is_woken()
    }

    /// As `Core` does: rule 14.
    fn has_foreign_waker(&self) -> bool {
        let found = self.outside.as_ref().is_some_and(|o| o.wakers.load(Ordering::Relaxed) > 0);
        fence(Ordering::Acquire);
        found
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }

    fn park(&self, sleep: impl FnOnce()) {
        sleep();
        // In a model a deadline passes at once, so let the others go on.
        if self.outside.is_some() {
            yield_now();
        }
    }

    fn stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// The start of a processor.
#[derive(Clone, Default)]
struct Begin {
    letters: &'static [(ProcessorId, u32)],
    outside: Option<Arc<Outside>>,
}

/// Runs one processor. True if a letter stopped it.
fn clerk(id: ProcessorId, post: &Arc<Post<Letter>>, stops: u32, begin: Begin) -> bool {
    let outbox = Outbox::new(id, post.clone());
    let letters = RefCell::default();
    let driven = Clerk { outbox: &outbox, letters, outside: begin.outside, stops, stopped: Cell::new(false) };
    begin.letters.iter().for_each(|&(to, hops)| outbox.send(to, Letter::Hop(hops)));
    drive(id, &driven, post, &outbox, &mut Inbox::new(), Patience::new(Idle::Adapts, true));
    driven.stopped.get()
}

/// Runs `n` processors; only the first has a start. If `ends`, the last hop or a wake stops all, and the run must not
/// be given up before. Otherwise the run is stuck, and all processors must learn it.
fn run(n: u32, ends: bool, post: &Arc<Post<Letter>>, begin: Begin) {
    let stops = if ends { n } else { 0 };
    let others = (1..n).map(ProcessorId).map(|id| {
        let there = post.clone();
        thread::spawn(move || assert_eq!(clerk(id, &there, stops, Begin::default()), ends))
    });
    let others: Vec<_> = others.collect();
    assert_eq!(clerk(FIRST, post, stops, begin), ends);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(post.is_given_up(), !ends);
}

fn exchange(n: u32, ends: bool, letters: &'static [(ProcessorId, u32)]) {
    model(move || run(n, ends, &Arc::new(Post::new(n as usize)), Begin { letters, outside: None }));
}

#[test]
fn an_answer_under_way_is_no_deadlock() {
    exchange(2, true, &[(SECOND, 1)]);
}

/// A third processor goes idle at some time, and looks at the two that exchange. Driving it like them would take too
/// long.
#[test]
fn an_answer_between_two_others_is_no_deadlock() {
    model(|| {
        let post = Arc::new(Post::new(3));
        let there = post.clone();
        let third = thread::spawn(move || {
            let driven = Reader { left: Cell::new(0), then: drop };
            let announced = announce::<Letter>(&driven, &there.processors[2], 0, 0);
            assert!(announced == Some(false) && !quiescent(&there));
        });
        let there = post.clone();
        let second = thread::spawn(move || assert!(clerk(SECOND, &there, 2, Begin::default())));
        assert!(clerk(FIRST, &post, 2, Begin { letters: &[(SECOND, 1)], outside: None }));
        [second, third].into_iter().for_each(|other| other.join().unwrap());
        assert!(!post.is_given_up());
    });
}

/// The second and third processor are idle. The first sends to the second, which passes the message to the third and
/// then has more to do than the model shows. The first may see the third's received message but neither count of the
/// second. Then the sums are equal, although the second is awake.
#[test]
fn who_passes_a_message_on_is_not_idle() {
    model(|| {
        let post = Arc::new(Post::new(3));
        let idle = || Reader { left: Cell::new(0), then: drop };
        let there = post.clone();
        let second = thread::spawn(move || {
            let outbox = Outbox::new(SECOND, there.clone());
            let driven = Reader { left: Cell::new(1), then: |message| outbox.send(THIRD, message) };
            drive(SECOND, &driven, &there, &outbox, &mut Inbox::new(), Patience::new(Idle::Adapts, true));
        });
        let there = post.clone();
        let third = thread::spawn(move || {
            let (me, mut inbox) = (&there.processors[2], Inbox::new());
            let _ = announce::<u32>(&idle(), me, 0, 0);
            while inbox.received() == 0 {
                yield_now();
                inbox.take_in(&there, THIRD, |_, _| {});
            }
            me.idle.store(false, Ordering::Release);
            let _ = announce::<u32>(&idle(), me, 0, inbox.received());
        });
        let outbox = Outbox::new(FIRST, post.clone());
        outbox.send(SECOND, 7);
        outbox.flush();
        let _ = announce::<u32>(&idle(), &post.processors[0], outbox.sent(), 0);
        assert!(!quiescent(&post));
        [second, third].into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn two_idle_processors_are_stuck() {
    exchange(2, false, &[]);
}

#[test]
fn two_are_stuck_after_an_answer() {
    exchange(2, false, &[(SECOND, 1)]);
}

#[test]
fn three_idle_processors_are_stuck() {
    exchange(3, false, &[]);
}

/// The first of `n` processors waits for somebody outside, who may wake it and then holds no waker.
fn outside(n: u32, wakes: bool) {
    model(move || {
        let post = Arc::new(Post::new(n as usize));
        let outside = Arc::new(Outside { wakers: AtomicUsize::new(1), woken: AtomicBool::new(false) });
        let (there, other) = (post.clone(), outside.clone());
        let foreign = thread::spawn(move || {
            if wakes {
                other.woken.store(true, Ordering::Relaxed);
                there.processors[0].parker.wake();
            }
            other.wakers.fetch_sub(1, Ordering::Release);
        });
        run(n, wakes, &post, Begin { letters: &[], outside: Some(outside) });
        foreign.join().unwrap();
    });
}

#[test]
fn a_wake_from_outside_is_no_deadlock() {
    outside(2, true);
}

#[test]
fn who_is_outside_no_more_leaves_two_stuck() {
    outside(2, false);
}

/// Other processes whose rings are like those within one: the ends of processes do not depend on them.
struct Neighbours;

impl<M: Send + 'static> Abroad<M> for Neighbours {
    fn open(&self, _: &Publics, _: ProcessorId, _: ProcessorId) -> Option<Box<dyn Way<M>>> {
        None
    }

    fn fetch(&self, _: ProcessorId, _: &[ProcessorId]) -> Vec<(ProcessorId, Box<dyn Origin<M>>)> {
        Vec::new()
    }

    fn progress(&self, _: &Publics) -> bool {
        false
    }

    fn tells_when_left(&self, _: ProcessorId, _: ProcessorId) -> bool {
        false
    }
}

/// Runs `n` processors, each of a process of its own. Each sends what `sends` says, and is done after a number of messages.
/// Then it waits for the others. The run `ends`, or is given up because it is stuck.
fn ends_among_processes(ends: bool, sends: &'static [(ProcessorId, ProcessorId)], awaits: &'static [u32]) {
    let n = awaits.len() as u32;
    // All stop, so they have more to do than other models of whole processors.
    let preemptions = if n > 2 || sends.len() > 2 { 1 } else { OF_SEVERAL };
    model_bounded(preemptions, move || {
        let mut post = Post::new(n as usize);
        post.abroad = Some(Box::new(Neighbours));
        let post = Arc::new(post);
        let process = |id: ProcessorId| {
            let post = post.clone();
            move || {
                let outbox = Outbox::new(id, post.clone());
                sends.iter().filter(|(from, _)| *from == id).for_each(|(_, to)| outbox.send(*to, 7));
                // More may come than it awaits.
                let driven = Reader { left: Cell::new(awaits[id.index()]), then: drop };
                drive(id, &driven, &post, &outbox, &mut Inbox::new(), Patience::new(Idle::Adapts, true));
                assert_eq!(post.is_given_up(), !ends);
            }
        };
        let others: Vec<_> = (1..n).map(|id| thread::spawn(process(ProcessorId(id)))).collect();
        process(FIRST)();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn who_is_done_waits_for_who_is_not() {
    ends_among_processes(true, &[(FIRST, SECOND)], &[0, 1]);
}

#[test]
fn who_is_done_finds_that_the_other_is_stuck() {
    ends_among_processes(false, &[], &[0, 1]);
}

#[test]
fn who_is_done_receives_what_waited_for_a_slot() {
    ends_among_processes(true, &[(FIRST, SECOND), (FIRST, SECOND), (FIRST, SECOND)], &[0, 0]);
}

#[test]
fn two_that_are_done_find_that_the_third_is_stuck() {
    ends_among_processes(false, &[], &[0, 0, 1]);
}

#[test]
fn the_last_of_three_is_done() {
    ends_among_processes(true, &[(FIRST, THIRD)], &[0, 0, 1]);
}

/// A leaf task of the sender never ends: it makes sure of what it has sent before, and then does nothing more.
#[test]
fn what_was_sent_before_a_leaf_task_is_seen() {
    one_reads(1, |post| {
        let outbox = Outbox::new(SECOND, post.clone());
        outbox.send(FIRST, 7);
        outbox.flush();
    });
}
