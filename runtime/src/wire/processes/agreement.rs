//! What the hosts of a run must find out together: that no processor of any can go on, or that all are done.
//!
//! The first process of each host says when all processors of its host are idle, with the messages that they have sent and
//! received so far. The first host of all collects this in waves. If everybody is idle and as many messages have been
//! received as sent, it asks again. If the answers are the same, nothing happened in between, and nothing ever will: this
//! is the four-counter method (Mattern, Algorithms for distributed termination detection, 1987).

use serde::{Deserialize, Serialize};

/// What the first processes of two hosts tell each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// To the first host: all processors of a host are idle. They have sent and received this many messages.
    Idle { wave: u32, counts: (u64, u64) },
    /// From the first host: who is idle says so again.
    Ask { wave: u32 },
    /// To the first host: all processors of a host are done.
    Done,
    /// From the first host: the processors of all hosts are done.
    AllDone,
    /// To all other hosts: the run is given up.
    GiveUp,
}

/// What a host has told the first host.
#[derive(Debug, Default)]
pub struct Said {
    wave: u32,
    idle: Option<(u32, (u64, u64))>,
    done: bool,
    given_up: bool,
}

impl Said {
    /// All processors of this host are idle, with these counts. Returns what is to be told.
    pub fn idle(&mut self, counts: (u64, u64)) -> Option<Notice> {
        let now = (self.wave, counts);
        (self.idle.replace(now) != Some(now)).then_some(Notice::Idle { wave: self.wave, counts })
    }

    pub fn asked(&mut self, wave: u32) {
        self.wave = wave;
    }

    /// All processors of this host are done. Returns what is to be told.
    pub fn done(&mut self) -> Option<Notice> {
        (!std::mem::replace(&mut self.done, true)).then_some(Notice::Done)
    }

    /// The run is given up. True in the first call.
    pub fn given_up(&mut self) -> bool {
        !std::mem::replace(&mut self.given_up, true)
    }
}

/// What the first host knows of all.
#[derive(Debug)]
pub struct Collected {
    wave: u32,
    /// What each host has said last.
    idle: Vec<Option<(u32, (u64, u64))>>,
    /// The answers in the wave before this one.
    before: Option<Vec<(u64, u64)>>,
    done: Vec<bool>,
}

impl Collected {
    pub fn new(hosts: usize) -> Self {
        Self { wave: 0, idle: vec![None; hosts], before: None, done: vec![false; hosts] }
    }

    /// What a host has said. Returns what all hosts are told.
    pub fn take(&mut self, host: usize, notice: Notice) -> Option<Notice> {
        match notice {
            Notice::Idle { .. } if self.all_done() => None,
            Notice::Idle { wave, counts } => {
                self.idle[host] = Some((wave, counts));
                self.wave_is_over()
            }
            Notice::Done => {
                self.done[host] = true;
                self.all_done().then_some(Notice::AllDone)
            }
            Notice::Ask { .. } | Notice::AllDone | Notice::GiveUp => None,
        }
    }

    fn all_done(&self) -> bool {
        self.done.iter().all(|done| *done)
    }

