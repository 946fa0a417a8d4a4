//! The order of messages where a long one waits until both of its ends have looked at it.
//!
//! Later messages do not wait for it on their way. They wait where they come.

use crate::ids::ProcessorId;
use smallvec::{SmallVec, smallvec};
use std::collections::{HashMap, VecDeque};

/// A sender and a receiver.
type Pair = (ProcessorId, ProcessorId);

/// For each pair with a long message that has not come: that one and those behind it, and whether each has come.
#[derive(Default)]
pub(super) struct Order(HashMap<Pair, VecDeque<(u32, bool)>>);

impl Order {
    /// A letter is sent.
    pub fn sent(&mut self, pair: Pair, letter: u32, is_long: bool) {
        if is_long {
            self.0.entry(pair).or_default().push_back((letter, false));
        } else if let Some(behind) = self.0.get_mut(&pair) {
            behind.push_back((letter, false));
        }
    }

    /// A letter comes. Returns the letters that have come now, in order: mostly this one.
    pub fn comes(&mut self, pair: Pair, letter: u32) -> SmallVec<[u32; 4]> {
        let Some(all) = self.0.get_mut(&pair) else { return smallvec![letter] };
        // Those that were sent before the first long one are not there.
        let Some(this) = all.iter_mut().find(|other| other.0 == letter) else { return smallvec![letter] };
        this.1 = true;
        let mut come = SmallVec::new();
        while let Some(&(letter, true)) = all.front() {
            all.pop_front();
            come.push(letter);
        }
        if all.is_empty() {
            self.0.remove(&pair);
        }
        come
    }
}
