//! The kernels of a factorisation without an order between them: the speed that a machine's processors have for them.

use super::Real;
use super::kernels::{gemm, potrf, syrk, trsm};
use faer::Mat;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs as many kernels of each kind as the factorisation of a matrix of `size` rows has, with tiles of `tile` rows of which all
/// are full, on so many threads. No kernel waits for another. Each thread has its share of the matrix for itself, so that data
/// comes from as far away as in a factorisation. Returns the time of all threads together.
///
/// # Panics
/// `size`, `tile` or `threads` is 0, or a thread can't be started.
pub fn unordered<T: Real>(size: usize, tile: usize, threads: usize) -> Duration {
    let t = size.div_ceil(tile);
    // What is needed last is done last: kernels of one kind after the other, the shortest ones in the end.
    let counts = [t * (t - 1) * t.saturating_sub(2) / 6, t * (t - 1) / 2, t * (t - 1) / 2, t];
    let all: usize = counts.iter().sum();
    let (next, ready) = (AtomicUsize::new(0), std::sync::Barrier::new(threads + 1));
    let own = (t * (t + 1) / 2).div_ceil(threads).max(3);
    let value = |i: usize, j: usize| T::from_f64(((i * 7 + j * 13) % 17) as f64 / (17.0 * tile as f64));
    std::thread::scope(|scope| {
        let run = || {
            // Repeated kernels keep such values bounded: the unit matrix, and a little below its diagonal.
            let lower = Mat::from_fn(tile, tile, |i, j| match i.cmp(&j) {
                std::cmp::Ordering::Less => T::zero(),
                std::cmp::Ordering::Equal => T::one(),
                std::cmp::Ordering::Greater => value(i, j),
            });
            let mut tiles: Vec<Mat<T>> = (0..own).map(|n| Mat::from_fn(tile, tile, |i, j| value(i + n, j))).collect();
            ready.wait();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= all {
                    return;
                }
                let (a, b) = ((number * 5 + 1) % own, (number * 3 + 2) % own);
                let mut c = std::mem::replace(&mut tiles[number % own], Mat::new());
                // A tile that is written is not read at the same time.
                let [a, b] = [a, b].map(|n| if tiles[n].nrows() == tile { &tiles[n] } else { &lower });
                match number {
                    n if n < counts[0] => gemm(a.as_ref(), b.as_ref(), c.as_mut()),
                    n if n < counts[0] + counts[1] => syrk(a.as_ref(), c.as_mut()),
                    n if n < counts[0] + counts[1] + counts[2] => trsm(lower.as_ref(), c.as_mut()),
                    _ => {
                        let mut square = lower.clone();
                        let _ = potrf(square.as_mut());
                    }
                }
                tiles[number % own] = c;
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        ready.wait();
        let began = Instant::now();
        running.into_iter().for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        began.elapsed()
    })
}
