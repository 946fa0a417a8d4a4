//! A column: one field of one region as one shard uses it, or as all launches on a processor do. It knows where the values
//! are and who used them last.

use crate::Error;
use crate::data::Data;
use crate::effects::Effects;
use crate::ids::{ColumnKey, LaunchKey, NOBODY, ProcessorId, TaskId};
use crate::message::Does;
use maniple_mapper::{Machine, MemoryKind, RequirementInput};
use maniple_regions::{Buffer, Coherence, FieldInfo, Instance, Lease, Privilege, Rect, Region, SharedInstance, Use};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// Where the values of a column are.
pub(crate) enum Store {
    /// In an instance of this processor.
    Owned(Rc<Instance>),
    /// In the one instance that all users of a simultaneous region share. `None` if it is on another node, or on this
    /// node and not attached yet. With this processor as the home: in one of its instances, to be found when a task uses it.
    Shared {
        home: ProcessorId,
        instance: Option<SharedInstance>,
        /// A lease that came back, kept for the next task.
        idle: Idle,
    },
}

impl Store {
    /// An instance of this processor that is not looked for yet.
    pub fn of(here: ProcessorId) -> Self {
        Store::Shared { home: here, instance: None, idle: Idle::Never }
    }
}

/// A lease that came back. A new lease would count a reference, and other processors of the node use the same counter.
pub(crate) enum Idle {
    /// No lease is kept, because each processor is a node of its own and the counter is not shared.
    Never,
    None,
    Kept(Lease),
}

impl Idle {
    #[inline]
    pub fn take(&mut self) -> Option<Lease> {
        match self {
            Idle::Kept(_) => match std::mem::replace(self, Idle::None) {
                Idle::Kept(lease) => Some(lease),
                _ => None,
            },
            _ => None,
        }
    }

    #[inline]
    fn keep(&mut self, lease: Lease) {
        if !matches!(self, Idle::Never) {
            *self = Idle::Kept(lease);
        }
    }
}

/// A column: one field of one region as one shard uses it.
// The order matters: the fields that every task needs are in neighbouring cache lines.
#[repr(C)]
pub(crate) struct Column {
    pub field: &'static FieldInfo,
    pub region: Region,
    /// Size of the values in bytes.
    bytes: usize,
    pub store: RefCell<Store>,
    pub users: RefCell<Users>,
    /// Other columns of the shard whose points overlap these. Some may be gone.
    #[allow(clippy::box_collection)] // Hardly any has some, and there are many columns.
    overlaps: RefCell<Option<Box<Vec<Weak<Column>>>>>,
    /// The rectangle of the instance, if it is larger than the region's.
    whole: Option<Box<Rect>>,
    pub launch: LaunchKey,
    /// Position of the shard's requirement that allows the use.
    pub held: u32,
}

