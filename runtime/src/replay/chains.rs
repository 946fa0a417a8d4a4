//! The chains of a replayed object on one processor: their plan, and how far they are.
//!
//! A collective is a chain that is replayed, not a series of leaf launches. The mapper is asked when the object is
//! made, and again only if the run has another mapper. The cells where each subtask waits and arrives are worked out
//! once. So a round allocates nothing and looks nothing up. A cell, with both barriers and a small value, is smaller
//! than a cache line. Otherwise a subtask is like any other: it waits, is counted, and is queued by priority. If its
//! wait has ended and nothing more urgent is ready, it runs at once.

use crate::barrier::{Bank, Cell, Wanted, WithBank, refused};
use crate::diagnose::Event;
use crate::effects::{Asker, Effects, Item};
use crate::ids::{CellAddress, ObjectId, ProcessorId, Run};
use crate::maps::HashMap;
use crate::object::GangTable;
use crate::plant::Bug;
use crate::replay::{Chained, LARGE, MadeChains, ReplaySpec, Subtask};
use crate::task::Owner;
use crate::{Error, Length, Place};
use maniple_barriers::{BarrierError, Half};
use maniple_mapper::{CollectiveInput, CollectiveOutput, validate};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A replayed object, as every node knows it.
pub(crate) struct ReplayObject {
    pub spec: Arc<dyn ReplaySpec>,
    pub gang: Arc<GangTable>,
    pub mapping: CollectiveOutput,
    /// The number of the run's mapper that chose the mapping.
    pub number: u64,
    pub cells: Arc<CellTable>,
}

/// The places of the cells of a replayed object's chains. A chain has as many cells as updates, or as reads if it has
/// more of these.
pub(crate) struct CellTable {
    /// For each shard the first cell in slot 0, among the cells of its processor.
    pub first: Vec<u32>,
    /// The cells of one set. A slot has one set, or two that its calls use in turn. All processors use the number of the one
    /// with most cells.
    pub per_set: u32,
}

impl CellTable {
    /// The shard to which a cell of slot 0 belongs, of the shards of a processor.
    pub fn shard_at(&self, shards: &[u32], cell: u32) -> u32 {
        // The last shard whose cells begin there; shards before it without cells begin at the same place.
        let end = shards.partition_point(|&shard| self.first[shard as usize] <= cell);
        end.checked_sub(1).map_or(u32::MAX, |at| shards[at])
    }
}

/// A subtask with everything worked out that is the same in every call and slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedSubtask {
    pub(super) task: Task,
    pub(super) part: u16,
    /// The cell of this chain that it waits for.
    pub(super) waits: u16,
    /// The peer's cell at which it arrives, in slot 0. A local subtask has its other part there.
    pub(super) cell: u32,
}

const _: () = assert!(size_of::<PlannedSubtask>() <= 12);

/// The kind of a subtask, how it combines, and the peer's processor, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubtaskKind {
    Update,
    Read,
    Local,
    Await,
}

impl Task {
    const KINDS: [SubtaskKind; 4] = [SubtaskKind::Update, SubtaskKind::Read, SubtaskKind::Local, SubtaskKind::Await];
    /// The numbers of processors, and of ways to combine.
    pub(super) const PROCESSORS: usize = 1 << 28;
    pub(super) const WAYS: u8 = 1 << 2;

    pub fn new(kind: SubtaskKind, how: u8, to: ProcessorId) -> Self {
        Self(kind as u32 | u32::from(how) << 2 | to.0 << 4)
    }

    pub fn kind(self) -> SubtaskKind {
        Self::KINDS[(self.0 & 3) as usize]
    }

    /// Neither an update nor a read.
    #[inline(always)]
    pub fn is_rare(self) -> bool {
        self.0 & 2 != 0
    }

    /// Of an update or a read: whether it is the latter.
    #[inline(always)]
    pub fn is_read(self) -> bool {
        self.0 & 1 != 0
    }

