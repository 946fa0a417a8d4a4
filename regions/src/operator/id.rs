//! The identity of an operator, as privileges carry it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::builtin::NAMES;

/// The identity of an operator, computed from its name. It is the same in every process of a program.
/// [`Operator::id`](crate::Operator::id) gives it.
///
/// Operators with the same name count as equal. So qualify the names of your own, as in `"mycrate::Append"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ReductionId(u64);

impl ReductionId {
    /// The identity of the operator named `name` (64-bit FNV-1a).
    pub const fn new(name: &str) -> Self {
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
}

impl fmt::Display for ReductionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.into_iter().find(|name| ReductionId::new(name) == *self) {
            Some(name) => f.write_str(name),
            None => write!(f, "operator {:016x}", self.0),
        }
    }
}
