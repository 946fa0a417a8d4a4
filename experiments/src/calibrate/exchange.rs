//! A replayed object of one kind of round only: two shards give each other their values, again and again.

use maniple::prelude::*;
use maniple::runtime::Resolver;
use maniple::runtime::replay::{Chained, Replay, ReplayCx, ReplaySpec, RunningValue, Subtask};
use std::sync::Arc;

/// The object: shard s exchanges `rounds` times with shard s xor 1.
struct Spec {
    rounds: u16,
}

impl ReplaySpec for Spec {
    fn name(&self) -> &str {
        "rounds"
    }
    fn slots(&self) -> u32 {
        2
    }
    fn cells(&self) -> u32 {
        self.rounds.into()
    }
    fn cell_bytes(&self) -> usize {
        size_of::<f64>()
    }
    fn subtasks(&self, shard: u32) -> Vec<Subtask> {
        let peer = shard ^ 1;
        let round = |at| [Subtask::Update { peer, at }, Subtask::Read { peer, at, how: 0 }];
        (0..self.rounds).flat_map(round).collect()
    }
    fn materialise(&self, shards: u32) -> Box<dyn Chained> {
        Box::new(Values((0..shards * self.slots()).map(|_| Chain::default()).collect()))
    }
}

/// Makes one. Collective (top level).
pub fn rounds(top: &Top, gang: &Gang, rounds: u16) -> Result<u32, Error> {
    top.replayed(gang, Arc::new(Spec { rounds }))
}

/// Gives a value to the other shard; what it has after all rounds: in each, the larger of the two and a half more.
pub fn call(shard: &Shard, object: u32, value: f64) -> Result<TaskFuture<f64>, Error> {
    shard.replay(object, |values: &mut Values, (position, count), cx| {
        let number = 2 * position + (count % 2) as u32;
        let chain = &mut values.0[number as usize];
        let future = match &mut chain.output {
            Some(output) => output.renew(),
            None => {
                let (resolver, future) = TaskFuture::pending();
                chain.output = Some(resolver);
                future
            }
        };
        chain.value = value;
        cx.begin(values, number);
        future
    })
}

#[derive(Default)]
struct Chain {
    value: f64,
    output: Option<Resolver<f64>>,
}

struct Values(Vec<Chain>);

struct Running<'a>(&'a mut f64);

impl RunningValue for Running<'_> {
    fn bytes(&self) -> &[u8] {
        bytemuck::bytes_of(&*self.0)
    }
    fn combine(&mut self, _how: u8, incoming: &[u8]) {
        *self.0 = self.0.max(bytemuck::pod_read_unaligned(incoming)) + 0.5;
    }
}

impl Replay for Values {
    type Running<'a> = Running<'a>;

    fn running(&mut self, chain: u32) -> Running<'_> {
        Running(&mut self.0[chain as usize].value)
    }
    fn begin(&mut self, _chain: u32, _shard: impl FnOnce() -> u32) -> Result<bool, Error> {
        Ok(false)
    }
    fn end(&mut self, chain: u32, outcome: Result<(), Box<Error>>, cx: &mut ReplayCx<'_>) {
        let Chain { value, output } = &self.0[chain as usize];
        if let Some(output) = output {
            cx.resolve(chain, output, outcome.map(|()| *value).map_err(|e| *e));
        }
    }
    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        if let Some(output) = self.0[chain as usize].output.take() {
            cx.resolve(chain, &output, Err(error));
        }
    }
    fn awaits_input(&self, _chain: u32) -> bool {
        false
    }
}
