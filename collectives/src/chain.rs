//! One slot of one shard: its call, the running value, and the steps that change it.

use crate::Combine;
use crate::blocks::{Blocks, Shown};
use crate::fold::combine_in_place;
use crate::reduction::Reduction;
use crate::registers::{Registers, write_pieces};
use crate::role::Place;
use crate::role::Role;
use crate::shared::Shared;
use crate::value::{Came, Given, Output};
use bytemuck::Zeroable;
use maniple_regions::{Operator, Vector};
use maniple_runtime::replay::{ReplayCx, RunningValue};
use maniple_runtime::{Error, Lent, Payload, vector_in};
use std::collections::VecDeque;
use std::sync::Arc;

/// There are many, so the state that only some need is in `aside`.
pub struct Chain<By: Reduction> {
    /// The input of the call, or what it has combined so far.
    pub running: Running<By>,
    /// The future that gets the result of the call in this slot. The next call uses its memory again.
    pub output: Option<Output<By::Out>>,
    /// The rarely used state, made when it is first needed.
    aside: Option<Box<Aside<By>>>,
}

const _: () = assert!(size_of::<Chain<Operator<f64>>>() <= 64);

/// The value of a call, from its input to its result.
pub enum Running<By: Reduction> {
    /// One element needs no memory of its own.
    One(By::Element),
    /// The value is in the chain's registers.
    Registers,
    /// What was given, which may not be there yet.
    Later(Given<By::In>),
    /// The blocks of a call in parts.
    Parts(Box<Blocks<By>>),
}

/// State that calls of one element do not need unless one waits for another in its slot.
struct Aside<By: Reduction> {
    registers: Registers<By::Element>,
    /// Calls that wait for this slot.
    queued: VecDeque<Queued<By::In, By::Out>>,
}

type Queued<I, O> = (Given<I>, Output<O>);

fn made<By: Reduction>(aside: &mut Option<Box<Aside<By>>>) -> &mut Aside<By> {
    aside.get_or_insert_with(|| Box::new(Aside { registers: Registers::new(), queued: VecDeque::new() }))
}

/// A state of more bytes is kept where it is, and not moved from hand to hand.
const LARGE_STATE: usize = 32;

impl<By: Reduction> Chain<By> {
    pub const fn new() -> Self {
        Self { running: Running::Registers, output: None, aside: None }
    }

    pub fn registers(&mut self) -> &mut Registers<By::Element> {
        &mut made(&mut self.aside).registers
    }

    /// Begins a call in parts.
    pub fn begin_in_parts(&mut self, mut blocks: Box<Blocks<By>>, given: Given<By::In>) {
        blocks.begin(given, self.output.as_ref().is_some_and(Output::is_whole));
        self.running = Running::Parts(blocks);
    }

    /// Puts a call aside until the slot is free.
    pub fn queue(&mut self, given: Given<By::In>, output: Output<By::Out>) {
        let queued = &mut made(&mut self.aside).queued;
        if queued.is_empty() {
            // Mostly it stays the only one.
            queued.reserve_exact(1);
        }
        queued.push_back((given, output));
    }

    /// The outputs of the calls that wait for this slot.
    pub fn queued(&self) -> impl Iterator<Item = &Output<By::Out>> {
        self.aside.iter().flat_map(|aside| aside.queued.iter().map(|(_, output)| output))
    }

    /// Puts the next call that waits for this slot into it. False if there is none.
    #[inline(always)]
    pub fn next(&mut self) -> bool {
        let Some((given, output)) = self.aside.as_mut().and_then(|a| a.queued.pop_front()) else { return false };
        (self.running, self.output) = (Running::Later(given), Some(output));
        true
    }

