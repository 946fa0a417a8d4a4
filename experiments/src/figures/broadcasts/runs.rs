//! The runs: a tile that goes to several nodes, and Cholesky factorisations of tiles that stand for larger ones.

use crate::figures::runs::Job;
use maniple::mapper::{DefaultMapper, Mapper, Route, RouteInput};
use maniple::runtime::{Runtime, Stats, UnderWay, VirtualMachine};
use maniple_apps::broadcast;
use maniple_apps::cholesky::{self, Matrix, Problem};
use maniple_command::Failure;
use maniple_stencil::plural;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The rows and columns of a tile of the factorisation, of numbers of 64 bits.
pub const TILE: usize = 320;

/// The bytes that are sent in Figure 2.
pub const BYTES: usize = 8_000_000;

/// How large messages leave a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Its name.
    pub name: &'static str,
    /// Along a binomial tree, or else all from their node.
    pub tree: bool,
    /// How many leave at a time.
    pub under_way: UnderWay,
    /// Whether tasks and messages that others wait for come first.
    pub by_priority: bool,
}

/// The program of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A tile goes to so many nodes.
    Tile(usize),
    /// A matrix of so many rows of tiles is factored, with a window of so many tasks.
    Cholesky {
        /// The rows of tiles.
        tiles: usize,
        /// The window.
        window: u32,
    },
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The machine, with its nodes.
    pub machine: VirtualMachine,
    /// The program.
    pub work: Work,
    /// How it sends.
    pub way: Way,
}

/// What a run took.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// Its time.
    pub seconds: f64,
    /// Recipients that were not known when the message before left.
    pub late: u64,
    /// The most recipients of a message.
    pub most: usize,
}

/// Answers with one route, and notes the most recipients.
#[derive(Debug)]
struct Routed {
    tree: bool,
    most: AtomicUsize,
}

impl Mapper for Routed {
    fn name(&self) -> &str {
        "routed"
    }
    fn base(&self) -> &dyn Mapper {
        &DefaultMapper
    }
    fn route(&self, input: &RouteInput<'_>) -> Route {
        self.most.fetch_max(input.recipients.len(), Ordering::Relaxed);
        if self.tree { Route::Binomial } else { Route::Linear }
    }
}

/// How often a tile has to go to a node that has computed another one, if the tiles are dealt to a square of nodes.
pub fn needed(tiles: usize, nodes: u32) -> usize {
    let side = nodes.isqrt() as usize;
    let node = |i: usize, j: usize| (i % side, j % side);
    let of = |i: usize, k: usize| {
        // The factor's tile on the diagonal is for those below it, and one of those for its row and its column.
        let below = (k + 1..tiles).filter(move |_| i == k).map(move |m| node(m, k));
        let row = (k + 1..=i).map(move |j| node(i, j));
        let column = (i + 1..tiles).filter(move |_| i > k).map(move |m| node(m, i));
        let users: HashSet<_> = below.chain(row).chain(column).filter(|user| *user != node(i, k)).collect();
        users.len()
    };
    (0..tiles).flat_map(|k| (k..tiles).map(move |i| of(i, k))).sum()
}

impl Job for Run {
    type Took = Took;

    fn size(&self) -> String {
        let nodes = plural(self.machine.nodes as usize, "node");
        match self.work {
            Work::Tile(recipients) => format!("a tile to {}", plural(recipients, "node")),
            Work::Cholesky { tiles, .. } => format!("{tiles} × {tiles} tiles on {nodes}"),
        }
    }

    // A node knows where each tile is, and has a window of tasks.
    fn most_bytes(&self) -> u128 {
        let of_node = match self.work {
            Work::Tile(_) => 0,
            Work::Cholesky { tiles, window } => tiles as u128 * tiles as u128 * 400 + u128::from(window) * 1000,
        };
        u128::from(self.machine.nodes) * (of_node + 100_000)
    }

