//! The symbolic checker. It proves, for one number of participants, that a set of schedules is an allreduce.
//!
//! All schedules run once on symbolic values. A value is a binary tree over the ranks' contributions. Equal trees are
//! stored once (hash-consing), so two values are the same expression exactly if they have the same index.
//!
//! Each rank is sequential, and each message has a cell of its own, because the matching is proved first. So the
//! schedules form a Kahn network: its values do not depend on the order of execution, nor does a deadlock. One order
//! proves all.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use maniple_runtime::replay::pairwise;

use crate::schedule::{Combine, Link, Schedule, Step};

#[cfg(test)]
mod tests;

/// The numbers of a set of schedules that [`check`] has proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of ranks that take part.
    pub participants: u32,
    /// The length of the longest chain of dependent messages.
    pub rounds: u32,
    /// The messages of all ranks, including those within blocks.
    pub messages: u64,
    /// The update and read subtasks of all ranks.
    pub subtasks: u64,
    /// Whether one exchange cell for each rank would be enough, if every update waited for the read of the one before.
    /// The engine does not need this: it has a cell for each update of a small value, and two for a large one.
    pub one_cell: bool,
}

/// A limit on the unread messages of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channels {
    /// An update never waits.
    Unbounded,
    /// An update waits until this rank's previous message to the same peer has been read.
    SingleSlot,
    /// An update waits until this rank's message before the last one has been read, whoever its reader is.
    TwoCells,
    /// An update waits until this rank's previous message has been read, whoever its reader is.
    OneCell,
}

impl fmt::Display for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Channels::Unbounded => "unbounded channels",
            Channels::SingleSlot => "single-slot channels",
            Channels::TwoCells => "two exchange cells a rank",
            Channels::OneCell => "one exchange cell a rank",
        })
    }
}

/// The first mistake found in a set of schedules that is not an allreduce in rank order.
///
/// Steps are counted from 0 in the schedule of `rank`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// There are no participants.
    #[error("expected at least one participant, got 0")]
    NoParticipants,
    /// The function returned a schedule for another rank or another number of participants.
    #[error(
        "rank {rank}: expected its schedule among {participants} participants, got that of rank {came_rank} \
         among {came_participants}"
    )]
    Foreign {
        /// The rank asked for.
        rank: u32,
        /// The number of participants under check.
        participants: u32,
        /// The rank of the schedule that was returned.
        came_rank: u32,
        /// The participants of the schedule that was returned.
        came_participants: u32,
    },
    /// A step names its own rank, or no participant, as its peer.
    #[error("rank {rank} step {step}: expected another rank below {participants} as the peer, got {came}")]
    Peer {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The number of participants under check.
        participants: u32,
        /// The peer that the step names.
        came: u32,
    },
    /// A rank is not in the block that it names, does not name the same block as the others, or follows but has steps.
    #[error("rank {rank}: expected {expected}, got {came}")]
    Block {
        /// The rank.
        rank: u32,
        /// The block or steps that it should have.
        expected: String,
        /// The block or steps that it has.
        came: String,
    },
    /// The step at the other end of a message is missing, or belongs to another message.
    #[error(
        "rank {rank} step {step}: expected both ends of ({expected}), got {} at the other end",
        came.map_or("nothing".into(), |link| format!("({link})"))
    )]
    Unmatched {
        /// The rank of the step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The message of the step.
        expected: Link,
        /// The message of the step that it addresses at the peer, if there is such a step.
        came: Option<Link>,
    },
    /// No rank can go on, and some have steps left. `rank` is the lowest of them.
    #[error(
        "rank {rank} step {step}: expected ({expected}) to complete, got a deadlock of {stuck} ranks with {channels}"
    )]
    Deadlock {
        /// The rank of the waiting step.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The message that it waits for: a read waits until it is stored, an update until it is read.
        expected: Link,
        /// The number of ranks that cannot go on.
        stuck: u32,
        /// The rule under which the execution stopped.
        channels: Channels,
    },
    /// A combination of operands that are not neighbouring blocks in rank order. Contributions are doubled, left out or
    /// swapped.
    #[error(
        "rank {rank} step {step}: expected a higher operand that starts at {} after ranks {lower:?}, got ranks \
         {higher:?}",
        lower.end
    )]
    Order {
        /// The rank that combines.
        rank: u32,
        /// The number of the step.
        step: usize,
        /// The contributions in its left operand.
        lower: Range<u32>,
        /// The contributions in its right operand.
        higher: Range<u32>,
    },
    /// A rank ends without some of the contributions.
    #[error("rank {rank} after its last step: expected the contributions of ranks {expected:?}, got {came:?}")]
    Incomplete {
        /// The rank.
        rank: u32,
        /// All participants.
        expected: Range<u32>,
        /// The contributions in its result.
        came: Range<u32>,
    },
    /// A rank ends with all contributions in order, but in other brackets than rank 0. An operator that is not
    /// associative would give other bits.
    #[error("rank {rank} after its last step: expected the grouping of rank 0, {expected}, got {came}")]
    Grouping {
        /// The rank.
        rank: u32,
        /// The expression of rank 0, cut short if it is long.
        expected: String,
        /// The expression of this rank, cut short if it is long.
        came: String,
    },
}

