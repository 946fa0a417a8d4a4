//! Operators that combine something other than the elements themselves.

use std::fmt;
use std::sync::Arc;

use super::Operator;

/// A reduction of elements `T` that combines states `S`: each element is *lifted* to a state, states are combined, and the
/// last state is *lowered* to the result `R`.
///
/// [`exact_sum`](crate::exact_sum) makes one that is ready to use. A mean with its variance, in one pass:
///
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use maniple_regions::{Operator, Stateful};
///
/// /// Count, mean, and the sum of the squared distances from the mean.
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// #[repr(C)]
/// struct Moments {
///     count: f64,
///     mean: f64,
///     squares: f64,
/// }
///
/// fn merge(a: &Moments, b: &Moments) -> Moments {
///     let count = a.count + b.count;
///     if count == 0.0 {
///         return *a;
///     }
///     let apart = b.mean - a.mean;
///     Moments {
///         count,
///         mean: a.mean + apart * b.count / count,
///         squares: a.squares + b.squares + apart * apart * a.count * b.count / count,
///     }
/// }
///
/// let mean_and_variance = Stateful::new(
///     Operator::user("moments", merge),
///     |x: &f64| Moments { count: 1.0, mean: *x, squares: 0.0 },
///     |all: &Moments| [all.mean, all.squares / all.count],
/// );
///
/// let mut states = [Moments::zeroed(); 4];
/// mean_and_variance.lift_into(&mut states, &[1.0, 2.0, 4.0, 5.0]);
/// let all = states.into_iter().reduce(|a, b| mean_and_variance.operator().combine(&a, &b)).unwrap();
/// let mut result = [[0.0; 2]];
/// mean_and_variance.lower_into(&mut result, &[all]);
/// assert_eq!(result, [[3.0, 2.5]]);
/// ```
pub struct Stateful<T, S, R = T> {
    operator: Operator<S>,
    lift: Arc<dyn Map<T, S>>,
    lower: Arc<dyn Map<S, R>>,
}

impl<T, S, R> Stateful<T, S, R> {
    /// A reduction with the states of `operator`. Like the operator's function, `lift` and `lower` must give the same
    /// result for the same element on every rank, and must not call the framework.
    pub fn new(
        operator: Operator<S>,
        lift: impl Fn(&T) -> S + Send + Sync + 'static,
        lower: impl Fn(&S) -> R + Send + Sync + 'static,
    ) -> Self {
        Self { operator, lift: Arc::new(lift), lower: Arc::new(lower) }
    }

    /// The same with a `lift` that sets a state where it is. A large state then is not copied.
    pub(super) fn in_place(
        operator: Operator<S>,
        lift: impl Fn(&mut S, &T) + Send + Sync + 'static,
        lower: impl Fn(&S) -> R + Send + Sync + 'static,
    ) -> Self {
        Self { operator, lift: Arc::new(InPlace(lift)), lower: Arc::new(lower) }
    }

    /// The operator that combines states. It has the name, laws and identity of the reduction.
    pub fn operator(&self) -> &Operator<S> {
        &self.operator
    }

    /// Sets each state to the state of one element.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn lift_into(&self, states: &mut [S], elements: &[T]) {
        self.lift.map(states, elements);
    }

    /// Sets each result to the result of one state.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn lower_into(&self, results: &mut [R], states: &[S]) {
        self.lower.map(results, states);
    }
}

impl<T, S, R> Clone for Stateful<T, S, R> {
    fn clone(&self) -> Self {
        Self { operator: self.operator.clone(), lift: self.lift.clone(), lower: self.lower.clone() }
    }
}

impl<T, S, R> fmt::Debug for Stateful<T, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stateful({})", self.operator.name())
    }
}

/// A function over slices: one call through a pointer a slice.
trait Map<A, B>: Send + Sync {
    fn map(&self, to: &mut [B], from: &[A]);
}

impl<A, B, F: Fn(&A) -> B + Send + Sync> Map<A, B> for F {
    fn map(&self, to: &mut [B], from: &[A]) {
        in_pairs(to, from, |to, from| *to = self(from));
    }
}

/// A function that sets its result where it is.
struct InPlace<F>(F);

impl<A, B, F: Fn(&mut B, &A) + Send + Sync> Map<A, B> for InPlace<F> {
    fn map(&self, to: &mut [B], from: &[A]) {
        in_pairs(to, from, &self.0);
    }
}

#[inline(always)]
fn in_pairs<A, B>(to: &mut [B], from: &[A], set: impl Fn(&mut B, &A)) {
    assert!(to.len() == from.len(), "expected as many elements on both sides, {}, got {}", to.len(), from.len());
    to.iter_mut().zip(from).for_each(|(to, from)| set(to, from));
}
