//! Handles kept from another run, and sizes that nothing can hold: an error that says so, and never a panic.

use crate::common;
use crate::common::{runtimes, watched};
use maniple_regions::{Field, Partition, Rect, Region, RegionError, Write};
use maniple_runtime::{
    Edges, Error, Gang, PhaseBarrier, PhaseOptions, RegionView, Runtime, Shard, ShardLaunch, ShardTask, Top,
    VirtualMachine,
};
use std::cell::RefCell;
use std::future::Future;

const X: Field<u64> = Field::new(0, "x");
const BYTE: Field<u8> = Field::new(1, "byte");

/// What a run makes.
#[derive(Debug, Clone, Copy)]
struct Made {
    gang: Gang,
    task: ShardTask<(), u32>,
    pairs: Edges,
    phase: PhaseBarrier,
    region: Region,
}

/// What is done in a task of a run with something that another has made.
type Uses<T> = fn(&T, Made) -> Result<(), Error>;

async fn index(shard: Shard, _: ()) -> Result<u32, Error> {
    Ok(shard.index())
}

fn make(top: &Top, shards: u32, cells: i64) -> Result<Made, Error> {
    let gang = top.gang("all", shards)?;
    Ok(Made {
        task: top.register("index", index),
        pairs: top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?,
        phase: top.phase_barrier("step", &gang, PhaseOptions::all(&gang))?,
        region: top.region_tree("line", Rect::line(0, cells), &[X.info()])?,
        gang,
    })
}

/// All that a run on this runtime makes, brought out of it.
fn kept(runtime: &Runtime, shards: u32) -> Made {
    let (send, made) = std::sync::mpsc::channel();
    let run = runtime.run(move |top| {
        let made = make(&top, shards, 100);
        let sent = made.map(|made| send.send(made).expect("it is waited for"));
        async move { sent }
    });
    run.expect("nothing is wrong");
    made.recv().expect("sent")
}

/// A run that must be refused its use of something.
fn refused<F: Future<Output = Result<(), Error>> + 'static>(
    at: &str,
    runtime: &Runtime,
    top: impl Fn(Top) -> F + Send + Sync + 'static,
) -> String {
    let error = watched(at, || runtime.run(top)).expect_err(at);
    assert!(matches!(error.origin(), Error::Misuse { .. }), "{at}: {error}");
    error.to_string()
}

/// Kinds of runtime, of which a handle may come from one and be used on another.
fn kinds() -> Vec<(String, Runtime)> {
    let machine = VirtualMachine { nodes: 3, ..VirtualMachine::default() };
    let others = [("seeded", Runtime::seeded(3, 1)), ("virtual", Runtime::virtual_time(machine))];
    let threads = ("threads", Runtime::threads(2));
    others.into_iter().chain([threads]).map(|(name, runtime)| (name.to_owned(), runtime)).collect()
}

