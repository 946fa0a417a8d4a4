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
use super::results::Leaving;
use crate::Error;
use crate::data::Column;
use crate::diagnose::deadlock::Node;
use crate::ids::{Ancestors, ColumnKey, LaunchKey, ProcessorId, TaskId, launcher};
use crate::maps::{HashMap, HashSet};
use crate::message::{Batch, ColumnUse, Does, LaunchPart, Move, Recipient, Values};
use crate::plant::Bug;
use crate::task::Tasks;
use maniple_mapper::Priority;
use maniple_regions::{Buffer, TreeId};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;

/// The action of an order. A receive has its number in the launch.
pub(crate) enum Order {
    Start(Batch),
    /// Sends values to these processors, which need the same.
    Send(SmallVec<[Recipient; 1]>, Arc<Move>),
    /// Writes values that come from another processor.
    Receive(u32, Arc<Move>),
    /// Copies between instances of this processor.
    Copy(Arc<Move>),
    GiveUp(Vec<ColumnKey>),
    /// Frees destroyed objects, which nothing of a flow uses any more.
    Free(Rc<Leaving>),
}

/// The priority of values that leave, and the launch that needs them. The lesser one is more urgent.
pub(crate) type Urgency = (Reverse<Priority>, LaunchKey);

/// The launch that orders are for. They share it, because to count references to what other processors use takes long.
pub(crate) struct OfLaunch {
    pub launch: LaunchKey,
    /// The launcher's name.
    pub by: Arc<str>,
    /// The launches that the launcher is part of.
    pub within: Ancestors,
}

/// An order with the launch that it is for.
struct LaunchOrder {
    id: TaskId,
    of: Rc<OfLaunch>,
    /// `None` once it is carried out.
    order: Option<Order>,
    /// What it uses, unless it is a move.
    uses: Option<Arc<[ColumnUse]>>,
    /// The values that have come for a receive.
    came: Option<Vec<Result<Buffer, Box<Error>>>>,
}

/// An order that is carried out now.
pub(crate) struct Due {
    pub of: Rc<OfLaunch>,
    pub order: Order,
    pub came: Option<Vec<Result<Buffer, Box<Error>>>>,
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
    /// Leaf tasks may use the same columns, so every order is entered.
    lists_all: bool,
    /// Parts of launches whose inner task belongs to a launch that has not started here. Another processor sends it.
    early: Vec<LaunchPart>,
    /// Launches under way that have started here and have regions at home here, so that other processors ask for them.
    started: HashSet<LaunchKey>,
    /// The receives that wait for values, by launch and number of the move.
    awaited: HashMap<(LaunchKey, u32), TaskId>,
    /// Values that have come before their receive.
    came: HashMap<(LaunchKey, u32), Values>,
    /// The columns of orders with many, by the address of the list of uses.
    found: RefCell<HashMap<*const [ColumnUse], Found>>,
}

impl LaunchOrder {
    /// Whether it is the batch of one of these launches.
    fn is_around(&self, within: &Ancestors) -> bool {
        matches!(self.order, None | Some(Order::Start(_))) && within.contains(&self.of.launch)
    }

    /// Whether nothing follows it.
    fn is_last(&self) -> bool {
        matches!(self.order, Some(Order::GiveUp(_) | Order::Free(_)))
    }

