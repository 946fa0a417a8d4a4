//! Leases: the right to use a rectangle of an instance.

use std::fmt;
use std::sync::Arc;

use super::layout::Layout;
use super::storage::{Access, Storage};
use super::view::{ByteView, View, ViewMut};
use super::words::SharedView;
use crate::{Coherence, Element, FieldInfo, Privilege, Rect, RegionError};

/// The right to use a rectangle of an instance, given by [`Instance::lease`](crate::Instance::lease) or
/// [`SharedInstance::lease`](crate::SharedInstance::lease).
///
/// Accessors borrow it. It may move to another thread, and it keeps the memory alive.
///
/// Give a lease of an [`Instance`](crate::Instance) back with [`Instance::release`](crate::Instance::release). If it is
/// dropped instead, its rectangle stays leased for ever. A lease of a [`SharedInstance`](crate::SharedInstance) may be
/// dropped, or kept and used for one accessor after the other.
#[must_use = "a lease that is dropped leaves its rectangle leased for ever: release it"]
pub struct Lease {
    // Boxed, so that a lease moves as one word; an instance uses the boxes of returned leases again.
    pub(super) slip: Box<Slip>,
}

/// The content of a lease.
pub(super) struct Slip {
    pub storage: Arc<Storage>,
    pub rect: Rect,
    pub privilege: Privilege,
    pub coherence: Coherence,
    pub ticket: Ticket,
}

/// How the ledger finds what it gave out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ticket {
    /// Nothing: an empty rectangle, or a lease without a ledger.
    Nothing,
    /// All of the instance.
    Whole,
    /// The part with this serial number.
    Part(u64),
}

impl Lease {
    /// The rectangle that may be used.
    #[inline]
    pub fn rect(&self) -> Rect {
        self.slip.rect
    }

    /// What the holder may do to the values.
    #[inline]
    pub fn privilege(&self) -> Privilege {
        self.slip.privilege
    }

    /// How it shares them with other uses.
    #[inline]
    pub fn coherence(&self) -> Coherence {
        self.slip.coherence
    }

    /// The field.
    #[inline]
    pub fn field(&self) -> &FieldInfo {
        self.slip.storage.field()
    }

