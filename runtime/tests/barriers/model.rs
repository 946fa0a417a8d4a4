//! What a program must do, found without a runtime: every step is a node of a graph, arrivals are edges.

use crate::program::{By, Phase, Program, Step, joined};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Barrier {
    Phase(usize),
    /// Family of pairs and producer.
    Ready(usize, u32),
    Empty(usize, u32),
}

/// Something that happens at one point of the order: a shard's own step, or a leaf task.
#[derive(Debug)]
struct Node {
    shard: u32,
    leaf: Option<&'static str>,
    /// The shard's step before this one; a wait is registered once it is over.
    previous: Option<usize>,
    after: Vec<usize>,
    waits: Option<(Barrier, u64)>,
    makes: Makes,
}

#[derive(Debug, Clone, Copy)]
enum Makes {
    Nothing,
    /// Writes a number (and carries it to a reduction, if the shard itself does).
    Put(Number),
    Folded(usize, u64),
    Looked(usize, u64, Number),
    Taken(usize, u32, u64, Number),
    Updated(Number),
    Joined(Number, Number),
}

#[derive(Debug, Clone, Copy)]
enum Number {
    Now(i64),
    Of(usize),
}

/// A wait that is never over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    pub shard: u32,
    pub leaf: Option<&'static str>,
    pub barrier: String,
    pub generation: u64,
    /// Who does not arrive for it, or for one before it, at a phase barrier, ascending.
    pub missing: Vec<u32>,
}

#[derive(Debug)]
pub struct Prediction {
    /// What every shard returns, unless some wait is never over.
    pub values: Result<Vec<Vec<i64>>, Vec<Stuck>>,
    /// Arrivals that may come before their barrier's window has moved far enough.
    pub overruns: Vec<Overrun>,
}

/// Phase, position in its list of arrivers, generation.
pub type Overrun = (usize, u32, u64);

#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    /// The nodes with which a shard arrives, in the order of generations.
    arrivals: BTreeMap<(Barrier, u32), Vec<usize>>,
    /// The nodes behind each shard's values.
    values: Vec<Vec<Number>>,
    /// The last step of each shard.
    last: Vec<Option<usize>>,
}

impl Graph {
    fn of(program: &Program) -> Self {
        let mut graph = Graph::default();
        for shard in 0..program.shards {
            graph.add_shard(program, shard);
        }
        graph
    }

    fn arrive(&mut self, barrier: Barrier, shard: u32, node: usize) {
        self.arrivals.entry((barrier, shard)).or_default().push(node);
    }

