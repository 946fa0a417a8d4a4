use crate::config::Run;
use crate::core::replicas::hash;
use crate::core::{Asker, Core};
use crate::deadlock::Node;
use crate::future::{Failures, FutureMap, Resolver, TaskFuture};
use crate::index::{Claim, Users, conflict};
use crate::message::{
    Ancestors, Batch, BatchDone, BatchUse, ColumnKey, Does, Held, LaunchKey, Message, ObjectId, ProcessorId, Reply,
    SendColumns, ShardStart, Transfer,
};
use crate::object::{GangTable, Object};
use crate::parcel::{Parcel, Portable};
use crate::races::Clock;
use crate::versions::{Versions, union_of};
use crate::{Error, Place};
use maniple_mapper::{PlaceSharedInput, SourceInput, validate};
use maniple_regions::{Coherence, FieldId, Interference, Privilege, Rect, Region, Use};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// A gang: a number of shards and where they run. Made by [`crate::Top::gang`]; plain data that may travel in arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gang {
    pub(crate) id: ObjectId,
    pub(crate) shards: u32,
    #[serde(skip)]
    pub(crate) run: Run,
}

impl Gang {
    /// The most shards that a gang may have. A table of them takes 12 bytes a shard on every node.
    pub const MAX_SHARDS: u32 = 1 << 24;

    /// Where its shards are; refuses one that this run did not make, as the gang of `what`.
    pub(crate) fn table(&self, core: &Core, what: &str) -> Result<Arc<GangTable>, Error> {
        match core.local(self.id).as_ref().map(|o| &*o.object) {
            Some(Object::Gang(table)) if table.shards() == self.shards && table.run.may_be(self.run) => {
                Ok(table.clone())
            }
            _ => {
                let came = format!("gang {} of {} shards, of another run or of none", self.id, self.shards);
                Err(Error::misuse(what, "a gang made with `Top::gang` in this run", came))
            }
        }
    }

    /// Number of shards.
    pub fn shards(&self) -> u32 {
        self.shards
    }
}

/// A shard task with argument `A` and result `R`. Made by [`crate::Top::task`]; plain data that may travel in arguments.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ShardTask<A, R> {
    pub(crate) id: ObjectId,
    #[serde(skip)]
    pub(crate) run: Run,
    #[serde(skip)]
    pub(crate) types: PhantomData<fn(A) -> R>,
}

impl<A, R> Clone for ShardTask<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A, R> Copy for ShardTask<A, R> {}
impl<A, R> ShardTask<A, R> {
    /// Refuses a task that this run did not make.
    fn check(&self, core: &Core) -> Result<(), Error> {
        match core.local(self.id).as_ref().map(|o| &*o.object) {
            Some(Object::Task(task)) if task.run.may_be(self.run) => Ok(()),
            _ => {
                let came = format!("task {}, of another run or of none", self.id);
                Err(Error::misuse("a gang launch", "a task made with `Top::task` or `Top::parent` in this run", came))
            }
        }
    }
}
impl<A, R> std::fmt::Debug for ShardTask<A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardTask({})", self.id)
    }
}

/// What one shard is started with: its argument and the regions it may use.
#[derive(Debug)]
pub struct Start<A> {
    args: A,
    held: Vec<Held>,
}

impl<A> Start<A> {
    /// A shard with argument `args` and no regions.
    pub fn new(args: A) -> Self {
        Self { args, held: Vec::new() }
    }

    /// The shard may use `fields` of `region` with at most this privilege and coherence. Its leaf tasks use what is held
    /// with exclusive or atomic coherence through slices, and what is held with simultaneous coherence through shared
    /// accessors; a [`crate::Parent`] may pass the former on to shards that share it.
    ///
    /// Exclusive requirements of different shards must not interfere; all shards that name a region with simultaneous
    /// coherence share one instance of it, and what overlaps must be one and the same region. So a block's ghost cells are
    /// not cells of its neighbours but slots of their own, in a separate tree (`examples/heat.rs`).
    pub fn holds<F: Into<FieldId>>(
        mut self,
        region: Region,
        fields: impl IntoIterator<Item = F>,
        privilege: Privilege,
        coherence: Coherence,
    ) -> Self {
        let fields = fields.into_iter().map(Into::into).collect();
        self.held.push(Held { region, fields, privilege, coherence, home: 0 });
        self
    }

