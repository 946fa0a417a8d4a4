//! The values of a call: what a shard contributes, the running value, and the futures of results.

use crate::engine::Engine;
use crate::state::{Lowered, Room, lifted, lowered, renewed};
use maniple_regions::{Element, Stateful, Vector};
use maniple_runtime::replay::{ReplayCx, Watch};
use maniple_runtime::{Error, Input, Resolver, TaskFuture};
use std::sync::Arc;

/// What a shard contributes or receives: one element, `T`, or a vector of them, `[T]`. It has no other implementations.
pub trait Value {
    /// The type of the elements.
    type Element: Element;
    /// The type of a result: `T`, or a [`Vector`] of them. Shards may share its memory.
    type Own: Clone + 'static;
    /// A future of a contribution.
    #[doc(hidden)]
    type Later: Coming<Self::Own> + From<TaskFuture<Self::Own>>;
    #[doc(hidden)]
    fn running(contribution: Contribution<Self>) -> Running<Self::Element>;
    #[doc(hidden)]
    fn output(resolver: Resolver<Self::Own>) -> Output<Self::Element>;
    #[doc(hidden)]
    fn lifted<S: Element, R: Element>(
        contribution: Contribution<Self>,
        by: &Stateful<Self::Element, S, R>,
        room: Room<'_, S>,
    ) -> Running<S>;
    /// The element, if it is one that has come.
    #[doc(hidden)]
    fn one(_: &Contribution<Self>) -> Option<&Self::Element> {
        None
    }
    /// A future in place of that of an earlier result, whose memory it uses, if that is of the same type.
    #[doc(hidden)]
    fn renewed<T: Element, S: Element>(_: &mut Option<Output<S>>) -> Option<TaskFuture<Self::Own>> {
        None
    }
    #[doc(hidden)]
    fn lowered<T: Element, S: Element>(resolver: Resolver<Self::Own>) -> Output<S>;
    /// Makes a call with a value that has come.
    #[doc(hidden)]
    fn call_now<O: Value<Element = Self::Element> + ?Sized>(
        engine: &mut Engine<Self::Element>,
        at: (u32, u64),
        value: Self::Own,
        cx: &mut ReplayCx<'_>,
    ) -> TaskFuture<O::Own> {
        engine.call_many::<O>(at, Self::running(Contribution::Now(value)), cx)
    }
    /// Makes a call with one element that has come. The result is such a value.
    #[doc(hidden)]
    fn call_with_one(
        engine: &mut Engine<Self::Element>,
        at: (u32, u64),
        value: Self::Element,
        cx: &mut ReplayCx<'_>,
    ) -> TaskFuture<Self::Own> {
        engine.call_many::<Self>(at, Running::One(value), cx)
    }
}

impl<T: Element> Value for T {
    type Element = T;
    type Own = T;
    type Later = TaskFuture<T>;
    #[inline]
    fn running(contribution: Contribution<T>) -> Running<T> {
        match contribution {
            Contribution::Now(value) => Running::One(value),
            Contribution::Later(future) => Running::Later(future),
        }
    }
    fn output(resolver: Resolver<T>) -> Output<T> {
        Output::One(resolver)
    }
    fn lifted<S: Element, R: Element>(
        contribution: Contribution<T>,
        by: &Stateful<T, S, R>,
        room: Room<'_, S>,
    ) -> Running<S> {
        lifted(contribution, by, room, |element, by, room| {
            if size_of::<S>() > LARGE_STATE {
                return Running::Many(lifted_into(room(1), &[element], by));
            }
            let mut state = S::zeroed();
            by.lift_into(std::slice::from_mut(&mut state), &[element]);
            Running::One(state)
        })
    }
    fn lowered<U: Element, S: Element>(resolver: Resolver<T>) -> Output<S> {
        lowered(resolver, lowered_one::<T, U, S>)
    }
    fn one(contribution: &Contribution<T>) -> Option<&T> {
        if let Contribution::Now(value) = contribution { Some(value) } else { None }
    }
    fn renewed<U: Element, S: Element>(output: &mut Option<Output<S>>) -> Option<TaskFuture<T>> {
        renewed::<T, U, S, T>(output)
    }
    #[inline]
    fn call_now<O: Value<Element = T> + ?Sized>(
        engine: &mut Engine<T>,
        at: (u32, u64),
        value: T,
        cx: &mut ReplayCx<'_>,
    ) -> TaskFuture<O::Own> {
        O::call_with_one(engine, at, value, cx)
    }
    #[inline]
    fn call_with_one(engine: &mut Engine<T>, at: (u32, u64), value: T, cx: &mut ReplayCx<'_>) -> TaskFuture<T> {
        engine.call_now(at, value, cx)
    }
}

fn lowered_one<T: Element, U: Element, S: Element>(states: &[S], by: &Stateful<U, S, T>) -> T {
    let mut result = T::zeroed();
    by.lower_into(std::slice::from_mut(&mut result), &states[..1]);
    result
}

