//! `maniple cholesky`, `flow` and `broadcast` from outside: matrices of real files, every wire, and refusals.

use crate::common::arrays::{npy as array, path, values};
use crate::common::{maniple, refuses};
use std::path::{Path, PathBuf};

/// A file with a matrix of so many columns.
fn npy(name: &str, columns: usize, values: &[f64]) -> PathBuf {
    let shape = format!("({}, {columns})", values.len() / columns);
    array(name, ("<f8", false, &shape), &values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
}

/// A factor of whole numbers, and the matrix whose factor it is: whole numbers too, so both are exact.
fn factor_and_matrix(size: usize) -> (Vec<f64>, Vec<f64>) {
    let mut random = fastrand::Rng::with_seed(size as u64);
    let mut factor = vec![0.0; size * size];
    for row in 0..size {
        factor[row * size..][..row].iter_mut().for_each(|x| *x = f64::from(random.i32(-2..3)));
        factor[row * size + row] = f64::from(random.i32(8..12));
    }
    let of = |i: usize, j: usize| (0..=i.min(j)).map(|k| factor[i * size + k] * factor[j * size + k]).sum();
    let matrix = (0..size * size).map(|at| of(at / size, at % size)).collect();
    (factor, matrix)
}

#[test]
fn the_factor_of_a_file_is_the_one_that_made_it() {
    const SIZE: usize = 45;
    let (factor, matrix) = factor_and_matrix(SIZE);
    let input = npy("matrix.npy", SIZE, &matrix);
    for (number, on) in [
        "--tile 7 --workers 1",
        "--tile 64 --workers 3",
        "--tile 7 --wire processes --processes 3 --workers 1 --broadcast linear",
        "--tile 7 --wire virtual --machine local --nodes 5",
    ]
    .iter()
    .enumerate()
    {
        let output = path(&format!("factor-{number}.npy"));
        let (from, to) = (input.display(), output.display());
        let ran = maniple(&format!("cholesky --repeat 2 --input {from} --output {to} {on}"));
        assert!(ran.status.success() && ran.stderr.is_empty(), "{on}: {ran:?}");
        let report = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(report.matches(" yes ").count(), 2, "{on}: {report}");
        let found = values(&output);
        assert_eq!(found.len(), SIZE * SIZE);
        for (at, (found, expected)) in found.iter().zip(&factor).enumerate() {
            assert!((found - expected).abs() < 1e-9, "{on}: row {}, column {}: {found}", at / SIZE, at % SIZE);
        }
    }
}

/// The message of a run that fails, which writes no factor.
fn failure(input: &Path, more: &str) -> String {
    let output = path("none.npy");
    let ran = maniple(&format!("cholesky --tile 3 --input {} --output {} {more}", input.display(), output.display()));
    assert!(!ran.status.success() && !output.exists(), "{ran:?}");
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

#[test]
fn a_matrix_that_has_no_factor_is_refused_with_its_column() {
    let (_, mut matrix) = factor_and_matrix(10);
    // Column 7 has no positive pivot any more.
    matrix[77] -= 200.0;
    let indefinite = npy("indefinite.npy", 10, &matrix);
    for on in ["--workers 2", "--wire processes --processes 2 --workers 1"] {
        let said = failure(&indefinite, on);
        assert!(said.contains("column 7") && said.contains("not positive definite"), "{on}: {said}");
        assert_eq!(said.matches("maniple: error").count(), 1, "{on}: {said}");
    }
    matrix[77] = f64::NAN;
    let said = failure(&npy("nan.npy", 10, &matrix), "--workers 2");
    assert!(said.contains("nan.npy: ") && said.contains("NaN"), "{said}");
    let said = failure(&npy("oblong.npy", 3, &[1.0; 6]), "--workers 1");
    assert!(said.contains("oblong.npy: ") && said.contains("shape [2, 3]"), "{said}");
    let said = failure(&indefinite, "--workers 1 --size 11");
    assert!(said.contains("holds 10 rows, but 11 were asked for"), "{said}");
}

#[test]
fn arguments_of_flows_are_checked() {
    for (args, words) in [
        ("cholesky --tile 0", "--tile: expected at least 1, found 0"),
        ("cholesky --size 0", "--size: expected at least 1, found 0"),
        ("cholesky --under-way 0", "expected a number from 1, or `peer`"),
        ("cholesky --input matrix.txt", "matrix.txt: "),
        // Tiles of one number: (N² + N) / 2 of 8 bytes.
        ("cholesky --size 2097151 --tile 1", "a matrix of 2097151 rows: this needs at least 16.0 TiB of memory, and "),
        (
            "cholesky --size 4194304 --tile 2097152",
            "a matrix of 4194304 rows: this needs at least 96.0 TiB of memory, and ",
        ),
        ("flow --regions 4", "--regions: expected 1 to 3"),
        ("flow --window 0", "--window: expected at least 1, found 0"),
        ("broadcast --wire threads", "a broadcast needs several nodes: use --wire processes, --wire virtual, or "),
    ] {
        refuses(args, words);
    }
}

#[test]
fn a_matrix_that_fits_is_not_refused() {
    // 12 MiB of tiles.
    let ran = maniple("cholesky --size 2048 --tile 1024 --type f32 --repeat 1 --workers 2");
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
}

#[test]
fn a_flow_and_a_broadcast_are_verified_on_processes() {
    for args in [
        "flow --count 20000 --working-set 300 --regions 3 --window 256 --repeat 2 --wire processes --processes 3 --workers 1",
        "broadcast --bytes 100000 --recipients 1,3 --wire processes --processes 4 --workers 1",
    ] {
        let ran = maniple(&format!("{args} --format json"));
        let report = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && ran.stderr.is_empty(), "{args}: {ran:?}");
        assert_eq!(report.lines().count(), 2, "{args}: {report}");
        assert_eq!(report.matches("\"verified\":true").count(), 2, "{args}: {report}");
    }
}