    /// Makes an input that has come the running value, in the registers if that is not one element.
    pub fn begin(&mut self, came: Came<By::In>, role: &Role<By::Element>, by: &By) {
        let is_one = role.is_one() && (By::PLAIN || size_of::<By::Element>() <= LARGE_STATE);
        match came {
            Came::Nothing if is_one => self.running = Running::One(By::Element::zeroed()),
            Came::One(element) if is_one => self.running = Running::One(by.lift(&element)),
            Came::Nothing => self.registers().begin(role, None),
            Came::One(element) => {
                self.registers().begin_with(role, |own| by.lift_into(own, std::slice::from_ref(&element)));
            }
            Came::Many(vector) => match By::unlifted(vector) {
                Ok(vector) => self.registers().begin(role, Some(vector)),
                Err(elements) => self.registers().begin_with(role, |own| by.lift_into(own, &elements)),
            },
            Came::Blocks(blocks) => self.registers().begin_with(role, |own| {
                write_pieces(own, &blocks, |own, block| by.lift_into(own, block));
            }),
        }
    }

    /// The running value, which is one element.
    #[inline]
    pub fn element(&self) -> By::Element {
        match &self.running {
            Running::One(own) => *own,
            _ => self.first_in_registers(),
        }
    }

    // Apart, so that callers inline the rest.
    #[cold]
    fn first_in_registers(&self) -> By::Element {
        self.in_registers((0, 0..1))[0]
    }

    /// The result. If the value is one vector or one element, it is the running value, too.
    #[inline]
    pub fn result(&self, role: &Role<By::Element>) -> &[By::Element] {
        match &self.running {
            Running::One(own) => std::slice::from_ref(own),
            Running::Parts(blocks) => blocks.joined(),
            _ => self.in_registers(role.result()),
        }
    }

    fn in_registers(&self, place: Place) -> &[By::Element] {
        self.aside.as_ref().map_or(&[], |aside| aside.registers.get(place))
    }

    /// Sets a result that is not made by combination: the result of nothing, or of one contribution, which becomes what a
    /// combination would have left of it.
    #[cold]
    fn set_result(&mut self, role: &Role<By::Element>, operator: &Operator<By::Element>) {
        let f = |element| role.fixed.unwrap_or_else(|| operator.canonical(element));
        match &mut self.running {
            Running::One(own) => *own = f(*own),
            _ => {
                let registers = self.registers();
                let is_set = |x: &By::Element| bytemuck::bytes_of(&f(*x)) == bytemuck::bytes_of(x);
                let result = registers.get(role.result());
                if role.receives.is_some_and(|elements| elements != result.len()) || !result.iter().all(is_set) {
                    registers.map(role.result(), f);
                }
            }
        }
    }

    /// Ends a call with its result or an error.
    #[inline(never)]
    pub fn finish(&mut self, chain: u32, outcome: Result<(), Box<Error>>, shared: &Shared<By>, cx: &mut ReplayCx<'_>) {
        let role = shared.role_of_chain(chain);
        match outcome.and_then(|()| self.join_parts()) {
            Ok(()) => {
                if role.alone || role.fixed.is_some() {
                    self.set_result(role, shared.operator());
                }
                if let Some(output) = self.output.take() {
                    deliver(chain, &output, (chain, self), shared, cx);
                    self.output = Some(output);
                }
                self.over(chain, role.result().0 == 0, shared);
            }
            Err(error) => {
                self.running = Running::Registers;
                if let Some(output) = self.output.take() {
                    output.fail(chain, *error, cx);
                }
                self.over(chain, false, shared);
            }
        }
        // The followers of a group end before their leader.
        shared.group_over();
    }

    /// Ends a call with the result that the leader of its group has.
    #[inline(never)]
    pub fn follow(&mut self, chain: u32, leader: (u32, &mut Self), shared: &Shared<By>, cx: &mut ReplayCx<'_>) {
        if let Some(output) = self.output.take() {
            deliver(chain, &output, leader, shared, cx);
            self.output = Some(output);
        }
        self.over(chain, false, shared);
    }

    /// Puts the parts of a call together, if its result is to be whole.
    fn join_parts(&mut self) -> Result<(), Box<Error>> {
        match &mut self.running {
            Running::Parts(blocks) if blocks.joins() => blocks.join(),
            _ => Ok(()),
        }
    }