fn lifted_into<T: Element, S: Element, R: Element>(
    mut states: Arc<Vec<S>>,
    elements: &[T],
    by: &Stateful<T, S, R>,
) -> Arc<Vec<S>> {
    by.lift_into(Arc::get_mut(&mut states).expect("nobody else holds it"), elements);
    states
}

impl<T: Element> Value for [T] {
    type Element = T;
    type Own = Vector<T>;
    type Later = VectorLater<T>;
    fn running(contribution: Contribution<[T]>) -> Running<T> {
        match contribution {
            Contribution::Now(vector) => Running::many(vector),
            Contribution::Later(future) => Running::ManyLater(future),
        }
    }
    fn output(resolver: Resolver<Vector<T>>) -> Output<T> {
        Output::Many(resolver)
    }
    fn lifted<S: Element, R: Element>(
        contribution: Contribution<[T]>,
        by: &Stateful<T, S, R>,
        room: Room<'_, S>,
    ) -> Running<S> {
        lifted(contribution, by, room, |elements, by, room| {
            Running::Many(lifted_into(room(elements.len()), &elements, by))
        })
    }
    fn lowered<U: Element, S: Element>(resolver: Resolver<Vector<T>>) -> Output<S> {
        lowered(resolver, |states, by: &Stateful<U, S, T>| {
            let mut results = vec![T::zeroed(); states.len()];
            by.lower_into(&mut results, states);
            results.into()
        })
    }
}

/// What a shard contributes to a call: a value, or the future of one. A vector comes as a `Vec` or a [`Vector`].
///
/// It is made `from` any of these, or from an [`Input`].
pub enum Contribution<V: Value + ?Sized> {
    /// A value that is known now.
    Now(V::Own),
    /// The value of a future. The call waits for it, and fails if the future does.
    Later(V::Later),
}

impl<T: Element> From<T> for Contribution<T> {
    #[inline]
    fn from(value: T) -> Self {
        Self::Now(value)
    }
}
impl<T: Element> From<&TaskFuture<T>> for Contribution<T> {
    fn from(future: &TaskFuture<T>) -> Self {
        Self::Later(future.clone())
    }
}
impl<V: Value + ?Sized> From<Input<V::Own>> for Contribution<V> {
    fn from(input: Input<V::Own>) -> Self {
        match input {
            Input::Now(value) => Self::Now(value),
            Input::Later(future) => Self::Later(future.into()),
        }
    }
}

impl<T: Element> From<Vec<T>> for Contribution<[T]> {
    fn from(vector: Vec<T>) -> Self {
        Self::Now(vector.into())
    }
}
impl<T: Element> From<Vector<T>> for Contribution<[T]> {
    fn from(vector: Vector<T>) -> Self {
        Self::Now(vector)
    }
}
impl<T: Element> From<&TaskFuture<Vec<T>>> for Contribution<[T]> {
    fn from(future: &TaskFuture<Vec<T>>) -> Self {
        Self::Later(VectorLater::Vec(future.clone()))
    }
}
impl<T: Element> From<&TaskFuture<Vector<T>>> for Contribution<[T]> {
    fn from(future: &TaskFuture<Vector<T>>) -> Self {
        Self::Later(VectorLater::Vector(future.clone()))
    }
}
impl<T: Element> From<Input<Vec<T>>> for Contribution<[T]> {
    fn from(input: Input<Vec<T>>) -> Self {
        match input {
            Input::Now(vector) => vector.into(),
            Input::Later(future) => (&future).into(),
        }
    }
}

/// A future that a contribution comes from.
#[doc(hidden)]
pub trait Coming<V>: 'static {
    /// Makes the runtime start the chain when it comes. Returns false if it has come already.
    fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool;
    fn is_there(&self) -> bool;
    fn value(&self) -> Result<V, Error>;
}

impl<V: Clone + 'static> Coming<V> for TaskFuture<V> {
    fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        cx.start_after(chain, self)
    }
    fn is_there(&self) -> bool {
        self.is_settled()
    }
    fn value(&self) -> Result<V, Error> {
        self.input().unwrap_or_else(|| Err(Error::Stopped { what: "a collective's input".into() }))
    }
}

/// The future of a vector.
#[doc(hidden)]
pub enum VectorLater<T> {
    Vec(TaskFuture<Vec<T>>),
    Vector(TaskFuture<Vector<T>>),
}

impl<T> From<TaskFuture<Vector<T>>> for VectorLater<T> {
    fn from(future: TaskFuture<Vector<T>>) -> Self {
        VectorLater::Vector(future)
    }
}

