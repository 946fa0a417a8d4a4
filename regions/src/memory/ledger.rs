//! Which leases of an instance are out: the bookkeeping behind rule 3.

use super::lease::{Slip, Ticket};
use crate::Rect;

/// How many returned leases are kept for the next ones.
const SPARE: usize = 64;

/// The leases that are out. No two of them overlap unless both only read.
#[derive(Default)]
pub(super) struct Ledger {
    whole: Whole,
    parts: Vec<PartLease>,
    next: u64,
    /// Returned leases, to be given out again without allocating or counting references.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    spare: Vec<Box<Slip>>,
}

/// Who holds leases of the whole rectangle.
#[derive(Clone, Copy, Default)]
enum Whole {
    /// Nobody.
    #[default]
    Free,
    /// That many readers.
    Read(usize),
    /// One holder who may write. Nothing else is out.
    Written,
}

/// A lease of less than the whole.
#[derive(Clone, Copy)]
pub(super) struct PartLease {
    serial: u64,
    pub rect: Rect,
    pub writes: bool,
}

impl Ledger {
    /// Gives out all of the instance, if this is easily seen to be possible; otherwise [`Ledger::give`] decides.
    #[inline]
    pub fn give_whole(&mut self, writes: bool) -> bool {
        if !self.parts.is_empty() {
            return false;
        }
        self.whole = match (self.whole, writes) {
            (Whole::Free, true) => Whole::Written,
            (Whole::Free, false) => Whole::Read(1),
            (Whole::Read(readers), false) => Whole::Read(readers + 1),
            _ => return false,
        };
        true
    }

    /// Gives out `rect`, which lies within `whole`; or names a lease in the way.
    #[inline]
    pub fn give(&mut self, whole: &Rect, rect: &Rect, writes: bool) -> Result<Ticket, PartLease> {
        if let Some(held) = self.in_the_way(whole, rect, writes) {
            return Err(held);
        }
        if rect.is_empty() {
            return Ok(Ticket::Nothing);
        }
        self.next += 1;
        self.parts.push(PartLease { serial: self.next, rect: *rect, writes });
        Ok(Ticket::Part(self.next))
    }

    /// Takes back what `ticket` stands for; it was given out by this ledger and is out.
    #[inline]
    pub fn take_back(&mut self, ticket: Ticket) {
        match ticket {
            Ticket::Nothing => {}
            Ticket::Whole => {
                self.whole = match self.whole {
                    Whole::Read(readers) if readers > 1 => Whole::Read(readers - 1),
                    _ => Whole::Free,
                }
            }
            Ticket::Part(serial) => {
                // The last one given is often the first to come back.
                if let Some(at) = self.parts.iter().rposition(|part| part.serial == serial) {
                    self.parts.swap_remove(at);
                }
            }
        }
    }

    /// A slip of this instance to be filled in, if one is kept.
    #[inline]
    pub fn spare(&mut self) -> Option<Box<Slip>> {
        self.spare.pop()
    }

    /// Keeps the slip of a returned lease.
    #[inline]
    pub fn keep(&mut self, slip: Box<Slip>) {
        if self.spare.len() < SPARE {
            self.spare.push(slip);
        }
    }

    /// A lease that is out and keeps others from reading, or `writes` from writing, in `rect`.
    #[inline]
    pub fn in_the_way(&self, whole: &Rect, rect: &Rect, writes: bool) -> Option<PartLease> {
        let nothing_out = matches!(self.whole, Whole::Free) && self.parts.is_empty();
        if nothing_out { None } else { self.search(whole, rect, writes) }
    }

    #[inline(never)]
    fn search(&self, whole: &Rect, rect: &Rect, writes: bool) -> Option<PartLease> {
        let held_whole = |writes| PartLease { serial: 0, rect: *whole, writes };
        match self.whole {
            Whole::Free => {}
            _ if rect.is_empty() => return None,
            Whole::Written => return Some(held_whole(true)),
            Whole::Read(_) if writes => return Some(held_whole(false)),
            Whole::Read(_) => {}
        }
        self.parts.iter().find(|part| (writes || part.writes) && part.rect.overlaps(rect)).copied()
    }
}
