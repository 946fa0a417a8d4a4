//! The shard task, and its leaf tasks.

use super::local::{Local, sum};
use super::system::Dealt;
use super::{Charges, Preconditioner, Problem};
use crate::{Mode, nanoseconds};
use maniple::prelude::*;
use maniple::runtime::{Consumer, Launch, Leaf, Producer, PutTo, now};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Of vectors with ghosts: the vector that the preconditioner works on, and the direction.
pub const Z: Field<f64> = Field::new(0, "z");
pub const P: Field<f64> = Field::new(1, "p");
/// Of vectors without: the residual, a product with the matrix, the right-hand side, and the solution.
pub const R: Field<f64> = Field::new(0, "r");
pub const AP: Field<f64> = Field::new(1, "ap");
pub const B: Field<f64> = Field::new(2, "b");
pub const X: Field<f64> = Field::new(3, "x");

/// What a shard gets: on each level its vectors with and without ghosts and the edges to its neighbours, and for the finest one sums
/// over all shards. The edges are those across corners, edges and faces.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    pub levels: Vec<(Region, Region, [Edges<f64>; 3])>,
    pub sum: Collective<f64>,
}

/// What a shard gives.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Found {
    /// The time of all iterations.
    pub time: Duration,
    /// The squares of the norm of the residual, before the first iteration and after each.
    pub squares: Vec<f64>,
    /// The step that could not be taken, and r·z and p·Ap in it.
    pub broken: Option<(usize, f64, f64)>,
    /// Sums over its rows, of squares: of b − A x, b, x, and x − 1.
    pub sums: [f64; 4],
    /// The largest sum of the absolute values of a row.
    pub norm: f64,
}

/// A level of a shard.
struct Level {
    local: Arc<Local>,
    /// Vectors with ghosts: all, the shard's own rows, and the ghosts of each neighbour.
    all: RegionView,
    own: RegionView,
    ghosts: Vec<RegionView>,
    /// Vectors without ghosts.
    rows: RegionView,
    out: Vec<Producer<f64>>,
    into: Vec<Consumer<f64>>,
}

struct Solver {
    shard: Shard,
    levels: Vec<Level>,
    sum: Collective<f64>,
    mode: Mode,
    charges: Option<Charges>,
}

