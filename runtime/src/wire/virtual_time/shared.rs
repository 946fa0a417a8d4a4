//! Ways that large messages share: as many as are under way at once are equally fast.
//!
//! A node's way out, and its way in, are as fast as the link. A message is as fast as the part that it gets of the way that more
//! messages share. What the others leave of the other way nobody takes, so this is a little less than fair sharing gives.

use super::machine::Ps;
use maniple_mapper::NodeId;

/// A large message that is under way.
struct Transfer {
    letter: u32,
    /// The nodes that it leaves and reaches.
    ends: (usize, usize),
    /// The time that it would still take alone, at the time `since`.
    left: Ps,
    since: Ps,
    /// With how many messages it shares, itself included.
    among: u64,
    /// Tells the last time of its end from earlier ones, also of other messages.
    turn: u32,
}

/// The messages that share ways.
#[derive(Default)]
pub(super) struct SharedWays {
    transfers: Vec<Option<Transfer>>,
    free: Vec<u32>,
    /// The messages on each node's way out, and on its way in.
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
    turn: u32,
}

/// When a message ends, unless others come or go before: its place, its turn and the time.
pub(super) type End = (u32, u32, Ps);

impl SharedWays {
    pub fn new(nodes: usize) -> Self {
        Self { out: vec![Vec::new(); nodes], into: vec![Vec::new(); nodes], ..Self::default() }
    }

    /// A message that takes the time `alone` if it is alone begins now. Adds the new ends of all that it slows down.
    pub fn begin(&mut self, letter: u32, (from, to): (NodeId, NodeId), alone: Ps, now: Ps, ends: &mut Vec<End>) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.transfers.push(None);
            self.transfers.len() as u32 - 1
        });
        let nodes = (from.index(), to.index());
        self.out[nodes.0].push(at);
        self.into[nodes.1].push(at);
        self.transfers[at as usize] =
            Some(Transfer { letter, ends: nodes, left: alone, since: now, among: 0, turn: 0 });
        self.share(nodes, now, ends);
    }

    /// A message may have ended: returns its letter if so. Adds the new ends of all that are faster now.
    pub fn end(&mut self, (at, turn): (u32, u32), now: Ps, ends: &mut Vec<End>) -> Option<u32> {
        self.transfers[at as usize].as_ref().filter(|transfer| transfer.turn == turn)?;
        let transfer = self.transfers[at as usize].take()?;
        self.free.push(at);
        self.out[transfer.ends.0].retain(|other| *other != at);
        self.into[transfer.ends.1].retain(|other| *other != at);
        self.share(transfer.ends, now, ends);
        Some(transfer.letter)
    }

    /// Shares the ways of two nodes anew.
    fn share(&mut self, (from, to): (usize, usize), now: Ps, ends: &mut Vec<End>) {
        let also = self.into[to].iter().filter(|at| !self.out[from].contains(at));
        let all: Vec<u32> = self.out[from].iter().chain(also).copied().collect();
        for at in all {
            let Some(transfer) = &mut self.transfers[at as usize] else { continue };
            let among = self.out[transfer.ends.0].len().max(self.into[transfer.ends.1].len()) as u64;
            if among == transfer.among {
                continue;
            }
            let done = now.saturating_sub(transfer.since) / transfer.among.max(1);
            transfer.left = transfer.left.saturating_sub(done);
            (transfer.since, transfer.among) = (now, among);
            self.turn = self.turn.wrapping_add(1);
            transfer.turn = self.turn;
            ends.push((at, transfer.turn, now.saturating_add(transfer.left.saturating_mul(among))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same, step by step in small pieces of time.
    fn stepped(all: &[(usize, usize, u64, u64)]) -> Vec<u64> {
        let (mut left, mut ended) = (all.iter().map(|m| m.2 as f64).collect::<Vec<_>>(), vec![0; all.len()]);
        for now in 0..u64::MAX {
            let active: Vec<usize> = (0..all.len()).filter(|&i| all[i].3 <= now && left[i] > 0.0).collect();
            if active.is_empty() && all.iter().all(|m| m.3 <= now) {
                break;
            }
            for &i in &active {
                let out = active.iter().filter(|&&j| all[j].0 == all[i].0).count();
                let into = active.iter().filter(|&&j| all[j].1 == all[i].1).count();
                left[i] -= 1.0 / out.max(into) as f64;
                if left[i] <= 1e-9 {
                    ended[i] = now + 1;
                }
            }
        }
        ended
    }

    proptest! {
        #[test]
        fn messages_end_when_small_steps_say(
            all in prop::collection::vec((0usize..4, 4usize..8, 1u64..200, 0u64..300), 1..12)
        ) {
            let mut ways = SharedWays::new(8);
            // (time, is it an end, place or message, turn)
            let mut events: Vec<(u64, bool, u32, u32)> =
                (0u32..).zip(&all).map(|(i, m)| (1000 * m.3, false, i, 0)).collect();
            let mut ended = vec![0; all.len()];
            let mut ends = Vec::new();
            while !events.is_empty() {
                events.sort_unstable_by(|a, b| b.cmp(a));
                let Some((now, is_end, at, turn)) = events.pop() else { break };
                if is_end {
                    if let Some(letter) = ways.end((at, turn), now, &mut ends) {
                        ended[letter as usize] = now;
                    }
                } else {
                    let (from, to, alone, _) = all[at as usize];
                    ways.begin(at, (NodeId(from as u32), NodeId(to as u32)), 1000 * alone, now, &mut ends);
                }
                events.extend(ends.drain(..).map(|(at, turn, time)| (time, true, at, turn)));
            }
            let fine: Vec<_> = all.iter().map(|m| (m.0, m.1, 20 * m.2, 20 * m.3)).collect();
            for (found, expected) in ended.iter().zip(stepped(&fine)) {
                // Small steps round each end up.
                prop_assert!(found.abs_diff(50 * expected) <= 100 * (all.len() as u64 + 2), "{:?} {}", ended, expected);
            }
        }
    }
}
