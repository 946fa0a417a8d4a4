//! The description of a program in words.

use crate::area::{Area, AreaPart};
use crate::joint::{Given, Joint, OperatorKind, Sizes, Taken, Taking};
use crate::phases::Phase;
use crate::program::{Act, Chosen, Failing, Loose, Number, On, Op, Program, Step};
use maniple::collectives::Kind;
use std::fmt;

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chosen::Default => f.write_str("default"),
            Chosen::Collective => f.write_str("collective"),
            Chosen::RoundRobin => f.write_str("round-robin"),
            Chosen::First => f.write_str("first"),
            Chosen::Random(seed) => write!(f, "random,seed={seed}"),
            Chosen::Logged(seed) => write!(f, "random,seed={seed}, logged"),
            Chosen::Numa => f.write_str("numa, of two nodes"),
            Chosen::Wild(seed) => write!(f, "wild, seed {seed}"),
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            On::Seeded { processors, seed } => write!(f, "{processors} seeded processors, order {seed}"),
            On::Threads { workers } => write!(f, "{workers} threads"),
            On::Processes { processes, workers } => write!(f, "{processes} processes of {workers}"),
            On::Virtual { nodes, per_node, seed } => write!(f, "{nodes} virtual nodes of {per_node}, seed {seed}"),
        }
    }
}

fn number(n: Number) -> String {
    match n {
        Number::Given(k) => k.to_string(),
        Number::Of(i) => format!("value {i}"),
    }
}

fn operator(o: u8) -> &'static str {
    ["sum", "product", "max"][o as usize % 3]
}

fn limit(limit: Option<u64>) -> String {
    limit.map_or(String::new(), |ns| format!(", with deadlines that grow from {ns} ns"))
}

fn goes_off(bomb: Option<u32>) -> String {
    bomb.map_or(String::new(), |b| format!(": PANICS, bomb {b}"))
}

fn bomb_at(bomb: Option<(u32, u32)>) -> String {
    bomb.map_or(String::new(), |(b, s)| format!("; the task of shard {s} PANICS, bomb {b}"))
}

/// A collective: its kind, sizes, operator, shards and options.
fn describe(joint: &Joint, shards: u32) -> String {
    let mut text = joint.name().to_string();
    let each = if joint.has_blocks() { " a block" } else { "" };
    let plural = |n: usize| if n == 1 { "1 element".into() } else { format!("{n} elements") };
    text += &match (&joint.sizes, joint.kind) {
        (_, Kind::Barrier) => String::new(),
        (Sizes::One, _) => format!(" of one element{each}"),
        (Sizes::Each(n), _) => format!(" of vectors of {}{each}", plural(*n)),
        (Sizes::Any, _) => " of any sizes".into(),
        (Sizes::Blocks(sizes), Kind::AllToAll) => format!(" of blocks of {sizes:?} elements in turn"),
        (Sizes::Blocks(sizes), kind) => {
            let of = if kind == Kind::Gather { &joint.contributors } else { &joint.receivers };
            let sizes: Vec<usize> = of.iter().map(|&s| sizes[s as usize]).collect();
            format!(" of blocks of {sizes:?} elements")
        }
    };
    if joint.combines() {
        text += match joint.operator {
            OperatorKind::Sum => " by sum",
            OperatorKind::Max => " by max",
            OperatorKind::Composition => " by composition",
            OperatorKind::Associative => " by composition, said to be associative,",
            OperatorKind::Digits => " by digits",
        };
        text += if joint.left { " from left to right" } else { "" };
    }
    let all = |set: &[u32]| set.len() == shards as usize;
    let said = |set: &[u32]| if all(set) { "all shards".into() } else { format!("shards {set:?}") };
    text += &match joint.contributors == joint.receivers {
        true if all(&joint.contributors) => String::new(),
        true => format!(" among {}", said(&joint.contributors)),
        false => format!(" from {} to {}", said(&joint.contributors), said(&joint.receivers)),
    };
    let algorithm = joint.algorithm.map_or("algorithm of the mapper".into(), |a| a.to_string());
    let slots = if joint.slots == 1 { "1 slot".into() } else { format!("{} slots", joint.slots) };
    let tells = if joint.tells { ", contributors look at the ends of their parts" } else { "" };
    format!("{text}; {slots}, {algorithm}{tells}")
}

