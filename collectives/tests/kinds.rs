//! Every kind of collective against sequential code: random participants, receivers, sizes, types of calls and wires.

mod common;

use common::{affine, any_runtime, brackets, exact, mix, tree, watched};
use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Goal, Operator, Ranks};
use maniple_regions::Vector;
use maniple_runtime::{Arg, Error, Input, Runtime, Shard, ShardLaunch, TaskFuture};
use std::collections::VecDeque;
use std::sync::Arc;

/// A source of numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
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
enum Kind {
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
struct Case {
    kind: Kind,
    shards: u32,
    from: Vec<u32>,
    to: Vec<u32>,
    /// The sizes of the blocks, or the length of all vectors.
    sizes: Vec<usize>,
    /// All blocks have one size, and are made so.
    equal: bool,
    between: bool,
    slots: u32,
    calls: u64,
    ahead: usize,
    split: bool,
    seed: u64,
    algorithm: Option<Algorithm>,
    commutes: bool,
}

/// What the shard at the first position has for the one at the second.
fn between(seed: u64) -> impl Fn(u32, u32) -> usize + Send + Sync + 'static {
    move |from, to| (mix(seed ^ u64::from(from) << 32 ^ u64::from(to)) % 5) as usize
}

impl Case {
    fn draw(seed: u64) -> Self {
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

    fn goal(&self) -> Goal {
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
    fn contribution(&self, call: u64, from: usize) -> Vec<Vec<u64>> {
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
    fn expected(&self, call: u64, to: usize) -> Vec<u64> {
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

    async fn shard(self: Arc<Self>, shard: Shard, on: Collective<[u64]>) -> Result<Vec<Vec<u64>>, Error> {
        let me = shard.index();
        let position = |ranks: &[u32]| ranks.iter().position(|&rank| rank == me);
        let (from, to) = (position(&self.from), position(&self.to));
        let (mut pending, mut results) = (VecDeque::<TaskFuture<Vector<u64>>>::new(), Vec::new());
        let mut over = Vec::new();
        for call in 0..self.calls {
            let own = from.map(|from| self.contribution(call, from).concat());
            let input = |own: Vec<u64>| -> Result<Input<Vec<u64>>, Error> {
                Ok(if mix(self.seed ^ call ^ u64::from(me)).is_multiple_of(3) {
                    (&shard.launch(|own: Arg<Vec<u64>>| own.0, (own.into(),)).go()?).into()
                } else {
                    own.into()
                })
            };
            match (own, to) {
                (Some(own), Some(_)) if self.split => {
                    over.push(on.contribute(&shard, input(own)?)?);
                    if call % 2 == 1 || call + 1 == self.calls {
                        // Two results at a time.
                        for _ in 0..1 + call % 2 {
                            pending.push_back(on.receive(&shard)?);
                        }
                    }
                }
                (Some(own), Some(_)) => pending.push_back(on.call(&shard, input(own)?)?),
                (Some(own), None) => over.push(on.contribute(&shard, input(own)?)?),
                (None, Some(_)) => pending.push_back(on.receive(&shard)?),
                (None, None) => {}
            }
            while pending.len() >= self.ahead
                && let Some(oldest) = pending.pop_front()
            {
                results.push(oldest.await?);
            }
        }
        for future in pending {
            results.push(future.await?);
        }
        for future in over {
            future.await?;
        }
        // None has changed since it came.
        Ok(results.into_iter().map(Vector::into_vec).collect())
    }

    fn run(self: &Arc<Self>, runtime: &Runtime) -> Result<Vec<Vec<Vec<u64>>>, Error> {
        let case = self.clone();
        let outcome = runtime.run(move |top| {
            let case = case.clone();
            async move {
                let gang = top.gang("all", case.shards)?;
                let on = case.builder().make(&top, &gang, "it")?;
                let task = top.register("shard", move |shard: Shard, (): ()| case.clone().shard(shard, on));
                top.launch(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            }
        });
        outcome.map(|(results, _)| results)
    }

    fn check(self: &Arc<Self>, runtime: &Runtime, at: &str) {
        let at = format!("{at}: {self:?}");
        let came = watched(&at, || self.run(runtime)).unwrap_or_else(|e| panic!("{at}: {e}"));
        for (shard, results) in (0u32..).zip(came) {
            let to = self.to.iter().position(|&rank| rank == shard);
            let expected: Vec<_> =
                to.into_iter().flat_map(|to| (0..self.calls).map(move |call| self.expected(call, to))).collect();
            assert!(results == expected, "{at}: shard {shard} got {results:x?}, expected {expected:x?}");
        }
    }
}

#[test]
fn all_kinds_give_what_sequential_code_gives() {
    // A run of several processes takes longer.
    let cases = if common::processes::runtimes().is_some() { 250 } else { 2000 };
    for seed in 0..cases {
        let (at, runtime) = any_runtime(seed);
        Arc::new(Case::draw(mix(seed))).check(&runtime, &at);
    }
}

#[test]
fn scans_keep_the_order_of_shards() {
    let kind = affine();
    for shards in 1..=17 {
        let operator = kind.operator.clone();
        let (sums, _) = Runtime::threads(2)
            .run(move |top| {
                let operator = operator.clone();
                async move {
                    let gang = top.gang("all", shards)?;
                    let all = Collective::scan(operator).make(&top, &gang, "all")?;
                    let make = kind.make;
                    let task = top.register("shard", move |shard: Shard, (): ()| async move {
                        Ok(common::bytes(&[all.call(&shard, make(shard.index().into()))?.await?]))
                    });
                    top.launch(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                }
            })
            .unwrap();
        let mut expected = (kind.make)(0);
        assert_eq!(sums[0], common::bytes(&[expected]));
        for shard in 1..shards {
            expected = (kind.combine)(&expected, &(kind.make)(shard.into()));
            assert_eq!(sums[shard as usize], common::bytes(&[expected]));
        }
    }
}

/// Those with several registers, too, although a barrier has nothing to put there.
#[test]
fn barriers_by_every_algorithm() {
    for shards in 1..=9 {
        for algorithm in Algorithm::all_for(&Goal::allreduce(shards, 1)) {
            for seed in 0..3 {
                let (at, runtime) = any_runtime(seed);
                let at = format!("{at}: {algorithm}, {shards} shards");
                let outcome = watched(&at, || {
                    runtime.run(move |top| async move {
                        let gang = top.gang("all", shards)?;
                        let barrier = Collective::barrier().algorithm(algorithm).make(&top, &gang, "barrier")?;
                        let task = top.register("shard", move |shard: Shard, (): ()| async move {
                            for _ in 0..5 {
                                barrier.call(&shard, ())?.await?;
                            }
                            Ok(())
                        });
                        top.launch(&gang, &task, |_| ShardLaunch::new(()))?.all().await
                    })
                });
                outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
            }
        }
    }
}

#[test]
fn on_processes() {
    common::processes::bodies_on_processes(
        "on_processes",
        &[("all_kinds_give_what_sequential_code_gives", all_kinds_give_what_sequential_code_gives)],
    );
}
