//! The network in virtual time: messages on their way, and the times at which they leave and come.

use super::END;
use super::machine::{LinkPs, Ps, VirtualMachine};
use super::mail::Mail;
use super::order::Order;
use super::queue::Queue;
use super::shared::{self, SharedWays};
use crate::Error;
use crate::error::Failure;
use crate::ids::{EMPTY, ObjectId, ProcessorId};
use crate::message::{BatchDone, Message};
use crate::payload::{Length, Payload};
use maniple_mapper::Machine;
use std::collections::{HashMap, VecDeque};

/// What happens at a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// A letter is ready for its node's way out.
    Leaves(u32),
    /// A letter has reached the other node's way in.
    Reaches(u32),
    /// A letter has come to its receiver.
    Comes(u32),
    /// A message that shares ways may have ended: its place and turn among those.
    Ends(u32, u32),
    Step(ProcessorId),
    /// A timer of a processor may be over.
    Alarm(ProcessorId),
}

/// The network, and what happens next.
pub(super) struct Net {
    pub events: Queue<What>,
    /// Messages on their way, and those that have come but are not handled.
    pub mail: Mail,
    pub machine: Machine,
    /// The link within a node, and the one between nodes.
    pub links: [LinkPs; 2],
    /// When each node's way out and way in become free.
    out: Vec<Ps>,
    into: Vec<Ps>,
    /// The messages that share ways, if the machine lets them.
    shared: Option<SharedWays>,
    /// The bytes up to which a message moves at once.
    rendezvous: Option<u64>,
    pub order: Order,
    acknowledge: bool,
    noise: f64,
    random: fastrand::Rng,
    /// For each pair where messages could overtake: when its last message comes, or reaches the way in.
    last: HashMap<(ProcessorId, ProcessorId), Ps>,
    /// The objects whose values count for other lengths than their own.
    pub lengths: HashMap<ObjectId, Length>,
    /// Calls of top-level tasks, for processor 0 to compare. They take no time.
    pub replicated: VecDeque<(ProcessorId, Message)>,
    pub error: Option<Error>,
}

impl Net {
    /// The network of a run on a machine.
    pub fn new(machine: Machine, of: &VirtualMachine) -> Self {
        let nodes = machine.nodes() as usize;
        Self {
            events: Queue::new(),
            mail: Mail::default(),
            machine,
            links: of.links(),
            out: vec![0; nodes],
            into: vec![0; nodes],
            shared: of.sharing.then(|| SharedWays::new(nodes)),
            rendezvous: of.rendezvous_bytes,
            order: Order::default(),
            acknowledge: of.acknowledge,
            noise: of.noise,
            random: fastrand::Rng::with_seed(of.seed),
            last: HashMap::new(),
            lengths: HashMap::new(),
            replicated: VecDeque::new(),
            error: None,
        }
    }

    /// A duration with its noise.
    pub fn noisy(&mut self, time: Ps) -> Ps {
        if self.noise == 0.0 {
            return time;
        }
        time.saturating_add((time as f64 * self.noise * self.random.f64()) as Ps).min(END)
    }

    pub fn link(&self, from: ProcessorId, to: ProcessorId) -> LinkPs {
        self.links[usize::from(!self.machine.same_node(from, to))]
    }

    /// Whether a message takes no processor's time: see [`VirtualMachine::acknowledge`].
    pub fn is_free(&self, message: &Message) -> bool {
        match message {
            Message::Left { .. } => true,
            Message::Arrive { cell, payload: Payload::None, .. } => !self.acknowledge && cell & EMPTY != 0,
            _ => false,
        }
    }

    /// How long a message keeps its node's way busy, and how much of that is for its bytes.
    fn busy(&self, link: LinkPs, message: Option<&Message>) -> (Ps, Ps) {
        match message {
            Some(message) if self.is_free(message) => (0, 0),
            message => link.busy(|| message.map_or(0, |message| self.size(message))),
        }
    }

    /// A processor sends a message at `now`. That may be later than the next event elsewhere.
    pub fn carry(&mut self, now: Ps, from: ProcessorId, to: ProcessorId, message: Message) {
        let is_long = |most| !self.is_free(&message) && self.size(&message) as u64 > most;
        let is_long = !self.machine.same_node(from, to) && self.rendezvous.is_some_and(is_long);
        // Values that share ways are in no order.
        let shares = self.shared.is_some() && message.are_large_values();
        let letter = self.mail.post(from, to, message);
        if !shares {
            self.order.sent((from, to), letter, is_long);
        }
        match is_long {
            true => self.asks(now, from, to, (letter, false)),
            false => self.goes(letter, now),
        }
    }

    /// A processor asks whether a long message may come, or answers that it may.
    pub fn asks(&mut self, now: Ps, from: ProcessorId, to: ProcessorId, (letter, answers): (u32, bool)) {
        let letter = self.mail.post(from, to, Message::Rendezvous { letter, answers });
        self.goes(letter, now);
    }

