//! The mappers that come with the crate. `plain` has six that look at little of their inputs.

mod logging;
mod numa;
mod plain;
mod random;

pub use logging::LoggingMapper;
pub use numa::NumaMapper;
pub use plain::{AnyMapper, CollectiveMapper, DefaultMapper, FirstChoiceMapper, RoundRobinMapper, TableMapper};
pub use random::RandomMapper;
