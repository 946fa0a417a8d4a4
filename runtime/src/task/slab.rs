//! The leaf tasks of a processor that have not ended: a slab of entries, each with the stage of its task.

use super::Body;
use crate::Error;
use crate::data::{UseAt, Users};
use crate::ids::{ProcessorId, TaskId};
use crate::message::UNSAID;
use crate::names::TaskName;
use maniple_mapper::Priority;
use maniple_regions::{Coherence, Privilege};
use std::cell::Cell;

/// An entry of the slab: a task and its place in the order of tasks.
pub(super) struct Entry {
    pub(super) turn: u32,
    /// How many things the task still waits for.
    pub(super) unmet: u32,
    pub(super) stage: Stage,
    pub(super) priority: Priority,
    pub(super) processor: ProcessorId,
    pub(super) successors: Vec<TaskId>,
    pub(super) poison: Option<Box<Error>>,
    /// `None` while the task is being launched or called, so that the slab need not be borrowed.
    pub(super) body: Option<Box<Body>>,
}

impl Entry {
    /// An entry before its first task.
    pub(super) fn new() -> Self {
        let body = Body {
            name: TaskName::new(""),
            shard: u32::MAX,
            takes: UNSAID,
            task: None,
            owner: None,
            uses: Vec::new(),
            after: Vec::new(),
            inputs: Vec::new(),
            arrivals: Vec::new(),
            values_at: Vec::new(),
            values: Vec::new(),
            launched: Cell::default(),
        };
        Self {
            turn: 0,
            unmet: 0,
            stage: Stage::Free,
            priority: Priority::NORMAL,
            processor: ProcessorId(0),
            successors: Vec::new(),
            poison: None,
            body: Some(Box::new(body)),
        }
    }

    pub(super) fn uses(&self) -> &[UseAt] {
        self.body.as_ref().map_or(&[], |body| &body.uses)
    }

    /// The error of data that the task reads or changes, but that a task which failed should have written.
    #[inline]
    pub(super) fn poison_of_data(&self) -> Option<Error> {
        let owner = self.body.as_ref()?.owner.as_ref().filter(|owner| owner.has_poison())?;
        let looks_at = self.uses().iter().filter(|u| u.privilege != Privilege::WriteDiscard);
        looks_at
            .map(|u| (u.column.region, u.column.field.id))
            .find_map(|(region, field)| owner.poison_of(region, field))
    }

    /// Whether a column has to be fetched before the task can run.
    #[inline]
    pub(super) fn needs_staging(&self) -> bool {
        self.poison.is_none() && self.uses().iter().any(|u| u.column.is_elsewhere())
    }
}

/// The stage of a leaf task. A stage ends when `unmet` is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The slab entry is not in use.
    Free,
    /// Waits for predecessors, barriers and input futures.
    Waiting,
    /// Waits for remote data.
    Staging,
    /// Queued, or running on another processor.
    Ready,
    /// Waits until its changes have reached their home.
    Finishing,
}

/// The next step for a task that waits for one thing less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// Fetch data.
    Stage,
    /// Queue it. A task for another processor is sent there instead.
    Queue(Priority, ProcessorId),
    /// Complete it.
    Finish,
}

pub(crate) struct Leaves {
    pub(super) slab: Vec<Entry>,
    pub(super) free: Vec<u32>,
    /// The lowest priority of a task so far.
    lowest: Priority,
}

impl Default for Leaves {
    fn default() -> Self {
        Self { slab: Vec::new(), free: Vec::new(), lowest: Priority(Priority::LEVELS - 1) }
    }
}

impl Leaves {
    #[inline]
    pub(super) fn reserve(&mut self) -> (TaskId, Box<Body>) {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let leaf = &mut self.slab[index as usize];
        let Some(body) = leaf.body.take() else { unreachable!("a free entry has a body") };
        debug_assert!(body.after.is_empty(), "a free entry waits for nobody");
        leaf.stage = Stage::Waiting;
        // The launch itself counts as one, until it is complete.
        leaf.unmet = 1;
        (TaskId { index, turn: leaf.turn }, body)
    }

    #[cold]
    pub(super) fn grow(&mut self) -> u32 {
        self.slab.push(Entry::new());
        self.slab.len() as u32 - 1
    }

    #[inline]
    pub(super) fn get(&mut self, id: TaskId) -> Option<&mut Entry> {
        self.slab.get_mut(id.index as usize).filter(|l| l.turn == id.turn && l.stage != Stage::Free)
    }

    /// Ends a task. Its entry and `body` are free for the next.
    #[inline(always)]
    pub(super) fn free(&mut self, id: TaskId, mut body: Box<Body>) {
        body.after.clear();
        if let Some(leaf) = self.get(id) {
            leaf.turn = leaf.turn.wrapping_add(1);
            leaf.stage = Stage::Free;
            leaf.body = Some(body);
            leaf.successors.clear();
            self.free.push(id.index);
        }
    }

