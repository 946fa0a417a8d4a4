//! Operators of different laws, and what they do written a second time.

use crate::common::mix;
use maniple_collectives::{Laws, Operator};
use std::collections::BTreeSet;

/// An operator, what it does written a second time, and the laws that hold for it.
pub(super) struct Op {
    pub(super) name: &'static str,
    pub(super) combine: fn(u64, u64) -> Option<u64>,
    pub(super) make: fn(u64) -> u64,
    pub(super) laws: Laws,
}

/// The largest sum that does not fail.
const LIMIT: u64 = 20;

pub(super) fn operators() -> [Op; 9] {
    let laws = |text: &str| Laws {
        associative: text.contains('a'),
        commutative: text.contains('c'),
        idempotent: text.contains('i'),
        invertible: text.contains('v'),
        infallible: text.contains('f'),
    };
    fn affine(a: u64, b: u64) -> Option<u64> {
        const PRIME: u64 = 65_521;
        let ((m, n), (o, p)) = ((a >> 32, a & 0xffff_ffff), (b >> 32, b & 0xffff_ffff));
        Some(((m * o % PRIME) << 32) | ((n * o + p) % PRIME))
    }
    fn checked(a: u64, b: u64) -> Option<u64> {
        Some(a + b).filter(|sum| *sum <= LIMIT)
    }
    fn float(a: u64, b: u64) -> Option<u64> {
        Some((f64::from_bits(a) + f64::from_bits(b)).to_bits())
    }
    let op = |name, combine, make, text| Op { name, combine, make, laws: laws(text) };
    fn hash(a: u64, b: u64) -> Option<u64> {
        Some(mix(a.wrapping_mul(3) ^ mix(b)))
    }
    fn pairs(a: u64, b: u64) -> Option<u64> {
        Some(mix(a.wrapping_add(b) ^ mix(a ^ b)))
    }
    [
        op("brackets", hash, |bits| bits, "f"),
        op("unordered brackets", pairs, |bits| bits, "cf"),
        op("float sum", float, |bits| (bits as i32 as f64 * 1e-3).to_bits(), "cf"),
        op("affine", affine, |bits| ((1 + bits % 65_520) << 32) | ((bits >> 40) % 65_521), "af"),
        op("sum", |a, b| Some(a.wrapping_add(b)), |bits| bits, "acvf"),
        op("max", |a, b| Some(a.max(b)), |bits| bits, "acif"),
        op("first", |a, _| Some(a), |bits| bits, "aif"),
        op("checked sum", checked, |bits| bits % 9, "c"),
        // So a program may say, though it does not hold where it fails.
        op("checked sum, said to be associative", checked, |bits| bits % 9, "ac"),
    ]
}

impl Op {
    pub(super) fn operator(&self) -> Operator<u64> {
        let combine = self.combine;
        let mut operator =
            Operator::user(self.name, move |a: &u64, b: &u64| combine(*a, *b).expect("no more than the limit"));
        let Laws { associative, commutative, idempotent, invertible, infallible } = self.laws;
        if associative {
            operator = operator.associative();
        }
        if commutative {
            operator = operator.commutative();
        }
        if idempotent {
            operator = operator.idempotent();
        }
        if invertible {
            operator = operator.with_inverse(|a, b| a.wrapping_sub(*b));
        }
        if infallible {
            operator = operator.infallible();
        }
        operator
    }

    /// All that a combination of these values may be, by the laws that hold; nothing stands for a failure.
    pub(super) fn possible(&self, values: &[u64]) -> BTreeSet<Option<u64>> {
        let join = |a: Option<u64>, b: Option<u64>| (self.combine)(a?, b?);
        if self.laws.associative && self.laws.infallible {
            return [values[1..].iter().try_fold(values[0], |sum, v| (self.combine)(sum, *v))].into();
        }
        // By sets of operands: all ways to divide them, or to cut them where the order counts.
        let mut of: Vec<BTreeSet<Option<u64>>> = vec![BTreeSet::new(); 1 << values.len()];
        for set in 1_usize..1 << values.len() {
            if set.is_power_of_two() {
                of[set].insert(Some(values[set.trailing_zeros() as usize]));
            }
            let mut part = (set - 1) & set;
            while part > 0 {
                let rest = set & !part;
                let is_cut = part.ilog2() < rest.trailing_zeros();
                if self.laws.commutative || is_cut {
                    let both: Vec<_> =
                        of[part].iter().flat_map(|a| of[rest].iter().map(move |b| join(*a, *b))).collect();
                    of[set].extend(both);
                }
                part = (part - 1) & set;
            }
        }
        of[(1 << values.len()) - 1].clone()
    }
}
