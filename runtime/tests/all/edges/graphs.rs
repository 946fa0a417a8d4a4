//! Values in graphs drawn from seeds, beside a sequential interpreter.

use super::runtimes;
use crate::common::{mix, run};
use maniple_runtime::{Arg, Edge, Edges, Error, Get, Many, Put, Shard, ShardLaunch, TaskFuture};

/// A graph drawn from a seed: shards, edges and their depth, and what is done at each step.
#[derive(Clone, Copy)]
struct Graph(u64);

const STEPS: u64 = 12;

impl Graph {
    fn draw(&self, what: u64, of: u64) -> u64 {
        mix(self.0 ^ mix(what)) % of
    }

    fn shards(&self) -> u32 {
        1 + self.draw(1, 5) as u32
    }

    fn depth(&self) -> u32 {
        // A task gets and puts: with less than 2, a cycle of them would wait for itself.
        2 + self.draw(2, 3) as u32
    }

    fn edges(&self) -> Vec<Edge> {
        let n = u64::from(self.shards());
        let count = 1 + self.draw(3, 3 * n);
        let edge = |i| Edge {
            from: self.draw(10 + 3 * i, n) as u32,
            to: self.draw(11 + 3 * i, n) as u32,
            tag: self.draw(12 + 3 * i, 3) as u32,
        };
        let mut edges: Vec<Edge> = (0..count).map(edge).collect();
        edges.sort();
        edges.dedup();
        edges
    }

    /// Whether a value travels along an edge from a step to the next one.
    fn travels(&self, edge: Edge, step: u64) -> bool {
        let Edge { from, to, tag } = edge;
        step + 1 < STEPS
            && !mix(self.0 ^ mix(u64::from(from) << 40 | u64::from(to) << 20 | u64::from(tag) << 10 | step))
                .is_multiple_of(3)
    }

    /// How many words travel: some fit the record of an arrival.
    fn length(&self, edge: Edge, step: u64) -> usize {
        [1, 3, 4, 200][(self.draw(1000 + step, 97) + u64::from(edge.tag)) as usize % 4]
    }
}

fn value(seen: u64, tag: u32, i: usize) -> u64 {
    mix(seen ^ u64::from(tag) << 32 ^ i as u64)
}

/// What a shard has seen after a step: its own number, and all that came.
fn fold(seen: u64, came: impl Iterator<Item = u64>) -> u64 {
    came.fold(mix(seen), |seen, word| mix(seen ^ word))
}

/// What each shard has seen after each step, found step by step.
fn expected(graph: Graph) -> Vec<Vec<u64>> {
    let edges = graph.edges();
    let mut seen: Vec<u64> = (0..u64::from(graph.shards())).collect();
    let mut all = vec![Vec::new(); seen.len()];
    for step in 0..STEPS {
        let before = seen.clone();
        for (s, seen) in (0u32..).zip(&mut seen) {
            let coming = edges.iter().filter(|e| e.to == s && step > 0 && graph.travels(**e, step - 1));
            let words = coming.flat_map(|e| {
                (0..graph.length(*e, step - 1)).map(|i| value(before[e.from as usize], e.tag, i)).collect::<Vec<_>>()
            });
            *seen = fold(*seen, words);
            all[s as usize].push(*seen);
        }
    }
    all
}

fn turn(came: Many<Get<u64>>, mut out: Many<Put<u64>>, tags: Arg<Vec<u32>>, seen: Arg<u64>) -> u64 {
    let seen = fold(*seen, came.iter().flat_map(|words| words.iter().copied()));
    for (out, tag) in out.iter_mut().zip(&*tags) {
        out.iter_mut().enumerate().for_each(|(i, word)| *word = value(seen, *tag, i));
    }
    seen
}

/// Steps of a graph as leaf tasks that only values order, launched as far ahead as they go.
async fn steps(shard: Shard, (seed, edges): (u64, Edges<u64>)) -> Result<Vec<u64>, Error> {
    let (graph, me) = (Graph(seed), shard.index());
    let (incoming, outgoing) = (edges.incoming(&shard)?, edges.outgoing(&shard)?);
    let mut seen = shard.launch(|me: Arg<u32>| u64::from(*me), (me.into(),)).go()?;
    let mut all: Vec<TaskFuture<u64>> = Vec::new();
    for step in 0..STEPS {
        let edge = |from, to, tag| Edge { from, to, tag };
        let gets = incoming.iter().filter(|c| step > 0 && graph.travels(edge(c.from(), me, c.tag()), step - 1));
        let puts = outgoing.iter().filter(|p| graph.travels(edge(me, p.to(), p.tag()), step));
        let tags: Vec<u32> = puts.clone().map(|p| p.tag()).collect();
        let puts = puts.map(|p| p.put(graph.length(edge(me, p.to(), p.tag()), step))).collect();
        let args = (gets.map(|c| c.get()).collect(), puts, tags.into(), (&seen).into());
        seen = shard.launch(turn, args).go()?;
        all.push(seen.clone());
    }
    let mut words = Vec::new();
    for seen in all {
        words.push(seen.await?);
    }
    Ok(words)
}

#[test]
pub(super) fn values_travel_as_a_sequential_interpreter_says_in_any_graph() {
    for (number, (name, runtime)) in (0u64..).zip(runtimes(120)) {
        let graph = Graph(mix(number));
        let at = format!("graph {number} on {name}");
        let came = run(&at, &runtime, move |top| async move {
            let gang = top.gang("graph", graph.shards())?;
            let edges = top.edges("edges", &gang, graph.edges(), graph.depth())?;
            let task = top.register("steps", steps);
            // Again, with the ends at the generations that the first launch has left them at.
            let first = top.launch_gang(&gang, &task, |_| ShardLaunch::new((graph.0, edges)))?.all().await?;
            let second = top.launch_gang(&gang, &task, |_| ShardLaunch::new((graph.0, edges)))?.all().await?;
            Ok((first, second))
        });
        let (first, second) = came.expect(&at);
        assert_eq!(first, expected(graph), "{at}");
        assert_eq!(second, first, "{at}, again");
    }
}