/// Also where this run has something of the same kind and size under the same number.
#[test]
fn handles_of_another_run_are_refused() {
    for (from, first) in kinds() {
        for (to, second) in kinds() {
            // As many shards as here, more and fewer.
            for shards in [4, 9, 2] {
                let old = kept(&first, shards);
                let at = format!("{shards} shards from {from} to {to}");
                let said = refused(&at, &second, move |top| async move {
                    let own = make(&top, 4, 100)?;
                    top.launch_gang(&old.gang, &own.task, |_| ShardLaunch::new(()))?.all().await.map(drop)
                });
                assert!(said.contains("expected a gang made with `Top::gang` in this run"), "{at}: {said}");
                let uses: [Uses<Top>; 4] = [
                    |top, old| top.placement(&old.gang).map(drop),
                    |top, old| top.edges::<()>("mine", &old.gang, [(0, 0)], 1).map(drop),
                    |top, old| top.phase_barrier("mine", &old.gang, PhaseOptions::all(&old.gang)).map(drop),
                    |top, old| {
                        top.choose_algorithm(
                            &old.gang,
                            |_| true,
                            ("mine", maniple_mapper::Kind::Scan),
                            8,
                            &[maniple_mapper::Algorithm::Direct; 2],
                        )
                        .map(drop)
                    },
                ];
                for use_of in uses {
                    refused(&at, &second, move |top| async move {
                        make(&top, 4, 100)?;
                        use_of(&top, old)
                    });
                }
                let said = refused(&at, &second, move |top| async move {
                    let own = make(&top, 4, 100)?;
                    top.launch_gang(&own.gang, &old.task, |_| ShardLaunch::new(()))?.all().await.map(drop)
                });
                assert!(
                    said.contains("expected a task made with `Top::register` or `Top::register_inner` in this run"),
                    "{said}"
                );
                // In the shards' own hands.
                let uses: [Uses<Shard>; 4] = [
                    |shard, old| old.pairs.producer(shard, (shard.index() + 1) % shard.shards()).map(drop),
                    |shard, old| old.pairs.consumer(shard, (shard.index() + 3) % 4).map(drop),
                    |shard, old| old.phase.arriver(shard).map(drop),
                    |shard, old| old.phase.waiter(shard).map(drop),
                ];
                for use_of in uses {
                    let said = refused(&at, &second, move |top| async move {
                        let own = make(&top, 4, 100)?;
                        let task = top.register("uses", move |shard: Shard, _: ()| async move { use_of(&shard, old) });
                        top.launch_gang(&own.gang, &task, |_| ShardLaunch::new(()))?.all().await.map(drop)
                    });
                    assert!(said.contains("in this run"), "{at}: {said}");
                }
            }
            // Nothing is there under their numbers.
            let old = kept(&first, 4);
            refused(&from, &second, move |top| async move { top.placement(&old.gang).map(drop) });
            // A region is a number and a rectangle: it has to lie in the tree of that number.
            refused(&from, &second, move |top| async move {
                let own = make(&top, 4, 50)?;
                top.launch_gang(&own.gang, &own.task, |_| ShardLaunch::new(()).reads(old.region, [X]))?
                    .all()
                    .await
                    .map(drop)
            });
            refused(&from, &second, move |top| async move {
                let gang = top.gang("all", 1)?;
                let task = top.register("index", index);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()).reads(old.region, [X]))?.all().await.map(drop)
            });
        }
    }
}

