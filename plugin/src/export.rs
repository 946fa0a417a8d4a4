//! The library's side of the interface: the functions behind [`export_mapper!`](crate::export_mapper).
//!
//! Only the structures of the header cross. So the library and the program may be built by different compilers, and
//! from different versions of this crate.

use crate::{abi, codes};
use maniple_mapper::{
    Algorithm, AlgorithmInput, CollectiveInput, InstanceChoice, InstanceInput, KeepInput, Kind, LeafInput, Machine,
    Mapper, MemoryKind, NodeId, PlaceShardsInput, PlaceSharedInput, PlaceTaskInput, Placement, ProcessorId,
    ProfileInput, RequirementInput, Requirements, Route, RouteInput, SliceInput, Slicing, SourceInput,
};
use maniple_regions::Region;
use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The mapper behind the pointer that `create` returns.
struct Exported {
    mapper: Box<dyn Mapper>,
    name: CString,
}

/// Exports a mapper from a library, a crate with `crate-type = ["cdylib"]`. The argument is a function that makes the
/// mapper from the options, or gives an error that the user sees.
///
/// ```
/// use maniple_mapper::{Mapper, PlaceShardsInput, Placement};
///
/// struct Cyclic;
///
/// impl Mapper for Cyclic {
///     fn name(&self) -> &str {
///         "cyclic"
///     }
///     fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
///         Placement::Cyclic
///     }
/// }
///
/// maniple_plugin::export_mapper!(|options: &str| match options {
///     "" => Ok(Cyclic),
///     other => Err(format!("unknown option `{other}`; there are none")),
/// });
/// # fn main() {}
/// ```
///
/// A panic in the mapper is caught in the library and reaches the program as an error. A library that is built with
/// `panic = "abort"` ends the process instead.
#[macro_export]
macro_rules! export_mapper {
    ($constructor:expr) => {
        /// The function that `include/maniple_mapper.h` of the crate `maniple-plugin` requires.
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn maniple_mapper_library() -> *const $crate::abi::Library {
            unsafe extern "C-unwind" fn create(
                options: *const ::std::ffi::c_char,
                message: *mut ::std::ffi::c_char,
                capacity: usize,
            ) -> *mut ::std::ffi::c_void {
                // SAFETY: the header requires these arguments of the caller.
                unsafe { $crate::export::create(options, message, capacity, $constructor) }
            }
            static LIBRARY: $crate::abi::Library = $crate::export::library(create);
            &LIBRARY
        }
    };
}

/// The table of a library. `create` makes its mappers.
pub const fn library(create: abi::Create) -> abi::Library {
    abi::Library {
        create: Some(create),
        destroy: Some(destroy),
        name: Some(name),
        place_shards: Some(place_shards),
        place_shared: Some(place_shared),
        map_instance: Some(map_instance),
        select_source: Some(select_source),
        slice_index: Some(slice_index),
        map_leaf: Some(map_leaf),
        choose_algorithm: Some(choose_algorithm),
        map_collective: Some(map_collective),
        profile: Some(profile),
        keep_instance: Some(keep_instance),
        place_task: Some(place_task),
        route: Some(route),
        ..abi::Library::NONE
    }
}

/// `create`, with the user's constructor.
///
/// # Safety
/// `options` must be NUL-terminated, and `message` must have space for `capacity` bytes.
pub unsafe fn create<M: Mapper + 'static, E: Display>(
    options: *const c_char,
    message: *mut c_char,
    capacity: usize,
    constructor: impl FnOnce(&str) -> Result<M, E>,
) -> *mut c_void {
    let made = || {
        // SAFETY: it is NUL-terminated and lives during the call.
        let options = unsafe { CStr::from_ptr(options) };
        let options = options.to_str().map_err(|_| "the options are not UTF-8")?;
        let mapper = Box::new(constructor(options).map_err(|e| e.to_string())?);
        let name = CString::new(mapper.name()).map_err(|_| "the mapper's name has a NUL byte in it")?;
        Ok(Box::new(Exported { mapper, name }))
    };
    match guarded(made) {
        Ok(exported) => Box::into_raw(exported).cast(),
        Err(text) => {
            // SAFETY: the caller says so.
            unsafe { write(&text, message, capacity) };
            std::ptr::null_mut()
        }
    }
}

