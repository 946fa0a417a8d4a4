//! Typed fields and the sets of them that regions have.

use std::any::{TypeId, type_name};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::RegionError;

/// The cache line, in bytes: every field's array starts on one, and no element may ask for a stricter alignment.
pub(crate) const CACHE_LINE: usize = 64;

/// The type of a field's values: plain old data without padding (`bytemuck::Pod`), of at least one byte, aligned to at
/// most 64 bytes.
///
/// The trait is implemented for every such type. For a type of your own, derive `bytemuck::Pod` and `Zeroable`.
///
/// A field of a type without bytes, or of one aligned more strictly, does not compile:
///
/// ```compile_fail,E0080
/// const NOTHING: maniple_regions::Field<()> = maniple_regions::Field::new(0, "nothing");
/// ```
pub trait Element: bytemuck::Pod + Send + Sync + 'static {
    /// Stops the build for a type that cannot be an element. Evaluated wherever an element type is used.
    #[doc(hidden)]
    const FITS: () = {
        assert!(size_of::<Self>() > 0, "an element has at least one byte");
        assert!(align_of::<Self>() <= CACHE_LINE, "an element is aligned to at most 64 bytes");
    };
}

impl<T: bytemuck::Pod + Send + Sync + 'static> Element for T {}

/// The number of a field in its field space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FieldId(pub u16);

impl fmt::Display for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field {}", self.0)
    }
}

impl<T> From<Field<T>> for FieldId {
    fn from(field: Field<T>) -> Self {
        field.id
    }
}

/// A typed token for a field, usually a constant.
///
/// ```
/// use maniple_regions::Field;
/// pub const U: Field<f64> = Field::new(0, "u");
/// assert_eq!((U.name(), U.info().size), ("u", 8));
/// ```
pub struct Field<T> {
    id: FieldId,
    name: &'static str,
    name_hash: u64,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T> fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field<{}>({}, {:?})", type_name::<T>(), self.id.0, self.name)
    }
}

impl<T> Field<T> {
    /// The same number and name with elements of another type.
    #[doc(hidden)]
    #[inline]
    pub const fn with_element<U>(self) -> Field<U> {
        Field { id: self.id, name: self.name, name_hash: self.name_hash, element: PhantomData }
    }
}

impl<T: Element> Field<T> {
    /// Makes the field with number `id` and name `name`. Both must be unique in its field space.
    pub const fn new(id: u16, name: &'static str) -> Self {
        const { T::FITS };
        Field { id: FieldId(id), name, name_hash: fnv1a(name.as_bytes()), element: PhantomData }
    }

    /// The field's number.
    pub const fn id(&self) -> FieldId {
        self.id
    }

    /// The field's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The field's description, without a type parameter. Allocates nothing.
    pub fn info(&self) -> FieldInfo {
        FieldInfo {
            id: self.id,
            name: self.name,
            name_hash: self.name_hash,
            type_name: type_name::<T>(),
            size: size_of::<T>(),
            align: align_of::<T>(),
            stands_for: 0,
            padding: 0,
            element: TypeId::of::<T>(),
        }
    }
}

/// The description of a field at run time. Only [`Field::info`] makes one.
#[derive(Clone, Copy, Eq, Debug)]
pub struct FieldInfo {
    /// The field's number.
    pub id: FieldId,
    /// The field's name.
    pub name: &'static str,
    name_hash: u64,
    /// The name of the element type, for messages.
    pub type_name: &'static str,
    /// The size of an element, in bytes.
    pub size: usize,
    /// The alignment of an element, in bytes.
    pub align: usize,
    /// The bytes that an element stands for, or 0 for its own.
    stands_for: usize,
    padding: usize,
    element: TypeId,
}

/// Keeps one copy of each description for ever: instances are many, fields are few.
impl From<FieldInfo> for &'static FieldInfo {
    fn from(info: FieldInfo) -> Self {
        static ALL: Mutex<Vec<&FieldInfo>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        // Equal descriptions may have their names at different addresses.
        if let Some(known) = all
            .iter()
            .find(|known| ***known == info && known.stands_for == info.stands_for && known.padding == info.padding)
        {
            return known;
        }
        let kept: &'static FieldInfo = Box::leak(Box::new(info));
        all.push(kept);
        kept
    }
}

// The element type stands for its name, size and alignment. What an element stands for, and padding, concern a tree only.
impl PartialEq for FieldInfo {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.element == other.element && self.name == other.name
    }
}

