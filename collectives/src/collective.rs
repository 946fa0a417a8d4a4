//! The collective that shards call.

use crate::engine::{Claim, Contributed, Engine, Output, Role, Running};
use maniple_regions::Element;
use maniple_runtime::{Error, Input, Shard, TaskFuture};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// A persistent collective of a gang. Shards contribute values of type `I` and receive values of type `O`.
///
/// A value is one element, `T`, or a vector of them, `[T]`. The top-level task makes a collective; see the functions
/// below, one for each kind. It is plain data, and may travel in arguments. Shards use it like this:
///
/// | shard | calls |
/// |---|---|
/// | contributes and receives | [`call`](Self::call), or [`contribute`](Self::contribute) and later [`receive`](Self::receive) |
/// | only contributes | [`contribute`](Self::contribute) |
/// | only receives | [`receive`](Self::receive) |
/// | neither | nothing, and no message reaches it |
///
/// These are collective: every shard that takes part makes the same calls of one object in the same order. Objects do not
/// wait for each other. A call returns a future at once, and several calls may be in flight. A future can be awaited
/// with a deadline, and again after it.
///
/// If an input of a call fails, or its operator panics, the call fails on every shard that was to get that value. Later
/// calls are not affected. If a shard fails, the calls that it still owes fail, and later ones fail at once.
///
/// Each round of a call is an update and a read subtask, as in §II-A of "Scalable collectives for distributed
/// asynchronous many-task runtimes"; see [`protocol`](crate::protocol). Contributors and receivers may be any shards, as
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
///     top.launch(&gang, &task, |_| ShardLaunch::new(total))?.all().await
/// })?;
/// assert_eq!(sums, [0.0, 0.0, 0.0, 0.0, 6.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Collective<I: ?Sized, O: ?Sized = I> {
    pub(crate) id: u32,
    #[serde(skip)]
    pub(crate) value: PhantomData<fn(&I) -> &O>,
}

impl<I: ?Sized, O: ?Sized> Clone for Collective<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<I: ?Sized, O: ?Sized> Copy for Collective<I, O> {}
impl<I: ?Sized, O: ?Sized> std::fmt::Debug for Collective<I, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collective({})", self.id)
    }
}

/// What a shard contributes or receives: one element, `T`, or a vector of them, `[T]`. It has no other implementations.
pub trait Value {
    /// The type of the elements.
    type Element: Element;
    /// The type of a value that is passed: `T` or `Vec<T>`.
    type Own: Clone + 'static;
    #[doc(hidden)]
    fn running(input: Input<Self::Own>) -> Running<Self::Element>;
    #[doc(hidden)]
    fn output() -> (Output<Self::Element>, TaskFuture<Self::Own>);
    #[doc(hidden)]
    fn claim(future: TaskFuture<Self::Own>) -> Claim<Self::Element>;
    #[doc(hidden)]
    fn claimed(claim: Claim<Self::Element>) -> TaskFuture<Self::Own>;
}

impl<T: Element> Value for T {
    type Element = T;
    type Own = T;
    fn running(input: Input<T>) -> Running<T> {
        Running::one(input)
    }
    fn output() -> (Output<T>, TaskFuture<T>) {
        let (resolver, future) = TaskFuture::pending();
        (Output::One(resolver), future)
    }
    fn claim(future: TaskFuture<T>) -> Claim<T> {
        Claim::One(future)
    }
    fn claimed(claim: Claim<T>) -> TaskFuture<T> {
        match claim {
            Claim::One(future) => future,
            Claim::Many(_) => unreachable!("an object's results are of one shape"),
        }
    }
}

impl<T: Element> Value for [T] {
    type Element = T;
    type Own = Vec<T>;
    fn running(input: Input<Vec<T>>) -> Running<T> {
        Running::many(input)
    }
    fn output() -> (Output<T>, TaskFuture<Vec<T>>) {
        let (resolver, future) = TaskFuture::pending();
        (Output::Many(resolver), future)
    }
    fn claim(future: TaskFuture<Vec<T>>) -> Claim<T> {
        Claim::Many(future)
    }
    fn claimed(claim: Claim<T>) -> TaskFuture<Vec<T>> {
        match claim {
            Claim::Many(future) => future,
            Claim::One(_) => unreachable!("an object's results are of one shape"),
        }
    }
}

