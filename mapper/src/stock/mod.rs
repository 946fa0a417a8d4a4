//! The mappers that come with the crate, one file each where they have something to decide.

mod logging;
mod numa;
mod plain;
mod random;

pub use logging::LoggingMapper;
pub use numa::NumaMapper;
pub use plain::{CollectiveMapper, DefaultMapper, FirstChoiceMapper, RoundRobinMapper};
pub use random::RandomMapper;
