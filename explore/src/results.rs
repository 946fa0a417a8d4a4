//! The interpreter's part for collectives: the results of calls, and who gets errors in place of them.

use crate::joint::{Given, IDENTITY, Joint, OperatorKind, Taken, Taking};
use crate::oracle::{Cause, Known};
use crate::play::{Play, blown};
use crate::program::{Number, Step};
use crate::values::{composed, contribution, joined};
use maniple::collectives::{Algorithm, Kind};
use std::collections::{BTreeSet, VecDeque};

/// The calls of a collective in one launch.
pub struct Calls {
    /// The number of calls.
    made: usize,
    /// Those whose results nobody has asked for.
    pending: VecDeque<PendingCall>,
    /// For each slot, the position from which on contributors are stuck in an earlier call.
    stuck: Vec<Option<usize>>,
    /// For each slot, whether a shard has not made an earlier call.
    lost: Vec<bool>,
}

struct PendingCall {
    /// The numbers of which the contributions are made, by position.
    inputs: Vec<Known>,
    given: Given,
    /// The contributor and its only block that a task which panics should have made, and the bomb.
    hit: Option<(usize, usize, u32)>,
    /// The position from which on its slot is never free.
    stuck: Option<usize>,
    /// Whether a shard has not made an earlier call of its slot.
    lost: bool,
}

impl PendingCall {
    /// The number of which a contributor's block for a receiver is made.
    fn input(&self, joint: &Joint, from: usize, to: usize) -> Known {
        let block = if joint.kind.has_block_for_each_receiver() { to } else { 0 };
        let hit = self.hit.filter(|hit| (hit.0, hit.1) == (from, block));
        self.inputs[from].clone().blown(hit.map(|hit| hit.2))
    }

    /// The same for all of a contribution.
    fn whole(&self, from: usize) -> Known {
        self.inputs[from].clone().blown(self.hit.filter(|hit| hit.0 == from).map(|hit| hit.2))
    }

    /// Whether a shard gives or takes in parts.
    fn is_in_parts(&self, joint: &Joint, shard: u32, taken: &Taken, split: bool) -> bool {
        joint.gives_blocks(shard, self.given) || joint.taking(shard, taken, split) != Taking::Whole
    }
}

/// What a step has contributors give.
type Gives = (Number, Option<(u32, u32)>, Given);

impl Calls {
    pub fn of(joint: &Joint) -> Self {
        let slots = joint.slots as usize;
        Self { made: 0, pending: VecDeque::new(), stuck: vec![None; slots], lost: vec![false; slots] }
    }
}