    /// [`Self::holds`] to read, with exclusive coherence: nobody writes meanwhile.
    pub fn reads<F: Into<FieldId>>(self, region: Region, fields: impl IntoIterator<Item = F>) -> Self {
        self.holds(region, fields, Privilege::Read, Coherence::Exclusive)
    }

    /// [`Self::holds`] to read and write, with exclusive coherence: nobody else uses the region meanwhile.
    pub fn writes<F: Into<FieldId>>(self, region: Region, fields: impl IntoIterator<Item = F>) -> Self {
        self.holds(region, fields, Privilege::ReadWrite, Coherence::Exclusive)
    }

    /// [`Self::holds`] with simultaneous coherence: other shards use the same instance, and barriers order the uses.
    pub fn shares<F: Into<FieldId>>(
        self,
        region: Region,
        fields: impl IntoIterator<Item = F>,
        privilege: Privilege,
    ) -> Self {
        self.holds(region, fields, privilege, Coherence::Simultaneous)
    }
}

/// Takes one shard's result and, where races are looked for, what comes before it.
type Settle = Box<dyn FnMut(&Rc<Core>, u32, Result<Parcel, Error>, Option<&Clock>)>;

/// A launch whose shards are not all over.
pub(crate) struct LaunchState {
    key: LaunchKey,
    /// Who launched, for reports, and which shard that is.
    by: Place,
    node: Option<Node>,
    /// Batches that have not reported.
    left: Cell<usize>,
    /// Processors that wait for the end of the whole launch.
    held: Vec<ProcessorId>,
    shards: u32,
    settle: RefCell<Settle>,
    versions: Rc<RefCell<Versions>>,
    over: RefCell<Option<Resolver<()>>>,
}

impl LaunchState {
    pub fn key(&self) -> LaunchKey {
        self.key
    }

    pub fn by(&self) -> Place {
        self.by.clone()
    }

    pub fn node(&self) -> Option<Node> {
        self.node
    }

    /// Fails every shard whose result has not come.
    pub fn give_up(&self, core: &Rc<Core>, error: &Error) {
        for shard in 0..self.shards {
            (self.settle.borrow_mut())(core, shard, Err(error.poisons(self.by())), None);
        }
        if let Some(over) = self.over.borrow_mut().take() {
            over.settle(core, Err(error.clone()));
        }
    }

    /// Takes in one processor's results; true when it was the last.
    pub fn take(&self, core: &Rc<Core>, #[allow(unused_mut)] mut done: BatchDone) -> bool {
        #[cfg(feature = "plant")]
        if let [(a, _), (b, _), ..] = &mut *done.results
            && core.config.strikes(crate::plant::Bug::SwappedResults)
        {
            std::mem::swap(a, b);
        }
        for v in &done.valid {
            self.versions.borrow_mut().write(&v.column, v.from, v.at);
        }
        for (shard, result) in done.results {
            let past = core.config.races.as_ref().map(|races| races.end_of(self.key, shard));
            (self.settle.borrow_mut())(core, shard, result, past.as_ref());
        }
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            for &p in &self.held {
                core.send(p, Message::LaunchOver { launch: self.key });
            }
            if let Some(over) = self.over.borrow_mut().take() {
                if let Some(races) = &core.config.races {
                    over.happens(&races.launch_over(core, self.key));
                }
                over.settle(core, Ok(()));
            }
        }
        self.left.get() == 0
    }
}

