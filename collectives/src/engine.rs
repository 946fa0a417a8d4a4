//! The engine of a collective. To the chains that the runtime replays it adds typed values, their combination, and
//! calls. It uses only the public API of `runtime`: arrivals carry the values, so it needs no unsafe code.

use crate::chain::{Chain, Live, Running};
use crate::layout::Layout;
use crate::parts::Parts;
use crate::reduction::Reduction;
use crate::role::Role;
use crate::shared::Shared;
use crate::value::{Came, Given, Output, Value};
use crate::{Combine, fold_in_pairs};
use maniple_regions::Vector;
use maniple_runtime::replay::{Replay, ReplayCx, SlotState, Watch};
use maniple_runtime::{Error, FutureMap, TaskFuture};
use std::any::Any;
use std::collections::VecDeque;
use std::rc::Rc;

/// The chains of one collective on one processor.
pub struct Engine<By: Reduction> {
    shared: Shared<By>,
    chains: Vec<Chain<By>>,
    /// For each shard the results that it has not asked for yet, from the first call on. Made when one is needed.
    claims: Vec<VecDeque<Box<dyn Any>>>,
    /// Where the blocks of vectors are.
    layouts: Layouts,
}

/// Makes the layout of the shard at a position, from the parts of its role if that has them.
type MakeLayout = dyn Fn(u32, Option<&Parts>) -> Layout;

/// The layouts of a processor's shards, by position. Each is made for the first call in parts or with blocks.
pub struct Layouts {
    pub make: Box<MakeLayout>,
    pub made: Vec<Option<Rc<Layout>>>,
    /// Whether calls can be in parts, as nothing is combined, and whether all are.
    pub can_part: bool,
    pub always: bool,
    /// Whether some of the shards are in a group, or share a result with another processor. Then calls are whole, and parts of their
    /// results come at the end.
    pub at_the_end: bool,
}

impl Layouts {
    fn of<T>(&mut self, position: u32, role: &Role<T>) -> &Rc<Layout> {
        let at = position as usize;
        self.made.resize(self.made.len().max(at + 1), None);
        self.made[at].get_or_insert_with(|| Rc::new((self.make)(position, role.parts.as_deref())))
    }
}

impl<By: Reduction> Engine<By> {
    pub fn new(name: &str, by: (By, bool), slots: u32, roles: Vec<Role<By::Element>>, layouts: Layouts) -> Self {
        let chains = (0..roles.len() * slots as usize).map(|_| Chain::new()).collect();
        Self { shared: Shared::new(name, by, slots, roles), chains, claims: Vec::new(), layouts }
    }

    /// Whether results can come in parts.
    pub fn has_parts(&self) -> bool {
        self.layouts.can_part
    }

    /// A call whose result comes in parts.
    pub fn call_in_parts(
        &mut self,
        at: (u32, u64),
        given: Given<By::In>,
        cx: &mut ReplayCx<'_>,
    ) -> FutureMap<Vector<By::Out>> {
        let Self { shared, layouts, .. } = self;
        let at_the_end = layouts.at_the_end;
        let (output, futures) = shared.futures(at.0, layouts.of(at.0, shared.role(at.0)), at_the_end);
        self.call_for(at, given, output, cx);
        futures
    }

    /// Whether a call that waits in a chain is in parts.
    fn is_in_parts(&self, chain: u32, given: &Given<By::In>) -> bool {
        let output = &self.chains[chain as usize].output;
        let asked = matches!(output, Some(Output::Parts(_))) || matches!(given, Given::Blocks(_));
        self.layouts.can_part && !self.layouts.at_the_end && (self.layouts.always || asked)
    }

