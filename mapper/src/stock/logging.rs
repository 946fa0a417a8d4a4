//! The mapper `logging`, which writes each decision down as a line of JSON.

use crate::slot::name_of;
use crate::{
    AlgorithmInput, CollectiveInput, CollectiveOutput, InstanceChoice, InstanceInput, KeepInput, LeafInput, LeafOutput,
    Machine, Mapper, NodeId, PlaceShardsInput, PlaceSharedInput, PlaceTaskInput, Placement, ProcessorId, ProfileInput,
    RequirementInput, Requirements, Route, RouteInput, SliceInput, Slicing, SourceInput,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Passes every call on to another mapper and writes the decision down, one JSON object a line.
///
/// | field | value |
/// |---|---|
/// | `mapper` | the name of the other mapper |
/// | `call` | the call, such as `map_leaf` |
/// | `subject` | the gang, region, task or collective |
/// | `input` | the numbers of the input |
/// | `answer` | the answer, or `null` if the call panicked |
///
/// Decisions of several processors are written one after the other, in the order of the answers. A buffer is flushed
/// when the mapper is dropped, also after a run that failed.
pub struct LoggingMapper {
    inner: Arc<dyn Mapper>,
    name: String,
    inner_name: String,
    out: Mutex<Box<dyn Write + Send>>,
}

/// One line of the output.
#[derive(Serialize)]
struct Line<'a> {
    mapper: &'a str,
    call: &'a str,
    subject: &'a str,
    input: Value,
    answer: Value,
}

impl LoggingMapper {
    /// Writes the decisions of `inner` to `out`. If a line can't be written, the call panics with the cause, which
    /// fails whatever asked.
    pub fn new(inner: Arc<dyn Mapper>, out: impl Write + Send + 'static) -> Self {
        let inner_name = name_of(&*inner);
        Self { inner, name: format!("logging,inner={inner_name}"), inner_name, out: Mutex::new(Box::new(out)) }
    }

    /// Asks the other mapper and writes a line.
    fn log<T>(
        &self,
        call: &str,
        subject: &dyn Display,
        input: Value,
        ask: impl FnOnce(&dyn Mapper) -> T,
        show: impl FnOnce(&T) -> Value,
    ) -> T {
        let answer = catch_unwind(AssertUnwindSafe(|| ask(&*self.inner)));
        let (mapper, subject) = (&self.inner_name[..], &subject.to_string()[..]);
        let line = Line { mapper, call, subject, input, answer: answer.as_ref().map_or(Value::Null, show) };
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        let written = self.out.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text);
        match (answer, written) {
            (Err(panic), _) => resume_unwind(panic),
            (_, Err(e)) => resume_unwind(Box::new(format!("can't write decisions: {e}"))),
            (Ok(answer), Ok(())) => answer,
        }
    }
}

/// Requirements as JSON.
fn shown(requirements: Requirements<'_>, machine: &Machine) -> Vec<Value> {
    let requirement = |r: RequirementInput<'_>| {
        json!({
            "region": r.region.to_string(),
            "field": r.field.0,
            "privilege": r.privilege.to_string(),
            "coherence": r.coherence.to_string(),
            "bytes": r.bytes,
            "processor": machine.owner(r.memory).0,
        })
    };
    requirements.iter().map(requirement).collect()
}

impl Drop for LoggingMapper {
    fn drop(&mut self) {
        if let Err(e) = self.out.get_mut().unwrap_or_else(PoisonError::into_inner).flush() {
            eprintln!("mapper `{}`: can't write the last decisions: {e}", self.name);
        }
    }
}

impl std::fmt::Debug for LoggingMapper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "mapper `{}`", self.name)
    }
}

impl Mapper for LoggingMapper {
    fn name(&self) -> &str {
        &self.name
    }

    fn place_shards(&self, i: &PlaceShardsInput<'_>) -> Placement {
        let input = json!({ "shards": i.shards, "processors": i.machine.processors() });
        self.log(
            "place_shards",
            &i.gang,
            input,
            |m| m.place_shards(i),
            |answer| match answer {
                Placement::Explicit(list) => json!(list),
                other => json!(format!("{other:?}")),
            },
        )
    }

