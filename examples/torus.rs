//! An allreduce by an algorithm of the program's own: sums go around the rows of a torus, then around its columns.
use maniple::collectives::{Combine::*, Goal, Part, Schedule};
use maniple::prelude::*;
mod common;

fn torus(goal: &Goal, rank: u32) -> Schedule {
    let rows = (1..=goal.ranks().isqrt()).rev().find(|&rows| goal.ranks().is_multiple_of(rows)).expect("1 is one");
    let columns = goal.ranks() / rows;
    let mut schedule = Schedule::new(rank, goal.ranks(), 1);
    for (length, stride) in [(columns, 1), (rows, columns)] {
        let (place, sum, passing) = (rank / stride % length, || Part::block(0, 0), || Part::block(1, 0));
        let at = |other: u32| rank - place * stride + other % length * stride;
        for turn in 1..length {
            // This is the value of the rank `turn` places before, which may be a higher one.
            let how = if (place + length - turn) % length > place { IncomingIsHigher } else { IncomingIsLower };
            schedule.send(at(place + 1), if turn == 1 { sum() } else { passing() });
            schedule.receive(at(place + length - 1), passing(), Replace);
            schedule.local(passing(), sum(), how);
        }
    }
    schedule
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (sums, _) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let total = Collective::<u64>::allreduce(Operator::sum())
            .schedules("torus", |goal, rank| Schedule::linked(rank, |rank| torus(goal, rank)))
            .make(&top, &gang, "total")?;
        let add = move |shard: Shard, x: u64| async move { total.call(&shard, x)?.await };
        top.launch_gang(&gang, &top.register("add", add), |s| ShardLaunch::new(u64::from(s).pow(2)))?.all().await
    })?;
    let n = u64::from(shards);
    common::verify("sum of squares", sums, vec![(n - 1) * n * (2 * n - 1) / 6; shards as usize])?;
    Ok(format!("the sum of {n} squares went around the torus"))
}
fn main() -> std::process::ExitCode {
    common::main(run)
}
