//! Operations of gangs on this processor: their start, the start and end of shards, and the results.

use super::Core;
use crate::error::Failure;
use crate::gang::{Number, Order};
use crate::ids::{Ancestors, LaunchKey};
use crate::message::{Batch, Columns, HeldRegion, Message, SendColumns, Valid};
use crate::object::GangTable;
use crate::parcel::Parcel;
use crate::plant::Bug;
use crate::{Error, Place};
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
    pub(super) fn take_order(self: &Rc<Self>, order: Order) {
        self.gangs.take_order(order);
        self.start_operations();
    }

    /// Starts the operations whose turn has come.
    pub fn start_operations(self: &Rc<Self>) {
        loop {
            if self.effects().strikes(Bug::EarlyStart) {
                self.gangs.start_all_early();
            }
            let Some((number, order)) = self.gangs.next_operation() else { return };
            match order {
                Order::Send(order) => {
                    self.send_columns(*order);
                    self.gangs.end_operation(number);
                }
                Order::GiveUp(release) => {
                    release.instances.iter().for_each(|key| self.tasks.data.give_up_instance(key, release.launch));
                    self.gangs.end_operation(number);
                }
                Order::Start(batch) => self.start_batch(number, *batch),
            }
        }
    }

    fn send_columns(&self, order: SendColumns) {
        let effects = self.effects();
        if effects.lost_processor().is_some() {
            return;
        }
        let mut columns = Vec::with_capacity(order.transfers.len());
        for transfer in order.transfers {
            match self.tasks.data.read_transfer(effects, &transfer) {
                Ok(bytes) => columns.push((transfer, bytes)),
                Err(e) => effects.note_failure(&e),
            }
        }
        effects.send(order.to, Message::Columns(Box::new(Columns { launch: order.launch, columns })));
    }

    fn start_batch(self: &Rc<Self>, number: Number, batch: Batch) {
        let (effects, data, launch) = (self.effects(), &self.tasks.data, batch.launch);
        let mut refused = effects.lost_processor().cloned();
        for (transfer, bytes) in self.gangs.take_what_came(&batch).iter().flat_map(|c| &c.columns) {
            if effects.strikes(Bug::StaleCopy) {
                continue;
            }
            let parts = self.gangs.parts_to_write(number, transfer);
            if let Err(e) = data.write_transfer(effects, launch, transfer, bytes, parts) {
                refused = Some(e);
            }
        }
        self.gangs.batch_runs(number, &batch);
        if self.gangs.has_started(launch) {
            for (from, key, request) in data.early(launch) {
                self.tasks.serve(from, (launch, key), request);
            }
        }
        if batch.shards.is_empty() {
            return self.end_batch(launch);
        }
        let context = (effects.objects.get(batch.task), effects.objects.get(batch.gang));
        let (Some(task), Some(gang)) = &context else { return self.refuse_batch(batch) };
        let (Some(task), Some(gang)) = (task.object.task(), gang.object.table()) else {
            return self.refuse_batch(batch);
        };
        let within = std::iter::once(launch).chain(batch.within.iter().copied()).collect();
        let origin = Rc::new(Origin { task: task.name.clone(), gang: gang.clone(), launch, within });
        effects.reserve_slots(batch.shards.len());
        for start in batch.shards {
            effects.counters.shards.add(1);
            let (origin, refused) = (&origin, refused.as_ref());
            (task.code)(self, Seat { origin, shard: start.shard, args: start.args, held: start.held, refused });
        }
    }

    #[cold]
    fn refuse_batch(self: &Rc<Self>, batch: Batch) {
        for start in batch.shards {
            let e = Error::misuse("a launch", "a task and a gang made with `Top`", "another object");
            let failure = self.effects().failed(e, || Place { task: "a launch".into(), shard: Some(start.shard) });
            self.end_shard(batch.launch, start.shard, Err(failure), Vec::new());
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
        self.gangs.end_batch(self.effects(), launch);
        self.start_operations();
    }

    pub(super) fn take_launch_over(self: &Rc<Self>, launch: LaunchKey) {
        if self.effects().strikes(Bug::LostLaunchOver) {
            return;
        }
        self.gangs.launch_over(launch);
        self.start_operations();
    }
}
