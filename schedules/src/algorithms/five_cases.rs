//! The n-way dissemination of "Adaption of the n-way dissemination algorithm for GASPI split-phase allreduce".

use super::dissemination::MESSAGES;
use super::method::{Case, Cells, Method, Needs, Numbers};
use crate::schedule::{Combine, Part, Schedule};
use crate::{Algorithm, Kind, Laws};

/// See [`five_cases`], without an inverse.
pub(crate) struct FiveCases;
/// The same with the inverse.
pub(crate) struct FiveCasesInverse;

impl Method for FiveCases {
    fn name(&self) -> &'static str {
        "five-cases"
    }
    fn numbers(&self) -> Option<Numbers> {
        Some(MESSAGES)
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        matches!(kind, Kind::Allreduce | Kind::Reduce).then_some(Needs::Together)
    }
    fn exists(&self, ranks: u32, number: u8) -> bool {
        Adaption::exists(ranks, number.into())
    }
    fn instead(&self, number: u8) -> Option<Algorithm> {
        Some(Algorithm::Dissemination(number))
    }
    fn laws(&self, _: Kind) -> Laws {
        Laws { associative: true, commutative: true, infallible: true, ..Laws::NONE }
    }
    fn is_in_one_round(&self, number: u8, ranks: u32) -> bool {
        u32::from(number) + 1 >= ranks
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        among(case, rank, false)
    }
    fn cells(&self, _: &Case, _: u32) -> Cells {
        Cells::OfClass(2)
    }
}

impl Method for FiveCasesInverse {
    fn name(&self) -> &'static str {
        "five-cases-inverse"
    }
    fn numbers(&self) -> Option<Numbers> {
        Some(MESSAGES)
    }
    fn needs(&self, kind: Kind) -> Option<Needs> {
        FiveCases.needs(kind)
    }
    fn exists(&self, ranks: u32, number: u8) -> bool {
        Adaption::needs_inverse(ranks, number.into())
    }
    fn instead(&self, number: u8) -> Option<Algorithm> {
        Some(Algorithm::FiveCases(number))
    }
    fn laws(&self, _: Kind) -> Laws {
        Laws { idempotent: false, ..Laws::ALL }
    }
    fn schedule(&self, case: &Case, rank: u32) -> Schedule {
        among(case, rank, true)
    }
    fn cells(&self, _: &Case, _: u32) -> Cells {
        Cells::OfClass(2)
    }
}

fn among(case: &Case, rank: u32, inverse: bool) -> Schedule {
    let of = |rank, ranks| five_cases(rank, ranks, case.number.into(), inverse);
    case.among(rank, 1, |rank, ranks| of(rank, ranks).expect("it exists for this number of ranks"))
}

/// How n-way dissemination is adapted to a number of ranks that is no power of n + 1 (§IV of the paper).
///
/// After all rounds but the last, each rank has the combination of its own value and the values of the q − 1 ranks
/// before it, where q is the power of n + 1 below P. In the last round it hears from the ranks that are q, 2q, …, s·q
/// before it. The last of these sends only the value that it had at an earlier time, of `kept` ranks. The receiver
/// leaves out the value that it had itself when it was of `left_out` ranks. So P = s·q + kept − left_out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaption {
    /// s, the ranks to hear from in the last round.
    pub senders: u32,
    /// The round and the message in it after which the sender's value is what it sends in the last round; (0, 0) for
    /// its own value.
    pub sent_after: (u32, u32),
    /// The round and the message in it after which the receiver's value is what it leaves out; (0, 0) for none.
    pub left_out_after: (u32, u32),
    n: u32,
}

