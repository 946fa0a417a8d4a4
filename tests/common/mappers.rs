//! What tests on processes and on MPI share: a mapper that the top-level task replaces in all its copies, and copies that
//! do not do the same.

use maniple::mapper::{DefaultMapper, Mapper, MapperSlot, PlaceShardsInput, Placement, ProcessorId, stock};
use maniple::prelude::*;
use maniple::runtime::FutureMap;
use std::sync::Arc;

const SHARDS: u32 = 6;

/// The processor of each shard under a stock mapper.
fn placed(name: &str, processors: u32) -> Vec<ProcessorId> {
    let at = |shard| match name {
        "default" => shard * processors / SHARDS,
        "round-robin" => shard % processors,
        _ => 0,
    };
    (0..SHARDS).map(|shard| ProcessorId(at(shard))).collect()
}

/// Replaces the mapper by a stock mapper. Returns where shards are from then on.
fn placed_by(top: &Top, name: &str) -> Result<Vec<ProcessorId>, Error> {
    top.replace_mapper(stock(name).map_err(Error::user)?);
    placement(top)
}

fn placement(top: &Top) -> Result<Vec<ProcessorId>, Error> {
    top.placement(&top.gang("shards", SHARDS)?)
}

fn idle(top: &Top) -> Result<FutureMap<()>, Error> {
    let task = top.register("idle", |_: Shard, ()| async { Ok(()) });
    top.launch_gang(&top.gang("shards", SHARDS)?, &task, |_| ShardLaunch::new(()))
}

/// Puts all shards on one processor.
struct On(ProcessorId);

impl Mapper for On {
    fn name(&self) -> &str {
        "on"
    }
    fn place_shards(&self, input: &PlaceShardsInput<'_>) -> Placement {
        Placement::Explicit(vec![self.0; input.shards as usize])
    }
}

pub fn mappers_are_replaced_in_all_processes(runtime: Runtime) {
    let meeting = runtime.meet().expect("several processes");
    let (processes, me) = (meeting.hosts.len() as u32, Runtime::process_number());
    let (processors, is_last) = (processes * meeting.workers, me + 1 == processes);
    let slot = MapperSlot::from(Arc::new(DefaultMapper));
    let slotted = runtime.clone().mapper(slot.clone());
    let replaced = move |top: Top| async move {
        assert_eq!(placement(&top)?, placed("default", processors));
        for name in ["round-robin", "first", "default", "first"] {
            assert_eq!(placed_by(&top, name)?, placed(name, processors), "{name}");
            // No copy waits for the others before the next one.
            idle(&top)?.detach();
        }
        // What one shard wants, all copies are told.
        let wants = top.register("wants", |shard: Shard, ()| async move {
            Ok((shard.index() == SHARDS - 1).then(|| "round-robin".to_string()))
        });
        let gang = top.gang("wanting", SHARDS)?;
        let wanted = top.launch_gang(&gang, &wants, |_| ShardLaunch::new(()))?.all().await?;
        let wanted = wanted.into_iter().flatten().next().expect("the last one wants another");
        assert_eq!(placed_by(&top, &wanted)?, placed("round-robin", processors));
        Ok(())
    };
    slotted.run(replaced).expect("all copies do the same");
    assert_eq!((&*slot.current().name, slot.current().number), ("round-robin", 5));

    // A slot that one process changes during the run, or between runs.
    let own = slot.clone();
    let alone = move |top: Top| {
        let own = own.clone();
        async move {
            if is_last {
                own.replace(Arc::new(DefaultMapper));
            }
            placement(&top)
        }
    };
    let (here, _) = slotted.run(alone).expect("runs");
    assert_eq!(here, placed(if processes == 1 { "default" } else { "round-robin" }, processors));
    let refused = |what: &str, expected: &str, came: &str| {
        let outcome = slotted.run(|top| async move { placement(&top) });
        let came = format!("{came} in process {}", processes - 1);
        let text =
            format!("{what} (must be the same in all processes): expected {expected}, as in process 0, got {came}");
        match outcome {
            Ok(_) => assert_eq!(processes, 1),
            Err(e) => assert!(processes > 1 && e.to_string().contains(&text), "{e}"),
        }
    };
    refused("mapper", "`round-robin`", "`default`");
    if is_last {
        slot.replace(stock("round-robin").expect("a stock mapper"));
    }
    refused("replacements of the mapper", "5", "7");

    // The last copy leaves the call out, or has another mapper, of another name or of the same.
    type Replaces = fn(&Top, bool);
    let none: Replaces = |top, is_last| {
        if !is_last {
            top.replace_mapper(Arc::new(DefaultMapper));
        }
    };
    let another: Replaces = |top, is_last| match is_last {
        false => top.replace_mapper(Arc::new(DefaultMapper)),
        true => top.replace_mapper(Arc::new(On(ProcessorId(0)))),
    };
    let another_alike: Replaces = |top, is_last| {
        let last = top.processors() - 1;
        top.replace_mapper(Arc::new(On(ProcessorId(if is_last { 0 } else { last }))));
    };
    let words: [(Replaces, &str, &str); 3] = [
        (none, "replacement of the mapper by `default`", "task `idle`"),
        (another, "replacement of the mapper by `default`", "replacement of the mapper by `on`"),
        (another_alike, "gang `shards`", "gang `shards`"),
    ];
    for (replaces, expected, came) in words {
        // A slot of its own, which is not the same in all processes afterwards.
        let runtime = runtime.clone().mapper(Arc::new(DefaultMapper)).check(Check::ControlReplication);
        let outcome = runtime.run(move |top| {
            replaces(&top, is_last);
            async move { idle(&top)?.all().await }
        });
        let Err(error) = outcome else {
            assert_eq!(processes, 1);
            continue;
        };
        let text = error.to_string();
        assert!(processes > 1 && matches!(error, Error::Divergence { .. }), "{text}");
        assert!(text.contains(expected) && text.contains(came), "{text}");
    }
}
