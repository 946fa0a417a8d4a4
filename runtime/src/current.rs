//! Which shard is being polled on this thread, so that its own wake-ups need no atomic waker.

use crate::core::Waiting;
use std::cell::Cell;
use std::task::Waker;

thread_local! {
    /// The data pointer of the polled shard's waker, and the shard's slot.
    static CURRENT: Cell<(*const (), u32)> = const { Cell::new((std::ptr::null(), 0)) };
}

/// Marks `slot` as polled while `f` runs.
pub(crate) fn polling<R>(slot: u32, waker: &Waker, f: impl FnOnce() -> R) -> R {
    struct Restore((*const (), u32));
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace((waker.data(), slot)));
    f()
}

/// How to wake whoever polls with `waker`.
pub(crate) fn waiting(waker: &Waker) -> Waiting {
    let (data, slot) = CURRENT.get();
    if waker.data() == data { Waiting::Shard(slot) } else { Waiting::Waker(Box::new(waker.clone())) }
}
