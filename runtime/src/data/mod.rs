//! Data on one processor.
//!
//! A region that one shard holds exclusively has an instance where the shard runs. A region that several shards hold
//! with simultaneous coherence has one instance for all, on a home processor that the mapper chose. Processors of the
//! home's node use it in place, through relaxed atomic words. Processors of other nodes read and write it by messages.
//!
//! `column`: one field of one region as one shard uses it. `overlaps`: the columns of parts of a shard's regions, by
//! their rectangles. `instances`: the instances kept here, with the columns that all launches use. `remote`: requests to other
//! processors and from them. `transfers`: data that a launch copies. `changes`: the changes to a copy. `poison`: values that
//! tasks which failed should have written.

mod changes;
mod column;
mod instances;
mod overlaps;
mod poison;
mod remote;
mod transfers;

pub(crate) use column::{Column, Staged, Store, UseAt, Users};
pub(crate) use overlaps::{Columns, RectTree};
pub(crate) use poison::Poisons;
pub(crate) use remote::{Came, Fetch, Request, Served};

use crate::effects::{Asker, Effects};
use crate::ids::{ColumnKey, LaunchKey};
use crate::maps::HashMap;
use crate::{Error, Place};
use instances::{Instances, KeptInstance};
use maniple_mapper::{InstanceChoice, InstanceInput, MemoryKind, validate};
use maniple_regions::{Coherence, FieldInfo, Instance, MemoryId, Region, RegionError, SharedInstance, TreeId};
use smallvec::SmallVec;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// Columns of inner tasks, each with its inner task's number.
type Scopes = SmallVec<[(u32, Rc<Column>); 1]>;

/// The data of one processor.
#[derive(Default)]
pub(crate) struct Data {
    instances: RefCell<Instances>,
    remote: RefCell<remote::Remotes>,
    /// Of the instances that launches use.
    poisons: OnceCell<Rc<Poisons>>,
    /// The columns of what inner tasks of this processor hold to write. There are few.
    scopes: RefCell<HashMap<ColumnKey, Scopes>>,
}

fn memory(effects: &Effects) -> MemoryId {
    effects.machine().memory(effects.id, MemoryKind::Ordinary)
}

fn region_error(effects: &Effects, key: &ColumnKey, source: RegionError) -> Error {
    let task = format!("instance of {} on processor {}", key.rect, effects.id);
    Error::region(Place { task, shard: None }, source)
}

/// Asks the mapper where the instance of a column is to be: in which memory to make a new one, or the one `found`.
fn place_instance(
    effects: &Effects,
    key: ColumnKey,
    field: &FieldInfo,
    coherence: Coherence,
    found: Option<MemoryId>,
) -> Result<InstanceChoice, Error> {
    let (region, machine) = (Region::new(key.tree, key.rect), effects.machine());
    let (bytes, processor, field) = (key.rect.volume() * field.size, effects.id, field.id);
    let found = found.map(|memory| machine.owner(memory).1);
    let input = InstanceInput { region, field, bytes, processor, coherence, found, machine };
    effects.ask(
        Asker::Processor,
        ("map_instance", &region),
        |m| m.map_instance(&input),
        |name, answer| validate::instance(name, &input, answer),
    )
}

/// Where the values of a column are to be.
enum Choice {
    There(Rc<Instance>),
    /// In a new instance in this memory.
    New(MemoryId),
}

impl Data {
    /// Requests under way, and uses of instances.
    pub fn entries(&self) -> usize {
        self.remote.borrow().entries() + self.instances.borrow().uses()
    }

    /// What is poisoned in the instances that launches use.
    #[cold]
    pub fn poisons(&self) -> &Rc<Poisons> {
        self.poisons.get_or_init(Rc::default)
    }

    /// The same, if there is any.
    #[inline]
    pub fn some_poison(&self) -> Option<&Poisons> {
        self.poisons.get().map(|poisons| &**poisons).filter(|poisons| !poisons.are_none())
    }

    /// The standing columns of a tree.
    pub fn standing_of(&self, tree: TreeId) -> Vec<ColumnKey> {
        self.instances.borrow().standing_of(tree).collect()
    }

    /// Gives the memory of a tree's instances back. Nobody uses them.
    pub fn forget(&self, tree: TreeId) {
        self.instances.borrow_mut().forget(tree);
    }

    /// Gives up an instance, unless something uses it that is later than a launch. `is_over` tells whether nobody uses its
    /// column any more.
    pub fn give_up_instance(&self, key: &ColumnKey, after: LaunchKey, is_over: impl Fn(&Column) -> bool) {
        self.instances.borrow_mut().give_up(key, after, is_over);
    }

