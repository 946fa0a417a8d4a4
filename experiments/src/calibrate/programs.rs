//! The programs that `maniple-experiments calibrate` measures. Each repeats one operation of the runtime, on all processors at the same
//! time, with a number of shards that take turns.

use super::rounds::{Rounds, VALUE};
use maniple::prelude::*;
use maniple::regions::{Privilege, ReadShared, WriteShared};
use maniple::runtime::Consumer;
use maniple_command::Failure;
use maniple_stencil::kernel;
use maniple_stencil::shards::D;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The work of a shard in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum What {
    /// Yields to others: a poll.
    Yield,
    /// Launches an empty leaf task and waits for it.
    Leaf,
    /// Launches this many, and waits for them. Only the time of the launches counts.
    Launch(u32),
    /// A leaf task that arrives at a barrier for the next shard of the processor, and waits for the barrier of the last shard.
    Barrier,
    /// An empty leaf task with five region requirements: one exclusive, four shared.
    Regions,
    /// A leaf task that takes its value from a call of a collective. The next call takes its result. It is the stencil's leaf
    /// task on a block of this many cells, or with 0 an empty one with the same parameters. Each gets values from the shards on
    /// both sides and puts values for them. A call has [`FED`] rounds between two shards of a processor.
    Fed(u32),
    /// A leaf task that fills a region of this many cells.
    Fill(u32),
    /// A call of a collective of the shards of a processor, with this many rounds between two of them.
    Rounds(u16),
    /// Such a call with values of [`ELEMENTS`] elements.
    Large(u16),
    /// A message that goes round. The shards of the first processor arrive at a barrier for a shard of the next processor, and
    /// wait for one of the last processor. The others wait first.
    Remote,
    /// Arrives `burst` times at the barrier of a shard, and waits for as many arrivals. Only the time of the arrivals counts.
    Send { remote: bool, burst: u32 },
    /// Arrives at the barrier of a shard of the next processor, or of this one, and waits for its own. All shards do so at the
    /// same time.
    Both(bool),
    /// Nothing: the top-level task launches the gang in each iteration.
    Gang,
}

/// A program with a number of shards of each processor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The work of its shards.
    pub what: What,
    /// Shards of each processor: at least 2 if two shards of a processor are needed.
    pub shards: u32,
    /// The number of processors.
    pub processors: u32,
    /// Iterations that are measured. A quarter as many come before them to warm up.
    pub iterations: u32,
}

impl What {
    fn cells(self) -> u32 {
        match self {
            What::Fed(cells @ 1..) | What::Fill(cells) => cells,
            _ => 16,
        }
    }
}

/// The arguments of a shard.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Given {
    program: Program,
    line: Region,
    ghosts: Region,
    near: Edges<f64>,
    back: Edges<f64>,
    far: Edges<f64>,
    /// The collective of the shard's processor, in programs that have one.
    rounds: Option<Rounds>,
}

impl Given {
    fn block(&self, s: u32) -> Region {
        let cells = i64::from(self.program.what.cells());
        Region { tree: self.line.tree, rect: Rect::line(i64::from(s) * cells, (i64::from(s) + 1) * cells) }
    }

    fn left_ghosts(&self, s: u32) -> Region {
        Region { tree: self.ghosts.tree, rect: Rect::line(4 * i64::from(s), 4 * i64::from(s) + 2) }
    }

    fn right_ghosts(&self, s: u32) -> Region {
        Region { tree: self.ghosts.tree, rect: Rect::line(4 * i64::from(s) + 2, 4 * i64::from(s) + 4) }
    }
}

/// The shard that is `by` places further, among the shards of the same processor.
fn beside(p: &Program, s: u32, by: u32) -> u32 {
    s / p.shards * p.shards + (s % p.shards + by) % p.shards
}

/// The shards at the same place of the next processor and of the last one.
fn across(p: &Program, s: u32) -> [u32; 2] {
    let all = p.shards * p.processors;
    [(s + p.shards) % all, (s + all - p.shards) % all]
}

/// The number of calls under way, beside the last, before a shard waits for the oldest.
const AHEAD: usize = 1;

/// Elements of a large value.
pub const ELEMENTS: usize = 2048;

/// Rounds of a call that takes its value from a leaf task.
pub const FED: u16 = 6;

fn nothing() {}

/// Fields of the shared regions.
const G: [Field<f64>; 2] = [Field::new(0, "even ghost"), Field::new(1, "odd ghost")];

fn no_regions_used(
    _: ReadWrite<f64>,
    _: ReadShared<f64>,
    _: ReadShared<f64>,
    _: WriteShared<f64>,
    _: WriteShared<f64>,
) {
}

