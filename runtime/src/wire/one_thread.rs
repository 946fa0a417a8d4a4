//! Code shared by the drivers that run all processors in one thread.

use super::{AnyResult, Outcome, crashed};
use crate::Error;
use crate::counters::Stats;
use crate::ids::ProcessorId;
use crate::processor::Core;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// Runs a program in a thread of its own, which has the stack of a worker.
pub(crate) fn run<T: Send>(stack: usize, run: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let thread = std::thread::Builder::new().name("maniple".into()).stack_size(stack);
    std::thread::scope(|scope| match thread.spawn_scoped(scope, run) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
        Err(e) => {
            let expected = format!("a system that can start a thread with a stack of {} KiB", stack >> 10);
            Err(Error::misuse(
                "the start of a run",
                expected,
                format!("the error `{e}`; use a smaller `Runtime::stack`"),
            ))
        }
    })
}

/// Ends a run: drops all that is left, and finds the result. `failure` is the reason why the driver stopped, and
/// `compared` the result of comparing the nodes' calls.
pub(super) fn conclude(
    cores: Vec<Rc<Core>>,
    outcomes: Vec<Outcome>,
    failure: Option<Error>,
    compared: Option<Error>,
) -> Result<(AnyResult, Stats), Error> {
    // A divergence causes all other errors, so it is reported first.
    let diverged = compared.or(failure.clone()).filter(|e| matches!(e, Error::Divergence { .. }));
    for core in &cores {
        core.effects().counters.left_over.add(core.left_over());
        core.drop_futures();
    }
    let mut stats = Stats::default();
    for core in &cores {
        core.effects().counters.add_to(&mut stats);
        core.effects().hand_over_trace();
    }
    let unawaited = cores.iter().find_map(|c| c.effects().failure());
    let mut results = outcomes.iter().map(|o| o.borrow_mut().take());
    let first = results.next().flatten();
    let other_error = results.filter_map(|r| r.and_then(Result::err)).reduce(Error::or_cause);
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(cores))).err().map(|panic| crashed(ProcessorId(0), panic));
    if let Some(e) = diverged {
        return Err(e);
    }
    let first = match first {
        Some(Err(e)) => return Err(other_error.into_iter().fold(e, Error::or_cause)),
        first => first.and_then(Result::ok),
    };
    // A copy of the top-level task that panics stops its node, and others may wait for it for ever. So its panic comes
    // before the driver's reason to stop, which may be that deadlock.
    match (first, unawaited.or(other_error).or(failure).or(dropped)) {
        (_, Some(e)) => Err(e),
        (Some(value), None) => Ok((value, stats)),
        (None, None) => Err(Error::Stopped { what: "the top-level task's result".into() }),
    }
}
