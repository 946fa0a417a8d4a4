//! Runs a program on the framework: the driver, the mapper, and the data that the shards of a run share.

use crate::judge::{Judge, Mistake, Right, Seen, Wrong};
use crate::oracle::interpret;
use crate::program::{Chosen, On, Program};
use crate::top::{Shared, top_level};
use crate::wild::Wild;
use maniple::prelude::*;
use maniple::runtime::{Check, Costs, Link, TaskCost, VirtualMachine};
use maniple_mapper::{LoggingMapper, Mapper, MapperSlot, NumaMapper, Topology, stock};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// The number of steps after which a run counts as endless.
const MOST_STEPS: u64 = 300_000;

pub fn mapper(chosen: Chosen) -> Arc<dyn Mapper> {
    let spec = match chosen {
        Chosen::Wild(seed) => return Arc::new(Wild::new(seed)),
        Chosen::Default => "default".to_string(),
        Chosen::Collective => "collective".to_string(),
        Chosen::RoundRobin => "round-robin".to_string(),
        Chosen::First => "first".to_string(),
        Chosen::Random(seed) => format!("random,seed={seed}"),
        Chosen::Logged(seed) => return Arc::new(LoggingMapper::new(mapper(Chosen::Random(seed)), std::io::sink())),
        Chosen::Numa => return Arc::new(NumaMapper::on(Topology::made_up(2, 2))),
    };
    stock(&spec).unwrap_or_else(|e| panic!("a stock mapper: {e}"))
}

/// A machine like this one, or one drawn from the seed.
fn machine(like: Option<&VirtualMachine>, nodes: u32, per_node: u32, seed: u64) -> VirtualMachine {
    if let Some(machine) = like {
        // A program made smaller may have fewer processors; half of the programs see noise.
        let utility = machine.utility.min(per_node - 1);
        return VirtualMachine {
            per_node,
            utility,
            utility_shares: machine.utility_shares && utility > 0,
            noise: [0.0, 0.5][(seed % 2) as usize],
            seed,
            nodes,
            ..machine.clone()
        };
    }
    let mut r = fastrand::Rng::with_seed(seed);
    // On some machines nothing takes any time, so that much happens at once.
    let most = [0, 1000, 1000][r.usize(0..3)];
    let mut cost = || r.u32(0..=most) as f64;
    let costs = Costs::<f64>::default().map(|_, _| cost());
    let mut link = || Link { byte_ns: 0.5, ..Link::<f64>::default().map(|_, _| cost()) };
    let (network, memory) = (link(), link());
    let other_tasks = TaskCost { task_ns: cost(), byte_ns: 0.5 };
    let utility = r.u32(0..per_node);
    VirtualMachine {
        nodes,
        per_node,
        network,
        memory,
        costs,
        utility,
        one_copy: r.bool(),
        other_tasks,
        noise: [0.0, 0.5][r.usize(0..2)],
        utility_shares: utility > 0 && r.bool(),
        rendezvous_bytes: r.bool().then(|| r.u64(0..200)),
        seed,
        ..VirtualMachine::default()
    }
}

/// Runs a program and judges the run. In virtual time, the nodes are like the nodes of `machine`, or drawn from the
/// seed. `set` makes the last changes to the runtime. On several processes all run the same programs in the same order,
/// and come to the same judgement.
///
/// # Errors
/// The first mistake found. A panic of the driver is one too.
pub fn run(
    program: &Program,
    machine: Option<&VirtualMachine>,
    set: &dyn Fn(Runtime) -> Runtime,
) -> Result<Right, Wrong> {
    catch_unwind(AssertUnwindSafe(|| attempt(program, machine, set)))
        .unwrap_or_else(|panic| Err(Wrong { kind: Mistake::Crash, what: panic_text(&*panic) }))
}

