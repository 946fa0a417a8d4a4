//! The post office in loom: two or three processors, rings of two slots, and every execution up to the bound on
//! pre-emptions. A message or a wake-up that is lost leaves a processor asleep, which loom reports as a deadlock.

use super::super::sync::{model_bounded, yield_now};
use super::drive::{Owner, drive};
use super::inbox::Inbox;
use super::outbox::{Outbox, UNFENCED};
use super::post::Post;
use crate::message::ProcessorId;
use loom::thread;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Owner that takes in a number of messages and then stops.
struct Reader {
    left: Cell<u32>,
}

impl<M> Owner<M> for Reader {
    fn receive(&self, _: ProcessorId, _: M) {
        self.left.set(self.left.get() - 1);
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
    }

    fn stopped(&self) -> bool {
        self.left.get() == 0
    }
}

/// Has a processor run until it has taken in `messages`.
fn read<M: Send>(id: ProcessorId, post: &Arc<Post<M>>, messages: u32) {
    let (owner, outbox) = (Reader { left: Cell::new(messages) }, Outbox::new(id, post.clone()));
    drive(id, &owner, post, &outbox, &mut Inbox::new(), false);
    assert_eq!(owner.left.get(), 0, "a run that goes on was given up");
}

/// The turns in which a sender that has always something else to do makes sure of what it has sent.
fn go_on<M: Send>(outbox: &Outbox<M>) {
    for _ in 0..=UNFENCED {
        outbox.tend();
    }
}

/// The sender neither sleeps nor flushes by itself, and opens its ring while the receiver may be about to sleep.
#[test]
fn a_message_is_seen_although_its_sender_goes_on() {
    model_bounded(|| {
        let post = Arc::new(Post::new(2));
        let there = post.clone();
        let sender = thread::spawn(move || {
            let outbox = Outbox::new(1, there);
            outbox.send(0, 7);
            go_on(&outbox);
        });
        read(0, &post, 1);
        sender.join().unwrap();
    });
}

/// The second message comes through a ring that the receiver knows, in turns that begin anew.
#[test]
fn so_is_a_second_one() {
    model_bounded(|| {
        let post = Arc::new(Post::new(2));
        let there = post.clone();
        let sender = thread::spawn(move || {
            let outbox = Outbox::new(1, there);
            for value in [7, 8] {
                outbox.send(0, value);
                go_on(&outbox);
            }
        });
        read(0, &post, 2);
        sender.join().unwrap();
    });
}

/// The receiver knows the ring of one sender when the other opens its own.
#[test]
fn a_second_ring_is_seen() {
    model_bounded(|| {
        let post = Arc::new(Post::new(3));
        let senders = [1, 2].map(|id| {
            let there = post.clone();
            thread::spawn(move || {
                let outbox = Outbox::new(id, there);
                outbox.send(0, id);
                outbox.flush();
            })
        });
        read(0, &post, 2);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// The sender goes on, too, once everything is in the ring.
#[test]
fn what_waited_for_room_is_seen() {
    model_bounded(|| {
        let post = Arc::new(Post::new(2));
        let there = post.clone();
        let sender = thread::spawn(move || {
            let outbox = Outbox::new(1, there);
            for value in 0..3 {
                outbox.send(0, value);
            }
            while outbox.has_backlog() {
                yield_now();
                outbox.tend();
            }
            go_on(&outbox);
        });
        read(0, &post, 3);
        sender.join().unwrap();
    });
}

enum Letter {
    /// To be answered, so many times to and fro.
    Hop(u32),
    Stop,
}

/// Owner that answers letters; the last of them stops everybody, or nobody.
struct Clerk<'a> {
    outbox: &'a Outbox<Letter>,
    letters: RefCell<Vec<(ProcessorId, Letter)>>,
    /// Processors that the last letter stops.
    stops: u32,
    stopped: Cell<bool>,
}

impl Owner<Letter> for Clerk<'_> {
    fn receive(&self, source: ProcessorId, letter: Letter) {
        self.letters.borrow_mut().push((source, letter));
    }

    fn turn(&self) -> bool {
        let letters = self.letters.take();
        let ran = !letters.is_empty();
        for (source, letter) in letters {
            match letter {
                Letter::Hop(0) => (0..self.stops).for_each(|p| self.outbox.send(p, Letter::Stop)),
                Letter::Hop(n) => self.outbox.send(source, Letter::Hop(n - 1)),
                Letter::Stop => self.stopped.set(true),
            }
        }
        ran
    }

    fn has_work(&self) -> bool {
        !self.letters.borrow().is_empty()
    }

    fn has_foreign_waker(&self) -> bool {
        false
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }

    fn park(&self, sleep: impl FnOnce()) {
        sleep();
    }

    fn stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// One processor of [`exchange`]; false if it was stopped by the post and not by a letter.
fn clerk(id: ProcessorId, post: &Arc<Post<Letter>>, first: &[(ProcessorId, u32)], stops: u32) -> bool {
    let outbox = Outbox::new(id, post.clone());
    let owner = Clerk { outbox: &outbox, letters: RefCell::default(), stops, stopped: Cell::new(false) };
    first.iter().for_each(|&(to, hops)| outbox.send(to, Letter::Hop(hops)));
    drive(id, &owner, post, &outbox, &mut Inbox::new(), false);
    owner.stopped.get()
}

/// `n` processors, of which the first begins with the letters `first`. The last hop stops all if `stops`: a run that goes on
/// then is never given up. Else the run is stuck, and everybody learns it.
fn exchange(n: u32, first: &'static [(ProcessorId, u32)], stops: bool) {
    model_bounded(move || {
        let post = Arc::new(Post::new(n as usize));
        let stopped = if stops { n } else { 0 };
        let others = (1..n).map(|id| {
            let there = post.clone();
            thread::spawn(move || assert_eq!(clerk(id, &there, &[], stopped), stops))
        });
        let others: Vec<_> = others.collect();
        assert_eq!(clerk(0, &post, first, stopped), stops);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(post.is_stuck(), !stops);
    });
}

#[test]
fn an_answer_under_way_is_no_deadlock() {
    exchange(2, &[(1, 1)], true);
}

#[test]
fn two_idle_processors_are_stuck() {
    exchange(2, &[], false);
}

#[test]
fn two_are_stuck_after_an_exchange() {
    exchange(2, &[(1, 1)], false);
}

#[test]
fn three_idle_processors_are_stuck() {
    exchange(3, &[], false);
}

#[test]
fn an_answer_to_one_of_three_is_no_deadlock() {
    exchange(3, &[(1, 1)], true);
}
