//! A replayed object with a single kind of round: two shards exchange their values, again and again.

use maniple::prelude::*;
use maniple_runtime::replay::{Chained, Handle, LARGE, Replay, ReplayCx, ReplaySpec, RunningValue, Subtask};
use maniple_runtime::{Lent, Resolver};
use std::sync::Arc;

/// The most calls under way.
const SLOTS: u32 = 3;

/// Whether the incoming value is the lower or the higher operand.
const LOWER: u8 = 0;
const HIGHER: u8 = 1;

/// The object: each shard exchanges `rounds` times with the same partner.
struct Spec {
    rounds: u16,
    /// The length of each value.
    elements: usize,
    partners: Vec<u32>,
}

impl ReplaySpec for Spec {
    fn name(&self) -> &str {
        "rounds"
    }
    fn slots(&self) -> u32 {
        SLOTS
    }
    fn cells(&self, _: u32) -> u32 {
        self.rounds.into()
    }
    fn cell_bytes(&self) -> usize {
        self.elements * size_of::<f64>()
    }
    fn subtasks(&self, shard: u32) -> Vec<Subtask> {
        let peer = self.partners[shard as usize];
        let how = if peer < shard { LOWER } else { HIGHER };
        // A large value is changed in the vector that was lent two updates ago.
        let before = |at: u16| Subtask::Await { update: (at + self.rounds - 1) % self.rounds };
        let round = |at| {
            let large = (self.cell_bytes() > LARGE).then_some(before(at));
            let update = Subtask::Update { peer, at, part: 0 };
            [update].into_iter().chain(large).chain([Subtask::Read { peer, at, part: 0, how }])
        };
        (0..self.rounds).flat_map(round).collect()
    }
    fn materialise(&self, shards: &[u32], _: bool) -> Box<dyn Chained> {
        let large = || (self.elements > 1).then(|| Box::new(Large::new(self.elements)));
        let chains =
            (0..shards.len() * self.slots() as usize).map(|_| Chain { large: large(), ..Chain::default() }).collect();
        Box::new(Values { chains, operator: Operator::sum() })
    }
}

/// Makes an object with values of so many elements. Each shard has a partner among the `near` shards of its processor, an
/// even number. Collective (top level).
///
/// Partners are drawn at random, but always the same ones. So their data are as far apart as with many partners, and it is as
/// hard to foresee whether one waits for the other.
pub fn rounds(top: &Top, gang: &Gang, rounds: u16, elements: usize, near: u32) -> Result<Handle, Error> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |n: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % n
    };
    let mut partners = vec![0; gang.shards() as usize];
    for first in (0..gang.shards()).step_by(near as usize) {
        let mut left: Vec<u32> = (first..first + near).collect();
        while let Some(one) = left.pop() {
            let other = left.swap_remove(draw(left.len()));
            (partners[one as usize], partners[other as usize]) = (other, one);
        }
    }
    top.replayed(gang, Arc::new(Spec { rounds, elements, partners }))
}

/// Calls the object with a value. After each round the value is the sum of both partners' values.
pub fn call(shard: &Shard, object: Handle, value: f64) -> Result<TaskFuture<f64>, Error> {
    shard.replay(
        object,
        |_, _| Ok(None),
        |values: &mut Values, (position, count), cx| {
            let number = SLOTS * position + (count % u64::from(SLOTS)) as u32;
            let chain = &mut values.chains[number as usize];
            let future = match &mut chain.output {
                Some(output) => output.renew(),
                None => {
                    let (resolver, future) = TaskFuture::pending();
                    chain.output = Some(resolver);
                    future
                }
            };
            chain.value = value;
            if let Some(large) = &mut chain.large {
                Arc::make_mut(&mut large.value).fill(value);
            }
            cx.begin(values, number);
            future
        },
    )
}

