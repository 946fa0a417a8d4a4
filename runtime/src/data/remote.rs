//! Data of simultaneous regions on other processors. Within the node a leaf task uses the home's instance in place, and so
//! it does where the instance is in memory that its node shares with the home's. From elsewhere it gets a copy. Requests of
//! other processors are answered here too.

use super::changes::{changes, concatenated};
use super::column::{Column, Staged, Store};
use super::{Data, memory, region_error};
use crate::diagnose::Event;
use crate::effects::Effects;
use crate::ids::{ArrivalAt, ColumnKey, LaunchKey, ProcessorId, TaskId};
use crate::maps::HashMap;
use crate::message::{Mapped, Message, Put, RefusedData, Remote};
use crate::plant::Bug;
use crate::{Error, Place};
use maniple_mapper::MemoryKind;
use maniple_regions::{Buffer, Privilege, Rect, RegionError, SharedInstance};
use std::rc::Rc;

/// A request from another processor for a region with simultaneous coherence that is at home here.
pub(crate) enum Request {
    Attach,
    Get { rect: Rect, token: u64 },
    Put { parts: Vec<Rect>, bytes: Buffer, token: u64, arrivals: Vec<ArrivalAt> },
}

/// The arrivals that came with a task's changes, which are at home now; or the error that keeps them away.
pub(crate) struct Served {
    pub arrivals: Vec<ArrivalAt>,
    pub outcome: Result<(), Error>,
}

/// The answer to a task's request for a column.
pub(crate) enum Came {
    /// A copy has come, for the use with this number.
    Copy(usize, Staged),
    /// The task's changes have reached the home.
    Written,
    /// The request was refused.
    Refused(Error),
}

/// The result of starting to fetch a column.
pub(crate) enum Fetch {
    /// There is nothing to wait for.
    Here,
    /// An answer will come as a message.
    UnderWay,
    /// There is nothing to wait for: the task writes into this fresh copy.
    Fresh(SharedInstance),
    Refused(Error),
}

/// A task that waits for a column, the number of its use, and the column.
type Fetcher = (TaskId, usize, Rc<Column>);

/// Requests under way.
#[derive(Default)]
pub(super) struct Remotes {
    /// Instances of other processors that can be used in place; none if the memory is not shared.
    attached: HashMap<LaunchKey, HashMap<ColumnKey, Option<SharedInstance>>>,
    /// Tasks that wait for an attachment, by column.
    attaching: HashMap<(LaunchKey, ColumnKey), Vec<Fetcher>>,
    /// Remote reads and writes under way.
    tokens: HashMap<u64, Fetcher>,
    next_token: u64,
    /// Requests of others whose launch has not started here yet.
    early: HashMap<LaunchKey, Vec<(ProcessorId, ColumnKey, Request)>>,
}

impl Remotes {
    pub fn entries(&self) -> usize {
        self.attaching.len() + self.tokens.len() + self.early.len()
    }
}

impl Data {
    /// The instance of another processor, if it is attached.
    ///
    /// An attachment serves one launch: later launches may find another instance at the home.
    pub fn attached(&self, launch: LaunchKey, key: &ColumnKey) -> Option<SharedInstance> {
        self.remote.borrow().attached.get(&launch)?.get(key)?.clone()
    }

    /// The shards of a launch here have ended: gives up the instances of other processors.
    pub fn detach(&self, launch: LaunchKey) {
        let mut remote = self.remote.borrow_mut();
        if !remote.attached.is_empty() {
            remote.attached.remove(&launch);
        }
    }

    /// Whether the home has said that its instance can't be used in place.
    fn is_unreachable(&self, launch: LaunchKey, key: &ColumnKey) -> bool {
        matches!(self.remote.borrow().attached.get(&launch).and_then(|all| all.get(key)), Some(None))
    }

    /// Starts to fetch a column that is not here, for use number `index` of a task.
    pub fn fetch(
        &self,
        effects: &Effects,
        (id, index): (TaskId, usize),
        column: &Rc<Column>,
        privilege: Privilege,
    ) -> Fetch {
        let Store::Shared { home, .. } = *column.store.borrow() else { return Fetch::Here };
        let key = column.key();
        if let Some(e) = effects.lost_processor() {
            return Fetch::Refused(e.clone());
        }
        if home == effects.id {
            return self.find_instance(effects, column).map_or_else(Fetch::Refused, |()| Fetch::Here);
        }
        if effects.reaches(home) && !self.is_unreachable(column.launch, &key) {
            let mut remote = self.remote.borrow_mut();
            let waiting = remote.attaching.entry((column.launch, key)).or_default();
            waiting.push((id, index, column.clone()));
            if waiting.len() == 1 {
                drop(remote);
                effects.send(home, Message::Attach(Box::new((column.launch, key))));
            }
            return Fetch::UnderWay;
        }
        if privilege == Privilege::WriteDiscard {
            // The old contents are not needed: the task writes into a fresh copy, which is sent back.
            let copy = SharedInstance::new(column.rect(), column.field, memory(effects));
            return copy.map_or_else(|e| Fetch::Refused(region_error(effects, &key, e)), Fetch::Fresh);
        }
        let token = self.token(id, index, column);
        let ask = Remote { launch: column.launch, column: key, rect: column.rect(), token };
        effects.send(home, Message::Get(Box::new(ask)));
        Fetch::UnderWay
    }

