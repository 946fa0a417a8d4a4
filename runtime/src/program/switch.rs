//! Replaces the mapper of a slot in all processes of a program, or in none.
//!
//! A mapper can't be sent, but a text that describes it can. A process sends its request to process 0, which handles one
//! request at a time. Process 0 tells all processes to make the mapper. When all have answered, it tells them to install it,
//! or to drop it if one could not make it. So all slots get the same mappers in the same order.

// Elsewhere there is one process.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use crate::Error;
use crate::error::panic_message;
use crate::program::runtime::Runtime;
#[cfg(target_os = "linux")]
use crate::wire::processes::notices::{Inbox, MOST, Notices};
use maniple_mapper::{Mapper, MapperSlot};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Makes a mapper of a text, or says why not.
type Make = Box<dyn Fn(&str) -> Result<Arc<dyn Mapper>, String> + Send + Sync>;
/// A process, and the number of its wish.
type Asker = (u32, u64);

/// Replaces the mapper of a program on several processes: in all of them, or in none. A clone is the same switch.
///
/// [`MapperSlot::replace`] changes the slot of one process. A top-level task may call it in each of its copies. Other code
/// runs in one process only, such as a shard or a thread that listens for signals. It uses a switch. Every process makes the
/// switch, with a function that makes mappers of a text. Any of them may then call [`replace`](Self::replace).
///
/// All slots get the same mappers in the same order, if nothing else replaces them. So
/// [`Top::adopt_mapper`](crate::Top::adopt_mapper) may follow at any time: it takes the newest one that all have.
///
/// In one process, a switch replaces the mapper at once.
///
/// ```
/// use maniple_mapper::{DefaultMapper, MapperSlot};
/// use maniple_runtime::{Error, MapperSwitch, Runtime};
/// use std::sync::Arc;
///
/// let slot = MapperSlot::from(Arc::new(DefaultMapper));
/// let runtime = Runtime::threads(2).mapper(slot.clone());
/// let switch = MapperSwitch::new(&runtime, &slot, |text| maniple_mapper::stock(text).map_err(|e| e.to_string()))?;
/// // Later, on any thread of any process:
/// let outcome = switch.replace("round-robin");
/// assert_eq!(outcome.recv(), Ok(Ok(())));
/// assert_eq!(&*slot.current().name, "round-robin");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct MapperSwitch(Arc<Handle>);

struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What the thread of a switch and its handles share.
struct Shared {
    slot: MapperSlot,
    make: Make,
    wishes: Mutex<Wishes>,
    #[cfg(target_os = "linux")]
    notices: Option<Notices>,
}

/// The wishes of this process that are not over.
#[derive(Default)]
struct Wishes {
    next: u64,
    open: HashMap<u64, Sender<Result<(), Error>>>,
    closed: bool,
}

impl MapperSwitch {
    /// Makes the switch of a slot, for runs on `runtime`. Collective: on several processes each makes it, between runs, and
    /// waits for the others. `make` is called in each of them, on a thread of its own.
    ///
    /// # Errors
    /// The processes can't meet, or can't tell each other anything.
    pub fn new(
        runtime: &Runtime,
        slot: &MapperSlot,
        make: impl Fn(&str) -> Result<Arc<dyn Mapper>, String> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let (slot, make) = (slot.clone(), Box::new(make));
        #[cfg(target_os = "linux")]
        if runtime.is_on_processes() {
            let (notices, inbox) = Notices::open(runtime.started().0)?;
            let shared = Arc::new(Shared { slot, make, wishes: Mutex::default(), notices: Some(notices) });
            let of_thread = shared.clone();
            let body = move || {
                if let Some(notices) = &of_thread.notices {
                    Desk::new(&of_thread, notices).serve(inbox);
                }
                of_thread.close();
            };
            let thread = std::thread::Builder::new().name("maniple mappers".into()).spawn(body);
            thread.map_err(|e| Error::misuse("a switch of mappers", "a thread of its own", e))?;
            return Ok(Self(Arc::new(Handle(shared))));
        }
        let _ = runtime;
        Ok(Self(Arc::new(Handle(Arc::new(Shared {
            slot,
            make,
            wishes: Mutex::default(),
            #[cfg(target_os = "linux")]
            notices: None,
        })))))
    }

