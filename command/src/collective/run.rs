//! The runs that are measured.

use super::kind::Parties;
use super::oracle::{IDENTITY, Oracle, VARIANTS, Vectors};
use super::values::{Measured, Op};
use maniple::regions::Vector;
use maniple::runtime::{Error, Gang, Input, Runtime, Shard, ShardLaunch, Stats, Top, now};
use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Kind, OfOne, Order, Value};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// The name of the collective that is measured, in reports and for the mapper.
pub const NAME: &str = "measured";

/// What is measured.
#[derive(Debug, Clone)]
pub struct Workload {
    pub parties: Parties,
    /// Elements of a block.
    pub elements: usize,
    pub op: Op,
    pub order: Order,
    pub algorithm: Option<Algorithm>,
    /// Calls before those that are measured.
    pub warm_up: usize,
    /// Calls that are measured.
    pub iterations: usize,
    /// Whether shards run in processes of this host or of others, which have no clock in common.
    pub processes: bool,
}

/// What a shard found.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Nanoseconds in all measured calls.
    pub ns: u64,
    /// The first call with a wrong result, and the first wrong element.
    pub wrong: Option<(u64, u64)>,
    /// The number of the clock that a barrier was timed by.
    pub clock: u64,
    /// When the shard entered the last calls of a barrier and when it left them, in nanoseconds of that clock.
    pub passed: Vec<(u64, u64)>,
}

impl Found {
    /// The mean time of a measured call, in microseconds.
    pub fn us(&self, iterations: usize) -> f64 {
        self.ns as f64 / iterations as f64 / 1000.0
    }

    /// Takes down a pass through a barrier: when it was entered and left, and how long it took.
    pub fn passes(&mut self, workload: &Workload, call: usize, passed: (u64, u64), ns: u64) {
        /// The calls whose times are compared: the last ones.
        const COMPARED: usize = 100;
        if call >= workload.warm_up {
            self.ns += ns;
        }
        if workload.warm_up + workload.iterations - call <= COMPARED {
            self.passed.push(passed);
        }
    }
}

/// A contribution or a result: one element or a vector.
pub trait Shaped: Value {
    /// The value with these elements.
    fn of(elements: Vec<Self::Element>) -> Self::Own;
    /// The first element that is not the right one.
    fn wrong(own: &Self::Own, right: &[Self::Element]) -> Option<u64>;
}

impl<T: Measured> Shaped for T {
    fn of(elements: Vec<T>) -> T {
        elements[0]
    }
    fn wrong(own: &T, right: &[T]) -> Option<u64> {
        first_difference(&[*own], right)
    }
}

impl<T: Measured> Shaped for [T] {
    fn of(elements: Vec<T>) -> Vector<T> {
        elements.into()
    }
    fn wrong(own: &Vector<T>, right: &[T]) -> Option<u64> {
        first_difference(own, right)
    }
}

/// The first place at which two vectors differ. If one is longer, that is the end of the other.
pub fn first_difference<T: PartialEq>(own: &[T], right: &[T]) -> Option<u64> {
    let differs = own.iter().zip(right).position(|(own, right)| own != right);
    differs.or_else(|| (own.len() != right.len()).then(|| own.len().min(right.len()))).map(|at| at as u64)
}

impl Workload {
    /// A kind with its usual parties, by the algorithm that the mapper chooses. A tenth as many calls come before those that are
    /// measured.
    pub fn usual(kind: Kind, shards: u32, elements: usize, op: Op, iterations: usize) -> Self {
        let elements = if kind == Kind::Barrier { 0 } else { elements };
        let (parties, warm_up) = (Parties::usual(kind, shards), iterations.div_ceil(10));
        Self { parties, elements, op, order: Order::Doubling, algorithm: None, warm_up, iterations, processes: false }
    }

    /// Does the run, and returns what each shard found.
    pub fn run<T: Measured>(&self, runtime: &Runtime) -> Result<(Vec<Found>, Stats), Error> {
        let workload = self.clone();
        let oracle = Arc::new(Oracle::<T>::new(&self.parties, self.elements, self.op));
        runtime.run(move |top| {
            let (workload, oracle) = (workload.clone(), oracle.clone());
            async move {
                let gang = top.gang("all", workload.parties.shards)?;
                workload.launch(&top, &gang, oracle).await
            }
        })
    }

