//! Disjoint rectangles of one field of one tree, each with the instances that hold valid values of it.

use super::versions::Holders;
use maniple_regions::Rect;
use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint rectangles with their holders. They are ordered by their first points. So a scan has the same order everywhere, and
/// looks only where an overlap is possible.
#[derive(Clone, Default)]
pub(crate) struct Pieces {
    pub map: BTreeMap<Rect, Holders>,
    /// The longest piece in the first dimension.
    longest: i64,
}

impl PartialEq for Pieces {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl Pieces {
    /// The range in which pieces that overlap `rect` are.
    pub fn range(&self, rect: Rect) -> Range<Rect> {
        let from = starting_at(rect, rect.lo(0));
        let first = if rect.dim() == 1 {
            // In one dimension, of the pieces that start before `rect` only the last can reach into it.
            self.map.range(..from).next_back().map_or(from, |(before, _)| *before)
        } else {
            starting_at(rect, rect.lo(0).saturating_sub(self.longest))
        };
        first..starting_at(rect, rect.hi(0)).max(first)
    }

    pub fn overlapping(&self, rect: Rect) -> impl Iterator<Item = (&Rect, &Holders)> {
        self.map.range(self.range(rect)).filter(move |(r, _)| r.overlaps(&rect))
    }

    fn insert(&mut self, rect: Rect, known: Holders) {
        self.longest = self.longest.max(rect.hi(0).saturating_sub(rect.lo(0)));
        self.map.insert(rect, known);
    }

    /// Divides the pieces that are partly in a rectangle.
    pub fn cut(&mut self, rect: Rect) {
        let cut: Vec<Rect> = self.overlapping(rect).map(|(r, _)| *r).filter(|r| !rect.contains_rect(r)).collect();
        for old in cut {
            let Some(of_piece) = self.map.remove(&old) else { continue };
            for part in old.subtract(&rect).into_iter().chain([old.intersect(&rect)]) {
                self.insert(part, of_piece.of_part(&old));
            }
        }
    }

    pub fn write(&mut self, rect: Rect, known: Holders) {
        if rect.is_empty() {
            return;
        }
        if let Some(of_piece) = self.map.get_mut(&rect) {
            *of_piece = known;
            return;
        }
        let cut: Vec<Rect> = self.overlapping(rect).map(|(r, _)| *r).collect();
        for old in cut {
            let Some(of_piece) = self.map.remove(&old) else { continue };
            for rest in old.subtract(&rect) {
                self.insert(rest, of_piece.of_part(&old));
            }
        }
        self.insert(rect, known);
    }
}

/// The least rectangle that starts at `x` in the first dimension, in the order of rectangles of `like`'s dimension.
fn starting_at(like: Rect, x: i64) -> Rect {
    const LEAST: i64 = i64::MIN;
    match like.dim() {
        1 => Rect::new([x], [x]),
        2 => Rect::new([x, LEAST], [x, LEAST]),
        _ => Rect::new([x, LEAST, LEAST], [x, LEAST, LEAST]),
    }
}
