//! Schedules of a program's own that their proof allows, and which can't be run: they are refused when they are made.

mod common;

use common::watched;
use maniple_collectives::{
    Collective, CollectiveBuilder, Combine, Goal, Operator, Part, Schedule, halving_doubling, recursive_doubling,
};
use maniple_runtime::{Error, Runtime};

type Sums = CollectiveBuilder<[u64]>;

/// Makes a sum of vectors with these schedules, among some shards of one processor.
fn made(shards: u32, what: impl FnOnce(Sums) -> Sums + Send + Sync + Clone + 'static) -> Result<(), Error> {
    let run = watched("own schedules", move || {
        Runtime::threads(1).run(move |top| {
            let what = what.clone();
            async move {
                let gang = top.gang("all", shards)?;
                let sums = Collective::allreduce(Operator::<u64>::sum()).elements(5);
                what(sums).make(&top, &gang, "own").map(drop)
            }
        })
    });
    run.map(drop)
}

fn refused(shards: u32, expects: &str, got: &str, what: impl FnOnce(Sums) -> Sums + Send + Sync + Clone + 'static) {
    match made(shards, what) {
        Err(Error::Misuse { expected, came, .. }) => {
            assert!(expected.starts_with(expects), "expected {expected}, {came}");
            assert!(came.starts_with(got), "{came}");
        }
        other => panic!("{got}: {other:?}"),
    }
}

const GROUPS: &str = "groups of ranks that contribute, and whose only part is the whole vector";

/// In groups of two the first rank has a schedule of its own, with several blocks or one.
fn in_groups(leader: fn(u32, u32) -> Schedule, blocks: u32) -> impl Fn(&Goal, u32) -> Schedule + Clone {
    move |_, rank| {
        let group = rank / 2;
        let schedule = match rank % 2 {
            0 => leader(group, 2).among(rank, 4, |group| 2 * group),
            _ => Schedule::new(rank, 4, blocks),
        };
        schedule.in_group(2 * group..2 * group + 2)
    }
}

#[test]
fn groups_have_one_part_and_contribute() {
    made(4, |sums| sums.schedules("whole", in_groups(recursive_doubling, 1))).unwrap();
    refused(4, GROUPS, "rank 0 of the group 0..2, which has several parts", |sums| {
        sums.schedules("blocks", in_groups(halving_doubling, 2))
    });
    refused(4, GROUPS, "rank 1 of the group 0..2, which contributes nothing", |sums| {
        sums.participants([0, 2]).receivers(0..4).schedules("some", in_groups(recursive_doubling, 1))
    });
    refused(2, GROUPS, "rank 0 of the group 0..2, which has several parts", |sums| {
        sums.schedules("another register", |_, rank| {
            let mut schedule = Schedule::new(rank, 2, 1);
            if rank == 0 {
                schedule.local(Part::new(0, 0..1), Part::new(1, 0..1), Combine::Replace);
            }
            schedule.with_result(1).in_group(0..2)
        })
    });
}

/// Each of two ranks has its first block pass through the place of the second one, which is smaller by an element.
#[test]
fn blocks_of_other_sizes_are_no_room() {
    let way = |rank| if rank == 0 { Combine::IncomingIsHigher } else { Combine::IncomingIsLower };
    let [first, second] = [Part::new(0, 0..1), Part::new(0, 1..2)];
    let room = Part::new(1, 1..2);
    let (first_read, second_read, room_read) = (first.clone(), second.clone(), room.clone());
    let read = move |_: &Goal, rank: u32| {
        let mut schedule = Schedule::new(rank, 2, 2);
        schedule.update(1 - rank, 0, first_read.clone());
        schedule.update(1 - rank, 1, second_read.clone());
        schedule.read(1 - rank, 0, room_read.clone(), Combine::Replace);
        schedule.read(1 - rank, 1, second_read.clone(), way(rank));
        schedule.local(room_read.clone(), first_read.clone(), way(rank));
        schedule
    };
    let local = move |_: &Goal, rank: u32| {
        let mut schedule = Schedule::new(rank, 2, 2);
        schedule.update(1 - rank, 0, Part::new(0, 0..2));
        schedule.local(first.clone(), room.clone(), Combine::Replace);
        schedule.read(1 - rank, 0, Part::new(0, 0..2), way(rank));
        schedule
    };
    let even = read.clone();
    made(2, |sums| sums.elements(4).schedules("even", even)).unwrap();
    let expects = "steps between parts of as many elements, with vectors of 5";
    refused(2, expects, "step 0 of rank 0, from 3 elements to 2: Update", |sums| sums.schedules("read", read));
    refused(2, expects, "step 1 of rank 0, from 3 elements to 2: Local", |sums| sums.schedules("local", local));
}

#[test]
fn there_is_a_block() {
    refused(2, "schedules with at least one block", "none in nothing", |sums| {
        sums.schedules("nothing", |_, rank| Schedule::new(rank, 2, 0))
    });
}
