//! Random programs of subtasks over aliased subregions, against an interpreter that runs them one after the other over
//! plain arrays.

mod common;

use common::wild::Wild;
use common::{any_virtual, run, runtimes};
use maniple_mapper::Priority;
use maniple_regions::{
    Coherence, Field, Max, Partition, Privilege, Product, Read, ReadWrite, Rect, Reduce, Region, Sum, TreeId, Write,
};
use maniple_runtime::{Error, Local, Runtime, Shard, Start, TaskFuture, Val, Value};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

const A: Field<i64> = Field::new(0, "a");
const B: Field<i64> = Field::new(1, "b");
const C: Field<i64> = Field::new(2, "c");
const FIELDS: [Field<i64>; 3] = [A, B, C];

/// A number that is known when the program is written, or the value of an earlier step.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Number {
    Given(i64),
    Of(usize),
}

/// A field of a part of the shard's block.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct At {
    field: usize,
    rect: Rect,
}

/// One step of a shard's program. Every step but the last two makes a value that later steps may use.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Step {
    /// A number made from the values and their order.
    Digest(At),
    /// New values that do not depend on the old ones.
    Set(At, Number),
    /// New values from old ones, in a way that does not commute.
    Update(At, Number),
    /// Folds contributions with operator 0, 1 or 2.
    Fold(At, u8, Number),
    /// Reads one part and updates another.
    Mix(At, At),
    /// Three fields of one part at once: reads the first, folds into the second, writes the third.
    Three([usize; 3], Rect, Number),
    /// Touches no region.
    Join(Number, Number),
    /// An update of every part of a disjoint partition, launched together; the values are joined.
    Each(usize, Vec<Rect>, Number),
    /// A digest of every part of any partition, launched together.
    Look(usize, Vec<Rect>),
    /// Sets a part to one value by the explicit operation.
    Fill(At, i64),
    /// The shard waits for a value and launches what depends on it with the number itself.
    Await(usize),
    Yield,
}

type Program = Vec<(Step, Option<u8>)>;

// What steps do to values. Wrapping arithmetic is exact, and neither of the first two commutes with itself.

fn joined(a: i64, b: i64) -> i64 {
    a.wrapping_mul(31).wrapping_add(b)
}

fn updated(old: i64, k: i64, position: i64) -> i64 {
    old.wrapping_mul(3).wrapping_add(k).wrapping_add(position)
}

fn fresh(k: i64, position: i64) -> i64 {
    k ^ position.wrapping_mul(1_000_003)
}

fn position<const D: usize>(point: [i64; D]) -> i64 {
    point.iter().fold(7, |at, &x| at * 101 + x)
}

// The leaf tasks.

fn digest<const D: usize>(u: Read<i64, D>) -> i64 {
    u.rect().points::<D>().fold(1, |sum, p| joined(sum, u.get(p)))
}

fn set<const D: usize>(mut u: Write<i64, D>, k: Val<i64>) -> i64 {
    for p in u.rect().points::<D>() {
        u.set(p, fresh(*k, position(p)));
    }
    *k
}

fn update<const D: usize>(mut u: ReadWrite<i64, D>, k: Val<i64>) -> i64 {
    let mut sum = 2;
    for p in u.rect().points::<D>() {
        sum = joined(sum, u.get(p));
        u.set(p, updated(u.get(p), *k, position(p)));
    }
    sum
}

fn fold_sum<const D: usize>(mut u: Reduce<i64, Sum, D>, k: Val<i64>) -> i64 {
    u.rect().points::<D>().for_each(|p| u.fold(p, fresh(*k, position(p))));
    3
}

fn fold_product<const D: usize>(mut u: Reduce<i64, Product, D>, k: Val<i64>) -> i64 {
    u.rect().points::<D>().for_each(|p| u.fold(p, fresh(*k, position(p))));
    3
}

fn fold_max<const D: usize>(mut u: Reduce<i64, Max, D>, k: Val<i64>) -> i64 {
    u.rect().points::<D>().for_each(|p| u.fold(p, fresh(*k, position(p))));
    3
}

fn mix<const D: usize>(from: Read<i64, D>, mut into: ReadWrite<i64, D>) -> i64 {
    let k = from.rect().points::<D>().fold(4, |sum, p| joined(sum, from.get(p)));
    for p in into.rect().points::<D>() {
        into.set(p, updated(into.get(p), k, position(p)));
    }
    k
}

