//! An allreduce by an algorithm of the program's own. Sums go around the rows of a torus, then around its columns.
use maniple::collectives::{Combine, Part, Schedule};
use maniple::prelude::*;
mod common;

fn torus(rank: u32, shards: u32) -> Schedule {
    let rows = (1..=shards.isqrt()).rev().find(|rows| shards.is_multiple_of(*rows)).expect("1 divides all numbers");
    let (sum, passing) = (|| Part::block(0, 0), || Part::block(1, 0));
    let mut schedule = Schedule::new(rank, shards, 1);
    for (length, stride) in [(shards / rows, 1), (rows, shards / rows)] {
        let me = rank / stride % length;
        let at = |place: u32| rank - me * stride + place % length * stride;
        for turn in 1..length {
            // What comes in began `turn` places back.
            let higher = (me + length - turn) % length > me;
            schedule.send(at(me + 1), if turn == 1 { sum() } else { passing() });
            schedule.receive(at(me + length - 1), passing(), Combine::Replace);
            let side = if higher { Combine::IncomingIsHigher } else { Combine::IncomingIsLower };
            schedule.local(passing(), sum(), side);
        }
    }
    schedule
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (sums, _) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let schedule = move |_: &_, rank| Schedule::linked(rank, |rank| torus(rank, shards));
        let total =
            Collective::<u64>::allreduce(Operator::sum()).schedules("torus", schedule).make(&top, &gang, "total")?;
        let task = move |shard: Shard, x: u64| async move { total.call(&shard, x)?.await };
        top.launch(&gang, &top.register("add", task), |s| ShardLaunch::new(u64::from(s).pow(2)))?.all().await
    })?;
    let n = u64::from(shards);
    common::verify("sum of squares", &sums, &vec![(n - 1) * n * (2 * n - 1) / 6; shards as usize])?;
    Ok(format!("{} on {shards} shards", sums[0]))
}
fn main() -> std::process::ExitCode {
    common::main(run)
}
