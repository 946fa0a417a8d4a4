//! Hand-written schedules, sound and broken.

use super::*;
use crate::Ranks;
use crate::schedule::{Combine, Part};
use crate::{dissemination, recursive_doubling};

use Combine::{IncomingIsHigher as Higher, IncomingIsLower as Lower, Replace, Undo};

fn update(peer: u32, at: u16) -> Step {
    Step::Update { peer, at, part: 0 }
}

fn read(peer: u32, at: u16, combine: Combine) -> Step {
    Step::Read { peer, at, part: 0, combine }
}

fn with(rank: u32, ranks: u32, steps: &[Step]) -> Schedule {
    let mut schedule = Schedule::new(rank, ranks, 1);
    steps.iter().for_each(|&step| schedule.push(step));
    schedule
}

/// Rank 0 folds everything from left to right and hands out the result.
fn star(ranks: u32) -> impl Fn(u32) -> Schedule {
    move |rank| {
        let others = 1..ranks;
        let steps: Vec<Step> = if rank == 0 {
            let fold = others.clone().map(|peer| read(peer, 0, Higher));
            fold.chain(others.map(|peer| update(peer, 0))).collect()
        } else {
            let at = rank as u16 - 1;
            vec![update(0, at), read(0, at, Replace)]
        };
        with(rank, ranks, &steps)
    }
}

/// All send to all; each rank groups in the order of `reads`.
fn all_to_all(reads: [[(u32, Combine); 2]; 3]) -> Vec<Vec<Step>> {
    let place = |list: &[u32], rank| list.iter().position(|&r| r == rank).unwrap() as u16;
    let reads_of: Vec<Vec<u32>> = reads.iter().map(|r| r.iter().map(|x| x.0).collect()).collect();
    let updates_of = [[1, 2], [0, 2], [0, 1]];
    (0..3)
        .map(|rank: usize| {
            let me = rank as u32;
            let sends = updates_of[rank].map(|to| update(to, place(&reads_of[to as usize], me)));
            let takes = reads[rank].map(|(from, how)| read(from, place(&updates_of[from as usize], me), how));
            sends.into_iter().chain(takes).collect()
        })
        .collect()
}

fn check_lists(lists: &[Vec<Step>]) -> Result<Report, CheckError> {
    let ranks = lists.len() as u32;
    check(&Goal::allreduce(ranks, 1), |rank| with(rank, ranks, &lists[rank as usize]))
}

#[test]
fn other_algorithms_pass() {
    for ranks in 2..50 {
        let report = check(&Goal::allreduce(ranks, 1), star(ranks)).unwrap();
        assert_eq!((report.rounds, report.laws), (2, Laws::NONE));
        assert_eq!(report.messages, 2 * (u64::from(ranks) - 1));
        assert!(report.by_loop && (report.by_doubling == (ranks <= 3)), "{ranks}");
    }
}

fn link(from: u32, update: u32, to: u32, read: u32) -> Link {
    Link { from, update, to, read }
}