    /// Shows the parts of the result that have come since the last time.
    pub fn show(&mut self, chain: u32, shared: &Shared<By>, cx: &mut ReplayCx<'_>) {
        let (Running::Parts(blocks), Some(Output::Parts(parts))) = (&mut self.running, &mut self.output) else {
            return;
        };
        while let Some(Shown { part, is_copy, came }) = blocks.show_next() {
            let (part, came) = (part as usize, came.map(|vector| shared.by.lower_all(vector)));
            cx.settle_part(chain, (&parts.futures, part), || blocks.origin(part), came);
            if !is_copy {
                parts.futures[part] = None;
            }
        }
    }

    /// Puts away what the call has used, once its result has been delivered.
    fn over(&mut self, chain: u32, has_result: bool, shared: &Shared<By>) {
        if matches!(self.running, Running::Parts(_)) {
            self.over_in_parts(chain, shared);
        }
        if !matches!(self.output, Some(Output::One(_))) {
            self.output = None;
        }
        if let (Running::Registers, Some(aside)) = (&self.running, &mut self.aside) {
            aside.registers.end(has_result);
        }
    }

    /// Keeps the memory of a call in parts.
    #[inline(never)]
    fn over_in_parts(&mut self, chain: u32, shared: &Shared<By>) {
        if let Running::Parts(mut blocks) = std::mem::replace(&mut self.running, Running::Registers) {
            blocks.end();
            shared.keep_blocks(chain, blocks);
        }
        if let Some(Output::Parts(_)) = self.output
            && let Some(Output::Parts(parts)) = self.output.take()
        {
            shared.keep_parts(chain, parts);
        }
    }

    /// The result as a vector. That of another chain is shared with it.
    fn result_vector(&mut self, role: &Role<By::Element>, is_own: bool) -> Vector<By::Element> {
        match &mut self.running {
            Running::One(element) => vec![*element].into(),
            Running::Parts(blocks) => blocks.take_joined(),
            _ if is_own => self.registers().take_result(role.result()),
            _ => self.registers().hold(role.result()),
        }
    }
}

/// Gives the result of a chain, which has the number `from`, to the output of that chain or of one that follows it.
fn deliver<By: Reduction>(
    chain: u32,
    output: &Output<By::Out>,
    (from, of): (u32, &mut Chain<By>),
    shared: &Shared<By>,
    cx: &mut ReplayCx<'_>,
) {
    let (role, is_own) = (shared.role_of_chain(from), chain == from);
    match output {
        Output::One(out) => {
            let result = shared.lower(chain, &of.result(role)[0], cx);
            cx.resolve_rarely(chain, out, result);
        }
        Output::Many(out) => {
            let result = shared.lower_all(chain, || of.result_vector(role, is_own), cx);
            cx.resolve_rarely(chain, out, result);
        }
        Output::Parts(parts) => {
            // Otherwise each part was settled when it came.
            if let Some(layout) = &parts.at_the_end {
                let whole = shared.by.lower_all(of.result_vector(role, is_own));
                let (register, blocks) = layout.result();
                for (part, block) in blocks.clone().enumerate() {
                    let place = layout.place(register, &blocks, block, whole.len());
                    cx.settle_part(chain, (&parts.futures, part), || layout.origin(part), Ok(whole.slice(place)));
                }
            }
            cx.over(chain);
        }
        Output::Over(out) => match &out.result {
            None => {
                let failed = if let Running::Parts(blocks) = &of.running { blocks.failed() } else { None };
                cx.resolve_rarely(chain, &out.over, failed.map_or(Ok(()), Err));
            }
            Some(result) => {
                deliver(chain, result, (from, of), shared, cx);
                cx.settle(chain, &out.over, Ok(()));
            }
        },
    }
}

/// The running value of one call. The runtime asks for it only while the call has not failed.
pub struct Live<'a, By: Reduction> {
    pub chain: &'a mut Chain<By>,
    pub shared: &'a Shared<By>,
    pub number: u32,
}

