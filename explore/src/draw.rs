//! Programs drawn from seeds.

use crate::area::AreaPart;
use crate::joint::{Given, Joint, MOST_SHARDS, OperatorKind, Sizes, Taken, Taking};
use crate::phases::{Phase, Progress};
use crate::program::{Act, Chosen, Failing, Loose, Number, On, Op, Program, Stage, Step};
use fastrand::Rng;
use maniple::collectives::Kind;
use maniple::runtime::Faults;

/// Draws the program of a seed. The same seed always gives the same program.
pub fn draw(seed: u64) -> Program {
    // Neighbouring seeds shall have little in common.
    let mut random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x006d_616e_6970_6c65);
    let r = &mut random;
    let on = match r.u32(0..8) {
        0 => On::Virtual { nodes: r.u32(1..4), per_node: r.u32(1..4), seed: r.u64(..) },
        _ => On::Seeded { processors: [1, 2, 2, 3, 3, 4, 5][r.usize(0..7)], seed: r.u64(..) },
    };
    let mapper = any_mapper(r, true);
    let cells = r.i64(8..25);
    let rows = [1, 1, 2, 3][r.usize(0..4)];
    // Most programs have no failures, because a failure hides everything after it.
    let bombs = r.u32(0..4) == 0;
    let most = if r.u32(0..4) == 0 { 3 } else { 2 };
    let mut next_bomb = 0;
    let mut stages: Vec<Stage> = Vec::new();
    let count = 1 + r.usize(0..most);
    for number in 0..count {
        let bombs = if bombs { Some(&mut next_bomb) } else { None };
        stages.push(stage(r, number, number + 1 == count, bombs));
    }
    let wild = stages.iter().flat_map(|s| &s.steps).any(|s| matches!(s, Step::Swap { mapper: Chosen::Wild(_), .. }));
    let faults = match on {
        On::Seeded { processors, .. } => Faults::drawn(r.u64(..), processors, r.u32(0..5) == 0),
        _ => Faults::default(),
    };
    let mut top_fails = match r.u32(0..16) {
        0 => Some((r.usize(0..stages.len()), failing(r))),
        _ => None,
    };
    let fails = bombs || wild || matches!(mapper, Chosen::Wild(_)) || !faults.losses.is_empty();
    if fails {
        // The values that a failed launch leaves in its regions are not defined.
        for (number, stage) in stages.iter_mut().enumerate() {
            stage.loads = true;
            stage.loose.clear();
            (stage.launches, stage.looks, stage.changes) = (1, false, false);
            // A shard that is told of a failure waits no longer, and arrives before the others.
            stage.phases.iter_mut().for_each(|p| p.window = 1 << 20);
            for step in stage.steps.iter_mut().filter(|_| number > 0) {
                if let Step::Leaf { op: op @ Op::Far(..), .. } = step {
                    *op = Op::Join(Number::Of(0), Number::Given(1));
                }
            }
        }
    }
    if bombs {
        // The launcher must see each failure.
        stages.iter_mut().filter(|s| s.by_parent).for_each(|s| s.awaited = true);
        stages.iter_mut().flat_map(|s| &mut s.joints).for_each(|joint| joint.tells = true);
        for step in stages.iter_mut().flat_map(|s| &mut s.steps) {
            if let Step::Index { all, .. } = step {
                *all = None;
            }
        }
    }
    let crashes = stages.iter().flat_map(|s| &s.steps).any(|step| matches!(step, Step::Crash { .. }));
    let contributions_panic = !crashes && !wild && !matches!(mapper, Chosen::Wild(_)) && faults.losses.is_empty();
    if !contributions_panic {
        // A collective that has failed takes no contribution, and then a task that makes one and panics ends its shard.
        for step in stages.iter_mut().flat_map(|s| &mut s.steps).filter(|step| step.joint().is_some()) {
            *step = step.plain();
        }
    }
    let unspoilt = (stages.clone(), top_fails);
    if !fails && r.u32(0..4) == 0 {
        spoil(r, &mut stages, &mut top_fails);
    }
    let checks_races = !fails && top_fails.is_none() && r.u32(0..8) == 0;
    if checks_races {
        // Tasks that name a whole region and write only their own points of it are a race to the check.
        stages.iter_mut().for_each(|s| s.steps.retain(|step| !matches!(step, Step::Board { .. })));
    }
    let mut drawn = Program { on, mapper, cells, rows, checks_races, stages, top_fails, faults };
    if drawn.is_uncertain() {
        (drawn.stages, drawn.top_fails) = unspoilt;
        drawn.checks_races = false;
    }
    let whole = drawn.clone();
    // After all else, so that without parts a seed gives the program that it gave.
    let next_bomb = if bombs && contributions_panic { Some(&mut next_bomb) } else { None };
    in_parts(r, &mut drawn, bombs, next_bomb);
    if drawn.is_uncertain() { whole } else { drawn }
}

