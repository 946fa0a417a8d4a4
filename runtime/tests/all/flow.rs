//! Leaf tasks of the top-level task: random flows give the values of a sequential interpreter, on any number of nodes.

use crate::common::{processes, watched};
use maniple_mapper::{Mapper, NodeId, PlaceTaskInput, Priority, ProcessorId};
use maniple_regions::{Field, Read, ReadWrite, Rect, Region, Write};
use maniple_runtime::{
    Arg, Check, Error, Faults, Link, ProcessorLoss, Runtime, Shard, ShardLaunch, TaskFuture, Top, VirtualMachine,
};
use std::sync::{Arc, Mutex};

const U: Field<u64> = Field::new(0, "u");
const POINTS: i64 = 24;

/// A step of a flow, on ranges of points.
#[derive(Debug, Clone)]
enum Step {
    Fill {
        into: (i64, i64),
        with: u64,
    },
    /// In a flow with failures it fails for some first values.
    Double {
        at: (i64, i64),
        fails: bool,
    },
    /// Adds a hash of all values of one or two ranges to each point of another.
    Mix {
        from: Vec<(i64, i64)>,
        into: (i64, i64),
    },
    /// A gang of shards adds to its blocks what a range holds.
    Gang {
        from: (i64, i64),
        into: Vec<(i64, i64)>,
    },
    /// Copies a range to another one.
    Copy {
        from: (i64, i64),
        into: (i64, i64),
    },
    /// Each point adds its number to its own range.
    Index {
        parts: Vec<(i64, i64)>,
    },
    Window(u32),
    Done,
    /// Awaits the hash of a range, which the task `number` reads.
    Await {
        from: (i64, i64),
    },
}

impl Step {
    /// The same step where each point is `scale` points.
    fn scaled(self, scale: i64) -> Self {
        let of = |(lo, hi): (i64, i64)| (lo * scale, hi * scale);
        let all = |ranges: Vec<(i64, i64)>| ranges.into_iter().map(of).collect();
        match self {
            Step::Fill { into, with } => Step::Fill { into: of(into), with },
            Step::Double { at, fails } => Step::Double { at: of(at), fails },
            Step::Mix { from, into } => Step::Mix { from: all(from), into: of(into) },
            Step::Gang { from, into } => Step::Gang { from: of(from), into: all(into) },
            Step::Copy { from, into } => Step::Copy { from: of(from), into: of(into) },
            Step::Index { parts } => Step::Index { parts: all(parts) },
            Step::Await { from } => Step::Await { from: of(from) },
            other @ (Step::Window(_) | Step::Done) => other,
        }
    }
}

/// A task step with where it runs, if the program says so, and its priority.
type Placed = (Step, Option<u32>, u8);

fn overlap(a: (i64, i64), b: (i64, i64)) -> bool {
    a.0.max(b.0) < a.1.min(b.1)
}

fn drawn(random: &mut fastrand::Rng, nodes: u32, fails: bool) -> Vec<Placed> {
    let range = |random: &mut fastrand::Rng| {
        // Tiles more often than other ranges, and some that are empty.
        let lo = random.i64(0..POINTS);
        match random.u32(0..10) {
            0 => (lo, lo),
            1..=3 => (lo, random.i64(lo..POINTS) + 1),
            _ => (lo / 4 * 4, lo / 4 * 4 + 4),
        }
    };
    let apart = |random: &mut fastrand::Rng, from: &[(i64, i64)]| loop {
        let into = range(random);
        if !from.iter().any(|f| overlap(*f, into)) {
            return into;
        }
    };
    let step = |random: &mut fastrand::Rng| match random.u32(0..26) {
        0..=2 => Step::Fill { into: range(random), with: random.u64(..) },
        3..=5 => Step::Double { at: range(random), fails },
        6 => Step::Window(random.u32(0..6)),
        7 if random.bool() => Step::Done,
        8 => {
            let from = (8, 12);
            let blocks = [(0, 4), (4, 8), (12, 20)];
            Step::Gang { from, into: blocks[random.usize(0..3)..].to_vec() }
        }
        9 => Step::Await { from: range(random) },
        22 | 23 => {
            let (from, into) = (random.i64(0..POINTS / 4), random.i64(0..POINTS / 4 - 1));
            let (from, into) = (4 * from, 4 * (into + i64::from(into >= from)));
            let length = random.i64(0..5);
            Step::Copy { from: (from, from + length), into: (into, into + length) }
        }
        24 | 25 => {
            let first = random.i64(0..POINTS / 4);
            let last = random.i64(first..=POINTS / 4);
            Step::Index { parts: (first..last).map(|tile| (4 * tile, 4 * tile + 4)).collect() }
        }
        _ => {
            let from: Vec<_> = (0..random.usize(1..3)).map(|_| range(random)).filter(|r| r.1 - r.0 < 12).collect();
            let into = apart(random, &from);
            Step::Mix { from, into }
        }
    };
    let steps = random.usize(1..60);
    (0..steps)
        .map(|_| {
            let on = (random.u32(0..3) == 0).then(|| random.u32(0..nodes));
            (step(random), on, random.u8(0..8))
        })
        .collect()
}

