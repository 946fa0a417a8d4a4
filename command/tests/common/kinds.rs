//! The kinds of collectives, by their names on the command line.

/// All kinds. MPI has each of them.
pub const KINDS: [&str; 11] = [
    "allreduce",
    "reduce",
    "broadcast",
    "barrier",
    "gather",
    "allgather",
    "scatter",
    "reduce-scatter",
    "all-to-all",
    "scan",
    "exscan",
];
