//! Instances with one owner, and the ledger of their leases.

use std::cell::RefCell;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::lease::{Lease, Slip, Ticket};
use super::ledger::{Ledger, PartLease};
use super::storage::{Access, MemoryId, Storage};
use crate::{Buffer, Coherence, FieldInfo, Privilege, Rect, RegionError};

/// The values of one field over one rectangle, in one memory, with one owner.
///
/// The values are a row-major array that starts on a cache line, or if the field has padding a part of such an array. They are zero at first, or those of a buffer. The owner gives leases
/// out and takes them back. The instance may move to another thread, but two threads cannot use it at once:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<maniple_regions::Instance>();
/// ```
///
/// No method waits.
pub struct Instance {
    storage: Arc<Storage>,
    ledger: RefCell<Ledger>,
}

/// A lease that was released at the wrong instance, with the error.
#[derive(Debug)]
pub struct Returned {
    /// The lease.
    pub lease: Lease,
    /// [`RegionError::ForeignLease`].
    pub error: RegionError,
}

impl fmt::Display for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Returned {}

impl From<Box<Returned>> for RegionError {
    fn from(returned: Box<Returned>) -> Self {
        returned.error
    }
}

impl Instance {
    /// Makes an instance of `field` over `rect` in `memory`. All values are zero.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutOfMemory`] if the values do not fit.
    pub fn new(rect: Rect, field: impl Into<&'static FieldInfo>, memory: MemoryId) -> Result<Self, RegionError> {
        let storage = Arc::new(Storage::new(rect, field.into(), memory, Access::Plain)?);
        Ok(Instance { storage, ledger: RefCell::default() })
    }

    /// Makes an instance of `field` over `rect` of the values in `buffer`, in row-major order and native byte order. Its memory is
    /// the buffer's, unless the field has padding, and counts as `memory`.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongLength`] if the buffer has another length than the values of `rect`. [`RegionError::OutOfMemory`].
    pub fn from_buffer(
        rect: Rect,
        field: impl Into<&'static FieldInfo>,
        memory: MemoryId,
        buffer: Buffer,
    ) -> Result<Self, RegionError> {
        let field = field.into();
        if field.padding() > 0 {
            let instance = Self::new(rect, field, memory)?;
            instance.write_bytes(rect, buffer.as_bytes())?;
            return Ok(instance);
        }
        let storage = Arc::new(Storage::of_buffer(rect, field, memory, buffer)?);
        Ok(Instance { storage, ledger: RefCell::default() })
    }

    /// The points that the instance has values for.
    pub fn rect(&self) -> Rect {
        *self.storage.rect()
    }

    /// The field.
    pub fn field(&self) -> &FieldInfo {
        self.storage.field()
    }

    /// The memory that holds the values.
    pub fn memory(&self) -> MemoryId {
        self.storage.memory()
    }

    /// The number of bytes of all values, and of the padding around them.
    pub fn bytes(&self) -> usize {
        self.storage.bytes()
    }

    /// Gives out a lease of `rect`. Read leases may overlap; any other lease has its points for itself.
    ///
    /// Up to 64 returned leases are kept and used again. A lease made from one of them allocates nothing and touches no
    /// shared counter.
    ///
    /// # Errors
    ///
    /// - [`RegionError::OutsideInstance`] if the instance does not cover `rect`.
    /// - [`RegionError::Leased`] while an overlapping lease is out, unless both only read. This holds for equal
    ///   reductions and for atomic leases too: they take turns, or use instances of their own.
    /// - [`RegionError::WrongCoherence`] for simultaneous coherence; use a [`SharedInstance`](crate::SharedInstance).
    #[inline]
    pub fn lease(&self, rect: Rect, privilege: Privilege, coherence: Coherence) -> Result<Lease, RegionError> {
        if coherence == Coherence::Simultaneous {
            return Err(self.not_shared(coherence));
        }
        let mut ledger = self.ledger.borrow_mut();
        let all = rect.same_box(self.storage.rect());
        let ticket = if all && ledger.give_whole(privilege.writes()) {
            Ticket::Whole
        } else {
            self.lease_part(&mut ledger, &rect, privilege)?
        };
        let slip = match ledger.spare() {
            Some(mut slip) => {
                (slip.rect, slip.privilege, slip.coherence, slip.ticket) = (rect, privilege, coherence, ticket);
                slip
            }
            None => {
                let storage = Arc::clone(&self.storage);
                Box::new(Slip { storage, rect, privilege, coherence, ticket })
            }
        };
        Ok(Lease { slip })
    }

