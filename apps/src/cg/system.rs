//! The systems of equations, and how their rows are dealt to shards.

use super::CgError;
use std::sync::Arc;

/// A sparse symmetric matrix, by rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sparse {
    /// Where each row starts in the other two lists, and the end of the last one.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Sparse {
    /// The matrix with these values, each given as row, column and value. Values for the same place are added up, and
    /// those that are 0 beside the diagonal are left out.
    ///
    /// # Errors
    /// No rows, or a row or column beyond them. A matrix that is not symmetric, or with a diagonal that is not positive.
    pub fn new(rows: usize, mut values: Vec<(u32, u32, f64)>) -> Result<Self, CgError> {
        if rows == 0 {
            return Err(CgError::Zero { what: "rows of the matrix" });
        }
        if let Some((row, column, _)) = values.iter().find(|(row, column, _)| *row.max(column) as usize >= rows) {
            return Err(CgError::Outside { row: *row, column: *column, rows });
        }
        // By their values, too: then those of a place and of the one that mirrors it are added in the same order.
        values.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
        values.dedup_by(|next, first| {
            let same = (first.0, first.1) == (next.0, next.1);
            if same {
                first.2 += next.2;
            }
            same
        });
        values.retain(|(row, column, value)| row == column || *value != 0.0);
        let starts = (0..=rows).map(|row| values.partition_point(|(at, ..)| (*at as usize) < row)).collect();
        let (columns, values) = values.into_iter().map(|(_, column, value)| (column, value)).unzip();
        let matrix = Self { starts, columns, values };
        matrix.check()?;
        Ok(matrix)
    }

    fn check(&self) -> Result<(), CgError> {
        for row in 0..self.rows() {
            for (column, value) in self.row(row) {
                if self.get(column as usize, row as u32) != Some(value) {
                    let (row, other) = (row as u32, self.get(column as usize, row as u32));
                    return Err(CgError::NotSymmetric { row, column, value, other });
                }
            }
            match self.get(row, row as u32) {
                Some(value) if value > 0.0 => {}
                value => return Err(CgError::Diagonal { row: row as u32, value }),
            }
        }
        Ok(())
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of values that are stored.
    pub fn stored(&self) -> usize {
        self.values.len()
    }

    /// The columns and the values of a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, f64)> {
        let range = self.starts[row]..self.starts[row + 1];
        self.columns[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }

    fn get(&self, row: usize, column: u32) -> Option<f64> {
        let range = self.starts[row]..self.starts[row + 1];
        let at = self.columns[range.clone()].binary_search(&column).ok()?;
        Some(self.values[range.start + at])
    }
}

/// A system of equations A x = b with a symmetric positive definite matrix.
#[derive(Debug, Clone)]
pub enum System {
    /// HPCG's operator: a point of a grid and its up to 26 neighbours, with 26 on the diagonal and −1 elsewhere.
    Stencil {
        /// The points of each shard along x, y and z.
        points: [usize; 3],
    },
    /// A matrix, whose rows are dealt to the shards in runs.
    Given(Arc<Sparse>),
}

/// A system on so many shards.
#[derive(Debug, Clone)]
pub struct Dealt {
    system: System,
    shards: u32,
    /// The shards along x, y and z.
    grid: [usize; 3],
    /// Those of a block, whose numbers follow each other.
    block: [usize; 3],
}

/// A row, as the shard that has it and its number among the rows of that shard.
pub type Place = (u32, u32);

impl Dealt {
    /// The system for so many shards, of which `together` are a block.
    pub fn new(system: System, shards: u32, together: u32) -> Self {
        let grid = compact(shards, [1; 3], |[x, y, z]| x >= y && y >= z).unwrap_or([shards as usize, 1, 1]);
        let points = if let System::Stencil { points } = &system { *points } else { [1; 3] };
        let block = compact(together, points, |block| (0..3).all(|d| grid[d].is_multiple_of(block[d])));
        Self { system, shards, grid, block: block.unwrap_or([1; 3]) }
    }

    /// The blocks of shards along x, y and z, and the shards of each.
    fn blocks(&self) -> ([usize; 3], usize) {
        (std::array::from_fn(|d| self.grid[d] / self.block[d]), self.block.iter().product())
    }

    /// The place of a shard in the grid.
    fn place(&self, shard: u32) -> [usize; 3] {
        let (blocks, each) = self.blocks();
        let (block, within) = (split(shard as usize / each, blocks), split(shard as usize % each, self.block));
        std::array::from_fn(|d| block[d] * self.block[d] + within[d])
    }

