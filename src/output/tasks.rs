//! The leaf tasks that touch files.

use super::array::{METADATA, group};
use super::boxes::{BoxOf, BoxReader, BoxWriter};
use super::npy;
use crate::prelude::*;
use crate::regions::{ReadBytes, WriteBytes};
use crate::runtime::Portable;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The error of a file.
pub fn at(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |e| Error::user(format!("{}: {e}", path.display()))
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::user(format!("{}: {why}", path.display()))
}

/// Files that are there before tasks write chunks: metadata, and the values of a checkpoint.
#[derive(Debug, Clone, Default)]
pub struct Begun {
    /// The path of each within the directory, and its content.
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Begun {
    pub fn add(&mut self, path: PathBuf, content: impl Into<Vec<u8>>) {
        self.files.push((path, content.into()));
    }

    /// Adds what makes the directory a checkpoint, with the program's values and their checksum.
    pub fn checkpoint(&mut self, program: &str, whole: Whole, values: &impl Serialize) -> Result<(), Error> {
        let refused = |e| Error::user(format!("the values of a checkpoint: {e}"));
        let mut bytes = postcard::to_stdvec(values).map_err(refused)?;
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        self.add(VALUES.into(), bytes);
        let Whole { step, trees } = whole;
        let about = json!({ "program": program, "step": step, "trees": trees });
        self.add(METADATA.into(), group(&[], about).to_string());
        Ok(())
    }
}

/// Makes the directory in which all is written, unless something else than what we write is at the path that it gets.
pub fn begin(path: Arg<PathBuf>, part: Arg<PathBuf>, begun: Arg<Begun>) -> Result<(), Error> {
    if fs::symlink_metadata(&*path).is_ok() && !path.join(METADATA).is_file() {
        return Err(wrong(
            &path,
            "expected nothing, or a group or an array of Zarr to replace, found another file or directory",
        ));
    }
    remove(&part)?;
    fs::create_dir_all(&*part).map_err(at(&part))?;
    for (name, content) in &begun.files {
        let file = part.join(name);
        let dir = file.parent().unwrap_or(&part);
        fs::create_dir_all(dir).map_err(at(dir))?;
        fs::write(&file, content).map_err(at(&file))?;
    }
    Ok(())
}

/// The same for a file of NumPy's.
pub fn begin_npy(path: Arg<PathBuf>, part: Arg<PathBuf>, head: Arg<Vec<u8>>, length: Arg<u64>) -> Result<(), Error> {
    if fs::symlink_metadata(&*path).is_ok_and(|found| !found.is_file()) {
        return Err(wrong(&path, "expected nothing or a file to replace, found a directory"));
    }
    if let Some(dir) = part.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        fs::create_dir_all(dir).map_err(at(dir))?;
    }
    let begin = || {
        let mut file = File::create(&*part)?;
        file.write_all(&head)?;
        file.set_len(*length)
    };
    begin().map_err(at(&part))
}

/// Writes values to a chunk of its own, or into a file that is there.
pub fn write(data: ReadBytes, path: Arg<PathBuf>, of: Arg<BoxOf>, _begun: Arg<()>) -> Result<(), Error> {
    let write = || {
        if of.has_checksum
            && let Some(dir) = path.parent()
        {
            fs::create_dir_all(dir)?;
        }
        let file = File::options().write(true).create(of.has_checksum).truncate(of.has_checksum).open(&*path)?;
        let mut writer = BoxWriter::new(file, &of, &data.rect())?;
        data.runs().try_for_each(|run| writer.write_all(run))?;
        writer.finish()
    };
    write().map(drop).map_err(at(&path))
}

/// Reads values. A chunk may be missing, unless all are needed.
pub fn read(mut data: WriteBytes, path: Arg<PathBuf>, of: Arg<BoxOf>, is_needed: Arg<bool>) -> Result<(), Error> {
    let rect = data.rect();
    let mut reader = match BoxReader::open(&path, &of, &rect) {
        Err(e) if e.kind() == ErrorKind::NotFound && !*is_needed => {
            return data.set_runs(|run| {
                run.fill(0);
                Ok(())
            });
        }
        opened => opened.map_err(at(&path))?,
    };
    data.set_runs(|run| reader.read_exact(run)).and_then(|()| reader.finish()).map_err(at(&path))
}

