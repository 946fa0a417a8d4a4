//! What goes wrong in a run, and where.

use crate::ids::{NodeId, ProcessorId};
use maniple_barriers::BarrierError;
use maniple_mapper::MapperError;
use maniple_regions::{Privilege, Rect, RegionError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Where something happened: a task, and the shard of a gang it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Name of the task.
    pub task: String,
    /// The shard, when the task belongs to one.
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

/// One side of a race: what a leaf task does to a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The task and its shard.
    pub place: Place,
    /// What it may do to the values.
    pub privilege: Privilege,
    /// Its rectangle.
    pub rect: Rect,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} of {})", self.place, self.privilege, self.rect)
    }
}

/// What goes wrong in a run. The [`Error::cause`] chain leads from the effect to its origin.
///
/// `Debug` writes the same text as `Display`, so that `fn main() -> Result<(), Error>` ends with a message for people.
#[derive(Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// A task, an operator or the top-level task panicked.
    #[error("{place} panicked: {message}")]
    Panicked {
        /// Which task.
        place: Place,
        /// The panic's message.
        message: String,
    },
    /// A shard or a parent returned an error of the program.
    #[error("{place} failed: {cause}")]
    Failed {
        /// Whose it is.
        place: Place,
        /// What it returned.
        cause: Box<Error>,
    },
    /// Something this depends on failed.
    #[error("{place} cannot go on: {cause}")]
    Poisoned {
        /// Who depends on it.
        place: Place,
        /// Why it failed.
        cause: Box<Error>,
    },
    /// A barrier was misused.
    #[error("{barrier}: {source}")]
    Barrier {
        /// Which barrier, with its kind.
        barrier: String,
        /// What was refused.
        source: BarrierError,
    },
    /// A region was misused.
    #[error("{place}: {source}")]
    Region {
        /// By whom.
        place: Place,
        /// What was refused.
        source: Box<RegionError>,
    },
    /// A call of a mapper panicked, or failed as a library's may.
    #[error("{call} failed: {message}")]
    MapperFailed {
        /// Which mapper, which call, and what for.
        call: String,
        /// The panic's message, or the library's.
        message: String,
    },
    /// A mapper's answer is illegal.
    #[error(transparent)]
    Mapper(#[from] MapperError),
    /// Two users of a region interfere where they may not.
    #[error("{place}: {between} interfere; {hint}")]
    Interference {
        /// The launch that names both.
        place: Place,
        /// Both sides, with what they do to which region and field.
        between: String,
        /// What to do.
        hint: String,
    },
    /// Two leaf tasks use the same values under simultaneous coherence, one of them writes, and nothing orders them. Found by
    /// [`Check::Races`](crate::Check::Races).
    #[error(
        "race: {first} and {second} both use {rect} of field `{field}` of {region} under simultaneous coherence, and no \
         barrier, future or collective orders them; have the one arrive at a barrier, or make a value, that the other waits \
         for"
    )]
    Race {
        /// Which region tree.
        region: String,
        /// Name of the field.
        field: String,
        /// The points that both use.
        rect: Box<Rect>,
        /// Who ran first this time.
        first: Box<Access>,
        /// Who ran second, and fails.
        second: Box<Access>,
    },
    /// The top-level tasks of two nodes do not do the same. Looked for in debug builds and by
    /// [`Check::ControlReplication`](crate::Check::ControlReplication).
    #[error(
        "the top-level task must do the same on every node, but its call {call} is\n  on node 0: {expected}\n  on node \
         {node}: {came}"
    )]
    Divergence {
        /// Which of its calls, from 0.
        call: u64,
        /// What node 0 does.
        expected: String,
        /// Which other node.
        node: NodeId,
        /// What that one does.
        came: String,
    },
    /// The runtime was asked for something it cannot do.
    #[error("{what}: expected {expected}, got {came}")]
    Misuse {
        /// The call and where it was made.
        what: String,
        /// What would have been legal.
        expected: String,
        /// What was given.
        came: String,
    },
    /// What was awaited did not come in time. Nothing is lost: it is still under way and can be awaited again.
    #[error("{place} waited for {limit:?} in vain; what it waits for is still under way and can be awaited again")]
    TimedOut {
        /// Who waited.
        place: Place,
        /// For how long.
        limit: Duration,
    },
    /// Every processor is idle, no message is in flight, and somebody still waits.
    #[error("deadlock: nothing can run any more, and\n{report}")]
    Deadlock {
        /// Shards that failed, causes and cycles, then who waits for what, a line each; whom it waits for is below it,
        /// indented.
        report: String,
        /// The same as a directed graph in the language of Graphviz, for `dot -Tsvg`.
        graph: String,
    },
    /// A processor stopped for ever. Whatever anybody still waits for fails with this, and so does what is launched later.
    #[error("processor {processor} was lost: {why}")]
    Lost {
        /// Which processor.
        processor: ProcessorId,
        /// What is known of it.
        why: String,
    },
    /// The run ended before this could be known.
    #[error("the run ended before {what}")]
    Stopped {
        /// What was still expected.
        what: String,
    },
    /// A value could not be encoded for, or decoded from, another process.
    #[error("{what} cannot cross to another process: {message}")]
    Encoding {
        /// What was to cross.
        what: String,
        /// The encoder's words.
        message: String,
    },
    /// The run went well, but its trace could not be written.
    #[error("the trace `{path}` can't be written: {message}")]
    Trace {
        /// The file.
        path: String,
        /// The system's words.
        message: String,
    },
    /// An error of the program itself.
    #[error("{0}")]
    User(String),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// An error of the program itself, to return from a shard task.
    pub fn user(message: impl fmt::Display) -> Self {
        Error::User(message.to_string())
    }

    /// The error this one follows from, if any.
    pub fn cause(&self) -> Option<&Error> {
        match self {
            Error::Poisoned { cause, .. } | Error::Failed { cause, .. } => Some(cause),
            _ => None,
        }
    }

    /// The end of the [`cause`](Self::cause) chain.
    pub fn origin(&self) -> &Error {
        let mut e = self;
        while let Some(cause) = e.cause() {
            e = cause;
        }
        e
    }

    /// The failure that this one follows from, with the place where it happened.
    pub(crate) fn first(&self) -> &Error {
        let mut first = self;
        while let Error::Poisoned { cause, .. } = first {
            first = cause;
        }
        first
    }

    /// This error as the cause of `place`'s failure. Chains stay short: one link from the effect to whoever failed first.
    pub(crate) fn poisons(&self, place: Place) -> Error {
        Error::Poisoned { place, cause: Box::new(self.first().clone()) }
    }

    /// This error as what `place` returned: an error of the program does not say itself where it comes from.
    pub(crate) fn returned_by(self, place: impl FnOnce() -> Place) -> Error {
        match self {
            Error::User(_) => Error::Failed { place: place(), cause: Box::new(self) },
            other => other,
        }
    }

    pub(crate) fn region(place: Place, source: RegionError) -> Self {
        Error::Region { place, source: Box::new(source) }
    }

    /// The refusal of a launch, with the name of its task.
    #[cold]
    pub(crate) fn of_launch(mut self, task: &str) -> Self {
        if let Error::Misuse { what, .. } = &mut self
            && let Some(rest) = what.strip_prefix("a launch ")
        {
            *what = format!("the launch of `{}` {rest}", crate::names::short_name(task));
        }
        self
    }

    /// A call that the framework refuses: what was called, what it expects, and what came.
    pub fn misuse(what: impl fmt::Display, expected: impl fmt::Display, came: impl fmt::Display) -> Self {
        Error::Misuse { what: what.to_string(), expected: expected.to_string(), came: came.to_string() }
    }
}

/// What the program asked of `regions` itself, a partition say, so that `?` does in a task.
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
                // Its destructor is the program's, and might panic again where nobody expects it.
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