impl<By: Reduction> Live<'_, By> {
    fn role(&self) -> &Role<By::Element> {
        self.shared.role_of_chain(self.number)
    }

    #[inline]
    fn blocks(&mut self) -> Option<&mut Blocks<By>> {
        if let Running::Parts(blocks) = &mut self.chain.running { Some(blocks) } else { None }
    }

    #[inline(never)]
    fn bytes_in_registers(&self, part: u16) -> &[u8] {
        bytemuck::cast_slice(self.chain.in_registers(self.role().at(part)))
    }

    #[inline(never)]
    fn combine_elements(&mut self, part: u16, how: u8, incoming: &[By::Element]) {
        self.shared.sample(how, incoming);
        let place = self.role().at(part);
        self.chain.registers().combine(self.shared.operator(), place, how, incoming);
    }
}

impl<By: Reduction> RunningValue for Live<'_, By> {
    fn size(&self, part: u16) -> usize {
        self.role().at(part).1.len() * size_of::<By::Element>()
    }

    #[inline]
    fn bytes(&self, part: u16) -> &[u8] {
        match &self.chain.running {
            Running::One(own) => bytemuck::bytes_of(own),
            _ => self.bytes_in_registers(part),
        }
    }

    fn lend(&mut self, part: u16) -> Arc<dyn Lent> {
        let place = self.role().at(part);
        match &self.chain.running {
            Running::One(own) => Arc::new(vec![*own]),
            _ => self.chain.registers().lend(place),
        }
    }

    #[inline(always)]
    fn combine(&mut self, part: u16, how: u8, incoming: &[u8]) {
        // The value of a barrier. It has one element, which no bytes tell from none.
        if size_of::<By::Element>() == 0 {
            return;
        }
        if let Running::One(running) = &mut self.chain.running {
            let incoming = [bytemuck::pod_read_unaligned(incoming)];
            self.shared.sample(how, &incoming);
            return combine_in_place(self.shared.operator(), how, std::slice::from_mut(running), &incoming);
        }
        match bytemuck::try_cast_slice(incoming) {
            Ok(aligned) => self.combine_elements(part, how, aligned),
            Err(_) => self.combine_elements(part, how, &bytemuck::pod_collect_to_vec::<u8, By::Element>(incoming)),
        }
    }

    fn take_loan(&mut self, part: u16, how: u8, lent: &Arc<dyn Lent>) -> bool {
        if how != Combine::Replace as u8 || !matches!(self.chain.running, Running::Registers) {
            return false;
        }
        let Some(register) = self.role().taken_whole(part) else { return false };
        let Some(vector) = vector_in(lent.clone()) else { return false };
        self.chain.registers().take_loan(register, vector);
        true
    }

    #[inline]
    fn lacks(&mut self, part: Option<u16>) -> bool {
        self.blocks().is_some_and(|blocks| blocks.lacks(part))
    }

    #[inline]
    fn block(&mut self, part: u16) -> Payload {
        self.blocks().map_or(Payload::None, |blocks| blocks.payload(part))
    }

    #[inline]
    fn is_free(&self, read: u16) -> bool {
        matches!(&self.chain.running, Running::Parts(blocks) if blocks.is_free(read))
    }

    #[inline]
    fn is_taken(&self, read: u16) -> bool {
        matches!(&self.chain.running, Running::Parts(blocks) if blocks.is_taken(read))
    }

    #[inline]
    fn take(&mut self, read: u16, came: Payload) {
        if let Some(blocks) = self.blocks() {
            blocks.take(read, came);
        }
    }

    fn combine_own(&mut self, from: u16, part: u16, how: u8) {
        if let Some(blocks) = self.blocks() {
            return blocks.copy_in_turn(from, part);
        }
        let from = self.role().at(from);
        // On loan, so that a change of the same blocks goes elsewhere.
        let held = self.chain.registers().hold(from);
        self.combine_elements(part, how, &held);
    }
}
