//! Chains in the report of a deadlock.

use super::chains::{ChainState, Chains, GroupStage};
use crate::diagnose::deadlock::{Node, ReportPart, waits_for};
use crate::effects::Waiting;
use crate::replay::Watch;
use maniple_barriers::Half;

impl Chains {
    /// A chain's shard and the number of its present call, for traces.
    pub fn now(&self, chain: u32) -> Option<(u32, u64)> {
        let generation = self.state.try_borrow().ok()?.1.chains.get(chain as usize)?.generation;
        Some((self.shard_of(chain), generation))
    }

    /// The state of a chain, for reports.
    pub fn describe(&self, chain: u32) -> String {
        let state = self.state.try_borrow();
        let known = state.as_ref().ok().and_then(|state| Some((&state.1, state.1.chains.get(chain as usize)?)));
        let doing = match known {
            Some((progress, c)) => {
                let call = self.call_of(progress, chain);
                match c.state {
                    ChainState::Input => format!("call {call}, waiting for its input"),
                    ChainState::Running | ChainState::InParts | ChainState::Poisoned => {
                        format!("call {call}, before step {} of {}", c.done, c.len)
                    }
                    ChainState::Joined => format!("call {call}"),
                    ChainState::Failed => "failed".into(),
                    ChainState::Idle => "idle".into(),
                }
            }
            None => "idle".into(),
        };
        format!("shard {}, `{}` ({doing})", self.shard_of(chain), self.spec.name())
    }

    /// A chain in the graph of a deadlock.
    pub fn node(&self, chain: u32) -> Node {
        Node::Call { object: self.id, shard: self.shard_of(chain), slot: chain % self.slots }
    }

    /// Adds the waits of chains, and of the shards that wait for their results.
    pub fn report(&self, node_of: &dyn Fn(&Waiting) -> Node, part: &mut ReportPart) {
        let Ok(state) = self.state.try_borrow() else { return };
        let (object, progress) = &*state;
        let name = |chain: u32| (self.node(chain), self.describe(chain));
        for c in &progress.bank.cells {
            let Some((half, chain)) = c.waiting() else { continue };
            let now = &progress.chains[chain as usize];
            let (step, slot) = (self.plan[now.first as usize + usize::from(now.done)], chain % self.slots);
            let partner = self.shard_at(step.task.to(), step.cell);
            let what = match half {
                Half::Ready => format!("a value of shard {partner}"),
                Half::Empty => format!("shard {partner} to take the value of an earlier call"),
            };
            let on = Node::Call { object: self.id, shard: partner, slot };
            part.names.push(name(chain));
            part.waits.push((self.node(chain), waits_for(what, vec![on])));
        }
        for b in &progress.groups {
            let joined = |c: &u32| progress.chains[*c as usize].state == ChainState::Joined;
            let followers = (1..b.size).map(|i| b.leader + i * self.slots);
            let (leader, awaited) = match b.stage {
                GroupStage::Waits => (Some(b.leader), followers.clone().find(|c| !joined(c)).unwrap_or(b.leader)),
                GroupStage::Away | GroupStage::Gathered => (None, b.leader),
            };
            for chain in leader.into_iter().chain(followers.filter(joined)) {
                part.names.push(name(chain));
                let what = format!("shard {}", self.shard_of(awaited));
                part.waits.push((self.node(chain), waits_for(what, vec![self.node(awaited)])));
            }
        }
        for chain in 0..progress.chains.len() as u32 {
            let caller = progress.callers[self.position(chain) as usize].owner.as_ref();
            let mut awaited = false;
            let mut each = |waiting: &Waiting| {
                awaited = true;
                let what = format!("the result of `{}`", self.spec.name());
                part.waits.push((node_of(waiting), waits_for(what, vec![self.node(chain)])));
            };
            let busy = progress.chains[chain as usize].state != ChainState::Idle;
            object.results(chain, busy, &mut Watch(&mut each));
            if busy {
                caller.into_iter().for_each(|owner| owner.each_waiter(&mut each));
            }
            if awaited {
                part.names.push(name(chain));
            }
        }
    }

    /// How many calls each shard of this processor has made.
    pub fn calls(&self) -> Vec<(u32, u64)> {
        let members = &self.gang.members[self.processor.index()];
        members.iter().copied().zip(self.state.borrow().1.callers.iter().map(|c| c.calls)).collect()
    }
}
