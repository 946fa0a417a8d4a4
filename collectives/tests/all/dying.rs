//! Shards that make some of their calls and then fail. What they have contributed counts, and what they owe fails.

use crate::common::{any_runtime, mix, watched};
use maniple_collectives::{Algorithm, Collective, CollectiveBuilder, Goal, Operator, Order, Ranks};
use maniple_runtime::{Error, Gang, PhaseBarrier, PhaseOptions, Place, Runtime, Shard, ShardLaunch, TaskFuture, Top};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Allreduce,
    Reduce,
    Scan,
    Exscan,
    Broadcast,
    Allgather,
    Gather,
    Scatter,
    ReduceScatter,
    AllToAll,
}

const KINDS: [Kind; 10] = [
    Kind::Allreduce,
    Kind::Reduce,
    Kind::Scan,
    Kind::Exscan,
    Kind::Broadcast,
    Kind::Allgather,
    Kind::Gather,
    Kind::Scatter,
    Kind::ReduceScatter,
    Kind::AllToAll,
];

/// How a shard ends after a number of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Panics(usize),
    GivesUp(usize),
}

#[derive(Debug, Clone)]
struct Case {
    kind: Kind,
    algorithm: Algorithm,
    shards: u32,
    /// The shard of a kind with one contributor, or with one receiver.
    root: u32,
    elements: usize,
    slots: u32,
    calls: usize,
    /// For each shard.
    ends: Vec<Option<End>>,
    /// Calls that a shard makes before it awaits the first of them.
    ahead: usize,
}

/// What a shard saw of each call: the result, or whether there is an error.
type Seen = Vec<Option<Vec<u64>>>;

impl Case {
    fn draw(seed: u64) -> Self {
        let draw = |n: u64, of: u64| mix(seed ^ n << 48) % of;
        let kind = KINDS[draw(0, 10) as usize];
        let shards = 2 + draw(1, 6) as u32;
        let root = draw(2, shards.into()) as u32;
        let (all, one) = (|| Ranks::all(shards), Ranks::one(root));
        let goal = match kind {
            Kind::Allreduce => Goal::allreduce(shards, 1),
            Kind::Reduce => Goal::reduce(shards, all(), one, 1),
            Kind::Scan => Goal::scan(shards, all(), all(), 1),
            Kind::Exscan => Goal::exscan(shards, all(), all(), 1),
            Kind::Broadcast => Goal::broadcast(shards, root, 1),
            Kind::Allgather => Goal::gather(shards, all(), all()),
            Kind::Gather => Goal::gather(shards, all(), one),
            Kind::Scatter => Goal::scatter(shards, root, all()),
            Kind::ReduceScatter => Goal::reduce_scatter(shards, all(), all()),
            Kind::AllToAll => Goal::all_to_all(shards, all(), all()),
        };
        let algorithms: Vec<Algorithm> = Algorithm::all_for(&goal).collect();
        let calls = 1 + draw(3, 6) as usize;
        let end = |shard: u32| {
            let made = draw(20 + u64::from(shard), calls as u64 + 1) as usize;
            match draw(40 + u64::from(shard), 5) {
                0 => Some(End::Panics(made)),
                1 => Some(End::GivesUp(made)),
                _ => None,
            }
        };
        Self {
            kind,
            algorithm: algorithms[draw(4, algorithms.len() as u64) as usize],
            shards,
            root,
            elements: [1, 3, 700][draw(5, 3) as usize],
            slots: 1 + draw(6, 3) as u32,
            calls,
            ends: (0..shards).map(end).collect(),
            ahead: 1 + draw(7, 6) as usize,
        }
    }

    fn gives(&self, shard: u32) -> bool {
        shard == self.root || !matches!(self.kind, Kind::Broadcast | Kind::Scatter)
    }

    fn gets(&self, shard: u32) -> bool {
        shard == self.root || !matches!(self.kind, Kind::Reduce | Kind::Gather)
    }

    /// Whether the result of one shard depends on the contribution of another.
    fn needs(&self, shard: u32, other: u32) -> bool {
        match self.kind {
            Kind::Scan => other <= shard,
            Kind::Exscan => other < shard,
            _ => self.gives(other),
        }
    }

