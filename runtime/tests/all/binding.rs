//! Where workers are bound, asked of the kernel by leaf tasks that run on them.
#![cfg(target_os = "linux")]

use crate::common::processes::alone;
use crate::common::watched;
use log::{LevelFilter, Log, Metadata, Record};
use maniple_mapper::topology::cpu_list;
use maniple_runtime::{Binding, Error, Runtime, Shard, ShardLaunch};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The warnings so far.
struct Warnings(Mutex<Vec<String>>);

impl Log for Warnings {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        locked(&self.0).push(record.args().to_string());
    }
    fn flush(&self) {}
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The processors that the calling thread may use.
fn mask() -> BTreeSet<u32> {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a mask");
    cpu_list(list.trim()).expect("a list")
}

async fn shard(shard: Shard, _: ()) -> Result<Vec<u32>, Error> {
    let masks = shard.launch(|| mask().into_iter().collect::<Vec<u32>>(), ()).go()?;
    masks.await
}

/// What each worker of a run could use.
type Masks = Result<Vec<BTreeSet<u32>>, Error>;

/// Runs in a thread that may use `allowed` only, which it still may afterwards. What each worker could use, and what the
/// run warned of.
fn run(allowed: &BTreeSet<u32>, workers: u32, binding: Binding) -> (Masks, Vec<String>) {
    static WARNINGS: Warnings = Warnings(Mutex::new(Vec::new()));
    // Set already by the run before.
    let _ = log::set_logger(&WARNINGS);
    log::set_max_level(LevelFilter::Warn);
    locked(&WARNINGS.0).clear();
    let mut set = CpuSet::new();
    allowed.iter().for_each(|&cpu| set.set(cpu as usize));
    let in_thread = || {
        sched_setaffinity(None, &set).expect("a part of the mask");
        let outcome = Runtime::threads(workers).binding(binding).run(move |top| async move {
            let (gang, task) = (top.gang("all", workers)?, top.register("asks", shard));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        });
        (outcome.map(|(masks, _)| masks.into_iter().map(BTreeSet::from_iter).collect()), mask())
    };
    let (outcome, after) =
        watched("binding", || std::thread::scope(|scope| scope.spawn(in_thread).join().expect("no panic")));
    assert_eq!(after, *allowed);
    (outcome, std::mem::take(&mut *locked(&WARNINGS.0)))
}

#[test]
fn unless_asked_for_nothing_is_bound() {
    alone("binding::unless_asked_for_nothing_is_bound", || {
        let all = mask();
        let (masks, warnings) = run(&all, 2, Binding::default());
        assert_eq!((masks.unwrap(), warnings), (vec![all.clone(), all], vec![]));
    });
}

#[test]
fn each_worker_has_a_processor_of_its_own() {
    alone("binding::each_worker_has_a_processor_of_its_own", || {
        let all = mask();
        let workers = all.len().min(8);
        let (masks, warnings) = run(&all, workers as u32, Binding::Cores);
        let masks = masks.unwrap();
        assert!(masks.iter().all(|mask| mask.len() == 1 && mask.is_subset(&all)), "{masks:?}");
        assert_eq!(masks.into_iter().collect::<BTreeSet<_>>().len(), workers);
        assert_eq!(warnings, [""; 0]);
    });
}

#[test]
fn workers_stay_within_the_mask_of_who_starts_them() {
    alone("binding::workers_stay_within_the_mask_of_who_starts_them", || {
        for only in mask() {
            let only = BTreeSet::from([only]);
            for binding in [Binding::Cores, Binding::Explicit(only.iter().copied().collect())] {
                let (masks, warnings) = run(&only, 1, binding);
                assert_eq!((masks.unwrap(), warnings), (vec![only.clone()], vec![]));
            }
        }
    });
}

#[test]
fn explicit_processors_may_be_shared() {
    alone("binding::explicit_processors_may_be_shared", || {
        let (all, last) = (mask(), *mask().last().unwrap());
        let (masks, warnings) = run(&all, 3, Binding::Explicit(vec![last; 3]));
        assert_eq!((masks.unwrap(), warnings), (vec![BTreeSet::from([last]); 3], vec![]));
    });
}

/// Outside the mask, where the kernel would allow it, and where there is no processor.
#[test]
fn however_many_are_refused_there_is_one_warning_and_the_run_goes_on() {
    alone("binding::however_many_are_refused_there_is_one_warning_and_the_run_goes_on", || {
        let all = mask();
        let first = BTreeSet::from([*all.first().unwrap()]);
        for not_allowed in all.iter().copied().skip(1).chain([999, 1_000_000]) {
            let (masks, warnings) = run(&first, 3, Binding::Explicit(vec![not_allowed; 3]));
            assert_eq!(masks.unwrap(), vec![first.clone(); 3]);
            let expected = format!(
                "some or all workers are not bound: worker 0 is to be on processor {not_allowed}, which is not one of the 1 that \
                 this process may use"
            );
            assert_eq!(warnings, [expected]);
        }
    });
}

#[test]
fn more_workers_than_processors_are_not_bound() {
    alone("binding::more_workers_than_processors_are_not_bound", || {
        let all = mask();
        let workers = all.len() as u32 + 1;
        let (masks, warnings) = run(&all, workers, Binding::Cores);
        assert_eq!(masks.unwrap(), vec![all.clone(); workers as usize]);
        let expected =
            format!("some or all workers are not bound: more workers ({workers}) than processors ({})", all.len());
        assert_eq!(warnings, [expected]);
    });
}

#[test]
fn a_processor_for_some_of_the_workers_is_refused() {
    alone("binding::a_processor_for_some_of_the_workers_is_refused", || {
        let (outcome, warnings) = run(&mask(), 2, Binding::Explicit(vec![0]));
        let expected = "number of processors to bind to: expected 2, one for each worker, got 1";
        assert_eq!((outcome.unwrap_err().to_string(), warnings), (expected.to_owned(), vec![]));
    });
}