fn no_values_used(_: ReadWrite<f64>, _: Many<Get<f64>>, _: Many<Put<f64>>, _: Arg<i64>, _: Arg<f64>) -> i64 {
    VALUE
}

/// The stencil's leaf task, between the shards of a processor.
fn advance(
    mut d: ReadWrite<f64>,
    ghosts: Many<Get<f64>>,
    mut borders: Many<Put<f64>>,
    total: Arg<i64>,
    h: Arg<f64>,
) -> i64 {
    let side = |number: usize| std::array::from_fn(|i| ghosts[number][i]);
    let d = d.as_mut_slice();
    let sum = kernel::step(d, side(0), side(1), (*total as f64).sqrt(), *h);
    borders[0].copy_from_slice(&d[..kernel::GHOSTS]);
    borders[1].copy_from_slice(&d[d.len() - kernel::GHOSTS..]);
    // Never 0: the next step divides by its root.
    (sum as i64).max(VALUE)
}

fn fill(mut d: Write<f64>) {
    d.fill(0.0);
}

fn ns() -> u64 {
    maniple::runtime::now().as_nanos() as u64
}

/// A shard. Returns the nanoseconds of its measured iterations, or of the part that the program counts.
async fn shard(shard: Shard, given: Given) -> Result<u64, Error> {
    let (p, s) = (given.program, shard.index());
    let d = shard.region(given.block(s))?;
    let before = beside(&p, s, p.shards - 1);
    let regions = if p.what == What::Regions {
        let after = beside(&p, s, 1);
        let all = [given.left_ghosts(s), given.right_ghosts(s), given.right_ghosts(before), given.left_ghosts(after)];
        all.iter().map(|r| shard.region(*r)).collect::<Result<Vec<_>, _>>()?
    } else {
        Vec::new()
    };
    let far = matches!(p.what, What::Remote | What::Send { remote: true, .. } | What::Both(true));
    let (edges, to, from) = match far {
        true => (given.far, across(&p, s)[0], across(&p, s)[1]),
        false => (given.near, beside(&p, s, 1), before),
    };
    let (to, from) = (edges.producer(&shard, to)?, edges.consumer(&shard, from)?);
    let back = (given.back.producer(&shard, before)?, given.back.consumer(&shard, beside(&p, s, 1))?);
    let borders = || [&back.0, &to].map(|edge| edge.put(kernel::GHOSTS)).into_iter().collect::<Many<_>>();
    let ghosts = || [&from, &back.1].map(Consumer::get).into_iter().collect::<Many<_>>();
    let (to, from) = (to.ready(), from.ready());
    match p.what {
        What::Barrier => shard.arrive(to),
        What::Fed(_) => {
            shard
                .launch(|mut borders: Many<Put<f64>>| borders.iter_mut().for_each(|b| b.fill(0.0)), (borders(),))
                .go()?
                .await?
        }
        _ => {}
    }
    let (mut began, mut counted, mut last) = (0, 0, TaskFuture::ready(VALUE));
    let mut ahead = VecDeque::new();
    let warm_up = p.iterations.div_ceil(4);
    for iteration in 0..warm_up + p.iterations {
        if iteration == warm_up {
            (began, counted) = (ns(), 0);
        }
        let (slot, next) = (G[iteration as usize % 2], G[(iteration as usize + 1) % 2]);
        match p.what {
            What::Yield => shard.yield_now().await,
            What::Leaf => shard.launch(nothing, ()).go()?.await?,
            What::Launch(count) => {
                let start = ns();
                for _ in 1..count {
                    shard.launch(nothing, ()).go()?.detach();
                }
                let last = shard.launch(nothing, ()).go()?;
                counted += ns() - start;
                last.await?;
            }
            What::Barrier => shard.launch(nothing, ()).wait(from).arrive(to).go()?.await?,
            What::Regions => {
                let args = (
                    d.read_write(D),
                    regions[0].read_shared(slot),
                    regions[1].read_shared(slot),
                    regions[2].write_shared(next),
                    regions[3].write_shared(next),
                );
                shard.launch(no_regions_used, args).go()?.await?;
            }
            What::Fed(cells) => {
                let args = (d.read_write(D), ghosts(), borders(), (&last).into(), 1.0.into());
                let result = match cells {
                    0 => shard.launch(no_values_used, args).go()?,
                    _ => shard.launch(advance, args).go()?,
                };
                // Two more iterations are launched before this one ends.
                let Some(Rounds::One(rounds)) = given.rounds else { unreachable!("it was made") };
                let call = rounds.call(&shard, &result)?;
                ahead.push_back(std::mem::replace(&mut last, call));
                if ahead.len() > AHEAD
                    && let Some(oldest) = ahead.pop_front()
                {
                    oldest.await?;
                }
            }
            What::Fill(_) => shard.launch(fill, (d.write(D),)).go()?.await?,
            What::Rounds(_) | What::Large(_) => {
                given.rounds.expect("it was made").call(&shard).await?;
            }
            What::Remote if s >= p.shards => {
                shard.wait(from).await?;
                shard.arrive(to);
            }
            What::Remote | What::Both(_) => {
                shard.arrive(to);
                shard.wait(from).await?;
            }
            What::Gang => {}
            What::Send { burst, .. } => {
                let start = ns();
                (0..burst).for_each(|_| shard.arrive(to));
                counted += ns() - start;
                for _ in 0..burst {
                    shard.wait(from).await?;
                }
            }
        }
    }
    let all = ns() - began;
    Ok(if matches!(p.what, What::Launch(_) | What::Send { .. }) { counted } else { all })
}

