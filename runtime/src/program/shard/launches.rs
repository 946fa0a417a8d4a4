//! The launches of a shard: leaf tasks, many points at once, fills and copies.

use super::Shard;
use crate::program::index::IndexLaunch;
use crate::program::launch::{Launch, Leaf};
use crate::{Arg, Input, Requirement};
use maniple_regions::{Element, Read, ReadShared, Write, WriteShared};

type FillMarker<T> = fn(Write<'static, T>, Arg<T>);

type FillArgs<T> = (Requirement<Write<'static, T>>, Input<T>);

/// Two requirements between which [`Shard::copy`] copies: one that is read, `Read` or `ReadShared`, and one that is written,
/// `Write` or `WriteShared`.
pub trait Copied {
    /// The launch that copies.
    type Launch<'s>;
    #[doc(hidden)]
    fn launch(self, shard: &Shard) -> Self::Launch<'_>;
}

macro_rules! copied {
    ($from:ident, $into:ident, |$values:ident, $copy:ident| $body:expr) => {
        impl<T: Element> Copied for (Requirement<$from<'static, T>>, Requirement<$into<'static, T>>) {
            type Launch<'s> =
                Launch<'s, for<'a, 'b> fn($from<'a, T>, $into<'b, T>), fn($from<'static, T>, $into<'static, T>)>;
            fn launch(self, shard: &Shard) -> Self::Launch<'_> {
                fn copy<T: Element>($values: $from<T>, mut $copy: $into<T>) {
                    $body
                }
                let copy: for<'a, 'b> fn($from<'a, T>, $into<'b, T>) = copy::<T>;
                Launch::new(shard, copy, self).named("copy")
            }
        }
    };
}

copied!(Read, Write, |values, copy| copy.copy_from_slice(values.as_slice()));
copied!(Read, WriteShared, |values, copy| copy.copy_from(values.as_slice()));
copied!(ReadShared, Write, |values, copy| {
    let mut all = vec![T::zeroed(); values.len()];
    values.copy_to(&mut all);
    copy.copy_from_slice(&all);
});
copied!(ReadShared, WriteShared, |values, copy| {
    let mut all = vec![T::zeroed(); values.len()];
    values.copy_to(&mut all);
    copy.copy_from(&all);
});

impl Shard {
    /// Begins the launch of a leaf task: `function` with `args`, a tuple with one entry a parameter. See [`Leaf`].
    #[inline]
    pub fn launch<F: Leaf<M>, M: 'static>(&self, function: F, args: F::Args) -> Launch<'_, F, M> {
        Launch::new(self, function, args)
    }

    /// Begins the launch of `function` once for each point in `0..points`, with the arguments that `args` gives for it, which is
    /// asked once a point. The points run in any order and in parallel, where the mapper's slices say.
    pub fn index_launch<F: Leaf<M> + Clone, M: 'static>(
        &self,
        points: usize,
        function: F,
        args: impl Fn(usize) -> F::Args,
    ) -> IndexLaunch<'_, F, M> {
        #[cfg(feature = "plant")]
        let points = points - usize::from(points > 1 && self.planted(crate::plant::Bug::ForgottenPoint));
        IndexLaunch::new(self, function, (0..points).map(args).collect())
    }

    /// Sets every value of a region's field: a leaf task like any other, which can wait and arrive.
    pub fn fill<T: Element>(
        &self,
        into: Requirement<Write<'static, T>>,
        value: T,
    ) -> Launch<'_, impl Leaf<FillMarker<T>, Output = (), Args = FillArgs<T>>, FillMarker<T>> {
        fn fill<T: Element>(mut into: Write<T>, value: Arg<T>) {
            into.fill(*value);
        }
        Launch::new(self, fill::<T>, (into, value.into())).named("fill")
    }

    /// Copies a region's field to another of the same length, either of which may be shared: a leaf task like any other, which
    /// can wait and arrive.
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