/// Handles come and go as arguments and results: the handles of this run stay good.
#[test]
fn handles_that_travelled_are_still_good() {
    for (at, runtime) in runtimes(3) {
        let run = watched(&at, || {
            runtime.run(|top| async move {
                let own = make(&top, 3, 100)?;
                let task = top.register(
                    "back",
                    |shard: Shard, (gang, pairs, phase): (Gang, Edges, PhaseBarrier)| async move {
                        pairs.producer(&shard, (shard.index() + 1) % shard.shards())?;
                        shard.arrive(&phase.arriver(&shard)?);
                        shard.wait(&phase.waiter(&shard)?).await?;
                        Ok(gang)
                    },
                );
                let gangs = top
                    .launch_gang(&own.gang, &task, |_| ShardLaunch::new((own.gang, own.pairs, own.phase)))?
                    .all()
                    .await?;
                assert!(gangs.iter().all(|gang| *gang == own.gang));
                top.launch_gang(&gangs[1], &own.task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        assert_eq!(run.expect("all of this run").0, [0, 1, 2], "{at}");
    }
}

/// A thread keeps the handle of a shard and its views. They hold no instance once the shard has ended, and are refused.
#[test]
fn what_outlives_its_shard_holds_nothing_and_is_refused() {
    thread_local!(static KEPT: RefCell<Option<(Shard, Vec<RegionView>)>> = const { RefCell::new(None) });
    fn set(mut x: Write<u64>) {
        x.fill(1);
    }
    async fn keeps(shard: Shard, line: Region) -> Result<(), Error> {
        // More than are looked at one by one, and one without points.
        let part = |i: i64| shard.region(Region::new(line.tree, Rect::line(i, i + i64::from(i != 11))));
        let mut views = (0..12).map(part).collect::<Result<Vec<_>, _>>()?;
        views.push(shard.region(line)?);
        for view in &views {
            shard.launch(set, (view.write(X),)).go()?.await?;
        }
        KEPT.set(Some((shard.clone(), views)));
        Ok(())
    }
    async fn uses(_: Shard, line: Region) -> Result<Vec<String>, Error> {
        let (shard, views) = KEPT.take().expect("kept by this thread");
        let lost = || panic!("nobody would learn of it");
        let refused = [
            shard.region(line).map(drop),
            shard.launch(lost, ()).go().map(drop),
            shard.launch(set, (views[0].write(X),)).go().map(drop),
        ];
        Ok(refused.map(|refused| refused.expect_err("the shard has ended").to_string()).to_vec())
    }
    for (name, runtime) in [("threads", Runtime::threads(1)), ("seeded", Runtime::seeded(1, 1))] {
        for is_used in [false, true] {
            let outcome = watched(name, || {
                runtime.run(move |top| async move {
                    let line = top.region_tree("line", Rect::line(0, 20), &[X.info()])?;
                    let gang = top.gang("one", 1)?;
                    let (keeps, uses) = (top.register("keeps", keeps), top.register("uses", uses));
                    let start = |_| ShardLaunch::new(line).writes(line, [X]);
                    top.launch_gang(&gang, &keeps, start)?.all().await?;
                    if is_used {
                        Ok(top.launch_gang(&gang, &uses, start)?.all().await?.concat())
                    } else {
                        Ok(Vec::new())
                    }
                })
            });
            let (refused, stats) = outcome.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(stats.left_over, 0, "{name}: {stats:?}");
            let is_told = |text: &String| text.contains("task `keeps` of shard 0") && text.contains("is not over");
            assert!(refused.len() == 3 * usize::from(is_used) && refused.iter().all(is_told), "{name}: {refused:?}");
            KEPT.take();
        }
    }
}

#[test]
fn a_gang_has_a_bounded_number_of_shards() {
    for (at, runtime) in kinds() {
        for shards in [u32::MAX, u32::MAX / 2, Gang::MAX_SHARDS + 1] {
            let said = refused(&at, &runtime, move |top| async move { top.gang("g", shards).map(drop) });
            assert!(said.contains("gang `g`: expected at most 16777216 shards, got"), "{said}");
        }
    }
    // This many are to work.
    const MANY: u32 = 1 << 20;
    let run = Runtime::threads(1).run(|top| async move { Ok(top.placement(&top.gang("g", MANY)?)?.len()) });
    assert_eq!(run.expect("a gang").0, MANY as usize);
}

#[test]
fn a_tree_has_as_many_bytes_as_can_be_addressed() {
    let line = |hi| Rect::line(0, hi);
    let most = i64::MAX / 8;
    for (rect, fits) in [
        (line(most), true),
        (line(most + 1), false),
        (line(i64::MAX), false),
        (Rect::line(i64::MIN, i64::MAX), false),
        (Rect::new([0, 0], [1 << 30, 1 << 29]), true),
        (Rect::new([0, 0], [1 << 30, 1 << 30]), false),
        (Rect::new([i64::MIN; 3], [i64::MAX; 3]), false),
        (Rect::new([i64::MIN, 0, i64::MIN], [i64::MAX, 0, i64::MAX]), true),
    ] {
        let made = Runtime::threads(1).run(move |top| async move {
            let region = top.region_tree("t", rect, &[BYTE.info(), X.info()])?;
            // Its parts are no larger.
            let parts = Partition::equal(region, 3)?;
            let gang = top.gang("all", 1)?;
            let task = top.register("index", index);
            let part = Region::new(region.tree, parts.sub(1)?.rect.intersect(&Rect::line(0, 5)));
            if part.rect.dim() == rect.dim() {
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()).reads(part, [X]))?.all().await?;
            }
            Ok(())
        });
        match made {
            Ok(_) => assert!(fits, "{rect}"),
            Err(e) => {
                let said = e.to_string();
                assert!(
                    !fits && said.contains("region tree `t`") && said.contains("use a smaller rectangle"),
                    "{said}"
                );
                let Error::Region { source, .. } = e.origin() else { panic!("{e:?}") };
                assert!(matches!(**source, RegionError::TooLarge { .. }), "{source:?}");
            }
        }
    }
    // With one byte a point, there may be as many points as numbers.
    let run =
        Runtime::threads(1).run(|top| async move { top.region_tree("t", Rect::line(0, i64::MAX), &[BYTE.info()]) });
    assert!(run.is_ok());
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "handles::on_processes",
        &[("handles_that_travelled_are_still_good", handles_that_travelled_are_still_good)],
    );
}
