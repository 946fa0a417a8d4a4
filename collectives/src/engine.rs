//! What an allreduce adds to the chains that the runtime replays: typed values, their combination, and calls.

use crate::{Combine, Operator, Schedule, Step};
use maniple_regions::Element;
use maniple_runtime::replay::{Replay, ReplayCx, RunningValue, Subtask};
use maniple_runtime::{Error, Lent, Resolver, TaskFuture, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// A schedule in the runtime's words.
pub(crate) fn subtasks(schedule: &Schedule) -> Vec<Subtask> {
    let subtask = |step: &Step| match *step {
        Step::Update { peer, at } => Subtask::Update { peer, at },
        Step::Read { peer, at, combine } => Subtask::Read { peer, at, how: combine as u8 },
    };
    schedule.steps().iter().map(subtask).collect()
}

/// A value on its way through the rounds. One element needs no allocation; vectors may be lent to readers, and do not
/// change while they are.
pub(crate) enum Running<T> {
    One(T),
    Many(Arc<Vec<T>>),
}

impl<T> Running<T> {
    #[inline]
    fn as_slice(&self) -> &[T] {
        match self {
            Running::One(v) => std::slice::from_ref(v),
            Running::Many(v) => v,
        }
    }
}

/// Vectors that have been lent to readers: once these are done, the next values go into them.
struct Spare<T>(Vec<Arc<Vec<T>>>);

impl<T: Element> Spare<T> {
    /// More than this are not kept. Of large values no more are lent at a time either.
    const MOST: usize = 2;

    /// A vector that nobody else holds, with anything in it.
    fn take(&mut self, elements: usize) -> Arc<Vec<T>> {
        let free = self.0.iter_mut().position(|v| Arc::get_mut(v).is_some_and(|v| v.len() == elements));
        free.map_or_else(|| Arc::new(vec![T::zeroed(); elements]), |at| self.0.swap_remove(at))
    }

    fn put(&mut self, vector: Arc<Vec<T>>) {
        if self.0.len() < Self::MOST {
            self.0.push(vector);
        }
    }

    /// `running = f(running)`: in its place if nobody else holds it, or else in another.
    fn change(
        &mut self,
        running: &mut Arc<Vec<T>>,
        in_place: impl FnOnce(&mut [T]),
        elsewhere: impl FnOnce(&mut [T], &[T]),
    ) {
        if let Some(own) = Arc::get_mut(running) {
            return in_place(own);
        }
        let mut next = self.take(running.len());
        elsewhere(Arc::get_mut(&mut next).expect("nobody else holds it"), running);
        self.put(std::mem::replace(running, next));
    }
}

/// Where a call's value comes from.
enum Input<T> {
    Now(Running<T>),
    One(TaskFuture<T>),
    Many(TaskFuture<Vec<T>>),
}

impl<T: Element> Input<T> {
    fn one(value: Value<T>) -> Self {
        match value {
            Value::Now(v) => Input::Now(Running::One(v)),
            Value::Later(f) => Input::One(f),
        }
    }

    fn many(value: Value<Vec<T>>) -> Self {
        match value {
            Value::Now(v) => Input::Now(Running::Many(Arc::new(v))),
            Value::Later(f) => Input::Many(f),
        }
    }

    /// Has the chain started when the input is there; false when it is there already.
    fn start_chain(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match self {
            Input::Now(_) => false,
            Input::One(f) => cx.start_after(chain, f),
            Input::Many(f) => cx.start_after(chain, f),
        }
    }

    fn is_there(&self) -> bool {
        match self {
            Input::Now(_) => true,
            Input::One(f) => f.is_settled(),
            Input::Many(f) => f.is_settled(),
        }
    }

    fn open(self) -> Result<Running<T>, Error> {
        match self {
            Input::Now(running) => Ok(running),
            Input::One(f) => value_of(&f).map(Running::One),
            Input::Many(f) => value_of(&f).map(|v| Running::Many(Arc::new(v))),
        }
    }
}

/// Where a call's result goes.
enum Output<T> {
    One(Resolver<T>),
    Many(Resolver<Vec<T>>),
}

impl<T: Element> Output<T> {
    fn fail(&self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        match self {
            Output::One(out) => cx.resolve(chain, out, Err(error)),
            Output::Many(out) => cx.resolve(chain, out, Err(error)),
        }
    }
}

enum State<T> {
    /// No call in this slot.
    Idle,
    /// A call waits for its input.
    Input(Input<T>),
    /// A call runs.
    Running,
    /// A call's input was refused.
    Refused,
    /// A shard that takes part is lost; calls fail at once.
    Failed(Box<Error>),
}

/// One slot of one shard. There are many: what only some use is apart.
struct Chain<T> {
    state: State<T>,
    /// What the call that runs has combined so far.
    running: Running<T>,
    /// Where the result of the call in this slot goes. It is kept for the next, which uses the memory of the future again.
    output: Option<Output<T>>,
    /// Made when it is first needed.
    aside: Option<Box<Aside<T>>>,
}

const _: () = assert!(size_of::<Chain<f64>>() <= 72);

/// What calls of one element do without, as long as none waits for another in its slot.
struct Aside<T> {
    spare: Spare<T>,
    /// Calls that wait for this slot.
    queued: VecDeque<(Input<T>, Output<T>)>,
}

fn made<T>(aside: &mut Option<Box<Aside<T>>>) -> &mut Aside<T> {
    aside.get_or_insert_with(|| Box::new(Aside { spare: Spare(Vec::new()), queued: VecDeque::new() }))
}

impl<T: Element> Chain<T> {
    fn new() -> Self {
        Self { state: State::Idle, running: Running::One(T::zeroed()), output: None, aside: None }
    }

    /// A future for the result of the next call.
    #[inline]
    fn renew_output(&mut self) -> TaskFuture<T> {
        if let Some(Output::One(out)) = &mut self.output {
            return out.renew();
        }
        let (resolver, future) = TaskFuture::pending();
        self.output = Some(Output::One(resolver));
        future
    }

    /// Ends the call that runs.
    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        if let Some(out) = self.output.take() {
            out.fail(chain, error, cx);
        }
    }
}

