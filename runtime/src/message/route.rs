//! The way of values to several processors: each forwards them to some others.
//!
//! A message has its whole way with it, so that who forwards it need know nothing of the others (Denis et al., "Using dynamic
//! broadcasts to improve task-based runtime performances", section 3.2).

use crate::ids::{LaunchKey, ProcessorId};
use maniple_mapper::Priority;
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

/// The way to recipients along a binomial tree: the one that has the values first tells the first recipient, and in each round
/// all that have them tell as many others. Those that come first in the list get the values first.
pub(crate) fn binomial(recipients: &[Recipient]) -> Vec<Hop> {
    let mut hops = Vec::with_capacity(recipients.len());
    below(0, recipients, &mut hops);
    hops
}

/// Adds what number `own` forwards. Number 0 has the values first, and number i is recipient i - 1.
fn below(own: usize, recipients: &[Recipient], hops: &mut Vec<Hop>) {
    let rounds = (0..usize::BITS).map(|round| 1usize << round).filter(|distance| *distance > own);
    for other in rounds.map(|distance| own + distance).take_while(|other| *other <= recipients.len()) {
        let at = hops.len();
        hops.push(Hop { recipient: recipients[other - 1], below: 0 });
        below(other, recipients, hops);
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

    /// Each recipient gets the values once, after at most ⌈log₂(n + 1)⌉ rounds, and the first ones first.
    #[test]
    fn all_get_the_values_once_in_logarithmic_time() {
        for n in 0..200u32 {
            let all: Vec<Recipient> = (0..n)
                .map(|i| Recipient { to: ProcessorId(i), launch: 1, number: i, priority: Priority::NORMAL })
                .collect();
            let hops = binomial(&all);
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
            let rounds = (n + 1).next_power_of_two().trailing_zeros();
            assert!(came.iter().all(|round| *round <= rounds), "{n} recipients: {came:?}");
            assert!(came.is_sorted(), "{n} recipients: {came:?}");
        }
    }
}
