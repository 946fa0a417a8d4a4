//! What the tests share: a watchdog, a source of noise, and programs of calls whose results are computed a second time.
#![allow(missing_docs)]

pub mod cases;

pub use maniple_runtime_tests::{asleep, mostly_asleep, processes, resident, size, steps, unordered, watched};

use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Goal, Laws, Operator, Order, Value};
use maniple_mapper::{CollectiveInput, CollectiveOutput, DefaultMapper, Mapper, PlaceShardsInput, Placement, stock};
use maniple_regions::{Buffer, Element, Vector};
use maniple_runtime::{Arg, Error, Input, Runtime, Shard, ShardLaunch, Stats, TaskFuture};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Well-mixed bits of a number (splitmix64).
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The steps of recursive doubling as its documentation states them: 2·B·log₂ B + 4·s with B the largest power of two
/// up to P and s = P − B.
pub fn subtasks(shards: u32) -> u64 {
    let rounds = u64::from(31 - shards.leading_zeros());
    let block = 1 << rounds;
    2 * block * rounds + 4 * (u64::from(shards) - block)
}

/// Combines as the documentation of recursive doubling brackets it: the first P − B pairs of neighbours, then
/// neighbouring blocks, level by level.
pub fn tree<T: Clone>(values: &[T], combine: impl Fn(&T, &T) -> T) -> T {
    let block = (values.len() + 1).next_power_of_two() / 2;
    let (pairs, rest) = values.split_at(2 * (values.len() - block));
    let mut level: Vec<T> = pairs.chunks(2).map(|p| combine(&p[0], &p[1])).collect();
    level.extend_from_slice(rest);
    while level.len() > 1 {
        level = level.chunks(2).map(|p| combine(&p[0], &p[1])).collect();
    }
    level[0].clone()
}

const PRIME: u64 = (1 << 31) - 1;

/// x ↦ a·x + b modulo a prime: composition is exact and associative and does not commute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Affine {
    a: u64,
    b: u64,
}

impl Affine {
    pub fn new(bits: u64) -> Self {
        Self { a: 1 + mix(bits) % (PRIME - 1), b: mix(!bits) % PRIME }
    }

    /// First `self`, then `next`.
    pub fn then(&self, next: &Self) -> Self {
        Self { a: self.a * next.a % PRIME, b: (self.b * next.a + next.b) % PRIME }
    }
}

/// A 2×2 matrix modulo a prime: more bytes than an arrival carries, so that even one element is lent as a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Matrix([u64; 4]);

impl Matrix {
    fn new(bits: u64) -> Self {
        Self(std::array::from_fn(|i| mix(bits ^ (i as u64) << 60) % PRIME))
    }

    fn times(&self, other: &Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h].map(|x| x % PRIME))
    }
}

/// An operator, and what it does written a second time.
pub struct Combiner<T> {
    pub operator: Operator<T>,
    pub combine: fn(&T, &T) -> T,
    pub make: fn(u64) -> T,
    /// Whether a fold in rank order has the same bits as the schedule's tree.
    pub associative: bool,
}

impl<T> Clone for Combiner<T> {
    fn clone(&self) -> Self {
        Self { operator: self.operator.clone(), ..*self }
    }
}

impl<T: Element> Combiner<T> {
    /// What all shards must get.
    pub fn reduce(&self, values: &[Vec<T>]) -> Vec<T> {
        let combine = |a: &Vec<T>, b: &Vec<T>| a.iter().zip(b).map(|(x, y)| (self.combine)(x, y)).collect();
        let result = tree(values, combine);
        if self.associative {
            let fold = values[1..].iter().fold(values[0].clone(), |a, b| combine(&a, b));
            assert_eq!(bytes(&fold), bytes(&result), "the tree is the fold in rank order");
        }
        result
    }
}

pub fn affine() -> Combiner<Affine> {
    let operator = Operator::user("then", Affine::then);
    Combiner { operator, combine: Affine::then, make: Affine::new, associative: true }
}

pub fn matrices() -> Combiner<Matrix> {
    let operator = Operator::user("matrix product", Matrix::times);
    Combiner { operator, combine: Matrix::times, make: Matrix::new, associative: true }
}

