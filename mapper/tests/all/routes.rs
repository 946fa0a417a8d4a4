//! Routes: the rounds in which values come, and which trees are legal, against a simulation of the messages.

use maniple_mapper::*;
use maniple_regions::{FieldId, Rect, Region, TreeId};
use proptest::prelude::*;

/// The rounds of a tree, by the messages of one round after the other. Everyone who has the values at the start of a round
/// sends them to the first of its children that still lacks them.
fn simulated(parents: &[u32]) -> Vec<u32> {
    let mut got = vec![None; parents.len()];
    for round in 1.. {
        if got.iter().all(Option::is_some) {
            break;
        }
        let before = got.clone();
        for sender in 0..=parents.len() {
            let has = sender == 0 || before[sender - 1].is_some();
            let child = (0..parents.len()).find(|&c| parents[c] as usize == sender && before[c].is_none());
            if let Some(child) = child.filter(|_| has) {
                got[child] = Some(round);
            }
        }
    }
    got.into_iter().flatten().collect()
}

/// Whether no recipient gets the values later than one with a lower priority, pair by pair.
fn in_order(rounds: &[u32], recipients: &[(ProcessorId, Priority)]) -> bool {
    let pairs = || (0..rounds.len()).flat_map(|a| (0..rounds.len()).map(move |b| (a, b)));
    pairs().all(|(a, b)| recipients[a].1 <= recipients[b].1 || rounds[a] <= rounds[b])
}

fn recipients(mut levels: Vec<u8>) -> Vec<(ProcessorId, Priority)> {
    levels.sort_unstable_by(|a, b| b.cmp(a));
    (1..).zip(levels).map(|(p, level)| (ProcessorId(p), Priority(level))).collect()
}

fn input<'a>(recipients: &'a [(ProcessorId, Priority)], machine: &'a Machine) -> RouteInput<'a> {
    let region = Region::new(TreeId(1), Rect::line(0, 8));
    RouteInput { region, field: FieldId(0), bytes: 64, from: ProcessorId(0), recipients, machine }
}

/// In each round all who have the values send them to as many others, the first ones in the list.
#[test]
fn binomial_doubles_in_each_round_and_linear_adds_one() {
    for number in 0..300 {
        let (mut binomial, mut round) = (Vec::new(), 0);
        while binomial.len() < number {
            round += 1;
            let having = binomial.len() + 1;
            let come = having.min(number - binomial.len());
            binomial.extend(std::iter::repeat_n(round, come));
        }
        assert_eq!(Route::Binomial.rounds(number), binomial);
        let linear = Route::Linear.rounds(number);
        assert!(linear.iter().copied().eq(1..=number as u32), "{linear:?}");
    }
}

/// The binomial tree as a list of parents has the same rounds: recipient i, counted from 1, is told by the one whose number
/// lacks the highest bit of i.
#[test]
fn the_binomial_tree_is_a_legal_tree() {
    let machine = Machine::new(66, 1);
    for number in (2..40).chain([63, 64, 65]) {
        let recipients = recipients((0..number).map(|i| i % 8).collect());
        let parents: Vec<u32> = (1..=u32::from(number)).map(|i| i - (1 << (31 - i.leading_zeros()))).collect();
        assert_eq!(simulated(&parents), Route::Binomial.rounds(number.into()));
        let tree = Route::Tree(parents);
        assert_eq!(tree.rounds(number.into()), Route::Binomial.rounds(number.into()));
        assert_eq!(validate::route("m", &input(&recipients, &machine), tree.clone()), Ok(tree));
    }
}

proptest! {
    #[test]
    fn rounds_are_those_of_the_messages(
        levels in prop::collection::vec(0..3_u8, 2..12),
        draws in prop::collection::vec(any::<u32>(), 12),
        wild in prop::option::weighted(0.2, 0_usize..12),
    ) {
        let (recipients, machine) = (recipients(levels), Machine::new(12, 1));
        let mut parents: Vec<u32> = (1..).zip(&draws).map(|(n, draw)| draw % n).take(recipients.len()).collect();
        let wild = wild.filter(|&at| at < parents.len());
        if let Some(at) = wild {
            parents[at] = at as u32 + 1 + draws[at] % 4;
        }
        let tree = Route::Tree(parents.clone());
        let checked = validate::route("m", &input(&recipients, &machine), tree.clone());
        if wild.is_some() {
            prop_assert!(checked.unwrap_err().to_string().contains("illegal parent of recipient"));
            return Ok(());
        }
        let rounds = simulated(&parents);
        prop_assert_eq!(&tree.rounds(recipients.len()), &rounds);
        match checked {
            Ok(same) => {
                prop_assert!(in_order(&rounds, &recipients));
                prop_assert_eq!(same, tree);
            }
            Err(e) => {
                prop_assert!(!in_order(&rounds, &recipients));
                prop_assert!(e.to_string().contains("illegal round of recipient"), "{}", e);
            }
        }
    }

    /// The mapper `random` draws legal trees, and many of them.
    #[test]
    fn random_trees_are_legal(levels in prop::collection::vec(0..8_u8, 2..40), seed in any::<u64>()) {
        let (recipients, machine) = (recipients(levels), Machine::new(40, 1));
        let (mapper, input) = (RandomMapper::new(seed), input(&recipients, &machine));
        let mut trees = 0;
        for _ in 0..40 {
            let route = mapper.route(&input);
            prop_assert!(validate::route("m", &input, route.clone()).is_ok(), "{:?}", route);
            if let Route::Tree(parents) = route {
                prop_assert!(in_order(&simulated(&parents), &recipients));
                trees += 1;
            }
        }
        prop_assert!(trees > 0);
    }
}