/// Something that launches gangs: the replicated top-level task or a parent on processor 0.
pub(crate) struct Launcher {
    pub core: Rc<Core>,
    pub name: Arc<str>,
    /// Number of this parent; 0 for the top-level task.
    pub number: u32,
    /// The launch this parent itself came from.
    pub within: Ancestors,
    pub launches: Cell<u32>,
    pub versions: Rc<RefCell<Versions>>,
    /// Whether every node runs this code (then each speaks to its own processors only).
    pub replicated: bool,
    /// Who this is in reports, if it is a shard.
    pub node: Option<Node>,
    /// What this parent itself holds; the top-level task holds everything.
    pub held: Option<Vec<Held>>,
    /// The task that says which mapper is the newest, once it was needed.
    pub newest_mapper: OnceCell<ShardTask<(), u64>>,
    /// Shards that failed.
    pub failures: Rc<Failures>,
    /// Launches under way.
    pub pending: RefCell<Vec<TaskFuture<()>>>,
}

/// What a launch sends.
#[derive(Default)]
struct Plan {
    orders: BTreeMap<(ProcessorId, ProcessorId), Vec<Transfer>>,
    batches: BTreeMap<ProcessorId, Vec<ShardStart>>,
    uses: BTreeMap<ProcessorId, BTreeSet<BatchUse>>,
    /// Homes of simultaneous regions that shards of other processors use.
    held: BTreeSet<ProcessorId>,
}

/// The same points with fewer rectangles, where neighbours are one: a row of blocks.
fn joined(uses: BTreeSet<BatchUse>) -> Vec<BatchUse> {
    let mut all: Vec<BatchUse> = Vec::with_capacity(uses.len());
    for mut last in uses {
        while let Some(before) = all.last() {
            let union = union_of(before.rect, last.rect).map(|rect| BatchUse { rect, ..last });
            match union.filter(|u| BatchUse { rect: u.rect, ..*before } == *u) {
                Some(union) => last = union,
                None => break,
            }
            all.pop();
        }
        all.push(last);
    }
    all
}

impl Launcher {
    pub fn new(core: &Rc<Core>, name: &str, number: u32, replicated: bool) -> Self {
        Self {
            core: core.clone(),
            name: name.into(),
            number,
            within: Ancestors::default(),
            launches: Cell::new(0),
            versions: Rc::default(),
            replicated,
            node: None,
            held: None,
            newest_mapper: OnceCell::new(),
            failures: Rc::default(),
            pending: RefCell::default(),
        }
    }

    /// Whether this copy of the launching task is the one that starts what is to be on a processor.
    fn starts(&self, processor: ProcessorId) -> bool {
        !self.replicated || self.core.copies().same_node(self.core.id, processor)
    }

    fn place(&self) -> Place {
        Place { task: self.name.to_string(), shard: None }
    }

    /// Starts every shard of a gang. `planned` sees what the shards will hold, before anything is sent.
    pub fn launch<A: Portable, R: Portable>(
        &self,
        gang: &Gang,
        task: &ShardTask<A, R>,
        start: impl Fn(u32) -> Start<A>,
        planned: &dyn Fn(&[Vec<Held>]),
    ) -> Result<FutureMap<R>, Error> {
        let table = gang.table(&self.core, "a gang launch")?;
        task.check(&self.core)?;
        let count = gang.shards as usize;
        let mut starts = Vec::with_capacity(count);
        let (mut resolvers, mut futures) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for shard in 0..gang.shards {
            let start = start(shard);
            starts.push((Parcel::new(start.args), start.held));
            let (resolver, future) = TaskFuture::<R>::pending();
            resolvers.push(Some(resolver));
            futures.push(future);
        }
        let failures = self.failures.clone();
        let settle: Settle = Box::new(move |core, shard, result, past| {
            if let Some(resolver) = resolvers.get_mut(shard as usize).and_then(Option::take) {
                if let Some(past) = past {
                    resolver.happens(past);
                }
                resolver.settle_watched(core, result.and_then(Parcel::open), &failures);
            }
        });
        self.launch_any(gang, &table, task.id, starts, planned, settle)?;
        Ok(FutureMap::new(futures))
    }

