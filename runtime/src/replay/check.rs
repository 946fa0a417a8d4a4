//! What is refused when a replayed object is made.

use super::chains::{CellTable, Task};
use super::{ReplaySpec, Subtask};
use crate::Error;
use crate::ids::{EMPTY, ProcessorId};
use crate::object::GangTable;

/// The places of all cells, and the cells of each shard, unless there are too many.
pub(crate) fn cells(spec: &dyn ReplaySpec, gang: &GangTable) -> Result<(CellTable, Vec<u32>), Error> {
    let cells: Vec<u32> = (0..gang.shards()).map(|shard| spec.cells(shard)).collect();
    let (mut own, mut first) = (vec![0u64; gang.members.len()], Vec::with_capacity(cells.len()));
    for (&count, (at, _)) in cells.iter().zip(&gang.at) {
        let before = &mut own[at.index()];
        first.push(*before as u32);
        *before += u64::from(count);
    }
    if gang.members.len() > Task::PROCESSORS {
        let expected = format!("at most {} processors", Task::PROCESSORS);
        return Err(Error::misuse(format!("`{}`", spec.name()), expected, gang.members.len()));
    }
    let per_set = own.into_iter().max().unwrap_or(0);
    let chains = gang.members.iter().map(Vec::len).max().unwrap_or(0);
    // The highest bit of a cell's number marks its half.
    let sets = if spec.gives_back() { 1 } else { 2 };
    if sets * u64::from(spec.slots().max(1)) * per_set.max(chains as u64) >= EMPTY.into() {
        let expected = "fewer slots: the chains and cells of a processor are numbered below 2^31";
        return Err(Error::misuse(format!("`{}`", spec.name()), expected, spec.slots()));
    }
    Ok((CellTable { first, per_set: per_set as u32 }, cells))
}

/// Refuses chains of a processor that can't run: with missing peers or subtasks, unknown ways to combine, wrong groups. `cells` has the cells of each shard of the gang.
pub(crate) fn chains(
    spec: &dyn ReplaySpec,
    (gang, cells): (&GangTable, &[u32]),
    (processor, subtasks): (ProcessorId, &[Vec<Subtask>]),
) -> Result<(), Error> {
    let (shards, members) = (gang.shards(), &gang.members[processor.index()]);
    if subtasks.len() != members.len() {
        let expected = format!("chains of {} shards", members.len());
        return Err(Error::misuse(format!("`{}`", spec.name()), expected, subtasks.len()));
    }
    for (&shard, subtasks) in members.iter().zip(subtasks) {
        let (mut updates, mut reads) = (0, 0);
        let wrong = |expected: String, came: String| {
            Err(Error::misuse(format!("the chain of shard {shard} of `{}`", spec.name()), expected, came))
        };
        let wrong_way =
            |subtask: &Subtask| wrong(format!("ways to combine in 0..{}", Task::WAYS), format!("{subtask:?}"));
        let all = subtasks.iter().filter(|s| matches!(s, Subtask::Update { .. })).count();
        for subtask in subtasks {
            let (peer, at, ways) = match *subtask {
                Subtask::Update { peer, at, .. } => {
                    updates += 1;
                    (peer, at, 0)
                }
                Subtask::Read { peer, at, how, .. } => {
                    reads += 1;
                    (peer, at, how)
                }
                // It names no cell.
                Subtask::Local { how, .. } if how < Task::WAYS => continue,
                Subtask::Local { .. } => return wrong_way(subtask),
                Subtask::Await { update } if usize::from(update) >= all => {
                    return wrong(format!("one of its {all} updates"), format!("{subtask:?}"));
                }
                Subtask::Await { .. } => continue,
            };
            if peer >= shards {
                return wrong(format!("peers in 0..{shards}"), format!("{subtask:?}"));
            }
            let cells = cells[peer as usize];
            if u32::from(at) >= cells {
                return wrong(format!("updates and reads of the peer in 0..{cells}"), format!("{subtask:?}"));
            }
            if ways >= Task::WAYS {
                return wrong_way(subtask);
            }
        }
        if subtasks.len() > usize::from(u16::MAX) {
            return wrong(format!("at most {} subtasks", u16::MAX), subtasks.len().to_string());
        }
        let cells = cells[shard as usize];
        if updates.max(reads) > cells {
            return wrong(format!("at most {cells} updates or reads"), format!("{updates} and {reads}"));
        }
        let group = spec.group(shard);
        if !group.contains(&shard) || group.end > shards {
            return wrong(format!("a group in 0..{shards} that contains it"), format!("{group:?}"));
        }
        let together = |s: u32| gang.at[s as usize].0 == gang.at[shard as usize].0 && spec.group(s) == group;
        // The first shard of a group is compared with all others, each other one with the first.
        let mut others = if shard == group.start { group.clone() } else { group.start..group.start + 1 };
        if let Some(other) = others.find(|&s| !together(s)) {
            let expected = format!("shards on one processor that name the same group, {group:?}");
            return wrong(expected, format!("shard {other} with {:?}", spec.group(other)));
        }
        if shard > group.start && !subtasks.is_empty() {
            let expected = format!("no subtasks, as it follows shard {}", group.start);
            return wrong(expected, subtasks.len().to_string());
        }
    }
    Ok(())
}
