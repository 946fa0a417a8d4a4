//! Whole runs: reports, inputs, outputs and refusals.

use maniple::mapper::MapperSpec;
use maniple::runtime::VirtualMachine;
use maniple_stencil::{Bind, Collective, Config, Samples, Session, StencilError, Times, io, plural, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runs-{}-{name}", std::process::id()))
}

fn small() -> Config {
    Config { shards: 3, cells: Some(20), iterations: 7, repeat: 2, workers: 2, ..Config::default() }
}

fn refused(config: &Config) -> StencilError {
    run(config).expect_err("refused")
}

#[test]
fn defaults() {
    let config = Config::default();
    assert_eq!((config.shards, config.cells, config.iterations, config.repeat), (16, None, 20, 10));
    assert_eq!((config.collective, config.mapper.name()), (Collective::RecursiveDoubling, "collective"));
    assert_eq!(config.workers, std::thread::available_parallelism().map_or(1, usize::from));
}

#[test]
fn reports_say_what_was_asked_for() {
    for &collective in Collective::ALL {
        for mapper in ["default", "collective"].map(|name| name.parse::<MapperSpec>().expect("a mapper")) {
            let reports = run(&Config { collective, mapper: mapper.clone(), ..small() }).expect("runs");
            assert_eq!(reports.len(), 2);
            for (i, report) in reports.iter().enumerate() {
                assert!(report.verified, "{:?}", report.failure);
                assert_eq!((report.program, report.shards, report.workers), ("stencil", 3, 2));
                assert_eq!((report.cells, report.iterations, report.repeat), (20, 7, i));
                assert_eq!((report.collective, &report.mapper), (collective, &mapper));
                assert!(report.error < 1e-12 && (report.result / report.expected - 1.0).abs() < 1e-12);
                let Samples { iteration_us, collective_us } = &report.samples;
                assert_eq!((iteration_us.len(), collective_us.len()), (7, 7));
                // Two shards share a worker.
                let pairs = |us: &[f64]| [0, 2, 4].map(|i| (us[i] + us[i + 1]) / 2.0);
                assert_eq!(Times::of(&pairs(iteration_us)), report.iteration_us);
                assert_eq!(Times::of(&pairs(collective_us)), report.collective_us);
            }
        }
    }
}

#[test]
fn an_input_is_dealt_evenly_and_the_output_is_the_last_vector() {
    let (input, output) = (path("in.csv"), path("out.npy"));
    let start: Vec<f64> = (0..62).map(|i| (i as f64 * 0.9).sin() + 0.2 * (i as f64).cos()).collect();
    io::Target::prepare(&input).expect("fine").write(&start).expect("fine");
    let config = Config { cells: None, input: Some(input.clone()), output: Some(output.clone()), ..small() };
    let reports = run(&config).expect("runs");
    assert!(reports.iter().all(|r| r.verified && r.cells == 21));

    let mut u = start;
    for _ in 0..7 {
        let n = u.len();
        let at = |i: usize, k: usize| u[(i + n + k - 2) % n];
        let d: Vec<f64> =
            (0..n).map(|i| (at(i, 0) - 8.0 * at(i, 1) + 8.0 * at(i, 3) - at(i, 4)) * n as f64 / 12.0).collect();
        let root = d.iter().map(|d| d * d).sum::<f64>().sqrt();
        u = d.iter().map(|d| d / root).collect();
    }
    let last = io::read(&output).expect("written");
    assert_eq!(last.len(), 62);
    assert!(last.iter().zip(&u).all(|(a, b)| (a - b).abs() < 1e-12));

    // A number of cells that agrees with the file is fine, another is not.
    let agreed = Config { shards: 2, cells: Some(31), ..config.clone() };
    assert!(run(&agreed).expect("runs")[0].verified);
    let message = refused(&Config { shards: 2, cells: Some(30), ..config.clone() }).to_string();
    assert!(message.ends_with("holds 62 numbers, but 2 shards of 30 cells were asked for; leave the cells out"));
    let few = refused(&Config { shards: 16, ..config });
    let enough = "holds 62 numbers, and a shard needs at least 4: enough for at most 15 shards, not for 16";
    assert!(few.to_string().ends_with(enough), "{few}");
}

#[test]
fn vectors_without_a_next_one() {
    let input = path("flat.f64");
    io::Target::prepare(&input).expect("fine").write(&[3.0; 40]).expect("fine");
    let config = Config { cells: None, input: Some(input.clone()), ..small() };
    let error = refused(&config);
    assert!(matches!(error, StencilError::Vanished { iteration: 1 }) && error.is_usage(), "{error}");
    assert_eq!(
        error.to_string(),
        "iteration 1: S = 0, so there is no next vector; the vector's derivative vanishes, or its squares underflow (then \
         scale the input)"
    );
    let large: Vec<f64> = (0..40).map(|i| 1e200 * f64::from(i)).collect();
    io::Target::prepare(&input).expect("fine").write(&large).expect("fine");
    assert_eq!(refused(&config).to_string(), "iteration 1: S = inf; the vector's values are too large");
}

