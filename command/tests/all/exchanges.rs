//! `maniple fft` and `maniple cg` from outside: real files, every wire, and refusals.

use crate::common::arrays::{npy, path, values};
use crate::common::{maniple, refuses};
use std::f64::consts::TAU;
use std::fs;

const WIRES: [&str; 4] = [
    "--shards 1 --workers 1",
    "--shards 5 --workers 3 --mapper any",
    "--shards 4 --wire processes --processes 3 --workers 1",
    "--shards 6 --wire virtual --machine local --nodes 5",
];

/// A complex number.
type C = (f64, f64);

/// A value of the spectrum of an array with three axes, by its definition.
fn value(shape: [usize; 3], values: &[C], k: [usize; 3]) -> C {
    let mut sum = (0.0, 0.0);
    for (at, x) in values.iter().enumerate() {
        let n = [at / shape[2] / shape[1], at / shape[2] % shape[1], at % shape[2]];
        let turns: f64 = (0..3).map(|d| (n[d] * k[d] % shape[d]) as f64 / shape[d] as f64).sum();
        let (sin, cos) = (-TAU * turns).sin_cos();
        sum = (sum.0 + x.0 * cos - x.1 * sin, sum.1 + x.0 * sin + x.1 * cos);
    }
    sum
}

#[test]
fn spectra_of_files_are_those_of_the_definition() {
    let mut random = fastrand::Rng::with_seed(3);
    let shape = [4, 6, 5];
    let all: Vec<C> = (0..120).map(|_| (random.f64() - 0.5, random.f64() - 0.5)).collect();
    // The same array in both orders; a real one; single floats of the other byte order; and two dimensions.
    let c16 = |x: &C| [x.0.to_le_bytes(), x.1.to_le_bytes()].concat();
    let c8 = |x: &C| [(x.0 as f32).to_be_bytes(), (x.1 as f32).to_be_bytes()].concat();
    let fortran = |at: usize| all[(at % 4 * 6 + at / 4 % 6) * 5 + at / 24];
    let real: Vec<C> = all.iter().map(|x| (x.0, 0.0)).collect();
    // Images: bytes, and whole numbers of several sizes.
    let whole: Vec<i8> = (0..120).map(|_| random.i8(..)).collect();
    let image: Vec<C> = whole.iter().map(|x| (f64::from(*x), 0.0)).collect();
    let bytes: Vec<C> = whole.iter().map(|x| (f64::from(*x as u8), 0.0)).collect();
    let large: Vec<C> = whole.iter().map(|x| (1000.0 * f64::from(*x), 0.0)).collect();
    let plane = [1, 12, 10];
    let integers = |x: &i8, size: usize| (1000 * i64::from(*x)).to_le_bytes()[..size].to_vec();
    let of = |size: usize| whole.iter().flat_map(|x| integers(x, size)).collect::<Vec<u8>>();
    let cases = [
        ("u1.npy", ("|u1", false, "(12, 10)"), whole.iter().map(|x| *x as u8).collect(), plane, &bytes, 1e-9),
        (
            "i2.npy",
            ("<i2", false, "(12, 10)"),
            whole.iter().flat_map(|x| i16::from(*x).to_le_bytes()).collect(),
            plane,
            &image,
            1e-9,
        ),
        (
            "u2.npy",
            ("<u2", false, "(12, 10)"),
            whole.iter().flat_map(|x| u16::from(*x as u8).to_le_bytes()).collect(),
            plane,
            &bytes,
            1e-9,
        ),
        ("i4.npy", ("<i4", false, "(12, 10)"), of(4), plane, &large, 1e-6),
        ("i8.npy", ("<i8", false, "(12, 10)"), of(8), plane, &large, 1e-6),
        ("c.npy", ("<c16", false, "(4, 6, 5)"), all.iter().flat_map(c16).collect::<Vec<u8>>(), shape, &all, 1e-12),
        (
            "f.npy",
            ("<c16", true, "(4, 6, 5)"),
            (0..120).map(fortran).flat_map(|x| c16(&x)).collect(),
            shape,
            &all,
            1e-12,
        ),
        (
            "r.npy",
            ("<f8", false, "(12, 10)"),
            real.iter().flat_map(|x| x.0.to_le_bytes()).collect(),
            [1, 12, 10],
            &real,
            1e-12,
        ),
        ("s.npy", (">c8", false, "(4, 6, 5)"), all.iter().flat_map(c8).collect(), shape, &all, 1e-5),
    ];
    for ((name, head, data, shape, expected, most), on) in cases.into_iter().zip(WIRES.into_iter().cycle()) {
        let (input, output) = (npy(name, head, &data), path(&format!("spectrum-{name}")));
        let files = format!("--input {} --output {}", input.display(), output.display());
        for mode in ["whole", "partial"] {
            let ran = maniple(&format!("fft --repeat 1 --iterations 2 --mode {mode} {files} {on}"));
            assert!(ran.status.success() && ran.stderr.is_empty(), "{on}: {ran:?}");
            assert!(String::from_utf8_lossy(&ran.stdout).contains(" yes "), "{on}: {ran:?}");
            let found: Vec<C> = values(&output).as_chunks().0.iter().map(|[re, im]| (*re, *im)).collect();
            assert_eq!(found.len(), 120);
            for (at, found) in found.iter().enumerate() {
                let k = [at / shape[2] / shape[1], at / shape[2] % shape[1], at % shape[2]];
                let exact = value(shape, expected, k);
                assert!(
                    (found.0 - exact.0).hypot(found.1 - exact.1) < most,
                    "{name}, {on}: {k:?}: {found:?}, {exact:?}"
                );
            }
        }
    }
}

