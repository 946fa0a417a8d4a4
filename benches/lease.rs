//! Leases of an instance, given out and taken back, with and without an accessor bound to them.

use criterion::Criterion;
use maniple_regions::{Coherence, Field, Instance, Lease, MemoryId, Privilege, ReadWrite, Rect};
use std::hint::black_box;

const X: Field<u64> = Field::new(0, "x");
const CELLS: i64 = 1024;

fn benches(c: &mut Criterion) {
    let instance = Instance::new(Rect::line(0, CELLS), X.info(), MemoryId(0)).expect("8 KiB");
    let lease = |rect| -> Lease {
        instance.lease(black_box(rect), Privilege::ReadWrite, Coherence::Exclusive).expect("nobody else has it")
    };
    let release = |lease| instance.release(lease).expect("it is this instance's");
    let mut group = c.benchmark_group("lease");
    group.bench_function("whole", |b| b.iter(|| release(lease(Rect::line(0, CELLS)))));
    group.bench_function("part", |b| b.iter(|| release(lease(Rect::line(8, 16)))));
    group.bench_function("part beside 16 others", |b| {
        let others: Vec<Lease> = (1..=16).map(|i| lease(Rect::line(16 * i, 16 * i + 16))).collect();
        b.iter(|| release(lease(Rect::line(8, 16))));
        others.into_iter().for_each(release);
    });
    group.bench_function("whole, one element changed", |b| {
        b.iter(|| {
            let mut lease = lease(Rect::line(0, CELLS));
            let mut x = ReadWrite::<u64>::bind(&mut lease).expect("the privilege allows it");
            x.as_mut_slice()[0] += 1;
            release(lease);
        });
    });
    group.finish();
}

fn main() {
    maniple_benches::measure(&[benches]);
}