#[test]
fn broken_schedules_are_refused_by_name() {
    let result = |rank, expected: &str, came: &str| CheckError::Result {
        rank,
        block: 0,
        expected: expected.into(),
        came: came.into(),
    };
    let broken: Vec<(Vec<Vec<Step>>, CheckError, &str)> = vec![
        (vec![], CheckError::NoRanks, "expected at least one rank, got 0"),
        (
            vec![vec![update(1, 0)], vec![update(1, 0)]],
            CheckError::Peer { rank: 1, step: 0, ranks: 2, came: 1 },
            "rank 1 step 0: expected another rank below 2 as the peer, got 1",
        ),
        (
            vec![vec![read(2, 0, Replace)], vec![]],
            CheckError::Peer { rank: 0, step: 0, ranks: 2, came: 2 },
            "rank 0 step 0: expected another rank below 2 as the peer, got 2",
        ),
        (
            vec![vec![Step::Update { peer: 1, at: 0, part: 1 }], vec![]],
            CheckError::Part { rank: 0, step: 0, blocks: 1, came: "part 1".into() },
            "rank 0 step 0: expected a part with some of the 1 blocks, got part 1",
        ),
        (
            vec![vec![update(1, 0), read(1, 0, Higher)], vec![update(0, 0)]],
            CheckError::Unmatched { rank: 0, step: 0, expected: link(0, 0, 1, 0), came: None },
            "rank 0 step 0: expected both ends of (update 0 of rank 0 → read 0 of rank 1), got nothing at the \
             other end",
        ),
        (
            vec![vec![read(1, 0, Higher)], vec![]],
            CheckError::Unmatched { rank: 0, step: 0, expected: link(1, 0, 0, 0), came: None },
            "rank 0 step 0: expected both ends of (update 0 of rank 1 → read 0 of rank 0), got nothing at the \
             other end",
        ),
        (
            // Rank 1 returns the right to overwrite to an update that is not there.
            vec![vec![update(1, 0), read(1, 0, Higher)], vec![update(0, 0), read(0, 1, Lower)]],
            CheckError::Unmatched { rank: 0, step: 0, expected: link(0, 0, 1, 0), came: Some(link(0, 1, 1, 0)) },
            "rank 0 step 0: expected both ends of (update 0 of rank 0 → read 0 of rank 1), got \
             (update 1 of rank 0 → read 0 of rank 1) at the other end",
        ),
        (
            // Two updates claim the same read.
            vec![vec![update(1, 0), update(1, 0), read(1, 0, Higher)], vec![update(0, 0), read(0, 0, Lower)]],
            CheckError::Unmatched { rank: 0, step: 1, expected: link(0, 1, 1, 0), came: Some(link(0, 0, 1, 0)) },
            "rank 0 step 1: expected both ends of (update 1 of rank 0 → read 0 of rank 1), got \
             (update 0 of rank 0 → read 0 of rank 1) at the other end",
        ),
        (
            // Both read first.
            vec![vec![read(1, 0, Higher), update(1, 0)], vec![read(0, 0, Lower), update(0, 0)]],
            CheckError::Deadlock {
                rank: 0,
                step: 0,
                expected: link(1, 0, 0, 0),
                stuck: 2,
                channels: Channels::Unbounded,
            },
            "rank 0 step 0: expected (update 0 of rank 1 → read 0 of rank 0) to complete, got a deadlock of 2 ranks \
             with unbounded channels",
        ),
        (
            // The second exchange is with the first partner again.
            vec![
                vec![update(1, 0), read(1, 0, Higher), update(1, 1), read(1, 1, Higher)],
                vec![update(0, 0), read(0, 0, Lower), update(0, 1), read(0, 1, Lower)],
                vec![],
            ],
            result(0, "the contributions at positions 0..3, with 2", "((0 1) (0 1))"),
            "rank 0 after its last step: expected in block 0 the contributions at positions 0..3, with 2, got \
             ((0 1) (0 1))",
        ),
        (
            // The last exchange is missing.
            vec![vec![update(1, 0), read(1, 0, Higher)], vec![update(0, 0), read(0, 0, Lower)], vec![]],
            result(0, "the contributions at positions 0..3, with 2", "(0 1)"),
            "rank 0 after its last step: expected in block 0 the contributions at positions 0..3, with 2, got (0 1)",
        ),
        (
            vec![vec![update(1, 0), read(1, 0, Higher)], vec![update(0, 0), read(0, 0, Replace)]],
            result(1, "the contributions at positions 0..2, with 1", "0"),
            "rank 1 after its last step: expected in block 0 the contributions at positions 0..2, with 1, got 0",
        ),
    ];
    for (lists, expected, text) in broken {
        let error = check_lists(&lists).expect_err(text);
        assert_eq!(error, expected);
        assert_eq!(error.to_string(), text);
    }
    let two = Goal::allreduce(2, 1);
    assert_eq!(
        check(&two, |_| recursive_doubling(0, 3)).unwrap_err().to_string(),
        "rank 0: expected its schedule among 2 ranks with 1 blocks, got the schedule of rank 0 among 3 with 1"
    );
    assert!(matches!(check(&two, |_| recursive_doubling(0, 2)), Err(CheckError::Foreign { expected: (1, 2, 1), .. })));
    let blocks = Goal::allreduce(2, 2);
    let other_blocks = check(&blocks, |rank| recursive_doubling(rank, 2));
    assert!(matches!(other_blocks, Err(CheckError::Foreign { came: (0, 2, 1), .. })));
}