fn hash(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(7, |h, v| (h ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17))
}

/// Whether a task that may fail does so.
fn is_bad(values: &[u64]) -> bool {
    values.first().is_some_and(|v| v % 3 == 0)
}

fn at(range: (i64, i64)) -> std::ops::Range<usize> {
    range.0 as usize..range.1 as usize
}

/// What was awaited, and the values of each tile at the end. `None` is what failed.
type Outcome = (Vec<Option<u64>>, Vec<Option<Vec<u64>>>);

/// What a sequential run gives. A task that fails leaves no values where it writes.
fn interpreted(steps: &[Placed], scale: i64) -> Outcome {
    let (mut values, mut awaited) = (vec![Some(0u64); (POINTS * scale) as usize], Vec::new());
    let read = |values: &[Option<u64>], r: (i64, i64)| values[at(r)].iter().copied().collect::<Option<Vec<u64>>>();
    for (step, ..) in steps {
        match step {
            Step::Fill { into, with } => values[at(*into)].fill(Some(*with)),
            Step::Double { at: range, fails } => {
                let old = read(&values, *range).filter(|old| !fails || !is_bad(old));
                values[at(*range)].iter_mut().for_each(|v| *v = old.as_ref().and(*v).map(|v| v.wrapping_mul(2) + 1));
            }
            Step::Mix { from, into } => {
                let all: Option<Vec<Vec<u64>>> = from.iter().map(|r| read(&values, *r)).collect();
                let add = all.and_then(|all| read(&values, *into).map(|_| hash(all.concat())));
                values[at(*into)].iter_mut().for_each(|v| *v = add.and_then(|add| Some(v.as_ref()?.wrapping_add(add))));
            }
            Step::Gang { from, into } => {
                let add = read(&values, *from).map(hash);
                for r in into {
                    let add = read(&values, *r).and(add);
                    values[at(*r)]
                        .iter_mut()
                        .for_each(|v| *v = add.and_then(|add| Some(v.as_ref()?.wrapping_add(add))));
                }
            }
            Step::Copy { from, into } => {
                let copied = read(&values, *from);
                let each = (0..).map(|i| copied.as_ref().map(|copied| copied[i]));
                values[at(*into)].iter_mut().zip(each).for_each(|(v, copied)| *v = copied);
            }
            Step::Index { parts } => {
                for (point, part) in (0u64..).zip(parts) {
                    let known = read(&values, *part).is_some();
                    values[at(*part)].iter_mut().for_each(|v| *v = v.filter(|_| known).map(|v| v.wrapping_add(point)));
                }
            }
            Step::Window(_) | Step::Done => {}
            Step::Await { from } => awaited.push(read(&values, *from).map(hash)),
        }
    }
    (awaited, (0..POINTS / 4).map(|tile| read(&values, (4 * scale * tile, 4 * scale * (tile + 1)))).collect())
}

async fn gang_step(shard: Shard, (from, into): (Region, Region)) -> Result<(), Error> {
    let (from, into) = (shard.region(from)?, shard.region(into)?);
    let add = |from: Read<u64>, mut into: ReadWrite<u64>| {
        let add = hash(from.as_slice().iter().copied());
        into.as_mut_slice().iter_mut().for_each(|v| *v = v.wrapping_add(add));
    };
    shard.launch(add, (from.read(U), into.read_write(U))).go()?.await
}

