//! Barriers that are misused: what is refused, and what a deadlock's report says. What barriers must do is in generated
//! programs (`explore/`).

use crate::common;
use crate::common::run;
use crate::common::size::part;
use maniple_barriers::BarrierError;
use maniple_mapper::stock;
use maniple_regions::Operator;
use maniple_runtime::{Arg, Edges, Error, Gang, PhaseBarrier, PhaseOptions, Runtime, Shard, ShardLaunch};
use std::time::{Duration, Instant};

/// What was refused to an arriver that ran too far ahead: barrier, arriver, generation and window.
fn over_arrival(e: &Error) -> Option<(String, u32, u64, u64)> {
    match e.origin() {
        Error::Barrier { barrier, source: BarrierError::OverArrival { arriver, generation, window, .. } } => {
            Some((barrier.clone(), *arriver, *generation, *window))
        }
        _ => None,
    }
}

fn has(report: &str, words: &[&str]) -> bool {
    report.lines().any(|line| words.iter().all(|w| line.contains(w)))
}

/// Shards are anywhere, so that arrivers are refused by any member of the combining tree.
fn runtimes(seeds: u64) -> Box<dyn Iterator<Item = (String, Runtime)>> {
    if let Some(all) = common::on_processes(seeds) {
        return Box::new(all.into_iter());
    }
    let seeds = part(seeds);
    let strewn = |seed: u64, r: Runtime| r.mapper(stock(&format!("random,seed={seed}")).unwrap());
    let seeded = (0..seeds).map(move |seed| {
        let processors = 1 + (seed % 5) as u32;
        (format!("{processors} processors, seed {seed}"), strewn(seed, Runtime::seeded(processors, seed)))
    });
    let threads = (0..seeds / 10).map(move |seed| {
        let workers = 1 + (seed % 3) as u32;
        (format!("{workers} threads, mapper seed {seed}"), strewn(seed, Runtime::threads(workers)))
    });
    Box::new(seeded.chain(threads))
}

fn nothing() {}

fn after(_: Arg<()>) {}

/// Shard 1, second of three arrivers, makes four arrivals although the window allows three; it goes on all the same.
#[test]
fn over_arrival_names_barrier_arriver_generation_and_window() {
    async fn shard(shard: Shard, (gate, how): (PhaseBarrier, u32)) -> Result<(), Error> {
        if shard.index() == 1 {
            let arriver = gate.arriver(&shard)?;
            let mut last = shard.launch(nothing, ()).arrive(&arriver).go()?;
            for _ in 1..6 {
                if how & 1 == 0 {
                    last.clone().await?;
                    shard.arrive(&arriver);
                } else {
                    last = shard.launch(after, ((&last).into(),)).arrive(&arriver).go()?;
                }
            }
            return Ok(());
        }
        let waiter = gate.waiter(&shard)?;
        if shard.index() == 0 {
            // What was refused never completes, and who waits for it is told the reason.
            waiter.seek(3);
            let e = shard.wait(&waiter).await.expect_err("nobody else arrives");
            assert_eq!(over_arrival(&e), Some(("phase barrier `gate`".into(), 1, 3, 2)), "{e:?}");
        } else if how & 2 == 0 {
            shard.wait(&waiter).await?;
        }
        Ok(())
    }
    for (name, runtime) in runtimes(200) {
        for how in 0..4 {
            let at = format!("over-arrival {how} on {name}");
            let outcome = run(&at, &runtime, move |top| async move {
                let gang = top.gang("all", 5)?;
                let gate = PhaseOptions::between([3, 1, 4], [4, 0, 2, 3]).window(2).arity(1 + how as usize % 3);
                let gate = top.phase_barrier("gate", &gang, gate)?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((gate, how)))?.all().await
            });
            let e = outcome.expect_err(&at);
            assert_eq!(over_arrival(&e), Some(("phase barrier `gate`".into(), 1, 3, 2)), "{at}: {e:?}");
            for words in ["`gate`", "arriver 1 ", "generation 3,", "the window is 2 generations;"] {
                assert!(e.to_string().contains(words), "`{words}` is not in: {e}");
            }
        }
    }
}

