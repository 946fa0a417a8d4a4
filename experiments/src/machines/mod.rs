//! Machines of virtual time: their files, parts of them, and how they and the host are shown.

pub mod file;
pub mod reduced;
pub mod show;
