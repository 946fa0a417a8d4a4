//! The objects made by the top-level task, as far as this processor knows them.
//!
//! Objects are numbered in the order in which they are made. All nodes run the top-level task alike, so they agree on
//! each number without a message. The other processors of a node are told by `Define`. A processor may get a message
//! about an object that it does not know yet; it keeps such messages until it does (`Core::early`).

use crate::Error;
use crate::ids::ObjectId;
use crate::object::{EdgeTable, GangTable, Object};
use maniple_regions::{FieldInfo, Region, TreeId};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// An object and its number. It is shared by `Rc`, so that a look-up touches no counter of another processor.
pub(crate) struct Known {
    pub id: ObjectId,
    pub object: Arc<Object>,
}

/// The objects, in the order in which they were made.
#[derive(Default)]
pub(crate) struct Objects(RefCell<Vec<Rc<Known>>>);

impl Known {
    /// The entry of an object. All processors that one thread drives share it, as they may be many.
    fn of_thread(id: ObjectId, object: &Arc<Object>) -> Rc<Self> {
        thread_local! {
            static LAST: RefCell<Weak<Known>> = const { RefCell::new(Weak::new()) };
        }
        let same = |last: &Rc<Known>| last.id == id && Arc::ptr_eq(&last.object, object);
        LAST.with_borrow_mut(|last| {
            last.upgrade().filter(same).unwrap_or_else(|| {
                let known = Rc::new(Self { id, object: object.clone() });
                *last = Rc::downgrade(&known);
                known
            })
        })
    }
}

impl Known {
    /// The table of edges, if the object is one.
    pub fn edges(&self) -> Option<&EdgeTable> {
        match &*self.object {
            Object::Edges(edges) => Some(edges),
            _ => None,
        }
    }
}

impl Objects {
    /// How many objects there are.
    #[inline]
    pub fn len(&self) -> u32 {
        self.0.borrow().len() as u32
    }

    /// Adds the next object and returns its number.
    pub fn add(&self, object: &Arc<Object>) -> ObjectId {
        let id = self.len();
        self.0.borrow_mut().push(Known::of_thread(id, object));
        id
    }

    #[inline]
    pub fn get(&self, object: ObjectId) -> Option<Rc<Known>> {
        self.0.borrow().get(object as usize).cloned()
    }

    /// A region as errors and reports name it.
    pub fn shown(&self, region: Region) -> String {
        self.with(ObjectId::from(region.tree.0), |object| match object {
            Some(tree @ Object::Tree(_)) => format!("{} of {}", region.rect, tree.describe()),
            _ => region.to_string(),
        })
    }

    /// The edges between shards of a gang.
    pub fn edges_of(&self, gang: &GangTable) -> Vec<Rc<Known>> {
        let is_wanted = |known: &&Rc<Known>| known.edges().is_some_and(|edges| edges.gang.id == gang.id);
        self.0.borrow().iter().filter(is_wanted).cloned().collect()
    }

    /// Applies `f` to an object; `f` may not make new objects.
    #[inline]
    pub fn with<T>(&self, object: ObjectId, f: impl FnOnce(Option<&Object>) -> T) -> T {
        f(self.0.borrow().get(object as usize).map(|known| &*known.object))
    }

    /// Shows each object.
    pub fn each(&self, each: impl FnMut(&Rc<Known>)) {
        self.0.borrow().iter().for_each(each);
    }

    /// The name of an object in reports.
    pub fn name(&self, object: ObjectId) -> String {
        self.with(object, |o| o.map_or_else(|| format!("object {object}"), Object::describe))
    }

    /// The names of all objects.
    pub fn names(&self) -> Vec<String> {
        self.0.borrow().iter().map(|known| known.object.describe()).collect()
    }

    /// Refuses a region with points outside its tree; `what` describes who uses it.
    pub fn in_tree(&self, region: Region, what: impl FnOnce() -> String) -> Result<(), Error> {
        self.with(region.tree.0, |object| match object {
            Some(Object::Tree(t)) if t.rect.contains_rect(&region.rect) => Ok(()),
            Some(Object::Tree(t)) => {
                let expected = format!("a part of region tree `{}`, which is {}", t.name, t.rect);
                Err(Error::misuse(what(), expected, region))
            }
            _ => Err(Error::misuse(what(), "a region of a tree made with `Top::region_tree`", region)),
        })
    }

    /// Looks up a field of a tree.
    pub fn field(&self, tree: TreeId, field: maniple_regions::FieldId) -> Result<&'static FieldInfo, Error> {
        self.with(tree.0, |object| match object {
            Some(Object::Tree(t)) => t.field(field).ok_or_else(|| {
                let known: Vec<_> = t.fields.iter().map(|f| format!("{} `{}`", f.id.0, f.name)).collect();
                let expected = format!("one of its fields ({})", known.join(", "));
                Error::misuse(format!("region tree `{}`", t.name), expected, field)
            }),
            _ => Err(Error::misuse("a region", "a region of a tree made with `Top::region_tree`", tree)),
        })
    }
}
