//! Launches and leaf tasks that nobody awaits before the next ones, so that only the data they name keeps them in order.
//! Each value is one that was set before: a task that starts too early, or too late, sees another.

use crate::common::run;
use maniple_mapper::{Mapper, PlaceShardsInput, Placement, ProcessorId};
use maniple_regions::{
    Coherence, Field, Operator, Privilege, Read, ReadWrite, Rect, Reduce, ReductionId, Region, Write,
};
use maniple_runtime::{Arg, Error, Gang, InnerTask, Runtime, Shard, ShardLaunch, ShardTask, Top};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const A: Field<i64> = Field::new(0, "a");
const CELLS: i64 = 4;

fn sum(a: Read<i64>) -> i64 {
    a.as_slice().iter().sum()
}

fn set(mut a: Write<i64>, value: Arg<i64>) {
    a.fill(*value);
}

fn add(mut a: Reduce<i64>, value: Arg<i64>) {
    a.rect().points::<1>().for_each(|p| a.fold(p, *value));
}

fn double(mut a: ReadWrite<i64>) {
    a.as_mut_slice().iter_mut().for_each(|v| *v *= 2);
}

/// What a shard does to its part.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Does {
    Sums,
    Sets(i64),
    Adds(i64),
}

impl Does {
    /// Held for no more than this.
    fn privilege(self) -> Privilege {
        match self {
            Does::Sums => Privilege::Read,
            Does::Sets(_) => Privilege::WriteDiscard,
            Does::Adds(_) => Privilege::Reduce(ReductionId::new("sum")),
        }
    }
}

/// A shard that does one thing, after it has let others run so often.
async fn one(shard: Shard, (part, does, yields): (Region, Does, u32)) -> Result<i64, Error> {
    for _ in 0..yields {
        shard.yield_now().await;
    }
    let part = shard.region(part)?;
    match does {
        Does::Sums => return shard.launch(sum, (part.read(A),)).go()?.await,
        Does::Sets(v) => shard.launch(set, (part.write(A), v.into())).go()?.await?,
        Does::Adds(v) => shard.launch(add, (part.reduce(A, Operator::sum()), v.into())).go()?.await?,
    }
    Ok(0)
}

type Args = (Region, Does, u32);

fn start(part: Region, does: Does, yields: u32) -> ShardLaunch<Args> {
    ShardLaunch::new((part, does, yields)).require(part, [A], does.privilege(), Coherence::Exclusive)
}

fn part(line: Region, lo: i64, hi: i64) -> Region {
    Region::new(line.tree, Rect::line(lo, hi))
}

/// Puts a gang's shards on the processor that its name ends in.
struct Named;

impl Mapper for Named {
    fn name(&self) -> &str {
        "named"
    }
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        let at = input.gang.bytes().last().filter(u8::is_ascii_digit).map_or(0, |digit| u32::from(digit - b'0'));
        Placement::Explicit(vec![ProcessorId(at); input.shards as usize])
    }
}

/// A line of cells, a gang of one on each of the two processors, and what its shard runs.
type Launches = (Region, [Gang; 2], ShardTask<Args, i64>);

fn setting(top: &Top) -> Result<Launches, Error> {
    let line = top.region_tree("line", Rect::line(0, CELLS), &[A.info()])?;
    Ok((line, [top.gang("on 0", 1)?, top.gang("on 1", 1)?], top.register("one", one)))
}

