//! Systems of linear equations.

use std::array::from_fn;

/// A matrix as the product of two triangular ones, with its rows in another order.
pub struct Lu<const N: usize> {
    lu: [[f64; N]; N],
    order: [usize; N],
}

impl<const N: usize> Lu<N> {
    pub fn of(mut lu: [[f64; N]; N]) -> Self {
        let mut order = from_fn(|i| i);
        for i in 0..N {
            let largest = (i..N).fold(i, |best, r| if lu[r][i].abs() > lu[best][i].abs() { r } else { best });
            lu.swap(i, largest);
            order.swap(i, largest);
            for r in i + 1..N {
                lu[r][i] /= lu[i][i];
                for c in i + 1..N {
                    lu[r][c] -= lu[r][i] * lu[i][c];
                }
            }
        }
        Self { lu, order }
    }

    pub fn solve(&self, right: [f64; N]) -> [f64; N] {
        let mut x: [f64; N] = from_fn(|i| right[self.order[i]]);
        for i in 0..N {
            x[i] -= (0..i).map(|c| self.lu[i][c] * x[c]).sum::<f64>();
        }
        for i in (0..N).rev() {
            x[i] = (x[i] - (i + 1..N).map(|c| self.lu[i][c] * x[c]).sum::<f64>()) / self.lu[i][i];
        }
        x
    }
}
