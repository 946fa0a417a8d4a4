//! The stock mappers: every decision is legal, nodes get the same answers, and each mapper does what sets it apart.

use maniple_mapper::*;
use maniple_regions::{Coherence, FieldId, MemoryId, Privilege, Rect, Region, TreeId};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Makes every call for a machine and checks each answer. Gives, as text, the answers that must be the same on all nodes.
fn ask(mapper: &dyn Mapper, machine: &Machine) -> String {
    let mut common = String::new();
    let field = FieldId(1);
    for n in 0..40 {
        let (name, processor) = (&*format!("task {n}"), ProcessorId(n % machine.processors()));
        let region = Region::new(TreeId(2), Rect::line(i64::from(n), i64::from(n) + 9));
        let input = PlaceShardsInput { gang: name, shards: 1 + n, machine };
        let placed = validate::placement("m", &input, mapper.place_shards(&input)).unwrap();
        common += &format!("{placed:?}");
        let namers = [(processor, Privilege::ReadWrite), (ProcessorId(0), Privilege::Read)];
        let input = PlaceSharedInput { region, field, namers: &namers[..1 + n as usize % 2], machine };
        common += &format!("{}", validate::shared("m", &input, mapper.place_shared(&input)).unwrap());
        let holders: Vec<_> = (0..machine.processors()).filter(|p| p % 2 == n % 2).map(ProcessorId).collect();
        if holders.len() > 1 {
            let input = SourceInput { region, field, to: processor, holders: &holders, machine };
            common += &format!("{}", validate::source("m", &input, mapper.select_source(&input)).unwrap());
        }
        let input = KeepInput { region, field, bytes: 8, processor, machine };
        common += &format!("{}", mapper.keep_instance(&input));
        let requirement = RequirementInput {
            region: &region,
            field,
            privilege: Privilege::ReadWrite,
            coherence: Coherence::Exclusive,
            bytes: 8,
            memory: machine.memory(processor, MemoryKind::Ordinary),
        };
        let requirements = Requirements::listed(std::slice::from_ref(&requirement));
        let (node, nodes) = (machine.node_of(processor), machine.nodes());
        let input = PlaceTaskInput { task: name, requirements, node, nodes, machine };
        common += &format!("{}", validate::place_task("m", &input, mapper.place_task(&input)).unwrap());
        let choices = &[Algorithm::RecursiveDoubling, Algorithm::Direct, Algorithm::Sliced][..1 + n as usize % 3];
        let (collective, kind, bytes) = (name, Kind::Allreduce, 8);
        let input = AlgorithmInput { collective, kind, placement: &placed, bytes, choices, machine };
        common += &format!("{}", validate::algorithm("m", &input, mapper.choose_algorithm(&input)).unwrap());
        let input = CollectiveInput { collective, shards: 1 + n, bytes, machine };
        common += &format!("{:?}", validate::mapping("m", &input, mapper.map_collective(&input)).unwrap());

        for found in [None, Some(MemoryKind::Ordinary), Some(MemoryKind::Registered)] {
            let coherence = Coherence::Exclusive;
            let input = InstanceInput { region, field, bytes, processor, coherence, found, machine };
            validate::instance("m", &input, mapper.map_instance(&input)).unwrap();
        }
        let recipients: Vec<_> = (0..2 + n).map(|i| (ProcessorId(1 + i), Priority(7 - (i / 6) as u8))).collect();
        let input = RouteInput { region, field, bytes, from: ProcessorId(0), recipients: &recipients, machine };
        validate::route("m", &input, mapper.route(&input)).unwrap();
        let input = SliceInput { task: name, shard: n, processor, points: 1 + n as usize, machine };
        validate::slices("m", &input, mapper.slice_index(&input)).unwrap();
        for coherence in [Coherence::Exclusive, Coherence::Simultaneous] {
            let requirement = |privilege| RequirementInput {
                region: &region,
                field,
                privilege,
                coherence,
                bytes,
                memory: MemoryId(n % (2 * machine.processors())),
            };
            let requirements = [Privilege::Read, Privilege::ReadWrite].map(requirement);
            let input = LeafInput {
                task: name,
                shard: n,
                processor,
                requirements: Requirements::listed(&requirements),
                machine,
            };
            validate::leaf("m", &input, &mapper.map_leaf(&input)).unwrap();
        }
        mapper.profile(&ProfileInput { task: name, shard: n, processor, waited_ns: 1, ran_ns: 1 });
    }
    common
}

