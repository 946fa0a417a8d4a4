//! The engine of a collective. To the chains that the runtime replays it adds typed values, their combination, and
//! calls. It uses only the public API of `runtime`: arrivals carry the values, so it needs no unsafe code.

use crate::gathered::Gathered;
use crate::parts::{Parts, Registers, Spare, combine_in_place, combine_into};
use crate::role::Role;
use crate::samples::Samples;
use crate::state::{Conversion, conversion, unlifted};
use crate::value::{Contribution, Output, Running, Value};
use crate::{Combine, Operator, Schedule, Step, fold_in_pairs};
use maniple_regions::{Element, Vector};
use maniple_runtime::replay::{LARGE, Replay, ReplayCx, RunningValue, Slot, Subtask, Watch};
use maniple_runtime::{Error, Lent, TaskFuture};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

/// Translates a schedule into the runtime's subtasks, for vectors of `bytes` bytes.
pub(crate) fn subtasks(schedule: &Schedule, bytes: usize) -> Vec<Subtask> {
    let awaits = if bytes > LARGE { schedule.awaits() } else { Vec::new() };
    let mut subtasks = Vec::with_capacity(schedule.steps().len());
    for (number, step) in schedule.steps().iter().enumerate() {
        let awaited = awaits.get(number).into_iter().flatten();
        subtasks.extend(awaited.map(|&update| Subtask::Await { update }));
        subtasks.push(match *step {
            Step::Update { peer, at, part } => Subtask::Update { peer, at, part },
            Step::Read { peer, at, part, combine } => Subtask::Read { peer, at, part, how: combine as u8 },
            // Nothing is there to combine, as in a barrier.
            Step::Local { .. } if bytes == 0 => continue,
            Step::Local { from, part, combine } => Subtask::Local { from, part, how: combine as u8 },
        });
    }
    let at_the_end = awaits.last().into_iter().flatten();
    subtasks.extend(at_the_end.map(|&update| Subtask::Await { update }));
    subtasks
}

/// One slot of one shard. There are many, so the state that only some need is in `aside`.
struct Chain<T> {
    /// The input of the call, or what it has combined so far.
    running: Running<T>,
    /// The future that gets the result of the call in this slot. The next call uses its memory again.
    output: Option<Output<T>>,
    /// The rarely used state, made when it is first needed.
    aside: Option<Box<Aside<T>>>,
}

const _: () = assert!(size_of::<Chain<f64>>() <= 64);

/// State that calls of one element do not need unless one waits for another in its slot.
struct Aside<T> {
    spare: Spare<T>,
    registers: Registers<T>,
    /// Calls that wait for this slot.
    queued: VecDeque<(Running<T>, Output<T>)>,
}

fn made<T>(aside: &mut Option<Box<Aside<T>>>) -> &mut Aside<T> {
    aside.get_or_insert_with(|| {
        Box::new(Aside { spare: Spare::new(), registers: Registers::new(), queued: VecDeque::new() })
    })
}

