//! The computations of an iteration, on the block of one shard.
//!
//! [`step`] scales the last derivative, applies the periodic fourth-order difference operator to it, and returns the
//! block's share of `S = Σ d²`. It works in one pass and in place, so a block that is not in a near cache is loaded once.
//! The allreduce follows, and [`root`] checks its result. [`scale`] computes the vector `u = d / √S` where it is needed.
//!
//! # The order of the sum
//!
//! The order depends on the block's length alone, so the same block gives the same bits on any processor.
//!
//! 1. The cells that need no ghost cells, 2 to n − 3, are cut into panels of [`PANEL`] cells, and a panel into chunks of
//!    16.
//! 2. Within the whole chunks of a panel, cell `k` adds its square to lane `k mod 8`, in ascending order.
//! 3. The lanes fold as `((0+4) + (2+6)) + ((1+5) + (3+7))`.
//! 4. The squares of the cells after the last whole chunk follow in ascending order.
//! 5. The sums of the panels are added in ascending order.
//! 6. The squares of cells 0, 1, n − 2 and n − 1 come last.
//!
//! With lanes, the compiler can use vector registers. Panels keep the rounding error of long blocks small.

use crate::StencilError;

/// Ghost cells: cells of the neighbour that a block needs on each side.
pub const GHOSTS: usize = 2;

/// Lanes: partial sums side by side within a panel.
pub const LANES: usize = 8;

/// Cells of a panel: their squares are folded before they join the block's sum. A multiple of the loop's step.
pub const PANEL: usize = 1024;

/// Cells that one step of the vectorised loop computes. Measured: with 16, LLVM keeps the window in vector registers.
const CHUNK: usize = 16;

/// Cells that one step of the vectorised loop needs.
const WINDOW: usize = CHUNK + 2 * GHOSTS;

/// The scaled cells from two before to one after the next cell to compute. In the block, those before are overwritten.
type Behind = [f64; 2 * GHOSTS];

/// Replaces the block `d` by the derivative of `u = d / root`, and returns its `Σ d²`.
///
/// The derivative is `d[i] = (u[i-2] − 8u[i-1] + 8u[i+1] − u[i+2]) / (12h)`.
///
/// - `left` holds the cells of the old `d` at −2 and −1, `right` those at `d.len()` and `d.len() + 1`.
/// - `h` is the spacing: 1/N for N cells in all shards together.
/// - `d` may have any length, also 0.
///
/// The sum has the order given in the [module's description](self). `u` has the same bits as from [`scale`]; with a `root`
/// of 1 they are the bits of `d`.
pub fn step(d: &mut [f64], left: [f64; GHOSTS], right: [f64; GHOSTS], root: f64, h: f64) -> f64 {
    let n = d.len();
    let (scale, factor) = (1.0 / root, 1.0 / (12.0 * h));
    let [l0, l1] = left;
    let [r0, r1] = right;
    let (&[d0, d1, d2, d3, ..], &[.., e0, e1, e2, e3]) = (&*d, &*d) else {
        // Every cell needs a ghost.
        let padded: Vec<f64> = [&left[..], d, &right[..]].concat();
        return at_an_end(&padded, d, scale, factor, 0.0);
    };
    let mut behind: Behind = [d0, d1, d2, d3].map(|d| d * scale);
    let (mut sum, mut from, to) = (0.0, GHOSTS, n - GHOSTS);
    while from < to {
        let cells = PANEL.min(to - from);
        sum += panel(&mut d[from..from + cells + GHOSTS], &mut behind, scale, factor);
        from += cells;
    }
    sum = at_an_end(&[l0, l1, d0, d1, d2, d3], &mut d[..GHOSTS], scale, factor, sum);
    at_an_end(&[e0, e1, e2, e3, r0, r1], &mut d[to..], scale, factor, sum)
}

/// Computes cells that need ghost cells, where `old` has two more cells on either side. Returns `sum` plus their squares.
fn at_an_end(old: &[f64], d: &mut [f64], scale: f64, factor: f64, mut sum: f64) -> f64 {
    for (old, d) in old.windows(2 * GHOSTS + 1).zip(d) {
        let u: &[f64; 2 * GHOSTS + 1] = old.try_into().expect("windows have this length");
        *d = difference(&u.map(|u| u * scale), factor);
        sum += *d * *d;
    }
    sum
}

/// Computes a panel and its sum of squares, where `d` has two more cells after it.
fn panel(d: &mut [f64], behind: &mut Behind, scale: f64, factor: f64) -> f64 {
    let cells = d.len() - GHOSTS;
    let whole = cells - cells % CHUNK;
    let mut sum = whole_chunks(&mut d[..whole + GHOSTS], behind, scale, factor);
    for i in whole..cells {
        let [a, b, c, e] = *behind;
        let next = d[i + GHOSTS] * scale;
        d[i] = difference(&[a, b, c, e, next], factor);
        sum += d[i] * d[i];
        *behind = [b, c, e, next];
    }
    sum
}

/// The hot loop. It is alone in its function, because LLVM optimises it less well beside other code.
#[inline(never)]
fn whole_chunks(d: &mut [f64], behind: &mut Behind, scale: f64, factor: f64) -> f64 {
    const AHEAD: usize = CHUNK + GHOSTS;
    let mut lanes = [0.0; LANES];
    let mut u = [0.0; WINDOW];
    u[..2 * GHOSTS].copy_from_slice(behind);
    let mut from = 0;
    while let Some(d) = d.get_mut(from..from + AHEAD) {
        let d: &mut [f64; AHEAD] = d.try_into().expect("slices have this length");
        for i in 0..CHUNK {
            u[2 * GHOSTS + i] = d[GHOSTS + i] * scale;
        }
        for i in 0..CHUNK {
            d[i] = ((u[i] - u[i + 4]) + 8.0 * (u[i + 3] - u[i + 1])) * factor;
        }
        for octet in d[..CHUNK].as_chunks::<LANES>().0 {
            for l in 0..LANES {
                lanes[l] += octet[l] * octet[l];
            }
        }
        for i in 0..2 * GHOSTS {
            u[i] = u[CHUNK + i];
        }
        from += CHUNK;
    }
    behind.copy_from_slice(&u[..2 * GHOSTS]);
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
/// It multiplies by the reciprocal, so a result may be off by one unit in the last place.
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

/// `√S` of an iteration, counted from 1.
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
