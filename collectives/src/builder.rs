//! Making collectives: one function for each kind, and their options.

use crate::Make;
use crate::reduction::{Plain, Reduction, State};
use crate::sizes::Sizes;
use crate::spec::{Request, Source};
use crate::{Algorithm, Collective, Operator, Order, Schedule, Value};
use crate::{Goal, Kind, Ranks};
use maniple_regions::Element;
use maniple_runtime::{Error, Gang, Length, Top};
use std::marker::PhantomData;
use std::sync::Arc;

/// A collective that is to be made: its kind, who takes part, sizes and options. [`make`](Self::make) makes it.
#[must_use = "nothing is made before `make`"]
pub struct CollectiveBuilder<I, O = I, S = Plain>
where
    I: Value + ?Sized,
    O: Value + ?Sized,
    S: State<I::Element, O::Element>,
{
    asked: Asked,
    reduction: S::By,
    identity: Option<<S::By as Reduction>::Element>,
    value: PhantomData<fn(&I) -> &O>,
}

/// The options that have nothing to do with the types of elements: their code is compiled once.
struct Asked {
    kind: Kind,
    /// The contributor, if there is one only.
    root: Option<u32>,
    participants: Option<Ranks>,
    receivers: Option<Ranks>,
    sizes: Sizes,
    /// The bytes that an element stands for, or 0 for its own.
    stands_for: usize,
    slots: u32,
    order: Order,
    algorithm: Option<Algorithm>,
    own: Option<(String, Arc<Make>)>,
}

fn builder<I, O, S>(kind: Kind, reduction: S::By, sizes: Sizes) -> CollectiveBuilder<I, O, S>
where
    I: Value + ?Sized,
    O: Value + ?Sized,
    S: State<I::Element, O::Element>,
{
    let asked = Asked {
        kind,
        root: None,
        participants: None,
        receivers: None,
        sizes,
        stands_for: 0,
        slots: 2,
        order: Order::Doubling,
        algorithm: None,
        own: None,
    };
    CollectiveBuilder { asked, reduction, identity: None, value: PhantomData }
}

/// The operator of a collective whose results combine nothing. A program's own schedules may combine what nobody receives.
fn nothing<T: Element>() -> Operator<T> {
    Operator::user("none", |lower: &T, _: &T| *lower).infallible()
}

impl<T: Element> Collective<T> {
    /// All shards contribute, and all receive the combination.
    ///
    /// `by` is an [`Operator`], or a [`Stateful`](maniple_regions::Stateful) one such as
    /// [`exact_sum`](maniple_regions::exact_sum).
    pub fn allreduce<By: Reduction<In = T>>(by: By) -> CollectiveBuilder<T, By::Out, By::State> {
        builder(Kind::Reduce, by, Sizes::Whole(1))
    }

    /// All shards contribute, and some receive the combination.
    pub fn reduce<By: Reduction<In = T>>(
        by: By,
        receivers: impl IntoIterator<Item = u32>,
    ) -> CollectiveBuilder<T, By::Out, By::State> {
        Self::allreduce(by).receivers(receivers)
    }

    /// One shard contributes, and all receive its value.
    pub fn broadcast(root: u32) -> CollectiveBuilder<T> {
        builder(Kind::Broadcast, nothing(), Sizes::Whole(1)).root(root)
    }

    /// Each shard receives the combination of the contributions up to its own, in the order of shards. A receiver that
    /// does not contribute gets the combination of all contributions before it. No receiver may come before the first
    /// participant.
    pub fn scan<By: Reduction<In = T>>(by: By) -> CollectiveBuilder<T, By::Out, By::State> {
        builder(Kind::Scan, by, Sizes::Whole(1))
    }

    /// Each shard receives the combination of the contributions before its own. If nobody before a shard contributes, it
    /// receives `identity`, or what `by` makes of `identity` alone if `by` has a state. `identity` is not combined with any
    /// contribution.
    pub fn exscan<By: Reduction<In = T>>(by: By, identity: T) -> CollectiveBuilder<T, By::Out, By::State> {
        let identity = Some(by.lift(&identity));
        CollectiveBuilder { identity, ..builder(Kind::Exscan, by, Sizes::Whole(1)) }
    }

    /// All shards contribute a block, and some receive the blocks of all, in the order of shards.
    pub fn gather(receivers: impl IntoIterator<Item = u32>) -> CollectiveBuilder<T, [T]> {
        Self::allgather().receivers(receivers)
    }

    /// All shards contribute a block, and all receive the blocks of all.
    pub fn allgather() -> CollectiveBuilder<T, [T]> {
        builder(Kind::Gather, nothing(), Sizes::Each(1))
    }

