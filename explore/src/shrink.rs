//! Shrinks a failing program to the smallest one that fails the same way.

use crate::joint::{Given, Joint, OperatorKind, Sizes, Taken, Taking};
use crate::judge::{Mistake, Wrong};
use crate::program::{Chosen, On, Program, Stage, Step};

/// The most runs that shrinking may take.
const MOST_RUNS: usize = 4000;

/// The number of orders tried with each smaller program, because one step less makes another order.
const ORDERS: u64 = 4;

/// Makes a failing program smaller for as long as it fails with the same kind of mistake. Returns the smallest program
/// found, with its mistake.
///
/// `run` runs a program, for example with [`run()`](crate::run()). [`Mistake::Value`] and [`Mistake::Unnoticed`] count as the same
/// kind. It takes at most 4000 runs.
pub fn shrink(program: Program, wrong: Wrong, run: &dyn Fn(&Program) -> Result<(), Wrong>) -> (Program, Wrong) {
    let mut least = (program, wrong);
    let mut runs = 0;
    let same = |a: Mistake, b: Mistake| {
        a == b || matches!((a, b), (Mistake::Value | Mistake::Unnoticed, Mistake::Value | Mistake::Unnoticed))
    };
    'smaller: loop {
        for candidate in candidates(&least.0) {
            for order in 0..ORDERS {
                if runs == MOST_RUNS {
                    return least;
                }
                runs += 1;
                let candidate = ordered(candidate.clone(), order);
                if let Err(wrong) = run(&candidate)
                    && same(wrong.kind, least.1.kind)
                {
                    least = (candidate, wrong);
                    continue 'smaller;
                }
            }
        }
        return least;
    }
}

fn ordered(mut program: Program, order: u64) -> Program {
    if let (On::Seeded { seed, .. } | On::Virtual { seed, .. }, 1..) = (&mut program.on, order) {
        *seed = order;
    }
    program
}

