//! One tile that goes to several nodes: what the broadcasts that are found in a flow take (Denis et al., "Using Dynamic Broadcasts
//! to improve Task-Based Runtime Performances", section 5.1).

use maniple::mapper::NodeId;
use maniple::prelude::*;
use maniple::runtime::{Stats, now};
use std::time::Duration;

const TILE: Field<u64> = Field::new(0, "tile");

/// What a run gave.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The time from the first launch until the tasks of all nodes have ended, by the run's own clock.
    pub time: Duration,
    /// Whether each node got the values.
    pub verified: bool,
    /// The runtime's counters.
    pub stats: Stats,
}

/// Sends a tile from the first node to each of the next `nodes` ones, where a task reads it. The tile has `elements` numbers of 64
/// bits, which stand for `bytes` bytes in virtual time. May wait.
///
/// # Errors
/// Those of the runtime: a run with fewer nodes, for example.
pub fn run(runtime: &Runtime, nodes: u32, elements: u32, bytes: usize) -> Result<Outcome, Error> {
    let ((time, verified), stats) = runtime.run(move |top| async move {
        let stands_for = bytes / elements.max(1) as usize;
        let tile = top.region_tree("tile", Rect::line(0, elements.into()), &[TILE.info().standing_for(stands_for)])?;
        let tile = top.region(tile)?;
        let set = |mut tile: Write<u64>| tile.fill_with(|[at]| at as u64 + 1);
        top.launch(set, (tile.write(TILE),)).on(NodeId(0)).named("set").go()?.detach();
        top.done().await?;
        let began = now();
        let mut sums = Vec::new();
        for node in 1..=nodes {
            let sum = |tile: Read<u64>| tile.as_slice().iter().sum::<u64>();
            sums.push(top.launch(sum, (tile.read(TILE),)).on(NodeId(node)).named("read").go()?);
        }
        top.done().await?;
        let (time, mut verified) = (now() - began, true);
        let elements = u64::from(elements);
        for sum in sums {
            verified &= sum.await? == elements * (elements + 1) / 2;
        }
        Ok((time, verified))
    })?;
    Ok(Outcome { time, verified, stats })
}
