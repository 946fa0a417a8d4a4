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
    /// Number of mappers that were in the slot before it.
    pub number: u64,
}

impl Named {
    fn new(mapper: Arc<dyn Mapper>, number: u64) -> Self {
        let name = name_of(&*mapper).into();
        Self { mapper, name, number }
    }
}

/// A mapper's name. It comes from user code, which may panic.
pub(crate) fn name_of(mapper: &dyn Mapper) -> String {
    catch_unwind(AssertUnwindSafe(|| mapper.name().to_owned())).unwrap_or_else(|payload| {
        // The destructor of the panic's value is user code too.
        std::mem::forget(payload);
        "(its name panicked)".into()
    })
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "mapper `{}`, number {}", self.name, self.number)
    }
}

/// Holds the mapper of one or more runs. A clone is the same slot. Keep one to replace the mapper of a running program,
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
    /// Number of the newest mapper.
    number: AtomicU64,
    /// All mappers by number. Nodes that must get the same answer may still ask one that has been replaced.
    all: Mutex<Vec<Arc<Named>>>,
}

/// One reader's view of a slot. Looking for a new mapper costs one load.
pub type Reader = Cache<Arc<ArcSwap<Named>>, Arc<Named>>;

impl MapperSlot {
    /// A slot with a mapper in it.
    pub fn new(mapper: Arc<dyn Mapper>) -> Self {
        let first = Arc::new(Named::new(mapper, 0));
        let shared = Shared { number: AtomicU64::new(0), all: Mutex::new(vec![first.clone()]) };
        Self { shared: Arc::new(shared), current: Arc::new(ArcSwap::new(first)) }
    }

    /// Puts another mapper into the slot. Never waits.
    ///
    /// Each processor asks the new mapper from its next decision on. Decisions that several nodes make alike come from
    /// it after the next `Top::adopt_mapper`. Earlier decisions stay as they are, except that each collective is mapped
    /// again at its next call. The slot keeps the old mapper until the slot itself is dropped.
    ///
    /// Each process of a run on several has a slot of its own, which this does not reach: see `MapperSwitch` of the runtime.
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

    /// Number of mappers that have been replaced so far. A processor that remembers another number asks the newest
    /// mapper again.
    #[inline]
    pub fn number(&self) -> u64 {
        self.shared.number.load(Ordering::Acquire)
    }

    /// The mapper that was put into the slot after `number` others.
    pub fn get(&self, number: u64) -> Option<Arc<Named>> {
        self.shared.all.lock().unwrap_or_else(PoisonError::into_inner).get(number as usize).cloned()
    }

    /// The mapper that is in the slot now.
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
