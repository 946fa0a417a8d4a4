//! Inputs and answers cross the interface unchanged in both directions, and panics cross as messages.

use crate::host::{Hosted, message};
use crate::{abi, codes, export};
use maniple_mapper::*;
use maniple_regions::{Coherence, FieldId, MemoryId, Privilege, Rect, ReductionId, Region, TreeId};
use proptest::prelude::*;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// The answers that a mapper gives.
#[derive(Debug, Clone)]
struct Answers {
    placement: Placement,
    home: ProcessorId,
    instance: InstanceChoice,
    route: Route,
    slicing: Slicing,
    leaf: LeafOutput,
    algorithm: usize,
    exchange: CollectiveOutput,
}

/// Gives these answers and notes the inputs.
struct Noting {
    answers: Answers,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Noting {
    fn note(&self, input: &dyn std::fmt::Debug) {
        self.asked.lock().unwrap().push(format!("{input:?}"));
    }
}

impl Mapper for Noting {
    fn name(&self) -> &str {
        "noting"
    }
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        self.note(input);
        self.answers.placement.clone()
    }
    fn place_shared(&self, input: &PlaceSharedInput<'_>) -> ProcessorId {
        self.note(input);
        self.answers.home
    }
    fn map_instance(&self, input: &InstanceInput<'_>) -> InstanceChoice {
        self.note(input);
        self.answers.instance
    }
    fn select_source(&self, input: &SourceInput<'_>) -> ProcessorId {
        self.note(input);
        self.answers.home
    }
    fn keep_instance(&self, input: &KeepInput<'_>) -> bool {
        self.note(input);
        self.answers.leaf.profile
    }
    fn route(&self, input: &RouteInput<'_>) -> Route {
        self.note(input);
        self.answers.route.clone()
    }
    fn slice_index(&self, input: &SliceInput<'_>) -> Slicing {
        self.note(input);
        self.answers.slicing.clone()
    }
    fn place_task(&self, input: &PlaceTaskInput<'_>) -> NodeId {
        self.note(input);
        NodeId(self.answers.home.0)
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        self.note(input);
        self.answers.leaf.clone()
    }
    fn choose_algorithm(&self, input: &AlgorithmInput<'_>) -> usize {
        self.note(input);
        self.answers.algorithm
    }
    fn map_collective(&self, input: &CollectiveInput<'_>) -> CollectiveOutput {
        self.note(input);
        self.answers.exchange
    }
    fn profile(&self, input: &ProfileInput<'_>) {
        self.note(input);
    }
}

unsafe extern "C-unwind" fn unused(_: *const c_char, _: *mut c_char, _: usize) -> *mut c_void {
    std::ptr::null_mut()
}

/// A mapper behind the interface, as if it came from a library.
fn behind(mapper: impl Mapper + 'static) -> Hosted {
    let mut buffer = [0 as c_char; 8];
    let made = |_: &str| Ok::<_, String>(mapper);
    // SAFETY: the options are NUL-terminated, and the buffer is as long as it says.
    let mapper = unsafe { export::create(c"".as_ptr(), buffer.as_mut_ptr(), buffer.len(), made) };
    assert!(!mapper.is_null());
    Hosted { table: export::library(unused), mapper, name: "behind".into(), path: "./libnone.so".into() }
}

fn rects() -> impl Strategy<Value = Rect> {
    let corner = || prop::array::uniform3(-100_i64..100);
    (1..4, corner(), corner()).prop_map(|(dim, [a, b, c], [d, e, f])| match dim {
        1 => Rect::new([a], [d]),
        2 => Rect::new([a, b], [d, e]),
        _ => Rect::new([a, b, c], [d, e, f]),
    })
}

fn privileges() -> impl Strategy<Value = Privilege> {
    let reduce = Privilege::Reduce(ReductionId::new("sum"));
    prop::sample::select(vec![Privilege::Read, Privilege::ReadWrite, Privilege::WriteDiscard, reduce])
}