const ORDER_IS_FREE: Laws = Laws { associative: true, commutative: true, infallible: true, ..Laws::NONE };
const COMMUTES: Laws = Laws { commutative: true, ..Laws::NONE };

/// What is right for some operators only.
#[test]
fn laws_are_the_weakest_under_which_the_goal_is_reached() {
    let laws = |lists: &[Vec<Step>]| check_lists(lists).unwrap().laws;
    let brackets = [[(1, Higher), (2, Higher)], [(0, Lower), (2, Higher)], [(1, Lower), (0, Lower)]];
    assert_eq!(laws(&all_to_all(brackets)), Laws { associative: true, infallible: true, ..Laws::NONE });
    // Rank 2 combines rank 0 with itself before it has rank 1.
    let left = [[(1, Higher), (2, Higher)], [(0, Lower), (2, Higher)], [(0, Lower), (1, Higher)]];
    assert_eq!(laws(&all_to_all(left)), ORDER_IS_FREE);
    let twice = [
        vec![update(1, 0), read(1, 0, Higher), update(1, 1), read(1, 1, Higher)],
        vec![update(0, 0), read(0, 0, Lower), update(0, 1), read(0, 1, Lower)],
    ];
    assert_eq!(laws(&twice), Laws { idempotent: true, ..ORDER_IS_FREE });
    let three = |rank: u32| dissemination(rank, 3, 1);
    let report = check(&Goal::allreduce(3, 1), three).unwrap();
    assert_eq!((report.laws, report.by_doubling, report.by_loop), (ORDER_IS_FREE, false, false));
}

/// One tree with other operands on the left.
#[test]
fn swapped_operands_need_commutativity_alone() {
    let numbers = |lists: &[Vec<Step>]| {
        let report = check_lists(lists).unwrap();
        (report.laws, report.by_doubling, report.by_loop)
    };
    // The higher rank combines as if it were the lower one.
    let swapped = [vec![update(1, 0), read(1, 0, Higher)], vec![update(0, 0), read(0, 0, Higher)]];
    assert_eq!(numbers(&swapped), (COMMUTES, true, true));
    // ((0 1) 2), (2 (1 0)) and (2 (0 1)).
    let three = [
        vec![update(1, 0), read(1, 0, Higher), update(2, 0), read(2, 0, Higher)],
        vec![update(0, 0), read(0, 0, Higher), read(2, 1, Lower)],
        vec![update(0, 1), update(1, 1), read(0, 1, Higher)],
    ];
    assert_eq!(numbers(&three), (COMMUTES, true, true));
    // Everybody has ((0 2) 1) from rank 0.
    let one = [
        vec![read(2, 0, Higher), read(1, 0, Higher), update(1, 0), update(2, 0)],
        vec![update(0, 1), read(0, 0, Replace)],
        vec![update(0, 0), read(0, 1, Replace)],
    ];
    assert_eq!(numbers(&one), (COMMUTES, false, false));
    // ((0 1) (2 3)) at rank 0, and ((0 2) (1 3)). The others have swapped operands.
    let exchanges = |ways: [u32; 2]| {
        let round = |rank: u32, at: u16| {
            let peer = rank ^ ways[usize::from(at)];
            [update(peer, at), read(peer, at, Higher)]
        };
        [0, 1, 2, 3].map(|rank| [round(rank, 0), round(rank, 1)].concat())
    };
    assert_eq!(numbers(&exchanges([1, 2])), (COMMUTES, true, false));
    assert_eq!(numbers(&exchanges([2, 1])), (COMMUTES, false, false));
}

