//! The choice of who does the work in reductions that overlap.

use super::load::{Load, Traffic};
use crate::parts::Parts;
use crate::sizes::Sizes;
use crate::{Choose, Survivors};
use crate::{Schedules, Step};

/// How often all reductions are chosen anew at most. Few loads change after the second time.
const PASSES: usize = 4;

/// The schedules of several collectives, with loads balanced over the ranks. [`balance`] makes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Balanced {
    /// The schedules, in the order of the given ones. They reach the same goals with the same brackets.
    pub schedules: Vec<Schedules>,
    /// What each rank sends and receives in one call of each.
    pub loads: Vec<Load>,
    /// The same for the given schedules.
    pub before: Vec<Load>,
}

/// One of the collectives.
pub(crate) struct Member {
    pub schedules: Schedules,
    pub sizes: Sizes,
    /// The bytes of an element.
    pub element: usize,
}

/// Balances what the ranks send and receive in collectives that are in flight together. Each comes with the bytes of a
/// vector.
///
/// It is the greedy rule of §3.3 of "Advanced collective communication in Aspen". That paper counts the edges into and
/// out of each node. Where two nodes could each send its value to the other, the one with less to do receives. Four
/// things are different here:
///
/// - The paper numbers the contributors so that receivers come first, and halves the higher numbers away. That combines
///   values out of rank order. [`Survivors`] halves aligned neighbouring blocks, so that all choices have the brackets of
///   recursive doubling. The choice is then between the survivors of two neighbouring blocks, and changes no bit.
/// - It also chooses who hands the result on to receivers that do not contribute, and which of these are the first.
/// - An edge weighs as much as its bytes and 2 KiB, see [`Load::weight`]. What other kinds and algorithms send counts, but
///   stays as it is.
/// - The paper builds the graph once. Here all reductions start as they are alone. They are chosen anew in turns, each
///   against the loads of all others, and a choice is kept if it is better. So the largest weight of a rank never grows.
///
/// The same arguments give the same schedules on every node. One choice for c contributors takes time O(P + c·log c).
/// Local and pure.
///
/// ```
/// use maniple_collectives::{Algorithm, Goal, Ranks, Schedules, balance, check};
///
/// // Four ranks reduce four times, each time to another one of them.
/// let reduce = |to| Goal::reduce(4, Ranks::all(4), Ranks::one(to), 1);
/// let alone = |to| Schedules::new(&reduce(to), Algorithm::RecursiveDoubling);
/// let balanced = balance((0..4).map(|to| (alone(to), 8)));
///
/// let most = |loads: &[maniple_collectives::Load]| loads.iter().map(|load| load.received.messages).max();
/// assert_eq!((most(&balanced.before), most(&balanced.loads)), (Some(4), Some(3)));
/// let report = check(&reduce(0), |rank| balanced.schedules[0].of(rank)).unwrap();
/// assert!(report.by_doubling);
/// ```
///
/// # Panics
///
/// If the collectives do not have the same number of ranks.
pub fn balance(collectives: impl IntoIterator<Item = (Schedules, usize)>) -> Balanced {
    let member = |(schedules, bytes)| Member { schedules, sizes: Sizes::Whole(bytes), element: 1 };
    balance_members(collectives.into_iter().map(member).collect())
}

pub(crate) fn balance_members(mut members: Vec<Member>) -> Balanced {
    let ranks = members.first().map_or(0, |member| member.schedules.goal().ranks());
    assert!(members.iter().all(|m| m.schedules.goal().ranks() == ranks), "collectives of different numbers of ranks");
    let mut loads = vec![Load::default(); ranks as usize];
    let mut all: Vec<Option<Open>> = members.iter().map(Open::new).collect();
    for (member, open) in members.iter().zip(&all) {
        match open {
            Some(open) => open.add_to(&mut loads),
            None => member.add_to(&mut loads),
        }
    }
    let before = loads.clone();
    let mut weights = Weights(loads.iter().map(|load| [load.sent.weight(), load.received.weight()]).collect());
    for _ in 0..PASSES {
        let mut changed = false;
        for open in all.iter_mut().flatten() {
            changed |= open.choose(&mut weights, &mut loads);
        }
        if !changed {
            break;
        }
    }
    for (member, open) in members.iter_mut().zip(all) {
        if let Some(open) = open.filter(|open| open.changed) {
            member.schedules = member.schedules.by_survivors(open.survivors);
        }
    }
    Balanced { schedules: members.into_iter().map(|member| member.schedules).collect(), loads, before }
}