/// Neither commutes nor associates: every other bracketing gives other bits.
pub fn brackets() -> Combiner<u64> {
    fn node(lower: &u64, higher: &u64) -> u64 {
        mix(lower.wrapping_mul(3) ^ mix(*higher))
    }
    Combiner { operator: Operator::user("brackets", node), combine: node, make: |bits| bits, associative: false }
}

/// Sums that wrap around: any order and any brackets give the same bits.
pub fn exact() -> Combiner<u64> {
    Combiner { operator: Operator::sum(), combine: |a, b| a.wrapping_add(*b), make: |bits| bits, associative: true }
}

/// Sums of arbitrary floats, which rounding makes depend on the bracketing.
pub fn rounding() -> Combiner<f64> {
    Combiner { operator: Operator::sum(), combine: |a, b| a + b, make: any_f64, associative: false }
}

/// Any sign, 53 significant bits and an exponent of −20 to 20.
pub fn any_f64(bits: u64) -> f64 {
    let exponent = (bits >> 52) % 41 + 1003;
    f64::from_bits(bits & 0x800f_ffff_ffff_ffff | exponent << 52)
}

pub fn bytes<T: Element>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

/// Where a call's contribution comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// A value.
    Value,
    /// The future of a leaf task.
    Leaf,
    /// The future of the call before.
    Chained,
    /// The future of a leaf task that takes the result of the call before as well.
    Mixed,
}

pub const HOWS: [How; 4] = [How::Value, How::Leaf, How::Chained, How::Mixed];

/// Elements or vectors.
pub trait Form<T: Element>: 'static {
    type V: Value<Element = T, Own = Self::Own> + ?Sized + 'static;
    type Own: Clone + Send + 'static;
    fn with_elements(all: CollectiveBuilder<T>, elements: usize) -> CollectiveBuilder<Self::V>;
    fn of(values: Vec<T>) -> Self::Own;
    fn slice(value: &Self::Own) -> &[T];
}

/// Elements.
pub struct One;
/// Vectors, also of one element.
pub struct Many;

impl<T: Element> Form<T> for One {
    type V = T;
    type Own = T;
    fn with_elements(all: CollectiveBuilder<T>, elements: usize) -> CollectiveBuilder<T> {
        assert_eq!(elements, 1);
        all
    }
    fn of(values: Vec<T>) -> T {
        values[0]
    }
    fn slice(value: &T) -> &[T] {
        std::slice::from_ref(value)
    }
}

impl<T: Element> Form<T> for Many {
    type V = [T];
    type Own = Vector<T>;
    fn with_elements(all: CollectiveBuilder<T>, elements: usize) -> CollectiveBuilder<[T]> {
        all.elements(elements)
    }
    fn of(values: Vec<T>) -> Vector<T> {
        values.into()
    }
    fn slice(value: &Vector<T>) -> &[T] {
        value
    }
}

/// A program: every shard makes the same calls of one allreduce, some before it has seen the results of earlier ones.
pub struct Calls<T> {
    pub kind: Combiner<T>,
    pub shards: u32,
    pub elements: usize,
    pub slots: u32,
    pub hows: Vec<How>,
    /// Calls a shard makes before it awaits the first of them.
    pub ahead: usize,
    /// Shards let others run between calls, some often and some never.
    pub uneven: bool,
    pub seed: u64,
    pub algorithm: Algorithm,
}

impl<T: Element> Calls<T> {
    /// One call after the other, of plain values.
    pub fn new(kind: &Combiner<T>, shards: u32, elements: usize, calls: usize) -> Self {
        let (kind, hows) = (kind.clone(), vec![How::Value; calls]);
        Self {
            kind,
            shards,
            elements,
            slots: 2,
            hows,
            ahead: 1,
            uneven: false,
            seed: 1,
            algorithm: Algorithm::RecursiveDoubling,
        }
    }

    /// A shard's own values for a call.
    fn own(&self, call: usize, shard: u32) -> Vec<T> {
        let base = mix(mix(self.seed ^ (call as u64) << 40) ^ u64::from(shard));
        (0..self.elements as u64).map(|e| (self.kind.make)(mix(base.wrapping_add(e)))).collect()
    }

