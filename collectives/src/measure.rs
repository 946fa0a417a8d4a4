//! Measuring the algorithms of a collective where a program runs.

use crate::spec::Source;
use crate::{Algorithm, Collective, CollectiveBuilder, Contribution, Goal, Groups, Order, State, Value};
use maniple_runtime::{Error, Gang, Shard, ShardLaunch, Top, now};
use std::time::Duration;

/// Calls of an algorithm that are not measured. In them the messages of the one before come to an end.
const WARM_UP: usize = 2;

/// Measures the algorithms of a collective of a gang. Returns them with the median over calls of the time that the slowest
/// shard took, the fastest first, equal ones in the order of [`Algorithm::ALL`]. Collective among the nodes' top-level tasks;
/// waits.
///
/// These are the algorithms that a [mapper](maniple_mapper::Mapper::choose_algorithm) could choose, among them dissemination
/// with 1 to 7 messages a round where the operator's laws allow it. All give the same bits, also with [`Order::Any`], so no
/// result depends on which one the program takes. Variants that would run the same steps are left out: with fewer messages
/// a round, or in smaller groups, a rank already reaches all others.
///
/// The gang is launched once. Each algorithm in turn makes two calls to warm up and `calls` that count, each after a barrier.
/// A shard that contributes contributes `value(shard)`. `builder` is called for each algorithm, and must return the same
/// collective every time; its own algorithm is ignored. What was made is destroyed in the end.
///
/// This is how §V of "Adaption of the n-way Dissemination Algorithm for GASPI Split-Phase Allreduce" chooses n: it tries 1 to 7,
/// 15 times each. The paper does it in the first call, here it is a call of its own. For a choice that is kept in a file, see
/// [`ChoiceTable`](maniple_mapper::ChoiceTable).
///
/// # Errors
/// Those of [`CollectiveBuilder::make`] and of the calls, [schedules](CollectiveBuilder::schedules) of the program's own, no
/// calls, or a kind and an operator for which no algorithm is left.
///
/// ```
/// use maniple_collectives::{Collective, Operator, measure};
/// use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
///
/// let (sums, _) = Runtime::threads(2).run(|top| async move {
///     let gang = top.gang("all", 4)?;
///     let total = || Collective::allreduce(Operator::<u64>::sum());
///     let ranking = measure(&top, &gang, 15, total, u64::from).await?;
///     let total = total().algorithm(ranking[0].0).make(&top, &gang, "total")?;
///     let task = top.register("shard", |shard: Shard, total: Collective<u64>| async move {
///         total.call(&shard, u64::from(shard.index()))?.await
///     });
///     top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await
/// })?;
/// assert_eq!(sums, [6, 6, 6, 6]);
/// # Ok::<(), Error>(())
/// ```
pub async fn measure<I, O, S, V>(
    top: &Top,
    gang: &Gang,
    calls: u32,
    builder: impl Fn() -> CollectiveBuilder<I, O, S>,
    value: impl Fn(u32) -> V + Clone + Send + Sync + 'static,
) -> Result<Vec<(Algorithm, Duration)>, Error>
where
    I: Value + ?Sized + 'static,
    O: Value + ?Sized + 'static,
    S: State<I::Element, O::Element>,
    V: Into<Contribution<I>> + 'static,
{
    let mut request = builder().request(gang, "measured")?;
    if request.order == Order::Any {
        // What a program takes instead must give the same bits.
        request.order = Order::Doubling;
    }
    let goal = request.goal.clone();
    let refuse = |expected: &str, came: String| Error::misuse(format!("measuring of {goal}"), expected, came);
    if let Source::Own(of, _) = &request.source {
        return Err(refuse("a builder without `schedules`", format!("schedules `{of}`")));
    }
    if calls == 0 {
        return Err(refuse("at least one call of each algorithm", "0".into()));
    }
    let all = Algorithm::ALL.iter().flat_map(|algorithm| algorithm.variants());
    let mut algorithms = request.choices(all, &Groups::runs(&top.placement(gang)?));
    leave_out_other_names(&mut algorithms, &goal);
    if algorithms.is_empty() {
        return Err(refuse("an algorithm for this kind that gives the operator's usual bits", "none".into()));
    }

    let begin = Collective::barrier().make(top, gang, "measuring begins")?;
    let task = top.register("measures", move |shard: Shard, (all, begin): (Vec<Collective<I, O, S>>, _)| {
        times(shard, all, begin, (goal.clone(), calls as usize, value.clone()))
    });
    let mut made = Vec::with_capacity(algorithms.len());
    let mut launch = || {
        for algorithm in &algorithms {
            let one = builder().order(request.order).algorithm(*algorithm);
            made.push(one.make(top, gang, &format!("measured {algorithm}"))?);
        }
        top.launch_gang(gang, &task, |_| ShardLaunch::new((made.clone(), begin)))
    };
    let times = match launch() {
        Ok(times) => times.all().await,
        Err(error) => Err(error),
    };
    // Also what was made before an error.
    top.destroy((&task, &made, &begin))?;
    Ok(ranking(&times?, calls as usize).into_iter().map(|(at, time)| (algorithms[at], time)).collect())
}

