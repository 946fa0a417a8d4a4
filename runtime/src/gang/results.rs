//! A launch until all of its shards are over: whom their results go to.

use super::versions::Versions;
use crate::core::Core;
use crate::deadlock::Node;
use crate::future::Resolver;
use crate::message::{BatchDone, LaunchKey, Message, ProcessorId};
use crate::parcel::Parcel;
use crate::races::Clock;
use crate::{Error, Place};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Takes one shard's result and, where races are looked for, what comes before it.
pub(super) type Settle = Box<dyn FnMut(&Rc<Core>, u32, Result<Parcel, Error>, Option<&Clock>)>;

/// A launch whose shards are not all over.
pub(crate) struct LaunchState {
    pub(super) key: LaunchKey,
    /// Who launched, for reports, and which shard that is.
    pub(super) by: Place,
    pub(super) node: Option<Node>,
    /// Batches that have not reported.
    pub(super) left: Cell<usize>,
    /// Processors that wait for the end of the whole launch.
    pub(super) held: Vec<ProcessorId>,
    pub(super) shards: u32,
    pub(super) settle: RefCell<Settle>,
    /// Why shards failed that are over. Whoever awaits them all has seen it and still waits for the others.
    pub(super) failed: RefCell<Vec<Error>>,
    pub(super) versions: Rc<RefCell<Versions>>,
    pub(super) over: RefCell<Option<Resolver<()>>>,
}

impl LaunchState {
    pub fn key(&self) -> LaunchKey {
        self.key
    }

    pub fn by(&self) -> Place {
        self.by.clone()
    }

    pub fn node(&self) -> Option<Node> {
        self.node
    }

    /// Why shards failed.
    pub fn failed(&self) -> Vec<Error> {
        self.failed.borrow().clone()
    }

    /// Fails every shard whose result has not come.
    pub fn give_up(&self, core: &Rc<Core>, error: &Error) {
        for shard in 0..self.shards {
            (self.settle.borrow_mut())(core, shard, Err(error.poisons(self.by())), None);
        }
        if let Some(over) = self.over.borrow_mut().take() {
            over.settle(core, Err(error.clone()));
        }
    }

    /// Takes in one processor's results; true when it was the last.
    pub fn take(&self, core: &Rc<Core>, #[allow(unused_mut)] mut done: BatchDone) -> bool {
        #[cfg(feature = "plant")]
        if let [(a, _), (b, _), ..] = &mut *done.results
            && core.config.strikes(crate::plant::Bug::SwappedResults)
        {
            std::mem::swap(a, b);
        }
        for v in &done.valid {
            self.versions.borrow_mut().write(&v.column, v.from, v.at);
        }
        for (shard, result) in done.results {
            if let Err(e) = &result {
                self.failed.borrow_mut().push(e.clone());
            }
            let past = core.config.races.as_ref().map(|races| races.end_of(self.key, shard));
            (self.settle.borrow_mut())(core, shard, result, past.as_ref());
        }
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            for &p in &self.held {
                core.send(p, Message::LaunchOver { launch: self.key });
            }
            if let Some(over) = self.over.borrow_mut().take() {
                if let Some(races) = &core.config.races {
                    over.happens(&races.launch_over(core, self.key));
                }
                over.settle(core, Ok(()));
            }
        }
        self.left.get() == 0
    }
}
