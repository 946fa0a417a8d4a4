//! A mapper of a library as a [`Mapper`]: inputs as structures, answers back as values.

use crate::{abi, codes};
use maniple_mapper::{
    Access, Algorithm, AlgorithmInput, CollectiveInput, CollectiveMapper, CollectiveOutput, InstanceChoice,
    InstanceInput, KeepInput, LeafInput, LeafOutput, Machine, Mapper, MemoryKind, NodeId, PlaceShardsInput,
    PlaceSharedInput, PlaceTaskInput, Placement, ProcessorId, ProfileInput, RequirementInput, Requirements, Route,
    RouteInput, SliceInput, Slicing, SourceInput,
};
use std::ffi::{CStr, c_char, c_void};
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::Path;

/// Bytes of the buffer for a call's message.
const MESSAGE: usize = 256;

/// A mapper that a library made.
pub struct Hosted {
    /// A copy of the library's table. Calls that the library does not know are null.
    pub table: abi::Library,
    /// The pointer that `create` returned.
    pub mapper: *mut c_void,
    /// The text that `name` returned.
    pub name: String,
    /// The path of the library.
    pub path: String,
}

// SAFETY: the header requires that calls may come from any thread, several at once. Nothing else uses the pointer.
unsafe impl Send for Hosted {}
// SAFETY: likewise.
unsafe impl Sync for Hosted {}

impl Drop for Hosted {
    fn drop(&mut self) {
        if let Some(destroy) = self.table.destroy {
            // SAFETY: `create` of the same table made it, and this is its last owner. The library is never unloaded.
            kept(&self.path, || unsafe { destroy(self.mapper) });
        }
    }
}

/// Calls into a library. An exception of another language that leaves the call can't be caught. Then the process ends,
/// after a message with the cause.
#[inline]
pub fn kept<T>(path: &(impl AsRef<Path> + ?Sized), call: impl FnOnce() -> T) -> T {
    struct Left<'a>(&'a Path);
    impl Drop for Left<'_> {
        #[cold]
        fn drop(&mut self) {
            let path = self.0.display();
            // In one piece, because other threads may write the same message.
            let said = format!(
                "mapper {path}: an exception left a call of this library, which none may: see maniple_mapper.h"
            );
            eprintln!("{said}");
            std::process::abort();
        }
    }
    let left = Left(path.as_ref());
    let result = call();
    std::mem::forget(left);
    result
}

/// The message that a library wrote into a buffer, which was all zeros before.
pub fn message(buffer: &[u8]) -> String {
    // A library that forgets the NUL at the end must not make us read past it.
    let text = CStr::from_bytes_until_nul(buffer).map_or(buffer, CStr::to_bytes);
    let text = String::from_utf8_lossy(text);
    if text.is_empty() { "the library gave no message".into() } else { text.into_owned() }
}

impl Hosted {
    /// Fails the call as a panic of a mapper in Rust would, but without output on stderr.
    #[cold]
    fn fail(&self, message: String) -> ! {
        resume_unwind(Box::new(format!("{}: {message}", self.path)))
    }

    /// Checks the status that a call returned.
    #[inline]
    fn returned(&self, status: i32, buffer: &[u8; MESSAGE]) {
        match status {
            0 => {}
            1 => self.fail(message(buffer)),
            other => self.fail(format!("returned {other}; legal: 0 (MANIPLE_OK), 1 (MANIPLE_FAILED)")),
        }
    }

    /// Makes a call.
    #[inline]
    fn call<I, O>(&self, call: abi::Call<I, O>, input: &I, output: &mut O) {
        let mut buffer = [0_u8; MESSAGE];
        let text = buffer.as_mut_ptr().cast::<c_char>();
        // SAFETY: the table is of this version, so its function takes these structures; they and all they point to live
        // until it returns.
        let status = kept(&self.path, || unsafe { call(self.mapper, input, output, text, MESSAGE) });
        self.returned(status, &buffer);
    }

    /// The meaning of a number in an answer.
    #[inline]
    fn decoded<T>(&self, value: Result<T, String>) -> T {
        value.unwrap_or_else(|message| self.fail(message))
    }
}

fn size<T>(_: &T) -> u32 {
    abi::size::<T>()
}

