//! The check for races in random programs that only collectives, futures and deadlines order, against the transitive closure
//! of their graphs.

use crate::common;
use crate::common::cases::KINDS;
use crate::common::size::part;
use crate::common::unordered::{Side, unordered};
use crate::common::watched;
use fastrand::Rng;
use maniple_collectives::{Algorithm, Collective, Kind, Operator, Ranks};
use maniple_regions::{Field, Privilege, ReadShared, ReadWriteShared, Rect, Region, Vector};
use maniple_runtime::{Arg, Check, Error, Gang, Input, RacingAccess, Runtime, Shard, ShardLaunch, TaskFuture, Top};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

const U: Field<i64> = Field::new(0, "u");
const CELLS: i64 = 4;
/// The elements of what leaves return.
const ELEMENTS: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Given {
    Number,
    Leaf(usize),
    /// A call that does not fail.
    Call(usize),
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Leaf {
        cells: (i64, i64),
        writes: bool,
        input: Given,
    },
    /// The shard's part in a call. If it contributes and receives, it may do so apart.
    Call(Given, Apart),
    AwaitLeaf(usize),
    /// The result of a call, or the end of the contribution to it. With a deadline that sometimes passes first, or without.
    AwaitCall(usize, bool),
}

/// Whether a shard that does both contributes and receives apart, and which of the two futures it looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Apart {
    No,
    AtContribution,
    AtResult,
}

/// A collective, and which shards contribute and receive.
#[derive(Debug, Clone)]
struct Joint {
    kind: Kind,
    from: Vec<u32>,
    to: Vec<u32>,
    /// The elements of a block, or of the value if it is one vector.
    elements: usize,
    slots: u32,
    algorithm: Option<Algorithm>,
}

impl Joint {
    fn random(r: &mut Rng, shards: u32, kind: Kind) -> Self {
        let mut some = |most: usize| {
            let mut all: Vec<u32> = (0..shards).collect();
            r.shuffle(&mut all);
            all.truncate(r.usize(1..=most));
            all.sort_unstable();
            all
        };
        let is_from_one = matches!(kind, Kind::Broadcast | Kind::Scatter);
        let from = some(if is_from_one { 1 } else { shards as usize });
        let mut to = some(shards as usize);
        if kind == Kind::Scan {
            to.retain(|&shard| shard >= from[0]);
        }
        let together = to.is_empty() || !is_from_one && r.bool();
        let to = if together { from.clone() } else { to };
        let algorithm = r.bool().then(|| Algorithm::ALL[r.usize(0..Algorithm::ALL.len())]);
        Self { kind, from, to, elements: r.usize(0..=2), slots: r.u32(1..=3), algorithm }
    }

    fn all(kind: Kind, shards: u32, slots: u32, algorithm: Algorithm) -> Self {
        let all: Vec<u32> = (0..shards).collect();
        Self { kind, from: all.clone(), to: all, elements: 2, slots, algorithm: Some(algorithm) }
    }

    fn gives(&self, shard: u32) -> bool {
        self.from.contains(&shard)
    }
    fn gets(&self, shard: u32) -> bool {
        self.to.contains(&shard)
    }
    fn takes_part(&self, shard: u32) -> bool {
        self.gives(shard) || self.gets(shard)
    }

    /// Whether the part of one shard comes after the input of another, by the definition of the kind.
    fn needs(&self, shard: u32, other: u32) -> bool {
        let received = match self.kind {
            Kind::Scan => other <= shard,
            Kind::Exscan => other < shard,
            _ => true,
        };
        shard == other || self.gets(shard) && self.gives(other) && received
    }

    /// The elements that a shard contributes.
    fn given(&self) -> usize {
        self.elements * if self.kind.has_block_for_each_receiver() { self.to.len() } else { 1 }
    }

    fn make(&self, top: &Top, gang: &Gang) -> Result<Collective<[i64]>, Error> {
        let made = |algorithm: Option<Algorithm>| {
            let [from, to] = [&self.from, &self.to].map(|set| Ranks::of(set.iter().copied()));
            let builder = Collective::of_kind(self.kind, from, to, (Operator::sum(), 0)).elements(self.elements);
            builder.slots(self.slots).algorithm(algorithm).make(top, gang, "joint")
        };
        // Not every algorithm is for every kind.
        made(self.algorithm).or_else(|_| made(None))
    }
}

#[derive(Debug)]
struct Program {
    shards: u32,
    joint: Joint,
    /// The calls that fail, and which shard makes them fail.
    fails: Vec<Option<u32>>,
    scripts: Vec<Vec<Step>>,
}

fn random(seed: u64) -> Program {
    let r = &mut Rng::with_seed(seed);
    let shards = r.u32(1..=4);
    let joint = Joint::random(r, shards, KINDS[seed as usize % KINDS.len()]);
    let breaker = |r: &mut Rng| (r.u32(0..5) == 0).then(|| joint.from[r.usize(0..joint.from.len())]);
    let fails: Vec<Option<u32>> = (0..r.usize(1..=4)).map(|_| breaker(r)).collect();
    let mut scripts = Vec::new();
    for shard in 0..shards {
        let (mut script, mut leaves) = (Vec::new(), 0);
        let all = if joint.takes_part(shard) { fails.len() } else { 0 };
        for calls in 0..=all {
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
            if calls < all {
                let apart = [Apart::No, Apart::AtContribution, Apart::AtResult][r.usize(0..3)];
                script.push(Step::Call(input(r, leaves), apart));
            }
        }
        scripts.push(script);
    }
    Program { shards, joint, fails, scripts }
}

