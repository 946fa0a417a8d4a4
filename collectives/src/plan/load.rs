//! What a rank sends and receives.

use std::ops::{Add, AddAssign};

/// A message costs a rank about as much as this many bytes. On the Ethernet, InfiniBand and Slingshot machines of
/// `command/machines` it is 2000, 1250 and 2500.
const MESSAGE_BYTES: u64 = 2048;

/// What one rank sends and receives in one call of each object. Messages within a [group](crate::Groups) are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// What it sends.
    pub sent: Traffic,
    /// What it receives.
    pub received: Traffic,
}

/// Messages in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traffic {
    /// Their number.
    pub messages: u64,
    /// The bytes of all of them together.
    pub bytes: u64,
}

impl Load {
    /// The weight of the busier direction, as links carry both at the same time.
    pub fn weight(self) -> u64 {
        self.sent.weight().max(self.received.weight())
    }
}

impl Traffic {
    /// One message.
    pub fn message(bytes: u64) -> Self {
        Self { messages: 1, bytes }
    }

    /// Bytes, where each message counts as 2 KiB more.
    pub fn weight(self) -> u64 {
        self.messages.saturating_mul(MESSAGE_BYTES).saturating_add(self.bytes)
    }
}

impl Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let bytes = self.bytes.saturating_add(other.bytes);
        Self { messages: self.messages + other.messages, bytes }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