/// Wherever the waiter and the missing shards are.
#[test]
fn a_deadlock_names_the_missing_arrivers() {
    async fn shard(shard: Shard, gate: PhaseBarrier) -> Result<(), Error> {
        let times = [1, 0, 0, 1, 2][shard.index() as usize];
        if shard.index() != 1 {
            let arriver = gate.arriver(&shard)?;
            (0..times).for_each(|_| shard.arrive(&arriver));
            return Ok(());
        }
        let waiter = gate.waiter(&shard)?;
        let first = shard.launch(nothing, ()).named("patient").wait(&waiter).go()?;
        shard.wait(&waiter).await?;
        first.await
    }
    for (name, runtime) in runtimes(200) {
        let at = format!("missing arrivers on {name}");
        let outcome = run(&at, &runtime, |top| async move {
            let gang = top.gang("all", 5)?;
            let gate = top.phase_barrier("gate", &gang, PhaseOptions::between([4, 2, 0, 3], [1]).arity(2))?;
            top.phase_barrier("unused", &gang, PhaseOptions::all(&gang))?;
            let task = top.register("waits", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(gate))?.all().await
        });
        let Err(Error::Deadlock { report, .. }) = outcome else { panic!("{at}: {outcome:?}") };
        for words in [
            ["`patient` of shard 1", "generation 0 of phase barrier `gate`"],
            ["`waits` of shard 1", "generation 1 of phase barrier `gate`"],
            ["missing for generation 0 of phase barrier `gate`", ": shard 2"],
            ["missing for generation 1 of phase barrier `gate`", ": shard 0, 2, 3"],
        ] {
            assert!(has(&report, &words), "{at}: {words:?} is not in\n{report}");
        }
        assert!(!report.contains("unused"), "{at}: nobody waits there\n{report}");
        let lines = report.lines().filter(|l| l.contains("missing") || l.contains("patient")).count();
        assert_eq!(lines, 3, "{at}: something is said twice in\n{report}");
    }
}

/// What one handle does wrong is an error, although nobody waits: an arrival is made twice, complete or early, or before
/// its turn by more than 64 generations, however wide the window.
#[test]
fn arrivals_that_come_twice_or_much_too_early_are_refused() {
    async fn shard(shard: Shard, (gate, ring, last, how): (PhaseBarrier, Edges, Edges, u32)) -> Result<(), Error> {
        if shard.index() == 1 {
            // What shard 0 has sent before is here by then.
            shard.wait(last.consumer(&shard, 0)?.ready()).await?;
        }
        if shard.index() == 0 {
            let (own, arriver) = (ring.producer(&shard, (shard.index() + 1) % shard.shards())?, gate.arriver(&shard)?);
            let generations = match how / 2 {
                0 => vec![0, 1, 2, 0],
                1 => vec![0, 1, 7, 7],
                _ => vec![0, 1, 66, 67],
            };
            for g in generations {
                if how % 2 == 0 {
                    own.ready().seek(g);
                    shard.launch(nothing, ()).arrive(own.ready()).go()?.await?;
                } else {
                    arriver.seek(g);
                    shard.launch(nothing, ()).arrive(&arriver).go()?.await?;
                }
            }
            shard.arrive(last.producer(&shard, 1)?.ready());
        }
        Ok(())
    }
    for (name, runtime) in runtimes(50) {
        for how in 0..6 {
            let at = format!("refused arrival {how} on {name}");
            let outcome = run(&at, &runtime, move |top| async move {
                let gang: Gang = top.gang("all", 3)?;
                let gate = PhaseOptions::between([2, 0], 0..3).window(1000);
                let gate = top.phase_barrier("gate", &gang, gate)?;
                let ring = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % 3)), 1)?;
                let last = top.edges("last", &gang, [(0, 1)], 1)?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((gate, ring, last, how)))?.all().await
            });
            let (barrier, arriver) = match how % 2 {
                0 => ("`ring` ready of edge shard 0 -> shard 1", 0),
                _ => ("phase barrier `gate`", 1),
            };
            let source = match how / 2 {
                0 => BarrierError::ArrivedTwice { arriver, generation: 0 },
                1 => BarrierError::ArrivedTwice { arriver, generation: 7 },
                _ => BarrierError::OverArrival { arriver, generation: 67, current: 2, window: 64 },
            };
            let expected = Error::Barrier { barrier: barrier.into(), source };
            assert_eq!(outcome.as_ref().expect_err(&at).origin(), &expected, "{at}");
        }
    }
}

