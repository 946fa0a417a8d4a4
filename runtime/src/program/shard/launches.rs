//! The launches of a shard: leaf tasks, index launches, fills and copies.

use super::Shard;
use crate::Requirement;
use crate::plant::Bug;
use crate::program::index::IndexLaunch;
use crate::program::launch::{Launch, Leaf, MayFail};
use crate::program::whole::{self, Copied, FillArgs, FillMarker};
use maniple_regions::{Element, Write};

impl Shard {
    /// Begins the launch of `function` as a leaf task. [`Launch::go`] launches it. Local; never waits.
    ///
    /// `args` is a tuple with one argument for each parameter; [`Param`](crate::Param) lists them. A tuple of one is
    /// written `(argument,)`.
    #[inline]
    #[track_caller]
    pub fn launch<F: Leaf<M>, M: 'static>(&self, function: F, args: F::Args) -> Launch<'_, F, M> {
        Launch::new(self, function, args)
    }

    /// Begins the launch of a `function` that returns a [`Result`] as a leaf task, which fails if it returns an error.
    /// Its result is the value in [`Ok`]. Local; never waits.
    ///
    /// What depends on a task that failed fails, too: its future, later tasks that use data it should have written, and
    /// barriers at which it should have arrived. With [`launch`](Self::launch) such a function does not compile, so
    /// that no error gets lost.
    ///
    /// ```
    /// # use maniple_runtime::*; use maniple_regions::*;
    /// const U: Field<f64> = Field::new(0, "u");
    /// fn root(mut u: ReadWrite<f64>) -> Result<(), Error> {
    ///     for u in u.as_mut_slice() {
    ///         if *u < 0.0 {
    ///             return Err(Error::user(format!("{u} has no root")));
    ///         }
    ///         *u = u.sqrt();
    ///     }
    ///     Ok(())
    /// }
    /// async fn shard(shard: Shard, u: RegionView) -> Result<(), Error> {
    ///     shard.try_launch(root, (u.read_write(U),)).go()?.await
    /// }
    /// ```
    ///
    /// ```compile_fail,E0283
    /// # use maniple_runtime::*; use maniple_regions::*;
    /// # const U: Field<f64> = Field::new(0, "u");
    /// # fn root(_: ReadWrite<f64>) -> Result<(), Error> { Ok(()) }
    /// async fn shard(shard: Shard, u: RegionView) { let _ = shard.launch(root, (u.read_write(U),)).go(); }
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_launch<F: Leaf<(M, MayFail)>, M: 'static>(
        &self,
        function: F,
        args: F::Args,
    ) -> Launch<'_, F, (M, MayFail)> {
        Launch::new(self, function, args)
    }

    /// Begins the launch of `function` once for each point in `0..points`. [`IndexLaunch::go`] launches the tasks.
    /// Local; never waits.
    ///
    /// `args` gives the arguments of each point; it is called once for each, from 0 on. The points run in any order and in
    /// parallel, on the processors that the mapper's slices name.
    #[track_caller]
    pub fn index_launch<F: Leaf<M> + Clone, M: 'static>(
        &self,
        points: usize,
        function: F,
        args: impl FnMut(usize) -> F::Args,
    ) -> IndexLaunch<'_, F, M> {
        self.index_launch_of(points, function, args)
    }

    #[track_caller]
    pub(crate) fn index_launch_of<F: Leaf<M> + Clone, M: 'static, W>(
        &self,
        points: usize,
        function: F,
        args: impl FnMut(usize) -> F::Args,
    ) -> IndexLaunch<'_, F, M, W> {
        let points = points - usize::from(points > 1 && self.core().effects().strikes(Bug::ForgottenPoint));
        IndexLaunch::new(self, function, (0..points).map(args).collect())
    }

    /// Begins the launch of a leaf task that sets every value of a field of a region, of any dimension. It can wait and
    /// arrive like any other. Local; never waits.
    pub fn fill<T: Element>(
        &self,
        into: Requirement<Write<'static, T>>,
        value: T,
    ) -> Launch<'_, impl Leaf<FillMarker<T>, Output = (), Args = FillArgs<T>>, FillMarker<T>> {
        whole::fill(self, into, value)
    }

    /// Begins the launch of a leaf task that copies a field of a region to another one with as many points, in row-major order.
    /// They may have any dimensions, and either may be shared. The task can wait and arrive like any other. Local; never waits.
    ///
    /// If the lengths differ the task panics.
    ///
    /// ```
    /// # use maniple_runtime::*; use maniple_regions::*;
    /// const U: Field<f64> = Field::new(0, "u");
    /// fn publish(shard: &Shard, own: RegionView, shared: RegionView) -> Result<TaskFuture<()>, Error> {
    ///     shard.copy(own.read(U), shared.write_shared(U)).go()
    /// }
    /// ```
    pub fn copy<A, B>(
        &self,
        from: Requirement<A>,
        into: Requirement<B>,
    ) -> <(Requirement<A>, Requirement<B>) as Copied>::Launch<'_>
    where
        (Requirement<A>, Requirement<B>): Copied,
    {
        (from, into).launch(self)
    }
}
