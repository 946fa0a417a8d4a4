//! Arrivals at the cells of barriers, without tasks.

use criterion::{BenchmarkId, Criterion, Throughput};
use maniple_barriers::{PairCell, PairWait, PhaseCell};
use std::hint::black_box;
use std::time::Duration;

fn pair(c: &mut Criterion) {
    let mut group = c.benchmark_group("pair");
    group.bench_function("arrive, then wait", |b| {
        let (mut cell, mut generation) = (PairCell::<u32>::default(), 0);
        b.iter(|| {
            assert_eq!(cell.arrive(generation), Ok(None));
            assert_eq!(cell.wait(generation, black_box(7)), Ok(PairWait::Complete));
            generation += 1;
        });
    });
    group.bench_function("wait, then arrive", |b| {
        let (mut cell, mut generation) = (PairCell::<u32>::default(), 0);
        b.iter(|| {
            assert_eq!(cell.wait(generation, black_box(7)), Ok(PairWait::Registered));
            assert_eq!(cell.arrive(generation), Ok(Some(7)));
            generation += 1;
        });
    });
    group.finish();
}

fn phase(c: &mut Criterion) {
    let mut group = c.benchmark_group("phase");
    for arrivers in [2u32, 64, 4096] {
        group.throughput(Throughput::Elements(arrivers.into()));
        group.bench_function(BenchmarkId::from_parameter(arrivers), |b| {
            let (mut cell, mut generation) = (PhaseCell::new(arrivers, 1), 0);
            b.iter(|| {
                for arriver in 0..arrivers - 1 {
                    assert_eq!(cell.arrive(arriver, generation), Ok(0));
                }
                assert_eq!(cell.arrive(arrivers - 1, generation), Ok(1));
                generation += 1;
            });
        });
    }
    group.finish();
}

fn main() {
    let criterion =
        Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    let mut criterion = criterion.configure_from_args();
    pair(&mut criterion);
    phase(&mut criterion);
    criterion.final_summary();
}
