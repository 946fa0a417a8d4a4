//! Owned, aligned bytes: how bulk data travels.

use std::alloc::{Layout, handle_alloc_error};
use std::any::type_name;
use std::fmt;
use std::ptr::NonNull;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::memory::{Bytes, OwnedMemory};
use crate::{Element, ForeignMemory, RegionError};

/// An owned block of bytes of fixed length, aligned to 64 bytes so that it can be read as elements of any
/// [`Element`] type.
///
/// It is serialised as raw bytes. With a binary format that is one copy on either side.
///
/// ```
/// use maniple_regions::Buffer;
/// let mut buffer = Buffer::zeroed(16);
/// buffer.as_mut_slice::<f64>().unwrap()[1] = 2.5;
/// assert_eq!(buffer.as_slice::<f64>().unwrap(), [0.0, 2.5]);
/// ```
pub struct Buffer(Owned);

enum Owned {
    Bytes(Bytes),
    Foreign(OwnedMemory),
}

impl Buffer {
    /// Makes a buffer of `len` zero bytes. Aborts if memory is exhausted, as `Vec` does.
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).unwrap_or_else(|| out_of_memory(len))
    }

    /// Makes a buffer of `len` zero bytes, or none if there is not enough memory.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        Some(Buffer(Owned::Bytes(Bytes::zeroed(len)?)))
    }

    /// A buffer of these bytes.
    pub fn from_memory(memory: OwnedMemory) -> Self {
        Buffer(Owned::Foreign(memory))
    }

    /// A copy of `bytes`. Aborts if memory is exhausted, as `Vec` does.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Buffer(Owned::Bytes(Bytes::copy_of(bytes).unwrap_or_else(|| out_of_memory(bytes.len()))))
    }

    /// A copy of `elements`, in native byte order.
    pub fn from_slice<T: Element>(elements: &[T]) -> Self {
        Buffer::from_bytes(bytemuck::cast_slice(elements))
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Owned::Bytes(bytes) => bytes.as_slice(),
            Owned::Foreign(memory) => memory.as_bytes(),
        }
    }

    /// The bytes, mutably.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Owned::Bytes(bytes) => bytes.as_mut_slice(),
            Owned::Foreign(memory) => memory.as_bytes_mut(),
        }
    }

    /// The block that the bytes are in, if they are in one.
    pub fn foreign_memory(&self) -> Option<&dyn ForeignMemory> {
        match &self.0 {
            Owned::Bytes(_) => None,
            Owned::Foreign(memory) => Some(memory.block()),
        }
    }

    /// The first byte, for an owner that uses nothing else of the buffer until it drops it.
    pub(crate) fn base(&mut self) -> NonNull<u8> {
        match &self.0 {
            Owned::Bytes(bytes) => bytes.base(),
            Owned::Foreign(memory) => memory.base(),
        }
    }

    /// The bytes as elements, in native byte order.
    ///
    /// # Errors
    ///
    /// [`RegionError::NotWholeElements`] if the length is not a multiple of the element size.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], RegionError> {
        const { T::FITS };
        if !self.len().is_multiple_of(size_of::<T>()) {
            return Err(self.not_whole::<T>());
        }
        Ok(bytemuck::cast_slice(self.as_bytes()))
    }

    /// The bytes as elements, mutably, in native byte order.
    ///
    /// # Errors
    ///
    /// [`RegionError::NotWholeElements`] if the length is not a multiple of the element size.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], RegionError> {
        const { T::FITS };
        if !self.len().is_multiple_of(size_of::<T>()) {
            return Err(self.not_whole::<T>());
        }
        Ok(bytemuck::cast_slice_mut(self.as_bytes_mut()))
    }

    #[cold]
    pub(crate) fn not_whole<T>(&self) -> RegionError {
        RegionError::NotWholeElements { element: type_name::<T>().into(), size: size_of::<T>(), came: self.len() }
    }
}

#[cold]
fn out_of_memory(len: usize) -> ! {
    let layout = Layout::array::<u8>(len).unwrap_or_else(|_| panic!("a buffer of {len} bytes"));
    handle_alloc_error(layout)
}

/// A copy, in memory of this process.
impl Clone for Buffer {
    fn clone(&self) -> Self {
        Buffer::from_bytes(self.as_bytes())
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

impl Serialize for Buffer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.as_bytes())
    }
}

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Buffer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Buffer, E> {
        Ok(Buffer::from_bytes(bytes))
    }

    // Text formats have no bytes and send a list of numbers.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Buffer, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element::<u64>()? {
            bytes.push(u8::try_from(byte).map_err(|_| A::Error::custom(format!("expected a byte, got {byte}")))?);
        }
        Ok(Buffer::from_bytes(&bytes))
    }
}
