//! `maniple::explore` finds what goes wrong, says how to see it again, and says no more than it takes.

use maniple::explore::{Explore, SEED, first_failure};
use maniple::prelude::*;
use maniple::regions::{Privilege, ReadShared, WriteShared};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Both shards add to a number in turns, if the second one waits; it does so by itself under most orders.
fn in_turns(runtime: Runtime, waits: bool) -> Result<(), Error> {
    const V: Field<u64> = Field::new(0, "v");
    async fn shard(shard: Shard, (v, pairs, waits): (Region, Edges, bool)) -> Result<u64, Error> {
        let v = shard.region(v)?;
        if shard.index() == 0 {
            let pair = pairs.producer(&shard, 1 - shard.index())?;
            let ready = pair.ready();
            shard.launch(|mut v: WriteShared<u64>| v.fill(1), (v.write_shared(V),)).arrive(ready).go()?.await?;
            return Ok(1);
        }
        for _ in 0..40 {
            shard.yield_now().await;
        }
        let pair = pairs.consumer(&shard, 0)?;
        let ready = pair.ready();
        let read = shard.launch(|v: ReadShared<u64>| v.get([0]), (v.read_shared(V),));
        let read = if waits { read.wait(ready) } else { read };
        read.go()?.await
    }
    let (values, _) = runtime.run(move |top| async move {
        let tree = top.region_tree("v", Rect::line(0, 1), &[V.info()])?;
        let gang = top.gang("two", 2)?;
        let pairs = top.edges("turn", &gang, (0..gang.shards()).map(|s| (s, 1 - s)), 1)?;
        let task = top.register("shard", shard);
        let start = |_| ShardLaunch::new((tree, pairs, waits)).shares(tree, [V], Privilege::ReadWrite);
        top.launch_gang(&gang, &task, start)?.all().await
    })?;
    if values == [1, 1] { Ok(()) } else { Err(Error::user(format!("came {values:?}"))) }
}

#[test]
fn a_missing_wait_is_found_and_found_again() {
    assert_eq!(maniple::explore(300, |runtime| in_turns(runtime, true)).map(|e| e.runs), Ok(300));
    let found = maniple::explore(300, |runtime| in_turns(runtime, false)).expect_err("a missing wait");
    let text = found.to_string();
    assert!(found.message.contains("came [1, 0]"), "{text}");
    assert!(text.contains(&format!("{SEED}={}", found.seed)), "{text}");
    assert!(found.processors <= 2 && found.faults.len() <= 1, "{text}");
    let again = Explore::new(1).from(found.seed).run(|runtime| in_turns(runtime, false)).expect_err("the same seed");
    assert_eq!(again, found);
    let side_by_side =
        Explore::new(300).workers(3).run(|runtime| in_turns(runtime, false)).expect_err("the same seeds");
    assert_eq!(side_by_side, found);
}

#[test]
fn no_more_is_reported_than_it_takes() {
    let fails_with_three = |runtime: Runtime| {
        let processors = runtime.run(|top| async move { Ok(top.processors()) }).map_err(|e| e.to_string())?.0;
        if processors < 3 { Ok(()) } else { Err(format!("{processors} are too many")) }
    };
    let found = Explore::new(50).processors(1..=6).run(fails_with_three).expect_err("some have three");
    assert_eq!((found.processors, found.faults.len()), (3, 0), "{found}");
    assert_eq!(found.least_message, "3 are too many");
}

#[test]
fn panics_are_found_too() {
    let found = maniple::explore(10, |runtime| {
        assert!(runtime.planned_faults().is_empty(), "with faults");
        Ok::<(), Error>(())
    });
    let found = found.expect_err("some have faults");
    assert!(found.message.contains("it panicked: with faults"), "{found}");
    assert_eq!(found.faults.len(), 1, "{found}");
}

