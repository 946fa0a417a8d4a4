//! The values of a call as a shard sees them: what it contributes, and the futures of results.

use crate::layout::Layout;
use maniple_regions::{Element, Vector};
use maniple_runtime::replay::{ReplayCx, Watch};
use maniple_runtime::{Error, FutureMap, Input, Resolver, TaskFuture};
use std::marker::PhantomData;
use std::rc::Rc;

/// What a shard contributes or receives: one element, `T`, or a vector of them, `[T]`. It has no other implementations.
pub trait Value {
    /// The type of the elements.
    type Element: Element;
    /// The type of a result: `T`, or a [`Vector`] of them. Shards may share its memory.
    type Own: Clone + 'static;
    #[doc(hidden)]
    fn given(input: Input<Self::Own>) -> Given<Self::Element>;
    #[doc(hidden)]
    fn output(resolver: Resolver<Self::Own>) -> Output<Self::Element>;
    /// A new future that uses the memory of an earlier result's future, if the result is one element.
    #[doc(hidden)]
    #[inline]
    fn renewed(_: &mut Option<Output<Self::Element>>) -> Option<TaskFuture<Self::Own>> {
        None
    }
}

impl<T: Element> Value for T {
    type Element = T;
    type Own = T;
    fn given(input: Input<T>) -> Given<T> {
        match input {
            Input::Now(value) => Given::One(value),
            Input::Later(future) => Given::OneLater(future),
        }
    }
    fn output(resolver: Resolver<T>) -> Output<T> {
        Output::One(resolver)
    }
    #[inline]
    fn renewed(output: &mut Option<Output<T>>) -> Option<TaskFuture<T>> {
        if let Some(Output::One(out)) = output {
            return Some(out.renew());
        }
        let (resolver, future) = TaskFuture::pending();
        *output = Some(Output::One(resolver));
        Some(future)
    }
}

impl<T: Element> Value for [T] {
    type Element = T;
    type Own = Vector<T>;
    fn given(input: Input<Vector<T>>) -> Given<T> {
        match input {
            Input::Now(vector) => Given::Many(vector),
            Input::Later(future) => Given::ManyLater(future),
        }
    }
    fn output(resolver: Resolver<Vector<T>>) -> Output<T> {
        Output::Many(resolver)
    }
}

/// What a shard contributes to a call: a value, or the future of one, for which the call waits, and with which it fails. A
/// vector comes as a `Vec` or a [`Vector`], or in blocks: [`in_blocks`](Self::in_blocks), or the [`FutureMap`] of an index launch.
/// Of a vector's future pass the future itself rather than a reference, unless you need it for more: then nothing is copied.
///
/// It is made `from` any of these, or from an [`Input`].
pub struct Contribution<V: Value + ?Sized> {
    pub(crate) given: Given<V::Element>,
    value: PhantomData<fn(&V)>,
}

/// What a shard gives to a call.
pub enum Given<T> {
    /// It only receives.
    Nothing,
    One(T),
    OneLater(TaskFuture<T>),
    Many(Vector<T>),
    ManyLater(TaskFuture<Vector<T>>),
    VecLater(TaskFuture<Vec<T>>),
    /// Its blocks, each of which leaves when it is there.
    Blocks(Box<GivenBlocks<T>>),
}

/// The blocks of a contribution, in the order of those who receive them.
pub enum GivenBlocks<T> {
    Now(Vec<Vector<T>>),
    Later(FutureMap<Vector<T>>),
    VecsLater(FutureMap<Vec<T>>),
}

impl<T: Element> GivenBlocks<T> {
    /// A single block is the whole contribution.
    pub fn or_whole(self: Box<Self>) -> Given<T> {
        match &*self {
            _ if self.len() != 1 => Given::Blocks(self),
            GivenBlocks::Now(blocks) => Given::Many(blocks[0].clone()),
            GivenBlocks::Later(blocks) => blocks.get(0).ok().cloned().map_or(Given::Nothing, Given::ManyLater),
            GivenBlocks::VecsLater(blocks) => blocks.get(0).ok().cloned().map_or(Given::Nothing, Given::VecLater),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            GivenBlocks::Now(blocks) => blocks.len(),
            GivenBlocks::Later(blocks) => blocks.len(),
            GivenBlocks::VecsLater(blocks) => blocks.len(),
        }
    }

    /// Takes a block, or none if it has not come. A task's vector that nobody else holds moves.
    pub fn take(&mut self, block: usize) -> Option<Result<Vector<T>, Error>> {
        match self {
            GivenBlocks::Now(blocks) => Some(Ok(blocks.get(block)?.clone())),
            GivenBlocks::Later(blocks) => blocks.get_mut(block)?.take_input(),
            GivenBlocks::VecsLater(blocks) => Some(blocks.get_mut(block)?.take_input()?.map(Vector::from)),
        }
    }

