//! Proofs of all algorithms, and their numbers against formulas.

use maniple_schedules::{
    Adaption, CheckError, Goal, Laws, Order, Ranks, Report, Scan, Schedule, Survivors, Want, binomial_broadcast,
    binomial_gather, binomial_scatter, bruck_all_to_all, bruck_allgather, chain_broadcast, check, direct,
    dissemination, five_cases, halving_doubling, halving_reduce_scatter, radix, recursive_doubling, ring_allgather,
    sliced,
};

fn proved(goal: &Goal, what: &str, schedule: impl FnMut(u32) -> Schedule) -> Report {
    check(goal, schedule).unwrap_or_else(|error: CheckError| panic!("{what}, {} ranks: {error}", goal.ranks()))
}

/// Numbers of ranks.
type Sizes<'a> = &'a [u32];

/// A sample that has every kind of number: powers, their neighbours, odd and prime ones.
const SAMPLE: Sizes = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 19, 25, 27, 32, 36, 63, 64, 65, 96, 100];

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_sample() {
    radix_exchanges_have_the_brackets_of_recursive_doubling(SAMPLE);
    dissemination_takes_the_least_rounds_for_every_size(SAMPLE);
    the_five_cases_take_the_least_rounds_too(SAMPLE);
    direct_reaches_every_goal(&SAMPLE[..16]);
    halving_keeps_the_brackets_of_recursive_doubling(SAMPLE);
    slices_are_combined_in_any_order(SAMPLE);
    trees_and_chains_broadcast_and_gather(SAMPLE);
    bruck_takes_the_least_rounds(&SAMPLE[..20]);
    rings_take_turns(&SAMPLE[..20]);
    scans_by_doubling(SAMPLE);
    survivors_reduce_for_any_contributors_and_receivers(SAMPLE);
}

/// Rounds that grow with the logarithm for P = 1 to 300, and for some sizes to 5,000 if they do not have P blocks. Linear ones
/// to 130.
#[test]
#[ignore = "takes minutes; after a change of an algorithm or of the checker"]
fn nightly_all_sizes() {
    let (few, many): (Vec<u32>, Vec<u32>) = ((1..=130).collect(), (1..=300).collect());
    let mut large = many.clone();
    let mut state = 1u64;
    large.extend((0..20).map(|_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        300 + (state >> 33) as u32 % 4700
    }));
    large.extend([1000, 1024, 2187, 4096, 5000]);
    radix_exchanges_have_the_brackets_of_recursive_doubling(&large);
    dissemination_takes_the_least_rounds_for_every_size(&large);
    the_five_cases_take_the_least_rounds_too(&large);
    direct_reaches_every_goal(&few);
    halving_keeps_the_brackets_of_recursive_doubling(&many);
    slices_are_combined_in_any_order(&few);
    trees_and_chains_broadcast_and_gather(&large);
    bruck_takes_the_least_rounds(&many);
    rings_take_turns(&few);
    scans_by_doubling(&large);
    survivors_reduce_for_any_contributors_and_receivers(&large);
}

/// Each of two ranks has its own contribution on the right. Three have three trees.
fn laws_of_dissemination(ranks: u32) -> Laws {
    Laws { associative: ranks > 2, commutative: ranks > 1, infallible: ranks > 2, ..Laws::NONE }
}

fn radix_exchanges_have_the_brackets_of_recursive_doubling(sizes: Sizes) {
    for &ranks in sizes {
        for bits in 1..=5 {
            let report = proved(&Goal::allreduce(ranks, 1), "radix", |rank| radix(rank, ranks, 1 << bits));
            assert_eq!(report.laws, Laws::NONE);
            assert!(report.by_doubling);
            let m = ranks.ilog2();
            let (all, surplus) = (u64::from(ranks), ranks - (1 << m));
            // The first round: everybody in a group of places to everybody else.
            let size = 1 << bits.min(m);
            let groups = (0..1 << m).step_by(size).map(|first| {
                let pairs = (first as u32..first as u32 + size as u32).filter(|&place| place < surplus).count() as u64;
                size as u64 + pairs
            });
            let first: u64 = groups.map(|ranks| ranks * (ranks - 1)).sum();
            // Then rounds of all bits, and one of the others.
            let left = m - bits.min(m);
            let (whole, rest) = (u64::from(left / bits), left % bits);
            let of_one = whole * ((1 << bits) - 1) + ((1 << rest) - 1);
            assert_eq!(report.messages, first + of_one * all, "{ranks} ranks, radix 2^{bits}");
            assert_eq!(report.rounds, m.div_ceil(bits), "{ranks} ranks, radix 2^{bits}: {report:?}");
        }
        if ranks.is_power_of_two() {
            let two = (0..ranks).map(|rank| radix(rank, ranks, 2));
            assert!(two.eq((0..ranks).map(|rank| recursive_doubling(rank, ranks))));
        }
    }
}

