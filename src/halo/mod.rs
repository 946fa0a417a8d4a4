//! Halos: the ghost cells around each block of a grid, which tasks of its neighbours send.
//!
//! [`Halos::new`] takes a partition of a region into a grid of blocks, one for each shard of a gang. The grid has 1, 2
//! or 3 dimensions. Each shard gets its part as an argument ([`Halos::of`]) and calls [`Halo::join`].
//!
//! From then on a step is two launches. [`HaloEnds::send`] sends the border of the block to the neighbours. A task with
//! a [`Ghosts`] parameter uses the cells that came from them. The launches wait for each other by themselves. A shard
//! may be its own neighbour.
//!
//! ```
//! use maniple::halo::{Ghosts, Halo, HaloOptions, Halos};
//! use maniple::prelude::*;
//!
//! const U: Field<i64> = Field::new(0, "u");
//!
//! /// Each cell becomes the sum of its neighbours; beyond the ends of the line it is 100.
//! fn step(mut u: ReadWrite<i64>, ghosts: Ghosts<i64>) {
//!     let old = ghosts.around(u.rows(), 100);
//!     u.fill_with(|[i]| old[[i - 1]] + old[[i + 1]]);
//! }
//!
//! async fn shard(shard: Shard, (block, halo): (Region, Halo<i64>)) -> Result<Vec<i64>, Error> {
//!     let (u, halo) = (shard.region(block)?, halo.join(&shard)?);
//!     shard.launch(|mut u: Write<i64>| u.fill_with(|[i]| i), (u.write(U),)).go()?.detach();
//!     halo.send(u.read(U))?;
//!     shard.launch(step, (u.read_write(U), halo.ghosts())).go()?.detach();
//!     shard.launch(|u: Read<i64>| u.as_slice().to_vec(), (u.read(U),)).go()?.await
//! }
//!
//! let (cells, _) = Runtime::threads(2).run(|top| async move {
//!     let line = top.region_tree("line", Rect::line(0, 6), &[U.info()])?;
//!     let blocks = Partition::equal(line, 2)?;
//!     let gang = top.gang("blocks", 2)?;
//!     let halos = Halos::new(&top, "halo", &gang, &blocks, HaloOptions::new(1))?;
//!     let task = top.register("step", shard);
//!     let regions: Vec<Region> = blocks.iter().collect();
//!     let start = |s: u32| ShardLaunch::new((regions[s as usize], halos.of(s))).writes(regions[s as usize], [U]);
//!     top.launch_gang(&gang, &task, start)?.all().await
//! })?;
//! assert_eq!(cells, [[101, 2, 4], [6, 8, 104]]);
//! # Ok::<(), Error>(())
//! ```

mod grid;
mod task;

pub use task::{Around, Borders, Ghosts};

use grid::{cuts, pieces, places};
use maniple_regions::{Element, Partition, Read, Rect, Region};
use maniple_runtime::{Destroy, Doomed, Edge, Edges, Error, Gang, GetFrom, Requirement, Shard, Top};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use task::{BordersTo, Ends, GhostsFrom, Shape};

/// The most pieces of all halos of a grid together, with the blocks themselves and all corners. The second is for grids
/// of many blocks: this many pieces a block. It allows a halo with corners in three dimensions over two blocks each way.
const MOST_PLACES: u128 = 1 << 20;
const MOST_PLACES_EACH: u128 = 128;

/// The shape of a halo: its width in each dimension, the periodic dimensions, and whether it has corners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HaloOptions<const D: usize> {
    width: [usize; D],
    periodic: [bool; D],
    corners: bool,
}

impl<const D: usize> HaloOptions<D> {
    /// A halo of `width` cells on each side of a block, without corners. No dimension is periodic.
    pub fn new(width: usize) -> Self {
        Self { width: [width; D], periodic: [false; D], corners: false }
    }

    /// Sets the width of each dimension, in cells.
    pub fn widths(self, width: [usize; D]) -> Self {
        Self { width, ..self }
    }

    /// Sets the periodic dimensions: in these the last block of the grid is a neighbour of the first.
    pub fn periodic(self, periodic: [bool; D]) -> Self {
        Self { periodic, ..self }
    }

