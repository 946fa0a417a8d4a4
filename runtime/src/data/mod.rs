//! Instances of this processor, and the messages that move their contents.

pub(crate) mod column;

pub(crate) use column::{Column, Store, Users};

use crate::effects::Asker;
use crate::ids::TaskId;
use crate::ids::{ColumnKey, LaunchKey, ProcessorId};
use crate::maps::{Hash, HashMap};
use crate::message::{Message, Put, RefusedData, Remote, Transfer};
use crate::processor::Core;
use crate::task::Staged;
use crate::{Error, Place};
use hashbrown::HashTable;
use maniple_mapper::{InstanceChoice, InstanceInput, MemoryKind, validate};
use maniple_regions::{
    Buffer, Coherence, FieldId, FieldInfo, Instance, MemoryId, Privilege, Rect, Region, RegionError, SharedInstance,
    TreeId,
};
use std::hash::BuildHasher;
use std::ops::Range;
use std::rc::Rc;

enum Held {
    /// With the launch that uses it, the last one.
    Owned(Rc<Instance>, LaunchKey),
    Shared(SharedInstance),
}

impl Held {
    fn covers(&self) -> (FieldId, Rect) {
        match self {
            Held::Owned(instance, _) => (instance.field().id, instance.rect()),
            Held::Shared(shared) => (shared.field().id, shared.rect()),
        }
    }
}

/// Instances by the columns they are of. What they know themselves is not kept twice.
#[derive(Default)]
struct Instances(HashTable<(TreeId, Held)>);

impl Instances {
    fn hash(tree: TreeId, (field, rect): (FieldId, Rect)) -> u64 {
        // Those that begin and end together in the first dimension are few.
        Hash.hash_one((tree, field, rect.lo(0), rect.hi(0), rect.lo(1)))
    }

    /// The hash of a column, and whether an instance is the column's.
    fn seek(key: &ColumnKey) -> (u64, impl Fn(&(TreeId, Held)) -> bool) {
        let (tree, covers) = (key.tree, (key.field, key.rect));
        (Self::hash(tree, covers), move |(of, held)| *of == tree && held.covers() == covers)
    }

    fn get(&self, key: &ColumnKey) -> Option<&Held> {
        let (hash, is) = Self::seek(key);
        self.0.find(hash, is).map(|(_, held)| held)
    }

    fn get_mut(&mut self, key: &ColumnKey) -> Option<&mut Held> {
        let (hash, is) = Self::seek(key);
        self.0.find_mut(hash, is).map(|(_, held)| held)
    }

    fn insert(&mut self, key: &ColumnKey, held: Held) {
        let (hash, is) = Self::seek(key);
        match self.0.find_mut(hash, is) {
            Some((_, there)) => *there = held,
            None => {
                let again = |(tree, held): &(TreeId, Held)| Self::hash(*tree, held.covers());
                self.0.insert_unique(hash, (key.tree, held), again);
            }
        }
    }
}

/// A request another processor made for a simultaneous region whose launch has not started here yet.
enum Early {
    Attach,
    Get { rect: Rect, token: u64 },
    Put { parts: Vec<Rect>, bytes: Buffer, token: u64 },
}

/// A task that waits for a column: which of its uses, and the column.
type Fetcher = (TaskId, usize, Rc<Column>);

#[derive(Default)]
pub(crate) struct Data {
    instances: Instances,
    /// Instances of other processors of the node.
    attached: HashMap<ColumnKey, (LaunchKey, SharedInstance)>,
    /// Tasks that wait for an attachment, by column.
    attaching: HashMap<(LaunchKey, ColumnKey), Vec<Fetcher>>,
    /// Remote reads and writes under way.
    tokens: HashMap<u64, Fetcher>,
    next_token: u64,
    early: HashMap<LaunchKey, Vec<(ProcessorId, ColumnKey, Early)>>,
}

impl Data {
    /// Requests under way, and uses of instances.
    pub fn entries(&self) -> usize {
        let used = |held: &Held| match held {
            Held::Owned(instance, _) => Rc::strong_count(instance) - 1,
            Held::Shared(_) => 0,
        };
        let uses: usize = self.instances.0.iter().map(|(_, held)| used(held)).sum();
        self.attaching.len() + self.tokens.len() + self.early.len() + uses
    }
}