/// Programs that are smaller by one thing, the largest thing first.
fn candidates(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let mut change = |f: &dyn Fn(&mut Program)| {
        let mut smaller = program.clone();
        f(&mut smaller);
        if smaller != *program && smaller.is_sound() {
            all.push(smaller);
        }
    };
    let stages = program.stages.len();
    for i in (0..stages).filter(|_| stages > 1) {
        change(&|p| {
            drop(p.stages.remove(i));
            p.top_fails = p.top_fails.filter(|t| t.0 != i).map(|(at, how)| (at - usize::from(at > i), how));
        });
    }
    for (i, stage) in program.stages.iter().enumerate() {
        let n = stage.steps.len();
        for (from, to) in [(0, n / 2), (n / 2, n)] {
            change(&|p| drop(p.stages[i].steps.drain(from..to)));
        }
    }
    for (i, stage) in program.stages.iter().enumerate() {
        for at in 0..stage.steps.len() {
            change(&|p| _ = p.stages[i].steps.remove(at));
        }
    }
    for (i, stage) in program.stages.iter().enumerate() {
        for at in 0..stage.loose.len() {
            change(&|p| _ = p.stages[i].loose.remove(at));
        }
    }
    for which in 0..program.faults.len() {
        change(&|p| p.faults = p.faults.without(which));
    }
    let processors = program.processors();
    if let On::Virtual { nodes: 2.., .. } = program.on {
        change(&|p| {
            if let On::Virtual { nodes, .. } = &mut p.on {
                *nodes -= 1;
            }
        });
    }
    // The machine of a file may have many processors a node.
    for fewer in 1..processors.min(64) {
        change(&|p| {
            match &mut p.on {
                On::Seeded { processors, .. } => *processors = fewer,
                On::Virtual { nodes, per_node, .. } => (*nodes, *per_node) = (fewer, 1),
                On::Threads { workers } => *workers = fewer,
                // All of them take part in each run.
                On::Processes { processes, workers } => *workers = (fewer / *processes).max(1),
            }
            p.faults = p.faults.among(fewer);
        });
    }
    change(&|p| p.mapper = Chosen::Default);
    change(&|p| p.checks_races = false);
    for (i, stage) in program.stages.iter().enumerate() {
        for fewer in [1, 2, stage.shards / 2, stage.shards - 1] {
            if (1..stage.shards).contains(&fewer) {
                change(&|p| with_shards(&mut p.stages[i], fewer));
            }
        }
        change(&|p| p.stages[i].launches = 1);
        change(&|p| p.stages[i].by_parent = false);
        change(&|p| (p.stages[i].looks, p.stages[i].changes) = (false, false));
        change(&|p| p.stages[i].adopts = false);
        change(&|p| p.stages[i].destroys = false);
        change(&|p| p.stages[i].awaited = true);
        change(&|p| p.stages[i].width = 1);
        change(&|p| p.stages[i].buffers = 1);
        change(&|p| p.stages[i].daring = false);
        for which in 0..stage.phases.len() {
            change(&|p| without_phase(&mut p.stages[i], which));
            change(&|p| p.stages[i].phases[which].fold = None);
        }
        change(&|p| p.stages[i].arity = 2);
        change(&|p| p.stages[i].planned = false);
        for (which, joint) in stage.joints.iter().enumerate() {
            change(&|p| without_joint(&mut p.stages[i], which));
            change(&|p| unsplit(&mut p.stages[i], which));
            let mut joint_change = |f: &dyn Fn(&mut Joint)| {
                change(&|p| {
                    f(&mut p.stages[i].joints[which]);
                    p.stages[i].joints[which].mend(stage.shards);
                });
            };
            joint_change(&|j| j.kind = maniple::collectives::Kind::Reduce);
            joint_change(&|j| j.tells = false);
            joint_change(&|j| j.left = false);
            joint_change(&|j| j.operator = OperatorKind::Sum);
            joint_change(&|j| j.sizes = Sizes::One);
            joint_change(&|j| {
                if let Sizes::Each(n @ 2..) = &mut j.sizes {
                    *n = 1;
                }
            });
            joint_change(&|j| j.slots = 1);
            joint_change(&|j| j.algorithm = None);
            joint_change(&|j| j.receivers = j.contributors.clone());
            for fewer in 0..joint.receivers.len() {
                joint_change(&|j| without_shard(j, j.receivers[fewer], true));
            }
            for fewer in 0..joint.contributors.len() {
                joint_change(&|j| without_shard(j, j.contributors[fewer], false));
            }
        }
        for at in 0..stage.loose.len() {
            change(&|p| p.stages[i].loose[at].shards = 1);
            change(&|p| p.stages[i].loose[at].yields = 0);
            change(&|p| p.stages[i].loose[at].node = None);
            change(&|p| p.stages[i].loose[at].flow = false);
        }
        for at in 0..stage.steps.len() {
            change(&|p| p.stages[i].steps[at] = p.stages[i].steps[at].plain());
            let mut parts_change = |f: &dyn Fn(Option<&mut Given>, Option<&mut Taken>)| {
                change(&|p| {
                    let (given, taken) = p.stages[i].steps[at].parts_mut();
                    f(given, taken);
                });
            };
            parts_change(&|given, _| given.into_iter().for_each(|given| given.in_blocks = 0));
            parts_change(&|given, _| given.into_iter().for_each(|given| given.sizes = 0));
            parts_change(&|_, taken| taken.into_iter().for_each(|taken| taken.limit = None));
            for shard in 0..stage.shards as usize {
                parts_change(&|given, _| given.into_iter().for_each(|given| given.in_blocks &= !(1 << shard)));
                parts_change(&|_, taken| taken.into_iter().for_each(|taken| taken.by[shard] = Taking::Whole));
            }
        }
    }
    change(&|p| p.top_fails = None);
    let fails = program.is_wild() || !program.faults.losses.is_empty() || program.steps().any(|s| s.bomb().is_some());
    for i in (0..stages).filter(|_| !fails) {
        change(&|p| p.stages[i].loads = false);
    }
    change(&|p| p.rows = 1);
    change(&|p| p.cells = 8);
    all
}

