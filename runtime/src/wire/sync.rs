//! The atomics, cells and locks of the ring, the parker and the post office: those of `std`, or loom's under `--cfg loom`.
//! Models are run from here, too, so that one number bounds them all.

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
};
#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
};

/// `std`'s cell with the interface of loom's, which checks every access.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline(always)]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Most pre-emptions of an execution in the models with a bound: without one they would take hours.
#[cfg(all(test, loom))]
const PREEMPTIONS: usize = 3;

/// Checks every execution with up to [`PREEMPTIONS`] pre-emptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
#[cfg(all(test, loom))]
pub fn model_bounded(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.check(body);
}
