//! What tests of races in several crates share by this path: the accesses that nothing orders.

use std::collections::HashSet;

/// A task's shard, cells, and whether it writes.
pub type Side = (u32, (i64, i64), bool);

/// The pairs of leaves on overlapping cells, one of which writes, that nothing orders: by the closure of a program's graph, in
/// which each leaf has a node.
pub fn unordered(nodes: usize, edges: &[(usize, usize)], leaves: &[(Side, usize)]) -> HashSet<(Side, Side)> {
    let mut reach = vec![vec![false; nodes]; nodes];
    edges.iter().for_each(|&(a, b)| reach[a][b] = true);
    for k in 0..nodes {
        for i in 0..nodes {
            for j in 0..nodes {
                reach[i][j] |= reach[i][k] && reach[k][j];
            }
        }
    }
    let mut pairs = HashSet::new();
    for (a, i) in leaves {
        for (b, j) in leaves {
            let overlap = a.1.0.max(b.1.0) < a.1.1.min(b.1.1);
            if i != j && overlap && (a.2 || b.2) && !reach[*i][*j] && !reach[*j][*i] {
                pairs.insert((*a, *b));
            }
        }
    }
    pairs
}
