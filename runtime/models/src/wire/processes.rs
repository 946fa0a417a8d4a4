//! The protocols between processes. The processes of a model are threads, and [`segment`] stands for the memory that they
//! share.

#[path = "../../../src/wire/processes/agreement.rs"]
pub mod agreement;
#[path = "../../../src/wire/processes/link.rs"]
pub mod link;
#[path = "../../../src/wire/processes/lobby.rs"]
pub mod lobby;
#[path = "../../../src/wire/processes/packet.rs"]
pub mod packet;
#[path = "../../../src/wire/processes/rings.rs"]
pub mod rings;
pub mod segment;
#[path = "../../../src/wire/processes/segments.rs"]
pub mod segments;

fn host() -> String {
    "this host".into()
}