    /// Makes the collective of a kind, and runs shards that call it. A single element is no vector.
    async fn launch<T: Measured>(&self, top: &Top, gang: &Gang, oracle: Arc<Oracle<T>>) -> Result<Vec<Found>, Error> {
        let Parties { kind, ref participants, ref receivers, .. } = self.parties;
        if kind == Kind::Barrier {
            return self.barrier(top, gang).await;
        }
        let by = (self.op.operator::<T>(), T::whole(IDENTITY));
        let builder = Collective::of_kind(kind, participants.clone(), receivers.clone(), by).elements(self.elements);
        match builder.of_one() {
            OfOne::One(builder) => self.with(builder, top, gang, oracle).await,
            OfOne::OneToMany(builder) => self.with(builder, top, gang, oracle).await,
            OfOne::ManyToOne(builder) => self.with(builder, top, gang, oracle).await,
            OfOne::Many(builder) => self.with(builder, top, gang, oracle).await,
        }
    }

    async fn with<T, I, O>(
        &self,
        builder: CollectiveBuilder<I, O>,
        top: &Top,
        gang: &Gang,
        oracle: Arc<Oracle<T>>,
    ) -> Result<Vec<Found>, Error>
    where
        T: Measured,
        I: Shaped<Element = T> + ?Sized + 'static,
        O: Shaped<Element = T> + ?Sized + 'static,
    {
        let on = self.asked(builder).make(top, gang, NAME)?;
        let start = self.barrier_of_all().make(top, gang, "start")?;
        let (warm_up, iterations) = (self.warm_up, self.iterations);
        let task = top.register("calls", move |shard: Shard, (): ()| {
            let calls = Calls { oracle: oracle.clone(), on, start, warm_up, iterations };
            calls.make(shard)
        });
        top.launch_gang(gang, &task, |_| ShardLaunch::new(()))?.all().await
    }

    /// With the brackets and the algorithm that are asked for.
    pub fn asked<I, O>(&self, builder: CollectiveBuilder<I, O>) -> CollectiveBuilder<I, O>
    where
        I: Value + ?Sized,
        O: Value<Element = I::Element> + ?Sized,
    {
        let builder = builder.order(self.order);
        match self.algorithm {
            Some(algorithm) => builder.algorithm(algorithm),
            None => builder,
        }
    }

    /// A barrier of all shards that take part. No mapper chooses its algorithm, as the times would depend on the choice. All
    /// shards leave this one at about the same time, whatever their number is.
    fn barrier_of_all(&self) -> CollectiveBuilder<()> {
        Collective::barrier().participants(self.parties.taking_part().iter()).algorithm(Algorithm::Dissemination(1))
    }

    async fn barrier(&self, top: &Top, gang: &Gang) -> Result<Vec<Found>, Error> {
        let Parties { ref participants, ref receivers, .. } = self.parties;
        let builder = Collective::barrier().participants(participants.iter()).receivers(receivers.iter());
        let on = self.asked(builder).make(top, gang, NAME)?;
        // Where the receivers are others, nothing else keeps participants from running ahead.
        let start = match participants == receivers {
            true => None,
            false => Some(self.barrier_of_all().make(top, gang, "start")?),
        };
        let workload = self.clone();
        let task = top.register("passes", move |shard: Shard, (): ()| {
            let passes = Passes { workload: workload.clone(), on, start };
            passes.make(shard)
        });
        top.launch_gang(gang, &task, |_| ShardLaunch::new(()))?.all().await
    }
}

/// The calls of one shard.
struct Calls<T, I: ?Sized, O: ?Sized> {
    oracle: Arc<Oracle<T>>,
    on: Collective<I, O>,
    start: Collective<()>,
    warm_up: usize,
    iterations: usize,
}

