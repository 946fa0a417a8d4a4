//! The mapper of a run, which can be replaced while the run goes on.

use crate::{DefaultMapper, Mapper};
use arc_swap::{ArcSwap, Cache};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A mapper with the name it had when it was put into its slot.
pub struct Named {
    /// The mapper.
    pub mapper: Arc<dyn Mapper>,
    /// Its name.
    pub name: Arc<str>,
    /// Number of mappers that were in the slot before it.
    pub number: u64,
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

impl Drop for Named {
    /// The last one to hold a replaced mapper may be a processor, which a panic of the mapper's destructor must not end.
    fn drop(&mut self) {
        let mapper = std::mem::replace(&mut self.mapper, Arc::new(DefaultMapper));
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(mapper))) {
            std::mem::forget(payload);
        }
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
    current: Arc<ArcSwap<Named>>,
    /// The number of the present mapper, or for an instant of the one before.
    number: Arc<AtomicU64>,
}

/// One reader's view of a slot. Looking for a new mapper costs one load.
pub type Reader = Cache<Arc<ArcSwap<Named>>, Arc<Named>>;

impl MapperSlot {
    /// A slot with a mapper in it.
    pub fn new(mapper: Arc<dyn Mapper>) -> Self {
        let name = name_of(&*mapper).into();
        let first = Named { mapper, name, number: 0 };
        Self { current: Arc::new(ArcSwap::from_pointee(first)), number: Arc::default() }
    }

    /// Puts another mapper into the slot, and returns it with its name and number. Never waits.
    ///
    /// Each processor asks the new mapper from its next decision on. Earlier decisions stay as they are, except that each
    /// collective is mapped again at its next call. The old mapper is dropped once no processor asks it any more.
    ///
    /// In a run on several nodes, decisions that must be the same on all nodes do not follow this call. They follow
    /// `Top::replace_mapper` of the runtime. Each process has a slot of its own, so this call changes the decisions of
    /// the processors of one process.
    pub fn replace(&self, mapper: Arc<dyn Mapper>) -> Arc<Named> {
        let name: Arc<str> = name_of(&*mapper).into();
        let after = |before: &Arc<Named>| {
            Arc::new(Named { mapper: mapper.clone(), name: name.clone(), number: before.number + 1 })
        };
        let named = after(&self.current.rcu(after));
        self.number.fetch_max(named.number, Ordering::Release);
        named
    }

    /// How many mappers were in the slot before the present one. A processor that remembers another number asks again.
    #[inline]
    pub fn number(&self) -> u64 {
        // Whoever reads a number finds the mapper of this number, or a newer one, in the slot.
        self.number.load(Ordering::Acquire)
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
