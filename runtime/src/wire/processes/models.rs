//! Models of the protocols between processes in loom. The processes of a model are threads, and [`segment`] stands for the
//! memory that they share. All other files are the real ones.

// Models use only a part of these files.
#![allow(dead_code)]

mod agreement;
#[path = "channel_model.rs"]
mod channel;
mod link;
#[path = "link_models.rs"]
mod link_models;
mod lobby;
mod packet;
#[path = "ring_models.rs"]
mod ring_models;
mod rings;
#[path = "segment_model.rs"]
mod segment;
mod segments;

fn host() -> String {
    "this host".into()
}
