//! The way of values to several processors: each forwards them to some others.
//!
//! A message has its whole way with it, so that who forwards it need know nothing of the others (Denis et al., "Using dynamic
//! broadcasts to improve task-based runtime performances", section 3.2).

use crate::ids::{LaunchKey, ProcessorId};
use maniple_mapper::{Priority, Route};
use serde::{Deserialize, Serialize};

/// A receiver of values: its processor, and the launch and the number of the move by which it knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recipient {
    pub to: ProcessorId,
    pub launch: LaunchKey,
    pub number: u32,
    /// Of the task that needs the values.
    pub priority: Priority,
}

/// A recipient, and how many of the hops after it get the values from it or by way of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hop {
    pub recipient: Recipient,
    below: u32,
}

/// The way to recipients. A route that is not checked may name no recipient: what it says wrong counts as the sender.
pub(crate) fn way(recipients: &[Recipient], route: &Route) -> Vec<Hop> {
    // Number 0 has the values first, and number i is recipient i - 1.
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); recipients.len() + 1];
    for number in 1..=recipients.len() {
        let parent = match route {
            // The highest bit of a number is the round in which it gets the values.
            Route::Binomial => number - (1 << number.ilog2()),
            Route::Linear => 0,
            Route::Tree(parents) => parents.get(number - 1).map_or(0, |parent| *parent as usize),
        };
        children[if parent < number { parent } else { 0 }].push(number);
    }
    let mut hops = Vec::with_capacity(recipients.len());
    below(0, recipients, &children, &mut hops);
    hops
}

/// Adds what number `own` forwards.
fn below(own: usize, recipients: &[Recipient], children: &[Vec<usize>], hops: &mut Vec<Hop>) {
    for &other in &children[own] {
        let at = hops.len();
        hops.push(Hop { recipient: recipients[other - 1], below: 0 });
        below(other, recipients, children, hops);
        hops[at].below = (hops.len() - at - 1) as u32;
    }
}

/// The recipients that get the values at once, each with the rest of its way.
pub(crate) fn next(mut hops: &[Hop]) -> impl Iterator<Item = (Recipient, &[Hop])> {
    std::iter::from_fn(move || {
        let (first, rest) = hops.split_first()?;
        // A message from another process may be wrong.
        let (way, others) = rest.split_at_checked(first.below as usize).unwrap_or((rest, &[]));
        hops = others;
        Some((first.recipient, way))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(n: u32, route: &Route) -> Vec<u32> {
        let all: Vec<Recipient> = (0..n)
            .map(|i| Recipient { to: ProcessorId(i), launch: 1, number: i, priority: Priority::NORMAL })
            .collect();
        let hops = way(&all, route);
        // Who has the values can send to one other in each round.
        let mut came: Vec<u32> = vec![u32::MAX; n as usize];
        let mut senders = vec![(0u32, &hops[..])];
        while let Some((since, way)) = senders.pop() {
            for (round, (recipient, rest)) in (since + 1..).zip(next(way)) {
                assert_eq!(came[recipient.number as usize], u32::MAX, "{n} recipients: {recipient:?} twice");
                came[recipient.number as usize] = round;
                senders.push((round, rest));
            }
        }
        came
    }

    /// Each recipient gets the values once, in the round that the route says; along a binomial tree after at most ⌈log₂(n + 1)⌉
    /// rounds, and the first ones first.
    #[test]
    fn all_get_the_values_once_and_in_their_round() {
        let mut random = fastrand::Rng::with_seed(1);
        for n in 0..200u32 {
            let parents = (0..n).map(|i| random.u32(0..=i)).collect();
            for route in [Route::Binomial, Route::Linear, Route::Tree(parents)] {
                let came = rounds(n, &route);
                assert_eq!(came, route.rounds(n as usize), "{n} recipients, {route:?}");
                if route == Route::Binomial {
                    let most = (n + 1).next_power_of_two().trailing_zeros();
                    assert!(came.iter().all(|round| *round <= most), "{n} recipients: {came:?}");
                    assert!(came.is_sorted(), "{n} recipients: {came:?}");
                }
            }
        }
    }
}