impl<T: Element> Coming<Vector<T>> for VectorLater<T> {
    fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match self {
            VectorLater::Vec(future) => future.start_chain(chain, cx),
            VectorLater::Vector(future) => future.start_chain(chain, cx),
        }
    }
    fn is_there(&self) -> bool {
        match self {
            VectorLater::Vec(future) => future.is_there(),
            VectorLater::Vector(future) => future.is_there(),
        }
    }
    fn value(&self) -> Result<Vector<T>, Error> {
        match self {
            VectorLater::Vec(future) => future.value().map(Vector::from),
            VectorLater::Vector(future) => future.value(),
        }
    }
}

/// A state of more bytes is kept where it is, and not moved from hand to hand.
const LARGE_STATE: usize = 32;

/// The value of a call, from its input to its result. One element needs no allocation. Vectors may be lent to readers,
/// and do not change while they are.
pub enum Running<T> {
    One(T),
    Many(Arc<Vec<T>>),
    /// A vector that others may hold too, or a part of one. It does not change.
    Held(Vector<T>),
    /// The value is in the chain's registers.
    Parts,
    /// An input that may not be there yet.
    Later(TaskFuture<T>),
    ManyLater(VectorLater<T>),
    /// The same for one that is lifted to states.
    Lifted(Box<dyn Coming<Running<T>>>),
}

impl<T: Element> Running<T> {
    pub fn many(vector: Vector<T>) -> Self {
        match vector.into_shared() {
            Ok(all) if Arc::strong_count(&all) == 1 => Running::Many(all),
            Ok(all) => Running::Held(all.into()),
            Err(some) => Running::Held(some),
        }
    }

    /// Where one state may be written, as nobody else holds the vector.
    pub fn room(&mut self) -> Option<&mut [T]> {
        let Running::Many(states) = self else { return None };
        Arc::get_mut(states).filter(|states| states.len() == 1).map(Vec::as_mut_slice)
    }

    /// Makes the runtime start the chain when the input comes. Returns false if it has come already.
    pub fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match self {
            Running::One(_) | Running::Many(_) | Running::Held(_) | Running::Parts => false,
            Running::Later(f) => f.start_chain(chain, cx),
            Running::ManyLater(f) => f.start_chain(chain, cx),
            Running::Lifted(later) => later.start_chain(chain, cx),
        }
    }

    pub fn is_there(&self) -> bool {
        match self {
            Running::One(_) | Running::Many(_) | Running::Held(_) | Running::Parts => true,
            Running::Later(f) => f.is_there(),
            Running::ManyLater(f) => f.is_there(),
            Running::Lifted(later) => later.is_there(),
        }
    }

    /// Takes the value out of the future that has it.
    pub fn open(&mut self) -> Result<(), Error> {
        *self = match std::mem::replace(self, Running::One(T::zeroed())) {
            Running::Later(f) => Running::One(f.value()?),
            Running::ManyLater(f) => {
                let value = f.value()?;
                // It holds the vector, too.
                drop(f);
                Running::many(value)
            }
            Running::Lifted(later) => later.value()?,
            value => value,
        };
        Ok(())
    }

    /// The elements, or none if the input has not come.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match self {
            Running::One(v) => std::slice::from_ref(v),
            Running::Many(v) => v,
            Running::Held(v) => v,
            _ => &[],
        }
    }
}

/// The future that gets a call's result.
pub enum Output<T> {
    One(Resolver<T>),
    Many(Resolver<Vector<T>>),
    /// The result is lowered from states.
    Lowered(Box<dyn Lowered<T>>),
    /// The shard receives nothing, or takes its result later: then that goes to the other output.
    Over(Box<Contributed<T>>),
}

/// The outputs of a contribution.
pub struct Contributed<T> {
    pub over: Resolver<()>,
    pub result: Option<Output<T>>,
}

impl<T: Element> Output<T> {
    pub fn fail(&self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        match self {
            Output::One(out) => cx.resolve_rarely(chain, out, Err(error)),
            Output::Many(out) => cx.resolve_rarely(chain, out, Err(error)),
            Output::Lowered(out) => out.fail(chain, error, cx),
            Output::Over(out) => match &out.result {
                None => cx.resolve_rarely(chain, &out.over, Err(error)),
                Some(result) => {
                    result.fail(chain, error.clone(), cx);
                    cx.settle(chain, &out.over, Err(error));
                }
            },
        }
    }

    pub fn look(&self, watch: &mut Watch<'_>) {
        match self {
            Output::One(out) => watch.look(out),
            Output::Many(out) => watch.look(out),
            Output::Lowered(out) => out.look(watch),
            Output::Over(out) => {
                watch.look(&out.over);
                out.result.iter().for_each(|result| result.look(watch));
            }
        }
    }

    pub fn is_one(&self) -> bool {
        match self {
            Output::One(_) => true,
            Output::Many(_) | Output::Lowered(_) => false,
            Output::Over(out) => out.result.as_ref().is_some_and(Output::is_one),
        }
    }
}
