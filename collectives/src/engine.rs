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
    /// More than this are not lent at a time, by the runtime's rule for large values.
    const MOST: usize = 3;

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

/// One call: where its input comes from and its result goes.
pub(crate) enum Call<T> {
    One(Value<T>, Resolver<T>),
    Many(Value<Vec<T>>, Resolver<Vec<T>>),
}

impl<T: Element> Call<T> {
    /// Has the chain started when the input is there; false when it is there already.
    fn start_after_input(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match self {
            Call::One(Value::Later(f), _) => cx.start_after(chain, f),
            Call::Many(Value::Later(f), _) => cx.start_after(chain, f),
            _ => false,
        }
    }

    fn has_input(&self) -> bool {
        match self {
            Call::One(Value::Later(f), _) => f.is_settled(),
            Call::Many(Value::Later(f), _) => f.is_settled(),
            _ => true,
        }
    }

    fn open(self) -> (Result<Running<T>, Error>, Output<T>) {
        match self {
            Call::One(value, out) => (take(value).map(Running::One), Output::One(out)),
            Call::Many(value, out) => (take(value).map(|v| Running::Many(Arc::new(v))), Output::Many(out)),
        }
    }

    fn output(self) -> Output<T> {
        match self {
            Call::One(_, out) => Output::One(out),
            Call::Many(_, out) => Output::Many(out),
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
    Input(Call<T>),
    /// A call runs.
    Running,
    /// A call's input was refused.
    Refused,
    /// A shard that takes part is lost; calls fail at once.
    Failed(Box<Error>),
}

/// One slot of one shard.
struct Chain<T> {
    state: State<T>,
    /// What the call that runs has combined so far.
    running: Running<T>,
    spare: Spare<T>,
    /// Where its result goes. It is kept for the next call, which uses the memory of the future again.
    output: Option<Output<T>>,
    /// Calls that wait for this slot.
    queued: VecDeque<Call<T>>,
}

impl<T: Element> Chain<T> {
    fn new() -> Self {
        let (running, spare) = (Running::One(T::zeroed()), Spare(Vec::new()));
        Self { state: State::Idle, running, spare, output: None, queued: VecDeque::new() }
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
                self.take(number, Call::One(input, resolver), cx);
                future
            }
        }
    }

    /// The same for a call of any number of elements.
    pub fn call_many(&mut self, at: (u32, u64), input: Value<Vec<T>>, cx: &mut ReplayCx<'_>) -> TaskFuture<Vec<T>> {
        let number = self.chain(at, cx);
        let (resolver, future) = TaskFuture::pending();
        self.take(number, Call::Many(input, resolver), cx);
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

    fn take(&mut self, number: u32, call: Call<T>, cx: &mut ReplayCx<'_>) {
        let chain = &mut self.chains[number as usize];
        match &chain.state {
            State::Idle => {
                let waits = call.start_after_input(number, cx);
                chain.state = State::Input(call);
                if !waits {
                    cx.run(self, number);
                }
            }
            State::Failed(e) => call.output().fail(number, (**e).clone(), cx),
            _ => chain.queued.push_back(call),
        }
    }
}

fn take<V: Clone + 'static>(value: Value<V>) -> Result<V, Error> {
    match value {
        Value::Now(v) => Ok(v),
        Value::Later(f) => f
            .peek(|outcome| outcome.cloned().map_err(Clone::clone))
            .unwrap_or_else(|| Err(Error::Stopped { what: "a collective's input".into() })),
    }
}

/// The running value of one call, with what combines it.
pub(crate) struct Live<'a, T> {
    /// Whether the call has a value: not where it has failed from the start.
    has_value: bool,
    running: &'a mut Running<T>,
    spare: &'a mut Spare<T>,
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
        match self.running {
            Running::One(v) => {
                combine(self.operator, how, std::slice::from_mut(v), &[bytemuck::pod_read_unaligned(incoming)])
            }
            Running::Many(v) => combine_many(self.operator, self.spare, how, v, incoming),
        }
    }
}

