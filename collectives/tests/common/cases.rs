//! Collectives of vectors of every kind, drawn from a seed, and what each of their receivers must get by sequential code.

use crate::common::{brackets, exact, mix, tree};
use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Goal, Operator, Ranks};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Reduce,
    ReduceScatter,
    Scan,
    Exscan,
    Broadcast,
    Gather,
    Scatter,
    AllToAll,
}

const KINDS: [Kind; 8] = [
    Kind::Reduce,
    Kind::ReduceScatter,
    Kind::Scan,
    Kind::Exscan,
    Kind::Broadcast,
    Kind::Gather,
    Kind::Scatter,
    Kind::AllToAll,
];

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
    pub slots: u32,
    pub calls: u64,
    pub ahead: usize,
    pub split: bool,
    pub seed: u64,
    pub algorithm: Option<Algorithm>,
    pub commutes: bool,
}

/// What the shard at the first position has for the one at the second.
fn between(seed: u64) -> impl Fn(u32, u32) -> usize + Send + Sync + 'static {
    move |from, to| (mix(seed ^ u64::from(from) << 32 ^ u64::from(to)) % 5) as usize
}

impl Case {
    pub fn draw(seed: u64) -> Self {
        let mut d = Draw(seed);
        let kind = KINDS[d.below(8) as usize];
        let shards = 1 + d.below(11) as u32;
        let (mut from, mut to) = (d.ranks(shards), d.ranks(shards));
        match kind {
            Kind::Broadcast | Kind::Scatter => from.truncate(1),
            Kind::Scan | Kind::Exscan | Kind::AllToAll => to = from.clone(),
            _ if d.below(2) == 0 => to = from.clone(),
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
            let goal = case.goal();
            let fits = |a: &Algorithm| {
                let laws = a.laws(&goal);
                let lawful = commutes || !laws.associative || !goal.combines();
                // How two levels group depends on the mapper.
                lawful && (commutes || *a != Algorithm::TwoLevel) && (!case.between || *a == Algorithm::Direct)
            };
            let fitting: Vec<Algorithm> = Algorithm::all_for(&goal).filter(fits).collect();
            case.algorithm = Some(fitting[d.below(fitting.len() as u64) as usize]);
        }
        case
    }

    pub fn goal(&self) -> Goal {
        let (from, to) = (Ranks::of(self.from.clone()), Ranks::of(self.to.clone()));
        match self.kind {
            Kind::Reduce => Goal::reduce(self.shards, from, to, 1),
            Kind::ReduceScatter => Goal::reduce_scatter(self.shards, from, to),
            Kind::Scan => Goal::scan(self.shards, from, 1),
            Kind::Exscan => Goal::exscan(self.shards, from, 1),
            Kind::Broadcast => Goal::broadcast_to(self.shards, self.from[0], to, 1),
            Kind::Gather => Goal::gather(self.shards, from, to),
            Kind::Scatter => Goal::scatter(self.shards, self.from[0], to),
            Kind::AllToAll => Goal::all_to_all(self.shards, from),
        }
    }

    fn operator(&self) -> Operator<u64> {
        if self.commutes { exact().operator } else { brackets().operator }
    }

    fn combine(&self, a: u64, b: u64) -> u64 {
        if self.commutes { (exact().combine)(&a, &b) } else { (brackets().combine)(&a, &b) }
    }

    fn builder(&self) -> CollectiveBuilder<[u64], [u64]> {
        let sized = |builder: CollectiveBuilder<u64, [u64]>| match self.equal {
            true => builder.elements(self.sizes[0]),
            false => builder.sizes(self.sizes.clone()),
        };
        let (from, to) = (self.from.clone(), self.to.clone());
        let builder = match self.kind {
            Kind::Reduce => Collective::reduce(self.operator(), to).participants(from).elements(self.sizes[0]),
            Kind::Scan => Collective::scan(self.operator()).participants(from).elements(self.sizes[0]),
            Kind::Exscan => Collective::exscan(self.operator(), IDENTITY).participants(from).elements(self.sizes[0]),
            Kind::Broadcast => Collective::<u64>::broadcast(from[0]).receivers(to).elements(self.sizes[0]),
            Kind::Gather => sized(Collective::gather(to).participants(from)),
            Kind::ReduceScatter => {
                let builder = Collective::reduce_scatter(self.operator()).participants(from).receivers(to);
                if self.equal { builder.elements(self.sizes[0]) } else { builder.sizes(self.sizes.clone()) }
            }
            Kind::Scatter => {
                let builder = Collective::scatter(from[0]).receivers(to);
                if self.equal { builder.elements(self.sizes[0]) } else { builder.sizes(self.sizes.clone()) }
            }
            Kind::AllToAll => {
                let builder = Collective::all_to_all().participants(from);
                if self.between { builder.sizes_between(between(self.seed)) } else { builder.elements(self.sizes[0]) }
            }
        };
        let builder = builder.slots(self.slots);
        match self.algorithm {
            Some(algorithm) => builder.algorithm(algorithm),
            None => builder,
        }
    }