async fn flow(top: Top, (steps, scale): (Vec<Placed>, i64), fails: bool) -> Result<Outcome, Error> {
    let line = top.region_tree("line", Rect::line(0, POINTS * scale), &[U.info()])?;
    let part = |r: (i64, i64)| Region::new(line.tree, Rect::line(r.0, r.1));
    let gang = top.gang("gang", 3)?;
    let add = top.register("add", gang_step);
    let mut awaited = Vec::new();
    for (step, on, priority) in steps {
        // One launch for each kind of step, placed and with a priority.
        macro_rules! launched {
            ($launch:expr) => {{
                let launch = $launch.priority(Priority(priority));
                let launch = match on {
                    Some(node) => launch.on(NodeId(node)),
                    None => launch,
                };
                launch.go()?
            }};
        }
        match step {
            Step::Fill { into, with } => launched!(top.fill(top.region(part(into))?.write(U), with)).detach(),
            Step::Double { at, fails } => {
                let double = move |mut v: ReadWrite<u64>| {
                    if fails && is_bad(v.as_slice()) {
                        return Err(Error::user("a bad first value"));
                    }
                    v.as_mut_slice().iter_mut().for_each(|v| *v = v.wrapping_mul(2) + 1);
                    Ok(())
                };
                launched!(top.try_launch(double, (top.region(part(at))?.read_write(U),))).detach();
            }
            Step::Mix { from, into } => {
                let from: Vec<_> =
                    from.iter().map(|r| Ok(top.region(part(*r))?.read(U))).collect::<Result<_, Error>>()?;
                let mix = |from: maniple_runtime::Many<Read<u64>>, mut into: ReadWrite<u64>| {
                    let add = hash(from.iter().flat_map(|part| part.as_slice().iter().copied()));
                    into.as_mut_slice().iter_mut().for_each(|v| *v = v.wrapping_add(add));
                };
                let into = top.region(part(into))?.read_write(U);
                launched!(top.launch(mix, (from.into_iter().collect(), into))).detach();
            }
            Step::Gang { from, into } => {
                let start = |s: u32| match into.get(s as usize) {
                    Some(block) => {
                        let (from, block) = (part(from), part(*block));
                        ShardLaunch::new((from, block)).reads(from, [U]).writes(block, [U])
                    }
                    None => ShardLaunch::new((part((0, 0)), part((0, 0))))
                        .reads(part((0, 0)), [U])
                        .writes(part((0, 0)), [U]),
                };
                top.launch_gang(&gang, &add, start)?.detach();
            }
            Step::Copy { from, into } => {
                let (from, into) = (top.region(part(from))?.read(U), top.region(part(into))?.write(U));
                launched!(top.copy(from, into)).detach();
            }
            Step::Index { parts } => {
                let parts = parts.iter().map(|r| top.region(part(*r))).collect::<Result<Vec<_>, _>>()?;
                let add = |mut v: ReadWrite<u64>, point: Arg<u64>| {
                    v.as_mut_slice().iter_mut().for_each(|v| *v = v.wrapping_add(*point));
                };
                let args = |point: usize| (parts[point].read_write(U), (point as u64).into());
                top.index_launch(parts.len(), add, args).priority(Priority(priority)).go()?.detach();
            }
            Step::Window(n) => top.window(n).await,
            Step::Done => match top.done().await {
                Err(e) if fails => assert!(e.to_string().contains("a bad first value"), "{e}"),
                done => done?,
            },
            Step::Await { from } => {
                let read = |v: Read<u64>| hash(v.as_slice().iter().copied());
                let value = launched!(top.launch(read, (top.region(part(from))?.read(U),)));
                // A task of the same node or of another one takes it first.
                let taken = top.launch(|value: Arg<u64>| *value, ((&value).into(),));
                let taken = taken.on(NodeId(u32::from(priority) % top.nodes())).go()?.await.ok();
                let came = value.await;
                assert_eq!(taken.as_ref(), came.as_ref().ok());
                awaited.push(if fails { came.ok() } else { Some(came?) });
            }
        }
    }
    let all = |v: Read<u64>| v.as_slice().to_vec();
    let tile = |tile: i64| part((4 * scale * tile, 4 * scale * (tile + 1)));
    let tiles = (0..POINTS / 4).map(|at| top.launch(all, (top.region(tile(at))?.read(U),)).go());
    let tiles: Vec<_> = tiles.collect::<Result<_, _>>()?;
    // The tasks go on to use it.
    top.destroy(line)?;
    let mut values = Vec::new();
    for came in tiles {
        let came = came.await;
        values.push(if fails { came.ok() } else { Some(came?) });
    }
    // What is not awaited is told here.
    match top.done().await {
        Err(_) if fails => {}
        done => done?,
    }
    Ok((awaited, values))
}

