//! The Fourier transform of an array of 2 or 3 dimensions, on any number of shards.
//!
//! Each shard has lines of the array. It transforms them and sends every other shard a part of each. What comes from one shard are
//! values at equal distances on the lines along the next axis, so a task can transform them before the others are there. At the end
//! these transforms are joined. 2D arrays have one exchange and 3D arrays two, in rows and columns of a grid of shards (Castillo et
//! al., "Optimizing Computation-Communication Overlap in Asynchronous Task-Based Programs", section 4.3).

mod array;
mod costs;
mod deal;
mod grid;
mod shard;
mod transform;
mod verify;

pub use array::Array;
pub use deal::{Residues, pieces};
pub use grid::sides;

use crate::Mode;
use crate::gather::gather;
use grid::Grid;
use maniple::prelude::*;
use maniple::runtime::Stats;
use shard::{Found, Part};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use transform::Plans;
use verify::Sums;

/// A complex number.
pub type C = num_complex::Complex<f64>;

const VALUES: Field<C> = Field::new(0, "values");

/// The errors of a transform.
#[derive(Debug, thiserror::Error)]
pub enum FftError {
    /// Something that has to be there is not.
    #[error("{what}: expected at least 1, found 0")]
    Zero {
        /// The name of the number.
        what: &'static str,
    },
    /// The array has another number of dimensions.
    #[error("expected an array of 2 or 3 dimensions, found {found}")]
    Dimensions {
        /// The number of dimensions.
        found: usize,
    },
    /// The array has another number of values.
    #[error("expected {expected} values for an array of shape {shape:?}, found {found}")]
    Values {
        /// The shape.
        shape: Vec<usize>,
        /// The number of values of this shape.
        expected: usize,
        /// The number that was given.
        found: usize,
    },
    /// The runtime failed.
    #[error("the run failed: {0}")]
    Runtime(#[from] Error),
}

/// A transform to do.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The array.
    pub array: Array,
    /// The number of shards.
    pub shards: u32,
    /// When tasks start.
    pub mode: Mode,
    /// The most tasks into which a shard cuts work on its lines.
    pub groups: usize,
    /// How often the transform is done.
    pub iterations: usize,
    /// Where the first node puts the spectrum, in row-major order.
    pub spectrum: Option<Arc<Mutex<Vec<C>>>>,
    /// What it costs in virtual time, if the machine does not say.
    pub charges: Option<Charges>,
}

/// The costs of a transform in virtual time. They may be those of a larger array, for which this one stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Charges {
    /// The lengths of the axes of the array that is charged, the first of which is 1 for 2 dimensions.
    pub lengths: [usize; 3],
    /// Nanoseconds of a floating-point operation of a transform.
    pub operation_ns: f64,
    /// Nanoseconds of a byte that is put into a block.
    pub byte_ns: f64,
}

impl Charges {
    /// The bytes that a value of an array with these axes stands for.
    fn bytes(&self, lengths: [usize; 3]) -> usize {
        let larger = self.lengths.iter().zip(lengths).map(|(long, short)| *long as f64 / short as f64);
        (larger.product::<f64>() * size_of::<C>() as f64).round() as usize
    }
}

impl Problem {
    /// The transform of an array on so many shards.
    pub fn new(array: Array, shards: u32) -> Self {
        Self { array, shards, mode: Mode::Partial, groups: 8, iterations: 1, spectrum: None, charges: None }
    }

    /// The floating-point operations of a transform, as they are counted by convention: 5 N log₂ N.
    pub fn operations(&self) -> f64 {
        let values = self.array.values() as f64;
        5.0 * values * values.log2()
    }
}

/// What a run gave.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The time of each transform by the run's own clock: the longest that a shard takes until it has its part of the spectrum. All
    /// shards start together.
    pub times: Vec<Duration>,
    /// The largest error of some sums over the spectrum, as a part of the most that they can be.
    pub error: f64,
    /// What is wrong with the spectrum, if something is.
    pub failure: Option<String>,
    /// The runtime's counters.
    pub stats: Stats,
}

