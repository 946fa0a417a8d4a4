//! The shard that is being polled on this thread. Its wake-ups by this processor need no atomic waker.

use crate::effects::Waiting;
use std::cell::Cell;
use std::task::{RawWakerVTable, Waker};

thread_local! {
    /// The data pointer of the polled shard's waker, and the shard's slot.
    static CURRENT: Cell<(*const (), u32)> = const { Cell::new((std::ptr::null(), 0)) };
}

thread_local! {
    /// Whether an awaited future has been dropped since [`awaits_future`] began.
    static AWAITED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the value that `end` drops was awaiting a [`TaskFuture`](crate::TaskFuture). A Rust future does not say what
/// it waits for, but it drops it.
pub(crate) fn awaits_future(end: impl FnOnce()) -> bool {
    AWAITED.set(false);
    end();
    AWAITED.get()
}

/// Notes that an awaited future was dropped.
pub(crate) fn note_awaited() {
    AWAITED.set(true);
}

/// Marks `slot` as polled while `f` runs.
pub(crate) fn polling<R>(slot: u32, waker: &Waker, f: impl FnOnce() -> R) -> R {
    type Current = Cell<(*const (), u32)>;
    struct Restore<'a>(&'a Current, (*const (), u32));
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    // The thread-local is looked up once.
    CURRENT.with(|current| {
        let _restore = Restore(current, current.replace((waker.data(), slot)));
        f()
    })
}

/// A registered waiter, without the means to wake it. Compare it only while it is registered: its waker then lives, and
/// no other waker has the same data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Poller {
    Shard(u32),
    Waker(*const (), *const RawWakerVTable),
}

impl Poller {
    /// The poller behind `waiting`, if it is one.
    #[inline]
    pub fn of(waiting: &Waiting) -> Option<Self> {
        match waiting {
            Waiting::Shard(slot) => Some(Self::Shard(*slot)),
            Waiting::Waker(w) => Some(Self::Waker(w.data(), w.vtable())),
            Waiting::Task(_) | Waiting::Chain { .. } | Waiting::Offer { .. } | Waiting::OneOf { .. } => None,
        }
    }

    /// Whether this poller is the one that polls with `waker` now.
    #[inline]
    pub fn polls_with(self, waker: &Waker) -> bool {
        match self {
            Self::Shard(slot) => CURRENT.get() == (waker.data(), slot),
            Self::Waker(data, vtable) => data == waker.data() && std::ptr::eq(vtable, waker.vtable()),
        }
    }
}

/// A waiter that wakes the future polled with `waker`.
#[inline(always)]
pub(crate) fn waiting(waker: &Waker) -> Waiting {
    let (data, slot) = CURRENT.get();
    if waker.data() == data { Waiting::Shard(slot) } else { Waiting::Waker(Box::new(waker.clone())) }
}