/// Later arrivals do not stand in for one that is lost, and the report says that they are there.
#[test]
fn a_lost_arrival_is_a_deadlock() {
    async fn shard(shard: Shard, (gate, ring, how): (PhaseBarrier, Edges, u32)) -> Result<(), Error> {
        let (own, arriver) = (ring.producer(&shard, (shard.index() + 1) % shard.shards())?, gate.arriver(&shard)?);
        let (inn, waiter) = (ring.consumer(&shard, (shard.index() + 2) % 3)?, gate.waiter(&shard)?);
        for g in 0..4 {
            // One of them forgets its arrival for generation 1.
            if (shard.index(), g) == (1, 1) {
                own.ready().take();
                arriver.take();
            } else {
                shard.arrive(own.ready());
                shard.arrive(&arriver);
            }
        }
        match how {
            0 => waiter.seek(2),
            _ => inn.ready().seek(2),
        }
        match how {
            0 => shard.wait(&waiter).await,
            _ => shard.wait(inn.ready()).await,
        }
    }
    for (name, runtime) in runtimes(50) {
        for how in 0..2 {
            let at = format!("lost arrival {how} on {name}");
            let outcome = run(&at, &runtime, move |top| async move {
                let gang: Gang = top.gang("all", 3)?;
                let gate = top.phase_barrier("gate", &gang, PhaseOptions::all(&gang))?;
                let ring = top.edges("ring", &gang, (0..gang.shards()).map(|s| (s, (s + 1) % 3)), 1)?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((gate, ring, how)))?.all().await
            });
            let Err(Error::Deadlock { report, .. }) = outcome else { panic!("{at}: {outcome:?}") };
            let expected: &[&[&str]] = match how {
                0 => &[
                    &["of shard 0 waits for generation 2 of phase barrier `gate`; generation 0 is over"],
                    &["missing for generation 2 of phase barrier `gate`: shard 1"],
                    &["shard 1 arrived early at phase barrier `gate`: 2, 3, but not for 1"],
                ],
                _ => &[&[
                    "of shard 2 waits for generation 2 of `ring` ready of edge shard 1 -> shard 2",
                    "generation 0 is complete, arrived early: 2, 3",
                ]],
            };
            for words in expected {
                assert!(has(&report, words), "{at}: {words:?} is not in\n{report}");
            }
        }
    }
}

/// A reduction keeps the values of 64 generations, or of one more than its window where that is more.
#[test]
fn a_late_waiter_gets_its_value_or_an_error() {
    async fn shard(shard: Shard, (sums, window, n): (PhaseBarrier, u64, u64)) -> Result<Option<u64>, Error> {
        let (arriver, waiter) = (sums.arriver(&shard)?, sums.waiter(&shard)?);
        for g in 0..n {
            if g > window {
                waiter.seek(g - window - 1);
                shard.wait(&waiter).await?;
            }
            shard.arrive_with(&arriver, 100 * u64::from(shard.index()) + g);
        }
        waiter.seek(n - 1);
        assert_eq!(shard.wait_value(&waiter).await?, 300 + 3 * (n - 1));
        waiter.seek(0);
        match shard.wait_value(&waiter).await {
            Err(Error::Misuse { came, .. }) if came == "generation 0" => Ok(None),
            value => value.map(Some),
        }
    }
    let cases = [(64, 1, true), (64, 65, true), (64, 66, false), (0, 64, true), (0, 65, false), (99, 100, true)];
    for (name, runtime) in runtimes(50) {
        for (window, n, kept) in cases.into_iter().chain([(99, 101, false)]) {
            let at = format!("{n} generations, window {window}, on {name}");
            let came = run(&at, &runtime, move |top| async move {
                let gang = top.gang("all", 3)?;
                let options = PhaseOptions::all(&gang).window(window).reduce(Operator::<u64>::sum());
                let sums = top.phase_barrier("sums", &gang, options)?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new((sums, window, n)))?.all().await
            });
            assert_eq!(came, Ok(vec![kept.then_some(300); 3]), "{at}");
        }
    }
}

