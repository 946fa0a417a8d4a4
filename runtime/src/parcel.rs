//! Arguments and results of shard tasks on their way to another processor.

use crate::Error;
use maniple_regions::Buffer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::Any;
use std::fmt;

/// A type that can be the argument or the result of a shard task: it can cross to another node.
///
/// Numbers, strings, tuples, vectors and handles (of regions, gangs, barriers and collectives) are portable. A struct
/// of yours needs `#[derive(serde::Serialize, serde::Deserialize)]`, and `serde` with its feature `derive` in
/// `Cargo.toml`. It must own its data and be `Send`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent to another node",
    note = "arguments and results of shard tasks, and results of tasks of the top-level task, need #[derive(serde::Serialize, serde::Deserialize)]"
)]
pub trait Portable: Serialize + DeserializeOwned + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Send + 'static> Portable for T {}

/// A value on its way. Within a node it is moved; it is encoded only when it crosses to another node.
pub(crate) enum Parcel {
    Value(Box<dyn Encode>),
    Encoded(Vec<u8>),
}

pub(crate) trait Encode: Send {
    fn encode(&self) -> Result<Vec<u8>, postcard::Error>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

struct Sealed<T>(T);

impl<T: Portable> Encode for Sealed<T> {
    fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(&self.0)
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Parcel {
    pub(crate) fn new<T: Portable>(value: T) -> Self {
        Parcel::Value(Box::new(Sealed(value)))
    }

    /// A copy for another node.
    pub(crate) fn encoded(&self) -> Result<Parcel, Error> {
        let bytes = match self {
            Parcel::Encoded(bytes) => bytes.clone(),
            Parcel::Value(v) => v.encode().map_err(|e| encoding("a task's argument or result", e))?,
        };
        Ok(Parcel::Encoded(bytes))
    }

    /// The number of bytes that it has when it crosses to another node.
    pub(crate) fn size(&self) -> usize {
        match self {
            Parcel::Encoded(bytes) => bytes.len(),
            Parcel::Value(v) => v.encode().map_or(0, |bytes| bytes.len()),
        }
    }

    pub(crate) fn open<T: Portable>(self) -> Result<T, Error> {
        match self {
            Parcel::Encoded(bytes) => postcard::from_bytes(&bytes).map_err(|e| encoding(std::any::type_name::<T>(), e)),
            Parcel::Value(v) => match v.into_any().downcast::<Sealed<T>>() {
                Ok(sealed) => Ok(sealed.0),
                Err(_) => Err(Error::misuse(
                    "opening a task's argument or result",
                    std::any::type_name::<T>(),
                    "a value of another type",
                )),
            },
        }
    }
}

fn encoding(what: &str, e: postcard::Error) -> Error {
    Error::Encoding { what: what.into(), message: e.to_string() }
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Parcel::Value(_) => "Value",
            Parcel::Encoded(_) => "Encoded",
        })
    }
}

// As bytes, which are copied in one piece. A list of numbers with the same encoding would be copied one by one.
impl Serialize for Parcel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Parcel::Encoded(bytes) => serializer.serialize_bytes(bytes),
            Parcel::Value(v) => serializer.serialize_bytes(&v.encode().map_err(serde::ser::Error::custom)?),
        }
    }
}

impl<'de> Deserialize<'de> for Parcel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Buffer::deserialize(deserializer).map(|bytes| Parcel::Encoded(bytes.as_bytes().to_vec()))
    }
}
