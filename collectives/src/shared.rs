//! What all chains of a collective on one processor share.

use crate::gathered::Gathered;
use crate::reduction::Reduction;
use crate::role::Role;
use crate::samples::Samples;
use crate::{Combine, Operator};
use maniple_regions::Vector;
use maniple_runtime::Error;
use maniple_runtime::replay::ReplayCx;
use std::cell::RefCell;

pub struct Shared<By: Reduction> {
    pub name: String,
    pub by: By,
    pub slots: u32,
    /// Whether every shard contributes one element and gets one, and that is the value.
    pub is_one: bool,
    /// Whether that element is the result as it is.
    pub ends_as_one: bool,
    /// What each shard does. If all do the same, only the role of the first.
    roles: Vec<Role<By::Element>>,
    /// The values that the operator's laws are tried on next, if they are.
    samples: Option<RefCell<Samples<By::Element>>>,
    /// Memory for the values of a group.
    pub gathered: Gathered<By::Element>,
    /// The result that a member of the present group has got from its state, if one has.
    lowered: RefCell<Lowered<By::Out>>,
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
            ends_as_one: is_one && By::PLAIN && !first.alone && first.fixed.is_none(),
            roles,
            samples: laws.then(RefCell::default),
            gathered: Gathered::new(),
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
