//! The collective that shards call.

use crate::engine::Engine;
use crate::reduction::{Plain, Reduction, State};
use crate::value::{Contributed, Contribution, Given, Output, Value};
use maniple_regions::{Element, Vector};
use maniple_runtime::replay::Handle;
use maniple_runtime::{Destroy, Doomed, Error, FutureMap, Shard, TaskFuture};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// A persistent collective of a gang. Shards contribute values of type `I` and receive values of type `O`.
///
/// A value is one element, `T`, or a vector of them, `[T]`. The top-level task makes a collective; see the functions
/// below, one for each kind. It is plain data, and may travel in arguments. Only the run that made it may use it. Shards use
/// it like this:
///
/// | shard | calls |
/// |---|---|
/// | contributes and receives | [`call`](Self::call) or [`call_parts`](Self::call_parts), or [`contribute`](Self::contribute) and later [`receive`](Self::receive) |
/// | only contributes | [`contribute`](Self::contribute) |
/// | only receives | [`receive`](Self::receive) or [`receive_parts`](Self::receive_parts) |
/// | neither | nothing, and no message reaches it |
///
/// A collective that reduces with a [`Stateful`](maniple_regions::Stateful) operator combines states `S`, and converts
/// contributions to them and them to results. Otherwise `S` is [`Plain`].
///
/// These are collective: every shard that takes part makes its calls of one object in the same order, and equally many.
/// Objects do not wait for each other. A call returns a future at once, and several calls may be in flight. A future can be
/// awaited with a deadline, and again after it.
///
/// If an input fails, or `lift` panics, the call fails on every shard whose result depends on that contribution. If the
/// operator panics, it fails on every shard whose result contains that combination. If `lower` panics, it fails on that shard
/// only. Later calls are not affected.
///
/// If a shard fails, the calls that it has made go on, those that it still owes fail, and later ones fail at once. One
/// exception: a contribution that is the future of a task not yet begun fails too.
///
/// A message of a call is an update subtask at one shard and a read subtask at another, as in §II-A of "Scalable collectives
/// for distributed asynchronous many-task runtimes"; see [`protocol`](crate::protocol). Contributors and receivers may be any shards, as
/// in §3.2 of "Advanced collective communication in Aspen".
///
/// ```
/// use maniple_collectives::{Collective, Operator};
/// use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
///
/// // Shards 0 to 3 contribute, and shard 4 gets the sum.
/// async fn shard(shard: Shard, total: Collective<f64>) -> Result<f64, Error> {
///     if shard.index() == 4 {
///         return total.receive(&shard)?.await;
///     }
///     total.contribute(&shard, f64::from(shard.index()))?.detach();
///     Ok(0.0)
/// }
///
/// let (sums, _) = Runtime::threads(2).run(|top| async move {
///     let gang = top.gang("all", 5)?;
///     let total = Collective::reduce(Operator::sum(), [4]).participants(0..4).make(&top, &gang, "total")?;
///     let task = top.register("shard", shard);
///     top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await
/// })?;
/// assert_eq!(sums, [0.0, 0.0, 0.0, 0.0, 6.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Collective<I: ?Sized, O: ?Sized = I, S = Plain> {
    pub(crate) object: Handle,
    #[serde(skip)]
    pub(crate) value: PhantomData<fn(&I, S) -> &O>,
}

impl<I: ?Sized, O: ?Sized, S> Clone for Collective<I, O, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<I: ?Sized, O: ?Sized, S> Copy for Collective<I, O, S> {}
impl<I: ?Sized, O: ?Sized, S> std::fmt::Debug for Collective<I, O, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collective({})", self.object.number())
    }
}

impl<I: ?Sized, O: ?Sized, S> Destroy for Collective<I, O, S> {
    fn name(&self, doomed: &mut Doomed) {
        self.object.name(doomed);
    }
}

/// What a shard does in a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Contributes,
    Receives,
    Both,
}

impl Takes {
    /// Refuses a call that is not for the shard.
    #[inline(never)]
    fn check<By: Reduction>(self, engine: &Engine<By>, at: u32, shard: &Shard, in_parts: bool) -> Result<(), Error> {
        let role = engine.role(at);
        let (contributes, receives) = (role.contributes.is_some(), role.receives.is_some());
        let (both, receive) = if in_parts { ("call_parts", "receive_parts") } else { ("call", "receive") };
        let (call, is_for) = match self {
            Takes::Contributes => ("contribute", contributes),
            Takes::Receives => (receive, receives),
            Takes::Both => (both, contributes && receives),
        };
        if is_for {
            return Ok(());
        }
        let does = match (contributes, receives) {
            (true, _) => "only contributes: use `contribute`".to_owned(),
            (_, true) => format!("only receives: use `{receive}`"),
            _ => "takes no part".to_owned(),
        };
        Err(Error::Misuse {
            what: format!("`{call}` of `{}` in shard {}", engine.name(), shard.index()),
            expected: match self {
                Takes::Contributes => "a shard that contributes",
                Takes::Receives => "a shard that receives",
                Takes::Both => "a shard that contributes and receives",
            }
            .into(),
            came: format!("one that {does}"),
        })
    }
}

