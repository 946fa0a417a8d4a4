//! The verification of a factor: ‖A − L Lᵀ‖ / ‖A‖, and the factor itself where it is known in closed form.

use super::kernels::{multiply, tile};
use super::{Matrix, Real, Tiles};
use faer::Mat;
use maniple::prelude::*;
use maniple::runtime::Many;

/// The errors of a factor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Found {
    /// The square of ‖A − L Lᵀ‖.
    difference: f64,
    /// The square of ‖A‖.
    norm: f64,
    /// The largest relative error of a value of L, if L is known.
    pub error: Option<f64>,
}

impl Found {
    /// ‖A − L Lᵀ‖ / ‖A‖.
    pub fn residual(&self) -> f64 {
        (self.difference / self.norm).sqrt()
    }

    /// What is wrong with the factor of a matrix of `size` rows: an error that rounding does not explain.
    pub fn failure<T: Real>(&self, size: usize) -> Option<String> {
        let most = most::<T>(size);
        let small = |x: f64| x <= most;
        match (small(self.residual()), self.error) {
            (false, _) => Some(format!("‖A − L Lᵀ‖ / ‖A‖ is {:.1e}, more than {most:.1e}", self.residual())),
            (true, Some(error)) if !small(error) => {
                Some(format!("a value of the factor has a relative error of {error:.1e}, more than {most:.1e}"))
            }
            _ => None,
        }
    }
}

/// The largest error that rounding explains: LAPACK's tests allow a residual of 30 N ε.
fn most<T: Real>(size: usize) -> f64 {
    30.0 * size as f64 * T::EPSILON
}

/// Computes the errors of a factor. Collective; may wait.
pub async fn verify<T: Real>(top: &Top, matrix: &Matrix<T>, tiles: &Tiles<T>) -> Result<Found, Error> {
    let mut parts = Vec::new();
    for (i, j, _) in tiles.all() {
        let matrix = matrix.clone();
        let part = move |left: Many<Read<T, 2>>, right: Many<Read<T, 2>>| {
            let place = left[j].rect();
            let own = &left[j];
            let (row, column) = (place.lo(1) as usize, place.lo(0) as usize);
            let mut product = Mat::<T>::zeros(place.extent(1), place.extent(0));
            for k in 0..=j {
                let other = if i == j { &left[k] } else { &right[k] };
                multiply((i, j, k), tile(&left[k]), tile(other), product.as_mut());
            }
            let (mut difference, mut norm) = (0.0, 0.0);
            for (c, values) in own.rows().enumerate() {
                for r in (0..values.len()).filter(|r| row + r >= column + c) {
                    let value = matrix.get(row + r, column + c).to_f64();
                    let off = value - product[(r, c)].to_f64();
                    // A value below the diagonal is above it, too.
                    let times = if row + r == column + c { 1.0 } else { 2.0 };
                    difference += times * off * off;
                    norm += times * value * value;
                }
            }
            (difference, norm, error(&matrix, own))
        };
        let row = |i: usize, n: usize| (0..n).map(move |k| tiles.of[i][k].read(tiles.field)).collect();
        let right = if i == j { 0 } else { j + 1 };
        top.window(Top::WINDOW).await;
        parts.push(top.launch(part, (row(i, j + 1), row(j, right))).named("verify").go()?);
    }
    let mut found = Found::default();
    for part in parts {
        let (difference, norm, error): (f64, f64, Option<f64>) = part.await?;
        found.difference += difference;
        found.norm += norm;
        if let Some(error) = error {
            found.error = Some(worse(error, found.error));
        }
    }
    Ok(found)
}

/// Compares the values of a factor with its closed form, each where it is. Collective; may wait.
///
/// # Errors
/// Those of the runtime.
pub async fn compare<T: Real>(top: &Top, matrix: &Matrix<T>, tiles: &Tiles<T>) -> Result<Found, Error> {
    let most = most::<T>(matrix.size());
    for (i, j, own) in tiles.all() {
        let matrix = matrix.clone();
        let compared = move |own: Read<T, 2>| match error(&matrix, &own) {
            Some(error) if error <= most => Ok(()),
            error => Err(Error::user(format!("tile ({i}, {j}): a relative error of {error:?}, more than {most:.1e}"))),
        };
        top.window(Top::WINDOW).await;
        top.try_launch(compared, (own.read(tiles.field),)).named("compare").go()?.detach();
    }
    top.done().await?;
    Ok(Found { norm: 1.0, ..Found::default() })
}

/// The largest relative error of the values of a tile of the factor, if they are known.
fn error<T: Real>(matrix: &Matrix<T>, own: &Read<T, 2>) -> Option<f64> {
    let (row, column) = (own.rect().lo(1) as usize, own.rect().lo(0) as usize);
    let mut found = None;
    for (c, values) in own.rows().enumerate() {
        for (r, l) in values.iter().enumerate().filter(|(r, _)| row + r >= column + c) {
            let expected = matrix.factor(row + r, column + c)?;
            found = Some(worse(((l.to_f64() - expected) / expected).abs(), found));
        }
    }
    found
}

/// The larger error. A NaN stays.
fn worse(error: f64, so_far: Option<f64>) -> f64 {
    let so_far = so_far.unwrap_or(0.0);
    if error > so_far || error.is_nan() { error } else { so_far }
}

const NOT_POSITIVE: &str = "no positive pivot in column ";

/// The message of a task that finds no positive pivot.
pub fn not_positive(column: u64) -> String {
    format!("{NOT_POSITIVE}{column}")
}

/// The column of such a message.
pub fn column_of(error: &Error) -> Option<u64> {
    error.origin().to_string().strip_prefix(NOT_POSITIVE)?.parse().ok()
}