    /// A letter goes on its way at `now`.
    pub fn goes(&mut self, letter: u32, now: Ps) {
        let (from, to) = self.mail.address(letter);
        let link = self.link(from, to);
        // What asks and answers goes between the packets of long messages.
        let is_between = matches!(self.mail.message(letter), Some(Message::Rendezvous { .. }));
        if link.has_ways() && !self.machine.same_node(from, to) && !is_between {
            // Processors of a node share its way out, and which one is first is known only when the time comes.
            match self.machine.processors() == self.machine.nodes() {
                true => self.leaves(letter, now),
                false => self.events.push(now, What::Leaves(letter)),
            }
            return;
        }
        let comes = now + self.noisy(link.latency) + self.busy(link, self.mail.message(letter)).1;
        let comes = if is_between { comes } else { self.after_last(comes, from, to) };
        self.events.push(comes, What::Comes(letter));
    }

    /// A message waits for its node's way out from `now` on.
    pub fn leaves(&mut self, letter: u32, now: Ps) {
        let (from, to) = self.mail.address(letter);
        let (link, own) = (self.link(from, to), self.machine.node_of(from).index());
        let busy = self.busy(link, self.mail.message(letter)).0;
        let is_large = self.mail.message(letter).is_some_and(Message::are_large_values);
        if is_large && let Some(shared) = &mut self.shared {
            let mut ends = Vec::new();
            shared.begin(letter, (self.machine.node_of(from), self.machine.node_of(to)), busy, now, &mut ends);
            return self.push_ends(ends);
        }
        let leaves = now.max(self.out[own]);
        self.out[own] = leaves.saturating_add(busy);
        if is_large {
            self.tell_left(from, to, self.out[own]);
        }
        let reaches = leaves.saturating_add(self.noisy(link.latency));
        let reaches = self.after_last(reaches, from, to);
        self.events.push(reaches, What::Reaches(letter));
    }

    fn push_ends(&mut self, ends: Vec<shared::End>) {
        ends.into_iter().for_each(|(at, turn, time)| self.events.push(time, What::Ends(at, turn)));
    }

    /// A message that shares ways may have ended.
    pub fn ends(&mut self, at: u32, turn: u32, now: Ps) {
        let (Some(shared), mut ends) = (&mut self.shared, Vec::new()) else { return };
        let ended = shared.end((at, turn), now, &mut ends);
        self.push_ends(ends);
        if let Some(letter) = ended {
            let (from, to) = self.mail.address(letter);
            let latency = self.noisy(self.link(from, to).latency);
            self.events.push(now.saturating_add(latency), What::Comes(letter));
            self.tell_left(from, to, now);
        }
    }

    /// Tells the sender of large values when they have left.
    pub fn tell_left(&mut self, from: ProcessorId, to: ProcessorId, at: Ps) {
        let letter = self.mail.post(from, from, Message::Left { to });
        self.events.push(at, What::Comes(letter));
    }

    /// A message waits for the other node's way in from `now` on.
    pub fn reaches(&mut self, letter: u32, now: Ps) {
        let (from, to) = self.mail.address(letter);
        let (busy, bytes) = self.busy(self.link(from, to), self.mail.message(letter));
        let other = self.machine.node_of(to).index();
        let comes = now.max(self.into[other]);
        self.into[other] = comes.saturating_add(busy);
        self.events.push(comes.saturating_add(bytes), What::Comes(letter));
    }

    /// The time `at`, or the time of the pair's last message if it is later, so that none overtakes another. Not needed
    /// where all messages take the same time.
    fn after_last(&mut self, at: Ps, from: ProcessorId, to: ProcessorId) -> Ps {
        let link = self.link(from, to);
        if self.noise == 0.0 && (!link.takes_bytes() || !self.machine.same_node(from, to)) {
            return at;
        }
        let last = self.last.entry((from, to)).or_default();
        *last = at.max(*last);
        *last
    }

    /// Bytes of a message on the network.
    fn size(&self, message: &Message) -> usize {
        let length = |object| self.lengths.get(object).copied().unwrap_or(Length::OWN);
        match message {
            Message::Arrive { object, payload: Payload::Inline { len, .. }, .. } => {
                HEAD + length(object).of(usize::from(*len))
            }
            Message::Arrive { object, payload, .. } => HEAD + length(object).of(payload.bytes().len()),
            other => size(other),
        }
    }
}

/// Bytes of the parts of messages that every message has: the kind, the object, the generation and the like.
const HEAD: usize = 32;

/// Bytes of a message other than an arrival.
fn size(message: &Message) -> usize {
    /// A recipient on the way of values.
    const HOP: usize = 16;
    let results = |done: &BatchDone| {
        let result = |r: &Result<crate::parcel::Parcel, Failure>| r.as_ref().map_or(0, |parcel| parcel.size());
        HEAD + done.results.iter().map(|(_, r)| 8 + result(r)).sum::<usize>() + HEAD * done.valid.len()
    };
    match message {
        Message::Got { bytes, .. } | Message::Put(_, bytes) => HEAD + bytes.len(),
        Message::Values(came) => HEAD + HEAD * came.values.len() + came.length as usize + HOP * came.way.len(),
        Message::Launch(part) => {
            HEAD + part
                .batch
                .iter()
                .flat_map(|batch| &batch.shards)
                .map(|s| HEAD + s.args.size() + HEAD * s.held.len())
                .sum::<usize>()
        }
        Message::BatchDone(done) => results(done),
        Message::Results(all) => HEAD + all.blocks.iter().flatten().map(results).sum::<usize>(),
        Message::Combine { values, .. } => HEAD + 12 * values.len(),
        _ => HEAD,
    }
}
