//! Events of a processor, for those who observe the run: the trace and the check for races.
//!
//! Without an observer each event is one branch on whether there is one; all else is out of line.

use super::{Effects, Waiting};
use crate::diagnose::races::BarrierKey;
use crate::diagnose::trace::record::Recorder;
use crate::ids::{ArrivalAt, ObjectId, ProcessorId, TaskId, WaitAt};
use crate::message::Message;
use crate::object::Object;
use std::cell::RefCell;

impl Effects {
    #[cold]
    #[inline(never)]
    pub(super) fn send_noted(&self, trace: &RefCell<Recorder>, to: ProcessorId, message: Message) {
        let name = message.name();
        // First, as somebody may be waiting for it.
        self.wire.send(to, message);
        trace.borrow_mut().sends(to, name);
    }

    /// An arrival at a barrier, or the end of its generation, releases somebody.
    #[inline]
    pub fn note_release(&self, object: ObjectId, generation: u64, released: &Waiting) {
        if let Some(trace) = &self.trace {
            note_release(trace, object, generation, released);
        }
    }

    /// A leaf task whose turn it is is not called here.
    pub fn note_dispatch(&self, id: TaskId) {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().dispatches(&*self.wire, id);
        }
    }

    /// Runs `f`, which sleeps until there is something to do.
    pub fn parked(&self, f: impl FnOnce()) {
        let Some(trace) = &self.trace else { return f() };
        trace.borrow_mut().parks(&*self.wire);
        f();
        trace.borrow_mut().is_idle(&*self.wire);
    }

    /// The top-level task begins, which is on no executor yet.
    pub fn note_beginning(&self) {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().top_level_begins(&*self.wire);
        }
    }

    /// Hands over what was noted, if anything was.
    pub fn hand_over_trace(&self) {
        let (Some(trace), Some(tracing)) = (&self.trace, &self.config.trace) else { return };
        tracing.add(trace.borrow_mut().hand_over(&*self.wire, self.id, self.objects.names()));
    }

    /// The barrier and the generation of a wait here, and how many wait for it.
    pub fn wait_key(&self, at: WaitAt) -> (BarrierKey, u64, usize) {
        match at {
            WaitAt::Cell { object, cell, generation } => ((object, self.id, cell), generation, 1),
            WaitAt::Phase { object, generation } => {
                let waiters = self.objects.with(object, |known| match known.map(|k| &*k.object) {
                    Some(Object::Phase(spec)) => spec.waiters.len(),
                    _ => 1,
                });
                ((object, 0, 0), generation, waiters)
            }
        }
    }
}

/// The barrier and the generation of an arrival.
pub(crate) fn arrival_key(at: ArrivalAt) -> (BarrierKey, u64) {
    match at {
        ArrivalAt::Cell(at, generation) => ((at.object, at.processor, at.cell), generation),
        ArrivalAt::Phase { object, generation, .. } => ((object, 0, 0), generation),
    }
}

#[cold]
#[inline(never)]
fn note_release(trace: &RefCell<Recorder>, object: ObjectId, generation: u64, released: &Waiting) {
    match released {
        Waiting::Task(id) => trace.borrow_mut().releases_task(object, generation, *id),
        Waiting::Shard(slot) => trace.borrow_mut().releases_shard(object, generation, *slot),
        Waiting::Chain { .. } | Waiting::Waker(_) => {}
    }
}
