//! The regions of a shard: those that its launch gave it, and the columns that its tasks use.

use super::Shard;
use crate::Error;
use crate::data::{Column, Store};
use crate::gang::{Right, Versions};
use crate::ids::ColumnKey;
use crate::message::{Held, Valid};
use crate::program::region::RegionView;
use maniple_regions::{Coherence, FieldId, FieldInfo, Privilege, Region};
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;

pub(super) struct LocalRegion {
    which: Which,
    /// Mostly one or two.
    columns: SmallVec<[NamedField; 2]>,
}

/// A region that a shard uses. Mostly a requirement names it, and then it is not stored again.
enum Which {
    Held(u32),
    Part(Box<Region>),
}

impl LocalRegion {
    fn region<'a>(&'a self, held: &'a [Held]) -> &'a Region {
        match &self.which {
            Which::Held(number) => &held[*number as usize].region,
            Which::Part(region) => region,
        }
    }
}

/// A field of a region that a launch has named, and the requirement of the shard that allows it.
struct NamedField {
    held: usize,
    column: Rc<Column>,
}

impl Shard {
    /// The view of a region that the shard holds, or of a part of one. Its methods make region arguments of leaf tasks.
    /// Local; never waits.
    ///
    /// The region may be empty.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the launch of the shard names no region that contains this one.
    pub fn region(&self, region: Region) -> Result<RegionView, Error> {
        let mut regions = self.inner.regions.borrow_mut();
        if regions.is_empty() {
            regions.reserve_exact(self.inner.held.len());
        }
        let held = self.inner.held.iter().position(|h| h.region == region);
        let is_it = |r: &LocalRegion| match (&r.which, held) {
            (Which::Held(number), Some(held)) => *number as usize == held,
            (Which::Part(part), None) => **part == region,
            _ => false,
        };
        if let Some(index) = regions.iter().position(is_it) {
            return Ok(RegionView { index: index as u32, region });
        }
        let index = regions.len() as u32;
        let which = match held {
            // The launch has checked that it is in its tree.
            Some(number) => Which::Held(number as u32),
            None => {
                self.check_part(region)?;
                Which::Part(Box::new(region))
            }
        };
        regions.push(LocalRegion { which, columns: SmallVec::new() });
        Ok(RegionView { index, region })
    }

    /// Refuses a region that the shard does not hold.
    #[cold]
    fn check_part(&self, region: Region) -> Result<(), Error> {
        let what = || format!("Shard::region in {}", self.place());
        self.core().effects().objects.in_tree(region, self.part_of(), what)?;
        if self.inner.held.iter().any(|h| h.region.contains(&region)) {
            return Ok(());
        }
        let held: Vec<_> = self.inner.held.iter().map(|h| self.shown(h.region)).collect();
        let expected = match held.is_empty() {
            true => "a region that the shard holds; its launch names none, add one with `reads`, `writes` or `shares`"
                .into(),
            false => format!("a part of a region that the shard was launched with ({})", held.join(", ")),
        };
        Err(Error::misuse(what(), expected, self.shown(region)))
    }

    /// The column behind a requirement, after checking that the shard may use it.
    #[inline]
    pub(crate) fn column(
        &self,
        index: u32,
        privilege: Privilege,
        coherence: Coherence,
        field: &FieldInfo,
    ) -> Result<Rc<Column>, Error> {
        let regions = self.inner.regions.borrow();
        let Some(local) = regions.get(index as usize) else {
            return Err(Error::misuse("a launch's region", "a region of this shard", "one of another shard"));
        };
        let region = local.region(&self.inner.held);
        self.check_right(region, field, privilege)?;
        let enough = |c: &&NamedField| {
            c.column.field.is_of_same_field(field) && self.inner.held[c.held].serves(privilege, coherence)
        };
        if let Some(NamedField { column, .. }) = local.columns.iter().find(enough) {
            return Ok(column.clone());
        }
        let region = *region;
        drop(regions);
        self.make_column(index, region, privilege, coherence, field)
    }