    /// One shard contributes a block for each receiver. All shards receive theirs.
    pub fn scatter(root: u32) -> CollectiveBuilder<[T], T> {
        builder(Kind::Scatter, nothing(), Sizes::Each(1)).root(root)
    }

    /// All shards contribute a block for each receiver, which receives the combination of the blocks for it.
    pub fn reduce_scatter<By: Reduction<In = T>>(by: By) -> CollectiveBuilder<[T], By::Out, By::State> {
        builder(Kind::ReduceScatter, by, Sizes::Each(1))
    }

    /// Each shard contributes one block for every shard, itself included, and receives the blocks for it in the order of
    /// their senders. If [`receivers`](CollectiveBuilder::receivers) names other shards, each participant contributes one block
    /// for each receiver.
    pub fn all_to_all() -> CollectiveBuilder<[T]> {
        builder(Kind::AllToAll, nothing(), Sizes::Each(1))
    }

    /// A collective of a kind that is known only when the program runs. Its values are vectors of one element, or of one in each
    /// block, unless [`elements`](CollectiveBuilder::elements) or [`sizes`](CollectiveBuilder::sizes) says otherwise. `operator`
    /// combines them if the kind combines; `identity` is what an exclusive scan gives where nobody contributes before. A
    /// barrier is an allreduce.
    pub fn of_kind(
        kind: Kind,
        contributors: Ranks,
        receivers: Ranks,
        (operator, identity): (Operator<T>, T),
    ) -> CollectiveBuilder<[T]> {
        let by = if kind.combines() || kind == Kind::Barrier { operator } else { nothing() };
        let sizes = if kind.has_blocks() { Sizes::Each(1) } else { Sizes::Whole(1) };
        let mut made = builder(kind, by, sizes);
        (made.asked.root, made.asked.participants) = match kind.has_root() && contributors.len() == 1 {
            true => (Some(contributors.at(0)), None),
            false => (None, Some(contributors)),
        };
        made.asked.receivers = Some(receivers);
        made.identity = (kind == Kind::Exscan).then_some(identity);
        made
    }
}

impl Collective<()> {
    /// Receivers learn that all participants have contributed. Their value is `()`.
    pub fn barrier() -> CollectiveBuilder<()> {
        builder(Kind::Reduce, Operator::nothing(), Sizes::Whole(1))
    }
}

/// A builder of a collective of any kind, by what is contributed and received where a value, or each of its blocks, is one
/// element; see [`CollectiveBuilder::of_one`].
pub enum OfOne<T: Element> {
    /// An element each.
    One(CollectiveBuilder<T>),
    /// An element is contributed, and a vector received.
    OneToMany(CollectiveBuilder<T, [T]>),
    /// A vector is contributed, and an element received.
    ManyToOne(CollectiveBuilder<[T], T>),
    /// A vector each.
    Many(CollectiveBuilder<[T]>),
}

impl<T: Element> CollectiveBuilder<[T]> {
    /// The same collective with elements where this one has vectors of one element.
    pub fn of_one(self) -> OfOne<T> {
        let kind = self.asked.kind;
        match (kind.has_block_for_each_receiver(), kind.has_block_of_each_contributor()) {
            _ if !matches!(self.asked.sizes, Sizes::Whole(1) | Sizes::Each(1)) => OfOne::Many(self),
            (false, false) => OfOne::One(self.retyped()),
            (false, true) => OfOne::OneToMany(self.retyped()),
            (true, false) => OfOne::ManyToOne(self.retyped()),
            (true, true) => OfOne::Many(self),
        }
    }
}

impl<I: Value + ?Sized, O: Value + ?Sized, S: State<I::Element, O::Element>> CollectiveBuilder<I, O, S> {
    /// The shards that contribute, and receive unless [`receivers`](Self::receivers) says otherwise. By default all. They
    /// are a set: their order does not matter, and one that is named twice counts once.
    pub fn participants(mut self, shards: impl IntoIterator<Item = u32>) -> Self {
        self.asked.participants = Some(Ranks::of(shards));
        self
    }

    /// The shards that receive, a set too. They need not contribute. By default those that contribute; in a broadcast or
    /// scatter, all.
    pub fn receivers(mut self, shards: impl IntoIterator<Item = u32>) -> Self {
        self.asked.receivers = Some(Ranks::of(shards));
        self
    }

    /// Makes values vectors of this many elements. Where a value consists of blocks, each block has this many. There may be 0.
    /// If several of this, [`sizes`](Self::sizes), [`sizes_between`](Self::sizes_between) and [`any_sizes`](Self::any_sizes) are
    /// called, the last one holds.
    pub fn elements(self, elements: usize) -> CollectiveBuilder<[I::Element], [O::Element], S> {
        let sizes = if self.asked.kind.has_blocks() { Sizes::Each(elements) } else { Sizes::Whole(elements) };
        self.with_sizes(sizes)
    }

