//! The Cholesky factorisation A = L Lᵀ of a symmetric positive definite matrix, by tiles: a flow of tasks over all nodes.

mod kernels;
mod matrix;
mod unordered;
mod verify;

pub use matrix::{Matrix, Tiles};
pub use unordered::unordered;

use kernels::{gemm, potrf, syrk, tile, tile_mut, trsm};
use maniple::mapper::{NodeId, Priority};
use maniple::prelude::*;
use maniple::regions::Element;
use maniple::runtime::{Portable, Stats, now};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A type of floating-point numbers.
pub trait Real: Element + faer::traits::RealField + Copy + Portable {
    /// Its name.
    const NAME: &'static str;
    /// The distance from 1 to the next number.
    const EPSILON: f64;
    /// The nearest one.
    fn from_f64(x: f64) -> Self;
    /// The same number with more digits.
    fn to_f64(self) -> f64;
}

macro_rules! real {
    ($t:ident) => {
        impl Real for $t {
            const NAME: &'static str = stringify!($t);
            const EPSILON: f64 = $t::EPSILON as f64;
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            fn to_f64(self) -> f64 {
                self.into()
            }
        }
    };
}

real!(f32);
real!(f64);

/// The errors of a factorisation.
#[derive(Debug, thiserror::Error)]
pub enum CholeskyError {
    /// A matrix without rows, or a tile without rows.
    #[error("{what}: expected at least 1, found 0")]
    Zero {
        /// The name of the number.
        what: &'static str,
    },
    /// The number of values of a matrix is no square.
    #[error("expected a square number of values for a matrix, found {values}")]
    NotSquare {
        /// The number of values.
        values: usize,
    },
    /// The matrix is not positive definite.
    #[error(
        "the matrix is not positive definite: column {column} (from 0) has no positive pivot, once the columns before it \
         are eliminated"
    )]
    NotPositiveDefinite {
        /// The first such column.
        column: usize,
    },
    /// The runtime failed. The matrix is not at fault.
    #[error("the run failed: {0}")]
    Runtime(#[from] Error),
}

/// A factorisation to do.
#[derive(Debug, Clone)]
pub struct Problem<T> {
    /// The matrix.
    pub matrix: Matrix<T>,
    /// Rows and columns of a tile. Those at the end of the matrix may have fewer.
    pub tile: usize,
    /// Where the first node puts the factor, by rows, with zeros above the diagonal.
    pub factor: Option<Arc<Mutex<Vec<T>>>>,
    /// How many tasks a node has at most, and one window more: see [`Top::window`].
    pub window: u32,
    /// Whether tasks that others wait for come first.
    pub by_priority: bool,
    /// The bytes of a number in virtual time, if it stands for more than itself. The factor is then verified by its closed form
    /// alone.
    pub stands_for: usize,
}

impl<T: Real> Problem<T> {
    /// The factorisation of a matrix with tiles of so many rows and columns.
    pub fn new(matrix: Matrix<T>, tile: usize) -> Self {
        Self { matrix, tile, factor: None, window: Top::WINDOW, by_priority: true, stands_for: 0 }
    }

    /// The tasks of the factorisation.
    pub fn tasks(&self) -> usize {
        let t = self.matrix.size().div_ceil(self.tile);
        t + t * (t - 1) + t * (t - 1) * t.saturating_sub(2) / 6
    }

    /// The floating-point operations of the factorisation.
    pub fn operations(&self) -> f64 {
        let n = self.matrix.size() as f64;
        n * (n + 1.0) * (2.0 * n + 1.0) / 6.0
    }
}

/// What a run gave.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The time from the first launch of a kernel until all have ended, by the run's own clock.
    pub time: Duration,
    /// ‖A − L Lᵀ‖ / ‖A‖, in the norm of Frobenius.
    pub residual: f64,
    /// The largest relative error of a value of the factor, if the factor is known.
    pub error: Option<f64>,
    /// What is wrong with the factor, if something is.
    pub failure: Option<String>,
    /// The runtime's counters.
    pub stats: Stats,
}

/// Factors a matrix and verifies the factor. May wait.
///
/// # Errors
/// A matrix that is not positive definite, and an error of the runtime.
pub fn run<T: Real>(runtime: &Runtime, problem: &Problem<T>) -> Result<Outcome, CholeskyError> {
    let size = problem.matrix.size();
    for (what, number) in [("rows of the matrix", size), ("rows of a tile", problem.tile)] {
        if number == 0 {
            return Err(CholeskyError::Zero { what });
        }
    }
    let given = problem.clone();
    let (found, stats) = runtime.run(move |top| whole(top, given.clone()))?;
    let (time, found) = match found {
        Ok(found) => found,
        Err(column) => return Err(CholeskyError::NotPositiveDefinite { column: column as usize }),
    };
    let failure = found.failure::<T>(size);
    Ok(Outcome { time, residual: found.residual(), error: found.error, failure, stats })
}

