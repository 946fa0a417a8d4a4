//! What tests on processes and on MPI share: mappers that are replaced in all processes or in some.

use maniple::mapper::{DefaultMapper, Mapper, MapperSlot, MapperSpec, ProcessorId};
use maniple::prelude::*;
use maniple::runtime::MapperSwitch;
use std::sync::Arc;
use std::time::Duration;

const SHARDS: u32 = 6;
/// For a thread of the same process. The machine may be busy.
const SOON: Duration = Duration::from_secs(60);

/// The mapper of a name. Process 1, or the only one, has none of the name `elsewhere`.
fn made(name: &str, processes: u32) -> Result<Arc<dyn Mapper>, String> {
    match name {
        "panic" => panic!("on purpose"),
        "elsewhere" if Runtime::process_number() == 1 % processes => return Err(format!("no {name} here")),
        _ => {}
    }
    let stock = match name {
        "blocked" => "default",
        "cyclic" => "round-robin",
        _ => "first",
    };
    let spec = stock.parse::<MapperSpec>().map_err(|e| e.to_string())?;
    spec.load(&maniple::plugin::load).map_err(|e| e.to_string())
}

/// The processor of each shard under the mapper of a name.
fn placed(name: &str, processors: u32) -> Vec<ProcessorId> {
    let at = |shard| match name {
        "blocked" => shard * processors / SHARDS,
        "cyclic" => shard % processors,
        _ => 0,
    };
    (0..SHARDS).map(|shard| ProcessorId(at(shard))).collect()
}

/// Adopts mappers until shards are placed as the mapper of this name does it. Returns all placements before that.
fn until_adopted(runtime: &Runtime, name: &'static str) -> Vec<Vec<ProcessorId>> {
    let (before, _) = runtime
        .run(move |top| async move {
            let mut before = Vec::new();
            loop {
                let gang = top.gang("shards", SHARDS)?;
                let placement = top.placement(&gang)?;
                if placement == placed(name, top.processors()) {
                    return Ok(before);
                }
                before.push(placement);
                let task = top.register("nothing", |_: Shard, ()| async { Ok(()) });
                top.launch(&gang, &task, |_| ShardLaunch::new(()))?.all().await?;
                top.adopt_mapper().await?;
            }
        })
        .expect("runs");
    before
}

/// Where shards are at the start of a run, and after it has adopted the newest mapper that all have.
fn placements(runtime: &Runtime) -> (Vec<ProcessorId>, Vec<ProcessorId>) {
    let places = |top: Top| async move {
        let placement = |name| top.placement(&top.gang(name, SHARDS)?);
        let first = placement("first")?;
        top.adopt_mapper().await?;
        Ok((first, placement("second")?))
    };
    runtime.run(places).expect("runs").0
}

/// For a runtime of at least two processors. What one process wants, all get, or none; and whatever each of them has at some
/// moment, they decide alike.
pub fn mappers_are_replaced_in_all_processes(runtime: Runtime) {
    let meeting = runtime.meet().expect("several processes");
    let (processes, me) = (meeting.hosts.len() as u32, Runtime::process_number());
    let processors = processes * meeting.workers;
    let slot = MapperSlot::from(Arc::new(DefaultMapper));
    let runtime = runtime.mapper(slot.clone());
    let switch = MapperSwitch::new(&runtime, &slot, move |name| made(name, processes)).expect("a switch");
    let mut before = "blocked";
    for asker in 0..processes {
        for name in ["cyclic", "first", "blocked"] {
            // Process 0 sees to one after another.
            let asked = ["elsewhere", "panic", name].map(|name| (asker == me).then(|| switch.replace(name)));
            let seen = until_adopted(&runtime, name);
            assert!(seen.iter().all(|placement| *placement == placed(before, processors)), "{seen:?}");
            let [elsewhere, panic, done] = asked.map(|asked| asked.map(|asked| asked.recv_timeout(SOON)));
            if asker == me {
                let texts = [elsewhere, panic].map(|told| told.expect("asked").expect("told").expect_err("refused"));
                let from = |process| match processes {
                    1 => String::new(),
                    _ => format!("process {process}, on {}: ", meeting.hosts[process as usize]),
                };
                let refused = format!("{}no elsewhere here", from(1));
                let panicked = format!("{}the function that makes mappers panicked: on purpose", from(0));
                assert_eq!(texts.map(|e| e.to_string()), [refused, panicked]);
                assert_eq!(done, Some(Ok(Ok(()))));
            }
            before = name;
        }
    }
    // All of them, and none that was refused.
    assert_eq!(slot.number(), 3 * u64::from(processes));
    let long = switch.replace(&"x".repeat(4000)).recv_timeout(SOON).expect("told");
    assert!(processes == 1 && slot.number() == 3 || long.is_err(), "{long:?}");
    switch.close();
    assert!(switch.replace("first").recv_timeout(SOON).is_err());

    // Without a switch: in the first process only, and later in the others.
    let (blocked, cyclic) = (placed("blocked", processors), placed("cyclic", processors));
    let replace = |here: bool| {
        if here {
            slot.replace(made("cyclic", processes).expect("a stock mapper"));
        }
    };
    replace(me == 0);
    let expected = if processes == 1 { cyclic.clone() } else { blocked };
    assert_eq!(placements(&runtime), (expected.clone(), expected));
    replace(me > 0);
    assert_eq!(placements(&runtime), (cyclic.clone(), cyclic));
}
