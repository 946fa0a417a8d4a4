//! Exact sums against integers of any size, with rounding by the definition.

use super::float::Float;
use super::*;
use crate::operator::number::Arithmetic;
use proptest::prelude::*;

/// A float type as the oracle sees it: its parts by arithmetic, and its neighbours.
trait Parts: Summand + PartialOrd {
    const LEAST_EXPONENT: i32;
    fn to_f64(self) -> f64;
    fn of_bits(bits: u64) -> Self;
}

impl Parts for f64 {
    const LEAST_EXPONENT: i32 = -1074;
    fn to_f64(self) -> f64 {
        self
    }
    fn of_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
}

impl Parts for f32 {
    const LEAST_EXPONENT: i32 = -149;
    fn to_f64(self) -> f64 {
        self.into()
    }
    fn of_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
}

/// A natural number in digits to the base 256, the lowest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Natural(Vec<u8>);

impl Natural {
    /// A non-negative finite float in units of the smallest positive one. It is halved and doubled, which is exact.
    fn of<T: Parts>(x: T) -> Self {
        let (mut x, mut exponent) = (x.to_f64(), 0);
        while x != 0.0 && x.fract() == 0.0 && x >= 9e15 {
            (x, exponent) = (x / 2.0, exponent + 1);
        }
        while x.fract() != 0.0 {
            (x, exponent) = (x * 2.0, exponent - 1);
        }
        let places = (exponent - T::LEAST_EXPONENT) as usize;
        let zeros = vec![0; places / 8];
        let mut all = Self([&zeros[..], &(x as u64).to_le_bytes()].concat());
        (0..places % 8).for_each(|_| all = all.plus(&all));
        all
    }

    fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let mut sum: Vec<u8> = (0..self.0.len().max(other.0.len()) + 1)
            .map(|i| {
                let digit = |n: &Self| u16::from(n.0.get(i).copied().unwrap_or(0));
                let all = digit(self) + digit(other) + carry;
                carry = all / 256;
                (all % 256) as u8
            })
            .collect();
        while sum.last() == Some(&0) {
            sum.pop();
        }
        Self(sum)
    }

    /// `self − other`, if it is not negative.
    fn minus(&self, other: &Self) -> Option<Self> {
        let mut borrow = 0;
        let mut difference: Vec<u8> = (0..self.0.len().max(other.0.len()))
            .map(|i| {
                let digit = |n: &Self| i16::from(n.0.get(i).copied().unwrap_or(0));
                let all = digit(self) - digit(other) - borrow;
                borrow = i16::from(all < 0);
                (all + 256 * borrow) as u8
            })
            .collect();
        while difference.last() == Some(&0) {
            difference.pop();
        }
        (borrow == 0).then_some(Self(difference))
    }
}

/// The value that a sum should have: the two floats around the exact sum are found by bisection, and the nearer one is
/// taken.
fn expected<T: Parts>(elements: &[T]) -> T {
    let has = |value: T| elements.iter().any(|x| x.is_same(value));
    if elements.iter().any(|x| Float::is_nan(*x)) || has(T::GREATEST) && has(T::LEAST) {
        return T::NAN;
    }
    if has(T::GREATEST) || has(T::LEAST) {
        return if has(T::GREATEST) { T::GREATEST } else { T::LEAST };
    }
    if elements.iter().all(|x| x.is_same(T::ZERO)) {
        return T::ZERO;
    }
    let total = |negative: bool| {
        let some = elements.iter().filter(|x| Float::is_negative(**x) == negative);
        some.fold(Natural::default(), |sum, &x| {
            let x = if negative { T::of_bits(Float::bits(x) & !(1 << (8 * size_of::<T>() - 1))) } else { x };
            sum.plus(&Natural::of(x))
        })
    };
    let (plus, minus) = (total(false), total(true));
    let (magnitude, negative) = match plus.minus(&minus) {
        Some(difference) => (difference, false),
        None => (minus.minus(&plus).unwrap(), true),
    };
    // The bits of non-negative floats are in the order of their values. The step after the greatest finite one counts as
    // one more power of two, as IEEE 754 rounds.
    let infinity = T::TOP_EXPONENT << T::FRACTION;
    let value = |bits: u64| match bits {
        bits if bits == infinity => {
            let half = T::of_bits(infinity - (1 << T::FRACTION));
            Natural::of(half).plus(&Natural::of(half))
        }
        bits => Natural::of(T::of_bits(bits)),
    };
    let (mut below, mut above) = (0, infinity);
    if magnitude.minus(&value(infinity)).is_some() {
        below = infinity;
    }
    while above > below + 1 {
        let middle = below.midpoint(above);
        match magnitude.minus(&value(middle)) {
            Some(_) => below = middle,
            None => above = middle,
        }
    }
    let bits = if below == infinity {
        infinity
    } else {
        let low = magnitude.minus(&value(below)).unwrap();
        let high = value(above).minus(&magnitude).unwrap();
        match (low.minus(&high), high.minus(&low)) {
            (Some(_), Some(_)) => below + below % 2,
            (None, _) => below,
            (_, None) => above,
        }
    };
    T::of_bits(bits | u64::from(negative) << (8 * size_of::<T>() - 1))
}

