//! The leaf tasks that touch files.

use super::array::{METADATA, group};
use super::boxes::{BoxOf, BoxReader, BoxWriter};
use super::npy;
use crate::prelude::*;
use crate::regions::{ReadBytes, WriteBytes};
use crate::runtime::Portable;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

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
        let Whole { step, trees, values } = whole;
        let about = json!({ "program": program, "step": step, "trees": trees, "values": values });
        self.add(METADATA.into(), group(&[], about).to_string());
        Ok(())
    }
}

/// Makes the directory in which all is written, and returns its path, unless something that `save` has not written is at the path that
/// it gets.
pub fn begin(path: Arg<PathBuf>, begun: Arg<Begun>) -> Result<PathBuf, Error> {
    check_replaced(&path, is_own_group)?;
    let part = new_part(&path, |part| fs::create_dir(part))?;
    let fill = || {
        for (name, content) in &begun.files {
            let file = part.join(name);
            fs::create_dir_all(file.parent().unwrap_or(&part)).map_err(at(&file))?;
            write_all(&file, content).map_err(at(&file))?;
        }
        Ok(())
    };
    kept_if_ok(part.clone(), fill())
}

/// The same for a file of NumPy's.
pub fn begin_npy(path: Arg<PathBuf>, head: Arg<Vec<u8>>, length: Arg<u64>) -> Result<PathBuf, Error> {
    check_replaced(&path, |found, _| if found.is_file() { Ok(()) } else { Err("a directory".into()) })?;
    let part = new_part(&path, |part| File::create_new(part).map(drop))?;
    let fill = || {
        write_all(&part, &head)?;
        File::options().write(true).open(&part)?.set_len(*length)
    };
    kept_if_ok(part.clone(), fill().map_err(at(&part)))
}

/// Returns the path, or removes what is there after an error.
fn kept_if_ok(part: PathBuf, filled: Result<(), Error>) -> Result<PathBuf, Error> {
    if filled.is_err() {
        // The first error counts.
        let _removed = remove(&part);
    }
    filled.map(|()| part)
}

fn write_all(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_data()
}

/// Makes a new file or directory beside a path, with a name that nobody has.
fn new_part(path: &Path, make: impl Fn(&Path) -> io::Result<()>) -> Result<PathBuf, Error> {
    let dir = directory_of(path);
    fs::create_dir_all(dir).map_err(at(dir))?;
    for number in 0_u64.. {
        let part = part_of(path, number);
        match make(&part) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| part.clone()).map_err(at(&part)),
        }
    }
    unreachable!("some number is free")
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A path beside another one for what is not whole.
fn part_of(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("{PART}{}-{number}", std::process::id()));
    name.into()
}

/// What a path has in its name while it is not whole. The numbers of a process and of its attempt follow.
const PART: &str = ".part-";

/// Refuses a path where something is that must not be replaced.
fn check_replaced(path: &Path, is_own: impl Fn(&Metadata, &Path) -> Result<(), String>) -> Result<(), Error> {
    let own = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(at(path)(e)),
        Ok(found) if found.is_symlink() => Err("a symbolic link".into()),
        Ok(found) => is_own(&found, path),
    };
    own.map_err(|came| wrong(path, format!("expected nothing, or what an earlier `save` wrote, found {came}")))
}

/// Whether a directory is a group that `save` wrote, and nothing else is in it.
fn is_own_group(found: &Metadata, path: &Path) -> Result<(), String> {
    if !found.is_dir() {
        return Err("a file".into());
    }
    let node = read_metadata(path).map_err(|_| "another directory")?;
    if !node["attributes"]["maniple"].is_object() {
        return Err("a group of another program".into());
    }
    let arrays = &node["consolidated_metadata"]["metadata"];
    for entry in fs::read_dir(path).map_err(|e| e.to_string())? {
        let name = entry.map_err(|e| e.to_string())?.file_name();
        let is_ours = name == METADATA || name.to_str().is_some_and(|name| arrays.get(name).is_some());
        if !is_ours {
            return Err(format!("a group with something else in it, `{}`", name.display()));
        }
    }
    Ok(())
}

/// Writes values to a chunk of its own, or into a file that is there.
pub fn write(data: ReadBytes, part: Arg<PathBuf>, chunk: Arg<PathBuf>, of: Arg<BoxOf>) -> Result<(), Error> {
    let path = if of.has_checksum { part.join(&*chunk) } else { part.0 };
    let write = || {
        if of.has_checksum
            && let Some(dir) = path.parent()
        {
            fs::create_dir_all(dir)?;
        }
        let file = File::options().write(true).create(of.has_checksum).open(&path)?;
        let mut writer = BoxWriter::new(file, &of, &data.rect())?;
        data.runs().try_for_each(|run| writer.write_all(run))?;
        // A full disk may be known only now.
        writer.finish()?.sync_data()
    };
    write().map_err(at(&path))
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

/// Gives what is written its name, in place of what was there. If it is a checkpoint, `keep` has its step, and how many stay.
pub fn publish(
    Arg(path): Arg<PathBuf>,
    Arg(part): Arg<PathBuf>,
    keep: Arg<Option<(u64, usize)>>,
    _written: Many<Arg<()>>,
) -> Result<(), Error> {
    if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
        exchange(&part, &path).map_err(at(&path))?;
        remove(&part)?;
    } else {
        fs::rename(&part, &path).map_err(at(&path))?;
    }
    let dir = directory_of(&path);
    // Some file systems can't. Then the name comes to the disk with its next write.
    let _synced = File::open(dir).and_then(|dir| dir.sync_all());
    if let Some((step, keep)) = *keep
        && let Err(e) = remove_old(dir, step, keep)
    {
        log::warn!("a checkpoint was written, but older ones stay: {e}");
    }
    Ok(())
}