/// Requirements as structures.
fn requirements(requirements: Requirements<'_>, machine: &Machine) -> Vec<abi::Requirement> {
    let requirement = |r: RequirementInput<'_>| {
        let (processor, memory) = machine.owner(r.memory);
        let (privilege, reduction) = codes::privilege(r.privilege);
        abi::Requirement {
            region: codes::region(r.region),
            field: r.field.0.into(),
            privilege,
            coherence: codes::coherence(r.coherence),
            memory: codes::memory(memory),
            processor: processor.0,
            reserved: 0,
            bytes: r.bytes as u64,
            reduction,
        }
    };
    requirements.iter().map(requirement).collect()
}

impl Mapper for Hosted {
    fn name(&self) -> &str {
        &self.name
    }

    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        let Some(call) = self.table.place_shards else { return CollectiveMapper.place_shards(input) };
        let (machine, shards) = (codes::machine(input.machine), input.shards);
        let mut processors = vec![0; shards as usize];
        let mut output =
            abi::PlaceShardsOutput { size: 0, placement: abi::BLOCKED, processors: processors.as_mut_ptr() };
        output.size = size(&output);
        let gang = abi::Text::of(input.gang);
        let input =
            abi::PlaceShardsInput { size: abi::size::<abi::PlaceShardsInput>(), shards, gang, machine: &machine };
        self.call(call, &input, &mut output);
        match output.placement {
            abi::BLOCKED => Placement::Blocked,
            abi::CYCLIC => Placement::Cyclic,
            abi::EXPLICIT => Placement::Explicit(codes::processors_of(&processors)),
            other => self.fail(format!("illegal placement {other}; legal: 0 (blocked), 1 (cyclic), 2 (explicit)")),
        }
    }

    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        let Some(call) = self.table.place_shared else { return CollectiveMapper.place_shared(input) };
        let namer = |&(processor, p): &(ProcessorId, _)| abi::Namer {
            processor: processor.0,
            privilege: codes::privilege(p).0,
        };
        let namers: Vec<_> = input.namers.iter().map(namer).collect();
        let machine = codes::machine(input.machine);
        let mut output = abi::PlaceSharedOutput {
            size: abi::size::<abi::PlaceSharedOutput>(),
            processor: CollectiveMapper.place_shared(input).0,
        };
        let input = abi::PlaceSharedInput {
            size: abi::size::<abi::PlaceSharedInput>(),
            field: input.field.0.into(),
            region: codes::region(&input.region),
            namers: namers.as_ptr(),
            namers_length: namers.len(),
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        ProcessorId(output.processor)
    }

    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        let Some(call) = self.table.map_instance else { return CollectiveMapper.map_instance(input) };
        let machine = codes::machine(input.machine);
        let mut output = abi::MapInstanceOutput {
            size: abi::size::<abi::MapInstanceOutput>(),
            choice: if input.found.is_some() { abi::FIND } else { abi::CREATE },
            memory: abi::ORDINARY,
        };
        let input = abi::MapInstanceInput {
            size: abi::size::<abi::MapInstanceInput>(),
            field: input.field.0.into(),
            region: codes::region(&input.region),
            bytes: input.bytes as u64,
            processor: input.processor.0,
            coherence: codes::coherence(input.coherence),
            found: input.found.map_or(abi::NO_MEMORY, codes::memory),
            reserved: 0,
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        match output.choice {
            abi::FIND => InstanceChoice::Find,
            abi::CREATE => InstanceChoice::Create(self.decoded(codes::memory_of(output.memory))),
            other => self.fail(format!("illegal choice {other}; legal: 0 (find), 1 (create)")),
        }
    }

    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        let Some(call) = self.table.select_source else { return CollectiveMapper.select_source(input) };
        let machine = codes::machine(input.machine);
        let holders = codes::processors(input.holders);
        let mut output = abi::SelectSourceOutput {
            size: abi::size::<abi::SelectSourceOutput>(),
            processor: CollectiveMapper.select_source(input).0,
        };
        let input = abi::SelectSourceInput {
            size: abi::size::<abi::SelectSourceInput>(),
            field: input.field.0.into(),
            region: codes::region(&input.region),
            holders: holders.as_ptr(),
            holders_length: holders.len(),
            to: input.to.0,
            reserved: 0,
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        ProcessorId(output.processor)
    }

    fn keep_instance(&self, input: &KeepInput<'_>) -> bool {
        let Some(call) = self.table.keep_instance else { return CollectiveMapper.keep_instance(input) };
        let machine = codes::machine(input.machine);
        let mut output = abi::KeepInstanceOutput {
            size: abi::size::<abi::KeepInstanceOutput>(),
            keep: CollectiveMapper.keep_instance(input).into(),
        };
        let input = abi::KeepInstanceInput {
            size: abi::size::<abi::KeepInstanceInput>(),
            field: input.field.0.into(),
            region: codes::region(&input.region),
            bytes: input.bytes as u64,
            processor: input.processor.0,
            reserved: 0,
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        self.decoded(codes::flag_of("keep", output.keep))
    }

    fn route(&self, input: &RouteInput<'_>) -> Route {
        let Some(call) = self.table.route else { return CollectiveMapper.route(input) };
        let machine = codes::machine(input.machine);
        let (recipients, priorities): (Vec<_>, Vec<_>) =
            input.recipients.iter().map(|(to, priority)| (to.0, u32::from(priority.0))).unzip();
        let mut parents = vec![0; recipients.len()];
        let mut output = abi::RouteOutput {
            size: abi::size::<abi::RouteOutput>(),
            route: abi::BINOMIAL,
            parents: parents.as_mut_ptr(),
        };
        let input = abi::RouteInput {
            size: abi::size::<abi::RouteInput>(),
            field: input.field.0.into(),
            region: codes::region(&input.region),
            bytes: input.bytes as u64,
            recipients: recipients.as_ptr(),
            priorities: priorities.as_ptr(),
            recipients_length: recipients.len(),
            from: input.from.0,
            reserved: 0,
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        match output.route {
            abi::BINOMIAL => Route::Binomial,
            abi::LINEAR => Route::Linear,
            abi::TREE => Route::Tree(parents),
            other => self.fail(format!("illegal route {other}; legal: 0 (binomial), 1 (linear), 2 (tree)")),
        }
    }

    fn slice_index(&self, input: &SliceInput<'_>) -> Slicing {
        let Some(call) = self.table.slice_index else { return CollectiveMapper.slice_index(input) };
        let machine = codes::machine(input.machine);
        let mut slices: Vec<(Range<usize>, ProcessorId)> = Vec::new();
        let list: *mut Vec<(Range<usize>, ProcessorId)> = &mut slices;
        let mut output = abi::SliceIndexOutput {
            size: abi::size::<abi::SliceIndexOutput>(),
            slicing: abi::SLICE_HERE,
            list: list.cast(),
            add: Some(add),
        };
        let input = abi::SliceIndexInput {
            size: abi::size::<abi::SliceIndexInput>(),
            shard: input.shard,
            task: abi::Text::of(input.task),
            points: input.points as u64,
            processor: input.processor.0,
            reserved: 0,
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        match output.slicing {
            abi::SLICE_HERE => Slicing::Here,
            abi::SLICE_BLOCKED => Slicing::Blocked,
            abi::SLICE_EXPLICIT => Slicing::Explicit(slices),
            other => self.fail(format!("illegal slicing {other}; legal: 0 (here), 1 (blocked), 2 (explicit)")),
        }
    }

    fn place_task(&self, input: &PlaceTaskInput<'_>) -> NodeId {
        let Some(call) = self.table.place_task else { return CollectiveMapper.place_task(input) };
        let machine = codes::machine(input.machine);
        let requirements = requirements(input.requirements, input.machine);
        let mut output = abi::PlaceTaskOutput {
            size: abi::size::<abi::PlaceTaskOutput>(),
            node: CollectiveMapper.place_task(input).0,
        };
        let input = abi::PlaceTaskInput {
            size: abi::size::<abi::PlaceTaskInput>(),
            node: input.node.0,
            task: abi::Text::of(input.task),
            requirements: requirements.as_ptr(),
            requirements_length: requirements.len(),
            nodes: input.nodes,
            reserved: 0,
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        NodeId(output.node)
    }

    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        let Some(call) = self.table.map_leaf else { return CollectiveMapper.map_leaf(input) };
        let default = CollectiveMapper.map_leaf(input);
        let machine = codes::machine(input.machine);
        let requirements = requirements(input.requirements, input.machine);
        let mut access = vec![abi::IN_PLACE; requirements.len()];
        for i in default.copied {
            access[i as usize] = abi::COPY;
        }
        let mut output = abi::MapLeafOutput {
            size: abi::size::<abi::MapLeafOutput>(),
            processor: default.processor.0,
            priority: default.priority.0.into(),
            copies_in: codes::memory(default.copies_in),
            profile: default.profile.into(),
            reserved: 0,
            access: access.as_mut_ptr(),
        };
        let input = abi::MapLeafInput {
            size: abi::size::<abi::MapLeafInput>(),
            shard: input.shard,
            task: abi::Text::of(input.task),
            requirements: requirements.as_ptr(),
            requirements_length: requirements.len(),
            processor: input.processor.0,
            reserved: 0,
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        let copied = |(i, &number): (u32, _)| (self.decoded(codes::access_of(number)) == Access::Copy).then_some(i);
        let copied = (0..).zip(&access).filter_map(copied).collect();
        LeafOutput {
            processor: ProcessorId(output.processor),
            priority: self.decoded(codes::priority_of(output.priority)),
            copied,
            copies_in: self.decoded(codes::memory_of(output.copies_in)),
            profile: self.decoded(codes::flag_of("profile", output.profile)),
        }
    }

    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        let Some(call) = self.table.choose_algorithm else { return CollectiveMapper.choose_algorithm(input) };
        let (machine, placement) = (codes::machine(input.machine), codes::processors(input.placement));
        let names: Vec<String> = input.choices.iter().map(Algorithm::to_string).collect();
        let choices: Vec<_> = names.iter().map(|name| abi::Text::of(name)).collect();
        let choice = u32::try_from(CollectiveMapper.choose_algorithm(input)).unwrap_or(u32::MAX);
        let mut output = abi::ChooseAlgorithmOutput { size: abi::size::<abi::ChooseAlgorithmOutput>(), choice };
        let input = abi::ChooseAlgorithmInput {
            size: abi::size::<abi::ChooseAlgorithmInput>(),
            reserved: 0,
            collective: abi::Text::of(input.collective),
            kind: abi::Text::of(input.kind.name()),
            placement: placement.as_ptr(),
            placement_length: placement.len(),
            bytes: input.bytes as u64,
            choices: choices.as_ptr(),
            choices_length: choices.len(),
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        output.choice as usize
    }

    fn map_collective(&self, input: &CollectiveInput<'_>) -> CollectiveOutput {
        let Some(call) = self.table.map_collective else { return CollectiveMapper.map_collective(input) };
        let default = CollectiveMapper.map_collective(input);
        let machine = codes::machine(input.machine);
        let mut output = abi::MapCollectiveOutput {
            size: abi::size::<abi::MapCollectiveOutput>(),
            memory: codes::memory(default.memory),
            access: codes::access(default.access),
            priority: default.priority.0.into(),
        };
        let input = abi::MapCollectiveInput {
            size: abi::size::<abi::MapCollectiveInput>(),
            shards: input.shards,
            collective: abi::Text::of(input.collective),
            bytes: input.bytes as u64,
            machine: &machine,
        };
        self.call(call, &input, &mut output);
        let memory: MemoryKind = self.decoded(codes::memory_of(output.memory));
        let access = self.decoded(codes::access_of(output.access));
        CollectiveOutput { memory, access, priority: self.decoded(codes::priority_of(output.priority)) }
    }

    fn profile(&self, input: &ProfileInput<'_>) {
        let Some(call) = self.table.profile else { return };
        let input = abi::ProfileInput {
            size: abi::size::<abi::ProfileInput>(),
            shard: input.shard,
            task: abi::Text::of(input.task),
            processor: input.processor.0,
            reserved: 0,
            waited_ns: input.waited_ns,
            ran_ns: input.ran_ns,
        };
        let mut buffer = [0_u8; MESSAGE];
        // SAFETY: as in `call`.
        let status = kept(&self.path, || unsafe { call(self.mapper, &input, buffer.as_mut_ptr().cast(), MESSAGE) });
        self.returned(status, &buffer);
    }
}

/// The function `add` of [`abi::SliceIndexOutput`].
unsafe extern "C" fn add(list: *mut c_void, begin: u64, end: u64, processor: u32) {
    let at = |point: u64| usize::try_from(point).unwrap_or(usize::MAX);
    // SAFETY: `list` comes from the output. It is the list of the call under way, which nothing else touches meanwhile.
    let slices = unsafe { &mut *list.cast::<Vec<(Range<usize>, ProcessorId)>>() };
    slices.push((at(begin)..at(end), ProcessorId(processor)));
}
