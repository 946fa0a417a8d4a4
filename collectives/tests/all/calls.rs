//! Calls that a program should not make, or makes from where it should not: each is an error or works, and no processor
//! is lost.

use crate::common::size::part;
use crate::common::watched;
use maniple_collectives::{Algorithm, Collective, Contribution, Operator};
use maniple_mapper::ProcessorId;
use maniple_runtime::{
    Error, Faults, Input, PhaseBarrier, PhaseOptions, ProcessorLoss, Runtime, Shard, ShardLaunch, Top,
};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

fn runtimes() -> Vec<(String, Runtime)> {
    let seeded = (0..part(40)).map(|s| (format!("seed {s}"), Runtime::seeded(1 + (s % 3) as u32, s)));
    let threads =
        (0..part(12) as u32).map(|r| (format!("{} threads, round {r}", 1 + r % 3), Runtime::threads(1 + r % 3)));
    seeded.chain(threads).collect()
}

/// The other shard is where a processor stops: the call will never be over, and says why.
#[test]
fn a_call_learns_that_a_processor_is_lost() {
    async fn adds(shard: Shard, (total, learned): (Collective<i64>, u32)) -> Result<(), Error> {
        while shard.index() == 1 {
            shard.yield_now().await;
        }
        let error = total.call(&shard, 1)?.await.expect_err("the other shard makes no call");
        assert!(matches!(error.origin(), Error::Lost { processor: ProcessorId(1), .. }), "{error}");
        LEARNED[learned as usize].store(true, Ordering::Relaxed);
        Err(error)
    }
    static LEARNED: [AtomicBool; 20] = [const { AtomicBool::new(false) }; 20];
    for seed in 0..LEARNED.len() as u32 {
        let faults =
            Faults { losses: vec![ProcessorLoss { processor: ProcessorId(1), step: 60 }], ..Faults::default() };
        let outcome = watched(&format!("seed {seed}"), || {
            Runtime::seeded(2, seed.into()).faults(faults).run(move |top| async move {
                let gang = top.gang("two", 2)?;
                let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
                let task = top.register("adds", adds);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((total, seed)))?.all().await
            })
        });
        let error = outcome.expect_err("a run that lost a processor is no success");
        assert!(matches!(error.origin(), Error::Lost { processor: ProcessorId(1), .. }), "seed {seed}: {error}");
    }
    let learned = LEARNED.iter().filter(|learned| learned.load(Ordering::Relaxed)).count();
    assert!(learned > 0, "the run was over each time before the call was told");
}

#[test]
fn a_call_while_another_launch_is_in_the_middle_of_its_own_is_refused() {
    let mut refused = 0;
    for (at, runtime) in runtimes() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 3)?;
                let total = Collective::<i64>::allreduce(Operator::sum()).make(&top, &gang, "total")?;
                let task = top.register("adds", move |shard: Shard, _: ()| async move {
                    for _ in 0..10 {
                        assert_eq!(total.call(&shard, 1i64)?.await?, 3);
                    }
                    Ok(())
                });
                let first = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?;
                let second = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?;
                Ok([first.all().await.err(), second.all().await.err()])
            })
        });
        let (errors, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        for error in errors.iter().flatten() {
            refused += 1;
            let Error::Misuse { what, .. } = error.origin() else { panic!("{at}: {error}") };
            assert!(what.contains("a call of `total` in"), "{at}: {error}");
        }
    }
    assert!(refused > part(20), "{refused}");
}

/// The results that a shard's first launch never takes are not given to its second.
#[test]
fn results_that_a_launch_never_takes_are_gone() {
    for (at, runtime) in runtimes() {
        let program = |top: Top| async move {
            let gang = top.gang("all", 3)?;
            let total = Collective::allreduce(Operator::<u64>::sum()).elements(2).make(&top, &gang, "total")?;
            let task = top.register("adds", move |shard: Shard, launch: u64| async move {
                let mut came = Vec::new();
                for call in 0..3 {
                    total.contribute(&shard, vec![launch * 10 + call; 2])?.detach();
                    if launch == 1 {
                        came.push(total.receive(&shard)?.await?[0]);
                    }
                }
                Ok(came)
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(0))?.all().await?;
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(1))?.all().await
        };
        let (came, _) = watched(&at, || runtime.run(program)).unwrap_or_else(|e| panic!("{at}: {e}"));
        assert!(came.iter().all(|came| *came == [30, 33, 36]), "{at}: {came:?}");
    }
}