/// Runs a function and turns a panic into an error message.
fn guarded<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = format!("panicked: {}", said(&*panic));
        // The value of a panic may itself panic when it is dropped.
        std::mem::forget(panic);
        Err(text)
    })
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or(panic.downcast_ref::<&str>().copied()).unwrap_or("with something that is no text")
}

/// Writes as many whole characters of a text as fit, and a NUL.
///
/// # Safety
/// `message` has space for `capacity` bytes.
unsafe fn write(text: &str, message: *mut c_char, capacity: usize) {
    let Some(longest) = capacity.checked_sub(1) else { return };
    let length = (0..=longest.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    // SAFETY: length + 1 <= capacity.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), message.cast(), length);
        *message.add(length) = 0;
    }
}

unsafe extern "C-unwind" fn destroy(mapper: *mut c_void) {
    // SAFETY: `create` made it, and the caller has no other.
    let exported = unsafe { Box::from_raw(mapper.cast::<Exported>()) };
    // `destroy` has no way to return an error.
    let _ = guarded(|| {
        drop(exported);
        Ok(())
    });
}

unsafe extern "C-unwind" fn name(mapper: *mut c_void) -> *const c_char {
    // SAFETY: `create` made it.
    unsafe { &*mapper.cast::<Exported>() }.name.as_ptr()
}

/// Checks that the caller's structure is at least as large as the one this library knows. Later versions add fields at
/// the end.
///
/// # Safety
/// `given` points to a structure of the interface that begins with its size.
unsafe fn enough<T>(what: &str, given: *const T) -> Result<(), String> {
    // SAFETY: the caller says so.
    let (found, expected) = (unsafe { *given.cast::<u32>() }, abi::size::<T>());
    if found >= expected {
        return Ok(());
    }
    Err(format!("expected an {what} of at least {expected} bytes, found {found}: the program is too old"))
}

/// Runs one call. Gives its status, and writes a message if it fails.
///
/// # Safety
/// `mapper` must come from `create`. `input` and `output` must point to structures of this interface that begin with
/// their sizes. `message` must have space for `capacity` bytes.
unsafe fn call<I, O>(
    mapper: *mut c_void,
    (input, output): (*const I, *const O),
    (message, capacity): (*mut c_char, usize),
    f: impl FnOnce(&dyn Mapper, &I) -> Result<(), String>,
) -> i32 {
    let answer = || {
        // SAFETY: the caller says so.
        unsafe { enough("input", input) }?;
        // SAFETY: likewise.
        unsafe { enough("output", output) }?;
        // SAFETY: `create` made it, and there is an input of at least that size.
        let (mapper, input) = unsafe { (&*mapper.cast::<Exported>(), &*input) };
        f(&*mapper.mapper, input)
    };
    match guarded(answer) {
        Ok(()) => abi::OK as i32,
        Err(text) => {
            // SAFETY: the caller says so.
            unsafe { write(&text, message, capacity) };
            abi::FAILED as i32
        }
    }
}

/// A text of an input.
///
/// # Safety
/// It is valid during the call.
unsafe fn text<'a>(text: &abi::Text) -> Result<&'a str, String> {
    // SAFETY: the caller says so.
    let bytes = unsafe { list(text.bytes.cast::<u8>(), text.length) };
    std::str::from_utf8(bytes).map_err(|_| "a text of the input is not UTF-8".into())
}

/// A list of an input.
///
/// # Safety
/// It is valid during the call, or of no length.
unsafe fn list<'a, T>(first: *const T, length: usize) -> &'a [T] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller says so.
    unsafe { std::slice::from_raw_parts(first, length) }
}

/// A list of an output, for which the caller has provided the memory.
///
/// # Safety
/// It is valid during the call and nothing else uses it, or it is null or of no length.
unsafe fn list_mut<'a, T>(what: &str, first: *mut T, length: usize) -> Result<&'a mut [T], String> {
    if length == 0 {
        return Ok(&mut []);
    }
    if first.is_null() {
        return Err(format!("expected space for {length} numbers in `{what}`, found none"));
    }
    // SAFETY: the caller says so.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, length) })
}