/// The chains of one allreduce on one processor.
pub(crate) struct Engine<T> {
    name: String,
    operator: Operator<T>,
    elements: usize,
    slots: u32,
    chains: Vec<Chain<T>>,
}

impl<T: Element> Engine<T> {
    pub fn new(name: &str, operator: Operator<T>, elements: usize, slots: u32, shards: u32) -> Self {
        let chains = (0..shards * slots).map(|_| Chain::new()).collect();
        Self { name: name.into(), operator, elements, slots, chains }
    }

    /// Takes call number `count` of the shard at `position`, of one element; it runs when its slot is free and its input
    /// there.
    #[inline]
    pub fn call_one(&mut self, at: (u32, u64), input: Value<T>, cx: &mut ReplayCx<'_>) -> TaskFuture<T> {
        let number = self.chain(at, cx);
        let chain = &mut self.chains[number as usize];
        match (&chain.state, input) {
            // The usual call.
            (State::Idle, Value::Now(v)) if self.elements == 1 => {
                let future = chain.renew_output();
                (chain.running, chain.state) = (Running::One(v), State::Running);
                cx.begin(self, number);
                future
            }
            (_, input) => {
                let (resolver, future) = TaskFuture::pending();
                self.take(number, Input::one(input), Output::One(resolver), cx);
                future
            }
        }
    }

    /// The same for a call of any number of elements.
    pub fn call_many(&mut self, at: (u32, u64), input: Value<Vec<T>>, cx: &mut ReplayCx<'_>) -> TaskFuture<Vec<T>> {
        let number = self.chain(at, cx);
        let (resolver, future) = TaskFuture::pending();
        self.take(number, Input::many(input), Output::Many(resolver), cx);
        future
    }

