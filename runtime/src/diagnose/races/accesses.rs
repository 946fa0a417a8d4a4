//! The last uses of points: under simultaneous coherence across shards, otherwise within one shard.

use crate::Place;
use crate::diagnose::races::clock::{AccessNumber, Lanes, Past, VectorClock};
use crate::ids::{Ancestors, LaunchKey};
use crate::names::TaskName;
use maniple_regions::{Interference, Privilege, Rect, Use, interference};

/// A leaf task that uses a region.
#[derive(Debug, Clone)]
pub(super) struct User {
    pub name: TaskName,
    pub shard: u32,
    pub launch: LaunchKey,
    /// Its launch, the launch that the launcher is part of, and so on.
    pub within: Ancestors,
}

impl User {
    pub fn place(&self) -> Place {
        Place { task: self.name.to_string(), shard: Some(self.shard) }
    }

    /// Whether the runtime keeps the uses of both apart anyway. It does so for launches of which neither is part of the other.
    fn is_kept_apart(&self, other: &User) -> bool {
        !self.within.contains(&other.launch) && !other.within.contains(&self.launch)
    }
}

/// A task's use of points of a field under simultaneous coherence.
#[derive(Debug, Clone)]
pub(super) struct Accessed {
    pub user: User,
    pub at: Use,
    pub stamp: AccessNumber,
}

/// How many equal uses by tasks of one shard are kept, at most. If more of them are unordered, only the newest are
/// compared with later uses.
pub(crate) const MOST_ALIKE: usize = 64;

/// The uses of one field of one tree that a later one may race with.
#[derive(Debug, Default)]
pub(super) struct FieldUses(Vec<Accessed>);

impl FieldUses {
    /// Adds a use that comes after `past`. Returns an earlier one that it races with, if there is one.
    pub fn add(&mut self, access: Accessed, past: &VectorClock, lanes: &mut Lanes) -> Option<Accessed> {
        let races = |a: &&Accessed| {
            !past.has(a.stamp)
                && !matches!(interference(&a.at, &access.at), Interference::None)
                && !a.user.is_kept_apart(&access.user)
        };
        if let Some(other) = self.0.iter().find(races) {
            return Some(other.clone());
        }
        // An earlier use can be dropped if this one covers its points and comes after it. A later use that is unordered
        // with the earlier one is unordered with this one as well.
        let writes = matches!(access.at.privilege, Privilege::ReadWrite | Privilege::WriteDiscard);
        let covers = |a: &Accessed| access.at.region.contains(&a.at.region);
        let same = |a: &Accessed| writes || (a.at.privilege == access.at.privilege && past.has(a.stamp));
        let stands_for =
            |a: &Accessed| covers(a) && same(a) && (past.has(a.stamp) || a.user.is_kept_apart(&access.user));
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

    /// Nobody uses the field any more.
    pub fn forget(&mut self, lanes: &mut Lanes) {
        self.0.drain(..).for_each(|access| lanes.forget(access.stamp));
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The last uses of one field by tasks of one shard, except under simultaneous coherence. Later tasks follow earlier
/// ones.
#[derive(Debug, Default)]
pub(super) struct ColumnUses(Vec<ColumnUse>);

#[derive(Debug)]
struct ColumnUse {
    rect: Rect,
    writes: bool,
    /// The joined clocks of those tasks that have begun.
    begun: VectorClock,
    tasks: Vec<Past>,
}

impl ColumnUses {
    /// Adds a task's use. The tasks that it follows are added to `sources`.
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
