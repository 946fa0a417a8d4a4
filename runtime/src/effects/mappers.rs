//! Questions to the mapper. Each is counted, a panic in it becomes an error, and each answer is checked before it is
//! used.
//!
//! A new mapper is read, not sent. Each processor looks into the run's slot at each decision, which costs one load. So a
//! mapper that replaces another one decides from then on. Collectives are mapped again at their next call
//! (`Chains::keep_mapped`), and each processor does that alone. Where all nodes must make the same decision, for gangs and
//! shared regions, each asks the mapper that its copy of the top-level task has named last (`Top::replace_mapper`). All
//! copies name the same mappers at the same place of the program.

use super::Effects;
use crate::Error;
use crate::config::Config;
use crate::error::panic_message;
use crate::plant::Bug;
use maniple_mapper::{Mapper, MapperError, Named, Reader};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The mappers of one processor.
pub(crate) struct Mappers {
    /// The mapper that is in the run's slot now.
    now: RefCell<Reader>,
    /// The mapper that the replicated part of the program asks, if several nodes have to get the same answers.
    agreed: RefCell<Arc<Named>>,
}

impl Mappers {
    pub fn new(config: &Config) -> Self {
        Self { now: RefCell::new(config.mapper.reader()), agreed: RefCell::new(config.first_mapper.clone()) }
    }
}

/// Who asks the mapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// This processor alone.
    Processor,
    /// The replicated part of the program: every node asks the same question and must get the same answer.
    EveryNode,
}

impl Effects {
    /// Asks the mapper `question`, and checks the answer with `check`, which gets the mapper's name too. `call` and
    /// `subject` are for the error if the mapper panics.
    #[inline]
    pub fn ask<A, T>(
        &self,
        asker: Asker,
        (call, subject): (&'static str, &dyn std::fmt::Display),
        question: impl FnOnce(&dyn Mapper) -> A,
        check: impl FnOnce(&str, A) -> Result<T, MapperError>,
    ) -> Result<T, Error> {
        self.counters.mapper_calls.add(1);
        match asker {
            Asker::EveryNode if self.copies().nodes() > 1 => {
                self.question(&self.mappers.agreed.borrow(), (call, subject), question, check)
            }
            _ => self.question(self.mappers.now.borrow_mut().load(), (call, subject), question, check),
        }
    }

    #[inline]
    fn question<A, T>(
        &self,
        named: &Named,
        (call, subject): (&'static str, &dyn std::fmt::Display),
        question: impl FnOnce(&dyn Mapper) -> A,
        check: impl FnOnce(&str, A) -> Result<T, MapperError>,
    ) -> Result<T, Error> {
        // Checked before anything else and in place, because answers are large to move.
        let question = AssertUnwindSafe(|| check(&named.name, question(&*named.mapper)));
        let checked = self.asked((&named.name, call), || catch_unwind(question));
        match checked {
            Ok(checked) => Ok(checked?),
            Err(panic) => Err(panicked(named, call, subject, panic_message(panic))),
        }
    }

    /// Puts a mapper into the run's slot, and makes the replicated part of the program ask it from now on. Returns its name.
    pub fn replace_mapper(&self, mapper: Arc<dyn Mapper>) -> Arc<str> {
        let named = self.config.mapper.replace(mapper);
        let name = named.name.clone();
        if self.strikes(Bug::StaleMapper) {
            return name;
        }
        *self.mappers.agreed.borrow_mut() = named;
        name
    }

    /// How many mappers were in the run's slot before the present one.
    #[inline]
    pub fn mapper_number(&self, asker: Asker) -> u64 {
        match asker {
            Asker::EveryNode if self.copies().nodes() > 1 => self.mappers.agreed.borrow().number,
            _ => self.config.mapper.number(),
        }
    }
}

#[cold]
fn panicked(named: &Named, call: &str, subject: &dyn std::fmt::Display, message: String) -> Error {
    Error::MapperFailed { call: format!("mapper `{}`, call {call} for {subject}", named.name), message }
}
