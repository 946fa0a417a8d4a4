//! The parameters of leaf tasks that belong to a halo.

use maniple_regions::{Element, ReadWrite, Rect, RegionError};
use maniple_runtime::{AllEnds, Bindings, Error, Param, Payload, Taking};
use std::fmt;
use std::ops::Index;
use std::rc::Rc;
use std::sync::Arc;

/// A block, and the pieces of its halo or of its border, in the order of the edges.
pub struct Shape {
    pub(super) block: Rect,
    pub(super) around: Rect,
    pub(super) pieces: Vec<Rect>,
}

/// A shard's ends of the edges of a halo.
pub struct Ends<T> {
    pub(super) edges: AllEnds<T>,
    pub(super) ghosts: Arc<Shape>,
    pub(super) borders: Arc<Shape>,
}

/// The source of a task's shape: its shard or, on another processor, the shape that was sent with the task.
enum Known<T> {
    Ghosts(Rc<Ends<T>>),
    Borders(Rc<Ends<T>>),
    Sent(Arc<Shape>),
}

impl<T> Known<T> {
    fn shape(&self) -> &Shape {
        match self {
            Known::Ghosts(ends) => &ends.ghosts,
            Known::Borders(ends) => &ends.borders,
            Known::Sent(shape) => shape,
        }
    }
}

/// A parameter of a leaf task: the ghost cells of a block. [`HaloEnds::ghosts`](super::HaloEnds::ghosts) makes its
/// argument.
pub struct Ghosts<'a, T, const D: usize = 1> {
    values: &'a [Payload],
    known: Known<T>,
}

/// A parameter of a leaf task: the cells of a block that its neighbours need. The task has to fill all of them, with
/// [`send`](Self::send). [`HaloEnds::borders`](super::HaloEnds::borders) makes its argument.
pub struct Borders<'a, T, const D: usize = 1> {
    values: &'a mut [Payload],
    known: Known<T>,
}

impl<T, const D: usize> fmt::Debug for Ghosts<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ghosts({})", self.known.shape().block)
    }
}
impl<T, const D: usize> fmt::Debug for Borders<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Borders({})", self.known.shape().block)
    }
}

impl<T: Element, const D: usize> Ghosts<'_, T, D> {
    /// The pieces of the halo, in row-major order of their places around the block. Each is a rectangle in the
    /// coordinates of the block, and its values in row-major order. A neighbour sends one piece, or several if a
    /// dimension is periodic.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = (Rect, &[T])> {
        self.known
            .shape()
            .pieces
            .iter()
            .copied()
            .zip(self.values.iter().map(|value| bytemuck::cast_slice(value.bytes())))
    }

    /// The values of a piece, in row-major order. `number` is its position in [`pieces`](Self::pieces).
    ///
    /// # Panics
    /// If there is no such piece.
    #[inline]
    pub fn piece(&self, number: usize) -> &[T] {
        bytemuck::cast_slice(self.values[number].bytes())
    }

    /// A copy of the block with its ghost cells around it. `rows` are the rows of the block. Cells beyond an end of the
    /// grid, and in corners that are not sent, get the value `outside`.
    ///
    /// # Panics
    /// If `rows` are fewer or more than the rows of the block, or if one has another length.
    pub fn around<'r>(&self, rows: impl Iterator<Item = &'r [T]>, outside: T) -> Around<T, D>
    where
        T: 'r,
    {
        let Shape { block, around, .. } = self.known.shape();
        let mut around = Around { rect: *around, values: vec![outside; around.volume()] };
        each_row::<T, D>(block, rows, |row, values| around.row_mut(row, values.len()).copy_from_slice(values));
        self.each_ghost_row(|row, values| around.row_mut(row, values.len()).copy_from_slice(values));
        around
    }

    /// Calls a function with the first point and the values of each row of each piece.
    fn each_ghost_row(&self, mut call: impl FnMut([i64; D], &[T])) {
        for (piece, values) in self.pieces() {
            rows_of(&piece).zip(values.chunks_exact(piece.extent(D - 1))).for_each(|(row, values)| call(row, values));
        }
    }

    /// Puts the ghost cells into the room around the block: one array in the coordinates of the grid, without a copy of the block.
    /// Cells beyond an end of the grid, and in corners that are not sent, get the value `outside`.
    ///
    /// The field of the tree needs as much [padding](maniple_regions::FieldInfo::with_padding) as the halo is wide:
    /// `&[U.info().with_padding(1)]`.
    ///
    /// # Panics
    /// If the field has less padding, or if `u` is not the block of the shard.
    #[track_caller]
    pub fn fill<'u>(&self, u: &'u mut ReadWrite<'_, T, D>, outside: T) -> ReadWrite<'u, T, D> {
        let Shape { block, around, .. } = self.known.shape();
        check_block(block, u.rect());
        let width = std::array::from_fn(|d| block.lo(d).abs_diff(around.lo(d)) as usize);
        let Some(mut padded) = u.padded(width) else {
            panic!(
                "a halo of width {width:?} needs a field with as much padding, from `info().with_padding({})`",
                width.iter().max().unwrap_or(&0)
            )
        };
        if block.is_empty() {
            return padded;
        }
        for side in around.subtract(block) {
            rows_of(&side).for_each(|at| part_of_row(&mut padded, at, side.extent(D - 1)).fill(outside));
        }
        self.each_ghost_row(|at, values| part_of_row(&mut padded, at, values.len()).copy_from_slice(values));
        padded
    }
}