    fn place_shared(&self, i: &PlaceSharedInput<'_>) -> ProcessorId {
        let namers: Vec<_> = i.namers.iter().map(|(at, p)| json!([at, p.to_string()])).collect();
        let input = json!({ "field": i.field.0, "namers": namers });
        self.log("place_shared", &i.region, input, |m| m.place_shared(i), |home| json!(home))
    }

    fn map_instance(&self, i: &InstanceInput<'_>) -> InstanceChoice {
        let input = json!({
            "field": i.field.0,
            "bytes": i.bytes,
            "processor": i.processor,
            "coherence": i.coherence.to_string(),
            "found": i.found,
        });
        self.log("map_instance", &i.region, input, |m| m.map_instance(i), |choice| json!(choice))
    }

    fn select_source(&self, i: &SourceInput<'_>) -> ProcessorId {
        let input = json!({ "field": i.field.0, "to": i.to, "holders": i.holders });
        self.log("select_source", &i.region, input, |m| m.select_source(i), |source| json!(source))
    }

    fn keep_instance(&self, i: &KeepInput<'_>) -> bool {
        let input = json!({ "field": i.field.0, "bytes": i.bytes, "processor": i.processor });
        self.log("keep_instance", &i.region, input, |m| m.keep_instance(i), |keep| json!(keep))
    }

    fn route(&self, i: &RouteInput<'_>) -> Route {
        let input = json!({ "field": i.field.0, "bytes": i.bytes, "from": i.from, "recipients": i.recipients });
        self.log(
            "route",
            &i.region,
            input,
            |m| m.route(i),
            |answer| match answer {
                Route::Tree(parents) => json!(parents),
                other => json!(format!("{other:?}")),
            },
        )
    }

    fn slice_index(&self, i: &SliceInput<'_>) -> Slicing {
        let input = json!({ "shard": i.shard, "processor": i.processor, "points": i.points });
        self.log(
            "slice_index",
            &i.task,
            input,
            |m| m.slice_index(i),
            |answer| match answer {
                Slicing::Explicit(list) => list.iter().map(|(run, p)| json!([run.start, run.end, p])).collect(),
                other => json!(format!("{other:?}")),
            },
        )
    }

    fn place_task(&self, i: &PlaceTaskInput<'_>) -> NodeId {
        let requirements = shown(i.requirements, i.machine);
        let input = json!({ "node": i.node, "nodes": i.nodes, "requirements": requirements });
        self.log("place_task", &i.task, input, |m| m.place_task(i), |node| json!(node))
    }

    fn map_leaf(&self, i: &LeafInput<'_>) -> LeafOutput {
        let requirements = shown(i.requirements, i.machine);
        let input = json!({ "shard": i.shard, "processor": i.processor, "requirements": requirements });
        let show = |out: &LeafOutput| {
            json!({
                "processor": out.processor,
                "priority": out.priority,
                "copied": out.copied,
                "copies_in": out.copies_in,
                "profile": out.profile,
            })
        };
        self.log("map_leaf", &i.task, input, |m| m.map_leaf(i), show)
    }

    fn choose_algorithm(&self, i: &AlgorithmInput<'_>) -> usize {
        let choices: Vec<String> = i.choices.iter().map(ToString::to_string).collect();
        let input = json!({ "kind": i.kind, "placement": i.placement, "bytes": i.bytes, "choices": choices });
        self.log("choose_algorithm", &i.collective, input, |m| m.choose_algorithm(i), |choice| json!(choice))
    }

    fn map_collective(&self, i: &CollectiveInput<'_>) -> CollectiveOutput {
        let input = json!({ "shards": i.shards, "bytes": i.bytes });
        let show =
            |out: &CollectiveOutput| json!({ "memory": out.memory, "access": out.access, "priority": out.priority });
        self.log("map_collective", &i.collective, input, |m| m.map_collective(i), show)
    }

    fn profile(&self, i: &ProfileInput<'_>) {
        let input = json!({
            "shard": i.shard,
            "processor": i.processor,
            "waited_ns": i.waited_ns,
            "ran_ns": i.ran_ns,
        });
        self.log("profile", &i.task, input, |m| m.profile(i), |()| Value::Null)
    }
}
