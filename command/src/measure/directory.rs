//! The directory of a report: files that are replaced as a whole, and files that grow.

use crate::Failure;
use maniple_mapper::files::Whole;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A directory that was empty.
pub struct Directory(PathBuf);

impl Directory {
    /// Makes the directory, or takes an empty one.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let refuse = |e: io::Error| Failure::Usage(format!("{}: can't be written: {e}", path.display()));
        match fs::read_dir(path) {
            Ok(mut entries) => {
                if let Some(entry) = entries.next() {
                    let found = entry.map_err(refuse)?.file_name();
                    return Err(Failure::Usage(format!(
                        "{}: expected a new or an empty directory for the report, found `{}` in it; name another one",
                        path.display(),
                        found.display()
                    )));
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => fs::create_dir(path).map_err(refuse)?,
            Err(e) => return Err(refuse(e)),
        }
        Ok(Self(path.to_owned()))
    }

    /// Replaces a file as a whole: a reader finds the old file or the new one.
    pub fn write(&self, name: &str, text: impl AsRef<str>) -> Result<(), Failure> {
        let file = Whole::prepare(&self.0.join(name));
        let done = file.and_then(|file| file.write(|out| out.write_all(text.as_ref().as_bytes())));
        done.map_err(|e| unwritten(&self.0.join(name), &e))
    }

    /// Begins a file that grows, with its first line.
    pub fn begin(&self, name: &'static str, head: &str) -> Result<Growing, Failure> {
        let path = self.0.join(name);
        let refuse = |e: io::Error| Failure::Usage(format!("{}: can't be written: {e}", self.0.display()));
        let mut file = File::create_new(&path).map_err(refuse)?;
        file.write_all(head.as_bytes()).map_err(refuse)?;
        Ok(Growing { path, file })
    }
}

/// A file that grows.
pub struct Growing {
    path: PathBuf,
    file: File,
}

impl Growing {
    /// Adds text, at once.
    pub fn add(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(|e| unwritten(&self.path, &e))
    }
}

fn unwritten(path: &Path, e: &io::Error) -> Failure {
    Failure::Run(format!("{}: can't be written: {e}", path.display()))
}

/// A value as JSON for a file.
pub fn pretty(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value).map_err(|e| Failure::Run(e.to_string()))? + "\n")
}