    /// The same for arguments and results of any types, so that it is compiled once and not for each launch of a program.
    fn launch_any(
        &self,
        gang: &Gang,
        table: &GangTable,
        task: ObjectId,
        starts: Vec<(Parcel, Vec<Held>)>,
        planned: &dyn Fn(&[Vec<Held>]),
        settle: Settle,
    ) -> Result<(), Error> {
        let (args, mut held): (Vec<Parcel>, Vec<Vec<Held>>) = starts.into_iter().unzip();
        self.check(&held)?;
        self.find_homes(table, &mut held)?;
        let mut plan = self.plan(table, &held, &|h| h.region.rect)?;
        if self.replicated {
            self.core.replicated(|| self.described(task, table, &held, &plan));
        }
        planned(&held);
        let counters = &self.core.counters;
        for ((shard, args), held) in (0u32..).zip(args).zip(held) {
            let at = table.at[shard as usize].0;
            let batch = plan.batches.entry(at).or_default();
            if self.starts(at) {
                counters.launches.add(1);
                counters.requirements.add(held.len() as u64);
                batch.push(ShardStart { shard, args, held });
            }
        }
        self.dispatch(plan, task, gang, settle)?.detach();
        Ok(())
    }

    /// A launch in words: what must be the same on every node. Many requirements are shown by hashes of runs of shards, so that
    /// two nodes' words differ where these do.
    fn described(&self, task: ObjectId, table: &GangTable, held: &[Vec<Held>], plan: &Plan) -> String {
        const RUNS: usize = 8;
        let task = self.core.local(task).map_or_else(|| format!("object {task}"), |l| l.object.describe());
        let hold = |(shard, h): (usize, &Held)| {
            let home = h.shared_home().map_or(String::new(), |p| format!(" at home on processor {p}"));
            format!("shard {shard}: {} {} on {} of {:?}{home}", h.coherence, h.privilege, h.region, h.fields)
        };
        let held: Vec<Vec<String>> =
            (0..).zip(held).map(|(s, list)| list.iter().map(|h| hold((s, h))).collect()).collect();
        let requirements = match held.iter().map(Vec::len).sum() {
            0..=4 => format!("[{}]", held.concat().join(", ")),
            n => {
                let size = held.len().div_ceil(RUNS);
                let run = |(i, run)| format!("shards from {}: hash {:016x}", i * size, hash(&run));
                let runs: Vec<String> = held.chunks(size).enumerate().map(run).collect();
                format!("{n} requirements ({})", runs.join(", "))
            }
        };
        let copies = match plan.orders.len() {
            0 => String::new(),
            n => format!(" and {n} orders to copy, hash {:016x}", hash(&format!("{:?}", plan.orders))),
        };
        format!("launch of {task} on gang `{}` with {requirements}{copies}", table.name)
    }

