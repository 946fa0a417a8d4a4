//! The elements of contributions: their types and operators, and values for which every order of combination gives the same
//! bits.

use clap::ValueEnum;
use maniple_collectives::{Number, Operator, Order};
use std::fmt::Debug;

/// The type of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Type {
    I32,
    I64,
    U64,
    F32,
    F64,
}

impl Type {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Type::I32 => "i32",
            Type::I64 => "i64",
            Type::U64 => "u64",
            Type::F32 => "f32",
            Type::F64 => "f64",
        }
    }

    /// The size of an element.
    pub fn bytes(self) -> usize {
        match self {
            Type::I32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 => 8,
        }
    }
}

/// The brackets of a combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Brackets {
    /// The brackets of recursive doubling, whatever the algorithm is
    Doubling,
    /// The brackets of a loop over the contributions
    Left,
    /// The brackets of the algorithm
    Any,
}

impl Brackets {
    /// The order of the library.
    pub fn order(self) -> Order {
        match self {
            Brackets::Doubling => Order::Doubling,
            Brackets::Left => Order::Left,
            Brackets::Any => Order::Any,
        }
    }
}

/// The operator that combines contributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Op {
    Sum,
    Product,
    Min,
    Max,
}

impl Op {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Op::Sum => "sum",
            Op::Product => "product",
            Op::Min => "min",
            Op::Max => "max",
        }
    }

    /// The operator of the library.
    pub fn operator<T: Number>(self) -> Operator<T> {
        match self {
            Op::Sum => Operator::sum(),
            Op::Product => Operator::product(),
            Op::Min => Operator::min(),
            Op::Max => Operator::max(),
        }
    }
}

/// A type of elements, with its own arithmetic for the oracle.
pub trait Measured: Number + PartialEq + Debug {
    /// A whole number, exactly.
    fn whole(number: u32) -> Self;
    /// A factor of a product, so that the bits depend neither on the order nor on the brackets. That of floats is −2, 2,
    /// −½ or ½, in turns larger and smaller than 1 from one position to the next.
    fn factor(position: u32, draw: u32) -> Self;
    /// What the operator makes of two elements.
    fn combine(op: Op, lower: Self, higher: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Measured for $t {
            fn whole(number: u32) -> Self {
                number as $t
            }
            fn factor(_: u32, draw: u32) -> Self {
                (draw | 1) as $t
            }
            fn combine(op: Op, lower: Self, higher: Self) -> Self {
                match op {
                    Op::Sum => lower.wrapping_add(higher),
                    Op::Product => lower.wrapping_mul(higher),
                    Op::Min => if higher < lower { higher } else { lower },
                    Op::Max => if higher > lower { higher } else { lower },
                }
            }
        }
    )*};
}

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Measured for $t {
            fn whole(number: u32) -> Self {
                number as $t
            }
            fn factor(position: u32, draw: u32) -> Self {
                let size = if position % 2 == 0 { 2.0 } else { 0.5 };
                if draw % 2 == 0 { size } else { -size }
            }
            fn combine(op: Op, lower: Self, higher: Self) -> Self {
                match op {
                    Op::Sum => lower + higher,
                    Op::Product => lower * higher,
                    Op::Min => if higher < lower { higher } else { lower },
                    Op::Max => if higher > lower { higher } else { lower },
                }
            }
        }
    )*};
}

integers!(i32, i64, u64);
floats!(f32, f64);

/// The numbers below which every float of 32 bits is exact.
const EXACT: u32 = 1 << f32::MANTISSA_DIGITS;

/// The elements of contributions.
#[derive(Debug, Clone, Copy)]
pub struct Values {
    /// The operator, where contributions are combined.
    pub op: Option<Op>,
    /// The number of contributors.
    pub contributors: u32,
}

impl Values {
    /// An element of the contribution at a position. All contributions of one variant differ from all of the others.
    pub fn element<T: Measured>(self, variant: usize, position: u32, index: usize) -> T {
        let draw = draw((variant as u64) << 56 ^ u64::from(position) << 32 ^ index as u64);
        match self.op {
            // No partial sum is so large that it is rounded.
            Some(Op::Sum) => T::whole(draw % (EXACT / self.contributors.max(1)).clamp(1, 1 << 12)),
            Some(Op::Product) => T::factor(position, draw),
            Some(Op::Min | Op::Max) | None => T::whole(draw % EXACT),
        }
    }
}

/// A number that looks random.
fn draw(from: u64) -> u32 {
    let mut x = from.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the left and from the right: the bits are the same, also in single precision.
    #[test]
    fn no_order_changes_a_bit() {
        for op in [Op::Sum, Op::Product, Op::Min, Op::Max] {
            for contributors in [1, 2, 7, 1000, 100_001] {
                let values = Values { op: Some(op), contributors };
                let all: Vec<f32> = (0..contributors).map(|position| values.element(1, position, 3)).collect();
                let left = all.iter().copied().reduce(|a, b| f32::combine(op, a, b));
                let right = all.iter().copied().rev().reduce(|a, b| f32::combine(op, b, a));
                assert_eq!(left, right, "{op:?} of {contributors}");
                let operator = op.operator::<f32>();
                let mut running = [all[0]];
                all[1..].iter().for_each(|value| operator.fold_higher(&mut running, &[*value]));
                assert_eq!(Some(running[0]), left, "{op:?} of {contributors}");
            }
        }
    }

    #[test]
    fn a_missing_or_doubled_contribution_shows() {
        for op in [Op::Sum, Op::Product] {
            let values = Values { op: Some(op), contributors: 9 };
            let fold = |positions: &[u32]| {
                let vector = |position: u32| (0..8).map(move |i| values.element::<f64>(0, position, i));
                let mut all = vec![f64::whole(u32::from(op == Op::Product)); 8];
                for &position in positions {
                    all = all.iter().zip(vector(position)).map(|(a, b)| f64::combine(op, *a, b)).collect();
                }
                all
            };
            let right = fold(&[0, 1, 2, 3, 4, 5, 6, 7, 8]);
            assert_ne!(right, fold(&[0, 1, 2, 3, 5, 6, 7, 8]), "{op:?}");
            assert_ne!(right, fold(&[0, 1, 2, 3, 4, 4, 5, 6, 7, 8]), "{op:?}");
        }
    }
}
