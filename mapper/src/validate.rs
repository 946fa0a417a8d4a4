//! The check of every decision of a mapper, one function for each call that decides something.
//!
//! The runtime calls them before it uses an answer. Tests of a mapper may call them too: `mapper` is the name for the
//! error.

use crate::{
    AlgorithmInput, CollectiveInput, CollectiveOutput, InstanceChoice, InstanceInput, LeafInput, LeafOutput, Machine,
    NodeId, PlaceShardsInput, PlaceSharedInput, PlaceTaskInput, Placement, Priority, ProcessorId, Route, RouteInput,
    SliceInput, Slicing, SourceInput,
};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// An illegal decision. It names the mapper, the call, the subject, the value and the legal values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "mapper `{}`, call {} for {}: illegal {}: {}; legal: {}",
    .0.mapper, .0.call, .0.subject, .0.what, .0.value, .0.legal
)]
pub struct MapperError(pub Box<IllegalDecision>);

/// The parts of a [`MapperError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IllegalDecision {
    /// Name of the mapper.
    pub mapper: String,
    /// The call, a method of [`Mapper`](crate::Mapper).
    pub call: String,
    /// The task, gang, region or collective that the decision is about.
    pub subject: String,
    /// The part of the decision that is illegal.
    pub what: String,
    /// The mapper's answer.
    pub value: String,
    /// The legal answers.
    pub legal: String,
}

impl MapperError {
    /// The same error with the subject in other words.
    pub fn about(mut self, subject: impl std::fmt::Display) -> Self {
        self.0.subject = subject.to_string();
        self
    }
}

#[cold]
fn error(mapper: &str, call: &str, subject: &str, what: &str, value: String, legal: String) -> MapperError {
    let (mapper, call, subject, what) = (mapper.into(), call.into(), subject.into(), what.into());
    MapperError(Box::new(IllegalDecision { mapper, call, subject, what, value, legal }))
}

/// The last part of the path of a leaf task's function.
fn last(name: &str) -> &str {
    let plain = name.split('<').next().unwrap_or(name);
    plain.rsplit("::").next().unwrap_or(plain)
}

/// A leaf task of a shard in words.
fn task(name: &str, shard: u32) -> String {
    format!("task `{}` of shard {shard}", last(name))
}

fn collective(name: &str) -> String {
    format!("collective `{name}`")
}

/// Checks an answer of [`Mapper::place_shards`](crate::Mapper::place_shards) and gives the processor of each shard.
///
/// # Errors
/// An explicit list has the wrong length or names a processor that does not exist.
pub fn placement(mapper: &str, input: &PlaceShardsInput<'_>, out: Placement) -> Result<Vec<ProcessorId>, MapperError> {
    let (shards, processors) = (input.shards, input.machine.processors());
    let fail = |what: &str, value: String, legal: String| {
        Err(error(mapper, "place_shards", &format!("gang `{}`", input.gang), what, value, legal))
    };
    match out {
        Placement::Blocked => {
            let n = u64::from(input.machine.shard_processors());
            let nth = |s| (u64::from(s) * n / u64::from(shards)) as u32;
            Ok((0..shards).map(|s| input.machine.shard_processor(nth(s))).collect())
        }
        Placement::Cyclic => Ok((0..shards).map(|s| input.machine.shard_processor(s)).collect()),
        Placement::Explicit(list) if list.len() != shards as usize => {
            fail("number of shards placed", list.len().to_string(), shards.to_string())
        }
        Placement::Explicit(list) => match list.iter().position(|p| p.0 >= processors) {
            Some(s) => fail(&format!("processor of shard {s}"), list[s].to_string(), format!("0..{processors}")),
            None => Ok(list),
        },
    }
}

