//! Plans of leaf tasks that the top-level task or an inner task launches: where their data comes from.

use super::plan::moved;
use super::{Planner, Slot};
use crate::Error;
use crate::effects::Effects;
use crate::ids::{ColumnKey, NodeId, ProcessorId};
use crate::message::{Move, Transfer};
use crate::names::TaskName;
use maniple_mapper::{Machine, MemoryKind, PlaceTaskInput, Priority, RequirementInput, Requirements, validate};
use maniple_regions::{Coherence, Privilege, Rect};
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;

/// The use of one field of a region by a leaf task of a flow.
pub(crate) struct TaskUse {
    pub slot: Rc<Slot>,
    pub does: TaskDoes,
}

/// What a task does to data that it uses. (A smaller number would be moved in parts, which takes long.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum TaskDoes {
    Reads,
    Changes,
    /// Writes every value without looking at the old one.
    Overwrites,
}

/// The use of a field of a region through an instance over `into` on a processor.
pub(crate) struct PlacedUse {
    pub key: ColumnKey,
    pub into: Rect,
    pub at: ProcessorId,
    pub does: TaskDoes,
}

impl TaskDoes {
    #[inline]
    pub fn with(privilege: Privilege) -> Self {
        match privilege {
            Privilege::Read => Self::Reads,
            Privilege::WriteDiscard => Self::Overwrites,
            Privilege::ReadWrite | Privilege::Reduce(_) => Self::Changes,
        }
    }
}

impl TaskUse {
    #[inline]
    pub fn new(slot: Rc<Slot>, privilege: Privilege) -> Self {
        Self { slot, does: TaskDoes::with(privilege) }
    }

    /// The same for the mapper. Where the instance is is not known yet, so the memory is the ordinary one of a processor.
    fn requirement(&self, machine: &Machine, at: ProcessorId) -> RequirementInput<'_> {
        RequirementInput {
            region: &self.slot.region,
            field: self.slot.key().field,
            privilege: match self.does {
                TaskDoes::Reads => Privilege::Read,
                TaskDoes::Changes => Privilege::ReadWrite,
                TaskDoes::Overwrites => Privilege::WriteDiscard,
            },
            coherence: Coherence::Exclusive,
            bytes: self.slot.bytes(),
            memory: machine.memory(at, MemoryKind::Ordinary),
        }
    }

    #[inline]
    pub fn writes(&self) -> bool {
        self.does != TaskDoes::Reads
    }
}

impl Planner {
    /// The home of a task: of the node that has its data, by the first region that it writes, or else by its first region, unless
    /// the mapper says otherwise. Data that nobody has is dealt to the nodes block-cyclically.
    ///
    /// # Errors
    /// An illegal answer of the mapper.
    #[inline]
    pub fn home_of_task(&self, effects: &Effects, uses: &[TaskUse], name: &TaskName) -> Result<ProcessorId, Error> {
        let copies = effects.copies();
        let nodes = copies.nodes();
        if nodes == 1 {
            return Ok(effects.home_of(NodeId(0)));
        }
        let holder = |u: &TaskUse| {
            let holder = match u.slot.is_live() {
                true => u.slot.holders().first().copied(),
                false => self.versions.borrow().holder(&u.slot.key()),
            };
            holder.unwrap_or_else(|| effects.home_of(dealt(&u.slot.region.rect, nodes)))
        };
        let first = uses.iter().find(|u| u.writes()).or(uses.first());
        let node = first.map_or(NodeId(0), |first| copies.node_of(holder(first)));
        let machine = effects.machine();
        let requirement = |i: usize| uses[i].requirement(machine, holder(&uses[i]));
        let requirements = Requirements::worked_out(uses.len(), &requirement);
        let input = PlaceTaskInput { task: name.of_type, requirements, node, nodes, machine };
        let node = effects.ask(
            self.asker(),
            ("place_task", name),
            |m| m.place_task(&input),
            |mapper, answer| validate::place_task(mapper, &input, answer),
        )?;
        Ok(effects.home_of(node))
    }

    /// Finds the moves of data for a task on a processor, and updates the launcher's knowledge of its regions. `emit` gets
    /// each move that concerns this node, with its number in the launch.
    ///
    /// # Errors
    /// An illegal answer of the mapper, which only those are asked who send or receive.
    #[inline]
    pub fn plan_task(
        &self,
        effects: &Effects,
        uses: &[TaskUse],
        (at, priority): (ProcessorId, Priority),
        mut emit: impl FnMut(u32, Arc<Move>),
    ) -> Result<(), Error> {
        let mut is_there = true;
        for u in uses {
            if !u.slot.is_live() {
                return self.plan_task_on_pieces(effects, uses, (at, priority), &mut emit);
            }
            is_there &= u.does == TaskDoes::Overwrites || u.slot.is_valid_at(at);
        }
        if !is_there {
            self.plan_moves(effects, uses, (at, priority), &mut emit)?;
        }
        for u in uses.iter().filter(|u| u.writes()) {
            u.slot.write(at);
        }
        Ok(())
    }

