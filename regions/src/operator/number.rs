//! The element types of the built-in operators.

use bytemuck::Pod;

/// The element types of the built-in operators: `f32`, `f64`, and the integers from 8 to 64 bits. Sealed; other types
/// reduce with [`Operator::user`](crate::Operator::user).
pub trait Number: Pod + Send + Sync + Arithmetic {}

/// The element types of bitwise and logical operators: the integers from 8 to 64 bits. Sealed.
pub trait Integer: Number + Bits {}

/// Every method of two operands commutes bit for bit.
pub trait Arithmetic: Copy {
    /// Addition and multiplication are associative too, and subtraction undoes addition.
    const EXACT: bool;
    /// Adding it changes nothing.
    const ZERO: Self;
    const ONE: Self;
    const LEAST: Self;
    const GREATEST: Self;
    fn add(self, other: Self) -> Self;
    /// Of integers. It does not commute.
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn lesser(self, other: Self) -> Self;
    fn greater(self, other: Self) -> Self;
    /// The number as a result has it: every NaN is the same NaN.
    fn canonical(self) -> Self;
    fn is_same(self, other: Self) -> bool;
}

pub trait Bits: Copy {
    const ALL: Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// 1 for all but 0.
    fn truth(self) -> Self;
}

macro_rules! integer {
    ($($t:ty)*) => {$(
        impl Number for $t {}
        impl Integer for $t {}
        impl Arithmetic for $t {
            const EXACT: bool = true;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self.wrapping_sub(other)
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
            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
            #[inline(always)]
            fn is_same(self, other: Self) -> bool {
                self == other
            }
        }
        impl Bits for $t {
            const ALL: Self = !0;
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn truth(self) -> Self {
                (self != 0).into()
            }
        }
    )*};
}

macro_rules! float {
    ($($t:ident $nan:literal)*) => {$(
        impl Number for $t {}
        impl Arithmetic for $t {
            const EXACT: bool = false;
            const ZERO: Self = -0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = Self::NEG_INFINITY;
            const GREATEST: Self = Self::INFINITY;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                (self + other).canonical()
            }
            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                (self - other).canonical()
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                (self * other).canonical()
            }
            #[inline(always)]
            fn lesser(self, other: Self) -> Self {
                // The two selections differ only where neither operand is less: zeros of unlike sign, whose OR is −0,
                // and NaNs, whose OR with anything is a NaN. Each is one machine instruction.
                let this = if self < other { self } else { other };
                let that = if other < self { other } else { self };
                <$t>::from_bits(this.to_bits() | that.to_bits()).canonical()
            }
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                (-(-self).lesser(-other)).canonical()
            }
            #[inline(always)]
            fn canonical(self) -> Self {
                if self.is_nan() { <$t>::from_bits($nan) } else { self }
            }
            #[inline(always)]
            fn is_same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }
        }
    )*};
}

integer! { i8 i16 i32 i64 u8 u16 u32 u64 }
float! { f32 0x7fc0_0000 f64 0x7ff8_0000_0000_0000 }
