//! The objects made by the top-level task, as far as this processor knows them.
//!
//! Objects are numbered in the order in which they are made. All nodes run the same top-level task, so they agree on
//! each number without a message. The other processors of a node are told by `Define`. A processor may get a message
//! about an object that it does not know yet; it keeps such messages until it does (`Core::early`).
//!
//! The top-level task destroys objects. An object is then *retired*: launches of the top-level task before that go on to use
//! it, and later ones are refused. When the last of the former has ended, its memory is given back (`Core::free`). Its number is
//! not used again.
//!
//! The order of messages from one processor to another is enough for that:
//!
//! - *A later launch never finds the object.* Each copy of the top-level task sends `Destroy` to the processors of its node,
//!   and later batches from the same place come behind it. A gang that an inner task launches may come from another node. Its
//!   batch has the number of [changes](Objects::changes) that the inner task's processor knew, and waits for as many. That
//!   processor knew of the `Destroy` before the inner task began.
//! - *An earlier launch finds the object to its end.* A copy sends `Free` when it has the results of all shards of all launches
//!   before. A shard ends after its leaf tasks and calls, and an inner task after the gangs that it has launched.
//! - *What comes after `Free` is of no use.* Messages from other processors may still be under way, such as the arrival that
//!   frees a cell. Whoever would wait for them has ended. They are about a number that an object had and that is no longer in
//!   the table, and are dropped.

use super::graves::{Destroyed, Graves};
use crate::Error;
use crate::ids::{ObjectId, TopLaunch};
use crate::object::{Object, Tree};
use crate::payload::Length;
use crate::table::Table;
use maniple_regions::{FieldId, FieldInfo, Region, TreeId};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// An object and its number. It is shared by `Rc`, so that a look-up touches no counter of another processor.
pub(crate) struct Known {
    pub id: ObjectId,
    pub object: Arc<Object>,
    retired: OnceCell<Retired>,
}

/// The end of an object's use.
struct Retired {
    /// The first launch of the top-level task that may not use it.
    from: TopLaunch,
    destroyed: Destroyed,
}

/// The objects.
#[derive(Default)]
pub(crate) struct Objects {
    table: RefCell<Table<Rc<Known>>>,
    /// How many have been made.
    made: Cell<u32>,
    /// How many have been made and destroyed, both counted. All processors come to the same objects in the same order.
    changes: Cell<u64>,
    graves: RefCell<Graves>,
    /// The private trees of shards of this processor, by their numbers, and how many have been made.
    private: RefCell<Table<Rc<Known>>>,
    private_made: Cell<u32>,
}

/// Numbers from here on are those of private trees. Each processor gives its own, so they mean nothing elsewhere.
const PRIVATE: ObjectId = 1 << 31;

/// Whether a tree is one that a shard has made for itself.
#[inline]
pub(crate) fn is_private(tree: TreeId) -> bool {
    tree.0 >= PRIVATE
}

impl Known {
    /// The entry of an object. All processors that one thread drives share it, as they may be many.
    fn of_thread(id: ObjectId, object: &Arc<Object>) -> Rc<Self> {
        thread_local! {
            static LAST: RefCell<Weak<Known>> = const { RefCell::new(Weak::new()) };
        }
        let same = |last: &Rc<Known>| last.id == id && Arc::ptr_eq(&last.object, object);
        LAST.with_borrow_mut(|last| {
            last.upgrade().filter(same).unwrap_or_else(|| {
                let known = Rc::new(Self { id, object: object.clone(), retired: OnceCell::new() });
                *last = Rc::downgrade(&known);
                known
            })
        })
    }
}

impl Known {
    /// Whether the launch `by` of the top-level task may use it.
    #[inline]
    pub fn serves(&self, by: TopLaunch) -> bool {
        self.retired.get().is_none_or(|retired| by < retired.from)
    }
}

impl Objects {
    /// How many objects have been made.
    #[inline]
    pub fn made(&self) -> u32 {
        self.made.get()
    }

