//! Collectives that are made together.

mod balance;
mod load;

pub use balance::{Balanced, balance};
pub use load::{Load, Traffic};

use crate::reduction::{Reduction, State};
use crate::spec::Request;
use crate::{Collective, CollectiveBuilder, Schedules, Value};
use balance::{Member, balance_members};
use maniple_runtime::{Destroy, Doomed, Error, Gang, Top};
use std::marker::PhantomData;

/// Collectives of one gang that were made together, so that the work is balanced over the shards.
///
/// Made alone, each reduction gives the work to the first shards, and where several are in flight at once these shards hold the
/// others up. In a plan, each reduction whose algorithm is [recursive doubling](crate::Algorithm::RecursiveDoubling) gives it
/// to shards with little else to do; see [`balance()`]. A result has the same bits as the result of a collective made alone.
///
/// ```
/// use maniple_collectives::{Collective, Operator, Plan};
/// use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
///
/// // Shard 0 gets the sum of all, and shard 3 the product of two.
/// async fn shard(shard: Shard, (sum, product): (Collective<f64>, Collective<f64>)) -> Result<f64, Error> {
///     let x = f64::from(shard.index() + 1);
///     sum.contribute(&shard, x)?.detach();
///     match shard.index() {
///         0 => sum.receive(&shard)?.await,
///         3 => product.receive(&shard)?.await,
///         _ => product.contribute(&shard, x)?.await.map(|()| x),
///     }
/// }
///
/// let (results, _) = Runtime::threads(2).run(|top| async move {
///     let gang = top.gang("all", 4)?;
///     let plan = Plan::make(&top, &gang, (
///         ("sum", Collective::reduce(Operator::<f64>::sum(), [0])),
///         ("product", Collective::reduce(Operator::<f64>::product(), [3]).participants([1, 2])),
///     ))?;
///     let (sum, product) = plan.collectives;
///     let task = top.register("shard", shard);
///     top.launch_gang(&gang, &task, |_| ShardLaunch::new((sum, product)))?.all().await
/// })?;
/// assert_eq!(results, [10.0, 2.0, 3.0, 6.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan<C> {
    /// The collectives, in the form in which they were asked for.
    pub collectives: C,
    loads: Vec<Load>,
    alone: Vec<Load>,
}

impl Plan<()> {
    /// Makes collectives together. Collective among the nodes' top-level tasks; never waits.
    ///
    /// Each of them is a pair of its name and its [builder](CollectiveBuilder). A tuple holds up to eight collectives of any
    /// kinds and types, and a vector or an array any number of one type. Each of these may also hold the others.
    ///
    /// # Errors
    /// The same as for [`CollectiveBuilder::make`]. The error names the collective.
    pub fn make<M: Members>(top: &Top, gang: &Gang, members: M) -> Result<Plan<M::Made>, Error> {
        let mut all = Vec::new();
        let prepared = members.prepare(top, gang, &mut Preparing(&mut all))?;
        let Balanced { schedules, loads, before: alone } = balance_members(all);
        let collectives = M::define(prepared, top, gang, &mut Defining(schedules.into_iter()))?;
        Ok(Plan { collectives, loads, alone })
    }
}

impl<C: Destroy> Destroy for Plan<C> {
    fn name(&self, doomed: &mut Doomed) {
        self.collectives.name(doomed);
    }
}

impl<C> Plan<C> {
    /// What each shard sends and receives in one call of each collective. Local.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// What each shard would send and receive had the collectives been made one by one. Local.
    pub fn loads_alone(&self) -> &[Load] {
        &self.alone
    }
}

/// What a [`Plan`] makes: a pair of a name and a builder, or a tuple, a vector or an array of what a plan can make.
pub trait Members: Sized {
    /// The collectives: each builder's [`Collective`], in the same tuples, vectors and arrays.
    type Made;
    #[doc(hidden)]
    type Prepared;
    /// Finds the schedules of each as if it were alone.
    #[doc(hidden)]
    fn prepare(self, top: &Top, gang: &Gang, to: &mut Preparing<'_>) -> Result<Self::Prepared, Error>;
    /// Makes them, with the schedules that they are given.
    #[doc(hidden)]
    fn define(prepared: Self::Prepared, top: &Top, gang: &Gang, from: &mut Defining) -> Result<Self::Made, Error>;
}

/// The collectives that are ready to be balanced.
pub struct Preparing<'a>(&'a mut Vec<Member>);

