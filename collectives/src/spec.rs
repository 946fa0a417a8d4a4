//! A collective as every node knows it.

use crate::engine::{Engine, Layouts};
use crate::layout::Layout;
use crate::own;
use crate::parts::{Parts, parts_of};
use crate::reduction::Reduction;
use crate::role::Role;
use crate::sizes::Sizes;
use crate::subtasks::subtasks;
use crate::{Algorithm, Groups, Laws, Order, Schedules};
use crate::{Goal, Kind, Schedule, check};
use crate::{Make, or};
use maniple_runtime::replay::{Handle, LARGE, MadeChains, ReplaySpec};
use maniple_runtime::{Error, Gang, Length, Top};
use std::ops::Range;
use std::sync::Arc;

/// What is asked for.
pub(crate) struct Request<R: Reduction> {
    pub goal: Goal,
    pub reduction: R,
    /// The result where nothing is combined: in an exclusive scan, at shards before which nobody contributes.
    pub identity: Option<R::Element>,
    pub sizes: Sizes,
    /// The elements of the largest vector of any rank.
    pub most: usize,
    pub length: Length,
    pub slots: u32,
    pub order: Order,
    pub source: Source,
}

/// Who chooses the schedules.
pub(crate) enum Source {
    /// The mapper.
    Mapper,
    Algorithm(Algorithm),
    /// The program, with a name.
    Own(String, Arc<Make>),
}

struct CollectiveSpec<R: Reduction> {
    name: String,
    /// The size of the largest vector of any rank.
    bytes: usize,
    request: Request<R>,
    schedules: Arc<Schedules>,
}

impl<R: Reduction> CollectiveSpec<R> {
    /// The bytes that the largest vector counts for.
    fn counts_for(&self) -> usize {
        self.request.length.of(self.bytes)
    }
}

impl<R: Reduction> ReplaySpec for CollectiveSpec<R> {
    fn name(&self) -> &str {
        &self.name
    }
    fn slots(&self) -> u32 {
        self.request.slots
    }
    fn cells(&self, shard: u32) -> u32 {
        self.schedules.cells(shard)
    }
    fn cell_bytes(&self) -> usize {
        self.bytes
    }
    fn length(&self) -> Length {
        self.request.length
    }
    fn group(&self, shard: u32) -> Range<u32> {
        self.schedules.group(shard)
    }
    fn gives_back(&self) -> bool {
        self.counts_for() > LARGE || self.schedules.give_back() || self.request.is_any()
    }
    fn takes_part(&self, shard: u32) -> bool {
        self.request.goal.takes_part(shard)
    }
    fn depends_on(&self, shard: u32, other: u32) -> bool {
        self.request.goal.depends_on(shard, other)
    }
    fn parameters(&self) -> String {
        let Request { goal, reduction, sizes, length, slots, .. } = &self.request;
        let (element, by) = (std::any::type_name::<R::Element>(), &self.schedules);
        let operator = reduction.operator();
        let operator = if goal.combines() { format!(" by {}", operator.described()) } else { String::new() };
        let sets = goal.sets();
        format!("{goal}{sets} of {sizes} x {element}{length}{operator}, {slots} slots, {by}")
    }
    fn chains(&self, shards: &[u32], laws: bool) -> MadeChains {
        let Request { goal, reduction, identity, sizes, slots, .. } = &self.request;
        let can_share = goal.kind() == Kind::Allgather && !self.request.is_any();
        let mut at_the_end = false;
        let of = |&shard: &u32| {
            let schedule = self.schedules.of(shard);
            at_the_end |= schedule.group().len() > 1 || can_share && shares_all(&schedule);
            (subtasks(&schedule, goal, self.counts_for()), Role::of(&schedule, goal, sizes, *identity))
        };
        let (subtasks, roles) = shards.iter().map(of).unzip();
        let layouts = {
            let (can_part, always, name) = (!goal.combines(), self.request.is_any(), self.name.clone());
            let (schedules, goal, sizes, shards) =
                (self.schedules.clone(), goal.clone(), sizes.clone(), shards.to_vec());
            let make = move |position: u32, parts: Option<&Parts>| {
                Layout::of(&name, &schedules.of(shards[position as usize]), &goal, &sizes, parts)
            };
            Layouts { make: Box::new(make), made: Vec::new(), can_part, always, at_the_end }
        };
        (subtasks, Box::new(Engine::new(&self.name, (reduction.clone(), laws), *slots, roles, layouts)))
    }
}

/// From how many bytes on the processors of a node share the result of an allgather. It takes fewer rounds if they don't.
const SHARED: usize = 256 << 10;