fn three<const D: usize>(a: Read<i64, D>, mut b: Reduce<i64, Sum, D>, mut c: Write<i64, D>, k: Val<i64>) -> i64 {
    for p in a.rect().points::<D>() {
        b.fold(p, a.get(p));
        c.set(p, joined(a.get(p), *k));
    }
    5
}

fn join(a: Val<i64>, b: Val<i64>) -> i64 {
    joined(*a, *b)
}

fn dump<const D: usize>(u: Read<i64, D>) -> Vec<i64> {
    u.rect().points::<D>().map(|p| u.get(p)).collect()
}

fn load<const D: usize>(mut u: Write<i64, D>) {
    for p in u.rect().points::<D>() {
        u.set(p, position(p));
    }
}

fn fill<const D: usize>(mut u: Write<i64, D>, value: Val<i64>) -> i64 {
    u.fill(*value);
    6
}

/// What a shard gives back: every field's values, and every step's.
type Outcome = (Vec<Vec<i64>>, Vec<i64>);

async fn body<const D: usize>(shard: Shard, (block, program): (Region, Program)) -> Result<Outcome, Error> {
    let whole = shard.region(block)?;
    for field in FIELDS {
        shard.launch(load::<D>, (whole.write(field),)).go()?.detach();
    }
    let mut values: Vec<TaskFuture<i64>> = Vec::new();
    for (step, priority) in program {
        let part = |at: &At| -> Result<(Local, Field<i64>), Error> {
            Ok((shard.region(Region::new(block.tree, at.rect))?, FIELDS[at.field]))
        };
        let number = |n: Number| -> Value<i64> {
            match n {
                Number::Of(i) if !values.is_empty() => (&values[i % values.len()]).into(),
                Number::Of(i) => (i as i64).into(),
                Number::Given(k) => k.into(),
            }
        };
        macro_rules! go {
            ($function:expr, $args:expr) => {{
                let launch = shard.launch($function, $args);
                match priority {
                    Some(p) => launch.priority(Priority(p)).go()?,
                    None => launch.go()?,
                }
            }};
        }
        let value = match step {
            Step::Digest(at) => {
                let (r, f) = part(&at)?;
                go!(digest::<D>, (r.read(f),))
            }
            Step::Set(at, k) => {
                let (r, f) = part(&at)?;
                go!(set::<D>, (r.write(f), number(k)))
            }
            Step::Update(at, k) => {
                let (r, f) = part(&at)?;
                go!(update::<D>, (r.read_write(f), number(k)))
            }
            Step::Fold(at, operator, k) => {
                let (r, f) = part(&at)?;
                match operator {
                    0 => go!(fold_sum::<D>, (r.reduce(f), number(k))),
                    1 => go!(fold_product::<D>, (r.reduce(f), number(k))),
                    _ => go!(fold_max::<D>, (r.reduce(f), number(k))),
                }
            }
            Step::Mix(from, into) => {
                let ((r, f), (s, g)) = (part(&from)?, part(&into)?);
                go!(mix::<D>, (r.read(f), s.read_write(g)))
            }
            Step::Three([a, b, c], rect, k) => {
                let (r, _) = part(&At { field: a, rect })?;
                go!(three::<D>, (r.read(FIELDS[a]), r.reduce(FIELDS[b]), r.write(FIELDS[c]), number(k)))
            }
            Step::Join(a, b) => go!(join, (number(a), number(b))),
            Step::Each(field, parts, k) => {
                let parts: Vec<Local> =
                    parts.iter().map(|&r| shard.region(Region::new(block.tree, r))).collect::<Result<_, _>>()?;
                let args = |i: usize| (parts[i].read_write(FIELDS[field]), number(k));
                let map = shard.index_launch(parts.len(), update::<D>, args)?;
                assert_eq!(map.len(), parts.len());
                let mut all = shard.launch(join, (8.into(), 0.into())).go()?;
                for f in map.iter() {
                    all = shard.launch(join, ((&all).into(), f.into())).go()?;
                }
                all
            }
            Step::Look(field, parts) => {
                let parts: Vec<Local> =
                    parts.iter().map(|&r| shard.region(Region::new(block.tree, r))).collect::<Result<_, _>>()?;
                let map = shard.index_launch(parts.len(), digest::<D>, |i| (parts[i].read(FIELDS[field]),))?;
                let mut all = shard.launch(join, (9.into(), 0.into())).go()?;
                for f in map.iter() {
                    all = shard.launch(join, ((&all).into(), f.into())).go()?;
                }
                all
            }
            Step::Fill(at, value) => {
                let (r, f) = part(&at)?;
                go!(fill::<D>, (r.write(f), value.into()))
            }
            Step::Await(i) => {
                let value = if values.is_empty() { 0 } else { values[i % values.len()].clone().await? };
                go!(join, (value.into(), 10.into()))
            }
            Step::Yield => {
                shard.yield_now().await;
                continue;
            }
        };
        values.push(value);
    }
    let mut fields = Vec::new();
    for field in FIELDS {
        fields.push(shard.launch(dump::<D>, (whole.read(field),)).go()?.await?);
    }
    let mut results = Vec::new();
    for value in values {
        results.push(value.await?);
    }
    Ok((fields, results))
}

