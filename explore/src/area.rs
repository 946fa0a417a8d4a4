//! The points on which tasks of a program work: boxes on a line or in a plane.

use maniple::regions::Rect;
use serde::{Deserialize, Serialize};

/// The points from `lo` up to but not including `hi`. On a line, the second coordinate is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Area {
    pub lo: [i64; 2],
    pub hi: [i64; 2],
}

impl Area {
    /// The area from the origin with this many cells and rows.
    pub fn of(cells: i64, rows: i64) -> Self {
        Area { lo: [0, 0], hi: [cells, rows] }
    }

    pub fn overlaps(&self, other: &Area) -> bool {
        (0..2).all(|d| self.lo[d] < other.hi[d] && other.lo[d] < self.hi[d])
    }

    pub fn is_within(&self, other: &Area) -> bool {
        (0..2).all(|d| other.lo[d] <= self.lo[d] && self.hi[d] <= other.hi[d])
    }

    /// The points in row-major order.
    pub fn points(self) -> impl Iterator<Item = [i64; 2]> {
        (self.lo[0]..self.hi[0]).flat_map(move |x| (self.lo[1]..self.hi[1]).map(move |y| [x, y]))
    }

    /// The part from `lo` up to but not including `hi` in the first dimension.
    pub fn slice(self, lo: i64, hi: i64) -> Self {
        Area { lo: [lo, self.lo[1]], hi: [hi, self.hi[1]] }
    }

    /// Part `i` of `n` along the first dimension, about as large as the others.
    pub fn nth(self, i: i64, n: i64) -> Self {
        let (lo, size) = (self.lo[0], self.hi[0] - self.lo[0]);
        self.slice(lo + i * size / n, lo + (i + 1) * size / n)
    }

    /// The area as a rectangle of `D` dimensions.
    pub fn rect<const D: usize>(self) -> Rect {
        if D == 1 { Rect::line(self.lo[0], self.hi[0]) } else { Rect::new(self.lo, self.hi) }
    }
}

impl std::fmt::Display for Area {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}, {})", self.lo[0], self.hi[0])?;
        if (self.lo[1], self.hi[1]) == (0, 1) { Ok(()) } else { write!(f, "x[{}, {})", self.lo[1], self.hi[1]) }
    }
}

/// The number of a point, which becomes part of its values.
pub fn place<const D: usize>(point: [i64; D]) -> i64 {
    point.iter().rev().fold(0, |at, &x| at * 101 + x)
}

/// A part of an area. In each dimension, `from` gives the first point modulo the extent, and `size` the number of
/// points modulo the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaPart {
    pub from: [u8; 2],
    pub size: [u8; 2],
}

impl AreaPart {
    pub fn of(self, all: Area) -> Area {
        let side = |d: usize| {
            let from = all.lo[d] + i64::from(self.from[d]) % (all.hi[d] - all.lo[d]);
            (from, from + 1 + i64::from(self.size[d]) % (all.hi[d] - from))
        };
        let ((a, b), (c, d)) = (side(0), side(1));
        Area { lo: [a, c], hi: [b, d] }
    }
}
