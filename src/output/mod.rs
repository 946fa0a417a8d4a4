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
//! Files are written beside `PATH` under a name that begins with `PATH.part-`, and get their name when all are whole and on the disk. A run that
//! is killed before that leaves them.

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
use array::{DataType, Grid, METADATA, group, node_name, parts_of_npy};
use boxes::BoxOf;
use serde_json::{Value, json};
use std::future::Future;
use std::path::{Path, PathBuf};
use tasks::{Begun, Found};

/// Saves region trees to files and loads them, for the top-level task. "Collective" means that every copy of it makes the call.
pub trait Output {
    /// Saves all fields of a region, as earlier launches leave them. Collective; waits until all is written. Leaf tasks write,
    /// each on the node that has the values.
    ///
    /// A group at `path` that `save` wrote is replaced, and any file if `path` ends in `.npy`. Anything else there is an error.
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
        let path = &plain(path.as_ref())?;
        let saving = match is_npy(path) {
            true => save_npy(self, *region, path)?,
            false => {
                let mut begun = Begun::default();
                let arrays = describe(self, *region, Path::new(""), &mut begun)?;
                save_arrays(self, path, begun, vec![(*region, arrays)], None)?
            }
        };
        saving.over(self).await
    }

    async fn load(&self, region: &Region, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = plain(path.as_ref())?;
        let arrays = look(self, *region, &path, is_npy(&path), false).await?;
        all(load(self, *region, arrays)?).await
    }
}

/// The path without a slash at its end.
fn plain(path: &Path) -> Result<PathBuf, Error> {
    let plain: PathBuf = path.components().collect();
    let refused = || Error::misuse("a path to save to or to load from", "one that ends in a name", path.display());
    if plain.file_name().is_some() { Ok(plain) } else { Err(refused()) }
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
    /// The path under which it is.
    begun: TaskFuture<PathBuf>,
    tasks: Vec<TaskFuture<()>>,
    /// The task that gives it its name.
    published: TaskFuture<()>,
}

impl Saving {
    /// Waits until it has its name. If anything fails, what was written is removed.
    async fn over(self, top: &Top) -> Result<(), Error> {
        let published = self.published.await;
        if published.is_err() {
            let _known = all(self.tasks).await;
            if let Ok(part) = self.begun.await {
                // The first error counts.
                let _removed = top.try_launch(tasks::discard, (part.into(),)).on(NodeId(0)).go()?.await;
            }
        }
        published
    }
}

/// A field, its files with the points of each and those of them that a task reads or writes, and whether they must be there.
type Files = (&'static FieldInfo, Vec<(PathBuf, BoxOf, Rect)>, bool);

/// The files of a region's fields, and the metadata of their group in directory `at`.
fn describe(top: &Top, region: Region, at: &Path, begun: &mut Begun) -> Result<Vec<Files>, Error> {
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
        arrays.push((*field, grid.files(&at.join(&name), field.size), true));
        metadata.push((name, described));
    }
    begun.add(at.join(METADATA), group(&metadata, json!({ "tree": tree.name })).to_string());
    Ok(arrays)
}

/// Launches the tasks that write the arrays of regions, after one that makes the directory, and before one that gives it its name.
fn save_arrays(
    top: &Top,
    path: &Path,
    begun: Begun,
    regions: Vec<(Region, Vec<Files>)>,
    keep: Option<(u64, usize)>,
) -> Result<Saving, Error> {
    let begun = top.try_launch(tasks::begin, (path.to_owned().into(), begun.into())).on(NodeId(0)).go()?;
    save_files(top, path, begun, regions, keep)
}