/// Rank 1 hands its value over three times, and gets what rank 0 made of it.
fn three_values(how: [Combine; 3]) -> [Vec<Step>; 2] {
    let reads = (0u16..).zip(how).map(|(at, how)| read(1, at, how));
    [reads.chain([update(1, 0)]).collect(), vec![update(0, 0), update(0, 1), update(0, 2), read(0, 0, Replace)]]
}

#[test]
fn what_is_taken_out_again_needs_an_inverse() {
    let laws = Laws { invertible: true, ..ORDER_IS_FREE };
    // ((0 1) ⊕ 1) ⊖ 1, and ((0 1) ⊖ 1) ⊕ 1
    for how in [[Higher, Higher, Undo], [Lower, Undo, Higher]] {
        assert_eq!(check_lists(&three_values(how)).unwrap().laws, laws);
    }
    // ((0 1) (0 1)) ⊖ (0 1) beside (0 1)
    let sums = [
        vec![update(1, 0), read(1, 0, Higher), read(1, 1, Higher), read(1, 2, Undo)],
        vec![update(0, 0), read(0, 0, Lower), update(0, 1), update(0, 2)],
    ];
    assert_eq!(check_lists(&sums).unwrap().laws, laws);
}

/// (a ⊕ b) ⊖ b is a. Of (a ⊖ b) ⊕ b and of b ⊖ b no law says anything: with products of integers and the quotient as their
/// inverse, (3 ⊖ 2) ⊕ 2 is 2.
#[test]
fn only_what_is_there_can_be_taken_out() {
    let refused = |how: [Combine; 3], step: usize, expected: &str, came: &str| {
        let error = check_lists(&three_values(how)).expect_err(came);
        assert_eq!(error, CheckError::Undo { rank: 0, step, expected: expected.into(), came: came.into() });
        assert_eq!(error.to_string(), format!("rank 0 step {step}: expected {expected}, got {came}"));
    };
    let lacks = "the contribution of rank 1 in r0[0] as often as it is taken out";
    refused([Undo, Higher, Higher], 0, lacks, "0");
    refused([Higher, Undo, Undo], 2, lacks, "((0 1) ⊖ 1)");
    refused([Replace, Undo, Higher], 1, "a contribution in r0[0] that is not taken out", "1");
}

/// Register 0 gets the contribution 2^40 times, and register 1 gets it 2^31 − 2 times.
#[test]
fn numbers_above_2_to_31_are_not_told_apart() {
    let [value, other] = [0, 1].map(|register| Part::block(register, 0));
    let checked = |taken: &Part| {
        check(&Goal::allreduce(1, 1), |rank| {
            let (mut schedule, own) = (Schedule::new(rank, 1, 1), Part::block(2, 0));
            schedule.local(value.clone(), own.clone(), Replace);
            schedule.local(value.clone(), other.clone(), Replace);
            (0..40).for_each(|_| schedule.local(value.clone(), value.clone(), Higher));
            for _ in 0..29 {
                schedule.local(other.clone(), other.clone(), Higher);
                schedule.local(own.clone(), other.clone(), Higher);
            }
            schedule.local(other.clone(), other.clone(), Higher);
            schedule.local(taken.clone(), value.clone(), Undo);
            schedule
        })
    };
    assert_eq!(checked(&other).unwrap().laws, Laws::ALL);
    let error = checked(&value).unwrap_err().to_string();
    assert!(error.contains("expected the contribution of rank 0 in r0[0] as often as it is taken out"), "{error}");
}

/// One schedule for rank 0 and one for rank 1.
type Pair = [fn(&mut Schedule); 2];

fn check_pair(goal: &Goal, pair: Pair) -> Result<Report, CheckError> {
    check(goal, |rank| {
        let mut schedule = Schedule::new(rank, 2, goal.blocks());
        pair[rank as usize](&mut schedule);
        schedule
    })
}