/// Checks an answer of [`Mapper::place_shared`](crate::Mapper::place_shared).
///
/// # Errors
/// The processor does not exist.
pub fn shared(mapper: &str, input: &PlaceSharedInput<'_>, home: ProcessorId) -> Result<ProcessorId, MapperError> {
    let processors = input.machine.processors();
    if home.0 < processors {
        return Ok(home);
    }
    let subject = format!("{}", input.region);
    Err(error(mapper, "place_shared", &subject, "processor", home.to_string(), format!("0..{processors}")))
}

/// Checks an answer of [`Mapper::map_instance`](crate::Mapper::map_instance).
///
/// # Errors
/// The answer is to find an instance, and there is none.
pub fn instance(mapper: &str, input: &InstanceInput<'_>, out: InstanceChoice) -> Result<InstanceChoice, MapperError> {
    if out != InstanceChoice::Find || input.found.is_some() {
        return Ok(out);
    }
    let subject = format!("{} on processor {}", input.region, input.processor);
    let legal = "Create (there is none yet)".into();
    Err(error(mapper, "map_instance", &subject, "instance", format!("{out:?}"), legal))
}

/// Checks an answer of [`Mapper::select_source`](crate::Mapper::select_source).
///
/// # Errors
/// The processor is not one of the holders.
pub fn source(mapper: &str, input: &SourceInput<'_>, out: ProcessorId) -> Result<ProcessorId, MapperError> {
    if input.holders.contains(&out) {
        return Ok(out);
    }
    let subject = format!("{} needed on processor {}", input.region, input.to);
    let legal = format!("one of {:?}", input.holders);
    Err(error(mapper, "select_source", &subject, "source", out.to_string(), legal))
}

/// Checks an answer of [`Mapper::route`](crate::Mapper::route).
///
/// # Errors
/// A tree has another number of entries than there are recipients, a parent does not come before its child, or a
/// recipient gets the values in a later round than one with a lower priority.
pub fn route(mapper: &str, input: &RouteInput<'_>, out: Route) -> Result<Route, MapperError> {
    let Route::Tree(parents) = &out else { return Ok(out) };
    let (recipients, number) = (input.recipients, input.recipients.len());
    let fail = |what: &str, value: String, legal: String| {
        let subject = format!("{} sent by processor {}", input.region, input.from);
        Err(error(mapper, "route", &subject, what, value, legal))
    };
    if parents.len() != number {
        return fail("number of parents", parents.len().to_string(), number.to_string());
    }
    if let Some(i) = (0..number).find(|&i| parents[i] as usize > i) {
        return fail(&format!("parent of recipient {i}"), parents[i].to_string(), format!("0..{}", i + 1));
    }
    let rounds = out.rounds(number);
    // The last round so far and who gets the values in it; the same among the recipients of higher priority.
    let (mut latest, mut higher) = ((0, 0), (0, 0));
    for i in 0..number {
        if i > 0 && recipients[i].1 != recipients[i - 1].1 {
            higher = latest;
        }
        latest = latest.max((rounds[i], i));
        let (late, last) = higher;
        if late > rounds[i] {
            let (above, below) = (recipients[last].1.0, recipients[i].1.0);
            let what = format!("round of recipient {last}, which has priority {above}");
            let legal = format!("at most {}, the round of recipient {i}, which has priority {below}", rounds[i]);
            return fail(&what, late.to_string(), legal);
        }
    }
    Ok(out)
}