impl<T, I, O> Calls<T, I, O>
where
    T: Measured,
    I: Shaped<Element = T> + ?Sized,
    O: Shaped<Element = T> + ?Sized,
{
    /// Makes the calls. Each begins after a barrier, and its result is compared after another one: shards that share a worker
    /// would otherwise compare while others measure.
    async fn make(self, shard: Shard) -> Result<Found, Error> {
        let Parties { participants, receivers, .. } = &self.oracle.parties;
        let [from, to] = [participants, receivers].map(|ranks| ranks.position(shard.index()));
        let mut found = Found::default();
        if from.is_none() && to.is_none() {
            return Ok(found);
        }
        let own = from.map(|position| self.oracle.contributions(position).map(I::of));
        let right: Option<Vectors<T>> = to.map(|position| self.oracle.results(position));
        for call in 0..self.warm_up + self.iterations {
            let variant = call % VARIANTS;
            let input = own.as_ref().map(|own| own[variant].clone());
            self.start.call(&shard, ())?.await?;
            let began = now();
            let result = match (input, to) {
                (Some(input), Some(_)) => Some(self.on.call(&shard, Input::from(input))?.await?),
                (Some(input), None) => {
                    self.on.contribute(&shard, Input::from(input))?.await?;
                    None
                }
                (None, _) => Some(self.on.receive(&shard)?.await?),
            };
            let over = now();
            if call >= self.warm_up {
                found.ns += (over - began).as_nanos() as u64;
            }
            self.start.call(&shard, ())?.await?;
            if let (Some(result), Some(right), None) = (&result, &right, found.wrong) {
                found.wrong = O::wrong(result, &right[variant]).map(|element| (call as u64, element));
            }
        }
        Ok(found)
    }
}

/// The passes of one shard through a barrier.
struct Passes {
    workload: Workload,
    on: Collective<()>,
    start: Option<Collective<()>>,
}

impl Passes {
    async fn make(self, shard: Shard) -> Result<Found, Error> {
        let Workload { parties, processes, .. } = &self.workload;
        let [from, to] = [&parties.participants, &parties.receivers].map(|ranks| ranks.contains(shard.index()));
        let mut found = Found::default();
        if !from && !to {
            return Ok(found);
        }
        let clock = if *processes { Clock::Host } else { Clock::Run };
        found.clock = clock.number();
        for call in 0..self.workload.warm_up + self.workload.iterations {
            if let Some(start) = self.start {
                start.call(&shard, ())?.await?;
            }
            let (began, entered) = (now(), clock.ns());
            match (from, to) {
                (true, true) => self.on.call(&shard, ())?.await?,
                (true, false) => self.on.contribute(&shard, ())?.await?,
                (false, _) => self.on.receive(&shard)?.await?,
            }
            let (left, over) = (clock.ns(), now());
            found.passes(&self.workload, call, (entered, left), (over - began).as_nanos() as u64);
        }
        if let Some(start) = self.start {
            start.call(&shard, ())?.await?;
        }
        Ok(found)
    }
}

/// A clock that several shards have in common.
#[derive(Clone, Copy)]
pub enum Clock {
    /// The run's own: of one process, or of virtual time.
    Run,
    /// That of the host since it was started.
    Host,
}

impl Clock {
    /// Nanoseconds since some moment.
    pub fn ns(self) -> u64 {
        #[cfg(target_os = "linux")]
        if let Clock::Host = self {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            return time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        }
        now().as_nanos() as u64
    }

    /// Two shards with the same number have the same clock.
    pub fn number(self) -> u64 {
        match self {
            Clock::Run => 0,
            Clock::Host => {
                // A host has another one after each start, and one for each time namespace.
                let start = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
                let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
                let text = format!("{start}{}", namespace.display());
                text.bytes().fold(1, |hash: u64, byte| hash.wrapping_mul(0x100_0000_01B3) ^ u64::from(byte))
            }
        }
    }
}

