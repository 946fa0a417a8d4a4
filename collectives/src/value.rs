//! The values of a call: what a shard contributes, the running value, and the futures of results.

use crate::engine::Engine;
use crate::state::{Later, Lowered, lifted, lowered};
use maniple_regions::{Element, Stateful};
use maniple_runtime::replay::{ReplayCx, Watch};
use maniple_runtime::{Error, Input, Resolver, TaskFuture};
use std::sync::Arc;

/// What a shard contributes or receives: one element, `T`, or a vector of them, `[T]`. It has no other implementations.
pub trait Value {
    /// The type of the elements.
    type Element: Element;
    /// The type of a value that is passed: `T` or `Vec<T>`.
    type Own: Clone + 'static;
    #[doc(hidden)]
    fn running(input: Input<Self::Own>) -> Running<Self::Element>;
    #[doc(hidden)]
    fn output(resolver: Resolver<Self::Own>) -> Output<Self::Element>;
    #[doc(hidden)]
    fn lifted<S: Element, R: Element>(input: Input<Self::Own>, by: &Stateful<Self::Element, S, R>) -> Running<S>;
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
        engine.call_many::<O>(at, Self::running(Input::Now(value)), cx)
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
    #[inline]
    fn running(input: Input<T>) -> Running<T> {
        match input {
            Input::Now(value) => Running::One(value),
            Input::Later(future) => Running::Later(future),
        }
    }
    fn output(resolver: Resolver<T>) -> Output<T> {
        Output::One(resolver)
    }
    fn lifted<S: Element, R: Element>(input: Input<T>, by: &Stateful<T, S, R>) -> Running<S> {
        lifted(input, by, |element, by| {
            if size_of::<S>() > LARGE_STATE {
                let mut states = vec![S::zeroed()];
                by.lift_into(&mut states, &[element]);
                return Running::Many(Arc::new(states));
            }
            let mut state = S::zeroed();
            by.lift_into(std::slice::from_mut(&mut state), &[element]);
            Running::One(state)
        })
    }
    fn lowered<U: Element, S: Element>(resolver: Resolver<T>) -> Output<S> {
        lowered(resolver, |states, by: &Stateful<U, S, T>| {
            let mut result = T::zeroed();
            by.lower_into(std::slice::from_mut(&mut result), &states[..1]);
            result
        })
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

impl<T: Element> Value for [T] {
    type Element = T;
    type Own = Vec<T>;
    fn running(input: Input<Vec<T>>) -> Running<T> {
        match input {
            Input::Now(values) => Running::Many(Arc::new(values)),
            Input::Later(future) => Running::ManyLater(future),
        }
    }
    fn output(resolver: Resolver<Vec<T>>) -> Output<T> {
        Output::Many(resolver)
    }
    fn lifted<S: Element, R: Element>(input: Input<Vec<T>>, by: &Stateful<T, S, R>) -> Running<S> {
        lifted(input, by, |elements, by| {
            let mut states = vec![S::zeroed(); elements.len()];
            by.lift_into(&mut states, &elements);
            Running::Many(Arc::new(states))
        })
    }
    fn lowered<U: Element, S: Element>(resolver: Resolver<Vec<T>>) -> Output<S> {
        lowered(resolver, |states, by: &Stateful<U, S, T>| {
            let mut results = vec![T::zeroed(); states.len()];
            by.lower_into(&mut results, states);
            results
        })
    }
}

/// A state of more bytes is kept where it is, and not moved from hand to hand.
const LARGE_STATE: usize = 32;

/// The value of a call, from its input to its result. One element needs no allocation. Vectors may be lent to readers,
/// and do not change while they are.
pub enum Running<T> {
    One(T),
    Many(Arc<Vec<T>>),
    /// The value is in the chain's registers.
    Parts,
    /// An input that may not be there yet.
    Later(TaskFuture<T>),
    ManyLater(TaskFuture<Vec<T>>),
    /// The same for one that is lifted to states.
    Lifted(Box<dyn Later<T>>),
}

impl<T: Element> Running<T> {
    /// Makes the runtime start the chain when the input comes. Returns false if it has come already.
    pub fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match self {
            Running::One(_) | Running::Many(_) | Running::Parts => false,
            Running::Later(f) => cx.start_after(chain, f),
            Running::ManyLater(f) => cx.start_after(chain, f),
            Running::Lifted(later) => later.start_chain(chain, cx),
        }
    }

    pub fn is_there(&self) -> bool {
        match self {
            Running::One(_) | Running::Many(_) | Running::Parts => true,
            Running::Later(f) => f.is_settled(),
            Running::ManyLater(f) => f.is_settled(),
            Running::Lifted(later) => later.is_there(),
        }
    }

    /// Takes the value out of the future that has it.
    pub fn open(&mut self) -> Result<(), Error> {
        *self = match self {
            Running::One(_) | Running::Many(_) | Running::Parts => return Ok(()),
            Running::Later(f) => Running::One(value_of(f)?),
            Running::ManyLater(f) => Running::Many(Arc::new(value_of(f)?)),
            Running::Lifted(later) => later.open()?,
        };
        Ok(())
    }

    /// The elements, or none if the input has not come.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match self {
            Running::One(v) => std::slice::from_ref(v),
            Running::Many(v) => v,
            _ => &[],
        }
    }
}

/// The future that gets a call's result.
pub enum Output<T> {
    One(Resolver<T>),
    Many(Resolver<Vec<T>>),
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
                    cx.settle(&out.over, Err(error));
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

fn stopped(what: &str) -> Error {
    Error::Stopped { what: format!("a collective's {what}") }
}

pub fn value_of<V: Clone + 'static>(future: &TaskFuture<V>) -> Result<V, Error> {
    let value = future.peek(|outcome| outcome.cloned().map_err(Clone::clone));
    value.unwrap_or_else(|| Err(stopped("input")))
}