/// Proves that the schedules of ranks `0..participants` are an allreduce, for every operator and every order of
/// execution.
///
/// It proves, in this order:
///
/// 1. Each update has exactly one read, at the rank and with the number that it names, and each read has one update.
/// 2. No execution deadlocks. This holds for unbounded channels, for room for one message between each ordered pair of
///    ranks, and for two exchange cells a rank, as large values have.
/// 3. Each rank ends with every contribution once, in rank order. So the operator need not commute.
/// 4. All ranks end with the same expression. So the operator need not be associative to give the same bits everywhere.
///
/// It runs one call. The empty barriers separate the calls of one slot; [`protocol`](crate::protocol) proves that part.
/// Pure and local. Takes time proportional to the number of steps.
///
/// # Errors
///
/// The first mistake found, in the order above; see [`CheckError`].
///
/// ```
/// use maniple_collectives::{check, recursive_doubling};
///
/// let report = check(6, |rank| recursive_doubling(rank, 6)).unwrap();
/// assert_eq!((report.rounds, report.messages, report.subtasks), (3, 12, 24));
/// ```
pub fn check(participants: u32, mut schedule: impl FnMut(u32) -> Schedule) -> Result<Report, CheckError> {
    if participants == 0 {
        return Err(CheckError::NoParticipants);
    }
    let schedules: Vec<Schedule> = (0..participants).map(&mut schedule).collect();
    let ranks: Vec<Rank<'_>> = schedules.iter().map(Rank::new).collect();
    for (rank, ends) in ranks.iter().enumerate() {
        ends.check_owner(rank as u32, participants)?;
        ends.check_peers(participants)?;
    }
    for ends in &ranks {
        ends.check_block(&ranks)?;
        ends.check_matching(&ranks)?;
    }
    let mut execution = Execution::new(&ranks, Channels::Unbounded);
    execution.run()?;
    Execution::new(&ranks, Channels::SingleSlot).run()?;
    Execution::new(&ranks, Channels::TwoCells).run()?;
    let one_cell = Execution::new(&ranks, Channels::OneCell).run().is_ok();
    execution.check_results()?;
    // Each rank that follows hands its contribution over and takes the result.
    let in_place: u64 = blocks(&ranks).map(|b| 2 * (b.len() as u64 - 1)).sum();
    Ok(Report {
        participants,
        rounds: execution.depth.iter().copied().max().unwrap_or(0),
        messages: schedules.iter().map(|s| s.updates() as u64).sum::<u64>() + in_place,
        subtasks: schedules.iter().map(|s| s.steps().len() as u64).sum::<u64>() + 2 * in_place,
        one_cell,
    })
}