    /// The number of elements of each block, in the order of the shards that contribute it (gather) or receive it
    /// (scatter, reduce-scatter).
    pub fn sizes(self, sizes: impl IntoIterator<Item = usize>) -> CollectiveBuilder<[I::Element], [O::Element], S> {
        let sizes: Vec<usize> = sizes.into_iter().collect();
        self.with_sizes(Sizes::blocks(&sizes))
    }

    /// The sizes of blocks in an all-to-all: `size(from, to)` elements go from the participant at position `from` to the
    /// receiver at `to`, which may be itself. It must be the same function on every node.
    pub fn sizes_between(
        self,
        size: impl Fn(u32, u32) -> usize + Send + Sync + 'static,
    ) -> CollectiveBuilder<[I::Element], [O::Element], S> {
        self.with_sizes(Sizes::Between(Arc::new(size)))
    }

    /// Lets each block have any size, which only its sender knows and which may change from call to call. Nothing is exchanged for
    /// the sizes: each block carries its own. For collectives that combine nothing. A contribution of several blocks is given
    /// [in blocks](crate::Contribution::in_blocks), or as the futures of blocks; a whole result has all blocks one after another.
    ///
    /// Algorithms that join blocks in one message, such as Bruck's, are refused.
    pub fn any_sizes(self) -> CollectiveBuilder<[I::Element], [O::Element], S> {
        self.with_sizes(Sizes::Any)
    }

    /// In virtual time each element counts as `bytes` bytes: in messages, in combinations, and for the choice of an algorithm. 0
    /// means its own size. So a small program shows how long a large one would take, as with
    /// [`FieldInfo::standing_for`](maniple_regions::FieldInfo::standing_for). A vector should have at least as many elements as the
    /// blocks into which the algorithm cuts it. Results don't change.
    pub fn standing_for(mut self, bytes: usize) -> Self {
        self.asked.stands_for = bytes;
        self
    }

    fn with_sizes(mut self, sizes: Sizes) -> CollectiveBuilder<[I::Element], [O::Element], S> {
        self.asked.sizes = sizes;
        self.retyped()
    }

    fn retyped<I2, O2>(self) -> CollectiveBuilder<I2, O2, S>
    where
        I2: Value<Element = I::Element> + ?Sized,
        O2: Value<Element = O::Element> + ?Sized,
    {
        let Self { asked, reduction, identity, .. } = self;
        CollectiveBuilder { asked, reduction, identity, value: PhantomData }
    }

    /// The number of calls that can be in flight, K, at least 1; by default 2. Call K starts when call 0 has ended.
    pub fn slots(mut self, slots: u32) -> Self {
        self.asked.slots = slots;
        self
    }

    /// The brackets of combinations, by default [`Order::Doubling`]. [`Order::Left`] gives the bits of a sequential loop over
    /// the participants. If the operator is not associative, that takes [`Algorithm::Direct`] or, in an allreduce,
    /// [`Algorithm::Sliced`]; both are for at most 8192 shards. [`Order::Any`] allows an [`Algorithm`] with brackets of its
    /// own.
    pub fn order(mut self, order: Order) -> Self {
        self.asked.order = order;
        self
    }

    /// The algorithm. Without one, the mapper chooses among those that give the same bits. Not together with
    /// [`schedules`](Self::schedules).
    pub fn algorithm(mut self, algorithm: impl Into<Option<Algorithm>>) -> Self {
        self.asked.algorithm = algorithm.into();
        self
    }

    /// An algorithm of the program's own, with a name for reports: a function that gives the schedule of each shard, the
    /// same on every node. [`check`](crate::check) proves it before the collective is made. It may divide one vector into
    /// any number of blocks, and has the brackets that its schedules have. Both ends of a step must have the same number of
    /// elements: where the elements can't be divided evenly, the first blocks have one more. All ranks of a
    /// [group](Schedule::in_group) contribute, and their only part is the whole vector.
    pub fn schedules(mut self, name: &str, make: impl Fn(&Goal, u32) -> Schedule + Send + Sync + 'static) -> Self {
        self.asked.own = Some((name.into(), Arc::new(make)));
        self
    }

