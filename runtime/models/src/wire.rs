//! The wires of threads and of processes.

#[path = "../../src/wire/alarm.rs"]
pub mod alarm;
pub mod channel;
#[path = "../../src/wire/park.rs"]
pub mod park;
pub mod processes;
#[path = "../../src/wire/ring.rs"]
pub mod ring;
pub mod sync;
pub mod threads;

use std::time::Duration;

/// As in the runtime. In a model a deadline passes at once.
const OUTSIDE: Duration = Duration::ZERO;

pub mod faults {
    use crate::ids::ProcessorId;

    #[derive(Clone)]
    pub struct SlowLink {
        pub from: ProcessorId,
        pub to: ProcessorId,
        pub steps: u64,
    }
}