/// Combines what came with the running value, in its place.
#[inline]
fn combine<T: Element>(operator: &Operator<T>, how: u8, running: &mut [T], incoming: &[T]) {
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
    spare: &mut Spare<T>,
    how: u8,
    running: &mut Arc<Vec<T>>,
    incoming: &[u8],
) {
    let collected: Vec<T>;
    let incoming = match bytemuck::try_cast_slice(incoming) {
        Ok(aligned) => aligned,
        Err(_) => {
            collected = bytemuck::pod_collect_to_vec(incoming);
            &collected
        }
    };
    let elsewhere = |out: &mut [T], running: &[T]| {
        if how == Combine::IncomingIsHigher as u8 {
            operator.fold_into(out, running, incoming);
        } else if how == Combine::IncomingIsLower as u8 {
            operator.fold_into(out, incoming, running);
        } else {
            out.copy_from_slice(incoming);
        }
    };
    spare.change(running, |running| combine(operator, how, running, incoming), elsewhere);
}

impl<T: Element> Replay for Engine<T> {
    type Running<'a> = Live<'a, T>;

    #[inline]
    fn running(&mut self, chain: u32) -> Live<'_, T> {
        let Chain { state, running, spare, .. } = &mut self.chains[chain as usize];
        Live { has_value: matches!(state, State::Running), running, spare, operator: &self.operator }
    }

    #[inline]
    fn join(&mut self, chain: u32, higher: u32) {
        let (lower, others) = self.chains.split_at_mut(higher as usize);
        let Chain { running, spare, .. } = &mut lower[chain as usize];
        let (how, incoming) = (Combine::IncomingIsHigher as u8, others[0].running.as_slice());
        match running {
            Running::One(v) => combine(&self.operator, how, std::slice::from_mut(v), incoming),
            Running::Many(v) => combine_many(&self.operator, spare, how, v, bytemuck::cast_slice(incoming)),
        }
    }

    #[inline]
    fn follow(&mut self, chain: u32, leader: u32) {
        let (lower, others) = self.chains.split_at_mut(chain as usize);
        let Chain { running, spare, .. } = &mut others[0];
        let (how, result) = (Combine::Replace as u8, lower[leader as usize].running.as_slice());
        match running {
            Running::One(v) => combine(&self.operator, how, std::slice::from_mut(v), result),
            Running::Many(v) => combine_many(&self.operator, spare, how, v, bytemuck::cast_slice(result)),
        }
    }

    fn begin(&mut self, chain: u32, shard: impl FnOnce() -> u32) -> Result<bool, Error> {
        let c = &mut self.chains[chain as usize];
        match &c.state {
            State::Running => return Ok(true),
            State::Input(call) if call.has_input() => {}
            _ => return Ok(false),
        }
        let State::Input(call) = std::mem::replace(&mut c.state, State::Idle) else { return Ok(false) };
        let (running, output) = call.open();
        c.output = Some(output);
        let refused = match running {
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
                c.spare.change(v, |_| {}, |out, v| out.copy_from_slice(v));
                let result = Arc::into_inner(std::mem::take(v)).expect("nobody else holds it");
                cx.resolve(chain, out, Ok(result));
                c.output = None;
            }
            (Err(e), ..) => c.fail(chain, *e, cx),
            (Ok(()), ..) => unreachable!("values and results are of one kind"),
        }
        if let Some(call) = c.queued.pop_front() {
            // `begin` takes it if its input is there; otherwise the input starts the chain.
            let _ = call.start_after_input(chain, cx);
            c.state = State::Input(call);
        }
    }

    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        let c = &mut self.chains[chain as usize];
        match std::mem::replace(&mut c.state, State::Failed(Box::new(error.clone()))) {
            State::Input(call) => call.output().fail(chain, error.clone(), cx),
            State::Running | State::Refused => c.fail(chain, error.clone(), cx),
            State::Idle | State::Failed(_) => {}
        }
        for call in std::mem::take(&mut c.queued) {
            call.output().fail(chain, error.clone(), cx);
        }
    }

    fn awaits_input(&self, chain: u32) -> bool {
        matches!(self.chains[chain as usize].state, State::Input(_))
    }
}