thread_local! {
    static CALLS: RefCell<Option<(Shard, Collective<i64>)>> = const { RefCell::new(None) };
}

/// A waker that itself makes a call.
struct Calling(Waker);

impl Wake for Calling {
    fn wake(self: Arc<Self>) {
        CALLS.with_borrow_mut(|calls| {
            if let Some((shard, total)) = calls.take() {
                drop(total.call(&shard, 1));
            }
        });
        self.0.wake_by_ref();
    }
}

/// Runs a shard for each number, on every driver, with a sum of all: these must be what the shards return.
fn each_gives<F, R>(expected: &[i64], body: F)
where
    F: Fn(Shard, Collective<i64>) -> R + Copy + Send + Sync + 'static,
    R: Future<Output = Result<i64, Error>> + 'static,
{
    let shards = expected.len() as u32;
    for (at, runtime) in runtimes() {
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
                let task = top.register("adds", move |shard: Shard, _: ()| body(shard, total));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            })
        });
        assert_eq!(outcome.map(|(v, _)| v).map_err(|e| e.to_string()), Ok(expected.to_vec()), "{at}");
    }
}

#[test]
fn a_waker_may_make_a_call() {
    each_gives(&[1], |shard, total| async move {
        let input = shard.launch(|| 1i64, ()).go()?;
        CALLS.set(Some((shard.clone(), total)));
        let mut call = total.call(&shard, &input)?;
        let result = poll_fn(|cx| {
            let waker = Waker::from(Arc::new(Calling(cx.waker().clone())));
            Pin::new(&mut call).poll(&mut Context::from_waker(&waker))
        });
        let result = result.await;
        CALLS.set(None);
        result
    });
}

/// A contribution that is itself made by a call of the same object.
struct Nested(Shard, Collective<i64>);

impl From<Nested> for Contribution<i64> {
    fn from(Nested(shard, total): Nested) -> Self {
        (&total.call(&shard, 1).expect("a call")).into()
    }
}

/// A contribution that can't be made.
struct Bomb;

impl From<Bomb> for Contribution<i64> {
    fn from(_: Bomb) -> Self {
        panic!("bomb")
    }
}

#[test]
fn making_a_contribution_may_call_and_may_panic() {
    each_gives(&[9; 3], |shard, total| async move {
        let bomb = || drop(total.call(&shard, Bomb));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(bomb)).is_err());
        total.call(&shard, Nested(shard.clone(), total))?.await
    });
}

/// Shard 3 is lost; shard 0, with which it would combine first, makes its own call only when shard 2 has been told.
#[test]
fn a_lost_shard_is_told_of_before_the_first_of_its_block_comes() {
    type Told = (AtomicBool, Mutex<Option<Waker>>);
    async fn shard(shard: Shard, total: Collective<i64>, told: Arc<Told>) -> Result<(), Error> {
        let (is_told, waker) = &*told;
        match shard.index() {
            0 => {
                poll_fn(|cx| {
                    *waker.lock().unwrap() = Some(cx.waker().clone());
                    if is_told.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
            3 => panic!("lost"),
            _ => {}
        }
        let sum = total.call(&shard, 1)?.await;
        if shard.index() == 2 {
            is_told.store(true, Ordering::SeqCst);
            if let Some(waker) = waker.lock().unwrap().take() {
                waker.wake();
            }
        }
        assert!(sum.is_err(), "a sum without shard 3");
        Ok(())
    }
    for algorithm in [Algorithm::RecursiveDoubling, Algorithm::TwoLevel] {
        for seed in 0..20 {
            let (at, runtime) = match seed {
                0 => ("a thread".into(), Runtime::threads(1)),
                seed => (format!("seed {seed}"), Runtime::seeded(1, seed)),
            };
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", 4)?;
                    let total =
                        Collective::allreduce(Operator::sum()).algorithm(algorithm).make(&top, &gang, "total")?;
                    let told = Arc::new(Told::default());
                    let task = top.register("adds", move |s: Shard, _: ()| shard(s, total, told.clone()));
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                })
            });
            let error = outcome.map(drop).expect_err(&at);
            assert!(matches!(error.origin(), Error::Panicked { message, .. } if message == "lost"), "{at}: {error}");
        }
    }
}