/// Has shards call in parts, and contribute in blocks, of which some panic if there is a `next_bomb`. `bombs` says whether each
/// failure must be seen.
fn in_parts(r: &mut Rng, program: &mut Program, bombs: bool, mut next_bomb: Option<&mut u32>) {
    let forgets = program.steps().any(|step| matches!(step, Step::Forget { .. }));
    let taking = |r: &mut Rng| {
        use Taking::*;
        let drawn = [Whole, Whole, Tasks, Tasks, Each, All, Next, Dropped][r.usize(0..8)];
        if bombs && drawn == Dropped { Tasks } else { drawn }
    };
    for stage in program.stages.iter_mut().filter(|stage| stage.joints.iter().any(Joint::has_parts)) {
        for joint in &mut stage.joints {
            let any = Joint { sizes: Sizes::Any, ..joint.clone() };
            if any.has_parts() && r.u32(0..4) == 0 && any.algorithm.is_none_or(|a| any.takes(a, stage.shards)) {
                *joint = any;
            }
        }
        for step in &mut stage.steps {
            if !step.joint().is_some_and(|which| stage.joints[which].has_parts()) {
                continue;
            }
            let parts = r.u32(0..4) > 0;
            if let Step::Call { which, bomb: bomb @ None, .. } | Step::Contribute { which, bomb: bomb @ None, .. } =
                step
            {
                let contributors = &stage.joints[*which].contributors;
                *bomb = next_bomb.as_mut().filter(|_| parts && r.u32(0..6) == 0).map(|next| {
                    **next += 1;
                    (**next, contributors[r.usize(0..contributors.len())])
                });
            }
            let (given, taken) = step.parts_mut();
            if let Some(given) = given {
                let in_blocks = if parts { [0, r.u8(..), u8::MAX][r.usize(0..3)] } else { 0 };
                *given = Given { in_blocks, hit: r.u8(..), sizes: r.u8(..) };
            }
            if let Some(taken) = taken.filter(|_| parts) {
                // Often all do the same.
                let most = taking(r);
                let by = [(); MOST_SHARDS].map(|()| if r.bool() { most } else { taking(r) });
                *taken = Taken { by, limit: limit(r).filter(|_| !forgets) };
            }
        }
    }
}

fn failing(r: &mut Rng) -> Failing {
    if r.bool() { Failing::Panics } else { Failing::Returns }
}

fn any_mapper(r: &mut Rng, wild: bool) -> Chosen {
    match r.u32(0..14) {
        0 | 1 => Chosen::Default,
        2 | 3 => Chosen::Collective,
        4 | 5 => Chosen::RoundRobin,
        6 => Chosen::First,
        7 if wild => Chosen::Wild(r.u64(..)),
        8 => Chosen::Logged(r.u64(..)),
        9 => Chosen::Numa,
        _ => Chosen::Random(r.u64(..)),
    }
}

