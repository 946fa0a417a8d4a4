//! The mapper's choice of an algorithm: only among those that give the same bits.

use maniple_collectives::{Allreduce, Operator};
use maniple_mapper::{AlgorithmInput, Mapper, PlaceShardsInput, Placement};
use maniple_runtime::{Error, Runtime, Shard, Start};
use std::sync::{Arc, Mutex};

mod common;
use common::watched;

/// Places shards in runs of the given lengths, in turn, and chooses the last algorithm or the first.
struct Choosing {
    runs: Vec<u32>,
    last: bool,
    /// How many choices there were.
    offered: Mutex<Vec<usize>>,
}

impl Mapper for Choosing {
    fn name(&self) -> &str {
        "choosing"
    }
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        let processors = input.machine.processors();
        let runs = (0..processors).cycle().zip(self.runs.iter().cycle());
        Placement::Explicit(
            runs.flat_map(|(p, &n)| std::iter::repeat_n(p, n as usize)).take(input.shards as usize).collect(),
        )
    }
    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        self.offered.lock().unwrap().push(input.choices.len());
        if self.last { input.choices.len() - 1 } else { 0 }
    }
}

/// Sums of numbers that no two groupings add up alike, of integers, and the least of floats.
type Totals = (Allreduce<f64>, Allreduce<u64>, Allreduce<f64>);

async fn shard(shard: Shard, (sum, exact, least): Totals) -> Result<(u64, u64, u64), Error> {
    let x = f64::from(shard.index() + 1).sqrt() * 10f64.powi(shard.index() as i32 % 9 - 4);
    let (a, b, c) = (sum.call(&shard, x)?, exact.call(&shard, x.to_bits())?, least.call(&shard, x)?);
    Ok((a.await?.to_bits(), b.await?, c.await?.to_bits()))
}

fn totals(runtime: &Runtime, shards: u32) -> Vec<(u64, u64, u64)> {
    let program = move |top: maniple_runtime::Top| async move {
        let gang = top.gang("all", shards)?;
        let sum = Allreduce::new(&top, &gang, "sum", Operator::sum())?;
        let exact = Allreduce::new(&top, &gang, "exact", Operator::sum())?;
        let least = Allreduce::new(&top, &gang, "least", Operator::min())?;
        let task = top.task("shard", shard);
        top.launch(&gang, &task, |_| Start::new((sum, exact, least)))?.all().await
    };
    watched("totals", || runtime.run(program)).unwrap().0
}

#[test]
fn every_choice_gives_the_same_bits() {
    for (runs, alike) in [(vec![1], true), (vec![2], true), (vec![4], true), (vec![3], false), (vec![1, 5, 2], false)] {
        for shards in [1, 2, 3, 4, 7, 8, 12, 24, 29] {
            let whole = runs.len() == 1 && shards % runs[0] == 0;
            let results = [false, true].map(|last| {
                let mapper = Arc::new(Choosing { runs: runs.clone(), last, offered: Mutex::default() });
                let runtime =
                    if last { Runtime::threads(2) } else { Runtime::seeded(2 + shards % 3, u64::from(shards)) };
                let totals = totals(&runtime.mapper(mapper.clone()), shards);
                let offered = mapper.offered.lock().unwrap().clone();
                if alike && whole {
                    assert!(offered.iter().all(|&n| n == 2), "{runs:?} {shards} {offered:?}");
                }
                // A sum of floats has two only where both group alike; the others always have.
                assert!(offered.chunks(3).all(|n| n[1] == 2 && n[2] == 2), "{runs:?} {shards} {offered:?}");
                totals
            });
            assert_eq!(results[0], results[1], "{runs:?} {shards}");
        }
    }
}