    /// The result of each call, found without the code under test.
    pub fn expected(&self) -> Vec<Vec<T>> {
        let mut results: Vec<Vec<T>> = Vec::new();
        for (call, how) in self.hows.iter().enumerate() {
            let last = results.last();
            let contributions: Vec<Vec<T>> = (0..self.shards)
                .map(|s| match (last, how) {
                    (Some(last), How::Chained) => last.clone(),
                    (Some(last), How::Mixed) => {
                        let own = self.own(call, s);
                        own.iter().zip(last).map(|(a, b)| (self.kind.combine)(a, b)).collect()
                    }
                    _ => self.own(call, s),
                })
                .collect();
            results.push(self.kind.reduce(&contributions));
        }
        results
    }

    /// Runs the program.
    pub fn run<F: Form<T>>(self: &Arc<Self>, runtime: &Runtime) -> Result<(Results, Stats), Error> {
        let plan = self.clone();
        runtime.run(move |top| {
            let plan = plan.clone();
            async move {
                let gang = top.gang("all", plan.shards)?;
                let all = Collective::allreduce(plan.kind.operator.clone());
                let total = F::with_elements(all, plan.elements)
                    .slots(plan.slots)
                    .algorithm(plan.algorithm)
                    .order(Order::Any)
                    .make(&top, &gang, "total")?;
                let task = top.register("shard", move |shard, (): ()| calls::<T, F>(shard, total, plan.clone()));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            }
        })
    }

    /// Runs the program and compares every result at every shard.
    pub fn outcome<F: Form<T>>(self: &Arc<Self>, runtime: &Runtime, expected: &[Vec<T>]) -> Result<Stats, String> {
        let (results, stats) = self.run::<F>(runtime).map_err(|e| e.to_string())?;
        if results.len() != self.shards as usize {
            return Err(format!("{} shards came", results.len()));
        }
        let expected: Vec<Buffer> = expected.iter().map(|v| Buffer::from_slice(v)).collect();
        for (shard, came) in results.iter().enumerate() {
            if came.len() != expected.len() {
                return Err(format!("{} results at shard {shard}, expected {}", came.len(), expected.len()));
            }
            for (call, (came, expected)) in came.iter().zip(&expected).enumerate() {
                if came != expected {
                    let at = came.as_bytes().iter().zip(expected.as_bytes()).position(|(a, b)| a != b);
                    return Err(format!("call {call} at shard {shard} is wrong, first at byte {at:?}"));
                }
            }
        }
        Ok(stats)
    }

    /// The same for a program that must succeed.
    pub fn check<F: Form<T>>(self: &Arc<Self>, runtime: &Runtime, at: &str) -> Stats {
        let name = format!("{}<{}>", self.kind.operator.name(), std::any::type_name::<T>());
        let at = format!(
            "{at}: {name}, {} shards, {} elements, {} slots, {:?}, {} ahead",
            self.shards, self.elements, self.slots, self.hows, self.ahead
        );
        let expected = self.expected();
        match watched(&at, || self.outcome::<F>(runtime, &expected)) {
            Ok(stats) => stats,
            Err(e) => panic!("{at}: {e}"),
        }
    }
}

/// The bytes of the results, by shard and call. Buffers travel in one piece, where a list of bytes is encoded byte by byte.
pub type Results = Vec<Vec<Buffer>>;

type Bytes = Pin<Box<dyn Future<Output = Result<Buffer, Error>>>>;

