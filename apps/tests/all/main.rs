//! The applications, on all drivers, against sequential code.

mod cg;
mod cholesky;
mod fft;

use maniple::runtime::{Runtime, VirtualMachine};

fn on(which: u32, seed: u64) -> Runtime {
    let nodes = 1 + seed as u32 % 7;
    match which % 3 {
        0 => Runtime::threads(1 + seed as u32 % 3),
        1 => Runtime::seeded(nodes, seed),
        _ => Runtime::virtual_time(VirtualMachine { nodes, per_node: 1 + nodes % 2, ..VirtualMachine::default() }),
    }
}
