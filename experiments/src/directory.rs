//! The directory of a report.

use crate::Failure;
use maniple::mapper::files::Whole;
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A directory that was empty.
pub struct Directory(PathBuf);

impl Directory {
    /// Makes the directory, or takes one that is empty.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let refuse = |e: io::Error| Failure::Usage(format!("{}: can't be written: {e}", path.display()));
        match fs::read_dir(path) {
            Ok(mut entries) => {
                if let Some(entry) = entries.next() {
                    let found = entry.map_err(refuse)?.file_name();
                    return Err(Failure::Usage(format!(
                        "{}: expected a new or an empty directory for the report, found `{}` in it; name another",
                        path.display(),
                        found.display()
                    )));
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path).map_err(refuse)?,
            Err(e) => return Err(refuse(e)),
        }
        Ok(Self(path.to_owned()))
    }

    /// Replaces a file as a whole: who reads it finds the old one or the new one.
    pub fn write(&self, name: &str, text: impl AsRef<str>) -> Result<(), Failure> {
        let file = Whole::prepare(&self.0.join(name));
        let done = file.and_then(|file| file.write(|out| out.write_all(text.as_ref().as_bytes())));
        done.map_err(|e| self.unwritten(name, &e))
    }

    /// That a file can't be written.
    pub fn unwritten(&self, name: &str, e: &io::Error) -> Failure {
        Failure::Run(format!("{}: can't be written: {e}", self.0.join(name).display()))
    }
}

/// A value as JSON for a file.
pub fn pretty(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value).map_err(|e| Failure::Run(e.to_string()))? + "\n")
}
