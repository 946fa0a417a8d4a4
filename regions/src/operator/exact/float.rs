//! Floats as integers times the smallest positive one, and back.

use bytemuck::Pod;

use super::{seen, wide};
use crate::operator::Number;

/// The element types of exact sums: `f32` and `f64`. Sealed.
pub trait Summand: Number + Float {}

/// The layout of a float, and how blocks of them are added.
pub trait Float: Copy + std::fmt::Debug {
    /// The wide integer, and a word for what has been seen.
    type Words: Pod + Send + Sync + Eq + AsRef<[u64]> + AsMut<[u64]>;
    const NO_WORDS: Self::Words;
    /// The bits of the fraction.
    const FRACTION: u32;
    /// The exponent field of infinities and NaNs.
    const TOP_EXPONENT: u64;
    const NAN: Self;
    /// The most elements of a block.
    const BLOCK: usize;
    fn bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
    fn is_nan(self) -> bool;
    fn is_negative(self) -> bool;
    /// Adds a block to the words, without the elements that are not finite. Returns whether `seen` has been brought up to
    /// date.
    fn accumulate(words: &mut [u64], seen: &mut u64, block: &[Self]) -> bool;
}

/// The mantissa of a finite float without its sign, as an integer, and the number of places that it stands to the left.
#[inline(always)]
pub fn finite<T: Float>(x: T) -> Option<(u64, u64)> {
    let bits = x.bits();
    let (exponent, fraction) = ((bits >> T::FRACTION) & T::TOP_EXPONENT, bits & ((1 << T::FRACTION) - 1));
    // A subnormal float stands where the smallest normal one does, but has no hidden bit.
    let normal = u64::from(exponent != 0);
    (exponent != T::TOP_EXPONENT).then_some((fraction | normal << T::FRACTION, exponent - normal))
}

/// The float nearest to an integer without sign, or the even one of two.
pub fn round<T: Float>(words: &[u64], negative: bool) -> T {
    let bits = match wide::highest_bit(words) {
        None => return T::from_bits(0),
        // Subnormal, or with the smallest exponent: the hidden bit is the exponent.
        Some(highest) if highest <= T::FRACTION => words[0],
        Some(highest) => {
            let position = highest - T::FRACTION;
            if u64::from(position) + 1 >= T::TOP_EXPONENT {
                T::TOP_EXPONENT << T::FRACTION
            } else {
                let mantissa = wide::bits_from(words, position) & ((2 << T::FRACTION) - 1);
                let half = wide::bits_from(words, position - 1) & 1 != 0;
                let up = half && (mantissa & 1 != 0 || wide::any_below(words, position - 1));
                // The hidden bit raises the exponent by one, and so does a mantissa that is rounded up to the next power
                // of two. Beyond the last exponent this is infinity.
                (u64::from(position) << T::FRACTION) + mantissa + u64::from(up)
            }
        }
    };
    let sign = u64::from(negative) << (T::FRACTION + T::TOP_EXPONENT.count_ones());
    T::from_bits(bits | sign)
}

impl Summand for f64 {}

impl Float for f64 {
    // 2098 bits for the greatest f64 in units of the smallest, 77 for carries, and the sign: 34 words.
    type Words = [u64; 35];
    const NO_WORDS: Self::Words = [0; 35];
    const FRACTION: u32 = 52;
    const TOP_EXPONENT: u64 = 0x7ff;
    const NAN: Self = Self::from_bits(0x7ff8_0000_0000_0000);
    // An element is less than 2^53 · 2^63, and a chunk has 127 bits without its sign.
    const BLOCK: usize = 1 << 11;

    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    fn is_nan(self) -> bool {
        self.is_nan()
    }
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }

    fn accumulate(words: &mut [u64], seen: &mut u64, block: &[Self]) -> bool {
        // One chunk for each word that a mantissa can begin in.
        let mut chunks = [0_i128; 32];
        let (mut not_minus_zero, mut special) = (0, false);
        for &x in block {
            let bits = x.to_bits();
            not_minus_zero |= bits ^ (1 << 63);
            let Some((mantissa, position)) = finite(x) else {
                special = true;
                continue;
            };
            let sign = bits as i64 >> 63;
            let mantissa = (mantissa as i64 ^ sign) - sign;
            chunks[(position / 64) as usize % 32] += i128::from(mantissa) << (position % 64);
        }
        wide::add_chunks(words, &chunks);
        if not_minus_zero != 0 {
            *seen |= seen::NOT_MINUS_ZERO;
        }
        !special
    }
}

impl Summand for f32 {}

impl Float for f32 {
    // 277 bits for the greatest f32 in units of the smallest, 106 for carries, and the sign: 6 words.
    type Words = [u64; 7];
    const NO_WORDS: Self::Words = [0; 7];
    const FRACTION: u32 = 23;
    const TOP_EXPONENT: u64 = 0xff;
    const NAN: Self = Self::from_bits(0x7fc0_0000);
    // An element is less than 2^24 · 2^31, and half a chunk has 63 bits without its sign.
    const BLOCK: usize = 1 << 8;

    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
    fn is_nan(self) -> bool {
        self.is_nan()
    }
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }

    fn accumulate(words: &mut [u64], seen: &mut u64, block: &[Self]) -> bool {
        // One chunk for each half of a word that a mantissa can begin in.
        let mut halves = [0_i64; 8];
        let (mut not_minus_zero, mut special) = (0, false);
        for &x in block {
            let bits = x.to_bits();
            not_minus_zero |= bits ^ (1 << 31);
            let Some((mantissa, position)) = finite(x) else {
                special = true;
                continue;
            };
            let sign = i64::from(bits as i32 >> 31);
            let mantissa = (mantissa as i64 ^ sign) - sign;
            halves[(position / 32) as usize % 8] += mantissa << (position % 32);
        }
        let mut chunks = [0_i128; 4];
        for (chunk, halves) in chunks.iter_mut().zip(halves.chunks(2)) {
            *chunk = i128::from(halves[0]) + (i128::from(halves[1]) << 32);
        }
        wide::add_chunks(words, &chunks);
        if not_minus_zero != 0 {
            *seen |= seen::NOT_MINUS_ZERO;
        }
        !special
    }
}

const _: () = assert!(size_of::<<f64 as Float>::Words>() == 280 && size_of::<<f32 as Float>::Words>() == 56);