    /// Asks all processes to replace their mapper with the one that `text` describes, in at most 3000 bytes. On several
    /// processes this returns at once.
    ///
    /// The receiver gets the outcome: an error if a process can't make the mapper, and then all keep the old one. After
    /// [`close`](Self::close) in this process it is closed without an outcome. You may drop it.
    ///
    /// Processes of other hosts hear of it during runs only, because MPI gets on only then. So a program on several hosts
    /// should not wait for an outcome between runs.
    pub fn replace(&self, text: &str) -> Receiver<Result<(), Error>> {
        let shared = &self.0.0;
        let (outcome, receiver) = channel();
        #[cfg(target_os = "linux")]
        if let Some(notices) = &shared.notices {
            let mut wishes = shared.wishes();
            if wishes.closed {
                return receiver;
            }
            if text.len() > LONGEST {
                let error = Error::misuse("the text of a mapper", format!("at most {LONGEST} bytes"), text.len());
                let _ = outcome.send(Err(error));
                return receiver;
            }
            let number = wishes.next;
            wishes.next += 1;
            wishes.open.insert(number, outcome);
            drop(wishes);
            let word = Word::Ask { by: (notices.rank(), number), text: text.into() };
            if let Err(e) = tell(notices, 0, &word) {
                let error = Error::misuse("replacement of the mapper", "process 0 to accept the request", e);
                shared.is_over(number, Err(error));
            }
            return receiver;
        }
        let made = shared.made(text).map(|mapper| shared.slot.replace(mapper)).map_err(Error::user);
        let _ = outcome.send(made);
        receiver
    }

    /// Closes the switch in this process; dropping its last handle does the same. A replacement needs all processes, so after
    /// this none succeeds anywhere. Close it in every process.
    pub fn close(&self) {
        self.0.0.close();
    }
}

impl std::fmt::Debug for MapperSwitch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MapperSwitch({:?})", self.0.0.slot)
    }
}

impl Shared {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a mapper. That is user code, which may panic.
    fn made(&self, text: &str) -> Result<Arc<dyn Mapper>, String> {
        let made = catch_unwind(AssertUnwindSafe(|| (self.make)(text)));
        made.unwrap_or_else(|panic| Err(format!("the function that makes mappers panicked: {}", panic_message(panic))))
    }

    /// A wish of this process is over.
    fn is_over(&self, number: u64, outcome: Result<(), Error>) {
        if let Some(open) = self.wishes().open.remove(&number) {
            // Perhaps nobody wants to know.
            let _ = open.send(outcome);
        }
    }

    fn close(&self) {
        let mut wishes = self.wishes();
        wishes.open.clear();
        let closed = std::mem::replace(&mut wishes.closed, true);
        drop(wishes);
        #[cfg(target_os = "linux")]
        if let Some(notices) = self.notices.as_ref().filter(|_| !closed) {
            // Wakes the thread, which looks. If it can't be told, it has ended, or has notices to read.
            let _ = tell(notices, notices.rank(), &Word::Close);
        }
        let _ = closed;
    }
}

/// What processes tell each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Word {
    /// To process 0: somebody wants this mapper.
    Ask { by: Asker, text: String },
    /// From process 0: make it.
    Make { text: String },
    /// To process 0: a process has made it, or why not.
    Made { process: u32, amiss: Option<String> },
    /// From process 0: put it into the slot, or why not.
    Over { by: Asker, amiss: Option<String> },
    /// To this process: the switch is closed.
    Close,
}

/// The most bytes of a mapper's text, and of what is amiss. A notice has room for one of them and a few numbers.
const LONGEST: usize = 3000;

/// What process 0 knows of the wishes of all.
struct Book {
    processes: u32,
    wishes: VecDeque<(Asker, String)>,
    now: Option<Now>,
}

/// The wish that process 0 sees to.
struct Now {
    by: Asker,
    /// How many processes have not answered.
    missing: u32,
    /// The first process that can't make the mapper, by number.
    amiss: Option<(u32, String)>,
}

impl Book {
    fn new(processes: u32) -> Self {
        Self { processes, wishes: VecDeque::new(), now: None }
    }

    /// Takes a word, and returns those for all processes. `from` adds to an error the process that it comes from.
    fn hear(&mut self, word: Word, from: impl Fn(u32, String) -> String) -> Vec<Word> {
        let mut told = Vec::new();
        match word {
            Word::Ask { by, text } => self.wishes.push_back((by, text)),
            Word::Made { process, amiss } => {
                let Some(now) = &mut self.now else { return told };
                now.missing -= 1;
                if let Some(amiss) = amiss
                    && now.amiss.as_ref().is_none_or(|(first, _)| process < *first)
                {
                    now.amiss = Some((process, amiss));
                }
                if now.missing == 0
                    && let Some(Now { by, amiss, .. }) = self.now.take()
                {
                    let amiss = amiss.map(|(process, why)| from(process, why));
                    told.push(Word::Over { by, amiss });
                }
            }
            Word::Make { .. } | Word::Over { .. } | Word::Close => {}
        }
        if self.now.is_none()
            && let Some((by, text)) = self.wishes.pop_front()
        {
            self.now = Some(Now { by, missing: self.processes, amiss: None });
            told.push(Word::Make { text });
        }
        told
    }
}

/// Does what a process is told.
#[cfg(target_os = "linux")]
struct Desk<'a> {
    shared: &'a Shared,
    notices: &'a Notices,
    book: Book,
    /// The mapper that this process has made and not been told to take.
    made: Option<Arc<dyn Mapper>>,
    /// What this process tells itself.
    own: VecDeque<Word>,
}

#[cfg(target_os = "linux")]
impl<'a> Desk<'a> {
    fn new(shared: &'a Shared, notices: &'a Notices) -> Self {
        Self { shared, notices, book: Book::new(notices.size()), made: None, own: VecDeque::new() }
    }

