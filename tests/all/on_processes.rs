//! Runs on several processes of this host. Each test starts its own binary once more for each number of processes and
//! workers; that process runs the test's body, and the runtime starts its copies. All of them make the same assertions.

#![cfg(target_os = "linux")]

use crate::processes::{on_processes, on_processes_with};
use crate::say::say;
use crate::{denied, mappers, stacks, stuck};
use maniple::halo::{Ghosts, Halo, HaloOptions, Halos};
use maniple::mapper::{CollectiveMapper, DefaultMapper, Mapper, ProcessorId};
use maniple::prelude::*;
use maniple::regions::{Privilege, ReadShared, ReadWriteShared, WriteShared};
use maniple::runtime::{Binding, Faults, SlowLink, TraceFile};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHAPES: [(u32, u32); 7] = [(1, 1), (1, 2), (2, 1), (2, 3), (3, 1), (3, 2), (4, 1)];

const U: Field<f64> = Field::new(0, "u");
const CELLS: usize = 103;
const STEPS: u32 = 12;

fn fill(mut u: Write<f64>) {
    u.fill_with(|[i]| (i * 37 % 101) as f64 * 0.125 - 3.0);
}

fn step(mut u: ReadWrite<f64>, ghosts: Ghosts<f64>, sum: Arg<f64>) -> f64 {
    let old = ghosts.around([u.as_slice()].into_iter(), -1.5);
    let first = u.rect().lo(0);
    for (x, i) in u.as_mut_slice().iter_mut().zip(first..) {
        *x = (old[[i - 1]] + old[[i]] * 1.25 + old[[i + 1]]) / 3.0 + *sum * 1e-3;
    }
    u.as_slice().iter().map(|x| x * x).sum()
}

type Args = (Halo<f64>, Collective<f64>, Collective<[f64]>);
async fn shard(shard: Shard, (halo, total, vector): Args) -> Result<(Vec<u64>, Vec<f64>), Error> {
    let block = halo.block();
    let (u, halo) = (shard.region(block)?, halo.join(&shard)?);
    shard.launch(fill, (u.write(U),)).go()?.detach();
    let mut sums = Vec::new();
    let mut sum = 0.25;
    for _ in 0..STEPS {
        halo.send(u.read(U))?;
        let local = shard.launch(step, (u.read_write(U), halo.ghosts(), sum.into())).go()?;
        sum = total.call(&shard, &local)?.await?.sqrt();
        // Too large for the record of an arrival.
        let all = vector.call(&shard, vec![sum, f64::from(shard.index()), 0.1, 0.7, sum])?.await?;
        sums.extend(all.iter().map(|x| x.to_bits()));
    }
    Ok((sums, shard.launch(|u: Read<f64>| u.as_slice().to_vec(), (u.read(U),)).go()?.await?))
}

/// The sums and the cells after all steps.
fn relax(runtime: &Runtime, shards: u32) -> Result<(Vec<u64>, Vec<u64>), Error> {
    let (results, stats) = runtime.run(move |top| async move {
        let line = top.region_tree("line", Rect::line(0, CELLS as i64), &[U.info()])?;
        let (gang, blocks) = (top.gang("all", shards)?, Partition::equal(line, shards as usize)?);
        let halos = Halos::new(&top, "halo", &gang, &blocks, HaloOptions::new(1))?;
        let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
        let vector = Collective::<f64>::allreduce(Operator::sum()).elements(5).make(&top, &gang, "vector")?;
        let start = |s: u32| {
            let halo = halos.of(s);
            let block = halo.block();
            ShardLaunch::new((halo, total, vector)).writes(block, [U])
        };
        top.launch_gang(&gang, &top.register("shard", shard), start)?.all().await
    })?;
    assert_eq!(stats.shards, u64::from(shards), "counts are for all processes");
    assert!(results.iter().all(|(sums, _)| *sums == results[0].0), "all shards have the same sums");
    let cells = results.iter().flat_map(|(_, cells)| cells.iter().map(|x| x.to_bits())).collect();
    Ok((results[0].0.clone(), cells))
}