fn save_npy(top: &Top, region: Region, path: &Path) -> Result<Saving, Error> {
    let field = only_field(&top.tree(region)?, path)?;
    let (rect, data) = (region.rect, DataType::of(field));
    let grid = Grid::of(rect, &data, &top.instances(region, field.id)?);
    let head = npy::head(&data.shape(&rect), &data.descr());
    let start = head.len() as u64;
    let length = start + (rect.volume() * field.size) as u64;
    let begin = (path.to_owned().into(), head.into(), length.into());
    let begun = top.try_launch(tasks::begin_npy, begin).on(NodeId(0)).go()?;
    let files = parts_of_npy(Path::new(""), start, &grid, field.size);
    save_files(top, path, begun, vec![(region, vec![(field, files, true)])], None)
}

/// Launches the tasks that write files, whose paths are within what was begun, and the one that gives that its name.
fn save_files(
    top: &Top,
    path: &Path,
    begun: TaskFuture<PathBuf>,
    regions: Vec<(Region, Vec<Files>)>,
    keep: Option<(u64, usize)>,
) -> Result<Saving, Error> {
    let mut written = Vec::new();
    for (region, arrays) in regions {
        for (field, files, _) in arrays {
            for (file, of, part) in files {
                let data = top.region(Region { tree: region.tree, rect: part })?.read_bytes(field);
                let args = (data, (&begun).into(), file.into(), of.into());
                written.push(top.try_launch(tasks::write, args).named("save").go()?);
            }
        }
    }
    let after = written.iter().map(Input::from).collect();
    let publish = top.try_launch(tasks::publish, (path.to_owned().into(), (&begun).into(), keep.into(), after));
    Ok(Saving { published: publish.on(NodeId(0)).go()?, begun, tasks: written })
}

/// Finds the files of all fields of a region. Those of a checkpoint have no others, and the same points and elements.
async fn look(top: &Top, region: Region, path: &Path, npy: bool, of_checkpoint: bool) -> Result<Vec<Files>, Error> {
    let tree = top.tree(region)?;
    let found = match npy {
        true => {
            let data = DataType::of(only_field(&tree, path)?);
            let look = (path.to_owned().into(), data.descr().into(), data.shape(&region.rect).into());
            top.try_launch(tasks::look_npy, look).on(NodeId(0)).go()?
        }
        false => {
            let names = tree.fields.iter().map(|field| node_name(field.name)).collect::<Vec<_>>();
            let look = (path.to_owned().into(), names.into(), of_checkpoint.into());
            top.try_launch(tasks::look_zarr, look).on(NodeId(0)).go()?
        }
    };
    let mut arrays = Vec::new();
    for (field, found) in tree.fields.iter().zip(found.await?) {
        let rect = region.rect;
        arrays.push(match found {
            Found::Npy { path, start } => {
                let grid = Grid::of(rect, &DataType::of(field), &top.instances(region, field.id)?);
                (*field, parts_of_npy(&path, start, &grid, field.size), true)
            }
            Found::Zarr { path, metadata } => {
                let refused = |why| Error::user(format!("{}: {why}", path.join(METADATA).display()));
                let metadata: Value = serde_json::from_str(&metadata).map_err(|e| refused(e.to_string()))?;
                let grid = Grid::read(&metadata, field, rect).map_err(refused)?;
                let (expected, came) = (Grid::about(field, &rect), &metadata["attributes"]["maniple"]);
                if of_checkpoint && *came != expected {
                    return Err(refused(format!("expected points and elements {expected}, found {came}")));
                }
                (*field, grid.files(&path, field.size), grid.is_complete)
            }
        });
    }
    Ok(arrays)
}

/// Launches the tasks that read files.
fn load(top: &Top, region: Region, arrays: Vec<Files>) -> Result<Vec<TaskFuture<()>>, Error> {
    let mut loads = Vec::new();
    for (field, files, is_needed) in arrays {
        for (path, of, part) in files {
            let data = top.region(Region { tree: region.tree, rect: part })?.write_bytes(field);
            let args = (data, path.into(), of.into(), is_needed.into());
            loads.push(top.try_launch(tasks::read, args).named("load").go()?);
        }
    }
    Ok(loads)
}
