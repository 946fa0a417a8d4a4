//! The atomics, cells and locks of the ring, the parker and the post office: those of `std`, or loom's under `--cfg
//! loom`. Also runs models with a limit on pre-emptions.

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{Arc, Mutex, MutexGuard, atomic},
    thread::yield_now,
};
#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{Arc, Mutex, MutexGuard, atomic},
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

/// Pre-emptions in the larger models of one ring or parker.
#[cfg(all(test, loom))]
pub const OF_ONE: usize = 3;
/// Pre-emptions in the models of whole processors.
#[cfg(all(test, loom))]
pub const OF_SEVERAL: usize = 2;

/// Checks every execution with at most `preemptions` of them, because checking all would take hours.
/// `LOOM_MAX_PREEMPTIONS` sets another number.
#[cfg(all(test, loom))]
pub fn model_bounded(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(body);
}
