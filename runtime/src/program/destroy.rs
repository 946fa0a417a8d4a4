//! What [`Top::destroy`](crate::Top::destroy) takes.

use crate::Error;
use crate::effects::Known;
use crate::ids::{ObjectId, Run, TOP};
use crate::object::Object;
use crate::processor::Core;
use crate::program::edges::Edges;
use crate::program::gang::{Gang, ShardTask};
use crate::program::phase::PhaseBarrier;
use crate::replay::Handle;
use maniple_regions::{Rect, Region};
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
/// | `Collective`, `Plan`, `Tuned` | the crate `maniple_collectives` |
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
    kind: ObjectKind,
}

#[derive(Debug)]
enum ObjectKind {
    /// With the rectangle of its region.
    Tree(Rect),
    Gang,
    Task,
    Edges,
    Phase,
    Replay,
}

impl Named {
    /// The object, unless this run did not make it or has destroyed it.
    pub fn find(&self, core: &Core) -> Result<Rc<Known>, Error> {
        let (objects, what) = (&core.effects().objects, "`Top::destroy`");
        let of_other_run = || Error::misuse(what, "an object that this run has made", format!("another: {self:?}"));
        if !core.effects().config.run.may_be(self.run) {
            return Err(of_other_run());
        }
        objects.check(self.id, TOP, || what.into())?;
        let known = objects.get(self.id).ok_or_else(of_other_run)?;
        match (&self.kind, &*known.object) {
            (ObjectKind::Tree(rect), Object::Tree(tree)) if *rect != tree.rect => {
                let expected = format!("the whole region of tree `{}`, which is {}", tree.name, tree.rect);
                Err(Error::misuse(what, expected, format!("a part of it, {rect}")))
            }
            (ObjectKind::Tree(_), Object::Tree(_))
            | (ObjectKind::Gang, Object::Gang(_))
            | (ObjectKind::Task, Object::Task(_))
            | (ObjectKind::Edges, Object::Edges(_))
            | (ObjectKind::Phase, Object::Phase(_))
            | (ObjectKind::Replay, Object::Replay(_)) => Ok(known),
            _ => Err(of_other_run()),
        }
    }
}

impl Destroy for Region {
    fn name(&self, doomed: &mut Doomed) {
        doomed.0.push(Named { id: self.tree.0, run: Run::ANY, kind: ObjectKind::Tree(self.rect) });
    }
}

macro_rules! handles {
    ($([$($of:ident),*] $handle:ty => $kind:ident),* $(,)?) => {
        $(impl<$($of),*> Destroy for $handle {
            fn name(&self, doomed: &mut Doomed) {
                doomed.0.push(Named { id: self.id, run: self.run, kind: ObjectKind::$kind });
            }
        })*
    };
}

handles! {
    [] Gang => Gang,
    [A, R] ShardTask<A, R> => Task,
    [T] Edges<T> => Edges,
    [] PhaseBarrier => Phase,
    [] Handle => Replay,
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
