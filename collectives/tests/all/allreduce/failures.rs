//! Inputs, operators and shards that fail, and calls that are missing.

use crate::common::{any_runtime, lawless, mix, tree, watched};
use maniple_collectives::{Algorithm, Collective, Operator, Order};
use maniple_regions::Vector;
use maniple_runtime::{Error, Place, Runtime, Shard, ShardLaunch};

/// What goes wrong in a program of calls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The operator panics at the bad shard's contribution.
    Operator,
    /// The bad shard's input is the future of a leaf task that panics.
    Input,
    /// The bad shard's contribution is of another length.
    Length(usize),
    /// The bad shard panics before it makes the call.
    Panics,
    /// The bad shard returns an error before it makes the call.
    GivesUp,
}

/// Calls of vectors of three numbers, one of which goes wrong.
#[derive(Debug, Clone, Copy)]
struct Faulty {
    fault: Fault,
    shards: u32,
    slots: u32,
    calls: usize,
    /// Which shard and which call.
    bad: (u32, usize),
    /// Every call is made before the first is awaited.
    ahead: bool,
    algorithm: Algorithm,
}

/// The operator of a test with any algorithm: how two levels bracket depends on where the shards are.
fn node(algorithm: Algorithm) -> fn(&u64, &u64) -> u64 {
    match algorithm {
        Algorithm::TwoLevel => |a, b| a.wrapping_add(*b),
        _ => |a, b| (a + b) >> 1,
    }
}

const ELEMENTS: usize = 3;
const BOMB: u64 = u64::MAX;

/// What a shard saw of each call.
type Seen = Vec<Result<Vec<u64>, Error>>;

impl Faulty {
    fn own(call: usize, shard: u32) -> Vec<u64> {
        (0..ELEMENTS as u64).map(|e| mix(mix((call as u64) << 32 | u64::from(shard)) ^ e) >> 1).collect()
    }

    /// What a call would give if nothing were wrong.
    fn expected(&self, call: usize) -> Vec<u64> {
        let node = node(self.algorithm);
        let of = |e| (0..self.shards).map(|s| Self::own(call, s)[e]).collect::<Vec<_>>();
        (0..ELEMENTS).map(|e| tree(&of(e), node)).collect()
    }

    async fn calls(self, shard: Shard, total: Collective<[u64]>) -> Result<Seen, Error> {
        fn bomb() -> Vec<u64> {
            panic!("leaf bomb")
        }
        let mut pending = Vec::new();
        let mut seen = Vec::new();
        for call in 0..self.calls {
            let mut own = Self::own(call, shard.index());
            let mut input = None;
            if self.bad == (shard.index(), call) {
                match self.fault {
                    Fault::Operator => own[1] = BOMB,
                    Fault::Input => input = Some(shard.launch(bomb, ()).named("bomb").go()?),
                    Fault::Length(other) => own = vec![1; other],
                    Fault::Panics => panic!("shard bomb"),
                    Fault::GivesUp => return Err(Error::user("shard gives up")),
                }
            }
            let future = match input {
                Some(input) => total.call(&shard, &input)?,
                None => total.call(&shard, own)?,
            };
            if self.ahead {
                pending.push(future);
            } else {
                seen.push(future.await.map(Vector::into_vec));
            }
        }
        for future in pending {
            seen.push(future.await.map(Vector::into_vec));
        }
        Ok(seen)
    }

    fn run(self, runtime: &Runtime) -> Result<Vec<Result<Seen, Error>>, Error> {
        let run = runtime.run(move |top| async move {
            let gang = top.gang("all", self.shards)?;
            let node = node(self.algorithm);
            let operator = Operator::user("brackets", move |a: &u64, b: &u64| {
                if *a == BOMB || *b == BOMB {
                    panic!("operator bomb");
                }
                node(a, b)
            });
            let total = Collective::allreduce(operator)
                .elements(ELEMENTS)
                .slots(self.slots)
                .algorithm(self.algorithm)
                .order(Order::Any)
                .make(&top, &gang, "total")?;
            let task = top.register("shard", move |shard, (): ()| self.calls(shard, total));
            let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?;
            let mut all = Vec::new();
            for shard in done.iter() {
                all.push(shard.clone().await);
            }
            Ok(all)
        });
        run.map(|(all, _)| all)
    }

