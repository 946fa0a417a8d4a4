//! Loops of the crate `rayon` in leaf tasks. Needs the feature `rayon`.
//!
//! A leaf task that uses `rayon` by itself uses its global pool, which has a thread for each processor that the program's first use of
//! it could see: too many if the workers compute at the same time, and a single one if that use was in a bound worker.
//! [`install`] runs a loop in a pool that has as many threads as this process has workers, on the same processors. A worker
//! waits meanwhile, so the threads that compute are about as many as the processors, however many leaf tasks do this at a time.
//!
//! ```
//! use maniple::prelude::*;
//! use rayon::prelude::*;
//!
//! const U: Field<f64> = Field::new(0, "u");
//!
//! fn roots(mut u: ReadWrite<f64>) {
//!     let u = u.as_mut_slice();
//!     maniple::rayon::install(|| u.par_iter_mut().for_each(|u| *u = u.sqrt()));
//! }
//!
//! let (sums, _) = Runtime::threads(2).run(|top| async move {
//!     let line = top.region_tree("line", Rect::line(0, 1000), &[U.info()])?;
//!     let gang = top.gang("one", 1)?;
//!     let task = top.register("roots", move |shard: Shard, ()| async move {
//!         let u = shard.region(line)?;
//!         shard.fill(u.write(U), 9.0).go()?.detach();
//!         shard.launch(roots, (u.read_write(U),)).go()?.detach();
//!         shard.launch(|u: Read<f64>| u.as_slice().iter().sum::<f64>(), (u.read(U),)).go()?.await
//!     });
//!     top.launch_gang(&gang, &task, |_| ShardLaunch::new(()).writes(line, [U]))?.all().await
//! })?;
//! assert_eq!(sums, [3000.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Rules
//!
//! - Accessors stay on their thread. Give the loop slices or views of them.
//! - While the loop runs, its worker handles no messages, as in any leaf task.
//! - `rayon` may run another job of the pool on a thread that waits in `join`, so hold no lock across a loop.
//! - A reduction of floats by `rayon` combines in an order that depends on which thread is idle: its bits vary. Loops that write
//!   each element once always give the same bits.

use maniple_runtime::Team;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs `body` in the pool of this process's workers, where `par_iter`, `join` and `scope` use the pool's threads. Local; waits
/// for it.
///
/// In virtual time, in seeded runs and outside of runs the pool has a thread for each processor that the calling thread may use.
/// Within `body`, another call runs at once on the same thread.
///
/// # Panics
///
/// If `body` does, or if the system can't start the threads.
pub fn install<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    pool().install(body)
}

/// The pool of this process's workers. It stays for the next use, also of later runs with as many workers.
fn pool() -> Arc<ThreadPool> {
    static POOLS: Mutex<Vec<(Arc<Team>, Arc<ThreadPool>)>> = Mutex::new(Vec::new());
    let team = Team::here().unwrap_or_else(|| {
        let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
        Arc::new(Team { workers, cpus: Vec::new() })
    });
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, pool)) = pools.iter().find(|(of, _)| *of == team) {
        return pool.clone();
    }
    let of = team.clone();
    let build = ThreadPoolBuilder::new()
        .num_threads(team.workers)
        .thread_name(|index| format!("maniple rayon {index}"))
        .start_handler(move |_| of.share());
    let pool = Arc::new(
        build.build().unwrap_or_else(|e| panic!("expected {} threads for a pool of rayon: {e}", team.workers)),
    );
    pools.push((team, pool.clone()));
    pool
}