impl Hash for FieldInfo {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.id, self.element, self.name).hash(state);
    }
}

/// FNV-1a as a constant function.
const fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

impl FieldInfo {
    /// The same field for a tree whose elements stand for so many bytes each. In virtual time it counts as many, when it moves
    /// and where tasks use it: a small program shows how long a large one would take. Outside virtual time nothing changes.
    pub fn standing_for(self, bytes: usize) -> Self {
        Self { stands_for: bytes, ..self }
    }

    /// The bytes that an element stands for: its own, unless [others](Self::standing_for) are declared.
    #[inline]
    pub fn length(&self) -> usize {
        if self.stands_for == 0 { self.size } else { self.stands_for }
    }

    /// The same field for a tree whose instances have room for so many more cells on each side, in each dimension: for ghost
    /// cells, so that a task works on one array ([`ReadWrite::padded`](crate::ReadWrite::padded)). These cells are not points of the
    /// tree. Instances for simultaneous coherence have none.
    pub fn with_padding(self, cells: usize) -> Self {
        Self { padding: cells, ..self }
    }

    /// The cells on each side for which instances have room.
    pub fn padding(&self) -> usize {
        self.padding
    }

    /// Whether both describe the same field. Compares a hash of the name, because every use by a task asks this.
    #[doc(hidden)]
    #[inline]
    pub fn is_of_same_field(&self, other: &FieldInfo) -> bool {
        self.id == other.id && self.name_hash == other.name_hash && self.element == other.element
    }

    /// Whether the elements are of type `T`. Size and alignment are compared too, because they are public and instance
    /// memory relies on them.
    pub fn holds<T: Element>(&self) -> bool {
        self.element == TypeId::of::<T>() && self.size == size_of::<T>() && self.align == align_of::<T>()
    }

    /// Whether both fields have the same element type.
    pub(crate) fn same_element(&self, other: &FieldInfo) -> bool {
        self.element == other.element && self.size == other.size && self.align == other.align
    }

    /// [`RegionError::WrongElement`] unless the elements are of type `T`.
    pub(crate) fn expect<T: Element>(&self) -> Result<(), RegionError> {
        if self.holds::<T>() { Ok(()) } else { Err(self.wrong_element(type_name::<T>())) }
    }

    #[cold]
    pub(crate) fn wrong_element(&self, came: &str) -> RegionError {
        RegionError::WrongElement { field: self.name.into(), expected: self.type_name.into(), came: came.into() }
    }
}

/// The fields of a region tree. Cloning shares the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldSpace {
    // Sorted by id.
    fields: Arc<[FieldInfo]>,
}

impl FieldSpace {
    /// The field space of `fields`, in any order.
    ///
    /// # Errors
    ///
    /// [`RegionError::DuplicateField`] if two fields share a number or a name.
    pub fn new(fields: &[FieldInfo]) -> Result<Self, RegionError> {
        let mut sorted = fields.to_vec();
        sorted.sort_by_key(|field| field.id);
        for (i, a) in sorted.iter().enumerate() {
            if let Some(b) = sorted[i + 1..].iter().find(|b| a.id == b.id || a.name == b.name) {
                return Err(RegionError::DuplicateField {
                    first: (a.id, a.name.into()),
                    second: (b.id, b.name.into()),
                });
            }
        }
        Ok(FieldSpace { fields: sorted.into() })
    }

    /// The fields in ascending order of their numbers.
    pub fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    /// The field with number `id`, if there is one.
    pub fn get(&self, id: FieldId) -> Option<&FieldInfo> {
        self.fields.binary_search_by_key(&id, |field| field.id).ok().map(|at| &self.fields[at])
    }

    /// Checks that `field` is one of these fields, with the same name and element type.
    ///
    /// # Errors
    ///
    /// [`RegionError::UnknownField`] if the number is unknown or has another name. [`RegionError::WrongElement`] if the
    /// element type differs.
    pub fn check(&self, field: &FieldInfo) -> Result<(), RegionError> {
        match self.get(field.id) {
            Some(known) if known.same_element(field) && known.name == field.name => Ok(()),
            Some(known) if known.name == field.name => Err(known.wrong_element(field.type_name)),
            _ => Err(RegionError::UnknownField {
                id: field.id,
                name: field.name.into(),
                known: self.fields.iter().map(|known| (known.id, known.name.into())).collect(),
            }),
        }
    }
}
