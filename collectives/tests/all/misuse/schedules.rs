//! Schedules of a program's own that can't be run: who is wrong, and what was expected.

use crate::common::watched;
use maniple_collectives::{
    Collective, CollectiveBuilder, Combine, Goal, Operator, Order, Part, Schedule, binomial_gather, direct,
    halving_doubling, recursive_doubling,
};
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};

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

const GROUPS: &str = "whole vectors only, as it is in the group 0..2";

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
    refused(4, GROUPS, "several parts, or local steps at rank 0 of the schedules `blocks`", |sums| {
        sums.schedules("blocks", in_groups(halving_doubling, 2))
    });
    refused(4, GROUPS, "no whole vector as its contribution at rank 1 of the schedules `some`", |sums| {
        sums.participants([0, 2]).receivers(0..4).schedules("some", in_groups(recursive_doubling, 1))
    });
    refused(2, GROUPS, "several parts, or local steps at rank 0 of", |sums| {
        sums.schedules("doubled", |_, rank| {
            let mut schedule = Schedule::new(rank, 2, 1);
            if rank == 0 {
                schedule.local(Part::new(0, 0..1), Part::new(0, 0..1), Combine::Replace);
            }
            schedule.in_group(0..2)
        })
    });
    refused(2, GROUPS, "several parts, or local steps at rank 0 of", |sums| {
        sums.schedules("another register", |_, rank| {
            let mut schedule = Schedule::new(rank, 2, 1);
            if rank == 0 {
                schedule.local(Part::new(0, 0..1), Part::new(1, 0..1), Combine::Replace);
            }
            schedule.with_result(1).in_group(0..2)
        })
    });
}