impl Column {
    /// Releases the instance, and keeps the memory of the column for the next one. Shards that are launched again and
    /// again drop as many columns as they make.
    pub fn spare(column: Rc<Self>) {
        const MOST: usize = 1024;
        column.release(ProcessorId(0));
        if Rc::strong_count(&column) == 1 && Rc::weak_count(&column) == 0 {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < MOST {
                    spare.push(column);
                }
            });
        }
    }

    /// Releases the instance. No task uses the column any more, or the instance has to be looked for on this processor.
    pub fn release(&self, here: ProcessorId) {
        *self.store.borrow_mut() = Store::of(here);
    }

    /// A column of a shard's requirement, by its launch and position.
    pub fn new(
        region: Region,
        key: ColumnKey,
        field: &'static FieldInfo,
        (launch, held): (LaunchKey, u32),
        store: Store,
    ) -> Rc<Self> {
        let column = Self {
            region,
            whole: (key.rect != region.rect).then(|| Box::new(key.rect)),
            field,
            bytes: region.rect.volume() * field.length(),
            launch,
            held,
            store: RefCell::new(store),
            users: RefCell::default(),
            overlaps: RefCell::default(),
        };
        if let Some(mut spare) = SPARE.with_borrow_mut(Vec::pop)
            && let Some(place) = Rc::get_mut(&mut spare)
        {
            *place = column;
            return spare;
        }
        Rc::new(column)
    }

    /// Whether its values are in this instance.
    pub fn has(&self, instance: &Rc<Instance>) -> bool {
        matches!(&*self.store.borrow(), Store::Owned(own) if Rc::ptr_eq(own, instance))
    }

    /// Its values are in another instance of this processor from now on, if they are in one. No task writes them meanwhile.
    pub fn moves_to(&self, instance: Option<&Rc<Instance>>, here: ProcessorId) {
        match instance {
            // Tasks that only read may be about to use the earlier instance, which has the same values.
            Some(instance) if !self.is_elsewhere() => *self.store.borrow_mut() = Store::Owned(instance.clone()),
            _ => self.release(here),
        }
    }

    /// Counts one more use of the instance that nobody gives up: a planted bug.
    pub fn leak_instance(&self) {
        if let Store::Owned(instance) = &*self.store.borrow() {
            std::mem::forget(instance.clone());
        }
    }

    #[inline]
    pub fn rect(&self) -> Rect {
        self.region.rect
    }

    #[inline]
    pub fn requirement(&self, u: &UseAt, machine: &Machine) -> RequirementInput<'_> {
        let memory = match &*self.store.borrow() {
            Store::Owned(instance) => instance.memory(),
            Store::Shared { instance: Some(instance), .. } => instance.memory(),
            // The mapper of the home decided the kind of memory, and this processor does not know it.
            Store::Shared { home, .. } => machine.memory(*home, MemoryKind::Ordinary),
        };
        RequirementInput {
            region: &self.region,
            field: self.field.id,
            privilege: u.privilege,
            coherence: u.coherence,
            bytes: self.bytes,
            memory,
        }
    }

    /// Size of the values in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the values have to be fetched before a task can use them.
    #[inline]
    pub fn is_elsewhere(&self) -> bool {
        matches!(&*self.store.borrow(), Store::Shared { instance: None, .. })
    }

    /// Takes back a lease of its instance.
    #[inline]
    pub fn give_back(&self, lease: Lease) {
        match &mut *self.store.borrow_mut() {
            Store::Owned(instance) => {
                // A standing column may have moved meanwhile, but not from under a writer.
                let may_have_moved = self.launch == NOBODY && lease.privilege() == Privilege::Read;
                let returned = instance.release(lease);
                debug_assert!(may_have_moved || returned.is_ok(), "a lease goes back to the instance it came from");
            }
            Store::Shared { idle, .. } => idle.keep(lease),
        }
    }

    /// The key under which the instance is kept.
    pub fn key(&self) -> ColumnKey {
        let rect = self.whole.as_ref().map_or(self.region.rect, |whole| **whole);
        ColumnKey { tree: self.region.tree, field: self.field.id, rect }
    }

    /// Records that two columns of a shard overlap; `self` is the new one.
    pub fn overlaps_with(self: &Rc<Self>, other: &Rc<Self>) {
        for (one, another) in [(self, other), (other, self)] {
            let mut overlaps = one.overlaps.borrow_mut();
            let overlaps = overlaps.get_or_insert_default();
            if overlaps.len() == overlaps.capacity() {
                overlaps.retain(|column| column.strong_count() > 0);
            }
            overlaps.push(Rc::downgrade(another));
        }
    }

    /// Whether the shard has columns that overlap this one.
    #[inline]
    pub fn has_overlaps(&self) -> bool {
        self.overlaps.borrow().is_some()
    }

    #[inline(always)]
    pub fn each_overlap(&self, each: impl FnMut(Rc<Self>)) {
        if let Some(overlaps) = &*self.overlaps.borrow() {
            overlaps.iter().filter_map(Weak::upgrade).for_each(each);
        }
    }
}

/// One region use of a leaf task.
pub(crate) struct UseAt {
    pub column: Rc<Column>,
    pub privilege: Privilege,
    pub coherence: Coherence,
    /// The kind of memory that the region is copied into, if the mapper wants a copy.
    pub access: Option<MemoryKind>,
    pub staged: Option<Box<Staged>>,
}

