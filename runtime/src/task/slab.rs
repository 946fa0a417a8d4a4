//! The order of what a processor does with its data: a slab of entries, each with its stage. An entry is a leaf task, or an
//! *order* of the runtime itself, such as to start a batch of shards or to send data.

use super::Body;
use crate::Error;
use crate::data::{UseAt, Users};
use crate::ids::{ProcessorId, TaskId};
use crate::message::UNSAID;
use crate::names::TaskName;
use maniple_mapper::Priority;
use maniple_regions::{Coherence, Privilege};
use std::cell::Cell;

/// An entry of the slab: a task or an order, and its place among the others.
pub(super) struct Entry {
    pub(super) turn: u32,
    /// How many things the task still waits for.
    pub(super) unmet: u32,
    pub(super) stage: Stage,
    pub(super) priority: Priority,
    pub(super) processor: ProcessorId,
    pub(super) successors: Vec<TaskId>,
    pub(super) poison: Option<Box<Error>>,
    /// `None` while the task is being launched or called, so that the slab need not be borrowed. An order has none of its
    /// own.
    pub(super) body: Option<Box<Body>>,
}

impl Entry {
    /// An entry before its first task.
    fn new(body: Option<Box<Body>>) -> Self {
        Self {
            turn: 0,
            unmet: 0,
            stage: Stage::Free,
            priority: Priority::NORMAL,
            processor: ProcessorId(0),
            successors: Vec::new(),
            poison: None,
            body,
        }
    }

    pub(super) fn uses(&self) -> &[UseAt] {
        self.body.as_ref().map_or(&[], |body| &body.uses)
    }

    /// The error of data that the task reads or changes, but that a task which failed should have written.
    #[inline]
    pub(super) fn poison_of_data(&self) -> Option<Error> {
        let poisons = self.body.as_ref()?.owner.as_ref()?.some_poison()?;
        let looks_at = self.uses().iter().filter(|u| u.privilege != Privilege::WriteDiscard);
        looks_at.map(|u| &u.column).find_map(|column| poisons.of(&column.key(), column.rect()))
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
    /// An order that waits, for its predecessors and for data.
    Order,
    /// An order that may be carried out now, or is being carried out.
    Started,
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
    /// Carry the order out.
    Start,
}

impl Body {
    #[cold]
    pub fn new() -> Box<Self> {
        Box::new(Self {
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
        })
    }
}

pub(crate) struct Leaves {
    pub(super) slab: Vec<Entry>,
    /// Free entries of leaf tasks. Each has a body.
    free: Vec<u32>,
    /// Free entries of orders, which have none.
    free_orders: Vec<u32>,
    /// The lowest priority of a task so far.
    lowest: Priority,
}

impl Default for Leaves {
    fn default() -> Self {
        Self { slab: Vec::new(), free: Vec::new(), free_orders: Vec::new(), lowest: Priority(Priority::LEVELS - 1) }
    }
}

impl Leaves {
    #[inline]
    pub(super) fn reserve(&mut self) -> (TaskId, Box<Body>) {
        let index = self.free.pop().unwrap_or_else(|| self.grow(Some(Body::new())));
        let leaf = &mut self.slab[index as usize];
        let Some(body) = leaf.body.take() else { unreachable!("a free entry has a body") };
        debug_assert!(body.after.is_empty(), "a free entry waits for nobody");
        leaf.stage = Stage::Waiting;
        // The launch itself counts as one, until it is complete.
        leaf.unmet = 1;
        (TaskId { index, turn: leaf.turn }, body)
    }

    #[cold]
    fn grow(&mut self, body: Option<Box<Body>>) -> u32 {
        self.slab.push(Entry::new(body));
        self.slab.len() as u32 - 1
    }

    /// Reserves an entry for an order.
    pub(super) fn reserve_order(&mut self) -> TaskId {
        let index = self.free_orders.pop().unwrap_or_else(|| self.grow(None));
        let entry = &mut self.slab[index as usize];
        entry.stage = Stage::Order;
        entry.priority = Priority(Priority::LEVELS - 1);
        // Until all that it waits for is known.
        entry.unmet = 1;
        TaskId { index, turn: entry.turn }
    }