/// The machine of an input.
///
/// # Safety
/// It is valid during the call.
unsafe fn machine(machine: *const abi::Machine) -> Machine {
    // SAFETY: the caller says so.
    codes::machine_of(unsafe { &*machine })
}

/// The regions of requirements, in their order.
fn regions(given: &[abi::Requirement]) -> Result<Vec<Region>, String> {
    given.iter().map(|r| codes::region_of(&r.region)).collect()
}

/// The requirements of structures, with their regions.
fn requirements<'a>(
    given: &[abi::Requirement],
    regions: &'a [Region],
    machine: &Machine,
) -> Result<Vec<RequirementInput<'a>>, String> {
    let requirement = |(r, region): (&abi::Requirement, &'a Region)| {
        Ok(RequirementInput {
            region,
            field: codes::field_of(r.field)?,
            privilege: codes::privilege_of(r.privilege, r.reduction)?,
            coherence: codes::coherence_of(r.coherence)?,
            bytes: r.bytes as usize,
            memory: machine.memory(ProcessorId(r.processor), codes::memory_of(r.memory)?),
        })
    };
    given.iter().zip(regions).map(requirement).collect()
}

// SAFETY of the functions below: the header requires valid pointers of the caller. Inputs are read and outputs are
// written during the call only.

unsafe extern "C-unwind" fn place_shards(
    mapper: *mut c_void,
    input: *const abi::PlaceShardsInput,
    output: *mut abi::PlaceShardsOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::PlaceShardsInput| {
        let (gang, machine) = unsafe { (text(&input.gang)?, machine(input.machine)) };
        let shards = input.shards;
        let placement = mapper.place_shards(&PlaceShardsInput { gang, shards, machine: &machine });
        let number = match placement {
            Placement::Blocked => abi::BLOCKED,
            Placement::Cyclic => abi::CYCLIC,
            Placement::Explicit(list) if list.len() != shards as usize => {
                return Err(format!("illegal number of shards placed {}; legal: {shards}", list.len()));
            }
            Placement::Explicit(list) => {
                unsafe {
                    std::ptr::copy_nonoverlapping(codes::processors(&list).as_ptr(), (*output).processors, list.len())
                };
                abi::EXPLICIT
            }
        };
        unsafe { (*output).placement = number };
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn place_shared(
    mapper: *mut c_void,
    input: *const abi::PlaceSharedInput,
    output: *mut abi::PlaceSharedOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::PlaceSharedInput| {
        let (namers, machine) = unsafe { (list(input.namers, input.namers_length), machine(input.machine)) };
        // The interface has no operator of a reduction here, because no home depends on it.
        let namer = |n: &abi::Namer| Ok((ProcessorId(n.processor), codes::privilege_of(n.privilege, 0)?));
        let namers = namers.iter().map(namer).collect::<Result<Vec<_>, String>>()?;
        let (region, field) = (codes::region_of(&input.region)?, codes::field_of(input.field)?);
        let home = mapper.place_shared(&PlaceSharedInput { region, field, namers: &namers, machine: &machine });
        unsafe { (*output).processor = home.0 };
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn map_instance(
    mapper: *mut c_void,
    input: *const abi::MapInstanceInput,
    output: *mut abi::MapInstanceOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::MapInstanceInput| {
        let machine = unsafe { machine(input.machine) };
        let found = (input.found != abi::NO_MEMORY).then(|| codes::memory_of(input.found)).transpose()?;
        let choice = mapper.map_instance(&InstanceInput {
            region: codes::region_of(&input.region)?,
            field: codes::field_of(input.field)?,
            bytes: input.bytes as usize,
            processor: ProcessorId(input.processor),
            coherence: codes::coherence_of(input.coherence)?,
            found,
            machine: &machine,
        });
        let (choice, memory) = match choice {
            InstanceChoice::Find => (abi::FIND, found.unwrap_or(MemoryKind::Ordinary)),
            InstanceChoice::Create(memory) => (abi::CREATE, memory),
        };
        unsafe { ((*output).choice, (*output).memory) = (choice, codes::memory(memory)) };
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn select_source(
    mapper: *mut c_void,
    input: *const abi::SelectSourceInput,
    output: *mut abi::SelectSourceOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::SelectSourceInput| {
        let (holders, machine) = unsafe { (list(input.holders, input.holders_length), machine(input.machine)) };
        let (region, field) = (codes::region_of(&input.region)?, codes::field_of(input.field)?);
        let (to, holders) = (ProcessorId(input.to), &codes::processors_of(holders)[..]);
        let source = SourceInput { region, field, to, holders, machine: &machine };
        unsafe { (*output).processor = mapper.select_source(&source).0 };
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn keep_instance(
    mapper: *mut c_void,
    input: *const abi::KeepInstanceInput,
    output: *mut abi::KeepInstanceOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::KeepInstanceInput| {
        let machine = unsafe { machine(input.machine) };
        let (region, field) = (codes::region_of(&input.region)?, codes::field_of(input.field)?);
        let (bytes, processor) = (input.bytes as usize, ProcessorId(input.processor));
        let input = KeepInput { region, field, bytes, processor, machine: &machine };
        unsafe { (*output).keep = mapper.keep_instance(&input).into() };
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn route(
    mapper: *mut c_void,
    input: *const abi::RouteInput,
    output: *mut abi::RouteOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::RouteInput| {
        let (number, machine) = (input.recipients_length, unsafe { machine(input.machine) });
        let (to, priorities) = unsafe { (list(input.recipients, number), list(input.priorities, number)) };
        let recipient = |(&to, &priority): (&u32, &u32)| Ok((ProcessorId(to), codes::priority_of(priority)?));
        let recipients = to.iter().zip(priorities).map(recipient).collect::<Result<Vec<_>, String>>()?;
        let route = mapper.route(&RouteInput {
            region: codes::region_of(&input.region)?,
            field: codes::field_of(input.field)?,
            bytes: input.bytes as usize,
            from: ProcessorId(input.from),
            recipients: &recipients,
            machine: &machine,
        });
        let output = unsafe { &mut *output };
        output.route = match route {
            Route::Binomial => abi::BINOMIAL,
            Route::Linear => abi::LINEAR,
            Route::Tree(parents) if parents.len() != number => {
                return Err(format!("illegal number of parents {}; legal: {number}", parents.len()));
            }
            Route::Tree(parents) => {
                unsafe { list_mut("parents", output.parents, number) }?.copy_from_slice(&parents);
                abi::TREE
            }
        };
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn slice_index(
    mapper: *mut c_void,
    input: *const abi::SliceIndexInput,
    output: *mut abi::SliceIndexOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::SliceIndexInput| {
        let (task, machine) = unsafe { (text(&input.task)?, machine(input.machine)) };
        let (shard, processor, points) = (input.shard, ProcessorId(input.processor), input.points as usize);
        let slicing = match mapper.slice_index(&SliceInput { task, shard, processor, points, machine: &machine }) {
            Slicing::Here => abi::SLICE_HERE,
            Slicing::Blocked => abi::SLICE_BLOCKED,
            Slicing::Explicit(slices) => {
                let (list, add) = unsafe { ((*output).list, (*output).add) };
                let add = add.ok_or("expected a function `add`, found none")?;
                for (run, processor) in slices {
                    unsafe { add(list, run.start as u64, run.end as u64, processor.0) };
                }
                abi::SLICE_EXPLICIT
            }
        };
        unsafe { (*output).slicing = slicing };
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn place_task(
    mapper: *mut c_void,
    input: *const abi::PlaceTaskInput,
    output: *mut abi::PlaceTaskOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::PlaceTaskInput| {
        let (task, machine) = unsafe { (text(&input.task)?, machine(input.machine)) };
        let given = unsafe { list(input.requirements, input.requirements_length) };
        let regions = regions(given)?;
        let requirements = requirements(given, &regions, &machine)?;
        let requirements = Requirements::listed(&requirements);
        let (node, nodes) = (NodeId(input.node), input.nodes);
        let node = mapper.place_task(&PlaceTaskInput { task, requirements, node, nodes, machine: &machine });
        unsafe { (*output).node = node.0 };
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn map_leaf(
    mapper: *mut c_void,
    input: *const abi::MapLeafInput,
    output: *mut abi::MapLeafOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::MapLeafInput| {
        let (task, machine) = unsafe { (text(&input.task)?, machine(input.machine)) };
        let given = unsafe { list(input.requirements, input.requirements_length) };
        let regions = regions(given)?;
        let requirements = requirements(given, &regions, &machine)?;
        let (shard, processor) = (input.shard, ProcessorId(input.processor));
        let leaf =
            LeafInput { task, shard, processor, requirements: Requirements::listed(&requirements), machine: &machine };
        let answer = mapper.map_leaf(&leaf);
        let output = unsafe { &mut *output };
        let access = unsafe { list_mut("access", output.access, given.len()) }?;
        access.fill(abi::IN_PLACE);
        for i in answer.copied {
            let Some(access) = access.get_mut(i as usize) else {
                return Err(format!("illegal position of a copied requirement {i}; legal: below {}", given.len()));
            };
            *access = abi::COPY;
        }
        output.processor = answer.processor.0;
        output.priority = answer.priority.0.into();
        output.copies_in = codes::memory(answer.copies_in);
        output.profile = answer.profile.into();
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn choose_algorithm(
    mapper: *mut c_void,
    input: *const abi::ChooseAlgorithmInput,
    output: *mut abi::ChooseAlgorithmOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::ChooseAlgorithmInput| {
        let (collective, kind) = unsafe { (text(&input.collective)?, text(&input.kind)?) };
        let (placement, machine) = unsafe { (list(input.placement, input.placement_length), machine(input.machine)) };
        let choices = unsafe { list(input.choices, input.choices_length) };
        let names = choices.iter().map(|t| unsafe { text(t) }).collect::<Result<Vec<_>, _>>()?;
        let kind: Kind = kind.parse().map_err(|unknown| format!("{unknown}"))?;
        // A program with a newer library may offer algorithms that this one does not know.
        let offered = names.len();
        let known = (0..).zip(names).filter_map(|(at, name)| Some((at, name.parse::<Algorithm>().ok()?)));
        let (positions, choices): (Vec<u32>, Vec<Algorithm>) = known.unzip();
        if choices.is_empty() {
            return Ok(());
        }
        let (bytes, placement) = (input.bytes as usize, &codes::processors_of(placement)[..]);
        let input = AlgorithmInput { collective, kind, placement, bytes, choices: &choices, machine: &machine };
        let choice = mapper.choose_algorithm(&input);
        // What is illegal here is illegal there, too.
        let illegal = u32::try_from(choice.max(offered)).unwrap_or(u32::MAX);
        unsafe { (*output).choice = positions.get(choice).copied().unwrap_or(illegal) };
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn map_collective(
    mapper: *mut c_void,
    input: *const abi::MapCollectiveInput,
    output: *mut abi::MapCollectiveOutput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::MapCollectiveInput| {
        let (collective, machine) = unsafe { (text(&input.collective)?, machine(input.machine)) };
        let (shards, bytes) = (input.shards, input.bytes as usize);
        let answer = mapper.map_collective(&CollectiveInput { collective, shards, bytes, machine: &machine });
        let output = unsafe { &mut *output };
        output.memory = codes::memory(answer.memory);
        output.access = codes::access(answer.access);
        output.priority = answer.priority.0.into();
        Ok(())
    };
    unsafe { call(mapper, (input, output), (message, capacity), answer) }
}

unsafe extern "C-unwind" fn profile(
    mapper: *mut c_void,
    input: *const abi::ProfileInput,
    message: *mut c_char,
    capacity: usize,
) -> i32 {
    let answer = |mapper: &dyn Mapper, input: &abi::ProfileInput| {
        let task = unsafe { text(&input.task)? };
        let (shard, processor) = (input.shard, ProcessorId(input.processor));
        let (waited_ns, ran_ns) = (input.waited_ns, input.ran_ns);
        mapper.profile(&ProfileInput { task, shard, processor, waited_ns, ran_ns });
        Ok(())
    };
    unsafe { call(mapper, (input, input), (message, capacity), answer) }
}
