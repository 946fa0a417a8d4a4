#![forbid(unsafe_code)]
//! WHERE and HOW: the machine, the [`Mapper`] trait, stock mappers, and the validation of every decision.
//!
//! A mapper decides placement and priority. It changes speed, never results: the program fixes what is computed and
//! in which order values combine. Every answer is checked by [`validate`] before it is used.

mod machine;
mod mapper;
mod stock;
pub mod topology;
pub mod validate;

pub use machine::{Machine, MemoryKind};
pub use mapper::{
    Access, ExchangeInput, ExchangeOutput, LeafInput, LeafOutput, MAX_REQUIREMENTS, Mapper, PlaceShardsInput,
    PlaceSharedInput, Placement, Priority, RequirementInput,
};
pub use stock::{CollectiveMapper, DefaultMapper, UnknownMapper, names, stock};
pub use topology::Topology;
pub use validate::{IllegalDecision, MapperError};
