//! The launch of a task for many points at once.

use super::launch::Leaf;
use super::param::Declaring;
use super::shard::Shard;
use crate::Error;
use crate::data::UseAt;
use crate::gang::{Claim, Claimants, conflict};
use crate::names::short_name;
use maniple_regions::{Coherence, Interference, Use};

/// Refuses an index launch of which two points interfere.
pub(crate) fn check<F: Leaf<M, O>, M, O>(shard: &Shard, args: &[F::Args]) -> Result<(), Error> {
    let mut claims = Vec::new();
    let (task, mut body) = shard.core().tasks.reserve_leaf();
    let mut declaring = Declaring::new(shard, task, &mut body);
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
    shard.core().tasks.cancel_leaf(task, body);
    declared?;
    // Simultaneous uses of different regions are the program's own affair within a shard.
    claims.retain(|c| c.at.coherence != Coherence::Simultaneous);
    match conflict(&mut claims, Claimants::Points) {
        None => Ok(()),
        // Points that only must not overlap in time are kept apart by the launch order.
        Some((_, _, Interference::Serializes)) => Ok(()),
        Some((a, b, _)) => Err(Error::Interference {
            place: crate::Place { task: short_name(std::any::type_name::<F>()), shard: Some(shard.index()) },
            between: format!("point {} ({}) and point {} ({})", a.user, a.at, b.user, b.at),
            hint: "give each point a region of its own, or launch the points one after the other".into(),
        }),
    }
}