/// The first pass in which a receiver left before a participant on the same clock had entered: its number among those that
/// are compared, the receiver and the participant.
pub fn early(parties: &Parties, found: &[Found]) -> Option<(usize, u32, u32)> {
    let passes = found.iter().map(|f| f.passed.len()).max().unwrap_or(0);
    (0..passes).find_map(|pass| {
        // Who entered last, by clock. Who did not enter at all is later than everybody.
        let mut last: HashMap<u64, (u64, u32)> = HashMap::new();
        for participant in parties.participants.iter() {
            let Found { clock, passed, .. } = &found[participant as usize];
            let entered = (passed.get(pass).map_or(u64::MAX, |passed| passed.0), participant);
            last.entry(*clock).and_modify(|last| *last = entered.max(*last)).or_insert(entered);
        }
        parties.receivers.iter().find_map(|receiver| {
            let Found { clock, passed, .. } = &found[receiver as usize];
            let (left, (entered, participant)) = (passed.get(pass)?.1, last.get(clock)?);
            (*entered > left).then_some((pass, receiver, *participant))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_collectives::Ranks;

    /// A run of this kind and operator beside the right results of another.
    fn found(kind: Kind, op: Op, right: (Kind, Op)) -> Vec<Found> {
        let of = |kind| {
            let participants = if kind == Kind::Broadcast { Ranks::one(1) } else { Ranks::all(4) };
            Parties { kind, shards: 4, participants, receivers: Ranks::all(4) }
        };
        let (warm_up, iterations) = (1, 3);
        let (parties, order) = (of(kind), Order::Doubling);
        let workload =
            Workload { parties, elements: 5, op, order, algorithm: None, warm_up, iterations, processes: false };
        let oracle = Arc::new(Oracle::<i64>::new(&of(right.0), 5, right.1));
        let outcome = Runtime::threads(2).run(move |top| {
            let (workload, oracle) = (workload.clone(), oracle.clone());
            async move {
                let gang = top.gang("all", 4)?;
                workload.launch(&top, &gang, oracle).await
            }
        });
        outcome.expect("runs").0
    }

    #[test]
    fn wrong_results_are_found_in_the_first_call() {
        let wrong = |found: Vec<Found>| found.iter().map(|f| f.wrong.map(|(call, _)| call)).collect::<Vec<_>>();
        let first = Some(0);
        for (kind, op, right, expected) in [
            (Kind::Allreduce, Op::Max, (Kind::Allreduce, Op::Max), [None; 4]),
            (Kind::Allreduce, Op::Max, (Kind::Allreduce, Op::Min), [first; 4]),
            (Kind::ReduceScatter, Op::Max, (Kind::ReduceScatter, Op::Min), [first; 4]),
            (Kind::Allreduce, Op::Sum, (Kind::Scan, Op::Sum), [first, first, first, None]),
            (Kind::Scan, Op::Sum, (Kind::Exscan, Op::Sum), [first; 4]),
            (Kind::Exscan, Op::Sum, (Kind::Scan, Op::Sum), [first; 4]),
            (Kind::Allgather, Op::Sum, (Kind::Allgather, Op::Sum), [None; 4]),
            (Kind::Broadcast, Op::Sum, (Kind::Broadcast, Op::Sum), [None; 4]),
        ] {
            assert_eq!(wrong(found(kind, op, right)), expected, "{kind:?} {op:?} beside {right:?}");
        }
    }

    #[test]
    fn the_first_difference() {
        assert_eq!(first_difference(&[1, 2, 3], &[1, 2, 3]), None);
        assert_eq!(first_difference(&[1, 5, 3], &[1, 2, 3]), Some(1));
        assert_eq!(first_difference(&[1, 2], &[1, 2, 3]), Some(2));
        assert_eq!(first_difference(&[1, 2, 3, 4], &[1, 2, 3]), Some(3));
    }

    #[test]
    fn who_leaves_a_barrier_early_is_named() {
        let all = Ranks::all(3);
        let parties = Parties { kind: Kind::Barrier, shards: 3, participants: all.clone(), receivers: all };
        let passed = |clock, passed: [(u64, u64); 2]| Found { clock, passed: passed.to_vec(), ..Found::default() };
        let mut found = vec![passed(0, [(1, 5), (6, 9)]), passed(0, [(2, 4), (5, 8)]), passed(0, [(3, 6), (8, 9)])];
        assert_eq!(early(&parties, &found), None);
        found[1].passed[1].1 = 7;
        assert_eq!(early(&parties, &found), Some((1, 1, 2)));
        // Another clock says nothing about it.
        found[1].clock = 1;
        assert_eq!(early(&parties, &found), None);
        // Somebody that did not come is late.
        found[2].passed.clear();
        assert_eq!(early(&parties, &found), Some((0, 0, 2)));
    }
}
