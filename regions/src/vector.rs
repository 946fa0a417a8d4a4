//! A vector that several may read.

use crate::{Buffer, Element, Loan, RegionError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Elements that several may hold and nobody changes. A clone shares them, and nothing is copied.
///
/// It is read as a slice. [`into_vec`](Self::into_vec) makes it a `Vec`. A result may be a part of a larger vector, as in a
/// scatter. Holding it keeps the whole vector in memory; `into_vec` copies the part and lets go of the rest.
///
/// ```
/// use maniple_regions::Vector;
///
/// let v = Vector::from(vec![1, 2, 3]);
/// let also = v.clone();
/// assert_eq!((v.len(), v[2], also.as_ptr()), (3, 3, v.as_ptr()));
/// assert_eq!(also, vec![1, 2, 3]);
/// ```
pub struct Vector<T>(Elements<T>);

enum Elements<T> {
    All(Arc<Vec<T>>),
    Some(Arc<Loan<T>>),
    Slice(Arc<(Vector<T>, Range<usize>)>),
    Buffer(Arc<InBuffer<T>>),
}

/// Elements in a buffer that nobody changes, and the function that reads them there.
struct InBuffer<T> {
    buffer: Arc<Buffer>,
    read: fn(&Buffer) -> &[T],
}

impl<T> Vector<T> {
    /// The elements.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match &self.0 {
            Elements::All(all) => all,
            Elements::Some(some) => some.as_slice(),
            Elements::Slice(slice) => Self::of_slice(slice),
            Elements::Buffer(buffer) => (buffer.read)(&buffer.buffer),
        }
    }

    /// Apart, as what calls itself is not inlined.
    #[inline(never)]
    fn of_slice((of, range): &(Self, Range<usize>)) -> &[T] {
        &of.as_slice()[range.clone()]
    }

    /// Some of the elements. They are shared, and nothing is copied.
    ///
    /// # Panics
    /// If the range does not lie in the vector.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        let len = self.len();
        assert!(range.start <= range.end && range.end <= len, "{range:?} of {len} elements");
        if range == (0..len) {
            return self.clone();
        }
        let (of, start) = match &self.0 {
            Elements::Slice(slice) => (slice.0.clone(), slice.1.start),
            _ => (self.clone(), 0),
        };
        Self(Elements::Slice(Arc::new((of, start + range.start..start + range.end))))
    }

    /// The elements as a vector. They are copied if somebody else holds them, or if they are lent by a
    /// [`Lendable`](crate::Lendable), [in a buffer](Self::in_buffer) or a [slice](Self::slice).
    pub fn into_vec(self) -> Vec<T>
    where
        T: Clone,
    {
        match self.0 {
            Elements::All(all) => Arc::unwrap_or_clone(all),
            _ => self.as_slice().to_vec(),
        }
    }

    /// The vector whose elements these are.
    ///
    /// # Errors
    /// The vector unchanged, if its elements are lent by a [`Lendable`](crate::Lendable), [in a buffer](Self::in_buffer) or a
    /// [slice](Self::slice) of another one.
    pub fn into_shared(self) -> Result<Arc<Vec<T>>, Self> {
        match self.0 {
            Elements::All(all) => Ok(all),
            some => Err(Self(some)),
        }
    }
}

impl<T: Element> Vector<T> {
    /// The elements in a buffer, in native byte order. Nothing is copied.
    ///
    /// # Errors
    /// [`RegionError::NotWholeElements`] if the length is not a multiple of the element size.
    pub fn in_buffer(buffer: Arc<Buffer>) -> Result<Self, RegionError> {
        fn read<T: Element>(buffer: &Buffer) -> &[T] {
            bytemuck::try_cast_slice(buffer.as_bytes()).unwrap_or_default()
        }
        if bytemuck::try_cast_slice::<u8, T>(buffer.as_bytes()).is_err() {
            return Err(buffer.not_whole::<T>());
        }
        Ok(Self(Elements::Buffer(Arc::new(InBuffer { buffer, read: read::<T> }))))
    }
}

impl<T> From<Vec<T>> for Vector<T> {
    fn from(all: Vec<T>) -> Self {
        Arc::new(all).into()
    }
}

impl<T> From<Arc<Vec<T>>> for Vector<T> {
    fn from(all: Arc<Vec<T>>) -> Self {
        Self(Elements::All(all))
    }
}

impl<T> From<Loan<T>> for Vector<T> {
    fn from(some: Loan<T>) -> Self {
        Arc::new(some).into()
    }
}

impl<T> From<Arc<Loan<T>>> for Vector<T> {
    fn from(some: Arc<Loan<T>>) -> Self {
        Self(Elements::Some(some))
    }
}

