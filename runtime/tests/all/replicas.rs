//! Top-level tasks that do not do the same on every node: what differs is named, and nothing else is an error.

use crate::common::processes::on_processes;
use crate::common::{run, watched};
use maniple_mapper::{
    CollectiveMapper, KeepInput, Mapper, NodeId, PlaceShardsInput, PlaceSharedInput, Placement, ProcessorId,
};
use maniple_regions::{Field, Privilege, Rect, Region, Write};
use maniple_runtime::{Check, Edges, Error, InnerTask, PhaseOptions, Runtime, Shard, ShardLaunch, Top};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const U: Field<f64> = Field::new(0, "u");
const V: Field<i32> = Field::new(0, "v");
const NODES: u32 = 3;

async fn nothing(_: Shard, (): ()) -> Result<(), Error> {
    Ok(())
}

/// What the program does on one of the nodes that it does not do on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Odd {
    Nothing,
    TreeSize,
    TreeField,
    TreeName,
    GangSize,
    TaskType,
    Consumer,
    Waiters,
    Window,
    Requirement,
    /// Which shard holds a region.
    Holder,
    OneMore,
    EndsEarly,
    Mapper,
    Order,
}

async fn program(top: Top, odd: Odd) -> Result<(), Error> {
    let n = 4;
    let cells = if odd == Odd::TreeSize { 9 } else { 8 };
    let field = if odd == Odd::TreeField { V.info() } else { U.info() };
    let name = if odd == Odd::TreeName { "cell" } else { "cells" };
    let tree = top.region_tree(name, Rect::line(0, cells), &[field])?;
    let gang = top.gang("all", if odd == Odd::GangSize { n + 1 } else { n })?;
    let task = top.register("nothing", nothing);
    if odd == Odd::TaskType {
        let _ = top.register("more", |_, _: u32| async { Ok(()) });
    } else {
        let _ = top.register("more", |_, _: u64| async { Ok(()) });
    }
    if odd == Odd::EndsEarly {
        return Err(Error::user("enough"));
    }
    if odd == Odd::Mapper {
        top.replace_mapper(Arc::new(CollectiveMapper));
    }
    let _: Edges = top.edges(
        "ring",
        &gang,
        (0..gang.shards()).map(|s| (s, (s + if odd == Odd::Consumer { 2 } else { 1 }) % n)),
        1,
    )?;
    let gate = PhaseOptions::between(0..n, if odd == Odd::Waiters { 0..n - 1 } else { 0..n });
    let gate = gate.window(if odd == Odd::Window { 5 } else { 6 });
    if odd == Odd::Order {
        top.gang("between", 2)?;
        top.phase_barrier("gate", &gang, gate)?;
    } else {
        top.phase_barrier("gate", &gang, gate)?;
        top.gang("between", 2)?;
    }
    let privilege = if odd == Odd::Requirement { Privilege::ReadWrite } else { Privilege::Read };
    let hold = |_| ShardLaunch::new(()).shares(tree, [field.id], privilege);
    top.launch_gang(&gang, &task, hold)?.all().await?;
    let holder = if odd == Odd::Holder { 2 } else { 1 };
    let hold = |s| if s == holder { hold(s) } else { ShardLaunch::new(()) };
    top.launch_gang(&gang, &task, hold)?.all().await?;
    if odd == Odd::OneMore {
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?;
    }
    Ok(())
}

/// Runs the program with one node that is odd: the first, the second or the last to begin.
fn outcome(at: &str, runtime: &Runtime, who: u32, odd: Odd) -> Result<(), Error> {
    let begun = Arc::new(AtomicU32::new(0));
    run(at, runtime, move |top| {
        let me = begun.fetch_add(1, Ordering::Relaxed);
        program(top, if me == who { odd } else { Odd::Nothing })
    })
}

