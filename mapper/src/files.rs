//! Reading and writing the files that a user names.
//!
//! Only regular files are read and replaced. A device may have no end, and opening a pipe waits for another process. A
//! file is written as a [whole](Whole) or not at all.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Opens a regular file for reading.
///
/// # Errors
/// The file can't be opened, or is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    expect_regular(&fs::metadata(path)?)?;
    File::open(path)
}

/// The content of a regular file of at most `most` bytes.
///
/// # Errors
/// The file can't be read, is no regular file, or is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_from(open(path)?, most)
}

/// The rest of a reader, at most `most` bytes. Memory for `most` bytes is reserved at once.
///
/// # Errors
/// The reader fails or has more bytes, or there is not enough memory.
pub fn read_from(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(most).unwrap_or(usize::MAX)).map_err(io::Error::other)?;
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("expected at most {most} bytes, found more")));
    }
    Ok(bytes)
}

/// Opens a regular file to write at its end, and makes it if it does not exist.
///
/// # Errors
/// The file can't be opened, is no regular file, or is a link to nothing.
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

/// The regular file at a path where a file will be written, or `None` if there is nothing.
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

/// A file that is written as a whole. The content goes to a temporary file in the same directory, which takes the name
/// at the end. If anything goes wrong before that, the old content stays.
///
/// Behind a symbolic link, the file that it leads to is replaced, and the link stays. If a file has several names (hard
/// links), only this name gets the new content. Permissions stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// The path, with symbolic links followed.
    path: PathBuf,
}

impl Whole {
    /// Checks that the file can be written, with a temporary file that is made and removed. Nothing else changes.
    ///
    /// # Errors
    /// The path leads to something other than a regular file, to a read-only file, or through a link to nothing. Or no
    /// file can be made in its directory.
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

    /// Writes the file with the content that `fill` writes.
    ///
    /// # Errors
    /// The file can't be written, or `fill` fails. The old content stays.
    pub fn write(&self, fill: impl FnOnce(&mut Filling) -> io::Result<()>) -> io::Result<()> {
        let mut filling = self.begin()?;
        fill(&mut filling)?;
        filling.finish()
    }

    /// Begins to write the file. The old content stays until [`Filling::finish`].
    ///
    /// # Errors
    /// No file can be made in its directory.
    pub fn begin(&self) -> io::Result<Filling> {
        let temporary = beside(&self.path)?;
        if let Some(metadata) = there(&self.path)? {
            temporary.as_file().set_permissions(metadata.permissions())?;
        }
        Ok(Filling { out: BufWriter::with_capacity(1 << 16, temporary), path: self.path.clone() })
    }
}

/// The new content of a file that is written as a [whole](Whole). Dropped before its end, it leaves no trace.
#[derive(Debug)]
pub struct Filling {
    out: BufWriter<tempfile::NamedTempFile<File>>,
    path: PathBuf,
}

impl Filling {
    /// Gives the content to the file.
    ///
    /// # Errors
    /// The file can't be written. The old content stays.
    pub fn finish(self) -> io::Result<()> {
        let temporary = self.out.into_inner()?;
        temporary.as_file().sync_all()?;
        temporary.persist(&self.path).map(drop).map_err(|e| e.error)
    }
}

impl Write for Filling {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A temporary file beside `path`, which is removed unless it gets another name.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile<File>> {
    // The file gets the permissions of any new file, which differ from those that `tempfile` gives.
    tempfile::Builder::new().prefix(".maniple-").suffix(".tmp").make_in(directory(path), |path| File::create_new(path))
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file that a path leads to, with links followed. The file need not exist yet. Two paths to one file are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    node: Node,
    /// The name in the directory `node`, if the file does not exist.
    name: Option<OsString>,
}

/// Identifies a file under all its names.
#[cfg(unix)]
type Node = (u64, u64);
#[cfg(not(unix))]
type Node = PathBuf;

impl Identity {
    /// The file that this path leads to.
    ///
    /// # Errors
    /// Neither the file nor its directory exists.
    pub fn of(path: &Path) -> io::Result<Self> {
        match (node(path), path.file_name()) {
            (Ok(node), _) => Ok(Self { node, name: None }),
            (Err(_), Some(name)) => Ok(Self { name: Some(name.to_owned()), ..Self::of_directory(path)? }),
            (Err(e), None) => Err(e),
        }
    }

    /// The directory of this path.
    ///
    /// # Errors
    /// The directory does not exist.
    pub fn of_directory(path: &Path) -> io::Result<Self> {
        Ok(Self { node: node(directory(path))?, name: None })
    }
}

#[cfg(unix)]
fn node(path: &Path) -> io::Result<Node> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Hard links to one file differ here.
#[cfg(not(unix))]
fn node(path: &Path) -> io::Result<Node> {
    fs::canonicalize(path)
}
