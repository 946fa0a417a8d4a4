//! Machines in virtual time: their files, parts of them, and the command that shows them and the host.

pub mod file;
pub mod reduced;
pub mod show;
