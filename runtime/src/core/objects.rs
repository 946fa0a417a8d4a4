//! What the top-level task has made, as far as this processor knows, and the messages that came too early.

use super::{Bank, Core};
use crate::Error;
use crate::message::{Message, ObjectId, ProcessorId};
use crate::object::{EMPTY, Object};
use crate::replay::Replay;
use maniple_mapper::Priority;
use maniple_regions::{FieldInfo, TreeId};
use std::rc::Rc;
use std::sync::Arc;

/// One object and its local part.
struct Local {
    /// In an `Rc` of this processor, so that looking an object up touches no counter another processor shares.
    object: Rc<Arc<Object>>,
    bank: Bank,
    phase: Option<super::barriers::PhaseLocal>,
    replay: Option<Box<dyn Replay>>,
    priority: Priority,
}

#[derive(Default)]
pub(crate) struct Objects {
    list: Vec<Local>,
    /// Messages about objects this processor does not know yet.
    early: Vec<(ProcessorId, Message)>,
}

impl Objects {
    #[inline]
    pub fn bank(&mut self, object: ObjectId) -> &mut Bank {
        &mut self.list[object as usize].bank
    }

    pub fn phase(&mut self, object: ObjectId) -> Option<&mut super::barriers::PhaseLocal> {
        self.list.get_mut(object as usize)?.phase.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object, &Bank, Option<&super::barriers::PhaseLocal>)> {
        (0..).zip(&self.list).map(|(i, l)| (i, &**l.object, &l.bank, l.phase.as_ref()))
    }

    pub fn cell_name(&self, processor: ProcessorId, object: ObjectId, cell: u32) -> String {
        let half = if cell & EMPTY == 0 { "ready" } else { "empty" };
        match self.list.get(object as usize).map(|l| &**l.object) {
            Some(Object::Pairs(p)) => match p.ends(processor, cell) {
                Some((from, to)) => {
                    format!("`{}` {half} of pair shard {from} -> shard {to}", p.name)
                }
                None => format!("`{}` {half} cell {}", p.name, cell & !EMPTY),
            },
            Some(Object::Replay(r)) => {
                let per = if cell & EMPTY == 0 { r.spec.ready_cells() } else { r.spec.empty_cells() }.max(1);
                let local = (cell & !EMPTY) / per;
                let shard = r.gang.members[processor as usize].get(local as usize).copied().unwrap_or(u32::MAX);
                format!("`{}` {half} {} of shard {shard}", r.spec.name(), (cell & !EMPTY) % per)
            }
            Some(o) => o.describe(),
            None => format!("object {object}, {half} cell {}", cell & !EMPTY),
        }
    }
}

impl Core {
    #[inline]
    pub fn with_bank<R>(&self, object: ObjectId, f: impl FnOnce(&mut Bank) -> R) -> R {
        f(self.objects.borrow_mut().bank(object))
    }

    #[inline]
    pub fn knows(&self, object: ObjectId) -> bool {
        (object as usize) < self.objects.borrow().list.len()
    }

    pub fn known(&self) -> u32 {
        self.objects.borrow().list.len() as u32
    }

    pub(super) fn stash(&self, from: ProcessorId, message: Message) {
        self.objects.borrow_mut().early.push((from, message));
    }

    pub fn object(&self, object: ObjectId) -> Option<Rc<Arc<Object>>> {
        self.objects.borrow().list.get(object as usize).map(|l| l.object.clone())
    }

    pub(super) fn is_phase(&self, object: ObjectId) -> bool {
        self.objects.borrow().list.get(object as usize).is_some_and(|l| l.phase.is_some())
    }

    #[inline]
    pub(super) fn chain_priority(&self, object: ObjectId) -> Priority {
        self.objects.borrow().list[object as usize].priority
    }

    /// Adds the next object and takes in what had come for it.
    pub fn define_here(self: &Rc<Self>, object: Arc<Object>) {
        let members = |table: &crate::object::GangTable| table.members[self.id as usize].len();
        let mut priority = Priority::NORMAL;
        let mut replay = None;
        let mut phase = None;
        let mut bank = Bank::default();
        match &*object {
            Object::Pairs(p) => {
                bank = Bank::new(p.ready_count[self.id as usize] as usize, members(&p.gang), false);
            }
            Object::Phase(spec) => phase = Some(super::barriers::PhaseLocal::new(spec, self.id)),
            Object::Replay(r) => {
                let shards = &r.gang.members[self.id as usize];
                let (ready, empty) = (r.spec.ready_cells() as usize, r.spec.empty_cells() as usize);
                bank = Bank::new(ready * shards.len(), empty * shards.len(), true);
                replay = Some(r.spec.materialise(shards, r.gang.shards()));
                priority = r.mapping.priority;
            }
            Object::Tree(_) | Object::Task(_) | Object::Gang(_) => {}
        }
        let early = {
            let mut objects = self.objects.borrow_mut();
            objects.list.push(Local { object: Rc::new(object), bank, phase, replay, priority });
            std::mem::take(&mut objects.early)
        };
        for (from, message) in early {
            self.deliver(from, message);
        }
    }

    pub fn take_replay(&self, object: ObjectId) -> Option<Box<dyn Replay>> {
        self.objects.borrow_mut().list.get_mut(object as usize)?.replay.take()
    }

    pub fn put_replay(&self, object: ObjectId, replay: Box<dyn Replay>) {
        self.objects.borrow_mut().list[object as usize].replay = Some(replay);
    }

    /// What is known of a field of a tree.
    pub fn field(&self, tree: TreeId, field: maniple_regions::FieldId) -> Result<FieldInfo, Error> {
        let object = self.object(tree.0);
        match object.as_ref().map(|o| &***o) {
            Some(Object::Tree(t)) => t.fields.get(field).copied().ok_or_else(|| {
                let known: Vec<_> = t.fields.fields().iter().map(|f| f.name).collect();
                Error::misuse(format!("region tree `{}`", t.name), format!("one of its fields {known:?}"), field)
            }),
            _ => Err(Error::misuse("a region", "a region of a tree made with `Top::tree`", tree)),
        }
    }
}
