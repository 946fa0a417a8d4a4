//! The geometry of halos: which block of a grid has the ghost cells of which other block.

use super::HaloOptions;
use maniple_regions::Rect;

/// An interval of cells along one dimension that a block has or needs. `block` is the number, along that dimension, of the
/// block that has them. `lo` and `hi` are coordinates of the block that needs them.
#[derive(Clone, Copy)]
struct Interval {
    block: usize,
    lo: i64,
    hi: i64,
    /// The difference to the owner's coordinates.
    shift: i64,
}

/// The intervals along one dimension: those below a block, the block itself, and those above. Also the position of the block
/// among them.
fn intervals(cuts: &[i64], block: usize, width: usize, periodic: bool) -> (Vec<Interval>, usize) {
    let blocks = cuts.len() - 1;
    let (first, all) = (cuts[0], cuts[blocks] - cuts[0]);
    let (lo, hi) = (cuts[block], cuts[block + 1]);
    // A grid without cells has no neighbours, and one that is not periodic ends.
    let neighbour = |from: (usize, i64), up: bool| match (up, from.0) {
        _ if all == 0 => None,
        (true, b) if b + 1 < blocks => Some((b + 1, from.1)),
        (false, b) if b > 0 => Some((b - 1, from.1)),
        _ if !periodic => None,
        (true, _) => Some((0, from.1 + all)),
        (false, _) => Some((blocks - 1, from.1 - all)),
    };
    let interval = |(block, shift): (usize, i64), lo: i64, hi: i64| Interval {
        block,
        // What lies beyond the coordinates there are is not within `lo` and `hi`.
        lo: lo.max(cuts[block].saturating_add(shift)),
        hi: hi.min(cuts[block + 1].saturating_add(shift)),
        shift,
    };
    let reach = i64::try_from(width).unwrap_or(i64::MAX);
    let (low, high) = (lo.saturating_sub(reach), hi.saturating_add(reach));
    debug_assert!(first <= lo);
    let mut below = Vec::new();
    let mut at = (block, 0);
    let mut reached = lo;
    while reached > low
        && let Some(next) = neighbour(at, false)
    {
        at = next;
        below.push(interval(at, low, reached));
        reached = cuts[at.0].saturating_add(at.1);
    }
    below.reverse();
    let own = below.len();
    below.push(Interval { block, lo, hi, shift: 0 });
    (at, reached) = ((block, 0), hi);
    while reached < high
        && let Some(next) = neighbour(at, true)
    {
        at = next;
        below.push(interval(at, reached, high));
        reached = cuts[at.0 + 1].saturating_add(at.1);
    }
    debug_assert_eq!(below.len() as u128, reaches(cuts, block, width, periodic));
    (below, own)
}

/// The number of [`intervals`] of a block that has cells.
fn reaches(cuts: &[i64], block: usize, width: usize, periodic: bool) -> u128 {
    let blocks = cuts.len() - 1;
    let (first, end) = (i128::from(cuts[0]), i128::from(cuts[blocks]));
    // The number of the block that has a cell. In a periodic dimension it counts on from one turn to the next.
    let number = |cell: i128| match cell {
        _ if !periodic && cell < first => 0,
        _ if !periodic && cell >= end => blocks as i128 - 1,
        _ => {
            let (turn, at) = ((cell - first).div_euclid(end - first), (cell - first).rem_euclid(end - first));
            let within = cuts.partition_point(|&cut| i128::from(cut) - first <= at) - 1;
            turn.saturating_mul(blocks as i128).saturating_add(within as i128)
        }
    };
    let (low, high) = (i128::from(cuts[block]) - width as i128, i128::from(cuts[block + 1]) + width as i128);
    number(high - 1).saturating_sub(number(low)) as u128 + 1
}

/// The number of places at which [`pieces`] looks for all blocks together: the pieces, the blocks themselves, and the
/// corners even if they are not sent.
pub(super) fn places<const D: usize>(cuts: &[Vec<i64>; D], options: &HaloOptions<D>) -> u128 {
    // Each block has the product of its intervals along each dimension, so all blocks have the product of the sums.
    let along = |d: usize| {
        let with_cells = (0..cuts[d].len() - 1).filter(|&block| cuts[d][block] < cuts[d][block + 1]);
        let intervals = with_cells.map(|block| reaches(&cuts[d], block, options.width[d], options.periodic[d]));
        intervals.fold(0_u128, u128::saturating_add)
    };
    (0..D).map(along).fold(1, u128::saturating_mul)
}