    #[inline]
    fn chain(&mut self, (position, count): (u32, u64), _cx: &mut ReplayCx<'_>) -> u32 {
        // Slots are few, and a power of two nearly always.
        let slot = if self.slots.is_power_of_two() {
            count as u32 & (self.slots - 1)
        } else {
            (count % u64::from(self.slots)) as u32
        };
        let number = position * self.slots + slot;
        #[cfg(feature = "plant")]
        if _cx.reuses_early(number) {
            self.chains[number as usize].state = State::Idle;
        }
        number
    }

    fn take(&mut self, number: u32, input: Input<T>, output: Output<T>, cx: &mut ReplayCx<'_>) {
        let chain = &mut self.chains[number as usize];
        match &chain.state {
            State::Idle => {
                let waits = input.start_chain(number, cx);
                (chain.state, chain.output) = (State::Input(input), Some(output));
                if !waits {
                    cx.run(self, number);
                }
            }
            State::Failed(e) => output.fail(number, (**e).clone(), cx),
            _ => made(&mut chain.aside).queued.push_back((input, output)),
        }
    }
}

fn value_of<V: Clone + 'static>(future: &TaskFuture<V>) -> Result<V, Error> {
    let value = future.peek(|outcome| outcome.cloned().map_err(Clone::clone));
    value.unwrap_or_else(|| Err(Error::Stopped { what: "a collective's input".into() }))
}

/// The running value of one call, with what combines it.
pub(crate) struct Live<'a, T> {
    /// Whether the call has a value: not where it has failed from the start.
    has_value: bool,
    running: &'a mut Running<T>,
    aside: &'a mut Option<Box<Aside<T>>>,
    operator: &'a Operator<T>,
}

impl<T: Element> RunningValue for Live<'_, T> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        if self.has_value { bytemuck::cast_slice(self.running.as_slice()) } else { &[] }
    }

    fn lend(&mut self) -> Arc<dyn Lent> {
        match self.running {
            Running::One(v) => Arc::new(vec![*v]),
            Running::Many(v) => v.clone(),
        }
    }

    #[inline]
    fn combine(&mut self, how: u8, incoming: &[u8]) {
        if !self.has_value {
            return;
        }
        let (one, many);
        let incoming: &[T] = if let Running::One(_) = self.running {
            one = [bytemuck::pod_read_unaligned(incoming)];
            &one
        } else if let Ok(aligned) = bytemuck::try_cast_slice(incoming) {
            aligned
        } else {
            many = bytemuck::pod_collect_to_vec::<u8, T>(incoming);
            &many
        };
        combine(self.operator, self.aside, how, self.running, incoming);
    }
}

/// Combines what came with the running value.
#[inline]
fn combine<T: Element>(
    operator: &Operator<T>,
    aside: &mut Option<Box<Aside<T>>>,
    how: u8,
    running: &mut Running<T>,
    incoming: &[T],
) {
    match running {
        Running::One(v) => combine_in_place(operator, how, std::slice::from_mut(v), incoming),
        Running::Many(v) => combine_many(operator, aside, how, v, incoming),
    }
}

#[inline]
fn combine_in_place<T: Element>(operator: &Operator<T>, how: u8, running: &mut [T], incoming: &[T]) {
    if how == Combine::IncomingIsHigher as u8 {
        operator.fold_higher(running, incoming);
    } else if how == Combine::IncomingIsLower as u8 {
        operator.fold_lower(running, incoming);
    } else {
        running.copy_from_slice(incoming);
    }
}

fn combine_many<T: Element>(
    operator: &Operator<T>,
    aside: &mut Option<Box<Aside<T>>>,
    how: u8,
    running: &mut Arc<Vec<T>>,
    incoming: &[T],
) {
    let elsewhere = |out: &mut [T], running: &[T]| {
        if how == Combine::IncomingIsHigher as u8 {
            operator.fold_into(out, running, incoming);
        } else if how == Combine::IncomingIsLower as u8 {
            operator.fold_into(out, incoming, running);
        } else {
            out.copy_from_slice(incoming);
        }
    };
    made(aside).spare.change(running, |running| combine_in_place(operator, how, running, incoming), elsewhere);
}

