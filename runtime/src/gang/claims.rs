//! Finds interference among many users of regions: the points of an index launch, or the shards of a gang.

use maniple_regions::{Interference, Use, interference};
use std::collections::BTreeSet;

/// A use of a region by one of several users that may run at the same time.
#[derive(Debug)]
pub(crate) struct Claim {
    pub user: u32,
    pub at: Use,
}

/// The kind of users. They differ in what they may do to their own data and to others' data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimants {
    /// Points of an index launch. They use the same instances, one after the other where necessary.
    Points,
    /// Shards. Each has its own instance of each region it names. So an element must not be in two of them, and two
    /// reductions would each miss the values of the other.
    Shards,
}

impl Claimants {
    fn refuses(self, a: &Claim, b: &Claim) -> Option<Interference> {
        if a.user == b.user && self == Claimants::Points {
            return None;
        }
        let verdict = interference(&a.at, &b.at);
        let bad = match verdict {
            Interference::None => {
                let writes = a.at.privilege.writes() && b.at.privilege.writes();
                self == Claimants::Shards && writes && a.at.region.overlaps(&b.at.region)
            }
            Interference::Simultaneous => a.at.region != b.at.region,
            Interference::Serializes | Interference::Conflict => true,
        };
        bad.then_some(verdict)
    }
}

/// The first two claims that interfere, if any.
pub(crate) fn conflict(claims: &mut [Claim], users: Claimants) -> Option<(&Claim, &Claim, Interference)> {
    claims.sort_unstable_by_key(|c| {
        let Use { region, field, privilege, coherence } = c.at;
        (region.tree, field, region.rect, privilege, coherence, c.user)
    });
    let of_column = |a: &Claim, b: &Claim| (a.at.region.tree, a.at.field) == (b.at.region.tree, b.at.field);
    claims.chunk_by(of_column).find_map(|column| conflict_of_column(column, users))
}

