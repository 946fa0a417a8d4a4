//! What stands in models for the channels of crossbeam. It promises less: a look may be stale unless a fence orders it.

use crate::wire::sync::atomic::{AtomicUsize, Ordering};
use crate::wire::sync::{Arc, Mutex};
use std::collections::VecDeque;

struct Queue<T> {
    /// The values, unless the receiver is gone.
    values: Mutex<Option<VecDeque<T>>>,
    len: AtomicUsize,
}

pub struct Sender<T>(Arc<Queue<T>>);
pub struct Receiver<T>(Arc<Queue<T>>);

pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue { values: Mutex::new(Some(VecDeque::new())), len: AtomicUsize::new(0) });
    (Sender(queue.clone()), Receiver(queue))
}

impl<T> Sender<T> {
    pub fn send(&self, value: T) -> Result<(), T> {
        let mut values = self.0.values.lock().expect("nothing panics here");
        let Some(values) = &mut *values else { return Err(value) };
        values.push_back(value);
        self.0.len.store(values.len(), Ordering::Relaxed);
        Ok(())
    }
}

impl<T> Receiver<T> {
    pub fn try_recv(&self) -> Result<T, ()> {
        let mut values = self.0.values.lock().expect("nothing panics here");
        let values = values.as_mut().expect("the receiver is here");
        let value = values.pop_front().ok_or(())?;
        self.0.len.store(values.len(), Ordering::Relaxed);
        Ok(value)
    }

    pub fn is_empty(&self) -> bool {
        self.0.len.load(Ordering::Relaxed) == 0
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // In a model that has failed there may be no lock any more.
        if !std::thread::panicking() {
            let _ = self.0.values.lock().map(|mut values| values.take());
        }
    }
}
