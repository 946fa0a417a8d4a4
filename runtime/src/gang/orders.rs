//! What a processor does for launches: it starts batches of shards, sends, receives and copies data, and gives instances
//! up. Each of these is an *order*, an entry in the slab that orders leaf tasks, too. So whatever uses an instance comes in the
//! order of the program, as far as one of them writes.
//!
//! Each processor orders its own. No global order is needed, because every copy of the launcher makes the same plan. Two
//! instances may cover the same points; what uses one of them does not wait for the other. A transfer between them does, as
//! it uses both.
//!
//! An order that comes when all others here are launches that it is part of has nobody to follow. It is not entered in the
//! columns that it uses before an order comes that may have to follow it. In virtual time there may be a million processors
//! with one batch each.

use super::batches::{BatchOrigin, WaitingBatch};
use crate::Error;
use crate::data::{Column, ColumnUse, Does};
use crate::ids::{Ancestors, ColumnKey, LaunchKey, ProcessorId, TaskId, launcher};
use crate::maps::{HashMap, HashSet};
use crate::message::{Batch, LaunchPart, Move, Transfer, Values};
use crate::plant::Bug;
use crate::task::Tasks;
use maniple_regions::Buffer;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// The action of an order.
pub(crate) enum Order {
    Start(Batch),
    Send {
        number: u32,
        to: ProcessorId,
        transfers: Arc<[Transfer]>,
    },
    /// Writes values that come from another processor.
    Receive {
        number: u32,
        from: ProcessorId,
        transfers: Arc<[Transfer]>,
    },
    /// Copies between instances of this processor.
    Copy {
        transfers: Arc<[Transfer]>,
    },
    GiveUp(Vec<ColumnKey>),
}

/// An order with the launch that it is for.
pub(super) struct LaunchOrder {
    pub id: TaskId,
    pub launch: LaunchKey,
    /// The launcher's name.
    pub by: Arc<str>,
    pub within: Ancestors,
    uses: Arc<[ColumnUse]>,
    /// `None` once it is carried out.
    pub order: Option<Order>,
    /// The values that have come for a receive; for a batch, the error of a receive.
    came: Option<Result<Vec<Buffer>, Error>>,
}

/// An order that is carried out now.
pub(crate) struct Due {
    pub launch: LaunchKey,
    pub by: Arc<str>,
    pub within: Ancestors,
    pub order: Order,
    pub came: Option<Result<Vec<Buffer>, Error>>,
}

/// Columns, each with what an order does to it.
type UsedColumns = [(Rc<Column>, Does)];

/// The uses of an order, and their columns.
type Found = (Arc<[ColumnUse]>, Rc<UsedColumns>);

/// The orders of one processor.
#[derive(Default)]
pub(crate) struct Orders {
    /// By place in the slab.
    all: HashMap<u32, Box<LaunchOrder>>,
    /// Orders that are not entered in the columns which they use.
    unlisted: Vec<TaskId>,
    /// Parts of launches whose inner task belongs to a launch that has not started here. Another processor sends it.
    early: Vec<LaunchPart>,
    /// Launches under way that have started here and have regions at home here, so that other processors ask for them.
    started: HashSet<LaunchKey>,
    /// The receives that wait for values, by launch and number of the move.
    awaited: HashMap<(LaunchKey, u32), TaskId>,
    /// Values that have come before their receive.
    came: HashMap<(LaunchKey, u32), Values>,
    /// The columns of a few orders with many, the latest first.
    found: RefCell<VecDeque<Found>>,
}

impl LaunchOrder {
    /// Whether it is the batch of one of these launches.
    fn is_around(&self, within: &Ancestors) -> bool {
        matches!(self.order, None | Some(Order::Start(_))) && within.contains(&self.launch)
    }
}

impl Orders {
    /// Queues the orders of a launch.
    pub fn push(&mut self, tasks: &Tasks, part: LaunchPart) {
        if part.after_within && !part.within.first().is_some_and(|parent| self.started.contains(parent)) {
            return self.early.push(part);
        }
        self.queue_all(tasks, part);
    }

    fn queue_all(&mut self, tasks: &Tasks, part: LaunchPart) {
        let LaunchPart { launch, by, within, moves, batch, gone, .. } = part;
        let here = tasks.effects.id;
        let (mut sends, mut rest) = (Vec::new(), Vec::new());
        for Move { number, from, to, transfers, uses } in moves {
            match (from == here, to == here) {
                (true, true) => rest.push((Order::Copy { transfers }, uses)),
                (true, false) => sends.push((Order::Send { number, to, transfers }, uses)),
                (false, _) => rest.push((Order::Receive { number, from, transfers }, uses)),
            }
        }
        let batch = batch.map(|batch| (batch.uses.clone(), batch)).map(|(uses, batch)| (Order::Start(batch), uses));
        let uses = gone.iter().map(|&column| ColumnUse { column, does: Does::Writes }).collect();
        let gone = (!gone.is_empty()).then_some((Order::GiveUp(gone), uses));
        // Old values are read before anything is written.
        for (order, uses) in sends.into_iter().chain(rest).chain(batch).chain(gone) {
            self.queue(tasks, (launch, &by, &within), order, uses);
        }
    }