fn kinds() -> impl Strategy<Value = MemoryKind> {
    prop::sample::select(vec![MemoryKind::Ordinary, MemoryKind::Registered])
}

fn accesses() -> impl Strategy<Value = Access> {
    prop::sample::select(vec![Access::InPlace, Access::Copy])
}

/// The most region requirements of a leaf task in these tests. The interface has no such limit.
const MOST: u32 = 40;

fn answers() -> impl Strategy<Value = Answers> {
    let number = || prop_oneof![0_u32..10, any::<u32>(), Just(u32::MAX)].prop_map(ProcessorId);
    let placement = prop_oneof![
        Just(Placement::Blocked),
        Just(Placement::Cyclic),
        prop::collection::vec(number(), 6).prop_map(Placement::Explicit),
    ];
    let instance = prop_oneof![Just(InstanceChoice::Find), kinds().prop_map(InstanceChoice::Create)];
    let run = (any::<u16>(), any::<u16>(), number()).prop_map(|(a, b, p)| (a as usize..b as usize, p));
    let slicing = prop_oneof![
        Just(Slicing::Here),
        Just(Slicing::Blocked),
        prop::collection::vec(run, 0..5).prop_map(Slicing::Explicit),
    ];
    let route = prop_oneof![
        Just(Route::Binomial),
        Just(Route::Linear),
        prop::collection::vec(any::<u32>(), 4).prop_map(Route::Tree),
    ];
    let copied = prop::collection::btree_set(0..MOST, 0..MOST as usize);
    // Others are refused.
    let priority = || 0..Priority::LEVELS;
    let leaf = (number(), priority(), copied, kinds(), any::<bool>()).prop_map(
        |(processor, priority, copied, copies_in, profile)| LeafOutput {
            processor,
            priority: Priority(priority),
            copied: copied.into_iter().collect(),
            copies_in,
            profile,
        },
    );
    let exchange = (kinds(), accesses(), priority()).prop_map(|(memory, access, p)| CollectiveOutput {
        memory,
        access,
        priority: Priority(p),
    });
    (placement, number(), instance, route, slicing, leaf, 0..9_usize, exchange).prop_map(
        |(placement, home, instance, route, slicing, leaf, algorithm, exchange)| Answers {
            placement,
            home,
            instance,
            route,
            slicing,
            leaf,
            algorithm,
            exchange,
        },
    )
}

