//! A piece of memory in which the processes of a host gather bytes: what they must agree on before a run, and its
//! outcome. It also says which of them have ended.

use super::segment::Segment;
use crate::Error;
use crate::wire::alarm::Alarm;
use crate::wire::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::wire::sync::{MODEL, Mutex, MutexGuard};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Instant;

/// The most bytes that a process gives, with others' bytes which it passes on. Only what is used takes up memory.
const MOST_GIVEN: usize = 1 << 30;
/// The least of it for each of the processes, however little memory there is: enough for the outcome of a run.
const LEAST: usize = 2 << 10;
const LINE: usize = 128;
/// The places of the token, and of the process that reports.
const TOKEN: usize = 64;
const REPORTER: usize = 72;
/// The most bytes of a process's last words.
const WORDS: usize = 4096;
/// Set in a count that will not grow any more.
const OVER: u32 = 1 << 31;
/// Set in the number of the process that was missed first, if it has left in an orderly way.
const LEFT: u32 = 1 << 31;
/// The status of a process that has left in an orderly way.
const LEFT_STATUS: u64 = 1 << 33;

/// Ends a run at once, for all processes of the host.
pub type GiveUp = Arc<dyn Fn() + Send + Sync>;

/// Tells other hosts of a lost process, and whether it has left in an orderly way.
pub type Tell = Box<dyn Fn(&Error, bool) + Send + Sync>;

/// The processes of one host.
pub struct Lobby {
    /// This process's place among them.
    index: usize,
    /// The numbers of all of them, in order.
    ranks: Vec<u32>,
    memory: Segment,
    /// The bytes for what each gives, and for the total.
    capacity: usize,
    /// Allgathers that this process has begun.
    begun: AtomicU32,
    /// The run under way: the number of the allgather at its end, and how to end it at once.
    run: Mutex<Option<(u32, GiveUp)>>,
    /// Gifts and totals that this process has written or read.
    messages: AtomicU32,
    /// The loss of a process of another host.
    lost: Mutex<Option<Error>>,
    /// The hosts whose processes have all left, each after an allgather.
    left: Mutex<Vec<(u32, Error)>>,
    /// Tells other hosts of a lost process of this one.
    tell: OnceLock<Tell>,
}

/// A word at which processes sleep until it changes.
#[derive(Default)]
#[repr(C)]
struct Awaited {
    word: AtomicU32,
    alarm: Alarm,
}