#[test]
fn what_differs_between_nodes_is_named() {
    let cases = [
        (Odd::TreeSize, 0, "region tree `cells` of [0, 9)", "region tree `cells` of [0, 8)"),
        (Odd::TreeField, 0, "with fields [v: i32]", "with fields [u: f64]"),
        (Odd::TreeName, 0, "region tree `cell` of", "region tree `cells` of"),
        (Odd::GangSize, 1, "gang `all` of 5 shards", "gang `all` of 4 shards"),
        (Odd::TaskType, 3, "task `more` of u32 -> ()", "task `more` of u64 -> ()"),
        (Odd::Mapper, 4, "replacement of the mapper by `collective`", "edges `ring`"),
        (Odd::EndsEarly, 4, "the end, with the error: enough", "edges `ring`"),
        (Odd::Consumer, 4, "[0 -> 2 tag 0, 1 -> 3 tag 0, ", "[0 -> 1 tag 0, 1 -> 2 tag 0, "),
        (Odd::Waiters, 5, "waiters [0, 1, 2], window 6", "waiters [0, 1, 2, 3], window 6"),
        (Odd::Window, 5, "window 5", "window 6"),
        (Odd::Order, 5, "gang `between` of 2 shards", "phase barrier `gate` of gang `all`"),
        (Odd::Requirement, 7, "shard 0: simultaneous read-write on", "shard 0: simultaneous read on"),
        (Odd::Holder, 8, "[shard 2: simultaneous read on", "[shard 1: simultaneous read on"),
        (Odd::OneMore, 9, "launch of task `nothing`", "the end"),
    ];
    for seed in 0..40 {
        let who = (seed % u64::from(NODES)) as u32;
        let runtime = Runtime::seeded(NODES, seed).check(Check::ControlReplication);
        for (odd, number, odds, others) in cases {
            let at = format!("{odd:?} on node {who}, seed {seed}");
            let e = outcome(&at, &runtime, who, odd).expect_err(&at);
            let Error::Divergence { call, reference: NodeId(0), expected, node, came } = &e else {
                panic!("{at}: {e}")
            };
            let (first, second) = if who == 0 { (odds, others) } else { (others, odds) };
            assert_eq!(*call, number, "{at}: {e}");
            assert!(node.0 == who || who == 0 && node.0 > 0, "{at}: {e}");
            assert!(expected.contains(first) && came.contains(second), "{at}: {e}");
        }
        let at = format!("the same, seed {seed}");
        assert_eq!(outcome(&at, &runtime, who, Odd::Nothing), Ok(()), "{at}");
    }
}

/// What the shards of a launch are given belongs to the calls that are compared.
#[test]
fn arguments_that_differ_between_nodes_are_named() {
    #[derive(Serialize, Deserialize)]
    struct Given {
        numbers: HashMap<u32, u32>,
        names: HashSet<String>,
        list: Vec<f64>,
        last: Option<u32>,
    }
    // No two of these have the same order.
    let equal = || Given {
        numbers: (0..20).map(|i| (i, i)).collect(),
        names: (0..20).map(|i| i.to_string()).collect(),
        list: vec![0.0, 2.0],
        last: None,
    };
    // Where the shards are too many to be hashed one by one, neighbours are named together.
    for (shards, odd, named) in [(1, 0, "shard 0"), (5, 3, "shard 3"), (5000, 4321, "a shard from 4320 to 4321")] {
        for how in 0..6u32 {
            let seed = u64::from(how);
            let runtime = Runtime::seeded(NODES, seed).check(Check::ControlReplication);
            let begun = AtomicU32::new(0);
            let at = format!("way {how}, {shards} shards");
            let outcome = run(&at, &runtime, move |top| {
                let is_odd = begun.fetch_add(1, Ordering::Relaxed) == 1;
                async move {
                    let (gang, task) =
                        (top.gang("all", shards)?, top.register("given", |_, _: Given| async { Ok(()) }));
                    top.launch_gang(&gang, &task, |shard| {
                        let mut given = equal();
                        match if is_odd && shard == odd { how } else { 0 } {
                            0 => {}
                            1 => *given.numbers.entry(7).or_default() = 8,
                            2 => _ = given.names.remove("7"),
                            3 => given.list.reverse(),
                            4 => given.last = Some(0),
                            // Nodes need not agree on what only one of them makes.
                            _ => return ShardLaunch::from_fn(move || given),
                        }
                        if how == 5 { ShardLaunch::from_fn(move || given) } else { ShardLaunch::new(given) }
                    })?
                    .all()
                    .await
                    .map(drop)
                }
            });
            if how == 0 || how == 5 {
                assert_eq!(outcome, Ok(()), "{at}");
                continue;
            }
            let e = outcome.expect_err(&at);
            let Error::Divergence { call: 2, expected, came, .. } = &e else { panic!("{at}: {e}") };
            let words = format!(
                "launch of task `given` on gang `all` with []; the argument and the requirements of {named} have"
            );
            assert!(expected.starts_with(&words) && came.starts_with(&words) && expected != came, "{at}: {e}");
        }
    }
}

