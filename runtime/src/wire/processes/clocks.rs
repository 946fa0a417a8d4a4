//! The clocks of several hosts, compared for traces: allgathers bound how far one is ahead of another.

/// The times around an allgather, in nanoseconds of the host's clock.
pub type Around = (u64, u64);

/// How far a host's clock is ahead of the clock of the first process's host, in nanoseconds, and the largest possible error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ahead {
    pub ns: i64,
    pub within: u64,
}

/// For each process, how far its host's clock is ahead. `hosts` has the first process of each one's host, and `times` the
/// times of each around the same allgathers.
///
/// No allgather ends anywhere before it has begun everywhere. So a clock is ahead of another at least by its time before an
/// allgather minus the other's after it, and at most by its time after minus the other's before. All processes of two hosts
/// bound the difference of their clocks, and the middle of the bounds is taken.
pub fn ahead(hosts: &[u32], times: &[Vec<Around>]) -> Vec<Ahead> {
    let allgathers = times.iter().map(Vec::len).min().unwrap_or(0);
    // The last beginning and the first end of an allgather on a host.
    let around = |host: u32, allgather: usize| {
        let of_host = hosts.iter().zip(times).filter(|(of, _)| **of == host).map(|(_, times)| times[allgather]);
        of_host.fold((0, u64::MAX), |(before, after), (b, a)| (before.max(b), after.min(a)))
    };
    let between = |first: u32, host: u32| {
        let bounds = (0..allgathers).map(|allgather| {
            let ((b, a), (before, after)) = (around(first, allgather), around(host, allgather));
            (i128::from(before) - i128::from(a), i128::from(after) - i128::from(b))
        });
        let (least, most) = bounds.reduce(|(l, m), (least, most)| (l.max(least), m.min(most))).unwrap_or_default();
        let half = (most - least).abs();
        Ahead { ns: (least + (most - least) / 2) as i64, within: (half / 2 + half % 2) as u64 }
    };
    let of = |host: &u32| if *host == hosts[0] { Ahead::default() } else { between(hosts[0], *host) };
    hosts.iter().map(of).collect()
}

/// For each process, what has to be added to its times at the start and at the end of a run, so that all are on the clock of
/// the first process's host. Then times begin where the first of them begins. `began` has the time at which each one's times
/// begin, by its own clock, and `ahead` its clock at the start and at the end.
pub fn shifts(began: &[u64], ahead: [&[Ahead]; 2]) -> Vec<[i64; 2]> {
    let by_first = |ahead: &Ahead, began: u64| (i128::from(began) - i128::from(ahead.ns)) as i64;
    let start = ahead[0].iter().zip(began).map(|(ahead, began)| by_first(ahead, *began));
    let zero = start.min().unwrap_or(0);
    let of = |(i, began): (usize, &u64)| ahead.map(|ahead| by_first(&ahead[i], *began) - zero);
    began.iter().enumerate().map(of).collect()
}

