//! Tests of whole runs that look at what is private.

mod races;
mod replicas;
