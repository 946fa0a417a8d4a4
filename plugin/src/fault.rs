//! The reasons why a library did not make a mapper.

use crate::abi;
use std::path::PathBuf;

/// A library that did not make a mapper, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", .path.display())]
pub struct PluginError {
    /// The path of the library.
    pub path: PathBuf,
    /// The reason.
    pub fault: Fault,
}

/// The reason why a library did not make a mapper.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file does not exist or can't be read.
    #[error("can't be read: {0}")]
    Unreadable(std::io::Error),
    /// The file is not a shared library for this processor.
    #[error("not a shared library, but {0}")]
    NoLibrary(String),
    /// The system's loader can't load the library.
    #[error("can't be loaded: {0}")]
    Refused(String),
    /// The library does not export `maniple_mapper_library`.
    #[error("not a mapper: it does not export `maniple_mapper_library` (see maniple_mapper.h)")]
    Foreign,
    /// The exported function returns no table.
    #[error("not a mapper: `maniple_mapper_library` returns {0}")]
    NoTable(String),
    /// The library is built for another version of the interface.
    #[error(
        "built for version {found} of the mapper interface, and this program has version {}: build it again with this \
         program's maniple_mapper.h",
        abi::MAPPER_VERSION
    )]
    Version {
        /// The library's version.
        found: u32,
    },
    /// The table is too small for its version.
    #[error(
        "its table has {found} bytes, and version {} of the mapper interface has at least {}: build it again with this \
         program's maniple_mapper.h",
        abi::MAPPER_VERSION,
        abi::Library::FIRST_SIZE
    )]
    Size {
        /// The table's size in bytes.
        found: u32,
    },
    /// The table lacks a required call.
    #[error("its table has no `{0}`")]
    Incomplete(&'static str),
    /// The options have a NUL byte and can't be passed on.
    #[error("the options have a NUL byte in them")]
    Options,
    /// The library refuses the options, or fails to make a mapper.
    #[error("did not make a mapper with the options `{options}`: {message}")]
    Create {
        /// The options.
        options: String,
        /// The library's message.
        message: String,
    },
    /// The mapper's name is null, too long or not UTF-8.
    #[error("its mapper's name is {0}")]
    Name(&'static str),
}
