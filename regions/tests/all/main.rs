//! The tests of regions, as one program.

mod access;
mod bytes;
mod fields;
mod interference;
mod leases;
mod partitions;
mod rects;
