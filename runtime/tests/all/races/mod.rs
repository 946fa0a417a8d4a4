//! Races under simultaneous coherence: random programs against the transitive closure of their graphs, rings with a wait
//! left out, launches that the runtime keeps apart.

mod programs;

use crate::common::{run, runtimes, watched};
use maniple_regions::{Field, Partition, Privilege, ReadShared, Rect, Region, WriteShared};
use maniple_runtime::{
    Arg, Check, Edges, Error, Many, PhaseBarrier, PhaseOptions, RacingAccess, Runtime, Shard, ShardLaunch, ShardTask,
    Top,
};
use std::future::{Future, poll_fn};
use std::task::Poll;

const U: Field<i64> = Field::new(0, "u");

/// What a race is said to be between.
fn sides(e: &Error) -> (RacingAccess, RacingAccess) {
    match e.origin() {
        Error::Race { first, second, .. } => ((**first).clone(), (**second).clone()),
        other => panic!("expected a race, got {other}"),
    }
}

fn put(mut slot: WriteShared<i64>, value: Arg<i64>) {
    slot.fill(*value);
}
fn get(slot: ReadShared<i64>) -> i64 {
    slot.get([slot.rect().lo(0)])
}

/// Which wait is left out: in which shard, step, and half; by the shard itself or by leaf tasks.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Left {
    out: Option<(u32, u64, bool)>,
    by_shard: bool,
}

const STEPS: u64 = 4;

async fn ring(shard: Shard, (ring, slots, left): (Edges, Vec<Region>, Left)) -> Result<Vec<i64>, Error> {
    let (me, n) = (shard.index(), shard.shards());
    let from = (me + n - 1) % n;
    let (own, inn) = (ring.producer(&shard, (shard.index() + 1) % shard.shards())?, ring.consumer(&shard, from)?);
    let (out_slot, in_slot) = (shard.region(slots[me as usize])?, shard.region(slots[from as usize])?);
    let mut values = Vec::new();
    for step in 0..STEPS {
        let left_out = |ready| left.out == Some((me, step, ready));
        let fill = shard.launch(put, (out_slot.write_shared(U), (100 * i64::from(me) + step as i64).into()));
        let fill = match (left_out(false), left.by_shard) {
            (true, _) => {
                own.empty().take();
                fill
            }
            (false, true) => {
                shard.wait(own.empty()).await?;
                fill
            }
            (false, false) => fill.wait(own.empty()),
        };
        fill.arrive(own.ready()).go()?.detach();
        let take = shard.launch(get, (in_slot.read_shared(U),));
        let take = match (left_out(true), left.by_shard) {
            (true, _) => {
                inn.ready().take();
                take
            }
            (false, true) => {
                shard.wait(inn.ready()).await?;
                take
            }
            (false, false) => take.wait(inn.ready()),
        };
        values.push(take.arrive(inn.empty()).go()?);
    }
    let mut came = Vec::new();
    for value in values {
        came.push(value.await?);
    }
    Ok(came)
}

fn run_ring(at: &str, runtime: &Runtime, shards: u32, left: Left) -> Result<Vec<Vec<i64>>, Error> {
    run(at, runtime, move |top| async move {
        let tree = top.region_tree("slots", Rect::line(0, shards.into()), &[U.info()])?;
        let slots: Vec<Region> = Partition::equal(tree, shards as usize)?.iter().collect();
        let gang = top.gang("all", shards)?;
        let pairs = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % shards)), 1)?;
        let task = top.register("ring", ring);
        let done =
            top.launch_gang(&gang, &task, |s| {
                let from = (s + shards - 1) % shards;
                ShardLaunch::new((pairs, slots.clone(), left))
                    .shares(slots[s as usize], [U], Privilege::ReadWrite)
                    .shares(slots[from as usize], [U], Privilege::Read)
            })?;
        done.all().await
    })
}

