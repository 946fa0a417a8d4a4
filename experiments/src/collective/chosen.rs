//! Listening to the mapper: which algorithm it chooses.

use super::run::NAME;
use maniple::mapper::{AlgorithmInput, Mapper, MapperSlot};
use std::sync::{Arc, Mutex, PoisonError};

/// The algorithm that a mapper has chosen last for the collective that is measured.
#[derive(Debug, Default, Clone)]
pub struct Chosen(Arc<Mutex<Option<String>>>);

impl Chosen {
    /// Listens to the mapper of a slot until it is replaced.
    pub fn listen(&self, slot: &MapperSlot) {
        let inner = slot.current().mapper.clone();
        slot.replace(Arc::new(Listening { inner, chosen: self.clone() }));
    }

    /// The choice since the last question, if there was one.
    pub fn take(&self) -> Option<String> {
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
            let name = input.choices.get(choice).map(|name| (*name).to_owned());
            *self.chosen.0.lock().unwrap_or_else(PoisonError::into_inner) = name;
        }
        choice
    }
}
