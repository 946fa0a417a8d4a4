//! A mapper that is replaced while the program runs changes what is decided from then on, and no result.

use maniple_collectives::{Algorithm, Collective, Operator};
use maniple_mapper::{
    Access, CollectiveInput, CollectiveMapper, CollectiveOutput, DefaultMapper, LeafInput, LeafOutput, Mapper,
    MapperSlot, MemoryKind, PlaceShardsInput, Placement, Priority,
};
use maniple_regions::{Field, Privilege, ReadShared, Rect, Region, WriteShared};
use maniple_runtime::{Edges, Error, Runtime, Shard, ShardLaunch, Stats, Top};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::watched;

const U: Field<f64> = Field::new(0, "u");
const ROUNDS: u32 = 12;

/// Deals shards out like cards, sends tasks round the node, copies, and counts how often it is asked.
#[derive(Default)]
struct Other {
    leaves: AtomicU64,
    exchanges: AtomicU64,
}

impl Mapper for Other {
    fn name(&self) -> &str {
        "other"
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let asked = self.leaves.fetch_add(1, Ordering::Relaxed);
        let mut node = input.machine.processors_of(input.machine.node_of(input.processor));
        let nth = (asked % node.len() as u64) as usize;
        let processor = node.nth(nth).unwrap_or(input.processor);
        LeafOutput { processor, priority: Priority((asked % 8) as u8), ..LeafOutput::local(input) }
    }
    fn map_collective(&self, _: &CollectiveInput<'_>) -> CollectiveOutput {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        CollectiveOutput { memory: MemoryKind::Ordinary, access: Access::Copy, priority: Priority(1) }
    }
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Args {
    ghosts: Region,
    pairs: Edges,
    totals: (Collective<f64>, Collective<f64>),
    /// In which round who replaces the mapper.
    swap: (u32, u32),
}

/// What shards do: a ring of values and two totals, each round on the last; the processor, and bits that depend on all of it.
async fn shard(shard: Shard, args: Args, slot: MapperSlot, next: Arc<dyn Mapper>) -> Result<(u32, u64), Error> {
    fn put(mut to: WriteShared<f64>, x: maniple_runtime::Arg<f64>) {
        to.fill(*x);
    }
    fn get(from: ReadShared<f64>, x: maniple_runtime::Arg<f64>) -> f64 {
        from.get([from.rect().lo(0)]).mul_add(0.5, *x).sin()
    }
    let (me, n) = (shard.index(), shard.shards());
    let ghost = |s: u32| Region::new(args.ghosts.tree, Rect::line(i64::from(s), i64::from(s) + 1));
    let (mine, theirs) = (shard.region(ghost(me))?, shard.region(ghost((me + n - 1) % n))?);
    let (to, from) = (
        args.pairs.producer(&shard, (shard.index() + 1) % shard.shards())?,
        args.pairs.consumer(&shard, (me + n - 1) % n)?,
    );
    let mut x = shard.launch(|x: maniple_runtime::Arg<f64>| *x, (f64::from(me).sqrt().into(),)).go()?;
    for round in 0..ROUNDS {
        if (round, me) == args.swap {
            slot.replace(next.clone());
        }
        shard.launch(put, (mine.write_shared(U), (&x).into())).wait(to.empty()).arrive(to.ready()).go()?.detach();
        let y = shard.launch(get, (theirs.read_shared(U), (&x).into())).wait(from.ready()).arrive(from.empty()).go()?;
        let (a, b) = (args.totals.0.call(&shard, &y)?, args.totals.1.call(&shard, &y)?);
        x = shard
            .launch(
                |a: maniple_runtime::Arg<f64>, b: maniple_runtime::Arg<f64>, y: maniple_runtime::Arg<f64>| *a - *b + *y,
                ((&a).into(), (&b).into(), (&y).into()),
            )
            .go()?;
        if round % 3 == 0 {
            x.clone().await?;
        }
    }
    Ok((shard.processor().0, x.await?.to_bits()))
}

type Outcome = (Vec<(u32, u64)>, Vec<(u32, u64)>);

/// Two gangs, one after the other; a shard replaces the mapper while the first one runs. On several nodes, the top-level
/// task does so too before the second.
fn run(
    at: &str,
    (runtime, nodes): (&Runtime, u32),
    slot: &MapperSlot,
    next: &Arc<dyn Mapper>,
    swap: (u32, u32),
) -> (Outcome, Stats) {
    const SHARDS: u32 = 6;
    let (slot, next) = (slot.clone(), next.clone());
    let program = move |top: Top| {
        let (slot, next) = (slot.clone(), next.clone());
        async move {
            let mut results = Vec::new();
            for pass in 0..2 {
                let gang = top.gang("all", SHARDS)?;
                let ghosts = top.region_tree("ghosts", Rect::line(0, SHARDS.into()), &[U.info()])?;
                let pairs = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % SHARDS)), 1)?;
                // Both are fixed: what the mapper chooses is another test's.
                let total = |name, algorithm| {
                    Collective::allreduce(Operator::max()).algorithm(algorithm).make(&top, &gang, name)
                };
                let totals = (total("a", Algorithm::RecursiveDoubling)?, total("b", Algorithm::TwoLevel)?);
                let (slot, next) = (slot.clone(), next.clone());
                let of_shard = next.clone();
                let task = top.register("ring", move |s, args: Args| shard(s, args, slot.clone(), of_shard.clone()));
                let done = top.launch_gang(&gang, &task, |s| {
                    let ghost = |s: u32| Region::new(ghosts.tree, Rect::line(i64::from(s), i64::from(s) + 1));
                    let swap = if pass == 0 { swap } else { (ROUNDS, 0) };
                    let start = ShardLaunch::new(Args { ghosts, pairs, totals, swap });
                    let start = start.shares(ghost(s), [U], Privilege::ReadWrite);
                    start.shares(ghost((s + SHARDS - 1) % SHARDS), [U], Privilege::Read)
                })?;
                results.push(done.all().await?);
                if pass == 0 && nodes > 1 && swap.0 < ROUNDS {
                    top.replace_mapper(next.clone());
                }
            }
            let second = results.pop().unwrap_or_default();
            Ok((results.pop().unwrap_or_default(), second))
        }
    };
    watched(at, || runtime.run(program)).unwrap_or_else(|e| panic!("{at}: {e}"))
}