/// The times of a shard's calls, in nanoseconds.
async fn times<I, O, S, V>(
    shard: Shard,
    all: Vec<Collective<I, O, S>>,
    begin: Collective<()>,
    (goal, calls, value): (Goal, usize, impl Fn(u32) -> V),
) -> Result<Vec<u64>, Error>
where
    I: Value + ?Sized + 'static,
    O: Value + ?Sized + 'static,
    S: State<I::Element, O::Element>,
    V: Into<Contribution<I>> + 'static,
{
    let me = shard.index();
    let does = (goal.contributors().contains(me), goal.receivers().contains(me));
    let mut times = Vec::with_capacity(all.len() * calls);
    for collective in all {
        for call in 0..WARM_UP + calls {
            let value = does.0.then(|| value(me).into());
            begin.call(&shard, ())?.await?;
            let began = now();
            let result = match value {
                Some(value) if does.1 => Some(collective.call(&shard, value)?.await?),
                Some(value) => collective.contribute(&shard, value)?.await.map(|()| None)?,
                None if does.1 => Some(collective.receive(&shard)?.await?),
                None => None,
            };
            let took = now() - began;
            drop(result);
            if call >= WARM_UP {
                times.push(took.as_nanos() as u64);
            }
        }
    }
    Ok(times)
}

/// Leaves out what is another one by another name.
fn leave_out_other_names(algorithms: &mut Vec<Algorithm>, goal: &Goal) {
    let all = algorithms.clone();
    let smaller = |one: &Algorithm, two: &Algorithm| one.name() == two.name() && one.number() < two.number();
    algorithms.retain(|algorithm| !all.iter().any(|other| smaller(other, algorithm) && other.is_in_one_round(goal)));
}

/// The positions of the algorithms and their medians, the fastest first. Every shard has measured the same calls; each
/// algorithm has `calls` of them.
fn ranking(times: &[Vec<u64>], calls: usize) -> Vec<(usize, Duration)> {
    let slowest = |call: usize| times.iter().map(|of| of[call]).max().unwrap_or(0);
    let median = |algorithm: usize| {
        let mut all: Vec<u64> = (algorithm * calls..(algorithm + 1) * calls).map(slowest).collect();
        all.sort_unstable();
        Duration::from_nanos(all[(calls - 1) / 2])
    };
    let algorithms = times.first().map_or(0, |of| of.len() / calls);
    let mut all: Vec<_> = (0..algorithms).map(|algorithm| (algorithm, median(algorithm))).collect();
    all.sort_by_key(|&(_, time)| time);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_the_slowest_decide_and_of_several_the_first() {
        let ns = |all: &[(usize, u64)]| all.iter().map(|&(at, ns)| (at, Duration::from_nanos(ns))).collect::<Vec<_>>();
        // Algorithm 1 has the least mean, 2 the least time, 0 the least median.
        let times = vec![5, 90, 5, 6, 6, 6, 7, 1, 8];
        assert_eq!(ranking(std::slice::from_ref(&times), 3), ns(&[(0, 5), (1, 6), (2, 7)]));
        // Another shard is slower in two calls of algorithm 0.
        let other = vec![9, 1, 9, 6, 5, 4, 7, 1, 8];
        assert_eq!(ranking(&[times, other], 3), ns(&[(1, 6), (2, 7), (0, 9)]));
        assert_eq!(ranking(&[vec![4, 3, 3, 4]], 1), ns(&[(1, 3), (2, 3), (0, 4), (3, 4)]));
        // Of an even number, the lower one of the two in the middle.
        assert_eq!(ranking(&[vec![2, 4, 1, 9]], 2), ns(&[(1, 1), (0, 2)]));
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
