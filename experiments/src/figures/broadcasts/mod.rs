//! Figures 2, 4 and 5 of "Using Dynamic Broadcasts to improve Task-Based Runtime Performances": broadcasts that are found in a flow
//! of tasks.

mod runs;

use runs::Way;
use maniple::runtime::UnderWay;

/// Figures 4 and 5: the machine, the nodes, and the largest gain in the paper, in percent.
const CLUSTERS: [(&str, u32, f64); 3] = [("plafrim", 16, 25.0), ("inti", 64, 20.0), ("inti", 100, 30.0)];

/// Rows of tiles of the matrices.
const TILES: [usize; 12] = [10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 140, 200];

/// The largest matrices that are among those of which a gain is the largest, and that have bands.
const BANDED: usize = 100;

/// The most nodes that get a tile in Figure 2.
const RECIPIENTS: [usize; 13] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 99];

/// Windows, and the rows of tiles and the nodes with which they are compared.
const WINDOWS: [u32; 9] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const WITH_WINDOWS: (usize, u32) = (60, 64);

/// The ways to send, in the order of results.
const WAYS: [Way; 6] = [
    Way { name: "one to each peer, linear", tree: false, under_way: UnderWay::ToEachPeer, by_priority: true },
    Way { name: "one to each peer, binomial", tree: true, under_way: UnderWay::ToEachPeer, by_priority: true },
    Way { name: "one, linear", tree: false, under_way: UnderWay::InAll(1), by_priority: true },
    Way { name: "one, binomial", tree: true, under_way: UnderWay::InAll(1), by_priority: true },
    Way { name: "one, linear, no priorities", tree: false, under_way: UnderWay::InAll(1), by_priority: false },
    Way { name: "one, binomial, no priorities", tree: true, under_way: UnderWay::InAll(1), by_priority: false },
];
