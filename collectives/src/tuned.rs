//! Collectives that measure their algorithms in their first calls.

use crate::Goal;
use crate::spec::Source;
use crate::{Algorithm, Collective, CollectiveBuilder, Contribution, Groups, Operator, Order, Value};
use maniple_mapper::Candidate;
use maniple_regions::Element;
use maniple_runtime::{Destroy, Doomed, Error, Gang, Shard, Top, now};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A collective that tries several algorithms in its first calls, and stays with the fastest.
///
/// It holds a [`Collective`] for each candidate. Each shard [begins](Self::begin) with a [`Tuning`], which makes the calls.
/// Each candidate in turn makes two calls to warm up, and then as many as [`make`](Self::make) was told to measure. An
/// allreduce of the maximum gives all shards the time that each of these calls took on the slowest shard. The candidate with
/// the least median wins, and of several the first. All shards look at the same numbers, so they agree.
///
/// A [mapper](maniple_mapper::Mapper::choose_algorithm) may name one of the candidates. Then that is the only one, and nothing
/// is measured.
///
/// Results do not depend on who wins: only algorithms that give the same bits are candidates, also with
/// [`Order::Any`]. Until it is settled, a call waits for a barrier first. The candidates keep the memory of their exchange
/// regions until you [destroy](Top::destroy) the `Tuned`, which destroys all of them.
///
/// This is how §V of "Adaption of the n-way Dissemination Algorithm for GASPI Split-Phase Allreduce" chooses n: it tries 1
/// to 7, 15 times each. The paper repeats the first call internally, while here the program's own calls are measured.
///
/// ```
/// use maniple_collectives::{Collective, Operator, Tuned};
/// use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
///
/// async fn shard(shard: Shard, total: Tuned<u64>) -> Result<String, Error> {
///     let mut total = total.begin();
///     while total.settled().is_none() {
///         assert_eq!(total.call(&shard, u64::from(shard.index())).await?, 6);
///     }
///     assert_eq!(total.call(&shard, 1).await?, 4);
///     Ok(total.ranking()[0].0.to_string())
/// }
///
/// let (winners, _) = Runtime::threads(2).run(|top| async move {
///     let gang = top.gang("all", 4)?;
///     let total = Tuned::make(&top, &gang, "total", 15, || Collective::allreduce(Operator::<u64>::sum()))?;
///     let task = top.register("shard", shard);
///     top.launch(&gang, &task, move |_| ShardLaunch::new(total.clone()))?.all().await
/// })?;
/// assert!(winners.iter().all(|winner| *winner == winners[0]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Tuned<I: ?Sized, O: ?Sized = I> {
    candidates: Vec<(Algorithm, Collective<I, O>)>,
    /// Calls of each candidate that are measured.
    calls: u32,
    /// Before each call that is measured: late shards must not count.
    start: Collective<()>,
    /// What each call took on the slowest shard, in nanoseconds.
    slowest: Collective<[u64]>,
}

impl<I: ?Sized, O: ?Sized> Clone for Tuned<I, O> {
    fn clone(&self) -> Self {
        let Self { candidates, calls, start, slowest } = self;
        Self { candidates: candidates.clone(), calls: *calls, start: *start, slowest: *slowest }
    }
}

impl<I: ?Sized, O: ?Sized> std::fmt::Debug for Tuned<I, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tuned")
            .field("candidates", &self.candidates)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl<I: ?Sized, O: ?Sized> Destroy for Tuned<I, O> {
    fn name(&self, doomed: &mut Doomed) {
        self.candidates.iter().for_each(|(_, candidate)| candidate.name(doomed));
        (self.start, self.slowest).name(doomed);
    }
}

impl<T: Element, I: Value<Element = T> + ?Sized, O: Value<Element = T> + ?Sized> Tuned<I, O> {
    /// Makes a collective with every algorithm that a [mapper](maniple_mapper::Mapper::choose_algorithm) could choose, among
    /// them dissemination with 1 to 7 messages a round where the operator's laws allow it. `calls` calls of each are
    /// measured. `builder` is called for each, and must return the same collective every time. Its own algorithm is ignored.
    /// Collective among the nodes' top-level tasks; never waits.
    ///
    /// # Errors
    /// The errors of [`CollectiveBuilder::make`], [schedules](CollectiveBuilder::schedules) of the program's own, no
    /// calls, or receivers that are not the participants.
    pub fn make(
        top: &Top,
        gang: &Gang,
        name: &str,
        calls: u32,
        builder: impl FnMut() -> CollectiveBuilder<I, O>,
    ) -> Result<Self, Error> {
        let all = Algorithm::ALL.iter().flat_map(|algorithm| algorithm.variants());
        Self::among(top, gang, name, calls, all, builder)
    }

