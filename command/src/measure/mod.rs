//! How commands measure: the order of turns, the rule for noise, the yardstick, and statistics. And how they keep results:
//! samples with a description of the machine, and the pages and plots of a report.

pub mod directory;
pub mod environment;
pub mod noise;
pub mod page;
pub mod plot;
pub mod samples;
pub mod stats;
pub mod turns;
pub mod yardstick;