    fn uses(&self) -> Option<&Arc<[ColumnUse]>> {
        match &self.order {
            Some(Order::Send(_, moved)) => Some(&moved.uses[0]),
            Some(Order::Receive(_, moved) | Order::Copy(moved)) => Some(&moved.uses[1]),
            None | Some(Order::Start(_) | Order::GiveUp(_) | Order::Free(_)) => self.uses.as_ref(),
        }
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
        let LaunchPart { launch, by, within, mut moves, batch, uses, gone, .. } = part;
        let of = Rc::new(OfLaunch { launch, by, within });
        let here = tasks.effects.id;
        // Old values are read before anything is written.
        moves.sort_by_key(|(_, moved)| moved.to == here);
        for (number, moved) in moves {
            let order = match (moved.from == here, moved.to == here) {
                (true, true) => Order::Copy(moved),
                (true, false) => {
                    let recipient = Recipient { to: moved.to, launch: of.launch, number, priority: moved.priority };
                    if self.joins(tasks, recipient, &moved) {
                        continue;
                    }
                    Order::Send(SmallVec::from_elem(recipient, 1), moved)
                }
                (false, _) => Order::Receive(number, moved),
            };
            self.queue(tasks, &of, order, None);
        }
        if let Some(batch) = batch {
            self.queue(tasks, &of, Order::Start(batch), uses);
        }
        if !gone.is_empty() {
            let uses = gone.iter().map(|&column| ColumnUse { column, does: Does::Writes }).collect();
            self.queue(tasks, &of, Order::GiveUp(gone), Some(uses));
        }
    }

    /// Frees objects after everything of the flow that uses trees among them. False if nothing does, or if there is no flow.
    pub fn free_after(&mut self, tasks: &Tasks, of: OfLaunch, trees: &[TreeId], leaving: &Rc<Leaving>) -> bool {
        if !self.lists_all {
            return false;
        }
        let writes = |column| ColumnUse { column, does: Does::Writes };
        let uses: Vec<ColumnUse> = trees.iter().flat_map(|tree| tasks.data.standing_of(*tree)).map(writes).collect();
        let some = !uses.is_empty();
        if some {
            self.queue(tasks, &Rc::new(of), Order::Free(leaving.clone()), Some(uses.into()));
        }
        some
    }

    /// Adds a recipient to an earlier send of the same values that has not left, if there is one. Within a node each gets its
    /// own message. So does each for an inner task: its gangs stand for what the founding paper compares collectives with.
    fn joins(&mut self, tasks: &Tasks, recipient: Recipient, moved: &Move) -> bool {
        let ([transfer], false, 0) =
            (&moved.transfers[..], tasks.effects.same_node(recipient.to), launcher(recipient.launch))
        else {
            return false;
        };
        let Ok(column) = tasks.data.standing(&tasks.effects, &transfer.source()) else { return false };
        let Some(id) = column.users.borrow().last_send(|| tasks.effects.strikes(Bug::OldVersion)) else { return false };
        let own = self.all.get_mut(&id.index).filter(|own| own.id == id);
        let counters = &tasks.effects.counters;
        match own.and_then(|own| own.order.as_mut()) {
            Some(Order::Send(recipients, earlier))
                if earlier.transfers[0].rect == transfer.rect
                    && !tasks.effects.same_node(recipients[0].to)
                    && recipients.iter().all(|other| other.to != recipient.to) =>
            {
                if !tasks.effects.strikes(Bug::LostRecipient) {
                    recipients.push(recipient);
                }
                if tasks.effects.strikes(Bug::DoubledRecipient) {
                    recipients.push(recipient);
                }
                counters.joined.add(1);
                true
            }
            _ => {
                counters.found_late.add(1);
                false
            }
        }
    }

    fn queue(&mut self, tasks: &Tasks, of: &Rc<OfLaunch>, order: Order, uses: Option<Arc<[ColumnUse]>>) {
        let mut own =
            Box::new(LaunchOrder { id: tasks.reserve_order(), of: of.clone(), order: Some(order), uses, came: None });
        let (id, launch) = (own.id, of.launch);
        let hurries = tasks.effects.strikes(Bug::EarlyStart);
        if self.is_apart(tasks, &of.within) {
            self.unlisted.push(id);
        } else if !hurries {
            self.list(tasks);
            self.follow(tasks, &own);
        }
        if let Some(Order::Receive(number, _)) = own.order {
            match self.came.remove(&(launch, number)) {
                Some(values) => own.came = Some(values.values),
                None if hurries => {}
                None => {
                    tasks.order_waits(id);
                    self.awaited.insert((launch, number), id);
                }
            }
        }
        self.all.insert(id.index, own);
        tasks.order_one_less(id);
    }