#[test]
fn a_relaxation_has_the_bits_that_it_has_on_threads() {
    on_processes("on_processes::a_relaxation_has_the_bits_that_it_has_on_threads", &SHAPES, |runtime| {
        for shards in [1, 2, 5, 8] {
            let expected = relax(&Runtime::threads(2), shards).expect("runs on threads");
            assert_eq!(expected.1.len(), CELLS);
            assert_eq!(relax(&runtime, shards).expect("runs on processes"), expected, "{shards} shards");
        }
    });
}

/// Runs a shard on each of four places, of which the last does `last`.
fn with_last(runtime: &Runtime, last: fn()) -> Error {
    let outcome = runtime.run(move |top| async move {
        let gang = top.gang("all", 4)?;
        let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
        let body = move |shard: Shard, total: Collective<f64>| async move {
            let mut x = 1.0;
            for round in 0..200 {
                if round == 100 && shard.index() == 3 {
                    last();
                }
                x = total.call(&shard, x)?.await? / 4.0;
            }
            Ok(x)
        };
        top.launch_gang(&gang, &top.register("body", body), |_| ShardLaunch::new(total))?.all().await
    });
    outcome.expect_err("the last shard does not go on")
}

#[test]
fn a_process_that_dies_ends_the_run_of_all() {
    let test = "on_processes::a_process_that_dies_ends_the_run_of_all";
    let texts = on_processes(test, &[(2, 1), (4, 1)], |runtime| {
        let error = with_last(&runtime, || std::process::abort());
        let Error::ProcessLost { process, why, .. } = &error else { panic!("{error}") };
        assert!(*process > 0 && !why.is_empty(), "{error}");
        say(&format!("told: {error}"));
    });
    // The first process knows how its copy ended.
    for (text, process) in texts.iter().zip([1, 3]) {
        assert!(text.contains(&format!("told: process {process} of the run, on ")), "{text}");
        assert!(text.contains("was ended by signal 6"), "{text}");
    }
}

