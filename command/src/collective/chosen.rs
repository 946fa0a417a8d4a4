//! Listening to the mapper: what it is asked, and which algorithm it chooses.

use super::run::NAME;
use maniple::mapper::{Algorithm, AlgorithmInput, Kind, Layout, Mapper, MapperSlot, Nodes};
use std::sync::{Arc, Mutex, PoisonError};

/// What a mapper was asked about the collective that is measured, and its choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The kind as mappers are told it: a barrier is an allreduce.
    pub kind: Kind,
    /// How the shards are dealt to processors.
    pub layout: Layout,
    /// The nodes of the shards.
    pub nodes: Nodes,
    /// The size as mappers are told it.
    pub bytes: usize,
    /// The algorithms that it could choose from.
    pub choices: Vec<Algorithm>,
    /// The algorithm that was chosen, if the choice was legal.
    pub algorithm: Option<Algorithm>,
}

/// The last question to a mapper about the collective that is measured.
#[derive(Debug, Default, Clone)]
pub struct Chosen(Arc<Mutex<Option<Asked>>>);

impl Chosen {
    /// Listens to the mapper of a slot until it is replaced.
    pub fn listen(&self, slot: &MapperSlot) {
        let inner = slot.current().mapper.clone();
        slot.replace(Arc::new(Listening { inner, chosen: self.clone() }));
    }

    /// The last question since this was called before, if there was one.
    pub fn take(&self) -> Option<Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct Listening {
    inner: Arc<dyn Mapper>,
    chosen: Chosen,
}

impl Mapper for Listening {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn base(&self) -> &dyn Mapper {
        &*self.inner
    }

    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        let choice = self.inner.choose_algorithm(input);
        if input.collective == NAME {
            let asked = Asked {
                kind: input.kind,
                layout: Layout::of(input),
                nodes: Nodes::of(input),
                bytes: input.bytes,
                choices: input.choices.to_vec(),
                algorithm: input.choices.get(choice).copied(),
            };
            *self.chosen.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
        }
        choice
    }
}