    /// From now on leaf tasks use the columns of launches, too.
    pub fn begin_flow(&mut self, tasks: &Tasks) {
        if !std::mem::replace(&mut self.lists_all, true) {
            self.list(tasks);
        }
    }

    /// Whether all orders here are launches that this one is part of.
    fn is_apart(&self, tasks: &Tasks, within: &Ancestors) -> bool {
        // If there are more, some of them are probably unrelated.
        const MOST: usize = 4;
        !self.lists_all
            && self.all.len() <= MOST
            // A leaf task of an inner task uses the columns of orders.
            && !(tasks.data.has_scopes() && tasks.has_leaves(self.all.len() + 1))
            && self.all.values().all(|other| other.is_around(within))
    }

    /// Makes an order follow the earlier users of its columns. Later ones follow it, unless it gives instances up: what uses
    /// these again finds them, or makes others.
    fn follow(&self, tasks: &Tasks, own: &LaunchOrder) {
        let within = &own.of.within;
        let sends_one = matches!(&own.order, Some(Order::Send(_, moved)) if moved.transfers.len() == 1);
        let is_around = |earlier: TaskId| {
            // Hardly any launcher is part of another launch.
            let around =
                || self.all.get(&earlier.index).is_some_and(|other| other.id == earlier && other.is_around(within));
            !within.is_empty() && around()
        };
        let Some(uses) = own.uses() else { return };
        let by = launcher(own.of.launch);
        for (column, does) in &*self.columns(tasks, by, uses) {
            let of = (*does, by);
            let is_receive = matches!(own.order, Some(Order::Receive(..)));
            if !(is_receive && tasks.effects.strikes(Bug::EarlyReceive)) {
                tasks.order_follows(own.id, column, of, is_around);
            }
            if !own.is_last() {
                tasks.order_uses(own.id, column, of, is_around);
            }
            if sends_one {
                column.users.borrow_mut().sends(own.id);
            }
        }
    }

    /// The columns of an order for a launch by a launcher. A launch that comes again has the very same list.
    fn columns(&self, tasks: &Tasks, by: u32, uses: &Arc<[ColumnUse]>) -> Rc<UsedColumns> {
        const FEW: usize = 4;
        const MOST: usize = 64;
        let mut found = self.found.borrow_mut();
        if let Some((_, columns)) = found.get(&Arc::as_ptr(uses)) {
            return columns.clone();
        }
        let column = |u: &ColumnUse| Some((tasks.data.column_of(&tasks.effects, by, &u.column).ok()?, u.does));
        let mut columns = Vec::with_capacity(uses.len());
        columns.extend(uses.iter().filter_map(column));
        let columns: Rc<UsedColumns> = columns.into();
        if uses.len() > FEW {
            // Lists that nobody else has don't come again.
            found.retain(|_, (uses, _)| Arc::strong_count(uses) > 1);
            if found.len() == MOST {
                found.clear();
            }
            found.insert(Arc::as_ptr(uses), (uses.clone(), columns.clone()));
        }
        columns
    }

    /// Columns have been given up: they are looked up again.
    pub fn forget_columns(&self) {
        self.found.borrow_mut().clear();
    }

    /// Enters the orders in `unlisted` in their columns, before a leaf task or another order that may have to follow them.
    pub fn list(&mut self, tasks: &Tasks) {
        for id in std::mem::take(&mut self.unlisted) {
            let Some(listed) = self.all.get(&id.index).filter(|other| other.id == id) else { continue };
            if listed.is_last() {
                continue;
            }
            let Some(uses) = listed.uses() else { continue };
            let by = launcher(listed.of.launch);
            for (column, does) in &*self.columns(tasks, by, uses) {
                tasks.order_uses(id, column, (*does, by), |_| true);
            }
        }
    }

