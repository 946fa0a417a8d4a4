//! The applications, on all drivers, against sequential code.

mod cholesky;
