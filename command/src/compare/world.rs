//! The programs that are compared, in plain MPI, with one rank for each shard.
//!
//! The stencil shares the [`kernel`] and the first vector with the version on shard tasks, and is measured at the same points.
//! It exchanges and combines in MPI's own way: receives of ghost cells are posted before these are sent, and the sum is an
//! `MPI_Allreduce`.
//!
//! An error inside MPI ends all ranks, which is the default of its standard.

use maniple_runtime::mpi::{Communicator, Operation};
use maniple_stencil::reference::DominantMode;
use maniple_stencil::{Blocks, StencilError, kernel};
use std::time::Instant;

/// Tags of messages with ghost cells, by their direction. Between two ranks both directions lead to the same neighbour.
const LEFTWARDS: i32 = 0;
const RIGHTWARDS: i32 = 1;
/// Tags of a vector, and of the answer that it has been summed.
const VECTOR: i32 = 2;
const SUMMED: i32 = 3;

/// A run of the stencil.
pub struct Outcome {
    /// √S of each iteration.
    pub roots: Vec<f64>,
    /// The vector after the last iteration, on rank 0.
    pub last: Option<Vec<f64>>,
    /// Microseconds of each iteration.
    pub iteration_us: Vec<f64>,
    /// Microseconds of the allreduce in each iteration.
    pub collective_us: Vec<f64>,
}

/// Runs the stencil from the dominant mode, with `cells` cells for each rank; collective. Every rank gets √S and its own times.
///
/// # Errors
///
/// The same on all ranks: fewer than 4 cells for each rank, more than can be addressed, or an S that vanishes or overflows.
pub fn stencil(world: &Communicator, cells: usize, iterations: usize) -> Result<Outcome, StencilError> {
    let rank = world.rank() as usize;
    let blocks = Blocks::uniform(world.size() as usize, cells)?;
    let mode = DominantMode::new(blocks.total());
    let mut d: Vec<f64> = blocks.range(rank).map(|i| mode.value(i, 0)).collect();
    let (mut root, h) = (1.0, 1.0 / blocks.total() as f64);
    let [roots, iteration_us, collective_us] = [(); 3].map(|()| Vec::with_capacity(iterations));
    let mut outcome = Outcome { roots, last: None, iteration_us, collective_us };
    world.barrier();
    let mut last = Instant::now();
    for iteration in 1..=iterations {
        let (left, right) = ghosts(world, &d);
        let local = kernel::step(&mut d, left, right, root, h);
        let summed = Instant::now();
        let mut total = [0.0];
        world.all_reduce(&[local], &mut total, Operation::Sum);
        let combined = Instant::now();
        outcome.iteration_us.push(microseconds(last, combined));
        outcome.collective_us.push(microseconds(summed, combined));
        last = combined;
        root = kernel::root(iteration, total[0])?;
        outcome.roots.push(root);
    }
    let mut u = vec![0.0; cells];
    kernel::scale(&d, root, &mut u);
    let mut all = vec![0.0; if rank == 0 { blocks.total() } else { 0 }];
    world.gather(&u, &mut all, 0);
    outcome.last = (rank == 0).then_some(all);
    Ok(outcome)
}

/// Exchanges ghost cells: returns the last cells of the left neighbour and the first cells of the right one.
fn ghosts(world: &Communicator, d: &[f64]) -> ([f64; kernel::GHOSTS], [f64; kernel::GHOSTS]) {
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let (mut from_left, mut from_right) = ([0.0; kernel::GHOSTS], [0.0; kernel::GHOSTS]);
    let receives = [(&mut from_left[..], left, RIGHTWARDS), (&mut from_right[..], right, LEFTWARDS)];
    world.receive_beside(receives, || {
        // Every rank has posted its receives, so blocking sends end. They cost less than nonblocking ones.
        world.send(&d[..kernel::GHOSTS], left, LEFTWARDS);
        world.send(&d[d.len() - kernel::GHOSTS..], right, RIGHTWARDS);
    });
    (from_left, from_right)
}

/// Measures `MPI_Allreduce`; collective, and waits.
///
/// It makes `warm_up` calls, and then `iterations` calls that are measured. Each rank contributes `elements` elements, at least 1, of
/// which one is not 0: the value of `own`, called with the last result. Before the first call that is 1.
///
/// Returns the last result, and the microseconds of a call on the rank that took longest. Both are the same on all
/// ranks. The result is NaN if elements or ranks disagree.
pub fn allreduce(
    world: &Communicator,
    operation: Operation,
    elements: usize,
    warm_up: usize,
    iterations: usize,
    own: impl Fn(f64) -> f64,
) -> (f64, f64) {
    let (mut given, mut all) = (vec![0.0; elements], vec![0.0; elements]);
    let (mut last, mut start) = (1.0, Instant::now());
    for call in 0..warm_up + iterations {
        if call == warm_up {
            start = Instant::now();
        }
        let at = call % elements;
        given[at] = own(last);
        world.all_reduce(&given, &mut all, operation);
        last = std::mem::take(&mut all[at]);
        given[at] = 0.0;
    }
    let us = microseconds(start, Instant::now()) / iterations as f64;
    // Elements to which no rank gave more than 0.
    if all.iter().any(|v| *v != 0.0) {
        last = f64::NAN;
    }
    // MPI does not specify the minimum of a NaN.
    let (low, high) = if last.is_nan() { (f64::NEG_INFINITY, f64::INFINITY) } else { (last, last) };
    let (mut least, mut most) = ([0.0], [0.0; 2]);
    world.all_reduce(&[low], &mut least, Operation::Min);
    world.all_reduce(&[high, us], &mut most, Operation::Max);
    (if least[0] == most[0] { last } else { f64::NAN }, most[1])
}

/// Measures vectors that rank 0 sends and rank 1 sums; collective, and waits. Rank 0 changes a vector of `elements` by
/// `change`, which is called with the number of the iteration, from 1. It sends the next one when rank 1 has said that
/// it has summed, by `sum`.
///
/// It does `warm_up` iterations, and then `iterations` that are measured. Returns the last sum, how many sums were not
/// the number of their iteration, and the microseconds of an iteration on rank 1; the same on all ranks.
pub fn remote(
    world: &Communicator,
    elements: usize,
    (warm_up, iterations): (usize, usize),
    mut change: impl FnMut(usize, &mut [f64]),
    mut sum: impl FnMut(&[f64]) -> f64,
) -> (f64, usize, f64) {
    let mut x = vec![0.0; elements];
    let (mut last, mut wrong, mut start) = (0.0, 0.0, Instant::now());
    for iteration in 1..=warm_up + iterations {
        if world.rank() == 0 {
            change(iteration, &mut x);
            world.send(&x, 1, VECTOR);
            world.receive(&mut [0u8], 1, SUMMED);
        } else if world.rank() == 1 {
            world.receive(&mut x, 0, VECTOR);
            last = sum(&x);
            wrong += f64::from(u8::from(last != iteration as f64));
            world.send(&[0u8], 0, SUMMED);
        }
        if iteration == warm_up {
            start = Instant::now();
        }
    }
    let us = microseconds(start, Instant::now()) / iterations as f64;
    let mut found = [last, wrong, us];
    world.broadcast(&mut found, 1);
    (found[0], found[1] as usize, found[2])
}

fn microseconds(from: Instant, to: Instant) -> f64 {
    (to - from).as_nanos() as f64 / 1000.0
}
