//! Operators: how two contributions become one.

mod builtin;
mod exact;
mod id;
mod laws;
mod located;
mod number;
mod sample;
mod stateful;
#[cfg(test)]
mod tests;
mod user;

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;

use builtin::Builtin;
use user::{Fold, User};

pub use exact::{ExactSum, Summand, exact_sum};
pub use id::ReductionId;
pub use laws::Laws;
pub use located::{Located, argmax, argmin};
pub use number::{Integer, Number};
pub use sample::{BrokenLaw, Law};
pub use stateful::Stateful;

/// The operator ⊕ of a reduction over elements of type `T`, applied element by element.
///
/// Collectives, phase barriers and the [`Reduce`](crate::Reduce) accessors of regions all combine with it. It is cheap to
/// clone. The built-in operators commute bit for bit. One made by [`Operator::user`] only has to be deterministic, because
/// operands are combined in order unless it is declared commutative: operands of lower ranks and earlier launches come first.
///
/// | | integers | floats |
/// |---|---|---|
/// | [`sum`](Operator::sum), [`product`](Operator::product) | wrap around | IEEE 754; each addition or multiplication rounds |
/// | [`min`](Operator::min), [`max`](Operator::max), [`minloc`](Operator::minloc), [`maxloc`](Operator::maxloc) | | NaN if either is NaN; −0 is less than +0 |
/// | [`and`](Operator::and), [`or`](Operator::or), [`xor`](Operator::xor) | bit by bit | |
/// | [`logical_and`](Operator::logical_and), [`logical_or`](Operator::logical_or), [`logical_xor`](Operator::logical_xor) | of truth values: all but 0 are true; the result is 0 or 1 | |
/// | [`argmin`], [`argmax`] | the place only, of `minloc` and `maxloc` | |
/// | [`ExactSum::operator`], [`exact_sum`] | | rounded correctly, once, at the end |
///
/// A NaN result of a built-in float operator is always the positive quiet NaN without payload. Hardware would take the
/// payload of the operand that the compiler happens to put first.
///
/// ```
/// use maniple_regions::Operator;
///
/// let mut running = [1.0, 5.0];
/// Operator::max().fold_higher(&mut running, &[3.0, 4.0]);
/// assert_eq!(running, [3.0, 5.0]);
///
/// let first = Operator::user("first", |lower: &f64, _higher: &f64| *lower);
/// first.fold_lower(&mut running, &[7.0, 8.0]);
/// assert_eq!(running, [7.0, 8.0]);
/// ```
pub struct Operator<T> {
    implementation: Implementation<T>,
}

enum Implementation<T> {
    /// Functions over whole slices, chosen when the operator is made: `running = running ⊕ incoming`,
    /// `out = lower ⊕ higher`, and one that tells the rest, which is asked for less often.
    Builtin(fn(&mut [T], &[T]), fn(&mut [T], &[T], &[T]), fn() -> Facts<T>),
    User(Arc<dyn Fold<T>>, Arc<User<T>>),
}

/// What is known of an operator beside its functions.
struct Facts<T> {
    name: &'static str,
    laws: Laws,
    identity: Option<T>,
    /// `running = running ⊖ removed`, if the operator is invertible.
    undo: fn(&mut [T], &[T]),
    /// The element as a combination would leave it.
    canonical: fn(T) -> T,
}

impl<T> Clone for Operator<T> {
    fn clone(&self) -> Self {
        let implementation = match &self.implementation {
            Implementation::Builtin(running, into, facts) => Implementation::Builtin(*running, *into, *facts),
            Implementation::User(fold, user) => Implementation::User(fold.clone(), user.clone()),
        };
        Operator { implementation }
    }
}

impl<T> fmt::Debug for Operator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operator({})", self.name())
    }
}

impl<T> Operator<T> {
    fn builtin<B: Builtin<T>>() -> Self {
        Operator { implementation: Implementation::Builtin(B::fold, B::fold_into, builtin::facts::<T, B>) }
    }

    /// The name, such as `sum` or `logical_and`, or that given to [`Operator::user`].
    pub fn name(&self) -> &str {
        match &self.implementation {
            Implementation::Builtin(.., facts) => facts().name,
            Implementation::User(_, user) => &user.name,
        }
    }

    /// An id for region privileges: two operators count as the same reduction if their ids are equal.
    pub fn id(&self) -> ReductionId {
        ReductionId::new(self.name())
    }

