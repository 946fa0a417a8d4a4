//! Random programs of shards that arrive and wait, themselves and through leaf tasks, and how the runtime runs them.

use crate::common::mix;
use fastrand::Rng;
use maniple_mapper::{LeafInput, LeafOutput, Mapper, PlaceShardsInput, PlaceSharedInput, Placement};
use maniple_regions::{Coherence, Field, FieldId, Privilege, ReadShared, ReadWrite, Rect, Region, TreeId, WriteShared};
use maniple_runtime::{
    Consumer, Error, Local, Pairs, PhaseBarrier, PhaseOptions, Producer, Runtime, Shard, Start, TaskFuture, Top, Val,
    Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const U: Field<i64> = Field::new(0, "u");
/// Cells that a shard has to itself.
const OWN: i64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Shard,
    Leaf,
}

/// One step of a shard. Numbers that end in `of` name an earlier value of the shard.
#[derive(Debug, Clone)]
pub enum Step {
    /// Writes a number where the barrier's waiters look and arrives: the shard with `value`, a leaf with a value `of`.
    Arrive {
        phase: usize,
        value: i64,
        of: usize,
        by: By,
    },
    /// Waits for a phase and then reads what its arrivers wrote. With a reduction, a shard that waits gets its value.
    Wait {
        phase: usize,
        of: usize,
        by: By,
    },
    /// Puts a value into the next of the shard's buffers of a family of pairs.
    Fill {
        pairs: usize,
        of: usize,
        by: By,
    },
    /// Reads the next buffer of shard `from`, which produces for this one.
    Take {
        pairs: usize,
        from: u32,
        of: usize,
        by: By,
    },
    /// A leaf on the shard's own region.
    Update {
        of: usize,
    },
    /// A leaf on no region.
    Join {
        of: usize,
        with_of: usize,
    },
    Await {
        of: usize,
    },
    Yield,
}

#[derive(Debug, Clone, Copy)]
pub enum Fold {
    Sum,
    Max,
    /// Neither commutes nor associates.
    Digits,
}