    /// The size of a block of a contributor for a receiver, by their positions.
    fn size(&self, from: usize, to: usize) -> usize {
        match self.kind {
            Kind::AllToAll if self.between => between(self.seed)(from as u32, to as u32),
            Kind::AllToAll => self.sizes[0],
            Kind::Gather => self.sizes[from],
            Kind::Scatter | Kind::ReduceScatter => self.sizes[to],
            _ => self.sizes[0],
        }
    }

    /// A contribution as blocks.
    pub fn contribution(&self, call: u64, from: usize) -> Vec<Vec<u64>> {
        let blocks = match self.kind {
            Kind::Scatter | Kind::ReduceScatter | Kind::AllToAll => self.to.len(),
            _ => 1,
        };
        let number = |block: usize, at: usize| {
            mix(self.seed ^ call << 50 ^ u64::from(self.from[from]) << 40 ^ (block as u64) << 20 ^ at as u64)
        };
        let block = |block| (0..self.size(from, block)).map(|at| number(block, at)).collect();
        (0..blocks).map(block).collect()
    }

    /// What a receiver gets, by sequential code.
    pub fn expected(&self, call: u64, to: usize) -> Vec<u64> {
        let block = |from: usize, block: usize| self.contribution(call, from).swap_remove(block);
        let each = |columns: Vec<Vec<u64>>, fold: &dyn Fn(&[u64]) -> u64| -> Vec<u64> {
            (0..columns[0].len()).map(|at| fold(&columns.iter().map(|c| c[at]).collect::<Vec<_>>())).collect()
        };
        let doubling = |values: &[u64]| tree(values, |a, b| self.combine(*a, *b));
        let all = 0..self.from.len();
        match self.kind {
            Kind::Reduce => each(all.map(|from| block(from, 0)).collect(), &doubling),
            Kind::ReduceScatter => each(all.map(|from| block(from, to)).collect(), &doubling),
            // Whatever the brackets of a scan are, these operators tell whether the order is right.
            Kind::Scan => each((0..=to).map(|from| block(from, 0)).collect(), &|v| self.scanned(v)),
            Kind::Exscan if to == 0 => vec![IDENTITY; self.sizes[0]],
            Kind::Exscan => each((0..to).map(|from| block(from, 0)).collect(), &|v| self.scanned(v)),
            Kind::Broadcast => block(0, 0),
            Kind::Gather => all.flat_map(|from| block(from, 0)).collect(),
            Kind::Scatter => block(0, to),
            Kind::AllToAll => all.flat_map(|from| block(from, to)).collect(),
        }
    }

    /// The combination of a scan's operands. In round k everybody combines what the shard 2^k before it has on the left of
    /// its own; an exclusive scan does so with what came, too.
    fn scanned(&self, values: &[u64]) -> u64 {
        let exclusive = self.kind == Kind::Exscan;
        // Of an exclusive scan this is what the next shard combines.
        let (mut windows, mut result, mut covered) = (values.to_vec(), None, 0);
        let mut distance = 1;
        while covered < values.len() {
            let at = values.len() - 1;
            if exclusive {
                let came = windows[at - covered];
                result = Some(result.map_or(came, |result| self.combine(came, result)));
                covered += distance;
            } else {
                result = Some(windows[at]);
                covered = distance;
            }
            windows = (0..windows.len())
                .map(|i| if i >= distance { self.combine(windows[i - distance], windows[i]) } else { windows[i] })
                .collect();
            distance *= 2;
        }
        result.expect("there are operands")
    }

    /// Runs `body` in all shards, with the collective. Returns what each of them does.
    pub fn run<R, F>(
        self: &Arc<Self>,
        runtime: &Runtime,
        body: fn(Arc<Self>, Shard, Collective<[u64]>) -> F,
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
                let on = case.builder().make(&top, &gang, "it")?;
                let task = top.register("shard", move |shard: Shard, (): ()| body(case.clone(), shard, on));
                top.launch(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            }
        });
        outcome.map(|(results, _)| results)
    }
}
