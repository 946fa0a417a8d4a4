//! Private trees: region trees that a shard makes for itself.

use super::{Shard, ShardInner};
use crate::data::{Columns, Store};
use crate::error::Error;
use crate::message::HeldRegion;
use crate::object::Tree;
use crate::program::region::RegionView;
use maniple_regions::{Coherence, FieldInfo, Instance, Privilege, Rect, Region};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;

/// A private tree. The views of it and of its parts have it, so it goes with the last of them.
pub(crate) struct PrivateTree {
    shard: Shard,
    /// All of it, as if the launch of the shard had named it.
    pub held: HeldRegion,
    /// The instances of the fields that a task has used.
    instances: RefCell<SmallVec<[Rc<Instance>; 1]>>,
    pub columns: RefCell<Columns>,
}

impl PrivateTree {
    /// The values of a field. The first call makes the instance.
    pub fn store(&self, field: &'static FieldInfo) -> Result<Store, Error> {
        let mut instances = self.instances.borrow_mut();
        if let Some(there) = instances.iter().find(|instance| instance.field().id == field.id) {
            return Ok(Store::Owned(there.clone()));
        }
        let tasks = &self.shard.core().tasks;
        let new = tasks.data.new_instance(&tasks.effects, self.held.key(field.id), field)?;
        instances.push(new.clone());
        Ok(Store::Owned(new))
    }

    /// Gives the memory up. The shard has ended, but the program has kept a view.
    pub fn give_up(&self) {
        self.instances.take();
        self.columns.take().each(|column| column.release(self.shard.processor()));
    }
}

impl Drop for PrivateTree {
    fn drop(&mut self) {
        let (tree, effects) = (self.held.region.tree, self.shard.core().effects());
        if let Some(trees) = self.shard.inner.regions.trees.get() {
            trees.borrow_mut().remove(&tree);
        }
        if let Some(races) = effects.races() {
            races.tree_dropped(self.shard.actor(), tree, &self.held.fields);
        }
        effects.objects.remove_private(tree);
    }
}

impl Shard {
    /// Makes a region tree that only this shard uses: the points of `rect`, each with `fields`. Returns a view of all points, for
    /// reading, writing and reducing. All bytes of its values are zero at first. Local, not collective; never waits and sends
    /// nothing.
    ///
    /// It is for data that no other shard needs: scratch memory, tables, a list that grows. Leaf tasks of the shard use it as
    /// any other region, with exclusive or atomic coherence, and in program order. [`Shard::region`] gives views of its parts.
    /// The memory of a field is made for the first task that uses it. The tree is freed when its last view is dropped, and
    /// its memory when the tasks on it have ended. So a loop may make a tree in each step.
    ///
    /// No other shard and no launch of a gang can use the tree. An inner task may make one, too, for its own leaf tasks.
    ///
    /// ```
    /// # use maniple_runtime::*; use maniple_regions::*;
    /// const X: Field<f64> = Field::new(0, "x");
    /// async fn shard(shard: Shard, n: i64) -> Result<f64, Error> {
    ///     let scratch = shard.region_tree("scratch", Rect::line(0, n), &[X.info()])?;
    ///     shard.launch(|mut x: Write<f64>| x.fill_with(|[i]| i as f64), (scratch.write(X),)).go()?.detach();
    ///     shard.launch(|x: Read<f64>| x.as_slice().iter().sum::<f64>(), (scratch.read(X),)).go()?.await
    /// }
    /// # let (sums, _) = Runtime::threads(1).run(|top| async move {
    /// #     let (gang, task) = (top.gang("two", 2)?, top.register("sum", shard));
    /// #     top.launch_gang(&gang, &task, |_| ShardLaunch::new(5))?.all().await
    /// # })?;
    /// # assert_eq!(sums, [10.0, 10.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Region`] for two fields with the same number or name, or for a field with more bytes than can be
    /// addressed. [`Error::Misuse`] when the shard has ended.
    pub fn region_tree(&self, name: &str, rect: Rect, fields: &[FieldInfo]) -> Result<RegionView, Error> {
        self.check_running("a call of `Shard::region_tree`")?;
        let ShardInner { core, regions, .. } = &*self.inner;
        let (tree, effects) = (Tree::new(name, rect, fields)?, core.effects());
        let fields = tree.fields.iter().map(|field| field.id).collect();
        let region = Region::new(effects.objects.add_private(tree), rect);
        let (privilege, coherence, home) = (Privilege::ReadWrite, Coherence::Exclusive, effects.id);
        let tree = Rc::new(PrivateTree {
            shard: self.clone(),
            held: HeldRegion { region, fields, privilege, coherence, home },
            instances: RefCell::default(),
            columns: RefCell::default(),
        });
        regions.trees.get_or_init(Box::default).borrow_mut().insert(region.tree, Rc::downgrade(&tree));
        Ok(regions.view_of(region, tree))
    }

    /// The view of a part of a private tree.
    pub(super) fn part_of_private(&self, region: Region) -> Result<RegionView, Error> {
        let regions = &self.inner.regions;
        let tree = regions.trees.get().and_then(|trees| trees.borrow().get(&region.tree)?.upgrade());
        match tree {
            Some(tree) if tree.held.region.contains(&region) => Ok(regions.view_of(region, tree)),
            Some(tree) => {
                let expected = format!("a part of {}", self.shown(tree.held.region));
                Err(Error::misuse(format!("Shard::region in {}", self.place()), expected, region))
            }
            None => {
                let what = format!("Shard::region in {}", self.place());
                let came =
                    format!("{region}, of a private tree that another shard has made or whose views are dropped");
                Err(Error::misuse(what, "a private tree of this shard, of which it has a view", came))
            }
        }
    }
}