#[test]
fn broken_parts_are_refused_by_name() {
    let (two_blocks, scatter) = (Goal::allreduce(2, 2), Goal::scatter(2, 0, Ranks::all(2)));
    let gather = Goal::gather(2, Ranks::all(2), Ranks::all(2));
    let broken: Vec<(&Goal, Pair, &str)> = vec![
        (
            &two_blocks,
            [|s| s.update(1, 0, Part::new(0, 1..3)), |s| s.read(0, 0, Part::new(0, 0..2), Higher)],
            "rank 0 step 0: expected a part with some of the 2 blocks, got r0[1..3]",
        ),
        (
            &two_blocks,
            [|s| s.update(1, 0, Part::new(0, 1..1)), |s| s.read(0, 0, Part::new(0, 1..1), Higher)],
            "rank 0 step 0: expected a part with some of the 2 blocks, got r0[1..1]",
        ),
        (
            &two_blocks,
            [|s| s.local(Part::new(0, 0..2), Part::block(1, 0), Replace), |_| {}],
            "rank 0 step 0: expected 1 blocks, as its part has, got 2 from the other part",
        ),
        (
            &two_blocks,
            [|s| s.update(1, 0, Part::new(0, 0..2)), |s| s.read(0, 0, Part::block(0, 1), Higher)],
            "rank 0 step 0: expected 2 blocks, as its part has, got 1 from the other part",
        ),
        (
            &two_blocks,
            [|s| s.update(1, 0, Part::block(1, 0)), |s| s.read(0, 0, Part::block(0, 0), Higher)],
            "rank 0 step 0: expected a value in r1[0], got nothing",
        ),
        (
            &two_blocks,
            [|s| s.local(Part::block(0, 0), Part::block(1, 1), Higher), |_| {}],
            "rank 0 step 0: expected a value in r1[1], got nothing",
        ),
        (
            &two_blocks,
            [|s| s.local(Part::block(0, 0), Part::block(0, 1), Higher), |_| {}],
            "rank 0 after its last step: expected in block 0 the contributions at positions 0..2, with 1, got 0[0]",
        ),
        (
            // Block 1 of rank 0 is combined with block 0 of rank 1.
            &two_blocks,
            [
                |s| {
                    s.update(1, 0, Part::new(0, 0..2));
                    s.read(1, 0, Part::block(0, 0), Higher);
                    s.read(1, 1, Part::block(0, 1), Higher);
                },
                |s| {
                    s.update(0, 0, Part::block(0, 0));
                    s.update(0, 1, Part::block(0, 0));
                    s.read(0, 0, Part::new(0, 0..2), Lower);
                },
            ],
            "rank 0 step 2: expected blocks of one number to combine, got several",
        ),
        (
            // A block of the sum in the place of the other one.
            &two_blocks,
            [
                |s| {
                    s.update(1, 0, Part::new(0, 0..2));
                    s.read(1, 0, Part::new(0, 0..2), Higher);
                    s.local(Part::block(0, 0), Part::block(0, 1), Replace);
                },
                |s| {
                    s.update(0, 0, Part::new(0, 0..2));
                    s.read(0, 0, Part::new(0, 0..2), Lower);
                },
            ],
            "rank 0 after its last step: expected in block 1 the contributions at positions 0..2 in this block, got \
             (0[0] 1[0])",
        ),
        (
            &scatter,
            [|s| s.update(1, 0, Part::block(0, 0)), |s| s.read(0, 0, Part::block(0, 1), Replace)],
            "rank 1 after its last step: expected in block 1 0[1], got 0[0]",
        ),
        (&scatter, [|_| {}, |_| {}], "rank 1 after its last step: expected in block 1 0[1], got nothing"),
        (
            &gather,
            [|s| s.update(1, 0, Part::block(0, 0)), |s| s.read(0, 0, Part::block(0, 0), Replace)],
            "rank 0 after its last step: expected in block 1 1[1], got nothing",
        ),
        (
            // Combined where it should be copied.
            &gather,
            [
                |s| {
                    s.update(1, 0, Part::block(0, 0));
                    s.read(1, 0, Part::block(0, 1), Replace);
                },
                |s| {
                    s.update(0, 0, Part::block(0, 1));
                    s.read(0, 0, Part::block(0, 1), Lower);
                },
            ],
            "rank 1 after its last step: expected in block 0 0[0], got nothing",
        ),
    ];
    for (goal, pair, text) in broken {
        assert_eq!(check_pair(goal, pair).expect_err(text).to_string(), text);
    }
    let error = |goal: &Goal| check(goal, |rank| Schedule::new(rank, 2, 1)).unwrap_err().to_string();
    let last = Part::block(0, u32::MAX);
    let refused = check_pair(&two_blocks, [|s| s.update(1, 0, Part::block(0, u32::MAX)), |_| {}]).unwrap_err();
    assert_eq!(refused, CheckError::Part { rank: 0, step: 0, blocks: 2, came: last.to_string() });
    let goal = |contributors: Vec<u32>| Goal::reduce(2, Ranks::of(contributors), Ranks::all(2), 1);
    assert_eq!(error(&goal(vec![])), "expected at least one contributor, got none");
    assert_eq!(error(&goal(vec![0, 2])), "expected contributors and receivers below 2, got 2");
    assert_eq!(error(&Goal::broadcast(2, 5, 1)), "expected contributors and receivers below 2, got 5");
}

