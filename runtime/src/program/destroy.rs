//! What [`Top::destroy`](crate::Top::destroy) takes.

use crate::Error;
use crate::effects::{Known, is_private};
use crate::ids::{ObjectId, Run, TOP};
use crate::object::Object;
use crate::processor::Core;
use crate::program::edges::Edges;
use crate::program::gang::{Gang, ShardTask};
use crate::program::phase::PhaseBarrier;
use crate::replay::Handle;
use maniple_regions::{Rect, Region, TreeId};
use std::rc::Rc;

/// Something that [`Top::destroy`](crate::Top::destroy) takes: the handle of an object that the top-level task has made, or
/// several of them. It is taken by value or by reference.
///
/// | handle | made by |
/// |---|---|
/// | the [`Region`] of a whole tree | [`Top::region_tree`](crate::Top::region_tree) |
/// | [`Gang`] | [`Top::gang`](crate::Top::gang) |
/// | [`ShardTask`] | [`Top::register`](crate::Top::register), [`Top::register_inner`](crate::Top::register_inner) |
/// | [`Edges`] | [`Top::edges`](crate::Top::edges) |
/// | [`PhaseBarrier`] | [`Top::phase_barrier`](crate::Top::phase_barrier) |
/// | `Collective`, `Plan` | the crate `maniple_collectives` |
/// | `Halos` | `maniple::halo` |
/// | tuples of up to eight, arrays, vectors | you |
///
/// You can't implement it for objects of your own. Destroy the handles that they consist of.
pub trait Destroy {
    /// Names the objects.
    #[doc(hidden)]
    fn name(&self, doomed: &mut Doomed);
}

/// Objects that are to be destroyed.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Doomed(pub(crate) Vec<Named>);

/// A handle of an object.
#[derive(Debug)]
pub(crate) struct Named {
    id: ObjectId,
    run: Run,
    /// The handle's type, and whether an object is of its kind.
    handle: &'static str,
    fits: fn(&Object) -> bool,
    /// The rectangle of a region.
    rect: Option<Rect>,
}

impl Named {
    /// The object, unless this run did not make it or has destroyed it.
    pub fn find(&self, core: &Core) -> Result<Rc<Known>, Error> {
        let (objects, what) = (&core.effects().objects, "`Top::destroy`");
        let found = || format!("`{}` {}, which is another", self.handle, self.id);
        let of_other_run = || Error::misuse(what, "an object that this run has made", found());
        if !core.effects().config.run.may_be(self.run) {
            return Err(of_other_run());
        }
        if self.rect.is_some() && is_private(TreeId(self.id)) {
            let came = "a private tree of a shard, which goes with its last view";
            return Err(Error::misuse(what, "an object that the top-level task has made", came));
        }
        objects.check(self.id, TOP, || what.into())?;
        let known = objects.get(self.id).filter(|known| (self.fits)(&known.object)).ok_or_else(of_other_run)?;
        match (self.rect, known.object.tree()) {
            (Some(rect), Some(tree)) if rect != tree.rect => {
                let expected = format!("the whole region of tree `{}`, which is {}", tree.name, tree.rect);
                Err(Error::misuse(what, expected, format!("a part of it, {rect}")))
            }
            _ => Ok(known),
        }
    }
}

impl Destroy for Region {
    fn name(&self, doomed: &mut Doomed) {
        let fits = |object: &Object| object.tree().is_some();
        doomed.0.push(Named { id: self.tree.0, run: Run::ANY, handle: "Region", fits, rect: Some(self.rect) });
    }
}

macro_rules! handles {
    ($([$($of:ident),*] $handle:ty => $get:ident),* $(,)?) => {
        $(impl<$($of),*> Destroy for $handle {
            fn name(&self, doomed: &mut Doomed) {
                let (handle, fits) = (stringify!($handle), |object: &Object| object.$get().is_some());
                doomed.0.push(Named { id: self.id, run: self.run, handle, fits, rect: None });
            }
        })*
    };
}

handles! {
    [] Gang => table,
    [A, R] ShardTask<A, R> => task,
    [T] Edges<T> => edges,
    [] PhaseBarrier => phase,
    [] Handle => replay,
}

impl<D: Destroy + ?Sized> Destroy for &D {
    fn name(&self, doomed: &mut Doomed) {
        (**self).name(doomed);
    }
}

impl<D: Destroy> Destroy for [D] {
    fn name(&self, doomed: &mut Doomed) {
        self.iter().for_each(|one| one.name(doomed));
    }
}

impl<D: Destroy, const N: usize> Destroy for [D; N] {
    fn name(&self, doomed: &mut Doomed) {
        self[..].name(doomed);
    }
}

impl<D: Destroy> Destroy for Vec<D> {
    fn name(&self, doomed: &mut Doomed) {
        self[..].name(doomed);
    }
}

macro_rules! tuples {
    ($first:ident $($rest:ident)*) => {
        impl<$first: Destroy, $($rest: Destroy),*> Destroy for ($first, $($rest,)*) {
            #[allow(non_snake_case)]
            fn name(&self, doomed: &mut Doomed) {
                let ($first, $($rest,)*) = self;
                $first.name(doomed);
                $($rest.name(doomed);)*
            }
        }
        tuples!($($rest)*);
    };
    () => {};
}

tuples!(A B C D E F G H);