/// The shards that contribute in blocks, and the sizes of these if they are drawn for each call.
fn gives(joint: &Joint, given: Given, bomb: Option<(u32, u32)>) -> String {
    let in_blocks: Vec<u32> = joint.contributors.iter().copied().filter(|&s| joint.gives_blocks(s, given)).collect();
    let mut text = String::new();
    if !in_blocks.is_empty() {
        text += &format!(", in shards {in_blocks:?} in blocks");
        if bomb.is_some_and(|(_, s)| in_blocks.contains(&s)) {
            text += &format!(" (the task that panics makes block {})", usize::from(given.hit) % joint.blocks());
        }
    }
    if joint.sizes == Sizes::Any {
        let of = |from: usize| -> Vec<usize> { (0..joint.blocks()).map(|to| joint.block(from, to, given)).collect() };
        let sizes: Vec<Vec<usize>> = (0..joint.contributors.len()).map(of).collect();
        text += &format!(", of sizes {sizes:?}");
    }
    text
}

/// The shards that take their results in parts, and how.
fn takes(joint: &Joint, taken: &Taken, split: bool) -> String {
    let ways = [
        (Taking::Tasks, "with a task for each"),
        (Taking::Each, "awaiting one after the other"),
        (Taking::All, "awaiting all together"),
        (Taking::Next, "awaiting the next again and again"),
        (Taking::Dropped, "awaiting none"),
    ];
    let mut text = String::new();
    for (taking, how) in ways {
        let so = |&s: &u32| joint.taking(s, taken, split) == taking;
        let shards: Vec<u32> = joint.receivers.iter().copied().filter(so).collect();
        if !shards.is_empty() {
            text += &format!("; shards {shards:?} take it in parts, {how}");
            if !matches!(taking, Taking::Tasks | Taking::Dropped) {
                text += &limit(taken.limit);
            }
        }
    }
    text
}

const FIELDS: [&str; 3] = ["a", "b", "c"];

fn op(op: Op, block: Area, all: Area) -> String {
    let field = |f: usize| FIELDS[f % 3];
    let part = |at: AreaPart| at.of(block);
    match op {
        Op::Digest(f, at) => format!("digests {}{}", field(f), part(at)),
        Op::Set(f, at, k) => format!("sets {}{} with {}", field(f), part(at), number(k)),
        Op::Update(f, at, k) => format!("updates {}{} with {}", field(f), part(at), number(k)),
        Op::Fold(f, at, o, k) => {
            format!("folds {} into {}{} by {}", number(k), field(f), part(at), operator(o))
        }
        Op::Mix(f, from, into) => {
            format!("reads {}{} and updates {}{}", field(f), part(from), field(f + 1), part(into))
        }
        Op::Three(f, swap, at, k) => {
            let ((g, h), at) = (Op::others(f, swap), part(at));
            format!("reads {}{at}, sums it into {} and sets {} with {}", field(f), field(g), field(h), number(k))
        }
        Op::Far(f, at) => {
            format!("digests {}{} of the other tree", field(f), at.of(all))
        }
        Op::Atomic(f, at, k) => format!("updates {}{} with {} atomically", field(f), part(at), number(k)),
        Op::Fill(f, at, v) => format!("fills {}{} with {v}", field(f), part(at)),
        Op::Copy(f, at) => format!("copies {}{} to {}", field(f), part(at), field(f + 1)),
        Op::Join(a, b) => format!("joins {} and {}", number(a), number(b)),
    }
}

