//! Folds of slices and exact sums.

use criterion::{BenchmarkId, Criterion, Throughput};
use maniple_regions::{ExactSum, Operator};
use std::hint::black_box;

const ELEMENTS: usize = 1 << 14;

/// Numbers of both signs, with exponents over the given range.
fn numbers(exponents: i32) -> Vec<f64> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..ELEMENTS)
        .map(|_| {
            let fraction = next() as f64 / (1_u64 << 31) as f64 - 0.5;
            fraction * f64::from(next() as i32 % exponents - exponents / 2).exp2()
        })
        .collect()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("exact sum");
    group.throughput(Throughput::Bytes(8 * ELEMENTS as u64));
    for exponents in [1, 40, 2000] {
        let values = numbers(exponents);
        group.bench_function(BenchmarkId::new("f64, exponents", exponents), |b| {
            b.iter(|| {
                let mut sum = ExactSum::zero();
                sum.add_slice(black_box(&values));
                sum
            });
        });
    }
    group.throughput(Throughput::Bytes(4 * ELEMENTS as u64));
    for exponents in [1, 40, 200] {
        let values: Vec<f32> = numbers(exponents).into_iter().map(|x| x as f32).collect();
        group.bench_function(BenchmarkId::new("f32, exponents", exponents), |b| {
            b.iter(|| {
                let mut sum = ExactSum::zero();
                sum.add_slice(black_box(&values));
                sum
            });
        });
    }
    group.finish();

    let mut group = c.benchmark_group("one exact sum");
    let mut sum = ExactSum::zero();
    sum.add_slice(&numbers(40));
    let mut other = ExactSum::zero();
    other.add_slice(&numbers(100));
    group.bench_function("add", |b| {
        let mut x = 1.0;
        b.iter(|| {
            x = -x;
            sum.add(black_box(x));
        });
    });
    group.bench_function("merge", |b| b.iter(|| sum.merge(black_box(&other))));
    group.bench_function("value", |b| b.iter(|| black_box(&sum).value()));
    group.finish();

    let mut group = c.benchmark_group("fold");
    group.throughput(Throughput::Bytes(8 * ELEMENTS as u64));
    let values = numbers(40);
    let mut running = values.clone();
    for operator in [Operator::sum(), Operator::min(), Operator::user("own sum", |a: &f64, b: &f64| a + b)] {
        group.bench_function(BenchmarkId::new("f64", operator.name()), |b| {
            b.iter(|| operator.fold_higher(black_box(&mut running), black_box(&values)));
        });
    }
    group.finish();
}

fn main() {
    maniple_benches::measure(&[benches]);
}