/// One schedule with its links, and its steps found by their number among their kind.
struct Rank<'a> {
    schedule: &'a Schedule,
    links: Vec<Link>,
    updates: Vec<usize>,
    reads: Vec<usize>,
}

impl<'a> Rank<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let (updates, reads) =
            (0..schedule.steps().len()).partition(|&step| matches!(schedule.steps()[step], Step::Update { .. }));
        Rank { schedule, links: schedule.links().collect(), updates, reads }
    }

    fn check_owner(&self, rank: u32, participants: u32) -> Result<(), CheckError> {
        let (came_rank, came_participants) = (self.schedule.rank(), self.schedule.participants());
        if (came_rank, came_participants) == (rank, participants) {
            return Ok(());
        }
        Err(CheckError::Foreign { rank, participants, came_rank, came_participants })
    }

    fn check_peers(&self, participants: u32) -> Result<(), CheckError> {
        let rank = self.schedule.rank();
        let peers = self.schedule.steps().iter().map(|s| s.peer());
        match peers.enumerate().find(|&(_, p)| p == rank || p >= participants) {
            None => Ok(()),
            Some((step, came)) => Err(CheckError::Peer { rank, step, participants, came }),
        }
    }

    /// Checks that only the first rank of a block has steps, and that all name the same block.
    fn check_block(&self, ranks: &[Rank<'_>]) -> Result<(), CheckError> {
        let (rank, block, steps) = (self.schedule.rank(), self.schedule.block(), self.schedule.steps().len());
        let wrong = |expected: String, came: String| Err(CheckError::Block { rank, expected, came });
        if !block.contains(&rank) || block.end as usize > ranks.len() {
            return wrong(format!("a block below {} with this rank in it", ranks.len()), format!("{block:?}"));
        }
        let of = |rank: u32| ranks[rank as usize].schedule.block();
        // The first of a block looks at the others, and each of these at the first.
        let others = if rank == block.start { block.clone() } else { block.start..block.start + 1 };
        if let Some(other) = others.into_iter().find(|&other| of(other) != block) {
            return wrong(format!("the block of rank {other}, {:?}", of(other)), format!("{block:?}"));
        }
        if rank > block.start && steps > 0 {
            return wrong(format!("no steps, as it follows rank {}", block.start), format!("{steps} steps"));
        }
        Ok(())
    }

    /// Checks that both ends of a message name the same link, so that no two steps can claim the same one.
    fn check_matching(&self, ranks: &[Rank<'_>]) -> Result<(), CheckError> {
        for (step, &link) in self.links.iter().enumerate() {
            let came = match self.schedule.steps()[step] {
                Step::Update { .. } => {
                    let peer = &ranks[link.to as usize];
                    peer.reads.get(link.read as usize).map(|&s| peer.links[s])
                }
                Step::Read { .. } => {
                    let peer = &ranks[link.from as usize];
                    peer.updates.get(link.update as usize).map(|&s| peer.links[s])
                }
            };
            if came != Some(link) {
                return Err(CheckError::Unmatched { rank: self.schedule.rank(), step, expected: link, came });
            }
        }
        Ok(())
    }
}

/// The blocks of more than one rank.
fn blocks<'a>(ranks: &'a [Rank<'_>]) -> impl Iterator<Item = Range<u32>> + 'a {
    ranks
        .iter()
        .map(|r| (r.schedule.rank(), r.schedule.block()))
        .filter(|(r, b)| *r == b.start && b.len() > 1)
        .map(|(_, b)| b)
}

/// A message cell, one for each read.
#[derive(Clone, Copy)]
enum Cell {
    Empty,
    Full { value: Expr, depth: u32 },
    Taken,
}

/// One run of all schedules in some order.
struct Execution<'a> {
    ranks: &'a [Rank<'a>],
    channels: Channels,
    trees: Trees,
    next: Vec<usize>,
    running: Vec<Expr>,
    depth: Vec<u32>,
    cells: Vec<Vec<Cell>>,
    /// The last message each rank stored, by the peer it went to.
    unread: Vec<HashMap<u32, Link>>,
}