/// Gives each of two directories the other's name.
fn exchange(part: &Path, path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, part, CWD, path, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
    }
    // Not every file system can.
    let mut old = part.as_os_str().to_owned();
    old.push("-old");
    fs::rename(path, &old)?;
    if let Err(e) = fs::rename(part, path) {
        fs::rename(&old, path)?;
        return Err(e);
    }
    fs::rename(&old, part)
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

/// Reads the metadata of the arrays of a group, or of the one array that `path` is. In a checkpoint there must be no others.
pub fn look_zarr(Arg(path): Arg<PathBuf>, names: Arg<Vec<String>>, only: Arg<bool>) -> Result<Vec<Found>, Error> {
    let node = read_metadata(&path)?;
    if *only {
        let arrays = node["consolidated_metadata"]["metadata"].as_object();
        let found: Vec<&String> = arrays.iter().flat_map(|arrays| arrays.keys()).collect();
        let mut expected: Vec<&String> = names.iter().collect();
        expected.sort();
        if found != expected {
            return Err(wrong(&path, format!("expected the fields {expected:?}, found {found:?}")));
        }
    }
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

/// What the names of checkpoints begin with.
pub const PREFIX: &str = "checkpoint-";

/// The file of a checkpoint that has the program's values. No tree's directory has this name.
const VALUES: &str = "__values";

/// A whole checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Whole {
    pub step: u64,
    /// The directories of its trees.
    pub trees: Vec<String>,
    /// The type of its values.
    pub values: String,
}

/// The name of a checkpoint's directory, in the order of steps.
pub fn name_of(step: u64) -> String {
    format!("{PREFIX}{step:020}")
}

/// The checkpoints of a directory by their steps, the newest last, and those that are not whole.
fn checkpoints(dir: &Path) -> Result<[Vec<(u64, PathBuf)>; 2], Error> {
    let [mut whole, mut parts] = [const { Vec::new() }; 2];
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok([whole, parts]),
        entries => entries.map_err(at(dir))?,
    };
    for entry in entries {
        let name = entry.map_err(at(dir))?.file_name();
        let Some(name) = name.to_str() else { continue };
        let (own, part) = name.split_once(PART).map_or((name, None), |(own, part)| (own, Some(part)));
        let step = own.strip_prefix(PREFIX).and_then(|step| step.parse().ok()).filter(|step| name_of(*step) == own);
        let Some(step) = step else { continue };
        if part.is_some() { parts.push((step, dir.join(name))) } else { whole.push((step, dir.join(name))) }
    }
    whole.sort();
    Ok([whole, parts])
}

/// Finds the newest whole checkpoint of a program.
pub fn look_checkpoint(dir: Arg<PathBuf>, program: Arg<String>) -> Result<Option<Whole>, Error> {
    let Some((step, path)) = checkpoints(&dir)?[0].pop() else { return Ok(None) };
    let about = &read_metadata(&path)?["attributes"]["maniple"];
    if about["program"] != json!(*program) {
        let advice = "name another directory, or remove this one";
        return Err(wrong(
            &path,
            format!("expected a checkpoint of \"{}\", found one of {}; {advice}", *program, about["program"]),
        ));
    }
    let whole: Whole = serde_json::from_value(about.clone()).map_err(|e| wrong(&path, e))?;
    match whole.step == step {
        true => Ok(Some(whole)),
        false => Err(wrong(&path, format!("expected a checkpoint of step {step}, found one of step {}", whole.step))),
    }
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
    postcard::from_bytes(values).map_err(|e| wrong(&path, format!("the values can't be read: {e}")))
}

/// Removes surplus checkpoints, and unfinished ones of earlier steps.
fn remove_old(dir: &Path, step: u64, keep: usize) -> Result<(), Error> {
    let [whole, mut unfinished] = checkpoints(dir)?;
    unfinished.retain(|(other, _)| *other < step);
    // Without its name first: a run may be killed before all of it is gone.
    for (other, old) in whole.iter().rev().skip(keep) {
        let gone = part_of(old, 0);
        fs::rename(old, &gone).map_err(at(old))?;
        unfinished.push((*other, gone));
    }
    unfinished.iter().try_for_each(|(_, old)| remove(old))
}
