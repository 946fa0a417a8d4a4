//! Checkpoints.

use super::tasks::{self, Begun, Whole, name_of};
use super::{Saving, all, describe, load, look, node_name, save_arrays};
use crate::prelude::*;
use crate::runtime::Portable;
use std::any::type_name;
use std::path::{Path, PathBuf};

/// Saves the state of a run in a directory, so that a later run can go on from it: region trees, values of the program, and the number of
/// the step. Only the top-level task can use it; "collective" means that every copy of it makes the call.
///
/// Each checkpoint is a directory of its own in this directory, named after its step. It has [Zarr's format](super), with a group
/// for each tree. It is written while the program goes on, under another name, and is renamed when it is whole. Finished checkpoints stay
/// whole, whenever the run is killed.
///
/// ```
/// use maniple::output::Checkpoint;
/// use maniple::prelude::*;
///
/// const U: Field<f64> = Field::new(0, "u");
///
/// async fn steps(shard: Shard, (block, steps): (Region, u64)) -> Result<(), Error> {
///     let u = shard.region(block)?;
///     for _ in 0..steps {
///         let add = |mut u: ReadWrite<f64>| u.as_mut_slice().iter_mut().for_each(|u| *u += 1.0);
///         shard.launch(add, (u.read_write(U),)).go()?.detach();
///     }
///     Ok(())
/// }
///
/// /// Takes 100 steps, those of earlier runs included, and a checkpoint after every 10.
/// async fn top(top: Top, dir: std::path::PathBuf, shards: u32) -> Result<u64, Error> {
///     let tree = top.region_tree("line", Rect::line(0, 1000), &[U.info()])?;
///     let blocks: Vec<Region> = Partition::equal(tree, shards as usize)?.iter().collect();
///     let gang = top.gang("all", shards)?;
///     let task = top.register("steps", steps);
///     let mut checkpoint = Checkpoint::open(&top, &dir, "add one").await?;
///     let (first, ()) = checkpoint.restore(&[tree]).await?.unwrap_or_default();
///     for step in (first..100).step_by(10) {
///         let start = |s: u32| ShardLaunch::new((blocks[s as usize], 10)).writes(blocks[s as usize], [U]);
///         top.launch_gang(&gang, &task, start)?.all().await?;
///         checkpoint.save(step + 10, &[tree], &()).await?;
/// #       if first == 0 && step == 40 { break; }
///     }
///     checkpoint.finish().await?;
///     Ok(100 - first)
/// }
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let path = dir.path().to_owned();
/// # let run = |shards| { let path = path.clone(); Runtime::threads(2).run(move |t| top(t, path.clone(), shards)).map(|r| r.0) };
/// # assert_eq!((run(3)?, run(2)?), (100, 50));
/// # Ok::<(), Error>(())
/// ```
pub struct Checkpoint {
    top: Top,
    dir: PathBuf,
    program: String,
    keep: usize,
    newest: Option<Whole>,
    /// This run has restored or saved the newest one, or there is none.
    is_current: bool,
    saving: Option<(Saving, Whole)>,
}

impl Checkpoint {
    /// Looks for checkpoints in a directory, which need not exist. Collective; waits until one node has looked.
    ///
    /// `program` describes the run: the program, and the parameters that must stay the same when a run goes on. A checkpoint with another
    /// description is refused.
    ///
    /// # Errors
    /// An [`Error::User`] as the [origin](Error::origin) for checkpoints of another program, and for files that can't be read.
    pub async fn open(top: &Top, dir: impl AsRef<Path>, program: &str) -> Result<Self, Error> {
        let (dir, program) = (dir.as_ref().to_owned(), program.to_owned());
        let look = (dir.clone().into(), program.clone().into());
        let newest = top.try_launch(tasks::look_checkpoint, look).on(NodeId(0)).go()?.await?;
        let is_current = newest.is_none();
        Ok(Self { top: top.clone(), dir, program, keep: 2, newest, is_current, saving: None })
    }

    /// Sets how many of the newest checkpoints are kept: at least 1, by default 2.
    pub fn keep(mut self, checkpoints: usize) -> Self {
        self.keep = checkpoints.max(1);
        self
    }

    /// The step of the newest whole checkpoint that was there when the directory was opened, or that this run has waited for since. Local;
    /// never waits.
    pub fn newest(&self) -> Option<u64> {
        self.newest.as_ref().map(|newest| newest.step)
    }

