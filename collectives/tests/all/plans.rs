//! Collectives that are made together: proofs of their schedules, loads counted from steps, and bits of results.

use crate::common;
use crate::common::size::part;
use crate::common::{any_f64, any_runtime, mix, tree, watched};
use maniple_collectives::{
    Algorithm, Collective, CollectiveBuilder, Goal, Laws, Load, Operator, Plan, Ranks, Schedules, Step, balance, check,
};
use maniple_regions::Vector;
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch, TaskFuture};
use std::sync::Arc;

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % n
    }
    /// All ranks, one, some of them, or neighbours.
    fn ranks(&mut self, ranks: u32) -> Vec<u32> {
        let one = self.below(ranks.into()) as u32;
        match self.below(5) {
            0 => (0..ranks).collect(),
            1 => vec![one],
            2 => (one..ranks.min(one + 1 + self.below(9) as u32)).collect(),
            several => {
                let part = if several == 3 { 2 } else { 5 };
                let chosen: Vec<u32> = (0..ranks).filter(|_| self.below(part) == 0).collect();
                if chosen.is_empty() { vec![one] } else { chosen }
            }
        }
    }
    fn reduce(&mut self, ranks: u32) -> Goal {
        let from = self.ranks(ranks);
        let to = if self.below(4) == 0 { from.clone() } else { self.ranks(ranks) };
        Goal::reduce(ranks, Ranks::of(from), Ranks::of(to), 1)
    }
    /// A goal, its schedules as they are alone, and the bytes of a vector. Mostly a reduction that leaves a choice.
    fn object(&mut self, ranks: u32) -> (Schedules, usize) {
        let bytes = [0, 8, 8, 8, 1000, 1 << 20][self.below(6) as usize];
        let of = Ranks::of(self.ranks(ranks));
        let root = self.below(ranks.into()) as u32;
        let (goal, algorithm) = match self.below(10) {
            0 => (Goal::allreduce(ranks, 1), Algorithm::Radix(4)),
            1 => (Goal::broadcast_to(ranks, root, of, 1), Algorithm::Binomial),
            2 => (Goal::gather(ranks, of, Ranks::one(root)), Algorithm::Binomial),
            3 => (Goal::scan(ranks, of.clone(), of, 1), Algorithm::RecursiveDoubling),
            4 => (Goal::allreduce(ranks, 1), Algorithm::RecursiveDoubling),
            _ => (self.reduce(ranks), Algorithm::RecursiveDoubling),
        };
        (Schedules::new(&goal, algorithm), bytes)
    }
}

/// What each rank sends and receives: messages and bytes, counted from the steps of its schedules. A vector of this many
/// bytes is cut into blocks of which the first have a byte more.
fn counted(objects: &[(&Schedules, usize)]) -> Vec<[(u64, u64); 2]> {
    let ranks = objects[0].0.goal().ranks();
    let of_rank = |rank: u32| {
        let mut all = [(0, 0); 2];
        for &(schedules, bytes) in objects {
            let schedule = schedules.of(rank);
            let blocks = schedule.blocks() as usize;
            for step in schedule.steps() {
                let (direction, part) = match *step {
                    Step::Update { part, .. } => (0, part),
                    Step::Read { part, .. } => (1, part),
                    Step::Local { .. } => continue,
                };
                let cut = schedule.parts()[usize::from(part)].blocks.clone();
                let bytes: usize = cut.map(|b| bytes / blocks + usize::from((b as usize) < bytes % blocks)).sum();
                all[direction].0 += 1;
                all[direction].1 += bytes as u64;
            }
        }
        all
    };
    (0..ranks).map(of_rank).collect()
}

fn said(loads: &[Load]) -> Vec<[(u64, u64); 2]> {
    loads.iter().map(|load| [load.sent, load.received].map(|traffic| (traffic.messages, traffic.bytes))).collect()
}

/// The fullest direction of any rank, where a message counts as 2 KiB more.
fn most(counted: &[[(u64, u64); 2]]) -> u64 {
    counted.iter().flatten().map(|&(messages, bytes)| 2048 * messages + bytes).max().unwrap()
}

