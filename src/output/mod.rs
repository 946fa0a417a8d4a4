//! Output and input: region trees as files, and checkpoints from which a run starts again.
//!
//! [`Output`] gives the top-level task `save` and `load`. [`Checkpoint`] keeps the state of a run. The chapter
//! [*Output and restart*](crate::guide::output) of the guide shows both.
//!
//! # Formats
//!
//! A path that ends in `.npy` is one file of NumPy's, for a tree with one field. Each node writes its own part of it. Any other path is
//! a directory: a group of [Zarr, version 3](https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html), with an array for
//! each field. Where the shards hold blocks of one size, each block is a chunk, which is a file of its own. All nodes write at the
//! same time. zarr-python and xarray open the directory as it is.
//!
//! | elements | in the file |
//! |---|---|
//! | numbers, also `Complex` of the crate `num-complex` and `f16` of the crate `half` | the same numbers |
//! | arrays of numbers, `[f64; 3]` | the same numbers, with one more axis |
//! | all others | bytes, with one more axis; in NumPy, `a.view(dtype)` with a structured type reads them |
//!
//! Index 0 of an array is the first point of the region. In Zarr, the attribute `maniple.origin` has the coordinates of that point. Values
//! are in this machine's byte order and not compressed. Each chunk has a checksum, which `load` and zarr-python check. A `.npy` file has
//! none.
//!
//! A field has a directory of its name. In names that can't be those of files, `/` becomes `_`, and `of_` comes first where it must.
//!
//! Files are written as `PATH.part`, which is renamed to `PATH` when it is whole. An older directory is called `PATH.old` for that moment.
//! Whatever else has one of these two names is removed.

mod array;
mod boxes;
mod checkpoint;
#[doc(hidden)]
pub mod npy;
mod tasks;

pub use checkpoint::Checkpoint;

use crate::prelude::*;
use crate::regions::FieldInfo;
use crate::runtime::Tree;
use array::{DataType, Grid, METADATA, group, node_name};
use boxes::BoxOf;
use serde_json::{Value, json};
use std::future::Future;
use std::path::{Path, PathBuf};
use tasks::{Begun, Found, part_of};

/// Saves region trees to files and loads them, for the top-level task. "Collective" means that every copy of it makes the call.
pub trait Output {
    /// Saves all fields of a region, as earlier launches leave them. Collective; waits until all is written. Leaf tasks write,
    /// each on the node that has the values.
    ///
    /// A Zarr group or array at `path` is replaced, whoever wrote it. So is any file, if `path` ends in `.npy`. Anything else there is
    /// an error.
    ///
    /// # Errors
    /// - [`Error::Misuse`] for a region outside its tree, two fields whose names give the same file name, or a `.npy` file of
    ///   several fields.
    /// - An [`Error::User`] as the [origin](Error::origin) if a file can't be written. It names the file. What was there stays.
    fn save(&self, region: &Region, path: impl AsRef<Path>) -> impl Future<Output = Result<(), Error>>;

    /// Sets all fields of a region to values from files, of [`save`](Self::save) or of another program. Collective; waits until all is
    /// read. Leaf tasks read, spread over the nodes as the data is.
    ///
    /// `path` is a Zarr group with an array for each field. For a tree with one field, it may also be a Zarr array or a `.npy` file.
    /// Fortran order and the other byte order are errors. Arrays of other programs may have chunks of
    /// any size, but no compression. A chunk without a file has the array's fill value there, if that is zero. In an array that `save`
    /// wrote it is an error.
    ///
    /// # Errors
    /// - [`Error::Misuse`] for a region outside its tree, or a `.npy` file for several fields.
    /// - An [`Error::User`] as the [origin](Error::origin) for a file that is missing or damaged, or has another shape or type.
    fn load(&self, region: &Region, path: impl AsRef<Path>) -> impl Future<Output = Result<(), Error>>;
}

impl Output for Top {
    async fn save(&self, region: &Region, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let tree = self.tree(*region)?;
        let saving = if is_npy(path) { save_npy(self, *region, &tree, path)? } else { save_zarr(self, *region, path)? };
        saving.over(self).await
    }