/// A copy that is in a leaf task learns that the first process is gone, and nobody else would end it.
#[test]
fn a_copy_does_not_outlive_the_first_process_in_an_endless_task() {
    let test = "on_processes::a_copy_does_not_outlive_the_first_process_in_an_endless_task";
    let texts = on_processes(test, &[(2, 1)], |runtime| {
        if Runtime::process_number() == 1 {
            say(&format!("copy: {}", std::process::id()));
        }
        let _ = runtime.run(|top| async move {
            let body = |shard: Shard, ()| async move {
                let task = move |of: Arg<u32>| -> u32 {
                    match *of {
                        0 => {
                            std::thread::sleep(Duration::from_millis(500));
                            std::process::exit(0)
                        }
                        _ => loop {
                            std::thread::sleep(Duration::from_secs(60));
                        },
                    }
                };
                shard.launch(task, (shard.index().into(),)).go()?.await
            };
            top.launch_gang(&top.gang("both", 2)?, &top.register("body", body), |_| ShardLaunch::new(()))?.all().await
        });
    });
    let copy = texts[0].split_once("copy: ").and_then(|(_, rest)| rest.lines().next()).expect("it says its number");
    let began = Instant::now();
    // A process that nobody has asked how it ended has no memory any more.
    let lives =
        || std::fs::read_to_string(format!("/proc/{copy}/status")).is_ok_and(|status| status.contains("VmSize"));
    while lives() {
        assert!(began.elapsed() < Duration::from_secs(20), "process {copy} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_panic_is_the_same_error_in_all_processes() {
    on_processes("on_processes::a_panic_is_the_same_error_in_all_processes", &[(1, 2), (2, 1), (3, 2)], |runtime| {
        let error = with_last(&runtime, || panic!("on purpose"));
        assert!(error.to_string().contains("shard 3") && error.to_string().contains("on purpose"), "{error}");
        // The processes are there for another run.
        relax(&runtime, 3).expect("runs");
    });
}

#[test]
fn a_deadlock_is_found_across_processes() {
    on_processes("on_processes::a_deadlock_is_found_across_processes", &[(1, 1), (2, 1), (3, 1)], |runtime| {
        stuck::deadlock(&runtime);
    });
}

/// A copy that ends in any way before it comes to its run. Each case is a test: the copies of a test are the same program.
fn missed(test: &str, why: &str, leave: fn()) {
    let texts = on_processes(test, &[(2, 1), (4, 1)], |runtime| {
        if Runtime::process_number() > 0 && Runtime::process_number() + 1 == shape_processes() {
            leave();
        }
        let error = relax(&runtime, 3).expect_err("a copy has ended");
        assert!(matches!(error, Error::ProcessLost { .. }), "{error}");
        if Runtime::reports_errors() {
            say(&format!("told: {error}"));
        }
        // No later run waits either.
        assert!(matches!(relax(&runtime, 3), Err(Error::ProcessLost { .. })));
    });
    for (text, process) in texts.iter().zip([1, 3]) {
        assert_eq!(text.matches("told: ").count(), 1, "{text}");
        assert!(text.contains(&format!("told: process {process} of the run, on ")) && text.contains(why), "{text}");
    }
}

/// The processes of the set that this one belongs to.
fn shape_processes() -> u32 {
    let shape = std::env::var("MANIPLE_TEST_SHAPE").unwrap_or_default();
    shape.split(' ').next().and_then(|n| n.parse().ok()).expect("a process of a test")
}

#[test]
fn a_copy_that_ends_well_before_its_run_is_missed() {
    missed("on_processes::a_copy_that_ends_well_before_its_run_is_missed", "ended with code 0", || {
        std::process::exit(0)
    });
}

#[test]
fn a_copy_that_fails_before_its_run_is_missed() {
    missed("on_processes::a_copy_that_fails_before_its_run_is_missed", "ended with code 2", || std::process::exit(2));
}

#[test]
fn a_copy_that_panics_before_its_run_is_missed() {
    missed("on_processes::a_copy_that_panics_before_its_run_is_missed", "ended with code 101", || panic!("on purpose"));
}

#[test]
fn processes_that_differ_are_told_apart() {
    on_processes("on_processes::processes_that_differ_are_told_apart", &[(2, 1)], |runtime| {
        let is_copy = Runtime::process_number() > 0;
        let refused = |what: &str, first: &str, other: &str, change: &dyn Fn(Runtime) -> Runtime| {
            let runtime = if is_copy { change(runtime.clone()) } else { runtime.clone() };
            let error = relax(&runtime, 2).expect_err("they differ").to_string();
            let text =
                format!("{what} (must be the same in all processes): expected {first}, as in process 0, got {other}");
            assert!(error.contains(&format!("{text} in process 1")), "{error}");
        };
        refused("workers of a process", "1", "2", &|runtime| runtime.workers(2));
        let mapper = || Arc::new(maniple::mapper::DefaultMapper);
        refused("mapper", "`collective`", "`default`", &|runtime| runtime.mapper(mapper()));
        refused("binding", "None", "Explicit([0])", &|runtime| runtime.binding(Binding::Explicit(vec![0])));
        let slow = SlowLink { from: ProcessorId(0), to: ProcessorId(1), steps: 7 };
        let faults = Faults { slow: vec![slow], ..Faults::default() };
        let text = "messages from 0 to 1 take 7 steps more";
        refused("faults", "none", text, &|runtime| runtime.faults(faults.clone()));
        let file = TraceFile::create("/nowhere/trace.json").ok();
        refused("trace", "none", "one", &|runtime| runtime.trace(file.clone().expect("not touched here")));
        refused("number of processes", "2", "3", &|_| Runtime::processes(3).workers(1));
    });
}

#[test]
fn a_node_that_ends_alone_holds_nobody_up() {
    on_processes("on_processes::a_node_that_ends_alone_holds_nobody_up", &[(2, 1), (3, 2)], |runtime| {
        stuck::one_ends_alone(&runtime, 6, 0);
    });
}

/// Also where nothing else shows it: the call comes after the last launch.
#[test]
fn a_last_call_of_one_process_alone_is_a_divergence() {
    on_processes("on_processes::a_last_call_of_one_process_alone_is_a_divergence", &[(2, 1), (3, 2)], |runtime| {
        for one in [1, 0] {
            let error = runtime.run(move |top| async move {
                let task = top.register("body", |shard: Shard, ()| async move { Ok(shard.index()) });
                top.launch_gang(&top.gang("all", 6)?, &task, |_| ShardLaunch::new(()))?.all().await?;
                if Runtime::process_number() == one {
                    top.gang("one more", 1)?;
                }
                Ok(())
            });
            let error = error.expect_err("one process makes a gang more");
            assert!(matches!(error, Error::Divergence { .. }), "{error}");
        }
    });
}

/// Each process of a job of MPI may start processes of its own, whose numbers are others than the launcher's.
#[test]
fn processes_may_be_started_below_a_launcher() {
    let variables = [("PMI_SIZE", "2"), ("PMI_RANK", "1")];
    let test = "on_processes::processes_may_be_started_below_a_launcher";
    on_processes_with(&variables, test, &[(1, 1), (2, 1), (3, 2)], |runtime| {
        let expected = relax(&Runtime::threads(2), 3).expect("runs on threads");
        assert_eq!(relax(&runtime, 3).expect("runs"), expected);
    });
}

/// Memory that processes share fits into the limits that they have.
#[test]
fn limits_of_a_process_are_kept() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    on_processes("on_processes::limits_of_a_process_are_kept", &[(2, 1), (3, 1), (8, 1)], |runtime| {
        for (resource, limit) in [(Resource::Fsize, 1 << 30), (Resource::As, 8 << 30)] {
            setrlimit(resource, Rlimit { current: Some(limit), ..getrlimit(resource) }).expect("a lower limit");
            relax(&runtime, 3).expect("runs");
        }
    });
}

/// Runs where the system ends calls that the wire can do without with this error.
fn without_calls(test: &str, error: u32) {
    on_processes(test, &[(1, 2), (2, 1), (3, 2)], |runtime| {
        denied::deny(&[denied::MEMFD_CREATE, denied::PIDFD_OPEN], error);
        let file = rustix::fs::memfd_create("denied", rustix::fs::MemfdFlags::empty());
        let process = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
        assert!(file.is_err() && process.is_err());
        let expected = relax(&Runtime::threads(2), 3).expect("runs on threads");
        assert_eq!(relax(&runtime, 3).expect("runs"), expected);
        if shape_processes() > 1 {
            let error = with_last(&runtime, || std::process::abort());
            let is_known = matches!(&error, Error::ProcessLost { process: 1.., why, .. } if why.contains("signal 6"));
            assert!(is_known, "{error}");
        }
    });
}

/// As on old kernels.
#[test]
fn calls_that_the_system_does_not_have_are_done_without() {
    without_calls("on_processes::calls_that_the_system_does_not_have_are_done_without", denied::ENOSYS);
}

/// As under the rules of old containers.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn calls_that_the_system_forbids_are_done_without() {
    without_calls("on_processes::calls_that_the_system_forbids_are_done_without", denied::EPERM);
}

