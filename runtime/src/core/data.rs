//! Instances of this processor, and the messages that move their contents.

use super::Core;
use super::queue::TaskId;
use crate::message::{ColumnKey, LaunchKey, Message, ProcessorId, Remote, Transfer};
use crate::region::{Column, Store};
use crate::{Error, Place};
use maniple_mapper::MemoryKind;
use maniple_regions::{Buffer, FieldInfo, Instance, MemoryId, Privilege, Rect, RegionError, SharedInstance};
use std::collections::HashMap;
use std::rc::Rc;

enum Held {
    Owned(Rc<Instance>),
    Shared(SharedInstance),
}

/// A request another processor made for a simultaneous region whose launch has not started here yet.
enum Early {
    Attach,
    Get { rect: Rect, token: u64 },
    Put { rect: Rect, bytes: Buffer, token: u64 },
}

/// A task that waits for a column: which of its uses, and the column.
type Asker = (TaskId, usize, Rc<Column>);

#[derive(Default)]
pub(crate) struct Data {
    instances: HashMap<ColumnKey, Held>,
    /// Instances of other processors of the node.
    attached: HashMap<ColumnKey, (LaunchKey, SharedInstance)>,
    /// Tasks that wait for an attachment, by column.
    attaching: HashMap<(LaunchKey, ColumnKey), Vec<Asker>>,
    /// Remote reads and writes under way.
    tokens: HashMap<u64, Asker>,
    next_token: u64,
    early: Vec<(ProcessorId, LaunchKey, ColumnKey, Early)>,
}

impl Core {
    fn memory(&self) -> MemoryId {
        self.machine().memory(self.id, MemoryKind::Ordinary)
    }

    fn region_error(&self, key: &ColumnKey, source: RegionError) -> Error {
        let task = format!("instance of {} on processor {}", key.rect, self.id);
        Error::region(Place { task, shard: None }, source)
    }

    /// The instance of a column that this processor alone uses.
    pub fn owned_instance(&self, key: ColumnKey, field: &FieldInfo) -> Result<Rc<Instance>, Error> {
        let mut data = self.data.borrow_mut();
        let found = match data.instances.get(&key) {
            Some(Held::Owned(instance)) => return Ok(instance.clone()),
            Some(Held::Shared(shared)) => Some(shared.read_bytes(key.rect)),
            None => None,
        };
        let make = || {
            let instance = Instance::new(key.rect, *field, self.memory())?;
            if let Some(bytes) = found {
                instance.write_bytes(key.rect, bytes?.as_bytes())?;
            }
            Ok(Rc::new(instance))
        };
        let instance = make().map_err(|e| self.region_error(&key, e))?;
        data.instances.insert(key, Held::Owned(instance.clone()));
        Ok(instance)
    }

    /// The instance of a column that several shards use at once.
    pub fn shared_instance(&self, key: ColumnKey, field: &FieldInfo) -> Result<SharedInstance, Error> {
        let mut data = self.data.borrow_mut();
        let found = match data.instances.get(&key) {
            Some(Held::Shared(shared)) => return Ok(shared.clone()),
            Some(Held::Owned(instance)) => Some(instance.read_bytes(key.rect)),
            None => None,
        };
        let make = || {
            let shared = SharedInstance::new(key.rect, *field, self.memory())?;
            if let Some(bytes) = found {
                shared.write_bytes(key.rect, bytes?.as_bytes())?;
            }
            Ok(shared)
        };
        let shared = make().map_err(|e| self.region_error(&key, e))?;
        data.instances.insert(key, Held::Shared(shared.clone()));
        Ok(shared)
    }

    /// The instance of another processor of the node, if it is attached.
    ///
    /// An attachment serves one launch: later ones may find another instance at the home.
    pub fn attached(&self, launch: LaunchKey, key: &ColumnKey) -> Option<SharedInstance> {
        let data = self.data.borrow();
        data.attached.get(key).filter(|(of, _)| *of == launch).map(|(_, instance)| instance.clone())
    }