/// Whether messages have the whole result of an allgather, which processors share.
fn shares_all(schedule: &Schedule) -> bool {
    let is_all = |part: u16| schedule.parts()[usize::from(part)].blocks == (0..schedule.blocks());
    schedule.steps().iter().flat_map(parts_of).flatten().any(is_all)
}

impl<R: Reduction> Request<R> {
    /// The size of the largest vector of any rank.
    fn bytes(&self) -> usize {
        self.most.saturating_mul(size_of::<R::Element>())
    }

    /// Whether only who sends a block knows its size.
    fn is_any(&self) -> bool {
        matches!(self.sizes, Sizes::Any)
    }

    /// Whether an algorithm is for blocks of these sizes.
    fn suits_sizes(&self, algorithm: Algorithm) -> bool {
        match self.sizes {
            Sizes::Any => !algorithm.joins_blocks(&self.goal),
            _ => self.sizes.are_equal() || !algorithm.needs_equal_blocks(&self.goal),
        }
    }

    fn laws(&self) -> Laws {
        self.reduction.operator().laws()
    }

    fn refuse<V>(&self, name: &str, expected: &str, came: String) -> Result<V, Error> {
        Err(Error::Misuse { what: format!("{} `{name}`", self.goal), expected: expected.into(), came })
    }

    /// Finds the schedules, as they are for this object alone. Collective; never waits.
    pub fn prepare(&self, top: &Top, gang: &Gang, name: &str) -> Result<Schedules, Error> {
        if self.slots == 0 {
            return self.refuse(name, "at least one slot", "0".into());
        }
        let most = self.most;
        if most > isize::MAX as usize / size_of::<R::Element>().max(1) {
            return self.refuse(name, "a contribution that fits into memory", format!("{most} elements"));
        }
        self.schedules(top, gang, name)?.or_else(|(expected, came)| self.refuse(name, &expected, came))
    }

    /// Makes the object, and returns its handle. Collective; never waits.
    pub fn define(self, top: &Top, gang: &Gang, name: &str, schedules: Schedules) -> Result<Handle, Error> {
        if u64::from(self.slots) * u64::from(gang.shards()) >= 1 << 31 {
            let came = format!("{} slots in each of {} shards", self.slots, gang.shards());
            return self.refuse(name, "fewer than 2^31 slots of all shards together", came);
        }
        let spec =
            CollectiveSpec { name: name.into(), bytes: self.bytes(), request: self, schedules: Arc::new(schedules) };
        top.replayed(gang, Arc::new(spec))
    }

    /// Whether an algorithm gives the bits that nearly all algorithms for the goal give. That depends on the operator's laws,
    /// on the order, and on how the algorithm groups the ranks where they are placed.
    fn has_usual_bits(&self, algorithm: Algorithm, groups: &Groups) -> bool {
        let Self { goal, order, .. } = self;
        let laws = self.laws();
        if !goal.combines() || laws.associative && algorithm.laws(goal).without(laws) == Laws::NONE {
            return true;
        }
        match order {
            Order::Doubling => algorithm.groups_by_doubling(goal, groups),
            Order::Left => algorithm.has_order(goal),
            Order::Any => algorithm.laws(goal).without(laws) == Laws::NONE,
        }
    }

    /// The algorithms among which a mapper or the times may choose, out of a list, each once: they reach the goal with
    /// the same bits. Some are [offered](Algorithm::is_offered) for few ranks only, unless there is no other.
    pub fn choices(&self, algorithms: impl IntoIterator<Item = Algorithm>, groups: &Groups) -> Vec<Algorithm> {
        let Self { goal, .. } = self;
        let mut choices = Vec::new();
        for algorithm in algorithms {
            let suits = algorithm.is_for(goal) && self.suits_sizes(algorithm) && self.has_usual_bits(algorithm, groups);
            if suits && !choices.contains(&algorithm) {
                choices.push(algorithm);
            }
        }
        if choices.iter().any(|algorithm| algorithm.is_offered(goal)) {
            choices.retain(|algorithm| algorithm.is_offered(goal));
        }
        choices
    }

    /// The position of the mapper's choice.
    pub fn ask_mapper(&self, top: &Top, gang: &Gang, name: &str, choices: &[Algorithm]) -> Result<usize, Error> {
        let object = (name, self.goal.kind());
        top.choose_algorithm(gang, |rank| self.goal.takes_part(rank), object, self.length.of(self.bytes()), choices)
    }

    /// The error for an operator without laws that an algorithm needs.
    fn lacks(&self, missing: Laws, algorithm: impl std::fmt::Display) -> (String, String) {
        let expected = format!("an operator that is {missing} bit for bit, as {algorithm} needs");
        // All built-in operators are infallible. Nearly all others are, but only the program knows.
        let which = match missing.infallible {
            true => {
                "for which that is not declared; declare what holds (`Operator::infallible` if it never panics), or take \
                 another algorithm"
            }
            false => "which is not",
        };
        (expected, format!("`{}`, {which}", self.reduction.operator().name()))
    }

