//! A mapper that mostly gives legal answers, sometimes illegal ones, and sometimes panics.

use maniple::regions::{Coherence, Privilege};
use maniple::runtime::Error;
use maniple_mapper::{
    AlgorithmInput, CollectiveInput, CollectiveOutput, InstanceChoice, InstanceInput, KeepInput, LeafInput, LeafOutput,
    Mapper, NodeId, PlaceShardsInput, PlaceSharedInput, PlaceTaskInput, Placement, Priority, ProcessorId, ProfileInput,
    RandomMapper, Route, RouteInput, SliceInput, Slicing, SourceInput,
};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Well-mixed bits of a number (splitmix64).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A mapper that draws answers from a seed. Most are legal. It notes each call in which it gives an illegal answer or
/// panics.
#[derive(Debug)]
pub struct Wild {
    legal: RandomMapper,
    seed: u64,
    asked: AtomicU64,
    struck: Mutex<Vec<String>>,
}

/// The behaviour of the mapper in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Legal,
    Illegal(u64),
}

impl Wild {
    /// Makes a mapper with this seed.
    pub fn new(seed: u64) -> Self {
        Self { legal: RandomMapper::new(seed), seed, asked: AtomicU64::new(0), struck: Mutex::default() }
    }

    /// The same for a call that is the same on all nodes. It has the same answer for the same subject.
    fn mood_about(&self, call: &'static str, rare: u64, subject: impl std::fmt::Debug) -> Mood {
        let bytes = format!("{subject:?}").into_bytes();
        self.drawn(call, rare, bytes.iter().fold(self.seed, |hash, &byte| mix(hash ^ u64::from(byte))))
    }

    /// Draws the behaviour. One in `rare` answers of this call is not legal, if the seed allows that for this call at
    /// all.
    fn mood(&self, call: &'static str, rare: u64) -> Mood {
        self.drawn(call, rare, mix(self.seed ^ mix(self.asked.fetch_add(1, Ordering::Relaxed))))
    }

    fn drawn(&self, call: &'static str, rare: u64, draw: u64) -> Mood {
        let chosen = mix(self.seed ^ call.len() as u64).is_multiple_of(3);
        if !chosen || !draw.is_multiple_of(rare) {
            return Mood::Legal;
        }
        self.struck.lock().unwrap_or_else(PoisonError::into_inner).push(call.into());
        if (draw / rare).is_multiple_of(3) {
            // This panic prints nothing on stderr.
            resume_unwind(Box::new(format!("wild bomb in {call}")));
        }
        Mood::Illegal(draw / rare)
    }

    /// Whether an error is the fault of this mapper, and names the call and the illegal value or the panic.
    pub fn owns(&self, e: &Error) -> bool {
        let struck = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        match e.origin() {
            Error::Mapper(m) => {
                let decision = &m.0;
                let named = decision.mapper == "wild" || decision.mapper == "(its name panicked)";
                let told = [&decision.subject, &decision.what, &decision.value, &decision.legal];
                named && struck.contains(&decision.call.to_string()) && told.iter().all(|text| !text.is_empty())
            }
            Error::MapperFailed { call: at, message } => {
                let bomb = |call: &String| message == &format!("wild bomb in {call}") && at.contains(call.as_str());
                struck.iter().any(bomb)
            }
            _ => false,
        }
    }

