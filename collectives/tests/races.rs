//! The check for races in random programs that only collectives, futures and deadlines order, against the transitive closure
//! of their graphs.

mod common;

use common::watched;
use fastrand::Rng;
use maniple_collectives::{Algorithm, Collective, Operator};
use maniple_regions::{Field, Privilege, ReadShared, ReadWriteShared, Rect, Region, Vector};
use maniple_runtime::{Arg, Check, Error, Input, RacingAccess, Runtime, Shard, ShardLaunch, TaskFuture};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

const U: Field<i64> = Field::new(0, "u");
const CELLS: i64 = 4;

#[derive(Debug, Clone, Copy)]
enum Given {
    Number,
    Leaf(usize),
    /// The result of a call that does not fail.
    Call(usize),
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Leaf {
        cells: (i64, i64),
        writes: bool,
        input: Given,
    },
    Call(Given),
    AwaitLeaf(usize),
    /// With a deadline that is over first some times, or without.
    AwaitCall(usize, bool),
}

#[derive(Debug)]
struct Program {
    shards: u32,
    slots: u32,
    algorithm: Algorithm,
    /// The calls that fail, and which shard makes them fail.
    fails: Vec<Option<u32>>,
    scripts: Vec<Vec<Step>>,
}

fn random(seed: u64) -> Program {
    let r = &mut Rng::with_seed(seed);
    let shards = r.u32(1..=4);
    let fails: Vec<Option<u32>> = (0..r.usize(1..=4)).map(|_| (r.u32(0..4) == 0).then(|| r.u32(0..shards))).collect();
    let mut scripts = Vec::new();
    for _ in 0..shards {
        let (mut script, mut leaves) = (Vec::new(), 0);
        for calls in 0..=fails.len() {
            let fine: Vec<usize> = (0..calls).filter(|&c| fails[c].is_none()).collect();
            let input = |r: &mut Rng, leaves: usize| match r.u32(0..3) {
                0 if leaves > 0 => Given::Leaf(r.usize(0..leaves)),
                1 if !fine.is_empty() => Given::Call(fine[r.usize(0..fine.len())]),
                _ => Given::Number,
            };
            for _ in 0..r.usize(0..=2) {
                script.push(match r.u32(0..6) {
                    0 if leaves > 0 => Step::AwaitLeaf(r.usize(0..leaves)),
                    1 | 2 if calls > 0 => Step::AwaitCall(r.usize(0..calls), r.bool()),
                    _ => {
                        let lo = r.i64(0..CELLS);
                        let leaf = Step::Leaf {
                            cells: (lo, r.i64(lo + 1..=CELLS.min(lo + 2))),
                            writes: r.u32(0..3) == 0,
                            input: input(r, leaves),
                        };
                        leaves += 1;
                        leaf
                    }
                });
            }
            if calls < fails.len() {
                script.push(Step::Call(input(r, leaves)));
            }
        }
        scripts.push(script);
    }
    let algorithms = common::allreduces(shards);
    let algorithm = algorithms[r.usize(0..algorithms.len())];
    Program { shards, slots: r.u32(1..=3), algorithm, fails, scripts }
}

/// A task's shard, cells, and whether it writes.
type Side = (u32, (i64, i64), bool);

/// The pairs of leaves that nothing orders. A call is a node, after all its inputs and the call before it in its slot.
fn expected(program: &Program) -> HashSet<(Side, Side)> {
    let calls = program.fails.len();
    let slots = program.slots as usize;
    let mut edges: Vec<(usize, usize)> = (slots..calls).map(|c| (c - slots, c)).collect();
    let (mut nodes, mut leaves) = (calls, Vec::new());
    for (s, script) in (0u32..).zip(&program.scripts) {
        let (mut last, mut own, mut call) = (None, Vec::new(), 0);
        for step in script {
            let point = nodes;
            nodes += 1;
            edges.extend(last.map(|l| (l, point)));
            last = Some(point);
            let mut after = |input: &Given, own: &[usize], node| match input {
                Given::Number => {}
                Given::Leaf(l) => edges.push((own[*l], node)),
                Given::Call(c) => edges.push((*c, node)),
            };
            match step {
                Step::AwaitLeaf(l) => after(&Given::Leaf(*l), &own, point),
                Step::AwaitCall(c, _) => after(&Given::Call(*c), &own, point),
                Step::Call(input) => {
                    after(input, &own, call);
                    edges.push((point, call));
                    call += 1;
                }
                Step::Leaf { cells, writes, input } => {
                    let node = nodes;
                    nodes += 1;
                    after(input, &own, node);
                    edges.push((point, node));
                    own.push(node);
                    leaves.push(((s, *cells, *writes), node));
                }
            }
        }
    }
    let mut reach = vec![vec![false; nodes]; nodes];
    edges.iter().for_each(|&(a, b)| reach[a][b] = true);
    for k in 0..nodes {
        for i in 0..nodes {
            for j in 0..nodes {
                reach[i][j] |= reach[i][k] && reach[k][j];
            }
        }
    }
    let mut pairs = HashSet::new();
    for (a, i) in &leaves {
        for (b, j) in &leaves {
            let overlap = a.1.0.max(b.1.0) < a.1.1.min(b.1.1);
            if i != j && overlap && (a.2 || b.2) && !reach[*i][*j] && !reach[*j][*i] {
                pairs.insert((*a, *b));
            }
        }
    }
    pairs
}

fn look(shared: ReadShared<i64>, _: Arg<Vector<i64>>) -> Vector<i64> {
    vec![shared.rect().lo(0); 2].into()
}
fn change(mut shared: ReadWriteShared<i64>, _: Arg<Vector<i64>>) -> Vector<i64> {
    shared.fill(1);
    vec![1; 2].into()
}

