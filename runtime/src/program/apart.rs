//! Refuses launches of leaf tasks two of whose arguments are in each other's way.

use crate::Error;
use crate::data::UseAt;
use crate::effects::Objects;
use crate::gang::{Claim, Claimants, conflict};
use maniple_regions::{Coherence, Privilege, Use};
use std::rc::Rc;

/// More writing arguments than this are compared by a sweep, and not each with all others.
const FEW: usize = 16;

/// Two uses of a task that can't both have their data: one of them writes points of the other. A task holds all its data
/// at once, so even uses that could take turns are in each other's way.
#[inline]
pub(super) fn clash(uses: &[UseAt]) -> Option<(usize, usize)> {
    if uses.len() < 2 { None } else { search(uses) }
}

fn search(uses: &[UseAt]) -> Option<(usize, usize)> {
    let mut writers = 0;
    for (at, writer) in uses.iter().enumerate() {
        if writer.privilege == Privilege::Read || writer.coherence == Coherence::Simultaneous {
            continue;
        }
        writers += 1;
        if writers > FEW {
            return sweep(uses);
        }
        let overlaps = writer.column.has_overlaps();
        for (other, u) in uses.iter().enumerate() {
            if (overlaps || Rc::ptr_eq(&writer.column, &u.column)) && other != at && meet(writer, u) {
                return Some((at.min(other), at.max(other)));
            }
        }
    }
    None
}

/// Whether two uses are of the same points. If one is simultaneous so is the other: a shard that writes data holds it in
/// one way.
#[inline(never)]
fn meet(a: &UseAt, b: &UseAt) -> bool {
    let (one, other) = (&a.column, &b.column);
    one.field.id == other.field.id && one.region.overlaps(&other.region)
}

#[cold]
fn sweep(uses: &[UseAt]) -> Option<(usize, usize)> {
    let ordered = (0..).zip(uses).filter(|(_, u)| u.coherence != Coherence::Simultaneous);
    let claim = |(user, u): (u32, &UseAt)| {
        let privilege = if u.privilege.writes() { Privilege::ReadWrite } else { Privilege::Read };
        Claim { user, at: Use { privilege, coherence: Coherence::Exclusive, ..u.as_use() } }
    };
    let mut claims: Vec<Claim> = ordered.map(claim).collect();
    let (a, b, _) = conflict(&mut claims, Claimants::Points)?;
    Some((a.user.min(b.user) as usize, a.user.max(b.user) as usize))
}

/// The refusal. `place` is the shard, and `regions` the number of regions that each argument names.
#[cold]
pub(super) fn refusal(
    place: impl std::fmt::Display,
    objects: &Objects,
    uses: &[UseAt],
    (a, b): (usize, usize),
    regions: &[usize],
) -> Error {
    let shown = |at: usize| {
        let (u, region) = (&uses[at], objects.shown(uses[at].column.region));
        let (argument, entry) = position(at, regions);
        let entry = entry.map_or(String::new(), |entry| format!("entry {entry} of "));
        format!("{entry}the {argument} argument ({} of field `{}` of {region})", u.privilege, u.column.field.name)
    };
    let expected = "arguments on different data, unless both read or both are shared";
    let came = format!("{} and {}; give the task one `read_write` argument instead", shown(a), shown(b));
    Error::misuse(format!("a launch in {place}"), expected, came)
}

/// The argument that names a region, and its position there if it names several.
fn position(mut at: usize, regions: &[usize]) -> (&'static str, Option<usize>) {
    const ORDINALS: [&str; 8] = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];
    for (ordinal, &number) in ORDINALS.iter().zip(regions) {
        if at < number {
            return (ordinal, (number > 1).then_some(at));
        }
        at -= number;
    }
    unreachable!("each use is of an argument")
}