    #[inline(always)]
    pub fn how(self) -> u8 {
        (self.0 >> 2) as u8 & (Self::WAYS - 1)
    }

    #[inline(always)]
    pub fn to(self) -> ProcessorId {
        ProcessorId(self.0 >> 4)
    }
}

/// One slot of one shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    /// How many calls of this slot have ended. This is the generation of the present call.
    pub(super) generation: u64,
    /// The first of its subtasks in the plan, their number, and how many of them this call has run.
    pub(super) first: u32,
    pub(super) len: u16,
    pub(super) done: u16,
    /// Its first cell of the present call, and the distance between the cells of that call and the cells of call 0.
    pub(super) cells: u32,
    pub(super) offset: u32,
    pub(super) state: ChainState,
    /// Its group's number, or `ALONE`.
    pub(super) group: u32,
}

const _: () = assert!(size_of::<Chain>() <= 32);

/// The group of a chain that does not combine with others in place.
pub(super) const ALONE: u32 = u32::MAX;

/// The chains of one slot whose shards combine in place. The first shard's chain leads, and the others follow.
pub(super) struct Group {
    pub(super) leader: u32,
    pub(super) size: u32,
    /// Followers that have not joined the present call, or the next call once the values of this one are combined.
    pub(super) missing: u32,
    pub(super) stage: GroupStage,
    /// The lowest chain that joined with an error instead of a value.
    pub(super) failed: Option<u32>,
    /// The call that one of its shards has not made and never will, and the error of that shard.
    pub(super) fails: Option<Box<(u64, Error)>>,
}

/// The stage of a group's leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupStage {
    /// It has not come.
    Away,
    /// It waits for missing followers.
    Waits,
    /// It has combined the values of all, and has not handed the result out yet.
    Gathered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainState {
    /// It has no call.
    Idle,
    /// A call waits for its input.
    Input,
    /// A call runs.
    Running,
    /// A call runs that has failed: it hands its error on instead of a value.
    Poisoned,
    /// The call has joined its group, and the leader goes on with it.
    Joined,
    /// No further call runs.
    Failed,
    /// A call runs whose blocks are values of their own.
    InParts,
}

/// The state that changes from call to call.
pub(crate) struct Progress {
    pub(super) chains: Vec<Chain>,
    pub(super) groups: Vec<Group>,
    /// Cell k of a chain has the ready half of its read k, with the value that came, and the empty half of its update k.
    /// Only the chain itself waits here.
    pub(super) bank: Bank,
    /// The errors of failed calls and of failed chains.
    pub(super) errors: HashMap<u32, Error>,
    /// The calling shards, by position.
    pub(super) callers: Vec<ShardCalls>,
}

/// A shard's calls.
#[derive(Default)]
pub(super) struct ShardCalls {
    /// The launched shard.
    pub(super) owner: Option<Rc<Owner>>,
    /// Calls that it has made.
    pub(super) calls: u64,
    /// Calls that have not ended.
    pub(super) under_way: u32,
}

impl Progress {
    /// A call of the shard at `position` has ended. Returns the shard.
    #[inline(always)]
    pub fn call_over(&mut self, position: u32) -> Option<&Rc<Owner>> {
        let caller = self.callers.get_mut(position as usize)?;
        caller.under_way = caller.under_way.saturating_sub(1);
        caller.owner.as_ref()
    }

    /// The launched shard that calls at `position`.
    pub fn owner(&self, position: u32) -> Option<&Rc<Owner>> {
        self.callers.get(position as usize)?.owner.as_ref()
    }

    /// How many calls of a slot, of `slots`, the shard at `position` has made.
    pub(super) fn made(&self, position: u32, slot: u32, slots: u32) -> u64 {
        let calls = self.callers.get(position as usize).map_or(0, |caller| caller.calls);
        calls.saturating_sub(slot.into()).div_ceil(slots.into())
    }