    fn token(&self, id: TaskId, index: usize, column: &Rc<Column>) -> u64 {
        let mut remote = self.remote.borrow_mut();
        remote.next_token += 1;
        let token = remote.next_token;
        remote.tokens.insert(token, (id, index, column.clone()));
        token
    }

    /// Sends a task's changes to the home of the column. With them go the task's arrivals for edges'
    /// cells there: they need not wait for the answer. True if an answer will come.
    ///
    /// # Errors
    /// A lost processor, or values that can't be read from the copy.
    pub fn write_back(
        &self,
        effects: &Effects,
        id: TaskId,
        column: &Rc<Column>,
        staged: &Staged,
        arrivals: &mut Vec<ArrivalAt>,
    ) -> Result<bool, Error> {
        let Store::Shared { home, .. } = &*column.store.borrow() else { return Ok(false) };
        if let Some(e) = effects.lost_processor() {
            return Err(e.clone());
        }
        let bytes = staged.copy.read_bytes(column.rect());
        let mut bytes = bytes.map_err(|e| region_error(effects, &column.key(), e))?;
        let mut parts = vec![column.rect()];
        if let Some(before) = &staged.before {
            let changed = changes(column.rect(), column.field.size, before.as_bytes(), bytes.as_bytes());
            if changed.is_empty() {
                return Ok(false);
            }
            bytes = concatenated(&bytes, changed.iter().map(|c| c.1.clone()));
            parts = changed.into_iter().map(|c| c.0).collect();
        }
        if effects.strikes(Bug::LostWriteBack) {
            return Ok(false);
        }
        let token = self.token(id, 0, column);
        let there = |at: &ArrivalAt| matches!(at, ArrivalAt::Cell(at, _) if at.processor == *home);
        let (early, later) = std::mem::take(arrivals).into_iter().partition::<Vec<_>, _>(there);
        *arrivals = later;
        effects.event(|| Event::TaskArrives { task: id, arrivals: &early });
        let put = Put { launch: column.launch, column: column.key(), parts, token, arrivals: early };
        effects.send(*home, Message::Put(Box::new(put), bytes));
        Ok(true)
    }

    /// Keeps a request whose launch has not started here yet.
    pub fn serve_later(&self, from: ProcessorId, launch: LaunchKey, key: ColumnKey, request: Request) {
        self.remote.borrow_mut().early.entry(launch).or_default().push((from, key, request));
    }

    /// The requests that came before their launch, which has now started.
    pub fn early(&self, launch: LaunchKey) -> Vec<(ProcessorId, ColumnKey, Request)> {
        self.remote.borrow_mut().early.remove(&launch).unwrap_or_default()
    }

    /// Answers a request for a region that is at home here. The launch has started.
    pub fn serve(
        &self,
        effects: &Effects,
        from: ProcessorId,
        (launch, key): (LaunchKey, ColumnKey),
        mut request: Request,
    ) -> Served {
        let (token, arrivals) = match &mut request {
            Request::Attach => (None, Vec::new()),
            Request::Get { token, .. } => (Some(*token), Vec::new()),
            Request::Put { token, arrivals, .. } => (Some(*token), std::mem::take(arrivals)),
        };
        let served = effects.objects.field(key.tree, key.field).and_then(|field| {
            // The data that the launch was to bring may be missing.
            if let Some(e) = effects.lost_processor() {
                return Err(e.clone());
            }
            let shared = self.shared_instance(effects, key, field, launch)?;
            answer(effects, from, (launch, key), &shared, request).map_err(|e| region_error(effects, &key, e))
        });
        // One failure, for the task that asked and for those who wait for its arrivals.
        let served = served.map_err(|error| {
            let place = Place { task: "a request for data".into(), shard: None };
            let error = effects.failed(error, || place).poison().clone();
            let refused = RefusedData { launch, column: key, token, error: error.clone() };
            effects.send(from, Message::Refused(Box::new(refused)));
            error
        });
        Served { arrivals, outcome: served }
    }

    /// A processor is lost: gives up all requests. Returns the tasks that wait for answers.
    pub fn give_up(&self) -> Vec<TaskId> {
        let mut remote = self.remote.borrow_mut();
        remote.early.clear();
        let mut waiting: Vec<_> = remote.tokens.drain().collect();
        // Sorted, so that the order is the same in each run.
        waiting.sort_unstable_by_key(|w| w.0);
        let mut attaching: Vec<_> = remote.attaching.drain().collect();
        attaching.sort_unstable_by_key(|w| w.0);
        let attaching = attaching.into_iter().flat_map(|w| w.1);
        waiting.into_iter().map(|w| w.1).chain(attaching).map(|(id, ..)| id).collect()
    }

