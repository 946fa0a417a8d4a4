//! The files that a command names. Two uses of one file are an error, unless both only read it: one would overwrite the
//! other.

use crate::Failure;
use maniple::mapper::MapperSpec;
use maniple::runtime::{Error, TraceFile};
use maniple_mapper::files::Identity;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// A file that can't be written, in the words for all files.
pub fn unwritten(path: &Path, why: impl Display) -> String {
    format!("{}: can't be written: {why}", path.display())
}

/// A trace that can't be written, in the same words.
pub fn untraced(e: &Error) -> String {
    match e {
        Error::Trace { path, message } => unwritten(Path::new(path), message),
        e => e.to_string(),
    }
}

/// Checks that the trace of the last run was written.
pub fn check_trace(trace: Option<&TraceFile>) -> Result<(), Failure> {
    trace.map_or(Ok(()), TraceFile::written).map_err(|e| Failure::Run(untraced(&e)))
}

/// All files of a command, each with the option that names it.
#[derive(Debug, Default)]
pub struct Files(Vec<Named>);

#[derive(Debug)]
struct Named {
    option: &'static str,
    path: PathBuf,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Read,
    Written,
    /// A directory in which several files are written.
    Filled,
}

impl Files {
    /// The file that stdout is redirected to, if there is one.
    pub fn new() -> Self {
        let out = Path::new("/dev/stdout");
        let redirected = out.metadata().is_ok_and(|metadata| metadata.is_file());
        Self::default().writes("stdout", redirected.then_some(out))
    }

    fn with(mut self, option: &'static str, path: Option<&Path>, how: How) -> Self {
        self.0.extend(path.map(|path| Named { option, path: path.to_owned(), how }));
        self
    }

    /// Adds a file that is read.
    pub fn reads(self, option: &'static str, path: Option<&Path>) -> Self {
        self.with(option, path, How::Read)
    }

    /// Adds a file that is written.
    pub fn writes(self, option: &'static str, path: Option<&Path>) -> Self {
        self.with(option, path, How::Written)
    }

    /// Adds a directory in which files are written.
    pub fn fills(self, option: &'static str, path: Option<&Path>) -> Self {
        self.with(option, path, How::Filled)
    }

    /// Adds the files of a mapper.
    pub fn mapper(mut self, mapper: &MapperSpec) -> Result<Self, Failure> {
        for (path, written) in mapper.files().map_err(|e| Failure::Usage(e.to_string()))? {
            self = self.with("--mapper", Some(&path), if written { How::Written } else { How::Read });
        }
        Ok(self)
    }

    /// Checks that no file has two uses.
    pub fn check(&self) -> Result<(), Failure> {
        for (i, a) in self.0.iter().enumerate() {
            for b in &self.0[..i] {
                if let Some(what) = a.collides(b) {
                    let (a_path, b_path) = (a.path.display(), b.path.display());
                    return Err(Failure::Usage(format!("{} {b_path} and {} {a_path}: {what}", b.option, a.option)));
                }
            }
        }
        Ok(())
    }
}

impl Named {
    /// The conflict between two uses, if there is one. A file whose directory does not exist can't be written anyway.
    fn collides(&self, other: &Self) -> Option<&'static str> {
        let same = |a: io::Result<Identity>, b: io::Result<Identity>| matches!((a, b), (Ok(a), Ok(b)) if a == b);
        let within =
            |a: &Self, b: &Self| a.how == How::Filled && same(Identity::of(&a.path), Identity::of_directory(&b.path));
        let written = (self.how, other.how) != (How::Read, How::Read);
        if written && same(Identity::of(&self.path), Identity::of(&other.path)) {
            return Some("both are the same file, and it is written; give each a file of its own");
        }
        (within(self, other) || within(other, self)).then_some("expected a file outside of the report's directory")
    }
}