fn stage(r: &mut Rng, number: usize, last: bool, mut next_bomb: Option<&mut u32>) -> Stage {
    let shards = [1, 2, 2, 3, 3, 4, 4, 5, 6, 7][r.usize(0..10)];
    let joints: Vec<Joint> = (0..r.usize(0..4)).map(|_| joint(r, shards)).collect();
    let mut drawn = Stage {
        shards,
        tree: r.usize(0..2),
        by_parent: false,
        looks: r.bool(),
        changes: r.u32(0..3) == 0,
        launches: [1, 1, 1, 2, 3][r.usize(0..5)],
        awaited: r.bool(),
        adopts: r.u32(0..3) == 0,
        destroys: r.u32(0..3) == 0,
        loads: number == 0 || r.u32(0..4) == 0,
        to: consumers(r, shards),
        buffers: r.u64(1..4),
        width: r.i64(1..5),
        arity: r.usize(1..4),
        joints,
        planned: r.u32(0..4) == 0,
        phases: if r.u32(0..3) == 0 { (0..r.u32(1..4)).map(|_| phase(r, shards)).collect() } else { Vec::new() },
        daring: last && r.u32(0..4) == 0,
        loose: if r.u32(0..3) == 0 { loose(r) } else { Vec::new() },
        steps: Vec::new(),
    };
    drawn.by_parent = r.u32(0..if drawn.loose.is_empty() { 6 } else { 2 }) == 0 && !drawn.daring;
    let mut progress = Progress::of(&drawn);
    if !drawn.phases.is_empty() {
        // Their generations belong to the steps of one launch.
        drawn.launches = 1;
    }
    // Each stage has a few kinds of steps, and many steps of each kind.
    let kinds: Vec<u32> = (0..1 + r.usize(0..4)).map(|_| r.u32(0..9)).collect();
    let mut pending = vec![0; drawn.joints.len()];
    for _ in 0..r.usize(2..16) {
        let kind = if r.u32(0..4) == 0 { r.u32(0..14) } else { kinds[r.usize(0..kinds.len())] };
        let step = match kind {
            6 | 7 if !drawn.joints.is_empty() => Some(call(r, &drawn.joints, &mut pending, &mut next_bomb)),
            _ => step(r, kind, shards, &mut next_bomb),
        };
        drawn.steps.extend(step);
        if r.u32(0..30) == 0 {
            let shard = r.u32(0..shards);
            crowd(r, shard, &mut drawn.steps);
        }
        if !drawn.phases.is_empty() && r.bool() {
            (0..r.u32(1..4) * shards).for_each(|_| mark(r, &mut drawn, &mut progress, &mut next_bomb));
        }
    }
    for (which, pending) in pending.into_iter().enumerate() {
        // Results that only these shards could ask for must not be left over. Others may be.
        let asks = drawn.joints[which].has_listeners() || next_bomb.is_some() || r.bool();
        drawn.steps.extend((0..pending).filter(|_| asks).map(|_| Step::Receive { which, taken: Taken::default() }));
    }
    drawn
}

fn joint(r: &mut Rng, shards: u32) -> Joint {
    use Kind::*;
    let kinds =
        [Reduce, Reduce, Reduce, Barrier, Broadcast, Gather, Gather, Scatter, ReduceScatter, AllToAll, Scan, Exscan];
    let kind = kinds[r.usize(0..kinds.len())];
    let some = |r: &mut Rng| {
        let mut all: Vec<u32> = (0..shards).collect();
        if r.bool() {
            return all;
        }
        r.shuffle(&mut all);
        all.truncate(1 + r.usize(0..all.len()));
        all.sort_unstable();
        all
    };
    let contributors = if matches!(kind, Broadcast | Scatter) { vec![r.u32(0..shards)] } else { some(r) };
    let receivers = match kind {
        Reduce | Barrier | Gather | ReduceScatter | AllToAll | Scan | Exscan if r.bool() => contributors.clone(),
        _ => some(r),
    };
    let elements = |r: &mut Rng| [0, 1, 2, 5, 5, 600][r.usize(0..6)];
    let mut drawn = Joint {
        kind,
        contributors,
        receivers,
        operator: {
            use OperatorKind::*;
            [Sum, Max, Composition, Composition, Associative, Digits][r.usize(0..6)]
        },
        left: r.u32(0..4) == 0,
        sizes: match r.u32(0..3) {
            0 => Sizes::One,
            1 => Sizes::Blocks((0..shards).map(|_| elements(r)).collect()),
            _ => Sizes::Each(elements(r)),
        },
        slots: r.u32(1..4),
        algorithm: None,
        tells: r.bool(),
    };
    drawn.mend(shards);
    let algorithms = drawn.algorithms(shards);
    drawn.algorithm = r.choice(algorithms).filter(|_| r.bool());
    drawn
}

/// A step of one of the collectives. `pending` are the contributions whose results nobody has asked for.
fn call(r: &mut Rng, joints: &[Joint], pending: &mut [usize], next_bomb: &mut Option<&mut u32>) -> Step {
    let which = r.usize(0..joints.len());
    let bomb = next_bomb.as_mut().filter(|_| r.u32(0..12) == 0).map(|next| {
        **next += 1;
        let contributors = &joints[which].contributors;
        (**next, contributors[r.usize(0..contributors.len())])
    });
    let (given, taken) = (Given::default(), Taken::default());
    let drawn = match r.u32(0..4) {
        0 => Step::Contribute { which, number: number(r), bomb, given },
        1 => Step::Receive { which, taken },
        _ => Step::Call { which, number: number(r), bomb, given, taken },
    };
    let (step, after) = match joints[which].pending_after(&drawn, pending[which]) {
        Some(after) => (drawn, after),
        None if pending[which] > 0 => (Step::Receive { which, taken }, pending[which] - 1),
        None => (Step::Call { which, number: number(r), bomb, given, taken }, 0),
    };
    pending[which] = after;
    step
}

