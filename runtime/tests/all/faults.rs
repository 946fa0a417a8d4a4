//! Slow pairs, pauses and lost processors on the seeded driver: the right result, or an error that names who was lost.

use crate::common::size::part;
use crate::common::{mix, watched};
use maniple_mapper::{ProcessorId, RoundRobinMapper};
use maniple_regions::{Field, Operator, Privilege, ReadShared, Rect, Region, WriteShared};
use maniple_runtime::{
    Arg, Edges, Error, Faults, Pause, PhaseBarrier, PhaseOptions, ProcessorLoss, Runtime, Shard, ShardLaunch, SlowLink,
    Stats, Top, VirtualMachine,
};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

const V: Field<u64> = Field::new(0, "v");
const ROUNDS: u64 = 6;
const SHARDS: u32 = 5;

fn put(mut slot: WriteShared<u64>, value: Arg<u64>) {
    slot.fill(*value);
}

fn take(slot: ReadShared<u64>) -> u64 {
    slot.get([slot.rect().lo(0)])
}

/// Counts the shards whose futures are there.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicU32>);

struct One(Alive);

impl One {
    fn new(alive: &Alive) -> Self {
        alive.0.fetch_add(1, Ordering::Relaxed);
        Self(alive.clone())
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

type Args = ([Region; 2], Edges, PhaseBarrier);

/// Moves a value round a ring of slots, whose homes are anywhere, and adds up at a barrier; the last value of the sum.
async fn shard(shard: Shard, (slots, pairs, sum): Args, alive: Alive) -> Result<u64, Error> {
    let _one = One::new(&alive);
    let (left, own) = (shard.region(slots[0])?, shard.region(slots[1])?);
    let from = (shard.index() + shard.shards() - 1) % shard.shards();
    let (to, from) = (pairs.producer(&shard, (shard.index() + 1) % shard.shards())?, pairs.consumer(&shard, from)?);
    let (arrive, wait) = (sum.arriver(&shard)?, sum.waiter(&shard)?);
    let mut value = u64::from(shard.index()) + 1;
    let mut total = 0;
    for _ in 0..ROUNDS {
        let put = shard.launch(put, (own.write_shared(V), value.into())).wait(to.empty()).arrive(to.ready());
        put.go()?.detach();
        value = shard.launch(take, (left.read_shared(V),)).wait(from.ready()).arrive(from.empty()).go()?.await?;
        shard.arrive_with(&arrive, value);
        total = shard.timeout(Duration::from_secs(3600), shard.wait_value(&wait)).await?;
    }
    Ok(total)
}

fn run(runtime: &Runtime, at: &str) -> (Result<(Vec<u64>, Stats), Error>, u32) {
    let alive = Alive::default();
    let counted = alive.clone();
    let top = move |top: Top| {
        let alive = alive.clone();
        async move {
            let slots = top.region_tree("slots", Rect::line(0, SHARDS.into()), &[V.info()])?;
            let gang = top.gang("ring", SHARDS)?;
            let pairs = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % SHARDS)), 1)?;
            let sum = top.phase_barrier("sum", &gang, PhaseOptions::all(&gang).reduce(Operator::<u64>::sum()))?;
            let task = top.register("round", move |s, args: Args| shard(s, args, alive.clone()));
            let slot = |s: u32| Region::new(slots.tree, Rect::line(s.into(), i64::from(s) + 1));
            let done = top.launch_gang(&gang, &task, |s| {
                let (left, own) = (slot((s + SHARDS - 1) % SHARDS), slot(s));
                let start = ShardLaunch::new(([left, own], pairs, sum));
                start.shares(own, [V], Privilege::ReadWrite).shares(left, [V], Privilege::Read)
            })?;
            done.all().await
        }
    };
    let outcome = watched(at, || runtime.run(top));
    (outcome, counted.0.load(Ordering::Relaxed))
}