#[test]
fn counts_that_are_refused() {
    let message = |config: Config| refused(&config).to_string();
    assert_eq!(message(Config { shards: 0, ..small() }), "shards: expected at least 1, found 0");
    assert_eq!(message(Config { workers: 0, ..small() }), "workers: expected at least 1, found 0");
    assert_eq!(message(Config { iterations: 0, ..small() }), "iterations: expected at least 1, found 0");
    assert_eq!(message(Config { repeat: 0, ..small() }), "repeat: expected at least 1, found 0");
    assert_eq!(message(Config { workers: 1025, ..small() }), "expected at most 1024 workers, found 1025");
    assert_eq!(
        message(Config { cells: Some(3), ..small() }),
        "expected at least 4 cells in a shard, found 3 (9 cells over 3 shards)"
    );
    assert_eq!(message(Config { shards: 1 << 32, ..small() }), "expected at most 4294967295 shards, found 4294967296");
    assert_eq!(
        message(Config { shards: 4_294_967_295, cells: Some(1_000_000_000), ..small() }),
        "4294967295 shards of 1000000000 cells are more cells than this machine can address"
    );
    let memory = message(Config { shards: 4_294_967_295, cells: Some(1000), ..small() });
    assert!(
        memory.starts_with("4294967295000 cells over 4294967295 shards, 7 iterations: this needs at least 81.3 TiB"),
        "{memory}"
    );
    let memory = message(Config { iterations: usize::MAX, ..small() });
    assert!(memory.contains("this needs at least 384.0 EiB of memory"), "{memory}");
}

#[test]
fn an_output_that_cannot_be_written_is_found_before_the_first_run() {
    // Too many iterations to wait for: the error comes at once.
    let output = path("missing").join("out.csv");
    let config = Config { iterations: 100_000_000, output: Some(output.clone()), ..small() };
    let error = Session::prepare(&config).expect_err("refused");
    assert_eq!(
        error.to_string(),
        format!("{}: can't be written: No such file or directory (os error 2)", output.display())
    );
}

#[test]
fn output_replaces_the_input_of_the_same_name() {
    let file = path("same.txt");
    fs::write(&file, "1\n2\n3\n5\n8\n13\n").expect("a file");
    let config = Config { shards: 1, cells: None, input: Some(file.clone()), output: Some(file.clone()), ..small() };
    assert!(run(&config).expect("runs")[0].verified);
    let norm: f64 = io::read(&file).expect("written").iter().map(|u| u * u).sum();
    assert!((norm - 1.0).abs() < 1e-14);
}

/// The trace of a run needs more than a directory that has gone.
#[test]
fn a_trace_that_cannot_be_written_loses_no_report() {
    let directory = path("gone");
    fs::create_dir_all(&directory).expect("a directory");
    let (trace, output) = (directory.join("trace.json"), path("kept.f64"));
    let config = Config { trace: Some(trace.clone()), output: Some(output.clone()), ..small() };
    let mut session = Session::prepare(&config).expect("it can be written yet");
    fs::remove_dir_all(&directory).expect("there");
    for repeat in 0..2 {
        let report = session.run_once().expect("a report");
        assert!(report.verified && report.repeat == repeat);
    }
    let lost = session.finish().expect_err("the trace is lost").to_string();
    assert!(lost.starts_with(&format!("{}: can't be written: ", trace.display())), "{lost}");
    assert_eq!(io::read(&output).expect("written all the same").len(), 60);
}

#[test]
fn reports_name_the_settings_that_are_not_the_defaults() {
    let machine = VirtualMachine { name: "mine".into(), nodes: 3, noise: 0.25, seed: 7, ..VirtualMachine::default() };
    let given = |config: &Config| -> Vec<String> {
        config.settings().given().into_iter().map(|(name, value)| format!("{name} {value}")).collect()
    };
    assert_eq!(given(&small()), [""; 0]);
    let set = Config { ahead: 0, bind: Bind::Cores, utility: 1, races: true, ..small() };
    assert_eq!(given(&set), ["ahead 0", "bind cores", "utility 1", "check races"]);
    let aggregation = Config { ahead: 0, collective: Collective::Aggregation, ..small() };
    assert_eq!(given(&aggregation), [""; 0]);
    let there = Config { machine: Some(Arc::new(machine)), ..small() };
    assert_eq!(given(&there), ["machine mine", "nodes 3", "noise 0.25", "noise_seed 7"]);
}

#[test]
fn numbers_have_the_right_noun() {
    assert_eq!([0, 1, 2].map(|n| plural(n, "shard")), ["0 shards", "1 shard", "2 shards"]);
    let config = Config { shards: 1, cells: Some(3), ..small() };
    assert_eq!(refused(&config).to_string(), "expected at least 4 cells in a shard, found 3 (3 cells over 1 shard)");
    let utility = refused(&Config { workers: 1, utility: 1, ..small() }).to_string();
    assert_eq!(utility, "expected fewer utility processors than 1 worker, found 1");
}

#[test]
fn times_of_samples() {
    let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
    let times = Times::of(&samples);
    assert_eq!(times, Times { min: 1.0, mean: 100.5, median: 100.5, p99: 198.0, max: 200.0 });
    // With fewer than 100, the largest.
    for n in [1, 2, 10, 99] {
        let times = Times::of(&samples[..n]);
        assert_eq!((times.p99, times.max), (200.0, 200.0), "{n}");
    }
    assert_eq!(Times::of(&samples[..100]).p99, 199.0);
    assert_eq!(Times::of(&[7.0]), Times { min: 7.0, mean: 7.0, median: 7.0, p99: 7.0, max: 7.0 });
    assert_eq!(Times::of(&[3.0, 1.0, 2.0]).median, 2.0);
    assert!(Times::of(&[]).median.is_nan());
}

#[test]
fn names_go_both_ways() {
    for &c in Collective::ALL {
        assert_eq!(c.name().parse(), Ok(c));
    }
    let unknown = |e: maniple_stencil::UnknownName| e.to_string();
    assert_eq!(
        "ring".parse::<Collective>().map_err(unknown),
        Err("unknown collective `ring`; expected one of recursive-doubling, two-level, aggregation".into())
    );
}
