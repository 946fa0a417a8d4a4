//! Values that travel round a ring of shards through one slot between each two neighbours, guarded by edges.
use maniple::regions::{Privilege, ReadShared, WriteShared};

use maniple::prelude::*;
mod common;

const STEPS: u32 = 1000;
const V: Field<u64> = Field::new(0, "value");

/// The slot belongs to two shards at once, so its accessor gives no slices, only copies.
fn put(mut slot: WriteShared<u64>, value: Arg<u64>) {
    slot.fill(*value);
}

fn take(slot: ReadShared<u64>) -> u64 {
    let mut came = [0];
    slot.copy_to(&mut came);
    came[0]
}

/// Slot s lies between shard s, which fills it, and its right neighbour.
async fn pass(shard: Shard, (slots, edges): ([Region; 2], Edges)) -> Result<u64, Error> {
    let left = (shard.index() + shard.shards() - 1) % shard.shards();
    let (from_left, to_right) = (shard.region(slots[0])?, shard.region(slots[1])?);
    let (fill, drain) = (edges.producer(&shard, (shard.index() + 1) % shard.shards())?, edges.consumer(&shard, left)?);
    let mut value = shard.launch(|v: Arg<u64>| *v, (u64::from(shard.index()).into(),)).go()?;
    for _ in 0..STEPS {
        // Each use of a barrier stands for its next generation, so the loop may run far ahead of the tasks it launches.
        let put = shard.launch(put, (to_right.write_shared(V), (&value).into()));
        put.wait(fill.empty()).arrive(fill.ready()).go()?.detach();
        value = shard.launch(take, (from_left.read_shared(V),)).wait(drain.ready()).arrive(drain.empty()).go()?;
    }
    value.await
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (values, _) = Runtime::threads(workers).run(move |top| async move {
        let slots = top.region_tree("slots", Rect::line(0, i64::from(shards)), &[V.info()])?;
        let slots: Vec<Region> = Partition::equal(slots, shards as usize)?.iter().collect();
        let gang = top.gang("ring", shards)?;
        let edges = top.edges("slots", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?;
        let task = top.register("pass", pass);
        let shared = |start: ShardLaunch<_>, slot| start.shares(slot, [V], Privilege::ReadWrite);
        let done = top.launch_gang(&gang, &task, |s| {
            let (left, right) = (slots[((s + shards - 1) % shards) as usize], slots[s as usize]);
            shared(shared(ShardLaunch::new(([left, right], edges)), left), right)
        })?;
        done.all().await
    })?;
    let expected = (0..shards).map(|s| u64::from((s + shards - STEPS % shards) % shards)).collect();
    common::verify("values after the last step", values, expected)?;
    Ok(format!("{shards} values moved {STEPS} places to the right"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
