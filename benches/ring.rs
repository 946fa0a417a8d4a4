//! The ring between two processors, with values that fill a cache line. The ring is private to the runtime, so its file is
//! a part of this program, too.

#[allow(dead_code, unsafe_code, unused_imports)]
#[path = "../runtime/src/wire/ring.rs"]
mod ring;
#[allow(dead_code, unused_imports)]
#[path = "../runtime/src/wire/sync.rs"]
mod sync;

use criterion::Criterion;
use ring::{Receiver, Sender, ring};
use std::hint::{black_box, spin_loop};
use std::thread;
use std::time::Instant;

type Line = [u64; 7];

/// Spins, and lets others have the core should they need it.
fn until<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let mut spins = 0u32;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        spins += 1;
        if spins < 10_000 { spin_loop() } else { thread::yield_now() }
    }
}

fn pop(from: &mut Receiver<Line>) -> Line {
    until(|| from.pop())
}

fn push(to: &mut Sender<Line>, value: Line) {
    until(|| to.push(value).ok());
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring");
    group.bench_function("push and pop, one thread", |b| {
        let (mut to, mut from) = ring::<Line>(256);
        b.iter(|| {
            let _ = to.push(black_box([1; 7]));
            from.pop()
        });
    });
    group.bench_function("round trip, two threads", |b| {
        b.iter_custom(|round_trips| {
            let ((mut there, mut request), (mut back, mut answer)) = (ring::<Line>(256), ring::<Line>(256));
            thread::scope(|scope| {
                scope.spawn(move || (0..=round_trips).for_each(|_| push(&mut back, pop(&mut request))));
                let mut once = |i| {
                    push(&mut there, [i; 7]);
                    assert_eq!(pop(&mut answer), [i; 7]);
                };
                // The first waits for the other thread to start.
                once(0);
                let start = Instant::now();
                (1..=round_trips).for_each(once);
                start.elapsed()
            })
        });
    });
    group.bench_function("stream, two threads", |b| {
        b.iter_custom(|values| {
            let (mut to, mut from) = ring::<Line>(256);
            thread::scope(|scope| {
                scope.spawn(move || (0..=values).for_each(|i| push(&mut to, [i; 7])));
                assert_eq!(pop(&mut from), [0; 7]);
                let start = Instant::now();
                (1..=values).for_each(|i| assert_eq!(pop(&mut from), [i; 7]));
                start.elapsed()
            })
        });
    });
    group.finish();
}

fn main() {
    maniple_benches::measure(&[benches]);
}