proptest! {
    #[test]
    fn inputs_and_answers_cross_unchanged(
        mut answers in answers(),
        requirements in 0..=MOST,
        rects in prop::array::uniform3(rects()),
        privileges in prop::array::uniform3(privileges()),
        coherence in prop::sample::select(vec![Coherence::Exclusive, Coherence::Atomic, Coherence::Simultaneous]),
        found in prop::option::of(kinds()),
        text in ".{0,12}",
        n in any::<u32>(),
        (processors, per_node) in (1_u32..20, 1_u32..20),
    ) {
        answers.leaf.copied.retain(|&i| i < requirements);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let hosted = behind(Noting { answers: answers.clone(), asked: asked.clone() });
        let took = || asked.lock().unwrap().pop().unwrap();
        // A node is no larger than the machine.
        let machine = &Machine::new(processors, per_node.min(processors));
        let (text, field, bytes) = (&text[..], FieldId(n as u16), n as usize);
        let regions = rects.map(|rect| Region::new(TreeId(n), rect));
        let region = regions[0];

        let input = PlaceShardsInput { gang: text, shards: 6, machine };
        prop_assert_eq!(hosted.place_shards(&input), answers.placement);
        prop_assert_eq!(took(), format!("{input:?}"));

        // Without the operator of a reduction.
        let namers: Vec<_> = privileges.iter().filter(|p| !matches!(p, Privilege::Reduce(_))).map(|&p| (ProcessorId(n), p)).collect();
        let input = PlaceSharedInput { region, field, namers: &namers, machine };
        prop_assert_eq!(hosted.place_shared(&input), answers.home);
        prop_assert_eq!(took(), format!("{input:?}"));

        let input = InstanceInput { region, field, bytes, processor: ProcessorId(n), coherence, found, machine };
        prop_assert_eq!(hosted.map_instance(&input), answers.instance);
        prop_assert_eq!(took(), format!("{input:?}"));

        let input = SourceInput { region, field, to: ProcessorId(n), holders: &[1, n, 3].map(ProcessorId), machine };
        prop_assert_eq!(hosted.select_source(&input), answers.home);
        prop_assert_eq!(took(), format!("{input:?}"));

        let input = KeepInput { region, field, bytes, processor: ProcessorId(n), machine };
        prop_assert_eq!(hosted.keep_instance(&input), answers.leaf.profile);
        prop_assert_eq!(took(), format!("{input:?}"));

        let recipients = [(n, 7), (1, 3), (n / 2, 3), (4, 0)].map(|(to, level)| (ProcessorId(to), Priority(level)));
        let input = RouteInput { region, field, bytes, from: ProcessorId(n), recipients: &recipients, machine };
        prop_assert_eq!(hosted.route(&input), answers.route);
        prop_assert_eq!(took(), format!("{input:?}"));

        let input = SliceInput { task: text, shard: n, processor: ProcessorId(n / 2), points: bytes, machine };
        prop_assert_eq!(hosted.slice_index(&input), answers.slicing);
        prop_assert_eq!(took(), format!("{input:?}"));

        let memory = |i: usize| MemoryId(n / 2 + i as u32);
        let requirement = |i: usize| RequirementInput {
            region: &regions[i % 3], field, privilege: privileges[i % 3], coherence, bytes: bytes + i, memory: memory(i),
        };
        let requirements: Vec<_> = (0..requirements as usize).map(requirement).collect();
        let requirements = Requirements::listed(&requirements);
        let input = PlaceTaskInput { task: text, requirements, node: NodeId(n / 3), nodes: n, machine };
        prop_assert_eq!(hosted.place_task(&input), NodeId(answers.home.0));
        prop_assert_eq!(took(), format!("{input:?}"));

        let input = LeafInput { task: text, shard: n, processor: ProcessorId(n / 2), requirements, machine };
        prop_assert_eq!(hosted.map_leaf(&input), answers.leaf);
        prop_assert_eq!(took(), format!("{input:?}"));

        let input = AlgorithmInput {
            collective: text, kind: Kind::Allreduce, placement: &[0, n].map(ProcessorId), bytes, choices: &[Algorithm::TwoLevel, Algorithm::Radix(4)], machine,
        };
        prop_assert_eq!(hosted.choose_algorithm(&input), answers.algorithm);
        prop_assert_eq!(took(), format!("{input:?}"));

        let input = CollectiveInput { collective: text, shards: n, bytes, machine };
        prop_assert_eq!(hosted.map_collective(&input), answers.exchange);
        prop_assert_eq!(took(), format!("{input:?}"));

        let (waited_ns, ran_ns) = (u64::from(n) << 20, u64::from(n));
        let input = ProfileInput { task: text, shard: n, processor: ProcessorId(n / 2), waited_ns, ran_ns };
        hosted.profile(&input);
        prop_assert_eq!(took(), format!("{input:?}"));
    }
}

#[test]
fn a_panic_crosses_as_a_message() {
    struct Bomb;
    impl Mapper for Bomb {
        fn name(&self) -> &str {
            "bomb"
        }
        fn map_collective(&self, _: &CollectiveInput<'_>) -> CollectiveOutput {
            panic!("äöü {}", "x".repeat(1000))
        }
    }
    let hosted = behind(Bomb);
    let machine = &Machine::new(1, 1);
    let input = CollectiveInput { collective: "total", shards: 2, bytes: 8, machine };
    let panic = catch_unwind(AssertUnwindSafe(|| hosted.map_collective(&input))).unwrap_err();
    let message = panic.downcast::<String>().unwrap();
    assert!(message.starts_with("./libnone.so: panicked: äöü xxx"), "{message}");
    assert_eq!(message.len(), "./libnone.so: ".len() + 255, "cut to the buffer");
}