impl<T: Element> Chain<T> {
    fn new() -> Self {
        Self { running: Running::One(T::zeroed()), output: None, aside: None }
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

    /// Puts the next call that waits for this slot into it. False if there is none.
    #[inline(always)]
    fn next(&mut self) -> bool {
        let Some((input, output)) = self.aside.as_mut().and_then(|a| a.queued.pop_front()) else { return false };
        (self.running, self.output) = (input, Some(output));
        true
    }

    /// Takes the result out of the registers.
    fn take_result(&mut self, role: &Role<T>) {
        let Some(parts) = &role.parts else { return };
        let registers = &mut made(&mut self.aside).registers;
        self.running = match (&self.output, &parts.result) {
            (_, None) => Running::One(T::zeroed()),
            // The vector stays for the next call.
            (Some(output), Some((register, range))) if output.is_one() => {
                Running::One(registers.all[usize::from(*register)].as_slice()[range.start])
            }
            (_, Some(result)) => Running::many(registers.take_result(result)),
        };
        registers.drop_contribution(parts.result.as_ref().is_some_and(|(register, _)| *register == 0));
    }

    /// Ends a call with its result or an error.
    #[inline(never)]
    fn finish(&mut self, chain: u32, outcome: Result<(), Box<Error>>, shared: &Shared<T>, cx: &mut ReplayCx<'_>) {
        let role = shared.role(chain / shared.slots);
        if let Err(error) = outcome {
            return self.fail(chain, *error, cx);
        }
        if matches!(self.running, Running::Parts) {
            self.take_result(role);
        }
        if let (Some(fixed), Some(elements)) = (role.fixed, role.receives) {
            self.running = Running::Many(Arc::new(vec![fixed; elements]));
        }
        if role.alone {
            self.make_canonical(&shared.operator);
        }
        // Of the followers. Their leader ends last.
        shared.lowered.set(None);
        if let Some(output) = self.output.take() {
            self.deliver(chain, &output, shared, cx);
            self.output = Some(output);
        }
        self.over();
    }

    /// Makes a result that is one contribution what a combination would have left of it.
    #[cold]
    fn make_canonical(&mut self, operator: &Operator<T>) {
        let is_canonical = |x: &T| bytemuck::bytes_of(&operator.canonical(*x)) == bytemuck::bytes_of(x);
        if self.running.as_slice().iter().all(is_canonical) {
            return;
        }
        let all: Vec<T> = self.running.as_slice().iter().map(|x| operator.canonical(*x)).collect();
        self.running = match self.running {
            Running::One(_) => Running::One(all[0]),
            _ => Running::Many(Arc::new(all)),
        };
    }

    /// Puts away what the call has used, once its result has been delivered.
    fn over(&mut self) {
        match &self.output {
            // The next state goes where this one is.
            Some(Output::Lowered(out)) if out.is_small() => return,
            Some(Output::One(_)) => {}
            _ => self.output = None,
        }
        if let Running::Many(vector) = std::mem::replace(&mut self.running, Running::One(T::zeroed())) {
            made(&mut self.aside).spare.put(vector);
        }
    }

    /// Puts a vector of another chain in the place of the running value.
    fn replace(&mut self, vector: Vector<T>) {
        let own = std::mem::replace(&mut self.running, Running::Held(vector));
        if let (Running::Many(own), Some(aside)) = (own, &mut self.aside) {
            aside.spare.put(own);
        }
    }

    /// Gives a result to the output.
    fn deliver(&mut self, chain: u32, output: &Output<T>, shared: &Shared<T>, cx: &mut ReplayCx<'_>) {
        match (output, &mut self.running) {
            (Output::One(out), running) => cx.resolve_rarely(chain, out, Ok(running.as_slice()[0])),
            (Output::Many(out), running) => {
                let result = match std::mem::replace(running, Running::One(T::zeroed())) {
                    Running::Many(all) => {
                        if let Some(aside) = self.aside.as_mut().filter(|aside| aside.spare.lends) {
                            aside.spare.put(all.clone());
                        }
                        all.into()
                    }
                    Running::Held(some) => some,
                    other => other.as_slice().to_vec().into(),
                };
                cx.resolve_rarely(chain, out, Ok(result));
            }
            (Output::Lowered(out), running) => out.deliver(chain, running.as_slice(), shared.conversion(), cx),
            (Output::Over(out), _) => match &out.result {
                None => cx.resolve_rarely(chain, &out.over, Ok(())),
                Some(result) => {
                    self.deliver(chain, result, shared, cx);
                    cx.settle(chain, &out.over, Ok(()));
                }
            },
        }
    }

    /// Ends the call in this slot with an error, and drops its input.
    fn fail(&mut self, chain: u32, error: Error, cx: &mut ReplayCx<'_>) {
        self.running = Running::One(T::zeroed());
        if let Some(out) = self.output.take() {
            out.fail(chain, error, cx);
        }
    }
}

/// The chains of one collective on one processor.
pub struct Engine<T> {
    shared: Shared<T>,
    chains: Vec<Chain<T>>,
    /// For each shard the results that it has not asked for yet, from the first call on. Made when one is needed.
    claims: Vec<VecDeque<Box<dyn Any>>>,
}

/// What all chains of an engine share.
struct Shared<T> {
    name: String,
    operator: Operator<T>,
    /// Between elements and the states that are combined, if these are not elements.
    conversion: Option<Arc<Conversion>>,
    slots: u32,
    /// Whether every shard contributes one element and gets one, and that is the value.
    is_one: bool,
    /// Whether that element is the result as it is.
    ends_as_one: bool,
    /// What each shard does. If that is the same for all, only that of the first.
    roles: Vec<Role<T>>,
    /// The values that the operator's laws are tried on next, if they are.
    samples: Option<RefCell<Samples<T>>>,
    /// Room for the values of a group.
    gathered: Gathered<T>,
    /// The follower of the present group that has lowered the result, if one has.
    lowered: Cell<Option<u32>>,
}

impl<T: Element> Shared<T> {
    /// Tries the operator's laws if that is asked for, and if the value is combined and not only copied.
    #[inline]
    fn sample(&self, how: u8, incoming: &[T]) {
        if let Some(samples) = self.samples.as_ref().filter(|_| how != Combine::Replace as u8) {
            samples.borrow_mut().sample(&self.operator, incoming);
        }
    }
}

impl<T> Shared<T> {
    fn conversion(&self) -> &Conversion {
        self.conversion.as_deref().expect("there are states")
    }

