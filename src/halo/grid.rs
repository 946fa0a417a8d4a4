//! The geometry of halos: which block of a grid has the ghost cells of which other block.

use super::HaloOptions;
use maniple_regions::Rect;

/// A run of cells along one dimension that a block has or needs. `block` is the number, along that dimension, of the
/// block that has them. `lo` and `hi` are coordinates of the block that needs them.
#[derive(Clone, Copy)]
struct Run {
    block: usize,
    lo: i64,
    hi: i64,
    /// The difference to the owner's coordinates.
    shift: i64,
}

/// The runs along one dimension: those below a block, the block itself, and those above. Also the position of the block
/// among them.
fn runs(cuts: &[i64], block: usize, width: usize, periodic: bool) -> (Vec<Run>, usize) {
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
    let run = |(block, shift): (usize, i64), lo: i64, hi: i64| Run {
        block,
        lo: lo.max(cuts[block] + shift),
        hi: hi.min(cuts[block + 1] + shift),
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
        below.push(run(at, low, reached));
        reached = cuts[at.0] + at.1;
    }
    below.reverse();
    let own = below.len();
    below.push(Run { block, lo, hi, shift: 0 });
    (at, reached) = ((block, 0), hi);
    while reached < high
        && let Some(next) = neighbour(at, true)
    {
        at = next;
        below.push(run(at, reached, high));
        reached = cuts[at.0 + 1] + at.1;
    }
    (below, own)
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
    let along: [(Vec<Run>, usize); D] =
        std::array::from_fn(|d| runs(&cuts[d], at[d], options.width[d], options.periodic[d]));
    let all: usize = along.iter().map(|(runs, _)| runs.len()).product();
    let mut pieces = Vec::new();
    for mut choice in 0..all {
        let (mut chosen, mut away) = ([None; D], 0);
        for d in (0..D).rev() {
            let (runs, own) = &along[d];
            chosen[d] = runs.get(choice % runs.len()).copied();
            away += usize::from(choice % runs.len() != *own);
            choice /= runs.len();
        }
        let chosen = chosen.map(|run| run.unwrap_or(Run { block: 0, lo: 0, hi: 0, shift: 0 }));
        let is_empty = chosen.iter().any(|run| run.lo >= run.hi);
        if away == 0 || is_empty || (away > 1 && !options.corners) {
            continue;
        }
        let owner = (0..D).fold(0, |number, d| number * (cuts[d].len() - 1) + chosen[d].block);
        let here = Rect::new(chosen.map(|run| run.lo), chosen.map(|run| run.hi));
        let there = Rect::new(chosen.map(|run| run.lo - run.shift), chosen.map(|run| run.hi - run.shift));
        pieces.push((owner as u32, here, there));
    }
    pieces
}

/// A rectangle with so many more points on each side.
pub(super) fn grown<const D: usize>(rect: &Rect, width: [usize; D]) -> Rect {
    let width = width.map(|width| i64::try_from(width).unwrap_or(i64::MAX));
    Rect::new::<D>(
        std::array::from_fn(|d| rect.lo(d).saturating_sub(width[d])),
        std::array::from_fn(|d| rect.hi(d).saturating_add(width[d])),
    )
}
