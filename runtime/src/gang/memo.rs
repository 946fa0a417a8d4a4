//! Launches that come again: one with the requirements of an earlier one, of regions of which the same is known, has the
//! same plan, if the mapper gives the same answers. It is neither checked nor planned anew (Legion does so for traces).
//!
//! What a plan changes is remembered as what is known before and after it. Both are copied only when they change, so that a
//! loop of launches reaches the very same ones again, and to compare them is to compare one pointer a field.

use super::plan::{Plan, Wanted};
use super::versions::FieldVersions;
use super::{Planner, Versions};
use crate::Error;
use crate::effects::Effects;
use crate::ids::{ObjectId, ProcessorId};
use crate::maps::{Hash, HashSet};
use crate::message::Held;
use maniple_regions::{FieldId, Privilege, Rect, Region, TreeId};
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash as _, Hasher};
use std::rc::Rc;
use std::sync::Arc;

/// Launches that are remembered, at most, and the requirements of all together.
const MOST: usize = 8;
const MOST_REQUIREMENTS: usize = 1 << 16;
/// Launches of which only a hash is kept: those that do not come again cost no more.
const SEEN: usize = 32;

/// Where a shared region was to be, by the mapper.
pub(crate) struct AskedHome {
    pub region: Region,
    pub field: FieldId,
    pub namers: Vec<(ProcessorId, Privilege)>,
    pub home: ProcessorId,
}

/// Which of several holders was to send a part of a field, by the mapper.
pub(crate) struct AskedSource {
    pub region: Region,
    pub field: FieldId,
    pub to: ProcessorId,
    pub holders: Box<[ProcessorId]>,
    pub selected: ProcessorId,
}

/// The launches that one launcher remembers.
#[derive(Default)]
pub(crate) struct Memo {
    seen: VecDeque<u64>,
    /// Those used last at the end.
    launches: VecDeque<Remembered>,
    requirements: usize,
}

struct Remembered {
    gang: ObjectId,
    instances: Option<Box<[Rect]>>,
    plan: Rc<Plan>,
    fields: Vec<(TreeId, FieldId)>,
    before: Vec<FieldVersions>,
    after: Vec<FieldVersions>,
}

impl Remembered {
    /// Whether a launch has the same requirements.
    fn is(&self, wanted: &Wanted<'_>) -> bool {
        self.gang == wanted.table.id
            && self.instances.as_deref() == wanted.instances
            && self.plan.held.len() == wanted.held.len()
            && self.plan.held.iter().zip(&wanted.held).all(|(own, held)| is_same(own, held))
    }

    /// Whether what it starts from is what is known.
    fn agrees(&mut self, versions: &Versions) -> bool {
        versions.agree(self.fields.iter().copied().zip(&mut self.before))
    }

    fn requirements(&self) -> usize {
        self.plan.held.iter().map(|held| held.len()).sum()
    }
}

/// Whether requirements are the same but for homes, which are found later.
fn is_same(own: &Arc<[Held]>, wanted: &[Held]) -> bool {
    let same = |(a, b): (&Held, &Held)| {
        let of = |h: &Held| (h.region, h.privilege, h.coherence);
        of(a) == of(b) && a.fields == b.fields
    };
    own.len() == wanted.len() && own.iter().zip(wanted).all(same)
}

fn hash(wanted: &Wanted<'_>) -> u64 {
    let mut hasher = Hash.build_hasher();
    wanted.table.id.hash(&mut hasher);
    wanted.held.iter().flatten().for_each(|h| (h.region, &h.fields[..]).hash(&mut hasher));
    hasher.finish()
}

impl Memo {
    /// Whether a launch with these requirements has been seen a while ago at most; it has from now on.
    fn is_seen(&mut self, wanted: &Wanted<'_>) -> bool {
        let hash = hash(wanted);
        if self.seen.contains(&hash) {
            return true;
        }
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(hash);
        false
    }

    fn add(&mut self, launch: Remembered) {
        self.requirements += launch.requirements();
        self.launches.push_back(launch);
        while self.launches.len() > MOST || self.requirements > MOST_REQUIREMENTS {
            let Some(oldest) = self.launches.pop_front() else { return };
            self.requirements -= oldest.requirements();
        }
    }
}

impl Planner {
    /// The plan of a launch, and what is known after it.
    ///
    /// # Errors
    /// What [`Self::check`] and the mapper refuse.
    pub fn plan_or_recall(&self, effects: &Effects, wanted: Wanted<'_>) -> Result<Rc<Plan>, Error> {
        let memo = &mut *self.memo.borrow_mut();
        let is_it = |r: &mut Remembered| r.is(&wanted) && r.agrees(&self.versions.borrow());
        let mut homes = None;
        if let Some(at) = memo.launches.iter_mut().position(is_it)
            && self.is_answered_alike(effects, &memo.launches[at].plan, homes.insert(Vec::new()))?
            && let Some(found) = memo.launches.remove(at)
        {
            self.versions.borrow_mut().replace(found.fields.iter().copied().zip(&found.after));
            let plan = found.plan.clone();
            memo.launches.push_back(found);
            return Ok(plan);
        }
        self.check(effects, &wanted.held)?;
        let fields: HashSet<(TreeId, FieldId)> = wanted.columns().map(|(_, key, ..)| (key.tree, key.field)).collect();
        let fields: Vec<_> = fields.into_iter().collect();
        let look = || self.versions.borrow().look(fields.iter().copied());
        let before = look();
        let uses: usize = wanted.columns().map(|(_, key, ..)| 1 + self.versions.borrow().pieces(&key)).sum();
        // What is shared is copied when it changes: that is not to cost more than the launch itself.
        let is_small =
            before.iter().map(FieldVersions::pieces).sum::<usize>() <= 4 * uses + 16 && uses <= MOST_REQUIREMENTS;
        let before = (is_small && memo.is_seen(&wanted)).then_some(before);
        let (gang, instances) = (wanted.table.id, wanted.instances.map(Box::from));
        let plan = Rc::new(self.plan(effects, wanted, homes)?);
        if let Some(before) = before {
            let after = look();
            memo.add(Remembered { gang, instances, plan: plan.clone(), fields, before, after });
        }
        Ok(plan)
    }

    /// Whether the mapper still answers as it did when a plan was made; `homes` gets what it says of these.
    fn is_answered_alike(&self, effects: &Effects, plan: &Plan, homes: &mut Vec<ProcessorId>) -> Result<bool, Error> {
        for AskedHome { region, field, namers, .. } in &plan.homes {
            homes.push(self.place_shared(effects, *region, *field, namers)?);
        }
        if plan.homes.iter().map(|asked| asked.home).ne(homes.iter().copied()) {
            return Ok(false);
        }
        for AskedSource { region, field, to, holders, selected } in &plan.sources {
            if self.select_source(effects, *region, *field, *to, holders)? != *selected {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