    async fn load(&self, region: &Region, path: impl AsRef<Path>) -> Result<(), Error> {
        all(load_arrays(self, *region, path.as_ref()).await?).await
    }
}

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

fn only_field(tree: &Tree, path: &Path) -> Result<&'static FieldInfo, Error> {
    let what = || format!("{}, for region tree `{}`", path.display(), tree.name);
    let names: Vec<&str> = tree.fields.iter().map(|field| field.name).collect();
    let several =
        || Error::misuse(what(), "one field in a .npy file (a path without .npy takes any number)", names.join(", "));
    if let [field] = tree.fields[..] { Ok(field) } else { Err(several()) }
}

/// Waits for all tasks, and returns the first error.
async fn all(tasks: Vec<TaskFuture<()>>) -> Result<(), Error> {
    let mut first = Ok(());
    for task in tasks {
        first = first.and(task.await);
    }
    first
}

/// What is being written.
struct Saving {
    /// What is written, before it gets its name.
    part: PathBuf,
    /// Tasks that write. The first one begins.
    tasks: Vec<TaskFuture<()>>,
    /// The task that gives it its name.
    published: TaskFuture<()>,
}

impl Saving {
    /// Launches the task that gives what is written its name, after all others.
    fn publish(top: &Top, (part, path): (PathBuf, &Path), tasks: Vec<TaskFuture<()>>) -> Result<Self, Error> {
        let after = tasks.iter().map(Input::from).collect();
        let publish = top.try_launch(tasks::publish, (path.to_owned().into(), part.clone().into(), after));
        Ok(Self { part, tasks, published: publish.on(NodeId(0)).go()? })
    }

    /// Waits until it has its name. If anything fails, what was written is removed.
    async fn over(self, top: &Top) -> Result<(), Error> {
        let published = self.published.await;
        if published.is_err() {
            let _known = all(self.tasks).await;
            top.try_launch(tasks::discard, (self.part.into(),)).on(NodeId(0)).go()?.await?;
        }
        published
    }
}

fn save_zarr(top: &Top, region: Region, path: &Path) -> Result<Saving, Error> {
    let part = part_of(path);
    let mut begun = Begun::default();
    let arrays = describe(top, region, Path::new(""), &mut begun)?;
    let begin =
        top.try_launch(tasks::begin, (path.to_owned().into(), part.clone().into(), begun.into())).on(NodeId(0)).go()?;
    let mut written = vec![begin.clone()];
    written.extend(save_arrays(top, region, arrays, &part, &begin)?);
    Saving::publish(top, (part, path), written)
}

/// The arrays of a region's fields, and the metadata of their group in directory `at`.
fn describe(
    top: &Top,
    region: Region,
    at: &Path,
    begun: &mut Begun,
) -> Result<Vec<(PathBuf, &'static FieldInfo, Grid)>, Error> {
    let tree = top.tree(region)?;
    let (mut arrays, mut metadata): (Vec<_>, Vec<(String, Value)>) = (Vec::new(), Vec::new());
    for field in &tree.fields {
        let name = node_name(field.name);
        let grid = Grid::of(region.rect, &DataType::of(field), &top.instances(region, field.id)?);
        if let Some((other, _)) = metadata.iter().find(|(other, _)| *other == name) {
            let what = format!("the fields of region tree `{}`, as files", tree.name);
            return Err(Error::misuse(what, "names that differ", format!("`{other}` twice")));
        }
        let described = grid.metadata(field);
        begun.add(at.join(&name).join(METADATA), described.to_string());
        arrays.push((at.join(&name), *field, grid));
        metadata.push((name, described));
    }
    begun.add(at.join(METADATA), group(&metadata, json!({ "tree": tree.name })).to_string());
    Ok(arrays)
}

