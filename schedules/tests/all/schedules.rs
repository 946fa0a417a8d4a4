//! Schedules against their checker, and against an interpreter of the protocol that shares nothing with the checker.

use crate::interpreter::{Fault, Random, Run, Stopped};
use crate::size::part;
use maniple_regions::Operator;
use maniple_schedules::{
    CheckError, Combine, Goal, Groups, Laws, Ranks, Report, Schedule, Step, bruck_allgather, check, dissemination,
    five_cases, recursive_doubling, two_level, two_level_allgather,
};
use proptest::prelude::*;
use std::ops::Range;

fn update(peer: u32, at: u16) -> Step {
    Step::Update { peer, at, part: 0 }
}

fn read(peer: u32, at: u16, combine: Combine) -> Step {
    Step::Read { peer, at, part: 0, combine }
}

use Combine::{IncomingIsHigher as Higher, IncomingIsLower as Lower, Replace, Undo};

/// The schedule of a rank with one block and these steps.
fn with(rank: u32, ranks: u32, steps: &[Step]) -> Schedule {
    let mut schedule = Schedule::new(rank, ranks, 1);
    steps.iter().for_each(|&step| schedule.push(step));
    schedule
}

/// The report of an allreduce that every operator can have. Another one is an error in words.
fn prove(ranks: u32, schedule: impl FnMut(u32) -> Schedule) -> Result<Report, String> {
    let report = check(&Goal::allreduce(ranks, 1), schedule).map_err(|error: CheckError| error.to_string())?;
    if report.laws == Laws::NONE { Ok(report) } else { Err(format!("it needs laws: {}", report.laws)) }
}

fn schedules(participants: u32) -> Vec<Schedule> {
    (0..participants).map(|rank| recursive_doubling(rank, participants)).collect()
}

/// 2×2 matrices modulo 2^64: exact, associative, not commutative.
type Matrix = [u64; 4];

fn matmul(a: &Matrix, b: &Matrix) -> Matrix {
    let dot = |r: usize, c: usize| a[2 * r].wrapping_mul(b[c]).wrapping_add(a[2 * r + 1].wrapping_mul(b[2 + c]));
    [dot(0, 0), dot(0, 1), dot(1, 0), dot(1, 1)]
}

fn matrix(call: usize, rank: usize) -> Matrix {
    let mut random = Random((call as u64) << 32 | rank as u64);
    std::array::from_fn(|_| random.below(usize::MAX) as u64 | 1)
}

fn product_in_rank_order(call: usize, participants: usize) -> Matrix {
    (1..participants).fold(matrix(call, 0), |product, rank| matmul(&product, &matrix(call, rank)))
}

/// For operators without an inverse: a wrong value.
fn never<T: bytemuck::Pod>(mut value: T, _: T) -> T {
    bytemuck::bytes_of_mut(&mut value).iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    value
}

fn run_matrices(
    schedules: &[Schedule],
    (slots, calls): (usize, usize),
    seed: u64,
    fault: Fault,
) -> Result<Vec<Vec<Matrix>>, Stopped> {
    let operator = Operator::user("matrix product", matmul);
    let run = Run { schedules, operator, undo: never, slots, calls, seed, fault };
    run.go(matrix)
}

fn is_right(schedules: &[Schedule], results: &[Vec<Matrix>]) -> bool {
    results.iter().enumerate().all(|(call, row)| {
        let expected = product_in_rank_order(call, schedules.len());
        row.iter().all(|&came| came == expected)
    })
}

#[test]
fn recursive_doubling_is_an_allreduce_for_every_size() {
    for participants in (1..=300).chain([511, 512, 513, 1000, 1023, 4096]) {
        let report = prove(participants, |rank| recursive_doubling(rank, participants))
            .unwrap_or_else(|error| panic!("{participants} participants: {error}"));
        let lower = participants.next_power_of_two().ilog2();
        assert!((lower..=lower + 1).contains(&report.rounds), "{report:?}");
        for rank in [0, participants / 3, participants / 2, participants - 1] {
            let steps = recursive_doubling(rank, participants).steps().len() as u32;
            assert!(steps <= 2 * participants.ilog2() + 2);
        }
    }
}

