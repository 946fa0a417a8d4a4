//! Messages between processors of different hosts. A [`Carrier`] carries them as frames: a head, and bulk data beside it
//! as it is.

use super::agreement::{Collected, Notice, Said};
use super::packet::failed;
use super::rings::Failure;
use super::segments::Layout;
use crate::ids::ProcessorId;
use crate::message::{Bulk, Message};
use crate::wire::park::fence;
use crate::wire::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::wire::sync::channel::{Receiver, Sender, unbounded};
use crate::wire::sync::{MODEL, Mutex, MutexGuard};
use crate::wire::threads::counts;
use crate::wire::threads::post::{Origin, Publics, Way};
use maniple_regions::Buffer;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

/// Carries frames between processes of different hosts. Frames from one process to another keep their order.
pub trait Carrier: Send + Sync {
    /// Sends a frame to a process. Never waits.
    fn send(&self, to: u32, frame: Frame);
    /// Goes on with what is under way, unless another thread is at it, and tells what has happened. True if there was news, or
    /// something is still under way. Never waits.
    fn progress(&self, tell: &mut dyn FnMut(News)) -> bool;
    /// Whether nothing is being sent.
    fn is_idle(&self) -> bool;
}

/// What is carried.
#[derive(Default)]
pub struct Frame {
    /// A few kilobytes at most.
    pub head: Vec<u8>,
    pub parts: Vec<FramePart>,
    /// What the carrier tells when it has left, if anything.
    pub tell: Option<Leaving>,
}

/// Large values on their way to another host.
#[derive(Debug, Clone, Copy)]
pub struct Leaving {
    run: u32,
    from: ProcessorId,
    to: ProcessorId,
}

/// What a carrier tells.
pub enum News {
    /// A frame has come from this process.
    Came(u32, Frame),
    /// The frame with these values has left: nothing of it is to be sent any more.
    Left(Leaving),
}

/// Bytes beside the head of a frame.
pub enum FramePart {
    Bulk(Bulk),
    Bytes(Vec<u8>),
}

impl FramePart {
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            FramePart::Bulk(bulk) => bulk.as_bytes(),
            FramePart::Bytes(bytes) => bytes,
        }
    }

    /// The bytes of a buffer, to receive into.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        match self {
            FramePart::Bulk(Bulk::Buffer(buffer)) => buffer.as_bytes_mut(),
            FramePart::Bulk(Bulk::Lent(_)) | FramePart::Bytes(_) => &mut [],
        }
    }

    fn into_buffer(self) -> Buffer {
        match self {
            FramePart::Bulk(Bulk::Buffer(buffer)) => buffer,
            FramePart::Bulk(Bulk::Lent(_)) | FramePart::Bytes(_) => Buffer::from_bytes(self.as_bytes()),
        }
    }
}

/// The beginning of a frame's head. The encoded message follows it.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    run: u32,
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
enum What {
    /// If it is long, the encoded message is the first part.
    Message {
        from: ProcessorId,
        to: ProcessorId,
        long: bool,
    },
    /// This many bytes of messages have been taken.
    Taken(u64),
    Notice(Notice),
}

/// The most bytes of a message that are in the head.
const SHORT: usize = 4096;
/// As soon as this many bytes are under way to a process and have not been taken there, messages to it wait.
const WINDOW: usize = if MODEL { 2 * EACH } else { 64 << 20 };
/// A process says what it has taken when it comes to this, which is less than the window.
const SAY: u64 = WINDOW as u64 / if MODEL { 1 } else { 8 };
/// What a message counts beside its bytes.
const EACH: usize = 64;

/// Where a run's processes are.
pub struct Hosts {
    pub layout: Layout,
    pub run: u32,
    /// This process's number.
    pub rank: u32,
    /// For each process, the first process of its host.
    pub first_of: Vec<u32>,
    /// The utility processors of this process.
    pub utility: Vec<ProcessorId>,
}

impl Hosts {
    /// The first process of each host.
    fn firsts(&self) -> Vec<u32> {
        let mut firsts = self.first_of.clone();
        firsts.sort_unstable();
        firsts.dedup();
        firsts
    }

    /// The processors of this process.
    fn own(&self) -> Range<usize> {
        let workers = self.layout.workers as usize;
        let first = self.rank as usize * workers;
        first..first + workers
    }

    /// Whether a processor is on this host.
    pub fn is_near(&self, processor: ProcessorId) -> bool {
        self.first_of[self.layout.process_of(processor)] == self.first_of[self.rank as usize]
    }
}