/// The consumer of each shard's slot. Mostly they form a ring.
fn consumers(r: &mut Rng, shards: u32) -> Vec<u32> {
    let distance = r.u32(0..shards);
    if r.u32(0..3) == 0 {
        return (0..shards).map(|_| r.u32(0..shards)).collect();
    }
    (0..shards).map(|s| (s + distance) % shards).collect()
}

fn phase(r: &mut Rng, shards: u32) -> Phase {
    let some = |r: &mut Rng| {
        let mut all: Vec<u32> = (0..shards).collect();
        r.shuffle(&mut all);
        all.truncate(1 + r.usize(0..all.len()));
        all
    };
    Phase {
        arrivers: some(r),
        waiters: some(r),
        window: [0, 1, 2, 3, 64][r.usize(0..5)],
        arity: r.usize(1..5),
        fold: [None, Some(0), Some(1), Some(2)][r.usize(0..4)],
    }
}

/// Draws an arrival or a wait, and adds it if it can be made now.
fn mark(r: &mut Rng, stage: &mut Stage, progress: &mut [Progress], next_bomb: &mut Option<&mut u32>) {
    let (phase, own) = (r.usize(0..stage.phases.len()), r.bool());
    let one = |r: &mut Rng, all: &[u32]| all[r.usize(0..all.len())];
    let Phase { arrivers, waiters, .. } = &stage.phases[phase];
    let step = if r.bool() {
        let bomb = next_bomb.as_mut().filter(|_| !own && r.u32(0..12) == 0).map(|next| {
            **next += 1;
            **next
        });
        Step::Arrive { shard: one(r, arrivers), phase, number: number(r), own, bomb }
    } else {
        Step::Wait { shard: one(r, waiters), phase, own, limit: limit(r) }
    };
    if progress[phase].take(&stage.phases[phase], &step) {
        stage.steps.push(step);
    }
}

/// If the last stage has phases, makes its shards wait for ever, or one of them arrive too often.
fn spoil(r: &mut Rng, stages: &mut [Stage], top_fails: &mut Option<(usize, Failing)>) {
    let Some(stage) = stages.last_mut() else { return };
    let arrivals = stage.steps.iter_mut().filter(|step| matches!(step, Step::Arrive { .. }));
    let mut arrivals: Vec<&mut Step> = arrivals.collect();
    if arrivals.is_empty() {
        return;
    }
    let at = r.usize(0..arrivals.len());
    let Step::Arrive { shard, phase, .. } = *arrivals[at] else { return };
    if r.u32(0..3) > 0 && !stage.daring {
        *arrivals[at] = Step::Forget { shard, phase };
        // How far the parts of other shards get depends on the algorithm.
        stage.joints.iter_mut().for_each(|joint| joint.tells = false);
        // No wait has a limit.
        for step in &mut stage.steps {
            match step {
                Step::Await { limit, .. }
                | Step::Sum { limit }
                | Step::Index { all: limit, .. }
                | Step::Exchange { limit, .. }
                | Step::Barrier { limit, .. }
                | Step::Wait { limit, .. } => *limit = None,
                _ => {}
            }
        }
    } else if stage.phases[phase].arrivers.len() > 1 {
        stage.steps.push(Step::Overrun { shard, phase });
    } else {
        return;
    }
    stage.by_parent = false;
    *top_fails = None;
}

/// Many readers of one part, and then a writer.
fn crowd(r: &mut Rng, shard: u32, steps: &mut Vec<Step>) {
    let (field, part) = (r.usize(0..3), part(r));
    let mut leaf = |op| steps.push(Step::Leaf { shard, op, priority: None, bomb: None, detached: false });
    (0..r.u32(4..14)).for_each(|_| leaf(Op::Digest(field, part)));
    leaf(Op::Update(field, part, number(r)));
}

