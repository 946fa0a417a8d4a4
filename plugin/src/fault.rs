//! What can be wrong with a library.

use crate::abi;
use std::path::PathBuf;

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
    NoLibrary(String),
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
    /// Its mapper's name is null, too long or not UTF-8.
    #[error("its mapper's name is {0}")]
    Name(&'static str),
}