/// The pairs of leaves that nothing orders. Each shard's part in a call has two nodes. The first is its beginning, after what
/// the shard had awaited, its input and its part in the call before in the slot. The second is its end, after the beginnings of
/// all parts that it needs.
fn expected(program: &Program) -> HashSet<(Side, Side)> {
    let (calls, joint) = (program.fails.len(), &program.joint);
    let (slots, all) = (joint.slots as usize, program.shards as usize);
    let begin = |call: usize, shard: u32| 2 * (call * all + shard as usize);
    let end = |call, shard| begin(call, shard) + 1;
    let mut edges: Vec<(usize, usize)> = Vec::new();
    for (call, shard) in (0..calls).flat_map(|call| (0..program.shards).map(move |shard| (call, shard))) {
        let needs = (0..program.shards).filter(|&other| joint.needs(shard, other));
        edges.extend(needs.map(|other| (begin(call, other), end(call, shard))));
        edges.extend(call.checked_sub(slots).map(|before| (end(before, shard), begin(call, shard))));
    }
    let (mut nodes, mut leaves) = (2 * calls * all, Vec::new());
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
                Given::Call(c) => edges.push((end(*c, s), node)),
            };
            match step {
                Step::AwaitLeaf(l) => after(&Given::Leaf(*l), &own, point),
                Step::AwaitCall(c, _) => after(&Given::Call(*c), &own, point),
                Step::Call(input, _) => {
                    if joint.gives(s) {
                        after(input, &own, begin(call, s));
                    }
                    edges.push((point, begin(call, s)));
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
    unordered(nodes, &edges, &leaves)
}

fn look(shared: ReadShared<i64>, _: Arg<Vector<i64>>) -> Vector<i64> {
    vec![shared.rect().lo(0); ELEMENTS].into()
}
fn change(mut shared: ReadWriteShared<i64>, _: Arg<Vector<i64>>) -> Vector<i64> {
    shared.fill(1);
    vec![1; ELEMENTS].into()
}

/// A call of a shard: what it looks at, and what it awaits only in the end.
enum Called {
    Result(TaskFuture<Vector<i64>>, Option<TaskFuture<()>>),
    Contribution(TaskFuture<()>, Option<TaskFuture<Vector<i64>>>),
}

async fn script(shard: Shard, program: Arc<Program>, tree: Region, made: Collective<[i64]>) -> Result<(), Error> {
    let (mut leaves, mut calls) = (Vec::<TaskFuture<Vector<i64>>>::new(), Vec::<Called>::new());
    let (joint, me) = (&program.joint, shard.index());
    // Of those who receive. An error may also come to those who only contribute.
    let fails = |call: usize| program.fails[call].map(|breaker| joint.needs(me, breaker));
    for step in &program.scripts[me as usize] {
        let value = |input: &Given| -> Result<Input<Vector<i64>>, Error> {
            Ok(match input {
                Given::Number => Vector::from(vec![0; ELEMENTS]).into(),
                Given::Leaf(l) => (&leaves[*l]).into(),
                Given::Call(c) => match &calls[*c] {
                    Called::Result(result, _) => result.into(),
                    Called::Contribution(over, _) => {
                        let then = |_: Arg<()>| Vector::from(vec![0; ELEMENTS]);
                        (&shard.launch(then, (over.into(),)).go()?).into()
                    }
                },
            })
        };
        match step {
            Step::AwaitLeaf(l) => drop(leaves[*l].clone().await?),
            Step::AwaitCall(c, limited) => match &calls[*c] {
                Called::Result(result, _) => {
                    let mut result = result.clone();
                    while *limited
                        && let Err(Error::TimedOut { .. }) = shard.timeout(Duration::from_micros(3), &mut result).await
                    {
                    }
                    assert_eq!(result.await.is_err(), fails(*c).unwrap_or(false));
                }
                Called::Contribution(over, _) => _ = over.clone().await,
            },
            Step::Call(input, apart) => {
                let fit = |elements: usize, input| {
                    let fitting = move |_: Arg<Vector<i64>>| Vector::from(vec![0; elements]);
                    Ok::<Input<Vector<i64>>, Error>((&shard.launch(fitting, (input,)).go()?).into())
                };
                let input = || match input {
                    // What fails comes after its input as well.
                    input if program.fails[calls.len()] == Some(me) => fit(joint.given() + 1, value(input)?),
                    Given::Number => Ok(Vector::from(vec![0; joint.given()]).into()),
                    Given::Leaf(_) if joint.given() == ELEMENTS => value(input),
                    input => fit(joint.given(), value(input)?),
                };
                calls.push(match (joint.gives(me), joint.gets(me), apart) {
                    (true, true, Apart::No) => Called::Result(made.call(&shard, input()?)?, None),
                    (true, true, Apart::AtResult) => {
                        let over = made.contribute(&shard, input()?)?;
                        Called::Result(made.receive(&shard)?, Some(over))
                    }
                    (true, true, Apart::AtContribution) => {
                        let over = made.contribute(&shard, input()?)?;
                        Called::Contribution(over, Some(made.receive(&shard)?))
                    }
                    (true, false, _) => Called::Contribution(made.contribute(&shard, input()?)?, None),
                    _ => Called::Result(made.receive(&shard)?, None),
                });
            }
            Step::Leaf { cells, writes, input } => {
                let cells = shard.region(Region::new(tree.tree, Rect::line(cells.0, cells.1)))?;
                leaves.push(match writes {
                    true => shard.launch(change, (cells.read_write_shared(U), value(input)?)).go()?,
                    false => shard.launch(look, (cells.read_shared(U), value(input)?)).go()?,
                });
            }
        }
    }
    // Who awaits nothing any more has seen all failures.
    for call in calls {
        match call {
            Called::Result(result, over) => {
                let _ = result.await;
                if let Some(over) = over {
                    let _ = over.await;
                }
            }
            Called::Contribution(over, result) => {
                let _ = over.await;
                if let Some(result) = result {
                    let _ = result.await;
                }
            }
        }
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
                    let made = program.joint.make(&top, &gang)?;
                    let task = top.register("script", move |shard, tree| script(shard, program.clone(), tree, made));
                    let share = |_| ShardLaunch::new(tree).shares(tree, [U], Privilege::ReadWrite);
                    top.launch_gang(&gang, &task, share)?.all().await
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
#[ignore = "takes long; `./check full` runs it"]
fn collectives_order_what_their_graph_orders_and_nothing_else() {
    let mut cases = HashMap::<(Kind, bool), u32>::new();
    for case in 0..640u64 {
        let program = random(case);
        let kind = program.joint.kind;
        *cases.entry((kind, runs_as_expected(case, Arc::new(program)))).or_default() += 1;
    }
    let enough = |kind| [true, false].iter().all(|free| cases.get(&(kind, *free)).is_some_and(|n| *n > 8));
    assert!(KINDS.into_iter().all(enough), "{cases:?}");
}

/// The result of call K + 1 comes after the inputs of call 1, as the two have one slot; the result of another call does not.
#[test]
fn calls_of_one_slot_come_one_after_the_other() {
    for case in 0..part(60) {
        for (slots, result) in [(1, 1), (2, 2), (1, 3), (2, 1), (2, 3), (3, 2)] {
            let scripts = vec![
                [
                    vec![
                        Step::Leaf { cells: (0, 1), writes: true, input: Given::Number },
                        Step::Call(Given::Leaf(0), Apart::No),
                    ],
                    vec![Step::Call(Given::Number, Apart::No); 3],
                ]
                .concat(),
                [
                    vec![Step::Call(Given::Number, Apart::No); 4],
                    vec![Step::Leaf { cells: (0, 1), writes: false, input: Given::Call(result) }],
                ]
                .concat(),
            ];
            let algorithms = common::allreduces(2);
            let algorithm = algorithms[case as usize % algorithms.len()];
            let joint = Joint::all(Kind::Reduce, 2, slots, algorithm);
            let program = Program { shards: 2, joint, fails: vec![None; 4], scripts };
            assert_eq!(expected(&program).is_empty(), (result as u32).is_multiple_of(slots));
            runs_as_expected(case, Arc::new(program));
        }
    }
}

/// In each kind one shard writes before its part, and another reads after it. They are ordered if the one needs the other.
#[test]
fn only_what_a_result_depends_on_comes_before_it() {
    const SHARDS: u32 = 4;
    let mut case = 0;
    for kind in KINDS {
        for (writer, reader) in (0..SHARDS).flat_map(|writer| (0..SHARDS).map(move |reader| (writer, reader))) {
            for apart in [Apart::No, Apart::AtContribution] {
                case += 1;
                let joint = Joint::random(&mut Rng::with_seed(case), SHARDS, kind);
                let script = |shard: u32| {
                    let leaf = |writes| Step::Leaf { cells: (0, 1), writes, input: Given::Number };
                    let (before, after) = (shard == writer, shard == reader && writer != reader);
                    let mut script = Vec::new();
                    if before {
                        script.extend([leaf(true), Step::AwaitLeaf(0)]);
                    }
                    if joint.takes_part(shard) {
                        script.extend([Step::Call(Given::Number, apart), Step::AwaitCall(0, false)]);
                    }
                    if after {
                        script.push(leaf(false));
                    }
                    script
                };
                let scripts = (0..SHARDS).map(script).collect();
                let ordered = writer == reader
                    || joint.takes_part(writer) && joint.takes_part(reader) && joint.needs(reader, writer);
                let program = Program { shards: SHARDS, joint, fails: vec![None], scripts };
                assert_eq!(expected(&program).is_empty(), ordered);
                runs_as_expected(case, Arc::new(program));
            }
        }
    }
}
