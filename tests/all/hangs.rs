//! Ten classic mistakes, and the words in which the framework names each, as on the page `when_it_hangs`.

use crate::watched;
use maniple::mapper::Mapper;
use maniple::mapper::{LeafInput, LeafOutput, ProcessorId};
use maniple::prelude::*;
use maniple::runtime::Top;
use std::sync::Arc;

const U: Field<f64> = Field::new(0, "u");

fn nothing() {}

/// Two shards, each the producer of a pair for the other, and a phase barrier of both.
type Ends = (Edges, PhaseBarrier);

async fn lost_arrival(shard: Shard, (pairs, _): Ends) -> Result<(), Error> {
    let (to, from) = (pairs.producer(&shard, 1 - shard.index())?, pairs.consumer(&shard, 1 - shard.index())?);
    if shard.index() == 0 {
        shard.arrive(to.ready());
    }
    shard.launch(nothing, ()).named("use").wait(from.ready()).go()?.await
}

async fn wrong_generation(shard: Shard, (pairs, _): Ends) -> Result<(), Error> {
    let (to, from) = (pairs.producer(&shard, 1 - shard.index())?, pairs.consumer(&shard, 1 - shard.index())?);
    shard.arrive(to.ready());
    shard.wait(from.ready()).await?;
    if shard.index() == 0 {
        // Once too often: this is the next generation, not the same again.
        shard.wait(from.ready()).await?;
    }
    Ok(())
}

async fn missing_empty(shard: Shard, (pairs, _): Ends) -> Result<(), Error> {
    let (to, from) = (pairs.producer(&shard, 1 - shard.index())?, pairs.consumer(&shard, 1 - shard.index())?);
    for _ in 0..3 {
        shard.launch(nothing, ()).named("fill").wait(to.empty()).arrive(to.ready()).go()?.detach();
        // Should also arrive at `from.empty`.
        shard.launch(nothing, ()).named("use").wait(from.ready()).go()?.await?;
    }
    Ok(())
}

async fn self_wait(shard: Shard, (_, all): Ends) -> Result<(), Error> {
    let (arriver, waiter) = (all.arriver(&shard)?, all.waiter(&shard)?);
    if shard.index() == 1 {
        shard.wait(&waiter).await?;
    }
    shard.arrive(&arriver);
    Ok(())
}

async fn inversion(shard: Shard, (pairs, _): Ends) -> Result<(), Error> {
    let (to, from) = (pairs.producer(&shard, 1 - shard.index())?, pairs.consumer(&shard, 1 - shard.index())?);
    shard.launch(nothing, ()).named("first").wait(from.ready()).go()?.await?;
    shard.launch(nothing, ()).named("second").arrive(to.ready()).go()?.await
}

fn ends<A>(shard: fn(Shard, Ends) -> A) -> impl Fn(Top) -> BoxedRun + Clone
where
    A: Future<Output = Result<(), Error>> + 'static,
{
    move |top| {
        Box::pin(async move {
            let gang = top.gang("all", 2)?;
            let pairs = top.edges("ghosts", &gang, (0..gang.shards()).map(|s| (s, 1 - s)), 1)?;
            let all = top.phase_barrier("step", &gang, PhaseOptions::all(&gang))?;
            let task = top.register("main", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new((pairs, all)))?.all().await.map(drop)
        })
    }
}

type BoxedRun = std::pin::Pin<Box<dyn Future<Output = Result<(), Error>>>>;

async fn skips(shard: Shard, total: Collective<f64>) -> Result<(), Error> {
    for round in 0..3 {
        if (shard.index(), round) != (2, 1) {
            total.call(&shard, 1.0)?.await?;
        }
    }
    Ok(())
}

async fn panics(shard: Shard, total: Collective<f64>) -> Result<(), Error> {
    fn norm(x: Arg<f64>) -> f64 {
        assert!(*x >= 0.0, "the square of a norm is {}", *x);
        x.sqrt()
    }
    let local = shard.launch(norm, ((1.0 - f64::from(shard.index())).into(),)).go()?;
    total.call(&shard, &local)?.await.map(drop)
}

async fn dies(shard: Shard, total: Collective<f64>) -> Result<(), Error> {
    if shard.index() == 1 {
        return Err(Error::user("no input file"));
    }
    // The future of a call that shard 1 will never make.
    let sum = total.call(&shard, 1.0)?;
    shard.launch(|x: Arg<f64>| *x, ((&sum).into(),)).named("scale").go()?.await.map(drop)
}

fn summed<A>(shard: fn(Shard, Collective<f64>) -> A) -> impl Fn(Top) -> BoxedRun + Clone
where
    A: Future<Output = Result<(), Error>> + 'static,
{
    move |top| {
        Box::pin(async move {
            let gang = top.gang("all", 3)?;
            let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
            let task = top.register("main", shard);
            top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await.map(drop)
        })
    }
}

