//! Programs drawn from seeds, whose waits are given up at random.

use super::{Links, draw, drivers, is_time_out, links};
use crate::common::{mix, run};
use maniple_runtime::{Arg, Error, Shard, ShardLaunch};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Waits for what `make` makes, and gives up and starts again at random. Counts how often.
async fn patiently<T, F>(
    shard: &Shard,
    dice: &mut u64,
    count: &[AtomicU64; 2],
    make: impl Fn() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        let mut kept = pin!(make());
        for _ in 0..=draw(dice, 3) {
            // Mostly of the order of a few messages.
            let limit = match draw(dice, 4) {
                0 => Duration::ZERO,
                1 => Duration::from_nanos(draw(dice, 1 << 20)),
                _ => Duration::from_nanos(draw(dice, 1 << 14)),
            };
            let outcome = shard.timeout(limit, &mut kept).await;
            let was_late = outcome.as_ref().is_err_and(is_time_out);
            count[usize::from(was_late)].fetch_add(1, Ordering::Relaxed);
            if !was_late {
                return outcome;
            }
        }
    }
}

/// A program drawn from `seed`, the same steps for all shards: exchanges in a ring, phases with sums, leaf tasks behind
/// barriers. Gives the sums and what came through the ring.
async fn drawn(
    shard: Shard,
    (links, seed): (Links, u64),
    stored: Arc<[AtomicU64; 8]>,
    count: Arc<[AtomicU64; 2]>,
) -> Result<Vec<u64>, Error> {
    let (me, shards) = (u64::from(shard.index()), shard.shards());
    let from = (shard.index() + shards - 1) % shards;
    let (out, inn) =
        (links.there.producer(&shard, (shard.index() + 1) % shard.shards())?, links.there.consumer(&shard, from)?);
    let (arriver, waiter) = (links.phase.arriver(&shard)?, links.phase.waiter(&shard)?);
    let (adds, sum) = (links.sums.arriver(&shard)?, links.sums.waiter(&shard)?);
    let (mut program, mut dice) = (seed, mix(seed ^ me << 32));
    let mut came = Vec::new();
    for step in 0..25u64 {
        let value = mix(step << 8 | me) >> 16;
        match draw(&mut program, 4) {
            0 => {
                // One slot a shard: a wait that ends too early sees the value before, or overwrites one.
                patiently(&shard, &mut dice, &count, || shard.wait(out.empty())).await?;
                stored[me as usize].store(value, Ordering::Release);
                shard.arrive(out.ready());
                patiently(&shard, &mut dice, &count, || shard.wait(inn.ready())).await?;
                came.push(stored[from as usize].load(Ordering::Acquire));
                shard.arrive(inn.empty());
            }
            1 => {
                shard.arrive(&arriver);
                patiently(&shard, &mut dice, &count, || shard.wait(&waiter)).await?;
            }
            2 => {
                shard.arrive_with(&adds, value);
                came.push(patiently(&shard, &mut dice, &count, || shard.wait_value(&sum)).await?);
            }
            _ => {
                let stored = stored.clone();
                patiently(&shard, &mut dice, &count, || shard.wait(out.empty())).await?;
                let mine = stored.clone();
                let puts = shard.launch(move || mine[me as usize].store(value, Ordering::Release), ());
                puts.arrive(out.ready()).go()?.detach();
                // What a wait of the shard has given back the task's takes; what it has not the task need not wait for.
                let limit = Duration::from_nanos(draw(&mut dice, 4096));
                let is_late = shard.timeout(limit, shard.wait(inn.ready())).await.is_err_and(|e| is_time_out(&e));
                assert_eq!(inn.ready().generation() + u64::from(is_late), inn.empty().generation());
                let gets = shard.launch(move || stored[from as usize].load(Ordering::Acquire), ());
                let gets = if is_late { gets.wait(inn.ready()) } else { gets };
                let got = gets.arrive(inn.empty()).go()?;
                let points = |_| ((&got).into(),);
                let both = shard.index_launch(2, |x: Arg<u64>| *x, points).go()?;
                came.push(patiently(&shard, &mut dice, &count, || got.clone()).await?);
                let both = patiently(&shard, &mut dice, &count, || both.all()).await?;
                assert_eq!(both, [*came.last().unwrap_or(&0); 2]);
            }
        }
    }
    Ok(came)
}

/// The same without a runtime.
fn model(seed: u64, me: u64, shards: u64) -> Vec<u64> {
    let value = |step: u64, of: u64| mix(step << 8 | of) >> 16;
    let from = (me + shards - 1) % shards;
    let mut program = seed;
    let steps = (0..25).filter_map(|step| match draw(&mut program, 4) {
        0 | 3 => Some(value(step, from)),
        1 => None,
        _ => Some((0..shards).map(|s| value(step, s)).sum()),
    });
    steps.collect()
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn programs_with_deadlines_give_what_they_give_without() {
    let count: Arc<[AtomicU64; 2]> = Arc::default();
    for (at, runtime) in drivers(300) {
        let shards = 2 + (mix(at.len() as u64 + u64::from(at.as_bytes()[at.len() - 1])) % 3) as u32;
        let seed = mix(at.bytes().fold(0, |h, b| mix(h ^ u64::from(b))));
        // Every node's top-level task gets the same.
        let (stored, counted): (Arc<[AtomicU64; 8]>, _) = (Arc::default(), count.clone());
        let came = run(&at, &runtime, move |top| {
            let (stored, counted) = (stored.clone(), counted.clone());
            async move {
                let (gang, links) = links(&top, shards)?;
                let task =
                    top.register("drawn", move |shard, args| drawn(shard, args, stored.clone(), counted.clone()));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((links, seed)))?.all().await
            }
        });
        let came = came.unwrap_or_else(|e| panic!("{at}: {e}"));
        for (me, came) in (0..).zip(came) {
            assert_eq!(came, model(seed, me, u64::from(shards)), "{at}, shard {me}");
        }
    }
    let [in_time, late] = [&count[0], &count[1]].map(|c| c.load(Ordering::Relaxed));
    assert!(in_time > 1000 && late > 1000, "{in_time} in time, {late} late");
}