    /// Finds transfers and uses; `instance` says which instance a requirement uses. A pure function of its inputs.
    fn plan(&self, table: &GangTable, held: &[Vec<Held>], instance: &dyn Fn(&Held) -> Rect) -> Result<Plan, Error> {
        let mut refused = None;
        let mut plan = Plan::default();
        let mut versions = self.versions.borrow_mut();
        let columns = || {
            (0usize..).zip(held).flat_map(|(s, list)| {
                list.iter().flat_map(move |h| {
                    h.fields
                        .iter()
                        .map(move |&field| (s, h, ColumnKey { tree: h.region.tree, field, rect: h.region.rect }))
                })
            })
        };
        let place = |s: usize, h: &Held| {
            if h.coherence == Coherence::Simultaneous { h.home } else { table.at[s].0 }
        };
        // What this launch brings is no source within it: it comes only when the launch starts.
        let mut brought: BTreeSet<(ColumnKey, Rect, ProcessorId)> = BTreeSet::new();
        for (s, h, key) in columns() {
            let (at, into) = (place(s, h), instance(h));
            let uses = plan.uses.entry(at).or_default();
            let does = if h.privilege.writes() { Does::Writes } else { Does::Reads };
            uses.insert(BatchUse::of(&key, does, into));
            if h.privilege != Privilege::WriteDiscard {
                let first = brought.insert((key, into, at));
                let select = |rect, holders: &[_]| self.select_source(&key, rect, at, holders, &mut refused);
                versions.read(&key, into, at, select, |source, transfer| {
                    // Data that comes for a reader changes the instance that earlier readers here may still use.
                    if does == Does::Reads {
                        let brings = Does::Brings { lasting: self.only_reads(&key) };
                        uses.insert(BatchUse::of(&ColumnKey { rect: transfer.rect, ..key }, brings, into));
                    }
                    if first {
                        plan.orders.entry((source, at)).or_default().push(transfer);
                    }
                });
            }
            plan.batches.entry(at).or_default();
            if at != table.at[s].0 {
                plan.held.insert(at);
            }
        }
        // Nothing is known to be where a refused launch would have put it.
        if let Some(e) = refused {
            return Err(e);
        }
        for (key, into, at) in brought {
            versions.hold(&key, into, at);
        }
        for (s, h, key) in columns() {
            if h.privilege.writes() {
                versions.write(&key, instance(h), place(s, h));
            }
        }
        Ok(plan)
    }

    /// Which of several holders sends the values of a column's part; the first one after a refusal.
    fn select_source(
        &self,
        key: &ColumnKey,
        rect: Rect,
        to: ProcessorId,
        holders: &[ProcessorId],
        refused: &mut Option<Error>,
    ) -> ProcessorId {
        let region = Region::new(key.tree, rect);
        let input = SourceInput { region, field: key.field, to, holders, machine: self.core.machine() };
        let selected = self.core.ask(
            self.asker(),
            ("select_source", &region),
            |m| m.select_source(&input),
            |name, answer| validate::source(name, &input, answer),
        );
        selected.unwrap_or_else(|e| {
            refused.get_or_insert(e);
            holders[0]
        })
    }

    fn asker(&self) -> Asker {
        if self.replicated { Asker::EveryNode } else { Asker::Processor }
    }

    /// Whether this parent holds the points to read and nobody holds them to write as long as it runs.
    fn only_reads(&self, key: &ColumnKey) -> bool {
        let Some(own) = &self.held else { return false };
        let same = |h: &&Held| h.region.tree == key.tree && h.fields.contains(&key.field);
        let mut own = own.iter().filter(same).filter(|h| h.region.rect.overlaps(&key.rect)).peekable();
        own.peek().is_some() && own.all(|h| !h.privilege.writes() && h.coherence == Coherence::Exclusive)
    }

    /// Exclusive requirements of different shards must not interfere, and a parent passes on only what it holds.
    fn check(&self, held: &[Vec<Held>]) -> Result<(), Error> {
        let mut claims: Vec<Claim> = Vec::new();
        for (shard, list) in (0u32..).zip(held) {
            for h in list {
                self.core.in_tree(h.region, || self.to_hold(shard))?;
                for &field in &h.fields {
                    self.core.field(h.region.tree, field)?;
                    let at = Use { region: h.region, field, privilege: h.privilege, coherence: h.coherence };
                    claims.push(Claim { user: shard, at });
                }
            }
        }
        match conflict(&mut claims, Users::Shards) {
            None => self.check_covered(held),
            Some((a, b, verdict)) => Err(Error::Interference {
                place: self.place(),
                between: format!("shard {} ({}) and shard {} ({})", a.user, self.named(&a.at), b.user, self.named(&b.at)),
                hint: match verdict {
                    Interference::Simultaneous if a.user == b.user => {
                        "name one region in place of both of the shard's own, or two that are disjoint".into()
                    }
                    Interference::Simultaneous => "name the very same region in both shards".into(),
                    _ if a.user == b.user => "name a cell once, with all that the shard does to it".into(),
                    // Instances of different shards are not folded together, not even by equal reductions.
                    Interference::None => "fold into disjoint regions, or use a collective".into(),
                    _ => "use disjoint regions, or simultaneous coherence and barriers; ghost cells are slots of their own, see \
                          `Partition::restriction`"
                        .into(),
                },
            }),
        }
    }

