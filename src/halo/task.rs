//! What leaf tasks see of a halo.

use maniple_regions::{Element, Rect, RegionError};
use maniple_runtime::{Bindings, Declaring, Error, Get, Many, Param, Put, Taking};
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

/// A block and the pieces of its halo, or of itself that others need, in the order of the edges.
pub struct Shape {
    pub(super) block: Rect,
    pub(super) around: Rect,
    pub(super) pieces: Vec<Rect>,
}

/// A parameter of a leaf task: the ghost cells of a block. Its argument is made with [`HaloEnds::ghosts`].
pub struct Ghosts<'a, T, const D: usize = 1> {
    gets: Many<Get<'a, T>>,
    shape: Arc<Shape>,
}

/// A parameter of a leaf task: what the neighbours need of a block, to be filled. Its argument is made with
/// [`HaloEnds::borders`].
pub struct Borders<'a, T, const D: usize = 1> {
    puts: Many<Put<'a, T>>,
    shape: Arc<Shape>,
}

impl<T, const D: usize> fmt::Debug for Ghosts<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ghosts({})", self.shape.block)
    }
}
impl<T, const D: usize> fmt::Debug for Borders<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Borders({})", self.shape.block)
    }
}

impl<T: Element, const D: usize> Ghosts<'_, T, D> {
    /// The pieces of the halo, in row-major order of where they lie: each a rectangle round the block, in the block's
    /// coordinates, and its values in row-major order. A neighbour has one piece, or several where a dimension is periodic.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = (Rect, &[T])> {
        self.shape.pieces.iter().copied().zip(self.gets.iter().map(|get| &**get))
    }

    /// The values of a piece, by its number.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub fn piece(&self, number: usize) -> &[T] {
        &self.gets[number]
    }

    /// A copy of the block with its ghost cells around it. `rows` are the block's; a cell that no block has, beyond an end of
    /// the grid or in a corner that is not sent, is `outside`.
    ///
    /// # Panics
    /// When `rows` are not those of the block.
    pub fn around<'r>(&self, rows: impl Iterator<Item = &'r [T]>, outside: T) -> Around<T, D>
    where
        T: 'r,
    {
        let Shape { block, around, .. } = &*self.shape;
        let mut around = Around { rect: *around, values: vec![outside; around.volume()] };
        let mut put = 0;
        for (row, values) in rows_of::<D>(block).zip(rows) {
            around.row_mut(row, values.len()).copy_from_slice(values);
            put += values.len();
        }
        assert_eq!(put, block.volume(), "the rows of the block {block} are needed");
        for (piece, values) in self.pieces() {
            let length = piece.extent(D - 1);
            for (row, values) in rows_of::<D>(&piece).zip(values.chunks_exact(length)) {
                around.row_mut(row, length).copy_from_slice(values);
            }
        }
        around
    }
}

impl<T: Element, const D: usize> Borders<'_, T, D> {
    /// Fills all that the neighbours need, from the rows of the block.
    ///
    /// # Panics
    /// When `rows` are not those of the block.
    pub fn send<'r>(&mut self, rows: impl Iterator<Item = &'r [T]>)
    where
        T: 'r,
    {
        let Shape { block, pieces, .. } = &*self.shape;
        let mut seen = 0;
        for (at, values) in rows_of::<D>(block).zip(rows) {
            seen += values.len();
            for (piece, put) in pieces.iter().zip(self.puts.iter_mut()) {
                let Some(row) = row_within(piece, &at) else { continue };
                let (from, length) = ((piece.lo(D - 1) - block.lo(D - 1)) as usize, piece.extent(D - 1));
                put[row * length..][..length].copy_from_slice(&values[from..][..length]);
            }
        }
        assert_eq!(seen, block.volume(), "the rows of the block {block} are needed");
    }
}

/// A copy of a block and its ghost cells: `around[[i, j]]`, in the coordinates of the grid.
#[derive(Debug, Clone)]
pub struct Around<T, const D: usize = 1> {
    rect: Rect,
    values: Vec<T>,
}

impl<T, const D: usize> Around<T, D> {
    /// The rectangle that it covers.
    pub fn rect(&self) -> Rect {
        self.rect
    }

    fn row_mut(&mut self, first: [i64; D], length: usize) -> &mut [T] {
        let at = self.rect.position(first).unwrap_or(usize::MAX);
        &mut self.values[at..][..length]
    }
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

/// The argument for [`Ghosts`].
pub struct GhostsFrom<T: Element> {
    pub(super) gets: Gets<T>,
    pub(super) shape: Arc<Shape>,
}

/// The argument for [`Borders`].
pub struct BordersTo<T: Element> {
    pub(super) puts: Puts<T>,
    pub(super) shape: Arc<Shape>,
}

type Gets<T> = <Many<Get<'static, T>> as Param>::Arg;
type Puts<T> = <Many<Put<'static, T>> as Param>::Arg;

macro_rules! param {
    ($parameter:ident, $argument:ident, $accessor:ident, $edges:ident) => {
        impl<T: Element> fmt::Debug for $argument<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($argument), "({})"), self.shape.block)
            }
        }

        impl<T: Element, const D: usize> Param for $parameter<'_, T, D> {
            type Item<'a> = $parameter<'a, T, D>;
            type Arg = $argument<T>;
            type Kept = (<Many<$accessor<'static, T>> as Param>::Kept, Arc<Shape>);
            type Sent = (<Many<$accessor<'static, T>> as Param>::Sent, Arc<Shape>);
            fn declare(arg: &Self::Arg, declaring: &mut Declaring<'_>) -> Result<(), Error> {
                Many::<$accessor<'static, T>>::declare(&arg.$edges, declaring)
            }
            fn take(arg: &Self::Arg, taking: &mut Taking<'_>) {
                Many::<$accessor<'static, T>>::take(&arg.$edges, taking);
            }
            fn keep(arg: Self::Arg) -> Self::Kept {
                (Many::<$accessor<'static, T>>::keep(arg.$edges), arg.shape)
            }
            fn resolve((kept, shape): Self::Kept) -> Result<Self::Sent, Error> {
                Ok((Many::<$accessor<'static, T>>::resolve(kept)?, shape))
            }
            fn bind<'a>(bindings: &mut Bindings<'a>, (sent, shape): Self::Sent) -> Result<Self::Item<'a>, RegionError> {
                Ok($parameter { $edges: Many::<$accessor<'static, T>>::bind(bindings, sent)?, shape })
            }
        }
    };
}

param!(Ghosts, GhostsFrom, Get, gets);
param!(Borders, BordersTo, Put, puts);

/// The first point of each row of a rectangle.
fn rows_of<const D: usize>(rect: &Rect) -> impl Iterator<Item = [i64; D]> {
    let (lo, mut hi): ([i64; D], [i64; D]) = (std::array::from_fn(|d| rect.lo(d)), std::array::from_fn(|d| rect.hi(d)));
    if !rect.is_empty() {
        hi[D - 1] = lo[D - 1] + 1;
    }
    Rect::new(lo, hi).points::<D>()
}

/// Number of the row of a rectangle that a row of another one, which contains it, has.
fn row_within<const D: usize>(rect: &Rect, row: &[i64; D]) -> Option<usize> {
    (0..D - 1).try_fold(0, |number, d| {
        let within = (rect.lo(d)..rect.hi(d)).contains(&row[d]);
        within.then(|| number * rect.extent(d) + (row[d] - rect.lo(d)) as usize)
    })
}