    /// A view to read; see [`Lease::allows`] for the errors.
    #[inline]
    pub(crate) fn view<T: Element, const D: usize>(&mut self, accessor: &str) -> Result<View<'_, T, D>, RegionError> {
        self.allows::<T, D>(accessor, Privilege::Read, Access::Plain)?;
        let (first, layout) = Layout::new(self.slip.storage.room(), &self.slip.rect);
        // SAFETY: the view borrows this lease mutably and reads within its rectangle; element type, dimension and
        // access were checked (rules 2 and 6). By rules 3 and 4 nobody writes there meanwhile.
        Ok(unsafe { View::new(self.slip.storage.base().cast::<T>().add(first), layout) })
    }

    /// A view to write as `asked` says, which must write; see [`Lease::allows`] for the errors.
    #[inline]
    pub(crate) fn view_mut<T: Element, const D: usize>(
        &mut self,
        accessor: &str,
        asked: Privilege,
    ) -> Result<ViewMut<'_, T, D>, RegionError> {
        assert!(asked.writes(), "{accessor} must ask to write");
        self.allows::<T, D>(accessor, asked, Access::Plain)?;
        let (first, layout) = Layout::new(self.slip.storage.room(), &self.slip.rect);
        // SAFETY: the view borrows this lease mutably and stays within its rectangle; element type, dimension and access
        // were checked (rules 2 and 6). The lease writes, since it allows what writes, so that by rules 3 and 4 nobody
        // else is there meanwhile. That goes for the padding, too, if this is the lease of all.
        let (whole, room) = (self.slip.storage.rect(), self.slip.storage.room());
        let padding = whole.lo(0).abs_diff(room.lo(0)) as usize;
        let padding = if padding > 0 && self.slip.rect.same_box(whole) { padding } else { 0 };
        Ok(unsafe { ViewMut::new(self.slip.storage.base().cast::<T>().add(first), layout, padding) })
    }

    /// A view of bytes for what `asked` says, of elements of any type in any dimension; see [`Lease::allows`] for the other errors.
    pub(crate) fn byte_view(&mut self, accessor: &str, asked: Privilege) -> Result<ByteView<'_>, RegionError> {
        if !self.permits(asked, Access::Plain) {
            return Err(self.refusal(accessor, asked, Access::Plain, None));
        }
        let runs = self.slip.storage.runs(&self.slip.rect).collect();
        // SAFETY: the view borrows this lease mutably and stays within its rectangle. Its bytes are initialised, and any bytes
        // are valid elements (rule 1). By rules 3 and 4 nobody writes there meanwhile, and if the lease writes nobody reads.
        Ok(unsafe { ByteView::new(self.slip.storage.base(), runs) })
    }

    /// A view through atomic words for what `asked` says; see [`Lease::allows`] for the errors.
    #[inline]
    pub(crate) fn shared_view<T: Element, const D: usize>(
        &mut self,
        accessor: &str,
        asked: Privilege,
    ) -> Result<SharedView<'_, T, D>, RegionError> {
        self.allows::<T, D>(accessor, asked, Access::Atomic)?;
        let (first, layout) = Layout::new(self.slip.storage.room(), &self.slip.rect);
        // SAFETY: the storage is atomic, the view stays within the lease's rectangle, which lies within the storage, and
        // its element type and dimension are the storage's (rules 5 and 6). The borrow keeps the storage alive.
        Ok(unsafe { SharedView::new(self.slip.storage.base().cast::<T>().add(first), layout) })
    }

    /// Whether an accessor of elements `T` in `D` dimensions for `asked` may be bound to this lease.
    ///
    /// Errors: `WrongCoherence`, `WrongElement`, `WrongDimension`, `WrongPrivilege`. A lease allows an accessor of its
    /// own privilege, and a read-write lease allows all. (Write-discard does not allow reading: nobody brought the
    /// values.)
    #[inline]
    fn allows<T: Element, const D: usize>(
        &self,
        accessor: &str,
        asked: Privilege,
        access: Access,
    ) -> Result<(), RegionError> {
        const {
            let () = T::FITS;
            assert!(D >= 1 && D <= 3, "accessors have 1 to 3 dimensions");
        }
        if self.permits(asked, access) && self.field().holds::<T>() && self.slip.rect.dim() == D {
            return Ok(());
        }
        Err(self.refusal(accessor, asked, access, self.wrong_type::<T, D>(accessor)))
    }

    #[inline]
    fn permits(&self, asked: Privilege, access: Access) -> bool {
        let privileged = self.slip.privilege == asked || self.slip.privilege == Privilege::ReadWrite;
        self.slip.storage.access() == access && privileged
    }

    #[cold]
    fn wrong_type<T: Element, const D: usize>(&self, accessor: &str) -> Option<RegionError> {
        if let Err(wrong) = self.field().expect::<T>() {
            return Some(wrong);
        }
        let what = || format!("{accessor} of field `{}`", self.field().name).into();
        let wrong = |came| RegionError::WrongDimension { what: what(), expected: self.slip.rect.dim(), came };
        (self.slip.rect.dim() != D).then(|| wrong(D))
    }

    #[cold]
    fn refusal(
        &self,
        accessor: &str,
        asked: Privilege,
        access: Access,
        wrong_type: Option<RegionError>,
    ) -> RegionError {
        if self.slip.storage.access() != access {
            let (expected, advice) = match access {
                Access::Plain => ("exclusive or atomic", "a shared accessor"),
                Access::Atomic => ("simultaneous", "an exclusive accessor"),
            };
            return RegionError::WrongCoherence {
                what: accessor.into(),
                field: self.field().name.into(),
                expected: expected.into(),
                came: self.coherence(),
                advice: advice.into(),
            };
        }
        wrong_type.unwrap_or_else(|| RegionError::WrongPrivilege {
            accessor: accessor.into(),
            field: self.field().name.into(),
            expected: asked,
            came: self.slip.privilege,
        })
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Lease({} {} of {} of {:?})",
            self.coherence(),
            self.slip.privilege,
            self.slip.rect,
            self.slip.storage
        )
    }
}