/// What a shard does in a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Contributes,
    Receives,
    Both,
}

impl Part {
    /// Refuses a call that is not for the shard.
    fn check<T: Element>(self, role: &Role<T>, id: u32, shard: &Shard) -> Result<(), Error> {
        let (contributes, receives) = (role.contributes.is_some(), role.receives.is_some());
        let (call, is_for) = match self {
            Part::Contributes => ("contribute", contributes),
            Part::Receives => ("receive", receives),
            Part::Both => ("call", contributes && receives),
        };
        if is_for {
            return Ok(());
        }
        let does = match (contributes, receives) {
            (true, _) => "only contributes: use `contribute`",
            (_, true) => "only receives: use `receive`",
            _ => "takes no part",
        };
        Err(Error::Misuse {
            what: format!("`{call}` of collective {id} in shard {}", shard.index()),
            expected: match self {
                Part::Contributes => "a shard that contributes",
                Part::Receives => "a shard that receives",
                Part::Both => "a shard that contributes and receives",
            }
            .into(),
            came: format!("one that {does}"),
        })
    }
}

impl<T: Element, I: Value<Element = T> + ?Sized, O: Value<Element = T> + ?Sized> Collective<I, O> {
    /// Contributes a value, as itself or as a future (`value` or `&future`). The future that it returns holds what the shard
    /// receives. Collective; returns at once.
    ///
    /// # Errors
    /// A shard of another gang, or one that does not both contribute and receive. Failures of the call itself, such as a
    /// wrong length, are in the future.
    pub fn call(&self, shard: &Shard, input: impl Into<Input<I::Own>>) -> Result<TaskFuture<O::Own>, Error> {
        // The caller's code, which must not run while the object is borrowed.
        let input = input.into();
        let admit = |engine: &mut Engine<T>, at| Part::Both.check(engine.role(at), self.id, shard).map(|()| None);
        shard.replay(self.id, admit, |engine: &mut Engine<T>, at, cx| {
            let (output, future) = O::output();
            engine.call(at, I::running(input), output, cx);
            future
        })
    }

    /// Contributes a value, as itself or as a future. The future that it returns is settled when the shard's part of the
    /// call is over. Collective; returns at once.
    ///
    /// A shard that also receives asks for its result with [`receive`](Self::receive), then or later.
    ///
    /// # Errors
    /// A shard of another gang, or one that does not contribute. Failures of the call itself are in the future.
    pub fn contribute(&self, shard: &Shard, input: impl Into<Input<I::Own>>) -> Result<TaskFuture<()>, Error> {
        let input = input.into();
        let admit =
            |engine: &mut Engine<T>, at| Part::Contributes.check(engine.role(at), self.id, shard).map(|()| None);
        shard.replay(self.id, admit, |engine: &mut Engine<T>, at, cx| {
            let (over, future) = TaskFuture::pending();
            let result = engine.role(at.0).receives.map(|_| {
                let (output, result) = O::output();
                engine.keep(at.0, O::claim(result));
                output
            });
            engine.call(at, I::running(input), Output::Over(Box::new(Contributed { over, result })), cx);
            future
        })
    }

    /// The future of the value that the shard receives. Collective; returns at once.
    ///
    /// In a shard that also contributes it is the result of the oldest contribution whose result was not asked for.
    ///
    /// # Errors
    /// A shard of another gang, one that does not receive, or one that has not contributed first though it should.
    pub fn receive(&self, shard: &Shard) -> Result<TaskFuture<O::Own>, Error> {
        let admit = |engine: &mut Engine<T>, at| {
            let role = engine.role(at);
            Part::Receives.check(role, self.id, shard)?;
            if role.contributes.is_none() {
                return Ok(None);
            }
            match engine.claim(at) {
                Some(claim) => Ok(Some(O::claimed(claim))),
                None => Err(Error::Misuse {
                    what: format!("`receive` of collective {} in shard {}", self.id, shard.index()),
                    expected: "a `contribute` before each `receive`, as the shard does both".into(),
                    came: "none whose result was not asked for".into(),
                }),
            }
        };
        shard.replay(self.id, admit, |engine: &mut Engine<T>, at, cx| {
            let (output, future) = O::output();
            engine.call(at, Running::One(T::zeroed()), output, cx);
            future
        })
    }
}