    fn add_shard(&mut self, program: &Program, shard: u32) {
        let mut previous = None;
        let mut values = vec![Number::Now(i64::from(shard))];
        let mut updated = None;
        let mut waits: BTreeMap<Barrier, u64> = BTreeMap::new();
        let mut next = |b: Barrier| {
            let count = waits.entry(b).or_default();
            *count += 1;
            *count - 1
        };
        for step in &program.scripts[shard as usize] {
            let number = |of: usize| values[of % values.len()];
            let node = |leaf, needs: &[Number], also: Option<usize>, waits, makes| {
                let needed = needs.iter().filter_map(|n| if let Number::Of(node) = n { Some(*node) } else { None });
                let after = needed.chain(previous).chain(also).collect();
                Node { shard, leaf, previous, after, waits, makes }
            };
            let task = |by: By, name| (by == By::Leaf).then_some(name);
            let at = self.nodes.len();
            let by = match *step {
                Step::Arrive { phase, value, of, by } => {
                    let number = if by == By::Leaf { number(of) } else { Number::Now(value) };
                    let needs: &[Number] = if by == By::Leaf { &[number] } else { &[] };
                    self.nodes.push(node(task(by, "put"), needs, None, None, Makes::Put(number)));
                    self.arrive(Barrier::Phase(phase), shard, at);
                    by
                }
                Step::Wait { phase, of, by: By::Leaf } => {
                    let g = next(Barrier::Phase(phase));
                    let (waits, makes) = (Some((Barrier::Phase(phase), g)), Makes::Looked(phase, g, number(of)));
                    self.nodes.push(node(Some("look"), &[number(of)], None, waits, makes));
                    By::Leaf
                }
                // The wait is a step of the shard, the look that follows is not.
                Step::Wait { phase, of, by: By::Shard } => {
                    let g = next(Barrier::Phase(phase));
                    let (value, makes) = match program.phases[phase].fold {
                        Some(_) => (Number::Of(at), Makes::Folded(phase, g)),
                        None => (number(of), Makes::Nothing),
                    };
                    let look = node(Some("look"), &[value, Number::Of(at)], None, None, Makes::Looked(phase, g, value));
                    self.nodes.push(node(None, &[], None, Some((Barrier::Phase(phase), g)), makes));
                    self.nodes.push(look);
                    previous = Some(at);
                    values.push(Number::Of(at + 1));
                    continue;
                }
                Step::Fill { pairs, of, by } => {
                    let g = next(Barrier::Empty(pairs, shard));
                    // The first fill of each buffer finds room.
                    let before = g.checked_sub(program.pairs[pairs].buffers);
                    let waits = before.map(|before| (Barrier::Empty(pairs, shard), before));
                    self.nodes.push(node(task(by, "put"), &[number(of)], None, waits, Makes::Put(number(of))));
                    self.arrive(Barrier::Ready(pairs, shard), shard, at);
                    by
                }
                Step::Take { pairs, from, of, by } => {
                    let g = next(Barrier::Ready(pairs, from));
                    let waits = Some((Barrier::Ready(pairs, from), g));
                    let makes = Makes::Taken(pairs, from, g, number(of));
                    self.nodes.push(node(task(by, "look"), &[number(of)], None, waits, makes));
                    self.arrive(Barrier::Empty(pairs, from), shard, at);
                    by
                }
                Step::Update { of } => {
                    self.nodes.push(node(Some("update"), &[number(of)], updated, None, Makes::Updated(number(of))));
                    updated = Some(at);
                    By::Leaf
                }
                Step::Join { of, with_of } => {
                    let (a, b) = (number(of), number(with_of));
                    self.nodes.push(node(Some("join"), &[a, b], None, None, Makes::Joined(a, b)));
                    By::Leaf
                }
                Step::Await { of } => {
                    self.nodes.push(node(None, &[number(of)], None, None, Makes::Nothing));
                    previous = Some(at);
                    continue;
                }
                Step::Yield => continue,
            };
            if by == By::Shard {
                previous = Some(at);
            }
            values.push(Number::Of(at));
        }
        self.values.push(values);
        self.last.push(previous);
    }

    /// The arrivals that complete a generation, those for it and for all before it; `None` when one is never made.
    fn completing(&self, program: &Program, (barrier, generation): (Barrier, u64)) -> Option<Vec<usize>> {
        let arrivers = arrivers(program, barrier);
        let arrivals = arrivers.iter().flat_map(|s| (0..=generation).map(|g| self.arrival(barrier, *s, g)));
        arrivals.collect()
    }

    /// The node with which a shard arrives for a generation.
    fn arrival(&self, barrier: Barrier, shard: u32, generation: u64) -> Option<usize> {
        self.arrivals.get(&(barrier, shard))?.get(generation as usize).copied()
    }
}

fn arrivers(program: &Program, barrier: Barrier) -> Vec<u32> {
    match barrier {
        Barrier::Phase(p) => program.phases[p].arrivers.clone(),
        Barrier::Ready(_, producer) => vec![producer],
        Barrier::Empty(p, producer) => vec![program.pairs[p].to[producer as usize]],
    }
}

/// What is known of a node that has happened.
#[derive(Debug, Clone, Default)]
struct Done {
    value: i64,
    written: i64,
    /// Generations of each phase that are over for certain when this happens.
    over: Vec<u64>,
}