    fn run(&self) -> Result<Took, Failure> {
        let Self { machine, work, way } = self;
        let mapper = Arc::new(Routed { tree: way.tree, most: AtomicUsize::new(0) });
        let runtime = Runtime::virtual_time(machine.clone()).mapper(mapper.clone()).under_way(way.under_way);
        let took = |seconds, stats: &Stats| Took {
            seconds,
            late: stats.found_late,
            most: mapper.most.load(Ordering::Relaxed),
        };
        let wrong = |what: String| Failure::Run(format!("{} on `{}`, {}: {what}", self.size(), machine.name, way.name));
        match *work {
            Work::Tile(recipients) => {
                let nodes = u32::try_from(recipients).map_err(|_| wrong("too many nodes".into()))?;
                let found = broadcast::run(&runtime, nodes, 1, BYTES).map_err(|e| wrong(e.to_string()))?;
                match found.verified {
                    true => Ok(took(found.time.as_secs_f64(), &found.stats)),
                    false => Err(wrong("a node has other values".into())),
                }
            }
            Work::Cholesky { tiles, window } => {
                let (by_priority, stands_for) = (way.by_priority, TILE * TILE * size_of::<f64>());
                let problem =
                    Problem { window, by_priority, stands_for, ..Problem::new(Matrix::<f64>::generated(tiles), 1) };
                let found = cholesky::run(&runtime, &problem).map_err(|e| wrong(e.to_string()))?;
                let needed = needed(tiles, machine.nodes);
                match found.stats.recipients {
                    sent if sent == needed as u64 => Ok(took(found.time.as_secs_f64(), &found.stats)),
                    sent => Err(wrong(format!(
                        "expected {needed} transfers, one for each node that needs a tile, found {sent}"
                    ))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::broadcasts::WAYS;
    use maniple_command::machines::file::MachineFile;
    use std::collections::HashMap;

    /// Goes through the tasks and notes who has the present values of a tile.
    #[test]
    fn a_tile_goes_once_to_each_node_that_needs_it() {
        for (tiles, side) in [(1, 2), (2, 2), (5, 2), (7, 3), (12, 4)] {
            let (mut has, mut sent) = (HashSet::new(), 0);
            let mut version: HashMap<(usize, usize), usize> = HashMap::new();
            let mut task = |reads: &[(usize, usize)], writes: (usize, usize)| {
                let node = (writes.0 % side, writes.1 % side);
                for tile in reads {
                    let version = version.get(tile).copied().unwrap_or(0);
                    let own = node == (tile.0 % side, tile.1 % side);
                    sent += usize::from(!own && has.insert((*tile, version, node)));
                }
                *version.entry(writes).or_default() += 1;
            };
            for k in 0..tiles {
                task(&[], (k, k));
                (k + 1..tiles).for_each(|i| task(&[(k, k)], (i, k)));
                for i in k + 1..tiles {
                    (k + 1..=i).for_each(|j| task(&[(i, k), (j, k)], (i, j)));
                }
            }
            assert_eq!(needed(tiles, (side * side) as u32), sent, "{tiles} tiles, {side} × {side} nodes");
        }
    }

    /// Full tiles, with the real kernels, take as long as numbers that stand for them.
    #[test]
    fn a_number_that_stands_for_a_tile_takes_as_long() {
        let file = MachineFile::load("inti").unwrap_or_else(|e| panic!("{e:?}"));
        // Large enough to leave one at a time.
        const SIDE: usize = 96;
        for way in &WAYS {
            let run = |matrix, tile, stands_for| {
                let mapper = Arc::new(Routed { tree: way.tree, most: AtomicUsize::new(0) });
                let machine = file.machine(Some(4), 1);
                let runtime = Runtime::virtual_time(machine).mapper(mapper).under_way(way.under_way);
                let problem = Problem { stands_for, by_priority: way.by_priority, ..Problem::new(matrix, tile) };
                let found = cholesky::run(&runtime, &problem).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(found.failure, None);
                found.time.as_secs_f64()
            };
            let full = run(Matrix::<f64>::generated(6 * SIDE), SIDE, 0);
            let standing = run(Matrix::<f64>::generated(6), 1, SIDE * SIDE * 8);
            assert!((standing / full - 1.0).abs() < 0.05, "{}: {standing} s, {full} s at full size", way.name);
        }
    }
}
