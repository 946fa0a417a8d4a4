//! The errors of runs.

/// The fewest cells of a shard: two for the ghost cells of each neighbour.
pub const MIN_CELLS: usize = 4;

/// The errors of runs.
#[derive(Debug, thiserror::Error)]
pub enum StencilError {
    /// A count that must be positive is 0.
    #[error("{what}: expected at least 1, found 0")]
    Zero {
        /// The name of the count.
        what: &'static str,
    },
    /// More shards than can be numbered.
    #[error("expected at most {} shards, found {shards}", u32::MAX)]
    TooManyShards {
        /// Shards asked for.
        shards: usize,
    },
    /// A shard would have fewer than 4 cells.
    #[error(
        "expected at least {MIN_CELLS} cells in a shard, found {smallest} ({} over {})",
        plural(*.total, "cell"), plural(*.shards, "shard")
    )]
    TooFewCells {
        /// Cells altogether.
        total: usize,
        /// Shards.
        shards: usize,
        /// Cells in the smallest block.
        smallest: usize,
    },
    /// More cells than can be addressed.
    #[error("{} of {} are more cells than this machine can address", plural(*.shards, "shard"), plural(*.cells, "cell"))]
    TooManyCells {
        /// Shards.
        shards: usize,
        /// Cells of each shard.
        cells: usize,
    },
    /// The first vector has not as many values as the blocks have cells.
    #[error("expected {} for the first vector, found {found}", plural(*.cells, "value"))]
    WrongLength {
        /// Cells of all blocks.
        cells: usize,
        /// Values of the vector.
        found: usize,
    },
    /// Checkpoints are asked for in the version with an aggregation region.
    #[error("checkpoints are for the versions with an allreduce, not for aggregation")]
    NoCheckpoints,
    /// The derivative is zero everywhere, or so small that its squares are zero. So there is no next vector.
    #[error(
        "iteration {iteration}: S = 0, so there is no next vector; the vector's derivative vanishes, or its squares \
         underflow (then scale the input)"
    )]
    Vanished {
        /// The iteration, from 1.
        iteration: usize,
    },
    /// The sum of squares is beyond the range of 64-bit floats.
    #[error("iteration {iteration}: S = {sum}; the vector's values are too large")]
    Overflow {
        /// The iteration, from 1.
        iteration: usize,
        /// The sum of squares.
        sum: f64,
    },
    /// The runtime failed. The problem is not at fault.
    #[error("the run failed: {0}")]
    Runtime(#[from] maniple::runtime::Error),
}

/// A number with its noun, for messages: `1 shard`, `2 shards`.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
