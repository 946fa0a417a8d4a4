//! Frames between processes of different hosts, as messages of MPI: the head of a frame, then each of its parts.
//!
//! Whoever holds the lock of [`World`] goes on with all that is under way. Nobody waits for the lock: what is to be sent
//! is queued, and the holder looks at the queue once more after it has let go.

use super::super::link::{Carrier, Frame, FramePart, Leaving, News};
use super::super::lobby::Lobby;
use super::communicator::Came;
use super::functions::{Failed, Request};
use super::{Shared, World};
use crate::Error;
use crate::message::Bulk;
use maniple_regions::Buffer;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The tags of the head of a frame and of its parts.
const HEAD: c_int = 1;
const PART: c_int = 2;
/// The most bytes of one message of MPI. The handshake of each large message then goes on beside the data of others: 1 MiB
/// over TCP takes half the time that it takes in one message. With a quarter of this or less the handshakes add up.
const CHUNK: usize = 1 << 19;
/// The most heads that are received, and the most sends that are asked about, in one go.
const AT_ONCE: usize = 64;
// The kind of a frame, in the first byte of its head.
/// Part of a run.
const OF_RUN: u8 = 0;
/// A process is lost.
const LOSS: u8 = 1;
/// A process has left in an orderly way.
const LEFT: u8 = 2;
/// All processes of a host have left in an orderly way.
const HOST_LEFT: u8 = 3;

pub struct MpiCarrier {
    world: &'static World,
    all: Shared,
    /// Frames that MPI has not been given yet: the kind, and to whom.
    queue: (crossbeam_channel::Sender<Queued>, crossbeam_channel::Receiver<Queued>),
    state: Mutex<State>,
    lobby: Arc<Lobby>,
    /// The processes of other hosts.
    others: Vec<u32>,
}

type Queued = (u8, u32, Frame);

/// What is under way. Its lock is taken while the world's lock is held.
#[derive(Default)]
struct State {
    sending: VecDeque<Sending>,
    /// By sender, in the order in which they were sent.
    arriving: HashMap<u32, VecDeque<Box<Arriving>>>,
    /// What is to be told: frames that are here, and that frames have left.
    news: VecDeque<News>,
}

/// A frame that MPI reads.
struct Sending {
    to: u32,
    requests: Vec<Request>,
    _head: Vec<u8>,
    _parts: Vec<FramePart>,
    tell: Option<Leaving>,
}

/// A frame whose parts MPI writes.
struct Arriving {
    requests: Vec<Request>,
    frame: Frame,
    kind: u8,
}

impl MpiCarrier {
    pub fn new(world: &'static World, all: Shared, lobby: Arc<Lobby>, others: Vec<u32>) -> Self {
        all.return_errors();
        Self { world, all, queue: crossbeam_channel::unbounded(), state: Mutex::default(), lobby, others }
    }

    /// Tells all processes of other hosts of a lost process, or of one that has left in an orderly way.
    pub fn tell_loss(&self, error: &Error, has_left: bool) {
        let head = postcard::to_stdvec(error).unwrap_or_default();
        let kind = if has_left { LEFT } else { LOSS };
        for other in &self.others {
            self.give(kind, *other, Frame { head: head.clone(), ..Frame::default() });
        }
    }

    /// Tells all processes of other hosts that the processes of this one have left, after this allgather.
    pub fn tell_host_left(&self, after: u32, error: &Error) {
        let head = postcard::to_stdvec(&(after, error)).unwrap_or_default();
        for other in &self.others {
            self.give(HOST_LEFT, *other, Frame { head: head.clone(), ..Frame::default() });
        }
    }

    /// Goes on with what is under way, but delivers nothing of a run. True as for [`Carrier::progress`].
    pub fn go_on(&self) -> bool {
        self.with_state(|state| self.go_on_with(state)).unwrap_or(false)
    }

