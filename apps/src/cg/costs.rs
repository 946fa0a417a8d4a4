//! What the tasks of an iteration cost in virtual time, in nanoseconds.

use super::Charges;
use super::local::{Border, Local, Neighbour};

impl Charges {
    /// What so many points stand for that extend in so many dimensions.
    fn finer(&self, points: usize, dimensions: u32) -> f64 {
        points as f64 * (self.finer as f64).powi(dimensions as i32)
    }

    /// The rows of a border. Rows at a face need one neighbour, at an edge three, and at a corner seven.
    fn rows_of(&self, border: &Border) -> f64 {
        let dimensions = 3u32.saturating_sub((border.from.len() + 1).ilog2());
        self.finer(border.rows.len(), dimensions)
    }

    fn rows_of_borders(&self, local: &Local) -> f64 {
        local.borders.iter().map(|border| self.rows_of(border)).sum()
    }

    /// A task on so many vectors without ghosts.
    pub fn vectors(&self, rows: usize, vectors: usize) -> f64 {
        self.finer(rows, 3) * vectors as f64 * self.value_ns
    }

    /// A step of the symmetric Gauss–Seidel method.
    pub fn smooth(&self, local: &Local) -> f64 {
        2.0 * self.finer(local.rows(), 3) * self.row_ns
    }

    /// The same from 0, where the way forth is half as long.
    pub fn smooth_zero(&self, local: &Local) -> f64 {
        1.5 * self.finer(local.rows(), 3) * self.row_ns
    }

    /// The residual at the points of a coarser grid.
    pub fn restrict(&self, coarse: &Local) -> f64 {
        self.finer(coarse.rows(), 3) * self.row_ns
    }

    /// The rows inside, times a vector.
    pub fn inside(&self, local: &Local) -> f64 {
        (self.finer(local.rows(), 3) - self.rows_of_borders(local)) * self.row_ns
    }

    /// The rows of a border, times a vector.
    pub fn border(&self, border: &Border) -> f64 {
        self.rows_of(border) * self.row_ns
    }

    /// The products at the borders are put into their vector.
    pub fn merge(&self, local: &Local) -> f64 {
        self.rows_of_borders(local) * self.value_ns
    }

    /// The values for all neighbours are packed.
    pub fn pack(&self, local: &Local) -> f64 {
        let values = |n: &Neighbour| self.finer(n.sends.len(), n.extent as u32);
        local.neighbours.iter().map(values).sum::<f64>() * self.value_ns
    }

    /// The ghosts from a neighbour are put into their vector.
    pub fn receive(&self, neighbour: &Neighbour) -> f64 {
        self.finer(neighbour.ghosts.len(), neighbour.extent as u32) * self.value_ns
    }
}
