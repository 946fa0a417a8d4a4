//! Each shard reads its neighbour's value after a barrier. Explored under schedules drawn from seeds, with slow messages and
//! pauses, the program is right; without the wait it is found to be wrong.

use maniple::prelude::*;
use maniple::regions::{Privilege, ReadShared, WriteShared};

mod common;

const V: Field<u64> = Field::new(0, "v");

fn put(mut slot: WriteShared<u64>, value: Arg<u64>) {
    slot.fill(*value);
}

fn take(slot: ReadShared<u64>) -> u64 {
    slot.get([slot.rect().lo(0)])
}

async fn shard(shard: Shard, (slots, step, waits): ([Region; 2], PhaseBarrier, bool)) -> Result<u64, Error> {
    let (left, own) = (shard.region(slots[0])?, shard.region(slots[1])?);
    let (all_put, my_turn) = (step.arriver(&shard)?, step.waiter(&shard)?);
    let value = u64::from(shard.index()) + 1;
    shard.launch(put, (own.write_shared(V), value.into())).arrive(&all_put).go()?.detach();
    let take = shard.launch(take, (left.read_shared(V),));
    let take = if waits { take.wait(&my_turn) } else { take };
    take.go()?.await
}

/// One run; an error if a value is wrong.
fn check(runtime: Runtime, shards: u32, waits: bool) -> Result<(), Error> {
    let (values, _) = runtime.run(move |top| async move {
        let slots = top.region_tree("slots", Rect::line(0, i64::from(shards)), &[V.info()])?;
        let slots: Vec<Region> = Partition::equal(slots, shards as usize)?.iter().collect();
        let gang = top.gang("all", shards)?;
        let step = top.phase_barrier("step", &gang, PhaseOptions::all(&gang))?;
        let task = top.register("shard", shard);
        let done = top.launch_gang(&gang, &task, |s| {
            let [left, own] = [(s + shards - 1) % shards, s].map(|s| slots[s as usize]);
            let start = ShardLaunch::new(([left, own], step, waits)).shares(own, [V], Privilege::ReadWrite);
            if left == own { start } else { start.shares(left, [V], Privilege::Read) }
        })?;
        done.all().await
    })?;
    let expected = (0..shards).map(|s| u64::from((s + shards - 1) % shards + 1)).collect();
    common::verify("values of left neighbours", values, expected)
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    check(Runtime::threads(workers), shards, true)?;
    let explored = maniple::explore(50, |runtime| check(runtime, shards, true)).map_err(Error::user)?;
    match maniple::explore(1000, |runtime| check(runtime, shards, false)) {
        Err(found) => Ok(format!("{} schedules are right\nwithout the wait, {found}", explored.runs)),
        Ok(_) => Err(Error::user("the missing wait was not found")),
    }
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
