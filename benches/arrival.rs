//! Arrivals at the cells of barriers, without tasks.

use criterion::{BenchmarkId, Criterion, Throughput};
use maniple_barriers::{Arrived, BarrierCell, CompactCells, Half};
use std::hint::black_box;

type Cell = BarrierCell<u32, u32, ()>;

fn completes(generations: u64, first: Option<u32>) -> Result<Arrived<u32>, maniple_barriers::BarrierError> {
    Ok(Arrived { completed: generations, first, others: false })
}

fn pair(c: &mut Criterion) {
    let mut group = c.benchmark_group("pair");
    for (name, waiter) in [("arrive", None), ("wait, then arrive", Some(7))] {
        group.bench_function(name, |b| {
            let (mut cells, mut generation) = (CompactCells::new(0u64), 0);
            b.iter(|| {
                if let Some(waiter) = black_box(waiter) {
                    cells.wait(Half::Ready, waiter);
                }
                assert_eq!(cells.arrive(Half::Ready, generation), Ok(waiter));
                generation += 1;
            });
        });
    }
    group.finish();
}

fn phase(c: &mut Criterion) {
    let mut group = c.benchmark_group("phase");
    for arrivers in [2u32, 64, 4096] {
        group.throughput(Throughput::Elements(arrivers.into()));
        group.bench_function(BenchmarkId::from_parameter(arrivers), |b| {
            let (mut cell, mut generation) = (Cell::new(arrivers, 1), 0);
            b.iter(|| {
                for arriver in 0..arrivers - 1 {
                    assert_eq!(cell.arrive(arriver, generation, None), completes(0, None));
                }
                assert_eq!(cell.arrive(arrivers - 1, generation, None), completes(1, None));
                generation += 1;
            });
        });
    }
    group.finish();
}

fn main() {
    maniple_benches::measure(&[pair, phase]);
}
