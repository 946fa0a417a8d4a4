//! Hand-written schedules, sound and broken.

use super::*;
use crate::recursive_doubling;

fn update(peer: u32, at: u16) -> Step {
    Step::Update { peer, at }
}

fn read(peer: u32, at: u16, combine: Combine) -> Step {
    Step::Read { peer, at, combine }
}

use Combine::{IncomingIsHigher as Higher, IncomingIsLower as Lower, Replace};

/// Rank 0 folds everything from left to right and hands out the result.
fn star(participants: u32) -> impl Fn(u32) -> Schedule {
    move |rank| {
        let others = 1..participants;
        let steps = if rank == 0 {
            let fold = others.clone().map(|peer| read(peer, 0, Higher));
            fold.chain(others.map(|peer| update(peer, 0))).collect()
        } else {
            let at = rank as u16 - 1;
            vec![update(0, at), read(0, at, Replace)]
        };
        Schedule::new(rank, participants, steps)
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
    let participants = lists.len() as u32;
    check(participants, |rank| Schedule::new(rank, participants, lists[rank as usize].clone()))
}

#[test]
fn other_algorithms_pass() {
    for participants in 2..50 {
        let report = check(participants, star(participants)).unwrap();
        assert_eq!(report.rounds, 2);
        assert_eq!(report.messages, 2 * (u64::from(participants) - 1));
    }
    let left = [[(1, Higher), (2, Higher)], [(0, Lower), (2, Higher)], [(0, Lower), (1, Higher)]];
    // Rank 2 combines rank 0 with itself before it has rank 1.
    assert!(matches!(check_lists(&all_to_all(left)), Err(CheckError::Order { rank: 2, .. })));
    let right = [[(1, Replace), (2, Higher)], [(2, Higher), (0, Lower)], [(1, Lower), (0, Lower)]];
    assert!(matches!(check_lists(&all_to_all(right)), Err(CheckError::Incomplete { rank: 0, .. })));
}

#[test]
fn one_cell_a_rank_is_not_always_enough() {
    // Each rank sends to both others before it reads, in a circle.
    let lists = vec![
        vec![update(1, 0), update(2, 1), read(2, 0, Lower), read(1, 1, Lower)],
        vec![update(2, 0), update(0, 1), read(0, 0, Lower), read(2, 1, Lower)],
        vec![update(0, 0), update(1, 1), read(1, 0, Lower), read(0, 1, Lower)],
    ];
    // No deadlock: the messages flow, and only then the wrong order shows.
    assert!(matches!(check_lists(&lists), Err(CheckError::Order { .. })));
    let pair = vec![
        vec![update(1, 0), read(1, 0, Higher), update(1, 1), read(1, 1, Replace)],
        vec![update(0, 0), read(0, 0, Lower), update(0, 1), read(0, 1, Replace)],
    ];
    assert!(check_lists(&pair).unwrap().one_cell);
    let exchange = [[(1, Higher), (2, Higher)], [(0, Lower), (2, Higher)], [(0, Replace), (1, Higher)]];
    let mut lists = all_to_all(exchange);
    // Rank 2 takes ranks 0, 1 and then its own value back from rank 0's second message to it.
    lists[0].push(update(2, 2));
    lists[2].push(read(0, 2, Replace));
    assert!(!check_lists(&lists).unwrap().one_cell);
}

#[test]
fn more_than_two_messages_before_the_first_read_are_refused() {
    let others = |rank: u32| (0..4).filter(move |&r| r != rank);
    let number = |of: u32, at: u32| others(at).position(|r| r == of).unwrap() as u16;
    let lists: Vec<Vec<Step>> = (0..4)
        .map(|rank| {
            let updates = others(rank).map(|peer| update(peer, number(rank, peer)));
            updates.chain(others(rank).map(|peer| read(peer, number(rank, peer), Replace))).collect()
        })
        .collect();
    let Err(CheckError::Deadlock { rank, step, stuck, channels, .. }) = check_lists(&lists) else {
        panic!("accepted");
    };
    assert_eq!((rank, step, stuck, channels), (0, 2, 4, Channels::TwoCells));
}

fn link(from: u32, update: u32, to: u32, read: u32) -> Link {
    Link { from, update, to, read }
}

#[test]
fn broken_schedules_are_refused_by_name() {
    let broken: Vec<(Vec<Vec<Step>>, CheckError, &str)> = vec![
        (vec![], CheckError::NoParticipants, "expected at least one participant, got 0"),
        (
            vec![vec![update(1, 0)], vec![update(1, 0)]],
            CheckError::Peer { rank: 1, step: 0, participants: 2, came: 1 },
            "rank 1 step 0: expected another rank below 2 as the peer, got 1",
        ),
        (
            vec![vec![read(2, 0, Replace)], vec![]],
            CheckError::Peer { rank: 0, step: 0, participants: 2, came: 2 },
            "rank 0 step 0: expected another rank below 2 as the peer, got 2",
        ),
        (
            vec![vec![update(1, 0), read(1, 0, Higher)], vec![update(0, 0)]],
            CheckError::Unmatched { rank: 0, step: 0, expected: link(0, 0, 1, 0), came: None },
            "rank 0 step 0: expected both ends of (update 0 of rank 0 → read 0 of rank 1), got nothing at the \
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
            // Both send twice before they read.
            vec![
                vec![update(1, 0), update(1, 1), read(1, 0, Higher), read(1, 1, Higher)],
                vec![update(0, 0), update(0, 1), read(0, 0, Lower), read(0, 1, Lower)],
            ],
            CheckError::Deadlock {
                rank: 0,
                step: 1,
                expected: link(0, 0, 1, 0),
                stuck: 2,
                channels: Channels::SingleSlot,
            },
            "rank 0 step 1: expected (update 0 of rank 0 → read 0 of rank 1) to complete, got a deadlock of 2 ranks \
             with single-slot channels",
        ),
        (
            // The higher rank combines as if it were the lower one.
            vec![vec![update(1, 0), read(1, 0, Higher)], vec![update(0, 0), read(0, 0, Higher)]],
            CheckError::Order { rank: 1, step: 1, lower: 1..2, higher: 0..1 },
            "rank 1 step 1: expected a higher operand that starts at 2 after ranks 1..2, got ranks 0..1",
        ),
        (
            // The second exchange is with the first partner again.
            vec![
                vec![update(1, 0), read(1, 0, Higher), update(1, 1), read(1, 1, Higher)],
                vec![update(0, 0), read(0, 0, Lower), update(0, 1), read(0, 1, Lower)],
            ],
            CheckError::Order { rank: 0, step: 3, lower: 0..2, higher: 0..2 },
            "rank 0 step 3: expected a higher operand that starts at 2 after ranks 0..2, got ranks 0..2",
        ),
        (
            // The last exchange is missing.
            vec![vec![update(1, 0), read(1, 0, Higher)], vec![update(0, 0), read(0, 0, Lower)], vec![]],
            CheckError::Incomplete { rank: 0, expected: 0..3, came: 0..2 },
            "rank 0 after its last step: expected the contributions of ranks 0..3, got 0..2",
        ),
        (
            vec![vec![update(1, 0), read(1, 0, Higher)], vec![update(0, 0), read(0, 0, Replace)]],
            CheckError::Incomplete { rank: 1, expected: 0..2, came: 0..1 },
            "rank 1 after its last step: expected the contributions of ranks 0..2, got 0..1",
        ),
        (
            all_to_all([[(1, Higher), (2, Higher)], [(0, Lower), (2, Higher)], [(1, Lower), (0, Lower)]]),
            CheckError::Grouping { rank: 2, expected: "((0 1) 2)".into(), came: "(0 (1 2))".into() },
            "rank 2 after its last step: expected the grouping of rank 0, ((0 1) 2), got (0 (1 2))",
        ),
    ];
    for (lists, expected, text) in broken {
        let error = check_lists(&lists).expect_err(text);
        assert_eq!(error, expected);
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(
        check(2, |_| recursive_doubling(0, 3)).unwrap_err().to_string(),
        "rank 0: expected its schedule among 2 participants, got that of rank 0 among 3"
    );
    assert!(matches!(check(2, |_| recursive_doubling(0, 2)), Err(CheckError::Foreign { rank: 1, came_rank: 0, .. })));
}

#[test]
fn blocks_are_named_alike_and_only_their_first_rank_has_steps() {
    let checked = |blocks: [Range<u32>; 4], steps: [Vec<Step>; 4]| {
        check(4, |rank| Schedule::in_block(rank, 4, blocks[rank as usize].clone(), steps[rank as usize].clone()))
    };
    let none = || [vec![], vec![], vec![], vec![]];
    // Two pairs, whose first ranks exchange; and all in one block, with no steps at all.
    let pairs = || [0..2, 0..2, 2..4, 2..4];
    let exchange = |peer, how| vec![update(peer, 0), read(peer, 0, how)];
    let steps = || [exchange(2, Higher), vec![], exchange(0, Lower), vec![]];
    let report = checked(pairs(), steps()).unwrap();
    assert_eq!((report.rounds, report.messages, report.subtasks), (3, 6, 12));
    let report = checked([0..4, 0..4, 0..4, 0..4], none()).unwrap();
    assert_eq!((report.rounds, report.messages, report.subtasks), (2, 6, 12));

    let wrong = |blocks, steps, at| match checked(blocks, steps).unwrap_err() {
        CheckError::Block { rank, .. } => assert_eq!(rank, at),
        e => panic!("{e}"),
    };
    wrong([0..2, 0..2, 2..4, 0..1], steps(), 2);
    wrong([0..2, 0..2, 2..4, 3..5], steps(), 2);
    wrong([0..2, 0..2, 3..4, 2..4], none(), 2);
    wrong([0..1, 0..2, 2..4, 2..4], none(), 1);
    wrong([0..2, 1..2, 2..4, 2..4], none(), 0);
    wrong(pairs(), [vec![], exchange(2, Higher), exchange(1, Lower), vec![]], 1);
    // Sound blocks, and yet half the contributions.
    assert!(matches!(checked(pairs(), none()), Err(CheckError::Incomplete { rank: 0, .. })));
}
