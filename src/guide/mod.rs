//! The guide: each chapter explains one task, with code that runs.
//!
//! | chapter | what you learn |
//! |---|---|
//! | [A first program](first_program) | write, run and check a program of four shards |
//! | [Shards, regions and barriers](regions_and_barriers) | give shards data, order their tasks, send values along edges |
//! | [Values that move](values) | keep state that is no region, and hand it from task to task without a copy |
//! | [Halos](halos) | exchange the cells around a block with its neighbours |
//! | [Flows](flows) | launch tasks on all nodes from the top-level task, and know when that is better than shards |
//! | [Output and restart](output) | save data to files that Python reads, and go on from where an earlier run stopped |
//! | [Collectives](collectives) | combine values of all shards |
//! | [Results in parts](parts) | start tasks on a block of a result as soon as it has come |
//! | [An algorithm of your own](own_algorithm) | write the steps of a collective, and have them proved |
//! | [Mappers and plugins](mappers) | decide where shards, tasks and data go |
//! | [Workers and binding](workers) | choose the threads of a run and pin them |
//! | [Processes and hosts](processes) | run a program on several processes, and on a cluster |
//! | [Traces](traces) | see what a run did, and when |
//! | [When it hangs or fails](when_it_hangs) | read the report of a program that can't go on, and know who learns of a failure |
//! | [Races](races) | find tasks that use the same data in no order |
//! | [Explore](explore) | run a program under many orders of its messages and tasks |
//! | [Virtual time](virtual_time) | run a program on a machine that you do not have |
//! | [For MPI users](for_mpi_users) | find MPI's terms here, and compare with MPI |
//! | [Measuring](measuring) | measure an operation, an application, and how it scales |
//!
//! Commands such as `maniple stencil` need the program: install it with `cargo install --path command` in a checkout, or
//! write `cargo run --release --bin maniple --` in place of `maniple`.

#[doc = include_str!("first_program.md")]
pub mod first_program {}

#[doc = include_str!("regions_and_barriers.md")]
pub mod regions_and_barriers {}

#[doc = include_str!("values.md")]
pub mod values {}

#[doc = include_str!("halos.md")]
pub mod halos {}

#[doc = include_str!("flows.md")]
pub mod flows {}

#[doc = include_str!("output.md")]
pub mod output {}

#[doc = include_str!("collectives.md")]
pub mod collectives {}

#[doc = include_str!("parts.md")]
pub mod parts {}

#[doc = include_str!("own_algorithm.md")]
pub mod own_algorithm {}

#[doc = include_str!("mappers.md")]
pub mod mappers {}

#[doc = include_str!("workers.md")]
pub mod workers {}

#[doc = include_str!("processes.md")]
pub mod processes {}

#[doc = include_str!("traces.md")]
pub mod traces {}

#[doc = include_str!("when_it_hangs.md")]
pub mod when_it_hangs {}

#[doc = include_str!("races.md")]
pub mod races {}

#[doc = include_str!("explore.md")]
pub mod explore {}

#[doc = include_str!("virtual_time.md")]
pub mod virtual_time {}

#[doc = include_str!("for_mpi_users.md")]
pub mod for_mpi_users {}

#[doc = include_str!("measuring.md")]
pub mod measuring {}
