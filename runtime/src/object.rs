//! What the top-level task makes, as every node knows it: trees, tasks, gangs, pairs, phase barriers, replayed objects.

use crate::ids::{CellAddress, EMPTY, ObjectId, ProcessorId, Run};
use maniple_regions::{FieldId, FieldInfo, FieldSpace, Rect};
use std::any::Any;
use std::sync::Arc;

/// What the replicated top-level task makes: the same list, in the same order, on every node.
pub(crate) enum Object {
    Tree(Tree),
    Task(TaskSpec),
    Gang(Arc<GangTable>),
    Pairs(PairTable),
    Phase(PhaseSpec),
    Replay(Arc<dyn Replayed>),
}

impl Object {
    /// The object's kind and name, for reports.
    pub fn describe(&self) -> String {
        match self {
            Object::Tree(t) => format!("region tree `{}`", t.name),
            Object::Task(t) => format!("task `{}`", t.name),
            Object::Gang(g) => format!("gang `{}`", g.name),
            Object::Pairs(p) => format!("pairs `{}`", p.name),
            Object::Phase(p) => format!("phase barrier `{}`", p.name),
            Object::Replay(r) => format!("`{}`", r.name()),
        }
    }

    /// What a cell of its barriers is called in reports.
    pub fn cell_name(&self, processor: ProcessorId, cell: u32) -> String {
        let half = if cell & EMPTY == 0 { "ready" } else { "empty" };
        match self {
            Object::Pairs(p) => match p.ends(processor, cell) {
                Some((from, to)) => format!("`{}` {half} of pair shard {from} -> shard {to}", p.name),
                None => format!("`{}` {half} cell {}", p.name, cell & !EMPTY),
            },
            o => o.describe(),
        }
    }
}

pub(crate) struct Tree {
    pub name: String,
    pub rect: Rect,
    pub fields: Vec<&'static FieldInfo>,
}

impl Tree {
    pub fn new(name: &str, rect: Rect, fields: &FieldSpace) -> Self {
        Self { name: name.into(), rect, fields: fields.fields().iter().map(|f| (*f).into()).collect() }
    }

    #[inline]
    pub fn field(&self, id: FieldId) -> Option<&'static FieldInfo> {
        self.fields.iter().find(|f| f.id == id).copied()
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

pub(crate) struct TaskSpec {
    pub run: Run,
    pub name: Arc<str>,
    /// What starts a shard: who made it knows its type.
    pub code: Box<dyn Any + Send + Sync>,
}

/// A replayed object (see [`crate::replay`]): the rest of it is known there.
pub(crate) trait Replayed: Any + Send + Sync {
    fn name(&self) -> &str;
    fn gang(&self) -> &Arc<GangTable>;
}

/// Where the shards of a gang are: computed once by every node, never sent.
pub(crate) struct GangTable {
    /// The object's number.
    pub id: ObjectId,
    pub run: Run,
    pub name: String,
    /// Processor of each shard, and its position among that processor's shards.
    pub at: Vec<(ProcessorId, u32)>,
    /// Shards of each processor, ascending.
    pub members: Vec<Vec<u32>>,
}

impl GangTable {
    pub fn new(id: ObjectId, name: &str, placement: &[ProcessorId], processors: u32) -> Self {
        let mut members = vec![Vec::new(); processors as usize];
        let at = (0u32..)
            .zip(placement)
            .map(|(shard, &p)| {
                let local = &mut members[p as usize];
                local.push(shard);
                (p, local.len() as u32 - 1)
            })
            .collect();
        Self { id, run: Run::ANY, name: name.into(), at, members }
    }

    pub fn shards(&self) -> u32 {
        self.at.len() as u32
    }
}

/// A family of ready/empty pairs: one for each producing shard of a gang.
pub(crate) struct PairTable {
    pub name: String,
    pub gang: Arc<GangTable>,
    /// The consumer of each producer.
    pub to: Vec<u32>,
    /// Number of the ready cell of each producer's pair on the consumer's processor.
    pub ready: Vec<u32>,
    /// Ready cells on each processor.
    pub ready_count: Vec<u32>,
}

impl PairTable {
    pub fn new(name: &str, gang: Arc<GangTable>, to: Vec<u32>) -> Self {
        let mut ready_count = vec![0; gang.members.len()];
        let ready = to
            .iter()
            .map(|&consumer| {
                let count = &mut ready_count[gang.at[consumer as usize].0 as usize];
                *count += 1;
                *count - 1
            })
            .collect();
        Self { name: name.into(), gang, to, ready, ready_count }
    }

    pub fn ready_address(&self, object: ObjectId, producer: u32) -> CellAddress {
        let processor = self.gang.at[self.to[producer as usize] as usize].0;
        CellAddress { processor, object, cell: self.ready[producer as usize] }
    }

    pub fn empty_address(&self, object: ObjectId, producer: u32) -> CellAddress {
        let (processor, local) = self.gang.at[producer as usize];
        CellAddress { processor, object, cell: EMPTY | local }
    }

    /// The producer and consumer of a cell of `processor`, for reports.
    pub fn ends(&self, processor: ProcessorId, cell: u32) -> Option<(u32, u32)> {
        let producer = if cell & EMPTY != 0 {
            *self.gang.members[processor as usize].get((cell & !EMPTY) as usize)?
        } else {
            (0u32..)
                .zip(&self.to)
                .find(|&(s, &c)| self.ready[s as usize] == cell && self.gang.at[c as usize].0 == processor)?
                .0
        };
        Some((producer, self.to[producer as usize]))
    }
}

/// How the values of a reduction barrier combine, in the order of the arrivers.
pub(crate) type PhaseFold = Arc<dyn Fn(u64, u64) -> u64 + Send + Sync>;

/// A phase barrier: any arrivers, any waiters, arrivals combined along a tree of the processors concerned.
pub(crate) struct PhaseSpec {
    pub name: String,
    pub gang: Arc<GangTable>,
    pub arrivers: Vec<u32>,
    pub waiters: Vec<u32>,
    pub window: u64,
    pub tree: maniple_barriers::CombiningTree,
    pub fold: Option<PhaseFold>,
}

impl PhaseSpec {
    /// Positions, in the arriver list, of the arrivers on `processor`.
    pub fn local_arrivers(&self, processor: ProcessorId) -> Vec<u32> {
        (0u32..)
            .zip(&self.arrivers)
            .filter(|&(_, &s)| self.gang.at[s as usize].0 == processor)
            .map(|(i, _)| i)
            .collect()
    }

    /// Whether a member of the tree, or one below it, has an arriver.
    pub fn contributes(&self, member: ProcessorId) -> bool {
        self.arrivers.iter().any(|&s| self.gang.at[s as usize].0 == member)
            || self.tree.children(member).iter().any(|&c| self.contributes(c))
    }

    /// The position in the arriver list of a member's contributor; of a subtree, that of one of its arrivers.
    pub fn arriver_behind(&self, member: ProcessorId, contributor: u32) -> u32 {
        let own = self.local_arrivers(member);
        let below = || {
            let mut children = self.tree.children(member).iter().filter(|&&c| self.contributes(c));
            let child = children.nth((contributor as usize).checked_sub(own.len())?)?;
            Some(self.arriver_behind(*child, 0))
        };
        own.get(contributor as usize).copied().or_else(below).unwrap_or(u32::MAX)
    }
}