    /// The schedules, or what was expected and what came in its place.
    fn schedules(&self, top: &Top, gang: &Gang, name: &str) -> Result<Result<Schedules, (String, String)>, Error> {
        let Self { goal, order, .. } = self;
        let places = top.placement(gang)?;
        let mut groups = Groups::runs(&places);
        if self.length.of(self.bytes()) >= SHARED {
            groups = groups.on_nodes(|rank| top.node_of(places[rank as usize]));
        }
        let laws = self.laws();
        if goal.combines()
            && *order == Order::Left
            && !laws.associative
            && !matches!(self.source, Source::Own(..))
            && let Err(refused) = Algorithm::check_order(goal)
        {
            return Ok(Err(refused));
        }
        let algorithm = match &self.source {
            Source::Own(of, make) => {
                let schedules = Schedules::made(goal, of, make.clone());
                // It may divide a vector into blocks as it likes.
                let blocks = schedules.of(0).blocks();
                if blocks == 0 {
                    return Ok(Err(("schedules with at least one block".into(), format!("none in {schedules}"))));
                }
                let report = match check(&goal.clone().in_blocks(blocks), |rank| schedules.of(rank)) {
                    Ok(report) => report,
                    Err(error) => {
                        let (at, expected, came) = error.in_parts();
                        let at = if at.is_empty() { "in".into() } else { format!("at {at} of") };
                        return Ok(Err((expected, format!("{came} {at} the schedules `{of}`"))));
                    }
                };
                // Also where nothing is combined that anybody receives.
                let missing = report.laws.without(laws);
                if missing != Laws::NONE {
                    return Ok(Err(self.lacks(missing, &schedules)));
                }
                if goal.combines() && *order == Order::Left && !report.by_loop && !laws.associative {
                    let expected = "schedules that combine in the order of a loop".into();
                    return Ok(Err((expected, format!("{schedules}, which has other brackets"))));
                }
                let bytes = self.length.of(self.bytes());
                return Ok(own::fit(&schedules, &self.sizes, &groups, self.most, bytes).map(|()| schedules));
            }
            Source::Algorithm(algorithm) => {
                let algorithm = &algorithm.taken_for(goal);
                // In the order of a loop the brackets are given, and no law is needed.
                let by_loop = *order == Order::Left && algorithm.has_order(goal);
                let laws = if goal.combines() && !by_loop { laws } else { Laws::ALL };
                if let Err(refused) = algorithm.check(goal, Laws::ALL) {
                    return Ok(Err(refused));
                }
                let missing = algorithm.laws(goal).without(laws);
                if missing != Laws::NONE {
                    return Ok(Err(self.lacks(missing, algorithm)));
                }
                if !self.has_usual_bits(*algorithm, &groups) {
                    if *order == Order::Left {
                        let can = Algorithm::ALL.iter().filter(|algorithm| algorithm.has_order(goal));
                        let can: Vec<String> = can.map(Algorithm::to_string).collect();
                        let expected = format!("an algorithm that combines in the order of a loop: {}", or(&can));
                        return Ok(Err((expected, algorithm.to_string())));
                    }
                    let (expected, came) = self.lacks(Laws { associative: true, ..Laws::NONE }, algorithm);
                    let expected = format!(
                        "{expected} unless all groups have the same power of two of shards, or the order `Any`"
                    );
                    return Ok(Err((expected, came)));
                }
                if !self.suits_sizes(*algorithm) {
                    let kind = if self.is_any() { "known sizes" } else { "one size" };
                    return Ok(Err((format!("blocks of {kind} for {algorithm}"), self.sizes.to_string())));
                }
                *algorithm
            }
            Source::Mapper => {
                // The usual numbers first, as one of them is the default.
                let variants = Algorithm::ALL.iter().flat_map(|algorithm| algorithm.variants());
                let choices = self.choices(Algorithm::ALL.iter().copied().chain(variants), &groups);
                if choices.is_empty() {
                    if let Err(refused) = Algorithm::check_any(goal) {
                        return Ok(Err(refused));
                    }
                    let expected = format!("{} for which there is an algorithm", goal.named());
                    return Ok(Err((expected, format!("one of {} shards, {}", goal.most(), self.sizes))));
                }
                choices[self.ask_mapper(top, gang, name, &choices)?]
            }
        };
        Ok(Ok(Schedules::with(goal, algorithm, *order, groups)))
    }
}
