//! The interpreter's part for collectives: the results of calls, and who gets errors in place of them.

use crate::joint::{IDENTITY, Joint, OperatorKind};
use crate::oracle::{Cause, Known};
use crate::play::{Play, blown};
use crate::program::{Number, Step};
use crate::values::{composed, contribution, joined};
use maniple::collectives::Kind;
use std::collections::{BTreeSet, VecDeque};

/// The calls of a collective in one launch.
pub struct Calls {
    /// The number of calls.
    made: usize,
    /// Those whose results nobody has asked for.
    pending: VecDeque<PendingCall>,
    /// For each slot, the position from which on contributors are stuck in an earlier call.
    stuck: Vec<Option<usize>>,
}

struct PendingCall {
    /// The contributions, by position.
    inputs: Vec<Known>,
    /// The position from which on its slot is never free.
    stuck: Option<usize>,
}

impl Calls {
    pub fn of(joint: &Joint) -> Self {
        Self { made: 0, pending: VecDeque::new(), stuck: vec![None; joint.slots as usize] }
    }
}

impl Play<'_> {
    /// Each shard's part in a call.
    pub fn call(&mut self, which: usize, number: Number, bomb: Option<(u32, u32)>) {
        let call = self.contributed(which, number, bomb);
        self.results(which, &call, false);
    }

    /// Each contributor's part in a call whose results are asked for later.
    pub fn contribute(&mut self, which: usize, number: Number, bomb: Option<(u32, u32)>) {
        let call = self.contributed(which, number, bomb);
        self.joints[which].pending.push_back(call);
    }

    /// The results of the oldest such call.
    pub fn receive(&mut self, which: usize) {
        if let Some(call) = self.joints[which].pending.pop_front() {
            self.results(which, &call, true);
        }
    }

    fn contributed(&mut self, which: usize, number: Number, bomb: Option<(u32, u32)>) -> PendingCall {
        let input = |&s: &u32| match self.since[s as usize] {
            Some((cause, _)) => Known::never(&[cause].into()),
            None => blown(self.shards[s as usize].number(number), bomb, s),
        };
        let inputs: Vec<Known> = self.stage.joints[which].contributors.iter().map(input).collect();
        let calls = &mut self.joints[which];
        let slot = calls.made % calls.stuck.len();
        calls.made += 1;
        let stuck = calls.stuck[slot];
        let first = inputs.iter().position(Known::is_stuck);
        // After a call that failed, the next finds everything in order. After one that is stuck, the slot is not free.
        calls.stuck[slot] = stuck.into_iter().chain(first).min();
        PendingCall { inputs, stuck }
    }

    /// Gives each shard that takes part its result, and news of the end of its part. `split` says whether all that
    /// contribute have news.
    fn results(&mut self, which: usize, call: &PendingCall, split: bool) {
        let joint = &self.stage.joints[which];
        let may = self.spread(joint);
        let known: Vec<Known> = (0..joint.receivers.len()).map(|to| result(joint, call, to).may(&may)).collect();
        let all: BTreeSet<Cause> = call.inputs.iter().flat_map(|k| &k.causes).chain(&may).copied().collect();
        for s in self.live() {
            let to = joint.receivers.iter().position(|&r| r == s);
            let from = joint.contributors.iter().position(|&c| c == s);
            let result = to.map(|to| known[to].clone());
            let over = from.filter(|_| joint.tells && (split || to.is_none())).map(|from| match &result {
                Some(result) => result.clone().map(|_| 1),
                // An error may travel through any shard that contributes.
                None => call.inputs[from].clone().map(|_| 1).may(&all),
            });
            for value in result.into_iter().chain(over) {
                // How far such a call gets depends on its algorithm.
                let blocked = call.stuck.is_some() && value.value.is_some();
                self.uncertain |= blocked || value.value.is_some() && value.causes.contains(&Cause::Stuck);
                self.shards[s as usize].values.push(value);
            }
        }
    }

    /// The causes for which any result of a call may be missing: failures of shards that take part.
    fn spread(&mut self, joint: &Joint) -> BTreeSet<Cause> {
        let mut may = BTreeSet::new();
        for s in (0..self.stage.shards).filter(|&s| joint.gives(s) || joint.gets(s)) {
            match self.since[s as usize] {
                Some((Cause::Stuck, _)) if !joint.gives(s) => self.uncertain |= joint.receivers.len() > 1,
                Some((Cause::Stuck, _)) => {}
                Some((cause, _)) => _ = may.insert(cause),
                // It may fail before the end of its part.
                None if !joint.gets(s) && !joint.tells => {
                    may.extend(self.stage.steps.iter().filter_map(|step| match *step {
                        Step::Crash { shard, bomb, .. } if shard == s => Some(Cause::Bomb(bomb)),
                        _ => None,
                    }));
                }
                None => {}
            }
        }
        may
    }
}

