//! Which process writes the file of a trace.

use super::runtime::Runtime;
use crate::Error;
use crate::diagnose::trace::TraceFile;
use std::path::PathBuf;

impl TraceFile {
    /// Prepares a file for traces, and makes sure that it can be written. Its present content stays until the first run
    /// ends. In a process other than process 0 nothing happens.
    ///
    /// # Errors
    /// [`Error::Trace`] when the file can't be written, or the path leads to something other than a regular file.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::at(path.into(), Runtime::process_number() == 0)
    }
}
