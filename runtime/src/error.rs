//! The errors of a run, and the places where they happen.

use crate::ids::{LaunchKey, NodeId, ProcessorId};
use crate::names::TaskName;
use maniple_barriers::BarrierError;
use maniple_mapper::MapperError;
use maniple_regions::{Privilege, Rect, RegionError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The place of an error: a task, and the shard that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Name of the task.
    pub task: String,
    /// The shard, if the task belongs to one.
    pub shard: Option<u32>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            Some(s) => write!(f, "task `{}` of shard {s}", self.task),
            None => write!(f, "task `{}`", self.task),
        }
    }
}

/// Tells the failures of a run apart: all errors that follow from one failure carry its number. It is no part of what an
/// error says, so errors that differ only in it are equal.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[doc(hidden)]
pub struct FailureNumber(u64);

impl FailureNumber {
    /// The number of a failure that ends the run anyway.
    const NONE: Self = Self(0);

    /// Failure `nth` of a processor, counted from 1.
    pub(crate) fn new(processor: ProcessorId, nth: u64) -> Self {
        Self(u64::from(processor.0) << 40 | nth)
    }

    /// The failure to encode the result of a shard, which every other node learns of.
    pub(crate) fn of_result(launch: LaunchKey, shard: u32) -> Self {
        Self(1 << 63 | launch << 32 | u64::from(shard))
    }

    pub(crate) fn get(self) -> u64 {
        self.0
    }
}

impl PartialEq for FailureNumber {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A failure on its way from the thing that failed to those who await it or depend on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// The error for those who depend on the thing that failed: an [`Error::Poisoned`].
    poison: Box<Error>,
    /// The failure began here. Those who await the thing itself get the cause of the poison.
    is_own: bool,
}

impl Failure {
    /// The failure of `place`. If `error` follows from no other failure, `fresh` gives a number.
    pub fn new(error: Error, place: impl FnOnce() -> Place, fresh: impl FnOnce() -> FailureNumber) -> Self {
        match error {
            Error::Poisoned { number, .. } if number.get() != 0 => Self { poison: Box::new(error), is_own: false },
            Error::Poisoned { place, cause, .. } => {
                Self { poison: Box::new(Error::Poisoned { place, cause, number: fresh() }), is_own: false }
            }
            _ => {
                let poison = Error::Poisoned { place: place(), cause: Box::new(error), number: fresh() };
                Self { poison: Box::new(poison), is_own: true }
            }
        }
    }

    /// An error that ends the run, whoever learns of it.
    pub fn of_the_run(error: &Error) -> Self {
        Self { poison: Box::new(error.poisons(Place { task: "the run".into(), shard: None })), is_own: true }
    }

    /// The same of what `by` has launched: it cannot go on.
    pub fn of_the_run_by(error: &Error, by: Place) -> Self {
        Self { poison: Box::new(error.poisons(by)), is_own: false }
    }

    /// The error for those who await the thing that failed.
    pub fn error(&self) -> &Error {
        match &*self.poison {
            Error::Poisoned { cause, .. } if self.is_own => cause,
            error => error,
        }
    }

    /// The error for those who depend on the thing that failed.
    pub fn poison(&self) -> &Error {
        &self.poison
    }

    pub fn number(&self) -> FailureNumber {
        self.poison.number()
    }
}

/// One side of a race: a leaf task and its use of a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RacingAccess {
    /// The task and its shard.
    pub place: Place,
    /// Its privilege on the values.
    pub privilege: Privilege,
    /// The rectangle that its argument names.
    pub rect: Rect,
}

impl fmt::Display for RacingAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} of {})", self.place, self.privilege, self.rect)
    }
}

