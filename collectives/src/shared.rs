//! What all chains of a collective on one processor share.

use crate::blocks::Blocks;
use crate::gathered::Gathered;
use crate::layout::Layout;
use crate::reduction::Reduction;
use crate::role::Role;
use crate::samples::Samples;
use crate::spares::Spares;
use crate::value::{Output, Parts};
use crate::{Combine, Operator};
use maniple_regions::Vector;
use maniple_runtime::replay::ReplayCx;
use maniple_runtime::{Error, FutureMap, Resolver, TaskFuture};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

pub struct Shared<By: Reduction> {
    pub name: String,
    pub by: By,
    pub slots: u32,
    /// Whether every shard contributes one element and gets one, and that is the value.
    pub is_one: bool,
    /// Whether that element is the result as it is.
    pub ends_as_one: bool,
    /// Whether groups gather blocks, and combine nothing.
    pub gathers: bool,
    /// What each shard does. If all do the same, only the role of the first.
    roles: Vec<Role<By::Element>>,
    /// The values that the operator's laws are tried on next, if they are.
    samples: Option<RefCell<Samples<By::Element>>>,
    /// Memory for the values of a group.
    pub gathered: Gathered<By::Element>,
    /// The memory that each shard's calls in parts leave, by its position. A shard that has made none may have no entry.
    spare: RefCell<Vec<Spare<By>>>,
    /// The memory of contributions.
    pub contributions: Rc<Spares<By::In>>,
    /// The result that a member of the present group has got from its state, if one has.
    lowered: RefCell<Lowered<By::Out>>,
}

/// The memory of a shard's calls in parts that are over, which the next ones use again: the oldest first, as the shard may still
/// hold parts of the last one.
struct Spare<By: Reduction> {
    blocks: VecDeque<Box<Blocks<By>>>,
    parts: VecDeque<Box<Parts<By::Out>>>,
}

/// A result that was lowered from states.
enum Lowered<T> {
    None,
    One(T),
    Many(Vector<T>),
}

impl<By: Reduction> Shared<By> {
    pub fn new(name: &str, (by, laws): (By, bool), slots: u32, mut roles: Vec<Role<By::Element>>) -> Self {
        if roles.iter().all(|role| role.is_as(&roles[0])) {
            roles.truncate(1);
            roles.shrink_to_fit();
        }
        let is_one = match &roles[..] {
            [role] => role.contributes.and(role.receives).is_some() && role.is_one(),
            _ => false,
        };
        let first = &roles[0];
        Self {
            name: name.into(),
            by,
            slots,
            is_one,
            gathers: roles.iter().any(|role| role.gathered.is_some()),
            ends_as_one: is_one && By::PLAIN && !first.alone && first.fixed.is_none(),
            roles,
            samples: laws.then(RefCell::default),
            gathered: Gathered::new(),
            spare: RefCell::default(),
            contributions: Rc::new(Spares::new(slots)),
            lowered: RefCell::new(Lowered::None),
        }
    }

    #[inline(always)]
    pub fn operator(&self) -> &Operator<By::Element> {
        self.by.operator()
    }

    /// What the shard at a position does.
    pub fn role(&self, position: u32) -> &Role<By::Element> {
        self.roles.get(position as usize).unwrap_or(&self.roles[0])
    }

    pub fn role_of_chain(&self, chain: u32) -> &Role<By::Element> {
        self.role(chain / self.slots)
    }

    /// The result of a state. All chains of a group have the same, so it is lowered once.
    pub fn lower(&self, chain: u32, state: &By::Element, cx: &ReplayCx<'_>) -> Result<By::Out, Error> {
        if By::PLAIN {
            return Ok(self.by.lower(state));
        }
        if let Lowered::One(result) = *self.lowered.borrow() {
            return Ok(result);
        }
        let result = cx.guarded(chain, || self.by.lower(state))?;
        self.lowered.replace(Lowered::One(result));
        Ok(result)
    }

    /// The same for a vector.
    pub fn lower_all(
        &self,
        chain: u32,
        states: impl FnOnce() -> Vector<By::Element>,
        cx: &ReplayCx<'_>,
    ) -> Result<Vector<By::Out>, Error> {
        if let Lowered::Many(results) = &*self.lowered.borrow() {
            return Ok(results.clone());
        }
        let results = cx.guarded(chain, || self.by.lower_all(states()))?;
        if !By::PLAIN {
            self.lowered.replace(Lowered::Many(results.clone()));
        }
        Ok(results)
    }

    /// The memory of a shard's calls in parts that are over.
    fn spare<R>(&self, position: u32, f: impl FnOnce(&mut Spare<By>) -> R) -> R {
        let (mut all, at) = (self.spare.borrow_mut(), position as usize);
        if at >= all.len() {
            all.resize_with(at + 1, || Spare { blocks: VecDeque::new(), parts: VecDeque::new() });
        }
        f(&mut all[at])
    }

    /// The futures of the parts of a call.
    pub fn futures(
        &self,
        position: u32,
        layout: &Rc<Layout>,
        at_the_end: bool,
    ) -> (Output<By::Out>, FutureMap<Vector<By::Out>>) {
        let mut parts = self.spare(position, |spare| spare.parts.pop_front()).unwrap_or_default();
        parts.futures.resize_with(layout.result().1.len(), || None);
        parts.at_the_end = at_the_end.then(|| layout.clone());
        let renew = |part: &mut Option<Resolver<_>>| part.get_or_insert_with(|| TaskFuture::pending().0).renew();
        let futures = parts.futures.iter_mut().map(renew).collect();
        (Output::Parts(parts), futures)
    }

    /// The memory of the blocks of a call.
    pub fn blocks(&self, position: u32, layout: &Rc<Layout>) -> Box<Blocks<By>> {
        let spare = self.spare(position, |spare| spare.blocks.pop_front());
        spare.unwrap_or_else(|| Box::new(Blocks::new(layout, (position, &self.contributions))))
    }

    /// Keeps the memory of a call that is over.
    pub fn keep_blocks(&self, chain: u32, blocks: Box<Blocks<By>>) {
        self.spare(chain / self.slots, |spare| spare.blocks.push_back(blocks));
    }

    /// Keeps the futures of its parts, as many as calls can be in flight.
    pub fn keep_parts(&self, chain: u32, parts: Box<Parts<By::Out>>) {
        self.spare(chain / self.slots, |spare| {
            if spare.parts.len() < self.slots as usize {
                spare.parts.push_back(parts);
            }
        });
    }

    /// Ends the calls of a group, or of one chain.
    pub fn group_over(&self) {
        if !By::PLAIN {
            self.lowered.replace(Lowered::None);
        }
    }

    /// Whether the operator's laws are tried.
    pub fn samples(&self) -> bool {
        self.samples.is_some()
    }

    /// Tries the operator's laws if that is asked for, and if the value is combined and not only copied.
    #[inline]
    pub fn sample(&self, how: u8, incoming: &[By::Element]) {
        if let Some(samples) = self.samples.as_ref().filter(|_| how != Combine::Replace as u8) {
            samples.borrow_mut().sample(self.operator(), incoming);
        }
    }
}