/// A `HashMap` has an order of its own in each process.
#[test]
fn keys_of_a_hash_map_are_not_dealt_out() {
    const ALIKE: u32 = 7;
    let test = "replicas::keys_of_a_hash_map_are_not_dealt_out";
    let say = |text: String| std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).expect("written");
    let all = on_processes(test, &[(2, 1), (2, 2), (3, 1)], |runtime| {
        let map: HashMap<u32, ()> = (ALIKE..40).map(|i| (i, ())).collect();
        let keys: Vec<u32> = (0..ALIKE).chain(map.into_keys()).collect();
        say(format!("keys: {keys:?}\n"));
        let outcome = runtime.run(move |top| {
            let keys = keys.clone();
            async move {
                let (gang, task) = (top.gang("all", 40)?, top.register("key", |_, key: u32| async move { Ok(key) }));
                top.launch_gang(&gang, &task, |s| ShardLaunch::new(keys[s as usize]))?.all().await
            }
        });
        let e = outcome.map(|(keys, _)| keys).expect_err("orders differ");
        let Error::Divergence { expected, came, .. } = e else { panic!("{e}") };
        assert!(expected.starts_with("launch of task `key` on gang `all`"), "{expected}");
        let shard = |side: &str| {
            let (_, rest) = side.split_once("; the argument and the requirements of shard ").expect("a shard");
            rest.split_once(' ').expect("a number").0.parse::<u32>().expect("a number")
        };
        assert_eq!(shard(&expected), shard(&came));
        if Runtime::process_number() == 0 {
            say(format!("named: {}\n", shard(&came)));
        }
    });
    for said in all {
        let keys =
            |line: &str| line.split_once("keys: [").map(|(_, keys)| keys.split(", ").map(str::to_string).collect());
        let lists: Vec<Vec<String>> = said.lines().filter_map(keys).collect();
        let named = said.lines().find_map(|line| line.split_once("named: ")).expect("named").1;
        let shard: usize = named.parse().expect("a number");
        // Any two processes that differ may be named, and whose list is whose is not known.
        let differ = |a: &[String], b: &[String]| a[..shard] == b[..shard] && a[shard] != b[shard];
        let first = lists.iter().any(|a| lists.iter().any(|b| differ(a, b)));
        assert!(first && shard >= ALIKE as usize, "shard {shard} is not the first to differ:\n{said}");
    }
}

/// A mapper that is no function of its input places the shards of one gang here or there.
#[test]
fn a_mapper_that_answers_nodes_differently_is_found() {
    struct Moody(AtomicU32);
    impl Mapper for Moody {
        fn name(&self) -> &str {
            "moody"
        }
        fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
            let asked = self.0.fetch_add(1, Ordering::Relaxed);
            Placement::Explicit((0..input.shards).map(|s| ProcessorId((s + asked / 2) % 2)).collect())
        }
    }
    let runtime = Runtime::seeded(3, 1)
        .mapper(Arc::new(Moody(AtomicU32::new(0))) as Arc<dyn Mapper>)
        .check(Check::ControlReplication);
    let e = run("moody", &runtime, |top| program(top, Odd::Nothing)).expect_err("placed differently");
    let Error::Divergence { call: 1, expected, came, .. } = &e else { panic!("{e}") };
    // The node that asks last gets the other answer.
    let said = |one: &str, other: &str| expected.contains(one) && came.contains(other);
    let (two, last) = ("on processors [0, 1, 0, 1]", "on processors [1, 0, 1, 0]");
    assert!(said(two, last) || said(last, two), "{e}");
}

