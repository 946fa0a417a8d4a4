//! Where the elements of a rectangle lie within an instance: arithmetic only.

use crate::Rect;

/// The elements of a rectangle within a row-major instance, in units of elements.
#[derive(Clone, Copy)]
pub(crate) struct Layout<const D: usize> {
    /// The rectangle's first point.
    lo: [i64; D],
    /// Its extents; all zero if it is empty.
    extent: [usize; D],
    /// The distance between neighbours in each dimension. The last one is 1.
    stride: [usize; D],
}

impl<const D: usize> Layout<D> {
    /// The layout of `rect` within an instance of `whole`, and the offset of its first element. `rect` must lie within
    /// `whole`, and both must have dimension `D`.
    #[inline]
    pub fn new(whole: &Rect, rect: &Rect) -> (usize, Self) {
        debug_assert!(whole.dim() == D && whole.contains_rect(rect));
        let mut layout = Layout { lo: [0; D], extent: [0; D], stride: [0; D] };
        let (mut first, mut stride) = (0, 1);
        let empty = rect.is_empty();
        for d in (0..D).rev() {
            layout.lo[d] = rect.lo(d);
            layout.stride[d] = stride;
            if !empty {
                layout.extent[d] = rect.extent(d);
                first += rect.lo(d).wrapping_sub(whole.lo(d)) as usize * stride;
                stride *= whole.extent(d);
            }
        }
        (first, layout)
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.extent.iter().product()
    }

    /// The number of rows: runs of neighbours along the last dimension.
    #[inline]
    pub fn rows(&self) -> usize {
        self.extent[..D - 1].iter().product()
    }

    /// The number of elements in a row.
    #[inline]
    pub fn row_len(&self) -> usize {
        self.extent[D - 1]
    }

    /// The offset of row `row`, which must be below `rows()`.
    #[inline]
    pub fn row_offset(&self, mut row: usize) -> usize {
        let mut offset = 0;
        for d in (0..D - 1).rev() {
            offset += row % self.extent[d] * self.stride[d];
            row /= self.extent[d];
        }
        offset
    }

    /// The offset of the row whose points begin with these coordinates, one for each dimension but the last; `None` outside.
    #[inline]
    pub fn row_at(&self, start: &[i64]) -> Option<usize> {
        debug_assert!(start.len() == D - 1);
        let mut point = self.lo;
        point[..D - 1].copy_from_slice(start);
        self.offset(point)
    }

    /// Makes the rectangle wider by so much on each side, and returns how many elements the first one moves.
    pub fn widen(&mut self, width: [usize; D]) -> usize {
        for (d, width) in width.into_iter().enumerate() {
            self.lo[d] -= width as i64;
            self.extent[d] += 2 * width;
        }
        width.iter().zip(&self.stride).map(|(width, stride)| width * stride).sum()
    }

    pub fn extents(&self) -> [usize; D] {
        self.extent
    }

    /// The distances between neighbours in each dimension.
    pub fn strides(&self) -> [usize; D] {
        self.stride
    }

    /// Whether the elements are contiguous.
    #[inline]
    pub fn contiguous(&self) -> bool {
        let mut run = 1;
        for d in (0..D).rev() {
            if self.extent[d] > 1 && self.stride[d] != run {
                return false;
            }
            run *= self.extent[d];
        }
        true
    }

    /// The offset of `point`; `None` outside the rectangle.
    #[inline]
    pub fn offset(&self, point: [i64; D]) -> Option<usize> {
        let mut offset = 0;
        for (d, coordinate) in point.into_iter().enumerate() {
            let at = coordinate.wrapping_sub(self.lo[d]) as u64 as usize;
            // A point below `lo` wraps around to a distance that no extent in memory reaches.
            if at >= self.extent[d] {
                return None;
            }
            offset += at * self.stride[d];
        }
        Some(offset)
    }

    /// The rectangle.
    pub fn rect(&self) -> Rect {
        Rect::new(self.lo, std::array::from_fn(|d| self.lo[d] + self.extent[d] as i64))
    }
}
