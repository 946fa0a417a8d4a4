//! Every kind of wait, given up with every limit and taken up again.

use super::{LIMITS, LONG, Links, drivers, links, timed_out};
use crate::common::run;
use maniple_runtime::{Arg, Error, Shard, ShardLaunch, TaskFuture};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
enum Kind {
    Future,
    FutureClone,
    Map,
    Ready,
    ReadyPinned,
    Empty,
    Phase,
    PhasePinned,
    Value,
    ValuePinned,
    /// A wait inside others, polled with a waker of their own.
    Foreign,
}

const KINDS: [Kind; 11] = [
    Kind::Future,
    Kind::FutureClone,
    Kind::Map,
    Kind::Ready,
    Kind::ReadyPinned,
    Kind::Empty,
    Kind::Phase,
    Kind::PhasePinned,
    Kind::Value,
    Kind::ValuePinned,
    Kind::Foreign,
];

/// In vain with every limit; then shard 1 is told, and the wait comes to its end.
macro_rules! in_vain_then {
    ($shard:expr, $tell:expr, $wait:expr) => {{
        for limit in LIMITS {
            for _ in 0..2 {
                timed_out($shard.timeout(limit, $wait).await, "late", limit);
            }
        }
        $tell;
        $shard.timeout(LONG, $wait).await?
    }};
}

struct Inner(Waker);

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

/// `future`, polled each time with a new waker, as some combinators do.
async fn foreign<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let waker = Waker::from(Arc::new(Inner(cx.waker().clone())));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// Shard 0's waits time out until it has told shard 1, which only then does its part.
async fn late(shard: Shard, (kind, links): (Kind, Links)) -> Result<Vec<u64>, Error> {
    let Links { go, there, phase, sums } = links;
    let mut came = Vec::new();
    if shard.index() == 1 {
        let (asked, mine) = (go.consumer(&shard, 0)?, there.producer(&shard, (shard.index() + 1) % shard.shards())?);
        let (consumer, arriver, adds) = (there.consumer(&shard, 0)?, phase.arriver(&shard)?, sums.arriver(&shard)?);
        for round in 0..3 {
            shard.wait(asked.ready()).await?;
            match kind {
                Kind::Empty => shard.arrive(consumer.empty()),
                Kind::Phase | Kind::PhasePinned => shard.arrive(&arriver),
                Kind::Value | Kind::ValuePinned => shard.arrive_with(&adds, 100 + round),
                _ => shard.arrive(mine.ready()),
            }
        }
        return Ok(came);
    }
    let (tells, other, mine) = (
        go.producer(&shard, (shard.index() + 1) % shard.shards())?,
        there.consumer(&shard, 1)?,
        there.producer(&shard, (shard.index() + 1) % shard.shards())?,
    );
    let (arriver, waiter) = (phase.arriver(&shard)?, phase.waiter(&shard)?);
    let (adds, sum) = (sums.arriver(&shard)?, sums.waiter(&shard)?);
    // A region starts empty.
    shard.timeout(Duration::ZERO, shard.wait(mine.empty())).await?;
    for round in 0..3u64 {
        let tell = || shard.arrive(tells.ready());
        let late = || shard.launch(move || 40 + round, ()).wait(other.ready()).go();
        match kind {
            Kind::Future => {
                let mut future = late()?;
                came.push(in_vain_then!(shard, tell(), &mut future));
            }
            Kind::FutureClone => {
                let future = late()?;
                came.push(in_vain_then!(shard, tell(), future.clone()));
            }
            Kind::Map => {
                let first: TaskFuture<u64> = late()?;
                let point = |i| ((&first).into(), (i as u64).into());
                let all = shard.index_launch(3, |first: Arg<u64>, i: Arg<u64>| *first * 100 + *i, point).go()?;
                came.extend(in_vain_then!(shard, tell(), all.all()));
            }
            Kind::Ready => in_vain_then!(shard, tell(), shard.wait(other.ready())),
            Kind::ReadyPinned => {
                let mut wait = pin!(shard.wait(other.ready()));
                in_vain_then!(shard, tell(), &mut wait)
            }
            Kind::Empty => in_vain_then!(shard, tell(), shard.wait(mine.empty())),
            Kind::Phase => {
                shard.arrive(&arriver);
                in_vain_then!(shard, tell(), shard.wait(&waiter))
            }
            Kind::PhasePinned => {
                shard.arrive(&arriver);
                let mut wait = pin!(shard.wait(&waiter));
                in_vain_then!(shard, tell(), &mut wait)
            }
            Kind::Value => {
                shard.arrive_with(&adds, 1000);
                came.push(in_vain_then!(shard, tell(), shard.wait_value(&sum)));
            }
            Kind::ValuePinned => {
                shard.arrive_with(&adds, 1000);
                let mut wait = pin!(shard.wait_value(&sum));
                came.push(in_vain_then!(shard, tell(), &mut wait));
            }
            Kind::Foreign => {
                let future = late()?;
                for limit in LIMITS {
                    timed_out(foreign(shard.timeout(limit, foreign(future.clone()))).await, "late", limit);
                }
                tell();
                came.push(foreign(shard.timeout(LONG, foreign(future))).await?);
            }
        }
    }
    Ok(came)
}

#[test]
fn every_wait_can_be_given_up_and_taken_up_again() {
    for (at, runtime) in drivers(40) {
        for kind in KINDS {
            let at = format!("{at}, {kind:?}");
            let came = run(&at, &runtime, move |top| async move {
                let (gang, links) = links(&top, 2)?;
                let task = top.register("late", late);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((kind, links)))?.all().await
            });
            let came = came.unwrap_or_else(|e| panic!("{at}: {e}")).swap_remove(0);
            let expected = match kind {
                Kind::Future | Kind::FutureClone | Kind::Foreign => vec![40, 41, 42],
                Kind::Map => vec![4000, 4001, 4002, 4100, 4101, 4102, 4200, 4201, 4202],
                Kind::Value | Kind::ValuePinned => vec![1100, 1101, 1102],
                _ => vec![],
            };
            assert_eq!(came, expected, "{at}");
        }
    }
}