/// Memory in a directory that has space for all, for some, or for nothing: right results, or an error that says so.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_directory_without_room_for_shared_memory_is_an_error() {
    let test = "on_processes::a_directory_without_room_for_shared_memory_is_an_error";
    let mut unshare = vec!["unshare", "--mount"];
    if !rustix::process::geteuid().is_root() {
        unshare.push("--map-root-user");
    }
    let apart = |command: &[&str]| {
        let mut apart = Command::new(unshare[0]);
        apart.args(&unshare[1..]).args(command);
        apart
    };
    let (space, inside) = ("MANIPLE_TEST_ROOM", "MANIPLE_TEST_INSIDE");
    let is_case = std::env::var(space).is_ok();
    let may_mount =
        || apart(&["mount", "-t", "tmpfs", "none", "/dev/shm"]).status().is_ok_and(|status| status.success());
    if !is_case && !may_mount() {
        eprintln!("SKIPPED: namespaces are refused here");
        return;
    }
    let other = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&other).expect("a directory");
    // KiB that are free in `/dev/shm` and in `$TMPDIR`, the number of processes, and whether there is a result. None where
    // either is right.
    let some = [4, 12, 20, 24, 28, 32, 48, 128, 256].map(|free| (free, 0, 2, None));
    let cases =
        [(0, 0, 2, Some(false)), (0, 0, 1, Some(true)), (0, 1 << 15, 2, Some(true)), (1 << 15, 0, 2, Some(true))];
    for (shared, temporary, processes, expected) in cases.into_iter().chain(some) {
        let free = format!("{shared} {temporary}");
        let variables = [(space, &*free), ("TMPDIR", other.to_str().expect("a path"))];
        let texts = on_processes_with(&variables, test, &[(processes, 1)], |runtime| {
            if std::env::var(inside).is_err() {
                let mount = "of() {
                        mount -t tmpfs -o size=$(($1 + 4))k none \"$2\" && head -c 4096 /dev/zero >\"$2/used\"
                    }
                    of ${1% *} /dev/shm && of ${1#* } \"$TMPDIR\" && shift && exec \"$@\"";
                let free = std::env::var(space).expect("a case");
                let mut apart = apart(&["sh", "-c", mount, "sh", &free]);
                let error = apart.args(std::env::args_os()).env(inside, "").exec();
                panic!("{error}");
            }
            denied::deny(&[denied::MEMFD_CREATE], denied::EPERM);
            let expected = relax(&Runtime::threads(2), 3).expect("runs on threads");
            match relax(&runtime, 3) {
                Ok(came) => {
                    assert_eq!(came, expected);
                    say("right");
                }
                Err(error) => say(&format!("told: {error}")),
            }
        });
        if is_case {
            return;
        }
        let right = texts[0].contains("right");
        let told: Vec<&str> = texts[0].lines().filter(|line| line.contains("told: ")).collect();
        let is_known = told.iter().all(|line| line.contains("/dev/shm"));
        assert!(right == told.is_empty() && is_known, "{free}: {}", texts[0]);
        assert!(expected.is_none_or(|expected| expected == right), "{free}: {}", texts[0]);
    }
}