    /// The calls that a shard makes.
    fn made(&self, shard: u32) -> usize {
        match self.ends[shard as usize] {
            Some(End::Panics(made) | End::GivesUp(made)) => made,
            None => self.calls,
        }
    }

    fn contribution(&self, call: usize, shard: u32) -> Vec<u64> {
        let blocks = match self.kind {
            Kind::Scatter | Kind::ReduceScatter | Kind::AllToAll => self.shards as usize,
            _ => 1,
        };
        let own = mix((call as u64) << 32 | u64::from(shard)) >> 8;
        (0..(blocks * self.elements) as u64).map(|e| own + e).collect()
    }

    /// The result of a shard if all that it needs is given.
    fn result(&self, call: usize, shard: u32) -> Vec<u64> {
        let of = |s: u32| self.contribution(call, s);
        let block = |all: Vec<u64>| all[shard as usize * self.elements..][..self.elements].to_vec();
        let all = || (0..self.shards).map(of);
        let sum = |a: Vec<u64>, b: Vec<u64>| a.iter().zip(b).map(|(a, b)| a.wrapping_add(b)).collect::<Vec<u64>>();
        match self.kind {
            Kind::Allreduce | Kind::Reduce => all().reduce(sum).unwrap(),
            Kind::Scan => all().take(shard as usize + 1).reduce(sum).unwrap(),
            Kind::Exscan => all().take(shard as usize).reduce(sum).unwrap_or(vec![7; self.elements]),
            Kind::Broadcast => of(self.root),
            Kind::Allgather | Kind::Gather => all().flatten().collect(),
            Kind::Scatter => block(of(self.root)),
            Kind::ReduceScatter => block(all().reduce(sum).unwrap()),
            Kind::AllToAll => all().flat_map(block).collect(),
        }
    }

    fn make(&self, top: &Top, gang: &Gang) -> Result<Collective<[u64]>, Error> {
        let sum = Operator::<u64>::sum;
        let builder: CollectiveBuilder<[u64]> = match self.kind {
            Kind::Allreduce => Collective::allreduce(sum()).elements(self.elements),
            Kind::Reduce => Collective::reduce(sum(), [self.root]).elements(self.elements),
            Kind::Scan => Collective::scan(sum()).elements(self.elements),
            Kind::Exscan => Collective::exscan(sum(), 7).elements(self.elements),
            Kind::Broadcast => Collective::<u64>::broadcast(self.root).elements(self.elements),
            Kind::Allgather => Collective::<u64>::allgather().elements(self.elements),
            Kind::Gather => Collective::<u64>::gather([self.root]).elements(self.elements),
            Kind::Scatter => Collective::<u64>::scatter(self.root).elements(self.elements),
            Kind::ReduceScatter => Collective::<u64>::reduce_scatter(sum()).elements(self.elements),
            Kind::AllToAll => Collective::<u64>::all_to_all().elements(self.elements),
        };
        builder.slots(self.slots).algorithm(self.algorithm).order(Order::Any).make(top, gang, "dying")
    }

    async fn calls(self, shard: Shard, it: Collective<[u64]>) -> Result<Seen, Error> {
        let me = shard.index();
        let (mut pending, mut seen): (Vec<TaskFuture<_>>, Seen) = (Vec::new(), Vec::new());
        for call in 0..=self.calls {
            match self.ends[me as usize] {
                Some(End::Panics(made)) if made == call => panic!("shard {me} ends"),
                Some(End::GivesUp(made)) if made == call => return Err(Error::user("gives up")),
                _ if call == self.calls => break,
                _ => {}
            }
            let own = || self.contribution(call, me);
            match (self.gives(me), self.gets(me)) {
                (true, true) => pending.push(it.call(&shard, own())?),
                // Whether it is told of an error depends on the way that values take.
                (true, false) => _ = it.contribute(&shard, own())?.await,
                (false, _) => pending.push(it.receive(&shard)?),
            }
            if call + 1 >= self.ahead && self.gets(me) {
                seen.push(pending.remove(0).await.ok().map(|v| v.to_vec()));
            }
            if mix(call as u64 ^ u64::from(me) << 20).is_multiple_of(3) {
                shard.yield_now().await;
            }
        }
        for result in pending {
            seen.push(result.await.ok().map(|v| v.to_vec()));
        }
        Ok(seen)
    }

