//! A mapper that measures: leaf tasks that have taken long go to the processors of the node in turn, short ones stay with
//! their shard. Option: `longer-than=N`, in microseconds.

use maniple_mapper::{LeafInput, LeafOutput, Mapper, ProfileInput};
use std::collections::HashMap;
use std::sync::Mutex;

/// How often each kind of task is measured.
const SAMPLES: u64 = 16;

struct Measuring {
    longer_than_ns: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of each kind of task, how many were measured, and the nanoseconds of all of them.
    kinds: HashMap<String, (u64, u64)>,
    turn: usize,
}

impl Measuring {
    fn new(options: &str) -> Result<Self, String> {
        let microseconds: u64 = match options.split_once('=') {
            None if options.is_empty() => 50,
            Some(("longer-than", n)) => n.parse().map_err(|_| format!("expected a number, found `{n}`"))?,
            _ => return Err("expected longer-than=N, in microseconds".into()),
        };
        Ok(Self { longer_than_ns: microseconds.saturating_mul(1000), state: Mutex::default() })
    }
}

impl Mapper for Measuring {
    fn name(&self) -> &str {
        "measuring"
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut out = LeafOutput::local(input);
        let mut state = self.state.lock().unwrap();
        let (samples, ns) = state.kinds.get(input.task).copied().unwrap_or_default();
        out.profile = samples < SAMPLES;
        if !out.profile && ns / samples > self.longer_than_ns {
            let mut node = input.machine.leaf_processors_of(input.machine.node_of(input.processor));
            state.turn = (state.turn + 1) % node.len();
            out.processor = node.nth(state.turn).unwrap_or(out.processor);
        }
        out
    }

    fn profile(&self, input: &ProfileInput<'_>) {
        let mut state = self.state.lock().unwrap();
        let (samples, ns) = state.kinds.entry(input.task.into()).or_default();
        *samples += 1;
        *ns += input.ran_ns;
    }
}

maniple_plugin::export_mapper!(Measuring::new);
