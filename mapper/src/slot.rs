//! The mapper of a run, which can be replaced while the run goes on.

use crate::Mapper;
use arc_swap::{ArcSwap, Cache};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A mapper with the name it had when it was put into its slot.
#[derive(Clone)]
pub struct Named {
    /// The mapper.
    pub mapper: Arc<dyn Mapper>,
    /// Its name.
    pub name: Arc<str>,
    /// How many mappers were in the slot before it.
    pub number: u64,
}

impl Named {
    fn new(mapper: Arc<dyn Mapper>, number: u64) -> Self {
        // Asked once.
        let name = name_of(&*mapper).into();
        Self { mapper, name, number }
    }
}

/// A mapper's name: user code, which may panic.
pub(crate) fn name_of(mapper: &dyn Mapper) -> String {
    catch_unwind(AssertUnwindSafe(|| mapper.name().to_owned())).unwrap_or_else(|payload| {
        // Its destructor is user code, too.
        std::mem::forget(payload);
        "(its name panicked)".into()
    })
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "mapper `{}`, number {}", self.name, self.number)
    }
}

/// Holds the mapper of one or more runs. Clones are the same slot: keep one to replace the mapper of a running program,
/// from any thread.
///
/// ```
/// use maniple_mapper::{CollectiveMapper, DefaultMapper, MapperSlot};
/// use std::sync::Arc;
///
/// let slot = MapperSlot::from(Arc::new(DefaultMapper));
/// // … `Runtime::mapper(slot.clone())` …
/// slot.replace(Arc::new(CollectiveMapper));
/// assert_eq!(&*slot.current().name, "collective");
/// ```
#[derive(Clone, Debug)]
pub struct MapperSlot {
    shared: Arc<Shared>,
    current: Arc<ArcSwap<Named>>,
}

#[derive(Debug)]
struct Shared {
    /// That of the newest mapper.
    number: AtomicU64,
    /// By number. Nodes that have to ask alike may still ask one that has been replaced.
    all: Mutex<Vec<Arc<Named>>>,
}

/// One reader's view of a slot: looks for a new mapper with one load.
pub type Reader = Cache<Arc<ArcSwap<Named>>, Arc<Named>>;

impl MapperSlot {
    /// A slot with a mapper in it.
    pub fn new(mapper: Arc<dyn Mapper>) -> Self {
        let first = Arc::new(Named::new(mapper, 0));
        let shared = Shared { number: AtomicU64::new(0), all: Mutex::new(vec![first.clone()]) };
        Self { shared: Arc::new(shared), current: Arc::new(ArcSwap::new(first)) }
    }

    /// Puts another mapper in. Each processor asks it from its next decision on; the replicated part of a program that runs
    /// on several nodes does from the next `Top::adopt_mapper` on. Decisions made stay as they are, but that collectives are
    /// mapped again at their next calls. Never waits. The mapper before it goes with the slot.
    pub fn replace(&self, mapper: Arc<dyn Mapper>) {
        // Its name is asked for before anything is locked.
        let named = Named::new(mapper, 0);
        let mut all = self.shared.all.lock().unwrap_or_else(PoisonError::into_inner);
        let named = Arc::new(Named { number: all.len() as u64, ..named });
        all.push(named.clone());
        let number = named.number;
        self.current.store(named);
        self.shared.number.store(number, Ordering::Release);
    }

    /// How many mappers have been replaced so far: whoever remembers another number asks the newest one again.
    #[inline]
    pub fn number(&self) -> u64 {
        self.shared.number.load(Ordering::Acquire)
    }

    /// The mapper that was put in after `number` others.
    pub fn get(&self, number: u64) -> Option<Arc<Named>> {
        self.shared.all.lock().unwrap_or_else(PoisonError::into_inner).get(number as usize).cloned()
    }

    /// The mapper that is in it now.
    pub fn current(&self) -> Arc<Named> {
        self.current.load_full()
    }

    /// A view for one processor.
    pub fn reader(&self) -> Reader {
        Cache::new(self.current.clone())
    }
}

impl<M: Mapper + 'static> From<Arc<M>> for MapperSlot {
    fn from(mapper: Arc<M>) -> Self {
        Self::new(mapper)
    }
}

impl From<Arc<dyn Mapper>> for MapperSlot {
    fn from(mapper: Arc<dyn Mapper>) -> Self {
        Self::new(mapper)
    }
}
