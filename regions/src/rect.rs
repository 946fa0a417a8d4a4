//! Dense index spaces in one to three dimensions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An index space: a dense half-open box in 1 to 3 dimensions, with `i64` coordinates. Its points are all `p` with
/// `lo(d) <= p[d] < hi(d)` in every dimension `d`.
///
/// Points are ordered row-major: the last dimension runs fastest. Rectangles of different dimensions never overlap or
/// contain each other. Two empty rectangles with different corners are not equal.
///
/// ```
/// use maniple_regions::Rect;
/// let tile = Rect::new([0, 0], [2, 3]);
/// assert_eq!(tile.volume(), 6);
/// assert!(tile.contains([1, 2]));
/// assert_eq!(tile.to_string(), "[0, 2) x [0, 3)");
/// ```
///
/// Dimensions outside 1 to 3 do not compile:
///
/// ```compile_fail,E0080
/// maniple_regions::Rect::new([0; 4], [1; 4]);
/// ```
// Unused dimensions are kept as [0, 1), so that volumes and offsets need no case distinction. All parts are 8 bytes
// wide: copying one that has just been written as a byte, by words, would stall for longer than a lease takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Corners", into = "Corners")]
pub struct Rect {
    dim: u64,
    lo: [i64; 3],
    hi: [i64; 3],
}

/// The serialised form of a rectangle: only the coordinates it has, checked again when they are read.
#[derive(Serialize, Deserialize)]
enum Corners {
    One([i64; 1], [i64; 1]),
    Two([i64; 2], [i64; 2]),
    Three([i64; 3], [i64; 3]),
}

impl From<Corners> for Rect {
    fn from(corners: Corners) -> Self {
        match corners {
            Corners::One(lo, hi) => Rect::new(lo, hi),
            Corners::Two(lo, hi) => Rect::new(lo, hi),
            Corners::Three(lo, hi) => Rect::new(lo, hi),
        }
    }
}

impl From<Rect> for Corners {
    fn from(rect: Rect) -> Self {
        let ([l0, l1, l2], [h0, h1, h2]) = (rect.lo, rect.hi);
        match rect.dim {
            1 => Corners::One([l0], [h0]),
            2 => Corners::Two([l0, l1], [h0, h1]),
            _ => Corners::Three([l0, l1, l2], [h0, h1, h2]),
        }
    }
}

impl Rect {
    /// The box from `lo` (inclusive) to `hi` (exclusive). If `hi[d] < lo[d]`, the box is empty at `lo[d]`.
    #[inline]
    pub const fn new<const D: usize>(lo: [i64; D], hi: [i64; D]) -> Self {
        const { assert!(D >= 1 && D <= 3, "rectangles have 1 to 3 dimensions") };
        let mut rect = Rect { dim: D as u64, lo: [0; 3], hi: [1; 3] };
        let mut d = 0;
        while d < D {
            rect.lo[d] = lo[d];
            rect.hi[d] = if hi[d] < lo[d] { lo[d] } else { hi[d] };
            d += 1;
        }
        rect
    }

    /// The one-dimensional rectangle `[lo, hi)`.
    #[inline]
    pub const fn line(lo: i64, hi: i64) -> Self {
        Rect::new([lo], [hi])
    }

    /// The number of dimensions, 1 to 3.
    #[inline]
    pub const fn dim(&self) -> usize {
        self.dim as usize
    }

    /// The first coordinate in dimension `d`. For `d` in `dim()..3` it is 0; past that it panics.
    #[inline]
    pub const fn lo(&self, d: usize) -> i64 {
        self.lo[d]
    }

    /// One past the last coordinate in dimension `d`. For `d` in `dim()..3` it is 1; past that it panics.
    #[inline]
    pub const fn hi(&self, d: usize) -> i64 {
        self.hi[d]
    }

    /// The number of coordinates in dimension `d`. For `d` in `dim()..3` it is 1; past that it panics.
    #[inline]
    pub const fn extent(&self, d: usize) -> usize {
        // hi >= lo, so the wrapped difference is the exact one, read as unsigned.
        self.hi[d].wrapping_sub(self.lo[d]) as u64 as usize
    }

    /// The number of points, or `usize::MAX` if there are more than that.
    #[inline]
    pub const fn volume(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.extent(0).saturating_mul(self.extent(1)).saturating_mul(self.extent(2))
    }

    /// The bytes of all points at `each` bytes a point, or `None` if they are more than `isize::MAX`.
    pub fn bytes(&self, each: usize) -> Option<usize> {
        self.volume().checked_mul(each).filter(|&bytes| bytes <= isize::MAX as usize)
    }

