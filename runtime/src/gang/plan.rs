//! The plan of a launch: the homes of shared regions, the data to copy, and the message to each processor.

use super::Versions;
use super::kept::{At, Kept, Used};
use super::memo::{Answers, AskedHome, AskedSource, Memo};
use crate::effects::{Asker, Effects};
use crate::ids::{ColumnKey, ProcessorId, TOP, TopLaunch};
use crate::maps::{self, HashMap, HashSet};
use crate::message::{ColumnUse, Does, HeldRegion, Move, Transfer};
use crate::object::GangTable;
use crate::{Error, Place};
use maniple_mapper::{KeepInput, PlaceSharedInput, Priority, SourceInput, validate};
use maniple_regions::{Coherence, FieldId, Privilege, Region, TreeId};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::Arc;

/// The input of a plan: where the shards are and what they hold.
pub(crate) struct PlanInput<'a> {
    pub table: &'a GangTable,
    pub held: Vec<Vec<HeldRegion>>,
}

/// The messages of a launch.
pub(crate) struct LaunchPlan {
    /// The requirements of each shard, with the homes of shared regions.
    pub held: Vec<Arc<[HeldRegion]>>,
    pub moves: Vec<Arc<Move>>,
    /// What each processor does that takes part.
    pub parts: Vec<PartPlan>,
    /// The trees of the regions that shards hold.
    pub trees: Arc<[TreeId]>,
    /// The questions to the mapper with its answers.
    pub homes: Vec<AskedHome>,
    pub sources: Vec<AskedSource>,
    /// See [`Self::hashes`].
    hashes: OnceCell<(Vec<u64>, u64)>,
}

impl LaunchPlan {
    /// Hashes of what must be the same on every node: of the requirements of each shard, and of the moves.
    pub fn hashes(&self) -> &(Vec<u64>, u64) {
        self.hashes.get_or_init(|| {
            let of_shards = self.held.iter().map(|held| maps::Hash.hash_one(held));
            let moves: Vec<_> = self.moves.iter().map(|m| (m.from, m.to, &m.transfers)).collect();
            (of_shards.collect(), maps::Hash.hash_one(moves))
        })
    }
}

/// A move, with what it does to columns at both ends.
pub(super) fn moved((from, to): (ProcessorId, ProcessorId), transfers: Vec<Transfer>, priority: Priority) -> Arc<Move> {
    let reads = |t: &Transfer| ColumnUse { column: t.source(), does: Does::Reads };
    let writes = |t: &Transfer| {
        let does = if t.only_read { Does::Brings } else { Does::Writes };
        ColumnUse { column: t.target(), does }
    };
    let (reads, writes) = (transfers.iter().map(reads), transfers.iter().map(writes));
    let uses = match from == to {
        true => {
            let all = once_each(reads.chain(writes).collect());
            [all.clone(), all]
        }
        false => [once_each(reads.collect()), once_each(writes.collect())],
    };
    Arc::new(Move { from, to, transfers, priority, uses })
}

/// Uses with each column once: of several uses, the last in their order stands for all.
fn once_each(mut uses: Vec<ColumnUse>) -> Arc<[ColumnUse]> {
    // Many transfers may go to one instance, one after the other. What is left is mostly in order, which this sort notices.
    uses.dedup();
    uses.sort();
    uses.dedup_by(|next, before| {
        let same = next.column == before.column;
        before.does = if same { next.does } else { before.does };
        same
    });
    uses.into()
}

/// What one processor does for a launch.
pub(crate) struct PartPlan {
    pub at: ProcessorId,
    /// The numbers of its moves.
    pub moves: Vec<u32>,
    pub batch: Option<BatchPlan>,
}

/// The batch of one processor, without its shards.
pub(crate) struct BatchPlan {
    pub uses: Arc<[ColumnUse]>,
    /// Shards of other processors use simultaneous regions that are at home there.
    pub hold: bool,
}

impl PlanInput<'_> {
    /// Each field of each requirement: the requirement, and its instance.
    pub fn columns(&self) -> impl Iterator<Item = (&HeldRegion, At)> {
        columns(&self.held, self.table)
    }
}