    /// The shard at a place in the grid.
    fn shard(&self, place: [usize; 3]) -> u32 {
        let (blocks, each) = self.blocks();
        let [block, within] = [|at, long| at / long, |at, long| at % long]
            .map(|part: fn(usize, usize) -> usize| std::array::from_fn(|d| part(place[d], self.block[d])));
        (joined(block, blocks) * each + joined(within, self.block)) as u32
    }

    /// How many grids there are if each has twice the spacing of the one before, at most `most`.
    pub fn levels(&self, most: usize) -> usize {
        match &self.system {
            System::Given(_) => 1,
            System::Stencil { points } => {
                let halves = |n: &usize| n.trailing_zeros() as usize;
                most.min(1 + points.iter().map(halves).min().unwrap_or(0))
            }
        }
    }

    /// The number of rows of a shard on a level.
    pub fn rows(&self, shard: u32, level: usize) -> usize {
        match &self.system {
            System::Given(matrix) => self.run(matrix, shard + 1) - self.run(matrix, shard),
            System::Stencil { points } => points.iter().map(|n| n >> level).product(),
        }
    }

    /// The first row of a shard in a matrix.
    fn run(&self, matrix: &Sparse, shard: u32) -> usize {
        (matrix.rows() as u128 * u128::from(shard) / u128::from(self.shards)) as usize
    }

    /// The columns and the values of a shard's row, in the order of the columns.
    pub fn row(&self, shard: u32, level: usize, row: usize, mut each: impl FnMut(Place, f64)) {
        match &self.system {
            System::Given(matrix) => {
                for (column, value) in matrix.row(self.run(matrix, shard) + row) {
                    let owner = ((u64::from(column) + 1) * u64::from(self.shards) - 1) / matrix.rows() as u64;
                    each((owner as u32, column - self.run(matrix, owner as u32) as u32), value);
                }
            }
            System::Stencil { points } => {
                let own = points.map(|n| n >> level);
                let block = self.place(shard);
                let at = split(row, own);
                let near = |d: usize| {
                    let (at, end) = (block[d] * own[d] + at[d], self.grid[d] * own[d]);
                    at.saturating_sub(1)..end.min(at + 2)
                };
                let whole = |d: usize| block[d] * own[d] + at[d];
                for z in near(2) {
                    for y in near(1) {
                        for x in near(0) {
                            let point = [x, y, z];
                            let [owner, within] = [0, 1].map(|part| {
                                std::array::from_fn(|d| if part == 0 { point[d] / own[d] } else { point[d] % own[d] })
                            });
                            let is_own = (0..3).all(|d| point[d] == whole(d));
                            let owner = if owner == block { shard } else { self.shard(owner) };
                            let place = (owner, joined(within, own) as u32);
                            each(place, if is_own { 26.0 } else { -1.0 });
                        }
                    }
                }
            }
        }
    }

    /// The rows of others that a shard's rows use on a level, in ascending order.
    fn used(&self, shard: u32, level: usize) -> Vec<Place> {
        let mut used = Vec::new();
        for row in 0..self.rows(shard, level) {
            self.row(shard, level, row, |place, _| used.push(place));
        }
        used.retain(|(owner, _)| *owner != shard);
        used.sort_unstable();
        used.dedup();
        used
    }

    /// The other shards with rows that use rows of this one on a level, in ascending order.
    pub fn neighbours(&self, shard: u32, level: usize) -> Vec<u32> {
        let mut near: Vec<u32> = match &self.system {
            System::Given(_) => self.used(shard, level).into_iter().map(|(owner, _)| owner).collect(),
            System::Stencil { .. } => {
                let block = self.place(shard);
                let near = |d: usize| block[d].saturating_sub(1)..self.grid[d].min(block[d] + 2);
                let points = near(2).flat_map(|z| near(1).flat_map(move |y| near(0).map(move |x| [x, y, z])));
                points.map(|point| self.shard(point)).collect()
            }
        };
        near.sort_unstable();
        near.dedup();
        near.retain(|other| *other != shard);
        near
    }

    /// Of two neighbours, in how many dimensions their border extends: 2 for a face, 1 for an edge and 0 for a corner.
    pub fn border(&self, shard: u32, other: u32) -> usize {
        match &self.system {
            System::Given(_) => 0,
            System::Stencil { .. } => {
                let [a, b] = [shard, other].map(|shard| self.place(shard));
                (0..3).filter(|d| a[*d] == b[*d]).count()
            }
        }
    }

    /// The number of rows of others that a shard's rows use on a level.
    pub fn ghosts(&self, shard: u32, level: usize) -> usize {
        match &self.system {
            System::Given(_) => self.used(shard, level).len(),
            System::Stencil { points } => {
                let block = self.place(shard);
                let own = points.map(|n| n >> level);
                let around = |d: usize| own[d] + usize::from(block[d] > 0) + usize::from(block[d] + 1 < self.grid[d]);
                (0..3).map(around).product::<usize>() - own.iter().product::<usize>()
            }
        }
    }

