//! Barriers: this processor's cells and its part of combining trees.

pub(crate) mod cells;
pub(crate) mod phases;

pub(crate) use cells::{Bank, Waited};

use crate::message::ObjectId;
use crate::object::CellAddress;

/// A barrier generation a task arrives at when it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArrivalAt {
    Cell(CellAddress, u64),
    Phase { object: ObjectId, arriver: u32, generation: u64, value: u64 },
}

/// A barrier generation a task waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WaitAt {
    Cell { object: ObjectId, cell: u32, generation: u64 },
    Phase { object: ObjectId, generation: u64 },
}

impl WaitAt {
    pub fn generation(self) -> u64 {
        let (Self::Cell { generation, .. } | Self::Phase { generation, .. }) = self;
        generation
    }
}