/// So many values of a row, from this point on.
fn part_of_row<'u, T: Element, const D: usize>(
    u: &'u mut ReadWrite<'_, T, D>,
    first: [i64; D],
    length: usize,
) -> &'u mut [T] {
    let rect = u.rect();
    let row = row_within(&rect, &first).and_then(|row| u.row_mut(row)).expect("a row of the accessor");
    &mut row[first[D - 1].abs_diff(rect.lo(D - 1)) as usize..][..length]
}

/// Panics unless `rect` is the block. Two rectangles without cells count as the same.
#[track_caller]
fn check_block(block: &Rect, rect: Rect) {
    let same = rect == *block || (rect.is_empty() && block.is_empty());
    assert!(same, "the halo is round the block {block}, the region is {rect}: use the shard's own block");
}

impl<T: Element, const D: usize> Borders<'_, T, D> {
    /// Panics unless `rect` is the block. Two rectangles without cells count as the same.
    pub(super) fn check_block(&self, rect: Rect) {
        check_block(&self.known.shape().block, rect);
    }

    /// Fills all cells that the neighbours need, from the rows of the block.
    ///
    /// # Panics
    /// If `rows` are fewer or more than the rows of the block, or if one has another length.
    pub fn send<'r>(&mut self, rows: impl Iterator<Item = &'r [T]>)
    where
        T: 'r,
    {
        let Shape { block, pieces, .. } = self.known.shape();
        each_row::<T, D>(block, rows, |at, values| {
            for (piece, value) in pieces.iter().zip(self.values.iter_mut()) {
                let Some(row) = row_within(piece, &at) else { continue };
                let (from, length) = ((piece.lo(D - 1) - block.lo(D - 1)) as usize, piece.extent(D - 1));
                let put: &mut [T] = bytemuck::cast_slice_mut(value.bytes_mut());
                put[row * length..][..length].copy_from_slice(&values[from..][..length]);
            }
        });
    }
}

/// A copy of a block and its ghost cells. Index it with points in the coordinates of the grid, such as
/// `around[[i, j]]`. A point outside the rectangle panics.
#[derive(Debug, Clone)]
pub struct Around<T, const D: usize = 1> {
    rect: Rect,
    values: Vec<T>,
}

impl<T, const D: usize> Around<T, D> {
    /// The rectangle of the block and its halo.
    pub fn rect(&self) -> Rect {
        self.rect
    }

    /// All values in row-major order: those of the points of [`rect`](Self::rect).
    pub fn as_slice(&self) -> &[T] {
        &self.values
    }

    /// The rows, from first to last. A row runs along the last dimension.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, T> {
        self.values.chunks_exact(self.rect.extent(D - 1).max(1))
    }

    fn row_mut(&mut self, first: [i64; D], length: usize) -> &mut [T] {
        let at = self.rect.position(first).unwrap_or(usize::MAX);
        &mut self.values[at..][..length]
    }
}

#[cfg(feature = "ndarray")]
macro_rules! views {
    ($($dimensions:literal: $index:ty;)*) => {$(
        impl<T> Around<T, $dimensions> {
            /// The values as a view of the crate `ndarray`, in place: index 0 is the first point of [`rect`](Self::rect). If there
            /// are no values, all extents are 0. Needs the feature `ndarray`.
            pub fn view(&self) -> ndarray::ArrayView<'_, T, $index> {
                let extents = match self.values.is_empty() {
                    true => [0; $dimensions],
                    false => std::array::from_fn(|d| self.rect.extent(d)),
                };
                ndarray::ArrayView::from_shape(extents, &self.values).expect("as many values as points")
            }
        }
    )*};
}

#[cfg(feature = "ndarray")]
views! {
    1: ndarray::Ix1;
    2: ndarray::Ix2;
    3: ndarray::Ix3;
}

