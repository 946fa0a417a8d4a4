//! Who used which points last: under simultaneous coherence across shards, otherwise within one.

use crate::Place;
use crate::diagnose::races::clock::{AccessNumber, Lanes, Past, VectorClock};
use crate::ids::{Ancestors, LaunchKey};
use maniple_regions::{Interference, Privilege, Rect, Use, interference};

/// A leaf task as the one who uses a region.
#[derive(Debug, Clone)]
pub(super) struct User {
    pub name: &'static str,
    pub shard: u32,
    pub launch: LaunchKey,
    /// The launch, the one its parent is part of, and so on.
    pub within: Ancestors,
}

impl User {
    pub fn place(&self) -> Place {
        Place { task: crate::names::short_name(self.name), shard: Some(self.shard) }
    }

    /// Whether the runtime itself keeps what the two use alike apart: it does so with launches, but for those that are part of
    /// one another.
    fn is_kept_apart(&self, other: &User) -> bool {
        !self.within.contains(&other.launch) && !other.within.contains(&self.launch)
    }
}

/// What a task does to points of a field under simultaneous coherence.
#[derive(Debug, Clone)]
pub(super) struct Accessed {
    pub user: User,
    pub at: Use,
    pub stamp: AccessNumber,
}

/// Uses of the same points in the same way by tasks of one shard that are kept, at most: of more that nothing orders, only
/// the newest are compared with later ones.
pub(crate) const MOST_ALIKE: usize = 64;

/// The accesses to one field of one tree that a later one may race with.
#[derive(Debug, Default)]
pub(super) struct FieldUses(Vec<Accessed>);

impl FieldUses {
    /// Adds an access that comes after `past`; an earlier one that it races with, if there is one.
    pub fn add(&mut self, access: Accessed, past: &VectorClock, lanes: &mut Lanes) -> Option<Accessed> {
        let races = |a: &&Accessed| {
            !past.has(a.stamp)
                && !matches!(interference(&a.at, &access.at), Interference::None)
                && !a.user.is_kept_apart(&access.user)
        };
        if let Some(other) = self.0.iter().find(races) {
            return Some(other.clone());
        }
        // Whoever is not ordered with one that comes before this and has no points beside it is not with this one either.
        let writes = matches!(access.at.privilege, Privilege::ReadWrite | Privilege::WriteDiscard);
        let covers = |a: &Accessed| access.at.region.contains(&a.at.region);
        let alike = |a: &Accessed| writes || (a.at.privilege == access.at.privilege && past.has(a.stamp));
        let stands_for =
            |a: &Accessed| covers(a) && alike(a) && (past.has(a.stamp) || a.user.is_kept_apart(&access.user));
        let same_shard = |a: &Accessed| (a.user.launch, a.user.shard) == (access.user.launch, access.user.shard);
        let is_like = |a: &Accessed| a.at == access.at && same_shard(a);
        let mut surplus = (self.0.iter().filter(|a| is_like(a)).count() + 1).saturating_sub(MOST_ALIKE);
        self.0.retain(|a| {
            let is_surplus = surplus > 0 && is_like(a);
            surplus -= usize::from(is_surplus);
            let stays = a.stamp == access.stamp || !(is_surplus || stands_for(a));
            if !stays {
                lanes.forget(a.stamp);
            }
            stays
        });
        lanes.keep(access.stamp);
        self.0.push(access);
        None
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The tasks of one shard that used one field last, but for simultaneous coherence: the later follow the earlier.
#[derive(Debug, Default)]
pub(super) struct ColumnUses(Vec<ColumnUse>);

#[derive(Debug)]
struct ColumnUse {
    rect: Rect,
    writes: bool,
    /// What came before those tasks that have begun.
    begun: VectorClock,
    tasks: Vec<Past>,
}

impl ColumnUses {
    /// Adds a task's use; those that it follows go to `sources`.
    pub fn add(
        &mut self,
        rect: Rect,
        privilege: Privilege,
        task: &Past,
        past: &mut VectorClock,
        sources: &mut Vec<Past>,
    ) {
        let writes = privilege.writes();
        for used in self.0.iter().filter(|u| (u.writes || writes) && u.rect.overlaps(&rect)) {
            past.join(&used.begun);
            sources.extend(used.tasks.iter().cloned());
        }
        if writes {
            self.0.retain(|u| !rect.contains_rect(&u.rect));
        } else if let Some(same) = self.0.iter_mut().find(|u| !u.writes && u.rect == rect) {
            let ColumnUse { begun, tasks, .. } = same;
            tasks.retain(|t| t.past().map(|past| begun.join(past)).is_none());
            return tasks.push(task.clone());
        }
        self.0.push(ColumnUse { rect, writes, begun: VectorClock::default(), tasks: vec![task.clone()] });
    }
}
