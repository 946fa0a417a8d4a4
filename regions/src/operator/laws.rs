//! Laws of operators.

use std::fmt;

/// Laws of an operator ⊕, bit for bit. [`Operator::laws`](crate::Operator::laws) says for which elements.
///
/// A combination that panics has no value, and neither has what is made from it. So both sides of an equation must fail, or
/// neither.
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
    /// a ⊕ b never panics.
    pub infallible: bool,
}

impl Laws {
    /// None of them.
    pub const NONE: Laws =
        Laws { associative: false, commutative: false, idempotent: false, invertible: false, infallible: false };

    /// All of them.
    pub const ALL: Laws =
        Laws { associative: true, commutative: true, idempotent: true, invertible: true, infallible: true };

    /// The laws of every built-in operator.
    pub(super) const BUILTIN: Laws = Laws { commutative: true, infallible: true, ..Laws::NONE };

    /// The same where brackets do not matter either.
    pub(super) const ORDER_IS_FREE: Laws = Laws { associative: true, ..Laws::BUILTIN };

    /// The laws among these that `held` lacks.
    pub fn without(self, held: Laws) -> Laws {
        Laws {
            associative: self.associative && !held.associative,
            commutative: self.commutative && !held.commutative,
            idempotent: self.idempotent && !held.idempotent,
            invertible: self.invertible && !held.invertible,
            infallible: self.infallible && !held.infallible,
        }
    }

    /// All laws of both.
    pub fn and(self, other: Laws) -> Laws {
        Laws {
            associative: self.associative || other.associative,
            commutative: self.commutative || other.commutative,
            idempotent: self.idempotent || other.idempotent,
            invertible: self.invertible || other.invertible,
            infallible: self.infallible || other.infallible,
        }
    }
}

/// For example `associative, commutative`, or `none`.
impl fmt::Display for Laws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { associative, commutative, idempotent, invertible, infallible } = *self;
        let laws = [
            (associative, "associative"),
            (commutative, "commutative"),
            (idempotent, "idempotent"),
            (invertible, "invertible"),
            (infallible, "infallible"),
        ];
        let names: Vec<_> = laws.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
        f.pad(&if names.is_empty() { "none".to_owned() } else { names.join(", ") })
    }
}
