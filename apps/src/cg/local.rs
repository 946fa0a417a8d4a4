//! A shard's rows of a matrix, and its kernels.

use super::system::{Dealt, Place};
use std::ops::Range;

/// Columns and values.
type Entries<'a> = std::iter::Zip<std::slice::Iter<'a, u32>, std::slice::Iter<'a, f64>>;

/// The rows of a shard on one level. Columns below the number of rows are its own; those from there on are *ghosts*, columns whose
/// rows others have, by neighbour.
#[derive(Debug)]
pub struct Local {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
    /// Where the diagonal is in each row.
    middles: Vec<usize>,
    /// The other shards whose rows it uses.
    pub neighbours: Vec<Neighbour>,
    /// Rows that use no ghosts, in runs.
    inside: Vec<Range<usize>>,
    /// The other rows, by the neighbours that they need.
    pub borders: Vec<Border>,
    /// For each row of the next level the row here.
    pub finer: Vec<u32>,
}

/// A shard with rows that this one uses, and which uses rows of this one.
#[derive(Debug)]
pub struct Neighbour {
    /// In how many dimensions the border with it extends.
    pub extent: usize,
    /// The rows that it needs.
    pub sends: Vec<u32>,
    /// The ghosts that come from it.
    pub ghosts: Range<usize>,
}

/// Rows that need the ghosts from the same neighbours.
#[derive(Debug)]
pub struct Border {
    /// The places of these neighbours.
    pub from: Vec<usize>,
    /// The rows.
    pub rows: Vec<u32>,
}

