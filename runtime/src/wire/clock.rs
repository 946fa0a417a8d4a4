//! A counter for traces: reading it costs less than half of what reading the system's clock does.

use crate::message::CycleCounter;

/// The cycle counter of a machine on which it runs steadily and alike on all processors.
impl CycleCounter {
    /// The counter, where there is one.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    pub fn find() -> Option<Self> {
        // The kernel takes it off the list when it finds it unsteady, or not the same on all processors.
        let list =
            std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource").ok()?;
        list.split_whitespace().any(|name| name == "tsc").then_some(Self(cycles))
    }

    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    pub fn find() -> Option<Self> {
        None
    }

    /// Cycles so far, and what another clock says at the same moment.
    pub fn beside(self, clock: impl Fn() -> u64) -> (u64, u64) {
        let once = |_| {
            let (before, time, after) = (self.read(), clock(), self.read());
            (after.wrapping_sub(before), before, time)
        };
        // The thread may lose its core in between: the quickest of several was not disturbed.
        let (took, before, time) = (0..8).map(once).min().unwrap_or_default();
        (before + took / 2, time)
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn cycles() -> u64 {
    // Safety: every processor of this architecture has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}