#[test]
fn tasks_have_the_stack_of_the_run() {
    on_processes("on_processes::tasks_have_the_stack_of_the_run", &[(2, 1), (3, 2)], |runtime| {
        stacks::tasks_have_the_stack_of_the_run("processes", &runtime);
    });
}

#[test]
fn a_run_leaves_no_file_open() {
    on_processes("on_processes::a_run_leaves_no_file_open", &[(1, 1), (3, 1)], |runtime| {
        let files = || std::fs::read_dir("/proc/self/fd").expect("Linux").count();
        relax(&runtime, 3).expect("runs");
        let before = files();
        for _ in 0..20 {
            relax(&runtime, 3).expect("runs");
        }
        let after = files();
        // The first process has files of the others for as long as they live: nobody ends before all have counted.
        relax(&runtime, 3).expect("runs");
        assert_eq!(after, before);
    });
}

#[test]
fn one_run_at_a_time() {
    on_processes("on_processes::one_run_at_a_time", &[(2, 1)], |runtime| {
        let other = runtime.clone();
        let (inner, _) = runtime
            .run(move |_| {
                let inner = relax(&other, 1).expect_err("one is under way").to_string();
                async move { Ok(inner) }
            })
            .expect("runs");
        assert!(inner.contains("one at a time"), "{inner}");
    });
}