    /// Starts to fetch what a task needs of a column that is not here; false when it is here after all.
    pub(super) fn fetch(self: &Rc<Self>, id: TaskId, index: usize, column: &Rc<Column>, privilege: Privilege) -> bool {
        let Store::Shared { home, .. } = &*column.store.borrow() else {
            return false;
        };
        let (home, key) = (*home, column.key);
        if self.same_node(home) {
            let mut data = self.data.borrow_mut();
            let waiting = data.attaching.entry((column.launch, key)).or_default();
            waiting.push((id, index, column.clone()));
            if waiting.len() == 1 {
                drop(data);
                self.send(home, Message::Attach(Box::new((column.launch, key))));
            }
            return true;
        }
        if privilege == Privilege::WriteDiscard {
            // Nothing of the old contents is needed: write into a fresh copy and send that.
            let copy = SharedInstance::new(column.rect, column.field, self.memory());
            match copy {
                Ok(copy) => self.set_staged(id, index, copy),
                Err(e) => self.poison_soon(id, self.region_error(&key, e)),
            }
            return false;
        }
        let token = self.token(id, index, column);
        self.send(
            home,
            Message::Get(Box::new(Remote { launch: column.launch, column: key, rect: column.rect, token })),
        );
        true
    }

    fn token(&self, id: TaskId, index: usize, column: &Rc<Column>) -> u64 {
        let mut data = self.data.borrow_mut();
        data.next_token += 1;
        let token = data.next_token;
        data.tokens.insert(token, (id, index, column.clone()));
        token
    }

    /// Sends what a task wrote into its copy to the home of the column.
    pub(super) fn write_back(self: &Rc<Self>, id: TaskId, column: &Rc<Column>, copy: &SharedInstance) {
        let Store::Shared { home, .. } = &*column.store.borrow() else {
            return;
        };
        let token = self.token(id, 0, column);
        match copy.read_bytes(column.rect) {
            Ok(bytes) => {
                let ask = Remote { launch: column.launch, column: column.key, rect: column.rect, token };
                self.send(*home, Message::Put(Box::new(ask), bytes));
            }
            Err(e) => self.note_failure(&self.region_error(&column.key, e)),
        }
    }

    /// Whether requests for a launch's simultaneous regions can be served here yet.
    fn serve_later(&self, from: ProcessorId, launch: LaunchKey, key: ColumnKey, early: Early) -> Option<Early> {
        if self.launch_started(launch) {
            return Some(early);
        }
        self.data.borrow_mut().early.push((from, launch, key, early));
        None
    }

    /// Serves the requests that came before their launch.
    pub(super) fn serve_early(self: &Rc<Self>) {
        let early = std::mem::take(&mut self.data.borrow_mut().early);
        for (from, launch, key, request) in early {
            self.serve(from, launch, key, request);
        }
    }

    fn serve(self: &Rc<Self>, from: ProcessorId, launch: LaunchKey, key: ColumnKey, request: Early) {
        let Some(request) = self.serve_later(from, launch, key, request) else {
            return;
        };
        let served = self.field(key.tree, key.field).and_then(|field| {
            let shared = self.shared_instance(key, &field)?;
            self.serve_from(from, launch, key, &shared, request).map_err(|e| self.region_error(&key, e))
        });
        if let Err(e) = served {
            self.note_failure(&e);
        }
    }

    fn serve_from(
        self: &Rc<Self>,
        from: ProcessorId,
        launch: LaunchKey,
        column: ColumnKey,
        shared: &SharedInstance,
        request: Early,
    ) -> Result<(), RegionError> {
        match request {
            Early::Attach => self.send(from, Message::Attached(Box::new((launch, column, shared.clone())))),
            Early::Get { rect, token } => {
                let bytes = shared.read_bytes(rect)?;
                self.counters.moved_bytes.add(bytes.len() as u64);
                self.send(from, Message::Got { token, bytes });
            }
            Early::Put { rect, bytes, token } => {
                self.counters.moved_bytes.add(bytes.len() as u64);
                shared.write_bytes(rect, bytes.as_bytes())?;
                self.send(from, Message::PutDone { token });
            }
        }
        Ok(())
    }

