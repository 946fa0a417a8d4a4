//! The mapper's choice of an algorithm: only among those that give the same bits.

use crate::common;
use crate::common::size::part;
use maniple_collectives::{Algorithm, Collective, Goal, Kind, Operator, Ranks};
use maniple_mapper::{AlgorithmInput, ChoiceTable, Mapper, PlaceShardsInput, Placement, ProcessorId, names, stock};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch, Top};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::common::watched;

/// Places shards in runs of the given lengths, in turn, and chooses the last algorithm or the first.
struct Choosing {
    runs: Vec<u32>,
    number: usize,
    /// How many choices there were.
    offered: Mutex<Vec<Vec<String>>>,
}

impl Mapper for Choosing {
    fn name(&self) -> &str {
        "choosing"
    }
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        let processors = input.machine.processors();
        let runs = (0..processors).map(ProcessorId).cycle().zip(self.runs.iter().cycle());
        Placement::Explicit(
            runs.flat_map(|(p, &n)| std::iter::repeat_n(p, n as usize)).take(input.shards as usize).collect(),
        )
    }
    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        self.offered.lock().unwrap().push(input.choices.iter().map(|name| name.to_string()).collect());
        self.number % input.choices.len()
    }
}

/// Sums of numbers that every grouping adds up to other bits, of integers, and the least of floats.
type Totals = (Collective<f64>, Collective<u64>, Collective<f64>);

async fn shard(shard: Shard, (sum, exact, least): Totals) -> Result<(u64, u64, u64), Error> {
    let x = f64::from(shard.index() + 1).sqrt() * 10f64.powi(shard.index() as i32 % 9 - 4);
    let (a, b, c) = (sum.call(&shard, x)?, exact.call(&shard, x.to_bits())?, least.call(&shard, x)?);
    Ok((a.await?.to_bits(), b.await?, c.await?.to_bits()))
}

fn totals(runtime: &Runtime, shards: u32) -> Vec<(u64, u64, u64)> {
    tried("totals", runtime, shards).unwrap()
}

fn tried(at: &str, runtime: &Runtime, shards: u32) -> Result<Vec<(u64, u64, u64)>, Error> {
    let program = move |top: maniple_runtime::Top| async move {
        let gang = top.gang("all", shards)?;
        let sum = Collective::allreduce(Operator::sum()).make(&top, &gang, "sum")?;
        let exact = Collective::allreduce(Operator::sum()).make(&top, &gang, "exact")?;
        let least = Collective::allreduce(Operator::min()).make(&top, &gang, "least")?;
        let task = top.register("shard", shard);
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, exact, least)))?.all().await
    };
    watched(at, || runtime.run(program)).map(|r| r.0)
}

/// Every mapper of `names`, and random ones: whatever they choose, the bits are the same as on one processor.
#[test]
fn every_mapper_gives_the_same_bits() {
    for shards in [1, 2, 3, 6, 8, 13, 24] {
        let expected = totals(&Runtime::seeded(1, 0), shards);
        for seed in 0..part(24) {
            let names = names().iter().filter(|name| !matches!(**name, "random" | "logging"));
            for spec in names.map(|name| name.to_string()).chain([format!("random,seed={seed}")]) {
                let n = 1 + seed as u32 % 5;
                let runtime = if seed % 6 == 0 { Runtime::threads(n.min(3)) } else { Runtime::seeded(n, seed) };
                let at = format!("{shards} shards, mapper {spec}, {n} processors, seed {seed}");
                let came = tried(&at, &runtime.mapper(stock(&spec).unwrap()), shards);
                assert_eq!(came.as_ref(), Ok(&expected), "{at}");
            }
        }
    }
}