impl<'a> Execution<'a> {
    fn new(ranks: &'a [Rank<'a>], channels: Channels) -> Self {
        let mut trees = Trees::default();
        let mut running: Vec<Expr> = (0..ranks.len() as u32).map(|r| trees.leaf(r)).collect();
        let mut depth = vec![0; ranks.len()];
        for block in blocks(ranks) {
            let first = block.start as usize;
            pairwise(block.len() as u32, |i, j| {
                let (i, j) = (first + i as usize, first + j as usize);
                running[i] = trees.pair(running[i], running[j], (first as u32, 0));
            });
            depth[first] = 1;
        }
        Execution {
            ranks,
            channels,
            running,
            trees,
            next: vec![0; ranks.len()],
            depth,
            cells: ranks.iter().map(|r| vec![Cell::Empty; r.reads.len()]).collect(),
            unread: vec![HashMap::new(); ranks.len()],
        }
    }

    fn run(&mut self) -> Result<(), CheckError> {
        let mut ready: Vec<u32> = (0..self.ranks.len() as u32).rev().collect();
        while let Some(rank) = ready.pop() {
            // A rank that moved may free the peer of that step; running one that is not free does nothing.
            while let Some(peer) = self.advance(rank as usize) {
                ready.push(peer);
            }
        }
        let left = |&rank: &usize| self.next[rank] < self.ranks[rank].links.len();
        let stuck = (0..self.ranks.len()).filter(left);
        let Some(rank) = stuck.clone().next() else {
            for block in blocks(self.ranks) {
                let first = block.start as usize;
                let (result, depth) = (self.running[first], self.depth[first] + 1);
                self.running[first + 1..block.end as usize].fill(result);
                self.depth[first + 1..block.end as usize].fill(depth);
            }
            return Ok(());
        };
        let step = self.next[rank];
        Err(CheckError::Deadlock {
            rank: rank as u32,
            step,
            expected: self.blocked_on(rank, step).expect("a stuck rank waits for a message"),
            stuck: stuck.count() as u32,
            channels: self.channels,
        })
    }

    /// The message that `step` waits for, if it can't run.
    fn blocked_on(&self, rank: usize, step: usize) -> Option<Link> {
        let link = self.ranks[rank].links[step];
        match self.ranks[rank].schedule.steps()[step] {
            Step::Read { .. } => {
                let full = matches!(self.cells[rank][link.read as usize], Cell::Full { .. });
                (!full).then_some(link)
            }
            Step::Update { .. } => {
                let key = self.channel(link)?;
                let &before = self.unread[rank].get(&key)?;
                let taken = matches!(self.cells[before.to as usize][before.read as usize], Cell::Taken);
                (!taken).then_some(before)
            }
        }
    }

    /// Messages with the same key share one place at their sender.
    fn channel(&self, link: Link) -> Option<u32> {
        match self.channels {
            Channels::Unbounded => None,
            Channels::SingleSlot => Some(link.to),
            Channels::TwoCells => Some(link.update % 2),
            Channels::OneCell => Some(0),
        }
    }

    /// Runs the next step of `rank` if it can; the peer of that step.
    fn advance(&mut self, rank: usize) -> Option<u32> {
        let step = self.next[rank];
        let &now = self.ranks[rank].schedule.steps().get(step)?;
        if self.blocked_on(rank, step).is_some() {
            return None;
        }
        let link = self.ranks[rank].links[step];
        let cell = &mut self.cells[link.to as usize][link.read as usize];
        match now {
            Step::Update { .. } => {
                *cell = Cell::Full { value: self.running[rank], depth: self.depth[rank] + 1 };
                if let Some(key) = self.channel(link) {
                    self.unread[rank].insert(key, link);
                }
            }
            Step::Read { combine, .. } => {
                let Cell::Full { value, depth } = std::mem::replace(cell, Cell::Taken) else {
                    unreachable!("blocked_on found the cell full")
                };
                let mine = self.running[rank];
                let place = (rank as u32, step);
                self.running[rank] = match combine {
                    Combine::IncomingIsHigher => self.trees.pair(mine, value, place),
                    Combine::IncomingIsLower => self.trees.pair(value, mine, place),
                    Combine::Replace => value,
                };
                self.depth[rank] = self.depth[rank].max(depth);
            }
        }
        self.next[rank] += 1;
        Some(now.peer())
    }

    fn check_results(&self) -> Result<(), CheckError> {
        let expected = 0..self.ranks.len() as u32;
        for (rank, &result) in self.running.iter().enumerate() {
            let rank = rank as u32;
            let came = self.trees.ordered(result)?;
            if came != expected {
                return Err(CheckError::Incomplete { rank, expected, came });
            }
            if result != self.running[0] {
                return Err(CheckError::Grouping {
                    rank,
                    expected: self.trees.show(self.running[0]),
                    came: self.trees.show(result),
                });
            }
        }
        Ok(())
    }
}

