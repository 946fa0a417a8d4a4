//! Hashes of arguments, by which nodes compare them.
//!
//! A value is hashed by what it serializes to, without its bytes being kept. Two equal maps have one hash, and so have two
//! equal `HashSet`s: their order differs from process to process, and means nothing. The order of any other sequence counts.

use serde::Serialize;
use serde::ser::{self, Serializer};
use std::hash::{Hash, Hasher};

/// A hash of a value, the same in every process of the program. 0 if the value refuses to be serialized.
pub(crate) fn digest<T: Serialize>(value: &T) -> u64 {
    let mut digest = Digest::default();
    digest.put(value).map_or(0, |()| digest.hasher.finish())
}

#[derive(Default)]
struct Digest {
    hasher: Mixer,
    /// The type of the value that is about to be serialized.
    of_type: &'static str,
}

type Outcome = Result<(), postcard::Error>;

/// A hash of words. Each is multiplied into the state, which keeps both halves of the product. So hashes of a map's entries
/// can be added: hashes by a plain product are sums themselves.
struct Mixer(u64);

impl Default for Mixer {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(size_of::<u64>()) {
            let mut word = [0; size_of::<u64>()];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        const FACTOR: u128 = 0xa076_1d64_78bd_642f;
        let product = u128::from(self.0 ^ word) * FACTOR;
        self.0 = (product >> 64) as u64 ^ product as u64 ^ self.0.rotate_left(32);
    }
}

impl Digest {
    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
        self.of_type = std::any::type_name::<T>();
        value.serialize(self)
    }

    fn hash(&mut self, value: impl Hash) -> Outcome {
        value.hash(&mut self.hasher);
        Ok(())
    }
}

/// The types of the standard library that serialize as the value in them alone. References do so, too.
const WRAPPERS: [&str; 8] = ["::Box", "::Rc", "::Arc", "::Cow", "::RefCell", "::Mutex", "::RwLock", "::Reverse"];

/// Whether a type with this name is a `HashSet`, or wraps one.
fn is_hash_set(name: &str) -> bool {
    let is_wrapper = |part: &&str| WRAPPERS.iter().any(|wrapper| part.ends_with(wrapper));
    // Also at a bracket: a slice of sets has an order.
    name.split(['<', '[']).find(|part| !is_wrapper(part)).is_some_and(|part| part.ends_with("HashSet"))
}

/// The parts of a value that has several.
struct Parts<'a> {
    digest: &'a mut Digest,
    number: u64,
    /// Without an order, the sum of the parts' hashes.
    sum: Option<u64>,
    /// The key of a map that waits for its value.
    key: Digest,
}

impl<'a> Parts<'a> {
    fn new(digest: &'a mut Digest, unordered: bool) -> Result<Self, postcard::Error> {
        Ok(Self { digest, number: 0, sum: unordered.then_some(0), key: Digest::default() })
    }

    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
        self.number += 1;
        match &mut self.sum {
            None => self.digest.put(value),
            Some(sum) => {
                let mut part = std::mem::take(&mut self.key);
                part.put(value)?;
                *sum = sum.wrapping_add(part.hasher.finish());
                Ok(())
            }
        }
    }

    fn over(self) -> Outcome {
        self.digest.hash((self.number, self.sum))
    }
}

macro_rules! plain {
    ($($method:ident: $t:ty),*) => {$(
        fn $method(self, value: $t) -> Outcome {
            self.hash(value)
        }
    )*};
}

impl<'a> Serializer for &'a mut Digest {
    type Ok = ();
    type Error = postcard::Error;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Parts<'a>;
    type SerializeMap = Parts<'a>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Parts<'a>;

    plain!(
        serialize_bool: bool, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128
    );