impl Adaption {
    /// The adaption for some ranks, if there is one. With several, the one that needs the least work.
    ///
    /// Some numbers of ranks have none, which the paper does not mention: of P = 2 … 130, 64, 33 and 12 have none
    /// for n = 1, 2 and 3, and all have one from n = 4 on. The first P without any for n up to 7 is 601. A power of
    /// n + 1 needs none.
    pub fn find(ranks: u32, n: u32) -> Option<Self> {
        let ranks = u64::from(ranks);
        let (rounds, q) = (rounds(ranks, n), last_power(ranks, n));
        let boundaries = || std::iter::once((0, 0)).chain((1..rounds).flat_map(|l| (1..=n).map(move |j| (l, j))));
        let all = (1..=n).flat_map(|senders| {
            boundaries().flat_map(move |sent_after| {
                boundaries().map(move |left_out_after| Adaption { senders, sent_after, left_out_after, n })
            })
        });
        // In the order of the work: nothing extra, a part, a part and a value taken out.
        let work = |adaption: &Adaption| [3, 4, 5, 2, 1].iter().position(|&case| case == adaption.case());
        all.filter(|a| u64::from(a.senders) * q + a.boundary(a.sent_after) == ranks + a.boundary(a.left_out_after))
            .min_by_key(work)
    }

    /// Whether [`five_cases`] has a schedule for some ranks: they are a power of n + 1, or there is an adaption.
    pub fn exists(ranks: u32, n: u32) -> bool {
        is_exact(ranks, n) || Self::find(ranks, n).is_some()
    }

    /// Whether the schedule of [`five_cases`] for some ranks uses the inverse. It does if a value is left out.
    pub fn needs_inverse(ranks: u32, n: u32) -> bool {
        !is_exact(ranks, n) && Self::find(ranks, n).is_some_and(|adaption| adaption.left_out() > 0)
    }

    /// The number of the case in Theorem 1 of the paper, from 1.
    pub fn case(&self) -> u32 {
        match (self.left_out_after.0, self.sent_after.0) {
            (1.., 1..) => 1,
            (1.., 0) => 2,
            (0, 0) => 3,
            (0, 1) => 4,
            (0, 2..) => 5,
        }
    }

    /// The ranks in a value at a time, without its owner.
    fn boundary(&self, (round, message): (u32, u32)) -> u64 {
        if round == 0 { 0 } else { self.size((round, message)) - 1 }
    }

    /// The ranks in a value at a time.
    fn size(&self, (round, message): (u32, u32)) -> u64 {
        let before = |round: u32| u64::from(self.n + 1).pow(round - 1);
        if round == 0 { 1 } else { u64::from(message + 1) * before(round) }
    }

    /// The ranks in the value that the last sender sends; 0 if it sends nothing.
    pub fn kept(&self) -> u64 {
        match self.case() {
            3 => 0,
            4 => u64::from(self.sent_after.1),
            _ => self.size(self.sent_after),
        }
    }

    /// The ranks in the value that is left out.
    pub fn left_out(&self) -> u64 {
        match self.case() {
            3 | 4 => 0,
            _ => self.size(self.left_out_after),
        }
    }
}

/// The steps of `rank` in an allreduce by n-way dissemination as the paper does it, or `None` if it does not exist for
/// this number of ranks.
///
/// It has ⌈log₍ₙ₊₁₎ P⌉ rounds of n messages from each rank, the last one of at most n. The operator must be associative,
/// commutative and infallible. A value is left out with the operator's inverse if `inverse` is set. Otherwise what comes
/// after it is combined once more beside it.
///
/// # Panics
///
/// If `rank >= ranks`, or `n` is 0.
pub fn five_cases(rank: u32, ranks: u32, n: u32, inverse: bool) -> Option<Schedule> {
    assert!(rank < ranks, "rank {rank} is not below the {ranks} ranks");
    assert!(n > 0, "dissemination needs at least one peer a round");
    let rounds = rounds(ranks.into(), n);
    let exact = is_exact(ranks, n);
    let adaption = if exact { None } else { Some(Adaption::find(ranks, n)?) };
    let left_out = adaption.map_or(0, |a| a.left_out());
    let beside = left_out > 0 && !inverse;
    let schedule = Schedule::new(rank, ranks, 1).with_result(if beside { AFTER } else { RUNNING });
    let mut steps = Steps {
        schedule,
        size: 1,
        kept: adaption.map_or(0, |a| a.kept()),
        left_out,
        beside,
        after_is_empty: true,
        done: 0,
    };
    steps.keep();
    for round in 1..=rounds - u32::from(!exact) {
        let distance = u64::from(n + 1).pow(round - 1);
        steps.round((1..=n).map(|j| (u64::from(j) * distance, RUNNING)), false);
    }
    if let Some(adaption) = adaption {
        let q = last_power(ranks.into(), n);
        let whole = (1..adaption.senders).map(|s| (u64::from(s) * q, RUNNING));
        let part = (steps.kept > 0).then_some((u64::from(adaption.senders) * q, KEPT));
        steps.round(whole.chain(part), true);
        if left_out > 0 && inverse {
            steps.schedule.local(Part::block(LEFT_OUT, 0), Part::block(RUNNING, 0), Combine::Undo);
        }
    }
    Some(steps.schedule)
}

