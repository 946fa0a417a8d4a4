//! The right results, by a sequential loop over the contributions. It knows nothing of schedules.

use super::kind::Parties;
use super::values::{Measured, Op, Values};
use maniple_collectives::{Goal, Kind};
use std::sync::{Arc, OnceLock};

/// The number of different contributions that calls take in turns. No two calls that a mistake could mix up have the same:
/// neither neighbours nor calls of one slot.
pub const VARIANTS: usize = 3;

/// The result of an exclusive scan where nobody contributes before.
pub const IDENTITY: u32 = 77;

/// One vector for each variant.
pub type Vectors<T> = [Arc<[T]>; VARIANTS];

/// What is contributed, and the right results.
pub struct Oracle<T> {
    pub parties: Parties,
    goal: Goal,
    /// Elements of a block.
    pub elements: usize,
    values: Values,
    op: Op,
    /// The results that receivers have in common: of all, or in a scan of each number of contributors.
    common: OnceLock<Vec<Vectors<T>>>,
}

impl<T: Measured> Oracle<T> {
    /// The oracle of a collective of these shards.
    pub fn new(parties: &Parties, elements: usize, op: Op) -> Self {
        let contributors = parties.participants.len();
        let values = Values { op: parties.combines().then_some(op), contributors };
        Self { parties: parties.clone(), goal: parties.goal(1), elements, values, op, common: OnceLock::new() }
    }

    /// The contributions at a position.
    pub fn contributions(&self, position: u32) -> [Vec<T>; VARIANTS] {
        let length = self.elements * self.parties.blocks_in() as usize;
        [0, 1, 2].map(|variant| self.part(variant, position, 0, length))
    }

    /// The right results at a receiver's position.
    pub fn results(&self, position: u32) -> Vectors<T> {
        let rank = self.parties.receivers.at(position);
        match self.parties.kind {
            Kind::Scan | Kind::Exscan => {
                self.common.get_or_init(|| self.scanned())[self.goal.combined(rank) as usize].clone()
            }
            Kind::ReduceScatter | Kind::Scatter | Kind::AllToAll => self.result(rank),
            _ => self.common.get_or_init(|| vec![self.result(rank)])[0].clone(),
        }
    }

    fn result(&self, rank: u32) -> Vectors<T> {
        [0, 1, 2].map(|variant| {
            let block = |from: u32, block: u32| {
                let block = if self.parties.kind.has_block_for_each_receiver() { block as usize } else { 0 };
                self.part(variant, from, block * self.elements, self.elements)
            };
            let fold = |all: Vec<Vec<T>>| all.into_iter().reduce(|a, b| self.combined(&a, &b)).unwrap_or_default();
            self.goal.expected(rank, block, fold).concat().into()
        })
    }

    /// The combinations of each number of contributors.
    fn scanned(&self) -> Vec<Vectors<T>> {
        transposed([0, 1, 2].map(|variant| {
            let mut all: Vec<Arc<[T]>> = vec![vec![T::whole(IDENTITY); self.elements].into()];
            for position in 0..self.parties.participants.len() {
                let own = self.part(variant, position, 0, self.elements);
                all.push(if position == 0 { own.into() } else { self.combined(&all[position as usize], &own).into() });
            }
            all
        }))
    }

    /// A part of the contribution at a position.
    fn part(&self, variant: usize, position: u32, from: usize, length: usize) -> Vec<T> {
        (from..from + length).map(|index| self.values.element(variant, position, index)).collect()
    }

    fn combined(&self, lower: &[T], higher: &[T]) -> Vec<T> {
        lower.iter().zip(higher).map(|(&a, &b)| T::combine(self.op, a, b)).collect()
    }
}

