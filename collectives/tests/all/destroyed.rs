//! What must not grow: the memory of a process that makes, uses and destroys objects in each step. The variable
//! `MANIPLE_STEPS` asks for more steps, best in a release build and with `--nocapture`, which shows the memory.
#![cfg(target_os = "linux")]

use crate::common::asleep;
use crate::common::processes::{alone, on_processes};
use crate::common::resident::resident;
use crate::common::steps as asked;
use maniple_collectives::{Algorithm, Collective, Operator};
use maniple_regions::{Field, Partition, ReadWrite, Rect, Region};
use maniple_runtime::{
    Edges, Error, InnerTask, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch, ShardTask, Top,
};

const X: Field<u64> = Field::new(0, "x");

fn two_threads() -> Runtime {
    asleep(Runtime::threads(2))
}

/// Makes `steps` steps. Returns resident memory after some of them, and after all.
async fn steps(
    from: u64,
    steps: u64,
    mut step: impl AsyncFnMut(u64) -> Result<(), Error>,
) -> Result<(u64, u64), Error> {
    let mut before = 0;
    for k in 0..steps {
        if k == from {
            before = resident();
        }
        step(k).await?;
    }
    Ok((before, resident()))
}

type Objects = (Collective<u64>, Edges, PhaseBarrier);

async fn uses(shard: Shard, (sum, ring, phase): Objects) -> Result<u64, Error> {
    let (me, n) = (shard.index(), shard.shards());
    shard.arrive(ring.producer(&shard, (me + 1) % n)?.ready());
    shard.wait(ring.consumer(&shard, (me + n - 1) % n)?.ready()).await?;
    shard.arrive(&phase.arriver(&shard)?);
    shard.wait(&phase.waiter(&shard)?).await?;
    sum.call(&shard, u64::from(me))?.await
}

/// A gang, an allreduce, edges and a phase barrier, made, used and destroyed.
async fn one_step(top: &Top, task: &ShardTask<Objects, u64>, n: u32, k: u64) -> Result<(), Error> {
    let gang = top.gang("gang", n)?;
    let sum = Collective::allreduce(Operator::sum()).make(top, &gang, "sum")?;
    let ring = top.edges("ring", &gang, (0..n).map(|s| (s, (s + 1) % n)), 1)?;
    let phase = top.phase_barrier("phase", &gang, PhaseOptions::all(&gang))?;
    let sums = top.launch_gang(&gang, task, |_| ShardLaunch::new((sum, ring, phase)))?;
    if k.is_multiple_of(2) {
        // While shards use them.
        top.destroy((ring, sum, phase, gang))?;
    }
    let n = u64::from(n);
    assert_eq!(sums.all().await?, vec![n * (n - 1) / 2; n as usize], "step {k}");
    if k % 2 == 1 {
        top.destroy(gang)?;
    }
    Ok(())
}

