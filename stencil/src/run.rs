//! Runs that are verified.

use crate::problem::{Collective, Keep, Output, Problem, Start};
use crate::reference::{self, BlockCheck};
use crate::{StencilError, aggregation, allreduce, kernel, plural};
use maniple::collectives::Algorithm;
use maniple::runtime::{Error, Runtime, Stats};

/// Runs one version on a runtime, with as many shards as there are blocks. Waits.
///
/// # Errors
/// The errors of [`Runtime::run`].
pub fn simulate(runtime: &Runtime, collective: Collective, problem: &Problem) -> Result<Output, Error> {
    match collective {
        Collective::RecursiveDoubling => allreduce::simulate(runtime, Algorithm::RecursiveDoubling, problem),
        Collective::TwoLevel => allreduce::simulate(runtime, Algorithm::TwoLevel, problem),
        Collective::Aggregation => aggregation::simulate(runtime, problem),
    }
}

/// A run that was verified.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The last √S.
    pub result: f64,
    /// The expected value of the last √S.
    pub expected: f64,
    /// `|result − expected| / expected`.
    pub error: f64,
    /// The first thing that is wrong, if anything is: a √S, a cell, or the number of iterations.
    pub failure: Option<String>,
    /// What was found of each block of the last vector. Runs of the same problem have the same hashes.
    pub blocks: Vec<BlockCheck>,
    /// Microseconds of each iteration on shard 0: from one total to the next.
    pub iteration_us: Vec<f64>,
    /// Microseconds of the collective in each iteration: from shard 0's local sum to the total.
    pub collective_us: Vec<f64>,
    /// The statistics of the run.
    pub stats: Stats,
}

/// Runs one version and verifies it: from the dominant mode against the closed form, from a vector step by step against
/// sequential code. What `keep` says does not matter. Waits.
///
/// A run that is wrong is an `Ok` with a failure.
///
/// # Errors
///
/// A problem that is not one (see [`Problem::check`]), an S that vanishes or overflows, or a failure of the runtime.
pub fn run(runtime: &Runtime, collective: Collective, problem: &Problem) -> Result<Outcome, StencilError> {
    problem.check()?;
    if problem.checkpoints.is_some() && collective == Collective::Aggregation {
        return Err(StencilError::NoCheckpoints);
    }
    let keep = match problem.start {
        Start::Vector(_) => Keep::Each,
        Start::Mode(mode) => Keep::Check(mode),
    };
    let problem = Problem { keep, ..problem.clone() };
    let Output { sums, restored, vectors, checks, iteration_us, collective_us, stats } =
        simulate(runtime, collective, &problem)?;
    let roots = (1..).zip(sums).map(|(i, sum)| kernel::root(i, sum)).collect::<Result<Vec<_>, _>>()?;
    let (verdict, blocks) = match &problem.start {
        Start::Vector(start) => {
            let mut last = vectors.last().map_or(&[][..], |last| last);
            let blocks = problem.sizes.iter().map(|&cells| {
                let (block, rest) = last.split_at(cells.min(last.len()));
                last = rest;
                BlockCheck::of(block)
            });
            // The vector of a checkpoint stands for all that was before.
            let (start, steps) = match vectors.split_first().filter(|_| restored > 0) {
                Some((restored, steps)) => (&restored[..], steps),
                None => (&start[..], &vectors[..]),
            };
            let roots = roots.get(restored..).unwrap_or_default();
            (reference::verify_steps(restored, start, roots, steps), blocks.collect())
        }
        Start::Mode(mode) => (reference::verify_blocks(mode, &roots, &checks), checks),
    };
    let too_few = || {
        let expected = plural(problem.iterations, "iteration");
        (roots.len() != problem.iterations).then(|| format!("expected {expected}, found {}", roots.len()))
    };
    Ok(Outcome {
        result: roots.last().copied().unwrap_or(f64::NAN),
        expected: verdict.expected,
        error: verdict.error,
        failure: verdict.failure.or_else(too_few),
        blocks,
        iteration_us,
        collective_us,
        stats,
    })
}

/// The samples to summarise. Where shards share workers, they are the means of two iterations: the 1st and 2nd, the 3rd and
/// 4th, and so on.
///
/// A shard that shares its worker is early in every other iteration and late in those between. The difference is often
/// far more than the mean of an iteration, so a median of single iterations would describe only the early or only the
/// late ones. A last iteration without a partner is left out, unless it is the only one.
pub fn alternating(samples: &[f64], shards: usize, workers: usize) -> Vec<f64> {
    if shards <= workers || samples.len() < 2 {
        return samples.to_vec();
    }
    samples.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect()
}