/// The largest error between the clocks of two hosts, if there are several.
pub fn error(hosts: &[u32], ahead: [&[Ahead]; 2]) -> Option<u64> {
    let first = |(rank, host): &(u32, &u32)| *rank == **host && *rank != hosts[0];
    let others = (0..).zip(hosts).filter(first).map(|(rank, _)| rank as usize);
    let mut errors: Vec<u64> =
        others.map(|rank| ahead.map(|ahead| ahead[rank].within).into_iter().max().unwrap_or(0)).collect();
    errors.sort_unstable();
    // The first host has none, and the errors of two others add up.
    (!errors.is_empty()).then(|| errors.iter().rev().take(2).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        /// The host of each process; how far the clock of each host is ahead of the real time; for each allgather and process,
        /// how long after the first possible moment it begins and ends.
        fn clocks()(hosts in prop::collection::vec(0u32..4, 1..8), allgathers in 1usize..6)(
            ahead in prop::collection::vec(0u64..1 << 50, 4),
            pauses in prop::collection::vec(prop::collection::vec((0u64..1000, 0u64..1000), hosts.len()), allgathers),
            hosts in Just(hosts),
        ) -> (Vec<u32>, Vec<u64>, Vec<Vec<(u64, u64)>>) {
            (hosts, ahead, pauses)
        }
    }

    proptest! {
        #[test]
        fn the_error_is_within_its_bound_which_is_no_larger_than_an_allgather_takes(
            (places, clocks, pauses) in clocks(),
        ) {
            let hosts: Vec<u32> =
                places.iter().map(|of| places.iter().position(|p| p == of).expect("this one") as u32).collect();
            let clock = |rank: usize| clocks[places[rank] as usize];
            let mut times = vec![Vec::new(); hosts.len()];
            let mut narrowest = vec![u64::MAX; hosts.len()];
            let mut now = 1 << 20;
            for of_all in &pauses {
                let begun = now + of_all.iter().map(|(begin, _)| begin).max().expect("at least one");
                let took = |rank: usize| begun + of_all[rank].1 - (now + of_all[rank].0);
                for (rank, (begin, end)) in of_all.iter().enumerate() {
                    times[rank].push((now + begin + clock(rank), begun + end + clock(rank)));
                    narrowest[rank] = narrowest[rank].min(took(rank) + took(0));
                }
                now = begun + 1000;
            }
            for (rank, found) in ahead(&hosts, &times).into_iter().enumerate() {
                let expected = clock(rank) as i64 - clock(0) as i64;
                prop_assert!(found.ns.abs_diff(expected) <= found.within, "{found:?}, not {expected}");
                prop_assert!(found.within <= narrowest[rank].div_ceil(2), "{found:?}, {narrowest:?}");
                prop_assert!(hosts[rank] != 0 || found == Ahead::default());
            }
        }

        /// Clocks of different rates that are known exactly.
        #[test]
        fn shifted_times_are_those_of_the_first_clock(
            clocks in prop::collection::vec((0u64..1 << 40, 0u64..1 << 20), 1..5),
            begins in prop::collection::vec(0u64..1000, 5),
            lasts in 1u64 << 20..1 << 30,
        ) {
            // A clock gains its second number of nanoseconds during the run.
            let time = |i: usize, at: u64| clocks[i].0 + at + (u128::from(clocks[i].1) * u128::from(at) / u128::from(lasts)) as u64;
            let began: Vec<u64> = (0..clocks.len()).map(|i| time(i, begins[i])).collect();
            let compared = |at: u64| -> Vec<Ahead> {
                (0..clocks.len()).map(|i| Ahead { ns: time(i, at) as i64 - time(0, at) as i64, within: 0 }).collect()
            };
            let (start, end) = (compared(0), compared(lasts));
            let shifts = shifts(&began, [&start, &end]);
            prop_assert_eq!(shifts.iter().map(|shift| shift[0]).min(), Some(0));
            for (i, shift) in shifts.iter().enumerate() {
                // At the end each has the time of the first one.
                let at_end = |i: usize, shift: &[i64; 2]| time(i, lasts) as i64 - began[i] as i64 + shift[1];
                prop_assert_eq!(at_end(i, shift), at_end(0, &shifts[0]));
                let at_start = |i: usize, shift: &[i64; 2]| time(i, 0) as i64 - began[i] as i64 + shift[0];
                prop_assert_eq!(at_start(i, shift), at_start(0, &shifts[0]));
            }
        }
    }

    #[test]
    fn errors_of_two_hosts_add_up() {
        let of = |errors: &[u64]| errors.iter().map(|within| Ahead { ns: 5, within: *within }).collect::<Vec<_>>();
        assert_eq!(error(&[0, 0], [&of(&[0, 0]), &of(&[0, 0])]), None);
        // Two processes on each host.
        assert_eq!(error(&[0, 0, 2, 2], [&of(&[0, 0, 3, 3]), &of(&[0, 0, 4, 4])]), Some(4));
        assert_eq!(error(&[0, 1, 2, 3], [&of(&[0, 9, 2, 3]), &of(&[0, 1, 2, 8])]), Some(17));
    }
}
