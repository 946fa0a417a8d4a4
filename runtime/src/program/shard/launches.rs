//! The launches of a shard: leaf tasks, many points at once, fills and copies.

use super::Shard;
use crate::Error;
use crate::effects::Asker;
use crate::future::FutureMap;
use crate::program::launch::{Launch, Leaf};
use maniple_mapper::{SliceInput, validate};

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

    /// Launches `function` once for each point in `0..points`, with the arguments `args` gives for it, which is asked once
    /// a point. The points run in any order and in parallel, where the mapper's slices say; local, not collective; returns
    /// at once.
    ///
    /// # Errors
    /// [`Error::Interference`] when two points interfere, and a region, field or privilege that [`Launch::go`] refuses:
    /// nothing is launched then. After an illegal decision of the mapper the points before the one in question run.
    pub fn index_launch<F: Leaf<M, O> + Clone, M: 'static, O: Send + 'static>(
        &self,
        points: usize,
        function: F,
        args: impl Fn(usize) -> F::Args,
    ) -> Result<FutureMap<O>, Error> {
        #[cfg(feature = "plant")]
        let points = points - usize::from(points > 1 && self.planted(crate::plant::Bug::ForgottenPoint));
        let args: Vec<F::Args> = (0..points).map(args).collect();
        crate::program::index::check::<F, M, O>(self, &args)?;
        if points == 0 {
            return Ok(FutureMap::new(Vec::new()));
        }
        let task = crate::names::short_name(std::any::type_name::<F>());
        let (shard, processor, machine) = (self.index(), self.processor(), self.core().effects().machine());
        let input = SliceInput { task: &task, shard, processor, points, machine };
        let slices = self.core().effects().ask(
            Asker::Processor,
            ("slice_index", &format_args!("task `{task}` of shard {shard}")),
            |m| m.slice_index(&input),
            |name, answer| validate::slices(name, &input, answer),
        )?;
        let targets = slices.into_iter().flat_map(|(run, processor)| run.map(move |_| processor));
        let launch = |(a, target)| self.launch(function.clone(), a).meant_for(target).go();
        Ok(FutureMap::new(args.into_iter().zip(targets).map(launch).collect::<Result<_, _>>()?))
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
