//! The two leaf computations of an iteration, on the block of one shard.
//!
//! [`derivative`] applies the periodic fourth-order difference operator and returns the block's share of `S = Σ d²`;
//! [`scale`] turns `d` into the next `u = d / √S`. Between them lies the allreduce, and [`root`] checks its result.
//!
//! **Order of the sum.** It is fixed by the block's length alone, so the same block gives the same bits whoever computes
//! it. The block is cut into panels of [`PANEL`] cells. Within a panel cell `i` adds its square to lane `i mod 8`: first
//! the cells whose chunk of 16 reads nothing outside the block, in ascending order, summed by themselves; their sum and
//! then the panel's last cells are added to what the first chunk gave. The lanes fold as
//! `((0+4) + (2+6)) + ((1+5) + (3+7))`; the panels' sums are added in ascending order.
//! Lanes let the compiler use vector registers, panels keep the rounding error of long blocks small.

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

    let mut sum = 0.0;
    for (panel, d) in d.chunks_mut(PANEL).enumerate() {
        let first = panel * PANEL;
        let (chunks, rest) = d.as_chunks_mut::<CHUNK>();
        // The chunks whose window lies within `u`: all but the block's first and, where its window reaches past the
        // end, its last.
        let begin = usize::from(first == 0).min(chunks.len());
        let end = ((n - first).saturating_sub(GHOSTS) / CHUNK).clamp(begin, chunks.len());

        let mut lanes = [0.0; LANES];
        if begin > 0 {
            difference(&edge(u, left, right, 0), factor, &mut chunks[0]);
            lanes = add_squares(&chunks[0], lanes);
        }
        if begin < end {
            let inner = interior(&u[first + begin * CHUNK - GHOSTS..], &mut chunks[begin..end], factor);
            for (lane, inner) in lanes.iter_mut().zip(inner) {
                *lane += inner;
            }
        }
        if end < chunks.len() {
            difference(&edge(u, left, right, first + end * CHUNK), factor, &mut chunks[end]);
            lanes = add_squares(&chunks[end], lanes);
        }
        if !rest.is_empty() {
            // Cells past the block's end are computed like the others and then left out.
            let mut chunk = [0.0; CHUNK];
            difference(&edge(u, left, right, first + chunks.len() * CHUNK), factor, &mut chunk);
            rest.copy_from_slice(&chunk[..rest.len()]);
            for (i, d) in rest.iter().enumerate() {
                lanes[i % LANES] += d * d;
            }
        }
        sum += fold(lanes);
    }
    sum
}

/// The loop that takes the time: chunks whose windows all lie within `u`, which starts with the first one's window.
/// Kept apart from the ends of the block, whose many cases would spoil its code.
#[inline(never)]
fn interior(u: &[f64], d: &mut [[f64; CHUNK]], factor: f64) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    for (window, chunk) in u.windows(WINDOW).step_by(CHUNK).zip(d) {
        difference(window.try_into().expect("windows have this length"), factor, chunk);
        lanes = add_squares(chunk, lanes);
    }
    lanes
}

/// The derivative of a chunk from the window of cells it depends on.
#[inline(always)]
fn difference(u: &[f64; WINDOW], factor: f64, d: &mut [f64; CHUNK]) {
    for i in 0..CHUNK {
        d[i] = ((u[i] - u[i + 4]) + 8.0 * (u[i + 3] - u[i + 1])) * factor;
    }
}

/// The lanes with each cell's square added to its own.
#[inline(always)]
fn add_squares(d: &[f64; CHUNK], mut lanes: [f64; LANES]) -> [f64; LANES] {
    for octet in d.as_chunks::<LANES>().0 {
        for (lane, d) in lanes.iter_mut().zip(octet) {
            *lane += d * d;
        }
    }
    lanes
}

/// The window of the chunk at cell `first`, which reaches over an end of the block; zeros past the ghosts.
#[inline]
fn edge(u: &[f64], left: [f64; GHOSTS], right: [f64; GHOSTS], first: usize) -> [f64; WINDOW] {
    let mut window = [0.0; WINDOW];
    let (from, gap) = if first == 0 { (0, GHOSTS) } else { (first - GHOSTS, 0) };
    if first == 0 {
        window[..GHOSTS].copy_from_slice(&left);
    }
    let cells = (u.len() - from).min(WINDOW - gap);
    window[gap..gap + cells].copy_from_slice(&u[from..from + cells]);
    for (slot, ghost) in window[gap + cells..].iter_mut().zip(right) {
        *slot = ghost;
    }
    window
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