fn added<T: Summand>(elements: &[T]) -> ExactSum<T> {
    let mut sum = ExactSum::zero();
    elements.iter().for_each(|&x| sum.add(x));
    sum
}

fn all_bytes<T: Summand>(sum: &ExactSum<T>) -> &[u8] {
    bytemuck::bytes_of(sum)
}

/// One by one, in slices, and merged from parts in two ways.
fn check<T: Parts>(elements: &[T], cuts: &[usize]) -> Result<(), TestCaseError> {
    let one_by_one = added(elements);
    let mut whole = ExactSum::zero();
    whole.add_slice(elements);
    prop_assert_eq!(all_bytes(&one_by_one), all_bytes(&whole));
    let mut parts = vec![ExactSum::zero()];
    let mut rest = elements;
    for cut in cuts {
        let (part, more) = rest.split_at(cut % (rest.len() + 1));
        let mut sum = ExactSum::zero();
        sum.add_slice(part);
        parts.push(sum);
        rest = more;
    }
    let mut from_the_left = ExactSum::zero();
    parts.iter().for_each(|part| from_the_left.merge(part));
    from_the_left.add_slice(rest);
    prop_assert_eq!(all_bytes(&from_the_left), all_bytes(&whole));
    let mut from_the_right = added(rest);
    parts.iter().rev().for_each(|part| from_the_right = ExactSum::operator().combine(part, &from_the_right));
    prop_assert_eq!(all_bytes(&from_the_right), all_bytes(&whole));
    let (came, expected) = (whole.value(), expected(elements));
    prop_assert!(came.is_same(expected), "{elements:?}: came {came:?}, expected {expected:?}");
    Ok(())
}

/// Any bits, and bits near each other, so that sums cancel and round in all ways.
fn float<T: Parts>() -> impl Strategy<Value = T> + Clone {
    let bits = 8 * size_of::<T>();
    let mask = u64::MAX >> (64 - bits);
    let special = [
        T::ZERO,
        T::of_bits(0),
        T::of_bits(1),
        T::of_bits(1 << T::FRACTION),
        T::of_bits((1 << T::FRACTION) - 1),
        T::ONE,
        T::of_bits((T::TOP_EXPONENT << T::FRACTION) - 1),
        T::of_bits(((T::TOP_EXPONENT << T::FRACTION) - 1) | 1 << (bits - 1)),
    ];
    let near = move |(exponent, fraction, zeros, negative): (u64, u64, u32, bool)| {
        let fraction = fraction & ((1 << T::FRACTION) - 1) & (u64::MAX << zeros);
        T::of_bits(exponent << T::FRACTION | fraction | u64::from(negative) << (bits - 1))
    };
    let middle = T::TOP_EXPONENT / 2;
    prop_oneof![
        2 => any::<u64>().prop_map(move |x| T::of_bits(x & mask)).prop_filter("finite", |x| float::finite(*x).is_some()),
        4 => (middle..middle + 60, any::<u64>(), 0..=T::FRACTION, any::<bool>()).prop_map(near),
        3 => (0..4_u64, any::<u64>(), 0..=T::FRACTION, any::<bool>()).prop_map(near),
        2 => (T::TOP_EXPONENT - 4..T::TOP_EXPONENT, any::<u64>(), 0..=T::FRACTION, any::<bool>()).prop_map(near),
        1 => prop::sample::select(special.to_vec()),
    ]
}

