//! Mappers in shared libraries, written in Rust or C.
//!
//! Only the C interface of `include/maniple_mapper.h` crosses, so that library and program may be built by different
//! compilers. [`load`] looks at the file, tries the library in a child process, where a crash is found out, and then opens
//! it here, for good: a library is never unloaded, since threads and destructors of its own may outlive its mappers.
//! [`export_mapper`](crate::export_mapper) makes such a library of a [`Mapper`] in Rust.
//!
//! This module has the only `unsafe` of the crate. It rests on the rules at the head of the header, which a library has to
//! keep: no check can find out whether a function has the type it should have, or what it does when called. A library that
//! crashes in a call about a decision takes the program with it.

pub mod abi;
mod codes;
pub mod export;
mod host;
mod probe;
#[cfg(test)]
mod tests;

use crate::Mapper;
use host::{Hosted, message};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a library gives no mapper.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", .path.display())]
pub struct PluginError {
    /// The library.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a library.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It is not there, or can't be read.
    #[error("can't be read: {0}")]
    Unreadable(std::io::Error),
    /// It is something else.
    #[error("not a shared library, but {0}")]
    NoLibrary(&'static str),
    /// The system's loader does not want it.
    #[error("can't be loaded: {0}")]
    Refused(String),
    /// It is a library of another kind.
    #[error("not a mapper: it does not export `maniple_mapper_library` (see maniple_mapper.h)")]
    Foreign,
    /// Its table is not one.
    #[error("not a mapper: `maniple_mapper_library` returns {0}")]
    NoTable(String),
    /// It is of another version.
    #[error(
        "built for version {found} of the mapper interface, and this program has version {}: build it anew with this \
         program's maniple_mapper.h",
        abi::MAPPER_VERSION
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// Its table is smaller than it may be.
    #[error(
        "its table has {found} bytes, and version {} of the mapper interface has at least {}: build it anew with this \
         program's maniple_mapper.h",
        abi::MAPPER_VERSION,
        abi::Library::FIRST_SIZE
    )]
    Size {
        /// Its size in bytes.
        found: u32,
    },
    /// It leaves out what no library may.
    #[error("its table has no `{0}`")]
    Incomplete(&'static str),
    /// The options can't be passed on.
    #[error("the options have a NUL byte in them")]
    Options,
    /// It does not make a mapper.
    #[error("makes no mapper of the options `{options}`: {message}")]
    Create {
        /// The options.
        options: String,
        /// What it says.
        message: String,
    },
    /// Its mapper's name is null or not UTF-8.
    #[error("its mapper's name is {0}")]
    Name(&'static str),
    /// It crashed, or ended the process, when tried in a child process.
    #[error("{how} {stage}{said}")]
    Crashed {
        /// What it did.
        how: String,
        /// When.
        stage: &'static str,
        /// What it wrote before, if anything.
        said: String,
    },
    /// There is no child process to try it in.
    #[error("can't be tried in a child process: {0}")]
    NoChild(std::io::Error),
}

/// Makes a mapper by a library, of which a copy is loaded: the file may be built anew meanwhile, and loaded again. (So what a
/// library needs is not found beside it, by `$ORIGIN`.) A path without a directory is one in the working directory. The options are the library's
/// own. Waits for the library, at most some 10 s longer than it takes; best called before a program has threads, whose
/// locks the child process would inherit.
///
/// # Errors
/// [`PluginError`]: a file that is missing or no shared library, a library that is no mapper, is of another version, refuses
/// the options, or crashes, hangs or ends the process when it is loaded or makes its mapper.
pub fn load(path: &Path, options: &str) -> Result<Arc<dyn Mapper>, PluginError> {
    let fail = |fault| PluginError { path: path.to_owned(), fault };
    let file = look_at(path).map_err(fail)?;
    let copy = private_copy(path, file).map_err(Fault::Unreadable).map_err(fail)?;
    let hosted = |stage: &mut dyn FnMut(Stage)| open(&copy, path, options, stage);
    probe::probe(|stage| hosted(stage).map(drop_not)).map_err(fail)?;
    Ok(Arc::new(hosted(&mut |_| {}).map_err(fail)?))
}

/// The name of a copy of a library for this process alone. The loader takes a file of a name it knows for the one that it
/// has, even if that was built anew since, and a library that is written over while it is in use crashes.
#[cfg(target_os = "linux")]
fn private_copy(_: &Path, mut library: File) -> std::io::Result<PathBuf> {
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: a system call on a text that ends with NUL.
    let number = unsafe { libc::memfd_create(c"maniple mapper".as_ptr(), libc::MFD_CLOEXEC) };
    if number < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: it has just been opened, and nobody else has its number.
    let mut copy = unsafe { File::from_raw_fd(number) };
    std::io::copy(&mut library, &mut copy)?;
    let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
    // Never closed: the loader knows the library by this number.
    std::mem::forget(copy);
    Ok(name.into())
}

#[cfg(not(target_os = "linux"))]
fn private_copy(path: &Path, _: File) -> std::io::Result<PathBuf> {
    // Without a directory the loader would look elsewhere.
    Ok(if path.is_absolute() { path.to_owned() } else { Path::new(".").join(path) })
}

/// In the child, which ends at once, nothing is destroyed.
fn drop_not(hosted: Hosted) {
    std::mem::forget(hosted);
}

/// What is about to be done with a library, when a crash would be its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    Load,
    Entry,
    Create,
    Done,
}