const WORDS: u64 = 5000;

fn number(mut x: WriteShared<u64>) {
    let all: Vec<u64> = (0..WORDS).map(|i| i * i).collect();
    x.copy_from(&all);
}

fn mark(mut x: ReadWriteShared<u64>, shard: Arg<u32>) {
    let at = [i64::from(*shard) * 7];
    x.set(at, x.get(at) + 1000);
}

fn total(x: ReadShared<u64>) -> u64 {
    let mut all = vec![0; x.len()];
    x.copy_to(&mut all);
    all.iter().sum()
}

async fn sharer(shard: Shard, (line, all): (Region, Collective<u64>)) -> Result<[u64; 3], Error> {
    let x = shard.region(line)?;
    let mut sums = [0; 3];
    if shard.index() == 1 {
        shard.launch(number, (x.write_shared(X),)).go()?.await?;
    }
    all.call(&shard, 1)?.await?;
    sums[0] = shard.launch(total, (x.read_shared(X),)).go()?.await?;
    all.call(&shard, 1)?.await?;
    shard.launch(mark, (x.read_write_shared(X), shard.index().into())).go()?.await?;
    all.call(&shard, 1)?.await?;
    sums[1] = shard.launch(total, (x.read_shared(X),)).go()?.await?;
    sums[2] = all.call(&shard, 1)?.await?;
    Ok(sums)
}

const X: Field<u64> = Field::new(0, "x");

#[test]
fn registered_memory_is_used_in_place_and_ordinary_memory_is_staged() {
    let test = "on_processes::registered_memory_is_used_in_place_and_ordinary_memory_is_staged";
    on_processes(test, &[(1, 3), (2, 1), (3, 2), (4, 1)], |runtime| {
        let processes = runtime.clone();
        let mappers: [(Arc<dyn Mapper>, bool); 2] =
            [(Arc::new(CollectiveMapper), true), (Arc::new(DefaultMapper), false)];
        for (mapper, in_place) in mappers {
            let (sums, stats) = processes
                .clone()
                .mapper(mapper)
                .run(|top| async move {
                    let line = top.region_tree("line", Rect::line(0, WORDS as i64), &[X.info()])?;
                    let gang = top.gang("all", 7)?;
                    let all = Collective::allreduce(Operator::sum()).make(&top, &gang, "all")?;
                    let start = |_| ShardLaunch::new((line, all)).shares(line, [X], Privilege::ReadWrite);
                    top.launch_gang(&gang, &top.register("sharer", sharer), start)?.all().await
                })
                .expect("runs");
            let squares = (WORDS - 1) * WORDS * (2 * WORDS - 1) / 6;
            assert!(sums.iter().all(|sums| *sums == [squares, squares + 7000, 7]), "{sums:?}");
            let alone = std::env::var("MANIPLE_TEST_SHAPE").is_ok_and(|shape| shape.starts_with("1 "));
            assert_eq!(stats.moved_bytes == 0, in_place || alone, "{stats:?}");
            // The calls of the allreduce stage a word each.
            let words = |bytes: u64| bytes > 0 && bytes < 1000;
            assert!(
                if in_place { stats.staged_bytes == 0 } else { words(stats.staged_bytes - stats.moved_bytes) },
                "{stats:?}"
            );
        }
    });
}

#[test]
fn mappers_are_replaced_in_all_processes() {
    let shapes = [(1, 2), (2, 1), (2, 2), (3, 1), (4, 1)];
    on_processes(
        "on_processes::mappers_are_replaced_in_all_processes",
        &shapes,
        mappers::mappers_are_replaced_in_all_processes,
    );
}
