//! Wide integers in two's complement: words of 64 bits, the lowest first. All sums are modulo 2 to the number of bits.

/// Adds a value to the words from `at` on, or subtracts it.
#[inline]
pub fn add(words: &mut [u64], at: usize, value: u128, negative: bool) {
    let value = [value as u64, (value >> 64) as u64];
    let (two, rest) = words[at..].split_at_mut(2);
    let mut carry = false;
    for (word, value) in two.iter_mut().zip(value) {
        (*word, carry) = if negative { borrowing_sub(*word, value, carry) } else { carrying_add(*word, value, carry) };
    }
    for word in rest {
        if !carry {
            return;
        }
        (*word, carry) = if negative { word.overflowing_sub(1) } else { word.overflowing_add(1) };
    }
}

/// Adds all words of another integer.
#[inline]
pub fn add_all(words: &mut [u64], others: &[u64]) {
    debug_assert_eq!(words.len(), others.len());
    // Within this many words the carry stays in the processor's flag.
    let (blocks, rest) = words.as_chunks_mut::<8>();
    let (other_blocks, other_rest) = others.as_chunks::<8>();
    let mut carry = false;
    for (block, others) in blocks.iter_mut().zip(other_blocks) {
        carry = add_carrying(block, others, carry);
    }
    add_carrying(rest, other_rest, carry);
}

/// Adds words and a carry. Returns the carry out of them.
#[inline(always)]
fn add_carrying(words: &mut [u64], others: &[u64], mut carry: bool) -> bool {
    for (word, &other) in words.iter_mut().zip(others) {
        (*word, carry) = carrying_add(*word, other, carry);
    }
    carry
}

/// Adds chunks, one for each word from the lowest on. Each is less than 2¹²⁷ − 2⁶⁶ either way.
#[inline]
pub fn add_chunks(words: &mut [u64], chunks: &[i128]) {
    let mut carry = 0;
    let mut words = words.iter_mut();
    for (chunk, word) in chunks.iter().zip(words.by_ref()) {
        let sum = chunk + carry + i128::from(*word);
        *word = sum as u64;
        carry = sum >> 64;
    }
    for word in words {
        let sum = carry + i128::from(*word);
        *word = sum as u64;
        carry = sum >> 64;
    }
}

/// Makes the integer its absolute value. Returns whether it was negative.
pub fn take_sign(words: &mut [u64]) -> bool {
    let negative = words.last().is_some_and(|&top| top >> 63 != 0);
    if negative {
        let mut carry = true;
        for word in words {
            (*word, carry) = (!*word).overflowing_add(carry.into());
        }
    }
    negative
}

/// The place of the highest bit that is set.
pub fn highest_bit(words: &[u64]) -> Option<u32> {
    let at = words.iter().rposition(|&word| word != 0)?;
    Some(64 * at as u32 + words[at].ilog2())
}

/// The 64 bits from a place on.
pub fn bits_from(words: &[u64], place: u32) -> u64 {
    let (at, shift) = ((place / 64) as usize, place % 64);
    let word = |at: usize| u128::from(words.get(at).copied().unwrap_or(0));
    ((word(at) | word(at + 1) << 64) >> shift) as u64
}

/// Whether any bit below a place is set.
pub fn any_below(words: &[u64], place: u32) -> bool {
    let (at, shift) = ((place / 64) as usize, place % 64);
    words[..at].iter().any(|&word| word != 0) || words[at] & ((1 << shift) - 1) != 0
}

#[inline(always)]
fn carrying_add(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, one) = a.overflowing_add(b);
    let (sum, two) = sum.overflowing_add(carry.into());
    (sum, one | two)
}

#[inline(always)]
fn borrowing_sub(a: u64, b: u64, borrow: bool) -> (u64, bool) {
    let (difference, one) = a.overflowing_sub(b);
    let (difference, two) = difference.overflowing_sub(borrow.into());
    (difference, one | two)
}