/// Balances some objects, proves all schedules, and compares the loads.
fn prove(ranks: u32, seed: u64) -> (u64, u64) {
    let what = format!("{ranks} ranks, seed {seed}");
    let mut draw = Draw(mix(seed ^ u64::from(ranks) << 32));
    let objects: Vec<(Schedules, usize)> = (0..1 + draw.below(6)).map(|_| draw.object(ranks)).collect();
    let balanced = balance(objects.clone());
    for ((alone, _), planned) in objects.iter().zip(&balanced.schedules) {
        assert_eq!(alone.goal(), planned.goal(), "{what}");
        let goal = alone.goal();
        let [before, after] =
            [alone, planned].map(|all| check(goal, |rank| all.of(rank)).unwrap_or_else(|e| panic!("{what}: {e}")));
        assert_eq!((after.laws, after.by_doubling), (Laws::NONE, before.by_doubling), "{what}");
        assert!(after.by_doubling || goal.to_string() == "scan", "{what}: {goal}");
        assert_eq!((after.messages, after.rounds), (before.messages, before.rounds), "{what}: {goal}");
    }
    let alone: Vec<_> = objects.iter().map(|(alone, bytes)| (alone, *bytes)).collect();
    let planned: Vec<_> =
        balanced.schedules.iter().zip(&objects).map(|(planned, (_, bytes))| (planned, *bytes)).collect();
    let [before, after] = [alone, planned].map(|objects| counted(&objects));
    assert_eq!(said(&balanced.before), before, "{what}");
    assert_eq!(said(&balanced.loads), after, "{what}");
    let (before, after) = (most(&before), most(&after));
    assert!(after <= before, "{what}: {after} after {before}");
    (before, after)
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn any_choice_reaches_the_goals_with_the_same_brackets() {
    let mut better = 0;
    for ranks in 1..=130 {
        for seed in 0..4 {
            let (before, after) = prove(ranks, seed);
            better += u32::from(after < before);
        }
    }
    assert!(better > 200, "{better} of 520");
    let mut draw = Draw(5);
    for seed in 0..6 {
        prove(131 + draw.below(900) as u32, seed);
    }
}

#[test]
#[ignore = "takes a minute in release; after a change of an algorithm or of the checker"]
fn nightly_any_choice_for_many_ranks() {
    let mut draw = Draw(6);
    for seed in 0..100 {
        prove(1 + draw.below(4999) as u32, seed);
    }
    for ranks in 1..=300 {
        for seed in 4..24 {
            prove(ranks, seed);
        }
    }
}

fn reductions(ranks: u32, receivers: impl Iterator<Item = u32>) -> Vec<(Schedules, usize)> {
    let goal = |to| Goal::reduce(ranks, Ranks::all(ranks), Ranks::one(to), 1);
    receivers.map(|to| (Schedules::new(&goal(to), Algorithm::RecursiveDoubling), 8)).collect()
}

/// The most messages that a rank sends, and that one receives.
fn messages(loads: &[Load]) -> (u64, u64) {
    let most = |of: fn(&Load) -> u64| loads.iter().map(of).max().unwrap();
    (most(|load| load.sent.messages), most(|load| load.received.messages))
}

#[test]
fn reductions_that_overlap_are_spread_over_the_ranks() {
    // Everybody sends once in each reduction to somebody else. On average everybody receives as often. Made alone, rank 0
    // receives k times in each reduction to one of the ranks 2^k to 2^(k + 1), and log₂ P times in its own.
    let rows = [4, 8, 16, 64].map(|ranks| {
        let balanced = balance(reductions(ranks, 0..ranks));
        let ((sent, before), (sends, after)) = (messages(&balanced.before), messages(&balanced.loads));
        assert_eq!((sent, sends), (u64::from(ranks) - 1, u64::from(ranks) - 1), "{ranks} ranks");
        format!("| {ranks} | {before} | {after} | {} |\n", ranks - 1)
    });
    let table = format!("| P | made alone | in a plan | on average |\n|---|---|---|---|\n{}\n", rows.concat());
    assert!(include_str!("../../README.md").contains(&table), "README.md should have\n{table}");
}

/// Figures 5 and 6 of the paper. In the second reduction either of ranks 1 and 2 can send to the other one. Rank 2 receives
/// twice in the first one.
#[test]
fn the_example_of_the_paper() {
    let first = |to: [u32; 2]| Goal::reduce(4, Ranks::all(4), Ranks::of(to), 1);
    let second = |to| Goal::reduce(4, Ranks::of([1, 2]), Ranks::one(to), 1);
    let both = |goals: [Goal; 2]| balance(goals.map(|goal| (Schedules::new(&goal, Algorithm::RecursiveDoubling), 8)));
    let paper = both([first([0, 2]), second(3)]);
    assert_eq!((messages(&paper.before), messages(&paper.loads)), ((2, 2), (2, 2)));
    // The same with the ranks in reverse: here the first of the two is the wrong one.
    let reverse = both([first([3, 1]), second(0)]);
    assert_eq!((messages(&reverse.before), messages(&reverse.loads)), ((2, 3), (2, 2)));
    let update = |peer| Step::Update { peer, at: 0, part: 0 };
    assert_eq!(reverse.schedules[1].of(1).steps(), [update(2)]);
    // Where two nodes' plans differ, the comparison of what they make shows it.
    assert_eq!(paper.schedules[1].to_string(), "recursive-doubling");
    let others = balance(reductions(4, 0..4)).schedules;
    let named: Vec<String> = others.iter().chain([&reverse.schedules[1]]).map(Schedules::to_string).collect();
    let planned = |name: &&String| name.starts_with("recursive-doubling in a plan with choices ");
    let different: std::collections::BTreeSet<&String> = named.iter().filter(planned).collect();
    assert!(different.len() >= 3, "{named:?}");
}

/// A receiver that does not contribute gets the result from somebody with little to do.
#[test]
fn those_with_little_to_do_hand_the_result_on() {
    // Ranks 0 and 1 have the result, and one of them hands it to rank 2. Rank 0 has sent two other values.
    let busy = Goal::broadcast_to(4, 0, Ranks::of([1, 3]), 1);
    let reduce = Goal::reduce(4, Ranks::all(2), Ranks::of([0, 1, 2]), 1);
    let all = [Schedules::new(&busy, Algorithm::Binomial), Schedules::new(&reduce, Algorithm::RecursiveDoubling)];
    let balanced = balance(all.map(|schedules| (schedules, 8)));
    let sent = |loads: &[Load]| loads.iter().map(|load| load.sent.messages).collect::<Vec<_>>();
    assert_eq!(sent(&balanced.before), [4, 1, 0, 0]);
    assert_eq!(sent(&balanced.loads), [3, 2, 0, 0]);
}

#[test]
fn bytes_count_as_well_as_messages() {
    // Rank 0 receives few large messages, and rank 1 many small ones.
    let reduce = Goal::reduce(3, Ranks::of([0, 1]), Ranks::one(2), 1);
    let to = |from: u32, to| Schedules::new(&Goal::broadcast_to(3, from, Ranks::one(to), 1), Algorithm::Binomial);
    let mut all = vec![(Schedules::new(&reduce, Algorithm::RecursiveDoubling), 8), (to(2, 0), 1 << 20)];
    all.extend((0..5).map(|_| (to(2, 1), 8)));
    let balanced = balance(all);
    assert_eq!(balanced.before[0].received.messages, 2);
    assert_eq!((balanced.loads[0].received.messages, balanced.loads[1].received.messages), (1, 6));
}

#[test]
fn nothing_to_choose_changes_nothing() {
    assert!(balance([]).schedules.is_empty());
    for ranks in [1, 2, 8, 64] {
        let goal = Goal::allreduce(ranks, 1);
        let alone = Schedules::new(&goal, Algorithm::RecursiveDoubling);
        let balanced = balance([(alone.clone(), 8), (alone.clone(), 8)]);
        assert_eq!(balanced.loads, balanced.before);
        assert!((0..ranks).all(|rank| balanced.schedules[0].of(rank) == alone.of(rank)));
    }
}

/// Reductions of f64 in one program.
#[derive(Debug)]
struct Case {
    shards: u32,
    /// The contributors and receivers of each, and the elements of a vector.
    reductions: Vec<(Vec<u32>, Vec<u32>, usize)>,
    calls: u64,
    seed: u64,
    together: bool,
}

impl Case {
    fn draw(seed: u64, together: bool) -> Self {
        let mut d = Draw(mix(seed));
        let shards = 1 + d.below(13) as u32;
        let mut reduction = || {
            let from = d.ranks(shards);
            let to = if d.below(4) == 0 { from.clone() } else { d.ranks(shards) };
            (from, to, [1, 1, 3, 40, 700][d.below(5) as usize])
        };
        let reductions: Vec<_> = (0..1 + seed % 5).map(|_| reduction()).collect();
        Self { shards, reductions, calls: 1 + d.below(4), seed, together }
    }

    fn value(&self, (reduction, call): (usize, u64), shard: u32) -> Vec<f64> {
        let base = mix(self.seed ^ (reduction as u64) << 50 ^ call << 40 ^ u64::from(shard));
        (0..self.reductions[reduction].2 as u64).map(|at| any_f64(mix(base ^ at))).collect()
    }

    fn builder(&self, reduction: usize) -> CollectiveBuilder<[f64]> {
        let (from, to, elements) = self.reductions[reduction].clone();
        Collective::reduce(Operator::<f64>::sum(), to)
            .participants(from)
            .algorithm(Algorithm::RecursiveDoubling)
            .elements(elements)
    }

    async fn shard(self: Arc<Self>, shard: Shard, all: Vec<Collective<[f64]>>) -> Result<Vec<u64>, Error> {
        let me = shard.index();
        let (mut bits, mut pending, mut over) = (Vec::new(), Vec::<TaskFuture<Vector<f64>>>::new(), Vec::new());
        for call in 0..self.calls {
            for at in 0..all.len() {
                // Every shard has an order of its own.
                let at = (at + me as usize) % all.len();
                let (from, to, _) = &self.reductions[at];
                if from.contains(&me) {
                    over.push(all[at].contribute(&shard, self.value((at, call), me))?);
                }
                if to.contains(&me) {
                    pending.push(all[at].receive(&shard)?);
                }
            }
            if call % 2 == 1 || call + 1 == self.calls {
                for result in pending.drain(..) {
                    bits.extend(result.await?.into_iter().map(f64::to_bits));
                }
            }
        }
        for end in over {
            end.await?;
        }
        Ok(bits)
    }

    fn run(self: &Arc<Self>, runtime: &Runtime) -> Result<Vec<Vec<u64>>, Error> {
        let case = self.clone();
        let outcome = runtime.run(move |top| {
            let case = case.clone();
            async move {
                let gang = top.gang("all", case.shards)?;
                let builders = (0..case.reductions.len()).map(|at| (format!("sum {at}"), case.builder(at)));
                let all: Vec<Collective<[f64]>> = if case.together {
                    Plan::make(&top, &gang, builders.collect::<Vec<_>>())?.collectives
                } else {
                    builders.map(|(name, builder)| builder.make(&top, &gang, &name)).collect::<Result<_, _>>()?
                };
                let task = top.register("shard", move |shard: Shard, all| case.clone().shard(shard, all));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(all.clone()))?.all().await
            }
        });
        outcome.map(|(results, _)| results)
    }

    /// The results by sequential code, with the brackets that recursive doubling documents.
    fn expected(&self, shard: u32) -> Vec<u64> {
        let mut bits = Vec::new();
        for call in 0..self.calls {
            for at in 0..self.reductions.len() {
                let at = (at + shard as usize) % self.reductions.len();
                let (from, to, _) = &self.reductions[at];
                if to.contains(&shard) {
                    let values: Vec<Vec<f64>> = from.iter().map(|&from| self.value((at, call), from)).collect();
                    let sum = tree(&values, |a, b| a.iter().zip(b).map(|(x, y)| x + y).collect());
                    bits.extend(sum.into_iter().map(f64::to_bits));
                }
            }
        }
        bits
    }
}

