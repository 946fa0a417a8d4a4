//! Partitions: the subregions of a region, numbered by colours.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use crate::cover::{covered, disjoint};
use crate::{Rect, Region, RegionError};

/// A region's subregions, numbered by colours `0..colors()`. Cloning shares the description.
///
/// A partition knows whether its subregions are disjoint (no point is in two of them) and complete (every point is in
/// one of them). Subregions may be empty. Most are computed on demand by a formula, so an equal partition into a
/// million parts costs as much as one into two.
///
/// ```
/// use maniple_regions::{Partition, Rect, Region, TreeId};
/// let region = Region { tree: TreeId(0), rect: Rect::line(0, 10) };
/// let blocks = Partition::equal(region, 4)?;
/// assert_eq!(blocks.sub(0)?.rect, Rect::line(0, 3));
/// assert_eq!(blocks.sub(3)?.rect, Rect::line(8, 10));
/// assert!(blocks.is_disjoint() && blocks.is_complete());
/// # Ok::<(), maniple_regions::RegionError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Partition {
    shared: Arc<Shared>,
}

#[derive(PartialEq, Eq)]
struct Shared {
    parent: Region,
    colors: usize,
    disjoint: bool,
    complete: bool,
    rule: Rule,
}

#[derive(PartialEq, Eq)]
enum Rule {
    /// This many tiles in each dimension, whose sizes differ by at most one. The last dimension's colour runs fastest.
    Grid([usize; 3]),
    /// Block `c` is `starts[c]..starts[c + 1]` in the first dimension.
    Blocks { starts: Vec<i64> },
    /// As listed.
    Rects(Vec<Rect>),
    /// `extent` moved by `color * stride`, cut to the parent.
    Restriction { stride: [i64; 3], extent: Rect },
}

impl Partition {
    /// Divides the first dimension into `n` blocks whose extents differ by at most one, the larger ones first. Disjoint
    /// and complete. If `n` exceeds the extent, the last blocks are empty. Takes constant time and space.
    ///
    /// # Errors
    ///
    /// [`RegionError::NoColors`] if `n` is 0.
    pub fn equal(region: Region, n: usize) -> Result<Self, RegionError> {
        Partition::new(region, n, true, true, Rule::Grid([n, 1, 1]))
    }

    /// Divides every dimension `d` into `tiles[d]` parts whose extents differ by at most one, the larger ones first.
    /// The last dimension's colour runs fastest. Disjoint and complete. Takes constant time and space.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongDimension`] if `D` is not the region's dimension. [`RegionError::NoColors`] if a number is
    /// 0. [`RegionError::TooManyColors`] if their product exceeds `usize`.
    pub fn grid<const D: usize>(region: Region, tiles: [usize; D]) -> Result<Self, RegionError> {
        same_dim("the tiles of a grid", region.rect.dim(), D)?;
        let mut by_dim = [1; 3];
        by_dim[..D].copy_from_slice(&tiles);
        let colors = tiles.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
        let colors = colors.ok_or(RegionError::TooManyColors { region })?;
        Partition::new(region, colors, true, true, Rule::Grid(by_dim))
    }

    /// Divides a region into `n` tiles: the [grid](Self::grid) that separates the fewest neighbouring points, among those that
    /// leave as few tiles empty as possible. Takes about √n steps for each divisor of `n`.
    ///
    /// MPI's counterpart is `MPI_Dims_create`, which does not know the extents.
    ///
    /// # Errors
    ///
    /// [`RegionError::NoColors`] where `n` is 0.
    pub fn tiles(region: Region, n: usize) -> Result<Self, RegionError> {
        let dim = region.rect.dim();
        let extents: [usize; 3] = std::array::from_fn(|d| if d < dim { region.rect.extent(d) } else { 1 });
        let divisors = |n: usize| (1..=n.isqrt()).filter(move |k| n.is_multiple_of(*k)).flat_map(move |k| [k, n / k]);
        let grids = divisors(n).flat_map(|a| divisors(n / a).map(move |b| [a, b, n / a / b]));
        // Tiles that hold points, and points whose next one in some dimension is another tile's.
        let worth = |tiles: &[usize; 3]| {
            let used: [u128; 3] = std::array::from_fn(|d| tiles[d].min(extents[d]).max(1) as u128);
            let area = |d: usize| (0..3).filter(|&e| e != d).map(|e| extents[e] as u128).product::<u128>();
            let cut: u128 = (0..3).map(|d| (used[d] - 1).saturating_mul(area(d))).sum();
            (Reverse(used.iter().product::<u128>()), cut, Reverse(*tiles))
        };
        let best = grids.filter(|tiles| tiles[dim..].iter().all(|&n| n == 1)).min_by_key(worth).unwrap_or([n, 1, 1]);
        Partition::new(region, n, true, true, Rule::Grid(best))
    }

