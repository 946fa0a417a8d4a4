//! Allreduces in a chain: each depends on the result of the one before, and no barrier is between them.

use super::run::{NAME, Workload};
use super::values::Op;
use crate::Failure;
use crate::micro::run_error;
use maniple::prelude::*;
use maniple::runtime::{Stats, now};
use maniple_collectives::Kind;
use maniple_collectives::{Algorithm, Order};
use std::sync::Arc;

/// A shard's contribution after a call with the result `last`. It is a whole number, so that every grouping gives the same bits.
pub fn own(op: Op, last: f64, shard: u32) -> f64 {
    match op {
        Op::Product if (last as i64 + i64::from(shard)) % 3 == 0 => -1.0,
        Op::Product => 1.0,
        Op::Sum | Op::Min | Op::Max => last.rem_euclid(97.0) + f64::from(shard),
    }
}

/// What the shards found.
pub struct Chained {
    /// The last result of each shard that takes part.
    pub results: Vec<f64>,
    /// The mean time of a call on each, in microseconds.
    pub times: Vec<f64>,
    /// The counts of the run.
    pub stats: Stats,
}

impl Workload {
    /// An allreduce of all shards by an algorithm, with its brackets.
    pub fn of_allreduce(shards: u32, elements: usize, iterations: usize, algorithm: Algorithm, op: Op) -> Self {
        let workload = Self::usual(Kind::Allreduce, shards, elements, op, iterations);
        Self { algorithm: Some(algorithm), order: Order::Any, ..workload }
    }

    /// The last result of the chain, without an allreduce.
    pub fn chained_result(&self) -> f64 {
        (0..self.warm_up + self.iterations).fold(1.0, |last, _| {
            let all = self.parties.participants.iter().map(|shard| own(self.op, last, shard));
            match self.op {
                Op::Sum => all.sum(),
                Op::Product => all.product(),
                Op::Min => all.fold(f64::INFINITY, f64::min),
                Op::Max => all.fold(f64::NEG_INFINITY, f64::max),
            }
        })
    }

    /// Makes the calls of an allreduce in a chain.
    pub fn chained(&self, runtime: &Runtime) -> Result<Chained, Error> {
        let workload = Arc::new(self.clone());
        let (found, stats) = runtime.run(move |top| {
            let workload = workload.clone();
            async move {
                let gang = top.gang("all", workload.parties.shards)?;
                let operator = workload.op.operator::<f64>();
                let builder = Collective::allreduce(operator).participants(workload.parties.participants.iter());
                let builder = workload.asked(builder);
                let on = match workload.elements {
                    1 => Link::One(builder.make(&top, &gang, NAME)?),
                    elements => Link::Many(builder.elements(elements).make(&top, &gang, NAME)?),
                };
                let task = top.register("calls", move |shard: Shard, (): ()| calls(shard, on, workload.clone()));
                top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
            }
        })?;
        let (results, ns): (Vec<f64>, Vec<u64>) = found.into_iter().flatten().unzip();
        let us = |ns: u64| ns as f64 / self.iterations as f64 / 1000.0;
        Ok(Chained { results, times: ns.into_iter().map(us).collect(), stats })
    }
}

/// The time of a call of an allreduce of 64-bit floats in a chain, on the shard that takes longest, in microseconds.
pub fn allreduce_us(
    runtime: &Runtime,
    shards: u32,
    elements: usize,
    iterations: usize,
    algorithm: Algorithm,
) -> Result<f64, Failure> {
    let workload = Workload::of_allreduce(shards, elements, iterations, algorithm, Op::Sum);
    let Chained { results, times, .. } = workload.chained(runtime).map_err(run_error)?;
    let expected = workload.chained_result();
    match results.iter().find(|result| **result != expected) {
        None => Ok(times.into_iter().fold(0.0, f64::max)),
        Some(result) => Err(Failure::Run(format!("not verified: expected {expected}, found {result}"))),
    }
}

/// The collective, of one element or of a vector.
#[derive(Clone, Copy)]
enum Link {
    One(Collective<f64>),
    Many(Collective<[f64]>),
}

/// Makes the calls of a shard. Returns the last result, and the nanoseconds of the calls that are measured.
///
/// Only one element of a vector differs from 0, a different one in each call, and the result is the next contribution. So
/// nothing outside the call takes time proportional to its length.
///
/// One more call follows that does not count. It ends when all shards have measured, so no shard sends its result and
/// ends while another still measures.
async fn calls(shard: Shard, on: Link, workload: Arc<Workload>) -> Result<Option<(f64, u64)>, Error> {
    if !workload.parties.participants.contains(shard.index()) {
        return Ok(None);
    }
    let (mut last, mut start) = (1.0, now());
    let mut all = vec![0.0; workload.elements];
    for call in 0..workload.warm_up + workload.iterations {
        if call == workload.warm_up {
            start = now();
        }
        let own = own(workload.op, last, shard.index());
        match on {
            Link::One(on) => last = on.call(&shard, own)?.await?,
            Link::Many(on) => {
                let at = call % workload.elements;
                all[at] = own;
                all = on.call(&shard, all)?.take().await?.into_vec();
                last = std::mem::take(&mut all[at]);
            }
        }
    }
    let ns = (now() - start).as_nanos() as u64;
    let wrong = all.iter().any(|v| *v != 0.0);
    match on {
        Link::One(on) => drop(on.call(&shard, last)?.await?),
        Link::Many(on) => drop(on.call(&shard, all)?.await?),
    }
    Ok(Some((if wrong { f64::NAN } else { last }, ns)))
}