    /// As [`make`](Self::make), with the algorithms of this list that are for the kind and give the usual bits.
    /// [`Order::Any`] allows no others here, because times would decide on bits. `direct` and
    /// `sliced` are left out for more than 64 shards, and `ring` for more than 1024, unless there is no other.
    ///
    /// # Errors
    /// The errors of [`make`](Self::make), an algorithm with a number that it can't have, or none of the algorithms is left.
    pub fn among(
        top: &Top,
        gang: &Gang,
        name: &str,
        calls: u32,
        algorithms: impl IntoIterator<Item = Algorithm>,
        mut builder: impl FnMut() -> CollectiveBuilder<I, O>,
    ) -> Result<Self, Error> {
        let mut request = builder().request(gang, name)?;
        if request.order == Order::Any {
            // Whoever wins must give the bits that the others have given before.
            request.order = Order::Doubling;
        }
        let refuse = |expected: &str, came: String| {
            let what = format!("tuned {} `{name}`", request.goal);
            Err(Error::Misuse { what, expected: expected.into(), came })
        };
        if let Source::Own(of, _) = &request.source {
            return refuse("a builder without `schedules`", format!("schedules `{of}`"));
        }
        if request.goal.contributors() != request.goal.receivers() {
            return refuse("receivers that are the participants", "other ones".into());
        }
        if calls == 0 {
            return refuse("at least one call of each algorithm", "0".into());
        }
        let groups = Groups::runs(&top.placement(gang)?);
        let algorithms: Vec<Algorithm> = algorithms.into_iter().collect();
        if let Some((expected, came)) = algorithms.iter().find_map(|algorithm| algorithm.check_number().err()) {
            return refuse(&expected, came);
        }
        let mut may = request.choices(algorithms.iter().copied(), &groups);
        if may.is_empty() {
            let names: Vec<String> = algorithms.iter().map(Algorithm::to_string).collect();
            let came = if names.is_empty() { "no algorithm".into() } else { names.join(", ") };
            return refuse("an algorithm for this kind that gives the operator's usual bits", came);
        }
        leave_out_other_names(&mut may, &request.goal);
        let choices = [Candidate::Measured].into_iter().chain(may.iter().map(|&algorithm| algorithm.into()));
        let chosen = request.ask_mapper(top, gang, name, &choices.collect::<Vec<_>>())?;
        if let Some(named) = chosen.checked_sub(1) {
            may = vec![may[named]];
        }
        let make = |algorithm: Algorithm| {
            let made = builder().algorithm(algorithm).make(top, gang, &format!("{name} by {algorithm}"))?;
            Ok((algorithm, made))
        };
        let candidates = may.into_iter().map(make).collect::<Result<Vec<_>, Error>>()?;
        let times = candidates.len() * calls as usize;
        let ranks = || request.goal.contributors().iter();
        let start = Collective::barrier().participants(ranks()).make(top, gang, &format!("{name} begins"))?;
        let slowest = Collective::allreduce(Operator::<u64>::max()).elements(times).participants(ranks());
        let slowest = slowest.make(top, gang, &format!("times of {name}"))?;
        Ok(Self { candidates, calls, start, slowest })
    }
}

/// Leaves out what is another one by another name: with fewer messages a round, or in smaller groups, a rank already reaches
/// all others.
fn leave_out_other_names(algorithms: &mut Vec<Algorithm>, goal: &Goal) {
    let all = algorithms.clone();
    let smaller = |one: &Algorithm, two: &Algorithm| one.name() == two.name() && one.number() < two.number();
    algorithms.retain(|algorithm| !all.iter().any(|other| smaller(other, algorithm) && other.is_in_one_round(goal)));
}

impl<I: ?Sized, O: ?Sized> Tuned<I, O> {
    /// The algorithms that are tried, in this order. Local.
    pub fn candidates(&self) -> impl ExactSizeIterator<Item = Algorithm> + use<'_, I, O> {
        self.candidates.iter().map(|(algorithm, _)| *algorithm)
    }

    /// Begins the calls of a shard. Every shard that takes part must call it exactly once in each launch. Local.
    pub fn begin(self) -> Tuning<I, O> {
        // Without another one, it is settled.
        let ranking = if self.candidates.len() == 1 { vec![(0, Duration::ZERO)] } else { Vec::new() };
        let times = Vec::with_capacity(self.candidates.len() * self.calls as usize);
        Tuning { trials: 0, times, ranking, of: self }
    }
}

/// Calls of a candidate that are not measured. In them the messages of the one before come to an end.
const WARM_UP: usize = 2;

/// The calls of one shard of a [`Tuned`] collective. It is measuring until it is settled.
#[must_use = "it makes the calls"]
pub struct Tuning<I: ?Sized, O: ?Sized = I> {
    of: Tuned<I, O>,
    /// Calls that were tried.
    trials: usize,
    /// Nanoseconds of the calls that count.
    times: Vec<u64>,
    /// Positions of the candidates and their medians, the fastest first. Empty while it is measuring.
    ranking: Vec<(usize, Duration)>,
}

