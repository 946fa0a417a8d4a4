//! The objects that the top-level task makes: region trees, tasks, gangs, edges, phase barriers, replayed objects.

use crate::ids::{CellAddress, EMPTY, ObjectId, ProcessorId, Run};
use crate::payload::Length;
use crate::{Error, Place};
use maniple_regions::{FieldId, FieldInfo, FieldSpace, Rect, RegionError};
use std::ops::Deref;
use std::sync::Arc;

/// Types of higher modules that objects hold or are given. Named here, so that no object needs a downcast.
pub(crate) trait Types {
    /// A processor.
    type Core;
    /// A processor's part in the report of a deadlock.
    type Report;
    /// The code that starts a shard of a task.
    type Code: Send + Sync;
    /// A replayed object.
    type Replay: Defined + Send + Sync;
}

/// Implements [`Types`], in `processor/mod.rs`.
pub(crate) struct Above;

pub(crate) type Core = <Above as Types>::Core;
type Report = <Above as Types>::Report;

/// What a kind of object is on a processor. Each kind implements it in `program`.
pub(crate) trait Defined {
    fn name(&self) -> &str;
    /// What must be the same on every node, besides the kind and the name.
    fn parameters(&self) -> String;
    /// The gang whose shards alone use it, if there is one.
    fn gang(&self) -> Option<&Arc<GangTable>> {
        None
    }
    /// How much the values of its arrivals count for.
    fn length(&self) -> Length {
        Length::OWN
    }
    /// The name of a cell of its barriers in reports.
    fn cell_name(&self, _processor: ProcessorId, _cell: u32) -> String {
        format!("`{}`", self.name())
    }
    /// Makes its state on a processor.
    fn define(&self, _id: ObjectId, _core: &Core) {}
    /// Forgets its state on a processor, except barriers and chains.
    fn free(&self, _id: ObjectId, _core: &Core) {}
    /// Poisons its incomplete generations, and fails its unfinished calls.
    fn give_up(&self, _id: ObjectId, _core: &Core, _error: &Error) {}
    /// Poisons every arrival that a failed shard of its gang still owes.
    fn abandon(&self, _id: ObjectId, _core: &Core, _shard: u32, _error: &Error) {}
    /// Poisons what a failed shard of its gang owes in calls that it has not made.
    fn give_up_calls(&self, _id: ObjectId, _core: &Core, _shard: u32, _error: &Error) {}
    /// Adds its waits to the report of a deadlock.
    fn report(&self, _id: ObjectId, _core: &Core, _part: &mut Report) {}
}

macro_rules! kinds {
    ($($kind:ident($table:ty) $get:ident $words:literal,)*) => {
        /// An object that the replicated top-level task makes. Every node has the same list of them, in the same order.
        pub(crate) enum Object {
            $($kind($table),)*
        }

        impl Object {
            /// The object's kind and name, for reports.
            pub fn describe(&self) -> String {
                let kind = match self {
                    $(Object::$kind(_) => $words,)*
                };
                format!("{kind}`{}`", self.name())
            }

            $(
                /// The object, if it is of this kind.
                #[inline]
                pub fn $get(&self) -> Option<&$table> {
                    match self {
                        Object::$kind(of) => Some(of),
                        _ => None,
                    }
                }
            )*
        }

        impl Deref for Object {
            type Target = dyn Defined;

            fn deref(&self) -> &(dyn Defined + 'static) {
                match self {
                    $(Object::$kind(of) => of,)*
                }
            }
        }
    };
}

kinds! {
    Tree(Tree) tree "region tree ",
    Task(TaskSpec) task "task ",
    Gang(Arc<GangTable>) table "gang ",
    Edges(EdgeTable) edges "edges ",
    Phase(PhaseSpec) phase "phase barrier ",
    Replay(<Above as Types>::Replay) replay "",
}

/// A region tree: its name, its points and its fields. [`Top::tree`](crate::Top::tree) returns one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tree {
    /// The name that the program gave it.
    pub name: String,
    /// All points.
    pub rect: Rect,
    /// The fields, in ascending order of their numbers.
    pub fields: Vec<&'static FieldInfo>,
}

impl Tree {
    /// # Errors
    /// [`Error::Region`] for two fields with the same number or name, or for a field with more bytes than can be addressed.
    pub(crate) fn new(name: &str, rect: Rect, fields: &[FieldInfo]) -> Result<Self, Error> {
        let large = |field: &&FieldInfo| rect.bytes(field.size.max(1)).is_none();
        let fields = match fields.iter().find(large) {
            Some(f) => Err(RegionError::TooLarge {
                what: format!("field `{}`", f.name).into(),
                rect: rect.into(),
                each: f.size,
            }),
            None => FieldSpace::new(fields),
        };
        let place = || Place { task: format!("region tree `{name}`"), shard: None };
        let fields = fields.map_err(|source| Error::region(place(), source))?;
        Ok(Self { name: name.into(), rect, fields: fields.fields().iter().map(|f| (*f).into()).collect() })
    }

    #[inline]
    pub(crate) fn field(&self, id: FieldId) -> Option<&'static FieldInfo> {
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
    /// It is an inner task.
    pub inner: bool,
    /// The types of its argument and its result.
    pub types: (&'static str, &'static str),
    /// The code that starts a shard.
    pub code: <Above as Types>::Code,
}

/// The processors of a gang's shards. Every node computes the table once; it is never sent.
#[derive(Debug)]
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
                let local = &mut members[p.index()];
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

/// An edge from one shard of a gang to another or to itself, for [`Top::edges`](crate::Top::edges).
///
/// `(from, to).into()` has tag 0, and `(from, to, tag).into()` has any tag. Edges from one shard to the same other one
/// differ in their tags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The producing shard.
    pub from: u32,
    /// The consuming shard.
    pub to: u32,
    /// Any number that tells this edge from others between the same shards.
    pub tag: u32,
}