/// Gives what is written its name, in place of what was there.
pub fn publish(path: Arg<PathBuf>, part: Arg<PathBuf>, _written: Many<Arg<()>>) -> Result<(), Error> {
    rename(&part, &path)
}

/// Gives a file or a directory its name, in place of an older one.
pub fn rename(part: &Path, path: &Path) -> Result<(), Error> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return fs::rename(part, path).map_err(at(path));
    }
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    let old = PathBuf::from(old);
    remove(&old)?;
    fs::rename(path, &old).map_err(at(path))?;
    fs::rename(part, path).map_err(at(path))?;
    remove(&old)
}

/// Removes what was written.
pub fn discard(part: Arg<PathBuf>) -> Result<(), Error> {
    remove(&part)
}

/// Removes a file or a directory, if it is there.
pub fn remove(path: &Path) -> Result<(), Error> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    };
    removed.map_err(at(path))
}

/// An array that is there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Found {
    /// Its directory, and the text of its metadata.
    Zarr { path: PathBuf, metadata: String },
    /// Its file, and the number of bytes before the values.
    Npy { path: PathBuf, start: u64 },
}

/// Reads the metadata of the arrays of a group, or of the one array that `path` is.
pub fn look_zarr(Arg(path): Arg<PathBuf>, names: Arg<Vec<String>>) -> Result<Vec<Found>, Error> {
    let node = read_metadata(&path)?;
    let array = |path: PathBuf| Ok(Found::Zarr { metadata: read_metadata(&path)?.to_string(), path });
    match node["node_type"] == "array" && names.len() == 1 {
        true => Ok(vec![array(path)?]),
        false => names.iter().map(|name| array(path.join(name))).collect(),
    }
}

fn read_metadata(dir: &Path) -> Result<Value, Error> {
    let path = dir.join(METADATA);
    let text = fs::read(&path).map_err(at(&path))?;
    serde_json::from_slice(&text).map_err(|e| wrong(&path, e))
}

/// Reads the header of a file of NumPy's.
pub fn look_npy(Arg(path): Arg<PathBuf>, descr: Arg<String>, shape: Arg<Vec<usize>>) -> Result<Vec<Found>, Error> {
    let mut head = Vec::new();
    let file = File::open(&path).map_err(at(&path))?;
    // The header of an array of numbers is far shorter.
    file.take(1 << 16).read_to_end(&mut head).map_err(at(&path))?;
    let header = npy::parse(&head).map_err(|why| wrong(&path, why))?;
    let expected = (Some(descr.as_str()), false, shape.iter().map(|n| *n as u64).collect());
    let found = (npy::quoted(header.descr), header.fortran_order, header.shape);
    if found != expected {
        let show = |(descr, fortran, shape): &(Option<&str>, bool, Vec<u64>)| {
            let order = if *fortran { ", in Fortran's order" } else { "" };
            format!("an array of {} of shape {shape:?}{order}", descr.unwrap_or("structures"))
        };
        return Err(wrong(&path, format!("expected {}, found {}", show(&expected), show(&found))));
    }
    let start = (head.len() - header.data.len()) as u64;
    Ok(vec![Found::Npy { path, start }])
}

/// The end of a path during writing.
const PART: &str = ".part";

/// The path with which something is written.
pub fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(PART);
    name.into()
}

/// What the names of checkpoints begin with.
pub const PREFIX: &str = "checkpoint-";

/// The file of a checkpoint that has the program's values.
const VALUES: &str = "values";

/// A whole checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Whole {
    pub step: u64,
    /// The directories of its trees.
    pub trees: Vec<String>,
}

/// The checkpoints of a directory whose names end in `end`, by their steps, the newest last. Whole ones have no such end.
fn checkpoints(dir: &Path, end: &str) -> Result<Vec<(u64, PathBuf)>, Error> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(found),
        entries => entries.map_err(at(dir))?,
    };
    for entry in entries {
        let name = entry.map_err(at(dir))?.file_name();
        let step = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(end)?.parse().ok());
        found.extend(step.map(|step| (step, dir.join(&name))));
    }
    found.sort();
    Ok(found)
}