impl Core {
    fn memory(&self) -> MemoryId {
        self.machine().memory(self.id, MemoryKind::Ordinary)
    }

    fn region_error(&self, key: &ColumnKey, source: RegionError) -> Error {
        let task = format!("instance of {} on processor {}", key.rect, self.id);
        Error::region(Place { task, shard: None }, source)
    }

    /// The mapper's answer to where the instance of a column is to be: the memory of a new one, or the one `found`.
    fn place_instance(
        &self,
        key: ColumnKey,
        field: &FieldInfo,
        coherence: Coherence,
        found: Option<MemoryId>,
    ) -> Result<InstanceChoice, Error> {
        let (region, machine) = (Region::new(key.tree, key.rect), self.machine());
        let (bytes, processor, field) = (key.rect.volume() * field.size, self.id, field.id);
        let found = found.map(|memory| machine.owner(memory).1);
        let input = InstanceInput { region, field, bytes, processor, coherence, found, machine };
        self.ask(
            Asker::Processor,
            ("map_instance", &region),
            |m| m.map_instance(&input),
            |name, answer| validate::instance(name, &input, answer),
        )
    }

    /// The instance of a column that this processor alone uses, for `launch`: its shards, or data that has come for them.
    pub fn owned_instance(&self, key: ColumnKey, field: &FieldInfo, launch: LaunchKey) -> Result<Rc<Instance>, Error> {
        let mut data = self.data.borrow_mut();
        let there = data.instances.get_mut(&key);
        let found = match &there {
            // Other shards of the launch see each other's values in the one that is there.
            Some(Held::Owned(instance, user)) if *user == launch => return Ok(instance.clone()),
            Some(Held::Owned(instance, _)) => Some(instance.memory()),
            Some(Held::Shared(_)) | None => None,
        };
        let kind = match (self.place_instance(key, field, Coherence::Exclusive, found)?, &there) {
            (InstanceChoice::Create(kind), _) => kind,
            (InstanceChoice::Find, _) => {
                let Some(Held::Owned(instance, user)) = there else { unreachable!("validated") };
                *user = launch;
                return Ok(instance.clone());
            }
        };
        let make = || {
            let instance = Instance::new(key.rect, *field, self.machine().memory(self.id, kind))?;
            let bytes = match &there {
                Some(Held::Owned(there, _)) => there.read_bytes(key.rect)?,
                Some(Held::Shared(there)) => there.read_bytes(key.rect)?,
                None => return Ok(Rc::new(instance)),
            };
            instance.write_bytes(key.rect, bytes.as_bytes())?;
            Ok(Rc::new(instance))
        };
        let instance = make().map_err(|e| self.region_error(&key, e))?;
        data.instances.insert(&key, Held::Owned(instance.clone(), launch));
        Ok(instance)
    }