#[test]
fn a_ring_without_one_of_its_waits_races_in_every_order() {
    for (name, runtime) in runtimes(60) {
        let runtime = runtime.check(Check::Races);
        let shards = 3;
        for by_shard in [false, true] {
            let at = format!("ring on {name}, by shard: {by_shard}");
            let values = run_ring(&at, &runtime, shards, Left { out: None, by_shard }).expect(&at);
            let fills = |s: u32| (0..STEPS as i64).map(|g| 100 * i64::from((s + 2) % 3) + g).collect::<Vec<_>>();
            assert_eq!(values, (0..shards).map(fills).collect::<Vec<_>>(), "{at}");
            for (shard, step, ready) in [(0, 0, true), (1, 2, true), (2, 1, false), (1, STEPS - 1, false)] {
                let left = Left { out: Some((shard, step, ready)), by_shard };
                let at = format!("{at}, {left:?}");
                let e = run_ring(&at, &runtime, shards, left).expect_err(&at);
                let Error::Race { region, field, rect, .. } = e.origin() else { panic!("{at}: {e}") };
                let (first, second) = sides(&e);
                let slot = if ready { (shard + 2) % 3 } else { shard };
                assert_eq!((region.as_str(), field.as_str()), ("region tree `slots`", "u"), "{at}");
                assert_eq!(**rect, Rect::line(slot.into(), i64::from(slot) + 1), "{at}");
                let mut both = [&first, &second].map(|a| (a.place.to_string(), a.privilege));
                both.sort();
                // Where nothing orders a fill and its take, nothing orders that fill and the next.
                let get = (format!("task `get` of shard {}", (slot + 1) % 3), Privilege::Read);
                let put = (format!("task `put` of shard {slot}"), Privilege::WriteDiscard);
                assert!(both == [get, put.clone()] || both == [put.clone(), put], "{at}: {e}");
                for words in ["no barrier, future or collective orders them", "write-discard of", "`slots`"] {
                    assert!(e.to_string().contains(words), "`{words}` is not in: {e}");
                }
            }
        }
    }
}

/// Without the check nobody says a word.
#[test]
fn races_are_not_looked_for_unless_asked() {
    let left = Left { out: Some((1, 2, true)), by_shard: false };
    run_ring("unchecked", &Runtime::seeded(3, 7), 3, left).expect("not looked for");
}

/// Launches that use the same data come one after the other, awaited or not; a shard's result comes after its tasks.
#[test]
fn launches_are_kept_apart() {
    async fn fill(shard: Shard, slot: Region) -> Result<i64, Error> {
        let slot = shard.region(slot)?;
        match shard.index() {
            0 => shard.launch(put, (slot.write_shared(U), 7.into())).go()?.await.map(|()| 0),
            _ => Ok(1),
        }
    }
    async fn see(shard: Shard, slot: Region) -> Result<i64, Error> {
        let slot = shard.region(slot)?;
        shard.launch(get, (slot.read_shared(U),)).go()?.await
    }
    for (name, runtime) in runtimes(100) {
        let at = format!("launches on {name}");
        let seen = run(&at, &runtime.check(Check::Races), |top| async move {
            let slot = top.region_tree("slot", Rect::line(0, 1), &[U.info()])?;
            let gang = top.gang("all", 3)?;
            let (fill, see) = (top.register("fill", fill), top.register("see", see));
            let mut all = Vec::new();
            for _ in 0..3 {
                let shared = |_| ShardLaunch::new(slot).shares(slot, [U], Privilege::ReadWrite);
                top.launch_gang(&gang, &fill, shared)?.detach();
                all.push(top.launch_gang(&gang, &see, shared)?);
            }
            let mut seen = Vec::new();
            for values in all {
                seen.push(values.all().await?);
            }
            Ok(seen)
        });
        assert_eq!(seen, Ok(vec![vec![7; 3]; 3]), "{at}");
    }
}