    fn wave_is_over(&mut self) -> Option<Notice> {
        let answer = |said: &Option<(u32, (u64, u64))>| said.filter(|(wave, _)| *wave == self.wave).map(|said| said.1);
        let answers = self.idle.iter().map(answer).collect::<Option<Vec<_>>>()?;
        let sums = answers.iter().fold((0u64, 0u64), |sums, of| (sums.0.wrapping_add(of.0), sums.1.wrapping_add(of.1)));
        if sums.0 != sums.1 {
            // Messages are under way. The host that they come to will say so.
            return None;
        }
        if self.before.as_ref() == Some(&answers) {
            return Some(Notice::GiveUp);
        }
        self.before = Some(answers);
        self.wave += 1;
        Some(Notice::Ask { wave: self.wave })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Hosts that work for a while, send each other messages, and tell the first host when they are idle.
    struct Hosts {
        work: Vec<u32>,
        counts: Vec<(u64, u64)>,
        said: Vec<Said>,
        collected: Collected,
        /// Messages of the program under way, and notices to and from the first host, by receiver and sender.
        messages: Vec<VecDeque<u32>>,
        up: Vec<VecDeque<Notice>>,
        down: Vec<VecDeque<Notice>>,
        given_up: bool,
    }

    impl Hosts {
        fn new(n: usize) -> Self {
            Self {
                work: vec![1; n],
                counts: vec![(0, 0); n],
                said: (0..n).map(|_| Said::default()).collect(),
                collected: Collected::new(n),
                messages: vec![VecDeque::new(); n],
                up: vec![VecDeque::new(); n],
                down: vec![VecDeque::new(); n],
                given_up: false,
            }
        }

        /// Whether something can still happen in the program.
        fn lives(&self) -> bool {
            self.work.iter().any(|work| *work > 0) || self.messages.iter().any(|queue| !queue.is_empty())
        }

        /// One step of a host: of its program, or of what it tells and is told.
        fn step(&mut self, host: usize, what: u8, to: usize, work: u32) {
            let n = self.work.len();
            match what {
                0 if self.work[host] > 0 => self.work[host] -= 1,
                1 if self.work[host] > 0 => {
                    self.counts[host].0 += 1;
                    self.messages[to % n].push_back(work);
                }
                2 => {
                    if let Some(work) = self.messages[host].pop_front() {
                        self.counts[host].1 += 1;
                        self.work[host] += work;
                    }
                }
                3 if self.work[host] == 0 => self.up[host].extend(self.said[host].idle(self.counts[host])),
                4 => {
                    if let Some(notice) = self.up[host].pop_front()
                        && let Some(told) = self.collected.take(host, notice)
                    {
                        self.down.iter_mut().for_each(|queue| queue.push_back(told));
                    }
                }
                5 => match self.down[host].pop_front() {
                    Some(Notice::Ask { wave }) => self.said[host].asked(wave),
                    Some(Notice::GiveUp) => self.given_up = true,
                    _ => {}
                },
                _ => {}
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn the_run_is_given_up_when_nothing_can_happen_and_not_before(
            n in 1usize..5,
            steps in prop::collection::vec((0usize..5, 0u8..6, 0usize..5, 0u32..3), 0..600),
        ) {
            let mut hosts = Hosts::new(n);
            for (host, what, to, work) in steps {
                let lived = hosts.lives();
                hosts.step(host % n, what, to, work);
                prop_assert!(!(hosts.given_up && lived), "given up too early");
            }
            // Now only what is left.
            for round in 0.. {
                if hosts.given_up {
                    break;
                }
                prop_assert!(round < 2000, "never given up");
                let lived = hosts.lives();
                for host in 0..n {
                    for what in [0, 2, 3, 4, 5] {
                        hosts.step(host, what, 0, 0);
                    }
                }
                prop_assert!(!(hosts.given_up && lived), "given up too early");
            }
        }
    }

    /// Hosts that are done are idle too, and may say both at the same time.
    #[test]
    fn hosts_that_are_all_done_are_not_stuck() {
        let mut collected = Collected::new(2);
        let idle = |wave| Notice::Idle { wave, counts: (3, 3) };
        assert_eq!((collected.take(0, idle(0)), collected.take(1, idle(0))), (None, Some(Notice::Ask { wave: 1 })));
        assert_eq!((collected.take(0, Notice::Done), collected.take(0, idle(1))), (None, None));
        assert_eq!(collected.take(1, Notice::Done), Some(Notice::AllDone));
        assert_eq!(collected.take(1, idle(1)), None);
    }

    #[test]
    fn all_are_done_when_each_host_is() {
        let (mut said, mut collected) = (Said::default(), Collected::new(2));
        assert_eq!((said.done(), said.done()), (Some(Notice::Done), None));
        assert_eq!((collected.take(1, Notice::Done), collected.take(1, Notice::Done)), (None, None));
        assert_eq!(collected.take(0, Notice::Done), Some(Notice::AllDone));
        assert!(said.given_up() && !said.given_up());
    }
}
