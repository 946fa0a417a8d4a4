//! What is private but measured by itself. For the benches of this crate only.

pub use crate::wire::ring::{Receiver, Sender, ring};
