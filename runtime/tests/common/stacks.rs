//! The stacks of tasks. The system says how far each may grow.

use maniple_runtime::{Arg, Error, Runtime, Shard, ShardLaunch};
use std::hint::black_box;

/// What callers and the system may have used of a stack before a task asks.
const USED: usize = 256 << 10;

/// The bytes from here down to the end of this thread's stack.
fn stack_left() -> usize {
    let local = 0u8;
    let here = (&raw const *black_box(&local)).addr();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let bounds = maps.lines().filter_map(|line| line.split(' ').next()?.split_once('-'));
    let bounds = bounds.map(|(from, to)| [from, to].map(|text| usize::from_str_radix(text, 16).expect("an address")));
    let mut around = bounds.filter(|[from, to]| (*from..*to).contains(&here));
    around.next().map(|[from, _]| here - from).expect("a stack")
}

/// As much as used to end a run on threads.
fn arrays(seed: Arg<u64>) -> (usize, u64) {
    let mut x = [0u64; 275_000];
    for (x, i) in x.iter_mut().zip(*seed..) {
        *x = i;
    }
    (stack_left() + size_of_val(&x), black_box(&x).iter().sum())
}

async fn shard(shard: Shard, (): ()) -> Result<[usize; 2], Error> {
    let seed = u64::from(shard.index());
    let (left_in_leaf, sum) = shard.launch(arrays, (seed.into(),)).go()?.await?;
    let n = 275_000;
    assert_eq!(sum, n * seed + n * (n - 1) / 2);
    Ok([stack_left(), left_in_leaf])
}

/// Shards and leaf tasks have the stack that the run asks for, and 8 MiB without.
pub fn tasks_have_the_stack_of_the_run(name: &str, runtime: &Runtime) {
    for stack in [None, Some(24 << 20)] {
        let asked = stack.iter().fold(runtime.clone(), |runtime, stack| runtime.stack(*stack));
        let outcome = asked.run(|top| async move {
            let (gang, task) = (top.gang("all", 3)?, top.register("shard", shard));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        });
        let (left, _) = outcome.unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected = stack.unwrap_or(8 << 20);
        // A thread may get the larger stack of one that has ended.
        let fits = |left: &usize| (expected - USED..5 * expected).contains(left);
        assert!(left.as_flattened().iter().all(fits), "{name} with {expected}: {left:?}");
    }
    let refused = runtime.clone().stack(Runtime::LEAST_STACK - 1).run(|_| async { Ok(()) });
    let refused = refused.expect_err("too little").to_string();
    assert!(refused.contains("stack of a worker: expected at least 65536 bytes, got 65535"), "{name}: {refused}");
    let least = runtime.clone().stack(Runtime::LEAST_STACK).run(|top| async move {
        let task = top.register("index", |shard: Shard, ()| async move { Ok(shard.index()) });
        top.launch_gang(&top.gang("all", 3)?, &task, |_| ShardLaunch::new(()))?.all().await
    });
    assert_eq!(least.map(|(indices, _)| indices), Ok(vec![0, 1, 2]), "{name}");
}