    #[cold]
    pub(super) fn poison_call(&mut self, chain: u32, error: Error) {
        self.chains[chain as usize].state = ChainState::Poisoned;
        self.errors.entry(chain).or_insert(error);
    }
}

impl Progress {
    /// Forgets the call that a chain is in the middle of: a planted bug.
    pub fn forget(&mut self, chain: u32) {
        let c = &mut self.chains[chain as usize];
        (c.done, c.state) = (0, ChainState::Idle);
    }
}

/// The object's own state, and how far its chains are.
pub(super) type State = (Box<dyn Chained>, Progress);

impl WithBank for State {
    fn bank(&mut self) -> &mut Bank {
        &mut self.1.bank
    }
}

/// The chains of one object on one processor.
pub(crate) struct Chains {
    /// `Barriers` finds the bank in it.
    pub(super) state: Rc<RefCell<State>>,
    pub(super) plan: Vec<PlannedSubtask>,
    /// How this processor stores and reads exchanged values. Each processor chooses for itself, because no other one
    /// can tell.
    pub mapping: std::cell::Cell<CollectiveOutput>,
    /// The number of the run's mapper that chose the mapping.
    pub(super) mapped_by: std::cell::Cell<u64>,
    pub(super) id: ObjectId,
    /// The run that made the object.
    pub(super) run: Run,
    pub(super) spec: Arc<dyn ReplaySpec>,
    pub(super) gang: Arc<GangTable>,
    pub(super) processor: ProcessorId,
    pub(super) slots: u32,
    pub(super) table: Arc<CellTable>,
    pub(super) bytes: usize,
    pub(super) length: Length,
    /// The bytes of the largest value that counts as small.
    pub(super) inline: usize,
    pub(super) gives_back: bool,
    /// Whether a value is given back at once when it has been read.
    pub(super) large: bool,
    /// Whether the calls of a slot use two sets of cells in turn.
    two_sets: bool,
    /// The chains that want values before their turns to read them. Made by the first call in parts.
    pub(super) wanted: OnceCell<Wanted>,
}