#[test]
fn a_replaced_mapper_decides_from_then_on_and_changes_no_result() {
    let bits = |list: &[(u32, u64)]| list.iter().map(|r| r.1).collect::<Vec<_>>();
    let processors = |list: &[(u32, u64)]| list.iter().map(|r| r.0).collect::<Vec<_>>();
    let first: [Arc<dyn Mapper>; 2] = [Arc::new(CollectiveMapper), Arc::new(DefaultMapper)];
    let mut expected: Option<Vec<u64>> = None;
    for seed in 0..120u64 {
        let n = 1 + (seed % 4) as u32;
        let (runtime, nodes) = if seed % 8 == 7 { (Runtime::threads(n), 1) } else { (Runtime::seeded(n, seed), n) };
        let other = Arc::new(Other::default());
        let slot = MapperSlot::from(first[seed as usize % 2].clone());
        let swap = ((seed / 3 % u64::from(ROUNDS + 1)) as u32, (seed % 6) as u32);
        let at = format!("seed {seed}, {n} processors, replaced in round {} by shard {}", swap.0, swap.1);
        let next: Arc<dyn Mapper> = other.clone();
        let ((one, two), _) = run(&at, (&runtime.mapper(slot.clone()), nodes), &slot, &next, swap);
        let expected = expected.get_or_insert_with(|| bits(&one));
        assert_eq!((&bits(&one), &bits(&two)), (&*expected, &*expected), "{at}");
        let blocked: Vec<u32> = (0..6).map(|s| s * n / 6).collect();
        let replaced = swap.0 < ROUNDS;
        let cyclic: Vec<u32> = (0..6).map(|s| s % n).collect();
        assert_eq!(processors(&one), blocked, "{at}");
        assert_eq!(processors(&two), if replaced { cyclic } else { blocked }, "{at}");
        let (leaves, exchanges) = (other.leaves.load(Ordering::Relaxed), other.exchanges.load(Ordering::Relaxed));
        // All tasks of the second gang, and what was launched of the first one after the replacement.
        let all = 6 * (1 + 3 * u64::from(ROUNDS));
        assert!(if replaced { leaves > all && leaves <= 2 * all } else { leaves == 0 }, "{at}: {leaves} of {all}");
        // Each node asks for both totals of the second gang; before that, whoever replaced the mapper called both of the first.
        assert!(if replaced { exchanges >= 2 * u64::from(nodes) + 2 } else { exchanges == 0 }, "{at}: {exchanges}");
    }
}
