//! The structures and numbers of `include/maniple_mapper.h`, field by field. A test has a C compiler check that both
//! sides have the same layout.

use std::ffi::{c_char, c_void};

/// The layout of a structure, for the test that compares it with the header.
pub struct Layout {
    /// The name after `struct maniple_`.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// The fields in order, each with its offset in bytes.
    pub fields: &'static [(&'static str, usize)],
}

/// Declares the structures, and lists their layouts.
macro_rules! structures {
    ($($type:ident = $name:literal { $($field:ident: $of:ty),+ $(,)? })+) => {
        $(
            #[doc = concat!("`struct maniple_", $name, "`. The header documents its fields.")]
            #[repr(C)]
            #[derive(Debug, Clone, Copy)]
            #[allow(missing_docs)]
            pub struct $type { $(pub $field: $of),+ }
        )+

        /// All structures of the interface.
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            name: $name,
            size: size_of::<$type>(),
            fields: &[$((stringify!($field), std::mem::offset_of!($type, $field))),+],
        }),+];
    };
}

/// Declares the numbers, and lists them.
macro_rules! numbers {
    ($($constant:ident = $value:expr;)+) => {
        $(
            #[doc = concat!("`MANIPLE_", stringify!($constant), "`.")]
            pub const $constant: u32 = $value;
        )+

        /// All numbers of the interface, by their names after `MANIPLE_`.
        pub const NUMBERS: &[(&str, u32)] = &[$((stringify!($constant), $value)),+];
    };
}

numbers! {
    MAPPER_MAGIC = 0x4d6e_706c;
    MAPPER_VERSION = 2;
    OK = 0;
    FAILED = 1;
    NO_MEMORY = 0;
    ORDINARY = 1;
    REGISTERED = 2;
    READ = 0;
    READ_WRITE = 1;
    WRITE_DISCARD = 2;
    REDUCE = 3;
    EXCLUSIVE = 0;
    ATOMIC = 1;
    SIMULTANEOUS = 2;
    IN_PLACE = 0;
    COPY = 1;
    PRIORITIES = maniple_mapper::Priority::LEVELS as u32;
    NORMAL = maniple_mapper::Priority::NORMAL.0 as u32;
    RAISED = maniple_mapper::Priority::RAISED.0 as u32;
    ANYWHERE = maniple_mapper::ProcessorId::ANYWHERE.0;
    BLOCKED = 0;
    CYCLIC = 1;
    EXPLICIT = 2;
    FIND = 0;
    CREATE = 1;
    BINOMIAL = 0;
    LINEAR = 1;
    TREE = 2;
    SLICE_HERE = 0;
    SLICE_BLOCKED = 1;
    SLICE_EXPLICIT = 2;
}

// A library may break the rule that no exception leaves a call. With `C-unwind` that is defined behaviour.

/// A call with an input and an output.
pub type Call<I, O> = unsafe extern "C-unwind" fn(*mut c_void, *const I, *mut O, *mut c_char, usize) -> i32;
/// `create`.
pub type Create = unsafe extern "C-unwind" fn(*const c_char, *mut c_char, usize) -> *mut c_void;
/// `destroy`.
pub type Destroy = unsafe extern "C-unwind" fn(*mut c_void);
/// `name`.
pub type Name = unsafe extern "C-unwind" fn(*mut c_void) -> *const c_char;
/// `profile`.
pub type Profile = unsafe extern "C-unwind" fn(*mut c_void, *const ProfileInput, *mut c_char, usize) -> i32;
/// `add`.
pub type Add = unsafe extern "C" fn(*mut c_void, u64, u64, u32);
/// `maniple_mapper_library`.
pub type Entry = unsafe extern "C-unwind" fn() -> *const Library;