impl From<(u32, u32)> for Edge {
    fn from((from, to): (u32, u32)) -> Self {
        Self { from, to, tag: 0 }
    }
}
impl From<(u32, u32, u32)> for Edge {
    fn from((from, to, tag): (u32, u32, u32)) -> Self {
        Self { from, to, tag }
    }
}

impl std::fmt::Display for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { from, to, tag } = self;
        write!(f, "edge shard {from} -> shard {to}")?;
        if *tag > 0 { write!(f, ", tag {tag}") } else { Ok(()) }
    }
}

impl std::fmt::Debug for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} -> {} tag {}", self.from, self.to, self.tag)
    }
}

/// The half of a cell, in reports.
pub(crate) fn half(cell: u32) -> &'static str {
    if cell & EMPTY == 0 { "ready" } else { "empty" }
}

/// The edges between shards of a gang, each with a ready cell where it is consumed and an empty cell where it is
/// produced.
pub(crate) struct EdgeTable {
    pub name: String,
    pub gang: Arc<GangTable>,
    pub depth: u32,
    pub edges: Vec<Edge>,
    /// The type of the values that arrivals carry, for reports, and how much they count for.
    pub values: (&'static str, Length),
    /// The edges that lead from each shard, and those that lead to it.
    pub out: Grouped,
    pub into: Grouped,
    /// Numbers of each edge's ready cell on the processor of its consumer and of its empty cell on the processor of its
    /// producer.
    pub cells: Vec<(u32, u32)>,
    /// Ready and empty cells of each processor.
    pub counts: Vec<(u32, u32)>,
}

/// Numbers grouped by the shard that they concern, in ascending order.
pub(crate) struct Grouped {
    starts: Vec<u32>,
    numbers: Vec<u32>,
}

impl Grouped {
    fn new(shards: u32, of: &[Edge], shard: impl Fn(&Edge) -> u32) -> Self {
        let mut starts = vec![0; shards as usize + 1];
        of.iter().for_each(|edge| starts[shard(edge) as usize + 1] += 1);
        (1..starts.len()).for_each(|s| starts[s] += starts[s - 1]);
        let mut next = starts.clone();
        let mut numbers = vec![0; of.len()];
        for (number, edge) in (0u32..).zip(of) {
            let place = &mut next[shard(edge) as usize];
            numbers[*place as usize] = number;
            *place += 1;
        }
        Self { starts, numbers }
    }

    pub fn of(&self, shard: u32) -> &[u32] {
        let s = shard as usize;
        &self.numbers[self.starts[s] as usize..self.starts[s + 1] as usize]
    }
}

impl EdgeTable {
    pub fn new(name: &str, gang: Arc<GangTable>, edges: Vec<Edge>, depth: u32, values: (&'static str, Length)) -> Self {
        let mut counts = vec![(0, 0); gang.members.len()];
        let cells = edges.iter().map(|edge| {
            let ready = &mut counts[gang.at[edge.to as usize].0.index()].0;
            *ready += 1;
            let ready = *ready - 1;
            let empty = &mut counts[gang.at[edge.from as usize].0.index()].1;
            *empty += 1;
            (ready, *empty - 1)
        });
        let cells = cells.collect();
        let (out, into) =
            (Grouped::new(gang.shards(), &edges, |e| e.from), Grouped::new(gang.shards(), &edges, |e| e.to));
        Self { name: name.into(), gang, depth, edges, values, out, into, cells, counts }
    }

    /// An edge that is in the list more than once.
    pub fn listed_twice(&self) -> Option<Edge> {
        let mut sorted = self.edges.clone();
        sorted.sort_unstable();
        sorted.windows(2).find(|two| two[0] == two[1]).map(|two| two[0])
    }

    pub fn ready_address(&self, object: ObjectId, edge: u32) -> CellAddress {
        let Edge { to, .. } = self.edges[edge as usize];
        CellAddress { processor: self.gang.at[to as usize].0, object, cell: self.cells[edge as usize].0 }
    }

    pub fn empty_address(&self, object: ObjectId, edge: u32) -> CellAddress {
        let Edge { from, .. } = self.edges[edge as usize];
        CellAddress { processor: self.gang.at[from as usize].0, object, cell: EMPTY | self.cells[edge as usize].1 }
    }

    /// The edge that a cell of `processor` belongs to, for reports.
    pub fn edge_of(&self, processor: ProcessorId, cell: u32) -> Option<Edge> {
        let is_empty = cell & EMPTY != 0;
        let mine = |(edge, (ready, empty)): &(&Edge, &(u32, u32))| match is_empty {
            true => EMPTY | *empty == cell && self.gang.at[edge.from as usize].0 == processor,
            false => *ready == cell && self.gang.at[edge.to as usize].0 == processor,
        };
        self.edges.iter().zip(&self.cells).find(mine).map(|(edge, _)| *edge)
    }
}

/// How the values of a reduction barrier combine, in the order of the arrivers, or what becomes of a single one.
pub(crate) type PhaseFold = Arc<dyn Fn(u64, Option<u64>) -> u64 + Send + Sync>;

/// A phase barrier: any arrivers, any waiters, arrivals combined along a tree of the processors concerned.
pub(crate) struct PhaseSpec {
    pub name: String,
    pub gang: Arc<GangTable>,
    pub arrivers: Vec<u32>,
    pub waiters: Vec<u32>,
    pub window: u64,
    pub tree: maniple_schedules::CombiningTree<ProcessorId>,
    /// The most children of a member of the tree, as the program asked for it.
    pub arity: usize,
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

    /// The position in the arriver list of a member's contributor; of a subtree, the position of one of its arrivers.
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