#[test]
fn results_have_the_bits_of_objects_made_alone() {
    let cases = if common::processes::runtimes().is_some() { part(60) } else { part(400) };
    for seed in 0..cases {
        let (at, runtime) = any_runtime(seed);
        let run = |together| {
            let case = Arc::new(Case::draw(seed, together));
            let at = format!("{at}: {case:?}");
            (watched(&at, || case.run(&runtime)).unwrap_or_else(|e| panic!("{at}: {e}")), case)
        };
        let ((planned, case), (alone, _)) = (run(true), run(false));
        assert_eq!(planned, alone, "{at}: {case:?}");
        for (shard, bits) in (0u32..).zip(planned) {
            assert_eq!(bits, case.expected(shard), "{at}: shard {shard} of {case:?}");
        }
    }
}

#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "plans::on_processes",
        &[("results_have_the_bits_of_objects_made_alone", results_have_the_bits_of_objects_made_alone)],
    );
}

/// A plan weighs each member by the vectors that it was asked for: here rank 0 receives few large ones, and rank 1 many of one
/// number.
#[test]
fn the_elements_of_vectors_count_in_a_plan() {
    let loads = |large: usize| {
        let run = Runtime::seeded(1, 1).run(move |top| async move {
            let gang = top.gang("all", 3)?;
            let to = |to: u32, elements| Collective::<u64>::broadcast(2).receivers([to]).elements(elements);
            let sum = Collective::reduce(Operator::<f64>::sum(), [2]).participants([0, 1]);
            let all = (
                ("sum", sum.algorithm(Algorithm::RecursiveDoubling)),
                ("large", to(0, large)),
                [1; 5].map(|elements| ("small", to(1, elements))),
            );
            let plan = Plan::make(&top, &gang, all)?;
            Ok((plan.loads_alone().to_vec(), plan.loads().to_vec()))
        });
        let ((alone, planned), _) = run.unwrap();
        assert_eq!(alone[2].sent.bytes, 8 * (large as u64 + 5), "{large} elements");
        (alone[0].received.messages, planned[0].received.messages, planned[1].received.messages)
    };
    // Alone, rank 0 is the one that adds up. In a plan it is the one of the two that receives less.
    assert_eq!(loads(1), (2, 2, 5));
    assert_eq!(loads(1 << 17), (2, 1, 6));
}

