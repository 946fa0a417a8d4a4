//! Memory that processes of a host share: a file without a name, made by one process and opened by the others through
//! `/proc`. It is far larger than what is used; memory is taken up only where something has been written.
//!
//! The file is in memory (memfd). Where the system refuses that, it is one in a directory, and all that may be written fits
//! into the space that is free there: with less, a write would end the process. What is always written takes up its space
//! when the segment is made, which is an error where there is none.

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// A directory with less free space is used only if there is no better one.
const ENOUGH: usize = 16 << 20;

/// The most bytes that this process may map, and that its files may have: all together in a directory (see [`directory`]),
/// otherwise each (`ulimit -v`, `ulimit -f`).
pub fn limit() -> usize {
    let limit = |resource| getrlimit(resource).current.map_or(usize::MAX, |limit| limit as usize);
    let free = directory().and_then(|(directory, _)| free(directory)).unwrap_or(usize::MAX);
    limit(Resource::As).min(limit(Resource::Fsize)).min(free)
}

/// The directory of the files if the system refuses files in memory, and its error.
pub fn directory() -> Option<&'static (PathBuf, io::Error)> {
    static DIRECTORY: OnceLock<Option<(PathBuf, io::Error)>> = OnceLock::new();
    let find = || {
        let refused = rustix::fs::memfd_create("maniple", MemfdFlags::CLOEXEC).err()?;
        let (shared, other) = (PathBuf::from("/dev/shm"), std::env::temp_dir());
        let is_best = |space| space >= ENOUGH || Some(space) >= free(&other);
        let directory = if free(&shared).is_some_and(is_best) { shared } else { other };
        Some((directory, refused.into()))
    };
    DIRECTORY.get_or_init(find).as_ref()
}

/// The bytes that are free in a directory, if it can have a file without a name.
fn free(directory: &Path) -> Option<usize> {
    nameless(directory).ok()?;
    Some(rustix::fs::statvfs(directory).map_or(0, |of| of.f_bavail.saturating_mul(of.f_frsize)) as usize)
}

/// A file without a name in a directory.
fn nameless(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)?)
}

/// A file of `bytes` bytes, all zero. In a directory, the first `head` take up their space.
fn file(name: &str, bytes: usize, head: usize) -> io::Result<OwnedFd> {
    let Some((directory, refused)) = directory() else {
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        return Ok(file);
    };
    let (of_memory, shown) = ("the call memfd_create, which Linux has from 3.17 on, is refused", directory.display());
    let nameless = nameless(directory).map_err(|e| {
        io::Error::other(format!("{of_memory} ({refused}), and so is a file without a name in {shown} ({e})"))
    })?;
    let file = File::from(nameless);
    // Not every file system has `fallocate`.
    let filled = file.set_len(bytes as u64).and_then(|()| file.write_all_at(&vec![0; head], 0));
    filled.map_err(|e| {
        let advice = "free some, or set `TMPDIR` to a directory with space";
        io::Error::other(format!("{of_memory} ({refused}), and {shown} has no space for {head} bytes ({e}); {advice}"))
    })?;
    Ok(file.into())
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
    /// Makes a segment of `bytes` bytes, all zero, of which the first `head` will be written in any case. One that is not
    /// shared may be memory without a file.
    pub fn new(name: &str, bytes: usize, head: usize, shared: bool) -> io::Result<Self> {
        let in_file = || {
            if let Some(limit) = getrlimit(Resource::Fsize).current.filter(|limit| *limit < bytes as u64) {
                // The system would send a signal, which ends the process.
                return Err(io::Error::other(format!("{bytes} bytes, where `ulimit -f` allows files of {limit}")));
            }
            let file = file(name, bytes, head)?;
            Ok(Self { at: map(Some(&file), bytes)?, bytes, file: Some(file) })
        };
        match in_file() {
            Err(_) if !shared => Ok(Self { at: map(None, bytes)?, bytes, file: None }),
            made => made,
        }
    }

    /// Opens the segment of another process, by its number of the file.
    pub fn open(process: u32, file: i32) -> io::Result<Self> {
        let path = format!("/proc/{process}/fd/{file}");
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size).map_err(io::Error::other)?;
        let at = map(Some(&file), bytes)?;
        Ok(Self { at, bytes, file: None })
    }

    /// Gets memory at once for bytes that will be written soon. Page by page takes longer. Where the system can't do it, nothing is
    /// lost.
    pub fn populate(&self, place: usize, bytes: usize) {
        let page = rustix::param::page_size();
        let (start, end) = (place - place % page, (place + bytes).next_multiple_of(page).min(self.bytes));
        // SAFETY: Within the mapping. The call changes no byte.
        let _ = unsafe { madvise(self.at.as_ptr().add(start).cast(), end - start, Advice::LinuxPopulateWrite) };
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

fn map(file: Option<&OwnedFd>, bytes: usize) -> io::Result<NonNull<u8>> {
    let (anywhere, protection) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: A new mapping, at an address that the system chooses.
    let at = unsafe {
        match file {
            Some(file) => {
                let flags = MapFlags::SHARED | MapFlags::NORESERVE;
                rustix::mm::mmap(anywhere, bytes, protection, flags, file.as_fd(), 0)
            }
            None => rustix::mm::mmap_anonymous(anywhere, bytes, protection, MapFlags::PRIVATE | MapFlags::NORESERVE),
        }
    }?;
    NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: The mapping of `map`. Whoever holds a pointer keeps the segment.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
