//! The built-in operators and the declared ones, against independent definitions.

use super::*;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::fmt::Debug;

/// A built-in on every pair, both ways and alone and in slices, against `expected`.
fn compare<T: Number + Debug>(operator: Operator<T>, values: &[T], expected: impl Fn(T, T) -> T) {
    let name = operator.name();
    for &incoming in values {
        for len in [0, 1, 2, 3, values.len()] {
            let values = &values[..len];
            let others = vec![incoming; len];
            let (mut higher, mut lower) = (values.to_vec(), values.to_vec());
            operator.fold_higher(&mut higher, &others);
            operator.fold_lower(&mut lower, &others);
            let (mut one, mut other) = (others.clone(), others.clone());
            operator.fold_into(&mut one, values, &others);
            operator.fold_into(&mut other, &others, values);
            let expected: Vec<T> = values.iter().map(|&v| expected(v, incoming)).collect();
            for came in [higher, lower, one, other] {
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
    ($($test:ident $t:ident)*) => {$(
        #[test]
        fn $test() {
            let (min, max) = ($t::MIN, $t::MAX);
            let values = [0, 1, 2, 3, 7, 100, min, min + 1, max, max - 1, max / 2 + 1, max / 3];
            let wrapped = |x: i128| x as $t;
            compare(Operator::sum(), &values, |a, b| wrapped(a as i128 + b as i128));
            compare(Operator::product(), &values, |a, b| wrapped((a as i128).wrapping_mul(b as i128)));
            compare(Operator::min(), &values, |a, b| if a <= b { a } else { b });
            compare(Operator::max(), &values, |a, b| if a >= b { a } else { b });
            // Bit by bit, and as truth values.
            let bits = |a: $t, b: $t, bit: fn(bool, bool) -> bool| {
                let is_set = |x: $t, i: u32| x >> i & 1 != 0;
                (0..$t::BITS).filter(|&i| bit(is_set(a, i), is_set(b, i))).fold(0, |all: $t, i| all | 1 << i)
            };
            compare(Operator::and(), &values, |a, b| bits(a, b, |a, b| a && b));
            compare(Operator::or(), &values, |a, b| bits(a, b, |a, b| a || b));
            compare(Operator::xor(), &values, |a, b| bits(a, b, |a, b| a != b));
            compare(Operator::logical_and(), &values, |a, b| $t::from(a != 0 && b != 0));
            compare(Operator::logical_or(), &values, |a, b| $t::from(a != 0 || b != 0));
            compare(Operator::logical_xor(), &values, |a, b| $t::from((a != 0) != (b != 0)));
        }
    )*};
}

against_wide_integers! {
    i8_wraps i8 i16_wraps i16 i32_wraps i32 i64_wraps i64 u8_wraps u8 u16_wraps u16 u32_wraps u32 u64_wraps u64
}

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

/// IEEE 754-2019 `minimum` and `maximum`, as literal cases.
#[test]
fn floats_order_zeros_and_pass_on_nan() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases = [
        // lower, higher, minimum, maximum
        (1.0, 2.0, 1.0, 2.0),
        (2.0, 1.0, 1.0, 2.0),
        (-0.0, 0.0, -0.0, 0.0),
        (0.0, -0.0, -0.0, 0.0),
        (-0.0, -0.0, -0.0, -0.0),
        (inf, -inf, -inf, inf),
        (nan, inf, nan, nan),
        (-inf, nan, nan, nan),
        (-0.0, nan, nan, nan),
    ];
    for (lower, higher, min, max) in cases {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits();
        assert!(same(Operator::min().combine(&lower, &higher), min), "min({lower}, {higher})");
        assert!(same(Operator::max().combine(&lower, &higher), max), "max({lower}, {higher})");
    }
}

fn any_f64() -> impl Strategy<Value = f64> {
    let special = [0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 5e-324];
    prop_oneof![any::<u64>().prop_map(f64::from_bits), prop::sample::select(special.to_vec())]
}

/// The element of a list of located values that a loop with literal rules would choose.
fn chosen(all: &[(f64, u64)], order: Ordering) -> (f64, u64) {
    if all.iter().any(|x| x.0.is_nan()) {
        let at = all.iter().filter(|x| x.0.is_nan()).map(|x| x.1).min().unwrap();
        return (f64::from_bits(0x7ff8_0000_0000_0000), at);
    }
    let mut best = all[0];
    for &x in &all[1..] {
        let compared = x.0.total_cmp(&best.0);
        if compared == order || compared == Ordering::Equal && x.1 < best.1 {
            best = x;
        }
    }
    best
}

/// Every operator on a type, with what sampling says of its laws.
fn sampled<T: Pod + Send + Sync + Debug>(operators: &[Operator<T>], [a, b, c]: [T; 3]) -> Result<(), TestCaseError> {
    for operator in operators {
        let outcome = operator.sample(a, b, c);
        prop_assert!(outcome.is_ok(), "{operator:?} of {a:?}, {b:?}, {c:?}: {}", outcome.unwrap_err());
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bits_and_lengths(pairs in prop::collection::vec((any_f64(), any_f64()), 0..70)) {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
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

    #[test]
    fn located_values_in_any_order(
        (values, shuffled) in prop::collection::vec((any_f64(), 0_u64..20), 1..12)
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
    ) {
        let located = |&(value, at): &(f64, u64)| Located { value, at };
        for (operator, order) in [(Operator::minloc(), Ordering::Less), (Operator::maxloc(), Ordering::Greater)] {
            // The identity comes in too, so that even one value is combined.
            let fold = |all: &[(f64, u64)]| {
                all.iter().map(located).fold(operator.identity().unwrap(), |a, b| operator.combine(&a, &b))
            };
            let (value, at) = chosen(&values, order);
            for came in [fold(&values), fold(&shuffled)] {
                prop_assert_eq!((came.value.to_bits(), came.at), (value.to_bits(), at), "{:?}", operator);
            }
        }
    }

    #[test]
    fn the_laws_of_built_in_operators_hold(bits: [u64; 3], floats in [any_f64(), any_f64(), any_f64()], at: [u64; 3]) {
        sampled(&[Operator::sum(), Operator::product(), Operator::min(), Operator::max()], floats)?;
        sampled(&[Operator::sum(), Operator::product(), Operator::min(), Operator::max()], floats.map(|x| x as f32))?;
        let integers = || {
            [
                Operator::sum(),
                Operator::product(),
                Operator::min(),
                Operator::max(),
                Operator::and(),
                Operator::or(),
                Operator::xor(),
                Operator::logical_and(),
                Operator::logical_or(),
                Operator::logical_xor(),
            ]
        };
        sampled(&integers(), bits)?;
        // Small numbers, so that zeros and equal ones occur.
        sampled(&integers(), bits.map(|x| x % 3))?;
        let floats_at: [Located<f64>; 3] = std::array::from_fn(|i| Located { value: floats[i], at: at[i] % 3 });
        sampled(&[Operator::minloc(), Operator::maxloc()], floats_at)?;
        let integers_at: [Located<i64>; 3] = std::array::from_fn(|i| Located { value: bits[i] as i64 % 3, at: at[i] });
        sampled(&[Operator::minloc(), Operator::maxloc()], integers_at)?;
        let sums = floats.map(|x| { let mut sum = ExactSum::zero(); sum.add(x); sum });
        sampled(&[ExactSum::operator()], sums)?;
        sampled(&[Operator::nothing()], [(); 3])?;
    }
}

#[test]
fn laws_that_built_in_operators_lack() {
    // The laws that are not claimed do not hold, so that the table leaves nothing out.
    let (a, b, c) = (1.0, 1e100, -1e100);
    let floats = |op: Operator<f64>| op.combine(&op.combine(&a, &b), &c) == op.combine(&a, &op.combine(&b, &c));
    assert!(!floats(Operator::sum()) && !Operator::<f64>::sum().laws().associative);
    assert!(!Operator::<f64>::sum().laws().invertible && !Operator::<f32>::product().laws().associative);
    assert_eq!(Operator::<u8>::sum().laws(), Laws { idempotent: false, ..Laws::ALL });
    assert_eq!(Operator::<i64>::product().laws(), Laws { invertible: false, idempotent: false, ..Laws::ALL });
    assert_eq!(Operator::<f64>::min().laws(), Laws { invertible: false, ..Laws::ALL });
    assert_eq!(Operator::<u32>::logical_xor().laws(), Laws { idempotent: false, ..Laws::ALL });
    assert_eq!(Operator::<()>::nothing().laws(), Laws::ALL);
    let exact = Laws { associative: true, commutative: true, infallible: true, ..Laws::NONE };
    assert_eq!(ExactSum::<f64>::operator().laws(), exact);
    // Declarations do not change what is known.
    let sum = Operator::<f64>::sum().associative().idempotent().with_identity(3.0).with_inverse(|a, b| a - b);
    assert_eq!((sum.laws(), sum.identity()), (Operator::<f64>::sum().laws(), Some(-0.0)));
}

#[test]
fn identities() {
    assert_eq!(Operator::<i8>::min().identity(), Some(127));
    assert_eq!(Operator::<u16>::max().identity(), Some(0));
    assert_eq!(Operator::<i64>::and().identity(), Some(-1));
    assert_eq!(Operator::<u32>::product().identity(), Some(1));
    assert_eq!(Operator::<f64>::min().identity(), Some(f64::INFINITY));
    assert_eq!(Operator::<f32>::max().identity(), Some(f32::NEG_INFINITY));
    assert_eq!(Operator::<f64>::sum().identity().map(f64::to_bits), Some((-0.0_f64).to_bits()));
    assert_eq!(Operator::minloc().identity(), Some(Located { value: i64::MAX, at: u64::MAX }));
}

#[test]
fn operands_are_taken_out_again() {
    let mut running = [5_u8, 250, 7];
    let others = [1, 200, 255];
    for operator in [Operator::sum(), Operator::xor()] {
        operator.fold_higher(&mut running, &others);
        operator.undo(&mut running, &others);
        assert_eq!(running, [5, 250, 7], "{operator:?}");
    }
    // The inverse takes out the higher operand.
    let shift = Operator::user("shift", |a: &u64, b: &u64| a << 8 | b).with_inverse(|all, _| all >> 8);
    let mut running = [1, 2];
    shift.fold_higher(&mut running, &[3, 4]);
    assert_eq!(running, [0x103, 0x204]);
    shift.undo(&mut running, &[3, 4]);
    assert_eq!(running, [1, 2]);
}

#[test]
#[should_panic(expected = "expected an invertible operator, got `max`")]
fn a_maximum_cannot_be_undone() {
    Operator::max().undo(&mut [1.0], &[1.0]);
}

#[test]
fn declarations() {
    let plain =
        Operator::user("gcd", |a: &u64, b: &u64| (1..=*a.max(b)).rev().find(|d| a % d + b % d == 0).unwrap_or(0));
    assert_eq!((plain.laws(), plain.identity()), (Laws::NONE, None));
    let gcd = plain.clone().associative().commutative().idempotent().infallible().with_identity(0);
    assert_eq!(gcd.laws(), Laws { invertible: false, ..Laws::ALL });
    assert_eq!((gcd.identity(), gcd.name()), (Some(0), "gcd"));
    assert_eq!(gcd.sample(12, 18, 8), Ok(()));
    // A copy made before is what it was.
    assert_eq!((plain.laws(), plain.identity()), (Laws::NONE, None));
}

/// A side that panics has no value. If both do, the law holds.
#[test]
fn laws_hold_for_panics_too() {
    let checked = Operator::user("checked sum", |a: &i8, b: &i8| a.checked_add(*b).expect("an overflow"));
    let said = checked.clone().commutative().with_inverse(|all, b| all.wrapping_sub(*b));
    assert_eq!((said.sample(127, 1, -1), said.sample(127, 127, 127)), (Ok(()), Ok(())));
    let broken = checked.clone().associative().sample(127, 1, -1).unwrap_err();
    assert_eq!((broken.law, &*broken.left, &*broken.right), (Law::Associative, "a panic", "127"));
    assert_eq!(checked.clone().associative().sample(127, 1, 1), Ok(()));
    let broken = checked.infallible().sample(1, 127, 0).unwrap_err();
    assert_eq!((broken.law, broken.operands), (Law::Infallible, vec!["1".into(), "127".into()]));
    assert_eq!(broken.law.to_string(), "a ⊕ b never panics");
    let inverse = Operator::user("half", |a: &u8, b: &u8| a / 2 + b / 2).with_inverse(|_, _| panic!("no inverse"));
    assert_eq!(inverse.sample(2, 4, 6).unwrap_err().left, "a panic");
}

#[test]
fn a_single_element_becomes_what_a_combination_leaves() {
    assert_eq!([0, 1, 5].map(|x| Operator::<i32>::logical_and().canonical(x)), [0, 1, 1]);
    assert_eq!([0, 1, 5].map(|x| Operator::<i32>::and().canonical(x)), [0, 1, 5]);
    let nan = f64::from_bits(0xfff8_0000_0000_0123);
    assert_eq!(Operator::sum().canonical(nan).to_bits(), 0x7ff8_0000_0000_0000);
    assert_eq!(Operator::user("own", |a: &f64, _: &f64| *a).canonical(nan).to_bits(), nan.to_bits());
}

#[test]
fn a_broken_law_is_named() {
    let mean = Operator::user("mean", |a: &f64, b: &f64| (a + b) / 2.0).commutative().idempotent();
    assert_eq!(mean.sample(1.0, 2.0, 5.0), Ok(()));
    let error = mean.clone().associative().sample(1.0, 2.0, 5.0).unwrap_err();
    assert_eq!((error.law, error.operator.as_str(), error.operands.len()), (Law::Associative, "mean", 3));
    assert_eq!(
        error.to_string(),
        "operator `mean` breaks its law (a ⊕ b) ⊕ c = a ⊕ (b ⊕ c): with a = 1.0 (0x3ff0000000000000), b = 2.0 \
         (0x4000000000000000), c = 5.0 (0x4014000000000000) the left side is 3.25 (0x400a000000000000), the right side \
         2.25 (0x4002000000000000); correct the function, or do not declare the law"
    );
    let identity = mean.clone().with_identity(0.0).sample(1.0, 2.0, 5.0).unwrap_err();
    assert_eq!(identity.law, Law::LeftIdentity);
    let inverse = mean.with_inverse(|all, b| all - b).sample(1.0, 2.0, 5.0).unwrap_err();
    assert_eq!(
        (inverse.law, inverse.operands),
        (Law::Inverse, vec!["1.0 (0x3ff0000000000000)".into(), "2.0 (0x4000000000000000)".into()])
    );

    let left = Operator::user("left", |a: &i32, _: &i32| *a);
    let error = left.clone().commutative().sample(1, 1, -2).unwrap_err();
    assert_eq!(
        (error.law, error.operands, error.left, error.right),
        (Law::Commutative, vec!["1".into(), "-2".into()], "1".into(), "-2".into())
    );
    let right_only = left.with_identity(7).sample(1, 2, 3).unwrap_err();
    assert_eq!((right_only.law, right_only.left.as_str()), (Law::LeftIdentity, "7"));
    let right = Operator::user("right", |_: &u8, b: &u8| *b).with_identity(7).sample(1, 2, 3).unwrap_err();
    assert_eq!(right.law, Law::RightIdentity);
    let sum = Operator::user("sum", |a: &[u8; 2], b: &[u8; 2]| [a[0] + b[0], a[1]]).idempotent();
    let error = sum.sample([0, 1], [0, 2], [3, 255]).unwrap_err();
    assert_eq!(
        (error.law, error.operands, error.left),
        (Law::Idempotent, vec!["[u8; 2][03 ff]".into()], "[u8; 2][06 ff]".into())
    );
}

/// Zeros of unlike sign are unlike, and so are NaNs of a program's own operator.
#[test]
fn laws_are_tried_bit_for_bit() {
    let either = Operator::user("either", |a: &f64, b: &f64| if b < a { *b } else { *a }).commutative();
    assert_eq!(either.sample(1.0, 0.0, 0.0), Ok(()));
    assert!(either.sample(1.0, 0.0, -0.0).is_err());
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
    join.fold_into(&mut running, &[1, 2], &[3, 4]);
    assert_eq!((running, join.combine(&5, &6)), ([13, 24], 56));
}

#[test]
fn operators_are_told_apart() {
    let ids = [
        Operator::<i64>::sum().id(),
        Operator::<i64>::product().id(),
        Operator::<i64>::min().id(),
        Operator::<i64>::max().id(),
        Operator::<i64>::logical_or().id(),
        Operator::<Located<f64>>::maxloc().id(),
        ExactSum::<f32>::operator().id(),
        Operator::user("mine::Append", |a: &u8, _: &u8| *a).id(),
        Operator::user("mine::Prepend", |a: &u8, _: &u8| *a).id(),
    ];
    for (i, a) in ids.iter().enumerate() {
        assert!(ids[i + 1..].iter().all(|b| a != b));
    }
    assert_eq!(ids[5..7].iter().map(ToString::to_string).collect::<Vec<_>>(), ["maxloc", "exact_sum"]);
    assert!(ids[7].to_string().starts_with("operator "));
    // A field has one element type, so the name is enough.
    assert_eq!(Operator::<i32>::sum().id(), Operator::<f64>::sum().id());
    assert_eq!(Operator::<i32>::sum().id(), ReductionId::new("sum"));
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
    travels(&exact_sum::<f64>());
}

/// The place of the largest value, as a reduction with a state.
#[test]
fn places_have_a_state() {
    let values = [3.0, 7.0, -1.0, 7.0, -1.0];
    for (by, place, name) in [(argmax::<f64>(), 1, "Stateful(maxloc)"), (argmin(), 2, "Stateful(minloc)")] {
        let elements: [Located<f64>; 5] = std::array::from_fn(|i| Located { value: values[i], at: i as u64 });
        let mut states = elements.map(|_| by.operator().identity().unwrap());
        by.lift_into(&mut states, &elements);
        let all = states.into_iter().reduce(|a, b| by.operator().combine(&b, &a)).unwrap();
        let mut at = [0];
        by.clone().lower_into(&mut at, &[all]);
        assert_eq!((at, format!("{by:?}")), ([place], name.into()));
    }
}

#[test]
#[should_panic(expected = "expected as many elements on both sides, 1, got 2")]
fn states_and_elements_are_as_many() {
    exact_sum::<f64>().lift_into(&mut [ExactSum::zero()], &[1.0, 2.0]);
}

/// All that can be compared of two operators that a program makes in several processes.
#[test]
fn operators_are_described_by_name_laws_and_identity() {
    assert_eq!(Operator::<u64>::sum().described(), "operator `sum`");
    let most = |a: &u64, b: &u64| *a.max(b);
    let plain = Operator::user("most", most);
    assert_eq!(plain.described(), "operator `most` (laws: none; identity: none)");
    let lawful = plain.associative().commutative().with_identity(0);
    assert_eq!(lawful.described(), "operator `most` (laws: associative, commutative; identity: 0)");
}