#[test]
fn subtasks_are_as_many_as_the_paper_says() {
    // 2·P·log₂ P for a power of two.
    let powers = [
        (1, 0),
        (2, 4),
        (4, 16),
        (8, 48),
        (16, 128),
        (32, 320),
        (64, 768),
        (128, 1792),
        (256, 4096),
        (512, 9216),
        (1024, 20480),
        (4096, 98304),
    ];
    // Otherwise the number for the power of two below, and four for each surplus rank.
    let others = [(3, 8), (5, 20), (6, 24), (7, 28), (12, 64), (31, 188), (100, 912), (300, 4272), (1000, 11168)];
    for (participants, subtasks) in powers.into_iter().chain(others) {
        let report = prove(participants, |rank| recursive_doubling(rank, participants)).unwrap();
        assert_eq!(report.subtasks, subtasks, "{participants} participants");
        assert_eq!(report.messages * 2, subtasks);
        assert_eq!(report.ranks, participants);
    }
}

/// Sizes of the blocks of some participants, from the seed.
fn some_groups(participants: u32, seed: u64) -> Groups {
    let mut random = Random(seed);
    let largest = 1 + random.below(participants as usize);
    let mut place = Vec::new();
    for processor in 0.. {
        place.extend(std::iter::repeat_n(processor, 1 + random.below(largest)));
        if place.len() >= participants as usize {
            break;
        }
    }
    place.truncate(participants as usize);
    Groups::runs(&place)
}

#[test]
fn two_levels_are_an_allreduce_for_every_size_and_any_blocks() {
    for participants in 1..=300 {
        for seed in 0..4 {
            let groups = some_groups(participants, u64::from(participants) << 8 | seed);
            let report = prove(participants, |rank| two_level(rank, &groups))
                .unwrap_or_else(|error| panic!("{participants} participants in {groups:?}: {error}"));
            // Each rank but the first of a block hands its value over and gets the result; the others are few.
            let leaders = prove(groups.len(), |rank| recursive_doubling(rank, groups.len())).unwrap();
            let messages = 2 * u64::from(participants - groups.len()) + leaders.messages;
            assert!((leaders.rounds..=leaders.rounds + 2).contains(&report.rounds), "{report:?}");
            assert_eq!(report.messages, messages, "{participants} participants in {groups:?}");
        }
    }
}

/// Blocks of the ranks of a node are in the vector of its first one, which sends as in Bruck's allgather.
#[test]
fn two_levels_are_an_allgather_for_every_size_any_groups_and_any_nodes() {
    for ranks in (1..=64).chain([100, 200, 300]) {
        let all = || Ranks::all(ranks);
        for seed in 0..6 {
            let groups = some_groups(ranks, u64::from(ranks) << 8 | seed);
            // Neighbours on a node of 1 rank and more, up to all ranks.
            let size = [1, 1, 2, 5, 16, ranks][seed as usize];
            let groups = groups.on_nodes(|rank| rank / size);
            let report = check(&Goal::gather(ranks, all(), all()), |rank| two_level_allgather(rank, &groups))
                .unwrap_or_else(|error| panic!("{ranks} ranks in {groups:?}: {error}"));
            let firsts: Vec<u32> = (0..ranks).filter(|&rank| groups.of_rank(rank).start == rank).collect();
            let on_nodes = firsts.chunk_by(|a, b| a / size == b / size);
            let nodes = on_nodes.clone().count() as u32;
            let leaders = Ranks::all(nodes);
            let bruck = check(&Goal::gather(nodes, leaders.clone(), leaders.clone()), |rank| {
                bruck_allgather(rank, nodes, &leaders)
            })
            .unwrap();
            assert!((bruck.rounds..=bruck.rounds + 4).contains(&report.rounds), "{report:?}");
            // Each other rank hands its blocks over and gets all.
            assert_eq!(report.messages, bruck.messages + 2 * u64::from(ranks - nodes), "{ranks} ranks in {groups:?}");
            // Each node gets the blocks of the others once.
            let handed_over = on_nodes.flat_map(|of| of[1..].iter()).map(|&rank| groups.of_rank(rank).len() as u64);
            let (n, m, nodes) = (u64::from(ranks), firsts.len() as u64, u64::from(nodes));
            let blocks = (nodes - 1) * n + handed_over.map(|blocks| blocks + n).sum::<u64>() + (n - m) * (1 + n);
            assert_eq!(report.blocks, blocks, "{ranks} ranks in {groups:?}");
        }
    }
}

/// Steps have numbers of 16 bits.
#[test]
fn a_node_of_very_many_groups_counts_as_several() {
    let groups = Groups::of(30_000, 1).on_nodes(|_| "all");
    for rank in [0, 1023, 1024, 29_999] {
        assert!(two_level_allgather(rank, &groups).steps().len() <= 2 * 1023 + 4 * 5, "rank {rank}");
    }
}

