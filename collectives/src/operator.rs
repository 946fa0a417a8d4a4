//! Operators: how two contributions become one.

use crate::goal::Laws;
use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;

/// The operator ⊕ of a reduction over elements of type `T`, applied element by element.
///
/// It is cheap to clone. The built-in operators commute bit for bit. One made by [`Operator::user`] only has to be
/// deterministic, because collectives always combine lower ranks on the left, in the same brackets on every rank.
///
/// | | integers | floats |
/// |---|---|---|
/// | [`sum`](Operator::sum), [`product`](Operator::product) | wrap around | IEEE 754, rounded once |
/// | [`min`](Operator::min), [`max`](Operator::max) | | NaN if either is NaN; −0 is less than +0 |
///
/// A NaN result of a built-in float operator is always the positive quiet NaN without payload. Hardware would take the
/// payload of the operand that the compiler happens to put first.
///
/// ```
/// use maniple_collectives::Operator;
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
    kind: Kind<T>,
}

enum Kind<T> {
    /// Functions over whole slices, chosen when the operator is made, and whether it is associative bit for bit.
    Builtin(Builtin, Folds<T>, bool),
    User(Arc<str>, Arc<dyn Fold<T>>),
}

/// A built-in operator over slices: one function writes to the running value, the other one elsewhere.
struct Folds<T> {
    running: fn(&mut [T], &[T]),
    into: fn(&mut [T], &[T], &[T]),
}

#[derive(Clone, Copy)]
enum Builtin {
    Sum,
    Product,
    Min,
    Max,
    Nothing,
}

impl<T> Clone for Operator<T> {
    fn clone(&self) -> Self {
        let kind = match &self.kind {
            Kind::Builtin(builtin, folds, exact) => {
                Kind::Builtin(*builtin, Folds { running: folds.running, into: folds.into }, *exact)
            }
            Kind::User(name, fold) => Kind::User(name.clone(), fold.clone()),
        };
        Operator { kind }
    }
}

impl<T> fmt::Debug for Operator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operator({})", self.name())
    }
}

impl<T> Operator<T> {
    /// The name: `sum`, `product`, `min`, `max`, or that given to [`Operator::user`].
    pub fn name(&self) -> &str {
        match &self.kind {
            Kind::Builtin(Builtin::Sum, ..) => "sum",
            Kind::Builtin(Builtin::Product, ..) => "product",
            Kind::Builtin(Builtin::Min, ..) => "min",
            Kind::Builtin(Builtin::Max, ..) => "max",
            Kind::Builtin(Builtin::Nothing, ..) => "nothing",
            Kind::User(name, _) => name,
        }
    }

    /// The laws that the operator obeys bit for bit. The built-in ones commute, and are associative, except sum and
    /// product of floats. Minimum and maximum are idempotent. Nothing is known of a program's own operators.
    pub fn laws(&self) -> Laws {
        match &self.kind {
            Kind::Builtin(builtin, _, associative) => Laws {
                associative: *associative,
                commutative: true,
                idempotent: matches!(builtin, Builtin::Min | Builtin::Max | Builtin::Nothing),
                invertible: false,
            },
            Kind::User(..) => Laws::NONE,
        }
    }
}

impl Operator<()> {
    /// The operator of a barrier. It obeys all laws.
    pub(crate) fn nothing() -> Self {
        Operator { kind: Kind::Builtin(Builtin::Nothing, Folds { running: |_, _| {}, into: |_, _, _| {} }, true) }
    }
}

impl<T: Number> Operator<T> {
    /// Addition.
    pub fn sum() -> Self {
        Self::builtin(
            Builtin::Sum,
            |running, incoming| fold(running, incoming, T::add),
            |out, lower, higher| fold_into(out, lower, higher, T::add),
        )
    }

    /// Multiplication.
    pub fn product() -> Self {
        Self::builtin(
            Builtin::Product,
            |running, incoming| fold(running, incoming, T::multiply),
            |out, lower, higher| fold_into(out, lower, higher, T::multiply),
        )
    }