/// Wherever the error of a shard goes, it says which shard returned it. Shard 2 is in no collective.
#[test]
fn an_error_that_a_shard_returns_keeps_its_place() {
    async fn shard(shard: Shard, (ready, sum): (PhaseBarrier, Collective<u64>)) -> Result<Option<String>, Error> {
        let input = match shard.index() {
            0 => 1.into(),
            1 => (&shard.launch(|| 1, ()).wait(&ready.waiter(&shard)?).go()?).into(),
            _ => return Err(Error::user("shard gives up")),
        };
        let input: Input<u64> = input;
        Ok(sum.call(&shard, input)?.await.err().map(|e| e.to_string()))
    }
    for processors in 1..=3 {
        let program = |top: Top| async move {
            let gang = top.gang("all", 3)?;
            let ready = top.phase_barrier("ready", &gang, PhaseOptions::between([2], [1]))?;
            let sum = Collective::allreduce(Operator::sum()).participants(0..2).make(&top, &gang, "sum")?;
            let task = top.register("shard", shard);
            let ends = top.launch_gang(&gang, &task, |_| ShardLaunch::new((ready, sum)))?;
            assert!(ends.get(2)?.clone().await.is_err());
            Ok((ends.get(0)?.clone().await?, ends.get(1)?.clone().await?))
        };
        let ((far, near), _) = Runtime::seeded(processors, 1).run(program).unwrap();
        for told in [far, near] {
            let told = told.expect("an error");
            assert!(told.contains("`shard` of shard 2"), "{processors} processors: {told}");
        }
    }
}

/// The same where shards of a processor combine in place: shard 0 leads for shards 0 to 2. Shard 1 has the error, and
/// shard 2 gets it from shard 0. Shard 5 has contributed before it fails.
#[test]
fn an_error_that_a_shard_returns_keeps_its_place_among_shards_of_a_processor() {
    async fn shard(shard: Shard, (ready, sum): (PhaseBarrier, Collective<u64>)) -> Result<String, Error> {
        let input: Input<u64> = match shard.index() {
            1 => (&shard.launch(|| 1, ()).wait(&ready.waiter(&shard)?).go()?).into(),
            _ => 1.into(),
        };
        let call = sum.call(&shard, input)?;
        if shard.index() == 5 {
            for _ in 0..100 {
                shard.yield_now().await;
            }
            return Err(Error::user("shard gives up"));
        }
        Ok(call.await.map_or_else(|e| e.to_string(), |sum| sum.to_string()))
    }
    for seed in 0..20 {
        let program = |top: Top| async move {
            let gang = top.gang("all", 6)?;
            let ready = top.phase_barrier("ready", &gang, PhaseOptions::between([5], [1]))?;
            let sum = Collective::allreduce(Operator::sum()).algorithm(Algorithm::TwoLevel).make(&top, &gang, "sum")?;
            let task = top.register("shard", shard);
            let ends = top.launch_gang(&gang, &task, |_| ShardLaunch::new((ready, sum)))?;
            let mut told = Vec::new();
            for end in ends.iter().take(5) {
                told.push(end.clone().await?);
            }
            assert!(ends.get(5)?.clone().await.is_err());
            Ok(told)
        };
        let (told, _) = Runtime::seeded(2, seed).run(program).unwrap();
        for (s, told) in told.into_iter().enumerate() {
            assert!(told.contains("`shard` of shard 5 failed: shard gives up"), "seed {seed}, shard {s}: {told}");
        }
    }
}