    /// A use, with the names of its field and tree.
    fn named(&self, at: &Use) -> String {
        let region = at.region;
        let tree = match self.core.local(region.tree.0).as_ref().map(|l| &*l.object) {
            Some(Object::Tree(tree)) => tree.name.clone(),
            _ => region.tree.to_string(),
        };
        let field = self.core.field(region.tree, at.field).map_or_else(|_| at.field.to_string(), |f| f.name.into());
        format!("{} {} of field `{field}` of `{tree}` {}", at.coherence, at.privilege, region.rect)
    }

    fn to_hold(&self, shard: u32) -> String {
        format!("what shard {shard} is to hold, launched by {}", self.place())
    }

    fn check_covered(&self, held: &[Vec<Held>]) -> Result<(), Error> {
        let Some(own) = &self.held else { return Ok(()) };
        for (shard, h) in (0u32..).zip(held).flat_map(|(s, list)| list.iter().map(move |h| (s, h))) {
            let covered = own.iter().any(|o| {
                o.region.contains(&h.region)
                    && o.allows(h.privilege, h.coherence)
                    && h.fields.iter().all(|f| o.fields.contains(f))
            });
            if !covered {
                let show = |h: &Held| format!("{} under {} coherence on {}", h.privilege, h.coherence, h.region);
                let own: Vec<_> = own.iter().map(show).collect();
                return Err(Error::misuse(self.to_hold(shard), format!("a part of [{}]", own.join(", ")), show(h)));
            }
        }
        Ok(())
    }

    fn find_homes(&self, table: &GangTable, held: &mut [Vec<Held>]) -> Result<(), Error> {
        // One home for all fields of a region, whoever names which of them.
        let mut namers: HashMap<Region, (FieldId, Vec<(ProcessorId, Privilege)>)> = HashMap::new();
        for (list, &(processor, _)) in held.iter().zip(&table.at) {
            for h in list.iter().filter(|h| h.coherence == Coherence::Simultaneous) {
                let Some(&first) = h.fields.first() else { continue };
                namers.entry(h.region).or_insert((first, Vec::new())).1.push((processor, h.privilege));
            }
        }
        let machine = self.core.machine();
        let mut homes: HashMap<Region, ProcessorId> = HashMap::with_capacity(namers.len());
        for list in held.iter_mut() {
            for h in list.iter_mut().filter(|h| h.coherence == Coherence::Simultaneous) {
                let Some((field, namers)) = namers.get(&h.region) else { continue };
                h.home = match homes.get(&h.region) {
                    Some(&home) => home,
                    None => {
                        let input = PlaceSharedInput { region: h.region, field: *field, namers, machine };
                        let home = self.core.ask(
                            self.asker(),
                            ("place_shared", &h.region),
                            |m| m.place_shared(&input),
                            |name, answer| validate::shared(name, &input, answer),
                        )?;
                        homes.insert(h.region, home);
                        home
                    }
                };
            }
        }
        Ok(())
    }