    /// How many objects have been made and destroyed, both counted.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Adds the next object and returns its number.
    pub fn add(&self, object: &Arc<Object>) -> ObjectId {
        let id = self.made.get();
        assert!(id < PRIVATE - 1, "a run makes fewer than 2^31 objects");
        self.made.set(id + 1);
        self.changes.set(self.changes.get() + 1);
        self.table.borrow_mut().insert(id, Known::of_thread(id, object));
        id
    }

    /// Adds a private tree.
    pub fn add_private(&self, tree: Tree) -> TreeId {
        let (mut private, object) = (self.private.borrow_mut(), Arc::new(Object::Tree(tree)));
        let id = loop {
            let made = self.private_made.get();
            self.private_made.set((made + 1) % (PRIVATE - 1));
            if private.get(PRIVATE + made).is_none() {
                break PRIVATE + made;
            }
        };
        private.insert(id, Rc::new(Known { id, object, retired: OnceCell::new() }));
        TreeId(id)
    }

    /// Forgets a private tree.
    pub fn remove_private(&self, tree: TreeId) {
        self.private.borrow_mut().remove(tree.0);
    }

    /// Objects may not be used any more by launches of the top-level task from `from` on.
    pub fn retire(&self, objects: &[(ObjectId, Destroyed)], from: TopLaunch) {
        self.changes.set(self.changes.get() + 1);
        for (object, destroyed) in objects {
            if let Some(known) = self.table.borrow().get(*object) {
                // Processors that one thread drives share the entry.
                known.retired.get_or_init(|| Retired { from, destroyed: destroyed.clone() });
            }
        }
    }

    /// Removes a retired object.
    pub fn remove(&self, object: ObjectId) -> Option<Rc<Known>> {
        let known = self.table.borrow_mut().remove(object)?;
        if let Some(Retired { destroyed, .. }) = known.retired.get() {
            self.graves.borrow_mut().add(object, known.object.describe(), destroyed.clone());
        }
        Some(known)
    }

    #[inline]
    pub fn get(&self, object: ObjectId) -> Option<Rc<Known>> {
        self.table.borrow().get(object).cloned()
    }

    /// Refuses an object that was destroyed before the launch `by` of the top-level task; `what` describes who uses it.
    #[inline]
    pub fn check(&self, object: ObjectId, by: TopLaunch, what: impl FnOnce() -> String) -> Result<(), Error> {
        match self.table.borrow().get(object) {
            Some(known) if known.serves(by) => Ok(()),
            None if object >= self.made.get() => Ok(()),
            _ => Err(self.destroyed(object, what())),
        }
    }

    /// The error of a use of an object that was destroyed.
    #[cold]
    fn destroyed(&self, object: ObjectId, what: String) -> Error {
        let (table, graves) = (self.table.borrow(), self.graves.borrow());
        let (name, at) = match (table.get(object), graves.find(object)) {
            (Some(known), _) => (known.object.describe(), known.retired.get().map(|retired| &retired.destroyed)),
            (None, Some((name, at))) => (name.clone(), Some(at)),
            (None, None) => (format!("object {object}"), None),
        };
        let at = at.map_or_else(|| "a place that is no longer known".into(), ToString::to_string);
        Error::Destroyed { what, object: name, at }
    }

    /// Whether the object was destroyed, and nobody uses it any more.
    #[cold]
    pub fn is_gone(&self, object: ObjectId) -> bool {
        object < self.made.get() && self.table.borrow().get(object).is_none()
    }

    /// A region as errors and reports name it.
    pub fn shown(&self, region: Region) -> String {
        self.with(region.tree.0, |object| match object.filter(|object| object.tree().is_some()) {
            Some(tree) => format!("{} of {}", region.rect, tree.describe()),
            None => region.to_string(),
        })
    }

    /// A field in words: by its name, if it is known.
    pub fn field_name(&self, tree: TreeId, field: FieldId) -> String {
        self.field(tree, field).map_or_else(|_| field.to_string(), |f| format!("field `{}`", f.name))
    }