    /// Divides the first dimension into blocks of the given sizes, in order. Disjoint and complete. Sizes may be 0.
    ///
    /// # Errors
    ///
    /// [`RegionError::NoColors`] if there are no sizes. [`RegionError::WrongBlocks`] unless they add up to the extent
    /// of the first dimension.
    pub fn blocks(region: Region, sizes: &[usize]) -> Result<Self, RegionError> {
        let expected = region.rect.extent(0);
        let came: u128 = sizes.iter().map(|&size| size as u128).sum();
        if sizes.is_empty() {
            return Err(RegionError::NoColors { region });
        }
        if came != expected as u128 {
            return Err(RegionError::WrongBlocks { region, expected, came });
        }
        let mut starts = Vec::with_capacity(sizes.len() + 1);
        starts.push(region.rect.lo(0));
        for &size in sizes {
            // Stays within the region, because the sizes add up to its extent.
            starts.push(starts[starts.len() - 1].wrapping_add(size as i64));
        }
        Partition::new(region, sizes.len(), true, true, Rule::Blocks { starts })
    }

    /// Takes the listed rectangles as subregions. They may overlap and need not cover the region.
    ///
    /// A sweep finds out whether they are disjoint and complete. It takes `O(n log n)` time in one dimension, and in
    /// more dimensions if few rectangles share coordinates.
    ///
    /// # Errors
    ///
    /// [`RegionError::NoColors`] for an empty list. [`RegionError::WrongDimension`] or [`RegionError::OutsideRegion`]
    /// for a rectangle that is not part of the region.
    pub fn rects(region: Region, rects: Vec<Rect>) -> Result<Self, RegionError> {
        for (color, rect) in rects.iter().enumerate() {
            same_dim("the rectangles of a partition", region.rect.dim(), rect.dim())?;
            if !region.rect.contains_rect(rect) {
                let (rect, region) = ((*rect).into(), region.into());
                return Err(RegionError::OutsideRegion { color, rect, region });
            }
        }
        let (disjoint, complete) = (disjoint(&rects), covered(&region.rect, &rects));
        Partition::new(region, rects.len(), disjoint, complete, Rule::Rects(rects))
    }

    /// Moves the box `extent` by `color * stride` and cuts it to the region, as for halos and sliding windows. Takes
    /// constant space, and time proportional to `colors`.
    ///
    /// ```
    /// use maniple_regions::{Partition, Rect, Region, TreeId};
    /// let region = Region { tree: TreeId(0), rect: Rect::line(0, 12) };
    /// // Blocks of four cells with a halo of one cell on either side.
    /// let halos = Partition::restriction(region, 3, &[4], Rect::line(-1, 5))?;
    /// assert_eq!(halos.sub(0)?.rect, Rect::line(0, 5));
    /// assert_eq!(halos.sub(1)?.rect, Rect::line(3, 9));
    /// assert!(!halos.is_disjoint() && halos.is_complete());
    /// # Ok::<(), maniple_regions::RegionError>(())
    /// ```
    ///
    /// Boxes that overlap are for reading: in one launch of a gang, shards cannot hold them exclusively while one of
    /// them writes the same field there. For ghost cells that neighbours exchange as they go, use `maniple::halo`, as
    /// in `examples/heat.rs`.
    ///
    /// # Errors
    ///
    /// [`RegionError::NoColors`] if `colors` is 0. [`RegionError::WrongDimension`] if `stride` or `extent` has another
    /// dimension than the region.
    pub fn restriction(region: Region, colors: usize, stride: &[i64], extent: Rect) -> Result<Self, RegionError> {
        let dim = region.rect.dim();
        same_dim("the stride of a restriction", dim, stride.len())?;
        same_dim("the extent of a restriction", dim, extent.dim())?;
        let mut steps = [0; 3];
        steps[..dim].copy_from_slice(stride);
        let box_of = |color| moved(&region.rect, &extent, &steps, color);
        // Box b between boxes a and c contains what a and c share, since all move along one line. So only neighbours
        // need to be compared, and each box adds to the union what it does not share with the one before.
        let mut disjoint = true;
        let mut union = 0_u128;
        let mut before: Option<Rect> = None;
        for color in 0..colors {
            let this = box_of(color);
            let shared = before.map_or(0, |before| before.intersect(&this).volume());
            disjoint &= shared == 0;
            union += (this.volume() - shared) as u128;
            before = Some(this);
        }
        let complete = union == region.rect.volume() as u128;
        Partition::new(region, colors, disjoint, complete, Rule::Restriction { stride: steps, extent })
    }

