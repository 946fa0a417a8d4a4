//! The stock operators at the edges of their types.

use maniple_regions::{Max, Min, Product, Reduction, ReductionId, Sum};
use proptest::prelude::*;

fn combine<R: Reduction<T>, T>(lower: T, higher: T) -> T {
    R::combine(lower, higher)
}

#[test]
fn integers_wrap() {
    assert_eq!(combine::<Sum, _>(i32::MAX, 1), i32::MIN);
    assert_eq!(combine::<Product, _>(i64::MAX, 2), -2);
    assert_eq!(combine::<Sum, _>(u64::MAX, 2), 1);
    assert_eq!(combine::<Min, _>(-3_i32, 2), -3);
    assert_eq!(combine::<Max, _>(3_u64, 2), 3);
}

/// IEEE 754-2019 `minimum` and `maximum`, as literal cases.
#[test]
fn floats_order_zeros_and_propagate_nan() {
    let cases = [
        // lower, higher, minimum, maximum
        (1.0, 2.0, 1.0, 2.0),
        (2.0, 1.0, 1.0, 2.0),
        (-0.0, 0.0, -0.0, 0.0),
        (0.0, -0.0, -0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0),
        (-0.0, -0.0, -0.0, -0.0),
        (-3.0, -3.0, -3.0, -3.0),
        (f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::INFINITY),
        (f64::NAN, 1.0, f64::NAN, f64::NAN),
        (1.0, f64::NAN, f64::NAN, f64::NAN),
        (f64::NAN, f64::INFINITY, f64::NAN, f64::NAN),
        (f64::NEG_INFINITY, f64::NAN, f64::NAN, f64::NAN),
        (f64::NAN, f64::NAN, f64::NAN, f64::NAN),
        (-0.0, f64::NAN, f64::NAN, f64::NAN),
    ];
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    for (lower, higher, min, max) in cases {
        assert!(same(combine::<Min, _>(lower, higher), min), "min({lower}, {higher})");
        assert!(same(combine::<Max, _>(lower, higher), max), "max({lower}, {higher})");
        let (lower, higher) = (lower as f32, higher as f32);
        assert!(same(combine::<Min, _>(lower, higher).into(), min), "min({lower}, {higher})");
        assert!(same(combine::<Max, _>(lower, higher).into(), max), "max({lower}, {higher})");
    }
}

fn keeps<R: Reduction<f64>>(x: f64) {
    assert_eq!(R::combine(R::identity(), x).to_bits(), x.to_bits(), "{} of {x}", R::NAME);
    assert_eq!(R::combine(x, R::identity()).to_bits(), x.to_bits(), "{} of {x}", R::NAME);
}

#[test]
fn identities_keep_the_bits_of_special_values() {
    for x in [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324, f64::MAX] {
        keeps::<Sum>(x);
        keeps::<Product>(x);
        keeps::<Min>(x);
        keeps::<Max>(x);
    }
}

#[test]
fn operators_are_told_apart() {
    let ids = [
        ReductionId::of::<Sum, f64>(),
        ReductionId::of::<Product, f64>(),
        ReductionId::of::<Min, f64>(),
        ReductionId::of::<Max, f64>(),
    ];
    for (i, a) in ids.iter().enumerate() {
        assert!(ids[i + 1..].iter().all(|b| a != b));
    }
    assert_eq!(ids.map(|id| id.to_string()), ["sum", "product", "min", "max"]);
    assert_eq!(ReductionId::of::<Sum, i32>(), ReductionId::of::<Sum, f64>());
}

proptest! {
    #[test]
    fn identities_change_nothing(x in any::<i64>(), y in any::<u64>(), z in prop::num::f64::NORMAL) {
        macro_rules! check {
            ($type:ty, $x:expr, $($op:ty),*) => { $(
                prop_assert_eq!(<$op>::combine(<$op as Reduction<$type>>::identity(), $x), $x);
                prop_assert_eq!(<$op>::combine($x, <$op as Reduction<$type>>::identity()), $x);
            )* };
        }
        check!(i64, x, Sum, Product, Min, Max);
        check!(i32, x as i32, Sum, Product, Min, Max);
        check!(u64, y, Sum, Product, Min, Max);
        check!(f64, z, Sum, Product, Min, Max);
        check!(f32, z as f32, Sum, Product, Min, Max);
    }

    #[test]
    fn min_and_max_agree_with_the_order_of_numbers(x in prop::num::f64::NORMAL, y in prop::num::f64::NORMAL) {
        prop_assert_eq!(combine::<Min, _>(x, y), x.min(y));
        prop_assert_eq!(combine::<Max, _>(x, y), x.max(y));
    }
}
