//! The calls to observers: the trace and the check for races. An event costs one branch when nobody observes the run;
//! everything else is out of line.

use super::{Effects, Waiting};
use crate::config::Config;
use crate::diagnose::Event;
use crate::diagnose::races::Races;
use crate::diagnose::trace::Recorder;
use crate::ids::{ObjectId, ProcessorId, WaitAt};
use crate::message::{Message, Wire};
use crate::object::Object;
use std::cell::RefCell;
use std::sync::Arc;

/// The observers of a processor.
pub(crate) struct Observers {
    trace: Option<RefCell<Recorder>>,
    pub races: Option<Arc<Races>>,
}

impl Observers {
    /// The observers that the run was started with, if any.
    pub fn of(config: &Config, wire: &dyn Wire) -> Option<Box<Self>> {
        let recorder = |t: &crate::diagnose::trace::Tracing| {
            RefCell::new(Recorder::new(t.list(), t.most, config.machine.processors(), wire))
        };
        let (trace, races) = (config.trace.as_ref().map(recorder), config.races.clone());
        (trace.is_some() || races.is_some()).then(|| Box::new(Self { trace, races }))
    }

    #[cold]
    #[inline(never)]
    fn take(&self, effects: &Effects, event: Event<'_>) {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().take(&*effects.wire, &event);
        }
        if let Some(races) = &self.races {
            races.take(effects.id, event);
        }
    }
}

impl Effects {
    /// Reports an event to the observers.
    #[inline(always)]
    pub fn event<'a>(&self, event: impl FnOnce() -> Event<'a>) {
        if let Some(observers) = &self.observers {
            observers.take(self, event());
        }
    }

    /// Whether somebody observes the run.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.observers.is_some()
    }

    /// The check for races, if it was requested. Questions to the check are asked directly, where the event happens.
    #[inline]
    pub fn races(&self) -> Option<&Arc<Races>> {
        self.observers.as_ref()?.races.as_ref()
    }

    /// Reports that an arrival at a barrier, or the end of a generation, releases a waiter.
    #[inline]
    pub fn releases(&self, object: ObjectId, generation: u64, released: &Waiting) {
        if let Some(observers) = &self.observers {
            match *released {
                Waiting::Task(task) => observers.take(self, Event::TaskReleased { object, generation, task }),
                Waiting::Shard(slot) => observers.take(self, Event::ShardReleased { object, generation, slot }),
                Waiting::Chain { object, .. } => observers.take(self, Event::ChainReleased { object }),
                Waiting::Waker(_) | Waiting::Offer { .. } | Waiting::OneOf { .. } => {}
            }
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn send_observed(&self, to: ProcessorId, message: Message) {
        let name = message.name();
        // Sent first, because the receiver may be waiting for it.
        self.wire.send(to, message);
        self.event(|| Event::Sent { to, name });
    }

    /// Puts a question to the mapper, and notes how long the answer took.
    #[inline]
    pub(super) fn asked<A>(&self, (mapper, call): (&str, &'static str), question: impl FnOnce() -> A) -> A {
        // The question is in one place, so that it becomes a part of what asks it.
        let trace = self.observers.as_ref().and_then(|observers| observers.trace.as_ref());
        let start = trace.and_then(|trace| trace.borrow_mut().asks(&*self.wire, mapper, call));
        let answer = question();
        if let (Some(trace), Some(start)) = (trace, start) {
            trace.borrow_mut().answers(&*self.wire, call, start);
        }
        answer
    }

    /// Runs `f`, which sleeps until there is something to do.
    pub fn parked(&self, f: impl FnOnce()) {
        self.event(|| Event::Parked);
        f();
        self.event(|| Event::Idle);
    }

    /// Hands over the trace, if there is one.
    pub fn hand_over_trace(&self) {
        let trace = self.observers.as_ref().and_then(|observers| observers.trace.as_ref());
        let (Some(trace), Some(tracing)) = (trace, &self.config.trace) else { return };
        // Events name no others.
        let names = self.objects.names(u16::MAX.into());
        tracing.add(trace.borrow_mut().hand_over(&*self.wire, self.id, names));
    }

    /// How many shards wait for the generations of a barrier.
    pub fn waiters(&self, at: WaitAt) -> usize {
        let WaitAt::Phase { object, .. } = at else { return 1 };
        self.objects.with(object, |object| object.and_then(Object::phase).map_or(1, |spec| spec.waiters.len()))
    }
}