/// Launches a gang of shards that do nothing, in each iteration.
async fn launch(top: &Top, gang: &Gang, task: &ShardTask<Given, u64>, given: Given) -> Result<Vec<u64>, Error> {
    let (mut began, program) = (0, Program { iterations: 0, ..given.program });
    let warm_up = given.program.iterations.div_ceil(4);
    for iteration in 0..warm_up + given.program.iterations {
        if iteration == warm_up {
            began = ns();
        }
        let block = |s| given.block(s);
        let given = Given { program, ..given };
        top.launch_gang(gang, task, |s| ShardLaunch::new(given).writes(block(s), [D]))?.all().await?;
    }
    Ok(vec![ns() - began])
}

impl Program {
    /// Runs the program. Returns the nanoseconds of the processor for an iteration of a shard. For launches and arrivals it is
    /// the time of a single one, and for a message that goes round the time from one processor to the next.
    pub fn run(self, runtime: &Runtime) -> Result<f64, Failure> {
        let outcome = runtime.run(move |top| async move {
            let all = self.shards * self.processors;
            let gang = top.gang("all", all)?;
            let line = Rect::line(0, i64::from(all) * i64::from(self.what.cells()));
            let line = top.region_tree("line", line, &[D.info()])?;
            let ghosts = top.region_tree("ghosts", Rect::line(0, 4 * i64::from(all)), &G.map(|slot| slot.info()))?;
            let near = top.edges("near", &gang, (0..all).map(|s| (s, beside(&self, s, 1))), 2)?;
            let back = top.edges("back", &gang, (0..all).map(|s| (s, beside(&self, s, self.shards - 1))), 2)?;
            let far = top.edges("far", &gang, (0..all).map(|s| (s, across(&self, s)[0])), 2)?;
            // One for each processor.
            let rounds = |rounds, elements| -> Result<Vec<Rounds>, Error> {
                let firsts = (0..self.processors).map(|processor| processor * self.shards);
                firsts.map(|first| Rounds::make(&top, &gang, rounds, elements, first, self.shards)).collect()
            };
            let rounds = match self.what {
                What::Rounds(number) => rounds(number, 1)?,
                What::Large(number) => rounds(number, ELEMENTS)?,
                What::Fed(_) => rounds(FED, 1)?,
                _ => Vec::new(),
            };
            let given = Given { program: self, line, ghosts, near, back, far, rounds: None };
            let task = top.register("calibrate", shard);
            let with_ghosts = self.what == What::Regions;
            if self.what == What::Gang {
                return launch(&top, &gang, &task, given).await;
            }
            let done = top.launch_gang(&gang, &task, |s| {
                let rounds = rounds.get((s / self.shards) as usize).copied();
                let start = ShardLaunch::new(Given { rounds, ..given }).writes(given.block(s), [D]);
                if !with_ghosts {
                    return start;
                }
                let (before, after) = (beside(&self, s, self.shards - 1), beside(&self, s, 1));
                let start = start.shares(given.left_ghosts(s), G, Privilege::Read);
                let start = start.shares(given.right_ghosts(s), G, Privilege::Read);
                let start = start.shares(given.right_ghosts(before), G, Privilege::WriteDiscard);
                start.shares(given.left_ghosts(after), G, Privilege::WriteDiscard)
            })?;
            done.all().await
        });
        let (times, _) = outcome.map_err(|e| Failure::Run(format!("{self:?}: {e}")))?;
        let iterations = f64::from(self.iterations);
        let slowest = times.iter().max().copied().unwrap_or(0) as f64;
        Ok(match self.what {
            What::Launch(count) | What::Send { burst: count, .. } => {
                maniple_command::measure::stats::median(times.iter().map(|ns| *ns as f64))
                    / iterations
                    / f64::from(count)
            }
            What::Remote if self.shards == 1 => slowest / iterations / f64::from(self.processors),
            _ => slowest / iterations / f64::from(self.shards),
        })
    }
}