/// Checks an answer of [`Mapper::slice_index`](crate::Mapper::slice_index) and gives runs of points in order, each with
/// its processor.
///
/// # Errors
/// The runs are not all points in order, each once, or a processor is neither [`ProcessorId::ANYWHERE`] nor one of
/// the node that runs leaf tasks.
pub fn slices(
    mapper: &str,
    input: &SliceInput<'_>,
    out: Slicing,
) -> Result<Vec<(Range<usize>, ProcessorId)>, MapperError> {
    let (points, node) = (input.points, input.machine.leaf_processors_of(input.machine.node_of(input.processor)));
    let fail = |what: &str, value: String, legal: String| {
        Err(error(mapper, "slice_index", &task(input.task, input.shard), what, value, legal))
    };
    let list = match out {
        Slicing::Here => return Ok(vec![(0..points, input.processor)]),
        Slicing::Blocked => {
            let n = node.len();
            let start = |i: usize| (points as u128 * i as u128 / n as u128) as usize;
            let runs = node.enumerate().map(|(i, p)| (start(i)..start(i + 1), p));
            return Ok(runs.filter(|(run, _)| !run.is_empty()).collect());
        }
        Slicing::Explicit(list) => list,
    };
    let mut next = 0;
    for (i, (run, processor)) in list.iter().enumerate() {
        if run.start != next || run.end < run.start || run.end > points {
            return fail(
                &format!("points of slice {i}"),
                format!("{run:?}"),
                format!("{next}..n with n at most {points}"),
            );
        }
        if !node.contains(*processor) && *processor != ProcessorId::ANYWHERE {
            let legal = near(input.processor, input.shard, input.machine);
            return fail(&format!("processor of slice {i}"), processor.to_string(), legal);
        }
        next = run.end;
    }
    if next != points {
        return fail("number of points in slices", next.to_string(), points.to_string());
    }
    Ok(list)
}

/// Checks an answer of [`Mapper::choose_algorithm`](crate::Mapper::choose_algorithm).
///
/// # Errors
/// There is no such choice.
pub fn algorithm(mapper: &str, input: &AlgorithmInput<'_>, out: usize) -> Result<usize, MapperError> {
    if out < input.choices.len() {
        return Ok(out);
    }
    let choices: Vec<_> = input.choices.iter().enumerate().map(|(i, c)| format!("{i} ({c})")).collect();
    let legal = choices.join(", ");
    Err(error(mapper, "choose_algorithm", &collective(input.collective), "algorithm", out.to_string(), legal))
}

/// The processors that may run a shard's leaf tasks, in words.
#[cold]
fn near(processor: ProcessorId, shard: u32, machine: &Machine) -> String {
    let node = machine.node_of(processor);
    let (all, of_node) = (machine.processors_of(node), machine.leaf_processors_of(node));
    let but = if of_node != all { " without its utility processors" } else { "" };
    format!("{of_node:?}, the node of shard {shard}{but}")
}

#[inline]
fn priority(mapper: &str, call: &str, subject: impl FnOnce() -> String, p: Priority) -> Result<(), MapperError> {
    if p.0 < Priority::LEVELS {
        return Ok(());
    }
    Err(error(mapper, call, &subject(), "priority", p.0.to_string(), format!("0..{}", Priority::LEVELS)))
}

/// Checks an answer of [`Mapper::place_task`](crate::Mapper::place_task).
///
/// # Errors
/// The node does not exist.
pub fn place_task(mapper: &str, input: &PlaceTaskInput<'_>, out: NodeId) -> Result<NodeId, MapperError> {
    if out.0 < input.nodes {
        return Ok(out);
    }
    let subject = format!("task `{}`", last(input.task));
    Err(error(mapper, "place_task", &subject, "node", out.to_string(), format!("0..{}", input.nodes)))
}