    /// The general case of [`Instance::lease`].
    #[inline]
    fn lease_part(&self, ledger: &mut Ledger, rect: &Rect, privilege: Privilege) -> Result<Ticket, RegionError> {
        self.storage.covers(rect)?;
        ledger.give(self.storage.rect(), rect, privilege.writes()).map_err(|held| self.leased(*rect, privilege, held))
    }

    /// Takes a lease back.
    ///
    /// # Errors
    ///
    /// A lease of another instance is handed back in the error.
    #[inline]
    pub fn release(&self, lease: Lease) -> Result<(), Box<Returned>> {
        if !Arc::ptr_eq(&lease.slip.storage, &self.storage) {
            return Err(self.foreign(lease));
        }
        let mut ledger = self.ledger.borrow_mut();
        ledger.take_back(lease.slip.ticket);
        ledger.keep(lease.slip);
        Ok(())
    }

    /// The values of `rect` in row-major order and native byte order.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] if the instance does not cover `rect`. [`RegionError::Leased`] while an
    /// overlapping lease that writes is out.
    pub fn read_bytes(&self, rect: Rect) -> Result<Buffer, RegionError> {
        self.free(rect, Privilege::Read)?;
        let mut buffer = Buffer::zeroed(rect.volume() * self.field().size);
        self.read_into(rect, buffer.as_bytes_mut())?;
        Ok(buffer)
    }

    /// Copies the values of `rect`, in row-major order and native byte order, to `bytes`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read_bytes`], and [`RegionError::WrongLength`] if `bytes` has another length than the values of `rect`.
    pub fn read_into(&self, rect: Rect, bytes: &mut [u8]) -> Result<(), RegionError> {
        self.free(rect, Privilege::Read)?;
        self.storage.check_len(&rect, bytes.len())?;
        let mut rest = bytes;
        for (at, len) in self.storage.runs(&rect) {
            let (run, more) = rest.split_at_mut(len);
            // SAFETY: the run lies within the storage, and by rule 2(b) nobody writes there during this call.
            unsafe { ptr::copy_nonoverlapping(self.storage.base().add(at).as_ptr(), run.as_mut_ptr(), len) };
            rest = more;
        }
        Ok(())
    }

    /// Sets the values of `rect` to `bytes`, in row-major order and native byte order.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] if the instance does not cover `rect`. [`RegionError::WrongLength`] if `bytes`
    /// has another length than the values of `rect`. [`RegionError::Leased`] while an overlapping lease is out.
    pub fn write_bytes(&self, rect: Rect, bytes: &[u8]) -> Result<(), RegionError> {
        self.free(rect, Privilege::WriteDiscard)?;
        self.storage.check_len(&rect, bytes.len())?;
        let mut rest = bytes;
        for (at, len) in self.storage.runs(&rect) {
            let (run, more) = rest.split_at(len);
            // SAFETY: the run lies within the storage, and by rule 2(b) nobody uses it during this call; so `bytes`,
            // which somebody may read, lie elsewhere.
            unsafe { ptr::copy_nonoverlapping(run.as_ptr(), self.storage.base().add(at).as_ptr(), len) };
            rest = more;
        }
        Ok(())
    }