/// Elements with their opposites among them, and sometimes one that is not finite.
fn elements<T: Parts>() -> impl Strategy<Value = Vec<T>> {
    let negated = |x: T| T::of_bits(Float::bits(x) ^ 1 << (8 * size_of::<T>() - 1));
    let some = prop::collection::vec((float::<T>(), prop::bool::weighted(0.4)), 0..40);
    let not_finite = prop::option::weighted(
        0.1,
        prop::collection::vec(prop::sample::select(vec![T::GREATEST, T::LEAST, T::NAN]), 1..3),
    );
    (some, not_finite)
        .prop_map(move |(some, not_finite)| {
            let opposites: Vec<T> = some.iter().filter(|x| x.1).map(|x| negated(x.0)).collect();
            some.iter().map(|x| x.0).chain(opposites).chain(not_finite.into_iter().flatten()).collect::<Vec<T>>()
        })
        .prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn sums_of_f64(elements in elements::<f64>(), cuts in prop::collection::vec(any::<usize>(), 0..5)) {
        check(&elements, &cuts)?;
    }

    #[test]
    fn sums_of_f32(elements in elements::<f32>(), cuts in prop::collection::vec(any::<usize>(), 0..5)) {
        check(&elements, &cuts)?;
    }

    /// Two elements: IEEE 754 addition is rounded correctly itself.
    #[test]
    fn two_elements(a in float::<f64>(), b in float::<f64>(), c in float::<f32>(), d in float::<f32>()) {
        prop_assert_eq!(added(&[a, b]).value().to_bits(), (a + b).to_bits());
        prop_assert_eq!(added(&[c, d]).value().to_bits(), (c + d).to_bits());
    }
}

/// Many elements of both signs, over full blocks.
#[test]
#[ignore = "takes long; `./check full` runs it"]
fn thousands_of_elements() {
    fn check<T: Parts>(mut next: impl FnMut() -> u64) {
        for round in 0..60 {
            let (first, exponents) = (next() % (T::TOP_EXPONENT - 30), 1 + next() % 30);
            let elements: Vec<T> = (0..next() % 6000)
                .map(|_| {
                    let exponent = (first + next() % exponents) << T::FRACTION;
                    let sign = (next() & 1) << (8 * size_of::<T>() - 1);
                    T::of_bits(next() & ((1 << T::FRACTION) - 1) | exponent | sign)
                })
                .collect();
            let mut sum = ExactSum::zero();
            sum.add_slice(&elements);
            let expected = expected(&elements);
            assert!(sum.value().is_same(expected), "round {round}: came {sum:?}, expected {expected:?}");
            assert_eq!(all_bytes(&sum), all_bytes(&added(&elements)), "round {round}");
        }
    }
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    check::<f64>(&mut next);
    check::<f32>(&mut next);
}

/// Blocks are full of the greatest elements of one sign, so that the chunks are as full as they can be.
#[test]
fn full_chunks_do_not_overflow() {
    fn fill<T: Parts>(fraction: u64, shift: u64) {
        let exponent = 64 * (T::TOP_EXPONENT / 128) + shift + 1;
        let most = T::of_bits(exponent << T::FRACTION | fraction);
        for sign in [0, 1 << (8 * size_of::<T>() - 1)] {
            let all = vec![T::of_bits(Float::bits(most) | sign); 3 * T::BLOCK + 1];
            let mut sum = ExactSum::zero();
            sum.add_slice(&all);
            assert_eq!(all_bytes(&sum), all_bytes(&added(&all)));
        }
    }
    for shift in 0..64 {
        fill::<f64>((1 << 52) - 1, shift);
        fill::<f32>((1 << 23) - 1, shift);
    }
}

