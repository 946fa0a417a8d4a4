//! Models of rings between processes, and of the blocks of messages. Each processor is a process with a post office of its
//! own; they share only their segments.

use crate::threads::{go_on, read_and};
use crate::{OF_ONE, OF_SEVERAL, model_bounded};
use loom::sync::atomic::Ordering;
use loom::thread::{self, yield_now};
use maniple_mapper::ProcessorId;
use maniple_runtime_models::message::{Also, Message};
use maniple_runtime_models::payload::Payload;
use maniple_runtime_models::wire::processes::rings::{Failure, Ways};
use maniple_runtime_models::wire::processes::segment::Segment;
use maniple_runtime_models::wire::processes::segments::{HeldBlock, LARGEST, Layout, Segments};
use maniple_runtime_models::wire::ring::ring;
use maniple_runtime_models::wire::threads::outbox::Outbox;
use maniple_runtime_models::wire::threads::post::{Post, Publics};
use std::sync::Arc;
use std::time::Instant;

const FIRST: ProcessorId = ProcessorId(0);
const SECOND: ProcessorId = ProcessorId(1);
const THIRD: ProcessorId = ProcessorId(2);

/// The segments as each of `n` processes sees them.
fn processes(n: u32) -> Vec<Arc<Segments>> {
    let layout = Layout { processes: n, workers: 1 };
    let all: Vec<Segment> = (0..n).map(|_| Segment::new("a model", 0, 0, true).expect("memory")).collect();
    all.iter().for_each(|own| Segments::prepare(layout, own));
    let mapped = || all.iter().map(|segment| Some(Arc::new(segment.clone()))).collect();
    let processes: Vec<_> =
        (0..n as usize).map(|me| Arc::new(Segments::new(layout, (me, LARGEST), mapped()))).collect();
    // The words are there before anybody looks.
    for from in (0..n).map(ProcessorId) {
        for to in (0..n).map(ProcessorId) {
            processes[0].offer(from, to);
        }
    }
    processes
}

/// The post office of a process.
fn post(segments: &Arc<Segments>) -> Arc<Post<Message>> {
    // SAFETY: All have been made; the segments keep them.
    let publics = unsafe { Publics::in_memory(segments.publics(), segments.clone()) };
    let ways = Ways::new(segments.clone(), 2, Arc::new(Failure::default()), None);
    Arc::new(Post::of(publics, Some(Box::new(ways)), Instant::now()))
}

/// A message with `bytes` bytes of this value: up to 24 go as they are.
pub fn arrival(value: u8, bytes: usize) -> Message {
    let (payload, also) = (Payload::copy_of(&vec![value; bytes]), Also { cell: 0, generation: 0 });
    Message::Arrive { object: 0, cell: 0, generation: 0, payload, also }
}

pub fn check(message: &Message, value: u8, bytes: usize) {
    let Message::Arrive { payload, .. } = message else { panic!("{message:?}") };
    assert_eq!(payload.bytes(), vec![value; bytes]);
}

/// The processes with these numbers send a message of `bytes` bytes to the first one, and go on with other work.
fn send_to_first(senders: &'static [ProcessorId], bytes: usize) {
    model_bounded(OF_SEVERAL, move || {
        let processes = processes(1 + senders.len() as u32);
        let senders = senders.iter().map(|id| {
            let post = post(&processes[id.index()]);
            thread::spawn(move || {
                // The receiver is not woken for that.
                post.processors[id.index()].done.store(true, Ordering::Release);
                let outbox = Outbox::new(*id, post);
                outbox.send(FIRST, arrival(7, bytes));
                go_on(&outbox);
            })
        });
        let senders: Vec<_> = senders.collect();
        let post = post(&processes[0]);
        let outbox = Outbox::new(FIRST, post.clone());
        read_and(&outbox, FIRST, &post, senders.len() as u32, |message| check(&message, 7, bytes));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn the_first_message_is_seen() {
    send_to_first(&[SECOND], 8);
}

#[test]
fn the_first_messages_of_two_are_seen() {
    send_to_first(&[SECOND, THIRD], 8);
}

#[test]
fn what_a_block_holds_is_seen() {
    send_to_first(&[SECOND], 32);
}

/// Reads the value that a holder holds, and lets go of it.
fn read_held(held: HeldBlock, segments: &Segments, block: usize) -> u8 {
    let mut bytes = [0];
    // SAFETY: Held.
    unsafe { segments.of(0).read(block, &mut bytes) };
    drop(held);
    bytes[0]
}

/// Of each message there are two holders on two threads. So the block of the second or third message may be the block of an
/// earlier one, but only after both have let go.
#[test]
fn a_block_is_used_again_after_its_last_holder() {
    model_bounded(OF_ONE, || {
        let processes = processes(2);
        let (mut tx, mut rx) = ring(4);
        let (mut hand, mut over) = ring(4);
        let there = processes[1].clone();
        let receiver = thread::spawn(move || {
            for value in 1..=2 {
                let block = loop {
                    match rx.pop() {
                        Some(block) => break block,
                        None => yield_now(),
                    }
                };
                let first = HeldBlock::given(&there, (0, block), block, 1);
                hand.push((HeldBlock::more(&there, (0, block), block, 1), block, value)).ok().expect("space");
                assert_eq!(read_held(first, &there, block), value);
            }
        });
        let there = processes[1].clone();
        let other = thread::spawn(move || {
            for _ in 0..2 {
                let (held, block, value) = loop {
                    match over.pop() {
                        Some(held) => break held,
                        None => yield_now(),
                    }
                };
                assert_eq!(read_held(held, &there, block), value);
            }
        });
        let blocks = [1, 2].map(|value| {
            let block = processes[0].send(&[&[value]]).expect("space");
            tx.push(block).expect("space");
            block
        });
        [receiver, other].into_iter().for_each(|other| other.join().unwrap());
        // Nobody holds one, so the oldest comes first.
        assert_eq!(processes[0].send(&[&[3]]), Some(blocks[0]));
    });
}

/// Two processors of a process send at once, and there is one block that nobody holds.
#[test]
fn two_senders_never_use_one_block() {
    model_bounded(OF_ONE, || {
        let processes = processes(2);
        let own = &processes[0];
        let free = own.send(&[&[1]]).expect("space");
        drop(HeldBlock::given(&processes[1], (0, free), free, 1));
        let there = own.clone();
        let other = thread::spawn(move || there.send(&[&[2]]).expect("space"));
        let here = own.send(&[&[3]]).expect("space");
        let there = other.join().unwrap();
        assert!(here != there && (here == free || there == free));
        for (block, value) in [(there, 2), (here, 3)] {
            assert_eq!(read_held(HeldBlock::given(&processes[1], (0, block), block, 1), own, block), value);
        }
    });
}
