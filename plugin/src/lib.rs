#![doc = include_str!("../README.md")]

pub mod abi;
mod codes;
pub mod export;
mod fault;
#[cfg(unix)]
mod file;
mod host;
mod load;
#[cfg(test)]
mod tests;

pub use fault::{Fault, PluginError};
pub use load::load;