    pub(super) fn take_attach(self: &Rc<Self>, from: ProcessorId, launch: LaunchKey, column: ColumnKey) {
        self.serve(from, launch, column, Early::Attach);
    }

    pub(super) fn take_get(self: &Rc<Self>, from: ProcessorId, ask: Remote) {
        self.serve(from, ask.launch, ask.column, Early::Get { rect: ask.rect, token: ask.token });
    }

    pub(super) fn take_put(self: &Rc<Self>, from: ProcessorId, ask: Remote, bytes: Buffer) {
        self.serve(from, ask.launch, ask.column, Early::Put { rect: ask.rect, bytes, token: ask.token });
    }

    pub(super) fn take_attached(self: &Rc<Self>, launch: LaunchKey, key: ColumnKey, instance: SharedInstance) {
        let waiting = {
            let mut data = self.data.borrow_mut();
            data.attached.insert(key, (launch, instance.clone()));
            data.attaching.remove(&(launch, key)).unwrap_or_default()
        };
        for (id, _, column) in waiting {
            if let Store::Shared { instance: slot, .. } = &mut *column.store.borrow_mut() {
                *slot = Some(instance.clone());
            }
            self.leaf_has_one_less(id);
        }
    }

    pub(super) fn take_got(self: &Rc<Self>, token: u64, bytes: Buffer) {
        let Some((id, index, column)) = self.data.borrow_mut().tokens.remove(&token) else {
            return;
        };
        self.counters.region_copies.add(1);
        self.counters.region_copy_bytes.add(bytes.len() as u64);
        let copy = SharedInstance::new(column.rect, column.field, self.memory())
            .and_then(|copy| copy.write_bytes(column.rect, bytes.as_bytes()).map(|()| copy));
        match copy {
            Ok(copy) => self.staged(id, index, copy),
            Err(e) => self.poison_leaf(id, self.region_error(&column.key, e)),
        }
    }

    pub(super) fn take_put_done(self: &Rc<Self>, token: u64) {
        let entry = self.data.borrow_mut().tokens.remove(&token);
        if let Some((id, _, _)) = entry {
            self.leaf_has_one_less(id);
        }
    }

    /// Reads what another processor's launch needs.
    pub(super) fn read_transfer(&self, transfer: &Transfer) -> Result<Buffer, Error> {
        let key = ColumnKey { tree: transfer.tree, field: transfer.field, rect: transfer.from };
        let data = self.data.borrow();
        let bytes = match data.instances.get(&key) {
            Some(Held::Owned(instance)) => instance.read_bytes(transfer.rect),
            Some(Held::Shared(shared)) => shared.read_bytes(transfer.rect),
            // Named by a launch but never written: what it holds is unspecified, so zeros do.
            None => {
                drop(data);
                let size = self.field(transfer.tree, transfer.field)?.size;
                return Ok(Buffer::zeroed(transfer.rect.volume() * size));
            }
        };
        drop(data);
        let bytes = bytes.map_err(|e| self.region_error(&key, e))?;
        self.counters.moved_bytes.add(bytes.len() as u64);
        Ok(bytes)
    }

    /// Writes what a launch of this processor was sent.
    pub(super) fn write_transfer(&self, transfer: &Transfer, bytes: &Buffer) -> Result<(), Error> {
        let key = ColumnKey { tree: transfer.tree, field: transfer.field, rect: transfer.into };
        let field = self.field(transfer.tree, transfer.field)?;
        if let Some(Held::Shared(shared)) = self.data.borrow().instances.get(&key) {
            return shared.write_bytes(transfer.rect, bytes.as_bytes()).map_err(|e| self.region_error(&key, e));
        }
        let instance = self.owned_instance(key, &field)?;
        instance.write_bytes(transfer.rect, bytes.as_bytes()).map_err(|e| self.region_error(&key, e))
    }
}