    /// The entries that an entry waits for, by their places.
    pub(super) fn before(&self, id: TaskId) -> Vec<u32> {
        (0u32..).zip(&self.slab).filter(|(_, entry)| entry.successors.contains(&id)).map(|(index, _)| index).collect()
    }

    /// Puts an order that does nothing in the place of a task that waits, between what comes before the task and what follows it.
    pub(super) fn stand_in(&mut self, id: TaskId) {
        let before = self.before(id);
        let Some(task) = self.get(id).filter(|task| !before.is_empty() && !task.successors.is_empty()) else { return };
        let successors = std::mem::take(&mut task.successors);
        let order = self.reserve_order();
        before.iter().for_each(|&index| self.slab[index as usize].successors.push(order));
        let entry = &mut self.slab[order.index as usize];
        (entry.unmet, entry.successors) = (before.len() as u32, successors);
    }

    /// An order is over: calls `next` for those that follow it. Then its entry is free for the next.
    pub(super) fn end_order(&mut self, id: TaskId, mut next: impl FnMut(TaskId, Next)) {
        let Some(entry) = self.get(id) else { return };
        entry.turn = entry.turn.wrapping_add(1);
        entry.stage = Stage::Free;
        entry.poison = None;
        // Their memory stays with the entry.
        let mut successors = std::mem::take(&mut entry.successors);
        successors.drain(..).for_each(|id| next(id, self.one_less(id)));
        self.slab[id.index as usize].successors = successors;
        self.free_orders.push(id.index);
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

    /// Makes `id` follow an earlier task. False if that one is over, or if `id` follows it already.
    #[inline(always)]
    pub(super) fn add_successor(&mut self, earlier: TaskId, id: TaskId) -> bool {
        // If `id` already follows that task, for another use, it is the last in the list.
        match self.get(earlier) {
            Some(leaf) if leaf.successors.last() != Some(&id) => {
                leaf.successors.push(id);
                true
            }
            _ => false,
        }
    }

    #[inline]
    pub(super) fn follow(&mut self, id: TaskId, users: &Users, writes: bool, after: &mut Vec<TaskId>) -> u32 {
        let mut found = 0;
        users.earlier(writes, |earlier| {
            if earlier != id && self.add_successor(earlier, id) {
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
            Stage::Order => {
                leaf.stage = Stage::Started;
                Next::Start
            }
            Stage::Ready | Stage::Started | Stage::Free => Next::Nothing,
        }
    }

    /// Tasks that are launched and not over.
    pub(super) fn busy(&self) -> impl Iterator<Item = (TaskId, &Entry, &Body)> {
        let is_task = |l: &Entry| !matches!(l.stage, Stage::Free | Stage::Order | Stage::Started);
        (0u32..).zip(&self.slab).filter(move |(_, l)| is_task(l)).filter_map(|(index, l)| {
            let body = l.body.as_ref()?;
            Some((TaskId { index, turn: l.turn }, l, &**body))
        })
    }

    /// How many tasks and orders have not ended.
    pub fn entries(&self) -> usize {
        self.slab.len() - self.free.len() - self.free_orders.len()
    }

    /// Whether it is an order, and no task.
    pub(super) fn is_order(&self, id: TaskId) -> bool {
        self.slab.get(id.index as usize).is_some_and(|l| matches!(l.stage, Stage::Order | Stage::Started))
    }

    /// Whether a task is queued or runs. Later it may still wait until its changes have reached their home.
    pub(super) fn is_ready(&self, id: TaskId) -> bool {
        self.slab.get(id.index as usize).is_some_and(|l| l.turn == id.turn && l.stage == Stage::Ready)
    }

    /// Whether a task has not ended.
    pub(super) fn is_there(&self, id: TaskId) -> bool {
        self.slab.get(id.index as usize).is_some_and(|l| l.turn == id.turn && l.stage != Stage::Free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Does;
    use proptest::prelude::*;

    const COLUMNS: usize = 3;

    /// An order, as the rules describe it. The test compares all pairs.
    struct Named {
        id: TaskId,
        /// The order whose launcher this one is part of, the order of that one's launcher, and so on.
        within: Vec<usize>,
        uses: [Option<Does>; COLUMNS],
        started: bool,
        over: bool,
    }

    impl Named {
        fn launcher(&self) -> u32 {
            self.within.first().map_or(0, |parent| *parent as u32 + 1)
        }

        /// Whether it has to wait for an earlier one.
        fn waits_for(&self, earlier: &Self, at: usize) -> bool {
            let conflict = |column: usize| match (earlier.uses[column], self.uses[column]) {
                (Some(Does::Writes), Some(_)) | (Some(_), Some(Does::Writes)) => true,
                (Some(Does::Brings), Some(Does::Reads)) => self.launcher() == earlier.launcher(),
                _ => false,
            };
            !earlier.over && !self.within.contains(&at) && (0..COLUMNS).any(conflict)
        }
    }

    fn uses() -> impl Strategy<Value = [Option<Does>; COLUMNS]> {
        let does = prop_oneof![
            3 => Just(None),
            3 => Just(Some(Does::Reads)),
            2 => Just(Some(Does::Writes)),
            1 => Just(Some(Does::Brings)),
        ];
        prop::array::uniform3(does)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// At each moment exactly those orders may start that the comparison of all pairs allows, in whatever order they
        /// end.
        #[test]
        fn the_lists_say_what_all_pairs_say(
            steps in prop::collection::vec((0..4u32, uses(), any::<u32>()), 1..60)
        ) {
            let mut leaves = Leaves::default();
            let mut columns: [Users; COLUMNS] = Default::default();
            let mut all: Vec<Named> = Vec::new();
            let mut ready: Vec<TaskId> = Vec::new();
            for (step, mut uses, random) in steps {
                let running: Vec<usize> = (0..all.len()).filter(|&i| all[i].started && !all[i].over).collect();
                let one = running.get(random as usize % running.len().max(1)).copied();
                match (step, one) {
                    // An order ends, unless another that is part of it is under way.
                    (0, Some(i)) if !all.iter().any(|o| !o.over && o.within.contains(&i)) => {
                        all[i].over = true;
                        leaves.end_order(all[i].id, |id, next| ready.extend((next == Next::Start).then_some(id)));
                    }
                    // An order of the top level, or within one that runs.
                    (_, one) => {
                        let parent = one.filter(|_| step > 1);
                        for (own, of_parent) in uses.iter_mut().zip(parent.map_or([Some(Does::Writes); 3], |i| all[i].uses)) {
                            *own = match of_parent {
                                // Only what the parent holds to read is brought.
                                Some(Does::Writes) => own.filter(|does| *does != Does::Brings),
                                Some(_) => own.map(|does| if does == Does::Writes { Does::Reads } else { does }),
                                None => None,
                            };
                        }
                        let within: Vec<usize> =
                            parent.into_iter().chain(parent.iter().flat_map(|i| all[*i].within.clone())).collect();
                        let id = leaves.reserve_order();
                        let named = Named { id, within, uses, started: false, over: false };
                        let is_around = |id: TaskId| named.within.iter().any(|i| all[*i].id == id);
                        for (does, users) in uses.iter().zip(&mut columns) {
                            let Some(does) = *does else { continue };
                            let mut found = 0;
                            users.before(does, named.launcher(), |earlier| {
                                found += u32::from(!is_around(earlier) && leaves.add_successor(earlier, id));
                            });
                            leaves.slab[id.index as usize].unmet += found;
                            users.add_order(id, (does, named.launcher()), is_around, |id| leaves.is_there(id));
                        }
                        if leaves.one_less(id) == Next::Start {
                            ready.push(id);
                        }
                        all.push(named);
                    }
                }
                let may = |i: &usize| !(0..*i).any(|e| all[*i].waits_for(&all[e], e));
                let expected: Vec<usize> = (0..all.len()).filter(|i| !all[*i].started && may(i)).collect();
                let mut found: Vec<usize> =
                    ready.iter().filter_map(|id| all.iter().rposition(|o| o.id == *id)).collect();
                found.sort_unstable();
                prop_assert_eq!(&found, &expected);
                // Not all at once, so that several wait.
                if random % 3 > 0 {
                    ready.clear();
                    found.iter().for_each(|&i| all[i].started = true);
                }
            }
        }
    }
}