    fn role(&self, position: u32) -> &Role<T> {
        self.roles.get(position as usize).unwrap_or(&self.roles[0])
    }

    /// The parts of a chain's steps.
    fn parts_of(&self, chain: u32) -> Option<&Parts> {
        self.role(chain / self.slots).parts.as_deref()
    }
}

impl<T: Element> Engine<T> {
    pub fn new(
        name: &str,
        (operator, laws): (Operator<T>, bool),
        conversion: Option<Arc<Conversion>>,
        slots: u32,
        mut roles: Vec<Role<T>>,
    ) -> Self {
        let chains = (0..roles.len() * slots as usize).map(|_| Chain::new()).collect();
        if roles.iter().all(|role| role.is_as(&roles[0])) {
            roles.truncate(1);
            roles.shrink_to_fit();
        }
        let one = |role: &Role<T>| role.contributes.and(role.receives).is_some() && role.whole == 1;
        let is_one = roles.len() == 1 && roles.iter().all(|role| one(role) && role.parts.is_none());
        Self {
            shared: Shared {
                name: name.into(),
                operator,
                conversion,
                slots,
                is_one,
                ends_as_one: is_one && !roles[0].alone,
                roles,
                samples: laws.then(RefCell::default),
                gathered: Gathered::new(),
                lowered: Cell::new(None),
            },
            chains,
            claims: Vec::new(),
        }
    }

    /// Whether every shard contributes one element and gets one, and that is the value.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.shared.is_one
    }

    /// The name of the collective.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What the shard at a position does.
    pub fn role(&self, position: u32) -> &Role<T> {
        self.shared.role(position)
    }

    /// Keeps the future of a result until the shard asks for it.
    pub fn keep(&mut self, position: u32, claim: Box<dyn Any>) {
        let all = self.chains.len() / self.shared.slots as usize;
        self.claims.resize_with(all, VecDeque::new);
        self.claims[position as usize].push_back(claim);
    }

