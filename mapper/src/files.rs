//! The files that a user names: one that is read has an end, and one that is written is written as a whole.
//!
//! Only regular files are read and replaced. A device may have no end, and opening a pipe waits for somebody else.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};

/// Opens a regular file for reading.
///
/// # Errors
/// It can't be opened, or is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    expect_regular(&fs::metadata(path)?)?;
    File::open(path)
}

/// What a regular file of at most `most` bytes holds.
///
/// # Errors
/// It can't be read, is no regular file, or is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_from(open(path)?, most)
}

/// What is left to read, at most `most` bytes, for which there is memory from the beginning.
///
/// # Errors
/// It can't be read, there is more, or there is no memory for as much.
pub fn read_from(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(most).unwrap_or(usize::MAX)).map_err(io::Error::other)?;
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("expected at most {most} bytes, found more")));
    }
    Ok(bytes)
}

/// Opens a regular file to write at its end, and makes it if there is none.
///
/// # Errors
/// It can't be opened, is no regular file, or is a link to nothing.
pub fn append(path: &Path) -> io::Result<File> {
    there(path)?;
    OpenOptions::new().create(true).append(true).open(path)
}

fn expect_regular(metadata: &Metadata) -> io::Result<()> {
    let found = match metadata.file_type() {
        t if t.is_file() => return Ok(()),
        t if t.is_dir() => "a directory",
        _ => "a device, a pipe or a socket",
    };
    Err(io::Error::other(format!("expected a regular file, found {found}")))
}

/// What is at a path where a file is to be written: a regular file or nothing.
fn there(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => expect_regular(&metadata).map(|()| Some(metadata)),
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        Err(_) if fs::symlink_metadata(path).is_ok() => {
            Err(io::Error::other("expected a file or nothing, found a symbolic link to nothing"))
        }
        Err(_) => Ok(None),
    }
}

/// A file that is written as a whole: to a temporary file in the same directory, which takes the name when all is in it. Until
/// then, and whatever goes wrong, what was there before stays.
///
/// A symbolic link stays one, and the file that it leads to is replaced. Of a file with several names (hard links) only this
/// name gets what is new. Permissions stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// With symbolic links followed.
    path: PathBuf,
}

impl Whole {
    /// Makes sure that the file can be written, by a temporary file that it makes and removes. Nothing else is changed.
    ///
    /// # Errors
    /// The path leads to something other than a regular file, to a file that is read-only, or through a link to nothing; or
    /// nothing can be made in its directory.
    pub fn prepare(path: &Path) -> io::Result<Self> {
        let path = match there(path)? {
            Some(metadata) if metadata.permissions().readonly() => {
                return Err(io::Error::other("the file is read-only"));
            }
            Some(_) => fs::canonicalize(path)?,
            None => path.to_owned(),
        };
        drop(beside(&path)?);
        Ok(Self { path })
    }

    /// Writes the file: `fill` says what is in it.
    ///
    /// # Errors
    /// It can't be written, or `fill` fails; what was there before still is.
    pub fn write(&self, fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
        let temporary = beside(&self.path)?;
        let file = temporary.as_file();
        if let Some(metadata) = there(&self.path)? {
            file.set_permissions(metadata.permissions())?;
        }
        let mut out = BufWriter::with_capacity(1 << 16, file);
        fill(&mut out)?;
        out.into_inner()?.sync_all()?;
        temporary.persist(&self.path).map(drop).map_err(|e| e.error)
    }
}

/// A temporary file, removed unless it gets another name.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile<File>> {
    // With the permissions of any new file, which the crate's own are not.
    tempfile::Builder::new().prefix(".maniple-").suffix(".tmp").make_in(directory(path), |path| File::create_new(path))
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Which file a path leads to, through links too, whether or not it is there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    node: Node,
    /// In the directory `node`, of a file that is not there.
    name: Option<OsString>,
}

/// What is one file under all its names.
#[cfg(unix)]
type Node = (u64, u64);
#[cfg(not(unix))]
type Node = PathBuf;

impl Identity {
    /// The file that this path leads to.
    ///
    /// # Errors
    /// Neither the file nor its directory is there.
    pub fn of(path: &Path) -> io::Result<Self> {
        match (node(path), path.file_name()) {
            (Ok(node), _) => Ok(Self { node, name: None }),
            (Err(_), Some(name)) => Ok(Self { name: Some(name.to_owned()), ..Self::of_directory(path)? }),
            (Err(e), None) => Err(e),
        }
    }

    /// The directory that it is in, under this path.
    ///
    /// # Errors
    /// The directory is not there.
    pub fn of_directory(path: &Path) -> io::Result<Self> {
        Ok(Self { node: node(directory(path))?, name: None })
    }
}

#[cfg(unix)]
fn node(path: &Path) -> io::Result<Node> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Hard links are not seen.
#[cfg(not(unix))]
fn node(path: &Path) -> io::Result<Node> {
    fs::canonicalize(path)
}