async fn script(shard: Shard, program: Arc<Program>, tree: Region, total: Collective<[i64]>) -> Result<(), Error> {
    let (mut leaves, mut calls) = (Vec::<TaskFuture<Vector<i64>>>::new(), Vec::<TaskFuture<Vector<i64>>>::new());
    for step in &program.scripts[shard.index() as usize] {
        let value = |input: &Given| -> Input<Vector<i64>> {
            match input {
                Given::Number => Vector::from(vec![0; 2]).into(),
                Given::Leaf(l) => (&leaves[*l]).into(),
                Given::Call(c) => (&calls[*c]).into(),
            }
        };
        match step {
            Step::AwaitLeaf(l) => drop(leaves[*l].clone().await?),
            Step::AwaitCall(c, limited) => {
                let mut call = calls[*c].clone();
                while *limited
                    && let Err(Error::TimedOut { .. }) = shard.timeout(Duration::from_micros(3), &mut call).await
                {
                }
                assert_eq!(call.await.is_err(), program.fails[*c].is_some());
            }
            Step::Call(input) => {
                // What fails comes after its input as well.
                let input = if program.fails[calls.len()] == Some(shard.index()) {
                    let wrong = |_: Arg<Vector<i64>>| Vector::from(vec![0]);
                    (&shard.launch(wrong, (value(input),)).go()?).into()
                } else {
                    value(input)
                };
                calls.push(total.call(&shard, input)?);
            }
            Step::Leaf { cells, writes, input } => {
                let cells = shard.region(Region::new(tree.tree, Rect::line(cells.0, cells.1)))?;
                leaves.push(match writes {
                    true => shard.launch(change, (cells.read_write_shared(U), value(input))).go()?,
                    false => shard.launch(look, (cells.read_shared(U), value(input))).go()?,
                });
            }
        }
    }
    // Who awaits nothing any more has seen all failures.
    for call in calls {
        let _ = call.await;
    }
    Ok(())
}

/// Runs a program in a few orders; whether it has no race.
fn runs_as_expected(case: u64, program: Arc<Program>) -> bool {
    let pairs = expected(&program);
    let seeded = (0..3).map(|n| Runtime::seeded(1 + ((case + n) % 4) as u32, 7 * case + n));
    for (n, runtime) in seeded.chain([Runtime::threads(1 + (case % 2) as u32)]).enumerate() {
        let at = format!("case {case}, run {n}");
        let whole = program.clone();
        let outcome = watched(&at, || {
            runtime.check(Check::Races).run(move |top| {
                let program = whole.clone();
                async move {
                    let tree = top.region_tree("tree", Rect::line(0, CELLS), &[U.info()])?;
                    let gang = top.gang("all", program.shards)?;
                    let (algorithm, slots) = (Some(program.algorithm), program.slots);
                    let total = Collective::allreduce(Operator::<i64>::sum())
                        .elements(2)
                        .slots(slots)
                        .algorithm(algorithm)
                        .make(&top, &gang, "total")?;
                    let task = top.register("script", move |shard, tree| script(shard, program.clone(), tree, total));
                    let share = |_| ShardLaunch::new(tree).shares(tree, [U], Privilege::ReadWrite);
                    top.launch(&gang, &task, share)?.all().await
                }
            })
        });
        match outcome {
            Ok(_) => assert!(pairs.is_empty(), "{at}: {pairs:?} not found in {program:#?}"),
            Err(e) => {
                let Error::Race { first, second, .. } = e.origin() else { panic!("{at}: {e} in {program:#?}") };
                let side = |a: &RacingAccess| -> Side {
                    (a.place.shard.unwrap_or(u32::MAX), (a.rect.lo(0), a.rect.hi(0)), a.privilege.writes())
                };
                let pair = (side(first), side(second));
                assert!(pairs.contains(&pair), "{at}: {e}\nnot one of {pairs:?} in {program:#?}");
            }
        }
    }
    pairs.is_empty()
}

#[test]
fn collectives_order_what_their_graph_orders_and_nothing_else() {
    let (mut free, mut racing) = (0, 0);
    for case in 0..400u64 {
        *(if runs_as_expected(case, Arc::new(random(case))) { &mut free } else { &mut racing }) += 1;
    }
    assert!(free > 60 && racing > 60, "{free} without, {racing} with a race");
}

/// The result of call K + 1 comes after the inputs of call 1, as the two have one slot; that of another call does not.
#[test]
fn calls_of_one_slot_come_one_after_the_other() {
    for case in 0..60u64 {
        for (slots, result) in [(1, 1), (2, 2), (1, 3), (2, 1), (2, 3), (3, 2)] {
            let scripts = vec![
                [
                    vec![Step::Leaf { cells: (0, 1), writes: true, input: Given::Number }, Step::Call(Given::Leaf(0))],
                    vec![Step::Call(Given::Number); 3],
                ]
                .concat(),
                [
                    vec![Step::Call(Given::Number); 4],
                    vec![Step::Leaf { cells: (0, 1), writes: false, input: Given::Call(result) }],
                ]
                .concat(),
            ];
            let algorithms = common::allreduces(2);
            let algorithm = algorithms[case as usize % algorithms.len()];
            let program = Program { shards: 2, slots, algorithm, fails: vec![None; 4], scripts };
            assert_eq!(expected(&program).is_empty(), (result as u32).is_multiple_of(slots));
            runs_as_expected(case, Arc::new(program));
        }
    }
}