fn columns<'a, H: Deref<Target = [HeldRegion]>>(
    held: &'a [H],
    table: &'a GangTable,
) -> impl Iterator<Item = (&'a HeldRegion, At)> {
    held.iter().zip(&table.at).flat_map(move |(list, (at, _))| {
        list.iter().flat_map(move |h| {
            let at = h.shared_home().unwrap_or(*at);
            h.fields.iter().map(move |&field| (h, (h.key(field), at)))
        })
    })
}

/// Plans launches for one launcher.
pub(crate) struct Planner {
    /// The launcher's name, for errors.
    pub name: Arc<str>,
    /// Whether every node runs the launching code, so that all of them must get the same answers.
    pub replicated: bool,
    /// The processors whose parts of a launch this copy of the launcher gives out.
    parts: Range<u32>,
    /// The launch of the top-level task that the launcher is part of.
    pub part_of: TopLaunch,
    /// The requirements of an inner task. `None` for the top-level task, which holds everything.
    pub held: Option<Arc<[HeldRegion]>>,
    pub versions: Rc<RefCell<Versions>>,
    /// Launches that may come again.
    pub(super) memo: RefCell<Memo>,
    /// The instances that its gangs have used. Only the top-level task gives instances up.
    pub(super) kept: RefCell<Kept>,
}

impl Planner {
    /// A planner for the launcher `name`, without knowledge of any region.
    pub fn new(effects: &Effects, name: &str, replicated: bool) -> Self {
        let copies = effects.copies();
        let first = copies.first_of(copies.node_of(effects.id)).0;
        let own = copies.processors_of(copies.node_of(effects.id)).count() as u32;
        Self {
            name: name.into(),
            replicated,
            parts: if replicated { first..first + own } else { 0..u32::MAX },
            part_of: TOP,
            held: None,
            versions: Rc::default(),
            memo: RefCell::default(),
            kept: RefCell::default(),
        }
    }

    /// Whether this copy of the launcher gives a processor its part of a launch.
    #[inline]
    pub fn starts(&self, processor: ProcessorId) -> bool {
        self.parts.contains(&processor.0)
    }

    /// Whether shared regions of this inner task are at home on another processor. That processor must start the inner
    /// task's launch first.
    pub(super) fn is_home(&self, effects: &Effects, processor: ProcessorId) -> bool {
        let mut homes = self.held.iter().flat_map(|held| held.iter()).filter_map(HeldRegion::shared_home);
        processor != effects.id && homes.any(|home| home == processor)
    }

    /// Inner tasks that were just launched with this plan write what each copy of the top-level task learns of at another time.
    pub fn leaves_in_doubt(&self, plan: &LaunchPlan, table: &GangTable) {
        if self.replicated {
            let written = columns(&plan.held, table).filter(|(h, _)| h.privilege.writes());
            self.kept.borrow_mut().doubt(written.map(|(_, (key, _))| key));
        }
    }

    /// The launcher.
    pub fn place(&self) -> Place {
        Place { task: self.name.to_string(), shard: None }
    }

