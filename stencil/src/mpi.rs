//! The reference in plain MPI: the same stencil and the same chain of allreduces, with one rank for each block.
//!
//! It shares the [`kernel`] and the first vector with the version on shard tasks, and is measured at the same points. It
//! exchanges and combines in MPI's own way: receives of ghost cells are posted before these are sent, and the sum is an
//! `MPI_Allreduce`. A program calls it in every rank of a world that an MPI launcher such as `mpirun` has started.
//!
//! An error inside MPI ends all ranks, which is the default of its standard.

use crate::reference::DominantMode;
use crate::{Blocks, RunOutcome, StencilError, kernel};
use ::mpi::collective::SystemOperation;
use ::mpi::request;
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::*;
use maniple_runtime::Error;
use std::time::Instant;

/// Tags of messages with ghost cells, by their direction. Between two ranks both directions lead to the same neighbour.
const LEFTWARDS: i32 = 0;
const RIGHTWARDS: i32 = 1;

/// The operator of an allreduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `MPI_SUM`.
    Sum,
    /// `MPI_PROD`.
    Product,
    /// `MPI_MIN`.
    Min,
    /// `MPI_MAX`.
    Max,
}

impl Operation {
    fn system(self) -> SystemOperation {
        match self {
            Operation::Sum => SystemOperation::sum(),
            Operation::Product => SystemOperation::product(),
            Operation::Min => SystemOperation::min(),
            Operation::Max => SystemOperation::max(),
        }
    }
}

/// The world of MPI, in one of its ranks.
pub struct World {
    communicator: SimpleCommunicator,
}

impl World {
    /// Initialises MPI for this thread alone, which is the fastest way; collective. It is finalised when the program ends.
    ///
    /// # Errors
    ///
    /// The launcher is that of another MPI library.
    pub fn join() -> Result<Self, Error> {
        Ok(Self { communicator: maniple_runtime::mpi::world(false)? })
    }

    /// This process's rank.
    pub fn rank(&self) -> usize {
        self.communicator.rank() as usize
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.communicator.size() as usize
    }

    /// The name and version of the MPI library that this program is linked with.
    pub fn library() -> String {
        maniple_runtime::mpi::library()
    }

    /// Runs the stencil from the dominant mode, with `cells` cells for each rank; collective, and waits. Rank 0 gets the
    /// last vector of all ranks, the others get none. Every rank gets √S and its own times.
    ///
    /// # Errors
    ///
    /// The same on all ranks: fewer than 4 cells for each rank, more than can be addressed, or an S that vanishes or
    /// overflows.
    pub fn stencil(&self, cells: usize, iterations: usize) -> Result<RunOutcome, StencilError> {
        let world = &self.communicator;
        let blocks = Blocks::uniform(self.size(), cells)?;
        let mode = DominantMode::new(blocks.total());
        let mut d: Vec<f64> = blocks.range(self.rank()).map(|i| mode.value(i, 0)).collect();
        let (mut root, h) = (1.0, 1.0 / blocks.total() as f64);
        let mut outcome = RunOutcome {
            wire: "mpi",
            roots: Vec::with_capacity(iterations),
            iteration_us: Vec::with_capacity(iterations),
            collective_us: Vec::with_capacity(iterations),
            ..RunOutcome::default()
        };
        world.barrier();
        let mut last = Instant::now();
        for iteration in 1..=iterations {
            let (left, right) = self.ghosts(&d);
            let local = kernel::step(&mut d, left, right, root, h);
            let summed = Instant::now();
            let mut total = 0.0;
            world.all_reduce_into(&local, &mut total, SystemOperation::sum());
            let combined = Instant::now();
            outcome.iteration_us.push(microseconds(last, combined));
            outcome.collective_us.push(microseconds(summed, combined));
            last = combined;
            root = kernel::root(iteration, total)?;
            outcome.roots.push(root);
        }
        let mut u = vec![0.0; cells];
        kernel::scale(&d, root, &mut u);
        let first = world.process_at_rank(0);
        if self.rank() == 0 {
            let mut all = vec![0.0; blocks.total()];
            first.gather_into_root(&u[..], &mut all[..]);
            outcome.vectors.push(all);
        } else {
            first.gather_into(&u[..]);
        }
        Ok(outcome)
    }

