//! An allreduce of vectors of structs with an operator that does not commute: maps x ↦ a·x + b, one after the other.
//! With a = 10 and a digit for b, the composition writes down the digits of all shards in rank order.

use bytemuck::{Pod, Zeroable};
use maniple::prelude::*;
mod common;

const LENGTH: usize = 100;

/// Any plain old data without padding can travel in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Affine {
    a: u64,
    b: u64,
}

/// First `lower`, then `higher`: the operator is always called in rank order.
fn then(lower: &Affine, higher: &Affine) -> Affine {
    let a = higher.a.wrapping_mul(lower.a);
    let b = higher.a.wrapping_mul(lower.b).wrapping_add(higher.b);
    Affine { a, b }
}

fn digit(shard: u32, position: usize) -> u64 {
    (u64::from(shard) + position as u64) % 9 + 1
}

async fn shard(shard: Shard, compose: Collective<[Affine]>) -> Result<Vec<u64>, Error> {
    let maps: Vec<Affine> = (0..LENGTH).map(|i| Affine { a: 10, b: digit(shard.index(), i) }).collect();
    let composed = compose.call(&shard, maps)?.await?;
    Ok(composed.iter().map(|map| map.b).collect())
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (results, _) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let compose =
            Collective::allreduce(Operator::user("then", then)).elements(LENGTH).make(&top, &gang, "compose")?;
        let task = top.register("vectors", shard);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(compose))?.all().await
    })?;
    // The same numbers written out in decimal and read back, modulo 2^64 where they are longer than that.
    let place = |s: u32| (s + 1..shards).fold(1u64, |power, _| power.wrapping_mul(10));
    let number = |i| (0..shards).fold(0u64, |n, s| n.wrapping_add(digit(s, i).wrapping_mul(place(s))));
    let expected: Vec<u64> = (0..LENGTH).map(number).collect();
    for of_shard in &results {
        common::verify("digits in rank order", of_shard, &expected)?;
    }
    Ok(format!("{shards} shards: {} …", results[0][0]))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