    fn queue(
        &mut self,
        tasks: &Tasks,
        (launch, by, within): (LaunchKey, &Arc<str>, &Ancestors),
        order: Order,
        uses: Arc<[ColumnUse]>,
    ) {
        let id = tasks.reserve_order();
        let hurries = tasks.effects.strikes(Bug::EarlyStart);
        if self.is_apart(within) {
            self.unlisted.push(id);
        } else if !hurries {
            self.list(tasks);
            self.follow(tasks, (id, launch, within), &uses, matches!(order, Order::GiveUp(_)));
        }
        let mut came = None;
        if let Order::Receive { number, .. } = order {
            match self.came.remove(&(launch, number)) {
                Some(values) => came = Some(values.values),
                None if hurries => {}
                None => {
                    tasks.order_waits(id);
                    self.awaited.insert((launch, number), id);
                }
            }
        }
        let (by, within, order) = (by.clone(), within.clone(), Some(order));
        self.all.insert(id.index, Box::new(LaunchOrder { id, launch, by, within, uses, order, came }));
        tasks.order_one_less(id);
    }

    /// Whether all orders here are launches that this one is part of.
    fn is_apart(&self, within: &Ancestors) -> bool {
        // If there are more, some of them are probably unrelated.
        const MOST: usize = 4;
        self.all.len() <= MOST && self.all.values().all(|other| other.is_around(within))
    }

    /// Makes an order follow the earlier users of its columns. Later ones follow it, unless it gives instances up: what uses
    /// these again finds them, or makes others.
    fn follow(
        &self,
        tasks: &Tasks,
        (id, launch, within): (TaskId, LaunchKey, &Ancestors),
        uses: &Arc<[ColumnUse]>,
        gives_up: bool,
    ) {
        let is_around = |earlier: TaskId| {
            // Hardly any launcher is part of another launch.
            let around =
                || self.all.get(&earlier.index).is_some_and(|other| other.id == earlier && other.is_around(within));
            !within.is_empty() && around()
        };
        for (column, does) in &*self.columns(tasks, uses) {
            let of = (*does, launcher(launch));
            tasks.order_follows(id, column, of, is_around);
            if !gives_up {
                tasks.order_uses(id, column, of, is_around);
            }
        }
    }

    /// The columns of an order. A launch that comes again has the very same list.
    fn columns(&self, tasks: &Tasks, uses: &Arc<[ColumnUse]>) -> Rc<UsedColumns> {
        const FEW: usize = 4;
        const MOST: usize = 8;
        let mut found = self.found.borrow_mut();
        if let Some((_, columns)) = found.iter().find(|(list, _)| Arc::ptr_eq(list, uses)) {
            return columns.clone();
        }
        let column = |u: &ColumnUse| Some((tasks.data.standing(&tasks.effects, &u.column).ok()?, u.does));
        let columns: Rc<UsedColumns> = uses.iter().filter_map(column).collect();
        if uses.len() > FEW {
            found.truncate(MOST - 1);
            found.push_front((uses.clone(), columns.clone()));
        }
        columns
    }

    /// Columns have been given up: they are looked up again.
    pub fn forget_columns(&self) {
        self.found.borrow_mut().clear();
    }

    /// Enters the orders in `unlisted` in their columns.
    fn list(&mut self, tasks: &Tasks) {
        for id in std::mem::take(&mut self.unlisted) {
            let Some(listed) = self.all.get(&id.index).filter(|other| other.id == id) else { continue };
            if matches!(listed.order, Some(Order::GiveUp(_))) {
                continue;
            }
            for (column, does) in &*self.columns(tasks, &listed.uses) {
                tasks.order_uses(id, column, (*does, launcher(listed.launch)), |_| true);
            }
        }
    }

    /// Takes an order that is to be carried out now.
    pub fn start(&mut self, id: TaskId) -> Option<Due> {
        let own = self.all.get_mut(&id.index)?;
        let (order, came) = (own.order.take()?, own.came.take());
        Some(Due { launch: own.launch, by: own.by.clone(), within: own.within.clone(), order, came })
    }

    /// An order is over.
    pub fn end(&mut self, tasks: &Tasks, id: TaskId) {
        self.all.remove(&id.index);
        if self.unlisted.last() == Some(&id) {
            self.unlisted.pop();
        }
        tasks.end_order(id);
    }

