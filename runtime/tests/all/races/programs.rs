//! Random programs against the transitive closure of their graphs.

use super::{U, sides};
use crate::common::unordered::{Side, unordered};
use crate::common::{mix, run};
use fastrand::Rng;
use maniple_regions::{Partition, Privilege, Read, ReadShared, ReadWrite, ReadWriteShared, Rect, Region};
use maniple_runtime::{
    Arg, Check, Error, Input, PhaseBarrier, PhaseOptions, RacingAccess, Runtime, Shard, ShardLaunch, TaskFuture,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// One step of a shard.
#[derive(Debug, Clone)]
enum Step {
    Leaf(Leaf),
    /// Awaits its leaf of this number.
    Await(usize),
    Wait(usize),
    Arrive(usize),
}

#[derive(Debug, Clone)]
struct Leaf {
    /// Shared cells.
    cells: (i64, i64),
    writes: bool,
    /// Whether it uses the shard's own region too, and then in the same way.
    own: bool,
    waits: Option<usize>,
    arrives: Option<usize>,
    /// An earlier leaf of the shard.
    input: Option<usize>,
}

#[derive(Debug, Clone)]
struct Program {
    shards: u32,
    arrivers: Vec<Vec<u32>>,
    scripts: Vec<Vec<Step>>,
}

const CELLS: i64 = 6;

/// A program that the order in which its steps are drawn gets through.
fn random(seed: u64) -> Program {
    let r = &mut Rng::with_seed(mix(seed));
    let shards = r.u32(1..=4);
    let arrivers: Vec<Vec<u32>> = (0..r.usize(1..=4))
        .map(|_| {
            let mut all: Vec<u32> = (0..shards).collect();
            r.shuffle(&mut all);
            all.truncate(r.usize(1..=2.min(all.len())));
            all
        })
        .collect();
    let table = || vec![vec![0u64; shards as usize]; arrivers.len()];
    let (mut arrived, mut waited) = (table(), table());
    let mut leaves = vec![0usize; shards as usize];
    let mut scripts = vec![Vec::new(); shards as usize];
    let eager = r.bool();
    for _ in 0..r.usize(2..=14) {
        let s = r.usize(0..shards as usize);
        let (to_wait, to_arrive) = (r.usize(0..arrivers.len()), r.usize(0..arrivers.len()));
        let over = |arrived: &[Vec<u64>], b: usize| arrivers[b].iter().map(|&a| arrived[b][a as usize]).min();
        let mut may_wait = |arrived: &[Vec<u64>]| {
            let may = Some(waited[to_wait][s]) < over(arrived, to_wait);
            waited[to_wait][s] += u64::from(may);
            may.then_some(to_wait)
        };
        let may_arrive = |arrived: &mut [Vec<u64>]| {
            let may = arrivers[to_arrive].contains(&(s as u32));
            arrived[to_arrive][s] += u64::from(may);
            may.then_some(to_arrive)
        };
        let earlier = |r: &mut Rng, n: usize| (n > 0).then(|| r.usize(0..n));
        let step = match r.u32(0..10) {
            0 => earlier(r, leaves[s]).map(Step::Await),
            1 => may_wait(&arrived).map(Step::Wait),
            2 => may_arrive(&mut arrived).map(Step::Arrive),
            _ => {
                let lo = r.i64(0..CELLS);
                let waits = if eager || r.bool() { may_wait(&arrived) } else { None };
                let arrives = if eager || r.bool() { may_arrive(&mut arrived) } else { None };
                let input = if r.bool() { earlier(r, leaves[s]) } else { None };
                leaves[s] += 1;
                let cells = (lo, r.i64(lo + 1..=(lo + 2).min(CELLS)));
                Some(Step::Leaf(Leaf { cells, writes: r.bool(), own: r.u32(0..3) == 0, waits, arrives, input }))
            }
        };
        scripts[s].extend(step);
    }
    Program { shards, arrivers, scripts }
}

fn look(shared: ReadShared<i64>, _: Arg<i64>) -> i64 {
    shared.rect().lo(0)
}
fn change(mut shared: ReadWriteShared<i64>, _: Arg<i64>) -> i64 {
    shared.fill(1);
    1
}
fn look_own(shared: ReadShared<i64>, own: Read<i64>, _: Arg<i64>) -> i64 {
    shared.rect().lo(0) + own.as_slice()[0]
}
fn change_own(mut shared: ReadWriteShared<i64>, mut own: ReadWrite<i64>, _: Arg<i64>) -> i64 {
    shared.fill(1);
    own.as_mut_slice()[0] += 1;
    1
}

/// The pairs of leaves that nothing orders, by the closure of the program's graph.
fn expected(program: &Program) -> HashSet<(Side, Side)> {
    // Nodes: each step of each shard; a leaf is another node than the step that launches it.
    let mut nodes = 0;
    let mut edges: Vec<(usize, usize)> = Vec::new();
    let mut leaves: Vec<(Side, usize)> = Vec::new();
    // For each barrier, who arrives for which generation, and who waits for which.
    let mut arrivals: Vec<Vec<(u64, usize)>> = vec![Vec::new(); program.arrivers.len()];
    let mut waits = arrivals.clone();
    for (s, script) in (0u32..).zip(&program.scripts) {
        let (mut last, mut own): (Option<usize>, Vec<(bool, usize)>) = (None, Vec::new());
        let mut of_shard: Vec<usize> = Vec::new();
        let mut counts = vec![(0, 0); program.arrivers.len()];
        for step in script {
            let point = nodes;
            nodes += 1;
            edges.extend(last.map(|l| (l, point)));
            last = Some(point);
            let mut wait = |counts: &mut Vec<(u64, u64)>, b: usize, node| {
                waits[b].push((counts[b].0, node));
                counts[b].0 += 1;
            };
            let mut arrive = |counts: &mut Vec<(u64, u64)>, b: usize, node| {
                arrivals[b].push((counts[b].1, node));
                counts[b].1 += 1;
            };
            match step {
                Step::Await(l) => edges.push((of_shard[*l], point)),
                Step::Wait(b) => wait(&mut counts, *b, point),
                Step::Arrive(b) => arrive(&mut counts, *b, point),
                Step::Leaf(l) => {
                    let node = nodes;
                    nodes += 1;
                    edges.push((point, node));
                    edges.extend(l.input.map(|i| (of_shard[i], node)));
                    if l.own {
                        edges.extend(own.iter().filter(|(w, _)| *w || l.writes).map(|(_, n)| (*n, node)));
                        own.push((l.writes, node));
                    }
                    l.waits.into_iter().for_each(|b| wait(&mut counts, b, node));
                    l.arrives.into_iter().for_each(|b| arrive(&mut counts, b, node));
                    of_shard.push(node);
                    leaves.push(((s, l.cells, l.writes), node));
                }
            }
        }
    }
    for (arrivals, waits) in arrivals.iter().zip(&waits) {
        for (generation, waiter) in waits {
            edges.extend(arrivals.iter().filter(|(g, _)| g <= generation).map(|(_, from)| (*from, *waiter)));
        }
    }
    unordered(nodes, &edges, &leaves)
}

async fn script(
    shard: Shard,
    program: Arc<Program>,
    (shared, own): (Region, Region),
    gates: Vec<PhaseBarrier>,
) -> Result<(), Error> {
    let own = shard.region(own)?;
    let mut leaves: Vec<TaskFuture<i64>> = Vec::new();
    for step in &program.scripts[shard.index() as usize] {
        match step {
            Step::Await(l) => drop(leaves[*l].clone().await?),
            // Every other shard gives its waits up now and then and begins again.
            Step::Wait(b) => {
                let waiter = gates[*b].waiter(&shard)?;
                let limit = Duration::from_micros(3);
                let gives_up = shard.index() % 2 == 1;
                while gives_up && let Err(Error::TimedOut { .. }) = shard.timeout(limit, shard.wait(&waiter)).await {}
                if !gives_up {
                    shard.wait(&waiter).await?;
                }
            }
            Step::Arrive(b) => shard.arrive(&gates[*b].arriver(&shard)?),
            Step::Leaf(l) => {
                let cells = shard.region(Region::new(shared.tree, Rect::line(l.cells.0, l.cells.1)))?;
                let (read, write) = (cells.read_shared(U), cells.read_write_shared(U));
                let input: Input<i64> = l.input.map_or(0.into(), |i| (&leaves[i]).into());
                let waiter = l.waits.map(|b| gates[b].waiter(&shard)).transpose()?;
                let arriver = l.arrives.map(|b| gates[b].arriver(&shard)).transpose()?;
                macro_rules! go {
                    ($f:expr, $args:expr) => {{
                        let mut launch = shard.launch($f, $args);
                        if let Some(w) = &waiter {
                            launch = launch.wait(w);
                        }
                        if let Some(a) = &arriver {
                            launch = launch.arrive(a);
                        }
                        launch.go()?
                    }};
                }
                leaves.push(match (l.writes, l.own) {
                    (false, false) => go!(look, (read, input)),
                    (true, false) => go!(change, (write, input)),
                    (false, true) => go!(look_own, (read, own.read(U), input)),
                    (true, true) => go!(change_own, (write, own.read_write(U), input)),
                });
            }
        }
    }
    Ok(())
}

fn run_random(at: &str, runtime: &Runtime, program: &Arc<Program>) -> Result<(), Error> {
    let program = program.clone();
    let outcome = run(at, runtime, move |top| {
        let program = program.clone();
        async move {
            let shared = top.region_tree("shared", Rect::line(0, CELLS), &[U.info()])?;
            let own = top.region_tree("own", Rect::line(0, program.shards.into()), &[U.info()])?;
            let own: Vec<Region> = Partition::equal(own, program.shards as usize)?.iter().collect();
            let gang = top.gang("all", program.shards)?;
            let mut gates = Vec::new();
            for (i, arrivers) in program.arrivers.iter().enumerate() {
                let options = PhaseOptions::between(arrivers.clone(), 0..program.shards);
                gates.push(top.phase_barrier(&format!("gate {i}"), &gang, options)?);
            }
            let whole = program.clone();
            let task =
                top.register("script", move |shard, (regions, gates)| script(shard, whole.clone(), regions, gates));
            let done = top.launch_gang(&gang, &task, |s| {
                let start = ShardLaunch::new(((shared, own[s as usize]), gates.clone()));
                start.shares(shared, [U], Privilege::ReadWrite).writes(own[s as usize], [U])
            })?;
            done.all().await
        }
    });
    outcome.map(|_| ())
}

/// A race is reported when there is one in the program's graph, in whatever order the tasks ran, and only then; and it is one
/// of those that are there.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_race_is_reported_exactly_where_nothing_orders_two_tasks() {
    let (mut free, mut racing) = (0, 0);
    for case in 0..600 {
        let program = Arc::new(random(case));
        let pairs = expected(&program);
        *(if pairs.is_empty() { &mut free } else { &mut racing }) += 1;
        let seeded = (0..3).map(|n| {
            let seed = mix(case ^ n);
            (format!("case {case}, seed {seed}"), Runtime::seeded(1 + (seed % 3) as u32, seed))
        });
        let threads = [(format!("case {case} on threads"), Runtime::threads(1 + (case % 3) as u32))];
        for (at, runtime) in seeded.chain(threads) {
            match run_random(&at, &runtime.check(Check::Races), &program) {
                Ok(()) => assert!(pairs.is_empty(), "{at}: {pairs:?} not found in {program:#?}"),
                Err(e) => {
                    let (first, second) = sides(&e);
                    let side = |a: &RacingAccess| -> Side {
                        (a.place.shard.unwrap_or(u32::MAX), (a.rect.lo(0), a.rect.hi(0)), a.privilege.writes())
                    };
                    let pair = (side(&first), side(&second));
                    assert!(pairs.contains(&pair), "{at}: {e}\nnot one of {pairs:?} in {program:#?}");
                }
            }
        }
    }
    assert!(free > 100 && racing > 100, "{free} without, {racing} with a race");
}