/// An error of a run. It says what happened and where, and mostly what to do.
///
/// [`cause`](Self::cause) leads from an effect towards its origin, and [`origin`](Self::origin) gives the origin
/// itself. A program makes an error of its own with [`Error::user`].
///
/// `Debug` writes the same text as `Display`, so `fn main() -> Result<(), Error>` ends with a message for people.
#[derive(Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// A task, an operator or the top-level task panicked. The panic's message is also on stderr, with its line, unless
    /// the program has a panic hook of its own.
    #[error("{place} panicked: {message}")]
    Panicked {
        /// Which task.
        place: Place,
        /// The panic's message.
        message: String,
    },
    /// A task returned an [`Error::User`]. This adds the place.
    #[error("{place} failed: {cause}")]
    Failed {
        /// The task.
        place: Place,
        /// The error that it returned.
        cause: Box<Error>,
    },
    /// A task or a shard waited for something that failed: a task, a barrier, a call of a collective. Handle the cause.
    #[error("{place} cannot go on: {cause}")]
    Poisoned {
        /// The task or the shard that waited.
        place: Place,
        /// The error of the thing that it waited for.
        cause: Box<Error>,
        #[doc(hidden)]
        number: FailureNumber,
    },
    /// A barrier refused an arrival: one that came twice, or too far ahead. The source says which, and what to do.
    #[error("{barrier}: {source}")]
    Barrier {
        /// The barrier's kind and name.
        barrier: String,
        /// The refusal.
        source: BarrierError,
    },
    /// A region tree, a field or an instance was refused. The source says which, and what to do.
    #[error("{place}: {source}")]
    Region {
        /// The task or the object that asked for it.
        place: Place,
        /// The refusal.
        source: Box<RegionError>,
    },
    /// A call of a mapper panicked, or a mapper in a library reported a failure. Correct the mapper.
    #[error("{call} failed: {message}")]
    MapperFailed {
        /// The mapper, its call, and the subject of the call.
        call: String,
        /// The message of the panic or of the library.
        message: String,
    },
    /// A mapper gave an illegal answer. The text says which answers are legal. Correct the mapper.
    #[error(transparent)]
    Mapper(#[from] MapperError),
    /// Two shards of a launch, or two points of an index launch, interfere: the launch was refused.
    #[error("{place}: {between} interfere; {hint}")]
    Interference {
        /// The task that made the launch, or the leaf task of the points.
        place: Place,
        /// Both sides, each with its region, field, privilege and coherence.
        between: String,
        /// Advice.
        hint: String,
    },
    /// Two leaf tasks use the same values under simultaneous coherence, at least one of them writes, and nothing orders
    /// them. [`Check::Races`](crate::Check::Races) finds them. Order the tasks with a barrier, a future or a
    /// collective.
    #[error(
        "race: {first} and {second} both use {rect} of field `{field}` of {region} under simultaneous coherence, and no \
         barrier, future or collective orders them; let one of them arrive at a barrier, or return a value, that the other \
         waits for"
    )]
    Race {
        /// The region tree.
        region: String,
        /// The name of the field.
        field: String,
        /// The points that both use.
        rect: Box<Rect>,
        /// The task that ran first this time.
        first: Box<RacingAccess>,
        /// The task that ran second. It fails.
        second: Box<RacingAccess>,
    },
    /// The top-level tasks of two nodes made different calls. Debug builds,
    /// [`Check::ControlReplication`](crate::Check::ControlReplication) and all runs on several processes find this. Make the
    /// top-level task deterministic: it must not depend on time, the environment, files that change, random numbers,
    /// addresses or the order of a hash map.
    #[error(
        "the top-level task must do the same on every node, but its call {call} is\n  on node {reference}: {expected}\n  \
         on node {node}: {came}"
    )]
    Divergence {
        /// The number of the call, from 0.
        call: u64,
        /// The node with which it is compared.
        reference: NodeId,
        /// The call of that node.
        expected: String,
        /// The other node.
        node: NodeId,
        /// The call of the other node.
        came: String,
    },
    /// A call was refused: an argument is not legal, or not at this moment. The text says what is legal.
    #[error("{what}: expected {expected}, got {came}")]
    Misuse {
        /// The call, and where it was made.
        what: String,
        /// The legal arguments.
        expected: String,
        /// The argument that was given.
        came: String,
    },
    /// An object was used after [`Top::destroy`](crate::Top::destroy), or destroyed twice. Destroy it after its last use, or
    /// make another one.
    #[error(
        "{what}: {object} is no longer there: it was destroyed at {at}; destroy it after its last use, or make a new one"
    )]
    Destroyed {
        /// The call, and where it was made.
        what: String,
        /// The object's kind and name.
        object: String,
        /// The file and the line of the call that destroyed it. For an object that went with its gang, also the gang.
        at: String,
    },
    /// A wait took longer than its limit, see [`Shard::timeout`](crate::Shard::timeout). The operation is still under
    /// way and can be awaited again.
    #[error("{place} timed out after {limit:?}; the operation is still under way and can be awaited again")]
    TimedOut {
        /// The shard that waited.
        place: Place,
        /// The limit.
        limit: Duration,
    },
    /// Nothing can go on: every processor is idle, no message is in flight, and somebody still waits. The report names
    /// the causes. The chapter *When it hangs or fails* of the guide shows ten typical ones, and what to do.
    #[error("deadlock: nothing can run any more, and\n{report}")]
    Deadlock {
        /// Failed shards, causes and cycles, then a tree of those who wait, a line each. The lines below a line,
        /// indented, say for whom it waits.
        report: String,
        /// The same as a directed graph in the language of Graphviz, for `dot -Tsvg`.
        graph: String,
    },
    /// A processor stopped for ever. Today only [`Faults`](crate::Faults) on the seeded driver cause this. All waits
    /// fail with it, and so do later launches.
    #[error("processor {processor} was lost: {why}")]
    Lost {
        /// The processor.
        processor: ProcessorId,
        /// The circumstances, as far as they are known.
        why: String,
    },
    /// The run ended before a result was there, or took more steps than
    /// [`Runtime::most_steps`](crate::Runtime::most_steps) allows.
    #[error("the run ended before {what}")]
    Stopped {
        /// The event that was still to come.
        what: String,
    },
    /// A process ended before the run was over. See [`Runtime::processes`](crate::Runtime::processes).
    #[error("process {process} of the run, on {host}, is lost: {why}")]
    ProcessLost {
        /// The number of the process.
        process: u32,
        /// The name of its host.
        host: String,
        /// How it ended.
        why: String,
    },
    /// A value could not be encoded for another node, or decoded there. Look at the type's `Serialize` and
    /// `Deserialize`.
    #[error("{what} cannot cross to another process: {message}")]
    Encoding {
        /// The value.
        what: String,
        /// The encoder's message.
        message: String,
    },
    /// A trace can't be written. [`TraceFile::create`](crate::TraceFile::create) finds that before a run, and
    /// [`TraceFile::written`](crate::TraceFile::written) after it.
    #[error("the trace `{path}` can't be written: {message}")]
    Trace {
        /// The file.
        path: String,
        /// The system's message.
        message: String,
    },
    /// An error of the program itself, made with [`Error::user`].
    #[error("{0}")]
    User(String),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Makes an error of the program itself, to return from a task.
    pub fn user(message: impl fmt::Display) -> Self {
        Error::User(message.to_string())
    }

    /// The error that this one follows from, if there is one.
    pub fn cause(&self) -> Option<&Error> {
        match self {
            Error::Poisoned { cause, .. } | Error::Failed { cause, .. } => Some(cause),
            _ => None,
        }
    }

    /// The last error of the chain of [causes](Self::cause): the one that the others follow from.
    pub fn origin(&self) -> &Error {
        let mut e = self;
        while let Some(cause) = e.cause() {
            e = cause;
        }
        e
    }

    /// Of this error and a later one, the first that follows from no other failure, or else this one.
    pub(crate) fn or_cause(self, later: Self) -> Self {
        let follows = |e: &Self| matches!(e, Error::Poisoned { .. });
        if follows(&self) && !follows(&later) { later } else { self }
    }

    /// The failure that this one follows from, with the place where it happened.
    pub(crate) fn first(&self) -> &Error {
        let mut first = self;
        while let Error::Poisoned { cause, .. } = first {
            first = cause;
        }
        first
    }

    /// This error as the cause of a failure of `place`. Chains stay short: one link from the effect to the first
    /// failure.
    pub(crate) fn poisons(&self, place: Place) -> Error {
        Error::Poisoned { place, cause: Box::new(self.first().clone()), number: self.number() }
    }

    /// The same as an error of a run that has ended. In another run it is a new failure.
    pub(crate) fn of_the_past(mut self) -> Self {
        if let Error::Poisoned { number, .. } = &mut self {
            *number = FailureNumber::NONE;
        }
        self
    }

    /// The number of the failure that this error follows from.
    pub(crate) fn number(&self) -> FailureNumber {
        match self {
            Error::Poisoned { number, .. } => *number,
            _ => FailureNumber::NONE,
        }
    }

    /// This error as returned by `place`: an error of the program does not say itself where it comes from.
    pub(crate) fn returned_by(self, place: impl FnOnce() -> Place) -> Error {
        match self {
            Error::User(_) => Error::Failed { place: place(), cause: Box::new(self) },
            other => other,
        }
    }

    pub(crate) fn region(place: Place, source: RegionError) -> Self {
        Error::Region { place, source: Box::new(source) }
    }

    /// The error of an argument that does not fit its parameter. [`of_task`](Self::of_task) adds the task.
    #[cold]
    pub(crate) fn unbound(source: RegionError) -> Box<Self> {
        Box::new(Error::region(Place { task: String::new(), shard: None }, source))
    }

    /// Adds its task to the error of an argument, or to one that the task returned.
    #[cold]
    pub(crate) fn of_task(mut self: Box<Self>, of: impl FnOnce() -> Place) -> Box<Self> {
        match &mut *self {
            Error::Region { place, .. } if place.task.is_empty() => *place = of(),
            Error::User(_) => return Box::new(self.returned_by(of)),
            _ => {}
        }
        self
    }

    /// Adds the name of its task to the refusal of a launch.
    #[cold]
    pub(crate) fn of_launch(mut self, task: TaskName) -> Self {
        if let Error::Misuse { what, .. } = &mut self
            && let Some(rest) = what.strip_prefix("a launch ")
        {
            *what = format!("the launch of `{task}` {rest}");
        }
        self
    }

    /// Makes an [`Error::Misuse`] of the call, the arguments that are legal, and the argument that came.
    pub fn misuse(what: impl fmt::Display, expected: impl fmt::Display, came: impl fmt::Display) -> Self {
        Error::Misuse { what: what.to_string(), expected: expected.to_string(), came: came.to_string() }
    }
}

/// Lets a task use `?` on errors of `maniple_regions`, such as errors of a partition. They become [`Error::User`].
impl From<RegionError> for Error {
    fn from(source: RegionError) -> Self {
        Error::user(source)
    }
}

/// The text of a caught panic.
pub(crate) fn panic_message(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(s) => *s,
        Err(other) => match other.downcast_ref::<&str>() {
            Some(text) => (*text).into(),
            None => {
                // Its destructor belongs to the program, and might panic again.
                std::mem::forget(other);
                "(no message)".into()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_for_people_too() {
        let e = Error::Deadlock { report: "  one line\n  another".into(), graph: String::new() };
        assert_eq!(format!("{e:?}"), "deadlock: nothing can run any more, and\n  one line\n  another");
        assert_eq!(format!("{:?}", Error::user("no shard today")), "no shard today");
    }
}
