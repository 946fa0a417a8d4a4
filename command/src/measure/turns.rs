//! Turns. In each round every side of a measurement has one turn, so that disturbances of the host fall on all sides. This
//! module decides who goes first, when the time of a cache line is measured, and which runs only warm up.

use super::noise::Beside;
use super::yardstick::Yardstick;
use crate::Failure;
use maniple_stencil::alternating;

/// Who goes first in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The first side.
    Same,
    /// The first side, and in every other round the last one, so that the after-effects of a turn fall on both.
    Swapped,
}

/// When the yardstick beside a turn is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the round, for all of its turns.
    BeforeRound,
    /// After the turn.
    AfterTurn,
    /// Before and after the turn; the longer one counts. That after a turn is the one before the next.
    AroundTurn,
    /// Before and after the round, for all of its turns; the longer one counts.
    AroundRound,
}

/// Rounds of a measurement.
#[derive(Debug, Clone)]
pub struct Rounds {
    order: Order,
    yardstick: Option<(When, Yardstick)>,
    done: usize,
}

/// A finished turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn<T> {
    /// The number of the round, from 0.
    pub round: usize,
    /// The side.
    pub side: usize,
    /// The measurement.
    pub found: T,
    /// The yardstick in nanoseconds; NaN if it was not measured, or with one processor.
    pub cache_line_ns: f64,
}

impl<T> Turn<T> {
    /// The measurement with its yardstick, for the rule for noise.
    pub fn beside(self) -> Beside<T> {
        Beside { found: self.found, cache_line_ns: Some(self.cache_line_ns) }
    }
}

impl Rounds {
    /// Rounds without a measured yardstick.
    pub fn new(order: Order) -> Self {
        Self { order, yardstick: None, done: 0 }
    }

    /// The same rounds with a yardstick beside the turns.
    pub fn beside(self, when: When, yardstick: Yardstick) -> Self {
        Self { yardstick: Some((when, yardstick)), ..self }
    }

