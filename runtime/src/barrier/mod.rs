//! Barriers: this processor's cells and its part of combining trees.

pub(crate) mod cells;
pub(crate) mod phases;

pub(crate) use cells::{Bank, Waited};