    /// The smaller of two values; see the table at [`Operator`] for floats.
    pub fn min() -> Self {
        Self::builtin(
            Builtin::Min,
            |running, incoming| fold(running, incoming, T::lesser),
            |out, lower, higher| fold_into(out, lower, higher, T::lesser),
        )
    }

    /// The larger of two values; see the table at [`Operator`] for floats.
    pub fn max() -> Self {
        Self::builtin(
            Builtin::Max,
            |running, incoming| fold(running, incoming, T::greater),
            |out, lower, higher| fold_into(out, lower, higher, T::greater),
        )
    }

    fn builtin(builtin: Builtin, running: fn(&mut [T], &[T]), into: fn(&mut [T], &[T], &[T])) -> Self {
        let exact = T::EXACT || matches!(builtin, Builtin::Min | Builtin::Max);
        Operator { kind: Kind::Builtin(builtin, Folds { running, into }, exact) }
    }
}

impl<T: Pod + Send + Sync> Operator<T> {
    /// Makes an operator of the program's own, which computes `f(lower, higher)` for one element.
    ///
    /// `f` must give the same result for the same operands on every rank, or ranks end with different values. It need
    /// be neither commutative nor associative: operands come in rank order. It must not call the framework, because a
    /// collective is running. `name` appears in errors and figures.
    pub fn user(name: &str, f: impl Fn(&T, &T) -> T + Send + Sync + 'static) -> Self {
        Operator { kind: Kind::User(name.into(), Arc::new(f)) }
    }

    /// `running = running ⊕ incoming`: the incoming values come from higher ranks.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[inline]
    pub fn fold_higher(&self, running: &mut [T], incoming: &[T]) {
        check_lengths(running, incoming);
        match &self.kind {
            Kind::Builtin(_, folds, _) => (folds.running)(running, incoming),
            Kind::User(_, user) => user.higher(running, incoming),
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
        match &self.kind {
            // Built-in operators commute bit for bit.
            Kind::Builtin(_, folds, _) => (folds.running)(running, incoming),
            Kind::User(_, user) => user.lower(running, incoming),
        }
    }
}

impl<T: Pod + Send + Sync> Operator<T> {
    /// `out = lower ⊕ higher`. The old values of `out` do not matter.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn fold_into(&self, out: &mut [T], lower: &[T], higher: &[T]) {
        check_lengths(out, lower);
        check_lengths(lower, higher);
        match &self.kind {
            Kind::Builtin(_, folds, _) => (folds.into)(out, lower, higher),
            Kind::User(_, user) => user.elsewhere(out, lower, higher),
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

#[inline(always)]
fn fold<T: Copy>(running: &mut [T], incoming: &[T], op: impl Fn(T, T) -> T) {
    // Most reductions are of one number, and the vector loop's set-up costs more than the number.
    if let ([one], [other]) = (&mut *running, incoming) {
        *one = op(*one, *other);
        return;
    }
    for (mine, theirs) in running.iter_mut().zip(incoming) {
        *mine = op(*mine, *theirs);
    }
}

#[inline(always)]
fn fold_into<T: Copy>(out: &mut [T], lower: &[T], higher: &[T], op: impl Fn(T, T) -> T) {
    for (out, (lower, higher)) in out.iter_mut().zip(lower.iter().zip(higher)) {
        *out = op(*lower, *higher);
    }
}

/// A user's function over slices. The call through a pointer is paid once for each slice, and the loop inlines the
/// function.
trait Fold<T>: Send + Sync {
    fn higher(&self, running: &mut [T], incoming: &[T]);
    fn lower(&self, running: &mut [T], incoming: &[T]);
    fn elsewhere(&self, out: &mut [T], lower: &[T], higher: &[T]);
}

impl<T: Copy, F: Fn(&T, &T) -> T + Send + Sync> Fold<T> for F {
    fn higher(&self, running: &mut [T], incoming: &[T]) {
        for (mine, theirs) in running.iter_mut().zip(incoming) {
            *mine = self(mine, theirs);
        }
    }

    fn lower(&self, running: &mut [T], incoming: &[T]) {
        for (mine, theirs) in running.iter_mut().zip(incoming) {
            *mine = self(theirs, mine);
        }
    }

    fn elsewhere(&self, out: &mut [T], lower: &[T], higher: &[T]) {
        fold_into(out, lower, higher, |lower, higher| self(&lower, &higher));
    }
}

/// The element types of the built-in operators: `f32`, `f64`, `i32`, `i64` and `u64`. Sealed; other types reduce with
/// [`Operator::user`].
pub trait Number: Pod + Send + Sync + Arithmetic {}

/// Every method commutes bit for bit.
pub trait Arithmetic: Copy {
    /// Addition and multiplication are associative too.
    const EXACT: bool;
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn lesser(self, other: Self) -> Self;
    fn greater(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($t:ty)*) => {$(
        impl Number for $t {}
        impl Arithmetic for $t {
            const EXACT: bool = true;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn lesser(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                Ord::max(self, other)
            }
        }
    )*};
}

macro_rules! float {
    ($($t:ident)*) => {$(
        impl Number for $t {}
        impl Arithmetic for $t {
            const EXACT: bool = false;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                quiet::$t(self + other)
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                quiet::$t(self * other)
            }
            #[inline(always)]
            fn lesser(self, other: Self) -> Self {
                // The two selections differ only where neither operand is less: zeros of unlike sign, whose OR is −0,
                // and NaNs, whose OR with anything is a NaN. Each is one machine instruction.
                let this = if self < other { self } else { other };
                let that = if other < self { other } else { self };
                quiet::$t(<$t>::from_bits(this.to_bits() | that.to_bits()))
            }
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                quiet::$t(-(-self).lesser(-other))
            }
        }
    )*};
}

/// Every NaN becomes the same NaN.
mod quiet {
    #[inline(always)]
    pub fn f32(x: f32) -> f32 {
        if x.is_nan() { f32::from_bits(0x7fc0_0000) } else { x }
    }