    /// Finds homes, transfers and uses. The mapper's answers so far are `answers`. The result depends
    /// only on the arguments, the launcher's knowledge of the regions, and the mapper's answers.
    pub fn plan(
        &self,
        effects: &Effects,
        mut input: PlanInput<'_>,
        mut answers: Answers,
    ) -> Result<(LaunchPlan, Option<Used>), Error> {
        let homes = self.find_homes(effects, &mut input, &answers.homes)?;
        let mut sources = Vec::new();
        let mut refused = None;
        let mut moves: BTreeMap<(ProcessorId, ProcessorId), Vec<Transfer>> = BTreeMap::new();
        let mut uses: BTreeMap<ProcessorId, Vec<ColumnUse>> = BTreeMap::new();
        // Homes of simultaneous regions that shards of other processors use.
        let mut hold: HashSet<ProcessorId> = HashSet::default();
        let mut versions = self.versions.borrow_mut();
        // Data that this launch brings is no source within the launch, because it comes only when the launch starts.
        let mut brought: HashSet<At> = HashSet::default();
        let mut held_after: Vec<At> = Vec::new();
        let mut trees: Vec<TreeId> = Vec::new();
        for (h, (key, at)) in input.columns() {
            if trees.last() != Some(&key.tree) && !trees.contains(&key.tree) {
                trees.push(key.tree);
            }
            let does = if h.privilege.writes() { Does::Writes } else { Does::Reads };
            uses.entry(at).or_default().push(ColumnUse { column: key, does });
            if h.privilege != Privilege::WriteDiscard {
                let first = brought.insert((key, at));
                if first {
                    held_after.push((key, at));
                }
                let select = |rect, holders: &[ProcessorId]| {
                    let region = key.region(rect);
                    let answer = match answers.sources.pop_front() {
                        Some(selected) => Ok(selected),
                        None => self.select_source(effects, region, key.field, at, holders),
                    };
                    let selected = answer.unwrap_or_else(|e| {
                        refused.get_or_insert(e);
                        holders[0]
                    });
                    debug_assert!(holders.contains(&selected), "an answer to another question");
                    sources.push(AskedSource { region, field: key.field, to: at, holders: holders.into(), selected });
                    selected
                };
                let only_read = does == Does::Reads && self.only_reads(&key);
                versions.read(&key, key.rect, at, select, |source, transfer| {
                    if first {
                        moves.entry((source, at)).or_default().push(Transfer { only_read, ..transfer });
                    }
                });
            }
        }
        // The launch is refused, so the knowledge of regions stays as it was.
        if let Some(e) = refused {
            return Err(e);
        }
        let used = match self.replicated {
            true => {
                self.kept.borrow_mut().begin();
                Some(self.used(effects, &input.held, input.table)?)
            }
            false => None,
        };
        for (list, &(at, _)) in input.held.iter().zip(&input.table.at) {
            uses.entry(at).or_default();
            hold.extend(list.iter().filter_map(HeldRegion::shared_home).filter(|&home| home != at));
        }
        for (key, at) in held_after {
            versions.hold(&key, key.rect, at);
        }
        for (_, (key, at)) in input.columns().filter(|(h, _)| h.privilege.writes()) {
            versions.write(&key, key.rect, at);
        }
        // Many gangs hold nothing: their shards share one list.
        let nothing: Arc<[HeldRegion]> = Arc::new([]);
        let shared = |held: Vec<HeldRegion>| if held.is_empty() { nothing.clone() } else { held.into() };
        let held = input.held.into_iter().map(shared).collect();
        let batch =
            |(at, uses)| (at, (Vec::new(), Some(BatchPlan { uses: once_each(uses), hold: hold.contains(&at) })));
        let mut parts: BTreeMap<ProcessorId, (Vec<u32>, Option<BatchPlan>)> = uses.into_iter().map(batch).collect();
        let moves: Vec<Arc<Move>> =
            moves.into_iter().map(|(ends, transfers)| moved(ends, transfers, Priority::NORMAL)).collect();
        for (number, m) in (0u32..).zip(&moves) {
            for at in m.ends() {
                parts.entry(at).or_default().0.push(number);
            }
        }
        let parts = parts.into_iter().map(|(at, (moves, batch))| PartPlan { at, moves, batch }).collect();
        Ok((LaunchPlan { held, moves, parts, trees: trees.into(), homes, sources, hashes: OnceCell::new() }, used))
    }

    /// The instances that a launch uses which starts now. `held` are its requirements, with homes. Asks the mapper about
    /// those that are not there.
    pub(super) fn used<H: Deref<Target = [HeldRegion]>>(
        &self,
        effects: &Effects,
        held: &[H],
        table: &GangTable,
    ) -> Result<Used, Error> {
        let instances = || columns(held, table).map(|(_, at)| at);
        let mut new: HashMap<At, (usize, bool)> = HashMap::default();
        for (key, at) in instances() {
            if !self.kept.borrow().has(&(key, at)) && !new.contains_key(&(key, at)) {
                let bytes = key.rect.volume().saturating_mul(effects.objects.field(key.tree, key.field)?.size);
                let may_stay = self.keep_instance(effects, &key, at, bytes)? && effects.config.spare != Some(0);
                new.insert((key, at), (bytes, may_stay));
            }
        }
        let all = instances().map(|at| {
            let (bytes, may_stay) = new.get(&at).copied().unwrap_or((0, true));
            (at, bytes, may_stay)
        });
        Ok(self.kept.borrow_mut().note(all))
    }