/// The cuts between blocks along each dimension, if `rects` are a grid in row-major order. They are part of `whole`.
pub(super) fn cuts<const D: usize>(whole: &Rect, rects: &[Rect]) -> Option<[Vec<i64>; D]> {
    // A grid without cells has no halos, so one block stands for all. Its rectangles may not tell where a row of blocks
    // ends.
    if whole.is_empty() {
        return Some(std::array::from_fn(|d| vec![whole.lo(d), whole.hi(d)]));
    }
    let last = rects.last()?;
    let mut cuts: [Vec<i64>; D] = std::array::from_fn(|_| Vec::new());
    let mut stride = 1;
    for d in (0..D).rev() {
        // Along this dimension blocks follow each other until the last one's end is reached.
        let mut block = 0;
        loop {
            let rect = rects.get(block)?;
            cuts[d].push(rect.lo(d));
            block += stride;
            let ends = rects.get(block).is_none_or(|next| next.lo(d) < rect.hi(d));
            if ends {
                cuts[d].push(rect.hi(d));
                break;
            }
        }
        (cuts[d].last() == Some(&last.hi(d))).then_some(())?;
        stride *= cuts[d].len() - 1;
    }
    let is_of_grid = |(number, rect): (usize, &Rect)| {
        let at = place::<D>(&cuts, number);
        *rect == Rect::new::<D>(std::array::from_fn(|d| cuts[d][at[d]]), std::array::from_fn(|d| cuts[d][at[d] + 1]))
    };
    (stride == rects.len() && rects.iter().enumerate().all(is_of_grid)).then_some(cuts)
}

/// The place of a block in the grid.
fn place<const D: usize>(cuts: &[Vec<i64>; D], mut number: usize) -> [usize; D] {
    let mut at = [0; D];
    for d in (0..D).rev() {
        let blocks = cuts[d].len() - 1;
        (at[d], number) = (number % blocks, number / blocks);
    }
    at
}

/// The ghost cells of a block, in pieces: the block that has the piece, and the piece in this block's coordinates and
/// in that block's. A block without cells has none.
pub(super) fn pieces<const D: usize>(
    cuts: &[Vec<i64>; D],
    number: usize,
    options: &HaloOptions<D>,
) -> Vec<(u32, Rect, Rect)> {
    let at = place(cuts, number);
    if (0..D).any(|d| cuts[d][at[d]] == cuts[d][at[d] + 1]) {
        return Vec::new();
    }
    let along: [(Vec<Interval>, usize); D] =
        std::array::from_fn(|d| intervals(&cuts[d], at[d], options.width[d], options.periodic[d]));
    let all: usize = along.iter().map(|(intervals, _)| intervals.len()).product();
    let mut pieces = Vec::new();
    for mut choice in 0..all {
        let (mut chosen, mut away) = ([None; D], 0);
        for d in (0..D).rev() {
            let (intervals, own) = &along[d];
            chosen[d] = intervals.get(choice % intervals.len()).copied();
            away += usize::from(choice % intervals.len() != *own);
            choice /= intervals.len();
        }
        let chosen = chosen.map(|interval| interval.unwrap_or(Interval { block: 0, lo: 0, hi: 0, shift: 0 }));
        let is_empty = chosen.iter().any(|interval| interval.lo >= interval.hi);
        if away == 0 || is_empty || (away > 1 && !options.corners) {
            continue;
        }
        let owner = (0..D).fold(0, |number, d| number * (cuts[d].len() - 1) + chosen[d].block);
        let here = Rect::new(chosen.map(|interval| interval.lo), chosen.map(|interval| interval.hi));
        let there = Rect::new(
            chosen.map(|interval| interval.lo - interval.shift),
            chosen.map(|interval| interval.hi - interval.shift),
        );
        pieces.push((owner as u32, here, there));
    }
    pieces
}
