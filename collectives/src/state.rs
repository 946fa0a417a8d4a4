//! Reductions whose running values are not elements: lifting contributions, and lowering results.

use crate::Value;
use crate::value::{Coming, Contribution, Output, Running};
use maniple_regions::{Element, Operator, Stateful};
use maniple_runtime::replay::{ReplayCx, Watch};
use maniple_runtime::{Error, Resolver, TaskFuture};
use std::any::{Any, TypeId};
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
    /// What a contribution of this element is combined as.
    #[doc(hidden)]
    fn lifted(&self, element: &Self::In) -> <Self::State as State<Self::In>>::Element;
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
    fn lifted(&self, element: &T) -> T {
        *element
    }
}

impl<T: Element, S: Element, R: Element> Reduction for Stateful<T, S, R> {
    type In = T;
    type Out = R;
    type State = S;
    fn parts(self) -> Parts<T, S> {
        (self.operator().clone(), Some(Arc::new(self)))
    }
    fn lifted(&self, element: &T) -> S {
        let mut state = S::zeroed();
        self.lift_into(std::slice::from_mut(&mut state), std::slice::from_ref(element));
        state
    }
}

/// The future that gets a result which is lowered.
pub trait Lowered<S>: Any {
    /// Gives it the result that another one has got from the same states. False if that has none of the same type.
    fn share(&self, chain: u32, other: &dyn Lowered<S>, cx: &mut ReplayCx<'_>) -> bool;
    fn deliver(&self, chain: u32, states: &[S], by: &Conversion, cx: &mut ReplayCx<'_>);
    /// Whether the result is one element, of which a copy may be kept.
    fn is_small(&self) -> bool;
    fn fail(&self, chain: u32, error: Error, cx: &mut ReplayCx<'_>);
    fn look(&self, watch: &mut Watch<'_>);
}

/// A result that goes through the conversion from states.
struct Lowering<V, T, S, R> {
    result: Resolver<V>,
    lower: Lower<V, T, S, R>,
}

type Lower<V, T, S, R> = fn(&[S], &Stateful<T, S, R>) -> V;

/// A contribution that is lifted when it comes.
struct Lifting<V: Value + ?Sized, F>(V::Later, F);

impl<V, S, F> Coming<Running<S>> for Lifting<V, F>
where
    V: Value + ?Sized + 'static,
    F: Fn(V::Own) -> Running<S> + 'static,
{
    fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        self.0.start_chain(chain, cx)
    }
    fn is_there(&self) -> bool {
        self.0.is_there()
    }
    fn value(&self) -> Result<Running<S>, Error> {
        self.0.value().map(&self.1)
    }
}

/// The error of a contribution that could not be lifted, which fails the call.
struct Unlifted(Error);

impl<S> Coming<Running<S>> for Unlifted {
    fn start_chain(&self, _: u32, _: &mut ReplayCx<'_>) -> bool {
        false
    }
    fn is_there(&self) -> bool {
        true
    }
    fn value(&self) -> Result<Running<S>, Error> {
        Err(self.0.clone())
    }
}

impl<V: Clone + 'static, T: Element, S: Element, R: Element> Lowered<S> for Lowering<V, T, S, R> {
    fn share(&self, chain: u32, other: &dyn Lowered<S>, cx: &mut ReplayCx<'_>) -> bool {
        let other: Option<&Self> = (other as &dyn Any).downcast_ref();
        let Some(result) = other.and_then(|other| other.result.value()) else { return false };
        cx.resolve_rarely(chain, &self.result, Ok(result));
        true
    }
    fn deliver(&self, chain: u32, states: &[S], by: &Conversion, cx: &mut ReplayCx<'_>) {
        let result = cx.guarded(chain, || (self.lower)(states, conversion(by)));
        cx.resolve_rarely(chain, &self.result, result);
    }
    fn is_small(&self) -> bool {
        TypeId::of::<V>() == TypeId::of::<R>()
    }
    fn fail(&self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        cx.resolve_rarely(chain, &self.result, Err(error));
    }
    fn look(&self, watch: &mut Watch<'_>) {
        watch.look(&self.result);
    }
}

type Lift<V, S, R> = fn(<V as Value>::Own, &Stateful<<V as Value>::Element, S, R>, Room<'_, S>) -> Running<S>;

/// Gives a vector for so many states that nobody else holds, with arbitrary values.
pub type Room<'a, S> = &'a mut dyn FnMut(usize) -> Arc<Vec<S>>;

/// A contribution that could not be lifted. It fails the call.
pub fn unlifted<S>(error: Error) -> Running<S> {
    Running::Lifted(Box::new(Unlifted(error)))
}

/// A contribution of any shape.
pub fn lifted<V: Value + ?Sized + 'static, S: Element, R: Element>(
    contribution: Contribution<V>,
    by: &Stateful<V::Element, S, R>,
    room: Room<'_, S>,
    lift: Lift<V, S, R>,
) -> Running<S> {
    match contribution {
        Contribution::Now(value) => lift(value, by, room),
        Contribution::Later(future) => {
            let by = by.clone();
            let new = |elements| Arc::new(vec![S::zeroed(); elements]);
            Running::Lifted(Box::new(Lifting::<V, _>(future, move |value| lift(value, &by, &mut { new }))))
        }
    }
}

/// A result of any shape.
pub fn lowered<V: Clone + 'static, T: Element, S: Element, R: Element>(
    result: Resolver<V>,
    lower: Lower<V, T, S, R>,
) -> Output<S> {
    Output::Lowered(Box::new(Lowering { result, lower }))
}

/// The future of a new call in place of the result of the one before, if that was one element of the same type.
pub fn renewed<V: 'static, T: Element, S: Element, R: Element>(
    output: &mut Option<Output<S>>,
) -> Option<TaskFuture<V>> {
    let Some(Output::Lowered(out)) = output else { return None };
    let out: Option<&mut Lowering<V, T, S, R>> = (&mut **out as &mut dyn Any).downcast_mut();
    Some(out?.result.renew())
}

/// The stateful operator of an object.
pub fn conversion<T: Element, S: Element, R: Element>(by: &Conversion) -> &Stateful<T, S, R> {
    by.downcast_ref().expect("the object was made with it")
}