/// A generation is complete when each shard has arrived as often as the barrier says, and its value has all that they
/// brought, in the order of the shards and of their arrivals.
#[test]
fn shards_arrive_several_times_in_a_generation() {
    const ROUNDS: u64 = 6;
    /// How often a shard arrives.
    fn times(shard: u32) -> u32 {
        1 + shard % 3
    }
    async fn shard(shard: Shard, (gate, sums): (PhaseBarrier, PhaseBarrier)) -> Result<Vec<u64>, Error> {
        let (gate, pass) = (gate.arriver(&shard)?, gate.waiter(&shard)?);
        let (adds, total) = (sums.arriver(&shard)?, sums.waiter(&shard)?);
        let mut totals = Vec::new();
        for round in 0..ROUNDS {
            for i in 0..times(shard.index()) {
                // Some arrive with tasks, some as shards.
                if i == 0 {
                    shard.launch(|| (), ()).arrive(&gate).go()?.detach();
                } else {
                    shard.arrive(&gate);
                }
                shard.arrive_with(&adds, 1 + u64::from(shard.index()) * 10 + u64::from(i) + round);
            }
            assert_eq!((gate.generation(), adds.generation()), (round + 1, round + 1));
            shard.wait(&pass).await?;
            totals.push(shard.wait_value(&total).await?);
        }
        Ok(totals)
    }
    for (name, runtime) in runtimes(40) {
        for shards in [1, 5] {
            let at = format!("{shards} shards on {name}");
            let came = run(&at, &runtime, move |top| async move {
                let gang = top.gang("all", shards)?;
                let gate = top.phase_barrier("gate", &gang, PhaseOptions::all(&gang).arrivals(times))?;
                // Not commutative.
                let sums = PhaseOptions::all(&gang)
                    .arrivals(times)
                    .reduce(Operator::user("digest", |a: &u64, b: &u64| a.wrapping_mul(31).wrapping_add(*b)));
                let sums = top.phase_barrier("sums", &gang, sums)?;
                let never = PhaseOptions::all(&gang).arrivals(|s| u32::from(s != 0));
                let refused = top.phase_barrier("never", &gang, never).expect_err("no arrivals");
                assert!(refused.to_string().contains("arrivals of shard 0 at phase barrier `never`"), "{refused}");
                top.launch_gang(&gang, &top.register("several", shard), |_| ShardLaunch::new((gate, sums)))?.all().await
            });
            let all = |round: u64| {
                let brought =
                    (0..shards).flat_map(|s| (0..times(s)).map(move |i| 1 + u64::from(s) * 10 + u64::from(i) + round));
                brought.reduce(|a, b| a.wrapping_mul(31).wrapping_add(b)).unwrap()
            };
            let expected: Vec<u64> = (0..ROUNDS).map(all).collect();
            assert_eq!(came.expect(&at), vec![expected; shards as usize], "{at}");
        }
    }
}

/// The arrivals of one shard take no longer if there are many in a generation.
#[test]
fn a_shard_arrives_very_often_in_a_generation() {
    const TIMES: u32 = 1_000_000;
    async fn shard(shard: Shard, sums: PhaseBarrier) -> Result<u64, Error> {
        let (adds, total) = (sums.arriver(&shard)?, sums.waiter(&shard)?);
        (0..TIMES).for_each(|i| shard.arrive_with(&adds, u64::from(i)));
        shard.wait_value(&total).await
    }
    let began = Instant::now();
    let came = run("many arrivals", &Runtime::threads(1), |top| async move {
        let gang = top.gang("one", 1)?;
        let sums = PhaseOptions::all(&gang).arrivals(|_| TIMES).reduce(Operator::<u64>::sum());
        let sums = top.phase_barrier("sums", &gang, sums)?;
        top.launch_gang(&gang, &top.register("often", shard), |_| ShardLaunch::new(sums))?.all().await
    });
    assert_eq!(came, Ok(vec![u64::from(TIMES) * u64::from(TIMES - 1) / 2]));
    // It takes about one second. A search through all arrivals for each of them takes two minutes.
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
}