fn machines() -> impl Iterator<Item = Machine> {
    let sizes =
        [(1, 1, 0), (2, 2, 0), (5, 5, 0), (7, 3, 0), (8, 4, 0), (4, 1, 0), (2, 2, 1), (8, 4, 1), (7, 3, 2), (6, 6, 2)];
    sizes.into_iter().map(|(processors, per_node, utility)| Machine::new(processors, per_node).with_utility(utility))
}

/// A mapper with one call makes that decision only. The rest is as without a mapper.
#[test]
fn what_a_mapper_leaves_out_is_decided_by_its_base() {
    struct One(Option<DefaultMapper>);
    impl Mapper for One {
        fn name(&self) -> &str {
            "one"
        }
        fn base(&self) -> &dyn Mapper {
            match &self.0 {
                Some(base) => base,
                None => &CollectiveMapper,
            }
        }
        fn place_shards(&self, _: &PlaceShardsInput<'_>) -> Placement {
            Placement::Cyclic
        }
    }
    struct Plain;
    impl Mapper for Plain {
        fn name(&self) -> &str {
            "plain"
        }
    }
    let machine = Machine::new(2, 2);
    let input = CollectiveInput { collective: "total", shards: 2, bytes: 8, machine: &machine };
    let gang = PlaceShardsInput { gang: "all", shards: 2, machine: &machine };
    let collective = CollectiveMapper.map_collective(&input);
    assert_eq!([Plain.map_collective(&input), One(None).map_collective(&input)], [collective; 2]);
    assert_eq!(One(Some(DefaultMapper)).map_collective(&input), CollectiveOutput::default());
    assert_ne!(collective, CollectiveOutput::default());
    assert_eq!((Plain.place_shards(&gang), One(None).place_shards(&gang)), (Placement::Blocked, Placement::Cyclic));
}

#[test]
fn every_answer_is_legal_and_what_processes_decide_alike_is_pure() {
    for machine in machines() {
        for name in names().iter().filter(|name| **name != "logging") {
            for seed in 0..20 {
                let spec = if *name == "random" { format!("random,seed={seed}") } else { name.to_string() };
                let (one, another) = (stock(&spec).unwrap(), stock(&spec).unwrap());
                // The second was asked other things before.
                ask(&*another, &Machine::new(3, 3));
                assert_eq!(ask(&*one, &machine), ask(&*another, &machine), "{spec} on {machine:?}");
            }
        }
    }
}

#[test]
fn seeds_differ() {
    let machine = Machine::new(8, 4);
    let all: std::collections::HashSet<String> = (0..50).map(|s| ask(&RandomMapper::new(s), &machine)).collect();
    assert_eq!(all.len(), 50);
}

fn leaf(mapper: &dyn Mapper, machine: &Machine, processor: u32) -> LeafOutput {
    let processor = ProcessorId(processor);
    mapper.map_leaf(&LeafInput { task: "t", shard: 0, processor, requirements: Requirements::listed(&[]), machine })
}

#[test]
fn round_robin_takes_every_processor_of_the_node_in_turn() {
    let (mapper, machine) = (RoundRobinMapper::default(), Machine::new(7, 3));
    let turns: Vec<u32> = (0..6).map(|_| leaf(&mapper, &machine, 4).processor.0).collect();
    assert_eq!(turns, [3, 4, 5, 3, 4, 5]);
    assert_eq!(leaf(&mapper, &machine, 6).processor, ProcessorId(6));
}

#[test]
fn random_leaves_some_tasks_to_any_processor_of_the_node() {
    let (mapper, machine) = (RandomMapper::new(7), Machine::new(7, 3));
    let drawn: Vec<_> = (0..400).map(|_| leaf(&mapper, &machine, 4).processor).collect();
    let count = |p: ProcessorId| drawn.iter().filter(|&&drawn| drawn == p).count();
    assert!((20..100).contains(&count(ProcessorId::ANYWHERE)), "{drawn:?}");
    assert!((3..6).all(|p| count(ProcessorId(p)) > 70), "{drawn:?}");
}