    /// Sets region trees to the values of the newest whole checkpoint, and returns its step and the values that were saved with it;
    /// `None` if there is no checkpoint. Collective; waits until all is read.
    ///
    /// The number of processes, workers and shards may be another than that of the run which wrote it. A
    /// [table](crate::guide::collectives#bits-that-can-be-relied-on) lists the results whose bits may then differ. The trees must be those of
    /// [`save`](Self::save): as many, with the same names, points and fields.
    ///
    /// # Errors
    /// - An [`Error::User`] as the [origin](Error::origin) for a file that is missing or damaged, and for other trees. It says which file
    ///   or tree. To start from the previous checkpoint, remove the directory of the damaged one.
    /// - [`Error::Misuse`] for a region outside its tree.
    pub async fn restore<V: Portable + Clone>(&mut self, trees: &[Region]) -> Result<Option<(u64, V)>, Error> {
        let Some(Whole { step, trees: saved, values: saved_values }) = self.newest.clone() else { return Ok(None) };
        let (top, dir) = (&self.top, self.dir.join(name_of(step)));
        let refused = |what: &str, expected: &str, found: &str| {
            Err(Error::user(format!("{}: expected {what} {expected}, found {found}", dir.display())))
        };
        let (names, values) = (self.names(trees)?, type_name::<V>());
        if names != saved {
            return refused("the trees", &names.join(", "), &saved.join(", "));
        }
        if values != saved_values {
            return refused("values of type", values, &saved_values);
        }
        let mut found = Vec::new();
        for (region, name) in trees.iter().zip(&names) {
            found.push((*region, look(top, *region, &dir.join(name), false, true).await?));
        }
        let values = top.try_launch(tasks::read_values::<V>, (dir.into(),)).on(NodeId(0)).go()?.await?;
        let mut loads = Vec::new();
        for (region, arrays) in found {
            loads.extend(load(top, region, arrays)?);
        }
        all(loads).await?;
        self.is_current = true;
        Ok(Some((step, values)))
    }

    /// Saves region trees and values of the program, for step `step`. Collective; waits only until the previous checkpoint has
    /// been written.
    ///
    /// Leaf tasks write the trees as earlier launches leave them, each on the node that has the values. Later launches run meanwhile.
    /// One that changes values waits until those values are in their file. All copies of the top-level task must have the same `values`,
    /// such as the results of shards.
    ///
    /// # Errors
    /// - The errors of the previous checkpoint, such as a full disk. Those written earlier stay.
    /// - [`Error::Misuse`] if the directory has a checkpoint that was not restored, for a step that is not after that of the newest
    ///   checkpoint, and for a region outside its tree.
    pub async fn save<V: Portable>(&mut self, step: u64, trees: &[Region], values: &V) -> Result<(), Error> {
        self.finish().await?;
        let path = self.dir.join(name_of(step));
        if !self.is_current {
            let expected = "a directory without checkpoints, or `restore` before the first `save`";
            let newest = format!("checkpoints up to step {}", self.newest().unwrap_or_default());
            return Err(Error::misuse(format!("Checkpoint::save in {}", self.dir.display()), expected, newest));
        }
        if let Some(newest) = self.newest().filter(|newest| step <= *newest) {
            let what = format!("Checkpoint::save in {}", self.dir.display());
            return Err(Error::misuse(what, format!("a step after {newest}, that of the newest checkpoint"), step));
        }
        let (mut begun, mut regions) = (Begun::default(), Vec::new());
        let names = self.names(trees)?;
        for (region, name) in trees.iter().zip(&names) {
            regions.push((*region, describe(&self.top, *region, Path::new(name), &mut begun)?));
        }
        let whole = Whole { step, trees: names, values: type_name::<V>().into() };
        begun.checkpoint(&self.program, whole.clone(), values)?;
        let saving = save_arrays(&self.top, &path, begun, regions, Some((step, self.keep)))?;
        self.saving = Some((saving, whole));
        Ok(())
    }

    /// Waits until the last checkpoint is written. Collective. Without this call its errors come at the end of the run.
    ///
    /// # Errors
    /// Those of [`save`](Self::save).
    pub async fn finish(&mut self) -> Result<(), Error> {
        match self.saving.take() {
            Some((saving, whole)) => {
                saving.over(&self.top).await?;
                self.newest = Some(whole);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The directories of trees.
    fn names(&self, trees: &[Region]) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = Vec::new();
        for region in trees {
            let name = node_name(&self.top.tree(*region)?.name);
            if names.contains(&name) {
                let what = format!("a checkpoint in {}", self.dir.display());
                return Err(Error::misuse(what, "trees whose names differ", format!("`{name}` twice")));
            }
            names.push(name);
        }
        Ok(names)
    }
}
