//! Calls that a program should not make, or makes from where it should not: each is an error or works, and no processor
//! is lost.

mod common;

use common::watched;
use maniple_collectives::{Allreduce, Operator};
use maniple_runtime::{Error, Runtime, Shard, Start};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

fn runtimes() -> Vec<(String, Runtime)> {
    let seeded = (0..40u64).map(|s| (format!("seed {s}"), Runtime::seeded(1 + (s % 3) as u32, s)));
    let threads = (0..12u32).map(|r| (format!("{} threads, round {r}", 1 + r % 3), Runtime::threads(1 + r % 3)));
    seeded.chain(threads).collect()
}

#[test]
fn a_call_while_another_launch_is_in_the_middle_of_its_own_is_refused() {
    let mut refused = 0;
    for (at, runtime) in runtimes() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 3)?;
                let total = Allreduce::new(&top, &gang, "total", Operator::sum())?;
                let task = top.task("adds", move |shard: Shard, _: ()| async move {
                    for _ in 0..10 {
                        assert_eq!(total.call(&shard, 1i64)?.await?, 3);
                    }
                    Ok(())
                });
                let first = top.launch(&gang, &task, |_| Start::new(()))?;
                let second = top.launch(&gang, &task, |_| Start::new(()))?;
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
    assert!(refused > 20, "{refused}");
}

thread_local! {
    static CALLS: RefCell<Option<(Shard, Allreduce<i64>)>> = const { RefCell::new(None) };
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

#[test]
fn a_waker_may_make_a_call() {
    for (at, runtime) in runtimes() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let gang = top.gang("all", 1)?;
                let total = Allreduce::new(&top, &gang, "total", Operator::sum())?;
                let task = top.task("wakes", move |shard: Shard, _: ()| async move {
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
                top.launch(&gang, &task, |_| Start::new(()))?.all().await
            })
        });
        assert_eq!(outcome.map(|(v, _)| v).map_err(|e| e.to_string()), Ok(vec![1]), "{at}");
    }
}
