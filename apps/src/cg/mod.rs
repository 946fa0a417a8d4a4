//! The method of conjugate gradients for a sparse symmetric positive definite system, on any number of shards.
//!
//! Each shard has rows of the matrix and of the vectors, and exchanges *ghosts* with its neighbours: values of rows that others have.
//! The system is HPCG's operator on a grid, with HPCG's multigrid preconditioner, or any sparse matrix. The steps are those of HPCG's
//! reference (Dongarra, Heroux, Luszczek, "HPCG Benchmark", 2015), without its preconditioner those of MiniFE.

mod costs;
mod local;
mod shard;
mod system;

pub use system::{Sparse, System};

use crate::Mode;
use crate::gather::gather;
use maniple::prelude::*;
use maniple::runtime::{Edge, Stats};
use shard::{AP, B, Found, P, Part, R, X, Z};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use system::Dealt;

/// HPCG's number of grids.
const LEVELS: usize = 4;

/// The errors of a solution.
#[derive(Debug, thiserror::Error)]
pub enum CgError {
    /// Something that has to be there is not.
    #[error("{what}: expected at least 1, found 0")]
    Zero {
        /// The name of the number.
        what: &'static str,
    },
    /// A value is beyond the matrix.
    #[error("row {row}, column {column} (from 0): expected rows and columns below {rows}")]
    Outside {
        /// The row.
        row: u32,
        /// The column.
        column: u32,
        /// The number of rows.
        rows: usize,
    },
    /// The matrix is not symmetric.
    #[error(
        "the matrix is not symmetric: row {row}, column {column} (from 0) has {value}, and the place that mirrors it {}",
        .other.map_or("nothing".into(), |other| other.to_string())
    )]
    NotSymmetric {
        /// The row.
        row: u32,
        /// The column.
        column: u32,
        /// The value there.
        value: f64,
        /// The value at the place that mirrors it.
        other: Option<f64>,
    },
    /// The diagonal is not positive, so the matrix is not positive definite.
    #[error(
        "row {row} (from 0): expected a positive number on the diagonal, found {}",
        .value.map_or("nothing".into(), |value| value.to_string())
    )]
    Diagonal {
        /// The row.
        row: u32,
        /// The value there.
        value: Option<f64>,
    },
    /// The right-hand side has another length.
    #[error("the right-hand side: expected {expected} numbers, one for each row, found {found}")]
    RightSide {
        /// The number of rows.
        expected: usize,
        /// The number of values.
        found: usize,
    },
    /// The right-hand side for a solution of ones is 0, but for rounding errors.
    #[error("the values of each row add up to 0, so the right-hand side for a solution of ones is 0: give another one")]
    NoRightSide,
    /// A step could not be taken.
    #[error(
        "the matrix is not positive definite, or values are too large or too small: iteration {iteration} (from 1) has \
         p·Ap = {p_ap:e} and r·z = {rz:e}"
    )]
    NotPositiveDefinite {
        /// The iteration.
        iteration: usize,
        /// The product of the direction with the matrix and itself.
        p_ap: f64,
        /// The product of the residual with the preconditioned residual.
        rz: f64,
    },
    /// The runtime failed.
    #[error("the run failed: {0}")]
    Runtime(#[from] Error),
}

/// What makes a step of the method go further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preconditioner {
    /// Nothing.
    None,
    /// The symmetric Gauss–Seidel method, once, on each shard's rows.
    GaussSeidel,
    /// The same before and after a correction by a grid with twice the spacing, on up to 4 grids.
    Multigrid,
}

impl Preconditioner {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::GaussSeidel => "gauss-seidel",
            Self::Multigrid => "multigrid",
        }
    }
}

/// A system to solve.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The matrix.
    pub system: System,
    /// The right-hand side. Without it, all values of the solution are 1.
    pub right: Option<Arc<Vec<f64>>>,
    /// The number of shards.
    pub shards: u32,
    /// Shards of a grid with numbers in a row that are a compact block of it, as those of a node should be. If it does not divide
    /// the number of shards, it counts as 1.
    pub together: u32,
    /// When tasks start.
    pub mode: Mode,
    /// The preconditioner.
    pub preconditioner: Preconditioner,
    /// The most iterations.
    pub iterations: usize,
    /// The iterations end when the norm of the residual is at most this part of the norm of the right-hand side.
    pub tolerance: f64,
    /// Where the first node puts the solution.
    pub solution: Option<Arc<Mutex<Vec<f64>>>>,
    /// What it costs in virtual time, if the machine does not say.
    pub charges: Option<Charges>,
}