impl UseAt {
    pub fn as_use(&self) -> Use {
        let Self { column, privilege, coherence, .. } = self;
        Use { region: column.region, field: column.field.id, privilege: *privilege, coherence: *coherence }
    }
}

/// A copy that one task has for itself.
pub(crate) struct Staged {
    pub copy: SharedInstance,
    /// The values as fetched, if only changes go back: other tasks change other values of the region meanwhile.
    pub before: Option<Buffer>,
}

/// Tasks and orders that may still use a column: the last writer, and the readers since. A reduction counts as a write. So
/// reductions of one shard run in launch order, directly on the instance. That costs some parallelism, but gives the
/// same bits in every run without buffers to combine.
#[derive(Default)]
pub(crate) struct Users {
    writer: Option<TaskId>,
    readers: SmallVec<[TaskId; 2]>,
    /// Hardly any column has others.
    others: Option<Box<OtherUsers>>,
}

#[derive(Default)]
struct OtherUsers {
    /// Launches that later users are part of. They are over when those are, and others follow both.
    around: Vec<TaskId>,
    /// Orders that [bring](Does::Brings) values, each with the number of the launcher.
    bring: Vec<(TaskId, u32)>,
    /// The last order that sends values, and the last writer at that time.
    send: Option<(TaskId, Option<TaskId>)>,
}

impl Users {
    /// The tasks that a new use must follow.
    #[inline(always)]
    pub fn earlier(&self, writes: bool, mut follow: impl FnMut(TaskId)) {
        if let Some(writer) = self.writer {
            follow(writer);
        }
        if writes {
            for reader in &self.readers {
                follow(*reader);
            }
        }
    }

    /// The users that a use by a launcher must follow, but for launches that it is part of.
    pub fn before(&self, does: Does, launcher: u32, mut follow: impl FnMut(TaskId)) {
        self.earlier(does == Does::Writes, &mut follow);
        let Some(others) = &self.others else { return };
        others.around.iter().for_each(|id| follow(*id));
        let bring = others.bring.iter().filter(|(_, of)| match does {
            Does::Reads => *of == launcher,
            Does::Writes => true,
            Does::Brings => false,
        });
        bring.for_each(|(id, _)| follow(*id));
    }

    /// Adds a use by a launcher. `is_around` tells of launches that it is part of.
    pub fn add_order(
        &mut self,
        id: TaskId,
        (does, launcher): (Does, u32),
        is_around: impl Fn(TaskId) -> bool,
        mut alive: impl FnMut(TaskId) -> bool,
    ) {
        if let Some(others) = &mut self.others {
            others.around.retain(|id| alive(*id));
            others.bring.retain(|(id, _)| alive(*id));
            if others.around.is_empty() && others.bring.is_empty() && others.send.is_none_or(|(id, _)| !alive(id)) {
                self.others = None;
            }
        }
        match does {
            Does::Reads => self.add(id, false, alive),
            Does::Brings => self.others.get_or_insert_default().bring.push((id, launcher)),
            Does::Writes => {
                let around = self.writer.iter().chain(&self.readers).filter(|earlier| is_around(**earlier));
                let around: SmallVec<[TaskId; 2]> = around.copied().collect();
                if let Some(others) = &mut self.others {
                    others.bring.clear();
                }
                if !around.is_empty() {
                    self.others.get_or_insert_default().around.extend(around);
                }
                self.add(id, true, alive);
            }
        }
    }

    /// An order sends values of the column.
    pub fn sends(&mut self, id: TaskId) {
        self.others.get_or_insert_default().send = Some((id, self.writer));
    }

    /// The last order that sends values, if nobody has written since, or if `although` somebody has. It may be over.
    pub fn last_send(&self, although: impl Fn() -> bool) -> Option<TaskId> {
        let (id, writer) = self.others.as_ref()?.send?;
        (writer == self.writer || although()).then_some(id)
    }