/// A register may have any number, a step one of 65,536.
#[test]
fn the_largest_numbers() {
    let goal = Goal::allreduce(2, 1);
    let exchange = |rank: u32| {
        let (peer, how) = (1 - rank, if rank == 0 { Higher } else { Lower });
        let mut schedule = Schedule::new(rank, 2, 1);
        schedule.local(Part::block(0, 0), Part::block(255, 0), Replace);
        schedule.update(peer, 0, Part::block(255, 0));
        schedule.read(peer, 0, Part::block(255, 0), how);
        schedule.with_result(255)
    };
    assert_eq!(exchange(0).registers(), 256);
    assert_eq!(check(&goal, exchange).unwrap().laws, Laws::NONE);

    let many = |messages: u32| {
        let make = move |rank: u32| {
            let mut schedule = Schedule::new(rank, 2, 1);
            (0..messages).for_each(|_| match rank {
                0 => schedule.send(1, Part::block(0, 0)),
                _ => schedule.receive(0, Part::block(0, 0), Replace),
            });
            schedule
        };
        check(&Goal::broadcast(2, 0, 1), |rank| Schedule::linked(rank, make))
    };
    assert_eq!(many(1 << 16).unwrap().messages, 1 << 16);
    let error = many((1 << 16) + 3).unwrap_err();
    assert!(matches!(error, CheckError::Unmatched { rank: 0, step: 65536, .. }), "{error}");
}

/// The steps of ranks that there are not are not asked for.
#[test]
fn messages_to_nobody_are_refused() {
    let make = |rank: u32| {
        assert!(rank < 3, "there is no rank {rank}");
        let mut schedule = Schedule::new(rank, 3, 1);
        schedule.send(rank + 1, Part::block(0, 0));
        schedule
    };
    let error = check(&Goal::allreduce(3, 1), |rank| Schedule::linked(rank, make)).unwrap_err();
    assert_eq!(error, CheckError::Peer { rank: 2, step: 0, ranks: 3, came: 3 });
    let foreign = |ranks: u32| check(&Goal::allreduce(2, 1), |rank| Schedule::new(rank, ranks, 1)).unwrap_err();
    for ranks in [0, 1, 3, u32::MAX] {
        assert_eq!(foreign(ranks), CheckError::Foreign { expected: (0, 2, 1), came: (0, ranks, 1) });
    }
}