/// Solves the system: `problem.iterations` steps of the method of conjugate gradients, or fewer.
pub async fn solve(shard: Shard, part: Part, (problem, dealt): (Arc<Problem>, Arc<Dealt>)) -> Result<Found, Error> {
    let (me, levels) = (shard.index(), part.levels.len());
    let level = |(level, (ghosted, rows, edges)): (usize, (Region, Region, [Edges<f64>; 3]))| {
        Level::new(&shard, Arc::new(Local::new(&dealt, me, level, levels)), (ghosted, rows), &edges)
    };
    let levels = part.levels.into_iter().enumerate().map(level).collect::<Result<Vec<_>, Error>>()?;
    let solver = Solver { shard: shard.clone(), levels, sum: part.sum, mode: problem.mode, charges: problem.charges };
    let fine = &solver.levels[0];
    let (local, given) = (fine.local.clone(), problem.clone());
    let set = move |mut b: Write<f64>, mut r: Write<f64>, mut x: Write<f64>| {
        let values: Vec<f64> = match &given.right {
            Some(right) => (0..local.rows()).map(|row| right[dealt.position(me, row)]).collect(),
            None => local.sums().collect(),
        };
        b.copy_from_slice(&values);
        r.copy_from_slice(&values);
        x.fill(0.0);
    };
    shard.launch(set, (fine.rows.write(B), fine.rows.write(R), fine.rows.write(X))).named("set").go()?.detach();
    solver.touch()?;
    let mut squares = vec![solver.dot(fine.rows.read(R), fine.rows.read(R))?];
    squares[0].clone().await?;
    let began = now();
    let mut products: Vec<(TaskFuture<f64>, TaskFuture<f64>)> = Vec::new();
    for k in 0..problem.iterations {
        let (rz, z) = if problem.preconditioner == Preconditioner::None {
            (squares[k].clone(), fine.rows.read(R))
        } else {
            solver.precondition()?;
            (solver.dot(fine.rows.read(R), fine.own.read(Z))?, fine.own.read(Z))
        };
        solver.turn(z, &rz, products.last().map(|(last, _)| last))?;
        solver.multiply().await?;
        let p_ap = solver.dot(fine.own.read(P), fine.rows.read(AP))?;
        squares.push(solver.step(&rz, &p_ap)?);
        products.push((rz, p_ap));
        // Two iterations are under way, unless the last residual decides whether there is another one.
        let looked_at = if problem.tolerance > 0.0 { k + 1 } else { k };
        let square = squares[looked_at].clone().await?;
        let is_small =
            square <= f64::MIN_POSITIVE || square.sqrt() <= problem.tolerance * squares[0].clone().await?.sqrt();
        if is_small || no_step(&products, looked_at).await?.is_some() {
            break;
        }
    }
    let (mut found, mut broken) = (Vec::new(), None);
    for (k, square) in squares.into_iter().enumerate() {
        if let Some((rz, p_ap)) = no_step(&products, k).await? {
            // After a residual that is far below rounding errors, products underflow.
            let is_solved = found[k - 1] < f64::EPSILON.powi(4) * found[0];
            broken = (!is_solved).then_some((k, rz, p_ap));
            break;
        }
        found.push(square.await?);
        if found[k] <= f64::MIN_POSITIVE {
            break;
        }
    }
    let time = now() - began;
    let of = fine.local.clone();
    let copy = move |x: Read<f64>, mut p: Write<f64>, puts: Many<Put<f64>>| {
        p.copy_from_slice(x.as_slice());
        send(&of, x.as_slice(), puts);
    };
    shard.launch(copy, (fine.rows.read(X), fine.own.write(P), solver.puts(0))).named("copy").go()?.detach();
    solver.multiply().await?;
    let sums = |b: Read<f64>, ax: Read<f64>, x: Read<f64>| sums(b.as_slice(), ax.as_slice(), x.as_slice());
    let args = (fine.rows.read(B), fine.rows.read(AP), fine.rows.read(X));
    let sums = shard.launch(sums, args).named("sums").go()?.await?;
    Ok(Found { time, squares: found, broken, sums, norm: fine.local.norm() })
}

impl Level {
    fn new(
        shard: &Shard,
        local: Arc<Local>,
        (ghosted, rows): (Region, Region),
        edges: &[Edges<f64>; 3],
    ) -> Result<Self, Error> {
        let part = |from: usize, to: usize| {
            let first = ghosted.rect.lo(0);
            shard.region(Region::new(ghosted.tree, Rect::line(first + from as i64, first + to as i64)))
        };
        Ok(Self {
            all: shard.region(ghosted)?,
            own: part(0, local.rows())?,
            ghosts: local.neighbours.iter().map(|n| part(n.ghosts.start, n.ghosts.end)).collect::<Result<_, _>>()?,
            rows: shard.region(rows)?,
            out: ends(&local, edges, |edges| edges.outgoing(shard))?,
            into: ends(&local, edges, |edges| edges.incoming(shard))?,
            local,
        })
    }
}

/// Sums of squares: of b − A x, b, x, and x − 1.
pub fn sums(b: &[f64], ax: &[f64], x: &[f64]) -> [f64; 4] {
    let squares = |of: &dyn Fn(usize) -> f64| (0..b.len()).map(|row| of(row).powi(2)).sum::<f64>();
    [squares(&|i| b[i] - ax[i]), squares(&|i| b[i]), squares(&|i| x[i]), squares(&|i| x[i] - 1.0)]
}

/// A quotient of scalar products. It is 0 where it is no number, as after the exact solution: then a step changes nothing.
fn part(of: f64, whole: f64) -> f64 {
    let part = of / whole;
    if part.is_finite() { part } else { 0.0 }
}