/// How many kB a process gained from step `from` on.
fn grown_by_gangs(runtime: &Runtime, n: u32, (from, all): (u64, u64)) -> u64 {
    let all = asked::steps(all);
    let grown = runtime.run(move |top| async move {
        let task = top.register("uses", uses);
        let (before, after) = steps(from, all, async |k| one_step(&top, &task, n, k).await).await?;
        Ok(after.saturating_sub(before))
    });
    let grown = grown.expect("nothing is wrong").0;
    println!("{n} shards: {all} steps, {grown} kB more than after {from}, {} kB in all", resident());
    grown
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_gang_of_a_thousand_shards_in_each_step_leaves_nothing() {
    alone("destroyed::a_gang_of_a_thousand_shards_in_each_step_leaves_nothing", || {
        // Each that stays takes some 0.4 kB a shard.
        for (name, runtime, n) in [("threads", two_threads(), 1024), ("seeded", Runtime::seeded(2, 1), 128)] {
            let grown = grown_by_gangs(&runtime, n, (100, 250));
            assert!(grown < 6 * u64::from(n), "{name}: {grown} kB are left behind");
        }
    });
}

/// Numbers of objects grow, and nothing else does: ends of barriers that stay would take a megabyte.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn the_numbers_of_objects_take_no_memory() {
    alone("destroyed::the_numbers_of_objects_take_no_memory", || {
        let grown = grown_by_gangs(&two_threads(), 2, (500, 3_500));
        assert!(grown < 400, "{grown} kB are left behind");
    });
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn on_two_processes_neither_grows() {
    on_processes("destroyed::on_two_processes_neither_grows", &[(2, 1)], |runtime| {
        let grown = grown_by_gangs(&runtime, 256, (100, 200));
        assert!(grown < 4_000, "{grown} kB are left behind");
    });
}

/// What the top-level task knows of a tree's data is little, so there are many trees. Each goes while inner tasks use it.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn what_is_known_of_a_tree_goes_with_it() {
    alone("destroyed::what_is_known_of_a_tree_goes_with_it", || {
        let run = two_threads().run(|top| async move {
            let sets = top.register_inner("sets", |task: InnerTask, cell: Region| async move {
                let x = task.region(cell)?;
                task.launch(|mut x: ReadWrite<u64>| x.as_mut_slice().fill(1), (x.read_write(X),)).go()?.await
            });
            let gang = top.gang("gang", 2)?;
            steps(2_000, 12_000, async |_| {
                let tree = top.region_tree("cells", Rect::line(0, 2), &[X.info()])?;
                let cells: Vec<Region> = Partition::equal(tree, 2)?.iter().collect();
                let start = |s: u32| ShardLaunch::new(cells[s as usize]).writes(cells[s as usize], [X]);
                let done = top.launch_gang(&gang, &sets, start)?;
                top.destroy(tree)?;
                done.all().await.map(drop)
            })
            .await
        });
        let (before, after) = run.expect("nothing is wrong").0;
        assert!(after < before + 1_000, "{before} kB after 2,000 trees, {after} kB after 12,000");
    });
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_region_tree_in_each_step_leaves_nothing() {
    alone("destroyed::a_region_tree_in_each_step_leaves_nothing", || {
        const CELLS: usize = 200_000;
        for (name, runtime) in [("threads", two_threads()), ("seeded", Runtime::seeded(3, 1))] {
            let first = resident();
            let run = runtime.run(move |top| async move {
                let adds = top.register("adds", |shard: Shard, block: Region| async move {
                    let x = shard.region(block)?;
                    let add = |mut x: ReadWrite<u64>| {
                        x.as_mut_slice().iter_mut().for_each(|x| *x += 1);
                        x.as_slice().iter().sum::<u64>()
                    };
                    shard.launch(add, (x.read_write(X),)).go()?.await
                });
                let gang = top.gang("gang", 3)?;
                steps(100, 400, async |k| {
                    let tree = top.region_tree("cells", Rect::line(0, CELLS as i64), &[X.info()])?;
                    let third = CELLS / 3 - k as usize;
                    for round in 1..=2 {
                        let sizes = [third, third + round, CELLS - 2 * third - round];
                        let blocks: Vec<Region> = Partition::blocks(tree, &sizes)?.iter().collect();
                        let start = |s: u32| ShardLaunch::new(blocks[s as usize]).writes(blocks[s as usize], [X]);
                        let sums = top.launch_gang(&gang, &adds, start)?;
                        if round == 2 {
                            top.destroy(tree)?;
                        }
                        assert_eq!(sums.all().await?.iter().sum::<u64>(), (CELLS * round) as u64, "step {k}");
                    }
                    Ok(())
                })
                .await
            });
            let (before, after) = run.expect("nothing is wrong").0;
            let data = (CELLS * 8 / 1000) as u64;
            let grown = after.saturating_sub(before);
            assert!(grown < data, "{name}: 300 steps left {grown} kB behind");
            assert!(after.saturating_sub(first) < 4 * data + 2000, "{name}: {after} kB, {first} kB at first");
        }
    });
}

/// Blocks of 8 bytes between all pairs of 128 shards, in parts: a call uses the memory of the last one, which was in another slot.
#[test]
fn a_pair_of_shards_takes_little_memory() {
    alone("destroyed::a_pair_of_shards_takes_little_memory", || {
        const SHARDS: u32 = 128;
        let run = Runtime::threads(1).run(|top| async move {
            let gang = top.gang("gang", SHARDS)?;
            let task =
                top.register("exchange", |shard: Shard, (all, sum): (Collective<[u64]>, Collective<u64>)| async move {
                    let mut after = 0;
                    for _ in 0..6 {
                        let parts = all.call_parts(&shard, (0..u64::from(SHARDS)).collect::<Vec<_>>())?;
                        let mut got = 0;
                        for part in parts.iter() {
                            got += part.clone().await?[0];
                        }
                        assert_eq!(got, u64::from(shard.index() * SHARDS));
                        drop(parts);
                        // After it all shards have got their parts.
                        sum.call(&shard, got)?.await?;
                        after = resident();
                        sum.call(&shard, got)?.await?;
                    }
                    Ok(after)
                });
            let before = resident();
            let sum = Collective::allreduce(Operator::sum()).make(&top, &gang, "sum")?;
            let all =
                Collective::<u64>::all_to_all().elements(1).algorithm(Algorithm::Direct).make(&top, &gang, "all")?;
            let after = top.launch_gang(&gang, &task, |_| ShardLaunch::new((all, sum)))?.all().await?;
            Ok((before, after[0]))
        });
        let (before, after) = run.expect("nothing is wrong").0;
        let each = (after - before) * 1024 / u64::from(SHARDS).pow(2);
        println!("{each} bytes for a pair");
        assert!(each < 600, "{each} bytes for a pair");
    });
}