    /// Asks the mapper whether an instance may stay when it is not needed.
    fn keep_instance(&self, effects: &Effects, key: &ColumnKey, at: ProcessorId, bytes: usize) -> Result<bool, Error> {
        let region = key.region(key.rect);
        let input = KeepInput { region, field: key.field, bytes, processor: at, machine: effects.machine() };
        effects.ask(self.asker(), ("keep_instance", &region), |m| m.keep_instance(&input), |_, answer| Ok(answer))
    }

    /// Asks the mapper which of several holders sends the values of a field of a region, or of a part of one.
    pub fn select_source(
        &self,
        effects: &Effects,
        region: Region,
        field: FieldId,
        to: ProcessorId,
        holders: &[ProcessorId],
    ) -> Result<ProcessorId, Error> {
        let input = SourceInput { region, field, to, holders, machine: effects.machine() };
        effects.ask(
            self.asker(),
            ("select_source", &region),
            |m| m.select_source(&input),
            |name, answer| validate::source(name, &input, answer),
        )
    }

    /// Asks the mapper for the home of a region that several shards use at once.
    pub fn place_shared(
        &self,
        effects: &Effects,
        region: Region,
        field: FieldId,
        namers: &[(ProcessorId, Privilege)],
    ) -> Result<ProcessorId, Error> {
        let input = PlaceSharedInput { region, field, namers, machine: effects.machine() };
        effects.ask(
            self.asker(),
            ("place_shared", &region),
            |m| m.place_shared(&input),
            |name, answer| validate::shared(name, &input, answer),
        )
    }

    pub(super) fn asker(&self) -> Asker {
        if self.replicated { Asker::EveryNode } else { Asker::Processor }
    }

    /// Whether this inner task holds the points to read, so that nobody writes them while it runs.
    fn only_reads(&self, key: &ColumnKey) -> bool {
        let Some(own) = &self.held else { return false };
        let same = |h: &&HeldRegion| h.region.tree == key.tree && h.fields.contains(&key.field);
        let mut own = own.iter().filter(same).filter(|h| h.region.rect.overlaps(&key.rect)).peekable();
        own.peek().is_some() && own.all(|h| !h.privilege.writes() && h.coherence == Coherence::Exclusive)
    }

    /// Finds one home for all fields of a region, whichever fields each shard uses.
    fn find_homes(
        &self,
        effects: &Effects,
        input: &mut PlanInput<'_>,
        given: &[ProcessorId],
    ) -> Result<Vec<AskedHome>, Error> {
        let mut homes: Vec<AskedHome> = Vec::new();
        let mut places: HashMap<Region, usize> = HashMap::default();
        let shared = |h: &&HeldRegion| h.coherence == Coherence::Simultaneous;
        for (list, &(processor, _)) in input.held.iter().zip(&input.table.at) {
            for h in list.iter().filter(shared) {
                let Some(&field) = h.fields.first() else { continue };
                let at = *places.entry(h.region).or_insert_with(|| {
                    homes.push(AskedHome { region: h.region, field, namers: Vec::new(), home: ProcessorId(0) });
                    homes.len() - 1
                });
                homes[at].namers.push((processor, h.privilege));
            }
        }
        for (at, asked) in homes.iter_mut().enumerate() {
            asked.home = match given.get(at) {
                Some(&home) => home,
                None => self.place_shared(effects, asked.region, asked.field, &asked.namers)?,
            };
        }
        for h in input.held.iter_mut().flatten().filter(|h| h.coherence == Coherence::Simultaneous) {
            if let Some(&at) = places.get(&h.region) {
                h.home = homes[at].home;
            }
        }
        Ok(homes)
    }
}