fn ceil_log(ranks: u32, base: u32) -> u32 {
    (0..).find(|&rounds| u64::from(base).pow(rounds) >= u64::from(ranks)).unwrap()
}

fn dissemination_takes_the_least_rounds_for_every_size(sizes: Sizes) {
    for &ranks in sizes {
        for n in 1..=7 {
            let what = format!("{n}-way dissemination");
            let report = proved(&Goal::allreduce(ranks, 1), &what, |rank| dissemination(rank, ranks, n));
            let rounds = ceil_log(ranks, n + 1);
            assert_eq!(report.rounds, rounds, "{what}, {ranks} ranks");
            let first = (ranks - 1) / (n + 1).pow(rounds.saturating_sub(1));
            let messages = if ranks == 1 { 0 } else { first + n * (rounds - 1) };
            assert_eq!(report.messages, u64::from(ranks) * u64::from(messages), "{what}, {ranks} ranks");
            assert_eq!(report.laws, laws_of_dissemination(ranks), "{what}, {ranks} ranks");
        }
    }
}

/// The adaption for this number of ranks; `None` if they are a power of n + 1, which needs none.
fn adaption(ranks: u32, n: u32) -> Option<Adaption> {
    let exact = (n + 1).pow(ceil_log(ranks, n + 1)) == ranks;
    Adaption::find(ranks, n).filter(|_| !exact)
}

fn the_five_cases_take_the_least_rounds_too(sizes: Sizes) {
    for (&ranks, n) in sizes.iter().flat_map(|ranks| (1..=7).map(move |n| (ranks, n))) {
        let (goal, adaption, rounds) = (Goal::allreduce(ranks, 1), adaption(ranks, n), ceil_log(ranks, n + 1));
        let left_out = adaption.map_or(0, |a| a.left_out());
        let last = adaption.map_or(n, |a| a.senders - u32::from(a.case() == 3));
        let messages = if ranks == 1 { 0 } else { n * (rounds - 1) + last };
        for inverse in [false, true] {
            let made = |rank| five_cases(rank, ranks, n, inverse);
            if !Adaption::exists(ranks, n) {
                assert!((0..ranks).all(|rank| made(rank).is_none()));
                continue;
            }
            let what = format!("{n}-way five cases, inverse {inverse}");
            let report = proved(&goal, &what, |rank| made(rank).unwrap());
            let laws = Laws { invertible: inverse && left_out > 0, ..laws_of_dissemination(ranks) };
            assert_eq!(report.laws, laws, "{what}, {ranks} ranks: {adaption:?}");
            assert_eq!(report.rounds, rounds, "{what}, {ranks} ranks");
            assert_eq!(report.messages, u64::from(ranks) * u64::from(messages), "{what}, {ranks} ranks");
        }
    }
}

/// For n = 1, 2, 3 and 4, of P = 2 … 130.
#[test]
fn the_five_cases_are_adaptable_where_their_equation_has_a_solution() {
    let mut seen = [0; 6];
    for (n, expected) in [(1, 65), (2, 96), (3, 117), (4, 129)] {
        assert_eq!((2..=130).filter(|&ranks| Adaption::exists(ranks, n)).count(), expected, "n = {n}");
        for ranks in 2..=130 {
            let Some(adaption) = adaption(ranks, n) else { continue };
            seen[adaption.case() as usize] += 1;
            let q = u64::from(n + 1).pow(ceil_log(ranks, n + 1) - 1);
            let sent = u64::from(adaption.senders) * q + adaption.kept();
            assert_eq!(u64::from(ranks) + adaption.left_out(), sent);
        }
    }
    assert!(seen[1..].iter().all(|&times| times > 0), "{seen:?}");
    let none = |ranks: u32| (1..=7).all(|n| Adaption::find(ranks, n).is_none());
    let without: Vec<u32> = (2..=1000).filter(|&ranks| none(ranks)).collect();
    assert_eq!((without.len(), without[0]), (28, 601));
}