    fn new(parent: Region, colors: usize, disjoint: bool, complete: bool, rule: Rule) -> Result<Self, RegionError> {
        if colors == 0 {
            return Err(RegionError::NoColors { region: parent });
        }
        Ok(Partition { shared: Arc::new(Shared { parent, colors, disjoint, complete, rule }) })
    }

    /// The number of colours, at least 1.
    pub fn colors(&self) -> usize {
        self.shared.colors
    }

    /// The region that is divided.
    pub fn parent(&self) -> Region {
        self.shared.parent
    }

    /// Whether no point is in two subregions.
    pub fn is_disjoint(&self) -> bool {
        self.shared.disjoint
    }

    /// Whether every point of the divided region is in a subregion.
    pub fn is_complete(&self) -> bool {
        self.shared.complete
    }

    /// The subregion of `color`. Takes constant time.
    ///
    /// # Errors
    ///
    /// [`RegionError::NoSuchColor`] unless `color < colors()`.
    pub fn sub(&self, color: usize) -> Result<Region, RegionError> {
        let Shared { parent, colors, rule, .. } = &*self.shared;
        if color >= *colors {
            return Err(RegionError::NoSuchColor { colors: *colors, color });
        }
        let rect = match rule {
            Rule::Grid(tiles) => {
                let mut rest = color;
                (0..parent.rect.dim()).rev().fold(parent.rect, |rect, d| {
                    let at = rest % tiles[d];
                    rest /= tiles[d];
                    rect.with_range(d, cut(&parent.rect, d, tiles[d], at), cut(&parent.rect, d, tiles[d], at + 1))
                })
            }
            Rule::Blocks { starts } => parent.rect.with_range(0, starts[color], starts[color + 1]),
            Rule::Rects(rects) => rects[color],
            Rule::Restriction { stride, extent } => moved(&parent.rect, extent, stride, color),
        };
        Ok(Region { tree: parent.tree, rect })
    }

    /// The subregions in the order of their colours.
    pub fn iter(&self) -> impl Iterator<Item = Region> + '_ {
        (0..self.colors()).filter_map(|color| self.sub(color).ok())
    }
}

/// Where part `at` of `n` nearly equal parts of dimension `d` begins; the first parts take the remainder.
fn cut(rect: &Rect, d: usize, n: usize, at: usize) -> i64 {
    let extent = rect.extent(d);
    // Stays within the rectangle, so the wrapped sum is exact.
    rect.lo(d).wrapping_add((extent / n * at + (extent % n).min(at)) as i64)
}

/// `extent` moved by `color * stride`, cut to `parent`.
fn moved(parent: &Rect, extent: &Rect, stride: &[i64; 3], color: usize) -> Rect {
    (0..parent.dim()).fold(*parent, |rect, d| {
        let by = stride[d] as i128 * color as i128;
        let within = |at: i64| (at as i128 + by).clamp(parent.lo(d) as i128, parent.hi(d) as i128) as i64;
        rect.with_range(d, within(extent.lo(d)), within(extent.hi(d)))
    })
}

fn same_dim(what: &str, expected: usize, came: usize) -> Result<(), RegionError> {
    if expected == came {
        return Ok(());
    }
    Err(RegionError::WrongDimension { what: what.into(), expected, came })
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.shared.rule {
            Rule::Grid(_) => "tiles",
            Rule::Blocks { .. } => "blocks",
            Rule::Rects(_) => "rectangles",
            Rule::Restriction { .. } => "windows",
        };
        write!(f, "Partition({} into {} {kind})", self.shared.parent, self.shared.colors)
    }
}
