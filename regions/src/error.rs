//! The crate's one error type.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{Coherence, FieldId, MemoryId, Privilege, Rect, Region};

/// What can go wrong with regions: what was expected, what came, and what to do.
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
        /// The number that came.
        id: FieldId,
        /// The name that came.
        name: Box<str>,
        /// The fields there are.
        known: Vec<(FieldId, Box<str>)>,
    },

    /// A field is used with another element type than it has.
    #[error("field `{field}` holds {expected}, but was used as {came}: use the field's own element type")]
    WrongElement {
        /// The field's name.
        field: Box<str>,
        /// The element type the field has.
        expected: Box<str>,
        /// The element type that came.
        came: Box<str>,
    },

    /// Rectangles, points or steps of different dimension meet.
    #[error("expected {expected} dimension(s) in {what}, got {came}: use the region's own dimension")]
    WrongDimension {
        /// What has the wrong dimension.
        what: Box<str>,
        /// The dimension expected.
        expected: usize,
        /// The dimension that came.
        came: usize,
    },

    /// A region tree whose values no program can address.
    #[error(
        "expected at most {} bytes in {what}, got {rect} of {each} bytes a point: use a smaller rectangle",
        isize::MAX
    )]
    TooLarge {
        /// What is made of it.
        what: Box<str>,
        /// The rectangle.
        rect: Box<Rect>,
        /// Bytes of a point, at least.
        each: usize,
    },

    /// A partition without colours.
    #[error("a partition of {region} needs at least one colour, got none")]
    NoColors {
        /// The region to partition.
        region: Region,
    },

    /// A partition with more colours than can be numbered.
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
        /// The rectangle that came.
        rect: Box<Rect>,
        /// The region it must lie in.
        region: Box<Region>,
    },

    /// A partition does not have the colour.
    #[error("expected a colour below {colors}, got {color}")]
    NoSuchColor {
        /// The number of colours.
        colors: usize,
        /// The colour that came.
        color: usize,
    },

    /// A rectangle is not covered by the instance.
    #[error("the instance of field `{field}` covers {covered}, but {asked} was asked for: ask for points it covers")]
    OutsideInstance {
        /// The field's name.
        field: Box<str>,
        /// The instance's rectangle.
        covered: Box<Rect>,
        /// The rectangle asked for.
        asked: Box<Rect>,
    },

    /// An overlapping lease is out.
    #[error(
        "field `{field}`: {wanted} of {asked} interferes with a {held} lease of {out} that is out: \
         release that lease first"
    )]
    Leased {
        /// The field's name.
        field: Box<str>,
        /// What was to be done.
        wanted: Privilege,
        /// Where.
        asked: Box<Rect>,
        /// The privilege of a lease that is out: read, or read-write for anything that may write.
        held: Privilege,
        /// Its rectangle.
        out: Box<Rect>,
    },

    /// A lease or accessor of a coherence that the instance or lease does not have.
    #[error("{what} of field `{field}` needs {expected} coherence, got {came}: use {advice}")]
    WrongCoherence {
        /// What was asked for.
        what: Box<str>,
        /// The field's name.
        field: Box<str>,
        /// The coherence expected.
        expected: Box<str>,
        /// The coherence that came.
        came: Coherence,
        /// What to use instead.
        advice: Box<str>,
    },

    /// An accessor of a privilege that the lease does not have.
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
        /// The privilege that came.
        came: Privilege,
    },

    /// A reduction under simultaneous coherence.
    #[error("field `{field}`: simultaneous coherence has no {came}: ask for read-write, or for another coherence")]
    NoSharedReduction {
        /// The field's name.
        field: Box<str>,
        /// The privilege that came.
        came: Privilege,
    },

    /// A lease comes back to an instance that did not give it.
    #[error(
        "the lease of {rect} of field `{field}` was not given by this instance in {memory}: release it where it came from"
    )]
    ForeignLease {
        /// The field of the lease.
        field: Box<str>,
        /// The rectangle of the lease.
        rect: Rect,
        /// The memory of the instance it came back to.
        memory: MemoryId,
    },

    /// Bytes that do not fill what they were given for.
    #[error("expected {expected} bytes for {what}, got {came}")]
    WrongLength {
        /// What the bytes are for.
        what: Box<str>,
        /// The number of bytes expected.
        expected: usize,
        /// The number of bytes that came.
        came: usize,
    },

    /// Bytes that are not a whole number of elements.
    #[error("expected a multiple of {size} bytes to see them as {element}, got {came}")]
    NotWholeElements {
        /// The element type.
        element: Box<str>,
        /// The size of an element, in bytes.
        size: usize,
        /// The number of bytes that came.
        came: usize,
    },

    /// An instance that does not fit into memory.
    #[error("no memory for {rect} of field `{field}`, {size} bytes an element, in {memory}: use smaller pieces")]
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
