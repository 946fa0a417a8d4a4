//! Messages in virtual time. A message stays in one place from when it is sent until it is received.

use crate::ids::ProcessorId;
use crate::message::Message;
use std::cell::Cell;

const NONE: u32 = u32::MAX;

/// Letters of a page, a power of two.
const PAGE: u32 = 1024;

struct Letter {
    from: ProcessorId,
    /// The receiver. Once the letter has come, the number of the next one in the receiver's inbox.
    then: u32,
    /// `None` once it is received.
    message: Option<Message>,
}

const _: () = assert!(size_of::<Letter>() == 64);

/// Letters that were posted one after the other. The memory is given back when all are received.
#[derive(Default)]
struct Page {
    letters: Vec<Letter>,
    left: u32,
}

/// All messages under way, by number. The page is in the high bits, the place in it in the low ones. Numbers are
/// reused.
pub(super) struct Mail {
    pages: Vec<Page>,
    /// Pages without letters.
    free: Vec<u32>,
    /// The page for the next letter.
    open: u32,
}

impl Default for Mail {
    fn default() -> Self {
        Self { pages: vec![Page::default()], free: Vec::new(), open: 0 }
    }
}

impl Mail {
    pub fn post(&mut self, from: ProcessorId, to: ProcessorId, message: Message) -> u32 {
        if self.pages[self.open as usize].letters.len() == PAGE as usize {
            self.turn_page();
        }
        let page = &mut self.pages[self.open as usize];
        page.letters.push(Letter { from, then: to, message: Some(message) });
        page.left += 1;
        self.open * PAGE + page.letters.len() as u32 - 1
    }

    #[cold]
    fn turn_page(&mut self) {
        self.open = self.free.pop().unwrap_or_else(|| {
            self.pages.push(Page::default());
            self.pages.len() as u32 - 1
        });
        self.pages[self.open as usize].letters.reserve_exact(PAGE as usize);
    }

    fn letter(&mut self, number: u32) -> Option<&mut Letter> {
        self.pages.get_mut((number / PAGE) as usize)?.letters.get_mut((number % PAGE) as usize)
    }

    /// The sender and receiver of a letter that has not come.
    pub fn address(&self, number: u32) -> (ProcessorId, ProcessorId) {
        let letter = &self.pages[(number / PAGE) as usize].letters[(number % PAGE) as usize];
        (letter.from, letter.then)
    }

    /// The message of a letter that has not come.
    pub fn message(&self, number: u32) -> Option<&Message> {
        self.pages[(number / PAGE) as usize].letters[(number % PAGE) as usize].message.as_ref()
    }

    /// Removes a letter.
    pub fn open(&mut self, number: u32) -> Option<(ProcessorId, Message)> {
        let page = &mut self.pages[(number / PAGE) as usize];
        let letter = &mut page.letters[(number % PAGE) as usize];
        let taken = (letter.from, letter.message.take()?);
        page.left -= 1;
        if page.left == 0 && page.letters.len() == PAGE as usize {
            self.close(number / PAGE);
        }
        Some(taken)
    }

    /// All letters of a full page have been received.
    #[cold]
    fn close(&mut self, page: u32) {
        if page == self.open {
            self.pages[page as usize].letters.clear();
        } else {
            self.pages[page as usize] = Page::default();
            self.free.push(page);
        }
    }
}

/// The letters that have come to one processor, in order.
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
        if let Some(letter) = mail.letter(letter) {
            letter.then = NONE;
        }
        match mail.letter(self.last.replace(letter)) {
            Some(last) => last.then = letter,
            None => self.first.set(letter),
        }
    }

    pub fn next(&self, mail: &mut Mail) -> Option<(ProcessorId, Message)> {
        let first = self.first.get();
        let after = mail.letter(first)?.then;
        self.first.set(after);
        if after == NONE {
            self.last.set(NONE);
        }
        mail.open(first)
    }
}