    /// The moves of data for a task, each of a whole piece.
    #[inline(never)]
    fn plan_moves(
        &self,
        effects: &Effects,
        uses: &[TaskUse],
        (at, priority): (ProcessorId, Priority),
        emit: &mut dyn FnMut(u32, Arc<Move>),
    ) -> Result<(), Error> {
        let mut moves: SmallVec<[(ProcessorId, &Slot); 4]> = SmallVec::new();
        for u in uses.iter().filter(|u| u.does != TaskDoes::Overwrites) {
            match &*u.slot.holders() {
                [] => {}
                holders if holders.contains(&at) => {}
                _ if moves.iter().any(|(_, slot)| std::ptr::eq(*slot, &*u.slot)) => {}
                [only] => moves.push((*only, &*u.slot)),
                holders => moves.push((self.source(effects, &u.slot.key(), at, holders)?, &*u.slot)),
            }
        }
        for (number, (from, slot)) in (0u32..).zip(&moves) {
            if self.starts(*from) || self.starts(at) {
                let ColumnKey { tree, field, rect } = slot.key();
                let transfer = Transfer { tree, field, rect, from: rect, into: rect, only_read: false };
                emit(number, moved((*from, at), vec![transfer], priority));
            }
            slot.hold(at);
        }
        Ok(())
    }

    /// Who sends one of several valid copies. Who neither has one nor gets one need not know.
    #[cold]
    fn source(
        &self,
        effects: &Effects,
        key: &ColumnKey,
        at: ProcessorId,
        holders: &[ProcessorId],
    ) -> Result<ProcessorId, Error> {
        match holders.iter().chain([&at]).any(|p| self.starts(*p)) {
            true => self.select_source(effects, key.region(key.rect), key.field, at, holders),
            false => Ok(holders[0]),
        }
    }

    /// The same where pieces cut the regions of the task.
    #[cold]
    fn plan_task_on_pieces(
        &self,
        effects: &Effects,
        uses: &[TaskUse],
        (at, priority): (ProcessorId, Priority),
        emit: &mut dyn FnMut(u32, Arc<Move>),
    ) -> Result<(), Error> {
        let place = |u: &TaskUse| PlacedUse { key: u.slot.key(), into: u.slot.region.rect, at, does: u.does };
        let uses: SmallVec<[PlacedUse; 4]> = uses.iter().map(place).collect();
        let concerns = |p: ProcessorId| self.starts(p);
        let here = (0u32..).zip(self.plan_uses(effects, &uses, priority)?);
        here.filter(|(_, moved)| moved.ends().any(concerns)).for_each(|(number, moved)| emit(number, moved));
        Ok(())
    }

    /// Finds the moves of data for the uses of a task, and updates the launcher's knowledge of its regions.
    ///
    /// # Errors
    /// An illegal answer of the mapper.
    pub fn plan_uses(
        &self,
        effects: &Effects,
        uses: &[PlacedUse],
        priority: Priority,
    ) -> Result<Vec<Arc<Move>>, Error> {
        let mut versions = self.versions.borrow_mut();
        let mut refused = None;
        let mut transfers: Vec<((ProcessorId, ProcessorId), Transfer)> = Vec::new();
        let mut brought: SmallVec<[ColumnKey; 4]> = SmallVec::new();
        let is_first =
            |n: usize| uses[..n].iter().all(|u| (u.key, u.into, u.at) != (uses[n].key, uses[n].into, uses[n].at));
        let read = (0..uses.len()).filter(|n| uses[*n].does != TaskDoes::Overwrites && is_first(*n));
        for PlacedUse { key, into, at, .. } in read.map(|n| &uses[n]) {
            let select = |rect, holders: &[ProcessorId]| {
                let selected = self.source(effects, &ColumnKey { rect, ..*key }, *at, holders);
                selected.unwrap_or_else(|e| {
                    refused.get_or_insert(e);
                    holders[0]
                })
            };
            let here = transfers.len();
            versions.read(key, *into, *at, select, |source, transfer| transfers.push(((source, *at), transfer)));
            if transfers.len() > here && self.held.is_some() {
                // The next task of an inner task that reads it finds it here. (In a flow this would end the slots of regions.)
                brought.push(*key);
            }
        }
        // The launch is refused, so the knowledge of regions stays as it was.
        if let Some(e) = refused {
            return Err(e);
        }
        brought.iter().for_each(|key| versions.cut(key));
        for PlacedUse { key, into, at, does } in uses {
            match does {
                TaskDoes::Reads => versions.hold(key, *into, *at),
                TaskDoes::Changes | TaskDoes::Overwrites => versions.write(key, *into, *at),
            }
        }
        // A task of an inner task may gather the parts of many shards. In a flow, a send that others join has one part.
        let is_grouped = self.held.is_some();
        if is_grouped {
            transfers.sort_by_key(|(ends, _)| *ends);
        }
        let groups = transfers.chunk_by(|(a, _), (b, _)| is_grouped && a == b);
        Ok(groups.map(|group| moved(group[0].0, group.iter().map(|(_, t)| t.clone()).collect(), priority)).collect())
    }
}

/// The node of data that nobody has. The region is taken as a tile of its tree among others of its size.
fn dealt(rect: &Rect, nodes: u32) -> NodeId {
    let place = |d: usize| rect.lo(d).div_euclid((rect.extent(d) as i64).max(1));
    match rect.dim() {
        1 => NodeId(place(0).rem_euclid(nodes.into()) as u32),
        _ => NodeId::dealt((place(0), place(1)), nodes),
    }
}
