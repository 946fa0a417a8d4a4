//! Laws of operators.

use std::fmt;

/// Laws of an operator ⊕, bit for bit. [`Operator::laws`](crate::Operator::laws) says for which elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Laws {
    /// (a ⊕ b) ⊕ c = a ⊕ (b ⊕ c)
    pub associative: bool,
    /// a ⊕ b = b ⊕ a
    pub commutative: bool,
    /// a ⊕ a = a
    pub idempotent: bool,
    /// There is ⊖ with (a ⊕ b) ⊖ b = a.
    pub invertible: bool,
}

impl Laws {
    /// None of them.
    pub const NONE: Laws = Laws { associative: false, commutative: false, idempotent: false, invertible: false };

    /// All of them.
    pub const ALL: Laws = Laws { associative: true, commutative: true, idempotent: true, invertible: true };

    /// The order of the operands and their brackets do not matter.
    pub(super) const ORDER_IS_FREE: Laws = Laws { associative: true, commutative: true, ..Laws::NONE };

    /// Those of these laws that `held` has not.
    pub fn without(self, held: Laws) -> Laws {
        Laws {
            associative: self.associative && !held.associative,
            commutative: self.commutative && !held.commutative,
            idempotent: self.idempotent && !held.idempotent,
            invertible: self.invertible && !held.invertible,
        }
    }

    /// All laws of both.
    pub fn and(self, other: Laws) -> Laws {
        Laws {
            associative: self.associative || other.associative,
            commutative: self.commutative || other.commutative,
            idempotent: self.idempotent || other.idempotent,
            invertible: self.invertible || other.invertible,
        }
    }
}

/// For example `associative, commutative`, or `none`.
impl fmt::Display for Laws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { associative, commutative, idempotent, invertible } = *self;
        let laws = [
            (associative, "associative"),
            (commutative, "commutative"),
            (idempotent, "idempotent"),
            (invertible, "invertible"),
        ];
        let names: Vec<_> = laws.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
        f.pad(&if names.is_empty() { "none".to_owned() } else { names.join(", ") })
    }
}