    /// Adds the corners: the cells that are beyond a block in several dimensions at once.
    pub fn corners(self) -> Self {
        Self { corners: true, ..self }
    }
}

/// The halos of all blocks of a grid of `D` dimensions, 1 by default, with values of type `T`.
pub struct Halos<T, const D: usize = 1> {
    edges: Edges<T>,
    /// Of each block.
    shapes: Vec<Shapes>,
}

/// A block, the block with its halo, its ghost cells by incoming edge, and the cells that it sends by outgoing edge.
#[derive(Clone, Serialize, Deserialize)]
struct Shapes {
    block: Region,
    around: Rect,
    ghosts: Vec<Rect>,
    borders: Vec<Rect>,
}

/// One shard's part of [`Halos`]. It is plain data, for the argument of the shard task.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Halo<T, const D: usize = 1> {
    edges: Edges<T>,
    shapes: Shapes,
}

impl<T, const D: usize> Clone for Halo<T, D> {
    fn clone(&self) -> Self {
        Self { edges: self.edges, shapes: self.shapes.clone() }
    }
}

impl<T, const D: usize> fmt::Debug for Halos<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Halos of {} blocks", self.shapes.len())
    }
}
impl<T, const D: usize> fmt::Debug for Halo<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Halo of {}", self.shapes.block)
    }
}

impl<T, const D: usize> Destroy for Halos<T, D> {
    fn name(&self, doomed: &mut Doomed) {
        self.edges.name(doomed);
    }
}