    /// Whether every shard contributes one element and gets one, and the values of the collective are elements.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.shared.is_one
    }

    /// The name of the collective.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What the shard at a position does.
    pub fn role(&self, position: u32) -> &Role<By::Element> {
        self.shared.role(position)
    }

    /// A vector for a later contribution of the shard at a position.
    pub fn spare(&self, position: u32, elements: usize) -> Vec<By::In> {
        self.shared.contributions.take(position, elements)
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

    /// Takes a call of one element. `at` is the shard's position and the call's number. The call runs when its slot is free.
    #[inline(always)]
    pub fn call<O>(&mut self, at: (u32, u64), element: By::In, cx: &mut ReplayCx<'_>) -> TaskFuture<O::Own>
    where
        O: Value<Element = By::Out> + ?Sized,
    {
        let number = self.chain(at);
        if !self.shared.is_one || !cx.is_free(number) {
            return self.call_with::<O>(at, Given::One(element), cx);
        }
        let chain = &mut self.chains[number as usize];
        let Some(future) = O::renewed(&mut chain.output) else {
            return self.call_with::<O>(at, Given::One(element), cx);
        };
        if By::PLAIN {
            let element = self.shared.by.lift(&element);
            match &mut chain.running {
                // What is there now has nothing to drop.
                Running::One(last) => *last = element,
                other => *other = Running::One(element),
            }
        } else {
            chain.running = Running::Registers;
            let role = self.shared.role_of_chain(number);
            if let Err(error) = cx.guarded(number, || chain.begin(Came::One(element), role, &self.shared.by)) {
                cx.begin_failed(self, number, error);
                return future;
            }
        }
        cx.begin(self, number);
        future
    }

    /// The same for any contribution.
    #[inline(never)]
    pub fn call_with<O>(&mut self, at: (u32, u64), given: Given<By::In>, cx: &mut ReplayCx<'_>) -> TaskFuture<O::Own>
    where
        O: Value<Element = By::Out> + ?Sized,
    {
        let (resolver, future) = TaskFuture::pending();
        self.call_for(at, given, O::output(resolver), cx);
        future
    }

    /// The same for any output.
    pub fn call_for(&mut self, at: (u32, u64), given: Given<By::In>, output: Output<By::Out>, cx: &mut ReplayCx<'_>) {
        let number = self.chain(at);
        given.tell(number, at.1, cx);
        let chain = &mut self.chains[number as usize];
        match cx.slot(number) {
            SlotState::Free => {
                (chain.running, chain.output) = (Running::Later(given), Some(output));
                cx.submit(self, number);
            }
            SlotState::Failed(error) => output.fail(number, error, cx),
            SlotState::Taken => chain.queue(given, output),
        }
    }

    /// Has the chain started when its input comes, or the block that it lacks.
    #[inline(never)]
    fn waits_for_input(&self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match &self.chains[chain as usize].running {
            // In parts it begins at once.
            Running::Later(given) => !self.is_in_parts(chain, given) && given.start_chain(chain, cx),
            Running::Parts(blocks) => blocks.waits(chain, cx),
            Running::One(_) | Running::Registers => false,
        }
    }

    /// Begins a call in parts.
    fn begin_in_parts(&mut self, chain: u32) -> Result<(), Error> {
        let Self { shared, chains, layouts, .. } = self;
        let c = &mut chains[chain as usize];
        let Running::Later(given) = std::mem::replace(&mut c.running, Running::Registers) else { return Ok(()) };
        let layout = layouts.of(chain / shared.slots, shared.role_of_chain(chain));
        let given = if let Given::Blocks(blocks) = given { blocks.or_whole() } else { given };
        if let Given::Blocks(blocks) = &given {
            layout.check_number(blocks.len())?;
        }
        if layout.needs_blocks() && !matches!(given, Given::Blocks(_) | Given::Nothing) {
            return Err(Error::Misuse {
                what: format!("input of {}", layout.name),
                expected: "blocks, by `Contribution::in_blocks` or as futures, as their sizes are not known".into(),
                came: "one vector".into(),
            });
        }
        c.begin_in_parts(shared.blocks(chain / shared.slots, layout), given);
        Ok(())
    }

    /// Puts the blocks of a group into the vector of its first shard. Returns their bytes.
    fn gather_group(&mut self, (leader, size, apart): (u32, u32, u32)) -> usize {
        let Self { shared, chains, .. } = self;
        let mut bytes = 0;
        for chain in (1..size).map(|i| leader + i * apart) {
            let (lower, others) = chains.split_at_mut(chain as usize);
            let role = shared.role_of_chain(chain);
            let block = others[0].result(role);
            bytes += size_of_val(block);
            if !block.is_empty() {
                let blocks = role.gathered.as_ref().expect("a block has its place in the group's vector");
                let place = (0, shared.role_of_chain(leader).place(blocks));
                let leader = lower[leader as usize].registers();
                leader.combine(shared.operator(), place, Combine::Replace as u8, block);
            }
        }
        bytes
    }

    /// The chain of a call.
    #[inline]
    fn chain(&self, (position, count): (u32, u64)) -> u32 {
        // Slots are few, and a power of two nearly always.
        let mask = self.shared.slots - 1;
        let slot = if self.shared.slots & mask == 0 {
            count as u32 & mask
        } else {
            (count % u64::from(self.shared.slots)) as u32
        };
        position * self.shared.slots + slot
    }
}

impl<By: Reduction> Replay for Engine<By> {
    type Running<'a> = Live<'a, By>;

    #[inline]
    fn running(&mut self, chain: u32) -> Live<'_, By> {
        Live { chain: &mut self.chains[chain as usize], shared: &self.shared, number: chain }
    }

    fn combine_group(&mut self, leader: u32, size: u32, apart: u32) -> usize {
        let how = Combine::IncomingIsHigher as u8;
        let of = |i: u32| (leader + i * apart) as usize;
        let Self { shared, chains, .. } = self;
        if shared.gathers {
            return self.gather_group((leader, size, apart));
        }
        let bytes = (size as usize - 1) * shared.role_of_chain(leader).whole * size_of::<By::Element>();
        if shared.samples() {
            (0..size).for_each(|i| shared.sample(how, chains[of(i)].result(shared.role_of_chain(leader))));
        }
        if let Running::One(_) = chains[of(0)].running {
            let Shared { by, gathered, .. } = shared;
            let combined = gathered.combine(by.operator(), 0..size, &|i| chains[of(i)].element());
            chains[of(0)].running = Running::One(combined);
            return bytes;
        }
        let role = shared.role_of_chain(leader);
        fold_in_pairs(size, |i, j| {
            let (lower, others) = chains.split_at_mut(of(j));
            lower[of(i)].registers().combine(shared.operator(), role.at(0), how, others[0].result(role));
        });
        bytes
    }

    #[inline(always)]
    fn follow(&mut self, chain: u32, leader: u32, cx: &mut ReplayCx<'_>) -> bool {
        let (lower, others) = self.chains.split_at_mut(chain as usize);
        let (c, number, leader) = (&mut others[0], leader, &mut lower[leader as usize]);
        match (&leader.running, &c.output) {
            (Running::One(result), Some(Output::One(out))) if By::PLAIN && self.shared.is_one => {
                cx.resolve(chain, out, Ok(self.shared.by.lower(result)));
            }
            _ => c.follow(chain, (number, leader), &self.shared, cx),
        }
        c.next()
    }

    fn waits(&mut self, chain: u32, cx: &mut ReplayCx<'_>) -> bool {
        match &self.chains[chain as usize].running {
            Running::One(_) | Running::Registers => false,
            Running::Later(_) | Running::Parts(_) => self.waits_for_input(chain, cx),
        }
    }

    fn begin(&mut self, chain: u32, shard: impl FnOnce() -> u32) -> Result<bool, Error> {
        let Running::Later(given) = &self.chains[chain as usize].running else { return Ok(true) };
        if self.is_in_parts(chain, given) {
            return self.begin_in_parts(chain).map(|()| true);
        }
        let Self { shared, chains, layouts, .. } = self;
        let c = &mut chains[chain as usize];
        let Running::Later(given) = &mut c.running else { return Ok(true) };
        let check = |blocks: &[Vector<By::In>]| {
            layouts.of(chain / shared.slots, shared.role_of_chain(chain)).check_blocks(blocks)
        };
        let Some(came) = given.take(check) else { return Ok(false) };
        // The input lets go of a vector before `came` is looked at.
        c.running = Running::Registers;
        let came = came?;
        came.vectors().iter().for_each(|vector| shared.contributions.keep(chain / shared.slots, vector));
        let role = shared.role_of_chain(chain);
        if let Some(expected) = role.contributes
            && came.len() != expected
        {
            return Err(Error::Misuse {
                what: format!("input of `{}` in shard {}", shared.name, shard()),
                expected: format!("{expected} elements"),
                came: came.len().to_string(),
            });
        }
        c.begin(came, role, &shared.by);
        Ok(true)
    }

    fn in_parts(&self, chain: u32) -> bool {
        matches!(self.chains[chain as usize].running, Running::Parts(_))
    }

    fn show(&mut self, chain: u32, cx: &mut ReplayCx<'_>) {
        self.chains[chain as usize].show(chain, &self.shared, cx);
    }

    #[inline(always)]
    fn end(&mut self, chain: u32, outcome: Result<(), Box<Error>>, cx: &mut ReplayCx<'_>) -> bool {
        let c = &mut self.chains[chain as usize];
        match (&outcome, &c.running, &c.output) {
            (Ok(()), Running::One(v), Some(Output::One(out))) if By::PLAIN && self.shared.ends_as_one => {
                cx.resolve(chain, out, Ok(self.shared.by.lower(v)));
            }
            _ => c.finish(chain, outcome, &self.shared, cx),
        }
        c.next()
    }

    fn new_launch(&mut self, position: u32) {
        self.shared.contributions.new_launch(position);
        if let Some(claims) = self.claims.get_mut(position as usize) {
            claims.clear();
        }
    }

    fn results(&self, chain: u32, busy: bool, watch: &mut Watch<'_>) {
        let c = &self.chains[chain as usize];
        c.output.iter().filter(|_| busy).chain(c.queued()).for_each(|output| output.look(watch));
    }
}
