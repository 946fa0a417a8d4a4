//! Accessors for fields of any type and dimension, as bytes.

use std::fmt;

use crate::memory::ByteView;
use crate::{Lease, Privilege, Rect, RegionError};

/// Reads a leased rectangle as bytes, whatever its field's element type and its dimension. It is for code that does not know the
/// type, such as code that writes values to a file.
pub struct ReadBytes<'a> {
    view: ByteView<'a>,
    rect: Rect,
}

/// Writes a leased rectangle as bytes, whatever its field's element type and its dimension. The task must set all of them.
pub struct WriteBytes<'a> {
    view: ByteView<'a>,
    rect: Rect,
}

impl<'a> ReadBytes<'a> {
    /// Binds an accessor to a lease that holds read or read-write, with exclusive or atomic coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongPrivilege`].
    pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
        let rect = lease.rect();
        Ok(ReadBytes { view: lease.byte_view("ReadBytes", Privilege::Read)?, rect })
    }

    /// The bytes, in row-major order and in this machine's byte order. They come in runs of whole rows, which are as long as
    /// possible: all bytes are one run if nothing lies between them.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.view.count()).map(|run| self.view.run(run))
    }
}

impl<'a> WriteBytes<'a> {
    /// Binds an accessor to a lease that holds write-discard or read-write, with exclusive or atomic coherence.
    ///
    /// # Errors
    ///
    /// [`RegionError::WrongCoherence`], [`RegionError::WrongPrivilege`].
    pub fn bind(lease: &'a mut Lease) -> Result<Self, RegionError> {
        let rect = lease.rect();
        Ok(WriteBytes { view: lease.byte_view("WriteBytes", Privilege::WriteDiscard)?, rect })
    }

    /// Calls `set` for each run of bytes, in the order of [`ReadBytes::runs`], until an error. The bytes are unspecified
    /// when `set` gets them.
    ///
    /// # Errors
    ///
    /// The first error of `set`.
    pub fn set_runs<E>(&mut self, mut set: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        (0..self.view.count()).try_for_each(|run| set(self.view.run_mut(run)))
    }
}

macro_rules! shape {
    ($accessor:ident) => {
        impl $accessor<'_> {
            /// The leased rectangle.
            pub fn rect(&self) -> Rect {
                self.rect
            }
        }

        impl fmt::Debug for $accessor<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($accessor), "({})"), self.rect)
            }
        }
    };
}
shape!(ReadBytes);
shape!(WriteBytes);
