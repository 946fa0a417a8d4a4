//! What this processor does for launches: its orders, and the start and end of shards.

use super::Core;
use crate::error::Failure;
use crate::gang::{Due, OfLaunch, Order};
use crate::ids::{Ancestors, LaunchKey, TaskId};
use crate::message::{Batch, HeldRegion, Hop, Message, Move, Recipient, Transfer, Valid, Values, binomial, next};
use crate::object::GangTable;
use crate::parcel::Parcel;
use crate::plant::Bug;
use crate::{Error, Place};
use maniple_regions::{Buffer, Region};
use std::rc::Rc;
use std::sync::Arc;

/// Facts that a launch's shards on one processor share.
pub(crate) struct Origin {
    pub task: Arc<str>,
    pub gang: Arc<GangTable>,
    pub launch: LaunchKey,
    /// The launch itself, the launch that its launcher is part of, and so on.
    pub within: Ancestors,
}

/// A shard that is to start.
pub(crate) struct Seat<'a> {
    pub origin: &'a Rc<Origin>,
    pub shard: u32,
    pub args: Parcel,
    pub held: Arc<[HeldRegion]>,
    /// The error that prevents its start, if there is one.
    pub refused: Option<&'a Error>,
}

/// The code of a task: starts a shard. This module can't call `program`, which is above it, so it is given this closure.
pub(crate) type ShardCode = Box<dyn Fn(&Rc<Core>, Seat<'_>) + Send + Sync>;

impl Core {
    /// Carries out all orders that wait for nothing more, and gives away tasks of the pool that are ready.
    #[inline(always)]
    pub(super) fn carry_out_orders(self: &Rc<Self>) {
        if self.tasks.has_orders() {
            self.carry_out_all();
        }
        self.tasks.refill();
    }

    #[cold]
    #[inline(never)]
    fn carry_out_all(self: &Rc<Self>) {
        while let Some(id) = self.tasks.next_order() {
            self.carry_out(id);
        }
    }

    fn carry_out(self: &Rc<Self>, id: TaskId) {
        let Some(Due { of, order, came }) = self.gangs.start_order(id) else { return };
        match order {
            Order::Start(batch) => return self.start_batch(&of, id, batch, came.and_then(Result::err)),
            Order::Send(recipients, moved) => self.send_values(&recipients, &moved),
            Order::Receive(_, moved) => self.write_values(&of, &moved, came.unwrap_or(Ok(Vec::new()))),
            Order::Copy(moved) => {
                let values = self.read_values(&moved);
                self.write_values(&of, &moved, values);
            }
            Order::GiveUp(gone) => {
                self.gangs.forget_columns();
                for key in gone {
                    self.tasks.data.give_up_instance(&key, of.launch, |column| self.tasks.is_unused(column));
                }
            }
        }
        self.gangs.end_order(&self.tasks, id);
    }

    fn send_values(&self, recipients: &[Recipient], moved: &Move) {
        let effects = self.effects();
        if effects.lost_processor().is_none() {
            effects.counters.sends.add(1);
            effects.counters.recipients.add(recipients.len() as u64);
            self.forward(&binomial(recipients), self.read_values(moved));
        }
    }

    /// Sends values on their way. Returns how many messages that takes.
    fn forward(&self, way: &[Hop], values: Result<Vec<Buffer>, Error>) -> u64 {
        let (mut values, mut messages) = (Some(values), 0);
        let mut hops = next(way).peekable();
        while let Some((Recipient { to, launch, number }, way)) = hops.next() {
            // The last one needs no copy.
            let values = if hops.peek().is_some() { values.clone() } else { values.take() };
            if let Some(values) = values {
                let way = way.to_vec();
                self.effects().send(to, Message::Values(Box::new(Values { launch, number, values, way })));
                messages += 1;
            }
        }
        messages
    }

    /// Values have come. They are forwarded before they are used.
    pub(super) fn take_values(&self, came: Values) {
        if !came.way.is_empty() {
            let messages = self.forward(&came.way, came.values.clone());
            self.effects().counters.forwards.add(messages);
        }
        self.gangs.take_values(&self.tasks, came);
    }

    /// Reads the values of a move, unless a task that should have written some has failed.
    fn read_values(&self, moved: &Move) -> Result<Vec<Buffer>, Error> {
        let flow = self.flow.get().filter(|flow| flow.has_poison());
        let poison = |t: &Transfer| flow?.poison_of(Region { tree: t.tree, rect: t.rect }, t.field);
        if let Some(poison) = moved.transfers.iter().find_map(poison) {
            return Err(poison);
        }
        moved.transfers.iter().map(|t| self.tasks.data.read_transfer(self.effects(), t)).collect()
    }

    /// Writes values that have come. Without them the batch of the launch is refused.
    fn write_values(&self, of: &OfLaunch, moved: &Move, values: Result<Vec<Buffer>, Error>) {
        let (effects, data) = (self.effects(), &self.tasks.data);
        let written = values.and_then(|values| {
            for (transfer, bytes) in moved.transfers.iter().zip(&values) {
                // A shard that reads it has the same values.
                let is_there = transfer.only_read && self.gangs.is_read(&of.within, &transfer.target());
                if !is_there && !effects.strikes(Bug::StaleCopy) {
                    data.write_transfer(effects, of.launch, transfer, bytes)?;
                }
            }
            Ok(())
        });
        if let Some(flow) = self.flow.get().filter(|flow| written.is_err() || flow.has_poison()) {
            for t in &moved.transfers {
                let region = Region { tree: t.tree, rect: t.rect };
                match &written {
                    Err(e) => flow.poison(region, t.field, e),
                    Ok(()) => flow.rewritten(region, t.field),
                }
            }
        }
        if let Err(e) = written {
            self.gangs.refuse_batch(of.launch, e);
        }
    }

    fn start_batch(self: &Rc<Self>, of: &Rc<OfLaunch>, order: TaskId, batch: Batch, missing: Option<Error>) {
        let (effects, data, launch) = (self.effects(), &self.tasks.data, of.launch);
        let refused = effects.lost_processor().cloned().or(missing);
        self.gangs.batch_runs(&self.tasks, of, order, &batch);
        if self.gangs.has_started(launch) {
            for (from, key, request) in data.early(launch) {
                self.tasks.serve(from, (launch, key), request);
            }
        }
        if batch.shards.is_empty() {
            return self.end_batch(launch);
        }
        let context = (effects.objects.get(batch.task), effects.objects.get(batch.gang));
        let (Some(task), Some(gang)) = &context else { return self.refuse_batch(launch, batch) };
        let (Some(task), Some(gang)) = (task.object.task(), gang.object.table()) else {
            return self.refuse_batch(launch, batch);
        };
        let within = std::iter::once(launch).chain(of.within.iter().copied()).collect();
        let origin = Rc::new(Origin { task: task.name.clone(), gang: gang.clone(), launch, within });
        effects.reserve_slots(batch.shards.len());
        for start in batch.shards {
            effects.counters.shards.add(1);
            let (origin, refused) = (&origin, refused.as_ref());
            (task.code)(self, Seat { origin, shard: start.shard, args: start.args, held: start.held, refused });
        }
    }

    #[cold]
    fn refuse_batch(self: &Rc<Self>, launch: LaunchKey, batch: Batch) {
        for start in batch.shards {
            let e = Error::misuse("a launch", "a task and a gang made with `Top`", "another object");
            let failure = self.effects().failed(e, || Place { task: "a launch".into(), shard: Some(start.shard) });
            self.end_shard(launch, start.shard, Err(failure), Vec::new());
        }
    }

    /// A shard and its leaf tasks have ended; `valid` lists the instances that it leaves valid.
    pub fn end_shard(
        self: &Rc<Self>,
        launch: LaunchKey,
        shard: u32,
        result: Result<Parcel, Failure>,
        valid: Vec<Valid>,
    ) {
        if self.gangs.end_shard(launch, shard, result, valid) {
            self.end_batch(launch);
        }
    }

    fn end_batch(self: &Rc<Self>, launch: LaunchKey) {
        self.tasks.data.detach(launch);
        self.gangs.end_batch(&self.tasks, launch);
    }

    pub(super) fn take_launch_over(self: &Rc<Self>, launch: LaunchKey) {
        if self.effects().strikes(Bug::LostLaunchOver) {
            return;
        }
        self.gangs.launch_over(&self.tasks, launch);
    }
}