#[test]
fn a_panic_while_a_mapper_is_made_refuses_the_options() {
    let mut buffer = [0_u8; 64];
    let text = buffer.as_mut_ptr().cast();
    let panics = |options: &str| -> Result<DefaultMapper, String> { panic!("no {options}") };
    // SAFETY: the options are NUL-terminated, and the buffer is as long as it says.
    let mapper = unsafe { export::create(c"speed".as_ptr(), text, buffer.len(), panics) };
    assert!(mapper.is_null());
    assert_eq!(message(&buffer), "panicked: no speed");
}

#[test]
fn what_a_panic_carries_is_not_dropped_into_another() {
    struct Twice;
    impl Drop for Twice {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    struct Bomb;
    impl Mapper for Bomb {
        fn name(&self) -> &str {
            "bomb"
        }
        fn place_shared(&self, _: &PlaceSharedInput<'_>) -> ProcessorId {
            std::panic::panic_any(Twice)
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Twice)
        }
    }
    let hosted = behind(Bomb);
    let machine = &Machine::new(1, 1);
    let region = Region::new(TreeId(1), Rect::line(0, 8));
    let input = PlaceSharedInput { region, field: FieldId(0), namers: &[], machine };
    let panic = catch_unwind(AssertUnwindSafe(|| hosted.place_shared(&input))).unwrap_err();
    assert_eq!(*panic.downcast::<String>().unwrap(), "./libnone.so: panicked: with something that is no text");
}

/// An older program has smaller structures, which are neither read nor written past their ends.
#[test]
fn a_program_that_is_too_old_is_told() {
    let hosted = behind(DefaultMapper);
    let machine = codes::machine(&Machine::new(2, 2));
    let size = abi::size::<abi::MapCollectiveInput>();
    let text = abi::Text::of("total");
    let mut input = abi::MapCollectiveInput { size, shards: 2, collective: text, bytes: 8, machine: &machine };
    let mut output = abi::MapCollectiveOutput { size: 12, memory: 77, access: 77, priority: 77 };
    let call = |input: &abi::MapCollectiveInput, output: &mut abi::MapCollectiveOutput| {
        let mut buffer = [0_u8; 256];
        let text = buffer.as_mut_ptr().cast();
        // SAFETY: all outlive the call.
        let status = unsafe { hosted.table.map_collective.unwrap()(hosted.mapper, input, output, text, buffer.len()) };
        (status, message(&buffer))
    };
    let expected = "expected an output of at least 16 bytes, found 12: the program is too old";
    assert_eq!(call(&input, &mut output), (1, expected.into()));
    assert_eq!((output.memory, output.access, output.priority), (77, 77, 77));
    output.size = 4096;
    assert_eq!(call(&input, &mut output).0, 0);
    assert_eq!(output.memory, abi::ORDINARY);
    input.size = 8;
    let (status, message) = call(&input, &mut output);
    assert!(status == 1 && message.starts_with("expected an input of at least "), "{message}");
}