    fn have_come(&self) -> bool {
        match self {
            GivenBlocks::Now(_) => true,
            GivenBlocks::Later(blocks) => blocks.iter().all(TaskFuture::is_over),
            GivenBlocks::VecsLater(blocks) => blocks.iter().all(TaskFuture::is_over),
        }
    }

    /// Makes the runtime start the chain when a block comes. Returns false if it has come already.
    pub fn start_chain(&self, block: usize, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match self {
            GivenBlocks::Now(_) => false,
            GivenBlocks::Later(blocks) => blocks.get(block).is_ok_and(|future| cx.start_after(chain, future)),
            GivenBlocks::VecsLater(blocks) => blocks.get(block).is_ok_and(|future| cx.start_after(chain, future)),
        }
    }

    fn tell(&self, chain: u32, call: u64, cx: &ReplayCx<'_>) {
        match self {
            GivenBlocks::Now(_) => {}
            GivenBlocks::Later(all) => (0..).zip(all.iter()).for_each(|(at, one)| cx.takes(chain, call, at, one)),
            GivenBlocks::VecsLater(all) => (0..).zip(all.iter()).for_each(|(at, one)| cx.takes(chain, call, at, one)),
        }
    }

    /// Takes all blocks, if a check of them finds nothing, or none if some have not come.
    fn take_all(&mut self, check: impl FnOnce(&[Vector<T>]) -> Result<(), Error>) -> Option<Result<Came<T>, Error>> {
        if !self.have_come() {
            return None;
        }
        let blocks: Result<Vec<Vector<T>>, Error> = (0..self.len()).filter_map(|block| self.take(block)).collect();
        Some(blocks.and_then(|mut blocks| {
            check(&blocks)?;
            Ok(if blocks.len() == 1 { Came::Many(blocks.remove(0)) } else { Came::Blocks(blocks) })
        }))
    }
}

impl<V: Value + ?Sized> From<Given<V::Element>> for Contribution<V> {
    #[inline]
    fn from(given: Given<V::Element>) -> Self {
        Self { given, value: PhantomData }
    }
}

impl<T: Element> From<T> for Contribution<T> {
    #[inline]
    fn from(value: T) -> Self {
        Given::One(value).into()
    }
}
impl<T: Element> From<&TaskFuture<T>> for Contribution<T> {
    fn from(future: &TaskFuture<T>) -> Self {
        Given::OneLater(future.clone()).into()
    }
}
impl<T: Element> From<Vec<T>> for Contribution<[T]> {
    fn from(vector: Vec<T>) -> Self {
        Given::Many(vector.into()).into()
    }
}
impl<T: Element> From<Vector<T>> for Contribution<[T]> {
    fn from(vector: Vector<T>) -> Self {
        Given::Many(vector).into()
    }
}
impl<T: Element> From<&TaskFuture<Vec<T>>> for Contribution<[T]> {
    fn from(future: &TaskFuture<Vec<T>>) -> Self {
        Given::VecLater(future.clone()).into()
    }
}
impl<T: Element> From<&TaskFuture<Vector<T>>> for Contribution<[T]> {
    fn from(future: &TaskFuture<Vector<T>>) -> Self {
        Given::ManyLater(future.clone()).into()
    }
}
impl<T: Element> From<TaskFuture<Vec<T>>> for Contribution<[T]> {
    fn from(future: TaskFuture<Vec<T>>) -> Self {
        Given::VecLater(future).into()
    }
}
impl<T: Element> From<TaskFuture<Vector<T>>> for Contribution<[T]> {
    fn from(future: TaskFuture<Vector<T>>) -> Self {
        Given::ManyLater(future).into()
    }
}
impl<T: Element> Contribution<[T]> {
    /// A contribution in blocks, one for each receiver, in their order. Where all receivers get the same, it is one block.
    pub fn in_blocks(blocks: impl IntoIterator<Item = impl Into<Vector<T>>>) -> Self {
        Given::Blocks(Box::new(GivenBlocks::Now(blocks.into_iter().map(Into::into).collect()))).into()
    }
}
impl<T: Element> From<FutureMap<Vector<T>>> for Contribution<[T]> {
    fn from(blocks: FutureMap<Vector<T>>) -> Self {
        Given::Blocks(Box::new(GivenBlocks::Later(blocks))).into()
    }
}
impl<T: Element> From<FutureMap<Vec<T>>> for Contribution<[T]> {
    fn from(blocks: FutureMap<Vec<T>>) -> Self {
        Given::Blocks(Box::new(GivenBlocks::VecsLater(blocks))).into()
    }
}
impl<V: Value + ?Sized> From<Input<V::Own>> for Contribution<V> {
    fn from(input: Input<V::Own>) -> Self {
        V::given(input).into()
    }
}
impl<T: Element> From<Input<Vec<T>>> for Contribution<[T]> {
    fn from(input: Input<Vec<T>>) -> Self {
        match input {
            Input::Now(vector) => vector.into(),
            Input::Later(future) => (&future).into(),
        }
    }
}

