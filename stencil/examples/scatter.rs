//! The cost of a mapper: the stencil with the default mapper, and with one that scatters shards and tasks.
//!
//! `Scatter` deals shards out like cards and sends each leaf task to another processor. Then every neighbour is on another
//! processor, and each leaf task goes there and back. So an iteration takes longer, with the same bits in the result.
//!
//! Arguments: shards, workers, pairs of runs (16 2 21 by default).

use maniple::mapper::{DefaultMapper, LeafInput, LeafOutput, Mapper, PlaceShardsInput, Placement};
use maniple::runtime::Runtime;
use maniple_stencil::reference::BlockCheck;
use maniple_stencil::{Blocks, Collective, Problem, StencilError, simulate};
use std::sync::Arc;

struct Scatter;

impl Mapper for Scatter {
    fn name(&self) -> &str {
        "scatter"
    }

    fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
        Placement::Cyclic
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut node = input.machine.leaf_processors_of(input.machine.node_of(input.processor));
        let others = node.clone().position(|p| p == input.processor).unwrap_or(0) + 1;
        let next = others % node.len();
        LeafOutput { processor: node.nth(next).unwrap_or(input.processor), ..LeafOutput::local(input) }
    }
}

const CELLS: usize = 1000;
const ITERATIONS: usize = 200;

/// Hashes of the blocks of the last vector, and the median time of an iteration in microseconds.
fn run(shards: usize, workers: u32, mapper: Arc<dyn Mapper>) -> Result<(Vec<BlockCheck>, f64), StencilError> {
    let problem = Problem::from_mode(&Blocks::uniform(shards, CELLS)?, ITERATIONS);
    let output = simulate(&Runtime::threads(workers).mapper(mapper), Collective::RecursiveDoubling, &problem)?;
    Ok((output.checks, median(output.iteration_us)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let mut argument = |usual| given.next().unwrap_or(Ok(usual));
    let (shards, workers, pairs) = (argument(16)?, argument(2)? as u32, argument(21)?.max(1));
    let (mut times, mut scattered, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..pairs {
        let (expected, usual) = run(shards, workers, Arc::new(DefaultMapper))?;
        let (came, other) = run(shards, workers, Arc::new(Scatter))?;
        if came != expected {
            return Err("a mapper has changed the result".into());
        }
        times.push(usual);
        scattered.push(other);
        ratios.push(other / usual);
    }
    let (usual, other, ratio) = (median(times), median(scattered), median(ratios));
    println!("an iteration of {shards} shards: default {usual:.2} µs, scatter {other:.2} µs, ratio {ratio:.2}");
    Ok(())
}
