//! Loom's atomics, cells and locks, and a channel of them.

pub use super::channel;
pub use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
};

pub const MODEL: bool = true;
