//! The values that arrivals carry.

use crate::Error;
use maniple_regions::{Buffer, Element, Loan, Vector};
use serde::{Deserialize, Serialize};
use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

/// The value that an arrival carries.
///
/// A ready arrival carries the right to read a value, and an empty arrival gives that right back. The record of the
/// arrival holds the bytes of a small value. A larger value is lent: within a node nothing is copied, and between nodes
/// the bytes travel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum Payload {
    /// No value.
    #[default]
    None,
    /// Up to [`Payload::INLINE`] bytes.
    Inline {
        /// Number of bytes.
        len: u8,
        /// The bytes. They are whole words, so moving them never splits a store that the processor has just made.
        words: [u64; Payload::INLINE / 8],
    },
    /// A value that its owner lends. The owner does not change it while anybody else holds it.
    #[serde(with = "by_value")]
    Lent(Arc<dyn Lent>),
    /// The error of a call that failed where the value should have been made.
    Failed(Box<Error>),
}

/// A value that can be lent to readers: one that is too large for the record of an arrival.
pub trait Lent: Any + Send + Sync {
    /// The bytes of the value.
    fn as_bytes(&self) -> &[u8];
    /// The bytes of the value, for its owner while nobody else holds it.
    fn as_bytes_mut(&mut self) -> &mut [u8];
}

/// A type of vectors, as tasks fill them.
pub(crate) struct VecKind {
    pub id: fn() -> TypeId,
    /// Empty ones.
    pub new: fn() -> Arc<dyn Lent>,
    /// Forgets the elements, but not their memory. Tells how many bytes it has.
    pub clear: fn(&mut dyn Lent) -> usize,
}

impl VecKind {
    /// Vectors of this type of elements.
    pub const fn of<T: Element>() -> Self {
        Self {
            id: TypeId::of::<T>,
            new: || Arc::new(Vec::<T>::new()),
            clear: |lent| {
                let vec = filled_in::<T>(lent);
                vec.clear();
                vec.capacity() * size_of::<T>()
            },
        }
    }
}

impl fmt::Debug for VecKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vectors of {:?}", (self.id)())
    }
}

/// The vector that is lent, for its owner.
pub(crate) fn filled_in<T: Element>(lent: &mut dyn Lent) -> &mut Vec<T> {
    (lent as &mut dyn Any).downcast_mut().expect("a vector of its kind")
}

/// The elements that are lent, if they are of this type. Nothing is copied.
#[doc(hidden)]
pub fn vector_in<T: Element>(lent: Arc<dyn Lent>) -> Option<Vector<T>> {
    let lent = lent as Arc<dyn Any + Send + Sync>;
    let lent = match lent.downcast::<Vec<T>>() {
        Ok(all) => return Some(all.into()),
        Err(lent) => lent,
    };
    let lent = match lent.downcast::<Loan<T>>() {
        Ok(some) => return Some(some.into()),
        Err(lent) => lent,
    };
    match lent.downcast::<Vector<T>>() {
        Ok(some) => Some(Arc::unwrap_or_clone(some)),
        Err(lent) => lent.downcast().ok().and_then(|buffer| Vector::in_buffer(buffer).ok()),
    }
}

impl Lent for Buffer {
    fn as_bytes(&self) -> &[u8] {
        Buffer::as_bytes(self)
    }
    fn as_bytes_mut(&mut self) -> &mut [u8] {
        Buffer::as_bytes_mut(self)
    }
}

impl<T: Element> Lent for Vec<T> {
    fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
    fn as_bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self)
    }
}

impl<T: Element> Lent for Vector<T> {
    fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
    fn as_bytes_mut(&mut self) -> &mut [u8] {
        // Others read it.
        &mut []
    }
}

impl<T: Element> Lent for Loan<T> {
    fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.as_slice())
    }
    fn as_bytes_mut(&mut self) -> &mut [u8] {
        // What is on loan does not change.
        &mut []
    }
}

impl fmt::Debug for dyn Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.as_bytes().len())
    }
}

/// Between nodes a copy is lent.
mod by_value {
    use super::{Arc, Buffer, Lent};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &Arc<dyn Lent>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(value.as_bytes())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<dyn Lent>, D::Error> {
        Ok(Arc::new(Buffer::deserialize(from)?))
    }
}

// A message that carries one fits a cache line.
const _: () = assert!(size_of::<Payload>() == 32);

impl Payload {
    /// The most bytes that travel inside the record of an arrival.
    pub const INLINE: usize = 24;