impl<T: Element, const D: usize> Halos<T, D> {
    /// Makes the halos of a partition's blocks; block s belongs to shard s. Collective; never waits.
    ///
    /// The partition must be a complete grid of `D` dimensions in row-major order. [`Partition::grid`],
    /// [`Partition::equal`] and [`Partition::blocks`] make such grids. A block without cells has no ghost cells and sends
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Misuse`] for another partition, or for another number of blocks than the gang has shards. Also for a
    /// halo that is too wide: if a block with its halo has more than `isize::MAX` bytes, or all blocks together have
    /// more than 2<sup>20</sup> pieces and more than 128 a block.
    pub fn new(top: &Top, name: &str, gang: &Gang, blocks: &Partition, options: HaloOptions<D>) -> Result<Self, Error> {
        let what = || format!("halos `{name}`");
        if blocks.colors() != gang.shards() as usize {
            let expected = format!("{} blocks, one for each shard", gang.shards());
            return Err(Error::misuse(what(), expected, blocks.colors()));
        }
        let rects: Vec<Rect> = blocks.iter().map(|block| block.rect).collect();
        let dimensions = rects.first().map_or(0, Rect::dim);
        let cuts = if dimensions == D { cuts::<D>(&blocks.parent().rect, &rects) } else { None };
        let cuts = cuts.ok_or_else(|| {
            let expected = format!("a complete grid of blocks in {D} dimension(s), in row-major order");
            let came = format!("another partition of {}, in {dimensions} dimension(s)", blocks.parent());
            Error::misuse(what(), expected, came)
        })?;
        let shape = |block: Region| {
            let around = block.rect.grow(options.width).filter(|rect| rect.bytes(size_of::<T>().max(1)).is_some());
            let around = around.ok_or_else(|| {
                let expected = format!("a halo with which a block has at most {} bytes", isize::MAX);
                Error::misuse(what(), expected, format!("width {:?} round block {}", options.width, block.rect))
            })?;
            Ok(Shapes { block, around, ghosts: Vec::new(), borders: Vec::new() })
        };
        let mut shapes = blocks.iter().map(shape).collect::<Result<Vec<Shapes>, Error>>()?;
        let (places, most) = (places(&cuts, &options), MOST_PLACES.max(MOST_PLACES_EACH * rects.len() as u128));
        if places > most {
            let expected = format!("at most {most} pieces, with the blocks themselves and all corners");
            return Err(Error::misuse(what(), expected, format!("{places}, by width {:?}", options.width)));
        }
        let mut edges = Vec::new();
        for to in 0..rects.len() {
            for (tag, (from, here, there)) in (0u32..).zip(pieces(&cuts, to, &options)) {
                edges.push(Edge { from, to: to as u32, tag });
                shapes[to].ghosts.push(here);
                shapes[from as usize].borders.push(there);
            }
        }
        // A task that uses ghost cells may fill the next ones for its neighbours: both are there at once.
        Ok(Self { edges: top.edges(name, gang, edges, 2)?, shapes })
    }

    /// The part of one shard, for the argument of its task. Never waits.
    ///
    /// # Panics
    /// If the gang has no such shard.
    pub fn of(&self, shard: u32) -> Halo<T, D> {
        Halo { edges: self.edges, shapes: self.shapes[shard as usize].clone() }
    }
}

impl<T: Element, const D: usize> Halo<T, D> {
    /// The block that this halo surrounds: the block of its shard.
    pub fn block(&self) -> Region {
        self.shapes.block
    }

    /// Gives the shard its ends of the exchange. Local; never waits.
    ///
    /// # Errors
    /// [`Error::Misuse`] if this is the part of another shard.
    pub fn join(self, shard: &Shard) -> Result<HaloEnds<T, D>, Error> {
        let Shapes { block, around, ghosts, borders } = self.shapes;
        let edges = self.edges.all_ends(shard)?;
        if edges.count() != (ghosts.len(), borders.len()) {
            let what = format!("Halo::join in shard {}", shard.index());
            return Err(Error::misuse(what, "the part that `Halos::of` gives for this shard", "another shard's"));
        }
        let shape = |pieces| Arc::new(Shape { block: block.rect, around, pieces });
        let (ghosts, borders) = (shape(ghosts), shape(borders));
        Ok(HaloEnds { shard: shard.clone(), ends: Rc::new(Ends { edges, ghosts, borders }) })
    }
}

/// A shard's ends of the exchange of halos: they make the arguments of its leaf tasks.
pub struct HaloEnds<T, const D: usize = 1> {
    shard: Shard,
    ends: Rc<Ends<T>>,
}

impl<T, const D: usize> fmt::Debug for HaloEnds<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HaloEnds of {}", self.ends.ghosts.block)
    }
}

impl<T: Element, const D: usize> HaloEnds<T, D> {
    /// The argument for a [`Ghosts`] parameter: the next ghost cells from the neighbours. The task starts when all of
    /// them have come.
    pub fn ghosts(&self) -> GhostsFrom<T> {
        GhostsFrom(self.ends.clone())
    }

    /// The pieces of the halo, as [`Ghosts::pieces`] has them: rectangles in the coordinates of the block.
    pub fn pieces(&self) -> &[Rect] {
        &self.ends.ghosts.pieces
    }

    /// The argument for a [`Get`](maniple_runtime::Get) parameter: the next values of one piece of the halo, in row-major
    /// order. The task starts when they have come, whatever else is late.
    ///
    /// `number` is the position in [`pieces`](Self::pieces). Each piece is taken once for each time that the neighbours send:
    /// with [`ghosts`](Self::ghosts), which takes all of them, or with this.
    ///
    /// # Panics
    /// If there is no such piece.
    pub fn ghost(&self, number: usize) -> GetFrom<T> {
        let Some(edge) = self.ends.edges.incoming(number) else {
            panic!("piece {number} of a halo: the block {} has {}", self.ends.ghosts.block, self.pieces().len())
        };
        edge.get()
    }

    /// The argument for a [`Borders`] parameter: the task fills the cells that the neighbours need next. The task
    /// starts when these cells may be overwritten.
    pub fn borders(&self) -> BordersTo<T> {
        BordersTo(self.ends.clone())
    }

    /// Launches a task that sends the neighbours the values that they need of the block. Local, not collective; returns
    /// at once.
    ///
    /// The region of `block` is the shard's own block, [`Halo::block`]. For another region the task panics.
    ///
    /// # Errors
    /// The errors of [`Launch::go`](maniple_runtime::Launch::go).
    pub fn send(&self, block: Requirement<Read<'static, T, D>>) -> Result<(), Error> {
        fn send<T: Element, const D: usize>(block: Read<T, D>, mut borders: Borders<T, D>) {
            borders.check_block(block.rect());
            borders.send(block.rows());
        }
        self.shard.launch(send::<T, D>, (block, self.borders())).named("send halo").go()?.detach();
        Ok(())
    }
}