#[test]
fn random_flows_give_the_values_of_an_interpreter() {
    if let Some(all) = processes::runtimes() {
        let (nodes, seeds) = (processes::count(), if processes::is_one() { 10 } else { 40 });
        for (name, runtime) in all {
            (0..seeds).for_each(|seed| check(&name, &runtime, seed, nodes));
        }
        return;
    }
    for seed in 0..600 {
        let mut random = fastrand::Rng::with_seed(seed);
        let nodes = random.u32(1..=9);
        let (runtime, nodes) = match seed % 8 {
            0 => (Runtime::threads(1 + seed as u32 / 8 % 3), 1),
            // Nodes of several processors.
            1 | 2 => {
                let (per_node, one_copy) = (1 + nodes % 3, seed % 16 == 1);
                let utility = u32::from(seed % 3 == 0 && per_node > 1);
                let machine = VirtualMachine {
                    nodes,
                    per_node,
                    one_copy,
                    utility,
                    utility_shares: utility > 0,
                    network: Link { latency_ns: 1000.0, send_ns: 10.0, byte_ns: 0.5, ..Link::default() },
                    sharing: seed % 5 < 2,
                    rendezvous_bytes: (seed / 8 % 2 == 1).then_some(100),
                    ..VirtualMachine::default()
                };
                (Runtime::virtual_time(machine), if one_copy { 1 } else { nodes })
            }
            _ => (Runtime::seeded(nodes, seed), nodes),
        };
        check("", &runtime, seed, nodes);
    }
}

/// Runs one flow.
fn check(name: &str, runtime: &Runtime, seed: u64, nodes: u32) {
    let fails = seed % 5 == 4;
    // Values of thousands of points are taken over where they come, and not copied.
    let scale = if seed % 7 == 3 { 1024 } else { 1 };
    let steps = drawn(&mut fastrand::Rng::with_seed(seed), nodes, fails);
    let steps: Vec<Placed> = steps.into_iter().map(|(step, on, p)| (step.scaled(scale), on, p)).collect();
    let expected = interpreted(&steps, scale);
    let at = format!("{name} seed {seed} on {nodes} nodes");
    let given = steps.clone();
    let outcome = watched(&at, || runtime.run(move |top| flow(top, (given.clone(), scale), fails)));
    let (came, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}\n{steps:?}"));
    assert_eq!(came, expected, "{at}\n{steps:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    processes::bodies_on_processes(
        "flow::on_processes",
        &[("random_flows", random_flows_give_the_values_of_an_interpreter)],
    );
}

/// Points without regions go to the nodes in turn, and points that interfere are refused before any is launched.
#[test]
fn points_of_an_index_launch_are_on_all_nodes() {
    for nodes in 1..5 {
        let outcome = Runtime::seeded(nodes, 1).run(|top| async move {
            let line = top.region_tree("line", Rect::line(0, 2), &[U.info()])?;
            let squares = top.index_launch(10, |x: Arg<u64>| *x * *x, |x| ((x as u64).into(),)).go()?;
            let write = |mut v: Write<u64>| v.fill(1);
            let all = top.region(line)?;
            let refused = top.index_launch(2, write, |_| (all.write(U),));
            let refused = refused.go().err().map(|e| e.to_string());
            let none = top.index_launch(0, |x: Arg<u64>| *x, |x| ((x as u64).into(),)).go()?.all().await?;
            Ok((squares.all().await?, refused, none.len()))
        });
        let ((squares, refused, none), stats) = outcome.unwrap_or_else(|e| panic!("{nodes} nodes: {e}"));
        assert_eq!(squares, (0..10).map(|x| x * x).collect::<Vec<u64>>());
        assert!(refused.as_ref().is_some_and(|e| e.contains("point 0") && e.contains("interfere")), "{refused:?}");
        // Each node knows of the points of all others.
        assert_eq!((none, stats.leaf_tasks, stats.elsewhere), (0, 10, 10 * u64::from(nodes - 1)), "{nodes} nodes");
    }
}

