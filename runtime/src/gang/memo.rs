//! Plans of launches that come again. A launch has the same plan as an earlier one if the requirements, the launcher's
//! knowledge of the regions, and the mapper's answers are all the same. It is then neither checked nor planned again
//! (Legion does so for traces).
//!
//! The mapper is still asked, so a mapper that changes its mind is heard. The counts of mapper calls do not change
//! either.
//!
//! The effect of a plan is kept as the knowledge before it and after it. Each is copied only when it changes. So a loop
//! of launches reaches the identical copies again, and comparing them compares one pointer for each field.

use super::kept::Used;
use super::plan::{LaunchPlan, PlanInput};
use super::versions::FieldVersions;
use super::{Planner, Versions};
use crate::Error;
use crate::effects::{Effects, Known};
use crate::ids::{ObjectId, ProcessorId};
use crate::maps::{Hash, HashSet};
use crate::message::HeldRegion;
use maniple_regions::{FieldId, Privilege, Region, TreeId};
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash as _, Hasher};
use std::rc::Rc;
use std::sync::Arc;

/// Limits of a launcher's memory: the number of plans, and the requirements of all of them together.
const MOST: usize = 8;
const MOST_REQUIREMENTS: usize = 1 << 16;
/// Launches of which only the hash is kept. A launch is remembered when it comes a second time, so one that never comes
/// again costs no more than this.
const SEEN: usize = 32;

/// The mapper's answer about the home of a shared region.
pub(crate) struct AskedHome {
    pub region: Region,
    pub field: FieldId,
    pub namers: Vec<(ProcessorId, Privilege)>,
    pub home: ProcessorId,
}

/// The mapper's answer about which of several holders sends a part of a field.
pub(crate) struct AskedSource {
    pub region: Region,
    pub field: FieldId,
    pub to: ProcessorId,
    pub holders: Box<[ProcessorId]>,
    pub selected: ProcessorId,
}

/// The mapper's answers so far about a launch that is not planned yet, in the order of the questions.
#[derive(Default)]
pub(crate) struct Answers {
    pub homes: Vec<ProcessorId>,
    pub sources: VecDeque<ProcessorId>,
}

/// The launches that one launcher remembers.
#[derive(Default)]
pub(crate) struct Memo {
    seen: VecDeque<u64>,
    /// The launch used last is at the end.
    launches: VecDeque<Remembered>,
    requirements: usize,
}

struct Remembered {
    gang: ObjectId,
    plan: Rc<LaunchPlan>,
    fields: Vec<(TreeId, FieldId)>,
    before: Vec<FieldVersions>,
    after: Vec<FieldVersions>,
    /// Its instances, for the top-level task.
    used: Option<Used>,
}

impl Remembered {
    /// Whether a launch has the same requirements.
    fn is(&self, input: &PlanInput<'_>) -> bool {
        self.gang == input.table.id
            && self.plan.held.len() == input.held.len()
            && self.plan.held.iter().zip(&input.held).all(|(own, held)| is_same(own, held))
    }

    /// Whether this launch started from the present knowledge.
    fn agrees(&mut self, versions: &mut Versions) -> bool {
        versions.agree(self.fields.iter().copied().zip(&mut self.before))
    }

    fn requirements(&self) -> usize {
        self.plan.held.iter().map(|held| held.len()).sum()
    }
}

/// Whether requirements are the same except for homes, which are found later.
fn is_same(own: &Arc<[HeldRegion]>, other: &[HeldRegion]) -> bool {
    let same = |(a, b): (&HeldRegion, &HeldRegion)| {
        let of = |h: &HeldRegion| (h.region, h.privilege, h.coherence);
        of(a) == of(b) && a.fields == b.fields
    };
    own.len() == other.len() && own.iter().zip(other).all(same)
}

fn hash(input: &PlanInput<'_>) -> u64 {
    let mut hasher = Hash.build_hasher();
    input.table.id.hash(&mut hasher);
    input.held.iter().flatten().for_each(|h| (h.region, &h.fields[..]).hash(&mut hasher));
    hasher.finish()
}

impl Memo {
    /// Whether a launch with these requirements is among the last ones seen. Adds it if not.
    fn is_seen(&mut self, input: &PlanInput<'_>) -> bool {
        let hash = hash(input);
        if self.seen.contains(&hash) {
            return true;
        }
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(hash);
        false
    }

    /// Forgets launches that were made with a gang or a tree.
    pub fn forget(&mut self, object: ObjectId) {
        self.launches.retain(|launch| {
            let stays = launch.gang != object && launch.fields.iter().all(|(tree, _)| tree.0 != object);
            self.requirements -= if stays { 0 } else { launch.requirements() };
            stays
        });
    }