/// Launches on a few parts of one field, mostly of one tree, by a few gangs.
fn loose(r: &mut Rng) -> Vec<Loose> {
    let (far, field, is_flow) = (r.bool(), r.usize(0..3), r.bool());
    let one = |r: &mut Rng| Loose {
        gang: r.u8(0..3),
        shards: [1, 1, 2, 3][r.usize(0..if is_flow { 3 } else { 4 })],
        far: far != (r.u32(0..8) == 0),
        field,
        part: r.u8(0..if is_flow { 3 } else { 5 }),
        act: [Act::Digest, Act::Digest, Act::Set, Act::Update, Act::Fold(r.u8(0..3))][r.usize(0..5)],
        number: r.i64(-99..100),
        yields: [0, 0, 1, 5, 20][r.usize(0..5)],
        flow: is_flow != (r.u32(0..8) == 0),
        node: if r.bool() { Some(r.u8(..)) } else { None },
    };
    (0..r.u32(if is_flow { 6..25 } else { 3..11 })).map(|_| one(r)).collect()
}

fn step(r: &mut Rng, kind: u32, shards: u32, next_bomb: &mut Option<&mut u32>) -> Option<Step> {
    let shard = r.u32(0..shards);
    let mut bomb = |r: &mut Rng, rare: u32| {
        let next = next_bomb.as_mut().filter(|_| r.u32(0..rare) == 0)?;
        **next += 1;
        Some(**next)
    };
    Some(match kind {
        0..=2 => {
            let priority = [None, None, None, Some(0), Some(4), Some(7)][r.usize(0..6)];
            Step::Leaf { shard, op: op(r), priority, bomb: bomb(r, 10), detached: r.u32(0..8) == 0 }
        }
        3 => {
            let bomb = bomb(r, 8).map(|b| (b, r.u8(..)));
            let (field, looks) = (r.usize(0..3), r.u32(0..3) == 0);
            Step::Index { shard, field, points: r.u8(..), looks, number: number(r), bomb, all: limit(r) }
        }
        4 => {
            let bomb = bomb(r, 12).map(|b| (b, shard));
            Step::Exchange { number: number(r), waits: r.u32(0..3) == 0, limit: limit(r), bomb }
        }
        5 if r.bool() => Step::Sum { limit: limit(r) },
        5 => {
            let bomb = bomb(r, 12).map(|b| (b, shard));
            Step::Barrier { number: number(r), waits: r.bool(), limit: limit(r), bomb }
        }
        8 => {
            let bomb = bomb(r, 12).map(|b| (b, shard));
            Step::Board { number: number(r), bomb }
        }
        9 => Step::Await { shard, value: r.usize(0..100), limit: limit(r) },
        10 => Step::Yield { shard },
        11 => Step::Swap { shard, mapper: any_mapper(r, false) },
        12 => Step::Crash { shard, bomb: bomb(r, 3)?, how: failing(r) },
        13 => Step::InVain { shard, limit: [0, 1, 1000, 10_000, 100_000][r.usize(0..5)] },
        _ => Step::Await { shard, value: r.usize(0..100), limit: None },
    })
}

fn op(r: &mut Rng) -> Op {
    let field = r.usize(0..3);
    match r.u32(0..12) {
        0 => Op::Digest(field, part(r)),
        1 => Op::Set(field, part(r), number(r)),
        2 | 3 => Op::Update(field, part(r), number(r)),
        4 => Op::Fold(field, part(r), r.u8(0..3), number(r)),
        5 => Op::Mix(field, part(r), part(r)),
        6 => Op::Far(field, part(r)),
        7 => Op::Atomic(field, part(r), number(r)),
        8 => Op::Fill(field, part(r), r.i64(-9..10)),
        9 => Op::Copy(field, part(r)),
        10 => Op::Three(field, r.bool(), part(r), number(r)),
        _ => Op::Join(number(r), number(r)),
    }
}

fn part(r: &mut Rng) -> AreaPart {
    AreaPart { from: [r.u8(..), r.u8(..)], size: [r.u8(..), r.u8(..)] }
}

fn number(r: &mut Rng) -> Number {
    if r.u32(0..3) == 0 { Number::Given(r.i64(-99..100)) } else { Number::Of(r.usize(0..100)) }
}

/// A limit in nanoseconds; a step of the seeded driver is a microsecond.
fn limit(r: &mut Rng) -> Option<u64> {
    match r.u32(0..4) {
        0 => Some([0, 1, 1000, 10_000, 100_000, 1_000_000][r.usize(0..6)]),
        _ => None,
    }
}