/// Finds the newest whole checkpoint of a program.
pub fn look_checkpoint(dir: Arg<PathBuf>, program: Arg<String>) -> Result<Option<Whole>, Error> {
    let Some((step, path)) = checkpoints(&dir, "")?.pop() else { return Ok(None) };
    let about = &read_metadata(&path)?["attributes"]["maniple"];
    if about["program"] != json!(*program) {
        let advice = "name another directory, or remove this one";
        return Err(wrong(
            &path,
            format!("expected a checkpoint of \"{}\", found one of {}; {advice}", *program, about["program"]),
        ));
    }
    let trees = serde_json::from_value(about["trees"].clone()).map_err(|e| wrong(&path, e))?;
    Ok(Some(Whole { step, trees }))
}

/// Reads the values of a checkpoint.
pub fn read_values<V: Portable>(dir: Arg<PathBuf>) -> Result<V, Error> {
    let path = dir.join(VALUES);
    let bytes = fs::read(&path).map_err(at(&path))?;
    let undamaged =
        bytes.split_last_chunk().filter(|(values, sum)| crc32c::crc32c(values) == u32::from_le_bytes(**sum));
    let Some((values, _)) = undamaged else {
        return Err(wrong(&path, "the values do not have the file's checksum; the file is damaged"));
    };
    let other = |e| wrong(&path, format!("expected values of type {}, found others ({e})", std::any::type_name::<V>()));
    match postcard::take_from_bytes(values).map_err(other)? {
        (values, []) => Ok(values),
        _ => Err(other(postcard::Error::SerdeDeCustom)),
    }
}

/// A thread that gets the newest checkpoint to the disk, and then removes those that are too many. No task waits for it: where
/// checkpoints come faster than they get there, it leaves some out.
#[derive(Clone, Default)]
pub struct Later(Arc<Mutex<Work>>);

#[derive(Default)]
struct Work {
    /// The newest checkpoint that the thread has not begun with, and the number of those to keep.
    next: Option<(PathBuf, usize)>,
    is_running: bool,
}

impl Later {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, path: PathBuf, keep: usize) {
        let mut work = self.work();
        work.next = Some((path, keep));
        if !work.is_running {
            let this = self.clone();
            let started = std::thread::Builder::new().name("checkpoint".into()).spawn(move || this.run());
            work.is_running = started.is_ok();
        }
    }

    fn run(&self) {
        while let Some((path, keep)) = self.next() {
            if let Err(e) = sync(&path).map_err(at(&path)).and_then(|()| remove_old(&path, keep)) {
                log::warn!(
                    "a checkpoint was written, but could not be brought to the disk, or older ones could not be removed: {e}"
                );
            }
        }
    }

    fn next(&self) -> Option<(PathBuf, usize)> {
        let mut work = self.work();
        work.is_running = work.next.is_some();
        work.next.take()
    }
}

/// Gives a checkpoint its name.
pub fn publish_checkpoint(
    Arg(path): Arg<PathBuf>,
    part: Arg<PathBuf>,
    Arg((keep, later)): Arg<(usize, Later)>,
    _written: Many<Arg<()>>,
) -> Result<(), Error> {
    rename(&part, &path)?;
    later.add(path, keep);
    Ok(())
}

/// Removes surplus checkpoints, and unfinished ones older than this one.
fn remove_old(path: &Path, keep: usize) -> Result<(), Error> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let whole = checkpoints(dir, "")?;
    // Without its name first: a run may be killed before all of it is gone.
    for (_, old) in whole.iter().rev().skip(keep) {
        fs::rename(old, part_of(old)).map_err(at(old))?;
    }
    let mut left = checkpoints(dir, PART)?;
    left.retain(|(_, part)| part.with_extension("") < *path);
    left.iter().try_for_each(|(_, old)| remove(old))
}

/// Gets all files of a directory to the disk.
fn sync(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        fs::read_dir(path)?.try_for_each(|entry| sync(&entry?.path()))?;
    }
    File::open(path)?.sync_all()
}
