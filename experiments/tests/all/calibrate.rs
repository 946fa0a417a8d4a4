//! `maniple-experiments calibrate` and `maniple-experiments predict`.

use crate::common::{maniple, refuses};
use std::path::{Path, PathBuf};

fn succeeds(args: &str) -> String {
    let output = maniple(args);
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A file that is not there.
fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.toml", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn what_is_calibrated_is_a_machine_and_predicts() {
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    for workers in 1..=1 + u32::from(two) {
        let file = file(&format!("calibrated-{workers}"));
        let file = file.display();
        let tiny = "--shards 2,4 --repeat 2 --operations 60";
        assert_eq!(succeeds(&format!("calibrate --workers {workers} {tiny} --output {file}")), "");
        // What is there stays.
        let written = std::fs::read_to_string(file.to_string()).expect("it is there");
        let again = format!("--output: expected a new or an empty file, found {file} with {} bytes", written.len());
        refuses(&format!("calibrate --output {file}"), &again);
        assert_eq!(std::fs::read_to_string(file.to_string()).ok(), Some(written));
        let stencil = "stencil --shards 5 --cells 20 --iterations 6 --repeat 2 --format csv --wire virtual";
        let once = succeeds(&format!("{stencil} --machine {file}"));
        assert!(once.contains(",true,"), "{once}");
        let digests = |text: &str| -> Vec<String> {
            let at =
                text.lines().next().and_then(|head| head.split(',').position(|name| name == "digest")).expect(text);
            text.lines().skip(1).map(|line| line.split(',').nth(at).expect(line).to_owned()).collect()
        };
        assert_eq!(digests(&once), digests(&succeeds(&format!("{stencil} --machine {file}"))));

        if workers > 1 {
            continue;
        }
        let predict = format!("predict --machine {file} --shards 2,5 --cells 20 --repeat 1");
        let rows = succeeds(&format!("{predict} --format csv"));
        let header = "program,machine,shards,runs,disturbed,measured_us,first_us,median_us,third_us,predicted_us,error";
        let mut lines = rows.lines();
        assert_eq!(lines.next(), Some(header));
        let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        let names: Vec<_> = lines.iter().map(|fields| (fields[0], fields[2])).collect();
        assert_eq!(names, [("allreduce", "2"), ("allreduce", "5"), ("stencil", "2"), ("stencil", "5")]);
        for fields in &lines {
            let [measured, predicted, error] = [5, 9, 10].map(|at| fields[at].parse::<f64>().expect(&rows));
            assert!(measured > 0.0 && predicted > 0.0, "{rows}");
            assert!((predicted / measured - 1.0 - error).abs() < 1e-9, "{rows}");
        }
        // Without a machine it is this host, as it is between the runs.
        let rows = succeeds("predict --shards 2 --repeat 1 --programs allreduce --format csv");
        let fields: Vec<&str> = rows.lines().nth(1).expect("a row").split(',').collect();
        assert_eq!(fields[..3], ["allreduce", "host", "2"], "{rows}");
        assert!(fields[9].parse::<f64>().expect(&rows) > 0.0, "{rows}");
        let table = succeeds(&format!("predict --machine {file} --shards 2 --repeat 1 --programs allreduce"));
        assert!(table.contains("allreduce: median error ") && table.contains("\nall: median error "), "{table}");
    }
}

#[test]
fn what_can_not_be_is_refused() {
    for (args, expected) in [
        ("calibrate --shards 3", "expected an even number from 2 to 65536, found `3`"),
        ("calibrate --shards 16,4", "--shards: expected numbers in ascending order, found [16, 4]"),
        ("calibrate --workers 0", "--workers: expected at least 1, found 0"),
        ("calibrate --workers 100000", "more would take turns"),
        ("calibrate --wire virtual --machine titan-legion", "found `titan-legion` with one node of 2 processors"),
        ("calibrate --wire virtual --machine ideal", "found `ideal` with one node of 1 processor,"),
        ("calibrate --wire virtual --machine ideal --nodes 2", "found `ideal` with 2 nodes, each of 1 processor,"),
        ("calibrate --wire virtual --machine local --workers 2", "--workers is for --wire threads"),
        ("calibrate --repeat 0", "--repeat: expected at least 1, found 0"),
        ("calibrate --output /no/such/directory/local.toml", "/no/such/directory/local.toml: can't be written"),
        ("predict --machine ./none.toml", "./none.toml: can't be read: No such file"),
        ("predict --machine none", "unknown machine `none`"),
        ("predict --machine ideal --programs nothing", "nothing"),
        ("predict --machine ideal --shards 0", "0"),
        ("predict --machine ideal --cells 1", "1"),
        ("predict --machine ideal --repeat 0", "--repeat: expected at least 1, found 0"),
    ] {
        refuses(args, expected);
    }
}