    #[inline(always)]
    pub fn f64(x: f64) -> f64 {
        if x.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { x }
    }
}

integer! { i32 i64 u64 }
float! { f32 f64 }

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every built-in on every pair, both ways and alone and in slices, against `expected`.
    fn compare<T: Number + fmt::Debug>(operator: Operator<T>, values: &[T], expected: impl Fn(T, T) -> T) {
        let name = operator.name();
        for &incoming in values {
            for len in [0, 1, 2, 3, values.len()] {
                let values = &values[..len];
                let others = vec![incoming; len];
                let (mut higher, mut lower) = (values.to_vec(), values.to_vec());
                operator.fold_higher(&mut higher, &others);
                operator.fold_lower(&mut lower, &others);
                let expected: Vec<T> = values.iter().map(|&v| expected(v, incoming)).collect();
                for came in [higher, lower] {
                    assert_eq!(
                        bytemuck::cast_slice::<T, u8>(&came),
                        bytemuck::cast_slice::<T, u8>(&expected),
                        "{name} of {values:?} and {incoming:?}: came {came:?}, expected {expected:?}"
                    );
                }
            }
        }
    }

    macro_rules! against_wide_integers {
        ($test:ident, $t:ty) => {
            #[test]
            fn $test() {
                let (min, max) = (<$t>::MIN, <$t>::MAX);
                let values = [0, 1, 2, 3, 7, 1000, min, min + 1, max, max - 1, max / 2 + 1, max / 3];
                let wrapped = |x: i128| x as $t;
                compare(Operator::sum(), &values, |a, b| wrapped(a as i128 + b as i128));
                compare(Operator::product(), &values, |a, b| wrapped((a as i128).wrapping_mul(b as i128)));
                compare(Operator::min(), &values, |a, b| if a <= b { a } else { b });
                compare(Operator::max(), &values, |a, b| if a >= b { a } else { b });
            }
        };
    }

    against_wide_integers!(i32_wraps, i32);
    against_wide_integers!(i64_wraps, i64);
    against_wide_integers!(u64_wraps, u64);

