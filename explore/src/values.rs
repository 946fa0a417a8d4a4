//! The arithmetic of values, shared by the framework's tasks and the interpreter. Wrapping arithmetic is exact. None of
//! these functions commutes, unless an operator that commutes folds the values.

use maniple::collectives::Operator;

pub fn joined(a: i64, b: i64) -> i64 {
    a.wrapping_mul(31).wrapping_add(b)
}

pub fn updated(old: i64, k: i64, at: i64) -> i64 {
    old.wrapping_mul(3).wrapping_add(k).wrapping_add(at)
}

pub fn fresh(k: i64, at: i64) -> i64 {
    k ^ (at + 7).wrapping_mul(1_000_003)
}

pub fn folded(old: i64, operator: u8, new: i64) -> i64 {
    match operator % 3 {
        0 => old.wrapping_add(new),
        1 => old.wrapping_mul(new),
        _ => old.max(new),
    }
}

/// Composes affine maps modulo 2³², with a pair in each number. Exact and associative, but not commutative.
pub fn composed(lower: i64, higher: i64) -> i64 {
    let (a, b) = ((lower >> 32) as u32, lower as u32);
    let (c, d) = ((higher >> 32) as u32, higher as u32);
    let (e, f) = (a.wrapping_mul(c | 1), a.wrapping_mul(d).wrapping_add(b));
    i64::from(e) << 32 | i64::from(f)
}

/// A shard's contribution to a total, made of one number.
pub fn contribution(k: i64, elements: usize) -> Vec<i64> {
    (0..elements as i64).map(|i| fresh(k, i) | 1 << 32).collect()
}

/// The value with which a shard arrives.
pub fn arrival(step: usize, shard: u32) -> u64 {
    (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(shard) << 7
}

/// The operator that [`folded`] knows by a number.
pub fn folding(operator: u8) -> Operator<i64> {
    match operator % 3 {
        0 => Operator::sum(),
        1 => Operator::product(),
        _ => Operator::max(),
    }
}

/// The operator of a barrier's values.
pub fn gathering(how: u8) -> Operator<u64> {
    Operator::user("gathered", move |a: &u64, b: &u64| gathered(how, *a, *b))
}

/// Folds two values of a barrier by one of three functions. The first one is neither commutative nor associative.
pub fn gathered(how: u8, a: u64, b: u64) -> u64 {
    match how % 3 {
        0 => a.wrapping_mul(1_000_003).wrapping_add(b),
        1 => a.wrapping_add(b),
        _ => a.max(b),
    }
}
