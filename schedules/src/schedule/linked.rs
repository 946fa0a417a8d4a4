//! Schedules whose steps find each other's numbers.

use super::{Schedule, Step};
use std::collections::HashMap;

impl Schedule {
    /// The schedule of `rank`, where `make` gives the steps of any rank but not their numbers `at`. Message k from one rank
    /// to another is update k there to that rank, and read k here from it.
    ///
    /// It calls `make` for the rank and once for each of its peers, so it suits algorithms with few peers. A step gets the
    /// number 65,535 if it has no match or the match has a higher number. [`check`](crate::check) refuses that.
    pub fn linked(rank: u32, make: impl Fn(u32) -> Schedule) -> Schedule {
        let mut schedule = make(rank);
        // What each peer has for this rank: the numbers of its reads and of its updates.
        let mut peers: HashMap<u32, [std::vec::IntoIter<u16>; 2]> = HashMap::new();
        for step in &mut schedule.steps {
            let is_read = matches!(step, Step::Read { .. });
            let (Step::Update { peer, at, .. } | Step::Read { peer, at, .. }) = step else { continue };
            if *peer >= schedule.ranks {
                continue;
            }
            let numbers = peers.entry(*peer).or_insert_with(|| numbers(&make(*peer), rank));
            *at = numbers[usize::from(is_read)].next().unwrap_or(u16::MAX);
        }
        schedule
    }
}

/// The numbers of the reads from `rank`, and of the updates to it.
fn numbers(schedule: &Schedule, rank: u32) -> [std::vec::IntoIter<u16>; 2] {
    let (mut reads, mut updates) = ((0u16, Vec::new()), (0, Vec::new()));
    for step in &schedule.steps {
        let (counted, peer) = match *step {
            Step::Read { peer, .. } => (&mut reads, peer),
            Step::Update { peer, .. } => (&mut updates, peer),
            Step::Local { .. } => continue,
        };
        if peer == rank {
            counted.1.push(counted.0);
        }
        counted.0 = counted.0.saturating_add(1);
    }
    [reads.1.into_iter(), updates.1.into_iter()]
}