/// Launches the tasks that write chunks, after one that makes the directories.
fn save_arrays(
    top: &Top,
    region: Region,
    arrays: Vec<(PathBuf, &'static FieldInfo, Grid)>,
    dir: &Path,
    begin: &TaskFuture<()>,
) -> Result<Vec<TaskFuture<()>>, Error> {
    let mut tasks = Vec::new();
    for (name, field, grid) in arrays {
        for (chunk, rect, part) in grid.chunks() {
            let data = top.region(Region { tree: region.tree, rect: part })?.read_bytes(field);
            let of = BoxOf { rect, start: 0, size: field.size, has_checksum: true };
            let file = dir.join(&name).join(chunk);
            tasks.push(top.try_launch(tasks::write, (data, file.into(), of.into(), begin.into())).named("save").go()?);
        }
    }
    Ok(tasks)
}

fn save_npy(top: &Top, region: Region, tree: &Tree, path: &Path) -> Result<Saving, Error> {
    let field = only_field(tree, path)?;
    let (data, part) = (DataType::of(field), part_of(path));
    let head = npy::head(&data.shape(&region.rect), &data.descr());
    let (rect, start) = (region.rect, head.len() as u64);
    let length = start + (rect.volume() * field.size) as u64;
    let begin = (path.to_owned().into(), part.clone().into(), head.into(), length.into());
    let begin = top.try_launch(tasks::begin_npy, begin).on(NodeId(0)).go()?;
    let mut tasks = vec![begin.clone()];
    for (_, _, piece) in Grid::of(rect, &data, &top.instances(region, field.id)?).chunks() {
        let data = top.region(Region { tree: region.tree, rect: piece })?.read_bytes(field);
        let of = BoxOf { rect, start, size: field.size, has_checksum: false };
        let args = (data, part.clone().into(), of.into(), (&begin).into());
        tasks.push(top.try_launch(tasks::write, args).named("save").go()?);
    }
    Saving::publish(top, (part, path), tasks)
}

/// Launches the tasks that read all fields of a region, when it is known what is there.
async fn load_arrays(top: &Top, region: Region, path: &Path) -> Result<Vec<TaskFuture<()>>, Error> {
    let tree = top.tree(region)?;
    let found = match is_npy(path) {
        true => {
            let data = DataType::of(only_field(&tree, path)?);
            let look = (path.to_owned().into(), data.descr().into(), data.shape(&region.rect).into());
            top.try_launch(tasks::look_npy, look).on(NodeId(0)).go()?
        }
        false => {
            let names = tree.fields.iter().map(|field| node_name(field.name)).collect::<Vec<_>>();
            top.try_launch(tasks::look_zarr, (path.to_owned().into(), names.into())).on(NodeId(0)).go()?
        }
    };
    let mut loads = Vec::new();
    for (field, found) in tree.fields.iter().zip(found.await?) {
        let load = |path: PathBuf, of, part, is_needed: bool| {
            let data = top.region(Region { tree: region.tree, rect: part })?.write_bytes(field);
            top.try_launch(tasks::read, (data, path.into(), BoxOf::into(of), is_needed.into())).named("load").go()
        };
        let (rect, size) = (region.rect, field.size);
        match found {
            Found::Npy { path, start } => {
                let of = BoxOf { rect, start, size, has_checksum: false };
                let known = top.instances(region, field.id)?;
                for (_, _, piece) in Grid::of(rect, &DataType::of(field), &known).chunks() {
                    loads.push(load(path.clone(), of.clone(), piece, true)?);
                }
            }
            Found::Zarr { path, metadata } => {
                let refused = |why| Error::user(format!("{}: {why}", path.join(METADATA).display()));
                let metadata = serde_json::from_str(&metadata).map_err(|e| refused(e.to_string()))?;
                let grid = Grid::read(&metadata, field, rect).map_err(refused)?;
                for (chunk, rect, part) in grid.chunks() {
                    let of = BoxOf { rect, start: 0, size, has_checksum: grid.has_checksum };
                    loads.push(load(path.join(chunk), of, part, grid.is_complete)?);
                }
            }
        }
    }
    Ok(loads)
}