/// Runs a program one step after the other on maps from points to values.
fn interpret<const D: usize>(block: Rect, program: &Program) -> Outcome {
    let first: HashMap<[i64; D], i64> = block.points::<D>().map(|p| (p, position(p))).collect();
    let mut fields = [first.clone(), first.clone(), first];
    let mut values: Vec<i64> = Vec::new();
    for (step, _) in program {
        let number = |n: &Number| match *n {
            Number::Given(k) => k,
            Number::Of(i) if values.is_empty() => i as i64,
            Number::Of(i) => values[i % values.len()],
        };
        let digest = |from: &HashMap<[i64; D], i64>, rect: &Rect, start: i64| {
            rect.points::<D>().fold(start, |sum, p| joined(sum, from[&p]))
        };
        let value = match step {
            Step::Digest(at) => digest(&fields[at.field], &at.rect, 1),
            Step::Set(at, k) => {
                let k = number(k);
                for p in at.rect.points::<D>() {
                    fields[at.field].insert(p, fresh(k, position(p)));
                }
                k
            }
            Step::Update(at, k) => {
                let k = number(k);
                let before = digest(&fields[at.field], &at.rect, 2);
                for p in at.rect.points::<D>() {
                    fields[at.field].entry(p).and_modify(|v| *v = updated(*v, k, position(p)));
                }
                before
            }
            Step::Fold(at, operator, k) => {
                let k = number(k);
                for p in at.rect.points::<D>() {
                    let new = fresh(k, position(p));
                    fields[at.field].entry(p).and_modify(|v| {
                        *v = match operator {
                            0 => v.wrapping_add(new),
                            1 => v.wrapping_mul(new),
                            _ => (*v).max(new),
                        }
                    });
                }
                3
            }
            Step::Mix(from, into) => {
                let k = digest(&fields[from.field], &from.rect, 4);
                for p in into.rect.points::<D>() {
                    fields[into.field].entry(p).and_modify(|v| *v = updated(*v, k, position(p)));
                }
                k
            }
            Step::Three([a, b, c], rect, k) => {
                let k = number(k);
                for p in rect.points::<D>() {
                    let v = fields[*a][&p];
                    fields[*b].entry(p).and_modify(|old| *old = old.wrapping_add(v));
                    fields[*c].insert(p, joined(v, k));
                }
                5
            }
            Step::Join(a, b) => joined(number(a), number(b)),
            Step::Each(field, parts, k) => {
                let k = number(k);
                let mut all = joined(8, 0);
                for rect in parts {
                    all = joined(all, digest(&fields[*field], rect, 2));
                    for p in rect.points::<D>() {
                        fields[*field].entry(p).and_modify(|v| *v = updated(*v, k, position(p)));
                    }
                }
                all
            }
            Step::Look(field, parts) => {
                parts.iter().fold(joined(9, 0), |all, rect| joined(all, digest(&fields[*field], rect, 1)))
            }
            Step::Fill(at, value) => {
                for p in at.rect.points::<D>() {
                    fields[at.field].insert(p, *value);
                }
                6
            }
            Step::Await(i) => joined(if values.is_empty() { 0 } else { values[i % values.len()] }, 10),
            Step::Yield => continue,
        };
        values.push(value);
    }
    let fields = fields.iter().map(|f| block.points::<D>().map(|p| f[&p]).collect()).collect();
    (fields, values)
}