    /// What an order to send that has not begun sends, and the most urgent of its receivers.
    pub fn send_of(&self, id: TaskId) -> Option<(&Arc<Move>, Urgency)> {
        match &self.all.get(&id.index)?.order {
            Some(Order::Send(recipients, moved)) => {
                Some((moved, recipients.iter().map(|of| (Reverse(of.priority), of.launch)).min()?))
            }
            _ => None,
        }
    }

    /// Takes an order that is to be carried out now.
    pub fn start(&mut self, id: TaskId) -> Option<Due> {
        let own = self.all.get_mut(&id.index)?;
        let (mut order, came) = (own.order.take()?, own.came.take());
        if let Order::Send(recipients, _) = &mut order {
            recipients.sort_by_key(|recipient| Reverse(recipient.priority));
        }
        Some(Due { of: own.of.clone(), order, came })
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
            tasks.effects.counters.kept_early.add(1);
            if !tasks.effects.strikes(Bug::DroppedEarly) {
                self.came.insert(key, came);
            }
            return;
        };
        if let Some(receive) = self.all.get_mut(&id.index) {
            receive.came = Some(came.values);
        }
        tasks.order_one_less(id);
    }

    /// Whether a shard that has started here reads a column of data that an inner task holds to read, within the same launches
    /// or as one of them. It reads the values that a transfer would bring.
    pub fn is_read(&self, within: &Ancestors, column: &ColumnKey) -> bool {
        self.all.values().any(|other| {
            let reads = ColumnUse { column: *column, does: Does::Reads };
            other.order.is_none()
                && (other.of.within == *within || other.is_around(within))
                && other.uses.as_ref().is_some_and(|uses| uses.contains(&reads))
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
        queued.sort_unstable_by_key(|order| order.of.launch);
        let queued = queued.into_iter().filter_map(|order| match &order.order {
            Some(Order::Start(batch)) => Some((order, batch)),
            _ => None,
        });
        let queued = queued.map(|(order, batch)| WaitingBatch {
            origin: origin(order.of.launch, &order.of.by, batch),
            shards: shards(batch),
            missing: self.missing(order.of.launch),
            after: {
                let others = self.before(tasks, order.id).into_iter().filter(|node| !matches!(node, Node::Launch(_)));
                self.launches_before(tasks, order).into_iter().map(Node::Launch).chain(others).collect()
            },
        });
        queued.chain(early).collect()
    }

    /// Orders that move data and have not begun.
    pub fn moves(&self) -> impl Iterator<Item = (TaskId, &OfLaunch, &Order)> {
        self.all.values().filter_map(|own| match own.order.as_ref()? {
            Order::Start(_) | Order::GiveUp(_) | Order::Free(_) => None,
            order => Some((own.id, &*own.of, order)),
        })
    }

    /// The nodes of what an order waits for.
    pub fn before(&self, tasks: &Tasks, id: TaskId) -> Vec<Node> {
        let node = |index: u32| match self.all.get(&index).map(|own| (&**own, &own.order)) {
            Some((own, None | Some(Order::Start(_)))) => Node::Launch(own.of.launch),
            Some((_, Some(Order::Send(recipients, _)))) => {
                Node::Move { launch: recipients[0].launch, number: recipients[0].number }
            }
            _ => Node::Task { processor: tasks.effects.id, index },
        };
        tasks.before(id).into_iter().map(node).collect()
    }

    /// Whether the values of a move have not come.
    pub fn awaits(&self, launch: LaunchKey, number: u32) -> bool {
        self.awaited.contains_key(&(launch, number))
    }

    /// The processors whose data for a launch has not come.
    fn missing(&self, launch: LaunchKey) -> Vec<ProcessorId> {
        let awaited = self.awaited.iter().filter(|((of, _), _)| *of == launch).map(|(_, id)| id);
        let from = awaited.filter_map(|id| match &self.all.get(&id.index)?.order {
            Some(Order::Receive(_, moved)) => Some(moved.from),
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
                    launches.push(before.of.launch);
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
