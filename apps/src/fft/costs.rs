//! What the tasks of a transform cost in virtual time.

use super::{C, Charges, Problem};
use crate::nanoseconds;
use std::time::Duration;

/// The costs of a shard's tasks, if they are charged.
pub struct Costs(Option<Charged>);

/// What a shard is charged for.
struct Charged {
    charges: Charges,
    /// The values of a shard.
    values: f64,
    groups: f64,
}

impl Costs {
    /// The costs of a shard, which has as many values as any other one.
    pub fn of_shard(problem: &Problem) -> Self {
        let of = |charges: Charges| Charged {
            values: charges.lengths.iter().map(|length| *length as f64).product::<f64>() / f64::from(problem.shards),
            groups: problem.groups as f64,
            charges,
        };
        Self(problem.charges.map(of))
    }

    /// A task on a group of lines before the first exchange.
    pub fn lines(&self) -> Option<Duration> {
        self.operations(|s| s.values / s.groups * 5.0 * (s.charges.lengths[2] as f64).log2())
    }

    /// A task that packs a block for one of so many shards.
    pub fn pack(&self, members: usize) -> Option<Duration> {
        let ns = |s: &Charged| s.values / members as f64 * size_of::<C>() as f64 * s.charges.byte_ns;
        self.0.as_ref().map(|shard| nanoseconds(ns(shard)))
    }

    /// One of so many tasks that transform what has come in an exchange: values by their residues.
    pub fn sub(&self, tasks: usize, exchange: usize, modulus: usize) -> Option<Duration> {
        let each = |s: &Charged| (s.charges.lengths[1 - exchange] / modulus) as f64;
        self.operations(|s| s.values / tasks as f64 * 5.0 * each(s).log2())
    }

    /// A task that joins so many transforms, each of them one of `of` on a group of lines: a multiplication, and a transform of a
    /// value of each.
    pub fn join(&self, of: usize, transforms: usize) -> Option<Duration> {
        self.operations(|s| s.values / (s.groups * of as f64) * (6.0 + 5.0 * (transforms as f64).log2()))
    }

    fn operations(&self, of: impl Fn(&Charged) -> f64) -> Option<Duration> {
        self.0.as_ref().map(|shard| nanoseconds(of(shard) * shard.charges.operation_ns))
    }
}
