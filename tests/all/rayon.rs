//! Loops of rayon in leaf tasks.

use crate::processes;
use crate::size::part;
use maniple::prelude::*;
use maniple::runtime::{Binding, VirtualMachine};
use rayon::prelude::*;
use std::collections::HashSet;
use std::sync::Mutex;

/// The sum of the squares below n, by loops within loops, and the names of the threads that computed.
fn squares(n: Arg<u64>) -> (u64, Vec<String>) {
    let names = Mutex::new(HashSet::new());
    let note =
        || _ = names.lock().expect("no panic").insert(std::thread::current().name().unwrap_or_default().to_owned());
    let sum = maniple::rayon::install(|| {
        let row = |i: u64| {
            note();
            // A loop within a loop, in the pool of both.
            maniple::rayon::install(|| (0..*n).into_par_iter().filter(|j| j % *n == i).map(|j| j * j).sum::<u64>())
        };
        (0..*n).into_par_iter().map(row).sum()
    });
    (sum, names.into_inner().expect("no panic").into_iter().collect())
}

/// The sums of a shard, with the threads of each.
type Seen = Vec<(u64, Vec<String>)>;

/// Refuses wrong sums.
fn run(runtime: Runtime, times: usize) -> Result<Vec<Seen>, Error> {
    let body = move |shard: Shard, ()| async move {
        let mut all = Vec::new();
        for _ in 0..times {
            let launched = shard.index_launch(4, squares, |_| (30.into(),)).go()?;
            all.extend(launched.all().await?);
        }
        Ok(all)
    };
    let run = runtime.run(move |top| async move {
        let gang = top.gang("two", 2)?;
        top.launch_gang(&gang, &top.register("squares", body), |_| ShardLaunch::new(()))?.all().await
    });
    let all = run?.0;
    let expected = (0..30).map(|j| j * j).sum::<u64>();
    all.iter().flatten().for_each(|(sum, _)| assert_eq!(*sum, expected));
    Ok(all)
}

#[test]
fn eight_tasks_at_a_time_end_and_share_the_threads_of_one_pool() {
    for binding in [Binding::None, Binding::Cores] {
        let all = run(Runtime::threads(2).binding(binding), part(1250) as usize).expect("runs");
        let mut threads = HashSet::new();
        all.into_iter().flatten().for_each(|(_, names)| threads.extend(names));
        assert!(threads.iter().all(|name| name.starts_with("maniple rayon ")) && threads.len() <= 2, "{threads:?}");
    }
}

#[test]
fn in_virtual_time_and_seeded_runs_there_is_a_pool_too() {
    for runtime in [Runtime::seeded(2, 5), Runtime::virtual_time(VirtualMachine::default())] {
        run(runtime, 2).expect("runs");
    }
}

fn loops_end() {
    for (name, runtime) in processes::runtimes().expect("a body on processes") {
        run(runtime, 5).expect(&name);
    }
}

/// Each process has a pool of its own.
#[test]
fn on_processes() {
    processes::bodies_on_processes("rayon::on_processes", &[("loops", loops_end)]);
}

#[test]
fn a_panic_in_a_loop_is_the_error_of_its_task() {
    let body = |shard: Shard, ()| async move {
        let loops = || maniple::rayon::install(|| (0..100).into_par_iter().for_each(|i| assert!(i != 50, "at fifty")));
        shard.launch(loops, ()).named("fifty").go()?.await
    };
    let run = Runtime::threads(2).run(move |top| async move {
        let gang = top.gang("one", 1)?;
        top.launch_gang(&gang, &top.register("loops", body), |_| ShardLaunch::new(()))?.all().await
    });
    let error = run.expect_err("a panic").to_string();
    assert!(error.contains("fifty") && error.contains("at fifty"), "{error}");
}

/// The pool of bound workers may use the processors of all of them, and no others.
#[cfg(target_os = "linux")]
#[test]
fn the_pool_of_bound_workers_has_their_processors() {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let may_use = || {
        let set = sched_getaffinity(None).expect("Linux");
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect::<Vec<_>>()
    };
    let all = may_use();
    if all.len() < 2 {
        return eprintln!("SKIPPED: this needs two processors");
    }
    let two = [all[0] as u32, all[1] as u32];
    let body = move |shard: Shard, ()| async move {
        let seen = shard.launch(move || (may_use(), maniple::rayon::install(may_use)), ()).go()?;
        seen.await
    };
    let run = Runtime::threads(2).binding(Binding::Explicit(two.to_vec())).run(move |top| async move {
        let gang = top.gang("one", 1)?;
        top.launch_gang(&gang, &top.register("looks", body), |_| ShardLaunch::new(()))?.all().await
    });
    let (worker, pool) = run.expect("runs").0.remove(0);
    assert_eq!((worker.len(), pool), (1, all[..2].to_vec()));
}
