//! The mechanism, how its equations are integrated, and what a laboratory would measure.

use super::linear::Lu;
use std::array::from_fn;

/// Fewer in builds without optimisation.
pub const EXPERIMENTS: u32 = if cfg!(debug_assertions) { 6 } else { 420 };
pub const SAMPLES: usize = 16;
const MINUTES: f64 = 60.0;

/// Concentrations of A, B, C and V.
type State = [f64; 4];

/// Logarithms of the rate constants at 423 K, in the order of the reactions. The unit of time is a minute.
pub type Constants = [f64; CONSTANTS];
pub const CONSTANTS: usize = 5;

/// The constants that the measurements are made with.
pub const TRUE: [f64; CONSTANTS] = [0.02, 0.3, 3.0, 1000.0, 0.004];

/// Activation energies divided by the gas constant, in kelvin. They are known.
const ENERGIES: [f64; CONSTANTS] = [11e3, 9e3, 10e3, 8e3, 14e3];

/// The concentrations of A and V at each sample of an experiment.
pub type Samples = [f64; 2 * SAMPLES];

/// The rate constants at another temperature.
fn rates(logarithms: &Constants, kelvin: f64) -> [f64; CONSTANTS] {
    from_fn(|i| (logarithms[i] - ENERGIES[i] * (1.0 / kelvin - 1.0 / 423.0)).exp())
}

fn derivative(k: &[f64; CONSTANTS], [a, b, c, v]: State) -> State {
    let [start, active, link, back, loss] = [k[0] * a, k[1] * b, k[2] * c, k[3] * a * c, k[4] * v];
    [-start - back, start - active + back, active - link - back, link - loss]
}

fn jacobian(k: &[f64; CONSTANTS], [a, _, c, _]: State) -> [State; 4] {
    let (by_a, by_c) = (k[3] * c, k[3] * a);
    [
        [-k[0] - by_a, 0.0, -by_c, 0.0],
        [k[0] + by_a, -k[1], by_c, 0.0],
        [-by_a, k[1], -k[2] - by_c, 0.0],
        [0.0, 0.0, k[2], -k[4]],
    ]
}

/// A step of RODAS3, a Rosenbrock method of order 3, and an estimate of its error. The method is L-stable, so steps can
/// be much longer than the fastest reaction takes. (Sandu et al., *Atmospheric Environment* 31, 1997.)
fn step(k: &[f64; CONSTANTS], y: State, h: f64) -> (State, State) {
    let j = jacobian(k, y);
    let lu = Lu::of(from_fn(|r| from_fn(|c| f64::from(r == c) * 2.0 / h - j[r][c])));
    let f1 = derivative(k, y);
    let k1 = lu.solve(f1);
    let k2 = lu.solve(from_fn(|i| f1[i] + 4.0 * k1[i] / h));
    let f3 = derivative(k, from_fn(|i| y[i] + 2.0 * k1[i]));
    let k3 = lu.solve(from_fn(|i| f3[i] + (k1[i] - k2[i]) / h));
    let f4 = derivative(k, from_fn(|i| y[i] + 2.0 * k1[i] + k3[i]));
    let k4 = lu.solve(from_fn(|i| f4[i] + (k1[i] - k2[i] - 8.0 / 3.0 * k3[i]) / h));
    (from_fn(|i| y[i] + 2.0 * k1[i] + k3[i] + k4[i]), k4)
}

/// The samples of an experiment for several sets of constants. The first set chooses the steps, and all take the same
/// ones. So differences between sets that differ little are derivatives. All is NaN if no step is short enough.
pub fn simulate<const N: usize>(experiment: u32, constants: [Constants; N], tolerance: f64) -> [Samples; N] {
    // Each experiment has a temperature and a first concentration of A.
    let part = |golden: f64| (f64::from(experiment) * golden).fract();
    let k = constants.map(|constants| rates(&constants, 413.0 + 20.0 * part(0.618_033_988_75)));
    let mut y = [[0.5 + part(0.754_877_666_25), 0.0, 0.0, 0.0]; N];
    let mut samples = [[0.0; 2 * SAMPLES]; N];
    let mut usual = 1e-3;
    for sample in 0..SAMPLES {
        let mut left = MINUTES / SAMPLES as f64;
        while left > 0.0 {
            let h = left.min(usual);
            let (next, error) = step(&k[0], y[0], h);
            let error = error.map(|e| e * e).iter().sum::<f64>().sqrt() / tolerance;
            let longer = (0.9 * error.powf(-1.0 / 3.0)).clamp(0.2, 4.0);
            if error <= 1.0 {
                y = from_fn(|n| if n == 0 { next } else { step(&k[n], y[n], h).0 });
                left -= h;
                // A step that a sample cuts short says little about the next one.
                usual = if h == usual { h * longer } else { usual };
            } else if h * longer > 1e-9 {
                usual = h * longer;
            } else {
                return [[f64::NAN; 2 * SAMPLES]; N];
            }
        }
        for (samples, y) in samples.iter_mut().zip(&y) {
            samples[2 * sample..][..2].copy_from_slice(&[y[0], y[3]]);
        }
    }
    samples
}

/// The samples of an experiment as a laboratory measures them, with errors of about 0.001.
pub fn measure(experiment: u32) -> Samples {
    let [exact] = simulate(experiment, [TRUE.map(f64::ln)], 1e-8);
    from_fn(|i| {
        // The number of ones among 32 random bits is nearly normal.
        let hash = (u64::from(experiment) * 64 + i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        exact[i] + 0.000_35 * (f64::from((hash as u32).count_ones()) - 16.0)
    })
}
