//! What this processor does for launches: its orders, and the start and end of shards.

use super::Core;
use crate::effects::Asker;
use crate::error::Failure;
use crate::gang::{Due, OfLaunch, Order};
use crate::ids::{Ancestors, ColumnKey, LaunchKey, ProcessorId, TaskId};
use crate::message::{Batch, HeldRegion, Hop, Move, Recipient, Transfer, Valid, Values, next, way};
use crate::object::GangTable;
use crate::parcel::Parcel;
use crate::plant::Bug;
use crate::{Error, Place};
use maniple_mapper::{Route, RouteInput, validate};
use maniple_regions::{Buffer, Privilege, Region};
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

/// The instances that a shard uses under exclusive or atomic coherence, each with the privilege.
fn instances(held: &[HeldRegion]) -> impl Iterator<Item = (ColumnKey, Privilege)> {
    let own = held.iter().filter(|h| h.shared_home().is_none());
    own.flat_map(|h| h.fields.iter().map(|&field| (h.key(field), h.privilege)))
}

impl Core {
    /// Carries out all orders that wait for nothing more, and gives away tasks of the pool that are ready.
    #[inline(always)]
    pub(super) fn carry_out_orders(self: &Rc<Self>) {
        if self.tasks.has_chores.get() {
            self.carry_out_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn carry_out_all(self: &Rc<Self>) {
        while let Some(id) = self.tasks.next_order() {
            self.carry_out(id);
        }
        self.tasks.has_chores.set(self.tasks.refill());
    }

    fn carry_out(self: &Rc<Self>, id: TaskId) {
        match self.sends_large(id) {
            true => self.queue_order(id),
            false => self.carry_out_now(id),
        }
    }

    /// Carries out an order that waits for nothing more, not even for its turn to send.
    pub(super) fn carry_out_now(self: &Rc<Self>, id: TaskId) {
        // Else it stands in for a task that has failed.
        let Some(Due { of, order, came }) = self.gangs.start_order(id) else {
            return self.gangs.end_order(&self.tasks, id);
        };
        match order {
            Order::Start(batch) => return self.start_batch(&of, id, batch),
            Order::Send(recipients, moved) => self.send_values(&recipients, &moved),
            Order::Receive(_, moved) => self.write_values(&of, &moved, came.unwrap_or_default()),
            Order::Copy(moved) => {
                let values = self.read_values(&moved, moved.to);
                self.write_values(&of, &moved, values);
            }
            Order::Free(leaving) => leaving.one_over(self.effects()),
            Order::GiveUp(gone) => {
                self.gangs.forget_columns();
                for key in gone {
                    if let Some(poisons) = self.tasks.data.some_poison() {
                        poisons.rewritten(&key, key.rect);
                    }
                    self.tasks.data.give_up_instance(&key, of.launch, |column| self.tasks.is_unused(column));
                }
            }
        }
        self.gangs.end_order(&self.tasks, id);
    }

    fn send_values(self: &Rc<Self>, recipients: &[Recipient], moved: &Move) {
        let effects = self.effects();
        if effects.lost_processor().is_some() {
            return;
        }
        effects.counters.sends.add(1);
        effects.counters.recipients.add(recipients.len() as u64);
        let length = self.length(moved);
        let (route, values) = match self.route(recipients, moved, length) {
            Ok(route) => (route, self.read_values(moved, recipients[0].to)),
            Err(e) => (Route::Binomial, moved.transfers.iter().map(|_| Err(Box::new(e.clone()))).collect()),
        };
        self.forward(&way(recipients, &route), values, length);
    }

    /// How values go to several nodes.
    fn route(&self, recipients: &[Recipient], moved: &Move, length: u64) -> Result<Route, Error> {
        let ([_, _, ..], [transfer, ..]) = (recipients, &moved.transfers[..]) else { return Ok(Route::Linear) };
        let recipients: Vec<_> = recipients.iter().map(|recipient| (recipient.to, recipient.priority)).collect();
        let region = Region { tree: transfer.tree, rect: transfer.rect };
        let (from, machine, bytes) = (self.effects().id, self.effects().machine(), length as usize);
        let input = RouteInput { region, field: transfer.field, bytes, from, recipients: &recipients, machine };
        self.effects().ask(
            Asker::Processor,
            ("route", &region),
            |m| m.route(&input),
            |name, answer| validate::route(name, &input, answer),
        )
    }

    /// Sends values on their way. Returns how many messages that takes.
    fn forward(self: &Rc<Self>, way: &[Hop], values: Vec<Result<Buffer, Box<Error>>>, length: u64) -> u64 {
        let (mut values, mut messages) = (Some(values), 0);
        let mut hops = next(way).peekable();
        while let Some((Recipient { to, launch, number, priority }, way)) = hops.next() {
            // The last one needs no copy.
            let values = if hops.peek().is_some() { values.clone() } else { values.take() };
            if let Some(values) = values {
                let way = way.to_vec();
                let to = if self.effects().strikes(Bug::WrongForward) { self.effects().id } else { to };
                self.send_values_to(to, priority, Box::new(Values { launch, number, values, length, way }));
                messages += 1;
            }
        }
        messages
    }

    /// Values have come. They are forwarded before they are used.
    pub(super) fn take_values(self: &Rc<Self>, came: Values) {
        if !came.way.is_empty() {
            let messages = self.forward(&came.way, came.values.clone(), came.length);
            self.effects().counters.forwards.add(messages);
        }
        self.gangs.take_values(&self.tasks, came);
    }

    /// Reads the values of a move for a processor, but for those that a task which failed should have written.
    fn read_values(&self, moved: &Move, to: ProcessorId) -> Vec<Result<Buffer, Box<Error>>> {
        let data = &self.tasks.data;
        let read = |t: &Transfer| {
            let poison = data.some_poison().and_then(|poisons| poisons.of(&t.source(), t.rect));
            poison.map_or_else(|| data.read_transfer(self.effects(), t, to), Err).map_err(Box::new)
        };
        moved.transfers.iter().map(read).collect()
    }

    /// Writes values that have come. Where they are missing, what they would have written is poisoned.
    fn write_values(&self, of: &OfLaunch, moved: &Move, values: Vec<Result<Buffer, Box<Error>>>) {
        let (effects, data) = (self.effects(), &self.tasks.data);
        for (transfer, bytes) in moved.transfers.iter().zip(values) {
            let target = transfer.target();
            let written = bytes.and_then(|bytes| {
                // A shard that reads it has the same values.
                let is_there = transfer.only_read && self.gangs.is_read(&of.within, &target);
                if !is_there && !effects.strikes(Bug::StaleCopy) {
                    data.write_transfer(effects, of.launch, transfer, bytes)?;
                }
                Ok(())
            });
            match (written, data.some_poison()) {
                (Err(e), _) => data.poisons().add(target, transfer.rect, &e),
                (Ok(()), Some(poisons)) => poisons.rewritten(&target, transfer.rect),
                (Ok(()), None) => {}
            }
        }
    }

    fn start_batch(self: &Rc<Self>, of: &Rc<OfLaunch>, order: TaskId, batch: Batch) {
        let (effects, data, launch) = (self.effects(), &self.tasks.data, of.launch);
        let refused = effects.lost_processor();
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
            let poison = self.poison_of_shard(&start.held, refused);
            let (origin, refused) = (&origin, refused.or(poison.as_ref()));
            (task.code)(self, Seat { origin, shard: start.shard, args: start.args, held: start.held, refused });
        }
    }

    /// The poison of data that a shard is to use, unless it only writes it. Without a start it poisons what it was to write.
    fn poison_of_shard(&self, held: &[HeldRegion], refused: Option<&Error>) -> Option<Error> {
        let data = &self.tasks.data;
        if refused.is_none() {
            data.some_poison()?;
        }
        let poisons = data.poisons();
        let uses = || instances(held).filter(|(_, privilege)| *privilege != Privilege::WriteDiscard);
        let poison = uses().find_map(|(instance, _)| poisons.of(&instance, instance.rect));
        for (instance, _) in instances(held).filter(|(_, privilege)| privilege.writes()) {
            match refused.or(poison.as_ref()) {
                Some(error) => poisons.add(instance, instance.rect, error),
                None => poisons.rewritten(&instance, instance.rect),
            }
        }
        poison
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