impl Fold {
    pub fn call(self, a: u64, b: u64) -> u64 {
        match self {
            Fold::Sum => a.wrapping_add(b),
            Fold::Max => a.max(b),
            Fold::Digits => a.wrapping_mul(31).wrapping_add(b),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Phase {
    pub arrivers: Vec<u32>,
    pub waiters: Vec<u32>,
    pub window: u64,
    pub arity: usize,
    pub fold: Option<Fold>,
}

/// A family of pairs.
#[derive(Debug, Clone)]
pub struct Family {
    /// The consumer of each shard.
    pub to: Vec<u32>,
    /// How many buffers a producer fills in turn: so many tasks may use them at once, and arrive in any order.
    pub buffers: u64,
}

#[derive(Debug, Clone)]
pub struct Program {
    pub shards: u32,
    pub phases: Vec<Phase>,
    pub pairs: Vec<Family>,
    pub scripts: Vec<Vec<Step>>,
}

// What leaf tasks do.

pub fn joined(a: i64, b: i64) -> i64 {
    a.wrapping_mul(31).wrapping_add(b)
}

pub fn put(mut slot: WriteShared<i64>, value: Val<i64>) -> i64 {
    slot.fill(*value);
    joined(*value, 1)
}

/// `count` rows of `width` cells each; those of a row are `stride` apart.
#[derive(Clone, Copy)]
struct Cells {
    first: i64,
    stride: i64,
    count: i64,
    width: i64,
}

fn look(board: ReadShared<i64>, cells: Val<Cells>, value: Val<i64>) -> i64 {
    let at = (0..cells.count).flat_map(|i| (0..cells.width).map(move |j| cells.first + i + j * cells.stride));
    at.fold(*value, |sum, at| joined(sum, board.get([at])))
}

fn update(mut own: ReadWrite<i64>, value: Val<i64>) -> i64 {
    let mut sum = *value;
    for v in own.as_mut_slice() {
        sum = joined(sum, *v);
        *v = joined(*v, sum);
    }
    sum
}

fn join(a: Val<i64>, b: Val<i64>) -> i64 {
    joined(*a, *b)
}

/// A value of a shard: known, or to come from a leaf.
enum Number {
    Now(i64),
    Later(TaskFuture<i64>),
}

impl Number {
    fn input(&self) -> Value<i64> {
        match self {
            Number::Now(v) => (*v).into(),
            Number::Later(f) => f.into(),
        }
    }
    async fn value(&self) -> Result<i64, Error> {
        match self {
            Number::Now(v) => Ok(*v),
            Number::Later(f) => f.clone().await,
        }
    }
}

// Where things are: phase after phase one row an arriver and one column a generation,
// column after column, so that whoever waits for a generation names no cells of later ones; then the buffers of each pair,
// then the cells of each shard.

impl Program {
    fn columns(&self, phase: usize) -> i64 {
        let arrives = |s: &&Step| matches!(s, Step::Arrive { phase: p, .. } if *p == phase);
        self.scripts.iter().map(|s| s.iter().filter(arrives).count()).max().unwrap_or(0) as i64 + 1
    }

    fn board(&self, phase: usize) -> Rect {
        let size = |p: usize| self.phases[p].arrivers.len() as i64 * self.columns(p);
        let first = (0..phase).map(size).sum();
        Rect::line(first, first + size(phase))
    }

    fn buffers(&self, pairs: usize, producer: u32) -> Rect {
        let buffers = |p: usize| self.pairs[p].buffers as i64;
        let before: i64 = (0..pairs).map(|p| buffers(p) * i64::from(self.shards)).sum();
        let first = self.board(self.phases.len() - 1).hi(0) + before + buffers(pairs) * i64::from(producer);
        Rect::line(first, first + buffers(pairs))
    }

    /// The buffer of one generation.
    fn buffer(&self, pairs: usize, producer: u32, generation: u64) -> Rect {
        let at = self.buffers(pairs, producer).lo(0) + (generation % self.pairs[pairs].buffers) as i64;
        Rect::line(at, at + 1)
    }

    fn own(&self, shard: u32) -> Rect {
        let last = (self.pairs.len().checked_sub(1)).map(|p| self.buffers(p, self.shards - 1));
        let first = last.unwrap_or(self.board(self.phases.len() - 1)).hi(0) + OWN * i64::from(shard);
        Rect::line(first, first + OWN)
    }

    fn start(&self, tree: TreeId, shard: u32, handles: Handles) -> Start<Handles> {
        let region = |rect| Region::new(tree, rect);
        let fields: [FieldId; 1] = [U.id()];
        let mut start = Start::new(handles);
        let own = region(self.own(shard));
        start = start.holds(own, fields, Privilege::ReadWrite, Coherence::Exclusive);
        let mut share = |rect, writes: bool, reads: bool| {
            let privilege = match (writes, reads) {
                (false, false) => return,
                (true, false) => Privilege::WriteDiscard,
                (false, true) => Privilege::Read,
                (true, true) => Privilege::ReadWrite,
            };
            let start_now = std::mem::replace(&mut start, Start::new(Handles::default()));
            start = start_now.holds(region(rect), fields, privilege, Coherence::Simultaneous);
        };
        for (p, phase) in self.phases.iter().enumerate() {
            share(self.board(p), phase.arrivers.contains(&shard), phase.waiters.contains(&shard));
        }
        for (p, family) in self.pairs.iter().enumerate() {
            for (producer, &consumer) in (0..).zip(&family.to) {
                share(self.buffers(p, producer), producer == shard, consumer == shard);
            }
        }
        start
    }

    /// Runs the program; the values of each shard.
    pub fn run(self: &Arc<Self>, runtime: &Runtime) -> Result<Vec<Vec<i64>>, Error> {
        let program = self.clone();
        runtime.run(move |top| run(top, program.clone())).map(|r| r.0)
    }
}

type Handles = (Option<TreeId>, Vec<PhaseBarrier>, Vec<Pairs>);

async fn run(top: Top, program: Arc<Program>) -> Result<Vec<Vec<i64>>, Error> {
    let tree = top.tree("cells", Rect::line(0, program.own(program.shards).lo(0)), &[U.info()])?.tree;
    let gang = top.gang("all", program.shards)?;
    let (mut phases, mut pairs) = (Vec::new(), Vec::new());
    for (i, p) in program.phases.iter().enumerate() {
        let options = PhaseOptions::between(p.arrivers.clone(), p.waiters.clone()).window(p.window).arity(p.arity);
        let options = match p.fold {
            Some(fold) => options.reduce(move |a, b| fold.call(a, b)),
            None => options,
        };
        phases.push(top.phase_barrier(&format!("phase {i}"), &gang, options)?);
    }
    for (i, family) in program.pairs.iter().enumerate() {
        pairs.push(top.pairs(&format!("pairs {i}"), &gang, |s| family.to[s as usize])?);
    }
    let scripts = program.clone();
    let task = top.task("script", move |shard, handles| body(scripts.clone(), shard, handles));
    let handles = (Some(tree), phases, pairs);
    top.launch(&gang, &task, |s| program.start(tree, s, handles.clone()))?.all().await
}

async fn body(program: Arc<Program>, shard: Shard, handles: Handles) -> Result<Vec<i64>, Error> {
    let me = shard.index();
    let Some(tree) = handles.0 else { return Ok(Vec::new()) };
    let local = |rect: Rect| -> Result<Local, Error> { shard.region(Region::new(tree, rect)) };
    let own = local(program.own(me))?;
    let ends = |p: usize| -> Result<Producer, Error> { handles.2[p].producer(&shard) };
    let mut values = vec![Number::Now(i64::from(me))];
    for step in &program.scripts[me as usize] {
        let input = |of: usize| values[of % values.len()].input();
        let value = match *step {
            Step::Arrive { phase, value, of, by } => {
                let arriver = handles.1[phase].arriver(&shard)?;
                let row = program.phases[phase].arrivers.iter().position(|&s| s == me).unwrap_or(0);
                let rows = program.phases[phase].arrivers.len() as i64;
                let at = program.board(phase).lo(0) + arriver.generation() as i64 * rows + row as i64;
                let slot = local(Rect::line(at, at + 1))?.write_shared(U);
                match by {
                    By::Leaf => Number::Later(shard.launch(put, (slot, input(of))).arrive(&arriver).go()?),
                    By::Shard => {
                        let written = shard.launch(put, (slot, value.into())).go()?.await?;
                        match program.phases[phase].fold {
                            Some(_) => shard.arrive_with(&arriver, value as u64),
                            None => shard.arrive(&arriver),
                        }
                        Number::Now(written)
                    }
                }
            }
            Step::Wait { phase, of, by } => {
                let waiter = handles.1[phase].waiter(&shard)?;
                let (first, rows) = (program.board(phase).lo(0), program.phases[phase].arrivers.len() as i64);
                // A generation is over when all before it are: there is something in all their columns.
                let width = waiter.generation() as i64 + 1;
                let cells = Cells { first, stride: rows, count: rows, width };
                // Of generations that nobody ever arrives for there are no columns.
                let all = rows * width.min(program.columns(phase));
                let board = local(Rect::line(first, first + all))?.read_shared(U);
                match by {
                    By::Leaf => Number::Later(shard.launch(look, (board, cells.into(), input(of))).wait(&waiter).go()?),
                    By::Shard if program.phases[phase].fold.is_some() => {
                        let folded = shard.wait_value(&waiter).await?;
                        Number::Later(shard.launch(look, (board, cells.into(), (folded as i64).into())).go()?)
                    }
                    By::Shard => {
                        shard.wait(&waiter).await?;
                        Number::Later(shard.launch(look, (board, cells.into(), input(of))).go()?)
                    }
                }
            }
            Step::Fill { pairs, of, by } => {
                let Producer { empty, ready } = ends(pairs)?;
                let g = ready.generation();
                // The first fill of each buffer finds room, as generation 0 says.
                empty.seek((g + 1).saturating_sub(program.pairs[pairs].buffers));
                let slot = local(program.buffer(pairs, me, g))?.write_shared(U);
                match by {
                    By::Leaf => {
                        let launch = shard.launch(put, (slot, input(of)));
                        Number::Later(launch.wait(&empty).arrive(&ready).go()?)
                    }
                    By::Shard => {
                        shard.wait(&empty).await?;
                        let written = shard.launch(put, (slot, input(of))).go()?.await?;
                        shard.arrive(&ready);
                        Number::Now(written)
                    }
                }
            }
            Step::Take { pairs, from, of, by } => {
                let Consumer { ready, empty } = handles.2[pairs].consumer(&shard, from)?;
                let buffer = program.buffer(pairs, from, ready.generation());
                let cells = Cells { first: buffer.lo(0), stride: 1, count: 1, width: 1 };
                let slot = local(buffer)?.read_shared(U);
                match by {
                    By::Leaf => {
                        let launch = shard.launch(look, (slot, cells.into(), input(of)));
                        Number::Later(launch.wait(&ready).arrive(&empty).go()?)
                    }
                    By::Shard => {
                        shard.wait(&ready).await?;
                        let seen = shard.launch(look, (slot, cells.into(), input(of))).go()?.await?;
                        shard.arrive(&empty);
                        Number::Now(seen)
                    }
                }
            }
            Step::Update { of } => Number::Later(shard.launch(update, (own.read_write(U), input(of))).go()?),
            Step::Join { of, with_of } => Number::Later(shard.launch(join, (input(of), input(with_of))).go()?),
            Step::Await { of } => {
                values[of % values.len()].value().await?;
                continue;
            }
            Step::Yield => {
                shard.yield_now().await;
                continue;
            }
        };
        values.push(value);
    }
    let mut results = Vec::new();
    for value in &values {
        results.push(value.value().await?);
    }
    Ok(results)
}

// Random programs.

/// How a random program comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Mostly arrivals and waits.
    Barriers,
    /// Many subtasks besides.
    Whole,
}

fn some_of(random: &mut Rng, shards: u32) -> Vec<u32> {
    let mut all: Vec<u32> = (0..shards).collect();
    random.shuffle(&mut all);
    all.truncate(1 + random.usize(0..all.len()).min(random.usize(0..all.len())));
    all
}

/// A program that one order of steps gets through, and so all do; now and then with a change that may spoil it.
pub fn random(seed: u64, kind: Kind) -> Program {
    let mut random = Rng::with_seed(mix(seed));
    let r = &mut random;
    let shards = r.u32(1..=12);
    let phases: Vec<Phase> = (0..r.usize(1..=3))
        .map(|_| Phase {
            arrivers: some_of(r, shards),
            waiters: some_of(r, shards),
            window: r.choice([0, 1, 2, 3, 64]).unwrap_or(64),
            arity: r.usize(1..=4),
            fold: r.choice([None, Some(Fold::Sum), Some(Fold::Max), Some(Fold::Digits)]).flatten(),
        })
        .collect();
    let pairs: Vec<Family> = (0..r.usize(0..=2))
        .map(|_| Family { to: (0..shards).map(|_| r.u32(0..shards)).collect(), buffers: r.u64(1..=3) })
        .collect();
    let mut scripts: Vec<Vec<Step>> = vec![Vec::new(); shards as usize];
    // How often each shard has arrived, waited, and knows by its own waits that a phase was over.
    let table = || vec![vec![0u64; shards as usize]; phases.len()];
    let (mut arrived, mut waited, mut known) = (table(), table(), table());
    // Buffers that have been filled and not taken.
    let mut full: Vec<Vec<u64>> = pairs.iter().map(|p| vec![0; p.to.len()]).collect();
    // Whether to trust others to have waited: then an arrival may overrun the window.
    let daring = r.u32(0..4) == 0;
    for _ in 0..r.u32(6..=14) * shards + 4 {
        let s = r.u32(0..shards);
        let (i, of) = (s as usize, r.usize(0..20));
        let by = if r.bool() { By::Shard } else { By::Leaf };
        let over = |arrived: &[Vec<u64>], p: usize| phases[p].arrivers.iter().map(|&a| arrived[p][a as usize]).min();
        let p = r.usize(0..phases.len());
        let over = over(&arrived, p).unwrap_or(0);
        let local = if kind == Kind::Whole { 10 } else { 2 };
        match r.usize(0..12 + local) {
            0..5 if phases[p].arrivers.contains(&s) => {
                let sure = if daring { over } else { known[p][i] };
                if arrived[p][i] <= sure + phases[p].window {
                    scripts[i].push(Step::Arrive { phase: p, value: r.i64(-9..99), of, by });
                    arrived[p][i] += 1;
                } else if phases[p].waiters.contains(&s) && waited[p][i] < over {
                    scripts[i].push(Step::Wait { phase: p, of, by: By::Shard });
                    waited[p][i] += 1;
                    known[p][i] = waited[p][i];
                }
            }
            0..9 if phases[p].waiters.contains(&s) && waited[p][i] < over => {
                scripts[i].push(Step::Wait { phase: p, of, by });
                waited[p][i] += 1;
                if by == By::Shard {
                    known[p][i] = waited[p][i];
                }
            }
            0..12 if !pairs.is_empty() => {
                let pairs_at = r.usize(0..pairs.len());
                let full = &mut full[pairs_at];
                let due = |&from: &u32| full[from as usize] > 0 && pairs[pairs_at].to[from as usize] == s;
                let from = (0..shards).find(due);
                match from {
                    Some(from) if r.bool() => {
                        full[from as usize] -= 1;
                        scripts[i].push(Step::Take { pairs: pairs_at, from, of, by });
                    }
                    _ if full[i] < pairs[pairs_at].buffers => {
                        full[i] += 1;
                        scripts[i].push(Step::Fill { pairs: pairs_at, of, by });
                    }
                    _ => {}
                }
            }
            n => scripts[i].push(match n % 4 {
                0 => Step::Update { of },
                1 => Step::Join { of, with_of: r.usize(0..20) },
                2 => Step::Await { of },
                _ => Step::Yield,
            }),
        }
    }
    for _ in 0..r.u32(0..4).saturating_sub(1) {
        spoil(r, &mut scripts);
    }
    Program { shards, phases, pairs, scripts }
}

fn spoil(random: &mut Rng, scripts: &mut [Vec<Step>]) {
    let Some(script) = random.choice(scripts.iter_mut().filter(|s| s.len() > 1).collect::<Vec<_>>()) else { return };
    let at = random.usize(0..script.len() - 1);
    match random.u32(0..3) {
        0 => drop(script.remove(at)),
        1 => script.swap(at, at + 1),
        _ => script.insert(at, script[at].clone()),
    }
}

/// Puts shards and shared regions anywhere, and leaf tasks on any processor of the node.
pub struct Strewn {
    seed: u64,
    leaves: AtomicU64,
}

impl Strewn {
    pub fn new(seed: u64) -> Self {
        Self { seed: mix(seed ^ 0x5eed), leaves: AtomicU64::new(0) }
    }
}

impl Mapper for Strewn {
    fn name(&self) -> &str {
        "strewn"
    }
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        let n = u64::from(input.machine.processors());
        Placement::Explicit((0..input.shards).map(|s| (mix(self.seed ^ u64::from(s)) % n) as u32).collect())
    }
    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> u32 {
        (mix(self.seed ^ input.region.rect.lo(0) as u64) % u64::from(input.machine.processors())) as u32
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let node = input.machine.processors_of(input.machine.node_of(input.processor));
        let nth = mix(self.seed ^ self.leaves.fetch_add(1, Ordering::Relaxed)) % node.len() as u64;
        LeafOutput { processor: node.start + nth as u32, ..LeafOutput::local(input) }
    }
}
