//! What stands in models for memory that processes share. Loom's atomics can't be placed in raw memory, so the model keeps
//! one object for each offset, and one for each run of bytes that is written at once, which loom checks for races.

use crate::wire::sync::UnsafeCell;
use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

pub fn limit() -> usize {
    usize::MAX
}

/// A piece of shared memory. Its clones are the mappings of other processes.
#[derive(Clone, Default)]
pub struct Segment {
    words: Objects<dyn Any + Send + Sync>,
    runs: Objects<WrittenBytes>,
}

type Objects<T> = Arc<Mutex<HashMap<usize, Box<T>>>>;

/// Bytes that are written at once.
#[derive(Default)]
struct WrittenBytes(UnsafeCell<Vec<Line>>);

// SAFETY: Loom checks each access.
unsafe impl Send for WrittenBytes {}
// SAFETY: As for `Send`.
unsafe impl Sync for WrittenBytes {}

#[derive(Clone, Copy)]
#[repr(align(128))]
struct Line([u8; 128]);

impl Segment {
    pub fn new(_: &str, _: usize, _: usize, _: bool) -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Clones are used instead.
    pub fn open(_: u32, _: i32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Every offset can be used.
    pub fn bytes(&self) -> usize {
        1 << 40
    }

    pub fn file(&self) -> i32 {
        0
    }

    /// The object at `offset`, which is made by the first use. It stays where it is as long as the segment.
    fn object<T: ?Sized>(objects: &Objects<T>, offset: usize, make: impl FnOnce() -> Box<T>) -> &T {
        let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
        let object = NonNull::from(&**objects.entry(offset).or_insert_with(make));
        // SAFETY: Its box stays until the last clone is dropped.
        unsafe { object.as_ref() }
    }

    fn run(&self, offset: usize, len: usize) -> &WrittenBytes {
        let lines = || vec![Line([0; 128]); len.div_ceil(size_of::<Line>())];
        Self::object(&self.runs, offset, || Box::new(WrittenBytes(UnsafeCell::new(lines()))))
    }

    /// Loom finds a race if the word is made by this use, and another thread does not know about it.
    pub unsafe fn word<T: Default + Send + Sync + 'static>(&self, offset: usize) -> &T {
        let word = Self::object(&self.words, offset, || Box::new(T::default()));
        word.downcast_ref().expect("a place is used as one word")
    }

    /// For loom this is a read of the run at `offset`.
    pub fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        self.run(offset, len).0.with(|run| {
            // SAFETY: Loom has found no race.
            let run = unsafe { &*run };
            assert!(len <= size_of_val(&run[..]), "a run of bytes keeps its length");
            NonNull::from(&run[..]).cast()
        })
    }

    pub unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        self.run(offset, bytes.len()).0.with_mut(|run| {
            // SAFETY: Loom has found no race.
            let run = unsafe { &mut *run };
            assert!(bytes.len() <= size_of_val(&run[..]), "a run of bytes keeps its length");
            // SAFETY: Within the run.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), run.as_mut_ptr().cast(), bytes.len()) };
        });
    }

    pub unsafe fn read(&self, offset: usize, bytes: &mut [u8]) {
        let run = self.at(offset, bytes.len());
        // SAFETY: Within the run, and loom has found no race.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
    }
}