    /// Whether an error leads to what was done.
    fn is_cause(&self, origin: &Error) -> bool {
        let panicked = |of: &str, text: &str| match origin {
            Error::Panicked { place: Place { task, shard }, message } => {
                task == of && message == text && (of == "total" || *shard == Some(self.bad.0))
            }
            _ => false,
        };
        match self.fault {
            Fault::Operator => panicked("total", "operator bomb"),
            Fault::Input => panicked("bomb", "leaf bomb"),
            Fault::Panics => panicked("shard", "shard bomb"),
            Fault::GivesUp => *origin == Error::user("shard gives up"),
            Fault::Length(other) => {
                let text = format!("input of `total` in shard {}: expected 3 elements, got {other}", self.bad.0);
                origin.to_string() == text
            }
        }
    }

    /// Every call at every shard has the right result or an error that names its cause, and the error wherever it must.
    fn check(self, runtime: &Runtime, at: &str) {
        let at = format!("{self:?} on {at}");
        let all = watched(&at, || self.run(runtime)).unwrap_or_else(|e| panic!("{at}: {e}"));
        let expected: Vec<_> = (0..self.calls).map(|c| self.expected(c)).collect();
        let dies = matches!(self.fault, Fault::Panics | Fault::GivesUp);
        for (shard, seen) in (0u32..).zip(&all) {
            let seen = match seen {
                Ok(seen) => seen,
                Err(e) => {
                    assert!(dies && shard == self.bad.0 && self.is_cause(e.origin()), "{at}: shard {shard}: {e:?}");
                    continue;
                }
            };
            assert_eq!(seen.len(), self.calls, "{at}: shard {shard}");
            let mut failed = vec![false; self.slots as usize];
            for (call, outcome) in seen.iter().enumerate() {
                let slot = call % self.slots as usize;
                let must = match dies {
                    // What the shard had in flight when it died has its contribution.
                    true => call >= self.bad.1,
                    // A failed call is alone in its failure.
                    false => call == self.bad.1,
                };
                match outcome {
                    Ok(values) => {
                        assert!(!(must || dies && failed[slot]), "{at}: shard {shard}, call {call} has a result");
                        assert_eq!(*values, expected[call], "{at}: shard {shard}, call {call}");
                    }
                    Err(e) => {
                        assert!(must, "{at}: shard {shard}, call {call}: {e}");
                        assert!(self.is_cause(e.origin()), "{at}: shard {shard}, call {call}: {e:?}");
                        let text = e.to_string();
                        assert!(text.contains(&format!("`total` of shard {shard}")), "{at}: {text}");
                        failed[slot] = true;
                    }
                }
            }
        }
    }
}

fn fails(fault: Fault) {
    let mut number = 0;
    for (shards, bad) in [(1, 0), (2, 0), (2, 1), (3, 1), (4, 2), (5, 4), (6, 0), (8, 7)] {
        if shards == 1 && fault == Fault::Operator {
            continue;
        }
        for slots in 1..=3 {
            for call in [0, 1, 3] {
                for ahead in [false, true] {
                    for _ in 0..4 {
                        number += 1;
                        let (at, runtime) = any_runtime(number);
                        let algorithms = lawless(shards);
                        let algorithm = algorithms[(mix(number) >> 32) as usize % algorithms.len()];
                        let faulty = Faulty { fault, shards, slots, calls: 7, bad: (bad, call), ahead, algorithm };
                        faulty.check(&runtime, &at);
                    }
                }
            }
        }
    }
}

#[test]
fn a_panic_in_the_operator_reaches_every_shard() {
    fails(Fault::Operator);
}

#[test]
fn a_failed_input_reaches_every_shard() {
    fails(Fault::Input);
}

/// The error names the allreduce, the shard and both lengths, everywhere.
#[test]
fn a_wrong_length_reaches_every_shard() {
    for other in [0, 1, 2, 4, 1000] {
        fails(Fault::Length(other));
    }
}

#[test]
pub(super) fn a_shard_that_panics_between_calls_reaches_every_shard() {
    fails(Fault::Panics);
}

#[test]
fn a_shard_that_gives_up_between_calls_reaches_every_shard() {
    fails(Fault::GivesUp);
}