impl<T: Element> Replay for Engine<T> {
    type Running<'a> = Live<'a, T>;

    #[inline]
    fn running(&mut self, chain: u32) -> Live<'_, T> {
        let Chain { state, running, aside, .. } = &mut self.chains[chain as usize];
        Live { has_value: matches!(state, State::Running), running, aside, operator: &self.operator }
    }

    #[inline]
    fn join(&mut self, chain: u32, higher: u32) {
        let (lower, others) = self.chains.split_at_mut(higher as usize);
        let Chain { running, aside, .. } = &mut lower[chain as usize];
        let incoming = others[0].running.as_slice();
        combine(&self.operator, aside, Combine::IncomingIsHigher as u8, running, incoming);
    }

    #[inline]
    fn follow(&mut self, chain: u32, leader: u32) {
        let (lower, others) = self.chains.split_at_mut(chain as usize);
        let Chain { running, aside, .. } = &mut others[0];
        let result = lower[leader as usize].running.as_slice();
        combine(&self.operator, aside, Combine::Replace as u8, running, result);
    }

    fn begin(&mut self, chain: u32, shard: impl FnOnce() -> u32) -> Result<bool, Error> {
        let c = &mut self.chains[chain as usize];
        if !matches!(&c.state, State::Input(input) if input.is_there()) {
            return Ok(false);
        }
        let State::Input(input) = std::mem::replace(&mut c.state, State::Idle) else { return Ok(false) };
        let refused = match input.open() {
            Ok(running) if running.as_slice().len() == self.elements => {
                (c.running, c.state) = (running, State::Running);
                return Ok(true);
            }
            Ok(running) => Error::Misuse {
                what: format!("input of `{}` in shard {}", self.name, shard()),
                expected: format!("{} elements", self.elements),
                came: format!("{}", running.as_slice().len()),
            },
            Err(e) => e,
        };
        c.state = State::Refused;
        Err(refused)
    }

    #[inline]
    fn end(&mut self, chain: u32, outcome: Result<(), Box<Error>>, cx: &mut ReplayCx<'_>) {
        let c = &mut self.chains[chain as usize];
        c.state = State::Idle;
        match (outcome, &mut c.running, &c.output) {
            (Ok(()), Running::One(v), Some(Output::One(out))) => cx.resolve(chain, out, Ok(*v)),
            (Ok(()), Running::Many(v), Some(Output::Many(out))) => {
                // A last reader may still hold it.
                made(&mut c.aside).spare.change(v, |_| {}, |out, v| out.copy_from_slice(v));
                if let Running::Many(v) = std::mem::replace(&mut c.running, Running::One(T::zeroed())) {
                    cx.resolve(chain, out, Ok(Arc::into_inner(v).expect("nobody else holds it")));
                }
                c.output = None;
            }
            (Err(e), ..) => c.fail(chain, *e, cx),
            (Ok(()), ..) => unreachable!("values and results are of one kind"),
        }
        if let Some((input, output)) = c.aside.as_mut().and_then(|a| a.queued.pop_front()) {
            // `begin` takes it if its input is there; otherwise the input starts the chain.
            let _ = input.start_chain(chain, cx);
            (c.state, c.output) = (State::Input(input), Some(output));
        }
    }

    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        let c = &mut self.chains[chain as usize];
        match std::mem::replace(&mut c.state, State::Failed(Box::new(error.clone()))) {
            State::Input(_) | State::Running | State::Refused => c.fail(chain, error.clone(), cx),
            State::Idle | State::Failed(_) => {}
        }
        for (_, output) in c.aside.take().into_iter().flat_map(|aside| aside.queued) {
            output.fail(chain, error.clone(), cx);
        }
    }

    fn awaits_input(&self, chain: u32) -> bool {
        matches!(self.chains[chain as usize].state, State::Input(_))
    }
}