/// What goes between this process and another.
#[derive(Default)]
struct Peer {
    /// Bytes of messages to it that it has not said it has taken.
    under_way: AtomicUsize,
    /// Bytes of messages from it that have been taken, which it has not been told.
    taken: AtomicU64,
    /// Frames of this run to it and from it.
    sent: AtomicU64,
    received: AtomicU64,
}

type Taken = (usize, Message);
type Inlets = HashMap<(ProcessorId, ProcessorId), Option<Sender<Taken>>>;
type Hall = Mutex<Vec<(ProcessorId, Receiver<Taken>)>>;

/// The messages of a run between this process and the processes of other hosts.
pub struct Link {
    carrier: Arc<dyn Carrier>,
    pub hosts: Hosts,
    peers: Vec<Peer>,
    /// The ways from processors of other hosts to processors of this process; `None` if the processor has left.
    inlets: Mutex<Inlets>,
    /// For each processor of this process, the ends of ways that it has not fetched.
    halls: Vec<Hall>,
    failed: Arc<Failure>,
    /// For the first process of a host.
    talk: Option<Mutex<Talk>>,
}

/// What the first process of a host tells the first processes of other hosts, and learns from them.
struct Talk {
    firsts: Vec<u32>,
    /// The processors of this host.
    near: Vec<usize>,
    said: Said,
    /// For the first host.
    collected: Option<Collected>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub fn new(carrier: Arc<dyn Carrier>, hosts: Hosts, failed: Arc<Failure>) -> Self {
        let first = hosts.first_of[hosts.rank as usize];
        let talk = (hosts.rank == first).then(|| {
            let firsts = hosts.firsts();
            let all = 0..hosts.layout.processors() as u32;
            let near = all.map(ProcessorId).filter(|id| hosts.is_near(*id)).map(ProcessorId::index).collect();
            let collected = (first == firsts[0]).then(|| Collected::new(firsts.len()));
            Mutex::new(Talk { firsts, near, said: Said::default(), collected })
        });
        Self {
            carrier,
            peers: hosts.first_of.iter().map(|_| Peer::default()).collect(),
            inlets: Mutex::default(),
            halls: hosts.own().map(|_| Hall::default()).collect(),
            hosts,
            failed,
            talk,
        }
    }

    /// Whether a processor is told when large values for another one have left. One that runs tasks would learn it only after a
    /// task, and then send the next ones: that takes longer than to send all at once.
    pub fn tells_when_left(&self, from: ProcessorId, to: ProcessorId) -> bool {
        self.hosts.utility.contains(&from) && !self.hosts.is_near(to)
    }

    /// The way from a processor of this process to one of another host.
    pub fn way(self: &Arc<Self>, from: ProcessorId, to: ProcessorId) -> Box<dyn Way<Message>> {
        Box::new(Out { link: self.clone(), from, to, process: self.hosts.layout.process_of(to) })
    }

    /// The ends of ways from other hosts that have been opened to a processor since the last call.
    pub fn fetch(self: &Arc<Self>, me: ProcessorId) -> Vec<(ProcessorId, Box<dyn Origin<Message>>)> {
        let ends = std::mem::take(&mut *lock(&self.halls[me.index() - self.hosts.own().start]));
        let ends = ends.into_iter().map(|(from, end)| {
            let process = self.hosts.layout.process_of(from);
            (from, Box::new(In { link: self.clone(), pair: (from, me), process, end }) as Box<dyn Origin<Message>>)
        });
        ends.collect()
    }