    /// Exchanges ghost cells: returns the last cells of the left neighbour and the first cells of the right one.
    fn ghosts(&self, d: &[f64]) -> ([f64; kernel::GHOSTS], [f64; kernel::GHOSTS]) {
        let world = &self.communicator;
        let (rank, size) = (world.rank(), world.size());
        let (left, right) = (world.process_at_rank((rank + size - 1) % size), world.process_at_rank((rank + 1) % size));
        let (mut from_left, mut from_right) = ([0.0; kernel::GHOSTS], [0.0; kernel::GHOSTS]);
        request::scope(|scope| {
            let receives = [
                left.immediate_receive_into_with_tag(scope, &mut from_left[..], RIGHTWARDS),
                right.immediate_receive_into_with_tag(scope, &mut from_right[..], LEFTWARDS),
            ];
            // Every rank has posted its receives, so blocking sends end. They cost less than nonblocking ones.
            left.send_with_tag(&d[..kernel::GHOSTS], LEFTWARDS);
            right.send_with_tag(&d[d.len() - kernel::GHOSTS..], RIGHTWARDS);
            receives.into_iter().for_each(|request| request.wait_without_status());
        });
        (from_left, from_right)
    }

    /// Measures `MPI_Allreduce`; collective, and waits.
    ///
    /// It makes `warm_up` calls, and then `iterations` calls that are measured. Each rank contributes `elements` elements, of
    /// which one is not 0: the value of `own`, called with the last result. Before the first call that is 1.
    ///
    /// Returns the last result, and the microseconds of a call on the rank that took longest. Both are the same on all
    /// ranks. The result is NaN if elements or ranks disagree.
    pub fn allreduce(
        &self,
        operation: Operation,
        elements: usize,
        warm_up: usize,
        iterations: usize,
        own: impl Fn(f64) -> f64,
    ) -> (f64, f64) {
        let world = &self.communicator;
        let (mut given, mut all) = (vec![0.0; elements], vec![0.0; elements]);
        let (mut last, mut start) = (1.0, Instant::now());
        for call in 0..warm_up + iterations {
            if call == warm_up {
                start = Instant::now();
            }
            let at = call % elements.max(1);
            if elements > 0 {
                given[at] = own(last);
            }
            world.all_reduce_into(&given[..], &mut all[..], operation.system());
            if elements > 0 {
                last = std::mem::take(&mut all[at]);
                given[at] = 0.0;
            }
        }
        let us = microseconds(start, Instant::now()) / iterations as f64;
        // Elements to which no rank gave more than 0.
        if all.iter().any(|v| *v != 0.0) {
            last = f64::NAN;
        }
        // MPI does not specify the minimum of a NaN.
        let (low, high) = if last.is_nan() { (f64::NEG_INFINITY, f64::INFINITY) } else { (last, last) };
        let (mut least, mut most) = (0.0, [0.0; 2]);
        world.all_reduce_into(&low, &mut least, SystemOperation::min());
        world.all_reduce_into(&[high, us], &mut most, SystemOperation::max());
        (if least == most[0] { last } else { f64::NAN }, most[1])
    }

    /// `MPI_Barrier`.
    pub fn barrier(&self) {
        self.communicator.barrier();
    }

    /// `MPI_Allreduce`.
    pub fn all_reduce(&self, operation: Operation, given: &[f64], received: &mut [f64]) {
        self.communicator.all_reduce_into(given, received, operation.system());
    }

