//! The changes that a task has made to its copy of a region.
//!
//! A task on another node than the region's home works on a copy, and only values that differ from the fetched ones go
//! back. So tasks that set different values of one region at the same time do not overwrite each other. Within a node
//! they do not either. A task with write-discard privilege fetches nothing and puts everything back.

use maniple_regions::{Buffer, Rect};
use std::ops::Range;

/// The parts of `rect` that have changed, each with its range of bytes. A value has `size` bytes.
pub(super) fn changes(rect: Rect, size: usize, before: &[u8], after: &[u8]) -> Vec<(Rect, Range<usize>)> {
    let row = rect.extent(rect.dim() - 1);
    let differs = |at: usize| before[at * size..][..size] != after[at * size..][..size];
    let mut parts: Vec<(Rect, Range<usize>)> = Vec::new();
    let mut changed = 0;
    for start in (0..rect.volume()).step_by(row.max(1)) {
        let mut at = start;
        while at < start + row {
            let first = at;
            while at < start + row && differs(at) {
                at += 1;
            }
            if at > first {
                parts.push((part_of_row(rect, start / row, first - start, at - start), first * size..at * size));
                changed += at - first;
            }
            at += 1;
        }
    }
    if changed == rect.volume() && changed > 0 {
        return vec![(rect, 0..after.len())];
    }
    parts
}

/// Elements `from..to` of a row of a rectangle.
fn part_of_row(rect: Rect, row: usize, from: usize, to: usize) -> Rect {
    let (row, from, to) = (row as i64, from as i64, to as i64);
    let (x, y, z) = (rect.lo(0), rect.lo(1), rect.lo(2));
    match rect.dim() {
        1 => Rect::new([x + from], [x + to]),
        2 => Rect::new([x + row, y + from], [x + row + 1, y + to]),
        _ => {
            let (i, j) = (x + row / rect.extent(1) as i64, y + row % rect.extent(1) as i64);
            Rect::new([i, j, z + from], [i + 1, j + 1, z + to])
        }
    }
}

pub(super) fn concatenated(bytes: &Buffer, parts: impl Iterator<Item = Range<usize>> + Clone) -> Buffer {
    let mut all = Buffer::zeroed(parts.clone().map(|p| p.len()).sum());
    let mut rest = all.as_bytes_mut();
    for part in parts {
        let (to, more) = rest.split_at_mut(part.len());
        to.copy_from_slice(&bytes.as_bytes()[part]);
        rest = more;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_regions::{Field, MemoryId, SharedInstance};
    use proptest::prelude::*;

    proptest! {
        /// Putting the changes back turns the old values into the new ones and touches no other.
        #[test]
        fn changes_are_what_differs(
            dim in 1usize..4, lo in -5i64..5, extents in [0usize..5, 0usize..5, 0usize..5],
            values in prop::collection::vec((0u16..9, 0u16..9), 125)
        ) {
            let hi = extents.map(|e| lo + e as i64);
            let rect = match dim {
                1 => Rect::line(lo, hi[0]),
                2 => Rect::new([lo; 2], [hi[0], hi[1]]),
                _ => Rect::new([lo; 3], hi),
            };
            let column = |f: fn(&(u16, u16)) -> u16| -> Vec<u16> { values.iter().map(f).take(rect.volume()).collect() };
            let (before, after) = (Buffer::from_slice(&column(|v| v.0)), Buffer::from_slice(&column(|v| v.1 / 3 * 3)));
            let info = Field::<u16>::new(0, "v").info();
            let home = SharedInstance::new(rect, info, MemoryId(0)).expect("a small instance");
            home.write_bytes(rect, before.as_bytes()).expect("of the same length");
            let parts = changes(rect, 2, before.as_bytes(), after.as_bytes());
            for (part, range) in &parts {
                prop_assert_eq!(part.volume() * 2, range.len());
                home.write_bytes(*part, &after.as_bytes()[range.clone()]).expect("a part");
            }
            prop_assert_eq!(home.read_bytes(rect).expect("all"), after.clone());
            let differ = before.as_bytes().chunks(2).zip(after.as_bytes().chunks(2)).filter(|(a, b)| a != b).count();
            prop_assert_eq!(parts.iter().map(|p| p.0.volume()).sum::<usize>(), differ);
        }
    }
}