    /// The future of the oldest result that the shard has not asked for, if it is of this type.
    pub fn claim<V: 'static>(&mut self, position: u32) -> Option<TaskFuture<V>> {
        let claims = self.claims.get_mut(position as usize)?;
        let claim: &TaskFuture<V> = claims.front()?.downcast_ref()?;
        let claim = claim.clone();
        claims.pop_front();
        Some(claim)
    }

    /// Takes a call of one element that has come. `at` is the shard's position and the call's number. The call runs
    /// when its slot is free.
    #[inline(always)]
    pub fn call_now(&mut self, at: (u32, u64), value: T, cx: &mut ReplayCx<'_>) -> TaskFuture<T> {
        let number = self.chain(at, cx);
        if !self.shared.is_one || !cx.is_free(number) {
            return self.call_many::<T>(at, Running::One(value), cx);
        }
        let chain = &mut self.chains[number as usize];
        let future = chain.renew_output();
        match &mut chain.running {
            // What is there now has nothing to drop.
            Running::One(last) => *last = value,
            other => *other = Running::One(value),
        }
        cx.begin(self, number);
        future
    }

    /// The same for any input, with a result of any shape.
    #[inline(never)]
    pub fn call_many<V: Value<Element = T> + ?Sized>(
        &mut self,
        at: (u32, u64),
        input: Running<T>,
        cx: &mut ReplayCx<'_>,
    ) -> TaskFuture<V::Own> {
        let (resolver, future) = TaskFuture::pending();
        self.call(at, input, V::output(resolver), cx);
        future
    }

    /// The same for any output.
    pub fn call(&mut self, at: (u32, u64), input: Running<T>, output: Output<T>, cx: &mut ReplayCx<'_>) {
        let number = self.chain(at, cx);
        self.take(number, input, output, cx);
    }

    /// Takes a call whose contribution becomes a state, and whose result is lowered.
    pub fn call_lifted<I: Value + ?Sized, O: Value + ?Sized>(
        &mut self,
        at: (u32, u64),
        input: Contribution<I>,
        cx: &mut ReplayCx<'_>,
    ) -> TaskFuture<O::Own> {
        let number = self.chain(at, cx);
        let chain = &mut self.chains[number as usize];
        if self.shared.is_one
            && cx.is_free(number)
            && let Some(room) = chain.running.room()
            && let Some(value) = I::one(&input)
            && let Some(future) = O::renewed::<I::Element, T>(&mut chain.output)
        {
            let by = conversion::<I::Element, T, O::Element>(self.shared.conversion());
            if let Err(error) = cx.guarded(number, || by.lift_into(room, std::slice::from_ref(value))) {
                chain.running = unlifted(error);
                cx.submit(self, number);
            } else {
                cx.begin(self, number);
            }
            return future;
        }
        let input = self.lifted::<I, O::Element>(number, input, cx);
        let (resolver, future) = TaskFuture::pending();
        self.take(number, input, O::lowered::<I::Element, T>(resolver), cx);
        future
    }

    /// A contribution as a state, for a call that a chain is about to get.
    pub fn lifted<I: Value + ?Sized, O: Element>(
        &mut self,
        chain: u32,
        input: Contribution<I>,
        cx: &ReplayCx<'_>,
    ) -> Running<T> {
        let by = conversion::<I::Element, T, O>(self.shared.conversion());
        let aside = &mut self.chains[chain as usize].aside;
        let lift = || I::lifted(input, by, &mut |elements| made(aside).spare.take(elements));
        cx.guarded(chain, lift).unwrap_or_else(unlifted)
    }

    /// The chain of a call.
    #[inline]
    pub fn chain(&mut self, (position, count): (u32, u64), _cx: &mut ReplayCx<'_>) -> u32 {
        // Slots are few, and a power of two nearly always.
        let mask = self.shared.slots - 1;
        let slot = if self.shared.slots & mask == 0 {
            count as u32 & mask
        } else {
            (count % u64::from(self.shared.slots)) as u32
        };
        let number = position * self.shared.slots + slot;
        #[cfg(feature = "plant")]
        _cx.reuse_early(number);
        number
    }

    /// Takes a call of a chain. It runs when the chain is free.
    pub fn take(&mut self, number: u32, input: Running<T>, output: Output<T>, cx: &mut ReplayCx<'_>) {
        let chain = &mut self.chains[number as usize];
        match cx.slot(number) {
            Slot::Free => {
                // One that a state was left in.
                if let Running::Many(last) = std::mem::replace(&mut chain.running, input) {
                    made(&mut chain.aside).spare.put(last);
                }
                chain.output = Some(output);
                cx.submit(self, number);
            }
            Slot::Failed(error) => output.fail(number, error, cx),
            Slot::Taken => {
                let queued = &mut made(&mut chain.aside).queued;
                if queued.is_empty() {
                    // Mostly it stays the only one.
                    queued.reserve_exact(1);
                }
                queued.push_back((input, output));
            }
        }
    }
}

