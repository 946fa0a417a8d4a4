//! A leaf task that runs on another processor of the node.

use super::Work;
use crate::Error;
use crate::ids::TaskId;
use crate::names::TaskName;
use crate::payload::Payload;
use maniple_regions::Lease;
use std::any::Any;

/// A leaf task that no longer refers to this processor's futures, so that it can run on another thread.
pub(crate) trait SendTask: Send {
    fn run(&mut self, leases: &mut [Lease], values: &mut [Payload]) -> Result<(), Box<Error>>;
    /// The `Option` that holds the result.
    fn output(&mut self) -> &mut dyn Any;
}

/// A leaf task on its way to another processor of the node and back.
pub(crate) struct Offloaded {
    pub home: TaskId,
    pub work: Away,
    pub shard: u32,
    pub task: Box<dyn SendTask>,
    pub leases: Vec<Lease>,
    pub values: Vec<Payload>,
    pub outcome: Result<(), Box<Error>>,
    /// When the function began and ended, if the mapper wants a profile.
    pub ran: Option<(u64, u64)>,
}

impl std::fmt::Debug for Offloaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Offloaded({:?})", self.home)
    }
}

/// The work of a leaf task that is sent to another processor.
#[derive(Clone, Copy)]
pub(crate) struct Away {
    pub name: TaskName,
    pub takes: u64,
    pub bytes: usize,
}

impl Work for Away {
    fn name(&self) -> TaskName {
        self.name
    }
    fn takes(&self) -> u64 {
        self.takes
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}
