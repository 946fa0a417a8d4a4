//! The launches of a shard: leaf tasks, many points at once, fills and copies.

use super::Shard;
use crate::program::index::IndexLaunch;
use crate::program::launch::{Launch, Leaf};

type FillMarker<T> = fn(maniple_regions::Write<'static, T>, crate::Val<T>);

type FillArgs<T> = (crate::Requirement<maniple_regions::Write<'static, T>>, crate::Value<T>);

type CopyMarker<T> = fn(maniple_regions::Read<'static, T>, maniple_regions::Write<'static, T>);
type CopyArgs<T> =
    (crate::Requirement<maniple_regions::Read<'static, T>>, crate::Requirement<maniple_regions::Write<'static, T>>);

impl Shard {
    /// Begins the launch of a leaf task: `function` with `args`, a tuple with one entry a parameter. See [`Leaf`].
    #[inline]
    pub fn launch<F: Leaf<M, O>, M: 'static, O: Send + 'static>(
        &self,
        function: F,
        args: F::Args,
    ) -> Launch<'_, F, M, O> {
        Launch::new(self, function, args)
    }

    /// Begins the launch of `function` once for each point in `0..points`, with the arguments that `args` gives for it, which is
    /// asked once a point. The points run in any order and in parallel, where the mapper's slices say.
    pub fn index_launch<F: Leaf<M, O> + Clone, M: 'static, O: Send + 'static>(
        &self,
        points: usize,
        function: F,
        args: impl Fn(usize) -> F::Args,
    ) -> IndexLaunch<'_, F, M, O> {
        #[cfg(feature = "plant")]
        let points = points - usize::from(points > 1 && self.planted(crate::plant::Bug::ForgottenPoint));
        IndexLaunch::new(self, function, (0..points).map(args).collect())
    }

    /// Sets every value of a region's field: a leaf task like any other, which can wait and arrive.
    pub fn fill<T: maniple_regions::Element>(
        &self,
        into: crate::Requirement<maniple_regions::Write<'static, T>>,
        value: T,
    ) -> Launch<'_, impl Leaf<FillMarker<T>, (), Args = FillArgs<T>>, FillMarker<T>, ()> {
        fn fill<T: maniple_regions::Element>(mut into: maniple_regions::Write<T>, value: crate::Val<T>) {
            into.fill(*value);
        }
        Launch::new(self, fill::<T>, (into, value.into())).named("fill")
    }

    /// Copies a region's field to another of the same length: a leaf task like any other, which can wait and arrive.
    pub fn copy<T: maniple_regions::Element>(
        &self,
        from: crate::Requirement<maniple_regions::Read<'static, T>>,
        into: crate::Requirement<maniple_regions::Write<'static, T>>,
    ) -> Launch<'_, impl Leaf<CopyMarker<T>, (), Args = CopyArgs<T>>, CopyMarker<T>, ()> {
        fn copy<T: maniple_regions::Element>(from: maniple_regions::Read<T>, mut into: maniple_regions::Write<T>) {
            into.copy_from_slice(from.as_slice());
        }
        Launch::new(self, copy::<T>, (from, into)).named("copy")
    }
}
