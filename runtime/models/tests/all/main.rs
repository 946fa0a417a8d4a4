//! Models of the wires in loom. It executes the interleavings of a model, with the stale reads that the memory model
//! allows, and reports a lost message or wake-up as a deadlock.

#![cfg(target_os = "linux")]

mod link;
mod lobby;
mod park;
mod ring;
mod rings;
mod threads;

/// Pre-emptions in the larger models of one ring or parker.
const OF_ONE: usize = 3;
/// Pre-emptions in the models of whole processors.
const OF_SEVERAL: usize = 2;

/// Checks every execution with at most `preemptions` of them, because checking all would take hours.
/// `LOOM_MAX_PREEMPTIONS` sets another number.
fn model_bounded(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(body);
}