    /// Goes on for so long. MPI takes what is to be sent before it has a connection, and does not say when it has gone.
    pub fn go_on_for(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.go_on();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Goes on once, unless another thread does not let go of MPI for so long. Open MPI's worker for TCP, for one, tells
    /// the launcher of a lost connection and waits until that answers.
    pub fn listens(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while self.with_state(|state| self.go_on_with(state)).is_none() {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Calls `body`, unless somebody else uses MPI, or nobody may any more.
    fn with_state<T>(&self, body: impl FnOnce(&mut State) -> T) -> Option<T> {
        let _calls = self.world.try_calls()?;
        if super::FINALISED.load(Ordering::SeqCst) {
            return None;
        }
        let mut state: MutexGuard<'_, State> = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Some(body(&mut state))
    }

    fn give(&self, kind: u8, to: u32, frame: Frame) {
        // The receiving end is here.
        let _ = self.queue.0.send((kind, to, frame));
        while !self.queue.1.is_empty() && self.with_state(|state| self.start_queued(state)).is_some() {}
    }

    fn start_queued(&self, state: &mut State) -> bool {
        let mut news = false;
        while let Ok((kind, to, frame)) = self.queue.1.try_recv() {
            news = true;
            self.start(state, kind, to, frame);
        }
        news
    }

    /// Gives a frame to MPI.
    fn start(&self, state: &mut State, kind: u8, to: u32, Frame { head, parts, tell }: Frame) {
        let mut with_lens = vec![kind];
        with_lens.extend_from_slice(&(parts.len() as u32).to_le_bytes());
        for part in &parts {
            with_lens.extend_from_slice(&(part.as_bytes().len() as u64).to_le_bytes());
        }
        with_lens.extend_from_slice(&head);
        let messages = parts.iter().flat_map(|part| part.as_bytes().chunks(CHUNK)).map(|chunk| (PART, chunk));
        let messages: Vec<_> = std::iter::once((HEAD, &with_lens[..])).chain(messages).collect();
        let mut requests = Vec::with_capacity(messages.len());
        for (tag, bytes) in messages {
            // SAFETY: `Sending` keeps the bytes until it has ended.
            requests.extend(self.check(to, unsafe { self.all.start_send(bytes, to, tag) }));
        }
        self.send_on(state, Sending { to, requests, _head: with_lens, _parts: parts, tell });
    }

    /// Goes on to send a frame. Whether it has left.
    fn send_on(&self, state: &mut State, mut sending: Sending) -> bool {
        let has_left = self.is_over(sending.to, &mut sending.requests);
        match has_left {
            true => state.news.extend(sending.tell.map(News::Left)),
            false => state.sending.push_back(sending),
        }
        has_left
    }

    /// Whether the operations with a process have ended. Those that have are forgotten.
    fn is_over(&self, with: u32, requests: &mut Vec<Request>) -> bool {
        while let Some(last) = requests.last_mut() {
            if self.check(with, self.world.mpi.has_ended(last)) == Some(false) {
                return false;
            }
            requests.pop();
        }
        true
    }

    /// A failed operation means that the other process is lost.
    fn check<T>(&self, with: u32, done: Result<T, Failed>) -> Option<T> {
        done.map_err(|Failed(code)| {
            let why = format!("MPI can't reach it (error {code})");
            self.lobby.lose(Error::ProcessLost { process: with, host: "another host".into(), why }, false);
        })
        .ok()
    }

    fn go_on_with(&self, state: &mut State) -> bool {
        let mut news = self.start_queued(state);
        for _ in 0..state.sending.len().min(AT_ONCE) {
            let Some(sending) = state.sending.pop_front() else { break };
            news |= self.send_on(state, sending);
        }
        for _ in 0..AT_ONCE {
            if !self.receive_head(state) {
                break;
            }
            news = true;
        }
        state.arriving.retain(|from, frames| {
            while let Some(first) = frames.front_mut()
                && self.is_over(*from, &mut first.requests)
                && let Some(Arriving { frame, kind, .. }) = frames.pop_front().map(|first| *first)
            {
                news = true;
                match kind {
                    OF_RUN => state.news.push_back(News::Came(*from, frame)),
                    HOST_LEFT => {
                        if let Ok((after, error)) = postcard::from_bytes(&frame.head) {
                            self.lobby.host_has_left(after, error);
                        }
                    }
                    _ => {
                        let error = postcard::from_bytes(&frame.head).unwrap_or(Error::ProcessLost {
                            process: *from,
                            host: "another host".into(),
                            why: "it reported a lost process in a form that this process can't read".into(),
                        });
                        self.lobby.lose(error, kind == LEFT);
                    }
                }
            }
            !frames.is_empty()
        });
        // MPI moves what is under way only while it is called. So nobody naps for long until then.
        news || !state.sending.is_empty() || !state.arriving.is_empty()
    }

    /// Takes a head that has come, and lets MPI receive the parts of its frame. False if there is none.
    fn receive_head(&self, state: &mut State) -> bool {
        let Came { from, bytes: head } = match self.all.take(HEAD) {
            Ok(Some(came)) => came,
            Err((Some(from), failed)) => return self.check::<()>(from, Err(failed)).is_some(),
            Ok(None) | Err((None, _)) => return false,
        };
        let Some((kind, lens, start)) = lens_of(&head) else { return true };
        let parts = lens.iter().map(|len| FramePart::Bulk(Bulk::Buffer(Buffer::zeroed(*len as usize)))).collect();
        let frame = Frame { head: head[start..].to_vec(), parts, tell: None };
        // In a box first: the buffers stay where they are while MPI writes to them.
        let mut arriving = Box::new(Arriving { requests: Vec::new(), frame, kind });
        let Arriving { requests, frame, .. } = &mut *arriving;
        for chunk in frame.parts.iter_mut().flat_map(|part| part.as_bytes_mut().chunks_mut(CHUNK)) {
            // SAFETY: `Arriving` keeps the bytes until it has ended.
            requests.extend(self.check(from, unsafe { self.all.start_receive(chunk, from, PART) }));
        }
        state.arriving.entry(from).or_default().push_back(arriving);
        true
    }
}

/// The kind of a frame, the lengths of its parts, and where its own head begins.
fn lens_of(head: &[u8]) -> Option<(u8, Vec<u64>, usize)> {
    let (kind, rest) = head.split_first()?;
    let (parts, rest) = rest.split_first_chunk()?;
    let lens = rest.as_chunks().0.get(..u32::from_le_bytes(*parts) as usize)?;
    let start = 1 + size_of::<u32>() + size_of_val(lens);
    Some((*kind, lens.iter().map(|len| u64::from_le_bytes(*len)).collect(), start))
}

impl Carrier for MpiCarrier {
    fn send(&self, to: u32, frame: Frame) {
        self.give(OF_RUN, to, frame);
    }

    fn progress(&self, tell: &mut dyn FnMut(News)) -> bool {
        let mut news = false;
        loop {
            let went_on = self.with_state(|state| {
                let news = self.go_on_with(state);
                // Under the lock, so that the frames of a process keep their order.
                let some = !state.news.is_empty();
                state.news.drain(..).for_each(&mut *tell);
                news || some
            });
            news |= went_on.unwrap_or(false);
            if went_on.is_none() || self.queue.1.is_empty() {
                return news;
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.queue.1.is_empty() && self.with_state(|state| state.sending.is_empty()) == Some(true)
    }
}