/// Fills the tiles, factors them, and verifies the result. The inner error is the column without a positive pivot.
async fn whole<T: Real>(top: Top, problem: Problem<T>) -> Result<Result<(Duration, verify::Found), u64>, Error> {
    let (matrix, side) = (&problem.matrix, problem.tile);
    let tiles = Tiles::new(&top, (matrix.size(), side), problem.stands_for)?;
    for (i, j, tile) in tiles.all() {
        // By default the tree's first dimension, the column, is dealt to rows of nodes. Of two nodes, which are a row, one would have
        // the lower one of each two rows of tiles, and more work.
        let node = NodeId::dealt((i as i64, j as i64), top.nodes());
        let matrix = matrix.clone();
        let set = move |mut a: Write<T, 2>| {
            // Above the diagonal nothing is looked at.
            a.fill_with(|[c, r]| if r < c { T::zero() } else { matrix.get(r as usize, c as usize) });
        };
        top.launch(set, (tile.write(tiles.field),)).on(node).named("set").go()?.detach();
    }
    top.done().await?;
    let began = now();
    let factored = factor(&top, &tiles, (problem.window, problem.by_priority)).await;
    let time = now() - began;
    if let Err(e) = factored {
        return match verify::column_of(&e) {
            Some(column) => Ok(Err(column)),
            None => Err(e),
        };
    }
    let found = match problem.stands_for {
        0 => verify::verify(&top, matrix, &tiles).await?,
        _ => verify::compare(&top, matrix, &tiles).await?,
    };
    if let Some(into) = &problem.factor {
        gather(&top, &tiles, matrix.size(), into).await?;
    }
    Ok(Ok((time, found)))
}

/// Replaces the tiles of a matrix by those of its factor, with a window of so many tasks, and by priority or in the order of their
/// launches. Collective; may wait.
///
/// # Errors
/// An [`Error::User`], if the matrix is not positive definite, and errors of the runtime.
pub async fn factor<T: Real>(top: &Top, tiles: &Tiles<T>, (window, by_priority): (u32, bool)) -> Result<(), Error> {
    let (a, t) = (tiles.field, &tiles.of);
    // What the factor needs soon comes first: its own column, then the next one, the one after that, two more, four more, and so
    // on.
    let urgent = |k: usize, column: usize| match by_priority {
        true if column == k => Priority(7),
        true => Priority(6u8.saturating_sub((column - k).next_power_of_two().ilog2() as u8)),
        false => Priority::NORMAL,
    };
    for k in 0..t.len() {
        let column = t[k][k].region().rect.lo(0) as u64;
        let diagonal = move |mut a: ReadWrite<T, 2>| {
            potrf(tile_mut(&mut a)).map_err(|at| Error::user(verify::not_positive(column + at as u64)))
        };
        top.try_launch(diagonal, (t[k][k].read_write(a),)).named("potrf").priority(urgent(k, k)).go()?.detach();
        for i in k + 1..t.len() {
            let divide = |l: Read<T, 2>, mut b: ReadWrite<T, 2>| trsm(tile(&l), tile_mut(&mut b));
            let args = (t[k][k].read(a), t[i][k].read_write(a));
            top.launch(divide, args).named("trsm").priority(urgent(k, k)).go()?.detach();
        }
        for i in k + 1..t.len() {
            top.window(window).await;
            let square = |a: Read<T, 2>, mut c: ReadWrite<T, 2>| syrk(tile(&a), tile_mut(&mut c));
            let args = (t[i][k].read(a), t[i][i].read_write(a));
            top.launch(square, args).named("syrk").priority(urgent(k, i)).go()?.detach();
            for j in k + 1..i {
                let product = |a: Read<T, 2>, b: Read<T, 2>, mut c: ReadWrite<T, 2>| {
                    gemm(tile(&a), tile(&b), tile_mut(&mut c));
                };
                let args = (t[i][k].read(a), t[j][k].read(a), t[i][j].read_write(a));
                top.launch(product, args).named("gemm").priority(urgent(k, j)).go()?.detach();
            }
        }
    }
    top.done().await
}

/// Puts the factor together on the first node.
async fn gather<T: Real>(top: &Top, tiles: &Tiles<T>, size: usize, into: &Arc<Mutex<Vec<T>>>) -> Result<(), Error> {
    for (_, _, tile) in tiles.all() {
        let into = into.clone();
        let put = move |a: Read<T, 2>| {
            let mut all = into.lock().unwrap_or_else(PoisonError::into_inner);
            all.resize(size * size, T::zero());
            let first = a.rect();
            for (c, values) in (first.lo(0) as usize..).zip(a.rows()) {
                for (r, value) in (first.lo(1) as usize..).zip(values).filter(|(r, _)| *r >= c) {
                    all[r * size + c] = *value;
                }
            }
        };
        top.launch(put, (tile.read(tiles.field),)).on(NodeId(0)).named("gather").go()?.detach();
    }
    top.done().await
}
