//! The atomics, cells, locks and channels of the wires. The package of models has loom's in their place.

#[cfg(not(target_os = "linux"))]
pub use std::sync::Condvar;
pub use std::{
    hint::spin_loop,
    sync::{Arc, Mutex, atomic},
    thread::yield_now,
};
#[cfg(target_os = "linux")]
pub use {crossbeam_channel as channel, std::sync::MutexGuard};

/// Whether this is a model, in which constants shrink.
pub const MODEL: bool = false;

/// `std`'s cell with the interface of loom's, which checks every access.
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

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