fn attempt(program: &Program, like: Option<&VirtualMachine>, set: &dyn Fn(Runtime) -> Runtime) -> Result<Right, Wrong> {
    let expected = interpret(program);
    let probe = Arc::new(());
    let wild = if let Chosen::Wild(seed) = program.mapper { Some(Arc::new(Wild::new(seed))) } else { None };
    let first = wild.clone().map_or_else(|| mapper(program.mapper), |wild| wild as Arc<dyn Mapper>);
    let slot = MapperSlot::from(first.clone());
    let runtime = match program.on {
        On::Seeded { processors, seed } => Runtime::seeded(processors, seed).faults(program.faults.clone()),
        On::Virtual { nodes, per_node, seed } => Runtime::virtual_time(machine(like, nodes, per_node, seed)),
        On::Threads { workers } => Runtime::threads(workers),
        On::Processes { processes, workers } => {
            Runtime::processes(processes).workers(workers).faults(program.faults.clone())
        }
    };
    let shared = Arc::new(Shared {
        program: program.clone(),
        slot: slot.clone(),
        probe: probe.clone(),
        seen: Mutex::new(Seen {
            records: expected.seen.iter().map(|shards| vec![None; shards.len()]).collect(),
            ..Seen::default()
        }),
    });
    let mut runtime = runtime.mapper(slot.clone()).most_steps(MOST_STEPS).check(Check::ControlReplication);
    if program.checks_races {
        runtime = runtime.check(Check::Races);
    }
    let runtime = set(runtime);
    let top = shared.clone();
    let outcome = match program.rows {
        1 => runtime.run(move |t| top_level::<1>(t, top.clone())),
        _ => runtime.run(move |t| top_level::<2>(t, top.clone())),
    };
    drop(runtime);
    let mut seen = std::mem::take(&mut *shared.seen());
    drop((shared, slot));
    // One handle of the mapper is for the judge.
    let handles = 1 + usize::from(wild.is_some());
    seen.left = (Arc::strong_count(&probe) - 1, Arc::strong_count(&first) - handles);
    if let On::Processes { processes, .. } = program.on {
        seen.outcomes.push(outcome.as_ref().map_or_else(Error::to_string, |_| "a result".into()));
        seen.struck = wild.as_ref().map_or_else(Vec::new, |wild| wild.take_struck());
        seen = gather(processes, seen).map_err(|e| match &outcome {
            // The run has found it out.
            Err(lost @ Error::ProcessLost { .. }) => unable(lost),
            _ => unable(&e),
        })?;
        if let Some(other) = seen.outcomes.iter().find(|other| **other != seen.outcomes[0]) {
            let what = format!("for process 0 the run ended with {}, for another with {other}", seen.outcomes[0]);
            return Err(Wrong { kind: Mistake::Discord, what });
        }
        if let Some(wild) = &wild {
            wild.set_struck(std::mem::take(&mut seen.struck));
        }
    }
    Judge { program, expected: &expected, wild: wild.as_deref() }.outcome(outcome, &seen)
}

/// Why the processes can't tell each other what they have seen.
fn unable(e: &Error) -> Wrong {
    let kind = if matches!(e, Error::ProcessLost { .. }) { Mistake::Lost } else { Mistake::Cause };
    Wrong { kind, what: e.to_string() }
}

/// What the shards of all processes have seen: a run of its own, in which a shard of each process returns it.
fn gather(processes: u32, own: Seen) -> Result<Seen, Error> {
    let own = Arc::new(own);
    let (parts, _) = Runtime::processes(processes).workers(1).run(move |top| {
        let own = own.clone();
        async move {
            let gang = top.gang("processes", processes)?;
            let tell = move |_: Shard, ()| std::future::ready(Ok(Seen::clone(&own)));
            top.launch_gang(&gang, &top.register("tell", tell), |_| ShardLaunch::new(()))?.all().await
        }
    })?;
    Ok(parts.into_iter().fold(Seen::default(), Seen::with))
}

thread_local! {
    /// The message and the place of the last panic.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Silences the messages of all panics in the process from now on. [`run`] catches panics and reports their messages.
pub fn quiet() {
    std::panic::set_hook(Box::new(|info| LAST_PANIC.set(info.to_string())));
}

/// Plants a bug in a runtime. The seed decides when and how often it strikes.
#[cfg(feature = "plant")]
pub fn planted(bug: maniple_runtime::Bug, seed: u64, runtime: Runtime) -> Runtime {
    let mut random = fastrand::Rng::with_seed(seed);
    let most = [1, 4, 16, 64][random.usize(0..4)];
    let first = random.u64(0..most);
    runtime.plant(bug, first, [1, 3, u64::MAX][random.usize(0..3)])
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    format!("the run panicked: {} ({})", text.unwrap_or_default(), LAST_PANIC.take())
}