/// Values only move, so that their sum stays.
fn right(values: &[u64]) -> bool {
    *values == [u64::from(SHARDS * (SHARDS + 1) / 2); SHARDS as usize]
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn who_is_lost_is_named_to_everybody_and_nothing_hangs() {
    let mut struck = 0;
    for seed in 0..1500 {
        let processors = 2 + (seed % 4) as u32;
        let death = ProcessorLoss { processor: ProcessorId(mix(seed) as u32 % processors), step: mix(seed + 1) % 900 };
        let faults = Faults { losses: vec![death], ..Faults::drawn(seed, processors, false) };
        let at = format!("seed {seed}, {faults}");
        let (outcome, alive) = run(&Runtime::seeded(processors, seed).faults(faults), &at);
        assert_eq!(alive, 0, "shards outlive the run: {at}");
        match outcome {
            Ok((values, stats)) => {
                assert!(right(&values), "{at}: {values:?}");
                assert_eq!(stats.left_over, 0, "{at}");
            }
            Err(e) => {
                struck += 1;
                let Error::Lost { processor, why } = e.origin() else { panic!("{at}: {e}") };
                assert_eq!((*processor, why.contains("step")), (death.processor, true), "{at}: {e}");
                assert!(e.to_string().contains(&format!("processor {processor} was lost")), "{e}");
            }
        }
    }
    assert!((500..1500).contains(&struck), "{struck} of 1500 runs had a loss");
}

#[test]
fn all_but_one_or_all_may_be_lost() {
    for seed in 0..part(200) {
        for dead in [3, 4] {
            let losses =
                (0..dead).map(|p| ProcessorLoss { processor: ProcessorId(p), step: mix(seed ^ u64::from(p)) % 300 });
            let faults = Faults { losses: losses.collect(), ..Faults::default() };
            let at = format!("seed {seed}, {faults}");
            let (outcome, alive) = run(&Runtime::seeded(4, seed).faults(faults), &at);
            let e = outcome.expect_err("somebody is lost before the end");
            assert!(matches!(e.origin(), Error::Lost { .. }) && alive == 0, "{at}: {e}");
        }
    }
}

#[test]
fn slow_pairs_and_pauses_change_no_result_and_a_seed_gives_the_same_run() {
    for seed in 0..part(300) {
        let processors = 1 + (seed % 5) as u32;
        let faults = Faults::drawn(seed, processors, false);
        let runtime = Runtime::seeded(processors, seed).faults(faults.clone()).most_steps(100_000);
        let at = format!("seed {seed}, {faults}");
        let [first, second] = [0, 1].map(|_| run(&runtime, &at).0.unwrap_or_else(|e| panic!("{at}: {e}")));
        assert!(right(&first.0) && first == second, "{at}: {first:?} and {second:?}");
    }
}

#[test]
fn a_pause_lasts_as_long_as_it_says() {
    let run_with = |faults: Faults| {
        let runtime = Runtime::seeded(2, 1).faults(faults);
        let now = runtime.run(|_| async { Ok(maniple_runtime::now()) }).expect("a program that does nothing").0;
        now.as_micros()
    };
    let pause = Pause { processor: ProcessorId(0), from: 0, steps: 5000 };
    assert!(run_with(Faults::default()) < 100);
    assert!((5000..5100).contains(&run_with(Faults { pauses: vec![pause], ..Faults::default() })));
}

/// What a shard has learnt, and the top-level task, which waits for that.
#[derive(Default)]
struct Learnt {
    all: AtomicU32,
    awaiting: Mutex<Option<Waker>>,
}

/// A shard may look at the error, and go on; what it then does with others fails at once, and so does the run.
#[test]
fn a_shard_learns_of_a_loss_where_it_waits() {
    fn is_lost<T>(outcome: Result<T, Error>) -> bool {
        matches!(outcome, Err(e) if matches!(e.origin(), Error::Lost { processor: ProcessorId(1), .. }))
    }
    async fn waits(shard: Shard, (pairs, slot): (Edges, Region), learnt: Arc<Learnt>) -> Result<(), Error> {
        while shard.index() == 1 {
            shard.yield_now().await;
        }
        let from = pairs.consumer(&shard, 1)?;
        let slot = shard.region(slot)?;
        let found = [
            is_lost(shard.wait(from.ready()).await),
            is_lost(shard.timeout(Duration::from_secs(1), shard.wait(from.ready())).await),
            // The slot is at home on the processor that is lost.
            is_lost(shard.launch(take, (slot.read_shared(V),)).go()?.await),
            shard.launch(|| 7, ()).go()?.await == Ok(7),
        ];
        learnt.all.store(1 + u32::from(found == [true; 4]), Ordering::Relaxed);
        let top = learnt.awaiting.lock().unwrap().take();
        top.into_iter().for_each(Waker::wake);
        Ok(())
    }
    for seed in 0..50 {
        let faults =
            Faults { losses: vec![ProcessorLoss { processor: ProcessorId(1), step: 400 }], ..Faults::default() };
        let learnt = Arc::new(Learnt::default());
        let (of_shard, of_top) = (learnt.clone(), learnt.clone());
        let outcome =
            Runtime::seeded(2, seed).mapper(Arc::new(RoundRobinMapper::default())).faults(faults).run(move |top| {
                let (of_shard, learnt) = (of_shard.clone(), of_top.clone());
                async move {
                    let gang = top.gang("two", 2)?;
                    let pairs = top.edges("p", &gang, (0..gang.shards()).map(|s| (s, 1 - s)), 1)?;
                    let slots = top.region_tree("slots", Rect::line(0, 2), &[V.info()])?;
                    let slot = Region::new(slots.tree, Rect::line(1, 2));
                    let task = top.register("waits", move |shard, args| waits(shard, args, of_shard.clone()));
                    let start = |s| {
                        let privilege = if s == 1 { Privilege::ReadWrite } else { Privilege::Read };
                        ShardLaunch::new((pairs, slot)).shares(slot, [V], privilege)
                    };
                    let done = top.launch_gang(&gang, &task, start)?;
                    for shard in 0..2 {
                        assert!(is_lost(done.get(shard)?.clone().await));
                    }
                    assert!(is_lost(top.launch_gang(&gang, &task, start)));
                    // The run ends with this task, whatever shards are at.
                    poll_fn(|cx| {
                        *learnt.awaiting.lock().unwrap() = Some(cx.waker().clone());
                        if learnt.all.load(Ordering::Relaxed) > 0 { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                    Ok(())
                }
            });
        assert!(is_lost(outcome), "seed {seed}: a run that lost a processor is no success");
        assert_eq!(learnt.all.load(Ordering::Relaxed), 2, "seed {seed}: the shard has learnt of it everywhere");
    }
}

#[test]
fn faults_need_a_driver_that_has_them_and_its_processors() {
    let slow = |from, to| {
        let slow = SlowLink { from: ProcessorId(from), to: ProcessorId(to), steps: 1 };
        Faults { slow: vec![slow], ..Faults::default() }
    };
    let refused = |runtime: Runtime| match runtime.run(|_| async { Ok(()) }) {
        Err(Error::Misuse { what, expected, .. }) => (what, expected),
        other => panic!("came {other:?}"),
    };
    let pause = Pause { processor: ProcessorId(0), from: 1, steps: 1 };
    let (what, expected) = refused(Runtime::threads(2).faults(Faults { pauses: vec![pause], ..slow(0, 1) }));
    assert_eq!((&what[..], &expected[..]), ("faults of a run", "the seeded driver for pauses and losses"));
    let (what, expected) = refused(Runtime::threads(2).faults(slow(0, 2)));
    assert_eq!((&what[..], &expected[..]), ("faults of a run", "processors in 0..2"));
    let (what, expected) = refused(Runtime::virtual_time(VirtualMachine::default()).faults(slow(0, 0)));
    assert_eq!((&what[..], &expected[..]), ("faults of a run", "the seeded driver, threads or processes"));
    let (what, expected) = refused(Runtime::seeded(2, 0).faults(slow(0, 2)));
    assert_eq!((&what[..], &expected[..]), ("faults of a run", "processors in 0..2"));
}

#[test]
fn a_program_that_polls_for_ever_is_ended() {
    let polls = |top: Top| async move {
        let gang = top.gang("one", 1)?;
        let task = top.register("polls", |shard: Shard, ()| async move {
            loop {
                shard.yield_now().await;
            }
            #[allow(unreachable_code)]
            Ok(())
        });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    };
    for runtime in [Runtime::seeded(2, 3), Runtime::virtual_time(VirtualMachine::default())] {
        let driver = format!("{:?}", runtime.driver());
        let e = watched(&driver, || runtime.most_steps(5000).run(polls)).expect_err("it does not end by itself");
        assert!(e.to_string().contains("it has taken 5000 steps"), "{driver}: {e}");
    }
}

#[test]
fn a_program_that_nobody_outside_wakes_is_ended() {
    let kept = Arc::new(std::sync::Mutex::new(None));
    let of_top = kept.clone();
    let waits = move |_: Top| {
        let kept = of_top.clone();
        std::future::poll_fn(move |cx| {
            kept.lock().expect("no panic").replace(cx.waker().clone());
            std::task::Poll::<Result<(), Error>>::Pending
        })
    };
    let run = || Runtime::seeded(1, 3).most_steps(100_000).run(waits);
    let e = watched("nobody wakes", run).expect_err("it does not end by itself");
    assert!(matches!(e, Error::Stopped { .. }), "{e}");
}

/// The clock stands still at its end, and does not begin anew.
#[test]
fn faults_may_take_longer_than_there_is_time() {
    let ever = u64::MAX;
    let pause = |processor, from| Pause { processor: ProcessorId(processor), from, steps: ever };
    let slow = SlowLink { from: ProcessorId(0), to: ProcessorId(1), steps: ever };
    let all = [
        Faults { pauses: vec![pause(0, 0)], ..Faults::default() },
        Faults { pauses: vec![pause(0, 30), pause(1, 40)], slow: vec![slow, slow], ..Faults::default() },
    ];
    for faults in all {
        let at = faults.to_string();
        let runtime = Runtime::seeded(2, 1).faults(faults).most_steps(100_000);
        // An hour passes meanwhile.
        let e = run(&runtime, &at).0.expect_err("the sum does not come within an hour");
        assert!(matches!(e.origin(), Error::TimedOut { .. }), "{at}: {e}");
    }
}

#[test]
fn faults_in_parts() {
    for seed in 0..200 {
        let faults = Faults::drawn(seed, 4, seed % 2 == 0);
        assert!(faults.losses.is_empty() || seed % 2 == 0);
        assert_eq!(faults.among(4), faults);
        for which in 0..faults.len() {
            assert_eq!(faults.without(which).len(), faults.len() - 1);
        }
        for processors in 0..4 {
            let rest = faults.among(processors);
            let of_slow = rest.slow.iter().flat_map(|s| [s.from, s.to]);
            let of_others = rest.pauses.iter().map(|p| p.processor).chain(rest.losses.iter().map(|d| d.processor));
            assert!(of_slow.chain(of_others).all(|p| p.0 < processors), "{rest} is not among {processors}");
            // Nor is anything gone that could stay.
            let gone = faults.slow.iter().filter(|s| s.from.max(s.to).0 >= processors).count()
                + faults.pauses.iter().filter(|p| p.processor.0 >= processors).count()
                + faults.losses.iter().filter(|d| d.processor.0 >= processors).count();
            assert_eq!(rest.len() + gone, faults.len());
        }
        assert_eq!(faults.to_string().split("; ").filter(|s| *s != "none").count(), faults.len());
    }
}