impl<I: Value + ?Sized, O: Value + ?Sized, S: State<I::Element, O::Element>> Collective<I, O, S> {
    /// Contributes a value, as itself or as a future (`value` or `&future`). The future that it returns holds what the shard
    /// receives. Collective; returns at once.
    ///
    /// # Errors
    /// A shard of another gang, one that does not both contribute and receive, or an object of another run. Failures of the
    /// call itself, such as a wrong length, are in the future.
    #[inline]
    pub fn call(&self, shard: &Shard, input: impl Into<Contribution<I>>) -> Result<TaskFuture<O::Own>, Error> {
        // The caller's code, which must not run while the object is borrowed.
        let input = input.into();
        let admit = |engine: &mut Engine<S::By>, at| match engine.is_one() {
            true => Ok(None),
            false => Takes::Both.check(engine, at, shard, false).map(|()| None),
        };
        match input.given {
            // One element stays in a register.
            Given::One(element) => {
                // There is nothing to drop, which the compiler does not see.
                std::mem::forget(input);
                shard.replay(self.object, admit, |engine: &mut Engine<S::By>, at, cx| engine.call::<O>(at, element, cx))
            }
            given => shard
                .replay(self.object, admit, |engine: &mut Engine<S::By>, at, cx| engine.call_with::<O>(at, given, cx)),
        }
    }

    /// Contributes a value and receives the result in parts: a future for each block of the result. A task that takes one starts
    /// when that block has come, whatever else is late. Collective; returns at once. Other shards may [`call`](Self::call) while
    /// this one calls in parts.
    ///
    /// A gather, an allgather or an all-to-all has a part of each contributor, in their order. A scatter has one part. A
    /// broadcast has as many as its algorithm cuts the value into.
    ///
    /// With [`direct`](crate::Algorithm::Direct) parts come in any order. With other algorithms a part comes when the message that
    /// has it does. A part is not copied when it comes: it refers to the memory of the message, within a process that of the
    /// sender. An algorithm that sends several blocks in one message copies them into it.
    ///
    /// # Errors
    /// Those of [`call`](Self::call), or a collective that combines contributions. A contribution that fails is the error of
    /// its own part. Other parts come with `direct` and with blocks of any sizes. With other algorithms some may fail with it.
    pub fn call_parts(
        &self,
        shard: &Shard,
        input: impl Into<Contribution<I>>,
    ) -> Result<FutureMap<Vector<O::Element>>, Error> {
        self.in_parts(shard, Takes::Both, input.into().given)
    }

    /// Receives the result in parts, in a shard that does not contribute; see [`call_parts`](Self::call_parts). Collective; returns
    /// at once.
    ///
    /// # Errors
    /// Those of [`receive`](Self::receive), a shard that also contributes, or a collective that combines contributions.
    pub fn receive_parts(&self, shard: &Shard) -> Result<FutureMap<Vector<O::Element>>, Error> {
        self.in_parts(shard, Takes::Receives, Given::Nothing)
    }

    fn in_parts(
        &self,
        shard: &Shard,
        takes: Takes,
        given: Given<I::Element>,
    ) -> Result<FutureMap<Vector<O::Element>>, Error> {
        let admit = |engine: &mut Engine<S::By>, at| {
            takes.check(engine, at, shard, true)?;
            let refused = |expected: &str, came: &str| Error::Misuse {
                what: format!("a call in parts of `{}` in shard {}", engine.name(), shard.index()),
                expected: expected.into(),
                came: came.into(),
            };
            if !engine.has_parts() {
                return Err(refused("a collective that combines nothing", "one whose result is a combination"));
            }
            if takes == Takes::Receives && engine.role(at).contributes.is_some() {
                return Err(refused("`call_parts`, as the shard contributes, too", "`receive_parts`"));
            }
            Ok(None)
        };
        shard.replay(self.object, admit, |engine: &mut Engine<S::By>, at, cx| engine.call_in_parts(at, given, cx))
    }

    /// Contributes a value, as itself or as a future. The future that it returns is settled when the shard's part of the
    /// call has ended. Collective; returns at once.
    ///
    /// A shard that also receives asks for its result with [`receive`](Self::receive), then or later. Its part ends
    /// when the result is there. So the future comes after the same contributions as the result, and fails with the
    /// same error. An error that is seen in one of the two counts as seen in both.
    ///
    /// In a shard that only contributes, the future says nothing about other contributions.
    ///
    /// # Errors
    /// A shard of another gang, one that does not contribute, or an object of another run. Failures of the call itself are in
    /// the future.
    pub fn contribute(&self, shard: &Shard, input: impl Into<Contribution<I>>) -> Result<TaskFuture<()>, Error> {
        let given = input.into().given;
        let admit = |engine: &mut Engine<S::By>, at| Takes::Contributes.check(engine, at, shard, false).map(|()| None);
        shard.replay(self.object, admit, |engine: &mut Engine<S::By>, at, cx| {
            let (over, future) = TaskFuture::pending();
            let result = engine.role(at.0).receives.map(|_| {
                let (resolver, result) = TaskFuture::<O::Own>::pending();
                cx.follows(&future, &result);
                engine.keep(at.0, Box::new(result));
                O::output(resolver)
            });
            engine.call_for(at, given, Output::Over(Box::new(Contributed { over, result })), cx);
            future
        })
    }