/// Checks an answer of [`Mapper::map_leaf`](crate::Mapper::map_leaf).
///
/// # Errors
/// The processor is of another node or a utility processor, the priority is out of range, or the requirement of a copy
/// does not exist or may not be copied. A position that is listed twice is legal, and so is [`ProcessorId::ANYWHERE`].
pub fn leaf(mapper: &str, input: &LeafInput<'_>, out: &LeafOutput) -> Result<(), MapperError> {
    let machine = input.machine;
    let node = || machine.leaf_processors_of(machine.node_of(input.processor));
    let anywhere = out.processor == ProcessorId::ANYWHERE;
    let usual = out.processor == input.processor && !machine.is_utility(out.processor);
    if !anywhere && !usual && !node().contains(out.processor) {
        let (value, legal) = (out.processor.to_string(), near(input.processor, input.shard, machine));
        return Err(error(mapper, "map_leaf", &task(input.task, input.shard), "processor", value, legal));
    }
    priority(mapper, "map_leaf", || task(input.task, input.shard), out.priority)?;
    let number = input.requirements.len();
    for &i in &out.copied {
        let Some(r) = input.requirements.get(i as usize) else {
            let legal = if number > 0 { format!("0..{number}") } else { "none (the task has no requirements)".into() };
            let subject = task(input.task, input.shard);
            return Err(error(mapper, "map_leaf", &subject, "position of a copied requirement", i.to_string(), legal));
        };
        if !r.is_copyable() {
            let what = format!("access of requirement {i} ({:?}, {:?})", r.privilege, r.coherence);
            let legal = "InPlace (only simultaneous reads may be copied)".into();
            return Err(error(mapper, "map_leaf", &task(input.task, input.shard), &what, "Copy".into(), legal));
        }
    }
    Ok(())
}