fn conflict_of_column(column: &[Claim], users: Claimants) -> Option<(&Claim, &Claim, Interference)> {
    // Claims that differ in the user only are grouped, because there may be one for each shard. Two of them stand for
    // all.
    let mut grouped: Vec<&[Claim]> = Vec::new();
    for claims in column.chunk_by(|a, b| a.at == b.at) {
        let other = claims.iter().position(|c| c.user != claims[0].user).unwrap_or(1);
        if let Some(second) = claims.get(other)
            && let Some(verdict) = users.refuses(&claims[0], second)
        {
            return Some((&claims[0], second, verdict));
        }
        grouped.push(claims);
    }
    // Sweeps along the dimension that separates most claims, and keeps those open that may still overlap.
    let rect = |claims: &[Claim]| claims[0].at.region.rect;
    let starts = |&d: &usize| grouped.iter().map(|c| rect(c).lo(d)).collect::<BTreeSet<_>>().len();
    let along = (0..grouped.first().map_or(1, |c| rect(c).dim())).max_by_key(starts).unwrap_or(0);
    grouped.sort_by_key(|c| rect(c).lo(along));
    let (mut readers, mut writers): (Vec<&[Claim]>, Vec<&[Claim]>) = Default::default();
    for claims in grouped {
        let start = rect(claims).lo(along);
        let ended = |open: &mut Vec<&[Claim]>| open.retain(|o| rect(o).hi(along) > start);
        ended(&mut writers);
        let writes = claims[0].at.privilege.writes();
        if writes {
            ended(&mut readers);
        }
        // Readers do not interfere with each other.
        let others = writers.iter().chain(if writes { readers.iter() } else { [].iter() });
        for other in others {
            // Picks two different users if the groups have them.
            let theirs = other.iter().find(|c| c.user != claims[0].user).unwrap_or(&other[0]);
            let ours = claims.iter().find(|c| c.user != theirs.user).unwrap_or(&claims[0]);
            if let Some(verdict) = users.refuses(theirs, ours) {
                return Some((theirs, ours, verdict));
            }
        }
        if writes { writers.push(claims) } else { readers.push(claims) }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_regions::{Coherence, FieldId, Privilege, Rect, ReductionId, Region, TreeId};
    use proptest::prelude::*;

    fn claim() -> impl Strategy<Value = Claim> {
        let privilege = prop_oneof![
            4 => Just(Privilege::Read),
            1 => Just(Privilege::ReadWrite),
            1 => Just(Privilege::WriteDiscard),
            2 => prop::sample::select(vec!["sum", "min"]).prop_map(|op| Privilege::Reduce(ReductionId::new(op))),
        ];
        let coherence = prop_oneof![3 => Just(Coherence::Exclusive), 1 => Just(Coherence::Atomic), 1 => Just(Coherence::Simultaneous)];
        let rect = ((0..6i64, 0..4i64), (0..6i64, 0..4i64));
        (0..4u32, 0..2u32, rect, privilege, coherence).prop_map(
            |(user, tree, ((x, w), (y, h)), privilege, coherence)| {
                let rect = Rect::new([x, y], [x + w, y + h]);
                let region = Region { tree: TreeId(tree), rect };
                Claim { user, at: Use { region, field: FieldId(0), privilege, coherence } }
            },
        )
    }

    proptest! {
        /// The sweep finds a conflict if and only if two claims are one.
        #[test]
        fn the_sweep_finds_what_all_pairs_show(
            mut claims in prop::collection::vec(claim(), 0..7), shards: bool
        ) {
            let users = if shards { Claimants::Shards } else { Claimants::Points };
            let pairs = (0..claims.len()).flat_map(|i| (0..i).map(move |j| (j, i)));
            let expected = pairs.filter(|&(j, i)| users.refuses(&claims[j], &claims[i]).is_some()).count();
            let found = conflict(&mut claims, users);
            prop_assert_eq!(found.is_some(), expected > 0);
            if let Some((a, b, verdict)) = found {
                prop_assert_eq!(users.refuses(a, b), Some(verdict));
            }
        }
    }

    /// Rectangles that overlap, and one that begins between them along one dimension and after both along the other. The sweep
    /// takes the claims in the order of the dimension that it goes along.
    #[test]
    fn a_claim_in_between_hides_no_conflict() {
        let claim = |user, [x, y]: [[i64; 2]; 2]| {
            let region = Region { tree: TreeId(0), rect: Rect::new([x[0], y[0]], [x[1], y[1]]) };
            let privilege = Privilege::ReadWrite;
            Claim { user, at: Use { region, field: FieldId(0), privilege, coherence: Coherence::Exclusive } }
        };
        let all = [[[0, 4], [0, 3]], [[1, 2], [5, 6]], [[2, 5], [1, 2]]];
        for turned in [false, true] {
            let turn = |[x, y]: [[i64; 2]; 2]| if turned { [y, x] } else { [x, y] };
            let mut claims: Vec<Claim> = (0..).zip(all.map(turn)).map(|(user, at)| claim(user, at)).collect();
            let (a, b, _) = conflict(&mut claims, Claimants::Points).expect("the first one and the last one");
            assert_eq!([a.user.min(b.user), a.user.max(b.user)], [0, 2], "turned: {turned}");
        }
    }

    /// Every shard reads one region and writes its own block. The time must not grow with the square of the shards.
    #[test]
    fn a_region_that_all_read_costs_no_square() {
        let shards = 200_000;
        let at = |lo: i64, hi, privilege| {
            let region = Region { tree: TreeId(0), rect: Rect::line(lo, hi) };
            Use { region, field: FieldId(0), privilege, coherence: Coherence::Exclusive }
        };
        let mut claims: Vec<Claim> = (0..shards)
            .flat_map(|user| {
                let block = i64::from(user) + 10;
                let uses = [at(0, 1, Privilege::Read), at(1, 2 + block, Privilege::Read)];
                let own = at(1_000_000 + block, 1_000_001 + block, Privilege::ReadWrite);
                uses.into_iter().chain([own]).map(move |at| Claim { user, at })
            })
            .collect();
        assert!(conflict(&mut claims, Claimants::Shards).is_none());
    }
}