/// One element where three belong, and none where one belongs.
#[test]
pub(super) fn a_wrong_length_is_an_error() {
    async fn shard(shard: Shard, (one, three): (Collective<[f64]>, Collective<[f64]>)) -> Result<(), Error> {
        let names = |e: Error, text: &str| assert_eq!(e.origin().to_string(), text);
        let of = shard.index();
        let first = three.call(&shard, vec![1.0])?.await;
        if shard.shards() == 1 {
            names(first.unwrap_err(), "input of `three` in shard 0: expected 3 elements, got 1");
        } else {
            let text = first.unwrap_err().origin().to_string();
            assert!(text.starts_with("input of `three` in shard ") && text.ends_with("got 1"), "{text}");
        }
        // A failure of one object is none of another.
        assert_eq!(one.call(&shard, vec![f64::from(of)])?.await?.len(), 1);
        let none = one.call(&shard, vec![])?.await.unwrap_err();
        assert!(none.to_string().contains("expected 1 elements, got 0"), "{none}");
        Ok(())
    }
    for number in 0..12 {
        let (at, runtime) = any_runtime(number);
        for shards in [1, 2, 3, 5] {
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", shards)?;
                    let one = Collective::<f64>::allreduce(Operator::sum()).elements(1).make(&top, &gang, "one")?;
                    let three = Collective::<f64>::allreduce(Operator::sum()).elements(3).make(&top, &gang, "three")?;
                    let task = top.register("shard", shard);
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new((one, three)))?.all().await
                })
            });
            outcome.unwrap_or_else(|e| panic!("{at}, {shards} shards: {e}"));
        }
    }
}

/// A shard that ends well without making its calls may make them in a later launch; if there is none, the run ends with
/// a report that names the collective and everybody who waits.
#[test]
pub(super) fn a_call_that_some_shards_do_not_make_is_a_deadlock() {
    async fn shard(shard: Shard, total: Collective<u64>) -> Result<u64, Error> {
        let first = total.call(&shard, 1)?.await?;
        if shard.index() == 1 {
            return Ok(first);
        }
        total.call(&shard, 2)?.await
    }
    for number in 0..24 {
        let (at, runtime) = any_runtime(number / 2);
        let algorithms = lawless(4);
        let algorithm = algorithms[number as usize % algorithms.len()];
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", 4)?;
                let total = Collective::allreduce(Operator::sum())
                    .algorithm(algorithm)
                    .order(Order::Any)
                    .make(&top, &gang, "total")?;
                let task = top.register("shard", shard);
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await
            })
        });
        let error = outcome.expect_err("shard 1 makes one call only");
        let Error::Deadlock { report, .. } = error.origin() else { panic!("{at}: {error:?}") };
        for waiter in [0, 2, 3] {
            let waits = report.lines().any(|l| l.contains("`total`") && l.contains(&format!("shard {waiter}")));
            assert!(waits, "{at}: shard {waiter} is not in\n{report}");
        }
    }
}

/// What a shard does before one of its calls, in a program in which several things go wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mishap {
    None,
    Panics,
    GivesUp,
    BadOperand,
    BadInput,
    BadLength,
}

const MISHAPS: [Mishap; 6] =
    [Mishap::None, Mishap::Panics, Mishap::GivesUp, Mishap::BadOperand, Mishap::BadInput, Mishap::BadLength];