    /// Values have come.
    pub fn take_values(&mut self, tasks: &Tasks, came: Values) {
        let key = (came.launch, came.number);
        let Some(id) = self.awaited.remove(&key) else {
            self.came.insert(key, came);
            return;
        };
        if let Some(receive) = self.all.get_mut(&id.index) {
            receive.came = Some(came.values);
        }
        tasks.order_one_less(id);
    }

    /// Values for a launch are missing: its batch here is refused.
    pub fn refuse_batch(&mut self, launch: LaunchKey, error: Error) {
        let is_it = |other: &&mut Box<LaunchOrder>| {
            other.launch == launch && matches!(other.order, Some(Order::Start(_))) && other.came.is_none()
        };
        if let Some(batch) = self.all.values_mut().find(is_it) {
            batch.came = Some(Err(error));
        }
    }

    /// Whether a shard that has started here reads a column of data that an inner task holds to read, within the same launches
    /// or as one of them. It reads the values that a transfer would bring.
    pub fn is_read(&self, within: &Ancestors, column: &ColumnKey) -> bool {
        self.all.values().any(|other| {
            let reads = ColumnUse { column: *column, does: Does::Reads };
            other.order.is_none() && (other.within == *within || other.is_around(within)) && other.uses.contains(&reads)
        })
    }

    /// A launch with regions at home here has started: requests of its shards can now be served.
    pub fn launch_started(&mut self, tasks: &Tasks, launch: LaunchKey) {
        self.started.insert(launch);
        if self.early.is_empty() {
            return;
        }
        let is_due = |part: &LaunchPart| part.within.first() == Some(&launch);
        let (due, early) = std::mem::take(&mut self.early).into_iter().partition::<Vec<_>, _>(is_due);
        self.early = early;
        due.into_iter().for_each(|part| self.queue_all(tasks, part));
    }

    pub fn has_started(&self, launch: LaunchKey) -> bool {
        self.started.contains(&launch)
    }

    /// All shards of a launch have ended, on all processors.
    pub fn launch_over(&mut self, launch: LaunchKey) {
        self.started.remove(&launch);
    }

    /// Batches that wait for data or for earlier orders.
    pub fn waiting(&self, tasks: &Tasks) -> Vec<WaitingBatch<'_>> {
        let origin = |launch, by, batch: &Batch| BatchOrigin { launch, task: batch.task, gang: batch.gang, by };
        let shards = |batch: &Batch| batch.shards.iter().map(|s| s.shard).collect();
        let early = self.early.iter().filter_map(|part| Some((part, part.batch.as_ref()?)));
        let early = early.map(|(part, batch)| WaitingBatch {
            origin: origin(part.launch, &part.by, batch),
            shards: shards(batch),
            missing: Vec::new(),
            after: Vec::new(),
        });
        let mut queued: Vec<&LaunchOrder> = self.all.values().map(|order| &**order).collect();
        queued.sort_unstable_by_key(|order| order.launch);
        let queued = queued.into_iter().filter_map(|order| match &order.order {
            Some(Order::Start(batch)) => Some((order, batch)),
            _ => None,
        });
        let queued = queued.map(|(order, batch)| WaitingBatch {
            origin: origin(order.launch, &order.by, batch),
            shards: shards(batch),
            missing: self.missing(order.launch),
            after: self.launches_before(tasks, order),
        });
        queued.chain(early).collect()
    }

    /// The processors whose data for a launch has not come.
    fn missing(&self, launch: LaunchKey) -> Vec<ProcessorId> {
        let awaited = self.awaited.iter().filter(|((of, _), _)| *of == launch).map(|(_, id)| id);
        let from = awaited.filter_map(|id| match self.all.get(&id.index)?.order {
            Some(Order::Receive { from, .. }) => Some(from),
            _ => None,
        });
        let mut from: Vec<ProcessorId> = from.collect();
        from.sort_unstable();
        from
    }

    /// The launches that an order follows, also by way of what moves data between them.
    fn launches_before(&self, tasks: &Tasks, order: &LaunchOrder) -> Vec<LaunchKey> {
        let (mut launches, mut seen, mut left) = (Vec::new(), HashSet::default(), vec![order.id]);
        while let Some(id) = left.pop() {
            for before in tasks.before(id).iter().filter_map(|index| self.all.get(index)) {
                if matches!(before.order, None | Some(Order::Start(_))) {
                    launches.push(before.launch);
                } else if seen.insert(before.id.index) {
                    left.push(before.id);
                }
            }
        }
        launches
    }

    /// How many there are, of any kind.
    pub fn entries(&self) -> usize {
        self.all.len() + self.early.len() + self.came.len() + self.started.len()
    }
}
