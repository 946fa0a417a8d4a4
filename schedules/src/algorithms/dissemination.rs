//! Dissemination among n + 1 ranks at a time, for any number of ranks.

use super::method::{Case, Cells, Method, Needs, Numbers};
use crate::schedule::{Combine, Part, Schedule};
use crate::{Kind, Laws};

/// See [`dissemination`].
pub(crate) struct Dissemination;

/// The messages of a round that are worth trying.
pub(super) const MESSAGES: Numbers = Numbers { usual: &[1, 2, 3, 4, 5, 6, 7], powers_of_two: false };

impl Method for Dissemination {
    fn name(&self) -> &'static str {
        "dissemination"
    }
    fn numbers(&self) -> Option<Numbers> {
        Some(MESSAGES)
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        matches!(kind, Kind::Allreduce | Kind::Reduce).then_some(Needs::Together)
    }
    fn laws(&self, _: Kind) -> Laws {
        Laws { associative: true, commutative: true, infallible: true, ..Laws::NONE }
    }
    fn is_in_one_round(&self, number: u8, ranks: u32) -> bool {
        u32::from(number) + 1 >= ranks
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        case.among(rank, 1, |rank, ranks| dissemination(rank, ranks, case.number.into()))
    }
    fn cells(&self, _: &Case, _: u32) -> Cells {
        Cells::OfClass(2)
    }
}

/// The steps of `rank` in an allreduce by n-way dissemination, as Bruck and Ho do it ("Efficient global combine
/// operations in multi-port message-passing systems", Parallel Processing Letters, 1993).
///
/// It takes ⌈log₍ₙ₊₁₎ P⌉ rounds for any P and any n, the least that is possible if a rank takes in n values a round.
/// Each rank combines the values of the ranks before it, in a circle. T(w) is what the w ranks before it have. In a
/// round a rank hears from n others, of which some send T(w), and the others T(w) and their own value. How many of each
/// is a digit of P − 1 in base n + 1, from the highest digit on. So T grows to T(P − 1).
///
/// Combinations begin at another rank on each rank, so the operator must be associative, commutative and infallible.
///
/// If the digits of P − 1 in base n + 1 are c₁ … cₖ, there are c₁ + n·(k − 1) messages from each rank.
///
/// ```
/// # use maniple_schedules::{Goal, check, dissemination};
/// // 8 - 1 = 2·3 + 1 has the digits 2 and 1.
/// let report = check(&Goal::allreduce(8, 1), |rank| dissemination(rank, 8, 2)).unwrap();
/// assert_eq!((report.rounds, report.messages), (2, 8 * (2 + 2)));
/// assert!(report.laws.commutative && !report.laws.idempotent);
/// ```
///
/// # Panics
///
/// If `rank >= ranks`, or `n` is 0.
pub fn dissemination(rank: u32, ranks: u32, n: u32) -> Schedule {
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    assert!(n > 0, "dissemination needs at least one peer a round");
    // Register 0 has this rank's value x, register 1 has T, and register 2 has T with x.
    let [x, t, t_and_x] = [0, 1, 2].map(|register| Part::block(register, 0));
    let mut schedule = Schedule::new(rank, ranks, 1);
    let digits = digits(ranks - 1, n + 1);
    let (mut width, mut before) = (0, 0);
    for (round, &digit) in digits.iter().enumerate() {
        if width > 0 && digit > 0 {
            schedule.local(t.clone(), t_and_x.clone(), Combine::Replace);
            schedule.local(x.clone(), t_and_x.clone(), Combine::IncomingIsHigher);
        }
        // How far away the others are. The first ones send one more value. Where T is empty, only they send.
        let senders = if width > 0 { n } else { digit };
        let distance = |i: u32| if i < digit { width + i * (width + 1) + 1 } else { width + digit + i * width };
        let sent = |i: u32| match (i < digit, width) {
            (true, 0) => &x,
            (true, _) => &t_and_x,
            (false, _) => &t,
        };
        let around = |distance: u32| ((u64::from(rank) + u64::from(distance)) % u64::from(ranks)) as u32;
        for i in 0..senders {
            schedule.update(around(distance(i)), before + i, sent(i).clone());
        }
        for i in 0..senders {
            let how = if round == 0 && i == 0 { Combine::Replace } else { Combine::IncomingIsLower };
            schedule.read(around(ranks - distance(i)), before + i, t.clone(), how);
        }
        before += senders;
        width = width * (n + 1) + digit;
    }
    if width > 0 {
        schedule.local(t, x, Combine::IncomingIsLower);
    }
    schedule
}

/// The digits of a number, from the highest on. None for 0.
fn digits(mut number: u32, base: u32) -> Vec<u32> {
    let mut digits = Vec::new();
    while number > 0 {
        digits.push(number % base);
        number /= base;
    }
    digits.reverse();
    digits
}