// Random programs.

fn rect_in(block: Rect) -> BoxedStrategy<Rect> {
    let side = move |d: usize| {
        let (lo, hi) = (block.lo(d), block.hi(d));
        (lo..hi).prop_flat_map(move |a| (Just(a), a + 1..=hi))
    };
    match block.dim() {
        1 => side(0).prop_map(|(a, b)| Rect::line(a, b)).boxed(),
        _ => (side(0), side(1)).prop_map(|((a, b), (c, d))| Rect::new([a, c], [b, d])).boxed(),
    }
}

/// The subregions of a random partition of `block`; only disjoint ones where asked.
fn partition_of(block: Rect, disjoint: bool) -> BoxedStrategy<Vec<Rect>> {
    let region = Region::new(TreeId(0), block);
    let rects = |p: Partition| p.iter().map(|r| r.rect).filter(|r| !r.is_empty()).collect::<Vec<_>>();
    let equal = (1usize..5).prop_map(move |n| rects(Partition::equal(region, n).unwrap()));
    let blocks = (1..block.extent(0))
        .prop_map(move |first| rects(Partition::blocks(region, &[first, block.extent(0) - first]).unwrap()));
    if disjoint {
        return prop_oneof![equal, blocks].boxed();
    }
    let listed = prop::collection::vec(rect_in(block), 1..4)
        .prop_map(move |list| rects(Partition::rects(region, list).unwrap()));
    let ghosts = (2i64..5).prop_map(move |stride| {
        let (mut lo, mut hi) = ([block.lo(0) - 1, block.lo(1)], [block.lo(0) + stride + 1, block.hi(1)]);
        let (extent, strides) = match block.dim() {
            1 => (Rect::line(lo[0], hi[0]), vec![stride]),
            _ => {
                lo[1] -= 1;
                hi[1] += 1;
                (Rect::new(lo, hi), vec![stride, 0])
            }
        };
        rects(Partition::restriction(region, 3, &strides, extent).unwrap())
    });
    prop_oneof![equal, blocks, listed, ghosts].boxed()
}