/// Sets of ranks: all, one, and some from the seed.
fn some_ranks(ranks: u32, seed: u32) -> Ranks {
    let kept = |rank: &u32| {
        let mixed = (rank ^ seed.rotate_left(9)).wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
        mixed >> 28 < 2 + (seed % 7) * 2
    };
    match seed {
        0 => Ranks::all(ranks),
        1 => Ranks::one(ranks / 2),
        2 => Ranks::one(ranks - 1),
        _ => {
            let some: Vec<u32> = (0..ranks).filter(kept).collect();
            if some.is_empty() { Ranks::one(seed % ranks) } else { Ranks::of(some) }
        }
    }
}

/// One goal of each kind.
fn goals(ranks: u32, seed: u32) -> Vec<Goal> {
    let (some, others) = (some_ranks(ranks, seed), some_ranks(ranks, seed / 2 + 1));
    let root = (seed * 7 + 1) % ranks;
    vec![
        Goal::allreduce(ranks, 1 + seed % 3),
        Goal::reduce(ranks, some.clone(), others.clone(), 1 + seed % 2),
        Goal::reduce_scatter(ranks, some.clone(), others.clone()),
        Goal::scan(ranks, some.clone(), others.clone(), 1),
        Goal::exscan(ranks, some.clone(), others.clone(), 2),
        Goal::broadcast_to(ranks, root, some.clone(), 3),
        Goal::gather(ranks, some.clone(), others.clone()),
        Goal::scatter(ranks, root, some.clone()),
        Goal::all_to_all(ranks, some, others),
    ]
}

fn direct_reaches_every_goal(sizes: Sizes) {
    for &ranks in sizes {
        for seed in 0..12 {
            for goal in goals(ranks, seed) {
                for order in [Order::Doubling, Order::Left] {
                    let what = format!("direct {goal}, seed {seed}, {order:?}");
                    let report = proved(&goal, &what, |rank| direct(&goal, rank, order));
                    assert_eq!(report.laws, Laws::NONE, "{what}, {ranks} ranks");
                    assert!(if order == Order::Left { report.by_loop } else { report.by_doubling }, "{what}");
                    assert!(report.rounds <= 1, "{what}");
                    let pair = |from: u32, to: u32| u64::from(from != to && wants_of(&goal, to, from));
                    let all = |to: u32| goal.contributors().iter().map(move |from| (from, to));
                    let pairs: u64 = goal.receivers().iter().flat_map(all).map(|(from, to)| pair(from, to)).sum();
                    assert_eq!(report.messages, pairs, "{what}, {ranks} ranks");
                }
            }
        }
    }
}

/// Whether some of a rank's result is of the contribution of another.
fn wants_of(goal: &Goal, to: u32, from: u32) -> bool {
    let from = goal.contributors().position(from).unwrap();
    goal.result(to).any(|block| match goal.want(to, block) {
        Want::Nothing => false,
        Want::Copy { of, .. } => of == from,
        Want::Fold { from: start, to: end } => (start..end).contains(&from),
    })
}

fn halving_keeps_the_brackets_of_recursive_doubling(sizes: Sizes) {
    for &ranks in sizes {
        let bits = ranks.ilog2();
        let (size, surplus) = (1u64 << bits, u64::from(ranks) - (1 << bits));
        let goal = Goal::allreduce(ranks, size as u32);
        let report = proved(&goal, "halving and doubling", |rank| halving_doubling(rank, ranks));
        assert!(report.laws == Laws::NONE && report.by_doubling);
        assert!((2 * bits..=2 * bits + 2).contains(&report.rounds));
        assert_eq!(report.messages, size * 2 * u64::from(bits) + 2 * surplus);
        assert_eq!(report.blocks, size * 2 * (size - 1) + 2 * surplus * size);
        let (all, goal) = (u64::from(ranks), Goal::reduce_scatter(ranks, Ranks::all(ranks), Ranks::all(ranks)));
        let report = proved(&goal, "halving", |rank| halving_reduce_scatter(rank, ranks));
        assert!(report.laws == Laws::NONE && report.by_doubling);
        assert!((bits..=bits + 2).contains(&report.rounds));
        assert_eq!(report.messages, size * u64::from(bits) + 2 * surplus);
        assert_eq!(report.blocks, all * (size - 1) + surplus * (all + 1));
    }
}