#[test]
fn any_leaves_all_tasks_to_any_processor_and_the_rest_to_another_mapper() {
    let machine = Machine::new(7, 3);
    let mapper = AnyMapper::new(Arc::new(FirstChoiceMapper));
    assert_eq!(mapper.name(), "any,inner=first");
    let expected = LeafOutput { processor: ProcessorId::ANYWHERE, ..leaf(&FirstChoiceMapper, &machine, 4) };
    assert_eq!(leaf(&mapper, &machine, 4), expected);
    assert_eq!(expected.priority, Priority(0));
    let input = PlaceShardsInput { gang: "g", shards: 4, machine: &machine };
    assert_eq!(mapper.place_shards(&input), FirstChoiceMapper.place_shards(&input));
    assert_eq!("any,inner=first".parse::<MapperSpec>().unwrap().name(), "any,inner=first");
    let e = "any,file=x".parse::<MapperSpec>().unwrap_err().to_string();
    assert_eq!(e, "mapper any: unknown option `file`; expected inner=MAPPER");
}

/// Tasks of the top-level task, which each take the region they write along.
#[test]
fn tasks_of_the_top_level_task_stay_with_their_data_or_go_round() {
    let machine = Machine::new(7, 3);
    let journey = |mapper: &dyn Mapper| {
        let mut node = NodeId(1);
        [(); 5].map(|()| {
            let requirements = Requirements::listed(&[]);
            node = mapper.place_task(&PlaceTaskInput { task: "t", requirements, node, nodes: 3, machine: &machine });
            node.0
        })
    };
    assert_eq!(journey(&DefaultMapper), [1; 5]);
    assert_eq!(journey(&CollectiveMapper), [1; 5]);
    assert_eq!(journey(&NumaMapper::on(Topology::made_up(2, 3))), [1; 5]);
    assert_eq!(journey(&FirstChoiceMapper), [0; 5]);
    assert_eq!(journey(&RoundRobinMapper::default()), [2, 0, 1, 2, 0]);
}

#[test]
fn stock_mappers_send_to_several_nodes_by_a_tree_or_one_after_the_other() {
    let machine = Machine::new(8, 2);
    let recipients = [2, 4, 6].map(|p| (ProcessorId(p), Priority::NORMAL));
    let region = Region::new(TreeId(0), Rect::line(0, 4));
    let (field, from) = (FieldId(0), ProcessorId(0));
    let input = RouteInput { region, field, bytes: 32, from, recipients: &recipients, machine: &machine };
    let mappers: [&dyn Mapper; 3] = [&DefaultMapper, &CollectiveMapper, &FirstChoiceMapper];
    assert_eq!(mappers.map(|m| m.route(&input)), [const { Route::Binomial }; 3]);
    assert_eq!(RoundRobinMapper::default().route(&input), Route::Linear);
    // As a line of a log.
    struct Chain;
    impl Mapper for Chain {
        fn name(&self) -> &str {
            "chain"
        }
        fn route(&self, _: &RouteInput<'_>) -> Route {
            Route::Tree(vec![0, 1, 2])
        }
    }
    let shown = Shown::default();
    let logging = LoggingMapper::new(Arc::new(Chain), shown.clone());
    assert_eq!(logging.route(&input), Route::Tree(vec![0, 1, 2]));
    let line: serde_json::Value = serde_json::from_slice(&shown.0.lock().unwrap()).unwrap();
    let asked = serde_json::json!({ "field": 0, "bytes": 32, "from": 0, "recipients": [[2, 3], [4, 3], [6, 3]] });
    assert_eq!((&line["input"], &line["answer"]), (&asked, &serde_json::json!([0, 1, 2])));
}

#[test]
fn numa_keeps_leaf_tasks_and_sources_near() {
    let (mapper, machine) = (NumaMapper::on(Topology::made_up(2, 3)), Machine::new(6, 6));
    for processor in 0..6 {
        let mut turns: Vec<u32> = (0..3).map(|_| leaf(&mapper, &machine, processor).processor.0).collect();
        turns.sort_unstable();
        assert_eq!(turns, if processor < 3 { [0, 1, 2] } else { [3, 4, 5] });
    }
    let region = Region::new(TreeId(0), Rect::line(0, 4));
    let source = |mapper: &dyn Mapper, to: u32, holders: [u32; 3], machine: &Machine| {
        let (to, holders) = (ProcessorId(to), &holders.map(ProcessorId));
        mapper.select_source(&SourceInput { region, field: FieldId(0), to, holders, machine }).0
    };
    let near = [source(&mapper, 4, [0, 1, 3], &machine), source(&mapper, 2, [5, 3, 1], &machine)];
    assert_eq!(near, [3, 1]);
    // Of several processes each may have another host: none looks at its own.
    let nodes = Machine::new(6, 3);
    assert_eq!(source(&mapper, 4, [0, 1, 3], &nodes), source(&CollectiveMapper, 4, [0, 1, 3], &nodes));
    let copied = |home: u32| {
        let requirement = RequirementInput {
            region: &region,
            field: FieldId(0),
            privilege: Privilege::Read,
            coherence: Coherence::Simultaneous,
            bytes: 32,
            memory: machine.memory(ProcessorId(home), MemoryKind::Ordinary),
        };
        let input = LeafInput {
            task: "t",
            shard: 0,
            processor: ProcessorId(1),
            requirements: Requirements::listed(std::slice::from_ref(&requirement)),
            machine: &machine,
        };
        mapper.map_leaf(&input).copied == [0]
    };
    assert_eq!([0, 1, 2, 3, 4, 5].map(copied), [false, false, false, true, true, true]);
}