    /// Goes on with what is under way. True if there was news, or something is still under way. Never waits.
    pub fn progress(&self, publics: &Publics) -> bool {
        let news = self.carrier.progress(&mut |news| self.hear_of(publics, news));
        if let Some(talk) = &self.talk {
            let talk = match talk.try_lock() {
                Ok(talk) => Some(talk),
                Err(TryLockError::Poisoned(talk)) => Some(talk.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(mut talk) = talk {
                self.say(publics, &mut talk);
            }
        }
        news
    }

    fn send(&self, to: u32, what: What) {
        self.send_with(to, what, Vec::new(), &[], None);
    }

    fn send_with(&self, to: u32, what: What, parts: Vec<FramePart>, after: &[u8], tell: Option<Leaving>) {
        let head = Vec::with_capacity(32 + after.len());
        // It has neither maps nor sequences, so it can be encoded.
        let mut head = postcard::to_extend(&Head { run: self.hosts.run, what }, head).unwrap_or_default();
        head.extend_from_slice(after);
        self.peers[to as usize].sent.fetch_add(1, Ordering::Relaxed);
        self.carrier.send(to, Frame { head, parts, tell });
    }

    fn hear_of(&self, publics: &Publics, news: News) {
        match news {
            News::Came(source, frame) => self.take_in(publics, source, frame),
            // As if the receiver said so, because a processor has no way to itself.
            News::Left(Leaving { run, from, to }) if run == self.hosts.run => {
                self.hand_over(publics, (to, from), (0, Message::Left { to }));
            }
            News::Left(_) => {}
        }
    }

    fn take_in(&self, publics: &Publics, source: u32, frame: Frame) {
        let Ok((head, body)) = postcard::take_from_bytes::<Head>(&frame.head) else { return };
        if head.run != self.hosts.run {
            // Of a run that was given up.
            return;
        }
        let peer = &self.peers[source as usize];
        peer.received.fetch_add(1, Ordering::Relaxed);
        match head.what {
            What::Message { from, to, long } => {
                let cost = frame.parts.iter().map(|part| part.as_bytes().len()).sum::<usize>() + body.len() + EACH;
                let mut parts = frame.parts.into_iter();
                let first = long.then(|| parts.next()).flatten();
                let decoded =
                    postcard::from_bytes(first.as_ref().map_or(body, FramePart::as_bytes)).map(|mut message| {
                        Message::put_bulk(&mut message, parts.map(FramePart::into_buffer));
                        message
                    });
                let message = decoded.unwrap_or_else(|e| Message::Lost(Box::new(failed(from, to, &e))));
                self.hand_over(publics, (from, to), (cost, message));
            }
            What::Taken(bytes) => {
                peer.under_way.fetch_sub(bytes as usize, Ordering::Relaxed);
            }
            What::Notice(notice) => {
                if let Some(talk) = &self.talk {
                    self.hear(publics, &mut lock(talk), source, notice);
                }
            }
        }
    }

    /// Hands a message over to its processor, which may sleep.
    fn hand_over(&self, publics: &Publics, (from, to): (ProcessorId, ProcessorId), message: Taken) {
        let own = self.hosts.own();
        if !own.contains(&to.index()) {
            return;
        }
        let cost = message.0;
        let mut inlets = lock(&self.inlets);
        let inlet = inlets.entry((from, to)).or_insert_with(|| {
            let (inlet, end) = unbounded();
            let mut hall = lock(&self.halls[to.index() - own.start]);
            hall.push((from, end));
            // As for a ring in memory of this process: counted under the lock.
            publics[to.index()].opened.fetch_add(1, Ordering::Release);
            Some(inlet)
        });
        if inlet.as_ref().is_none_or(|inlet| inlet.send(message).is_err()) {
            self.taken(self.hosts.layout.process_of(from), cost);
        }
        fence();
        publics[to.index()].parker.nudge();
    }

    /// Messages of a process have been taken.
    fn taken(&self, process: usize, bytes: usize) {
        let peer = &self.peers[process];
        if peer.taken.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 >= SAY {
            let taken = peer.taken.swap(0, Ordering::Relaxed);
            if taken > 0 {
                self.send(process as u32, What::Taken(taken));
            }
        }
    }

    /// Says to the other hosts what is new on this one.
    fn say(&self, publics: &Publics, talk: &mut Talk) {
        if publics[talk.near[0]].given_up.load(Ordering::SeqCst) {
            if talk.said.given_up() {
                let others = talk.firsts.iter().filter(|first| **first != self.hosts.rank);
                others.for_each(|first| self.send(*first, What::Notice(Notice::GiveUp)));
            }
            return;
        }
        let near = || talk.near.iter().map(|id| &publics[*id]);
        if near().all(|public| public.done.load(Ordering::Acquire))
            && let Some(done) = talk.said.done()
        {
            self.tell_first(publics, talk, done);
        }
        let near = || talk.near.iter().map(|id| &publics[*id]);
        if let (Some(counts), Some(again)) = (counts(near()), counts(near()))
            && counts == again
            && let Some(idle) = talk.said.idle(counts)
        {
            self.tell_first(publics, talk, idle);
        }
    }

    /// Tells the first host something.
    fn tell_first(&self, publics: &Publics, talk: &mut Talk, notice: Notice) {
        match talk.firsts[0] {
            first if first == self.hosts.rank => self.hear(publics, talk, self.hosts.rank, notice),
            first => self.send(first, What::Notice(notice)),
        }
    }

    /// Another host, or this one, has said something.
    fn hear(&self, publics: &Publics, talk: &mut Talk, from: u32, notice: Notice) {
        let host = talk.firsts.iter().position(|first| *first == from);
        let told = talk.collected.as_mut().zip(host).and_then(|(collected, host)| collected.take(host, notice));
        if let Some(told) = told {
            let others = talk.firsts.iter().filter(|first| **first != self.hosts.rank);
            others.for_each(|first| self.send(*first, What::Notice(told)));
        }
        match told.unwrap_or(notice) {
            Notice::Ask { wave } => talk.said.asked(wave),
            Notice::GiveUp => {
                // Everybody has been told.
                talk.said.given_up();
                publics.give_up();
            }
            Notice::AllDone => {
                publics.iter().for_each(|public| public.done.store(true, Ordering::Release));
                // There nobody takes messages any more, and nobody needs them.
                if let Some(far) = (0..).map(ProcessorId).take(publics.len()).find(|id| !self.hosts.is_near(*id)) {
                    publics[far.index()].gone.store(true, Ordering::Release);
                }
                fence();
                publics.iter().for_each(|public| public.parker.wake());
            }
            Notice::Idle { .. } | Notice::Done => {}
        }
    }

    /// The frames of this run to each process that has been sent any.
    pub fn sent(&self) -> Vec<(u32, u64)> {
        let sent = self.peers.iter().map(|peer| peer.sent.load(Ordering::Relaxed));
        (0..).zip(sent).filter(|(_, sent)| *sent > 0).collect()
    }

    /// After all threads have left: waits until the frames that other processes have sent in this run are here, and this
    /// process's have left, or until `over`. So nothing is left for a later run.
    pub fn drain(&self, sent: &[(u32, u64)], publics: &Publics, over: impl Fn() -> bool) {
        let here = || sent.iter().all(|(from, n)| self.peers[*from as usize].received.load(Ordering::Relaxed) >= *n);
        let mut pause = Duration::from_micros(1);
        while !(over() || here() && self.carrier.is_idle()) {
            let goes_on = self.carrier.progress(&mut |news| self.hear_of(publics, news));
            pause = if goes_on { Duration::from_micros(1) } else { (pause * 2).min(Duration::from_millis(1)) };
            std::thread::sleep(pause);
        }
    }
}

/// The way to a processor of another host.
struct Out {
    link: Arc<Link>,
    from: ProcessorId,
    to: ProcessorId,
    process: usize,
}

impl Way<Message> for Out {
    fn push(&mut self, mut message: Message) -> Result<(), Message> {
        let (link, peer) = (&self.link, &self.link.peers[self.process]);
        if peer.under_way.load(Ordering::Relaxed) >= WINDOW {
            return Err(message);
        }
        let (from, to) = (self.from, self.to);
        let tells = link.tells_when_left(from, to) && message.are_large_values();
        let tell = tells.then_some(Leaving { run: link.hosts.run, from, to });
        let mut parts: Vec<FramePart> = message.take_bulk().into_iter().map(FramePart::Bulk).collect();
        let mut body = match postcard::to_stdvec(&message) {
            Ok(body) => body,
            Err(e) => {
                link.failed.note(failed(from, to, &e));
                return Ok(());
            }
        };
        let long = body.len() > SHORT;
        if long {
            parts.insert(0, FramePart::Bytes(std::mem::take(&mut body)));
        }
        let cost = parts.iter().map(|part| part.as_bytes().len()).sum::<usize>() + body.len() + EACH;
        peer.under_way.fetch_add(cost, Ordering::Relaxed);
        link.send_with(self.process as u32, What::Message { from, to, long }, parts, &body, tell);
        Ok(())
    }
}

/// The end of a way from a processor of another host.
struct In {
    link: Arc<Link>,
    pair: (ProcessorId, ProcessorId),
    process: usize,
    end: Receiver<Taken>,
}

impl Origin<Message> for In {
    fn pop(&mut self) -> Option<Message> {
        let (cost, message) = self.end.try_recv().ok()?;
        self.link.taken(self.process, cost);
        Some(message)
    }

    fn is_empty(&self) -> bool {
        self.end.is_empty()
    }
}

impl Drop for In {
    fn drop(&mut self) {
        // What nobody takes any more is no longer under way. Handing over takes the same lock, so nothing comes after this.
        let link = self.link.clone();
        let mut inlets = lock(&link.inlets);
        while self.pop().is_some() {}
        inlets.insert(self.pair, None);
    }
}