/// Checks an answer of [`Mapper::map_collective`](crate::Mapper::map_collective).
///
/// # Errors
/// The priority is out of range.
pub fn mapping(
    mapper: &str,
    input: &CollectiveInput<'_>,
    out: CollectiveOutput,
) -> Result<CollectiveOutput, MapperError> {
    priority(mapper, "map_collective", || collective(input.collective), out.priority)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Kind, MemoryKind};
    use crate::{RequirementInput, Requirements};
    use maniple_regions::{Coherence, FieldId, Privilege, Rect, Region, TreeId};

    #[test]
    fn blocked_is_monotone_and_balanced() {
        for (p, w) in [(1, 1), (7, 2), (4096, 2), (5, 7), (16, 3)] {
            let machine = Machine::new(w, w);
            let input = PlaceShardsInput { gang: "g", shards: p, machine: &machine };
            let at = placement("m", &input, Placement::Blocked).unwrap();
            let count = |x| at.iter().filter(|y| y.0 == x).count() as u32;
            assert!(at.is_sorted());
            assert!((0..w).all(|x| count(x) == p / w || count(x) == p / w + 1), "{p} {w} {at:?}");
        }
    }

    #[test]
    fn illegal_decisions_name_call_value_and_legal_values() {
        let machine = Machine::new(4, 2);
        let input = PlaceShardsInput { gang: "g", shards: 3, machine: &machine };
        let e = placement("mine", &input, Placement::Explicit([0, 9, 1].map(ProcessorId).into())).unwrap_err();
        assert_eq!(
            e.to_string(),
            "mapper `mine`, call place_shards for gang `g`: illegal processor of shard 1: 9; legal: 0..4"
        );
        assert!(
            placement("mine", &input, Placement::Explicit(vec![ProcessorId(0)]))
                .unwrap_err()
                .to_string()
                .contains("legal: 3")
        );
        let input = LeafInput {
            task: "t",
            shard: 5,
            processor: ProcessorId(1),
            requirements: Requirements::listed(&[]),
            machine: &machine,
        };
        let far = LeafOutput { processor: ProcessorId(2), ..LeafOutput::local(&input) };
        assert!(leaf("mine", &input, &far).unwrap_err().to_string().contains("illegal processor: 2; legal: 0..2"));
        let high = LeafOutput { priority: Priority(8), ..LeafOutput::local(&input) };
        assert!(leaf("mine", &input, &high).unwrap_err().to_string().contains("illegal priority: 8; legal: 0..8"));
        assert!(leaf("mine", &input, &LeafOutput::local(&input)).is_ok());
    }

    /// With twelve requirements, of which every second is a simultaneous read.
    #[test]
    fn only_simultaneous_reads_that_are_there_are_copied() {
        let (machine, region) = (Machine::new(2, 2), Region::new(TreeId(1), Rect::line(0, 8)));
        let requirement = |i: u32| RequirementInput {
            region: &region,
            field: FieldId(0),
            privilege: if i % 4 == 2 { Privilege::ReadWrite } else { Privilege::Read },
            coherence: if i.is_multiple_of(4) { Coherence::Exclusive } else { Coherence::Simultaneous },
            bytes: 64,
            memory: machine.memory(ProcessorId(0), MemoryKind::Ordinary),
        };
        let requirements: Vec<_> = (0..12).map(requirement).collect();
        let answer = |number: usize, copied: &[u32]| {
            let requirements = Requirements::listed(&requirements[..number]);
            let input = LeafInput { task: "t", shard: 5, processor: ProcessorId(1), requirements, machine: &machine };
            let out = LeafOutput { copied: copied.to_vec(), ..LeafOutput::local(&input) };
            assert_eq!(out.is_plain(&input), copied.is_empty());
            leaf("mine", &input, &out).map_err(|e| e.to_string())
        };
        for legal in [&[][..], &[1], &[11, 9], &[3, 11, 3]] {
            assert_eq!(answer(12, legal), Ok(()));
        }
        for (number, copied, expected) in [
            (12, &[11, 12][..], "position of a copied requirement: 12; legal: 0..12"),
            (9, &[u32::MAX], "position of a copied requirement: 4294967295; legal: 0..9"),
            (0, &[0], "position of a copied requirement: 0; legal: none (the task has no requirements)"),
            (
                12,
                &[1, 8],
                "access of requirement 8 (Read, Exclusive): Copy; legal: InPlace (only simultaneous reads may be copied)",
            ),
            (
                12,
                &[10],
                "access of requirement 10 (ReadWrite, Simultaneous): Copy; legal: InPlace (only simultaneous reads may be \
                 copied)",
            ),
        ] {
            let expected = format!("mapper `mine`, call map_leaf for task `t` of shard 5: illegal {expected}");
            assert_eq!(answer(number, copied), Err(expected));
        }
    }

    #[test]
    fn utility_processors_get_shards_by_number_only_and_no_leaf_tasks() {
        let machine = Machine::new(6, 3).with_utility(1);
        let input = PlaceShardsInput { gang: "g", shards: 8, machine: &machine };
        assert_eq!(placement("mine", &input, Placement::Blocked).unwrap(), [0, 0, 1, 1, 3, 3, 4, 4].map(ProcessorId));
        assert_eq!(placement("mine", &input, Placement::Cyclic).unwrap(), [0, 1, 3, 4, 0, 1, 3, 4].map(ProcessorId));
        let by_number = [2, 5, 5, 2, 0, 1, 3, 4].map(ProcessorId).to_vec();
        assert_eq!(placement("mine", &input, Placement::Explicit(by_number.clone())), Ok(by_number));

        let legal = "legal: 3..5, the node of shard 7 without its utility processors";
        for processor in [3, 4, 5].map(ProcessorId) {
            let input = LeafInput {
                task: "t",
                shard: 7,
                processor,
                requirements: Requirements::listed(&[]),
                machine: &machine,
            };
            let local = LeafOutput::local(&input);
            assert_eq!(local.processor, if processor == ProcessorId(5) { ProcessorId(4) } else { processor });
            assert!(leaf("mine", &input, &local).is_ok());
            for there in [2, 5].map(ProcessorId) {
                let e =
                    leaf("mine", &input, &LeafOutput { processor: there, ..local.clone() }).unwrap_err().to_string();
                assert!(e.ends_with(&format!("illegal processor: {there}; {legal}")), "{e}");
            }
            let input = SliceInput { task: "t", shard: 7, processor, points: 4, machine: &machine };
            assert_eq!(
                slices("mine", &input, Slicing::Blocked),
                Ok(vec![(0..2, ProcessorId(3)), (2..4, ProcessorId(4))])
            );
            let e = slices("mine", &input, Slicing::Explicit(vec![(0..4, ProcessorId(5))])).unwrap_err().to_string();
            assert!(e.ends_with(&format!("illegal processor of slice 0: 5; {legal}")), "{e}");
        }
    }

    #[test]
    fn slices_are_all_points_once() {
        let machine = Machine::new(6, 3);
        let input = SliceInput { task: "t", shard: 2, processor: ProcessorId(4), points: 10, machine: &machine };
        let refused = |list: Vec<(Range<usize>, u32)>| {
            let list = list.into_iter().map(|(run, p)| (run, ProcessorId(p))).collect();
            slices("mine", &input, Slicing::Explicit(list)).unwrap_err().0.legal
        };
        assert_eq!(refused(vec![(0..4, 3), (5..10, 4)]), "4..n with n at most 10");
        assert_eq!(refused(vec![(0..4, 3), (3..10, 4)]), "4..n with n at most 10");
        assert_eq!(refused(vec![(0..11, 3)]), "0..n with n at most 10");
        assert_eq!(refused(vec![(0..4, 3), (4..10, 2)]), "3..6, the node of shard 2");
        assert_eq!(refused(vec![(0..9, 5)]), "10");
        assert_eq!(slices("mine", &input, Slicing::Here), Ok(vec![(0..10, ProcessorId(4))]));
        for points in 1..20 {
            let input = SliceInput { points, ..input.clone() };
            let all = slices("mine", &input, Slicing::Blocked).unwrap();
            assert_eq!(slices("mine", &input, Slicing::Explicit(all.clone())), Ok(all.clone()));
            assert!(all.iter().all(|(run, _)| run.len() == points / 3 || run.len() == points / 3 + 1));
        }
    }

    #[test]
    fn a_task_may_run_on_any_processor_that_is_free() {
        let machine = Machine::new(6, 3).with_utility(1);
        let requirements = Requirements::listed(&[]);
        for processor in (0..6).map(ProcessorId) {
            let input = LeafInput { task: "t", shard: 0, processor, requirements, machine: &machine };
            let anywhere = LeafOutput { processor: ProcessorId::ANYWHERE, ..LeafOutput::local(&input) };
            assert_eq!(leaf("mine", &input, &anywhere), Ok(()));
            assert!(!anywhere.is_plain(&input));
            // The rest is checked all the same.
            let high = LeafOutput { priority: Priority(8), ..anywhere };
            assert!(leaf("mine", &input, &high).unwrap_err().to_string().contains("illegal priority: 8; legal: 0..8"));
        }
        let input = SliceInput { task: "t", shard: 0, processor: ProcessorId(0), points: 4, machine: &machine };
        let some = vec![(0..1, ProcessorId(1)), (1..4, ProcessorId::ANYWHERE)];
        assert_eq!(slices("mine", &input, Slicing::Explicit(some.clone())), Ok(some));
        // It is no processor elsewhere.
        let input = PlaceShardsInput { gang: "g", shards: 1, machine: &machine };
        assert!(placement("mine", &input, Placement::Explicit(vec![ProcessorId::ANYWHERE])).is_err());
    }

    #[test]
    fn tasks_are_placed_on_nodes_that_are_there() {
        let machine = Machine::new(6, 2);
        let requirements = Requirements::listed(&[]);
        let (task, node) = ("apps::factor::solve<f64>", NodeId(1));
        let input = PlaceTaskInput { task, requirements, node, nodes: 3, machine: &machine };
        for node in (0..3).map(NodeId) {
            assert_eq!(place_task("mine", &input, node), Ok(node));
        }
        let expected = "mapper `mine`, call place_task for task `solve`: illegal node: 3; legal: 0..3";
        assert_eq!(place_task("mine", &input, NodeId(3)).unwrap_err().to_string(), expected);
        assert!(place_task("mine", &input, NodeId(u32::MAX)).is_err());
    }

    #[test]
    fn illegal_routes_are_named() {
        let machine = Machine::new(6, 1);
        let region = Region::new(TreeId(1), Rect::line(0, 8));
        let recipients = [(1, 6), (2, 6), (5, 3), (4, 1)].map(|(p, level)| (ProcessorId(p), Priority(level)));
        let (field, from) = (FieldId(0), ProcessorId(3));
        let input = RouteInput { region, field, bytes: 64, from, recipients: &recipients, machine: &machine };
        let legal =
            [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1], [0, 1, 2, 3]].map(|p| Route::Tree(p.into()));
        for legal in [Route::Binomial, Route::Linear].into_iter().chain(legal) {
            assert_eq!(route("mine", &input, legal.clone()), Ok(legal));
        }
        for (parents, expected) in [
            (&[0, 0, 0][..], "number of parents: 3; legal: 4"),
            (&[0; 5], "number of parents: 5; legal: 4"),
            (&[1, 0, 0, 0], "parent of recipient 0: 1; legal: 0..1"),
            (&[0, 1, 2, 4], "parent of recipient 3: 4; legal: 0..4"),
            (&[0, u32::MAX, 0, 0], "parent of recipient 1: 4294967295; legal: 0..2"),
            // Rounds 1, 2, 3, 2.
            (
                &[0, 0, 0, 1],
                "round of recipient 2, which has priority 3: 3; legal: at most 2, the round of recipient 3, which has \
                 priority 1",
            ),
        ] {
            let expected = format!("mapper `mine`, call route for {region} sent by processor 3: illegal {expected}");
            assert_eq!(route("mine", &input, Route::Tree(parents.into())).unwrap_err().to_string(), expected);
        }
        // Among equals any order is legal: rounds 1, 2, 3, 2.
        let equals = recipients.map(|(p, _)| (p, Priority::NORMAL));
        let input = RouteInput { recipients: &equals, ..input };
        assert!(route("mine", &input, Route::Tree(vec![0, 0, 0, 1])).is_ok());
    }

    #[test]
    fn illegal_instances_sources_and_algorithms_are_named() {
        let machine = Machine::new(4, 2);
        let region = Region::new(TreeId(1), Rect::line(0, 8));
        let (field, coherence) = (FieldId(0), Coherence::Exclusive);
        let machine_of = &machine;
        let input = |found| InstanceInput {
            region,
            field,
            bytes: 64,
            processor: ProcessorId(1),
            coherence,
            found,
            machine: machine_of,
        };
        let (there, create) = (Some(MemoryKind::Ordinary), InstanceChoice::Create(MemoryKind::Registered));
        for (found, out) in [(None, create), (there, create), (there, InstanceChoice::Find)] {
            assert_eq!(instance("mine", &input(found), out), Ok(out));
        }
        let refused = instance("mine", &input(None), InstanceChoice::Find).unwrap_err().to_string();
        assert!(refused.ends_with("illegal instance: Find; legal: Create (there is none yet)"), "{refused}");
        let holders = &[2, 3].map(ProcessorId)[..];
        let input = SourceInput { region, field, to: ProcessorId(0), holders, machine: &machine };
        assert_eq!(source("mine", &input, ProcessorId(3)), Ok(ProcessorId(3)));
        assert!(
            source("mine", &input, ProcessorId(1))
                .unwrap_err()
                .to_string()
                .ends_with("illegal source: 1; legal: one of [2, 3]")
        );
        let (placement, choices) =
            (&[0, 1].map(ProcessorId)[..], &[Algorithm::RecursiveDoubling, Algorithm::TwoLevel][..]);
        let (collective, kind) = ("total", Kind::Allreduce);
        let input = AlgorithmInput { collective, kind, placement, bytes: 8, choices, machine: &machine };
        assert_eq!(algorithm("mine", &input, 1), Ok(1));
        assert_eq!(
            algorithm("mine", &input, 2).unwrap_err().to_string(),
            "mapper `mine`, call choose_algorithm for collective `total`: illegal algorithm: 2; legal: 0 (recursive-doubling), 1 \
             (two-level)"
        );
    }
}
