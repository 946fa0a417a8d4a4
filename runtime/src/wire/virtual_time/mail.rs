//! Messages in virtual time: each is in one place from when it is sent until it is taken in.

use crate::message::{Message, ProcessorId};
use std::cell::Cell;

const NONE: u32 = u32::MAX;

struct Letter {
    from: ProcessorId,
    /// To whom it is; once it has come, the one that came after it; in a free place, the next of these.
    then: u32,
    /// None in a free place.
    message: Option<Message>,
}

const _: () = assert!(size_of::<Letter>() == 64);

/// All messages under way, by numbers that are used again.
pub(super) struct Mail {
    letters: Vec<Letter>,
    free: u32,
}

impl Default for Mail {
    fn default() -> Self {
        Self { letters: Vec::new(), free: NONE }
    }
}

impl Mail {
    pub fn post(&mut self, from: ProcessorId, to: ProcessorId, message: Message) -> u32 {
        let letter = Letter { from, then: to, message: Some(message) };
        if let Some(place) = self.letters.get_mut(self.free as usize) {
            let number = self.free;
            self.free = std::mem::replace(place, letter).then;
            return number;
        }
        self.letters.push(letter);
        self.letters.len() as u32 - 1
    }

    /// Who sent one that has not come, and to whom.
    pub fn address(&self, letter: u32) -> (ProcessorId, ProcessorId) {
        let letter = &self.letters[letter as usize];
        (letter.from, letter.then)
    }

    /// Takes one out.
    pub fn open(&mut self, letter: u32) -> Option<(ProcessorId, Message)> {
        let place = &mut self.letters[letter as usize];
        let message = place.message.take()?;
        place.then = std::mem::replace(&mut self.free, letter);
        Some((place.from, message))
    }
}

/// What has come to one processor, in order.
pub(super) struct Inbox {
    first: Cell<u32>,
    last: Cell<u32>,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { first: Cell::new(NONE), last: Cell::new(NONE) }
    }
}

impl Inbox {
    pub fn is_empty(&self) -> bool {
        self.first.get() == NONE
    }

    pub fn add(&self, mail: &mut Mail, letter: u32) {
        mail.letters[letter as usize].then = NONE;
        match mail.letters.get_mut(self.last.replace(letter) as usize) {
            Some(last) => last.then = letter,
            None => self.first.set(letter),
        }
    }

    pub fn next(&self, mail: &mut Mail) -> Option<(ProcessorId, Message)> {
        let first = self.first.get();
        let after = mail.letters.get(first as usize)?.then;
        self.first.set(after);
        if after == NONE {
            self.last.set(NONE);
        }
        mail.open(first)
    }
}