impl Chains {
    pub fn new(object: &ReplayObject, id: ObjectId, effects: &Effects, (subtasks, values): MadeChains) -> Self {
        let processor = effects.id;
        let ReplayObject { spec, gang, mapping, number, cells: table } = object;
        let (slots, bytes, gives_back) = (spec.slots().max(1), spec.cell_bytes(), spec.gives_back());
        let length = spec.length();
        let sets = if gives_back { slots } else { 2 * slots };
        let shards = &gang.members[processor.index()];
        let mut chains = Vec::<Chain>::with_capacity(shards.len() * slots as usize);
        let (mut plan, mut groups) = (Vec::new(), Vec::new());
        for ((position, &shard), subtasks) in (0u32..).zip(shards).zip(subtasks) {
            let first = plan.len() as u32;
            let (mut update, mut read) = (0, 0);
            let end = |peer: u32, at: u16| (gang.at[peer as usize].0, table.first[peer as usize] + u32::from(at));
            // Where the updates arrive.
            let of_update = |subtask: &Subtask| match *subtask {
                Subtask::Update { peer, at, .. } => Some(end(peer, at)),
                _ => None,
            };
            let ends: Vec<(ProcessorId, u32)> = subtasks.iter().filter_map(of_update).collect();
            for subtask in subtasks {
                let (kind, part, how, waits, (to, cell)) = match subtask {
                    Subtask::Update { peer, at, part } => {
                        update += 1;
                        (SubtaskKind::Update, part, 0, update - 1, end(peer, at))
                    }
                    Subtask::Read { peer, at, part, how } => {
                        read += 1;
                        (SubtaskKind::Read, part, how, read - 1, end(peer, at))
                    }
                    Subtask::Local { from, part, how } => (SubtaskKind::Local, part, how, 0, (processor, from.into())),
                    Subtask::Await { update: awaited } => {
                        let in_this_call = u8::from(awaited < update);
                        (SubtaskKind::Await, 0, in_this_call, awaited, ends[usize::from(awaited)])
                    }
                };
                plan.push(PlannedSubtask { task: Task::new(kind, how, to), part, waits, cell });
            }
            let len = u16::try_from(plan.len() as u32 - first).expect("checked when the object was made");
            let range = spec.group(shard);
            let leader = (position - (shard - range.start)) * slots;
            for slot in 0..slots {
                let offset = slot * (sets / slots) * table.per_set;
                let cells = table.first[shard as usize] + offset;
                let group = match range.len() as u32 {
                    1 => ALONE,
                    size if shard == range.start => {
                        let (leader, missing) = (leader + slot, size - 1);
                        groups.push(Group {
                            leader,
                            size,
                            missing,
                            stage: GroupStage::Away,
                            failed: None,
                            fails: None,
                        });
                        groups.len() as u32 - 1
                    }
                    _ => chains[(leader + slot) as usize].group,
                };
                let (generation, done, state) = (0, 0, ChainState::Idle);
                chains.push(Chain { generation, first, len, done, cells, offset, state, group });
            }
        }
        plan.shrink_to_fit();
        groups.shrink_to_fit();
        let progress = Progress {
            chains,
            groups,
            bank: Bank::of_chains(sets * table.per_set, id, mapping.priority),
            errors: HashMap::default(),
            callers: shards.iter().map(|_| ShardCalls::default()).collect(),
        };
        Self {
            state: Rc::new(RefCell::new((values, progress))),
            plan,
            mapping: std::cell::Cell::new(*mapping),
            mapped_by: std::cell::Cell::new(*number),
            id,
            run: gang.run,
            spec: spec.clone(),
            gang: gang.clone(),
            processor,
            slots,
            table: table.clone(),
            bytes,
            length,
            inline: length.most_inline(),
            gives_back,
            large: length.of(bytes) > LARGE,
            two_sets: !gives_back && !effects.has(Bug::OneSet),
            wanted: OnceCell::new(),
        }
    }

    /// Asks the mapper how a collective is mapped.
    pub fn map(
        effects: &Effects,
        asker: Asker,
        spec: &dyn ReplaySpec,
        gang: &GangTable,
    ) -> Result<CollectiveOutput, Error> {
        let (shards, machine) = (gang.shards(), effects.machine());
        let input =
            CollectiveInput { collective: spec.name(), shards, bytes: spec.length().of(spec.cell_bytes()), machine };
        effects.ask(
            asker,
            ("map_collective", &format_args!("collective `{}`", spec.name())),
            |m| m.map_collective(&input),
            |name, answer| validate::mapping(name, &input, answer),
        )
    }

    /// Asks the mapper again if the run has another one now. Its answer holds from this call on. The nodes need not
    /// agree on it, because the algorithm does not change.
    #[inline]
    pub(super) fn keep_mapped(&self, effects: &Effects) -> Result<(), Box<Error>> {
        let number = effects.mapper_number(Asker::Processor);
        if self.mapped_by.get() == number { Ok(()) } else { self.map_again(effects, number) }
    }

    #[cold]
    fn map_again(&self, effects: &Effects, number: u64) -> Result<(), Box<Error>> {
        self.mapping.set(Self::map(effects, Asker::Processor, &*self.spec, &self.gang)?);
        self.state.borrow_mut().1.bank.set_priority(self.mapping.get().priority);
        self.mapped_by.set(number);
        Ok(())
    }

    #[inline]
    pub fn position(&self, chain: u32) -> u32 {
        // There are few slots, and their number is nearly always a power of two.
        if self.slots.is_power_of_two() { chain >> self.slots.trailing_zeros() } else { chain / self.slots }
    }