/// A race fails the run even where the program is content with errors, or makes others of them.
#[test]
fn a_race_that_nobody_minds_is_an_error_of_the_run() {
    async fn careless(shard: Shard, (slot, how): (Region, u32)) -> Result<(), Error> {
        let slot = shard.region(slot)?;
        let one = shard.launch(put, (slot.write_shared(U), 1.into())).go()?;
        let other = shard.launch(put, (slot.write_shared(U), 2.into())).go()?;
        let (one, other) = (one.await, other.await);
        match how {
            0 => Ok(()),
            1 => one.and(other).map_err(|_| Error::user("out of luck")),
            _ => {
                one.and(other).unwrap();
                Ok(())
            }
        }
    }
    for (name, runtime) in runtimes(20) {
        for how in 0..3 {
            let at = format!("careless in way {how} on {name}");
            let outcome = watched(&at, || {
                runtime.clone().check(Check::Races).run(move |top| async move {
                    let slot = top.region_tree("slot", Rect::line(0, 1), &[U.info()])?;
                    let (gang, task) = (top.gang("all", 1)?, top.register("careless", careless));
                    let share = |_| ShardLaunch::new((slot, how)).shares(slot, [U], Privilege::ReadWrite);
                    top.launch_gang(&gang, &task, share)?.all().await
                })
            });
            let e = outcome.map(|_| ()).expect_err(&at);
            let (first, second) = sides(&e);
            assert_eq!((first.place.shard, second.place.shard), (Some(0), Some(0)), "{at}");
        }
    }
}

// Any number of parameters.

fn put_all(slots: Many<WriteShared<i64>>) {
    slots.into_iter().for_each(|mut slot| slot.fill(1));
}
fn get_all(slots: Many<ReadShared<i64>>) -> i64 {
    slots.iter().map(|slot| slot.get([slot.rect().lo(0)])).sum()
}

type Spans = Vec<(i64, i64)>;