/// r·z and p·Ap of the step before the residual number `k`, if they allow no step: with a positive definite matrix p·Ap is positive.
/// They are there once that residual is.
async fn no_step(products: &[(TaskFuture<f64>, TaskFuture<f64>)], k: usize) -> Result<Option<(f64, f64)>, Error> {
    let Some((rz, p_ap)) = k.checked_sub(1).map(|step| &products[step]) else { return Ok(None) };
    let (rz, p_ap) = (rz.clone().await?, p_ap.clone().await?);
    let is_step = rz.is_finite() && p_ap.is_finite() && p_ap > 0.0;
    Ok((!is_step).then_some((rz, p_ap)))
}

/// The ends of edges, in the order of the neighbours.
fn ends<E>(
    local: &Local,
    edges: &[Edges<f64>; 3],
    of: impl Fn(&Edges<f64>) -> Result<Vec<E>, Error>,
) -> Result<Vec<E>, Error> {
    let mut ends = Vec::new();
    for edges in edges {
        ends.push(of(edges)?.into_iter());
    }
    Ok(local.neighbours.iter().filter_map(|neighbour| ends[neighbour.extent].next()).collect())
}

/// Sends the rows of a vector that the neighbours use.
fn send(local: &Local, x: &[f64], mut puts: Many<Put<f64>>) {
    for (put, neighbour) in puts.iter_mut().zip(&local.neighbours) {
        put.iter_mut().zip(&neighbour.sends).for_each(|(put, row)| *put = x[*row as usize]);
    }
}

/// Puts what has come from the neighbours into a vector.
fn receive(local: &Local, came: Many<Get<f64>>, x: &mut [f64]) {
    for (neighbour, came) in local.neighbours.iter().zip(came) {
        x[neighbour.ghosts.clone()].copy_from_slice(&came);
    }
}

impl Solver {
    /// Writes to all vectors. Memory that is touched for the first time takes longer.
    fn touch(&self) -> Result<(), Error> {
        let clear = |to| self.shard.fill(to, 0.0).go().map(TaskFuture::detach);
        let (fine, coarse) = (&self.levels[0], &self.levels[1..]);
        clear(fine.all.write(P))?;
        clear(fine.rows.write(AP))?;
        self.levels.iter().try_for_each(|level| clear(level.all.write(Z)))?;
        coarse.iter().try_for_each(|level| clear(level.rows.write(R)))
    }

