//! Wherever a program panics: every shard ends, and the error tells from the effect to the cause.

use crate::watched;
use maniple::mapper::Mapper;
use maniple::mapper::{LeafInput, LeafOutput};
use maniple::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    Leaf,
    Shard,
    TopLevel,
    Mapper,
    Operator,
    Fold,
    /// Not a panic: the shard returns an error.
    Returned,
}

const SHARDS: u32 = 7;
/// Who fails, and in which round.
const BAD: (u32, u32) = (3, 50);

/// Counts shards that were started and have ended.
static ENDED: AtomicU32 = AtomicU32::new(0);

struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
}

struct Bomb(In);

impl Mapper for Bomb {
    fn name(&self) -> &str {
        "fragile"
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        assert!(self.0 != In::Mapper || input.task != "norm" || input.shard != BAD.0, "mapper bomb");
        LeafOutput::local(input)
    }
}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Args {
    ring: Edges,
    step: PhaseBarrier,
    total: Collective<f64>,
    kind: u8,
}

/// A ring of pairs, a barrier and a total in every round, so that all wait for the bad one in one of three ways.
async fn shard(shard: Shard, args: Args, kind: In) -> Result<f64, Error> {
    let _ends = Ends;
    let (me, n) = (shard.index(), shard.shards());
    let (to, from) = (
        args.ring.producer(&shard, (shard.index() + 1) % shard.shards())?,
        args.ring.consumer(&shard, (me + n - 1) % n)?,
    );
    let (arrive, wait) = (args.step.arriver(&shard)?, args.step.waiter(&shard)?);
    let mut last = 0.0;
    for round in 0..100_000u32 {
        let bad = (me, round) == BAD;
        if bad && kind == In::Shard {
            panic!("shard bomb");
        }
        if bad && kind == In::Returned {
            return Err(Error::user("the input file ends here"));
        }
        let norm = move |x: Arg<f64>| {
            assert!(!(bad && kind == In::Leaf), "leaf bomb");
            *x + 1.0
        };
        let local = shard.launch(norm, (last.into(),)).named("norm");
        let local = local.wait(to.empty()).arrive(to.ready()).go()?;
        shard.launch(|| (), ()).wait(from.ready()).arrive(from.empty()).go()?.detach();
        shard.arrive_with(&arrive, u64::from(bad));
        // NaN makes the operator panic.
        let local = if bad && kind == In::Operator { shard.launch(|| f64::NAN, ()).go()? } else { local };
        let total = args.total.call(&shard, &local)?;
        if me % 2 == 0 {
            shard.wait_value(&wait).await?;
        }
        last = total.await? / f64::from(n);
    }
    Ok(last)
}

fn run(runtime: &Runtime, kind: In) -> Error {
    let program = move |top: Top| async move {
        let gang = top.gang("all", SHARDS)?;
        let ring = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % SHARDS)), 1)?;
        let fold = Operator::user("fold", move |a: &u64, b: &u64| {
            assert!(!(kind == In::Fold && a + b > 0), "fold bomb");
            a + b
        });
        let step = top.phase_barrier("step", &gang, PhaseOptions::all(&gang).window(1 << 20).reduce(fold))?;
        let add = |a: &f64, b: &f64| {
            assert!(!a.is_nan() && !b.is_nan(), "operator bomb");
            a + b
        };
        let total = Collective::allreduce(Operator::user("add", add)).make(&top, &gang, "total")?;
        let task = top.register("main", move |s, args| shard(s, args, kind));
        let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new(Args { ring, step, total, kind: kind as u8 }))?;
        if kind == In::TopLevel {
            panic!("top-level bomb");
        }
        done.all().await
    };
    runtime.clone().mapper(Arc::new(Bomb(kind))).run(program).expect_err("something fails")
}

#[test]
fn every_failure_ends_every_shard_and_is_told_as_a_story() {
    let kinds: [(In, &[&str]); 7] = [
        (In::Leaf, &["task `norm` of shard 3 panicked: leaf bomb"]),
        (In::Shard, &["task `main` of shard 3 panicked: shard bomb"]),
        (In::TopLevel, &["task `top level` panicked: top-level bomb"]),
        (In::Mapper, &["mapper `fragile`", "map_leaf", "task `norm` of shard 3", "mapper bomb"]),
        (In::Operator, &["task `total` of shard", "operator bomb"]),
        (In::Fold, &["fold of phase barrier `step`", "fold bomb"]),
        (In::Returned, &["task `main` of shard 3 failed: the input file ends here"]),
    ];
    for (kind, words) in kinds {
        let runtimes = (1..=4).map(Runtime::threads).chain((0..6).map(|seed| Runtime::seeded(3, seed)));
        for runtime in runtimes {
            ENDED.store(0, Ordering::SeqCst);
            let error = watched(&format!("{kind:?}"), || run(&runtime, kind));
            let text = error.to_string();
            let unsaid: Vec<_> = words.iter().filter(|w| !text.contains(**w)).collect();
            assert!(unsaid.is_empty(), "{kind:?}: {unsaid:?} is not in {text}");
            // The chain leads from who was stopped to who is to blame.
            let mut chain = vec![&error];
            chain.extend(std::iter::successors(error.cause(), |e| e.cause()));
            let links: Vec<String> = chain.iter().map(ToString::to_string).collect();
            assert!(links.windows(2).all(|two| two[0].ends_with(&two[1])), "{links:?}");
            let ended = ENDED.load(Ordering::SeqCst);
            assert!(ended == SHARDS || kind == In::TopLevel && ended < SHARDS, "{kind:?}: {ended} shards have ended");
        }
    }
}
