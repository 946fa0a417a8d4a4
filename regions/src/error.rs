//! The crate's one error type.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{Coherence, FieldId, MemoryId, Privilege, Rect, Region};

/// A mistake in the use of regions. Its text says what was expected, what was given, and what to do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum RegionError {
    /// Two fields of a space share a number or a name.
    #[error(
        "a field space needs distinct numbers and names, but {} `{}` and {} `{}` clash: renumber or rename one",
        .first.0, .first.1, .second.0, .second.1
    )]
    DuplicateField {
        /// One of the two fields.
        first: (FieldId, Box<str>),
        /// The other one.
        second: (FieldId, Box<str>),
    },

    /// A field is not part of the field space.
    #[error("expected one of the fields {}, got {id} `{name}`: add it to the field space or name another", list(.known))]
    UnknownField {
        /// The number that was given.
        id: FieldId,
        /// The name that was given.
        name: Box<str>,
        /// The fields of the field space.
        known: Vec<(FieldId, Box<str>)>,
    },

    /// A field is used with another element type than it has.
    #[error("field `{field}` holds {expected}, but was used as {came}: use the field's own element type")]
    WrongElement {
        /// The field's name.
        field: Box<str>,
        /// The element type the field has.
        expected: Box<str>,
        /// The element type that was used.
        came: Box<str>,
    },

    /// Rectangles, points or steps of different dimensions are used together.
    #[error("expected {expected} dimension(s) in {what}, got {came}: use the region's own dimension")]
    WrongDimension {
        /// The thing that has the wrong dimension, such as "the tiles of a grid".
        what: Box<str>,
        /// The dimension expected.
        expected: usize,
        /// The dimension that was given.
        came: usize,
    },

    /// A region tree is so large that no program can address its values.
    #[error(
        "expected at most {} bytes in {what}, got {rect} of {each} bytes a point: use a smaller rectangle",
        isize::MAX
    )]
    TooLarge {
        /// The thing to be made, such as "field `u`".
        what: Box<str>,
        /// The rectangle.
        rect: Box<Rect>,
        /// Bytes of one point.
        each: usize,
    },

    /// A partition has no colours.
    #[error("a partition of {region} needs at least one colour, got none")]
    NoColors {
        /// The region to partition.
        region: Region,
    },

    /// A partition has more colours than can be numbered.
    #[error("a partition of {region} has more colours than {}: use fewer tiles", usize::MAX)]
    TooManyColors {
        /// The region to partition.
        region: Region,
    },

    /// The sizes of blocks do not add up to the extent they divide.
    #[error("the blocks of {region} must add up to its first extent, {expected}, but add up to {came}")]
    WrongBlocks {
        /// The region to partition.
        region: Region,
        /// The region's extent in the first dimension.
        expected: usize,
        /// The sum of the sizes.
        came: u128,
    },

    /// A rectangle of a partition reaches outside its region.
    #[error("rectangle {rect} of colour {color} must lie within {region}: intersect it with the region first")]
    OutsideRegion {
        /// The colour.
        color: usize,
        /// The rectangle that was given.
        rect: Box<Rect>,
        /// The region it must lie in.
        region: Box<Region>,
    },

    /// A partition does not have the colour.
    #[error("expected a colour below {colors}, got {color}")]
    NoSuchColor {
        /// The number of colours.
        colors: usize,
        /// The colour that was given.
        color: usize,
    },

    /// An instance does not cover a rectangle.
    #[error("the instance of field `{field}` covers {covered}, but {asked} was asked for: ask for points it covers")]
    OutsideInstance {
        /// The field's name.
        field: Box<str>,
        /// The instance's rectangle.
        covered: Box<Rect>,
        /// The rectangle asked for.
        asked: Box<Rect>,
    },

    /// An overlapping lease has not been released.
    #[error(
        "field `{field}`: {wanted} of {asked} interferes with a {held} lease of {out}: \
         release that lease first"
    )]
    Leased {
        /// The field's name.
        field: Box<str>,
        /// The privilege asked for.
        wanted: Privilege,
        /// The rectangle asked for.
        asked: Box<Rect>,
        /// The privilege of the other lease: read, or read-write for anything that may write.
        held: Privilege,
        /// The rectangle of the other lease.
        out: Box<Rect>,
    },

    /// A lease or an accessor is asked for with a coherence that the instance or the lease does not have.
    #[error("{what} of field `{field}` needs {expected} coherence, got {came}: use {advice}")]
    WrongCoherence {
        /// The lease or the accessor asked for.
        what: Box<str>,
        /// The field's name.
        field: Box<str>,
        /// The coherence expected.
        expected: Box<str>,
        /// The coherence that was given.
        came: Coherence,
        /// The thing to use instead.
        advice: Box<str>,
    },

    /// An accessor needs a privilege that the lease does not have.
    #[error(
        "{accessor} of field `{field}` needs {expected}, but the lease holds {came}: ask for a lease that covers it"
    )]
    WrongPrivilege {
        /// The accessor.
        accessor: Box<str>,
        /// The field's name.
        field: Box<str>,
        /// The privilege expected.
        expected: Privilege,
        /// The privilege of the lease.
        came: Privilege,
    },

    /// A reduction is asked for under simultaneous coherence.
    #[error(
        "field `{field}`: simultaneous coherence does not allow {came}: ask for read-write or for another coherence"
    )]
    NoSharedReduction {
        /// The field's name.
        field: Box<str>,
        /// The privilege asked for.
        came: Privilege,
    },

    /// A lease is released at an instance that did not give it.
    #[error(
        "the lease of {rect} of field `{field}` was not given by this instance in {memory}: \
         release it at its own instance"
    )]
    ForeignLease {
        /// The field of the lease.
        field: Box<str>,
        /// The rectangle of the lease.
        rect: Rect,
        /// The memory of the instance at which it was released.
        memory: MemoryId,
    },

    /// A number of bytes does not match their use.
    #[error("expected {expected} bytes for {what}, got {came}")]
    WrongLength {
        /// The use of the bytes.
        what: Box<str>,
        /// The number of bytes expected.
        expected: usize,
        /// The number of bytes that was given.
        came: usize,
    },

    /// A number of bytes is not a whole number of elements.
    #[error("expected a multiple of {size} bytes to read them as {element}, got {came}")]
    NotWholeElements {
        /// The element type.
        element: Box<str>,
        /// The size of an element, in bytes.
        size: usize,
        /// The number of bytes that was given.
        came: usize,
    },

    /// An instance does not fit into memory.
    #[error(
        "not enough memory for {rect} of field `{field}`, {size} bytes an element, in {memory}: use smaller pieces"
    )]
    OutOfMemory {
        /// The field's name.
        field: Box<str>,
        /// The rectangle to be held.
        rect: Rect,
        /// The size of an element, in bytes.
        size: usize,
        /// The memory.
        memory: MemoryId,
    },
}

fn list(fields: &[(FieldId, Box<str>)]) -> String {
    let mut text = String::from("(");
    for (i, (id, name)) in fields.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{} `{name}`", id.0);
    }
    text + ")"
}