    /// `MPI_Reduce` to rank 0. Others receive nothing.
    pub fn reduce(&self, operation: Operation, given: &[f64], received: &mut [f64]) {
        let first = self.communicator.process_at_rank(0);
        match self.rank() {
            0 => first.reduce_into_root(given, received, operation.system()),
            _ => first.reduce_into(given, operation.system()),
        }
    }

    /// `MPI_Bcast` from rank 0, where the vector is what is sent.
    pub fn broadcast(&self, vector: &mut [f64]) {
        self.communicator.process_at_rank(0).broadcast_into(vector);
    }

    /// `MPI_Gather` to rank 0. Others receive nothing.
    pub fn gather<T: Equivalence>(&self, given: &[T], received: &mut [T]) {
        let first = self.communicator.process_at_rank(0);
        match self.rank() {
            0 => first.gather_into_root(given, received),
            _ => first.gather_into(given),
        }
    }

    /// `MPI_Allgather`.
    pub fn all_gather(&self, given: &[f64], received: &mut [f64]) {
        self.communicator.all_gather_into(given, received);
    }

    /// `MPI_Scatter` from rank 0. Others give nothing.
    pub fn scatter(&self, given: &[f64], received: &mut [f64]) {
        let first = self.communicator.process_at_rank(0);
        match self.rank() {
            0 => first.scatter_into_root(given, received),
            _ => first.scatter_into(received),
        }
    }

    /// `MPI_Reduce_scatter_block`.
    pub fn reduce_scatter(&self, operation: Operation, given: &[f64], received: &mut [f64]) {
        self.communicator.reduce_scatter_block_into(given, received, operation.system());
    }

    /// `MPI_Alltoall`.
    pub fn all_to_all(&self, given: &[f64], received: &mut [f64]) {
        self.communicator.all_to_all_into(given, received);
    }

    /// `MPI_Scan`.
    pub fn scan(&self, operation: Operation, given: &[f64], received: &mut [f64]) {
        self.communicator.scan_into(given, received, operation.system());
    }

    /// `MPI_Exscan`. It leaves undefined what rank 0 receives.
    pub fn exclusive_scan(&self, operation: Operation, given: &[f64], received: &mut [f64]) {
        self.communicator.exclusive_scan_into(given, received, operation.system());
    }

    /// Measures vectors that rank 0 sends and rank 1 sums; collective, and waits. Rank 0 changes a vector of `elements` by
    /// `change`, which is called with the number of the iteration, from 1. It sends the next one when rank 1 has said that
    /// it has summed, by `sum`.
    ///
    /// It does `warm_up` iterations, and then `iterations` that are measured. Returns the last sum, how many sums were not
    /// the number of their iteration, and the microseconds of an iteration on rank 1; the same on all ranks.
    pub fn remote(
        &self,
        elements: usize,
        (warm_up, iterations): (usize, usize),
        mut change: impl FnMut(usize, &mut [f64]),
        mut sum: impl FnMut(&[f64]) -> f64,
    ) -> (f64, usize, f64) {
        let world = &self.communicator;
        let mut x = vec![0.0; elements];
        let (mut last, mut wrong, mut start) = (0.0, 0.0, Instant::now());
        for iteration in 1..=warm_up + iterations {
            if self.rank() == 0 {
                change(iteration, &mut x);
                let other = world.process_at_rank(1);
                other.send(&x[..]);
                other.receive::<u8>();
            } else if self.rank() == 1 {
                let other = world.process_at_rank(0);
                other.receive_into(&mut x[..]);
                last = sum(&x);
                wrong += f64::from(u8::from(last != iteration as f64));
                other.send(&0u8);
            }
            if iteration == warm_up {
                start = Instant::now();
            }
        }
        let us = microseconds(start, Instant::now()) / iterations as f64;
        let mut found = [last, wrong, us];
        world.process_at_rank(1).broadcast_into(&mut found[..]);
        (found[0], found[1] as usize, found[2])
    }
}

fn microseconds(from: Instant, to: Instant) -> f64 {
    (to - from).as_nanos() as f64 / 1000.0
}