    /// A payload with a copy of `bytes`. More than [`INLINE`](Self::INLINE) bytes go into a buffer.
    #[inline]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut words = [0; Self::INLINE / 8];
        match <[u8; 8]>::try_from(bytes) {
            Ok(word) => words[0] = u64::from_ne_bytes(word),
            Err(_) if bytes.len() > Self::INLINE => return Payload::Lent(Arc::new(Buffer::from_bytes(bytes))),
            Err(_) => bytemuck::bytes_of_mut(&mut words)[..bytes.len()].copy_from_slice(bytes),
        }
        Payload::Inline { len: bytes.len() as u8, words }
    }

    /// A payload that lends a vector.
    #[doc(hidden)]
    pub fn lend<T: Element>(vector: Vector<T>) -> Self {
        Payload::Lent(match vector.into_shared() {
            Ok(all) => all,
            Err(some) => Arc::new(some),
        })
    }

    /// The elements of the value. Those within the arrival are copied.
    pub(crate) fn into_vector<T: Element>(self) -> Result<Vector<T>, Error> {
        let copied = |bytes: &[u8]| bytemuck::pod_collect_to_vec(bytes).into();
        match self {
            Payload::Failed(error) => Err(*error),
            Payload::Lent(lent) => Ok(vector_in(lent.clone()).unwrap_or_else(|| copied(lent.as_bytes()))),
            short => Ok(copied(short.bytes())),
        }
    }

    /// Replaces the value by a copy of `bytes`, in place if they fit.
    #[inline]
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        match (self, <[u8; 8]>::try_from(bytes)) {
            (Payload::Inline { len, words }, Ok(word)) => (*len, words[0]) = (8, u64::from_ne_bytes(word)),
            (carried, _) => *carried = Payload::copy_of(bytes),
        }
    }

    /// Inline memory for `len` bytes, which are zero.
    #[inline]
    pub(crate) fn zeroed(len: usize) -> Self {
        Payload::Inline { len: len as u8, words: [0; Self::INLINE / 8] }
    }

    /// The bytes, to be filled. Empty for a value that somebody else holds too.
    #[doc(hidden)]
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Payload::None | Payload::Failed(_) => &mut [],
            Payload::Inline { len, words } => &mut bytemuck::bytes_of_mut(words)[..usize::from(*len)],
            Payload::Lent(value) => Arc::get_mut(value).map_or(&mut [], |value| value.as_bytes_mut()),
        }
    }

    /// The bytes of the value. Empty without one.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // Mostly they are inline. A `match` would be a table of jumps.
        if let Payload::Inline { len, words } = self {
            return &bytemuck::bytes_of(words)[..usize::from(*len)];
        }
        if let Payload::Lent(value) = self { value.as_bytes() } else { &[] }
    }
}

/// The bytes that values count for in virtual time, where their elements stand for others.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// The bytes of an element.
    own: usize,
    /// The bytes that it stands for.
    declared: usize,
}

impl Length {
    /// Elements stand for themselves.
    pub const OWN: Self = Self { own: 1, declared: 1 };

    /// Elements of `own` bytes each stand for `declared` bytes, or for their own with 0.
    pub fn new(own: usize, declared: usize) -> Self {
        if own == 0 || declared == 0 || declared == own { Self::OWN } else { Self { own, declared } }
    }

    /// The bytes that a value of so many bytes counts for.
    #[inline]
    pub fn of(self, bytes: usize) -> usize {
        if self == Self::OWN { bytes } else { self.declared_of(bytes) }
    }

    #[cold]
    fn declared_of(self, bytes: usize) -> usize {
        let declared = bytes as u128 * self.declared as u128 / self.own as u128;
        usize::try_from(declared).unwrap_or(usize::MAX)
    }

    /// The most bytes of a value that counts for no more than fit an arrival, and that fits one itself.
    pub(crate) fn most_inline(self) -> usize {
        Payload::INLINE.min(Payload::INLINE * self.own / self.declared)
    }
}

/// For the parameters of an object. Empty if elements stand for themselves.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OWN => Ok(()),
            Self { declared, .. } => write!(f, ", each for {declared} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_it_was_given_and_survives_the_wire() {
        for len in [0, 1, 8, 24, 25, 1000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let p = Payload::copy_of(&bytes);
            assert_eq!(p.bytes(), bytes);
            assert_eq!(matches!(p, Payload::Lent(_)), len > Payload::INLINE);
            let q: Payload = postcard::from_bytes(&postcard::to_stdvec(&p).unwrap()).unwrap();
            assert_eq!(q.bytes(), bytes);
        }
    }
}