/// Both change a vector that is on loan three times, before they read. That needs three vectors.
#[test]
fn more_loans_than_a_register_has_vectors_are_refused() {
    let goal = Goal::allreduce(2, 1);
    let steps = |rank: u32, loans: u32| {
        let (peer, how) = (1 - rank, if rank == 0 { Higher } else { Lower });
        let [value, other] = [0, 1].map(|register| Part::block(register, 0));
        let mut schedule = Schedule::new(rank, 2, 1);
        schedule.local(value.clone(), other.clone(), Replace);
        for loan in 0..loans {
            schedule.update(peer, loan, value.clone());
            schedule.local(other.clone(), value.clone(), Replace);
        }
        for loan in 0..loans {
            schedule.read(peer, loan, value.clone(), if loan == 0 { how } else { Replace });
            schedule.local(other.clone(), value.clone(), if loan == 0 { Replace } else { how });
        }
        schedule
    };
    let Err(CheckError::Deadlock { rank, step, stuck, channels, expected }) = check(&goal, |rank| steps(rank, 2))
    else {
        panic!("accepted");
    };
    assert_eq!((rank, step, stuck, channels, expected), (0, 4, 2, Channels::TwoVectors, link(0, 0, 1, 0)));
    assert!(!matches!(check(&goal, |rank| steps(rank, 1)), Err(CheckError::Deadlock { .. })));
}

/// A group combines whole vectors of shards that all have one, or gathers their blocks.
#[test]
fn a_group_has_whole_vectors_only() {
    let in_pairs = |goal: &Goal, add: &dyn Fn(&mut Schedule)| {
        check(goal, |rank| {
            let mut schedule = Schedule::new(rank, 2, goal.blocks());
            if rank == 0 {
                add(&mut schedule);
            }
            schedule.in_group(0..2)
        })
    };
    let (all, one) = (|| Ranks::all(2), Ranks::one(0));
    let itself = |schedule: &mut Schedule| schedule.local(Part::block(0, 0), Part::block(0, 0), Replace);
    let group = |checked: Result<Report, CheckError>, at: u32| match checked {
        Err(CheckError::Group { rank, .. }) => assert_eq!(rank, at),
        other => panic!("{other:?}"),
    };
    assert!(in_pairs(&Goal::reduce(2, all(), one.clone(), 3), &|_| {}).is_ok());
    group(in_pairs(&Goal::reduce(2, one, all(), 1), &|_| {}), 1);
    group(in_pairs(&Goal::reduce_scatter(2, all(), all()), &|_| {}), 0);
    assert!(in_pairs(&Goal::gather(2, all(), all()), &|_| {}).is_ok());
    group(in_pairs(&Goal::gather(2, all(), Ranks::one(0)), &|_| {}), 0);
    group(in_pairs(&Goal::gather(2, Ranks::one(0), Ranks::one(0)), &|_| {}), 1);
    group(in_pairs(&Goal::gather(2, all(), all()), &itself), 0);
    group(in_pairs(&Goal::allreduce(2, 1), &itself), 0);
    group(in_pairs(&Goal::allreduce(2, 2), &itself), 0);
}

/// Rank 2 neither contributes nor receives, so nobody would run its steps.
#[test]
fn who_takes_no_part_has_no_steps() {
    let goal = Goal::reduce(3, Ranks::all(2), Ranks::one(0), 1);
    let checked = |of_rank_2: &[Step]| {
        check(&goal, |rank| match rank {
            0 => with(0, 3, &[read(1, 0, Higher)]),
            1 => with(1, 3, &[update(0, 0)]),
            _ => with(2, 3, of_rank_2),
        })
    };
    assert!(checked(&[]).is_ok());
    assert_eq!(checked(&[update(0, 0)]), Err(CheckError::Idle { rank: 2, came: 1 }));
}