/// A stamp is settled on all nodes, though no copy awaits the task.
#[test]
fn a_stamp_of_a_task_is_settled_on_all_nodes() {
    for nodes in 1..5u32 {
        let (stamps, _) = Runtime::seeded(nodes, 3)
            .run(|top| async move {
                let tasks = top.index_launch(top.nodes() as usize, |x: Arg<u64>| *x, |x| ((x as u64).into(),)).go()?;
                let stamps: Vec<_> = tasks.iter().map(TaskFuture::stamp).collect();
                // Results of a node come in the order of its tasks.
                for node in 0..top.nodes() {
                    top.launch(|| (), ()).on(NodeId(node)).go()?.await?;
                }
                Ok(stamps.iter().filter(|stamp| stamp.at().is_some()).count())
            })
            .unwrap_or_else(|e| panic!("{nodes} nodes: {e}"));
        assert_eq!(stamps, nodes as usize);
    }
}

/// A mapper that runs a task where most of its data is, and says on which node that was.
struct ByBytes(Mutex<Vec<NodeId>>);

impl Mapper for ByBytes {
    fn name(&self) -> &str {
        "by bytes"
    }

    fn place_task(&self, input: &PlaceTaskInput<'_>) -> NodeId {
        let mut bytes = vec![0; input.nodes as usize];
        for of in input.requirements.iter() {
            bytes[input.machine.node_of(input.machine.owner(of.memory).0).index()] += of.bytes;
        }
        let most = (0..input.nodes).max_by_key(|node| bytes[*node as usize]).map(NodeId);
        self.0.lock().expect("no panic").extend(most.filter(|_| input.task == "sum"));
        most.unwrap_or(input.node)
    }
}