impl<T: Clone> From<Vector<T>> for Vec<T> {
    fn from(vector: Vector<T>) -> Self {
        vector.into_vec()
    }
}

impl<T> Default for Vector<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> Clone for Vector<T> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Elements::All(all) => Elements::All(all.clone()),
            Elements::Some(some) => Elements::Some(some.clone()),
            Elements::Slice(slice) => Elements::Slice(slice.clone()),
            Elements::Buffer(buffer) => Elements::Buffer(buffer.clone()),
        })
    }
}

impl<T> Deref for Vector<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T> AsRef<[T]> for Vector<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T> Borrow<[T]> for Vector<T> {
    fn borrow(&self) -> &[T] {
        self
    }
}

impl<'a, T> IntoIterator for &'a Vector<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Clone> IntoIterator for Vector<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Vector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Vector<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Vector<T> {}

impl<T: PartialEq> PartialEq<Vec<T>> for Vector<T> {
    fn eq(&self, other: &Vec<T>) -> bool {
        **self == **other
    }
}

impl<T: PartialEq> PartialEq<Vector<T>> for Vec<T> {
    fn eq(&self, other: &Vector<T>) -> bool {
        **self == **other
    }
}

impl<T: PartialEq> PartialEq<[T]> for Vector<T> {
    fn eq(&self, other: &[T]) -> bool {
        **self == *other
    }
}

impl<T: PartialEq, const N: usize> PartialEq<[T; N]> for Vector<T> {
    fn eq(&self, other: &[T; N]) -> bool {
        **self == other[..]
    }
}

impl<T: Serialize> Serialize for Vector<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(to)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Vector<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Vec::deserialize(from)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lendable;

    #[test]
    fn only_what_others_hold_is_copied() {
        let start = |v: &[u8]| v.as_ptr();
        let own = vec![1, 2, 3];
        let at = start(&own);
        let vector = Vector::from(own);
        let shared = vector.clone();
        let copy = vector.into_vec();
        assert!(start(&copy) != at && start(&shared) == at && shared == copy);
        assert_eq!(start(&shared.into_vec()), at);

        let mut all = Lendable::from(vec![1, 2, 3]);
        let some = Vector::from(all.lend(1..3));
        let also = some.clone();
        assert_eq!(start(&some), start(&all.as_slice()[1..]));
        drop(some);
        assert!(all.change(2..3).is_none(), "the clone is on loan");
        let also = also.into_shared().expect_err("it is on loan");
        assert_eq!(also.into_vec(), [2, 3]);
        assert!(all.change(2..3).is_some());
    }

    #[test]
    fn a_slice_shares_its_elements() {
        let all = Vector::from(vec![1, 2, 3, 4]);
        let some = all.slice(1..4).slice(1..2);
        assert_eq!((&some[..], some.as_ptr()), (&[3][..], all[2..].as_ptr()));
        assert_eq!(all.slice(0..4).as_ptr(), all.as_ptr());
        assert_eq!(all.slice(4..4).len(), 0);
        assert_eq!(some.into_shared().expect_err("it is a part").into_vec(), [3]);
        assert_eq!(all.into_shared().map(std::sync::Arc::try_unwrap).unwrap().unwrap(), [1, 2, 3, 4]);
    }

    #[test]
    fn elements_in_a_buffer_stay_there() {
        let buffer = Arc::new(Buffer::from_slice(&[1_u64, 2, 3]));
        let at = buffer.as_bytes().as_ptr();
        let all = Vector::<u64>::in_buffer(buffer.clone()).unwrap();
        let some = all.slice(1..3);
        assert_eq!((all.as_ptr().cast(), &some[..]), (at, &[2, 3][..]));
        assert_eq!(all.clone().into_shared().expect_err("it is in a buffer").into_vec(), [1, 2, 3]);
        assert_eq!(Vector::<[u8; 3]>::in_buffer(buffer.clone()).unwrap().len(), 8);
        let error = Vector::<[u64; 2]>::in_buffer(buffer).unwrap_err();
        assert!(matches!(error, RegionError::NotWholeElements { size: 16, came: 24, .. }), "{error}");
    }

    #[test]
    fn it_travels_as_a_vector() {
        let bytes = postcard::to_allocvec(&Vector::from(vec![7_u64, 8])).unwrap();
        assert_eq!(bytes, postcard::to_allocvec(&vec![7_u64, 8]).unwrap());
        let back: Vector<u64> = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(back, [7, 8]);
        assert!(postcard::from_bytes::<Vector<u64>>(&bytes[..1]).is_err());
    }
}