/// Memory is asked for blocks that are used, and only a limited number of blocks can be named.
#[test]
fn blocks_are_no_more_than_can_be_named() {
    let with_blocks = |blocks: u32| {
        check(&Goal::allreduce(1, blocks), move |_| Schedule::new(0, 1, blocks)).map(|report| report.blocks)
    };
    assert_eq!(with_blocks(65_536), Ok(0));
    for came in [65_537, u32::MAX - 1, u32::MAX] {
        assert_eq!(with_blocks(came), Err(CheckError::Blocks { most: 65_536, came }));
    }
    // One block for each of many ranks.
    assert_eq!(check_goal(&Goal::gather(100_000, Ranks::all(100_000), Ranks::one(0))), Ok(()));
}

/// Laws that the operator needs for what no result depends on.
#[test]
fn steps_without_a_result_ask_for_laws_too() {
    let laws = |steps: &[(u32, Combine)]| {
        let schedule = |rank: u32| {
            let mut schedule = recursive_doubling(rank, 2);
            for &(_, how) in steps.iter().filter(|(at, _)| *at == rank) {
                schedule.local(Part::block(0, 0), Part::block(1, 0), how);
            }
            schedule
        };
        check(&Goal::allreduce(2, 1), schedule).unwrap().laws
    };
    assert_eq!(laws(&[(1, Replace)]), Laws::NONE);
    assert_eq!(laws(&[(1, Replace), (1, Higher)]), Laws { infallible: true, ..Laws::NONE });
    let undone = Laws { infallible: true, invertible: true, ..Laws::NONE };
    assert_eq!(laws(&[(1, Replace), (1, Higher), (1, Undo)]), undone);
}

#[test]
fn ranks_name_the_same_group_and_only_its_first_one_has_steps() {
    let checked = |groups: [Range<u32>; 4], steps: [Vec<Step>; 4]| {
        check(&Goal::allreduce(4, 1), |rank| {
            with(rank, 4, &steps[rank as usize]).in_group(groups[rank as usize].clone())
        })
    };
    let none = || [vec![], vec![], vec![], vec![]];
    // Two pairs, whose first ranks exchange; and all in one group, with no steps at all.
    let pairs = || [0..2, 0..2, 2..4, 2..4];
    let exchange = |peer, how| vec![update(peer, 0), read(peer, 0, how)];
    let steps = || [exchange(2, Higher), vec![], exchange(0, Lower), vec![]];
    let report = checked(pairs(), steps()).unwrap();
    assert_eq!((report.rounds, report.messages, report.subtasks), (3, 6, 12));
    let report = checked([0..4, 0..4, 0..4, 0..4], none()).unwrap();
    assert_eq!((report.rounds, report.messages, report.subtasks), (2, 6, 12));

    // All have one part, which the leader's result is for.
    let follow = |result: u8| {
        let schedule = move |rank: u32| {
            let schedule = recursive_doubling(rank / 2, 2).among(rank, 4, |leader| 2 * leader);
            let follows = !rank.is_multiple_of(2);
            let schedule = if follows { Schedule::new(rank, 4, 1).with_result(result) } else { schedule };
            schedule.in_group(rank / 2 * 2..rank / 2 * 2 + 2)
        };
        check(&Goal::allreduce(4, 1), schedule)
    };
    assert_eq!(follow(0).unwrap().messages, 6);
    assert!(matches!(follow(7), Err(CheckError::Group { rank: 1, .. })));

    let wrong = |groups, steps, at| match checked(groups, steps).unwrap_err() {
        CheckError::Group { rank, .. } => assert_eq!(rank, at),
        e => panic!("{e}"),
    };
    wrong([0..2, 0..2, 2..4, 0..1], steps(), 2);
    wrong([0..2, 0..2, 2..4, 3..5], steps(), 2);
    wrong([0..2, 0..2, 3..4, 2..4], none(), 2);
    wrong([0..1, 0..2, 2..4, 2..4], none(), 1);
    wrong([0..2, 1..2, 2..4, 2..4], none(), 0);
    wrong(pairs(), [vec![], exchange(2, Higher), exchange(1, Lower), vec![]], 1);
    // Sound groups, and yet half the contributions.
    assert!(matches!(checked(pairs(), none()), Err(CheckError::Result { rank: 0, .. })));
}