/// The schedules of those that have yet to be made, in the same order.
pub struct Defining(std::vec::IntoIter<Schedules>);

/// A collective whose schedules may still change.
pub struct Prepared<I: Value + ?Sized, O: Value + ?Sized, S: State<I::Element, O::Element>> {
    name: String,
    request: Request<S::By>,
    value: PhantomData<fn(&I, S) -> &O>,
}

impl<N, I, O, S> Members for (N, CollectiveBuilder<I, O, S>)
where
    N: AsRef<str>,
    I: Value + ?Sized,
    O: Value + ?Sized,
    S: State<I::Element, O::Element>,
{
    type Made = Collective<I, O, S>;
    type Prepared = Prepared<I, O, S>;

    fn prepare(self, top: &Top, gang: &Gang, to: &mut Preparing<'_>) -> Result<Prepared<I, O, S>, Error> {
        let (name, builder) = self;
        let name = name.as_ref().to_owned();
        let request = builder.request(gang, &name)?;
        let schedules = request.prepare(top, gang, &name)?;
        to.0.push(Member {
            schedules,
            sizes: request.sizes.clone(),
            element: size_of::<<S::By as Reduction>::Element>(),
        });
        Ok(Prepared { name, request, value: PhantomData })
    }

    fn define(prepared: Prepared<I, O, S>, top: &Top, gang: &Gang, from: &mut Defining) -> Result<Self::Made, Error> {
        let Prepared { name, request, value } = prepared;
        let schedules = from.0.next().expect("one was prepared");
        Ok(Collective { object: request.define(top, gang, &name, schedules)?, value })
    }
}

impl<M: Members> Members for Vec<M> {
    type Made = Vec<M::Made>;
    type Prepared = Vec<M::Prepared>;

    fn prepare(self, top: &Top, gang: &Gang, to: &mut Preparing<'_>) -> Result<Self::Prepared, Error> {
        self.into_iter().map(|member| member.prepare(top, gang, to)).collect()
    }

    fn define(prepared: Self::Prepared, top: &Top, gang: &Gang, from: &mut Defining) -> Result<Self::Made, Error> {
        prepared.into_iter().map(|prepared| M::define(prepared, top, gang, from)).collect()
    }
}

impl<M: Members, const N: usize> Members for [M; N] {
    type Made = [M::Made; N];
    type Prepared = Vec<M::Prepared>;

    fn prepare(self, top: &Top, gang: &Gang, to: &mut Preparing<'_>) -> Result<Self::Prepared, Error> {
        Vec::from(self).prepare(top, gang, to)
    }

    fn define(prepared: Self::Prepared, top: &Top, gang: &Gang, from: &mut Defining) -> Result<Self::Made, Error> {
        let made = Vec::<M>::define(prepared, top, gang, from)?;
        Ok(made.try_into().unwrap_or_else(|_| unreachable!("as many as were prepared")))
    }
}

macro_rules! tuples {
    ($first:ident $($rest:ident)*) => {
        impl<$first: Members, $($rest: Members),*> Members for ($first, $($rest,)*) {
            type Made = ($first::Made, $($rest::Made,)*);
            type Prepared = ($first::Prepared, $($rest::Prepared,)*);

            #[allow(non_snake_case)]
            fn prepare(self, top: &Top, gang: &Gang, to: &mut Preparing<'_>) -> Result<Self::Prepared, Error> {
                let ($first, $($rest,)*) = self;
                Ok(($first.prepare(top, gang, to)?, $($rest.prepare(top, gang, to)?,)*))
            }

            #[allow(non_snake_case)]
            fn define(
                prepared: Self::Prepared,
                top: &Top,
                gang: &Gang,
                from: &mut Defining,
            ) -> Result<Self::Made, Error> {
                let ($first, $($rest,)*) = prepared;
                Ok(($first::define($first, top, gang, from)?, $($rest::define($rest, top, gang, from)?,)*))
            }
        }
        tuples!($($rest)*);
    };
    () => {};
}

tuples!(A B C D E F G H);