/// The shard task of a plan.
async fn calls<T: Element, F: Form<T>>(
    shard: Shard,
    total: Collective<F::V>,
    plan: Arc<Calls<T>>,
) -> Result<Vec<Buffer>, Error> {
    let mut pending: VecDeque<Bytes> = VecDeque::new();
    let mut results = Vec::new();
    let mut last: Option<TaskFuture<F::Own>> = None;
    for (call, how) in plan.hows.iter().enumerate() {
        let own = F::of(plan.own(call, shard.index()));
        let input: Input<F::Own> = match (&last, how) {
            (Some(last), How::Chained) => last.into(),
            (Some(last), How::Mixed) => {
                let combine = plan.kind.combine;
                let mixed = move |own: Arg<F::Own>, last: Arg<F::Own>| {
                    let pairs = F::slice(&own).iter().zip(F::slice(&last));
                    F::of(pairs.map(|(a, b)| combine(a, b)).collect())
                };
                (&shard.launch(mixed, (own.into(), last.into())).go()?).into()
            }
            (_, How::Leaf) => {
                let leaf = |own: Arg<F::Own>| own.0;
                (&shard.launch(leaf, (own.into(),)).go()?).into()
            }
            _ => own.into(),
        };
        let result = total.call(&shard, input)?;
        pending.push_back(if call % 2 == 1 {
            // A leaf task takes the result.
            let look = |result: Arg<F::Own>| Buffer::from_slice(F::slice(&result));
            Box::pin(shard.launch(look, ((&result).into(),)).go()?)
        } else {
            let result = result.clone();
            Box::pin(async move { Ok(Buffer::from_slice(F::slice(&result.await?))) })
        });
        last = Some(result);
        if pending.len() >= plan.ahead
            && let Some(oldest) = pending.pop_front()
        {
            results.push(oldest.await?);
        }
        if plan.uneven {
            let slow = mix(plan.seed ^ u64::from(shard.index()) << 8 ^ call as u64) % 4;
            for _ in 0..slow * u64::from(shard.index() % 3) {
                shard.yield_now().await;
            }
        }
    }
    for result in pending {
        results.push(result.await?);
    }
    Ok(results)
}

/// A mapper with given answers.
#[derive(Debug, Clone)]
pub struct Chosen {
    pub placement: Placement,
    pub exchange: CollectiveOutput,
}

impl Mapper for Chosen {
    fn name(&self) -> &str {
        "chosen"
    }
    fn base(&self) -> &dyn Mapper {
        &DefaultMapper
    }
    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        self.placement.clone()
    }
    fn map_collective(&self, _: &CollectiveInput<'_>) -> CollectiveOutput {
        self.exchange
    }
}

/// One of the mappers that any program must give the same results under, drawn from a number.
pub fn any_mapper(number: u64) -> Arc<dyn Mapper> {
    let cyclic = Chosen { placement: Placement::Cyclic, exchange: CollectiveOutput::default() };
    let names = ["collective", "default", "first", "round-robin", "numa"];
    match number % 8 {
        0 => Arc::new(cyclic),
        n @ 1..=5 => stock(names[n as usize - 1]).unwrap(),
        _ => stock(&format!("random,seed={number}")).unwrap(),
    }
}

/// A runtime drawn from a number: seeded with 1 to 5 processors or threads with 1 to 4 workers, with one of the mappers.
pub fn any_runtime(number: u64) -> (String, Runtime) {
    let mapper = any_mapper(mix(number));
    let name = mapper.name().to_string();
    if let Some(mut all) = processes::runtimes() {
        let (what, runtime) = all.swap_remove(number as usize % all.len());
        return (format!("{what}, mapper {name}"), runtime.mapper(mapper));
    }
    if number.is_multiple_of(2) {
        let (processors, seed) = (1 + (number / 2 % 5) as u32, number);
        let what = format!("{processors} seeded processors, seed {seed}, mapper {name}");
        (what, Runtime::seeded(processors, seed).mapper(mapper))
    } else {
        let workers = 1 + (number / 2 % 4) as u32;
        let runtime = mostly_asleep(mix(!number), Runtime::threads(workers).mapper(mapper));
        (format!("{workers} threads, mapper {name}"), runtime)
    }
}

/// The algorithms for an allreduce of `shards` shards.
pub fn allreduces(shards: u32) -> Vec<Algorithm> {
    Algorithm::all_for(&Goal::allreduce(shards, 1)).collect()
}

/// The algorithms that need nothing of the operator.
pub fn lawless(shards: u32) -> Vec<Algorithm> {
    let goal = Goal::allreduce(shards, 1);
    Algorithm::all_for(&goal).filter(|algorithm| algorithm.laws(&goal) == Laws::NONE).collect()
}
