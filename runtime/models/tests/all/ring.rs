//! Models of one ring.

use crate::{OF_ONE, model_bounded};
use loom::sync::Arc;
use loom::thread;
use maniple_runtime_models::wire::ring::{Receiver, ring, ring_at};

/// Takes the next value, however long it takes to come.
fn pop<T: Send>(rx: &mut Receiver<T>) -> T {
    loop {
        match rx.pop() {
            Some(value) => return value,
            None => thread::yield_now(),
        }
    }
}

#[test]
fn five_values_go_through_two_slots() {
    for start in [0, usize::MAX - 1] {
        model_bounded(OF_ONE, move || {
            let (mut tx, mut rx) = ring_at(2, start);
            let producer = thread::spawn(move || {
                for i in 0..5 {
                    let mut value = Box::new(i);
                    while let Err(back) = tx.push(value) {
                        value = back;
                        thread::yield_now();
                    }
                }
            });
            for i in 0..5 {
                assert_eq!(*pop(&mut rx), i);
            }
            assert!(rx.is_empty());
            producer.join().unwrap();
        });
    }
}

#[test]
fn four_slots_take_two_laps() {
    model_bounded(OF_ONE, || {
        let (mut tx, mut rx) = ring(4);
        let producer = thread::spawn(move || {
            for i in 0..7 {
                let mut value = i;
                while let Err(back) = tx.push(value) {
                    value = back;
                    thread::yield_now();
                }
            }
        });
        for i in 0..7 {
            assert_eq!(pop(&mut rx), i);
        }
        producer.join().unwrap();
    });
}

#[test]
fn a_full_ring_gives_the_value_back() {
    loom::model(|| {
        let (mut tx, mut rx) = ring(2);
        tx.push(0).unwrap();
        tx.push(1).unwrap();
        let consumer = thread::spawn(move || {
            assert_eq!(rx.pop(), Some(0));
            rx
        });
        let third = tx.push(2);
        let mut rx = consumer.join().unwrap();
        assert_eq!(rx.pop(), Some(1));
        assert_eq!(rx.pop(), third.is_ok().then_some(2));
        assert!(third == Ok(()) || third == Err(2));
    });
}

/// Either handle may be the last. Loom reports a value that leaks or is dropped twice through its own `Arc`.
#[test]
fn values_inside_are_dropped_once() {
    loom::model(|| {
        let value = Arc::new(());
        let (mut tx, mut rx) = ring(2);
        let clones = [Arc::clone(&value), Arc::clone(&value)];
        let producer = thread::spawn(move || {
            for clone in clones {
                assert!(tx.push(clone).is_ok());
            }
        });
        drop(rx.pop());
        drop(rx);
        producer.join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
    });
}