/// Each of `Many` rectangles counts by itself: tasks race where two of them overlap, and there only.
#[test]
fn of_many_rectangles_the_two_that_overlap_are_reported() {
    async fn shard(shard: Shard, (slots, spans): (Region, [Spans; 2])) -> Result<(), Error> {
        let part = |&(lo, hi): &(i64, i64)| shard.region(Region::new(slots.tree, Rect::line(lo, hi)));
        let spans = spans[shard.index() as usize].iter().map(part).collect::<Result<Vec<_>, _>>()?;
        match shard.index() {
            0 => shard.launch(put_all, (spans.iter().map(|s| s.write_shared(U)).collect(),)).go()?.await,
            _ => shard.launch(get_all, (spans.iter().map(|s| s.read_shared(U)).collect(),)).go()?.await.map(drop),
        }
    }
    type Case = ([&'static [(i64, i64)]; 2], Option<[(i64, i64); 3]>);
    // The rectangles of the writer and of the reader. For a race: the common part, and the two that overlap.
    let cases: [Case; 6] = [
        ([&[(0, 2), (4, 6), (8, 10)], &[(2, 4), (6, 8), (10, 12)]], None),
        ([&[(0, 12)], &[]], None),
        ([&[], &[(0, 12), (3, 5)]], None),
        ([&[(0, 2), (4, 7), (8, 10)], &[(2, 4), (6, 8), (10, 12)]], Some([(6, 7), (4, 7), (6, 8)])),
        ([&[(0, 2), (9, 12)], &[(3, 8), (10, 11), (2, 3)]], Some([(10, 11), (9, 12), (10, 11)])),
        ([&[(11, 12), (5, 6)], &[(0, 5), (6, 12)]], Some([(11, 12), (11, 12), (6, 12)])),
    ];
    for (name, runtime) in runtimes(12) {
        let runtime = runtime.check(Check::Races);
        for (spans, race) in cases {
            let at = format!("{spans:?} on {name}");
            let spans = spans.map(<[_]>::to_vec);
            let outcome = run(&at, &runtime, move |top| {
                let spans = spans.clone();
                async move {
                    let slots = top.region_tree("slots", Rect::line(0, 12), &[U.info()])?;
                    let (gang, task) = (top.gang("two", 2)?, top.register("many", shard));
                    let share = |_| ShardLaunch::new((slots, spans.clone())).shares(slots, [U], Privilege::ReadWrite);
                    top.launch_gang(&gang, &task, share)?.all().await.map(drop)
                }
            });
            let Some([common, written, read]) = race else {
                assert_eq!(outcome, Ok(()), "{at}");
                continue;
            };
            let e = outcome.expect_err(&at);
            let Error::Race { rect, .. } = e.origin() else { panic!("{at}: {e}") };
            assert_eq!((rect.lo(0), rect.hi(0)), common, "{at}");
            let (first, second) = sides(&e);
            let (writer, reader) = if first.place.shard == Some(0) { (first, second) } else { (second, first) };
            let side = |a: &RacingAccess| (a.place.shard, a.privilege.writes(), (a.rect.lo(0), a.rect.hi(0)));
            assert_eq!(side(&writer), (Some(0), true, written), "{at}");
            assert_eq!(side(&reader), (Some(1), false, read), "{at}");
        }
    }
}

// Failures and waits under way.

/// A barrier of two shards, a slot that both use, and another.
async fn two(top: Top, task: ShardTask<(PhaseBarrier, [Region; 2]), ()>) -> Result<(), Error> {
    let tree = top.region_tree("slots", Rect::line(0, 2), &[U.info()])?;
    let slots = [0, 1].map(|s| Region::new(tree.tree, Rect::line(s, s + 1)));
    let gang = top.gang("all", 2)?;
    let gate = top.phase_barrier("gate", &gang, PhaseOptions::between([0], [1]))?;
    let share = |_| {
        let start = ShardLaunch::new((gate, slots));
        slots.iter().fold(start, |start, slot| start.shares(*slot, [U], Privilege::ReadWrite))
    };
    top.launch_gang(&gang, &task, share)?.all().await.map(drop)
}

fn fails(mut slot: WriteShared<i64>) {
    slot.fill(1);
    panic!("on purpose");
}

/// Whoever learns of a failure comes after the task that failed, and after what this one came after.
#[test]
fn whoever_awaits_a_failure_comes_after_it() {
    async fn again(shard: Shard, (gate, slots): (PhaseBarrier, [Region; 2])) -> Result<(), Error> {
        let slot = shard.region(slots[0])?;
        match shard.index() {
            0 => {
                shard.launch(fails, (slot.write_shared(U),)).go()?.await.expect_err("it panics");
                shard.launch(put, (slot.write_shared(U), 2.into())).go()?.await?;
                // Not the task that panics is awaited, but one that was to use its value.
                let failed = shard.launch(fails, (slot.write_shared(U),)).go()?;
                let after = |_: Arg<()>| ();
                shard.launch(after, ((&failed).into(),)).go()?.await.expect_err("its input panics");
                shard.launch(put, (slot.write_shared(U), 3.into())).go()?.await?;
                // A task that others learn of by the barrier.
                shard
                    .launch(fails, (slot.write_shared(U),))
                    .arrive(&gate.arriver(&shard)?)
                    .go()?
                    .await
                    .expect_err("so does it");
                Ok(())
            }
            1 => {
                let waiter = gate.waiter(&shard)?;
                shard.launch(get, (slot.read_shared(U),)).wait(&waiter).go()?.await.expect_err("poisoned");
                shard.launch(put, (slot.write_shared(U), 4.into())).go()?.await?;
                shard.wait(&waiter).await.expect_err("poisoned");
                shard.launch(put, (slot.write_shared(U), 5.into())).go()?.await
            }
            _ => Ok(()),
        }
    }
    for (name, runtime) in runtimes(60) {
        let at = format!("again on {name}");
        let outcome = run(&at, &runtime.check(Check::Races), |top| {
            let task = top.register("again", again);
            two(top, task)
        });
        assert_eq!(outcome, Ok(()), "{at}");
    }
}

/// Whoever learns that a shard has failed comes after what the shard had awaited, but not after what its tasks were still to
/// come after.
#[test]
fn whoever_learns_of_a_failed_shard_comes_after_what_it_had_awaited() {
    type Args = ([PhaseBarrier; 2], [Region; 2], bool);
    async fn early(shard: Shard, ([gate, never], slots, awaits): Args) -> Result<(), Error> {
        let [first, second] = [shard.region(slots[0])?, shard.region(slots[1])?];
        match shard.index() {
            0 => {
                shard.launch(put, (first.write_shared(U), 1.into())).go()?.await?;
                let other = shard.launch(put, (second.write_shared(U), 2.into())).go()?;
                // Mostly it has ended by then, but to look would be to come after it.
                for _ in 0..100 {
                    shard.yield_now().await;
                }
                let (waiter, arriver) = (never.waiter(&shard)?, gate.arriver(&shard)?);
                let last = shard.launch(|_: Arg<()>| (), ((&other).into(),));
                last.wait(&waiter).arrive(&arriver).go()?.detach();
                if awaits {
                    other.await?;
                }
                Err(Error::user("too early"))
            }
            1 => {
                shard.wait(&gate.waiter(&shard)?).await.expect_err("poisoned");
                shard.launch(get, (first.read_shared(U),)).go()?.await?;
                shard.launch(get, (second.read_shared(U),)).go()?.await?;
                shard.arrive(&never.arriver(&shard)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }
    for (name, runtime) in runtimes(60) {
        for awaits in [true, false] {
            let at = format!("early on {name}, awaits: {awaits}");
            let outcome = run(&at, &runtime.clone().check(Check::Races), move |top| async move {
                let tree = top.region_tree("slots", Rect::line(0, 2), &[U.info()])?;
                let slots = [0, 1].map(|s| Region::new(tree.tree, Rect::line(s, s + 1)));
                let (gang, task) = (top.gang("all", 2)?, top.register("early", early));
                let gate = top.phase_barrier("gate", &gang, PhaseOptions::between([0], [1]))?;
                let never = top.phase_barrier("never", &gang, PhaseOptions::between([1], [0]))?;
                let done = top.launch_gang(&gang, &task, |_| {
                    let start = ShardLaunch::new(([gate, never], slots, awaits));
                    slots.iter().fold(start, |start, slot| start.shares(*slot, [U], Privilege::ReadWrite))
                })?;
                done.get(0)?.clone().await.expect_err("it fails");
                done.get(1)?.clone().await
            });
            match awaits {
                true => assert_eq!(outcome, Ok(()), "{at}"),
                false => {
                    let (first, second) = sides(&outcome.expect_err(&at));
                    assert_eq!([first.rect, second.rect], [Rect::line(1, 2); 2], "{at}");
                }
            }
        }
    }
}

/// A wait that was begun before a task's for the next generation, and ends after the task began, is for its own generation.
#[test]
fn a_wait_under_way_is_for_its_own_generation() {
    async fn ahead(shard: Shard, (gate, slots): (PhaseBarrier, [Region; 2])) -> Result<(), Error> {
        match shard.index() {
            0 => {
                let arriver = gate.arriver(&shard)?;
                for slot in slots {
                    let slot = shard.region(slot)?;
                    shard.launch(put, (slot.write_shared(U), 1.into())).arrive(&arriver).go()?.detach();
                }
                Ok(())
            }
            1 => {
                let waiter = gate.waiter(&shard)?;
                let mut first = std::pin::pin!(shard.wait(&waiter));
                let over = poll_once(first.as_mut()).await;
                shard.launch(|| (), ()).wait(&waiter).go()?.detach();
                for _ in 0..200 {
                    shard.yield_now().await;
                }
                if !over {
                    first.await?;
                }
                let slot = shard.region(slots[1])?;
                shard.launch(get, (slot.read_shared(U),)).go()?.await.map(drop)
            }
            _ => Ok(()),
        }
    }
    async fn poll_once(mut future: std::pin::Pin<&mut impl Future<Output = Result<(), Error>>>) -> bool {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
    }
    for (name, runtime) in runtimes(60) {
        let at = format!("ahead on {name}");
        let outcome = run(&at, &runtime.check(Check::Races), |top| {
            let task = top.register("ahead", ahead);
            two(top, task)
        });
        let e = outcome.expect_err(&at);
        let (first, second) = sides(&e);
        assert_eq!([first.rect, second.rect], [Rect::line(1, 2); 2], "{at}: {e}");
    }
}
