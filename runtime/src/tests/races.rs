//! That what the check keeps does not grow with the length of a run.

use crate::diagnose::races::MOST_ALIKE;
use crate::{Arg, Check, Edges, Error, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch};
use maniple_regions::{Field, Partition, Privilege, ReadShared, ReadWrite, Rect, Region, WriteShared};
use std::time::Duration;

const U: Field<u64> = Field::new(0, "u");
const SHARDS: u32 = 4;

fn put(mut slot: WriteShared<u64>, own: ReadWrite<u64>) {
    slot.fill(own.as_slice()[0]);
}
fn get(slot: ReadShared<u64>, mut own: ReadWrite<u64>) {
    own.as_mut_slice()[0] = slot.get([slot.rect().lo(0)]) + 1;
}
fn after(_: Arg<()>) {}

type Args = (Edges, PhaseBarrier, Vec<Region>, Region, u32);

async fn ring(shard: Shard, (ring, gate, slots, own, steps): Args) -> Result<[usize; 6], Error> {
    let (me, n) = (shard.index(), shard.shards());
    let from = (me + n - 1) % n;
    let (out, inn) = (ring.producer(&shard, (shard.index() + 1) % shard.shards())?, ring.consumer(&shard, from)?);
    let (arriver, waiter) = (gate.arriver(&shard)?, gate.waiter(&shard)?);
    let (to, from) = (shard.region(slots[me as usize])?, shard.region(slots[from as usize])?);
    let own = shard.region(own)?;
    for step in 0..steps {
        let fill = shard.launch(put, (to.write_shared(U), own.read_write(U)));
        fill.wait(out.empty()).arrive(out.ready()).go()?.detach();
        let take = shard.launch(get, (from.read_shared(U), own.read_write(U)));
        let taken = take.wait(inn.ready()).arrive(inn.empty()).go()?;
        let end = shard.launch(after, ((&taken).into(),)).go()?;
        if step % 3 == 0 {
            end.await?;
            // A wait that is given up leaves nothing behind either.
            let early = shard.timeout(Duration::ZERO, shard.wait(&waiter)).await;
            assert!(matches!(early, Err(Error::TimedOut { .. })), "{early:?}");
            shard.arrive(&arriver);
            shard.wait(&waiter).await?;
        }
    }
    shard.no_leaves().await;
    let races = shard.core().effects().races();
    Ok(races.map_or([0; 6], |races| races.size()))
}

fn sizes(runtime: &Runtime, steps: u32) -> Result<[usize; 6], Error> {
    let (sizes, _) = runtime.clone().check(Check::Races).run(move |top| async move {
        let slots = top.region_tree("slots", Rect::line(0, SHARDS.into()), &[U.info()])?;
        let slots: Vec<Region> = Partition::equal(slots, SHARDS as usize)?.iter().collect();
        let own = top.region_tree("own", Rect::line(0, SHARDS.into()), &[U.info()])?;
        let own: Vec<Region> = Partition::equal(own, SHARDS as usize)?.iter().collect();
        let gang = top.gang("all", SHARDS)?;
        let pairs = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % SHARDS)), 1)?;
        let gate = top.phase_barrier("gate", &gang, PhaseOptions::all(&gang))?;
        let task = top.register("ring", ring);
        let done = top.launch_gang(&gang, &task, |s| {
            let (s, from) = (s as usize, ((s + SHARDS - 1) % SHARDS) as usize);
            let start = ShardLaunch::new((pairs, gate, slots.clone(), own[s], steps));
            let start = start.shares(slots[s], [U], Privilege::ReadWrite).shares(slots[from], [U], Privilege::Read);
            start.writes(own[s], [U])
        })?;
        done.all().await
    })?;
    Ok(sizes.into_iter().reduce(|a, b| std::array::from_fn(|i| a[i].max(b[i]))).unwrap_or_default())
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_long_run_keeps_no_more_than_a_short_one() -> Result<(), Error> {
    for runtime in [Runtime::threads(2), Runtime::seeded(3, 5)] {
        let long = sizes(&runtime, 1000)?;
        let [lanes, running, generations, calls, launches, accesses] = long;
        assert!(lanes <= 3 * SHARDS as usize, "{long:?}");
        assert!(running <= 8 * SHARDS as usize && generations <= 16 * SHARDS as usize, "{long:?}");
        assert!(calls == 0 && launches == 1 && accesses <= 2 * SHARDS as usize, "{long:?}");
    }
    Ok(())
}

/// Tasks that only read, that nobody awaits and nothing orders: the newest of each shard are kept, and their lanes.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn readers_that_nobody_awaits_are_not_kept_for_ever() -> Result<(), Error> {
    async fn looks(shard: Shard, slot: Region) -> Result<[usize; 6], Error> {
        let slot = shard.region(slot)?;
        for _ in 0..20 {
            for _ in 0..100 {
                shard.launch(|slot: ReadShared<u64>| slot.get([0]), (slot.read_shared(U),)).go()?.detach();
            }
            for _ in 0..300 {
                shard.yield_now().await;
            }
        }
        let races = shard.core().effects().races();
        Ok(races.map_or([0; 6], |races| races.size()))
    }
    for runtime in [Runtime::threads(2), Runtime::seeded(3, 5)] {
        let (sizes, _) = runtime.check(Check::Races).run(|top| async move {
            let slot = top.region_tree("slot", Rect::line(0, 1), &[U.info()])?;
            let (gang, task) = (top.gang("all", SHARDS)?, top.register("looks", looks));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(slot).shares(slot, [U], Privilege::Read))?.all().await
        })?;
        for [lanes, .., accesses] in sizes {
            let most = MOST_ALIKE * SHARDS as usize;
            assert!(accesses <= most && lanes <= most + SHARDS as usize, "{lanes} lanes, {accesses} uses");
        }
    }
    Ok(())
}

/// For measuring: `cargo test --release -p maniple-runtime-tests --test inside races -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn nightly_memory_of_100_000_steps() -> Result<(), Error> {
    let resident = || -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/status").ok()?;
        text.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok())
    };
    for steps in [1000, 10_000, 100_000] {
        println!("{steps} steps: {:?}, at most {:?} kB", sizes(&Runtime::threads(2), steps)?, resident());
    }
    Ok(())
}
