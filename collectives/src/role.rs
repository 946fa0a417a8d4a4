//! What a shard does in a collective.

use crate::parts::Parts;
use crate::sizes::Sizes;
use crate::{Goal, Schedule};
use maniple_regions::Element;
use std::ops::Range;
use std::sync::Arc;

/// A register, and elements of it.
pub type Place = (usize, Range<usize>);

/// What a shard contributes to a call, what it gets, and where its steps find it.
#[derive(Clone)]
pub struct Role<T> {
    /// The elements of its contribution and of its result, if it has them.
    pub contributes: Option<usize>,
    pub receives: Option<usize>,
    /// The elements of the value, if it is one vector.
    pub whole: usize,
    /// Where parts are, if it is not.
    pub parts: Option<Arc<Parts>>,
    /// The result, if nothing is combined in it.
    pub fixed: Option<T>,
    /// Whether the result is one contribution, which has met no other.
    pub alone: bool,
    /// The blocks of its contribution, if the first shard of its group gathers those of the group.
    pub gathered: Option<Range<u32>>,
}

impl<T: Element> Role<T> {
    /// The role of a schedule's rank. `identity` is the result where nothing is combined.
    pub fn of(schedule: &Schedule, goal: &Goal, sizes: &Sizes, identity: Option<T>) -> Self {
        let parts = Parts::of(schedule, goal, sizes);
        if schedule.group().start != schedule.rank() && !goal.combines() {
            return Self::of_one_that_follows(&parts, goal.contribution(schedule.rank()));
        }
        let whole = parts.whole();
        let combined = || goal.combined(schedule.rank());
        let combines = goal.combines() && parts.result.is_some();
        Self {
            contributes: parts.contribution.as_ref().map(|range| range.len()),
            receives: parts.result.as_ref().map(|(_, range)| range.len()),
            whole: whole.unwrap_or(0),
            fixed: identity.filter(|_| combines && combined() == 0),
            alone: combines && combined() == 1,
            parts: whole.is_none().then(|| Arc::new(parts)),
            gathered: None,
        }
    }

    /// The role of a shard whose contribution goes to the first one of its group, which has the result.
    fn of_one_that_follows(parts: &Parts, contribution: Range<u32>) -> Self {
        let contributes = parts.contribution.as_ref().map(|range| range.len());
        Self {
            contributes,
            receives: parts.result.as_ref().map(|(_, range)| range.len()),
            whole: contributes.unwrap_or(0),
            parts: None,
            fixed: None,
            alone: false,
            gathered: Some(contribution),
        }
    }

    pub fn is_as(&self, other: &Self) -> bool {
        let role = |r: &Self| (r.contributes, r.receives, r.whole, r.alone, r.parts.is_some() || r.fixed.is_some());
        role(self) == role(other) && self.parts.is_none() && self.fixed.is_none() && self.gathered == other.gathered
    }
}

impl<T> Role<T> {
    /// Whether the value is one element.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.whole == 1
    }

    /// The elements of each register.
    pub fn registers(&self) -> &[usize] {
        self.parts.as_ref().map_or(std::slice::from_ref(&self.whole), |parts| &parts.registers)
    }

    /// The register of a part, and its elements.
    pub fn at(&self, part: u16) -> Place {
        self.parts.as_ref().map_or((0, 0..self.whole), |parts| parts.at(part))
    }

    /// The contribution in register 0, if there is one.
    pub fn contribution(&self) -> Range<usize> {
        let range = self.parts.as_ref().map_or(Some(0..self.whole), |parts| parts.contribution.clone());
        range.unwrap_or_default()
    }

    /// Some blocks of register 0, if the value is in parts.
    pub fn place(&self, blocks: &Range<u32>) -> Range<usize> {
        self.parts.as_ref().map_or(0..self.whole, |parts| parts.place(0, blocks))
    }

    /// The register that takes the vector which a part brings, if a step brings all of it.
    pub fn taken_whole(&self, part: u16) -> Option<usize> {
        match &self.parts {
            None => Some(0),
            Some(parts) => parts.brought.filter(|(brought, _)| *brought == part).map(|(_, register)| register),
        }
    }

    /// The register of the result, and its elements.
    pub fn result(&self) -> Place {
        let of = |parts: &Arc<Parts>| parts.result.clone().unwrap_or_default();
        let (register, range) = self.parts.as_ref().map_or((0, 0..self.whole), of);
        (register.into(), range)
    }
}
