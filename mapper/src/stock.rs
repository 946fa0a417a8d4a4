use crate::{
    Access, AlgorithmInput, ExchangeInput, ExchangeOutput, LeafInput, LeafOutput, Mapper, MemoryKind, Priority,
};
use std::sync::Arc;

/// The defaults of every call.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultMapper;

impl Mapper for DefaultMapper {
    fn name(&self) -> &str {
        "default"
    }
}

/// The founding paper's mapper (§II-C): exchange regions in registered memory, remote ones read in place, and
/// collective subtasks ahead of the application's. Where a program leaves the algorithm open and some processor has several
/// participants, they combine first, `two-level`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CollectiveMapper;

impl Mapper for CollectiveMapper {
    fn name(&self) -> &str {
        "collective"
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        LeafOutput::local(input)
    }

    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        let neighbours = input.placement.windows(2).any(|two| two[0] == two[1]);
        let two_level = input.choices.iter().position(|&name| name == "two-level");
        two_level.filter(|_| neighbours).unwrap_or(0)
    }

    fn map_exchange(&self, _input: &ExchangeInput<'_>) -> ExchangeOutput {
        ExchangeOutput { memory: MemoryKind::Registered, access: Access::InPlace, priority: Priority::RAISED }
    }
}

/// Names that [`stock`] knows.
pub fn names() -> &'static [&'static str] {
    &["default", "collective"]
}

/// A mapper name nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown mapper `{name}`; choose one of: {}", names().join(", "))]
pub struct UnknownMapper {
    /// The name that was given.
    pub name: String,
}

/// The stock mapper of that name.
///
/// # Errors
/// [`UnknownMapper`], which lists the legal names.
pub fn stock(name: &str) -> Result<Arc<dyn Mapper>, UnknownMapper> {
    match name {
        "default" => Ok(Arc::new(DefaultMapper)),
        "collective" => Ok(Arc::new(CollectiveMapper)),
        _ => Err(UnknownMapper { name: name.into() }),
    }
}
