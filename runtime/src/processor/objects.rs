//! What the top-level task has made, as far as this processor knows, and the messages that came too early.

use crate::Error;
use crate::barrier::Bank;
use crate::barrier::phases::PhaseLocal;
use crate::ids::EMPTY;
use crate::ids::{ObjectId, ProcessorId};
use crate::maps::HashMap;
use crate::message::Message;
use crate::object::Object;
use crate::processor::Core;
use crate::replay::Chains;
use maniple_regions::{FieldInfo, Region, TreeId};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// One object and its part on this processor. Shared by `Rc`, so that looking an object up touches no counter that
/// another processor touches too.
pub(crate) struct Local {
    pub id: ObjectId,
    pub object: Arc<Object>,
    pub bank: RefCell<Bank>,
    /// Those of a replayed object that shards of this processor call. They are large.
    pub chains: Option<Box<Chains>>,
}

#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) list: Vec<Rc<Local>>,
    pub(crate) phases: HashMap<ObjectId, PhaseLocal>,
    /// Messages about objects this processor does not know yet.
    pub(crate) early: Vec<(ProcessorId, Message)>,
}

impl Objects {
    pub fn phase(&mut self, object: ObjectId) -> Option<&mut PhaseLocal> {
        self.phases.get_mut(&object)
    }

    #[inline]
    pub fn get(&self, object: ObjectId) -> Option<&Local> {
        self.list.get(object as usize).map(|l| &**l)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Rc<Local>, Option<&PhaseLocal>)> {
        self.list.iter().map(|l| (l, self.phases.get(&l.id)))
    }
}

impl Local {
    /// What a cell is called in reports.
    pub fn cell_name(&self, processor: ProcessorId, cell: u32) -> String {
        let half = if cell & EMPTY == 0 { "ready" } else { "empty" };
        match &*self.object {
            Object::Pairs(p) => match p.ends(processor, cell) {
                Some((from, to)) => format!("`{}` {half} of pair shard {from} -> shard {to}", p.name),
                None => format!("`{}` {half} cell {}", p.name, cell & !EMPTY),
            },
            o => o.describe(),
        }
    }
}

/// An object without state on this processor: processors that one thread drives, which may be many, share it.
fn of_all(id: ObjectId, object: &Arc<Object>, new: impl FnOnce() -> Rc<Local>) -> Rc<Local> {
    thread_local! {
        static LAST: RefCell<Weak<Local>> = const { RefCell::new(Weak::new()) };
    }
    let same = |last: &Rc<Local>| last.id == id && Arc::ptr_eq(&last.object, object);
    LAST.with_borrow_mut(|last| {
        last.upgrade().filter(same).unwrap_or_else(|| {
            let local = new();
            *last = Rc::downgrade(&local);
            local
        })
    })
}

impl Core {
    #[inline]
    pub fn knows(&self, object: ObjectId) -> bool {
        (object as usize) < self.objects.borrow().list.len()
    }

    pub fn known(&self) -> u32 {
        self.objects.borrow().list.len() as u32
    }

    pub(crate) fn stash(&self, from: ProcessorId, message: Message) {
        self.objects.borrow_mut().early.push((from, message));
    }

    #[inline]
    pub fn local(&self, object: ObjectId) -> Option<Rc<Local>> {
        self.objects.borrow().list.get(object as usize).cloned()
    }

    /// What `f` makes of an object; it may not make new ones.
    #[inline]
    pub fn with_object<T>(&self, object: ObjectId, f: impl FnOnce(Option<&Local>) -> T) -> T {
        f(self.objects.borrow().get(object))
    }

    pub(crate) fn is_phase(&self, object: ObjectId) -> bool {
        self.objects.borrow().phases.contains_key(&object)
    }

    /// Adds the next object and takes in what had come for it.
    pub fn define_here(self: &Rc<Self>, object: Arc<Object>) {
        let members = |table: &crate::object::GangTable| table.members[self.id as usize].len();
        let (mut bank, mut chains, mut phase) = (Bank::default(), None, None);
        match &*object {
            Object::Pairs(p) => {
                bank = Bank::new(p.ready_count[self.id as usize] as usize, members(&p.gang));
            }
            Object::Phase(spec) => phase = Some(PhaseLocal::new(spec, self.id)),
            Object::Replay(r) if members(&r.gang) > 0 => {
                chains = Some(Box::new(Chains::new(r, self.known(), self.id)));
            }
            Object::Replay(_) | Object::Tree(_) | Object::Task(_) | Object::Gang(_) => {}
        }
        let early = {
            let mut objects = self.objects.borrow_mut();
            let id = objects.list.len() as ObjectId;
            objects.phases.extend(phase.map(|p| (id, p)));
            let stateless = chains.is_none() && bank.is_empty();
            let local = || Rc::new(Local { id, object: object.clone(), bank: RefCell::new(bank), chains });
            objects.list.push(if stateless { of_all(id, &object, local) } else { local() });
            std::mem::take(&mut objects.early)
        };
        for (from, message) in early {
            self.deliver(from, message);
        }
        if let Some(e) = self.lost() {
            self.give_up_object(self.known() - 1, e);
        }
    }

    /// Refuses a region with points that its tree does not have; `what` says who names it.
    pub fn in_tree(&self, region: Region, what: impl FnOnce() -> String) -> Result<(), Error> {
        self.with_object(region.tree.0, |local| match local.map(|l| &*l.object) {
            Some(Object::Tree(t)) if t.rect.contains_rect(&region.rect) => Ok(()),
            Some(Object::Tree(t)) => {
                let expected = format!("a part of region tree `{}`, which is {}", t.name, t.rect);
                Err(Error::misuse(what(), expected, region))
            }
            _ => Err(Error::misuse(what(), "a region of a tree made with `Top::tree`", region)),
        })
    }

    /// What is known of a field of a tree.
    pub fn field(&self, tree: TreeId, field: maniple_regions::FieldId) -> Result<&'static FieldInfo, Error> {
        self.with_object(tree.0, |local| match local.map(|l| &*l.object) {
            Some(Object::Tree(t)) => t.field(field).ok_or_else(|| {
                let known: Vec<_> = t.fields.iter().map(|f| f.name).collect();
                Error::misuse(format!("region tree `{}`", t.name), format!("one of its fields {known:?}"), field)
            }),
            _ => Err(Error::misuse("a region", "a region of a tree made with `Top::tree`", tree)),
        })
    }
}