/// So is one that gives a shared region a home here or there.
#[test]
fn a_mapper_that_gives_a_region_two_homes_is_found() {
    struct Moody(AtomicU32);
    impl Mapper for Moody {
        fn name(&self) -> &str {
            "moody"
        }
        fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
            Placement::Explicit((0..input.shards).map(|s| ProcessorId(s % 2)).collect())
        }
        fn place_shared(&self, _: &PlaceSharedInput<'_>) -> ProcessorId {
            ProcessorId(u32::from(self.0.fetch_add(1, Ordering::Relaxed) == 2))
        }
    }
    for seed in 0..20 {
        let moody = Arc::new(Moody(AtomicU32::new(0))) as Arc<dyn Mapper>;
        let runtime = Runtime::seeded(3, seed).mapper(moody).check(Check::ControlReplication);
        let e = run("moody", &runtime, |top| program(top, Odd::Nothing)).expect_err("two homes");
        let Error::Divergence { call: 7 | 8, expected, came, .. } = &e else { panic!("seed {seed}: {e}") };
        let mut both = [expected, came].map(|call| call.contains("at home on processor 1"));
        both.sort_unstable();
        assert_eq!(both, [false, true], "seed {seed}: {e}");
    }
}

/// The nodes learn one after the other what an inner task has written, until the program awaits it. All nodes give up the
/// same instances nevertheless: each asks the mapper as often about one that is used again.
#[test]
fn nodes_give_up_the_same_instances_while_an_inner_task_ends() {
    #[derive(Default)]
    struct Asked(Mutex<HashMap<(Rect, ProcessorId), u32>>);
    impl Mapper for Asked {
        fn name(&self) -> &str {
            "asked"
        }
        fn keep_instance(&self, input: &KeepInput<'_>) -> bool {
            *self.0.lock().expect("no panic").entry((input.region.rect, input.processor)).or_default() += 1;
            false
        }
    }
    async fn set(shard: Shard, mine: Option<Region>) -> Result<(), Error> {
        let Some(region) = mine else { return Ok(()) };
        shard.launch(|mut u: Write<f64>| u.fill(1.0), (shard.region(region)?.write(U),)).go()?.await
    }
    let of = |owner: u32, region: Region| {
        move |s: u32| {
            let launch = ShardLaunch::new((s == owner).then_some(region));
            if s == owner { launch.writes(region, [U]) } else { launch }
        }
    };
    for seed in 0..60 {
        let asked = Arc::new(Asked::default());
        let runtime = Runtime::seeded(NODES, seed).mapper(asked.clone() as Arc<dyn Mapper>);
        let outcome = run(&format!("seed {seed}"), &runtime, move |top| async move {
            let line = top.region_tree("line", Rect::line(0, 8), &[U.info()])?;
            let [left, right] = [0, 4].map(|lo| Region::new(line.tree, Rect::line(lo, lo + 4)));
            let (gang, inner) = (top.gang("gang", NODES)?, top.gang("of the inner task", NODES)?);
            let set = top.register("set", set);
            let parent = top.register_inner("parent", move |p: InnerTask, mine: Option<Region>| async move {
                let Some(region) = mine else { return Ok(()) };
                p.launch_gang(&inner, &set, of(2, region)).await?.all().await?;
                Ok(())
            });
            top.launch_gang(&gang, &set, of(0, left))?.all().await?;
            let runs = top.launch_gang(&gang, &parent, of(1, left))?;
            // Until then some nodes may know, and others not.
            for _ in 0..=seed % 4 {
                top.launch_gang(&gang, &set, of(0, right))?.all().await?;
            }
            runs.all().await?;
            top.launch_gang(&gang, &set, of(1, left))?.all().await
        });
        assert_eq!(outcome.map(|_| ()), Ok(()), "seed {seed}");
        let asked = asked.0.lock().expect("no panic");
        assert!(asked.values().all(|times| times % NODES == 0), "seed {seed}: {asked:?}");
    }
}

/// Nodes that fail at the same place, each with an error of its own wording, do not diverge.
#[test]
fn nodes_that_fail_alike_do_the_same() {
    for seed in 0..50 {
        let runtime = Runtime::seeded(3, seed)
            .mapper(Arc::new(CollectiveMapper) as Arc<dyn Mapper>)
            .check(Check::ControlReplication);
        let begun = AtomicU32::new(0);
        let outcome = watched("failing", || {
            runtime.run(move |top| {
                let me = begun.fetch_add(1, Ordering::Relaxed);
                async move {
                    let (gang, task) = (top.gang("all", 2)?, top.register("nothing", nothing));
                    top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await?;
                    Err::<(), _>(Error::user(format!("node {me} has had enough")))
                }
            })
        });
        assert_eq!(outcome.map(|_| ()), Err(Error::user("node 0 has had enough")));
    }
}
