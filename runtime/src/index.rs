use crate::Error;
use crate::core::Declared;
use crate::launch::{Declaring, Leaf};
use crate::shard::Shard;
use maniple_regions::{Coherence, FieldInfo, Interference, Privilege, Rect, Use, interference};
use smallvec::SmallVec;

/// One user of a region among several that may run at the same time.
pub(crate) struct Claim {
    pub user: u32,
    pub at: Use,
}

/// Who claims: what each may do with its own data, and with that of others, differs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// Points of an index launch use the same instances, one after the other where they must.
    Points,
    /// Shards have instances of their own, one for each region they name: a cell must not be in two of them, and two
    /// reductions would each miss what the other folds in.
    Shards,
}

/// The first two claims that interfere, if any.
pub(crate) fn conflict(claims: &mut [Claim], users: Users) -> Option<(&Claim, &Claim, Interference)> {
    claims.sort_by_key(|c| (c.at.region.tree, c.at.field, c.at.region.rect.lo(0), c.user));
    let mut found = None;
    // Sweep along the first dimension; `open` holds the claims that may still overlap.
    let mut open: Vec<usize> = Vec::new();
    'all: for (i, claim) in claims.iter().enumerate() {
        let rect: Rect = claim.at.region.rect;
        open.retain(|&j| {
            let other = &claims[j].at;
            other.region.tree == claim.at.region.tree
                && other.field == claim.at.field
                && other.region.rect.hi(0) > rect.lo(0)
        });
        for &j in &open {
            let other = &claims[j];
            if other.user != claim.user || users == Users::Shards {
                let verdict = interference(&other.at, &claim.at);
                let same = other.at.region == claim.at.region;
                let bad = match verdict {
                    Interference::None => {
                        let writes = other.at.privilege.writes() && claim.at.privilege.writes();
                        users == Users::Shards && writes && other.at.region.overlaps(&claim.at.region)
                    }
                    Interference::Simultaneous => !same,
                    Interference::Serializes | Interference::Conflict => true,
                };
                if bad {
                    found = Some((j, i, verdict));
                    break 'all;
                }
            }
        }
        open.push(i);
    }
    found.map(|(j, i, verdict)| (&claims[j], &claims[i], verdict))
}

/// Refuses an index launch of which two points interfere.
pub(crate) fn check<F: Leaf<M, O>, M, O>(
    shard: &Shard,
    points: usize,
    args: &impl Fn(usize) -> F::Args,
) -> Result<(), Error> {
    let mut claims = Vec::new();
    let core = shard.core();
    let task = core.reserve_leaf();
    let regions = |index: u32, p: Privilege, c: Coherence, field: &FieldInfo| shard.column(index, p, c, field);
    let mut declare = || -> Result<(), Error> {
        for point in 0..points {
            let mut declared = Declared { task, regions: &regions, uses: SmallVec::new(), unmet: 0 };
            F::declare(&args(point), &mut Declaring(&mut declared))?;
            claims.extend(declared.uses.iter().map(|u| Claim {
                user: point as u32,
                at: Use {
                    region: u.column.region,
                    field: u.column.field.id,
                    privilege: u.privilege,
                    coherence: u.coherence,
                },
            }));
        }
        Ok(())
    };
    let declared = declare();
    core.cancel_leaf(task);
    declared?;
    // Simultaneous uses of different regions are the program's own affair within a shard.
    claims.retain(|c| c.at.coherence != Coherence::Simultaneous);
    match conflict(&mut claims, Users::Points) {
        None => Ok(()),
        // Points that only must not overlap in time are kept apart by the launch order.
        Some((_, _, Interference::Serializes)) => Ok(()),
        Some((a, b, _)) => Err(Error::Interference {
            place: crate::Place { task: std::any::type_name::<F>().into(), shard: Some(shard.index()) },
            between: format!("point {} ({}) and point {} ({})", a.user, a.at, b.user, b.at),
            hint: "give each point a region of its own, or launch the points one after the other".into(),
        }),
    }
}