    /// Makes the collective. Collective among the nodes' top-level tasks; never waits.
    ///
    /// # Errors
    /// Shards that the gang does not have, nobody who contributes or receives, participants of a kind in which one shard
    /// contributes, receivers of a scan before its first participant, no slots or more than memory can address, sizes that do
    /// not fit the kind or the memory, an algorithm that does not fit the kind, the sizes or the operator's laws, schedules
    /// that the check refuses, an algorithm beside schedules, or an illegal decision of the mapper.
    pub fn make(self, top: &Top, gang: &Gang, name: &str) -> Result<Collective<I, O, S>, Error> {
        let request = self.request(gang, name)?;
        let schedules = request.prepare(top, gang, name)?;
        Ok(Collective { object: request.define(top, gang, name, schedules)?, value: PhantomData })
    }

    fn root(mut self, root: u32) -> Self {
        self.asked.root = Some(root);
        self
    }

    /// What is asked for, if it fits together.
    pub(crate) fn request(self, gang: &Gang, name: &str) -> Result<Request<S::By>, Error> {
        let Self { mut asked, reduction, identity, .. } = self;
        let (goal, source) = asked.check(gang.shards(), name)?;
        let Asked { sizes, stands_for, slots, order, .. } = asked;
        let (most, length) = (sizes.most(&goal), Length::new(size_of::<I::Element>(), stands_for));
        Ok(Request { goal, reduction, identity, sizes, most, length, slots, order, source })
    }
}

impl Asked {
    /// The goal in a gang of `shards` shards, and who chooses the schedules.
    fn check(&mut self, shards: u32, name: &str) -> Result<(Goal, Source), Error> {
        let refuse =
            |expected: String, came: String| Error::Misuse { what: format!("collective `{name}`"), expected, came };
        let goal = self.goal(shards).map_err(|(expected, came)| refuse(expected, came))?;
        self.check_sizes(&goal).map_err(|(expected, came)| refuse(expected, came))?;
        let source = match (self.own.take(), self.algorithm) {
            (Some((of, _)), Some(algorithm)) => {
                let came = format!("both: schedules `{of}` and {algorithm}");
                return Err(refuse("`schedules` or `algorithm`".into(), came));
            }
            (Some((name, make)), None) => Source::Own(name, make),
            (None, Some(algorithm)) => Source::Algorithm(algorithm),
            (None, None) => Source::Mapper,
        };
        Ok((goal, source))
    }

    /// The goal in a gang of `shards` shards, or what was expected and what came.
    fn goal(&self, shards: u32) -> Result<Goal, (String, String)> {
        let all = || Ranks::all(shards);
        let (contributors, receivers) = match (self.root, &self.participants) {
            (Some(_), Some(_)) => {
                let expected = "one shard that contributes, and `receivers` for the others";
                return Err((expected.into(), "`participants`".into()));
            }
            (Some(root), None) => (Ranks::one(root), self.receivers.clone().unwrap_or_else(all)),
            (None, participants) => {
                let participants = participants.clone().unwrap_or_else(all);
                let receivers = self.receivers.clone().unwrap_or_else(|| participants.clone());
                (participants, receivers)
            }
        };
        for (does, ranks) in [("contributes", &contributors), ("receives", &receivers)] {
            if ranks.is_empty() {
                return Err((format!("at least one shard that {does}"), "none".into()));
            }
            let last = ranks.at(ranks.len() - 1);
            if last >= shards {
                return Err((format!("shards in 0..{shards}"), format!("shard {last}, which {does}")));
            }
        }
        let (first, lowest) = (contributors.at(0), receivers.at(0));
        if self.kind == Kind::Scan && lowest < first {
            let expected = format!("no receiver before shard {first}, the first that contributes");
            return Err((expected, format!("shard {lowest}")));
        }
        Ok(Goal::new(self.kind, shards, contributors, receivers, 1))
    }

    fn check_sizes(&self, goal: &Goal) -> Result<(), (String, String)> {
        let is_between = self.kind == Kind::AllToAll;
        let is_blocks = self.kind.has_blocks() && !is_between;
        let refuse = |came: &str| {
            let by = match (is_blocks, is_between) {
                (true, _) => "`elements` or `sizes`",
                (_, true) => "`elements` or `sizes_between`",
                _ => "`elements`",
            };
            Err((format!("{by} for {}", goal.named()), came.into()))
        };
        match &self.sizes {
            Sizes::Any if self.kind.combines() => {
                Err((format!("`elements` for {}, as contributions are combined", goal.named()), "`any_sizes`".into()))
            }
            Sizes::Blocks(_) if !is_blocks => refuse("`sizes`"),
            Sizes::Between(_) if !is_between => refuse("`sizes_between`"),
            Sizes::Blocks(starts) if starts.len() - 1 != goal.blocks() as usize => {
                Err((format!("the sizes of {} blocks", goal.blocks()), format!("the sizes of {}", starts.len() - 1)))
            }
            _ => Ok(()),
        }
    }
}