#[test]
fn zeros_and_specials() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let quiet = 0x7ff8_0000_0000_0000;
    let minus_zero = (-0.0_f64).to_bits();
    let payload = f64::from_bits(0xfff0_0000_0000_0001);
    let cases: [(&[f64], u64); 16] = [
        (&[], minus_zero),
        (&[-0.0], minus_zero),
        (&[-0.0, -0.0, -0.0], minus_zero),
        (&[0.0], 0),
        (&[-0.0, 0.0], 0),
        (&[1.5, -1.5], 0),
        (&[1.5, -1.5, -0.0], 0),
        (&[-5e-324], (-5e-324_f64).to_bits()),
        (&[inf, 1.0], inf.to_bits()),
        (&[-inf, f64::MAX], (-inf).to_bits()),
        (&[inf, -inf], quiet),
        (&[nan], quiet),
        (&[-nan, inf], quiet),
        (&[payload, 1.0], quiet),
        (&[f64::MAX, f64::MAX], inf.to_bits()),
        (&[f64::MAX, f64::MAX, -f64::MAX], f64::MAX.to_bits()),
    ];
    for (elements, expected) in cases {
        // Long enough for blocks, too.
        let long: Vec<f64> = elements.iter().copied().chain([-0.0; 20]).collect();
        for elements in [elements, &long] {
            let mut sum = ExactSum::zero();
            sum.add_slice(elements);
            assert_eq!(sum.value().to_bits(), expected, "{elements:?}");
            assert_eq!(sum, added(elements));
            let narrow: Vec<f32> = elements.iter().map(|&x| x as f32).collect();
            if !elements.iter().any(|x| x.abs() == f64::MAX || x.abs() == 5e-324) {
                let mut sum = ExactSum::zero();
                sum.add_slice(&narrow);
                assert!(sum.value().is_same((f64::from_bits(expected) as f32).canonical()), "{narrow:?}");
                assert_eq!(sum, added(&narrow));
            }
        }
    }
}

/// Halves go to the even neighbour, at both ends of the range of exponents too.
#[test]
fn ties() {
    let cases: [(&[f64], f64); 9] = [
        (&[1.0, f64::EPSILON / 2.0], 1.0),
        (&[1.0 + f64::EPSILON, f64::EPSILON / 2.0], 1.0 + 2.0 * f64::EPSILON),
        (&[1.0, f64::EPSILON / 2.0, 5e-324], 1.0 + f64::EPSILON),
        (&[1.0, f64::EPSILON / 2.0, -5e-324], 1.0),
        (&[-1.0, -f64::EPSILON / 2.0, -5e-324], -1.0 - f64::EPSILON),
        (&[f64::MAX, f64::MAX * f64::EPSILON / 4.0], f64::MAX),
        (&[f64::MAX, 9.9792015476736e291], f64::INFINITY),
        (&[f64::MAX, 9.979201547673598e291], f64::MAX),
        (&[f64::MIN_POSITIVE, -5e-324], 2.225_073_858_507_201e-308),
    ];
    for (elements, expected) in cases {
        assert_eq!(added(elements).value().to_bits(), expected.to_bits(), "{elements:?}");
    }
}

#[test]
fn states_are_plain_and_equal_when_their_elements_are() {
    assert_eq!((size_of::<ExactSum<f64>>(), size_of::<ExactSum<f32>>()), (280, 56));
    assert!(all_bytes(&ExactSum::<f64>::zero()).iter().all(|&byte| byte == 0));
    assert_eq!(ExactSum::<f32>::operator().identity(), Some(ExactSum::default()));
    assert_eq!(added(&[1.0, 2.0]), added(&[2.0, 1.0]));
    assert_ne!(added(&[1.0, 2.0]), added(&[2.0, 1.0, 5e-324]));
    assert_eq!(format!("{:?}", added(&[1.0_f32, 0.5])), "ExactSum(1.5)");
}