    /// The calls with illegal answers and panics, of which nothing is left here.
    pub(crate) fn take_struck(&self) -> Vec<String> {
        std::mem::take(&mut self.struck.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the calls of the mappers of all processes with this seed.
    pub(crate) fn set_struck(&self, struck: Vec<String>) {
        *self.struck.lock().unwrap_or_else(PoisonError::into_inner) = struck;
    }

    /// The number of illegal answers and panics.
    pub fn strikes(&self) -> usize {
        self.struck.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Mapper for Wild {
    fn name(&self) -> &str {
        if self.seed.is_multiple_of(5) {
            resume_unwind(Box::new("wild bomb in name"));
        }
        "wild"
    }

    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        let (shards, processors) = (input.shards as usize, input.machine.processors());
        match self.mood_about("place_shards", 2, input.gang) {
            Mood::Illegal(n) if n % 2 == 0 => Placement::Explicit(vec![ProcessorId(0); shards + 1]),
            Mood::Illegal(n) => Placement::Explicit(vec![ProcessorId(processors.saturating_add(n as u32)); shards]),
            Mood::Legal => self.legal.place_shards(input),
        }
    }

    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        match self.mood_about("place_shared", 4, input.region) {
            Mood::Illegal(n) => ProcessorId(input.machine.processors().saturating_add(n as u32)),
            Mood::Legal => self.legal.place_shared(input),
        }
    }

    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        // If there is an instance, every answer is legal.
        match if input.found.is_none() { self.mood("map_instance", 10) } else { Mood::Legal } {
            Mood::Illegal(_) => InstanceChoice::Find,
            Mood::Legal => self.legal.map_instance(input),
        }
    }

    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        match self.mood_about("select_source", 4, (input.region, input.to)) {
            Mood::Illegal(_) => {
                (0..).map(ProcessorId).find(|p| !input.holders.contains(p)).unwrap_or(ProcessorId(u32::MAX))
            }
            Mood::Legal => self.legal.select_source(input),
        }
    }

    fn keep_instance(&self, input: &KeepInput<'_>) -> bool {
        // Both answers are legal.
        self.legal.keep_instance(input)
    }

    fn route(&self, input: &RouteInput<'_>) -> Route {
        let number = input.recipients.len() as u32;
        match self.mood("route", 4) {
            Mood::Illegal(n) => Route::Tree(match n % 3 {
                0 => vec![0; input.recipients.len() + 1],
                // The last recipient is its own parent.
                1 => (0..number).map(|i| if i + 1 == number { number } else { 0 }).collect(),
                _ => vec![number; input.recipients.len()],
            }),
            Mood::Legal => self.legal.route(input),
        }
    }

    fn slice_index(&self, input: &SliceInput<'_>) -> Slicing {
        let (points, here) = (input.points, input.processor);
        match self.mood("slice_index", 4) {
            Mood::Illegal(n) => Slicing::Explicit(match n % 4 {
                0 => vec![],
                1 => vec![(0..points, ProcessorId(u32::MAX - 1))],
                2 => vec![(1..points, here)],
                _ => vec![(0..points, here), (points - 1..points, here)],
            }),
            Mood::Legal => self.legal.slice_index(input),
        }
    }

    fn place_task(&self, input: &PlaceTaskInput<'_>) -> NodeId {
        match self.mood_about("place_task", 20, (input.task, input.node)) {
            Mood::Illegal(n) => NodeId(input.nodes.saturating_add(n as u32)),
            Mood::Legal => self.legal.place_task(input),
        }
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let mut out = self.legal.map_leaf(input);
        out.profile = true;
        if let Mood::Illegal(n) = self.mood("map_leaf", 40) {
            let shared = |p, c| p == Privilege::Read && c == Coherence::Simultaneous;
            let exclusive = input.requirements.iter().position(|r| !shared(r.privilege, r.coherence));
            match exclusive {
                Some(i) if n % 3 == 0 => out.copied.push(i as u32),
                None if n % 3 == 0 => out.copied.push((input.requirements.len() as u32).saturating_add(n as u32)),
                _ if n % 3 == 1 => out.priority = Priority(Priority::LEVELS + (n % 100) as u8),
                _ => out.processor = ProcessorId(input.machine.processors() + (n % 100) as u32),
            }
        }
        out
    }

    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        match self.mood_about("choose_algorithm", 2, input.collective) {
            Mood::Illegal(n) => input.choices.len().saturating_add(n as usize),
            Mood::Legal => self.legal.choose_algorithm(input),
        }
    }

    fn map_collective(&self, input: &CollectiveInput<'_>) -> CollectiveOutput {
        let legal = self.legal.map_collective(input);
        match self.mood_about("map_collective", 2, input.collective) {
            Mood::Illegal(n) => CollectiveOutput { priority: Priority(Priority::LEVELS + (n % 100) as u8), ..legal },
            Mood::Legal => legal,
        }
    }

    fn profile(&self, _: &ProfileInput<'_>) {
        // This call has no illegal answers.
        if let Mood::Illegal(_) = self.mood("profile", 60) {
            resume_unwind(Box::new("wild bomb in profile".to_string()));
        }
    }
}
