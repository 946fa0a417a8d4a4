//! Interference of many users of regions at once: points of an index launch, shards of a gang.

use crate::Error;
use crate::core::UseAt;
use crate::launch::{Declaring, Leaf};
use crate::shard::Shard;
use maniple_regions::{Coherence, Interference, Use, interference};
use std::collections::BTreeSet;

/// One user of a region among several that may run at the same time.
#[derive(Debug)]
pub(crate) struct Claim {
    pub user: u32,
    pub at: Use,
}

/// Who claims: what each may do with its own data, and with that of others, differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// Points of an index launch use the same instances, one after the other where they must.
    Points,
    /// Shards have instances of their own, one for each region they name: a cell must not be in two of them, and two
    /// reductions would each miss what the other folds in.
    Shards,
}

impl Users {
    fn refuses(self, a: &Claim, b: &Claim) -> Option<Interference> {
        if a.user == b.user && self == Users::Points {
            return None;
        }
        let verdict = interference(&a.at, &b.at);
        let bad = match verdict {
            Interference::None => {
                let writes = a.at.privilege.writes() && b.at.privilege.writes();
                self == Users::Shards && writes && a.at.region.overlaps(&b.at.region)
            }
            Interference::Simultaneous => a.at.region != b.at.region,
            Interference::Serializes | Interference::Conflict => true,
        };
        bad.then_some(verdict)
    }
}

/// The first two claims that interfere, if any.
pub(crate) fn conflict(claims: &mut [Claim], users: Users) -> Option<(&Claim, &Claim, Interference)> {
    claims.sort_unstable_by_key(|c| {
        let Use { region, field, privilege, coherence } = c.at;
        (region.tree, field, region.rect, privilege, coherence, c.user)
    });
    let of_column = |a: &Claim, b: &Claim| (a.at.region.tree, a.at.field) == (b.at.region.tree, b.at.field);
    claims.chunk_by(of_column).find_map(|column| conflict_of_column(column, users))
}

fn conflict_of_column(column: &[Claim], users: Users) -> Option<(&Claim, &Claim, Interference)> {
    // Claims that differ in the user alone: two stand for all, as there may be as many as shards.
    let mut alike: Vec<&[Claim]> = Vec::new();
    for claims in column.chunk_by(|a, b| a.at == b.at) {
        let other = claims.iter().position(|c| c.user != claims[0].user).unwrap_or(1);
        if let Some(second) = claims.get(other)
            && let Some(verdict) = users.refuses(&claims[0], second)
        {
            return Some((&claims[0], second, verdict));
        }
        alike.push(claims);
    }
    // Sweep along the dimension that tells most claims apart, with those that may still overlap open.
    let rect = |claims: &[Claim]| claims[0].at.region.rect;
    let starts = |&d: &usize| alike.iter().map(|c| rect(c).lo(d)).collect::<BTreeSet<_>>().len();
    let along = (0..alike.first().map_or(1, |c| rect(c).dim())).max_by_key(starts).unwrap_or(0);
    alike.sort_by_key(|c| rect(c).lo(along));
    let (mut readers, mut writers): (Vec<&[Claim]>, Vec<&[Claim]>) = Default::default();
    for claims in alike {
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
            // One user is in both sets, or the first of each differ.
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

/// Refuses an index launch of which two points interfere.
pub(crate) fn check<F: Leaf<M, O>, M, O>(shard: &Shard, args: &[F::Args]) -> Result<(), Error> {
    let mut claims = Vec::new();
    let (task, mut body) = shard.core().reserve_leaf();
    let mut declaring = Declaring { shard, task, body: &mut body, unmet: 0 };
    let mut declare = || -> Result<(), Error> {
        for (user, args) in (0u32..).zip(args) {
            F::declare(args, &mut declaring)?;
            claims.extend(declaring.body.uses.drain(..).map(|UseAt { column, privilege, coherence, .. }| Claim {
                user,
                at: Use { region: column.region, field: column.field.id, privilege, coherence },
            }));
        }
        Ok(())
    };
    let declared = declare();
    shard.core().cancel_leaf(task, body);
    declared?;
    // Simultaneous uses of different regions are the program's own affair within a shard.
    claims.retain(|c| c.at.coherence != Coherence::Simultaneous);
    match conflict(&mut claims, Users::Points) {
        None => Ok(()),
        // Points that only must not overlap in time are kept apart by the launch order.
        Some((_, _, Interference::Serializes)) => Ok(()),
        Some((a, b, _)) => Err(Error::Interference {
            place: crate::Place {
                task: crate::names::short_name(std::any::type_name::<F>()),
                shard: Some(shard.index()),
            },
            between: format!("point {} ({}) and point {} ({})", a.user, a.at, b.user, b.at),
            hint: "give each point a region of its own, or launch the points one after the other".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_regions::{FieldId, Privilege, Rect, ReductionId, Region, TreeId};
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
        /// The sweep finds a conflict exactly when some pair of claims is one.
        #[test]
        fn the_sweep_finds_what_all_pairs_show(
            mut claims in prop::collection::vec(claim(), 0..7), shards: bool
        ) {
            let users = if shards { Users::Shards } else { Users::Points };
            let pairs = (0..claims.len()).flat_map(|i| (0..i).map(move |j| (j, i)));
            let expected = pairs.filter(|&(j, i)| users.refuses(&claims[j], &claims[i]).is_some()).count();
            let found = conflict(&mut claims, users);
            prop_assert_eq!(found.is_some(), expected > 0);
            if let Some((a, b, verdict)) = found {
                prop_assert_eq!(users.refuses(a, b), Some(verdict));
            }
        }
    }

    /// As many readers of one region as shards, beside their own blocks: not a matter of all pairs.
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
        assert!(conflict(&mut claims, Users::Shards).is_none());
    }
}
