//! The ends of barriers that a shard holds. Each end has its current generation, which is kept across the launches of a
//! gang.

use super::Barriers;
use crate::ids::{CellAddress, ObjectId, PhaseAddress};
use crate::object::{EdgeTable, PhaseSpec};
use maniple_barriers::{Arriver, Empty, Phase, Ready, Waiter};
use std::rc::Rc;

/// The producing end of an edge.
#[derive(Debug)]
pub(crate) struct ProducerEnd {
    pub to: u32,
    pub tag: u32,
    pub empty: Waiter<Empty, CellAddress>,
    pub ready: Arriver<Ready, CellAddress>,
}

/// The consuming end of an edge.
#[derive(Debug)]
pub(crate) struct ConsumerEnd {
    pub from: u32,
    pub tag: u32,
    pub ready: Waiter<Ready, CellAddress>,
    pub empty: Arriver<Empty, CellAddress>,
}

/// A shard's ends of a set of edges, in the order of the edges. They lie side by side because a task uses several.
#[derive(Debug)]
pub(crate) struct ShardEnds {
    pub out: Box<[ProducerEnd]>,
    pub into: Box<[ConsumerEnd]>,
}

impl ShardEnds {
    fn new(object: ObjectId, shard: u32, table: &EdgeTable) -> Self {
        let out = table.out.of(shard).iter().map(|&edge| ProducerEnd {
            to: table.edges[edge as usize].to,
            tag: table.edges[edge as usize].tag,
            empty: Waiter::new(table.empty_address(object, edge), 0),
            ready: Arriver::new(table.ready_address(object, edge), 0),
        });
        let into = table.into.of(shard).iter().map(|&edge| ConsumerEnd {
            from: table.edges[edge as usize].from,
            tag: table.edges[edge as usize].tag,
            ready: Waiter::new(table.ready_address(object, edge), 0),
            // There is room for the first values from the start.
            empty: Arriver::new(table.empty_address(object, edge), table.depth.into()),
        });
        Self { out: out.collect(), into: into.collect() }
    }
}

/// A shard's end of a phase barrier.
#[derive(Debug)]
pub(crate) struct PhaseEnd {
    /// Counts arrivals; `times` of them make a generation. Its address has the shard's first position in the list of
    /// arrivers.
    pub arriver: Arriver<Phase, PhaseAddress>,
    pub times: u64,
    pub waiter: Waiter<Phase, PhaseAddress>,
}

impl PhaseEnd {
    /// The generation that the next arrival counts for.
    pub fn generation(&self) -> u64 {
        self.arriver.generation() / self.times
    }

    /// Takes the next arrival: its position in the list of arrivers, and its generation.
    #[inline]
    pub fn take(&self) -> (u32, u64) {
        let (first, count) = (self.arriver.address().arriver, self.arriver.take());
        if self.times == 1 {
            return (first, count);
        }
        (first + (count % self.times) as u32, count / self.times)
    }
}

impl Barriers {
    /// A shard's ends of a set of edges.
    pub fn ends(&self, object: ObjectId, shard: u32, table: &EdgeTable) -> Rc<ShardEnds> {
        let mut ends = self.ends.borrow_mut();
        ends.entry((object, shard)).or_insert_with(|| Rc::new(ShardEnds::new(object, shard, table))).clone()
    }

    /// A shard's end of a phase barrier.
    pub fn phase_end(&self, object: ObjectId, shard: u32, spec: &PhaseSpec) -> Rc<PhaseEnd> {
        let new = || {
            let first = spec.arrivers.iter().position(|&s| s == shard).map_or(u32::MAX, |at| at as u32);
            let at = PhaseAddress { object, arriver: first };
            let times = spec.arrivers.iter().filter(|&&s| s == shard).count() as u64;
            Rc::new(PhaseEnd { arriver: Arriver::new(at, 0), times: times.max(1), waiter: Waiter::new(at, 0) })
        };
        self.phase_ends.borrow_mut().entry((object, shard)).or_insert_with(new).clone()
    }
}