    /// The objects that only shards of a gang use, and that the launch `by` of the top-level task can use.
    pub fn of_gang(&self, gang: ObjectId, by: TopLaunch) -> Vec<Rc<Known>> {
        let is_bound = |known: &Rc<Known>| known.object.gang().is_some_and(|of| of.id == gang);
        self.all().into_iter().filter(|known| is_bound(known) && known.serves(by)).collect()
    }

    /// Applies `f` to an object; `f` may not make new objects.
    #[inline]
    pub fn with<T>(&self, object: ObjectId, f: impl FnOnce(Option<&Object>) -> T) -> T {
        let table = if object < PRIVATE { &self.table } else { &self.private };
        f(table.borrow().get(object).map(|known| &*known.object))
    }

    /// How much the values of an object count for.
    pub fn length(&self, object: ObjectId) -> Length {
        self.with(object, |object| object.map_or(Length::OWN, |object| object.length()))
    }

    /// All objects, in the order in which they were made.
    pub fn all(&self) -> Vec<Rc<Known>> {
        let table = self.table.borrow();
        table.numbers().into_iter().filter_map(|object| table.get(object).cloned()).collect()
    }

    /// The name of an object in reports.
    pub fn name(&self, object: ObjectId) -> String {
        self.with(object, |there| match (there, self.graves.borrow().find(object)) {
            (Some(object), _) => object.describe(),
            (None, Some((name, _))) => name.clone(),
            (None, None) => format!("object {object}"),
        })
    }

    /// The names of the first objects, at most `most`, by number.
    pub fn names(&self, most: u32) -> Vec<String> {
        let mut names = vec![String::new(); self.made.get().min(most) as usize];
        let (all, graves) = (self.all(), self.graves.borrow());
        let there = all.iter().map(|known| (known.id, known.object.describe()));
        for (number, name) in there.chain(graves.names().map(|(number, name)| (number, name.into()))) {
            if let Some(place) = names.get_mut(number as usize) {
                *place = name;
            }
        }
        names
    }

    /// Refuses a region with points outside its tree, of a private tree, or of a tree that was destroyed before the launch `by` of the
    /// top-level task; `what` describes who uses it.
    pub fn in_tree(&self, region: Region, by: TopLaunch, what: impl Fn() -> String) -> Result<(), Error> {
        if is_private(region.tree) {
            let came = format!("{region}, of a private tree, which only the shard that has made it can use");
            return Err(Error::misuse(what(), "a region of a tree made with `Top::region_tree`", came));
        }
        self.check(region.tree.0, by, &what)?;
        self.with(region.tree.0, |object| match object.and_then(Object::tree) {
            Some(t) if t.rect.contains_rect(&region.rect) => Ok(()),
            Some(t) => {
                let expected = format!("a part of region tree `{}`, which is {}", t.name, t.rect);
                Err(Error::misuse(what(), expected, region))
            }
            None => Err(Error::misuse(what(), "a region of a tree made with `Top::region_tree`", region)),
        })
    }

    /// Looks up a field of a tree.
    pub fn field(&self, tree: TreeId, field: FieldId) -> Result<&'static FieldInfo, Error> {
        self.with(tree.0, |object| match object.and_then(Object::tree) {
            Some(t) => t.field(field).ok_or_else(|| {
                let known: Vec<_> = t.fields.iter().map(|f| format!("{} `{}`", f.id.0, f.name)).collect();
                let expected = format!("one of its fields ({})", known.join(", "));
                Error::misuse(format!("region tree `{}`", t.name), expected, field)
            }),
            None => Err(Error::misuse("a region", "a region of a tree made with `Top::region_tree`", tree)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TOP;

    /// A message about an object may come before the object is known here.
    #[test]
    fn what_is_not_made_yet_is_not_destroyed() {
        let objects = Objects::default();
        for object in [0, 1, ObjectId::MAX] {
            assert!(objects.check(object, TOP, || unreachable!("nothing is refused")).is_ok(), "object {object}");
        }
    }
}
