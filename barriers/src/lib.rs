//! Futures and phase barriers as state machines, without tasks.
