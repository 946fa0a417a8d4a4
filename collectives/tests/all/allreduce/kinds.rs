//! Operators of each type, and what they do written a second time.

macro_rules! integer_kinds {
    ($t:ty) => {
        [
            Combiner {
                operator: Operator::<$t>::sum(),
                combine: |a, b| a.wrapping_add(*b),
                make: |x| x as $t,
                associative: true,
            },
            Combiner {
                operator: Operator::product(),
                combine: |a, b| a.wrapping_mul(*b),
                make: |x| x as $t | 1,
                associative: true,
            },
            Combiner { operator: Operator::min(), combine: |a, b| *a.min(b), make: |x| x as $t, associative: true },
            Combiner { operator: Operator::max(), combine: |a, b| *a.max(b), make: |x| x as $t, associative: true },
            Combiner {
                operator: Operator::user("last and first", |a: &$t, b: &$t| b.wrapping_mul(3) ^ a.wrapping_mul(5)),
                combine: |a, b| b.wrapping_mul(3) ^ a.wrapping_mul(5),
                make: |x| x as $t,
                associative: false,
            },
        ]
    };
}

macro_rules! float_kinds {
    ($t:ty) => {{
        /// Both zeros, small numbers and now and then a NaN of either sign with a payload.
        fn special(x: u64) -> $t {
            match x % 64 {
                0 => <$t>::from_bits(<$t>::INFINITY.to_bits() | (x >> 40) as u16 as <$t as Bits>::B | 1),
                1 => -<$t>::NAN,
                n if n < 16 => 0.0,
                n if n < 32 => -0.0,
                _ => x as i8 as $t,
            }
        }
        fn any(x: u64) -> $t {
            any_f64(x) as $t
        }
        fn pick(a: $t, b: $t, first: bool) -> $t {
            if a.is_nan() || b.is_nan() {
                <$t>::NAN.abs()
            } else if first {
                a
            } else {
                b
            }
        }
        [
            // Whole numbers below 2^16, whose sums are exact in whatever order.
            Combiner {
                operator: Operator::<$t>::sum(),
                combine: |a, b| a + b,
                make: |x| x as i16 as $t,
                associative: true,
            },
            // Powers of two, whose products are.
            Combiner {
                operator: Operator::product(),
                combine: |a, b| a * b,
                make: |x| [0.5, 1.0, 2.0, -1.0, -0.5, -2.0][x as usize % 6],
                associative: true,
            },
            Combiner { operator: Operator::sum(), combine: |a, b| a + b, make: any, associative: false },
            Combiner { operator: Operator::product(), combine: |a, b| a * b, make: any, associative: false },
            Combiner {
                operator: Operator::min(),
                combine: |a, b| pick(*a, *b, a.total_cmp(b).is_le()),
                make: special,
                associative: true,
            },
            Combiner {
                operator: Operator::max(),
                combine: |a, b| pick(*a, *b, a.total_cmp(b).is_ge()),
                make: special,
                associative: true,
            },
            Combiner { operator: Operator::min(), combine: |a, b| a.min(*b), make: any, associative: true },
            Combiner {
                operator: Operator::user("half", |a: &$t, b: &$t| a * 0.5 + b),
                combine: |a, b| a * 0.5 + b,
                make: any,
                associative: false,
            },
        ]
    }};
}

/// The bits of a float.
pub(super) trait Bits {
    type B;
}
impl Bits for f32 {
    type B = u32;
}
impl Bits for f64 {
    type B = u64;
}

pub(super) use {float_kinds, integer_kinds};
