//! The built-in operators of numbers.

use super::{Facts, Integer, Laws, Number, Operator, builtin};

/// The names of the built-in operators.
pub(super) const NAMES: [&str; 14] = [
    "sum",
    "product",
    "min",
    "max",
    "and",
    "or",
    "xor",
    "logical_and",
    "logical_or",
    "logical_xor",
    "minloc",
    "maxloc",
    "exact_sum",
    "nothing",
];

/// A built-in operator. It commutes bit for bit.
pub(super) trait Builtin<T> {
    const NAME: &'static str;
    const LAWS: Laws;
    const IDENTITY: Option<T>;

    /// `running = running ⊕ incoming`
    fn fold(running: &mut [T], incoming: &[T]);

    /// `out = lower ⊕ higher`
    fn fold_into(out: &mut [T], lower: &[T], higher: &[T]);

    /// `running = running ⊖ removed`. Called only if the laws say that the operator is invertible.
    fn undo(_running: &mut [T], _removed: &[T]) {
        unreachable!("{} has no inverse", Self::NAME);
    }

    /// The element as a combination would leave it.
    fn canonical(x: T) -> T {
        x
    }
}

pub(super) fn facts<T, B: Builtin<T>>() -> Facts<T> {
    Facts { name: B::NAME, laws: B::LAWS, identity: B::IDENTITY, undo: B::undo, canonical: B::canonical }
}

#[inline(always)]
pub(super) fn fold<T: Copy>(running: &mut [T], incoming: &[T], op: impl Fn(T, T) -> T) {
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
pub(super) fn fold_into<T: Copy>(out: &mut [T], lower: &[T], higher: &[T], op: impl Fn(T, T) -> T) {
    for (out, (lower, higher)) in out.iter_mut().zip(lower.iter().zip(higher)) {
        *out = op(*lower, *higher);
    }
}

/// Both folds of an operator on single elements.
macro_rules! elementwise {
    ($t:ty, $op:expr) => {
        fn fold(running: &mut [$t], incoming: &[$t]) {
            builtin::fold(running, incoming, $op);
        }

        fn fold_into(out: &mut [$t], lower: &[$t], higher: &[$t]) {
            builtin::fold_into(out, lower, higher, $op);
        }
    };
}
pub(super) use elementwise;

const SELECTION: Laws = Laws { idempotent: true, ..Laws::ORDER_IS_FREE };
const GROUP: Laws = Laws { invertible: true, ..Laws::ORDER_IS_FREE };

/// An operator of one kind of numbers.
macro_rules! operator {
    (
        $marker:ident $name:literal on $number:ident, laws $laws:expr, identity $identity:expr,
        combine $op:expr $(, undo $undo:expr)?, canonical $canonical:expr
    ) => {
        struct $marker;

        impl<T: $number> Builtin<T> for $marker {
            const NAME: &'static str = $name;
            const LAWS: Laws = $laws;
            const IDENTITY: Option<T> = Some($identity);

            elementwise!(T, $op);

            $(fn undo(running: &mut [T], removed: &[T]) {
                builtin::fold(running, removed, $undo);
            })?

            fn canonical(x: T) -> T {
                $canonical(x)
            }
        }
    };
}

operator!(Sum "sum" on Number, laws if T::EXACT { GROUP } else { Laws::BUILTIN },
    identity T::ZERO, combine T::add, undo T::subtract, canonical T::canonical);
operator!(Product "product" on Number, laws if T::EXACT { Laws::ORDER_IS_FREE } else { Laws::BUILTIN },
    identity T::ONE, combine T::multiply, canonical T::canonical);
operator!(Min "min" on Number, laws SELECTION, identity T::GREATEST, combine T::lesser, canonical T::canonical);
operator!(Max "max" on Number, laws SELECTION, identity T::LEAST, combine T::greater, canonical T::canonical);
operator!(And "and" on Integer, laws SELECTION, identity T::ALL, combine T::and, canonical T::canonical);
operator!(Or "or" on Integer, laws SELECTION, identity T::ZERO, combine T::or, canonical T::canonical);
operator!(Xor "xor" on Integer, laws GROUP, identity T::ZERO, combine T::xor, undo T::xor, canonical T::canonical);
operator!(LogicalAnd "logical_and" on Integer, laws SELECTION, identity T::ONE,
    combine |a: T, b: T| a.truth().and(b.truth()), canonical T::truth);
operator!(LogicalOr "logical_or" on Integer, laws SELECTION, identity T::ZERO,
    combine |a: T, b: T| a.or(b).truth(), canonical T::truth);
operator!(LogicalXor "logical_xor" on Integer, laws GROUP, identity T::ZERO,
    combine |a: T, b: T| a.truth().xor(b.truth()), undo |a: T, b: T| a.truth().xor(b.truth()), canonical T::truth);

pub(super) struct Nothing;

impl Builtin<()> for Nothing {
    const NAME: &'static str = "nothing";
    const LAWS: Laws = Laws::ALL;
    const IDENTITY: Option<()> = Some(());

    fn fold(_: &mut [()], _: &[()]) {}

    fn fold_into(_: &mut [()], _: &[()], _: &[()]) {}

    fn undo(_: &mut [()], _: &[()]) {}
}

impl<T: Number> Operator<T> {
    /// Addition.
    pub fn sum() -> Self {
        Self::builtin::<Sum>()
    }

    /// Multiplication.
    pub fn product() -> Self {
        Self::builtin::<Product>()
    }

    /// The smaller of two values; see the table at [`Operator`] for floats.
    pub fn min() -> Self {
        Self::builtin::<Min>()
    }

    /// The larger of two values; see the table at [`Operator`] for floats.
    pub fn max() -> Self {
        Self::builtin::<Max>()
    }
}

impl<T: Integer> Operator<T> {
    /// The bits that are set in both.
    pub fn and() -> Self {
        Self::builtin::<And>()
    }

    /// The bits that are set in either.
    pub fn or() -> Self {
        Self::builtin::<Or>()
    }

    /// The bits that are set in one only.
    pub fn xor() -> Self {
        Self::builtin::<Xor>()
    }

    /// 1 if neither is 0, else 0.
    pub fn logical_and() -> Self {
        Self::builtin::<LogicalAnd>()
    }

    /// 0 if both are 0, else 1.
    pub fn logical_or() -> Self {
        Self::builtin::<LogicalOr>()
    }

    /// 1 if exactly one is 0, else 0.
    pub fn logical_xor() -> Self {
        Self::builtin::<LogicalXor>()
    }
}