/// Groups on several workers: whether the mapper placed them together does not depend on where the top-level task runs.
#[test]
fn groups_share_a_processor() {
    let own = |workers: u32, shards: u32| {
        let pairs = move |_: &Goal, rank: u32| {
            let group = rank / 2;
            let schedule = match rank % 2 {
                0 => recursive_doubling(group, shards / 2).among(rank, shards, |group| 2 * group),
                _ => Schedule::new(rank, shards, 1),
            };
            schedule.in_group(2 * group..2 * group + 2)
        };
        watched("groups", move || {
            let run = Runtime::threads(workers).run(move |top| async move {
                let gang = top.gang("all", shards)?;
                let sum = Collective::allreduce(Operator::<u64>::sum()).schedules("pairs", pairs);
                let sum = sum.make(&top, &gang, "sum")?;
                let task = top.register("add", |shard: Shard, sum: Collective<u64>| async move {
                    sum.call(&shard, u64::from(shard.index()))?.await
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(sum))?.all().await
            });
            run.map(|(sums, _)| sums)
        })
    };
    assert_eq!(own(2, 8).unwrap(), [28; 8]);
    // The workers have 2, 1, 1 and 2 shards, so the second group is on two of them.
    let text = own(4, 6).unwrap_err().to_string();
    let expected = "allreduce `sum`: expected groups of ranks that share a processor, got the group 2..4, of which";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_rank_has_at_most_65535_steps() {
    let many = |steps: u32| {
        move |_: &Goal, rank: u32| {
            let mut schedule = Schedule::new(rank, 1, 1);
            (0..steps).for_each(|_| schedule.local(Part::block(0, 0), Part::block(1, 0), Combine::Replace));
            schedule
        }
    };
    made(1, move |sums| sums.schedules("many", many(65_535))).unwrap();
    refused(1, "at most 65535 steps of a rank", "65536 of rank 0", move |sums| sums.schedules("more", many(65_536)));
}

/// What counts as large is lent. Here the end of the call waits for that, which is a step more.
#[test]
fn waits_for_what_is_lent_are_steps_too() {
    let sum = |_: &Goal, rank: u32| {
        let mut schedule = Schedule::new(rank, 2, 1);
        let [own, other] = [Part::block(0, 0), Part::block(1, 0)];
        schedule.update(1 - rank, 0, own.clone());
        schedule.read(1 - rank, 0, other.clone(), Combine::Replace);
        let how = if rank == 0 { Combine::IncomingIsHigher } else { Combine::IncomingIsLower };
        schedule.local(other.clone(), own.clone(), how);
        schedule.update(1 - rank, 1, own.clone());
        schedule.read(1 - rank, 1, other.clone(), Combine::Replace);
        (5..65_535).for_each(|_| schedule.local(own.clone(), other.clone(), Combine::Replace));
        schedule
    };
    made(2, move |sums| sums.schedules("many", sum)).unwrap();
    refused(2, "at most 65535 steps of a rank", "65536 of rank 0", move |sums| {
        sums.standing_for(10_000).schedules("many", sum)
    });
}

/// A message of blocks of any sizes does not tell where each begins.
#[test]
fn blocks_of_any_sizes_are_sent_one_by_one() {
    let made = |joins: bool| {
        watched("any sizes", move || {
            Runtime::threads(1).run(move |top| async move {
                let gang = top.gang("all", 4)?;
                let gather = Collective::<u64>::gather([0]).any_sizes().schedules("gather", move |goal, rank| {
                    let all = goal.contributors();
                    if joins { binomial_gather(rank, 4, 0, all) } else { direct(goal, rank, Order::Any) }
                });
                gather.make(&top, &gang, "gather").map(drop)
            })
        })
    };
    made(false).unwrap();
    let text = made(true).unwrap_err().to_string();
    let expected = "gather `gather`: expected steps that send one block each, with blocks of any sizes, got step ";
    assert!(text.starts_with(expected) && text.contains(" of rank 2, of 2 blocks: Update"), "{text}");
}

/// Two ranks of an all-to-all, with less to send than a third one, also read all that the other has.
#[test]
fn all_of_a_register_is_as_long_as_the_longest() {
    let exchange = |goal: &Goal, rank: u32| {
        Schedule::linked(rank, |rank| {
            let mut schedule = Schedule::new(rank, goal.ranks(), 3).with_result(1);
            schedule.local(Part::block(0, rank), Part::block(1, rank), Combine::Replace);
            for peer in (0..3).filter(|&peer| peer != rank) {
                schedule.send(peer, Part::block(0, peer));
            }
            for peer in (0..3).filter(|&peer| peer != rank) {
                schedule.receive(peer, Part::block(1, peer), Combine::Replace);
            }
            if rank < 2 {
                schedule.send(1 - rank, Part::new(0, 0..3));
                schedule.receive(1 - rank, Part::new(0, 0..3), Combine::Replace);
            }
            schedule
        })
    };
    let made = |sizes: [usize; 3]| {
        watched("exchange", move || {
            let run = Runtime::threads(2).run(move |top| async move {
                let gang = top.gang("all", 3)?;
                let all = Collective::<u64>::all_to_all().sizes_between(move |from, _| sizes[from as usize]);
                let all = all.schedules("exchange", exchange).make(&top, &gang, "all")?;
                let task = top.register("exchange", move |shard: Shard, all: Collective<[u64]>| async move {
                    let mine = vec![u64::from(shard.index()); 3 * sizes[shard.index() as usize]];
                    all.call(&shard, mine)?.await.map(|all| all.to_vec())
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(all))?.all().await
            });
            run.map(|(all, _)| all)
        })
    };
    assert_eq!(made([2, 2, 2]).unwrap(), vec![vec![0, 0, 1, 1, 2, 2]; 3]);
    let text = made([1, 1, 4]).unwrap_err().to_string();
    let expected =
        "all-to-all `all`: expected reads of all of register 0 where that has 12 elements, as others do, got step";
    assert!(text.starts_with(expected), "{text}");
}

/// Each of two ranks has its first block pass through the place of the second one, which is smaller by an element.
#[test]
fn blocks_of_other_sizes_are_no_room() {
    let way = |rank| if rank == 0 { Combine::IncomingIsHigher } else { Combine::IncomingIsLower };
    let [first, second] = [Part::new(0, 0..1), Part::new(0, 1..2)];
    let spare = Part::new(1, 1..2);
    let (first_read, second_read, spare_read) = (first.clone(), second.clone(), spare.clone());
    let read = move |_: &Goal, rank: u32| {
        let mut schedule = Schedule::new(rank, 2, 2);
        schedule.update(1 - rank, 0, first_read.clone());
        schedule.update(1 - rank, 1, second_read.clone());
        schedule.read(1 - rank, 0, spare_read.clone(), Combine::Replace);
        schedule.read(1 - rank, 1, second_read.clone(), way(rank));
        schedule.local(spare_read.clone(), first_read.clone(), way(rank));
        schedule
    };
    let local = move |_: &Goal, rank: u32| {
        let mut schedule = Schedule::new(rank, 2, 2);
        schedule.update(1 - rank, 0, Part::new(0, 0..2));
        schedule.local(first.clone(), spare.clone(), Combine::Replace);
        schedule.read(1 - rank, 0, Part::new(0, 0..2), way(rank));
        schedule
    };
    let even = read.clone();
    made(2, |sums| sums.elements(4).schedules("even", even)).unwrap();
    let expects = "steps with as many elements at both ends, with vectors of 5";
    refused(2, expects, "step 0 of rank 0, from 3 elements to 2: Update", |sums| sums.schedules("read", read));
    refused(2, expects, "step 1 of rank 0, from 3 elements to 2: Local", |sums| sums.schedules("local", local));
}

#[test]
fn there_are_no_more_blocks_than_parts_can_name() {
    for blocks in [65_537, u32::MAX - 1, u32::MAX] {
        refused(2, "at most 65536 blocks", &format!("{blocks} in the schedules `many`"), move |sums| {
            sums.schedules("many", move |_, rank| Schedule::new(rank, 2, blocks))
        });
    }
    made(1, |sums| sums.schedules("most", |_, rank| Schedule::new(rank, 1, 65_536))).unwrap();
}

/// Rank 2 makes no call, so the others would wait for it.
#[test]
fn who_takes_no_part_has_no_steps() {
    refused(
        3,
        "no steps, as it neither contributes nor receives",
        "2 steps at rank 2 of the schedules `all`",
        |sums| {
            let all = |_: &Goal, rank: u32| {
                let mut schedule = recursive_doubling(rank % 2, 2).among(rank, 3, |rank| rank);
                if rank == 0 {
                    schedule.update(2, 0, Part::block(0, 0));
                    schedule.read(2, 0, Part::block(1, 0), Combine::Replace);
                }
                if rank == 2 {
                    schedule = Schedule::new(2, 3, 1);
                    schedule.read(0, 1, Part::block(0, 0), Combine::Replace);
                    schedule.update(0, 1, Part::block(0, 0));
                }
                schedule
            };
            sums.participants([0, 1]).schedules("all", all)
        },
    );
}

/// A sum of floats has no inverse, also for what nobody receives. So it is in a broadcast, which combines nothing.
#[test]
fn what_is_taken_out_of_a_register_that_nobody_receives_needs_an_inverse() {
    let undone = |goal: &Goal, rank: u32| {
        let mut schedule = Schedule::linked(rank, |rank| {
            let mut schedule = Schedule::new(rank, 2, goal.blocks());
            let way = match (goal.contributors().len(), rank) {
                (1, _) => Combine::Replace,
                (_, 0) => Combine::IncomingIsHigher,
                _ => Combine::IncomingIsLower,
            };
            if goal.contributors().contains(rank) {
                schedule.send(1 - rank, Part::block(0, 0));
            }
            if goal.contributors().contains(1 - rank) {
                schedule.receive(1 - rank, Part::block(0, 0), way);
            }
            schedule
        });
        let [from, into] = [Part::block(0, 0), Part::block(1, 0)];
        schedule.local(from.clone(), into.clone(), Combine::Replace);
        schedule.local(from.clone(), into.clone(), Combine::IncomingIsHigher);
        schedule.local(from, into, Combine::Undo);
        schedule
    };
    let run = Runtime::threads(1).run(move |top| async move {
        let gang = top.gang("all", 2)?;
        let sum = Collective::<f64>::allreduce(Operator::sum()).schedules("undone", undone).make(&top, &gang, "sum");
        let one = Collective::<f64>::broadcast(0).schedules("undone", undone).make(&top, &gang, "one");
        let exact = Collective::allreduce(Operator::sum()).schedules("undone", undone).make(&top, &gang, "exact")?;
        let task = top.register("adds", |shard: Shard, it: Collective<u8>| async move { it.call(&shard, 200)?.await });
        let sums = top.launch_gang(&gang, &task, |_| ShardLaunch::new(exact))?.all().await?;
        Ok((sum.map(drop), one.map(drop), sums))
    });
    let ((sum, one, sums), _) = run.unwrap();
    for (refused, name) in [(sum, "`sum`, which is not"), (one, "`none`, which is not")] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("invertible bit for bit, as undone needs") && refused.contains(name), "{refused}");
    }
    assert_eq!(sums, [144, 144]);
}

/// The only part of rank 0 is all of its register, which it combines with itself.
#[test]
fn a_whole_register_may_be_combined_with_itself() {
    let itself = |how: Combine| {
        move |_: &Goal, rank: u32| {
            let mut schedule = recursive_doubling(rank, 2);
            if rank == 0 {
                schedule.local(Part::block(0, 0), Part::block(0, 0), how);
            }
            schedule
        }
    };
    for elements in [1, 3, 700] {
        let run = watched("itself", move || {
            Runtime::threads(1).run(move |top| async move {
                let gang = top.gang("all", 2)?;
                let most = || Collective::<u64>::allreduce(Operator::max()).elements(elements);
                let twice = most().schedules("twice", itself(Combine::IncomingIsHigher)).make(&top, &gang, "twice")?;
                let same = most().schedules("same", itself(Combine::Replace)).make(&top, &gang, "same")?;
                let task = top.register("max", move |shard: Shard, both: [Collective<[u64]>; 2]| async move {
                    let own = vec![u64::from(shard.index()); elements];
                    let [twice, same] = [0, 1].map(|at| both[at].call(&shard, own.clone()));
                    Ok([twice?.await?.to_vec(), same?.await?.to_vec()])
                });
                top.launch_gang(&gang, &task, |_| ShardLaunch::new([twice, same]))?.all().await
            })
        });
        assert_eq!(run.unwrap().0, vec![[vec![1; elements], vec![1; elements]]; 2]);
    }
}

#[test]
fn there_is_a_block() {
    refused(2, "schedules with at least one block", "none in nothing", |sums| {
        sums.schedules("nothing", |_, rank| Schedule::new(rank, 2, 0))
    });
}