structures! {
    Text = "text" { bytes: *const c_char, length: usize }
    Machine = "machine" { size: u32, processors: u32, per_node: u32, utility: u32 }
    Region = "region" { tree: u32, dimensions: u32, lo: [i64; 3], hi: [i64; 3] }
    PlaceShardsInput = "place_shards_input" { size: u32, shards: u32, gang: Text, machine: *const Machine }
    PlaceShardsOutput = "place_shards_output" { size: u32, placement: u32, processors: *mut u32 }
    Namer = "namer" { processor: u32, privilege: u32 }
    PlaceSharedInput = "place_shared_input" {
        size: u32,
        field: u32,
        region: Region,
        namers: *const Namer,
        namers_length: usize,
        machine: *const Machine,
    }
    PlaceSharedOutput = "place_shared_output" { size: u32, processor: u32 }
    MapInstanceInput = "map_instance_input" {
        size: u32,
        field: u32,
        region: Region,
        bytes: u64,
        processor: u32,
        coherence: u32,
        found: u32,
        reserved: u32,
        machine: *const Machine,
    }
    MapInstanceOutput = "map_instance_output" { size: u32, choice: u32, memory: u32 }
    SelectSourceInput = "select_source_input" {
        size: u32,
        field: u32,
        region: Region,
        holders: *const u32,
        holders_length: usize,
        to: u32,
        reserved: u32,
        machine: *const Machine,
    }
    SelectSourceOutput = "select_source_output" { size: u32, processor: u32 }
    KeepInstanceInput = "keep_instance_input" {
        size: u32,
        field: u32,
        region: Region,
        bytes: u64,
        processor: u32,
        reserved: u32,
        machine: *const Machine,
    }
    KeepInstanceOutput = "keep_instance_output" { size: u32, keep: u32 }
    RouteInput = "route_input" {
        size: u32,
        field: u32,
        region: Region,
        bytes: u64,
        recipients: *const u32,
        priorities: *const u32,
        recipients_length: usize,
        from: u32,
        reserved: u32,
        machine: *const Machine,
    }
    RouteOutput = "route_output" { size: u32, route: u32, parents: *mut u32 }
    SliceIndexInput = "slice_index_input" {
        size: u32,
        shard: u32,
        task: Text,
        points: u64,
        processor: u32,
        reserved: u32,
        machine: *const Machine,
    }
    SliceIndexOutput = "slice_index_output" { size: u32, slicing: u32, list: *mut c_void, add: Option<Add> }
    Requirement = "requirement" {
        region: Region,
        field: u32,
        privilege: u32,
        coherence: u32,
        memory: u32,
        processor: u32,
        reserved: u32,
        bytes: u64,
        reduction: u64,
    }
    MapLeafInput = "map_leaf_input" {
        size: u32,
        shard: u32,
        task: Text,
        requirements: *const Requirement,
        requirements_length: usize,
        processor: u32,
        reserved: u32,
        machine: *const Machine,
    }
    MapLeafOutput = "map_leaf_output" {
        size: u32,
        processor: u32,
        priority: u32,
        copies_in: u32,
        profile: u32,
        reserved: u32,
        access: *mut u32,
    }
    PlaceTaskInput = "place_task_input" {
        size: u32,
        node: u32,
        task: Text,
        requirements: *const Requirement,
        requirements_length: usize,
        nodes: u32,
        reserved: u32,
        machine: *const Machine,
    }
    PlaceTaskOutput = "place_task_output" { size: u32, node: u32 }
    ChooseAlgorithmInput = "choose_algorithm_input" {
        size: u32,
        reserved: u32,
        collective: Text,
        kind: Text,
        placement: *const u32,
        placement_length: usize,
        bytes: u64,
        choices: *const Text,
        choices_length: usize,
        machine: *const Machine,
    }
    ChooseAlgorithmOutput = "choose_algorithm_output" { size: u32, choice: u32 }
    MapCollectiveInput = "map_collective_input" {
        size: u32,
        shards: u32,
        collective: Text,
        bytes: u64,
        machine: *const Machine,
    }
    MapCollectiveOutput = "map_collective_output" { size: u32, memory: u32, access: u32, priority: u32 }
    ProfileInput = "profile_input" {
        size: u32,
        shard: u32,
        task: Text,
        processor: u32,
        reserved: u32,
        waited_ns: u64,
        ran_ns: u64,
    }
    Library = "library" {
        magic: u32,
        version: u32,
        size: u32,
        reserved: u32,
        create: Option<Create>,
        destroy: Option<Destroy>,
        name: Option<Name>,
        place_shards: Option<Call<PlaceShardsInput, PlaceShardsOutput>>,
        place_shared: Option<Call<PlaceSharedInput, PlaceSharedOutput>>,
        map_instance: Option<Call<MapInstanceInput, MapInstanceOutput>>,
        select_source: Option<Call<SelectSourceInput, SelectSourceOutput>>,
        slice_index: Option<Call<SliceIndexInput, SliceIndexOutput>>,
        map_leaf: Option<Call<MapLeafInput, MapLeafOutput>>,
        choose_algorithm: Option<Call<ChooseAlgorithmInput, ChooseAlgorithmOutput>>,
        map_collective: Option<Call<MapCollectiveInput, MapCollectiveOutput>>,
        profile: Option<Profile>,
        keep_instance: Option<Call<KeepInstanceInput, KeepInstanceOutput>>,
        place_task: Option<Call<PlaceTaskInput, PlaceTaskOutput>>,
        route: Option<Call<RouteInput, RouteOutput>>,
    }
}

impl Text {
    /// A view of a text. It is valid as long as the text is.
    pub fn of(text: &str) -> Self {
        Self { bytes: text.as_ptr().cast(), length: text.len() }
    }
}

impl Library {
    /// The size of the table in the first release of version 2. Later tables may be larger, never smaller.
    pub const FIRST_SIZE: usize = 16 + 12 * size_of::<Option<Create>>();

    /// A table without any call.
    pub const NONE: Library = Library {
        magic: MAPPER_MAGIC,
        version: MAPPER_VERSION,
        size: size_of::<Library>() as u32,
        reserved: 0,
        create: None,
        destroy: None,
        name: None,
        place_shards: None,
        place_shared: None,
        map_instance: None,
        select_source: None,
        slice_index: None,
        map_leaf: None,
        choose_algorithm: None,
        map_collective: None,
        profile: None,
        keep_instance: None,
        place_task: None,
        route: None,
    };
}

/// The size of a structure in bytes, as its first field holds it.
pub const fn size<T>() -> u32 {
    size_of::<T>() as u32
}

const _: () = assert!(size_of::<Library>() >= Library::FIRST_SIZE);
const _: () = assert!(size_of::<Region>() == 56 && size_of::<Machine>() == 16);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Library>() == 136);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<MapLeafInput>() == 56 && size_of::<MapLeafOutput>() == 32);
