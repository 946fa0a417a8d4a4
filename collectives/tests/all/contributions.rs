//! Contributions of every type, to collectives of every kind. Their memory and the memory of results is overwritten as
//! soon as the program may do so, and nothing that is held may change.

use crate::common;
use crate::common::cases::{Case, Draw, runtime};
use crate::common::size::part;
use crate::common::{mix, watched};
use maniple_collectives::Kind;
use maniple_collectives::{Collective, Contribution};
use maniple_regions::{Lendable, Vector};
use maniple_runtime::{Arg, Error, FutureMap, Shard, TaskFuture};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What a shard holds of its contributions and results, with the values that must be there.
#[derive(Default)]
struct Held {
    shared: Vec<(Arc<Vec<u64>>, Vec<u64>)>,
    lent: Vec<(Lendable<u64>, Vec<u64>)>,
    futures: Vec<(TaskFuture<Vector<u64>>, Vec<u64>)>,
    results: Vec<(Vector<u64>, Vec<u64>)>,
    /// Threads that read results.
    readers: Vec<JoinHandle<()>>,
}

impl Held {
    /// A contribution of these values, of any type. `blocks` are the same values if they may come in blocks.
    fn contribution(
        &mut self,
        (shard, on): (&Shard, Collective<[u64]>),
        (own, blocks): (Vec<u64>, Option<Vec<Vec<u64>>>),
        d: &mut Draw,
    ) -> Result<Contribution<[u64]>, Error> {
        // Into the memory of an earlier contribution.
        let write = |mut to: Arg<Vec<u64>>, own: Arg<Vec<u64>>| {
            to.0.copy_from_slice(&own);
            to.0
        };
        let written = |own: Vec<u64>| shard.launch(write, (on.spare(shard, own.len())?.into(), own.into())).go();
        Ok(match (d.below(11), blocks) {
            (0, _) => own.into(),
            (7, _) => written(own)?.into(),
            (8, Some(blocks)) => blocks.into_iter().map(written).collect::<Result<FutureMap<_>, _>>()?.into(),
            (9, Some(blocks)) => Contribution::in_blocks(blocks),
            // Memory that was asked for may be used for something else, and something else may be contributed.
            (10, _) => {
                on.spare(shard, own.len() + 1)?.fill(0xdead);
                own.into()
            }
            (what, _) => self.other_contribution(shard, own, what, d)?,
        })
    }

    fn other_contribution(
        &mut self,
        shard: &Shard,
        own: Vec<u64>,
        what: u64,
        d: &mut Draw,
    ) -> Result<Contribution<[u64]>, Error> {
        Ok(match what {
            1 => Vector::from(own).into(),
            2 => {
                let shared = Arc::new(own.clone());
                self.shared.push((shared.clone(), own));
                Vector::from(shared).into()
            }
            3 => {
                let (before, after) = (d.below(3) as usize, d.below(3) as usize);
                let all = [vec![5; before], own, vec![6; after]].concat();
                let mut lendable = Lendable::from(all.clone());
                let loan = lendable.lend(before..all.len() - after);
                self.lent.push((lendable, all));
                Vector::from(loan).into()
            }
            4 => {
                let shared = Arc::new(own.clone());
                let loan = Lendable::from(shared.clone()).lend(0..own.len());
                self.shared.push((shared, own));
                Vector::from(loan).into()
            }
            5 => (&shard.launch(|own: Arg<Vec<u64>>| own.0, (own.into(),)).go()?).into(),
            _ => {
                let input = Vector::from(own.clone()).into();
                let future = shard.launch(|own: Arg<Vector<u64>>| own.0, (input,)).go()?;
                let contribution = (&future).into();
                if d.below(2) == 0 {
                    self.futures.push((future, own));
                }
                contribution
            }
        })
    }

    /// Holds a result, lets others hold it, or takes its memory and overwrites that.
    fn result(&mut self, came: Vector<u64>, expected: Vec<u64>, d: &mut Draw) {
        match d.below(6) {
            0 => came.into_vec().fill(0xdead),
            1 => {
                self.results.push((came.clone(), expected));
                came.into_vec().fill(0xdead);
            }
            2 if self.readers.len() < 3 => self.readers.push(thread::spawn(move || {
                for _ in 0..20 {
                    assert!(came == expected, "a result has changed");
                    thread::yield_now();
                }
            })),
            3 => {
                if let Ok(mut all) = came.into_shared()
                    && let Some(all) = Arc::get_mut(&mut all)
                {
                    all.fill(0xdead);
                }
            }
            _ => self.results.push((came, expected)),
        }
        if self.results.len() > 6 {
            self.results.swap_remove(d.below(6) as usize);
        }
    }

    /// Compares all, and overwrites contributions that nobody else holds any more.
    fn check(&mut self) {
        assert!(self.results.iter().all(|(came, expected)| came == expected), "a result has changed");
        self.shared.retain_mut(|(own, expected)| {
            assert!(**own == *expected, "a contribution has changed");
            Arc::get_mut(own).map(|own| own.fill(0xbad)).is_none()
        });
        self.lent.retain_mut(|(own, expected)| {
            assert!(own.as_slice() == expected, "a contribution has changed");
            own.change(0..expected.len()).map(|own| own.fill(0xbad)).is_none()
        });
    }

