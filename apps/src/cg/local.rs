//! A shard's rows of a matrix, and its kernels.

use super::system::{Dealt, Place};
use maniple::regions::vec_in_huge_pages;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The most borders of a shard. A box has 26: its faces, edges and corners.
const BORDERS: usize = 32;

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
    /// The columns and values of these rows, which may be far apart in the matrix. Ghosts are numbered from the number of the shard's
    /// rows on, those of the first of these neighbours first.
    entries: Vec<(u32, f64)>,
    /// Where each row ends there.
    ends: Vec<usize>,
}

impl Border {
    /// The rows, times a vector: the shard's own rows of it, and the ghosts that come from each neighbour that is needed.
    pub fn multiply(&self, x: &[f64], ghosts: &[&[f64]]) -> Vec<f64> {
        let several;
        let ghosts = match ghosts {
            [one] => one,
            _ => {
                several = ghosts.concat();
                &several[..]
            }
        };
        let value = |column: usize| if column < x.len() { x[column] } else { ghosts[column - x.len()] };
        let mut start = 0;
        let product = |end: &usize| {
            let row = &self.entries[start..*end];
            start = *end;
            row.iter().fold(0.0, |sum, (column, a)| sum + a * value(*column as usize))
        };
        self.ends.iter().map(product).collect()
    }
}

/// Few groups of rows by what they need: where there are too many, the smallest become one, which needs what each of them needs.
fn few(groups: BTreeMap<Vec<usize>, Vec<u32>>) -> Vec<(Vec<usize>, Vec<u32>)> {
    let mut groups: Vec<_> = groups.into_iter().collect();
    if groups.len() <= BORDERS {
        return groups;
    }
    groups.sort_by_key(|(_, rows)| Reverse(rows.len()));
    let (mut from, mut rows) = (BTreeSet::new(), Vec::new());
    for (needs, group) in groups.drain(BORDERS - 1..) {
        from.extend(needs);
        rows.extend(group);
    }
    rows.sort_unstable();
    groups.push((from.into_iter().collect(), rows));
    groups
}

/// The sum of what a function has for 0 to `len` − 1. It is the sum of four: of every fourth from the first, second, third and
/// fourth on, which don't wait for each other's additions.
#[inline]
pub fn sum(len: usize, mut of: impl FnMut(usize) -> f64) -> f64 {
    let mut sums = [0.0; 4];
    for n in (0..len / 4 * 4).step_by(4) {
        (0..4).for_each(|k| sums[k] += of(n + k));
    }
    (len / 4 * 4..len).for_each(|n| sums[n % 4] += of(n));
    (sums[0] + sums[1]) + (sums[2] + sums[3])
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
        let columns: Vec<u32> = vec_in_huge_pages(places.iter().map(column));
        let own = |row: usize| (starts[row]..starts[row + 1]).find(|at| columns[*at] as usize == row);
        let middles = (0..rows).map(|row| own(row).expect("a value on the diagonal")).collect();
        let mut inside: Vec<Range<usize>> = Vec::new();
        let mut groups = BTreeMap::<Vec<usize>, Vec<u32>>::new();
        for row in 0..rows {
            let others = places[starts[row]..starts[row + 1]].iter().filter(|(owner, _)| *owner != shard);
            let from: BTreeSet<usize> = others.map(|(owner, _)| place(*owner)).collect();
            match inside.last_mut().filter(|run| run.end == row) {
                _ if !from.is_empty() => groups.entry(from.into_iter().collect()).or_default().push(row as u32),
                Some(run) => run.end += 1,
                None => inside.push(row..row + 1),
            }
        }
        let finer = if level + 1 < levels { dealt.finer(shard, level + 1) } else { Vec::new() };
        let values = vec_in_huge_pages(values.into_iter());
        let mut local = Self { starts, columns, values, middles, neighbours, inside, borders: Vec::new(), finer };
        local.borders = few(groups).into_iter().map(|(from, rows)| local.border(from, rows)).collect();
        local
    }

    /// The rows that need the ghosts of some neighbours.
    fn border(&self, from: Vec<usize>, rows: Vec<u32>) -> Border {
        let (mut entries, mut ends) = (Vec::new(), Vec::new());
        for row in &rows {
            entries.extend(self.row(*row as usize).map(|(column, value)| {
                let mut came = self.rows();
                for ghosts in from.iter().map(|n| &self.neighbours[*n].ghosts) {
                    if ghosts.contains(&(*column as usize)) {
                        return ((came + *column as usize - ghosts.start) as u32, *value);
                    }
                    came += ghosts.len();
                }
                (*column, *value)
            }));
            ends.push(entries.len());
        }
        Border { from, rows, entries, ends }
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
        self.rest_of_product(0.0, self.starts[row]..self.starts[row + 1], x)
    }

    /// The rows that use no ghosts, times a vector. Two rows at a time: each addition waits for the one before it in its
    /// row, and meanwhile the other row goes on.
    pub fn multiply_inside(&self, x: &[f64], y: &mut [f64]) {
        for run in &self.inside {
            let mut pairs = y[run.clone()].chunks_exact_mut(2);
            for (row, y) in run.clone().step_by(2).zip(&mut pairs) {
                [y[0], y[1]] = self.two_products(row, x);
            }
            pairs.into_remainder().iter_mut().for_each(|y| *y = self.product(run.end - 1, x));
        }
    }

    /// What `product` gives for a row and the next one.
    #[inline]
    fn two_products(&self, row: usize, x: &[f64]) -> [f64; 2] {
        let ends = [row, row + 1].map(|row| self.starts[row]..self.starts[row + 1]);
        let both = ends[0].len().min(ends[1].len());
        let [c0, c1] = ends.clone().map(|range| &self.columns[range][..both]);
        let [v0, v1] = ends.clone().map(|range| &self.values[range][..both]);
        let mut sums = [0.0; 2];
        for n in 0..both {
            sums[0] += v0[n] * x[c0[n] as usize];
            sums[1] += v1[n] * x[c1[n] as usize];
        }
        let [one, other] = ends.map(|range| range.start + both..range.end);
        [self.rest_of_product(sums[0], one, x), self.rest_of_product(sums[1], other, x)]
    }

    #[inline]
    fn rest_of_product(&self, sum: f64, range: Range<usize>, x: &[f64]) -> f64 {
        self.entries(range).fold(sum, |sum, (column, value)| sum + value * x[*column as usize])
    }

    /// r − A x for a row of the next level. `x` has ghosts.
    pub fn restricted(&self, coarse: usize, r: &[f64], x: &[f64]) -> f64 {
        let row = self.finer[coarse] as usize;
        r[row] - self.product(row, x)
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
