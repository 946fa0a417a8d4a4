//! The regions of a shard: those that its launch gave it, and the columns that its tasks use.

use super::trees::PrivateTree;
use super::{Shard, ShardInner};
use crate::Error;
use crate::data::{Column, Columns, Store};
use crate::effects::is_private;
use crate::gang::{Slot, TaskUse};
use crate::ids::ColumnKey;
use crate::maps::HashMap;
use crate::message::{HeldRegion, Valid};
use crate::program::region::RegionView;
use maniple_regions::{Coherence, FieldId, FieldInfo, Privilege, Region, TreeId};
use smallvec::SmallVec;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

/// A region as a shard uses it, with the columns that launches have named.
// The order matters: what every task of a flow needs, wherever it runs, is in one cache line.
#[repr(C)]
pub(crate) struct LocalRegion {
    /// The shard, by [`Regions::shard`].
    shard: u64,
    /// In a flow, where the valid data of fields is. Mostly one.
    slots: RefCell<SmallVec<[Rc<Slot>; 1]>>,
    /// Mostly one or two.
    columns: RefCell<SmallVec<[Rc<Column>; 2]>>,
    pub(crate) region: Region,
    /// Whether it is a part of a region that a requirement names, and no requirement names the part.
    is_part: bool,
    /// Its private tree, if it is of one.
    tree: Option<Rc<PrivateTree>>,
}

impl LocalRegion {
    /// What the shard holds of a private tree.
    #[cold]
    fn held_privately(&self) -> &HeldRegion {
        match &self.tree {
            Some(tree) => &tree.held,
            None => unreachable!("the column of a requirement"),
        }
    }
}

impl fmt::Debug for LocalRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.region.fmt(f)
    }
}

type PrivateTrees = HashMap<TreeId, Weak<PrivateTree>>;

/// The regions of a shard. A shard that waits takes this much memory, and there are many.
pub(super) struct Regions {
    /// Tells the shard's views from views of other shards of this thread. 0 once the shard has ended.
    shard: Cell<u64>,
    /// The regions that requirements name, by position, once the shard has asked for one.
    held: OnceCell<Rc<[LocalRegion]>>,
    /// The columns of parts of these regions, once there are some.
    parts: OnceCell<Box<RefCell<Columns>>>,
    /// The private trees, once there are some.
    pub(super) trees: OnceCell<Box<RefCell<PrivateTrees>>>,
}

/// In a column of a private tree: no requirement of the launch allows its use.
const NO_REQUIREMENT: u32 = u32::MAX;

impl Default for Regions {
    fn default() -> Self {
        thread_local!(static SHARDS: Cell<u64> = const { Cell::new(0) });
        SHARDS.set(SHARDS.get() + 1);
        Self { shard: Cell::new(SHARDS.get()), held: OnceCell::new(), parts: OnceCell::new(), trees: OnceCell::new() }
    }
}

impl Regions {
    fn local(&self, region: Region, is_part: bool) -> LocalRegion {
        let (shard, columns, slots) = (self.shard.get(), RefCell::default(), RefCell::default());
        LocalRegion { shard, region, is_part, columns, slots, tree: None }
    }

    /// A view of a private tree, or of a part of it.
    pub(super) fn view_of(&self, region: Region, tree: Rc<PrivateTree>) -> RegionView {
        RegionView { locals: Rc::new([LocalRegion { tree: Some(tree), ..self.local(region, true) }]), at: 0 }
    }

    /// The regions that requirements name, by position.
    fn held(&self, held: &[HeldRegion]) -> &Rc<[LocalRegion]> {
        self.held.get_or_init(|| held.iter().map(|h| self.local(h.region, false)).collect())
    }

    /// The regions that requirements name, if the shard has asked for one.
    fn known(&self) -> &[LocalRegion] {
        self.held.get().map_or(&[], |held| held)
    }

    /// Calls `found` for each column of the field with points of the region.
    fn overlapping(&self, region: &Region, field: FieldId, mut found: impl FnMut(&Rc<Column>)) {
        for local in self.known() {
            for column in local.columns.borrow().iter() {
                if column.field.id == field && column.region.overlaps(region) {
                    found(column);
                }
            }
        }
        if let Some(parts) = self.parts.get() {
            parts.borrow().overlapping(region, field, found);
        }
    }
}

