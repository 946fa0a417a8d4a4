//! Kinds of collectives, as both sides of a comparison run them.

use crate::collective::kind::Parties;
use crate::collective::run::Spec;
use crate::collective::values;
use crate::micro::allreduce::Op;
use maniple::collectives::{Algorithm, Kind, Order};

/// What both sides run. `elements` are those of a block.
pub fn spec(kind: Kind, shards: u32, elements: usize, op: Op, iterations: usize) -> Spec {
    let elements = if kind == Kind::Barrier { 0 } else { elements };
    let warm_up = iterations.div_ceil(10);
    let (parties, algorithm) = (Parties::usual(kind, shards), None::<Algorithm>);
    let (op, order) = (operator(op), Order::Doubling);
    Spec { parties, elements, op, order, algorithm, warm_up, iterations, processes: false }
}

/// The operator under the same name.
fn operator(op: Op) -> values::Op {
    match op {
        Op::Sum => values::Op::Sum,
        Op::Product => values::Op::Product,
        Op::Min => values::Op::Min,
        Op::Max => values::Op::Max,
    }
}

/// The mean of the times of shards or ranks that take part, and the longest of them.
pub fn mean_and_most(times: impl Iterator<Item = f64>) -> (f64, f64) {
    let times: Vec<f64> = times.collect();
    (times.iter().sum::<f64>() / times.len() as f64, times.iter().copied().fold(0.0, f64::max))
}
