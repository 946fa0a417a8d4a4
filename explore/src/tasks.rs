//! The work of leaf tasks on regions, on a line or in a plane.

use crate::area::place;
use crate::values::{fresh, joined, updated};
use maniple::prelude::*;
use maniple::regions::{ReadShared, Reduce};
use std::panic::resume_unwind;
use std::sync::Arc;

/// The message of a bomb. Two bombs in a row have the same, so that a failure is known by more than its text.
pub fn bomb(number: u32) -> String {
    format!("bomb {}", number / 2)
}

/// Panics without a message on stderr.
pub fn explode(bomb: u32) -> ! {
    resume_unwind(Box::new(self::bomb(bomb)))
}

/// Held by each leaf task, to find closures that are never dropped.
#[derive(Clone)]
pub struct Tag {
    pub _probe: Arc<()>,
    pub bomb: Option<u32>,
}

impl Tag {
    pub fn goes_off(&self) {
        if let Some(bomb) = self.bomb {
            explode(bomb);
        }
    }
}

/// Makes a number from values and their order.
pub fn digest<const D: usize>(u: &Read<i64, D>, start: i64) -> i64 {
    u.rect().points().fold(start, |sum, p| joined(sum, u.get(p)))
}

/// The same for shared values.
pub fn digest_shared(u: &ReadShared<i64>, start: i64) -> i64 {
    let mut values = vec![0; (u.rect().hi(0) - u.rect().lo(0)) as usize];
    u.copy_to(&mut values);
    values.into_iter().fold(start, joined)
}

/// Sets new values that do not depend on the old ones.
pub fn set<const D: usize>(u: &mut Write<i64, D>, k: i64) {
    u.rect().points().for_each(|p| u.set(p, fresh(k, place::<D>(p))));
}

/// Makes new values from old ones, and a number from the old ones.
pub fn update<const D: usize>(u: &mut ReadWrite<i64, D>, k: i64) -> i64 {
    u.rect().points().fold(2, |sum, p| {
        let old = u.get(p);
        u.set(p, updated(old, k, place::<D>(p)));
        joined(sum, old)
    })
}

/// Folds a contribution into each value.
pub fn fold<const D: usize>(u: &mut Reduce<i64, D>, k: i64) {
    u.rect().points().for_each(|p| u.fold(p, fresh(k, place::<D>(p))));
}

/// Sums the first field into the second, and sets the third from the first.
pub fn three<const D: usize>(a: &Read<i64, D>, b: &mut Reduce<i64, D>, c: &mut Write<i64, D>, k: i64) {
    for p in a.rect().points() {
        b.fold(p, a.get(p));
        c.set(p, joined(a.get(p), k));
    }
}