/// The matrix with 4 on the diagonal and −1 beside it, and b = A x for x = 0, 1, 2 and so on.
fn tridiagonal(size: usize) -> (String, Vec<f64>) {
    let mut text = format!("%%MatrixMarket matrix coordinate real symmetric\n{size} {size} {}\n", 2 * size - 1);
    for row in 1..=size {
        text += &format!("{row} {row} 4\n");
        if row > 1 {
            text += &format!("{row} {} -1.0\n", row - 1);
        }
    }
    let x = |row: isize| if (0..size as isize).contains(&row) { row as f64 } else { 0.0 };
    let b = (0..size as isize).map(|row| 4.0 * x(row) - x(row - 1) - x(row + 1)).collect();
    (text, b)
}

#[test]
fn systems_of_files_are_solved() {
    let (text, b) = tridiagonal(50);
    let (input, right, output) = (path("a.mtx"), path("b.csv"), path("x.npy"));
    fs::write(&input, text).expect("a file");
    fs::write(&right, b.iter().map(|b| format!("{b}\n")).collect::<String>()).expect("a file");
    let files = format!("--input {} --right {} --output {}", input.display(), right.display(), output.display());
    for on in WIRES {
        for more in ["--mode whole --preconditioner none", "--mode partial"] {
            let ran = maniple(&format!("cg --repeat 1 --tolerance 1e-12 {more} {files} {on}"));
            assert!(ran.status.success() && ran.stderr.is_empty(), "{on}: {ran:?}");
            assert!(String::from_utf8_lossy(&ran.stdout).contains(" yes "), "{on}: {ran:?}");
            let x = values(&output);
            assert!(x.len() == 50 && x.iter().enumerate().all(|(at, x)| (x - at as f64).abs() < 1e-9), "{on}: {x:?}");
        }
    }
    // A tolerance that is not reached is an error, and the approximation is there.
    fs::remove_file(&output).expect("an output");
    let ran = maniple(&format!("cg --repeat 1 --tolerance 1e-12 --iterations 2 {files}"));
    let said = String::from_utf8_lossy(&ran.stderr);
    let expected = "--tolerance: expected ‖r‖ / ‖b‖ of at most 1e-12, found ";
    assert!(ran.status.code() == Some(1) && said.contains(expected) && said.contains(" after 2 iterations"), "{ran:?}");
    assert_eq!(values(&output).len(), 50);
}