    /// Takes one round. Hands each turn to `keep` as soon as it is done and its yardstick is known.
    pub fn take<S, T>(
        &mut self,
        sides: &mut [S],
        turn: impl FnMut(&mut S) -> Result<T, Failure>,
        keep: impl FnMut(Turn<T>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.take_by(Yardstick::ns, sides, turn, keep)
    }

    fn take_by<S, T>(
        &mut self,
        mut ns: impl FnMut(Yardstick) -> f64,
        sides: &mut [S],
        mut turn: impl FnMut(&mut S) -> Result<T, Failure>,
        mut keep: impl FnMut(Turn<T>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        use When::{AfterTurn, AroundRound, AroundTurn, BeforeRound};
        let round = self.done;
        self.done += 1;
        let is = |moments: &[When]| self.yardstick.is_some_and(|(when, _)| moments.contains(&when));
        let mut cache_line_ns = |moments: &[When]| match self.yardstick {
            Some((_, yardstick)) if is(moments) => ns(yardstick),
            _ => f64::NAN,
        };
        let mut before = cache_line_ns(&[BeforeRound, AroundTurn, AroundRound]);
        let mut waiting = Vec::new();
        for place in 0..sides.len() {
            let swapped = self.order == Order::Swapped && round % 2 == 1;
            let side = if swapped { sides.len() - 1 - place } else { place };
            let found = turn(&mut sides[side])?;
            let after = cache_line_ns(&[AfterTurn, AroundTurn]);
            let done = Turn { round, side, found, cache_line_ns: before.max(after) };
            if is(&[AroundRound]) {
                waiting.push(done);
            } else {
                keep(done)?;
            }
            if is(&[AroundTurn]) {
                before = after;
            }
        }
        let after = cache_line_ns(&[AroundRound]);
        waiting.into_iter().try_for_each(|turn| keep(Turn { cache_line_ns: before.max(after), ..turn }))
    }

    /// Takes a round with a single side.
    pub fn single<T>(&mut self, mut turn: impl FnMut() -> Result<T, Failure>) -> Result<Turn<T>, Failure> {
        let mut only = None;
        let keep = |turn| {
            only = Some(turn);
            Ok(())
        };
        self.take(&mut [()], |()| turn(), keep)?;
        Ok(only.expect("a side has a turn in each round"))
    }
}

/// Takes as many rounds as `asked` for, and then more until `round` says that there are enough, up to `patience` times as
/// many.
pub fn until_enough(
    asked: usize,
    patience: usize,
    mut round: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    for done in 1..=asked * patience {
        let enough = round()?;
        if done >= asked && enough {
            break;
        }
    }
    Ok(())
}

/// The runs that a median is taken of. If there are several, run 0 is left out, because it warms up.
pub fn warm<T>(runs: &[T]) -> &[T] {
    if runs.len() > 1 { &runs[1..] } else { runs }
}

/// The samples of a run that count: those after the first `warmup` iterations. If shards share workers, they are means of
/// two iterations.
pub fn counted(samples: &[f64], warmup: usize, shards: usize, workers: usize) -> Vec<f64> {
    alternating(samples.get(warmup..).unwrap_or_default(), shards, workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sides in the order of their turns.
    fn order(order: Order, sides: usize, rounds: usize) -> Vec<usize> {
        let (mut all, mut sides) = (Rounds::new(order), vec![(); sides]);
        let mut turns = Vec::new();
        for round in 0..rounds {
            let keep = |turn: Turn<()>| {
                assert!(turn.round == round && turn.cache_line_ns.is_nan());
                turns.push(turn.side);
                Ok(())
            };
            all.take(&mut sides, |_| Ok(()), keep).expect("taken");
        }
        turns
    }

    #[test]
    fn who_goes_first_goes_last_in_the_next_round_if_so_wanted() {
        assert_eq!(order(Order::Same, 3, 2), [0, 1, 2, 0, 1, 2]);
        assert_eq!(order(Order::Swapped, 2, 4), [0, 1, 1, 0, 0, 1, 1, 0]);
        assert_eq!(order(Order::Swapped, 1, 3), [0, 0, 0]);
    }

    /// Every yardstick takes longer than the one before: 1 ns, 2 ns and so on.
    #[test]
    fn every_turn_has_its_exchange() {
        for (when, first, second) in [
            (When::BeforeRound, [1.0, 1.0], [2.0, 2.0]),
            (When::AfterTurn, [1.0, 2.0], [3.0, 4.0]),
            (When::AroundTurn, [2.0, 3.0], [5.0, 6.0]),
            (When::AroundRound, [2.0, 2.0], [4.0, 4.0]),
        ] {
            let mut rounds = Rounds::new(Order::Same).beside(when, Yardstick::Host);
            let mut measured = 0.0;
            for expected in [first, second] {
                let mut found = Vec::new();
                let ns = |_| {
                    measured += 1.0;
                    measured
                };
                let keep = |turn: Turn<u32>| {
                    found.push((turn.side, turn.found, turn.cache_line_ns));
                    Ok(())
                };
                rounds.take_by(ns, &mut [5, 6], |side| Ok(*side * 10), keep).expect("taken");
                assert_eq!(found, [(0, 50, expected[0]), (1, 60, expected[1])], "{when:?}");
            }
        }
        let turn = Rounds::new(Order::Same).single(|| Ok(7)).expect("taken");
        assert!((turn.round, turn.side, turn.found) == (0, 0, 7) && turn.cache_line_ns.is_nan());
    }

    #[test]
    fn a_failure_ends_the_round() {
        let mut rounds = Rounds::new(Order::Same);
        let (mut taken, mut kept) = (0, 0);
        let turn = |_: &mut ()| {
            taken += 1;
            if taken == 2 { Err(Failure::Run("broken".into())) } else { Ok(()) }
        };
        let keep = |_| {
            kept += 1;
            Ok(())
        };
        assert!(rounds.take(&mut [(); 3], turn, keep).is_err());
        assert_eq!((taken, kept), (2, 1));
    }

    #[test]
    fn rounds_go_on_until_enough_count_but_not_for_ever() {
        for (asked, patience, enough_at, expected) in [(4, 3, 2, 4), (4, 3, 7, 7), (4, 3, 99, 12), (1, 3, 1, 1)] {
            let mut rounds = 0;
            let round = || {
                rounds += 1;
                Ok(rounds >= enough_at)
            };
            until_enough(asked, patience, round).expect("taken");
            assert_eq!(rounds, expected, "{asked} asked for, enough at {enough_at}");
        }
    }

    #[test]
    fn runs_that_warm_up_are_left_out() {
        assert_eq!(warm(&[9, 1, 2]), [1, 2]);
        assert_eq!(warm(&[9]), [9]);
        assert!(warm::<u8>(&[]).is_empty());
        assert_eq!(counted(&[9.0, 1.0, 3.0], 1, 2, 2), [1.0, 3.0]);
        assert_eq!(counted(&[9.0, 1.0, 3.0], 1, 4, 2), [2.0]);
        assert!(counted(&[9.0], 2, 4, 2).is_empty());
    }
}
