//! Files that the studies read and write: odd ones, one file twice, full disks, and an option given twice.
#![cfg(unix)]

use crate::common::files;

#[test]
fn only_regular_files_are_read_and_written() {
    files::only_regular_files_are_read_and_written(&[
        "benchmarks --output @",
        "calibrate --output @",
        "predict --machine @.toml",
        "figures --machine @.toml --output ./never",
    ]);
}

#[test]
fn one_file_has_one_use() {
    files::one_file_has_one_use(&[
        ("m.toml", "benchmarks --wire virtual --only gang --machine A --output B"),
        ("m.toml", "benchmarks --wire virtual --only gang --machine ideal --mpi-machine A --output B"),
        ("m.toml", "calibrate --repeat 1 --wire virtual --machine A --output B"),
    ]);
}

#[test]
fn a_disk_that_fills_up_fails_the_run_and_leaves_the_old_file() {
    files::a_disk_that_fills_up_fails_the_run_and_leaves_the_old_file(&[(
        "calibrate --repeat 1 --operations 10 --shards 2,4,6,8,10,12,14,16 --output F.new",
        true,
        "[costs]",
    )]);
}

#[test]
fn an_option_given_twice_is_refused() {
    let options =
        files::an_option_given_twice_is_refused(&["benchmarks", "calibrate", "predict", "figures", "overlap"]);
    assert!(options > 20, "{options}");
}