/// With one NUMA node, or more workers than processors, `numa` decides as `collective` does.
#[test]
fn numa_on_one_node_decides_like_collective() {
    let mut one = Topology::made_up(2, 3);
    one.numa.truncate(1);
    for (host, machine) in [(one, Machine::new(3, 3)), (Topology::made_up(2, 3), Machine::new(7, 7))] {
        let mapper = NumaMapper::on(host);
        assert_eq!(ask(&mapper, &machine), ask(&CollectiveMapper, &machine));
        for processor in 0..machine.processors() {
            assert_eq!(leaf(&mapper, &machine, processor), leaf(&CollectiveMapper, &machine, processor));
        }
    }
}

/// A sink that the test can look at.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>);

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn logging_writes_each_decision_and_changes_none() {
    let shown = Shown::default();
    let machine = Machine::new(8, 4);
    let logging = LoggingMapper::new(Arc::new(RandomMapper::new(3)), std::io::BufWriter::new(shown.clone()));
    assert_eq!(logging.name(), "logging,inner=random");
    assert_eq!(ask(&logging, &machine), ask(&RandomMapper::new(3), &machine));
    drop(logging);
    let text = String::from_utf8(shown.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 40 * (7 + 3 + 1 + 1 + 2 + 1));
    for line in &lines {
        assert_eq!(line["mapper"], "random");
        let fields: Vec<_> = line.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["answer", "call", "input", "mapper", "subject"], "{line}");
    }
    // One in full, of the first choices.
    let plain = Shown::default();
    let logging = LoggingMapper::new(Arc::new(FirstChoiceMapper), plain.clone());
    leaf(&logging, &machine, 6);
    let expected = "{\"mapper\":\"first\",\"call\":\"map_leaf\",\"subject\":\"t\",\
         \"input\":{\"processor\":6,\"requirements\":[],\"shard\":0},\
         \"answer\":{\"copied\":[],\"copies_in\":\"Ordinary\",\"priority\":0,\"processor\":4,\"profile\":false}}\n";
    assert_eq!(String::from_utf8(plain.0.lock().unwrap().clone()).unwrap(), expected);
}

#[test]
fn logging_notes_a_panic_and_passes_it_on() {
    struct Bomb;
    impl Mapper for Bomb {
        fn name(&self) -> &str {
            "bomb"
        }
        fn map_leaf(&self, _: &LeafInput<'_>) -> LeafOutput {
            std::panic::resume_unwind(Box::new("bang"))
        }
    }
    let shown = Shown::default();
    let logging = LoggingMapper::new(Arc::new(Bomb), shown.clone());
    let panic = catch_unwind(AssertUnwindSafe(|| leaf(&logging, &Machine::new(1, 1), 0))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"bang"));
    assert!(String::from_utf8(shown.0.lock().unwrap().clone()).unwrap().ends_with("\"answer\":null}\n"));

    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let logging = LoggingMapper::new(Arc::new(DefaultMapper), Full);
    let panic = catch_unwind(AssertUnwindSafe(|| leaf(&logging, &Machine::new(1, 1), 0))).unwrap_err();
    assert_eq!(*panic.downcast::<String>().unwrap(), "can't write decisions: disk full");
}

/// Loads no libraries.
fn none(path: &Path, _: &str) -> Result<Arc<dyn Mapper>, String> {
    Err(format!("{}: none", path.display()))
}