#[test]
fn every_choice_gives_the_same_bits() {
    for (runs, equal) in [(vec![1], true), (vec![2], true), (vec![4], true), (vec![3], false), (vec![1, 5, 2], false)] {
        for shards in [1, 2, 3, 4, 7, 8, 12, 24, 29, 66] {
            let whole = runs.len() == 1 && shards % runs[0] == 0;
            let results: Vec<_> = (0..common::allreduces(shards).len())
                .map(|number| {
                    let mapper = Arc::new(Choosing { runs: runs.clone(), number, offered: Mutex::default() });
                    let runtime = match number % 2 {
                        0 => Runtime::threads(2),
                        _ => Runtime::seeded(2 + shards % 3, u64::from(shards)),
                    };
                    let totals = totals(&runtime.mapper(mapper.clone()), shards);
                    let offered = mapper.offered.lock().unwrap().clone();
                    let has = |call: usize, name: &str| offered[call].iter().any(|other| other == name);
                    let at = format!("{runs:?} {shards} {offered:?}");
                    // A sum of floats has two levels only where the groups are equal; the others always have.
                    assert!(has(1, "two-level") && has(2, "two-level"), "{at}");
                    assert!(!(equal && whole) || has(0, "two-level"), "{at}");
                    // Nor has it another order of operands than the order of the ranks.
                    assert!(!has(0, "dissemination-3") && has(1, "dissemination-3"), "{at}");
                    assert!((0..3).all(|call| has(call, "radix-4") && has(call, "direct") == (shards <= 64)), "{at}");
                    totals
                })
                .collect();
            assert!(results.iter().all(|totals| *totals == results[0]), "{runs:?} {shards}");
        }
    }
}

/// What a mapper was told: the kind, the processors, the bytes, and the choices.
type Told = (Kind, Vec<u32>, usize, Vec<String>);

/// Keeps what it is told, and chooses the first algorithm.
#[derive(Default)]
struct Listening(Mutex<Vec<Told>>);

impl Mapper for Listening {
    fn name(&self) -> &str {
        "listening"
    }
    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        let processors = input.placement.iter().map(|processor| processor.0).collect();
        let choices = input.choices.iter().map(|name| name.to_string()).collect();
        self.0.lock().unwrap().push((input.kind, processors, input.bytes, choices));
        0
    }
}

/// What a mapper is told when `make` makes a collective of eight shards on four processors, in a gang of this many.
fn told(
    shards: u32,
    make: impl Fn(&Top, &maniple_runtime::Gang) -> Result<(), Error> + Send + Sync + Copy + 'static,
) -> Told {
    let mapper = Arc::new(Listening::default());
    let run = Runtime::seeded(4, 1).mapper(mapper.clone()).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        make(&top, &gang)
    });
    run.unwrap();
    let mut told = mapper.0.lock().unwrap();
    // Every node asks.
    assert!(told.iter().all(|other| *other == told[0]), "{told:?}");
    told.remove(0)
}

/// A table goes by the number of participants, so the other shards of the gang do not count.
#[test]
fn a_mapper_is_told_who_takes_part() {
    let (kind, processors, bytes, _) = told(8, |top, gang| {
        Collective::allreduce(Operator::<u64>::sum()).participants([1, 2, 7]).make(top, gang, "sum").map(drop)
    });
    assert_eq!((kind, processors, bytes), (Kind::Allreduce, vec![0, 1, 3], 8));
    let (kind, processors, bytes, _) = told(8, |top, gang| {
        Collective::<u64>::broadcast(7).elements(2).receivers([0, 1, 4]).make(top, gang, "news").map(drop)
    });
    assert_eq!((kind, processors, bytes), (Kind::Broadcast, vec![0, 0, 2, 3], 16));
    let (kind, processors, bytes, _) =
        told(8, |top, gang| Collective::<u64>::all_to_all().make(top, gang, "all").map(drop));
    assert_eq!((kind, processors, bytes), (Kind::AllToAll, vec![0, 0, 1, 1, 2, 2, 3, 3], 64));
    // The largest vector is the contribution or, of few receivers, the result.
    for (from, to, most) in [([0, 6], [5, 7], 6), ([0, 2], [1, 7], 6)] {
        let (kind, processors, bytes, _) = told(8, move |top, gang| {
            let some = Collective::<u64>::all_to_all().participants(from[0]..from[1]).receivers(to[0]..to[1]);
            some.sizes_between(|_, _| 2).make(top, gang, "some").map(drop)
        });
        assert_eq!((kind, processors, bytes), (Kind::AllToAll, vec![0, 0, 1, 1, 2, 2, 3], 2 * most * 8));
    }
}