/// Transforms an array and verifies the spectrum. May wait.
///
/// # Errors
/// Numbers that are 0, and errors of the runtime.
pub fn run(runtime: &Runtime, problem: &Problem) -> Result<Outcome, FftError> {
    let numbers = [("shards", problem.shards as usize), ("groups", problem.groups), ("iterations", problem.iterations)];
    for (what, number) in numbers {
        if number == 0 {
            return Err(FftError::Zero { what });
        }
    }
    let grid = Grid::new(problem.array.lengths(), problem.shards as usize);
    let (given, plans) = (Arc::new(problem.clone()), Arc::new(Plans::new(&grid)));
    let (found, stats) = runtime.run(move |top| whole(top, (given.clone(), grid), plans.clone()))?;
    let times = (0..problem.iterations).map(|n| found.iter().map(|f| f.times[n]).max().unwrap_or_default()).collect();
    let sums = [0, 1].map(|n| Sums::all(&found.iter().map(|f| f.sums[n]).collect::<Vec<_>>()));
    let (error, most) = (verify::error(sums, problem.array.values()), verify::most(problem.array.values()));
    let wrong = || format!("expected an error of the sums of at most {most:e}, found {error:e}");
    let failure = (error > most || error.is_nan()).then(wrong);
    Ok(Outcome { times, error, failure, stats })
}

async fn whole(top: Top, (problem, grid): (Arc<Problem>, Grid), plans: Arc<Plans>) -> Result<Vec<Found>, Error> {
    let shards = problem.shards;
    let gang = top.gang("shards", shards)?;
    let lines = |exchanges: usize| {
        let counts = (0..shards).map(|s| grid.lines(s, exchanges).map(|l| l.len()).iter().product());
        let counts: Vec<usize> = counts.collect();
        let rect = Rect::new([0, 0], [counts.iter().sum::<usize>() as i64, grid.length(exchanges) as i64]);
        let tree = top.region_tree("lines", rect, &[VALUES.info()])?;
        Ok(Partition::blocks(tree, &counts)?.iter().collect::<Vec<Region>>())
    };
    let blocks: Vec<Vec<Region>> = (0..=grid.exchanges()).map(lines).collect::<Result<_, Error>>()?;
    let start = Collective::<()>::barrier().make(&top, &gang, "start")?;
    let bytes = problem.charges.map_or(0, |charges| charges.bytes(grid.shape()));
    let mut exchanges = vec![Vec::new(); shards as usize];
    for number in 0..grid.exchanges() {
        for shard in 0..shards {
            let group = grid.group(shard, number);
            if group[0] != shard {
                continue;
            }
            let exchange = grid.exchange(shard, number);
            let sizes = move |from: u32, to: u32| exchange.values(from as usize, to as usize);
            let made = Collective::<C>::all_to_all().participants(group.clone()).receivers(group.clone());
            let made = made.sizes_between(sizes).standing_for(bytes).make(&top, &gang, "exchange")?;
            group.iter().for_each(|member| exchanges[*member as usize].push(made));
        }
    }
    let task = {
        let problem = problem.clone();
        top.register("fft", move |shard, part| shard::transform(shard, part, (problem.clone(), grid), plans.clone()))
    };
    let launch = |s: u32| {
        let own: Vec<Region> = blocks.iter().map(|blocks| blocks[s as usize]).collect();
        let part = Part { blocks: own.clone(), exchanges: exchanges[s as usize].clone(), start };
        own.into_iter().fold(ShardLaunch::new(part), |launch, block| launch.writes(block, [VALUES]))
    };
    let found = top.launch_gang(&gang, &task, launch)?.all().await?;
    if let Some(into) = &problem.spectrum {
        let last = &blocks[grid.exchanges()];
        let place = |shard: u32| {
            let (array, index) = (problem.array.clone(), grid.places(shard, grid.exchanges()));
            move |at: usize| array.position(index(at))
        };
        gather::<C, 2, _>(&top, (last, VALUES), (into, problem.array.values()), place).await?;
    }
    Ok(found)
}