#[test]
fn specifications() {
    for name in names() {
        let spec: MapperSpec = name.parse().unwrap();
        assert_eq!((spec.name(), spec.to_string()), (*name, name.to_string()));
        assert!(spec.load(&none).unwrap().name().starts_with(name));
    }
    let here = Directory::new("nested");
    let log = here.0.join("log.jsonl");
    let nested = format!("logging,inner=logging,file={},inner=random,seed=5", log.display());
    let nested: MapperSpec = nested.parse().unwrap();
    assert_eq!(nested.files().unwrap(), [(log, true)]);
    assert_eq!(nested.load(&none).unwrap().name(), "logging,inner=logging,inner=random");
    let refused = |text: &str| text.parse::<MapperSpec>().unwrap_err().to_string();
    assert_eq!(refused("logging,inner=random,seed=x"), "mapper random, option seed: expected a number, found `x`");
    assert_eq!(refused("first,"), "mapper first: unknown option ``; it has none");
    assert_eq!(refused("random,"), "mapper random: unknown option ``; expected seed=N");
    assert_eq!(refused("random,seed=1,seed=1"), "mapper random: option `seed` is given twice");
    assert_eq!(refused("logging,file=a,file=b"), "mapper logging: option `file` is given twice");
    assert_eq!(refused("random,seed"), "mapper random: unknown option `seed`; expected seed=N");
    let deep = "logging,inner=".repeat(9000) + "default";
    let expected = "mapper logging, option inner: expected at most 16 nested mappers, found `9000`";
    assert_eq!(refused(&deep), expected);
    assert!(refused("").starts_with("unknown mapper ``; expected one of default, collective, first"));
}

/// A directory that is removed at the end.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The old mapper is still asked for a while, and both write to one file.
#[test]
fn a_log_that_goes_on_after_a_reload_has_every_line_whole() {
    let directory = Directory::new("one-log");
    let (file, log) = (directory.0.join("mapper"), directory.0.join("log.jsonl"));
    let says = |inner: &str| std::fs::write(&file, format!("logging,file={},inner={inner}\n", log.display())).unwrap();
    std::fs::write(&log, "of a run before\n").unwrap();
    says("default");
    let spec: MapperSpec = format!("@{}", file.display()).parse().unwrap();
    let machine = Machine::new(4, 2);
    let first = spec.load(&none).unwrap();
    for n in 0..100 {
        leaf(&*first, &machine, n % 4);
    }
    says("round-robin");
    spec.reload(&none).unwrap();
    let second = spec.load(&none).unwrap();
    for n in 0..100 {
        leaf(&*second, &machine, n % 4);
        leaf(&*first, &machine, n % 4);
    }
    drop((first, second, spec));
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect(l)).collect();
    let by = |name: &str| lines.iter().filter(|line| line["mapper"] == name).count();
    assert_eq!((lines.len(), by("default"), by("round-robin")), (300, 200, 100));
}

/// Odd files are refused without waiting or endless reading.
#[cfg(unix)]
#[test]
fn a_file_that_can_not_be_read_again_is_refused() {
    let directory = Directory::new("odd-files");
    let refused = |path: &Path| {
        let spec: MapperSpec = format!("@{}", path.display()).parse().unwrap();
        spec.load(&none).map(|_| ()).unwrap_err().to_string()
    };
    let fifo = directory.0.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [&fifo, Path::new("/dev/zero"), &directory.0] {
        let expected = format!("mapper @{}: can't be read: expected a regular file, found a d", path.display());
        assert!(refused(path).starts_with(&expected), "{}", refused(path));
    }
    let long = directory.0.join("long");
    std::fs::File::create(&long).unwrap().set_len(1 << 40).unwrap();
    assert!(refused(&long).ends_with("expected a first line of less than 65536 bytes"), "{}", refused(&long));
    std::fs::write(&long, "random,seed=3\r\n# and more\n").unwrap();
    let spec: MapperSpec = format!("@{}", long.display()).parse().unwrap();
    assert_eq!(spec.load(&none).unwrap().name(), "random");
}

/// A specification in a file is refused with the file's name, and a file names no other file.
#[test]
fn a_file_with_no_legal_specification_is_named() {
    let directory = Directory::new("no-specification");
    let file = directory.0.join("mapper");
    let refused = |line: &str| {
        std::fs::write(&file, line).unwrap();
        let spec: MapperSpec = format!("@{}", file.display()).parse().unwrap();
        spec.load(&none).map(|_| ()).unwrap_err().to_string()
    };
    let mapper = format!("mapper @{}", file.display());
    assert!(refused("best").starts_with(&format!("{mapper}: unknown mapper `best`")), "{}", refused("best"));
    let expected = "expected a name and options or the path of a library, found `@other`";
    assert_eq!(refused("@other"), format!("{mapper}: {expected}"));
}