    /// A request was refused. Returns the tasks that wait for it.
    pub fn refused(&self, launch: LaunchKey, column: ColumnKey, token: Option<u64>) -> Vec<TaskId> {
        let mut remote = self.remote.borrow_mut();
        let waiting = match token {
            Some(token) => remote.tokens.remove(&token).into_iter().collect(),
            None => remote.attaching.remove(&(launch, column)).unwrap_or_default(),
        };
        waiting.into_iter().map(|(id, ..)| id).collect()
    }

    /// The instance of another processor has been attached, or can't be. Returns the uses of tasks that wait for it. Where
    /// there is no instance, they have to be fetched in another way.
    pub fn take_attached(
        &self,
        launch: LaunchKey,
        key: ColumnKey,
        instance: Option<SharedInstance>,
    ) -> Vec<(TaskId, usize)> {
        let mut remote = self.remote.borrow_mut();
        remote.attached.entry(launch).or_default().insert(key, instance.clone());
        let waiting = remote.attaching.remove(&(launch, key)).unwrap_or_default();
        drop(remote);
        let found = |(id, index, column): Fetcher| {
            if let Store::Shared { instance: place, .. } = &mut *column.store.borrow_mut() {
                place.clone_from(&instance);
            }
            (id, index)
        };
        waiting.into_iter().map(found).collect()
    }

    /// The instance in a block of memory that another node shares with this one.
    pub fn open(&self, effects: &Effects, home: ProcessorId, mapped: &Mapped) -> Result<Option<SharedInstance>, Error> {
        let Some((block, memory)) = mapped.block.zip(effects.wire.shared_memory()) else { return Ok(None) };
        let field = effects.objects.field(mapped.column.tree, mapped.column.field)?;
        let of = effects.machine().memory(home, MemoryKind::Registered);
        let instance = memory.open(block, mapped.column.rect, field, of);
        instance.map(Some).map_err(|e| region_error(effects, &mapped.column, e))
    }

    /// The contents of a column have come from another node. Returns the waiting task and its copy.
    pub fn take_got(&self, effects: &Effects, token: u64, bytes: Buffer) -> Option<(TaskId, Came)> {
        let (id, index, column) = self.remote.borrow_mut().tokens.remove(&token)?;
        effects.counters.region_copies.add(1);
        effects.counters.region_copy_bytes.add(bytes.len() as u64);
        let copy = SharedInstance::new(column.rect(), column.field, memory(effects))
            .and_then(|copy| copy.write_bytes(column.rect(), bytes.as_bytes()).map(|()| copy));
        Some(match copy {
            Ok(copy) => (id, Came::Copy(index, Staged { copy, before: Some(bytes) })),
            Err(e) => (id, Came::Refused(region_error(effects, &column.key(), e))),
        })
    }

    /// A task's changes have reached the home. Returns the task.
    pub fn take_put_done(&self, token: u64) -> Option<TaskId> {
        self.remote.borrow_mut().tokens.remove(&token).map(|(id, ..)| id)
    }
}

fn answer(
    effects: &Effects,
    from: ProcessorId,
    (launch, column): (LaunchKey, ColumnKey),
    shared: &SharedInstance,
    request: Request,
) -> Result<(), RegionError> {
    match request {
        Request::Attach if effects.same_node(from) => {
            effects.send(from, Message::Attached(Box::new((launch, column, shared.clone()))));
        }
        Request::Attach => {
            let block = effects.wire.shared_memory().and_then(|memory| memory.name(shared));
            effects.send(from, Message::Mapped(Box::new(Mapped { launch, column, block })));
        }
        Request::Get { rect, token } => {
            let bytes = shared.read_bytes(rect)?;
            count_moved(effects, from, bytes.len());
            effects.send(from, Message::Got { token, bytes });
        }
        Request::Put { parts, bytes, token, .. } => {
            count_moved(effects, from, bytes.len());
            let mut rest = bytes.as_bytes();
            for part in parts {
                let (values, more) = rest.split_at(part.volume() * shared.field().size);
                shared.write_bytes(part, values)?;
                rest = more;
            }
            effects.send(from, Message::PutDone { token });
        }
    }
    Ok(())
}

/// Bytes of an instance are moved to or from another node. A node that shares memory with this one could have used them in
/// place, had they been in registered memory.
fn count_moved(effects: &Effects, other: ProcessorId, bytes: usize) {
    effects.counters.moved_bytes.add(bytes as u64);
    if effects.reaches(other) {
        effects.counters.staged_bytes.add(bytes as u64);
    }
}