/// What a shard has given, when it is there.
pub enum Came<T> {
    Nothing,
    One(T),
    Many(Vector<T>),
    /// A vector in pieces, one behind the other.
    Blocks(Vec<Vector<T>>),
}

impl<T> Came<T> {
    pub fn len(&self) -> usize {
        match self {
            Came::Nothing => 0,
            Came::One(_) => 1,
            _ => self.vectors().iter().map(|vector| vector.len()).sum(),
        }
    }

    pub fn vectors(&self) -> &[Vector<T>] {
        match self {
            Came::Nothing | Came::One(_) => &[],
            Came::Many(vector) => std::slice::from_ref(vector),
            Came::Blocks(vectors) => vectors,
        }
    }
}

impl<T: Element> Given<T> {
    /// Makes the runtime start the chain when the value comes. Returns false if it has come already.
    pub fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match self {
            Given::Nothing | Given::One(_) | Given::Many(_) => false,
            Given::OneLater(future) => cx.start_after(chain, future),
            Given::ManyLater(future) => cx.start_after(chain, future),
            Given::VecLater(future) => cx.start_after(chain, future),
            // Each of those that are missing, as any may be the last.
            Given::Blocks(blocks) => {
                (0..blocks.len()).filter(|&block| blocks.start_chain(block, chain, cx)).count() > 0
            }
        }
    }

    /// Tells the check for races of the futures that call number `call` takes.
    pub fn tell(&self, chain: u32, call: u64, cx: &ReplayCx<'_>) {
        match self {
            Given::Nothing | Given::One(_) | Given::Many(_) => {}
            Given::OneLater(future) => cx.takes(chain, call, 0, future),
            Given::ManyLater(future) => cx.takes(chain, call, 0, future),
            Given::VecLater(future) => cx.takes(chain, call, 0, future),
            Given::Blocks(blocks) => blocks.tell(chain, call, cx),
        }
    }

    /// Takes the value, or none if it has not come. A task's vector that nobody else holds moves. Blocks are checked.
    pub fn take(&mut self, check: impl FnOnce(&[Vector<T>]) -> Result<(), Error>) -> Option<Result<Came<T>, Error>> {
        Some(match self {
            Given::Nothing => Ok(Came::Nothing),
            Given::One(element) => Ok(Came::One(*element)),
            Given::OneLater(future) => future.input()?.map(Came::One),
            Given::Many(vector) => Ok(Came::Many(vector.clone())),
            Given::ManyLater(future) => future.take_input()?.map(Came::Many),
            Given::VecLater(future) => future.take_input()?.map(|vector| Came::Many(vector.into())),
            Given::Blocks(blocks) => blocks.take_all(check)?,
        })
    }
}

/// The future that gets a call's result.
pub enum Output<T> {
    One(Resolver<T>),
    Many(Resolver<Vector<T>>),
    /// A future for each block of the result.
    Parts(Box<Parts<T>>),
    /// The shard receives nothing, or takes its result later: then that goes to the other output.
    Over(Box<Contributed<T>>),
}

/// The futures of a result's blocks.
pub struct Parts<T> {
    /// One that has a loan is let go, as the memory of others would stay with it.
    pub futures: Vec<Option<Resolver<Vector<T>>>>,
    /// Where the blocks are, if they are parts of a whole result, and come with it.
    pub at_the_end: Option<Rc<Layout>>,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self { futures: Vec::new(), at_the_end: None }
    }
}

/// The outputs of a contribution.
pub struct Contributed<T> {
    pub over: Resolver<()>,
    pub result: Option<Output<T>>,
}

impl<T: Element> Output<T> {
    pub fn fail(&self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        match self {
            Output::One(out) => cx.resolve_rarely(chain, out, Err(error)),
            Output::Many(out) => cx.resolve_rarely(chain, out, Err(error)),
            Output::Parts(parts) => {
                // Those that have come stay: an error would be one of which the shard could not learn.
                let missing = parts.futures.iter().flatten().filter(|part| !part.is_settled());
                missing.for_each(|part| cx.settle(chain, part, Err(error.clone())));
                cx.over(chain);
            }
            Output::Over(out) => match &out.result {
                None => cx.resolve_rarely(chain, &out.over, Err(error)),
                Some(result) => {
                    result.fail(chain, error.clone(), cx);
                    cx.settle(chain, &out.over, Err(error));
                }
            },
        }
    }

    /// Whether it gets a result, and gets it whole.
    pub fn is_whole(&self) -> bool {
        match self {
            Output::One(_) | Output::Many(_) => true,
            Output::Parts(_) => false,
            Output::Over(out) => out.result.as_ref().is_some_and(Output::is_whole),
        }
    }

    pub fn look(&self, watch: &mut Watch<'_>) {
        match self {
            Output::One(out) => watch.look(out),
            Output::Many(out) => watch.look(out),
            Output::Parts(parts) => parts.futures.iter().flatten().for_each(|part| watch.look(part)),
            Output::Over(out) => {
                watch.look(&out.over);
                out.result.iter().for_each(|result| result.look(watch));
            }
        }
    }
}