impl Shard {
    /// The view of a region that the shard holds or has made, or of a part of one. Its methods make region arguments of leaf tasks.
    /// Local; never waits.
    ///
    /// The region may be empty.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the launch of the shard names no region that contains this one, and none of its private trees does.
    /// Also when the shard has ended.
    pub fn region(&self, region: Region) -> Result<RegionView, Error> {
        self.check_running("a call of `Shard::region`")?;
        let ShardInner { held, regions, .. } = &*self.inner;
        if let Some(at) = held.iter().position(|h| h.region == region) {
            return Ok(RegionView { locals: regions.held(held).clone(), at });
        }
        if is_private(region.tree) {
            return self.part_of_private(region);
        }
        self.check_part(region)?;
        Ok(RegionView { locals: Rc::new([regions.local(region, true)]), at: 0 })
    }

    /// Refuses what a clone of the handle asks for that outlived its shard: nobody would learn of a failure.
    #[inline]
    pub(crate) fn check_running(&self, what: &str) -> Result<(), Error> {
        if self.inner.regions.shard.get() == 0 { Err(self.over_already(what)) } else { Ok(()) }
    }

    #[cold]
    fn over_already(&self, what: &str) -> Error {
        let what = format!("{what} in {}", self.place());
        Error::misuse(what, "a shard that is not over", "a `Shard` that was kept after its shard's end")
    }

    /// Refuses a region that the shard does not hold.
    fn check_part(&self, region: Region) -> Result<(), Error> {
        let what = || format!("Shard::region in {}", self.place());
        self.core().effects().objects.in_tree(region, self.part_of(), what)?;
        if self.inner.held.iter().any(|h| h.region.contains(&region)) {
            return Ok(());
        }
        Err(self.no_part(what(), region))
    }

    #[cold]
    fn no_part(&self, what: String, region: Region) -> Error {
        let held: Vec<_> = self.inner.held.iter().map(|h| self.shown(h.region)).collect();
        let expected = match held.is_empty() {
            true => "a region that the shard holds; its launch names none, add one with `reads`, `writes` or `shares`"
                .into(),
            false => format!("a part of a region that the shard was launched with ({})", held.join(", ")),
        };
        Error::misuse(what, expected, self.shown(region))
    }

    /// The column behind a requirement, after checking that the shard may use it.
    #[inline]
    pub(crate) fn column(
        &self,
        local: &LocalRegion,
        privilege: Privilege,
        coherence: Coherence,
        field: &FieldInfo,
    ) -> Result<Rc<Column>, Error> {
        if local.shard != self.inner.regions.shard.get() {
            return Err(Error::misuse("a launch's region", "a region of this shard", "one of another shard"));
        }
        let enough = |column: &&Rc<Column>| {
            let held = self.inner.held.get(column.held as usize);
            column.field.is_of_same_field(field)
                && held.unwrap_or_else(|| local.held_privately()).serves(privilege, coherence)
        };
        if let Some(column) = local.columns.borrow().iter().find(enough) {
            return Ok(column.clone());
        }
        self.make_column(local, privilege, coherence, field)
    }

    /// Makes a column, or finds the one that tasks on another view of the same region use.
    #[cold]
    fn make_column(
        &self,
        local: &LocalRegion,
        privilege: Privilege,
        coherence: Coherence,
        field: &FieldInfo,
    ) -> Result<Rc<Column>, Error> {
        let region = local.region;
        if self.flow().is_some() {
            let key = ColumnKey { tree: region.tree, field: field.id, rect: region.rect };
            let column = self.core().tasks.data.standing(self.core().effects(), &key)?;
            local.columns.borrow_mut().push(column.clone());
            return Ok(column);
        }
        let all = local.tree.as_ref().map_or(&self.inner.held[..], |tree| std::slice::from_ref(&tree.held));
        let held = self.requirement(all, region, field.id, privilege, coherence)?;
        let requirement = if local.tree.is_some() { NO_REQUIREMENT } else { held as u32 };
        let held = &all[held];
        let known = self.core().effects().objects.field(region.tree, field.id)?;
        if known != field {
            return Err(self.wrong_field(region, field));
        }
        let regions = &self.inner.regions;
        let (mut same, mut others) = (None, SmallVec::<[Rc<Column>; 8]>::new());
        let found = |other: &Rc<Column>| match other.region == region && other.held == requirement {
            true => same = Some(other.clone()),
            false => others.push(other.clone()),
        };
        match &local.tree {
            Some(tree) => tree.columns.borrow().overlapping(&region, field.id, found),
            None => regions.overlapping(&region, field.id, found),
        }
        let column = match same {
            Some(column) => column,
            None => {
                let (core, key) = (self.core(), held.key(field.id));
                let of = (self.inner.origin.launch, requirement);
                let store = match (self.inner_launcher(), &local.tree) {
                    (_, Some(tree)) => tree.store(known)?,
                    // Its gangs may use the instance, so that it is found when a task is about to run.
                    (Some(_), None) if held.is_passed_on() => Store::of(core.effects().id),
                    _ => core.tasks.data.store(core.effects(), key, known, of.0, held.shared_home())?,
                };
                let column = Column::new(region, key, known, of, store);
                others.iter().for_each(|other| column.overlaps_with(other));
                match &local.tree {
                    Some(tree) => tree.columns.borrow_mut().add(&column),
                    None if local.is_part => regions.parts.get_or_init(Box::default).borrow_mut().add(&column),
                    None => {}
                }
                column
            }
        };
        local.columns.borrow_mut().push(column.clone());
        Ok(column)
    }

