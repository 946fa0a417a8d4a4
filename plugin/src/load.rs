//! Opens a library and has it make a mapper.

use crate::host::{Hosted, kept, message};
use crate::{Fault, PluginError, abi};
use maniple_mapper::Mapper;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

/// Length in bytes of the longest name of a mapper.
const LONGEST_NAME: usize = 255;

/// Loads a library and has it make a mapper. The options are the library's own. A path without a directory is in the
/// working directory.
///
/// On Linux a copy of the file is loaded, so the file may be built again and loaded again meanwhile. The loader
/// therefore does not find other libraries beside this one by `$ORIGIN`.
///
/// Waits for the library. If the library crashes, exits or hangs, so does the program.
///
/// # Errors
/// The file is missing or not a shared library. The library is not a mapper, is built for another version of the interface,
/// or refuses the options. [`PluginError`] names the path and the cause.
pub fn load(path: &Path, options: &str) -> Result<Arc<dyn Mapper>, PluginError> {
    match make(path, options) {
        Ok(hosted) => Ok(Arc::new(hosted)),
        Err(fault) => Err(PluginError { path: path.to_owned(), fault }),
    }
}

/// Opens the library and has it make a mapper.
fn make(path: &Path, options: &str) -> Result<Hosted, Fault> {
    let given = CString::new(options).map_err(|_| Fault::Options)?;
    let entry = entry(path)?;
    // SAFETY: a library that exports the entry promises the header's type.
    let table = table(kept(path, || unsafe { entry() }))?;
    let (Some(create), Some(name)) = (table.create, table.name) else {
        return Err(Fault::Incomplete(if table.create.is_none() { "create" } else { "name" }));
    };
    let mut buffer = [0_u8; 1024];
    // SAFETY: the options are NUL-terminated, and the buffer is as long as it says.
    let mapper = kept(path, || unsafe { create(given.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) });
    if mapper.is_null() {
        return Err(Fault::Create { options: options.into(), message: message(&buffer) });
    }
    // From here on `Hosted` has the library drop the mapper.
    let mut hosted = Hosted { table, mapper, name: String::new(), path: path.display().to_string() };
    // SAFETY: `create` made the mapper.
    let text = kept(path, || unsafe { name(mapper) });
    if text.is_null() {
        return Err(Fault::Name("null"));
    }
    // SAFETY: the header requires a NUL-terminated text. No more than this is read of a longer one.
    let length = (0..=LONGEST_NAME).find(|&at| unsafe { *text.add(at) } == 0);
    let length = length.ok_or(Fault::Name("longer than 255 bytes"))?;
    // SAFETY: it has that many bytes.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    hosted.name = std::str::from_utf8(text).map_err(|_| Fault::Name("not UTF-8"))?.to_owned();
    Ok(hosted)
}

/// The function that a library exports. The library is loaded the first time and stays loaded. The same bytes are the
/// same library.
#[cfg(unix)]
fn entry(path: &Path) -> Result<abi::Entry, Fault> {
    use crate::file::{self, Image};
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    use std::sync::{Mutex, PoisonError};
    static LOADED: Mutex<Vec<(Image, Library)>> = Mutex::new(Vec::new());
    let bytes = file::contents(path)?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = loaded.iter().position(|(image, _)| image.is_of(&bytes));
    if known.is_none() {
        let image = Image::new(path, &bytes)?;
        // SAFETY: the library's constructors run. Its author promises that they do no harm.
        let library = unsafe { Library::open(Some(&image.name), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|e| Fault::Refused(image.explained(&e.to_string())))?;
        loaded.push((image, library));
    }
    let (_, library) = &loaded[known.unwrap_or(loaded.len() - 1)];
    // SAFETY: a library that exports this name promises the header's type.
    let entry = unsafe { library.get::<abi::Entry>(b"maniple_mapper_library\0") };
    entry.map(|entry| *entry).map_err(|_| Fault::Foreign)
}

#[cfg(not(unix))]
fn entry(_: &Path) -> Result<abi::Entry, Fault> {
    Err(Fault::Refused("expected a Unix system".into()))
}

/// A copy of a library's table, with null for the calls that the library does not know.
fn table(given: *const abi::Library) -> Result<abi::Library, Fault> {
    if given.is_null() || !given.is_aligned() {
        return Err(Fault::NoTable(format!("{given:?}")));
    }
    // All versions begin with these three numbers.
    // SAFETY: the library promises that this is its table, and the magic number makes it likely.
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
    // Whole pointers only.
    let known = known - known % align_of::<abi::Library>();
    // SAFETY: both are at least that long. The rest of the copy stays null.
    unsafe { std::ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut table).cast::<u8>(), known) };
    Ok(table)
}