    /// The future of the value that the shard receives. Collective; returns at once.
    ///
    /// In a shard that also contributes it is the result of the oldest contribution whose result was not asked for, even if
    /// that call failed and the error was seen. So such a shard calls this once for each [`contribute`](Self::contribute).
    /// Results are kept until they are asked for, or to the end of the launch.
    ///
    /// # Errors
    /// A shard of another gang, one that does not receive, one that has not contributed first though it should, or an object
    /// of another run.
    pub fn receive(&self, shard: &Shard) -> Result<TaskFuture<O::Own>, Error> {
        let admit = |engine: &mut Engine<S::By>, at| {
            Takes::Receives.check(engine, at, shard, false)?;
            if engine.role(at).contributes.is_none() {
                return Ok(None);
            }
            match engine.claim(at) {
                claimed @ Some(_) => Ok(claimed),
                None => Err(Error::Misuse {
                    what: format!("`receive` of `{}` in shard {}", engine.name(), shard.index()),
                    expected: "a `contribute` before each `receive`, as the shard does both".into(),
                    came: "none of this type whose result was not asked for".into(),
                }),
            }
        };
        shard.replay(self.object, admit, |engine: &mut Engine<S::By>, at, cx| {
            let (resolver, future) = TaskFuture::pending();
            engine.call_for(at, Given::Nothing, O::output(resolver), cx);
            future
        })
    }
}

impl<T: Element, O: Value + ?Sized, S: State<T, O::Element>> Collective<[T], O, S> {
    /// A vector of `elements` elements for a later contribution of this shard, or for a block of one. A leaf task gets it as an
    /// [`Arg<Vec<T>>`](maniple_runtime::Arg), writes it and returns it; the future of that vector is the contribution.
    ///
    /// New memory is slow for large vectors. So this gives the memory of an earlier contribution that came from `spare`, once neither the
    /// shard, nor a receiver, nor a call under way holds it. If there is none, it allocates.
    ///
    /// The elements have arbitrary values: write all of them. The shard owns the vector. If it is not contributed, it is dropped like
    /// any `Vec`. Local; never waits.
    ///
    /// # Errors
    /// A shard of another gang, one that does not contribute, or an object of another run.
    ///
    /// ```
    /// use maniple_collectives::{Collective, Operator};
    /// use maniple_runtime::{Arg, Error, Runtime, Shard, ShardLaunch};
    ///
    /// fn write(mut own: Arg<Vec<u64>>, step: Arg<u64>) -> Vec<u64> {
    ///     own.0.fill(*step);
    ///     own.0
    /// }
    ///
    /// async fn shard(shard: Shard, total: Collective<[u64]>) -> Result<(), Error> {
    ///     for step in 0..10 {
    ///         let own = total.spare(&shard, 1000)?;
    ///         let own = shard.launch(write, (own.into(), step.into())).go()?;
    ///         assert_eq!(total.call(&shard, own)?.await?[999], 3 * step);
    ///     }
    ///     Ok(())
    /// }
    ///
    /// Runtime::threads(2).run(|top| async move {
    ///     let gang = top.gang("all", 3)?;
    ///     let total = Collective::allreduce(Operator::<u64>::sum()).elements(1000).make(&top, &gang, "total")?;
    ///     top.launch_gang(&gang, &top.register("shard", shard), |_| ShardLaunch::new(total))?.all().await
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn spare(&self, shard: &Shard, elements: usize) -> Result<Vec<T>, Error> {
        let admit = |engine: &mut Engine<S::By>, at| {
            let role = engine.role(at);
            let refused = |expected: &str, came: String| {
                let what = format!("`spare` of `{}` in shard {}", engine.name(), shard.index());
                Err(Error::Misuse { what, expected: expected.into(), came })
            };
            if role.contributes.is_none() {
                let came = if role.receives.is_some() { "one that only receives" } else { "one that takes no part" };
                return refused("a shard that contributes", came.into());
            }
            if elements > isize::MAX as usize / size_of::<T>().max(1) {
                return refused("a vector that fits into memory", format!("{elements} elements"));
            }
            Ok(Some(engine.spare(at, elements)))
        };
        shard.replay(self.object, admit, |_: &mut Engine<S::By>, _, _| unreachable!("no call is needed"))
    }
}