/// All kinds and types may be in a plan.
#[test]
fn kinds_and_types_mix() {
    let run = |shards: u32| {
        Runtime::threads(2).run(move |top| async move {
            let gang = top.gang("all", shards)?;
            let pairs =
                [0, shards - 1].map(|to| (format!("to {to}"), Collective::reduce(Operator::<u64>::sum(), [to])));
            let plan = Plan::make(
                &top,
                &gang,
                (
                    ("greatest", Collective::allreduce(Operator::<u64>::max())),
                    pairs,
                    (("barrier", Collective::barrier()), vec![("from 0", Collective::<i32>::broadcast(0))]),
                    ("all", Collective::<u64>::allgather()),
                ),
            )?;
            assert_eq!(plan.loads().len(), shards as usize);
            assert_eq!(plan.loads_alone().len(), shards as usize);
            let (greatest, sums, (barrier, casts), gather) = plan.collectives;
            let task = top.register("shard", move |shard: Shard, (): ()| {
                let casts = casts.clone();
                async move {
                    let me = u64::from(shard.index());
                    for sum in sums {
                        sum.contribute(&shard, 2 * me)?.detach();
                    }
                    barrier.call(&shard, ())?.await?;
                    let cast = match me {
                        0 => casts[0].call(&shard, -7)?,
                        _ => casts[0].receive(&shard)?,
                    };
                    let cast = cast.await?;
                    let all = gather.call(&shard, me * me)?.await?;
                    let mut received = vec![greatest.call(&shard, me)?.await?];
                    for (sum, to) in sums.iter().zip([0, shards - 1]) {
                        if to == shard.index() {
                            received.push(sum.receive(&shard)?.await?);
                        }
                    }
                    Ok((cast, all, received))
                }
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
        })
    };
    for shards in [2, 3, 7, 8] {
        let (results, _) = watched("kinds", || run(shards)).unwrap();
        let n = u64::from(shards);
        for (shard, (cast, all, received)) in (0u32..).zip(results) {
            assert_eq!(cast, -7);
            assert_eq!(all, (0..n).map(|x| x * x).collect::<Vec<_>>());
            let ends = [0, shards - 1].into_iter().filter(|&end| end == shard);
            let expected: Vec<u64> = std::iter::once(n - 1).chain(ends.map(|_| n * (n - 1))).collect();
            assert_eq!(received, expected, "shard {shard} of {shards}");
        }
    }
}

#[test]
fn an_object_that_can_not_be_is_named() {
    let run = |receiver: u32| {
        let outcome = Runtime::threads(1).run(move |top| async move {
            let gang = top.gang("all", 3)?;
            let sum = |to| Collective::reduce(Operator::<u64>::sum(), [to]);
            Plan::make(&top, &gang, (("good", sum(0)), ("bad", sum(receiver)))).map(drop)
        });
        outcome.map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(run(2), Ok(()));
    let error = run(3).unwrap_err();
    assert!(error.contains("collective `bad`") && error.contains("shards in 0..3"), "{error}");
}

#[test]
fn each_object_has_its_own_name() {
    let run = |wrong: usize| {
        let outcome = Runtime::threads(1).run(move |top| async move {
            let gang = top.gang("all", 2)?;
            let sum = || Collective::allreduce(Operator::<f64>::sum()).elements(2);
            let all = Plan::make(&top, &gang, vec![("first", sum()), ("second", sum())])?.collectives;
            let task = top.register("calls", move |shard: Shard, all: Vec<Collective<[f64]>>| async move {
                all[wrong].call(&shard, vec![1.0; 3])?.await.map(drop)
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(all.clone()))?.all().await.map(drop)
        });
        outcome.map(drop).unwrap_err().to_string()
    };
    for (wrong, name) in ["first", "second"].into_iter().enumerate() {
        assert!(run(wrong).contains(&format!("input of `{name}` in shard")), "{}", run(wrong));
    }
}