    #[cold]
    fn make_column(
        &self,
        index: u32,
        region: Region,
        privilege: Privilege,
        coherence: Coherence,
        field: &FieldInfo,
    ) -> Result<Rc<Column>, Error> {
        let requirement = self.requirement(region, field.id, privilege, coherence)?;
        let held = &self.inner.held[requirement];
        let known = self.core().effects().objects.field(region.tree, field.id)?;
        if known != field {
            return Err(self.wrong_field(region, field));
        }
        let key = ColumnKey { tree: region.tree, field: field.id, rect: held.region.rect };
        let column = self.core().tasks.data.column(
            self.core().effects(),
            region,
            key,
            known,
            self.inner.origin.launch,
            held.shared_home(),
        )?;
        let mut regions = self.inner.regions.borrow_mut();
        for other in regions.iter().flat_map(|r| &r.columns).map(|u| &u.column) {
            if other.field.id == field.id && other.region.overlaps(&column.region) {
                column.overlaps_with(other);
            }
        }
        regions[index as usize].columns.push(NamedField { held: requirement, column: column.clone() });
        Ok(column)
    }

    /// Position of the requirement of the launch that allows a leaf task this use of a field of a region.
    fn requirement(
        &self,
        region: Region,
        field: FieldId,
        privilege: Privilege,
        coherence: Coherence,
    ) -> Result<usize, Error> {
        let held = &self.inner.held;
        let gives = |h: &Held| h.fields.contains(&field) && h.region.contains(&region);
        if let Some(found) = held.iter().position(|h| h.serves(privilege, coherence) && gives(h)) {
            return Ok(found);
        }
        let is_shared = |coherence| coherence == Coherence::Simultaneous;
        let is_other_kind = |h: &Held| is_shared(h.coherence) != is_shared(coherence);
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
        Err(self.not_held(region, field, privilege, Some(coherence)))
    }

    /// The requirements of the launch that allow an inner task this use of a field of a region.
    pub(crate) fn givers(&self, region: Region, field: FieldId, privilege: Privilege) -> Result<Vec<&Held>, Error> {
        let gives = |h: &&Held| h.region.contains(&region) && h.fields.contains(&field);
        let found: Vec<&Held> = self.inner.held.iter().filter(|h| gives(h) && h.privilege.covers(privilege)).collect();
        if found.is_empty() { Err(self.not_held(region, field, privilege, None)) } else { Ok(found) }
    }