impl<T, const D: usize> Index<[i64; D]> for Around<T, D> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, point: [i64; D]) -> &T {
        match self.rect.position(point) {
            Some(at) => &self.values[at],
            None => panic!("point {point:?} lies outside the block and its halo, {}", self.rect),
        }
    }
}

/// The argument for a [`Ghosts`] parameter.
pub struct GhostsFrom<T>(pub(super) Rc<Ends<T>>);

/// The argument for a [`Borders`] parameter.
pub struct BordersTo<T>(pub(super) Rc<Ends<T>>);

impl<T> fmt::Debug for GhostsFrom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GhostsFrom({})", self.0.ghosts.block)
    }
}
impl<T> fmt::Debug for BordersTo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BordersTo({})", self.0.borders.block)
    }
}

impl<T: Element, const D: usize> Param for Ghosts<'_, T, D> {
    type Item<'a> = Ghosts<'a, T, D>;
    type Arg = GhostsFrom<T>;
    type Kept = Rc<Ends<T>>;
    type Sent = Arc<Shape>;
    fn take(arg: Self::Arg, taking: &mut Taking<'_>) -> Self::Kept {
        arg.0.edges.take_incoming(taking);
        arg.0
    }
    fn resolve(kept: Self::Kept) -> Result<Self::Sent, Error> {
        Ok(kept.ghosts.clone())
    }
    fn bind<'a>(bindings: &mut Bindings<'a>, shape: Self::Sent) -> Result<Self::Item<'a>, RegionError> {
        Ok(Ghosts { values: bindings.values(shape.pieces.len()), known: Known::Sent(shape) })
    }
    #[inline]
    fn bind_here<'a>(bindings: &mut Bindings<'a>, ends: Self::Kept) -> Result<Self::Item<'a>, Box<Error>> {
        Ok(Ghosts { values: bindings.values(ends.ghosts.pieces.len()), known: Known::Ghosts(ends) })
    }
}

impl<T: Element, const D: usize> Param for Borders<'_, T, D> {
    type Item<'a> = Borders<'a, T, D>;
    type Arg = BordersTo<T>;
    type Kept = Rc<Ends<T>>;
    type Sent = Arc<Shape>;
    fn take(arg: Self::Arg, taking: &mut Taking<'_>) -> Self::Kept {
        arg.0.edges.take_outgoing(arg.0.borders.pieces.iter().map(Rect::volume), taking);
        arg.0
    }
    fn resolve(kept: Self::Kept) -> Result<Self::Sent, Error> {
        Ok(kept.borders.clone())
    }
    fn bind<'a>(bindings: &mut Bindings<'a>, shape: Self::Sent) -> Result<Self::Item<'a>, RegionError> {
        Ok(Borders { values: bindings.values(shape.pieces.len()), known: Known::Sent(shape) })
    }
    #[inline]
    fn bind_here<'a>(bindings: &mut Bindings<'a>, ends: Self::Kept) -> Result<Self::Item<'a>, Box<Error>> {
        Ok(Borders { values: bindings.values(ends.borders.pieces.len()), known: Known::Borders(ends) })
    }
}

/// The first point of each row of a rectangle.
fn rows_of<const D: usize>(rect: &Rect) -> impl Iterator<Item = [i64; D]> {
    let (lo, mut hi): ([i64; D], [i64; D]) = (std::array::from_fn(|d| rect.lo(d)), std::array::from_fn(|d| rect.hi(d)));
    if !rect.is_empty() {
        hi[D - 1] = lo[D - 1] + 1;
    }
    Rect::new(lo, hi).points::<D>()
}

/// Calls a function with the first point and the values of each row of a block. Panics if there are fewer rows or more,
/// or if one has another length.
fn each_row<'r, T: 'r, const D: usize>(
    block: &Rect,
    mut rows: impl Iterator<Item = &'r [T]>,
    mut call: impl FnMut([i64; D], &'r [T]),
) {
    let length = block.extent(D - 1);
    for at in rows_of(block) {
        let values = rows.next().unwrap_or_default();
        assert_eq!(values.len(), length, "the rows of the block {block} are needed, each with {length} values");
        call(at, values);
    }
    // The accessor of a block without cells may have rows without values.
    let surplus = rows.next().is_some_and(|values| !block.is_empty() || !values.is_empty());
    assert!(!surplus, "there are more rows than the block {block} has");
}

/// The number of a row within a rectangle. The row is one of a larger rectangle, so it may be outside.
fn row_within<const D: usize>(rect: &Rect, row: &[i64; D]) -> Option<usize> {
    (0..D - 1).try_fold(0, |number, d| {
        let within = (rect.lo(d)..rect.hi(d)).contains(&row[d]);
        within.then(|| number * rect.extent(d) + (row[d] - rect.lo(d)) as usize)
    })
}