    /// Sends a plan: first the orders for data, so that they read what is there before the new shards write.
    fn dispatch(&self, plan: Plan, task: ObjectId, gang: &Gang, settle: Settle) -> Result<TaskFuture<()>, Error> {
        if let Some(e) = self.core.lost() {
            return Err(e.poisons(self.place()));
        }
        let Plan { orders, batches, mut uses, held } = plan;
        let number = self.launches.replace(self.launches.get() + 1);
        let launch = u64::from(self.number) << 32 | u64::from(number);
        if let Some(races) = &self.core.config.races {
            races.launches(&self.core, launch);
        }
        // Where regions that a parent shares are at home, apart from its own processor: that one has started it.
        let own = self.held.iter().flatten().filter(|h| h.coherence == Coherence::Simultaneous).map(|h| h.home);
        let homes: BTreeSet<ProcessorId> = own.filter(|&p| p != self.core.id).collect();
        let (over, done) = TaskFuture::pending();
        let state = LaunchState {
            key: launch,
            by: self.place(),
            node: self.node,
            left: Cell::new(batches.len()),
            held: held.iter().copied().filter(|&p| self.starts(p)).collect(),
            shards: gang.shards,
            settle: RefCell::new(settle),
            versions: self.versions.clone(),
            over: RefCell::new(Some(over)),
        };
        self.core.register_launch(Rc::new(state));
        let mut expected: BTreeMap<ProcessorId, u32> = BTreeMap::new();
        for ((source, to), transfers) in orders {
            *expected.entry(to).or_default() += 1;
            if self.starts(source) {
                self.core.send(
                    source,
                    Message::SendColumns(Box::new(SendColumns {
                        launch,
                        known: self.core.known(),
                        within: self.within.clone(),
                        after_within: homes.contains(&source),
                        to,
                        transfers,
                    })),
                );
            }
        }
        let reply = if self.replicated { Reply::EveryNode } else { Reply::Processor(self.core.id) };
        for (at, shards) in batches {
            if !self.starts(at) {
                continue;
            }
            let batch = Batch {
                launch,
                by: self.name.clone(),
                within: self.within.clone(),
                after_within: homes.contains(&at),
                known: self.core.known(),
                task,
                gang: gang.id,
                shards,
                columns: expected.get(&at).copied().unwrap_or(0),
                hold: held.contains(&at),
                reply,
                uses: joined(uses.remove(&at).unwrap_or_default()),
            };
            self.core.send(at, Message::Batch(Box::new(batch)));
        }
        self.pending.borrow_mut().retain(|p| !p.is_over());
        self.pending.borrow_mut().push(done.clone());
        Ok(done)
    }

    /// Brings a region's valid data to where the parent uses it, after the launches that write it: each field into the
    /// instance of the parent's requirement beside it.
    pub async fn map(&self, region: Region, parts: &[(FieldId, &Held)], privilege: Privilege) -> Result<(), Error> {
        let table = GangTable::new(ObjectId::MAX, "map", &[self.core.id], self.core.machine().processors());
        let part = |&(field, own): &(FieldId, &Held)| Held {
            region,
            fields: SmallVec::from_slice(&[field]),
            privilege,
            ..own.clone()
        };
        let held: [Vec<Held>; 1] = [parts.iter().map(part).collect()];
        self.check(&held)?;
        let own = |h: &Held| held[0].iter().zip(parts).find(|(part, _)| std::ptr::eq(*part, h));
        let plan = self.plan(&table, &held, &|h| own(h).map_or(region.rect, |(_, part)| part.1.region.rect))?;
        self.dispatch(plan, 0, &Gang { id: 0, shards: 0, run: Run::ANY }, Box::new(|_, _, _, _| {}))?.await?;
        if let Some(races) = &self.core.config.races {
            races.mapped(self.number);
        }
        Ok(())
    }

    /// The result of the parent's code, unless a shard failed and nobody looked. After [`Self::settle`].
    pub fn outcome<R>(&self, result: Result<R, Error>) -> Result<R, Error> {
        match (result, self.failures.unseen()) {
            (Ok(_), Some(e)) => Err(e),
            (result, _) => result,
        }
    }

    /// Nothing is launched any more.
    pub fn ended(&self) {
        if let Some(races) = &self.core.config.races {
            races.launcher_over(self.number);
        }
    }

    /// Waits for every launch under way.
    pub async fn settle(&self) {
        loop {
            let next = self.pending.borrow_mut().pop();
            match next {
                // Its shards' own errors are in their futures.
                Some(pending) => drop(pending.await),
                None => return,
            }
        }
    }
}
