//! Reductions whose running values are not elements: lifting contributions, and lowering results.

use crate::value::{Output, Running, value_of};
use maniple_regions::{Element, Operator, Stateful};
use maniple_runtime::replay::{ReplayCx, Watch};
use maniple_runtime::{Error, Input, Resolver, TaskFuture};
use std::any::Any;
use std::sync::Arc;

/// The marker of a collective whose running values are elements of its contributions. See [`Collective`](crate::Collective).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {}

/// What a collective with contributions of elements `T` combines: elements of these if it is [`Plain`], or else its own type.
pub trait State<T> {
    /// The type of the elements that are combined.
    type Element: Element;
}

impl<T: Element> State<T> for Plain {
    type Element = T;
}

impl<T, S: Element> State<T> for S {
    type Element = S;
}

/// How contributions become a result: by an [`Operator`], or by a [`Stateful`] one. It has no other implementations.
pub trait Reduction {
    /// The type of the elements of contributions.
    type In: Element;
    /// The type of the elements of results.
    type Out: Element;
    /// [`Plain`], or the type of the states.
    type State: State<Self::In>;
    #[doc(hidden)]
    fn parts(self) -> Parts<Self::In, Self::State>;
}

/// The operator that is applied to states, and the conversion to them and from them if they are not elements.
pub type Parts<T, S> = (Operator<<S as State<T>>::Element>, Option<Arc<Conversion>>);

/// A `Stateful` of some types.
pub type Conversion = dyn Any + Send + Sync;

impl<T: Element> Reduction for Operator<T> {
    type In = T;
    type Out = T;
    type State = Plain;
    fn parts(self) -> Parts<T, Plain> {
        (self, None)
    }
}

impl<T: Element, S: Element, R: Element> Reduction for Stateful<T, S, R> {
    type In = T;
    type Out = R;
    type State = S;
    fn parts(self) -> Parts<T, S> {
        (self.operator().clone(), Some(Arc::new(self)))
    }
}

/// A contribution that is lifted when it comes.
pub trait Later<S> {
    fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool;
    fn is_there(&self) -> bool;
    fn open(&self) -> Result<Running<S>, Error>;
}

/// The future that gets a result which is lowered.
pub trait Lowered<S> {
    fn deliver(&self, chain: u32, states: &[S], by: &Conversion, cx: &mut ReplayCx<'_>);
    fn fail(&self, chain: u32, error: Error, cx: &mut ReplayCx<'_>);
    fn look(&self, watch: &mut Watch<'_>);
}

/// Something that comes or goes through a function.
struct Through<C, F>(C, F);

impl<V: Clone + 'static, S, F: Fn(V) -> Running<S>> Later<S> for Through<TaskFuture<V>, F> {
    fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        cx.start_after(chain, &self.0)
    }
    fn is_there(&self) -> bool {
        self.0.is_settled()
    }
    fn open(&self) -> Result<Running<S>, Error> {
        value_of(&self.0).map(&self.1)
    }
}

impl<V: 'static, S, F: Fn(&[S], &Conversion) -> V> Lowered<S> for Through<Resolver<V>, F> {
    fn deliver(&self, chain: u32, states: &[S], by: &Conversion, cx: &mut ReplayCx<'_>) {
        cx.resolve_rarely(chain, &self.0, Ok((self.1)(states, by)));
    }
    fn fail(&self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        cx.resolve_rarely(chain, &self.0, Err(error));
    }
    fn look(&self, watch: &mut Watch<'_>) {
        watch.look(&self.0);
    }
}

/// A contribution of any shape.
pub fn lifted<V: Clone + 'static, T: Element, S: Element, R: Element>(
    input: Input<V>,
    by: &Stateful<T, S, R>,
    lift: fn(V, &Stateful<T, S, R>) -> Running<S>,
) -> Running<S> {
    match input {
        Input::Now(value) => lift(value, by),
        Input::Later(future) => {
            let by = by.clone();
            Running::Lifted(Box::new(Through(future, move |value| lift(value, &by))))
        }
    }
}

/// A result of any shape.
pub fn lowered<V: 'static, T: Element, S: Element, R: Element>(
    resolver: Resolver<V>,
    lower: fn(&[S], &Stateful<T, S, R>) -> V,
) -> Output<S> {
    let lower = move |states: &[S], by: &Conversion| lower(states, conversion(by));
    Output::Lowered(Box::new(Through(resolver, lower)))
}

/// The stateful operator of an object.
pub fn conversion<T: Element, S: Element, R: Element>(by: &Conversion) -> &Stateful<T, S, R> {
    by.downcast_ref().expect("the object was made with it")
}