    /// Keeps an instance, which a launch uses, in place of an earlier one of the same column.
    fn keep(&self, effects: &Effects, key: &ColumnKey, kept: KeptInstance, launch: LaunchKey) {
        let owned = match &kept {
            KeptInstance::Owned(instance, _) => Some(instance.clone()),
            KeptInstance::Shared(_) => None,
        };
        let moves = |column: &Column| column.moves_to(owned.as_ref(), effects.id);
        self.instances.borrow_mut().insert(key, kept, launch).into_iter().for_each(|column| moves(column));
        for (_, column) in self.scopes.borrow().get(key).into_iter().flatten() {
            moves(column);
            column.each_overlap(|part| moves(&part));
        }
    }

    /// The instance that a launch uses of a column that this processor alone uses, or the memory for a new one.
    fn choose_instance(
        &self,
        effects: &Effects,
        key: ColumnKey,
        field: &FieldInfo,
        launch: LaunchKey,
    ) -> Result<Choice, Error> {
        let mut instances = self.instances.borrow_mut();
        let there = instances.get_mut(&key);
        let found = match there.as_ref().and_then(|entry| entry.kept.as_ref()) {
            // Other shards of the same launch use the same instance, so that they see each other's values.
            Some(KeptInstance::Owned(instance, user)) if *user == launch => return Ok(Choice::There(instance.clone())),
            Some(KeptInstance::Owned(instance, _)) => Some(instance.memory()),
            Some(KeptInstance::Shared(_)) | None => None,
        };
        match place_instance(effects, key, field, Coherence::Exclusive, found)? {
            InstanceChoice::Create(kind) => Ok(Choice::New(effects.machine().memory(effects.id, kind))),
            InstanceChoice::Find => {
                let Some(entry) = there else { unreachable!("validated") };
                entry.used_by(launch);
                let Some(KeptInstance::Owned(instance, user)) = &mut entry.kept else { unreachable!("validated") };
                *user = launch;
                Ok(Choice::There(instance.clone()))
            }
        }
    }

    /// The instance of a column that this processor alone uses. `launch` is the launch of its shards, or of the shards
    /// that incoming data is for.
    pub fn owned_instance(
        &self,
        effects: &Effects,
        key: ColumnKey,
        field: &FieldInfo,
        launch: LaunchKey,
    ) -> Result<Rc<Instance>, Error> {
        let memory = match self.choose_instance(effects, key, field, launch)? {
            Choice::There(instance) => return Ok(instance),
            Choice::New(memory) => memory,
        };
        let make = || {
            let instance = Instance::new(key.rect, *field, memory)?;
            let bytes = match self.instances.borrow().get(&key) {
                Some(KeptInstance::Owned(there, _)) => there.read_bytes(key.rect)?,
                Some(KeptInstance::Shared(there)) => there.read_bytes(key.rect)?,
                None => return Ok(Rc::new(instance)),
            };
            instance.write_bytes(key.rect, bytes.as_bytes())?;
            Ok(Rc::new(instance))
        };
        let instance = make().map_err(|e| region_error(effects, &key, e))?;
        self.keep(effects, &key, KeptInstance::Owned(instance.clone(), launch), launch);
        Ok(instance)
    }

    /// A new instance, which no launch can use.
    pub fn new_instance(&self, effects: &Effects, key: ColumnKey, field: &FieldInfo) -> Result<Rc<Instance>, Error> {
        let InstanceChoice::Create(kind) = place_instance(effects, key, field, Coherence::Exclusive, None)? else {
            unreachable!("validated");
        };
        let new = Instance::new(key.rect, *field, effects.machine().memory(effects.id, kind));
        new.map(Rc::new).map_err(|e| region_error(effects, &key, e))
    }

    /// The instance of a column that several shards of a launch use at once.
    pub fn shared_instance(
        &self,
        effects: &Effects,
        key: ColumnKey,
        field: &FieldInfo,
        launch: LaunchKey,
    ) -> Result<SharedInstance, Error> {
        let mut instances = self.instances.borrow_mut();
        let there = instances.get_mut(&key).and_then(|entry| {
            entry.used_by(launch);
            entry.kept.as_ref()
        });
        let found = match there {
            Some(KeptInstance::Shared(shared)) => return Ok(shared.clone()),
            Some(KeptInstance::Owned(instance, _)) => Some(instance.read_bytes(key.rect)),
            None => None,
        };
        drop(instances);
        // An instance of the other kind can't be used, so the mapper can only have a new one made.
        let InstanceChoice::Create(kind) = place_instance(effects, key, field, Coherence::Simultaneous, None)? else {
            unreachable!("validated");
        };
        let memory = effects.machine().memory(effects.id, kind);
        let make = || {
            let shared = match effects.wire.shared_memory().filter(|_| kind == MemoryKind::Registered) {
                Some(registered) => registered.instance(key.rect, field, memory)?,
                None => SharedInstance::new(key.rect, *field, memory)?,
            };
            if let Some(bytes) = found {
                shared.write_bytes(key.rect, bytes?.as_bytes())?;
            }
            Ok(shared)
        };
        let shared = make().map_err(|e| region_error(effects, &key, e))?;
        self.keep(effects, &key, KeptInstance::Shared(shared.clone()), launch);
        Ok(shared)
    }
}
