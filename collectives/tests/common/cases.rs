//! Collectives of vectors of every kind, drawn from a seed, and what each of their receivers must get by sequential code.

use crate::{any_mapper, any_runtime, brackets, exact, mix, rounding, tree};
use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Goal, Kind, Operator, Ranks};
use maniple_regions::Element;
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch, VirtualMachine};
use std::fmt::Debug;
use std::sync::Arc;

/// A source of numbers.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % n
    }
    fn ranks(&mut self, shards: u32) -> Vec<u32> {
        match self.below(4) {
            0 => (0..shards).collect(),
            1 => vec![self.below(shards.into()) as u32],
            _ => {
                let chosen: Vec<u32> = (0..shards).filter(|_| self.below(2) == 0).collect();
                if chosen.is_empty() { vec![self.below(shards.into()) as u32] } else { chosen }
            }
        }
    }
    fn size(&mut self) -> usize {
        [0, 1, 2, 3, 7, 40, 700][self.below(7) as usize]
    }
}

/// The kinds that are drawn. Whether the receivers are the contributors tells an allreduce from a reduction.
pub const KINDS: [Kind; 8] = [
    Kind::Reduce,
    Kind::ReduceScatter,
    Kind::Scan,
    Kind::Exscan,
    Kind::Broadcast,
    Kind::Gather,
    Kind::Scatter,
    Kind::AllToAll,
];

/// Elements of the vectors.
pub trait Item: Element + Debug {
    /// An operator for which neither the order nor the brackets matter, or one that tells them apart.
    fn kind(commutes: bool) -> crate::Combiner<Self>;
}

impl Item for u64 {
    fn kind(commutes: bool) -> crate::Combiner<u64> {
        if commutes { exact() } else { brackets() }
    }
}

impl Item for f64 {
    fn kind(commutes: bool) -> crate::Combiner<f64> {
        let sum: fn(&f64, &f64) -> f64 = |a, b| a + b;
        // Sums of whole numbers are exact.
        let operator = Operator::user("whole sum", sum).associative().commutative().infallible();
        let whole = crate::Combiner { operator, combine: sum, make: |bits| f64::from(bits as i16), associative: true };
        if commutes { whole } else { rounding() }
    }
}

/// Three words, as many bytes as an arrival carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Triple([u64; 3]);

/// The operators of these elements, by way of words.
macro_rules! items {
    ($($t:ty: $make:expr, $word:expr;)*) => {$(
        impl Item for $t {
            fn kind(commutes: bool) -> crate::Combiner<$t> {
                fn combine(lower: &$t, higher: &$t) -> $t {
                    let word: fn(&$t) -> u64 = $word;
                    ($make)(mix(word(lower).wrapping_mul(3) ^ mix(word(higher))))
                }
                fn first(a: &$t, b: &$t) -> $t {
                    *a.min(b)
                }
                let (operator, combine): (_, fn(&$t, &$t) -> $t) = match commutes {
                    true => (Operator::user("min", first).associative().commutative().infallible(), first),
                    false => (Operator::user("brackets", combine), combine),
                };
                crate::Combiner { operator, combine, make: $make, associative: commutes }
            }
        }
    )*};
}

items! {
    u8: |bits| bits as u8, |v| (*v).into();
    i32: |bits| bits as i32, |v| *v as u64;
    Triple: |bits| Triple([bits, mix(bits), !bits]), |v| v.0[0] ^ v.0[1].rotate_left(5) ^ v.0[2].rotate_left(9);
    (): |_| (), |_| 0;
}

const IDENTITY: u64 = 77;

/// One collective of vectors, and the calls of it.
#[derive(Debug, Clone)]
pub struct Case {
    pub kind: Kind,
    pub shards: u32,
    pub from: Vec<u32>,
    pub to: Vec<u32>,
    /// The sizes of the blocks, or the length of all vectors.
    pub sizes: Vec<usize>,
    /// All blocks have one size, and are made so.
    pub equal: bool,
    /// Sizes differ between pairs.
    pub between: bool,
    /// The size of one block, beside which all others are empty; 0 if there is none such.
    pub giant: usize,
    pub slots: u32,
    pub calls: u64,
    pub ahead: usize,
    pub split: bool,
    pub seed: u64,
    pub algorithm: Option<Algorithm>,
    pub commutes: bool,
}

/// What the shard at the first position has for the one at the second. If one is `giant`, that from `position` to 0.
fn between(seed: u64, giant: usize, position: u32) -> impl Fn(u32, u32) -> usize + Send + Sync + 'static {
    move |from, to| match giant {
        0 => (mix(seed ^ u64::from(from) << 32 ^ u64::from(to)) % 5) as usize,
        giant => giant * usize::from((from, to) == (position, 0)),
    }
}