/// Under each of a few hundred orders, the values that come are these.
fn expect<F>(expected: &[i64], top: impl Fn(Top) -> F + Copy + Send + Sync + 'static)
where
    F: Future<Output = Result<Vec<i64>, Error>> + 'static,
{
    for seed in 0..300 {
        let at = format!("seed {seed}");
        let came = run(&at, &Runtime::seeded(2, seed).mapper(Arc::new(Named)), top);
        assert_eq!(came.as_deref(), Ok(expected), "{at}");
    }
}

/// A column remembers as many readers as are under way.
#[test]
fn a_writer_waits_for_many_readers_of_one_column() {
    async fn shard(shard: Shard, line: Region) -> Result<Vec<i64>, Error> {
        let line = shard.region(line)?;
        shard.launch(set, (line.write(A), 3.into())).go()?.detach();
        let mut sums = Vec::new();
        for _ in 0..2 {
            for _ in 0..13 {
                sums.push(shard.launch(sum, (line.read(A),)).go()?);
            }
            shard.launch(double, (line.read_write(A),)).go()?.detach();
        }
        let mut seen = Vec::new();
        for sum in sums {
            seen.push(sum.await?);
        }
        Ok(seen)
    }
    let expected = [[3 * CELLS; 13], [6 * CELLS; 13]].concat();
    expect(&expected, |top| async move {
        let (line, [on, _], _) = setting(&top)?;
        let task = top.register("shard", shard);
        Ok(top.launch_gang(&on, &task, |_| ShardLaunch::new(line).writes(line, [A]))?.all().await?.concat())
    });
}

/// Data that is to be sent, once a slow launch has written the rest of it, is sent before a later launch writes it.
#[test]
fn a_launch_waits_for_data_that_is_still_to_be_sent() {
    expect(&[2 * 10 + 2 * 200], |top| async move {
        let (line, [here, there], task) = setting(&top)?;
        let (left, right) = (part(line, 0, 2), part(line, 2, CELLS));
        top.launch_gang(&here, &task, |_| start(right, Does::Sets(200), 0))?.all().await?;
        let slow = top.launch_gang(&here, &task, |_| start(left, Does::Sets(10), 20))?;
        let reads = top.launch_gang(&there, &task, |_| start(line, Does::Sums, 0))?;
        let writes = top.launch_gang(&here, &task, |_| start(right, Does::Sets(5000), 0))?;
        let seen = reads.all().await?;
        slow.all().await?;
        writes.all().await?;
        Ok(seen)
    });
}

/// What a launch has folded is the newest there is, wherever there was a copy before.
#[test]
fn a_reader_elsewhere_sees_what_a_reduction_leaves() {
    expect(&[7 * CELLS, 9 * CELLS, 9 * CELLS], |top| async move {
        let (line, [here, there], task) = setting(&top)?;
        let writes = top.launch_gang(&here, &task, |_| start(line, Does::Sets(7), 0))?;
        let before = top.launch_gang(&there, &task, |_| start(line, Does::Sums, 0))?;
        let folds = top.launch_gang(&here, &task, |_| start(line, Does::Adds(2), 5))?;
        let after = top.launch_gang(&there, &task, |_| start(line, Does::Sums, 0))?;
        let home = top.launch_gang(&here, &task, |_| start(line, Does::Sums, 0))?;
        writes.all().await?;
        folds.all().await?;
        Ok([before.all().await?, after.all().await?, home.all().await?].concat())
    });
}

/// New data does not come into an instance while an earlier reader is slow, though the parent holds the region all along.
#[test]
fn a_parent_that_writes_does_not_change_what_its_slow_reader_sees() {
    async fn parent(parent: InnerTask, (line, [here, there], task): Launches) -> Result<Vec<i64>, Error> {
        let slow = parent.launch_gang(&there, &task, |_| start(line, Does::Sums, 20)).await?;
        let writes = parent.launch_gang(&here, &task, |_| start(line, Does::Sets(80), 0)).await?;
        let after = parent.launch_gang(&there, &task, |_| start(line, Does::Sums, 0)).await?;
        writes.all().await?;
        Ok([slow.all().await?, after.all().await?].concat())
    }
    expect(&[3 * CELLS, 80 * CELLS], |top| async move {
        let launches @ (line, [here, _], task) = setting(&top)?;
        top.launch_gang(&here, &task, |_| start(line, Does::Sets(3), 0))?.all().await?;
        top.run_inner(&top.register_inner("parent", parent), || ShardLaunch::new(launches).writes(line, [A])).await
    });
}

/// Of two readers in one place the second waits for the data that the first one has ordered.
#[test]
fn a_second_reader_waits_for_the_data_of_the_first() {
    async fn parent(parent: InnerTask, (line, [_, there], task): Launches) -> Result<Vec<i64>, Error> {
        let first = parent.launch_gang(&there, &task, |_| start(line, Does::Sums, 0)).await?;
        let second = parent.launch_gang(&there, &task, |_| start(line, Does::Sums, 0)).await?;
        Ok([first.all().await?, second.all().await?].concat())
    }
    expect(&[3 * CELLS; 2], |top| async move {
        let launches @ (line, [here, _], task) = setting(&top)?;
        top.launch_gang(&here, &task, |_| start(line, Does::Sets(3), 0))?.all().await?;
        top.run_inner(&top.register_inner("parent", parent), || ShardLaunch::new(launches).reads(line, [A])).await
    });
}
