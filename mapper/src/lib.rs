#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod calls;
pub mod files;
mod ids;
mod machine;
mod mapper;
mod slot;
mod spec;
mod stock;
mod table;
pub mod topology;
pub mod validate;

pub use calls::{
    Access, AlgorithmInput, CollectiveInput, CollectiveOutput, InstanceChoice, InstanceInput, KeepInput, LeafInput,
    LeafOutput, PlaceShardsInput, PlaceSharedInput, PlaceTaskInput, Placement, Priority, ProfileInput,
    RequirementInput, Requirements, Route, RouteInput, SliceInput, Slicing, SourceInput,
};
pub use ids::{NodeId, ProcessorId, ProcessorRange};
pub use machine::{Machine, MemoryKind};
pub use maniple_schedules::{Algorithm, Kind};
pub use mapper::Mapper;
pub use slot::{MapperSlot, Named, Reader};
pub use spec::{Loader, MapperSpec, SpecError, names, stock};
pub use stock::{
    AnyMapper, CollectiveMapper, DefaultMapper, FirstChoiceMapper, LoggingMapper, NumaMapper, RandomMapper,
    RoundRobinMapper, TableMapper,
};
pub use table::{Choice, ChoiceTable, Layout, Nodes, TableError};
pub use topology::Topology;
pub use validate::{IllegalDecision, MapperError};