    /// Makes columns of all that this inner task holds to write. Its launches use these in place of the columns that the launches
    /// of others use, who follow the inner task itself.
    pub(crate) fn open_scope(&self, launcher: u32) {
        let ShardInner { held, regions, origin, .. } = &*self.inner;
        let (data, effects) = (&self.core().tasks.data, self.core().effects());
        for (at, h) in (0u32..).zip(held.iter()).filter(|(_, h)| h.is_passed_on()) {
            for field in &h.fields {
                // Without its tree nothing can be launched on it.
                let Ok(known) = effects.objects.field(h.region.tree, *field) else { continue };
                let column = Column::new(h.region, h.key(*field), known, (origin.launch, at), Store::of(effects.id));
                data.open_scope(launcher, &column);
                regions.held(held)[at as usize].columns.borrow_mut().push(column);
            }
        }
    }

    /// Adds a use of a region by a task of a flow, after checking that it may be. Returns the column, if a task that ran here has
    /// used it.
    #[inline]
    pub(crate) fn add_use(
        &self,
        uses: &mut Vec<TaskUse>,
        local: &LocalRegion,
        field: &FieldInfo,
        (privilege, coherence): (Privilege, Coherence),
    ) -> Result<Option<Rc<Column>>, Error> {
        if local.shard == self.inner.regions.shard.get()
            && coherence != Coherence::Simultaneous
            && let Some(slot) = local.slots.borrow().iter().find(|slot| slot.is_of(field))
        {
            uses.push(TaskUse::new(slot.clone(), privilege));
            let columns = local.columns.borrow();
            return Ok(columns.iter().find(|column| column.field.is_of_same_field(field)).cloned());
        }
        uses.push(TaskUse::new(self.find_slot(local, field, coherence)?, privilege));
        Ok(None)
    }

    #[cold]
    fn find_slot(&self, local: &LocalRegion, field: &FieldInfo, coherence: Coherence) -> Result<Rc<Slot>, Error> {
        if local.shard != self.inner.regions.shard.get() {
            return Err(Error::misuse("a launch's region", "a region from `Top::region`", "one of a shard"));
        }
        if coherence == Coherence::Simultaneous {
            let what = format!("a launch in {}", self.place());
            return Err(Error::misuse(what, "exclusive or atomic coherence in a flow", "simultaneous coherence"));
        }
        let region = local.region;
        let known = self.core().effects().objects.field(region.tree, field.id)?;
        if known != field {
            return Err(self.wrong_field(region, field));
        }
        let Some(flow) = self.flow() else { unreachable!("a task of a flow") };
        let key = ColumnKey { tree: region.tree, field: field.id, rect: region.rect };
        let slot = flow.planner.versions.borrow_mut().slot(&key, known);
        let mut slots = local.slots.borrow_mut();
        slots.retain(|slot| slot.is_live());
        if slot.is_live() {
            slots.push(slot.clone());
        }
        Ok(slot)
    }

    /// The view of a region for tasks of a flow.
    pub(crate) fn region_of_flow(&self, region: Region) -> Result<RegionView, Error> {
        self.core().effects().objects.in_tree(region, self.part_of(), || "a call of `Top::region`".into())?;
        Ok(RegionView { locals: Rc::new([self.inner.regions.local(region, true)]), at: 0 })
    }