/// The registers: the running value, its state when it had the size that is sent in the last round, what has just come,
/// what came after the boundary, and the state at the boundary.
const RUNNING: u8 = 0;
const KEPT: u8 = 1;
const CAME: u8 = 2;
const AFTER: u8 = 3;
const LEFT_OUT: u8 = 4;

struct Steps {
    schedule: Schedule,
    /// The ranks in the running value.
    size: u64,
    kept: u64,
    left_out: u64,
    /// Whether what comes after the boundary is combined beside the running value.
    beside: bool,
    after_is_empty: bool,
    /// The messages of the rounds before.
    done: u32,
}

impl Steps {
    /// One round: messages to the ranks at some distances, and from those as far before.
    fn round(&mut self, messages: impl Iterator<Item = (u64, u8)> + Clone, last: bool) {
        let (rank, ranks) = (u64::from(self.schedule.rank()), u64::from(self.schedule.ranks()));
        let (size, mut count) = (self.size, 0);
        for (distance, register) in messages.clone() {
            let peer = (rank + distance) % ranks;
            self.schedule.update(peer as u32, self.done + count, Part::block(register, 0));
            count += 1;
        }
        for (at, (distance, _)) in (self.done..).zip(messages) {
            let peer = (rank + ranks - distance % ranks) % ranks;
            self.take(peer as u32, at, last);
            self.size += size;
            if !last {
                self.keep();
            }
        }
        self.done += count;
    }

    fn take(&mut self, peer: u32, at: u32, last: bool) {
        let [running, came, after] = [RUNNING, CAME, AFTER].map(|register| Part::block(register, 0));
        let crossed = self.beside && self.size >= self.left_out;
        if !crossed {
            return self.schedule.read(peer, at, running, Combine::IncomingIsLower);
        }
        let how = if self.after_is_empty { Combine::Replace } else { Combine::IncomingIsLower };
        self.after_is_empty = false;
        if last {
            return self.schedule.read(peer, at, after, how);
        }
        self.schedule.read(peer, at, came.clone(), Combine::Replace);
        self.schedule.local(came.clone(), running, Combine::IncomingIsLower);
        self.schedule.local(came, after, how);
    }

    /// Keeps the running value if it has a size that is needed later.
    fn keep(&mut self) {
        let running = || Part::block(RUNNING, 0);
        if self.size == self.kept {
            self.schedule.local(running(), Part::block(KEPT, 0), Combine::Replace);
        }
        if self.size == self.left_out && !self.beside {
            self.schedule.local(running(), Part::block(LEFT_OUT, 0), Combine::Replace);
        }
    }
}

/// Whether no adaption is needed.
fn is_exact(ranks: u32, n: u32) -> bool {
    u64::from(n + 1).pow(rounds(ranks.into(), n)) == u64::from(ranks)
}

/// ⌈log₍ₙ₊₁₎ P⌉
fn rounds(ranks: u64, n: u32) -> u32 {
    let (mut rounds, mut power) = (0, 1);
    while power < ranks {
        power *= u64::from(n + 1);
        rounds += 1;
    }
    rounds
}

/// The power of n + 1 of all rounds but the last.
fn last_power(ranks: u64, n: u32) -> u64 {
    u64::from(n + 1).pow(rounds(ranks, n).saturating_sub(1))
}
