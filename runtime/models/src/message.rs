//! What stands for the messages of the runtime: those that the wire between processes names.

use crate::Error;
use crate::ids::{ObjectId, ProcessorId};
use crate::payload::Payload;
use maniple_regions::Buffer;
use serde::{Deserialize, Serialize};

#[path = "../../src/message/bulk.rs"]
mod bulk;
pub(crate) use bulk::Bulk;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Also {
    pub cell: u32,
    pub generation: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    Arrive { object: ObjectId, cell: u32, generation: u64, payload: Payload, also: Also },
    Values(Box<Values>),
    Got { token: u64, bytes: Buffer },
    Put(Box<()>, Buffer),
    Lost(Box<Error>),
    Left { to: ProcessorId },
}

impl Message {
    /// In a model all are.
    pub fn are_large_values(&self) -> bool {
        matches!(self, Message::Values(_))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Values {
    pub values: Vec<Result<Buffer, Box<Error>>>,
}