/// An expression: its index in [`Trees`].
type Expr = u32;

#[derive(Clone, Copy)]
enum Node {
    Leaf(u32),
    Pair {
        lower: Expr,
        higher: Expr,
        /// Where it was first computed.
        place: (u32, usize),
    },
}

/// All expressions of an execution, equal ones stored once.
#[derive(Default)]
struct Trees {
    nodes: Vec<Node>,
    /// The contributions of a node if its leaves are consecutive ranks in order.
    ranges: Vec<Option<(u32, u32)>>,
    pairs: HashMap<(Expr, Expr), Expr>,
}

impl Trees {
    fn leaf(&mut self, rank: u32) -> Expr {
        self.push(Node::Leaf(rank), Some((rank, rank + 1)))
    }

    fn pair(&mut self, lower: Expr, higher: Expr, place: (u32, usize)) -> Expr {
        if let Some(&known) = self.pairs.get(&(lower, higher)) {
            return known;
        }
        let range = match (self.ranges[lower as usize], self.ranges[higher as usize]) {
            (Some((start, mid)), Some((next, end))) if mid == next => Some((start, end)),
            _ => None,
        };
        let node = Node::Pair { lower, higher, place };
        let expr = self.push(node, range);
        self.pairs.insert((lower, higher), expr);
        expr
    }

    fn push(&mut self, node: Node, range: Option<(u32, u32)>) -> Expr {
        self.nodes.push(node);
        self.ranges.push(range);
        self.nodes.len() as Expr - 1
    }

    /// The ranks in `expr`, or the first combine below it that leaves rank order.
    fn ordered(&self, mut expr: Expr) -> Result<Range<u32>, CheckError> {
        let range = |e: Expr| self.ranges[e as usize].map(|(start, end)| start..end);
        if let Some(ranks) = range(expr) {
            return Ok(ranks);
        }
        loop {
            let Node::Pair { lower, higher, place: (rank, step) } = self.nodes[expr as usize] else {
                unreachable!("a leaf is in order")
            };
            match (range(lower), range(higher)) {
                (None, _) => expr = lower,
                (_, None) => expr = higher,
                (Some(lower), Some(higher)) => {
                    return Err(CheckError::Order { rank, step, lower, higher });
                }
            }
        }
    }

    /// `((0 1) (2 3))`, cut after some sixty characters.
    fn show(&self, expr: Expr) -> String {
        let mut text = String::new();
        let mut todo = vec![Err(expr)];
        while let Some(item) = todo.pop() {
            if text.len() > 60 {
                return text + "…";
            }
            match item {
                Ok(word) => text.push_str(word),
                Err(expr) => match self.nodes[expr as usize] {
                    Node::Leaf(rank) => text.push_str(&rank.to_string()),
                    Node::Pair { lower, higher, .. } => {
                        todo.extend([Ok(")"), Err(higher), Ok(" "), Err(lower), Ok("(")]);
                    }
                },
            }
        }
        text
    }
}