    /// Whether there are no points.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.lo[0] == self.hi[0] || self.lo[1] == self.hi[1] || self.lo[2] == self.hi[2]
    }

    /// Whether `point` is in the rectangle. A point of another dimension never is.
    pub const fn contains<const D: usize>(&self, point: [i64; D]) -> bool {
        if D != self.dim() {
            return false;
        }
        let mut d = 0;
        while d < D {
            if point[d] < self.lo[d] || point[d] >= self.hi[d] {
                return false;
            }
            d += 1;
        }
        true
    }

    /// Whether every point of `other` is in this rectangle. Any rectangle contains an empty one of its dimension.
    #[inline]
    pub fn contains_rect(&self, other: &Rect) -> bool {
        self.dim == other.dim
            && ((0..3).all(|d| self.lo[d] <= other.lo[d] && other.hi[d] <= self.hi[d]) || other.is_empty())
    }

    /// Whether some point is in both rectangles.
    #[inline]
    pub fn overlaps(&self, other: &Rect) -> bool {
        let meet = |d: usize| self.lo[d].max(other.lo[d]) < self.hi[d].min(other.hi[d]);
        // Spelled out: a loop over the dimensions is not always inlined.
        self.dim == other.dim && meet(0) && meet(1) && meet(2)
    }

    /// The points in both rectangles, as a rectangle of this one's dimension. Empty if the two do not overlap.
    #[inline]
    pub fn intersect(&self, other: &Rect) -> Rect {
        if self.dim != other.dim {
            return Rect { hi: self.lo_corner_of_empty(), ..*self };
        }
        let mut both = *self;
        for d in 0..self.dim() {
            both.lo[d] = self.lo[d].max(other.lo[d]);
            both.hi[d] = self.hi[d].min(other.hi[d]).max(both.lo[d]);
        }
        both
    }

    fn lo_corner_of_empty(&self) -> [i64; 3] {
        let mut hi = [1; 3];
        hi[..self.dim()].copy_from_slice(&self.lo[..self.dim()]);
        hi
    }

    /// This rectangle with so many more points on each side of each dimension; an empty one is grown like others. `None`
    /// if there are no such coordinates, or if `D` is not [`Rect::dim`].
    ///
    /// ```
    /// use maniple_regions::Rect;
    /// assert_eq!(Rect::new([0, 0], [2, 3]).grow([1, 0]), Some(Rect::new([-1, 0], [3, 3])));
    /// ```
    pub fn grow<const D: usize>(&self, width: [usize; D]) -> Option<Rect> {
        if D == self.dim() { self.wider(|d| width[d]) } else { None }
    }

    /// This rectangle with so many more points on each side of each dimension that it has.
    pub(crate) fn padded(&self, cells: usize) -> Option<Rect> {
        self.wider(|_| cells)
    }

    fn wider(&self, width: impl Fn(usize) -> usize) -> Option<Rect> {
        self.moved(|d| {
            let width = i64::try_from(width(d)).ok()?;
            Some((self.lo[d].checked_sub(width)?, self.hi[d].checked_add(width)?))
        })
    }

    /// This rectangle, moved by so much in each dimension. `None` if there are no such coordinates, or if `D` is not
    /// [`Rect::dim`].
    pub fn shift<const D: usize>(&self, by: [i64; D]) -> Option<Rect> {
        if D != self.dim() {
            return None;
        }
        self.moved(|d| Some((self.lo[d].checked_add(by[d])?, self.hi[d].checked_add(by[d])?)))
    }

    /// The rectangle with these ranges in its dimensions.
    fn moved(&self, range: impl Fn(usize) -> Option<(i64, i64)>) -> Option<Rect> {
        let mut moved = *self;
        for d in 0..self.dim() {
            (moved.lo[d], moved.hi[d]) = range(d)?;
        }
        Some(moved)
    }

    /// The points of this rectangle that are not in `other`, as at most `2 * dim()` disjoint, non-empty rectangles.
    pub fn subtract(&self, other: &Rect) -> Vec<Rect> {
        if self.is_empty() {
            return Vec::new();
        }
        if !self.overlaps(other) {
            return vec![*self];
        }
        let hole = self.intersect(other);
        let mut rest = *self;
        let mut pieces = Vec::new();
        // Cut the slabs before and after the hole off one dimension after the other; what remains at the end is the hole.
        for d in 0..self.dim() {
            if rest.lo[d] < hole.lo[d] {
                let mut slab = rest;
                slab.hi[d] = hole.lo[d];
                pieces.push(slab);
            }
            if hole.hi[d] < rest.hi[d] {
                let mut slab = rest;
                slab.lo[d] = hole.hi[d];
                pieces.push(slab);
            }
            (rest.lo[d], rest.hi[d]) = (hole.lo[d], hole.hi[d]);
        }
        pieces
    }

    /// The points in row-major order, the last dimension fastest. If `D` is not [`Rect::dim`], there are none.
    ///
    /// ```
    /// use maniple_regions::Rect;
    /// let points: Vec<_> = Rect::new([0, 5], [2, 7]).points().collect();
    /// assert_eq!(points, [[0, 5], [0, 6], [1, 5], [1, 6]]);
    /// for [i] in Rect::line(3, 6).points() {
    ///     assert!((3..6).contains(&i));
    /// }
    /// ```
    pub fn points<const D: usize>(&self) -> Points<D> {
        let left = if D == self.dim() { self.volume() } else { 0 };
        let mut points = Points { lo: [0; D], hi: [0; D], next: [0; D], left };
        if left > 0 {
            points.lo.copy_from_slice(&self.lo[..D]);
            points.hi.copy_from_slice(&self.hi[..D]);
            points.next = points.lo;
        }
        points
    }

    /// The runs of neighbouring points that make up `of` among the points of this rectangle, which contains it, in row-major order:
    /// pairs of the position of the first point and the number of points. They are as few and as long as possible.
    ///
    /// # Panics
    /// If `of` reaches beyond this rectangle.
    #[track_caller]
    pub fn runs(&self, of: &Rect) -> impl ExactSizeIterator<Item = (usize, usize)> + use<> {
        assert!(self.contains_rect(of), "{of} lies outside {self}");
        let (part, full) = ([0, 1, 2].map(|d| of.extent(d)), [0, 1, 2].map(|d| self.extent(d)));
        // Trailing dimensions that are covered fully belong to one run with the dimension before them.
        let last = (0..3).rev().find(|&d| d == 0 || part[d] != full[d]).unwrap_or(0);
        let len: usize = part[last..].iter().product();
        let count = if of.is_empty() { 0 } else { part[..last].iter().product() };
        let lo = [0, 1, 2].map(|d| of.lo(d).wrapping_sub(self.lo(d)) as usize);
        let (first, stride) = if count == 0 {
            (0, [0; 3])
        } else {
            let stride = [full[1] * full[2], full[2], 1];
            ((0..3).map(|d| lo[d] * stride[d]).sum(), stride)
        };
        (0..count).map(move |run| {
            let at = match last {
                2 => run / part[1] * stride[0] + run % part[1] * stride[1],
                _ => run * stride[0],
            };
            (first + at, len)
        })
    }

    /// The row-major position of `point` among the points of this rectangle, from 0. `None` if the point is outside, or
    /// if more than `usize::MAX` points come before it.
    pub fn position<const D: usize>(&self, point: [i64; D]) -> Option<usize> {
        let next =
            |at: usize, d| at.checked_mul(self.extent(d))?.checked_add(point[d].wrapping_sub(self.lo[d]) as usize);
        self.contains(point).then(|| (0..D).try_fold(0, next)).flatten()
    }

    /// `self == other`, by as few comparisons as there are dimensions.
    #[inline]
    pub(crate) fn same_box(&self, other: &Rect) -> bool {
        self.dim == other.dim && (0..self.dim().min(3)).all(|d| self.lo[d] == other.lo[d] && self.hi[d] == other.hi[d])
    }

    /// The same box with dimension `d` replaced by `[lo, hi)`.
    pub(crate) fn with_range(mut self, d: usize, lo: i64, hi: i64) -> Rect {
        debug_assert!(d < self.dim());
        self.lo[d] = lo;
        self.hi[d] = hi.max(lo);
        self
    }
}

impl fmt::Display for Rect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for d in 0..self.dim() {
            let times = if d == 0 { "" } else { " x " };
            write!(f, "{times}[{}, {})", self.lo[d], self.hi[d])?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The points of a rectangle in row-major order; see [`Rect::points`].
#[derive(Clone, Debug)]
pub struct Points<const D: usize> {
    lo: [i64; D],
    hi: [i64; D],
    next: [i64; D],
    left: usize,
}

impl<const D: usize> Iterator for Points<D> {
    type Item = [i64; D];

    fn next(&mut self) -> Option<[i64; D]> {
        if self.left == 0 {
            return None;
        }
        let point = self.next;
        self.left -= 1;
        for d in (0..D).rev() {
            self.next[d] += 1;
            if self.next[d] < self.hi[d] {
                break;
            }
            self.next[d] = self.lo[d];
        }
        Some(point)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<const D: usize> ExactSizeIterator for Points<D> {}