    /// The row of the level before for each row of a coarser one.
    pub fn finer(&self, shard: u32, level: usize) -> Vec<u32> {
        let System::Stencil { points } = &self.system else { return Vec::new() };
        let (own, before) = (points.map(|n| n >> level), points.map(|n| n >> (level - 1)));
        let finer = |row| joined(split(row, own).map(|at| 2 * at), before) as u32;
        (0..self.rows(shard, level)).map(finer).collect()
    }

    /// The number of rows in all, and of their values.
    pub fn size(&self) -> (usize, usize) {
        match &self.system {
            System::Given(matrix) => (matrix.rows(), matrix.stored()),
            System::Stencil { points } => {
                let whole: [usize; 3] = std::array::from_fn(|d| points[d] * self.grid[d]);
                (whole.iter().product(), whole.iter().map(|n| 3 * n - 2).product())
            }
        }
    }

    /// The place in the solution of a shard's row.
    pub fn position(&self, shard: u32, row: usize) -> usize {
        match &self.system {
            System::Given(matrix) => self.run(matrix, shard) + row,
            System::Stencil { points } => {
                let (block, at) = (self.place(shard), split(row, *points));
                let whole = std::array::from_fn(|d| points[d] * self.grid[d]);
                joined(std::array::from_fn(|d| block[d] * points[d] + at[d]), whole)
            }
        }
    }
}

/// The position along x, y and z of a number in a grid, x fastest.
fn split(number: usize, [x, y, _]: [usize; 3]) -> [usize; 3] {
    [number % x, number / x % y, number / x / y]
}

/// The number of a position.
fn joined([a, b, c]: [usize; 3], [x, y, _]: [usize; 3]) -> usize {
    (c * y + b) * x + a
}

/// The grid of so many blocks with the least surface, among those that fit.
fn compact(count: u32, block: [usize; 3], fits: impl Fn(&[usize; 3]) -> bool) -> Option<[usize; 3]> {
    let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let count = count as usize;
    let grids = divisors(count).flat_map(|x| divisors(count / x).map(move |y| [x, y, count / x / y]));
    let surface = |grid: &[usize; 3]| {
        let [x, y, z] = [0, 1, 2].map(|d| grid[d] * block[d]);
        x * y + y * z + z * x
    };
    grids.filter(fits).min_by_key(surface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_with_numbers_in_a_row_are_a_compact_block() {
        for (points, shards, together, block) in [
            ([2; 3], 512, 8, [2, 2, 2]),
            ([2; 3], 1024, 16, [2, 2, 4]),
            ([2, 4, 4], 2048, 32, [4, 2, 4]),
            ([2; 3], 448, 56, [2, 4, 7]),
            ([2; 3], 36, 6, [2, 1, 3]),
            ([2; 3], 7, 2, [1; 3]),
        ] {
            let dealt = Dealt::new(System::Stencil { points }, shards, together);
            let mut places: Vec<_> = (0..shards).map(|shard| dealt.place(shard)).collect();
            assert!((0..shards).all(|shard| dealt.shard(places[shard as usize]) == shard), "{shards} {together}");
            for block_of in places.chunks(dealt.blocks().1) {
                let extent = |d: usize| {
                    let along = || block_of.iter().map(|place| place[d]);
                    along().max().unwrap_or(0) - along().min().unwrap_or(0) + 1
                };
                assert_eq!([0, 1, 2].map(extent), block, "{shards} {together}");
            }
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), shards as usize);
        }
    }

    /// All rows are there once, and neighbours agree on them: a wrong number would lose or repeat a row.
    #[test]
    fn numbers_of_shards_do_not_change_the_matrix() {
        let values = |together: u32| {
            let dealt = Dealt::new(System::Stencil { points: [2, 3, 2] }, 12, together);
            let mut values = Vec::new();
            for shard in 0..12 {
                for row in 0..dealt.rows(shard, 0) {
                    dealt.row(shard, 0, row, |(owner, at), value| {
                        let [row, column] = [(shard, row), (owner, at as usize)];
                        assert!(owner == shard || dealt.neighbours(shard, 0).contains(&owner));
                        values.push((dealt.position(row.0, row.1), dealt.position(column.0, column.1), value as i64));
                    });
                }
            }
            values.sort_unstable();
            values
        };
        assert!([2, 3, 4, 6, 12].into_iter().all(|together| values(together) == values(1)));
    }
}