impl Play<'_> {
    /// Each shard's part in a call.
    pub fn call(&mut self, which: usize, gives: Gives, taken: &Taken) {
        let call = self.contributed(which, gives);
        self.results(which, &call, taken, false);
    }

    /// Each contributor's part in a call whose results are asked for later.
    pub fn contribute(&mut self, which: usize, gives: Gives) {
        let call = self.contributed(which, gives);
        self.joints[which].pending.push_back(call);
    }

    /// The results of the oldest such call.
    pub fn receive(&mut self, which: usize, taken: &Taken) {
        if let Some(call) = self.joints[which].pending.pop_front() {
            self.results(which, &call, taken, true);
        }
    }

    fn contributed(&mut self, which: usize, (number, bomb, given): Gives) -> PendingCall {
        let joint = &self.stage.joints[which];
        let hit = bomb.and_then(|(bomb, s)| {
            let from = joint.contributors.iter().position(|&c| c == s && joint.gives_blocks(s, given))?;
            Some((from, usize::from(given.hit) % joint.blocks(), bomb))
        });
        let bomb = bomb.filter(|_| hit.is_none());
        let input = |&s: &u32| match self.since[s as usize] {
            Some((cause, _)) => Known::never(&[cause].into()),
            None => blown(self.shards[s as usize].number(number), bomb, s),
        };
        let inputs: Vec<Known> = joint.contributors.iter().map(input).collect();
        if let Some((from, block, bomb)) = hit {
            let s = joint.contributors[from] as usize;
            if self.since[s].is_none() {
                // The shard looks at it.
                let looked = inputs[from].clone().map(|k| sum(&sent(joint, k, given, (from, block))));
                self.shards[s].values.push(looked.blown(Some(bomb)));
            }
        }
        let gone = (0..self.stage.shards).any(|s| joint.takes_part(s) && self.since[s as usize].is_some());
        let calls = &mut self.joints[which];
        let slot = calls.made % calls.stuck.len();
        calls.made += 1;
        let stuck = calls.stuck[slot];
        let first = inputs.iter().position(Known::is_stuck);
        // After a call that failed, the next finds everything in order. After one that is stuck, the slot is not free.
        calls.stuck[slot] = stuck.into_iter().chain(first).min();
        let lost = calls.lost[slot];
        calls.lost[slot] |= gone;
        PendingCall { inputs, given, hit, stuck, lost }
    }

    /// Gives each shard that takes part its result, and news of the end of its part. `split` says whether all that
    /// contribute have news.
    fn results(&mut self, which: usize, call: &PendingCall, taken: &Taken, split: bool) {
        let joint = &self.stage.joints[which];
        let mut may = self.spread(joint, call, |_| true);
        let mut all = may.clone();
        all.extend((0..call.inputs.len()).flat_map(|from| call.whole(from).causes));
        // A shard that fails spoils its own part only, if each comes straight from its contributor.
        let mut spoils_own = false;
        if joint.has_parts() {
            let mut takers = (0..self.stage.shards).filter(|&s| joint.takes_part(s));
            let in_parts = takers.all(|s| call.is_in_parts(joint, s, taken, split));
            let apart = joint.keeps_blocks_apart(in_parts);
            // A block that never comes holds up others, unless each comes straight from its contributor.
            let holds_up = joint.algorithm != Some(Algorithm::Direct);
            spoils_own = in_parts && !holds_up && !call.lost;
            may.extend(all.iter().filter(|cause| if **cause == Cause::Stuck { holds_up } else { !apart }));
        }
        for s in self.live() {
            let to = joint.receivers.iter().position(|&r| r == s);
            let from = joint.contributors.iter().position(|&c| c == s);
            let result = to.map(|to| result(joint, call, to).may(&may));
            let over = from.filter(|_| joint.tells && (split || to.is_none())).map(|from| match &result {
                Some(result) => result.clone().map(|_| 1),
                // An error may travel through any shard that contributes.
                None => call.whole(from).map(|_| 1).may(&all),
            });
            let taking = joint.taking(s, taken, split);
            let came: Vec<Known> = match to {
                Some(to) if joint.has_values_of_parts(taking) => {
                    let parts = joint.contributors.iter().zip(parts(joint, call, to));
                    let mut spread =
                        |s| if spoils_own { self.spread(joint, call, |other| other == s) } else { may.clone() };
                    parts.map(|(&from, part)| part.may(&spread(from))).collect()
                }
                _ => result.into_iter().collect(),
            };
            for value in came.iter().chain(&over) {
                // How far such a call gets depends on its algorithm.
                let blocked = call.stuck.is_some() && value.value.is_some();
                self.uncertain |= blocked || value.value.is_some() && value.causes.contains(&Cause::Stuck);
            }
            match taking {
                Taking::Whole | Taking::Tasks => self.shards[s as usize].values.extend(came),
                Taking::Each | Taking::All | Taking::Next => {
                    for value in came {
                        self.shards[s as usize].seen.push(value.clone());
                        self.awaits(s, &value);
                    }
                }
                Taking::Dropped => {}
            }
            self.shards[s as usize].values.extend(over);
        }
    }

    /// The causes for which any result of a call may be missing: failures of shards that take part, and are `among` some.
    fn spread(&mut self, joint: &Joint, call: &PendingCall, among: impl Fn(u32) -> bool) -> BTreeSet<Cause> {
        let mut may = BTreeSet::new();
        for s in (0..self.stage.shards).filter(|&s| joint.takes_part(s) && among(s)) {
            match self.since[s as usize] {
                Some((Cause::Stuck, _)) if !joint.gives(s) => self.uncertain |= joint.receivers.len() > 1,
                Some((Cause::Stuck, _)) => {}
                Some((cause, _)) => _ = may.insert(cause),
                // It may fail before the end of its part, or before tasks that make blocks for others.
                None if !joint.gets(s) && !joint.tells || joint.gives_blocks(s, call.given) => {
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

/// A number made of elements and their order.
fn sum(elements: &[i64]) -> i64 {
    elements.iter().copied().fold(11, joined)
}

/// The block that the contributor at a position makes of a number for the receiver at another.
fn sent(joint: &Joint, k: i64, given: Given, (from, to): (usize, usize)) -> Vec<i64> {
    let start: usize = (0..to).map(|before| joint.block(from, before, given)).sum();
    contribution(k, joint.elements(from, given))[start..start + joint.block(from, to, given)].to_vec()
}

/// The parts of the result of the receiver at a position, as numbers.
fn parts(joint: &Joint, call: &PendingCall, to: usize) -> Vec<Known> {
    let parts = (0..).zip(elements(joint, call, to)).map(|(from, part)| {
        let input = call.input(joint, from, to);
        match call.stuck {
            Some(_) => Known::never(&input.causes).may(&[Cause::Stuck].into()),
            None => input.map(|_| sum(&part)),
        }
    });
    parts.collect()
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
    let needs: Vec<Known> = (0..combined).chain(own).map(|from| call.input(joint, from, to)).collect();
    let causes = needs.iter().flat_map(|k| &k.causes).copied().collect();
    if call.stuck.is_some_and(|first| !joint.is_scan() || first < up_to) {
        return Known::never(&causes).may(&[Cause::Stuck].into());
    }
    if needs.iter().any(|k| k.value.is_none()) {
        return Known::never(&causes);
    }
    Known::sure(sum(&elements(joint, call, to).concat())).may(&causes)
}

/// The blocks of the result of the receiver at a position. A number that is not known is 0.
fn elements(joint: &Joint, call: &PendingCall, to: usize) -> Vec<Vec<i64>> {
    let given = call.given;
    let block = |from: u32, block: u32| {
        let (from, block) = (from as usize, block as usize);
        let k = call.inputs[from].value.unwrap_or(0);
        match joint.kind.has_block_for_each_receiver() {
            true => sent(joint, k, given, (from, block)),
            false => contribution(k, joint.elements(from, given)),
        }
    };
    let blocks = joint.goal(u32::MAX).expected(joint.receivers[to], block, |all| combined(joint, all));
    if blocks.is_empty() { vec![vec![IDENTITY; joint.elements(0, given)]] } else { blocks }
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
