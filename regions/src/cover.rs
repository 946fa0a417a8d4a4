//! Sweeps that find whether rectangles overlap or cover a box.

use crate::Rect;

/// Whether no point lies in two of the rectangles, which all have the same dimension.
pub(crate) fn disjoint(rects: &[Rect]) -> bool {
    let mut sorted: Vec<&Rect> = rects.iter().filter(|rect| !rect.is_empty()).collect();
    sorted.sort_unstable();
    // Sweep along the first dimension; `open` are the rectangles that the sweep line crosses.
    let mut open: Vec<&Rect> = Vec::new();
    for rect in sorted {
        open.retain(|other| other.hi(0) > rect.lo(0));
        if open.iter().any(|other| other.overlaps(rect)) {
            return false;
        }
        open.push(rect);
    }
    true
}

/// Whether every point of `whole` lies in one of the rectangles, which all have its dimension.
pub(crate) fn covered(whole: &Rect, rects: &[Rect]) -> bool {
    if whole.is_empty() {
        return true;
    }
    let mut sorted: Vec<&Rect> = rects.iter().filter(|rect| rect.overlaps(whole)).collect();
    covered_from(0, whole, &mut sorted)
}

/// Whether the rectangles cover `whole` in the dimensions from `d` on.
fn covered_from(d: usize, whole: &Rect, rects: &mut [&Rect]) -> bool {
    rects.sort_unstable_by_key(|rect| rect.lo(d));
    if d + 1 == whole.dim() {
        let mut reached = whole.lo(d);
        for rect in rects {
            if rect.lo(d) > reached {
                break;
            }
            reached = reached.max(rect.hi(d));
        }
        return reached >= whole.hi(d);
    }
    // Between two neighbouring cuts, the same rectangles are met everywhere.
    let mut cuts: Vec<i64> = rects.iter().flat_map(|rect| [rect.lo(d), rect.hi(d)]).collect();
    cuts.extend([whole.lo(d), whole.hi(d)]);
    cuts.retain(|&at| whole.lo(d) <= at && at < whole.hi(d));
    cuts.sort_unstable();
    cuts.dedup();
    let (mut open, mut next): (Vec<&Rect>, usize) = (Vec::new(), 0);
    cuts.into_iter().all(|at| {
        open.retain(|rect| rect.hi(d) > at);
        while let Some(rect) = rects.get(next).filter(|rect| rect.lo(d) <= at) {
            if rect.hi(d) > at {
                open.push(rect);
            }
            next += 1;
        }
        covered_from(d + 1, whole, &mut open)
    })
}