    async fn end(mut self) -> Result<(), Error> {
        self.check();
        for (future, expected) in self.futures {
            assert!(future.await? == expected, "a contribution has changed");
        }
        self.readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
        Ok(())
    }
}

/// The contributor of a quarter of the calls whose vector is too long, by its position.
fn too_long(case: &Case, call: u64) -> Option<usize> {
    let bits = mix(case.seed ^ call << 9 ^ 77);
    bits.is_multiple_of(4).then(|| (bits >> 8) as usize % case.from.len())
}

/// What must come of a call: only the error of a contribution that is too long if it is `needed`.
fn judge<R>(outcome: Result<R, Error>, too_long: Option<usize>, needed: bool) -> Result<Option<R>, Error> {
    match outcome {
        Err(error) if too_long.is_some() => {
            let is_refusal = |e: &Error| matches!(e, Error::Misuse { what, .. } if what.starts_with("input of `it`"));
            assert!(is_refusal(error.origin()), "{error}");
            Ok(None)
        }
        Err(error) => Err(error),
        Ok(_) if needed => panic!("a call with a contribution that is too long has an end"),
        Ok(came) => Ok(Some(came)),
    }
}

/// All calls of one shard. With `some_too_long` some fail.
async fn calls(case: Arc<Case>, shard: Shard, on: Collective<[u64]>, some_too_long: bool) -> Result<(), Error> {
    let position = |ranks: &[u32]| ranks.iter().position(|&rank| rank == shard.index());
    let (from, to) = (position(&case.from), position(&case.to));
    let too_long = |call| too_long(&case, call).filter(|_| some_too_long);
    // Scans combine only what earlier shards contribute.
    let scans = matches!(case.kind, Kind::Scan | Kind::Exscan);
    let needed = |call| {
        too_long(call)
            .is_some_and(|wrong| from == Some(wrong) || to.is_some_and(|to| !scans || case.from[wrong] <= case.to[to]))
    };
    let mut d = Draw(mix(case.seed ^ 0xabc ^ u64::from(shard.index()) << 20));
    let (mut held, mut over) = (Held::default(), Vec::new());
    let mut results = VecDeque::<(u64, TaskFuture<Vector<u64>>)>::new();
    for call in 0..=case.calls {
        if call < case.calls {
            if let Some(from) = from {
                let blocks = case.contribution(call, from);
                let mut own = blocks.concat();
                let is_too_long = too_long(call) == Some(from);
                own.extend(is_too_long.then_some(1));
                let own = held.contribution((&shard, on), (own, (!is_too_long).then_some(blocks)), &mut d)?;
                match to {
                    Some(_) if !case.split => results.push_back((call, on.call(&shard, own)?)),
                    _ => over.push((call, on.contribute(&shard, own)?)),
                }
            }
            if to.is_some() && from.is_none() {
                results.push_back((call, on.receive(&shard)?));
            } else if to.is_some() && case.split && (call % 2 == 1 || call + 1 == case.calls) {
                // Two results at a time.
                for call in call - call % 2..=call {
                    results.push_back((call, on.receive(&shard)?));
                }
            }
        }
        let ahead = if call < case.calls { case.ahead } else { 1 };
        while results.len() >= ahead
            && let Some((call, mut result)) = results.pop_front()
        {
            match d.below(9) {
                0 if too_long(call).is_none() => {
                    result.detach();
                    continue;
                }
                1 => {
                    for _ in 0..3 {
                        let _given_up = shard.timeout(Duration::from_nanos(d.below(2000)), &mut result).await;
                    }
                }
                _ => {}
            }
            if let (Some(came), Some(to)) = (judge(result.await, too_long(call), needed(call))?, to) {
                let expected = case.expected(call, to);
                assert!(came == expected, "call {call}: {came:x?} came, expected {expected:x?}");
                held.result(came, expected, &mut d);
            }
        }
        held.check();
        if d.below(3) == 0 {
            shard.yield_now().await;
        }
    }
    for (call, future) in over {
        judge(future.await, too_long(call), needed(call))?;
    }
    held.end().await
}

fn check(cases: u64, some_too_long: bool) {
    // A run of several processes takes longer.
    let cases = if common::processes::runtimes().is_some() { cases / 10 } else { cases };
    for seed in 0..cases {
        let (at, runtime) = runtime(seed);
        let case = Case::draw(mix(seed ^ 0xc0));
        let case = Arc::new(Case { calls: 1 + mix(seed) % 16, ..case });
        let at = format!("{at}: case {seed}, {case:?}");
        let outcome = watched(&at, || match some_too_long {
            false => case.run(&runtime, |case, shard, on| calls(case, shard, on, false)),
            true => case.run(&runtime, |case, shard, on| calls(case, shard, on, true)),
        });
        outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}

#[test]
fn neither_contributions_nor_results_change() {
    check(part(1000), false);
}

#[test]
fn a_contribution_that_is_too_long_fails_its_call_alone() {
    check(400, true);
}

#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "contributions::on_processes",
        &[
            ("neither_contributions_nor_results_change", neither_contributions_nor_results_change),
            (
                "a_contribution_that_is_too_long_fails_its_call_alone",
                a_contribution_that_is_too_long_fails_its_call_alone,
            ),
        ],
    );
}
