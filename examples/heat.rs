//! The heat equation in one dimension: ghost cells. No shard may hold a neighbour's edge while the neighbour writes it, so
//! each end of a block has a slot in a tree of its own, which the neighbour shares and fills once a step.

use maniple::prelude::*;
use serde::{Deserialize, Serialize};
mod common;

const CELLS: usize = 10;
const STEPS: usize = 300;
const U: Field<f64> = Field::new(0, "u");

/// What a shard starts with: arguments and results can cross to another process, hence the derives.
#[derive(Serialize, Deserialize)]
struct Args {
    block: Region,
    /// The slots at the block's left and right end.
    ghosts: [Region; 2],
    /// The slots of the left and the right neighbour that this shard fills: none beyond the ends of the rod.
    fills: [Option<Region>; 2],
    /// What guards the slots filled from the right (values go left) and from the left.
    pairs: [Edges; 2],
    largest: Allreduce<f64>,
}

fn start(mut u: Write<f64>, first: Val<usize>) {
    u.write_with(|i| ((*first + i).pow(2) % 7) as f64);
}

fn send(u: Read<f64>, mut slot: WriteShared<f64>, side: Val<usize>) {
    slot.fill(u.as_slice()[*side * (CELLS - 1)]);
}

/// The largest change. Slots at the ends of the rod are never filled and keep the 0 that values are at first.
fn step(mut u: ReadWrite<f64>, left: ReadShared<f64>, right: ReadShared<f64>) -> f64 {
    let mut old = [0.0; CELLS + 2];
    left.copy_to(&mut old[..1]);
    old[1..=CELLS].copy_from_slice(u.as_slice());
    right.copy_to(&mut old[CELLS + 1..]);
    let changes = old.windows(3).map(|w| 0.25 * (w[0] - 2.0 * w[1] + w[2]));
    u.as_mut_slice().iter_mut().zip(changes.clone()).for_each(|(u, change)| *u += change);
    changes.fold(0.0, |largest, change| largest.max(change.abs()))
}

async fn shard(shard: Shard, args: Args) -> Result<(Vec<f64>, f64), Error> {
    let u = shard.region(args.block)?;
    let (left, right) = (shard.region(args.ghosts[0])?, shard.region(args.ghosts[1])?);
    let mut neighbours = Vec::new();
    for (side, slot) in args.fills.into_iter().enumerate() {
        let Some(slot) = slot else { continue };
        let neighbour = if side == 0 { shard.index() - 1 } else { shard.index() + 1 };
        let (fill, drain) =
            (args.pairs[side].producer(&shard, neighbour)?, args.pairs[1 - side].consumer(&shard, neighbour)?);
        neighbours.push((side, shard.region(slot)?, fill, drain));
    }
    let mut residual = f64::INFINITY;
    shard.launch(start, (u.write(U), (args.block.rect.lo(0) as usize).into())).go()?.detach();
    for _ in 0..STEPS {
        for (side, slot, fill, _) in &neighbours {
            let send = shard.launch(send, (u.read(U), slot.write_shared(U), (*side).into()));
            send.wait(fill.empty()).arrive(fill.ready()).go()?.detach();
        }
        let step = shard.launch(step, (u.read_write(U), left.read_shared(U), right.read_shared(U)));
        let step = neighbours.iter().fold(step, |step, (.., drain)| step.wait(drain.ready()).arrive(drain.empty()));
        residual = args.largest.call(&shard, &step.go()?)?.await?;
    }
    let u = shard.launch(|u: Read<f64>| u.as_slice().to_vec(), (u.read(U),)).go()?;
    Ok((u.await?, residual))
}

fn run(shards: u32, workers: u32) -> Result<(), Error> {
    let p = shards as usize;
    let (results, _) = Runtime::threads(workers).run(move |top| async move {
        let rod = top.tree("rod", Rect::line(0, (CELLS * p) as i64), &[U.info()])?;
        let blocks: Vec<Region> = Partition::equal(rod, p)?.iter().collect();
        let slots = top.tree("slots", Rect::line(0, 2 * p as i64), &[U.info()])?;
        let slots: Vec<Region> = Partition::equal(slots, 2 * p)?.iter().collect();
        let gang = top.gang("all", shards)?;
        // The ends of the rod have no neighbours: the pairs that would join them stay unused.
        let to_left = top.edges("to the left", &gang, (0..gang.shards()).map(|s| (s, (s + shards - 1) % shards)), 1)?;
        let to_right = top.edges("to the right", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?;
        let largest = Allreduce::new(&top, &gang, "largest change", Operator::max())?;
        let done = top.launch(&gang, &top.task("heat", shard), |s| {
            let s = s as usize;
            let (block, ghosts) = (blocks[s], [slots[2 * s], slots[2 * s + 1]]);
            let fills = [(s > 0).then(|| slots[2 * s - 1]), (s + 1 < p).then(|| slots[2 * s + 2])];
            let start = Start::new(Args { block, ghosts, fills, pairs: [to_left, to_right], largest });
            let start = ghosts.into_iter().fold(start, |start, slot| start.shares(slot, [U], Privilege::Read));
            let filled = fills.into_iter().flatten();
            filled.fold(start, |start, slot| start.shares(slot, [U], Privilege::ReadWrite)).writes(block, [U])
        })?;
        done.all().await
    })?;
    // The same without shards: the rod's cells, and one at either end that stays 0.
    let n = CELLS * p;
    let mut rod: Vec<f64> =
        (0..n + 2).map(|i| if i % (n + 1) == 0 { 0.0 } else { ((i - 1).pow(2) % 7) as f64 }).collect();
    let mut residual: f64 = 0.0;
    for _ in 0..STEPS {
        let (mut before, mut largest) = (0.0, 0.0_f64);
        for i in 1..=n {
            let change = 0.25 * (before - 2.0 * rod[i] + rod[i + 1]);
            before = rod[i];
            rod[i] += change;
            largest = largest.max(change.abs());
        }
        residual = largest;
    }
    common::verify("largest change, on every shard", results.iter().all(|r| r.1 == residual), true)?;
    common::verify("temperatures", results.into_iter().flat_map(|r| r.0).collect(), rod[1..=n].to_vec())?;
    println!("{n} cells on {shards} shards: in the last of {STEPS} steps none changed by more than {residual:.3e}");
    Ok(())
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
