//! What a processor does from its first turn to its last: takes in what has come, runs what is ready, sends, and sleeps when
//! there is nothing to do. What there is to run is the [`Driven`]'s business.

use super::super::sync::atomic::Ordering;
use super::super::sync::{spin_loop, yield_now};
use super::idle::sleep;
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::post::Post;
use crate::ids::ProcessorId;

/// Turns without work before a processor that has a core of its own sleeps: with two processors about a millisecond (longer
/// with more, as a turn looks at the ring of each), several times what waking one takes on a virtual machine. With less, two
/// that wait for each other fall asleep in turn, each while the other wakes.
const SPINS: u32 = if cfg!(loom) { 1 } else { 20_000 };
/// Turns without work before it pauses between them.
const BRISK: u32 = 50;
/// Turns without work before one that shares its core sleeps: then spinning takes the core from whoever has work.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 3 };

/// Who runs what the messages are about: a processor's core, or in a model a few numbers.
pub trait Driven<M> {
    /// Takes in a message.
    fn receive(&self, source: ProcessorId, message: M);
    /// Runs what is ready, for a while; false if there was nothing.
    fn turn(&self) -> bool;
    /// Whether there is something to run.
    fn has_work(&self) -> bool;
    /// Whether somebody outside may bring work. Who may no longer has left what he brought where [`Self::has_work`] finds it
    /// from now on.
    fn has_foreign_waker(&self) -> bool;
    /// When the first timer is over, in nanoseconds since the run began.
    fn next_deadline(&self) -> Option<u64>;
    /// Calls `sleep`, which returns when the processor is woken.
    fn park(&self, sleep: impl FnOnce());
    /// Whether nothing more is to be done.
    fn stopped(&self) -> bool;
}

/// Runs the processor `id` until what it drives is stopped or the run is given up.
pub fn drive<M: Send>(
    id: ProcessorId,
    driven: &impl Driven<M>,
    post: &Post<M>,
    outbox: &Outbox<M>,
    inbox: &mut Inbox<M>,
    crowded: bool,
) {
    let me = &post.processors[id as usize];
    let patience = if crowded { YIELDS } else { SPINS };
    let mut idle = 0u32;
    while !driven.stopped() && !post.is_given_up() {
        let before = inbox.received();
        inbox.take_in(me, |source, message| driven.receive(source, message));
        let ran = driven.turn();
        outbox.tend();
        if ran || inbox.received() != before {
            idle = 0;
            continue;
        }
        idle += 1;
        if outbox.has_backlog() || crowded && idle < patience {
            yield_now();
        } else if idle < patience {
            // A pause takes as long as a message.
            if idle > BRISK {
                spin_loop();
            }
        } else {
            let timed_out = sleep(driven, post, me, outbox, inbox);
            // Nobody called: unless its own time has come for something, it sleeps again at once.
            idle = if timed_out { patience - 1 } else { 0 };
        }
    }
    me.gone.store(true, Ordering::Relaxed);
    outbox.flush();
    // `Stop` may be in the backlog, and until it comes the others read.
    while outbox.has_backlog() && !post.is_given_up() {
        yield_now();
        outbox.flush();
    }
}