    /// Whether none of them is there any more.
    pub fn are_over(&self, mut alive: impl FnMut(TaskId) -> bool) -> bool {
        let others = self.others.iter().flat_map(|o| o.around.iter().chain(o.bring.iter().map(|(id, _)| id)));
        !self.writer.iter().chain(&self.readers).chain(others).any(|id| alive(*id))
    }

    #[inline(always)]
    pub fn add(&mut self, id: TaskId, writes: bool, mut alive: impl FnMut(TaskId) -> bool) {
        if writes {
            self.writer = Some(id);
            if !self.readers.is_empty() {
                self.readers.clear();
            }
            return;
        }
        if self.readers.len() == self.readers.capacity() {
            self.readers.retain(|t| alive(*t));
        }
        self.readers.push(id);
    }
}

thread_local! {
    /// Memory of unused columns. It is shared by all processors that one thread drives, which may be many.
    static SPARE: RefCell<Vec<Rc<Column>>> = const { RefCell::new(Vec::new()) };
}

impl Data {
    /// Finds or makes the instance of a column.
    pub fn store(
        &self,
        effects: &Effects,
        key: ColumnKey,
        field: &FieldInfo,
        launch: LaunchKey,
        shared_home: Option<ProcessorId>,
    ) -> Result<Store, Error> {
        Ok(match shared_home {
            None => Store::Owned(self.owned_instance(effects, key, field, launch)?),
            Some(home) => {
                let here = home == effects.id;
                let instance = if here {
                    Some(self.shared_instance(effects, key, field, launch)?)
                } else {
                    self.attached(launch, &key)
                };
                let each_alone = effects.machine().processors() == effects.machine().nodes();
                Store::Shared { home, instance, idle: if each_alone { Idle::Never } else { Idle::None } }
            }
        })
    }

    /// The standing column of an instance of this processor, whether or not there is an instance yet. All launches use it.
    ///
    /// # Errors
    /// The tree has been destroyed.
    pub fn standing(&self, effects: &Effects, key: &ColumnKey) -> Result<Rc<Column>, Error> {
        let mut instances = self.instances.borrow_mut();
        if let Some(column) = instances.get_mut(key).and_then(|entry| entry.column.as_ref()) {
            return Ok(column.clone());
        }
        let field = effects.objects.field(key.tree, key.field)?;
        let column = Column::new(key.region(key.rect), *key, field, (NOBODY, 0), Store::of(effects.id));
        instances.stand(key, column.clone());
        Ok(column)
    }

    /// The column that orders for a launch by a launcher use.
    ///
    /// # Errors
    /// The tree has been destroyed.
    pub fn column_of(&self, effects: &Effects, launcher: u32, key: &ColumnKey) -> Result<Rc<Column>, Error> {
        let scopes = self.scopes.borrow();
        let own = scopes.get(key).and_then(|all| all.iter().find(|(of, _)| *of == launcher));
        own.map_or_else(|| self.standing(effects, key), |(_, column)| Ok(column.clone()))
    }

    /// From now on the launches by an inner task use a column of its own.
    pub fn open_scope(&self, launcher: u32, column: &Rc<Column>) {
        self.scopes.borrow_mut().entry(column.key()).or_default().push((launcher, column.clone()));
    }

    /// An inner task has ended.
    pub fn close_scope(&self, launcher: u32) {
        self.scopes.borrow_mut().retain(|_, all| {
            all.retain(|(of, _)| *of != launcher);
            !all.is_empty()
        });
    }

    /// Whether launches by inner tasks use columns of their own here.
    pub fn has_scopes(&self) -> bool {
        !self.scopes.borrow().is_empty()
    }

    /// Finds or makes the instance of a column, which a leaf task uses now.
    ///
    /// # Errors
    /// The mapper's answer can't be carried out.
    pub fn find_instance(&self, effects: &Effects, column: &Column) -> Result<(), Error> {
        let instance = self.owned_instance(effects, column.key(), column.field, column.launch)?;
        *column.store.borrow_mut() = Store::Owned(instance);
        Ok(())
    }
}
