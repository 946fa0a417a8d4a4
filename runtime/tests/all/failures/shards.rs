//! A shard that fails while others wait for it.

use super::{Links, all, bomb, fails, links, nothing, panicked};
use crate::common::watched;
use maniple_runtime::{Error, Shard, ShardLaunch};

/// One shard fails in some way while the others wait for it at pairs and at a phase barrier.
async fn one_fails(shard: Shard, (links, how): (Links, u32)) -> Result<i64, Error> {
    let from = (shard.index() + shard.shards() - 1) % shard.shards();
    let (out, inn) =
        (links.ring.producer(&shard, (shard.index() + 1) % shard.shards())?, links.ring.consumer(&shard, from)?);
    let everybody = (links.all.arriver(&shard)?, links.all.waiter(&shard)?);
    for round in 0..3 {
        if shard.index() == links.bad && round == 2 {
            match how {
                0 => panic!("shard bomb"),
                1 => return Err(Error::user("shard gives up")),
                _ => drop(shard.launch(bomb, (1.into(),)).go()?.await?),
            }
        }
        shard.launch(nothing, ()).wait(out.empty()).arrive(out.ready()).go()?.detach();
        shard.launch(nothing, ()).wait(inn.ready()).arrive(inn.empty()).arrive(&everybody.0).go()?.detach();
        shard.wait(&everybody.1).await?;
    }
    Ok(1)
}

fn one_of_five_fails(how: u32, check: impl Fn(&Error)) {
    fails(
        "one of five",
        move |top| async move {
            let (gang, links) = links(&top, 5, 2)?;
            let task = top.register("shard", one_fails);
            let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new((links, how)))?;
            let mut origins = Vec::new();
            for f in done.iter() {
                origins.push(f.clone().await.expect_err("everybody waits for the bad one").origin().clone());
            }
            assert!(origins.iter().all(|o| *o == origins[0]), "{origins:?}");
            done.all().await
        },
        check,
    );
}

#[test]
fn a_panic_in_a_shard_reaches_those_who_wait_for_it() {
    one_of_five_fails(0, |e| panicked(e, "shard", Some(2), "shard bomb"));
}

#[test]
fn an_error_of_a_shard_reaches_those_who_wait_for_it() {
    one_of_five_fails(1, |e| assert_eq!(e.origin(), &Error::user("shard gives up"), "{e:?}"));
}

#[test]
fn a_failed_leaf_that_fails_its_shard_reaches_those_who_wait_for_it() {
    one_of_five_fails(2, |e| panicked(e, "bomb", Some(2), "leaf bomb"));
}

#[test]
fn an_effect_names_its_own_task_and_shard() {
    async fn shard(shard: Shard, links: Links) -> Result<i64, Error> {
        let end = (links.all.arriver(&shard)?, links.all.waiter(&shard)?);
        if shard.index() == links.bad {
            return Err(Error::user("origin"));
        }
        shard.arrive(&end.0);
        let waits = shard.launch(nothing, ()).named("patient").wait(&end.1).go()?;
        waits.await.map(|()| 0)
    }
    for (at, runtime) in all() {
        let outcome = watched(&at, || {
            runtime.run(|top| async move {
                let (gang, links) = links(&top, 3, 2)?;
                let task = top.register("shard", shard);
                let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new(links))?;
                let e = done.get(1)?.clone().await.expect_err("shard 2 never arrives");
                let text = e.to_string();
                assert!(text.contains("`patient` of shard 1") && text.contains("origin"), "{text}");
                for f in done.iter() {
                    drop(f.clone().await);
                }
                Ok(())
            })
        });
        outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}