fn step_on(block: Rect) -> BoxedStrategy<Step> {
    let part = prop_oneof![
        2 => rect_in(block),
        3 => (partition_of(block, false), any::<prop::sample::Index>()).prop_map(|(all, i)| *i.get(&all)),
    ];
    let at = (0usize..3, part.clone()).prop_map(|(field, rect)| At { field, rect }).boxed();
    let number = prop_oneof![(-50i64..50).prop_map(Number::Given), (0usize..99).prop_map(Number::Of)].boxed();
    let orders = prop::sample::select(vec![[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
    prop_oneof![
        3 => at.clone().prop_map(Step::Digest),
        2 => (at.clone(), number.clone()).prop_map(|(a, k)| Step::Set(a, k)),
        3 => (at.clone(), number.clone()).prop_map(|(a, k)| Step::Update(a, k)),
        3 => (at.clone(), 0u8..3, number.clone()).prop_map(|(a, o, k)| Step::Fold(a, o, k)),
        3 => (at.clone(), at.clone()).prop_map(|(a, b)| match a.field == b.field && a.rect.overlaps(&b.rect) {
            true => Step::Mix(At { field: (b.field + 1) % 3, ..a }, b),
            false => Step::Mix(a, b),
        }),
        2 => (orders, part, number.clone()).prop_map(|(f, r, k)| Step::Three(f, r, k)),
        1 => (number.clone(), number.clone()).prop_map(|(a, b)| Step::Join(a, b)),
        2 => (0usize..3, partition_of(block, true), number).prop_map(|(f, p, k)| Step::Each(f, p, k)),
        2 => (0usize..3, partition_of(block, false)).prop_map(|(f, p)| Step::Look(f, p)),
        1 => (at, -9i64..9).prop_map(|(a, v)| Step::Fill(a, v)),
        1 => (0usize..99).prop_map(Step::Await),
        1 => Just(Step::Yield),
    ]
    .boxed()
}

/// One program for each shard: shard s has block s of `block` along the first dimension.
fn programs(whole: Rect) -> impl Strategy<Value = (Vec<Region>, Vec<Program>)> {
    let tree = Region::new(TreeId(1), whole);
    (1usize..4).prop_flat_map(move |shards| {
        let blocks: Vec<Region> = Partition::equal(tree, shards).unwrap().iter().collect();
        let programs: Vec<_> = blocks
            .iter()
            .map(|b| prop::collection::vec((step_on(b.rect), prop::option::weighted(0.3, 0u8..8)), 0..25))
            .collect();
        (Just(blocks), programs)
    })
}

/// Runs programs on the blocks, watched.
fn outcome<const D: usize>(
    at: &str,
    runtime: &Runtime,
    whole: Rect,
    blocks: &[Region],
    programs: &[Program],
) -> Result<Vec<Outcome>, Error> {
    let (rects, programs) = (blocks.iter().map(|b| b.rect).collect::<Vec<_>>(), programs.to_vec());
    run(at, runtime, move |top| {
        let (rects, programs) = (rects.clone(), programs.clone());
        async move {
            let tree = top.tree("grid", whole, &FIELDS.map(|f| f.info()))?;
            let gang = top.gang("all", rects.len() as u32)?;
            let task = top.task("body", body::<D>);
            let done = top.launch(&gang, &task, |s| {
                let block = Region::new(tree.tree, rects[s as usize]);
                let fields = FIELDS.map(|f| f.id());
                let start = Start::new((block, programs[s as usize].clone()));
                start.holds(block, fields, Privilege::ReadWrite, Coherence::Exclusive)
            })?;
            done.all().await
        }
    })
}

fn check<const D: usize>(whole: Rect, blocks: Vec<Region>, programs: Vec<Program>) -> Result<(), TestCaseError> {
    let expected: Vec<Outcome> = blocks.iter().zip(&programs).map(|(b, p)| interpret::<D>(b.rect, p)).collect();
    for (name, runtime) in runtimes(6) {
        match outcome::<D>(&name, &runtime, whole, &blocks, &programs) {
            Ok(came) => prop_assert_eq!(&came, &expected, "on {}", name),
            Err(e) => prop_assert!(false, "on {name}: {e}"),
        }
    }
    Ok(())
}

/// The right result, if the mapper did nothing it must not do, else an error that says what it did.
fn check_wild<const D: usize>(
    seed: u64,
    whole: Rect,
    blocks: Vec<Region>,
    programs: Vec<Program>,
) -> Result<(), TestCaseError> {
    let expected: Vec<Outcome> = blocks.iter().zip(&programs).map(|(b, p)| interpret::<D>(b.rect, p)).collect();
    let processors = 1 + (seed % 4) as u32;
    let seeded = (0..3).map(|n| (format!("{processors} processors, seed {n}"), Runtime::seeded(processors, n)));
    let threads = (2..4).map(|workers| (format!("{workers} threads"), Runtime::threads(workers)));
    for (n, (driver, runtime)) in (0..).zip(seeded.chain([any_virtual(seed % 1000)]).chain(threads)) {
        let wild = Arc::new(Wild::new(seed ^ n));
        let at = format!("{driver}, wild mapper {}", seed ^ n);
        match outcome::<D>(&at, &runtime.mapper(wild.clone()), whole, &blocks, &programs) {
            Ok(came) => {
                prop_assert_eq!(&came, &expected, "on {}", &at);
                prop_assert_eq!(wild.strikes(), 0, "unpunished on {}", at);
            }
            Err(e) => prop_assert!(wild.owns(&e), "on {at}: {e}\n{e:?}\n{wild:?}"),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_programs_on_a_line((blocks, programs) in programs(Rect::line(-3, 21))) {
        check::<1>(Rect::line(-3, 21), blocks, programs)?;
    }

    #[test]
    fn random_programs_on_a_plane((blocks, programs) in programs(Rect::new([0, -2], [9, 3]))) {
        check::<2>(Rect::new([0, -2], [9, 3]), blocks, programs)?;
    }
    #[test]
    fn random_programs_under_a_wild_mapper((blocks, programs) in programs(Rect::line(-3, 21)), seed: u64) {
        check_wild::<1>(seed, Rect::line(-3, 21), blocks, programs)?;
    }
}