#[test]
fn hpcg_converges_on_every_wire_as_on_one_thread() {
    let residual = |on: &str, mode: &str| {
        let ran = maniple(&format!("cg --points 8 --iterations 9 --repeat 1 --mode {mode} --format csv {on}"));
        assert!(ran.status.success() && ran.stderr.is_empty(), "{on}: {ran:?}");
        crate::common::csv::column(&String::from_utf8_lossy(&ran.stdout), "residual")
    };
    let expected = residual("--shards 6 --workers 1", "whole");
    assert!(expected.parse::<f64>().is_ok_and(|r| r < 1e-5), "{expected}");
    for on in ["--shards 6 --workers 2", "--shards 6 --wire processes --processes 2 --workers 1", WIRES[3]] {
        assert_eq!(residual(on, "partial"), expected, "{on}");
    }
}

#[test]
fn arguments_of_transforms_and_solutions_are_checked() {
    let unequal = path("unequal.mtx");
    fs::write(&unequal, "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 4\n1 2 1\n2 2 4\n").expect("a file");
    let short = path("short.txt");
    fs::write(&short, "1\n").expect("a file");
    let nan = npy("nan.npy", ("<f8", false, "(1, 2)"), &[1.0, f64::NAN].map(f64::to_le_bytes).concat());
    let line = npy("line.npy", ("<f8", false, "(2,)"), &[1.0_f64, 2.0].map(f64::to_le_bytes).concat());
    let (unequal, short, nan, line) = (unequal.display(), short.display(), nan.display(), line.display());
    for (args, words) in [
        ("fft --size 16", "expected 2 or 3 lengths, such as 1024x512, found `16`"),
        ("fft --size 16x0", "--size: expected at least 1, found 0"),
        ("fft --size 1e6x1e6x1e3", "an array of 1000000×1000000×1000 values: this needs at least "),
        ("fft --groups 0", "--groups: expected at least 1, found 0"),
        ("fft --iterations 0", "--iterations: expected at least 1, found 0"),
        ("fft --shards 0", "--shards: expected at least 1, found 0"),
        ("fft --shards 8193", "--shards: expected at most 8192 that exchange blocks with each other, found 8193"),
        ("fft --workers 0", "--workers: expected at least 1, found 0"),
        ("fft --input none.npy", "none.npy: can't be read: "),
        (&format!("fft --input {nan}"), "number 1 of the file: expected a finite number, found NaN"),
        (&format!("fft --input {line}"), "line.npy: expected an array of 2 or 3 dimensions, found 1"),
        (&format!("fft --input {nan} --output {nan}"), "both are the same file"),
        ("cg --points 0", "--points: expected at least 1, found 0"),
        ("cg --points 1e6", "1000000³ points for each of "),
        ("cg --iterations 0", "--iterations: expected at least 1, found 0"),
        ("cg --tolerance 1", "--tolerance: expected a number from 0 to below 1, found 1"),
        (&format!("cg --input {unequal}"), "the matrix is not symmetric: row 0, column 1 (from 0) has 1"),
        (&format!("cg --input {unequal} --points 3"), "--points is for HPCG's grid"),
        (
            &format!("cg --points 2 --shards 1 --right {short}"),
            "the right-hand side: expected 8 numbers, one for each row, found 1",
        ),
    ] {
        refuses(args, words);
    }
}

#[test]
fn a_result_is_written_though_the_trace_can_not_be() {
    let (output, trace) = (path("kept.npy"), path("large.json"));
    // Files of at most 8 KiB: enough for the result, and not for the trace.
    let limited = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
    for program in ["fft --size 4x4", "cg --points 2", "cholesky --size 10 --tile 2"] {
        let _ = fs::remove_file(&output);
        let files = format!("--output {} --trace {}", output.display(), trace.display());
        let args = format!("{program} {files} --workers 1 --repeat 1");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_maniple")]).args(args.split(' '));
        let ran = command.output().expect("a shell");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("large.json: can't be written: File too large"), "{program}: {ran:?}");
        assert!(ran.status.code() == Some(1) && output.exists(), "{program}: {ran:?}");
    }
}