/// The costs of iterations on a grid in virtual time. They may be those of a finer grid, for which this one stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Charges {
    /// How many times as many points the finer grid has along each axis.
    pub finer: usize,
    /// Nanoseconds of a row of the matrix.
    pub row_ns: f64,
    /// Nanoseconds of a value of a vector.
    pub value_ns: f64,
}

impl Problem {
    /// Fifty iterations for a system, on so many shards.
    pub fn new(system: System, shards: u32) -> Self {
        let preconditioner = match system {
            System::Stencil { .. } => Preconditioner::Multigrid,
            System::Given(_) => Preconditioner::GaussSeidel,
        };
        Self {
            system,
            right: None,
            shards,
            together: 1,
            mode: Mode::Partial,
            preconditioner,
            iterations: 50,
            tolerance: 0.0,
            solution: None,
            charges: None,
        }
    }

    /// The number of rows, and of values that are not 0.
    pub fn size(&self) -> (usize, usize) {
        self.dealt().size()
    }

    /// The number of grids.
    pub fn levels(&self) -> usize {
        self.dealt().levels(if self.preconditioner == Preconditioner::Multigrid { LEVELS } else { 1 })
    }

    /// The neighbours of all shards, each of which gets ghosts in an exchange, on the finest grid.
    pub fn neighbours(&self) -> usize {
        let dealt = self.dealt();
        (0..self.shards).map(|shard| dealt.neighbours(shard, 0).len()).sum()
    }

    fn dealt(&self) -> Dealt {
        Dealt::new(self.system.clone(), self.shards, self.together)
    }

    fn check(&self) -> Result<(), CgError> {
        let points = if let System::Stencil { points } = &self.system { *points } else { [1; 3] };
        let numbers = [
            ("shards", self.shards as usize),
            ("iterations", self.iterations),
            ("points along an axis", points.into_iter().min().unwrap_or(0)),
        ];
        if let Some((what, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return Err(CgError::Zero { what });
        }
        match (&self.right, self.size().0) {
            (Some(right), expected) if right.len() != expected => {
                Err(CgError::RightSide { expected, found: right.len() })
            }
            _ => Ok(()),
        }
    }
}

/// What a run gave.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The time of all iterations, by the run's own clock.
    pub time: Duration,
    /// The norm of the residual as the method has it, before the first iteration and after each.
    pub residuals: Vec<f64>,
    /// ‖b − A x‖ / ‖b‖, computed anew.
    pub residual: f64,
    /// The error of the solution, ‖x − 1‖ / ‖1‖, if no right-hand side was given.
    pub error: Option<f64>,
    /// What is wrong with the solution, if something is.
    pub failure: Option<String>,
    /// The runtime's counters.
    pub stats: Stats,
}

/// Solves a system and verifies the solution: b − A x has to be the residual that the method has. May wait.
///
/// # Errors
/// Numbers that are 0, a right-hand side of another length, one that is 0 because none was given, a matrix that is not positive
/// definite, and errors of the runtime.
pub fn run(runtime: &Runtime, problem: &Problem) -> Result<Outcome, CgError> {
    problem.check()?;
    let given = Arc::new(problem.clone());
    let (found, stats) = runtime.run(move |top| whole(top, given.clone()))?;
    outcome(problem, &found, stats)
}

/// Judges what the shards have found.
fn outcome(problem: &Problem, found: &[Found], stats: Stats) -> Result<Outcome, CgError> {
    let time = found.iter().map(|f| f.time).max().unwrap_or_default();
    let [left, b, x, from_one] = std::array::from_fn(|n| found.iter().map(|f| f.sums[n]).sum::<f64>().sqrt());
    let norm = found.iter().map(|f| f.norm).fold(0.0, f64::max);
    let ones = (problem.size().0 as f64).sqrt();
    if problem.right.is_none() && b <= f64::EPSILON * norm * ones {
        return Err(CgError::NoRightSide);
    }
    if let Some((iteration, rz, p_ap)) = found[0].broken {
        return Err(CgError::NotPositiveDefinite { iteration, p_ap, rz });
    }
    let residuals: Vec<f64> = found[0].squares.iter().map(|square| square.sqrt()).collect();
    let last = residuals.last().copied().unwrap_or_default();
    // What is lost in sums of numbers as large as A x.
    let most = 1e-12 * (norm * x + b);
    let apart = (left - last).abs();
    let wrong = || format!("expected a residual within {most:e} of {last:e}, as the method has it, found {left:e}");
    let failure = (apart > most || apart.is_nan()).then(wrong);
    let error = problem.right.is_none().then(|| from_one / ones);
    Ok(Outcome { time, residuals, residual: left / b.max(f64::MIN_POSITIVE), error, failure, stats })
}

