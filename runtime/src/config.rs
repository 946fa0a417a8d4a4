use maniple_mapper::{Machine, MapperSlot};

/// What every processor of a run knows.
pub(crate) struct Config {
    pub machine: Machine,
    pub mapper: MapperSlot,
    pub trace: Option<crate::trace::Tracing>,
    #[cfg(feature = "plant")]
    pub plant: Option<crate::plant::Plant>,
}

#[cfg(feature = "plant")]
impl Config {
    /// Whether the planted bug is `bug` and it is its turn to strike.
    pub fn strikes(&self, bug: crate::plant::Bug) -> bool {
        self.plant.as_ref().is_some_and(|p| p.strikes(bug))
    }

    /// Whether the planted bug is `bug`.
    pub fn has(&self, bug: crate::plant::Bug) -> bool {
        self.plant.as_ref().is_some_and(|p| p.bug == bug)
    }
}