/// Up to three mishaps at up to three shards: no call hangs, none has a wrong result, each error leads to one of them; and
/// no call of a later launch has a result where a shard has died.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn several_failures_at_once() {
    const CALLS: u64 = 6;
    type Made = Vec<Result<u64, Error>>;
    fn own(call: u64, shard: u32) -> u64 {
        mix(call << 32 | u64::from(shard)) >> 1
    }
    fn mishap(seed: u64, call: u64, shard: u32, shards: u32) -> Mishap {
        let hits = |n| {
            let x = mix(seed ^ n << 50);
            x as u32 % shards == shard && (x >> 32) % CALLS == call
        };
        (0..3).find(|&n| hits(n)).map_or(Mishap::None, |n| MISHAPS[mix(seed ^ n << 40) as usize % 6])
    }
    async fn calls(shard: Shard, total: Collective<[u64]>, seed: u64, launch: u64) -> Result<Made, Error> {
        let mut calls = Vec::new();
        for call in 0..CALLS {
            let mut input = vec![own(launch * CALLS + call, shard.index())];
            let mut bad = None;
            if launch == 0 {
                match mishap(seed, call, shard.index(), shard.shards()) {
                    Mishap::None => {}
                    Mishap::Panics => panic!("mishap"),
                    Mishap::GivesUp => return Err(Error::user("mishap")),
                    Mishap::BadOperand => input[0] = BOMB,
                    Mishap::BadInput => bad = Some(shard.launch(|| -> Vec<u64> { panic!("mishap") }, ()).go()?),
                    Mishap::BadLength => input.push(1),
                }
            }
            let input: maniple_runtime::Input<Vec<u64>> = bad.map_or_else(|| input.into(), |b| (&b).into());
            calls.push(total.call(&shard, input)?);
            if mix(seed ^ call << 20).is_multiple_of(3) {
                let _ = calls[call as usize].clone().await;
            }
        }
        let mut all = Vec::new();
        for call in calls {
            all.push(call.await.map(|v| v[0]));
        }
        Ok(all)
    }
    for seed in 0..1200 {
        let (at, runtime) = any_runtime(seed);
        let shards = 2 + mix(seed) as u32 % 8;
        let algorithms = lawless(shards);
        let algorithm = algorithms[(seed / 6) as usize % algorithms.len()];
        let node = node(algorithm);
        let slots = 1 + mix(!seed) as u32 % 3;
        let at = format!("{at}, {shards} shards, {slots} slots, number {seed}");
        let outcome = watched(&at, || {
            runtime.run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let operator = Operator::user("sum", move |a: &u64, b: &u64| {
                    assert!(*a != BOMB && *b != BOMB, "mishap");
                    node(a, b)
                });
                let total = Collective::allreduce(operator)
                    .elements(1)
                    .slots(slots)
                    .algorithm(algorithm)
                    .order(Order::Any)
                    .make(&top, &gang, "total")?;
                let task = top.register("shard", move |shard, launch| calls(shard, total, seed, launch));
                let mut all = Vec::new();
                for launch in 0..2 {
                    let done = top.launch_gang(&gang, &task, |_| ShardLaunch::new(launch))?;
                    for shard in done.iter() {
                        all.push(shard.clone().await);
                    }
                }
                Ok(all)
            })
        });
        let (all, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        let all_shards = || (0..shards).flat_map(|s| (0..CALLS).map(move |c| (c, s)));
        let of = |c, s| mishap(seed, c, s, shards);
        let death =
            all_shards().filter(|&(c, s)| matches!(of(c, s), Mishap::Panics | Mishap::GivesUp)).map(|d| d.0).min();
        let is_mishap = |e: &Error| {
            let text = e.origin().to_string();
            text.contains("mishap") || text.contains("`total` in shard") && text.ends_with("got 2")
        };
        for (i, made) in all.iter().enumerate() {
            let made = match made {
                Ok(made) => made,
                // A leaf task's failure is its shard's own where a call that had failed before did not look at it.
                Err(e) => {
                    let fatal = [Mishap::Panics, Mishap::GivesUp, Mishap::BadInput];
                    let own = (0..CALLS).any(|c| fatal.contains(&of(c, i as u32)));
                    assert!(own && i < shards as usize && is_mishap(e), "{at}: {e}");
                    continue;
                }
            };
            assert_eq!(made.len() as u64, CALLS, "{at}");
            for (call, outcome) in (0..).zip(made) {
                let launch = i as u64 / u64::from(shards);
                match outcome {
                    Err(e) => {
                        let own = launch == 0 && (0..shards).any(|s| of(call, s) != Mishap::None);
                        let owed = death.is_some_and(|d| launch > 0 || call >= d);
                        assert!(is_mishap(e) && (own || owed), "{at}: launch {launch}, call {call}: {e}");
                    }
                    Ok(came) => {
                        assert!(death.is_none_or(|d| launch == 0 && call < d), "{at}: call {call} has a result");
                        let own: Vec<_> = (0..shards).map(|s| own(launch * CALLS + call, s)).collect();
                        assert_eq!(*came, tree(&own, node), "{at}: launch {launch}, call {call}");
                    }
                }
            }
        }
    }
}

/// A call that nobody looks at still fails its shard, and one that not all make is still missed.
#[test]
pub(super) fn detached_calls_are_not_forgotten() {
    async fn shard(shard: Shard, (total, skips): (Collective<u64>, bool)) -> Result<(), Error> {
        if !(skips && shard.index() == 1) {
            total.call(&shard, u64::from(shard.index()))?.detach();
        }
        Ok(())
    }
    for number in 0..20 {
        for skips in [false, true] {
            let (at, runtime) = any_runtime(number);
            let outcome = watched(&at, || {
                runtime.run(move |top| async move {
                    let gang = top.gang("all", 3)?;
                    let operator =
                        Operator::user("bomb", |a: &u64, b: &u64| if *b == 1 { panic!("bomb") } else { a + b });
                    let total = Collective::allreduce(operator).make(&top, &gang, "total")?;
                    let task = top.register("shard", shard);
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new((total, skips)))?.all().await
                })
            });
            let error = outcome.expect_err(&at);
            match (skips, error.origin()) {
                (true, Error::Deadlock { report, .. }) => {
                    assert!(report.contains("missing in call 0 of `total`: shard 1"), "{at}: {report}");
                }
                (false, Error::Panicked { message, .. }) => assert_eq!(message, "bomb", "{at}"),
                _ => panic!("{at}: {error}"),
            }
        }
    }
}
