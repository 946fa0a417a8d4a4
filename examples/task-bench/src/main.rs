//! Task Bench on maniple: each point of a graph is a shard, each dependence an edge, each task a leaf task.

mod core;

use crate::core::{App, Graph};
use maniple::prelude::*;
use maniple::runtime::Edge;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

const SCRATCH: Field<u8> = Field::new(0, "scratch");

static GRAPHS: OnceLock<Vec<Arc<Graph>>> = OnceLock::new();

fn graph(index: usize) -> &'static Graph {
    &GRAPHS.get().expect("set at the start")[index]
}

fn prepare(mut scratch: ReadWrite<u8>, index: Arg<usize>) {
    graph(*index).prepare(scratch.as_mut_slice());
}

fn execute(
    inputs: Many<Get<u8>>,
    mut output: Put<u8>,
    scratch: Option<ReadWrite<u8>>,
    index: Arg<usize>,
    timestep: Arg<i64>,
    point: Arg<u32>,
) {
    let mut scratch = scratch;
    let scratch = scratch.as_mut().map_or(&mut [][..], |scratch| scratch.as_mut_slice());
    graph(*index).execute(*timestep, *point, &mut output, &inputs, scratch);
}

/// One point of a graph, from the first timestep to the last.
async fn point(shard: Shard, (index, edges, block): (usize, Edges<u8>, Option<Region>)) -> Result<(), Error> {
    let (graph, me) = (graph(index), shard.index());
    let (incoming, outgoing) = (edges.incoming(&shard)?, edges.outgoing(&shard)?);
    // By set: the edges that bring what this point needs, in order, and those to the points that need its output.
    let sets = 0..graph.sets();
    let needs = sets.clone().map(|set| {
        let points = graph.needs(set, me);
        points.iter().filter_map(|p| incoming.iter().find(|edge| edge.from() == *p)).collect::<Vec<_>>()
    });
    let needs: Vec<Vec<_>> = needs.collect();
    let needed =
        sets.map(|set| outgoing.iter().filter(move |edge| graph.needs(set, edge.to()).contains(&me)).collect());
    let needed: Vec<Vec<_>> = needed.collect();
    let scratch = block.map(|block| shard.region(block)).transpose()?;
    if let Some(scratch) = &scratch {
        shard.launch(prepare, (scratch.read_write(SCRATCH), index.into())).go()?.detach();
    }
    for (timestep, three) in (0i64..).zip(graph.steps().windows(3)) {
        let [before, here, after] = three else { unreachable!("a window has three steps") };
        if here.row.contains(&me) {
            shard.window(Shard::WINDOW).await;
            let inputs = needs[here.set].iter().filter(|edge| before.row.contains(&edge.from()));
            let outputs = needed[after.set].iter().filter(|edge| after.row.contains(&edge.to()));
            let args = (
                inputs.map(|edge| edge.get()).collect(),
                Put::to(outputs.copied(), graph.output_bytes()),
                scratch.as_ref().map(|scratch| scratch.read_write(SCRATCH)),
                index.into(),
                timestep.into(),
                me.into(),
            );
            shard.launch(execute, args).go()?.detach();
        }
    }
    Ok(())
}

/// Runs all graphs at once, and again; gives the seconds of the second run.
async fn top_level(top: Top) -> Result<f64, Error> {
    let mut runs = Vec::new();
    for (index, graph) in GRAPHS.get().into_iter().flatten().enumerate() {
        let (width, bytes) = (graph.width(), graph.scratch_bytes());
        let gang = top.gang(&format!("points of graph {index}"), width)?;
        let all = (0..graph.sets()).flat_map(|set| {
            (0..width).flat_map(move |to| graph.needs(set, to).into_iter().map(move |from| Edge::from((from, to))))
        });
        let mut all: Vec<Edge> = all.collect();
        all.sort_unstable();
        all.dedup();
        let edges = top.edges("dependences", &gang, all, 16)?;
        let scratch = top.region_tree("scratch", Rect::line(0, (width as usize * bytes) as i64), &[SCRATCH.info()])?;
        let blocks: Vec<Region> = Partition::equal(scratch, width as usize)?.iter().collect();
        runs.push((index, gang, edges, blocks, top.register("point", point)));
    }
    let mut seconds = 0.0;
    for _ in 0..2 {
        let began = Instant::now();
        GRAPHS.get().into_iter().flatten().for_each(|graph| graph.look_up());
        let mut launched = Vec::new();
        for (index, gang, edges, blocks, task) in &runs {
            launched.push(top.launch_gang(gang, task, |s| {
                let block = Some(blocks[s as usize]).filter(|block| !block.rect.is_empty());
                let start = ShardLaunch::new((*index, *edges, block));
                block.into_iter().fold(start, |start, block| start.writes(block, [SCRATCH]))
            })?);
        }
        for launched in launched {
            launched.all().await?;
        }
        seconds = began.elapsed().as_secs_f64();
    }
    Ok(seconds)
}

fn main() -> ExitCode {
    let mut workers = None;
    let mut options: Vec<String> = std::env::args().collect();
    if let Some(at) = options.iter().position(|o| o == "-workers") {
        workers = options.get(at + 1).and_then(|n| n.parse().ok());
        if workers.is_none_or(|n: u32| n == 0) {
            eprintln!("task-bench: -workers needs a number from 1 on");
            return ExitCode::FAILURE;
        }
        options.drain(at..at + 2);
    }
    let app = App::new(options.into_iter());
    app.display();
    let _ = GRAPHS.set(app.graphs());
    let workers = workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32));
    match Runtime::threads(workers).run(top_level) {
        Ok((seconds, _)) => {
            app.report_timing(seconds);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("task-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