impl<T: Element, I: Value<Element = T> + ?Sized, O: Value<Element = T> + ?Sized> Tuning<I, O> {
    /// Contributes a value, and waits for what the shard receives. Collective.
    ///
    /// While the algorithms are being measured, await every call to its end: a shard that drops one falls behind the others.
    ///
    /// # Errors
    /// The errors of [`Collective::call`], and the failures of the call. A failed call is measured like any other.
    pub async fn call(&mut self, shard: &Shard, value: impl Into<Contribution<I>>) -> Result<O::Own, Error> {
        if let Some(settled) = self.settled() {
            return settled.call(shard, value)?.await;
        }
        let Tuned { candidates, calls, start, slowest } = &self.of;
        let calls = *calls as usize;
        // If they could not agree, as a shard has failed, the last one goes on.
        let turn = (self.trials / (WARM_UP + calls)).min(candidates.len() - 1);
        start.call(shard, ())?.await?;
        let began = now();
        let result = candidates[turn].1.call(shard, value)?.await;
        let took = now() - began;
        if self.trials % (WARM_UP + calls) >= WARM_UP && self.times.len() < candidates.len() * calls {
            self.times.push(took.as_nanos() as u64);
        }
        self.trials += 1;
        if self.times.len() == candidates.len() * calls {
            let times = slowest.call(shard, self.times.clone())?.await?;
            self.ranking = ranking(&times, calls);
        }
        result
    }
}

impl<I: ?Sized, O: ?Sized> Tuning<I, O> {
    /// The collective of the algorithm that won, the same on all shards. `None` while it is measuring. A program with
    /// several calls in flight uses it from then on. Local.
    pub fn settled(&self) -> Option<Collective<I, O>> {
        self.ranking.first().map(|&(first, _)| self.of.candidates[first].1)
    }

    /// The algorithms and the median times of a call on the slowest shard, the fastest first, the same on all shards. Empty
    /// while it is measuring. If there is only one algorithm, nothing is measured, and its time is zero. Local.
    pub fn ranking(&self) -> Vec<(Algorithm, Duration)> {
        self.ranking.iter().map(|&(at, time)| (self.of.candidates[at].0, time)).collect()
    }
}

/// The positions of the candidates and their medians, the fastest first. Each has `calls` of the times, in order.
fn ranking(times: &[u64], calls: usize) -> Vec<(usize, Duration)> {
    let median = |own: &[u64]| {
        let mut own = own.to_vec();
        own.sort_unstable();
        Duration::from_nanos(own[(own.len() - 1) / 2])
    };
    let mut all: Vec<_> = times.chunks(calls).map(median).enumerate().collect();
    all.sort_by_key(|&(_, time)| time);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_decide_and_of_several_the_first() {
        let ns = |all: &[(usize, u64)]| all.iter().map(|&(at, ns)| (at, Duration::from_nanos(ns))).collect::<Vec<_>>();
        // Candidate 1 has the least mean, candidate 2 the least time, candidate 0 the least median.
        let times = [5, 90, 5, 6, 6, 6, 7, 1, 8];
        assert_eq!(ranking(&times, 3), ns(&[(0, 5), (1, 6), (2, 7)]));
        assert_eq!(ranking(&[4, 3, 3, 4], 1), ns(&[(1, 3), (2, 3), (0, 4), (3, 4)]));
        // Of an even number, the lower one of the two in the middle.
        assert_eq!(ranking(&[2, 4, 1, 9], 2), ns(&[(1, 1), (0, 2)]));
    }

    #[test]
    fn what_has_more_than_all_is_another_name() {
        let kept = |ranks: u32, mut all: Vec<Algorithm>| -> Vec<String> {
            leave_out_other_names(&mut all, &Goal::allreduce(ranks, 1));
            all.iter().map(Algorithm::to_string).collect()
        };
        let numbered = || [Algorithm::Dissemination(1), Algorithm::Radix(2)].into_iter().flat_map(Algorithm::variants);
        let all = |ranks| kept(ranks, numbered().collect());
        assert_eq!(all(1), ["dissemination-1", "radix-2"]);
        assert_eq!(all(2), ["dissemination-1", "radix-2"]);
        assert_eq!(all(3), ["dissemination-1", "dissemination-2", "radix-2", "radix-4"]);
        assert_eq!(all(4)[3..], ["radix-2", "radix-4"]);
        assert_eq!(all(5)[4..], ["radix-2", "radix-4", "radix-8"]);
        assert_eq!(all(100).len(), 11);
        // It is the only one of its name, or none below it reaches all.
        assert_eq!(kept(2, vec![Algorithm::Dissemination(7), Algorithm::Radix(8)]), ["dissemination-7", "radix-8"]);
        assert_eq!(kept(6, vec![Algorithm::FiveCases(5), Algorithm::FiveCases(2)]), ["five-cases-5", "five-cases-2"]);
        assert_eq!(kept(6, vec![Algorithm::FiveCases(7), Algorithm::FiveCases(5)]), ["five-cases-5"]);
    }
}