    /// What the shards that do not fail saw.
    fn run(&self, number: u64) -> Vec<Option<Seen>> {
        let (at, runtime) = any_runtime(number);
        let at = format!("{self:?} on {at}");
        let case = self.clone();
        let outcome = watched(&at, || {
            runtime.run(move |top| {
                let case = case.clone();
                async move {
                    let gang = top.gang("all", case.shards)?;
                    let it = case.make(&top, &gang)?;
                    let own = case.clone();
                    let task = top.register("shard", move |shard, (): ()| own.clone().calls(shard, it));
                    let mut all = Vec::new();
                    for shard in top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.iter() {
                        all.push(shard.clone().await);
                    }
                    Ok(all)
                }
            })
        });
        let (all, _) = outcome.unwrap_or_else(|e| panic!("{at}: {e}"));
        let mut seen = Vec::new();
        for (shard, came) in (0u32..).zip(all) {
            let own = |e: &Error| match e.origin() {
                Error::Panicked { place: Place { shard: Some(s), .. }, .. } => *s == shard,
                other => *other == Error::user("gives up"),
            };
            match (came, self.ends[shard as usize]) {
                (Ok(came), None) => seen.push(Some(came)),
                (Err(e), Some(_)) => {
                    assert!(own(&e), "{at}: shard {shard}: {e}");
                    seen.push(None);
                }
                (came, _) => panic!("{at}: shard {shard} ends with {came:?}"),
            }
        }
        self.check(&seen, &at);
        seen
    }

    fn check(&self, seen: &[Option<Seen>], at: &str) {
        for (shard, seen) in (0u32..).zip(seen).filter_map(|(s, seen)| Some((s, seen.as_ref()?))) {
            let calls = if self.gets(shard) { self.calls } else { 0 };
            assert_eq!(seen.len(), calls, "{at}: shard {shard}");
            for (call, came) in seen.iter().enumerate() {
                let given = |other: u32| call < self.made(other);
                let needed = (0..self.shards).filter(|&other| self.needs(shard, other)).all(given);
                match came {
                    Some(came) => {
                        assert!(needed, "{at}: shard {shard}, call {call} has a result");
                        assert_eq!(*came, self.result(call, shard), "{at}: shard {shard}, call {call}");
                    }
                    None => assert!(!(0..self.shards).all(given), "{at}: shard {shard}, call {call} fails"),
                }
            }
        }
    }
}

/// A call has a result where all have made it. It fails where somebody has not whose contribution is needed. All else is
/// the same on every wire, under every order.
fn what_was_given_counts() {
    let (mut mixed, mut failed) = (0, 0);
    for seed in 0..100 {
        let case = Case::draw(seed);
        let first = case.run(seed * 8);
        for number in 1..8 {
            assert_eq!(first, case.run(seed * 8 + number), "{case:?}, number {number}: not as before");
        }
        let of = |call: usize| first.iter().flatten().filter_map(move |seen| Some(seen.get(call)?.is_some()));
        failed += (0..case.calls).filter(|&call| of(call).any(|is_there| !is_there)).count();
        mixed += (0..case.calls).filter(|&call| of(call).any(|is_there| is_there != of(call).next().unwrap())).count();
    }
    // Many calls fail, and a few only where a scan or a broadcast does not need everybody.
    assert!(failed > 100 && mixed < failed / 2, "{failed} failed, {mixed} on some shards only");
}

#[test]
fn what_a_shard_has_given_before_it_fails_counts() {
    what_was_given_counts();
}