impl Awaited {
    fn load(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Sleeps unless the word is another than `seen`. May return early. True if the deadline has passed.
    fn sleep(&self, seen: u32, deadline: Option<Instant>) -> bool {
        self.alarm.sleep(&self.word, seen, deadline)
    }

    /// Counts one more, and wakes all who wait for it.
    fn count(&self) {
        self.word.fetch_add(1, Ordering::Release);
        self.alarm.ring_for_all(&self.word);
    }

    /// Closes a count, and wakes all who wait for it. Returns the count.
    fn close(&self) -> u32 {
        let before = self.word.fetch_or(OVER, Ordering::AcqRel);
        self.alarm.ring_for_all(&self.word);
        before & !OVER
    }
}

/// The place of the gifts of `processes` processes, after the words of all.
fn gifts(processes: usize) -> usize {
    (processes + 1) * LINE + processes * WORDS
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lobby {
    /// Makes the lobby of these processes, for the first of them.
    pub fn new(ranks: Vec<u32>) -> io::Result<Self> {
        let n = ranks.len();
        let (capacity, least) = (MOST_GIVEN.min(super::segment::limit() / 4 / (n + 1)) / LINE * LINE, n * LEAST);
        let head = gifts(n) + if capacity > least { 0 } else { (n + 1) * least };
        let memory = Segment::new("maniple lobby", gifts(n) + (n + 1) * capacity.max(least), head, n > 1)?;
        let lobby = Self::in_memory(0, ranks, memory);
        lobby.word::<AtomicU64>(TOKEN).store(RandomState::new().hash_one(lobby.file()), Ordering::Relaxed);
        Ok(lobby)
    }

    /// Opens the lobby that the first of these processes has made: its number in the system, and the file's number.
    pub fn open(index: usize, ranks: Vec<u32>, (process, file): (u32, i32)) -> io::Result<Self> {
        let memory = Segment::open(process, file)?;
        let least = gifts(ranks.len()) + (ranks.len() + 1) * LINE;
        match memory.bytes() < least {
            true => Err(io::Error::other("another file")),
            false => Ok(Self::in_memory(index, ranks, memory)),
        }
    }

    /// A process's lobby in this memory.
    pub fn in_memory(index: usize, ranks: Vec<u32>, memory: Segment) -> Self {
        let (begun, messages, run) = (AtomicU32::new(0), AtomicU32::new(0), Mutex::default());
        let (lost, tell) = (Mutex::default(), OnceLock::new());
        let capacity = (memory.bytes() - gifts(ranks.len())) / (ranks.len() + 1);
        let lobby = Self { index, ranks, memory, capacity, begun, run, messages, lost, left: Mutex::default(), tell };
        if MODEL {
            lobby.make_words();
        }
        lobby
    }

    /// Makes the words. Zeros are words, but not in a model: there each must be made before another process looks at it.
    fn make_words(&self) {
        let _: (_, _, &AtomicU32) = (self.told(), self.missed(), self.word(REPORTER));
        for i in 0..self.ranks.len() {
            let _ = (self.given(i), self.gone(i), self.status(i), self.words_len(i));
        }
    }

    /// The number by which other processes open its file.
    pub fn file(&self) -> i32 {
        self.memory.file()
    }

    /// The numbers of the processes, in order.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The allgathers whose total has been told.
    fn told(&self) -> &Awaited {
        self.word(0)
    }

    /// The process whose end has made an allgather fail: its number, plus 1, and [`LEFT`].
    fn missed(&self) -> &AtomicU32 {
        self.word(size_of::<u32>())
    }

    /// The allgathers that a process has given to.
    fn given(&self, index: usize) -> &Awaited {
        self.word((index + 1) * LINE)
    }

    /// Not 0 once a process has ended, or is about to.
    fn gone(&self, index: usize) -> &Awaited {
        self.word((index + 1) * LINE + size_of::<u32>())
    }

    /// How a process ended, as the system says it, plus 2³²; [`LEFT_STATUS`]; 0 if nobody knows.
    fn status(&self, index: usize) -> &AtomicU64 {
        self.word((index + 1) * LINE + size_of::<u64>())
    }

    /// The bytes of a process's last words, which are in place.
    fn words_len(&self, index: usize) -> &AtomicU64 {
        self.word((index + 1) * LINE + 2 * size_of::<u64>())
    }

    /// The place of a process's last words.
    fn words(&self, index: usize) -> usize {
        (self.ranks.len() + 1) * LINE + index * WORDS
    }

    /// Says why this process ends, for the others to tell if they miss it.
    pub fn last_words(&self, text: &str) {
        let mut end = text.len().min(WORDS);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let len = self.words_len(self.index);
        // See `begin`.
        let _run = lock(&self.run);
        if len.load(Ordering::Relaxed) == 0 {
            // SAFETY: Within the memory; nobody reads the place before the length says so, and it is written once.
            unsafe { self.memory.write(self.words(self.index), &text.as_bytes()[..end]) };
            len.store(end as u64, Ordering::Release);
        }
    }

    fn words_of(&self, index: usize) -> Option<String> {
        let len = self.words_len(index).load(Ordering::Acquire) as usize;
        if len == 0 {
            return None;
        }
        let mut text = vec![0; len.min(WORDS)];
        // SAFETY: Written before the length said so, and only once.
        unsafe { self.memory.read(self.words(index), &mut text) };
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// A number that tells this lobby from any other.
    pub fn token(&self) -> u64 {
        self.word::<AtomicU64>(TOKEN).load(Ordering::Relaxed)
    }

    fn word<T: Default + Send + Sync + 'static>(&self, at: usize) -> &T {
        // SAFETY: Aligned, and used as this word only.
        unsafe { self.memory.word(at) }
    }

    /// The place of a process's gift, or of the total, after all of them.
    fn place(&self, index: usize) -> usize {
        gifts(self.ranks.len()) + index * self.capacity
    }

    /// The most bytes that each of `processes` processes, of all hosts, can give: all gifts fit a place, each with its length.
    pub fn most(&self, processes: usize) -> usize {
        (self.capacity / processes).saturating_sub(64)
    }

    /// Gives bytes to all processes, and returns the bytes of all, in their order. Waits for all of them.
    ///
    /// Gifts go along a tree to the first process, which tells the total to all. `total` makes it of the gifts: it adds
    /// the gifts of other hosts.
    ///
    /// Each place is used again in the next allgather. A process reads gifts before it gives, and gives before the total is
    /// told; and it reads the total before it gives again.
    ///
    /// # Errors
    ///
    /// A process has ended without taking part. Then all later allgathers fail too.
    ///
    /// # Panics
    ///
    /// For more bytes than [`Self::most`] of the processes here.
    pub fn allgather(
        &self,
        bytes: &[u8],
        total: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        assert!(bytes.len() <= self.most(self.ranks.len()), "{} bytes", bytes.len());
        let allgather = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        if self.has_failed() {
            // Somebody may still read the place.
            return Err(self.fail(self.ranks[0]));
        }
        let mut gifts = Vec::new();
        append(&mut gifts, bytes);
        // The gifts of the processes index + 1, index + 2 to 3, index + 4 to 7 and so on, as far as they are below this one.
        let mut step = 1;
        while self.index & step == 0 && self.index + step < self.ranks.len() {
            let child = self.index + step;
            self.wait(self.given(child), allgather, child)?;
            self.read(child, &mut gifts);
            step *= 2;
        }
        let place = self.ranks.len();
        if self.index == 0 {
            let fits = |gifts: Vec<u8>| match gifts.len() + size_of::<usize>() <= self.capacity {
                true => Ok(gifts),
                false => Err(Error::misuse("what processes agree on", format!("{} bytes", self.capacity), gifts.len())),
            };
            gifts = total(gifts).and_then(fits).map_err(|e| match e {
                Error::ProcessLost { process, .. } => {
                    self.fail(process);
                    e
                }
                // A process is missing that has been noted.
                _ if self.has_failed() => self.fail(self.ranks[0]),
                _ => {
                    self.last_words(&e.to_string());
                    self.fail(self.ranks[0]);
                    e
                }
            })?;
            self.write(place, &gifts);
            self.given(0).count();
            self.told().count();
        } else {
            self.write(self.index, &gifts);
            self.given(self.index).count();
            self.wait(self.told(), allgather, 0)?;
            gifts.clear();
            self.read(place, &mut gifts);
        }
        Ok(parts(&gifts))
    }

    /// Writes to a place: the length, then the bytes.
    fn write(&self, index: usize, bytes: &[u8]) {
        let at = self.place(index);
        let len = bytes.len().to_ne_bytes();
        self.messages.fetch_add(1, Ordering::Relaxed);
        // SAFETY: Nobody reads the place before a count says so.
        unsafe {
            self.memory.write(at, &len);
            self.memory.write(at + len.len(), bytes);
        }
    }

    /// Appends what has been written to a place.
    fn read(&self, index: usize, to: &mut Vec<u8>) {
        let at = self.place(index);
        let mut len = [0; size_of::<usize>()];
        self.messages.fetch_add(1, Ordering::Relaxed);
        // SAFETY: Written before the count said so, and not again before this process gives to the next allgather.
        unsafe {
            self.memory.read(at, &mut len);
            let (start, len) = (to.len(), usize::from_ne_bytes(len).min(self.capacity - size_of::<usize>()));
            to.resize(start + len, 0);
            self.memory.read(at + size_of::<usize>(), &mut to[start..]);
        }
    }

    /// Waits until a process's count has come to this allgather. If it can't, the allgather fails for all.
    fn wait(&self, word: &Awaited, allgather: u32, whose: usize) -> Result<(), Error> {
        loop {
            let seen = word.load();
            if seen & !OVER >= allgather {
                return Ok(());
            }
            if seen & OVER != 0 {
                return Err(self.fail(self.ranks[whose]));
            }
            // Woken, or the count has changed, or interrupted: looks again.
            word.sleep(seen, None);
        }
    }

    /// Lets this allgather and all later ones fail for everybody, because a process is missing. Returns the error, which is
    /// about the first process that was missed.
    fn fail(&self, missed: u32) -> Error {
        let first = self.miss(missed, self.has_left(missed));
        (0..self.ranks.len()).map(|index| self.given(index)).chain([self.told()]).for_each(|word| {
            word.close();
        });
        let error = self.loss(first.unwrap_or(missed));
        if let (None, Some(tell)) = (first, self.tell.get()) {
            tell(&error, self.can_be_orderly());
        }
        error
    }

    /// Notes the process that was missed first. Returns the one that has been noted before.
    fn miss(&self, process: u32, has_left: bool) -> Option<u32> {
        let noted = (process + 1) | if has_left { LEFT } else { 0 };
        let before = self.missed().compare_exchange(0, noted, Ordering::AcqRel, Ordering::Acquire);
        before.err().map(|before| (before & !LEFT) - 1)
    }

    /// Whether a process of this host has left in an orderly way.
    fn has_left(&self, process: u32) -> bool {
        let index = self.ranks.iter().position(|rank| *rank == process);
        index.is_some_and(|index| self.status(index).load(Ordering::Acquire) == LEFT_STATUS)
    }

    /// Whether all processes can end in an orderly way: none is missed, or the one that was missed first has left so.
    pub fn can_be_orderly(&self) -> bool {
        let missed = self.missed().load(Ordering::Acquire);
        missed == 0 || missed & LEFT != 0
    }

    /// This process ends. If that is orderly, so can be the ends of those who miss it.
    pub fn leave(&self, orderly: bool) {
        if orderly {
            self.status(self.index).store(LEFT_STATUS, Ordering::Release);
        }
        self.has_ended(self.index, None);
    }

    /// The error of those who miss this process after it has left.
    pub fn own_end(&self) -> Error {
        self.loss(self.ranks[self.index])
    }

    /// Sets how other hosts are told of a lost process.
    pub fn tell_with(&self, tell: Tell) {
        let _ = self.tell.set(tell);
    }

    /// A process of another host is lost, or has left in an orderly way: the run ends, and all allgathers fail.
    pub fn lose(&self, error: Error, has_left: bool) {
        let Error::ProcessLost { process, .. } = error else { return };
        // For who reports it, on whichever host: known before anybody fails.
        lock(&self.lost).get_or_insert(error);
        if self.miss(process, has_left).is_none() {
            self.fail(process);
        }
        if let Some((_, give_up)) = lock(&self.run).clone() {
            give_up();
        }
    }

    /// The allgather that is under way, or the last one.
    pub fn allgather_number(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Whether all other processes of this host have ended, or are about to.
    pub fn is_last(&self) -> bool {
        (0..self.ranks.len()).all(|index| index == self.index || self.gone(index).load() != 0)
    }

    /// Another host's processes have all left in an orderly way after this allgather, the last of them with this error for
    /// whoever misses it.
    pub fn host_has_left(&self, after: u32, error: Error) {
        lock(&self.left).push((after, error));
    }

    /// Whether all processes of the host of this one, which is missed, have left in an orderly way.
    pub fn is_of_left_host(&self, missed: u32) -> bool {
        let is_it = |error: &Error| matches!(error, Error::ProcessLost { process, .. } if *process == missed);
        lock(&self.left).iter().any(|(_, error)| is_it(error))
    }

    /// Fails the allgather that is under way if a host has left before it.
    pub fn miss_hosts(&self) {
        let now = self.allgather_number();
        let left = lock(&self.left).iter().find(|(after, _)| *after < now).map(|(_, error)| error.clone());
        if let Some(error) = left {
            self.lose(error, true);
        }
    }

    /// The error of a process that has ended too early.
    fn loss(&self, process: u32) -> Error {
        let Some(index) = self.ranks.iter().position(|rank| *rank == process) else {
            let other = || Error::ProcessLost { process, host: "another host".into(), why: "it is gone".into() };
            return lock(&self.lost).clone().unwrap_or_else(other);
        };
        let known = self.status(index).load(Ordering::Acquire);
        let why = match (self.words_of(index), known) {
            (Some(words), _) => format!("it ended with an error of its own: {words}"),
            (None, 0) => "it is gone".into(),
            (None, LEFT_STATUS) => "it ended before the others were done".into(),
            (None, known) => how(ExitStatus::from_raw(known as u32 as i32)),
        };
        Error::ProcessLost { process, host: super::host(), why }
    }

    /// A process has ended, in this way if that is known: nobody waits for it any more.
    pub fn has_ended(&self, index: usize, status: Option<ExitStatus>) {
        if let Some(status) = status {
            self.status(index).store(1 << 32 | u64::from(status.into_raw() as u32), Ordering::Release);
        }
        self.gone(index).count();
        let given = self.given(index).close();
        if index == 0 {
            self.told().close();
        }
        let run = lock(&self.run).clone();
        if let Some((end, give_up)) = run
            && given < end
        {
            self.fail(self.ranks[index]);
            give_up();
        }
    }

    /// A run begins that ends with the next allgather. `give_up` ends it at once, for all processes.
    pub fn begin(&self, give_up: GiveUp) {
        let end = self.begun.load(Ordering::Relaxed) + 1;
        let mut run = lock(&self.run);
        if self.index == 0 && self.words_len(0).load(Ordering::Relaxed) == 0 {
            // Who has reported an error before this run is not there any more if it is lost in it. But a process that has
            // said its last words stays the reporter: another thread is ending it at this moment.
            self.word::<AtomicU32>(REPORTER).store(0, Ordering::Release);
        }
        *run = Some((end, give_up.clone()));
        drop(run);
        let missed = |index: &usize| {
            let given = self.given(*index).load();
            given & OVER != 0 && given & !OVER < end
        };
        if let Some(missed) = (0..self.ranks.len()).find(missed) {
            self.fail(self.ranks[missed]);
            give_up();
        }
    }

    pub fn end(&self) {
        *lock(&self.run) = None;
    }

    /// Whether a run is under way.
    pub fn is_in_run(&self) -> bool {
        lock(&self.run).is_some()
    }

    /// The place of the process that reports the errors of all: the first one, unless it is the one that is missed, or had
    /// ended by then. It stays the same once it is known.
    fn reporter(&self) -> usize {
        let missed = self.missed().load(Ordering::Acquire) & !LEFT;
        let lives = |i: &usize| self.ranks[*i] + 1 != missed && self.gone(*i).load() == 0;
        let first = (0..self.ranks.len()).find(lives).unwrap_or(self.index);
        let word: &AtomicU32 = self.word(REPORTER);
        // While nobody is missed, only the first one knows that it reports.
        if missed == 0 && first != self.index {
            return word.load(Ordering::Acquire).checked_sub(1).map_or(first, |known| known as usize);
        }
        let known = word.compare_exchange(0, first as u32 + 1, Ordering::AcqRel, Ordering::Acquire);
        known.map_or_else(|known| known as usize - 1, |_| first)
    }

    /// Whether this process reports the errors of all, among the processes of its host.
    pub fn reports(&self) -> bool {
        self.reporter() == self.index
    }

    /// The process that was missed first.
    pub fn lost(&self) -> Option<u32> {
        (self.missed().load(Ordering::Acquire) & !LEFT).checked_sub(1)
    }

    /// Waits until the process that reports the errors of all has ended, but no longer than `limit`.
    pub fn wait_for_report(&self, limit: std::time::Duration) {
        let gone = self.gone(self.reporter());
        let until = Instant::now() + limit;
        while !self.reports() && gone.load() == 0 {
            if gone.sleep(0, Some(until)) {
                return;
            }
        }
    }

    /// Whether an allgather has failed.
    pub fn has_failed(&self) -> bool {
        self.missed().load(Ordering::Acquire) != 0
    }
}

/// Appends a gift, with its length.
pub fn append(gifts: &mut Vec<u8>, gift: &[u8]) {
    gifts.extend_from_slice(&(gift.len() as u64).to_ne_bytes());
    gifts.extend_from_slice(gift);
}

/// The gifts that have been appended.
pub fn parts(mut gifts: &[u8]) -> Vec<Vec<u8>> {
    let next = || {
        let (len, more) = gifts.split_first_chunk()?;
        let (gift, more) = more.split_at_checked(u64::from_ne_bytes(*len) as usize)?;
        gifts = more;
        Some(gift.to_vec())
    };
    std::iter::from_fn(next).collect()
}

fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("it was ended by signal {signal}"),
        (None, Some(code)) => format!("it ended with code {code}"),
        (None, None) => "it ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lobbies of `n` processes, all in this one.
    fn lobbies(n: usize) -> Vec<Lobby> {
        let ranks: Vec<u32> = (0..n as u32).collect();
        let first = Lobby::new(ranks.clone()).expect("memory");
        let place = (std::process::id(), first.file());
        let others: Vec<_> = (1..n).map(|i| Lobby::open(i, ranks.clone(), place).expect("opens")).collect();
        std::iter::once(first).chain(others).collect()
    }

    #[test]
    fn another_file_is_no_lobby() {
        let other = Segment::new("another", LINE, 0, true).expect("memory");
        let opened = Lobby::open(1, vec![0, 1], (std::process::id(), other.file()));
        assert_eq!(opened.err().map(|e| e.to_string()).as_deref(), Some("another file"));
    }

    #[test]
    fn all_get_the_gifts_of_all_with_few_messages() {
        for n in 1..=16usize {
            let lobbies = lobbies(n);
            let expected = |round: u8| (0..n).map(|i| vec![i as u8 ^ round; i * 5 % 7]).collect::<Vec<_>>();
            std::thread::scope(|scope| {
                for (i, lobby) in lobbies.iter().enumerate() {
                    scope.spawn(move || {
                        for round in 0..50 {
                            assert_eq!(lobby.allgather(&expected(round)[i], Ok), Ok(expected(round)));
                        }
                    });
                }
            });
            // A process reads the gifts of its children in the tree and the total, and writes its own.
            let levels = n.next_power_of_two().ilog2();
            for lobby in &lobbies {
                let messages = lobby.messages.load(Ordering::Relaxed);
                assert!(messages <= 50 * (levels + 1).max(2), "{n} processes: {messages} messages");
            }
        }
    }

    #[test]
    fn a_process_that_has_ended_is_missed_by_all_and_only_once_it_is_waited_for() {
        for n in 2..=9usize {
            for gone in 0..n {
                let lobbies = lobbies(n);
                let lobbies = &lobbies;
                std::thread::scope(|scope| {
                    for (i, lobby) in lobbies.iter().enumerate() {
                        scope.spawn(move || {
                            assert_eq!(lobby.allgather(&[1], Ok).map(|all| all.len()), Ok(n));
                            if i == gone {
                                // By the one that has started it.
                                lobbies[(gone + 1) % n].has_ended(gone, Some(ExitStatus::from_raw(9)));
                                return;
                            }
                            for _ in 0..2 {
                                let error = lobby.allgather(&[2], Ok).expect_err("one is gone").to_string();
                                assert!(error.starts_with(&format!("process {gone} ")), "{error}");
                                assert!(error.contains("signal 9"), "{error}");
                            }
                        });
                    }
                });
            }
        }
    }

    #[test]
    fn only_who_misses_a_process_that_has_left_in_an_orderly_way_can_be_orderly() {
        for orderly in [true, false] {
            let lobbies = lobbies(3);
            assert!(lobbies.iter().all(Lobby::can_be_orderly));
            lobbies[1].leave(orderly);
            // Nobody has missed it yet.
            assert!(lobbies.iter().all(|lobby| lobby.can_be_orderly() && !lobby.has_failed()));
            for index in [0, 2] {
                let error = lobbies[index].allgather(&[1], Ok).expect_err("process 1 is missed");
                assert!(matches!(error, Error::ProcessLost { process: 1, .. }), "{error}");
            }
            assert!(lobbies.iter().all(|lobby| lobby.can_be_orderly() == orderly && lobby.lost() == Some(1)));
            // It ends for good: its end is known to the others by then.
            lobbies[0].has_ended(1, None);
            assert!(lobbies.iter().all(|lobby| lobby.can_be_orderly() == orderly));
        }
    }

    /// As when a signal ends the first process between two runs.
    #[test]
    fn who_has_said_its_last_words_stays_the_reporter() {
        for says in [true, false] {
            let lobbies = lobbies(2);
            if says {
                lobbies[0].last_words("ended by the launcher");
            }
            assert!(lobbies[0].reports());
            lobbies[0].begin(Arc::new(|| {}));
            lobbies[1].has_ended(0, None);
            assert!(lobbies[1].allgather(&[], Ok).is_err());
            assert_eq!(lobbies[1].reports(), !says);
        }
    }

    #[test]
    fn a_process_that_ends_in_a_run_ends_it() {
        let lobbies = lobbies(3);
        let gave_up = Arc::new(AtomicU32::new(0));
        let counted = gave_up.clone();
        let give_up: GiveUp = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        lobbies[0].begin(give_up.clone());
        lobbies[1].has_ended(2, None);
        // This process had no run under way.
        assert_eq!(gave_up.load(Ordering::Relaxed), 0);
        lobbies[0].has_ended(2, None);
        assert_eq!(gave_up.load(Ordering::Relaxed), 1);
        // It had ended before this one began.
        lobbies[1].begin(give_up);
        assert_eq!(gave_up.load(Ordering::Relaxed), 2);
        assert!(matches!(lobbies[1].allgather(&[], Ok), Err(Error::ProcessLost { process: 2, .. })));
    }
}
