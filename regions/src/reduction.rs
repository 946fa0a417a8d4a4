//! Reduction operators: how contributions are folded into values.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The identity of a reduction operator, computed from its name. It is the same in every process of a program.
///
/// Operators with the same name count as equal. So qualify the names of your own, as in `"mycrate::Append"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ReductionId(u64);

impl ReductionId {
    /// The identity of the operator named `name` (64-bit FNV-1a).
    pub const fn new(name: &'static str) -> Self {
        let bytes = name.as_bytes();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut i = 0;
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
            i += 1;
        }
        ReductionId(hash)
    }

    /// The identity as a number, for interfaces that only carry numbers.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The identity for a number from [`to_bits`](Self::to_bits).
    pub const fn from_bits(bits: u64) -> Self {
        ReductionId(bits)
    }

    /// The identity of operator `R` on elements `T`.
    pub const fn of<R: Reduction<T>, T>() -> Self {
        const { ReductionId::new(R::NAME) }
    }
}

impl fmt::Display for ReductionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ["sum", "product", "min", "max"].into_iter().find(|name| ReductionId::new(name) == *self) {
            Some(name) => f.write_str(name),
            None => write!(f, "operator {:016x}", self.0),
        }
    }
}

/// An associative operator on `T` with an identity.
///
/// It need not commute: `lower` is the contribution of the lower rank (the earlier launch), `higher` that of the higher
/// one.
pub trait Reduction<T>: 'static {
    /// The operator's name, from which its [`ReductionId`] is computed.
    const NAME: &'static str;

    /// The neutral value: `combine(identity(), x)` and `combine(x, identity())` are `x`.
    fn identity() -> T;

    /// Combines two contributions in rank order.
    fn combine(lower: T, higher: T) -> T;
}

/// Addition. Integers wrap around. The identity of floats is -0.0, because only that keeps every value's bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sum;

/// Multiplication. Integers wrap around.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product;

/// The smaller value. For floats -0.0 is smaller than +0.0, and a NaN on either side gives NaN (IEEE 754-2019
/// `minimum`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Min;

/// The larger value. For floats +0.0 is larger than -0.0, and a NaN on either side gives NaN (IEEE 754-2019
/// `maximum`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Max;

macro_rules! reduction {
    ($operator:ident, $name:literal, $type:ty, $identity:expr, $combine:expr) => {
        impl Reduction<$type> for $operator {
            const NAME: &'static str = $name;

            #[inline]
            fn identity() -> $type {
                $identity
            }

            #[inline]
            fn combine(lower: $type, higher: $type) -> $type {
                let combine: fn($type, $type) -> $type = $combine;
                combine(lower, higher)
            }
        }
    };
}

macro_rules! integers {
    ($($type:ident)*) => { $(
        reduction!(Sum, "sum", $type, 0, $type::wrapping_add);
        reduction!(Product, "product", $type, 1, $type::wrapping_mul);
        reduction!(Min, "min", $type, $type::MAX, Ord::min);
        reduction!(Max, "max", $type, $type::MIN, Ord::max);
    )* };
}

macro_rules! floats {
    ($($type:ident)*) => { $(
        reduction!(Sum, "sum", $type, -0.0, |a, b| a + b);
        reduction!(Product, "product", $type, 1.0, |a, b| a * b);
        // Selects without branches, which vectorise. Of equal values only zeros differ, in the sign bit: or-ing the bits
        // gives -0.0 if either is, and-ing gives +0.0. A NaN on the right falls through both comparisons.
        reduction!(Min, "min", $type, $type::INFINITY, |a, b| {
            let smaller = if a < b { a } else { b };
            let zeros = $type::from_bits(a.to_bits() | b.to_bits());
            let smaller = if a == b { zeros } else { smaller };
            if a.is_nan() { a } else { smaller }
        });
        reduction!(Max, "max", $type, $type::NEG_INFINITY, |a, b| {
            let larger = if a > b { a } else { b };
            let zeros = $type::from_bits(a.to_bits() & b.to_bits());
            let larger = if a == b { zeros } else { larger };
            if a.is_nan() { a } else { larger }
        });
    )* };
}

integers!(i32 i64 u64);
floats!(f32 f64);