/// The access to each requirement is written to the memory provided for it, and nowhere else.
#[test]
fn accesses_are_those_of_the_requirements() {
    struct Copies(Vec<u32>);
    impl Mapper for Copies {
        fn name(&self) -> &str {
            "copies"
        }
        fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
            LeafOutput { copied: self.0.clone(), ..LeafOutput::local(input) }
        }
    }
    let machine = Machine::new(2, 2);
    let region = Region::new(TreeId(1), Rect::line(0, 8));
    let requirement = abi::Requirement {
        region: codes::region(&region),
        field: 0,
        privilege: abi::READ,
        coherence: abi::SIMULTANEOUS,
        memory: abi::ORDINARY,
        processor: 0,
        reserved: 0,
        bytes: 64,
        reduction: 0,
    };
    let requirements = [requirement; 12];
    let given = codes::machine(&machine);
    let ask = |copied: &[u32], number: usize, access: *mut u32| {
        let hosted = behind(Copies(copied.to_vec()));
        let input = abi::MapLeafInput {
            size: abi::size::<abi::MapLeafInput>(),
            shard: 0,
            task: abi::Text::of("t"),
            requirements: requirements.as_ptr(),
            requirements_length: number,
            processor: 0,
            reserved: 0,
            machine: &given,
        };
        let size = abi::size::<abi::MapLeafOutput>();
        let mut output =
            abi::MapLeafOutput { size, processor: 0, priority: 0, copies_in: 0, profile: 0, reserved: 0, access };
        let mut buffer = [0_u8; 256];
        let text = buffer.as_mut_ptr().cast();
        let call = hosted.table.map_leaf.unwrap();
        // SAFETY: all outlive the call, and `access` is null or has space for twelve.
        let status = unsafe { call(hosted.mapper, &input, &mut output, text, buffer.len()) };
        assert_eq!(output.access, access);
        if status == 0 { Ok(()) } else { Err(message(&buffer)) }
    };
    let asked = |copied: &[u32], number: usize| {
        let mut access = [77; 12];
        ask(copied, number, access.as_mut_ptr()).map(|()| access)
    };
    assert_eq!(asked(&[11, 9, 11], 12), Ok([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]));
    assert_eq!(asked(&[8], 10), Ok([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 77, 77]));
    assert_eq!(asked(&[], 0), Ok([77; 12]));
    for (copied, number) in [(10, 10), (u32::MAX, 12), (0, 0)] {
        let expected = format!("illegal position of a copied requirement {copied}; legal: below {number}");
        assert_eq!(asked(&[copied], number), Err(expected));
    }
    assert_eq!(ask(&[], 0, std::ptr::null_mut()), Ok(()));
    let expected = "expected space for 12 numbers in `access`, found none";
    assert_eq!(ask(&[], 12, std::ptr::null_mut()), Err(expected.into()));

    // As an error of the program that asks.
    let hosted = behind(Copies(vec![3]));
    let requirements = Requirements::listed(&[]);
    let input = LeafInput { task: "t", shard: 0, processor: ProcessorId(0), requirements, machine: &machine };
    let panic = catch_unwind(AssertUnwindSafe(|| hosted.map_leaf(&input))).unwrap_err();
    let expected = "./libnone.so: illegal position of a copied requirement 3; legal: below 0";
    assert_eq!(*panic.downcast::<String>().unwrap(), expected);
}