fn slices_are_combined_in_any_order(sizes: Sizes) {
    for &ranks in sizes {
        for order in [Order::Doubling, Order::Left] {
            let goal = Goal::allreduce(ranks, ranks);
            let report = proved(&goal, "sliced", |rank| sliced(rank, ranks, order));
            assert!(report.laws == Laws::NONE);
            assert!(if order == Order::Left { report.by_loop } else { report.by_doubling });
            let messages = u64::from(ranks) * 2 * u64::from(ranks - 1);
            let rounds = if ranks == 1 { 0 } else { 2 };
            assert_eq!((report.rounds, report.messages, report.blocks), (rounds, messages, messages));
        }
    }
}

fn trees_and_chains_broadcast_and_gather(sizes: Sizes) {
    for &ranks in sizes {
        for seed in 0..8 {
            let root = (seed * 11 + 2) % ranks;
            let receivers = some_ranks(ranks, seed);
            let others = u64::from(receivers.len()) - u64::from(receivers.contains(root));
            // Place p is as deep in the tree as it has ones.
            let depth = |places: u32| (0..places).map(u32::count_ones).max().unwrap_or(0);
            let rounds = depth(others as u32 + 1);
            assert!(rounds <= ceil_log(others as u32 + 1, 2));
            let goal = Goal::broadcast_to(ranks, root, receivers.clone(), 1);
            let report = proved(&goal, "binomial", |rank| binomial_broadcast(rank, ranks, root, &receivers));
            assert_eq!((report.rounds, report.messages), (rounds, others));
            for blocks in [1, 5] {
                let goal = Goal::broadcast_to(ranks, root, receivers.clone(), blocks);
                let report = proved(&goal, "chain", |rank| chain_broadcast(rank, ranks, root, &receivers, blocks));
                assert_eq!((report.rounds, report.messages), (others as u32, others * u64::from(blocks)));
            }
            for of in [Ranks::all(ranks), receivers] {
                let gathered = Goal::gather(ranks, of.clone(), Ranks::one(root));
                let gather = proved(&gathered, "gather", |rank| binomial_gather(rank, ranks, root, &of));
                let scattered = Goal::scatter(ranks, root, of.clone());
                let scatter = proved(&scattered, "scatter", |rank| binomial_scatter(rank, ranks, root, &of));
                // One message to each rank but the root, and one more where its blocks go round the end.
                let others = of.len() - u32::from(of.contains(root));
                for report in [gather, scatter] {
                    assert_eq!(report.rounds, depth(others + 1));
                    let most = u64::from(others) + u64::from(ceil_log(others + 1, 2));
                    assert!((u64::from(others)..=most).contains(&report.messages), "{report:?}");
                }
                assert_eq!(gather.blocks, scatter.blocks);
            }
        }
    }
}

fn bruck_takes_the_least_rounds(sizes: Sizes) {
    for &ranks in sizes {
        for seed in [0, 1, 4, 5, 6] {
            let of = some_ranks(ranks, seed);
            let (m, goal) = (u64::from(of.len()), Goal::gather(ranks, of.clone(), of.clone()));
            let rounds = ceil_log(m as u32, 2);
            let bruck = proved(&goal, "Bruck", |rank| bruck_allgather(rank, ranks, &of));
            assert_eq!((bruck.rounds, bruck.blocks), (rounds, m * (m - 1)));
            assert!(bruck.messages <= 2 * m * u64::from(rounds));
            let goal = Goal::all_to_all(ranks, of.clone(), of.clone());
            let bruck = proved(&goal, "Bruck", |rank| bruck_all_to_all(rank, ranks, &of));
            let bits: u64 = (0..m).map(|way| u64::from(way.count_ones())).sum();
            assert_eq!((bruck.rounds, bruck.messages, bruck.blocks), (rounds, m * u64::from(rounds), m * bits));
        }
    }
}

fn rings_take_turns(sizes: Sizes) {
    for &ranks in sizes {
        for seed in [0, 1, 4, 5, 6] {
            let of = some_ranks(ranks, seed);
            let (m, gather) = (u64::from(of.len()), Goal::gather(ranks, of.clone(), of.clone()));
            let ring = proved(&gather, "ring", |rank| ring_allgather(rank, ranks, &of));
            let found = (u64::from(ring.rounds), ring.messages, ring.blocks);
            assert_eq!(found, (m - 1, m * (m - 1), m * (m - 1)));
        }
    }
}

