//! Trying an operator's laws on real elements.

use std::any::{TypeId, type_name};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytemuck::Pod;
use thiserror::Error;

use super::Operator;

/// A law of an operator ⊕ that can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Law {
    /// (a ⊕ b) ⊕ c = a ⊕ (b ⊕ c)
    Associative,
    /// a ⊕ b = b ⊕ a
    Commutative,
    /// a ⊕ a = a
    Idempotent,
    /// (a ⊕ b) ⊖ b = a
    Inverse,
    /// e ⊕ a = a
    LeftIdentity,
    /// a ⊕ e = a
    RightIdentity,
    /// a ⊕ b is there: the operator does not panic.
    Infallible,
}

impl Law {
    fn formula(self) -> &'static str {
        match self {
            Law::Associative => "(a ⊕ b) ⊕ c = a ⊕ (b ⊕ c)",
            Law::Commutative => "a ⊕ b = b ⊕ a",
            Law::Idempotent => "a ⊕ a = a",
            Law::Inverse => "(a ⊕ b) ⊖ b = a",
            Law::LeftIdentity => "e ⊕ a = a",
            Law::RightIdentity => "a ⊕ e = a",
            Law::Infallible => "a ⊕ b never panics",
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.formula())
    }
}

/// An operator does not obey a law that was declared for it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "operator `{operator}` breaks its law {law}: with {operands} the left side is {left}, the right side {right}; \
     correct the function, or do not declare the law",
    operands = Operands(operands)
)]
#[non_exhaustive]
pub struct BrokenLaw {
    /// The operator's name.
    pub operator: String,
    /// The law.
    pub law: Law,
    /// The elements a, b and c of the law's formula, as far as it has them. Numbers are written in decimal; other types as
    /// their bytes, in the order of memory.
    pub operands: Vec<String>,
    /// The left side of the formula, or `a panic`.
    pub left: String,
    /// The right side of the formula, or `a panic`.
    pub right: String,
}

struct Operands<'a>(&'a [String]);

impl fmt::Display for Operands<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, operand)) in ["a", "b", "c"].iter().zip(self.0).enumerate() {
            write!(f, "{}{name} = {operand}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl<T: Pod + Send + Sync> Operator<T> {
    /// Tries the operator's laws, its identity and its inverse on three elements, and compares bit for bit. It combines
    /// about twenty times. A law that holds for three elements need not hold for all.
    ///
    /// # Errors
    ///
    /// [`BrokenLaw`] for the first law that does not hold.
    pub fn sample(&self, a: T, b: T, c: T) -> Result<(), BrokenLaw> {
        // A built-in operator's laws are about elements that combinations leave.
        let [a, b, c] = [a, b, c].map(|x| self.canonical(x));
        let laws = self.laws();
        // Nothing where the operator panics, and then nothing can be made of it.
        let guarded = |f: &dyn Fn() -> T| catch_unwind(AssertUnwindSafe(f)).ok();
        let join = |lower: Option<T>, higher: Option<T>| {
            let (lower, higher) = (lower?, higher?);
            guarded(&|| self.combine(&lower, &higher))
        };
        let try_law = |law: Law, operands: &[T], left: Option<T>, right: Option<T>| {
            let same = left.as_ref().map(bytemuck::bytes_of) == right.as_ref().map(bytemuck::bytes_of);
            if same {
                return Ok(());
            }
            let side = |side: Option<T>| side.as_ref().map_or("a panic".into(), show);
            Err(BrokenLaw {
                operator: self.name().to_owned(),
                law,
                operands: operands.iter().map(show).collect(),
                left: side(left),
                right: side(right),
            })
        };
        let [x, y, z] = [a, b, c].map(Some);
        if laws.associative {
            try_law(Law::Associative, &[a, b, c], join(join(x, y), z), join(x, join(y, z)))?;
        }
        for (a, b) in [(a, b), (b, c), (c, a)] {
            let (x, y) = (Some(a), Some(b));
            let both = join(x, y);
            if laws.infallible && both.is_none() {
                let (operator, operands) = (self.name().to_owned(), [a, b].iter().map(show).collect());
                let (left, right) = ("a panic".into(), "a value".into());
                return Err(BrokenLaw { operator, law: Law::Infallible, operands, left, right });
            }
            if laws.commutative {
                try_law(Law::Commutative, &[a, b], both, join(y, x))?;
            }
            if laws.invertible
                && let Some(both) = both
            {
                let left = guarded(&|| {
                    let mut left = both;
                    self.undo(std::slice::from_mut(&mut left), &[b]);
                    left
                });
                try_law(Law::Inverse, &[a, b], left, x)?;
            }
            if laws.idempotent {
                try_law(Law::Idempotent, &[a], join(x, x), x)?;
            }
            if let Some(identity) = self.identity() {
                try_law(Law::LeftIdentity, &[a], join(Some(identity), x), x)?;
                try_law(Law::RightIdentity, &[a], join(x, Some(identity)), x)?;
            }
        }
        Ok(())
    }
}

/// A number, or the bytes of an element of another type.
pub(super) fn show<T: Pod>(x: &T) -> String {
    let bytes = bytemuck::bytes_of(x);
    macro_rules! numbers {
        ($($t:ty)*) => {$(
            if TypeId::of::<T>() == TypeId::of::<$t>() {
                return format!("{:?}", bytemuck::pod_read_unaligned::<$t>(bytes));
            }
        )*};
    }
    numbers!(i8 i16 i32 i64 u8 u16 u32 u64);
    // The bits too: NaNs with different bits are printed in the same way.
    if TypeId::of::<T>() == TypeId::of::<f32>() {
        let x: f32 = bytemuck::pod_read_unaligned(bytes);
        return format!("{x:?} ({:#010x})", x.to_bits());
    }
    if TypeId::of::<T>() == TypeId::of::<f64>() {
        let x: f64 = bytemuck::pod_read_unaligned(bytes);
        return format!("{x:?} ({:#018x})", x.to_bits());
    }
    let name = type_name::<T>().rsplit("::").next().unwrap_or_default();
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name}[{}]", bytes.join(" "))
}