    /// Takes the body of a task out of the slab.
    #[inline]
    pub(super) fn take_body(&mut self, id: TaskId) -> Option<Box<Body>> {
        self.get(id)?.body.take()
    }

    pub(super) fn put_back(&mut self, id: TaskId, body: Box<Body>) {
        if let Some(leaf) = self.get(id) {
            leaf.body = Some(body);
        }
    }

    /// One of a task's uses, while the task waits.
    pub(super) fn use_at(&mut self, id: TaskId, index: usize) -> Option<&mut UseAt> {
        self.get(id)?.body.as_mut()?.uses.get_mut(index)
    }

    /// Makes `id` follow the tasks that its use `u` must follow, in program order, and adds them to `after`. Returns how
    /// many there are.
    #[inline(always)]
    pub(super) fn depend(&mut self, id: TaskId, u: &UseAt, after: &mut Vec<TaskId>) -> u32 {
        if u.coherence == Coherence::Simultaneous {
            return 0;
        }
        let writes = u.privilege != Privilege::Read;
        let mut found = 0;
        u.column.each_overlap(|other| {
            found += self.follow(id, &other.users.borrow(), writes, after);
        });
        let mut users = u.column.users.borrow_mut();
        found += self.follow(id, &users, writes, after);
        users.add(id, writes, |t| self.get(t).is_some());
        found
    }

    #[inline]
    pub(super) fn follow(&mut self, id: TaskId, users: &Users, writes: bool, after: &mut Vec<TaskId>) -> u32 {
        let mut found = 0;
        users.earlier(writes, |earlier| {
            // If `id` already follows that task, for another use, it is the last in the list.
            if earlier != id
                && let Some(leaf) = self.get(earlier)
                && leaf.successors.last() != Some(&id)
            {
                leaf.successors.push(id);
                after.push(earlier);
                found += 1;
            }
        });
        found
    }

    /// Notes the priority of a task. True if it may have to lend it to tasks that it waits for.
    #[inline]
    pub(super) fn prioritise(&mut self, id: TaskId, priority: Priority) -> bool {
        self.slab[id.index as usize].priority = priority;
        self.lowest = self.lowest.min(priority);
        priority > self.lowest
    }

    /// Lends the priority of `id` to the tasks that it waits for, and to the tasks that those wait for. Returns the ones
    /// that are in the queue of `here`, at a lower level.
    #[cold]
    pub(super) fn lend(&mut self, id: TaskId, here: ProcessorId) -> Vec<TaskId> {
        let (mut queued, mut lenders) = (Vec::new(), vec![id]);
        let priority = self.slab[id.index as usize].priority;
        while let Some(lender) = lenders.pop() {
            let after = self.get(lender).and_then(|leaf| leaf.body.as_ref()).map(|body| body.after.clone());
            for id in after.unwrap_or_default() {
                let Some(leaf) = self.get(id).filter(|leaf| leaf.priority < priority) else { continue };
                leaf.priority = priority;
                match leaf.stage {
                    Stage::Waiting | Stage::Staging => lenders.push(id),
                    Stage::Ready if leaf.processor == here && leaf.body.is_some() => queued.push(id),
                    _ => {}
                }
            }
        }
        queued
    }

    /// The task waits for one thing less.
    #[inline]
    pub(super) fn one_less(&mut self, id: TaskId) -> Next {
        let Some(leaf) = self.get(id) else { return Next::Nothing };
        leaf.unmet -= 1;
        match leaf.stage {
            _ if leaf.unmet > 0 => Next::Nothing,
            Stage::Waiting if leaf.needs_staging() => Next::Stage,
            Stage::Waiting | Stage::Staging => {
                leaf.stage = Stage::Ready;
                Next::Queue(leaf.priority, leaf.processor)
            }
            Stage::Finishing => Next::Finish,
            Stage::Ready | Stage::Free => Next::Nothing,
        }
    }

    /// Tasks that are launched and not over.
    pub(super) fn busy(&self) -> impl Iterator<Item = (TaskId, &Entry, &Body)> {
        (0u32..).zip(&self.slab).filter(|(_, l)| l.stage != Stage::Free).filter_map(|(index, l)| {
            let body = l.body.as_ref()?;
            Some((TaskId { index, turn: l.turn }, l, &**body))
        })
    }

    /// How many tasks have not ended, including those whose body is elsewhere.
    pub fn entries(&self) -> usize {
        self.slab.iter().filter(|l| l.stage != Stage::Free).count()
    }

    /// Whether a task has not ended.
    pub(super) fn is_there(&self, id: TaskId) -> bool {
        self.slab.get(id.index as usize).is_some_and(|l| l.turn == id.turn && l.stage != Stage::Free)
    }
}