    /// Serves until the switch is closed.
    fn serve(&mut self, mut inbox: Inbox) {
        while let Ok(bytes) = inbox.next() {
            // Nobody sends anything else.
            self.own.extend(postcard::from_bytes::<Word>(&bytes).ok());
            while let Some(word) = self.own.pop_front() {
                self.hear(word);
                if self.shared.wishes().closed {
                    return;
                }
            }
        }
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Make { text } => {
                let made = self.shared.made(&text);
                if self.shared.wishes().closed {
                    // That may have taken long, and the process may be about to end.
                    return;
                }
                let amiss = made.as_ref().err().map(|why| shortened(why).to_owned());
                self.made = made.ok();
                self.tell(0, Word::Made { process: self.notices.rank(), amiss });
            }
            Word::Over { by: (process, number), amiss } => {
                let made = self.made.take().filter(|_| amiss.is_none());
                made.into_iter().for_each(|mapper| self.shared.slot.replace(mapper));
                if process == self.notices.rank() {
                    self.shared.is_over(number, amiss.map_or(Ok(()), |amiss| Err(Error::user(amiss))));
                }
            }
            Word::Close => {}
            word @ (Word::Ask { .. } | Word::Made { .. }) => {
                let from = |process, why| match self.notices.size() {
                    1 => why,
                    _ => format!("process {process}, on {}: {why}", self.notices.host(process)),
                };
                for told in self.book.hear(word, from) {
                    for process in 0..self.notices.size() {
                        self.tell(process, told.clone());
                    }
                }
            }
        }
    }

    fn tell(&mut self, process: u32, word: Word) {
        if process == self.notices.rank() {
            self.own.push_back(word);
            return;
        }
        // One that takes no notices makes no mapper either.
        let asked = matches!(word, Word::Make { .. });
        let mut told = tell(self.notices, process, &word);
        // Its pipe is full of what others ask. It takes that soon, and none of them waits for this process.
        while told.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock) && !self.shared.wishes().closed {
            std::thread::sleep(std::time::Duration::from_millis(1));
            told = tell(self.notices, process, &word);
        }
        if let Err(e) = told
            && asked
        {
            self.own
                .push_back(Word::Made { process, amiss: Some(format!("it can't be asked to make the mapper: {e}")) });
        }
    }
}

#[cfg(target_os = "linux")]
fn tell(notices: &Notices, process: u32, word: &Word) -> std::io::Result<()> {
    const { assert!(LONGEST + 256 < MOST) };
    notices.send(process, &postcard::to_stdvec(word).map_err(std::io::Error::other)?)
}

/// As much of a text as a word has room for.
fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LONGEST - 256);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Wishes of several processes, whose answers come in any order. Every process is told of one at a time, and takes it
    /// if all have made it.
    fn told_in_order(processes: u32, steps: &[(u32, u8)]) {
        let mut book = Book::new(processes);
        let (mut asked, mut made, mut over) = (0u64, 0u64, Vec::new());
        // The answers that are missing in the wish under way.
        let mut missing: Vec<u32> = Vec::new();
        let mut amiss = None;
        let mut rest = std::iter::repeat_n((0, 255u8), 1000);
        for &(process, what) in steps.iter().chain(rest.by_ref().collect::<Vec<_>>().iter()) {
            let process = process % processes;
            let word = match what {
                0..100 => {
                    asked += 1;
                    Word::Ask { by: (process, asked - 1), text: (asked - 1).to_string() }
                }
                _ if missing.is_empty() => continue,
                _ => {
                    let process = missing.swap_remove(process as usize % missing.len());
                    let why = (what % 7 == 0).then(|| format!("no {process}"));
                    if why.is_some() && amiss.is_none_or(|first| process < first) {
                        amiss = Some(process);
                    }
                    Word::Made { process, amiss: why }
                }
            };
            for told in book.hear(word, |process, why| format!("number {process}: {why}")) {
                match told {
                    Word::Make { text } => {
                        assert!(missing.is_empty(), "one at a time");
                        assert_eq!(text, made.to_string(), "in the order in which they were wanted");
                        made += 1;
                        missing = (0..processes).collect();
                    }
                    Word::Over { by, amiss: why } => {
                        assert!(missing.is_empty(), "all have answered");
                        assert_eq!(why, amiss.take().map(|p| format!("number {p}: no {p}")));
                        over.push(by.1);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(over, (0..asked).collect::<Vec<_>>());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn one_wish_after_another_is_granted_or_refused(
            processes in 1u32..5,
            steps in prop::collection::vec((0u32..5, 0u8..=255), 0..60),
        ) {
            told_in_order(processes, &steps);
        }
    }

    #[test]
    fn a_text_is_cut_at_a_character() {
        let long = "é".repeat(LONGEST);
        assert!(shortened(&long).len() <= LONGEST - 256 && shortened(&long).ends_with('é'));
        assert_eq!(shortened("short"), "short");
    }
}
