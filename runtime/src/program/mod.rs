//! The calls that users make: the entry, the top-level task, inner tasks, shards and their launches. No protocol is in
//! here. A call is checked, put into the terms of the modules below, and handed to them.
//!
//! | module | contents |
//! |---|---|
//! | `runtime` | a run and its drivers |
//! | `top`, `inner`, `shard` | the three kinds of tasks that launch others |
//! | `launch`, `param`, `bytes`, `index`, `fold`, `apart`, `whole` | leaf tasks |
//! | `flow` | leaf tasks that the top-level task launches |
//! | `gang`, `launcher` | gangs and their launches |
//! | `edges`, `phase` | barriers between shards |
//! | `destroy` | what the top-level task can destroy |
//! | `region` | region trees, and a region as a shard holds it |
//! | `replay` | replayed objects |
//! | `deadline` | waits with a limit |
//! | `trace` | which process writes a trace |

mod apart;
pub(crate) mod bytes;
pub(crate) mod deadline;
pub(crate) mod destroy;
pub(crate) mod edges;
pub(crate) mod flow;
mod fold;
pub(crate) mod gang;
pub(crate) mod index;
pub(crate) mod inner;
pub(crate) mod launch;
pub(crate) mod launcher;
pub(crate) mod param;
pub(crate) mod phase;
pub(crate) mod region;
mod replay;
pub(crate) mod runtime;
pub(crate) mod shard;
pub(crate) mod top;
mod trace;
pub(crate) mod whole;