    /// In virtual time a task takes as long as the charges say.
    fn charged<'s, F: Leaf<M>, M: 'static>(
        &self,
        launch: Launch<'s, F, M>,
        ns: impl FnOnce(&Charges) -> f64,
    ) -> Launch<'s, F, M> {
        launch.takes(self.charges.as_ref().map(|charges| nanoseconds(ns(charges))))
    }

    /// The scalar product of two vectors without their ghosts.
    fn dot(
        &self,
        a: Requirement<Read<'static, f64>>,
        b: Requirement<Read<'static, f64>>,
    ) -> Result<TaskFuture<f64>, Error> {
        let dot = |a: Read<f64>, b: Read<f64>| {
            let (a, b) = (a.as_slice(), b.as_slice());
            let b = &b[..a.len()];
            sum(a.len(), |n| a[n] * b[n])
        };
        let rows = self.levels[0].local.rows();
        let own = self.charged(self.shard.launch(dot, (a, b)).named("dot"), |c| c.vectors(rows, 1)).go()?;
        self.sum.call(&self.shard, &own)
    }

    /// The new direction: z + β p.
    fn turn(
        &self,
        z: Requirement<Read<'static, f64>>,
        rz: &TaskFuture<f64>,
        last: Option<&TaskFuture<f64>>,
    ) -> Result<(), Error> {
        let Level { local, own, .. } = &self.levels[0];
        let of = local.clone();
        let turn =
            move |z: Read<f64>, mut p: ReadWrite<f64>, rz: Arg<f64>, last: Option<Arg<f64>>, puts: Many<Put<f64>>| {
                let beta = last.map_or(0.0, |last| part(*rz, *last));
                let p = p.as_mut_slice();
                p.iter_mut().zip(z.as_slice()).for_each(|(p, z)| *p = z + beta * *p);
                send(&of, p, puts);
            };
        let args = (z, own.read_write(P), rz.into(), last.map(Into::into), self.puts(0));
        let turn = self.shard.launch(turn, args).named("turn");
        self.charged(turn, |c| c.vectors(local.rows(), 1) + c.pack(local)).go()?.detach();
        Ok(())
    }

    /// A step in this direction. Gives the square of the norm of the new residual.
    fn step(&self, rz: &TaskFuture<f64>, p_ap: &TaskFuture<f64>) -> Result<TaskFuture<f64>, Error> {
        let Level { local, own, rows, .. } = &self.levels[0];
        let step = |p: Read<f64>,
                    ap: Read<f64>,
                    mut x: ReadWrite<f64>,
                    mut r: ReadWrite<f64>,
                    rz: Arg<f64>,
                    p_ap: Arg<f64>| {
            let alpha = part(*rz, *p_ap);
            x.as_mut_slice().iter_mut().zip(p.as_slice()).for_each(|(x, p)| *x += alpha * p);
            let (r, ap) = (r.as_mut_slice(), ap.as_slice());
            let ap = &ap[..r.len()];
            sum(r.len(), |n| {
                r[n] -= alpha * ap[n];
                r[n] * r[n]
            })
        };
        let args = (own.read(P), rows.read(AP), rows.read_write(X), rows.read_write(R), rz.into(), p_ap.into());
        let step = self.shard.launch(step, args).named("step");
        let own = self.charged(step, |c| c.vectors(local.rows(), 2)).go()?;
        self.sum.call(&self.shard, &own)
    }

    /// What the neighbours use of a level's vector.
    fn puts(&self, level: usize) -> Many<PutTo<f64>> {
        let Level { local, out, .. } = &self.levels[level];
        out.iter().zip(&local.neighbours).map(|(to, n)| to.put(n.sends.len())).collect()
    }

    /// The product of the matrix and the direction. The rows that need ghosts start when those of their neighbours are there.
    async fn multiply(&self) -> Result<(), Error> {
        let Level { local, all, own, ghosts, rows, into, .. } = &self.levels[0];
        for ((ghosts, from), neighbour) in ghosts.iter().zip(into).zip(&local.neighbours) {
            let receive = |mut ghosts: Write<f64>, came: Get<f64>| ghosts.copy_from_slice(&came);
            let receive = self.shard.launch(receive, (ghosts.write(P), from.get())).named("receive");
            self.charged(receive, |c| c.receive(neighbour)).go()?.detach();
        }
        if self.mode == Mode::Whole {
            self.shard.launch(|_: Read<f64>| (), (all.read(P),)).named("all").go()?.await?;
        }
        let of = local.clone();
        let inside = move |x: Read<f64>, mut y: ReadWrite<f64>| of.multiply_inside(x.as_slice(), y.as_mut_slice());
        let inside = self.shard.launch(inside, (own.read(P), rows.read_write(AP))).named("inside");
        self.charged(inside, |c| c.inside(local)).go()?.detach();
        let border = |number: usize| {
            let of = local.clone();
            let border = move |x: Read<f64>, ghosts: Many<Read<f64>>| {
                let ghosts: Vec<&[f64]> = ghosts.iter().map(|ghosts| ghosts.as_slice()).collect();
                of.borders[number].multiply(x.as_slice(), &ghosts)
            };
            let needed = local.borders[number].from.iter().map(|n| ghosts[*n].read(P)).collect();
            let border = self.shard.launch(border, (own.read(P), needed)).named("border");
            self.charged(border, |c| c.border(&local.borders[number])).go()
        };
        if local.borders.is_empty() {
            return Ok(());
        }
        let borders = (0..local.borders.len()).map(border).collect::<Result<Vec<_>, Error>>()?;
        let of = local.clone();
        let merge = move |mut y: ReadWrite<f64>, parts: Many<Arg<Vec<f64>>>| {
            for (border, part) in of.borders.iter().zip(parts) {
                border.rows.iter().zip(part.iter()).for_each(|(row, value)| y.as_mut_slice()[*row as usize] = *value);
            }
        };
        let args = (rows.read_write(AP), borders.iter().map(Into::into).collect());
        self.charged(self.shard.launch(merge, args).named("merge"), |c| c.merge(local)).go()?.detach();
        Ok(())
    }

    /// Takes a step of the symmetric Gauss–Seidel method on a level, from 0.
    fn smooth_zero(&self, level: usize) -> Result<(), Error> {
        let Level { local, all, rows, .. } = &self.levels[level];
        let of = local.clone();
        let smooth = move |r: Read<f64>, mut x: ReadWrite<f64>, puts: Option<Many<Put<f64>>>| {
            let x = x.as_mut_slice();
            of.smooth_zero(r.as_slice(), x);
            puts.into_iter().for_each(|puts| send(&of, x, puts));
        };
        // Nobody needs rows of the coarsest one.
        let is_coarsest = level + 1 == self.levels.len();
        let puts = (!is_coarsest).then(|| self.puts(level));
        let args = (rows.read(R), all.read_write(Z), puts);
        let smooth = self.shard.launch(smooth, args).named("smooth from 0");
        let pack = |c: &Charges| if is_coarsest { 0.0 } else { c.pack(local) };
        self.charged(smooth, |c| c.smooth_zero(local) + pack(c)).go()?.detach();
        Ok(())
    }

    /// Takes another step. It starts when all ghosts are there.
    fn smooth(&self, level: usize) -> Result<(), Error> {
        let Level { local, all, rows, into, .. } = &self.levels[level];
        let of = local.clone();
        let smooth = move |r: Read<f64>, mut x: ReadWrite<f64>, came: Many<Get<f64>>| {
            let x = x.as_mut_slice();
            receive(&of, came, x);
            of.smooth(r.as_slice(), x);
        };
        let args = (rows.read(R), all.read_write(Z), into.iter().map(Consumer::get).collect());
        let smooth = self.shard.launch(smooth, args).named("smooth");
        self.charged(smooth, |c| c.smooth(local)).go()?.detach();
        Ok(())
    }

    /// Makes the right-hand side of the next level. It starts when all ghosts are there.
    fn restrict(&self, level: usize) -> Result<(), Error> {
        let Level { local, all, rows, into, .. } = &self.levels[level];
        let coarse = &self.levels[level + 1];
        let of = local.clone();
        let restrict = move |r: Read<f64>, mut x: ReadWrite<f64>, mut coarse: Write<f64>, came: Many<Get<f64>>| {
            let x = x.as_mut_slice();
            receive(&of, came, x);
            for (at, coarse) in coarse.as_mut_slice().iter_mut().enumerate() {
                coarse.set(of.restricted(at, r.as_slice(), x));
            }
        };
        let gets = into.iter().map(Consumer::get).collect();
        let args = (rows.read(R), all.read_write(Z), coarse.rows.write(R), gets);
        let restrict = self.shard.launch(restrict, args).named("restrict");
        self.charged(restrict, |c| c.restrict(&coarse.local)).go()?.detach();
        Ok(())
    }

    /// An approximate solution of A z = r.
    fn precondition(&self) -> Result<(), Error> {
        let coarsest = self.levels.len() - 1;
        for level in 0..coarsest {
            self.smooth_zero(level)?;
            self.restrict(level)?;
        }
        self.smooth_zero(coarsest)?;
        for level in (0..coarsest).rev() {
            let (fine, coarse) = (&self.levels[level], &self.levels[level + 1]);
            let of = fine.local.clone();
            let prolong = move |coarse: Read<f64>, mut z: ReadWrite<f64>, puts: Many<Put<f64>>| {
                let z = z.as_mut_slice();
                of.finer.iter().zip(coarse.as_slice()).for_each(|(row, coarse)| z[*row as usize] += coarse);
                send(&of, z, puts);
            };
            let args = (coarse.own.read(Z), fine.own.read_write(Z), self.puts(level));
            let prolong = self.shard.launch(prolong, args).named("prolong");
            let takes = |c: &Charges| c.vectors(coarse.local.rows(), 1) + c.pack(&fine.local);
            self.charged(prolong, takes).go()?.detach();
            self.smooth(level)?;
        }
        Ok(())
    }
}