    /// The generation of a cell in a call of a slot.
    #[inline(always)]
    pub(super) fn in_cell(&self, generation: u64) -> u64 {
        generation >> u32::from(self.two_sets)
    }

    /// The chain has ended a call, and goes on to the cells of the next one.
    #[inline(always)]
    pub(super) fn next_generation(&self, chain: &mut Chain) {
        chain.generation += 1;
        if self.two_sets {
            let ahead = if chain.generation & 1 == 1 { self.table.per_set } else { self.table.per_set.wrapping_neg() };
            (chain.cells, chain.offset) = (chain.cells.wrapping_add(ahead), chain.offset.wrapping_add(ahead));
        }
    }

    /// The number of a chain's present or next call, among the calls of its shard.
    pub fn call_of(&self, progress: &Progress, chain: u32) -> u64 {
        progress.chains[chain as usize].generation * u64::from(self.slots) + u64::from(chain % self.slots)
    }

    /// Whether a chain's calls fail because a shard that takes part has failed.
    pub fn is_lost(&self, progress: &Progress, chain: u32) -> bool {
        progress.chains[chain as usize].state == ChainState::Failed
    }

    pub fn slots(&self) -> u32 {
        self.slots
    }

    pub fn shards(&self) -> u32 {
        self.gang.shards()
    }

    pub fn shard_of(&self, chain: u32) -> u32 {
        let members = &self.gang.members[self.processor.index()];
        members.get(self.position(chain) as usize).copied().unwrap_or(u32::MAX)
    }

    pub fn place(&self, chain: u32) -> Place {
        Place { task: self.spec.name().into(), shard: Some(self.shard_of(chain)) }
    }

    #[cold]
    pub(super) fn wrong_size(&self, chain: u32, step: &PlannedSubtask, (expected, came): (usize, usize)) -> Error {
        let peer = self.shard_at(step.task.to(), step.cell);
        let what = format!("{}: the value of shard {peer}", self.place(chain));
        Error::misuse(what, format!("{expected} bytes"), format!("{came} bytes"))
    }

    /// The shard of a processor to which a cell of slot 0 belongs.
    pub(super) fn shard_at(&self, processor: ProcessorId, cell: u32) -> u32 {
        self.table.shard_at(&self.gang.members[processor.index()], cell)
    }

    /// Handles an arrival at half of a cell of this processor; `cell` is the number with the half's bit. False if it is
    /// refused. The value may be stored afterwards, because the chain that it wakes runs later.
    #[inline(always)]
    pub(super) fn arrive_here(&self, effects: &Effects, to: &mut Cell, half: Half, cell: u32, generation: u64) -> bool {
        match to.arrive(half, generation) {
            Ok(Some(chain)) => self.queue(effects, chain),
            Ok(None) => {
                if let (Half::Ready, Some(wanted)) = (half, self.wanted.get()) {
                    self.offer(effects, wanted, cell);
                }
            }
            Err(source) => {
                self.refuse(effects, cell, generation, source);
                return false;
            }
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn offer(&self, effects: &Effects, wanted: &Wanted, cell: u32) {
        if wanted.by(cell).is_some() {
            effects.queue.push(self.mapping.get().priority, Item::Offer { object: self.id, cell });
        }
    }

    #[inline(never)]
    pub(super) fn queue(&self, effects: &Effects, chain: u32) {
        effects.event(|| Event::ChainReleased { object: self.id });
        effects.queue.push(self.mapping.get().priority, Item::Chain { object: self.id, chain });
    }

    #[cold]
    pub(super) fn refuse(&self, effects: &Effects, cell: u32, generation: u64, source: BarrierError) {
        let (error, from) = refused(effects, (self.id, cell), generation, source);
        // The bank is borrowed now.
        effects.send_poison(CellAddress { processor: effects.id, object: self.id, cell }, from, &error);
    }
}

pub(super) fn unknown() -> Error {
    Error::Stopped { what: "a collective's call".into() }
}