impl Member {
    /// Adds what each rank sends and receives.
    fn add_to(&self, loads: &mut [Load]) {
        let goal = self.schedules.goal();
        for rank in 0..goal.ranks() {
            let schedule = self.schedules.of(rank);
            let load = &mut loads[rank as usize];
            let parts = Parts::of(&schedule, goal, &self.sizes);
            for step in schedule.steps() {
                let (direction, part) = match *step {
                    Step::Update { part, .. } => (&mut load.sent, part),
                    Step::Read { part, .. } => (&mut load.received, part),
                    Step::Local { .. } => continue,
                };
                let (_, elements) = parts.at(part);
                *direction += Traffic::message(elements.len().saturating_mul(self.element) as u64);
            }
        }
    }
}

/// A reduction with something to choose.
struct Open {
    survivors: Survivors,
    /// Each of its messages.
    message: Traffic,
    changed: bool,
}

impl Open {
    fn new(member: &Member) -> Option<Self> {
        let survivors = member.schedules.survivors()?;
        let bytes = member.sizes.most(member.schedules.goal()).saturating_mul(member.element);
        Some(Self { survivors, message: Traffic::message(bytes as u64), changed: false })
    }

    /// Adds what each rank sends and receives.
    fn add_to(&self, loads: &mut [Load]) {
        for (from, to) in self.survivors.messages() {
            loads[from as usize].sent += self.message;
            loads[to as usize].received += self.message;
        }
    }

    /// Chooses anew against the loads of all others. Returns whether that is better.
    fn choose(&mut self, weights: &mut Weights, loads: &mut [Load]) -> bool {
        let weight = self.message.weight();
        let mut new = weights.clone();
        self.survivors.messages().for_each(|(from, to)| new.remove(from, to, weight));
        let survivors = self.survivors.again(&mut Greedy { weights: &mut new, weight });
        if new.badness() >= weights.badness() {
            return false;
        }
        for (from, to) in self.survivors.messages() {
            remove(&mut loads[from as usize].sent, self.message);
            remove(&mut loads[to as usize].received, self.message);
        }
        (*weights, self.survivors, self.changed) = (new, survivors, true);
        self.add_to(loads);
        true
    }
}

fn remove(from: &mut Traffic, message: Traffic) {
    from.messages -= message.messages;
    from.bytes = from.bytes.saturating_sub(message.bytes);
}

/// For each rank the weights of what it sends and receives.
#[derive(Clone)]
struct Weights(Vec<[u64; 2]>);

impl Weights {
    fn add(&mut self, from: u32, to: u32, weight: u64) {
        self.0[from as usize][0] = self.0[from as usize][0].saturating_add(weight);
        self.0[to as usize][1] = self.0[to as usize][1].saturating_add(weight);
    }

    fn remove(&mut self, from: u32, to: u32, weight: u64) {
        self.0[from as usize][0] = self.0[from as usize][0].saturating_sub(weight);
        self.0[to as usize][1] = self.0[to as usize][1].saturating_sub(weight);
    }

    /// The largest weight of a rank, and then how uneven all are. Smaller is better.
    fn badness(&self) -> Badness {
        badness(self.0.iter().copied())
    }
}

type Badness = (u64, u128);

/// The sum of squares is smallest where the same load is spread evenly.
fn badness(of: impl IntoIterator<Item = [u64; 2]>) -> Badness {
    let square = |weight: u64| u128::from(weight) * u128::from(weight);
    of.into_iter().fold((0, 0), |(most, squares), [sent, received]| {
        let squares = squares.saturating_add(square(sent)).saturating_add(square(received));
        (most.max(sent).max(received), squares)
    })
}

/// The least loaded takes the work, and of equal ones the first.
struct Greedy<'a> {
    weights: &'a mut Weights,
    /// That of a message.
    weight: u64,
}

impl Greedy<'_> {
    /// What one more message to a rank, or from it, would come to.
    fn with(&self, rank: u32, sends: bool) -> [u64; 2] {
        let mut with = self.weights.0[rank as usize];
        let direction = &mut with[usize::from(!sends)];
        *direction = direction.saturating_add(self.weight);
        with
    }
}

impl Choose for Greedy<'_> {
    fn survivor(&mut self, lower: u32, higher: u32) -> u32 {
        let to = |survivor, other| badness([self.with(survivor, false), self.with(other, true)]);
        if to(higher, lower) < to(lower, higher) { higher } else { lower }
    }

    fn turn(&mut self, of: &[u32], count: usize) -> Vec<u32> {
        let mut sorted = of.to_vec();
        sorted.sort_by_cached_key(|&rank| badness([self.with(rank, true)]));
        sorted.truncate(count);
        sorted
    }

    fn sends(&mut self, from: u32, to: u32) {
        self.weights.add(from, to, self.weight);
    }
}
