//! Every decision of a mapper is checked here before it is used.

use crate::{
    Access, ExchangeInput, ExchangeOutput, LeafInput, LeafOutput, MAX_REQUIREMENTS, PlaceShardsInput, PlaceSharedInput,
    Placement, Priority,
};
use maniple_regions::{Coherence, Privilege};
use serde::{Deserialize, Serialize};

/// An illegal decision: which mapper call, for what, what it answered and what it may answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "mapper `{}`, call {} for `{}`: illegal {} {}; legal: {}",
    .0.mapper, .0.call, .0.subject, .0.what, .0.value, .0.legal
)]
pub struct MapperError(pub Box<IllegalDecision>);

/// The parts of a [`MapperError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IllegalDecision {
    /// Name of the mapper.
    pub mapper: String,
    /// The trait method.
    pub call: String,
    /// The task, gang, region or collective decided about.
    pub subject: String,
    /// The part of the decision.
    pub what: String,
    /// What the mapper answered.
    pub value: String,
    /// What it may answer.
    pub legal: String,
}

#[cold]
fn error(mapper: &str, call: &str, subject: &str, what: &str, value: String, legal: String) -> MapperError {
    let (mapper, call, subject, what) = (mapper.into(), call.into(), subject.into(), what.into());
    MapperError(Box::new(IllegalDecision { mapper, call, subject, what, value, legal }))
}

/// Turns a placement into the processor of each shard.
///
/// # Errors
/// When a list has the wrong length or names a processor that is not there.
pub fn placement(mapper: &str, input: &PlaceShardsInput<'_>, out: Placement) -> Result<Vec<u32>, MapperError> {
    let (shards, processors) = (input.shards, input.machine.processors());
    let fail =
        |what: &str, value: String, legal: String| Err(error(mapper, "place_shards", input.gang, what, value, legal));
    match out {
        Placement::Blocked => {
            Ok((0..shards).map(|s| (u64::from(s) * u64::from(processors) / u64::from(shards)) as u32).collect())
        }
        Placement::Cyclic => Ok((0..shards).map(|s| s % processors).collect()),
        Placement::Explicit(list) if list.len() != shards as usize => {
            fail("number of shards placed", list.len().to_string(), shards.to_string())
        }
        Placement::Explicit(list) => match list.iter().position(|&p| p >= processors) {
            Some(s) => fail(&format!("processor of shard {s}"), list[s].to_string(), format!("0..{processors}")),
            None => Ok(list),
        },
    }
}

/// Checks the home of a shared instance.
///
/// # Errors
/// When the processor is not there.
pub fn shared(mapper: &str, input: &PlaceSharedInput<'_>, home: u32) -> Result<u32, MapperError> {
    let processors = input.machine.processors();
    if home < processors {
        return Ok(home);
    }
    let subject = format!("{:?}", input.region);
    Err(error(mapper, "place_shared", &subject, "processor", home.to_string(), format!("0..{processors}")))
}

#[inline]
fn priority(mapper: &str, call: &str, subject: &str, p: Priority) -> Result<(), MapperError> {
    if p.0 < Priority::LEVELS {
        return Ok(());
    }
    Err(error(mapper, call, subject, "priority", p.0.to_string(), format!("0..{}", Priority::LEVELS)))
}

/// Checks where and how a leaf task runs.
///
/// # Errors
/// When the processor is on another node, the priority out of range, or a region copied that may not be.
#[inline]
pub fn leaf(mapper: &str, input: &LeafInput<'_>, out: LeafOutput) -> Result<LeafOutput, MapperError> {
    let node = || input.machine.processors_of(input.machine.node_of(input.processor));
    if out.processor != input.processor && !node().contains(&out.processor) {
        let node = node();
        let (value, legal) = (out.processor.to_string(), format!("{node:?}, the node of shard {}", input.shard));
        return Err(error(mapper, "map_leaf", input.task, "processor", value, legal));
    }
    priority(mapper, "map_leaf", input.task, out.priority)?;
    if input.requirements.len() > MAX_REQUIREMENTS {
        let (value, legal) = (input.requirements.len().to_string(), format!("at most {MAX_REQUIREMENTS}"));
        return Err(error(mapper, "map_leaf", input.task, "number of region requirements", value, legal));
    }
    for (i, (access, r)) in out.access.iter().zip(input.requirements).enumerate() {
        let copyable = r.privilege == Privilege::Read && r.coherence == Coherence::Simultaneous;
        if *access == Access::Copy && !copyable {
            let what = format!("access of requirement {i} ({:?}, {:?})", r.privilege, r.coherence);
            let legal = "InPlace (only simultaneous reads may be copied)".into();
            return Err(error(mapper, "map_leaf", input.task, &what, "Copy".into(), legal));
        }
    }
    Ok(out)
}

/// Checks how a collective is mapped.
///
/// # Errors
/// When the priority is out of range.
pub fn exchange(mapper: &str, input: &ExchangeInput<'_>, out: ExchangeOutput) -> Result<ExchangeOutput, MapperError> {
    priority(mapper, "map_exchange", input.collective, out.priority)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    #[test]
    fn blocked_is_monotone_and_balanced() {
        for (p, w) in [(1, 1), (7, 2), (4096, 2), (5, 7), (16, 3)] {
            let machine = Machine::new(w, w);
            let input = PlaceShardsInput { gang: "g", shards: p, machine: &machine };
            let at = placement("m", &input, Placement::Blocked).unwrap();
            let count = |x| at.iter().filter(|&&y| y == x).count() as u32;
            assert!(at.is_sorted());
            assert!((0..w).all(|x| count(x) == p / w || count(x) == p / w + 1), "{p} {w} {at:?}");
        }
    }

    #[test]
    fn illegal_decisions_name_call_value_and_legal_values() {
        let machine = Machine::new(4, 2);
        let input = PlaceShardsInput { gang: "g", shards: 3, machine: &machine };
        let e = placement("mine", &input, Placement::Explicit(vec![0, 9, 1])).unwrap_err();
        assert_eq!(
            e.to_string(),
            "mapper `mine`, call place_shards for `g`: illegal processor of shard 1 9; legal: 0..4"
        );
        assert!(placement("mine", &input, Placement::Explicit(vec![0])).unwrap_err().to_string().contains("legal: 3"));
        let input = LeafInput { task: "t", shard: 5, processor: 1, requirements: &[], machine: &machine };
        let far = LeafOutput { processor: 2, ..LeafOutput::local(&input) };
        assert!(leaf("mine", &input, far).unwrap_err().to_string().contains("illegal processor 2; legal: 0..2"));
        let high = LeafOutput { priority: Priority(8), ..LeafOutput::local(&input) };
        assert!(leaf("mine", &input, high).unwrap_err().to_string().contains("illegal priority 8; legal: 0..8"));
        assert!(leaf("mine", &input, LeafOutput::local(&input)).is_ok());
    }
}