    /// The laws that the operator obeys bit for bit.
    ///
    /// | | associative | commutative | idempotent | invertible | identity |
    /// |---|---|---|---|---|---|
    /// | `sum` of integers, `xor`, `logical_xor` | yes | yes | | yes | 0 |
    /// | `product` of integers | yes | yes | | | 1 |
    /// | `sum`, `product` of floats | | yes | | | −0, 1 |
    /// | `min`, `minloc` | yes | yes | yes | | the largest value (`minloc`: at index `u64::MAX`) |
    /// | `max`, `maxloc` | yes | yes | yes | | the least value (`maxloc`: at index `u64::MAX`) |
    /// | `and`, `logical_and` | yes | yes | yes | | all bits, 1 |
    /// | `or`, `logical_or` | yes | yes | yes | | 0 |
    /// | exact sum | yes | yes | | | [`ExactSum::zero`] |
    /// | [`user`](Self::user) | as declared | | | | |
    ///
    /// Built-in operators never panic, so all of them are infallible too.
    ///
    /// A few elements are never the result of a combination: NaNs with a sign or a payload, and truth values other than
    /// 0 and 1. The first combination makes them 0, 1 or the one NaN, so for them idempotence, inverse and identity hold
    /// up to this change. [`canonical`](Self::canonical) makes the same change.
    pub fn laws(&self) -> Laws {
        match &self.implementation {
            Implementation::Builtin(.., facts) => facts().laws,
            Implementation::User(_, user) => user.laws,
        }
    }
}

impl Operator<()> {
    /// The operator of a barrier. It obeys all laws.
    #[doc(hidden)]
    pub fn nothing() -> Self {
        Self::builtin::<builtin::Nothing>()
    }
}

impl<T: Pod + Send + Sync> Operator<T> {
    /// The element e with e ⊕ a = a = a ⊕ e, if there is one; see [`laws`](Self::laws) for the built-in operators.
    pub fn identity(&self) -> Option<T> {
        match &self.implementation {
            Implementation::Builtin(.., facts) => facts().identity,
            Implementation::User(_, user) => user.identity,
        }
    }

    /// All of the operator that processes can compare: the name, and for one of the program's own its laws and identity.
    #[doc(hidden)]
    pub fn described(&self) -> String {
        let name = format!("operator `{}`", self.name());
        match &self.implementation {
            Implementation::Builtin(..) => name,
            Implementation::User(_, user) => {
                let identity = user.identity.as_ref().map_or("none".into(), sample::show);
                format!("{name} (laws: {}; identity: {identity})", user.laws)
            }
        }
    }

    /// `running = running ⊕ incoming`: the incoming values come from higher ranks.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[inline]
    pub fn fold_higher(&self, running: &mut [T], incoming: &[T]) {
        check_lengths(running, incoming);
        match &self.implementation {
            Implementation::Builtin(fold, ..) => fold(running, incoming),
            Implementation::User(fold, _) => fold.higher(running, incoming),
        }
    }

    /// `running = incoming ⊕ running`: the incoming values come from lower ranks.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[inline]
    pub fn fold_lower(&self, running: &mut [T], incoming: &[T]) {
        check_lengths(running, incoming);
        match &self.implementation {
            // Built-in operators commute bit for bit.
            Implementation::Builtin(fold, ..) => fold(running, incoming),
            Implementation::User(fold, _) => fold.lower(running, incoming),
        }
    }

    /// `out = lower ⊕ higher`. The old values of `out` do not matter.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn fold_into(&self, out: &mut [T], lower: &[T], higher: &[T]) {
        check_lengths(out, lower);
        check_lengths(lower, higher);
        match &self.implementation {
            Implementation::Builtin(_, into, _) => into(out, lower, higher),
            Implementation::User(fold, _) => fold.elsewhere(out, lower, higher),
        }
    }

    /// `lower ⊕ higher` of one element.
    pub fn combine(&self, lower: &T, higher: &T) -> T {
        let mut running = *lower;
        self.fold_higher(std::slice::from_mut(&mut running), std::slice::from_ref(higher));
        running
    }

    /// `running = running ⊖ removed`: takes the higher operands out of combinations again.
    ///
    /// # Panics
    ///
    /// If the operator is not invertible (see [`laws`](Self::laws)), or the lengths differ.
    pub fn undo(&self, running: &mut [T], removed: &[T]) {
        check_lengths(running, removed);
        match &self.implementation {
            Implementation::Builtin(.., facts) if facts().laws.invertible => (facts().undo)(running, removed),
            Implementation::User(_, user) if user.laws.invertible => user.undo(running, removed),
            _ => panic!("expected an invertible operator, got `{}`", self.name()),
        }
    }

    /// The element as a combination would leave it: 0 or 1 with a logical operator, the one NaN in place of any other with a
    /// built-in operator of floats. With any other operator it is `x` itself. A reduction of one contribution gives this.
    ///
    /// ```
    /// use maniple_regions::Operator;
    ///
    /// assert_eq!(Operator::logical_or().canonical(5), 1);
    /// assert_eq!(Operator::or().canonical(5), 5);
    /// ```
    pub fn canonical(&self, x: T) -> T {
        match &self.implementation {
            Implementation::Builtin(.., facts) => (facts().canonical)(x),
            Implementation::User(..) => x,
        }
    }
}

#[inline]
fn check_lengths<T>(running: &[T], incoming: &[T]) {
    assert!(
        running.len() == incoming.len(),
        "expected as many incoming elements as running ones, {}, got {}",
        running.len(),
        incoming.len()
    );
}