    fn serialize_f32(self, value: f32) -> Outcome {
        self.hash(value.to_bits())
    }
    fn serialize_f64(self, value: f64) -> Outcome {
        self.hash(value.to_bits())
    }
    fn serialize_none(self) -> Outcome {
        self.hash(false)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Outcome {
        self.hash(true)?;
        self.put(value)
    }
    fn serialize_unit(self) -> Outcome {
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Outcome {
        Ok(())
    }
    fn serialize_unit_variant(self, _: &'static str, variant: u32, _: &'static str) -> Outcome {
        self.hash(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Outcome {
        self.put(value)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        value: &T,
    ) -> Outcome {
        self.hash(variant)?;
        self.put(value)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'a>, postcard::Error> {
        // A set without an order serializes as any sequence, so only its type tells.
        let has_no_order = is_hash_set(self.of_type);
        Parts::new(self, has_no_order)
    }
    fn serialize_tuple(self, _: usize) -> Result<Parts<'a>, postcard::Error> {
        Parts::new(self, false)
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, postcard::Error> {
        Parts::new(self, false)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, postcard::Error> {
        self.hash(variant)?;
        Parts::new(self, false)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'a>, postcard::Error> {
        Parts::new(self, true)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, postcard::Error> {
        Parts::new(self, false)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, postcard::Error> {
        self.hash(variant)?;
        Parts::new(self, false)
    }
    /// As on the way to another process.
    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! parts {
    ($($of:ident $method:ident $($key:ty)?),*) => {$(
        impl ser::$of for Parts<'_> {
            type Ok = ();
            type Error = postcard::Error;
            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $key,)? value: &T) -> Outcome {
                self.put(value)
            }
            fn end(self) -> Outcome {
                self.over()
            }
        }
    )*};
}

parts!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
    SerializeStruct serialize_field &'static str,
    SerializeStructVariant serialize_field &'static str
);

impl ser::SerializeMap for Parts<'_> {
    type Ok = ();
    type Error = postcard::Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Outcome {
        self.key.put(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
        self.put(value)
    }
    fn end(self) -> Outcome {
        self.over()
    }
}

#[cfg(test)]
mod tests {
    use super::digest;
    use serde::Serialize;
    use std::borrow::Cow;
    use std::cell::RefCell;
    use std::cmp::Reverse;
    use std::collections::{BTreeMap, HashMap, HashSet};
    use std::rc::Rc;
    use std::sync::{Arc, Mutex, RwLock};

    #[derive(Serialize)]
    enum Kind {
        None,
        One(u32),
        Two(u32, f64),
        Named { first: Option<String>, second: Vec<u8> },
    }

    #[derive(Serialize)]
    struct Held {
        set: HashSet<u32>,
        list: Vec<u32>,
    }

    /// Each `HashMap` of a process has an order of its own, as each process has.
    #[test]
    fn maps_and_sets_have_no_order() {
        for n in 0..40u32 {
            let map = |add: u32| (0..n).map(|i| (i, vec![i + add])).collect::<HashMap<u32, Vec<u32>>>();
            let sorted: BTreeMap<u32, Vec<u32>> = (0..n).map(|i| (i, vec![i])).collect();
            assert_eq!(digest(&map(0)), digest(&map(0)), "{n}");
            assert_eq!(digest(&map(0)), digest(&sorted), "{n}");
            assert!(n == 0 || digest(&map(0)) != digest(&map(1)), "{n}");
            let held = |by: u32| Held { set: (0..n).map(|i| i * by).collect(), list: (0..n).collect() };
            assert_eq!(digest(&held(3)), digest(&held(3)), "{n}");
            assert!(n < 2 || digest(&held(3)) != digest(&held(4)), "{n}");
            let nested = || (0..n).map(|i| (i, held(3))).collect::<Vec<_>>();
            assert_eq!(digest(&nested()), digest(&nested()), "{n}");
        }
    }

    /// These serialize as the set alone.
    #[test]
    fn a_set_behind_a_wrapper_has_no_order() {
        for n in 0..40u32 {
            let set = || (0..n).collect::<HashSet<u32>>();
            let plain = digest(&set());
            assert_eq!(digest(&&set()), plain, "{n}");
            assert_eq!(digest(&Box::new(set())), plain, "{n}");
            assert_eq!(digest(&Rc::new(set())), plain, "{n}");
            assert_eq!(digest(&Arc::new(set())), plain, "{n}");
            assert_eq!(digest(&Cow::Owned::<HashSet<u32>>(set())), plain, "{n}");
            assert_eq!(digest(&RefCell::new(set())), plain, "{n}");
            assert_eq!(digest(&Mutex::new(set())), plain, "{n}");
            assert_eq!(digest(&RwLock::new(set())), plain, "{n}");
            assert_eq!(digest(&Reverse(set())), plain, "{n}");
            assert_eq!(digest(&Arc::new(Mutex::new(Box::new(set())))), plain, "{n}");
            assert_eq!(digest(&Cow::Owned::<Arc<HashSet<u32>>>(Arc::new(set()))), plain, "{n}");
        }
    }

    #[test]
    fn sequences_of_sets_have_an_order() {
        let sets = |first: u32, second: u32| vec![HashSet::from([first]), HashSet::from([second])];
        let (one, other) = (sets(1, 2), sets(2, 1));
        assert_ne!(digest(&one), digest(&other));
        assert_ne!(digest(&&one[..]), digest(&&other[..]));
        let in_box = |sets: Vec<HashSet<u32>>| sets.into_boxed_slice();
        assert_ne!(digest(&in_box(one)), digest(&in_box(other)));
        let shared = |first, second| sets(first, second).into_iter().map(Arc::new).collect::<Arc<[_]>>();
        assert_ne!(digest(&shared(1, 2)), digest(&shared(2, 1)));
    }

    #[test]
    fn whatever_else_differs_counts() {
        let named =
            |first: Option<&str>, second: &[u8]| Kind::Named { first: first.map(Into::into), second: second.into() };
        let all = [
            digest(&Kind::None),
            digest(&Kind::One(1)),
            digest(&Kind::One(2)),
            digest(&Kind::Two(1, 0.0)),
            digest(&Kind::Two(1, -0.0)),
            digest(&named(None, &[])),
            digest(&named(Some(""), &[])),
            digest(&named(Some("a"), &[])),
            digest(&named(None, &[0])),
            digest(&named(None, &[0, 0])),
            digest(&vec![1u32, 2]),
            digest(&vec![2u32, 1]),
            digest(&vec![0.0, 2.0]),
            digest(&vec![2.0, 0.0]),
            digest(&vec![vec![1u32], vec![2]]),
            digest(&vec![vec![1u32, 2], vec![]]),
            digest(&BTreeMap::from([(1u32, 2u32), (3, 4)])),
            digest(&BTreeMap::from([(1u32, 4u32), (3, 2)])),
            digest(&BTreeMap::from([(2u32, 1u32), (4, 3)])),
            digest(&BTreeMap::from([(0u32, 0u32), (1, 1)])),
            digest(&BTreeMap::from([(0u32, 1u32), (1, 0)])),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
    }

    #[test]
    fn what_is_not_serialized_is_not_compared() {
        struct Refuses;
        impl Serialize for Refuses {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no"))
            }
        }
        assert_eq!(digest(&(1, Refuses)), 0);
    }
}
