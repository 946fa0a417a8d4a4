//! The file of a library: the checks before any of its code runs, and the copy that is loaded.

use crate::Fault;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Size in bytes of the largest library.
const LARGEST: u64 = 1 << 30;

/// The content of the file, which is a shared library for this processor, as far as its head shows. Without this check
/// each system's loader would report other files in its own words.
pub fn contents(path: &Path) -> Result<Vec<u8>, Fault> {
    let meta = std::fs::metadata(path).map_err(Fault::Unreadable)?;
    if meta.is_dir() {
        return Err(Fault::NoLibrary("a directory".into()));
    }
    if !meta.is_file() {
        return Err(Fault::NoLibrary("no regular file".into()));
    }
    if meta.len() > LARGEST {
        return Err(Fault::NoLibrary(format!("a file of {} bytes; expected at most {LARGEST}", meta.len())));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes)).map_err(Fault::Unreadable)?;
    if cfg!(target_os = "linux") {
        elf(&bytes).map_err(|what| Fault::NoLibrary(what.into()))?;
    }
    Ok(bytes)
}

/// Checks that these bytes begin as a shared library for this processor does. The error names the kind of file.
fn elf(bytes: &[u8]) -> Result<(), &'static str> {
    const SHARED: u16 = 3; // ET_DYN, in the byte order that the file says
    let Some(head) = bytes.first_chunk::<20>().filter(|head| head.starts_with(b"\x7fELF")) else {
        return Err("a file of another format");
    };
    let kind = if head[5] == 2 { u16::from_be_bytes } else { u16::from_le_bytes };
    if kind([head[16], head[17]]) != SHARED {
        return Err("an object file or a program");
    }
    let mut own = [0; 20];
    let known = File::open("/proc/self/exe").and_then(|mut exe| exe.read_exact(&mut own));
    if known.is_ok() && (head[4], head[5], &head[18..]) != (own[4], own[5], &own[18..]) {
        return Err("one for another processor");
    }
    if sections_end(bytes).is_none_or(|end| end > bytes.len() as u64) {
        return Err("a file that is cut short");
    }
    Ok(())
}

/// The end of the list of sections, which linkers write last; 0 if there is none. In this processor's byte order.
fn sections_end(bytes: &[u8]) -> Option<u64> {
    let short = |at: usize| Some(u64::from(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)));
    // The places of `e_shoff` and `e_shentsize` in files of 64 and 32 bits; `e_shnum` is next.
    let (start, size) = if bytes[4] == 2 {
        (u64::from_ne_bytes(*bytes.get(0x28..)?.first_chunk()?), 0x3a)
    } else {
        (u64::from(u32::from_ne_bytes(*bytes.get(0x20..)?.first_chunk()?)), 0x2e)
    };
    start.checked_add(short(size)? * short(size + 2)?)
}

/// The copy of a library that the loader opens: in memory where the system allows that, or else the file itself.
///
/// The copy has two reasons. The loader knows files by name, and would not load a file again that was built again. And
/// a library whose file is written over while it is in use crashes.
pub struct Image {
    /// The path for the loader. The name of a copy is the number of its open file, so a loaded copy must stay open for
    /// good.
    pub name: PathBuf,
    /// None if the library is loaded from its own file.
    file: Option<File>,
}

impl Image {
    /// Makes a copy for this process alone.
    pub fn new(path: &Path, bytes: &[u8]) -> Result<Self, Fault> {
        let copied = |e| Fault::Refused(format!("no copy of it can be made in memory: {e}"));
        Ok(match in_memory(path, bytes).map_err(copied)? {
            Some((file, name)) => Self { name, file: Some(file) },
            // The loader looks for a path without a directory in other places.
            None if path.is_relative() => Self { name: Path::new(".").join(path), file: None },
            None => Self { name: path.to_owned(), file: None },
        })
    }

    /// Whether the copy has these bytes.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        let of_its_size = |file: &File| file.metadata().is_ok_and(|meta| meta.len() == bytes.len() as u64);
        self.file.as_ref().is_some_and(of_its_size) && std::fs::read(&self.name).is_ok_and(|own| own == bytes)
    }

    /// The loader's message, for a user who does not know about the copy.
    pub fn explained(&self, said: &str) -> String {
        let name = format!("{}: ", self.name.display());
        match said.strip_prefix(&name) {
            Some(rest) => rest.into(),
            // The message is about another library, one that this one needs.
            None if self.file.is_some() => {
                format!("{said} (it is loaded as a copy: what it needs is not looked for beside it, by $ORIGIN)")
            }
            None => said.into(),
        }
    }
}

/// A file in memory, and its path. It has the name of the library, which debuggers show. None if the system has no such
/// files or forbids them.
#[cfg(target_os = "linux")]
fn in_memory(path: &Path, bytes: &[u8]) -> io::Result<Option<(File, PathBuf)>> {
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    const LONGEST: usize = 200; // The system's limit is 249.
    let name = path.file_name().map_or(&b"mapper"[..], |name| name.as_bytes());
    let mut file = match memfd_create(&name[..name.len().min(LONGEST)], MemfdFlags::CLOEXEC).map_err(io::Error::from) {
        Ok(file) => File::from(file),
        Err(e) if matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) => return Ok(None),
        Err(e) => return Err(e),
    };
    file.write_all(bytes)?;
    let name = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
    Ok(Some((file, name)))
}

#[cfg(not(target_os = "linux"))]
fn in_memory(_: &Path, _: &[u8]) -> io::Result<Option<(File, PathBuf)>> {
    Ok(None)
}