async fn whole(top: Top, problem: Arc<Problem>) -> Result<Vec<Found>, Error> {
    let (dealt, shards) = (Arc::new(problem.dealt()), problem.shards);
    let gang = top.gang("shards", shards)?;
    let sum = Collective::allreduce(Operator::sum()).make(&top, &gang, "sum")?;
    let mut levels = Vec::new();
    for level in 0..problem.levels() {
        let near: Vec<Vec<u32>> = (0..shards).map(|shard| dealt.neighbours(shard, level)).collect();
        let ghosts = |shard: u32| dealt.ghosts(shard, level);
        let rows: Vec<usize> = (0..shards).map(|shard| dealt.rows(shard, level)).collect();
        let all = rows.iter().zip(0..).map(|(rows, shard)| rows + ghosts(shard)).collect::<Vec<_>>();
        let ghosted = blocks(&top, "vectors with ghosts", &all, &[Z.info(), P.info()])?;
        let plain = blocks(&top, "vectors", &rows, &[R.info(), AP.info(), B.info(), X.info()])?;
        let finer = problem.charges.map_or(1, |charges| charges.finer);
        let edges = |extent: usize| {
            let pairs = near.iter().zip(0..).flat_map(|(near, to)| near.iter().map(move |from| (*from, to)));
            let these = pairs.filter(|(from, to)| dealt.border(*from, *to) == extent);
            let these = these.map(|(from, to)| Edge { from, to, tag: 0 });
            top.edges_standing_for("ghosts", &gang, these, 2, size_of::<f64>() * finer.pow(extent as u32))
        };
        levels.push((ghosted, plain, [edges(0)?, edges(1)?, edges(2)?]));
    }
    let task = {
        let (problem, dealt) = (problem.clone(), dealt.clone());
        top.register("cg", move |shard, part| shard::solve(shard, part, (problem.clone(), dealt.clone())))
    };
    let launch = |s: u32| {
        let at = |(ghosted, plain, edges): &(Vec<Region>, Vec<Region>, [Edges<f64>; 3])| {
            (ghosted[s as usize], plain[s as usize], *edges)
        };
        let own: Vec<_> = levels.iter().map(at).collect();
        let part = Part { levels: own.clone(), sum };
        own.into_iter().fold(ShardLaunch::new(part), |launch, (ghosted, plain, _)| {
            launch.writes(ghosted, [Z, P]).writes(plain, [R, AP, B, X])
        })
    };
    let found = top.launch_gang(&gang, &task, launch)?.all().await?;
    if let Some(into) = &problem.solution {
        let place = |shard: u32| {
            let dealt = dealt.clone();
            move |row: usize| dealt.position(shard, row)
        };
        gather::<f64, 1, _>(&top, (&levels[0].1, X), (into, dealt.size().0), place).await?;
    }
    Ok(found)
}

/// Makes a tree with a block of so many points for each shard.
fn blocks(
    top: &Top,
    name: &str,
    sizes: &[usize],
    fields: &[maniple::regions::FieldInfo],
) -> Result<Vec<Region>, Error> {
    let tree = top.region_tree(name, Rect::line(0, sizes.iter().sum::<usize>() as i64), fields)?;
    Ok(Partition::blocks(tree, sizes)?.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::local::Local;
    use super::*;

    #[test]
    fn a_wrong_solution_is_found() {
        let values = [(0, 0, 4.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 4.0), (2, 2, 2.0)];
        let matrix = Sparse::new(3, values.to_vec()).expect("a matrix");
        let problem = Problem::new(System::Given(Arc::new(matrix)), 1);
        let local = Local::new(&problem.dealt(), 0, 0, 1);
        let failure = |x: [f64; 3]| {
            let mut ax = [0.0; 3];
            local.multiply_inside(&x, &mut ax);
            let sums = shard::sums(&[3.0, 3.0, 2.0], &ax, &x);
            let squares = vec![22.0, 1e-40];
            let found = Found { time: Duration::ZERO, squares, broken: None, sums, norm: local.norm() };
            outcome(&problem, &[found], Stats::default()).expect("an outcome").failure
        };
        assert_eq!(failure([1.0; 3]), None);
        for wrong in [[1.0 + 1e-9, 1.0, 1.0], [1.0, 1.0, f64::NAN], [0.0; 3]] {
            assert!(failure(wrong).is_some(), "{wrong:?}");
        }
    }
}