pub fn predict(program: &Program) -> Prediction {
    let graph = Graph::of(program);
    let nodes = &graph.nodes;
    let mut done: Vec<Option<Done>> = vec![None; nodes.len()];
    let mut own = vec![[0i64; 3]; program.shards as usize];
    loop {
        let before = done.iter().flatten().count();
        for (at, node) in nodes.iter().enumerate() {
            let arrivals = node.waits.map_or(Some(Vec::new()), |w| graph.completing(program, w));
            let Some(arrivals) = arrivals else { continue };
            let earlier: Option<Vec<&Done>> = node.after.iter().chain(&arrivals).map(|&n| done[n].as_ref()).collect();
            if let (None, Some(earlier)) = (&done[at], earlier) {
                let mut over = vec![0; program.phases.len()];
                for e in earlier {
                    over.iter_mut().zip(&e.over).for_each(|(o, e)| *o = (*o).max(*e));
                }
                if let Some((Barrier::Phase(p), g)) = node.waits {
                    over[p] = over[p].max(g + 1);
                }
                let made = make(program, &graph, &done, &mut own[node.shard as usize], node);
                done[at] = Some(Done { over, ..made });
            }
        }
        if done.iter().flatten().count() == before {
            break;
        }
    }
    let mut overruns = Vec::new();
    for ((barrier, shard), nodes) in &graph.arrivals {
        let Barrier::Phase(p) = *barrier else { continue };
        let Phase { arrivers, window, .. } = &program.phases[p];
        let position = arrivers.iter().take_while(|s| *s != shard).count() as u32;
        let early = |(g, d): &(u64, &Done)| d.over[p] + window < *g;
        let arrived = (0..).zip(nodes).filter_map(|(g, &n)| Some((g, done[n].as_ref()?)));
        overruns.extend(arrived.filter(early).map(|(g, _)| (p, position, g)));
    }
    if done.iter().all(Option::is_some) {
        let value = |n: &Number| number(&done, *n);
        let values = graph.values.iter().map(|all| all.iter().map(value).collect()).collect();
        return Prediction { values: Ok(values), overruns };
    }
    Prediction { values: Err(stuck(program, &graph, &done)), overruns }
}

fn number(done: &[Option<Done>], n: Number) -> i64 {
    match n {
        Number::Now(v) => v,
        Number::Of(node) => done[node].as_ref().map_or(0, |d| d.value),
    }
}

fn make(program: &Program, graph: &Graph, done: &[Option<Done>], own: &mut [i64; 3], node: &Node) -> Done {
    let number = |n| number(done, n);
    let written = |n: &usize| done[*n].as_ref().map_or(0, |d| d.written);
    let at = |b, g| arrivers(program, b).into_iter().filter_map(move |s| graph.arrival(b, s, g));
    let value = match node.makes {
        Makes::Nothing => 0,
        Makes::Put(n) => return Done { written: number(n), value: joined(number(n), 1), over: Vec::new() },
        Makes::Folded(p, g) => {
            let Some(fold) = program.phases[p].fold else { return Done::default() };
            // A leaf's arrival carries nothing.
            let carried = |n: &usize| if graph.nodes[*n].leaf.is_some() { 0 } else { written(n) as u64 };
            let arrivals = at(Barrier::Phase(p), g);
            arrivals.map(|n| carried(&n)).reduce(|a, b| fold.call(a, b)).unwrap_or(0) as i64
        }
        Makes::Looked(p, g, n) => {
            let arrivals = graph.completing(program, (Barrier::Phase(p), g)).unwrap_or_default();
            arrivals.iter().fold(number(n), |sum, arrival| joined(sum, written(arrival)))
        }
        Makes::Taken(p, from, g, n) => {
            at(Barrier::Ready(p, from), g).fold(number(n), |sum, arrival| joined(sum, written(&arrival)))
        }
        Makes::Updated(n) => own.iter_mut().fold(number(n), |sum, v| {
            let sum = joined(sum, *v);
            *v = joined(*v, sum);
            sum
        }),
        Makes::Joined(a, b) => joined(number(a), number(b)),
    };
    Done { value, ..Done::default() }
}

fn stuck(program: &Program, graph: &Graph, done: &[Option<Done>]) -> Vec<Stuck> {
    let mut all = Vec::new();
    for (node, _) in graph.nodes.iter().zip(done).filter(|(_, d)| d.is_none()) {
        let Some((barrier, generation)) = node.waits else { continue };
        if node.previous.is_some_and(|p| done[p].is_none()) {
            continue;
        }
        let is_done = |n: Option<usize>| n.is_some_and(|n| done[n].is_some());
        let arrived = |s: &u32| (0..=generation).all(|g| is_done(graph.arrival(barrier, *s, g)));
        let missing: BTreeSet<u32> = arrivers(program, barrier).into_iter().filter(|s| !arrived(s)).collect();
        if missing.is_empty() {
            continue;
        }
        let (barrier, generation) = match barrier {
            Barrier::Phase(p) => (format!("`phase {p}`"), generation),
            Barrier::Ready(p, _) => (format!("`pairs {p}`"), generation),
            // Generation 0 was there from the start.
            Barrier::Empty(p, _) => (format!("`pairs {p}`"), generation + 1),
        };
        all.push(Stuck {
            shard: node.shard,
            leaf: node.leaf,
            barrier,
            generation,
            missing: missing.into_iter().collect(),
        });
    }
    all
}
