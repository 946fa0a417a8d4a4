//! How commands measure, and what they keep of it: who has the next turn, which measurements noise has spoilt, the yardstick
//! beside them, samples with the machine they are of, and the pages and plots of a report.

pub mod directory;
pub mod environment;
pub mod noise;
pub mod page;
pub mod plot;
pub mod samples;
pub mod stats;
pub mod turns;
pub mod yardstick;