    /// Sets every value of `rect` to the value with the bytes `element`.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] if the instance does not cover `rect`. [`RegionError::WrongLength`] if
    /// `element` is not one element. [`RegionError::Leased`] while an overlapping lease is out.
    pub fn fill(&self, rect: Rect, element: &[u8]) -> Result<(), RegionError> {
        self.free(rect, Privilege::WriteDiscard)?;
        self.storage.check_element(element.len())?;
        for (at, len) in self.storage.runs(&rect) {
            // SAFETY: the run lies within the storage, and by rule 2(b) nobody uses it during this call.
            let run = unsafe { std::slice::from_raw_parts_mut(self.storage.base().add(at).as_ptr(), len) };
            run.chunks_exact_mut(element.len()).for_each(|value| value.copy_from_slice(element));
        }
        Ok(())
    }

    /// Sets the values of `rect` to the values of `source`, which must have the same element type. Copying an instance to
    /// itself changes nothing.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideInstance`] unless both instances cover `rect`. [`RegionError::WrongElement`] if the
    /// element types differ. [`RegionError::Leased`] while an overlapping lease of this instance is out, or an
    /// overlapping lease of `source` that writes.
    pub fn copy_from(&self, source: &Instance, rect: Rect) -> Result<(), RegionError> {
        self.free(rect, Privilege::WriteDiscard)?;
        source.free(rect, Privilege::Read)?;
        if !self.field().same_element(source.field()) {
            return Err(self.field().wrong_element(source.field().type_name));
        }
        if Arc::ptr_eq(&self.storage, &source.storage) {
            return Ok(());
        }
        let (to, from) = (self.storage.base(), source.storage.base());
        // The runs of the two instances may differ in length: advance by the shorter rest.
        let mut to_runs = self.storage.runs(&rect);
        let mut from_runs = source.storage.runs(&rect);
        let ((mut to_at, mut to_len), (mut from_at, mut from_len)) = ((0, 0), (0, 0));
        loop {
            if to_len == 0 {
                let Some(run) = to_runs.next() else { break };
                (to_at, to_len) = run;
            }
            if from_len == 0 {
                let Some(run) = from_runs.next() else { break };
                (from_at, from_len) = run;
            }
            let len = to_len.min(from_len);
            // SAFETY: both pieces lie within runs of their storages, which differ and so do not overlap; by rule 2(b)
            // nobody uses the one or writes the other during this call.
            unsafe { ptr::copy_nonoverlapping(from.add(from_at).as_ptr(), to.add(to_at).as_ptr(), len) };
            (to_at, to_len, from_at, from_len) = (to_at + len, to_len - len, from_at + len, from_len - len);
        }
        Ok(())
    }

    /// An error unless this instance may do `wanted` to `rect` by itself now.
    fn free(&self, rect: Rect, wanted: Privilege) -> Result<(), RegionError> {
        self.storage.covers(&rect)?;
        let ledger = self.ledger.borrow();
        match ledger.in_the_way(self.storage.rect(), &rect, wanted.writes()) {
            Some(held) => Err(self.leased(rect, wanted, held)),
            None => Ok(()),
        }
    }

    #[cold]
    fn leased(&self, asked: Rect, wanted: Privilege, held: PartLease) -> RegionError {
        RegionError::Leased {
            field: self.field().name.into(),
            wanted,
            asked: asked.into(),
            held: if held.writes { Privilege::ReadWrite } else { Privilege::Read },
            out: held.rect.into(),
        }
    }

    #[cold]
    fn not_shared(&self, came: Coherence) -> RegionError {
        RegionError::WrongCoherence {
            what: "a lease of an instance with one owner".into(),
            field: self.field().name.into(),
            expected: "exclusive or atomic".into(),
            came,
            advice: "a shared instance".into(),
        }
    }

    #[cold]
    fn foreign(&self, lease: Lease) -> Box<Returned> {
        let error =
            RegionError::ForeignLease { field: lease.field().name.into(), rect: lease.rect(), memory: self.memory() };
        Box::new(Returned { lease, error })
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance({:?})", self.storage)
    }
}
