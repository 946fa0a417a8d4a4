//! Wakers of the program's own, whose code may come back to the runtime.

use maniple_runtime::{Edges, Error, Runtime, Shard, ShardLaunch};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

type Wait = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

thread_local! {
    /// A wait under way, which the destructor of a waker gives up.
    static UNDER_WAY: RefCell<Option<Wait>> = const { RefCell::new(None) };
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(|_| raw(), |_| {}, |_| {}, |_| drop(UNDER_WAY.take()));

fn raw() -> RawWaker {
    RawWaker::new(std::ptr::null(), &VTABLE)
}

/// Waits for a generation that has ended, with a waker whose destructor gives up the wait for one of other pairs.
async fn waits(shard: Shard, (never, over): (Edges, Edges)) -> Result<u32, Error> {
    let (never, over, ready) = (never.consumer(&shard, 0)?, over.consumer(&shard, 0)?, over.producer(&shard, 0)?);
    let own = shard.clone();
    let mut first: Wait = Box::pin(async move { own.wait(never.ready()).await });
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    UNDER_WAY.set(Some(first));
    shard.arrive(ready.ready());
    // Safety: no data is behind the pointer, and each function of the table may be called from anywhere.
    let waker = unsafe { Waker::from_raw(raw()) };
    let mut second = std::pin::pin!(shard.wait(over.ready()));
    match second.as_mut().poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(outcome) => outcome.map(|()| 7),
        Poll::Pending => Ok(0),
    }
}

#[test]
fn a_wakers_destructor_may_give_up_a_wait_on_other_pairs() -> Result<(), Error> {
    let (values, _) = Runtime::seeded(1, 1).run(|top| async move {
        let gang = top.gang("one", 1)?;
        let (never, over) = (
            top.edges("never", &gang, (0..gang.shards()).map(|s| (s, 0)), 1)?,
            top.edges("over", &gang, (0..gang.shards()).map(|s| (s, 0)), 1)?,
        );
        let task = top.register("waits", waits);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((never, over)))?.all().await
    })?;
    assert_eq!(values, [7]);
    Ok(())
}