/// Refuses what is no shared library; the system's loader would say so in other words on every system.
fn look_at(path: &Path) -> Result<File, Fault> {
    let meta = std::fs::metadata(path).map_err(Fault::Unreadable)?;
    if meta.is_dir() {
        return Err(Fault::NoLibrary("a directory"));
    }
    if !meta.is_file() {
        return Err(Fault::NoLibrary("no regular file"));
    }
    let mut file = File::open(path).map_err(Fault::Unreadable)?;
    if cfg!(target_os = "linux") {
        let mut head = [0; 20];
        let read = file.read_exact(&mut head);
        if read.is_err() || !head.starts_with(b"\x7fELF") {
            return Err(Fault::NoLibrary("a file of another format"));
        }
        const SHARED: u16 = 3; // ET_DYN, in the byte order that the file says
        let kind = if head[5] == 2 { u16::from_be_bytes } else { u16::from_le_bytes };
        if kind([head[16], head[17]]) != SHARED {
            return Err(Fault::NoLibrary("an object file or a program"));
        }
        let mut own = [0; 20];
        let known = File::open("/proc/self/exe").and_then(|mut exe| exe.read_exact(&mut own));
        if known.is_ok() && (head[4], head[5], &head[18..]) != (own[4], own[5], &own[18..]) {
            return Err(Fault::NoLibrary("one for another processor"));
        }
        file.rewind().map_err(Fault::Unreadable)?;
    }
    Ok(file)
}

/// Opens the library and has it make a mapper, after saying what is next.
fn open(file: &Path, path: &Path, options: &str, next: &mut dyn FnMut(Stage)) -> Result<Hosted, Fault> {
    let given = CString::new(options).map_err(|_| Fault::Options)?;
    next(Stage::Load);
    // SAFETY: the library's constructors run; that they do no harm is what its author promises.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|e| Fault::Refused(e.to_string()))?;
    // SAFETY: a library that exports this name promises the header's type.
    let entry = unsafe { library.get::<abi::Entry>(b"maniple_mapper_library\0") };
    let entry = *entry.map_err(|_| Fault::Foreign)?;
    // Never unloaded.
    std::mem::forget(library);
    next(Stage::Entry);
    // SAFETY: as above.
    let table = table(unsafe { entry() })?;
    let (Some(create), Some(name)) = (table.create, table.name) else {
        return Err(Fault::Incomplete(if table.create.is_none() { "create" } else { "name" }));
    };
    next(Stage::Create);
    let mut buffer = [0_u8; 1024];
    // SAFETY: the options are NUL-terminated, and the buffer is as long as it says.
    let mapper = unsafe { create(given.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    if mapper.is_null() {
        return Err(Fault::Create { options: options.into(), message: message(&buffer) });
    }
    // From here on dropped by its library.
    let mut hosted = Hosted { table, mapper, name: String::new(), path: path.display().to_string() };
    // SAFETY: `create` made the mapper.
    let text = unsafe { name(mapper) };
    if text.is_null() {
        return Err(Fault::Name("null"));
    }
    // SAFETY: the header demands a NUL-terminated text.
    let text = unsafe { CStr::from_ptr(text) };
    hosted.name = text.to_str().map_err(|_| Fault::Name("not UTF-8"))?.to_owned();
    next(Stage::Done);
    Ok(hosted)
}

/// A copy of a library's table, with null for the calls that it does not know of.
fn table(given: *const abi::Library) -> Result<abi::Library, Fault> {
    if given.is_null() || !given.is_aligned() {
        return Err(Fault::NoTable(format!("{given:?}")));
    }
    // The first three numbers are where they are in all versions.
    // SAFETY: the library says that this is its table; that it is, the magic number makes likely.
    let [magic, version, size] = unsafe { *given.cast::<[u32; 3]>() };
    if magic != abi::MAPPER_MAGIC {
        return Err(Fault::NoTable(format!("a table that begins with {magic:#x}, not {:#x}", abi::MAPPER_MAGIC)));
    }
    if version != abi::MAPPER_VERSION {
        return Err(Fault::Version { found: version });
    }
    if (size as usize) < abi::Library::FIRST_SIZE {
        return Err(Fault::Size { found: size });
    }
    let mut table = abi::Library::NONE;
    let known = size_of::<abi::Library>().min(size as usize);
    // SAFETY: both are at least that long, and what is not copied is null.
    unsafe { std::ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut table).cast::<u8>(), known) };
    Ok(table)
}