#[test]
fn too_many_arrivals_in_a_generation_are_refused() {
    let most = PhaseOptions::MAX_ARRIVALS;
    for each in [most / 2 + 1, u32::MAX] {
        let refused = run("too many", &Runtime::threads(1), move |top| async move {
            let gang = top.gang("two", 2)?;
            top.phase_barrier("never", &gang, PhaseOptions::all(&gang).arrivals(move |_| each)).map(drop)
        });
        let message = refused.expect_err("too many arrivals").to_string();
        assert!(message.contains("arrivals at phase barrier `never`"), "{message}");
        assert!(message.contains(&format!("at most {most} in a generation")), "{message}");
        assert!(message.contains(&(2 * u64::from(each)).to_string()), "{message}");
    }
}

/// Those whose results are values, on several processes.
#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "barriers::on_processes",
        &[
            (
                "over_arrival_names_barrier_arriver_generation_and_window",
                over_arrival_names_barrier_arriver_generation_and_window,
            ),
            ("a_deadlock_names_the_missing_arrivers", a_deadlock_names_the_missing_arrivers),
            (
                "arrivals_that_come_twice_or_much_too_early_are_refused",
                arrivals_that_come_twice_or_much_too_early_are_refused,
            ),
            ("a_lost_arrival_is_a_deadlock", a_lost_arrival_is_a_deadlock),
            ("a_late_waiter_gets_its_value_or_an_error", a_late_waiter_gets_its_value_or_an_error),
            ("shards_arrive_several_times_in_a_generation", shards_arrive_several_times_in_a_generation),
        ],
    );
}

/// Values may be floats or a program's own type of 8 bytes. The rules are the operator's.
#[test]
fn values_of_several_types() {
    async fn shard(shard: Shard, barriers: [PhaseBarrier; 3]) -> Result<[u64; 3], Error> {
        let me = shard.index();
        let bits = [
            [2.5_f64, f64::NAN, -1.0][me as usize].to_bits(),
            (-i64::from(me)) as u64,
            u64::from_le_bytes([me as u8 + 1; 8]),
        ];
        let mut came = [0; 3];
        for ((barrier, bits), came) in barriers.iter().zip(bits).zip(&mut came) {
            shard.arrive_with(&barrier.arriver(&shard)?, bits);
            *came = shard.wait_value(&barrier.waiter(&shard)?).await?;
        }
        Ok(came)
    }
    for (name, runtime) in runtimes(41) {
        let came = run(&name, &runtime, |top| async move {
            let gang = top.gang("all", 3)?;
            let all = || PhaseOptions::all(&gang);
            let first =
                Operator::user("digits", |a: &[u8; 8], b: &[u8; 8]| [a[0] * 10 + b[0], a[1], 0, 0, 0, 0, 0, b[7]]);
            let barriers = [
                top.phase_barrier("largest", &gang, all().reduce(Operator::<f64>::max()))?,
                top.phase_barrier("least", &gang, all().reduce(Operator::<i64>::min()))?,
                top.phase_barrier("digits", &gang, all().reduce(first))?,
            ];
            top.launch_gang(&gang, &top.register("several", shard), |_| ShardLaunch::new(barriers))?.all().await
        });
        let expected = [0x7ff8_0000_0000_0000, (-2_i64) as u64, u64::from_le_bytes([123, 1, 0, 0, 0, 0, 0, 3])];
        assert_eq!(came.expect(&name), vec![expected; 3], "{name}");
    }
}
