//! The kernel against the sequential reference.

use maniple_stencil::{Blocks, StencilError, kernel, reference};
use proptest::prelude::*;

/// The kernel on every block of a periodic vector: the derivative, and the sum of the blocks' sums.
fn by_blocks(u: &[f64], shards: usize) -> (Vec<f64>, f64) {
    let n = u.len();
    let mut d = u.to_vec();
    let mut sum = 0.0;
    for r in Blocks::balanced(shards, n).expect("enough cells").ranges() {
        let left = [u[(r.start + n - 2) % n], u[(r.start + n - 1) % n]];
        let right = [u[r.end % n], u[(r.end + 1) % n]];
        sum += kernel::step(&mut d[r], left, right, 1.0, 1.0 / n as f64);
    }
    (d, sum)
}

fn assert_same(u: &[f64], shards: usize) {
    let n = u.len() as f64;
    let (d, sum) = by_blocks(u, shards);
    let want = reference::derivative(u);
    let largest = u.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    for (i, (d, want)) in d.iter().zip(&want).enumerate() {
        assert!((d - want).abs() <= 16.0 * f64::EPSILON * 1.5 * n * largest, "cell {i}: {d} and {want}");
    }
    let squares: f64 = d.iter().map(|d| d * d).sum();
    assert!((sum - squares).abs() <= 1e-13 * squares, "{sum} and {squares}");
}

#[test]
fn every_small_length() {
    for n in 4..200 {
        let u: Vec<f64> = (0..n).map(|i| (i as f64 * 1.7).sin() + 0.1 * i as f64).collect();
        assert_same(&u, 1);
    }
}

#[test]
fn lengths_around_a_panel() {
    for n in (kernel::PANEL - 20..kernel::PANEL + 40).chain(2 * kernel::PANEL - 3..2 * kernel::PANEL + 20) {
        let u: Vec<f64> = (0..n).map(|i| (i as f64 * 0.3).cos()).collect();
        assert_same(&u, 1);
    }
}

#[test]
fn shorter_than_the_ghosts() {
    // The kernel itself asks for no least length: cells 1, 2, 4, 8, 16 are the first powers of two.
    let step = |d: &mut [f64], left, right| kernel::step(d, left, right, 1.0, 1.0 / 12.0);
    assert_eq!(step(&mut [], [1.0, 2.0], [3.0, 4.0]), 0.0);
    let mut d = [4.0];
    let sum = step(&mut d, [1.0, 2.0], [8.0, 16.0]);
    assert_eq!((d, sum), ([33.0], 33.0 * 33.0));
    let mut d = [4.0, 8.0];
    let sum = step(&mut d, [1.0, 2.0], [16.0, 32.0]);
    assert_eq!((d, sum), ([33.0, 66.0], 33.0 * 33.0 + 66.0 * 66.0));
}

/// The order of the sum as documented, written out plainly.
#[test]
fn sum_has_the_documented_order() {
    for n in [5, 15, 16, 17, 18, 33, 100, 1000, 1024, 1025, 1026, 1041, 2048, 3000] {
        let mut d: Vec<f64> = (0..n).map(|i| ((i * i) as f64).sin()).collect();
        let sum = kernel::step(&mut d, [0.3, 0.7], [0.2, 0.9], 1.7, 1.0 / n as f64);
        let mut want = 0.0;
        for panel in (2..n - 2).collect::<Vec<_>>().chunks(kernel::PANEL) {
            let mut l = [0.0; kernel::LANES];
            let (whole, rest) = panel.split_at(panel.len() / 16 * 16);
            for (k, &i) in whole.iter().enumerate() {
                l[k % 8] += d[i] * d[i];
            }
            let folded = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
            want += rest.iter().fold(folded, |sum, &i| sum + d[i] * d[i]);
        }
        for i in [0, 1, n - 2, n - 1] {
            want += d[i] * d[i];
        }
        assert_eq!(sum.to_bits(), f64::to_bits(want), "{n} cells: {sum} and {want}");
    }
}

#[test]
fn root_names_the_iteration() {
    assert_eq!(kernel::root(1, 4.0).expect("fine"), 2.0);
    assert!(matches!(kernel::root(7, 0.0), Err(StencilError::Vanished { iteration: 7 })));
    for s in [f64::INFINITY, f64::NAN] {
        assert!(matches!(kernel::root(3, s), Err(StencilError::Overflow { iteration: 3, .. })));
    }
}

proptest! {
    #[test]
    fn any_blocks_of_any_vector(u in prop::collection::vec(-1e3..1e3_f64, 4..700), shards in 1_usize..60) {
        assert_same(&u, shards.min(u.len() / 4));
    }

    /// Scaling within the step gives the bits of scaling before it.
    #[test]
    fn a_step_scales_first(
        d in prop::collection::vec(-1e3..1e3_f64, 0..2100),
        left in prop::array::uniform2(-1e3..1e3_f64),
        right in prop::array::uniform2(-1e3..1e3_f64),
        root in 1e-3..1e6_f64,
    ) {
        let scaled = |d: &[f64]| {
            let mut u = vec![0.0; d.len()];
            kernel::scale(d, root, &mut u);
            u
        };
        let pair = |d: [f64; 2]| scaled(&d).try_into().unwrap();
        let (mut at_once, mut after) = (d.clone(), scaled(&d));
        let sum = kernel::step(&mut at_once, left, right, root, 0.01);
        let want = kernel::step(&mut after, pair(left), pair(right), 1.0, 0.01);
        let bits = |d: &[f64]| d.iter().map(|d| d.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!((bits(&at_once), sum.to_bits()), (bits(&after), want.to_bits()));
    }

    #[test]
    fn scale_divides(d in prop::collection::vec(-1e6..1e6_f64, 0..50), root in 1e-3..1e6_f64) {
        let mut u = vec![0.0; d.len()];
        kernel::scale(&d, root, &mut u);
        for (u, d) in u.iter().zip(&d) {
            prop_assert!((u - d / root).abs() <= 2.0 * f64::EPSILON * (d / root).abs());
        }
    }

    #[test]
    fn blocks_cover_the_line_evenly(shards in 1_usize..100, total in 0_usize..5000) {
        let Ok(blocks) = Blocks::balanced(shards, total) else {
            prop_assert!(total / shards < 4);
            return Ok(());
        };
        let mut next = 0;
        let mut sizes = Vec::new();
        for range in blocks.ranges() {
            prop_assert_eq!(range.start, next);
            next = range.end;
            sizes.push(range.len());
        }
        prop_assert_eq!((next, sizes.len()), (total, shards));
        let (min, max) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
        prop_assert!(min >= 4 && max - min <= 1 && max == blocks.largest());
    }
}

#[test]
fn blocks_that_cannot_be() {
    let text = |b: Result<Blocks, StencilError>| b.expect_err("no such blocks").to_string();
    assert_eq!(text(Blocks::balanced(0, 10)), "shards: expected at least 1, found 0");
    assert_eq!(text(Blocks::uniform(0, 10)), "shards: expected at least 1, found 0");
    let few = "expected at least 4 cells in a shard, found 3 (10 cells over 3 shards)";
    assert_eq!(text(Blocks::balanced(3, 10)), few);
    assert_eq!(
        text(Blocks::uniform(usize::MAX, 2)),
        "18446744073709551615 shards of 2 cells are more cells than this machine can address"
    );
}