#[test]
fn lost_processors_are_asked_for() {
    let lost = AtomicU64::new(0);
    let run = |losses: bool| {
        Explore::new(200).losses(losses).run(|runtime| match in_turns(runtime, true) {
            Err(e) if matches!(e.origin(), Error::Lost { .. }) => {
                lost.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            other => other,
        })
    };
    run(false).expect("nobody is lost");
    assert_eq!(lost.load(Ordering::Relaxed), 0);
    run(true).expect("who is lost is named");
    assert!(lost.load(Ordering::Relaxed) > 20, "{lost:?}");
}

#[test]
fn the_first_seed_that_fails_is_found_whatever_the_number_of_threads() {
    for workers in [1, 2, 5] {
        let ran = Mutex::new(Vec::new());
        let found = first_failure(10..500, workers, |seed| {
            ran.lock().unwrap().push(seed);
            if seed % 50 == 37 { Err(seed) } else { Ok(()) }
        });
        assert_eq!(found, Some((37, 37)));
        assert!((10..=37).all(|seed| ran.lock().unwrap().contains(&seed)));
    }
    assert_eq!(first_failure(0..100, 2, |_| Ok::<(), ()>(())), None);
}

/// What `a_seed_in_the_environment_is_run_alone` starts.
#[test]
#[ignore = "wants a seed in the environment"]
fn child() {
    let ran = Mutex::new(Vec::new());
    let explored = maniple::explore(100, |runtime| {
        ran.lock().unwrap().push(format!("{:?}", runtime.driver()));
        Ok::<(), Error>(())
    });
    println!("runs: {}, ran {:?}", explored.unwrap().runs, ran.lock().unwrap());
}

/// What `child` says and how it ends, with this seed in the environment.
fn with_seed(seed: &str) -> (bool, String) {
    let test = std::env::current_exe().expect("a test has an executable");
    let arguments = ["--exact", "explore::child", "--ignored", "--nocapture"];
    let output = std::process::Command::new(test).args(arguments).env(SEED, seed).output().expect("it starts");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.success(), text.concat())
}

#[test]
fn a_seed_in_the_environment_is_run_alone() {
    let (right, text) = with_seed("1234567");
    assert!(right && text.contains("runs: 1,") && text.contains("seed: 1234567"), "{text}");
}

#[test]
fn what_is_no_seed_is_refused() {
    for seed in ["", "12x", "-1", "18446744073709551615", "18446744073709551616"] {
        let (right, text) = with_seed(seed);
        assert!(
            !right && text.contains(&format!("{SEED}: expected a seed, 0 to 18446744073709551614, found {seed:?}")),
            "{text}"
        );
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    #[allow(clippy::reversed_empty_ranges)]
    let wrong = [
        (Explore::new(0), "at least one"),
        (Explore::new(1).from(u64::MAX), "at least one"),
        (Explore::new(9).processors(0..=2), "from 1 up"),
        (Explore::new(9).processors(3..=2), "from 1 up"),
    ];
    for (explore, what) in wrong {
        let refused = explore.run(|_| -> Result<(), Error> { panic!("nothing is run") }).expect_err("it is refused");
        assert!(refused.message.contains(what) && refused.to_string() == refused.message, "{refused}");
    }
}

#[test]
fn losses_come_without_other_faults_too() {
    let losses = AtomicU64::new(0);
    let run = |runtime: Runtime| {
        let faults = runtime.planned_faults();
        losses.fetch_add(faults.losses.len() as u64, Ordering::Relaxed);
        if faults.len() == faults.losses.len() { Ok(()) } else { Err(faults.to_string()) }
    };
    Explore::new(100).faults(false).losses(true).run(run).expect("losses and nothing else");
    assert!(losses.into_inner() > 20);
}

#[test]
fn what_fails_in_another_way_is_no_smaller_case() {
    let shrinks = AtomicBool::new(false);
    let found = Explore::new(50).processors(1..=6).run(|runtime| {
        match runtime.run(|top| async move { Ok(top.processors()) }).map_err(|e| e.to_string())?.0 {
            1 | 2 if shrinks.load(Ordering::Relaxed) => Err("too few".to_string()),
            n @ 5.. => {
                shrinks.store(true, Ordering::Relaxed);
                Err(format!("{n} are too many"))
            }
            _ => Ok(()),
        }
    });
    let found = found.expect_err("some have five");
    assert_eq!((found.processors, &found.least_message[..]), (5, "5 are too many"), "{found}");
}

#[test]
fn seeds_end_with_the_last_number() {
    let ran = AtomicU64::new(0);
    let run = |_| {
        ran.fetch_add(1, Ordering::Relaxed);
        Ok::<(), ()>(())
    };
    assert_eq!(first_failure(u64::MAX - 3..u64::MAX, 4, run), None);
    assert_eq!(ran.into_inner(), 3);
}