/// The operator tells every grouping apart. Powers of two group as recursive doubling does, over any number of blocks.
#[test]
fn equal_blocks_of_a_power_of_two_group_as_recursive_doubling_does() {
    let mix = |a: &u64, b: &u64| (a.rotate_left(5) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // What a block brings: its lower half with its upper half.
    fn halves(ranks: Range<u32>, mix: &impl Fn(&u64, &u64) -> u64) -> u64 {
        let middle = ranks.start + ranks.len() as u32 / 2;
        match ranks.len() {
            1 => u64::from(ranks.start) + 1,
            _ => mix(&halves(ranks.start..middle, mix), &halves(middle..ranks.end, mix)),
        }
    }
    let results = |schedules: &[Schedule]| {
        let operator = Operator::user("mix", mix);
        let run = Run { schedules, operator, undo: never, slots: 1, calls: 1, seed: 7, fault: Fault::None };
        let results = run.go(|_, rank| halves(schedules[rank].group(), &mix)).unwrap().remove(0);
        schedules.iter().map(|s| results[s.group().start as usize]).collect::<Vec<_>>()
    };
    for size in [1, 2, 4, 8, 16] {
        for blocks in 1..=12 {
            let participants = size * blocks;
            let two: Vec<_> = (0..participants).map(|r| two_level(r, &Groups::of(participants, size))).collect();
            let one: Vec<_> = (0..participants).map(|r| recursive_doubling(r, participants)).collect();
            assert!(two.iter().all(|s| s.group().len() as u32 == size));
            assert_eq!(results(&two), results(&one), "{blocks} blocks of {size}");
        }
    }
}

#[test]
fn rounds_are_the_longest_chain_of_messages() {
    let rounds = [
        (1, 0),
        (2, 1),
        (4, 2),
        (8, 3),
        (64, 6),
        (4096, 12),
        // 1 → 0 → 2, and the result 0 → 1 needs the first of these and 2 → 0.
        (3, 2),
        // 5 → 4 → 2 → 0 → 1, with 4 → 2 and 2 → 0 in the two rounds between.
        (7, 4),
    ];
    for (participants, expected) in rounds {
        let report = prove(participants, |rank| recursive_doubling(rank, participants));
        assert_eq!(report.unwrap().rounds, expected, "{participants} participants");
    }
}

#[test]
fn the_steps_of_small_sizes() {
    assert_eq!(recursive_doubling(0, 1).steps(), []);
    assert_eq!(recursive_doubling(2, 4).steps(), [update(3, 0), read(3, 0, Higher), update(0, 1), read(0, 1, Lower)]);
    let three: Vec<_> = schedules(3).iter().map(|s| s.steps().to_vec()).collect();
    assert_eq!(
        three,
        [
            vec![read(1, 0, Higher), update(2, 0), read(2, 0, Higher), update(1, 0)],
            vec![update(0, 0), read(0, 1, Replace)],
            vec![update(0, 1), read(0, 0, Lower)],
        ]
    );
}

#[test]
#[should_panic(expected = "rank 3 is not below the 3 ranks")]
fn a_rank_outside_panics() {
    recursive_doubling(3, 3);
}

#[test]
fn the_largest_sizes_do_not_overflow() {
    let last = recursive_doubling(u32::MAX - 1, u32::MAX);
    assert_eq!((last.updates(), last.reads()), (31, 31));
    assert_eq!(last.steps()[0], update(u32::MAX - 3, 1));
}

#[test]
fn executed_results_equal_a_fold_in_rank_order() {
    for participants in 1..=300 {
        let schedules = schedules(participants);
        let seed = u64::from(participants);
        let results = run_matrices(&schedules, (1, 1), seed, Fault::None).unwrap();
        assert!(is_right(&schedules, &results), "{participants} participants");
    }
}

#[test]
fn every_rank_holds_the_same_bits_of_a_rounded_sum() {
    for participants in 1..=130 {
        let schedules = schedules(participants);
        let run = Run {
            schedules: &schedules,
            operator: Operator::<f64>::sum(),
            undo: never,
            slots: 1,
            calls: 1,
            seed: 7,
            fault: Fault::None,
        };
        let value = |_, rank: usize| (1.0 + rank as f64).sqrt() * 10f64.powi(rank as i32 % 17 - 8);
        let sums = run.go(value).unwrap().remove(0);
        assert!(sums.iter().all(|s| s.to_bits() == sums[0].to_bits()), "{sums:?}");
        let plain: f64 = (0..participants as usize).map(|rank| value(0, rank)).sum();
        assert!((sums[0] / plain - 1.0).abs() < 1e-12, "{} {plain}", sums[0]);
    }
}

/// Sums of integers, with and without taking a value out again, against the sum.
#[test]
fn dissemination_sums_integers_right() {
    let value = |call: usize, rank: usize| matrix(call, rank)[0];
    for participants in (1..=20u32).chain([27, 36, 64]) {
        for n in 1..=3 {
            let made = |of: &dyn Fn(u32) -> Option<Schedule>| (0..participants).map(of).collect::<Option<Vec<_>>>();
            let bruck_ho = made(&|rank| Some(dissemination(rank, participants, n)));
            let adapted = [false, true].map(|inverse| made(&|rank| five_cases(rank, participants, n, inverse)));
            for schedules in [bruck_ho].into_iter().chain(adapted).flatten() {
                let operator = Operator::<u64>::sum();
                let (slots, calls, seed, fault) = (2, 3, u64::from(participants), Fault::None);
                let undo = u64::wrapping_sub;
                let results =
                    Run { schedules: &schedules, operator, undo, slots, calls, seed, fault }.go(value).unwrap();
                for (call, row) in results.iter().enumerate() {
                    let sum = (0..participants as usize).map(|rank| value(call, rank)).fold(0, u64::wrapping_add);
                    assert!(row.iter().all(|&came| came == sum), "{participants} participants, {n}-way");
                }
            }
        }
    }
}

/// Rank 1 sends its value some times, and then the sum of both. Rank 0 takes them in all ways. Values are how often each
/// contribution is in them, and take out no more than there is, and not all.
#[test]
fn exactly_what_is_right_for_every_inverse_passes() {
    fn undo(all: [u64; 2], taken: [u64; 2]) -> [u64; 2] {
        let covers = all != taken && all.iter().zip(taken).all(|(all, taken)| *all >= taken);
        if covers { [all[0] - taken[0], all[1] - taken[1]] } else { [1000; 2] }
    }
    let (mut right, mut refused) = (0, 0);
    let cases = [3, 4].into_iter().flat_map(|messages: u16| {
        (0..=messages).flat_map(move |own| (0..1 << (2 * messages)).map(move |ways: usize| (messages, own, ways)))
    });
    for (messages, own, ways) in cases {
        let how = |at: u16| [Higher, Lower, Replace, Undo][ways >> (2 * at) & 3];
        let reads = (0..messages).map(|at| read(1, at, how(at)));
        let sends = |from: u16, to: u16| (from..to).map(|at| update(0, at));
        let lists: [Vec<Step>; 2] = [
            [update(1, 0)].into_iter().chain(reads).chain([update(1, 1)]).collect(),
            sends(0, own).chain([read(0, 0, Lower)]).chain(sends(own, messages)).chain([read(0, 1, Replace)]).collect(),
        ];
        let schedules = [0, 1].map(|rank| with(rank, 2, &lists[rank as usize]));
        let operator = Operator::user("count", |a: &[u64; 2], b: &[u64; 2]| [a[0] + b[0], a[1] + b[1]]);
        let run = Run { schedules: &schedules, operator, undo, slots: 1, calls: 1, seed: 1, fault: Fault::None };
        let results = run.go(|_, rank| [[1, 0], [0, 1]][rank]).unwrap();
        let checked = check(&Goal::allreduce(2, 1), |rank| schedules[rank as usize].clone());
        let is_right = results[0][0] == [1, 1];
        match &checked {
            Ok(report) if !report.laws.idempotent => {
                assert_eq!(results, [[[1, 1]; 2]], "{lists:?}");
                right += 1;
            }
            // What was wrong may be replaced later.
            Err(CheckError::Undo { step, .. }) => {
                let replaced = (*step as u16..messages).any(|at| how(at) == Replace);
                assert!(!is_right || replaced, "{lists:?}: {checked:?}");
                refused += 1;
            }
            _ => assert!(!is_right, "{lists:?}: {checked:?}"),
        }
    }
    assert!(right > 100 && refused > 100, "{right} {refused}");
}

#[test]
fn calls_in_flight_do_not_disturb_each_other() {
    for participants in [1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 31] {
        let schedules = schedules(participants);
        for slots in 1..=3 {
            for seed in 0..20 {
                let results = run_matrices(&schedules, (slots, 7), seed, Fault::None).unwrap();
                assert!(is_right(&schedules, &results), "{participants} participants, {slots} slots, seed {seed}");
            }
        }
    }
}

#[test]
fn each_wait_of_the_protocol_is_needed() {
    for fault in [Fault::SkipEmptyWait, Fault::SkipReadyWait, Fault::EarlySlotReuse] {
        let schedules = schedules(4);
        let harmed = (0..200).any(|seed| {
            let results = run_matrices(&schedules, (2, 8), seed, fault);
            !matches!(results, Ok(results) if is_right(&schedules, &results))
        });
        assert!(harmed, "{fault:?} did no harm under 200 orders");
    }
}

fn check_lists(lists: &[Vec<Step>]) -> Result<Report, String> {
    let participants = lists.len() as u32;
    prove(participants, |rank| with(rank, participants, &lists[rank as usize]))
}

#[derive(Clone, Copy, Debug)]
enum Mutation {
    Drop,
    Duplicate,
    SwapWithNext,
    SwapPeerWith(usize),
    SetPeer(usize),
    SetAt(usize),
    SetCombine(Combine),
    Flip,
}

impl Mutation {
    fn any() -> impl Strategy<Value = Mutation> {
        use Mutation::*;
        let combine = prop_oneof![Just(Higher), Just(Lower), Just(Replace), Just(Undo)];
        prop_oneof![
            Just(Drop),
            Just(Duplicate),
            Just(SwapWithNext),
            any::<usize>().prop_map(SwapPeerWith),
            any::<usize>().prop_map(SetPeer),
            (0..12usize).prop_map(SetAt),
            combine.prop_map(SetCombine),
            Just(Flip),
        ]
    }

    fn apply(self, steps: &mut Vec<Step>, place: usize, participants: usize) {
        if steps.is_empty() {
            return;
        }
        let place = place % steps.len();
        match self {
            Mutation::Drop => drop(steps.remove(place)),
            Mutation::Duplicate => steps.insert(place, steps[place]),
            Mutation::SwapWithNext => {
                let next = (place + 1) % steps.len();
                steps.swap(place, next);
            }
            Mutation::SwapPeerWith(other) => {
                let other = other % steps.len();
                let (mine, theirs) = (steps[place].peer(), steps[other].peer());
                set_peer(&mut steps[place], theirs.unwrap());
                set_peer(&mut steps[other], mine.unwrap());
            }
            Mutation::SetPeer(new) => set_peer(&mut steps[place], (new % participants) as u32),
            Mutation::SetAt(new) => match &mut steps[place] {
                Step::Update { at, .. } | Step::Read { at, .. } => *at = new as u16,
                Step::Local { .. } => {}
            },
            Mutation::SetCombine(new) => {
                if let Step::Read { combine, .. } = &mut steps[place] {
                    *combine = new;
                }
            }
            Mutation::Flip => {
                steps[place] = match steps[place] {
                    Step::Update { peer, at, .. } => read(peer, at, Higher),
                    Step::Read { peer, at, .. } => update(peer, at),
                    local => local,
                };
            }
        }
    }
}

fn set_peer(step: &mut Step, new: u32) {
    match step {
        Step::Update { peer, .. } | Step::Read { peer, .. } => *peer = new,
        Step::Local { .. } => {}
    }
}

fn lists(participants: u32) -> Vec<Vec<Step>> {
    schedules(participants).iter().map(|s| s.steps().to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(part(3000) as u32))]

    /// In recursive doubling no step is idle, so one change anywhere is an error.
    #[test]
    fn one_mutation_is_refused(
        participants in 2..40u32,
        rank: usize,
        place: usize,
        mutation in Mutation::any(),
    ) {
        let good = lists(participants);
        let mut lists = good.clone();
        let rank = rank % lists.len();
        mutation.apply(&mut lists[rank], place, participants as usize);
        prop_assume!(lists != good);
        prop_assert!(check_lists(&lists).is_err());
    }

    /// Whatever the checker lets pass is right when it is run, in any order and with calls in flight.
    #[test]
    fn what_passes_is_right(
        participants in 2..6u32,
        mutations in prop::collection::vec((any::<usize>(), any::<usize>(), Mutation::any()), 0..4),
        seed: u64,
    ) {
        let mut lists = lists(participants);
        for (rank, place, mutation) in mutations {
            let rank = rank % lists.len();
            mutation.apply(&mut lists[rank], place, participants as usize);
        }
        let schedules: Vec<_> = lists
            .iter()
            .enumerate()
            .map(|(rank, steps)| with(rank as u32, participants, steps))
            .collect();
        let run = run_matrices(&schedules, (2, 5), seed, Fault::None);
        let right = matches!(&run, Ok(results) if is_right(&schedules, results));
        let verdict = check_lists(&lists);
        prop_assert!(verdict.is_err() || right, "{verdict:?} but {run:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(part(40) as u32))]

    #[test]
    fn random_sizes_run_right(participants in 1..700u32, seed: u64) {
        let schedules = schedules(participants);
        let results = run_matrices(&schedules, (1, 1), seed, Fault::None).unwrap();
        prop_assert!(is_right(&schedules, &results));
    }
}