fn scans_by_doubling(sizes: Sizes) {
    for (&ranks, inclusive) in sizes.iter().flat_map(|ranks| [(ranks, true), (ranks, false)]) {
        let kind = if inclusive { Goal::scan } else { Goal::exscan };
        let proved = |from: &Ranks, to: &Ranks| {
            let scan = Scan::new(ranks, from.clone(), to.clone(), inclusive);
            let what = format!("scan of {from} for {to}");
            let report = proved(&kind(ranks, from.clone(), to.clone(), 1), &what, |rank| scan.schedule(rank));
            assert_eq!(report.laws, Laws::NONE, "{what}");
            let idle = (0..ranks).filter(|&rank| !from.contains(rank) && !to.contains(rank));
            assert!(idle.into_iter().all(|rank| scan.schedule(rank).steps().is_empty()), "{what}");
            report
        };
        for seed in [0, 1, 4, 5] {
            let of = some_ranks(ranks, seed);
            let (c, report) = (of.len(), proved(&of, &of));
            let messages: u32 = (0..ceil_log(c, 2)).map(|round| c - (1 << round)).sum();
            assert_eq!(report.messages, u64::from(messages));
            assert!(report.rounds <= ceil_log(c, 2));
            // An exclusive scan combines twice where somebody further on needs what the rank has after that round.
            let both = (0..ceil_log(c, 2)).map(|round| c.saturating_sub(3 << round)).sum::<u32>();
            assert_eq!(report.locals, if inclusive { 0 } else { 2 * u64::from(both) });
            // A check compares with a tree for each prefix, which takes time c².
            if ranks > 1000 {
                continue;
            }
            // With other receivers never more than that, and some for each that does not contribute.
            let to = some_ranks(ranks, seed + 3);
            for to in [to.clone(), Ranks::all(ranks)] {
                let outside = to.iter().filter(|&rank| !of.contains(rank) && of.at(0) < rank).count() as u32;
                let (other, each) = (proved(&of, &to), if inclusive { 1 } else { ceil_log(c + 1, 2) });
                assert!(other.messages <= (messages + outside * each).into(), "scan of {of} for {to}: {other:?}");
                assert!(other.rounds <= ceil_log(c + 1, 2) + ceil_log(outside + 1, 2));
            }
            // For one, as few as there are contributions from others.
            let one = to.at(to.len() / 2);
            let others = of.iter().filter(|&from| from < one).count();
            assert_eq!(proved(&of, &Ranks::one(one)).messages, others as u64, "scan of {of} for {one}");
        }
    }
}

fn survivors_reduce_for_any_contributors_and_receivers(sizes: Sizes) {
    for &ranks in sizes {
        for seed in 0..20 {
            let (contributors, receivers) = (some_ranks(ranks, seed), some_ranks(ranks, seed / 3 + seed * 5));
            let survivors = Survivors::new(ranks, contributors.clone(), receivers.clone());
            let goal = Goal::reduce(ranks, contributors.clone(), receivers.clone(), 1);
            let what = format!("survivors of {contributors:?} for {receivers:?}");
            let report = proved(&goal, &what, |rank| survivors.schedule(rank));
            assert!(report.laws == Laws::NONE && report.by_doubling, "{what}");
            let (c, r) = (contributors.len(), receivers.len());
            let handed_out = if r <= c { 2 } else { 1 + ceil_log(1 + r.div_ceil(1 << c.ilog2()), 2) };
            assert!(report.rounds <= ceil_log(c, 2) + handed_out, "{what}: {report:?}");
            let outside = receivers.iter().filter(|&rank| !contributors.contains(rank)).count();
            // Others than these see no message.
            let idle = (0..ranks).filter(|&rank| !contributors.contains(rank) && !receivers.contains(rank));
            assert!(idle.into_iter().all(|rank| survivors.schedule(rank).steps().is_empty()), "{what}");
            if r == 1 {
                let messages = c as usize - 1 + outside;
                assert_eq!(report.messages, messages as u64, "{what}");
            }
        }
        let all = Survivors::new(ranks, Ranks::all(ranks), Ranks::all(ranks));
        let goal = Goal::allreduce(ranks, 1);
        let (mine, doubling) = (
            proved(&goal, "survivors", |rank| all.schedule(rank)),
            proved(&goal, "recursive doubling", |rank| recursive_doubling(rank, ranks)),
        );
        assert_eq!(mine, doubling);
    }
}