fn overlap(top: Top) -> BoxedRun {
    async fn shard(_: Shard, (): ()) -> Result<(), Error> {
        Ok(())
    }
    Box::pin(async move {
        let line = top.region_tree("line", Rect::line(0, 10), &[U.info()])?;
        let gang = top.gang("all", 2)?;
        let task = top.register("main", shard);
        // One cell too many on the right.
        let block = |s: i64| Region::new(line.tree, Rect::line(5 * s, (5 * s + 6).min(10)));
        top.launch_gang(&gang, &task, |s| ShardLaunch::new(()).writes(block(s.into()), [U]))?.all().await.map(drop)
    })
}

struct Lost;

impl Mapper for Lost {
    fn name(&self) -> &str {
        "lost"
    }
    fn map_leaf(&self, input: &LeafInput<'_>) -> LeafOutput {
        LeafOutput { processor: ProcessorId(input.machine.processors()), ..LeafOutput::local(input) }
    }
}

type Run = Box<dyn Fn(&Runtime) -> Error>;

/// Each section's title, what it runs, and whether with the mapper that is at fault.
fn mistakes() -> Vec<(&'static str, Run, bool)> {
    fn run<F>(program: F) -> Run
    where
        F: Fn(Top) -> BoxedRun + Clone + Send + Sync + 'static,
    {
        Box::new(move |runtime| runtime.run(program.clone()).expect_err("a mistake"))
    }
    vec![
        ("A lost arrival", run(ends(lost_arrival)), false),
        ("The wrong generation", run(ends(wrong_generation)), false),
        ("A missing empty", run(ends(missing_empty)), false),
        ("A wait for oneself", run(ends(self_wait)), false),
        ("Two barriers in opposite order", run(ends(inversion)), false),
        ("A collective that one shard skips", run(summed(skips)), false),
        ("A shard that panics", run(summed(panics)), false),
        ("Exclusive requirements that overlap", run(overlap), false),
        ("A future from a dead shard", run(summed(dies)), false),
        ("A processor that is not there", run(ends(lost_arrival)), true),
    ]
}

/// The block of text in each section of the page.
fn page() -> Vec<(String, String)> {
    let page = include_str!("../../src/guide/when_it_hangs.md");
    let sections = page.split("\n## ").skip(1).filter_map(|section| {
        let (title, rest) = section.split_once('\n')?;
        let (_, rest) = rest.split_once("```text\n")?;
        let (block, _) = rest.split_once("\n```")?;
        Some((title.into(), block.into()))
    });
    sections.collect()
}

#[test]
fn the_page_says_what_the_framework_says() {
    let page = page();
    let titles: Vec<&str> = page.iter().map(|(title, _)| title.as_str()).collect();
    let mistakes = mistakes();
    assert_eq!(titles, mistakes.iter().map(|m| m.0).collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for ((title, expected), (_, run, with_mapper)) in page.iter().zip(&mistakes) {
        let runtime = Runtime::seeded(2, 7);
        let runtime = if *with_mapper { runtime.mapper(Arc::new(Lost)) } else { runtime };
        let came = run(&runtime).to_string();
        if came != *expected {
            wrong.push(format!("## {title}\n```text\n{came}\n```"));
        }
    }
    assert!(wrong.is_empty(), "the page `when_it_hangs` should say:\n\n{}", wrong.join("\n\n"));
}

/// On threads too, and soon: whoever looks at it must not have to interrupt it.
#[test]
fn the_culprit_is_named_on_threads() {
    let words: [&[&str]; 10] = [
        &["task `use` of shard 0", "`ghosts` ready of edge shard 1 -> shard 0"],
        &["task `main` of shard 0", "generation 1", "generation 0 is complete", "shard 1"],
        &["task `fill` of shard", "generation 1 of `ghosts` empty", "generation 0 is complete"],
        &["missing for generation 0 of phase barrier `step`: shard 1", "a cycle", "task `main` of shard 1"],
        &["a cycle", "task `main` of shard 0", "task `main` of shard 1", "`first`"],
        &["missing in call", "of `total`: shard 2"],
        &["task `norm` of shard 2 panicked: the square of a norm is -1"],
        &["shard 0", "shard 1", "interfere", "use disjoint regions"],
        &["shard 1", "no input file"],
        &["mapper `lost`", "map_leaf", "illegal processor: 2", "legal: 0..2"],
    ];
    for ((title, run, with_mapper), words) in mistakes().into_iter().zip(words) {
        for _ in 0..3 {
            let runtime = Runtime::threads(2);
            let runtime = if with_mapper { runtime.mapper(Arc::new(Lost)) } else { runtime };
            let came = watched(title, || run(&runtime)).to_string();
            let unsaid: Vec<_> = words.iter().filter(|word| !came.contains(**word)).collect();
            assert!(unsaid.is_empty(), "{title}: {unsaid:?} not in\n{came}");
        }
    }
}
