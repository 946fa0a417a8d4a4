//! The leaf tasks that fill and copy regions of any dimension.

use super::launch::{Launch, Leaf, NeverFails};
use super::param::{Arg, Bindings, Declaring, Input, Param, Requirement, Taking};
use super::shard::Shard;
use crate::Error;
use maniple_regions::{Element, Lease, Read, ReadShared, RegionError, Write, WriteShared};
use std::borrow::Cow;
use std::marker::PhantomData;

/// A parameter that is all values of a region of any dimension. `A` is the accessor of one dimension, with whose argument it is
/// named.
#[doc(hidden)]
pub struct Whole<'a, A>(&'a mut Lease, PhantomData<fn() -> A>);

impl<A: Param<Arg = Requirement<A>> + 'static> Param for Whole<'_, A> {
    type Item<'a> = Whole<'a, A>;
    type Arg = Requirement<A>;
    type Kept = ();
    type Sent = ();
    fn declare(arg: &Self::Arg, declaring: &mut Declaring<'_>) -> Result<(), Error> {
        A::declare(arg, declaring)
    }
    fn regions(arg: &Self::Arg) -> usize {
        A::regions(arg)
    }
    fn take(_: Self::Arg, _: &mut Taking<'_>) {}
    fn resolve((): ()) -> Result<(), Error> {
        Ok(())
    }
    fn bind<'a>(bindings: &mut Bindings<'a>, (): ()) -> Result<Self::Item<'a>, RegionError> {
        Ok(Whole(bindings.lease(), PhantomData))
    }
}

/// Calls `$does` with the accessor that the region's dimension asks for.
macro_rules! accessed {
    ($whole:expr, $accessor:ident, |$a:ident| $does:expr) => {{
        let lease = $whole.0;
        match lease.rect().dim() {
            1 => accessed!(@ lease, $accessor<1>, $a, $does),
            2 => accessed!(@ lease, $accessor<2>, $a, $does),
            _ => accessed!(@ lease, $accessor<3>, $a, $does),
        }
    }};
    (@ $lease:ident, $accessor:ident<$D:literal>, $a:ident, $does:expr) => {{
        #[allow(unused_mut)]
        let Ok(mut $a) = $accessor::<T, $D>::bind($lease) else { unreachable!("the launch has checked it") };
        $does
    }};
}

trait Source<'a, T: Element> {
    /// All values, in row-major order.
    fn values(self) -> Cow<'a, [T]>;
}

trait Target<T: Element> {
    /// Sets all values.
    fn put(self, values: &[T]);
}

impl<'a, T: Element> Source<'a, T> for Whole<'a, Read<'static, T>> {
    fn values(self) -> Cow<'a, [T]> {
        accessed!(self, Read, |a| match a.slice() {
            Some(values) => Cow::Borrowed(values),
            None => Cow::Owned(a.rows().flatten().copied().collect()),
        })
    }
}

impl<'a, T: Element> Source<'a, T> for Whole<'a, ReadShared<'static, T>> {
    fn values(self) -> Cow<'a, [T]> {
        accessed!(self, ReadShared, |a| {
            let mut values = vec![T::zeroed(); a.len()];
            a.copy_to(&mut values);
            Cow::Owned(values)
        })
    }
}

impl<T: Element> Target<T> for Whole<'_, Write<'static, T>> {
    fn put(self, values: &[T]) {
        accessed!(self, Write, |a| a.copy_from_slice(values));
    }
}

impl<T: Element> Target<T> for Whole<'_, WriteShared<'static, T>> {
    fn put(self, values: &[T]) {
        accessed!(self, WriteShared, |a| a.copy_from(values));
    }
}

pub(crate) type FillMarker<T> = (fn(Whole<'static, Write<'static, T>>, Arg<T>), NeverFails);

pub(crate) type FillArgs<T> = (Requirement<Write<'static, T>>, Input<T>);

pub(crate) type CopyTask<A, B> = for<'a, 'b> fn(Whole<'a, A>, Whole<'b, B>);

pub(crate) type CopyMarker<A, B> = (fn(Whole<'static, A>, Whole<'static, B>), NeverFails);

/// The launch of a task that sets every value of a field of a region.
#[track_caller]
pub(super) fn fill<'s, T: Element>(
    shard: &'s Shard,
    into: Requirement<Write<'static, T>>,
    value: T,
) -> Launch<'s, impl Leaf<FillMarker<T>, Output = (), Args = FillArgs<T>> + use<T>, FillMarker<T>> {
    fn fill<T: Element>(into: Whole<'_, Write<'static, T>>, value: Arg<T>) {
        accessed!(into, Write, |a| a.fill(*value));
    }
    Launch::new(shard, fill::<T>, (into, value.into())).named("fill")
}

/// A pair of requirements for [`Shard::copy`]. The first is for [`Read`] or [`ReadShared`], the second for [`Write`] or
/// [`WriteShared`].
pub trait Copied {
    /// The launch of the copy.
    type Launch<'s>;
    #[doc(hidden)]
    fn launch(self, shard: &Shard) -> Self::Launch<'_>;
}

/// Checks that two regions have the same number of points. Their shapes may differ.
fn same_number(from: &Lease, into: &Lease) {
    let [from, into] = [from, into].map(Lease::rect);
    let [m, n] = [from, into].map(|rect| rect.volume());
    assert!(m == n, "expected regions with the same number of points, found {from} with {m} and {into} with {n}");
}

macro_rules! copied {
    ($from:ident, $into:ident) => {
        impl<T: Element> Copied for (Requirement<$from<'static, T>>, Requirement<$into<'static, T>>) {
            type Launch<'s> = Launch<
                's,
                CopyTask<$from<'static, T>, $into<'static, T>>,
                CopyMarker<$from<'static, T>, $into<'static, T>>,
            >;
            fn launch(self, shard: &Shard) -> Self::Launch<'_> {
                fn copy<T: Element>(from: Whole<'_, $from<'static, T>>, into: Whole<'_, $into<'static, T>>) {
                    same_number(from.0, into.0);
                    into.put(&from.values());
                }
                let copy: CopyTask<$from<'static, T>, $into<'static, T>> = copy::<T>;
                Launch::new(shard, copy, self).named("copy")
            }
        }
    };
}

copied!(Read, Write);
copied!(Read, WriteShared);
copied!(ReadShared, Write);
copied!(ReadShared, WriteShared);