/// The running value of one call. The runtime asks for it only while the call has not failed.
pub struct Live<'a, T> {
    chain: &'a mut Chain<T>,
    shared: &'a Shared<T>,
    number: u32,
}

impl<T> Live<'_, T> {
    fn parts(&self) -> &Parts {
        self.shared.parts_of(self.number).expect("the value has parts")
    }
}

impl<T: Element> Live<'_, T> {
    #[inline(never)]
    fn bytes_of_part(&self, part: u16) -> &[u8] {
        let (register, range) = self.parts().at(part);
        let registers = self.chain.aside.as_ref().map(|aside| &aside.registers.all[register].as_slice()[range]);
        registers.map_or(&[], bytemuck::cast_slice)
    }

    #[inline(never)]
    fn combine_elements(&mut self, part: u16, how: u8, incoming: &[T]) {
        self.shared.sample(how, incoming);
        let Chain { running, aside, .. } = &mut *self.chain;
        match running {
            Running::Parts => self.combine_part(part, how, incoming),
            running => combine(&self.shared.operator, aside, how, running, incoming),
        }
    }

    #[inline(never)]
    fn combine_part(&mut self, part: u16, how: u8, incoming: &[T]) {
        let place = self.parts().at(part);
        made(&mut self.chain.aside).registers.combine(&self.shared.operator, place, how, incoming);
    }
}

impl<T: Element> RunningValue for Live<'_, T> {
    fn size(&self, part: u16) -> usize {
        self.parts().at(part).1.len() * size_of::<T>()
    }

    #[inline]
    fn bytes(&self, part: u16) -> &[u8] {
        match &self.chain.running {
            Running::One(v) => bytemuck::bytes_of(v),
            Running::Many(v) => bytemuck::cast_slice(v),
            Running::Held(v) => bytemuck::cast_slice(v),
            Running::Parts => self.bytes_of_part(part),
            _ => &[],
        }
    }

    fn lend(&mut self, part: u16) -> Arc<dyn Lent> {
        match &self.chain.running {
            Running::Many(v) => v.clone(),
            Running::Held(v) => v.clone().into_shared().map_or_else(|some| Arc::new(some) as _, |all| all as _),
            Running::Parts => {
                let (register, range) = self.parts().at(part);
                Arc::new(made(&mut self.chain.aside).registers.all[register].lend(range))
            }
            running => Arc::new(running.as_slice().to_vec()),
        }
    }

    #[inline(always)]
    fn combine(&mut self, part: u16, how: u8, incoming: &[u8]) {
        // The value of a barrier. It has one element, which no bytes tell from none.
        if size_of::<T>() == 0 {
            return;
        }
        if let Running::One(running) = &mut self.chain.running {
            let incoming = [bytemuck::pod_read_unaligned(incoming)];
            self.shared.sample(how, &incoming);
            return combine_in_place(&self.shared.operator, how, std::slice::from_mut(running), &incoming);
        }
        match bytemuck::try_cast_slice(incoming) {
            Ok(aligned) => self.combine_elements(part, how, aligned),
            Err(_) => self.combine_elements(part, how, &bytemuck::pod_collect_to_vec::<u8, T>(incoming)),
        }
    }

    fn take_loan(&mut self, _part: u16, how: u8, lent: &Arc<dyn Lent>) -> bool {
        if how != Combine::Replace as u8 || !matches!(self.chain.running, Running::Many(_) | Running::Held(_)) {
            return false;
        }
        let lent = lent.clone() as Arc<dyn Any + Send + Sync>;
        let vector = match lent.downcast::<Vec<T>>() {
            Ok(all) => all.into(),
            Err(lent) => match lent.downcast::<Vector<T>>() {
                Ok(some) => Vector::clone(&some),
                Err(_) => return false,
            },
        };
        self.chain.replace(vector);
        true
    }

    fn combine_own(&mut self, from: u16, part: u16, how: u8) {
        let (from, range) = self.parts().at(from);
        // On loan, so that a change of the same blocks goes elsewhere.
        let held = made(&mut self.chain.aside).registers.all[from].lend(range);
        self.shared.sample(how, held.as_slice());
        self.combine_part(part, how, held.as_slice());
    }
}

