//! What a collective combines: elements, or states that contributions become and that results come from.

use maniple_regions::{Element, Operator, Stateful, Vector};

/// The marker of a collective whose running values are elements of its contributions. See [`Collective`](crate::Collective).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {}

/// What a collective with contributions of elements `T` and results of elements `R` combines: elements if it is [`Plain`],
/// or else its own type.
pub trait State<T, R>: 'static {
    /// How contributions become a result.
    type By: Reduction<In = T, Out = R, State = Self>;
}

impl<T: Element> State<T, T> for Plain {
    type By = Operator<T>;
}

impl<T: Element, S: Element, R: Element> State<T, R> for S {
    type By = Stateful<T, S, R>;
}

/// How contributions become a result: by an [`Operator`], or by a [`Stateful`] one. It has no other implementations.
pub trait Reduction: Clone + Send + Sync + 'static {
    /// The type of the elements of contributions.
    type In: Element;
    /// The type of the elements of results.
    type Out: Element;
    /// The type of the elements that are combined.
    type Element: Element;
    /// [`Plain`], or the type of the states.
    type State: State<Self::In, Self::Out, By = Self>;
    /// Whether elements are combined as they are.
    #[doc(hidden)]
    const PLAIN: bool;
    #[doc(hidden)]
    fn operator(&self) -> &Operator<Self::Element>;
    /// What a contribution of this element is combined as.
    #[doc(hidden)]
    fn lift(&self, element: &Self::In) -> Self::Element;
    #[doc(hidden)]
    fn lift_into(&self, states: &mut [Self::Element], elements: &[Self::In]);
    /// A contribution that is combined as it is, or the contribution again.
    #[doc(hidden)]
    fn unlifted(vector: Vector<Self::In>) -> Result<Vector<Self::Element>, Vector<Self::In>>;
    #[doc(hidden)]
    fn lower(&self, state: &Self::Element) -> Self::Out;
    #[doc(hidden)]
    fn lower_all(&self, states: Vector<Self::Element>) -> Vector<Self::Out>;
}

impl<T: Element> Reduction for Operator<T> {
    type In = T;
    type Out = T;
    type Element = T;
    type State = Plain;
    const PLAIN: bool = true;
    #[inline(always)]
    fn operator(&self) -> &Operator<T> {
        self
    }
    #[inline(always)]
    fn lift(&self, element: &T) -> T {
        *element
    }
    fn lift_into(&self, own: &mut [T], elements: &[T]) {
        own.copy_from_slice(elements);
    }
    fn unlifted(vector: Vector<T>) -> Result<Vector<T>, Vector<T>> {
        Ok(vector)
    }
    #[inline(always)]
    fn lower(&self, element: &T) -> T {
        *element
    }
    fn lower_all(&self, elements: Vector<T>) -> Vector<T> {
        elements
    }
}

impl<T: Element, S: Element, R: Element> Reduction for Stateful<T, S, R> {
    type In = T;
    type Out = R;
    type Element = S;
    type State = S;
    const PLAIN: bool = false;
    fn operator(&self) -> &Operator<S> {
        Stateful::operator(self)
    }
    fn lift(&self, element: &T) -> S {
        let mut state = S::zeroed();
        self.lift_into(std::slice::from_mut(&mut state), std::slice::from_ref(element));
        state
    }
    fn lift_into(&self, states: &mut [S], elements: &[T]) {
        Stateful::lift_into(self, states, elements);
    }
    fn unlifted(vector: Vector<T>) -> Result<Vector<S>, Vector<T>> {
        Err(vector)
    }
    fn lower(&self, state: &S) -> R {
        let mut result = R::zeroed();
        self.lower_into(std::slice::from_mut(&mut result), std::slice::from_ref(state));
        result
    }
    fn lower_all(&self, states: Vector<S>) -> Vector<R> {
        let mut results = vec![R::zeroed(); states.len()];
        self.lower_into(&mut results, &states);
        results.into()
    }
}