    fn add(&mut self, launch: Remembered) {
        self.requirements += launch.requirements();
        self.launches.push_back(launch);
        while self.launches.len() > MOST || self.requirements > MOST_REQUIREMENTS {
            self.remove(0);
        }
    }

    fn remove(&mut self, at: usize) -> Option<Remembered> {
        let launch = self.launches.remove(at)?;
        self.requirements -= launch.requirements();
        Some(launch)
    }
}

impl Planner {
    /// Forgets an object that is destroyed.
    pub fn forget(&self, known: &Known) {
        let is_tree = known.object.tree().is_some();
        if is_tree || known.object.table().is_some() {
            self.memo.borrow_mut().forget(known.id);
        }
        if is_tree {
            self.versions.borrow_mut().forget_tree(TreeId(known.id));
            self.kept.borrow_mut().forget_tree(TreeId(known.id));
        }
    }

    /// The plan of a launch. Updates the launcher's knowledge of its regions.
    ///
    /// # Errors
    /// A launch that [`Self::check`] or the mapper refuses.
    pub fn plan_or_recall(&self, effects: &Effects, input: PlanInput<'_>) -> Result<Rc<LaunchPlan>, Error> {
        let memo = &mut *self.memo.borrow_mut();
        let is_it = |r: &mut Remembered| r.is(&input) && r.agrees(&mut self.versions.borrow_mut());
        let mut answers = Answers::default();
        if let Some(at) = memo.launches.iter_mut().position(is_it) {
            let agree = self.answers_agree(effects, &memo.launches[at].plan, &mut answers)?;
            // It becomes the latest one, or the plan of the mapper's new answers takes its place.
            if let Some(mut found) = memo.remove(at)
                && agree
            {
                if let Some(used) = &mut found.used {
                    self.kept.borrow_mut().begin();
                    let same = self.kept.borrow_mut().again(used);
                    if !same {
                        *used = self.used(effects, &found.plan.held, input.table)?;
                    }
                }
                self.versions.borrow_mut().replace(found.fields.iter().copied().zip(&found.after));
                self.give_up_instances(effects);
                let plan = found.plan.clone();
                memo.add(found);
                return Ok(plan);
            }
        }
        self.check(effects, &input.held)?;
        let fields: HashSet<(TreeId, FieldId)> = input.columns().map(|(_, (key, _))| (key.tree, key.field)).collect();
        let fields: Vec<_> = fields.into_iter().collect();
        let look = || self.versions.borrow_mut().look(fields.iter().copied());
        let known = self.versions.borrow().all_pieces(fields.iter().copied());
        let uses: usize = input.columns().map(|(_, (key, _))| 1 + self.versions.borrow().pieces(&key)).sum();
        // Shared knowledge is copied when it changes. The copy must not cost more than the launch itself.
        let is_small = known <= 4 * uses + 16 && uses <= MOST_REQUIREMENTS;
        let before = (is_small && memo.is_seen(&input)).then(look);
        let gang = input.table.id;
        let (plan, used) = self.plan(effects, input, answers)?;
        let plan = Rc::new(plan);
        if let Some(before) = before {
            let after = look();
            memo.add(Remembered { gang, plan: plan.clone(), fields, before, after, used });
        }
        self.give_up_instances(effects);
        Ok(plan)
    }

    /// Gives up instances that are not needed any more.
    fn give_up_instances(&self, effects: &Effects) {
        if self.replicated {
            self.kept.borrow_mut().give_up(&mut self.versions.borrow_mut(), effects.config.spare);
        }
    }

    /// Whether the mapper answers as it did for this plan. Its answers go to `answers`.
    fn answers_agree(&self, effects: &Effects, plan: &LaunchPlan, answers: &mut Answers) -> Result<bool, Error> {
        for AskedHome { region, field, namers, .. } in &plan.homes {
            answers.homes.push(self.place_shared(effects, *region, *field, namers)?);
        }
        if plan.homes.iter().map(|asked| asked.home).ne(answers.homes.iter().copied()) {
            return Ok(false);
        }
        for AskedSource { region, field, to, holders, selected } in &plan.sources {
            let source = self.select_source(effects, *region, *field, *to, holders)?;
            answers.sources.push_back(source);
            if source != *selected {
                // The new plan asks the same questions up to this one: no answer changes an earlier question.
                return Ok(false);
            }
        }
        Ok(true)
    }
}
