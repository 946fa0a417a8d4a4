//! A run of several processes that can't go on. Tests on all wires of processes have it.

use maniple::prelude::*;

/// The error of a run in which the top-level task of this process ends at once, while other processes launch shards.
pub fn one_ends_alone(runtime: &Runtime, shards: u32, one: u32) -> Error {
    let outcome = runtime.run(move |top| async move {
        let gang = top.gang("all", shards)?;
        if Runtime::process_number() == one {
            return Ok(Vec::new());
        }
        let task = top.register("body", |shard: Shard, ()| async move { Ok(shard.index()) });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    });
    let error = outcome.map(drop).expect_err("the shards of one process are never launched");
    assert!(matches!(error, Error::Deadlock { .. } | Error::Divergence { .. }), "{error}");
    error
}

/// A deadlock of four shards, whose report names what is missing. It has to be the same in all processes.
pub fn deadlock(runtime: &Runtime) -> Error {
    let outcome = runtime.run(|top| async move {
        let gang = top.gang("all", 4)?;
        let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
        let body = |shard: Shard, total: Collective<f64>| async move {
            match shard.index() {
                3 => Ok(0.0),
                _ => total.call(&shard, 1.0)?.await,
            }
        };
        top.launch_gang(&gang, &top.register("body", body), |_| ShardLaunch::new(total))?.all().await
    });
    let error = outcome.map(drop).expect_err("shard 3 never calls");
    let Error::Deadlock { report, .. } = &error else { panic!("{error}") };
    // The call is the first shard's; the shard that has not made it may be in another process.
    assert!(report.contains("missing in call 0 of `total`: shard 3"), "{report}");
    assert!((0..3).all(|shard| report.contains(&format!("`body` of shard {shard}"))), "{report}");
    error
}