impl Local {
    /// The rows of a shard.
    pub fn new(dealt: &Dealt, shard: u32, level: usize, levels: usize) -> Self {
        let rows = dealt.rows(shard, level);
        let others = dealt.neighbours(shard, level);
        let place = |owner: u32| others.binary_search(&owner).expect("a neighbour");
        let (mut starts, mut places, mut values) = (vec![0], Vec::<Place>::new(), Vec::new());
        let mut uses: Vec<Vec<u32>> = vec![Vec::new(); others.len()];
        let mut sends = uses.clone();
        for row in 0..rows {
            dealt.row(shard, level, row, |(owner, at), value| {
                places.push((owner, at));
                values.push(value);
                if owner != shard {
                    uses[place(owner)].push(at);
                    if sends[place(owner)].last() != Some(&(row as u32)) {
                        sends[place(owner)].push(row as u32);
                    }
                }
            });
            starts.push(places.len());
        }
        let mut end = rows;
        let mut neighbours = Vec::new();
        for ((sends, uses), other) in sends.into_iter().zip(&mut uses).zip(&others) {
            uses.sort_unstable();
            uses.dedup();
            let extent = dealt.border(shard, *other);
            neighbours.push(Neighbour { extent, sends, ghosts: end..end + uses.len() });
            end += uses.len();
        }
        let column = |(owner, at): &Place| match *owner == shard {
            true => *at,
            false => {
                let from = place(*owner);
                (neighbours[from].ghosts.start + uses[from].partition_point(|used| used < at)) as u32
            }
        };
        let columns: Vec<u32> = places.iter().map(column).collect();
        let own = |row: usize| (starts[row]..starts[row + 1]).find(|at| columns[*at] as usize == row);
        let middles = (0..rows).map(|row| own(row).expect("a value on the diagonal")).collect();
        let (mut inside, mut borders): (Vec<Range<usize>>, Vec<Border>) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let mut from: Vec<usize> = places[starts[row]..starts[row + 1]]
                .iter()
                .filter(|(owner, _)| *owner != shard)
                .map(|(owner, _)| place(*owner))
                .collect();
            from.sort_unstable();
            from.dedup();
            match (from.is_empty(), borders.iter_mut().find(|border| border.from == from)) {
                (true, _) => match inside.last_mut().filter(|run| run.end == row) {
                    Some(run) => run.end += 1,
                    None => inside.push(row..row + 1),
                },
                (false, Some(border)) => border.rows.push(row as u32),
                (false, None) => borders.push(Border { from, rows: vec![row as u32] }),
            }
        }
        let finer = if level + 1 < levels { dealt.finer(shard, level + 1) } else { Vec::new() };
        Self { starts, columns, values, middles, neighbours, inside, borders, finer }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    #[inline]
    fn row(&self, row: usize) -> Entries<'_> {
        self.entries(self.starts[row]..self.starts[row + 1])
    }

    #[inline]
    fn entries(&self, range: Range<usize>) -> Entries<'_> {
        self.columns[range.clone()].iter().zip(&self.values[range])
    }

    #[inline]
    fn product(&self, row: usize, x: &[f64]) -> f64 {
        self.row(row).fold(0.0, |sum, (column, value)| sum + value * x[*column as usize])
    }

    /// The rows that use no ghosts, times a vector.
    pub fn multiply_inside(&self, x: &[f64], y: &mut [f64]) {
        for run in &self.inside {
            run.clone().zip(&mut y[run.clone()]).for_each(|(row, y)| *y = self.product(row, x));
        }
    }

    /// The rows of a border, times a vector. Its ghosts are given for each neighbour that the border needs.
    pub fn multiply_border(&self, border: &Border, x: &[f64], ghosts: &[&[f64]]) -> Vec<f64> {
        let value = |column: u32| match x.get(column as usize) {
            Some(value) => *value,
            None => {
                let from = |n: &usize| self.neighbours[*n].ghosts.end <= column as usize;
                let nth = border.from.iter().take_while(|n| from(n)).count();
                ghosts[nth][column as usize - self.neighbours[border.from[nth]].ghosts.start]
            }
        };
        let product = |row: &u32| self.row(*row as usize).fold(0.0, |sum, (column, a)| sum + a * value(*column));
        border.rows.iter().map(product).collect()
    }

    /// r − A x for the rows that the next level has. `x` has ghosts.
    pub fn restrict<'a>(&'a self, r: &'a [f64], x: &'a [f64]) -> impl Fn(usize) -> f64 + 'a {
        |coarse| {
            let row = self.finer[coarse] as usize;
            r[row] - self.product(row, x)
        }
    }

    /// A step of the symmetric Gauss–Seidel method for A x = r: through all rows and back. `x` has ghosts, which stay.
    pub fn smooth(&self, r: &[f64], x: &mut [f64]) {
        (0..self.rows()).for_each(|row| self.relax(row, r, x));
        (0..self.rows()).rev().for_each(|row| self.relax(row, r, x));
    }

    /// The same from x = 0, whatever `x` was. On the way forth only the columns before the diagonal count: the others are still 0.
    pub fn smooth_zero(&self, r: &[f64], x: &mut [f64]) {
        x[self.rows()..].fill(0.0);
        for row in 0..self.rows() {
            let middle = self.middles[row];
            x[row] = self.rest(self.starts[row]..middle, r[row], x) / self.values[middle];
        }
        (0..self.rows()).rev().for_each(|row| self.relax(row, r, x));
    }

    #[inline]
    fn relax(&self, row: usize, r: &[f64], x: &mut [f64]) {
        let diagonal = self.values[self.middles[row]];
        let rest = self.rest(self.starts[row]..self.starts[row + 1], r[row], x);
        x[row] = (rest + x[row] * diagonal) / diagonal;
    }

    #[inline]
    fn rest(&self, range: Range<usize>, r: f64, x: &[f64]) -> f64 {
        self.entries(range).fold(r, |rest, (column, value)| rest - value * x[*column as usize])
    }

    /// The largest sum of the absolute values of a row.
    pub fn norm(&self) -> f64 {
        let sum = |row| self.row(row).fold(0.0, |sum, (_, value)| sum + value.abs());
        (0..self.rows()).map(sum).fold(0.0, f64::max)
    }

    /// The sum of each row's values.
    pub fn sums(&self) -> impl Iterator<Item = f64> {
        (0..self.rows()).map(|row| self.row(row).fold(0.0, |sum, (_, value)| sum + value))
    }
}