#[test]
fn a_mapper_is_told_where_the_data_of_a_task_is() {
    let mapper = Arc::new(ByBytes(Mutex::default()));
    let outcome = Runtime::seeded(3, 1).mapper(mapper.clone()).run(|top| async move {
        let line = top.region_tree("line", Rect::line(0, 12), &[U.info()])?;
        let part = |lo, hi| top.region(Region::new(line.tree, Rect::line(lo, hi)));
        let parts = [part(0, 2)?, part(2, 5)?, part(5, 12)?];
        for (node, part) in (0..).zip(&parts) {
            top.fill(part.write(U), 1).on(NodeId(2 - node)).go()?.detach();
        }
        let sum = |a: Read<u64>, b: Read<u64>, mut c: ReadWrite<u64>| {
            c.as_mut_slice()[0] += a.as_slice()[0] + b.as_slice()[0]
        };
        let [a, b, c] = &parts;
        for (a, b, c) in [(a, b, c), (c, b, a), (c, a, b), (b, c, a)] {
            top.launch(sum, (a.read(U), b.read(U), c.read_write(U))).named("sum").go()?.detach();
        }
        top.done().await
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    let asked = std::mem::take(&mut *mapper.0.lock().expect("no panic"));
    // Each node's copy asks. The largest part is on node 0 from the beginning, and the others move there.
    assert_eq!(asked, vec![NodeId(0); 12]);
}

/// The failure of a task comes before what follows from it, on whatever node that was.
#[test]
fn a_flow_ends_with_the_failure_that_follows_from_no_other() {
    for (nodes, is_done) in (1..5).flat_map(|nodes| [(nodes, false), (nodes, true)]) {
        let error = Runtime::seeded(nodes, 1).run(move |top| async move {
            let x = top.region(top.region_tree("x", Rect::line(0, 4), &[U.info()])?)?;
            let fails = |_: ReadWrite<u64>| -> Result<(), Error> { Err(Error::user("no luck")) };
            let first = top.try_launch(fails, (x.read_write(U),)).named("unlucky");
            first.on(NodeId(top.nodes() - 1)).go()?.detach();
            for node in 0..top.nodes() {
                let add = |mut x: ReadWrite<u64>| x.as_mut_slice()[0] += 1;
                top.launch(add, (x.read_write(U),)).named("after").on(NodeId(node)).go()?.detach();
            }
            if is_done { top.done().await } else { Ok(()) }
        });
        let error = error.expect_err("a task fails").to_string();
        assert_eq!(error, "task `unlucky` failed: no luck", "{nodes} nodes, done {is_done}");
    }
}

/// A task that fails stops what depends on its data, on all nodes, and nothing else.
#[test]
fn a_failure_spreads_to_what_depends_on_it() {
    for nodes in 1..5 {
        for seed in 0..20 {
            let runtime = Runtime::seeded(nodes, seed);
            let (texts, _) = runtime
                .run(move |top| async move {
                    let line = top.region_tree("line", Rect::line(0, 8), &[U.info()])?;
                    let part = |lo| top.region(Region::new(line.tree, Rect::line(lo, lo + 2)));
                    let (a, b, c) = (part(0)?, part(2)?, part(4)?);
                    let on = |node: u32| NodeId(node % top.processors());
                    let fails = |v: Write<u64>| assert!(v.is_empty(), "broken");
                    top.launch(fails, (a.write(U),)).on(on(0)).go()?.detach();
                    let copy = |from: Read<u64>, mut into: Write<u64>| into.copy_from_slice(from.as_slice());
                    top.launch(copy, (a.read(U), b.write(U))).on(on(1)).go()?.detach();
                    top.fill(c.write(U), 5).on(on(2)).go()?.detach();
                    let read = |v: Read<u64>| v.as_slice()[0];
                    let of_b = top.launch(read, (b.read(U),)).on(on(2)).go()?.await;
                    let of_c = top.launch(read, (c.read(U),)).on(on(0)).go()?.await?;
                    assert_eq!(of_c, 5);
                    top.fill(a.write(U), 6).on(on(1)).go()?.detach();
                    let of_a = top.launch(read, (a.read(U),)).on(on(2)).go()?.await?;
                    assert_eq!(of_a, 6);
                    let done = top.done().await;
                    Ok((of_b.err().map(|e| e.to_string()), done.err().map(|e| e.to_string())))
                })
                .unwrap_or_else(|e| panic!("{nodes} nodes, seed {seed}: {e}"));
            assert!(
                texts.0.as_ref().is_some_and(|text| text.contains("broken")),
                "{nodes} nodes, seed {seed}: {texts:?}"
            );
        }
    }
}

/// One tile goes to all other nodes. Each gets it once, however many tasks there read it, and most get it from each other.
#[test]
fn values_that_several_nodes_need_are_sent_once() {
    for nodes in 2..12u32 {
        let (sums, stats) = Runtime::seeded(nodes, u64::from(nodes))
            .run(move |top| async move {
                let line = top.region_tree("line", Rect::line(0, 2 * i64::from(nodes)), &[U.info()])?;
                let part = |lo: u32| top.region(Region::new(line.tree, Rect::line(lo.into(), i64::from(lo) + 1)));
                let tile = part(0)?;
                top.fill(tile.write(U), 5).on(NodeId(0)).go()?.detach();
                let add = |tile: Read<u64>, again: Read<u64>, mut own: ReadWrite<u64>| {
                    own.as_mut_slice()[0] += tile.as_slice()[0] + again.as_slice()[0];
                };
                for round in 0..2 {
                    for node in 1..nodes {
                        let own = part(node + round * nodes)?;
                        top.launch(add, (tile.read(U), tile.read(U), own.read_write(U)))
                            .on(NodeId(node))
                            .go()?
                            .detach();
                    }
                }
                top.done().await?;
                top.fill(tile.write(U), 6).on(NodeId(0)).go()?.detach();
                let read = |tile: Read<u64>| tile.as_slice()[0];
                top.launch(read, (tile.read(U),)).on(NodeId(nodes - 1)).go()?.await
            })
            .unwrap_or_else(|e| panic!("{nodes} nodes: {e}"));
        assert_eq!(sums, 6);
        // The second value goes to one node.
        assert_eq!((stats.sends, stats.recipients), (2, u64::from(nodes)), "{nodes} nodes");
        let by_root = u32::BITS - (nodes - 1).leading_zeros();
        assert_eq!(stats.forwards, u64::from(nodes - 1 - by_root), "{nodes} nodes");
    }
}

/// A tile goes to all nodes, again and again, until one of them is lost, be it the writer, a forwarder or another. Every other
/// node's copy of the program ends with this cause.
#[test]
fn all_nodes_learn_that_one_is_lost_which_forwards() {
    for (nodes, step) in [(5u32, 7), (8, 11)] {
        for (lost, at) in (0..nodes).flat_map(|lost| (0..400).step_by(step).map(move |at| (ProcessorId(lost), at))) {
            let faults = Faults { losses: vec![ProcessorLoss { processor: lost, step: at }], ..Faults::default() };
            let runtime = Runtime::seeded(nodes, u64::from(lost.0) + at).faults(faults);
            let ended = Arc::new(Mutex::new(Vec::new()));
            let ends = ended.clone();
            let outcome = watched(&format!("{lost} of {nodes} is lost at {at}"), || {
                let ends = ends.clone();
                runtime.run(move |top| {
                    let ends = ends.clone();
                    async move {
                        let ended = rounds(&top).await;
                        ends.lock().expect("nobody panics").push(ended.clone().map_err(|e| e.to_string()));
                        ended
                    }
                })
            });
            let error = outcome.expect_err("it goes on until one is lost").to_string();
            let cause = format!("processor {lost} was lost");
            assert!(error.contains(&cause), "{nodes} nodes: {error}");
            let ended = ended.lock().expect("nobody panics");
            let told = ended.iter().filter(|end| matches!(end, Err(e) if e.contains(&cause))).count();
            assert_eq!((told, ended.len()), (nodes as usize - 1, nodes as usize - 1), "{nodes} nodes: {ended:?}");
        }
    }
}

/// Sends a tile from the first node to all others, and sums from them to the first, without end.
async fn rounds(top: &Top) -> Result<(), Error> {
    let line = top.region_tree("line", Rect::line(0, top.nodes().into()), &[U.info()])?;
    let part = |lo: u32| top.region(Region::new(line.tree, Rect::line(lo.into(), i64::from(lo) + 1)));
    let parts: Vec<_> = (0..top.nodes()).map(part).collect::<Result<_, _>>()?;
    for round in 0.. {
        top.fill(parts[0].write(U), round).on(NodeId(0)).go()?.detach();
        let add = |tile: Read<u64>, mut own: ReadWrite<u64>| own.as_mut_slice()[0] += tile.as_slice()[0];
        for node in 1..top.nodes() {
            let own = &parts[node as usize];
            top.launch(add, (parts[0].read(U), own.read_write(U))).on(NodeId(node)).go()?.detach();
        }
        top.window(8).await;
        if round % 4 == 3 {
            top.done().await?;
        }
    }
    Ok(())
}

/// The report of a deadlock says what a receive waits for, and from whom.
#[test]
fn a_deadlock_names_values_that_do_not_come() {
    let error = Runtime::seeded(2, 1)
        .run(|top| async move {
            let line = top.region_tree("line", Rect::line(0, 2), &[U.info()])?;
            let tile = top.region(line)?;
            let (_resolver, never) = TaskFuture::<u64>::pending();
            let set = |mut tile: Write<u64>, value: Arg<u64>| tile.fill(*value);
            top.launch(set, (tile.write(U), (&never).into())).named("set").on(NodeId(0)).go()?.detach();
            let read = |tile: Read<u64>| tile.as_slice()[0];
            top.launch(read, (tile.read(U),)).named("read").on(NodeId(1)).go()?.await
        })
        .expect_err("nobody settles the future")
        .to_string();
    let tile = "of field `u` on [0, 2) of region tree `line`";
    for words in [
        format!("`read` waits for the receive {tile}, launch 1 of `top level`"),
        format!("receive {tile}, launch 1 of `top level` waits for processor 0"),
        format!("send {tile} to processor 1, launch 1 of `top level` waits for what comes before it"),
        "`set` waits for 1 earlier task or input".into(),
    ] {
        assert!(error.contains(&words), "no `{words}` in: {error}");
    }
    // One line each, and each below the one that waits for it.
    let lines: Vec<&str> = error.lines().skip(1).collect();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let read = lines.iter().position(|line| line.contains("`read` waits")).expect("there");
    assert!(lines[read..read + 4].windows(2).all(|two| depth(two[0]) < depth(two[1])), "{error}");
    assert_eq!(
        lines.iter().filter(|line| line.contains("the receive") || line.contains("of field")).count(),
        3,
        "{error}"
    );
}

/// A send that waits for a gang says so, and not for whom there is no name.
#[test]
fn a_deadlock_names_a_gang_that_has_not_ended() {
    async fn stuck(shard: Shard, _: Region) -> Result<(), Error> {
        let (_resolver, never) = TaskFuture::<()>::pending();
        let _ = shard.index();
        never.await
    }
    let error = Runtime::seeded(2, 1)
        .run(|top| async move {
            let line = top.region_tree("line", Rect::line(0, 2), &[U.info()])?;
            let (gang, task) = (top.gang("one", 1)?, top.register("stuck", stuck));
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(line).writes(line, [U]))?.detach();
            let read = |tile: Read<u64>| tile.as_slice()[0];
            top.launch(read, (top.region(line)?.read(U),)).named("read").on(NodeId(1)).go()?.await
        })
        .expect_err("the shard never ends")
        .to_string();
    for words in [
        "`read` waits for the receive of field `u`",
        "waits for processor 0",
        "task `stuck` of shard 0 waits for a future",
    ] {
        assert!(error.contains(words), "no `{words}` in: {error}");
    }
    assert!(!error.contains("a leaf task") && !error.contains("earlier task"), "{error}");
}

/// No copy gets more than two windows ahead of the slowest: the tasks that a fast node has run, while a slow one runs its first,
/// are no more than that.
#[test]
fn windows_keep_nodes_together() {
    use std::sync::atomic::{AtomicU32, Ordering};
    const WINDOW: u32 = 8;
    for nodes in 2..6u32 {
        for seed in 0..10 {
            let (slow, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let (of_slow, ahead) = (slow.clone(), most.clone());
            Runtime::seeded(nodes, seed)
                .run(move |top| {
                    let (slow, most) = (of_slow.clone(), ahead.clone());
                    async move {
                        let line = top.region_tree("line", Rect::line(0, nodes.into()), &[U.info()])?;
                        let part =
                            |lo: u32| top.region(Region::new(line.tree, Rect::line(lo.into(), i64::from(lo) + 1)));
                        let parts: Vec<_> = (0..nodes).map(part).collect::<Result<_, _>>()?;
                        for step in 0..40 * WINDOW {
                            let node = step % nodes;
                            let (slow, most) = (slow.clone(), most.clone());
                            let run = move |mut u: ReadWrite<u64>| {
                                u.as_mut_slice()[0] += 1;
                                match node {
                                    0 => slow.store(step, Ordering::Relaxed),
                                    _ => {
                                        let behind = step.saturating_sub(slow.load(Ordering::Relaxed));
                                        most.fetch_max(behind, Ordering::Relaxed);
                                    }
                                }
                            };
                            top.launch(run, (parts[node as usize].read_write(U),)).on(NodeId(node)).go()?.detach();
                            top.window(WINDOW).await;
                        }
                        top.done().await
                    }
                })
                .unwrap_or_else(|e| panic!("{nodes} nodes, seed {seed}: {e}"));
            // The slow node may have as many tasks to run itself as a window has.
            let most = most.load(Ordering::Relaxed);
            assert!(most <= 2 * WINDOW + nodes * WINDOW + 2, "{nodes} nodes, seed {seed}: {most} tasks ahead");
        }
    }
}

/// Copies that launch different tasks are found out, also where only hashes are compared.
#[test]
fn copies_that_launch_other_tasks_are_found_out() {
    for check in [false, true] {
        let runtime = Runtime::seeded(3, 1);
        let runtime = if check { runtime.check(Check::ControlReplication) } else { runtime };
        let error = runtime
            .run(|top| async move {
                let line = top.region_tree("line", Rect::line(0, 8), &[U.info()])?;
                let copy = COPIES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let lo = i64::from(copy == 1);
                let part = top.region(Region::new(line.tree, Rect::line(lo, 4)))?;
                top.fill(part.write(U), 1).on(NodeId(0)).go()?.detach();
                top.done().await
            })
            .expect_err("one copy fills less");
        assert!(matches!(error.origin(), Error::Divergence { .. }), "{error}");
        COPIES.store(0, std::sync::atomic::Ordering::Relaxed);
    }
}

static COPIES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// The copy of the top-level task is on a utility processor where its node has one, and the tasks run on the others.
#[test]
fn a_flow_on_nodes_with_utility_processors() {
    let machine = VirtualMachine { nodes: 3, per_node: 4, utility: 1, ..VirtualMachine::default() };
    for (at, runtime) in [("threads", Runtime::threads(3).utility(1)), ("virtual", Runtime::virtual_time(machine))] {
        for seed in 0..20 {
            check(at, &runtime, seed, if at == "threads" { 1 } else { 3 });
        }
    }
}
