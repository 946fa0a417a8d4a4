//! The stencil on several processes has the bits of the threads wire: the whole output vector, for every number of shards,
//! processes and workers, both versions and all stock mappers. On MPI, and on two hosts, one job takes a third of the cases of
//! a number of processes. The command on `--wire processes` takes a part of this product in which every two values of different
//! options meet. The full products are ignored, since they take long.

#![cfg(target_os = "linux")]

use crate::on_mpi::{is_open_mpi, launchers, mpirun};
use maniple_mapper::names;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::{Command, Output};

const VERSIONS: [&str; 2] = ["recursive-doubling", "aggregation"];

/// The choices: shards, processes, workers of each, version, mapper; each as a number from 0.
type Case = [usize; 5];

fn sizes() -> Case {
    [16, 4, 3, VERSIONS.len(), mappers().len()]
}

fn mappers() -> Vec<&'static str> {
    names().iter().copied().filter(|name| *name != "logging").collect()
}

fn product() -> Vec<Case> {
    let mut all = vec![[0; 5]];
    for (option, size) in sizes().into_iter().enumerate() {
        let with = |case: Case, value| {
            let mut case = case;
            case[option] = value;
            case
        };
        all = all.into_iter().flat_map(|case| (0..size).map(move |value| with(case, value))).collect();
    }
    all
}

/// The pairs of values in a case, each with the numbers of its options.
fn pairs(case: &Case) -> impl Iterator<Item = [(usize, usize); 2]> {
    let case = *case;
    (0..5).flat_map(move |b| (0..b).map(move |a| [(a, case[a]), (b, case[b])]))
}

/// A part of the product in which every pair of values occurs. Takes the case with the most new pairs until there are none.
fn all_pairs() -> Vec<Case> {
    let product = product();
    let mut left: HashSet<_> = product.iter().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    while !left.is_empty() {
        let new = |case: &&Case| pairs(case).filter(|pair| left.contains(pair)).count();
        let best = *product.iter().max_by_key(new).expect("a case");
        left.retain(|pair| !pairs(&best).any(|of| of == *pair));
        chosen.push(best);
    }
    chosen
}