/// The parents of a tree are written to the memory provided for them, if there are as many as recipients.
#[test]
fn parents_are_those_of_the_recipients() {
    struct Tree(Vec<u32>);
    impl Mapper for Tree {
        fn name(&self) -> &str {
            "tree"
        }
        fn route(&self, _: &RouteInput<'_>) -> Route {
            Route::Tree(self.0.clone())
        }
    }
    let machine = Machine::new(8, 1);
    let region = Region::new(TreeId(1), Rect::line(0, 8));
    let given = codes::machine(&machine);
    let (recipients, priorities) = ([1_u32, 2, 3, 4], [7_u32, 3, 3, 0]);
    let ask = |tree: &[u32], priorities: &[u32; 4], parents: *mut u32| {
        let hosted = behind(Tree(tree.to_vec()));
        let input = abi::RouteInput {
            size: abi::size::<abi::RouteInput>(),
            field: 0,
            region: codes::region(&region),
            bytes: 64,
            recipients: recipients.as_ptr(),
            priorities: priorities.as_ptr(),
            recipients_length: 3,
            from: 0,
            reserved: 0,
            machine: &given,
        };
        let mut output = abi::RouteOutput { size: abi::size::<abi::RouteOutput>(), route: 77, parents };
        let mut buffer = [0_u8; 256];
        let text = buffer.as_mut_ptr().cast();
        let call = hosted.table.route.unwrap();
        // SAFETY: all outlive the call, and `parents` is null or has space for four.
        let status = unsafe { call(hosted.mapper, &input, &mut output, text, buffer.len()) };
        assert_eq!(output.parents, parents);
        if status == 0 { Ok(output.route) } else { Err((message(&buffer), output.route)) }
    };
    let mut parents = [77; 4];
    assert_eq!(ask(&[0, 1, 1], &priorities, parents.as_mut_ptr()), Ok(abi::TREE));
    assert_eq!(parents, [0, 1, 1, 77]);
    for wrong in [&[][..], &[0, 1], &[0, 1, 2, 3]] {
        let expected = format!("illegal number of parents {}; legal: 3", wrong.len());
        assert_eq!(ask(wrong, &priorities, parents.as_mut_ptr()), Err((expected, 77)));
    }
    assert_eq!(parents, [0, 1, 1, 77]);
    let expected = "expected space for 3 numbers in `parents`, found none";
    assert_eq!(ask(&[0, 0, 0], &priorities, std::ptr::null_mut()), Err((expected.into(), 77)));
    let expected = "illegal priority 8; legal: 0..8";
    assert_eq!(ask(&[0, 0, 0], &[8, 3, 3, 0], parents.as_mut_ptr()), Err((expected.into(), 77)));

    // As an error of the program that asks.
    let hosted = behind(Tree(vec![0]));
    let recipients = [1, 2].map(|p| (ProcessorId(p), Priority::NORMAL));
    let (field, from) = (FieldId(0), ProcessorId(0));
    let input = RouteInput { region, field, bytes: 64, from, recipients: &recipients, machine: &machine };
    let panic = catch_unwind(AssertUnwindSafe(|| hosted.route(&input))).unwrap_err();
    let expected = "./libnone.so: illegal number of parents 1; legal: 2";
    assert_eq!(*panic.downcast::<String>().unwrap(), expected);
}

/// The C compiler finds every structure, field and number of this crate in the header, with the same size, place and
/// value.
#[test]
fn the_header_and_this_crate_agree() {
    let mut program = String::from("#include \"maniple_mapper.h\"\n");
    let mut claim = |what: String| program += &format!("_Static_assert({what}, \"differs\");\n");
    for layout in abi::LAYOUTS {
        let name = format!("struct maniple_{}", layout.name);
        claim(format!("sizeof({name}) == {}", layout.size));
        for (field, offset) in layout.fields {
            claim(format!("offsetof({name}, {field}) == {offset}"));
        }
    }
    for (name, value) in abi::NUMBERS {
        claim(format!("MANIPLE_{name} == {value}"));
    }
    let claims = program.lines().count();
    assert!(claims > 150, "{claims}");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let directory = std::env::temp_dir().join(format!("maniple-layout-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("layout.c");
    std::fs::write(&file, program).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"]).arg(&include).arg(&file);
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // It is C99 and C++11, and asks for no other header.
    let header = include.join("maniple_mapper.h");
    for (language, standard) in [("c", "c99"), ("c", "c11"), ("c++", "c++98"), ("c++", "c++11"), ("c++", "c++17")] {
        let mut cc = Command::new("cc");
        cc.args(["-x", language, &format!("-std={standard}"), "-fsyntax-only"]);
        let output = cc.args(["-Wall", "-Wextra", "-Werror", "-pedantic"]).arg(&header).output().expect("a C compiler");
        let said = String::from_utf8_lossy(&output.stderr);
        // Not every C compiler comes with one of C++.
        assert!(output.status.success() || said.contains("cc1plus"), "{standard}: {said}");
    }
    // Nothing in the header is left out here.
    let header = std::fs::read_to_string(header).unwrap();
    let structures = header.lines().filter(|l| l.starts_with("struct maniple_") && l.ends_with(" {")).count();
    assert_eq!(structures, abi::LAYOUTS.len());
    let numbers = header.lines().filter(|l| l.starts_with("#define MANIPLE_") && l.split(' ').count() > 2).count();
    assert_eq!(numbers, abi::NUMBERS.len());
    std::fs::remove_dir_all(directory).unwrap();
}
