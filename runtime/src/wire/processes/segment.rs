//! Memory that processes of a host share: a file without a name (memfd), made by one process and opened by the others
//! through `/proc`. It has far more room than is used; memory is taken up only where something has been written.

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// The most bytes that this process may map, and that a file of it may have (`ulimit -v`, `ulimit -f`).
pub fn limit() -> usize {
    let limit = |resource| getrlimit(resource).current.map_or(usize::MAX, |limit| limit as usize);
    limit(Resource::As).min(limit(Resource::Fsize))
}

/// A mapping of such memory.
pub struct Segment {
    at: NonNull<u8>,
    bytes: usize,
    /// The file of a segment that this process has made, which others open.
    file: Option<OwnedFd>,
}

// SAFETY: The mapping belongs to the process, and is unmapped once, when it is dropped. What lies in it is up to those
// who take pointers.
unsafe impl Send for Segment {}
// SAFETY: As for `Send`.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes a segment of so many bytes, all zero.
    pub fn new(name: &str, bytes: usize) -> io::Result<Self> {
        if let Some(limit) = getrlimit(Resource::Fsize).current.filter(|limit| *limit < bytes as u64) {
            // The system would send a signal, which ends the process.
            return Err(io::Error::other(format!("{bytes} bytes, where `ulimit -f` allows files of {limit}")));
        }
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        let at = map(&file, bytes)?;
        Ok(Self { at, bytes, file: Some(file) })
    }

    /// Opens the segment of another process, by its number of the file. Without a number of bytes, all of it.
    pub fn open(process: u32, file: i32, bytes: Option<usize>) -> io::Result<Self> {
        let path = format!("/proc/{process}/fd/{file}");
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => usize::try_from(rustix::fs::fstat(&file)?.st_size).map_err(io::Error::other)?,
        };
        let at = map(&file, bytes)?;
        Ok(Self { at, bytes, file: None })
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number by which other processes open it, if this process has made it.
    pub fn file(&self) -> i32 {
        self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// A pointer to `len` bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// If they are not within the segment.
    pub fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.bytes), "{len} bytes from {offset} on");
        // SAFETY: Within the mapping.
        unsafe { self.at.add(offset) }
    }

    /// The word at `offset`. Its bytes were zero, which is its default, before the first use.
    ///
    /// # Safety
    ///
    /// It is aligned, and all processes use the place as this word only.
    ///
    /// # Panics
    ///
    /// If it is not within the segment.
    pub unsafe fn word<T: Default + Send + Sync + 'static>(&self, offset: usize) -> &T {
        // SAFETY: Within the segment. The rest is the caller's duty.
        unsafe { self.at(offset, size_of::<T>()).cast().as_ref() }
    }

    /// Copies bytes into the segment.
    ///
    /// # Safety
    ///
    /// Nobody uses the place meanwhile.
    ///
    /// # Panics
    ///
    /// If it is not within the segment.
    pub unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        let place = self.at(offset, bytes.len());
        // SAFETY: Within the segment, and nobody else uses it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
    }

    /// Copies bytes out of the segment.
    ///
    /// # Safety
    ///
    /// Nobody writes to the place meanwhile.
    ///
    /// # Panics
    ///
    /// If it is not within the segment.
    pub unsafe fn read(&self, offset: usize, bytes: &mut [u8]) {
        let place = self.at(offset, bytes.len());
        // SAFETY: Within the segment, and nobody writes to it.
        unsafe { std::ptr::copy_nonoverlapping(place.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
    }
}

fn map(file: &OwnedFd, bytes: usize) -> io::Result<NonNull<u8>> {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
    // SAFETY: A new mapping, at an address that the system chooses.
    let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_fd(), 0) }?;
    NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: The mapping of `map`. Whoever holds a pointer keeps the segment.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