/// Shard 0 fails while its call of `late` waits for shard 2, which waits for shard 1, which waits for the call that shard 0
/// owes. So what a shard owes fails at once, not when all its calls have ended.
#[test]
fn a_call_that_is_owed_fails_before_others_are_over() {
    type Both = (Collective<u64>, Collective<u64>, PhaseBarrier);
    async fn shard(shard: Shard, (sum, late, learned): Both) -> Result<Vec<Option<u64>>, Error> {
        let me = shard.index();
        let first = sum.call(&shard, 1)?;
        if me == 0 {
            late.call(&shard, 10)?.detach();
            panic!("owes a call");
        }
        let mut seen = vec![first.await.ok()];
        if me == 1 {
            seen.push(sum.call(&shard, 1)?.await.ok());
            shard.arrive(&learned.arriver(&shard)?);
        } else {
            shard.wait(&learned.waiter(&shard)?).await?;
        }
        seen.push(late.call(&shard, 10)?.await.ok());
        Ok(seen)
    }
    for algorithm in [Algorithm::TwoLevel, Algorithm::RecursiveDoubling, Algorithm::Dissemination(2)] {
        for seed in 0..60 {
            let processors = if algorithm == Algorithm::TwoLevel { 1 } else { 1 + seed as u32 % 3 };
            let at = format!("{algorithm}, seed {seed}");
            let run = watched(&at, || {
                Runtime::seeded(processors, seed).run(move |top| async move {
                    let gang = top.gang("all", 3)?;
                    let sum = || Collective::<u64>::allreduce(Operator::sum()).algorithm(algorithm).slots(1);
                    let (sum, late) = (sum().make(&top, &gang, "sum")?, sum().make(&top, &gang, "late")?);
                    let learned = top.phase_barrier("learned", &gang, PhaseOptions::between([1], [2]))?;
                    let task = top.register("shard", shard);
                    let ends = top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, late, learned)))?;
                    let mut all = Vec::new();
                    for end in ends.iter() {
                        all.push(end.clone().await.map_err(|e| e.origin().to_string()));
                    }
                    Ok(all)
                })
            });
            let (all, _) = run.unwrap_or_else(|e| panic!("{at}: {e}"));
            let panicked = Err("task `shard` of shard 0 panicked: owes a call".to_string());
            assert_eq!(all, [panicked, Ok(vec![Some(3), None, Some(30)]), Ok(vec![Some(3), Some(30)])], "{at}");
        }
    }
}

/// A shard that fails takes nothing from the calls of other gangs on its processor.
#[test]
fn calls_of_other_gangs_go_on() {
    async fn shard(shard: Shard, (sum, fails_at): (Collective<u64>, Option<u64>)) -> Result<u64, Error> {
        let mut last = 0;
        for call in 0..20 {
            if shard.index() == 0 && Some(call) == fails_at {
                return Err(Error::user("enough"));
            }
            last = sum.call(&shard, call)?.await?;
        }
        Ok(last)
    }
    for seed in 0..40 {
        let at = format!("seed {seed}");
        let run = watched(&at, || {
            Runtime::seeded(1 + seed as u32 % 2, seed).run(|top| async move {
                let gangs = [top.gang("fails", 2)?, top.gang("goes on", 2)?];
                let task = top.register("shard", shard);
                let mut ends = Vec::new();
                for (gang, fails_at) in gangs.iter().zip([Some(5), None]) {
                    let sum = Collective::<u64>::allreduce(Operator::sum()).slots(1).make(&top, gang, "sum")?;
                    ends.push(top.launch_gang(gang, &task, |_| ShardLaunch::new((sum, fails_at)))?);
                }
                let failed = ends[0].all().await.map_err(|e| e.origin().to_string());
                Ok((failed, ends[1].all().await?))
            })
        });
        let (failed, went_on) = run.unwrap_or_else(|e| panic!("{at}: {e}")).0;
        assert!(failed.as_ref().is_err_and(|e| e.contains("enough")), "{at}: {failed:?}");
        assert_eq!(went_on, [38, 38], "{at}");
    }
}

#[test]
fn on_processes() {
    let name = "what_a_shard_has_given_before_it_fails_counts";
    crate::common::processes::bodies_on_processes("dying::on_processes", &[(name, what_was_given_counts)]);
}