    fn not_held(&self, region: Region, field: FieldId, privilege: Privilege, coherence: Option<Coherence>) -> Error {
        let call = if coherence.is_some() { "a launch" } else { "InnerTask::map" };
        let what = format!("{call} in {}", self.place());
        let name = self.field_name(region, field);
        let held = self.inner.held.iter().filter(|h| h.region.contains(&region));
        if let Some(h) = held.clone().find(|h| h.fields.contains(&field)) {
            let held = self.shown(h.region);
            let expected = format!("at most {} under {} coherence on {name} of {held}", h.privilege, h.coherence);
            let coherence = coherence.map_or(String::new(), |c| format!(" under {c} coherence"));
            let hint = match h.coherence {
                _ if h.privilege.covers(privilege) => "",
                Coherence::Simultaneous => "; `shares` it with that privilege",
                _ => "; hold it with `writes`",
            };
            return Error::misuse(what, expected, format!("{privilege}{coherence}{hint}"));
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

    fn shown(&self, region: Region) -> String {
        self.core().effects().objects.shown(region)
    }

    fn field_name(&self, region: Region, field: FieldId) -> String {
        let known = self.core().effects().objects.field(region.tree, field);
        known.map_or_else(|_| field.to_string(), |f| format!("field `{}`", f.name))
    }

    /// Refuses an inner task the use of data that one of its gangs may be using, or has left elsewhere.
    #[inline]
    fn check_right(&self, region: &Region, field: &FieldInfo, privilege: Privilege) -> Result<(), Error> {
        match self.inner.parent.get().map(|p| p.borrow()) {
            Some(known) if known.are_restricted() => self.check_right_of_parent(&known, region, field, privilege),
            _ => Ok(()),
        }
    }

    #[cold]
    fn check_right_of_parent(
        &self,
        known: &Versions,
        region: &Region,
        field: &FieldInfo,
        privilege: Privilege,
    ) -> Result<(), Error> {
        let right = known.right(region.tree, field.id, region.rect);
        let (needed, does) = if privilege.writes() { (Right::All, "uses") } else { (Right::Read, "writes") };
        if right >= needed {
            return Ok(());
        }
        let what = format!("a launch in {}", self.place());
        let expected = format!(
            "`InnerTask::map` of {} before this, as a gang was launched that {does} part of it",
            self.shown(*region)
        );
        Err(Error::misuse(what, expected, format!("{privilege} of field `{}` without a mapping", field.name)))
    }

    /// Clears the poison of data that the shards of a launched gang overwrite. `held` are their requirements.
    pub(crate) fn pass_on(&self, held: &[Arc<[Held]>]) {
        let poisoned: Vec<Rc<Column>> = {
            let regions = self.inner.regions.borrow();
            let columns = regions.iter().flat_map(|r| &r.columns).map(|u| &u.column);
            columns.filter(|c| c.is_poisoned_for(Privilege::Read)).cloned().collect()
        };
        for column in poisoned {
            let discards = |h: &&Held| h.privilege == Privilege::WriteDiscard && h.fields.contains(&column.field.id);
            let all = held.iter().flat_map(|held| held.iter()).filter(discards);
            all.filter(|h| h.region.overlaps(&column.region)).for_each(|h| column.clear_poison_within(h.region.rect));
        }
    }

    /// Lets an inner task find the present instances of a region that was mapped. No leaf task runs.
    pub(crate) fn take_back(&self, region: Region, field: FieldId, privilege: Privilege) -> Result<(), Error> {
        let key = ColumnKey { tree: region.tree, field, rect: region.rect };
        let right = if privilege.writes() { Right::All } else { Right::Read };
        for column in self.columns_of(region, &[field]) {
            let home = match &*column.store.borrow() {
                Store::Owned(_) => None,
                Store::Shared { home, .. } => Some(*home),
            };
            let store =
                self.core().tasks.data.store(self.core().effects(), column.key(), column.field, column.launch, home)?;
            *column.store.borrow_mut() = store;
        }
        if let Some(parent) = self.inner.parent.get() {
            parent.borrow_mut().raise(&key, right);
        }
        Ok(())
    }

    /// The columns of these fields that overlap the region.
    fn columns_of(&self, region: Region, fields: &[FieldId]) -> Vec<Rc<Column>> {
        let regions = self.inner.regions.borrow();
        let columns = regions.iter().filter(|r| r.region(&self.inner.held).overlaps(&region)).flat_map(|r| &r.columns);
        columns.map(|u| u.column.clone()).filter(|c| fields.contains(&c.field.id)).collect()
    }

    fn wrong_field(&self, region: Region, field: &FieldInfo) -> Error {
        let known = self.core().effects().objects.field(region.tree, field.id);
        let expected = known.map_or_else(|e| e.to_string(), |f| format!("field `{}` of {}", f.name, f.type_name));
        let came = format!("field `{}` of {}", field.name, field.type_name);
        Error::misuse(format!("a launch on {} in {}", self.shown(region), self.place()), expected, came)
    }

    /// Gives up the columns of a shard that is over.
    pub(crate) fn give_up_columns(&self) {
        let regions = self.inner.regions.take();
        regions.into_iter().flat_map(|r| r.columns).for_each(|used| Column::spare(used.column));
    }

    pub(crate) fn take_valid(&self) -> Vec<Valid> {
        let Some(parent) = self.inner.parent.get() else {
            return Vec::new();
        };
        let versions = parent.borrow();
        // Copies of data that it only read need not be reported, and may be old by now.
        let held = self.inner.held.iter().filter(|h| h.privilege.writes());
        let columns = held.flat_map(|h| h.fields.iter().map(move |&f| (h, f)));
        columns
            .flat_map(|(h, field)| versions.within(&ColumnKey { tree: h.region.tree, field, rect: h.region.rect }))
            .collect()
    }
}
