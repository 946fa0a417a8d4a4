#![doc = include_str!("README.md")]

#[cfg_attr(target_os = "linux", path = "futex.rs")]
mod alarm;
pub(crate) mod bind;
mod clock;
mod faults;
pub(crate) mod one_thread;
pub(crate) mod park;
#[cfg(target_os = "linux")]
pub(crate) mod processes;
pub(crate) mod ring;
pub(crate) mod seeded;
mod sync;
pub(crate) mod threads;
pub(crate) mod virtual_time;

use crate::diagnose::deadlock::{Graph, ReportPart};
use crate::ids::ProcessorId;
use crate::processor::Core;
use crate::{Error, Place};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

pub use bind::{Binding, Team};
pub use faults::{Faults, Pause, ProcessorLoss, SlowLink};
pub use virtual_time::{CostLevel, Costs, Link, TaskCost, VirtualMachine};

/// How long a driver sleeps while somebody outside holds a waker, before it checks whether that is still so.
const OUTSIDE: Duration = Duration::from_millis(50);

/// The result of a top-level task, of any type.
pub(crate) type AnyResult = Box<dyn Any + Send>;
/// The result of a node's copy of the top-level task, once it has ended.
pub(crate) type Outcome = Rc<RefCell<Option<Result<AnyResult, Error>>>>;
/// Starts a node's copy of the top-level task on its first processor.
pub(crate) type Begin<'a> = dyn Fn(&Rc<Core>) -> Outcome + Send + Sync + 'a;

/// The error of a processor that ended with a panic, most likely in a destructor.
fn crashed(id: ProcessorId, panic: Box<dyn Any + Send>) -> Error {
    let place = Place { task: format!("processor {id}"), shard: None };
    Error::Panicked { place, message: crate::error::panic_message(panic) }
}

/// The error of a run that has taken too many steps. The errors of failed shards come first.
#[cold]
fn too_many_steps<'a>(most: u64, cores: impl Iterator<Item = &'a Rc<Core>>) -> Error {
    /// More can't be read in one line.
    const FAILED: usize = 4;
    let failed: BTreeSet<String> = cores.flat_map(|core| core.failed_shards()).collect();
    let failed: String = failed.iter().take(FAILED).map(|error| format!("{error}; ")).collect();
    Error::Stopped { what: format!("it was over: {failed}it has taken {most} steps, the most it may") }
}

/// The error of a run in which nothing can go on.
fn deadlock(parts: impl IntoIterator<Item = ReportPart>) -> Error {
    let graph = Graph::join(parts);
    Error::Deadlock { report: graph.text(), graph: graph.dot() }
}
