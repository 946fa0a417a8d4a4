//! Models of parking. A lost wake-up leaves every thread of the model blocked, which loom reports as a deadlock.

use crate::{OF_ONE, model_bounded};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use maniple_runtime_models::wire::park::{Parker, Wake, fence};
use maniple_runtime_models::wire::ring::{Receiver, ring};
use std::time::Instant;

/// What a sender does before it idles.
fn wake_if_parked(parker: &Parker) {
    fence();
    parker.nudge();
}

/// A processor that only receives: sleeps without a deadline until there is a value.
fn receive(parker: &Parker, rx: &mut Receiver<u32>) -> u32 {
    loop {
        if let Some(value) = rx.pop() {
            return value;
        }
        let _ = parker.park(|| rx.is_empty(), None);
    }
}

#[test]
fn a_fenced_push_wakes() {
    loom::model(|| {
        let parker = Arc::new(Parker::new());
        let (mut tx, mut rx) = ring(2);
        let here = Arc::clone(&parker);
        let sender = thread::spawn(move || {
            tx.push(7).unwrap();
            wake_if_parked(&here);
        });
        assert_eq!(receive(&parker, &mut rx), 7);
        sender.join().unwrap();
    });
}

/// A sender's turn: pushes with a cheap look after each, then one fence and one look at the end.
#[test]
fn cheap_looks_and_one_fence_wake() {
    model_bounded(OF_ONE, || {
        let parker = Arc::new(Parker::new());
        let (mut tx, mut rx) = ring(2);
        let here = Arc::clone(&parker);
        let sender = thread::spawn(move || {
            for value in [7, 8] {
                tx.push(value).unwrap();
                here.nudge();
            }
            wake_if_parked(&here);
        });
        assert_eq!(receive(&parker, &mut rx), 7);
        assert_eq!(receive(&parker, &mut rx), 8);
        sender.join().unwrap();
    });
}

#[test]
fn one_fence_serves_two_destinations() {
    model_bounded(OF_ONE, || {
        let parkers = Arc::new([Parker::new(), Parker::new()]);
        let (mut tx_0, mut rx_0) = ring(2);
        let (mut tx_1, mut rx_1) = ring(2);
        let here = Arc::clone(&parkers);
        let other = thread::spawn(move || assert_eq!(receive(&here[1], &mut rx_1), 8));
        let here = Arc::clone(&parkers);
        let sender = thread::spawn(move || {
            tx_0.push(7).unwrap();
            tx_1.push(8).unwrap();
            fence();
            here.iter().for_each(Parker::nudge);
        });
        assert_eq!(receive(&parkers[0], &mut rx_0), 7);
        other.join().unwrap();
        sender.join().unwrap();
    });
}

#[test]
fn two_senders_wake() {
    model_bounded(OF_ONE, || {
        let parker = Arc::new(Parker::new());
        let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..2).map(|_| ring(2)).unzip();
        let threads: Vec<_> = senders
            .into_iter()
            .map(|mut tx| {
                let parker = Arc::clone(&parker);
                thread::spawn(move || {
                    tx.push(7).unwrap();
                    wake_if_parked(&parker);
                })
            })
            .collect();
        let mut received = 0;
        while received < 2 {
            received += receivers.iter_mut().filter_map(|rx| rx.pop()).inspect(|value| assert_eq!(*value, 7)).count();
            if received < 2 {
                let idle = || receivers.iter().all(|rx| rx.is_empty());
                let _ = parker.park(idle, None);
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// Two processors that each push, fence, look and then sleep: neither may sleep on.
#[test]
fn both_sides_may_sleep() {
    model_bounded(OF_ONE, || {
        let parkers = Arc::new([Parker::new(), Parker::new()]);
        let (mut to_1, mut from_0) = ring(2);
        let (mut to_0, mut from_1) = ring(2);
        let here = Arc::clone(&parkers);
        let other = thread::spawn(move || {
            to_0.push(7).unwrap();
            wake_if_parked(&here[0]);
            assert_eq!(receive(&here[1], &mut from_0), 8);
        });
        to_1.push(8).unwrap();
        wake_if_parked(&parkers[1]);
        assert_eq!(receive(&parkers[0], &mut from_1), 7);
        other.join().unwrap();
    });
}

/// The message is in a plain cell: loom reports a race if the notice does not carry it over.
#[test]
fn a_foreign_wake_brings_what_was_written_before() {
    loom::model(|| {
        let shared = Arc::new((Parker::new(), UnsafeCell::new(0)));
        let here = Arc::clone(&shared);
        let foreign = thread::spawn(move || {
            // SAFETY: The owner reads the cell only after the notice.
            here.1.with_mut(|cell| unsafe { *cell = 7 });
            here.0.wake();
        });
        assert_eq!(shared.0.park(|| true, None), Wake::Notified);
        // SAFETY: The foreign thread wrote before its wake and does not touch the cell again.
        assert_eq!(shared.1.with(|cell| unsafe { *cell }), 7);
        foreign.join().unwrap();
    });
}

#[test]
fn a_foreign_wake_and_a_sender_both_count() {
    model_bounded(OF_ONE, || {
        let parker = Arc::new(Parker::new());
        let inbox = Arc::new(Mutex::new(false));
        let (mut tx, mut rx) = ring(2);
        let (there, mail) = (Arc::clone(&parker), Arc::clone(&inbox));
        let foreign = thread::spawn(move || {
            *mail.lock().unwrap() = true;
            there.wake();
        });
        let here = Arc::clone(&parker);
        let sender = thread::spawn(move || {
            tx.push(7).unwrap();
            wake_if_parked(&here);
        });
        let (mut value, mut mail) = (None, false);
        while value.is_none() || !mail {
            value = value.or_else(|| rx.pop());
            mail = mail || *inbox.lock().unwrap();
            if value.is_none() || !mail {
                let _ = parker.park(|| rx.is_empty(), None);
            }
        }
        foreign.join().unwrap();
        sender.join().unwrap();
    });
}

#[test]
fn a_time_out_neither_loses_nor_keeps_a_notice() {
    loom::model(|| {
        let parker = Arc::new(Parker::new());
        let here = Arc::clone(&parker);
        let foreign = thread::spawn(move || here.wake());
        let past = Some(Instant::now());
        if parker.park(|| true, past) == Wake::TimedOut {
            assert_eq!(parker.park(|| true, None), Wake::Notified);
        }
        foreign.join().unwrap();
        assert_eq!(parker.park(|| true, past), Wake::TimedOut);
    });
}

#[test]
fn a_time_out_may_race_with_a_sender() {
    loom::model(|| {
        let parker = Arc::new(Parker::new());
        let (mut tx, mut rx) = ring(2);
        let here = Arc::clone(&parker);
        let sender = thread::spawn(move || {
            tx.push(7).unwrap();
            wake_if_parked(&here);
        });
        let _ = parker.park(|| rx.is_empty(), Some(Instant::now()));
        assert_eq!(receive(&parker, &mut rx), 7);
        sender.join().unwrap();
    });
}