/// A runtime drawn from a seed, as in other tests, or in virtual time.
pub fn runtime(seed: u64) -> (String, Runtime) {
    if crate::processes::runtimes().is_some() || !seed.is_multiple_of(3) {
        return any_runtime(seed / 3 * 2 + seed % 3);
    }
    let (nodes, per_node, mapper) = (1 + (seed % 4) as u32, 1 + (seed / 4 % 2) as u32, any_mapper(mix(seed)));
    let machine = VirtualMachine { nodes, per_node, seed, ..Default::default() };
    let at = format!("virtual time, seed {seed}, {nodes} nodes of {per_node}, mapper {}", mapper.name());
    (at, Runtime::virtual_time(machine).mapper(mapper))
}

impl Case {
    pub fn draw(seed: u64) -> Self {
        let mut d = Draw(seed);
        let kind = KINDS[d.below(8) as usize];
        let shards = 1 + d.below(11) as u32;
        let (mut from, mut to) = (d.ranks(shards), d.ranks(shards));
        match kind {
            Kind::Broadcast | Kind::Scatter => from.truncate(1),
            _ if d.below(2) == 0 => to = from.clone(),
            // Before the first that contributes there is nothing.
            Kind::Scan => {
                to.retain(|&rank| rank >= from[0]);
                if to.is_empty() {
                    to = from.clone();
                }
            }
            _ => {}
        }
        let blocks = match kind {
            Kind::ReduceScatter | Kind::Scatter => to.len(),
            Kind::Gather | Kind::AllToAll => from.len(),
            _ => 1,
        };
        let equal = d.below(2) == 0 || kind == Kind::AllToAll;
        let size = d.size();
        let sizes = (0..blocks).map(|_| if equal { size } else { d.size() }).collect();
        let commutes = d.below(3) == 0;
        let mut case = Self {
            between: kind == Kind::AllToAll && d.below(2) == 0,
            giant: 0,
            slots: 1 + d.below(3) as u32,
            calls: 1 + d.below(5),
            ahead: 1 + d.below(4) as usize,
            split: d.below(2) == 0,
            algorithm: None,
            kind,
            shards,
            from,
            to,
            sizes,
            equal,
            seed,
            commutes,
        };
        if d.below(4) > 0 {
            case.algorithm = Some(case.any_algorithm(&mut d));
        }
        case
    }

    fn sizes_are_equal(&self) -> bool {
        self.sizes.iter().all(|size| *size == self.sizes[0])
    }

    fn any_algorithm(&self, d: &mut Draw) -> Algorithm {
        let goal = self.goal();
        let fits = |a: &Algorithm| {
            let laws = a.laws(&goal);
            // Not all of the operators have an inverse.
            let lawful = (self.commutes || !laws.associative) && !laws.invertible || !goal.combines();
            // How two levels group depends on the mapper.
            let blocks =
                !(self.between || *a == Algorithm::Halving && !self.sizes_are_equal()) || *a == Algorithm::Direct;
            lawful && (self.commutes || !goal.combines() || *a != Algorithm::TwoLevel) && blocks
        };
        let fitting: Vec<Algorithm> = Algorithm::all_for(&goal).filter(fits).collect();
        fitting[d.below(fitting.len() as u64) as usize]
    }

    /// One with a block of one to two million elements, beside which all others are empty. One of four kinds by the seed.
    pub fn draw_giant(seed: u64) -> Self {
        let mut d = Draw(mix(seed));
        let kind = [Kind::Gather, Kind::Scatter, Kind::AllToAll, Kind::ReduceScatter][seed as usize % 4];
        let drawn = std::iter::repeat_with(|| Self::draw(d.below(u64::MAX)));
        let is_small = |case: &Self| {
            case.kind == kind && (2..=4).contains(&case.sizes.len()) && case.from.len().max(case.to.len()) <= 4
        };
        let mut case = drawn.into_iter().find(is_small).expect("there are many");
        let mut d = Draw(case.seed);
        let giant = (1 << 20) + d.below(1 << 20) as usize;
        let at = d.below(case.sizes.len() as u64) as usize;
        case.sizes.fill(0);
        case.sizes[at] = giant;
        case = Self { giant, calls: 1 + d.below(2), equal: false, between: kind == Kind::AllToAll, ..case };
        case.algorithm = Some(case.any_algorithm(&mut d));
        case
    }

    pub fn goal(&self) -> Goal {
        Goal::new(self.kind, self.shards, Ranks::of(self.from.clone()), Ranks::of(self.to.clone()), 1)
    }

