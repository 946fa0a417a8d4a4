//! The two leaf computations of an iteration, on the block of one shard.
//!
//! [`derivative`] applies the periodic fourth-order difference operator and returns the block's share of `S = Σ d²`;
//! [`scale`] turns `d` into the next `u = d / √S`. Between them lies the allreduce, and [`root`] checks its result.
//!
//! **Order of the sum.** It is fixed by the block's length alone, so the same block gives the same bits whoever computes
//! it. The cells that need no ghost, 2 to n − 3, are cut into panels of [`PANEL`] cells, a panel into chunks of 16. Within
//! the whole chunks of a panel, cell `k` adds its square to lane `k mod 8`, in ascending order; the lanes fold as
//! `((0+4) + (2+6)) + ((1+5) + (3+7))`; the squares of the cells after the last whole chunk follow in ascending order. The
//! panels' sums are added in ascending order, and last the squares of cells 0, 1, n − 2 and n − 1. Lanes let the compiler
//! use vector registers, panels keep the rounding error of long blocks small.

use crate::StencilError;

/// Cells a side that a block needs of its neighbours.
pub const GHOSTS: usize = 2;

/// Partial sums kept side by side within a panel.
pub const LANES: usize = 8;

/// Cells whose squares are folded together before they join the block's sum; a multiple of the loop's step.
pub const PANEL: usize = 1024;

/// Cells one step of the vectorised loop computes. Measured: with 16, LLVM loads the overlapping neighbours of a window
/// as vectors; with 8 it shuffles them together from single words, which takes 1.4 times as long.
const CHUNK: usize = 16;

/// Cells one step of the vectorised loop reads.
const WINDOW: usize = CHUNK + 2 * GHOSTS;

/// Writes the derivative of the block `u` to `d` and returns `Σ d²` over the block.
///
/// `d[i] = (u[i-2] − 8u[i-1] + 8u[i+1] − u[i+2]) / (12h)`, where `left` holds the cells at −2 and −1 and `right` those at
/// `u.len()` and `u.len() + 1`. `h` is the spacing, 1/N for N cells in all shards together. Any length will do, none
/// included. The sum has the order given in the [module's description](self).
///
/// # Panics
///
/// If `u` and `d` differ in length.
pub fn derivative(u: &[f64], left: [f64; GHOSTS], right: [f64; GHOSTS], d: &mut [f64], h: f64) -> f64 {
    assert_eq!(u.len(), d.len(), "the block and its derivative differ in length");
    let n = u.len();
    let factor = 1.0 / (12.0 * h);

    // Below four cells, every cell needs a ghost.
    let (first, last) = if n < 2 * GHOSTS { (n, n) } else { (GHOSTS, n - GHOSTS) };
    let mut sum = 0.0;
    for (k, d) in d[first..last].chunks_mut(PANEL).enumerate() {
        let reach = k * PANEL..k * PANEL + d.len() + 2 * GHOSTS;
        sum += panel(&u[reach], d, factor);
    }
    let padded = |j: usize| match j {
        0 | 1 => left[j],
        _ if j - GHOSTS < n => u[j - GHOSTS],
        _ => right[j - GHOSTS - n],
    };
    for i in (0..first).chain(last..n) {
        d[i] = difference(&[padded(i), padded(i + 1), 0.0, padded(i + 3), padded(i + 4)], factor);
        sum += d[i] * d[i];
    }
    sum
}

/// The derivative of a panel and its sum of squares, where `u` has two cells more on either side.
fn panel(u: &[f64], d: &mut [f64], factor: f64) -> f64 {
    let (chunks, rest) = d.as_chunks_mut::<CHUNK>();
    let u_rest = &u[chunks.len() * CHUNK..];
    let mut sum = whole_chunks(u, chunks, factor);
    for (u, d) in u_rest.windows(2 * GHOSTS + 1).zip(rest) {
        *d = difference(u.try_into().expect("windows have this length"), factor);
        sum += *d * *d;
    }
    sum
}

/// The loop that takes the time, alone in its function: with anything beside it LLVM makes less of it.
#[inline(never)]
fn whole_chunks(u: &[f64], d: &mut [[f64; CHUNK]], factor: f64) -> f64 {
    let mut lanes = [0.0; LANES];
    for (u, d) in u.windows(WINDOW).step_by(CHUNK).zip(d) {
        let u: &[f64; WINDOW] = u.try_into().expect("windows have this length");
        for i in 0..CHUNK {
            d[i] = ((u[i] - u[i + 4]) + 8.0 * (u[i + 3] - u[i + 1])) * factor;
        }
        for octet in d.as_chunks::<LANES>().0 {
            for l in 0..LANES {
                lanes[l] += octet[l] * octet[l];
            }
        }
    }
    fold(lanes)
}

/// The derivative at the middle one of five cells.
#[inline(always)]
fn difference(u: &[f64; 2 * GHOSTS + 1], factor: f64) -> f64 {
    ((u[0] - u[4]) + 8.0 * (u[3] - u[1])) * factor
}

fn fold(l: [f64; LANES]) -> f64 {
    ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

/// Writes `d / root` to `u`, where `root` is `√S`.
///
/// It multiplies by the reciprocal, which costs at most one unit in the last place.
///
/// # Panics
///
/// If `d` and `u` differ in length.
#[inline]
pub fn scale(d: &[f64], root: f64, u: &mut [f64]) {
    assert_eq!(d.len(), u.len(), "the block and its derivative differ in length");
    let factor = 1.0 / root;
    for (u, d) in u.iter_mut().zip(d) {
        *u = d * factor;
    }
}

/// `√S`, or why the iteration can't go on: S is zero, or no finite number. Iterations count from 1.
///
/// # Errors
///
/// [`StencilError::Vanished`] for S = 0, [`StencilError::Overflow`] where S is infinite or NaN.
#[inline]
pub fn root(iteration: usize, s: f64) -> Result<f64, StencilError> {
    if s == 0.0 {
        Err(StencilError::Vanished { iteration })
    } else if !s.is_finite() {
        Err(StencilError::Overflow { iteration, sum: s })
    } else {
        Ok(s.sqrt())
    }
}