/// The bytes of the last vector of `maniple stencil`, as this command starts it.
fn vector(mut command: Command, file: &PathBuf, what: &str) -> Vec<u8> {
    command.arg("--output").arg(file);
    let Output { status, stdout, stderr } = command.output().expect("starts");
    let (text, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{what}: {status}\n{text}{errors}");
    assert_eq!(text.matches("1 of 1 run verified").count(), 1, "{what}: {text}");
    let bytes = std::fs::read(file).expect("an output");
    std::fs::remove_file(file).expect("removed");
    bytes
}

/// Runs the cases by the command on `--wire processes`, each for at most two minutes.
fn on_processes(cases: &[Case]) {
    assert!(!cases.is_empty());
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("product-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let (file, mappers) = (directory.join("vector.npy"), mappers());
    let mut expected = HashMap::new();
    for &[shards, processes, workers, version, mapper] in cases {
        let (shards, processes, workers) = (shards + 1, processes + 1, workers + 1);
        let stencil = |on: &str| {
            let mut command = Command::new("timeout");
            command.args(["--kill-after", "5", "120", crate::MANIPLE]);
            command.args("stencil --cells 40 --iterations 12 --repeat 1".split(' ')).args(on.split(' '));
            command.args(["--shards", &shards.to_string(), "--collective", VERSIONS[version]]);
            command
        };
        let of = format!("{shards} shards, {}", VERSIONS[version]);
        let on_threads = expected
            .entry((shards, version))
            .or_insert_with(|| vector(stencil("--wire threads --workers 2"), &file, &of));
        assert_eq!(on_threads.len(), 128 + shards * 40 * 8, "{of}");
        let on = format!("--wire processes --processes {processes} --workers {workers} --mapper {}", mappers[mapper]);
        assert!(vector(stencil(&on), &file, &on) == *on_threads, "{of}, {on}: other bits than on threads");
    }
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn every_two_options_on_processes() {
    on_processes(&all_pairs());
}

#[test]
#[ignore = "takes minutes; see CONTRIBUTING.md"]
fn nightly_the_full_product_on_processes() {
    on_processes(&product());
}

/// A third of the product, in which every three values of different options meet.
fn a_third() -> Vec<Case> {
    product().into_iter().filter(|case| case.iter().sum::<usize>().is_multiple_of(3)).collect()
}

/// Says in a process of MPI how many there are, which run the product.
const PROCESSES: &str = "MANIPLE_TEST_PROCESSES";

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_third_of_the_product_on_mpi() {
    on_mpi("product::a_third_of_the_product_on_mpi", &a_third());
}

#[test]
#[ignore = "takes minutes; see CONTRIBUTING.md"]
fn nightly_the_full_product_on_mpi() {
    on_mpi("product::nightly_the_full_product_on_mpi", &product());
}

/// One job for each number of processes, since a launcher takes long to start. Two hosts have two processes each.
fn on_mpi(test: &str, cases: &[Case]) {
    if let Ok(processes) = std::env::var(PROCESSES) {
        return in_this_job(processes.parse().expect("a number"), cases);
    }
    let on_this_host = (1..=4).map(|n| (mpirun(n), n as usize));
    let on_two_hosts =
        launchers().into_iter().skip(1).map(|script| ([script, vec!["-n".into(), "4".into()]].concat(), 4));
    for (launcher, processes) in on_this_host.chain(on_two_hosts) {
        let mut job = Command::new(&launcher[0]);
        // Open MPI passes on the variables that `-x` names, others pass on all.
        job.args(&launcher[1..]).args(is_open_mpi().then_some(["-x", PROCESSES]).into_iter().flatten());
        job.arg(std::env::current_exe().expect("a test"));
        job.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
        job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let output = job.env(PROCESSES, processes.to_string()).output().expect("a launcher");
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{launcher:?}: {text}{errors}");
        assert_eq!(text.matches("1 passed").count(), processes, "{launcher:?}: {text}{errors}");
    }
}

fn in_this_job(processes: usize, cases: &[Case]) {
    use maniple::runtime::Runtime;
    use maniple_stencil::{Collective, Keep, Problem, Start, simulate};
    const CELLS: usize = 40;
    let mut expected = HashMap::new();
    for &[shards, _, workers, version, mapper] in cases.iter().filter(|case| case[1] + 1 == processes) {
        let (shards, workers, mapper) = (shards + 1, workers as u32 + 1, mappers()[mapper]);
        let start = (0..shards * CELLS).map(|i| (i as f64 * 0.7).sin() + 1.5).collect();
        let (sizes, start, keep) = (vec![CELLS; shards], Start::Vector(start), Keep::Each);
        let problem = Problem { sizes, start, iterations: 12, ahead: 0, keep, sink: None, checkpoints: None };
        let collective = [Collective::RecursiveDoubling, Collective::Aggregation][version];
        let bits = |runtime: &Runtime| {
            let output = simulate(runtime, collective, &problem).expect("runs");
            assert_eq!(output.vectors.iter().map(Vec::len).collect::<Vec<_>>(), [shards * CELLS; 12]);
            output.vectors.concat().into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        let on_threads = expected.entry((shards, version)).or_insert_with(|| bits(&Runtime::threads(2)));
        let runtime = Runtime::mpi().workers(workers).mapper(maniple_mapper::stock(mapper).expect("a stock mapper"));
        let what = format!("{shards} shards, {}, {processes} processes of {workers}, {mapper}", VERSIONS[version]);
        assert!(bits(&runtime) == *on_threads, "{what}: other bits than on threads");
    }
}

/// Every two values of different options meet in a case of the one, and every three in a case of the other.
#[test]
fn the_parts_of_the_product_have_all_pairs() {
    let (few, sizes) = (all_pairs(), sizes());
    assert_eq!(product().len(), 16 * 4 * 3 * 2 * mappers().len());
    assert!(few.len() < product().len() / 10, "{}", few.len());
    let third = a_third();
    for b in 0..5 {
        for a in 0..b {
            for (x, y) in (0..sizes[a]).flat_map(|x| (0..sizes[b]).map(move |y| (x, y))) {
                let meet = |case: &&Case| case[a] == x && case[b] == y;
                assert!(few.iter().any(|case| meet(&case)), "options {a} and {b}: {x} and {y}");
                for c in (0..5).filter(|c| ![a, b].contains(c)) {
                    let with: HashSet<usize> = third.iter().filter(meet).map(|case| case[c]).collect();
                    assert_eq!(with.len(), sizes[c], "options {a}, {b} and {c}: {x} and {y}");
                }
            }
        }
    }
}