/// The result of the receiver at a position, as a number.
fn result(joint: &Joint, call: &PendingCall, to: usize) -> Known {
    let receiver = joint.receivers[to];
    let (up_to, own) =
        (joint.contributors.partition_point(|&c| c <= receiver), joint.contributors.binary_search(&receiver).ok());
    let combined = match joint.kind {
        Kind::Scan => up_to,
        Kind::Exscan => own.unwrap_or(up_to),
        _ => call.inputs.len(),
    };
    let needs: Vec<&Known> = call.inputs[..combined].iter().chain(own.map(|own| &call.inputs[own])).collect();
    let causes = needs.iter().flat_map(|k| &k.causes).copied().collect();
    if call.stuck.is_some_and(|first| !joint.is_scan() || first < up_to) {
        return Known::never(&causes).may(&[Cause::Stuck].into());
    }
    if needs.iter().any(|k| k.value.is_none()) {
        return Known::never(&causes);
    }
    let inputs = call.inputs[..combined].iter().enumerate();
    let inputs: Vec<Vec<i64>> =
        inputs.map(|(from, k)| contribution(k.value.unwrap_or(0), joint.elements(from))).collect();
    let elements = elements(joint, &inputs, to);
    Known::sure(elements.into_iter().fold(11, joined)).may(&causes)
}

fn elements(joint: &Joint, inputs: &[Vec<i64>], to: usize) -> Vec<i64> {
    let block = |from: u32, block: u32| {
        let (from, block) = (from as usize, block as usize);
        if !joint.kind.has_block_for_each_receiver() {
            return inputs[from].clone();
        }
        let start: usize = (0..block).map(|before| joint.block(from, before)).sum();
        inputs[from][start..start + joint.block(from, block)].to_vec()
    };
    let blocks = joint.goal(u32::MAX).expected(joint.receivers[to], block, |all| combined(joint, all));
    if blocks.is_empty() { vec![IDENTITY; joint.elements(0)] } else { blocks.concat() }
}

/// Combines vectors element by element.
fn combined(joint: &Joint, mut all: Vec<Vec<i64>>) -> Vec<i64> {
    let one = |a: i64, b: i64| match joint.operator {
        OperatorKind::Sum => a.wrapping_add(b),
        OperatorKind::Max => a.max(b),
        OperatorKind::Composition | OperatorKind::Associative => composed(a, b),
        OperatorKind::Digits => joined(a, b),
    };
    let both = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(&a, &b)| one(a, b)).collect::<Vec<i64>>();
    if joint.left {
        return all.into_iter().reduce(|a, b| both(&a, &b)).unwrap_or_default();
    }
    // The first pairs, so that a power of two remains; then all neighbours, again and again.
    let mut pairs = all.len() - (all.len() + 1).next_power_of_two() / 2;
    while all.len() > 1 {
        pairs = if pairs == 0 { all.len() / 2 } else { pairs };
        let rest = all.split_off(2 * pairs);
        all = all.chunks(2).map(|pair| both(&pair[0], &pair[1])).chain(rest).collect();
        pairs = 0;
    }
    all.pop().unwrap_or_default()
}