fn with_shards(stage: &mut Stage, n: u32) {
    stage.shards = n;
    stage.to.truncate(n as usize);
    stage.to.iter_mut().for_each(|to| *to %= n);
    for phase in &mut stage.phases {
        phase.arrivers.retain(|&s| s < n);
        phase.waiters.retain(|&s| s < n);
    }
    stage.steps.retain(|step| step.at_phase().is_none_or(|(shard, _)| shard < n));
    for step in &mut stage.steps {
        match step {
            Step::Leaf { shard, .. }
            | Step::Index { shard, .. }
            | Step::Await { shard, .. }
            | Step::InVain { shard, .. }
            | Step::Yield { shard }
            | Step::Swap { shard, .. }
            | Step::Crash { shard, .. } => *shard %= n,
            Step::Exchange { bomb, .. }
            | Step::Barrier { bomb, .. }
            | Step::Board { bomb, .. }
            | Step::Call { bomb, .. }
            | Step::Contribute { bomb, .. } => {
                bomb.iter_mut().for_each(|b| b.1 %= n);
            }
            Step::Arrive { .. } | Step::Wait { .. } | Step::Forget { .. } | Step::Overrun { .. } => {}
            Step::Sum { .. } | Step::Receive { .. } => {}
        }
    }
    for which in (0..stage.joints.len()).rev() {
        let joint = &mut stage.joints[which];
        joint.contributors.retain(|&s| s < n);
        joint.receivers.retain(|&s| s < n);
        if joint.contributors.is_empty() || joint.receivers.is_empty() {
            without_joint(stage, which);
        } else {
            joint.mend(n);
        }
    }
}

/// Removes a phase and its steps.
fn without_phase(stage: &mut Stage, which: usize) {
    stage.phases.remove(which);
    stage.steps.retain(|step| step.at_phase().is_none_or(|(_, phase)| phase != which));
    for step in &mut stage.steps {
        if let Step::Arrive { phase, .. }
        | Step::Wait { phase, .. }
        | Step::Forget { phase, .. }
        | Step::Overrun { phase, .. } = step
            && *phase > which
        {
            *phase -= 1;
        }
    }
}

impl Program {
    /// The program with only the steps of its collectives of one name, such as `all-to-all`, if it has any.
    pub fn only(mut self, name: &str) -> Option<Program> {
        for stage in &mut self.stages {
            for which in (0..stage.joints.len()).rev() {
                if stage.joints[which].name() != name {
                    without_joint(stage, which);
                }
            }
            stage.steps.retain(|step| step.joint().is_some());
            (stage.loose, stage.phases, stage.daring) = (Vec::new(), Vec::new(), false);
        }
        (self.steps().next().is_some() && self.is_sound()).then_some(self)
    }
}

/// Removes a collective and the steps that call it.
fn without_joint(stage: &mut Stage, which: usize) {
    stage.joints.remove(which);
    stage.steps.retain(|step| step.joint() != Some(which));
    for step in &mut stage.steps {
        if let Step::Call { which: w, .. } | Step::Contribute { which: w, .. } | Step::Receive { which: w, .. } = step
            && *w > which
        {
            *w -= 1;
        }
    }
}

/// Has shards of a collective ask for results at once.
fn unsplit(stage: &mut Stage, which: usize) {
    stage.steps.retain(|step| !matches!(step, Step::Receive { which: w, .. } if *w == which));
    for step in &mut stage.steps {
        if let Step::Contribute { which: w, number, bomb, given } = *step
            && w == which
        {
            *step = Step::Call { which, number, bomb, given, taken: Taken::default() };
        }
    }
}

/// Leaves a shard out of those that receive or that contribute, or out of both where these are the same.
fn without_shard(joint: &mut Joint, shard: u32, receives: bool) {
    let together = joint.contributors == joint.receivers;
    for (set, of) in [(&mut joint.receivers, receives), (&mut joint.contributors, !receives)] {
        if (of || together) && set.len() > 1 {
            set.retain(|&s| s != shard);
        }
    }
}