/// The vectors of each position, with all their variants.
fn transposed<T>([a, b, c]: [Vec<Arc<[T]>>; VARIANTS]) -> Vec<Vectors<T>> {
    a.into_iter().zip(b).zip(c).map(|((a, b), c)| [a, b, c]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_collectives::Ranks;

    fn oracle(kind: Kind, from: &[u32], to: &[u32]) -> Oracle<u64> {
        let (participants, receivers) = (Ranks::of(from.iter().copied()), Ranks::of(to.iter().copied()));
        Oracle::new(&Parties { kind, shards: 8, participants, receivers }, 2, Op::Sum)
    }

    /// Written out for three contributors of two elements.
    #[test]
    fn results_by_hand() {
        let from = [1, 4, 6];
        for variant in 0..VARIANTS {
            let all = |kind, to: &[u32], position| oracle(kind, &from, to).results(position)[variant].to_vec();
            let x = |kind| [0, 1, 2].map(|at| oracle(kind, &from, &from).contributions(at)[variant].clone());
            let [a, b, c] = x(Kind::Allreduce);
            assert_eq!((a.len(), b.len(), c.len()), (2, 2, 2));
            let sum = vec![a[0] + b[0] + c[0], a[1] + b[1] + c[1]];
            assert_eq!(all(Kind::Allreduce, &from, 2), sum);
            assert_eq!(all(Kind::Reduce, &[0, 7], 1), sum);
            assert_eq!(all(Kind::Scan, &from, 0), a);
            assert_eq!(all(Kind::Scan, &from, 1), [a[0] + b[0], a[1] + b[1]]);
            assert_eq!(all(Kind::Scan, &from, 2), sum);
            assert_eq!(all(Kind::Exscan, &from, 0), [77, 77]);
            assert_eq!(all(Kind::Exscan, &from, 1), a);
            assert_eq!(all(Kind::Exscan, &from, 2), [a[0] + b[0], a[1] + b[1]]);
            // Of others than the contributors.
            let others = [0, 1, 5, 7];
            assert_eq!(all(Kind::Scan, &others[1..], 1), [a[0] + b[0], a[1] + b[1]]);
            assert_eq!(all(Kind::Scan, &others[1..], 2), sum);
            for (at, expected) in [vec![77, 77], vec![77, 77], vec![a[0] + b[0], a[1] + b[1]], sum].iter().enumerate() {
                assert_eq!(all(Kind::Exscan, &others, at as u32), *expected);
            }
            let [a, b, c] = x(Kind::Gather);
            assert_eq!(all(Kind::Gather, &[3], 0), [a, b, c].concat());
            let [a, b, c] = x(Kind::AllToAll);
            assert_eq!(a.len(), 6);
            assert_eq!(all(Kind::AllToAll, &from, 1), [a[2], a[3], b[2], b[3], c[2], c[3]]);
            let two = oracle(Kind::AllToAll, &from, &[0, 6]);
            assert_eq!(two.contributions(2)[variant].len(), 4);
            let of = |at: u32| two.contributions(at)[variant][2..].to_vec();
            assert_eq!(two.results(1)[variant][..], [of(0), of(1), of(2)].concat());
            let [a, b, c] = x(Kind::ReduceScatter);
            assert_eq!(all(Kind::ReduceScatter, &from, 2), [a[4] + b[4] + c[4], a[5] + b[5] + c[5]]);
            let one = oracle(Kind::Scatter, &[2], &[0, 5, 7]);
            assert_eq!(one.results(1)[variant][..], one.contributions(0)[variant][2..4]);
            let one = oracle(Kind::Broadcast, &[2], &[0, 5, 7]);
            assert_eq!(one.results(1)[variant][..], one.contributions(0)[variant]);
        }
    }

    /// The result of a call before, or of one before that, is not taken for the right one.
    #[test]
    fn variants_have_different_results() {
        for kind in [Kind::Allreduce, Kind::ReduceScatter, Kind::Gather, Kind::AllToAll, Kind::Broadcast] {
            let from = if kind == Kind::Broadcast { &[0][..] } else { &[0, 1, 2] };
            let results = oracle(kind, from, &[0, 1, 2]).results(0);
            assert!(results[0] != results[1] && results[1] != results[2] && results[0] != results[2], "{kind:?}");
        }
    }
}