    /// The instance of a column that several shards use at once.
    pub fn shared_instance(&self, key: ColumnKey, field: &FieldInfo) -> Result<SharedInstance, Error> {
        let mut data = self.data.borrow_mut();
        let found = match data.instances.get(&key) {
            Some(Held::Shared(shared)) => return Ok(shared.clone()),
            Some(Held::Owned(instance, _)) => Some(instance.read_bytes(key.rect)),
            None => None,
        };
        // Those of the two kinds differ: there is none of the one that is needed.
        let InstanceChoice::Create(kind) = self.place_instance(key, field, Coherence::Simultaneous, None)? else {
            unreachable!("validated");
        };
        let memory = self.machine().memory(self.id, kind);
        let make = || {
            let shared = SharedInstance::new(key.rect, *field, memory)?;
            if let Some(bytes) = found {
                shared.write_bytes(key.rect, bytes?.as_bytes())?;
            }
            Ok(shared)
        };
        let shared = make().map_err(|e| self.region_error(&key, e))?;
        data.instances.insert(&key, Held::Shared(shared.clone()));
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
    pub(crate) fn fetch(self: &Rc<Self>, id: TaskId, index: usize, column: &Rc<Column>, privilege: Privilege) -> bool {
        let Store::Shared { home, .. } = &*column.store.borrow() else {
            return false;
        };
        let (home, key) = (*home, column.key());
        if let Some(e) = self.lost() {
            self.poison_soon(id, e.clone());
            return false;
        }
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
            let copy = SharedInstance::new(column.rect(), column.field, self.memory());
            match copy {
                Ok(copy) => self.set_staged(id, index, copy),
                Err(e) => self.poison_soon(id, self.region_error(&key, e)),
            }
            return false;
        }
        let token = self.token(id, index, column);
        self.send(
            home,
            Message::Get(Box::new(Remote { launch: column.launch, column: key, rect: column.rect(), token })),
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
    pub(crate) fn write_back(self: &Rc<Self>, id: TaskId, column: &Rc<Column>, staged: &Staged) {
        let Store::Shared { home, .. } = &*column.store.borrow() else {
            return;
        };
        if let Some(e) = self.lost() {
            return self.poison_leaf(id, e.clone());
        }
        let mut bytes = match staged.copy.read_bytes(column.rect()) {
            Ok(bytes) => bytes,
            Err(e) => return self.note_failure(&self.region_error(&column.key(), e)),
        };
        let mut parts = vec![column.rect()];
        if let Some(before) = &staged.before {
            let changed = changes(column.rect(), column.field.size, before.as_bytes(), bytes.as_bytes());
            if changed.is_empty() {
                return self.leaf_has_one_less(id);
            }
            bytes = concatenated(&bytes, changed.iter().map(|c| c.1.clone()));
            parts = changed.into_iter().map(|c| c.0).collect();
        }
        #[cfg(feature = "plant")]
        if self.config.strikes(crate::plant::Bug::LostWriteBack) {
            return self.leaf_has_one_less(id);
        }
        let token = self.token(id, 0, column);
        let put = Put { launch: column.launch, column: column.key(), parts, token };
        self.send(*home, Message::Put(Box::new(put), bytes));
    }

    /// Whether requests for a launch's simultaneous regions can be served here yet.
    fn serve_later(&self, from: ProcessorId, launch: LaunchKey, key: ColumnKey, early: Early) -> Option<Early> {
        if self.launch_started(launch) {
            return Some(early);
        }
        self.data.borrow_mut().early.entry(launch).or_default().push((from, key, early));
        None
    }

    /// Serves the requests that came before their launch, which has started.
    pub(crate) fn serve_early(self: &Rc<Self>, launch: LaunchKey) {
        let early = self.data.borrow_mut().early.remove(&launch);
        for (from, key, request) in early.into_iter().flatten() {
            self.serve(from, launch, key, request);
        }
    }

    fn serve(self: &Rc<Self>, from: ProcessorId, launch: LaunchKey, key: ColumnKey, request: Early) {
        let Some(request) = self.serve_later(from, launch, key, request) else {
            return;
        };
        let token = match &request {
            Early::Attach => None,
            Early::Get { token, .. } | Early::Put { token, .. } => Some(*token),
        };
        let served = self.field(key.tree, key.field).and_then(|field| {
            // Nor is it known whether what the launch was to bring has come.
            if let Some(e) = self.lost() {
                return Err(e.clone());
            }
            let shared = self.shared_instance(key, field)?;
            self.serve_from(from, launch, key, &shared, request).map_err(|e| self.region_error(&key, e))
        });
        if let Err(error) = served {
            self.send(from, Message::Refused(Box::new(RefusedData { launch, column: key, token, error })));
        }
    }

    /// No answer will come any more to what was asked of others, nor to what others asked.
    pub(crate) fn refuse_all_data(self: &Rc<Self>, error: &Error) {
        let mut data = self.data.borrow_mut();
        data.early.clear();
        let mut waiting: Vec<_> = data.tokens.drain().collect();
        // In an order that is the same in each run.
        waiting.sort_unstable_by_key(|w| w.0);
        let mut attaching: Vec<_> = data.attaching.drain().collect();
        attaching.sort_unstable_by_key(|w| w.0);
        drop(data);
        for (id, ..) in waiting.into_iter().map(|w| w.1).chain(attaching.into_iter().flat_map(|w| w.1)) {
            self.poison_leaf(id, error.clone());
        }
    }

    /// Tasks that asked for an instance will not get it.
    pub(crate) fn take_refused(self: &Rc<Self>, refused: RefusedData) {
        let RefusedData { launch, column, token, error } = refused;
        let mut data = self.data.borrow_mut();
        let waiting = match token {
            Some(token) => data.tokens.remove(&token).into_iter().collect(),
            None => data.attaching.remove(&(launch, column)).unwrap_or_default(),
        };
        drop(data);
        for (id, ..) in waiting {
            self.poison_leaf(id, error.clone());
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
            Early::Put { parts, bytes, token } => {
                self.counters.moved_bytes.add(bytes.len() as u64);
                let mut rest = bytes.as_bytes();
                for part in parts {
                    let (values, more) = rest.split_at(part.volume() * shared.field().size);
                    shared.write_bytes(part, values)?;
                    rest = more;
                }
                self.send(from, Message::PutDone { token });
            }
        }
        Ok(())
    }

    pub(crate) fn take_attach(self: &Rc<Self>, from: ProcessorId, launch: LaunchKey, column: ColumnKey) {
        self.serve(from, launch, column, Early::Attach);
    }

    pub(crate) fn take_get(self: &Rc<Self>, from: ProcessorId, ask: Remote) {
        self.serve(from, ask.launch, ask.column, Early::Get { rect: ask.rect, token: ask.token });
    }

    pub(crate) fn take_put(self: &Rc<Self>, from: ProcessorId, put: Put, bytes: Buffer) {
        self.serve(from, put.launch, put.column, Early::Put { parts: put.parts, bytes, token: put.token });
    }

    pub(crate) fn take_attached(self: &Rc<Self>, launch: LaunchKey, key: ColumnKey, instance: SharedInstance) {
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

    pub(crate) fn take_got(self: &Rc<Self>, token: u64, bytes: Buffer) {
        let Some((id, index, column)) = self.data.borrow_mut().tokens.remove(&token) else {
            return;
        };
        self.counters.region_copies.add(1);
        self.counters.region_copy_bytes.add(bytes.len() as u64);
        let copy = SharedInstance::new(column.rect(), column.field, self.memory())
            .and_then(|copy| copy.write_bytes(column.rect(), bytes.as_bytes()).map(|()| copy));
        match copy {
            Ok(copy) => self.staged(id, index, copy, bytes),
            Err(e) => self.poison_leaf(id, self.region_error(&column.key(), e)),
        }
    }

    pub(crate) fn take_put_done(self: &Rc<Self>, token: u64) {
        let entry = self.data.borrow_mut().tokens.remove(&token);
        if let Some((id, _, _)) = entry {
            self.leaf_has_one_less(id);
        }
    }

    /// Reads what another processor's launch needs.
    pub(crate) fn read_transfer(&self, transfer: &Transfer) -> Result<Buffer, Error> {
        let key = ColumnKey { tree: transfer.tree, field: transfer.field, rect: transfer.from };
        let data = self.data.borrow();
        let bytes = match data.instances.get(&key) {
            Some(Held::Owned(instance, _)) => instance.read_bytes(transfer.rect),
            Some(Held::Shared(shared)) => shared.read_bytes(transfer.rect),
            // Named by a launch but never written: values are zero at first.
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

    /// Writes what a launch of this processor was sent, or parts of it.
    pub(crate) fn write_transfer(
        &self,
        launch: LaunchKey,
        transfer: &Transfer,
        bytes: &Buffer,
        parts: Option<Vec<Rect>>,
    ) -> Result<(), Error> {
        let Some(parts) = parts else { return self.write_part(launch, transfer, bytes) };
        let key = ColumnKey { tree: transfer.tree, field: transfer.field, rect: transfer.rect };
        let field = self.field(transfer.tree, transfer.field)?;
        let failed = |e| self.region_error(&key, e);
        let all = Instance::new(transfer.rect, field, self.memory()).map_err(failed)?;
        all.write_bytes(transfer.rect, bytes.as_bytes()).map_err(failed)?;
        for rect in parts {
            let bytes = all.read_bytes(rect).map_err(failed)?;
            self.write_part(launch, &Transfer { rect, ..transfer.clone() }, &bytes)?;
        }
        Ok(())
    }

    fn write_part(&self, launch: LaunchKey, transfer: &Transfer, bytes: &Buffer) -> Result<(), Error> {
        let key = ColumnKey { tree: transfer.tree, field: transfer.field, rect: transfer.into };
        let field = self.field(transfer.tree, transfer.field)?;
        if let Some(Held::Shared(shared)) = self.data.borrow().instances.get(&key) {
            return shared.write_bytes(transfer.rect, bytes.as_bytes()).map_err(|e| self.region_error(&key, e));
        }
        let instance = self.owned_instance(key, field, launch)?;
        instance.write_bytes(transfer.rect, bytes.as_bytes()).map_err(|e| self.region_error(&key, e))
    }
}

/// The parts of `rect` whose values, of `size` bytes, are not what they were, and the bytes of each part.
fn changes(rect: Rect, size: usize, before: &[u8], after: &[u8]) -> Vec<(Rect, Range<usize>)> {
    let row = rect.extent(rect.dim() - 1);
    let differs = |at: usize| before[at * size..][..size] != after[at * size..][..size];
    let mut parts: Vec<(Rect, Range<usize>)> = Vec::new();
    let mut changed = 0;
    for start in (0..rect.volume()).step_by(row.max(1)) {
        let mut at = start;
        while at < start + row {
            let first = at;
            while at < start + row && differs(at) {
                at += 1;
            }
            if at > first {
                parts.push((part_of_row(rect, start / row, first - start, at - start), first * size..at * size));
                changed += at - first;
            }
            at += 1;
        }
    }
    if changed == rect.volume() && changed > 0 {
        return vec![(rect, 0..after.len())];
    }
    parts
}

/// Elements `from..to` of a row of a rectangle.
fn part_of_row(rect: Rect, row: usize, from: usize, to: usize) -> Rect {
    let (row, from, to) = (row as i64, from as i64, to as i64);
    let (x, y, z) = (rect.lo(0), rect.lo(1), rect.lo(2));
    match rect.dim() {
        1 => Rect::new([x + from], [x + to]),
        2 => Rect::new([x + row, y + from], [x + row + 1, y + to]),
        _ => {
            let (i, j) = (x + row / rect.extent(1) as i64, y + row % rect.extent(1) as i64);
            Rect::new([i, j, z + from], [i + 1, j + 1, z + to])
        }
    }
}

fn concatenated(bytes: &Buffer, parts: impl Iterator<Item = Range<usize>> + Clone) -> Buffer {
    let mut all = Buffer::zeroed(parts.clone().map(|p| p.len()).sum());
    let mut rest = all.as_bytes_mut();
    for part in parts {
        let (to, more) = rest.split_at_mut(part.len());
        to.copy_from_slice(&bytes.as_bytes()[part]);
        rest = more;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use maniple_regions::Field;
    use proptest::prelude::*;

    proptest! {
        /// Putting the changes back makes the new values of the old ones, and touches no other.
        #[test]
        fn changes_are_what_differs(
            dim in 1usize..4, lo in -5i64..5, extents in [0usize..5, 0usize..5, 0usize..5],
            values in prop::collection::vec((0u16..9, 0u16..9), 125)
        ) {
            let hi = extents.map(|e| lo + e as i64);
            let rect = match dim {
                1 => Rect::line(lo, hi[0]),
                2 => Rect::new([lo; 2], [hi[0], hi[1]]),
                _ => Rect::new([lo; 3], hi),
            };
            let column = |f: fn(&(u16, u16)) -> u16| -> Vec<u16> { values.iter().map(f).take(rect.volume()).collect() };
            let (before, after) = (Buffer::from_slice(&column(|v| v.0)), Buffer::from_slice(&column(|v| v.1 / 3 * 3)));
            let info = Field::<u16>::new(0, "v").info();
            let home = SharedInstance::new(rect, info, MemoryId(0)).expect("a small instance");
            home.write_bytes(rect, before.as_bytes()).expect("of the same length");
            let parts = changes(rect, 2, before.as_bytes(), after.as_bytes());
            for (part, range) in &parts {
                prop_assert_eq!(part.volume() * 2, range.len());
                home.write_bytes(*part, &after.as_bytes()[range.clone()]).expect("a part");
            }
            prop_assert_eq!(home.read_bytes(rect).expect("all"), after.clone());
            let differ = before.as_bytes().chunks(2).zip(after.as_bytes().chunks(2)).filter(|(a, b)| a != b).count();
            prop_assert_eq!(parts.iter().map(|p| p.0.volume()).sum::<usize>(), differ);
        }
    }
}