/// Combines an incoming value with the running value.
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
        Running::Held(v) => {
            let spare = &mut made(aside).spare;
            spare.lends = true;
            let own = spare.elsewhere(v, |out, held| combine_into(operator, how, out, held, incoming));
            *running = Running::Many(own);
        }
        _ => {}
    }
}

fn combine_many<T: Element>(
    operator: &Operator<T>,
    aside: &mut Option<Box<Aside<T>>>,
    how: u8,
    running: &mut Arc<Vec<T>>,
    incoming: &[T],
) {
    let spare = &mut made(aside).spare;
    if running.is_empty() {
        // That of a shard that contributes nothing.
        *running = spare.take(incoming.len());
    }
    let elsewhere = |out: &mut [T], running: &[T]| combine_into(operator, how, out, running, incoming);
    spare.change(running, |running| combine_in_place(operator, how, running, incoming), elsewhere);
}

impl<T: Element> Replay for Engine<T> {
    type Running<'a> = Live<'a, T>;

    #[inline]
    fn running(&mut self, chain: u32) -> Live<'_, T> {
        Live { chain: &mut self.chains[chain as usize], shared: &self.shared, number: chain }
    }

    fn gather(&mut self, leader: u32, size: u32, apart: u32) {
        let how = Combine::IncomingIsHigher as u8;
        let of = |i: u32| (leader + i * apart) as usize;
        if self.shared.samples.is_some() {
            (0..size).for_each(|i| self.shared.sample(how, self.chains[of(i)].running.as_slice()));
        }
        let Shared { operator, gathered, .. } = &mut self.shared;
        if let Running::One(_) = self.chains[of(0)].running {
            let combined = gathered.combine(operator, 0..size, &|i| self.chains[of(i)].running.as_slice()[0]);
            self.chains[of(0)].running = Running::One(combined);
            return;
        }
        fold_in_pairs(size, |i, j| {
            let (lower, others) = self.chains.split_at_mut(of(j));
            let Chain { running, aside, .. } = &mut lower[of(i)];
            combine(operator, aside, how, running, others[0].running.as_slice());
        });
    }

    #[inline(always)]
    fn follow(&mut self, chain: u32, leader: u32, cx: &mut ReplayCx<'_>) -> bool {
        let (lower, others) = self.chains.split_at_mut(chain as usize);
        let (c, leader) = (&mut others[0], &lower[leader as usize].running);
        if let (Running::One(result), Some(Output::One(out)), true) = (leader, &c.output, self.shared.is_one) {
            cx.resolve(chain, out, Ok(*result));
            return c.next();
        }
        if let Some(Output::Lowered(out)) = &c.output {
            // The first follower has lowered the result, and the others share that.
            let first = self.shared.lowered.get().and_then(|first| lower.get(first as usize)?.output.as_ref());
            if !matches!(first, Some(Output::Lowered(first)) if out.share(chain, &**first, cx)) {
                out.deliver(chain, leader.as_slice(), self.shared.conversion(), cx);
                self.shared.lowered.set(Some(chain));
            }
            c.over();
            return c.next();
        }
        match (&mut c.running, leader) {
            (Running::One(value), Running::One(result)) => *value = *result,
            // Nobody changes it any more.
            (Running::Many(_) | Running::Held(_), Running::Many(result)) => c.replace(result.clone().into()),
            (Running::Many(_) | Running::Held(_), Running::Held(result)) => c.replace(result.clone()),
            (running, result) => {
                combine(&self.shared.operator, &mut c.aside, Combine::Replace as u8, running, result.as_slice());
            }
        }
        c.finish(chain, Ok(()), &self.shared, cx);
        c.next()
    }

    fn waits(&mut self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        self.chains[chain as usize].running.start_chain(chain, cx)
    }

    fn begin(&mut self, chain: u32, shard: impl FnOnce() -> u32) -> Result<bool, Error> {
        let c = &mut self.chains[chain as usize];
        if !c.running.is_there() {
            return Ok(false);
        }
        c.running.open()?;
        let role = self.shared.role(chain / self.shared.slots);
        if let Some(expected) = role.contributes
            && c.running.as_slice().len() != expected
        {
            return Err(Error::Misuse {
                what: format!("input of `{}` in shard {}", self.shared.name, shard()),
                expected: format!("{expected} elements"),
                came: c.running.as_slice().len().to_string(),
            });
        }
        if let Some(parts) = &role.parts {
            let contribution = std::mem::replace(&mut c.running, Running::Parts);
            made(&mut c.aside).registers.begin(parts, contribution);
        } else if role.contributes.is_none() && role.whole != 1 {
            // Its first read brings the vector, but not the number of elements that have no bytes.
            let elements = if size_of::<T>() == 0 { role.whole } else { 0 };
            c.running = Running::Many(Arc::new(vec![T::zeroed(); elements]));
        } else if let Some(aside) = &mut c.aside {
            aside.spare.lends = false;
        }
        Ok(true)
    }

    #[inline(always)]
    fn end(&mut self, chain: u32, outcome: Result<(), Box<Error>>, cx: &mut ReplayCx<'_>) -> bool {
        let c = &mut self.chains[chain as usize];
        match (&outcome, &c.running, &c.output) {
            (Ok(()), Running::One(v), Some(Output::One(out))) if self.shared.ends_as_one => {
                cx.resolve(chain, out, Ok(*v));
            }
            _ => c.finish(chain, outcome, &self.shared, cx),
        }
        c.next()
    }

    fn new_launch(&mut self, position: u32) {
        if let Some(claims) = self.claims.get_mut(position as usize) {
            claims.clear();
        }
    }

    fn results(&self, chain: u32, busy: bool, watch: &mut Watch<'_>) {
        let c = &self.chains[chain as usize];
        let queued = c.aside.iter().flat_map(|aside| aside.queued.iter().map(|(_, output)| output));
        for output in c.output.iter().filter(|_| busy).chain(queued) {
            output.look(watch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Goal, Groups, Order, Ranks, Schedules};

    #[test]
    fn memory_of_a_value_that_is_replaced_is_kept() {
        let mut chain = Chain::<u64>::new();
        let own = made(&mut chain.aside).spare.take(4);
        let place = own.as_ptr();
        chain.running = Running::Many(own);
        chain.replace(vec![1; 4].into());
        assert_eq!(chain.running.as_slice(), [1; 4]);
        assert_eq!(made(&mut chain.aside).spare.take(4).as_ptr(), place);
    }

    /// The numbers of steps and parts are small enough, also where loans of large values are awaited.
    #[test]
    fn the_most_shards_have_schedules() {
        let most = 8192;
        let all = || Ranks::all(most);
        let goals = [
            Goal::allreduce(most, 1),
            Goal::reduce_scatter(most, all(), all()),
            Goal::gather(most, all(), all()),
            Goal::gather(most, all(), Ranks::all(2)),
            Goal::all_to_all(most, all(), all()),
            Goal::scan(most, all(), all(), 1),
        ];
        let mut tried = 0;
        for goal in goals {
            for algorithm in Algorithm::all_for(&goal).filter(|algorithm| algorithm.most_for(&goal).is_some()) {
                for order in [Order::Doubling, Order::Left] {
                    let schedules = Schedules::with(&goal, algorithm, order, Groups::of(most, 1));
                    for rank in [0, most / 2 + 1, most - 1] {
                        let subtasks = subtasks(&schedules.of(rank), usize::MAX);
                        assert!(subtasks.len() <= u16::MAX.into(), "{goal}, {algorithm}: {}", subtasks.len());
                        tried += 1;
                    }
                }
            }
        }
        assert_eq!(tried, 6 * 11);
    }
}