impl Program {
    fn loosely(&self, stage: usize, loose: &Loose) -> String {
        let (tree, act) = self.loose(stage, loose);
        let (first, last) = (self.loose_block(loose, 0), self.loose_block(loose, loose.shards - 1));
        let at = first.slice(first.lo[0], last.hi[0]);
        let at = format!("{}.{}{at}", ["x", "y"][tree], FIELDS[loose.field]);
        let does = match act {
            Act::Digest => format!("digest {at}"),
            Act::Set => format!("set {at} with {}", loose.number),
            Act::Update => format!("update {at} with {}", loose.number),
            Act::Fold(o) => format!("fold {} into {at} by {}", loose.number, operator(o)),
        };
        if loose.flow && !self.stages[stage].by_parent {
            let node = loose.node.map_or(String::new(), |node| format!(" on node {node}, modulo their number"));
            let window = if loose.yields > 0 { format!(", and a window of {}", loose.yields) } else { String::new() };
            return format!("flow: {} tasks {does}{node}{window}", loose.shards);
        }
        let yields = if loose.yields > 0 { format!(" after {} yields", loose.yields) } else { String::new() };
        format!("loose launch: {} shards of gang {} {does}{yields}", loose.shards, loose.gang)
    }

    fn step(&self, stage: usize, step: Step) -> String {
        match step {
            Step::Leaf { shard, op: o, priority, bomb, detached } => {
                let detached = if detached { ", detached," } else { "" };
                let priority = priority.map_or(String::new(), |p| format!(" at priority {p}"));
                format!(
                    "shard {shard}: a task{priority}{detached} {}{}",
                    op(o, self.block(stage, shard), self.all()),
                    goes_off(bomb)
                )
            }
            Step::Index { shard, field, points, looks, number: k, bomb, all } => {
                let all = all.map_or(String::new(), |l| format!(", all awaited{}", limit(Some(l))));
                let points = Program::points(self.block(stage, shard), points, looks).len();
                let bomb =
                    bomb.map_or(String::new(), |(b, i)| format!(": point {} PANICS, bomb {b}", i as usize % points));
                let does = match looks {
                    true => format!("digest a part of {} each", FIELDS[field]),
                    false => format!("update a part of {} each with {}", FIELDS[field], number(k)),
                };
                format!("shard {shard}: {points} tasks {does}{all}{bomb}")
            }
            Step::Await { shard, value, limit: l } => format!("shard {shard}: awaits value {value}{}", limit(l)),
            Step::InVain { shard, limit } => format!("shard {shard}: waits {limit} ns for a barrier without arrivals"),
            Step::Yield { shard } => format!("shard {shard}: yields"),
            Step::Exchange { number: k, waits, limit: l, bomb } => {
                let how = if waits { format!(" after the shard has waited{}", limit(l)) } else { String::new() };
                format!(
                    "every shard: a task puts {} into its slot, another takes the values for this shard{how}{}",
                    number(k),
                    bomb_at(bomb)
                )
            }
            Step::Sum { limit: l } => format!("every shard: arrives with a value, and waits for all{}", limit(l)),
            Step::Barrier { number: k, waits, limit: l, bomb } => {
                let who = if waits { format!("the shard{}", limit(l)) } else { "another".into() };
                format!(
                    "every shard: a task takes {} and arrives at a barrier, {who} waits{}",
                    number(k),
                    bomb_at(bomb)
                )
            }
            Step::Board { number: k, bomb } => {
                let bomb = bomb_at(bomb);
                format!(
                    "every shard: between barriers updates its part of a shared region with {}, then digests all of it{bomb}",
                    number(k)
                )
            }
            Step::Arrive { shard, phase, number: k, own, bomb } => {
                let how = match own {
                    true => format!("writes {} and arrives", k.known()),
                    false => format!("a task writes {} and arrives", number(k)),
                };
                format!("shard {shard}: {how} at phase {phase}{}", goes_off(bomb))
            }
            Step::Wait { shard, phase, own, limit: l } => {
                let who = if own { format!("waits{} and a task", limit(l)) } else { "a task waits and".into() };
                format!("shard {shard}: {who} reads the values written up to the next generation of phase {phase}")
            }
            Step::Forget { shard, phase } => format!("shard {shard}: FORGETS to arrive at phase {phase}"),
            Step::Overrun { shard, phase } => format!("shard {shard}: arrives at phase {phase} until it is REFUSED"),
            Step::Call { which, number: k, bomb, given, taken } => format!(
                "every shard of collective {which}: contributes {}{} and asks for the result{}{}",
                number(k),
                gives(&self.stages[stage].joints[which], given, bomb),
                takes(&self.stages[stage].joints[which], &taken, false),
                bomb_at(bomb)
            ),
            Step::Contribute { which, number: k, bomb, given } => {
                let given = gives(&self.stages[stage].joints[which], given, bomb);
                format!("every contributor of collective {which}: contributes {}{given}{}", number(k), bomb_at(bomb))
            }
            Step::Receive { which, taken } => {
                let taken = takes(&self.stages[stage].joints[which], &taken, true);
                format!(
                    "every receiver of collective {which}: asks for the oldest result that it has not asked for{taken}"
                )
            }
            Step::Swap { shard, mapper } => format!("shard {shard}: replaces the mapper by {mapper}"),
            Step::Crash { shard, bomb, how } => {
                let how = if how == Failing::Panics { "PANICS" } else { "returns an ERROR" };
                format!("shard {shard}: awaits its values and {how}, bomb {bomb}")
            }
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let races = if self.checks_races { ", looking for races" } else { "" };
        writeln!(f, "on {}{races}; mapper {}; faults: {}", self.on, self.mapper, self.faults)?;
        for (i, stage) in self.stages.iter().enumerate() {
            let by = if stage.by_parent { "an inner task" } else { "the top-level task" };
            let tree = ["x", "y"][stage.tree];
            write!(f, "stage {i}: {by} launches {} shards on tree {tree} of points {}", stage.shards, self.all())?;
            if stage.launches > 1 {
                write!(f, ", {} times", stage.launches)?;
            }
            let parent = [(stage.looks, ", then looks at the tree"), (stage.changes, ", then changes the tree")];
            for (_, what) in parent.iter().filter(|(on, _)| stage.by_parent && *on) {
                f.write_str(what)?;
            }
            let flags = [
                (stage.daring, "shards may arrive too early"),
                (stage.awaited, "the top-level task awaits it"),
                (stage.adopts, "the top-level task then replaces the mapper by the one of the last shard that did"),
                (stage.destroys, "the top-level task destroys what it made for the stage once that is launched"),
            ];
            for (_, what) in flags.iter().filter(|(on, _)| *on) {
                write!(f, ", {what}")?;
            }
            writeln!(f, "; slots of {} parts of {} points, read by shards {:?}", stage.buffers, stage.width, stage.to)?;
            for (at, Phase { arrivers, waiters, window, fold, .. }) in stage.phases.iter().enumerate() {
                let fold = fold
                    .map_or(String::new(), |how| format!(", folds by {}", ["digits", "sum", "max"][how as usize % 3]));
                writeln!(f, "  phase {at}: {arrivers:?} arrive, {waiters:?} wait, window {window}{fold}")?;
            }
            for (at, joint) in stage.joints.iter().enumerate() {
                writeln!(f, "  collective {at}: {}", describe(joint, stage.shards))?;
            }
            if stage.planned && !stage.joints.is_empty() {
                writeln!(f, "  the collectives are made as one plan")?;
            }
            for loose in &stage.loose {
                writeln!(f, "  {}", self.loosely(i, loose))?;
            }
            if stage.loads {
                writeln!(f, "  every shard: sets its block")?;
            }
            for &step in &stage.steps {
                writeln!(f, "  {}", self.step(i, step))?;
            }
        }
        if let Some((at, how)) = self.top_fails {
            let how = if how == Failing::Panics { "PANICS" } else { "returns an ERROR" };
            writeln!(f, "after stage {at} the top-level task {how}")?;
        }
        write!(f, "at the end every shard digests its block and awaits all its values")
    }
}