    fn builder<T: Item>(&self) -> CollectiveBuilder<[T], [T]> {
        let crate::Combiner { operator, make, .. } = T::kind(self.commutes);
        let (from, to) = (Ranks::of(self.from.clone()), Ranks::of(self.to.clone()));
        let builder = Collective::of_kind(self.kind, from, to, (operator, make(IDENTITY)));
        let builder = match self.kind {
            Kind::AllToAll if self.between => builder.sizes_between(self.between()),
            kind if kind.has_blocks() && !self.equal => builder.sizes(self.sizes.clone()),
            _ => builder.elements(self.sizes[0]),
        };
        let builder = builder.slots(self.slots);
        match self.algorithm {
            Some(algorithm) => builder.algorithm(algorithm),
            None => builder,
        }
    }

    fn between(&self) -> impl Fn(u32, u32) -> usize + Send + Sync + 'static {
        let (contributors, receivers) = (self.from.len() as u32, self.to.len() as u32);
        let size = between(self.seed, self.giant, contributors - 1);
        move |from, to| {
            assert!(from < contributors && to < receivers, "no block goes from position {from} to {to}");
            size(from, to)
        }
    }

    /// The size of a block of a contributor for a receiver, by their positions.
    fn size(&self, from: usize, to: usize) -> usize {
        match self.kind {
            Kind::AllToAll if self.between => self.between()(from as u32, to as u32),
            Kind::AllToAll => self.sizes[0],
            Kind::Gather => self.sizes[from],
            Kind::Scatter | Kind::ReduceScatter => self.sizes[to],
            _ => self.sizes[0],
        }
    }

    /// A contribution as blocks.
    pub fn contribution<T: Item>(&self, call: u64, from: usize) -> Vec<Vec<T>> {
        let blocks = if self.kind.has_block_for_each_receiver() { self.to.len() } else { 1 };
        (0..blocks).map(|block| self.block(call, from, block)).collect()
    }

    /// One block of a contribution.
    fn block<T: Item>(&self, call: u64, from: usize, block: usize) -> Vec<T> {
        let make = T::kind(self.commutes).make;
        let base = self.seed ^ call << 50 ^ u64::from(self.from[from]) << 40 ^ (block as u64) << 32;
        (0..self.size(from, block)).map(|at| make(mix(base ^ at as u64))).collect()
    }

    /// What a receiver gets, by sequential code.
    pub fn expected<T: Item>(&self, call: u64, to: usize) -> Vec<T> {
        let crate::Combiner { combine, make, .. } = T::kind(self.commutes);
        let each = |a: &Vec<T>, b: &Vec<T>| -> Vec<T> { a.iter().zip(b).map(|(a, b)| combine(a, b)).collect() };
        let block = |from: u32, block: u32| {
            let block = if self.kind.has_block_for_each_receiver() { block as usize } else { 0 };
            self.block(call, from as usize, block)
        };
        // Whatever the brackets of a scan are, these operators tell whether the order is right.
        let fold = |all: Vec<Vec<T>>| match self.kind {
            Kind::Scan => self.scanned(&all, false, each),
            Kind::Exscan => self.scanned(&all, true, each),
            _ => tree(&all, each),
        };
        let blocks = self.goal().expected(self.to[to], block, fold);
        if blocks.is_empty() { vec![make(IDENTITY); self.sizes[0]] } else { blocks.concat() }
    }

    /// The combination of a scan's operands. In round k everybody combines what the shard 2^k before it has on the left of
    /// its own; an exclusive scan does so with what came, too.
    fn scanned<V: Clone>(&self, values: &[V], exclusive: bool, combine: impl Fn(&V, &V) -> V) -> V {
        // Of an exclusive scan this is what the next shard combines.
        let (mut windows, mut result, mut covered) = (values.to_vec(), None, 0);
        let mut distance = 1;
        while covered < values.len() {
            let at = values.len() - 1;
            if exclusive {
                let came = windows[at - covered].clone();
                result = Some(result.map_or(came.clone(), |result| combine(&came, &result)));
                covered += distance;
            } else {
                result = Some(windows[at].clone());
                covered = distance;
            }
            windows = (0..windows.len())
                .map(|i| match i.checked_sub(distance) {
                    Some(lower) => combine(&windows[lower], &windows[i]),
                    None => windows[i].clone(),
                })
                .collect();
            distance *= 2;
        }
        result.expect("there are operands")
    }

    /// Runs `body` in all shards, with the collective. Returns what each of them does.
    pub fn run<T: Item, R, F>(
        self: &Arc<Self>,
        runtime: &Runtime,
        body: fn(Arc<Self>, Shard, Collective<[T]>) -> F,
    ) -> Result<Vec<R>, Error>
    where
        R: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + 'static,
        F: Future<Output = Result<R, Error>> + 'static,
    {
        let case = self.clone();
        let outcome = runtime.run(move |top| {
            let case = case.clone();
            async move {
                let gang = top.gang("all", case.shards)?;
                let on = case.builder::<T>().make(&top, &gang, "it")?;
                let task = top.register("shard", move |shard: Shard, (): ()| body(case.clone(), shard, on));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            }
        });
        outcome.map(|(results, _)| results)
    }
}