    /// The position of the held region that allows a leaf task this use of a field.
    fn requirement(
        &self,
        held: &[HeldRegion],
        region: Region,
        field: FieldId,
        privilege: Privilege,
        coherence: Coherence,
    ) -> Result<usize, Error> {
        let gives = |h: &HeldRegion| h.fields.contains(&field) && h.region.contains(&region);
        if let Some(found) = held.iter().position(|h| h.serves(privilege, coherence) && gives(h)) {
            return Ok(found);
        }
        let is_shared = |coherence| coherence == Coherence::Simultaneous;
        let is_other_kind = |h: &HeldRegion| is_shared(h.coherence) != is_shared(coherence);
        if let Some(h) = held.iter().find(|h| gives(h) && h.privilege.covers(privilege) && is_other_kind(h)) {
            // Only the coherence is another: the same method for regions of the other kind.
            let method = match (privilege, is_shared(h.coherence)) {
                (Privilege::Read, true) => "read_shared",
                (Privilege::WriteDiscard, true) => "write_shared",
                (Privilege::ReadWrite, true) => "read_write_shared",
                (Privilege::Read, false) => "read",
                (Privilege::WriteDiscard, false) => "write",
                (Privilege::ReadWrite, false) => "read_write",
                (Privilege::Reduce(_), _) => "read_write_shared",
            };
            let expected = format!(
                "{} under {} coherence, as the shard holds {} (use `{method}`)",
                self.field_name(region, field),
                h.coherence,
                self.shown(h.region)
            );
            let came = format!("{privilege} under {coherence} coherence");
            return Err(Error::misuse(format!("a launch in {}", self.place()), expected, came));
        }
        Err(self.not_held(held, region, field, privilege, coherence))
    }

    fn not_held(
        &self,
        held: &[HeldRegion],
        region: Region,
        field: FieldId,
        privilege: Privilege,
        coherence: Coherence,
    ) -> Error {
        let what = format!("a launch in {}", self.place());
        let name = self.field_name(region, field);
        let held = held.iter().filter(|h| h.region.contains(&region));
        if let Some(h) = held.clone().find(|h| h.fields.contains(&field)) {
            let held = self.shown(h.region);
            let expected = format!("at most {} under {} coherence on {name} of {held}", h.privilege, h.coherence);
            let hint = match h.coherence {
                _ if h.privilege.covers(privilege) => "",
                Coherence::Simultaneous => "; `shares` it with that privilege",
                _ => "; hold it with `writes`",
            };
            return Error::misuse(what, expected, format!("{privilege} under {coherence} coherence{hint}"));
        }
        if let Err(e) = self.core().effects().objects.field(region.tree, field) {
            return e;
        }
        let fields: Vec<_> = held.flat_map(|h| &h.fields).map(|f| self.field_name(region, *f)).collect();
        let expected = match fields.is_empty() {
            true => format!("a field that the shard holds on {} (its launch names none)", self.shown(region)),
            false => {
                format!("one of the fields that the shard holds on {} ({})", self.shown(region), fields.join(", "))
            }
        };
        Error::misuse(what, expected, name)
    }

    pub(super) fn shown(&self, region: Region) -> String {
        self.core().effects().objects.shown(region)
    }

    fn field_name(&self, region: Region, field: FieldId) -> String {
        self.core().effects().objects.field_name(region.tree, field)
    }

    fn wrong_field(&self, region: Region, field: &FieldInfo) -> Error {
        let known = self.core().effects().objects.field(region.tree, field.id);
        let expected = known.map_or_else(|e| e.to_string(), |f| format!("field `{}` of {}", f.name, f.type_name));
        let came = format!("field `{}` of {}", field.name, field.type_name);
        Error::misuse(format!("a launch on {} in {}", self.shown(region), self.place()), expected, came)
    }

    /// Gives up the columns of a shard that has ended. The program may have kept views of them.
    pub(crate) fn give_up_columns(&self) {
        let regions = &self.inner.regions;
        if let Some(inner) = self.inner_launcher() {
            inner.ended();
            self.core().tasks.data.close_scope(inner.number);
            self.core().gangs.forget_columns();
        }
        regions.shard.set(0);
        if let Some(parts) = regions.parts.get() {
            parts.take().each(|column| column.release(self.processor()));
        }
        for local in regions.known() {
            local.columns.take().into_iter().for_each(Column::spare);
        }
        if let Some(trees) = regions.trees.get() {
            let kept: Vec<_> = trees.borrow().values().filter_map(Weak::upgrade).collect();
            kept.iter().for_each(|tree| tree.give_up());
        }
    }

    pub(crate) fn take_valid(&self) -> Vec<Valid> {
        let Some(parent) = self.inner.parent.get() else {
            return Vec::new();
        };
        let versions = parent.planner.versions.borrow();
        // Copies of data that it only read need not be reported, and may be old by now.
        let held = self.inner.held.iter().filter(|h| h.privilege.writes());
        let columns = held.flat_map(|h| h.fields.iter().map(move |&f| (h, f)));
        columns.flat_map(|(h, field)| versions.within(&h.key(field))).collect()
    }
}