/// Where each combines the values of all it is offered for 64 ranks, otherwise for 1024, unless there is no other.
#[test]
fn direct_is_offered_to_many_only_if_there_is_no_other() {
    type Make = fn(&Top, &maniple_runtime::Gang) -> Result<(), Error>;
    let offered = |shards, make: Make| told(shards, make).3;
    let all_to_all: Make = |top, gang| Collective::<u64>::all_to_all().make(top, gang, "all").map(drop);
    let gather: Make = |top, gang| Collective::<u64>::gather([0]).make(top, gang, "all").map(drop);
    let scatter: Make = |top, gang| Collective::<u64>::scatter(0).make(top, gang, "all").map(drop);
    let broadcast: Make = |top, gang| Collective::<u64>::broadcast(0).make(top, gang, "all").map(drop);
    let allgather: Make = |top, gang| Collective::<u64>::allgather().make(top, gang, "all").map(drop);
    for (make, others) in [
        (all_to_all, "bruck"),
        (gather, "binomial"),
        (scatter, "binomial"),
        (broadcast, "binomial"),
        (allgather, "two-level"),
    ] {
        for (shards, is_offered) in [(64, true), (1024, true), (1025, false)] {
            let names = offered(shards, make);
            assert_eq!((&*names[0], names.iter().any(|name| name == "direct")), (others, is_offered), "{names:?}");
        }
    }
    let sums: Make = |top, gang| Collective::reduce_scatter(Operator::<f64>::sum()).make(top, gang, "sums").map(drop);
    assert_eq!(offered(64, sums), ["halving", "direct"]);
    assert_eq!(offered(65, sums), ["halving"]);
    // Halving is for blocks of one size.
    let (.., names) = told(65, |top, gang| {
        let sums = Collective::reduce_scatter(Operator::<f64>::sum()).sizes(0..65);
        sums.make(top, gang, "sums").map(drop)
    });
    assert_eq!(names, ["direct"]);
}

/// Each name belongs to an algorithm for the kind, at the number of shards of its row or fewer than the next one's.
#[test]
fn the_built_in_table_names_algorithms_for_the_kind() {
    for row in ChoiceTable::built_in().rows() {
        let (ranks, all) = (row.shards, Ranks::all(row.shards));
        let from = if row.kind.has_root() { Ranks::one(0) } else { all.clone() };
        let to = if matches!(row.kind, Kind::Reduce | Kind::Gather) { Ranks::one(0) } else { all };
        let goal = Goal::new(row.kind, ranks, from, to, 1);
        assert_eq!(goal.kind(), row.kind);
        assert!(row.algorithms.iter().all(|algorithm| algorithm.is_for(&goal)), "{row:?}");
    }
}

/// A table may name what a mapper is offered, and nothing else: for each kind, of several numbers of shards and sets of them.
#[test]
fn a_table_names_what_mappers_are_offered() {
    let numbered =
        || Algorithm::ALL.iter().flat_map(|algorithm| std::iter::once(*algorithm).chain(algorithm.variants()));
    let mut offered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for ranks in [1, 2, 3, 7, 8, 12, 20, 30, 42, 56, 72] {
        let (all, some) = (|| Ranks::all(ranks), || Ranks::all(ranks.div_ceil(2)));
        for goal in [
            Goal::allreduce(ranks, 1),
            Goal::reduce(ranks, some(), some(), 1),
            Goal::reduce(ranks, all(), some(), 1),
            Goal::reduce_scatter(ranks, all(), all()),
            Goal::scan(ranks, all(), all(), 1),
            Goal::exscan(ranks, all(), all(), 1),
            Goal::broadcast(ranks, 0, 1),
            Goal::gather(ranks, all(), all()),
            Goal::gather(ranks, all(), some()),
            Goal::scatter(ranks, 0, all()),
            Goal::all_to_all(ranks, all(), all()),
        ] {
            let names = numbered().filter(|algorithm| algorithm.is_for(&goal)).map(|algorithm| algorithm.to_string());
            offered.entry(goal.to_string()).or_default().extend(names);
        }
    }
    assert_eq!(offered.len(), 10, "{:?}", offered.keys());
    let more = ["chain-7", "radix-3", "five-cases-0", "dissemination-8", "star"].map(str::to_owned);
    let names: BTreeSet<String> = numbered().map(|algorithm| algorithm.to_string()).chain(more).collect();
    for (kind, offered) in &offered {
        for name in &names {
            let row = format!("kind = \"{kind}\"\nshards = 1\nbytes = 0\nalgorithms = [\"{name}\"]");
            let table = format!("machine = \"m\"\ndate = \"d\"\ncommand = \"c\"\n[[row]]\n{row}");
            let read = table.parse::<ChoiceTable>();
            assert_eq!(read.is_ok(), offered.contains(name), "{kind} by {name}: {read:?}");
        }
    }
}