/// Calls the object with a value that is to come. The last call but two must be over.
pub fn feed(shard: &Shard, object: Handle, input: &TaskFuture<f64>) -> Result<TaskFuture<f64>, Error> {
    let Input::Later(input) = Input::from(input) else { unreachable!("made of a future") };
    shard.replay(
        object,
        |_, _| Ok(None),
        |values: &mut Values, (position, count), cx| {
            let number = SLOTS * position + (count % u64::from(SLOTS)) as u32;
            let (resolver, future) = TaskFuture::pending();
            let chain = &mut values.chains[number as usize];
            (chain.input, chain.output) = (Some(input), Some(resolver));
            cx.submit(values, number);
            future
        },
    )
}

/// A value of many elements. An incoming value is combined into the other vector, since the value itself is lent.
struct Large {
    value: Arc<Vec<f64>>,
    other: Arc<Vec<f64>>,
}

impl Large {
    fn new(elements: usize) -> Self {
        let zeros = || Arc::new(vec![0.0; elements]);
        Self { value: zeros(), other: zeros() }
    }
}

#[derive(Default)]
struct Chain {
    value: f64,
    /// The value, if it is large.
    large: Option<Box<Large>>,
    /// The future of the value, until it is there.
    input: Option<TaskFuture<f64>>,
    output: Option<Resolver<f64>>,
}

struct Values {
    chains: Vec<Chain>,
    operator: Operator<f64>,
}

struct Running<'a> {
    value: &'a mut f64,
    large: Option<&'a mut Large>,
    operator: &'a Operator<f64>,
}

impl RunningValue for Running<'_> {
    fn size(&self, part: u16) -> usize {
        self.bytes(part).len()
    }
    fn bytes(&self, _: u16) -> &[u8] {
        match &self.large {
            Some(large) => bytemuck::cast_slice(&large.value),
            None => bytemuck::bytes_of(&*self.value),
        }
    }
    fn lend(&mut self, _: u16) -> Arc<dyn Lent> {
        match &self.large {
            Some(large) => large.value.clone(),
            None => Arc::new(vec![*self.value]),
        }
    }
    fn combine(&mut self, _: u16, how: u8, incoming: &[u8]) {
        if let Some(Large { value, other }) = self.large.as_deref_mut() {
            let incoming: &[f64] = bytemuck::cast_slice(incoming);
            let (lower, higher) = if how == LOWER { (incoming, &value[..]) } else { (&value[..], incoming) };
            self.operator.fold_into(Arc::<Vec<f64>>::make_mut(other).as_mut_slice(), lower, higher);
            return std::mem::swap(value, other);
        }
        let (value, incoming) = (std::slice::from_mut(self.value), [bytemuck::pod_read_unaligned(incoming)]);
        if how == LOWER {
            self.operator.fold_lower(value, &incoming)
        } else {
            self.operator.fold_higher(value, &incoming)
        }
    }
}

impl Replay for Values {
    type Running<'a> = Running<'a>;

    fn running(&mut self, chain: u32) -> Running<'_> {
        let Chain { value, large, .. } = &mut self.chains[chain as usize];
        Running { value, large: large.as_deref_mut(), operator: &self.operator }
    }
    fn waits(&mut self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        self.chains[chain as usize].input.as_ref().is_some_and(|input| cx.start_after(chain, input))
    }
    fn begin(&mut self, chain: u32, _shard: impl FnOnce() -> u32) -> Result<bool, Error> {
        let Chain { value, input, .. } = &mut self.chains[chain as usize];
        let Some(came) = input.as_ref().and_then(TaskFuture::input) else {
            return Ok(false);
        };
        // Never 0: the stencil's task divides by its root.
        (*value, *input) = (came?.max(1.0), None);
        Ok(true)
    }
    fn end(&mut self, chain: u32, outcome: Result<(), Box<Error>>, cx: &mut ReplayCx<'_>) -> bool {
        let Chain { value, output, .. } = &self.chains[chain as usize];
        if let Some(output) = output {
            cx.resolve(chain, output, outcome.map(|()| *value).map_err(|e| *e));
        }
        false
    }
}
