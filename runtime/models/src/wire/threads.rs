//! The post office, without the threads and cores of the runtime.

#[path = "../../../src/wire/threads/drive.rs"]
pub mod drive;
#[path = "../../../src/wire/threads/idle.rs"]
pub mod idle;
#[path = "../../../src/wire/threads/inbox.rs"]
pub mod inbox;
#[path = "../../../src/wire/threads/outbox.rs"]
pub mod outbox;
#[path = "../../../src/wire/threads/post.rs"]
pub mod post;
#[path = "../../../src/wire/threads/slow.rs"]
pub mod slow;

pub use idle::counts;
