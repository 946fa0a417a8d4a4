//! The ends of barriers that a shard holds. Each end has its current generation, which is kept across the launches of a
//! gang.

use super::Barriers;
use crate::ids::{CellAddress, ObjectId, PhaseAddress};
use crate::maps::HashMap;
use crate::object::{EdgeTable, PhaseSpec};
use maniple_barriers::{Arriver, Empty, Phase, Ready, Waiter};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// The producing end of an edge.
#[derive(Debug)]
pub(crate) struct ProducerEnd {
    pub to: u32,
    pub tag: u32,
    pub empty: Waiter<Empty, CellAddress>,
    pub ready: Arriver<Ready, CellAddress>,
    /// Generations of `empty` that are known to be complete.
    pub known_empty: Cell<u64>,
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
    out_to: Partners,
    into_from: Partners,
}

/// The ends by the shard on the other side, once somebody asks. `None` for several edges with that shard.
type Partners = OnceCell<HashMap<u32, Option<u32>>>;

/// The number of a shard's only end whose other side is `wanted`.
fn the_only(known: &Partners, wanted: u32, all: impl Iterator<Item = u32>) -> Result<u32, &'static str> {
    let by_partner = || {
        let mut found = HashMap::default();
        for (number, other) in (0u32..).zip(all) {
            found.entry(other).and_modify(|only| *only = None).or_insert(Some(number));
        }
        found
    };
    match known.get_or_init(by_partner).get(&wanted) {
        Some(Some(number)) => Ok(*number),
        Some(None) => Err("several"),
        None => Err("none"),
    }
}

impl ShardEnds {
    fn new(object: ObjectId, shard: u32, table: &EdgeTable) -> Self {
        let out = table.out.of(shard).iter().map(|&edge| ProducerEnd {
            to: table.edges[edge as usize].to,
            tag: table.edges[edge as usize].tag,
            empty: Waiter::new(table.empty_address(object, edge), 0),
            ready: Arriver::new(table.ready_address(object, edge), 0),
            // The first values may be sent from the start.
            known_empty: Cell::new(table.depth.into()),
        });
        let into = table.into.of(shard).iter().map(|&edge| ConsumerEnd {
            from: table.edges[edge as usize].from,
            tag: table.edges[edge as usize].tag,
            ready: Waiter::new(table.ready_address(object, edge), 0),
            empty: Arriver::new(table.empty_address(object, edge), table.depth.into()),
        });
        let (out, into) = (out.collect(), into.collect());
        Self { out, into, out_to: Partners::new(), into_from: Partners::new() }
    }

    /// The number of the only edge to a shard.
    pub fn only_to(&self, shard: u32) -> Result<u32, &'static str> {
        the_only(&self.out_to, shard, self.out.iter().map(|end| end.to))
    }

    /// The number of the only edge from a shard.
    pub fn only_from(&self, shard: u32) -> Result<u32, &'static str> {
        the_only(&self.into_from, shard, self.into.iter().map(|end| end.from))
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