    macro_rules! against_total_order {
        ($test:ident, $t:ty, $nan:literal) => {
            #[test]
            fn $test() {
                let nan = <$t>::from_bits($nan);
                let quiet = |x: $t| if x.is_nan() { nan } else { x };
                let values = [
                    0.0,
                    -0.0,
                    1.0,
                    -1.0,
                    1e-30,
                    <$t>::MIN_POSITIVE / 2.0,
                    <$t>::MAX,
                    <$t>::MIN,
                    <$t>::INFINITY,
                    <$t>::NEG_INFINITY,
                    nan,
                    -nan,
                    // A payload that must not reach the result.
                    <$t>::from_bits($nan | 0x1234),
                    0.1,
                    3.5,
                ];
                let sorted = |a: $t, b: $t| {
                    let mut both = [a, b];
                    both.sort_by(<$t>::total_cmp);
                    let nan = both.iter().find(|x| x.is_nan()).map(|&x| quiet(x));
                    nan.map_or(both, |nan| [nan; 2])
                };
                compare(Operator::min(), &values, |a, b| sorted(a, b)[0]);
                compare(Operator::max(), &values, |a, b| sorted(a, b)[1]);
                compare(Operator::sum(), &values, |a, b| quiet(a + b));
                compare(Operator::product(), &values, |a, b| quiet(a * b));
            }
        };
    }

    against_total_order!(f32_follows_the_table, f32, 0x7fc0_0000);
    against_total_order!(f64_follows_the_table, f64, 0x7ff8_0000_0000_0000);

    proptest! {
        #[test]
        fn any_bits_and_lengths(pairs in prop::collection::vec((any::<u64>(), any::<u64>()), 0..70)) {
            let (a, b): (Vec<f64>, Vec<f64>) =
                pairs.iter().map(|&(a, b)| (f64::from_bits(a), f64::from_bits(b))).unzip();
            let mut least = a.clone();
            Operator::min().fold_higher(&mut least, &b);
            let mut sum = a.clone();
            Operator::sum().fold_lower(&mut sum, &b);
            for i in 0..a.len() {
                if a[i].is_nan() || b[i].is_nan() {
                    prop_assert!(least[i].is_nan() && sum[i].is_nan());
                } else {
                    let expected = if a[i].total_cmp(&b[i]).is_lt() { a[i] } else { b[i] };
                    prop_assert_eq!(least[i].to_bits(), expected.to_bits());
                    prop_assert!(sum[i] == a[i] + b[i] || sum[i].is_nan());
                }
            }
        }
    }

    #[test]
    fn a_user_operator_sees_the_lower_operand_first() {
        let join = Operator::user("join", |lower: &u64, higher: &u64| lower * 10 + higher);
        assert_eq!(join.name(), "join");
        assert_eq!(format!("{:?}", join.clone()), "Operator(join)");
        let mut running = [1, 2];
        join.fold_higher(&mut running, &[3, 4]);
        assert_eq!(running, [13, 24]);
        join.clone().fold_lower(&mut running, &[5, 6]);
        assert_eq!(running, [63, 84]);
    }

    #[test]
    fn a_struct_reduces() {
        #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(C)]
        struct Argmax {
            value: f64,
            at: u64,
        }
        let argmax = Operator::user(
            "argmax",
            |lower: &Argmax, higher: &Argmax| {
                if higher.value > lower.value { *higher } else { *lower }
            },
        );
        let mut running = [Argmax { value: 2.0, at: 7 }];
        argmax.fold_higher(&mut running, &[Argmax { value: 2.0, at: 8 }]);
        assert_eq!(running[0].at, 7);
        argmax.fold_lower(&mut running, &[Argmax { value: 2.5, at: 3 }]);
        assert_eq!((running[0].value, running[0].at), (2.5, 3));
    }

    #[test]
    #[should_panic(expected = "expected as many incoming elements as running ones, 2, got 3")]
    fn lengths_must_agree() {
        Operator::sum().fold_higher(&mut [1.0, 2.0], &[1.0; 3]);
    }

    #[test]
    fn operators_travel_between_threads() {
        fn travels<T: Clone + Send + Sync>(_: &T) {}
        travels(&Operator::<f32>::max());
        travels(&Operator::user("left", |a: &[u64; 4], _: &[u64; 4]| *a));
    }
}
